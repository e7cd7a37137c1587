"""Products, pipelines and tile operations under control flow, at their edges.

Each kernel is of a kind that public reports of other compilers show as miscompiled or refused; all are written anew. Both the CPU and
the interpreter must give the one right result.
"""

import numpy as np
import pytest

import zellige as zl
import zellige.language as T

pytestmark = pytest.mark.parametrize("target", ["cpu", "interp"])
random = np.random.default_rng(7)


def ints(*shape, lo=-4, hi=5, dt=np.float32):
    """Small whole numbers, of which every sum here is exact."""
    return random.integers(lo, hi, shape).astype(dt)


@pytest.mark.parametrize("ns", [0, 1, 2, 3])
def test_clear_accum_decided_at_run_time(target, ns):
    @zl.jit(target=target)
    def k(A: T.Tensor((20, 60), "float16"), B: T.Tensor((60, 12), "float16"), C: T.Tensor((20, 12), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((20, 20), "float16")
            b = T.alloc_shared((20, 12), "float16")
            c = T.alloc_fragment((20, 12), "float32")
            for ko in T.Pipelined(3, num_stages=ns):
                T.copy(A[0, ko * 20], a)
                T.copy(B[ko * 20, 0], b)
                T.gemm(a, b, c, clear_accum=ko == 0)
            T.copy(c, C)

    A = ints(20, 60, dt=np.float16)
    B = ints(60, 12, dt=np.float16)
    C = np.zeros((20, 12), np.float32)
    k(A, B, C)
    np.testing.assert_array_equal(C, A.astype("f4") @ B.astype("f4"))


def test_int8_gemm_extremes(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((16, 300), "int8"), B: T.Tensor((300, 8), "int8"), C: T.Tensor((16, 8), "int32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((16, 300), "int8")
            b = T.alloc_shared((300, 8), "int8")
            c = T.alloc_fragment((16, 8), "int32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c)
            T.copy(c, C)

    for lo, hi in ((-128, -127), (127, 128), (-128, 128)):
        A = ints(16, 300, lo=lo, hi=hi, dt=np.int8)
        B = ints(300, 8, lo=-128, hi=-127, dt=np.int8)
        C = np.zeros((16, 8), np.int32)
        k(A, B, C)
        np.testing.assert_array_equal(C, A.astype(np.int32) @ B.astype(np.int32))


@pytest.mark.parametrize("ns", [0, 2, 3])
def test_pipelines_of_no_and_one_iteration(target, ns):
    n = T.dynamic("n")

    @zl.jit(target=target)
    def k(A: T.Tensor((n, 16), "float32"), s: T.int32, e: T.int32, O: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((16,), "float32")
            c = T.alloc_fragment((16,), "float32")
            T.fill(c, 1)
            for i in T.Pipelined(s, e, num_stages=ns):
                T.copy(A[i, :], a)
                for j in T.Parallel(16):
                    c[j] = c[j] * 2 + a[j]
            T.copy(c, O)

    A = ints(5, 16)
    for s, e in ((0, 0), (3, 3), (4, 2), (2, 3), (0, 5), (1, 4)):
        O = np.zeros(16, np.float32)
        k(A, s, e, O)
        w = np.ones(16)
        for i in range(s, e):
            w = w * 2 + A[i]
        np.testing.assert_array_equal(O, w)


def test_block_dependent_tile_operations(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((5, 24), "float32"), O: T.Tensor((5, 24), "float32")):
        with T.Kernel(5, threads=48) as b:
            s = T.alloc_shared((24,), "float32")
            f = T.alloc_fragment((24,), "float32")
            r = T.alloc_fragment((1,), "float32")
            T.copy(A[b, :], s)
            if b % 3 == 0:
                T.copy(s, f)
                T.reduce_sum(f, r, dim=0)
                for i in T.Parallel(24):
                    f[i] = r[0]
            elif b % 3 == 1:
                for i in T.Parallel(24):
                    f[i] = s[23 - i]
            else:
                T.fill(f, b)
            T.copy(f, O[b, :])

    A = ints(5, 24)
    O = np.zeros_like(A)
    k(A, O)
    w = np.stack([np.full(24, A[0].sum()), A[1, ::-1], np.full(24, 2), np.full(24, A[3].sum()), A[4, ::-1]])
    np.testing.assert_array_equal(O, w)


def test_while_around_tiles(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((10, 12), "int32"), O: T.Tensor((13,), "int32")):
        with T.Kernel(1, threads=32):
            f = T.alloc_fragment((12,), "int32")
            c = T.alloc_fragment((12,), "int32")
            r = T.alloc_fragment((1,), "int32")
            i = T.alloc_var("int32", 0)
            T.clear(c)
            T.clear(r)
            while i < 10:
                T.copy(A[i, :], f)
                T.reduce_max(f, r, dim=0)
                if r[0] >= 9:
                    break
                i += 1
                if r[0] < 6:
                    continue
                for j in T.Parallel(12):
                    c[j] += f[j]
            for j in T.Parallel(12):
                O[j] = c[j]
            O[12] = i

    A = ints(10, 12, lo=0, hi=6, dt=np.int32)
    A[2, 3] = 7
    A[5, 0] = 6
    A[8, 1] = 9
    O = np.zeros(13, np.int32)
    k(A, O)
    np.testing.assert_array_equal(O[:12], A[2] + A[5])
    assert O[12] == 8


def test_clear_false(target):
    @zl.jit(target=target)
    def k(
        A: T.Tensor((3, 6, 10), "float32"), S: T.Tensor((6, 10), "float32"), M: T.Tensor((3, 10), "float32"), X: T.Tensor((3, 6), "float32")
    ):
        with T.Kernel(1, threads=48):
            f = T.alloc_fragment((3, 6, 10), "float32")
            s = T.alloc_fragment((6, 10), "float32")
            m = T.alloc_fragment((3, 10), "float32")
            x = T.alloc_fragment((3, 6), "float32")
            T.copy(A, f)
            T.fill(s, 2)
            T.fill(m, 1)
            T.fill(x, -1)
            T.reduce_sum(f, s, dim=0, clear=False)
            T.reduce_max(f, m, dim=-2, clear=False)
            T.reduce_absmax(f, x, dim=2, clear=False)
            T.copy(s, S)
            T.copy(m, M)
            T.copy(x, X)

    A = ints(3, 6, 10)
    S = np.zeros((6, 10), np.float32)
    M = np.zeros((3, 10), np.float32)
    X = np.zeros((3, 6), np.float32)
    k(A, S, M, X)
    np.testing.assert_array_equal(S, A.sum(0) + 2)
    np.testing.assert_array_equal(M, np.maximum(A.max(1), 1))
    np.testing.assert_array_equal(X, np.maximum(abs(A).max(2), -1))


def test_two_launches(target):
    n = T.dynamic("n")

    @zl.jit(target=target)
    def k(A: T.Tensor((n,), "float32"), P: T.Tensor((8,), "float32"), O: T.Tensor((n,), "float32")):
        with T.Kernel(8, threads=32) as b:
            f = T.alloc_fragment((16,), "float32")
            r = T.alloc_fragment((1,), "float32")
            T.copy(A[b * 16], f)
            T.reduce_sum(f, r, dim=0)
            P[b] = r[0]
        with T.Kernel(T.ceildiv(n, 32), threads=32) as b:
            t = T.alloc_fragment((8,), "float32")
            r = T.alloc_fragment((1,), "float32")
            T.copy(P, t)
            T.reduce_sum(t, r, dim=0)
            for i in T.Parallel(32):
                if b * 32 + i < n:
                    O[b * 32 + i] = A[b * 32 + i] - r[0]

    for m in (1, 16, 100, 128):
        A = ints(m)
        O = np.zeros(m, np.float32)
        k(A, np.zeros(8, np.float32), O)
        np.testing.assert_array_equal(O, A - A.sum())


def test_previous_values(target):
    @zl.jit(target=target)
    def k(C: T.Tensor((1,), "int32"), O: T.Tensor((64,), "int32")):
        with T.Kernel(4, threads=16):
            for i in T.Parallel(16):
                p = T.atomic_add(C[0], 1, return_prev=True)
                O[p] = O[p] + 1

    C = np.zeros(1, np.int32)
    O = np.zeros(64, np.int32)
    k(C, O)
    assert C[0] == 64 and (O == 1).all()


def test_negative_indices_and_python_functions(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((6, 7), "int32"), O: T.Tensor((5,), "int32")):
        with T.Kernel(1, threads=32):
            O[0] = A[-1, -2]
            O[-1] = A[0, 0] if A[1, 1] > 0 else A[2, 2]
            O[1] = max(A[0, 1], A[0, 2])
            O[2] = min(A[0, 1], 3)
            O[3] = abs(A[0, 3])

    A = ints(6, 7, dt=np.int32)
    O = np.zeros(5, np.int32)
    k(A, O)
    assert O.tolist() == [A[5, 5], max(A[0, 1], A[0, 2]), min(A[0, 1], 3), abs(A[0, 3]), A[0, 0] if A[1, 1] > 0 else A[2, 2]]


def test_int64_offsets(target):
    n = T.dynamic("n", "int64")

    @zl.jit(target=target)
    def k(A: T.Tensor((n, 4), "int8"), I: T.Tensor((3,), "int64"), O: T.Tensor((3, 4), "int8")):
        with T.Kernel(3, threads=32) as b:
            for j in T.Parallel(4):
                O[b, j] = A[I[b], j]

    A = ints(1000, 4, dt=np.int8)
    I = np.array([999, 2**33, -5])
    O = np.full((3, 4), 9, np.int8)
    k(A, I, O)
    np.testing.assert_array_equal(O, [A[999], [0] * 4, [0] * 4])


def test_packed_int4_tensors(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((6, 10), "uint8"), O: T.Tensor((6, 20), "int8"), P: T.Tensor((6, 10), "uint8")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((6, 10), "uint8")
            T.copy(A, s)
            v = T.view(s, (6, 20), "int4")
            for i, j in T.Parallel(6, 20):
                O[i, j] = v[i, j]
            for i, j in T.Parallel(6, 20):
                v[i, j] = T.cast(-1 - O[i, j], "int4")
            T.copy(s, P)

    A = ints(6, 10, lo=0, hi=256, dt=np.uint8)
    O = np.zeros((6, 20), np.int8)
    P = np.zeros_like(A)
    k(A, O, P)
    lo = (A & 15).astype(np.int8)
    hi = (A >> 4).astype(np.int8)
    sg = lambda x: np.where(x > 7, x - 16, x)
    w = np.stack([sg(lo), sg(hi)], -1).reshape(6, 20)
    np.testing.assert_array_equal(O, w)
    np.testing.assert_array_equal(P, (~A).astype(np.uint8))


def test_macros_and_closures(target):
    @T.macro
    def step(buf, acc, i, scale):
        for j in T.Parallel(12):
            acc[j] = acc[j] * scale + buf[i, j]

    @zl.jit(target=target)
    def k(A: T.Tensor((4, 12), "float32"), O: T.Tensor((12,), "float32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((4, 12), "float32")
            c = T.alloc_fragment((12,), "float32")
            T.copy(A, s)
            T.clear(c)
            for i in range(4):
                step(s, c, i, i + 1)
            for i in T.serial(4):
                step(s, c, 3 - i, 2)
            T.copy(c, O)

    A = ints(4, 12)
    O = np.zeros(12, np.float32)
    k(A, O)
    w = np.zeros(12)
    for i in range(4):
        w = w * (i + 1) + A[i]
    for i in range(4):
        w = w * 2 + A[3 - i]
    np.testing.assert_array_equal(O, w)


def test_overlapping_copies(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((20,), "int32"), O: T.Tensor((20,), "int32"), P: T.Tensor((20,), "int32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((20,), "int32")
            T.copy(A, s)
            t = T.alloc_fragment((15,), "int32")
            T.copy(s[0:15], t)
            T.copy(t, s[5:20])
            T.copy(s, O)
            for i in T.Parallel(10):
                s[i] = s[19 - i]
            T.copy(s, P)

    A = np.arange(20, dtype=np.int32)
    O = np.zeros_like(A)
    P = np.zeros_like(A)
    k(A, O, P)
    w = A.copy()
    w[5:] = A[:15]
    np.testing.assert_array_equal(O, w)
    v = w.copy()
    v[:10] = w[19:9:-1]
    np.testing.assert_array_equal(P, v)


def test_division_by_sizes_and_grouped_rows(target):
    n, g = T.dynamic("n"), T.dynamic("g")

    @zl.jit(target=target)
    def k(A: T.Tensor((n, 8), "float32"), sizes: T.Tensor((g,), "int32"), off: T.Tensor((g,), "int32"), O: T.Tensor((n, 8), "float32")):
        with T.Kernel(T.ceildiv(n, 4) + g, threads=32) as b:
            cur = T.alloc_var("int32", 0)
            start = T.alloc_var("int32", 0)
            found = T.alloc_var("int32", -1)
            for i in range(g):
                blocks = T.ceildiv(sizes[i], 4)
                if found < 0:
                    if b < cur + blocks:
                        found = i
                        start = (b - cur) * 4
                    else:
                        cur = cur + blocks
            if found >= 0:
                rows = T.min(4, sizes[found] - start)
                f = T.alloc_fragment((4, 8), "float32")
                T.copy(A[off[found] + start, 0], f)
                for i, j in T.Parallel(4, 8):
                    if i < rows:
                        O[off[found] + start + i, j] = f[i, j] * (found + 1)

    s = np.array([5, 0, 9, 4, 1], np.int32)
    o = np.concatenate([[0], s.cumsum()[:-1]]).astype(np.int32)
    A = ints(19, 8)
    O = np.zeros_like(A)
    k(A, s, o, O)
    np.testing.assert_array_equal(O, A * np.repeat(np.arange(5) + 1, s)[:, None])
