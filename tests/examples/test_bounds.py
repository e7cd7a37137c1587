"""The bounds of the examples hold for what float32 arithmetic does, are exact where it is, and are not generous."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest


@pytest.fixture
def bounds(load_example: Callable[[str], ModuleType]) -> ModuleType:
    return load_example("_bounds")


def narrow(array: Any) -> Any:
    return np.asarray(array).astype(np.float32)


STEPS: dict[str, tuple[Callable[[Any, Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "add": (lambda b, x, y: x + y, lambda x, y: x + y),
    "subtract": (lambda b, x, y: x - y, lambda x, y: x - y),
    "multiply": (lambda b, x, y: x * y, lambda x, y: x * y),
    "divide": (lambda b, x, y: x / (y * y + 1.0), lambda x, y: x / (y * y + np.float32(1))),
    "by a number": (lambda b, x, y: 0.1 * x - y * 3.3, lambda x, y: np.float32(0.1) * x - y * np.float32(3.3)),
    "sum": (lambda b, x, y: (x * y).sum(1, keepdims=True) + x, lambda x, y: np.cumsum(x * y, axis=1)[:, -1:] + x),
    "product": (lambda b, x, y: (x @ y.mT) @ y, lambda x, y: (x @ y.T) @ y),
    "exp": (lambda b, x, y: (x * y).exp(), lambda x, y: np.exp(x * y)),
    "tanh": (lambda b, x, y: (x + y).tanh(), lambda x, y: np.tanh(x + y)),
    "sigmoid": (lambda b, x, y: (x - y).sigmoid(), lambda x, y: 1 / (1 + np.exp(-(x - y)))),
    "rsqrt": (lambda b, x, y: (x * x + y * y + 0.01).rsqrt(), lambda x, y: 1 / np.sqrt(x * x + y * y + np.float32(0.01))),
    "softmax": (lambda b, x, y: (lambda w: w[0] / w[1])(b.softmax(x * y)), lambda x, y: softmax(x * y)),
    "float16": (lambda b, x, y: (x * y).rounded("float16"), lambda x, y: (x * y).astype(np.float16)),
}


def softmax(x: Any) -> Any:
    weights = np.exp(x - x.max(1, keepdims=True))
    return weights / weights.sum(1, keepdims=True)


@pytest.mark.parametrize("name", STEPS)
def test_float32_stays_within_the_bound_and_comes_near_it(name: str, bounds: ModuleType) -> None:
    bounded, plain = STEPS[name]
    worst = 0.0
    for seed in range(20):
        x, y = narrow(np.random.default_rng(seed).standard_normal((2, 40, 30)))
        expected = bounded(bounds, bounds.exact(x), bounds.exact(y))
        result = plain(x, y).astype(np.float64)
        used = np.abs(result - expected.value) / expected.error
        worst = max(worst, used.max())
    assert 0.01 < worst <= 1


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float32"])
def test_integers_are_exact(dtype: str, bounds: ModuleType) -> None:
    x, y = np.random.default_rng(0).integers(-3, 4, (2, 50, 50))
    result = ((bounds.exact(x) @ bounds.exact(y)) + bounds.exact(x) * 2).sum(0)
    assert not result.error.any()
    np.testing.assert_array_equal(result.value, (x @ y + 2 * x).sum(0))
    rounded = result.rounded(dtype)
    assert not rounded.error.any()
    np.testing.assert_array_equal(rounded.value, (x @ y + 2 * x).sum(0).astype(np.float32).astype(bounds.numpy_dtype(dtype)).astype(float))


def test_integers_that_float32_does_not_hold_are_not_exact(bounds: ModuleType) -> None:
    x = bounds.exact(np.full((3, 3), 2.0**13))
    assert (x @ x).error.all() and (x * x * x).error.all() and (x * x * 0.5).sum(0).error.all()


def test_a_quotient_by_what_may_be_zero_has_no_bound(bounds: ModuleType) -> None:
    x = bounds.exact(np.array([1.0]))
    assert np.isinf((x / (x - 1.0 + 0.1 - 0.1)).error).all()
