"""How a reduction over dimensions of a distributed tile is carried out: in registers, by shuffles, across outer inputs.

In: a layout from (register, lane, ...) to the tile's indices and the dimensions to combine. Out: the digits over which each holder
combines, and the layout of the result. Copies are never combined twice: digits that were copies before stay copies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from zellige.diagnostics import catalogue
from zellige.layouts.algebra import FreeDigit, copies, sliced
from zellige.layouts.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """``steps`` are the digits whose values are combined, those of the first inputs first: of registers within a lane, of lanes by
    shuffles (a digit of extent 2 is a butterfly with its weight), of other inputs through memory. ``result`` is the layout of what comes
    out, each element held by every holder that took part (copies)."""

    steps: tuple[FreeDigit, ...]
    result: Layout

    def within(self, axis: str) -> tuple[FreeDigit, ...]:
        """The steps along one input."""
        return tuple(step for step in self.steps if step.axis == axis)


def reduction(value: Layout, dimensions: Sequence[str]) -> Reduction:
    """How ``dimensions`` are combined. E320 for unknown ones, E321 where parts of elements combined lie across several digits at once."""
    result = sliced(value, dimensions)
    steps = []
    kept = [value.output(dimension.name) for dimension in result.outputs]
    for axis in value.inputs:
        weight = 1
        for digit in axis.digits:
            moves_result = any(digit.strides[position] or digit.flips[position] for position in kept)
            if not moves_result and not digit.is_free:
                steps.append(FreeDigit(axis=axis.name, weight=weight, extent=digit.extent))
            weight *= digit.extent
    if copies(value) * math.prod(step.extent for step in steps) != copies(result):
        reason = "elements to combine differ in digits that move the result too"
        raise catalogue.E321.error(operation=f"the reduction over {', '.join(dimensions)}", reason=reason)
    return Reduction(steps=tuple(steps), result=result)
