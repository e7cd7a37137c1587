"""Kernels in the author's language, whose bodies :mod:`zellige.generate.survival` damages.

Out: :data:`SOURCES`, each the text of a module with one kernel named ``kernel`` at its end.
"""

from __future__ import annotations

from typing import Final

_HEAD: Final = "from __future__ import annotations\n\nimport zellige.language as T\n\n\n@T.prim_func\n"

SOURCES: Final = tuple(
    _HEAD + body
    for body in (
        """\
def kernel(A: T.Tensor((70, 50), "float32"), B: T.Tensor((50, 33), "float32"), C: T.Tensor((70, 33), "float32")):
    with T.Kernel(T.ceildiv(33, 16), T.ceildiv(70, 16), threads=128) as (bx, by):
        A_tile = T.alloc_shared((16, 16), "float32")
        B_tile = T.alloc_shared((16, 16), "float32")
        C_tile = T.alloc_fragment((16, 16), "float32")
        T.clear(C_tile)
        for k in T.Pipelined(T.ceildiv(50, 16), num_stages=2):
            T.copy(A[by * 16, k * 16], A_tile)
            T.copy(B[k * 16, bx * 16], B_tile)
            T.gemm(A_tile, B_tile, C_tile)
        T.copy(C_tile, C[by * 16, bx * 16])
""",
        """\
def kernel(X: T.Tensor((9, 40), "float16"), Y: T.Tensor((9, 40), "float16")):
    with T.Kernel(9, threads=64) as row:
        x = T.alloc_fragment((40,), "float32")
        top = T.alloc_fragment((1,), "float32")
        total = T.alloc_fragment((1,), "float32")
        T.copy(X[row, 0:40], x)
        T.reduce_max(x, top, dim=0, clear=True)
        for i in T.Parallel(40):
            x[i] = T.exp(x[i] - top[0])
        T.reduce_sum(x, total, dim=0)
        for i in T.Parallel(40):
            x[i] = x[i] / total[0]
        T.copy(x, Y[row, 0:40])
""",
        """\
def kernel(A: T.Tensor((100,), "int32"), B: T.Tensor((100,), "int32"), n: T.int32):
    with T.Kernel(T.ceildiv(100, 32), threads=32) as bx:
        seen = T.alloc_local((4,), "int32")
        count = T.alloc_var("int32")
        count = 0
        for j in range(4):
            seen[j] = j * 2 - 1
            if j % 2 == 0 and n > j:
                count += seen[j]
            elif n == 3:
                continue
            else:
                count = max(count, j) if n < 10 else -count
        for i in T.Parallel(32):
            value = A[bx * 32 + i]
            if 0 <= value < n or value == -7:
                B[bx * 32 + i] = value // 3 + count
            else:
                B[bx * 32 + i] = T.if_then_else(value > 5, value % 7, T.abs(value))
""",
        """\
def kernel(A: T.Tensor((64, 8), "float32"), H: T.Tensor((8,), "int32"), C: T.Tensor((64,), "float32")):
    with T.Kernel(2, threads=32) as bx:
        tx = T.get_thread_binding(0)
        s = T.alloc_shared((32,), "float32")
        acc = T.alloc_var("float32")
        acc = 0.0
        for k in T.serial(8):
            acc = acc + A[bx * 32 + tx, k]
        s[tx] = acc
        T.sync_threads()
        while acc > 100.0:
            acc = acc / 2.0
        C[bx * 32 + tx] = s[(tx + 1) % 32] + T.cast(tx, "float32")
        T.atomic_add(H[tx % 8], 1)
""",
    )
)
