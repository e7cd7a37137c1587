"""Rows that are multiplied by one are left alone, and only where all factors are one."""

from __future__ import annotations

import re

import numpy as np
import pytest

ROWS, COLUMNS = 64, 40
HEAD = f"X: tensor(({ROWS}, {COLUMNS}), float32), F: tensor(({ROWS},), float32), Y: tensor(({ROWS}, {COLUMNS}), float32)"


def body_of(product: str, *, rows: int = ROWS, columns: int = COLUMNS, dtype: str = "float32") -> str:
    return f"""
x = alloc(({ROWS}, {COLUMNS}), {dtype}, "fragment")
f = alloc(({ROWS},), float32, "fragment")
copy(X[:, :], x[:, :])
copy(F[:], f[:])
for s in serial(2):
    for i, j in parallel({rows}, {columns}):
        x[i, j] = {product}
    f[3] = f[3] + 0.5
copy(x[:, :], Y[:, :])
"""


def looks(tools, body: str) -> bool:
    """Whether the code compares vectors of factors with one before a loop over rows."""
    text = tools["compile_for"](tools["block_kernel"](HEAD, body)).source()
    return re.search(r"fcmp une <\d+ x float> %\w+, splat \(float 0x3FF0000000000000\)", text) is not None


def factors(kind: str) -> np.ndarray:
    found = np.ones(ROWS, np.float32)
    match kind:
        case "one differs":
            found[37] = 2.0
        case "the last differs":
            found[-1] = -1.0
        case "not a number":
            found[5] = np.nan
        case "all differ":
            found = np.arange(ROWS, dtype=np.float32)
        case _:
            pass
    return found


@pytest.mark.parametrize("product", ["x[i, j] * f[i]", "f[i] * x[i, j]"])
@pytest.mark.parametrize("kind", ["all one", "one differs", "the last differs", "not a number", "all differ"])
def test_rows_times_their_factors(tools, check_block, random, product, kind):
    body = body_of(product)
    x = random.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    x[0, :4] = [np.nan, np.inf, -np.inf, -0.0]
    out = check_block(HEAD, body, x, factors(kind), np.zeros_like(x))[2]
    assert np.array_equal(out[0, 2:4], x[0, 2:4]) or kind == "all differ"
    assert looks(tools, body)


@pytest.mark.parametrize(
    ("product", "options"),
    [
        ("x[i, j] * f[j]", {"columns": 39}),
        ("x[i, j] + f[i]", {}),
        ("x[i, 0] * f[i]", {"columns": 1}),
        ("x[i, j] * x[i, j]", {}),
        ("x[i, j] * f[i]", {"rows": ROWS - 1}),
        ("x[i, j] * 2.0", {}),
        ("x[i, j] * f[i] * f[i]", {}),
    ],
)
def test_other_maps_do_not_look(tools, check_block, random, product, options):
    body = body_of(product, **options)
    x = random.standard_normal((ROWS, COLUMNS)).astype(np.float32)
    check_block(HEAD, body, x, factors("one differs"), np.zeros_like(x))
    assert not looks(tools, body)
