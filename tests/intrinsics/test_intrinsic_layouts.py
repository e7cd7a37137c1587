"""Layouts of instructions against formulas of the manuals, written down here a second time, and against the rules of swizzles."""

from __future__ import annotations

import numpy as np
import pytest

from zellige.diagnostics.error import CompileError
from zellige.layouts import Layout, Rename, compose, convert, copies, invert, is_same_map, reordered, right_inverse, row_major, tiled
from zellige_intrinsics import FAMILIES, Product, all_intrinsics, family, intrinsic
from zellige_intrinsics.nvidia import warpgroup_product
from zellige_intrinsics.nvidia_fragments import SharedDescriptor, k_major, row_major_of_128, warpgroup_left


def table(layout: Layout) -> dict[str, np.ndarray]:
    shape = tuple(layout.input_sizes.values())
    return {name: np.broadcast_to(array, shape) for name, array in layout.table().items()}


def check(layout: Layout, formula, *names: str) -> None:
    """The layout's (register, lane, ...) -> indices are the formula's, for every point."""
    inputs = np.meshgrid(*(np.arange(size) for size in layout.input_sizes.values()), indexing="ij")
    got = table(layout)
    for name, expected in zip(names, formula(*inputs)):
        np.testing.assert_array_equal(got[name], expected, err_msg=name)


WARP = {
    "mma.sync.aligned.m16n8k16.row.col": {
        "a": lambda i, lane: (lane // 4 + 8 * (i // 2 % 2), lane % 4 * 2 + i % 2 + 8 * (i // 4)),
        "b": lambda i, lane: (lane % 4 * 2 + i % 2 + 8 * (i // 2), lane // 4 + 0 * i),
        "d": lambda i, lane: (lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2),
    },
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32": {
        "a": lambda i, lane: (lane // 4 + 8 * (i % 2), lane % 4 + 4 * (i // 2)),
        "b": lambda i, lane: (lane % 4 + 4 * i, lane // 4 + 0 * i),
        "d": lambda i, lane: (lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2),
    },
    "mma.sync.aligned.m16n8k32.row.col.s32": {
        "a": lambda i, lane: (lane // 4 + 8 * (i // 4 % 2), lane % 4 * 4 + i % 4 + 16 * (i // 8)),
        "b": lambda i, lane: (lane % 4 * 4 + i % 4 + 16 * (i // 4), lane // 4 + 0 * i),
        "d": lambda i, lane: (lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2),
    },
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64": {
        "a": lambda i, lane: (lane // 4 + 0 * i, lane % 4 + 0 * i),
        "b": lambda i, lane: (lane % 4 + 0 * i, lane // 4 + 0 * i),
        "d": lambda i, lane: (lane // 4 + 0 * i, lane % 4 * 2 + i),
    },
    "v_mfma_f32_16x16x16_f16": {
        "a": lambda i, lane: (lane % 16 + 0 * i, 4 * (lane // 16) + i),
        "b": lambda i, lane: (4 * (lane // 16) + i, lane % 16 + 0 * i),
        "d": lambda r, lane: (4 * (lane // 16) + r, lane % 16 + 0 * r),
    },
    "v_mfma_f32_32x32x8_f16": {
        "a": lambda i, lane: (lane % 32 + 0 * i, 4 * (lane // 32) + i),
        "b": lambda i, lane: (4 * (lane // 32) + i, lane % 32 + 0 * i),
        "d": lambda r, lane: (8 * (r // 4) + 4 * (lane // 32) + r % 4, lane % 32 + 0 * r),
    },
    "v_mfma_f32_16x16x32_fp8": {
        "a": lambda i, lane: (lane % 16 + 0 * i, 8 * (lane // 16) + i),
        "d": lambda r, lane: (4 * (lane // 16) + r, lane % 16 + 0 * r),
    },
    "v_mfma_f32_32x32x16_f16": {
        "a": lambda i, lane: (lane % 32 + 0 * i, 8 * (lane // 32) + i),
        "d": lambda r, lane: (8 * (r // 4) + 4 * (lane // 32) + r % 4, lane % 32 + 0 * r),
    },
    "v_wmma_f32_16x16x16_f16 (gfx12)": {
        "a": lambda i, lane: (lane % 16 + 0 * i, 8 * (i // 4) + 4 * (lane // 16) + i % 4),
        "b": lambda i, lane: (8 * (i // 4) + 4 * (lane // 16) + i % 4, lane % 16 + 0 * i),
        "d": lambda r, lane: (8 * (lane // 16) + r, lane % 16 + 0 * r),
    },
    "v_wmma_f32_16x16x16_f16 (gfx11)": {
        "a": lambda i, lane: (lane % 16 + 0 * i, i + 0 * lane),
        "d": lambda r, lane: (2 * r + lane // 16, lane % 16 + 0 * r),
    },
}


def fragments_of(each: int) -> dict:
    """PTX ISA, "Matrix Fragments for mma": ``each`` neighbours along k in one 32-bit register; groupID is lane / 4, threadID lane % 4."""
    return {
        "a": lambda i, lane: (lane // 4 + 8 * (i // each % 2), lane % 4 * each + i % each + 4 * each * (i // (2 * each))),
        "b": lambda i, lane: (lane % 4 * each + i % each + 4 * each * (i // each), lane // 4 + 0 * i),
        "d": lambda i, lane: (lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2),
    }


def matrix_core_of(extent: int, each: int) -> dict:
    """The table of amd.md: row l % extent, k from each (l / extent) on; results in fours of rows."""
    return {
        "a": lambda i, lane: (lane % extent + 0 * i, each * (lane // extent) + i),
        "b": lambda i, lane: (each * (lane // extent) + i, lane % extent + 0 * i),
        "d": lambda r, lane: (256 // extent * (r // 4) + 4 * (lane // extent) + r % 4, lane % extent + 0 * r),
    }


WARP |= {
    "mma.sync.aligned.m16n8k64.row.col.s32": fragments_of(8),
    "mma.sync.aligned.m16n8k32.row.col.f32.f8": fragments_of(4),
    "mma.sync.aligned.m16n8k16.row.col.s32": fragments_of(4),
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32": fragments_of(2),
    "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32": fragments_of(2),
    "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32": fragments_of(1),
    "v_mfma_f32_32x32x16_fp8": matrix_core_of(32, 8),
    "v_mfma_i32_16x16x32_i8": matrix_core_of(16, 8),
    "v_mfma_i32_32x32x16_i8": matrix_core_of(32, 8),
    "v_mfma_f32_16x16x32_f16": matrix_core_of(16, 8),
}
SIDES = {"a": ("m", "k"), "b": ("k", "n"), "d": ("m", "n")}


@pytest.mark.parametrize(("name", "operand"), [(name, operand) for name, formulas in WARP.items() for operand in formulas])
def test_fragments_are_those_of_the_manuals(name: str, operand: str) -> None:
    check(intrinsic(name).operand(operand).layout, WARP[name][operand], *SIDES[operand])


WARPGROUP = [value for value in all_intrinsics() if isinstance(value, Product) and value.scope == "warpgroup"]
THREAD = [value for value in all_intrinsics() if isinstance(value, Product) and value.scope == "thread"]
TILES = [value for value in all_intrinsics() if isinstance(value, Product) and value.scope == "unit"]


@pytest.mark.parametrize("value", WARPGROUP, ids=lambda value: value.name)
def test_fragments_of_a_warpgroup_are_those_of_its_warps(value: Product) -> None:
    """Each warp has 16 rows, held as by a product of one warp; B and A without registers follow the rule of their mode (below)."""
    check(
        value.operand("d").layout,
        lambda r, lane, warp: (16 * warp + lane // 4 + 8 * (r // 2 % 2), 8 * (r // 4) + 2 * (lane % 4) + r % 2), "m", "n",
    )  # fmt: skip
    a, each = value.operand("a"), 32 // (8 * value.operand("b").element().itemsize)
    if a.holder == "register":
        one = fragments_of(each)["a"]
        check(a.layout, lambda i, lane, warp: (16 * warp + one(i, lane)[0], one(i, lane)[1] + 0 * warp), "m", "k")
    else:
        row, column = np.meshgrid(np.arange(64), np.arange(value.k), indexing="ij")
        width = 8 * a.element().itemsize
        expected = swizzled_bytes(row * 128 + column * width // 8, 128) * 8 // width
        np.testing.assert_array_equal(table(a.layout)["offset"], expected)


@pytest.mark.parametrize("value", THREAD, ids=lambda value: value.name)
def test_registers_of_one_thread_count_elements(value: Product) -> None:
    """Groups of k stand together in b; a vector's columns follow each other, small tiles are row-major (b by columns). A register of
    several rows has a group of every column in each row of b."""
    check(value.operand("a").layout, lambda i: (i // value.k, i % value.k), "m", "k")
    group = 64 // value.n // value.operand("b").element().itemsize if value.operand("b").space == "tile" else value.k
    check(value.operand("b").layout, lambda i: (i % group + i // (group * value.n) * group, i // group % value.n), "k", "n")
    check(value.operand("d").layout, lambda i: (i // value.n, i % value.n), "m", "n")


def test_every_product_has_a_formula_here() -> None:
    """Products of lanes and of threads above; those of units that read memory in the tests of their operands."""
    over_lanes = {value.name for value in all_intrinsics() if isinstance(value, Product) and value.scope == "warp"}
    assert over_lanes == set(WARP)
    assert len(WARP) + len(WARPGROUP) + len(THREAD) + len(TILES) == sum(isinstance(value, Product) for value in all_intrinsics())
    assert {value.name for value in TILES} == {"mmad 16x16x16 float16", "mmad 16x16x32 int8", "nc_matmul 128x512x128"}


@pytest.mark.parametrize("columns", [8, 80, 112, 176, 256])
def test_the_accumulator_of_a_warpgroup(columns: int) -> None:
    layout = warpgroup_product(columns).operand("d").layout
    check(layout, lambda r, lane, warp: (16 * warp + lane // 4 + 8 * (r // 2 % 2), 8 * (r // 4) + 2 * (lane % 4) + r % 2), "m", "n")


def test_an_accumulator_of_a_warpgroup_becomes_its_operand_without_a_shuffle() -> None:
    accumulator = reordered(warpgroup_product(64).operand("d").layout, ["register", "lane", "warp"], ["m", "n"])
    operand = tiled(warpgroup_left(16, 2), {"m": 64, "k": 64}, {})
    as_operand = Layout(inputs=operand.inputs, outputs=accumulator.outputs)
    assert convert(accumulator, as_operand, bits_per_element=16) == Rename(sources=tuple(range(32)))


@pytest.mark.parametrize("value", list(all_intrinsics()), ids=lambda value: value.name)
def test_every_layout_holds_every_element_equally_often(value) -> None:
    """By counting, apart from the check that each specification makes of itself by algebra."""
    for operand in value.operands:
        if operand.layout is None:
            continue
        points = table(operand.layout)
        whole = np.zeros(next(iter(points.values())).shape, np.int64)
        for dimension in operand.layout.outputs:
            whole = whole * dimension.size + points[dimension.name]
        counts = np.unique(whole, return_counts=True)[1]
        if operand.holder == "memory":
            assert set(counts) == {1}
        else:
            assert set(counts) == {copies(operand.layout)}
            assert len(counts) == np.prod([dimension.size for dimension in operand.layout.outputs])
            assert is_same_map(compose(right_inverse(operand.layout), operand.layout), row_major_free(operand.layout))


def row_major_free(layout: Layout) -> Layout:
    from zellige.layouts import identity

    return identity(layout.output_sizes)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrix_loads(count: int, transposed: bool) -> None:
    value = intrinsic(f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16")
    along, across = ("row", "column") if transposed else ("column", "row")
    check(
        value.operand("destination").layout,
        lambda i, lane: (i // 2 + 0 * lane, lane % 4 * 2 + i % 2, lane // 4 + 0 * i),
        "matrix",
        along,
        across,
    )
    check(
        value.operand("source").layout,
        lambda element, lane: (lane // 8 % count + 0 * element, lane % 8 + 0 * element, element + 0 * lane),
        "matrix",
        "row",
        "column",
    )


# ---- operands in shared memory ----


def swizzled_bytes(address: np.ndarray, span: int) -> np.ndarray:
    """The rule of the modes: address bits from 4 on are exchanged by those from 7 on, as many as the span has pieces of 16 bytes."""
    places = {0: 0, 32: 1, 64: 3, 128: 7}[span]
    return address ^ ((address >> 7 & places) << 4)


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("swizzle", [32, 64, 128])
@pytest.mark.parametrize("rows", [8, 64, 80, 112, 176])
def test_k_major_operands_follow_the_rule_of_their_mode(rows: int, swizzle: int, bits: int) -> None:
    depth = swizzle * 8 // bits
    found = k_major(("n", rows), depth, bits, swizzle)
    row, column = np.meshgrid(np.arange(rows), np.arange(depth), indexing="ij")
    expected = swizzled_bytes(row * swizzle + column * bits // 8, swizzle) * 8 // bits
    np.testing.assert_array_equal(table(found.layout)["offset"], expected)
    assert found.stride == 8 * swizzle
    assert sorted(expected.reshape(-1)) == list(range(rows * depth))


@pytest.mark.parametrize(("rows", "depth", "bits"), [(64, 16, 16), (64, 32, 8), (80, 64, 16)])
def test_operands_without_a_swizzle_are_core_matrices(rows: int, depth: int, bits: int) -> None:
    """Eight rows of 16 bytes are dense; the leading offset goes to the next 16 bytes of k, the stride offset to the next eight rows."""
    found = k_major(("m", rows), depth, bits, 0)
    row, column = np.meshgrid(np.arange(rows), np.arange(depth), indexing="ij")
    piece = 128 // bits
    expected = row % 8 * 16 + row // 8 * found.stride + column // piece * found.leading + column % piece * bits // 8
    np.testing.assert_array_equal(table(found.layout)["offset"] * bits // 8, expected)


@pytest.mark.parametrize(("rows", "stored"), [(64, 64), (128, 64), (256, 32), (192, 64)])
def test_operands_that_are_contiguous_along_their_rows(rows: int, stored: int) -> None:
    """((T,8,m),(8,k)):((1,T,LBO),(8T,SBO)) with T = 8, then the exchange of 16-byte pieces."""
    found = row_major_of_128(("n", rows), stored, stored)
    row, column = np.meshgrid(np.arange(rows), np.arange(stored), indexing="ij")
    plain = 2 * (row % 64 + row // 64 * (found.leading // 2) + column % 8 * 64 + column // 8 * (found.stride // 2))
    np.testing.assert_array_equal(2 * table(found.layout)["offset"], swizzled_bytes(plain, 128))
    assert (found.leading, found.stride, found.step) == (stored * 128, 1024, 128 * stored)


def test_the_instruction_reads_a_slice_of_what_the_tile_copy_wrote() -> None:
    """64 columns of k written with the 128-byte exchange; instruction s reads k from 16 s at the address plus s steps."""
    tile = table(k_major(("n", 80), 64, 16, 128).layout)["offset"]
    part = k_major(("n", 80), 16, 16, 128)
    inside = table(part.layout)["offset"]
    row, column = np.meshgrid(np.arange(80), np.arange(16), indexing="ij")
    for step in range(4):
        address = step * part.step // 2
        plain = row * 64 + column + address
        expected = swizzled_bytes(2 * plain, 128) // 2  # hardware exchanges bits of the sum
        np.testing.assert_array_equal(tile[:, 16 * step : 16 * step + 16], expected)
    np.testing.assert_array_equal(inside, tile[:, :16])


def test_descriptor_words() -> None:
    word = SharedDescriptor(address=0x12340, leading=16, stride=1024, swizzle=128, base_offset=0).encode()
    assert word & 0x3FFF == 0x1234
    assert word >> 16 & 0x3FFF == 1
    assert word >> 32 & 0x3FFF == 64
    assert word >> 49 & 7 == 0
    assert word >> 62 == 1
    assert SharedDescriptor(address=0, leading=0, stride=0, swizzle=64).encode() >> 62 == 2
    assert SharedDescriptor(address=0, leading=0, stride=0, swizzle=32, base_offset=5).encode() >> 49 == 5 | 3 << 13
    for wrong in ({"address": 8}, {"address": 1 << 18}, {"stride": 24}, {"base_offset": 8}):
        with pytest.raises(CompileError) as caught:
            SharedDescriptor(**{"address": 0, "leading": 16, "stride": 1024, "swizzle": 128, **wrong}).encode()
        assert caught.value.code == "E331"


def test_a_warpgroup_product_takes_columns_in_steps_of_eight() -> None:
    with pytest.raises(CompileError) as caught:
        warpgroup_product(12)
    assert caught.value.code == "E331"


def test_blocks_of_the_cube_unit() -> None:
    value = intrinsic("load_data 64x64")
    m, k = np.meshgrid(np.arange(64), np.arange(64), indexing="ij")
    np.testing.assert_array_equal(table(value.operand("source").layout)["offset"], k // 16 * 1024 + m * 16 + k % 16)
    expected = m // 16 * 1024 + k // 16 * 256 + m % 16 * 16 + k % 16
    np.testing.assert_array_equal(table(value.operand("destination").layout)["offset"], expected)
    assert invert(value.operand("source").layout).points == 4096
    assert compose(row_major({"m": 64, "k": 64}), invert(row_major({"m": 64, "k": 64}))).points == 4096


@pytest.mark.parametrize("name", ["mmad 16x16x16 float16", "mmad 16x16x32 int8"])
def test_operands_of_the_cube_unit(name: str) -> None:
    """One block of 16 rows by 32 bytes each: a row by row, b column by column, results row by row."""
    value = intrinsic(name)
    for operand, (rows, columns), is_by_columns in (("a", (16, value.k), False), ("b", (value.k, 16), True), ("d", (16, 16), False)):
        row, column = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
        expected = column * rows + row if is_by_columns else row * columns + column
        np.testing.assert_array_equal(table(value.operand(operand).layout)["offset"], expected)


def test_operands_of_the_systolic_unit() -> None:
    """What is summed over lies along the partitions, results by rows along them."""
    value = intrinsic("nc_matmul 128x512x128")
    copy = intrinsic("dma_copy 128x512").operand("destination")
    for operand, over_partitions in ((value.operand("a"), "k"), (value.operand("b"), "k"), (value.operand("d"), "m"), (copy, "row")):
        places = table(operand.layout)
        names = list(operand.layout.input_sizes)
        index = dict(zip(names, np.meshgrid(*map(np.arange, operand.layout.input_sizes.values()), indexing="ij")))
        np.testing.assert_array_equal(places["partition"], index[over_partitions])
        np.testing.assert_array_equal(places["offset"], index[next(name for name in names if name != over_partitions)])


def test_every_family_states_its_sources() -> None:
    assert {name for name in FAMILIES if family(name)} == set(FAMILIES)
    for value in all_intrinsics():
        assert all(source.manual and source.section for source in value.sources), value.name
    names = [value.name for value in all_intrinsics()]
    assert len(set(names)) == len(names)
