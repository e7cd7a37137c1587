"""Runs traced kernels on NumPy arrays through the interpreter, and has the programs of the folder ``wrong``."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
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


@pytest.fixture
def wrong_program() -> Callable[[str], Callable[[], None]]:
    """``wrong_program(name)`` is the program of the file of that name in ``wrong``, to be called."""

    def load(name: str) -> Callable[[], None]:
        spec = importlib.util.spec_from_file_location(f"wrong_{name}", Path(__file__).parent / "wrong" / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        program: Callable[[], None] = module.program
        return program

    return load
