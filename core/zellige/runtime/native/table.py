"""A kernel's parameters as the packing code reads them.

In: a :class:`~zellige.runtime.arguments.Signature`, the devices that the kernel reaches, the types of tensors that describe themselves
(:class:`Foreign`). Out: the table, as bytes; None for a kernel with something that only the Python code knows.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from zellige.dtypes import DType, UnknownDType, dtype as as_dtype
from zellige.ir.expr import Const, Expr, Var
from zellige.ir.sizes import SizeEquation, greatest_size, linear_form
from zellige.ir.stmt import TensorParam
from zellige.runtime import dlpack
from zellige.runtime.arguments import Signature
from zellige.runtime.arrays import HOST
from zellige.runtime.native import layout
from zellige.runtime.native.layout import Argument, Equation, Head, Kind
from zellige.runtime.native.link import fill_types
from zellige.runtime.parameters import ScalarArgument, TensorArgument

_LARGEST: Final = 2**63 - 1
_DTYPES: Final = 3
_IS_NEGATED: Final = sys.intern("is_neg")
"""What torch calls its question whether a tensor is lazily negated; the object lives as long as the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """Types of tensors that share one way to describe themselves: at most two, the address of the function that does it, and of the one
    that tells which stream their framework has current on a device (0: none)."""

    types: tuple[type, ...]
    read: int
    stream: int = 0


def foreign() -> Foreign | None:
    """The tensors of torch, where the program has imported it and it has the exchange table of DLPack 1.3."""
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    capsule = getattr(tensor, "__dlpack_c_exchange_api__", None)
    if capsule is None or tensor is None:
        return None
    address = dlpack.exchange_table(capsule)
    read = 0 if address is None else ctypes.c_uint64.from_address(address + layout.EXCHANGE_READ).value
    parameter = getattr(getattr(torch, "nn", None), "Parameter", tensor)
    if not read:
        return None
    assert address is not None
    stream = ctypes.c_uint64.from_address(address + layout.EXCHANGE_STREAM).value
    return Foreign(types=(tensor, parameter), read=read, stream=stream)


class Words:
    """Where each value of a call lies in the packed result: pointers, scalars, sizes in the order of ``CompiledKernel.launch``."""

    def __init__(self, signature: Signature) -> None:
        kernel = signature.kernel
        self.tensors = [index for index, param in enumerate(kernel.params) if isinstance(param, TensorParam)]
        self.scalars = [p for p in signature.parameters if isinstance(p, ScalarArgument)]
        self.sizes = signature.size_variables
        self.pointer = {index: place for place, index in enumerate(self.tensors)}
        first = len(self.tensors)
        self.value: dict[Var, int] = {p.var: first + place for place, p in enumerate(self.scalars)}
        first += len(self.scalars)
        self.value.update({var: first + place for place, var in enumerate(self.sizes)})
        self.count = first + len(self.sizes)


def table_of(
    signature: Signature,
    words: Words,
    devices: Sequence[str | int],
    known: Foreign | None,
    *,
    with_made: bool,
    launching: int = 0,
    alignments: Sequence[int] = (),
) -> bytes | None:
    """The table for the arguments that a caller passes and, ``with_made``, the tensors that the runtime makes, behind them.

    ``launching`` is the address of a table of launches, ``alignments`` what its code asks of each tensor beyond what a signature asks.
    """
    arguments = [*signature.parameters, *(signature.made if with_made else ())]
    equations = _equations(signature, words)
    if len(arguments) > layout.MOST_ARGUMENTS or equations is None:
        return None
    records = [_record(argument, words) for argument in arguments]
    for argument, record in zip(arguments, records):
        if record is not None and alignments and isinstance(argument, TensorArgument):
            record[Argument.ALIGNMENT_MASK] |= alignments[words.pointer[argument.index]] - 1
    if any(record is None for record in records):
        return None
    numbers = [device for device in devices if isinstance(device, int)]
    head = [0] * Head.WORDS
    head[Head.ARGUMENTS] = len(arguments)
    head[Head.RESULT_BYTES] = 8 * (words.count + 2 + layout.SPARE_WORDS)
    head[Head.SPARE] = words.count
    head[Head.EQUATIONS] = len(equations)
    fill_types(head)
    head[Head.HAS_HOST] = int(HOST in devices)
    head[Head.LAUNCHING] = launching
    head[Head.DEVICE] = numbers[0] if numbers else -1
    head[Head.OTHER_DEVICE] = numbers[-1] if numbers else -1
    if known is not None:
        head[Head.FOREIGN_TYPE], head[Head.OTHER_FOREIGN_TYPE] = (id(kind) for kind in known.types)
        head[Head.FOREIGN_READ] = known.read
        head[Head.IS_NEGATED] = id(_IS_NEGATED)
    listed = [*head, *(word for record in (*records, *equations) for word in record or ())]
    return b"".join((word & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little") for word in listed)


def _record(argument: TensorArgument | ScalarArgument, words: Words) -> list[int] | None:
    record = [0] * Argument.WORDS
    if isinstance(argument, ScalarArgument):
        dtype = argument.var.dtype
        record[Argument.SLOT] = words.value[argument.var]
        if dtype.is_float:
            record[Argument.KIND] = Kind.REAL
            return record
        if dtype.kind == "handle":
            return None
        record[Argument.KIND] = Kind.INTEGER
        is_size = argument.var.kind == "size"
        record[Argument.LEAST] = 0 if is_size else int(dtype.min)
        record[Argument.GREATEST] = greatest_size(dtype) if is_size else min(int(dtype.max), _LARGEST)
        return record
    accepted = [as_dtype(name) for name, packing in sorted(argument.accepted) if packing == 1]
    arrays = [number for dtype in accepted if (number := _array_dtype(dtype)) is not None]
    if not arrays:
        return None
    tensors = [number for dtype in accepted if (number := dlpack.dtype_number(dtype)) is not None]
    record[Argument.KIND] = Kind.TENSOR
    record[Argument.SLOT] = words.pointer[argument.index]
    record[Argument.RANK] = argument.buffer.rank
    for place in range(_DTYPES):
        record[Argument.DTYPE + place] = arrays[min(place, len(arrays) - 1)]
        record[Argument.FOREIGN_DTYPE + place] = tensors[min(place, len(tensors) - 1)] if tensors else layout.NO_DTYPE
    record[Argument.IS_WRITTEN] = int(argument.is_written)
    record[Argument.IS_DENSE] = int(argument.buffer.strides is None)
    record[Argument.ALIGNMENT_MASK] = argument.alignment - 1
    record[Argument.CELL_BYTES] = 1 if argument.per_cell > 1 else argument.buffer.dtype.scalar.itemsize
    return record


def _array_dtype(dtype: DType) -> int | None:
    """The identity of NumPy's object for an element type: one object stands for each."""
    try:
        return id(dtype.numpy)
    except UnknownDType:
        return None


def _equations(signature: Signature, words: Words) -> list[list[int]] | None:
    """Those that give a size first, in the order in which :class:`Signature` solves them; then those that are only checked."""
    solved = {p.var for p in words.scalars}
    places = {p.index: place for place, p in enumerate(signature.parameters)}
    solving: list[list[int]] = []
    checked = list(signature.equations)
    for is_alone in (True, False):
        for equation in tuple(checked):
            var = equation.expr if is_alone else equation.solves
            if isinstance(var, Var) and var not in solved:
                scale, offset = (1, 0) if is_alone else (equation.scale, equation.offset)
                solving.append(_equation(signature, words, places, equation, var, scale, offset, solves=True))
                solved.add(var)
                checked.remove(equation)
    if any(var not in solved for var in words.sizes):
        return None
    checking: list[list[int]] = []
    for equation in checked:
        form = _form(equation.expr)
        if form is None or (form[0] is not None and form[0] not in words.value):
            return None
        var, scale, offset = form
        checking.append(_equation(signature, words, places, equation, var, scale, offset, solves=False))
    return solving + checking


def _form(expr: Expr) -> tuple[Var | None, int, int] | None:
    """``scale * variable + offset``, or a number with scale 0; None for any other expression."""
    if isinstance(expr, Const) and not isinstance(expr.value, float):
        return None, 0, int(expr.value)
    if isinstance(expr, Var):
        return expr, 1, 0
    return linear_form(expr)


def _equation(
    signature: Signature,
    words: Words,
    places: dict[int, int],
    equation: SizeEquation,
    var: Var | None,
    scale: int,
    offset: int,
    *,
    solves: bool,
) -> list[int]:
    tensor = signature.tensor(equation.param)
    is_last = equation.dimension == tensor.buffer.rank - 1
    is_stride = equation.what == "stride"
    record = [0] * Equation.WORDS
    record[Equation.ARGUMENT] = places[equation.param]
    record[Equation.DIMENSION] = equation.dimension
    record[Equation.IS_STRIDE] = int(is_stride)
    record[Equation.SOLVES] = int(solves)
    record[Equation.SIZE] = 0 if var is None else words.value[var]
    record[Equation.SCALE], record[Equation.OFFSET] = scale, offset
    record[Equation.PER_CELL] = tensor.per_cell if is_last != is_stride else 1
    record[Equation.GREATEST] = 0 if var is None else greatest_size(var.dtype)
    return record
