"""Programs planned for five machines: no check finds anything, and every schedule gives the interpreter's bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from zellige.demo.kernels import causal_attention, pipelined_gemm, vector_addition
from zellige.diagnostics import CompileError
from zellige.generate.comparison import with_stages
from zellige.generate.kernels import generate_seeded
from zellige.generate.pipelines import pipeline_program
from zellige.generate.program import Program
from zellige.interp import interpret
from zellige.ir.parser import parse_kernel
from zellige.ir.stmt import If, Kernel, TensorParam, While
from zellige.ir.traverse import walk
from zellige.plan.check import Limits, check
from zellige.plan.execution.in_flight import Timing
from zellige.plan.execution.schedule import Schedule
from zellige.plan.interpret import has_one_order, reference_kernel, run
from zellige.plan.invented_machines import TEST_TARGETS
from zellige.plan.nodes import Wait
from zellige.plan.planner import plan

TARGETS = tuple(TEST_TARGETS)
SCHEDULES = 20


def tensors_after(arguments: list[Any], results: tuple[Any, ...]) -> list[bytes]:
    return [one.tobytes() for one in (*arguments, *results) if isinstance(one, np.ndarray)]


def interpreted(kernel: Kernel, program: Program) -> list[bytes]:
    arguments = program.copies()
    return tensors_after(arguments, interpret(kernel, arguments).results)


def problems(program: Program, kernel: Kernel, target: str, schedules: range, samples: int = 3) -> Iterator[str]:
    """What is wrong with the plan of ``kernel`` for a target; nothing where the planner refuses it with a code of its own. A plan with one
    order alone runs once, since every schedule is that one."""
    try:
        planned = plan(kernel, TEST_TARGETS[target])
    except CompileError as refused:
        if not refused.code.startswith("E3"):
            yield str(refused)
        return
    yield from map(str, check(planned, limits=Limits.of(TEST_TARGETS[target]), samples=samples))
    wanted = interpreted(reference_kernel(planned), program)
    for seed in schedules[:1] if has_one_order(planned) else schedules:
        arguments = program.copies()
        if tensors_after(arguments, run(planned, arguments, schedule_seed=seed).results) != wanted:
            yield f"schedule {seed} gives other bits"


def filled(kernel: Kernel) -> Program:
    """A program of a kernel with constant shapes on random numbers."""
    generator = np.random.default_rng(0)
    arguments = []
    for param in kernel.params:
        assert isinstance(param, TensorParam)
        shape = tuple(int(extent.value) for extent in param.buffer.shape)  # type: ignore[union-attr]
        arguments.append(generator.standard_normal(shape).astype(param.buffer.dtype.numpy))
    return Program(kernel=kernel, arguments=tuple(arguments))


EMPTY_BRANCH = """# tile-ir 1.0


def k(A: tensor((4,), float32)):
    with launch(1) as (bx,):
        tile = alloc((4,), float32, "shared")
        copy(A[:], tile[:])
        if A[0] == 0.0:
            pass
        copy(tile[:], A[:])
"""

DEMOS = {
    "vector_addition": lambda: vector_addition(100, block=32),
    "small_product": lambda: pipelined_gemm(70, 50, 90, block_M=32, block_N=32, block_K=16),
    "large_product": lambda: pipelined_gemm(130, 70, 200, block_M=64, block_N=64, block_K=32, stages=4),
    "one_iteration": lambda: pipelined_gemm(64, 32, 10, block_M=64, block_N=32, block_K=16),
    "empty_branch": lambda: SimpleNamespace(kernel=parse_kernel(EMPTY_BRANCH)),
    "attention": lambda: causal_attention(1, 1, 100, 16, block_M=64, block_N=32),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", DEMOS)
def test_a_kernel_as_an_author_writes_it(name: str, target: str) -> None:
    program = filled(DEMOS[name]().kernel)
    assert list(problems(program, program.kernel, target, range(SCHEDULES))) == []


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["large_product", "attention"])
def test_the_same_bits_for_every_number_of_stages(name: str, target: str) -> None:
    program = filled(DEMOS[name]().kernel)
    bits = set()
    for stages in range(5):
        kernel = with_stages(program.kernel, stages)
        assert list(problems(program, kernel, target, range(stages, SCHEDULES, 5))) == []
        bits.add(b"".join(interpreted(reference_kernel(plan(kernel, TEST_TARGETS[target])), program)))
    assert len(bits) == 1


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(12))
def test_pipelined_loops(seed: int, target: str) -> None:
    program = pipeline_program(seed)
    assert list(problems(program, program.kernel, target, range(SCHEDULES))) == []


generated = cache(generate_seeded)
"""Programs that several targets get."""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(24))
def test_generated_programs(seed: int, target: str) -> None:
    program = generated(seed)
    assert list(problems(program, with_stages(program.kernel, seed % 5), target, range(SCHEDULES))) == []


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("first", range(0, 400, 20))
def test_many_pipelined_loops(first: int, target: str) -> None:
    for seed in range(first, first + 20):
        program = pipeline_program(seed)
        for stages in (seed % 5, (seed + 2) % 5):
            found = list(problems(program, with_stages(program.kernel, stages), target, range(SCHEDULES), samples=6))
            assert found == [], f"seed {seed}, {stages} stages"


def test_the_value_of_a_fill_may_be_read_outside_its_tensor() -> None:
    """Seed 247 fills a variable with an element that its tensor may not have: no region is moved, so no choice promises to test it."""
    program = generate_seeded(247)
    assert list(problems(program, with_stages(program.kernel, 2), "queues_cube", range(2), samples=6)) == []


class _Undecided(Schedule):
    """A schedule whose choices are worth nothing: whoever asks for one fails."""

    def timing(self) -> Timing:
        raise AssertionError("a plan of one order asks when an operation happens")

    def choose(self, count: int) -> int:
        raise AssertionError("a plan of one order chooses what ends")

    def order(self, names: Sequence[str]) -> list[str]:
        assert len(names) == 1, "a plan of one order has several roles"
        return list(names)


def test_a_plan_of_one_order_never_asks_for_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """That such plans run once above leaves no schedule out; a plan that has choices does ask."""
    monkeypatch.setattr("zellige.plan.interpret.Schedule", _Undecided)
    with_one: Counter[str] = Counter()
    for seed in range(8):
        program = pipeline_program(seed)
        for target in TARGETS:
            planned = plan(program.kernel, TEST_TARGETS[target])
            if has_one_order(planned):
                with_one[target] += 1
                run(planned, program.copies())
    assert with_one["local_only"] and with_one["lanes_copies"] and not with_one["queues_cube"]
    kernel = DEMOS["large_product"]().kernel
    for target in ("lanes_async", "lanes_copies", "queues_cube"):
        planned = plan(kernel, TEST_TARGETS[target])
        assert not has_one_order(planned)
        with pytest.raises(AssertionError, match="a plan of one order"):
            run(planned, filled(kernel).copies())


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("first", range(0, 400, 20))
def test_many_generated_programs(first: int, target: str) -> None:
    for seed in range(first, first + 20):
        program = generate_seeded(seed)
        found = list(problems(program, with_stages(program.kernel, seed % 5), target, range(SCHEDULES), samples=6))
        assert found == [], f"seed {seed}"


LEAVING = """# tile-ir 1.0


def k(A: tensor((64, 16), float16), B: tensor((16, 16), float16), C: tensor((64, 16), float32), D: tensor((4,), int32), n: scalar(int32)):
    with launch(1) as (bx,):
        a = alloc((64, 16), float16, "shared")
        b = alloc((16, 16), float16, "shared")
        c = alloc((64, 16), float32, "fragment")
        copy(A[:, :], a[:, :])
        copy(B[:, :], b[:, :])
        fill(c[:, :], 0.0)
        i: mutable(int32) = 0
        while i < n:
            i = i + 1
            gemm(a[:, :], b[:, :], c[:, :], clear=False)
            if i % 2 == 0:
                {leave}
            for j in serial(4):
                if j == i:
                    break
                D[j] = i
        copy(c[:, :], C[:, :])
"""


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("leave", ["continue", "break", "return"])
def test_a_product_is_waited_for_before_its_body_may_be_left(leave: str, target: str) -> None:
    """Of a loop that decides while it runs how often it runs: the wait behind the branch would be passed over. A loop inside that is left
    by itself needs no wait."""
    kernel = parse_kernel(LEAVING.format(leave=leave))
    generator = np.random.default_rng(0)
    for n in range(4):
        a, b = (generator.integers(-2, 3, shape).astype(np.float16) for shape in ((64, 16), (16, 16)))
        program = Program(kernel=kernel, arguments=(a, b, np.zeros((64, 16), np.float32), np.zeros(4, np.int32), n))
        assert list(problems(program, kernel, target, range(SCHEDULES))) == []
    if target == "lanes_async":
        role = plan(kernel, TEST_TARGETS[target]).launches[0].roles[0]
        loop = next(node for node in walk(role) if isinstance(node, While))
        kinds = [type(s) for s in loop.body]
        assert kinds.count(Wait) == 1 and kinds.index(Wait) < kinds.index(If)
