"""At edges loops go over the points that store something, and over no others: text for text against the interpreter."""

from __future__ import annotations

import re

import numpy as np
import pytest

HEAD = "A: tensor((24, 40), float32), B: tensor((24, 40), float32), rows: scalar(int32), first: scalar(int32)"


def calls_of(tools, body: str, pattern: str) -> int:
    """How often the code of a block calls functions of that name."""
    text = tools["compile_for"](tools["block_kernel"](HEAD, body)).source()
    return len(re.findall(rf"call \S+ @llvm\.{pattern}\.", text[text.index("define void @launch_0") :]))


TILE = 'a = alloc((32, 16), float32, "shared")\nfor i, j in parallel(32, 16):\n    a[i, j] = cast(i * 100 + j, float32)\n'


@pytest.mark.parametrize(
    ("body", "is_cut", "is_tested"),
    [
        (TILE + "copy(a[:, :], B[0:+32, 0:+16])", True, False),
        (TILE + "copy(a[:, :], B[first:+32, 0:+16])", True, False),
        (TILE + "copy(a[:, :], B[first:+32, 32:+16])", True, True),
        ("for i, j in parallel(32, 16):\n    B[i + first, j] = A[i + first, j] + 1.0", True, False),
        ("for i, j in parallel(32, 16):\n    B[first - i, j] = 3.0", True, False),
        ("for i, j in parallel(32, 16):\n    B[i + first, j] = 1.0\n    A[i, j] = 2.0", False, True),
        ("for i, j in parallel(32, 16):\n    B[i + first, j] = 1.0\n    A[i + first, j + 16] = 2.0", True, False),
        ("for i, j in parallel(32, 16):\n    B[2 * i + first, j] = 1.0", False, True),
        ("for i, j in parallel(32, 16):\n    if j < rows:\n        B[i + first, j] = 1.0", None, None),
    ],
)
@pytest.mark.parametrize("first", [-40, -9, -1, 0, 1, 7, 23, 24, 60])
def test_points_that_store_nothing_are_left_out(tools, check_block, random, body, is_cut, is_tested, first):
    a, b = (random.standard_normal((24, 40)).astype(np.float32) for _ in range(2))
    check_block(HEAD, body, a, b, 5, first)
    if first == 0:
        assert is_cut in (None, calls_of(tools, body, "s(?:min|max)") > 0)
        assert is_tested in (None, calls_of(tools, body, "masked.store") > 0)


def test_an_atomic_is_no_store(check_block, random):
    """What an atomic operation gives is wanted at all points, of which some are outside."""
    body = """
for i, j in parallel(32, 16):
    old: float32 = atomic("add", A[i + first, j], 1.0)
    B[i, j] = 2.0
"""
    check_block(HEAD, body, np.zeros((24, 40), np.float32), np.zeros((24, 40), np.float32), 5, -3)
