"""Tiles that only products read, held in the type that their unit multiplies: which are, and that no bit of a result changes."""

from __future__ import annotations

import numpy as np
import pytest

from zellige.dtypes import dtype
from zellige.ir.stmt import Alloc
from zellige.ir.traverse import walk
from zellige.plan.planner import plan
from zellige_cpu.backend import capabilities_of
from zellige_cpu.planned import choices_of
from zellige_cpu.preparation import expanded
from zellige_cpu.wide_tiles import with_wide_tiles

SIDE = 16
ALL = f"0:+{SIDE}, 0:+{SIDE}"


def kernel(
    writes: str, source: str = "float32", tile: str = "bfloat16", *, more: str = "", operands: str = "p[:, :], u[:, :]", turn: str = ""
) -> str:
    """``writes`` fills the tile p, whose product with the unit matrix is the result."""
    lines = "\n        ".join([*writes.splitlines(), f"gemm({operands}, c[:, :], {turn}clear=True)", *more.splitlines()])
    return f"""
def k(X: tensor(({SIDE}, {SIDE}), {source}), U: tensor(({SIDE}, {SIDE}), {tile}), C: tensor(({SIDE}, {SIDE}), float32)):
    with launch(1) as (bx,):
        p = alloc(({SIDE}, {SIDE}), {tile}, "fragment")
        u = alloc(({SIDE}, {SIDE}), {tile}, "shared")
        c = alloc(({SIDE}, {SIDE}), float32, "fragment")
        copy(U[{ALL}], u[:, :])
        {lines}
        copy(c[:, :], C[{ALL}])
"""


COPIED = f"copy(X[{ALL}], p[:, :])"
POINTS = f"for i, j in parallel({SIDE}, {SIDE}):\n    p[i, j] = cast(X[i, j] * 1.5, bfloat16)"


def tiles(tools, text: str, host=None) -> dict[str, str]:
    """The tiles of the program as its code is written, with their types."""
    machine = host or tools["reduced_host"]("avx2")
    planned = plan(tools["kernel_of"](text), capabilities_of(machine))
    narrow = expanded(planned.launches[0].launch)
    wide = with_wide_tiles(narrow, choices_of(planned.launches[0], narrow), machine)
    return {node.buffer.name: str(node.buffer.dtype) for s in wide.body for node in walk(s) if isinstance(node, Alloc)}


def arguments(source: str = "float32", tile: str = "bfloat16") -> list[np.ndarray]:
    """Numbers that every narrower type rounds, with ties that a second rounding would break the other way, and what is no number."""
    random = np.random.default_rng(7)
    x = random.standard_normal((SIDE, SIDE)) * 2.0 ** random.integers(-3, 8, (SIDE, SIDE))
    x[0, :4] = 1 + 2.0**-8 + 2.0**-30, 1 + 2.0**-8, 1 + 3 * 2.0**-8, -(1 + 2.0**-8 + 2.0**-30)
    if dtype(source).is_integer:
        x = np.rint(x * 1000)
        x[0, :2] = (1 << 24) + (1 << 16) + 1, -((1 << 24) + (1 << 16) + 1)
    return [x.astype(dtype(source).numpy), np.eye(SIDE).astype(dtype(tile).numpy), np.zeros((SIDE, SIDE), np.float32)]


@pytest.mark.parametrize("writes", [COPIED, POINTS, "fill(p[:, :], cast(1.625, bfloat16))", f"{COPIED}\n{POINTS}"])
def test_a_tile_that_only_a_product_reads_has_the_type_that_is_multiplied(tools, check_text, writes: str) -> None:
    text = kernel(writes)
    assert tiles(tools, text) == {"p": "float32", "u": "bfloat16", "c": "float32"}
    check_text(text, *arguments(), host=tools["reduced_host"]("avx2"))


@pytest.mark.parametrize("tile", ["bfloat16", "float16", "float8_e4m3fn"])
@pytest.mark.parametrize("source", ["float32", "float64", "float16", "bfloat16", "int32", "float8_e5m2"])
def test_values_are_rounded_once(tools, check_text, source: str, tile: str) -> None:
    text = kernel(COPIED, source, tile)
    assert tiles(tools, text)["p"] == ("float32" if source != tile else tile), "of one type it is packed straight from X"
    found = check_text(text, *arguments(source, tile), host=tools["reduced_host"]("avx2"))[2]
    if (source, tile) == ("float64", "bfloat16"):
        assert found[0, 0] == 1 + 2.0**-7 and found[0, 1] == 1, "above a tie, which float32 would not show"


def test_a_transposed_operand_is_held_so_too(tools, check_text) -> None:
    text = kernel(COPIED, turn="transpose_a=True, ")
    assert tiles(tools, text)["p"] == "float32"
    check_text(text, *arguments(), host=tools["reduced_host"]("avx2"))


@pytest.mark.parametrize(
    "text",
    [
        kernel(COPIED, more=f"copy(p[:, :], C[{ALL}])"),
        kernel(COPIED, more=f"for i, j in parallel({SIDE}, {SIDE}):\n    C[i, j] = C[i, j] + cast(p[i, j], float32)"),
        kernel(COPIED, operands="u[:, :], p[:, :]"),
        kernel(COPIED, operands="p[:, :], p[:, :]"),
        kernel(COPIED, tile="float32"),
        kernel(f"q = view(p, ({SIDE * SIDE},), bfloat16)\n{COPIED}\nfill(q[0:+3], cast(2.0, bfloat16))"),
    ],
    ids=["copied", "read by points", "operand b", "both operands", "no wider type", "seen through a view"],
)
def test_other_tiles_stay_as_they_are(tools, check_text, text: str) -> None:
    kind = "float32" if "U: tensor((16, 16), float32)" in text else "bfloat16"
    assert tiles(tools, text)["p"] == kind
    check_text(text, *arguments(tile=kind), host=tools["reduced_host"]("avx2"), rtol=1e-5)


def test_no_product_packs_such_a_tile(tools) -> None:
    """The packing of a is what this is for: its function is not even made."""
    compiled = tools["compile_for"](tools["kernel_of"](kernel(COPIED)), tools["reduced_host"]("avx2"))
    assert "pack_b" in compiled.source() and "pack_a" not in compiled.source()
