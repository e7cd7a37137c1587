"""Speed of the CPU backend's leaf functions on one core: tile products against the machine's peak, math functions, reductions.

``python benchmarks/cpu_leaves.py``. The peak is measured by a loop of independent multiply-adds in registers. Each figure is the best
of many short runs, so that other work on the machine disturbs little.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from zellige.dtypes import dtype
from zellige.ir.functions import FUNCTIONS
from zellige_cpu.host import running_host
from zellige_cpu.jit import compile_object
from zellige_cpu.leaf.accuracy import LARGEST_ERRORS
from zellige_cpu.leaf.gemm import GemmSpec, emit_gemm, scratch_bytes
from zellige_cpu.leaf.math import call
from zellige_cpu.leaf.reduce import ReduceSpec, emit_reduce
from zellige_cpu.leaf.scan import ScanSpec, emit_scan
from zellige_cpu.linker import load
from zellige_cpu.text import Module
from zellige_cpu.values import constant

HOST = running_host()
F32 = dtype("float32")


def compiled(module: Module, name: str) -> tuple[Any, float]:
    """The exported function and the milliseconds that LLVM took."""
    start = time.perf_counter()
    library = load(compile_object(module.text(), HOST), [name], HOST)
    elapsed = 1e3 * (time.perf_counter() - start)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 6)(library.addresses[name])
    function.library = library  # type: ignore[attr-defined]
    return function, elapsed


def best(run: Callable[[], None], repeat: int = 200) -> float:
    """Seconds of the fastest of many runs."""
    found = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        found = min(found, time.perf_counter() - start)
    return found


def aligned(count: int, kind: Any) -> np.ndarray:
    size = np.dtype(kind).itemsize
    memory = np.zeros(count * size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + count * size].view(kind)


def peak() -> float:
    """float32 operations a second of one core."""
    lanes, chains, rounds = HOST.lanes(4), 12, 100_000
    module = Module("peak", HOST)
    fn = module.function("run", "void", [("out", "ptr")], is_exported=True)
    with fn.loop(constant("i64", 0), constant("i64", rounds)) as loop:
        sums = [loop.carry(constant("float", 1.0 + i, lanes)) for i in range(chains)]
        for total in sums:
            loop.update(total, fn.intrinsic("llvm.fma", total, constant("float", 0.999, lanes), constant("float", 0.001, lanes)))
    for i, total in enumerate(sums):
        fn.store(loop.final(total), fn.offset(fn.params[0], i * lanes * 4), align=4)
    run, _ = compiled(module, "run")
    out = np.zeros(chains * lanes, np.float32)
    return 2 * lanes * chains * rounds / best(lambda: run(out.ctypes.data, *[None] * 5), 30)


def product(top: float, m: int, n: int, k: int, t: str, c: str, *, tb: bool = False) -> None:
    spec = GemmSpec(m=m, n=n, k=k, a=dtype(t), b=dtype(t), c=dtype(c), a_stride=k, b_stride=k if tb else n, c_stride=n, transpose_b=tb)
    module = Module("product", HOST)
    name = emit_gemm(module, spec)
    fn = module.function("run", "void", [(p, "ptr") for p in ("a", "b", "c", "scratch")], is_exported=True)
    with fn.loop(constant("i64", 0), constant("i64", 16)):
        fn.call(name, *fn.params[:3], constant("i1", True), fn.params[3])
    run, elapsed = compiled(module, "run")
    arrays = [
        aligned(m * k, spec.a.numpy),
        aligned(n * k, spec.b.numpy),
        aligned(m * n, spec.c.numpy),
        aligned(scratch_bytes(HOST, spec), np.uint8),
    ]
    seconds = best(lambda: run(*[a.ctypes.data for a in arrays], None, None)) / 16
    rate = 2 * m * n * k / seconds
    layout = "transposed b" if tb else ""
    share = f"{rate / 1e9:7.1f} G/s  {100 * rate / top:5.1f} % of peak"
    print(f"  {m:>4} x {n:>4} x {k:>4}  {t:>14} -> {c:8} {layout:12} {share}  {elapsed:5.0f} ms to compile")


def math_function(name: str) -> None:
    lanes, count = HOST.lanes(4), 4096
    arity = FUNCTIONS[name].arity
    module = Module("math", HOST)
    fn = module.function("run", "void", [(p, "ptr") for p in ("x", "y")], is_exported=True)
    with fn.loop(constant("i64", 0), constant("i64", 16)), fn.loop(constant("i64", 0), constant("i64", 4 * count), 4 * lanes) as loop:
        x = fn.load(fn.offset(fn.params[0], loop.index), "float", lanes, align=4)
        fn.store(call(fn, name, [x] * arity, F32), fn.offset(fn.params[1], loop.index), align=4)
    run, elapsed = compiled(module, "run")
    x, y = np.linspace(0.1, 10, count, dtype=np.float32), np.zeros(count, np.float32)
    seconds = best(lambda: run(x.ctypes.data, y.ctypes.data, *[None] * 4)) / 16
    print(f"  {name:8} {count / seconds / 1e9:6.2f} G elements/s  within {LARGEST_ERRORS[name]} units  {elapsed:4.0f} ms to compile")


def along_axis(axis: int) -> None:
    options: dict[str, Any] = {"shape": (128, 128), "axis": axis, "src_strides": (128, 1), "src": F32, "dst": F32}
    for label, emit, spec in (
        ("sum", emit_reduce, ReduceSpec(op="sum", dst_strides=(1,), **options)),
        ("max", emit_reduce, ReduceSpec(op="max", dst_strides=(1,), **options)),
        ("cumsum", emit_scan, ScanSpec(op="sum", dst_strides=(128, 1), **options)),
    ):
        module = Module("axis", HOST)
        name = emit(module, spec)  # type: ignore[operator]
        fn = module.function("run", "void", [("x", "ptr"), ("y", "ptr")], is_exported=True)
        with fn.loop(constant("i64", 0), constant("i64", 16)):
            fn.call(name, *fn.params)
        run, elapsed = compiled(module, "run")
        x, y = np.ones(128 * 128, np.float32), np.zeros(128 * 128, np.float32)
        seconds = best(partial(run, x.ctypes.data, y.ctypes.data, *[None] * 4)) / 16
        print(f"  {label:6} axis {axis}: {128 * 128 / seconds / 1e9:6.2f} G elements/s  {elapsed:4.0f} ms to compile")


def main() -> None:
    top = peak()
    print(f"{HOST.cpu}, one core: peak {top / 1e9:.0f} G float32 operations/s")
    print("products of tiles in cache")
    for size in ((128, 128, 128), (128, 128, 32), (64, 64, 64), (256, 128, 64), (80, 112, 48), (1, 512, 128)):
        product(top, *size, "float32", "float32")
    product(top, 128, 128, 128, "float32", "float32", tb=True)
    for t, c in (("float16", "float32"), ("bfloat16", "bfloat16"), ("float8_e4m3fn", "float32"), ("int8", "int32"), ("float64", "float64")):
        product(top, 128, 128, 64, t, c)
    print("math functions in float32")
    for name in LARGEST_ERRORS:
        math_function(name)
    print("128 x 128 tiles along an axis")
    for axis in (0, 1):
        along_axis(axis)


if __name__ == "__main__":
    main()
