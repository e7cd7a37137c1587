"""Launches beside other streams than the caller's own.

In: tensors and the streams on which they are ready. Out: :func:`among`, which orders what is launched inside with them, by events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from zellige_cuda import device
from zellige_cuda.device import call

LEGACY_STREAM: Final = 1
"""``CU_STREAM_LEGACY``: the default stream, which 0 stands for as well."""


def is_same_stream(one: int, other: int) -> bool:
    """Whether two handles stand for one stream."""
    return one == other or {one, other} == {0, LEGACY_STREAM}


def follow(api: Any, stream: int, other: int) -> None:
    """Have what is put into ``stream`` from now on wait for all that is in ``other`` now; nobody waits here (CUDA Driver API, "Stream
    Management", cuStreamWaitEvent)."""
    event = call(api.cuEventCreate(api.CUevent_flags.CU_EVENT_DISABLE_TIMING))
    try:
        call(api.cuEventRecord(event, other))
        call(api.cuStreamWaitEvent(stream, event, 0))
    finally:
        call(api.cuEventDestroy(event))


@contextmanager
def among(pointers: Sequence[int], streams: Sequence[int]) -> Iterator[None]:
    """With what the caller's stream gets ordered after all that is in ``streams``, and all that comes into those after it."""
    api = device.required()
    with device.entered(api, pointers):
        own = device.current_stream(int(call(api.cuCtxGetDevice())))
        others = [stream for stream in streams if not is_same_stream(stream, own)]
        for other in others:
            follow(api, own, other)
        yield
        for other in others:
            follow(api, other, own)
