"""Blocks that take tile after tile, lowered for lanes: exact results in the simulator, and text that compiles without spills."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zellige.driver import PIPELINE
from zellige.passes.runner import run_passes
from zellige.plan.nodes import PlannedKernel
from zellige.plan.planner import plan
from zellige.simt.lower import lower
from zellige.simt.printer import print_module
from zellige_cuda.compiler import compile_cubin
from zellige_cuda.describe import lane_machine
from zellige_cuda.spelling import CudaSpelling

sys.path.insert(0, str(Path(__file__).parent))
from simulated import run_module  # noqa: E402
from test_simulator_roles import ARCH, RICH, expected, operands, product  # noqa: E402


def staying(sizes: tuple[int, int, int], stages: int, workers: int) -> tuple[Any, PlannedKernel, Any]:
    """The legal kernel, its plan for blocks that stay, its program."""
    assert RICH is not None
    machine = replace(RICH, is_persistent=True, threads=workers)
    kernel = run_passes(product(sizes, (64, 64, 32), stages).kernel, PIPELINE)
    planned = plan(kernel, machine)
    return kernel, planned, lower(planned, lane_machine(ARCH, machine))


@pytest.mark.parametrize(("sizes", "stages", "workers"), [((200, 136, 200), 3, 3), ((64, 520, 96), 2, 2), ((200, 136, 16), 4, 5)])
def test_workers_take_every_tile(sizes: tuple[int, int, int], stages: int, workers: int) -> None:
    """Slots and parities go on from tile to tile, with fewer steps in a tile than slots too; stores end beside the next tile."""
    kernel, planned, module = staying(sizes, stages, workers)
    tiles = planned.launches[0].order.tiles
    assert tiles is not None and tiles.workers == workers
    for seed in range(3):
        arrays = operands(sizes)
        want = expected(arrays)
        run_module(kernel, module, arrays, seed=seed)
        np.testing.assert_array_equal(arrays[2], want)


def test_the_text_compiles() -> None:
    """The epilogue is stored by the engine and waited for only before its tile is written again, in the next iteration over tiles."""
    _, _, module = staying((200, 136, 200), 3, 3)
    text = print_module(module, CudaSpelling(90))
    loop = text[text.index("for (int tile = worker; tile < 12; tile += 3)") :]
    assert loop.index("box_stores_wait_read<0>()") < loop.index("box_stores_commit()") < loop.index("box_stores_wait<0>()")
    _, log = compile_cubin(text, "kernel", "sm_90a")
    assert "0 bytes spill stores, 0 bytes spill loads" in log and not re.search(r"C7\d\d\d", log)
