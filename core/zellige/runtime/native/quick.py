"""A call that needs no explanation.

In: a signature, a compiled kernel, the devices that it reaches. Out: a :class:`QuickLaunch`: called with a call's positional arguments it
allocates the results, packs, launches and returns what the call returns, or :data:`zellige.runtime.native.SLOW` without having done
anything, where :class:`~zellige.runtime.arguments.Signature` has to look: at wrong arguments, and at right ones of unusual types.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, cast

import numpy as np

from zellige.diagnostics import InternalError
from zellige.ir.expr import Const, Expr, Var
from zellige.ir.sizes import SizeError, evaluate_size, greatest_size
from zellige.ir.stmt import TensorParam
from zellige.plugin.contract import CompiledKernel, NativeKernel, PackedKernel
from zellige.runtime.arguments import Signature, home_of
from zellige.runtime.arrays import HOST, NoSuchArray, carrier, cell_shape
from zellige.runtime.native import SLOW
from zellige.runtime.native.launches import LaunchTable, launch_table
from zellige.runtime.native.link import CodeStore, Pack, Start, launching_function, packing_function
from zellige.runtime.native.table import Foreign, Words, foreign, table_of
from zellige.runtime.parameters import TensorArgument

Refuse = Callable[[str, object], NoReturn]
"""Raises what it means that a method, which is named, answered something."""


def unexpected(method: str, answer: object) -> NoReturn:
    """What it means of a kernel that is no backend's."""
    raise InternalError(f"the method {method} answered {answer!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeStart:
    """The way from arguments to the driver without Python: the function, the table that it reads, the kernel that says what is loaded."""

    start: Start
    table: LaunchTable
    kernel: NativeKernel

    def note_contexts(self) -> None:
        """Tell the launching code of contexts in which the kernel was loaded since."""
        self.table.note(self.kernel.loaded_code())


class QuickLaunch:
    """See the module's text. ``knows_torch`` says whether torch had been imported when it was made."""

    __slots__ = (
        "_changing", "_dtypes", "_first", "_home", "_launch", "_made", "_pack", "_refuse_answer", "_results", "_shapes",
        "_sizes_of", "_sizes_pack", "_start", "_torch", "knows_torch", "native",
    )  # fmt: skip

    def __init__(
        self,
        signature: Signature,
        pack: Pack,
        sizes_pack: Pack | None,
        launch: Callable[[bytes], object],
        words: Words,
        native: NativeStart | None,
        home: str,
        refuse_answer: Refuse,
    ) -> None:
        self._pack = pack
        self._home = home
        self._sizes_pack = sizes_pack
        self._launch = launch
        self._refuse_answer = refuse_answer
        self.native = native
        self._start = None if native is None else native.start
        self._torch: Any = sys.modules.get("torch")
        self.knows_torch = self._torch is not None
        self._first = next((place for place, p in enumerate(signature.parameters) if isinstance(p, TensorArgument)), -1)
        self._made = len(signature.made)
        self._dtypes = [tensor.buffer.dtype for tensor in signature.made]
        self._changing: list[tuple[Expr, ...]] = [tensor.buffer.shape for tensor in signature.made]
        self._shapes = None if sizes_pack is not None else _constant_shapes(signature)
        self._sizes_of = (struct.Struct(f"<{words.count}q"), words.value)
        made = {tensor.index: place for place, tensor in enumerate(signature.made)}
        given = {p.index: place for place, p in enumerate(signature.parameters)}
        self._results = [(True, made[i]) if i in made else (False, given[i]) for i in signature.kernel.results]

    @property
    def alone(self) -> Start | None:
        """What launches a call whose arguments are all it takes and that returns nothing; None where there is more to do."""
        return None if self._made or self._results else self._start

    def __call__(self, args: tuple[Any, ...]) -> Any:
        """What the call returns, or SLOW."""
        outputs: list[Any] = []
        if self._made:
            outputs = self._outputs(args)
            if not outputs:
                return SLOW
        start = self._start
        if start is None:
            words = self._pack(*args, *outputs)
            if words is None:
                return SLOW
            answer = self._launch(words)
            if answer is not None:
                self._refuse_answer("launch_packed", answer)
        else:
            status = start(*args, *outputs)
            if status is None:
                return SLOW
            if status:
                self.refuse(status)
        if not self._results:
            return None
        returned = [outputs[place] if is_made else args[place] for is_made, place in self._results]
        return returned[0] if len(returned) == 1 else returned

    def refuse(self, status: int) -> NoReturn:
        """Raise what the driver's answer means."""
        assert self.native is not None, "a driver answered"
        self._refuse_answer("refuse", cast(object, self.native.kernel.refuse(status)))

    def _outputs(self, args: tuple[Any, ...]) -> list[Any]:
        """Fresh tensors for the results, of the framework of the first argument, without one as :func:`zellige.runtime.arrays.allocate`
        chooses; empty where that is Python's to decide.
        """
        shapes = self._shapes
        if shapes is None:
            shapes = self._solved_shapes(args)
            if shapes is None:
                return []
        first = args[self._first] if 0 <= self._first < len(args) else None
        is_host_alone = self._home == HOST and "torch" not in sys.modules  # as arrays.allocate decides it
        try:
            if is_host_alone if first is None else type(first) is np.ndarray:
                return [np.empty(shape, carrier(dtype)) for shape, dtype in zip(shapes, self._dtypes)]
            torch = self._torch
            if torch is None or not (first is None or isinstance(first, torch.Tensor)):
                return []
            device = self._home if first is None else first.device
            return [torch.empty(shape, dtype=carrier(dtype, torch), device=device) for shape, dtype in zip(shapes, self._dtypes)]
        except (MemoryError, RuntimeError, ValueError):  # no such array: the slow way says why
            return []

    def _solved_shapes(self, args: tuple[Any, ...]) -> list[tuple[int, ...]] | None:
        assert self._sizes_pack is not None, "shapes that change have a table for their sizes"
        words = self._sizes_pack(*args)
        if words is None:
            return None
        layout, places = self._sizes_of
        numbers = layout.unpack_from(words)
        values = {var: numbers[place] for var, place in places.items() if not var.dtype.is_float}
        try:
            return [cell_shape(d, _evaluated(shape, values)) for d, shape in zip(self._dtypes, self._changing)]
        except (SizeError, NoSuchArray):
            return None


def _evaluated(shape: tuple[Expr, ...], values: dict[Var, int]) -> tuple[int, ...]:
    extents = tuple(evaluate_size(extent, values) for extent in shape)
    if any(not 0 <= extent <= greatest_size(expr.dtype) and not isinstance(expr, Const) for extent, expr in zip(extents, shape)):
        raise SizeError("an extent that is negative or too large")
    return extents


def _constant_shapes(signature: Signature) -> list[tuple[int, ...]] | None:
    """The shapes of what the runtime makes, in cells; None where one depends on a call's sizes."""
    shapes = [tensor.buffer.shape for tensor in signature.made]
    if not all(isinstance(extent, Const) for shape in shapes for extent in shape):
        return None
    try:
        return [cell_shape(t.buffer.dtype, tuple(evaluate_size(e, {}) for e in t.buffer.shape)) for t in signature.made]
    except NoSuchArray:  # said by each call
        return None


def quick_launch(
    signature: Signature,
    compiled: CompiledKernel,
    devices: Sequence[str | int],
    store: CodeStore | None,
    refuse_answer: Refuse = unexpected,
) -> QuickLaunch | None:
    """The quick way into a compiled kernel; None where it has none. ``refuse_answer`` raises what it
    means that a method of the kernel answered something, which is to answer nothing."""
    kernel = signature.kernel
    if any(isinstance(param, TensorParam) and param.role == "workspace" for param in kernel.params):
        return None  # kept from call to call, by thread
    words = Words(signature)
    known = foreign()
    try:
        is_constant = _constant_shapes(signature) is not None
        for tensor in signature.made:
            carrier(tensor.buffer.dtype)
    except (NoSuchArray, SizeError):
        return None
    full = table_of(signature, words, devices, known, with_made=True)
    sizes = None if is_constant else table_of(signature, words, devices, known, with_made=False)
    if full is None or (not is_constant and sizes is None):
        return None
    pack = packing_function(full, store)
    sizes_pack = None if sizes is None else packing_function(sizes, store)
    if pack is None:
        return None
    native = None if known is None else _native(signature, compiled, words, devices, known, store)
    return QuickLaunch(signature, pack, sizes_pack, _launcher(compiled, words), words, native, home_of(devices), refuse_answer)


def _native(
    signature: Signature, compiled: CompiledKernel, words: Words, devices: Sequence[str | int], known: Foreign, store: CodeStore | None
) -> NativeStart | None:
    """The way to the driver without Python, where kernel, framework and launches allow it."""
    described = compiled.native_launch() if isinstance(compiled, NativeKernel) else None
    if described is None:
        return None
    assert isinstance(compiled, NativeKernel)
    launches = launch_table(described, words, known.stream)
    if launches is None:
        return None
    table = table_of(
        signature, words, devices, known, with_made=True, launching=launches.address, alignments=described.alignments
    )
    start = None if table is None else launching_function(table, store)
    if start is None:
        return None
    launches.note(compiled.loaded_code())
    return NativeStart(start=start, table=launches, kernel=compiled)


def _launcher(compiled: CompiledKernel, words: Words) -> Callable[[bytes], object]:
    """What launches packed arguments: the kernel's own way, or lists made of them."""
    if isinstance(compiled, PackedKernel):
        return compiled.launch_packed
    pointers, scalars = len(words.tensors), len(words.scalars)
    kinds = "".join("d" if scalar.var.dtype.is_float else "q" for scalar in words.scalars)
    packed = struct.Struct(f"<{pointers}Q{kinds}{len(words.sizes)}q")

    def launch(data: bytes) -> object:
        values = packed.unpack_from(data)
        numbers = values[pointers : pointers + scalars]
        return cast(object, compiled.launch(values[:pointers], numbers, values[pointers + scalars :]))

    return launch
