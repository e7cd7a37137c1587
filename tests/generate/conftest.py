"""Generated programs for property tests, drawn by hypothesis or made from seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest

from zellige.generate import Program, generate
from zellige.ir.parser import parse_kernel
from zellige.ir.verify import check


class Drawn:
    """Choices that hypothesis makes, so that it can shrink them."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return int(self._draw(st.integers(low, high)))


@st.composite
def _programs(draw: Callable[[Any], Any], flavour: str) -> Program:
    return generate(Drawn(draw), flavour=flavour)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def block_programs() -> st.SearchStrategy[Program]:
    """Programs without lanes."""
    return _programs("blocks")


@pytest.fixture(scope="session")
def lane_programs() -> st.SearchStrategy[Program]:
    """Programs with lanes."""
    return _programs("lanes")


@pytest.fixture(scope="session")
def lane_tile_programs() -> st.SearchStrategy[Program]:
    """Programs with lanes that do tile operations for themselves."""
    return _programs("lane-tiles")


@pytest.fixture
def program_of() -> Callable[..., Program]:
    """A program from the text of a kernel, without the version line, and its arguments."""

    def make(text: str, *arguments: Any) -> Program:
        kernel = parse_kernel(f"# tile-ir 1.0\n\n\n{text}\n")
        check(kernel)
        return Program(kernel=kernel, arguments=arguments)

    return make
