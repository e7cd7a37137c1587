"""Many uses of one tile: few edges, from which all others follow."""

from __future__ import annotations

import itertools
import random
import textwrap

import pytest

from zellige.ir.parser import parse_kernel
from zellige.ir.stmt import For, Kernel
from zellige.ir.traverse import walk
from zellige.ir.verify import check
from zellige.plan import dependence
from zellige.plan.dependence import dependences
from zellige.plan.facts import LaunchFacts
from zellige.plan.pipeline import Schedule, why_not

STATEMENTS = (
    "fill(t[:, :], {k}.0)",
    "copy(t[:, :], u[:, :])",
    "copy(u[:, :], t[:, :])",
    "copy(X[:, :], t[:, :])",
    "copy(u[:, :], X[:, :])",
    "x = x + {k}",
    "t[0, x] = 1.0",
    "u[0, 0] = t[x, 0]",
)


def loop_of(lines: list[str]) -> tuple[LaunchFacts, For]:
    body = textwrap.indent("\n".join(lines), " " * 12)
    text = (
        "# tile-ir 1.0\n\n\ndef k(X: tensor((8, 8), float32)):\n    with launch(4) as (bx,):\n"
        '        t = alloc((8, 8), float32, "shared")\n        u = alloc((8, 8), float32, "shared")\n        x: mutable(int32) = 0\n'
        f"        for k in serial(10):\n{body}\n"
    )
    kernel: Kernel = parse_kernel(text)
    check(kernel)
    return LaunchFacts(kernel, kernel.launches[0]), next(n for n in walk(kernel.launches[0]) if isinstance(n, For))


def drawn(seed: int, length: int) -> list[str]:
    chosen = random.Random(seed)
    return [chosen.choice(STATEMENTS).format(k=k) for k in range(length)]


def all_and_few(monkeypatch: pytest.MonkeyPatch, facts: LaunchFacts, loop: For, *, is_carried: bool) -> tuple[set, set]:
    found = []
    for most in (10**9, 0):
        monkeypatch.setattr(dependence, "MOST_COMPARED", most)
        found.append({(d.source, d.sink, d.distance, d.subject.name) for d in dependences(facts, loop.body, loop if is_carried else None)})
    return found[0], found[1]


@pytest.mark.parametrize("is_carried", [True, False])
@pytest.mark.parametrize("seed", range(15))
def test_every_edge_follows_from_the_few(monkeypatch: pytest.MonkeyPatch, seed: int, is_carried: bool) -> None:
    facts, loop = loop_of(drawn(seed, 9))
    every, few = all_and_few(monkeypatch, facts, loop, is_carried=is_carried)
    for subject in {name for *_, name in every}:
        least = {(source, sink): distance for source, sink, distance, name in sorted(few, key=lambda e: -e[2]) if name == subject}
        for middle, source, sink in itertools.product(range(9), repeat=3):
            if (source, middle) in least and (middle, sink) in least:
                distance = least[source, middle] + least[middle, sink]
                least[source, sink] = min(distance, least.get((source, sink), distance))
        for source, sink, distance, name in every:
            assert name != subject or least[source, sink] <= distance
    positions = {(source, sink, name) for source, sink, _, name in every}
    wholes = {e for e in few if e[3] == "x"}
    assert {(source, sink, name) for source, sink, _, name in wholes} <= positions, "none that is not one of all"


@pytest.mark.parametrize("seed", range(12))
def test_schedules_are_judged_alike(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    facts, loop = loop_of([line for line in drawn(seed, 12) if "x" not in line][:6] or ["fill(t[:, :], 0.0)"])
    chosen = random.Random(seed)
    length = len(loop.body)
    for _ in range(20):
        order = chosen.sample(range(length), length) if chosen.random() < 0.5 else list(range(length))
        schedule = Schedule(stage_of=tuple(chosen.randrange(2) for _ in range(length)), order_of=tuple(order))
        versions = chosen.choice(("", "t", "tu"))
        versioned = frozenset(b for b in facts.roots(loop) if b.name in versions)
        verdicts = []
        for most in (10**9, 0):
            monkeypatch.setattr(dependence, "MOST_COMPARED", most)
            verdicts.append(why_not(facts, loop, schedule, versioned, frozenset()) is None)
        assert verdicts[0] == verdicts[1]


def test_the_number_of_edges_grows_with_the_program() -> None:
    counts = []
    for length in (100, 200):
        facts, loop = loop_of([STATEMENTS[k % 3].format(k=k) for k in range(length)] + ["x = x + 1"] * length)
        counts.append(len(dependences(facts, loop.body, loop)))
    assert counts[1] <= 2 * counts[0] + 10


def test_uses_that_do_not_meet_are_compared_where_they_are_few() -> None:
    lines = [f"t[{k}, 0] = 1.0" for k in range(8)]
    facts, loop = loop_of(lines)
    assert {(d.source, d.sink) for d in dependences(facts, loop.body, loop)} == {(k, k) for k in range(8)}
