"""Rows of attention, softmax and the norms: the kernels of ``examples/``, given the arrays for their results, beside torch."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from cpu_rows import Case, row

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

ROWS, COLUMNS = 4096, 1024
TOLERANCE = {"float32": 1e-4, "float16": 2e-3, "bfloat16": 1.6e-2}


def kernel(module: str, *constants: Any, **blocks: int) -> Any:
    """The example's kernel without ``out_idx``: with it every call would also pay for fresh memory, which torch's ``out=`` does not."""
    import zellige as zl

    return zl.jit(getattr(importlib.import_module(module), module).__wrapped__)(*constants, **blocks)


def close(found: Any, wanted: Any, dtype: str) -> None:
    """Raises where the results differ by more than the type's tolerance, relative to the largest element."""
    error = float((found.double() - wanted.double()).abs().max()) / max(1.0, float(wanted.double().abs().max()))
    if not error <= TOLERANCE[dtype]:
        raise AssertionError(f"the result is off by {error:.2e} of the largest element")


def rows_of(name: str, dtype: str, operands: int, other: Callable[..., Any]) -> Case:
    """A kernel over the rows of a matrix with ``operands`` further vectors of a row's length."""
    import torch

    torch.manual_seed(0)
    x = torch.randn(ROWS, COLUMNS).to(getattr(torch, dtype))
    vectors = [torch.randn(COLUMNS).to(x.dtype) for _ in range(operands)]
    y, theirs = torch.empty_like(x), torch.empty_like(x)
    ours = partial(kernel(name, COLUMNS, dtype), x, *vectors, y)

    def check() -> None:
        ours()
        close(y, other(x.float(), *[v.float() for v in vectors], out=None), dtype)

    work = 2 * x.numel() * x.element_size() / 1e9
    return Case(ours=ours, others={"torch": partial(other, x, *vectors, out=theirs)}, work=work, unit="GB/s", check=check)


def softmax(dtype: str) -> Case:
    import torch

    return rows_of("softmax", dtype, 0, lambda x, out: torch.softmax(x, -1) if out is None else torch.softmax(x, -1, out=out))


def rms_norm(dtype: str) -> Case:
    import torch

    return rows_of("rms_norm", dtype, 1, lambda x, weight, out: torch.nn.functional.rms_norm(x, (COLUMNS,), weight, 1e-5))


def layer_norm(dtype: str) -> Case:
    import torch

    return rows_of("layer_norm", dtype, 2, lambda x, weight, bias, out: torch.nn.functional.layer_norm(x, (COLUMNS,), weight, bias, 1e-5))


def attention(dtype: str, is_causal: bool, **blocks: int) -> Case:
    """``blocks`` are the example's block_M and block_N where they are not its defaults."""
    import torch

    torch.manual_seed(0)
    batch, heads, length, width = 1, 4, 1024, 64
    q, k, v = (torch.randn(batch, heads, length, width).to(getattr(torch, dtype)) for _ in range(3))
    o, log_sum = torch.empty_like(q), torch.empty(batch, heads, length)
    ours = partial(kernel("attention", heads, heads, width, is_causal, dtype, **blocks), q, k, v, o, log_sum)
    other = partial(torch.nn.functional.scaled_dot_product_attention, is_causal=is_causal)

    def check() -> None:
        ours()
        close(o, other(q.float(), k.float(), v.float()), dtype)

    pairs = length * (length + 1) / 2 if is_causal else length * length
    work = 4 * batch * heads * width * pairs / 1e9
    return Case(ours=ours, others={"torch": partial(other, q, k, v)}, work=work, unit="GFLOP/s", check=check)


for bars, name, make in (
    ((1.3, 1.3), "softmax", softmax),
    ((1.5, 1.5), "RMS norm", rms_norm),
    ((1.5, 1.5), "layer norm", layer_norm),
):
    for bar, dtype in zip(bars, ("float32", "bfloat16")):
        row(f"{name} {dtype} {ROWS}x{COLUMNS}", bar=bar)(partial(make, dtype))

for is_causal in (False, True):
    for bar, dtype in ((1.0, "float32"), (1.8, "bfloat16")):
        row(f"attention {'causal ' if is_causal else ''}{dtype} 1x4x1024x64", bar=bar)(partial(attention, dtype, is_causal))
for dtype in ("float32", "bfloat16"):  # with more keys at once each part of the output is loaded and stored less often
    row(f"attention {dtype} 1x4x1024x64, 256 keys a block")(partial(attention, dtype, False, block_N=256))
