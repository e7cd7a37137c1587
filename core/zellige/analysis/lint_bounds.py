"""Accesses that lie outside of their buffer whatever the values of the variables are.

In: a verified kernel. Out: E285, a warning a place. An access that lies outside for some values only is ordinary (the edge of a tile).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from zellige.analysis.intervals import ANY, Interval, interval, interval_of_value
from zellige.diagnostics import Diagnostic, Span, catalogue
from zellige.ir.arithmetic import wrap
from zellige.ir.expr import INT64, Expr, Region, Var
from zellige.ir.stmt import Kernel, Launch, StmtNode

WithRanges = Callable[[Launch], Iterable[tuple[StmtNode, dict[Var, Interval]]]]


def outside(kernel: Kernel, with_ranges: WithRanges) -> Iterator[Diagnostic]:
    """One warning for each place; ``with_ranges`` gives a launch's statements with the ranges of the variables around them."""
    reported: set[Span | None] = set()
    for launch in kernel.launches:
        for statement, ranges in with_ranges(launch):
            if any(r.low is not None and r.high is not None and r.low > r.high for r in ranges.values()):
                continue  # a loop without iterations
            for region in (*statement.reads(), *statement.writes()):
                span = region.span or statement.span
                found = None if span in reported else _outside(region, ranges)
                if found is not None:
                    reported.add(span)
                    axis, place, size = found
                    yield catalogue.E285.diagnose(span, name=region.buffer.label, axis=axis, place=place, size=size, severity="warning")


def _outside(region: Region, ranges: dict[Var, Interval]) -> tuple[int, str, str] | None:
    """The dimension along which all of a region lies outside, where it lies, and the size there."""
    for axis, (offset, extent, size) in enumerate(zip(region.offsets, region.extents, region.buffer.shape)):
        first, length, limit = _first(offset, ranges), interval(extent, ranges), interval(size, ranges)
        if length.low is None or length.low < 1:
            continue
        is_before = first.high is not None and length.high is not None and first.high + length.high <= 0
        is_behind = first.low is not None and limit.high is not None and first.low >= limit.high
        if is_before or is_behind:
            return axis, _placed(first, length), "at least 0" if limit.high is None else f"0 to {limit.high - 1}"
    return None


def _first(offset: Expr, ranges: dict[Var, Interval]) -> Interval:
    """Where a region begins, as a signed number of 64 bits."""
    found = interval_of_value(offset, lambda var: ranges.get(var, ANY), {})
    if found.high is None or found.high <= INT64.max:
        return found
    if found.low is None or found.low <= INT64.max:
        return ANY
    return Interval(wrap(found.low, INT64), wrap(found.high, INT64))


def _placed(first: Interval, length: Interval) -> str:
    last = None if first.high is None or length.high is None else first.high + length.high - 1
    if first.low is not None and first.low == last:
        return str(last)
    if first.low is None:
        return f"at most {last}"
    return f"at least {first.low}" if last is None else f"{first.low} to {last}"
