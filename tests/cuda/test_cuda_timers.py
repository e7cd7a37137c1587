"""Timers and the flush, with a driver whose clock is a number that launches move on."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from zellige.diagnostics import LaunchError
from zellige.plugin.registry import registry
from zellige.profiler import measure
from zellige_cuda import device, timers


class Clock:
    """A driver with one stream. Its time is in milliseconds; writing a byte takes a millionth."""

    CUdevice_attribute = SimpleNamespace(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE=38)

    def __init__(self) -> None:
        self.now = 0.0
        self.events: dict[int, float] = {}
        self.made = 0
        self.memory: dict[int, int] = {}
        self.written: list[tuple[int, int]] = []
        self.streams: set[int] = set()
        self.waits = 0

    def cuCtxGetCurrent(self) -> Any:
        return 0, 77

    def cuCtxGetDevice(self) -> Any:
        return 0, 0

    def cuDeviceGetCount(self) -> Any:
        return 0, 1

    def cuDeviceGetAttribute(self, attribute: int, index: int) -> Any:
        assert attribute == 38
        return 0, 50 << 20

    def cuMemAlloc(self, size: int) -> Any:
        self.memory[4096] = size
        return 0, 4096

    def cuMemFree(self, address: int) -> Any:
        del self.memory[address]
        return (0,)

    def cuMemsetD8Async(self, address: int, value: int, size: int, stream: int) -> Any:
        assert size <= self.memory[address]
        self.written.append((address, size))
        self.streams.add(stream)
        self.now += size / 1e6
        return (0,)

    def cuEventCreate(self, flags: int) -> Any:
        self.made += 1
        self.events[self.made] = -1.0
        return 0, self.made

    def cuEventDestroy(self, event: int) -> Any:
        del self.events[event]
        return (0,)

    def cuEventRecord(self, event: int, stream: int) -> Any:
        self.streams.add(stream)
        self.events[event] = self.now
        return (0,)

    def cuEventElapsedTime(self, begin: int, end: int) -> Any:
        return 0, self.events[end] - self.events[begin]

    def cuStreamSynchronize(self, stream: int) -> Any:
        self.waits += 1
        return (0,)

    def run(self) -> None:
        self.now += 3.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(device, "driver", lambda: made)
    monkeypatch.setattr(device, "_count", lambda: 1)
    monkeypatch.setattr(device, "current_stream", lambda index: 4242)
    handle = registry().named("cuda")
    monkeypatch.setattr(type(handle), "works", property(lambda self: self.manifest.name == "cuda"))
    return made


def test_events_time_the_run_and_not_the_flush(clock: Clock) -> None:
    cold = measure(clock.run, timer="event", device="cuda:0", n_warmup=1, n_repeat=4)
    assert cold.times == pytest.approx((3.0,) * 4) and cold.cache == "cold" and cold.flushed_bytes == 100 << 20
    assert set(clock.written) == {(4096, 100 << 20)} and clock.streams == {4242}
    assert not clock.memory and not clock.events  # everything was given back
    clock.written.clear()
    warm = measure(clock.run, timer="event", device="cuda", cache="warm", n_warmup=1, n_repeat=2)
    assert warm.times == pytest.approx((3.0, 3.0)) and warm.cache == "warm" and not clock.written


def test_the_hosts_clock_runs_to_the_end_of_the_work(clock: Clock) -> None:
    measured = measure(clock.run, timer="wall", device="cuda", cache="cold", n_warmup=1, n_repeat=3)
    assert len(measured.times) == 3 and measured.flushed_bytes == 100 << 20 and clock.written
    clock.waits = 0
    assert len(timers.wall(clock.run, 4, lambda: None)) == 4 and clock.waits == 8
    host = measure(clock.run, timer="wall", n_warmup=1, n_repeat=1)
    assert host.timer == "wall" and host.cache == "warm" and clock.waits == 8  # no device was named


def test_the_size_of_the_flush_can_be_given(clock: Clock) -> None:
    measured = measure(clock.run, timer="event", device="cuda", cache="cold", cache_size=7, n_warmup=1, n_repeat=1)
    assert measured.flushed_bytes == 7 << 20 and set(clock.written) == {(4096, 7 << 20)}


def test_events_are_given_back_after_an_error(clock: Clock) -> None:
    def run() -> None:
        raise KeyError("the run")

    with pytest.raises(KeyError):
        timers.event(run, 3, lambda: None)
    assert not clock.events


class Graph:
    """Records what runs while it is open, and runs it again."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.length = clock, 0.0

    def __enter__(self) -> Graph:
        self.begin = self.clock.now
        return self

    def __exit__(self, *_exception: object) -> None:
        self.length, self.clock.now = self.clock.now - self.begin, self.begin

    def replay(self) -> None:
        self.clock.now += self.length


def framework(clock: Clock, **more: Any) -> Any:
    cuda = SimpleNamespace(
        is_available=lambda: True, synchronize=lambda: None, CUDAGraph=lambda: Graph(clock), graph=lambda graph: graph, **more
    )
    return SimpleNamespace(cuda=cuda)


def test_graphs_of_warm_runs_hold_several(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(timers.sys.modules, "torch", framework(clock))
    runs = [0]

    def run() -> None:
        runs[0] += 1
        clock.run()

    assert timers.cudagraph(run, 3, lambda: None) == pytest.approx([3.0] * 3)
    assert runs[0] == 1 + timers._RUNS_IN_GRAPH
    with timers.Flush(1 << 20) as flush:
        assert timers.cudagraph(run, 3, flush) == pytest.approx([3.0] * 3)
    assert len(clock.written) == 3


def test_a_run_that_cannot_be_recorded_is_said(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(timers.sys.modules, "torch", framework(clock))
    calls = [0]

    def run() -> None:
        calls[0] += 1
        if calls[0] > 1:
            raise RuntimeError("operation not permitted when stream is capturing\nmore")

    with pytest.raises(LaunchError) as raised:
        timers.cudagraph(run, 3, lambda: None)
    assert raised.value.code == "E636" and "not permitted" in str(raised.value) and "more" not in str(raised.value)


@pytest.mark.parametrize("timer", [timers.cudagraph, timers.cupti])
@pytest.mark.parametrize("torch", [None, SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))])
def test_timers_through_torch_say_that_it_is_missing(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, timer: Callable[..., Any], torch: Any
) -> None:
    monkeypatch.setitem(timers.sys.modules, "torch", torch)
    with pytest.raises(LaunchError) as raised:
        timer(clock.run, 3, lambda: None)
    assert raised.value.code == "E636" and "torch" in str(raised.value)


def test_records_become_times_of_runs() -> None:
    records = [(30.0, 32.0), (0.0, 100.0), (110.0, 115.0), (200.0, 300.0), (310.0, 316.0), (400.0, 401.0)]
    assert timers.per_run(records, 2, 1) == pytest.approx([(2 + 5) / 1e3, (6 + 1) / 1e3])
    assert timers.per_run(records[:2], 2, 0) == pytest.approx([0.1, 0.002])
    for found, repeats, untimed in (([], 2, 0), (records[:3], 2, 0), (records[:2], 2, 1)):
        with pytest.raises(LaunchError) as raised:
            timers.per_run(found, repeats, untimed)
        assert raised.value.code == "E636"
