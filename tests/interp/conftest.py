"""Running tile IR written as text."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from zellige.interp import Interpretation, interpret
from zellige.ir.parser import parse_kernel
from zellige.ir.stmt import Kernel
from zellige.ir.verify import check


def kernel_of(text: str) -> Kernel:
    """A verified kernel: ``text`` is all of it behind the version line."""
    kernel = parse_kernel("# tile-ir 1.0\n\n\n" + textwrap.dedent(text).strip("\n") + "\n")
    check(kernel)
    return kernel


def body_kernel(parameters: str, body: str, *, launch: str = "launch(1) as (bx,)") -> Kernel:
    """A kernel of one launch: ``parameters`` go between the parentheses, ``body`` into the launch."""
    lines = textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8)
    return kernel_of(f"def k({parameters}):\n    with {launch}:\n{lines}")


@pytest.fixture(scope="session")
def run_text() -> Callable[..., Interpretation]:
    """Interprets a whole kernel: ``run_text(text, *arguments, **options)``."""

    def run(text: str, *arguments: Any, **options: Any) -> Interpretation:
        return interpret(kernel_of(text), arguments, **options)

    return run


@pytest.fixture(scope="session")
def run_block() -> Callable[..., Interpretation]:
    """Interprets the body of one launch: ``run_block(parameters, body, *arguments, launch=..., **options)``."""

    def run(parameters: str, body: str, *arguments: Any, launch: str = "launch(1) as (bx,)", **options: Any) -> Interpretation:
        return interpret(body_kernel(parameters, body, launch=launch), arguments, **options)

    return run


@pytest.fixture(scope="session")
def kernel_from() -> Callable[..., Kernel]:
    """Makes the kernel of one launch without running it."""
    return body_kernel


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(20261129)
