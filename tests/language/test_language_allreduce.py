"""T.tvm_thread_allreduce: a value of each lane combined over a dimension of the lanes."""

import numpy as np
import pytest

import zellige.language as T


def kernel_of(combine, identity, dtype, rows, columns):
    @T.prim_func
    def k(A: T.Tensor((2, rows, columns), dtype), B: T.Tensor((2, rows, columns), dtype), C: T.Tensor((2, rows, columns), dtype)):
        with T.Kernel(2, threads=(columns, rows)) as block:
            x = T.get_thread_binding(0)
            y = T.get_thread_binding(1)
            own = T.alloc_local((1,), dtype)
            found = T.alloc_local((1,), dtype)
            own[0] = A[block, y, x]
            with T.attr(T.comm_reducer(combine, [T.cast(identity, dtype)]), "reduce_scope", T.reinterpret(T.uint64(0), dtype="handle")):
                T.evaluate(T.tvm_thread_allreduce(T.uint32(1), own[0], True, found[0], y, dtype="handle"))
                B[block, y, x] = found[0]
                T.tvm_thread_allreduce(1, own[0], x != 1, found[0], x, y)
                C[block, y, x] = found[0]

    return k


CASES = {
    "sum": (lambda x, y: x + y, 0, "int32", np.sum),
    "product": (lambda x, y: x * y, 1, "float32", np.prod),
    "maximum": (lambda x, y: T.max(x, y), -100, "int8", np.max),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("rows", "columns"), [(4, 8), (5, 7), (1, 3), (40, 2)])
def test_a_reduction_over_lanes(run, random, name, rows, columns):
    combine, identity, dtype, meaning = CASES[name]
    a = random.integers(-2, 3, (2, rows, columns)).astype(dtype)
    b, c = np.zeros_like(a), np.zeros_like(a)
    run(kernel_of(combine, identity, dtype, rows, columns), a, b, c)
    np.testing.assert_array_equal(b, np.broadcast_to(meaning(a, axis=1, keepdims=True), a.shape))
    taking_part = np.delete(a, 1, axis=2)
    np.testing.assert_array_equal(c, np.broadcast_to(meaning(taking_part, axis=(1, 2), keepdims=True), a.shape))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e5m2"])
@pytest.mark.parametrize("op", ["sum", "product"])
def test_narrow_floats_are_combined_in_float32_and_rounded_once(run, op, dtype):
    """Each partial product of 3, 8, 5, 2, 7, 6, 4, 6 after the fourth would be rounded in bfloat16, and the sum in eight bits."""
    combine, identity = {"sum": (lambda x, y: x + y, 0), "product": (lambda x, y: x * y, 1)}[op]
    values = np.array([3, 8, 5, 2, 7, 6, 4, 6] if dtype == "bfloat16" else [3, 1.5, 5, 2, 7, 1.75, 4, 6], np.float32)
    narrow = T.dtype(dtype).numpy
    a = np.broadcast_to(values, (2, 1, 8)).astype(narrow)
    exact = getattr(np, {"sum": "sum", "product": "prod"}[op])
    b, c = np.zeros_like(a), np.zeros_like(a)
    run(kernel_of(combine, identity, dtype, 1, 8), a, b, c)
    expected = exact(np.delete(a, 1, axis=2).astype(np.float32), axis=(1, 2), keepdims=True).astype(narrow)
    np.testing.assert_array_equal(c, np.broadcast_to(expected, a.shape))


def test_reductions_that_are_none(refused):
    def alone(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=8):
            tx = T.get_thread_binding()
            T.tvm_thread_allreduce(1, A[tx], True, A[tx], tx)

    def pairs(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=8):
            T.comm_reducer(lambda x, y: x, [0, 0])

    def several(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=8):
            tx = T.get_thread_binding()
            with T.attr(T.comm_reducer(lambda x, y: x + y, [0]), "reduce_scope", 0):
                T.tvm_thread_allreduce(2, A[tx], True, A[tx], tx)

    def nowhere(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=8):
            tx = T.get_thread_binding()
            with T.attr(T.comm_reducer(lambda x, y: x + y, [0]), "reduce_scope", 0):
                T.tvm_thread_allreduce(1, A[tx], True, A, tx)

    def no_lane(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=8):
            tx = T.get_thread_binding()
            with T.attr(T.comm_reducer(lambda x, y: x + y, [0]), "reduce_scope", 0):
                T.tvm_thread_allreduce(1, A[tx], True, A[tx], tx + 1)

    def other(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=8), T.attr(A, "pragma_unroll", 1):
            A[0] = 1

    for function in (alone, pairs, several, nowhere, no_lane):
        refused("E258", function)
    refused("E402", other)
