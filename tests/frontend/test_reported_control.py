"""Control flow, views, gathers and guards at their edges.

Each kernel is of a kind that public reports of other compilers show as miscompiled or refused; all are written anew. Both the CPU and
the interpreter must give the one right result.
"""

import ml_dtypes
import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.layout import make_swizzled_layout

pytestmark = pytest.mark.parametrize("target", ["cpu", "interp"])
random = np.random.default_rng(5)


def ints(*shape, lo=-4, hi=5, dt=np.float32):
    """Small whole numbers, of which every sum here is exact."""
    return random.integers(lo, hi, shape).astype(dt)


def test_unroll_break(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((8,), "int32"), O: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_var("int32", 0)
            for i in T.unroll(8, explicit=True):
                if A[i] < 0:
                    T.loop_break()
                s = s + A[i]
            O[0] = s
            t = T.alloc_var("int32", 0)
            for i in T.unroll(8):
                if A[i] == 2:
                    continue
                t += A[i]
            O[1] = t

    A = np.array([1, 2, 3, -1, 5, 6, 7, 8], np.int32)
    O = np.zeros(2, np.int32)
    k(A, O)
    assert O.tolist() == [6, 1 + 3 - 1 + 5 + 6 + 7 + 8]


def test_rank0(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((16,), "float32"), O: T.Tensor((), "float32")):
        with T.Kernel(1, threads=32):
            f = T.alloc_fragment((16,), "float32")
            r = T.alloc_fragment((1,), "float32")
            T.copy(A, f)
            T.reduce_sum(f, r, dim=0)
            O[()] = r[0]

    A = ints(16)
    O = np.zeros((), np.float32)
    k(A, O)
    assert O == A.sum()


def test_output_before_input(target):
    @zl.jit(target=target, out_idx=[0])
    def make():
        n = T.dynamic("n")

        @T.prim_func
        def main(O: T.Tensor((n,), "float32"), A: T.Tensor((n,), "float32")):
            with T.Kernel(T.ceildiv(n, 16), threads=32) as b:
                for i in T.Parallel(16):
                    if b * 16 + i < n:
                        O[b * 16 + i] = A[b * 16 + i] + 1

        return main

    k = make()
    for n in (0, 1, 33):
        A = ints(n)
        np.testing.assert_array_equal(k(A), A + 1)


def test_empty(target):
    n = T.dynamic("n")

    @zl.jit(target=target)
    def k(A: T.Tensor((n, 8), "float32"), O: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_fragment((8,), "float32")
            T.clear(a)
            s = T.alloc_shared((4, 8), "float32")
            r = T.alloc_fragment((8,), "float32")
            for ko in T.Pipelined(T.ceildiv(n, 4), num_stages=2):
                T.copy(A[ko * 4, 0], s)
                T.reduce_sum(s, r, dim=0)
                for i in T.Parallel(8):
                    a[i] += r[i]
            T.copy(a, O)

    for m in (0, 1, 4, 9):
        A = ints(m, 8)
        O = np.full(8, 9, np.float32)
        k(A, O)
        np.testing.assert_array_equal(O, A.sum(0))


def test_scalar_cross_dtype_copy(target):
    @zl.jit(target=target)
    def k(I: T.Tensor((6,), "int64"), A: T.Tensor((10, 16), "float32"), O: T.Tensor((6, 16), "float32")):
        with T.Kernel(6, threads=32) as p:
            idx = T.alloc_local((1,), "int32")
            T.copy(I[p], idx[0])
            T.copy(A[idx[0], 0:16], O[p, 0:16])

    I = np.array([3, 9, 0, 1, 7, 3])
    A = ints(10, 16)
    O = np.zeros((6, 16), np.float32)
    k(I, A, O)
    np.testing.assert_array_equal(O, A[I])


def test_gemm_on_reshaped(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((32 * 16,), "float16"), B: T.Tensor((16, 24), "float16"), C: T.Tensor((32, 24), "float32")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((512,), "float16")
            b = T.alloc_shared((16, 24), "float16")
            c = T.alloc_fragment((32, 24), "float32")
            T.copy(A, s)
            T.copy(B, b)
            T.clear(c)
            v = T.reshape(s, (32, 16))
            T.gemm(v, b, c)
            T.copy(c, C)

    A = ints(512, dt=np.float16)
    B = ints(16, 24, dt=np.float16)
    C = np.zeros((32, 24), np.float32)
    k(A, B, C)
    np.testing.assert_array_equal(C, A.reshape(32, 16).astype("f4") @ B.astype("f4"))


@pytest.mark.parametrize("ab,acc", [("bfloat16", "float16"), ("int8", "int32"), ("float16", "float16"), ("float32", "float32")])
def test_gemm_types(target, ab, acc):
    d = lambda x: np.dtype(getattr(ml_dtypes, x, None) or x)

    @zl.jit(target=target)
    def k(A: T.Tensor((16, 40), ab), B: T.Tensor((24, 40), ab), C: T.Tensor((16, 24), acc)):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((16, 40), ab)
            b = T.alloc_shared((24, 40), ab)
            c = T.alloc_fragment((16, 24), acc)
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    A = ints(16, 40).astype(d(ab))
    B = ints(24, 40).astype(d(ab))
    C = np.zeros((16, 24), d(acc))
    k(A, B, C)
    np.testing.assert_array_equal(C.astype("f4"), A.astype("f4") @ B.astype("f4").T)


def test_int4(target):
    @zl.jit(target=target)
    def k(O: T.Tensor((8, 32), "int8")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((8, 32), "int4")
            T.fill(s, -3)
            T.clear(s[2:4, 0:32])
            for i, j in T.Parallel(8, 32):
                O[i, j] = T.cast(s[i, j], "int8")

    O = np.zeros((8, 32), np.int8)
    k(O)
    w = np.full((8, 32), -3)
    w[2:4] = 0
    np.testing.assert_array_equal(O, w)


def test_swizzled_any_of(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((16, 64), "float16"), O: T.Tensor((2, 16), "int32")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((16, 64), "float16")
            T.annotate_layout({s: make_swizzled_layout(s)})
            T.copy(A, s)
            for i in T.serial(16):
                if T.any_of(s[i, :]):
                    O[0, i] = 1
                else:
                    O[0, i] = 0
                if T.all_of(s[i, :]):
                    O[1, i] = 1
                else:
                    O[1, i] = 0

    A = (random.random((16, 64)) < 0.02).astype(np.float16)
    A[3] = 1
    A[5] = 0
    O = np.zeros((2, 16), np.int32)
    k(A, O)
    np.testing.assert_array_equal(O, [(A != 0).any(1), (A != 0).all(1)])


def test_view_other_width_swizzled(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((16, 64), "float16"), B: T.Tensor((16, 32), "float32"), C: T.Tensor((16, 64), "float16")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((16, 64), "float16")
            T.annotate_layout({s: make_swizzled_layout(s)})
            T.copy(A, s)
            v = T.view(s, (16, 32), "float32")
            for i, j in T.Parallel(16, 32):
                B[i, j] = v[i, j]
            T.copy(s, C)

    A = ints(16, 64, dt=np.float16)
    B = np.zeros((16, 32), np.float32)
    C = np.zeros_like(A)
    k(A, B, C)
    np.testing.assert_array_equal(B.view(np.uint32), A.view(np.uint32))
    np.testing.assert_array_equal(C, A)


def test_paged_gather(target):
    nblk = T.dynamic("nblk")
    for ns in (0, 1, 2, 3):

        @zl.jit(target=target)
        def k(
            KV: T.Tensor((7, 16, 32), "float16"),
            tab: T.Tensor((nblk,), "int32"),
            ln: T.Tensor((1,), "int32"),
            O: T.Tensor((32,), "float32"),
        ):
            with T.Kernel(1, threads=64):
                s = T.alloc_shared((16, 32), "float16")
                f = T.alloc_fragment((16, 32), "float32")
                r = T.alloc_fragment((32,), "float32")
                acc = T.alloc_fragment((32,), "float32")
                T.clear(acc)
                n = ln[0]
                for kb in T.Pipelined(T.ceildiv(n, 16), num_stages=ns):
                    page = tab[kb]
                    T.copy(KV[page, 0:16, 0:32], s)
                    for i, j in T.Parallel(16, 32):
                        f[i, j] = T.if_then_else(kb * 16 + i < n, s[i, j], 0)
                    T.reduce_sum(f, r, dim=0)
                    for j in T.Parallel(32):
                        acc[j] += r[j]
                T.copy(acc, O)

        KV = ints(7, 16, 32, dt=np.float16)
        for n in (0, 1, 16, 50):
            t = random.permutation(7).astype(np.int32)[: max(1, -(-n // 16))]
            O = np.full(32, 5, np.float32)
            k(KV, t, np.array([n], np.int32), O)
            np.testing.assert_array_equal(O, KV[t].reshape(-1, 32)[:n].astype("f4").sum(0))


def test_persistent_guarded_pipeline(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((3, 32, 128), "float16"), B: T.Tensor((3, 128, 32), "float16"), C: T.Tensor((3, 32, 32), "float32")):
        with T.Kernel(2, threads=128) as bid:
            a = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            for tile, _ in T.Persistent([3, 1], 2, bid):
                T.clear(c)
                for kk in T.Pipelined(4, num_stages=2):
                    if kk < 2:
                        T.copy(A[tile, 0, kk * 32], a)
                        T.copy(B[tile, kk * 32, 0], b)
                        T.gemm(a, b, c)
                T.copy(c, C[tile, 0, 0])

    A = ints(3, 32, 128, dt=np.float16)
    B = ints(3, 128, 32, dt=np.float16)
    C = np.zeros((3, 32, 32), np.float32)
    k(A, B, C)
    np.testing.assert_array_equal(C, A[:, :, :64].astype("f4") @ B[:, :64].astype("f4"))


def test_var_in_parallel(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((5, 16), "int32"), O: T.Tensor((5, 16), "int32")):
        with T.Kernel(5, threads=32) as b:
            v = T.alloc_var("int32")
            for i in T.Parallel(16):
                v = 0
                for j in T.serial(16):
                    if A[b, j] < A[b, i]:
                        v += 1
                O[b, i] = v

    A = ints(5, 16, dt=np.int32, hi=100)
    O = np.zeros_like(A)
    k(A, O)
    np.testing.assert_array_equal(O, (A[:, None, :] < A[:, :, None]).sum(-1))


def test_nan_minmax(target):
    A = np.array([[1, np.nan, 3], [np.nan] * 3, [-np.inf, np.nan, np.nan], [2, 1, 0]], np.float32)

    @zl.jit(target=target)
    def k(A: T.Tensor((4, 3), "float32"), O: T.Tensor((4, 4), "float32")):
        with T.Kernel(1, threads=32):
            f = T.alloc_fragment((4, 3), "float32")
            T.copy(A, f)
            r = T.alloc_fragment((4,), "float32")
            T.reduce_max(f, r, dim=1)
            T.copy(r, O[0, :])
            T.reduce_min(f, r, dim=1)
            T.copy(r, O[1, :])
            T.reduce_max(f, r, dim=1, nan_propagate=True)
            T.copy(r, O[2, :])
            for i in T.Parallel(4):
                O[3, i] = T.max(A[i, 0], A[i, 1])

    O = np.zeros((4, 4), np.float32)
    k(A, O)
    assert O[0, 0] == 3 and O[0, 2] == -np.inf and O[0, 3] == 2 and O[1, 0] == 1 and O[1, 3] == 0
    assert np.isnan(O[2, :3]).all() and O[2, 3] == 2 and O[3, 0] == 1 and O[3, 2] == -np.inf


def test_online_softmax_all_masked(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((4, 37), "float32"), n: T.int32, O: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=48):
            f = T.alloc_fragment((4, 16), "float32")
            m = T.alloc_fragment((4,), "float32")
            mp = T.alloc_fragment((4,), "float32")
            s = T.alloc_fragment((4,), "float32")
            l = T.alloc_fragment((4,), "float32")
            T.fill(m, -T.infinity("float32"))
            T.clear(l)
            for ko in T.Pipelined(3, num_stages=2):
                for i, j in T.Parallel(4, 16):
                    f[i, j] = T.if_then_else(ko * 16 + j < n, A[i, ko * 16 + j], -T.infinity("float32"))
                T.copy(m, mp)
                T.reduce_max(f, m, dim=1, clear=False)
                for i, j in T.Parallel(4, 16):
                    f[i, j] = T.if_then_else(m[i] == -T.infinity("float32"), 0.0, T.exp(f[i, j] - m[i]))
                T.reduce_sum(f, s, dim=1)
                for i in T.Parallel(4):
                    l[i] = T.if_then_else(m[i] == -T.infinity("float32"), 0.0, l[i] * T.exp(mp[i] - m[i]) + s[i])
            for i in T.Parallel(4):
                O[i] = T.log(l[i]) + m[i]

    A = ints(4, 37)
    for n in (37, 20, 1):
        O = np.zeros(4, np.float32)
        k(A, n, O)
        np.testing.assert_allclose(O, np.log(np.exp(A[:, :n].astype("f8")).sum(1)), rtol=1e-5, atol=1e-6)


def test_transposed_and_3d_copy(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((2, 20, 30), "float32"), O: T.Tensor((30, 20), "float32"), P: T.Tensor((2, 5, 30), "float32")):
        with T.Kernel(1, threads=48):
            s = T.alloc_shared((20, 30), "float32")
            t = T.alloc_shared((30, 20), "float32")
            T.copy(A[1, 0:20, 0:30], s)
            T.transpose(s, t)
            T.copy(t, O)
            u = T.alloc_shared((1, 5, 30), "float32")
            for b in range(2):
                T.copy(A[b : b + 1, 15:20, 0:30], u)
                T.copy(u, P[b, :, :])

    A = ints(2, 20, 30)
    O = np.zeros((30, 20), np.float32)
    P = np.zeros((2, 5, 30), np.float32)
    k(A, O, P)
    np.testing.assert_array_equal(O, A[1].T)
    np.testing.assert_array_equal(P, A[:, 15:])


def test_atomics(target):
    @zl.jit(target=target)
    def k(
        I: T.Tensor((100,), "int32"),
        H: T.Tensor((8,), "int32"),
        F: T.Tensor((8,), "float16"),
        S: T.Tensor((16,), "float32"),
        X: T.Tensor((2,), "int32"),
    ):
        with T.Kernel(4, threads=32) as b:
            for i in T.Parallel(25):
                T.atomic_add(H[I[b * 25 + i]], 1)
                T.atomic_add(F[I[b * 25 + i]], 0.5)
                T.atomic_max(X[0], I[b * 25 + i])
                T.atomic_min(X[1], I[b * 25 + i])
            s = T.alloc_shared((16,), "float32")
            T.clear(s)
            for i in T.Parallel(64):
                T.atomic_add(s[i % 16], 1.0)
            T.atomic_add(S, s)

    I = random.integers(0, 8, 100).astype(np.int32)
    H = np.zeros(8, np.int32)
    F = np.zeros(8, np.float16)
    S = np.zeros(16, np.float32)
    X = np.array([-1, 99], np.int32)
    k(I, H, F, S, X)
    c = np.bincount(I, minlength=8)
    np.testing.assert_array_equal(H, c)
    np.testing.assert_array_equal(F, c * 0.5)
    np.testing.assert_array_equal(S, np.full(16, 16))
    assert X.tolist() == [I.max(), I.min()]


def test_conditional_copy_then_read(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((4, 32), "float32"), m: T.Tensor((4,), "int32"), O: T.Tensor((4, 32), "float32")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((32,), "float32")
            T.fill(s, -1)
            for b in T.serial(4):
                if m[b] != 0:
                    T.copy(A[b, :], s)
                elif b == 2:
                    T.fill(s, 7)
                for i in T.Parallel(32):
                    O[b, i] = s[31 - i]

    A = ints(4, 32)
    O = np.zeros_like(A)
    k(A, np.array([0, 1, 0, 1], np.int32), O)
    np.testing.assert_array_equal(O, np.stack([np.full(32, -1), A[1, ::-1], np.full(32, 7), A[3, ::-1]]))


def test_guarded_read_safe_value(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((10,), "float32"), O: T.Tensor((40,), "float32"), P: T.Tensor((40,), "float32")):
        with T.Kernel(1, threads=64):
            T.annotate_safe_value({A: -5.0})
            for i in T.Parallel(40):
                O[i] = A[i - 15]
            for i in T.Parallel(40):
                P[i] = T.if_then_else(i >= 15 and i < 25, A[i - 15], 1.0)

    A = ints(10)
    O = np.zeros(40, np.float32)
    P = O.copy()
    k(A, O, P)
    w = np.full(40, -5.0)
    w[15:25] = A
    np.testing.assert_array_equal(O, w)
    w[:15] = 1
    w[25:] = 1
    np.testing.assert_array_equal(P, w)


def test_bool_tensors_and_compare_chain(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((33,), "int32"), M: T.Tensor((33,), "bool"), O: T.Tensor((33,), "bool")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(33):
                O[i] = (0 <= A[i] < 3 and M[i]) or not (A[i] != -1)

    A = ints(33, dt=np.int32)
    M = random.random(33) < 0.5
    O = np.zeros(33, bool)
    k(A, M, O)
    np.testing.assert_array_equal(O, ((A >= 0) & (A < 3) & M) | (A == -1))


def test_while_and_negative_step(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((20,), "int32"), O: T.Tensor((3,), "int32")):
        with T.Kernel(1, threads=32):
            i = T.alloc_var("int32", 19)
            while i > 0 and A[i] < 3:
                i = i - 1
            O[0] = i
            s = T.alloc_var("int32", 0)
            for j in range(19, 0, -3):
                s = s * 2 + A[j]
            O[1] = s
            t = T.alloc_var("int32", 0)
            for j in T.serial(2, 20, 5):
                t = t * 2 + A[j]
            O[2] = t

    A = ints(20, dt=np.int32)
    A[4] = 4
    O = np.zeros(3, np.int32)
    k(A, O)
    i = 19
    while i > 0 and A[i] < 3:
        i -= 1
    s = t = 0
    for j in range(19, 0, -3):
        s = s * 2 + A[j]
    for j in range(2, 20, 5):
        t = t * 2 + A[j]
    assert O.tolist() == [i, s, t]


def test_strided_and_offset_views(target):
    @zl.jit(target=target)
    def k(A: T.StridedTensor((12, 20), (T.dynamic("s0"), T.dynamic("s1")), "float32"), O: T.Tensor((12, 20), "float32")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((12, 20), "float32")
            T.copy(A, s)
            T.copy(s, O)

    base = ints(24, 45)
    for v in (base[::2, 5:45:2], base[:20, :12].T, base[12:, :20]):
        O = np.zeros((12, 20), np.float32)
        k(v, O)
        np.testing.assert_array_equal(O, v)


def test_gather_scatter_duplicate(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((16, 8), "float32"), I: T.Tensor((16,), "int64"), O: T.Tensor((20, 8), "float32")):
        with T.Kernel(16, threads=32) as b:
            r = I[b]
            if r >= 0:
                for j in T.Parallel(8):
                    T.atomic_add(O[r, j], A[b, j])

    A = ints(16, 8)
    I = random.integers(-3, 20, 16)
    O = np.zeros((20, 8), np.float32)
    k(A, I, O)
    w = np.zeros_like(O)
    for b in range(16):
        if I[b] >= 0:
            w[I[b]] += A[b]
    np.testing.assert_array_equal(O, w)


def test_group_reduce_3d(target):
    @zl.jit(target=target)
    def k(A: T.Tensor((6, 96), "float32"), O: T.Tensor((6, 3), "float32"), Q: T.Tensor((6, 96), "float32")):
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((6, 96), "float32")
            T.copy(A, f)
            g = T.reshape(f, (6, 3, 32))
            r = T.alloc_fragment((6, 3), "float32")
            T.reduce_absmax(g, r, dim=2)
            T.copy(r, O)
            for i, j, l in T.Parallel(6, 3, 32):
                g[i, j, l] = g[i, j, l] / T.max(r[i, j], 1.0)
            T.copy(f, Q)

    A = ints(6, 96)
    O = np.zeros((6, 3), np.float32)
    Q = np.zeros_like(A)
    k(A, O, Q)
    m = abs(A.reshape(6, 3, 32)).max(2)
    np.testing.assert_array_equal(O, m)
    np.testing.assert_allclose(Q, (A.reshape(6, 3, 32) / np.maximum(m, 1)[..., None]).reshape(6, 96), rtol=1e-6)
