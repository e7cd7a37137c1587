"""``A: T.Tensor`` without a shape, in every style; a number that is indexed; annotations inside text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.diagnostics import CompileError, LaunchError
from zellige.frontend.eager import EagerFunction

HEAD = "import zellige as zl\nimport zellige.language as T\n"
KERNEL = '''
@zl.jit(target="{target}")
def double(A: {annotation}, C: {annotation}, N: T.int32):
    with T.Kernel(T.ceildiv(N, 64)) as bx:
        for i in T.Parallel(64):
            if bx * 64 + i < N:
                C[bx * 64 + i] = A[bx * 64 + i] * 2
'''


def loaded(path: Path, text: str) -> dict[str, Any]:
    path.write_text(text)
    names: dict[str, Any] = {}
    exec(compile(text, str(path), "exec"), names)
    return names


@pytest.mark.parametrize("future", ["", "from __future__ import annotations\n"])
@pytest.mark.parametrize("annotation", ["T.Tensor", "T.Tensor()", "T.Buffer", "T.StridedTensor", "'T.Tensor'", "T.ptr"])
@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_the_call_gives_the_shape(tmp_path: Path, future: str, annotation: str, target: str) -> None:
    double = loaded(tmp_path / "kernels.py", future + HEAD + KERNEL.format(annotation=annotation, target=target))["double"]
    for dtype, count in (("float32", 100), ("int16", 64), ("float32", 7)):
        a, c = np.arange(count, dtype=dtype), np.zeros(count, dtype)
        double(a, c, count)
        assert np.array_equal(c, 2 * a)


@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_a_strided_tensor_takes_its_strides_from_the_call(tmp_path: Path, target: str) -> None:
    double = loaded(tmp_path / "kernels.py", HEAD + KERNEL.format(annotation="T.StridedTensor", target=target))["double"]
    whole = np.arange(300, dtype="float32")
    for a in (whole[:100], whole[::3], whole[100:300:2], whole[:100]):
        held = np.zeros(400, "float32")
        double(a, held[::4], 100)
        assert np.array_equal(held[::4], 2 * a) and not held.reshape(100, 4)[:, 1:].any()
    dense = loaded(tmp_path / "dense.py", HEAD + KERNEL.format(annotation="T.Tensor", target=target))["double"]
    with pytest.raises(LaunchError, match="E609: argument A: expected float32.100. with strides"):
        dense(whole[::3], np.zeros(100, "float32"), 100)


@pytest.mark.parametrize("annotation", ["T.Tensor", "T.Buffer", "T.StridedTensor"])
def test_a_prim_func_has_no_call_to_ask(tmp_path: Path, annotation: str) -> None:
    text = HEAD + f"@T.prim_func\ndef main(A: {annotation}):\n    with T.Kernel(1):\n        A[0] = 1\n"
    with pytest.raises(CompileError) as caught:
        loaded(tmp_path / "kernels.py", text)
    assert caught.value.code == "E125" and "A has no shape and element type" in str(caught.value)
    assert caught.value.span is not None and caught.value.span.line == 4


@pytest.mark.parametrize("annotation", ["T.int32", "int"])
@pytest.mark.parametrize(("body", "column"), [("A[0] = n[bx]", 15), ("n[bx] = 1", 8), ("n[bx] += 1", 8)])
def test_a_number_has_no_elements(tmp_path: Path, annotation: str, body: str, column: int) -> None:
    text = HEAD + f"@T.prim_func\ndef main(A: T.Tensor((4,)), n: {annotation}):\n    with T.Kernel(1) as bx:\n        {body}\n"
    with pytest.raises(CompileError) as caught:
        loaded(tmp_path / "kernels.py", text)
    assert caught.value.code == "E110" and "n is a number of type int32 and has no elements" in str(caught.value)
    assert caught.value.span is not None and (caught.value.span.line, caught.value.span.column) == (6, column)
    assert "declare n as a tensor" in caught.value.hint


@pytest.mark.parametrize("future", ["", "from __future__ import annotations\n"])
def test_a_name_that_is_missing_in_text_stands_where_the_text_stands(tmp_path: Path, future: str) -> None:
    text = future + HEAD + "@T.prim_func\ndef main(A: 'T.Tensor((rows,))'):\n    with T.Kernel(1):\n        A[0] = 1\n"
    with pytest.raises(CompileError) as caught:
        loaded(tmp_path / "kernels.py", text)
    error = caught.value
    assert error.code == "E107" and error.span is not None
    assert error.span.source_line() == "def main(A: 'T.Tensor((rows,))'):" and error.span.column == 12


def test_annotations_in_the_body_may_be_text(monkeypatch: pytest.MonkeyPatch) -> None:
    @zl.jit(target="interp")
    def scale(A, B, x, times):
        A: "T.Tensor((3,), T.float32)"  # noqa: UP037
        B: "a tensor, described by the call"  # noqa: F722
        x: "float32"  # noqa: F821, UP037
        times: "T.int32"  # noqa: UP037
        with T.Kernel(1):
            half: "T.float32" = 1  # noqa: UP037
            remark: "remarks" = 5  # noqa: F821, UP037
            half /= 2
            for i in T.Parallel(3):
                B[i] = A[i] * x * times * half + remark

    a, b = np.arange(3, dtype=np.float32), np.zeros(3, np.float32)
    scale(a, b, 0.5, 4)
    assert b.tolist() == [5, 6, 7]
    monkeypatch.setattr(EagerFunction, "trace", None)  # other numbers trace nothing
    scale(a, b, x=1.5, times=8)
    assert b.tolist() == [5, 11, 17]
