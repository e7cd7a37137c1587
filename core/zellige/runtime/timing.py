"""Timing a callable: how often it runs, with which clock, and with a cold or a warm cache.

In: a callable and a budget in milliseconds. Out: a :class:`Measurement`, which says how it was taken. The clocks named here are the host's;
others are the backends' own timers, found by name through their manifests.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral, Real
from pathlib import Path
from statistics import fmean, median_low
from time import perf_counter
from typing import Final, Literal

import numpy as np

from zellige.diagnostics import ZelligeError, catalogue
from zellige.diagnostics.suggest import closest

ReturnMode = Literal["min", "max", "mean", "median"]
CacheState = Literal["cold", "warm"]
Timer = Callable[[Callable[[], object], int, Callable[[], object]], list[float]]
"""``(run, repeats, before)`` to milliseconds a run; ``before`` is called ahead of each run and not timed."""

RETURN_MODES: Final[tuple[ReturnMode, ...]] = ("min", "max", "mean", "median")
CACHE_STATES: Final[tuple[CacheState, ...]] = ("cold", "warm")
_CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_DEFAULT_CACHE_BYTES: Final = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The times of single runs in milliseconds, and how they were taken.

    ``cache`` is "cold" where ``flushed_bytes`` of other memory were touched before each run, "warm" where runs followed one another.
    ``is_estimate`` says that the runs stopped early because they were slower than the baseline asked for.
    """

    times: tuple[float, ...]
    timer: str
    cache: CacheState
    flushed_bytes: int = 0
    is_estimate: bool = False

    @property
    def mean(self) -> float:
        return fmean(self.times)

    @property
    def median(self) -> float:
        """The lower of the two middle runs where their number is even."""
        return median_low(self.times)

    def reduced(self, mode: ReturnMode) -> float:
        """One number of all runs."""
        match mode:
            case "min":
                return min(self.times)
            case "max":
                return max(self.times)
            case "mean":
                return self.mean
            case "median":
                return self.median

    def quantile(self, position: float) -> float:
        """The time that the share ``position`` of the runs does not exceed, interpolated between runs."""
        return float(np.quantile(self.times, position))

    def __str__(self) -> str:
        flushed = f", {self.flushed_bytes >> 20} MiB flushed" if self.cache == "cold" else ""
        runs = f"{len(self.times)} run{'' if len(self.times) == 1 else 's'}"
        return f"{self.median:.4g} ms (median of {runs}, least {min(self.times):.4g}, timer {self.timer}, {self.cache} cache{flushed})"


def host_timer(run: Callable[[], object], repeats: int, before: Callable[[], object]) -> list[float]:
    """The host's clock around each run."""
    times: list[float] = []
    for _ in range(repeats):
        before()
        start = perf_counter()
        run()
        times.append((perf_counter() - start) * 1e3)
    return times


@lru_cache(maxsize=1)
def last_level_cache_bytes() -> int:
    """The size of the host's last-level cache, 32 MiB where the system does not tell."""
    sizes = [_DEFAULT_CACHE_BYTES] if not _CACHES.is_dir() else []
    for entry in sorted(_CACHES.glob("index*/size")):
        text = entry.read_text().strip()
        sizes.append(int(text[:-1]) * _UNITS[text[-1]] if text[-1] in _UNITS else int(text))
    return max(sizes, default=_DEFAULT_CACHE_BYTES)


class CacheFlush:
    """Empties the host's caches by changing every line of a block of memory larger than the last level, with one thread a core."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._parts = np.array_split(np.zeros(max(size_bytes // 8, 1), np.int64), cores)
        self._pool = ThreadPoolExecutor(cores)

    def __call__(self) -> None:
        list(self._pool.map(_touch, self._parts))

    def __enter__(self) -> CacheFlush:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._pool.shutdown()


def _touch(part: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> None:
    np.add(part, 1, out=part)  # not a fill: large fills bypass the caches


def nothing() -> None:
    """What a warm measurement does before each run."""


def repeats_for(budget_ms: float, one_ms: float) -> int:
    """How many runs of ``one_ms`` fit into a budget, at least one."""
    return max(1, int(budget_ms / max(one_ms, 1e-6)))


def check_request(*, warmup: float, rep: float, counts: tuple[int, ...], quantiles: list[float] | None, return_mode: str) -> None:
    """Raise E637 for a request that cannot be met."""
    check_choice("return_mode", return_mode, RETURN_MODES)
    for what, duration in (("warmup", warmup), ("rep", rep)):
        if not isinstance(duration, Real) or not (math.isfinite(duration) and duration >= 0):
            raise _wrong(what, repr(duration), "a finite number of milliseconds that is not negative")
    for count in counts:
        if not isinstance(count, Integral) or count < 0:
            raise _wrong("a number of runs", repr(count), "an integer that is not negative")
    if quantiles is None:
        return
    are_numbers = isinstance(quantiles, Iterable) and all(isinstance(position, Real) for position in quantiles)
    if not are_numbers or not all(0 <= position <= 1 for position in quantiles):
        raise _wrong("quantiles", repr(quantiles), "numbers between 0 and 1")


def check_number(what: str, given: object) -> None:
    """E637 for what is no number from 0 on."""
    if not isinstance(given, Real) or not float(given) >= 0:
        raise _wrong(what, repr(given), "a number that is not negative")


def check_callable(what: str, given: object) -> None:
    """E637 for what cannot be called."""
    if not callable(given):
        raise _wrong(what, repr(given), "a function")


def check_choice(what: str, given: object, known: Sequence[str]) -> None:
    """E637 for a word that is none of those known."""
    if given not in known:
        raise _wrong(what, repr(given), f"one of {', '.join(known)}", closest(given, known))


def _wrong(what: str, given: object, expected: str, suggestion: str = "") -> ZelligeError:
    return catalogue.E637.error(what=what, given=given, expected=expected, suggestion=suggestion)
