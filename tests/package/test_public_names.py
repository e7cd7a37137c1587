"""Every public name of the package is there, and the decorator ``jit`` is not hidden by the module of its name."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

import zellige
from zellige.log import logger, set_log_level, told


@pytest.mark.parametrize("name", zellige.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(zellige, name) is not None
    assert name in dir(zellige)


def test_the_list_of_names_is_the_table() -> None:
    assert sorted(zellige.__all__) == sorted(["__version__", *zellige._NAMES, *zellige._MODULES])


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'zellige' has no attribute 'nonsense'"):
        zellige.nonsense  # noqa: B018


@pytest.mark.parametrize(
    "imports",
    [
        "import zellige.jit",
        "from zellige.jit import compile; import zellige",
        "import zellige; zellige.jit; import zellige.jit",
        "from zellige import jit; import zellige.jit; assert zellige.jit is jit",
    ],
)
def test_jit_is_the_decorator_in_every_order_of_imports(imports: str) -> None:
    program = f"{imports}; assert callable(zellige.jit) and not isinstance(zellige.jit, type(zellige))"
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


@pytest.mark.parametrize(("a", "b", "quotient"), [(7, 2, 4), (8, 2, 4), (0, 5, 0), (-7, 2, -3), (7, -2, -3), (-7, -2, 4)])
def test_cdiv_rounds_up(a: int, b: int, quotient: int) -> None:
    assert zellige.cdiv(a, b) == quotient


def test_next_power_of_2() -> None:
    assert [zellige.math.next_power_of_2(n) for n in (0, 1, 2, 3, 4, 5, 1000)] == [1, 1, 2, 4, 4, 8, 1024]


def test_the_log_level_decides_what_is_said(caplog: pytest.LogCaptureFixture) -> None:
    before = logger().level
    try:
        set_log_level("error")
        logger().warning("hidden")
        told().info("asked for")
        set_log_level(logging.DEBUG)
        logger().debug("shown")
        assert [record.getMessage() for record in caplog.records] == ["asked for", "shown"]
        with pytest.raises(ValueError, match="'loud' is no log level"):
            set_log_level("loud")
    finally:
        logger().setLevel(before)
