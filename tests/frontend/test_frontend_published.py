"""Kernels as published, with the mistakes of language.md's last section, and right ones that resemble them.

A file without a mark is right: it gives neither an error nor a warning. In the others ``#   ^ E281`` points at the place above it.
"""

from __future__ import annotations

import importlib.util
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import zellige.language as T
from zellige.analysis.lint import lint
from zellige.diagnostics import ZelligeError, ZelligeWarning

FILES = sorted((Path(__file__).parent / "published").glob("*.py"))
MARK = re.compile(r"^#(?P<blank> *)\^ (?P<code>E\d{3,4})$")
PLACE = re.compile(r"(?:error|warning) (?P<code>E\d{3,4}): .*\n  --> (?P<file>.*):(?P<line>\d+):(?P<column>\d+)$", re.MULTILINE)


def expected(path: Path) -> list[tuple[str, int, int]]:
    lines = path.read_text().splitlines()
    return [(m["code"], number, len(m["blank"]) + 2) for number, line in enumerate(lines) if (m := MARK.match(line))]


def said(path: Path) -> list[str]:
    """The errors and warnings of a file's program."""
    spec = importlib.util.spec_from_file_location(f"published_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            module.program()
        except ZelligeError as error:
            texts.append(str(error))
    texts += [str(w.message) for w in caught if issubclass(w.category, ZelligeWarning)]
    return texts


def found(path: Path) -> list[tuple[str, int, int]]:
    places = []
    for text in said(path):
        place = PLACE.search(text)
        assert place is not None and "hint: " in text, text
        assert Path(place["file"]) == path, text
        places.append((place["code"], int(place["line"]), int(place["column"])))
    return places


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_published_kernel(path: Path) -> None:
    assert found(path) == expected(path)


def test_every_mistake_of_the_section_is_there() -> None:
    codes = {code for path in FILES for code, _, _ in expected(path)}
    of_the_front_end = {"E165", "E166"}
    of_the_lint = {"E280", "E281", "E282", "E283", "E284", "E285", "E286", "E287", "E289", "E292", "E293", "E294", "E295", "E296"}
    assert codes == of_the_front_end | of_the_lint
    assert any(not expected(path) for path in FILES)


def test_a_warning_is_shown_once(recwarn: pytest.WarningsRecorder) -> None:
    warnings.simplefilter("default")
    path = next(p for p in FILES if p.stem == "grid_of_a_quarter")
    spec = importlib.util.spec_from_file_location("published_once", path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.program()
    module.program()
    assert len([w for w in recwarn if issubclass(w.category, ZelligeWarning)]) <= 1


def test_what_points_do_to_an_element_that_they_share_is_said_as_it_is() -> None:
    path = next(p for p in FILES if p.stem == "points_share_an_element")
    does = [re.search(r"touched by every (.*)", text) for text in said(path)]
    assert [match[1] for match in does if match is not None] == [
        "point of i, which reads it and writes it back (16 points)",
        "point of j, which reads it and writes it back (16 points or more)",
        "point of i, which reads it in a condition and writes it under that (16 points)",
        "point of i, which reads it and writes it back (16 points)",
        "point of i, which reads it in a condition and writes it under that (16 points)",
        "block of b, which reads it and writes it back (16 blocks)",
        "block of c, which reads it in a condition and writes it under that (4 blocks or more)",
        "point of i, which writes what it computes from i there (16 points)",
        "point of i, which writes what it computes from i there (16 points or more)",
        "block of b, which writes what it computes from b there (16 blocks)",
    ]


def test_what_is_told_has_the_author_s_names() -> None:
    """Names of the kernel's text are told apart, ``i_3`` and ``tile_1``; the author wrote ``i`` and ``tile``."""

    @T.macro
    def added(A: Any, C: Any, block: Any) -> None:
        tile = T.alloc_shared((4,), "int32")
        for i in T.Parallel(8):
            tile[i] = A[i]
        C[1] = tile[0] + block

    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), C: T.Tensor((8,), "int32")):
        with T.Kernel(4) as block:
            for i in T.serial(8):
                C[i] = 0
            added(A, C, block)
            added(A, C, block)

    told = [(found.code, found.message.partition(" (")[0]) for found in lint(kernel.kernel)]
    assert told == [
        ("E287", "i counts to 8 and is an index of tile, which has 4 elements there"),
        ("E287", "i counts to 8 and is an index of tile, which has 4 elements there"),
        ("E296", "C[1] is touched by every block of block, which writes what it computes from block there"),
    ]
