"""E281's question, what of a tensor no block writes, against counting every element.

Of a single write whose offsets are sums of multiples of variables, each in one dimension, the answer is exact; of others it is only given
where something is missing.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest

from zellige.analysis.intervals import Interval
from zellige.analysis.lint_coverage import Missing, Names, Write, missing
from zellige.ir.expr import INT32, Binary, Buffer, Const, Expr, Region, Var, const

Sum = tuple[int, Sequence[tuple[int, Var]]]


def variable(name: str) -> Var:
    return Var(name=name, dtype=INT32, kind="grid")


def offset(total: Sum) -> Expr:
    start, terms = total
    made: Expr = const(start, INT32)
    for step, var in terms:
        made = Binary(op="add", left=made, right=Binary(op="mul", left=const(step, INT32), right=var))
    return made


def asked(shape: Sequence[int], writes: Sequence[tuple[Sequence[Sum], Sequence[int]]], counts: dict[Var, int]) -> Missing | None:
    buffer = Buffer(name="B", dtype=INT32, shape=tuple(const(size, INT32) for size in shape), space="global")
    names = Names(tuple(counts))
    ranges = {var: Interval(0, count - 1) for var, count in counts.items()}
    made = []
    for sums, extents in writes:
        region = Region(buffer=buffer, offsets=tuple(map(offset, sums)), extents=tuple(const(e, INT32) for e in extents))
        made.append(Write(region, ranges, names, None))
    return missing(made, shape, is_output=True, is_sample=False)


def is_whole(shape: Sequence[int], writes: Sequence[tuple[Sequence[Sum], Sequence[int]]], counts: dict[Var, int]) -> bool:
    covered = np.zeros(shape, np.bool_)
    for values in itertools.product(*(range(count) for count in counts.values())):
        held = dict(zip(counts, values))
        for sums, extents in writes:
            starts = [start + sum(step * held[var] for step, var in terms) for start, terms in sums]
            covered[tuple(slice(max(a, 0), max(a + e, 0)) for a, e in zip(starts, extents))] = True
    return bool(covered.all())


@pytest.mark.parametrize("seed", range(400))
def test_one_write_is_judged_exactly(seed):
    chance = random.Random(seed)
    shape, sums, extents, counts = [], [], [], {}
    for axis in range(chance.choice([1, 1, 2])):
        own = {variable(f"v{axis}{number}"): chance.randint(1, 5) for number in range(chance.randint(0, 3))}
        steps = [(chance.choice([-3, -1, 0, 1, 2, 3, 4, 6, 8, 12]), var) for var in own]
        span = sum(abs(step) * (own[var] - 1) for step, var in steps)
        shape.append(chance.randint(1, span + 6))
        sums.append((sum(-step * (own[var] - 1) for step, var in steps if step < 0) - chance.choice([0, 0, 0, 1]), steps))
        extents.append(chance.randint(1, 5))
        counts |= own
    writes = [(sums, extents)]
    whole = is_whole(shape, writes, counts)
    found = asked(shape, writes, counts)
    if whole:
        assert found is None
    else:
        assert found is not None or not np.zeros(shape).size or _writes_nothing(shape, sums, extents, counts)


def _writes_nothing(shape, sums, extents, counts):
    """Writes that lie outside altogether are E285's."""
    covered = [False] * len(shape)
    for values in itertools.product(*(range(count) for count in counts.values())):
        held = dict(zip(counts, values))
        for axis, ((start, terms), extent) in enumerate(zip(sums, extents)):
            at = start + sum(step * held[var] for step, var in terms)
            covered[axis] |= at < shape[axis] and at + extent > 0
    return not all(covered)


@pytest.mark.parametrize("seed", range(400))
def test_of_several_writes_nothing_is_told_that_is_written(seed):
    chance = random.Random(1000 + seed)
    rank = chance.choice([1, 2, 2, 3])
    counts = {variable(f"v{number}"): chance.randint(1, 4) for number in range(3)}
    shape = [chance.randint(1, 10) for _ in range(rank)]
    writes = []
    for _ in range(chance.randint(1, 4)):
        sums = [
            (chance.randint(-2, 4), [(chance.choice([-2, 1, 2, 3, 4]), var) for var in chance.sample(list(counts), chance.randint(0, 2))])
            for _ in range(rank)
        ]
        writes.append((sums, [chance.randint(1, 6) for _ in range(rank)]))
    if is_whole(shape, writes, counts):
        assert asked(shape, writes, counts) is None


def test_boxes_that_leave_a_corner():
    zero: Sum = (0, [])
    half: Sum = (4, [])
    writes = [([zero, zero], [4, 8]), ([zero, zero], [8, 4])]
    found = asked([8, 8], writes, {})
    assert found is not None and found.written == "nothing of [4:8, 4:8]"
    assert asked([8, 8], [*writes, ([half, half], [4, 4])], {}) is None


def test_tiles_along_a_diagonal():
    var = variable("bx")
    found = asked([64, 64], [([(0, [(16, var)]), (0, [(16, var)])], [16, 16])], {var: 4})
    assert found is not None and found.written == "at most 1024 of the 4096 elements"


def test_a_long_dimension_is_judged_by_its_ends():
    var = variable("bx")
    size = 1 << 24
    assert asked([size], [([(0, [(64, var)])], [64])], {var: size // 64}) is None
    found = asked([size], [([(0, [(64, var)])], [64])], {var: size // 128})
    assert found is not None and found.written == f"[0:{size // 2}] along dimension 0"


def test_what_is_no_sum_of_multiples_counts_as_everything_in_its_range():
    var, unknown = variable("bx"), variable("t")
    buffer = Buffer(name="B", dtype=INT32, shape=(const(64, INT32),), space="global")

    def ask(start: Expr, size: int = 64) -> Missing | None:
        region = Region(buffer=buffer, offsets=(start,), extents=(const(8, INT32),))
        return missing([Write(region, {var: Interval(0, 7)}, Names((var,)), None)], [size], is_output=True, is_sample=False)

    times = Binary(op="mul", left=Binary(op="floormod", left=var, right=Const(value=4, dtype=INT32)), right=const(16, INT32))
    assert ask(times) is not None  # 0, 16, 32, 48: a gap whatever bx is
    assert ask(Binary(op="mul", left=var, right=var), 57) is None  # 0, 1, 4, ..., 49: 12 is missing, which is not looked for
    assert ask(Binary(op="mul", left=var, right=var), 58) is not None
    assert ask(unknown) is None
