"""Layouts from functions of a kernel's author, and how reductions run over distributed tiles."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from layout_strategies import arrays, bijections, memories  # noqa: E402

from zellige.diagnostics.error import CompileError  # noqa: E402
from zellige.layout import Fragment, Layout as WrittenLayout, make_fully_replicated_layout_fragment, make_linear_layout  # noqa: E402
from zellige.layouts import (  # noqa: E402
    Layout,
    distribute,
    divided_axis,
    fitted,
    from_bases,
    invert,
    padded,
    reduction,
    row_major,
    swizzled,
    tiled,
)

FRAGMENT = from_bases({"register": [(0, 1), (8, 0)], "lane": [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]}, {"row": 16, "column": 8})


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_a_layout_is_found_again_from_its_points(data: st.DataObject) -> None:
    value = data.draw(st.one_of(bijections(), memories({"row": 12, "column": 8})))
    assert fitted(value.input_sizes, value.output_sizes, arrays(value)) == value


@pytest.mark.parametrize(
    "value",
    [
        swizzled(("row", 80), ("column", 128), span=64, piece=8),
        swizzled(("row", 48), ("column", 112), span=16, piece=8),
        padded({"row": 24, "column": 40}, 8),
        row_major({"row": 7, "column": 9}),
        tiled(FRAGMENT, {"row": 64, "column": 80}, {"warp": {"row": 4}}),
        invert(tiled(FRAGMENT, {"row": 16, "column": 80}, {"warp": {"column": 2}})),  # a warp's 40 columns: a bit above an odd digit
    ],
)
def test_usual_layouts_are_found_again(value: Layout) -> None:
    assert fitted(value.input_sizes, value.output_sizes, arrays(value)) == value


def test_functions_of_authors() -> None:
    exchanged = WrittenLayout((8, 64), lambda i, j: [i, (j // 8 ^ i) * 8 + j % 8])
    assert exchanged.as_map(["row", "column"]) == swizzled(("row", 8), ("column", 64), span=64, piece=8)
    assert make_linear_layout(24, 40).as_map(["row", "column"]) == row_major({"row": 24, "column": 40})
    written = Fragment((16, 8), lambda i, j: (i % 8 * 4 + j // 2, j % 2 + i // 8 * 2))
    assert written.as_map(["row", "column"]) == FRAGMENT
    copied = make_fully_replicated_layout_fragment(type("Tile", (), {"shape": (4, 2)})(), 32).as_map(["row", "column"])
    assert copied.input_sizes == {"register": 8, "lane": 32}
    assert copied.at(register=5, lane=17) == {"row": 2, "column": 1}


def test_what_is_no_layout_is_refused() -> None:
    for function, code in [
        (lambda i: (i * i) % 8, "E321"),
        (lambda i: i + 1, "E321"),
        (lambda i: i * 3 % 8 if i < 4 else i, "E321"),
    ]:
        with pytest.raises(CompileError) as caught:
            WrittenLayout((8,), function).as_map(["row"])
        assert caught.value.code == code
    with pytest.raises(CompileError) as caught:
        fitted({"row": 4}, {"offset": 4}, {"offset": np.arange(5)})
    assert caught.value.code == "E320"
    with pytest.raises(CompileError) as caught:
        Fragment((8,), lambda i: (2 * i, 0)).as_map(["row"])
    assert caught.value.code == "E322"
    with pytest.raises(ValueError, match="several numbers"):
        Fragment((8,), lambda i: (i, (0, 0))).as_map(["row"])


# ---- reductions ----


def reduced(value: Layout, dimensions: list[str]) -> None:
    """Carry a sum out step by step on registers, and compare with NumPy's."""
    found = reduction(value, dimensions)
    sizes = value.output_sizes
    tile = np.random.default_rng(0).integers(0, 100, tuple(sizes.values()))
    held = tile[tuple(arrays(value)[name] for name in sizes)]
    axes = list(value.input_sizes)
    for step in found.steps:
        position = axes.index(step.axis)
        size = held.shape[position]
        numbers = np.arange(size)
        digit = numbers // step.weight % step.extent
        base = numbers - digit * step.weight
        held = sum(np.take(held, base + other * step.weight, axis=position) for other in range(step.extent))
    expected = tile.sum(axis=tuple(list(sizes).index(name) for name in dimensions))
    where = tuple(arrays(found.result)[d.name] for d in found.result.outputs)
    np.testing.assert_array_equal(held, expected[where] if where else np.full(held.shape, expected))


@pytest.mark.parametrize("dimensions", [["row"], ["column"], ["row", "column"]])
@pytest.mark.parametrize(
    "value",
    [
        FRAGMENT,
        tiled(FRAGMENT, {"row": 64, "column": 80}, {"warp": {"row": 2, "column": 2}}),
        divided_axis(distribute({"row": 64, "column": 48}, 128, 4).layout, "lane", [("lane", 32), ("warp", 4)]),
        distribute({"row": 4, "column": 8}, 128, 2).layout,  # copies: each element must count once
        distribute({"row": 24, "column": 40}, 96, 4).layout,
    ],
)
def test_sums_step_by_step(value: Layout, dimensions: list[str]) -> None:
    reduced(value, dimensions)


def test_steps_of_an_accumulators_row_are_one_register_and_two_butterflies() -> None:
    found = reduction(FRAGMENT, ["column"])
    assert [(step.axis, step.weight, step.extent) for step in found.steps] == [("register", 1, 2), ("lane", 1, 2), ("lane", 2, 2)]
    assert [step.weight for step in found.within("lane")] == [1, 2]


def test_elements_across_several_digits_are_refused() -> None:
    crossed = from_bases({"register": [(1, 1)], "lane": [(1, 0)]}, {"row": 2, "column": 2})
    with pytest.raises(CompileError) as caught:
        reduction(crossed, ["column"])
    assert caught.value.code == "E321"
