"""What a call costs beside the work of the kernel, and what the first call costs, cold and with a kernel found on disk.

``python benchmarks/launch.py [--write]``. The kernel is one grid cell over 16 elements, so that a call is nothing but checks, packing and
the way into machine code. Each figure is the least of many runs, of wall time; first calls are measured in processes of their own, after
their imports, with Python's byte code written before, as where a package is installed. ``--write`` puts the tables into
``benchmarks/results/launch.md`` and ``.json``.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from recording import as_installed, page, table, write

import zellige as zl
import zellige.language as T
from zellige.runtime.native import SLOW

SIZE = 16

FIRST_CALL = """
import time
import llvmlite.binding, ml_dtypes, numpy as np
import zellige as zl, zellige.language as T
import zellige.jit

@zl.jit(target="cpu")
def gemm(A, B, block_M=128, block_N=128, block_K=32):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), "float32")
    B: T.Tensor((K, N), "float32")
    C = T.empty((M, N), "float32")
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M)) as (bx, by):
        a = T.alloc_shared((block_M, block_K), "float32")
        b = T.alloc_shared((block_K, block_N), "float32")
        c = T.alloc_fragment((block_M, block_N), "float32")
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
            T.copy(A[by * block_M, k * block_K], a)
            T.copy(B[k * block_K, bx * block_N], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * block_M, bx * block_N])
    return C

x = np.ones((SIZE, SIZE), np.float32)
begin = time.perf_counter()
gemm(x, x)
print((time.perf_counter() - begin) * 1e3)
"""

LAZY = """
import time
import llvmlite.binding, ml_dtypes, numpy as np
import zellige as zl, zellige.language as T
import zellige.jit

@zl.jit(target="cpu", out_idx=[-1])
def gemm(M, N, K, block_M=128, block_N=128, block_K=32):
    @T.prim_func
    def product(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M)) as (bx, by):
            a = T.alloc_shared((block_M, block_K), "float32")
            b = T.alloc_shared((block_K, block_N), "float32")
            c = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], a)
                T.copy(B[k * block_K, bx * block_N], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * block_M, bx * block_N])
    return product

x = np.ones((SIZE, SIZE), np.float32)
begin = time.perf_counter()
gemm(SIZE, SIZE, SIZE)(x, x)
print((time.perf_counter() - begin) * 1e3)
"""

FIRST_CALLS = {
    "eager, one cell": FIRST_CALL.replace("SIZE", "128"),
    "eager, four cells shared out": FIRST_CALL.replace("SIZE", "256"),
    "lazy, one cell": LAZY.replace("SIZE", "128"),
}
"""Programs that print the milliseconds of a first call, by style and grid."""


@T.prim_func
def add(A: T.Tensor((SIZE,), "float32"), B: T.Tensor((SIZE,), "float32"), C: T.Tensor((SIZE,), "float32")):
    with T.Kernel(1) as _:
        for j in T.Parallel(SIZE):
            C[j] = A[j] + B[j]


@zl.jit(target="cpu")
def eager_add(A, B):
    A: T.Tensor((SIZE,), "float32")
    B: T.Tensor((SIZE,), "float32")
    C = T.empty((SIZE,), "float32")
    with T.Kernel(1) as _:
        for j in T.Parallel(SIZE):
            C[j] = A[j] + B[j]
    return C


def best(run: Callable[[], Any], calls: int = 100, rounds: int = 500) -> float:
    """Microseconds of one call in the fastest round; rounds are shorter than what the system gives a process at a time."""
    found = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(calls):
            run()
        found = min(found, (time.perf_counter() - begin) / calls)
    return found * 1e6


def calls() -> dict[str, float]:
    """Microseconds a call, by the way in."""
    kernel, returning = zl.compile(add, target="cpu"), zl.compile(add, out_idx=-1, target="cpu")
    a, b, c = (np.ones(SIZE, np.float32) for _ in range(3))
    for _ in range(4):
        kernel(a, b, c)
        returning(a, b)
        eager_add(a, b)
    assert kernel._quick is not None
    assert kernel._quick((a, b, c)) is not SLOW
    found = {
        "three NumPy arrays": best(partial(kernel, a, b, c)),
        "two NumPy arrays, one returned": best(partial(returning, a, b)),
        "two NumPy arrays, eager style": best(partial(eager_add, a, b)),
        "packing of three NumPy arrays alone": best(partial(kernel._quick._pack, a, b, c)),
        "three NumPy arrays, every check in Python": best(partial(kernel._called_slowly, (a, b, c), {}), calls=20),
    }
    try:
        import torch
    except ImportError:
        return found
    x, y, z = (torch.ones(SIZE) for _ in range(3))
    for _ in range(4):
        kernel(x, y, z)
    found["three torch tensors"] = best(partial(kernel, x, y, z))
    return found


def first_calls() -> dict[str, tuple[float, float]]:
    """Milliseconds of the first call of a matrix product: compiled, and found on disk, by style and grid."""
    return {name: _first_calls(program) for name, program in FIRST_CALLS.items()}


def _first_calls(program: str) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        inherited = as_installed(folder)

        def first(cache: str) -> float:
            environment = {**inherited, "ZELLIGE_CACHE_DIR": f"{folder}/{cache}"}
            command = [sys.executable, "-c", _as_file(folder, program)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            return float(done.stdout)

        first("unmeasured")
        cold = min(first(f"cold{number}") for number in range(3))
        first("warm")
        return cold, min(first("warm") for _ in range(12))


def _as_file(folder: str, program: str) -> str:
    """A program that runs the measurement from a file, since kernels need their source."""
    path = Path(folder) / "first_call.py"
    path.write_text(program)
    return f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/launch.md and .json")
    chosen = parser.parse_args()
    a_call, a_first_call = calls(), first_calls()
    body = table(("call of a kernel of one cell", "microseconds"), [(name, f"{value:.2f}") for name, value in a_call.items()])
    head = ("first call of a matrix product, after imports, ms", "compiled", "found on disk")
    body += ["", *table(head, [(name, f"{cold:.0f}", f"{warm:.1f}") for name, (cold, warm) in a_first_call.items()])]
    text = page("What a call costs", body)
    print(text, end="")
    if chosen.write:
        write("launch", text, {"microseconds of a call": a_call, "milliseconds of a first call": a_first_call})


if __name__ == "__main__":
    main()
