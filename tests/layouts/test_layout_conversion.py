"""Conversions between distributions, executed on arrays of registers."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from layout_strategies import arrays, bijections  # noqa: E402

from zellige.diagnostics.error import CompileError  # noqa: E402
from zellige.layouts import (  # noqa: E402
    Banks,
    Digit,
    Layout,
    Rename,
    Shuffle,
    ThroughMemory,
    compose,
    convert,
    counted_degree,
    distribute,
    divided_axis,
    from_bases,
    identity,
    layout,
    mixed,
    sliced,
    tiled,
)

FRAGMENT = from_bases({"register": [(0, 1), (8, 0)], "lane": [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]}, {"row": 16, "column": 8})
OPERAND = from_bases(
    {"register": [(0, 1), (8, 0), (0, 8)], "lane": [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]}, {"row": 16, "column": 16}
)


def held(value: Layout) -> np.ndarray:
    """The number of the element that each register of each lane holds: [register, lane, outer]."""
    total = np.zeros(tuple(value.input_sizes.values()), np.int64)
    for name, array in arrays(value).items():
        total = total * value.output_sizes[name] + array
    names = list(value.input_sizes)
    outer = [name for name in names if name not in ("register", "lane")]
    order = [names.index(name) for name in ("register", "lane", *outer)]
    return total.transpose(order).reshape(value.input_sizes["register"], value.input_sizes["lane"], -1)


def execute(conversion: object, source: Layout, target: Layout) -> np.ndarray:
    """What the registers hold after the conversion, -1 where nothing was written."""
    before = held(source)
    after = np.full_like(held(target), -1)
    if isinstance(conversion, Rename):
        return before[list(conversion.sources)]
    if isinstance(conversion, Shuffle):
        lanes = np.arange(before.shape[1])
        for step in conversion.rounds:
            offered = before[list(step.offered), lanes]
            assert (after[list(step.received), lanes] == -1).all()  # no register is filled twice
            after[list(step.received), lanes] = offered[list(step.sources)]
        for origin, copy in conversion.duplicates:
            after[copy] = after[origin]
        return after
    assert isinstance(conversion, ThroughMemory)
    store, load = compose(source, conversion.memory), compose(target, conversion.memory)
    memory = np.full(conversion.memory.output_sizes["offset"], -1)
    memory[held(store)] = before
    return memory[held(load)]


def check(source: Layout, target: Layout, bits_per_element: int = 16, most_rounds: int | None = None) -> object:
    conversion = convert(source, target, bits_per_element=bits_per_element, most_rounds=most_rounds)
    np.testing.assert_array_equal(execute(conversion, source, target), held(target))
    if isinstance(conversion, ThroughMemory):
        for value, vector, degree in (
            (source, conversion.store_vector, conversion.store_degree),
            (target, conversion.load_vector, conversion.load_degree),
        ):
            counted = counted_degree(compose(value, conversion.memory), Banks(), bits_per_element=bits_per_element, vector=vector)
            assert counted == degree
    return conversion


def test_nothing_moves_between_equal_layouts() -> None:
    assert check(FRAGMENT, FRAGMENT) == Rename(sources=(0, 1, 2, 3))


def test_an_accumulator_becomes_an_operand_by_renaming() -> None:
    """Two accumulators of 16 x 8 side by side are one 16-bit operand of 16 x 16: no shuffle."""
    accumulator = tiled(FRAGMENT, {"row": 16, "column": 16}, {})
    assert isinstance(check(accumulator, OPERAND), Rename)
    wide = tiled(FRAGMENT, {"row": 64, "column": 80}, {"warp": {"row": 4}})
    assert isinstance(check(wide, tiled(OPERAND, {"row": 64, "column": 80}, {"warp": {"row": 4}})), Rename)


def test_a_transpose_within_a_group_of_lanes_is_shuffled() -> None:
    rows = from_bases({"register": [(0, 1), (0, 2)], "lane": [(1, 0), (2, 0)]}, {"row": 4, "column": 4})
    columns = from_bases({"register": [(1, 0), (2, 0)], "lane": [(0, 1), (0, 2)]}, {"row": 4, "column": 4})
    found = check(rows, columns)
    assert isinstance(found, Shuffle)
    assert len(found.rounds) == 4
    assert sorted(step.mask for step in found.rounds) == [0, 1, 2, 3]  # butterflies; one round stays within the lanes


def test_whole_warps_exchange_through_memory_without_conflicts() -> None:
    source = tiled(FRAGMENT, {"row": 64, "column": 64}, {"warp": {"row": 4}})
    target = divided_axis(distribute({"row": 64, "column": 64}, 128, 8).layout, "lane", [("lane", 32), ("warp", 4)])
    found = check(source, target)
    assert isinstance(found, ThroughMemory)
    assert (found.load_vector, found.load_degree, found.store_degree) == (8, 1, 1)


@pytest.mark.parametrize(("rows", "columns"), [(64, 80), (64, 112), (128, 48), (64, 24), (64, 176)])
@pytest.mark.parametrize("bits_per_element", [16, 32])
def test_tiles_that_are_no_powers_of_two(rows: int, columns: int, bits_per_element: int) -> None:
    source = tiled(FRAGMENT, {"row": rows, "column": columns}, {"warp": {"row": 4}})
    spread = distribute({"row": rows, "column": columns}, 128, 16 * 8 // bits_per_element)
    if spread.is_masked:
        spread = distribute({"row": rows, "column": columns}, 128, 1)
    if spread.is_masked:
        pytest.skip("this tile is masked when spread over 128 lanes")
    target = divided_axis(spread.layout, "lane", [("lane", 32), ("warp", 4)])
    assert not isinstance(check(source, target, bits_per_element), Rename)
    assert isinstance(check(source, target, bits_per_element, most_rounds=0), ThroughMemory)


def test_lanes_take_the_copy_that_is_their_own() -> None:
    """A row vector held by every row of lanes becomes one held by every lane of a warp without crossing warps."""
    source = mixed({"register": [(2, {"column": 1})], "lane": [(4, {"column": 2}), (8, {})], "warp": [(4, {})]}, {"column": 8})
    assert check(source, source) == Rename(sources=(0, 1))
    target = mixed({"register": [(1, {})], "lane": [(8, {"column": 1}), (4, {})], "warp": [(4, {})]}, {"column": 8})
    assert isinstance(check(source, target), Shuffle)
    reduced = sliced(tiled(FRAGMENT, {"row": 64, "column": 16}, {"warp": {"row": 4}}), ["column"])
    assert isinstance(check(reduced, reduced), Rename)


def test_copies_in_registers_are_made_once() -> None:
    source = from_bases({"register": [(1,)], "lane": [(2,), (4,)]}, {"column": 8})
    target = from_bases({"register": [(2,), (0,)], "lane": [(1,), (4,)]}, {"column": 8})
    found = check(source, target)
    assert isinstance(found, Shuffle)
    assert (len(found.rounds), len(found.duplicates)) == (2, 2)


@settings(max_examples=60, deadline=None)
@given(bijections(), st.data())
def test_random_distributions_convert_into_each_other(source: Layout, data: st.DataObject) -> None:
    """The same bits given to registers and lanes in another way, copies added to both."""
    digits: dict[str, list[Digit]] = {"register": [], "lane": []}
    flat_digits = [digit for axis in source.inputs for digit in axis.digits]
    order = data.draw(st.permutations([d for d in flat_digits if d.extent == 2]))
    for digit in order:
        digits[data.draw(st.sampled_from(["register", "lane"]))].append(digit)
    for digit in flat_digits:
        if digit.extent != 2:
            digits["register"].append(digit)
    target = layout(digits, source.output_sizes)
    source_registers = layout({name: _odd_last(value) for name, value in _registers(source).items()}, source.output_sizes)
    lanes = max(source_registers.input_sizes["lane"], target.input_sizes["lane"])
    check(_with_lanes(source_registers, lanes), _with_lanes(target, lanes), data.draw(st.sampled_from([8, 16, 32])))


def _registers(value: Layout) -> dict[str, list[Digit]]:
    """The digits with the odd ones of lanes moved to registers."""
    lanes = list(value.axis("lane").digits)
    moved = [d for d in lanes if d.extent != 2]
    return {"register": [*value.axis("register").digits, *moved], "lane": [d for d in lanes if d.extent == 2]}


def _odd_last(digits: list[Digit]) -> list[Digit]:
    return sorted(digits, key=lambda d: d.extent != 2)


def _with_lanes(value: Layout, lanes: int) -> Layout:
    copies = lanes // value.input_sizes["lane"]
    zeros = (0,) * len(value.outputs)
    digits = {axis.name: list(axis.digits) for axis in value.inputs}
    digits["lane"].append(Digit(extent=copies, strides=zeros, flips=zeros))
    return layout(digits, value.output_sizes)


def test_different_tiles_do_not_convert() -> None:
    with pytest.raises(CompileError) as caught:
        convert(identity({"register": 4}), identity({"lane": 4}), bits_per_element=16)
    assert caught.value.code == "E320"
