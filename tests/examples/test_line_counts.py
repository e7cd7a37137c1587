"""The comparison of line counts is current, has every example, and counts as its page says."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tool() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("count_lines", ROOT / "tools" / "count_lines.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["count_lines"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["count_lines"]


def test_the_page_is_current(tool: ModuleType) -> None:
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page(), "run python tools/count_lines.py"


def test_every_example_is_compared(tool: ModuleType) -> None:
    assert sorted(row.example for row in tool.ROWS) == sorted(path.stem for path in (ROOT / "examples").glob("[a-z]*.py"))


SOURCE = '''
import zellige as zl  # not a kernel

def reference(x):
    return x

@zl.jit(
    out_idx=[-1],
)
def first(n):
    """Text that
    does not count."""
    # nor does this

    @T.prim_func
    def first(a, b):  # this line does
        with T.Kernel(1):
            b[0] = (
                a[0]

                + 1
            )
        T.print("""two
lines""")

    return first

@T.macro
def second(a):
    a[0] = 1
'''


@pytest.mark.parametrize("functions, lines", [((), 17), (("first",), 14), (("second",), 3), (("first", "second"), 17)])
def test_what_counts(tool: ModuleType, functions: tuple[str, ...], lines: int) -> None:
    assert tool.counted_lines(SOURCE, functions) == lines


@pytest.mark.parametrize("source, functions", [("x = 1", ()), (SOURCE, ("third",))])
def test_a_kernel_that_is_missing_is_found(tool: ModuleType, source: str, functions: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="no kernel"):
        tool.counted_lines(source, functions)
