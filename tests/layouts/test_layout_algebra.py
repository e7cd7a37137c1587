"""Layouts map points as they say, and what is computed with them is what evaluating every point gives."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from layout_strategies import arrays, bijections, flat, memories, points, with_copies  # noqa: E402

from zellige.diagnostics.error import CompileError  # noqa: E402
from zellige.layouts import (  # noqa: E402
    Digit,
    Layout,
    bits,
    blocked,
    column_major,
    compose,
    copies,
    divide,
    divided_axis,
    free_digits,
    from_bases,
    identity,
    invert,
    is_same_map,
    joined,
    layout,
    mixed,
    padded,
    product,
    renamed,
    reordered,
    resized,
    restricted,
    right_inverse,
    row_major,
    sliced,
    strided_memory,
    swizzled,
)

ODD = [80, 112, 176, 24, 40, 48, 96, 7, 1, 64]
quick = settings(max_examples=60, deadline=None)


# ---- the values ----


def test_a_layout_written_from_the_manuals_table_is_evaluated_at_its_points() -> None:
    fragment = from_bases({"register": [(0, 1), (8, 0)], "lane": [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]}, {"row": 16, "column": 8})
    table = arrays(fragment)
    register, lane = np.meshgrid(np.arange(4), np.arange(32), indexing="ij")
    np.testing.assert_array_equal(table["row"], lane // 4 + 8 * (register // 2))
    np.testing.assert_array_equal(table["column"], 2 * (lane % 4) + register % 2)
    assert fragment.at(register=3, lane=5) == {"row": 9, "column": 3}


@pytest.mark.parametrize("rows", ODD)
@pytest.mark.parametrize("columns", ODD)
def test_memory_layouts_are_what_their_names_say(rows: int, columns: int) -> None:
    sizes = {"row": rows, "column": columns}
    i, j = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    np.testing.assert_array_equal(arrays(row_major(sizes))["offset"], i * columns + j)
    np.testing.assert_array_equal(arrays(column_major(sizes))["offset"], j * rows + i)
    np.testing.assert_array_equal(arrays(padded(sizes, 8))["offset"], i * (columns + 8) + j)
    np.testing.assert_array_equal(arrays(strided_memory(sizes, {"row": 3 * columns, "column": 3}))["offset"], 3 * (i * columns + j))


@pytest.mark.parametrize(("panel", "pair"), [(32, 1), (16, 2), (16, 4)])
@pytest.mark.parametrize(("depth", "width"), [(64, 80), (40, 112), (48, 176)])
def test_panels_of_columns_with_groups_of_rows(depth: int, width: int, panel: int, pair: int) -> None:
    if width % panel:
        panel = 16
    value = blocked({"k": depth, "n": width}, [("n", width // panel), ("k", depth // pair), ("n", panel), ("k", pair)])
    source = np.arange(depth * width).reshape(depth, width)
    packed = source.reshape(depth // pair, pair, width // panel, panel).transpose(2, 0, 3, 1).reshape(-1)
    np.testing.assert_array_equal(packed[arrays(value)["offset"]], source)
    assert is_same_map(compose(value, invert(value)), identity({"k": depth, "n": width}))


@pytest.mark.parametrize("span", [16, 32, 64])
@pytest.mark.parametrize(("rows", "columns"), [(8, 64), (80, 64), (48, 128), (24, 192), (176, 64)])
def test_swizzled_rows(rows: int, columns: int, span: int) -> None:
    """The exchange of 16-byte pieces of 2-byte elements in spans of 32, 64 and 128 bytes: bits of the piece xor bits of the row."""
    period = 64 // span
    value = swizzled(("row", rows), ("column", columns), span=span, piece=8, period=period)
    i, j = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    plain = (j // span) * rows * span + i * span + j % span
    piece_bits = span.bit_length() - 4
    expected = plain ^ ((plain >> 6 & (1 << piece_bits) - 1) << 3)  # in bytes: the bits from 4 on ^= the bits from 7 on
    np.testing.assert_array_equal(arrays(value)["offset"], expected)
    assert is_same_map(compose(value, invert(value)), identity({"row": rows, "column": columns}))
    assert sorted(flat(value)) == list(range(rows * columns))


def test_equal_maps_are_equal_values_however_they_were_written() -> None:
    bitwise = from_bases({"row": [(64,), (128,), (256,)], "column": [(1,), (2,), (4,), (8,), (16,), (32,)]}, {"offset": 512})
    assert bitwise == row_major({"row": 8, "column": 64})
    assert hash(bitwise) == hash(row_major({"row": 8, "column": 64}))
    whole = mixed({"lane": [(12, {})]}, {"row": 1})
    assert whole == mixed({"lane": [(3, {}), (1, {}), (4, {})]}, {"row": 1}) == mixed({"lane": [(2, {}), (6, {})]}, {"row": 1})
    assert padded({"row": 64, "column": 64}, 8) == mixed(
        {"row": [(2, {"offset": 72}), (32, {"offset": 144})], "column": [(4, {"offset": 1}), (16, {"offset": 4})]}, {"offset": 64 * 72}
    )
    assert bitwise != column_major({"row": 8, "column": 64})


@quick
@given(bijections(), st.data())
def test_cutting_digits_at_random_gives_the_same_value(value: Layout, data: st.DataObject) -> None:
    digits = {}
    for axis in value.inputs:
        pieces: list[Digit] = []
        for digit in axis.digits:
            if not any(digit.flips) and digit.extent % 2 == 0 and data.draw(st.booleans()):
                pieces.append(Digit(extent=2, strides=digit.strides, flips=digit.flips))
                digit = Digit(extent=digit.extent // 2, strides=tuple(2 * s for s in digit.strides), flips=digit.flips)
            pieces += [digit, Digit(extent=1, strides=(0, 0), flips=(0, 0))]
        digits[axis.name] = pieces
    assert layout(digits, value.output_sizes) == value


# ---- what is computed with them ----


@quick
@given(bijections())
def test_an_inverse_undoes_the_layout(value: Layout) -> None:
    assert sorted(flat(value)) == list(range(points(value)))
    back = invert(value)
    assert compose(value, back) == identity(value.input_sizes)
    np.testing.assert_array_equal(flat(back)[flat(value)], np.arange(points(value)))
    assert invert(back) == value


@quick
@given(st.data())
def test_composition_applies_one_after_the_other(data: st.DataObject) -> None:
    first = data.draw(bijections())
    second = data.draw(st.one_of(memories(first.output_sizes), st.just(row_major(first.output_sizes))))
    try:
        both = compose(first, second)
    except CompileError as error:
        if error.code != "E321":  # bits exchanged in a row, and rows with gaps: no layout expresses it
            raise
        assume(False)
    expected = second.apply(first.table())["offset"]
    np.testing.assert_array_equal(arrays(both)["offset"], np.broadcast_to(expected, arrays(both)["offset"].shape))


@quick
@given(bijections(), st.data())
def test_composition_with_a_swizzle_of_bits(value: Layout, data: st.DataObject) -> None:
    """Of linear layouts there is always a composition: the second one is random too, between the same bits."""
    sizes = {name: size & -size for name, size in value.output_sizes.items()}
    linear = all(value.output_sizes[name] == size for name, size in sizes.items())
    total = points(value).bit_length() - 1
    if not linear:
        return
    columns = [1 << n for n in range(total)]
    for _ in range(total):
        a, b = data.draw(st.permutations(range(total)))[:2] if total > 1 else (0, 0)
        columns[a] ^= columns[b] if a != b else 0
    split = sizes["row"].bit_length() - 1
    memory = from_bases({"row": [(c,) for c in columns[:split]], "column": [(c,) for c in columns[split:]]}, {"offset": 1 << total})
    both = compose(value, memory)
    expected = memory.apply(value.table())["offset"]
    np.testing.assert_array_equal(arrays(both)["offset"], np.broadcast_to(expected, arrays(both)["offset"].shape))
    assert compose(both, invert(memory)) == value


@quick
@given(with_copies())
def test_copies_are_counted_and_the_first_holder_is_found(value: Layout) -> None:
    counts = np.bincount(flat(value), minlength=points(value))
    assert set(counts) == {copies(value)}
    first = right_inverse(value)
    assert is_same_map(compose(first, value), identity(value.output_sizes))
    digits = [(list(value.input_sizes).index(d.axis), d) for d in free_digits(value)]
    assert copies(value) == np.prod([d.extent for _, d in digits], dtype=int)
    for holder in np.stack([array.reshape(-1) for array in arrays(first).values()], axis=1):
        assert all(holder[axis] // d.weight % d.extent == 0 for axis, d in digits)


@quick
@given(bijections(), bijections())
def test_a_product_repeats_the_inner_layout_and_division_finds_how(inner: Layout, outer: Layout) -> None:
    try:
        both = product(inner, outer)
    except CompileError as error:
        if error.code != "E321":  # exchanged bits of the outer layout above an odd factor of the inner one
            raise
        assume(False)
    low, high = arrays(inner), arrays(outer)
    sizes = inner.output_sizes
    for name, table in arrays(both).items():
        grid = table.reshape(*(n for pair in zip(outer.input_sizes.values(), inner.input_sizes.values()) for n in pair))
        expected = low[name][None, :, None, :] + sizes[name] * high[name][:, None, :, None]
        np.testing.assert_array_equal(grid, expected)
    assert divide(both, inner) == outer


def test_division_says_why_a_tile_does_not_fit() -> None:
    tile = identity({"row": 16, "column": 8})
    columns = [(8, {"column": 1})]
    for value, reason in [
        (identity({"row": 24, "column": 8}), "16 of the tile's row do not divide 24"),
        (identity({"row": 32}), "the tile has an input column"),
        (renamed(identity({"row": 16, "column": 8}), {}), ""),
        (mixed({"row": [(16, {"row": 2}), (2, {"row": 1})], "column": columns}, {"row": 32, "column": 8}), "beyond"),
        (mixed({"row": [(16, {"row": 1}), (2, {"row": 24})], "column": columns}, {"row": 48, "column": 8}), "no multiple of 16"),
    ]:
        if not reason:
            assert divide(value, tile).points == 1
            continue
        with pytest.raises(CompileError, match=reason) as caught:
            divide(value, tile)
        assert caught.value.code == "E323"


@quick
@given(bijections())
def test_a_slice_forgets_a_dimension(value: Layout) -> None:
    kept = sliced(value, ["column"])
    np.testing.assert_array_equal(arrays(kept)["row"], arrays(value)["row"])
    assert copies(kept) == value.output_sizes["column"]


@quick
@given(with_copies())
def test_inputs_are_joined_and_divided(value: Layout) -> None:
    size = value.input_sizes["lane"]
    both = joined(value, "thread", ["lane", "register"])
    np.testing.assert_array_equal(flat(both), flat(value))
    back = divided_axis(both, "thread", [("lane", size), ("register", value.input_sizes["register"])])
    assert reordered(back, ["register", "lane"], ["row", "column"]) == value


def test_a_restriction_is_the_first_points() -> None:
    value = restricted(row_major({"row": 48, "column": 80}), {"row": 16, "column": 40})
    np.testing.assert_array_equal(arrays(value)["offset"], arrays(row_major({"row": 48, "column": 80}))["offset"][:16, :40])
    assert resized(restricted(identity({"row": 8}), {"row": 4}), {"row": 4}) == identity({"row": 4})


# ---- what cannot be ----


def test_an_inverse_across_an_odd_factor_is_refused() -> None:
    digits = [Digit(extent=3, strides=(0,), flips=(0,)), *(Digit(extent=2, strides=(0,), flips=(flip,)) for flip in (3, 2))]
    exchanged = layout({"register": digits}, {"column": 4})
    with pytest.raises(CompileError, match="has the weight 6") as caught:
        right_inverse(exchanged)
    assert caught.value.code == "E321"


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda: from_bases({"lane": [(0, 2)]}, {"row": 1, "column": 2}), "E320"),
        (lambda: mixed({"lane": [(4, {"depth": 1})]}, {"row": 4}), "E320"),
        (lambda: identity({"row": 0}), "E320"),
        (lambda: identity([("row", 2), ("row", 2)]), "E320"),
        (lambda: mixed({"lane": [(4, {"row": -1})]}, {"row": 4}), "E320"),
        (lambda: identity({"row": 4}).apply({"row": 4}), "E320"),
        (lambda: identity({"row": 4}).apply({"column": 1}), "E320"),
        (lambda: identity({"row": 4}).axis("column"), "E320"),
        (lambda: sliced(identity({"row": 4}), ["column"]), "E320"),
        (lambda: compose(identity({"row": 4}), identity({"row": 8})), "E320"),
        (lambda: reordered(identity({"row": 4}), ["lane"], ["row"]), "E320"),
        (lambda: divided_axis(identity({"row": 4}), "row", [("a", 2), ("b", 3)]), "E320"),
        (lambda: blocked({"k": 8}, [("k", 2), ("k", 2)]), "E320"),
        (lambda: blocked({"k": 8}, [("m", 2), ("k", 8)]), "E320"),
        (lambda: strided_memory({"k": 8}, {}), "E320"),
        (lambda: restricted(identity({"row": 12}), {"row": 8}), "E321"),
        (lambda: invert(padded({"row": 8, "column": 8}, 1)), "E322"),
        (lambda: invert(mixed({"lane": [(8, {}), (4, {"row": 1})]}, {"row": 4})), "E322"),
        (lambda: right_inverse(mixed({"lane": [(3, {"row": 1, "column": 1})]}, {"row": 3, "column": 3})), "E322"),
        (lambda: right_inverse(from_bases({"lane": [(1,), (4,)]}, {"row": 8})), "E322"),
        (lambda: swizzled(("row", 12), ("column", 64), span=64, piece=8), "E324"),
        (lambda: swizzled(("row", 64), ("column", 80), span=64, piece=8), "E324"),
        (lambda: swizzled(("row", 64), ("column", 48), span=48, piece=8), "E324"),
    ],
)
def test_wrong_layouts_are_refused_with_a_code(build: object, code: str) -> None:
    with pytest.raises(CompileError) as caught:
        build()
    assert caught.value.code == code
    assert caught.value.hint


def test_exchanged_bits_beneath_gaps_are_refused() -> None:
    exchanged = from_bases({"lane": [(0, 1), (0, 2), (1, 1), (2, 2)]}, {"row": 4, "column": 4})
    with pytest.raises(CompileError, match="do not stay bits") as caught:
        compose(exchanged, mixed({"row": [(4, {"offset": 20})], "column": [(4, {"offset": 5})]}, {"offset": 80}))
    assert caught.value.code == "E321"


# ---- the linear algebra beneath ----


@quick
@given(st.lists(st.integers(0, 63), max_size=8))
def test_ranks_kernels_and_solutions_by_enumeration(columns: list[int]) -> None:
    images = [bits.combined(columns, mask) for mask in range(1 << len(columns))]
    assert len(set(images)) == 1 << bits.rank(columns)
    assert max(images) == bits.span(columns).largest
    kernel = bits.kernel(columns)
    assert images.count(0) == 1 << len(kernel)
    assert all(bits.combined(columns, mask) == 0 for mask in kernel)
    for target in range(64):
        mask = bits.solve(columns, target)
        assert (mask is not None) == (target in images)
        assert mask is None or bits.combined(columns, mask) == target
    assert bits.rank([columns[n] for n in bits.independent(columns)]) == bits.rank(columns) == len(bits.independent(columns))


@given(st.permutations(range(6)))
def test_inverse_of_a_permutation(order: list[int]) -> None:
    columns = [1 << n for n in order]
    inverse = bits.inverse(columns)
    assert inverse is not None
    assert [bits.combined(inverse, column) for column in columns] == [1 << n for n in range(6)]
    assert bits.inverse([1, 1]) is None
