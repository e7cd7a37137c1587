"""Rows of matrix products: the kernels of ``examples/``, unchanged, beside NumPy and torch."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from cpu_rows import Case, row

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

TILE = {"block_M": 128, "block_N": 128, "block_K": 32}


def close(ours: Callable[[], Any], expected: Callable[[], Any], tolerance: float) -> None:
    """Raises where the results differ by more than ``tolerance`` of the largest element."""
    import torch

    found, wanted = (torch.as_tensor(f()).double() for f in (ours, expected))
    error = float((found - wanted).abs().max()) / max(1.0, float(wanted.abs().max()))
    if error > tolerance:
        raise AssertionError(f"the result is off by {error:.2e} of the largest element")


def float32(m: int, n: int, k: int) -> Case:
    import numpy as np
    import torch
    from gemm import gemm

    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    x, y = torch.from_numpy(a), torch.from_numpy(b)
    kernel = gemm(m, n, k, "float32", **TILE)
    ours = partial(kernel, a, b)
    others: dict[str, Callable[[], Any]] = {"numpy": lambda: a @ b, "torch": lambda: x @ y}
    return Case(ours=ours, others=others, work=2 * m * n * k / 1e9, unit="GFLOP/s", check=lambda: close(ours, lambda: a @ b, 1e-5))


def narrow(m: int, n: int, k: int, dtype: str) -> Case:
    import torch
    from gemm import gemm

    torch.manual_seed(0)
    x, y = torch.randn(m, k).to(getattr(torch, dtype)), torch.randn(k, n).to(getattr(torch, dtype))
    kernel = gemm(m, n, k, dtype, **TILE)
    ours = partial(kernel, x, y)
    others: dict[str, Callable[[], Any]] = {"torch": lambda: x @ y}
    check = partial(close, ours, lambda: x.float() @ y.float(), 1e-2)
    return Case(ours=ours, others=others, work=2 * m * n * k / 1e9, unit="GFLOP/s", check=check)


def int8(m: int, n: int, k: int) -> Case:
    import torch

    torch.manual_seed(0)
    x, y = (torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((m, k), (k, n)))
    kernel = int8_kernel()(m, n, k, **TILE)
    ours = partial(kernel, x, y)
    others: dict[str, Callable[[], Any]] = {"torch": lambda: torch._int_mm(x, y)}
    check = partial(close, ours, lambda: x.int() @ y.int(), 0.0)
    return Case(ours=ours, others=others, work=2 * m * n * k / 1e9, unit="GOP/s", check=check)


def int8_kernel() -> Any:
    """The product of ``examples/gemm.py`` with integer sums."""
    import zellige as zl
    import zellige.language as T

    @zl.jit(out_idx=[-1])
    def gemm_int8(M, N, K, block_M, block_N, block_K):  # type: ignore[no-untyped-def]
        @T.prim_func
        def gemm_int8(A: T.Tensor((M, K), "int8"), B: T.Tensor((K, N), "int8"), C: T.Tensor((M, N), "int32")):  # type: ignore[no-untyped-def,valid-type]
            with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
                A_tile = T.alloc_shared((block_M, block_K), "int8")
                B_tile = T.alloc_shared((block_K, block_N), "int8")
                C_tile = T.alloc_fragment((block_M, block_N), "int32")
                T.clear(C_tile)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                    T.copy(A[by * block_M, k * block_K], A_tile)
                    T.copy(B[k * block_K, bx * block_N], B_tile)
                    T.gemm(A_tile, B_tile, C_tile)
                T.copy(C_tile, C[by * block_M, bx * block_N])

        return gemm_int8

    return gemm_int8


for size, bar in ((512, 0.0), (1024, 1.0), (2048, 1.0)):
    row(f"GEMM float32 {size}", bar=bar)(partial(float32, size, size, size))
row("GEMM float32 1000x1037x999", bar=0.9)(partial(float32, 1000, 1037, 999))
row("GEMM float32 16x1024x1024")(partial(float32, 16, 1024, 1024))
for size in (512, 1024, 2048):
    row(f"GEMM bfloat16 {size}", bar=1.0)(partial(narrow, size, size, size, "bfloat16"))
    if size < 2048:  # torch takes many seconds
        row(f"GEMM float16 {size}")(partial(narrow, size, size, size, "float16"))
    row(f"GEMM int8 {size}", bar=0.9)(partial(int8, size, size, size))
