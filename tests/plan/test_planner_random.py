"""Random pipelined kernels: loops over tiles that are copied, computed, multiplied, updated in place, carried, stored and added to.

What a plan computes must be the interpreter's bits whatever was decided; the number of stages must not change them either.
"""

from __future__ import annotations

import random
import re
import textwrap
from typing import Any

import numpy as np
import pytest

from zellige.interp import interpret
from zellige.ir.parser import parse_kernel
from zellige.ir.stmt import Kernel
from zellige.ir.verify import check as verify
from zellige.plan.check import check
from zellige.plan.interpret import has_one_order, reference_kernel, run
from zellige.plan.invented_machines import TEST_TARGETS
from zellige.plan.planner import plan

MACHINES = ("lanes_async", "lanes_copies", "queues_cube", "local_only")
TILES = 4
PARAMETERS = (
    "X: tensor((24, 8, 16), float16), Z: tensor((24, 8, 16), float16), W: tensor((24, 8, 16), float16), "
    "Y: tensor((40, 8, 16), float32), S: tensor((8, 16), float32), rows: tensor((24,), int32), n: scalar(int32)"
)


class Writer:
    """Writes one kernel. Tiles h* and c* are float16, f* float32. Those of h* and f* begin as zeros, those of c* are copied before they are
    used: no element is ever undefined."""

    def __init__(self, seed: int, *, in_while: bool = False) -> None:
        self.random = random.Random(seed)
        self.in_while = in_while
        self.outputs = 0
        self.copied: list[str] = []

    def kernel(self) -> str:
        lines = []
        for i in range(TILES):
            lines += [f'h{i} = alloc((8, 16), float16, "shared")', f'f{i} = alloc((8, 16), float32, "fragment")']
        lines += ['score = alloc((8, 8), float32, "fragment")', 'weight = alloc((8, 8), float16, "fragment")']
        lines += [f'c{i} = alloc((8, 16), float16, "shared")' for i in range(TILES)]
        lines += [
            'sq = alloc((8, 8), float32, "fragment")',
            'pq = alloc((8, 8), float16, "shared")',
            'col = alloc((8,), float32, "fragment")',
        ]
        lines += [f"fill(h{i}[:, :], float16(0.0))\nfill(f{i}[:, :], 0.0)" for i in range(TILES)]
        lines += ["fill(sq[:, :], 0.0)\nfill(pq[:, :], float16(0.0))\nfill(col[:], 0.0)", "v: mutable(int32) = 0"]
        for number in range(self.random.choice((1, 1, 2))):
            self.copied = []
            if self.random.random() < 0.4:
                lines.append(self.statement("bx", 0))
            lines.append(self.while_around(self.loop(f"k{number}"), number) if self.in_while else self.loop(f"k{number}"))
        self.copied = []
        for i in range(TILES):
            if self.random.random() < 0.6:
                lines += [f"copy(f{i}[:, :], Y[{i}, :, :])"]
        if self.random.random() < 0.5:
            lines += ["copy(h0[:, :], Y[4, :, :])"]
        body = textwrap.indent("\n".join(lines), " " * 8)
        return f"# tile-ir 1.0\n\n\ndef k({PARAMETERS}):\n    with launch(1) as (bx,):\n{body}\n"

    def while_around(self, loop: str, number: int) -> str:
        """The loop, and more, as often as a scalar says that the body changes: by what it counts, or by what it reads."""
        w = f"w{number}"
        step = self.random.choice((f"{w} = {w} + 1", f"{w} = {w} + 1 + rows[{w}] % 2", f"{w} = {w} + 2"))
        condition = self.random.choice((f"{w} < 3", f"{w} < n", f"{w} < 2 and rows[{w}] < 15"))
        body = [loop, *([self.fresh(w)] if self.random.random() < 0.3 else []), step]
        if self.random.random() < 0.4:
            body.insert(0, "fill(f0[:, :], 0.0)")
        return f"{w}: mutable(int32) = 0\nwhile {condition}:\n" + textwrap.indent("\n".join(body), " " * 4)

    def loop(self, var: str) -> str:
        stop = self.random.choice(("5", "1", "0", "2", "n", "n + 1"))
        stages = self.random.choice((2, 2, 3, 4))
        body = []
        self.copied = []
        if self.random.random() < 0.9:  # what real kernels do: copies first
            targets = self.random.sample([f"c{i}" for i in range(TILES)], self.random.randint(1, 3))
            body = [f"copy({self.random.choice('XZ')}[{self.row(var)}, :, :], {tile}[:, :])" for tile in targets]
            if self.random.random() < 0.3:
                body.insert(self.random.randrange(len(body)), f"v = rows[{var}]")
            self.copied = targets
        if self.random.random() < 0.35:  # two products with work between them
            body += [
                "fill(score[:, :], 0.0)",
                f"gemm({self.read()}[:, :], {self.half()}[:, :], score[:, :], clear=False, transpose_b=True)",
                "for i, j in parallel(8, 8):\n    score[i, j] = score[i, j] * 0.25",
                "copy(score[:, :], weight[:, :])",
                f"gemm(weight[:, :], {self.read()}[:, :], {self.wide()}[:, :], clear=False)",
            ]
        for _ in range(self.random.randint(1, 7)):
            body.append(self.statement(var, 0))
        inner = textwrap.indent("\n".join(body), " " * 4)
        return f"for {var} in pipelined({stop}, stages={stages}):\n{inner}"

    def half(self) -> str:
        """A tile to write or to read."""
        return f"h{self.random.randrange(TILES)}"

    def read(self) -> str:
        """A tile to read only."""
        return self.random.choice(self.copied) if self.copied and self.random.random() < 0.7 else self.half()

    def wide(self) -> str:
        return f"f{self.random.randrange(TILES)}"

    def row(self, var: str) -> str:
        return self.random.choice((var, var, f"{var} + 1", f"{var} * 2", f"rows[{var}]", "v", "3"))

    def fresh(self, var: str) -> str:
        return f"copy({self.random.choice('XZ')}[{self.row(var)}, :, :], {self.half()}[:, :])"

    def statement(self, var: str, depth: int) -> str:
        pick = self.random.random
        a, b, f, g = self.half(), self.half(), self.wide(), self.wide()
        while b == a:
            b = self.half()
        if self.copied and pick() < 0.04:
            tile = self.random.choice(self.copied)
            return f"for i, j in parallel(8, 16):\n    {tile}[i, j] = {tile}[i, j] * float16(2.0)"
        choice = self.random.randrange(15 if depth == 0 else 12)
        match choice:
            case 0 | 1:
                return self.fresh(var)
            case 2:
                return f"for i, j in parallel(8, 16):\n    {f}[i, j] = {f}[i, j] * 0.5 + cast({self.read()}[i, j], float32)"
            case 3:
                return f"for i, j in parallel(8, 16):\n    {f}[i, j] = {g}[i, j] + 1.0"
            case 4:
                return f"copy({f}[:, :], {a}[:, :])" if pick() < 0.5 else f"copy({self.read()}[:, :], {f}[:, :])"
            case 5:
                start = "" if pick() < 0.3 else "fill(sq[:, :], 0.0)\n"
                return f"{start}gemm({self.read()}[:, :], {b}[:, :], sq[:, :], clear=False, transpose_b=True)"
            case 6:
                return f"copy(sq[:, :], pq[:, :])\ngemm(pq[:, :], {self.read()}[:, :], {f}[:, :], clear=False)"
            case 7:
                self.outputs += 1
                return f"copy({f if pick() < 0.7 else self.read()}[:, :], Y[{var} + {5 + self.outputs % 9}, :, :])"
            case 8:
                return f'atomic_tile("add", {f}[:, :], S[:, :])'
            case 9:
                return f'reduce("sum", {f}[:, :], col[:], axis=1)\nfor i, j in parallel(8, 16):\n    {g}[i, j] = {g}[i, j] + col[i]'
            case 10:
                return self.random.choice((f"v = rows[{var}]", f"v = (v + {var}) % 20", f"v = {var}"))
            case 11:
                if pick() < 0.5:
                    return f"copy(W[{var} + 1, :, :], {a}[:, :])\ncopy({b}[:, :], W[{var} + 2, :, :])"
                return f"copy(X[{var}, 0:+4, :], {a}[{self.random.choice((0, 4))}:+4, :])"
            case 12:
                inner = textwrap.indent(self.statement(var, 1), " " * 4)
                return f"if {self.random.choice((f'{var} % 2 == 0', 'n > 2', 'v > 3'))}:\n{inner}"
            case 13:
                inner = textwrap.indent("\n".join(self.statement("m", 1) for _ in range(2)), " " * 4)
                kind = self.random.choice(("serial(2)", "pipelined(3, stages=2)"))
                return f"for m in {kind}:\n{inner}"
            case _:
                return self.random.choice((f"fill({a}[:, :], float16(0.0))", f"fill({f}[:, :], 0.0)"))


def kernel_of(text: str) -> Kernel:
    kernel = parse_kernel(text)
    verify(kernel)
    return kernel


def arguments(seed: int, n: int) -> list[Any]:
    source = np.random.default_rng(seed)
    made: list[Any] = [source.integers(-3, 4, (24, 8, 16)).astype(np.float16) for _ in range(3)]
    made += [np.zeros((40, 8, 16), np.float32), np.zeros((8, 16), np.float32), source.integers(0, 20, 24).astype(np.int32), n]
    return made


def copies(given: list[Any]) -> list[Any]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in given]


def assert_same(want: list[Any], have: list[Any], what: str) -> None:
    for index, (x, y) in enumerate(zip(want, have)):
        if isinstance(x, np.ndarray):
            assert x.tobytes() == y.tobytes(), f"argument {index}, {what}"


def examine(seed: int, schedules: int, sizes: tuple[int, ...], *, in_while: bool = False) -> None:
    text = Writer(seed, in_while=in_while).kernel()
    kernel = kernel_of(text)
    for machine in MACHINES:
        planned = plan(kernel, TEST_TARGETS[machine])
        problems = [str(p) for p in check(planned)]
        assert not problems, f"{machine}\n{text}\n" + "\n".join(problems[:5])
        for n in sizes:
            given = arguments(seed, n)
            want = copies(given)
            interpret(reference_kernel(planned), want)
            for schedule in range(1 if has_one_order(planned) else schedules):
                have = copies(given)
                run(planned, have, schedule_seed=schedule)
                assert_same(want, have, f"{machine}, n = {n}, schedule {schedule}\n{text}")


@pytest.mark.parametrize("seed", range(6))
def test_random_pipelines(seed: int) -> None:
    examine(seed, schedules=20, sizes=(3,))


@pytest.mark.parametrize("seed", range(6))
def test_random_pipelines_inside_a_while(seed: int) -> None:
    examine(seed, schedules=8, sizes=(0, 3), in_while=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(400, 600))
def test_many_random_pipelines_inside_a_while(seed: int) -> None:
    examine(seed, schedules=6, sizes=(0, 1, 4), in_while=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 400))
def test_many_random_pipelines(seed: int) -> None:
    examine(seed, schedules=6, sizes=(0, 1, 4))


@pytest.mark.parametrize("seed", range(2))
def test_the_number_of_stages_changes_no_bit(seed: int) -> None:
    text = Writer(seed).kernel()
    for machine in MACHINES:
        results = []
        for stages in range(5):
            kernel = kernel_of(re.sub(r"stages=\d", f"stages={stages}", text))
            given = arguments(seed, 3)
            run(plan(kernel, TEST_TARGETS[machine]), given, schedule_seed=stages)
            results.append(given)
        for stages, have in enumerate(results):
            assert_same(results[0], have, f"{machine}, {stages} stages")
