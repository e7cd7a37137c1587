"""The driver: devices, contexts, loaded code, streams.

In: nothing. Out: thin functions over cuda-python's driver module. Raises launch errors (E642) with the driver's words.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from zellige.diagnostics import catalogue
from zellige.plugin.contract import Device, Unavailable


@cache
def driver() -> Any:
    """cuda-python's driver module after cuInit, or the reason why there is none."""
    try:
        from cuda.bindings import driver as module
    except ImportError as error:
        return Unavailable(code="missing-package", reason=f"cuda-python is not installed ({error})")
    try:
        status = module.cuInit(0)[0]
    except RuntimeError as error:
        return Unavailable(code="no-driver", reason=f"the driver library cannot be loaded ({str(error).splitlines()[0]})")
    if status != module.CUresult.CUDA_SUCCESS:
        return Unavailable(code="no-device", reason=f"the driver answers {status.name}")
    return module


def call(answer: tuple[Any, ...]) -> Any:
    """The values of a driver call. Raises E642 with the driver's words for a failure."""
    status, *values = answer
    if int(status) != 0:
        raise catalogue.E642.error(what=status.name)
    return values[0] if len(values) == 1 else values


def devices() -> tuple[Device, ...] | Unavailable:
    """The devices that work here."""
    api = driver()
    if isinstance(api, Unavailable):
        return api
    found = []
    for index in range(call(api.cuDeviceGetCount())):
        handle = call(api.cuDeviceGet(index))
        attribute = api.CUdevice_attribute
        major = call(api.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle))
        minor = call(api.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle))
        name = call(api.cuDeviceGetName(128, handle)).split(b"\0")[0].decode()
        suffix = "a" if major in (9, 10, 12) else ""
        found.append(
            Device(
                name=name, index=index, target=f"cuda:sm_{major}{minor}{suffix}", memory_bytes=call(api.cuDeviceTotalMem(handle)),
                compute_version=(major, minor),
            )
        )  # fmt: skip
    return tuple(found) if found else Unavailable(code="no-device", reason="the driver sees no device")


def ready() -> Any:
    """The driver with a current context: the caller's, else the first device's primary one."""
    api = driver()
    if isinstance(api, Unavailable):
        raise catalogue.E706.error(target="cuda", reason=api.reason)
    current = call(api.cuCtxGetCurrent())
    if int(current) == 0:
        call(api.cuCtxSetCurrent(call(api.cuDevicePrimaryCtxRetain(call(api.cuDeviceGet(0))))))
    return api


def current_stream(index: int) -> int:
    """The stream that the caller's framework uses on a device; 0 (the default stream) without one."""
    torch = sys.modules.get("torch")
    return int(torch._C._cuda_getCurrentRawStream(index)) if torch is not None and torch.cuda.is_available() else 0
