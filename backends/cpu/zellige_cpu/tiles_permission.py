"""The operating system's leave to use the registers of matrix tiles.

In: nothing. Out: :func:`asked_for`, which asks once a process and says why the answer was no, if it was.

Linux saves these registers (8 KiB) only for processes that asked for them: ``arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)`` holds
for all threads, those of later too, and for children made by fork; without it the first use of a tile kills the process. The numbers are
those of Linux's Documentation/arch/x86/xstate.rst and asm/prctl.h. A kernel that does not know the question (before 5.16) refuses it.
"""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from typing import Final

_ARCH_PRCTL: Final = 158
_REQUEST_PERMISSION: Final = 0x1023
_TILE_DATA: Final = 18


@lru_cache(maxsize=1)
def asked_for() -> str:
    """Ask; empty where this process may use tiles, else why not."""
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "syscall"):
        return "this system has no call by which a process asks for the registers of tiles"
    number = ctypes.c_long(library.syscall(ctypes.c_long(_ARCH_PRCTL), ctypes.c_long(_REQUEST_PERMISSION), ctypes.c_long(_TILE_DATA)))
    if number.value == 0:
        return ""
    return f"the kernel refuses their registers to this process (arch_prctl: {os.strerror(ctypes.get_errno())})"
