"""Comparing results: tolerances, NaN and infinity, exact integers, shapes, and what a failure says."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from zellige.runtime.compare import assert_close, compare, values_of


def differing(actual: Any, expected: Any, **tolerances: Any) -> int:
    return compare(actual, expected, **{"rtol": 0, "atol": 0, **tolerances}).mismatched


def test_tolerances_are_those_of_numpy() -> None:
    left, right = np.array([1.0, 1.1, 100.0, 0.0]), np.array([1.05, 1.0, 101.0, 0.2])
    for rtol, atol in [(0.0, 0.0), (0.1, 0.0), (0.0, 0.06), (0.02, 0.05)]:
        by_hand = sum(abs(a - b) > atol + rtol * abs(b) for a, b in zip(left.tolist(), right.tolist()))
        assert differing(left, right, rtol=rtol, atol=atol) == by_hand


def test_nan_and_infinity() -> None:
    left, right = np.array([np.nan, np.inf, np.inf, np.nan]), np.array([np.nan, np.inf, -np.inf, 1.0])
    assert differing(left, right) == 2
    assert differing(left, right, equal_nan=False) == 3
    assert compare(left, right, rtol=0, atol=0).greatest_absolute == 0


def test_large_integers_are_compared_exactly() -> None:
    left = np.array([2**62, 2**62 + 1], np.int64)
    assert differing(left, left - np.array([0, 1])) == 1
    assert differing(left, left - np.array([0, 1]), rtol=1e-6) == 0


@pytest.mark.parametrize("element", [ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn, np.float16, np.bool_])
def test_element_types_and_frameworks_mix(element: Any) -> None:
    values = np.array([0, 1, 1, 0])
    assert differing(values.astype(element), torch.tensor(values, dtype=torch.bfloat16)) == 0
    assert differing(values.astype(element), [0.0, 1.0, 0.0, 0.0]) == 1


def test_torch_gradients_and_strides() -> None:
    tensor = torch.arange(6.0, requires_grad=True).reshape(2, 3).t()
    assert values_of(tensor).tolist() == [[0, 3], [1, 4], [2, 5]]


def test_shapes_must_agree() -> None:
    with pytest.raises(AssertionError, match=r"\(3,\) and \(3, 1\)"):
        compare(np.zeros(3), np.zeros((3, 1)), rtol=1, atol=1)


def test_no_array() -> None:
    with pytest.raises(TypeError, match="expected an array, got object"):
        compare(object(), np.zeros(3), rtol=0, atol=0)


def test_empty_arrays_agree() -> None:
    assert differing(np.zeros((0, 4)), torch.zeros(0, 4)) == 0


def test_failure_says_where_and_how_much() -> None:
    left, right = np.zeros((10, 10)), np.zeros((10, 10))
    left[3, 4], left[7, 7] = 2.0, 0.5
    right[3, 4] = 1.5
    with pytest.raises(AssertionError) as caught:
        assert_close(left, right, rtol=0, atol=0, max_mismatched_ratio=0.019, actual_name="mine", expected_name="theirs")
    text = str(caught.value)
    assert "2 of 100 elements differ (2.00%), 1 may" in text
    assert "first at [3, 4]: mine 2, theirs 1.5, difference 0.5" in text
    assert "greatest difference 0.5" in text
    assert assert_close(left, right, rtol=0, atol=0, max_mismatched_ratio=0.02).mismatched == 2
