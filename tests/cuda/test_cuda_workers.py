"""Launches whose blocks stay: the driver is given as many blocks as the plan has, whatever the kernel's grid is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import zellige as zl
import zellige.language as T
from zellige.ir.expr import INT32, Var, const
from zellige.ir.sizes import evaluate_size, launched_blocks
from zellige.plugin.contract import DriverFunctions
from zellige_cuda import native, steps
from zellige_cuda.device import CudaKernel, three

WORKERS = 6


@pytest.fixture
def staying(monkeypatch: pytest.MonkeyPatch) -> None:
    """The architecture says that blocks which stay would pay."""
    before = steps.role_capabilities

    def changed(arch: Any, caps: Any) -> Any:
        found = before(arch, caps)
        return None if found is None else replace(found, is_persistent=True, threads=WORKERS)

    monkeypatch.setattr(steps, "role_capabilities", changed)


def product(m: int, n: int, k: int) -> Any:
    @T.prim_func
    def stays(A: T.Tensor((m, k), "float16"), B: T.Tensor((k, n), "float16"), C: T.Tensor((m, n), "float16")):
        with T.Kernel(T.ceildiv(n, 64), T.ceildiv(m, 64), threads=128) as (bx, by):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for s in T.Pipelined(T.ceildiv(k, 64), num_stages=3):
                T.copy(A[by * 64, s * 64], a)
                T.copy(B[s * 64, bx * 64], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 64, bx * 64])

    return stays


def compiled(function: Any) -> CudaKernel:
    found = zl.compile(function, target="cuda:sm_90a")._default.compiled
    assert isinstance(found, CudaKernel)
    return found


@pytest.mark.usefixtures("staying")
def test_the_driver_is_given_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 tiles, 6 workers; core's own launches are described with the same grid."""
    kernel = compiled(product(200, 328, 392))
    assert [f["workers"] for f in kernel.functions] == [WORKERS]
    assert [[evaluate_size(e, {}) for e in three(grid)] for grid in kernel.grids] == [[WORKERS, 1, 1]]
    assert kernel._grids == [(WORKERS, 1, 1)]
    monkeypatch.setattr(native, "address_of", lambda name: 1)  # no driver is there
    monkeypatch.setattr(native, "functions", lambda: DriverFunctions(start=1, current=1, enter=1, leave=1))
    described = native.native_launch(kernel)
    assert [[evaluate_size(e, {}) for e in step.grid] for step in described.steps] == [[WORKERS, 1, 1]]


def test_blocks_of_their_own_have_the_grid() -> None:
    kernel = compiled(product(200, 328, 456))
    assert [f["workers"] for f in kernel.functions] == [None]
    assert kernel._grids == [(6, 4, 1)]


def test_no_more_workers_than_tiles() -> None:
    m, n = (Var(name=name, dtype=INT32, kind="size") for name in "mn")
    (extent,) = launched_blocks((m, n, const(2)), WORKERS)
    assert [evaluate_size(extent, {m: a, n: b}) for a, b in ((0, 3), (1, 1), (1, 3), (40, 50))] == [0, 2, 6, 6]
    assert launched_blocks((m, n), None) == (m, n)
