"""How wide a lane can read or write: neighbouring elements of memory that lie in registers of one lane.

In: a layout from (register, lane, ...) to ``offset``, the composition of a tile's distribution with its storage. Out: the widest vector.
"""

from __future__ import annotations

from dataclasses import dataclass

from zellige.layouts.build import OFFSET
from zellige.layouts.digits import Digit, loosened
from zellige.layouts.distribute import REGISTER
from zellige.layouts.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Vector:
    """``width`` elements that follow each other in memory and start at a multiple of ``width`` (relative to the storage's start).

    ``digits`` are the parts of the register number that count through them: pairs of weight and extent, the fastest first.
    """

    width: int
    digits: tuple[tuple[int, int], ...]


def vector_width(access: Layout, limit: int, *, register: str = REGISTER) -> Vector:
    """The widest vector of at most ``limit`` elements with which each lane can move its registers."""
    position = access.output(OFFSET)
    axes = loosened([axis.digits for axis in access.inputs], len(access.outputs))
    own: list[tuple[int, Digit]] = []
    others = []
    for axis, digits in zip(access.inputs, axes):
        weight = 1
        for digit in digits:
            if axis.name == register:
                own.append((weight, digit))
            else:
                others.append(digit)
            weight *= digit.extent
    taken: list[tuple[int, int]] = []
    width = 1
    while True:
        step = next(((w, d) for w, d in own if d.strides[position] == width and not any(d.flips)), None)
        if step is None:
            break
        weight, digit = step
        rest = [d.strides[position] for w, d in own if d is not digit and (w, d.extent) not in taken]
        rest += [d.flips[position] for _, d in own]
        images = rest + [value for d in others for value in (d.strides[position], d.flips[position])]
        extent = max(e for e in range(1, digit.extent + 1) if _fits(e, digit.extent, width, limit, images))
        if extent == 1:
            break
        taken.append((weight, extent))
        width *= extent
        if extent < digit.extent:
            break
    return Vector(width=width, digits=tuple(taken))


def _fits(extent: int, whole: int, width: int, limit: int, images: list[int]) -> bool:
    """Whether ``extent`` of a digit's values continue a vector: they divide the digit, and all else moves by whole vectors."""
    wide = width * extent
    return whole % extent == 0 and wide <= limit and all(image % wide == 0 for image in images)
