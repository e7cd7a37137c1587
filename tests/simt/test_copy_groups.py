"""Groups of copies that are always waited for together become one; others stay as they are."""

from __future__ import annotations

from typing import Any

import pytest

from zellige.dtypes import dtype as as_dtype
from zellige.ir.expr import Compare, Var
from zellige.ir.stmt import Barrier, Break, For, If, Serial
from zellige.ir.traverse import walk
from zellige.simt.copy_groups import with_few_groups
from zellige.simt.distribution import number
from zellige.simt.ir import LANE, CommitCopies, WaitCopies

INDEX = Var(name="i", dtype=as_dtype("int32"), kind="loop")
BLOCK = Barrier(scope="block")


def commit() -> CommitCopies:
    return CommitCopies()


def wait(leave: int) -> WaitCopies:
    return WaitCopies(leave=leave)


def loop(*body: Any) -> For:
    return For(var=INDEX, start=number(0), stop=number(4), step=number(1), kind=Serial(), body=body)


def choice(*body: Any) -> If:
    return If(condition=Compare(op="lt", left=LANE, right=number(8)), then=body)


def told(body: Any) -> list[Any]:
    """The commits ("c") and what waits leave, in the order of the text."""
    found = (node for statement in body for node in walk(statement))
    return ["c" if isinstance(n, CommitCopies) else n.leave for n in found if isinstance(n, (CommitCopies, WaitCopies))]


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ((loop(commit(), BLOCK, commit()), wait(2), BLOCK, wait(0)), ["c", 1, 0]),
        ((loop(commit(), commit(), commit(), commit()), loop(wait(6), commit(), commit())), ["c", "c", 3, "c"]),
        ((loop(commit(), commit(), commit()), wait(6), wait(3)), ["c", 2, 1]),
        ((commit(), loop(BLOCK), commit(), wait(0)), ["c", 0]),
        ((choice(commit(), commit()), wait(2)), ["c", 1]),
        ((wait(2),), [2]),
        ((), []),
    ],
)
def test_groups_that_no_wait_tells_apart_are_one(body: Any, wanted: list[Any]) -> None:
    assert told(with_few_groups(body)) == wanted


@pytest.mark.parametrize(
    "body",
    [
        (loop(commit(), commit()), wait(1)),
        (loop(commit(), wait(2), commit()), wait(0)),
        (loop(commit(), commit()), commit(), wait(2)),
        (loop(commit(), choice(commit()), commit()), wait(2)),
        (loop(commit(), choice(Break()), commit()), wait(2)),
        (loop(commit()), wait(3)),
    ],
)
def test_groups_that_are_told_apart_stay(body: Any) -> None:
    assert with_few_groups(body) == body
