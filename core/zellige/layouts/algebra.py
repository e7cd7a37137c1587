"""What is computed with layouts: composition, inverses, division by a tile, products, restriction, replication.

In: layouts. Out: layouts, found by arithmetic on their digits, never by evaluating points. What the algebra cannot express is E321, E322 or
E323, which say why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from zellige.diagnostics import catalogue
from zellige.diagnostics.error import ZelligeError
from zellige.layouts import bits
from zellige.layouts.digits import Digit, loosened, spans, strided
from zellige.layouts.layout import Axis, Dimension, Layout, dimensions


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeDigit:
    """A digit of an input dimension that need not vary to reach every output point: its values are copies."""

    axis: str
    weight: int
    extent: int


# ---- renaming and regrouping of dimensions ----


def renamed(value: Layout, names: Mapping[str, str]) -> Layout:
    """The same map under other names of dimensions."""
    inputs = tuple(replace(axis, name=names.get(axis.name, axis.name)) for axis in value.inputs)
    return Layout(inputs=inputs, outputs=tuple(replace(d, name=names.get(d.name, d.name)) for d in value.outputs))


def joined(value: Layout, name: str, parts: Sequence[str]) -> Layout:
    """The inputs ``parts`` (least significant first) as one input ``name``, which stands where the first of them stood."""
    digits = tuple(digit for part in parts for digit in value.axis(part).digits)
    whole = Axis(name=name, digits=digits)
    return Layout(
        inputs=tuple(whole if axis.name == parts[0] else axis for axis in value.inputs if axis.name == parts[0] or axis.name not in parts),
        outputs=value.outputs,
    )


def divided_axis(value: Layout, name: str, parts: Sequence[tuple[str, int]]) -> Layout:
    """The input ``name`` as several inputs, least significant first. E321 where its digits cannot be cut there."""
    position = [axis.name for axis in value.inputs].index(value.axis(name).name)
    digits = loose_digits(value)[position]
    if math.prod(size for _, size in parts) != value.axis(name).size:
        raise catalogue.E320.error(operation="divided_axis", reason=f"the parts of {name} have not {value.axis(name).size} points together")
    axes = []
    for part, size in parts:
        low, digits = cut_digits(digits, size, f"{name} at {size}")
        axes.append(Axis(name=part, digits=tuple(low)))
    return Layout(inputs=(*value.inputs[:position], *axes, *value.inputs[position + 1 :]), outputs=value.outputs)


def reordered(value: Layout, inputs: Sequence[str], outputs: Sequence[str]) -> Layout:
    """The same map with its dimensions in another order. E320 for names that are not its own."""
    if sorted(inputs) != sorted(value.input_sizes) or sorted(outputs) != sorted(value.output_sizes):
        raise catalogue.E320.error(operation="reordered", reason="the names are not those of the layout")
    order = [value.output(name) for name in outputs]
    return Layout(
        inputs=tuple(_picked(value.axis(name), order) for name in inputs), outputs=tuple(value.outputs[position] for position in order)
    )


def sliced(value: Layout, drop: Sequence[str]) -> Layout:
    """The map without the output dimensions ``drop``: inputs that told only those apart become copies, as after a reduction."""
    for name in drop:
        value.output(name)
    kept = [position for position, dimension in enumerate(value.outputs) if dimension.name not in drop]
    return Layout(inputs=tuple(_picked(axis, kept) for axis in value.inputs), outputs=tuple(value.outputs[position] for position in kept))


def resized(value: Layout, sizes: Mapping[str, int]) -> Layout:
    """The same map into output dimensions of other sizes. E320 where a point would lie outside."""
    return Layout(inputs=value.inputs, outputs=tuple(replace(d, size=sizes.get(d.name, d.size)) for d in value.outputs))


def restricted(value: Layout, sizes: Mapping[str, int]) -> Layout:
    """The map of the first ``sizes`` points of the inputs named. E321 where the digits cannot be cut there."""
    for name in sizes:
        value.axis(name)
    axes = []
    for axis, digits in zip(value.inputs, loose_digits(value)):
        low, _ = cut_digits(digits, sizes.get(axis.name, axis.size), f"{axis.name} at {sizes.get(axis.name)}")
        axes.append(Axis(name=axis.name, digits=tuple(low)))
    return Layout(inputs=tuple(axes), outputs=value.outputs)


def loose_digits(value: Layout) -> list[list[Digit]]:
    """The digits of each input, :func:`~zellige.layouts.digits.loosened`."""
    return loosened([axis.digits for axis in value.inputs], len(value.outputs))


def _picked(axis: Axis, outputs: Sequence[int]) -> Axis:
    return Axis(name=axis.name, digits=tuple(_on(digit, outputs) for digit in axis.digits))


def _on(digit: Digit, outputs: Sequence[int]) -> Digit:
    return replace(digit, strides=tuple(digit.strides[p] for p in outputs), flips=tuple(digit.flips[p] for p in outputs))


def cut_digits(digits: list[Digit], size: int, what: str) -> tuple[list[Digit], list[Digit]]:
    """The digits below a weight and those above it."""
    low: list[Digit] = []
    rest = list(digits)
    while size > 1:
        if not rest:
            raise catalogue.E320.error(operation="a cut", reason=f"{what} is longer than the dimension")
        digit = rest.pop(0)
        if size % digit.extent == 0:
            low.append(digit)
            size //= digit.extent
        elif digit.extent % size == 0 and not any(digit.flips):
            low.append(replace(digit, extent=size))
            rest.insert(0, strided(digit.extent // size, (size * stride for stride in digit.strides)))
            size = 1
        else:
            raise catalogue.E321.error(operation=f"the cut of {what}", reason=f"a digit of extent {digit.extent} is in the way")
    return low, rest


# ---- products and division ----


def product(inner: Layout, outer: Layout) -> Layout:
    """``inner`` repeated as ``outer`` says: inputs of one name become one (inner's digits least significant), sizes of outputs multiply.

    The image of a point is inner's plus inner's size times outer's. Dimensions that one of the two lacks count as one point there.
    """
    names = list(dict.fromkeys([d.name for d in inner.outputs] + [d.name for d in outer.outputs]))
    small, large = inner.output_sizes, outer.output_sizes
    sizes = {name: small.get(name, 1) * large.get(name, 1) for name in names}
    axes = []
    lows, highs = dict(zip(inner.input_sizes, loose_digits(inner))), dict(zip(outer.input_sizes, loose_digits(outer)))
    for name in dict.fromkeys([*inner.input_sizes, *outer.input_sizes]):
        low = [_spread(digit, inner, names, {}) for digit in lows.get(name, [])]
        high = [_spread(digit, outer, names, small) for digit in highs.get(name, [])]
        axes.append(Axis(name=name, digits=(*low, *high)))
    return Layout(inputs=tuple(axes), outputs=dimensions(sizes))


def _spread(digit: Digit, owner: Layout, names: Sequence[str], factors: Mapping[str, int]) -> Digit:
    """A digit among other outputs, its images multiplied. Exchanged bits stay bits under powers of two only."""
    for dimension, flip in zip(owner.outputs, digit.flips):
        factor = factors.get(dimension.name, 1)
        if flip and factor & (factor - 1):
            reason = f"bits of {dimension.name} are exchanged above the odd factor in {factor}"
            raise catalogue.E321.error(operation="product", reason=reason)
    place = {dimension.name: position for position, dimension in enumerate(owner.outputs)}

    def images(values: Sequence[int]) -> tuple[int, ...]:
        return tuple(values[place[name]] * factors.get(name, 1) if name in place else 0 for name in names)

    return Digit(extent=digit.extent, strides=images(digit.strides), flips=images(digit.flips))


def divide(value: Layout, tile: Layout) -> Layout:
    """How often and where ``value`` repeats ``tile``: the layout q with product(tile, q) == value, the order of dimensions apart.

    Raises E323 where ``value`` does not consist of such tiles: this is how an instruction is found to fit a layout.
    """
    for name in tile.input_sizes:
        if name not in value.input_sizes:
            raise catalogue.E323.error(reason=f"the tile has an input {name}, the layout has not")
    for name, size in tile.output_sizes.items():
        if name not in value.output_sizes or value.output_sizes[name] % size:
            own = value.output_sizes.get(name, "a missing dimension")
            raise catalogue.E323.error(reason=f"{size} of the tile's {name} do not divide {own}")
    sizes = [tile.output_sizes.get(dimension.name, 1) for dimension in value.outputs]
    lows, highs = [], []
    for axis, digits in zip(value.inputs, loose_digits(value)):
        size = tile.input_sizes.get(axis.name, 1)
        if axis.size % size:
            raise catalogue.E323.error(reason=f"{size} of the tile's {axis.name} do not divide {axis.size}")
        try:
            low, high = cut_digits(digits, size, axis.name)
        except ZelligeError as error:
            raise catalogue.E323.error(reason=error.diagnostics[0].message) from error
        lows.append(Axis(name=axis.name, digits=tuple(low)))
        highs.append(Axis(name=axis.name, digits=tuple(_quotient(digit, sizes, axis.name, value) for digit in high)))
    _require_tile(lows, value, tile)
    outer = tuple(replace(dimension, size=dimension.size // size) for dimension, size in zip(value.outputs, sizes))
    return Layout(inputs=tuple(highs), outputs=outer)


def _quotient(digit: Digit, sizes: Sequence[int], axis: str, value: Layout) -> Digit:
    for position, size in enumerate(sizes):
        if digit.strides[position] % size or digit.flips[position] % size:
            name = value.outputs[position].name
            step = digit.strides[position] ^ digit.flips[position]
            raise catalogue.E323.error(reason=f"a step of {axis} beyond the tile moves {name} by {step}, no multiple of {size}")
    return Digit(
        extent=digit.extent,
        strides=tuple(stride // size for stride, size in zip(digit.strides, sizes)),
        flips=tuple(flip // size for flip, size in zip(digit.flips, sizes)),
    )


def _require_tile(lows: Sequence[Axis], value: Layout, tile: Layout) -> None:
    """The lowest digits of a layout are those of the tile."""
    inputs, outputs = list(tile.input_sizes), list(tile.output_sizes)
    try:
        first = Layout(inputs=tuple(lows), outputs=tuple(replace(d, size=tile.output_sizes.get(d.name, 1)) for d in value.outputs))
    except ZelligeError as error:
        raise catalogue.E323.error(reason=f"the first tile reaches beyond itself: {error.diagnostics[0].message}") from error
    own = Layout(inputs=tuple(axis for axis in first.inputs if axis.name in inputs), outputs=first.outputs)
    own = reordered(sliced(own, [d.name for d in own.outputs if d.name not in outputs]), inputs, outputs)
    if own != tile:
        raise catalogue.E323.error(reason=f"its first points are {own}, the tile is {tile}")


# ---- replication and inverses ----


def free_digits(value: Layout) -> tuple[FreeDigit, ...]:
    """Digits of inputs that can stay 0 while every output point of the layout is still reached.

    Digits count in the order of ``inputs``: of two that reach the same points the later is free. Over the field of two elements this is
    the complement of a basis of the columns, so it finds copies that are sums of other bits too.
    """
    widths = _widths(value)
    found = bits.Span()
    free = []
    for axis in value.inputs:
        weight = 1
        for digit in axis.digits:
            if digit.is_free or (digit.is_bit and not found.add(_packed(digit, widths))):
                free.append(FreeDigit(axis=axis.name, weight=weight, extent=digit.extent))
            weight *= digit.extent
    return tuple(free)


def copies(value: Layout) -> int:
    """How many input points hold each output point that is reached."""
    return math.prod(digit.extent for digit in free_digits(value))


def invert(value: Layout) -> Layout:
    """From output points to the input point that maps there. E322 where the layout is not one to one and onto."""
    free = free_digits(value)
    if free:
        raise catalogue.E322.error(reason=f"each output point is reached {copies(value)} times, by all values of {free[0].axis}")
    return right_inverse(value)


def right_inverse(value: Layout) -> Layout:
    """From output points to the input point that maps there with all free digits 0 (the first holder). E322 where none maps there."""
    free = {(digit.axis, digit.weight) for digit in free_digits(value)}
    widths = _widths(value)
    linear: list[tuple[str, int, int]] = []  # of each bit in the linear map: axis, weight, column
    outer: list[tuple[str, int, Digit]] = []
    for axis in value.inputs:
        weight = 1
        for digit in axis.digits:
            if (axis.name, weight) not in free:
                if digit.is_bit:
                    linear.append((axis.name, weight, _packed(digit, widths)))
                else:
                    outer.append((axis.name, weight, digit))
            weight *= digit.extent
    names = [axis.name for axis in value.inputs]
    low = _inverse_bits(value, linear, widths, names)
    high = [_inverse_outer(value, position, widths[position], outer, names) for position in range(len(value.outputs))]
    axes = tuple(Axis(name=d.name, digits=(*low[position], *high[position])) for position, d in enumerate(value.outputs))
    return Layout(inputs=axes, outputs=tuple(Dimension(name=axis.name, size=axis.size) for axis in value.inputs))


def _widths(value: Layout) -> tuple[int, ...]:
    """For each output the number of its low bits that the linear map gives."""
    return spans([axis.digits for axis in value.inputs], len(value.outputs))


def _packed(digit: Digit, widths: Sequence[int]) -> int:
    """A bit's flips of all outputs as one vector."""
    vector, shift = 0, 0
    for flip, width in zip(digit.flips, widths):
        vector |= flip << shift
        shift += width
    return vector


def _inverse_bits(value: Layout, linear: Sequence[tuple[str, int, int]], widths: Sequence[int], names: Sequence[str]) -> list[list[Digit]]:
    """Digits of the inverse's inputs (one list for each output of ``value``) for the low bits."""
    inverse = bits.inverse([column for _, _, column in linear])
    if inverse is None or len(linear) != sum(widths):
        raise catalogue.E322.error(reason=f"the low bits reach 2^{len(linear)} of 2^{sum(widths)} combinations")
    users = [0] * len(linear)
    for column in inverse:
        for bit in range(len(linear)):
            users[bit] += column >> bit & 1
    result: list[list[Digit]] = []
    position = 0
    for width in widths:
        digits = []
        for column in inverse[position : position + width]:
            strides, flips = [0] * len(names), [0] * len(names)
            for bit, (axis, weight, _) in enumerate(linear):
                if not column >> bit & 1:
                    continue
                if users[bit] == 1:
                    strides[names.index(axis)] += weight
                elif weight & (weight - 1):
                    raise catalogue.E321.error(operation="the inverse", reason=f"an exchanged bit of {axis} has the weight {weight}")
                else:
                    flips[names.index(axis)] |= weight
            digits.append(Digit(extent=2, strides=tuple(strides), flips=tuple(flips)))
        result.append(digits)
        position += width
    return result


def _inverse_outer(value: Layout, position: int, width: int, outer: Sequence[tuple[str, int, Digit]], names: Sequence[str]) -> list[Digit]:
    """Digits of one output above its low bits: the outer digits that move it, by their strides."""
    dimension = value.outputs[position]
    digits = []
    expected = 1 << width
    for axis, weight, digit in sorted((item for item in outer if item[2].strides[position]), key=lambda item: item[2].strides[position]):
        moved = [value.outputs[p].name for p, step in enumerate(digit.strides) if step or digit.flips[p]]
        if len(moved) > 1:
            raise catalogue.E322.error(reason=f"a digit of {axis} moves {' and '.join(moved)} together")
        if digit.strides[position] != expected:
            raise catalogue.E322.error(
                reason=f"{dimension.name} is not filled: a step of {digit.strides[position]} by {axis} follows {expected} points"
            )
        digits.append(strided(digit.extent, (weight if name == axis else 0 for name in names)))
        expected *= digit.extent
    if expected != dimension.size:
        raise catalogue.E322.error(reason=f"{expected} of {dimension.size} points of {dimension.name} are reached")
    return digits


# ---- composition ----


def compose(first: Layout, second: Layout) -> Layout:
    """``second`` after ``first``: the outputs of one are the inputs of the other, by name and size (E320 otherwise).

    Raises E321 where the digits do not line up, for instance where a bit is exchanged across an odd factor.
    """
    if first.output_sizes != second.input_sizes:
        given, taken = _sizes_text(first.output_sizes), _sizes_text(second.input_sizes)
        raise catalogue.E320.error(operation="compose", reason=f"the first gives {given}, the second takes {taken}")
    sources = loose_digits(first)
    ordered = reordered(second, list(first.output_sizes), list(second.output_sizes))
    facing = _facing([digit for digits in sources for digit in digits], ordered)
    pieces = [[piece for digit in digits for piece in _lined_up(digit, facing)] for digits in sources]
    result = iter(_images([piece for digits in pieces for piece in digits], facing))
    axes = tuple(Axis(name=axis.name, digits=tuple(next(result) for _ in own)) for axis, own in zip(first.inputs, pieces))
    return Layout(inputs=axes, outputs=second.outputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Digits:
    """A layout whose digits need not be canonical."""

    inputs: tuple[Axis, ...]
    outputs: tuple[Dimension, ...]


def _facing(sources: Sequence[Digit], second: Layout) -> _Digits:
    """``second`` with the digits that suit what comes in: bits where bits are exchanged, else as few digits as can be."""
    axes = []
    for position, (axis, loose) in enumerate(zip(second.inputs, loose_digits(second))):
        is_exchanged = any(digit.flips[position] for digit in sources)
        axes.append(axis if is_exchanged else Axis(name=axis.name, digits=tuple(loose)))
    return _Digits(inputs=tuple(axes), outputs=second.outputs)


def _sizes_text(sizes: Mapping[str, int]) -> str:
    return "(" + ", ".join(f"{name} {size}" for name, size in sizes.items()) + ")"


def _lined_up(digit: Digit, second: _Digits) -> list[Digit]:
    """A digit cut so that each piece moves within one digit of each input of ``second``."""
    pieces = []
    while digit.extent > 2:
        cuts = [_first_cut(digit.extent, stride, axis) for stride, axis in zip(digit.strides, second.inputs) if stride]
        cut = min(cuts, default=digit.extent)
        pieces.append(replace(digit, extent=cut))
        digit = strided(digit.extent // cut, (cut * stride for stride in digit.strides))
    return pieces if digit.extent == 1 else [*pieces, digit]


def _first_cut(extent: int, stride: int, axis: Axis) -> int:
    """The largest part of a digit that stays within one digit of ``axis``."""
    weight = 1
    for other in axis.digits:
        if stride < weight * other.extent:
            step, rest = divmod(stride, weight)
            if rest == 0 and step * (extent - 1) < other.extent:
                return extent
            fits = rest == 0 and other.extent % step == 0 and other.extent // step > 1
            if fits and extent % (other.extent // step) == 0:
                return other.extent // step
            if extent % 2 == 0:
                return 2  # a bit may move several digits at once
            reason = f"{extent} steps of {stride} do not line up with the digit of {other.extent} at {weight} of {axis.name}"
            raise catalogue.E321.error(operation="compose", reason=reason)
        weight *= other.extent
    return extent


def _images(pieces: Sequence[Digit], second: _Digits) -> list[Digit]:
    """The pieces with the images that ``second`` gives them."""
    strides = [[0] * len(second.outputs) for _ in pieces]
    flips = [[0] * len(second.outputs) for _ in pieces]
    for position, axis in enumerate(second.inputs):
        weight = 1
        for digit in axis.digits:
            if weight & (weight - 1) and any(p.flips[position] >= weight for p in pieces):
                raise catalogue.E321.error(operation="compose", reason=f"bits are exchanged across the odd factor {weight} of {axis.name}")
            added = {n: p.strides[position] // weight % digit.extent for n, p in enumerate(pieces)}
            flipped = {n: p.flips[position] // weight % digit.extent for n, p in enumerate(pieces)}
            _through(digit, axis.name, pieces, added, flipped, strides, flips)
            weight *= digit.extent
    return [Digit(extent=piece.extent, strides=tuple(own), flips=tuple(other)) for piece, own, other in zip(pieces, strides, flips)]


def _through(
    digit: Digit,
    name: str,
    pieces: Sequence[Digit],
    steps: Mapping[int, int],
    exchanges: Mapping[int, int],
    strides: list[list[int]],
    flips: list[list[int]],
) -> None:
    """Add to the pieces' images what comes through one digit of the second layout."""
    added = {n: step for n, step in steps.items() if step}
    flipped = {n: step for n, step in exchanges.items() if step}
    sources = [*added.items(), *flipped.items()]
    if not sources or digit.is_free:
        return
    overlapping = 0
    seen = 0
    for step in flipped.values():
        overlapping |= seen & step
        seen |= step
    if overlapping and not (digit.is_bit and not added):
        raise catalogue.E321.error(operation="compose", reason=f"bits exchanged in {name} do not stay bits in the second layout")
    if not overlapping and sum(step * (pieces[n].extent - 1) for n, step in sources) >= digit.extent:
        raise catalogue.E321.error(operation="compose", reason=f"sums carry within a digit of {digit.extent} of {name}")
    for n, step in sources:
        for output in range(len(digit.strides)):
            strides[n][output] += step * digit.strides[output]
            if digit.flips[output] and step % 2:
                flips[n][output] ^= digit.flips[output]
