"""Statements on the CPU: control flow, Maps in vectors and point by point, private storage, lanes, against the interpreter."""

from __future__ import annotations

import random as plain

import numpy as np
import pytest

from zellige.interp import interpret
from zellige.interp.report import Report


class Writer:
    """A random program over ``B[point, 0..2]`` in one of three settings: points of a Map, blocks of a grid, lanes of a block."""

    def __init__(self, seed: int, setting: str) -> None:
        self.random = plain.Random(seed)
        self.setting = setting
        self.count = self.random.choice([3, 8, 16, 20, 40])
        self.lines: list[str] = []
        self.names = 0
        self.point = {"points": "i", "blocks": "bx", "lanes": "tx"}[setting]
        self.readable, self.mutable, self.local = ["bx", self.point], [], []

    def text(self) -> str:
        if self.setting == "points":
            if self.random.random() < 0.5:
                self._outer_storage()
            self._line(0, f"for i in parallel({self.count}):")
            self._body(1, 0, in_loop=False)
            self._body(1, 0, in_loop=False)
        else:
            if self.setting == "lanes":
                self._line(0, f'S = alloc(({self.count},), int32, "shared")')
                self._line(0, "S[tx] = tx")
            for _ in range(3):
                self._body(0, 0, in_loop=False)
        return "\n".join(self.lines)

    @property
    def launch(self) -> str:
        head = {"points": "launch(1)", "blocks": f"launch({self.count})", "lanes": f"launch(1, threads=({self.count},))"}[self.setting]
        return f"{head} as (bx,)" + (", lanes() as (tx,)" if self.setting == "lanes" else "")

    def _outer_storage(self) -> None:
        self._line(0, "o: mutable(int32) = 7")
        self._line(0, 'O = alloc((4,), int32, "local")')
        self._line(0, "for q in serial(4):")
        self._line(1, "O[q] = q")
        self.readable.append("o")
        self.mutable.append("o")
        self.local.append("O")

    def _line(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def _name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    def _index(self) -> str:
        choose, p = self.random.choice, self.point
        near = f"{p} + {self.random.randint(-2, 2)}"
        return choose([p, p, near, f"({self._value(1)}) % {self.count}", f"{self.count - 1} - {p}", f"{p} // 2"])

    def _value(self, depth: int = 2) -> str:
        choose, chance = self.random.choice, self.random.random()
        if depth == 0 or chance < 0.3:
            return choose([*self.readable, str(self.random.randint(-3, 9))])
        if chance < 0.42:
            return f"A[{self._index()}]"
        if chance < 0.5 and self.setting == "lanes":
            return f"S[{self._index()}]"
        if chance < 0.57 and self.local:
            return f"{choose(self.local)}[({self._value(depth - 1)}) % 4]"
        if chance < 0.65:
            return f"({self._value(depth - 1)} if {self._test(depth - 1)} else {self._value(depth - 1)})"
        op = choose(["+", "-", "*", "//", "%", "^", "min", "max"])
        left, right = self._value(depth - 1), self._value(depth - 1)
        return f"{op}({left}, {right})" if op.isalpha() else f"(({left} {op} {right}) % 64)"

    def _test(self, depth: int = 1) -> str:
        test = f"({self._value(depth)} {self.random.choice(['<', '<=', '>', '==', '!='])} {self._value(depth)})"
        return f"({test} {self.random.choice(['and', 'or'])} {self._test(0)})" if self.random.random() < 0.2 else test

    def _body(self, indent: int, depth: int, *, in_loop: bool) -> None:
        kept = list(self.readable), list(self.mutable), list(self.local)
        for _ in range(self.random.randint(1, 4)):
            self._statement(indent, depth, in_loop)
        self.readable, self.mutable, self.local = kept

    def _loop(self, indent: int, depth: int, head: str, var: str, first: str = "") -> None:
        self._line(indent, head)
        if first:
            self._line(indent + 1, first)
        kept = list(self.readable)
        self.readable.append(var)
        self._body(indent + 1, depth + 1, in_loop=True)
        self.readable = kept

    def _statement(self, indent: int, depth: int, in_loop: bool) -> None:
        choose, chance = self.random.choice, self.random.random()
        if chance < 0.12:
            name = self._name("v")
            self._line(indent, f"{name}: int32 = {self._value()}")
            self.readable.append(name)
        elif chance < 0.22:
            name = self._name("m")
            self._line(indent, f"{name}: mutable(int32) = {self._value()}")
            self.readable.append(name)
            self.mutable.append(name)
        elif chance < 0.36 and self.mutable:
            self._line(indent, f"{choose(self.mutable)} = {self._value()}")
        elif chance < 0.5:
            target = f"B[{self.point}, {self.random.randint(0, 2)}]"
            if self.setting == "lanes":
                target = choose([target, f"S[{self.point}]"])
            self._line(indent, f"{target} = {self._value()}")
        elif chance < 0.56 and self.local:
            self._line(indent, f"{choose(self.local)}[({self._value(1)}) % 4] = {self._value()}")
        elif chance < 0.62 and depth < 3:
            name, index = self._name("L"), self._name("q")
            self._line(indent, f'{name} = alloc((4,), int32, "local")')
            self._line(indent, f"for {index} in serial(4):")
            self._line(indent + 1, f"{name}[{index}] = {index} + {self._value(1)}")
            self.local.append(name)
        elif chance < 0.74 and depth < 4:
            self._line(indent, f"if {self._test()}:")
            self._body(indent + 1, depth + 1, in_loop=in_loop)
            if self.random.random() < 0.5:
                self._line(indent, "else:")
                self._body(indent + 1, depth + 1, in_loop=in_loop)
        elif chance < 0.86 and depth < 3:
            name = self._name("r")
            end = choose([str(self.random.randint(0, 4)), f"({self._value(1)}) % 4", f"{self.point} % 3"])
            self._loop(indent, depth, f"for {name} in serial({end}):", name)
        elif chance < 0.89 and depth < 3:
            name = self._name("w")
            self._line(indent, f"{name}: mutable(int32) = 0")
            self._loop(indent, depth, f"while {name} < ({self._value(1)}) % 4:", name, f"{name} = {name} + 1")
        elif chance < 0.93 and in_loop:
            self._line(indent, f"if {self._test()}:")
            self._line(indent + 1, choose(["break", "continue"]))
        elif chance < 0.95 and self.setting != "points":
            self._line(indent, f"if {self._test()}:")
            self._line(indent + 1, "return")
        elif self.setting == "lanes":
            self._exchange(indent)
        else:
            self._line(indent, f"B[{self.point}, 0] = B[{self.point}, 0] + 1")

    def _exchange(self, indent: int) -> None:
        choose = self.random.choice
        name = self._name("s")
        if self.random.random() < 0.6:
            mode, width = choose(["xor", "up", "down", "index"]), choose([2, 4, 8, 16, 32])
            self._line(indent, f'{name}: int32 = shuffle("{mode}", {self._value(1)}, ({self._value(1)}) % 8, width={width})')
        else:
            self._line(indent, f'{name}: int32 = vote("count", "warp", {self._test()})')
        self.readable.append(name)


SEEDS = {"points": range(40), "blocks": range(1000, 1030), "lanes": range(2000, 2040)}


ATTEMPTS = 20
"""Programs that are written for one seed: a racy one has no result to compare, and another takes its place."""


@pytest.mark.parametrize("setting,seed", [(setting, seed) for setting, seeds in SEEDS.items() for seed in seeds])
def test_random_programs(tools, setting, seed):
    """Each seed runs a program: none is left out."""
    assert any(runs(tools, setting, seed + 10_000 * attempt) for attempt in range(ATTEMPTS)), "every program was racy"


def runs(tools, setting, seed):
    """Compare a random program with the interpreter; False where it is racy."""
    writer = Writer(seed, setting)
    parameters = f"A: tensor(({writer.count},), int32), B: tensor(({writer.count}, 3), int32)"
    kernel = tools["block_kernel"](parameters, writer.text(), launch=writer.launch)
    random = np.random.default_rng(seed)
    arguments = [random.integers(-5, 60, writer.count).astype(np.int32), random.integers(0, 9, (writer.count, 3)).astype(np.int32)]
    found = interpret(kernel, [a.copy() for a in arguments], report=Report(races=True, undefined=True, bounds=False)).findings
    if found:
        return False
    tools["agree"](kernel, *arguments)
    return True


@pytest.mark.parametrize("setting,seed", [("points", 3), ("blocks", 1004), ("blocks", 1011), ("lanes", 2001), ("lanes", 2007)])
def test_long_bodies_are_cut_without_changing_anything(tools, monkeypatch, setting, seed):
    monkeypatch.setattr("zellige_cpu.parts._LONG", 0)
    monkeypatch.setattr("zellige_cpu.parts._LENGTH", 8)
    assert runs(tools, setting, seed)


# ---- what Maps do with storage made outside -----------------------------------------------------------------------------------------


def test_each_point_works_on_its_own_copy_of_outer_scratch(check_block, random):
    a = random.integers(-9, 9, (40, 2)).astype(np.int32)
    body = """
        scratch = alloc((2,), int32, "local")
        v: mutable(int32) = 5
        scratch[0] = 100
        scratch[1] = 7
        for i in parallel(40):
            scratch[0] = A[i, 0] + scratch[1]
            if A[i, 1] > 0:
                v = A[i, 1]
            B[i] = scratch[0] * v
    """
    check_block("A: tensor((40, 2), int32), B: tensor((40,), int32)", body, a, np.zeros(40, np.int32))


def test_what_one_point_wrote_is_there_after_the_map(check_block):
    body = """
        L = alloc((32,), int32, "local")
        x: mutable(int32) = -1
        for i in parallel(32):
            L[i] = 10 * i
            if i == 20:
                x = L[i] + 1
        for i in parallel(32):
            B[i] = L[31 - i] + x
    """
    check_block("B: tensor((32,), int32)", body, np.zeros(32, np.int32))


@pytest.mark.parametrize("t", ["float16", "bfloat16", "float32", "int32", "int8"])
@pytest.mark.parametrize("op", ["sum", "max", "min", "absmax", "abssum", "prod"])
def test_reducers_over_points_that_share_an_element(check_block, random, op, t):
    from zellige.dtypes import dtype

    a = random.integers(-2, 3, (24, 50)).astype(dtype(t).numpy)
    body = f"""
        R = alloc((24,), {t}, "fragment")
        T = alloc((50,), {t}, "fragment")
        reducer_init("{op}", R)
        reducer_init("{op}", T)
        for i, j in parallel(24, 50):
            reducer_update("{op}", R[i], A[i, j])
            reducer_update("{op}", T[j], A[i, j])
        reducer_finalize(R)
        reducer_finalize(T)
        copy(R[0:+24], B[0:+24])
        copy(T[0:+50], C[0:+50])
    """
    parameters = f"A: tensor((24, 50), {t}), B: tensor((24,), {t}), C: tensor((50,), {t})"
    check_block(parameters, body, a, np.zeros(24, dtype(t).numpy), np.zeros(50, dtype(t).numpy))


@pytest.mark.parametrize("t", ["int8", "uint16", "int32", "uint64", "float16", "bfloat16", "float32", "float64", "float8_e5m2"])
@pytest.mark.parametrize("op", ["add", "sub", "max", "min", "exchange"])
def test_atomics_with_results(check_block, random, op, t):
    from zellige.dtypes import dtype

    a = random.integers(0, 5, 60).astype(dtype(t).numpy)
    place = random.integers(-1, 6, 60).astype(np.int32)
    body = f"""
        for i in serial(60):
            before: {t} = atomic("{op}", B[P[i]], A[i], order="acq_rel")
            C[i] = before
    """
    parameters = f"A: tensor((60,), {t}), P: tensor((60,), int32), B: tensor((5,), {t}), C: tensor((60,), {t})"
    check_block(parameters, body, a, place, np.ones(5, dtype(t).numpy), np.zeros(60, dtype(t).numpy))


def test_atomics_of_many_blocks_lose_nothing(check_block, random):
    a = random.integers(0, 4, 5000).astype(np.int32)
    body = """
        for i in parallel(50):
            atomic("add", H[A[bx * 50 + i]], 1)
            atomic("add", F[A[bx * 50 + i]], 1.0)
            atomic("max", M[0], A[bx * 50 + i] + bx)
    """
    parameters = "A: tensor((5000,), int32), H: tensor((4,), int32), F: tensor((4,), float32), M: tensor((1,), int32)"
    check_block(parameters, body, a, np.zeros(4, np.int32), np.zeros(4, np.float32), np.zeros(1, np.int32), launch="launch(100) as (bx,)")


def test_half_bytes_that_blocks_share(check_block, random):
    a = random.integers(0, 256, 500).astype(np.uint8)
    body = "for i in parallel(5):\n    B[bx * 5 + i] = A[bx * 5 + i] + cast(1, uint4)"
    check_block("A: tensor((1000,), uint4), B: tensor((1000,), uint4)", body, a, np.zeros(500, np.uint8), launch="launch(200) as (bx,)")


@pytest.mark.parametrize("step", [1, 3, -1, -2])
@pytest.mark.parametrize("bounds", [(0, 7), (7, 0), (3, 3), (-4, 5), (5, -4)])
def test_loops_are_ranges(check_block, bounds, step):
    body = "n: mutable(int32) = 0\nfor r in serial(A[0], A[1], s):\n    B[n] = r\n    n = n + 1\nB[15] = n"
    parameters = "A: tensor((2,), int32), s: scalar(int32), B: tensor((16,), int32)"
    check_block(parameters, body, np.array(bounds, np.int32), step, np.zeros(16, np.int32))


def test_a_chain_of_a_thousand_elif(check_block):
    lines = ["if A[bx] == 0:", "    B[bx] = 1"]
    for n in range(1, 1000):
        lines += [f"elif A[bx] == {n}:", f"    B[bx] = {n * 7 % 1000}"]
    a = np.array([0, 1, 500, 999, 1000], np.int32)
    check_block("A: tensor((5,), int32), B: tensor((5,), int32)", "\n".join(lines), a, np.zeros(5, np.int32), launch="launch(5) as (bx,)")


@pytest.mark.parametrize("bound", [0, 1, 37, 38, 39, 75, 76, 200])
def test_conditions_that_hold_for_all_points_or_for_some(check_block, bound):
    """A comparison that a test before the Map decides for all of its points, and the same code where it does not."""
    body = """
        for k in serial(2):
            for i, j in parallel(2, 38):
                A[k, i, j] = 1.0 if k * 38 + j < n and i + j >= k * n - 38 else 2.0
                if k * 38 + j <= n - 1:
                    B[k, i, j] = A[k, i, j] + 1.0
    """
    parameters = "n: scalar(int32), A: tensor((2, 2, 38), float32), B: tensor((2, 2, 38), float32)"
    check_block(parameters, body, bound, np.zeros((2, 2, 38), np.float32), np.zeros((2, 2, 38), np.float32))


# ---- lanes ---------------------------------------------------------------------------------------------------------------------------

LANES = "launch(2, threads=(64,)) as (bx,), lanes() as (tx,)"


def test_a_shared_hazard_after_a_branch_of_some_lanes(check_block, random):
    body = """
        s = alloc((48,), float32, "shared")
        if tx < 48:
            s[tx] = X[bx, tx] * 2.0
        O[bx, tx] = s[47 - tx % 48]
    """
    x = random.standard_normal((2, 64)).astype(np.float32)
    check_block("X: tensor((2, 64), float32), O: tensor((2, 64), float32)", body, x, np.zeros((2, 64), np.float32), launch=LANES)


def test_lanes_that_return_early(check_block, random):
    body = """
        if tx >= 50:
            return
        B[bx, tx] = A[bx, tx]
        if A[bx, tx] > 0:
            return
        other: int32 = shuffle("xor", A[bx, tx], 1, width=32)
        B[bx, tx] = other + 1000
    """
    a = random.integers(-5, 5, (2, 64)).astype(np.int32)
    check_block("A: tensor((2, 64), int32), B: tensor((2, 64), int32)", body, a, np.zeros((2, 64), np.int32), launch=LANES)


def test_a_loop_that_lanes_leave_at_different_times(check_block, random):
    body = """
        s: mutable(int32) = 0
        r: mutable(int32) = 0
        while r < tx % 5:
            o: int32 = shuffle("down", s, 1, width=8)
            r = r + 1
            if A[bx, tx] == r:
                continue
            s = s + o + r
            if s > 20:
                break
        B[bx, tx] = s
    """
    a = random.integers(0, 6, (2, 64)).astype(np.int32)
    check_block("A: tensor((2, 64), int32), B: tensor((2, 64), int32)", body, a, np.zeros((2, 64), np.int32), launch=LANES)


def test_votes_of_warps_and_of_the_block(check_block, random):
    body = """
        a: bool = vote("any", "warp", A[bx, tx] > 3)
        b: bool = vote("all", "block", A[bx, tx] < 9)
        c: int32 = vote("count", "block", A[bx, tx] == 2)
        d: uint32 = vote("ballot", "warp", A[bx, tx] > 0)
        B[bx, tx] = (100 if a else 0) + (10 if b else 0) + c
        C[bx, tx] = d
    """
    a = random.integers(0, 5, (2, 64)).astype(np.int32)
    a[0, :32] = 1
    parameters = "A: tensor((2, 64), int32), B: tensor((2, 64), int32), C: tensor((2, 64), uint32)"
    check_block(parameters, body, a, np.zeros((2, 64), np.int32), np.zeros((2, 64), np.uint32), launch=LANES)


def test_local_arrays_of_lanes_seen_through_a_view(check_block, random):
    body = """
        L = alloc((4,), float32, "local")
        V = view(L, (8,), uint16)
        for q in serial(4):
            L[q] = X[bx, tx] + cast(q, float32)
        barrier("block")
        for q in serial(8):
            O[bx, tx, q] = V[q]
    """
    x = random.standard_normal((2, 64)).astype(np.float32)
    check_block("X: tensor((2, 64), float32), O: tensor((2, 64, 8), uint16)", body, x, np.zeros((2, 64, 8), np.uint16), launch=LANES)


def test_lanes_of_two_axes_and_tiles_together(check_block, random):
    body = """
        S = alloc((8, 8), float32, "shared")
        T = alloc((8,), float32, "shared")
        copy(X[0:+8, 0:+8], S[0:+8, 0:+8])
        S[ty, tx] = S[ty, tx] * 2.0
        reduce("sum", S[0:+8, 0:+8], T[0:+8], axis=1)
        O[ty, tx] = S[tx, ty] + T[ty]
    """
    x = random.integers(-9, 9, (8, 8)).astype(np.float32)
    launch = "launch(1, threads=(8, 8)) as (bx,), lanes() as (tx, ty)"
    check_block("X: tensor((8, 8), float32), O: tensor((8, 8), float32)", body, x, np.zeros((8, 8), np.float32), launch=launch)


@pytest.mark.parametrize(
    "body",
    [
        "for p in parallel(8):\n    if max(n, 5) == (8 if m <= -4 else n):\n        B[p] = B[p] + 5",
        "if m <= -4:\n    B[0] = A[min(7 if m <= -4 else n, 7)]\nelse:\n    B[1] = A[min(7 if m <= -4 else n, 7)]",
        "if m <= -4:\n    for i in serial(2):\n        B[i] = A[(6 if m <= -4 else n) + i]\n"
        "for i in serial(2):\n    B[i] = B[i] + A[(6 if m <= -4 else n) + i]",
        "for i in serial(8):\n    if n <= 2:\n        B[i] = A[min((m if n <= 2 else 3) + i, 7)]\n"
        "    B[i] = B[i] + A[min((m if n <= 2 else 3) + i, 7)]",
        "if m <= -4:\n    copy(A[(6 if m <= -4 else n):+2], B[0:+2])\nelse:\n    copy(A[(6 if m <= -4 else n):+2], B[2:+2])",
        "if m <= -4:\n    for p in parallel(3):\n        B[p] = A[p + (1 if m <= -4 else n)]\nfor p in parallel(3):\n"
        "    B[p] = B[p] + A[p + (1 if m <= -4 else n)]",
    ],
)
def test_what_a_branch_knows_does_not_count_where_it_is_not_taken(check_block, body):
    """A number that parameters alone make is computed once, at the start, though it is used in branches that know more."""
    parameters = "A: tensor((8,), int32), n: scalar(int32), m: scalar(int32), B: tensor((8,), int32)"
    for n, m in ((5, 2), (5, -6), (1, -6), (1, 7), (8, 0)):
        check_block(parameters, body, np.arange(8, dtype=np.int32), n, m, np.zeros(8, np.int32))
