"""Blocks get more lanes than asked for where the fragments do not fit the registers of so few."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from simulated import agree, lowered, whole_numbers  # noqa: E402

import zellige.language as T  # noqa: E402


def held(rows: int, threads: int) -> Any:
    """A fragment of rows x 128 float32."""

    @T.prim_func
    def held(A: T.Tensor((rows, 128), "float32"), B: T.Tensor((rows, 128), "float32")):
        with T.Kernel(1, threads=threads):
            a = T.alloc_fragment((rows, 128), "float32")
            T.copy(A, a)
            for i, j in T.Parallel(rows, 128):
                a[i, j] = a[i, j] * 2.0
            T.copy(a, B)

    return held


@pytest.mark.parametrize(
    "rows,asked,lanes",
    [
        (128, 128, 128),  # 128 registers a lane
        (256, 128, 256),  # 256
        (64, 32, 64),  # 256
        (256, 32, 256),  # 1024: three times
        (512, 256, 256),
    ],
)
def test_fragments_that_do_not_fit_get_more_lanes(rows: int, asked: int, lanes: int) -> None:
    _, module = lowered(held(rows, asked))
    (function,) = module.functions
    assert function.threads == lanes
    said = [line for line in function.header if "asked for" in line]
    assert bool(said) == (lanes != asked)
    if said:
        assert said == [f"the block has {lanes} lanes: with the {asked} asked for, fragments take {rows * 128 // asked} registers of each"]


def test_a_block_with_more_lanes_computes_the_same() -> None:
    a = whole_numbers((256, 128), "float32", high=100)
    agree(held(256, 128), a, a * 0)


def test_lanes_that_the_author_counts_stay() -> None:
    @T.prim_func
    def counted(A: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_fragment((128, 128), "float32")
            T.fill(a, 1.0)
            lane = T.get_thread_binding()
            A[lane] = 1.0

    _, module = lowered(counted)
    assert module.functions[0].threads == 32
