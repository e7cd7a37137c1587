"""Votes in a block whose last group of lanes is smaller: each group's own answer, on every kind of target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T


def _votes(target: str) -> Any:
    @zl.jit(target=target)
    def make():
        @T.prim_func
        def votes(B: T.Tensor((3, 33), "uint32")):
            with T.Kernel(1, threads=33):
                tx = T.get_thread_binding()
                B[0, tx] = T.ballot(True)
                B[1, tx] = T.popcount(T.activemask())
                B[2, tx] = T.cast(T.any_sync(True), "uint32")

        return votes

    return make()


@pytest.mark.parametrize("target", ["interp", "cpu", "cuda:sm_80,simulate"])
def test_what_all_lanes_say_alike_is_told_to_each_group(target: str) -> None:
    b = np.zeros((3, 33), np.uint32)
    _votes(target)(b)
    assert b[0].tolist() == [0xFFFFFFFF] * 32 + [1]
    assert b[1].tolist() == [32] * 32 + [1]
    assert b[2].tolist() == [1] * 33
