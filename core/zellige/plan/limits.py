"""What one launch of a target takes at most, held against a kernel.

In: a kernel, the target's :class:`~zellige.plugin.contract.Bounds`. Out: E448 for what its constants say (:func:`refuse_too_much`), E645
for the sizes of a call (:func:`refuse_sizes`).

Arguments are counted in words of 64 bits: one a tensor, a number, a symbolic size. A grid with more axes than the target names has the rest
folded into the last of those.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from zellige.diagnostics import Span, ZelligeError, catalogue
from zellige.diagnostics.error import Code
from zellige.ir.expr import Buffer, Expr, Var
from zellige.ir.sizes import SizeError, evaluate_size, size_vars
from zellige.ir.stmt import Kernel, ScalarParam, TensorParam
from zellige.plugin.contract import Bounds
from zellige.records import dataclass

WORD_BYTES: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class _Excess:
    """Something that is more than ``most``."""

    what: str
    most: str
    advice: str
    span: Span | None


def refuse_too_much(kernel: Kernel, bounds: Bounds, target: str) -> None:
    """E448 where the constants of a kernel are more than a launch takes."""
    if bounds != Bounds():
        _raise_first(catalogue.E448, (*_arguments(kernel, bounds), *_sizes(kernel, bounds, {})), target)


def refuse_sizes(kernel: Kernel, bounds: Bounds, sizes: Sequence[int], scalars: Sequence[int | float], target: str) -> None:
    """E645 where those of a call are: ``sizes`` are the values of its symbolic sizes, ``scalars`` those of its numbers, in order."""
    values = dict(zip(size_vars(kernel), sizes))
    numbers = [param.var for param in kernel.params if isinstance(param, ScalarParam)]
    values.update({var: int(value) for var, value in zip(numbers, scalars) if not var.dtype.is_float})
    _raise_first(catalogue.E645, _sizes(kernel, bounds, values), target)


def _raise_first(code: Code, found: Iterator[_Excess] | Sequence[_Excess], target: str) -> None:
    for excess in found:
        error: ZelligeError = code.error(excess.span, what=excess.what, target=target, most=excess.most, advice=excess.advice)
        raise error


def _arguments(kernel: Kernel, bounds: Bounds) -> Iterator[_Excess]:
    count = len(kernel.params) + len(size_vars(kernel))
    most = bounds.argument_bytes
    if most is None or count * WORD_BYTES <= most:
        return
    tensors = [(at, param.buffer.span) for at, param in enumerate(kernel.params) if isinstance(param, TensorParam)]
    place = next((span for at, span in tensors if at >= most // WORD_BYTES), tensors[-1][1] if tensors else None)
    yield _Excess(
        what=f"the arguments of {kernel.name} are {count} words of {WORD_BYTES} bytes", most=f"{most} bytes of them",
        advice="pass several tensors as parts of one", span=place,
    )  # fmt: skip


def _sizes(kernel: Kernel, bounds: Bounds, sizes: Mapping[Var, int]) -> Iterator[_Excess]:
    """The tensors and grids whose sizes are known."""
    if bounds.tensor_bytes is not None:
        yield from _tensors(kernel, bounds.tensor_bytes, sizes)
    if bounds.grid:
        yield from _grids(kernel, bounds.grid, sizes)


def _tensors(kernel: Kernel, most: int, sizes: Mapping[Var, int]) -> Iterator[_Excess]:
    for buffer in [param.buffer for param in kernel.params if isinstance(param, TensorParam)]:
        size = _tensor_bytes(buffer, sizes)
        if size is not None and size > most:
            yield _Excess(
                what=f"the tensor {buffer.name} has {size} bytes", most=f"tensors of {most}",
                advice="call a kernel for parts of the tensor", span=buffer.span,
            )  # fmt: skip


def _grids(kernel: Kernel, largest: Sequence[int], sizes: Mapping[Var, int]) -> Iterator[_Excess]:
    last = len(largest) - 1
    for launch in kernel.launches:
        extents = [_value(extent, sizes) for extent in launch.grid]
        folded = extents[last:]
        axes = [*extents[:last], *([math.prod(e for e in folded if e is not None)] if folded and None not in folded else [])]
        for axis, (extent, most) in enumerate(zip(axes, largest)):
            if extent is not None and extent > most:
                yield _Excess(
                    what=f"axis {axis} of the grid has {extent} blocks", most=f"{most} there",
                    advice="let a block do more, or give the blocks to another axis of the grid", span=launch.span,
                )  # fmt: skip


def _tensor_bytes(buffer: Buffer, sizes: Mapping[Var, int]) -> int | None:
    """From the first to the last element of a tensor; None where its sizes are not known."""
    extents = [_value(extent, sizes) for extent in buffer.shape]
    strides = None if buffer.strides is None else [_value(stride, sizes) for stride in buffer.strides]
    if None in extents or (strides is not None and None in strides):
        return None
    known = [extent for extent in extents if extent is not None]
    if strides is None or 0 in known:
        count = math.prod(known)
    else:
        count = 1 + sum((extent - 1) * abs(stride) for extent, stride in zip(known, strides) if stride is not None)
    return -(-count * buffer.dtype.storage_bits // 8)


def _value(expr: Expr, sizes: Mapping[Var, int]) -> int | None:
    try:
        return evaluate_size(expr, sizes)
    except SizeError:
        return None
