"""Operands that a loop does not change are read from shared memory once, where lanes have registers for them."""

# Kernels are read by the front end, not run by Python.
# mypy: ignore-errors

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from simulated import agree, lowered, whole_numbers  # noqa: E402

import zellige.language as T  # noqa: E402
from zellige.ir.stmt import For  # noqa: E402
from zellige.ir.traverse import walk  # noqa: E402
from zellige.simt.ir import MatrixLoad  # noqa: E402


def products(*, rows=32, width=192, kept="a", change=False, rounds=1, leave_out=False):
    """Sums of products of which one side is the same in every step; ``rounds`` of it, each with another tile kept."""
    left = kept == "a"
    shape, taken = ((rows, width), (width, 32)) if left else ((width, 32), (rows, width))
    blocks = 10 if leave_out else 1

    @T.prim_func
    def products(
        K: T.Tensor((rounds, *shape), "float16"), X: T.Tensor((4, *taken), "float16"), C: T.Tensor((rounds, blocks * rows, 32), "float32")
    ):
        with T.Kernel(1, threads=64):
            kept_tile = T.alloc_shared(shape, "float16")
            x = T.alloc_shared(taken, "float16")
            c = T.alloc_fragment((rows, 32), "float32")
            others = T.alloc_fragment((blocks * rows, 32), "float32")
            T.clear(others)
            for r in T.serial(rounds):
                T.copy(K[r, 0, 0], kept_tile)
                T.clear(c)
                for s in T.Pipelined(4, num_stages=2):
                    T.copy(X[s, 0, 0], x)
                    if left:
                        T.gemm(kept_tile, x, c)
                    else:
                        T.gemm(x, kept_tile, c)
                    if change:
                        for i, j in T.Parallel(*shape):
                            kept_tile[i, j] += 1
                if leave_out:
                    T.copy(others, C[r, 0, 0])
                for i, j in T.Parallel(rows, 32):
                    C[r, i, j] = c[i, j]

    return products


def _reads_in_loops(module):
    """The names of tiles that matrix loads in loops that are not written out read, and of those outside."""
    inside, everywhere = set(), set()
    for function in module.functions:
        for statement in function.body:
            for node in walk(statement):
                if isinstance(node, MatrixLoad):
                    everywhere.add(node.buffer.name)
                if isinstance(node, For) and node.var.name.endswith(("_step", "_drain")):
                    inside |= {n.buffer.name for n in walk(node) if isinstance(n, MatrixLoad)}
    return inside, everywhere - inside


@pytest.mark.parametrize("kept", ["a", "b"])
def test_what_a_loop_does_not_change_is_read_before_it(kept):
    assert _reads_in_loops(lowered(products(kept=kept))[1]) == ({"x"}, {"kept_tile"})


def test_what_changes_in_the_loop_or_does_not_fit_is_read_in_it():
    assert _reads_in_loops(lowered(products(change=True))[1]) == ({"x", "kept_tile"}, set())
    assert _reads_in_loops(lowered(products(rows=64, width=512))[1]) == ({"x", "kept_tile"}, set())
    assert _reads_in_loops(lowered(products(leave_out=True))[1]) == ({"x", "kept_tile"}, set())


@pytest.mark.parametrize(
    "options", [{"kept": "a"}, {"kept": "b"}, {"change": True}, {"rounds": 3}, {"rounds": 3, "kept": "b"}], ids=str
)
def test_results_are_those_of_tiles_read_each_time(options):
    function = products(**options)
    shapes = [tuple(int(e.value) for e in p.buffer.shape) for p in lowered(function)[0].params]
    k, x = (whole_numbers(shape, np.float16, i, -1, 2) for i, shape in enumerate(shapes[:2]))
    agree(function, k, x, np.zeros(shapes[2], np.float32))
