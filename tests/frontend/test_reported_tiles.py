"""Tiles, pipelines, reductions and numbers at their edges.

Each kernel is of a kind that public reports of other compilers show as miscompiled or refused; all are written anew. Both the CPU and
the interpreter must give the one right result.
"""

import ml_dtypes
import numpy as np
import pytest

import zellige as zl
import zellige.language as T

pytestmark = pytest.mark.parametrize("target", ["cpu", "interp"])
random = np.random.default_rng(3)


def ints(*shape, lo=-4, hi=5, dt=np.float32):
    """Small whole numbers, of which every sum here is exact."""
    return random.integers(lo, hi, shape).astype(dt)


def test_war_pipelined(target):
    W, NK = 32, 8

    def make(ns):
        @zl.jit(target=target)
        def k(A: T.Tensor((NK, W), "int32"), S0: T.Tensor((W,), "int32"), O: T.Tensor((W,), "int32")):
            with T.Kernel(1, threads=W) as _:
                S = T.alloc_shared((W,), "int32")
                acc = T.alloc_fragment((W,), "int32")
                T.clear(acc)
                T.copy(S0, S)
                for kk in T.Pipelined(NK, num_stages=ns):
                    for i in T.Parallel(W):
                        acc[i] += S[i]
                    T.copy(A[kk, :], S)
                for i in T.Parallel(W):
                    O[i] = acc[i]

        return k

    A = ints(NK, W, dt=np.int32)
    S = ints(W, dt=np.int32)
    for ns in range(4):
        O = np.zeros(W, np.int32)
        make(ns)(A, S, O)
        np.testing.assert_array_equal(O, S + A[:-1].sum(0))


@pytest.mark.parametrize("s1,s2", [(2, 4), (4, 2), (3, 1), (0, 3)])
def test_sibling_pipelines(target, s1, s2):
    M = N = 48
    K = 96
    BK = 16

    @zl.jit(target=target)
    def k(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32"), D: T.Tensor((M, BK), "float16")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, BK), "float16")
            b = T.alloc_shared((BK, N), "float16")
            c = T.alloc_fragment((M, N), "float32")
            T.clear(c)
            for ko in T.Pipelined(3, num_stages=s1):
                T.copy(A[0, ko * BK], a)
                T.copy(B[ko * BK, 0], b)
                T.gemm(a, b, c)
            for ko in T.Pipelined(3, num_stages=s2):
                T.copy(A[0, 48 + ko * BK], a)
                T.copy(B[48 + ko * BK, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)
            T.copy(a, D)

    A = ints(M, K, dt=np.float16)
    B = ints(K, N, dt=np.float16)
    C = np.zeros((M, N), np.float32)
    D = np.zeros((M, BK), np.float16)
    k(A, B, C, D)
    np.testing.assert_array_equal(C, A.astype(np.float32) @ B.astype(np.float32))
    np.testing.assert_array_equal(D, A[:, 80:])


def test_two_writes_of_one_stage_buffer(target):
    for ns in (0, 1, 2, 3):

        @zl.jit(target=target)
        def k(A: T.Tensor((6, 40), "float32"), B: T.Tensor((6, 40), "float32"), O: T.Tensor((6, 40), "float32")):
            with T.Kernel(1, threads=64):
                s = T.alloc_shared((40,), "float32")
                f = T.alloc_fragment((40,), "float32")
                for kk in T.Pipelined(6, num_stages=ns):
                    T.copy(A[kk, :], s)
                    for i in T.Parallel(40):
                        f[i] = s[i] * 2
                    T.copy(B[kk, :], s)
                    for i in T.Parallel(40):
                        f[i] = f[i] + s[39 - i]
                    T.copy(f, O[kk, :])

        A = ints(6, 40)
        B = ints(6, 40)
        O = np.zeros((6, 40), np.float32)
        k(A, B, O)
        np.testing.assert_array_equal(O, A * 2 + B[:, ::-1])


def test_fragment_as_operand_then_copied(target):
    @zl.jit(target=target)
    def k(
        A: T.Tensor((64, 32), "float16"),
        B: T.Tensor((32, 48), "float16"),
        C: T.Tensor((64, 48), "float32"),
        D: T.Tensor((64, 32), "float16"),
        E: T.Tensor((32, 48), "float16"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((64, 32), "float16")
            b = T.alloc_fragment((32, 48), "float16")
            c = T.alloc_fragment((64, 48), "float32")
            s = T.alloc_shared((64, 32), "float16")
            t = T.alloc_shared((32, 48), "float16")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(a, s)
            T.copy(b, t)
            T.copy(s, D)
            T.copy(t, E)
            T.copy(c, C)

    A = ints(64, 32, dt=np.float16)
    B = ints(32, 48, dt=np.float16)
    C = np.zeros((64, 48), np.float32)
    D = np.zeros_like(A)
    E = np.zeros_like(B)
    k(A, B, C, D, E)
    np.testing.assert_array_equal(C, A.astype("f4") @ B.astype("f4"))
    np.testing.assert_array_equal(D, A)
    np.testing.assert_array_equal(E, B)


def test_loops_of_other_extents(target):
    @zl.jit(target=target)
    def k(C: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((256,), "float32")
            for i in T.Parallel(256):
                f[i] = i
            for i in T.Parallel(100):
                f[i] = f[i] + 1000
            for i in T.Parallel(37):
                f[i + 219] = -1
            for i in T.Parallel(256):
                C[i] = f[i]

    C = np.zeros(256, np.float32)
    k(C)
    w = np.arange(256.0)
    w[:100] += 1000
    w[219:] = -1
    np.testing.assert_array_equal(C, w)


def test_rotated_fragment(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((128,), "int32"), B: T.Tensor((128,), "int32"), C: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((128,), "int32")
            T.copy(A, f)
            for i in T.Parallel(128):
                B[i] = f[(i + 1) % 128]
            for i in T.Parallel(128):
                C[i] = f[i] + f[127 - i]

    A = np.arange(128, dtype=np.int32)
    B = np.zeros_like(A)
    C = np.zeros_like(A)
    k(A, B, C)
    np.testing.assert_array_equal(B, np.roll(A, -1))
    np.testing.assert_array_equal(C, A + A[::-1])


def test_serial_fragment(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((16, 16), "float32"), B: T.Tensor((16, 16), "float32"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((16, 16), "float32")
            T.copy(A, f)
            for i in T.serial(16):
                for j in T.serial(16):
                    B[i, j] = f[i, j]
            for i in T.serial(16):
                for j in T.Parallel(16):
                    f[i, j] = f[i, j] * 2 + i
            g = T.alloc_fragment((16, 16), "float32")
            for i in T.serial(16):
                for j in T.serial(16):
                    g[i, j] = f[j, i]
            T.copy(g, C)

    A = np.arange(256, dtype=np.float32).reshape(16, 16)
    B = np.zeros_like(A)
    C = np.zeros_like(A)
    k(A, B, C)
    np.testing.assert_array_equal(B, A)
    np.testing.assert_array_equal(C, (A * 2 + np.arange(16)[:, None]).T)


def test_partial_fill(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((8, 64), "float32"), B: T.Tensor((8, 64), "float32")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((8, 64), "float32")
            T.copy(A, s)
            T.fill(s[2:5, 8:40], -7.0)
            T.clear(s[7, 60:64])
            T.copy(s, B)

    A = ints(8, 64)
    B = np.zeros_like(A)
    k(A, B)
    w = A.copy()
    w[2:5, 8:40] = -7
    w[7, 60:] = 0
    np.testing.assert_array_equal(B, w)


def test_fill_outside(target):
    @zl.jit(target=target)
    def k(n: T.int32, B: T.Tensor((8, 30), "float32")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((8, 30), "float32")
            T.clear(s)
            T.fill(s[n : n + 4, 20:30], 3.0)
            T.copy(s, B)

    for n in (0, 6):
        B = np.zeros((8, 30), np.float32)
        k(n, B)
        w = np.zeros((8, 30))
        w[n : n + 4, 20:] = 3
        np.testing.assert_array_equal(B, w)


@pytest.mark.parametrize("threads", [2, 7, 31, 33, 48, 96, 127])
def test_sub_warp_copy(target, threads):
    @zl.jit(target=target)
    def k(A: T.Tensor((16, 24), "float16"), B: T.Tensor((16, 24), "float16")):
        with T.Kernel(1, threads=threads):
            s = T.alloc_shared((16, 24), "float16")
            T.copy(A, s)
            T.copy(s, B)

    A = ints(16, 24, dt=np.float16)
    B = np.zeros_like(A)
    k(A, B)
    np.testing.assert_array_equal(A, B)


def test_modulo_lookup(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((16, 64), "float32"), B: T.Tensor((7,), "float32"), C: T.Tensor((16, 64), "float32")):
        with T.Kernel(1, threads=128):
            for i, j in T.Parallel(16, 64):
                C[i, j] = A[i, j] + B[j % 7] * B[(i * 64 + j) // 150]

    A = ints(16, 64)
    B = ints(7)
    C = np.zeros_like(A)
    k(A, B, C)
    j = np.arange(64)
    i = np.arange(16)[:, None]
    np.testing.assert_array_equal(C, A + B[j % 7][None] * B[(i * 64 + j) // 150])


def test_scan(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((9, 50), "int32"), B: T.Tensor((9, 33), "int32"), C: T.Tensor((9, 33), "int32"), D: T.Tensor((50,), "int32")):
        with T.Kernel(1, threads=96):
            s = T.alloc_shared((9, 50), "int32")
            f = T.alloc_fragment((9, 33), "int32")
            g = T.alloc_shared((9, 33), "int32")
            T.copy(A, s)
            T.cumsum(s[0:9, 10:43], g, dim=1)
            T.copy(g, B)
            T.cummax(s[0:9, 10:43], f, dim=0, reverse=True)
            T.copy(f, C)
            r = T.alloc_shared((50,), "int32")
            T.copy(A[3, :], r)
            T.cumsum(r, dim=-1, reverse=True)
            T.copy(r, D)

    A = ints(9, 50, dt=np.int32, lo=-50, hi=50)
    B = np.zeros((9, 33), np.int32)
    C = B.copy()
    D = np.zeros(50, np.int32)
    k(A, B, C, D)
    np.testing.assert_array_equal(B, A[:, 10:43].cumsum(1))
    np.testing.assert_array_equal(C, np.maximum.accumulate(A[::-1, 10:43], 0)[::-1])
    np.testing.assert_array_equal(D, A[3, ::-1].cumsum()[::-1])


def test_reducer_all(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((24, 40), "float32"), x: T.Tensor((40,), "float32"), o: T.Tensor((24,), "float32")):
        with T.Kernel(1, threads=128):
            r = T.alloc_reducer((24,), "float32", op="sum", replication="all")
            T.clear(r)
            for i, j in T.Parallel(24, 40):
                r[i] += A[i, j] * x[j]
            T.finalize_reducer(r)
            T.copy(r, o)

    A = ints(24, 40)
    x = ints(40)
    o = np.zeros(24, np.float32)
    k(A, x, o)
    np.testing.assert_array_equal(o, A @ x)


@pytest.mark.parametrize("n", [1, 3, 48, 100])
def test_keepdim_and_slices(target, n):
    @zl.jit(target=target)
    def k(A: T.Tensor((5, n + 4), "float32"), o: T.Tensor((5, 1), "float32"), p: T.Tensor((3,), "float32"), q: T.Tensor((1, n), "float32")):
        with T.Kernel(1, threads=48):
            f = T.alloc_fragment((5, n + 4), "float32")
            r = T.alloc_fragment((5, 1), "float32")
            T.copy(A, f)
            T.reduce_sum(f, r, dim=1)
            T.copy(r, o)
            t = T.alloc_fragment((3,), "float32")
            T.reduce_max(f[1:4, 2 : n + 2], t, dim=-1)
            T.copy(t, p)
            u = T.alloc_fragment((1, n), "float32")
            T.reduce_min(f[0:5, 4 : n + 4], u, dim=0)
            T.copy(u, q)

    A = ints(5, n + 4)
    o = np.zeros((5, 1), np.float32)
    p = np.zeros(3, np.float32)
    q = np.zeros((1, n), np.float32)
    k(A, o, p, q)
    np.testing.assert_array_equal(o, A.sum(1, keepdims=True))
    np.testing.assert_array_equal(p, A[1:4, 2 : n + 2].max(1))
    np.testing.assert_array_equal(q[0], A[:, 4:].min(0))


@pytest.mark.parametrize("dt", ["float8_e4m3fn", "float8_e5m2", "bfloat16", "int8", "uint8"])
def test_reduce_narrow(target, dt):
    np_dt = getattr(ml_dtypes, dt, None) or np.dtype(dt)

    @zl.jit(target=target)
    def k(A: T.Tensor((6, 20), dt), hi: T.Tensor((6,), dt), lo: T.Tensor((6,), dt)):
        with T.Kernel(1, threads=48):
            f = T.alloc_fragment((6, 20), dt)
            a = T.alloc_fragment((6,), dt)
            b = T.alloc_fragment((6,), dt)
            T.copy(A, f)
            T.reduce_max(f, a, dim=1)
            T.reduce_min(f, b, dim=1)
            T.copy(a, hi)
            T.copy(b, lo)

    A = (ints(6, 20) if dt[0] != "u" else ints(6, 20, lo=0)).astype(np_dt)
    hi = np.zeros(6, np_dt)
    lo = np.zeros(6, np_dt)
    k(A, hi, lo)
    np.testing.assert_array_equal(hi.astype("f4"), A.astype("f4").max(1))
    np.testing.assert_array_equal(lo.astype("f4"), A.astype("f4").min(1))


def test_divisions(target):
    a = np.array([7, -7, 7, -7, 6, -6, 0, -2147483648, 2147483647], np.int32)
    b = np.array([3, 3, -3, -3, 3, -3, -5, 2, -2], np.int32)
    n = len(a)

    @zl.jit(target=target)
    def k(A: T.Tensor((n,), "int32"), B: T.Tensor((n,), "int32"), O: T.Tensor((7, n), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                O[0, i] = T.ceildiv(A[i], B[i])
                O[1, i] = A[i] // B[i]
                O[2, i] = A[i] % B[i]
                O[3, i] = T.truncdiv(A[i], B[i])
                O[4, i] = T.truncmod(A[i], B[i])
                O[5, i] = T.ceildiv(7, -3)
                O[6, i] = T.ceildiv(A[i], -4)

    O = np.zeros((7, n), np.int32)
    k(a, b, O)
    A = a.astype(object)
    B = b.astype(object)
    ceil = [-((-x) // y) for x, y in zip(A, B)]
    tr = [int(abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(A, B)]
    assert O[0].tolist() == ceil and O[1].tolist() == [x // y for x, y in zip(A, B)] and O[2].tolist() == [x % y for x, y in zip(A, B)]
    assert (
        O[3].tolist() == tr
        and O[4].tolist() == [x - t * y for x, y, t in zip(A, B, tr)]
        and set(O[5]) == {-2}
        and O[6].tolist() == [-((-x) // -4) for x in A]
    )


def test_narrow_literals(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((1,), "float32"), O: T.Tensor((6,), "float32"), H: T.Tensor((3,), "float16")):
        with T.Kernel(1, threads=32):
            O[0] = T.ceil(T.float32(8388608.5))
            O[1] = T.ceil(A[0])
            O[2] = T.floor(T.float32(0.1) * 10)
            O[3] = T.round(T.float32(2.5))
            O[4] = T.round(T.float32(-3.5))
            O[5] = T.trunc(T.float32(-2.7))
            H[0] = T.ceil(T.float16(2048.6))
            H[1] = T.floor(T.float16(1.99999))
            H[2] = T.float16(65519.0)

    A = np.array([8388608.5], np.float32)
    O = np.zeros(6, np.float32)
    H = np.zeros(3, np.float16)
    k(A, O, H)
    assert O.tolist() == [8388608.0, 8388608.0, float(np.floor(np.float32(0.1) * np.float32(10))), 2.0, -4.0, -2.0], O
    assert H.tolist() == [2048.0, 2.0, 65504.0]


@pytest.mark.parametrize("dt", ["float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz", "float16", "bfloat16"])
def test_over_range_casts(target, dt):
    np_dt = np.dtype(getattr(ml_dtypes, dt, None) or dt)
    x = np.array(
        [65504, 57344, 61439, 61440, 61441, 1e5, 1e6, np.inf, -1e5, -np.inf, np.nan, 448, 464, 465, 480, 240, 248, 1e-9, -0.0, 3e38],
        np.float32,
    )
    n = len(x)

    @zl.jit(target=target)
    def k(A: T.Tensor((n,), "float32"), O: T.Tensor((n,), dt), P: T.Tensor((n,), dt), Q: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                O[i] = T.cast(A[i], dt)
            f = T.alloc_fragment((n,), "float32")
            g = T.alloc_fragment((n,), dt)
            T.copy(A, f)
            T.copy(f, g)
            T.copy(g, P)
            for i in T.Parallel(n):
                Q[i] = g[i]

    O = np.zeros(n, np_dt)
    P = np.zeros(n, np_dt)
    Q = np.zeros(n, np.float32)
    k(x, O, P, Q)
    with np.errstate(all="ignore"):
        w = x.astype(np_dt).astype(np.float32)
    for g in (O, P, Q):
        np.testing.assert_array_equal(g.astype(np.float32), w)


def test_infinity_e5m2(target):
    @zl.jit(target=target)
    def k(O: T.Tensor((2,), "float8_e5m2")):
        with T.Kernel(1, threads=32):
            O[0] = T.infinity("float8_e5m2")
            O[1] = -T.infinity("float8_e5m2")

    O = np.zeros(2, ml_dtypes.float8_e5m2)
    k(O)
    assert O.astype("f4").tolist() == [np.inf, -np.inf]


def test_rebinding(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((32,), "int32"), O: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                val = A[i]
                if val > 2:
                    val = 2
                if val < -2:
                    val = -2
                O[i] = val

    A = ints(32, dt=np.int32, lo=-9, hi=9)
    O = np.zeros_like(A)
    k(A, O)
    np.testing.assert_array_equal(O, A.clip(-2, 2))


def test_rebinding_serial(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((32,), "int32"), O: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            best = A[0]
            where = 0
            n = 0
            for i in range(1, 32):
                if A[i] > best:
                    best = A[i]
                    where = i
                elif A[i] == best:
                    n += 1
            O[0] = best
            O[1] = where
            O[2] = n

    A = ints(32, dt=np.int32, lo=-9, hi=9)
    O = np.zeros(4, np.int32)
    k(A, O)
    best = np.maximum.accumulate(A)
    ties = sum(int(A[i] == best[i - 1]) for i in range(1, 32))
    assert O.tolist() == [A.max(), A.argmax(), ties, 0]


def test_wrapping_constants(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32"), U: T.Tensor((3,), "uint64"), S: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[i] = (A[i] + 2000000000) + 2000000000
            U[0] = T.uint64(2**62) + T.uint64(2**63)
            U[1] = T.uint64(2**63 - 1) * T.uint64(2)
            U[2] = T.uint64(0) - T.uint64(1)
            S[0] = T.int32(1) << T.int32(31)
            S[1] = T.int32(2147483647) + T.int32(1)

    A = np.array([0, 1, -1, 2147483647], np.int32)
    B = np.zeros(4, np.int32)
    U = np.zeros(3, np.uint64)
    S = np.zeros(2, np.int32)
    k(A, B, U, S)
    np.testing.assert_array_equal(B, ((A.astype(np.int64) + 4000000000 + 2**31) % 2**32 - 2**31).astype(np.int32))
    assert U.tolist() == [2**62 + 2**63, 2**64 - 2, 2**64 - 1] and S.tolist() == [-(2**31), -(2**31)]
