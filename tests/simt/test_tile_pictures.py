"""Pictures of tiles say what the program does: against the places that its lanes compute, and printed and drawn by ``zellige explain``."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import zellige
import zellige.language as T
from zellige.cli.main import group
from zellige.diagnostics import CompileError
from zellige.layouts import OFFSET, Banks
from zellige.layouts.draw import banks_grid, holders_grid, offsets_grid
from zellige.simt.distribution import distribute
from zellige.simt.homes import Swizzle
from zellige.simt.tiles import memory_layout, pictures, register_layout

sys.path.insert(0, str(Path(__file__).parent))
from simulated import lowered  # noqa: E402

EXAMPLES = Path(__file__).parents[2] / "examples"


@T.prim_func
def scaled_product(A: T.Tensor((100, 48), "float16"), B: T.Tensor((48, 40), "float16"), C: T.Tensor((100, 40), "float32")):
    with T.Kernel(2, threads=64) as by:
        a = T.alloc_shared((64, 16), "float16")
        b = T.alloc_shared((16, 40), "float16")
        c = T.alloc_fragment((64, 40), "float32")
        top = T.alloc_fragment((64,), "float32")
        T.clear(c)
        for k in T.Pipelined(3, num_stages=2):
            T.copy(A[by * 64, k * 16], a)
            T.copy(B[k * 16, 0], b)
            T.gemm(a, b, c)
        T.reduce_max(c, top, dim=1)
        for i, j in T.Parallel(64, 40):
            c[i, j] = c[i, j] - top[i]
        T.copy(c, C[by * 64, 0])


@pytest.mark.parametrize("shape", [(16, 8), (5, 24), (7,), (3, 4, 10), (33, 1)])
@pytest.mark.parametrize("vector", [1, 2])
def test_a_register_layout_is_the_distribution(shape: tuple[int, ...], vector: int) -> None:
    found = distribute(shape, lanes=32, warps=2, vector=vector)
    layout = register_layout(found)
    register, lane, warp = np.indices((found.registers, 32, 2))
    images = layout.apply({"register": register, "lane": lane, "warp": warp})
    for wanted, name in zip(found.coordinates(register, lane, warp), layout.output_sizes):
        np.testing.assert_array_equal(np.broadcast_to(images[name], wanted.shape), wanted)


def test_a_memory_layout_is_the_storage() -> None:
    swizzle = Swizzle(base=3, bits=2, shift=5)
    layout = memory_layout((16, 32), (32, 1), swizzle)
    row, column = np.indices((16, 32))
    flat = row * 32 + column
    np.testing.assert_array_equal(layout.apply({"row": row, "column": column})[OFFSET], flat ^ ((flat >> 5 & 3) << 3))
    padded = memory_layout((3, 5, 7), (40, 8, 1), None)
    assert padded.at(dimension0=2, dimension1=4, dimension2=6)[OFFSET] == 2 * 40 + 4 * 8 + 6


def test_every_tile_of_a_program_is_pictured() -> None:
    _, module = lowered(scaled_product)
    function = module.functions[0]
    found = {picture.name: picture for picture in pictures(function, Banks())}
    assert list(found) == ["a", "b", "c", "top"]
    assert found["a"].title == "a: 64 x 16 of float16 in shared memory, 2 slots of 2048 bytes"
    assert found["c"].title == "c: 64 x 40 of float32 in registers, 40 elements a lane"
    assert found["top"].remarks == ("4 lanes hold each element",)
    # lanes of mma.m16n8: row = lane / 4, column = 2 (lane % 4) + r % 2; warp 1 holds the rows from 32 on
    holders = found["c"].grids()["holders"]
    assert (len(holders), len(holders[0])) == (64, 40)
    assert [holders[0][0], holders[1][3], holders[8][0], holders[32][39]] == ["l0 w0 r0", "l5 w0 r1", "l0 w0 r2", "l3 w1 r17"]
    assert found["top"].grids()["holders"][0][1] == "l4 w0 r0 +3"
    assert any("matrix read of 16 bytes a lane: conflict degree 1" in remark for remark in found["a"].remarks)
    assert any("copy in of 16 bytes a lane: conflict degree 1" in remark for remark in found["b"].remarks)


def test_what_lies_beyond_a_tile_is_cut_off() -> None:
    @T.prim_func
    def small(A: T.Tensor((5, 6), "float32"), S: T.Tensor((5,), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_fragment((5, 6), "float32")
            total = T.alloc_fragment((5,), "float32")
            T.copy(A, tile)
            T.reduce_sum(tile, total, dim=1)
            T.copy(total, S)

    _, module = lowered(small)
    for picture in pictures(module.functions[0], Banks()):
        (grid,) = picture.grids().values()
        assert (len(grid), len(grid[0])) == ((5, 6) if picture.name == "tile" else (1, 5))
        assert all(cell != "-" for row in grid for cell in row)


def test_of_more_than_two_dimensions_the_last_are_drawn() -> None:
    layout = memory_layout((2, 3, 4), (12, 4, 1), None)
    at = {"dimension0": 1}
    assert offsets_grid(layout, at)[2] == ["20", "21", "22", "23"]
    assert banks_grid(layout, Banks(), bits_per_element=64, at=at)[0] == ["24", "26", "28", "30"]
    spread = register_layout(distribute((2, 4, 4), lanes=32, warps=1))
    assert holders_grid(spread, {"dimension0": 1})[0][:2] == ["l16", "l17"]


def test_explain_prints_and_draws(tmp_path: Path) -> None:
    command = ["explain", str(EXAMPLES / "gemm.py"), "--target", "cuda:sm_80", "--layout", "--svg", str(tmp_path)]
    result = CliRunner().invoke(group, command)
    assert result.exit_code == 0, result.output
    assert "A_tile: 128 x 32 of float32 in shared memory, 3 slots of 16384 bytes" in result.output
    assert "C_tile: 128 x 128 of float32 in registers, 128 elements a lane" in result.output
    assert "banks, 16 of 128 rows and 16 of 32 columns:" in result.output
    drawn = sorted(path.name for path in tmp_path.iterdir())
    assert len(drawn) == 5 and drawn[-1] == "gemm-for-cuda-sm_80-2-C_tile-holders.svg"
    root = ElementTree.fromstring((tmp_path / drawn[-1]).read_text(encoding="utf-8"))
    assert sum(element.tag.endswith("rect") for element in root) == 128 * 128


def test_packed_operands_of_a_processor_are_pictured() -> None:
    @T.prim_func
    def product(A: T.Tensor((64, 40), "float32"), B: T.Tensor((40, 48), "float32"), C: T.Tensor((64, 48), "float32")):
        with T.Kernel(1):
            a = T.alloc_shared((64, 40), "float32")
            b = T.alloc_shared((40, 48), "float32")
            c = T.alloc_fragment((64, 48), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c)
            T.copy(c, C)

    explained = zellige.explain(product, "cpu")
    rows, panels = explained.layouts()
    (choice,) = (c for c in explained.planned.launches[0].choices if c.layouts)
    width = next(at for at in choice.layouts if at.operand == "b").parameters[0]
    assert (rows.name, rows.shape, rows.place.split(",")[0]) == ("a", (64, 40), "rows")
    assert (panels.name, panels.shape, panels.place.split(",")[0]) == ("b", (40, 48), f"panels of {width} columns")
    offsets = panels.grids()["offsets"]
    for k, column in ((0, 0), (0, 1), (1, 0), (39, 47), (7, min(width, 47))):
        assert offsets[k][column] == str(column // width * width * 40 + k * width + column % width)


def test_a_kernel_without_tiles_has_no_pictures(tmp_path: Path) -> None:
    path = tmp_path / "added.py"
    text = "@T.prim_func\ndef added(A: T.Tensor((8,), 'float32')):\n    with T.Kernel(8) as b:\n        A[b] = A[b] + 1\n"
    path.write_text(f"import zellige.language as T\n\n\n{text}", encoding="utf-8")
    result = CliRunner().invoke(group, ["explain", str(path), "--target", "cuda:sm_80", "--layout"])
    assert (result.exit_code, result.output) == (0, "added for cuda:sm_80\n\nno tiles\n\n")


def test_a_target_that_says_nothing_of_its_tiles_is_named() -> None:
    with pytest.raises(CompileError) as raised:
        zellige.explain(scaled_product, "interp").layouts()
    assert raised.value.code == "E440"
    assert "interp does not report where the tiles of scaled_product live" in str(raised.value)
