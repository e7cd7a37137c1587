"""One kernel called and timed, wherever that happens.

In: a compiled kernel and its arguments. Out: what a call computes, and the times of its runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from zellige.kernel import JITKernel
from zellige.profiler import measure_for


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How to time: budgets in milliseconds and a timer as :func:`zellige.profiler.measure` takes them; runs slower than
    ``early_stop_baseline`` milliseconds are not continued."""

    warmup: float
    rep: float
    timer: str
    early_stop_baseline: float | None = None


def compute(kernel: JITKernel, inputs: Sequence[Any]) -> list[Any]:
    """The results of one call."""
    returned = kernel(*inputs)
    if returned is None:
        return []
    return list(returned) if isinstance(returned, (list, tuple)) else [returned]


def measured(kernel: JITKernel, inputs: Sequence[Any], request: Request) -> tuple[tuple[float, ...], bool]:
    """The times of single runs in milliseconds, and whether they stopped early."""
    found = measure_for(
        kernel.target,
        partial(kernel, *inputs),
        warmup=request.warmup,
        rep=request.rep,
        timer=request.timer,
        early_stop_baseline=request.early_stop_baseline,
    )
    return found.times, found.is_estimate
