"""Runs traced kernels on NumPy arrays through the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zellige.frontend.primfunc import PrimFunc
from zellige.interp import interpret


@pytest.fixture
def run() -> Callable[..., Any]:
    """``run(kernel, *arguments)`` interprets the kernel in place; it returns its results, a single one by itself."""

    def run_kernel(kernel: PrimFunc, *arguments: Any) -> Any:
        results = interpret(kernel.kernel, list(arguments)).results
        return results[0] if len(results) == 1 else list(results) or None

    return run_kernel
