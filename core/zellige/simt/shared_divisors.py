"""Quotients of which many elements of a lane have one divisor, as a softmax divides a row by its sum.

In: a Map, its distribution and the context. Out: the Map with each such quotient written as products with the divisor's reciprocal, and the
Maps that compute the reciprocals, once a divisor, before it.

The quotient is the one that division gives. With d = b s for a power of two s that brings the divisor's magnitude to 2^-85 ... 2^64, r the
nearest float to 1 / d and q0 = a r, two corrections q + (a - q d) r give the nearest float to a / d (P. Markstein, Computation of
elementary functions on the IBM RISC System/6000 processor, 1990: where r is the nearest float and the quotient before the last step within
one unit), and s scales it exactly. Where q0 is an infinity or NaN, it is the result. What this does not cover, and where the result may be
a unit off: a below 2^-100 in magnitude, and quotients below 2^-126.
"""

from __future__ import annotations

from collections.abc import Mapping

from zellige.dtypes import dtype as as_dtype
from zellige.ir.expr import BOOL, Binary, Buffer, Compare, Const, Expr, Load, Math, Select, Unary, Var
from zellige.ir.stmt import Bind, Map, Stmt, Store
from zellige.ir.traverse import always_evaluated, rebuilt, rewrite, substitute, walk
from zellige.records import dataclass
from zellige.simt.context import Context
from zellige.simt.distribution import Distribution, number
from zellige.simt.elements import axis_of, pattern_of, projected
from zellige.simt.homes import RegisterHome

FLOAT32 = as_dtype("float32")

LEAST_QUOTIENTS = 4
"""Quotients a divisor from which the reciprocal is cheaper."""

LARGE = 2.0**64
"""Divisors from here on, and those below its reciprocal, are scaled by it."""


def with_reciprocals(ctx: Context, statement: Map, distribution: Distribution) -> tuple[Map, list[tuple[Map, Distribution]]]:
    """The Map, and what comes before it with its distribution. The registers for the reciprocals are declared here."""
    reciprocals: dict[Load, _Reciprocal] = {}
    body: list[Stmt] = []
    if not all(isinstance(inner, (Store, Bind)) for inner in statement.body):
        return statement, []
    for inner in statement.body:
        assert isinstance(inner, (Store, Bind))
        names: dict[Expr, Expr] = {}
        for quotient in _quotients(inner.value):
            divisor = quotient.right
            if not isinstance(divisor, Load) or not _is_shared(ctx, quotient, divisor, statement, distribution):
                continue
            if any(node in names for node in walk(quotient)):
                continue
            if divisor not in reciprocals:
                reciprocals[divisor] = _reciprocal(ctx, statement, divisor, distribution)
            names[quotient] = _quotient(ctx, quotient.left, divisor, reciprocals[divisor], body)
        body.append(rebuilt(inner, value=_replaced(inner.value, names)))
    return (rebuilt(statement, body=tuple(body)) if reciprocals else statement), [r.computed for r in reciprocals.values()]


def _replaced(value: Expr, names: Mapping[Expr, Expr]) -> Expr:
    return rewrite(value, lambda node: names.get(node, node) if isinstance(node, Binary) else node)


def _quotients(expr: Expr) -> list[Binary]:
    """Quotients of floats, innermost first, that are evaluated whatever the values are."""
    return [node for node in always_evaluated(expr) if isinstance(node, Binary) and node.op == "truediv"][::-1]


def _is_shared(ctx: Context, quotient: Binary, divisor: Load, statement: Map, distribution: Distribution) -> bool:
    """Whether the divisor is one float32 register for several points of a lane, which no point changes."""
    home = ctx.homes.get(divisor.buffer.root)
    if quotient.dtype != FLOAT32 or not isinstance(home, RegisterHome) or divisor.buffer.alias is not None:
        return False
    if any(isinstance(s, Store) and s.buffer.root is divisor.buffer.root for s in statement.body):
        return False
    kept = _axes_of(divisor, home, statement)
    return kept is not None and distribution.registers >= LEAST_QUOTIENTS * distribution.onto(kept).registers


def _axes_of(divisor: Load, home: RegisterHome, statement: Map) -> list[int] | None:
    pattern = pattern_of(divisor.indices, home.extents, statement.axes)
    return None if pattern is None else [a for a in pattern if a is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reciprocal:
    """Of each divisor b: ``divisor`` d = |b| times a power of two, ``inverse`` the nearest float to 1 / d, ``scale`` that power with the
    sign of b (of a divisor without a reciprocal d is 1 and the scale what a quotient of 1 would be). ``computed`` is what fills them."""

    divisor: Buffer
    inverse: Buffer
    scale: Buffer
    computed: tuple[Map, Distribution]


def _reciprocal(ctx: Context, statement: Map, divisor: Load, distribution: Distribution) -> _Reciprocal:
    home = ctx.homes[divisor.buffer.root]
    assert isinstance(home, RegisterHome)
    kept = _axes_of(divisor, home, statement)
    assert kept is not None
    part = distribution.onto(kept)
    made = {
        word: Buffer(name=f"{divisor.buffer.name}_{word}", dtype=FLOAT32, shape=divisor.buffer.shape, space="fragment")
        for word in ("divisor", "inverse", "scale")
    }
    held = projected(distribution, [axis_of(i, statement.axes) for i in divisor.indices], home.extents)
    for buffer in made.values():
        memory = ctx.registers(buffer.name, FLOAT32, part.registers)
        ctx.homes[buffer] = RegisterHome(memory=memory, extents=home.extents, distribution=held)
    axes = tuple(Var(name=statement.axes[a].name, dtype=statement.axes[a].dtype, kind="loop") for a in kept)
    swaps = {statement.axes[a]: axis for a, axis in zip(kept, axes)}
    indices = tuple(substitute(i, swaps) for i in divisor.indices)
    b = Var(name="b", dtype=FLOAT32, kind="value")
    size = Var(name="size", dtype=FLOAT32, kind="value")
    power = Var(name="power", dtype=FLOAT32, kind="value")
    d = Var(name="d", dtype=FLOAT32, kind="value")
    is_finite = Math(function="isfinite", args=(b,), dtype=BOOL)
    usual = Binary(op="and", left=is_finite, right=Compare(op="ne", left=b, right=_float(0.0)))
    large = Select(condition=Compare(op="ge", left=size, right=_float(LARGE)), then=_float(1 / LARGE), otherwise=_float(1.0))
    body: tuple[Stmt, ...] = (
        Bind(var=b, value=rebuilt(divisor, indices=indices)),
        Bind(var=size, value=Math(function="abs", args=(b,), dtype=FLOAT32)),
        Bind(var=power, value=Select(condition=Compare(op="lt", left=size, right=_float(1 / LARGE)), then=_float(LARGE), otherwise=large)),
        Bind(var=d, value=Select(condition=usual, then=Binary(op="mul", left=size, right=power), otherwise=_float(1.0))),
        Store(buffer=made["divisor"], indices=indices, value=d),
        Store(buffer=made["inverse"], indices=indices, value=Binary(op="truediv", left=_float(1.0), right=d)),
        Store(
            buffer=made["scale"], indices=indices,
            value=Select(
                condition=usual, then=Math(function="copysign", args=(power, b), dtype=FLOAT32),
                otherwise=Binary(op="truediv", left=_float(1.0), right=b),
            ),
        ),
    )  # fmt: skip
    extents = tuple(number(part.shape[i]) for i in range(len(kept)))
    computed = Map(axes=axes, extents=extents, body=body, span=statement.span), part
    return _Reciprocal(divisor=made["divisor"], inverse=made["inverse"], scale=made["scale"], computed=computed)


def _quotient(ctx: Context, numerator: Expr, divisor: Load, reciprocal: _Reciprocal, body: list[Stmt]) -> Expr:
    """The quotient as an expression of variables that ``body`` defines."""
    d, r, s = (Load(buffer=b, indices=divisor.indices) for b in (reciprocal.divisor, reciprocal.inverse, reciprocal.scale))
    a, first, second = (Var(name=ctx.fresh(name), dtype=FLOAT32, kind="value") for name in ("a", "q", "q"))
    body.append(Bind(var=a, value=numerator))
    body.append(Bind(var=first, value=Binary(op="mul", left=a, right=r)))
    body.append(Bind(var=second, value=_corrected(a, first, d, r)))
    is_finite = Compare(op="lt", left=Math(function="abs", args=(first,), dtype=FLOAT32), right=_float(float("inf")))
    found = Select(condition=is_finite, then=_corrected(a, second, d, r), otherwise=first)
    return Binary(op="mul", left=found, right=s)


def _corrected(a: Expr, q: Expr, d: Expr, r: Expr) -> Expr:
    """q + (a - q d) r; of a zero q with its sign."""
    over = Math(function="fma", args=(q, d, Unary(op="neg", value=a)), dtype=FLOAT32)
    return Math(function="fma", args=(Unary(op="neg", value=over), r, q), dtype=FLOAT32)


def _float(value: float) -> Const:
    return Const(value=value, dtype=FLOAT32)
