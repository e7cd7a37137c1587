"""Arrays of lanes that cannot be registers, and fragments that live in shared memory: plan, text and numbers say where they are."""

import re
import warnings
from typing import Any

import pytest

import zellige
import zellige.language as T
from zellige.diagnostics import InternalError, ZelligeWarning
from zellige.driver import dump
from zellige.explain import explain
from zellige.ir.expr import INT32, Buffer, Var, const
from zellige_cuda.facts import _size_of


@T.prim_func
def table(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        t = T.alloc_local((100,), "float32")
        for i in T.serial(100):
            t[i] = i * i
        t[A[tx]] = 3
        B[tx] = t[A[63 - tx]]


@T.prim_func
def written_out(A: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        t = T.alloc_local((4,), "float32")
        for i in T.unroll(4):
            t[i] = A[tx] * i
        for i in T.serial(4):
            A[tx] = A[tx] + t[i]


@T.prim_func
def columns(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64,), "float32"), n: T.int32):
    with T.Kernel(1, threads=64):
        f = T.alloc_fragment((64, 64), "float32")
        g = T.alloc_fragment((64,), "float32")
        T.copy(A, f)
        T.copy(B, g)
        for k in T.serial(n):
            for i in T.Parallel(64):
                g[i] = g[i] + f[i, k]
        T.copy(g, B)


def test_an_array_in_memory_is_told_of_once() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        kernel = zellige.compile(table, target="cuda:sm_80")
    assert [str(w.message).splitlines()[0] for w in said] == ["warning E505: table keeps 400 bytes a lane in memory, which is slow: t"]
    (usage,) = kernel.resource_usage
    assert (usage.local_bytes, usage.spill_bytes, kernel.n_spills) == (400, 0, 0)
    assert re.search(r"\b(LDL|STL)\b", kernel.get_asm())
    text = kernel.get_kernel_source()
    assert "// t lives in the lane's own memory: " in text and "t in registers" not in text


@pytest.mark.parametrize("function", [written_out, columns])
def test_arrays_in_registers_are_not(function: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", ZelligeWarning)
        kernel = zellige.compile(function, target="cuda:sm_80")
    assert kernel.resource_usage[0].local_bytes == 0


def test_a_plan_says_where_tiles_are_in_the_program() -> None:
    lines = [line for line in dump(columns.kernel, "cuda:sm_80", "source").splitlines() if line.startswith("//")]
    assert "// where do fragment buffers live? g in registers" in lines
    assert "// f lives in shared memory: an index of it is not an axis of its T.Parallel" in lines
    told = explain(columns, "cuda:sm_80")
    assert [(d.question, d.chosen) for d in told.about("live?")] == [
        ("where do fragment buffers live?", "g in registers"), ("where does f live?", "shared memory"),
    ]  # fmt: skip
    assert "memory registers: 256 bytes (g)" in str(told)
    assert [d.chosen for d in explain(table, "cuda:sm_80").about("where does t live?")] == ["the lane's own memory"]


@pytest.mark.parametrize("shape", [(Var(name="n", dtype=INT32, kind="size"),), (const(0, INT32),)])
def test_registers_without_a_count_are_no_array_of_no_bytes(shape: Any) -> None:
    """An array of 0 bytes would be reported as kept in memory whatever the compiler does."""
    with pytest.raises(InternalError, match="which is no count"):
        _size_of(Buffer(name="t", dtype=INT32, shape=shape, space="registers"))
    assert _size_of(Buffer(name="t", dtype=INT32, shape=(const(3, INT32),), space="registers")) == 12
