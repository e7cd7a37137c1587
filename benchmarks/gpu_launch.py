"""What a call costs on a CUDA device beside the driver's own launch, and what the first call of a product costs, cold and from the cache.

``python benchmarks/gpu_launch.py [--write]`` needs a device and torch; Triton is measured where it is installed. The kernel adds two
arrays of 1024 numbers, so that a call is nothing but checks, packing and the launch; each figure is the least of many rounds of calls
without a wait. First calls are measured in processes of their own, after their imports and with Python's byte code written before. One
product with a dynamic number of rows is called with every number from 1 to 4100 and compared, bit by bit, with float64. ``--write`` puts
the tables into ``benchmarks/results/gpu_launch.md`` and ``.json``.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import torch
from recording import RESULTS, as_installed, table

import zellige as zl
import zellige.language as T
from zellige_cuda import compiler, device, presence

SIZE, LANES = 1024, 128
MOST_ROWS, COLUMNS, DEPTH = 4100, 256, 128

TRITON = """
import triton
import triton.language as tl

@triton.jit
def add(a, b, c, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c + at, tl.load(a + at) + tl.load(b + at))
"""

FIRST = """
import sys, time
import torch, ml_dtypes
torch.ones(4, device="cuda")
import cuda.bindings.driver, cuda.bindings.nvrtc
cuda.bindings.nvrtc.nvrtcVersion()
import zellige as zl, zellige.language as T
import zellige.jit

@zl.jit(target="cuda")
def gemm(A, B, block_M=128, block_N=128, block_K=32):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), "float16")
    B: T.Tensor((K, N), "float16")
    C = T.empty((M, N), "float16")
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
        a = T.alloc_shared((block_M, block_K), "float16")
        b = T.alloc_shared((block_K, block_N), "float16")
        c = T.alloc_fragment((block_M, block_N), "float32")
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
            T.copy(A[by * block_M, k * block_K], a)
            T.copy(B[k * block_K, bx * block_N], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * block_M, bx * block_N])
    return C

x = torch.ones(1024, 1024, device="cuda", dtype=torch.float16)
torch.cuda.synchronize()
begin = time.perf_counter()
gemm(x, x)
torch.cuda.synchronize()
print((time.perf_counter() - begin) * 1e3)
"""


@T.prim_func
def add(A: T.Tensor((SIZE,), "float32"), B: T.Tensor((SIZE,), "float32"), C: T.Tensor((SIZE,), "float32")):
    with T.Kernel(SIZE // LANES, threads=LANES) as bx:
        for j in T.Parallel(LANES):
            C[bx * LANES + j] = A[bx * LANES + j] + B[bx * LANES + j]


m = T.dynamic("m")


@T.prim_func
def product(A: T.Tensor((m, DEPTH), "float16"), B: T.Tensor((DEPTH, COLUMNS), "float16"), C: T.Tensor((m, COLUMNS), "float32")):
    with T.Kernel(T.ceildiv(COLUMNS, 128), T.ceildiv(m, 128), threads=128) as (bx, by):
        a = T.alloc_shared((128, 32), "float16")
        b = T.alloc_shared((32, 128), "float16")
        c = T.alloc_fragment((128, 128), "float32")
        T.clear(c)
        for k in T.Pipelined(DEPTH // 32, num_stages=3):
            T.copy(A[by * 128, k * 32], a)
            T.copy(B[k * 32, bx * 128], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * 128, bx * 128])


def best(run: Callable[[], Any], calls: int = 200, rounds: int = 60) -> float:
    """Microseconds of one call in the fastest round."""
    found = float("inf")
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls):
            run()
        found = min(found, (time.perf_counter() - begin) / calls)
    torch.cuda.synchronize()
    return found * 1e6


def calls() -> dict[str, float]:
    """Microseconds a call, by the way in."""
    kernel, returning = zl.compile(add, target="cuda"), zl.compile(add, out_idx=-1, target="cuda")
    boxed = zl.compile(product, target="cuda")
    a, b, c = (torch.ones(SIZE, device="cuda") for _ in range(3))
    left, right = (torch.ones(shape, device="cuda", dtype=torch.float16) for shape in ((128, DEPTH), (DEPTH, COLUMNS)))
    sums = torch.empty(128, COLUMNS, device="cuda")
    for _ in range(4):
        kernel(a, b, c)
        returning(a, b)
        boxed(left, right, sums)
    for one in (kernel, returning, boxed):
        assert one._quick is not None
        assert one._quick.native is not None, "launched by machine code"
    raw = raw_launches(kernel, (a, b, c))
    found: dict[str, float] = {}
    ways: dict[str, Callable[[], Any]] = {
        **raw,
        "three torch tensors": partial(kernel, a, b, c),
        "two torch tensors, one returned": partial(returning, a, b),
        "product of any number of rows, its maps made at the call": partial(boxed, left, right, sums),
        "torch.add of the same tensors": partial(torch.add, a, b, out=c),
        **triton_call(a, b, c),
    }
    for _ in range(3):  # in turns
        for name, run in ways.items():
            found[name] = min(found.get(name, float("inf")), best(run, rounds=20))
    return found


def raw_launches(kernel: Any, tensors: tuple[Any, ...]) -> dict[str, Callable[[], Any]]:
    """cuLaunchKernel with arguments packed before, by ctypes and by cuda-python."""
    compiled = kernel._default.compiled
    (code,) = compiled.loaded_code()
    order = [place for _, place in compiled.functions[0]["params"]]
    words = (ctypes.c_uint64 * len(order))(*(tensors[place].data_ptr() for place in order))
    base = ctypes.addressof(words)
    parameters = (ctypes.c_void_p * len(order))(*(base + 8 * place for place in range(len(order))))
    stream, shape = torch._C._cuda_getCurrentRawStream(0), (SIZE // LANES, 1, 1, LANES, 1, 1, 0)
    api, address = device.required(), ctypes.addressof(parameters)
    kept = (words, parameters)

    def by_python(kept: Any = kept) -> None:
        api.cuLaunchKernel(code.handles[0], *shape, stream, address, 0)

    return {
        "cuLaunchKernel alone, by ctypes": partial(device.launcher(), code.handles[0], *shape, stream, parameters, None),
        "cuLaunchKernel alone, by cuda-python": by_python,
    }


def triton_call(a: Any, b: Any, c: Any) -> dict[str, Callable[[], Any]]:
    """Triton's launch of the same, where Triton is installed."""
    if importlib.util.find_spec("triton") is None:
        return {}
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
        file.write(TRITON)
    spec = importlib.util.spec_from_file_location("triton_add", file.name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {"Triton": lambda: module.add[(SIZE // LANES,)](a, b, c, BLOCK=LANES)}


def first_calls() -> dict[str, float]:
    """Milliseconds of the first call of a product, the least of several processes: compiled, and found on disk."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "first_call.py"
        path.write_text(FIRST)
        inherited = as_installed(folder)

        def first(cache: str) -> float:
            environment = {**inherited, "ZELLIGE_CACHE_DIR": f"{folder}/{cache}"}
            done = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(done.stderr)
            return float(done.stdout)

        first("unmeasured")
        cold = min(first(f"cold{number}") for number in range(2))
        first("warm")
        return {"compiled": cold, "found on disk": min(first("warm") for _ in range(12))}


def rows_of_any_number() -> dict[str, int]:
    """How many compilations one product takes for every number of rows, and for how many numbers it is wrong."""
    counted, compile_text = [0], compiler._compiled

    def noted(*given: Any) -> Any:
        counted[0] += 1
        return compile_text(*given)

    compiler._compiled = noted
    kernel = zl.compile(product, out_idx=-1, target="cuda")
    left = torch.randint(-4, 5, (MOST_ROWS, DEPTH), device="cuda").half()
    right = torch.randint(-4, 5, (DEPTH, COLUMNS), device="cuda").half()
    wanted, wrong = left.double() @ right.double(), torch.zeros((), device="cuda", dtype=torch.int64)
    before = counted[0]
    for rows in range(1, MOST_ROWS + 1):
        found = kernel(left[:rows], right)
        assert found.shape == (rows, COLUMNS)
        wrong += (found.double() != wanted[:rows]).any()
    compiler._compiled = compile_text
    return {"numbers of rows": MOST_ROWS, "compilations after the first call": counted[0] - before, "wrong": int(wrong)}


def environment() -> dict[str, str]:
    """The machine and the software of a measurement."""
    return {
        "device": torch.cuda.get_device_name(), "driver": presence.version_text(device.driver_version(device.required())),
        "NVRTC": ".".join(map(str, compiler.compiler_version())), "torch": torch.__version__, "python": platform.python_version(),
    }  # fmt: skip


@click.command(help=(__doc__ or "").split("\n\n")[0])
@click.option("--write", is_flag=True, help="Put the results down.")
def main(write: bool) -> None:
    a_call, a_first_call, rows = calls(), first_calls(), rows_of_any_number()
    driver = a_call["cuLaunchKernel alone, by cuda-python"]
    head = ("call that adds two arrays of 1024 numbers", "microseconds", "beside the driver's launch")
    lines = table(head, [(name, f"{value:.2f}", f"{value / driver:.2f}") for name, value in a_call.items()])
    lines += ["", *table(("first call of a product, after imports", "ms"), [(n, f"{v:.1f}") for n, v in a_first_call.items()])]
    lines += ["", *table(("product with a dynamic number of rows", ""), [(name, str(value)) for name, value in rows.items()])]
    machine = ", ".join(f"{name} {value}" for name, value in environment().items())
    text = "\n".join(["# What a call costs on a CUDA device", "", machine, "", *lines]) + "\n"
    click.echo(text)
    if write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "gpu_launch.md").write_text(text, encoding="utf-8")
        figures = {"microseconds of a call": a_call, "milliseconds of a first call": a_first_call, "dynamic rows": rows}
        content = {"environment": environment(), "figures": figures}
        (RESULTS / "gpu_launch.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
