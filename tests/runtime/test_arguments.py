"""Every check of a call: the code, the argument's name, what was expected and what was given."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

import zellige.language as T
from zellige.diagnostics import LaunchError
from zellige.dtypes import dtype
from zellige.ir.expr import INT32, Binary, Buffer, Expr, Load, Var, const
from zellige.ir.stmt import Bind, Kernel, Launch, Param, ScalarParam, Stmt, Store, TensorParam
from zellige.runtime import arguments as checks
from zellige.runtime.arguments import Arguments, Bound, Place, Signature
from zellige.runtime.arrays import ArrayView, view_of

CPU = Place(target="cpu", devices=("cpu",))
M, N, D = (Var(name=name, dtype=INT32, kind="size") for name in "MND")


def times(left: Expr, right: int) -> Expr:
    return Binary(op="mul", left=left, right=const(right))


def tensor(name: str, shape: tuple[Expr | int, ...], element: str = "float32", strides: tuple[Expr | int, ...] | None = None) -> Buffer:
    def sizes(items: tuple[Expr | int, ...]) -> tuple[Expr, ...]:
        return tuple(const(item) if isinstance(item, int) else item for item in items)

    return Buffer(name=name, dtype=dtype(element), shape=sizes(shape), strides=None if strides is None else sizes(strides))


def scalar(name: str, element: str, kind: Any = "scalar") -> ScalarParam:
    return ScalarParam(var=Var(name=name, dtype=dtype(element), kind=kind))


def touch(buffer: Buffer, *, is_written: bool = False) -> Stmt:
    """A statement that reads, or writes, the first element."""
    first = tuple(const(0) for _ in buffer.shape)
    load = Load(buffer=buffer, indices=first)
    if is_written:
        return Store(buffer=buffer, indices=first, value=load)
    return Bind(var=Var(name="seen", dtype=buffer.dtype, kind="value"), value=load)


def signature(
    *params: Buffer | ScalarParam, out: tuple[str, ...] = (), scratch: tuple[str, ...] = (), unused: tuple[str, ...] = ()
) -> Signature:
    """A kernel that reads every tensor but those ``unused`` and writes those in ``out`` and ``scratch``; it returns those in ``out``."""
    roles = {**dict.fromkeys(out, "output"), **dict.fromkeys(scratch, "workspace")}
    declared: list[Param] = [
        TensorParam(buffer=p, role=roles.get(p.name, "argument")) if isinstance(p, Buffer) else p  # type: ignore[arg-type]
        for p in params
    ]
    body = tuple(touch(p, is_written=p.name in roles) for p in params if isinstance(p, Buffer) and p.name not in unused)
    launch = Launch(grid_vars=(Var(name="bx", dtype=INT32, kind="grid"),), grid=(const(1),), body=body)
    results = tuple(i for i, p in enumerate(params) if isinstance(p, Buffer) and p.name in out)
    return Signature(Kernel(name="main", params=tuple(declared), launches=(launch,), results=results))


def bind(kernel: Signature, *args: Any, **keywords: Any) -> Bound:
    return kernel.bind(kernel.read(args, keywords), CPU, {})


def refusal(kernel: Signature, *args: Any, **keywords: Any) -> str:
    with pytest.raises(LaunchError) as caught:
        bind(kernel, *args, **keywords)
    return str(caught.value)


def f32(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)


# ---- what a right call gives -----------------------------------------------------------------------------------------------------------


def test_pointers_scalars_and_sizes_in_order() -> None:
    a, b = f32(4, 3), f32(3)
    kernel = signature(tensor("A", (M, N)), scalar("alpha", "float32"), tensor("B", (N,)), scalar("count", "int64"))
    bound = bind(kernel, a, 2, b, 7)
    assert bound.pointers == [a.ctypes.data, b.ctypes.data]
    assert bound.scalars == [2.0, 7]
    assert isinstance(bound.scalars[0], float)
    assert bound.sizes == [4, 3]
    assert bound.returned() is None


def test_keywords_and_mixed_calls() -> None:
    kernel = signature(tensor("A", (M,)), scalar("n", "int32"))
    a = f32(5)
    for bound in (bind(kernel, a, 3), bind(kernel, a, n=3), bind(kernel, n=3, A=a)):
        assert (bound.pointers, bound.scalars, bound.sizes) == ([a.ctypes.data], [3], [5])


def test_results_take_framework_and_sizes_of_the_arguments() -> None:
    kernel = signature(tensor("A", (M, N)), tensor("B", (times(M, 2), N), "bfloat16"), out=("B",))
    result = bind(kernel, torch.ones(4, 3)).returned()
    assert isinstance(result, torch.Tensor)
    assert (result.shape, result.dtype) == ((8, 3), torch.bfloat16)
    result = bind(kernel, f32(4, 3)).returned()
    assert (result.shape, result.dtype) == ((8, 3), np.dtype(ml_dtypes.bfloat16))


def test_several_results_and_a_result_without_tensor_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = signature(scalar("M", "int32", "size"), tensor("A", (4,)), tensor("B", (4,), "int8"), out=("A", "B"))
    first, second = bind(kernel, 3).returned()
    assert (first.dtype, second.dtype) == (torch.float32, torch.int8), "torch is imported, so its tensors are expected"
    monkeypatch.delitem(sys.modules, "torch")
    first, second = bind(kernel, 3).returned()
    assert (first.dtype, second.dtype) == (np.float32, np.int8)


def test_a_result_without_tensor_arguments_is_made_on_the_target_that_writes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = signature(scalar("M", "int32", "size"), tensor("A", (4,)), tensor("W", (4,)), out=("A",), scratch=("W",))
    place = Place(target="gadget", devices=(77, "gadget", "other"))
    homes: list[str] = []
    made = checks.allocate

    def noted(element: Any, shape: Any, like: Any, home: str) -> Any:
        homes.append(home)
        return made(element, shape, like)

    with monkeypatch.context() as noting:
        noting.setattr(checks, "allocate", noted)
        kernel.bind(kernel.read((3,), {}), place, {})
    assert homes == ["gadget", "gadget"]
    assert (CPU.home, Place(target="raw", devices=(77,)).home) == ("cpu", "cpu")
    monkeypatch.delitem(sys.modules, "torch")
    with pytest.raises(LaunchError) as caught:
        kernel.bind(kernel.read((3,), {}), place, {})
    assert caught.value.code == "E617"


def test_scalar_parameter_is_a_size() -> None:
    n = scalar("n", "int32", "size")
    kernel = signature(n, tensor("A", (n.var,)), tensor("B", (times(n.var, 3),)), out=("B",))
    bound = bind(kernel, 2, f32(2))
    assert bound.returned().shape == (6,)
    assert (bound.scalars, bound.sizes) == ([2], [])
    assert "the size n is 2 by the argument n, but 3 by dimension 0 of A" in refusal(kernel, 2, f32(3))


def test_workspace_is_kept_between_calls_and_not_returned() -> None:
    kernel = signature(tensor("A", (M,)), tensor("W", (times(M, 4),)), scratch=("W",))
    kept: dict[Any, Any] = {}
    first = kernel.bind(kernel.read((f32(2),), {}), CPU, kept)
    again = kernel.bind(kernel.read((f32(2),), {}), CPU, kept)
    other = kernel.bind(kernel.read((f32(3),), {}), CPU, kept)
    assert first.pointers[1] == again.pointers[1] != other.pointers[1]
    assert first.returned() is None
    assert [array.shape for array in kept.values()] == [(8,), (12,)]


def test_a_workspace_on_a_device_is_of_one_call() -> None:
    """The device may still run the call before, in another stream or in a graph: two calls must not write to the same memory."""
    kernel = signature(tensor("A", (4,)), tensor("W", (4,)), scratch=("W",))
    view = replace(view_of(torch.ones(4)), device="gadget")  # type: ignore[type-var]
    arguments = Arguments(given={0: view.owner}, views={0: view}, scalars={}, first=view)
    kept: dict[Any, Any] = {}
    first, second = (kernel.bind(arguments, Place(target="gadget", devices=("gadget",)), kept) for _ in range(2))
    assert first.pointers[0] == second.pointers[0] and first.pointers[1] != second.pointers[1]
    assert not kept


def test_size_one_dimensions_may_have_any_stride() -> None:
    kernel = signature(tensor("A", (M, 1)))
    assert bind(kernel, np.ones((4, 7), np.float32)[:1, :1]).sizes == [1]
    assert bind(kernel, np.ones((4, 1), np.float32)).sizes == [4]


@pytest.mark.parametrize("make", [lambda *s: np.ones(s, np.float32), torch.ones])
def test_empty_tensors_pass(make: Any) -> None:
    kernel = signature(tensor("A", (M, N)), tensor("B", (M,)), out=("B",))
    bound = bind(kernel, make(0, 5))
    assert bound.sizes == [0, 5]
    assert tuple(bound.returned().shape) == (0,)


def test_declared_strides() -> None:
    s0, s1 = (Var(name=name, dtype=INT32, kind="size") for name in ("s0", "s1"))
    fixed = signature(tensor("A", (8, 4), strides=(1, 8)))
    assert bind(fixed, f32(4, 8).T).sizes == []
    text = refusal(fixed, f32(8, 4))
    assert "E609" in text
    assert "expected float32[8, 4] with strides (1, 8) in elements, got strides (4, 1)" in text
    symbolic = signature(tensor("A", (M, N), strides=(s0, s1)))
    assert bind(symbolic, f32(4, 8).T).sizes == [8, 4, 1, 8]
    assert bind(symbolic, f32(4, 8)[:, ::2]).sizes == [4, 4, 8, 2]
    assert "strides (0 or more, 0 or more) in elements, got strides (-8, 1)" in refusal(symbolic, f32(4, 8)[::-1])
    assert bind(symbolic, f32(4, 8)[::-1][:1]).sizes == [1, 8, -8, 1]
    same = signature(tensor("A", (M, N), strides=(s0, 1)), tensor("B", (M, N), strides=(s0, 1)))
    assert bind(same, f32(4, 8)[:, :3], f32(4, 8)[:, 1:4]).sizes == [4, 3, 8]
    assert "argument B: expected float32[M, N] with strides (8, 1)" in refusal(same, f32(4, 8)[:, :3], f32(4, 3))
    broadcast = signature(tensor("A", (4,), strides=(0,)))
    assert bind(broadcast, f32(8)[::2]).sizes == []


def test_none_for_a_tensor_that_the_kernel_does_not_touch() -> None:
    kernel = signature(tensor("A", (M,)), tensor("B", (M, N)), unused=("B",))
    assert bind(kernel, f32(3), None).pointers[1] == 0
    assert bind(kernel, f32(3), None).sizes == [3, 0]
    alone = signature(tensor("A", (M,)), tensor("B", (M,)), unused=("A",))
    assert bind(alone, None, f32(6)).sizes == [6]


def test_packed_types() -> None:
    kernel = signature(tensor("A", (M, N), "int4"), tensor("B", (M, 8), "float4_e2m1fn"), tensor("C", (M, N), "uint4"), out=("C",))
    fp4 = torch.zeros(3, 4, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    bound = bind(kernel, torch.zeros(3, 5, dtype=torch.int8), fp4)
    assert bound.sizes == [3, 10]
    assert (bound.returned().dtype, bound.returned().shape) == (torch.uint8, (3, 5))
    assert bind(kernel, np.zeros((3, 5), np.uint8), np.zeros((3, 4), np.int8)).sizes == [3, 10]
    text = refusal(kernel, np.zeros((3, 5), np.uint8), np.zeros((3, 8), np.int8))
    assert "argument B: expected float4_e2m1fn[M, 8], got int8[3, 8]: dimension 1 is 16, not 8" in text
    assert "2 to a byte" in text


@pytest.mark.parametrize("element", ["int4", "uint4", "float4_e2m1fn"])
def test_an_array_of_the_same_type_that_is_not_packed_is_told_what_differs(element: str) -> None:
    text = refusal(signature(tensor("A", (64,), element)), np.zeros(64, getattr(ml_dtypes, element)))
    assert "E607" in text
    assert f"expected {element}[64] as bytes of 2 elements each, got {element}[64] with each element in a byte of its own" in text
    assert "int8 or uint8 bytes whose last dimension is divided by 2" in text


def test_packed_type_with_declared_strides() -> None:
    s = Var(name="s", dtype=INT32, kind="size")
    kernel = signature(tensor("A", (M, 8), "int4", strides=(s, 1)))
    assert bind(kernel, np.zeros((3, 6), np.int8)[:, :4]).sizes == [3, 12]
    assert "E609" in refusal(kernel, np.zeros((3, 8), np.int8)[:, ::2])


def test_carriers_of_other_types() -> None:
    for element, given in [
        ("bool", torch.zeros(2, dtype=torch.uint8)),
        ("bool", np.zeros(2, np.int8)),
        ("tfloat32", f32(2)),
        ("float6_e3m2fn", torch.zeros(2, dtype=torch.uint8)),
        ("float6_e3m2fn", np.zeros(2, ml_dtypes.float6_e3m2fn)),
        ("float8_e3m4", torch.zeros(2, dtype=torch.uint8)),
        ("float8_e3m4", np.zeros(2, ml_dtypes.float8_e3m4)),
    ]:
        assert bind(signature(tensor("A", (2,), element)), given).sizes == []
    for element, wrong in [
        ("float8_e5m2", torch.zeros(2, dtype=torch.uint8)),
        ("float8_e3m4", np.zeros(2, np.uint8)),
        ("float32", torch.zeros(2, dtype=torch.int32)),
        ("float8_e4m3fn", torch.zeros(2).to(torch.float8_e4m3fnuz)),
    ]:
        assert "E607" in refusal(signature(tensor("A", (2,), element)), wrong)


# ---- numbers ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("element", "value", "expected"),
    [
        ("int32", True, 1),
        ("int32", np.int64(-5), -5),
        ("int32", 3.0, 3),
        ("int32", np.float32(3), 3),
        ("uint8", 255, 255),
        ("bool", np.bool_(True), 1),
        ("bool", 0, 0),
        ("float32", 3, 3.0),
        ("float32", np.float16(0.5), 0.5),
        ("bfloat16", ml_dtypes.bfloat16(1.5), 1.5),
        ("int32", ml_dtypes.float8_e4m3fn(3), 3),
        ("int8", ml_dtypes.int4(-3), -3),
        ("float64", Fraction(1, 4), 0.25),
        ("float16", float("inf"), float("inf")),
        ("int64", -(2**63), -(2**63)),
        ("handle", 4096, 4096),
    ],
)
def test_numbers_taken(element: str, value: Any, expected: Any) -> None:
    (given,) = bind(signature(scalar("n", element)), value).scalars
    assert given == expected
    assert type(given) is type(expected)


def test_address_of_a_tensor() -> None:
    array = f32(3)
    assert bind(signature(scalar("p", "handle")), array).scalars == [array.ctypes.data]
    assert "argument p: expected a tensor or its address, got str 'x'" in refusal(signature(scalar("p", "handle")), "x")


@pytest.mark.parametrize(
    "value",
    [2.5, "3", None, 1j, float("nan"), float("inf"), [1], np.ones(1), torch.ones(()), ml_dtypes.bfloat16(1.5), np.void(b"1")],
)
def test_numbers_refused(value: Any) -> None:
    text = refusal(signature(scalar("n", "int32")), value)
    assert "E612" in text
    assert "argument n: expected a number of type int32" in text


def test_number_out_of_range() -> None:
    text = refusal(signature(scalar("n", "int32")), 2**31)
    assert "E613" in text
    assert "argument n: expected a value that int32 holds (-2147483648 to 2147483647), got 2147483648" in text
    assert "E613" in refusal(signature(scalar("n", "uint8")), -1)
    assert "E613" in refusal(signature(scalar("n", "bool")), 2)
    assert "float32 holds" in (text := refusal(signature(scalar("n", "float32")), 10**400)) and "got an integer of 1329 bits" in text


# ---- refusals of tensors ---------------------------------------------------------------------------------------------------------------

PLAIN = signature(tensor("A", (8, 16)), tensor("B", (8, D)), tensor("C", (D,)))


def good() -> list[Any]:
    return [f32(8, 16), f32(8, 5), f32(5)]


@pytest.mark.parametrize(
    ("place", "value", "code", "words"),
    [
        (0, f32(128), "E604", "argument A: expected float32[8, 16] with 2 dimensions, got float32[128] with 1"),
        (0, f32(8, 17), "E605", "argument A: expected float32[8, 16], got float32[8, 17]: dimension 1 is 17, not 16"),
        (0, f32(8, 16).astype(np.float16), "E607", "argument A: expected float32[8, 16], got float16[8, 16]"),
        (0, f32(8, 16).view(np.int32), "E607", "argument A: expected float32[8, 16], got int32[8, 16]"),
        (2, f32(6), "E606", "the size D is 5 by dimension 1 of B, but 6 by dimension 0 of C"),
        (0, 3, "E603", "argument A: expected a tensor float32[8, 16], got int 3"),
        (0, [[1.0]], "E603", "argument A: expected a tensor float32[8, 16], got list [[1.0]]"),
        (0, None, "E618", "argument A: expected float32[8, 16], got None, and main uses it"),
        (0, f32(16, 8).T, "E609", "argument A: expected float32[8, 16] with strides (16, 1) in elements, got strides (1, 8)"),
        (0, np.zeros((8, 16), ">f4"), "E616", "argument A: its elements (>f4) are not in this machine's byte order"),
    ],
)
def test_refused_tensor(place: int, value: Any, code: str, words: str) -> None:
    arguments = good()
    arguments[place] = value
    text = refusal(PLAIN, *arguments)
    assert f"error {code}: " in text
    assert words in text
    assert bind(PLAIN, *good()).sizes == [5]


def test_number_of_arguments() -> None:
    a, b, c = good()
    text = refusal(PLAIN, a, b)
    assert "E601" in text
    assert "main takes 3 arguments, got 2 (C missing)" in text
    assert "main(A, B, C)" in text
    assert "main takes 3 arguments, got 4" in refusal(PLAIN, a, b, c, c)
    assert "main takes 1 argument, got 0 (A missing)" in refusal(signature(tensor("A", (1,))))
    assert "main takes 3 arguments, got 1 (A, C missing)" in refusal(PLAIN, B=b)


def test_keywords_refused() -> None:
    a, b, c = good()
    text = refusal(PLAIN, a, b, c, E=c)
    assert "E602" in text
    assert "main has no argument E" in text
    assert "main got the argument A twice, by position and by name" in refusal(PLAIN, a, b, A=c)
    with_output = signature(tensor("A", (4,)), tensor("B", (4,)), out=("B",))
    assert "main has no argument B; it makes and returns that one itself" in refusal(with_output, f32(4), B=f32(4))


def test_computed_size() -> None:
    kernel = signature(tensor("A", (M,)), tensor("B", (times(M, 2),)))
    assert bind(kernel, f32(3), f32(6)).sizes == [3]
    text = refusal(kernel, f32(3), f32(7))
    assert "argument B: expected float32[M * 2], got float32[7]: dimension 0 is 7, not 6" in text
    assert "M * 2 is 6 with M = 3" in text


def test_size_only_an_expression_gives() -> None:
    text = refusal(signature(tensor("A", (Binary(op="mul", left=M, right=M),))), f32(4))
    assert "E614" in text
    assert "the size M of A follows from no argument of main" in text


def test_size_that_a_multiple_gives() -> None:
    kernel = signature(tensor("A", (times(M, 2),)))
    text = refusal(kernel, f32(5))
    assert "E605" in text and "M * 2" in text
    assert kernel.bind(kernel.read([f32(6)], {}), CPU, {}).sizes == [3]


def test_size_beyond_its_type() -> None:
    kernel = signature(tensor("A", (M, 0)))
    text = refusal(kernel, np.lib.stride_tricks.as_strided(f32(1), (2**31, 0), (0, 4)))
    assert "E613" in text
    assert "size M: expected a value that a size of int32 holds (0 to 2146435071), got 2147483648" in text


def test_negative_size_of_a_result() -> None:
    minus = Binary(op="sub", left=M, right=const(8))
    text = refusal(signature(tensor("A", (M,)), tensor("B", (minus,)), out=("B",)), f32(3))
    assert "E615" in text
    assert "dimension 0 of B, M - 8, is -5" in text


def test_misaligned_memory() -> None:
    raw = np.zeros(20, np.uint8)
    start = 1 if raw.ctypes.data % 4 == 0 else 0
    text = refusal(signature(tensor("A", (4,))), raw[start : start + 16].view(np.float32))
    assert "E610" in text
    assert "argument A: expected an address that is a multiple of 4 bytes, the size of float32, got 0x" in text


def test_read_only_memory() -> None:
    kernel = signature(tensor("A", (4,)), tensor("B", (4,)))
    fixed = f32(4)
    fixed.flags.writeable = False
    assert bind(kernel, fixed, fixed).sizes == []
    first = tensor("A", (4,))
    writes = Signature(
        Kernel(
            name="main",
            params=(TensorParam(buffer=first),),
            launches=(
                Launch(grid_vars=(Var(name="bx", dtype=INT32, kind="grid"),), grid=(const(1),), body=(touch(first, is_written=True),)),
            ),
        )
    )
    assert bind(writes, f32(4)).sizes == []
    text = refusal(writes, fixed)
    assert "E611" in text
    assert "argument A: main writes it, but the memory given is read-only" in text


def test_write_through_a_view_of_the_buffer_counts() -> None:
    first = tensor("A", (4,))
    other = Buffer(name="view", dtype=dtype("int32"), shape=(const(4),), alias=first)
    launch = Launch(grid_vars=(Var(name="bx", dtype=INT32, kind="grid"),), grid=(const(1),), body=(touch(other, is_written=True),))
    kernel = Signature(Kernel(name="main", params=(TensorParam(buffer=first),), launches=(launch,)))
    fixed = f32(4)
    fixed.flags.writeable = False
    assert "E611" in refusal(kernel, fixed)
    assert "E618" in refusal(kernel, None)


def test_memory_of_another_device() -> None:
    class OnDevice:
        __gadget_array_interface__ = {"data": (4096, False), "shape": (4,), "typestr": "<f4", "version": 3}

    text = refusal(signature(tensor("A", (4,))), OnDevice())
    assert "E608" in text
    assert "argument A: expected a tensor on cpu for the target cpu, got one on gadget" in text


def test_result_of_a_type_that_the_framework_lacks() -> None:
    text = refusal(
        signature(tensor("A", (M,), "int4"), tensor("B", (times(M, 0),), "uint4"), tensor("C", (3,), "int4"), out=("C",)),
        *[np.zeros(0, np.int8)] * 2,
    )
    assert "E617" in text
    assert "the result C (int4[3]) cannot be made" in text


@pytest.mark.parametrize("shape", [(M, M, M), (2**62,), (2**40, 2**40)])
def test_a_result_that_no_memory_holds(shape: tuple[Any, ...]) -> None:
    huge = np.lib.stride_tricks.as_strided(f32(1), (2**20, 0), (0, 4))
    text = refusal(signature(tensor("A", (M, 0)), tensor("C", shape), out=("C",)), huge)
    assert "E619" in text
    count = math.prod(2**20 if size is M else size for size in shape)
    assert f"needs {count * 4:,} bytes" in text
    assert ("M = 1048576" if M in shape else "constants of the kernel") in text


def test_shape_of_a_parameter_by_names() -> None:
    kernel = signature(tensor("A", (M, 4)), tensor("B", (times(N, 2),)))
    assert kernel.shape_of(0, {"M": 3}) == (3, 4)
    assert kernel.shape_of(1, {"M": 3, "N": 5}) == (10,)
    with pytest.raises(LaunchError, match="E631: the size N of argument B has no value; sizes given: M=3") as caught:
        kernel.shape_of(1, {"M": 3})
    assert "dynamic_symbolic_constraints={'N': ...}" in str(caught.value)


def test_arguments_on_two_devices() -> None:
    kernel = signature(tensor("A", (4,)), tensor("B", (4,)))
    gadgets = Place(target="gadget", devices=("gadget",))

    def on(index: int) -> ArrayView:
        return replace(view_of(f32(4)), device="gadget", device_index=index)  # type: ignore[type-var]

    apart = Arguments(given={}, views={0: on(0), 1: on(1)}, scalars={}, first=on(0))
    with pytest.raises(LaunchError, match="argument B: expected a tensor on gadget:0 for the target gadget, got one on gadget:1"):
        kernel.bind(apart, gadgets, {})


def test_an_array_that_does_not_tell_its_device_is_not_on_another() -> None:
    kernel = Signature(compiled_kernel_of_two())
    arguments = kernel.read([np.ones(4, np.float32), np.ones(4, np.float32)], {})
    place = Place(target="cpu", devices=("cpu",))
    first, second = (view for view in arguments.views.values() if view is not None)

    def bound(one: int, other: int) -> object:
        views = dict(zip(arguments.views, (replace(first, device_index=one), replace(second, device_index=other))))
        return kernel.bind(Arguments(given=arguments.given, views=views, scalars={}, first=views[0]), place, {})

    assert bound(1, -1) and bound(-1, 1) and bound(1, 1)
    with pytest.raises(LaunchError) as raised:
        bound(0, 1)
    assert raised.value.code == "E608"


def compiled_kernel_of_two() -> Any:
    @T.prim_func
    def copied(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.copy(A, B)

    return copied.kernel
