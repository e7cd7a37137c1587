"""Zeros that a product adds to are left to the product, and only where all of its tile is zero: text for text against the interpreter."""

from __future__ import annotations

import re

import numpy as np
import pytest

from zellige_cpu import tiles

M, N, K = 16, 24, 8
ALL = f"for i, j in parallel({M}, {N}):"
MASK = f"{ALL}\n    c[i, j] = 0.0 if s * {N} + j < n else 7.0"


def body_of(before: str, *, product: str = "gemm(a[:, :], b[:, :], c[:, :], clear=False)") -> str:
    """Two steps, before the product of each of which ``before`` is done; what c holds is added up."""
    inner = "\n".join(" " * 4 + line for line in f"{before}\n{product}".splitlines())
    return f"""
a = alloc(({M}, {K}), float32, "shared")
b = alloc(({K}, {N}), float32, "shared")
c = alloc(({M}, {N}), float32, "fragment")
d = alloc(({M}, {N}), float32, "fragment")
fill(c[:, :], 5.0)
fill(d[:, :], 0.0)
for s in serial(2):
    copy(A[0:+{M}, s * {K}:+{K}], a[:, :])
    copy(B[s * {K}:+{K}, 0:+{N}], b[:, :])
{inner}
    {ALL}
        d[i, j] = d[i, j] + c[i, j]
copy(d[:, :], C[:, :])
"""


HEAD = f"A: tensor(({M}, {2 * K}), float32), B: tensor(({2 * K}, {N}), float32), C: tensor(({M}, {N}), float32), n: scalar(int32)"


def how_products_begin(tools, body: str) -> set[str]:
    """The words that say in the calls of the product whether it begins at zero: ``false``, ``true``, or the name of a value."""
    text = tools["compile_for"](tools["block_kernel"](HEAD, body)).source()
    return {re.sub(r"%\w+", "%", word) for word in re.findall(r"call void @gemm_\w+\([^\n]*?i1 (\S+?)[,)]", text)} | {
        re.sub(r"%\w+", "%", word) for word in re.findall(r"call void @product_\w+\([^\n]*?i1 (\S+?)[,)]", text) if word != "%clear"
    }


@pytest.mark.parametrize(
    ("before", "begins"),
    [
        ("fill(c[:, :], 0.0)", True),
        (f"{ALL}\n    c[i, j] = 0.0", True),
        (f"{ALL}\n    c[i, j] = cast(0, float32)", True),
        (MASK, True),
        (f"{ALL}\n    last: int32 = n - s\n    c[i, j] = 0.0 if j <= last and s * {N} + j < n else 7.0", True),
        ("fill(c[:, :], -0.0)", False),
        ("fill(c[:, :], 1.0)", False),
        (f"fill(c[0:+{M - 1}, :], 0.0)", False),
        (f"for i, j in parallel({M}, {N - 1}):\n    c[i, j] = 0.0", False),
        (f"for i, j in parallel({M}, {N}):\n    c[{M - 1} - i, j] = 0.0", False),
        (f"{ALL}\n    c[i, j] = 7.0 if s * {N} + j < n else 0.0", False),
        (f"{ALL}\n    c[i, j] = 0.0 if s * {N} + j < n or i > 2 else 7.0", False),
        (f"{ALL}\n    c[i, j] = 0.0\n    d[i, j] = 1.0", False),
        ("fill(d[:, :], 0.0)", False),
        ("fill(c[:, :], 0.0)\nfill(d[:, :], 1.0)", False),
    ],
)
@pytest.mark.parametrize("n", [0, 20, 24, 30, 100])
def test_the_product_begins_at_zero_where_all_of_its_tile_is(tools, check_block, random, before, begins, n):
    body = body_of(before)
    a, b = (random.integers(-4, 5, shape).astype(np.float32) for shape in ((M, 2 * K), (2 * K, N)))
    check_block(HEAD, body, a, b, np.zeros((M, N), np.float32), n)
    if n == 0:
        words = how_products_begin(tools, body)
        assert words and (words != {"false"}) is begins, words


@pytest.mark.parametrize("n", [0, 30, 100])
@pytest.mark.parametrize("before", [MASK, "fill(c[:, :], 0.0)"])
def test_a_product_that_is_loops_gets_its_zeros(check_block, random, monkeypatch, before, n):
    monkeypatch.setattr(tiles, "constant_extents", lambda region: None)
    a, b = (random.integers(-4, 5, shape).astype(np.float32) for shape in ((M, 2 * K), (2 * K, N)))
    body = body_of(before)
    for operand in "AB":  # written once more, so that it is not packed from its tensor
        body = body.replace(f"copy({operand}[", f"{operand.lower()}[0, 0] = 0.0\n    copy({operand}[")
    check_block(HEAD, body, a, b, np.zeros((M, N), np.float32), n)
