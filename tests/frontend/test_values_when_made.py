"""A value is what it was when it was made, wherever Python keeps it: containers, arguments, attributes, defaults, comprehensions.

Straight-line programs with stores between the making of a value and its use run as kernels and, the same text, in Python on lists.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import linecache
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
