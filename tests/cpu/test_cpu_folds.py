"""Reductions inside of Maps whose rows are folded together: the meaning stays, and the bits are those of rows folded one by one."""

from __future__ import annotations

import re

import numpy as np
import pytest

from zellige_cpu import folds
from zellige_cpu.host import running_host

ROWS = 64


def body_of(op: str, columns: int, *, kind: str = "float32", clear: bool = True) -> tuple[str, str]:
    head = f"X: tensor(({ROWS}, {columns}), float32), Y: tensor(({ROWS}, {columns}), float32), R: tensor(({ROWS},), {kind})"
    return head, f"""
x = alloc(({ROWS}, {columns}), float32, "fragment")
y = alloc(({ROWS}, {columns}), float32, "fragment")
r = alloc(({ROWS},), {kind}, "fragment")
copy(X[:, :], x[:, :])
copy(R[:], r[:])
for s in serial(2):
    for i, j in parallel({ROWS}, {columns}):
        y[i, j] = x[i, j] * 1.5 + 0.25
    reduce("{op}", y[:, :], r[:], axis=1, clear={clear})
copy(y[:, :], Y[:, :])
copy(r[:], R[:])
"""


def waits(tools, head: str, body: str) -> bool:
    """Whether vectors of all rows lie on the stack."""
    text = tools["compile_for"](tools["block_kernel"](head, body)).source()
    return re.search(rf"alloca <{running_host().lanes(4)} x float>, i32 {ROWS}", text) is not None


@pytest.mark.parametrize("op", ["sum", "max", "min", "abssum", "prod"])
@pytest.mark.parametrize(
    ("columns", "kind", "clear"), [(64, "float32", True), (32, "float32", False), (64, "float16", True), (128, "float32", True)]
)
def test_rows_that_wait(tools, check_block, random, op, columns, kind, clear):
    head, body = body_of(op, columns, kind=kind, clear=clear)
    x = random.integers(-2, 3, (ROWS, columns)).astype(np.float32)
    if op in ("max", "min"):
        x[5], x[6, 1:], x[7] = np.nan, np.nan, -np.inf
    if op == "prod":
        x = random.choice(np.array([0.5, 1 / 6, -5 / 6], np.float32), x.shape)
    check_block(head, body, x, np.zeros_like(x), np.ones(ROWS, kind), rtol=1e-4 if op == "prod" else 0.0)
    assert waits(tools, head, body)


@pytest.mark.parametrize("columns", [1, 7, 37, 65])
def test_rows_of_several_widths(check_block, random, columns):
    head, body = body_of("sum", columns)
    x = random.integers(-9, 10, (ROWS, columns)).astype(np.float32)
    check_block(head, body, x, np.zeros_like(x), np.zeros(ROWS, np.float32))


def test_bits_are_those_of_rows_one_by_one(tools, random, monkeypatch):
    head, body = body_of("sum", 64)
    x = random.standard_normal((ROWS, 64)).astype(np.float32)
    results = []
    for most in (folds._MOST_BYTES, 0):
        monkeypatch.setattr(folds, "_MOST_BYTES", most)
        kernel = tools["block_kernel"](head, body)
        assert waits(tools, head, body) is (most > 0)
        arrays = [x, np.zeros_like(x), np.zeros(ROWS, np.float32)]
        tools["run_on"](tools["compile_for"](kernel), kernel, arrays)
        results.append(arrays[2])
    assert np.array_equal(results[0].view(np.uint32), results[1].view(np.uint32))
