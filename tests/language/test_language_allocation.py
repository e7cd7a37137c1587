"""Buffers, variables, workspace, tensors and sizes."""

import numpy as np
import pytest
import torch

import zellige.language as T
from zellige.dtypes import dtype
from zellige.frontend.specs import TensorSpec
from zellige.ir.stmt import Alloc, TensorParam
from zellige.ir.traverse import walk


def buffers(kernel):
    return {node.buffer.name: node.buffer for node in walk(kernel.kernel) if isinstance(node, Alloc)}


def test_buffers_have_the_author_s_name_space_and_type():
    @T.prim_func
    def k():
        with T.Kernel(1):
            tile_a = T.alloc_shared((4, 8), "float16")
            tile_b = T.alloc_fragment([2], T.int8)
            tile_c = T.alloc_local(3, torch.bfloat16)
            tile_d = T.alloc_buffer((1,), dtype=np.uint8, scope="shared")
            tile_e = T.alloc_shared((1,), bool, scope="shared.dyn")
            for tile in (tile_a, tile_b, tile_c, tile_d, tile_e):
                T.clear(tile)

    found = {name: (b.space, b.dtype.name, tuple(e.value for e in b.shape)) for name, b in buffers(k).items()}
    assert found == {
        "tile_a": ("shared", "float16", (4, 8)),
        "tile_b": ("fragment", "int8", (2,)),
        "tile_c": ("local", "bfloat16", (3,)),
        "tile_d": ("shared", "uint8", (1,)),
        "tile_e": ("shared", "bool", (1,)),
    }


def test_every_form_of_alloc_var(run):
    @T.prim_func
    def k(A: T.Tensor((6,), "float32")):
        with T.Kernel(1):
            a = T.alloc_var("float32")
            b = T.alloc_var(T.float32, 1.5)
            c = T.alloc_var("float32", "local.var")
            d = T.alloc_var("float32", 2.5, "local.var")
            e = T.alloc_var("float32", init=b)
            f = T.alloc_var("int32", T.int32(2.9))
            b = 7.0
            c = e + 1
            A[0] = a
            A[1] = b
            A[2] = c
            A[3] = d
            A[4] = e
            A[5] = f

    assert run(k, np.full(6, -1, np.float32)).tolist() == [0, 7, 2.5, 2.5, 1.5, 2]


def test_a_variable_takes_its_initial_value_now(run):
    @T.prim_func
    def k(A: T.Tensor((2,), "int32")):
        with T.Kernel(1):
            v = T.alloc_var("int32", init=A[0])
            A[0] = 99
            A[1] = v

    assert run(k, np.array([5, 0], np.int32)).tolist() == [99, 5]


def test_workspace_is_made_for_the_call_and_seen_by_the_next_launch(run):
    @T.prim_func
    def k(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        scratch = T.alloc_global((4,), "float32")
        with T.Kernel(4) as i:
            scratch[i] = A[i] * 2
        with T.Kernel(4) as i:
            B[i] = scratch[3 - i]

    roles = [p.role for p in k.kernel.params if isinstance(p, TensorParam)]
    assert roles == ["argument", "argument", "workspace"]
    assert run(k, np.array([1, 2, 3, 4], np.float32), np.zeros(4, np.float32)).tolist() == [8, 6, 4, 2]


@pytest.mark.parametrize(
    ("made", "shape", "name"),
    [
        (T.Tensor((2, 3), "float16"), (2, 3), "float16"),
        (T.Tensor[[2, 3], "float16"], (2, 3), "float16"),
        (T.Tensor[(2, 3), T.int8], (2, 3), "int8"),
        (T.Tensor[2, 3, "float16"], (2, 3), "float16"),
        (T.Tensor[2, 3], (2, 3), "float32"),
        (T.Tensor[8], (8,), "float32"),
        (T.Tensor[[8, 8]], (8, 8), "float32"),
        (T.Tensor(8), (8,), "float32"),
        (T.Tensor(8, dtype=torch.float64), (8,), "float64"),
        (T.Buffer([4], np.int64), (4,), "int64"),
        (T.Tensor([4], T.ptr), (4,), "int64"),
        (T.Tensor([4], int), (4,), "int32"),
    ],
)
def test_tensor_annotations(made, shape, name):
    assert isinstance(made, TensorSpec)
    assert (made.shape, made.dtype.name, made.strides) == (shape, name, None)


def test_strided_annotations():
    for made in (T.StridedTensor((2, 3), (6, 2), "int8"), T.StridedTensor[[2, 3], [6, 2], "int8"]):
        assert (made.shape, made.strides, made.dtype) == ((2, 3), (6, 2), "int8")


def test_strides_are_honoured(run):
    @T.prim_func
    def k(A: T.StridedTensor((3, 2), (8, 2), "int32"), B: T.Tensor((3, 2), "int32")):
        with T.Kernel(1):
            T.copy(A, B)

    storage = np.arange(24, dtype=np.int32).reshape(3, 8)
    np.testing.assert_array_equal(run(k, storage[:, 0:4:2], np.zeros((3, 2), np.int32)), storage[:, [0, 2]])


def test_symbolic_sizes():
    size = T.dynamic("m")
    assert isinstance(size, T.Var)
    assert isinstance(size, T.PrimExpr)
    assert not isinstance(5, T.Var)
    assert [s.expr.name for s in T.dynamic("m, n")] == ["m", "n"]
    assert [s.expr.name for s in T.symbolic("m n k")] == ["m", "n", "k"]
    assert T.dynamic("m", "int64").dtype == "int64"


@pytest.mark.parametrize("size", [0, -3])
def test_an_extent_that_is_not_positive(refused, size):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.alloc_shared((4, size), "float32")

    refused("E220", k)


def test_an_extent_known_only_at_run_time(refused):
    n = T.dynamic("n")

    def k(A: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            T.alloc_shared((n,), "float32")

    error = str(refused("E105", k))
    assert "T.alloc_shared" in error and "use a slice of it: tile[0:n]" in error


def test_an_unknown_type(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.alloc_shared((4,), "float33")

    assert "'float33' is not an element type" in str(refused("E217", k))


def test_two_initial_values(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            A[0] = T.alloc_var("float32", 1.0, init=2.0)

    refused("E221", k)


def test_an_index_into_a_variable(refused):
    def k(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            v = T.alloc_var("float32")
            A[0] = v[1]

    refused("E207", k)


@pytest.mark.parametrize(
    "make", [lambda: T.Tensor((4,), "int8", 3), lambda: T.StridedTensor((4, 4), (1,), "int8"), lambda: T.Tensor((4,), dtyp="int8")]
)
def test_a_wrong_annotation(make):
    with pytest.raises(Exception, match="E218"):
        make()


@pytest.mark.parametrize("name", ["", "a b!", "3x", None, 7])
def test_a_size_without_a_name(name):
    with pytest.raises(Exception, match="E219"):
        T.dynamic(name)


def test_a_size_that_is_no_integer():
    with pytest.raises(Exception, match="E205"):
        T.dynamic("n", "float32")


def test_barriers_are_handles_for_dialects(refused):
    @T.prim_func
    def fine(A: T.Tensor((4,), "float32")):
        with T.Kernel(1) as bx:
            barriers = T.alloc_barrier([128, 1])
            assert len(barriers) == 2
            assert barriers[1].arrivals == (1,)
            assert barriers[bx].described == "a barrier"
            A[0] = 0

    def none(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.alloc_barrier([128, 0])

    def past(A: T.Tensor((4,), "float32")):
        with T.Kernel(1):
            T.alloc_barrier(128)[1]

    refused("E245", none)
    refused("E241", past)


def test_dtypes_are_strings_with_facts():
    assert T.float16 == "float16"
    assert hash(T.float16) == hash("float16")
    assert (T.float16.bits, T.float16.bytes, T.float16.itemsize, T.float16.lanes) == (16, 2, 2, 1)
    assert T.float16.with_lanes(4) == "float16x4"
    assert T.bfloat16x2.scalar == T.bfloat16
    assert T.float8_e4m3fn.startswith("float8")
    assert T.int4.bytes == 1
    assert T.dtype("float16") is dtype("float16")
    assert isinstance(T.int32, T.dtype)
    assert [T.half, T.float, T.double, T.int, T.long, T.short, T.uint, T.boolean] == [
        "float16", "float32", "float64", "int32", "int64", "int16", "uint32", "bool",
    ]  # fmt: skip


def test_type_codes_are_those_of_dlpack():
    expected = {"int8": 0, "uint64": 1, "float16": 2, "float64": 2, "bfloat16": 4, "bool": 6, "float8_e4m3fn": 10, "float4_e2m1fn": 17}
    assert {name: dtype(name).type_code for name in expected} == expected
    assert dtype("bfloat16x2").type_code == 4


def test_torch_types():
    assert T.float16.as_torch() is torch.float16
    assert T.int4.as_torch() is torch.int8
    assert T.tfloat32.as_torch() is torch.float32
    assert T.float8_e4m3.as_torch() is torch.float8_e4m3fn
    assert T.float4_e2m1fn.as_torch() is torch.float4_e2m1fn_x2
    assert T.float4_e2m1fnx2.as_torch() is torch.float4_e2m1fn_x2


def test_a_dtype_without_argument_is_a_variable(run):
    @T.prim_func
    def k(A: T.Tensor((2,), "int32")):
        with T.Kernel(1):
            v = T.int32()
            A[0] = v & 0x7FFFFFFF
            T.let(v, 5)
            A[1] = v

    assert run(k, np.full(2, -1, np.int32)).tolist() == [0, 5]


@pytest.mark.parametrize("dtype", ["int4x2", "float4_e2m1fnx4"])
def test_vectors_of_elements_that_share_a_byte_are_refused(refused, dtype):
    with pytest.raises(ValueError, match="E217"):
        T.Tensor((4,), dtype)

    def tile(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            T.alloc_shared((4,), dtype)

    def output():
        A = T.empty((4,), dtype)
        with T.Kernel(1):
            T.clear(A)
        return A

    for kernel in (tile, output):
        error = refused("E217", kernel)
        assert dtype[:-2] in error.hint and "last dimension" in error.hint


@pytest.mark.parametrize("scope", [7, None, ["shared"]])
def test_a_scope_that_is_no_name(refused, scope):
    def k(A: T.Tensor((4,), "int32")):
        with T.Kernel(1):
            tile = T.alloc_fragment((4,), "int32", scope=scope)
            T.copy(A, tile)

    assert "needs the name of a memory space" in str(refused("E258", k))
