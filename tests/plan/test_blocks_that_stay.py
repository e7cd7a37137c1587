"""Launches whose blocks take tile after tile: the same bits under every schedule, each tile once, and the reasons of both answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from zellige.demo.kernels import causal_attention, pipelined_gemm
from zellige.diagnostics import CompileError, catalogue
from zellige.generate.comparison import with_stages
from zellige.generate.kernels import generate_seeded
from zellige.generate.pipelines import pipeline_program
from zellige.generate.program import Program
from zellige.interp import interpret
from zellige.ir.expr import INT32, Binary, Const, Var
from zellige.ir.parser import parse_kernel
from zellige.ir.sizes import evaluate_size, launched_blocks, size_vars
from zellige.ir.stmt import Bind, For, Kernel, RasterHint
from zellige.ir.traverse import rebuilt, rewrite
from zellige.ir.verify import check as verify
from zellige.plan.check import Limits, check, examine
from zellige.plan.execution.schedule import STRATEGIES
from zellige.plan.interpret import has_one_order, reference_kernel, run
from zellige.plan.invented_machines import TEST_TARGETS
from zellige.plan.nodes import LaunchPlan, PlannedKernel
from zellige.plan.persistent import QUESTION, over_tiles
from zellige.plan.planner import plan
from zellige.plan.printer import print_plan
from zellige.plugin.contract import Capabilities

SCHEDULES = 20
WORKERS = 2
STAYING = ("lanes_async", "queues_cube", "local_only")
"""The machines whose blocks can begin a tile while they end another."""


def staying(name: str, workers: int = WORKERS) -> Capabilities:
    return replace(TEST_TARGETS[name], is_persistent=True, threads=workers)


def after(kernel: Kernel | PlannedKernel, program: Program, **schedule: Any) -> list[bytes]:
    arguments = program.copies()
    results = (run if isinstance(kernel, PlannedKernel) else interpret)(kernel, arguments, **schedule).results  # type: ignore[operator]
    return [one.tobytes() for one in (*arguments, *results) if isinstance(one, np.ndarray)]


def why(planned: PlannedKernel) -> list[str]:
    return [d.because for launch in planned.launches for d in launch.decisions if d.question == QUESTION]


def faults(program: Program, kernel: Kernel, machine: Capabilities, plain: Capabilities) -> tuple[int, list[str]]:
    """How many launches stay, and what is wrong with their plan; it gives the bits of the plan with a block a tile."""
    try:
        one, many = plan(kernel, plain), plan(kernel, machine)
    except CompileError as refused:
        return 0, [] if refused.code.startswith("E3") else [str(refused)]
    stay = sum(launch.order.tiles is not None for launch in many.launches)
    if not stay:
        return 0, []
    found = [str(problem) for problem in check(many, limits=Limits.of(machine), samples=3)]
    wanted = after(reference_kernel(one), program)
    for seed in range(1 if has_one_order(many) else SCHEDULES):
        if after(many, program, schedule_seed=seed) != wanted:
            found.append(f"schedule {seed} gives other bits")
    return stay, found


@pytest.mark.parametrize("target", TEST_TARGETS)
def test_generated_programs_on_blocks_that_stay(target: str) -> None:
    """Machines that do one thing after the other keep a block a tile; on the others enough programs stay for the test to mean something."""
    made = stays_of(target, range(3), range(4))
    assert (made["stay"] > 0) is (target in STAYING), made


@pytest.mark.slow
@pytest.mark.parametrize("target", STAYING)
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_many_generated_programs_on_blocks_that_stay(first: int, target: str) -> None:
    assert stays_of(target, range(first, first + 20), range(first, first + 20))["stay"]


def stays_of(target: str, pipelines: range, programs: range) -> Counter[str]:
    """How many programs of the seeds stay, all right."""
    made = Counter[str]()
    for seed, program in [*((n, pipeline_program(n)) for n in pipelines), *((n, generate_seeded(n)) for n in programs)]:
        stay, found = faults(program, with_stages(program.kernel, 2 + seed % 3), staying(target), TEST_TARGETS[target])
        assert found == [], f"seed {seed}"
        made["stay" if stay else "one"] += 1
    return made


@pytest.mark.parametrize("target", TEST_TARGETS)
@pytest.mark.parametrize("seed", range(3))
def test_loops_over_tiles_are_planned_for_every_machine(seed: int, target: str) -> None:
    """As a program of the tile IR, whether its machine would choose it or not."""
    program = pipeline_program(seed)
    launches = tuple(over_tiles(launch, LaunchPlan(panel=1 + seed % 3), 1 + seed % 4)[0] for launch in program.kernel.launches)
    looping = rebuilt(program.kernel, launches=launches)
    verify(looping)
    assert after(looping, program) == after(program.kernel, program)
    planned = plan(looping, TEST_TARGETS[target])
    assert list(check(planned, limits=Limits.of(TEST_TARGETS[target]), samples=3)) == []
    wanted = after(reference_kernel(plan(program.kernel, TEST_TARGETS[target])), program)
    for schedule in range(1 if has_one_order(planned) else SCHEDULES):
        assert after(planned, program, schedule_seed=schedule) == wanted


SYMBOLIC = """# tile-ir 1.0


@sizes(M=int32, N=int32)
def k(A: tensor((M, N, 3), int32), B: tensor((M, N, 3), int32)):
    with launch((M + 3) // 4, (N + 1) // 2, 3) as (bx, by, bz):
        tile = alloc((4, 2, 1), int32, "shared")
        for s in pipelined(2, stages=2):
            copy(A[bx * 4:+4, by * 2:+2, bz:+1], tile[:, :, :])
            for i, j in parallel(4, 2):
                tile[i, j, 0] = tile[i, j, 0] * 3 + bx + by * 7 + bz * 5
            copy(tile[:, :, :], B[bx * 4:+4, by * 2:+2, bz:+1])
"""


@pytest.mark.parametrize("order", ["row", "column"])
@pytest.mark.parametrize("panel", [1, 2, 3, 5])
@pytest.mark.parametrize("sizes", [(0, 5), (1, 1), (9, 7), (17, 4), (16, 8)])
def test_every_order_and_size_takes_each_tile_once(sizes: tuple[int, int], panel: int, order: Any) -> None:
    kernel = parse_kernel(SYMBOLIC)
    launch, tiles = over_tiles(kernel.launches[0], LaunchPlan(panel=panel, order=order), 4)
    assert (tiles.workers, tiles.panel, tiles.order, len(tiles.blocks)) == (4, panel, order, 3)
    looping = rebuilt(kernel, launches=(launch,))
    verify(looping)
    extents = dict(zip(size_vars(kernel), sizes))
    ((stay,), (blocks,)) = launch.grid, launched_blocks(kernel.launches[0].grid, tiles.workers)
    assert evaluate_size(blocks, extents) == evaluate_size(stay, extents)
    values = np.arange(sizes[0] * sizes[1] * 3, dtype=np.int32).reshape(*sizes, 3)
    wanted, found = np.zeros_like(values), np.zeros_like(values)
    interpret(kernel, [values, wanted])
    interpret(looping, [values, found])
    np.testing.assert_array_equal(found, wanted)


def panelled(workers: int = 3, hints: tuple[RasterHint, ...] = (RasterHint(panel=2),)) -> PlannedKernel:
    kernel = pipelined_gemm(130, 70, 96, block_M=32, block_N=16, block_K=16, stages=3).kernel
    kernel = rebuilt(kernel, launches=tuple(rebuilt(launch, hints=hints) for launch in kernel.launches))
    made = plan(kernel, staying("lanes_async", workers))
    assert made.launches[0].order.tiles is not None
    return made


def test_a_product_in_panels() -> None:
    """The panels that blocks of their own would run in are those in which workers take them."""
    (launch,) = panelled(7, ()).launches
    tiles = launch.order.tiles
    assert tiles is not None and tiles.panel > 1 and launch.order.is_persistent and launch.order.panel == 1
    assert [role.name for role in launch.roles] == ["producer", "consumer"]
    assert "launch 1: worker in 7 (persistent: 7 workers take 25 tiles" in print_plan(panelled(7, ()))
    assert check(panelled(7, ())) == () and check(panelled()) == ()


def test_of_too_many_tiles_it_is_said_that_they_were_not_counted() -> None:
    kernel = pipelined_gemm(32 * 65, 16 * 64, 32, block_M=32, block_N=16, block_K=16, stages=3).kernel
    many = plan(kernel, staying("lanes_async", 600))
    found = examine(many, samples=1)
    assert found.problems == ()
    assert found.notes == ("which worker takes which tile was not looked at for a grid of 4160 tiles, only for grids up to 4096",)
    assert examine(panelled()).notes == ()
    (one,) = many.launches
    more = rebuilt(many, launches=(rebuilt(one, launch=rebuilt(one.launch, grid=(Const(value=602, dtype=INT32),))),))
    assert any("has 602 workers and at most 600 are wanted" in problem.message for problem in examine(more, samples=1).problems)


def test_only_tiles_that_do_not_fit_are_said_to_be_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """What else goes wrong is said as it is, and a backend's fault is no reason for a plan."""
    from zellige.plan import planner

    kernel, plain = panelled().kernel, planner._planned

    def refusing(code: Any, **fields: str) -> Callable[..., Any]:
        def made(kernel: Any, launch: Any, machine: Any, tiles: Any = None) -> Any:
            if tiles is not None:
                raise code.error(launch.span, **fields)
            return plain(kernel, launch, machine)

        return made

    monkeypatch.setattr(planner, "_planned", refusing(catalogue.E304, reason="it is too odd"))
    (launch,) = plan(kernel, staying("lanes_async", 3)).launches
    (decision,) = [one for one in launch.decisions if one.question == QUESTION]
    assert decision.because.startswith("the loop is refused (E304: ") and "it is too odd" in decision.because
    monkeypatch.setattr(planner, "_planned", refusing(catalogue.E703, name="acme", reason="its hook is odd"))
    with pytest.raises(CompileError, match="its hook is odd"):
        plan(kernel, staying("lanes_async", 3))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_stages_and_workers_change_no_bit(stages: int, strategy: Any) -> None:
    bits = set()
    for workers in (1, 2, 5, 16):
        kernel = pipelined_gemm(70, 50, 96, block_M=32, block_N=16, block_K=16, stages=stages).kernel
        values = np.random.default_rng(0)
        arrays = [values.standard_normal(shape).astype(np.float32) for shape in ((70, 96), (96, 50), (70, 50))]
        run(plan(kernel, staying("lanes_async", workers)), arrays, schedule_seed=workers, strategy=strategy)
        bits.add(arrays[2].tobytes())
    assert len(bits) == 1


# ---- planted faults -------------------------------------------------------------------------------------------------------


def changed(planned: PlannedKernel, visit: Callable[[Any], Any]) -> PlannedKernel:
    """``visit`` over the launch and the roles alike."""
    (launch,) = planned.launches
    roles = tuple(rewrite(role, visit) for role in launch.roles)
    return rebuilt(planned, launches=(rebuilt(launch, launch=rewrite(launch.launch, visit), roles=roles),))


def of_loop(**changes: Callable[[For], Any]) -> Callable[[PlannedKernel], PlannedKernel]:
    def plant(planned: PlannedKernel) -> PlannedKernel:
        tile = planned.launches[0].order.tiles.tile  # type: ignore[union-attr]

        def visit(node: Any) -> Any:
            if isinstance(node, For) and node.var is tile:
                return rebuilt(node, **{name: change(node) for name, change in changes.items()})
            return node

        return changed(planned, visit)

    return plant


def of_bind(name: str, change: Callable[[Any], Any]) -> Callable[[PlannedKernel], PlannedKernel]:
    def visit(node: Any) -> Any:
        return rebuilt(node, value=change(node.value)) if isinstance(node, Bind) and node.var.name == name else node

    return lambda planned: changed(planned, visit)


def plus(expr: Any, number: int) -> Any:
    return Binary(op="add", left=expr, right=Const(value=number, dtype=expr.dtype))


def of_order(**changes: Any) -> Callable[[PlannedKernel], PlannedKernel]:
    def plant(planned: PlannedKernel) -> PlannedKernel:
        (launch,) = planned.launches
        made = {name: change(launch.order.tiles) if callable(change) else change for name, change in changes.items()}
        return rebuilt(planned, launches=(rebuilt(launch, order=replace(launch.order, **made)),))

    return plant


def fewer_workers(planned: PlannedKernel) -> PlannedKernel:
    (launch,) = planned.launches
    grid = (Const(value=int(launch.launch.grid[0].value) - 1, dtype=launch.launch.grid[0].dtype),)  # type: ignore[union-attr]
    return rebuilt(planned, launches=(rebuilt(launch, launch=rebuilt(launch.launch, grid=grid)),))


FAULTS: dict[str, Callable[[PlannedKernel], PlannedKernel]] = {
    "the first tile of each worker is passed over": of_loop(start=lambda loop: plus(loop.start, 1)),
    "workers take tiles of each other": of_loop(step=lambda loop: Const(value=2, dtype=loop.step.dtype)),
    "tiles between two workers are left": of_loop(step=lambda loop: Const(value=4, dtype=loop.step.dtype)),
    "the last tile is left": of_loop(stop=lambda loop: plus(loop.stop, -1)),
    "a tile beyond the last is taken": of_loop(stop=lambda loop: plus(loop.stop, 1)),
    "rows are counted from the wrong tile": of_bind("by", lambda value: plus(value, 1)),
    "the last panel is as high as the others": of_bind("height", lambda value: value.left),
    "a panel begins a row late": of_bind("first", lambda value: plus(value, 1)),
    "there are fewer workers than the step has": fewer_workers,
    "the record is of another grid": of_order(tiles=lambda tiles: replace(tiles, grid=(tiles.grid[1], plus(tiles.grid[0], 1)))),
    "the record names another loop": of_order(
        tiles=lambda tiles: replace(tiles, tile=Var(name="tile", dtype=tiles.tile.dtype, kind="loop"))
    ),
    "the record is left out": of_order(tiles=None),
    "the plan does not say that its blocks stay": of_order(is_persistent=False),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(fault: str) -> None:
    planned = panelled()
    tiles = planned.launches[0].order.tiles
    assert tiles is not None and tiles.panel > 1
    assert 17 in {problem.check for problem in check(FAULTS[fault](planned))}


def test_a_tile_that_is_left_gives_other_bits() -> None:
    values = np.random.default_rng(1)
    arrays = [values.standard_normal(shape).astype(np.float32) for shape in ((130, 96), (96, 70), (130, 70))]
    wanted = [one.copy() for one in arrays]
    interpret(reference_kernel(panelled()), wanted)
    for fault in ("the first tile of each worker is passed over", "the last tile is left", "there are fewer workers than the step has"):
        found = [one.copy() for one in arrays]
        run(FAULTS[fault](panelled()), found)
        assert found[2].tobytes() != wanted[2].tobytes()


# ---- reasons --------------------------------------------------------------------------------------------------------------

ATOMIC = """# tile-ir 1.0


def k(A: tensor((64, 8), int32), B: tensor((8,), int32)):
    with launch(16) as (bx,):
        t = alloc((4, 8), int32, "shared")
        for s in pipelined(2, stages=2):
            copy(A[bx * 4:+4, :], t[:, :])
            for i in parallel(8):
                atomic("add", B[i], t[0, i])
"""

SAFE = """# tile-ir 1.0


def k(A: tensor((63, 8), int32), B: tensor((64, 8), int32)):
    with launch(16) as (bx,):
        safe_value(A, bx)
        t = alloc((4, 8), int32, "shared")
        for s in pipelined(2, stages=2):
            copy(A[bx * 4:+4, :], t[:, :])
            copy(t[:, :], B[bx * 4:+4, :])
"""


def gemm(**options: Any) -> Kernel:
    return pipelined_gemm(130, 70, 96, **{"block_M": 32, "block_N": 16, "block_K": 16, "stages": 3, **options}).kernel


REASONS: dict[str, tuple[Callable[[], Kernel], Callable[[], Capabilities], str]] = {
    "no word of it": (gemm, lambda: replace(TEST_TARGETS["lanes_async"], threads=3), "does not say that blocks which stay would pay"),
    "unknown workers": (gemm, lambda: staying("lanes_async", 0), "how many blocks the target runs at once is not known"),
    "few tiles": (gemm, lambda: staying("lanes_async", 25), "all blocks run at once: there are no more than 25"),
    "atomics": (lambda: parse_kernel(ATOMIC), lambda: staying("queues_cube"), "a block may wait for others"),
    "safe values": (lambda: parse_kernel(SAFE), lambda: staying("queues_cube"), "outside a tensor read as depends on the block"),
    "lengths": (
        lambda: causal_attention(1, 1, 256, 16, block_M=32, block_N=16).kernel, lambda: staying("lanes_async"),
        "loops are longer where bx is larger",
    ),
    "clusters": (
        lambda: rebuilt(gemm(), launches=tuple(rebuilt(one, cluster=(2, 1)) for one in gemm().launches)), lambda: staying("lanes_async", 3),
        "blocks of the grid form clusters",
    ),
}  # fmt: skip


@pytest.mark.parametrize("reason", REASONS)
def test_why_a_block_takes_one_tile(reason: str) -> None:
    kernel, machine, words = REASONS[reason]
    planned = plan(kernel(), machine())
    assert all(launch.order.tiles is None and not launch.order.is_persistent for launch in planned.launches)
    assert any(words in said for said in why(planned)), why(planned)
    (decision,) = [d for d in planned.launches[0].decisions if d.question == QUESTION]
    assert decision.chosen == "one" and decision.rejected[0][0].startswith("blocks that stay")


def test_why_a_block_takes_many() -> None:
    (decision,) = [d for d in panelled().launches[0].decisions if d.question == QUESTION]
    assert decision.chosen == "as many as there are for 3 blocks that stay"
    assert decision.rejected == (("one", "each block would begin with empty slots, and end with its stores alone"),)


def test_the_authors_own_loop_stays_the_authors() -> None:
    looping, _ = over_tiles(gemm().launches[0], LaunchPlan(), 3)
    planned = plan(rebuilt(gemm(), launches=(looping,)), staying("lanes_async"))
    assert planned.launches[0].order.tiles is None and planned.launches[0].order.is_persistent
    assert why(planned) == ["the kernel is written so (T.Persistent)"]
