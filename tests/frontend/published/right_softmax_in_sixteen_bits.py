import zellige as zl
import zellige.language as T


@T.prim_func
def softmax(A: T.Tensor((64, 128), "float16"), B: T.Tensor((64, 128), "float16")):
    with T.Kernel(64) as bx:
        row = T.alloc_fragment((128,), "float32")
        top = T.alloc_fragment((1,), "float32")
        total = T.alloc_fragment((1,), "float32")
        T.copy(A[bx, :], row)
        T.reduce_max(row, top, dim=0)
        for j in T.Parallel(128):
            row[j] = T.exp(row[j] - top[0])
        T.reduce_sum(row, total, dim=0)
        for j in T.Parallel(128):
            B[bx, j] = row[j] / total[0]


def program() -> None:
    zl.compile(softmax, out_idx=-1, target="interp")
