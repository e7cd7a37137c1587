"""Indexes along dimensions that may be longer than numbers of 32 bits reach: no target drops an element there."""

from __future__ import annotations

from mmap import mmap
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.frontend.arithmetic import widened
from zellige.ir.expr import INT32, INT64, Binary, Cast, Expr, Var, const
from zellige.ir.traverse import walk

STEP = 1610612736
LENGTH = 2 * STEP + 50


def memory() -> Any:
    """Bytes of which only those that are touched take room."""
    array = np.frombuffer(mmap(-1, LENGTH), dtype=np.int8)
    array[2 * STEP :] = np.arange(50)
    return array


def fixed() -> Any:
    @T.prim_func
    def read(A: T.Tensor((LENGTH,), "int8"), B: T.Tensor((3, 64), "int8")):
        with T.Kernel(3, threads=64) as b:
            for i in T.Parallel(64):
                B[b, i] = A[b * STEP + i]

    return read


def symbolic() -> Any:
    m = T.dynamic("m", "int64")

    @T.prim_func
    def copied(A: T.Tensor((m,), "int8"), B: T.Tensor((3, 64), "int8")):
        with T.Kernel(3, threads=64) as b:
            T.copy(A[b * STEP : b * STEP + 64], B[b, :])

    return copied


@pytest.mark.parametrize("target", ["cpu", "interp"])
@pytest.mark.parametrize("made", [fixed, symbolic])
def test_elements_far_behind_are_read(made: Any, target: str) -> None:
    found = np.ones((3, 64), np.int8)
    zl.compile(made(), target=target)(memory(), found)
    assert found[2].tolist() == [*range(50), *[0] * 14] and not found[:2].any()


@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_elements_far_behind_are_written(target: str) -> None:
    @T.prim_func
    def written(A: T.Tensor((LENGTH,), "int8")):
        with T.Kernel(3, threads=64) as b:
            for i in T.Parallel(64):
                A[i + STEP * b] = b + 7

    array = memory()
    with pytest.warns(zl.ZelligeWarning, match="E281"):
        kernel = zl.compile(written, target=target)
    kernel(array)
    assert [array[place] for place in (0, 63, 64, STEP, 2 * STEP, LENGTH - 1)] == [7, 7, 0, 8, 9, 9]


def test_parts_are_computed_in_int64() -> None:
    b, x = Var(name="b", dtype=INT32, kind="grid"), Var(name="x", dtype=INT64, kind="value")
    times = Binary(op="mul", left=b, right=const(STEP, INT32))
    wide = widened(Binary(op="add", left=times, right=Binary(op="bitand", left=b, right=const(3, INT32))))
    assert {node.dtype for node in walk(wide) if isinstance(node, Binary)} == {INT64}
    assert [node.value for node in walk(wide) if isinstance(node, Cast)] == [b]  # one node, which two operands share
    assert widened(x) is x
    whole = Binary(op="add", left=x, right=x)
    assert widened(whole) is whole
    chain: Expr = b
    for _ in range(20_000):
        chain = Binary(op="add", left=chain, right=chain)  # shared, so that a walk over paths would never end
    assert widened(chain).dtype == INT64


@pytest.mark.parametrize("target", ["cpu", "interp"])
@pytest.mark.parametrize(
    "at",
    [
        lambda b, i: T.if_then_else(b > 1, b * STEP, 0) + i,
        lambda b, i: -(-b * STEP - i),
        lambda b, i: ((b * STEP) << 1) // 2 + i,
        lambda b, i: T.max(b * STEP + i, 0),
        lambda b, i: (b * STEP + i) % LENGTH,
    ],
    ids=["choice", "negated", "shifted", "greatest", "remainder"],
)
def test_all_arithmetic_of_an_index_is_wide(at: Any, target: str) -> None:
    @T.prim_func
    def read(A: T.Tensor((LENGTH,), "int8"), B: T.Tensor((3, 64), "int8")):
        with T.Kernel(3, threads=64) as b:
            for i in T.Parallel(64):
                B[b, i] = A[at(b, i)]

    found = np.ones((3, 64), np.int8)
    zl.compile(read, target=target)(memory(), found)
    assert found[2, :50].tolist() == [*range(50)]


def test_short_dimensions_keep_their_width() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((1 << 20,), "int8")):
        with T.Kernel(1 << 14, threads=64) as b:
            for i in T.Parallel(64):
                A[b * 64 + i] = 1

    assert not any(isinstance(node, Cast) and node.dtype == INT64 for node in walk(kernel.kernel))
