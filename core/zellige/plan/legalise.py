"""Products made legal for the target: what executes each, and sums kept apart where nothing else may touch the unit's results.

In: a kernel, one of its launches and a machine. Out: :class:`Legal`: the launch whose operations the plan is made of, and the
:class:`Product` of each Gemm in it.

A unit that leaves its results in a space that the vector engine does not reach can only start from zero there. A product whose c is also
used by something else than a fill with zero, another product and a copy out of it becomes three operations with the same bits: the
product into a tile of its own, a copy of that to where the vector engine works, and the sum ``c + product`` there, in the accumulator's
type and rounded once to c's.
"""

from __future__ import annotations

from dataclasses import replace

from zellige.ir.expr import INT32, Binary, Buffer, Cast, Const, Expr, Load, Select, Var, constant_value
from zellige.ir.stmt import Alloc, Copy, Fill, Gemm, Kernel, Launch, Map, Stmt, Store, is_whole, whole
from zellige.ir.traverse import rebuilt, rewrite
from zellige.plan.capabilities import Machine
from zellige.plan.draft import Decisions
from zellige.plan.facts import LaunchFacts, statements_in
from zellige.plan.products import Product, choose_product
from zellige.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Legal:
    """``products`` by the identity of the Gemm."""

    launch: Launch
    products: dict[int, Product]


def legalise(kernel: Kernel, launch: Launch, machine: Machine, decisions: Decisions) -> Legal:
    """``launch`` with products that the machine can execute, and their choices as decisions."""
    facts = LaunchFacts(kernel, launch)
    products: dict[int, Product] = {}
    apart: dict[int, tuple[Stmt, ...]] = {}
    allocations: list[Stmt] = []
    for statement in statements_in(launch.body):
        if not isinstance(statement, Gemm):
            continue
        product = choose_product(statement, machine, launch)
        _tell(product, decisions)
        products[id(statement)] = product
        if _must_stand_apart(product, facts, machine):
            made = _apart(product)
            allocations.extend(Alloc(buffer=buffer, span=statement.span) for buffer in made.buffers)
            apart[id(statement)] = made.statements
            products[id(made.gemm)] = replace(product, gemm=made.gemm)
            _tell_apart(product, made, machine, decisions)
    if not apart:
        return Legal(launch=launch, products=products)
    replaced = rewrite(launch, lambda node: apart.get(id(node), node))
    return Legal(launch=rebuilt(replaced, body=(*allocations, *replaced.body)), products=products)


def _tell(product: Product, decisions: Decisions) -> None:
    gemm = product.gemm
    m, n, k = ("?" if s is None else str(s) for s in product.sizes)
    unit = product.unit
    name = "a loop of the vector engine" if unit is None else (unit.name or "the product unit")
    name += "" if product.is_native else " (emulated)"
    block = "" if product.tiling is None else f", blocks of {product.tiling.m}x{product.tiling.n}"
    decisions.take(
        f"what executes the product {m}x{n}x{k} of {gemm.a.buffer.name} and {gemm.b.buffer.name}?", f"{name}{block}", product.because,
        rejected=product.rejected, where=gemm.span,
    )  # fmt: skip


def _tell_apart(product: Product, made: _Apart, machine: Machine, decisions: Decisions) -> None:
    name, space = product.gemm.c.buffer.name, _unit_space(product)
    decisions.take(
        f"where does the product into {name} add up?",
        f"in {made.gemm.c.buffer.name}, added to {name} afterwards",
        f"the unit's results lie in {space}, which only a fill with zero, products and copies out of it may touch, "
        f"and {name} is also used otherwise",
        rejected=((f"in {name} itself", f"the engine {machine.main_engine} does not reach {space}"),),
        where=product.gemm.span,
    )


def _unit_space(product: Product) -> str:
    assert product.unit is not None
    return product.unit.c_space


def _must_stand_apart(product: Product, facts: LaunchFacts, machine: Machine) -> bool:
    unit = product.unit
    if unit is None or not unit.c_space:
        return False
    space = machine.space(unit.c_space)
    if space is None or not space.engines or machine.main_engine in space.engines:
        return False
    root = product.gemm.c.buffer.root
    if root.dtype.name != unit.c or not is_whole(product.gemm.c):
        return True
    for statement in statements_in(facts.launch.body):
        for access in facts.accesses(statement):
            if access.root is root and access.statement is statement and not _suits_results(statement, root):
                return True
    return False


def _suits_results(statement: Stmt, root: Buffer) -> bool:
    match statement:
        case Gemm():
            return root not in (statement.a.buffer.root, statement.b.buffer.root)
        case Fill():
            return constant_value(statement.value) == 0 and is_whole(statement.dst)
        case Copy():
            return statement.src.buffer.root is root and statement.dst.buffer.root is not root
        case _:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Apart:
    gemm: Gemm
    buffers: tuple[Buffer, ...]
    statements: tuple[Stmt, ...]


def _apart(product: Product) -> _Apart:
    """The product into a tile of its own, the copy out of it, and the sum."""
    gemm, accumulator = product.gemm, product.accumulator
    m, n, _ = product.sizes
    assert m is not None
    assert n is not None
    assert product.unit is not None
    shape = (Const(value=m, dtype=INT32), Const(value=n, dtype=INT32))
    name = gemm.c.buffer.name
    sums = Buffer(name=f"{name}_product", dtype=accumulator, shape=shape, space=product.unit.c_space, span=gemm.span)
    landed = Buffer(name=f"{name}_landed", dtype=accumulator, shape=shape, space="local", span=gemm.span)
    alone = rebuilt(gemm, c=whole(sums, gemm.span), clear=Const(value=True, dtype=gemm.clear.dtype))
    out = Copy(src=whole(sums, gemm.span), dst=whole(landed, gemm.span), span=gemm.span)
    return _Apart(gemm=alone, buffers=(sums, landed), statements=(alone, out, _sum(gemm, landed, shape)))


def _sum(gemm: Gemm, landed: Buffer, shape: tuple[Const, Const]) -> Map:
    """``c = (0 if clear else c) + landed`` for each element."""
    axes = (Var(name="row", dtype=INT32, kind="loop"), Var(name="column", dtype=INT32, kind="loop"))
    target = gemm.c.buffer
    indices: list[Expr] = list(gemm.c.offsets)
    for position, axis in zip((-2, -1), axes):
        offset = gemm.c.offsets[position]
        at: Expr = axis if offset.dtype == INT32 else Cast(value=axis, dtype=offset.dtype)
        indices[position] = at if constant_value(offset) == 0 else Binary(op="add", left=offset, right=at)
    product: Expr = Load(buffer=landed, indices=axes)
    before: Expr = Load(buffer=target, indices=tuple(indices))
    if target.dtype != landed.dtype:
        before = Cast(value=before, dtype=landed.dtype)
    total: Expr = Binary(op="add", left=before, right=product)
    clear = constant_value(gemm.clear)
    if clear is None:
        total = Select(condition=gemm.clear, then=product, otherwise=total)
    elif clear:
        total = product
    if target.dtype != landed.dtype:
        total = Cast(value=total, dtype=target.dtype)
    store = Store(buffer=target, indices=tuple(indices), value=total, span=gemm.span)
    return Map(axes=axes, extents=shape, body=(store,), span=gemm.span)
