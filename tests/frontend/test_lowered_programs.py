"""``zl.lower``: the program of a kernel, and whether the target's own compiler takes it too."""

from __future__ import annotations

import pytest

import zellige as zl
import zellige.language as T
from zellige.preparation import Prepared


@T.prim_func
def kernel(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
    with T.Kernel(1):
        for i in T.Parallel(8):
            B[i] = A[i] + 1


def test_the_program_and_the_parameters() -> None:
    lowered = zl.lower(kernel, target="cpu")
    assert "define" in lowered.kernel_source
    assert [tuple(p.shape) for p in lowered.params] == [(8,), (8,)]
    with zl.tvm.target.Target("cpu"):
        assert zl.lower(kernel).kernel_source == lowered.kernel_source


def test_the_target_s_compiler_is_asked_where_that_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    compiled = Prepared.compiled

    def noted(prepared: Prepared) -> zl.JITKernel:
        asked.append(str(prepared.target))
        return compiled(prepared)

    monkeypatch.setattr(Prepared, "compiled", noted)
    plain = zl.lower(kernel, "cpu", "c", enable_host_codegen=True, enable_device_compile=False)
    assert asked == []
    assert zl.lower(kernel, target="cpu", enable_device_compile=True).kernel_source == plain.kernel_source
    assert asked == ["cpu"]


def test_an_option_that_lowering_has_not() -> None:
    with pytest.raises(zl.CompileError, match="zl.lower has no such option") as caught:
        zl.lower(kernel, target="cpu", enable_nothing=True)
    assert caught.value.code == "E159"
