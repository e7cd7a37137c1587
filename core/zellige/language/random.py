"""Random numbers in a kernel: T.rng_init, T.rng_rand, T.rng_rand_float.

The generator is Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011): a number is a pure
function of seed, sequence and position, the same on every target. Each lane has a sequence of its own; the points of T.Parallel draw
from the block's, in the order of the points, so that the lanes that run them do not matter.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige.dtypes import dtype
from zellige.frontend import arithmetic
from zellige.frontend.builder import Builder, Points, current_builder
from zellige.frontend.values import Scalar, Variable, bind, declare, here
from zellige.ir.expr import INT32, Var, const
from zellige.ir.stmt import Assign, Bind, For, Serial, Stmt
from zellige.language import elementwise, lanes
from zellige.language.keywords import check_hints

_U32: Final = dtype("uint32")
_U64: Final = dtype("uint64")
_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
_WEYL: Final = (0x9E3779B9, 0xBB67AE85)
_ROUNDS: Final = 10
_BLOCKS: Final = 1 << 63  # where the blocks' own sequences begin
_STRIDE: Final = 1 << 24  # numbers set aside for a point that draws in a loop
_KEY: Final = "generator"


@dataclass(eq=False)
class Stream:
    """One sequence and the position in it."""

    sequence: Scalar
    position: Variable


@dataclass(eq=False)
class Generator:
    """The state of one launch: the seed, the lane's stream, and the block's for T.Parallel."""

    seed: Scalar
    lane: Stream
    block: Stream


def _u32(value: Any) -> Scalar:
    return Scalar(arithmetic.cast(arithmetic.as_expr(value, here()), _U32, here()))


def _u64(value: Any) -> Scalar:
    return Scalar(arithmetic.cast(arithmetic.as_expr(value, here()), _U64, here()))


def rng_init(seed: Any, seq: Any = None, off: Any = 0, generator: str | None = None) -> None:
    """Starts the generator: ``seq`` numbers independent sequences (by default the lane's number in the whole grid), ``off`` skips numbers.

    ``generator`` is accepted for other implementations' names; the numbers are Philox4x32-10's.
    """
    builder = current_builder("T.rng_init")
    check_hints("T.rng_init", generator=generator)
    builder.require_body("T.rng_init")
    start, first = bind("seed", _u64(seed)), bind("offset", _u64(off))
    if seq is not None:
        stream = Stream(bind("sequence", _u64(seq)), declare("position", _U64, first))
        _start(builder, Generator(start, stream, stream))
        return
    block: Any = 0
    step: Any = 1
    for number, extent in zip(lanes.get_block_bindings(), lanes.get_block_extents()):
        block = block + number * step
        step = step * extent
    lane = lanes.linear_lane()
    count: Any = 1
    for extent in lanes.get_thread_extents():
        count = count * extent
    own = Stream(bind("sequence", _u64(lane + block * count)), declare("position", _U64, first))
    shared = Stream(bind("sequence", _u64(block) + Scalar(const(_BLOCKS, _U64))), declare("position", _U64, first))
    _start(builder, Generator(start, own, shared))


def _start(builder: Builder, generator: Generator) -> None:
    assert builder.launch is not None
    builder.launch.generator = generator


def _generator(builder: Builder) -> Generator:
    if builder.launch is None or builder.launch.generator is None:
        raise catalogue.E255.error(builder.span)
    return builder.launch.generator


def _position(builder: Builder, generator: Generator) -> Variable:
    """The variable that counts the numbers drawn: the stream's, or in a point of T.Parallel the point's own."""
    if not builder.points:
        return generator.lane.position
    outer = generator.block.position
    for points in builder.points:
        outer = _position_of_point(builder, points, outer)
    return outer


@dataclass(eq=False)
class _PointDraws:
    """How a T.Parallel loop draws: ``count`` numbers a point, known when its body is complete."""

    own: Variable
    count: int = 0
    is_open_ended: bool = False


def _position_of_point(builder: Builder, points: Points, outer: Variable) -> Variable:
    if _KEY not in points.state:
        first, stride = (builder.var(name, _U64, "value") for name in ("first", "stride"))
        number: Any = _u64(0)
        total: Any = _u64(1)
        for axis, extent in zip(points.axes, points.extents):
            number = number * _u64(Scalar(extent)) + _u64(Scalar(axis))
            total = total * _u64(Scalar(extent))
        own = declare("position", _U64, Scalar(first) + number * Scalar(stride), depth=points.depth)
        draws = _PointDraws(own)
        points.state[_KEY] = draws
        points.at_end.append(lambda: _around(draws, outer, first, stride, total))
    found = points.state[_KEY]
    assert isinstance(found, _PointDraws)
    return found.own


def _around(draws: _PointDraws, outer: Variable, first: Var, stride: Var, total: Scalar) -> tuple[list[Stmt], list[Stmt]]:
    """What stands around the loop: the position where it begins, numbers a point, and the position after it."""
    span = here()
    reserved = const(_STRIDE if draws.is_open_ended else draws.count, _U64, span)
    ahead: list[Stmt] = [Bind(var=first, value=outer.expr, span=span), Bind(var=stride, value=reserved, span=span)]
    after = arithmetic.binary("add", first, arithmetic.binary("mul", total, stride, span), span)
    return ahead, [Assign(var=outer.expr, value=after, span=span)]


def rng_rand() -> Scalar:
    """The next 32 random bits (uint32). E255: T.rng_init was not called in this block."""
    builder = current_builder("T.rng_rand")
    generator = _generator(builder)
    position = _position(builder, generator)
    loops = [c.kind for c in builder.trace.control if c.kind != "if"] if builder.trace is not None else []
    for points in builder.points:
        draws = points.state[_KEY]
        draws.count += 1
        draws.is_open_ended = draws.is_open_ended or loops[-1] != "map" or len(builder.points) > 1
    sequence = generator.block.sequence if builder.points else generator.lane.sequence
    number = bind("number", position)
    position.assign(number + 1)
    return _philox(builder, generator.seed, sequence, number)


def _philox(builder: Builder, seed: Scalar, sequence: Scalar, number: Scalar) -> Scalar:
    """Word ``number % 4`` of block ``number // 4`` of a sequence."""
    block = bind("block", number >> 2)
    low, high = 0xFFFF_FFFF, 32
    counter = [
        declare(f"c{position}", _U32, _u32(part))
        for position, part in enumerate((block & low, block >> high, sequence & low, sequence >> high))
    ]
    key = [declare(f"k{position}", _U32, _u32(part)) for position, part in enumerate((seed & low, seed >> high))]
    step = builder.var("round", INT32, "loop")
    with builder.body() as body:
        product = [bind("product", _u64(counter[i]) * Scalar(const(m, _U64))) for i, m in ((0, _MULTIPLIERS[0]), (2, _MULTIPLIERS[1]))]
        upper = [_u32(p >> high) for p in product]
        lower = [bind("low", _u32(p & low)) for p in product]
        first = bind("c", upper[1] ^ counter[1] ^ key[0])
        third = bind("c", upper[0] ^ counter[3] ^ key[1])
        for variable, value in zip(counter, (first, lower[1], third, lower[0])):
            variable.assign(value)
        for variable, weyl in zip(key, _WEYL):
            variable.assign(variable + Scalar(const(weyl, _U32)))
    zero, rounds, one = const(0, INT32), const(_ROUNDS, INT32), const(1, INT32)
    builder.emit(For(var=step, start=zero, stop=rounds, step=one, kind=Serial(), body=tuple(body), span=builder.span))
    word = bind("word", number & 3)
    choose = elementwise.if_then_else
    return bind("random", choose(word == 0, counter[0], choose(word == 1, counter[1], choose(word == 2, counter[2], counter[3]))))


def rng_rand_float(bit: int = 32, dist: str = "uniform") -> Scalar:
    """A random float32 (float64 for ``bit=64``): uniform in (0, 1], or standard normal (Box-Muller). E256: width or distribution."""
    if bit not in (32, 64) or dist not in ("uniform", "normal"):
        raise catalogue.E256.error(here(), bit=repr(bit), dist=repr(dist))
    first = _uniform(bit)
    if dist == "uniform":
        return first
    second = _uniform(bit)
    radius = elementwise.call("sqrt", -2.0 * elementwise.call("log", first))
    return bind("normal", radius * elementwise.call("cos", second * (2.0 * math.pi)))


def _uniform(bit: int) -> Scalar:
    target = dtype(f"float{bit}")
    if bit == 32:
        bits = rng_rand() >> 8
        return bind("uniform", (Scalar(arithmetic.cast(bits.expr, target, here())) + 1) * 2.0**-24)
    bits = (_u64(rng_rand()) << 21) ^ (_u64(rng_rand()) >> 11)
    return bind("uniform", (Scalar(arithmetic.cast(bits.expr, target, here())) + 1) * 2.0**-53)
