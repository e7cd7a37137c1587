"""LLVM IR text to machine code in this process, and to assembly text.

In: the text of a module, the names it exports, the symbols it needs. Out: a :class:`Library` with the addresses of the exported functions.

The text is parsed and verified first, so that a fault of the emitters is an InternalError; symbols are looked up first, so that a missing
one is too. The emitters write vectors and hoist by themselves, so only a short list of passes runs: inlining of leaves, promotion
of stack cells, simplification of what these leave behind.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import weakref
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from zellige.diagnostics import InternalError
from zellige_cpu.host import Host

_numbers: Final = itertools.count()
_lock: Final = threading.RLock()


@lru_cache(maxsize=1)
def _llvm() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@lru_cache(maxsize=8)
def _machine(host: Host) -> Any:
    llvm = _llvm()
    if host.triple != llvm.get_process_triple():  # machine code to look at, not to run
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(host.triple)
    return target.create_target_machine(
        cpu=host.cpu, features=host.feature_string, opt=2, reloc="pic", codemodel="default", jit=False
    )


@lru_cache(maxsize=1)
def _linker(host: Host) -> Any:
    return _llvm().create_lljit_compiler(_machine(host))


def check_symbols(symbols: Iterable[str]) -> None:
    """Raises InternalError for a function that this process does not have."""
    process = ctypes.CDLL(None)  # not LLVM's own table, which knows the process only after a first link
    missing = [name for name in symbols if not hasattr(process, name)]
    if missing:
        raise InternalError(f"this process has no function {', '.join(sorted(missing))}")


def optimised(text: str, host: Host) -> Any:
    """The module of ``text``, verified and put through the passes."""
    llvm = _llvm()
    machine = _machine(host)
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise InternalError(f"LLVM refuses the generated program: {error}") from error
    module.data_layout = str(machine.target_data)
    tuning = llvm.create_pipeline_tuning_options(speed_level=0)
    builder = llvm.create_pass_builder(machine, tuning)
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)
    return module


def compile_object(text: str, host: Host) -> bytes:
    """Machine code of the module as an object file."""
    with _lock:
        return bytes(_machine(host).emit_object(optimised(text, host)))


def assembly(text: str, host: Host) -> str:
    """Machine code of the module as text."""
    with _lock:
        return str(_machine(host).emit_assembly(optimised(text, host)))


class Library:
    """Loaded machine code: ``addresses`` of the exported functions. It is unloaded when this object dies."""

    __slots__ = ("__weakref__", "addresses")

    def __init__(self, addresses: Mapping[str, int]) -> None:
        self.addresses: Final = addresses


def load(data: bytes, exported: Iterable[str], host: Host) -> Library:
    """Link an object file into this process."""
    llvm = _llvm()
    names = list(exported)
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
