"""Rows that several loops read are brought once: each lane keeps its elements in shared memory, and waits for one group an iteration."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from simulated import agree, lowered, run_module  # noqa: E402

import zellige.language as T  # noqa: E402
from zellige.diagnostics import LaunchError  # noqa: E402
from zellige.ir.expr import Binary, Load  # noqa: E402
from zellige.ir.stmt import Barrier, For, Unrolled  # noqa: E402
from zellige.ir.traverse import rebuilt, rewrite, walk  # noqa: E402
from zellige.simt import ir  # noqa: E402
from zellige.simt.distribution import number  # noqa: E402

COLUMNS, BLOCK = 4096, 1024


def shares(columns: int, block: int = BLOCK, dtype: str = "float16", how: str = "") -> Any:
    """Y = X / max(X) of each row in two passes; what is outside a row reads as -inf."""
    count = T.ceildiv(columns, block)
    shift = 8 if how == "other elements" else 0

    @T.prim_func
    def shares(X: T.Tensor((3, columns), dtype), Y: T.Tensor((3, columns), dtype)):
        with T.Kernel(1 if how == "in a loop" else 3, threads=32) as bx:
            x = T.alloc_fragment((1, block), "float32")
            top = T.alloc_fragment((1,), "float32")
            T.annotate_safe_value({X: -T.infinity(dtype)})
            for row in T.serial(3 if how == "in a loop" else 1):
                T.fill(top, -T.infinity("float32"))
                for k in T.Pipelined(count, num_stages=2):
                    T.copy(X[bx + row, k * block], x)
                    T.reduce_max(x, top, dim=1, clear=False)
                for k in T.Pipelined(count, num_stages=2):
                    T.copy(X[bx + row, k * block + shift], x)
                    for i, j in T.Parallel(1, block):
                        x[i, j] = x[i, j] / top[i]
                    if how == "in place":
                        T.copy(x, X[bx + row, k * block])
                    else:
                        T.copy(x, Y[bx + row, k * block])

    return shares


def flat(columns: int, block: int = BLOCK, how: str = "", dtype: str = "float16") -> Any:
    """The same without a loop around, so that the passes stand beside each other."""
    count = T.ceildiv(columns, block)

    @T.prim_func
    def flat(X: T.Tensor((3, columns), dtype), Y: T.Tensor((3, columns), dtype), Z: T.Tensor((3, columns), dtype)):
        with T.Kernel(3, threads=32) as bx:
            x = T.alloc_fragment((1, block), "float32")
            top = T.alloc_fragment((1,), "float32")
            T.annotate_safe_value({X: -T.infinity(dtype)})
            T.fill(top, -T.infinity("float32"))
            for k in T.Pipelined(count, num_stages=2):
                T.copy(X[bx, k * block], x)
                T.reduce_max(x, top, dim=1, clear=False)
            for k in T.Pipelined(count, num_stages=2):
                T.copy(X[bx, k * block + (8 if how == "other elements" else 0)], x)
                for i, j in T.Parallel(1, block):
                    x[i, j] = x[i, j] / top[i]
                T.copy(x, X[bx, k * block] if how == "in place" else Y[bx, k * block])
            if how == "three passes":
                for k in T.serial(count):
                    T.copy(X[bx, k * block], x)
                    for i, j in T.Parallel(1, block):
                        x[i, j] = x[i, j] - top[i]
                    T.copy(x, Z[bx, k * block])

    return flat


def program_of(function: Any, arch: str = "sm_80") -> Any:
    (program,) = lowered(function, arch)[1].functions
    return program


def is_kept(program: Any) -> bool:
    return any("stay in shared memory" in line for line in program.header)


def arrays(columns: int, dtype: str = "float16") -> tuple[Any, ...]:
    x = np.random.default_rng(7).uniform(1, 2, (3, columns)).astype(dtype)
    return x, np.zeros_like(x), np.zeros_like(x)


@pytest.mark.parametrize("columns,dtype", [(COLUMNS, "float16"), (3600, "float16"), (8 * 513, "float16"), (2048, "float32")])
@pytest.mark.parametrize("how", ["", "three passes"])
def test_a_row_is_read_once_and_the_results_are_the_same(columns: int, dtype: str, how: str) -> None:
    function = flat(columns, 512 if dtype == "float32" else BLOCK, how, dtype)
    program = program_of(function)
    assert is_kept(program)
    nodes = [node for statement in program.body for node in walk(statement)]
    assert sum(isinstance(node, ir.AsyncCopy) for node in nodes) == 1
    rolled = [node for node in program.body if isinstance(node, For) and node.kind == Unrolled(factor=1)]
    assert len(rolled) == (4 if how else 3)
    assert not any(isinstance(node, Load) and node.buffer.root.name == "X" for loop in rolled for node in walk(loop))
    agree(function, *arrays(columns, dtype))


def test_lanes_read_what_they_copied_themselves_so_no_barrier_is_needed() -> None:
    program = program_of(flat(COLUMNS))
    bring, first, _ = (node for node in program.body if isinstance(node, For))
    assert not any(isinstance(node, Barrier) for loop in (bring, first) for node in walk(loop))
    waits = [node for node in walk(first) if isinstance(node, ir.WaitCopies)]
    assert [wait.leave for wait in waits] == [COLUMNS // BLOCK - 1]


@pytest.mark.parametrize(
    "function,arch",
    [
        (flat(COLUMNS, how="in place"), "sm_80"),  # the second pass may read what the first did not
        (flat(COLUMNS, how="other elements"), "sm_80"),
        (flat(COLUMNS), "sm_75"),  # nothing lands later
        (flat(BLOCK), "sm_80"),  # one iteration
        (flat(1024, 256), "sm_80"),  # few registers hold it, and as many lanes are at work
        (flat(COLUMNS + 4), "sm_80"),  # rows do not begin at pieces of 16 bytes
        (flat(16 * BLOCK), "sm_80"),  # shared memory for few lanes only
        (shares(COLUMNS, how="in a loop"), "sm_80"),
    ],
)  # fmt: skip
def test_rows_that_are_not_kept(function: Any, arch: str) -> None:
    assert not is_kept(program_of(function, arch))


def test_rows_in_a_loop_and_in_place_give_the_same() -> None:
    x, y, z = arrays(COLUMNS)
    agree(shares(COLUMNS, how="in a loop"), x, y)
    agree(flat(COLUMNS, how="in place"), x, y, z)
    agree(flat(COLUMNS, how="other elements"), x, y, z)


# ---- faults ----


def _changed(item: Any, change: Callable[[Any], Any]) -> Any:
    bodies = {name: _edited(getattr(item, name), change) for name in getattr(type(item), "BODIES", ())}
    return change(rebuilt(item, **bodies) if bodies else item)


def _edited(items: Any, change: Callable[[Any], Any]) -> Any:
    return tuple(new for item in items if (new := _changed(item, change)) is not None)


def _other_lane(s: Any) -> Any:
    """Reads of what the next lane brought."""

    def moved(node: Any) -> Any:
        if isinstance(node, Load) and node.buffer.root.name.startswith("X_kept"):
            return rebuilt(node, indices=(Binary(op="bitxor", left=node.indices[0], right=number(1)),))
        return node

    return rewrite(s, moved)


@pytest.mark.parametrize(
    "change,codes",
    [
        (lambda s: rebuilt(s, leave=s.leave + 1) if isinstance(s, ir.WaitCopies) else s, {"E656", "E651"}),
        (lambda s: None if isinstance(s, ir.WaitCopies) else s, {"E656", "E651"}),
        (lambda s: None if isinstance(s, ir.AsyncCopy) else s, {"E651"}),
        (_other_lane, {"E652", "E656", "E651", "results"}),
    ],
    ids=["a wait for one group fewer", "no wait", "nothing is brought", "what another lane brought"],
)
def test_faults_planted_in_what_keeps_a_row_are_caught(change: Callable[[Any], Any], codes: set[str]) -> None:
    kernel, module = lowered(flat(COLUMNS))
    (program,) = module.functions
    planted = rebuilt(module, functions=(rebuilt(program, body=_edited(program.body, change)),))
    given = arrays(COLUMNS)
    right = [a.copy() for a in given]
    run_module(kernel, module, right)
    found = set()
    for seed in range(4):
        wrong = [a.copy() for a in given]
        try:
            run_module(kernel, planted, wrong, seed=seed)
        except LaunchError as error:
            found.add(error.code)
        else:
            found.add("nothing" if all(np.array_equal(a, b) for a, b in zip(wrong, right)) else "results")
    assert found <= codes, found
