"""The packing and launching code in this process.

In: nothing. Out: :func:`packing_function` and :func:`launching_function`, which make a Python function from a table. The machine code is
made once and kept in the cache, so that a later process only links it. Where the interpreter is another than the one described in
:mod:`zellige.runtime.native.layout`, or a trial call does not give what it should, there is no packing code and every call goes through
Python.
"""

from __future__ import annotations

import ctypes
import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from zellige.log import logger
from zellige.runtime.native import layout
from zellige.runtime.native.layout import Argument, Equation, Head, Kind

Pack = Callable[..., "bytes | None"]
"""Arguments to words, or None where Python has to look."""

Start = Callable[..., "int | None"]
"""Arguments to a launch and the driver's answer, or None where Python has to look."""

_PACK: Final = "zellige_pack"
_LAUNCH: Final = "zellige_launch"
_FASTCALL: Final = 0x80
_KIND: Final = "binaries"


class CodeStore(Protocol):
    """Where machine code is kept between processes."""

    def find(self, kind: str, key: str) -> bytes | None: ...

    def keep(self, kind: str, key: str, content: bytes) -> None: ...


class _MethodDef(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


@dataclass(frozen=True)
class _Linked:
    """Loaded machine code; ``tracker`` and ``linker`` keep it in memory for as long as the process lives."""

    tracker: Any
    linker: Any
    definitions: dict[str, _MethodDef]

    def function(self, table: bytes, name: str = _PACK) -> Callable[..., Any]:
        new = ctypes.pythonapi.PyCFunction_NewEx
        new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        new.restype = ctypes.py_object
        made: Callable[..., Any] = new(ctypes.addressof(self.definitions[name]), table, None)
        return made


_lock: Final = threading.Lock()


def packing_function(table: bytes, store: CodeStore | None) -> Pack | None:
    """A Python function that packs its arguments as ``table`` says; None where there is no packing code."""
    with _lock:
        linked = _linked(store)
    return None if linked is None else linked.function(table)


def launching_function(table: bytes, store: CodeStore | None) -> Start | None:
    """A Python function that packs its arguments as ``table`` says and launches them as the table of launches does that it names; None
    where there is no such code."""
    with _lock:
        linked = _linked(store)
    return None if linked is None else linked.function(table, _LAUNCH)


_kept: Final[list[_Linked | None]] = []
"""The packing code, once it was asked for."""


def _linked(store: CodeStore | None) -> _Linked | None:
    if not _kept:
        _kept.append(_link(store))
    return _kept[0]


def _link(store: CodeStore | None) -> _Linked | None:
    if not layout.is_known_interpreter():
        return None
    try:
        linked = _load(_machine_code(store))
    except (ImportError, OSError, RuntimeError) as error:
        logger().warning("calls are checked in Python only: %s", error)
        return None
    if not _is_right(linked):
        logger().warning("calls are checked in Python only: the packing code does not read this interpreter's objects")
        return None
    return linked


def _machine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(opt=2, reloc="pic", codemodel="default")


def _machine_code(store: CodeStore | None) -> bytes:
    """The object file: from the cache, or made and kept there."""
    import llvmlite
    import llvmlite.binding as llvm

    sources = b"".join(Path(__file__).with_name(name).read_bytes() for name in ("stub.py", "launching.py", "layout.py"))
    key = hashlib.sha256(f"packing {llvmlite.__version__} {llvm.get_process_triple()} {layout.BYTES_DATA}\n".encode() + sources).hexdigest()
    found = None if store is None else store.find(_KIND, key)
    if found is not None:
        return found
    from zellige.runtime.native.stub import module_text

    machine = _machine()
    module = llvm.parse_assembly(module_text(llvm.get_process_triple()))
    module.verify()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    builder.getModulePassManager().run(module, builder)
    made = bytes(machine.emit_object(module))
    if store is not None:
        store.keep(_KIND, key, made)
    return made


def _load(code: bytes) -> _Linked:
    import llvmlite.binding as llvm

    linker = llvm.create_lljit_compiler(_machine())
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    tracker = builder.export_symbol(_PACK).export_symbol(_LAUNCH).link(linker, _PACK)
    return _Linked(tracker, linker, {name: _MethodDef(name.encode(), tracker[name], _FASTCALL, None) for name in (_PACK, _LAUNCH)})


def _is_right(linked: _Linked) -> bool:
    """Whether the code finds in objects of this process what Python says is there."""
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    head = [0] * Head.WORDS
    head[Head.ARGUMENTS], head[Head.SPARE], head[Head.EQUATIONS] = 3, 4, 2
    head[Head.RESULT_BYTES] = 8 * (4 + 2 + layout.SPARE_WORDS)
    fill_types(head)
    head[Head.HAS_HOST] = 1
    records = [[0] * Argument.WORDS for _ in range(3)]
    for slot, record in enumerate(records):
        record[Argument.SLOT] = slot
    tensor, integer, real = records
    tensor[Argument.RANK], tensor[Argument.IS_DENSE], tensor[Argument.IS_WRITTEN] = 2, 1, 1
    tensor[Argument.DTYPE] = id(array.dtype)
    tensor[Argument.ALIGNMENT_MASK] = 3
    tensor[Argument.CELL_BYTES] = 4
    integer[Argument.KIND], integer[Argument.LEAST], integer[Argument.GREATEST] = Kind.INTEGER, -5, 5
    real[Argument.KIND] = Kind.REAL
    stride, extent = [0] * Equation.WORDS, [0] * Equation.WORDS
    stride[Equation.IS_STRIDE], stride[Equation.SOLVES], stride[Equation.SIZE], stride[Equation.SCALE] = 1, 1, 3, 1
    stride[Equation.PER_CELL], stride[Equation.GREATEST] = 1, 100
    extent[Equation.DIMENSION], extent[Equation.SIZE], extent[Equation.SCALE], extent[Equation.PER_CELL] = 1, 3, 1, 1
    words = [*head, *(word for record in (*records, stride, extent) for word in record)]
    pack = linked.function(np.array(words, np.int64).tobytes())
    packed = pack(array, -3, 2.5)
    locked = array.copy()
    locked.flags.writeable = False
    refused = [(array, -6, 2.5), (array, 1, 2), (array[:, :2], 1, 2.5), (array.astype(np.float64), 1, 2.5), (locked, 1, 2.5), (array, 1)]
    if packed is None or any(pack(*arguments) is not None for arguments in refused):
        return False
    found = np.frombuffer(packed, np.int64)
    return found[:4].tolist() == [array.ctypes.data, -3, int(np.float64(2.5).view(np.int64)), 3] and not found[5:].any()


def fill_types(head: list[int]) -> None:
    """The types that arguments are compared with, None and False."""
    head[Head.NONE] = id(None)
    head[Head.ARRAY_TYPE], head[Head.INT_TYPE] = id(np.ndarray), id(int)
    head[Head.BOOL_TYPE], head[Head.FLOAT_TYPE] = id(bool), id(float)
    head[Head.FALSE] = id(False)
