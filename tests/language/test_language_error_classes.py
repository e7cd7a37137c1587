"""Section 5 of the language: an error is caught as what Python authors, and programs written for TileLang, expect of such a mistake,
and says it with the words that they search for."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.language.dialects import operation


@zl.jit(target="interp")
def scaled(size: int, factor: float = 2.0) -> Any:
    @T.prim_func
    def main(A: T.Tensor((size,), "float32"), B: T.Tensor((size,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(size):
                B[i] = A[i] * factor

    return main


def trace(body: Any) -> Any:
    """A kernel with one shared tile, whose body is ``body(tile)``."""

    @T.prim_func
    def kernel(A: T.Tensor((8, 16), "float32")):
        with T.Kernel(1):
            s = T.alloc_shared((8, 16), "float32")
            T.copy(A, s)
            body(s)

    return kernel


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: scaled(8, size=8), "multiple values"),
        (lambda: scaled(factor=1.0), "missing a required argument"),
        (lambda: scaled(8, scale=3), "unexpected keyword argument"),
        (lambda: scaled(8)(np.ones(8, "float32")), "takes"),
        (lambda: scaled(8)(np.ones(8, "float32"), np.ones(8, "float32"), C=1), "C"),
        (lambda: trace(lambda s: T.copy(s, s, blocking=True)), "blocking"),
    ],
)
def test_a_call_that_does_not_fit_is_a_type_error(call: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words) as caught:
        call()
    assert isinstance(caught.value, (zl.CompileError, zl.LaunchError)) and isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("call", "code", "kind"),
    [
        (lambda s: T.__exp(T.int32(3)), "E204", TypeError),
        (lambda s: T.popcount(T.float32(1.5)), "E230", TypeError),
        (lambda s: T.extract_lane(1, 0), "E258", TypeError),
        (lambda s: T.extract_lane(s[0, 0], 0), "E258", TypeError),
        (lambda s: T.extract_lane(T.float16x2(1, 2), T.cast(s[0, 0], "int32")), "E105", TypeError),
        (lambda s: T.extract_lane(T.float16x2(1, 2), 2), "E241", IndexError),
        (lambda s: T.get_thread_binding(3), "E241", IndexError),
        (lambda s: s[T.float32(1), 0], "E205", TypeError),
        (lambda s: T.alloc_reducer((1,), "float32", op="bitand"), "E290", AssertionError),
    ],
)
def test_an_operand_of_the_wrong_kind_is_what_python_calls_it(call: Any, code: str, kind: type[Exception]) -> None:
    with pytest.raises(kind) as caught:
        trace(call)
    assert isinstance(caught.value, zl.CompileError) and isinstance(caught.value, ValueError) and caught.value.code == code


def test_a_view_of_another_size_is_an_assertion_error() -> None:
    for view in (lambda s: T.reshape(s, (8, 17)), lambda s: T.view(s, (8, 16), dtype="float16")):
        with pytest.raises(AssertionError) as caught:
            trace(view)
        assert isinstance(caught.value, zl.CompileError) and caught.value.code == "E236"


def test_a_slice_with_a_step_is_a_runtime_error() -> None:
    with pytest.raises(RuntimeError) as caught:
        trace(lambda s: s[0:8:2, :])
    assert isinstance(caught.value, zl.CompileError) and caught.value.code == "E209"


def test_what_a_launch_refuses_is_a_runtime_error() -> None:
    with pytest.raises(RuntimeError) as caught:
        scaled(8)(np.ones(9, "float32"), np.ones(8, "float32"))
    assert type(caught.value) is zl.LaunchError and caught.value.code == "E605"


def test_an_error_caught_as_two_classes_survives_a_process_boundary() -> None:
    with pytest.raises(TypeError) as caught:
        scaled(8, size=8)
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, TypeError) and isinstance(again, zl.CompileError)
    assert str(again) == str(caught.value) and again.code == "E157" and type(again).__name__ == "CompileError"


def test_a_promise_that_a_size_breaks_is_named() -> None:
    size = T.dynamic("size")

    @zl.jit(target="interp")
    def kernel(A: T.Tensor((size,), "float32")):
        with T.Kernel(1):
            T.assume(size % 4 == 0)
            for i in T.Parallel(size):
                A[i] = 1

    kernel(np.zeros(8, "float32"))
    with pytest.raises(RuntimeError, match="Assume: size % 4 == 0"):
        kernel(np.zeros(6, "float32"))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda s: T.cast(1.0, "float16", round="nearest"), "Invalid round 'nearest'"),
        (lambda s: T.cast(1.0, "float8_e4m3fn", sat="no"), "Invalid sat"),
        (lambda s: T.cast(1.0, "float8_e4m3fn", round="rs"), "rbits is required"),
        (lambda s: T.cast(1.0, "float8_e4m3fn", rbits=T.int32(3)), "rbits is only valid"),
        (lambda s: T.ieee_add(1.0, 2.0, "up"), "Invalid rounding mode 'up'"),
        (lambda s: T.alloc_var("float32", 1e300), "exceeds maximum of float32"),
        (lambda s: T.alloc_var("uint8", -1), "below minimum of uint8"),
        (lambda s: T.dp4a(s, s, s), "dp4a requires"),
        (lambda s: T.gemm(s, s, s, k_pack=3), "k_pack must be an int equal to 1 or 2, got 3"),
        (lambda s: T.reduce_sum(s, s, dim=1, batch=0), "batch must be >= 1"),
        (lambda s: T.clear(s, 1), "T.clear needs a dictionary as annotations, not int 1"),
        (lambda s: T.cumsum(s, s, 0, False, True), "T.cumsum needs a dictionary as annotations"),
        (lambda s: T.serial(4, annotations=3), "T.serial needs a dictionary as annotations"),
        (lambda s: T.copy(s, s, swizzle=5), 'needs a name such as "bank" as swizzle, not int 5'),
        (lambda s: T.alloc_var("float32", "shared"), """needs "local.var" as scope, not str 'shared'"""),
    ],
)
def test_the_words_of_a_refusal(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        trace(make)


def test_what_a_target_would_be_given_needs_no_compilation() -> None:
    lowered = zl.lower(scaled.compile(8).prim_func, target="cpu", target_host="c")
    assert "main" in lowered.kernel_source and [p.name for p in lowered.params] == ["A", "B"]
    with pytest.raises(zl.CompileError, match="E156"):
        zl.lower(3)
    assert "__global__" in zl.lower(scaled.compile(8).prim_func, target="cuda -arch=sm_90a").kernel_source


def test_a_prim_func_makes_a_kernel_by_itself() -> None:
    kernel = zl.JITKernel(scaled.compile(8).prim_func, target="cpu")
    result = np.zeros(8, "float32")
    kernel(np.arange(8, dtype="float32"), result)
    assert result.tolist() == [0, 2, 4, 6, 8, 10, 12, 14]
    with pytest.raises(zl.CompileError, match="E156"):
        zl.JITKernel(3)


@pytest.mark.parametrize("target", ["cpu", "template", "cuda:sm_80", "cuda:sm_80,simulate"])
def test_an_operation_of_another_target_is_refused_where_it_stands(target: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            operation("acme.dma", reads=(A,), writes=(B,))

    with pytest.raises(zl.Unsupported, match=r"E410: the target \S+ has no meaning for acme\.dma") as caught:
        zl.lower(kernel, target=target)
    assert caught.value.span is not None and caught.value.span.file == __file__
