"""Running the demonstration: compile, compare with NumPy within the derived bound, time both.

In: a target and the cases. Out: one :class:`Outcome` a case; nothing is printed here.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from zellige.demo.cases import Case, cases as all_cases


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one case gave. ``used`` is the largest error as a part of its bound: at most 1 for a right result (0 / 0 counts as 0)."""

    case: Case
    target: str
    compile_seconds: float
    seconds: float
    numpy_seconds: float
    error: float
    used: float

    @property
    def is_right(self) -> bool:
        return self.used <= 1


def run(cases: Iterable[Case], target: str, *, seconds: float = 0.5, least: int = 3) -> Iterator[Outcome]:
    """Run each case for about ``seconds``, at ``least`` so many times, after a first launch that is compared; with ``least`` 0 that launch
    is the one that is timed."""
    import zellige

    for case in cases:
        begin = time.perf_counter()
        kernel = zellige.compile(case.build(), out_idx=[-1], target=target)
        launched = time.perf_counter()
        result = kernel(*case.inputs)
        ended = time.perf_counter()
        error, used = compare(result, *case.reference())
        yield Outcome(
            case=case,
            target=str(kernel.target),
            compile_seconds=ended - begin,
            seconds=median_seconds(partial(kernel, *case.inputs), seconds, least) if least else ended - launched,
            numpy_seconds=median_seconds(case.numpy, seconds / 2),
            error=error,
            used=used,
        )


LONG_SECONDS: Final = 30.0
"""What a case may take on a target that is not slow; on one core of a processor it is less than a second."""


def takes_long(target: str) -> bool:
    """Whether the usual sizes would take longer on a target than somebody waits, by its time for the least product: what a backend calls an
    accelerator may be a program that plays one."""
    small, usual = (next(case for case in all_cases(simulated=least) if case.unit == "flop") for least in (True, False))
    (outcome,) = run((small,), target, seconds=0, least=1)
    return outcome.seconds * usual.work / small.work > LONG_SECONDS


def compare(result: object, expected: npt.NDArray[Any], bound: npt.NDArray[Any]) -> tuple[float, float]:
    """The largest error, and the largest error over its bound. A result of another shape or a NaN counts as infinitely wrong."""
    values = np.asarray(result).astype(np.float64)
    if values.shape != expected.shape or not np.isfinite(values).all():
        return float("inf"), float("inf")
    errors = np.abs(values - expected.astype(np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(errors == 0, 0.0, errors / bound)
    return float(errors.max(initial=0.0)), float(parts.max(initial=0.0))


def median_seconds(action: Callable[[], object], seconds: float, least: int = 3) -> float:
    """The median duration of ``action``, run at ``least`` so many times and for about ``seconds``."""
    times: list[float] = []
    deadline = time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < deadline:
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)
