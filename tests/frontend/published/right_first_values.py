"""Tiles that are added to get a first value in each of the ways there are."""

import zellige as zl
import zellige.language as T


@zl.jit(target="interp")
def sums(blocks: int):
    @T.prim_func
    def main(A: T.Tensor((blocks, 16, 16), "float32"), n: T.int32, C: T.Tensor((5, 16, 16), "float32"), D: T.Tensor((16,), "float32")):
        with T.Kernel(1):
            a = T.alloc_shared((16, 16), "float32")
            cleared = T.alloc_fragment((16, 16), "float32")
            first = T.alloc_fragment((16, 16), "float32")
            filled = T.alloc_fragment((16, 16), "float32")
            loaded = T.alloc_shared((2, 16, 16), "float32")
            stored = T.alloc_local((16, 16), "float32")
            rows = T.alloc_reducer((16,), "float32", op="sum")
            whole = T.alloc_fragment((16,), "float32")
            T.clear(cleared)
            T.fill(filled, 2)
            T.clear(rows)
            T.copy(A[0, :, :], loaded[0, :, :])
            T.copy(loaded[0, :, :], loaded[1, :, :])
            for i, j in T.Parallel(16, 16):
                if i < n:
                    stored[i, j] = 1
                else:
                    stored[i, j] = 0
            for k in T.Pipelined(blocks, num_stages=2):
                T.copy(A[k, :, :], a)
                T.gemm(a, a, cleared)
                T.gemm(a, a, first, clear_accum=k == 0)
                T.gemm(a, a, T.view(filled, (16, 16)))
                for i, j in T.Parallel(16, 16):
                    loaded[1, i, j] += a[i, j]
                    stored[i, j] += a[i, j]
                    rows[i] += a[i, j]
            T.finalize_reducer(rows)
            T.reduce_sum(cleared, whole, dim=1)
            T.reduce_max(first, whole, dim=1, clear=False)
            T.copy(cleared, C[0, :, :])
            T.copy(first, C[1, :, :])
            T.copy(filled, C[2, :, :])
            T.copy(loaded[1, :, :], C[3, :, :])
            T.copy(stored, C[4, :, :])
            for i in T.Parallel(16):
                D[i] = rows[i] + whole[i]

    return main


def program() -> None:
    sums(4)
