"""Stores that end while the block goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from zellige.interp import interpret
from zellige.ir.parser import parse_kernel
from zellige.ir.stmt import Copy, For
from zellige.ir.traverse import rebuilt, rewrite, walk
from zellige.ir.verify import check as verify
from zellige.plan.check import Limits, check
from zellige.plan.execution.slots import ChannelState
from zellige.plan.interpret import PlanFault, reference_kernel, run
from zellige.plan.invented_machines import TEST_TARGETS
from zellige.plan.nodes import Issue, PlannedKernel, Wait
from zellige.plan.planner import plan
from zellige.plugin.contract import Space

PERSISTENT = """# tile-ir 1.0


@sizes(K=int32)
def k(A: tensor((256, K), float16), B: tensor((K, 64), float16), C: tensor((256, 64), float16), D: tensor((256, 64), float16)):
    with launch(2) as (bx,):
        a = alloc((64, 32), float16, "shared")
        b = alloc((32, 64), float16, "shared")
        c = alloc((64, 64), float32, "fragment")
        s = alloc((64, 64), float16, "shared")
        for t in serial(2):
            fill(c[:, :], 0.0)
            for k in pipelined((K + 31) // 32, stages=2):
                copy(A[bx * 128 + t * 64:+64, k * 32:+32], a[:, :])
                copy(B[k * 32:+32, :], b[:, :])
                gemm(a[:, :], b[:, :], c[:, :], clear=False)
            copy(c[:, :], s[:, :])
            copy(s[:, :], C[bx * 128 + t * 64:+64, :])
"""

MACHINES = ("lanes_async", "local_only")


def planned(text: str, machine: str) -> PlannedKernel:
    kernel = parse_kernel(text)
    verify(kernel)
    made = plan(kernel, TEST_TARGETS[machine])
    assert check(made, limits=Limits.of(TEST_TARGETS[machine]), samples=2) == ()
    return made


def is_store(node: Any) -> bool:
    return isinstance(node, Issue) and isinstance(node.operation, Copy) and node.operation.dst.buffer.name == "C"


def store_of(made: PlannedKernel) -> Issue | None:
    roles = made.launches[0].roles
    return next((node for role in roles for s in role.body for node in walk(s) if is_store(node)), None)


def arguments(size: int) -> list[Any]:
    generator = np.random.default_rng(size)
    a, b = (generator.integers(-3, 4, shape).astype(np.float16) for shape in ((256, size), (size, 64)))
    return [a, b, np.zeros((256, 64), np.float16), np.zeros((256, 64), np.float16)]


def is_right(made: PlannedKernel, sizes: tuple[int, ...] = (40,)) -> bool:
    for size in sizes:
        wanted = arguments(size)
        interpret(reference_kernel(made), wanted)
        for seed in range(12):
            found = arguments(size)
            try:
                run(made, found, schedule_seed=seed)
            except PlanFault:
                return False
            if any(one.tobytes() != other.tobytes() for one, other in zip(wanted, found)):
                return False
    return True


@pytest.mark.parametrize("machine", MACHINES)
def test_a_store_runs_beside_the_next_tiles_product(machine: str) -> None:
    made = planned(PERSISTENT, machine)
    store = store_of(made)
    assert store is not None
    role = next(r for r in made.launches[0].roles if any(node is store for s in r.body for node in walk(s)))
    loop = next(s for s in role.body if isinstance(s, For) and any(inner is store for inner in s.body))
    kinds = ["store" if s is store else "wait" if isinstance(s, Wait) and s.token is store.token else "" for s in loop.body]
    wait = kinds.index("wait")
    assert any(isinstance(s, For) for s in loop.body[:wait])  # the products of the next tile come first
    filling = loop.body[wait + 1]
    assert isinstance(filling, Copy) and filling.dst.buffer.name == "s"
    after = role.body[role.body.index(loop) + 1]
    assert isinstance(after, Wait) and after.token is store.token and after.leave_in_flight == 0
    told = next(d for d in made.launches[0].decisions if "the store of s" in d.question)
    assert told.chosen == "before its tile is written again, and at the end of the loop"
    assert is_right(made)


def test_the_tile_of_a_store_shares_its_bytes_with_nobody() -> None:
    made = planned(PERSISTENT, "local_only")
    (own,) = (p for p in made.launches[0].placements if p.buffer.name == "s")
    others = [p for p in made.launches[0].placements if p is not own]
    assert all(p.offset + p.bytes * p.slots <= own.offset or own.offset + own.bytes <= p.offset for p in others)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("which", ["inside", "after"])
def test_each_wait_is_needed(which: str, machine: str) -> None:
    made = planned(PERSISTENT, machine)
    store = store_of(made)
    assert store is not None
    launch = made.launches[0]
    waits = [n for r in launch.roles for s in r.body for n in walk(s) if isinstance(n, Wait) and n.token is store.token]
    assert len(waits) == 2
    dropped = waits[0 if which == "inside" else 1]
    roles = tuple(rewrite(role, lambda node: () if node is dropped else node) for role in launch.roles)
    wrong = rebuilt(made, launches=(rebuilt(launch, roles=roles),))
    assert 6 in {problem.check for problem in check(wrong, samples=2)}
    assert not is_right(wrong)


STORE = "            copy(s[:, :], C[bx * 128 + t * 64:+64, :])\n"

AT_ONCE = {
    "read again": (STORE, STORE + "            copy(C[bx * 128 + t * 64:+64, :], D[bx * 128 + t * 64:+64, :])\n", "C is used elsewhere"),
    "written again": (STORE, STORE + "            fill(s[:, :], float16(0.0))\n", "s is written again after it"),
    "filled in parts": (
        "            copy(c[:, :], s[:, :])\n",
        "            copy(c[0:+32, :], s[0:+32, :])\n            copy(c[32:+32, :], s[32:+32, :])\n",
        "s keeps something from one iteration",
    ),
    "in a branch": (STORE, "            if t > 0:\n    " + STORE, "s is filled outside of the branch or loop that stores it"),
}


@pytest.mark.parametrize("name", AT_ONCE)
def test_other_stores_are_waited_for_at_once(name: str) -> None:
    old, new, reason = AT_ONCE[name]
    text = PERSISTENT.replace(old, new)
    for machine in MACHINES:
        made = planned(text, machine)
        assert store_of(made) is None
        told = next(d for d in made.launches[0].decisions if "the store of s" in d.question)
        assert told.chosen == "at once" and reason in told.because
        assert is_right(made)


def test_a_store_outside_of_loops_is_waited_for_at_once() -> None:
    text = PERSISTENT.replace("        for t in serial(2):\n", "").replace("t * 64", "64").replace("\n    " + " " * 8, "\n" + " " * 8)
    made = planned(text, "lanes_async")
    assert store_of(made) is None
    assert "it belongs to no loop" in next(d for d in made.launches[0].decisions if "the store of s" in d.question).because


def test_a_store_is_waited_for_where_memory_is_short() -> None:
    """What fits when tiles share bytes must fit, and with as many versions."""
    kernel = parse_kernel(PERSISTENT)
    roomy = plan(kernel, TEST_TARGETS["local_only"])
    needed = max(p.offset + p.bytes * p.slots for p in roomy.launches[0].placements)
    spaces = (Space(name="global", role="global", alignment=64), Space(name="local", role="local", bytes=needed - 64))
    made = plan(kernel, replace(TEST_TARGETS["local_only"], spaces=spaces))
    assert store_of(roomy) is not None
    assert store_of(made) is None
    assert check(made, samples=2) == ()
    told = [d for d in made.launches[0].decisions if "the store of s" in d.question][-1]
    assert told.chosen == "at once" and "too small" in told.because


@pytest.mark.parametrize("machine", ["lanes_async", "queues_cube"])
def test_copies_run_ahead_across_tiles(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The role that copies goes on to the next tile while the last slots of this one are still being read: its loops are its own, and its
    slots are counted over all of them."""
    steps = 5
    events: list[tuple[str, str, int]] = []
    acquire, give_back = ChannelState.acquire, ChannelState.give_back

    def acquired(state: ChannelState, role: str) -> int:
        number = acquire(state, role)
        events.append((state.channel.name, "acquire", number))
        return number

    def released(state: ChannelState, role: str) -> int:
        number = give_back(state, role)
        events.append((state.channel.name, "release", number))
        return number

    monkeypatch.setattr(ChannelState, "acquire", acquired)
    monkeypatch.setattr(ChannelState, "give_back", released)
    made = planned(PERSISTENT, machine)
    events.clear()
    run(made, arguments(32 * steps), strategy="producers first")
    (copied,) = {c.name for c in made.launches[0].channels if "b" in {b.name for b in c.buffers}}
    mine = [event[1:] for event in events if event[0] == copied]
    next_tile, last_of_this = mine.index(("acquire", steps)), mine.index(("release", steps - 1))
    assert next_tile < last_of_this
