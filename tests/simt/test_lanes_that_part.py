"""Where lanes go different ways for a while, no barrier stands: what is touched there is said before, also behind a jump of some lanes."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from zellige.generate import Program
from zellige.generate.comparison import interpreted, launched
from zellige.ir.lanes import lane_dependence
from zellige.ir.parser import parse_kernel
from zellige.ir.stmt import Copy, Store
from zellige.ir.traverse import walk
from zellige.ir.verify import check

sys.path.insert(0, str(Path(__file__).parent))
from simulated import TARGET  # noqa: E402

HEAD = """\
# tile-ir 1.0
def k(A: tensor((64,), int32), n: scalar(int32), U: tensor((4,), int32), G: tensor((64,), int32), C: tensor((64, 4), int32)):
    with launch(1, threads=(64,)) as (bx,), lanes() as (tx,):
        S = alloc((64,), int32, "shared")
        L = alloc((4,), int32, "local")
        fill(L[:], 0)
        y: int32 = A[63 - tx]
        S[tx] = y
"""
TAIL = """\
        copy(L[:], C[tx, :])
"""

BODIES = {
    "continue": "for k in serial(3):\n    if tx < k * 9:\n        continue\n    copy(S[tx % 60:+4], L[:])\n",
    "continue, then the tile changes": (
        "for k in serial(3):\n    S[63 - tx] = tx + k\n    if tx % 3 == k:\n        continue\n    L[k] = S[(tx + 1) % 64]\n"
        "    G[tx] = S[tx ^ 32]\n"
    ),
    "break": "for k in serial(3):\n    L[k] = S[(tx + k) % 64]\n    if tx % 3 == k:\n        break\n    copy(S[tx % 60:+2], L[2:+2])\n",
    "while and break": (
        "c: mutable(int32) = 0\nwhile c < n:\n    c = c + 1\n    if S[tx] % 3 == c:\n        break\n    L[c % 4] = S[(tx + c) % 64]\n"
    ),
    "return": "if tx % 5 == 2:\n    return\nfor k in serial(3):\n    L[k] = S[(tx + k) % 64]\n",
    "return in a branch of all": (
        "if n < 99:\n    S[(tx + 5) % 64] = tx\n    if tx % 5 == 2:\n        return\nL[1] = S[(tx + 7) % 64]\nG[tx] = S[tx ^ 1]\n"
    ),
    "return in a loop": (
        "for k in serial(3):\n    if tx % 5 == k:\n        return\n    L[k] = S[(tx + 7) % 64]\nL[3] = S[(tx + 9) % 64]\n"
    ),
    "a store that reads what the next one changes": "G[tx] = n\nG[tx] = U[1] + tx\nU[1] = n * 2\nL[0] = U[1]\n",
    "a sum that reads what the next one changes": (
        'atomic("add", U[2], 1)\nG[tx] = 0\natomic("add", G[tx], S[tx ^ 1])\nbarrier("block")\nS[tx] = tx\nL[0] = S[tx ^ 2]\n'
    ),
    "what an atomic operation of some lanes gives": (
        "if 20 <= (0 if G[0] <= n else tx):\n    return\nz: int32 = atomic('add', G[tx], 3)\nc: mutable(int32) = 0\ne: int32 = z\n"
        "while c < e:\n    c = c + 9\n"
    ),
}


def program_of(name: str) -> Program:
    kernel = parse_kernel(HEAD + textwrap.indent(BODIES[name], " " * 8) + TAIL)
    check(kernel)
    numbers = (np.arange(64) * 7 % 31).astype(np.int32)
    arrays = (np.arange(4, dtype=np.int32), numbers[::-1].copy(), np.full((64, 4), -1, np.int32))
    return Program(kernel=kernel, arguments=(numbers, 4, *arrays))


@pytest.mark.parametrize("target", ["cpu", TARGET])
@pytest.mark.parametrize("name", BODIES)
def test_every_lane_has_what_the_interpreter_says(name: str, target: str) -> None:
    """The simulator refuses a barrier that some lanes do not reach (E655), and accesses that nothing orders (E652)."""
    program = program_of(name)
    expected = interpreted(program)
    actual, faults = launched(program, target, expected)
    assert faults == []
    for index, tensor in expected.tensors.items():
        np.testing.assert_array_equal(actual.tensors[index], tensor)


def test_the_interpreter_is_right_about_a_continue() -> None:
    (_, _, _, cells, results) = (interpreted(program_of("continue, then the tile changes")).tensors.get(i) for i in range(5))
    assert cells is not None and results is not None
    for lane in range(64):
        own = [0, 0, 0, 0]
        cell = int((np.arange(64) * 7 % 31)[63 - lane])
        for k in range(3):
            if lane % 3 != k:
                own[k] = 63 - (lane + 1) % 64 + k
                cell = 63 - (lane ^ 32) + k
        assert results[lane].tolist() == own and cells[lane] == cell


def test_what_lanes_may_leave_out() -> None:
    launch = program_of("return in a branch of all").kernel.launches[0]
    found = lane_dependence(launch)
    assert [found.is_divergent(s) for s in walk(launch) if isinstance(s, (Store, Copy))] == [False, False, True, True, True]
