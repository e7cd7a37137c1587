"""Reducers: both ways of writing them, and the orders that are refused."""

import numpy as np
import pytest

import zellige.language as T
from zellige.ir.stmt import ReducerInit
from zellige.ir.traverse import walk

OPS = {
    "sum": (np.sum, "int32"), "max": (np.max, "int32"), "min": (np.min, "float32"), "bitand": (np.bitwise_and.reduce, "int32"),
    "bitor": (np.bitwise_or.reduce, "uint8"), "bitxor": (np.bitwise_xor.reduce, "int64"),
    "absmax": (lambda x, axis: np.abs(x).max(axis), "float32"), "abssum": (lambda x, axis: np.abs(x).sum(axis), "int32"),
}  # fmt: skip


@pytest.mark.parametrize("op", OPS)
def test_an_epoch_of_every_operation(run, random, op):
    function, name = OPS[op]

    @T.prim_func
    def k(A: T.Tensor((5, 7), name), B: T.Tensor((5,), name)):
        with T.Kernel(1, threads=128):
            acc = T.alloc_reducer((5,), name, op=op)
            T.reducer_init(acc)
            for i, j in T.Parallel(5, 7):
                T.reducer_update(acc[i], A[i, j])
            out = T.alloc_fragment((5,), name)
            T.finalize_reducer(acc, out)
            T.copy(out, B)

    a = random.integers(0 if name == "uint8" else -50, 50, (5, 7)).astype(name)
    np.testing.assert_array_equal(run(k, a, np.zeros(5, name)), function(a, axis=1).astype(name))


def test_the_start_value_counts_once_and_is_taken_at_the_start(run):
    @T.prim_func
    def k(A: T.Tensor((8,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=128):
            seed = T.alloc_fragment((1,), "float32")
            seed[0] = 5.0
            acc = T.alloc_reducer((1,), "float32")
            T.reducer_init(acc, seed[0])
            seed[0] = 100.0
            for i in T.Parallel(8):
                T.reducer_update(acc[0], A[i])
            T.finalize_reducer(acc, B)

    assert run(k, np.arange(8, dtype=np.float32), np.zeros(1, np.float32)).tolist() == [33]


def test_no_updates_give_the_start_value(run):
    @T.prim_func
    def k(A: T.Tensor((2,), "float32")):
        with T.Kernel(1):
            acc = T.alloc_reducer((2,), "float32", op="max")
            T.reducer_init(acc, 3.5)
            T.finalize_reducer(acc, A)

    assert run(k, np.zeros(2, np.float32)).tolist() == [3.5, 3.5]


def test_an_epoch_for_each_iteration_and_several_places_of_update(run):
    @T.prim_func
    def k(A: T.Tensor((3, 4), "int32"), B: T.Tensor((3,), "int32")):
        with T.Kernel(1):
            for row in T.serial(3):
                acc = T.alloc_reducer((1,), "int32")
                T.reducer_init(acc)
                for i in T.Parallel(4):
                    T.reducer_update(acc[0], A[row, i])
                for i in T.Parallel(2):
                    T.reducer_update(acc[0], 100)
                out = T.alloc_fragment((1,), "int32")
                T.finalize_reducer(acc, out)
                B[row] = out[0]

    a = np.arange(12, dtype=np.int32).reshape(3, 4)
    np.testing.assert_array_equal(run(k, a, np.zeros(3, np.int32)), a.sum(1) + 200)


def test_the_end_may_stand_in_a_branch(run):
    @T.prim_func
    def k(A: T.Tensor((4,), "int32"), B: T.Tensor((2,), "int32")):
        with T.Kernel(2) as bx:
            acc = T.alloc_reducer((1,), "int32")
            T.reducer_init(acc)
            if bx == 0:
                B[bx] = -1
            else:
                for i in T.Parallel(4):
                    T.reducer_update(acc[0], A[i])
                out = T.alloc_fragment((1,), "int32")
                T.finalize_reducer(acc, out)
                B[bx] = out[0]

    assert run(k, np.array([1, 2, 3, 4], np.int32), np.zeros(2, np.int32)).tolist() == [-1, 10]


@pytest.mark.parametrize("replication", [None, "all", "none"])
def test_the_older_way(run, replication):
    @T.prim_func
    def k(A: T.Tensor((4, 6), "float32"), B: T.Tensor((4,), "float32"), C: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=64):
            total = T.alloc_reducer((4,), "float32", replication=replication)
            T.clear(total)
            largest = T.alloc_reducer((4,), "float32", op="max", replication=replication)
            T.fill(largest, -T.infinity("float32"))
            for i, j in T.Parallel(4, 6):
                total[i] += A[i, j]
                largest[i] = T.max(largest[i], A[i, j])
            T.finalize_reducer(total)
            T.finalize_reducer(largest)
            for i in T.Parallel(4):
                total[i] = total[i] * 2
            T.copy(total, B)
            T.copy(largest, C)

    a = np.arange(24, dtype=np.float32).reshape(4, 6) - 10
    b, c = np.zeros(4, np.float32), np.zeros(4, np.float32)
    run(k, a, b, c)
    np.testing.assert_array_equal(b, 2 * a.sum(1))
    np.testing.assert_array_equal(c, a.max(1))


def test_the_older_way_in_a_loop_and_without_a_clear(run):
    @T.prim_func
    def k(A: T.Tensor((3, 4), "float16"), B: T.Tensor((3,), "float32"), C: T.Tensor((1,), "float16")):
        with T.Kernel(1):
            row_sum = T.alloc_reducer((1,), "float32")
            rest = T.alloc_reducer((1,), "float16")
            for row in T.serial(3):
                T.clear(row_sum)
                for i in T.Parallel(4):
                    row_sum[0] += A[row, i] * 0.5
                    rest[0] -= A[row, i] * 1.0
                T.finalize_reducer(row_sum)
                B[row] = row_sum[0]
            T.finalize_reducer(rest)
            T.copy(rest, C)

    starts = [node for node in walk(k.kernel) if isinstance(node, ReducerInit)]
    assert len(starts) == 2
    a = np.arange(12, dtype=np.float16).reshape(3, 4)
    b, c = np.zeros(3, np.float32), np.zeros(1, np.float16)
    run(k, a, b, c)
    np.testing.assert_array_equal(b, a.astype(np.float32).sum(1) / 2)
    assert c[0] == -66


def test_an_update_before_the_start(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            acc = T.alloc_reducer((1,), "float32")
            for i in T.Parallel(4):
                T.reducer_update(acc[0], A[i])

    assert "is updated before T.reducer_init" in str(refused("E234", k))


def test_a_second_start(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            acc = T.alloc_reducer((1,), "float32")
            T.reducer_init(acc)
            T.reducer_init(acc)

    assert "a double T.reducer_init" in str(refused("E234", k))


def test_an_update_outside_of_parallel(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            acc = T.alloc_reducer((1,), "float32")
            T.reducer_init(acc)
            T.reducer_update(acc[0], A[0])

    assert "outside any T.Parallel" in str(refused("E234", k))


def test_a_mixture_of_the_two_ways(refused):
    def cleared(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            acc = T.alloc_reducer((1,), "float32")
            T.clear(acc)
            for i in T.Parallel(4):
                T.reducer_update(acc[0], A[i])

    def stored(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            acc = T.alloc_reducer((1,), "float32")
            T.reducer_init(acc)
            for i in T.Parallel(4):
                acc[0] += A[i]

    refused("E234", cleared)
    assert "T.reducer_update(r[i], x)" in refused("E210", stored).hint


def test_a_store_that_is_no_update(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            acc = T.alloc_reducer((1,), "float32", op="max")
            for i in T.Parallel(4):
                acc[0] += A[i]

    assert "r[i] = T.max(r[i], x)" in refused("E210", k).hint


def test_a_reducer_that_is_never_finalised(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            acc = T.alloc_reducer((1,), "float32")
            T.reducer_init(acc)
            for i in T.Parallel(4):
                T.reducer_update(acc[0], A[i])

    refused("E146", k)


def test_a_reading_before_the_end(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            acc = T.alloc_reducer((1,), "float32")
            T.reducer_init(acc)
            A[0] = acc[0]
            T.finalize_reducer(acc)

    refused("E146", k)


def test_an_end_in_a_loop_begun_later(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            acc = T.alloc_reducer((4,), "float32")
            T.reducer_init(acc)
            for _ in T.serial(3):
                T.finalize_reducer(acc, A)

    assert "in a loop begun after its start: this is not in the scope" in str(refused("E234", k))


def test_an_end_after_the_body_of_the_start(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            acc = T.alloc_reducer((4,), "float32")
            for _ in T.serial(3):
                T.reducer_init(acc)
            T.finalize_reducer(acc, A)

    assert "in a body that has ended: this is not in the scope" in str(refused("E234", k))


def test_two_ends(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            acc = T.alloc_reducer((4,), "float32")
            T.reducer_init(acc)
            T.finalize_reducer(acc, A)
            T.finalize_reducer(acc, A)

    assert "is finalised already" in str(refused("E234", k))


def test_a_start_value_of_another_type(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            acc = T.alloc_reducer((4,), "float32")
            T.reducer_init(acc, T.float16(1.0))

    assert "float16 does not match reducer acc, which is float32" in str(refused("E235", k))


def test_an_unknown_operation(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.alloc_reducer((4,), "float32", op="mean")

    assert "'mean'" in str(refused("E233", k))


@pytest.mark.parametrize("op", ["bitand", "bitor", "bitxor"])
def test_a_bitwise_operation_of_floats(refused, op):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.alloc_reducer((4,), "float32", op=op)

    assert isinstance(refused("E290", k), AssertionError)


def test_a_tile_is_no_reducer(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.finalize_reducer(T.alloc_fragment((4,), "float32"), A)

    assert "is no reducer" in str(refused("E234", k))


def test_a_batch_below_one(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            acc = T.alloc_reducer((4,), "float32")
            T.reducer_init(acc)
            T.finalize_reducer(acc, A, batch=0)

    refused("E245", k)


@pytest.mark.parametrize("batch", [3, 8])
def test_a_batch_that_does_not_divide_the_elements(refused, batch):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            acc = T.alloc_reducer((4,), "float32")
            T.reducer_init(acc)
            T.finalize_reducer(acc, A, batch=batch)

    refused("E291", k)


def test_an_update_of_a_whole_reducer(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            acc = T.alloc_reducer((4,), "float32")
            T.reducer_init(acc)
            for i in T.Parallel(4):
                T.reducer_update(acc, A[i])

    refused("E258", k)
