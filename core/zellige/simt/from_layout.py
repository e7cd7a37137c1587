"""Layouts of the general algebra as the distributions that lowering computes with.

In: a layout from (register, lane, warp) to the indices of an operand. Out: the :class:`~zellige.simt.distribution.Distribution` of the same
map. What is no sum of digits along single dimensions (an exchange of bits, a digit that moves along two dimensions) has none.
"""

from __future__ import annotations

from functools import lru_cache

from zellige.layouts import Layout
from zellige.layouts.digits import loosened
from zellige.simt.distribution import SOURCES, Digit, Distribution


@lru_cache(maxsize=256)
def distribution_of(layout: Layout, dimensions: tuple[str, str]) -> Distribution:
    """The distribution of ``layout`` over the indices named, in that order. ValueError where it has none: a family of
    intrinsics states one that lanes cannot hold, which is a fault of the backend that brings it. Kept, since every compilation asks for the
    layouts of all units of its target, and units share them."""
    outputs = [dimension.name for dimension in layout.outputs]
    sizes = layout.output_sizes
    found: list[Digit] = []
    for axis, digits in zip(layout.inputs, loosened([axis.digits for axis in layout.inputs], len(outputs))):
        source = next((s for s in SOURCES if s == axis.name), None)
        if source is None:
            raise ValueError(f"a layout of {axis.name} is no distribution over registers, lanes and warps")
        divisor = 1
        for digit in digits:
            moves = [(outputs[at], stride) for at, stride in enumerate(digit.strides) if stride]
            if any(digit.flips) or len(moves) > 1:
                raise ValueError(f"a digit of {axis.name} moves along several dimensions or exchanges bits: {layout}")
            dimension, stride = (dimensions.index(moves[0][0]), moves[0][1]) if moves else (None, 0)
            found.append(Digit(source=source, divisor=divisor, radix=digit.extent, dimension=dimension, stride=stride))
            divisor *= digit.extent
    return Distribution(shape=tuple(sizes[name] for name in dimensions), digits=tuple(found))
