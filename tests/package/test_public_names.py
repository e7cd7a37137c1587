"""Every public name of the package is there, and the decorator ``jit`` is not hidden by the module of its name."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

import zellige
from zellige.log import logger, set_log_level, told


@pytest.mark.parametrize("name", zellige.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(zellige, name) is not None
    assert name in dir(zellige)


def test_the_list_of_names_is_the_table() -> None:
    assert sorted(zellige.__all__) == sorted(["__version__", *zellige._NAMES, *zellige._MODULES])


@pytest.mark.parametrize(
    "line",
    [
        "from zellige.utils.tensor import TensorSupplyType, get_tensor_supply, torch_assert_close",
        "from zellige.utils.tensor import is_float8_dtype, map_torch_type",
        "from zellige.tileop.base import GemmWarpPolicy",
        "from zellige.transform import PassConfigKey, simplify_prim_func",
        "from zellige.language.fp8 import determine_fp8_type, determine_torch_fp8_type",
        "from zellige.autotuner import *",
        "from zellige import DataType, jit",
        "from zellige import tvm as tvm",
        "from zellige.engine.lower import lower",
        "from zellige.carver.arch import CUDA, CDNA, driver",
        "from zellige.carver.template import MatmulTemplate",
        "from zellige.carver.roller.rasterization import NoRasterization",
        "from zellige.layout.fragment import Fragment",
        "from zellige.profiler.bench import do_bench",
        "from zellige.language.dtypes import resolve_torch_storage_dtype",
        "from zellige.tvm import DataType, TVMError, tir, tirx; from zellige.tvm.target import Target",
    ],
)
def test_imports_that_published_programs_have(line: str) -> None:
    exec(line, {})


def test_the_other_names_mean_what_they_mean_there() -> None:
    import zellige.language as T
    from zellige.language.fp8 import determine_fp8_type
    from zellige.transform import simplify_prim_func

    assert zellige.DataType("float16x4").bits == 16
    assert zellige.tvm.DataType("int8").bits == 8
    assert zellige.tvm.tir.PrimExpr is T.PrimExpr
    assert zellige.tvm.TVMError is zellige.tvm.error.InternalError is zellige.ZelligeError
    assert (determine_fp8_type(), determine_fp8_type("e5m2")) == (T.float8_e4m3fn, T.float8_e5m2)
    with pytest.raises(ValueError, match="fp8_format is 'e3m4', expected one of e4m3, e5m2"):
        determine_fp8_type("e3m4")

    def build() -> int:
        return 3

    assert simplify_prim_func(build)() == 3


def test_a_name_of_the_compiler_below_tilelang_is_an_attribute_error_that_says_so() -> None:
    with pytest.raises(AttributeError, match=r"zellige has no tvm\.IRModule: it does not build on that compiler"):
        zellige.tvm.IRModule  # noqa: B018
    with pytest.raises(AttributeError, match="the language has no T.SeqStmt"):
        zellige.tvm.tirx.SeqStmt  # noqa: B018


def test_expressions_that_are_only_looked_at() -> None:
    from zellige.tvm import tirx

    value = tirx.Var("value", "float16")
    result = zellige.language.__exp(value)
    assert isinstance(result, tirx.Call) and isinstance(result, tirx.PrimExpr) and result.dtype == "float16"
    assert tirx.Var("n").dtype == "int32"
    assert (tirx.const(3, "uint16").dtype, tirx.IntImm("int64", 4).dtype) == ("uint16", "int64")
    with pytest.raises(TypeError, match="only supports floating-point inputs, but got int8"):
        zellige.language.__exp(tirx.Var("value", "int8"))


def test_a_persistent_kernel_asks_for_the_processors_of_its_target() -> None:
    from zellige.carver.arch import driver
    from zellige.plugin.registry import registry

    asked = {}
    for name in ("interp", "cpu", "cuda:sm_80"):
        with zellige.tvm.target.Target(name):
            asked[name] = driver.get_num_sms()
    target = registry().resolve("cpu")
    assert asked == {"interp": 1, "cpu": registry().backend(target).describe(target).threads, "cuda:sm_80": 108}
    assert asked["cpu"] >= 1


def test_what_proposes_configurations_says_what_does_here() -> None:
    from zellige.carver import arch
    from zellige.carver.template import MatmulTemplate

    for use in (lambda: arch.CUDA("cuda"), lambda: MatmulTemplate(M=64, N=64, K=64)):
        with pytest.raises(zellige.Unsupported, match="zl.autotune without configs") as caught:
            use()
        assert caught.value.code == "E402"
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        arch.nonsense  # noqa: B018


def test_types_of_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    import zellige.language as T
    from zellige.language.dtypes import resolve_torch_storage_dtype as stored
    from zellige.utils.tensor import is_float8_dtype, map_torch_type

    assert [stored(t) for t in (T.float16, T.int4, "uint4", torch.bfloat16)] == [T.float16, T.int8, T.uint8, T.bfloat16]
    assert [map_torch_type(t) for t in ("float16", T.int4, "float8_e4m3")] == [torch.float16, torch.int8, torch.float8_e4m3fn]
    assert [is_float8_dtype(t) for t in (torch.float8_e5m2, T.float8_e4m3fn, "int8", torch.float16)] == [True, True, False, False]
    assert stored(T.float4_e2m1fn) == (T.float4_e2m1fnx2 if hasattr(torch, "float4_e2m1fn_x2") else T.int8)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'zellige' has no attribute 'nonsense'"):
        zellige.nonsense  # noqa: B018


@pytest.mark.parametrize(
    "imports",
    [
        "import zellige.jit",
        "from zellige.jit import compile; import zellige",
        "import zellige; zellige.jit; import zellige.jit",
        "from zellige import jit; import zellige.jit; assert zellige.jit is jit",
    ],
)
def test_jit_is_the_decorator_in_every_order_of_imports(imports: str) -> None:
    program = f"{imports}; assert callable(zellige.jit) and not isinstance(zellige.jit, type(zellige))"
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


@pytest.mark.parametrize(("a", "b", "quotient"), [(7, 2, 4), (8, 2, 4), (0, 5, 0), (-7, 2, -3), (7, -2, -3), (-7, -2, 4)])
def test_cdiv_rounds_up(a: int, b: int, quotient: int) -> None:
    assert zellige.cdiv(a, b) == quotient


def test_next_power_of_2() -> None:
    assert [zellige.math.next_power_of_2(n) for n in (0, 1, 2, 3, 4, 5, 1000)] == [1, 1, 2, 4, 4, 8, 1024]


def test_the_log_level_decides_what_is_said(caplog: pytest.LogCaptureFixture) -> None:
    before = logger().level
    try:
        set_log_level("error")
        logger().warning("hidden")
        told().info("asked for")
        set_log_level(logging.DEBUG)
        logger().debug("shown")
        assert [record.getMessage() for record in caplog.records] == ["asked for", "shown"]
        with pytest.raises(ValueError, match="'loud' is no log level"):
            set_log_level("loud")
    finally:
        logger().setLevel(before)
