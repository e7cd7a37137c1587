"""Loops whose body stands under a condition of their variable: cut to the iterations that run something, the same bits."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest

from zellige.interp import interpret
from zellige.ir.parser import parse_kernel
from zellige.ir.stmt import Break, Continue, For, If, Kernel
from zellige.ir.traverse import walk
from zellige.ir.verify import check as verify
from zellige.plan.check import check
from zellige.plan.interpret import has_one_order, reference_kernel, run
from zellige.plan.invented_machines import TEST_TARGETS
from zellige.plan.nodes import PlannedKernel
from zellige.plan.planner import plan

KERNEL = """
@sizes(N=int32)
def guarded(A: tensor((N, 16), float16), lens: tensor((4,), int32), low: scalar(int32), high: scalar(int32), far: scalar(int64),
            O: tensor((4, 16, 16), float32)):
    with launch(4) as (bx,):
        tile = alloc((16, 16), float16, "shared")
        total = alloc((16, 16), float32, "fragment")
        fill(total[:, :], 1.0)
        own: int32 = lens[bx]
        for k in {loop}:
{guard}
        copy(total[:, :], O[bx, :, :])
"""

BODY = """
copy(A[k * 16:+16, :], tile[:, :])
gemm(tile[:, :], tile[:, :], total[:, :], transpose_b=True, clear=False)
"""


def under(condition: str) -> str:
    return f"if {condition}:\n{textwrap.indent(BODY.strip(), '    ')}"


def left_by(word: str, condition: str) -> str:
    return f"if {condition}:\n    {word}\n{BODY.strip()}"


CUT = {
    "up to the block's own": under("k * 16 <= bx * 16 + 15"),
    "from the block's own on": under("k >= bx"),
    "a window": under("k * 16 + 15 >= bx * 16 - 20 and k * 16 <= bx * 16 + 40"),
    "the other way round": under("not (k < bx or k > bx + 1)"),
    "a number that is given": under("k < high and k >= low"),
    "a length that is loaded": under("k * 16 < own"),
    "one iteration": under("k == bx"),
    "farther than the variable counts": under("cast(k, int64) * int64(16) < cast(high, int64) * int64(1048576)"),
    "a part that is tested": under("k <= bx + 2 and k % 2 == 0"),
    "by the name of a place": "at: int32 = k * 16\n" + under("at <= bx * 16"),
    "passed over": left_by("continue", "k > bx + 1 or k < bx - 1"),
    "left": left_by("break", "k * 16 > bx * 16 + 20"),
}
KEPT = {
    "left where it holds again": left_by("break", "k < bx"),
    "left where something else is tested": left_by("break", "k % 3 == 2"),
    "data of the iteration": under("lens[k % 4] > 17"),
    "an even iteration": under("k % 2 == 0"),
    "a power": under("k * k <= bx + 4"),
    "a number of int64 that a sum may leave": under("cast(k, int64) < far + int64(1)"),
    "with another side": under("k <= bx") + "\nelse:\n    fill(total[0:+1, :], 2.0)",
}
LOOPS = {"stages": "pipelined((N + 15) // 16, stages=2)", "serial": "serial((N + 15) // 16)", "from 1": "serial(1, (N + 15) // 16)"}


def guarded(guard: str, loop: str = "stages") -> Kernel:
    text = textwrap.dedent(KERNEL).strip("\n").replace("{loop}", LOOPS[loop]).replace("{guard}", textwrap.indent(guard, " " * 12))
    kernel = parse_kernel(f"# tile-ir 1.0\n\n\n{text}\n")
    verify(kernel)
    return kernel


def arguments(size: int, low: int, high: int) -> list[Any]:
    source = np.random.default_rng(size)
    lens = np.asarray([0, 17, size, -33], np.int32)
    return [source.integers(-2, 3, (size, 16)).astype(np.float16), lens, low, high, 2, np.zeros((4, 16, 16), np.float32)]


def assert_same_bits(kernel: Kernel, planned: PlannedKernel, schedules: int) -> None:
    for size, low, high in ((16, 0, 1), (47, 1, 2), (100, -4, 90), (100, 5, 2), (100, 3, -65535), (0, 0, 3)):
        wanted, legal = arguments(size, low, high), arguments(size, low, high)
        interpret(kernel, wanted)
        if (reference := reference_kernel(planned)) is not kernel:
            interpret(reference, legal)
            assert wanted[-1].tobytes() == legal[-1].tobytes(), (size, low, high)
        for seed in range(1 if has_one_order(planned) else schedules):
            found = arguments(size, low, high)
            run(planned, found, schedule_seed=seed)
            assert found[-1].tobytes() == wanted[-1].tobytes(), (size, low, high, seed)


def is_told(planned: PlannedKernel) -> bool:
    return any(d.question == "which iterations of k run?" for d in planned.launches[0].decisions)


@pytest.mark.parametrize("machine", TEST_TARGETS)
@pytest.mark.parametrize("name", CUT)
def test_iterations_that_run_nothing_are_left_out(name: str, machine: str) -> None:
    kernel = guarded(CUT[name])
    planned = plan(kernel, TEST_TARGETS[machine])
    assert is_told(planned)
    loops = [node for node in walk(planned.launches[0].launch) if isinstance(node, For)]
    assert any(isinstance(node, (If, Break, Continue)) for loop in loops for node in walk(loop)) is ("tested" in name)
    assert check(planned) == ()
    assert_same_bits(kernel, planned, 2)


@pytest.mark.parametrize("loop", ["serial", "from 1"])
@pytest.mark.parametrize("name", CUT)
def test_loops_of_every_kind(name: str, loop: str) -> None:
    kernel = guarded(CUT[name], loop)
    planned = plan(kernel, TEST_TARGETS["lanes_async"])
    assert is_told(planned)
    assert_same_bits(kernel, planned, 1)


@pytest.mark.parametrize("name", KEPT)
def test_other_guards_are_tested_in_every_iteration(name: str) -> None:
    kernel = guarded(KEPT[name])
    planned = plan(kernel, TEST_TARGETS["lanes_async"])
    assert not is_told(planned)
    assert_same_bits(kernel, planned, 1)


def test_what_stood_under_a_condition_is_copied_ahead() -> None:
    plain, cut = (plan(guarded(guard), TEST_TARGETS["lanes_async"]).launches[0] for guard in (BODY.strip(), CUT["left"]))
    assert [role.name for role in cut.roles] == [role.name for role in plain.roles]
    assert len(cut.roles) > 1
    assert [channel.depth for channel in cut.channels] == [channel.depth for channel in plain.channels]


def test_products_of_a_guarded_loop_are_merged_where_one_role_runs_in_order() -> None:
    kernel = parse_kernel("""# tile-ir 1.0


def triangle(A: tensor((64, 64), float32), B: tensor((64, 64), float32), C: tensor((64, 64), float32)):
    with launch(4) as (bx,):
        a = alloc((16, 16), float32, "shared")
        b = alloc((16, 64), float32, "shared")
        c = alloc((16, 64), float32, "fragment")
        fill(c[:, :], 0.0)
        for k in pipelined(4, stages=2):
            if k <= bx:
                copy(A[bx * 16:+16, k * 16:+16], a[:, :])
                copy(B[k * 16:+16, :], b[:, :])
                gemm(a[:, :], b[:, :], c[:, :], clear=False)
        copy(c[:, :], C[bx * 16:+16, :])
""")
    planned = plan(kernel, TEST_TARGETS["scalar_vector_cpu"])
    assert any(choice.is_merged for choice in planned.launches[0].choices)
    assert check(planned) == ()
