"""Runs kernels of the language through the interpreter, and tells which code a wrong program is refused with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from zellige.diagnostics import ZelligeError
from zellige.frontend.primfunc import PrimFunc, prim_func
from zellige.interp import interpret


@pytest.fixture(scope="session")
def run() -> Callable[..., Any]:
    """``run(kernel, *arguments, **options)`` interprets the kernel on arrays in place; it returns the last argument."""

    def run_kernel(kernel: PrimFunc, *arguments: Any, **options: Any) -> Any:
        interpret(kernel.kernel, list(arguments), **options)
        return arguments[-1]

    return run_kernel


@pytest.fixture(scope="session")
def refused() -> Callable[..., ZelligeError]:
    """``refused(code, function)``: tracing the function is an error of that code at a line of this function; returns the error."""

    def refuse(code: str, function: Callable[..., Any]) -> ZelligeError:
        with pytest.raises(ZelligeError) as caught:
            prim_func(function)
        error = caught.value
        assert error.code == code, str(error)
        span = error.span
        first = function.__code__.co_firstlineno
        assert span is not None
        assert span.file == function.__code__.co_filename
        assert first <= span.line <= first + 30
        return error

    return refuse


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(20261129)
