"""Timing: how often a callable runs, what is flushed, how times are reduced, which timers there are."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from zellige.diagnostics import LaunchError
from zellige.plugin.contract import Capabilities, Device, Manifest
from zellige.plugin.hooks import hookimpl
from zellige.plugin.registry import Origin, Registry
from zellige.profiler import do_bench, measure
from zellige.runtime.timing import CacheFlush, Measurement, last_level_cache_bytes
from zellige.target import Target

TIMES = Measurement(times=(4.0, 1.0, 3.0, 2.0), timer="wall", cache="warm")


class Counted:
    """A callable that counts its runs and takes a given time."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.runs = seconds, 0

    def __call__(self) -> None:
        self.runs += 1
        if self.seconds:
            time.sleep(self.seconds)


def test_reductions_and_quantiles() -> None:
    assert [TIMES.reduced(mode) for mode in ("min", "max", "mean", "median")] == [1.0, 4.0, 2.5, 2.0]  # type: ignore[arg-type]
    assert (TIMES.mean, TIMES.median) == (2.5, 2.0)
    assert [TIMES.quantile(q) for q in (0.0, 0.5, 1.0)] == [1.0, 2.5, 4.0]


def test_measurement_is_labelled() -> None:
    assert str(TIMES) == "2 ms (median of 4 runs, least 1, timer wall, warm cache)"
    cold = Measurement(times=(0.5,), timer="event", cache="cold", flushed_bytes=64 << 20)
    assert str(cold) == "0.5 ms (median of 1 run, least 0.5, timer event, cold cache, 64 MiB flushed)"


def test_numbers_of_runs_given() -> None:
    fn = Counted()
    measured = measure(fn, n_warmup=3, n_repeat=7, timer="wall")
    assert len(measured.times) == 7
    assert fn.runs == 1 + 5 + 3 + 7  # the first, the estimate, warming up, the measurement


def test_budgets_become_numbers_of_runs() -> None:
    fn = Counted(0.002)
    measured = measure(fn, warmup=8, rep=20, timer="wall")
    assert 1 <= len(measured.times) <= 10
    assert all(t >= 2 for t in measured.times)
    slow = Counted(0.01)
    assert len(measure(slow, warmup=0, rep=0, timer="wall").times) == 1
    assert slow.runs == 1 + 1 + 1 + 1


def test_event_is_cold_and_wall_is_warm_unless_asked() -> None:
    fn = Counted()
    assert (measure(fn, n_repeat=1, timer="wall").cache, measure(fn, n_repeat=1, timer="wall").flushed_bytes) == ("warm", 0)
    cold = measure(fn, n_repeat=1)
    assert (cold.timer, cold.cache, cold.flushed_bytes) == ("event", "cold", 2 * last_level_cache_bytes())
    assert measure(fn, n_repeat=1, timer="wall", cache="cold", cache_size=3).flushed_bytes == 3 << 20
    assert measure(fn, n_repeat=1, cache="warm").cache == "warm"


def test_flush_changes_all_of_its_memory() -> None:
    with CacheFlush(1 << 16) as flush:
        flush()
        flush()
        assert sum(part.size for part in flush._parts) * 8 == 1 << 16
        assert all((part == 2).all() for part in flush._parts)


def test_cold_runs_miss_the_cache() -> None:
    data = np.ones(1 << 15, np.int64)  # 256 KiB stay in a core's own cache between warm runs
    fn: Callable[[], object] = lambda: data.sum()
    warm = min(measure(fn, n_repeat=30, timer="wall").times)
    cold = min(measure(fn, n_repeat=10, timer="wall", cache="cold").times)
    assert cold > warm


def test_early_stop_returns_the_estimate() -> None:
    fn = Counted(0.002)
    measured = measure(fn, n_repeat=50, timer="wall", early_stop_baseline=1.0)
    assert measured.is_estimate
    assert fn.runs == 1 + 5
    assert not measure(fn, n_repeat=2, timer="wall", early_stop_baseline=1000.0).is_estimate


def test_do_bench_gives_numbers() -> None:
    fn = Counted(0.001)
    request: dict[str, Any] = {"backend": "wall", "_n_warmup": 1, "_n_repeat": 4}
    least, most = do_bench(fn, **request, return_mode="min"), do_bench(fn, **request, return_mode="max")
    assert isinstance(least, float)
    assert isinstance(most, float)
    assert least >= 1
    both = do_bench(fn, **request, quantiles=[0.0, 1.0])
    assert isinstance(both, list)
    assert both[0] <= both[1]
    assert isinstance(do_bench(fn, **request, quantiles=[0.5]), float)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"return_mode": "average"}, "return_mode is 'average', expected one of min, max, mean, median"),
        ({"return_mode": "medain"}, "; did you mean 'median'"),
        ({"cache": "wrm"}, "E637: cache is 'wrm', expected one of cold, warm; did you mean 'warm'"),
        ({"cache_size": True}, "E637: cache_size is True, expected a number of MiB"),
        ({"cache_size": -1}, "E637: cache_size is -1, expected a number of MiB"),
        ({"warmup": -1}, "warmup is -1, expected a finite number of milliseconds"),
        ({"rep": float("nan")}, "rep is nan, expected a finite number of milliseconds"),
        ({"_n_repeat": -2}, "a number of runs is -2"),
        ({"quantiles": [0.5, 1.5]}, r"quantiles is \[0.5, 1.5\], expected numbers between 0 and 1"),
    ],
)
def test_impossible_requests(request_: dict[str, Any], words: str) -> None:
    fn = Counted()
    with pytest.raises(ValueError, match=words):
        do_bench(fn, **request_)
    assert fn.runs == 0


class Gadget:
    """A backend with a timer of its own."""

    API = (1, 0)

    @hookimpl
    def manifest(self) -> Manifest:
        return Manifest(
            name="gadget",
            vendor="nobody",
            version="1",
            kind="accelerator",
            targets=("gadget",),
            framework_devices=("gadget",),
            timers=("stopwatch", "event"),
        )

    @hookimpl
    def probe(self) -> tuple[Device, ...]:
        return (Device(name="g", index=0, target="gadget"),)

    @hookimpl
    def describe(self, target: Target) -> Capabilities:
        return Capabilities(target=str(target))

    @hookimpl
    def timers(self) -> dict[str, Callable[..., list[float]]]:
        def stopwatch(run: Callable[[], object], repeats: int, before: Callable[[], object]) -> list[float]:
            for _ in range(repeats):
                before()
                run()
            return [7.0] * repeats

        return {"stopwatch": stopwatch, "event": stopwatch}


@pytest.fixture
def gadget(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Registry([Origin(name="gadget", value="gadget", load=Gadget)])
    monkeypatch.setattr("zellige.profiler.registry", lambda: found)


@pytest.mark.usefixtures("gadget")
def test_timers_of_backends_are_found_by_name_and_device() -> None:
    fn = Counted()
    assert do_bench(fn, backend="stopwatch", cache="warm") == 7.0
    assert do_bench(fn, backend="event", device="gadget:1", cache="warm") == 7.0
    assert do_bench(fn, backend="event", device="cpu", cache="warm", _n_repeat=3) != 7.0


@pytest.mark.usefixtures("gadget")
def test_unknown_timer() -> None:
    with pytest.raises(LaunchError) as caught:
        do_bench(Counted(), backend="stopwatch", device="cpu")
    assert "error E630: there is no timer 'stopwatch' for the target cpu" in str(caught.value)
    assert "timers of every target: event, wall; stopwatch belongs to gadget" in str(caught.value)
    with pytest.raises(LaunchError, match="no timer 'sundial'"):
        do_bench(Counted(), backend="sundial")
