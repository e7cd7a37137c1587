"""Timing on a device: by events, by graphs, by CUPTI's record of what ran; and a flush of its cache.

In: what to run, how often, what comes before each run untimed. Out: milliseconds a run. Work goes to the stream that torch has current, or
the default stream without torch; each timer waits for the end. Raises E636 where a timer cannot measure here.

* ``event``: two events around each run (CUDA Driver API, "Event Management"; resolution about half a microsecond). What the device does
  while it waits for the next launch counts: runs shorter than a launch are timed at the rate of launches.
* ``cudagraph``: the run is recorded in a graph once, through torch, and the graph is timed by events: launches cost the device alone.
* ``wall``: the host's clock from before the call of the run to the end of its work on the device.
* ``cupti``: torch's profiler, which reads CUPTI's activity records: the kernels alone, without the gaps between them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige_cuda import device

Run = Callable[[], object]

_RUNS_IN_GRAPH: Final = 10
"""Runs that a graph of warm runs holds; of cold runs each has a graph launch of its own."""

_CACHES: Final = 2
"""How many times the size of the cache is written to empty it."""


class Flush:
    """Empties the second level of the current device's cache by writing to memory ``_CACHES`` times as large, or of ``size_bytes``."""

    def __init__(self, size_bytes: int = 0) -> None:
        self._api = api = device.required()
        with device.entered(api):
            index = int(device.call(api.cuCtxGetDevice()))
            attribute = api.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE
            self.size_bytes = size_bytes or _CACHES * int(device.call(api.cuDeviceGetAttribute(attribute, index)))
            self._memory = int(device.call(api.cuMemAlloc(self.size_bytes)))

    def __call__(self) -> None:
        with device.entered(self._api):
            device.call(self._api.cuMemsetD8Async(self._memory, 0, self.size_bytes, _stream()))

    def __enter__(self) -> Flush:
        return self

    def __exit__(self, *_exception: object) -> None:
        with device.entered(self._api):
            device.call(self._api.cuStreamSynchronize(_stream()))
            device.call(self._api.cuMemFree(self._memory))


def event(run: Run, repeats: int, before: Run) -> list[float]:
    """Two events around each run."""
    api = device.required()
    with device.entered(api):
        return _between_events(api, run, repeats, before)


def _between_events(api: Any, run: Run, repeats: int, before: Run) -> list[float]:
    pairs = [(device.call(api.cuEventCreate(0)), device.call(api.cuEventCreate(0))) for _ in range(repeats)]
    try:
        device.call(api.cuStreamSynchronize(_stream()))
        for begin, end in pairs:
            before()
            device.call(api.cuEventRecord(begin, _stream()))
            run()
            device.call(api.cuEventRecord(end, _stream()))
        device.call(api.cuStreamSynchronize(_stream()))
        return [float(device.call(api.cuEventElapsedTime(begin, end))) for begin, end in pairs]
    finally:
        for pair in pairs:
            for made in pair:
                device.call(api.cuEventDestroy(made))


def cudagraph(run: Run, repeats: int, before: Run) -> list[float]:
    """A graph of runs between two events. A run that is preceded by nothing is recorded several times in a row."""
    torch = _torch("cudagraph", "graphs are recorded through torch")
    api = device.required()
    is_cold = isinstance(before, Flush)
    inside = 1 if is_cold else _RUNS_IN_GRAPH
    run()  # what is made at a first call, code and memory, does not belong into the graph
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for _ in range(inside):
                run()
    except RuntimeError as error:
        raise catalogue.E636.error(name="cudagraph", reason=f"the run cannot be recorded: {str(error).splitlines()[0]}") from error
    with device.entered(api):
        times = _between_events(api, graph.replay, repeats, before)
    return [time / inside for time in times]


def wall(run: Run, repeats: int, before: Run) -> list[float]:
    """The host's clock around each run, which is waited for."""
    api = device.required()
    times: list[float] = []
    with device.entered(api):
        for _ in range(repeats):
            before()
            device.call(api.cuStreamSynchronize(_stream()))
            begin = perf_counter()
            run()
            device.call(api.cuStreamSynchronize(_stream()))
            times.append((perf_counter() - begin) * 1e3)
    return times


def cupti(run: Run, repeats: int, before: Run) -> list[float]:
    """The sum of the durations of what each run puts on the device."""
    torch = _torch("cupti", "activity records are read through torch.profiler")
    profiler = torch.profiler
    torch.cuda.synchronize()
    with profiler.profile(activities=[profiler.ProfilerActivity.CUDA], acc_events=True) as recorded:
        for _ in range(repeats):
            before()
            run()
        torch.cuda.synchronize()
    on_device = torch.autograd.DeviceType.CUDA
    found = [(e.time_range.start, e.time_range.end) for e in recorded.events() if e.device_type == on_device]
    return per_run(found, repeats, int(isinstance(before, Flush)))


def per_run(found: list[tuple[float, float]], repeats: int, untimed: int) -> list[float]:
    """Milliseconds a run from the beginnings and ends, in microseconds, of all that ran; each run comes after ``untimed`` others."""
    each, rest = divmod(len(found), repeats)
    if rest or each <= untimed:
        reason = f"CUPTI has {len(found)} records of {repeats} runs; a run must put the same work on the device each time"
        raise catalogue.E636.error(name="cupti", reason=reason)
    ordered = sorted(found)
    chunks = (ordered[first + untimed : first + each] for first in range(0, len(ordered), each))
    return [sum(end - begin for begin, end in chunk) / 1e3 for chunk in chunks]


def _torch(timer: str, why: str) -> Any:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        raise catalogue.E636.error(name=timer, reason=f"{why}, which this program has not imported or which has no CUDA here")
    return torch


def _stream() -> int:
    """The stream of the current device that the framework has current."""
    api = device.required()
    context = int(device.call(api.cuCtxGetCurrent()))
    return device.current_stream(int(device.call(api.cuCtxGetDevice()))) if context else 0
