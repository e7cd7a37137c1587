"""Loop functions, T.Kernel and what they refuse."""

import warnings

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.ir.stmt import For, Map, Pipelined, RasterHint, Serial, Unrolled, Vectorised
from zellige.ir.traverse import walk


def loops(kernel):
    return [node for node in walk(kernel.kernel) if isinstance(node, (For, Map))]


def test_kinds_of_loops():
    @T.prim_func
    def k(A: T.Tensor((8,), "int32"), n: T.int64):
        with T.Kernel(1):
            for i in T.serial(8):
                A[i] = 0
            for i in T.unroll(0, 8, 2, unroll_factor=4):
                A[i] = 0
            for i in T.vectorized(8):
                A[i] = 0
            for i in T.Pipelined(2, 8, 3, order=[0, 1], stage=[-1, 0], group=[[0], [1]], sync=[]):
                A[i] = 0
            for i in T.Parallel(8, coalesced_width=2, loop_layout=None, prefer_async=True):
                A[i] = 0
            for i in T.Serial(n):
                A[i] = 0

    found = loops(k)
    kinds = [f.kind for f in found if isinstance(f, For)]
    assert kinds == [Serial(), Unrolled(factor=4), Vectorised(), Pipelined(stages=3, order=(0, 1), stage=(-1, 0)), Serial()]
    assert [f.vector_width for f in found if isinstance(f, Map)] == [2]
    assert found[-1].var.dtype == "int64"


@pytest.mark.parametrize("bounds", [(5,), (2, 7), (1, 10, 3), (10, 0, -3), (0, 0), (5, 2)])
def test_bounds_are_those_of_range(run, bounds):
    @T.prim_func
    def k(A: T.Tensor((16,), "int32")):
        with T.Kernel(1):
            for i in T.serial(*bounds):
                A[i] = A[i] + 1

    expected = np.zeros(16, np.int32)
    expected[list(range(*bounds))] = 1
    np.testing.assert_array_equal(run(k, np.zeros(16, np.int32)), expected)


def test_grids_and_points_of_several_dimensions(run):
    @T.prim_func
    def k(A: T.Tensor((2, 3), "int32"), B: T.Tensor((2, 3), "int32")):
        with T.Kernel(1):
            for i, j in T.grid(2, 3):
                A[i, j] = 10 * i + j
            for i, j in T.Parallel(2, 3):
                B[i, j] = A[1 - i, j]

    b = run(k, np.zeros((2, 3), np.int32), np.zeros((2, 3), np.int32))
    assert b.tolist() == [[10, 11, 12], [0, 1, 2]]


@pytest.mark.parametrize("domain", [(5,), (3, 7), (2, 3, 5)])
@pytest.mark.parametrize("group", [0, 1, 2, 8, None])
def test_persistent_blocks_visit_each_tile_once(run, domain, group):
    blocks = 4

    @T.prim_func
    def k(A: T.Tensor(domain, "int32")):
        with T.Kernel(blocks) as block:
            for point in T.Persistent(list(domain), blocks, block, group_size=group):
                A[point] += block + 1

    tiles = np.prod(domain)
    a = run(k, np.zeros(domain, np.int32))
    counts = [sum(1 for tile in range(tiles) if tile % blocks == block) for block in range(blocks)]
    assert sorted(a.ravel().tolist()) == sorted(block + 1 for block in range(blocks) for _ in range(counts[block]))


def test_a_while_block(run):
    @T.prim_func
    def k(A: T.Tensor((2,), "int32")):
        with T.Kernel(1):
            state = T.alloc_local((1,), "int32")
            state[0] = 0
            steps = 0
            with T.While(state[0] < 10):
                state[0] += 3
                steps = steps + 1
            A[0] = state[0]
            A[1] = steps

    assert run(k, np.zeros(2, np.int32)).tolist() == [12, 4]


def test_breaking_out_of_a_loop(run):
    @T.prim_func
    def k(A: T.Tensor((8,), "int32")):
        with T.Kernel(1):
            for i in T.serial(8):
                if A[i] == 3:
                    T.loop_break()
                A[i] = -1

    assert run(k, np.arange(8, dtype=np.int32)).tolist() == [-1, -1, -1, 3, 4, 5, 6, 7]


def test_forms_of_the_launch(run):
    @T.prim_func
    def none(A: T.Tensor((4,), "int32")):
        with T.Kernel():
            A[0] = 7

    @T.prim_func
    def one(A: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=32) as (bx,):
            A[bx] = bx

    @T.prim_func
    def listed(A: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=[8, 4]) as blocks:
            A[blocks[0]] = blocks

    @T.prim_func
    def older(A: T.Tensor((2, 2), "int32")):
        with T.Kernel(T.grid(2, 2), threads=256, is_cpu=True, cluster_dims=(1, 1, 1), prelude="") as (bx, by):
            A[by, bx] = 10 * by + bx

    @T.prim_func
    def pair(A: T.Tensor((2, 2), "int32")):
        with T.Kernel((2, 2)) as (bx, by):
            T.use_swizzle(3, order="column")
            A[by, bx] = 10 * by + bx

    assert run(none, np.zeros(4, np.int32)).tolist() == [7, 0, 0, 0]
    assert run(one, np.zeros(4, np.int32)).tolist() == [0, 1, 2, 3]
    assert run(listed, np.zeros(4, np.int32)).tolist() == [0, 1, 2, 3]
    for kernel in (older, pair):
        assert run(kernel, np.zeros((2, 2), np.int32)).tolist() == [[0, 1], [10, 11]]
    assert older.kernel.launches[0].cluster == (1, 1, 1)
    assert [h for h in pair.kernel.launches[0].hints if isinstance(h, RasterHint)][0].order == "column"


def test_a_step_of_zero(refused):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            for i in T.serial(0, 4, 0):
                A[i] = 0

    refused("E211", k)


@pytest.mark.parametrize(
    "options", [{"num_stages": -1}, {"num_stages": 1.5}, {"stage": 1}, {"order": ["a"]}, {"order": [0, 1], "stage": [0]}]
)
def test_a_wrong_schedule(refused, options):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            for i in T.Pipelined(4, **options):
                A[i] = 0

    refused("E212", k)


@pytest.mark.parametrize("make", [T.Parallel, T.grid])
def test_a_loop_without_extents(refused, make):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            for i in make():
                A[i] = 0

    refused("E213", k)


def test_two_ways_of_unrolling(refused):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            for i in T.unroll(4, explicit=True, unroll_factor=2):
                A[i] = 0

    refused("E110", k)


@pytest.mark.parametrize("factor", [0, "two"])
def test_a_factor_that_is_no_count(refused, factor):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            for i in T.unroll(4, unroll_factor=factor):
                A[i] = 0

    refused("E245", k)


@pytest.mark.parametrize(("wrong", "code"), [
    ({"group_size": -3}, "E245"), ({"wave_size": -1}, "E245"), ({"wave_size": 0}, "E245"), ({"num_stages": -3}, "E212"),
    ({"num_stages": 0.5}, "E212"),
])  # fmt: skip
def test_tiles_of_a_persistent_launch_that_are_counted_wrongly(refused, wrong, code):
    def k(A: T.Tensor((8, 8), "int32")):
        with T.Kernel(2) as bx:
            for i, j in T.Persistent((8, 8), **{"wave_size": 2, "index": bx, **wrong}):
                A[i, j] = 0

    refused(code, k)


@pytest.mark.parametrize(("schedule", "told"), [
    ({"order": [0]}, "order has 1 entry, the body has 2 statements"),
    ({"order": [0, 2, 1], "stage": [0, 1, 1]}, "stage has 3 entries, the body has 2 statements"),
    ({"order": [0, 1, 2], "group": [[0, 1]]}, "order has 3 entries, the body has 1 group"),
    ({"order": [0, 1], "stage": [0, 1]}, None),
    ({"order": [0], "stage": [0], "group": [[0, 1]]}, None),
])  # fmt: skip
def test_a_schedule_of_another_number_of_statements_is_told_of(schedule, told):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        @T.prim_func
        def k(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
            with T.Kernel(1):
                for i in T.Pipelined(4, **schedule):
                    A[i] = i
                    B[i] = A[i]

    assert (told is None and not caught) or f"E2001: {told}" in str(caught[-1].message)


@pytest.mark.parametrize("group", [7, [0], [[-1]], [[0.5]]])
def test_groups_of_a_schedule_that_are_none(refused, group):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            for i in T.Pipelined(4, group=group):
                A[i] = 0

    refused("E212", k)


def test_a_grid_of_four_dimensions(refused):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, 2, 3, 4):
            A[0] = 0

    refused("E214", k)


def test_a_negative_grid(refused):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(-2):
            A[0] = 0

    refused("E215", k)


@pytest.mark.parametrize("threads", [0, -32, (1, 1, 1, 1), []])
def test_a_wrong_number_of_threads(refused, threads):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=threads):
            A[0] = 0

    refused("E216", k)


def test_a_cluster_of_nothing(refused):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, cluster_dims=(0, 1, 1)):
            A[0] = 0

    refused("E245", k)


def test_a_misspelt_option_of_the_launch(refused):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, thread=128):
            A[0] = 0

    assert "did you mean 'threads'" in str(refused("E259", k))


def test_a_while_block_that_cannot_end(refused):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1) as bx:
            with T.While(bx == 0):
                A[0] = 0

    assert "its condition cannot change" in str(refused("E121", k))


@pytest.mark.parametrize("counts_in", ["variable", "fragment"])
def test_a_while_whose_body_leaves_alone_what_its_condition_reads(refused, counts_in):
    def k(A: T.Tensor((4,), "int32"), n: T.int32):
        with T.Kernel(1):
            at = T.alloc_var("int32", init=0) if counts_in == "variable" else T.alloc_fragment((4,), "int32")
            tile = T.alloc_fragment((4,), "int32")
            while (at if counts_in == "variable" else at[0]) < n:
                T.copy(A, tile)
                tile[0] += 1

    assert "its condition cannot change" in str(refused("E121", k))


def test_a_while_that_waits_for_another_block_is_taken():
    @T.prim_func
    def k(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(2) as bx:
            if bx == 1:
                while B[0] == 0:
                    B[1] += 1
            T.atomic_store(B[0], 1)

    assert "while B[0] == 0" in k.script()


def test_loops_whose_condition_always_holds_and_that_something_ends():
    @T.prim_func
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            with T.While(True):
                A[0] += 1
                if A[0] > 3:
                    T.loop_break()
            while True:
                A[1] += 1
                for i in range(4):
                    if A[i] > 5:
                        return

    a = np.zeros(4, np.int32)
    zl.compile(k, target="interp")(a)
    assert list(a) == [4, 6, 0, 0]


def test_a_break_outside_of_a_loop(refused):
    def outside(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            T.loop_break()

    def points(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            for i in T.Parallel(4):
                if A[i] == 0:
                    T.loop_break()

    refused("E111", outside)
    refused("E114", points)


def test_a_group_known_only_at_run_time(refused):
    def k(A: T.Tensor((4,), "int32"), n: T.int32):
        with T.Kernel(2) as block:
            for i in T.Persistent([4], 2, block, group_size=n):
                A[i] = 0

    refused("E105", k)


@pytest.mark.parametrize("operation", ["T.alloc_shared", "T.copy", "T.Kernel", "T.print", "T.gemm"])
def test_an_operation_outside_of_a_kernel(operation):
    name = operation.removeprefix("T.")
    arguments = {"alloc_shared": ((4,), "float32"), "Kernel": (1,), "print": (1,)}
    tile = T.Tensor((4, 4), "float32")
    with pytest.raises(Exception) as caught:
        getattr(T, name)(*arguments.get(name, (tile,) * (3 if name == "gemm" else 2)))
    assert caught.value.code in ("E101", "E222")


def test_parallel_in_small_letters_is_the_same_loop(run):
    @T.prim_func
    def k(A: T.Tensor((4, 6), "int32"), B: T.Tensor((6, 4), "int32")):
        with T.Kernel(1):
            for i in T.parallel(4):
                for j in T.parallel(6):
                    B[j, i] = A[i, j]

    a = np.arange(24, dtype=np.int32).reshape(4, 6)
    np.testing.assert_array_equal(run(k, a, np.zeros((6, 4), np.int32)), a.T)
