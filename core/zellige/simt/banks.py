"""How many turns the banks of shared memory take for each access of a program, without running it.

In: a :class:`~zellige.simt.ir.Function`. Out: one :class:`BankUse` for every statement that touches shared memory at places which follow
from the lane, the warp and loops. Loops and warps are sampled, other numbers (grid, sizes, slots of a channel) are taken as 0: they move
all lanes alike. What depends on the contents of memory is not known, and said so. :mod:`zellige.simt.simulate.report` counts the same of a
run, and the tests hold both against the counters of a device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from zellige.diagnostics import Span
from zellige.ir.expr import Buffer, Expr, Load, Var
from zellige.ir.stmt import Alloc, Assign, Bind, For, If, Store
from zellige.ir.traverse import walk
from zellige.layouts.banks import Banks, phase_degrees
from zellige.records import dataclass
from zellige.simt.ir import LANE, REGISTERS, SHARED, THREAD, WARP, AsyncCopy, Function, MatrixLoad, MatrixStore, Stmt
from zellige.simt.values import value_of

SAMPLES: Final = 32
"""Combinations of a warp and iterations that are looked at."""

ROW_BYTES: Final = 16
ROWS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class BankUse:
    """What one statement does to one buffer: "read", "write", "matrix read", "matrix write" or "copy in" of ``bytes`` a lane. ``degree``
    is the most turns that a phase of lanes takes, 1 without conflicts; None where the places follow from the contents of memory."""

    span: Span | None
    buffer: str
    kind: str
    bytes: int
    degree: int | None


def bank_uses(function: Function, banks: Banks) -> tuple[BankUse, ...]:
    """In the order of the program; what one line does in the same way to one buffer stands once, with its worst degree."""
    offsets = {memory.buffer: memory.offset for memory in function.memories}
    found: dict[tuple[Any, ...], BankUse] = {}
    for use in _Walk(function, offsets, banks).uses(function.body):
        key = (use.span, use.buffer, use.kind, use.bytes)
        before = found.get(key)
        if before is None or (before.degree is not None and (use.degree is None or use.degree > before.degree)):
            found[key] = use
    return tuple(found.values())


class _Walk:
    """Follows the statements with the values of variables in samples (rows) and lanes (columns)."""

    def __init__(self, function: Function, offsets: Mapping[Buffer, int], banks: Banks) -> None:
        self._offsets = offsets
        self._banks = banks
        self._lanes = function.lanes
        self._random = np.random.default_rng(0)
        lane = np.arange(function.lanes)[None, :]
        warp = self._samples(max(1, function.threads // function.lanes))
        self._known: dict[Var, Any] = {LANE: lane, WARP: warp, THREAD: warp * function.lanes + lane}
        self._known.update((var, 0) for var in function.grid_vars)
        self._known.update((p.var, 0) for p in function.params if hasattr(p, "var"))
        self._exists = self._known[THREAD] < function.threads

    def _samples(self, count: int) -> Any:
        """Numbers below ``count``, a row a sample, the first and the last among them."""
        drawn = self._random.integers(0, count, (SAMPLES, 1))
        drawn[0], drawn[1] = 0, count - 1
        return drawn

    def uses(self, body: tuple[Stmt, ...]) -> Iterator[BankUse]:
        pending: list[tuple[Any, Any]] = [(s, self._exists) for s in reversed(body)]
        while pending:
            statement, mask = pending.pop()
            yield from self._own(statement, mask)
            match statement:
                case If(condition=condition, then=then, otherwise=otherwise):
                    holds = value_of(condition, self._known)
                    yes, no = (mask, mask) if holds is None else (mask & holds, mask & ~np.asarray(holds))
                    pending += [(s, no) for s in reversed(otherwise)] + [(s, yes) for s in reversed(then)]
                case For(body=inner):
                    self._loop(statement)
                    pending += [(s, mask) for s in reversed(inner)]
                case Bind(var=var, value=value):
                    self._known[var] = value_of(value, self._known)
                case Assign(var=var, value=value):
                    if self._differs(self._known.get(var)) or self._may_differ(value):
                        self._known[var] = None  # lanes go their own ways from here on
                case _:
                    for name in getattr(type(statement), "BODIES", ()):
                        pending += [(s, mask) for s in reversed(getattr(statement, name))]

    def _loop(self, loop: For) -> None:
        start, stop, step = (value_of(e, self._known) for e in (loop.start, loop.stop, loop.step))
        if start is None:
            self._known[loop.var] = None
            return
        trips = 1
        if stop is not None and step is not None and np.min(step) > 0:
            trips = max(1, int(np.min(-((start - stop) // step))))
        self._known[loop.var] = start + self._samples(trips) * (1 if step is None else step)

    @staticmethod
    def _differs(value: Any) -> bool:
        """Whether a value is not the same for all lanes of a warp."""
        return value is None or (np.ndim(value) == 2 and np.shape(value)[1] > 1)

    def _may_differ(self, expr: Expr) -> bool:
        """Whether lanes may get different values: from what differs, or from different places of memory."""
        nodes = list(walk(expr))
        return any(isinstance(n, Load) and n.buffer.root.space == REGISTERS for n in nodes) or any(
            self._differs(self._known.get(n)) for n in nodes if isinstance(n, Var)
        )

    def _own(self, statement: Any, mask: Any) -> Iterator[BankUse]:
        if isinstance(statement, Alloc):
            return
        nested = set(getattr(type(statement), "BODIES", ()))
        for name in getattr(type(statement), "CHILDREN", ()):
            child = getattr(statement, name)
            for expr in child if isinstance(child, tuple) else (child,):
                if expr is None or name in nested:
                    continue
                for node in walk(expr):
                    if isinstance(node, Load) and node.buffer.root.space == SHARED:
                        yield self._use(node.span or statement.span, node.buffer, "read", node.indices[0], node.buffer.dtype.bytes, mask)
        match statement:
            case Store(buffer=buffer, indices=(index,)) if buffer.root.space == SHARED:
                yield self._use(statement.span, buffer, "write", index, buffer.dtype.bytes, mask)
            case MatrixLoad(buffer=buffer, source=index, count=count):
                yield self._use(statement.span, buffer, "matrix read", index, ROW_BYTES, self._first(ROWS * count))
            case MatrixStore(buffer=buffer, target=index, count=count):
                yield self._use(statement.span, buffer, "matrix write", index, ROW_BYTES, self._first(ROWS * count))
            case AsyncCopy(target=buffer, target_index=index, size=size):
                yield self._use(statement.span, buffer, "copy in", index, size, mask)
            case _:
                pass

    def _first(self, count: int) -> Any:
        return self._known[LANE] < count

    def _use(self, span: Span | None, buffer: Buffer, kind: str, index: Expr, size: int, mask: Any) -> BankUse:
        places = value_of(index, self._known)
        degree: int | None = None
        if places is not None:
            shape = (SAMPLES, self._lanes)
            element = max(1, buffer.dtype.bytes)
            addresses = np.broadcast_to(np.asarray(places, np.int64), shape) * element + self._offsets.get(buffer.root, 0)
            active = np.broadcast_to(mask, shape)
            lanes = np.arange(self._lanes)
            degrees = [phase_degrees(row[on], lanes[on], size, self._banks) for row, on in zip(addresses, active) if on.any()]
            degree = max((max(d) for d in degrees), default=1)
        return BankUse(span=span, buffer=buffer.root.name, kind=kind, bytes=size, degree=degree)
