"""Running tile IR on the CPU backend and on the interpreter, and comparing what both make of the same memory."""

from __future__ import annotations

import ctypes
import re
import textwrap
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from zellige.interp import interpret
from zellige.ir.parser import parse_kernel
from zellige.ir.sizes import SizeSystem
from zellige.ir.stmt import Kernel, ScalarParam
from zellige.ir.traverse import deep_nesting
from zellige.ir.verify import check
from zellige.options import CompileOptions
from zellige.plan.planner import plan
from zellige_cpu.backend import capabilities_of
from zellige_cpu.host import Host, make_host, running_host
from zellige_cpu.jit import compile_object
from zellige_cpu.kernel import CpuKernel
from zellige_cpu.launch import lower
from zellige_cpu.linker import load
from zellige_cpu.memory import Memory
from zellige_cpu.program import Program


def kernel_of(text: str) -> Kernel:
    """A verified kernel from all of its text behind the version line."""
    kernel = parse_kernel("# tile-ir 1.0\n\n\n" + textwrap.dedent(text).strip("\n") + "\n")
    check(kernel)
    return kernel


def block_kernel(parameters: str, body: str, *, launch: str = "launch(1) as (bx,)") -> Kernel:
    """A kernel of one launch: ``parameters`` go between the parentheses, ``body`` into the launch."""
    lines = textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8)
    return kernel_of(f"def k({parameters}):\n    with {launch}:\n{lines}")


@lru_cache(maxsize=4)
def reduced_host(name: str) -> Host:
    """The running machine with fewer features: ``avx2`` has no masked accesses and no tiles, ``sse`` no fused multiply-add either."""
    host = running_host()
    newer = ("avx512", "avx10", "avxvnni", "avxneconvert", "avxifma", "amx")
    hidden = {"avx2": newer, "sse": (*newer, "avx", "fma", "f16c", "xop", "vaes", "vpclmul", "gfni")}
    flags = {f: not f.startswith(hidden[name]) for f in host.features} | dict.fromkeys(host.disabled, False)
    return make_host(host.triple, "x86-64", flags)


def compile_for(kernel: Kernel, host: Host | None = None, options: CompileOptions | None = None) -> CpuKernel:
    chosen = host or running_host()
    with deep_nesting():
        planned = plan(kernel, capabilities_of(chosen))
        return CpuKernel(kernel, lower(planned, chosen, options or CompileOptions()), chosen)


MOST_ASKED = 4194304
PLAYED = """
@asked = global [4194304 x ptr] zeroinitializer, align 64
@count = global i64 0, align 8
define i64 @how_many() { %n = load i64, ptr @count ret i64 %n }
define ptr @which() { ret ptr @asked }
define internal void @played(ptr %line, i32 %written, i32 %locality, i32 %kind) {
  %n = load i64, ptr @count
  %place = getelementptr ptr, ptr @asked, i64 %n
  store ptr %line, ptr %place
  %more = add i64 %n, 1
  store i64 %more, ptr @count
  ret void
}
"""
"""Instead of asking for a line its address is noted."""


def places_asked_for(program: Program, arrays: Sequence[np.ndarray]) -> list[int]:
    """The addresses of the lines that a program's only launch asks for when one thread runs it on these arrays, in order."""
    launch, host = program.launches[0], running_host()
    code = re.sub(r"declare void @llvm\.prefetch\S*\(.*", "", program.text).replace("@llvm.prefetch.p0(", "@played(")
    library = load(compile_object(code + PLAYED, host), [*program.exported, "how_many", "which"], host)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * 4, ctypes.c_int64)
    status = (ctypes.c_int64 * 64)()
    args = (ctypes.c_uint64 * 8)(*(array.ctypes.data for array in arrays), ctypes.addressof(status))
    memories = [Memory() for _ in launch.memory]
    scratch, leaf, states, shared = (memory.aligned(size) for memory, size in zip(memories, launch.memory))
    cells = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(library.addresses[launch.cells])(ctypes.addressof(args))
    kind(library.addresses[launch.function])(ctypes.addressof(args), 0, cells, scratch, leaf, states, shared, 1)
    count = ctypes.CFUNCTYPE(ctypes.c_int64)(library.addresses["how_many"])()
    assert count < MOST_ASKED
    first = ctypes.CFUNCTYPE(ctypes.c_void_p)(library.addresses["which"])()
    return list((ctypes.c_uint64 * count).from_address(first))


APART = 1 << 18
"""Bytes: more than what is asked for beyond the end of packed operands, whose memory may lie next to any array."""


def on_lines(shape: tuple[int, int]) -> np.ndarray:
    """Zeros of float32 that begin where a line does, with nothing of others ``APART`` bytes before and behind them."""
    size, apart = shape[0] * shape[1], APART // 4
    memory = np.zeros(apart + 16 + size + apart, np.float32)
    start = apart + -memory.ctypes.data % 64 // 4
    return memory[start : start + size].reshape(shape)


def run_on(compiled: CpuKernel, kernel: Kernel, arguments: Sequence[Any]) -> None:
    """Launch on NumPy arrays and numbers, one a parameter; arrays change."""
    pointers, scalars = [], []
    shapes: dict[int, list[int]] = {}
    strides: dict[int, list[int]] = {}
    values: dict[Any, int] = {}
    for index, (param, argument) in enumerate(zip(kernel.params, arguments)):
        if isinstance(param, ScalarParam):
            scalars.append(argument)
            values[param.var] = argument
            continue
        shape = list(argument.shape)
        if param.buffer.dtype.lanes > 1:
            shape.pop()
        if param.buffer.dtype.bits == 4:
            shape[-1] *= 2
        shapes[index], strides[index] = shape, [s // argument.itemsize for s in argument.strides]
        pointers.append(argument.ctypes.data)
    system = SizeSystem.of(kernel)
    sizes, mismatches = system.solve(shapes, strides, values)
    assert not mismatches
    compiled.launch(pointers, scalars, [sizes[v] for v in system.variables])


def copied(arguments: Sequence[Any]) -> list[Any]:
    """The arguments, each array with memory of its own and the same strides."""

    def copy(array: np.ndarray) -> np.ndarray:
        span = sum((n - 1) * s for n, s in zip(array.shape, array.strides)) + array.itemsize if array.size else 0
        made = np.ndarray(array.shape, array.dtype, np.zeros(span, np.uint8), 0, array.strides)
        made[...] = array
        return made

    return [copy(a) if isinstance(a, np.ndarray) else a for a in arguments]


def agree(kernel: Kernel, *arguments: Any, host: Host | None = None, rtol: float = 0.0, options: CompileOptions | None = None) -> list[Any]:
    """Run on both; every array must end up the same, bit for bit unless ``rtol`` allows a relative difference. The CPU's arrays."""
    ours, theirs = copied(arguments), copied(arguments)
    run_on(compile_for(kernel, host, options), kernel, ours)
    interpret(kernel, theirs)
    for mine, other in zip(ours, theirs):
        if isinstance(mine, np.ndarray):
            same(mine, other, rtol)
    return ours


def same(mine: np.ndarray, other: np.ndarray, rtol: float = 0.0) -> None:
    """Equal values; a NaN equals a NaN whatever its bits, and minus zero equals zero."""
    if mine.dtype.kind in "biu":
        np.testing.assert_array_equal(mine, other)
        return
    wide = np.float64
    if rtol:
        np.testing.assert_allclose(mine.astype(wide), other.astype(wide), rtol=rtol, atol=rtol, equal_nan=True)
    else:
        np.testing.assert_array_equal(mine.astype(wide), other.astype(wide))


@pytest.fixture(scope="session")
def check_block() -> Callable[..., list[Any]]:
    """``check_block(parameters, body, *arguments, launch=..., host=..., rtol=...)``: both machines agree; the CPU's arrays."""

    def run(parameters: str, body: str, *arguments: Any, launch: str = "launch(1) as (bx,)", **settings: Any) -> list[Any]:
        return agree(block_kernel(parameters, body, launch=launch), *arguments, **settings)

    return run


@pytest.fixture(scope="session")
def check_text() -> Callable[..., list[Any]]:
    """``check_text(text, *arguments, ...)`` for a whole kernel."""

    def run(text: str, *arguments: Any, **settings: Any) -> list[Any]:
        return agree(kernel_of(text), *arguments, **settings)

    return run


@pytest.fixture(scope="session")
def tools() -> dict[str, Any]:
    """The functions of this module, for tests that need the steps."""
    return {
        "places_asked_for": places_asked_for, "on_lines": on_lines,
        "kernel_of": kernel_of, "block_kernel": block_kernel, "compile_for": compile_for, "run_on": run_on, "agree": agree,
        "reduced_host": reduced_host, "same": same,
    }  # fmt: skip


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(20261129)
