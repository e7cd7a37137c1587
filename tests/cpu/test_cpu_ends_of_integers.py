"""Loops whose counter comes to the end of its type: they stop, after the right number of iterations."""

from __future__ import annotations

import numpy as np
import pytest

HIGHEST = (1 << 63) - 1
LOWEST = -(1 << 63)


@pytest.mark.parametrize("step", [1, 2, 3, 1 << 62])
@pytest.mark.parametrize("head", ["for j in serial(1):", "for j in parallel(8):"])
def test_loops_end_below_the_highest_number(check_block, head, step):
    body = f"""
        {head}
            for i in serial(n - int64(6) - cast(j, int64), n, int64({step})):
                B[j] = B[j] + i % int64(1000)
        """
    check_block("n: scalar(int64), B: tensor((8,), int64)", body, HIGHEST, np.zeros(8, np.int64))


@pytest.mark.parametrize("step", [-1, -2, -(1 << 62)])
@pytest.mark.parametrize("head", ["for j in serial(1):", "for j in parallel(8):"])
def test_loops_end_above_the_lowest_number(check_block, head, step):
    body = f"""
        {head}
            for i in serial(n + int64(6) + cast(j, int64), n, int64({step})):
                B[j] = B[j] + i % int64(1000)
        """
    check_block("n: scalar(int64), B: tensor((8,), int64)", body, LOWEST, np.zeros(8, np.int64))


def test_loops_of_32_bits_end_at_their_highest_number(check_block):
    body = "for i in serial(n - 5, n, 4):\n    B[0] = B[0] + i % 1000\nfor i in serial(-n, -n - 1, -3):\n    B[1] = B[1] + 1"
    check_block("n: scalar(int32), B: tensor((2,), int32)", body, (1 << 31) - 1, np.zeros(2, np.int32))
