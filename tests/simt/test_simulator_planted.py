"""Faults planted in lowered programs are caught: by the simulator, or because the results differ from those of the program as it was."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zellige.language as T
from zellige.diagnostics import LaunchError
from zellige.ir.expr import BOOL, Binary, Compare, Const, Expr, Load
from zellige.ir.stmt import Assign, Atomic, Barrier, Bind, If, Shuffle, Store
from zellige.ir.traverse import rebuilt, rewrite, walk
from zellige.simt import elements, ir
from zellige.simt.context import Context
from zellige.simt.distribution import number

sys.path.insert(0, str(Path(__file__).parent))
from simulated import lowered, run_module, whole_numbers  # noqa: E402


@T.prim_func
def product(A: T.Tensor((60, 72), "float16"), B: T.Tensor((72, 64), "float16"), C: T.Tensor((60, 64), "float32")):
    with T.Kernel(2, 2, threads=64) as (bx, by):
        a = T.alloc_shared((32, 16), "float16")
        b = T.alloc_shared((16, 32), "float16")
        c = T.alloc_fragment((32, 32), "float32")
        T.clear(c)
        for s in T.Pipelined(5, num_stages=3):
            T.copy(A[by * 32, s * 16], a)
            T.copy(B[s * 16, bx * 32], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * 32, bx * 32])


@T.prim_func
def sums(A: T.Tensor((3, 40), "float32"), S: T.Tensor((3,), "float32")):
    with T.Kernel(1, threads=64):
        tile = T.alloc_fragment((3, 40), "float32")
        total = T.alloc_fragment((3,), "float32")
        T.copy(A, tile)
        T.reduce_sum(tile, total, dim=1)
        T.copy(total, S)


@T.prim_func
def counts(V: T.Tensor((200,), "int32"), H: T.Tensor((8,), "int32")):
    with T.Kernel(2, threads=64) as b:
        found = T.alloc_shared((8,), "int32")
        T.clear(found)
        for i in T.Parallel(128):
            if b * 128 + i < 200:
                T.atomic_add(found[V[b * 128 + i]], 1)
        for j in T.Parallel(8):
            T.atomic_add(H[j], found[j])


@T.prim_func
def padded(A: T.Tensor((32, 32), "float32"), B: T.Tensor((32, 32), "float32")):
    with T.Kernel(1, threads=64):
        tile = T.alloc_shared((32, 32), "float32")
        T.annotate_layout({tile: T.Layout((32, 32), lambda i, j: i * 33 + j)})
        T.copy(A, tile)
        T.transpose(tile, B)


ARRAYS = {
    product: [whole_numbers((60, 72), np.float16, 1), whole_numbers((72, 64), np.float16, 2), np.zeros((60, 64), np.float32)],
    sums: [whole_numbers((3, 40), np.float32), np.zeros(3, np.float32)],
    counts: [np.random.default_rng(5).integers(0, 8, 200).astype(np.int32), np.zeros(8, np.int32)],
    padded: [whole_numbers((32, 32), np.float32), np.zeros((32, 32), np.float32)],
}

WANTED: dict[Any, Callable[..., Any]] = {
    product: lambda A, B, C: A.astype(np.float32) @ B.astype(np.float32),
    sums: lambda A, S: A.sum(axis=1),
    counts: lambda V, H: np.bincount(V, minlength=8),
    padded: lambda A, B: A.T,
}


def results(function: Any, change: Callable[[Any], Any] | None = None, seed: int = 0) -> Any:
    """The last tensor after the program, changed statement by statement (None: the statement is left out)."""
    kernel, module = lowered(function)
    changed = [0]

    def edit(items: Any) -> Any:
        out = []
        for item in items:
            bodies = {name: edit(getattr(item, name)) for name in getattr(type(item), "BODIES", ())}
            whole = rebuilt(item, **bodies) if bodies else item
            new = whole if change is None else change(whole)
            changed[0] += new is not whole
            if new is not None:
                out.append(new)
        return tuple(out)

    module = rebuilt(module, functions=tuple(rebuilt(f, body=edit(f.body)) for f in module.functions))
    assert change is None or changed[0], "nothing was planted"
    arrays = [a.copy() for a in ARRAYS[function]]
    run_module(kernel, module, arrays, seed=seed)
    return arrays[-1]


def caught(function: Any, change: Callable[[Any], Any] | None = None) -> str:
    """What finds the fault: a code, or "results"."""
    try:
        found = results(function, change)
    except LaunchError as error:
        return error.code
    return "nothing" if np.array_equal(found, WANTED[function](*ARRAYS[function])) else "results"


def in_source(change: Callable[[Expr], Expr]) -> Callable[[Any], Any]:
    """Change the place that matrix loads read."""
    return lambda s: rebuilt(s, source=change(s.source)) if isinstance(s, ir.MatrixLoad) else s


def without(kind: Any, where: Callable[[Any], bool] = lambda s: True) -> Callable[[Any], Any]:
    return lambda s: None if isinstance(s, kind) and where(s) else s


def without_swizzle(expr: Expr) -> Expr:
    return rewrite(expr, lambda n: n.left if isinstance(n, Binary) and n.op == "bitxor" else n)  # type: ignore[return-value]


def unswizzled_names(s: Any) -> Any:
    """Matrix loads, and the names that their places go by, read as if nothing were swizzled."""
    if isinstance(s, Bind) and s.var.name.startswith("at_"):
        return rebuilt(s, value=without_swizzle(s.value)) if _has_swizzle(s.value) else s
    return rebuilt(s, source=without_swizzle(s.source)) if isinstance(s, ir.MatrixLoad) and _has_swizzle(s.source) else s


def _has_swizzle(expr: Expr) -> bool:
    return without_swizzle(expr) is not expr


def exchanged(s: Any) -> Any:
    """The registers of b's blocks, two by two, in the other order."""
    if not isinstance(s, ir.Product):
        return s
    return rebuilt(s, b=ir.Registers(buffer=s.b.buffer, start=Binary(op="bitxor", left=s.b.start, right=number(4))))


def dropped_step(s: Any) -> Any:
    """A shuffle that gives every lane its own value."""
    if isinstance(s, Shuffle) and isinstance(s.operand, Const) and s.operand.value == 1:
        return Bind(var=s.result, value=s.value, span=s.span)
    return s


def moved(index: Expr, by: int) -> Expr:
    return Binary(op="bitxor", left=index, right=number(by))


def lane_below(count: int) -> Expr:
    return Compare(op="lt", left=ir.LANE, right=number(count))


def unconditional(s: Any) -> Any:
    """What a condition guards, always done, where it writes a tensor."""
    if isinstance(s, If) and not s.otherwise and any(isinstance(n, Store) and n.buffer.root.space == ir.GLOBAL for n in walk(s)):
        return If(condition=Const(value=True, dtype=BOOL), then=s.then)
    return s


def plain_change(s: Any) -> Any:
    """An atomic addition to shared memory as a read, an addition and a write."""
    if not isinstance(s, Atomic) or s.buffer.root.space != ir.SHARED:
        return s
    before = Load(buffer=s.buffer, indices=s.indices)
    return Store(buffer=s.buffer, indices=s.indices, value=Binary(op="add", left=before, right=s.value))


def other_pitch(s: Any) -> Any:
    """Writes to shared memory as if its rows had no gap."""
    if not isinstance(s, Store) or s.buffer.root.space != ir.SHARED:
        return s
    return rebuilt(s, indices=(rewrite(s.indices[0], lambda n: number(32) if isinstance(n, Const) and n.value == 33 else n),))


PLANTED: dict[str, tuple[Any, Callable[[Any], Any], str]] = {
    "barrier removed": (product, without(Barrier), "E652 E656 E651"),
    "wait one too early": (product, lambda s: rebuilt(s, leave=s.leave + 2) if isinstance(s, ir.WaitCopies) else s, "E656"),
    "group not committed": (product, without(ir.CommitCopies), "E656"),
    "slot counter not advanced": (
        product, without(Assign, lambda s: s.var.name.startswith("holding")), "E656 E651 E652 results"
    ),
    "filling counter not advanced": (product, without(Assign, lambda s: s.var.name.startswith("filling")), "E656 E651 E652 results"),
    "stage slot misaligned": (
        product,
        lambda s: rebuilt(s, target_index=Binary(op="add", left=s.target_index, right=number(1))) if isinstance(s, ir.AsyncCopy) else s,
        "E653 E650",
    ),
    "swizzle of reader and writer different": (product, unswizzled_names, "results"),
    "matrix load row off by 8": (product, in_source(lambda e: Binary(op="bitxor", left=e, right=number(8 * 16))), "results E650 E651 E656"),
    "product registers exchanged": (product, exchanged, "results"),
    "k tail not zero-filled": (product, lambda s: rebuilt(s, is_valid=None) if isinstance(s, ir.AsyncCopy) else s, "E650 results"),
    "sums not cleared": (
        product, without(Store, lambda s: s.buffer.name == "c" and isinstance(s.value, Const) and s.value.value == 0), "results"
    ),
    "shuffle step dropped": (sums, dropped_step, "results"),
    "shuffle mask short": (
        sums, lambda s: If(condition=lane_below(16), then=(s,)) if isinstance(s, Shuffle) else s, "E655 results"
    ),
    "shuffle width short": (
        sums, lambda s: rebuilt(s, width=4, operand=number(s.operand.value % 4)) if isinstance(s, Shuffle) else s, "results"
    ),
    "copies not waited for": (product, without(ir.WaitCopies), "E656"),
    "fewer bytes copied": (product, lambda s: rebuilt(s, size=8) if isinstance(s, ir.AsyncCopy) else s, "E651"),
    "copies to the slot before": (
        product,
        lambda s: rebuilt(s, target_index=moved(s.target_index, 512)) if isinstance(s, ir.AsyncCopy) else s,
        "E650 E651 E652 E656 results",
    ),
    "predicates of stores dropped": (product, unconditional, "E650"),
    "atomic change made of a read and a write": (counts, plain_change, "E652"),
    "memory not cleared": (
        counts, without(Store, lambda s: s.buffer.root.name == "found" and isinstance(s.value, Const)), "E651"
    ),
    "reader and writer of a padded tile differ": (padded, other_pitch, "E650 E651 results"),
    "lanes parted at a barrier": (
        padded, lambda s: If(condition=lane_below(31), then=(s,)) if isinstance(s, Barrier) else s, "E655"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_caught(name: str) -> None:
    function, change, by = PLANTED[name]
    assert caught(function, change) in by.split()


@pytest.mark.parametrize("function", [product, sums, counts, padded])
def test_the_programs_as_they_are_lowered_are_right(function: Any) -> None:
    assert caught(function) == "nothing"


def test_every_lane_that_holds_an_element_stores_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Context, "is_owner", lambda self, distribution: None)
    assert caught(sums) == "E652"


@pytest.mark.parametrize("function", [product, sums, counts, padded])
def test_every_barrier_is_needed(function: Any) -> None:
    """Each by itself: without it a race is found, or the results are wrong."""
    _, module = lowered(function)
    barriers = [n for n in walk(module.functions[0]) if isinstance(n, Barrier)]
    assert barriers
    for barrier in barriers:
        number_of = barriers.index(barrier)
        seen = iter(range(1000))
        found = caught(function, lambda s, seen=seen, which=number_of: None if isinstance(s, Barrier) and next(seen) == which else s)
        assert found in ("E651", "E652", "E656", "results"), f"without barrier {number_of} at {barrier.span}: {found}"


def test_two_tiles_at_one_place() -> None:
    kernel, module = lowered(product)
    (function,) = module.functions
    moved = rebuilt(function, memories=tuple(replace(m, offset=0) for m in function.memories))
    arrays = [a.copy() for a in ARRAYS[product]]
    with pytest.raises(LaunchError) as raised:
        run_module(kernel, rebuilt(module, functions=(moved,)), arrays)
    assert raised.value.code in ("E651", "E652", "E656")


def test_every_lane_with_the_same_points_adds_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Context, "is_owner", lambda self, distribution: None)
    assert caught(counts) in ("E652", "results")


def test_bounds_tests_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elements, "_tests", lambda ctx, buffer, extents, indices: [])
    assert caught(product) in ("E650", "E652", "results")


@pytest.mark.parametrize("seed", range(1, 4))
def test_no_schedule_changes_the_results(seed: int) -> None:
    np.testing.assert_array_equal(results(product, seed=seed), results(product))
