"""What a loop function of the language returns and the evaluator turns into a loop of the tile IR.

``for i in T.serial(n)`` evaluates ``T.serial(n)`` to a :class:`LoopSpec`; the evaluator makes the variables, traces the body once and emits
For or Map. Python's own ``range`` of run-time or constant bounds means a serial LoopSpec.
"""

from __future__ import annotations

from dataclasses import dataclass

from zellige.diagnostics import Span
from zellige.ir.expr import Expr
from zellige.ir.stmt import LoopKind


@dataclass(frozen=True, slots=True, kw_only=True)
class ForSpec:
    """One sequential loop: ``for var in range(start, stop, step)``."""

    kind: LoopKind
    start: Expr
    stop: Expr
    step: Expr
    span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GridSpec:
    """Nested serial loops over a box, as many variables as extents (``T.grid``)."""

    extents: tuple[Expr, ...]
    span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSpec:
    """Independent points of a box (``T.Parallel``); one variable for one extent, else a tuple."""

    extents: tuple[Expr, ...]
    vector_width: int | None = None
    span: Span | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentSpec:
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
