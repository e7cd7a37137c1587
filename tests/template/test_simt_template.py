"""The starting point of machines with lanes: simulated kernels are the interpreter's, and their text is C++ that a compiler takes."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.claims import examined
from zellige.cli.new_backend import write_package
from zellige.diagnostics import CompileError, LaunchError, Unsupported
from zellige.plugin.registry import registry

N = 96

PRELUDE = r"""
#include <math.h>
#define kernel_of(lanes)
#define block_memory static
int thread_in_block(); int lane_in_warp(); int warp_in_block(); int block_index(int axis);
void block_barrier(); void warp_barrier();
template <class T> T lane_xor(T value, int distance, int width);
template <class T> T lane_up(T value, int distance, int width);
template <class T> T lane_down(T value, int distance, int width);
template <class T> T lane_index(T value, int lane, int width);
int block_any(bool x); int block_all(bool x); int block_count(bool x);
void product_16x16x16_float16_float32(float* c, const unsigned short* a, const unsigned short* b);
template <int size> void copy_async(void* to, const void* from, bool valid);
void copy_async_commit();
template <int leave> void copy_async_wait();
int atomic_add_int32(int* at, int value);
float atomic_add_float32(float* at, float value);
void fail(int site);
"""
"""What the vendor's language would have of its own."""


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, announce: Callable[..., Path], forget: Callable[[], None]) -> Iterator[str]:
    """A package written for the test, installed in this process alone."""
    top = tmp_path_factory.mktemp("lanes")
    folder = write_package("lanes", "simt", top)
    announce(folder, "zellige-lanes", "lanes = zellige_lanes:backend\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        importlib.invalidate_caches()
        registry.cache_clear()
        yield "lanes"
    for name in [n for n in sys.modules if n.split(".")[0] == "zellige_lanes"]:
        del sys.modules[name]
    forget()


@T.prim_func
def gemm(A: T.Tensor((70, 90), "float16"), B: T.Tensor((90, 50), "float16"), C: T.Tensor((70, 50), "float32")):
    with T.Kernel(T.ceildiv(50, 32), T.ceildiv(70, 32)) as (bx, by):
        a = T.alloc_shared((32, 32), "float16")
        b = T.alloc_shared((32, 32), "float16")
        c = T.alloc_fragment((32, 32), "float32")
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(90, 32), num_stages=3):
            T.copy(A[by * 32, k * 32], a)
            T.copy(B[k * 32, bx * 32], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * 32, bx * 32])


@T.prim_func
def softmax(A: T.Tensor((8, N), "float16"), B: T.Tensor((8, N), "float32")):
    with T.Kernel(8, threads=64) as bx:
        row = T.alloc_fragment((N,), "float32")
        most = T.alloc_fragment((1,), "float32")
        total = T.alloc_fragment((1,), "float32")
        for i in T.Parallel(N):
            row[i] = T.cast(A[bx, i], "float32")
        T.reduce_max(row, most, dim=0)
        for i in T.Parallel(N):
            row[i] = T.exp2(row[i] - most[0])
        T.reduce_sum(row, total, dim=0)
        for i in T.Parallel(N):
            B[bx, i] = row[i] / total[0]


@T.prim_func
def narrow(A: T.Tensor((N,), "float16"), B: T.Tensor((N,), "bfloat16"), C: T.Tensor((N,), "int8"), D: T.Tensor((N,), "float8_e4m3fn")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            x = A[i] * A[i] - T.cast(0.3, "float16")
            B[i] = T.cast(x, "bfloat16")
            C[i] = T.cast(x, "int8") // T.cast(3, "int8")
            D[i] = T.cast(x, "float8_e4m3fn")


@T.prim_func
def counted(A: T.Tensor((N,), "int32"), B: T.Tensor((4,), "int32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            T.atomic_add(B[A[i] & 3], 1)


@T.prim_func
def checked(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            T.device_assert(A[i] < 50, "too large for this")
            B[i] = A[i]


@T.prim_func
def ordered(A: T.Tensor((N,), "int32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            T.atomic_add(A[0], i, memory_order="acq_rel")


def arguments(name: str) -> tuple[Any, ...]:
    random = np.random.default_rng(0)
    halves = random.standard_normal(N).astype(np.float16)
    return {
        "gemm": lambda: (*(random.integers(-3, 4, s).astype(np.float16) for s in ((70, 90), (90, 50))), np.zeros((70, 50), np.float32)),
        "softmax": lambda: (random.integers(-4, 5, (8, N)).astype(np.float16), np.zeros((8, N), np.float32)),
        "narrow": lambda: (halves, *(np.zeros(N, zl.dtypes.dtype(t).numpy) for t in ("bfloat16", "int8", "float8_e4m3fn"))),
        "counted": lambda: (random.integers(0, 9, N).astype(np.int32), np.zeros(4, np.int32)),
        "checked": lambda: (np.arange(N, dtype=np.int32) % 50, np.zeros(N, np.int32)),
    }[name]()


KERNELS = {"gemm": gemm, "softmax": softmax, "narrow": narrow, "counted": counted, "checked": checked}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_the_interpreters(target: str, name: str) -> None:
    results = []
    for where in (target, "interp"):
        given = [array.copy() for array in arguments(name)]
        zl.compile(KERNELS[name], target=where)(*given)
        results.append([array.astype(np.float64) for array in given])
    for found, wanted in zip(*results):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("name", KERNELS)
def test_the_text_is_one_that_a_compiler_takes(target: str, name: str, tmp_path: Path) -> None:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no compiler of the host")
    text = zl.compile(KERNELS[name], target=target).get_kernel_source()
    source = tmp_path / "kernel.cpp"
    source.write_text(PRELUDE + text, encoding="utf-8")
    done = subprocess.run([compiler, "-std=c++17", "-fsyntax-only", "-w", str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + text


def test_products_and_copies_are_instructions_of_its_own(target: str) -> None:
    text = zl.compile(gemm, target=target).get_kernel_source()
    assert all(word in text for word in ("product_16x16x16_float16_float32(", "copy_async<", "copy_async_wait<", "block_barrier();"))
    assert not any(word in text for word in ("__shfl", "asm ", "threadIdx"))


def test_a_failed_assertion_names_the_line(target: str) -> None:
    with pytest.raises(LaunchError, match="E620.*too large for this") as caught:
        zl.compile(checked, target=target)(np.arange(N, dtype=np.int32), np.zeros(N, np.int32))
    assert Path(__file__).name in str(caught.value)


def test_what_the_language_lacks_is_refused(target: str) -> None:
    with pytest.raises(Unsupported, match="E410.*atomics of the order acq_rel"):
        zl.compile(ordered, target=target)


def test_it_is_kept_in_memory_alone(target: str) -> None:
    """A simulated kernel has no machine code: another process makes it again, and it is right there too."""
    assert zl.compile(counted, target=target).get_kernel_source() == zl.compile(counted, target=target).get_kernel_source()
    with pytest.raises(Unsupported, match="E440: the target of this kernel does not report machine code") as caught:
        zl.compile(counted, target=target).get_asm()
    assert "its backend has no compiler" in str(caught.value.hint) and "simulate'" not in str(caught.value)  # its target has no such flag


def test_every_claim_is_tried_and_holds(target: str) -> None:
    resolved = registry().resolve(target)
    found = list(examined(registry().backend(resolved), resolved))
    assert len(found) >= 50
    assert [one for one in found if one.verdict != "holds"] == []


@pytest.mark.parametrize(
    "changes, reason",
    [
        *(({"lanes": n, "matmul": ()}, f"say {n} lanes, expected a power of two") for n in (0, 3, 7, 12, 24, 1000)),
        ({"lanes": 64}, "the layout of operand a of its product product_16x16x16_float16_float32 is for warps of 32 lanes"),
        ({"lanes": 2048, "block_lanes": 4096, "matmul": ()}, "its machine let a block have 1024 lanes, fewer than the 2048 of one warp"),
        ({"block_lanes": 7}, r"describe\(lanes\) answered capabilities that cannot be: lanes is 32, more than the 7 of block_lanes"),
    ],
)
@pytest.mark.usefixtures("asked_anew")
def test_lanes_that_cannot_be_are_said(target: str, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], reason: str) -> None:
    machine = importlib.import_module(f"zellige_{target}.machine")
    stated = machine.capabilities(target)
    monkeypatch.setattr(machine, "capabilities", lambda _: replace(stated, **changes))
    with pytest.raises(CompileError, match=f"'{target}' breaks the plugin contract: .*{reason}") as caught:
        zl.compile(gemm, target=target)
    assert caught.value.code == "E703"


@pytest.mark.parametrize("lanes", [16, 64])
@pytest.mark.usefixtures("asked_anew")
def test_warps_of_other_powers_of_two_are_right(target: str, monkeypatch: pytest.MonkeyPatch, lanes: int) -> None:
    machine = importlib.import_module(f"zellige_{target}.machine")
    stated = machine.capabilities(target)
    monkeypatch.setattr(machine, "capabilities", lambda _: replace(stated, lanes=lanes, matmul=()))
    generator = np.random.default_rng(lanes)
    x = generator.integers(-3, 4, (16, 40)).astype(np.float32)
    y = np.full(16, 7, np.float32)
    zl.compile(row_sum, target=target)(x, y)
    assert np.array_equal(y, x.sum(1))


@T.prim_func
def row_sum(X: T.Tensor((16, 40), "float32"), Y: T.Tensor((16,), "float32")):
    with T.Kernel(2, threads=64) as i:
        rows = T.alloc_fragment((8, 40), "float32")
        sums = T.alloc_fragment((8,), "float32")
        T.copy(X[i * 8, 0], rows)
        T.reduce_sum(rows, sums, dim=1)
        T.copy(sums, Y[i * 8])


def test_a_word_that_a_spelling_reserves_wrongly_is_its_backends_fault(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from zellige_lanes.spelling import LanesSpelling  # type: ignore[import-not-found]

    monkeypatch.setattr(LanesSpelling, "reserved", lambda self: frozenset(("copied",)))

    @T.prim_func
    def copied(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(N):
                B[i] = A[i]

    words = r"the backend 'lanes' raised in its hook compile_kernel: .*reserves copied, .*LanesSpelling\.reserved"
    with pytest.raises(CompileError, match=words) as caught:
        zl.compile(copied, target=target)
    assert caught.value.code == "E709"


def test_a_layout_that_lanes_cannot_hold_is_no_bug_of_zellige() -> None:
    """It comes from a family of intrinsics, which may be anybody's: a hook that asks for it fails with the name of its backend."""
    from zellige.layouts import Digit, layout
    from zellige.simt.from_layout import distribution_of

    along, across = Digit(extent=4, strides=(1, 0), flips=(0, 0)), Digit(extent=4, strides=(1, 1), flips=(0, 0))
    for given, words in (
        (layout({"engine": (along,)}, {"i": 4, "j": 4}), "a layout of engine is no distribution"),
        (layout({"lane": (across,)}, {"i": 4, "j": 4}), "a digit of lane moves along several dimensions"),
    ):
        with pytest.raises(ValueError, match=words):
            distribution_of(given, ("i", "j"))


def test_the_alignment_of_shared_memory_stands_once(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("machine", "spelling"):
        monkeypatch.setattr(importlib.import_module(f"zellige_lanes.{module}"), "SHARED_ALIGNMENT", 256)
    stated = registry().backend(registry().resolve(target)).describe(registry().resolve(target))
    assert next(space.alignment for space in stated.spaces if space.name == "shared") == 256
    assert "alignas(256) block_memory" in zl.compile(gemm, target=target).get_kernel_source()


@T.prim_func
def twice_printed(float_min32: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            T.device_assert(float_min32[i] < 50, "too large for this")
            B[i] = T.min(float_min32[i], 2.0)
            T.device_assert(B[i] > 0, "too small for this")


def test_places_that_assert_have_one_number_however_often_the_text_is_made(target: str) -> None:
    """A tensor has the name of a function that the text turns out to need: it is printed again, with another name for the tensor."""
    text = zl.compile(twice_printed, target=target).get_kernel_source()
    assert re.findall(r"fail\((\d+)\)", text) == ["0", "1"]
    assert re.search(r"float_min32\(float", text) and not re.search(r"float\* APART float_min32\b", text)
