"""Sums in parts: what SplitSums makes of kernels, exact on every machine and under every schedule, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.diagnostics import CompileError
from zellige.driver import dump
from zellige.generate.comparison import with_stages
from zellige.interp import interpret
from zellige.ir.expr import Binary, Const
from zellige.ir.parser import parse_kernel
from zellige.ir.stmt import Bind, Fill, For, Kernel, TensorParam
from zellige.ir.traverse import rebuilt, rewrite
from zellige.ir.verify import check as verify
from zellige.options import CompileOptions
from zellige.plan.check import Limits, check
from zellige.plan.interpret import has_one_order, reference_kernel, run
from zellige.plan.invented_machines import TEST_TARGETS
from zellige.plan.planner import plan
from zellige.plan.printer import print_plan
from zellige.plan.report import as_dictionary
from zellige.plan.split_sums import QUESTION, SplitSums, splits_of, sum_of

SCHEDULES = 20
SIZES = (20, 70, 100)


def product(sizes: tuple[Any, Any, Any] = SIZES, dtype: str = "float32", stages: int = 2) -> Any:
    m, n, k = sizes
    wide = "int32" if dtype == "int8" else "float32"

    @T.prim_func
    def gemm(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), wide)):
        with T.Kernel(T.ceildiv(n, 32), T.ceildiv(m, 16), threads=128) as (bx, by):
            a = T.alloc_shared((16, 16), dtype)
            b = T.alloc_shared((16, 32), dtype)
            c = T.alloc_fragment((16, 32), wide)
            T.clear(c)
            for s in T.Pipelined(T.ceildiv(k, 16), num_stages=stages):
                T.copy(A[by * 16, s * 16], a)
                T.copy(B[s * 16, bx * 32], b)
                T.gemm(a, b, c)
            for i, j in T.Parallel(16, 32):
                c[i, j] = c[i, j] * 2
            T.copy(c, C[by * 16, bx * 32])

    return gemm


def arrays(dtype: Any = np.float32, *, is_whole: bool = True, sizes: tuple[int, int, int] = SIZES) -> list[Any]:
    m, n, k = sizes
    choose = np.random.default_rng(3)
    numbers = choose.integers if is_whole else choose.uniform
    a, b = (numbers(-3, 4, shape).astype(dtype) for shape in ((m, k), (k, n)))  # type: ignore[operator]
    return [a, b, np.zeros((m, n), np.int32 if dtype is np.int8 else np.float32)]


def interpreted(kernel: Kernel, given: list[Any]) -> Any:
    spaces = [None for p in kernel.params if isinstance(p, TensorParam) and p.role == "workspace"]
    interpret(kernel, [*given, *spaces])
    return given[2]


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
@pytest.mark.parametrize("parts", [2, 3, 7, 16])
def test_parts_give_the_sum(parts: int, dtype: Any) -> None:
    """As many parts as steps, more (some have none), and a last one that is shorter; whole numbers have one sum in every order."""
    kernel = product(dtype=np.dtype(dtype).name).kernel
    made = SplitSums(parts=parts)(kernel)
    verify(made)
    assert len(made.launches) == 2 and made.params[-1].role == "workspace"  # type: ignore[union-attr]
    assert [int(extent.value) for extent in made.launches[0].grid] == [3, 2, parts]  # type: ignore[union-attr]
    a, b, _ = arrays(dtype)
    found = interpreted(made, arrays(dtype))
    np.testing.assert_array_equal(found, interpreted(kernel, arrays(dtype)))
    np.testing.assert_array_equal(found, 2 * (a.astype(np.int64) @ b.astype(np.int64)))


@pytest.mark.parametrize("target", TEST_TARGETS)
def test_every_machine_and_schedule_gives_the_same_bits(target: str) -> None:
    made = SplitSums(parts=3)(product(stages=3).kernel)
    planned = plan(made, TEST_TARGETS[target])
    assert list(check(planned, limits=Limits.of(TEST_TARGETS[target]))) == []
    wanted = arrays(is_whole=False)
    interpret(reference_kernel(planned), [*wanted, None])
    for seed in range(1 if has_one_order(planned) else SCHEDULES):
        found = arrays(is_whole=False)
        run(planned, [*found, None], schedule_seed=seed)
        assert found[2].tobytes() == wanted[2].tobytes()


@pytest.mark.parametrize("target", ["lanes_async", "scalar_vector_cpu"])
def test_stages_change_no_bit_and_parts_may(target: str) -> None:
    """Where the parts begin follows from the steps alone; the order of the terms is the reason why they are asked for."""
    bits: dict[int, set[bytes]] = {}
    for parts in (2, 5):
        for stages in range(4):
            made = with_stages(SplitSums(parts=parts)(product().kernel), stages)
            found = arrays(is_whole=False)
            run(plan(made, TEST_TARGETS[target]), [*found, None], schedule_seed=stages)
            bits.setdefault(parts, set()).add(found[2].tobytes())
    assert [len(found) for found in bits.values()] == [1, 1] and bits[2] != bits[5]


def test_the_plan_has_the_parts_and_the_bytes() -> None:
    made = SplitSums(parts=4)(product().kernel)
    planned = plan(made, TEST_TARGETS["scalar_vector_cpu"])
    first, second = planned.launches
    assert (first.order.splits, first.order.workspace_bytes) == (4, 4 * 3 * 2 * 16 * 32 * 4)
    assert (second.order.splits, second.order.workspace_bytes) == (1, 0)
    assert "4 splits of the sum, 49152 bytes of workspace" in print_plan(planned)
    assert as_dictionary(planned)["launches"][0]["order"]["splits"] == 4
    (decision,) = [d for d in first.decisions if d.question == QUESTION]
    assert decision.chosen == "into 4 parts, 49152 bytes of workspace" and decision.rejected[0][0] == "one sum a block"
    assert splits_of(made, made.launches[1]) == (1, 0)


@pytest.mark.parametrize(("dtype", "why"), [("float32", "added in another order"), ("int8", "added by a second launch")])
def test_few_tiles_of_many_steps_are_told(dtype: str, why: str) -> None:
    """A grid that leaves most of a machine without work: how many parts it could have, and how to ask for them."""
    launches = plan(product((16, 64, 1024), dtype).kernel, TEST_TARGETS["lanes_async"]).launches
    (decision,) = [d for d in launches[0].decisions if d.question == QUESTION]
    assert decision.chosen == "no" and why in decision.because and "jit(schedule=zl.SplitSums(parts=16))" in decision.because
    assert decision.rejected[0][0] == f"16 parts, {16 * 2 * 16 * 32 * 4} bytes of workspace"
    assert launches[0].order.splits == 1
    for kernel, machine in ((product((16, 64, 64)).kernel, "lanes_async"), (product((512, 512, 1024)).kernel, "queues_cube")):
        assert not [d for d in plan(kernel, TEST_TARGETS[machine]).launches[0].decisions if d.question == QUESTION]


# ---- planted faults ---------------------------------------------------------------------------------------------------------


def in_launch(number: int, visit: Callable[[Any], Any]) -> Callable[[Kernel], Kernel]:
    def plant(kernel: Kernel) -> Kernel:
        return rebuilt(kernel, launches=tuple(rewrite(one, visit) if at == number else one for at, one in enumerate(kernel.launches)))

    return plant


def shorter_parts(node: Any) -> Any:
    is_length = isinstance(node, Bind) and node.var.name == "steps"
    return rebuilt(node, value=Binary(op="sub", left=node.value, right=Const(value=1, dtype=node.value.dtype))) if is_length else node


FAULTS: dict[str, Callable[[Kernel], Kernel]] = {
    "steps between two parts are left": in_launch(0, shorter_parts),
    "the last part goes on to the next one's steps": in_launch(
        0, lambda n: rebuilt(n, stop=n.stop.left) if isinstance(n, For) and n.var.name == "s" else n  # type: ignore[attr-defined]
    ),
    "a part does not begin with zeros": in_launch(
        0, lambda n: rebuilt(n, value=Const(value=1.0, dtype=n.value.dtype)) if isinstance(n, Fill) else n
    ),
    "the second part is not added": in_launch(
        1, lambda n: rebuilt(n, start=Const(value=2, dtype=n.start.dtype)) if isinstance(n, For) and n.var.name == "part" else n
    ),
    "the last part is not added": in_launch(
        1, lambda n: rebuilt(n, stop=Const(value=2, dtype=n.stop.dtype)) if isinstance(n, For) and n.var.name == "part" else n
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_shows(fault: str) -> None:
    made = SplitSums(parts=3)(product().kernel)
    planned = plan(FAULTS[fault](made), TEST_TARGETS["lanes_async"])
    found = arrays()
    run(planned, [*found, None])
    assert not np.array_equal(found[2], interpreted(made, arrays()))


# ---- through jit ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["interp", "cpu", "cuda:sm_80,simulate"])
def test_a_schedule_of_jit(target: str) -> None:
    """Results are those of the caller, the workspace is the runtime's; sizes may be known at the call only."""
    compiled = zl.compile(product(), target=target, schedule=zl.SplitSums(parts=4))
    given = arrays()
    compiled(*given)
    np.testing.assert_array_equal(given[2], 2 * (given[0] @ given[1]))
    returned = zl.compile(product(), out_idx=[-1], target=target, schedule=zl.SplitSums(parts=4))(*given[:2])
    np.testing.assert_array_equal(returned, given[2])
    m, n, k = (T.dynamic(name) for name in "mnk")
    at_run_time = zl.compile(product((m, n, k)), target=target, schedule=zl.SplitSums(parts=3))
    for sizes in (SIZES, (33, 40, 17), (16, 32, 300)):
        given = arrays(sizes=sizes)
        at_run_time(*given)
        np.testing.assert_array_equal(given[2], 2 * (given[0] @ given[1]))


# ---- what is refused --------------------------------------------------------------------------------------------------------

HEAD = """# tile-ir 1.0


def k(A: tensor((64, 64), float32), B: tensor((64, 64), float32), C: tensor((64, 64), float32)):
    with launch(4, 4) as (bx, by):
        a = alloc((16, 16), float32, "shared")
        b = alloc((16, 16), float32, "shared")
        c = alloc((16, 16), float32, "fragment")
"""
CLEAR = "        fill(c[:, :], 0.0)\n"
LOOP = """        for k in pipelined(4, stages=2):
            copy(A[by * 16:+16, k * 16:+16], a[:, :])
            copy(B[k * 16:+16, bx * 16:+16], b[:, :])
            gemm(a[:, :], b[:, :], c[:, :], clear=False)
"""
STORE = "        copy(c[:, :], C[by * 16:+16, bx * 16:+16])\n"

REFUSED: dict[str, tuple[str, str]] = {
    "no products": (HEAD + CLEAR + STORE, "it has no loop of products"),
    "two loops": (HEAD + CLEAR + LOOP + LOOP.replace("k", "l").replace("pipelined(4, stages=2)", "serial(4)") + STORE, "it has 2 loops"),
    "a loop from 1": (HEAD + CLEAR + LOOP.replace("pipelined(4", "pipelined(1, 4") + STORE, "does not count from 0"),
    "a product that clears": (HEAD + CLEAR + LOOP.replace("clear=False", "clear=k == 0") + STORE, "a product of the loop clears c"),
    "no zeros": (HEAD + LOOP + STORE, "c is not filled with zeros"),
    "ones": (HEAD + CLEAR.replace("0.0", "1.0") + LOOP + STORE, "c begins with something else than zeros"),
    "a step that scales": (
        HEAD + CLEAR + LOOP + "            for i, j in parallel(16, 16):\n                c[i, j] = c[i, j] * 0.5\n" + STORE,
        "the loop does more with c than add products",
    ),
    "a tile that stays": (
        HEAD + CLEAR + LOOP + "            copy(a[:, :], b[:, :])\n" + STORE + "        copy(b[:, :], C[0:+16, 0:+16])\n",
        "what follows needs what the last step left in b",
    ),
    "steps that need each other": (
        HEAD + CLEAR + LOOP.replace("            copy(A", "            copy(a[:, :], b[:, :])\n            copy(A") + STORE,
        "a step needs what the step before left in a",
    ),
    "a step that stores": (HEAD + CLEAR + LOOP + "            copy(a[:, :], C[0:+16, 0:+16])\n" + STORE, "a step writes C"),
    "a store before": (HEAD + CLEAR + "        fill(C[0:+16, 0:+16], 0.0)\n" + LOOP + STORE, "what stands before the loop writes C"),
    "atomics": (HEAD + CLEAR + LOOP + '        atomic("add", C[0, 0], 1.0)\n', "every part of a block would have its atomic operations"),
    "three dimensions": ((HEAD + CLEAR + LOOP + STORE).replace("(4, 4) as (bx, by)", "(4, 4, 2) as (bx, by, bz)"), "three dimensions"),
}  # fmt: skip


@pytest.mark.parametrize("form", REFUSED)
def test_another_form_is_refused(form: str) -> None:
    text, words = REFUSED[form]
    kernel = parse_kernel(text)
    verify(kernel)
    found = sum_of(kernel, kernel.launches[0])
    assert isinstance(found, str) and words in found
    with pytest.raises(CompileError, match=r"E304.*the steps of this launch's sum cannot be shared") as raised:
        SplitSums(parts=2)(kernel)
    assert words in str(raised.value) and raised.value.diagnostics[0].hint


def test_the_users_line_is_named() -> None:
    @T.prim_func
    def copy(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            T.copy(A, B)

    with pytest.raises(CompileError, match="E304") as raised:
        zl.compile(copy, target="cpu", schedule=zl.SplitSums(parts=2))
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.span is not None and diagnostic.span.file == __file__


@pytest.mark.parametrize("parts", [0, 1, 65, 2.0, True, "4"])
def test_a_wrong_number_of_parts(parts: Any) -> None:
    with pytest.raises(CompileError, match=r"E245.*parts of a sum") as raised:
        SplitSums(parts=parts)
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.span is not None and diagnostic.span.file == __file__


def test_where_nobody_can_change_parameters_any_more_it_is_said_how() -> None:
    """The sums are not to blame: they were given where calls are laid out already."""
    stage = CompileOptions(passes=(("pipeline", SplitSums(parts=2)),))
    for options in (stage, CompileOptions(schedule=SplitSums(parts=2))):
        with pytest.raises(CompileError, match="give it as jit\\(schedule=") as caught:
            dump(product().kernel, "cpu", "legal", options)
        assert caught.value.code == "E712" and "sums in 2 parts" in str(caught.value)
    with pytest.raises(CompileError, match="E712"):
        zl.compile(product(), target="cpu", passes=[("pipeline", SplitSums(parts=2))])
