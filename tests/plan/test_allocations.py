"""Tiles that an author allocates within a pipelined loop: planned as storage that is there from the start, and found where it is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.interp import interpret
from zellige.ir.stmt import Alloc, For
from zellige.ir.traverse import rebuilt, walk
from zellige.plan.check import check
from zellige.plan.interpret import PlanFault, run
from zellige.plan.invented_machines import LOCAL_ONLY, TEST_TARGETS
from zellige.plan.nodes import Acquire, Issue, PlannedKernel
from zellige.plan.planner import plan
from zellige.plan.single_stream import single_stream


@T.prim_func
def in_the_loop(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(2) as block:
        for k in T.Pipelined(4, num_stages=2):
            tile = T.alloc_shared((8,), "float32")
            T.copy(A[block * 32 + k * 8], tile)
            T.copy(tile, B[block * 32 + k * 8])


@T.prim_func
def in_an_outer_loop(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1):
        for j in T.serial(2):
            tile = T.alloc_shared((8,), "float32")
            for k in T.Pipelined(4, num_stages=3):
                T.copy(A[j * 32 + k * 8], tile)
                T.copy(tile, B[j * 32 + k * 8])


@T.prim_func
def with_a_fragment(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1):
        for k in T.Pipelined(8, num_stages=2):
            tile = T.alloc_shared((8,), "float32")
            T.copy(A[k * 8], tile)
            row = T.alloc_fragment((8,), "float32")
            for i in T.Parallel(8):
                row[i] = tile[i] + 0.0
            T.copy(row, B[k * 8])


@T.prim_func
def scheduled_by_hand(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1):
        for k in T.Pipelined(8, num_stages=2, order=[0, 1, 2], stage=[0, 1, 1]):
            tile = T.alloc_shared((8,), "float32")
            row = T.alloc_fragment((8,), "float32")
            T.copy(A[k * 8], tile)
            for i in T.Parallel(8):
                row[i] = tile[i] + 0.0
            T.copy(row, B[k * 8])


@T.prim_func
def product(A: T.Tensor((64, 128), "float16"), B: T.Tensor((128, 64), "float16"), C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128):
        c = T.alloc_fragment((64, 64), "float32")
        T.clear(c)
        for k in T.Pipelined(4, num_stages=3):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            T.copy(A[0, k * 32], a)
            T.copy(B[k * 32, 0], b)
            T.gemm(a, b, c)
        T.copy(c, C)


COPIES = [in_the_loop, in_an_outer_loop, with_a_fragment, scheduled_by_hand]


def arguments_of(function: Any) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    shapes = [(tuple(int(size.value) for size in p.buffer.shape), str(p.buffer.dtype)) for p in function.kernel.params]
    return tuple(rng.integers(-4, 5, shape).astype(dtype) for shape, dtype in shapes)


@pytest.mark.parametrize("machine", TEST_TARGETS)
@pytest.mark.parametrize("function", [*COPIES, product], ids=lambda f: f.kernel.name)
def test_tiles_of_a_loop_are_there_from_the_start(machine: str, function: Any) -> None:
    planned = plan(function.kernel, TEST_TARGETS[machine])
    assert check(planned) == ()
    wanted, found = arguments_of(function), arguments_of(function)
    interpret(function.kernel, wanted)
    run(planned, found)
    assert all(np.array_equal(one, other) for one, other in zip(wanted, found))
    (launch,) = planned.launches
    carried = {buffer for channel in launch.channels for buffer in channel.buffers}
    for role in launch.roles:
        inner = {n.buffer for s in role.body if not isinstance(s, Alloc) for n in walk(s) if isinstance(n, Alloc)}
        assert not inner & carried
        nodes = [node for statement in role.body for node in walk(statement)]
        made = [node.buffer for node in nodes if isinstance(node, Alloc)]
        assert len([buffer for buffer in made if buffer in carried]) == len(carried & set(made))


@pytest.mark.parametrize("function", COPIES, ids=lambda f: f.kernel.name)
def test_one_stream_allocates_before_it_fills(function: Any) -> None:
    planned = plan(function.kernel, LOCAL_ONLY)
    assert planned.launches[0].channels, "copies run ahead"
    launch, slots = single_stream(planned.launches[0])
    (role,) = launch.roles
    nodes = [node for statement in role.body for node in walk(statement)]
    tile = next(iter(slots)).root
    first = next(i for i, node in enumerate(nodes) if isinstance(node, Issue))
    assert [i < first for i, node in enumerate(nodes) if isinstance(node, Alloc) and node.buffer is tile] == [True]


@pytest.mark.parametrize("function", [*COPIES, product], ids=lambda f: f.kernel.name)
def test_the_template_runs_them(function: Any) -> None:
    wanted, found = arguments_of(function), arguments_of(function)
    interpret(function.kernel, wanted)
    zl.compile(function, target="template")(*found)
    assert all(np.array_equal(one, other) for one, other in zip(wanted, found))


def moved(planned: PlannedKernel, *, into_loop: bool) -> PlannedKernel:
    """The plan with the tile's allocation in the part of a loop that uses it, as it was written, or behind the loop that fills first."""
    (launch,) = planned.launches
    (role,) = launch.roles
    alloc = next(s for s in role.body if isinstance(s, Alloc))
    body = [s for s in role.body if s is not alloc]
    at = next(i for i, s in enumerate(body) if any(isinstance(node, Acquire) for node in walk(s)))
    if into_loop:
        loop = body[at]
        assert isinstance(loop, For)
        body[at] = rebuilt(loop, body=(alloc, *loop.body))
    else:
        body.insert(at + 1, alloc)
    changed = rebuilt(launch, roles=(rebuilt(role, body=tuple(body)),))
    return rebuilt(planned, launches=(changed,))


def test_a_tile_that_is_allocated_in_a_loop_is_found() -> None:
    found = check(moved(plan(in_an_outer_loop.kernel, LOCAL_ONLY), into_loop=True), level="static")
    assert [(p.check, p.message) for p in found] == [
        (1, "tile is allocated anew by each iteration of a loop, and a channel carries it, in role block")
    ]


def test_a_tile_that_is_allocated_after_its_first_use_is_found() -> None:
    wrong = moved(plan(in_the_loop.kernel, LOCAL_ONLY), into_loop=False)
    assert [(p.check, p.message) for p in check(wrong, level="static")] == [
        (1, "tile is used where it has not been allocated, in role block")
    ]
    with pytest.raises(PlanFault, match="role block allocates tile when channel tile has slots of it in use"):
        run(wrong, arguments_of(in_the_loop))
