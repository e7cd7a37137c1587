"""Instructions executed through their layouts, on operands as hardware holds them, against plain loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from zellige.diagnostics.error import CompileError
from zellige.dtypes import dtype
from zellige.layouts import mixed
from zellige_intrinsics import Copy, Function, Pointers, Product, Synchronisation, all_intrinsics, gather, intrinsic, run, scatter
from zellige_intrinsics.specification import ELEMENT
from zellige_intrinsics.waiting import FlagPair, InOrderGroups, Rendezvous, TransactionBarrier, WaitCounter

PRODUCTS = [value for value in all_intrinsics() if isinstance(value, Product)]
COPIES = [value for value in all_intrinsics() if isinstance(value, Copy)]
FUNCTIONS = [value for value in all_intrinsics() if isinstance(value, Function)]


def empty(operand, element) -> np.ndarray:
    """What holds an operand, before it is written."""
    inside = operand.layout
    sizes = inside.output_sizes if operand.holder == "memory" else inside.input_sizes
    return np.zeros(tuple(sizes.values()), element)


def small_integers(shape, element, seed: int) -> np.ndarray:
    """Values that every type holds and whose sums are exact."""
    is_unsigned = np.dtype(element).name.startswith("uint")  # NumPy does not count those of four bits
    low = 0 if is_unsigned else -3
    return np.random.default_rng(seed).integers(low, 4, shape).astype(np.float64).astype(element)


def looped(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """c + a b, element by element in Python's integers."""
    result = [[int(c[m, n]) for n in range(c.shape[1])] for m in range(c.shape[0])]
    left, right = a.astype(np.int64).tolist(), b.astype(np.int64).T.tolist()
    for m, row in enumerate(left):
        for n, column in enumerate(right):
            result[m][n] += sum(x * y for x, y in zip(row, column))
    return np.array(result)


@pytest.mark.parametrize("value", PRODUCTS, ids=lambda value: value.name)
def test_products(value: Product) -> None:
    variants = range(value.variants) if value.multiplications <= 16384 else range(1)
    for variant in variants:
        whole = {}
        held = {}
        for seed, operand in enumerate(value.operands):
            element = operand.element(variant if len(operand.types) > 1 else 0).numpy
            whole[operand.name] = small_integers(tuple(operand.sizes.values()), element, seed)
            start = empty(operand, element)
            held[operand.name] = start if operand.is_result else scatter(operand, whole[operand.name], start)
        got = gather(value.operand("d"), run(value, held)["d"])
        for name, order in (("a", ("m", "k")), ("b", ("k", "n")), ("c", ("m", "n"))):
            assert tuple(value.operand(name).sizes) == order
        if value.multiplications <= 65536:
            expected = looped(whole["a"], whole["b"], whole["c"])
        else:
            expected = whole["c"].astype(np.int64) + whole["a"].astype(np.int64) @ whole["b"].astype(np.int64)
        np.testing.assert_array_equal(got.astype(np.int64), expected)
        assert got.dtype == whole["c"].dtype


def test_a_product_from_registers_filled_by_hand() -> None:
    """Registers of each lane written from the manual's formulas, not by the layouts: a has one nonzero row, b counts."""
    value = intrinsic("mma.sync.aligned.m16n8k16.row.col")
    a, b = np.zeros((8, 32), np.float16), np.zeros((4, 32), np.float16)
    for lane in range(32):
        for i in range(8):
            row, k = lane // 4 + (8 if i in (2, 3, 6, 7) else 0), lane % 4 * 2 + i % 2 + (8 if i >= 4 else 0)
            a[i, lane] = k if row == 11 else 0
        for i in range(4):
            k, column = lane % 4 * 2 + i % 2 + (8 if i >= 2 else 0), lane // 4
            b[i, lane] = 10 * column + (k == 5)
    c = np.full((4, 32), 1, np.float32)
    d = run(value, {"a": a, "b": b, "c": c, "d": np.zeros_like(c)})["d"]
    for lane in range(32):
        for i in range(4):
            row, column = lane // 4 + (8 if i >= 2 else 0), lane % 4 * 2 + i % 2
            assert d[i, lane] == 1 + (sum(k * 10 * column for k in range(16)) + 5 if row == 11 else 0)


def addresses_of(operand, shape_seed: int) -> np.ndarray:
    """An address for each lane, pieces apart and in disorder; lanes that count as copies give the same."""
    layout = operand.layout
    elements = layout.input_sizes[ELEMENT]
    first = layout.apply({**dict.fromkeys(layout.input_sizes, 0), "lane": np.arange(layout.input_sizes["lane"])})
    keys = list(zip(*(first[name].tolist() for name in first)))
    distinct = sorted(set(keys))
    places = np.random.default_rng(shape_seed).permutation(len(distinct)) * elements
    return np.array([places[distinct.index(key)] for key in keys])


@pytest.mark.parametrize("value", COPIES, ids=lambda value: value.name)
def test_copies_move_every_element_to_its_place(value: Copy) -> None:
    held = {}
    source, destination = value.operand("source"), value.operand("destination")
    shape = tuple(source.sizes.values())
    element = np.int64  # numbers of elements, whatever the element type
    index = np.arange(int(np.prod(shape))).reshape(shape)
    for operand in value.operands:
        if operand.holder == "pointer":
            start = Pointers(memory=np.zeros(int(np.prod(shape)), element), addresses=addresses_of(operand, 7))
        else:
            start = empty(operand, element)
        held[operand.name] = scatter(operand, index, start) if operand is source else start
    order = [list(source.sizes).index(name) for name in destination.sizes]
    result = gather(destination, run(value, held)["destination"])
    np.testing.assert_array_equal(result, index.transpose(order))


def test_a_transposed_matrix_load_by_hand() -> None:
    value = intrinsic("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16")
    memory = np.arange(8 * 24)
    addresses = np.array([lane % 8 * 24 for lane in range(32)])  # rows 24 elements apart
    loaded = run(value, {"source": Pointers(memory=memory, addresses=addresses), "destination": np.zeros((2, 32), np.int64)})["destination"]
    for lane in range(32):
        for i in range(2):
            row, column = lane % 4 * 2 + i, lane // 4
            assert loaded[i, lane] == row * 24 + column


@pytest.mark.parametrize("value", FUNCTIONS, ids=lambda value: value.name)
def test_functions(value: Function) -> None:
    x = np.linspace(0.5, 3.0, value.operand("x").layout.points, dtype=np.float32)
    shape = tuple(value.operand("x").layout.input_sizes.values())
    held = {operand.name: np.full(shape, 2.0, np.float32) for operand in value.operands}
    held["x"] = x.reshape(shape)
    got = run(value, held)["result"].reshape(-1)
    exact = {
        "exp2": lambda v: 2.0 ** v.astype(np.float64),
        "rsqrt": lambda v: v.astype(np.float64) ** -0.5,
        "reciprocal": lambda v: 1 / v.astype(np.float64),
        "tanh": lambda v: np.tanh(v.astype(np.float64)),
        "scalef": lambda v: v.astype(np.float64) * 4,
    }[value.function](x)
    np.testing.assert_allclose(got, exact, rtol=max(value.error if value.error_unit == "relative" else 2.0**-22, 2.0**-22))
    assert 0 <= value.error <= 1


def test_every_entry_is_executed_by_a_test() -> None:
    """Products, copies and functions by their meaning above; synchronisation by its model (test_intrinsic_lookup.py), fences by none."""
    entries = list(all_intrinsics())
    waits = [value for value in entries if isinstance(value, Synchronisation)]
    assert {value.name for value in (*PRODUCTS, *COPIES, *FUNCTIONS, *waits)} == {value.name for value in entries}
    assert len(PRODUCTS) + len(COPIES) + len(FUNCTIONS) + len(waits) == len(entries) >= 153
    assert all(value.meaning is not None for value in (*PRODUCTS, *COPIES, *FUNCTIONS))
    driven = (Path(__file__).parent / "test_intrinsic_lookup.py").read_text(encoding="utf-8")
    assert {value.model for value in waits} - {None} == {TransactionBarrier, InOrderGroups, WaitCounter, FlagPair, Rendezvous}
    assert all(f"{value.model.__name__}(" in driven for value in waits if value.model is not None)
    assert {value.mechanism for value in waits if value.model is None} == {"fence"}


# ---- wrong specifications and uses ----


def changed(value, **fields):
    from dataclasses import fields as fields_of

    return type(value)(**{**{f.name: getattr(value, f.name) for f in fields_of(value)}, **fields})


def test_specifications_that_contradict_themselves_are_refused() -> None:
    value = intrinsic("v_mfma_f32_16x16x16_f16")
    a = value.operand("a")
    too_small = changed(a, layout=mixed({"register": [(4, {"k": 1})], "lane": [(16, {"m": 1}), (4, {})]}, {"m": 16, "k": 16}))
    two_types = changed(a, types=("float16", "bfloat16", "float16"))
    for fields, reason in [
        ({"sources": ()}, "no source"),
        ({"m": 32}, "has 16 along m"),
        ({"lanes": 32}, "held by 64 lanes"),
        ({"operands": (too_small, *value.operands[1:])}, "not every element of a"),
        ({"operands": (a, a, *value.operands[1:])}, "one name"),
        ({"operands": (two_types, *value.operands[1:])}, "different numbers of element types"),
    ]:
        with pytest.raises(CompileError, match=reason) as caught:
            changed(value, **fields)
        assert caught.value.code == "E331"
    with pytest.raises(CompileError, match="has a layout") as caught:
        changed(a, layout=None)
    assert caught.value.code == "E331"
    move = intrinsic("load_data 16x16")
    shared = changed(move.operand("source"), layout=mixed({"m": [(16, {"offset": 1})], "k": [(16, {})]}, {"offset": 16}))
    with pytest.raises(CompileError, match="share a place"):
        changed(move, operands=(shared, move.operand("destination")))
    with pytest.raises(CompileError, match="the destination"):
        changed(move, operands=(move.operand("source"), intrinsic("load_data 64x64").operand("destination")))


def test_executing_without_operands_or_meaning_is_refused() -> None:
    value = intrinsic("v_mfma_f32_16x16x16_f16")
    with pytest.raises(CompileError) as caught:
        run(value, {})
    assert caught.value.code == "E330"
    with pytest.raises(CompileError) as caught:
        run(intrinsic("s_barrier"), {})
    assert caught.value.code == "E331"
    copied = intrinsic("v_wmma_f32_16x16x16_f16 (gfx11)").operand("a")
    with pytest.raises(CompileError, match="copies of one element differ") as caught:
        gather(copied, np.arange(16 * 32).reshape(16, 32))
    assert caught.value.code == "E332"
    assert dtype("float16") == copied.element()
