"""The value of a layout: a map from named input dimensions to named output dimensions.

A layout of registers maps (register, lane, warp) to the indices of a tile's element, one of memory maps an element's indices to an
offset; neither knows the other's names. In: digits (:mod:`zellige.layouts.digits`). Out: :class:`Layout`, which is applied to NumPy arrays
and compares by what it maps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from zellige.diagnostics import catalogue
from zellige.layouts import bits
from zellige.layouts.digits import Digit, Digits, canonical, misaligned

Array: TypeAlias = npt.NDArray[np.int64]
Sizes: TypeAlias = Mapping[str, int] | Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """An input dimension: its name and digits, least significant first. A dimension without digits has one point."""

    name: str
    digits: Digits

    @property
    def size(self) -> int:
        return math.prod(digit.extent for digit in self.digits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """An output dimension: coordinates lie in [0, size)."""

    name: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A map of all points of ``inputs`` to points of ``outputs``. Equal maps between equal dimensions are equal values.

    Raises CompileError E320 for names or sizes that cannot be, E321 for a map outside of the algebra (see :mod:`zellige.layouts.digits`).
    """

    inputs: tuple[Axis, ...]
    outputs: tuple[Dimension, ...]

    def __post_init__(self) -> None:
        self._check_shape()
        digits = canonical([axis.digits for axis in self.inputs], len(self.outputs))
        wrong = misaligned(digits, len(self.outputs))
        if wrong is not None:
            output, stride, width = wrong
            reason = f"the stride {stride} of {self.outputs[output].name} is no multiple of {1 << width}, the span of its exchanged bits"
            raise catalogue.E321.error(operation="this layout", reason=reason)
        object.__setattr__(self, "inputs", tuple(Axis(name=axis.name, digits=own) for axis, own in zip(self.inputs, digits)))
        self._check_range()

    def _check_shape(self) -> None:
        names = [axis.name for axis in self.inputs]
        others = [dimension.name for dimension in self.outputs]
        if len(set(names)) != len(names) or len(set(others)) != len(others):
            raise catalogue.E320.error(operation="a layout", reason=f"a name stands twice in ({', '.join(names)}) -> ({', '.join(others)})")
        for dimension in self.outputs:
            if dimension.size < 1:
                raise catalogue.E320.error(operation="a layout", reason=f"{dimension.name} has the size {dimension.size}")
        for axis in self.inputs:
            for digit in axis.digits:
                if digit.extent < 1 or any(value < 0 for value in (*digit.strides, *digit.flips)):
                    raise catalogue.E320.error(operation="a layout", reason=f"{axis.name} has an extent below 1 or a negative stride")
                if not len(digit.strides) == len(digit.flips) == len(self.outputs):
                    raise catalogue.E320.error(operation="a layout", reason=f"a digit of {axis.name} has not one stride for each output")

    def _check_range(self) -> None:
        for output, dimension in enumerate(self.outputs):
            digits = [digit for axis in self.inputs for digit in axis.digits]
            top = sum((digit.extent - 1) * digit.strides[output] for digit in digits)
            top += bits.span(digit.flips[output] for digit in digits).largest
            if top >= dimension.size:
                raise catalogue.E320.error(
                    operation="a layout", reason=f"{dimension.name} has the size {dimension.size}, and a point is mapped to {top}"
                )

    # ---- sizes ----

    @property
    def input_sizes(self) -> dict[str, int]:
        return {axis.name: axis.size for axis in self.inputs}

    @property
    def output_sizes(self) -> dict[str, int]:
        return {dimension.name: dimension.size for dimension in self.outputs}

    @property
    def points(self) -> int:
        """The number of input points."""
        return math.prod(axis.size for axis in self.inputs)

    def axis(self, name: str) -> Axis:
        """The input dimension of that name. E320 where there is none."""
        for axis in self.inputs:
            if axis.name == name:
                return axis
        raise catalogue.E320.error(operation="a layout", reason=f"it has no input {name}, only {', '.join(self.input_sizes) or 'none'}")

    def output(self, name: str) -> int:
        """The position of the output dimension of that name. E320 where there is none."""
        for position, dimension in enumerate(self.outputs):
            if dimension.name == name:
                return position
        raise catalogue.E320.error(operation="a layout", reason=f"it has no output {name}, only {', '.join(self.output_sizes) or 'none'}")

    # ---- points ----

    def apply(self, points: Mapping[str, Any]) -> dict[str, Array]:
        """The output coordinates of input points: integers or arrays that broadcast, one for each input dimension.

        Raises E320 for a missing or unknown dimension or a coordinate outside of it.
        """
        if set(points) != set(self.input_sizes):
            reason = f"the inputs are ({', '.join(self.input_sizes)}), not ({', '.join(points)})"
            raise catalogue.E320.error(operation="apply", reason=reason)
        values = [np.asarray(points[axis.name], dtype=np.int64) for axis in self.inputs]
        shape = np.broadcast_shapes(*(value.shape for value in values))
        sums = [np.zeros(shape, np.int64) for _ in self.outputs]
        flips = [np.zeros(shape, np.int64) for _ in self.outputs]
        for axis, value in zip(self.inputs, values):
            if value.size and (value.min() < 0 or value.max() >= axis.size):
                raise catalogue.E320.error(operation="apply", reason=f"a coordinate of {axis.name} lies outside of [0, {axis.size})")
            for digit in axis.digits:
                value, part = np.divmod(value, digit.extent)
                for output in range(len(self.outputs)):
                    if digit.strides[output]:
                        sums[output] += part * digit.strides[output]
                    if digit.flips[output]:
                        flips[output] ^= part * digit.flips[output]
        return {dimension.name: total + flip for dimension, total, flip in zip(self.outputs, sums, flips)}

    def at(self, **points: int) -> dict[str, int]:
        """The output coordinates of one point."""
        return {name: int(value) for name, value in self.apply(points).items()}

    def table(self) -> dict[str, Array]:
        """The output coordinates of all points: arrays of the input's shape, in the order of ``inputs``."""
        return self.apply(self.grid())

    def grid(self) -> dict[str, Array]:
        """Coordinates of all points, as open arrays that broadcast to the input's shape."""
        sizes = self.input_sizes
        return dict(zip(sizes, np.ix_(*(np.arange(size) for size in sizes.values())))) if sizes else {}

    def __str__(self) -> str:
        sources = ", ".join(f"{axis.name} {_digits_text(axis.digits)}" for axis in self.inputs)
        return f"({sources}) -> ({', '.join(f'{d.name} {d.size}' for d in self.outputs)})"


def _digits_text(digits: Digits) -> str:
    if not digits:
        return "1"
    parts = []
    for digit in digits:
        images = ",".join(f"{stride}" if not flip else f"{stride or ''}^{flip}" for stride, flip in zip(digit.strides, digit.flips))
        parts.append(f"{digit.extent}:({images})" if len(digit.strides) != 1 else f"{digit.extent}:{images}")
    return "[" + " ".join(parts) + "]"


def dimensions(sizes: Sizes) -> tuple[Dimension, ...]:
    """Output dimensions from names and sizes."""
    pairs = sizes.items() if isinstance(sizes, Mapping) else sizes
    return tuple(Dimension(name=name, size=size) for name, size in pairs)


def layout(inputs: Mapping[str, Iterable[Digit]], outputs: Sizes) -> Layout:
    """A layout from the digits of each input dimension (least significant first) and the sizes of the outputs."""
    return Layout(inputs=tuple(Axis(name=name, digits=tuple(digits)) for name, digits in inputs.items()), outputs=dimensions(outputs))


def is_same_map(first: Layout, second: Layout) -> bool:
    """Whether both map all points alike, the order of dimensions apart; found by evaluating every point."""
    if first.input_sizes != second.input_sizes or set(first.output_sizes) != set(second.output_sizes):
        return False
    one, other = first.apply(first.grid()), second.apply(first.grid())
    return all(bool(np.array_equal(np.broadcast_to(one[name], other[name].shape), other[name])) for name in one)
