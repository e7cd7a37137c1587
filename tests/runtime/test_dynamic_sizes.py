"""One kernel for every value of a dynamic size: it is compiled once, and right for each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige import driver
from zellige.plugin.registry import BackendHandle

COLUMNS, DEPTH = 40, 33


def product(dtype: str) -> Any:
    m = T.dynamic("m")

    @T.prim_func
    def product(A: T.Tensor((m, DEPTH), dtype), B: T.Tensor((DEPTH, COLUMNS), dtype), C: T.Tensor((m, COLUMNS), "float32")):
        with T.Kernel(T.ceildiv(COLUMNS, 32), T.ceildiv(m, 64), threads=128) as (bx, by):
            a = T.alloc_shared((64, 16), dtype)
            b = T.alloc_shared((16, 32), dtype)
            c = T.alloc_fragment((64, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(DEPTH, 16), num_stages=2):
                T.copy(A[by * 64, k * 16], a)
                T.copy(B[k * 16, bx * 32], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 64, bx * 32])

    return product


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, int]:
    """How often a kernel was planned, emitted and compiled since."""
    monkeypatch.setenv("ZELLIGE_CACHE", "0")
    counts = {"fitted_for": 0, "emit_step": 0, "compile_step": 0}

    def count(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def noted(*given: Any, **named: Any) -> Any:
            counts[name] += 1
            return original(*given, **named)

        monkeypatch.setattr(owner, name, noted)

    count(driver, "fitted_for")
    count(BackendHandle, "emit_step")
    count(BackendHandle, "compile_step")
    return counts


def check(kernel: Any, rows: range | list[int], dtype: Any) -> None:
    random = np.random.default_rng(7)
    right = random.integers(-4, 5, (DEPTH, COLUMNS)).astype(dtype)
    left = random.integers(-4, 5, (max(rows), DEPTH)).astype(dtype)
    wanted = left.astype(np.float64) @ right.astype(np.float64)
    for count in rows:
        found = kernel(left[:count], right)
        assert found.shape == (count, COLUMNS) and np.array_equal(found, wanted[:count].astype(np.float32)), count


def test_one_compilation_serves_every_number_of_rows(counted: dict[str, int]) -> None:
    kernel = zl.compile(product("float32"), out_idx=-1, target="cpu")
    assert counted == {"fitted_for": 1, "emit_step": 1, "compile_step": 1}
    check(kernel, range(1, 4101, 23), np.float32)
    check(kernel, [63, 64, 65, 127, 128, 129, 4095, 4096, 4097, 4100, 0, 1], np.float32)
    assert counted == {"fitted_for": 1, "emit_step": 1, "compile_step": 1}


def test_the_simulated_device_serves_them_too(counted: dict[str, int]) -> None:
    kernel = zl.compile(product("float16"), out_idx=-1, target="cuda:sm_80,simulate")
    check(kernel, [1, 63, 64, 65], np.float16)
    assert counted == {"fitted_for": 1, "emit_step": 1, "compile_step": 1}
