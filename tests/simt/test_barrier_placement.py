"""Barriers stand where lanes would meet without one, and nowhere else."""

from __future__ import annotations

from typing import Any

from zellige.ir.expr import BOOL, INT32, Const, Var
from zellige.ir.stmt import Barrier, For, If, Serial
from zellige.simt.code import Code, with_barriers

TRUE = Const(value=True, dtype=BOOL)


def shape_of(body: tuple[Any, ...]) -> list[Any]:
    """Barriers as "|", loops and branches as lists."""
    out: list[Any] = []
    for item in body:
        match item:
            case Barrier():
                out.append("|")
            case For():
                out.append(shape_of(item.body))
            case If():
                out.append((shape_of(item.then), shape_of(item.otherwise)))
            case _:
                out.append(item)
    return out


def loop(body: list[Any]) -> For:
    zero, one = Const(value=0, dtype=INT32), Const(value=1, dtype=INT32)
    return For(var=Var(name="i", dtype=INT32, kind="loop"), start=zero, stop=one, step=one, kind=Serial(), body=tuple(body))


def test_a_read_of_what_was_written_needs_one() -> None:
    code = Code()
    code.touch(writes=["a"])
    code.touch(reads=["b"])
    code.touch(reads=["a"])
    code.touch(reads=["a"])
    assert shape_of(with_barriers(code.statements)) == ["|"]


def test_reads_do_not_meet_reads_nor_atomics_atomics() -> None:
    code = Code()
    for _ in range(3):
        code.touch(reads=["a"], atomics=["n"])
    assert shape_of(with_barriers(code.statements)) == []


def test_the_end_of_an_iteration_meets_the_next_one() -> None:
    code = Code()
    with code.nested() as body:
        code.touch(writes=["a"])
        code.touch(reads=["a"])
    code.emit(loop(body))
    assert shape_of(with_barriers(code.statements)) == [["|", "|"]]


def test_one_barrier_serves_what_landed_and_what_is_free() -> None:
    code = Code()
    with code.nested() as body:
        code.mark("landed")
        code.wait("landed")
        code.wait("free")
        code.mark("free")
    code.emit(loop(body))
    assert shape_of(with_barriers(code.statements)) == [["|"]]


def test_a_branch_leaves_what_either_side_touched() -> None:
    code = Code()
    with code.nested() as then:
        code.touch(writes=["a"])
    code.emit(If(condition=TRUE, then=tuple(then)))
    code.touch(reads=["a"])
    assert shape_of(with_barriers(code.statements)) == [([], []), "|"]


def test_quiet_code_says_nothing() -> None:
    code = Code()
    code.touch(writes=["a"])
    with code.quiet():
        code.touch(reads=["a"])
    assert shape_of(with_barriers(code.statements)) == []
