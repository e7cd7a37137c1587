"""Machine code of LLVM IR text, and machine code linked into this process.

In: the text of a module, the names it exports, the symbols it needs. Out: an object file, text, or a :class:`Library` with the addresses of
the exported functions.

The text is verified first, so that a fault of the emitters is an InternalError; symbols are looked up first, so that a missing one is too;
and LLVM works on it in a process of its own (:mod:`zellige_cpu.compiler`). Object files are linked by :mod:`zellige_cpu.linker` where
that can, else by LLVM.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
import weakref
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, Literal

from zellige.diagnostics import InternalError
from zellige_cpu.host import Host

_numbers: Final = itertools.count()
_lock: Final = threading.RLock()


@lru_cache(maxsize=1)
def _linker(host: Host) -> Any:
    from zellige_cpu.compiler import is_foreign
    from zellige_cpu.llvm_worker import llvm_binding, target_machine

    machine = target_machine(host.triple, host.cpu, host.feature_string, is_foreign(host))
    return llvm_binding().create_lljit_compiler(machine)


def check_symbols(symbols: Iterable[str]) -> None:
    """Raises InternalError for a function that this process does not have."""
    process = ctypes.CDLL(None)  # not LLVM's own table, which knows the process only after a first link
    missing = [name for name in symbols if not hasattr(process, name)]
    if missing:
        raise InternalError(f"this process has no function {', '.join(sorted(missing))}")


def optimised(text: str, host: Host) -> str:
    """The program, verified and put through the passes."""
    return _compiled(text, host, "text").decode()


def compile_object(text: str, host: Host) -> bytes:
    """Machine code of the program as an object file."""
    return _compiled(text, host, "object")


def assembly(text: str, host: Host) -> str:
    """Machine code of the program as text."""
    return _compiled(text, host, "assembly").decode()


def _compiled(text: str, host: Host, what: Literal["object", "assembly", "text"]) -> bytes:
    from zellige_cpu.compiler import compiled  # a kernel found in the cache starts without

    return compiled(text, host, what)


class Library:
    """Loaded machine code: ``addresses`` of the exported functions. It is unloaded when this object dies."""

    __slots__ = ("__weakref__", "addresses")

    def __init__(self, addresses: Mapping[str, int]) -> None:
        self.addresses: Final = addresses


def load(data: bytes, exported: Iterable[str], host: Host) -> Library:
    """Link an object file into this process."""
    names = list(exported)
    if _has_own_linker(host):
        from zellige_cpu.linker import link

        image = link(data, names)
        if image is not None:
            library = Library(image.addresses)
            weakref.finalize(library, image.close).atexit = False
            return library
    return _linked_by_llvm(data, names, host)


def _has_own_linker(host: Host) -> bool:
    return host.triple.startswith("x86_64") and "linux" in host.triple and sys.platform == "linux"


def _linked_by_llvm(data: bytes, names: list[str], host: Host) -> Library:
    from zellige_cpu.llvm_worker import llvm_binding

    llvm = llvm_binding()
    with _lock:
        builder = llvm.JITLibraryBuilder().add_object_img(data).add_current_process()
        for name in names:
            builder = builder.export_symbol(name)
        try:
            tracker = builder.link(_linker(host), f"zellige{next(_numbers)}")
        except RuntimeError as error:
            raise InternalError(f"the machine code cannot be linked: {error}") from error
    library = Library({name: tracker[name] for name in names})
    weakref.finalize(library, tracker.close)
    return library
