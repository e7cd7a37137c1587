"""The text compiled once more for tensors that lie otherwise: between wide accesses, or one array under two names."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from test_cuda_launches import Driver, compiled, driver  # noqa: E402, F401

import zellige.language as T  # noqa: E402
from zellige.diagnostics import LaunchError  # noqa: E402
from zellige_cuda import compiler  # noqa: E402
from zellige_cuda.device import CudaKernel  # noqa: E402
from zellige_cuda.disassembly import disassembled  # noqa: E402
from zellige_cuda.variants import ELEMENTWISE, TENSORS_MEET  # noqa: E402


@T.prim_func
def through_shared(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), "float16")
        b = T.alloc_shared((64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.clear(c)
        for _ in T.Pipelined(2, num_stages=2):
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c)
        T.copy(c, C)


@T.prim_func
def doubled(A: T.Tensor((4096,), "float16"), B: T.Tensor((4096,), "float16")):
    with T.Kernel(1, threads=128):
        for i in T.Parallel(4096):
            B[i] = A[i] * T.float16(2)


def fresh(function: Any) -> CudaKernel:
    """A kernel that has not been launched."""
    kernel = compiled(function)
    kernel._loaded.clear()
    kernel._variants = {(): kernel._binary.data}
    return kernel


def words_of(sass: str) -> set[str]:
    return set(re.findall(r"\b((?:LDG|STG|LDGSTS)\.\S*)", sass))


@pytest.fixture
def loaded(driver: Driver) -> list[bytes]:  # noqa: F811
    """The cubins that reach the driver."""
    found: list[bytes] = []
    load = driver.cuModuleLoadData
    driver.cuModuleLoadData = lambda data: (found.append(data), load(data))[1]  # type: ignore[method-assign]
    return found


def test_tensors_as_usual_take_the_code_that_was_compiled(loaded: list[bytes]) -> None:
    kernel = fresh(doubled)
    kernel.launch([4096, 4096 + 8192], [], [])
    kernel.launch([8192, 4096 + 8192], [], [])
    assert loaded == [kernel._binary.data]
    assert any(".128" in w for w in words_of(disassembled(loaded[0])))


@pytest.mark.parametrize("pointers", [(4096 + 2, 16384), (4096, 16384 + 6)])
def test_a_tensor_between_wide_accesses_is_read_by_elements(loaded: list[bytes], pointers: tuple[int, int]) -> None:
    kernel = fresh(doubled)
    kernel.launch(pointers, [], [])
    kernel.launch(pointers, [], [])
    (cubin,) = loaded
    found = words_of(disassembled(cubin))
    assert found
    assert not any(".128" in w or ".64" in w for w in found)
    assert all("U16" in w for w in found)


def test_copies_that_land_later_land_at_once_by_elements(loaded: list[bytes]) -> None:
    kernel = fresh(through_shared)
    assert any(w.startswith("LDGSTS") for w in words_of(disassembled(kernel._binary.data)))
    kernel.launch((4096 + 2, 65536, 1 << 20), [], [])
    found = words_of(disassembled(loaded[0]))
    assert not any(w.startswith("LDGSTS") or (w.startswith("LDG") and "U16" not in w) for w in found)


def test_a_tensor_between_its_elements_is_refused(loaded: list[bytes]) -> None:
    with pytest.raises(LaunchError) as raised:
        fresh(doubled).launch((4096 + 1, 16384), [], [])
    assert raised.value.code == "E610"
    assert not loaded


def test_an_array_under_two_names_takes_code_without_the_promise(loaded: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    flags: list[tuple[str, ...]] = []
    compile_cubin = compiler.compile_cubin

    def noted(text: str, name: str, arch: str, options: tuple[str, ...] = ()) -> Any:
        flags.append(options)
        return compile_cubin(text, name, arch, options)

    kernel, product = fresh(doubled), fresh(through_shared)  # compiled before, or not, by another test
    monkeypatch.setattr(compiler, "compile_cubin", noted)
    assert "APART A" in kernel.source()
    assert "APART B" not in kernel.source()
    kernel.launch((4096, 4096), [], [])
    kernel.launch((4096 + 2, 4096 + 2), [], [])
    kernel.launch((0, 0), [], [])
    assert flags == [(TENSORS_MEET,), (ELEMENTWISE, TENSORS_MEET)]
    assert len(loaded) == 3
    product.launch((4096, 4096, 1 << 20), [], [])
    assert len(flags) == 2  # two tensors that are only read may be one array
