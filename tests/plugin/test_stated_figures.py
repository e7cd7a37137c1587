"""Limits, accuracies and rates that a backend states are held to: kernels and calls that are too large are refused, functions that are less
exact than they are said to be are shown, figures that cannot be are wrong answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from broken_sources import backend, described, kernel, works

import zellige as zl
import zellige.language as T
from zellige.claims import Finding, examined
from zellige.claims.accuracy import largest_error, sample
from zellige.diagnostics import CompileError, LaunchError, Unsupported, ZelligeError
from zellige.dtypes import dtype
from zellige.explain import explain
from zellige.plugin.contract import Bounds
from zellige.plugin.registry import Registry, registry

Install = Callable[..., Registry]


def bounded(**limits: Any) -> str:
    return described(f"bounds=contract.Bounds(**{limits!r})")


@T.prim_func
def added(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32"), factor: T.float32):
    with T.Kernel(4) as block:
        for i in T.Parallel(16):
            C[block * 16 + i] = A[block * 16 + i] + factor * B[block * 16 + i]


n = T.dynamic("n")


@T.prim_func
def copied(A: T.Tensor((n, 8), "int32"), B: T.Tensor((n, 8), "int32")):
    with T.Kernel(2, T.ceildiv(n, 4)) as (half, block):
        for i, j in T.Parallel(4, 4):
            if block * 4 + i < n:
                B[block * 4 + i, half * 4 + j] = A[block * 4 + i, half * 4 + j]


TOO_MUCH: list[tuple[dict[str, Any], str]] = [
    ({"argument_bytes": 24}, "the arguments of added are 4 words of 8 bytes, and a launch of the target small takes 24 bytes of them"),
    ({"tensor_bytes": 255}, "the tensor A has 256 bytes, and a launch of the target small takes tensors of 255"),
    ({"grid": (3,)}, "axis 0 of the grid has 4 blocks, and a launch of the target small takes 3 there"),
]


@pytest.mark.parametrize(("limits", "words"), TOO_MUCH)
def test_constants_beyond_a_limit_are_refused(limits: dict[str, Any], words: str, install: Install) -> None:
    install({"small": bounded(**limits)})
    for ask in (lambda: zl.compile(added, target="small"), lambda: explain(added, "small")):
        with pytest.raises(Unsupported) as caught:
            ask()
        assert caught.value.code == "E448"
        assert words in str(caught.value)
        assert "test_stated_figures.py" in str(caught.value) and "hint:" in str(caught.value)
    assert works("cpu")


def test_what_a_launch_just_takes_runs(install: Install) -> None:
    install({"small": bounded(argument_bytes=32, tensor_bytes=256, grid=(4,))})
    a, b, c = np.arange(64, dtype=np.float32), np.ones(64, np.float32), np.zeros(64, np.float32)
    zl.compile(added, target="small")(a, b, c, 2.0)
    assert (c == a + 2).all()


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"tensor_bytes": 1280}, "the tensor A has 1312 bytes, and a launch of the target small takes tensors of 1280"),
        ({"grid": (2, 10)}, "axis 1 of the grid has 11 blocks, and a launch of the target small takes 10 there"),
        ({"grid": (20,)}, "axis 0 of the grid has 22 blocks, and a launch of the target small takes 20 there"),
    ],
)
def test_sizes_of_a_call_beyond_a_limit_are_refused(limits: dict[str, Any], words: str, install: Install) -> None:
    """Every call, also when the quick way would be there."""
    install({"small": bounded(**limits)})
    made = zl.compile(copied, target="small")
    for rows in (5, 40, 40, 40, 40):
        a, b = np.arange(rows * 8, dtype=np.int32).reshape(rows, 8), np.zeros((rows, 8), np.int32)
        made(a, b)
        assert (a == b).all()
        with pytest.raises(LaunchError, match=words) as caught:
            made(np.zeros((41, 8), np.int32), np.zeros((41, 8), np.int32))
        assert caught.value.code == "E645"


@T.prim_func
def tall_by_a_number(A: T.Tensor((64,), "float32"), count: T.int32):
    with T.Kernel(1, count) as (_, block):
        A[block] = 1.0


def test_grids_that_a_number_of_the_call_makes_are_held_to_them(install: Install) -> None:
    install({"small": bounded(grid=(8, 10))})
    made = zl.compile(tall_by_a_number, target="small")
    for _ in range(4):
        a = np.zeros(64, np.float32)
        made(a, 10)
        assert a.sum() == 10
        with pytest.raises(LaunchError, match="axis 1 of the grid has 11 blocks, and a launch of the target small takes 10 there"):
            made(a, 11)


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_80", "cuda:sm_90a"])
def test_kernels_of_our_own_bring_the_bounds_that_are_described(target: str) -> None:
    """So that a call of a kernel from the cache need not ask for the description."""
    from zellige_cpu.kernel import CpuKernel
    from zellige_cuda.device import CudaKernel

    resolved = registry().resolve(target)
    kind = CpuKernel if target == "cpu" else CudaKernel
    assert kind.bounds == registry().backend(resolved).describe(resolved).bounds


def test_calls_of_our_own_are_held_to_them_by_the_same_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from zellige_cpu.kernel import CpuKernel

    monkeypatch.setattr(CpuKernel, "bounds", Bounds(grid=(2, 10)))
    made = zl.compile(copied, target="cpu")
    for rows in (5, 40, 40, 40, 40):
        a, b = np.arange(rows * 8, dtype=np.int32).reshape(rows, 8), np.zeros((rows, 8), np.int32)
        made(a, b)
        assert (a == b).all()
        with pytest.raises(LaunchError, match="axis 1 of the grid has 11 blocks, and a launch of the target cpu takes 10 there") as caught:
            made(np.zeros((41, 8), np.int32), np.zeros((41, 8), np.int32))
        assert caught.value.code == "E645"


@pytest.mark.parametrize(
    ("stated", "code", "words"),
    [
        ("bounds = 'none'", "E703", "its hook runtime answered str, expected Bounds"),
        ("bounds = contract.Bounds(grid=('a',))", "E703", "Bounds.grid[0] is 'a', expected int"),
        ("@property\n        def bounds(self): return 1 / 0", "E709", "in its hook runtime: ZeroDivisionError"),
        ("bounds = contract.Bounds(grid=(2, 1))", "E645", "axis 1 of the grid has 2 blocks, and a launch of the target small takes 1"),
    ],
)
def test_what_a_kernel_says_of_its_bounds_is_checked(stated: str, code: str, words: str, install: Install) -> None:
    install({"small": kernel(stated)})
    with pytest.raises(ZelligeError) as caught:
        zl.compile(copied, target="small")(np.zeros((8, 8), np.int32), np.zeros((8, 8), np.int32))
    assert caught.value.code == code
    assert words in str(caught.value)
    assert works("cpu")


def test_a_refusal_by_a_backend_names_the_user_s_line(install: Install) -> None:
    """And not the line of the backend's package, whatever that is called."""
    refuses = "@hookimpl\ndef emit(self, planned, ctx):\n    from zellige.diagnostics import catalogue\n"
    install({"refuses": backend(refuses + "    raise catalogue.E440.error(target='refuses', what='that', known='')")})
    with pytest.raises(Unsupported) as caught:
        zl.compile(added, target="refuses")
    assert caught.value.span is not None and caught.value.span.file == __file__
    assert "said by the backend 'refuses' in its hook emit" in str(caught.value)


def test_a_target_of_our_own_refuses_a_grid() -> None:

    @T.prim_func
    def tall(A: T.Tensor((1,), "float32")):
        with T.Kernel(1, 65536) as _:
            A[0] = 0.0

    with pytest.raises(Unsupported, match="axis 1 of the grid has 65536 blocks, and a launch of the target cuda:sm_80 takes 65535 there"):
        explain(tall, "cuda:sm_80")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ("bounds=contract.Bounds(grid=(0,))", "bounds.grid[0] is 0, less than 1"),
        ("bounds=contract.Bounds(argument_bytes=4)", "bounds.argument_bytes is 4, less than 8"),
        ("bounds=contract.Bounds(tensor_bytes=-1)", "bounds.tensor_bytes is -1, less than 1"),
        ("math=(contract.MathAccuracy(function='exp', dtype='float32', fast_ulp=-1.0),)", "math[0].fast_ulp is -1, less than 0"),
        ("math=(contract.MathAccuracy(function='exp', dtype='float32'),) * 2", "math has two of the name 'exp of float32'"),
        ("peaks=(contract.Peak(dtype='float32', operations_per_second=-1.0),)", "peaks[0].operations_per_second is -1, less than 0"),
        ("bytes_per_second=-1.0", "bytes_per_second is -1, less than 0"),
    ],
)
def test_figures_that_cannot_be_are_wrong_answers(fields: str, words: str, install: Install) -> None:
    install({"odd": described(fields)})
    with pytest.raises(CompileError) as caught:
        works("odd")
    assert caught.value.code == "E703"
    assert words in str(caught.value)


def findings(install: Install, entry: str) -> list[Finding]:
    install({"exact": described(f"math=(contract.MathAccuracy(dtype='float32', {entry}),)")})
    target = registry().resolve("exact")
    return [one for one in examined(registry().backend(target), target) if one.probe == "mathematics"]


def test_functions_are_held_to_the_units_that_are_stated(install: Install) -> None:
    strict, fast = findings(install, "function='exp', strict_ulp=4.0, fast_ulp=0.01")
    assert (strict.verdict, strict.field) == ("holds", "math[0].strict_ulp")
    assert strict.text == "exp of float32 is within 4 units of the last place"
    assert (fast.verdict, fast.field) == ("does not hold", "math[0].fast_ulp")
    assert "units from" in fast.reason


def test_a_function_that_no_probe_knows_is_not_checked(install: Install) -> None:
    for one in findings(install, "function='cbrt'"):
        assert (one.verdict, one.reason) == ("not checked", "no probe knows the exact values of cbrt")


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16", "float64"])
def test_errors_are_counted_in_units_of_the_last_place(name: str) -> None:
    t = dtype(name)
    operands, exact = sample("exp", t)
    with np.errstate(over="ignore"):
        right = exact.astype(t.numpy)
    assert largest_error(right, operands, exact, t, flushes=False)[0] <= 0.5
    at = int(np.argmin(np.abs(exact.astype(np.float64) - 1.5)))
    wrong = right.copy()
    wrong[at] = (wrong[at].astype(exact.dtype) + 3 * exact.dtype.type(2.0) ** -t.mantissa).astype(t.numpy)
    error, where = largest_error(wrong, operands, exact, t, flushes=False)
    assert where == at and 2.5 <= error <= 3.5
    lost = right.copy()
    lost[at] = np.nan
    assert largest_error(lost, operands, exact, t, flushes=False) == (np.inf, at)


def test_subnormal_numbers_count_as_zeros_where_a_target_says_so() -> None:
    t = dtype("float32")
    operands, exact = sample("exp", t)
    small = np.abs(exact) < 2.0**-126
    assert small.sum() > 5
    with np.errstate(over="ignore"):
        flushed = np.where(small, 0, exact).astype(np.float32)
    assert largest_error(flushed, operands, exact, t, flushes=False)[0] > 1000
    assert largest_error(flushed, operands, exact, t, flushes=True)[0] <= 0.5


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ("ranks=(1, 2)", "takes regions of 1 to 2 dimensions, that of A has 3"),
        ("ranks=(4, 5)", "takes regions of 4 to 5 dimensions, that of A has 3"),
        ("largest_stride=256", "takes pitches of up to 256 bytes, A has a larger one"),
        ("ranks=(1, 3), largest_stride=512", ""),
    ],
)
def test_copies_go_by_ways_that_take_their_shape(fields: str, reason: str, install: Install) -> None:
    @T.prim_func
    def moved(A: T.Tensor((2, 8, 16, 8), "float32"), B: T.Tensor((2, 8, 16, 8), "float32")):
        with T.Kernel(2) as half:
            tile = T.alloc_shared((8, 16, 8), "float32")
            T.copy(A[half, 0, 0, 0], tile)
            T.copy(tile, B[half, 0, 0, 0])

    mover = f"CopyPath(source='global', destination='*', mechanism='mover', engine='vec', {fields})"
    install({"moves": described(f"copies=({mover}, *AcmeBackend.describe(self, target).copies)")})
    (told,) = [d for d in explain(moved, "moves").decisions if d.question == "how is A copied to tile?"]
    assert ("mover" in told.chosen) is not bool(reason)
    assert dict(told.rejected).get("mover", "") == reason
    a, b = np.arange(2048, dtype=np.float32).reshape(2, 8, 16, 8), np.zeros((2, 8, 16, 8), np.float32)
    zl.compile(moved, target="moves")(a, b)
    assert (a == b).all()


def test_a_pitch_that_only_the_call_knows_is_none_for_a_way_with_a_limit(install: Install) -> None:
    m = T.dynamic("m")

    @T.prim_func
    def moved(A: T.Tensor((8, m), "float32"), B: T.Tensor((8, 4), "float32")):
        with T.Kernel(1) as _:
            tile = T.alloc_shared((8, 4), "float32")
            T.copy(A[0:8, 0:4], tile)
            T.copy(tile, B)

    mover = "CopyPath(source='global', destination='*', mechanism='mover', engine='vec', largest_stride=1024)"
    install({"moves": described(f"copies=({mover}, *AcmeBackend.describe(self, target).copies)")})
    (told,) = [d for d in explain(moved, "moves").decisions if d.question == "how is A copied to tile?"]
    assert dict(told.rejected) == {"mover": "takes pitches of up to 1024 bytes, one of A is known at run time only"}
