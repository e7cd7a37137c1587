"""Which accesses of blocks the simulator takes for ordered: releases, acquires that read them, fences and barriers, and nothing else."""

import numpy as np
import pytest

import zellige
import zellige.language as T
from zellige.diagnostics import LaunchError
from zellige.dtypes import dtype as as_dtype
from zellige.ir.expr import INT32, Buffer, Compare, Const, Expr, Load, Var
from zellige.ir.stmt import Atomic, Barrier, Break, If, Store, While
from zellige.simt.ir import THREAD, Fence, Function, Module, Pointer
from zellige.simt.simulate.run import simulate

TARGET = "cuda:sm_80,simulate"


def unrelated(kind: str):
    @T.prim_func
    def k(A: T.Tensor((64,), "int32"), B: T.Tensor((128,), "int32"), F: T.Tensor((4,), "int32")):
        with T.Kernel(2, threads=64) as b:
            tx = T.get_thread_binding()
            if kind == "add":
                T.atomic_add(F[0], 1)
            elif kind == "store":
                T.atomic_store(F[1], 1)
            elif kind == "acquire":
                B[b * 64 + tx] = T.atomic_load(F[3], "acquire")
            elif kind == "relaxed":
                B[b * 64 + tx] = T.atomic_load(F[3], "relaxed")
            A[tx] = b + tx

    return k


@pytest.mark.parametrize("kind", ["none", "add", "store", "acquire", "relaxed"])
def test_an_atomic_elsewhere_orders_nothing(kind) -> None:
    with pytest.raises(LaunchError, match="E652.* of block "):
        zellige.compile(unrelated(kind), target=TARGET)(np.zeros(64, np.int32), np.zeros(128, np.int32), np.zeros(4, np.int32))


def flag(stores: str, loads: str, *, waits_together: bool = True):
    @T.prim_func
    def k(A: T.Tensor((2,), "int32"), B: T.Tensor((128,), "int32")):
        with T.Kernel(2, threads=64) as b:
            tx = T.get_thread_binding()
            if b == 0:
                B[tx] = 42
                T.sync_threads()
                if tx == 0:
                    T.atomic_store(A[0], 1, stores)
            else:
                if tx == 0:
                    while T.atomic_load(A[0], loads) == 0:
                        T.evaluate(0)
                if waits_together:
                    T.sync_threads()
                B[64 + tx] = B[tx]

    return k


def test_a_flag_released_and_acquired() -> None:
    b = np.zeros(128, np.int32)
    zellige.compile(flag("release", "acquire"), target=TARGET)(np.zeros(2, np.int32), b)
    assert b.tolist() == [42] * 128


@pytest.mark.parametrize(
    ("stores", "loads", "waits_together"), [("relaxed", "relaxed", True), ("release", "relaxed", True), ("relaxed", "acquire", True),
                                            ("release", "acquire", False)],
)  # fmt: skip
def test_a_flag_that_orders_nothing(stores, loads, waits_together) -> None:
    with pytest.raises(LaunchError, match="E652"):
        zellige.compile(flag(stores, loads, waits_together=waits_together), target=TARGET)(np.zeros(2, np.int32), np.zeros(128, np.int32))


@T.prim_func
def last_of_blocks(A: T.Tensor((4, 32), "int32"), count: T.Tensor((1,), "int32"), S: T.Tensor((32,), "int32")):
    with T.Kernel(4, threads=32) as b:
        tx = T.get_thread_binding()
        A[b, tx] = b + tx
        told = T.alloc_shared((1,), "int32")
        T.sync_threads()
        if tx == 0:
            told[0] = T.atomic_add(count[0], 1, return_prev=True, memory_order="acq_rel")
        T.sync_threads()
        if told[0] == 3:
            S[tx] = A[0, tx] + A[1, tx] + A[2, tx] + A[3, tx]


def test_the_last_block_knows_what_all_released() -> None:
    s = np.zeros(32, np.int32)
    zellige.compile(last_of_blocks, target=TARGET)(np.zeros((4, 32), np.int32), np.zeros(1, np.int32), s)
    np.testing.assert_array_equal(s, 6 + 4 * np.arange(32))


# ---- programs that no kernel is lowered to: fences of the grid, barriers of the grid ----

OUT = Buffer(name="out", dtype=INT32, shape=(Const(value=8, dtype=INT32),))
BLOCK = Var(name="bx", dtype=INT32, kind="grid")


def n(value: int) -> Const:
    return Const(value=value, dtype=INT32)


def equal(left: Expr, right: int) -> Expr:
    return Compare(op="eq", left=left, right=n(right))


def launched(*body: object) -> list[int]:
    pointer = Pointer(buffer=OUT, tensor=OUT, alignment=16, is_written=True)
    first = If(condition=equal(THREAD, 0), then=body)  # type: ignore[arg-type]
    function = Function(
        name="program", threads=32, lanes=32, grid=(n(2),), grid_vars=(BLOCK,), params=(pointer,), memories=(), shared_bytes=0,
        body=(first,), span=None,
    )  # fmt: skip
    out = np.zeros(8, np.int32)
    simulate(Module(name="program", functions=(function,)), {OUT: out.view(np.uint8)}, {})
    return out.tolist()


def passing(before: tuple, behind: tuple) -> list[int]:
    """Block 0 writes element 1 and sets the flag 0; block 1 waits for the flag and copies element 1 to 2."""
    seen = Var(name="seen", dtype=INT32, kind="value")
    data = Load(buffer=OUT, indices=(n(1),))
    sets = Atomic(op="store", buffer=OUT, indices=(n(0),), value=n(1), order="relaxed")
    waits = While(
        condition=Const(value=True, dtype=as_dtype("bool")),
        body=(
            Atomic(op="load", buffer=OUT, indices=(n(0),), value=None, order="relaxed", result=seen),
            If(condition=equal(seen, 1), then=(Break(),)),
        ),
    )
    writes = Store(buffer=OUT, indices=(n(1),), value=n(7))
    copies = Store(buffer=OUT, indices=(n(2),), value=data)
    return launched(If(condition=equal(BLOCK, 0), then=(writes, *before, sets), otherwise=(waits, *behind, copies)))


def test_fences_around_a_relaxed_flag() -> None:
    fence = (Fence(to="grid"),)
    assert passing(fence, fence)[:3] == [1, 7, 7]
    with pytest.raises(LaunchError, match="E652"):
        passing(fence, ())
    with pytest.raises(LaunchError, match="E652"):
        passing((), fence)


def test_a_barrier_of_the_grid() -> None:
    writes = If(condition=equal(BLOCK, 0), then=(Store(buffer=OUT, indices=(n(1),), value=n(7)),))
    copies = If(condition=equal(BLOCK, 1), then=(Store(buffer=OUT, indices=(n(2),), value=Load(buffer=OUT, indices=(n(1),))),))
    barrier = Barrier(scope="grid")
    pointer = Pointer(buffer=OUT, tensor=OUT, alignment=16, is_written=True)

    def run(*between: object) -> list[int]:
        body = (If(condition=equal(THREAD, 0), then=(writes,)), *between, If(condition=equal(THREAD, 0), then=(copies,)))
        function = Function(
            name="program", threads=32, lanes=32, grid=(n(2),), grid_vars=(BLOCK,), params=(pointer,), memories=(), shared_bytes=0,
            body=body, span=None,
        )  # fmt: skip
        out = np.zeros(8, np.int32)
        simulate(Module(name="program", functions=(function,)), {OUT: out.view(np.uint8)}, {})
        return out.tolist()

    assert run(barrier)[:3] == [0, 7, 7]
    with pytest.raises(LaunchError, match="E652"):
        run()
