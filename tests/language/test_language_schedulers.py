"""Helpers with state: T.PersistentTileScheduler, T.meta_class, T.inline."""

import numpy as np
import pytest

import zellige.language as T


def expected_order(rows: int, columns: int, width: int, column_major: bool) -> list[tuple[int, int]]:
    """All tiles in their order: along the fast axis, ``width`` of the slow axis side by side."""
    fast, slow = (rows, columns) if column_major else (columns, rows)
    order = []
    for first in range(0, slow, width):
        for position in range(fast):
            for other in range(first, min(first + width, slow)):
                order.append((position, other) if column_major else (other, position))
    return order


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("column_major", [True, False])
def test_a_scheduler_deals_out_the_tiles(run, width, column_major):
    rows, columns, workers = 4, 5, 3

    @T.prim_func
    def k(A: T.Tensor((workers, 20, 3), "int32"), N: T.Tensor((workers,), "int32")):
        with T.Kernel(workers) as block:
            scheduler = T.PersistentTileScheduler(rows, columns, swizzle_size=width, column_major=column_major, name="sched")
            scheduler.init(block)
            while scheduler.valid():
                m, n = scheduler.m_idx, scheduler.n_idx
                A[block, scheduler.current_iter, 0] = m
                A[block, scheduler.current_iter, 1] = n
                A[block, scheduler.current_iter, 2] = scheduler.linear_idx
                scheduler.next_tile()
            N[block] = scheduler.current_iter

    a, n = np.zeros((workers, 20, 3), np.int32), np.zeros(workers, np.int32)
    run(k, a, n)
    order = expected_order(rows, columns, width, column_major)
    for block in range(workers):
        own = list(range(block, rows * columns, workers))
        assert n[block] == len(own)
        assert a[block, : len(own)].tolist() == [[*order[tile], tile] for tile in own]


def test_coordinates_without_state(run):
    @T.prim_func
    def k(A: T.Tensor((6, 2), "int32")):
        with T.Kernel(1):
            scheduler = T.PersistentTileScheduler(4, 3, num_workers=2, cluster_size=2, stateful=False)
            for tile in T.serial(6):
                A[tile, 0], A[tile, 1] = scheduler.coord(tile)

    assert run(k, np.zeros((6, 2), np.int32)).tolist() == [list(p) for p in expected_order(2, 3, 1, True)]


def test_a_scheduler_without_state_has_no_current_tile(refused):
    def k(A: T.Tensor((6, 2), "int32")):
        with T.Kernel(1):
            A[0, 0] = T.PersistentTileScheduler(4, 3, stateful=False).m_idx

    refused("E110", k)


@pytest.mark.parametrize("options", [{"swizzle_size": 0}, {"cluster_size": -1}])
def test_a_size_that_is_no_count(refused, options):
    def k(A: T.Tensor((6, 2), "int32")):
        with T.Kernel(1):
            T.PersistentTileScheduler(4, 3, **options)

    refused("E245", k)


@T.meta_class
class Counter:
    """Counts how often a value was above a limit."""

    def __init__(self, limit):
        self.limit = limit
        self._count = T.alloc_var("int32")

    @property
    def count(self):
        return self._count[0]

    def see(self, value):
        if value > self.limit:
            self._count[0] += 1


class Doubler:
    @T.inline
    def store(self, tile, index, value):
        if value > 0:
            tile[index] = value * 2


class RowScheduler(T.BaseTileScheduler):
    def __init__(self, total):
        super().__init__()
        self._total_tiles = total

    def coord(self, tile_id):
        return tile_id, 0


def test_methods_are_expanded_where_they_are_called(run):
    @T.prim_func
    def k(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32"), C: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            counter = Counter(3)
            doubler = Doubler()
            for i in T.serial(8):
                counter.see(A[i])
                doubler.store(B, i, A[i] - 2)
            C[0] = counter.count

    b, c = np.full(8, -1, np.int32), np.zeros(1, np.int32)
    run(k, np.arange(8, dtype=np.int32), b, c)
    assert c[0] == 4
    assert b.tolist() == [-1, -1, -1, 2, 4, 6, 8, 10]


def test_a_scheduler_of_one_s_own(run):
    @T.prim_func
    def k(A: T.Tensor((7,), "int32")):
        with T.Kernel(2) as block:
            rows = RowScheduler(7)
            rows.init(block)
            while rows.valid():
                A[rows.m_idx] = block + 1
                rows.next_tile(2)

    assert run(k, np.zeros(7, np.int32)).tolist() == [1, 2, 1, 2, 1, 2, 1]
