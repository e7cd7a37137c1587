"""Machine code of LLVM IR text.

In: the text of a module. Out: an object file, which :mod:`zellige_cpu.linker` puts into this process, or text. The text is verified first,
so that a fault of the emitters is an InternalError, and LLVM works on it in a process of its own (:mod:`zellige_cpu.compiler`).
"""

from __future__ import annotations

from zellige_cpu.compiler import compiled
from zellige_cpu.host import Host


def optimised(text: str, host: Host) -> str:
    """The program, verified and put through the passes."""
    return compiled(text, host, "text").decode()


def compile_object(text: str, host: Host) -> bytes:
    """Machine code of the program as an object file."""
    return compiled(text, host, "object")


def assembly(text: str, host: Host) -> str:
    """Machine code of the program as text."""
    return compiled(text, host, "assembly").decode()
