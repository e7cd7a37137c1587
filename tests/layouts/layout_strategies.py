"""Random layouts, and their meaning by brute force."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from zellige.layouts import Digit, Layout, layout, mixed

Points = dict[str, np.ndarray]


def arrays(value: Layout) -> Points:
    """The table of a layout, each array of the full shape of the inputs."""
    shape = tuple(value.input_sizes.values())
    return {name: np.broadcast_to(array, shape) for name, array in value.table().items()}


def flat(value: Layout, names: list[str] | None = None) -> np.ndarray:
    """One number for each input point, in row-major order of the inputs: its output point's."""
    order = list(value.output_sizes) if names is None else names
    sizes = value.output_sizes
    total = np.zeros(tuple(value.input_sizes.values()), np.int64)
    for name in order:
        total = total * sizes[name] + arrays(value)[name]
    return total.reshape(-1)


@st.composite
def bijections(draw: st.DrawFn, names: tuple[str, ...] = ("register", "lane"), outputs: tuple[str, ...] = ("row", "column")) -> Layout:
    """Random one to one layouts: an invertible matrix on the low bits, odd factors as outer strides."""
    widths = [draw(st.integers(0, 4)) for _ in outputs]
    total = sum(widths)
    columns = [1 << n for n in range(total)]
    for _ in range(draw(st.integers(0, 2 * total)) if total > 1 else 0):  # elementary operations keep it invertible
        a, b = draw(st.permutations(range(total)))[:2]
        columns[a] ^= columns[b]
    columns = [columns[n] for n in draw(st.permutations(range(total)))]
    odd = [draw(st.sampled_from([1, 1, 3, 5, 7])) for _ in outputs]
    digits: dict[str, list[Digit]] = {name: [] for name in names}
    shifts = [sum(widths[:n]) for n in range(len(widths))]
    for column in columns:
        flips = tuple(column >> shift & ((1 << width) - 1) for shift, width in zip(shifts, widths))
        digits[draw(st.sampled_from(names))].append(Digit(extent=2, strides=(0,) * len(outputs), flips=flips))
    for position, extent in enumerate(odd):
        stride = tuple(1 << widths[position] if n == position else 0 for n in range(len(outputs)))
        digits[draw(st.sampled_from(names))].append(Digit(extent=extent, strides=stride, flips=(0,) * len(outputs)))
    return layout(digits, {name: odd[n] << widths[n] for n, name in enumerate(outputs)})


@st.composite
def with_copies(draw: st.DrawFn) -> Layout:
    """Random layouts onto a tile with digits of copies among those that matter."""
    value = draw(bijections())
    digits = {axis.name: list(axis.digits) for axis in value.inputs}
    rank = len(value.outputs)
    for name in digits:
        for _ in range(draw(st.integers(0, 2))):
            extent = draw(st.sampled_from([2, 2, 3]))  # an odd one stands outermost, as everywhere
            place = draw(st.integers(0, len(digits[name]))) if extent == 2 else len(digits[name])
            digits[name].insert(place, Digit(extent=extent, strides=(0,) * rank, flips=(0,) * rank))
    return layout(digits, value.output_sizes)


@st.composite
def memories(draw: st.DrawFn, sizes: dict[str, int]) -> Layout:
    """Random strided storage of a tile, dimensions in any order, with gaps."""
    order = draw(st.permutations(list(sizes)))
    stride, digits = draw(st.integers(1, 2)), {}
    for name in order:
        digits[name] = [(sizes[name], {"offset": stride})]
        stride *= sizes[name]
        stride += draw(st.integers(0, 9))
    return mixed({name: digits[name] for name in sizes}, {"offset": max(1, stride)})


def points(value: Layout) -> int:
    return math.prod(value.output_sizes.values())
