"""Calls that go all the way: arguments of every framework through the checks to the interpreter and back."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from zellige.diagnostics import LaunchError, Unsupported
from zellige.dtypes import dtype
from zellige.ir.expr import INT32, Binary, Buffer, Cast, Compare, Expr, Load, Var, const
from zellige.ir.stmt import Assert, Kernel, Launch, Map, ScalarParam, Stmt, Store, TensorParam
from zellige.kernel import JITKernel

M, N = (Var(name=name, dtype=INT32, kind="size") for name in "MN")


def copying(
    element: str,
    *,
    strides: tuple[Expr, Expr] | None = None,
    factor: str | None = None,
    assert_rows: int | None = None,
    role: Any = "output",
) -> JITKernel:
    """``B[i, j] = A[i, j]`` of any element type, times a scalar parameter of type ``factor`` where one is given."""
    kind = dtype(element)
    a = Buffer(name="A", dtype=kind, shape=(M, N), strides=strides)
    b = Buffer(name="B", dtype=kind, shape=(M, N))
    i, j = (Var(name=name, dtype=INT32, kind="loop") for name in "ij")
    value: Expr = Load(buffer=a, indices=(i, j))
    params: list[Any] = [TensorParam(buffer=a), TensorParam(buffer=b, role=role)]
    if factor is not None:
        scale = Var(name="scale", dtype=dtype(factor), kind="scalar")
        params.append(ScalarParam(var=scale))
        value = Binary(op="mul", left=value, right=scale if scale.dtype == kind else Cast(value=scale, dtype=kind))
    body: list[Stmt] = [Map(axes=(i, j), extents=(M, N), body=(Store(buffer=b, indices=(i, j), value=value),))]
    if assert_rows is not None:
        body.insert(0, Assert(condition=Compare(op="eq", left=M, right=const(assert_rows)), message="rows"))
    launch = Launch(grid_vars=(Var(name="bx", dtype=INT32, kind="grid"),), grid=(const(1),), body=tuple(body))
    results = (1,) if role == "output" else ()
    return JITKernel(Kernel(name="main", params=tuple(params), launches=(launch,), results=results), "interp")


def bits(value: Any) -> bytes:
    return (
        value.contiguous().view(torch.uint8).numpy().tobytes() if isinstance(value, torch.Tensor) else np.ascontiguousarray(value).tobytes()
    )


NUMPY_TYPES = ["bool", "int8", "uint16", "int64", "float16", "bfloat16", "float64", "float8_e4m3fn", "float8_e8m0fnu", "float6_e3m2fn"]


@pytest.mark.parametrize("element", NUMPY_TYPES)
def test_numpy_in_numpy_out(element: str) -> None:
    given = np.array([[0, 1, 2], [1, 1, 0]]).astype(dtype(element).numpy)
    result = copying(element)(given)
    assert isinstance(result, np.ndarray)
    assert result.dtype == given.dtype
    assert bits(result) == bits(given)


@pytest.mark.parametrize("element", ["bool", "int8", "uint16", "int64", "float16", "bfloat16", "float64", "float8_e5m2", "float8_e4m3fnuz"])
def test_torch_in_torch_out(element: str) -> None:
    given = torch.tensor([[0, 1, 2], [1, 1, 0]]).to(getattr(torch, element))
    result = copying(element)(given)
    assert isinstance(result, torch.Tensor)
    assert (result.dtype, result.shape) == (given.dtype, given.shape)
    assert bits(result) == bits(given)


@pytest.mark.parametrize("element", ["int4", "uint4", "float4_e2m1fn"])
def test_packed_types_keep_their_bytes(element: str) -> None:
    given = torch.arange(12, dtype=torch.uint8).reshape(3, 4) * 21
    assert bits(copying(element)(given)) == bits(given)
    assert bits(copying(element)(given.numpy())) == bits(given)


def test_transposed_views_need_no_copy() -> None:
    s0, s1 = (Var(name=name, dtype=INT32, kind="size") for name in ("s0", "s1"))
    kernel = copying("float32", strides=(s0, s1))
    base = torch.arange(12.0).reshape(3, 4)
    assert kernel(base.t()).tolist() == base.t().tolist()
    assert kernel(base[:, 1:3]).tolist() == base[:, 1:3].tolist()
    assert kernel(base.numpy()[:, ::2]).tolist() == base[:, ::2].tolist()
    assert kernel(base.numpy()[:0]).shape == (0, 4)


def test_numbers_reach_the_kernel() -> None:
    given = torch.ones(2, 2)
    assert copying("float32", factor="float32")(given, 2.5).tolist() == [[2.5] * 2] * 2
    assert copying("float32", factor="int32")(given, np.int8(-3)).tolist() == [[-3.0] * 2] * 2
    assert copying("int64", factor="int64")(torch.ones(1, 1, dtype=torch.int64), 2**40).item() == 2**40


def test_memory_of_the_caller_is_written_in_place() -> None:
    out = np.zeros((4, 4), ml_dtypes.bfloat16)
    assert copying("bfloat16", role="argument")(torch.ones(2, 4, dtype=torch.bfloat16), out[1:3]) is None
    assert out.astype(float).sum(1).tolist() == [0, 4, 4, 0]


def test_the_same_memory_may_be_given_twice() -> None:
    both = np.ones((2, 2), np.float32)
    copying("float32", role="argument", factor="float32")(both, both, 3.0)
    assert both.tolist() == [[3, 3], [3, 3]]


def test_empty_tensors_run() -> None:
    for shape in [(0, 3), (3, 0), (0, 0)]:
        assert copying("float16")(torch.ones(shape, dtype=torch.float16)).shape == shape


def test_failed_assertion_of_the_kernel() -> None:
    kernel = copying("float32", assert_rows=2)
    assert kernel(torch.ones(2, 3)).shape == (2, 3)
    with pytest.raises(LaunchError, match="rows"):
        kernel(torch.ones(3, 3))


def test_texts_of_the_interpreter() -> None:
    kernel = copying("float32")
    assert kernel.get_kernel_source().startswith("# tile-ir ")
    with pytest.raises(Unsupported):
        kernel.get_asm()


def test_dense_parameter_refuses_a_view() -> None:
    with pytest.raises(LaunchError, match=r"E609.*strides \(3, 1\) in elements, got strides \(1, 4\)"):
        copying("float32")(torch.ones(3, 4).t())
