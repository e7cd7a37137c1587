"""Plans of one role without channels: which slot each operation means, as counters say it."""

# Kernels are read by the front end, not run by Python.
# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zellige.language as T
from zellige.elements.operations import constant, operate, operation_of
from zellige.ir.expr import Const, Var
from zellige.ir.stmt import Alloc, Assign, Bind, Copy, For
from zellige.ir.traverse import children, operands_first, rebuilt, walk
from zellige.plan.invented_machines import LANES_ASYNC, LOCAL_ONLY
from zellige.plan.nodes import Acquire, Channel, Get, Issue, PlannedLaunch, Put, Release, Role, Slotted, Token, Wait
from zellige.plan.planner import plan
from zellige.plan.single_stream import single_stream


@T.prim_func
def copies(A: T.Tensor((16,), "float32"), B: T.Tensor((16,), "float32"), C: T.Tensor((16,), "int32")):
    with T.Kernel(1):
        tile = T.alloc_shared((16,), "float32")
        T.annotate_safe_value({tile: 7.0})
        bits = T.view(tile, (16,), "int32")
        T.copy(A, tile)
        T.copy(tile, B)
        T.copy(bits, C)


@T.prim_func
def product(A: T.Tensor((64, 96), "float16"), B: T.Tensor((96, 64), "float16"), C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 32), "float16")
        b = T.alloc_shared((32, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.clear(c)
        for k in T.Pipelined(3, num_stages=3):
            T.copy(A[0, k * 32], a)
            T.copy(B[k * 32, 0], b)
            T.gemm(a, b, c)
        T.copy(c, C)


def by_hand(depth: int) -> PlannedLaunch:
    """Fills a slot, reads it, fills another, reads both, fills a third."""
    kernel = copies.kernel
    (launch,) = kernel.launches
    alloc = next(s for s in launch.body if isinstance(s, Alloc))
    fill, read, read_bits = (s for s in launch.body if isinstance(s, Copy))
    tiles = Channel(name="tiles", buffers=(alloc.buffer,), depth=depth, producers=("main",), consumers=("main",), scope="role")
    token = Token(name="copies", engine="copy")
    body = (
        alloc,
        Acquire(channel=tiles), Issue(operation=fill, token=token), Wait(token=token), Put(channel=tiles),
        Get(channel=tiles), Slotted(operation=read, lags=((tiles, 0),)),
        Acquire(channel=tiles), fill, Put(channel=tiles),
        Get(channel=tiles), Slotted(operation=read_bits, lags=((tiles, 0),)), Slotted(operation=read, lags=((tiles, 1),)),
        Release(channel=tiles), Release(channel=tiles), Acquire(channel=tiles), fill,
    )  # fmt: skip
    return PlannedLaunch(launch=launch, roles=(Role(name="main", engine="vector", body=body),), channels=(tiles,))


def value_of(expr: Any, known: dict[Var, Any]) -> Any:
    done: dict[int, Any] = {}
    for node in operands_first(expr):
        if isinstance(node, Const):
            done[id(node)] = constant(node.value, node.dtype)
        elif isinstance(node, Var):
            done[id(node)] = known[node]
        else:
            name, dtype = operation_of(node)
            done[id(node)] = operate(name, [done[id(child)] for child in children(node)], dtype)
    return done[id(expr)]


def slots_touched(launch: PlannedLaunch, slots: dict[Any, Any]) -> list[tuple[str, int]]:
    """In order: the buffer that stands for a slot, and which slot that is then."""
    known: dict[Var, Any] = {}
    touched = []
    for statement in launch.roles[0].body:
        if isinstance(statement, (Bind, Assign)):
            known[statement.var] = value_of(statement.value, known)
        for node in walk(statement):
            buffer = getattr(node, "buffer", None)
            if buffer in slots:
                touched.append((buffer.name, int(value_of(slots[buffer], known))))
    return touched


@pytest.mark.parametrize(
    "depth, expected",
    [
        (2, [0, 0, 1, 1, 0, 0]),
        (3, [0, 0, 1, 1, 0, 2]),
        (1, [0, 0, 0, 0, 0, 0]),
    ],
)
def test_each_operation_means_the_slot_that_it_did(depth: int, expected: list[int]) -> None:
    launch, slots = single_stream(by_hand(depth))
    names = ["tile_acquired", "tile_got0", "tile_acquired", "bits_got0", "tile_got1", "tile_acquired"]
    assert slots_touched(launch, slots) == list(zip(names, expected))
    assert not launch.channels
    assert not [s for s in walk(launch) if isinstance(s, (Acquire, Put, Get, Release, Slotted))]
    (alloc,) = [s for s in launch.roles[0].body if isinstance(s, Alloc)]
    assert alloc.buffer.name == "tile"
    assert all(slot.alias is alloc.buffer for slot in slots)


def test_a_slot_has_the_type_and_the_safe_value_of_what_it_stands_for() -> None:
    launch, slots = single_stream(by_hand(2))
    assert {(slot.name, slot.dtype.name) for slot in slots} >= {("bits_got0", "int32"), ("tile_got1", "float32")}
    safe = {one.buffer.name: one.value.value for one in launch.launch.safe_values}
    assert safe == dict.fromkeys(("tile", "tile_acquired", "tile_got0", "tile_got1"), 7.0)


def test_choices_and_loops_follow_their_statements() -> None:
    before = plan(product.kernel, LOCAL_ONLY).launches[0]
    assert before.channels
    loops = tuple(s for s in before.roles[0].body if isinstance(s, For))
    launch, slots = single_stream(rebuilt(before, full_loops=loops))
    held = {id(node) for node in walk(launch)}
    assert all(id(choice.operation) in held for choice in launch.choices)
    assert {type(choice.operation) for choice in launch.choices} == {type(choice.operation) for choice in before.choices}
    assert len(launch.full_loops) == len(loops)
    assert all(id(loop) in held for loop in launch.full_loops)
    assert {slot.name for slot in slots} == {"a_acquired", "b_acquired", "a_got0", "b_got0"}


def test_what_has_no_channels_is_itself_and_several_roles_are_refused() -> None:
    before = by_hand(2)
    bare = rebuilt(before, channels=())
    assert single_stream(bare) == (bare, {})
    with pytest.raises(ValueError, match="roles are more than one stream"):
        single_stream(plan(product.kernel, LANES_ASYNC).launches[0])


def test_counters_wrap_as_the_channel_does() -> None:
    """Slot numbers stay right over many turns of a loop."""
    launch, slots = single_stream(by_hand(3))
    (got,) = [var for var in (s.var for s in launch.roles[0].body if isinstance(s, Bind)) if var.name == "tiles_got"]
    slot = next(number for buffer, number in slots.items() if buffer.name == "tile_got1")
    assert [int(value_of(slot, {got: np.int64(n)})) for n in range(1, 8)] == [n % 3 for n in range(7)]
