"""Steps of a loop whose copies run ahead: one barrier for all that a step waits for, and pieces of a copy at distances from the first."""

# Kernels are read by the front end, not run by Python.
# mypy: ignore-errors

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from simulated import agree, lowered, whole_numbers  # noqa: E402

import zellige.language as T  # noqa: E402
from zellige.ir.expr import INT32, Const  # noqa: E402
from zellige.ir.stmt import Barrier, For  # noqa: E402
from zellige.ir.traverse import walk  # noqa: E402
from zellige.simt.ir import AsyncCopy, Product, WaitCopies  # noqa: E402


def two_uses(steps, *, stages=2, leaves=False):
    """Two tiles a step, of which the second is needed after lanes' work on what the first one gave."""

    @T.prim_func
    def two_uses(
        Q: T.Tensor((32, 16), "float16"), K: T.Tensor((16 * steps, 16), "float16"), V: T.Tensor((16 * steps, 32), "float16"),
        C: T.Tensor((32, 32), "float32"),
    ):
        with T.Kernel(1, threads=64):
            q = T.alloc_shared((32, 16), "float16")
            k = T.alloc_shared((16, 16), "float16")
            v = T.alloc_shared((16, 32), "float16")
            scores = T.alloc_fragment((32, 16), "float32")
            weights = T.alloc_fragment((32, 16), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(Q, q)
            T.clear(c)
            for s in T.Pipelined(steps, num_stages=stages):
                T.copy(K[s * 16, 0], k)
                T.copy(V[s * 16, 0], v)
                T.gemm(q, k, scores, transpose_B=True, clear_accum=True)
                if leaves:
                    if s > 3:
                        break
                for i, j in T.Parallel(32, 16):
                    scores[i, j] = T.max(scores[i, j], 0)
                T.copy(scores, weights)
                T.gemm(weights, v, c)
            T.copy(c, C)

    return two_uses


def arguments(steps):
    q, k, v = (whole_numbers(shape, np.float16, i, -1, 2) for i, shape in enumerate(((32, 16), (16 * steps, 16), (16 * steps, 32))))
    return q, k, v, np.zeros((32, 32), np.float32)


def _steady(module):
    """The body of the loop of steps."""
    loops = [n for f in module.functions for s in f.body for n in walk(s) if isinstance(n, For) and n.var.name.endswith("_step")]
    assert len(loops) == 1
    return [n for s in loops[0].body for n in walk(s)]


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_a_step_waits_once_and_has_one_barrier(stages):
    steady = _steady(lowered(two_uses(9, stages=stages))[1])
    waits = [n for n in steady if isinstance(n, WaitCopies)]
    assert [w.leave for w in waits] == [2 * (stages - 2)]  # both copies of each later step
    kinds = [type(n) for n in steady if isinstance(n, (WaitCopies, Barrier, AsyncCopy))]
    assert kinds.count(Barrier) == 1
    assert kinds[:2] == [WaitCopies, Barrier]
    assert AsyncCopy in kinds


def product(threads, stages):
    @T.prim_func
    def product(A: T.Tensor((60, 152), "float16"), B: T.Tensor((152, 72), "float16"), C: T.Tensor((60, 72), "float32")):
        with T.Kernel(2, 1, threads=threads) as (bx, by):
            a = T.alloc_shared((64, 16), "float16")
            b = T.alloc_shared((16, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for s in T.Pipelined(10, num_stages=stages):
                T.copy(A[by * 64, s * 16], a)
                T.copy(B[s * 16, bx * 64], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 64, bx * 64])

    return product


@pytest.mark.parametrize(("threads", "stages", "are_behind"), [(256, 2, False), (256, 3, True), (256, 4, True), (128, 3, False)])
def test_copies_further_ahead_come_behind_the_products_of_many_warps(threads, stages, are_behind):
    made = product(threads, stages)
    order = [type(n) for n in _steady(lowered(made)[1]) if isinstance(n, (AsyncCopy, Product))]
    assert (order[0] is Product) == are_behind
    agree(made, whole_numbers((60, 152), np.float16, 1), whole_numbers((152, 72), np.float16, 2), np.zeros((60, 72), np.float32))



@pytest.mark.parametrize(("steps", "stages"), [(1, 3), (2, 2), (3, 4), (6, 0), (6, 2), (6, 3), (6, 4)])
def test_results_do_not_depend_on_how_far_copies_run_ahead(steps, stages):
    agree(two_uses(steps, stages=stages), *arguments(steps))


def test_nothing_is_waited_for_before_a_step_may_be_left():
    agree(two_uses(9, leaves=True), *arguments(9))


# ---- pieces at distances ----


def copied(rows, width, tile, *, dtype="float16", is_dynamic=False):
    size = T.dynamic("size") if is_dynamic else rows
    count = rows // tile + (rows % tile > 0)

    @T.prim_func
    def copied(A: T.Tensor((size, width), dtype), C: T.Tensor((tile, 64), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((tile, 64), dtype)
            c = T.alloc_fragment((tile, 64), "float32")
            T.clear(c)
            for s in T.Pipelined(count, num_stages=2):
                T.copy(A[s * tile, 0], a)
                for i, j in T.Parallel(tile, 64):
                    c[i, j] += a[i, j]
            T.copy(c, C)

    return copied


@pytest.mark.parametrize(
    ("rows", "width", "tile", "is_dynamic"),
    [(64, 64, 32, False), (100, 64, 32, True), (33, 72, 32, True), (1, 64, 32, True), (100, 40, 32, False), (33, 50, 32, True),
     (64, 7, 24, False), (100, 64, 24, True)],
)  # fmt: skip
def test_pieces_at_distances_are_those_of_the_tensor_and_zeros_beyond_it(rows, width, tile, is_dynamic):
    a = whole_numbers((rows, width), np.float16, 1)
    agree(copied(rows, width, tile, is_dynamic=is_dynamic), a, np.zeros((tile, 64), np.float32))


def _pieces(function):
    text_of = [n for f in lowered(function)[1].functions for s in f.body for n in walk(s) if isinstance(n, AsyncCopy)]
    assert text_of
    return text_of


def test_places_are_computed_once_a_copy():
    """In a swizzled tile whose lanes step by whole periods of the swizzle each piece is a sum; its test is one of 32 bits."""
    for piece in _pieces(copied(100, 64, 32, is_dynamic=True)):
        for index in (piece.target_index, piece.source_index):
            operations = {n.op for n in walk(index) if hasattr(n, "op")}
            assert not operations & {"bitxor", "shr"}, index
        if piece.is_valid is not None:
            assert all(n.left.dtype.bits == 32 for n in walk(piece.is_valid) if type(n).__name__ == "Compare")


def test_text_has_one_swizzle_a_copy():
    import zellige

    text = zellige.compile(copied(128, 64, 32), target="cuda:sm_80,simulate").get_kernel_source()
    steady = text[text.index("s_step = ") :]
    assert len(re.findall(r"cp_async_16_2\w*\(", steady)) == 1
    assert "^" not in steady[steady.index("cp_async_16_2") :].split("\n", 1)[0]


@pytest.mark.parametrize("target", ["cuda:sm_80,simulate", "cuda:sm_90a,simulate"])
def test_copies_that_meet_in_a_tile_are_not_under_way_together(target):
    """The second one's rows are those that the product sees, whichever lands first."""

    @T.prim_func
    def corrected(A: T.Tensor((64, 96), "float16"), P: T.Tensor((32, 96), "float16"), B: T.Tensor((96, 64), "float16"),
                  C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(3, num_stages=2):
                T.copy(A[0, k * 32], a)
                T.copy(P[0:32, k * 32 : k * 32 + 32], a[32:64, 0:32])
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    A, P, B = (whole_numbers(shape, np.float16, i) for i, shape in enumerate(((64, 96), (32, 96), (96, 64))))
    (*_, C) = agree(corrected, A, P, B, np.zeros((64, 64), np.float32), target=target)
    wanted = np.concatenate([A[:32], P]).astype(np.float32) @ B.astype(np.float32)
    np.testing.assert_array_equal(C, wanted)


@pytest.mark.parametrize(("pitch", "in_steps"), [(2**24 + 8, True), (2**27, False), (3 * 2**26, False), (2**28 + 8, False)])
def test_pieces_too_far_apart_for_32_bits_are_found_each_by_itself(pitch, in_steps):
    """Sixteen rows are between a lane's pieces: their distance is no int32, whatever the places are computed in."""

    @T.prim_func
    def far_rows(A: T.Tensor((128, pitch), "float16"), B: T.Tensor((32, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[64, k * 32], a)
                T.copy(B, b)
                T.gemm(a, b, c)
            T.copy(c, C)

    _, module = lowered(far_rows)
    nodes = [node for statement in module.functions[0].body for node in walk(statement)]
    assert all(abs(n.value) < 2**31 for n in nodes if isinstance(n, Const) and n.dtype == INT32)
    copies = [n for n in nodes if isinstance(n, AsyncCopy) and n.source.root.name == "A"]
    assert all((n.source_index.dtype == INT32) == in_steps for n in copies)
    assert len(copies) > 0
