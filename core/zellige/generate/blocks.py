"""The body of a block: steps one after the other, in loops of every kind and under conditions.

In: a :class:`Context` at the start of a launch. Out: its statements. A loop or branch whose facts leave no bound loses statements from
its end until one is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from zellige.generate.context import Context, Tile
from zellige.generate.expressions import Expressions
from zellige.generate.facts import Fact, Unbounded
from zellige.generate.parallel import Parallel
from zellige.generate.steps import Steps
from zellige.ir.expr import Binary, Compare, Expr
from zellige.ir.stmt import (
    Assert,
    Assign,
    Assume,
    AtomicOp,
    Bind,
    Break,
    Continue,
    For,
    If,
    LoopKind,
    Pipelined,
    Serial,
    Stmt,
    Store,
    Unrolled,
    Vectorised,
    While,
)

MAXIMUM_DEPTH: Final = 3
"""How deep loops and branches of a block nest."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A tensor that blocks update atomically, all by one operation, and nothing reads meanwhile."""

    tile: Tile
    op: AtomicOp


class Blocks:
    """Makes the steps of a block."""

    def __init__(
        self, context: Context, expressions: Expressions, parallel: Parallel, steps: Steps, accumulators: Sequence[Accumulator]
    ) -> None:
        self.context = context
        self.expressions = expressions
        self.parallel = parallel
        self.steps = steps
        self.accumulators = list(accumulators)
        self.picker = context.picker
        self.simple: tuple[tuple[int, Callable[[], Any]], ...] = (
            (14, steps.load_step),
            (12, steps.map_step),
            (22, parallel.update),
            (12, steps.gemm),
            (10, steps.reduce),
            (6, steps.scan),
            (6, steps.copy_part),
            (4, steps.fill_part),
            (4, steps.transpose),
            (4, steps.view),
            (6, steps.scalar),
            (5, self.assign),
            (5, self.store_one),
            (5, parallel.reducer),
            (4, steps.block_atomic),
            (9 if accumulators else 0, self.accumulate),
            (2, self.promise),
        )

    def run(self, most: int) -> None:
        """Up to ``most`` steps, at least one, while the budget lasts."""
        for _ in range(self.picker.integer(1, most)):
            if self.context.budget <= 0:
                return
            self.step()

    def observe(self, most: int, *, is_certain: bool, since: int = 0) -> None:
        """Let the caller see up to ``most`` tiles that came into scope after the first ``since``, and a variable."""
        known = [tile for tile in self.context.tiles[since:] if not tile.is_global and tile.count <= 300]
        for tile in self.picker.some_of(list(reversed(known)), most):
            self.steps.observe(tile, is_certain=is_certain)
        mutable = [var for var in self.context.variables if var.is_mutable or var.kind == "value"]
        if mutable and self.picker.chance(60):
            self.steps.observe_scalar(self.picker.some(list(reversed(mutable))))

    def inner(self, most: int) -> None:
        """Steps in a body of their own, of which something is seen at times."""
        since = len(self.context.tiles)
        self.run(most)
        if self.picker.chance(30):
            self.observe(1, is_certain=False, since=since)

    def step(self) -> None:
        """One step, which may be a loop or branch around others."""
        if self.context.depth < MAXIMUM_DEPTH and self.picker.chance(30):
            self.picker.weighted(((58, self.loop), (30, self.branch), (12, self.counted)))()
            return
        self.picker.weighted(tuple(entry for entry in self.simple if entry[0]))()

    # ---- small steps ----

    def assign(self) -> None:
        """Another value for a mutable variable, from its old one more often than not."""
        known = [var for var in self.context.variables if var.is_mutable]
        if not known:
            self.steps.scalar()
            return
        var = self.picker.some(known)
        value: Expr = self.expressions.make(var.dtype, 2)
        if self.picker.chance(60):
            value = Binary(op=self.picker.some(("add", "max", "sub")), left=var, right=value)
        if self.context.is_bounded(value):
            self.context.emit(Assign(var=var, value=self.expressions.tamed(value)))

    def store_one(self) -> None:
        """One element of a tile."""
        known = self.context.writable()
        if known:
            tile = self.picker.some(known)
            indices = tuple(self.expressions.index(extent) for extent in tile.shape)
            self.context.emit(Store(buffer=tile.buffer, indices=indices, value=self.expressions.value(tile.dtype, 2)))

    def accumulate(self) -> None:
        """An update of a tensor that other blocks update too."""
        chosen = self.picker.some(self.accumulators)
        if self.picker.chance(35) and self.steps.atomic_tile(chosen.tile, chosen.op):
            return
        self.parallel.scatter(chosen.tile, chosen.op)

    def promise(self) -> None:
        """An assertion or assumption that holds: what the facts of a counter say."""
        counters = [var for var in self.context.variables if var in self.context.state and var.dtype == self.context.index]
        if counters:
            var = self.picker.some(counters)
            try:
                bound = self.context.constant(int(self.context.fact(var).high))
            except (Unbounded, OverflowError):
                return
            condition = Compare(op="le", left=var, right=bound)
            self.context.emit(Assert(condition=condition, message="bound") if self.picker.chance(50) else Assume(condition=condition))

    # ---- loops and branches ----

    def loop(self) -> None:
        """A loop over steps; trip counts of 0 and 1 are common."""
        context, picker = self.context, self.picker
        kind = picker.weighted(((40, "serial"), (30, "pipelined"), (12, "unrolled"), (10, "vectorised"), (8, "backward")))
        if kind == "vectorised":
            self._vectorised()
            return
        trips = picker.some((2, 3, 1, 0, 4))
        first = picker.integer(0, 2) if picker.chance(25) else 0
        start: Expr = context.constant(first)
        stop: Expr = context.constant(first + trips)
        if picker.chance(20):
            stop = self.expressions.truncated(trips)
            start, first = context.constant(0), 0
        step = 1
        low, high = first, max(first, first + trips - 1)
        if kind == "backward":
            start, stop, step, low, high = context.constant(trips), context.constant(-1), -picker.integer(1, 2), 0, trips
        kinds: dict[str, LoopKind] = {
            "pipelined": Pipelined(stages=picker.integer(0, 4)),
            "unrolled": Unrolled(factor=picker.some((None, 2, 3))),
        }
        counter = context.variable("k", context.index, "loop")
        with context.nested([(counter, Fact(low=low, high=high))]) as body:
            context.loops += 1
            self.inner(4)
            self._jump()
            context.loops -= 1
        self.parallel.emit_loop(
            For(var=counter, start=start, stop=stop, step=context.constant(step), kind=kinds.get(kind, Serial()), body=tuple(body))
        )

    def _vectorised(self) -> None:
        """Adjacent elements of a tile, each by an iteration of its own, which is what the author promises."""
        context, picker = self.context, self.picker
        known = [t for t in context.writable() if t.shape and t.buffer.alias is None]
        if not known:
            return
        tile = picker.some(known)
        counter = context.variable("w", context.index, "loop")
        size = tile.shape[-1]
        with context.nested([(counter, Fact(low=0, high=size - 1))]) as body:
            lead = tuple(context.constant(picker.integer(0, extent - 1)) for extent in tile.shape[:-1])
            indices: tuple[Expr, ...] = (*lead, counter)
            context.written = {tile.buffer: indices}
            context.emit(Store(buffer=tile.buffer, indices=indices, value=self.expressions.value(tile.dtype, 3)))
            context.written = {}
        zero, end, one = context.constant(0), context.constant(size), context.constant(1)
        self.parallel.emit_loop(For(var=counter, start=zero, stop=end, step=one, kind=Vectorised(), body=tuple(body)))

    def counted(self) -> None:
        """A While over a counter that moves first."""
        context, picker = self.context, self.picker
        counter = context.variable("n", context.index, "mutable")
        if not context.emit(Bind(var=counter, value=context.constant(0))):
            return
        condition: Expr = Compare(op="lt", left=counter, right=context.constant(picker.integer(0, 4)))
        if picker.chance(30):
            condition = Binary(op="and", left=condition, right=self.expressions.condition(1))
        with context.nested() as body:
            context.emit(Assign(var=counter, value=Binary(op="add", left=counter, right=context.constant(picker.integer(1, 2)))))
            context.loops += 1
            self.inner(3)
            self._jump()
            context.loops -= 1
        rest = list(body)
        while len(rest) > 1:
            if context.emit(While(condition=condition, body=tuple(rest))):
                return
            rest.pop()

    def _jump(self) -> None:
        """A Break or Continue under a condition, with something behind it that it skips."""
        context, picker = self.context, self.picker
        if not picker.chance(25):
            return
        jump: Stmt = Break() if picker.chance(60) else Continue()
        if context.emit(If(condition=self.expressions.uniform_condition(), then=(jump,))) and picker.chance(60):
            self.run(1)

    def branch(self) -> None:
        """Steps under a condition of the block, at times with others where it does not hold."""
        context, picker = self.context, self.picker
        condition = self.expressions.uniform_condition()
        with context.nested() as then:
            self.inner(2)
            if context.loops and picker.chance(10):
                context.emit(Continue())
        otherwise: list[Stmt] = []
        if picker.chance(40):
            with context.nested() as otherwise:
                self.inner(2)
        statement = If(condition=condition, then=tuple(then), otherwise=tuple(otherwise))
        while statement.then:
            if context.emit(statement):
                return
            statement = replace(statement, then=statement.then[:-1], otherwise=statement.otherwise[:-1])
