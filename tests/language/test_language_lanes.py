"""The lane extension: queries, barriers, shuffles, votes, and what is built from them."""

import numpy as np
import pytest

import zellige.language as T
from zellige.ir.stmt import Barrier
from zellige.ir.traverse import walk


def test_numbers_of_lanes_and_blocks(run):
    @T.prim_func
    def k(A: T.Tensor((6, 64), "int32")):
        with T.Kernel(2, 3, threads=(8, 4, 2)) as (bx, by):
            x, y, z = T.get_thread_bindings()
            lane = x + T.get_thread_extent() * (y + T.get_thread_extent(1) * z)
            A[T.get_block_binding(1) * T.get_block_extent(0) + T.get_block_binding(), lane] = T.get_warp_idx() * 100 + T.get_lane_idx()

    a = run(k, np.full((6, 64), -1, np.int32))
    np.testing.assert_array_equal(a, np.tile([w * 100 + i for w in range(2) for i in range(32)], (6, 1)))


def test_bindings_by_the_name_of_a_dimension(run):
    @T.prim_func
    def k(A: T.Tensor((3, 4, 8), "int32")):
        with T.Kernel(3, threads=(8, 4)):
            x = T.thread_binding(0, 8, thread="threadIdx.x")
            y = T.thread_binding(0, 4, "threadIdx.y")
            block = T.get_block_binding()
            A[block, y, x] = x + 10 * y + 100 * block + 1000 * T.thread_binding(0, 1, thread="threadIdx.z")

    blocks, rows, columns = np.indices((3, 4, 8))
    np.testing.assert_array_equal(run(k, np.full((3, 4, 8), -1, np.int32)), columns + 10 * rows + 100 * blocks)


def test_loops_over_the_blocks_and_lanes_of_the_launch(run):
    n = T.dynamic("n")

    @T.prim_func
    def k(A: T.Tensor((n, 3, 64), "int32")):
        with T.Kernel(3, n, threads=64):
            for column in T.thread_binding(3, thread="blockIdx.x"):
                for row in T.thread_binding(n, "blockIdx.y"):
                    for lane in T.thread_binding(64, thread="threadIdx.x"):
                        A[row, column, lane] = 100 * row + 10 * column + lane

    rows, columns, lanes = np.indices((5, 3, 64))
    np.testing.assert_array_equal(run(k, np.full((5, 3, 64), -1, np.int32)), 100 * rows + 10 * columns + lanes)


def test_the_ranges_of_a_kernel_without_a_launch_are_its_launch(run):
    n = T.dynamic("n")

    @T.prim_func
    def k(A: T.Tensor((n, 3, 16, 4), "int32")):
        for column in T.thread_binding(3, thread="blockIdx.x"):
            for row in T.thread_binding(n, "blockIdx.y"):
                for lane in T.thread_binding(4, thread="threadIdx.x"):
                    other = T.thread_binding(0, 16, thread="threadIdx.y")
                    shared = T.alloc_shared((16, 4), "int32")
                    shared[15 - other, lane] = 1000 * row + 100 * column + 4 * other + lane
                    T.sync_threads()
                    A[row, column, other, lane] = shared[other, lane]

    rows, columns, others, lanes = np.indices((5, 3, 16, 4))
    np.testing.assert_array_equal(
        run(k, np.full((5, 3, 16, 4), -1, np.int32)), 1000 * rows + 100 * columns + 4 * (15 - others) + lanes
    )


def test_barriers_with_a_number_and_a_count(run):
    @T.prim_func
    def k(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            T.func_attr({"tir.noalias": True})
            tx = T.launch_thread("threadIdx.x", 64)
            which = T.int32(1)
            shared = T.alloc_shared((64,), "int32")
            shared[tx] = tx
            T.sync_threads(which)
            A[tx] = shared[63 - tx]
            T.sync_threads(tx // 32 + 1, 32)
            shared[63 - tx] = 2 * tx
            T.sync_threads(3, 64)
            A[tx] += 100 * shared[tx]

    lanes = np.arange(64)
    np.testing.assert_array_equal(run(k, np.full(64, -1, np.int32)), 63 - lanes + 200 * (63 - lanes))


def test_groups_of_warps(run):
    @T.prim_func
    def k(A: T.Tensor((2, 256), "int32")):
        with T.Kernel(1, threads=(128, 2)):
            lane = T.get_thread_binding() + 128 * T.get_thread_binding(1)
            A[0, lane] = T.get_warp_group_idx()
            A[1, lane] = T.get_warp_group_idx(16, 3)

    lanes = np.arange(256)
    np.testing.assert_array_equal(run(k, np.full((2, 256), -1, np.int32)), [lanes // 128, lanes // 48])


def test_a_binding_whose_range_is_not_the_launch(refused):
    def longer(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=8):
            A[T.thread_binding(0, 9)] = 1

    def shifted(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=8):
            A[T.thread_binding(1, 8)] = 1

    def nameless(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=8):
            A[T.thread_binding(0, 8, thread="vthread")] = 1

    def no_launch(A: T.Tensor((8,), "int32")):
        for block in T.thread_binding(4, thread="blockIdx.x"):
            A[block + T.thread_binding(0, 8, thread="blockIdx.x")] = 1

    def no_lanes(A: T.Tensor((8,), "int32")):
        for lane in T.thread_binding(0.5, thread="threadIdx.x"):
            A[lane] = 1

    def symbolic(A: T.Tensor((T.dynamic("n"), T.dynamic("m")), "int32")):
        with T.Kernel(A.shape[0]):
            A[T.thread_binding(0, A.shape[1], thread="blockIdx.x"), 0] = 1

    assert "the extent 8 that the launch has along threadIdx.x, not 9" in str(refused("E258", longer))
    assert "the extent 4 that the launch has along blockIdx.x, not 8" in str(refused("E258", no_launch))
    assert "the extent 1 that the launch has along threadIdx.x, not float 0.5" in str(refused("E258", no_lanes))
    assert "that the launch has along blockIdx.x" in str(refused("E258", symbolic))
    assert "a range from 0" in str(refused("E258", shifted))
    assert "one of threadIdx.x" in str(refused("E258", nameless))


def test_dimensions_that_were_not_given():
    @T.prim_func
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(5, threads=64):
            assert T.get_thread_extents() == [64, 1, 1]
            assert T.get_block_extents() == [5, 1, 1]
            assert T.get_thread_binding(2).constant == 0
            assert len(T.get_block_bindings()) == 1
            A[T.get_thread_binding()] = 1

    @T.prim_func
    def default(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            assert T.get_thread_extent() == 128
            A[0] = 1

    assert len(k.kernel.launches[0].lane_vars) == 1
    assert not default.kernel.launches[0].lane_vars, "an extent alone makes no lanes"


def test_a_barrier_without_lanes_has_nothing_to_do(run):
    @T.prim_func
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((4,), "int32")
            T.copy(A, tile)
            T.sync_threads()
            if A[0] == 0:
                T.sync_warp()
            T.copy(tile, A)

    assert not [node for node in walk(k.kernel) if isinstance(node, Barrier)]
    assert not k.kernel.launches[0].lane_vars
    assert run(k, np.arange(4, dtype=np.int32)).tolist() == [0, 1, 2, 3]


def test_lanes_meet_at_a_barrier(run):
    @T.prim_func
    def k(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            tile = T.alloc_shared((64,), "int32")
            tile[tx] = tx
            T.sync_threads()
            A[tx] = tile[63 - tx]

    assert [node.scope for node in walk(k.kernel) if isinstance(node, Barrier)] == ["block"]
    assert run(k, np.zeros(64, np.int32)).tolist() == list(range(63, -1, -1))


def test_shuffles(run):
    @T.prim_func
    def k(A: T.Tensor((5, 64), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            value = T.cast(tx, "float32")
            A[0, tx] = T.shfl_xor(value, 5)
            A[1, tx] = T.shfl_up(value, 3)
            A[2, tx] = T.shfl_down(value, 3, width=16)
            A[3, tx] = T.shfl_sync(value, tx % 4)
            A[4, tx] = T.shfl_xor(value, 1, 32, 0xFFFFFFFF)

    a = run(k, np.zeros((5, 64), np.float32))
    lanes = np.arange(64)
    local = lanes % 32
    np.testing.assert_array_equal(a[0], lanes ^ 5)
    np.testing.assert_array_equal(a[1], np.where(local >= 3, lanes - 3, lanes))
    np.testing.assert_array_equal(a[2], np.where(lanes % 16 < 13, lanes + 3, lanes))
    np.testing.assert_array_equal(a[3], lanes // 32 * 32 + lanes % 4)
    np.testing.assert_array_equal(a[4], lanes ^ 1)


def test_votes(run):
    @T.prim_func
    def k(A: T.Tensor((64,), "int32"), B: T.Tensor((7, 64), "int64")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            B[0, tx] = T.any_sync(A[tx] > 2)
            B[1, tx] = T.all_sync(A[tx])
            B[2, tx] = T.cast(T.ballot(A[tx] == 1), "int64")
            B[3, tx] = T.syncthreads_count(A[tx] == 1)
            B[4, tx] = T.syncthreads_and(A[tx] >= 0)
            B[5, tx] = T.syncthreads_or(A[tx] > 100)
            if tx % 2 == 1:
                B[6, tx] = T.cast(T.activemask(), "int64")

    values = np.zeros(64, np.int32)
    values[[3, 5]], values[40] = 1, 7
    values[32:40] = 2
    b = run(k, values, np.zeros((7, 64), np.int64))
    assert b[0, :32].tolist() == [0] * 32
    assert b[0, 32:].tolist() == [1] * 32
    assert not b[1].any()
    assert b[2].tolist() == [1 << 3 | 1 << 5] * 32 + [0] * 32
    assert b[3].tolist() == [2] * 64
    assert b[4].tolist() == [1] * 64
    assert b[5].tolist() == [0] * 64
    assert b[6, 1::2].tolist() == [0xAAAAAAAA] * 32


@pytest.mark.parametrize(
    ("name", "function"),
    [("sum", np.sum), ("max", np.max), ("min", np.min), ("bitand", np.bitwise_and.reduce), ("bitor", np.bitwise_or.reduce)],
)
def test_reductions_over_a_warp(run, random, name, function):
    reduce = getattr(T, f"warp_reduce_{name}")

    @T.prim_func
    def k(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            B[tx] = reduce(A[tx])

    a = random.integers(-1000, 1000, 64).astype(np.int32)
    np.testing.assert_array_equal(run(k, a, np.zeros(64, np.int32)), np.repeat(function(a.reshape(2, 32), axis=1), 32))


def test_lanes_that_agree(run):
    @T.prim_func
    def k(A: T.Tensor((32,), "int32"), B: T.Tensor((4, 32), "uint32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            B[0, tx] = T.match_any_sync(A[tx])
            B[1, tx] = T.match_all_sync(A[tx])
            B[2, tx] = T.match_all_sync(7)
            if tx < 10:
                B[3, tx] = T.match_any_sync(A[tx])

    a = np.arange(32, dtype=np.int32) % 3
    b = run(k, a, np.zeros((4, 32), np.uint32))
    masks = [sum(1 << lane for lane in range(32) if a[lane] == value) for value in a]
    assert b[0].tolist() == masks
    assert not b[1].any()
    assert b[2].tolist() == [0xFFFFFFFF] * 32
    assert b[3, :10].tolist() == [mask & 0x3FF for mask in masks[:10]]


def test_the_nth_bit_of_a_mask(run):
    find = getattr(T, "__fns")
    cases = [
        (0b10110, 0, 1),
        (0b10110, 0, 3),
        (0b10110, 0, 4),
        (0b10110, 3, 1),
        (0b10110, 3, -1),
        (0b10110, 3, -2),
        (0b10110, 2, 0),
        (0b10110, 3, 0),
    ]

    @T.prim_func
    def k(A: T.Tensor((8, 3), "int32"), B: T.Tensor((8,), "uint32")):
        with T.Kernel(1, threads=8):
            tx = T.get_thread_binding()
            B[tx] = find(T.cast(A[tx, 0], "uint32"), A[tx, 1], A[tx, 2])

    none = 0xFFFFFFFF
    assert run(k, np.array(cases, np.int32), np.zeros(8, np.uint32)).tolist() == [1, 4, none, 4, 2, 1, 2, none]


@pytest.mark.parametrize("extent", [0, 16, 64])
def test_one_lane_of_each_group(run, extent):
    @T.prim_func
    def k(A: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            A[T.get_thread_binding()] = T.shuffle_elect(extent)

    lanes = np.arange(128)
    np.testing.assert_array_equal(run(k, np.zeros(128, np.int32)), lanes == 0 if extent == 0 else lanes % extent == 0)


@pytest.mark.parametrize("width", [0, 3, 256, True])
def test_a_wrong_width(refused, width):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            A[0] = T.shfl_xor(A[0], 1, width)

    refused("E243", k)


@pytest.mark.parametrize("mask", [0, 1.0, True, "predicate"])
def test_a_predicate_in_the_place_of_the_mask(refused, mask):
    """Functions of devices take the mask first: the mask would be a condition that holds, and the predicate would say nothing."""

    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            A[0] = T.any_sync(0xFFFFFFFF, A[0] > 2 if mask == "predicate" else mask)

    assert "as the mask" in str(refused("E243", k))


def test_masks_that_name_lanes(run):
    @T.prim_func
    def k(A: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            is_late = T.any_sync(A[tx] > 30, 0xFFFFFFFF) + T.all_sync(A[tx] >= 0, T.uint32(0xFFFFFFFF))
            A[tx] = T.shfl_xor(A[tx], 1, mask=T.cast(T.activemask(), "uint32")) + 100 * is_late

    np.testing.assert_array_equal(run(k, np.arange(32, dtype=np.int32)), (np.arange(32) ^ 1) + 200)


@pytest.mark.parametrize("query", [T.get_thread_binding, T.get_thread_extent, T.get_block_binding, T.get_block_extent])
def test_a_wrong_dimension(refused, query):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            A[0] = query(3)

    refused("E241", k)


def test_a_dimension_that_the_grid_lacks(refused):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            A[0] = T.get_block_binding(1)

    assert "there are 1" in str(refused("E241", k))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ((-1,), "barrier_id is an integer from 0, not int -1"),
        ((1.5,), "barrier_id is an integer from 0, not float 1.5"),
        ((True,), "barrier_id is an integer from 0, not bool True"),
        ((1, 0), "arrive_count is an integer from 1 to 32, not int 0"),
        ((1, 33), "arrive_count is an integer from 1 to 32, not int 33"),
        ((1, "all"), "arrive_count is an integer from 1 to 32, not str 'all'"),
    ],
)
def test_a_barrier_that_there_is_not(refused, given, wanted):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            T.sync_threads(*given)

    assert wanted in str(refused("E242", k))


def test_attributes_of_the_function_that_are_none(refused):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            T.func_attr(["tir.noalias"])

    assert "T.func_attr needs a dictionary of names" in str(refused("E258", k))


def test_a_negative_group(refused):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            A[0] = T.shuffle_elect(-1)

    refused("E245", k)


def test_a_tile_operation_under_a_lane_s_condition(refused):
    def k(A: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((32,), "int32")
            if T.get_thread_binding() < 16:
                T.copy(A, tile)

    refused("E145", k)
