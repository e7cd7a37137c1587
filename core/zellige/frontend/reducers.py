"""Reducers: fragments that the points of T.Parallel update together, and the order in which they may be used.

A reducer is started, updated and finalised. Two ways of writing exist and are not mixed: ``T.reducer_init``, ``T.reducer_update``,
``T.finalize_reducer(r, dst)``; and the older ``T.clear(r)`` or ``T.fill(r, x)``, ``r[i] += x``, ``T.finalize_reducer(r)``. In the older
way a reducer that is never cleared starts at the identity of its operation where it is allocated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from zellige.diagnostics import catalogue
from zellige.dtypes import DType
from zellige.frontend import arithmetic
from zellige.frontend.builder import Builder, current_builder
from zellige.frontend.values import Element, Scalar, bind
from zellige.ir.expr import INT32, Binary, BinaryOp, Buffer, Cast, Const, Expr
from zellige.ir.reductions import identity
from zellige.ir.stmt import Map, ReduceOp, ReducerFinalize, ReducerInit, ReducerUpdate, Stmt
from zellige.ir.traverse import loads_in

Protocol = Literal["epoch", "tile"]

UPDATES: Final[dict[ReduceOp, tuple[BinaryOp, ...]]] = {
    "sum": ("add",),
    "abssum": ("add",),
    "max": ("max", "max_nan"),
    "absmax": ("max", "max_nan"),
    "min": ("min", "min_nan"),
    "bitand": ("bitand",),
    "bitor": ("bitor",),
    "bitxor": ("bitxor",),
}
"""The operations of a reducer, and the operator of ``r[i] = r[i] op x`` for each."""

_FORMS: Final[dict[str, str]] = {
    "add": "r[i] += x", "max": "r[i] = T.max(r[i], x)", "min": "r[i] = T.min(r[i], x)",
    "bitand": "r[i] &= x", "bitor": "r[i] |= x", "bitxor": "r[i] ^= x",
}  # fmt: skip


@dataclass(eq=False)
class Reducer:
    """One reducer of the trace: where it was allocated, and how far its use has come.

    ``depth`` and ``loops`` are the number of the body and the count of run-time loops around its allocation, later around its start.
    """

    buffer: Buffer
    op: ReduceOp
    replication: str | None
    allocated: tuple[list[Stmt], int] | None
    depth: int
    loops: int
    protocol: Protocol | None = None
    is_open: bool = False

    def start(self, initial: Any, protocol: Protocol, operation: str) -> None:
        """Starts the reducer, at the identity of its operation or at ``initial``. E234: it is started already; E235: another dtype."""
        builder = current_builder(operation)
        if self.is_open and (protocol == "epoch" or self.protocol == "epoch"):
            raise self._out_of_order(operation, "is started already: a double T.reducer_init")
        seed = None if initial is None else self._seed(builder, initial, is_strict=protocol == "epoch")
        builder.emit(ReducerInit(buffer=self.buffer, op=self.op, replication=self.replication, span=builder.span))
        self.protocol, self.is_open = protocol, True
        self.depth, self.loops = builder.depth, open_loops(builder)
        if seed is not None and not (isinstance(seed, Const) and seed.value == identity(self.op, self.buffer.dtype)):
            axes = tuple(builder.var("i", INT32, "loop") for _ in self.buffer.shape)
            update = ReducerUpdate(buffer=self.buffer, op=self.op, indices=axes, value=seed, span=builder.span)
            builder.emit(Map(axes=axes, extents=self.buffer.shape, body=(update,), span=builder.span))

    def update(self, place: Element, value: Any, operation: str) -> None:
        """``T.reducer_update``: combines one element with ``value``, in a point of T.Parallel. E234 elsewhere, or before the start."""
        builder = current_builder(operation)
        if not self.is_open:
            raise self._out_of_order(operation, "is updated before T.reducer_init")
        if self.protocol != "epoch":
            raise self._out_of_order(operation, "was started by T.clear or T.fill, which goes with r[i] += x")
        if not builder.point_depths:
            raise self._out_of_order(operation, "is updated outside any T.Parallel")
        stored = arithmetic.stored(value, self.buffer.dtype, builder.span)
        self._emit_update(builder, place, stored)

    def takes(self, place: Element, value: Any) -> bool:
        """Whether a store to an element is an update of the form ``r[i] = r[i] op x``, which is emitted then.

        False where the reducer is finalised, so that the store is an ordinary one. E210 for any other store.
        """
        if not self.is_open and self.protocol is not None:
            return False
        builder = current_builder("a store")
        expr = arithmetic.as_expr(value, builder.span, place.dtype)
        other = None if self.protocol == "epoch" else self._contribution(builder, place, expr)
        if other is None:
            form = "T.reducer_update(r[i], x)" if self.protocol == "epoch" else _FORMS[UPDATES[self.op][0]]
            raise catalogue.E210.error(builder.span, name=self.buffer.label, op=self.op, form=form)
        if not self.is_open:
            self._start_where_allocated(builder)
        self._emit_update(builder, place, arithmetic.cast(other, self.buffer.dtype, builder.span))
        return True

    def finalize(self, operation: str) -> None:
        """Ends the updates. E234: not started, or in a loop or body that the start is not in."""
        builder = current_builder(operation)
        if not self.is_open:
            if self.protocol is not None:
                raise self._out_of_order(operation, "is finalised already")
            self._start_where_allocated(builder)
        if builder.depth < self.depth:
            raise self._out_of_order(operation, "was started in a body that has ended: this is not in the scope of its T.reducer_init")
        if open_loops(builder) > self.loops:
            reason = "is finalised in a loop begun after its start: this is not in the scope of its T.reducer_init"
            raise self._out_of_order(operation, reason)
        self.is_open = False
        builder.emit(ReducerFinalize(buffer=self.buffer, span=builder.span))

    def _seed(self, builder: Builder, initial: Any, *, is_strict: bool) -> Expr:
        expr = arithmetic.stored(initial, self.buffer.dtype, builder.span)
        given = getattr(getattr(initial, "expr", None), "dtype", None)
        if is_strict and isinstance(given, DType) and given != self.buffer.dtype:
            raise catalogue.E235.error(builder.span, name=self.buffer.label, given=given, dtype=self.buffer.dtype)
        return bind("start", Scalar(expr)).expr  # as it is now: what it is read from may change before the updates

    def _contribution(self, builder: Builder, place: Element, expr: Expr) -> Expr | None:
        """``x`` of ``r[i] op x``, None for another form."""
        while isinstance(expr, Cast) and isinstance(expr.value, Binary):
            expr = expr.value
        if not isinstance(expr, Binary):
            return None
        sides = [(expr.left, expr.right), (expr.right, expr.left)]
        is_difference = expr.op == "sub" and self.op == "sum"
        if is_difference:
            sides = sides[:1]
        elif expr.op not in UPDATES[self.op]:
            return None
        for mine, other in sides:
            if mine != place.expr and not (isinstance(mine, Cast) and mine.value == place.expr):
                continue
            if all(load.buffer is not place.buffer for load in loads_in(other)):
                return arithmetic.unary("neg", Scalar(other), builder.span) if is_difference else other
        return None

    def _start_where_allocated(self, builder: Builder) -> None:
        if self.allocated is not None:
            builder.insert(self.allocated, ReducerInit(buffer=self.buffer, op=self.op, replication=self.replication, span=self.buffer.span))
        self.protocol, self.is_open = "tile", True

    def _emit_update(self, builder: Builder, place: Element, value: Expr) -> None:
        builder.emit(ReducerUpdate(buffer=self.buffer, op=self.op, indices=place.indices, value=value, span=builder.span))

    def _out_of_order(self, operation: str, reason: str) -> Exception:
        span = current_builder(operation).span
        return catalogue.E234.error(span, operation=operation, given=f"the reducer {self.buffer.label}", reason=reason)


def open_loops(builder: Builder) -> int:
    """How many run-time loops are open around the place that is being traced."""
    return 0 if builder.trace is None else sum(c.kind != "if" for c in builder.trace.control)


def reducer_of(value: Any, operation: str) -> Reducer:
    """The reducer that a tile, or an element of one, belongs to; E234 for anything else."""
    builder = current_builder(operation)
    buffer = getattr(value, "node", None) or getattr(value, "buffer", None)
    found = builder.reducers.get(buffer) if isinstance(buffer, Buffer) else None
    if found is None:
        raise catalogue.E234.error(builder.span, operation=operation, given=arithmetic.describe(value), reason="is no reducer")
    return found
