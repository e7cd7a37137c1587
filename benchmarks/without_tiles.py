"""A process on a processor with matrix tiles, as if it had none: for figures of its vector instructions, and of libraries' code for them.

In: nothing. Out: :func:`refuse`, after which the system refuses the registers of tiles to this process and all that it starts, and
:data:`VARIABLES`, by which libraries are told. Whoever asks as it must (``arch_prctl(ARCH_REQ_XCOMP_PERM)``, see Linux's
Documentation/arch/x86/xstate.rst) learns that there are none.

The system calls are answered by a filter of seccomp(2), a program of classic BPF; numbers are those of linux/seccomp.h, linux/filter.h,
linux/audit.h and asm/prctl.h.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from typing import Final

VARIABLES: Final = {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16", "MKL_ENABLE_INSTRUCTIONS": "AVX512_E3"}
"""oneDNN's and MKL's own words for AVX-512 with dot products of bfloat16 and no tiles."""

_NO_NEW_PRIVILEGES, _SET_FILTER, _MODE_FILTER = 38, 22, 2
_X86_64: Final = 0xC000003E
_ARCH_PRCTL, _REQUEST_PERMISSION = 158, 0x1023
_ALLOW: Final = 0x7FFF0000
_REFUSE: Final = 0x00050000 | 1  # the call answers EPERM
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16


def refuse() -> None:
    """From here on nobody gets tiles. Raises OSError where the system does not take the filter."""
    if platform.machine() != "x86_64":
        raise OSError(f"{platform.machine()} has no tiles of this kind")
    steps = (
        (_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 0, 5, _X86_64),
        (_LOAD, 0, 0, _NUMBER), (_EQUAL, 0, 3, _ARCH_PRCTL),
        (_LOAD, 0, 0, _FIRST_ARGUMENT), (_EQUAL, 0, 1, _REQUEST_PERMISSION),
        (_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW),
    )  # fmt: skip
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("@HP", len(steps), ctypes.addressof(code)))
    library = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    for option, first, second in ((_NO_NEW_PRIVILEGES, 1, zero), (_SET_FILTER, _MODE_FILTER, ctypes.byref(program))):
        if library.prctl(ctypes.c_int(option), ctypes.c_ulong(first), second, zero, zero):
            raise OSError(ctypes.get_errno(), f"prctl({option}): {os.strerror(ctypes.get_errno())}")
