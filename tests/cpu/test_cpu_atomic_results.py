"""The result of an atomic operation as a variable that is assigned later: of a point, of a block, of a loop's iteration."""

from __future__ import annotations

import numpy as np
import pytest

BODIES = {
    "a point's": """
        for j in parallel(8):
            p: mutable(int32) = atomic("add", A[j], 1)
            p = p * 2
            if j > 3:
                p = p + 100
            B[j] = p
        """,
    "an iteration's": """
        for j in serial(8):
            p: mutable(int32) = atomic("add", A[j], 1)
            for i in serial(3):
                p = p * 2
            B[j] = p
        """,
    "an iteration's within a point": """
        for j in parallel(8):
            for i in serial(3):
                p: mutable(int32) = atomic("add", A[j], 1)
                p = p * 2 + i
                B[j] = p
        """,
    "a block's, which one point assigns": """
        p: mutable(int32) = atomic("add", A[0], 1)
        for j in parallel(8):
            if j == 5:
                p = p + 7
        B[0] = p
        """,
    "of points around points": """
        for j in parallel(2):
            p: mutable(int32) = atomic("add", A[j], 1)
            for i in parallel(4):
                q: mutable(int32) = atomic("max", A[i + 4], 6)
                q = q + p
                B[j * 4 + i] = q
            p = p + 1
        """,
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_result_may_be_assigned(check_block, body):
    check_block("A: tensor((8,), int32), B: tensor((8,), int32)", body, np.arange(8, dtype=np.int32), np.zeros(8, np.int32))


def test_a_lane_assigns_its_own_result(check_block):
    body = 'p: mutable(int32) = atomic("add", A[tx % 4], 1)\np = p * 0 + tx\nB[tx] = p'
    launch = "launch(1, threads=(16,)) as (bx,), lanes() as (tx,)"
    check_block("A: tensor((4,), int32), B: tensor((16,), int32)", body, np.zeros(4, np.int32), np.zeros(16, np.int32), launch=launch)
