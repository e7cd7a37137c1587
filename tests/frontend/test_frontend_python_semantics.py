"""Random programs of numbers and control flow do the same as a kernel, where conditions are decided at run time, as in Python."""

from __future__ import annotations

import linecache
import random
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zellige.language as T

NAMES = ("a", "b", "c", "d")
FLAGS = ("p", "q")


class Program:
    """Writes one function body over the arrays A (read) and B (written), the size n and the names above."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.loops = 0
        self.counters = 0
        start = [f"{name} = {self.random.choice([0, 1, 3, 'A[2]', 'n'])}" for name in NAMES]
        start += [f"{flag} = {self.random.choice(['False', 'True', 'A[1] > 0'])}" for flag in FLAGS]
        self.lines += start
        self.block(0, self.random.randint(4, 8), ())
        self.lines += [f"B[{i}] = {name}" for i, name in enumerate(NAMES)]
        self.lines += [f"B[{4 + i}] = 1 if {flag} else 0" for i, flag in enumerate(FLAGS)]

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def add(self, level: int, line: str) -> None:
        self.lines.append("    " * level + line)

    def number(self, depth: int, loop_names: tuple[str, ...]) -> str:
        choice = self.random.random()
        if depth == 0 or choice < 0.35:
            return self.random.choice([*NAMES, *NAMES, *loop_names, str(self.random.randint(-3, 9)), "A[3]", "n"])
        left, right = self.number(depth - 1, loop_names), self.number(depth - 1, loop_names)
        if choice < 0.7:
            return f"({left} {self.random.choice('+-')} {right})"
        if choice < 0.8:
            return f"({left} * {right} % 31)"
        if choice < 0.87:
            return f"({left} {self.random.choice(['//', '%'])} {self.random.choice([2, 3, -4, 7])})"
        if choice < 0.93:
            return f"({left} if {self.condition(1, loop_names)} else {right})"
        if choice < 0.96:
            return f"({self.random.choice(NAMES)} := {left} % 31)"
        return f"A[{left} % 8]"

    def condition(self, depth: int, loop_names: tuple[str, ...]) -> str:
        choice = self.random.random()
        if depth and choice < 0.2:
            word = self.random.choice(["and", "or"])
            return f"({self.condition(depth - 1, loop_names)} {word} {self.condition(depth - 1, loop_names)})"
        if choice < 0.3:
            return f"not {self.random.choice(FLAGS)}"
        if choice < 0.4:
            return self.random.choice(FLAGS)
        operators = ["<", "<=", ">", ">=", "==", "!="]
        if choice < 0.5:
            return f"-2 {self.random.choice(operators[:2])} {self.number(1, loop_names)} < {self.number(1, loop_names)}"
        return f"{self.number(1, loop_names)} {self.random.choice(operators)} {self.number(1, loop_names)}"

    def block(self, level: int, count: int, loop_names: tuple[str, ...]) -> None:
        before = len(self.lines)
        for _ in range(count):
            self.statement(level, loop_names)
        if len(self.lines) == before:
            self.add(level, "pass")

    def statement(self, level: int, loop_names: tuple[str, ...]) -> None:
        choice = self.random.random()
        inner = self.random.randint(1, 3)
        if choice < 0.3 or level > 3:
            self.add(level, f"{self.random.choice(NAMES)} = {self.number(2, loop_names)}")
        elif choice < 0.4:
            self.add(level, f"{self.random.choice(NAMES)} {self.random.choice(['+=', '-='])} {self.number(1, loop_names)}")
        elif choice < 0.45:
            self.add(level, f"{self.random.choice(FLAGS)} = {self.condition(1, loop_names)}")
        elif choice < 0.5:
            first, second = self.random.sample(NAMES, 2)
            self.add(level, f"{first}, {second} = {second}, {first}")
        elif choice < 0.58:
            self.add(level, f"B[8 + {self.number(1, loop_names)} % 4] = {self.number(1, loop_names)}")
        elif choice < 0.74:
            self.add(level, f"if {self.condition(2, loop_names)}:")
            self.block(level + 1, inner, loop_names)
            if self.random.random() < 0.3:
                self.add(level, f"elif {self.condition(1, loop_names)}:")
                self.block(level + 1, inner, loop_names)
            if self.random.random() < 0.6:
                self.add(level, "else:")
                self.block(level + 1, inner, loop_names)
        elif choice < 0.86:
            name = self.random.choice([f"i{self.counters}", self.random.choice(NAMES)])
            self.counters += 1
            bounds = self.random.choice(["range(3)", "range(n)", "range(2, n + 2, 2)", "range(4, 0, -1)", "range(0)", "range(A[4] % 4)"])
            self.add(level, f"for {name} in {bounds}:")
            self.loop_body(level, inner, (*loop_names, name))
            if name.startswith("i") and self.random.random() < 0.3:
                self.add(level, f"a = {name} if n > 0 else 7" if bounds == "range(3)" else "a = 2")
        elif choice < 0.94:
            counter = f"k{self.counters}"
            self.counters += 1
            self.add(level, f"{counter} = 0")
            self.add(level, f"while {self.condition(1, loop_names)} and {counter} < {self.random.choice(['3', 'n'])}:")
            self.add(level + 1, f"{counter} += 1")
            self.loop_body(level, inner, loop_names)
        elif loop_names or self.loops:
            pass
        else:
            self.add(level, f"for w in ({self.random.randint(0, 4)}, 2, 5):")
            self.block(level + 1, inner, (*loop_names, "w"))

    def loop_body(self, level: int, count: int, loop_names: tuple[str, ...]) -> None:
        self.loops += 1
        self.block(level + 1, count, loop_names)
        if self.random.random() < 0.4:
            self.add(level + 1, f"if {self.condition(1, loop_names)}:")
            if self.random.random() < 0.5:
                self.block(level + 2, 1, loop_names)
            self.add(level + 2, self.random.choice(["break", "continue"]))
            self.block(level + 1, 1, loop_names)
        self.loops -= 1


def define(text: str, name: str, file: str) -> Any:
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"T": T, "SIX": 6}
    exec(compile(text, file, "exec"), namespace)
    return namespace[name]


def compare(body: str, label: object, run: Callable[..., Any]) -> None:
    """Runs the statements as a kernel and in Python, for three arrays and sizes."""
    plain = define("def plain(A, B, n):\n" + textwrap.indent(body, " " * 4), "plain", f"<plain {label}>")
    head = "@T.prim_func\ndef kernel(A: T.Tensor((8,), 'int32'), B: T.Tensor((12,), 'int32'), n: T.int32):\n    with T.Kernel(1):\n"
    kernel = define(head + textwrap.indent(body, " " * 8), "kernel", f"<kernel {label}>")
    for n, values in ((3, [1, -2, 5, 7, 2, 0, 3, -1]), (0, [0] * 8), (5, [9, 4, -7, 1, 3, 8, -3, 2])):
        want = [0] * 12
        plain(values, want, n)
        got = np.zeros(12, np.int32)
        run(kernel, np.array(values, np.int32), got, n)
        assert got.tolist() == [int(w) for w in want], body


@pytest.mark.parametrize("seed", range(100))
def test_random_program(seed: int, run: Callable[..., Any]) -> None:
    compare(Program(seed).text(), seed, run)


# names that a definition binds or reads where it stands (its defaults and decorators), and names of scopes inside it
NAMES_OF_DEFINITIONS = {
    "default": "w = 0\nif n > 3:\n    def f(a, b=(w := A[5])):\n        return a + b\n    B[0] = f(1)\nB[1] = w\n",
    "keyword default": "w = 1\nfor i in range(n):\n    def f(a, *, b=(w := w + i)):\n        return a + b\n    B[0] += f(1)\nB[1] = w\n",
    "decorator": "w = 0\nif n > 3:\n    @(lambda q: lambda g: g)(w := 3)\n    def f(a):\n        return a\n    B[0] = f(1)\nB[1] = w\n",
    "two definitions": "for x in (1, 2):\n    if n > x:\n        B[0] += 1\n    elif A[0] == 0:\n"
    "        def f(b=(3 if A[2] > 2 else (w := A[5]) + w)):\n            return b\n        B[x] = f()\n",
    "lambda in a choice": "w = 1\nB[0] = (lambda b=(w := A[1]): b)() if n > 3 else 3\nB[1] = w\n",
    "lambda behind and": "w = 1\nB[0] = 1 if n > 3 and (lambda b=(w := 4): b)() > 2 else 0\nB[1] = w\n",
    "function inside": "x = 1\ndef f():\n    def g():\n        x = 10\n        return x\n    return x + g()\n"
    "if n > 3:\n    x = 5\nB[0] = f()\n",
    "comprehension inside": "x = 1\ndef f():\n    return x + sum([x for x in (10, 20)])\nif n > 3:\n    x = 5\nB[0] = f()\n",
    "parameter inside": "x = 1\nf = lambda: x + (lambda x: x)(10)\nif n > 3:\n    x = 5\nB[0] = f()\n",
    "name of a lambda": "f = lambda: (SIX := 3)\nB[0] = f() + SIX\n",
    "place chosen": "w = 1\nif n > 3:\n    w = 5\nB[3 if A[1] > 0 else (w := 4)] = 2\nB[0] = w\n",
}


@pytest.mark.parametrize("label", NAMES_OF_DEFINITIONS)
def test_names_of_definitions(label: str, run: Callable[..., Any]) -> None:
    compare(NAMES_OF_DEFINITIONS[label], label, run)
