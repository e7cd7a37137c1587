"""T.rng_*: Philox4x32-10 against its definition, in lanes, blocks and points."""

import numpy as np
import pytest

import zellige.language as T


def philox(seed: int, sequence: int, number: int) -> int:
    """Word ``number`` of a sequence, straight from the paper's round function."""
    block = number >> 2
    counter = [block & 0xFFFFFFFF, block >> 32, sequence & 0xFFFFFFFF, sequence >> 32]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        a, b = counter[0] * 0xD2511F53, counter[2] * 0xCD9E8D57
        counter = [(b >> 32) ^ counter[1] ^ key[0], b & 0xFFFFFFFF, (a >> 32) ^ counter[3] ^ key[1], a & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter[number & 3]


def test_the_published_test_vector():
    # the known answer of philox4x32-10 for counter 0 and key 0 (Random123, kat_vectors)
    assert [philox(0, 0, n) for n in range(4)] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def test_numbers_of_a_sequence(run):
    @T.prim_func
    def k(A: T.Tensor((10,), "uint32"), seed: T.int64):
        with T.Kernel(1):
            T.rng_init(seed, 5, 3)
            for i in T.serial(10):
                A[i] = T.rng_rand()

    a = np.zeros(10, np.uint32)
    run(k, a, (1 << 40) + 7)
    assert a.tolist() == [philox((1 << 40) + 7, 5, 3 + n) for n in range(10)]


def test_each_lane_of_the_grid_has_a_sequence(run):
    @T.prim_func
    def k(A: T.Tensor((2, 3, 8), "uint32")):
        with T.Kernel(3, 2, threads=8) as (bx, by):
            T.rng_init(42)
            tx = T.get_thread_binding()
            A[by, bx, tx] = T.rng_rand()

    a = run(k, np.zeros((2, 3, 8), np.uint32))
    assert a.ravel().tolist() == [philox(42, lane, 0) for lane in range(48)]


def test_points_draw_in_their_order_and_the_position_goes_on(run):
    @T.prim_func
    def k(A: T.Tensor((3, 4, 2), "uint32"), B: T.Tensor((5,), "uint32"), C: T.Tensor((1,), "uint32")):
        with T.Kernel(1):
            T.rng_init(1, 2, 0)
            for i, j in T.Parallel(3, 4):
                A[i, j, 0] = T.rng_rand()
                A[i, j, 1] = T.rng_rand()
            for i in T.Parallel(5):
                if i > 2:
                    B[i] = T.rng_rand()
            C[0] = T.rng_rand()

    a, b, c = np.zeros((3, 4, 2), np.uint32), np.zeros(5, np.uint32), np.zeros(1, np.uint32)
    run(k, a, b, c)
    assert a.ravel().tolist() == [philox(1, 2, n) for n in range(24)]
    assert b.tolist() == [0, 0, 0, philox(1, 2, 27), philox(1, 2, 28)]
    assert c[0] == philox(1, 2, 29)


def test_points_that_draw_in_a_loop_do_not_meet(run):
    @T.prim_func
    def k(A: T.Tensor((4, 50), "uint32")):
        with T.Kernel(1):
            T.rng_init(9, 0)
            for i in T.Parallel(4):
                for j in T.serial(50):
                    A[i, j] = T.rng_rand()

    a = run(k, np.zeros((4, 50), np.uint32))
    assert len(set(a.ravel().tolist())) == 200
    assert a[0].tolist() == [philox(9, 0, n) for n in range(50)]


def test_the_points_of_a_block_with_lanes_draw_once(run):
    @T.prim_func
    def k(A: T.Tensor((16,), "uint32"), B: T.Tensor((8,), "uint32")):
        with T.Kernel(1, threads=8):
            T.rng_init(3)
            tile = T.alloc_shared((16,), "uint32")
            for i in T.Parallel(16):
                tile[i] = T.rng_rand()
            T.copy(tile, A)
            B[T.get_thread_binding()] = T.rng_rand()

    a, b = np.zeros(16, np.uint32), np.zeros(8, np.uint32)
    run(k, a, b)
    assert a.tolist() == [philox(3, 1 << 63, n) for n in range(16)]
    assert b.tolist() == [philox(3, lane, 0) for lane in range(8)]


@pytest.mark.parametrize("bit", [32, 64])
def test_distributions(run, bit):
    name = f"float{bit}"

    @T.prim_func
    def k(A: T.Tensor((2, 4000), name)):
        with T.Kernel(1):
            T.rng_init(11, 0)
            for i in T.Parallel(4000):
                A[0, i] = T.rng_rand_float(bit)
            for i in T.Parallel(4000):
                A[1, i] = T.rng_rand_float(bit=bit, dist="normal")

    a = run(k, np.zeros((2, 4000), name))
    uniform, normal = a
    assert uniform.min() > 0
    assert uniform.max() <= 1
    # the mean of n numbers lies within 5 standard errors, and so do the variance and the shares below each quarter
    assert abs(uniform.mean() - 0.5) < 5 * (1 / 12 / 4000) ** 0.5
    assert abs(normal.mean()) < 5 / 4000**0.5
    assert abs(normal.var() - 1) < 5 * (2 / 4000) ** 0.5
    for quarter in (0.25, 0.5, 0.75):
        assert abs((uniform < quarter).mean() - quarter) < 5 * (quarter * (1 - quarter) / 4000) ** 0.5


def test_numbers_before_the_start(refused):
    def k(A: T.Tensor((4,), "uint32")):
        with T.Kernel(1):
            A[0] = T.rng_rand()

    refused("E255", k)


def test_a_start_belongs_to_its_launch(refused):
    def k(A: T.Tensor((4,), "uint32")):
        with T.Kernel(1):
            T.rng_init(1, 0)
        with T.Kernel(1):
            A[0] = T.rng_rand()

    refused("E255", k)


@pytest.mark.parametrize("options", [{"bit": 16}, {"dist": "cauchy"}])
def test_an_unknown_distribution(refused, options):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.rng_init(1, 0)
            A[0] = T.rng_rand_float(**options)

    refused("E256", k)
