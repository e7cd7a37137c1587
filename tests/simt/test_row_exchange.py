"""Lanes give each other words so that a tile of a product leaves by wide stores."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from simulated import TARGET, lowered, whole_numbers  # noqa: E402

import zellige  # noqa: E402
import zellige.language as T  # noqa: E402
from zellige.ir.stmt import Shuffle, Store  # noqa: E402
from zellige.ir.traverse import walk  # noqa: E402
from zellige.simt.distribution import Digit, Distribution  # noqa: E402
from zellige.simt.exchange import Exchange  # noqa: E402


def product(m: int, n: int, block: tuple[int, int], threads: int, dtype: str, scaled: bool = False) -> Any:
    @T.prim_func
    def product(A: T.Tensor((m, 32), "float16"), B: T.Tensor((32, n), "float16"), C: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(n, block[1]), T.ceildiv(m, block[0]), threads=threads) as (bx, by):
            a = T.alloc_shared((block[0], 32), "float16")
            b = T.alloc_shared((32, block[1]), "float16")
            c = T.alloc_fragment(block, "float32")
            T.copy(A[by * block[0], 0], a)
            T.copy(B[0, bx * block[1]], b)
            T.clear(c)
            T.gemm(a, b, c)
            if scaled:
                for i, j in T.Parallel(block[0], block[1]):
                    C[by * block[0] + i, bx * block[1] + j] = c[i, j] * 2.0 + C[by * block[0] + i, bx * block[1] + j]
            else:
                T.copy(c, C[by * block[0], bx * block[1]])

    return product


def widths(function: Any) -> tuple[set[int], int]:
    """Bytes of the stores to tensors, and how many shuffles there are."""
    _, module = lowered(function)
    nodes = [n for f in module.functions for n in walk(f)]
    stores = {n.buffer.dtype.bytes for n in nodes if isinstance(n, Store) and n.buffer.root.space == "global"}
    return stores, sum(isinstance(n, Shuffle) for n in nodes)


@pytest.mark.parametrize(
    "m,n,block,threads,dtype,stores,is_exchanged",
    [
        (64, 128, (64, 128), 128, "float16", {16}, True),
        (96, 192, (32, 64), 64, "bfloat16", {16}, True),
        (70, 72, (64, 64), 64, "float16", {16}, True),  # rows beyond the tensor
        (64, 68, (64, 64), 64, "float16", {4}, False),  # rows of the tensor that no wide store divides
        (64, 16, (64, 16), 64, "float16", {4}, False),  # too few columns a lane
        (64, 64, (64, 64), 64, "float32", {8}, False),  # 32 bytes a row already
    ],
)
def test_products_leave_by_wide_stores(
    m: int, n: int, block: tuple[int, int], threads: int, dtype: str, stores: set[int], is_exchanged: bool
) -> None:
    for scaled in (False, True):
        function = product(m, n, block, threads, dtype, scaled)
        found, shuffles = widths(function)
        if not scaled:
            assert found == stores
            assert bool(shuffles) == is_exchanged
        a, b, c = (whole_numbers(s, np.float16, seed=i) for i, s in enumerate([(m, 32), (32, n), (m, n)]))
        expected = a.astype(np.float32) @ b.astype(np.float32)
        if scaled:
            expected = expected * 2 + c
        into = c.astype(zellige.dtypes.dtype(dtype).numpy)
        zellige.compile(function, target=TARGET)(a, b, into)
        np.testing.assert_array_equal(into.astype(np.float32), expected)


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("below,above", [(1, 1), (2, 2), (3, 1)])
def test_who_holds_what_after_an_exchange(count: int, below: int, above: int) -> None:
    """Every element once, as before, and ``2 * count`` neighbours a lane."""
    digits = [
        Digit(source="register", divisor=1, radix=2, dimension=1, stride=1),
        Digit(source="register", divisor=2, radix=below, dimension=0, stride=8),
        Digit(source="register", divisor=2 * below, radix=count * above, dimension=1, stride=2 * count),
        Digit(source="lane", divisor=1, radix=count, dimension=1, stride=2),
        Digit(source="lane", divisor=count, radix=8, dimension=0, stride=1),
    ]
    before = Distribution(shape=(8 * below, 2 * count * count * above), digits=tuple(digits))
    registers = next(d for d in before.of_source("register") if d.dimension == 1 and d.stride > 1)
    exchange = Exchange(vector=2, lanes=before.of_source("lane")[0], registers=registers)
    after = exchange.applied(before)
    assert after.of_source("register")[0] == Digit(source="register", divisor=1, radix=2 * count, dimension=1, stride=1)
    for held in (before, after):
        rows, columns = held.coordinates(np.arange(held.registers)[:, None], np.arange(8 * count)[None, :], np.zeros((1, 1), np.int64))
        assert np.array_equal(np.sort((rows * held.shape[1] + columns).ravel()), np.arange(np.prod(held.shape)))
