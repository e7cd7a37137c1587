"""Channels between the blocks of a cluster: the same bits under every schedule, faults planted in them, and when the planner makes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from zellige.demo.kernels import pipelined_gemm
from zellige.diagnostics import CompileError
from zellige.generate.comparison import with_stages
from zellige.generate.kernels import generate_seeded
from zellige.generate.pipelines import pipeline_program
from zellige.generate.program import Program
from zellige.interp import interpret
from zellige.ir.expr import Binary, Compare, Const
from zellige.ir.parser import parse_kernel
from zellige.ir.stmt import AtomicTile, Copy, Fill, For, If, Kernel, RasterHint
from zellige.ir.traverse import buffers_in, rebuilt, rewrite, walk
from zellige.plan.check import Limits, check
from zellige.plan.clusters import has_clusters, shares_of, unfolded
from zellige.plan.interpret import PlanFault, reference_kernel, run
from zellige.plan.invented_machines import TEST_TARGETS
from zellige.plan.nodes import Channel, Get, Issue, LaunchPlan, PlannedKernel, Put, Release, Slotted, Token, Wait
from zellige.plan.planner import plan
from zellige.plan.printer import print_plan
from zellige.plan.report import as_dictionary, report
from zellige.plan.spread import QUESTION
from zellige.plugin.contract import Capabilities, Synchronisation

SCHEDULES = 20


def joined(name: str, spreads: int = 2, **changes: Any) -> Capabilities:
    """An invented machine whose blocks can be joined, and whose asynchronous copies to a block's memory can write to several."""
    machine = TEST_TARGETS[name]
    copies = tuple(replace(p, spreads=spreads) if p.is_asynchronous and p.source == "global" else p for p in machine.copies)
    remote = Synchronisation(mechanism="remote arrival", scope="cluster")
    return replace(machine, copies=copies, synchronisation=(*machine.synchronisation, remote), **changes)


def rechannelled(planned: PlannedKernel, **changes: Any) -> PlannedKernel:
    """The plan whose first channel has other fields."""
    (launch,) = planned.launches
    old = launch.channels[0]
    new = replace(old, **changes)

    def visit(node: Any) -> Any:
        if getattr(node, "channel", None) is old:
            return rebuilt(node, channel=new)
        if isinstance(node, Slotted):
            return rebuilt(node, lags=tuple((new if channel is old else channel, lag) for channel, lag in node.lags))
        return node

    loops = {id(loop.var): place for place, loop in enumerate(launch.full_loops)}
    roles = tuple(rewrite(role, visit) for role in launch.roles)
    full = [next(n for role in roles for n in walk(role) if isinstance(n, For) and n.var is loop.var) for loop in launch.full_loops]
    assert len(full) == len(loops)
    channels = tuple(new if channel is old else channel for channel in launch.channels)
    return rebuilt(planned, launches=(rebuilt(launch, roles=roles, channels=channels, full_loops=tuple(full)),))


def ordered(planned: PlannedKernel, **changes: Any) -> PlannedKernel:
    (launch,) = planned.launches
    return rebuilt(planned, launches=(rebuilt(launch, order=replace(launch.order, **changes)),))


@pytest.fixture
def clustered(plans_by_hand: dict[str, Any]) -> Callable[..., PlannedKernel]:
    """The product by hand with A's tile shared by the two blocks of a row."""

    def make(depth: int = 3, spread: tuple[str, ...] = ("A_tile",), cluster: tuple[int, ...] = (2, 1)) -> PlannedKernel:
        planned = plans_by_hand["specialised_gemm"][0](depth)
        buffers = {b.name: b for b in buffers_in(planned.launches[0])}
        return ordered(rechannelled(planned, scope="cluster", spread=tuple(buffers[name] for name in spread)), cluster=cluster)

    return make


@pytest.mark.parametrize("seed", range(SCHEDULES))
@pytest.mark.parametrize("size", [1, 40, 100])
def test_every_schedule_gives_the_interpreters_bits(size: int, seed: int, clustered: Any, plans_by_hand: dict[str, Any]) -> None:
    arguments_of = plans_by_hand["specialised_gemm"][1]
    wanted, found = arguments_of(np.random.default_rng(size), size), arguments_of(np.random.default_rng(size), size)
    interpret(reference_kernel(clustered()), wanted)
    run(clustered(), found, schedule_seed=seed)
    assert [one.tobytes() for one in found] == [one.tobytes() for one in wanted]


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_no_check_finds_anything(depth: int, clustered: Any) -> None:
    assert check(clustered(depth)) == ()


def test_a_cluster_as_one_block(clustered: Any) -> None:
    """Each peer's producer copies its half of A for both and the whole of its own B; both wait for the consumers of both."""
    planned = clustered()
    (launch,) = planned.launches
    one = unfolded(launch)
    assert [role.name for role in one.roles] == ["load@0", "top@0", "bottom@0", "load@1", "top@1", "bottom@1"]
    (channel,) = one.channels
    assert (channel.producers, channel.consumers) == (("load@0", "load@1"), ("top@0", "bottom@0", "top@1", "bottom@1"))
    assert [b.name for b in channel.buffers] == ["A_tile@0", "B_tile@0", "A_tile@1", "B_tile@1"]
    text = print_plan(rebuilt(planned, launches=(one,)))
    assert "copy(A[by * 32 + 16:+16, k * 16:+16], A_tile_0[16:+16, :])" in text
    assert "copy(B[k * 16:+16, (bx * 2 + 1) * 16:+16], B_tile_1[:, :])" in text
    channel_text = "channel tiles: load -> top and bottom of all blocks of a cluster, each of which copies its share of A_tile for all"
    assert channel_text in print_plan(planned)
    assert not has_clusters(one) and unfolded(one) is one


# ---- planted faults ---------------------------------------------------------------------------------------------------------


def in_role(planned: PlannedKernel, name: str, visit: Callable[[Any], Any]) -> PlannedKernel:
    (launch,) = planned.launches
    roles = tuple(rewrite(role, visit) if role.name == name else role for role in launch.roles)
    return rebuilt(planned, launches=(rebuilt(launch, roles=roles, full_loops=(), choices=()),))


def copies_of(node: Any, name: str) -> bool:
    return isinstance(node, Issue) and isinstance(node.operation, Copy) and node.operation.dst.buffer.name == name


def only_the_first_block_copies(planned: PlannedKernel) -> PlannedKernel:
    """Its peer puts what it has not copied."""
    (launch,) = planned.launches
    bx = launch.launch.grid_vars[0]
    is_first = Compare(op="eq", left=bx, right=Const(value=0, dtype=bx.dtype))
    return in_role(planned, "load", lambda n: If(condition=is_first, then=(n,)) if copies_of(n, "A_tile") else n)


def one_more_iteration_in_a_peer(planned: PlannedKernel) -> PlannedKernel:
    (launch,) = planned.launches
    bx = launch.launch.grid_vars[0]

    def visit(node: Any) -> Any:
        return rebuilt(node, stop=Binary(op="add", left=node.stop, right=bx)) if isinstance(node, For) else node

    return in_role(in_role(in_role(planned, "load", visit), "top", visit), "bottom", visit)


def a_consumer_of_one_block_does_not_release(planned: PlannedKernel) -> PlannedKernel:
    bx = planned.launches[0].launch.grid_vars[0]
    is_first = Compare(op="eq", left=bx, right=Const(value=0, dtype=bx.dtype))
    return in_role(planned, "top", lambda n: If(condition=is_first, then=(n,)) if isinstance(n, Release) else n)


def a_put_before_the_copies(planned: PlannedKernel) -> PlannedKernel:
    def visit(node: Any) -> Any:
        if not isinstance(node, For):
            return node
        put = next(s for s in node.body if isinstance(s, Put))
        return rebuilt(node, body=(node.body[0], put, *(s for s in node.body[1:] if s is not put)))

    return in_role(planned, "load", visit)


def a_slot_used_after_its_release(planned: PlannedKernel) -> PlannedKernel:
    """The product still reads what the other block's producer may write anew."""

    def visit(node: Any) -> Any:
        return rebuilt(node, leave_in_flight=node.leave_in_flight + 1) if isinstance(node, Wait) else node

    return in_role(planned, "top", visit)


def a_role_writes_the_shared_tile(planned: PlannedKernel) -> PlannedKernel:
    def visit(node: Any) -> Any:
        if not copies_of(node, "A_tile"):
            return node
        return node, Fill(dst=node.operation.dst, value=Const(value=0.0, dtype=node.operation.dst.buffer.dtype))

    return in_role(planned, "load", visit)


def another_token(planned: PlannedKernel) -> PlannedKernel:
    other = Token(name="others", engine="copy")
    return in_role(planned, "load", lambda n: rebuilt(n, token=other) if copies_of(n, "A_tile") else n)


def a_wait_for_the_shared_copies(planned: PlannedKernel) -> PlannedKernel:
    token = planned.launches[0].channels[0].token
    return in_role(planned, "load", lambda n: (Wait(token=token), n) if isinstance(n, Put) else n)


def odd_grid(planned: PlannedKernel) -> PlannedKernel:
    (launch,) = planned.launches
    extent = launch.launch.grid[0]
    grid = (Const(value=3, dtype=extent.dtype), launch.launch.grid[1])
    return rebuilt(planned, launches=(rebuilt(launch, launch=rebuilt(launch.launch, grid=grid)),))


def meeting(planned: PlannedKernel) -> PlannedKernel:
    """The results are added to the tensor instead of written."""
    (launch,) = planned.launches
    stores = {id(s): AtomicTile(op="add", src=s.src, dst=s.dst) for s in launch.launch.body if isinstance(s, Copy)}
    roles = tuple(rewrite(role, lambda n: stores.get(id(n), n)) for role in launch.roles)
    changed = rebuilt(launch.launch, body=tuple(stores.get(id(s), s) for s in launch.launch.body))
    return rebuilt(planned, launches=(rebuilt(launch, launch=changed, roles=roles, full_loops=(), choices=()),))


Make = Callable[..., PlannedKernel]
FAULTS: dict[str, tuple[Callable[[Make], PlannedKernel], set[int]]] = {
    "what is shared differs between the blocks": (lambda make: make(spread=("B_tile",)), {9}),
    "only the first block copies": (lambda make: only_the_first_block_copies(make()), {9}),
    "a peer runs one more iteration": (lambda make: one_more_iteration_in_a_peer(make()), {2, 3, 9}),
    "a consumer of one block does not release": (lambda make: a_consumer_of_one_block_does_not_release(make()), {2, 3}),
    "a put before the copies": (lambda make: a_put_before_the_copies(make()), {4}),
    "a slot is used after its release": (lambda make: a_slot_used_after_its_release(make()), {5}),
    "a depth of one": (lambda make: make(depth=1), {3}),
    "a role writes the shared tile itself": (lambda make: a_role_writes_the_shared_tile(make()), {18}),
    "the channel does not count the copies": (lambda make: another_token(make()), {18}),
    "a role waits for copies that others count": (lambda make: a_wait_for_the_shared_copies(make()), {18}),
    "no transactions": (lambda make: rechannelled(make(), is_transaction=False), {18}),
    "the grid is odd": (lambda make: odd_grid(make()), {18}),
    "rows that the blocks do not divide": (lambda make: odd_grid(make(cluster=(3, 1))), {18}),
    "clusters along two axes": (lambda make: make(cluster=(2, 2)), {18}),
    "no cluster": (lambda make: ordered(make(), cluster=None), {18}),
    "blocks are numbered in panels": (lambda make: ordered(make(), panel=2), {18}),
    "a buffer of no such channel": (
        lambda make: rechannelled(make(), spread=(make().launches[0].launch.body[2].buffer,)), {18}
    ),
    "blocks meet at atomic operations": (lambda make: meeting(make()), {18}),
    "nothing is shared": (lambda make: rechannelled(make(), spread=()), {18}),
    "a channel of one block shares": (lambda make: rechannelled(make(), scope="block"), {18}),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str, clustered: Any) -> None:
    plant, numbers = FAULTS[fault]
    assert check(clustered()) == ()
    assert {problem.check for problem in check(plant(clustered))} & numbers


SEEN: dict[str, str] = {
    "what is shared differs between the blocks": "",
    "only the first block copies": "",
    "a peer runs one more iteration": "counts|deadlock|edge",
    "a consumer of one block does not release": "deadlock|counts",
    "a put before the copies": "holding",
    "a depth of one": "deadlock",
    "no transactions": "clusters",
    "the grid is odd": "clusters",
}
"""Faults that the plan interpreter meets: with a word of what it says, or by other results."""


@pytest.mark.parametrize("fault", SEEN)
def test_a_planted_fault_shows_when_the_plan_runs(fault: str, clustered: Any, plans_by_hand: dict[str, Any]) -> None:
    arguments_of, planned = plans_by_hand["specialised_gemm"][1], FAULTS[fault][0](clustered)
    wanted = arguments_of(np.random.default_rng(1), 100)
    interpret(reference_kernel(clustered()), wanted)
    differ = 0
    for seed in range(12):
        found = arguments_of(np.random.default_rng(1), 100)
        if SEEN[fault]:
            with pytest.raises(PlanFault, match=SEEN[fault]):
                run(planned, found, schedule_seed=seed)
        else:
            run(planned, found, schedule_seed=seed)
            differ += [one.tobytes() for one in found] != [one.tobytes() for one in wanted]
    assert SEEN[fault] or differ


# ---- the planner ------------------------------------------------------------------------------------------------------------


def after(kernel: Any, program: Program, **schedule: Any) -> list[bytes]:
    arguments = program.copies()
    results = (run if isinstance(kernel, PlannedKernel) else interpret)(kernel, arguments, **schedule).results  # type: ignore[operator]
    return [one.tobytes() for one in (*arguments, *results) if isinstance(one, np.ndarray)]


def clusters_of(target: str, seeds: range) -> Counter[str]:
    """How many generated programs share, all right: no check finds anything, and every schedule gives the bits of the plan without."""
    made = Counter[str]()
    for seed, program in [*((n, pipeline_program(n)) for n in seeds), *((n, generate_seeded(n)) for n in seeds)]:
        kernel, machine = with_stages(program.kernel, 2 + seed % 3), joined(target)
        try:
            alone, planned = plan(kernel, TEST_TARGETS[target]), plan(kernel, machine)
        except CompileError as refused:
            if not refused.code.startswith("E3"):
                raise
            continue
        if not any(has_clusters(launch) for launch in planned.launches):
            made["alone"] += 1
            continue
        made["clusters"] += 1
        assert [str(p) for p in check(planned, limits=Limits.of(machine), samples=3)] == [], f"seed {seed}"
        wanted = after(reference_kernel(alone), program)
        for schedule in range(SCHEDULES):
            assert after(planned, program, schedule_seed=schedule) == wanted, f"seed {seed}, schedule {schedule}"
    return made


@pytest.mark.parametrize("target", TEST_TARGETS)
def test_generated_programs_in_clusters(target: str) -> None:
    """Only copies that count themselves complete can be shared, which one of the machines has."""
    made = clusters_of(target, range(8))
    assert (made["clusters"] > 0) is (target == "lanes_async"), made


@pytest.mark.slow
@pytest.mark.parametrize("first", range(8, 208, 20))
def test_many_generated_programs_in_clusters(first: int) -> None:
    assert clusters_of("lanes_async", range(first, first + 20))["clusters"]


def gemm(**options: Any) -> Kernel:
    return pipelined_gemm(130, 64, 96, **{"block_M": 64, "block_N": 32, "block_K": 32, "stages": 3, **options}).kernel


def answer(kernel: Kernel, machine: Capabilities) -> tuple[Any, PlannedKernel]:
    planned = plan(kernel, machine)
    return next((d for d in planned.launches[0].decisions if d.question == QUESTION), None), planned


def test_neighbours_in_a_row_share_its_tile() -> None:
    decision, planned = answer(gemm(), joined("lanes_async"))
    (launch,) = planned.launches
    assert launch.order.cluster == (2, 1) and launch.order.panel == 1
    assert [[b.name for b in channel.spread] for channel in launch.channels] == [["A_tile"]]
    assert decision.chosen == "A_tile, 2 neighbours along bx" and "4096 bytes a step instead of 8192" in decision.because
    assert "do blocks share what they copy? A_tile" in report(planned)
    assert as_dictionary(planned)["launches"][0]["channels"][0]["spread"] == ["A_tile"]


def test_the_axis_with_more_in_common_is_taken() -> None:
    decision, planned = answer(pipelined_gemm(128, 64, 96, block_M=32, block_N=32, block_K=32, stages=3).kernel, joined("lanes_async"))
    assert planned.launches[0].order.cluster == (2, 1)
    assert decision.rejected[1] == ("clusters along by", "their blocks have 4096 bytes of a step in common, these 4096")
    wide = pipelined_gemm(128, 128, 96, block_M=32, block_N=64, block_K=32, stages=3).kernel
    assert answer(wide, joined("lanes_async"))[1].launches[0].order.cluster == (1, 2)


def with_cluster(kernel: Kernel, cluster: tuple[int, ...]) -> Kernel:
    return rebuilt(kernel, launches=tuple(rebuilt(launch, cluster=cluster) for launch in kernel.launches))


def test_the_cluster_that_the_kernel_asks_for() -> None:
    asked = with_cluster(pipelined_gemm(128, 64, 96, block_M=32, block_N=32, block_K=32, stages=3).kernel, (1, 4))
    (launch,) = answer(asked, joined("lanes_async", 4))[1].launches
    assert launch.order.cluster == (1, 4) and [[b.name for b in c.spread] for c in launch.channels] == [["B_tile"]]
    decision, planned = answer(asked, joined("lanes_async", 2))
    assert decision.chosen == "no" and planned.launches[0].order.cluster == (1, 4)
    assert not has_clusters(planned.launches[0])


SAFE = """# tile-ir 1.0


def k(A: tensor((64, 8), int32), D: tensor((63, 7), int32), B: tensor((64, 8), int32)):
    with launch(16, 2) as (bx, by):
        safe_value(D, by)
        t = alloc((4, 8), int32, "shared")
        u = alloc((4, 8), int32, "shared")
        copy(D[bx * 4:+4, 0:+8], u[:, :])
        for s in pipelined(4, stages=2):
            copy(A[s * 4:+4, :], t[:, :])
            for i, j in parallel(4, 8):
                u[i, j] = u[i, j] + t[i, j]
        copy(u[:, :], B[bx * 4:+4, :])
"""

DATA = """# tile-ir 1.0


def k(A: tensor((64, 8), int32), N: tensor((4,), int32), B: tensor((64, 8), int32)):
    with launch(4) as (bx,):
        t = alloc((4, 8), int32, "shared")
        for s in pipelined(N[bx], stages=2):
            copy(A[s * 4:+4, :], t[:, :])
            copy(t[:, :], B[bx * 4:+4, :])
"""


ATOMIC = """# tile-ir 1.0


def k(A: tensor((64, 8), int32), B: tensor((4, 8), int32)):
    with launch(16) as (bx,):
        t = alloc((4, 8), int32, "shared")
        for s in pipelined(4, stages=2):
            copy(A[s * 4:+4, :], t[:, :])
            atomic_tile("add", t[:, :], B[:, :])
"""


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (lambda: parse_kernel(ATOMIC), "its blocks meet at atomic operations"),
        (lambda: rebuilt(gemm(), launches=tuple(rebuilt(one, hints=(RasterHint(panel=2),)) for one in gemm().launches)), "T.use_swizzle"),
        (lambda: parse_kernel(SAFE), "outside a tensor read as depends on the block"),
        (lambda: parse_kernel(DATA), "no two neighbours copy the same in step"),
        (lambda: pipelined_gemm(64, 32, 96, block_M=64, block_N=32, block_K=32, stages=3).kernel, "no two neighbours"),
    ],
)
def test_why_blocks_share_nothing(kernel: Any, words: str) -> None:
    decision, planned = answer(kernel(), joined("lanes_async"))
    assert decision.chosen == "no" and not has_clusters(planned.launches[0])
    assert words in decision.because


def test_machines_that_cannot_are_not_asked() -> None:
    assert answer(gemm(), TEST_TARGETS["lanes_async"])[0] is None
    alone = replace(joined("lanes_async"), synchronisation=TEST_TARGETS["lanes_async"].synchronisation)
    assert answer(gemm(), alone)[0] is None


def test_shares_of_a_copy() -> None:
    (launch,) = gemm().launches
    copy = next(node for node in walk(launch) if isinstance(node, Copy))
    parts = shares_of(copy, 4)
    assert [[int(e.value) for e in part.dst.extents] for part in parts] == [[16, 32]] * 4  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="its 64 rows are not divided by 3"):
        shares_of(copy, 3)
    with pytest.raises(ValueError, match="not the same"):
        shares_of(rebuilt(copy, src=copy.dst, dst=rebuilt(copy.dst, extents=copy.dst.extents[::-1])), 2)


def test_blocks_of_clusters_do_not_stay() -> None:
    (launch,) = plan(gemm(), joined("lanes_async", is_persistent=True, threads=2)).launches
    assert launch.order.cluster == (2, 1) and launch.order.tiles is None and not launch.order.is_persistent
    assert any(d.because == "blocks of the grid form clusters" for d in launch.decisions)
    assert isinstance(launch.order, LaunchPlan) and isinstance(launch.channels[0], Channel)
    assert any(isinstance(n, Get) for role in launch.roles for n in walk(role))
