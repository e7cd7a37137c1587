"""What a kernel compiled for a CUDA device says of itself, without the device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import zellige
import zellige.language as T
from zellige.diagnostics.error import ZelligeWarning


def held(rows: int) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((rows, 128), "float32"), B: T.Tensor((rows, 128), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((rows, 128), "float32")
            T.copy(A, a)
            for i, j in T.Parallel(rows, 128):
                a[i, j] = a[i, j] * a[i, j]
            T.copy(a, B)

    return kernel


def test_the_compilers_report_is_read(tmp_path: Path) -> None:
    kernel = zellige.compile(held(16), target="cuda:sm_80")
    (usage,) = kernel.resource_usage
    assert (usage.name, usage.threads, usage.shared_bytes, usage.spill_bytes) == ("kernel", 128, 0, 0)
    assert kernel.n_regs == usage.registers >= 16
    assert kernel.n_spills == 0
    kernel.export_ptx(tmp_path / "made" / "kernel.ptx")
    assert ".target sm_80" in (tmp_path / "made" / "kernel.ptx").read_text(encoding="utf-8")
    kernel.export_sass(tmp_path / "kernel.sass")
    assert "FMUL" in (tmp_path / "kernel.sass").read_text(encoding="utf-8")


def test_more_than_the_registers_hold_is_said() -> None:
    @T.prim_func
    def crowded(A: T.Tensor((504, 128), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((504, 128), "float32")
            s = T.alloc_fragment((128,), "float32")
            T.copy(A, a)
            for i, j in T.Parallel(504, 128):
                a[i, j] = T.exp(a[i, j])
            T.reduce_sum(a, s, dim=0)
            for i, j in T.Parallel(504, 128):
                a[i, j] = a[i, j] * s[j]
            T.copy(a, A)

    with pytest.warns(ZelligeWarning, match="E503.*registers a lane"):
        kernel = zellige.compile(crowded, target="cuda:sm_80")
    assert kernel.n_spills > 0
