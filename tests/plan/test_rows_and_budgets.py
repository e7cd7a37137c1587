"""Consumers that share the rows of a block, and the registers that each role has."""

from __future__ import annotations

import textwrap
from dataclasses import replace

import pytest

from zellige.ir.parser import parse_kernel
from zellige.ir.traverse import rebuilt
from zellige.ir.verify import check as verify
from zellige.plan.check import Limits, check
from zellige.plan.invented_machines import LANES_ASYNC
from zellige.plan.nodes import Decision, PlannedKernel, PlannedLaunch
from zellige.plan.planner import plan
from zellige.plugin.contract import Capabilities, RegisterFile

KERNEL = """# tile-ir 1.0


def k(
    A: tensor(({m}, 1024), float16), B: tensor(({n}, 1024), float16), C: tensor(({m}, {n}), float32), S: tensor(({n},), float32),
    T: tensor(({m},), float32),
):
    with launch(1) as (bx,):
        a = alloc(({m}, 64), float16, "shared")
        b = alloc(({n}, 64), float16, "shared")
        c = alloc(({m}, {n}), float32, "fragment")
        r = alloc(({m},), float32, "fragment")
        s = alloc(({n},), float32, "fragment")
        h = alloc(({m}, 64), float16, "{space}")
        fill(c[:, :], 0.0)
        for k in pipelined(16, stages=3):
            copy(A[:, k * 64:+64], a[:, :])
            copy(B[:, k * 64:+64], b[:, :])
            gemm(a[:, :], b[:, :], c[:, :], clear=False, transpose_b=True)
{after}
        copy(c[:, :], C[:, :])
"""


def planned(
    after: str = "", *, m: int = 128, n: int = 64, space: str = "fragment", machine: Capabilities = LANES_ASYNC
) -> PlannedKernel:  # fmt: skip
    text = KERNEL.format(m=m, n=n, space=space, after=textwrap.indent(textwrap.dedent(after), " " * 8))
    kernel = parse_kernel(text)
    verify(kernel)
    made = plan(kernel, machine)
    assert check(made, limits=Limits.of(machine), samples=2) == ()
    return made


def launch_of(made: PlannedKernel) -> PlannedLaunch:
    return made.launches[0]


def consumers(made: PlannedKernel) -> int:
    return next(role.count for role in launch_of(made).roles if role.name == "consumer")


def decided(made: PlannedKernel, words: str) -> Decision:
    return next(d for d in launch_of(made).decisions if words in d.question)


BY_ROWS = {
    "nothing else": "",
    "a sum along each row": 'reduce("sum", c[:, :], r[:], axis=1)\ncopy(r[:], T[:])',
    "rows scaled": "for i, j in parallel(128, 64):\n    c[i, j] = c[i, j] * 2.0",
    "a row's sum used": 'reduce("max", c[:, :], r[:], axis=1)\nfor i, j in parallel(128, 64):\n    c[i, j] = c[i, j] - r[i]',
    "columns that each makes": (
        "for j in parallel(64):\n    s[j] = S[j] + 1.0\nfor i, j in parallel(128, 64):\n    c[i, j] = c[i, j] * s[j]"
    ),
    "rows added to a tensor": 'atomic_tile("add", c[:, :], C[:, :])',
}

ACROSS_ROWS = {
    "a sum over rows": ('reduce("sum", c[:, :], s[:], axis=0)\ncopy(s[:], S[:])', "s needs all rows of c"),
    "an operand on the right": (
        'e = alloc((128, 128), float32, "fragment")\ncopy(c[:, :], h[:, :])\ngemm(h[:, :], h[:, :], e[:, :], clear=True, transpose_b=True)',
        "h is made by the consumers and needed as a whole",
    ),
    "a product of columns": (
        'g = alloc((128, 128), float16, "fragment")\nfill(g[:, :], float16(1.0))\n'
        'e = alloc((128, 64), float32, "fragment")\ngemm(g[:, :], a[:, :], e[:, :], clear=True, transpose_a=True)',
        "the rows of g are the steps of a product",
    ),
    "rows moved": ("for i, j in parallel(127, 64):\n    c[i, j] = c[i + 1, j]", "a parallel loop does not keep to one row of c"),
    "a part of the rows": ("fill(c[0:+64, :], 0.0)", "some rows of c are used and others not"),
    "a whole tile of rows": ("for i, j in parallel(128, 64):\n    s[j] = c[i, j]", "s is made of rows and is not one of them"),
    "a count once a block": ('atomic("add", S[0], 1.0)', "a Atomic happens once a block"),
    "a whole tile stored": ("for j in parallel(64):\n    s[j] = 1.0\ncopy(s[:], S[:])", "s is stored once a block"),
    "a whole tile added": ('fill(s[:], 1.0)\natomic_tile("add", s[:], S[:])', "s is added once a block"),
    "control": ("if c[0, 0] > 0.0:\n    fill(r[:], 0.0)", "a loop, a branch or a scalar depends on c"),
}


@pytest.mark.parametrize("name", BY_ROWS)
def test_work_on_rows_is_shared(name: str) -> None:
    assert consumers(planned(BY_ROWS[name])) == 2


@pytest.mark.parametrize("name", ACROSS_ROWS)
def test_what_needs_other_rows_is_not(name: str) -> None:
    text, reason = ACROSS_ROWS[name]
    made = planned(text)
    assert consumers(made) == 1
    assert reason in decided(made, "several consumers share").because


def test_a_tile_that_each_would_write_must_be_private() -> None:
    after = "fill(h[:, :], float16(0.0))\nfor i, j in parallel(128, 64):\n    C[i, j] = cast(h[0, j], float32)"
    assert consumers(planned(after)) == 2
    assert decided(planned(after, space="shared"), "several consumers share").because == "h is shared and would be written by each"


def test_registers_are_divided_between_roles() -> None:
    made = planned(m=128, n=256)
    assert [(r.name, r.count, r.lanes, r.registers) for r in launch_of(made).roles] == [("producer", 1, 128, 24), ("consumer", 2, 128, 240)]
    assert decided(made, "how many registers").chosen == "24 in the producer, 240 in each consumer"
    made = planned(m=192, n=64)
    assert [(r.count, r.registers) for r in launch_of(made).roles] == [(1, 32), (3, 160)]
    made = planned(m=64, n=64)
    assert [(r.count, r.registers) for r in launch_of(made).roles] == [(1, 56), (1, 248)]


def test_tiles_that_do_not_fit_registers_are_told() -> None:
    small = replace(LANES_ASYNC, registers=RegisterFile(per_lane=128, per_block=32768, step=8))
    made = planned(m=128, n=256, machine=small)
    assert all(role.registers is None for role in launch_of(made).roles)
    assert "a lane and 28 are needed beside them, and a consumer can have 104" in decided(made, "how many registers").because


def test_a_block_has_no_more_lanes_than_the_target() -> None:
    assert [consumers(planned(m=m)) for m in (64, 128, 192, 256)] == [1, 2, 3, 2]
    assert consumers(planned(m=128, machine=replace(LANES_ASYNC, block_lanes=383))) == 1
    assert consumers(planned(m=192, machine=replace(LANES_ASYNC, block_lanes=384))) == 1  # two would have one and a half blocks each


def test_too_large_budgets_are_found() -> None:
    made = planned(n=128)
    launch = launch_of(made)
    limits = Limits.of(LANES_ASYNC)
    for registers, message in ((248, "together and there are 65536"), (256, "and one can have 255")):
        roles = tuple(replace(role, registers=registers) if role.name == "consumer" else role for role in launch.roles)
        wrong = rebuilt(made, launches=(rebuilt(launch, roles=roles),))
        found = check(wrong, limits=limits, level="static")
        assert {p.check for p in found} == {13}
        assert any(message in p.message for p in found)
    roles = tuple(replace(role, registers=64) for role in launch.roles)
    assert check(rebuilt(made, launches=(rebuilt(launch, roles=roles),)), limits=limits, level="static") == ()
    roles = tuple(replace(role, registers=56) for role in launch.roles)
    (problem,) = check(rebuilt(made, launches=(rebuilt(launch, roles=roles),)), limits=limits, level="static")
    assert problem.check == 13 and "role consumer keeps" in problem.message
