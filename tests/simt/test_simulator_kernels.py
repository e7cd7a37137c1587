"""Kernels of every kind on the simulator, against the interpreter, exact where data are whole numbers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zellige
import zellige.language as T
from zellige.diagnostics import LaunchError, Unsupported
from zellige.dtypes import dtype as as_dtype

sys.path.insert(0, str(Path(__file__).parent))
from simulated import TARGET, agree, whole_numbers  # noqa: E402

SUMS = {"int8": "int32", "float64": "float64"}


def product(rows: int, columns: int, depth: int, dtype: str, stages: int, m: int, n: int, k: int, threads: int = 128) -> Any:
    accumulate = SUMS.get(dtype, "float32")

    @T.prim_func
    def multiply(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), accumulate)):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=threads) as (bx, by):
            a = T.alloc_shared((rows, depth), dtype)
            b = T.alloc_shared((depth, columns), dtype)
            c = T.alloc_fragment((rows, columns), accumulate)
            T.clear(c)
            for s in T.Pipelined(T.ceildiv(k, depth), num_stages=stages):
                T.copy(A[by * rows, s * depth], a)
                T.copy(B[s * depth, bx * columns], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * rows, bx * columns])

    return multiply


def operands(m: int, n: int, k: int, dtype: str) -> list[Any]:
    held = as_dtype(dtype).numpy
    return [whole_numbers((m, k), held, 1), whole_numbers((k, n), held, 2), np.zeros((m, n), SUMS.get(dtype, "float32"))]


@pytest.mark.parametrize("stages", range(5))
def test_products_are_the_same_whatever_is_in_flight(stages: int) -> None:
    agree(product(32, 32, 16, "float16", stages, 37, 40, 72, threads=64), *operands(37, 40, 72, "float16"))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "int8", "float64"])
def test_products_of_other_types(dtype: str) -> None:
    agree(product(32, 16, 16, dtype, 2, 33, 24, 40, threads=64), *operands(33, 24, 40, dtype))


@pytest.mark.parametrize("size", [1, 7, 33])
def test_products_of_odd_sizes(size: int) -> None:
    agree(product(32, 16, 16, "float16", 2, size, size, size, threads=32), *operands(size, size, size, "float16"))


@pytest.mark.slow
@pytest.mark.parametrize("size", [127, 129])
@pytest.mark.parametrize("width", [24, 40, 48, 80, 112, 176])
def test_products_of_odd_widths(size: int, width: int) -> None:
    agree(product(64, width, 32, "float16", 3, size, width + 1, 65), *operands(size, width + 1, 65, "float16"))


def test_more_warps_than_rows() -> None:
    """The blocks of the warps reach beyond the tile: those rows are zeros, nothing outside is read."""
    agree(product(64, 5, 32, "float16", 0, 3, 5, 32), *operands(3, 5, 32, "float16"))


@pytest.mark.parametrize("n", [1, 7, 127, 129])
def test_copies_of_sizes_known_at_the_call(n: int) -> None:
    @T.prim_func
    def scaled(A: T.Tensor((T.dynamic("n"),), "float32"), B: T.Tensor((T.dynamic("n"),), "float32"), factor: T.float32):
        with T.Kernel(T.ceildiv(A.shape[0], 64), threads=64) as bx:
            for i in T.Parallel(64):
                B[bx * 64 + i] = A[bx * 64 + i] * factor

    agree(scaled, whole_numbers(n, np.float32), np.zeros(n, np.float32), 3.0)


def reduction(rows: int, width: int, threads: int) -> Any:
    @T.prim_func
    def reduce(A: T.Tensor((rows, width), "float32"), S: T.Tensor((rows,), "float32"), M: T.Tensor((rows, width), "float32")):
        with T.Kernel(1, threads=threads):
            tile = T.alloc_fragment((rows, width), "float32")
            total = T.alloc_fragment((rows,), "float32")
            most = T.alloc_fragment((rows,), "float32")
            T.copy(A, tile)
            T.reduce_sum(tile, total, dim=1)
            T.reduce_max(tile, most, dim=1)
            for i, j in T.Parallel(rows, width):
                tile[i, j] = tile[i, j] - most[i]
            T.copy(total, S)
            T.copy(tile, M)

    return reduce


@pytest.mark.parametrize(("rows", "width", "threads"), [(3, 24, 32), (16, 40, 64), (5, 48, 128), (1, 129, 64), (17, 80, 96)])
def test_reductions_with_replicated_layouts(rows: int, width: int, threads: int) -> None:
    total, tile = np.zeros(rows, np.float32), np.zeros((rows, width), np.float32)
    agree(reduction(rows, width, threads), whole_numbers((rows, width), np.float32), total, tile)


@pytest.mark.parametrize("width", [7, 40])
def test_scans(width: int) -> None:
    @T.prim_func
    def scan(A: T.Tensor((4, width), "int32"), B: T.Tensor((4, width), "int32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((4, width), "int32")
            T.copy(A, tile)
            T.cumsum(tile, dim=1)
            T.copy(tile, B)

    agree(scan, whole_numbers((4, width), np.int32), np.zeros((4, width), np.int32))


def test_atomics_of_all_blocks() -> None:
    @T.prim_func
    def count(A: T.Tensor((300,), "int32"), H: T.Tensor((7,), "int32")):
        with T.Kernel(5, threads=32) as bx:
            for i in T.Parallel(60):
                T.atomic_add(H[A[bx * 60 + i]], 1)

    agree(count, whole_numbers(300, np.int32, low=0, high=7), np.zeros(7, np.int32))


def test_lane_kernels_with_shuffles_and_barriers() -> None:
    @T.prim_func
    def exchange(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32"), C: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            tile = T.alloc_shared((64,), "int32")
            tile[t] = A[t]
            T.sync_threads()
            C[t] = tile[63 - t]
            B[t] = T.shfl_xor(A[t], 5)

    agree(exchange, whole_numbers(64, np.int32, high=90), np.zeros(64, np.int32), np.zeros(64, np.int32))


def test_every_lane_has_the_whole_of_a_local_tile() -> None:
    """What one operation of a block writes to it another may read in any order."""

    @T.prim_func
    def through(A: T.Tensor((8, 4), "int32"), B: T.Tensor((4, 8), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_local((8, 4), "int32")
            twice = T.alloc_local((8, 4), "int32")
            T.copy(A, tile)
            for i, j in T.Parallel(8, 4):
                twice[i, j] = tile[7 - i, j] * 2
            for i, j in T.Parallel(4, 8):
                B[i, j] = twice[j, 3 - i]

    agree(through, whole_numbers((8, 4), np.int32, high=90), np.zeros((4, 8), np.int32))


def test_a_tensor_that_begins_between_wide_accesses() -> None:
    @T.prim_func
    def move(A: T.Tensor((16, 16), "float16"), B: T.Tensor((16, 16), "float16")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((16, 16), "float16")
            T.copy(A, tile)
            T.copy(tile, B)

    kernel = zellige.compile(move, target=TARGET)
    data = np.zeros(256 + 16, np.float16)
    start = -data.ctypes.data // 2 % 8
    data[:] = np.arange(len(data))
    for first in (start, start + 1):
        given = data[first:][:256].reshape(16, 16)
        found = np.zeros(257, np.float16)
        kernel(given, found[1:].reshape(16, 16))
        np.testing.assert_array_equal(found[1:].reshape(16, 16), given)
        assert found[0] == 0
    with pytest.raises(LaunchError, match="E610.*2 bytes"):
        kernel(data.view(np.uint8)[1:513].view(np.float16).reshape(16, 16), np.zeros((16, 16), np.float16))


def test_torch_tensors_of_the_host() -> None:
    torch = pytest.importorskip("torch")
    kernel = zellige.compile(product(16, 16, 16, "float16", 1, 16, 16, 16, threads=32), target=TARGET)
    a, b = (torch.from_numpy(x) for x in operands(16, 16, 16, "float16")[:2])
    c = torch.zeros(16, 16)
    kernel(a, b, c)
    assert torch.equal(c, a.float() @ b.float())
    assert "__global__" in kernel.get_kernel_source()
    with pytest.raises(Unsupported, match="E440"):
        kernel.get_asm()


def test_a_users_race_is_found_with_its_line() -> None:
    @T.prim_func
    def race(A: T.Tensor((64,), "int32")):
        with T.Kernel(2, threads=64):
            for i in T.Parallel(64):
                A[i] = A[i] + 1

    with pytest.raises(LaunchError, match="E652") as caught:
        zellige.compile(race, target=TARGET)(np.zeros(64, np.int32))
    assert Path(__file__).name in str(caught.value)
    assert "of block 0" in str(caught.value) and "of block 1" in str(caught.value)
    assert "blocks do not wait for each other" in caught.value.hint


def test_a_race_within_a_block_names_no_block() -> None:
    @T.prim_func
    def race(A: T.Tensor((64,), "int32")):
        with T.Kernel(2, threads=64) as block:
            lane = T.get_thread_binding()
            A[32 * block + lane // 2] = lane

    with pytest.raises(LaunchError, match="E652") as caught:
        zellige.compile(race, target=TARGET)(np.zeros(64, np.int32))
    assert "of block" not in str(caught.value) and "barrier" in caught.value.hint


def test_lanes_that_store_one_value_are_no_race() -> None:
    @T.prim_func
    def sums(A: T.Tensor((8, 32), "float32"), B: T.Tensor((8,), "float32"), C: T.Tensor((8,), "int32")):
        with T.Kernel(2, threads=(4, 32)) as block:  # the four lanes of an element lie in one warp, all elements' in four
            row, column = T.get_thread_binding(0), T.get_thread_binding(1)
            rows = T.alloc_shared((4,), "float32")
            rows[row] = 7
            T.sync_threads()
            rows[row] = A[4 * block + row, 0] + A[4 * block + row, 31]
            T.sync_threads()
            B[4 * block + row] = rows[row] + T.cast(column * 0, "float32")
            C[(4 * block + row) // 8] = 5

    a, b, c = np.arange(256, dtype=np.float32).reshape(8, 32), np.zeros(8, np.float32), np.zeros(8, np.int32)
    zellige.compile(sums, target=TARGET)(a, b, c)
    np.testing.assert_array_equal(b, a[:, 0] + a[:, 31])
    np.testing.assert_array_equal(c, [5, 0, 0, 0, 0, 0, 0, 0])


@pytest.mark.parametrize("threads", [32, 128])
def test_lanes_that_store_two_values_are_one(threads: int) -> None:
    @T.prim_func
    def race(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=threads):
            lane = T.get_thread_binding()
            A[lane % 2] = lane // (threads - 1)

    with pytest.raises(LaunchError, match="E652"):
        zellige.compile(race, target=TARGET)(np.zeros(64, np.int32))


@pytest.mark.parametrize("first", [0, 1])
def test_an_odd_tensor_of_two_blocks_of_which_one_reads_pairs(first: int) -> None:
    """A tensor at any element is reached by all blocks of a call alike, also where only one of them would like it aligned."""

    @T.prim_func
    def pairs(A: T.Tensor((64, 2), "int16"), B: T.Tensor((64, 2), "int16")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((64, 2), "int16")
            T.copy(A, tile)
            for i, j in T.Parallel(64, 2):
                tile[i, j] += 1
            T.copy(tile, A)
        with T.Kernel(1, threads=32):
            B[A[3, 0], 0] = A[2, 1]

    room = np.zeros(256, np.int16)
    begin = -room.ctypes.data // 2 % 8 + first
    values = room[begin : begin + 128].reshape(64, 2)
    values[:] = np.arange(128).reshape(64, 2) % 50
    results = []
    for target, given in (("interp", values.copy()), (TARGET, values)):
        out = np.zeros((64, 2), np.int16)
        zellige.compile(pairs, target=target)(given, out)
        results.append((given, out))
    for want, found in zip(*results):
        np.testing.assert_array_equal(found, want)


def test_a_parallel_loop_of_nothing_is_nothing() -> None:
    @T.prim_func
    def idle(A: T.Tensor((40,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(40):
                pass
            for i in T.Parallel(40):
                A[i] = i

    agree(idle, np.zeros(40, np.int32))


def test_rows_chosen_by_elements_that_the_point_itself_writes() -> None:
    """Seed 375 of the generated programs: neighbours are read together before the point runs, so the row has to be known by then."""

    @T.prim_func
    def gather(A: T.Tensor((8, 64), "float32"), B: T.Tensor((8, 64), "float32"), C: T.Tensor((8, 64), "float32")):
        with T.Kernel(1, threads=32) as _:
            last = T.alloc_shared((8,), "int32")
            T.fill(last, 3)
            for i, j in T.Parallel(8, 64):
                row = T.alloc_local((1,), "int32")
                row[0] = 7 - i
                B[i, j] = A[row[0], j]
            for i, j in T.Parallel(8, 64):
                C[i, j] = A[last[i], j]

    rows = np.arange(512, dtype=np.float32).reshape(8, 64)
    agree(gather, rows, np.zeros_like(rows), np.zeros_like(rows))


@pytest.mark.parametrize("threads", [7, 32, 64])
def test_a_product_begins_anew_as_an_element_of_an_operand_says(threads: int) -> None:
    """Seed 403 of the generated programs: the element is read by every lane, so the barrier stands before that and not behind."""

    @T.prim_func
    def multiply(A: T.Tensor((16, 16), "float16"), B: T.Tensor((16, 16), "float16"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=threads) as _:
            a = T.alloc_shared((16, 16), "float16")
            b = T.alloc_shared((16, 16), "float16")
            c = T.alloc_fragment((16, 16), "float32")
            T.fill(c, 5)
            for i, j in T.Parallel(16, 16):
                a[i, j] = A[i, j]
                b[i, j] = B[i, j] + T.Cast("float16", 1)
            T.gemm(a, b, c, clear_accum=b[1, 2] > a[2, 4])
            T.copy(c, C)

    for seed in range(3):
        a, b = (whole_numbers((16, 16), np.float16, 2 * seed + n) for n in range(2))
        agree(multiply, a, b, np.zeros((16, 16), np.float32))


def test_a_copy_begins_where_an_element_says() -> None:
    @T.prim_func
    def shifted(A: T.Tensor((64, 32), "float32"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=64) as _:
            first = T.alloc_shared((4,), "int32")
            tile = T.alloc_shared((32, 32), "float32")
            for i in T.Parallel(4):
                first[i] = 8 * i
            T.copy(A[first[3], 0], tile)
            T.copy(tile, C)

    rows = np.arange(2048, dtype=np.float32).reshape(64, 32)
    agree(shifted, rows, np.zeros((32, 32), np.float32))


def test_copies_of_sums_do_not_read_what_another_lane_has_changed() -> None:
    """Two of four groups of warps hold copies of the sums of so small a product; only one of the copies may change the tile in memory, and
    each would read it before that or after."""

    @T.prim_func
    def changed(A: T.Tensor((7, 7), "float16"), S: T.Tensor((7, 9), "float32"), W: T.Tensor((7, 9), "float16")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((7, 7), "float16")
            t = T.alloc_shared((7, 9), "float16")
            c = T.alloc_fragment((7, 9), "float32")
            T.copy(A, a)
            T.fill(t, 2.0)
            T.clear(c)
            T.gemm(a, t, c)
            for i, j in T.Parallel(7, 9):
                c[i, j] = c[i, j] + t[i, j]
                t[i, j] = c[i, j]
            T.copy(c, S)
            T.copy(t, W)

    arguments = whole_numbers((7, 7), np.float16), np.zeros((7, 9), np.float32), np.zeros((7, 9), np.float16)
    agree(changed, *arguments)
    text = zellige.compile(changed, target=TARGET).get_kernel_source()
    assert "c lives in shared memory: lanes with copies of it would read in memory what one of them has changed there" in text


def test_elements_of_fragments_that_a_whole_block_needs() -> None:
    """The value of a fill, whether a product clears its sums, where a copy begins: one element each, which every lane reads."""

    @T.prim_func
    def taken(A: T.Tensor((16, 16), "float16"), N: T.Tensor((4,), "int32"), C: T.Tensor((16, 16), "float32"), D: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((16, 16), "float16")
            f = T.alloc_fragment((16, 16), "float32")
            numbers = T.alloc_fragment((4,), "int32")
            c = T.alloc_fragment((16, 16), "float32")
            d = T.alloc_fragment((8,), "float32")
            T.copy(A, a)
            T.copy(N, numbers)
            for i, j in T.Parallel(16, 16):
                f[i, j] = a[i, j] + 1
            T.fill(c, f[3, 1] * 2)
            T.gemm(a, a, c, clear_accum=numbers[1] == 1)
            T.fill(d, f[2, 5] - f[1, 0])
            T.copy(c, C)
            T.copy(d, D[numbers[0]])

    for clears in (0, 1):
        numbers = np.array([clears, clears, 0, 0], np.int32)
        agree(taken, whole_numbers((16, 16), np.float16), numbers, np.zeros((16, 16), np.float32), np.zeros(8, np.float32))


def test_what_divides_a_loop_variable_is_found_anew_in_each_part_of_a_loop() -> None:
    """The loop is split where the copies become partial; in the first part, of one iteration, t // 3 is 0, and in the rest it is not."""

    @T.prim_func
    def parts(A: T.Tensor((24,), "float16"), C: T.Tensor((3, 3, 16), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((16,), "float32")
            for t in T.serial(9):
                T.copy(A[t * 16], a)
                T.copy(a, C[t % 3, t // 3, 0:16])

    agree(parts, whole_numbers((24,), np.float16), np.full((3, 3, 16), 7, np.float32))


@pytest.mark.parametrize("number", [2**31 - 1, -(2**31), 2**30, -(2**30), 1, 0])
def test_an_index_that_wraps_is_the_number_that_is_tested(number: int) -> None:
    """Twice the least or the largest number is 0 or -2 in 32 bits: that element is meant, and no address beyond the tensor."""

    @T.prim_func
    def wrapping(N: T.Tensor((4,), "int32"), A: T.Tensor((7, 21), "float32"), C: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                C[i] = A[N[i] + N[i], i] + A[N[i] * 4 + 3, i]

    agree(wrapping, np.full(4, number, np.int32), whole_numbers((7, 21), np.float32), np.zeros(4, np.float32))


@pytest.mark.parametrize("rows,dtype", [(3, "float32"), (3, "float16"), (3, "uint8"), (6, "float32"), (12, "uint8"), (24, "int8")])
def test_few_sums_that_are_no_power_of_two(rows: int, dtype: str) -> None:
    """A lane passes on as many of them at once as one access takes: 2, 4, 8 or 16 bytes."""

    @T.prim_func
    def largest(A: T.Tensor((rows, 200), dtype), B: T.Tensor((rows,), dtype)):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((rows, 200), dtype)
            result = T.alloc_fragment((rows,), dtype)
            T.copy(A, tile)
            T.reduce_max(tile, result, dim=1)
            T.copy(result, B)

    a = whole_numbers((rows, 200), dtype, low=0, high=100)
    found = agree(largest, a, np.zeros(rows, dtype))
    np.testing.assert_array_equal(found[1], a.max(1))
