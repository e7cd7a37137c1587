"""Tiles of any shape over any number of lanes, vectors, and fragments over groups of lanes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from layout_strategies import arrays, flat  # noqa: E402

from zellige.diagnostics.error import CompileError  # noqa: E402
from zellige.layouts import (  # noqa: E402
    compose,
    distribute,
    divide,
    from_bases,
    mixed,
    padded,
    row_major,
    sliced,
    tiled,
    vector_width,
)

FRAGMENT = from_bases({"register": [(0, 1), (8, 0)], "lane": [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]}, {"row": 16, "column": 8})


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 200), min_size=1, max_size=3), st.integers(1, 300), st.sampled_from([1, 2, 4, 8, 16]))
def test_every_tile_over_every_number_of_lanes(extents: list[int], lanes: int, vector: int) -> None:
    tile = {f"d{n}": extent for n, extent in enumerate(extents)}
    if np.prod(extents) > 1 << 17:
        return
    found = distribute(tile, lanes, vector)
    assert found.layout.input_sizes == {"register": found.registers, "lane": lanes}
    points = arrays(found.layout)
    inside = np.logical_and.reduce([points[name] < extent for name, extent in tile.items()])
    index = np.zeros(inside.shape, np.int64)
    for name, extent in tile.items():
        index = index * extent + points[name]
    counts = np.bincount(index[inside], minlength=int(np.prod(extents)))
    assert set(counts) == {found.copies}  # every element, equally often
    assert inside.all() != found.is_masked
    assert vector % found.vector == 0
    last = list(tile)[-1]
    grouped = points[last].reshape(found.registers // found.vector, found.vector, lanes)
    assert (np.diff(grouped, axis=1) == 1).all() and (grouped[:, 0] % found.vector == 0).all()
    assert vector_width(compose(found.layout, row_major(found.layout.output_sizes)), found.vector).width == found.vector


@pytest.mark.parametrize(
    ("tile", "lanes", "vector", "registers", "width", "copies"),
    [
        ((128, 64), 128, 8, 64, 8, 1),
        ((80, 112), 128, 8, 80, 8, 1),  # 14 vectors a row over 16 lanes: 10 accesses, where 70 registers would take 35
        ((24, 40), 96, 4, 10, 2, 1),  # as much work as 12 registers in vectors of 4
        ((1, 16), 128, 4, 1, 1, 8),
        ((1000,), 128, 4, 8, 4, 1),  # 1024 points, 24 masked
        ((7, 5), 128, 4, 1, 1, 2),  # 8 x 8 lanes, each twice
        ((176, 48), 256, 8, 36, 4, 1),
    ],
)
def test_what_a_distribution_costs(tile: tuple[int, ...], lanes: int, vector: int, registers: int, width: int, copies: int) -> None:
    found = distribute({f"d{n}": extent for n, extent in enumerate(tile)}, lanes, vector)
    assert (found.registers, found.vector, found.copies) == (registers, width, copies)


def test_neighbouring_lanes_hold_neighbouring_vectors() -> None:
    found = distribute({"row": 128, "column": 64}, 128, 8)
    assert found.layout.at(register=0, lane=1) == {"row": 0, "column": 8}
    assert found.layout.at(register=0, lane=8) == {"row": 1, "column": 0}
    assert found.layout.at(register=8, lane=0) == {"row": 16, "column": 0}


def test_a_reduction_divides_by_copies() -> None:
    """Sums over a row of a distributed tile, each lane its own elements, then the copies divided out."""
    found = distribute({"row": 4, "column": 6}, 128, 2)
    values = np.arange(24.0).reshape(4, 6)
    rows, columns = arrays(found.layout)["row"], arrays(found.layout)["column"]
    is_real = (rows < 4) & (columns < 6)
    sums = np.zeros(4)
    np.add.at(sums, rows[is_real], values[rows[is_real], columns[is_real]])
    np.testing.assert_allclose(sums / found.copies, values.sum(axis=1))


@pytest.mark.parametrize(
    ("rows", "columns", "across"), [(64, 80, (4, 1)), (64, 112, (2, 2)), (128, 176, (4, 2)), (32, 48, (2, 3)), (96, 24, (3, 1))]
)
@pytest.mark.parametrize("interleaved", [False, True])
def test_fragments_fill_a_tile_once(rows: int, columns: int, across: tuple[int, int], interleaved: bool) -> None:
    value = tiled(FRAGMENT, {"row": rows, "column": columns}, {"warp": {"row": across[0], "column": across[1]}}, is_interleaved=interleaved)
    assert value.input_sizes["lane"] == 32 and value.input_sizes["warp"] == across[0] * across[1]
    assert sorted(flat(value)) == list(range(rows * columns))
    repeats = divide(value, FRAGMENT)
    assert repeats.output_sizes == {"row": rows // 16, "column": columns // 8}
    if not interleaved:
        of_warp = arrays(value)["row"][:, :, 0]
        assert of_warp.max() == rows // across[0] - 1


def test_an_operand_without_a_dimension_is_held_by_all_its_groups() -> None:
    operand = renamed_rows()
    value = tiled(operand, {"row": 64}, {"warp": {"row": 2, "column": 2}})
    held = arrays(value)["row"]
    np.testing.assert_array_equal(held[..., 0], held[..., 2])
    np.testing.assert_array_equal(held[..., 1], held[..., 0] + 32)


def renamed_rows():
    return sliced(FRAGMENT, ["column"])


def test_vectors_come_from_the_layout_and_its_storage() -> None:
    assert vector_width(compose(FRAGMENT, row_major({"row": 16, "column": 8})), 8).width == 2
    columns_first = mixed({"register": [(4, {"row": 1})], "lane": [(8, {"column": 1})]}, {"row": 4, "column": 8})
    assert vector_width(compose(columns_first, row_major({"row": 4, "column": 8})), 8).width == 1
    outer = mixed({"register": [(2, {"row": 1}), (4, {"column": 1})], "lane": [(8, {"row": 2})]}, {"row": 16, "column": 4})
    found = vector_width(compose(outer, row_major({"row": 16, "column": 4})), 16)
    assert (found.width, found.digits) == (8, ((2, 4), (1, 2)))  # two whole rows, which follow each other
    found = vector_width(compose(outer, row_major({"row": 16, "column": 4})), 4)
    assert (found.width, found.digits) == (4, ((2, 4),))
    assert vector_width(compose(outer, padded({"row": 16, "column": 4}, 2)), 8).width == 2  # rows of 6 elements: every second is aligned
    assert vector_width(compose(outer, row_major({"row": 16, "column": 4})), 2).width == 2


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda: distribute({"row": 0}, 32), "E320"),
        (lambda: distribute({"row": 8}, 0), "E320"),
        (lambda: tiled(FRAGMENT, {"row": 40, "column": 8}, {}), "E323"),
        (lambda: tiled(FRAGMENT, {"row": 32}, {}), "E323"),
        (lambda: tiled(FRAGMENT, {"row": 32, "column": 8}, {"warp": {"row": 0}}), "E323"),
    ],
)
def test_wrong_requests_are_refused(build: object, code: str) -> None:
    with pytest.raises(CompileError) as caught:
        build()
    assert caught.value.code == code
