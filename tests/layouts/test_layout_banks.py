"""Bank conflicts by rank and by counting, and memory layouts without conflicts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from layout_strategies import flat  # noqa: E402

from zellige.diagnostics.error import CompileError  # noqa: E402
from zellige.layouts import (  # noqa: E402
    Access,
    Banks,
    compose,
    conflict_degree,
    conflict_free,
    counted_degree,
    degrees,
    from_bases,
    mixed,
    padded,
    row_major,
    swizzled,
    vector_width,
)

MATRIX_32 = {"row": 32, "column": 32}
DOWN = mixed({"lane": [(32, {"row": 1})]}, MATRIX_32)
ALONG = mixed({"lane": [(32, {"column": 1})]}, MATRIX_32)
FRAGMENT = from_bases({"register": [(0, 1), (8, 0)], "lane": [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]}, {"row": 16, "column": 8})


def rows_of_16_bytes(rows: int, columns: int, lanes_across: int):
    """Lanes of 8 elements of 2 bytes, ``lanes_across`` in a row."""
    down = 32 // lanes_across
    digits = {"register": [(8, {"column": 1})], "lane": [(lanes_across, {"column": 8}), (down, {"row": 1})]}
    return mixed(digits, {"row": rows, "column": columns})


def test_the_textbook_cases() -> None:
    four = {"bits_per_element": 32}
    assert conflict_degree(compose(DOWN, row_major(MATRIX_32)), Banks(), **four) == 32
    assert conflict_degree(compose(ALONG, row_major(MATRIX_32)), Banks(), **four) == 1
    assert conflict_degree(compose(DOWN, padded(MATRIX_32, 1)), Banks(), **four) == 1
    assert conflict_degree(compose(DOWN, padded(MATRIX_32, 2)), Banks(), **four) == 2
    assert conflict_degree(compose(ALONG, row_major(MATRIX_32)), Banks(), bits_per_element=16) == 1  # two lanes share a word
    assert conflict_degree(compose(ALONG, row_major(MATRIX_32)), Banks(), bits_per_element=64) == 1  # two phases
    assert conflict_degree(mixed({"lane": [(32, {})]}, {"offset": 1}), Banks(), **four) == 1  # one word for all


@pytest.mark.parametrize(("span", "expected"), [(64, 1), (32, 2), (16, 4)])
def test_eight_rows_of_16_bytes_under_the_usual_swizzles(span: int, expected: int) -> None:
    """Eight lanes read the same 16 bytes of eight rows of 128, 64, 32 bytes (how matrix fragments are loaded), exchanged or not."""
    tile = {"row": 32, "column": span}
    lanes = mixed({"register": [(8, {"column": 1})], "lane": [(32, {"row": 1})]}, tile)
    assert conflict_degree(compose(lanes, row_major(tile)), Banks(), bits_per_element=16, vector=8) == span // 8
    exchanged = swizzled(("row", 32), ("column", span), span=span, piece=8, period=64 // span)
    assert conflict_degree(compose(lanes, exchanged), Banks(), bits_per_element=16, vector=8) == 1
    assert expected * span == 64  # the period: rows that fill the banks once


@st.composite
def accesses(draw: st.DrawFn):
    width = draw(st.integers(3, 12))
    lanes = draw(st.integers(0, 6))
    images = draw(st.lists(st.integers(0, (1 << width) - 1), min_size=lanes, max_size=lanes))
    vector = draw(st.sampled_from([1, 2, 4, 8]))
    step = vector if draw(st.booleans()) else 1
    return from_bases({"lane": [(image // step * step,) for image in images]}, {"offset": 1 << width}), vector if step == vector else 1


@settings(max_examples=120, deadline=None)
@given(accesses(), st.sampled_from([8, 16, 32, 64, 4]), st.sampled_from([Banks(), Banks(count=64), Banks(count=16, width=8)]))
def test_the_rank_says_what_counting_says(access, bits_per_element: int, banks: Banks) -> None:
    value, vector = access
    by_rank = conflict_degree(value, banks, bits_per_element=bits_per_element, vector=vector)
    assert by_rank == counted_degree(value, banks, bits_per_element=bits_per_element, vector=vector)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([8, 16, 32]))
def test_a_layout_without_conflicts_for_two_random_accesses(data: st.DataObject, bits_per_element: int) -> None:
    """Any two accesses of whole vectors have one, whatever lanes they use: each meets every bank once."""
    rows, columns = data.draw(st.integers(2, 6)), data.draw(st.integers(4, 7))
    vector = data.draw(st.sampled_from([v for v in (1, 2, 4, 8) if v * bits_per_element in (32, 64, 128)]))
    low = vector.bit_length() - 1
    chosen = []
    for _ in range(2):
        order = data.draw(st.permutations([("row", 1 << n) for n in range(rows)] + [("column", 1 << n) for n in range(low, columns)]))
        lane = [(step if name == "row" else 0, step if name == "column" else 0) for name, step in order[:5]]
        register = [(0, 1 << n) for n in range(low)]
        value = from_bases({"register": register, "lane": lane}, {"row": 1 << rows, "column": 1 << columns})
        chosen.append(Access(layout=value, vector=vector))
    tile = [("row", 1 << rows), ("column", 1 << columns)]
    memory = conflict_free(tile, chosen, Banks(), bits_per_element=bits_per_element)
    assert sorted(flat(memory)) == list(range(1 << (rows + columns)))
    for access in chosen:
        both = compose(access.layout, memory)
        assert vector_width(both, vector).width == vector
        assert counted_degree(both, Banks(), bits_per_element=bits_per_element, vector=vector) == 1
    assert degrees(memory, chosen, Banks(), bits_per_element=bits_per_element) == (1, 1)


@pytest.mark.parametrize(("rows", "columns"), [(64, 64), (128, 64), (80, 64), (48, 128), (112, 96), (64, 176)])
def test_fragment_loads_and_row_stores_share_a_swizzle(rows: int, columns: int) -> None:
    tile = {"row": rows, "column": columns}
    box = columns & -columns
    store = rows_of_16_bytes(rows, columns, min(8, box // 8))
    load = mixed({"register": [(8, {"column": 1})], "lane": [(16, {"row": 1}), (2, {"column": 8})]}, tile)
    chosen = [Access(layout=store, vector=8), Access(layout=load, vector=8)]
    memory = conflict_free(list(tile.items()), chosen, Banks(), bits_per_element=16)
    assert sorted(flat(memory)) == list(range(rows * columns))
    assert degrees(memory, chosen, Banks(), bits_per_element=16) == (1, 1)
    for access in chosen:
        assert counted_degree(compose(access.layout, memory), Banks(), bits_per_element=16, vector=8) == 1


def test_the_swizzle_found_for_rows_and_columns_of_pieces_is_the_usual_one() -> None:
    """64 columns of 2 bytes: rows of 128 bytes; the search finds the exchange of 16-byte pieces by the row number."""
    tile = {"row": 32, "column": 64}
    chosen = [Access(layout=rows_of_16_bytes(32, 64, 8), vector=8), Access(layout=rows_of_16_bytes(32, 64, 1), vector=8)]
    memory = conflict_free(list(tile.items()), chosen, Banks(), bits_per_element=16)
    assert memory == swizzled(("row", 32), ("column", 64), span=64, piece=8)


def test_what_has_no_layout_without_conflicts_is_refused() -> None:
    """Four lanes' lines through one 2 x 2 square of words: rows, columns and the diagonal cannot all differ in two banks."""
    tile = [("row", 2), ("column", 2)]
    lines = [(0, 1), (1, 0), (1, 1)]
    chosen = [Access(layout=from_bases({"lane": [line]}, dict(tile))) for line in lines]
    with pytest.raises(CompileError, match="3 accesses") as caught:
        conflict_free(tile, chosen, Banks(count=2), bits_per_element=32)
    assert caught.value.code == "E325"
    memory = conflict_free(tile, chosen[1:], Banks(count=2), bits_per_element=32)
    assert degrees(memory, chosen, Banks(count=2), bits_per_element=32) == (2, 1, 1)
    far = mixed({"lane": [(3, {"row": 1})]}, {"row": 3, "column": 2})
    with pytest.raises(CompileError, match="power of two") as caught:
        conflict_free([("row", 3), ("column", 2)], [Access(layout=far)], Banks(), bits_per_element=32)
    assert caught.value.code == "E325"
    with pytest.raises(CompileError) as caught:
        Banks(count=3)
    assert caught.value.code == "E320"
