"""Layouts as grids of text and as drawings."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from zellige.diagnostics.error import CompileError
from zellige.layouts import Banks, distribute, from_bases, identity, padded, row_major, sliced
from zellige.layouts.draw import banks_grid, describe, holders_grid, offsets_grid, svg_of, text_of

FRAGMENT = from_bases({"register": [(0, 1), (8, 0)], "lane": [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]}, {"row": 16, "column": 8})


def test_a_grid_says_which_lane_and_register_hold_which_element() -> None:
    grid = holders_grid(FRAGMENT)
    assert (len(grid), len(grid[0])) == (16, 8)
    assert grid[0][:4] == ["l0 r0", "l0 r1", "l1 r0", "l1 r1"]
    assert grid[9][3] == "l5 r3"
    assert holders_grid(sliced(FRAGMENT, ["column"]))[0][0] == "l0 r0 +7"
    assert holders_grid(from_bases({"lane": [(2,)]}, {"row": 4})) == [["l0", "-", "l1", "-"]]


def test_text_has_names_numbers_and_aligned_columns() -> None:
    lines = text_of(holders_grid(FRAGMENT), rows="row", columns="column").splitlines()
    assert lines[0].startswith("row\\column |      0")
    assert len({len(line) for line in lines}) == 1
    assert describe(row_major({"row": 2, "column": 4})).splitlines()[-1].split() == ["1", "|", "4", "5", "6", "7"]
    assert describe(distribute({"column": 4}, 2, 2).layout).splitlines()[-1].strip() == "0 | l0 r0  l0 r1  l1 r0  l1 r1"


def test_bank_maps() -> None:
    memory = padded({"row": 4, "column": 32}, 1)
    assert [row[0] for row in offsets_grid(memory)] == ["0", "33", "66", "99"]
    assert [row[0] for row in banks_grid(memory, Banks(), bits_per_element=32)] == ["0", "1", "2", "3"]
    assert describe(memory, Banks()).splitlines()[-1].split()[2] == "3"


def test_a_drawing_is_a_document_with_a_cell_for_each_element() -> None:
    root = ElementTree.fromstring(svg_of(holders_grid(FRAGMENT), title="a < b"))
    rectangles = [element for element in root if element.tag.endswith("rect")]
    assert len(rectangles) == 128
    texts = [element.text for element in root if element.tag.endswith("text")]
    assert texts[0] == "a < b" and texts[1:3] == ["l0 r0", "l0 r1"]
    assert len({rectangle.get("fill") for rectangle in rectangles}) == 32  # a colour for each lane


def test_three_dimensions_are_not_drawn() -> None:
    for make in (holders_grid, offsets_grid):
        with pytest.raises(CompileError) as caught:
            make(identity({"a": 2, "b": 2, "c": 2}) if make is holders_grid else row_major({"a": 2, "b": 2, "c": 2}))
        assert caught.value.code == "E320"
