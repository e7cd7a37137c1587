"""What a choice promises (operands packed from their tensors, fills and stores done by the product's steps, results nobody reads): the
interpreter of plans relies on it as a backend does, so that a promise the kernel does not keep is seen."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from zellige.interp import interpret
from zellige.ir.parser import parse_kernel
from zellige.ir.stmt import Copy, Fill, Gemm, Kernel
from zellige.ir.verify import check as verify
from zellige.plan.check import check
from zellige.plan.facts import statements_in
from zellige.plan.interpret import reference_kernel, run
from zellige.plan.invented_machines import TEST_TARGETS
from zellige.plan.nodes import Choice, OperandLayout, PlannedKernel
from zellige.plan.planner import plan

SCHEDULES = 20

PRODUCT = """
@sizes(M=int32, K=int32)
def product(A: tensor((M, K), float32), B: tensor((K, 24), float32), C: tensor((M, 24), float32)):
    with launch(2, (M + 15) // 16) as (bx, by):
        a = alloc((16, 8), float32, "shared")
        b = alloc((8, 16), float32, "shared")
        c = alloc((16, 16), float32, "fragment")
        {before}
        fill(c[:, :], {start})
        {filled}
        for k in pipelined((K + 7) // 8, stages=2):
            copy(A[by * 16:+16, k * 8:+8], a[:, :])
            copy(B[k * 8:+8, bx * 16:+16], b[:, :])
            {between}
            gemm(a[:, :], b[:, :], c[:, :], clear=False)
            {within}
        {behind}
        copy(c[:, :], C[by * 16:+16, bx * 16:+16])
        {after}
"""


TWICE = PRODUCT.replace("gemm(", "for q in serial(2):\n                gemm(")
"""The product stands in a loop that runs in each step of k."""

OTHER = 'other = alloc((16, 16), float32, "fragment")\nfill(other[:, :], 0.0)'


def product(start: str = "0.0", *, rows: str = "M", text: str = PRODUCT, **parts: str) -> Kernel:
    text = text.replace("C: tensor((M,", f"C: tensor(({rows},")
    slots = dict.fromkeys(("before", "filled", "between", "within", "behind", "after"), "") | parts
    lines = []
    for line in text.strip("\n").splitlines():
        indent = line[: len(line) - len(line.lstrip())]
        made = line.replace("{start}", start)
        name = made.strip().strip("{}")
        if name in slots:
            made = textwrap.indent(slots[name], indent) if slots[name] else ""
        lines += [made] if made.strip() else []
    kernel = parse_kernel("# tile-ir 1.0\n\n\n" + "\n".join(lines) + "\n")
    verify(kernel)
    return kernel


def planned(kernel: Kernel) -> PlannedKernel:
    return plan(kernel, TEST_TARGETS["scalar_vector_cpu"])


def arguments(rows: int, depth: int, out: int | None = None) -> list[Any]:
    source = np.random.default_rng(rows)
    return [
        source.standard_normal((rows, depth)).astype(np.float32), source.standard_normal((depth, 24)).astype(np.float32),
        np.zeros((out or rows, 24), np.float32),
    ]  # fmt: skip


def chosen(plan: PlannedKernel) -> Choice:
    return next(c for c in plan.launches[0].choices if isinstance(c.operation, Gemm))


def differs(plan: PlannedKernel, rows: int, depth: int, out: int | None = None) -> bool:
    """Whether some schedule gives other bits than the kernel."""
    wanted = arguments(rows, depth, out)
    interpret(reference_kernel(plan), wanted)
    for seed in range(SCHEDULES):
        found = arguments(rows, depth, out)
        run(plan, found, schedule_seed=seed)
        if any(one.tobytes() != other.tobytes() for one, other in zip(wanted, found)):
            return True
    return False


@pytest.mark.parametrize(("rows", "depth"), [(16, 8), (33, 20), (40, 0), (5, 3), (48, 64)])
def test_all_promises_of_a_plain_product_hold(rows: int, depth: int) -> None:
    plan = planned(product())
    choice = chosen(plan)
    assert [at.is_direct for at in choice.layouts[:2]] == [True, True]
    assert choice.merge > 1 and choice.unread == ("m", "n") and choice.fill is not None and choice.out is not None
    assert not differs(plan, rows, depth)


def forged(plan: PlannedKernel, **changes: Any) -> PlannedKernel:
    launch = plan.launches[0]
    choice = chosen(plan)
    choices = tuple(replace(c, **changes) if c is choice else c for c in launch.choices)
    return replace(plan, launches=(replace(launch, choices=choices),))


def statement(plan: PlannedKernel, kind: type, at: int = 0) -> Any:
    return [s for s in statements_in(plan.launches[0].launch.body) if isinstance(s, kind)][at]


def direct(plan: PlannedKernel) -> PlannedKernel:
    gemm = chosen(plan).operation
    assert isinstance(gemm, Gemm)
    layouts = tuple(
        OperandLayout(operand=name, buffer=region.buffer, kind="rows", is_direct=True) for name, region in (("a", gemm.a), ("b", gemm.b))
    )
    return forged(plan, layouts=layouts)


def filled(plan: PlannedKernel) -> PlannedKernel:
    return forged(plan, fill=statement(plan, Fill))


def stored(plan: PlannedKernel) -> PlannedKernel:
    copies = [s for s in statements_in(plan.launches[0].launch.body) if isinstance(s, Copy) and s.src.buffer.name == "c"]
    return forged(plan, out=copies[0])


def unread(plan: PlannedKernel) -> PlannedKernel:
    return forged(direct(plan), unread=("m",))


FAULTS: dict[str, tuple[Kernel, Callable[[PlannedKernel], PlannedKernel]]] = {
    "direct, and the tensor is written before the product": (product(between="A[0, 0] = 1.0"), direct),
    "direct, and the tile is read again": (product(within="c[0, 0] = a[0, 0]"), direct),
    "direct, and the tile is changed": (product(between="a[0, 0] = 2.0"), direct),
    "filled by the first step with something else than zero": (product("1.0"), filled),
    "filled by the first step, and the result is changed before": (product(filled="c[0, 0] = 3.0"), filled),
    "filled by the first step, and the fill is of another tile": (product(before=OTHER, after="C[by * 16, bx * 16] = other[0, 0]"), filled),
    "stored by the last step of a loop that runs again": (product(text=TWICE), stored),
    "unread, and the result goes to a tensor with more rows": (product(rows="M + 3"), unread),
    "stored by the last step, and the result is changed behind the loop": (product(behind="c[0, 0] = c[0, 0] * 2.0"), stored),
    "stored by the last step, and the result is read again": (product(after="A[0, 0] = c[0, 0]"), stored),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_promise_that_does_not_hold_is_seen(name: str) -> None:
    kernel, forge = FAULTS[name]
    out = 36 if "more rows" in name else None
    plan = planned(kernel)
    assert check(plan) == ()
    assert not differs(plan, 33, 20, out)
    wrong = forge(plan)
    assert differs(wrong, 33, 20, out) or differs(wrong, 16, 16, out and 19)
    if not chosen(wrong).unread:  # who reads what lies beyond is seen only by running
        assert 15 in {problem.check for problem in check(wrong, level="static")}


ISSUED = """
def product(A: tensor((64, 64), float16), B: tensor((64, 64), float16), C: tensor((64, 64), float32)):
    with launch(1) as (bx,):
        a = alloc((64, 16), float16, "shared")
        b = alloc((16, 64), float16, "shared")
        c = alloc((64, 64), float32, "fragment")
        fill(c[:, :], 0.0)
        for k in pipelined(4, stages=2):
            copy(A[0:+64, k * 16:+16], a[:, :])
            copy(B[k * 16:+16, 0:+64], b[:, :])
            gemm(a[:, :], b[:, :], c[:, :], clear=False)
        copy(c[:, :], C[0:+64, 0:+64])
"""


@pytest.mark.parametrize("forge", [filled, stored, direct])
def test_an_issued_product_does_nothing_of_fills_and_copies(forge: Callable[[PlannedKernel], PlannedKernel]) -> None:
    plan_of_roles = plan(product(text=ISSUED), TEST_TARGETS["lanes_async"])
    assert check(plan_of_roles, level="static") == ()
    assert any("is issued" in problem.message for problem in check(forge(plan_of_roles), level="static"))
