"""Walking, rewriting and comparing the IR; what statements say they read and write."""

from __future__ import annotations

from zellige.dtypes import dtype
from zellige.ir import stmt as s
from zellige.ir.expr import BOOL, INT32, Binary, Buffer, Const, Expr, Load, Region, Unary, Var
from zellige.ir.parser import parse_kernel
from zellige.ir.traverse import buffers_in, children, loads_in, operands_first, rewrite, same_structure, substitute, walk

F32 = dtype("float32")


def number(value: float, of: object = INT32) -> Const:
    return Const(value=value, dtype=dtype(of))


def doubled(value: Expr, times: int) -> Expr:
    for _ in range(times):
        value = Binary(op="add", left=value, right=value)
    return value


def test_constants_are_equal_by_value_and_type() -> None:
    assert number(1, "float32") == number(1.0, "float32")
    assert number(1) != number(1.0, "float32")
    assert number(0.0, F32) != number(-0.0, F32)
    assert number(float("nan"), F32) == number(float("nan"), F32)
    assert Const(value=1, dtype=BOOL) == Const(value=True, dtype=BOOL)
    assert Const(value=1.5, dtype=INT32).value == 1.5  # kept for the verifier to refuse
    assert Const(value=10**400, dtype=F32).value == 10**400


def test_equality_and_hash_of_shared_and_deep_expressions() -> None:
    assert doubled(number(1), 60) == doubled(number(1), 60)
    assert hash(doubled(number(1), 60)) == hash(doubled(number(1), 60))
    assert doubled(number(1), 60) != doubled(number(2), 60)
    assert same_structure(doubled(number(1), 60), doubled(number(1), 60))
    assert not same_structure(doubled(number(1), 60), doubled(number(2), 60))


def test_same_structure_looks_through_names_but_not_through_roles() -> None:
    text = "# tile-ir 1.0\ndef k(A: tensor((4,), float32)):\n    with launch(1) as (bx,):\n        {}: {} = A[bx]\n        A[0] = {} {}\n"
    first = parse_kernel(text.format("x", "float32", "x", "+ x"))
    assert same_structure(first, parse_kernel(text.format("y", "float32", "y", "+ y")))
    assert not same_structure(first, parse_kernel(text.format("y", "mutable(float32)", "y", "+ y")))
    assert not same_structure(first, parse_kernel(text.format("x", "float32", "x", "+ A[bx]")))
    assert not same_structure(first, parse_kernel(text.format("x", "float32", "x", "+ x").replace("(4,)", "(5,)")))


def test_same_structure_maps_names_one_to_one() -> None:
    x, y = (Var(name=n, dtype=INT32, kind="value") for n in "xy")
    assert not same_structure(Binary(op="add", left=x, right=y), Binary(op="add", left=x, right=x))
    assert not same_structure(Binary(op="add", left=x, right=x), Binary(op="add", left=x, right=y))
    assert same_structure(Binary(op="add", left=x, right=y), Binary(op="add", left=y, right=x))


def test_attributes_of_different_types_differ() -> None:
    def operation(value: object) -> s.Dialect:
        return s.Dialect(op="a.b", attributes=(("n", value),))  # type: ignore[arg-type]

    assert same_structure(operation(1), operation(1))
    assert not same_structure(operation(1), operation(True))
    assert not same_structure(operation(1), operation(1.0))
    assert not same_structure(operation(0.0), operation(-0.0))


def test_walk_visits_parents_first_and_shared_parts_once() -> None:
    shared = doubled(number(1), 60)
    visited = list(walk(shared))
    assert len(visited) == 61
    assert visited[0] is shared
    assert list(children(shared)) == [shared.left, shared.right]  # type: ignore[union-attr]


def test_rewrite_keeps_what_it_does_not_change_and_replaces_statements() -> None:
    x = Var(name="x", dtype=INT32, kind="value")
    bind = s.Bind(var=x, value=doubled(number(1), 60))
    kept = s.Bind(var=Var(name="y", dtype=INT32, kind="value"), value=number(7))
    launch = s.Launch(grid_vars=(), grid=(), body=(bind, kept, s.Break()))
    assert rewrite(launch, lambda n: n) is launch

    def visit(node: object) -> object:
        if isinstance(node, s.Break):
            return ()
        if node == number(1):
            return number(2)
        return (node, node) if node is kept else node

    changed = rewrite(launch, visit)
    assert changed.body[1:] == (kept, kept)
    assert changed.body[0].value == doubled(number(2), 60)  # type: ignore[union-attr]


def test_substitute_changes_variables_and_buffers() -> None:
    x = Var(name="x", dtype=INT32, kind="value")
    old, new = (Buffer(name=n, dtype=INT32, shape=(number(4),)) for n in ("old", "new"))
    store = s.Store(buffer=old, indices=(x,), value=Load(buffer=old, indices=(x,)))
    changed = substitute(store, {x: number(3)}, {old: new})
    assert changed.buffer is new
    assert changed.indices == (number(3),)
    assert changed.value == Load(buffer=new, indices=(number(3),))
    assert buffers_in(changed) == [new]
    assert loads_in(changed) == [changed.value]


def region(name: str, offset: Expr) -> Region:
    buffer = Buffer(name=name, dtype=F32, shape=(number(4), number(4)))
    return Region(buffer=buffer, offsets=(offset, number(0)), extents=(number(2), number(4)))


def test_reads_and_writes_include_what_offsets_load() -> None:
    table = Buffer(name="table", dtype=INT32, shape=(number(4),))
    at = Load(buffer=table, indices=(number(1),))
    src, dst = region("src", at), region("dst", number(0))
    for statement in (
        s.Copy(src=src, dst=dst),
        s.Scan(src=src, dst=dst, axis=0, op="sum"),
        s.Reduce(src=src, dst=dst, axis=0, op="sum"),
    ):
        assert [r.buffer.name for r in statement.reads()] == ["src", "table"]
        assert statement.writes() == (dst,)
    combined = s.Reduce(src=src, dst=dst, axis=0, op="sum", clear=False)
    assert [r.buffer.name for r in combined.reads()] == ["src", "dst", "table"]
    assert [r.buffer.name for r in s.AtomicTile(op="add", src=src, dst=dst).reads()] == ["src", "dst", "table"]


def test_a_gemm_that_clears_does_not_read_its_accumulator() -> None:
    a, b, c = region("a", number(0)), region("b", number(0)), region("c", number(0))
    flag = Unary(op="not", value=Const(value=True, dtype=BOOL))
    for clear, read in ((Const(value=True, dtype=BOOL), "ab"), (Const(value=False, dtype=BOOL), "abc"), (flag, "abc")):
        assert "".join(r.buffer.name for r in s.Gemm(a=a, b=b, c=c, clear=clear).reads()) == read


def test_a_view_knows_the_buffer_that_owns_its_storage() -> None:
    root = Buffer(name="root", dtype=F32, shape=(number(4),))
    view = Buffer(name="view", dtype=INT32, shape=(number(4),), alias=Buffer(name="between", dtype=F32, shape=(number(4),), alias=root))
    assert view.root is root
    assert root.root is root


def test_operands_come_first_and_a_shared_one_once() -> None:
    x = Const(value=3, dtype=INT32)
    value = doubled(x, 2000)
    found = operands_first(value)
    assert len(found) == 2001
    assert found[0] is x
    assert found[-1] is value
    assert all(after.left is before for before, after in zip(found, found[1:]))  # type: ignore[attr-defined]
