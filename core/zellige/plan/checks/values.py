"""Values of expressions where only the sizes are known.

In: variables with numbers, and an oracle for elements of buffers. Out: numbers. Everything that is computed from sizes, loop and grid
variables has its real value. What an element of a buffer holds is not known; the oracle answers with a small number that depends on
the element and on which operations wrote it, so two programs that move the same data get the same answers and take the same branches.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from zellige.analysis.intervals import Interval
from zellige.dtypes import DType
from zellige.elements.conversion import FLOAT64, INT64, Array, cast
from zellige.interp.expressions import program_of
from zellige.interp.frame import Run
from zellige.interp.report import Report
from zellige.ir.expr import Expr, Load, Var
from zellige.plan.execution.slots import PlanFault

Oracle: TypeAlias = "Callable[[Load, tuple[int, ...]], Array]"

_ANSWERS: Final = 11
"""Elements of integer buffers are taken for numbers below this, so that they serve as indices and trip counts."""


def abstract_run() -> Run:
    """The state that evaluation needs: nothing is reported."""
    return Run(report=Report(races=False, undefined=False, bounds=False), warp=1, random=np.random.default_rng(0))


def answer(dtype: DType, *facts: object) -> Array:
    """A value of ``dtype`` that depends on ``facts`` alone."""
    code = zlib.crc32(repr(facts).encode())
    scalar = dtype.scalar
    if scalar.is_bool:
        value: Array = np.asarray(bool(code & 1))
    elif scalar.is_integer:
        value = cast(np.array(code % _ANSWERS), INT64, scalar)
    else:
        value = cast(np.array(1.0 + code % 64 / 64), FLOAT64, scalar)
    return value if dtype.lanes == 1 else np.full(dtype.lanes, value, value.dtype)


def value_of(run: Run, values: Mapping[Var, Array], expression: Expr, oracle: Oracle) -> Array:
    """The value of ``expression``. Raises PlanFault for a variable that has none."""
    results: list[Any] = []
    for step in program_of(run, expression).steps:
        operands = [results[i] for i in step.operands]
        if step.apply is not None:
            results.append(step.apply(*operands))
        elif isinstance(step.node, Var):
            results.append(variable(values, step.node))
        else:
            assert isinstance(step.node, Load)
            results.append(oracle(step.node, tuple(int(np.max(index)) for index in operands)))
    found: Array = np.asarray(results[-1])
    return found


def variable(values: Mapping[Var, Array], var: Var) -> Array:
    """The value of a variable. Raises PlanFault where it has none."""
    found = values.get(var)
    if found is None:
        raise PlanFault("slice", f"the variable {var.name} is used and never given a value")
    return found


def known_ranges(values: Mapping[Var, Array]) -> dict[Var, Interval]:
    """The integers among ``values`` as intervals of one number."""
    return {var: Interval(int(value), int(value)) for var, value in values.items() if value.ndim == 0 and value.dtype.kind in "iub"}
