"""Digits of which layouts consist, and the canonical form that makes equal maps equal values.

A dimension of n points is a mixed-radix number: digits of extents e0, e1, ... (least significant first) with e0*e1*... = n. A digit of
value v adds ``v * stride`` to each output; a bit (extent 2) may also flip bits of an output. An output is the sum of all strides' parts
plus the exclusive or of all flips. Invariant: in each output the flips lie below 2**k and every stride is a multiple of 2**k, so the low
k bits are a linear map over two elements and the rest are outer, strided repeats.

In: digits per dimension. Out: the same map in the one form with the largest k. The idea of mapping bits linearly is that of the paper
"Linear Layouts: Robust Code Generation of Efficient Tensor Computation Using F2" (2025); odd factors as outer digits are added here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Digit:
    """One digit of an input dimension: ``strides`` and ``flips`` have an entry for each output; flips are 0 unless ``extent`` is 2."""

    extent: int
    strides: tuple[int, ...]
    flips: tuple[int, ...]

    @property
    def is_free(self) -> bool:
        """Whether the outputs do not depend on it: its values are copies."""
        return not any(self.strides) and not any(self.flips)

    @property
    def is_bit(self) -> bool:
        """Whether it takes part in the linear map over two elements only."""
        return self.extent == 2 and not any(self.strides)


Digits: TypeAlias = tuple[Digit, ...]


def strided(extent: int, strides: Iterable[int]) -> Digit:
    """A digit of ``extent`` values that moves each output by its stride, and flips nothing."""
    values = tuple(strides)
    return Digit(extent=extent, strides=values, flips=(0,) * len(values))


def flipping(flips: Iterable[int]) -> Digit:
    """A bit that flips bits of outputs."""
    values = tuple(flips)
    return Digit(extent=2, strides=(0,) * len(values), flips=values)


def canonical(axes: Sequence[Digits], outputs: int) -> tuple[Digits, ...]:
    """The canonical digits of each dimension for the same map."""
    split = [[piece for digit in digits for piece in _split(digit)] for digits in loosened(axes, outputs)]
    return tuple(tuple(_merged(digits, keep_bits=True)) for digits in _promoted(split, outputs))


def loosened(axes: Sequence[Digits], outputs: int) -> list[list[Digit]]:
    """The same map with as few digits as can be: only bits that are exchanged with others remain flips. It can be cut anywhere else."""
    return [_merged(digits) for digits in _softened([[d for d in digits if d.extent > 1] for digits in axes], outputs)]


def spans(axes: Iterable[Digits], outputs: int) -> tuple[int, ...]:
    """For each output the number k of low bits in which its flips lie."""
    masks = [0] * outputs
    for digits in axes:
        for digit in digits:
            for output, flip in enumerate(digit.flips):
                masks[output] |= flip
    return tuple(mask.bit_length() for mask in masks)


def misaligned(axes: Sequence[Digits], outputs: int) -> tuple[int, int, int] | None:
    """An output, a stride in it and its k where the stride is no multiple of 2**k; None where the invariant holds."""
    widths = spans(axes, outputs)
    for digits in axes:
        for digit in digits:
            for output, stride in enumerate(digit.strides):
                if stride % (1 << widths[output]):
                    return output, stride, widths[output]
    return None


def _softened(axes: list[list[Digit]], outputs: int) -> list[list[Digit]]:
    """Flips that meet no other flip are additions: written as strides."""
    seen, shared = [0] * outputs, [0] * outputs
    for digits in axes:
        for digit in digits:
            for output, flip in enumerate(digit.flips):
                shared[output] |= seen[output] & flip
                seen[output] |= flip

    def soft(digit: Digit) -> Digit:
        if not any(digit.flips):
            return digit
        moved = tuple(0 if flip & both else flip for flip, both in zip(digit.flips, shared))
        return replace(
            digit,
            strides=tuple(stride + flip for stride, flip in zip(digit.strides, moved)),
            flips=tuple(flip - gone for flip, gone in zip(digit.flips, moved)),
        )

    return [[soft(digit) for digit in digits] for digits in axes]


def _merged(digits: Iterable[Digit], *, keep_bits: bool = False) -> list[Digit]:
    """Neighbours that count on as one digit become one, bits of the linear map excepted where they are to be kept."""
    merged: list[Digit] = []
    for digit in digits:
        last = merged[-1] if merged else None
        joins = last is not None and not any(last.flips) and not any(digit.flips)
        if keep_bits and last is not None and (last.is_bit or digit.is_bit):
            joins = False
        if last is not None and joins and digit.strides == tuple(last.extent * stride for stride in last.strides):
            merged[-1] = replace(last, extent=last.extent * digit.extent)
        else:
            merged.append(digit)
    return merged


def _split(digit: Digit) -> list[Digit]:
    """The bits of a digit, then its odd rest."""
    pieces = []
    while digit.extent % 2 == 0:
        pieces.append(replace(digit, extent=2))
        digit = strided(digit.extent // 2, (2 * stride for stride in digit.strides))
    return pieces if digit.extent == 1 else [*pieces, digit]


def _promoted(axes: list[list[Digit]], outputs: int) -> list[list[Digit]]:
    """Bits whose strides can be flips become so: the largest set that keeps the invariant."""
    chosen = {(axis, position) for axis, digits in enumerate(axes) for position, digit in enumerate(digits) if digit.extent == 2}
    while True:
        bad = _not_promotable(axes, chosen, outputs)
        if not bad:
            break
        chosen -= bad

    def final(digit: Digit) -> Digit:
        return flipping(flip | stride for flip, stride in zip(digit.flips, digit.strides))

    return [
        [final(digit) if (axis, position) in chosen else digit for position, digit in enumerate(digits)]
        for axis, digits in enumerate(axes)
    ]


def _not_promotable(axes: list[list[Digit]], chosen: set[tuple[int, int]], outputs: int) -> set[tuple[int, int]]:
    seen, shared, limits = [0] * outputs, [0] * outputs, [0] * outputs
    for digits in axes:
        for digit in digits:
            for output, flip in enumerate(digit.flips):
                seen[output] |= flip
    for axis, digits in enumerate(axes):
        for position, digit in enumerate(digits):
            for output, stride in enumerate(digit.strides):
                if (axis, position) in chosen:
                    shared[output] |= seen[output] & stride
                    seen[output] |= stride
                elif stride:
                    low = stride & -stride
                    limits[output] = min(limits[output] or low, low)
    return {
        (axis, position)
        for axis, position in chosen
        for output, stride in enumerate(axes[axis][position].strides)
        if stride and (stride & shared[output] or (limits[output] and stride >= limits[output]))
    }
