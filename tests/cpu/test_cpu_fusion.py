"""Elementwise statements joined into one Map: what is joined, what must not be, and that the meaning stays, against the interpreter."""

from __future__ import annotations

import random as plain
from collections import Counter

import numpy as np
import pytest

from zellige.ir.expr import Buffer
from zellige.ir.stmt import Copy, Map, Reduce, StmtNode, Store
from zellige.ir.traverse import walk
from zellige_cpu.fusion import Fold
from zellige_cpu.preparation import prepare

ROWS, COLUMNS = 6, 37
TILE = f"0:+{ROWS}, 0:+{COLUMNS}"
HEAD = f"X: tensor(({ROWS}, {COLUMNS}), float32), Y: tensor(({ROWS}, {COLUMNS}), float32), R: tensor(({ROWS},), float32)"


def tiles(*names: str) -> str:
    return "\n".join(f'{name} = alloc(({ROWS}, {COLUMNS}), float32, "fragment")' for name in names)


def rows(*names: str) -> str:
    return "\n".join(f'{name} = alloc(({ROWS},), float32, "fragment")' for name in names)


def points(*statements: str) -> str:
    return "\n".join([f"for i, j in parallel({ROWS}, {COLUMNS}):", *["    " + s for s in statements]])


def prepared(tools, body: str) -> list[StmtNode]:
    kernel = tools["block_kernel"](HEAD, body)
    launch = prepare(kernel.launches[0])
    return [node for node in walk(launch) if isinstance(node, StmtNode)]


def stored(nodes: list[StmtNode]) -> Counter[str]:
    """How often each buffer is stored to in Maps."""
    return Counter(node.buffer.name for node in nodes if isinstance(node, Store))


def arguments(random: np.random.Generator) -> list[np.ndarray]:
    return [random.integers(-9, 10, (ROWS, COLUMNS)).astype(np.float32) for _ in "XY"] + [np.zeros(ROWS, np.float32)]


def test_a_chain_from_tensor_to_tensor_is_one_map_without_tiles(tools, check_block, random):
    body = "\n".join(
        [
            tiles("a", "b"), rows("top", "total"),
            f"copy(X[{TILE}], a[{TILE}])",
            f'reduce("max", a[{TILE}], top[0:+{ROWS}], axis=1)',
            points("b[i, j] = a[i, j] - top[i]"),
            f'reduce("sum", b[{TILE}], total[0:+{ROWS}], axis=1)',
            points("b[i, j] = b[i, j] * 2.0"),
            f"copy(b[{TILE}], Y[{TILE}])",
            f"copy(total[0:+{ROWS}], R[0:+{ROWS}])",
        ]
    )  # fmt: skip
    nodes = prepared(tools, body)
    assert sum(isinstance(n, Fold) for n in nodes) == 2
    assert not any(isinstance(n, Reduce) for n in nodes)
    assert stored(nodes) == Counter(a=1, Y=1)  # a waits for the maximum, b lives in a register
    check_block(HEAD, body, *arguments(random))


def test_a_tile_that_nobody_reads_again_is_not_stored(tools):
    joined = [tiles("a"), f"copy(X[{TILE}], a[{TILE}])", points("a[i, j] = a[i, j] + 1.0"), f"copy(a[{TILE}], Y[{TILE}])"]
    assert stored(prepared(tools, "\n".join(joined))) == Counter(Y=1)
    again = [*joined, points("Y[i, j] = a[i, 36 - j]")]
    assert stored(prepared(tools, "\n".join(again)))["a"] == 1


def test_what_comes_round_in_a_loop_is_stored(tools, check_block, random):
    body = "\n".join(
        [
            tiles("a", "b"),
            f"copy(X[{TILE}], a[{TILE}])",
            "for k in serial(3):",
            *["    " + line for line in points("b[i, j] = a[i, j] + 1.0").splitlines()],
            *["    " + line for line in points("a[i, j] = b[i, j] * 2.0").splitlines()],
            f"copy(a[{TILE}], Y[{TILE}])",
        ]
    )
    nodes = prepared(tools, body)
    assert stored(nodes) == Counter(a=1)  # b lives in a register
    check_block(HEAD, body, *arguments(random))


def test_a_jump_keeps_what_is_read_behind_the_loop(check_block, random):
    body = "\n".join(
        [
            tiles("a"), f"fill(a[{TILE}], 0.0)",
            "for k in serial(4):",
            *["    " + line for line in points("a[i, j] = X[i, j] + 1.0", ).splitlines()],
            *["    " + line for line in points("Y[i, j] = a[i, j] + Y[i, j]").splitlines()],
            "    if k == n:", "        break",
            f"    fill(a[{TILE}], 5.0)",
            f"copy(a[{TILE}], X[{TILE}])",
        ]
    )  # fmt: skip
    for n in (0, 2, 9):
        check_block(HEAD + ", n: scalar(int32)", body, *arguments(random), n)


@pytest.mark.parametrize(
    "second",
    ["b[i, j] = a[i, 36 - j]", "b[i, j] = a[5 - i, j]", "b[i, j] = a[i, 0]", "b[i, j] = a[i, j // 2]", "b[i, j] = a[i, j] + a[i, 0]"],
)
def test_a_point_that_reads_another_points_element_waits(tools, check_block, random, second):
    body = "\n".join([tiles("a", "b"), points("a[i, j] = X[i, j] * 3.0"), points(second), f"copy(b[{TILE}], Y[{TILE}])"])
    assert sum(isinstance(n, Map) for n in prepared(tools, body)) == 2
    check_block(HEAD, body, *arguments(random))


def test_two_names_for_one_tensor(tools):
    """A copy onto the array it came from, shifted by the caller's choice of arguments, keeps its order; in place it is joined."""
    kernel = tools["block_kernel"](
        HEAD, "\n".join([tiles("a"), f"copy(X[{TILE}], a[{TILE}])", points("a[i, j] = a[i, j] + 1.0"), f"copy(a[{TILE}], Y[{TILE}])"])
    )
    data = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
    expected = data + 1
    tools["run_on"](tools["compile_for"](kernel), kernel, [data, data, np.zeros(ROWS, np.float32)])
    np.testing.assert_array_equal(data, expected)
    turned = tools["block_kernel"](HEAD, "\n".join([tiles("a"), points("a[i, j] = X[i, j]"), points("Y[i, 36 - j] = a[i, j]")]))
    data = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
    expected = data[:, ::-1].copy()
    tools["run_on"](tools["compile_for"](turned), turned, [data, data, np.zeros(ROWS, np.float32)])
    np.testing.assert_array_equal(data, expected)


def test_copies_that_share_no_tile_stay_copies(tools):
    body = "\n".join([tiles("a", "b"), f"copy(X[{TILE}], a[{TILE}])", f"copy(Y[{TILE}], b[{TILE}])"])
    assert sum(isinstance(n, Copy) for n in prepared(tools, body)) == 2


class Writer:
    """A random block of tile statements: copies, Maps, reductions, fills, loops and branches over a few tiles. All values are integers."""

    def __init__(self, seed: int) -> None:
        self.random = plain.Random(seed)
        self.tiles = ["a", "b", "c"]
        self.rows = ["r", "s", "t"]
        self.loops = 0

    def text(self) -> str:
        start = [tiles(*self.tiles), rows(*self.rows), 'd = alloc((37,), float32, "fragment")']
        start += [f"fill({t}[{TILE}], {n}.0)" for n, t in enumerate(self.tiles)]
        start += [f"fill({r}[0:+{ROWS}], {n}.0)" for n, r in enumerate(self.rows)]
        start.append("fill(d[0:+37], 3.0)")
        end = [f"copy({self.random.choice(self.tiles)}[{TILE}], Y[{TILE}])"] * (self.random.random() < 0.7)
        end += [f"copy({self.random.choice(self.rows)}[0:+{ROWS}], R[0:+{ROWS}])"]
        return "\n".join([*start, *self.body(self.random.randint(3, 12), 0), *end])

    def body(self, count: int, depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(count):
            lines.extend(self.statement(depth))
        return lines

    def statement(self, depth: int) -> list[str]:
        choose, chance = self.random.choice, self.random.random()
        if chance < 0.12 and depth < 2:
            self.loops += 1
            name = f"k{self.loops}"
            inner = self.body(self.random.randint(2, 6), depth + 1)
            if self.random.random() < 0.4:
                jump = choose(["break", "continue"])
                inner.append(f"if {name} == 1:\n    {jump}")
                inner += self.body(2, depth + 1)
            return self.nested(f"for {name} in serial({self.random.randint(0, 3)}):", inner)
        if chance < 0.18 and depth < 2:
            return self.nested(f"if n == {self.random.randint(0, 1)}:", self.body(2, depth + 1))
        if chance < 0.35:
            source, target = choose(["X", *self.tiles]), choose(["Y", *self.tiles])
            return [f"copy({source}[{TILE}], {target}[{TILE}])"] if source != target else []
        if chance < 0.4:
            return [f"fill({choose(self.tiles)}[{TILE}], {self.random.randint(-3, 3)}.0)"]
        if chance < 0.6:
            op, clear = choose(["sum", "max", "min", "absmax", "abssum"]), choose([True, False])
            if self.random.random() < 0.2:
                return [f'reduce("{op}", {choose(self.tiles)}[{TILE}], d[0:+37], axis=0, clear={clear})', *self.bounded("d[j]", "j", 37)]
            row = choose(self.rows)
            reduction = f'reduce("{op}", {choose(self.tiles)}[{TILE}], {row}[0:+{ROWS}], axis=1, clear={clear})'
            return [reduction, *self.bounded(f"{row}[i]", "i", ROWS)]
        if chance < 0.7:
            row = choose(self.rows)
            other = choose([r for r in self.rows if r != row])
            value = choose([f"{row}[i] + 1.0", f"{other}[i] + {row}[i]", f"{other}[5 - i] - {other}[i]"])
            return [f"for i in parallel({ROWS}):", f"    {row}[i] = {value}", *self.bounded(f"{row}[i]", "i", ROWS)]
        target = choose([*self.tiles, "Y"])
        return [points(*[f"{target}[i, j] = min(max({self.value(target)}, -50.0), 50.0)" for _ in range(self.random.randint(1, 2))])]

    def nested(self, head: str, inner: list[str]) -> list[str]:
        return [head, *["    " + line for text in inner for line in text.splitlines()]] if inner else []

    def bounded(self, element: str, axis: str, extent: int) -> list[str]:
        """Values stay small, so that sums of floats are exact in any order."""
        return [f"for {axis} in parallel({extent}):", f"    {element} = min(max({element}, -50.0), 50.0)"]

    def value(self, target: str) -> str:
        terms = []
        for _ in range(self.random.randint(1, 3)):
            tile = self.random.choice([*self.tiles, "X"])
            index = "i, j" if tile == target or self.random.random() < 0.8 else self.random.choice(["i, 36 - j", "5 - i, j", "i, 0"])
            terms.append(self.random.choice([f"{tile}[{index}]", f"{self.random.choice(self.rows)}[i]", "d[j]"]))
        return f" {self.random.choice('+-')} ".join(terms)


@pytest.mark.parametrize(("seed", "host"), [*((seed, "") for seed in range(40)), *((seed, "sse") for seed in range(40, 60))])
def test_random_blocks_keep_their_meaning(tools, check_block, random, seed, host):
    text = Writer(seed).text()
    machine = tools["reduced_host"](host) if host else None
    check_block(HEAD + ", n: scalar(int32)", text, *arguments(random), seed % 2, host=machine)


def test_the_random_blocks_are_worth_running(tools):
    joined = folded = left_out = 0
    for seed in range(60):
        kernel = tools["block_kernel"](HEAD + ", n: scalar(int32)", Writer(seed).text())
        before = [n for n in walk(kernel.launches[0]) if isinstance(n, (Copy, Map, Reduce))]
        after = [n for n in walk(prepare(kernel.launches[0])) if isinstance(n, (Copy, Map, Reduce, Fold, Store))]
        joined += len(before) - sum(isinstance(n, (Copy, Map, Reduce)) for n in after)
        folded += sum(isinstance(n, Fold) for n in after)
        left_out += any(isinstance(n, Store) for n in after)
    assert joined > 100
    assert folded > 30
    assert left_out > 30


def test_buffers_are_compared_by_identity(tools):
    """Two tiles of one name and shape are two tiles."""
    first, second = points("a[i, j] = X[i, j]"), points("b[i, j] = a[i, j] + X[i, j]")
    body = "\n".join([tiles("a"), first, tiles("b"), second, f"copy(b[{TILE}], Y[{TILE}])"])
    nodes = prepared(tools, body)
    names = {n.buffer for n in nodes if isinstance(getattr(n, "buffer", None), Buffer)}
    assert len(names) == len({id(b) for b in names})
    assert stored(nodes) == Counter(Y=1)
