"""A value is what it was when it was made, wherever Python keeps it: containers, arguments, attributes, defaults, comprehensions.

Straight-line programs with stores between the making of a value and its use run as kernels and, the same text, in Python on lists.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import linecache
import random
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T

SIZE = 8
Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Record:
    """A plain object of the user's."""

    value: Any = 0
    other: Any = 0


def changing(A: Any, position: int, value: Any) -> Any:
    """An undecorated function that stores and returns what it was given."""
    A[position] = A[position] + 10
    return value


def reading(A: Any, position: int) -> Any:
    """Reads, stores, and uses what it read."""
    before = A[position]
    A[position] = before + 3
    return before - A[position] * 2


def pair_of(A: Any, position: int) -> Any:
    """A container made by a function that Python runs."""
    kept = [A[position], A[position] + 1]
    A[position] = 50
    return Pair(kept[0], kept[1])


def read_each(A: Any) -> Any:
    """A generator function that Python runs."""
    for i in (0, 1, 2):
        value = A[i]
        A[i] = value + 1
        yield value


HELPERS = {
    "Pair": Pair, "Record": Record, "partial": functools.partial, "reduce": functools.reduce,
    "changing": changing, "reading": reading, "pair_of": pair_of, "read_each": read_each,
}


def define(text: str, name: str, file: str, **more: Any) -> Any:
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"T": T, **HELPERS, **more}
    exec(compile(text, file, "exec"), namespace)
    return namespace[name]


def indented(text: str, by: int) -> str:
    return "".join(" " * by + line + "\n" for line in text.strip("\n").split("\n"))


def check(text: str, label: str, target: str, n: int = 2) -> None:
    """Runs ``text``, statements over the lists A (read and written) and D (written) and the number n, both ways."""
    start = [5, 3, 9, 2, 7, 1, 4, 6]
    plain = define("def plain(A, D, n):\n" + indented(text, 4), "plain", f"<plain {label}>")
    expected_a, expected_d = list(start), [0] * SIZE
    plain(expected_a, expected_d, n)
    shape = f"T.Tensor(({SIZE},), 'int32')"
    head = f"@T.prim_func\ndef kernel(A: {shape}, D: {shape}, n: T.int32):\n    with T.Kernel(1):\n"
    kernel = define(head + indented(text, 8), "kernel", f"<kernel {label}>")
    a, d = np.array(start, np.int32), np.zeros(SIZE, np.int32)
    zl.compile(kernel, target=target)(a, d, n)
    assert (a.tolist(), d.tolist()) == (expected_a, [int(v) for v in expected_d]), text


# ---- each way in which a value is kept

PROGRAMS = {
    "a list comprehension": "r = [A[i] for i in (0, 1)]\nA[0] = r[0] + r[1]\nA[1] = r[0] - r[1]",
    "a generator unpacked": "A[0], A[1], A[2] = (A[i] for i in (2, 0, 1))",
    "a generator is read late": "g = (A[i] for i in (0, 1))\nA[0] = 70\nD[0], D[1] = g",
    "a generator over a list that is made at once": "g = (x + A[0] for x in [A[1], A[2]])\nA[1] = 70\nA[0] = 1\nD[0], D[1] = g",
    "a sum of a generator": "D[0] = sum(A[i] for i in (0, 1, 2))",
    "a set comprehension": "s = {A[i] for i in (0,)}\nA[0] = 70\nfor x in s:\n    D[0] = x",
    "a dict comprehension": "d = {i: A[i] for i in (0, 1)}\nA[0] = 70\nD[0] = d[0] + d[1]",
    "a comprehension of comprehensions": "m = [[A[i + j] for j in (0, 1)] for i in (0, 2)]\nA[3] = 0\nA[0] = 1\nD[0] = m[1][1] + m[0][0]",
    "append of a running sum": (
        "p = []\nacc = 0\nfor j in (0, 1, 2):\n    if A[j] > n:\n        acc += A[j]\n    p.append(acc)\nD[0], D[1], D[2] = p"
    ),
    "append": "h = []\nh.append(A[0])\nA[0] = 70\nD[0] = h[0]",
    "insert": "h = [1]\nh.insert(0, A[0])\nA[0] = 70\nD[0] = h[0]",
    "extend": "h = []\nh.extend([A[0], A[1]])\nA[1] = 70\nD[0] = h[1]",
    "setdefault": "h = {}\nh.setdefault('x', A[0])\nA[0] = 70\nD[0] = h['x']",
    "update by name": "h = {}\nh.update(x=A[0])\nA[0] = 70\nD[0] = h['x']",
    "dict of names": "h = dict(x=A[0], y=A[1] + n)\nA[0] = 70\nA[1] = 1\nD[0] = h['x'] + h['y']",
    "an item": "h = [0, 0]\nh[1] = A[0]\nA[0] = 70\nD[0] = h[1]",
    "an item that is a variable": "v = 1\nfor i in range(n):\n    v += i\nh = [0]\nh[0] = v\nfor i in range(n):\n    v += 5\nD[0] = h[0]",
    "an attribute": "h = Record()\nh.value = A[0]\nA[0] = 70\nD[0] = h.value",
    "an attribute that is a variable": (
        "v = 1\nfor i in range(n):\n    v += i\nh = Record()\nh.value = v\nh.value += 1\nD[0] = v\nD[1] = h.value\n"
        "for i in range(n):\n    v += 5\nD[2] = h.value\nD[3] = v"
    ),
    "a named tuple": "h = Pair(A[0], A[1])\nA[0] = 70\nD[0] = h.first + h.second",
    "a data class": "h = Record(A[0], other=A[1])\nA[0] = 70\nA[1] = 0\nD[0] = h.value - h.other",
    "a partial function": "f = partial(lambda x, y: x - y, A[0])\nA[0] = 70\nD[0] = f(A[1])",
    "a default of a lambda": "f = lambda x=A[0]: x + 1\nA[0] = 70\nD[0] = f()",
    "a default of a function": "def f(x=A[0], *, y=A[1]):\n    return x - y\nA[0] = 70\nA[1] = 0\nD[0] = f()",
    "map": "f = list(map(lambda z: A[z], (0, 1)))\nA[0] = 70\nD[0] = f[0] - f[1]",
    "reduce": "D[0] = reduce(lambda x, y: x * 2 + y, [A[0], A[1], A[2]])",
    "zip and enumerate": "for i, (x, y) in enumerate(zip([A[0], A[1]], [A[2], A[3]])):\n    A[i + 2] = x\n    D[i] = y",
    "several targets": "A[0] = A[1] = A[0] + 1",
    "a name and an element": "x = A[0] = A[0] + 1\nA[0] = 70\nD[0] = x",
    "a swap": "A[0], A[1] = A[1], A[0]",
    "an argument of a function that stores": "D[0] = changing(A, 0, A[0])\nD[1] = A[0]",
    "a function that Python runs": "D[0] = reading(A, 0)\nD[1] = A[0]",
    "a container that Python makes": "p = pair_of(A, 0)\nA[0] = 1\nD[0] = p.first\nD[1] = p.second",
    "a generator that Python runs": "for x in read_each(A):\n    A[2] = A[2] + x\nD[0] = A[2]",
    "an operand before a function that stores": "D[0] = A[0] + changing(A, 0, 1)\nD[1] = changing(A, 0, 1) + A[0]",
    "an argument before a function that stores": "D[0] = max(A[0], changing(A, 0, 1))\nD[1] = pow(A[1], 2) + A[1]",
    "an index before a function that stores": "D[A[3] + 0 * changing(A, 3, 1)] = 8\nD[0] = A[3]",
    "a value before its place": "D[0 * changing(A, 0, 1)] = A[0]",
    "an augmented element": "A[0] += changing(A, 0, 1)\nA[1] -= reading(A, 1)",
    "an augmented attribute": "h = Record()\nh.value = A[0]\nh.value += changing(A, 0, A[0])\nA[0] = 0\nD[0] = h.value",
    "arguments by star": "def f(*args, **named):\n    A[0] = 70\n    return args[0] - named['x']\nD[0] = f(A[0], x=A[0])",
    "a star of a list": "def f(x, y):\n    A[0] = 70\n    return x - y\nl = [A[0], A[1]]\nA[1] = 9\nD[0] = f(*l)",
    "a function's parameter": "def f(x):\n    A[0] = 70\n    return x\nD[0] = f(A[0]) + A[0]",
    "a function's container": "def f():\n    return [A[0], {'x': A[1]}]\nr = f()\nA[0] = 70\nA[1] = 8\nD[0] = r[0] + r[1]['x']",
    "values across a loop": "h = []\nh.append(A[0])\nfor i in range(4):\n    A[0] = A[0] + 1\n    D[i] = h[0]",
    "a range that is kept": "m = A[3]\nfor i in range(n):\n    m += 0\nr = range(m)\nm = 1\nA[3] = 0\nfor i in r:\n    D[i] = 1\nD[7] = m",
    "a walrus in an argument": "D[0] = max((v := A[0]), changing(A, 0, 2))\nD[1] = v",
    "a walrus in a comprehension": "r = [(w := A[i]) + 1 for i in (0, 1)]\nA[1] = 70\nD[0] = w\nD[1] = r[1]",
    "a walrus in while": "i = 0\nv = 0\nwhile (v := A[i]) != 2:\n    i += 1\nD[0] = v\nD[1] = i",
    "a walrus in while, read in the body": "i = 0\nwhile (v := A[i]) != 2:\n    D[i] = v\n    i += 1\nD[7] = v",
    "a walrus behind and": "i = 0\nwhile i < 6 and (v := A[i]) != 1:\n    D[i] = v + 1\n    i += 1",
    "a walrus in an arm": "v = A[1]\nD[0] = (v := 8) if n > 2 else v\nD[1] = v\nD[2] = 1 if A[0] > n else (v := 5)\nD[3] = v",
    "a walrus in either arm": (
        "w = 0\nD[0] = (v := 8) if n > 2 else 1 + (v := A[2])\nD[1] = v\nD[2] = ((w := 4), 6)[1] if A[0] > n else v\nD[3] = w"
    ),
    "a walrus in an arm of an arm": (
        "v = w = 1\nD[0] = ((v := A[0]) if A[1] > n else (w := 7)) if A[0] > n else (v := 9)\nD[1] = v\nD[2] = w"
    ),
    "a walrus that or passes over": "v = w = 1\nD[0] = n or (v := A[0])\nD[1] = (n - 2) or (w := A[0])\nD[2] = v\nD[3] = w",
    "a walrus that and passes over": "v = w = 1\nif n > 2 and (v := A[0]) > 1 or (w := A[1]) > 9:\n    D[0] = 1\nD[2] = v\nD[3] = w",
    "a walrus in a chain of comparisons": "v = w = 1\nD[0] = 2 < n < (v := 8)\nD[1] = 1 < n < (w := A[2]) < 10\nD[2] = v\nD[3] = w",
    "a walrus in an element of a sum": "D[0] = sum((v := A[i]) if A[i] > 4 else 1 for i in (0, 1, 2, 3))\nD[1] = v",
    "a walrus in an index and in bounds": (
        "v = 1\nD[(v := 3) if n > 2 else 0] = v\nfor i in range((v := 4) if n > 1 else 2):\n    D[i] += v"
    ),
    "any and all stop": (
        "D[0] = any((v := A[i]) > 4 for i in (1, 2, 3))\nD[1] = v\nD[2] = all((v := A[i]) > 4 for i in (2, 1, 0))\nD[3] = v"
    ),
    "any that stores": "D[0] = any(changing(A, i, A[i]) > 4 for i in (1, 0, 2))\nD[1] = any([])\nD[2] = all(x > 3 for x in [A[0], A[1]])",
    "a chain of comparisons that stores": "D[0] = 2 < n < changing(A, 0, 9)\nD[1] = 1 < n < changing(A, 1, 1) < changing(A, 2, 3)",
    "a name that a loop does not reach": (
        "if n > 1:\n    for i in range(n):\n        if len([1]) > 1:\n            v = 1\n    if A[0] > n:\n        v = 4\n"
        "if A[0] <= n:\n    v = 6\nD[0] = v"
    ),
    "or": "D[0] = A[0] or 5\nD[1] = (A[0] - 5) or n\nD[2] = (A[0] - 5) or 0\nD[3] = (n - 2) or (A[1] - 3) or A[2]",
    "and": "D[0] = A[0] and 6\nD[1] = (A[0] - 5) and 6\nD[2] = A[0] and A[1]\nD[3] = A[0] and 0\nD[4] = A[0] and A[1] and (n + 1)",
    "and with or": "D[0] = (A[0] and A[1]) or 4\nD[1] = ((A[0] - 5) and A[1]) or 4\nD[2] = A[0] and ((A[1] - 3) or 4)",
    "and of a condition and a number": "D[0] = A[0] > 3 and 6\nD[1] = A[0] > 30 and 6\nD[2] = A[0] > 3 and A[1]",
    "or that stores": "D[0] = A[0] or changing(A, 0, 4)\nD[1] = (A[0] - 5) or changing(A, 1, 4)\nD[2] = A[1]",
    "and that stores": "D[0] = A[0] and changing(A, 0, 4)\nD[1] = (A[1] - 3) and changing(A, 1, 4)\nD[2] = A[0] + A[1]",
    "numbers as conditions": (
        "if A[0] and n or A[1]:\n    D[0] = 1\nif not (A[0] - 5 or n - 2):\n    D[1] = 1\nif A[0] or True:\n    D[2] = 1\n"
        "D[3] = 4 if (A[0] - 5 and n) else 6\nassert A[0] or n\nwhile n and A[1]:\n    A[1] -= 1"
    ),
    "any and all of numbers": "D[0] = 3 if any([A[0], A[1]]) else 4\nD[1] = 3 if all([A[0], A[0] - 5]) else 4",
}


@pytest.mark.parametrize("target", ["interp", "cpu"])
@pytest.mark.parametrize("label", PROGRAMS)
def test_as_in_python(label: str, target: str) -> None:
    check(PROGRAMS[label], f"{label} {target}", target)


def statements(body: str) -> str:
    """What a kernel with this body does, in the text of the tile IR."""
    head = "@T.prim_func\ndef kernel(A: T.Tensor((8,), 'int32'), D: T.Tensor((8,), 'int32'), n: T.int32):\n    with T.Kernel(1):\n"
    kernel = define(head + indented(body, 8), "kernel", f"<text {hash(body)}>")
    return str(kernel.script())


def test_nothing_is_bound_that_nothing_changes() -> None:
    """A program without a change between making and use is the same as the one that reads where it uses."""
    plain = statements("for i in T.Parallel(8):\n    D[i] = T.max(A[i], n) + A[i] * A[i]")
    define_helper = "square = partial(lambda x: x * x)\n"
    loop = "for i in T.Parallel(8):\n    r = Record([A[i] for _ in (0,)])\n    D[i] = T.max(A[i], n) + square(A[i])"
    kept = statements(define_helper + loop)
    assert kept == plain
    assert statements("for i in T.serial(A[0]):\n    D[i] = 1") == statements("for i in range(A[0]):\n    D[i] = 1")
    assert "value" not in statements("for i in T.serial(A[0]):\n    D[i] = sum(A[k] for k in (1, 2))")


def test_one_name_for_what_is_changed() -> None:
    text = statements("r = [A[i] for i in (0, 1)]\nA[0] = r[0] + r[1]\nD[0] = r[1]")
    assert text.count("A[0]") == 2, text  # read once, where it is used, and stored once
    assert text.count("A[1]") == 1, text


PLACES = {
    "v[0] = 9": 9,
    "v[0] = v + v[0]": 10,
    "T.fill(v, 4)": 4,
}


@pytest.mark.parametrize("line", PLACES)
def test_a_place_stays_known_in_a_function_that_python_runs(line: str) -> None:
    helper = define(f"def helper(v, A):\n    {line}\n    return v\n", "helper", f"<helper {line}>")
    kernel = define(
        "@T.prim_func\ndef kernel(A: T.Tensor((8,), 'int32'), D: T.Tensor((8,), 'int32')):\n    with T.Kernel(1):\n"
        "        v = T.alloc_var('int32', 5)\n        D[1] = helper(v, A)\n        D[0] = v\n",
        "kernel", f"<places {line}>", helper=helper,
    )
    d = np.zeros(8, np.int32)
    zl.compile(kernel, target="interp")(np.zeros(8, np.int32), d)
    assert d.tolist()[:2] == [PLACES[line], 5]


@pytest.mark.parametrize("target", ["interp", "cpu"])
def test_elements_are_places_in_functions_that_python_runs(target: str) -> None:
    helper = define(
        "def helper(place, start, tile):\n    T.atomic_add(place, 10)\n    T.copy(start, tile)\n    return place\n", "helper", "<elements>"
    )
    kernel = define(
        "@T.prim_func\ndef kernel(A: T.Tensor((8,), 'int32'), D: T.Tensor((8,), 'int32')):\n    with T.Kernel(1):\n"
        "        tile = T.alloc_shared((4,), 'int32')\n        D[0] = helper(A[0], A[A[1]], tile)\n        T.copy(tile, D[4])\n",
        "kernel", "<elements kernel>", helper=helper,
    )
    a, d = np.array([5, 3, 9, 2, 7, 1, 4, 6], np.int32), np.zeros(8, np.int32)
    zl.compile(kernel, target=target)(a, d)
    assert (a[0], d.tolist()) == (15, [5, 0, 0, 0, 2, 7, 1, 4])


@pytest.mark.parametrize("target", ["interp", "cpu"])
def test_the_bounds_of_inner_loops_are_read_once(target: str) -> None:
    kernel = define(
        "@T.prim_func\ndef kernel(A: T.Tensor((2,), 'int32'), D: T.Tensor((2,), 'int32')):\n    with T.Kernel(1):\n"
        "        for i, j in T.grid(3, A[0]):\n            A[0] = 1\n            D[0] += 1\n"
        "        v = T.alloc_var('int32', 4)\n        r = T.serial(v)\n        v = 1\n        for i in r:\n            D[1] += 1\n",
        "kernel", "<bounds>",
    )
    a, d = np.array([2, 0], np.int32), np.zeros(2, np.int32)
    zl.compile(kernel, target=target)(a, d)
    assert d.tolist() == [6, 4]


@pytest.mark.parametrize("target", ["interp", "cpu"])
def test_variables_that_are_made_for_a_container_stay_variables(target: str) -> None:
    kernel = define(
        "@T.prim_func\ndef kernel(D: T.Tensor((4,), 'int32')):\n    with T.Kernel(1):\n"
        "        vs = [T.alloc_var('int32', 1) for _ in range(3)]\n        h = Record(T.alloc_var('int32', 7))\n"
        "        for i in T.serial(3):\n            vs[1] += i\n            h.value += 1\n"
        "        v = T.alloc_var('int32', 3)\n        h.other = v\n        h.other += 1\n"
        "        D[0], D[1], D[2], D[3] = vs[1], h.value, v, h.other\n",
        "kernel", "<containers of variables>",
    )
    d = np.zeros(4, np.int32)
    zl.compile(kernel, target=target)(d)
    assert d.tolist() == [4, 10, 3, 4]


# ---- random programs


class Author:
    """Writes straight-line programs that keep values in Python's objects, change what they were read from, and use them."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.held: list[str] = []  # expressions that give kept values
        self.names = 0
        for _ in range(self.random.randint(8, 14)):
            self.random.choice([self.keep, self.keep, self.change, self.use])()
        for place in range(4):
            self.lines.append(f"D[{place}] = {self.kept()}")

    def name(self) -> str:
        self.names += 1
        return f"x{self.names}"

    def element(self) -> str:
        return f"A[{self.random.randint(0, 4)}]"

    def kept(self) -> str:
        return self.random.choice([*self.held, *self.held, self.element(), "n"])

    def value(self) -> str:
        """An expression that reads; some of its operands store."""
        position = self.random.randint(0, 4)
        return self.random.choice([
            self.element(),
            f"({self.element()} - {self.kept()})",
            f"changing(A, {position}, {self.element()})",
            f"reading(A, {position})",
            f"({self.element()} + changing(A, {position}, {self.kept()}))",
            f"max({self.element()}, changing(A, {position}, {self.kept()}), {self.element()})",
            f"(({self.element()} - {self.random.randint(1, 9)}) or {self.kept()})",
            f"({self.element()} and {self.kept()})",
            f"({self.element()} if {self.kept()} > {self.kept()} else {self.kept()})",
            f"(lambda x, y={self.element()}: x - changing(A, {position}, y))({self.kept()})",
            f"sum({self.element()} + i for i in (1, 2))",
        ])  # fmt: skip

    def keep(self) -> None:
        """A statement that keeps values; later ones may use them."""
        name, first, second = self.name(), self.value(), self.value()
        made, uses = self.random.choice([
            ([f"{name} = [{first}, {second}]"], ["{}[0]", "{}[1]"]),
            ([f"{name} = [A[i] + {self.kept()} for i in (0, 3)]"], ["{}[0]", "{}[1]"]),
            ([f"{name} = tuple(A[i] for i in (2, 1))"], ["{}[0]", "{}[1]"]),
            ([f"{name} = {{'k': {first}, 'm': {second}}}"], ["{}['k']", "{}['m']"]),
            ([f"{name} = dict(k={first}, m={second})"], ["{}['k']", "{}['m']"]),
            ([f"{name} = {{i: A[i] for i in (0, 4)}}"], ["{}[0]", "{}[4]"]),
            ([f"{name} = []", f"{name}.append({first})", f"{name}.insert(0, {second})"], ["{}[0]", "{}[1]"]),
            ([f"{name} = [0, 0]", f"{name}[1] = {first}", f"{name}[0] = {second}"], ["{}[0]", "{}[1]"]),
            ([f"{name} = Pair({first}, {second})"], ["{}.first", "{}.second"]),
            ([f"{name} = Record({first}, other={second})"], ["{}.value", "{}.other"]),
            ([f"{name} = Record()", f"{name}.value = {first}", f"{name}.value += {second}"], ["{}.value"]),
            ([f"{name} = partial(lambda a, b: a - b, {first}, b={second})"], ["{}()"]),
            ([f"{name} = lambda a={first}: a + {self.element()}"], ["{}()"]),
            ([f"{name} = list(map(lambda i: A[i], (1, 2)))"], ["{}[0]", "{}[1]"]),
            ([f"{name} = pair_of(A, {self.random.randint(0, 4)})"], ["{}.first", "{}.second"]),
            ([f"{name} = {first}"], ["{}"]),
            ([f"{name}, {name}b = {first}, {second}"], ["{}", "{}b"]),
        ])  # fmt: skip
        self.lines += made
        self.held += [use.format(name) for use in uses]

    def change(self) -> None:
        """A statement that stores, decided at run time or not."""
        first, second = self.element(), self.element()
        self.lines += self.random.choice([
            [f"{first} = {self.value()}"],
            [f"{first} += {self.value()}"],
            [f"{first} = {second} = {self.value()}"],
            [f"{first}, {second} = {second}, {first}"],
            ["A[0], A[1], A[2] = (A[i] for i in (2, 0, 1))"],
            [f"if {self.kept()} > {self.kept()}:", f"    {first} = {self.kept()}"],
            ["for i in range(n):", f"    A[i] = {self.kept()} + i"],
        ])  # fmt: skip

    def use(self) -> None:
        self.lines.append(f"D[{self.random.randint(4, 7)}] = {self.value()}")


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_keep_values(seed: int) -> None:
    check("\n".join(Author(seed).lines), f"random {seed}", "interp")
