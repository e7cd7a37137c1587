"""The work of tracing grows with the length of the kernel and no faster: Python calls are counted, not time."""

from __future__ import annotations

import ast
import linecache
import sys
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.frontend import apart

STATEMENTS = {
    "stores": "        B[{at}] = A[{at}] * {i} + bx\n",
    "names": "        v{i} = A[{at}] * 2.0\n        B[{at}] = v{i}\n",
    "branches": "        x{i} = A[{at}]\n        if x{i} > 1:\n            x{i} = 0.5\n        B[{at}] = x{i}\n",
    "one_name": "        if A[{at}] > 1:\n            total = total + 1.0\n",
    "loops": "        for i{i} in T.serial(4):\n            B[i{i}] = A[i{i}] + {i}\n",
    "maps": "        for i in T.Parallel(64):\n            v = A[i] + {i}\n            B[i] = v\n",
}


def calls(kind: str, count: int) -> int:
    """Python function calls that tracing a kernel of ``count`` such statements takes."""
    head = "@T.prim_func\ndef kernel(A: T.Tensor((64,), 'float32'), B: T.Tensor((64,), 'float32')):\n"
    head += "    with T.Kernel(1) as bx:\n        total = 0.0\n"
    body = "".join(STATEMENTS[kind].format(i=i, at=i % 64) for i in range(count))
    text = head + body + "        B[0] = total\n"
    file = f"<{kind} {count}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    code = compile(text, file, "exec")
    counted = 0

    def count_call(frame: Any, event: str, argument: Any) -> None:
        nonlocal counted
        counted += event == "call"

    sys.setprofile(count_call)
    try:
        exec(code, {"T": T})
    finally:
        sys.setprofile(None)
    return counted


@pytest.mark.parametrize("kind", STATEMENTS)
def test_work_per_statement_is_constant(kind: str) -> None:
    calls(kind, 2)  # whatever happens only once
    short, long = calls(kind, 30), calls(kind, 300)
    assert long / 300 < 1.3 * short / 30


def test_the_parts_of_a_nested_choice_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    outer = ast.parse("0 if a else " * 200 + "(n := 1)", mode="eval").body
    looked_at = 0

    def counted(node: ast.AST) -> list[ast.AST]:
        nonlocal looked_at
        looked_at += 1
        return below(node)

    below = apart._below
    monkeypatch.setattr(apart, "_below", counted)
    level = outer
    while isinstance(level, ast.IfExp):
        assert apart.names_given(level.body, level.orelse) == ["n"]
        level = level.orelse
    assert looked_at < 5 * len(list(ast.walk(outer)))


def doubled(value: Any, count: int) -> Any:
    """A plain function, which gives its values no names: the expression has 2**count paths."""
    for _ in range(count):
        value = value + value
    return value


@pytest.mark.parametrize("target", ["interp", "cpu", "template", "cuda:sm_80,simulate"])
def test_an_expression_that_is_used_twice_again_and_again_is_looked_at_once(target: str) -> None:
    with pytest.warns(UserWarning, match="E165: total is read here"):

        @T.prim_func
        def kernel(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32"), C: T.Tensor((8,), "float32")):
            with T.Kernel(1):
                tile = T.alloc_shared((8,), "float32")
                T.copy(A, tile)
                for i in T.Parallel(8):
                    B[i] = doubled(tile[i] / 2.0, 60)
                if A[0] > 0.0:
                    total = 1.0
                C[0] = doubled(total, 60)

    a, b, c = np.arange(8, dtype=np.float32), np.zeros(8, np.float32), np.zeros(8, np.float32)
    a[0] = 8
    zl.compile(kernel, target=target)(a, b, c)
    assert b.tolist() == (a * 2.0**59).tolist()
    assert c.tolist() == [2.0**60, *[0.0] * 7]


def chosen(value: Any, count: int) -> Any:
    """Each step uses the one before in both sides of a choice, and beside it."""
    for _ in range(count):
        value = T.if_then_else(value > 3.0, value - 1.0, value) + value
    return value


@pytest.mark.parametrize("target", ["interp", "cpu", "template", "cuda:sm_80,simulate"])
def test_a_choice_between_parts_that_are_used_elsewhere(target: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                B[i] = chosen(A[i], 20)

    a, b = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    zl.compile(kernel, target=target)(a, b)
    wanted = a.copy()
    for _ in range(20):
        wanted = np.where(wanted > 3, wanted - 1, wanted) + wanted
    assert b.tolist() == wanted.tolist()


@pytest.mark.parametrize("target", ["interp", "cpu", "template", "cuda:sm_80,simulate"])
def test_what_is_used_again_and_again_in_a_choice_is_looked_at_once(target: str) -> None:
    """The side that is not chosen is not evaluated: it would read outside of the tensor."""

    def chosen(value: Any, lengths: Any, count: int) -> Any:
        for number in range(count):
            value = T.if_then_else(lengths[number % 8] > -1.0, value + value, 0.0)
        return value

    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32"), C: T.Tensor((8,), "float32"), D: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                B[i] = T.if_then_else(i < 7, doubled(A[i + 1] / 2.0, 60), doubled(A[0], 40))
                if i < 7 and doubled(A[i + 1], 60) > 2.0**62:
                    C[i] = 1.0
                if i > 6 or doubled(A[i + 1], 60) > 2.0**62:
                    C[i] += 2.0
                D[i] = chosen(A[i], A, 40)

    a = np.arange(8, dtype=np.float32)
    b, c, d = (np.zeros(8, np.float32) for _ in range(3))
    zl.compile(kernel, target=target)(a, b, c, d)
    assert b.tolist() == [*(a[1:] * 2.0**59).tolist(), 0.0]
    assert c.tolist() == [0.0, 0.0, 0.0, 0.0, 3.0, 3.0, 3.0, 2.0]
    assert d.tolist() == (a * 2.0**40).tolist()
