"""What a loop function of the language returns and the evaluator turns into a loop of the tile IR.

``for i in T.serial(n)`` evaluates ``T.serial(n)`` to a :class:`LoopSpec`; the evaluator makes the variables, traces the body once and emits
For or Map. Python's own ``range`` of run-time or constant bounds means a serial LoopSpec.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from zellige.diagnostics import Span, catalogue
from zellige.diagnostics.warn import warn
from zellige.ir.expr import Expr
from zellige.ir.stmt import Alloc, Bind, Hints, LoopKind, Pipelined, Stmt


class _KernelLoop:
    """A loop that the evaluator runs; Python, which runs functions that are no macros, cannot."""

    __slots__ = ()
    span: Span | None

    def __iter__(self) -> Iterator[NoReturn]:
        """Python's own ``for``. Raises E132."""
        hint = "decorate the Python function that loops with @T.macro, or write the loop in the kernel itself"
        raise catalogue.E132.error(self.span, given="a loop of the kernel in a Python function", hint=hint)

    def __reversed__(self) -> NoReturn:
        """``reversed(...)``. Raises E111: the bounds say which way a loop of the kernel goes."""
        instead = "write the bounds backward: range(n - 1, -1, -1) for reversed(range(n))"
        raise catalogue.E111.error(self.span, what="reversed() of a loop of the kernel", instead=instead)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForSpec(_KernelLoop):
    """One sequential loop: ``for var in range(start, stop, step)``. ``groups`` is into how many groups of statements an author who
    schedules it by hand divides its body, 0 where it is scheduled statement by statement."""

    kind: LoopKind
    start: Expr
    stop: Expr
    step: Expr
    groups: int = 0
    span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GridSpec(_KernelLoop):
    """Nested serial loops over a box, as many variables as extents (``T.grid``)."""

    extents: tuple[Expr, ...]
    span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSpec(_KernelLoop):
    """Independent points of a box (``T.Parallel``); one variable for one extent, else a tuple."""

    extents: tuple[Expr, ...]
    vector_width: int | None = None
    hints: Hints = ()
    span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentSpec(_KernelLoop):
    """The tiles of one block of a persistent launch, in waves of ``wave_size`` blocks of which this is number ``index``.

    Yields one variable an extent of ``domain``: tile number ``wave * wave_size + index`` for each wave, in panels of ``group_size``
    along the last dimension; tiles past the end are skipped.
    """

    domain: tuple[Expr, ...]
    wave_size: Expr
    index: Expr
    group_size: int = 8
    stages: int = 0
    span: Span | None = None


LoopSpec = ForSpec | GridSpec | MapSpec | PersistentSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class WhileSpec:
    """``with T.While(condition):``: the body runs as long as the condition, evaluated before each iteration, holds."""

    condition: Expr
    span: Span | None = None


def warn_of_schedule(spec: ForSpec, written: int, body: Sequence[Stmt]) -> None:
    """E2001 where a schedule by hand has another number of entries than the loop has groups, or statements: those in the source, of which
    there are ``written``, or in what they became, all or without those that only name a value or touch no memory."""
    if not isinstance(spec.kind, Pipelined):
        return
    acting = [s for s in body if not isinstance(s, (Alloc, Bind))]
    touching = [s for s in acting if type(s).BODIES or any((*s.reads(), *s.writes()))]
    counts = (spec.groups or written, written, len(body), len(acting), len(touching))
    things = f"{counts[0]} {'group' if spec.groups else 'statement'}{'' if counts[0] == 1 else 's'}"
    for name, entries in (("order", spec.kind.order), ("stage", spec.kind.stage)):
        if entries and len(entries) not in counts:
            given = f"{len(entries)} entr{'y' if len(entries) == 1 else 'ies'}"
            warn(catalogue.E2001.diagnose(spec.span, name=name, entries=given, things=things, severity="warning"))
