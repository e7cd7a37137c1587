"""How fast products and attention are on the engines of an H100 or H200, beside cuBLAS and cuDNN.

``python benchmarks/engines.py [--only WORD] [--rounds 5] [--write]`` needs such a device and torch. Kernels are compiled for the device
as it is (copies by boxes, products of warpgroups, a producer beside the consumers); sizes, types and stages stand in the row. Ours and
the other take turns in one process; a figure is the median over the rounds of the mean of ten launches between two events of the device,
a ratio that of the other's time to ours in the same round, the median of them (above 1: ours is faster). Before a row is timed its result
is compared: products of small integers bit for bit, attention with the other's to a rounding of its type. ``--write`` puts the table in
``benchmarks/results/engines.md`` and ``.json``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import click
import torch
from devices import Attention, environment, milliseconds, put_down

import zellige as zl
import zellige.language as T


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One of ours beside one of theirs; ``flop`` a call."""

    name: str
    other: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]
    flop: float


def product(m: int, n: int, k: int, tile: tuple[int, int, int], stages: int, *, is_transposed: bool) -> Any:
    """bf16 with f32 sums; B as rows of k or (``is_transposed``) as rows of n."""
    rows, columns, depth = tile

    @T.prim_func
    def product(
        A: T.Tensor((m, k), "bfloat16"),
        B: T.Tensor((n, k) if is_transposed else (k, n), "bfloat16"),
        C: T.Tensor((m, n), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=256) as (bx, by):
            a = T.alloc_shared((rows, depth), "bfloat16")
            b = T.alloc_shared((columns, depth) if is_transposed else (depth, columns), "bfloat16")
            c = T.alloc_fragment((rows, columns), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, depth), num_stages=stages):
                T.copy(A[by * rows, step * depth], a)
                if is_transposed:
                    T.copy(B[bx * columns, step * depth], b)
                else:
                    T.copy(B[step * depth, bx * columns], b)
                T.gemm(a, b, c, transpose_B=is_transposed)
            T.copy(c, C[by * rows, bx * columns])

    return zl.compile(product, target="cuda")


def products() -> Iterator[Row]:
    settings = (
        ((4096, 4096, 4096), (128, 128, 64), 4, False), ((4096, 4096, 4096), (128, 256, 64), 4, False),
        ((4096, 4096, 4096), (128, 256, 64), 4, True), ((8192, 8192, 8192), (128, 256, 64), 4, False),
        ((8192, 8192, 8192), (128, 256, 64), 4, True), ((16384, 4096, 8192), (128, 256, 64), 4, True),
        ((2048, 2048, 16384), (128, 256, 64), 4, True), ((1024, 1024, 1024), (64, 128, 64), 8, True),
        ((4100, 4104, 4104), (192, 176, 64), 4, True),
    )  # fmt: skip
    for (m, n, k), tile, stages, is_transposed in settings:
        kernel = product(m, n, k, tile, stages, is_transposed=is_transposed)
        shape = (n, k) if is_transposed else (k, n)
        a, b = (torch.randint(-2, 3, s, device="cuda").to(torch.bfloat16) for s in ((m, k), shape))
        c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        kernel(a, b, c)
        if not torch.equal(c, torch.matmul(a, b.T if is_transposed else b)):
            raise SystemExit(f"{m} x {n} x {k} in tiles of {tile} is wrong")
        a, b = (torch.randn(s, device="cuda").to(torch.bfloat16) for s in ((m, k), shape))
        right, out = b.T if is_transposed else b, torch.empty_like(c)
        how = f"tile {' x '.join(map(str, tile))}, {stages} stages, B in rows of {'k' if is_transposed else 'n'}"
        yield Row(
            name=f"product bf16 {m} x {n} x {k}, {how}", other="cuBLAS", ours=partial(kernel, a, b, c),
            theirs=partial(torch.matmul, a, right, out=out), flop=2.0 * m * n * k,
        )  # fmt: skip


def attentions() -> Iterator[Row]:
    """The forward pass beside the faster of torch's two kernels for it; the rows' data are normal, as many heads of keys as of queries."""
    rows = (
        Attention(2, 16, 1024, 128, False, "float16", 128, 128), Attention(2, 16, 4096, 128, False, "float16", 128, 128),
        Attention(2, 16, 4096, 128, False, "float16", 192, 80), Attention(1, 16, 16384, 128, False, "bfloat16", 192, 80),
        Attention(2, 16, 1024, 128, True, "float16", 128, 128), Attention(2, 16, 4096, 128, True, "float16", 128, 128),
        Attention(2, 16, 4096, 128, True, "float16", 192, 80), Attention(1, 16, 8192, 128, True, "float16", 192, 80),
        Attention(1, 16, 16384, 128, True, "bfloat16", 192, 80), Attention(2, 16, 4096, 64, False, "float16", 192, 128),
        Attention(1, 16, 16384, 64, False, "bfloat16", 192, 128), Attention(2, 16, 4096, 64, True, "float16", 192, 128),
        Attention(1, 16, 16384, 64, True, "bfloat16", 192, 128),
    )  # fmt: skip
    for row in rows:
        q, k, v = row.inputs()
        name, theirs = fastest(q, k, v, is_causal=row.is_causal)
        o, sums = row.outputs(q)
        kernel = zl.compile(row.program, target="cuda")
        kernel(q, k, v, o, sums)
        error = row.difference(o, theirs())
        if error is not None:
            raise SystemExit(f"attention of {row.length} keys differs by {error}")
        yield Row(name=f"attention {row.name}", other=name, ours=partial(kernel, q, k, v, o, sums), theirs=theirs, flop=row.flop)


def fastest(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, is_causal: bool) -> tuple[str, Callable[[], torch.Tensor]]:
    """The name and the call of the faster of torch's kernels for attention; the choice of it stays outside of the calls that are timed."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    function = torch.nn.functional.scaled_dot_product_attention
    times = {}
    for name, backend in (("cuDNN", SDPBackend.CUDNN_ATTENTION), ("torch's flash kernel", SDPBackend.FLASH_ATTENTION)):
        with sdpa_kernel(backend):
            call = partial(function, q, k, v, is_causal=is_causal)
            milliseconds(call)
            times[name] = milliseconds(call)
    best = min(times, key=lambda name: times[name])
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_math_sdp(False)
    torch.backends.cuda.enable_flash_sdp(best != "cuDNN")
    torch.backends.cuda.enable_cudnn_sdp(best == "cuDNN")
    return best, partial(function, q, k, v, is_causal=is_causal)


HOW = (
    "Ours and the other take turns. Rates are from the median of the times; a ratio is that of the other's time to ours in the same round, "
    "the median of them: above 1 ours is faster."
)


@click.command(help=(__doc__ or "").split("\n\n")[0])
@click.option("--only", default="", help="Measure the rows whose name holds this.")
@click.option("--rounds", default=5, show_default=True)
@click.option("--write", is_flag=True, help="Put the results down.")
def main(only: str, rounds: int, write: bool) -> None:
    lines = ["| row | zellige, TFLOP/s | other | TFLOP/s | ratio |", "| --- | ---: | --- | ---: | ---: |"]
    figures: list[dict[str, Any]] = []
    for row in (*(products() if not only or "product" in only else ()), *(attentions() if not only or "attention" in only else ())):
        for call in (row.theirs, row.ours):
            milliseconds(call)
        turns = [(milliseconds(row.theirs), milliseconds(row.ours)) for _ in range(rounds)]
        theirs, ours = (median(times) for times in zip(*turns))
        ratio = median(t / o for t, o in turns)
        figures.append({"row": row.name, "other": row.other, "milliseconds": [ours, theirs], "ratio": ratio, "flop": row.flop})
        rates = [f"{row.flop / time * 1e-9:.0f}" for time in (ours, theirs)]
        lines.append(f"| {row.name} | {rates[0]} | {row.other} | {rates[1]} | {ratio:.3f} |")
        click.echo(lines[-1])
    if write:
        put_down("engines", "Engines of a CUDA device", [HOW, "", *lines], figures, environment())


if __name__ == "__main__":
    main()
