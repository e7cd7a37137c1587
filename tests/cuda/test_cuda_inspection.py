"""What a kernel compiled for a CUDA device says of itself, without the device."""

from __future__ import annotations

import re
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


@T.prim_func
def two_launches(A: T.Tensor((100, 64), "float16"), B: T.Tensor((64, 48), "float16"), C: T.Tensor((100, 48), "float32")):
    with T.Kernel(2, threads=64) as by:
        left = T.alloc_shared((64, 32), "float16")
        right = T.alloc_shared((32, 48), "float16")
        sums = T.alloc_fragment((64, 48), "float32")
        T.clear(sums)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[by * 64, k * 32], left)
            T.copy(B[k * 32, 0], right)
            T.gemm(left, right, sums)
        T.copy(sums, C[by * 64, 0])
    with T.Kernel(25, threads=128) as bx:
        for i, j in T.Parallel(4, 48):
            C[bx * 4 + i, j] = T.max(C[bx * 4 + i, j], 0)


def test_the_source_is_readable(tmp_path: Path) -> None:
    """The plan at its head, the author's names and lines in it, one function a launch."""
    kernel = zellige.compile(two_launches, target="cuda:sm_80")
    source = kernel.get_kernel_source()
    assert "// what executes the product" in source
    for name in ("left", "right", "sums", "two_launches(", "two_launches_1("):
        assert name in source
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    marked = {int(n) for n in re.findall(r'^#line (\d+) "(?:.*)test_cuda_inspection\.py"$', source, re.MULTILINE)}
    assert {lines[n - 1].strip().split("(")[0] for n in marked} >= {"T.copy", "T.gemm", "C[bx * 4 + i, j] = T.max"}
    kernel.export_source(tmp_path / "kernel.cu")
    assert (tmp_path / "kernel.cu").read_text(encoding="utf-8") == source


def test_machine_code_and_ptx_are_of_the_architecture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = zellige.compile(two_launches, target="cuda:sm_89")
    code, ptx = kernel.get_asm(), kernel.get_ptx()
    assert all(f".text.{name}" in code for name in ("two_launches", "two_launches_1"))
    assert "HMMA.16816.F32" in code and "LDGSTS" in code
    assert ".target sm_89" in ptx and "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in ptx
    kernel.export_sass(tmp_path / "kernel.sass")
    kernel.export_ptx(tmp_path / "kernel.ptx")
    assert (tmp_path / "kernel.sass").read_text(encoding="utf-8") == code
    assert (tmp_path / "kernel.ptx").read_text(encoding="utf-8") == ptx
    kernel.show_sass()
    kernel.show_ptx()
    assert capsys.readouterr().out == f"{code}\n{ptx}\n"


def test_every_launch_has_its_usage() -> None:
    kernel = zellige.compile(two_launches, target="cuda:sm_80")
    first, second = kernel.resource_usage
    assert (first.name, first.threads, second.name, second.threads) == ("two_launches", 64, "two_launches_1", 128)
    assert first.shared_bytes >= 2 * (64 * 32 + 32 * 48) * 2 and second.shared_bytes == 0  # two slots of both tiles
    assert first.registers > second.registers > 0
    assert kernel.n_regs == first.registers
    assert kernel.n_spills == 0


def test_a_simulated_kernel_has_a_source_and_no_machine_code() -> None:
    kernel = zellige.compile(two_launches, target="cuda:sm_80,simulate")
    assert kernel.get_kernel_source() == zellige.compile(two_launches, target="cuda:sm_80").get_kernel_source()
    with pytest.raises(zellige.CompileError) as raised:
        kernel.get_asm()
    assert raised.value.code == "E440"
