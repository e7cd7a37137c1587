"""What differs between lanes, as the interpreter and backends ask for it (what is refused stands in refused/structure.tile)."""

from __future__ import annotations

import textwrap

import pytest

from zellige.ir import stmt as s
from zellige.ir.expr import Buffer, Var
from zellige.ir.lanes import is_collective, lane_dependence, tile_regions
from zellige.ir.parser import parse_kernel
from zellige.ir.traverse import walk
from zellige.ir.verify import verify

HEAD = """\
# tile-ir 1.0
def k(A: tensor((4, 32), float32), B: tensor((32,), int32), n: scalar(int32)):
    with launch(1, threads=(32,)) as (bx,), lanes() as (tx,):
"""


def launch_of(body: str) -> s.Launch:
    return parse_kernel(HEAD + textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8) + "\n").launches[0]


def dependent(body: str) -> set[str]:
    """Names of the variables and per-lane buffers that differ between lanes."""
    launch = launch_of(body)
    found = lane_dependence(launch)
    named: list[Var | Buffer] = [n for n in walk(launch) if isinstance(n, Var)]
    named += [n.buffer for n in walk(launch) if isinstance(n, s.Alloc)]
    return {n.name for n in named if found.is_lane_dependent(n)} - {"tx"}


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("x: int32 = tx + 1\ny: int32 = bx + n", {"x"}),
        ("x: float32 = A[0, n]\ny: float32 = A[0, tx]", {"y"}),
        ("x: int32 = B[B[tx]]\ny: int32 = B[B[n]]", {"x"}),
        ("L = alloc((4,), int32, 'local')\nL[0] = tx\nx: int32 = L[1]", {"L", "x"}),
        ("M = alloc((4,), int32, 'local')\nM[0] = n\ny: int32 = M[1]", set()),
        ("L = alloc((4,), int32, 'local')\nL[tx % 4] = 0", {"L"}),
        ("L = alloc((4,), float32, 'local')\ncopy(A[tx % 4, 0:+4], L[:])", {"L"}),
        ("L = alloc((4,), float32, 'local')\ncopy(A[0, 0:+4], L[:])", set()),
        ("x: mutable(int32) = 0\nif tx < n:\n    x = 1", {"x"}),
        ("x: mutable(int32) = 0\nfor i in serial(tx):\n    x = x + 1", {"x", "i"}),
        ("x: mutable(int32) = 0\nfor i in serial(n):\n    x = x + i", set()),
        ("x: mutable(int32) = 0\ny: mutable(int32) = 0\nfor i in serial(n):\n    y = x\n    x = x + tx", {"x", "y"}),
        ("x: mutable(int32) = 0\nfor i in serial(n):\n    if tx < i:\n        break\n    x = x + 1", {"x", "i"}),
        ("x: mutable(int32) = 0\nwhile x < n:\n    x = x + 1", set()),
        ("x: mutable(int32) = 0\nif tx < n:\n    return\nx = 1", {"x"}),
        ("x: int32 = atomic('add', B[0], 1)", {"x"}),
        ("L = alloc((4,), int32, 'local')\natomic('add', L[0], tx)\nx: int32 = L[0]", {"L", "x"}),
        ("L = alloc((4,), int32, 'local')\natomic('add', L[tx % 4], 1)", {"L"}),
        ("L = alloc((4,), int32, 'local')\natomic('add', L[n], n)\nx: int32 = L[0]", set()),
        ("x: int32 = shuffle('xor', n, 1, width=8)\ny: int32 = shuffle('index', tx, 0, width=8)", {"y"}),
        ("x: bool = vote('any', 'block', tx < n)\ny: bool = vote('any', 'warp', tx < n)", {"y"}),
        ("x: int32 = dialect('a.b', operands=(tx,))\ny: int32 = dialect('a.b', operands=(n,))", {"x"}),
        ("L = alloc((32,), float32, 'local')\ndialect('a.b', inputs=(A[tx % 4, :],), outputs=(L[:],))", {"L"}),
    ],
)  # fmt: skip
def test_dependence(body: str, names: set[str]) -> None:
    assert dependent(body) == names


def test_maps_of_the_block_and_of_the_lane() -> None:
    launch = launch_of("""
        L = alloc((4,), float32, "local")
        S = alloc((32,), float32, "shared")
        row: int32 = tx // 8
        base: int32 = bx * 4
        total: mutable(float32) = 0.0
        for i in parallel(4):
            S[i] = A[base, i]
        for i in parallel(4):
            mine: mutable(float32) = 0.0
            mine = mine + A[0, i]
            own = alloc((2,), float32, "local")
            own[0] = mine
            S[i] = own[0]
        for i in parallel(4):
            L[i] = A[0, i]
        for i in parallel(4):
            S[i] = L[i]
        for i in parallel(4):
            total = A[0, i]
        for i in parallel(4):
            S[row * 4 + i] = A[0, i]
        for i in parallel(4):
            S[i] = cast(tx, float32)
        """)
    found = lane_dependence(launch)
    maps = [x for x in launch.body if isinstance(x, s.Map)]
    assert [found.is_private(m) for m in maps] == [False, False, True, True, True, True, True]
    assert all(found.is_private(inner) for m in maps for inner in m.body)
    assert found.partial == ()


def test_a_launch_without_lanes_has_nothing_that_differs() -> None:
    body = "        if bx < B[bx]:\n            fill(B[:], 0)\n"
    text = "# tile-ir 1.0\ndef k(B: tensor((4,), int32)):\n    with launch(4) as (bx,):\n" + body
    found = lane_dependence(parse_kernel(text).launches[0])
    assert (found.partial, found.fragments, found.private) == ((), (), frozenset())


def test_which_statements_are_collective() -> None:
    launch = launch_of("""
        L = alloc((4,), float32, "local")
        S = alloc((4,), float32, "shared")
        copy(A[0, 0:+4], L[:])
        copy(L[:], A[0, 0:+4])
        fill(L[:], 0.0)
        copy(A[0, 0:+4], S[:])
        copy(S[:], L[:])
        copy(A[0, :], A[1, :])
        barrier("warp")
        barrier("block")
        gemm(A[:, 0:+4], A[:, 0:+4], A[:, 0:+4], clear=True)
        """)
    assert [is_collective(x) for x in launch.body[2:]] == [False, False, False, True, True, True, False, True, True]
    assert [len(tile_regions(x)) for x in launch.body] == [0, 0, 2, 2, 1, 2, 2, 2, 0, 0, 3]


def test_tile_operations_of_the_block_and_of_the_lane() -> None:
    launch = launch_of("""
        L = alloc((4,), float32, "local")
        S = alloc((4, 32), float32, "shared")
        copy(S[:, 0], L[:])
        copy(A[0, tx], S[0, tx])
        copy(A[0, 0:+32], S[0, :])
        fill(S[:, :], cast(tx, float32))
        fill(S[:, :], cast(bx, float32))
        if tx < 4:
            copy(L[0:+1], S[0, tx])
        """)
    found = lane_dependence(launch)
    operations = [x for x in walk(launch) if tile_regions(x)]
    assert [found.is_private(x) for x in operations] == [True, True, False, True, False, True]
    assert (found.partial, found.fragments) == ((), ())


def test_a_long_chain_of_assignments_against_the_order_of_the_program() -> None:
    """What depends on lanes is found by one search, not by repeating the walk until nothing changes."""
    count = 3000
    lines = [f"x{i}: mutable(int32) = 0" for i in range(count + 1)]
    lines += ["for i in serial(n):", *(f"    x{i} = x{i + 1}" for i in range(count)), f"    x{count} = tx"]
    launch = launch_of("\n".join(lines))
    assert len(lane_dependence(launch).dependent) > count
    assert verify(parse_kernel(HEAD + "        pass\n")) == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("B[0] = 1", True),
        ("B[n] = B[n] * 2", True),
        ("B[tx] = 1", False),
        ("B[0] = tx", False),
        ("x: int32 = tx\nB[0] = x", False),
        ("if n < 3:\n    B[0] = 1", True),
        ("if tx < 3:\n    B[0] = 1", False),
        ("if tx < 3:\n    return\nB[0] = 1", False),
        ("own = alloc((4,), int32, 'local')\nown[0] = 1", False),
        ("tile = alloc((4,), int32, 'shared')\ntile[0] = 1", True),
    ],
)
def test_a_store_that_every_lane_repeats(body: str, expected: bool) -> None:
    launch = launch_of(body)
    found = lane_dependence(launch)
    assert [found.is_repeated(n) for n in walk(launch) if isinstance(n, s.Store)] == [expected]
