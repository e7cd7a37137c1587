"""Boxes of elements that a reduction or a scan walks over: dimensions merged, the one to vectorise chosen, loops around it.

In: extents and strides of the dimensions other than the reduced axis. Out: the fewest equivalent dimensions, and nested loops over them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from zellige.records import dataclass
from zellige_cpu.text import Function
from zellige_cpu.values import Value, constant


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """``extent`` positions; strides in elements of the source and of the result."""

    extent: int
    source: int
    target: int


def merged(dimensions: Sequence[Dimension]) -> list[Dimension]:
    """The same box with dimensions of one position dropped and neighbours that continue each other made one."""
    result: list[Dimension] = []
    for dimension in dimensions:
        if dimension.extent == 1:
            continue
        if result:
            outer = result[-1]
            if outer.source == dimension.source * dimension.extent and outer.target == dimension.target * dimension.extent:
                extent = outer.extent * dimension.extent
                result[-1] = Dimension(extent=extent, source=dimension.source, target=dimension.target)
                continue
        result.append(dimension)
    return result


@contextmanager
def loops(
    fn: Function, dimensions: Sequence[Dimension], source: Value, target: Value, source_bytes: int, target_bytes: int
) -> Iterator[tuple[Value, Value]]:
    """Nested loops over ``dimensions``; yields the addresses of the source's and the result's element."""
    with ExitStack() as stack:
        for dimension in dimensions:
            loop = stack.enter_context(fn.loop(constant("i64", 0), constant("i64", dimension.extent)))
            source = fn.offset(source, fn.binary("mul", loop.index, constant("i64", dimension.source * source_bytes)))
            target = fn.offset(target, fn.binary("mul", loop.index, constant("i64", dimension.target * target_bytes)))
        yield source, target


@dataclass(frozen=True, slots=True)
class Stretch:
    """``vectors`` adjacent vectors from position ``start`` (constant, or the counter of a loop) of the vectorised dimension.

    The last of them has ``last_lanes`` lanes in use, 0 for all.
    """

    start: Value
    vectors: int
    last_lanes: int


def stretches(fn: Function, extent: int, lanes: int, group: int) -> Iterator[Stretch]:
    """``extent`` positions in groups of ``group`` vectors: a loop over the full groups, then what is left in one stretch.

    Code is to be emitted for each stretch as it is yielded; exhaust the iterator.
    """
    step = group * lanes
    full, rest = divmod(extent, step)
    if full == 1:
        yield Stretch(constant("i64", 0), group, 0)
    elif full:
        with fn.loop(constant("i64", 0), constant("i64", full * step), step) as loop:
            yield Stretch(loop.index, group, 0)
    if rest:
        yield Stretch(constant("i64", full * step), -(-rest // lanes), rest % lanes)
