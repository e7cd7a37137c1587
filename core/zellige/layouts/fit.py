"""A layout from a map that is given point by point, such as a function that a kernel's author wrote.

In: tables of output coordinates over all inputs. Out: the layout with exactly this map, or E321 where the algebra has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from typing import Any

import numpy as np

from zellige.diagnostics import catalogue
from zellige.diagnostics.error import ZelligeError
from zellige.layouts.digits import Digit, flipping, strided
from zellige.layouts.layout import Array, Layout, Sizes, layout


def fitted(inputs: Sizes, outputs: Sizes, table: Mapping[str, Any]) -> Layout:
    """The layout whose table this is: ``table[output][i, j, ...]`` over all input points.

    Tried in turn: bits exchanged below odd factors, bits exchanged among the low ones only, sums of strides. E320 for tables of another
    shape, E321 where none of them is the map.
    """
    sizes, targets = dict(inputs), dict(outputs)
    arrays = [np.asarray(table[name], np.int64) for name in targets]
    if set(table) != set(targets) or any(array.shape != tuple(sizes.values()) for array in arrays):
        raise catalogue.E320.error(operation="a table", reason="it has not one array of the inputs' shape for each output")
    point = _first_wrong(arrays)
    if point is not None:
        raise catalogue.E321.error(operation="this map", reason=f"the first point is mapped to {point}, not to zeros")
    plain = _digits(sizes, arrays)
    for digits in (_flipped(plain), plain, _parted(plain)):
        try:
            found = layout(digits, targets)
        except ZelligeError as error:
            if error.code not in ("E320", "E321"):
                raise
            continue
        got = found.table()
        if all(np.array_equal(np.broadcast_to(got[name], array.shape), array) for name, array in zip(targets, arrays)):
            return found
    raise catalogue.E321.error(operation="this map", reason="it is neither an exclusive or of bits nor a sum of strides")


def _first_wrong(arrays: Sequence[Array]) -> tuple[int, ...] | None:
    first = tuple(int(array.flat[0]) for array in arrays)
    return first if any(first) else None


def _digits(sizes: Mapping[str, int], arrays: Sequence[Array]) -> dict[str, list[Digit]]:
    """Prime factors of each input as strided digits, in an order that suits the points along that input."""
    digits: dict[str, list[Digit]] = {}
    for axis, (name, size) in enumerate(sizes.items()):
        line = [np.moveaxis(array, axis, 0).reshape(size, -1)[:, 0] for array in arrays]  # the other inputs are 0
        orders = _orders(size)
        order = next((order for order in orders if all(_agrees(values, order) for values in line)), orders[0])
        digits[name] = []
        weight = 1
        for factor in order:
            digits[name].append(strided(factor, (int(values[weight]) for values in line)))
            weight *= factor
    return digits


def _orders(size: int) -> list[tuple[int, ...]]:
    """Orders of a size's prime factors: bits, odd ones in any order, further bits; those with all bits first come first."""
    low = size & -size
    odd = dict.fromkeys(permutations(_factors(size // low)))
    count = low.bit_length() - 1
    return [((2,) * (count - above) + order + (2,) * above) for above in range(count + 1) for order in odd]


def _agrees(values: Array, order: Sequence[int]) -> bool:
    """Whether digits cut in this order move an output by a sum of strides, or by bits exchanged and strides on top."""
    numbers = np.arange(len(values))
    total, exchanged = np.zeros_like(numbers), np.zeros_like(numbers)
    weight = 1
    for factor in order:
        part = numbers // weight % factor * int(values[weight])
        total += part
        exchanged = exchanged ^ part if factor == 2 else exchanged + part
        weight *= factor
    return np.array_equal(total, values) or np.array_equal(exchanged, values)


def _flipped(digits: Mapping[str, Sequence[Digit]]) -> dict[str, list[Digit]]:
    """All bits exchange."""
    return {name: [flipping(digit.strides) if digit.extent == 2 else digit for digit in own] for name, own in digits.items()}


def _parted(digits: Mapping[str, Sequence[Digit]]) -> dict[str, list[Digit]]:
    """Bits exchange with the part of their image below the lowest stride of an odd digit, and move by the rest."""
    odd = [digit.strides for own in digits.values() for digit in own if digit.extent != 2]
    count = len(next(digit.strides for own in digits.values() for digit in own)) if any(digits.values()) else 0
    limits = [min((image[n] & -image[n] for image in odd if image[n]), default=0) for n in range(count)]

    def part(digit: Digit) -> Digit:
        if digit.extent != 2:
            return digit
        flips = tuple(whole % limit if limit else whole for whole, limit in zip(digit.strides, limits))
        return Digit(extent=2, strides=tuple(whole - flip for whole, flip in zip(digit.strides, flips)), flips=flips)

    return {name: [part(digit) for digit in own] for name, own in digits.items()}


def _factors(size: int) -> list[int]:
    found, factor = [], 2
    while size > 1:
        while size % factor == 0:
            found.append(factor)
            size //= factor
        factor += 1
    return found
