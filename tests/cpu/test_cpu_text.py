"""The builder of LLVM text: what it writes parses, and what LLVM could abort on is refused before."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from zellige.diagnostics import InternalError
from zellige.dtypes import all_dtypes
from zellige_cpu.host import make_host, register_file, running_host
from zellige_cpu.jit import compile_object
from zellige_cpu.linker import load
from zellige_cpu.text import Module
from zellige_cpu.types import compute_dtype, element_bytes, element_of, literal, mangled, memory_type, register_type, vector_type
from zellige_cpu.values import Value, constant, vector_constant


@pytest.fixture
def module():
    return Module("test", running_host())


def address(module: Module, name: str):
    library = load(compile_object(module.text(), running_host()), [name], running_host())
    return library, library.addresses[name]


def test_loops_carry_values_and_reserved_code_runs_before_them(module):
    fn = module.function("total", "i64", [("data", "ptr"), ("count", "i64")], is_exported=True)
    early = fn.reserve()
    with fn.loop(constant("i64", 0), fn.params[1]) as loop:
        total = loop.carry(constant("i64", 100))
        with fn.inside(early):
            doubled = fn.binary("mul", fn.params[1], constant("i64", 2))
        element = fn.load(fn.offset(fn.params[0], fn.binary("mul", loop.index, constant("i64", 8))), "i64", align=8)
        chosen = fn.alloca("i64")
        fn.store(constant("i64", 0), chosen, align=8)
        with fn.when(fn.compare("sgt", element, constant("i64", 2))):
            fn.store(element, chosen, align=8)
        loop.update(total, fn.binary("add", total, fn.load(chosen, "i64", align=8)))
    fn.ret(fn.binary("add", loop.final(total), doubled))
    library, place = address(module, "total")
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)(place)
    data = np.array([1, 2, 3, 4, 50], np.int64)
    assert [call(data.ctypes.data, n) for n in (0, 2, 5)] == [100, 104, 167]
    assert library.addresses


def test_code_behind_a_jump_does_no_harm(module):
    fn = module.function("early", "i32", [("x", "i32")], is_exported=True)
    fn.ret(fn.params[0])
    fn.binary("add", fn.params[0], constant("i32", 1))
    fn.ret(constant("i32", 7))
    library, place = address(module, "early")
    assert ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(place)(5) == 5 and library.addresses


@pytest.mark.parametrize(
    "name,args",
    [
        ("llvm.exp2", [constant("float", 1.0, 16)]),
        ("llvm.no.such", [constant("float", 1.0)]),
        ("llvm.fma", [constant("float", 1.0)] * 2),
        ("llvm.fma", [constant("float", 1.0), constant("float", 1.0), constant("double", 1.0)]),
        ("llvm.fma", [constant("i32", 1)] * 3),
        ("llvm.ctpop", [constant("float", 1.0)]),
        ("llvm.masked.load", [Value("%p", "ptr"), constant("i32", 4), constant("i1", True, 8), constant("float", 0.0, 16)]),
    ],
)
def test_an_intrinsic_that_is_not_listed_or_has_other_types_is_refused(module, name, args):
    fn = module.function("f", "void", [("p", "ptr")])
    with pytest.raises(InternalError):
        fn.intrinsic(name, *args)


def test_only_declared_functions_are_called_with_their_types(module):
    fn = module.function("f", "void", [])
    with pytest.raises(InternalError, match="undeclared"):
        fn.call("expf", constant("float", 1.0))
    module.symbol("expf", "float", ["float"])
    assert fn.call("expf", constant("float", 1.0)).type == "float" and module.symbols == {"expf"}
    with pytest.raises(InternalError, match="takes"):
        fn.call("expf", constant("double", 1.0))
    with pytest.raises(InternalError, match="twice"):
        module.function("f", "void", [])


def test_operands_of_different_types_are_refused(module):
    fn = module.function("f", "void", [])
    one, wide = constant("i32", 1), constant("i64", 1)
    for wrong in (
        lambda: fn.binary("add", one, wide),
        lambda: fn.compare("eq", one, wide),
        lambda: fn.select(constant("i1", True), one, wide),
        lambda: fn.bitcast(one, "double"),
        lambda: fn.splat(constant("i32", 1, 4), 8),
    ):
        with pytest.raises(InternalError):
            wrong()


def test_reserved_code_must_not_branch(module):
    fn = module.function("f", "void", [])
    stretch = fn.reserve()
    with pytest.raises(InternalError, match="branch"), fn.inside(stretch):
        fn.branch("somewhere")


@pytest.mark.parametrize(
    "element,value,text",
    [
        ("i8", 255, "-1"), ("i8", -129, "127"), ("i64", 1 << 63, str(-(1 << 63))), ("i1", 2, "true"), ("i1", 0, "false"),
        ("float", 0.1, "0x3FB99999A0000000"), ("float", -0.0, "0x8000000000000000"), ("float", 1e300, "0x7FF0000000000000"),
        ("double", 0.1, "0x3FB999999999999A"), ("double", float("nan"), "0x7FF8000000000000"),
        ("float", float("-inf"), "0xFFF0000000000000"),
    ],
)  # fmt: skip
def test_literals(element, value, text):
    assert literal(element, value) == text


def test_types_of_elements():
    for t in all_dtypes():
        assert element_bytes(t) == max(1, (t.bits + 7) // 8)
        assert memory_type(t) == ("i8" if t.is_bool else register_type(t))
        assert compute_dtype(t).bits >= t.bits and register_type(compute_dtype(t)) in ("i1", "i8", "i16", "i32", "i64", "float", "double")
    assert (vector_type("float", 1), vector_type("float", 16)) == ("float", "<16 x float>")
    assert (element_of("<16 x float>"), element_of("ptr")) == ("float", "ptr")
    assert (mangled("<8 x ptr>"), mangled("double"), mangled("<4 x i1>")) == ("v8p0", "f64", "v4i1")
    assert vector_constant("i8", [1, 2]).name == "<i8 1, i8 2>"


def test_register_files():
    assert register_file("x86_64-linux", frozenset({"avx512f"})) == (64, 32)
    assert register_file("x86_64-linux", frozenset({"avx2"})) == (32, 16)
    assert register_file("x86_64-linux", frozenset()) == (16, 16)
    assert register_file("aarch64-linux", frozenset()) == (16, 32)
    host = make_host("x86_64-unknown-linux-gnu", "x86-64", {"avx2": True, "f16c": True, "avx512f": False})
    assert host.lanes(4) == 8 and host.has_half_conversion
    assert "+avx2" in host.feature_string and "-avx512f" in host.feature_string


def test_masked_accesses_are_made_a_register_at_a_time(module):
    """LLVM 22 aborts on some wider ones, since it loses how much memory their parts reach."""
    lanes = 4 * running_host().vector_bytes // 4
    fn = module.function("kept", "void", [("source", "ptr"), ("target", "ptr"), ("count", "i32")], is_exported=True)
    places = vector_constant("i32", list(range(lanes)))
    mask = fn.compare("slt", places, fn.splat(fn.params[2], lanes))
    value = fn.masked_load(fn.params[0], mask, constant("float", -1.0, lanes), align=4)
    fn.masked_store(fn.binary("fadd", value, value), fn.params[1], mask, align=4)
    fn.ret()
    assert f"masked.load.v{lanes}f32" not in module.text() and f"masked.store.v{lanes}f32" not in module.text()
    library, where = address(module, "kept")
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(where)
    for count in (0, 1, lanes // 4, lanes // 4 + 1, lanes - 1, lanes):
        source, target = np.arange(count, dtype=np.float32), np.zeros(lanes, np.float32)
        call(source.ctypes.data, target.ctypes.data, count)
        np.testing.assert_array_equal(target, np.pad(2 * source, (0, lanes - count)))
    assert library is not None
