"""Facts hold: every value lies where they say, and sums in another order stay within their bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from zellige.dtypes import DType, all_dtypes, dtype
from zellige.elements.conversion import FLOAT64, cast
from zellige.generate import Program, generate_seeded
from zellige.generate.accuracy import ULPS, function_fact
from zellige.generate.comparison import differences, interpreted
from zellige.generate.facts import Fact, Unbounded, elements, fact_of, gamma, joined, rounded
from zellige.generate.tile_facts import reduction_fact
from zellige.interp import tile_operations
from zellige.ir.functions import FUNCTIONS
from zellige.ir.stmt import TensorParam

FLOAT16, FLOAT32 = dtype("float16"), dtype("float32")


def check_values(values: Any, of: DType, fact: Fact) -> None:
    if not of.is_float:
        assert values.size == 0 or (fact.low <= int(values.min()) and int(values.max()) <= fact.high)
        return
    finite = values[np.isfinite(values)]
    assert finite.size == 0 or (fact.low <= finite.min() and finite.max() <= fact.high)
    assert fact.special & 1 or not np.isnan(values).any()
    assert fact.special & 2 or not (values == np.inf).any()
    assert fact.special & 4 or not (values == -np.inf).any()
    if fact.is_exact and abs(fact.quantum) < 900:
        units = finite * 2.0**-fact.quantum
        assert (units == np.rint(units)).all()


class Backwards:
    """A NumPy reduction that begins at the other end."""

    def __init__(self, function: np.ufunc) -> None:
        self._function = function
        self.at = function.at

    def __call__(self, *operands: Any) -> Any:
        return self._function(*operands)

    def reduce(self, values: Any, axis: int, dtype: Any) -> Any:
        return self._function.reduce(np.ascontiguousarray(np.flip(values, axis)), axis=axis, dtype=dtype)

    def accumulate(self, values: Any, axis: int, dtype: Any) -> Any:
        moved = np.moveaxis(values, axis, 0)
        parts = [self._function.reduce(np.flip(moved[: end + 1], 0), axis=0, dtype=dtype) for end in range(len(moved))]
        return np.moveaxis(np.stack(parts), 0, axis) if parts else values


def test_values_and_sums_in_another_order_obey_the_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = inexact = 0
    programs = [(program, program.facts(), interpreted(program)) for program in map(generate_seeded, range(36))]
    for program, facts, outcome in programs:
        for index, array in outcome.tensors.items():
            param = program.kernel.params[index]
            assert isinstance(param, TensorParam)
            if param.buffer in facts:
                check_values(elements(array, param.buffer.dtype), param.buffer.dtype, facts[param.buffer])
                seen += 1
                inexact += not facts[param.buffer].is_exact
    assert seen > 80
    assert inexact > 4
    product, combiner = tile_operations._matmul, tile_operations.combiner

    def backwards(a: Any, b: Any, accumulator: DType) -> Any:
        return product(np.ascontiguousarray(a[:, :, ::-1]), np.ascontiguousarray(b[:, ::-1, :]), accumulator)

    monkeypatch.setattr(tile_operations, "_matmul", backwards)
    monkeypatch.setattr(tile_operations, "combiner", lambda op, *, nan_propagate: Backwards(combiner(op, nan_propagate=nan_propagate)))
    for program, facts, outcome in programs:
        assert list(differences(program, outcome, interpreted(program), facts)) == []


def test_sums_of_whole_numbers_are_exact_and_others_are_not() -> None:
    whole = fact_of(np.arange(-8, 9, dtype=np.float32), FLOAT32)
    assert reduction_fact("sum", whole, FLOAT32, None, FLOAT32, 1000).is_exact
    ragged = fact_of(np.linspace(-1, 1, 17, dtype=np.float32) / np.float32(3), FLOAT32)
    found = reduction_fact("sum", ragged, FLOAT32, None, FLOAT32, 1000)
    assert 0 < found.error <= 2 * gamma(1000, FLOAT32) * 1000 * 1.0000001
    assert reduction_fact("max", ragged, FLOAT32, None, FLOAT32, 1000).is_exact


def test_a_sum_too_long_for_a_bound_has_none() -> None:
    ragged = fact_of(np.array([0.1, 0.7], np.float32), FLOAT32)
    with pytest.raises(Unbounded, match="leave no bound"):
        reduction_fact("sum", ragged, FLOAT32, None, FLOAT32, 1 << 24)


def test_values_that_differ_decide_nothing(program_of: Callable[..., Program]) -> None:
    text = (
        "def k(A: tensor((4,), float32), C: tensor((4,), float32)):\n    with launch(1) as (bx,):\n"
        "        for i in parallel(4):\n            C[i] = {value}\n"
    )
    data = np.array([0.5, 1.5, 2.5, 3.5], np.float32), np.zeros(4, np.float32)
    for value in ("floor(exp(A[i]))", "cast(cast(exp(A[i]), int32), float32)", "1.0 if exp(A[i]) < 2.0 else 0.0", "rcp(exp(A[i]) - 2.0)"):
        with pytest.raises(Unbounded):
            program_of(text.format(value=value), *data).facts()
    facts = program_of(text.format(value="exp(A[i]) + A[i]"), *data).facts()
    (fact,) = [fact for buffer, fact in facts.items() if buffer.name == "C"]
    assert 0 < fact.error < 1e-4


@pytest.mark.parametrize("name", sorted(ULPS))
def test_the_reference_is_as_accurate_as_asked_of_a_backend(name: str) -> None:
    """NumPy's float32 functions against its float64 ones: the accuracy that the table asks for is one that is met."""
    from zellige.elements.arithmetic import math_function

    random = np.random.default_rng(5)
    count = FUNCTIONS[name].arity
    wide = [random.uniform(0.01, 0.99, 4000).astype(np.float32).astype(np.float64) for _ in range(count)]
    if name == "acosh":
        wide[0] = (wide[0] + 1).astype(np.float32).astype(np.float64)
    exact = math_function(name, tuple(wide), FLOAT64).astype(np.float64)
    found = math_function(name, tuple(w.astype(np.float32) for w in wide), FLOAT32).astype(np.float64)
    scale = np.maximum(np.abs(exact), 1.0) if name in ("sin", "cos") else np.abs(exact)
    assert (np.abs(found - exact) <= ULPS[name] * np.spacing(scale.astype(np.float32)).astype(np.float64)).all()
    facts = [fact_of(w.astype(np.float32), FLOAT32) for w in wide]
    fact = function_fact(name, facts, FLOAT32, FLOAT32, is_ieee=False)
    check_values(found, FLOAT32, fact)
    assert fact.error > 0


@pytest.mark.parametrize("of", [t for t in all_dtypes() if t.is_float and t.name != "float8_e8m0fnu"], ids=str)
def test_rounding_stays_within_its_fact(of: DType) -> None:
    random = np.random.default_rng(6)
    values = np.concatenate([random.normal(0, 1, 200) * float(of.max) / 4, random.normal(0, 1, 200), np.arange(-9, 10) * 0.25])
    before = fact_of(values, FLOAT64)
    check_values(elements_of(values, of), of, rounded(before, of))


def elements_of(values: Any, of: DType) -> Any:
    return cast(values, FLOAT64, of).astype(np.float64)


def test_what_two_facts_have_in_common() -> None:
    left, right = Fact(low=-1.0, high=2.0, quantum=-3), Fact(low=0.0, high=5.0, quantum=1, error=0.5, special=1)
    assert joined([left, right]) == Fact(low=-1.0, high=5.0, quantum=-3, error=0.5, special=1)
