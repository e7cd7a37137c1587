"""Random control flow in which lanes part: whoever the program says takes part in an exchange is who is there, as the simulator finds."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from zellige.dtypes import dtype as as_dtype
from zellige.ir.expr import BOOL, INT32, Binary, Buffer, Compare, Const, Expr, Var, const
from zellige.ir.stmt import Assign, Bind, Break, Continue, For, If, Return, Serial, Store, Vote, While
from zellige.ir.traverse import rebuilt, walk
from zellige.simt.ir import LANE, Function, Module, PartedVote, Pointer, Taking
from zellige.simt.simulate.run import simulate
from zellige.simt.taking_part import with_lanes_named

LANES = 32
OUT = Buffer(name="out", dtype=INT32, shape=(const(LANES, INT32),), space="global")
BLOCK = Var(name="bx", dtype=INT32, kind="grid")
TRUE = Const(value=True, dtype=BOOL)


class Program:
    """Grows a body: each lane adds up how many were there at each of its exchanges, weighed by the exchange, and stores the sum."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.total = Var(name="total", dtype=INT32, kind="mutable")
        self.exchanges = 0
        self.left = 14

    def body(self) -> tuple[Any, ...]:
        return (Bind(var=self.total, value=const(0, INT32)), *self.statements((), 0), *self.exchange(), self.store())

    def store(self) -> Store:
        return Store(buffer=OUT, indices=(LANE,), value=self.total)

    def exchange(self) -> tuple[Any, ...]:
        self.exchanges += 1
        count = Var(name="count", dtype=INT32, kind="value")
        weight = const(self.exchanges, INT32)
        more = Binary(op="add", left=self.total, right=Binary(op="mul", left=count, right=weight))
        return PartedVote(result=count, mode="count", scope="warp", predicate=TRUE), Assign(var=self.total, value=more)

    def number(self, loops: tuple[Var, ...]) -> Expr:
        """Something that differs between lanes, or does not."""
        own = self.chance.choice((LANE, LANE, LANE, BLOCK, *loops))
        added = self.chance.choice((const(0, INT32), const(self.chance.randrange(5), INT32), *loops))
        return Binary(op="truncmod", left=Binary(op="add", left=own, right=added), right=const(self.chance.randint(2, 5), INT32))

    def condition(self, loops: tuple[Var, ...]) -> Expr:
        op = self.chance.choice(("lt", "eq", "ge"))
        return Compare(op=op, left=self.number(loops), right=const(self.chance.randrange(3), INT32))

    def statements(self, loops: tuple[Var, ...], depth: int, *, is_in_loop: bool = False) -> tuple[Any, ...]:
        made: list[Any] = []
        for _ in range(self.chance.randint(1, 3)):
            self.left -= 1
            kind = self.chance.choice(("exchange", "if", "if", "if", "for", "while"))
            if kind == "exchange" or depth == 4 or self.left <= 0:
                made += self.exchange()
            elif kind == "if":
                then = self.statements(loops, depth + 1, is_in_loop=is_in_loop)
                otherwise = self.statements(loops, depth + 1, is_in_loop=is_in_loop) if self.chance.random() < 0.4 else ()
                made.append(If(condition=self.condition(loops), then=then, otherwise=otherwise))
            elif kind == "for":
                made.append(self.loop(loops, depth))
            else:
                i = Var(name="i", dtype=INT32, kind="mutable")
                ends = If(condition=Compare(op="ge", left=i, right=self.number(loops)), then=(Break(),))
                onward = Assign(var=i, value=Binary(op="add", left=i, right=const(1, INT32)))
                inside = (ends, onward, *self.statements(loops, depth + 1, is_in_loop=True))
                made += [Bind(var=i, value=const(0, INT32)), While(condition=TRUE, body=inside)]
        if depth and self.chance.random() < 0.35:
            jump = self.chance.choice((Break(), Continue(), Return())) if is_in_loop else Return()
            made = made if self.chance.random() < 0.5 else []
            made += [self.store(), jump] if isinstance(jump, Return) else [jump]
        return tuple(made)

    def loop(self, loops: tuple[Var, ...], depth: int) -> For:
        var = Var(name="r", dtype=INT32, kind="loop")
        low, high = const(self.chance.randrange(2), INT32), self.number(loops)
        step = self.chance.choice((1, 1, 2, -1))
        start, stop = (low, high) if step > 0 else (high, low)
        inside = self.statements((*loops, var), depth + 1, is_in_loop=True)
        return For(var=var, start=start, stop=stop, step=const(step, INT32), kind=Serial(), body=inside)


def result(body: tuple[Any, ...]) -> np.ndarray:
    pointer = Pointer(buffer=OUT, tensor=OUT, alignment=16, is_written=True, is_aliased=True)
    function = Function(
        name="k", params=(pointer,), grid=(const(1, INT32),), grid_vars=(BLOCK,), threads=LANES, lanes=LANES, body=body
    )  # fmt: skip
    out = np.full(LANES, -1, np.int32)
    simulate(Module(name="k", functions=(function,)), {OUT: out.view(np.uint8)}, {})
    return out


def checked(body: tuple[Any, ...]) -> tuple[Any, ...]:
    """The body in which the simulator sees to it that all of the warp are at an exchange that names nobody."""
    made: list[Any] = []
    for statement in body:
        changes = {name: checked(getattr(statement, name)) for name in type(statement).BODIES}
        if isinstance(statement, Vote) and not isinstance(statement, PartedVote):
            everyone = Var(name="everyone", dtype=as_dtype("uint64"), kind="value")
            made.append(Taking(result=everyone, among=None, condition=TRUE))
        made.append(rebuilt(statement, **changes) if changes else statement)
    return tuple(made)


def known(body: tuple[Any, ...]) -> tuple[int, int]:
    """How many exchanges say who takes part, and how many there are."""
    votes = [node for statement in body for node in walk(statement) if isinstance(node, Vote)]
    return sum(not isinstance(v, PartedVote) or v.among is not None for v in votes), len(votes)


@pytest.mark.parametrize("seed", range(20))
def test_who_is_there_is_who_is_named(seed: int) -> None:
    named = everyone = 0
    for at in range(25):
        body = Program(1000 * seed + at).body()
        made = with_lanes_named(body, (BLOCK,))
        np.testing.assert_array_equal(result(checked(made)), result(body), err_msg=f"program {1000 * seed + at}")
        some, count = known(made)
        named, everyone = named + some, everyone + count
    assert everyone > 50 and named > everyone // 5, f"{named} of {everyone}"
