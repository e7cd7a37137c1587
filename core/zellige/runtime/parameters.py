"""The parameters of a kernel as the checks of a call see them, and an argument looked at by itself.

In: a tensor or scalar parameter of a kernel, and the value given for it. Out: :class:`TensorArgument` and :class:`ScalarArgument`, which
say what may be given; the number that a scalar takes; an array of scalars as the tensor of vectors that it holds.
"""

from __future__ import annotations

import numbers
import sys
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from zellige.diagnostics import catalogue
from zellige.dtypes import DType
from zellige.ir.expr import Buffer, Load, Var
from zellige.ir.sizes import greatest_size
from zellige.ir.stmt import Alloc, Kernel, StmtNode, TensorParam
from zellige.ir.traverse import walk
from zellige.runtime.arrays import ArrayView, UnusableArray, view_of
from zellige.runtime.size_text import size_text

Number = int | float

_BYTES: Final = ("int8", "uint8")


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorArgument:
    """A tensor parameter as the checks see it. ``index`` counts ``kernel.params``; ``per_cell`` elements share a cell of memory."""

    index: int
    name: str
    buffer: Buffer
    accepted: frozenset[tuple[str, int]]
    per_cell: int
    alignment: int
    is_used: bool
    is_written: bool

    @property
    def text(self) -> str:
        """What is expected, in words."""
        return f"{self.buffer.dtype}[{', '.join(size_text(expr) for expr in self.buffer.shape)}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarArgument:
    """A number parameter as the checks see it."""

    index: int
    name: str
    var: Var


def touched_buffers(kernel: Kernel) -> tuple[set[Buffer], set[Buffer]]:
    """The buffers whose elements the kernel reads or writes, and those it writes, each by the buffer that owns the storage."""
    used: set[Buffer] = set()
    written: set[Buffer] = set()
    for launch in kernel.launches:
        for node in walk(launch):
            if isinstance(node, Load):
                used.add(node.buffer.root)
            elif isinstance(node, StmtNode) and not isinstance(node, Alloc):
                written.update(region.buffer.root for region in node.writes())
                used.update(region.buffer.root for region in node.reads())
    return used | written, written


def touched_tensors(kernel: Kernel) -> tuple[set[int], set[int]]:
    """The same as the indices of the tensors among the parameters of the kernel."""
    tensors = [(index, param.buffer) for index, param in enumerate(kernel.params) if isinstance(param, TensorParam)]
    used, written = touched_buffers(kernel)
    return {index for index, buffer in tensors if buffer in used}, {index for index, buffer in tensors if buffer in written}


def tensor_argument(index: int, buffer: Buffer, *, is_used: bool, is_written: bool) -> TensorArgument:
    """The parameter ``kernel.params[index]`` whose declared buffer is ``buffer``, with what may be given for it."""
    dtype = buffer.dtype
    per_cell = 8 // dtype.storage_bits if dtype.storage_bits < 8 else 1
    return TensorArgument(
        index=index,
        name=buffer.name,
        buffer=buffer,
        accepted=_accepted(dtype),
        per_cell=per_cell,
        alignment=1 if per_cell > 1 else dtype.scalar.itemsize,
        is_used=is_used,
        is_written=is_written,
    )


def _accepted(dtype: DType) -> frozenset[tuple[str, int]]:
    """The element types, with their packing, that a tensor given for ``dtype`` may have."""
    if dtype.storage_bits < 8:
        return frozenset({(dtype.name, 8 // dtype.storage_bits), *((name, 1) for name in _BYTES)})
    names = {dtype.name}
    if dtype.is_bool or dtype.bits == 6:
        names.update(_BYTES)
    if dtype.name == "tfloat32":
        names.add("float32")
    return frozenset((name, 1) for name in names)


def of_vectors(view: ArrayView, dtype: DType) -> ArrayView:
    """A tensor of vectors: an array of scalars whose last dimension holds the lanes. Any other array as it is."""
    lanes = dtype.lanes
    has_lanes = lanes > 1 and view.packing == 1 and view.dtype == dtype.scalar and view.shape[-1:] == (lanes,)
    if not has_lanes or view.strides[-1] != 1 or any(stride % lanes for stride in view.strides[:-1]):
        return view
    strides = tuple(stride // lanes for stride in view.strides[:-1])
    return replace(view, shape=view.shape[:-1], strides=strides, dtype=dtype)


def carries_bits(dtype: DType, view: ArrayView) -> bool:
    """Whether torch has no type of that name, so that its tensors carry the bits as uint8."""
    if view.framework != "torch" or view.dtype.name != "uint8" or dtype.storage_bits != 8 or not dtype.is_float:
        return False
    return not hasattr(sys.modules["torch"], dtype.name)


def packing_hint(tensor: TensorArgument) -> str:
    """How arrays hold elements that no array framework has: vectors, and those that share a byte. Empty for others."""
    if tensor.buffer.dtype.lanes > 1:
        dtype = tensor.buffer.dtype
        return f"{dtype} is {dtype.lanes} elements of {dtype.scalar}: pass an array of those with a last dimension of {dtype.lanes}"
    if tensor.per_cell == 1:
        return ""
    return (
        f"{tensor.buffer.dtype} lies {tensor.per_cell} to a byte: pass int8 or uint8 bytes whose last dimension is divided by "
        f"{tensor.per_cell}, the first element in the low bits"
    )


def type_texts(tensor: TensorArgument, view: ArrayView) -> tuple[str, str]:
    """What is expected and what was given where the element types do not fit. Names of types alone say nothing where the array has the very
    type, an element to a byte (``ml_dtypes.int4``), and the kernel reads several from each."""
    if tensor.per_cell > 1 and view.packing == 1 and view.dtype.storage_bits < 8:
        return f"{tensor.text} as bytes of {tensor.per_cell} elements each", f"{view} with each element in a byte of its own"
    return tensor.text, str(view)


def number_of(scalar: ScalarArgument, value: Any) -> Number:
    """``value`` as the parameter's dtype takes it: int for integers, bool and addresses, float for floats. E612, E613."""
    dtype = scalar.var.dtype
    if dtype.kind == "handle":
        return _address(scalar, value)
    given = value
    if isinstance(value, np.generic) and value.dtype.kind in "bV":  # NumPy's bool and the numbers of ml_dtypes are no numbers.Real
        value = value.item()
    if isinstance(value, numbers.Integral):  # Python's bool and NumPy's integers among them
        whole = int(value)
    elif isinstance(value, numbers.Real):
        if dtype.is_float:
            return float(value)
        if not float(value).is_integer():
            raise catalogue.E612.error(name=scalar.name, dtype=str(dtype), given=described(value))
        whole = int(float(value))
    else:
        hint = "pass a Python number, for a tensor of one element value.item()" if hasattr(given, "item") else None
        raise catalogue.E612.error(name=scalar.name, dtype=str(dtype), given=described(given), hint=hint)
    if dtype.is_float:
        try:
            return float(whole)
        except OverflowError:
            bound = int(sys.float_info.max)
            raise catalogue.E613.error(
                name=f"argument {scalar.name}", dtype=str(dtype), least=-sys.float_info.max, greatest=sys.float_info.max,
                value=f"an integer of {whole.bit_length()} bits" if abs(whole) > bound else whole,
            ) from None
    is_size = scalar.var.kind == "size"
    least, greatest = (0, greatest_size(dtype)) if is_size else (int(dtype.min), int(dtype.max))
    if not least <= whole <= greatest:
        what = f"a size of {dtype}" if is_size else str(dtype)
        raise catalogue.E613.error(name=f"argument {scalar.name}", dtype=what, least=least, greatest=greatest, value=whole)
    return whole


def _address(scalar: ScalarArgument, value: Any) -> int:
    if isinstance(value, numbers.Integral):
        return int(value)
    try:
        view = view_of(value)
    except UnusableArray as error:
        raise catalogue.E616.error(name=scalar.name, reason=str(error)) from error
    if view is None:
        raise catalogue.E603.error(name=scalar.name, expected="or its address", given=described(value))
    return view.pointer


def described(value: object) -> str:
    """A value in a message: short values by themselves, others by their type."""
    if value is None:
        return "None"
    words = getattr(value, "described", None)
    if isinstance(words, str):  # what a kernel's author sees while it is compiled
        return words
    text = repr(value)
    kind = type(value).__name__
    return f"{kind} {text}" if len(text) <= 40 and "\n" not in text else f"an object of type {kind}"
