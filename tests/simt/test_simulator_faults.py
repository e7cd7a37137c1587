"""What hand-written thread-level programs do wrong is found, with the line and the lanes; what they do right runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from zellige.diagnostics import InternalError, LaunchError, Span
from zellige.dtypes import dtype as as_dtype
from zellige.ir.expr import INT32, Binary, Buffer, Compare, Const, Expr, Load, Select, Var
from zellige.ir.stmt import Alloc, Atomic, Barrier, Bind, For, If, Return, Serial, Shuffle, Store, Vote, While
from zellige.ir.traverse import rebuilt
from zellige.simt import ir
from zellige.simt.ir import LANE, THREAD, WARP, Function, Memory, Module, Pointer
from zellige.simt.simulate.report import Report
from zellige.simt.simulate.run import simulate

FLOAT32 = as_dtype("float32")
FLOAT16 = as_dtype("float16")
UINT64 = as_dtype("uint64")
HERE = Span(file="user.py", line=12, column=1)


def number(value: int) -> Const:
    return Const(value=value, dtype=INT32)


def op(word: Any, left: Expr, right: Expr | int) -> Expr:
    return Binary(op=word, left=left, right=number(right) if isinstance(right, int) else right)


def less(left: Expr, right: int) -> Expr:
    return Compare(op="lt", left=left, right=number(right))


def equal(left: Expr, right: int) -> Expr:
    return Compare(op="eq", left=left, right=number(right))


OUT = Buffer(name="out", dtype=INT32, shape=(number(64),))
IN = Buffer(name="given", dtype=INT32, shape=(number(64),))
TILE = Buffer(name="tile", dtype=INT32, shape=(number(64),), space="shared")
BARRIERS = Buffer(name="barriers", dtype=UINT64, shape=(number(2),), space="shared")


def program(*body: Any, threads: int = 64, blocks: int = 1) -> Module:
    function = Function(
        name="program", threads=threads, lanes=32, grid=(number(blocks),), grid_vars=(Var(name="bx", dtype=INT32, kind="grid"),),
        params=(
            Pointer(buffer=IN, tensor=IN, alignment=16, is_written=False), Pointer(buffer=OUT, tensor=OUT, alignment=16, is_written=True),
        ),
        memories=(Memory(buffer=TILE, offset=0), Memory(buffer=BARRIERS, offset=256)), shared_bytes=384, body=body, span=HERE,
    )  # fmt: skip
    return Module(name="program", functions=(function,))


def run(*body: Any, seed: int = 0, report: Report | None = None, **options: Any) -> Any:
    """The tensor ``out`` after a program; ``given`` holds 0 to 63."""
    given, out = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    simulate(program(*body, **options), {IN: given.view(np.uint8), OUT: out.view(np.uint8)}, {}, seed=seed, report=report)
    return out


def fault(codes: str, *body: Any, seeds: int = 1, **options: Any) -> str:
    """The text of the fault that every seed finds; ``codes`` where it depends on who comes first."""
    texts = []
    for seed in range(seeds):
        with pytest.raises(LaunchError) as caught:
            run(*body, seed=seed, **options)
        assert caught.value.code in codes
        texts.append(str(caught.value))
    assert "user.py:12" in texts[0]
    return texts[0]


def store(buffer: Buffer, index: Expr | int, value: Expr | int) -> Store:
    where = number(index) if isinstance(index, int) else index
    return Store(buffer=buffer, indices=(where,), value=number(value) if isinstance(value, int) else value, span=HERE)


def load(buffer: Buffer, index: Expr | int) -> Load:
    return Load(buffer=buffer, indices=(number(index) if isinstance(index, int) else index,), span=HERE)


BLOCK = Barrier(scope="block", span=HERE)
OTHER = op("bitxor", THREAD, 63)
NEIGHBOUR = op("bitxor", THREAD, 1)


def test_a_barrier_orders_lanes() -> None:
    found = run(store(TILE, THREAD, load(IN, THREAD)), BLOCK, store(OUT, THREAD, load(TILE, OTHER)))
    np.testing.assert_array_equal(found, np.arange(64)[::-1])


def test_reads_of_what_another_warp_wrote_without_a_barrier() -> None:
    body = store(TILE, THREAD, 1), If(condition=less(THREAD, 32), then=(store(OUT, THREAD, load(TILE, THREAD)),)), store(TILE, OTHER, 2)
    text = fault("E652", *body, seeds=4)
    assert "tile" in text


def test_lanes_of_one_warp_need_its_barrier() -> None:
    def body(*between: Any) -> tuple[Any, ...]:
        return store(TILE, THREAD, load(IN, THREAD)), *between, store(OUT, THREAD, load(TILE, NEIGHBOUR))

    assert "lane" in fault("E652", *body())
    np.testing.assert_array_equal(run(*body(Barrier(scope="warp"))), np.arange(64) ^ 1)


def test_two_lanes_that_write_one_element() -> None:
    assert "same statement" in fault("E652", store(TILE, op("truncdiv", THREAD, 2), THREAD))


def test_writing_what_another_lane_reads() -> None:
    fault("E652", store(TILE, THREAD, 1), BLOCK, store(OUT, THREAD, load(TILE, OTHER)), store(TILE, THREAD, 2), seeds=3)


def test_blocks_race_in_global_memory_but_not_by_atomics() -> None:
    fault("E652", store(OUT, THREAD, WARP), blocks=2)
    add = Atomic(op="add", buffer=OUT, indices=(op("truncmod", THREAD, 4),), value=number(1), span=HERE)
    np.testing.assert_array_equal(run(add, blocks=2)[:5], [32, 32, 32, 32, 0])


def test_an_atomic_and_a_plain_access_race() -> None:
    add = Atomic(op="add", buffer=OUT, indices=(number(0),), value=number(1), span=HERE)
    fault("E652", add, If(condition=equal(THREAD, 40), then=(store(OUT, 0, 5),)))


def test_an_element_outside() -> None:
    assert "lanes 60 to 63" in fault("E650", store(OUT, op("add", THREAD, 4), 1)) or "element 64" in fault(
        "E650", store(OUT, op("add", THREAD, 4), 1)
    )


def test_a_guarded_load_touches_nothing() -> None:
    far = op("mul", THREAD, 1000)
    guarded = Select(condition=less(THREAD, 1), then=load(IN, far), otherwise=number(7))
    assert run(store(OUT, THREAD, guarded)).tolist() == [0] + [7] * 63


def test_shared_memory_that_nobody_wrote() -> None:
    body = If(condition=less(THREAD, 32), then=(store(TILE, THREAD, 1),)), BLOCK, store(OUT, THREAD, load(TILE, THREAD))
    assert "lanes 32 to 63" in fault("E651", *body)


def test_a_wide_access_of_a_tensor_that_is_not_aligned() -> None:
    wide = Buffer(name="out", dtype=INT32.with_lanes(4), shape=(number(64),), alias=OUT)
    vector = Const(value=3, dtype=INT32.with_lanes(4))
    data = np.zeros(80, np.int32)
    first = -data.ctypes.data // 4 % 4
    for shift in (0, 1):
        out = data[first + shift :][:64]
        call = program(If(condition=less(THREAD, 16), then=(Store(buffer=wide, indices=(THREAD,), value=vector, span=HERE),)))
        tensors = {IN: np.zeros(64, np.int32).view(np.uint8), OUT: out.view(np.uint8)}
        if shift:
            with pytest.raises(LaunchError, match="E653"):
                simulate(call, tensors, {})
        else:
            simulate(call, tensors, {})
            assert (out == 3).all()


def test_a_barrier_that_some_lanes_do_not_reach() -> None:
    part = If(condition=less(THREAD, 16), then=(BLOCK,))
    assert "lanes 16 to 31" in fault("E655", part)
    named = ir.NamedBarrier(number=number(1), lanes=64, span=HERE)
    assert "lanes 0 to 31 wait" in fault("E654", If(condition=less(THREAD, 32), then=(named,)))


def test_lanes_that_have_returned_are_not_waited_for() -> None:
    found = run(If(condition=less(THREAD, 40), then=(Return(),)), BLOCK, store(OUT, THREAD, 1))
    assert found.sum() == 24


def test_named_barriers_join_their_lanes() -> None:
    join = ir.NamedBarrier(number=WARP, lanes=32, span=HERE)
    body = store(TILE, THREAD, load(IN, THREAD)), join, store(OUT, THREAD, load(TILE, NEIGHBOUR))
    np.testing.assert_array_equal(run(*body), np.arange(64) ^ 1)
    again = store(TILE, THREAD, load(IN, THREAD)), join, store(OUT, THREAD, load(TILE, OTHER))
    fault("E652", *again)
    fault("E657", ir.NamedBarrier(number=number(1), lanes=16, span=HERE))


def test_loops_that_lanes_leave_at_different_times() -> None:
    total = Var(name="total", dtype=INT32, kind="mutable")
    i = Var(name="i", dtype=INT32, kind="loop")
    step = Bind(var=total, value=op("add", total, i))
    loop = For(var=i, start=number(0), stop=op("truncmod", THREAD, 5), step=number(1), kind=Serial(), body=(step,))
    found = run(Bind(var=total, value=number(0)), loop, store(OUT, THREAD, total))
    np.testing.assert_array_equal(found, [sum(range(t % 5)) for t in range(64)])


def test_shuffles_and_votes() -> None:
    other, many = Var(name="other", dtype=INT32, kind="value"), Var(name="many", dtype=INT32, kind="value")
    shuffle = Shuffle(result=other, mode="down", value=THREAD, operand=number(3), width=8, span=HERE)
    vote = Vote(result=many, mode="count", scope="block", predicate=less(THREAD, 40), span=HERE)
    found = run(shuffle, vote, store(OUT, THREAD, op("add", op("mul", many, 1000), other)))
    np.testing.assert_array_equal(found, [40000 + (t + 3 if t % 8 < 5 else t) for t in range(64)])
    fault("E655", If(condition=less(LANE, 4), then=(shuffle,)))


COPY = ir.AsyncCopy(
    target=TILE, target_index=op("mul", THREAD, 4), source=IN, source_index=op("mul", THREAD, 4), size=16,
    is_valid=less(THREAD, 8), span=HERE,
)  # fmt: skip


def copied(*after: Any) -> tuple[Any, ...]:
    return If(condition=less(THREAD, 16), then=(COPY,)), *after


def test_copies_land_by_the_wait_and_zeros_where_they_are_not_valid() -> None:
    for seed in range(4):
        found = run(*copied(ir.CommitCopies(), ir.WaitCopies(leave=0), BLOCK, store(OUT, THREAD, load(TILE, OTHER))), seed=seed)
        np.testing.assert_array_equal(found[::-1], [t if t < 32 else 0 for t in range(64)])


def test_touching_a_copy_before_its_wait() -> None:
    read = store(OUT, THREAD, load(TILE, THREAD))
    fault("E656", *copied(ir.CommitCopies(), ir.WaitCopies(leave=1), BLOCK, read), seeds=3)
    fault("E656", *copied(ir.WaitCopies(leave=0), BLOCK, read), seeds=3)  # not committed
    fault("E651 E652 E656", *copied(ir.CommitCopies(), ir.WaitCopies(leave=0), store(OUT, THREAD, load(TILE, OTHER))), seeds=3)


def test_transaction_barriers_by_phase() -> None:
    first = equal(THREAD, 0)
    making = ir.BarrierInit(barriers=BARRIERS, index=number(0), arrivals=32, span=HERE)
    made = If(condition=first, then=(making, ir.Fence(to="barriers")))
    arrive = If(condition=less(THREAD, 32), then=(store(TILE, THREAD, load(IN, THREAD)), ir.Arrive(barriers=BARRIERS, index=number(0))))
    wait = ir.WaitBarrier(barriers=BARRIERS, index=number(0), parity=number(0), span=HERE)
    read = store(OUT, THREAD, load(TILE, op("truncmod", op("add", THREAD, 1), 32)))
    np.testing.assert_array_equal(run(made, BLOCK, arrive, wait, read), [(t + 1) % 32 for t in range(64)])
    fault("E652", made, BLOCK, arrive, If(condition=less(THREAD, 32), then=(wait,)), If(condition=first, then=()), read, seeds=1)
    later = ir.WaitBarrier(barriers=BARRIERS, index=number(0), parity=number(1), span=HERE)
    assert "phase 1" in fault("E654", made, BLOCK, arrive, wait, later)
    fault("E657", arrive)
    fault("E657", If(condition=first, then=(making,)), BLOCK, arrive, wait)
    fault("E657", made, arrive, wait)
    fault("E657", made, made, BLOCK, arrive, wait)


BOX_TENSOR = Buffer(name="given", dtype=INT32, shape=(number(8), number(8)))


def boxed(module: Module, box: Any) -> Module:
    """The program with ``given`` known as an 8 x 8 tensor, on a machine of engines."""
    function = module.functions[0]
    pointer = Pointer(buffer=IN, tensor=BOX_TENSOR, alignment=16, is_written=False)
    changed = rebuilt(function, params=(pointer, function.params[1]), exchange=ir.Exchange(piece_bytes=16, rows=8))
    return Module(name="program", functions=(changed,))


@pytest.mark.parametrize("seed", range(3))
def test_a_box_lands_on_its_barrier_with_zeros_outside(seed: int) -> None:
    box = ir.TensorBox(tensor=BOX_TENSOR, box=(4, 8))
    ask = ir.TensorCopy(
        box=box, origin=(number(6), number(0)), memory=TILE, memory_index=number(0), barriers=BARRIERS, index=number(0), span=HERE
    )
    first = equal(THREAD, 0)
    making = ir.BarrierInit(barriers=BARRIERS, index=number(0), arrivals=1, span=HERE)
    made = If(condition=first, then=(making, ir.Fence(to="barriers")))
    start = If(condition=first, then=(ir.ExpectBytes(barriers=BARRIERS, index=number(0), bytes=number(128)), ask))
    wait = ir.WaitBarrier(barriers=BARRIERS, index=number(0), parity=number(0), span=HERE)
    read = If(condition=less(THREAD, 32), then=(store(OUT, THREAD, load(TILE, THREAD)),))

    def result(*body: Any) -> Any:
        out = np.zeros(64, np.int32)
        module = boxed(program(*body), box)
        simulate(module, {BOX_TENSOR: np.arange(64, dtype=np.int32).view(np.uint8), OUT: out.view(np.uint8)}, {}, seed=seed)
        return out

    np.testing.assert_array_equal(result(made, BLOCK, start, wait, read)[:32], [*range(48, 64), *[0] * 16])
    with pytest.raises(LaunchError, match="E656|E652|E651"):
        result(made, BLOCK, start, read, wait)
    more = If(condition=first, then=(ir.ExpectBytes(barriers=BARRIERS, index=number(0), bytes=number(256)), ask))
    with pytest.raises(LaunchError, match="E654"):
        result(made, BLOCK, more, wait, read)
    with pytest.raises(LaunchError, match="E657"):
        result(If(condition=first, then=(making,)), start, BLOCK, wait, read)  # the lane that made it asks, and showed it to no engine


def test_a_box_on_a_machine_that_does_not_say_how_it_stands_in_memory_is_a_fault_of_the_compiler() -> None:
    ask = ir.TensorCopy(
        box=ir.TensorBox(tensor=BOX_TENSOR, box=(4, 8)), origin=(number(6), number(0)), memory=TILE, memory_index=number(0),
        barriers=BARRIERS, index=number(0),
    )  # fmt: skip
    module = boxed(program(ask), None)
    (function,) = module.functions
    unsaid = Module(name="program", functions=(rebuilt(function, exchange=None),))
    with pytest.raises(InternalError, match="does not say how they have tiles in shared memory"):
        simulate(unsaid, {BOX_TENSOR: np.zeros(64, np.int32).view(np.uint8), OUT: np.zeros(64, np.int32).view(np.uint8)}, {}, seed=0)


def test_bank_conflicts_are_counted() -> None:
    def degree(stride: int) -> int:
        report = Report()
        index = op("truncmod", op("mul", LANE, stride), 64)
        run(If(condition=less(THREAD, 2), then=(store(TILE, index, 1),)), report=report)
        return report.degree

    assert degree(1) == 1
    assert degree(32) == 2


def test_a_spin_on_a_flag_of_another_block() -> None:
    """A block that waits for another one: all blocks run together, the flag's order carries what was written before it."""
    seen = Var(name="seen", dtype=INT32, kind="mutable")
    look = Atomic(op="load", buffer=OUT, indices=(number(63),), value=None, order="acquire", result=seen, span=HERE)
    spin = While(condition=equal(seen, 0), body=(look,))
    publish = Atomic(op="store", buffer=OUT, indices=(number(63),), value=number(1), order="release", span=HERE)
    grid = program(threads=32, blocks=2).functions[0].grid_vars[0]
    waits = (Bind(var=seen, value=number(0)), spin, store(OUT, 1, load(OUT, 0)))
    body = If(condition=equal(LANE, 0), then=(If(condition=equal(grid, 0), then=waits, otherwise=(store(OUT, 0, 9), publish)),))
    function = program(body, threads=32, blocks=2).functions[0]
    module = Module(name="m", functions=(rebuilt(function, grid_vars=(grid,)),))
    out = np.zeros(64, np.int32)
    simulate(module, {IN: out.view(np.uint8), OUT: out.view(np.uint8)}, {})
    assert out[1] == 9


def test_matrices_move_as_their_meaning_says() -> None:
    halves = Buffer(name="tile", dtype=FLOAT16, shape=(number(64),), space="shared", alias=TILE)
    held = Buffer(name="held", dtype=FLOAT16, shape=(number(2),), space="registers")
    source = op("mul", op("truncmod", LANE, 8), 8)
    half = Buffer(name="out", dtype=FLOAT16, shape=(number(128),), alias=OUT)
    for is_transposed in (False, True):
        body = (
            If(condition=less(THREAD, 32), then=(
                store(TILE, THREAD, load(IN, THREAD)), Barrier(scope="warp"), Alloc(buffer=held),
                ir.MatrixLoad(into=ir.Registers(buffer=held, start=number(0)), buffer=halves, source=source, count=1,
                              is_transposed=is_transposed, span=HERE),
                *(Store(buffer=half, indices=(op("add", op("mul", LANE, 2), i),), value=Load(buffer=held, indices=(number(i),)))
                  for i in range(2)),
            )),
        )  # fmt: skip
        found = run(*body).view(np.uint16)[:64].reshape(8, 8)
        given = np.arange(32, dtype=np.int32).view(np.uint16).reshape(8, 8)
        np.testing.assert_array_equal(found, given.T if is_transposed else given)
    load_all = ir.MatrixLoad(into=ir.Registers(buffer=held, start=number(0)), buffer=halves, source=source, count=1, span=HERE)
    fault("E655", Alloc(buffer=held), If(condition=less(LANE, 30), then=(load_all,)))
