"""Kernels, jit functions and errors as values of Python: copied, pickled, sent to other processes."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from pathlib import Path

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.diagnostics import CompileError, InternalError, LaunchError
from zellige.kernel import JITKernel


@zl.jit(out_idx=[-1], target="cpu")
def scaled(n: int, factor: float = 2.0) -> object:
    @T.prim_func
    def scaled(a: T.Tensor((n,), "float32"), c: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(n):
                c[i] = a[i] * factor

    return scaled


@T.prim_func
def doubled(a: T.Tensor((8,), "float32"), c: T.Tensor((8,), "float32")):
    with T.Kernel(1):
        for i in T.Parallel(8):
            c[i] = a[i] * 2


ONES = np.ones(8, dtype="float32")


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_compiled_kernel_is_pickled(protocol: int) -> None:
    kernel = scaled(8, 3.0).update_tuner_result(1.5, {"factor": 3.0}, None)
    again = pickle.loads(pickle.dumps(kernel, protocol))
    assert isinstance(again, JITKernel)
    assert (again.target, again.out_idx, again.get_tir()) == (kernel.target, kernel.out_idx, kernel.get_tir())
    assert again.get_tuner_result() == {"latency": 1.5, "config": {"factor": 3.0}, "ref_latency": None}
    assert np.array_equal(again(ONES), np.full(8, 3, "float32"))


def test_functions_of_a_module_are_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(scaled)) is scaled
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    with pytest.raises((AttributeError, pickle.PicklingError), match="local"):
        pickle.dumps(scaled(8).prim_func)


def test_a_copy_is_the_kernel_itself_also_inside_other_objects() -> None:
    kernel = scaled(8)
    for value in (kernel, scaled, doubled):
        assert copy.copy(value) is value
        assert copy.deepcopy({"layer": [value]})["layer"][0] is value


def refused() -> LaunchError:
    with pytest.raises(LaunchError) as caught:
        scaled(8)(np.ones(3, dtype="float32"))
    return caught.value


def test_errors_keep_their_diagnostics() -> None:
    with pytest.raises(CompileError) as caught:
        scaled("x")
    for error in (refused(), caught.value):
        for again in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):
            assert type(again) is type(error)
            assert again.diagnostics == error.diagnostics
            assert str(again) == str(error)
    internal = pickle.loads(pickle.dumps(InternalError("it broke", replay="zellige compile x")))
    assert (internal.message, internal.replay) == ("it broke", "zellige compile x")


def total(kernel: JITKernel) -> float:
    return float(kernel(ONES).sum())


def mistaken(n: int) -> float:
    return float(scaled(8)(np.ones(n, dtype="float32")).sum())


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_kernels_and_their_errors_cross_processes(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))  # a spawned process imports this module by its name
    kernel = scaled(8)
    total(kernel)  # the threads of this process exist before the other is made
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply_async(total, (kernel,)).get(60) == 16
        assert pool.apply_async(mistaken, (8,)).get(60) == 16
        with pytest.raises(LaunchError, match=r"expected float32\[8\], got float32\[3\]") as caught:
            pool.apply_async(mistaken, (3,)).get(60)
    assert caught.value.code == "E605"
