"""Each test has a cache of its own, empty, and counts what the backend is asked to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import zellige.language as T
from zellige.plugin.registry import BackendHandle


@pytest.fixture
def folder(own_cache: Path) -> Path:
    return own_cache


class Steps:
    """How often each step of a backend ran."""

    def __init__(self) -> None:
        self.emitted = 0
        self.compiled = 0

    @property
    def taken(self) -> tuple[int, int]:
        """Emissions and compilations since the last question."""
        found, self.emitted, self.compiled = (self.emitted, self.compiled), 0, 0
        return found


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    counted = Steps()
    emit, compile_ = BackendHandle.emit_step, BackendHandle.compile_step

    def emit_step(self: Any, *arguments: Any) -> Any:
        counted.emitted += 1
        return emit(self, *arguments)

    def compile_step(self: Any, *arguments: Any) -> Any:
        counted.compiled += 1
        return compile_(self, *arguments)

    monkeypatch.setattr(BackendHandle, "emit_step", emit_step)
    monkeypatch.setattr(BackendHandle, "compile_step", compile_step)
    return counted


def scaled(factor: float = 2.0, size: int = 64) -> Any:
    """A small kernel: B = A * factor."""

    @T.prim_func
    def scale(A: T.Tensor((size,), "float32"), B: T.Tensor((size,), "float32")):
        with T.Kernel(1) as _:
            for j in T.Parallel(size):
                B[j] = A[j] * factor

    return scale


@pytest.fixture(name="scaled")
def scaled_fixture() -> Any:
    """The function that makes the small kernel."""
    return scaled
