"""Loops: T.serial, T.Pipelined, T.unroll, T.vectorized, T.Parallel, T.Persistent, T.grid, T.While and T.loop_break.

Each loop function returns a specification (:mod:`zellige.frontend.loops`) that the evaluator turns into a loop of the IR.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige.diagnostics.warn import warn
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder
from zellige.frontend.leaving import leave_innermost_loop
from zellige.frontend.loops import ForSpec, GridSpec, MapSpec, PersistentSpec, WhileSpec
from zellige.frontend.values import Scalar, here, taken
from zellige.ir.expr import Const, Expr
from zellige.ir.stmt import LoopKind, Pipelined as PipelinedKind, Serial as SerialKind, Unrolled, Vectorised
from zellige.language.keywords import accept, check_hints, count_of, flag, size_of

_DEFAULT_GROUP: Final = 8


def _range(kind: LoopKind, start: Any, stop: Any, step: Any) -> ForSpec:
    span = here()
    if stop is None:
        start, stop = 0, start
    first, last = arithmetic.index(start, span), arithmetic.index(stop, span)
    by = arithmetic.index(1 if step is None else step, span)
    if isinstance(by, Const) and by.value == 0:
        raise catalogue.E211.error(span)
    dtype = arithmetic.common_dtype(arithmetic.common_dtype(first.dtype, last.dtype), by.dtype)
    first, last, by = (_now(arithmetic.cast(e, dtype, span)) for e in (first, last, by))
    return ForSpec(kind=kind, start=first, stop=last, step=by, span=span)


def _now(bound: Expr) -> Expr:
    """A bound of a loop as it is now: the specification may be kept, and an inner loop begins again and again."""
    return taken(Scalar(bound)).expr  # type: ignore[no-any-return]


def serial(start: Any, stop: Any = None, step: Any = None, *, annotations: Any = None) -> ForSpec:
    """Iterations in order: ``range(start, stop, step)``. E211: a step of 0; E205: no integers."""
    check_hints("T.serial", annotations=annotations)
    return _range(SerialKind(), start, stop, step)


def unroll(
    start: Any, stop: Any = None, step: Any = None, *, explicit: bool = False, unroll_factor: int | None = None, annotations: Any = None
) -> ForSpec:
    """As ``serial``; the compiler is asked to unroll, by ``unroll_factor`` where it is given.

    ValueError for ``explicit`` together with ``unroll_factor``; E245: a factor below 1.
    """
    check_hints("T.unroll", annotations=annotations)
    if flag(explicit, "T.unroll", "explicit") and unroll_factor is not None:
        raise ValueError("T.unroll takes explicit=True (unroll all) or unroll_factor, not both")
    return _range(Unrolled(factor=_count(unroll_factor, "unroll_factor")), start, stop, step)


def _count(value: Any, what: str) -> int | None:
    return None if value is None else count_of(value, f"as {what}")


def vectorized(start: Any, stop: Any = None, *, annotations: Any = None) -> ForSpec:
    """As ``serial``; the author promises that adjacent iterations may run as one vector operation."""
    check_hints("T.vectorized", annotations=annotations)
    return _range(Vectorised(), start, stop, None)


def Pipelined(
    start: Any,
    stop: Any = None,
    num_stages: int = 0,
    order: Sequence[int] | None = None,
    stage: Sequence[int] | None = None,
    annotations: Any = None,
    group: Sequence[Sequence[int]] | None = None,
    **hints: Any,
) -> ForSpec:
    """As ``serial``; copies may run up to ``num_stages`` iterations ahead. The result never depends on ``num_stages``.

    ``order`` / ``stage`` are a schedule by hand: one entry a statement of the body, or one for each list of statements in ``group``. E212:
    no count, or a schedule that is none. E2001 warns of one that has another number of entries, E292 of a loop that begins behind its end.
    """
    wishes = accept("T.Pipelined", hints, ("start", "stop", "num_stages", "order", "stage", "annotations", "group"))
    check_hints("T.Pipelined", annotations=annotations)
    stages = _stages(num_stages)
    entries = [_schedule(name, value) for name, value in (("order", order), ("stage", stage))]
    if all(entries) and len(entries[0]) != len(entries[1]):
        raise catalogue.E212.error(here(), what="the length of stage", given=f"{len(entries[1])} beside {len(entries[0])} entries of order")
    places = [place for place in entries[0] if place >= 0]
    if len(set(places)) < len(places):
        hint = "each statement has a place of its own, such as order=[1, 0] for two; -1 is a producer's"
        raise catalogue.E212.error(here(), what="order", given=f"{list(entries[0])}: two statements would have one place", hint=hint)
    made = _range(PipelinedKind(stages=stages, order=entries[0], stage=entries[1], hints=wishes), start, stop, None)
    made = replace(made, groups=_groups(group))
    first, last = made.start, made.stop
    if not num_stages and isinstance(first, Const) and isinstance(last, Const) and first.value > last.value > 0:
        warn(catalogue.E292.diagnose(here(), start=first.value, stop=last.value, severity="warning"))
    return made


def _stages(value: Any) -> int:
    number = arithmetic.whole_number(value)
    if number is None or number < 0:
        raise catalogue.E212.error(here(), what="num_stages", given=arithmetic.describe(value))
    return number


def _groups(value: Any) -> int:
    """How many lists of statements there are in ``group``, each of numbers of statements from 0."""
    groups = value if isinstance(value, (list, tuple)) else None if value is not None else ()
    if groups is None or not all(isinstance(group, (list, tuple)) for group in groups):
        raise catalogue.E212.error(here(), what="group, lists of the numbers of statements,", given=arithmetic.describe(value))
    for number in (number for group in groups for number in group):
        known = arithmetic.whole_number(number)
        if known is None or known < 0:
            raise catalogue.E212.error(here(), what="a number in group", given=arithmetic.describe(number))
    return len(groups)


def _schedule(name: str, value: Any) -> tuple[int, ...]:
    if value is not None and not isinstance(value, (list, tuple)):
        raise catalogue.E212.error(here(), what=f"{name}, one entry a statement,", given=arithmetic.describe(value))
    entries = []
    for entry in value or ():
        number = arithmetic.whole_number(entry)
        if number is None or number < -1:
            raise catalogue.E212.error(here(), what=f"an entry of {name}", given=arithmetic.describe(entry))
        entries.append(number)
    return tuple(entries)


def Parallel(
    *extents: Any,
    coalesced_width: int | None = None,
    loop_layout: Any = None,
    prefer_async: bool | None = None,
    annotations: Any = None,
    **hints: Any,
) -> MapSpec:
    """The points of a box, independent of each other and in any order. The keyword arguments are hints, ``coalesced_width`` in elements.

    E213: no extents; E205: no integers; E245: no width.
    """
    wishes = accept("T.Parallel", hints, ("coalesced_width", "loop_layout", "prefer_async", "annotations"))
    check_hints("T.Parallel", loop_layout=loop_layout, prefer_async=prefer_async, annotations=annotations)
    span = here()
    if not extents:
        raise catalogue.E213.error(span, loop="T.Parallel")
    points = tuple(_now(arithmetic.index(e, span)) for e in extents)
    return MapSpec(extents=points, vector_width=_count(coalesced_width, "coalesced_width"), hints=wishes, span=span)


def grid(*extents: Any) -> GridSpec:
    """Nested serial loops; in ``T.Kernel(T.grid(m, n))`` the grid's extents. E213: no extents."""
    span = here()
    if not extents:
        raise catalogue.E213.error(span, loop="T.grid")
    return GridSpec(extents=tuple(_now(arithmetic.index(e, span)) for e in extents), span=span)


def Persistent(
    domain: Sequence[Any],
    wave_size: Any,
    index: Any,
    group_size: Any = _DEFAULT_GROUP,
    num_stages: int = 0,
    *,
    annotations: Any = None,
) -> PersistentSpec:
    """The tiles of ``domain`` that block ``index`` of ``wave_size`` blocks works on, one after the other.

    Tiles are numbered in panels of ``group_size`` along the last dimension (0 counts as 1). E213: no domain; E105: a group size
    known only at run time; E245: a negative one, or no blocks; E212: no count of stages.
    """
    check_hints("T.Persistent", annotations=annotations)
    span = here()
    extents = tuple(domain) if isinstance(domain, (tuple, list)) else (domain,)
    if not extents:
        raise catalogue.E213.error(span, loop="T.Persistent")
    group = size_of(_DEFAULT_GROUP if group_size is None else group_size, "as group_size of T.Persistent", least=0)
    if not isinstance(group, Const):
        raise catalogue.E105.error(span, given="group_size of T.Persistent")
    blocks = size_of(wave_size, "as wave_size of T.Persistent")
    return PersistentSpec(
        domain=tuple(_now(arithmetic.index(e, span)) for e in extents),
        wave_size=_now(blocks),
        index=_now(arithmetic.index(index, span)),
        group_size=max(int(group.value), 1),
        stages=_stages(num_stages),
        span=span,
    )


def While(condition: Any) -> WhileSpec:
    """``with T.While(condition):``: repeats the block as long as the condition holds. E121: nothing ends it."""
    span = here()
    return WhileSpec(condition=arithmetic.truth(condition, span), span=span)


def loop_break() -> None:
    """Leaves the innermost run-time loop, as ``break`` does. E114: in T.Parallel; E111: outside of loops; E138: in T.grid;
    E167: past a finally."""
    builder = current_builder("T.loop_break")
    trace = builder.trace
    loops = [c.kind for c in trace.control if c.kind != "if"] if trace is not None else []
    if trace is None or not loops:
        raise catalogue.E111.error(builder.span, what="T.loop_break outside of a loop", instead="call it in the body of a loop")
    if loops[-1] == "map":
        raise catalogue.E114.error(builder.span, jump="T.loop_break")
    leave_innermost_loop(trace, builder.span)


Serial = serial
Unroll = unroll
Vectorized = vectorized
