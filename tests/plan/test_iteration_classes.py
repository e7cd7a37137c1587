"""Loops whose masks hold at every point of most iterations: split there, the same bits, and a wrong split is found."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from zellige.demo.kernels import causal_attention
from zellige.interp import interpret
from zellige.ir.expr import Binary, const
from zellige.ir.parser import parse_kernel
from zellige.ir.stmt import For, Kernel, Map
from zellige.ir.traverse import rebuilt, rewrite, walk
from zellige.ir.verify import check as verify
from zellige.plan.check import check
from zellige.plan.interpret import has_one_order, reference_kernel, run
from zellige.plan.invented_machines import TEST_TARGETS
from zellige.plan.nodes import PlannedKernel
from zellige.plan.planner import plan

MACHINES = tuple(name for name in TEST_TARGETS if name != "scalar_vector_cpu")

MASKED = """
@sizes(L=int32)
def masked(K: tensor((L, 8), float16), lens: tensor((4,), int32), O: tensor((4, 16, 16), float32)):
    with launch(4) as (bx,):
        tile = alloc((16, 8), float16, "shared")
        scores = alloc((16, 16), float32, "fragment")
        total = alloc((16, 16), float32, "fragment")
        fill(total[:, :], 0.0)
        own: int32 = lens[bx]
        for k in pipelined((L + 15) // 16, stages=2):
            copy(K[k * 16:+16, :], tile[:, :])
            fill(scores[:, :], 0.0)
            gemm(tile[:, :], tile[:, :], scores[:, :], transpose_b=True, clear=False)
            for i, j in parallel(16, 16):
                scores[i, j] = {value}
            for i, j in parallel(16, 16):
                total[i, j] = total[i, j] + scores[i, j]
        copy(total[:, :], O[bx, :, :])
"""

VALUES = {
    "causal": "scores[i, j] if k * 16 + j <= bx * 16 + i else 0.0",
    "causal, said the other way round": "0.0 if not (k * 16 + j < bx * 16 + i + 1) else scores[i, j]",
    "at the end": "scores[i, j] if k * 16 + j < L else 0.0",
    "both": "scores[i, j] if k * 16 + j <= bx * 16 + i and k * 16 + j < L else -1.0",
    "a window": "scores[i, j] if k * 16 + j <= bx * 16 + i and k * 16 + j > bx * 16 + i - 40 else 0.0",
    "a length that is loaded": "scores[i, j] if k * 16 + j < own else 0.0",
    "either": "0.0 if k * 16 + j > bx * 16 + i or k * 16 + j >= L else scores[i, j]",
    "a product of places": "scores[i, j] if k * j <= bx * 16 + i else 0.0",
    "every second place": "scores[i, j] if k * 32 + 2 * j <= bx * 16 + 3 * i else 0.0",
}
"""The mask of the scores; all of them have full iterations."""

UNSPLIT = {
    "data": "scores[i, j] if scores[i, j] < 3.0 else 0.0",
    "the point alone": "scores[i, j] if i >= j else 0.0",
    "an even iteration": "scores[i, j] if k % 2 == 0 else 0.0",
    "a power of places": "scores[i, j] if k * k * j <= bx * 16 + i else 0.0",
}


def masked(value: str) -> Kernel:
    kernel = parse_kernel("# tile-ir 1.0\n\n\n" + textwrap.dedent(MASKED).strip("\n").replace("{value}", value) + "\n")
    verify(kernel)
    return kernel


def arguments(size: int) -> list[Any]:
    source = np.random.default_rng(size)
    lens = np.asarray([0, 17, size, 33], np.int32)
    return [source.integers(-2, 3, (size, 8)).astype(np.float16), lens, np.zeros((4, 16, 16), np.float32)]


def assert_same_bits(kernel: Kernel, planned: PlannedKernel, size: int, schedules: int) -> None:
    """As the author's kernel and as the launch that was planned."""
    wanted, legal = arguments(size), arguments(size)
    interpret(kernel, wanted)
    if (reference := reference_kernel(planned)) is not kernel:
        interpret(reference, legal)
        assert wanted[2].tobytes() == legal[2].tobytes()
    for seed in range(1 if has_one_order(planned) else schedules):
        found = arguments(size)
        run(planned, found, schedule_seed=seed)
        assert found[2].tobytes() == wanted[2].tobytes(), f"size {size}, schedule {seed}"


KEPT_WHOLE = {("a product of places", "lanes_copies"), ("a product of places", "local_only")}
"""Where the loop is not split, which costs the tests of a mask and changes no bit."""


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", VALUES)
def test_masks_are_left_out_of_full_iterations(name: str, machine: str) -> None:
    kernel = masked(VALUES[name])
    planned = plan(kernel, TEST_TARGETS[machine])
    assert bool(planned.launches[0].resolved) is ((name, machine) not in KEPT_WHOLE)
    assert any(d.question == "is the mask tested?" for d in planned.launches[0].decisions) is bool(planned.launches[0].resolved)
    assert check(planned) == ()
    for size in (16, 47, 100):
        assert_same_bits(kernel, planned, size, 4)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_limit_that_the_loops_variable_cannot_hold_lies_before_or_behind_all_iterations(machine: str) -> None:
    """-65535 x 65536 is -2^32 + 65536: of its low 32 bits alone one would take the loop for full."""
    kernel = masked("scores[i, j] if cast(k * 16 + j, int64) < cast(own, int64) * int64(1048576) else 0.0")
    planned = plan(kernel, TEST_TARGETS[machine])
    assert planned.launches[0].resolved
    arrays, lens = arguments(100), np.asarray([-65535, 65535, 0, 1], np.int32)
    found, wanted = np.zeros_like(arrays[2]), np.zeros_like(arrays[2])
    interpret(kernel, [arrays[0], lens, wanted])
    run(planned, [arrays[0], lens, found], schedule_seed=1)
    assert found.tobytes() == wanted.tobytes()
    assert not found[0].any()
    assert found[1].any()


@pytest.mark.parametrize("name", UNSPLIT)
def test_other_masks_are_tested_everywhere(name: str) -> None:
    for machine in MACHINES:
        planned = plan(masked(UNSPLIT[name]), TEST_TARGETS[machine])
        assert planned.launches[0].resolved == ()
        assert check(planned, samples=2) == ()


def test_a_machine_that_runs_the_kernel_in_order_keeps_its_loops() -> None:
    planned = plan(masked(VALUES["causal"]), TEST_TARGETS["scalar_vector_cpu"])
    assert planned.launches[0].resolved == ()


def moved(planned: PlannedKernel, shift: int) -> PlannedKernel:
    """The plan with each full loop ``shift`` iterations longer, and the loop behind it as much shorter."""
    launch = planned.launches[0]
    full = {id(one.operation) for one in launch.resolved}

    def holds_full(loop: For) -> bool:
        return any(isinstance(node, Map) and id(node) in full for node in walk(loop))

    def visit(node: Any) -> Any:
        for name in getattr(type(node), "BODIES", ()) if not isinstance(node, Map) else ():
            body = list(getattr(node, name))
            for at, (one, after) in enumerate(zip(body, body[1:])):
                if isinstance(one, For) and isinstance(after, For) and one.var is after.var and holds_full(one):
                    middle = Binary(op="add", left=one.stop, right=const(shift, one.var.dtype))
                    body[at : at + 2] = [rebuilt(one, stop=middle), rebuilt(after, start=middle)]
                    node = rebuilt(node, **{name: tuple(body)})
        return node

    roles = tuple(rewrite(role, visit) for role in launch.roles)
    present = {id(n) for role in roles for n in walk(role)}
    loops = tuple(loop for loop in launch.full_loops if id(loop) in present)
    return replace(planned, launches=(replace(launch, roles=roles, full_loops=loops),))


@pytest.mark.parametrize("machine", MACHINES)
def test_a_split_that_comes_too_late_is_found(machine: str) -> None:
    kernel = causal_attention(1, 1, 160, 16, block_M=64, block_N=32).kernel
    planned = plan(kernel, TEST_TARGETS[machine])
    assert check(planned) == ()
    assert 16 in {problem.check for problem in check(moved(planned, 1))}
