"""How many versions of tiles fit: what taking one away at a time leads to, found in a few steps however many the author asks for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import zellige.language as T
from zellige.diagnostics import CompileError
from zellige.ir.parser import parse_kernel
from zellige.plan import context
from zellige.plan.invented_machines import LANES_ASYNC, LANES_COPIES, TEST_TARGETS
from zellige.plan.nodes import PlannedLaunch
from zellige.plan.planner import plan


def two_loops(first: int, second: int, rows: int = 24) -> Any:
    """Two pipelined loops whose tiles have different sizes."""

    @T.prim_func
    def two_loops(A: T.Tensor((4096, 64), "float16"), B: T.Tensor((4096, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((rows, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            d = T.alloc_fragment((64, rows), "float32")
            T.clear(c)
            T.clear(d)
            for k in T.Pipelined(64, num_stages=first):
                T.copy(A[k * 64, 0], a)
                T.gemm(a, a, c)
                for l in T.Pipelined(4096 // rows, num_stages=second):
                    T.copy(B[l * rows, 0], b)
                    T.gemm(a, b, d, transpose_B=True)
            for i, j in T.Parallel(64, rows):
                c[i, j] += d[i, j]
            T.copy(c, C)

    return two_loops.kernel


def slots(launch: PlannedLaunch) -> list[str]:
    """What is said of versions and channels, and the versions of each tile."""
    return [f"{d.question} {d.chosen}" for d in launch.decisions] + [f"{p.buffer.name} {p.slots}" for p in launch.placements]


def one_at_a_time(depths: Any, _excess: Any, inside: Any) -> bool:
    deepest = max((g for g in depths if depths[g] > 1 and inside & set(g.buffers)), key=lambda g: depths[g], default=None)
    if deepest is not None:
        depths[deepest] -= 1
    return deepest is not None


@pytest.mark.parametrize("machine", ["lanes_async", "lanes_copies", "queues_cube"])
@pytest.mark.parametrize("stages", [(2, 3), (40, 40), (60, 17), (17, 90), (3, 70), (120, 120)], ids=str)
def test_the_depths_are_those_of_taking_one_at_a_time(machine: str, stages: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    found = slots(plan(two_loops(*stages), TEST_TARGETS[machine]).launches[0])
    assert any("slots" in said or "instead of" in said for said in found)
    monkeypatch.setattr(context, "_reduce", one_at_a_time)
    assert found == slots(plan(two_loops(*stages), TEST_TARGETS[machine]).launches[0])


@pytest.mark.parametrize("machine", ["lanes_async", "lanes_copies", "queues_cube"])
def test_a_hundred_thousand_stages_take_a_few_steps(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    reduce = context._reduce

    def counted(*arguments: Any) -> Any:
        nonlocal steps
        steps += 1
        return reduce(*arguments)

    monkeypatch.setattr(context, "_reduce", counted)
    launch = plan(two_loops(100_000, 100_000), TEST_TARGETS[machine]).launches[0]
    assert 0 < steps < 20
    assert any("instead of 100000" in d.chosen for d in launch.decisions)


def many_tiles(count: int, columns: int) -> Any:
    """A pipelined loop that copies as many tiles of its own, of 8 rows."""
    lines = [f"        t{i} = alloc((8, {columns}), float32, \"shared\")" for i in range(count)]
    lines += ["        f = alloc((8, 16), float32, \"fragment\")", "        fill(f[:, :], 0.0)", "        for k in pipelined(8, stages=4):"]
    lines += [f"            copy(A[k * 8:+8, {i * columns}:+{columns}], t{i}[:, :])" for i in range(count)]
    for i in range(count):
        lines += ["            for x, y in parallel(8, 16):", f"                f[x, y] = f[x, y] + t{i}[x, y]"]
    head = f"# tile-ir 1.0\n\n\ndef k(A: tensor((64, {count * columns}), float32), B: tensor((8, 16), float32)):\n"
    return parse_kernel(head + "    with launch(1) as (bx,):\n" + "\n".join(lines) + "\n        copy(f[:, :], B[:, :])\n")


@pytest.mark.parametrize("machine", ["lanes_async", "lanes_copies"])
def test_many_tiles_are_placed_a_few_times(machine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each version of each tile that does not fit; the depths are those of taking one at a time."""
    placed = 0
    place = context.place

    def counted(*arguments: Any) -> Any:
        nonlocal placed
        placed += 1
        return place(*arguments)

    monkeypatch.setattr(context, "place", counted)
    kernel = many_tiles(70, 32)  # 1,024 bytes each: two versions of all fit, three of all do not
    found = slots(plan(kernel, TEST_TARGETS[machine]).launches[0])
    assert 0 < placed < 6
    assert len({said for said in found if said.startswith("t") and said[1].isdigit()}) == 70
    monkeypatch.setattr(context, "_reduce", one_at_a_time)
    assert found == slots(plan(kernel, TEST_TARGETS[machine]).launches[0])
    assert placed > 40
    with pytest.raises(CompileError, match="E301"):
        plan(many_tiles(70, 128), TEST_TARGETS[machine])


def test_tiles_of_one_version_share_bytes_where_they_fit_only_so() -> None:
    @T.prim_func
    def staged(A: T.Tensor((64, 128), "float32"), B: T.Tensor((64, 32), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float32")
            b = T.alloc_shared((64, 32), "float32")
            f = T.alloc_fragment((64, 32), "float32")
            T.clear(f)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 32], a)
                for i, j in T.Parallel(64, 32):
                    f[i, j] += a[i, j]
            T.copy(f, b)
            T.copy(b, B)

    tight = replace(LANES_COPIES, spaces=tuple(replace(s, bytes=10_000) if s.name == "shared" else s for s in LANES_COPIES.spaces))
    (launch,) = plan(staged.kernel, tight).launches
    assert {p.offset for p in launch.placements if p.buffer.name in "ab"} == {0} and not launch.channels
    assert any(d.question == "how many versions of a are there?" and d.chosen == "1 instead of 2" for d in launch.decisions)


def test_two_loops_through_the_same_tile_are_told_to_have_one_each():
    @T.prim_func
    def twice(A: T.Tensor((64, 128), "float16"), B: T.Tensor((64, 128), "float16")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            for again in (0, 1):
                for k in T.Pipelined(4, num_stages=2):
                    T.copy(A[0, k * 32], a)
                    for i, j in T.Parallel(64, 32):
                        B[i, k * 32 + j] = a[i, j] + again

    (launch,) = plan(twice.kernel, LANES_ASYNC).launches
    (said, *_) = [d for d in launch.decisions if d.question == "can the copy to a run ahead?"]
    assert said.because == "2 loops fill and read a; copies can run ahead where each loop has a tile of its own"
