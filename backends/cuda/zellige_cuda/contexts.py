"""Contexts of several devices: which of them a launch needs.

In: the driver and pointers of a launch. Out: :func:`of_memory`, with a current context for that memory. Loaded where there is more than one
device, or nobody has made a context yet.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from zellige_cuda import device
from zellige_cuda.device import call

_DEVICE_ORDINAL: Final = 9
"""``CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`` (CUDA Driver API, "Unified Addressing")."""


@contextmanager
def of_memory(api: Any, current: int, pointers: Sequence[int]) -> Iterator[None]:
    """With a current context for memory at ``pointers``: the ``current`` one where it is one of that memory's device, else the one that
    frameworks share there, and the caller's again afterwards."""
    wanted = _device_of(pointers)
    if current and (wanted is None or int(call(api.cuCtxGetDevice())) == wanted):
        yield
        return
    call(api.cuCtxPushCurrent(device.shared_context(wanted or 0)))
    try:
        yield
    finally:
        call(api.cuCtxPopCurrent())


def _device_of(pointers: Sequence[int]) -> int | None:
    """The device whose memory a pointer is; None for memory of the host and for no pointer."""
    pointer = next((p for p in pointers if p), None)
    return None if pointer is None else ordinal_of(pointer)


def ordinal_of(pointer: int) -> int | None:
    """The device whose memory ``pointer`` is, None for memory of the host. The library is asked itself: cuda-bindings 13.3 answers 0 for
    memory of any device, so that kernels for tensors of a second device ran on the first (tools/device_check.py, the part ``devices``)."""
    found = ctypes.c_int(-1)
    status = device.library().cuPointerGetAttribute(ctypes.byref(found), _DEVICE_ORDINAL, ctypes.c_uint64(pointer))
    return found.value if status == 0 and found.value >= 0 else None
