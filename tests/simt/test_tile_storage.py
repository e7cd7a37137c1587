"""Tiles in shared memory as their authors ask for them, and what their banks do: explained, simulated, counted by a device."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import zellige.language as T
from zellige import layout
from zellige.layouts import Banks
from zellige.simt.banks import BankUse, bank_uses
from zellige.simt.simulate.report import Report

sys.path.insert(0, str(Path(__file__).parent))
from simulated import lowered, run_module, whole_numbers  # noqa: E402

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def _six() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bank_conflicts", BENCHMARKS / "bank_conflicts.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bank_conflicts"] = module
    spec.loader.exec_module(module)
    return module


SIX = _six()

DEGREES = {
    "linear": {"columns": 16, "rows": 4},
    "padded": {"columns": 4, "rows": 1},
    "bank": {"columns": 1, "rows": 4},
    "swizzle of 32 bytes": {"columns": 8, "rows": 2},
    "swizzle of 64 bytes": {"columns": 4, "rows": 1},
    "swizzle of 128 bytes": {"columns": 4, "rows": 1},
}
"""Turns of a phase of lanes that read the tile, worked out by hand: a column of 2-byte elements 64 bytes apart meets 2 banks, and so on;
eight rows of 16 bytes, two to a line of 128 bytes, meet 2, 4 or 8 of the eight places of a line."""


def arrays_of(kernel: str) -> list[Any]:
    A = whole_numbers((SIX.ROWS, SIX.COLUMNS), np.float16)
    if kernel == "columns":
        return [A, np.zeros(SIX.COLUMNS, np.int32), np.zeros(SIX.ROWS, np.float32)]
    return [A, whole_numbers((SIX.COLUMNS, 64), np.float16, 1), np.zeros((SIX.ROWS, 64), np.float32)]


def simulated(name: str, kernel: str) -> tuple[Any, Report]:
    """The thread-level function, and what its banks did in a run with exact results."""
    legal, module = lowered(SIX.KERNELS[kernel](name), "sm_90")
    arrays, report = arrays_of(kernel), Report()
    run_module(legal, module, arrays, report=report)
    A = arrays[0].astype(np.float32)
    want = A.sum(1) if kernel == "columns" else A @ arrays[1].astype(np.float32)
    np.testing.assert_array_equal(arrays[-1], want)
    return module.functions[0], report


def by_place(uses: tuple[BankUse, ...]) -> dict[tuple[int, str], int]:
    found: dict[tuple[int, str], int] = {}
    for use in uses:
        assert use.span is not None and use.degree is not None
        key = (use.span.line, use.buffer)
        found[key] = max(found.get(key, 0), use.degree)
    return found


@pytest.mark.parametrize("kernel", ["columns", "rows"])
@pytest.mark.parametrize("name", list(DEGREES))
def test_six_layouts_are_followed_and_their_conflicts_are_known(name: str, kernel: str) -> None:
    function, report = simulated(name, kernel)
    assert any(line.startswith("tile is stored as asked") for line in function.header)
    uses = bank_uses(function, Banks())
    reads = [use for use in uses if use.buffer == "tile" and "read" in use.kind]
    assert [use.degree for use in reads] == [DEGREES[name][kernel]]
    run: dict[tuple[int, str], int] = {}
    for record in report.found.values():
        assert record.span is not None
        key = (record.span.line, record.buffer)
        run[key] = max(run.get(key, 0), record.degree)
    assert by_place(uses) == run


def read_lines(function: Any) -> set[tuple[int, str]]:
    return {(use.span.line, use.buffer) for use in bank_uses(function, Banks()) if "read" in use.kind and use.span is not None}


@pytest.mark.parametrize("kernel", ["columns", "rows"])
@pytest.mark.parametrize("name", list(DEGREES))
def test_a_device_counts_the_same(name: str, kernel: str) -> None:
    """Every pass over the banks is one wavefront of the device."""
    path = BENCHMARKS / "results" / "bank_conflicts.json"
    if not path.exists():
        pytest.skip(f"{path.name} has not been measured")
    counted = json.loads(path.read_text(encoding="utf-8"))["figures"][name][kernel]
    function, report = simulated(name, kernel)
    reading = read_lines(function)
    passes = {"reads": 0, "writes": 0}
    for record in report.found.values():
        assert record.span is not None
        passes["reads" if (record.span.line, record.buffer) in reading else "writes"] += record.passes
    assert counted["reads"] == passes["reads"]
    assert counted["writes"] == passes["writes"]


def notes(hint: Any, shape: tuple[int, ...] = (32, 32)) -> list[str]:
    @T.prim_func
    def copied(A: T.Tensor(shape, "float16"), B: T.Tensor(shape, "float16")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared(shape, "float16")
            T.annotate_layout({tile: hint})
            T.copy(A, tile)
            T.copy(tile, B)

    legal, module = lowered(copied)
    arrays = [whole_numbers(shape, np.float16), np.zeros(shape, np.float16)]
    run_module(legal, module, arrays)
    np.testing.assert_array_equal(arrays[1], arrays[0])
    return [line for line in module.functions[0].header if line.startswith("tile is")]


@pytest.mark.parametrize(
    "hint, note",
    [
        (layout.Layout((32, 32), lambda i, j: i * 40 + j), "stored as asked, in strides of 40, 1 elements"),
        (layout.Layout((32, 32), lambda i, j: j * 33 + i), "stored as asked, in strides of 1, 33 elements"),
        (layout.Layout((32, 32), lambda i, j: (j, i)), "stored as asked, in strides of 1, 32 elements"),
        (layout.Layout((32, 32), lambda i, j: i * 32 + (j ^ ((i % 4) * 8))), "stored as asked: 2 bits of a place from bit 3 exchanged by"),
        (layout.Layout((32, 32), lambda i, j: i * 32 + (j + i) % 32), "not stored as asked: it is neither a sum of strides nor"),
        (layout.Layout((32, 32), lambda i, j: i * 32 + j + 8), "not stored as asked: its first element has the place 8"),
        (layout.Layout((32, 32), kind="swizzle"), "stored as asked, swizzled for 32 banks of 4 bytes"),
        (layout.Layout((32, 32), kind="spiral"), "not stored as asked: the family of machines with lanes knows no layout 'spiral'"),
        (layout.Fragment((32, 32), lambda i, j: (j, i)), "not stored as asked: it says lanes and registers"),
    ],
)
def test_what_became_of_a_hint_is_said(hint: Any, note: str) -> None:
    (said,) = notes(hint)
    assert said.startswith(f"tile is {note}")


@pytest.mark.parametrize("shape", [(7, 5), (1, 1), (3, 24), (129, 33)])
@pytest.mark.parametrize("kind", ["swizzle", "padded", "bank"])
def test_families_of_layouts_fit_any_tile(kind: str, shape: tuple[int, ...]) -> None:
    (said,) = notes(layout.Layout(shape, kind=kind), shape)
    assert said.startswith("tile is stored as asked")


def test_a_tile_seen_in_another_shape_stays_in_rows() -> None:
    @T.prim_func
    def seen(A: T.Tensor((8, 16), "float32"), B: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 16), "float32")
            T.annotate_layout({tile: layout.Layout((8, 16), kind="padded")})
            flat = T.reshape(tile, (128,))
            T.copy(A, tile)
            T.copy(flat, B)

    legal, module = lowered(seen)
    arrays = [whole_numbers((8, 16), np.float32), np.zeros(128, np.float32)]
    run_module(legal, module, arrays)
    np.testing.assert_array_equal(arrays[1], arrays[0].reshape(-1))
    assert "tile is not stored as asked: it is seen in another shape or type" in module.functions[0].header


def test_places_from_memory_are_not_known() -> None:
    @T.prim_func
    def gathered(I: T.Tensor((32,), "int32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((32,), "float32")
            lane = T.get_thread_binding()
            tile[lane] = T.cast(lane, "float32")
            B[lane] = tile[I[lane]]

    _, module = lowered(gathered)
    degrees = {use.kind: use.degree for use in bank_uses(module.functions[0], Banks())}
    assert degrees == {"write": 1, "read": None}
