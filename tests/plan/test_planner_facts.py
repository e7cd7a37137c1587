"""Facts that planning rests on: accesses, overwriting, dependences with distances, live ranges, alignment, full iterations, units."""

from __future__ import annotations

import textwrap

import pytest

from zellige.analysis.bounds import Scope
from zellige.analysis.forms import Form
from zellige.dtypes import dtype
from zellige.generate.kernels import generate_seeded
from zellige.ir.expr import INT32, Binary, Buffer, Const, Load, Var, const
from zellige.ir.parser import parse_kernel
from zellige.ir.stmt import Copy, For, Kernel
from zellige.ir.traverse import substitute, walk
from zellige.ir.verify import check
from zellige.passes.simplify import simplified
from zellige.plan import edges as tensor_edges
from zellige.plan.by_hand import renewed_tiles
from zellige.plan.capabilities import Machine
from zellige.plan.dependence import dependences
from zellige.plan.facts import LaunchFacts, bytes_of, is_uniform, overwrites_whole
from zellige.plan.invented_machines import LANES_ASYNC, LOCAL_ONLY, QUEUES_CUBE, SCALAR_VECTOR_CPU, TEST_TARGETS
from zellige.plan.pipeline import Schedule, replicable, why_not
from zellige.plan.planner import plan
from zellige.plan.products import holds
from zellige.plan.spaces import divides
from zellige.plugin.contract import Capabilities


def facts_of(parameters: str, body: str, launch: str = "launch(4) as (bx,)") -> LaunchFacts:
    lines = textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8)
    kernel: Kernel = parse_kernel(f"# tile-ir 1.0\n\n\ndef k({parameters}):\n    with {launch}:\n{lines}\n")
    check(kernel)
    return LaunchFacts(kernel, kernel.launches[0])


def loop_in(facts: LaunchFacts) -> For:
    return next(n for n in walk(facts.launch) if isinstance(n, For))


def edges(facts: LaunchFacts) -> set[tuple[int, int, str, int, str]]:
    loop = loop_in(facts)
    return {(d.source, d.sink, d.kind, d.distance, d.subject.name) for d in dependences(facts, loop.body, loop)}


# ---- dependences


def test_rows_of_a_tensor_meet_at_their_distance() -> None:
    facts = facts_of(
        "X: tensor((64, 32), float32)",
        """
        t = alloc((4, 32), float32, "shared")
        for k in serial(10):
            copy(X[k * 4:+4, :], t[:, :])
            copy(t[:, :], X[k * 4 + 8:+4, :])
        """,
    )
    found = edges(facts)
    assert (1, 0, "RAW", 2, "X") in found  # written two iterations before it is read
    assert not any(kind == "WAR" and name == "X" for _, _, kind, _, name in found)
    assert (0, 1, "RAW", 0, "t") in found
    assert (1, 0, "WAR", 1, "t") in found
    assert (0, 0, "WAW", 1, "t") in found


def test_rows_that_never_meet_have_no_edge() -> None:
    facts = facts_of(
        "X: tensor((64, 32), float32)",
        """
        t = alloc((2, 32), float32, "shared")
        for k in serial(10):
            copy(X[k * 4:+2, :], t[:, :])
            copy(t[:, :], X[k * 4 + 2:+2, :])
        """,
    )
    assert not any(name == "X" for *_, name in edges(facts))


def test_what_cannot_be_compared_meets_at_every_distance() -> None:
    facts = facts_of(
        "X: tensor((64, 32), float32), rows: tensor((10,), int32)",
        """
        t = alloc((1, 32), float32, "shared")
        for k in serial(10):
            copy(X[rows[k]:+1, :], t[:, :])
            copy(t[:, :], X[rows[k] + 1:+1, :])
        """,
    )
    found = edges(facts)
    assert (0, 1, "WAR", 0, "X") in found
    assert (1, 0, "RAW", 1, "X") in found


def test_inner_loop_variables_are_not_taken_for_equal() -> None:
    facts = facts_of(
        "X: tensor((64, 32), float32)",
        """
        t = alloc((1, 32), float32, "shared")
        for k in serial(4):
            for m in serial(4):
                copy(X[m:+1, :], t[:, :])
            for m in serial(4):
                copy(t[:, :], X[m:+1, :])
        """,
    )
    assert (1, 0, "RAW", 1, "X") in edges(facts)


def test_atomics_and_scalars_have_edges() -> None:
    facts = facts_of(
        "X: tensor((64,), float32)",
        """
        n: mutable(int32) = 0
        for k in serial(4):
            atomic("add", X[n], 1.0)
            n = n + 1
        """,
    )
    found = edges(facts)
    assert (0, 0, "atomic", 1, "X") in found
    assert (1, 0, "scalar", 1, "n") in found
    assert (0, 1, "scalar", 0, "n") in found


def test_the_same_edges_without_a_loop_are_forward_only() -> None:
    facts = facts_of("X: tensor((8,), float32), Y: tensor((8,), float32)", "copy(X[:], Y[:])\ncopy(Y[:], X[:])")
    assert [(d.source, d.sink, d.kind) for d in dependences(facts, facts.launch.body)] == [(0, 1, "RAW"), (0, 1, "WAR")]


# ---- overwriting, versions, live ranges


@pytest.mark.parametrize(
    "statement, is_whole",
    [
        ("copy(X[:, :], t[:, :])", True),
        ("copy(X[0:+2, :], t[0:+2, :])", False),
        ("fill(t[:, :], 0.0)", True),
        ("for i, j in parallel(4, 32):\n    t[i, j] = 1.0", True),
        ("for i, j in parallel(4, 16):\n    t[i, j] = 1.0", False),
        ("for i, j in parallel(4, 32):\n    if i > j:\n        t[i, j] = 1.0", False),
        ("for i, j in parallel(4, 32):\n    t[i, 31 - j] = 1.0", False),
        ('reduce("sum", u[:, :, :], t[:, :], axis=2)', True),
        ('reduce("sum", u[:, :, :], t[:, :], axis=2, clear=False)', False),
    ],
)
def test_what_overwrites_a_whole_tile(statement: str, is_whole: bool) -> None:
    facts = facts_of(
        "X: tensor((4, 32), float32)",
        f't = alloc((4, 32), float32, "shared")\nu = alloc((4, 32, 2), float32, "shared")\n{statement}',
    )
    tile = facts.launch.body[0].buffer  # type: ignore[union-attr]
    assert overwrites_whole(facts.launch.body[2], tile) is is_whole


def test_an_update_of_a_tile_does_not_renew_it() -> None:
    facts = facts_of(
        "X: tensor((4, 32), float32)",
        """
        t = alloc((4, 32), float32, "shared")
        u = alloc((4, 32), float32, "shared")
        for k in serial(3):
            for i, j in parallel(4, 32):
                t[i, j] = t[i, j] * 2.0
            copy(t[:, :], u[:, :])
        """,
    )
    assert {b.name for b in renewed_tiles(facts, loop_in(facts))} == {"u"}


def test_a_use_in_a_loop_lives_for_all_of_it() -> None:
    facts = facts_of(
        "X: tensor((4, 32), float32)",
        """
        t = alloc((4, 32), float32, "shared")
        u = alloc((4, 32), float32, "shared")
        v = alloc((4, 32), float32, "shared")
        copy(X[:, :], v[:, :])
        for k in serial(3):
            copy(X[:, :], t[:, :])
            copy(t[:, :], X[:, :])
            copy(X[:, :], u[:, :])
        """,
    )
    ranges = {b.name: span for b, span in facts.live_ranges().items()}
    assert ranges["t"] == ranges["u"]
    assert ranges["v"][1] < ranges["t"][0]


def test_sizes_in_bytes() -> None:
    def tile(name: str, *shape: int) -> Buffer:
        return Buffer(name="t", dtype=dtype(name), shape=tuple(Const(value=s, dtype=dtype("int32")) for s in shape), space="shared")

    assert bytes_of(tile("float16", 3, 5)) == 30
    assert bytes_of(tile("int4", 3, 5)) == 8
    assert bytes_of(tile("bool", 7)) == 7


def test_a_value_made_of_lanes_or_points_is_not_uniform() -> None:
    facts = facts_of(
        "X: tensor((64,), float32), rows: tensor((64,), int32)",
        "a: int32 = rows[bx] + 1\nb: int32 = tx + bx\nX[tx] = 1.0",
        "launch(1, threads=(64,)) as (bx,), lanes() as (tx,)",
    )
    first, second = facts.launch.body[:2]
    assert is_uniform(first.value, facts.launch)  # type: ignore[union-attr]
    assert not is_uniform(second.value, facts.launch)  # type: ignore[union-attr]


# ---- edges of tensors


def test_the_first_iteration_that_may_leave() -> None:
    facts = facts_of(
        "X: tensor((40, 100), float32)",
        """
        t = alloc((8, 32), float32, "shared")
        for k in serial(4):
            copy(X[bx * 8:+8, k * 32:+32], t[:, :])
        """,
        "launch(5) as (bx,)",
    )
    loop = loop_in(facts)
    copy = loop.body[0]
    scopes = tensor_edges.scopes_of(facts)
    assert tensor_edges.tested_dimensions(copy, scopes[id(copy)]) == (1,)
    end = tensor_edges.full_until(loop, [copy], scopes[id(copy)])
    assert isinstance(end, Const)
    assert end.value == 3


@pytest.mark.parametrize(("block", "found"), [(0, 4), (4095, 4 - (4095 << 16)), (65535, -(1 << 31))])
def test_the_first_iteration_that_may_leave_is_a_number_of_the_loops_variable(block: int, found: int) -> None:
    """Where the block's own offset is far behind the tensor the first is before every iteration, also where it is below int32."""
    facts = facts_of(
        "X: tensor((64,), float32)",
        """
        t = alloc((16,), float32, "shared")
        for k in serial(4):
            copy(X[cast(bx, int64) * int64(1048576) + cast(k * 16, int64):+16], t[:])
        """,
        "launch(65536) as (bx,)",
    )
    loop = loop_in(facts)
    copy = loop.body[0]
    end = tensor_edges.full_until(loop, [copy], tensor_edges.scopes_of(facts)[id(copy)])
    assert end is not None
    at_block = simplified(substitute(end, {facts.launch.grid_vars[0]: const(block, INT32)}))
    assert isinstance(at_block, Const)
    assert at_block.value == found


def test_a_condition_that_was_passed_counts() -> None:
    facts = facts_of(
        "X: tensor((40, 32), float32)",
        """
        t = alloc((8, 32), float32, "shared")
        if bx * 8 + 8 <= 40:
            copy(X[bx * 8:+8, :], t[:, :])
        else:
            copy(X[bx * 8:+8, :], t[:, :])
        """,
        "launch(9) as (bx,)",
    )
    inside, outside = (s for s in walk(facts.launch) if isinstance(s, Copy))
    scopes = tensor_edges.scopes_of(facts)
    assert tensor_edges.tested_dimensions(inside, scopes[id(inside)]) == ()
    assert tensor_edges.tested_dimensions(outside, scopes[id(outside)]) == (0,)


def test_divisors_of_index_forms() -> None:
    facts = facts_of("X: tensor((64, 32), float32)", "copy(X[bx * 8:+8, 0:+32], X[bx * 8 + 4:+8, 0:+32])")
    copy = facts.launch.body[0]
    assert isinstance(copy, Copy)
    eights, fours, nothing = (facts.scope.form(offset) for offset in (copy.src.offsets[0], copy.dst.offsets[0], copy.src.offsets[1]))
    assert [divides(facts.scope, eights, bits, 32) for bits in (32, 256, 512)] == [True, True, False]
    assert [divides(facts.scope, fours, bits, 32) for bits in (32, 128, 256)] == [True, True, False]
    assert divides(facts.scope, nothing, 1 << 20, 32)


def test_what_divides_a_variable_that_data_decide() -> None:
    """Arithmetic on data may wrap, which keeps powers of two alone; a name given twice has what both values have."""
    element = Load(buffer=Buffer(name="n", dtype=INT32, shape=(Const(value=1, dtype=INT32),)), indices=(Const(value=0, dtype=INT32),))
    at, odd, twice = (Var(name=name, dtype=INT32, kind="value") for name in ("at", "odd", "twice"))
    scope = Scope()

    def times(value: int) -> Binary:
        return Binary(op="mul", left=element, right=Const(value=value, dtype=INT32))

    for var, factor in ((at, 384), (odd, 3), (twice, 64), (twice, 16)):
        assert not scope.define(var, times(factor))
    assert [scope.multiple_of(Form.of(var)) for var in (at, odd, twice)] == [128, 1, 16]
    assert scope.multiple_of(Form.of(at).scaled(3) + Form.of(twice) + 48) == 16
    assert scope.multiple_of(Form.of(0)) == 0
    assert not scope.is_index_variable(at)


# ---- schedules


def test_scalars_that_each_stage_can_repeat() -> None:
    facts = facts_of(
        "X: tensor((64, 32), float32), rows: tensor((10,), int32)",
        """
        t = alloc((1, 32), float32, "shared")
        row: mutable(int32) = 0
        total: mutable(int32) = 0
        for k in serial(10):
            row = rows[k]
            twice: int32 = row * 2
            total = total + row
            copy(X[twice:+1, :], t[:, :])
        """,
    )
    assert replicable(facts, loop_in(facts)) == {0, 1}


def test_a_schedule_must_keep_what_has_one_version() -> None:
    facts = facts_of(
        "X: tensor((10, 32), float32), Y: tensor((10, 32), float32)",
        """
        t = alloc((1, 32), float32, "shared")
        for k in serial(10):
            copy(X[k:+1, :], t[:, :])
            copy(t[:, :], Y[k:+1, :])
        """,
    )
    loop = loop_in(facts)
    ahead = Schedule(stage_of=(0, 1), order_of=(0, 1))
    assert why_not(facts, loop, ahead, renewed_tiles(facts, loop), frozenset()) is None
    assert why_not(facts, loop, ahead, frozenset(), frozenset()) == "t would be overwritten while it is still read"
    late = Schedule(stage_of=(1, 0), order_of=(0, 1))
    assert why_not(facts, loop, late, renewed_tiles(facts, loop), frozenset()) == "t would be read before it is written"


# ---- machines and units


def test_how_each_machine_overlaps() -> None:
    styles = [Machine(capabilities=c).style for c in (SCALAR_VECTOR_CPU, LANES_ASYNC, QUEUES_CUBE, LOCAL_ONLY)]
    assert styles == ["ordered", "specialised", "queues", "software"]
    assert Machine(capabilities=Capabilities(target="unknown")).style == "ordered"


def test_spaces_stand_for_each_other() -> None:
    local, lanes = Machine(capabilities=LOCAL_ONLY), Machine(capabilities=LANES_ASYNC)
    assert {local.space_for(name).name for name in ("shared", "fragment", "local", "var")} == {"local"}  # type: ignore[union-attr]
    assert lanes.space_for("fragment").name == "registers"  # type: ignore[union-attr]
    assert lanes.space_for("shared").name == "shared"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "wide, narrow, does",
    [
        ("float32", "float16", True), ("float32", "bfloat16", True), ("bfloat16", "float16", False), ("float16", "bfloat16", False),
        ("float16", "float8_e4m3fn", True), ("float16", "float8_e5m2", True), ("float8_e4m3fn", "float8_e5m2", False),
        ("float32", "int8", True), ("float16", "int16", False), ("int32", "uint8", True), ("int8", "uint8", False),
        ("int32", "float16", False),
    ],
)  # fmt: skip
def test_which_types_hold_all_values_of_another(wide: str, narrow: str, does: bool) -> None:
    assert holds(dtype(wide), dtype(narrow)) is does


# ---- every program


@pytest.mark.parametrize("seed", range(40))
def test_generated_programs_are_planned_for_every_machine(seed: int) -> None:
    kernel = generate_seeded(seed).kernel
    for capabilities in TEST_TARGETS.values():
        planned = plan(kernel, capabilities)
        for launch in planned.launches:
            assert launch.roles
            assert all(d.question and d.chosen and d.because for d in launch.decisions)
