"""The demonstration's references and bounds: right arithmetic stays inside, the mistakes that kernels make do not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from zellige.cli.demo import demo, duration
from zellige.demo.cases import Case, cases
from zellige.demo.run import compare

CASES = {case.name: case for case in cases(quick=True)}


def online_attention(case: Case, *, block: int = 64, forget_rescale: bool = False, see_ahead: int = 0) -> Any:
    """The kernel's own algorithm in NumPy: float32 arithmetic, float16 weights, keys block by block."""
    q, k, v = (x.astype(np.float32) for x in case.inputs)
    length, width = q.shape[-2:]
    scale = np.float32(math.log2(math.e) / math.sqrt(width))
    top = np.full((*q.shape[:-1], 1), -np.inf, np.float32)
    total = np.zeros_like(top)
    output = np.zeros_like(q)
    for begin in range(0, length, block):
        keys = slice(begin, begin + block)
        scores = q @ k[:, :, keys].swapaxes(-1, -2)
        allowed = np.arange(length)[:, None] + see_ahead >= np.arange(length)[None, keys]
        scores = np.where(allowed, scores, np.float32(-np.inf))
        new = np.maximum(top, scores.max(-1, keepdims=True))
        factor = np.ones_like(top) if forget_rescale else np.exp2((top - new) * scale)
        weights = np.exp2(scores * scale - new * scale)
        total = total * factor + weights.sum(-1, keepdims=True)
        output = output * factor + weights.astype(np.float16).astype(np.float32) @ v[:, :, keys]
        top = new
    return (output / total).astype(np.float16)


def used(case: Case, result: Any) -> float:
    return compare(result, *case.reference())[1]


def test_right_arithmetic_is_within_its_bound() -> None:
    a, b = CASES["vector addition"].inputs
    assert used(CASES["vector addition"], a + b) == 0
    a, b = CASES["pipelined GEMM"].inputs
    assert 0 < used(CASES["pipelined GEMM"], a @ b) < 1
    assert 0 < used(CASES["causal attention"], online_attention(CASES["causal attention"])) < 1


def test_the_mistakes_of_kernels_are_outside() -> None:
    addition = CASES["vector addition"]
    a, b = addition.inputs
    assert used(addition, np.nextafter(a + b, np.float32(9))) > 1

    gemm = CASES["pipelined GEMM"]
    a, b = gemm.inputs
    assert used(gemm, a[:, :-1] @ b[:-1]) > 1
    assert used(gemm, (a.astype(np.float16) @ b.astype(np.float16)).astype(np.float32)) > 1
    assert used(gemm, 2 * (a @ b)) > 1

    attention = CASES["causal attention"]
    assert used(attention, online_attention(attention, forget_rescale=True)) > 1
    assert used(attention, online_attention(attention, see_ahead=1)) > 1


def test_a_nan_or_a_wrong_shape_is_infinitely_wrong() -> None:
    assert compare(np.array([1.0, np.nan]), np.array([1.0, 1.0]), np.array([1.0, 1.0])) == (np.inf, np.inf)
    assert compare(np.ones(3), np.ones(2), np.ones(2)) == (np.inf, np.inf)
    assert compare(np.ones(2), np.ones(2), np.zeros(2)) == (0.0, 0.0)
    assert compare(np.array([1.5]), np.ones(1), np.zeros(1)) == (0.5, np.inf)


def test_the_sizes_divide_no_tile() -> None:
    for case in cases():
        assert all(extent % 64 for array in case.inputs for extent in array.shape[-2:-1] or array.shape)


def test_the_command_checks_every_kernel() -> None:
    done = CliRunner().invoke(demo, ["--quick", "--target", "cpu"])
    assert done.exit_code == 0, done.output
    assert done.output.count("right") == 3
    assert "all results are within their bounds" in done.output
    assert "The target is" not in done.output


@pytest.mark.parametrize(("target", "word"), [("interp", "interpreted"), ("cuda:sm_80,simulate", "simulated")])
def test_a_target_that_no_device_runs_gets_small_sizes_and_the_table_says_so(target: str, word: str) -> None:
    done = CliRunner().invoke(demo, ["--target", target])
    assert done.exit_code == 0, done.output
    assert f"The target is {word}: the sizes are small" in done.output
    assert all(case.size in done.output for case in cases(simulated=True))
    assert done.output.count("right") == 3


def test_a_wrong_result_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zellige.demo.run.compare", lambda *_: (1.0, 2.0))
    done = CliRunner().invoke(demo, ["--quick", "--target", "cpu"])
    assert done.exit_code == 1
    assert done.output.count("WRONG") == 3


def test_durations_are_read_at_a_glance() -> None:
    assert [duration(s) for s in (2.0, 0.0123, 45e-6, 0.0)] == ["2 s", "12.3 ms", "45 us", "0 us"]
