"""What the next cell copies is asked for while a cell computes: all of it, from where that cell will read it, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from zellige.options import CompileOptions
from zellige.plan.planner import plan
from zellige_cpu.backend import capabilities_of
from zellige_cpu.host import running_host
from zellige_cpu.launch import lower
from zellige_cpu.prefetch import prefetch
from zellige_intrinsics import changed

pytestmark = pytest.mark.skipif(prefetch(running_host()) is None, reason="this machine has no instruction that asks for a line")

PARAMETERS = "X: tensor((40, 512), float32), Y: tensor((40, 512), float32)"
ROWS = """
    x = alloc((4, 512), float32, "fragment")
    top = alloc((4,), float32, "fragment")
    copy(X[bx * 4:+4, 0:+512], x[:, :])
    reduce("max", x[:, :], top[:], axis=1)
    for i, j in parallel(4, 512):
        x[i, j] = exp2(x[i, j] - top[i])
    copy(x[:, :], Y[bx * 4:+4, 0:+512])
"""


def lowered(tools, body: str):
    kernel = tools["block_kernel"](PARAMETERS, body, launch="launch(10) as (bx,)")
    return lower(plan(kernel, capabilities_of(running_host())), running_host(), CompileOptions())


def lines_of_x(tools, body: str, random) -> tuple[list[int], int]:
    """Lines of X that are asked for, and how many lines are asked for elsewhere."""
    x, y = (tools["on_lines"]((40, 512)) for _ in range(2))
    x[:] = random.standard_normal((40, 512))
    places = tools["places_asked_for"](lowered(tools, body), (x, y))
    found = [(p - x.ctypes.data) // 64 for p in places if 0 <= p - x.ctypes.data < x.nbytes]
    return found, len(places) - len(found)


def test_each_cell_asks_for_the_rows_of_the_next_one(tools, random):
    found, beyond = lines_of_x(tools, ROWS, random)
    lines = np.arange(40 * 512 // 16).reshape(40, 32)
    assert found == list(lines[4:].ravel()), "once, in the order in which they are read"
    assert beyond == 4 * 32, "the last cell asks for what would follow"


def test_without_the_instruction_nothing_is_asked_for(tools):
    row = prefetch(running_host())
    assert "llvm.prefetch" in lowered(tools, ROWS).text
    with changed("cpu_x86" if running_host().is_x86 else "cpu_arm", without=(row.name,)):
        assert "llvm.prefetch" not in lowered(tools, ROWS).text


@pytest.mark.parametrize(
    "body",
    [
        ROWS.replace("X[bx * 4:+4, 0:+512]", "X[0:+4, 0:+512]"),  # each cell reads the same
        "for i, j in parallel(4, 512):\n    Y[bx * 4 + i, j] = X[bx * 4 + i, j] * 2.0",  # no other Map: hardware follows the addresses
    ],
)
def test_what_does_not_move_with_cells_is_not_asked_for(tools, body):
    assert "llvm.prefetch" not in lowered(tools, body).text
