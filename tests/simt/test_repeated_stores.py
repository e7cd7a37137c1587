"""Code written for lanes in which every lane stores the same: one does, between barriers, so that none reads what it changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zellige
import zellige.language as T

TARGET = "cuda:sm_80,simulate"


def running(space: str, threads: int) -> Any:
    allocate = {"shared": T.alloc_shared, "fragment": T.alloc_fragment}[space]

    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), B: T.Tensor((2,), "int32"), C: T.Tensor((2, threads), "int32")):
        with T.Kernel(2, threads=threads) as bx:
            total = allocate((1,), "int32")
            total[0] = 1
            for k in T.serial(4):
                total[0] = total[0] * 2 + A[4 * bx + k]
            if bx == 1:
                total[0] += 100
            B[bx] = total[0]
            C[bx, T.get_thread_binding()] = B[bx] + total[0]

    return main


@pytest.mark.parametrize("space", ["shared", "fragment"])
@pytest.mark.parametrize("threads", [32, 128])
def test_what_all_lanes_change_is_changed_once(space: str, threads: int) -> None:
    a, b, c = np.arange(8, dtype=np.int32), np.zeros(2, np.int32), np.zeros((2, threads), np.int32)
    expected = []
    for block in range(2):
        total = 1
        for value in a[4 * block : 4 * block + 4]:
            total = total * 2 + int(value)
        expected.append(total + 100 * block)
    zellige.compile(running(space, threads), target=TARGET)(a, b, c)
    np.testing.assert_array_equal(b, expected)
    np.testing.assert_array_equal(c, np.repeat(2 * b[:, None], threads, axis=1))


def test_lanes_that_leave_each_store_for_themselves() -> None:
    """Behind a condition of the lane nobody can store for the others: the first lane is not there."""

    @T.prim_func
    def main(B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            if tx == 5:
                B[3] = 7

    b = np.zeros(32, np.int32)
    zellige.compile(main, target=TARGET)(b)
    np.testing.assert_array_equal(b, np.where(np.arange(32) == 3, 7, 0))


def test_an_author_who_places_the_barriers_gets_the_stores_of_all_lanes() -> None:
    key = zellige.PassConfigKey.TL_DISABLE_THREAD_STORAGE_SYNC
    texts = [zellige.compile(running("shared", 32), target=TARGET, pass_configs={key: off}).get_kernel_source() for off in (False, True)]
    assert "if ((thread == 0)) {" in texts[0] and "if ((thread == 0)) {" not in texts[1]
