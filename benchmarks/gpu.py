"""How fast kernels are on a CUDA device beside cuBLAS, torch, Triton and TileLang.

``python benchmarks/gpu.py [--only WORDS] [--rounds 15] [--tilelang FOLDER] [--write]`` needs a device, torch and Triton. Ours and the
others take turns in one process, in an order drawn anew for each round, since what ran before leaves the clocks and the cache as it does;
a figure is the median over the rounds of the mean of ten launches between two events of the device, a ratio that of the other's time to
ours (above 1: ours is faster). Products and attention are compiled for sm_90, which has ``cp.async`` and ``mma.sync`` and neither copies
by boxes nor asynchronous products; "Triton, kept to mma.sync" is its kernel compiled for sm_80 and loaded as PTX, so that both use the
same instructions, and "TileLang, kept to mma.sync" what ``tilelang_products.py`` put into a folder; tiles, warps and stages are the same.
Rows of memory are written to a tensor that exists, by all. ``--write`` puts the table down in ``benchmarks/results/gpu.md`` and ``.json``.
"""

from __future__ import annotations

import ctypes
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import click
import torch
import triton
import triton.language as tl
from cuda.bindings import driver
from devices import environment, milliseconds, put_down
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

import zellige as zl
import zellige.language as T

TARGET = "cuda:sm_90"
"""The instructions that a generation without asynchronous products has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What is measured together. ``work`` is flop or bytes a call, in ``unit`` a second (TFLOP/s or GB/s)."""

    name: str
    calls: dict[str, Callable[[], Any]]
    work: float
    unit: str


def product(m: int, n: int, k: int, threads: int, stages: int) -> Any:
    """f16 with f32 sums, the tile 128 x 128 x 32."""
    block = 128, 128, 32

    @T.prim_func
    def product(A: T.Tensor((m, k), "float16"), B: T.Tensor((k, n), "float16"), C: T.Tensor((m, n), "float16")):
        with T.Kernel(T.ceildiv(n, block[1]), T.ceildiv(m, block[0]), threads=threads) as (bx, by):
            a = T.alloc_shared((block[0], block[2]), "float16")
            b = T.alloc_shared((block[2], block[1]), "float16")
            c = T.alloc_fragment((block[0], block[1]), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, block[2]), num_stages=stages):
                T.copy(A[by * block[0], step * block[2]], a)
                T.copy(B[step * block[2], bx * block[1]], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * block[0], bx * block[1]])

    return zl.compile(product, target=TARGET)


@triton.jit
def triton_product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    bx, by = tl.program_id(0), tl.program_id(1)
    rows, columns, depth = by * BM + tl.arange(0, BM), bx * BN + tl.arange(0, BN), tl.arange(0, BK)
    left, right = a + rows[:, None] * K + depth[None, :], b + depth[:, None] * N + columns[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, K, BK):
        total = tl.dot(tl.load(left), tl.load(right), total)
        left += BK
        right += BK * N
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))


def triton_kept_to_mma(A: Any, B: Any, C: Any, size: int, warps: int, stages: int) -> Callable[[], Any]:
    """Triton's kernel with the instructions of sm_80, on this device."""
    source = ASTSource(
        fn=triton_product,
        signature={"a": "*fp16", "b": "*fp16", "c": "*fp16", "M": "i32", "N": "i32", "K": "i32", "BM": "constexpr", "BN": "constexpr",
                   "BK": "constexpr"},
        constexprs={"BM": 128, "BN": 128, "BK": 32}, attrs={(i,): [["tt.divisibility", 16]] for i in range(6)},
    )  # fmt: skip
    made = triton.compile(source, target=GPUTarget("cuda", 80, 32), options={"num_warps": warps, "num_stages": stages})
    text = made.asm["ptx"]
    assert "mma.sync" in text
    assert "wgmma" not in text
    module = _checked(driver.cuModuleLoadData(text.encode() + b"\0"))
    function = _checked(driver.cuModuleGetFunction(module, made.metadata.name.encode()))
    most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    _checked(driver.cuFuncSetAttribute(function, most, made.metadata.shared))
    head = text[text.index(".entry") :]
    count = len(re.findall(r"\.param", head[: head.index(")")]))
    values = [A.data_ptr(), B.data_ptr(), C.data_ptr(), size, size, size] + [0] * (count - 6)
    types = [ctypes.c_void_p] * 3 + [ctypes.c_int] * 3 + [ctypes.c_void_p] * (count - 6)
    stream = torch.cuda.current_stream().cuda_stream
    grid = size // 128, size // 128, 1
    return lambda: driver.cuLaunchKernel(
        function, *grid, warps * 32, 1, 1, made.metadata.shared, stream, (tuple(values), tuple(types)), 0
    )


def tilelang_kept_to_mma(folder: Path, A: Any, B: Any, C: Any, size: int, threads: int, stages: int) -> Callable[[], Any]:
    """TileLang's kernel with the instructions of sm_80, compiled elsewhere."""
    module = _checked(driver.cuModuleLoadData((folder / f"product_{size}_{threads}_{stages}.cubin").read_bytes()))
    function = _checked(driver.cuModuleGetFunction(module, b"product_kernel"))
    shared = stages * (128 * 32 + 32 * 128) * 2
    _checked(driver.cuFuncSetAttribute(function, driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared))
    values, types = (A.data_ptr(), B.data_ptr(), C.data_ptr()), (ctypes.c_void_p,) * 3
    stream = torch.cuda.current_stream().cuda_stream
    grid = size // 128, size // 128, 1
    return lambda: driver.cuLaunchKernel(function, *grid, threads, 1, 1, shared, stream, (values, types), 0)


def _checked(answer: tuple[Any, ...]) -> Any:
    if int(answer[0]):
        raise RuntimeError(answer[0].name)
    return answer[1] if len(answer) > 1 else None


def products(tilelang: Path | None) -> Iterator[Row]:
    for size in (2048, 4096, 8192):
        A, B = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
        C = torch.empty_like(A)
        exact = torch.matmul(A, B).float()
        for threads, stages in ((256, 3), (256, 4), (128, 3)):
            calls = {
                "zellige": partial(product(size, size, size, threads, stages), A, B, C),
                "Triton, kept to mma.sync": triton_kept_to_mma(A, B, C, size, threads // 32, stages),
            }
            if tilelang is not None:
                calls["TileLang, kept to mma.sync"] = tilelang_kept_to_mma(tilelang, A, B, C, size, threads, stages)
            for name, call in calls.items():
                C.zero_()
                call()
                assert (C.float() - exact).abs().max() < 0.5, name
            calls["cuBLAS"] = partial(torch.matmul, A, B, out=C)
            yield Row(name=f"product f16 {size}, {threads} threads, {stages} stages", calls=calls, work=2.0 * size**3, unit="TFLOP/s")


def rows_of_memory() -> Iterator[Row]:
    import rms_norm
    import softmax

    for rows, columns, blocks in ((32768, 4096, (4096,)), (8192, 16384, (16384, 4096))):
        X = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16)
        Y, weight = torch.empty_like(X), torch.ones(columns, device="cuda", dtype=torch.bfloat16)
        work = 2.0 * X.nbytes
        copy = partial(Y.copy_, X)
        for block in blocks:
            made = softmax.softmax(columns, "bfloat16", block_rows=1, block_columns=block)
            ours = zl.compile(made.prim_func, target=TARGET)
            calls = {"zellige": partial(ours, X, Y), "torch": partial(torch.softmax, X, -1, out=Y), "copy": copy}
            yield Row(name=f"softmax bf16 {rows} x {columns}, blocks of {block}", calls=calls, work=work, unit="GB/s")
        norm = zl.compile(rms_norm.rms_norm(columns, "bfloat16", block_rows=1).prim_func, target=TARGET)
        calls = {
            "zellige": partial(norm, X, weight, Y), "torch": partial(torch.nn.functional.rms_norm, X, (columns,), weight), "copy": copy,
        }  # fmt: skip
        yield Row(name=f"RMS norm bf16 {rows} x {columns}", calls=calls, work=work, unit="GB/s")


def attention_rows() -> Iterator[Row]:
    import attention

    for causal in (False, True):
        batch, heads, length, width = 2, 16, 4096, 128
        Q, K, V = (torch.randn(batch, heads, length, width, device="cuda", dtype=torch.bfloat16) for _ in range(3))
        work = 4.0 * batch * heads * length**2 * width * (0.5 if causal else 1)
        peer = partial(torch.nn.functional.scaled_dot_product_attention, Q, K, V, is_causal=causal)
        out, log_sum = torch.empty_like(Q), torch.empty(batch, heads, length, device="cuda")
        exact = peer().float()
        for block in (64, 128, 256):
            made = attention.attention(heads, heads, width, causal, "bfloat16", block_M=block)
            kernel = zl.compile(made.prim_func, target=TARGET)
            kernel(Q, K, V, out, log_sum)
            assert (out.float() - exact).abs().max() < 0.02
            calls = {"zellige": partial(kernel, Q, K, V, out, log_sum), "torch SDPA": peer}
            name = f"attention bf16 {length} x {width}{', causal' if causal else ''}, {block} rows"
            yield Row(name=name, calls=calls, work=work, unit="TFLOP/s")


def measured(row: Row, rounds: int) -> dict[str, float]:
    """Milliseconds a call, the calls in turns, in another order in each round."""
    found: dict[str, list[float]] = {name: [] for name in row.calls}
    for call in row.calls.values():
        call()
    torch.cuda.synchronize()
    chance = random.Random(0)
    for _ in range(rounds):
        for name in chance.sample(list(row.calls), len(row.calls)):
            found[name].append(milliseconds(row.calls[name]))
    return {name: median(times) for name, times in found.items()}


def _environment() -> dict[str, str]:
    found = environment()
    return {
        "device": found["device"], "driver": str(_checked(driver.cuDriverGetVersion())), "torch": found["torch"],
        "triton": triton.__version__, "python": found["python"], "zellige": found["zellige"],
    }  # fmt: skip


@click.command(help=(__doc__ or "").split("\n\n")[0])
@click.option("--only", default="", help="Measure the rows whose name holds this.")
@click.option("--rounds", default=15, show_default=True)
@click.option("--tilelang", type=click.Path(path_type=Path, exists=True), help="The folder of tilelang_products.py.")
@click.option("--write", is_flag=True, help="Put the results down.")
def main(only: str, rounds: int, tilelang: Path | None, write: bool) -> None:
    figures: list[dict[str, Any]] = []
    lines = ["| row | who | figure | ours beside it |", "| --- | --- | ---: | ---: |"]
    for make in (partial(products, tilelang), rows_of_memory, attention_rows):
        for row in make():
            if only and only not in row.name:
                continue
            times = measured(row, rounds)
            scale = 1e9 if row.unit == "TFLOP/s" else 1e6
            figures.append({"row": row.name, "milliseconds": times, "unit": row.unit, "work": row.work})
            for name, time in times.items():
                ratio = "" if name == "zellige" else f"{time / times['zellige']:.2f}"
                lines.append(f"| {row.name} | {name} | {row.work / time / scale:.0f} {row.unit} | {ratio} |")
                click.echo(lines[-1])
    if write:
        put_down("gpu", "CUDA devices", lines, figures, _environment())


if __name__ == "__main__":
    main()
