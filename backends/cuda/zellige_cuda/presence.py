"""What there is of a driver and its devices, and what is missing, in words.

In: what the driver answered. Out: devices as the contract has them; reasons for whoever runs the machine.
"""

from __future__ import annotations

import os
from typing import Final

from zellige.plugin.contract import Device, Unavailable
from zellige_cuda import device
from zellige_cuda.device import call

_CODES: Final = {"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "old-driver", "CUDA_ERROR_STUB_LIBRARY": "no-driver"}


def why_not(answer: str) -> Unavailable:
    """Why there is no device where cuInit answers so."""
    return Unavailable(code=_CODES.get(answer, "no-device"), reason=_words(answer))


def old(version: int, least: int) -> Unavailable:
    """Why a driver for CUDA ``version`` is of no use."""
    reason = f"the driver is for CUDA {version_text(version)}; {version_text(least)} or later is needed: update the driver"
    return Unavailable(code="old-driver", reason=reason)


def _words(answer: str) -> str:
    """What an answer to cuInit means, for whoever runs the machine."""
    if answer == "CUDA_ERROR_NO_DEVICE":
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        return "the driver sees no device" + (f" (CUDA_VISIBLE_DEVICES is {visible!r})" if visible is not None else "")
    if answer == "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH":
        return "the driver library and the kernel's part of the driver are of different versions: restart the machine, or update the driver"
    if answer == "CUDA_ERROR_STUB_LIBRARY":
        return "the driver library is the one that programs are linked with, not a driver: take its folder out of LD_LIBRARY_PATH"
    return f"the driver answers {answer}"


def version_text(version: int) -> str:
    """``13020`` as "13.2"."""
    return f"{version // 1000}.{version % 1000 // 10}"


def too_old_for(major: int, driver: int) -> str:
    """What is wrong where the compiler is of a later major version than the driver; empty where nothing is (CUDA Compatibility guide,
    "Minor Version Compatibility")."""
    if driver // 1000 >= major:
        return ""
    return f"the driver is for CUDA {version_text(driver)} and cannot load what the compiler of CUDA {major} makes: update the driver"


def devices() -> tuple[Device, ...] | Unavailable:
    """The devices that work here."""
    api = device.driver()
    if isinstance(api, Unavailable):
        return api
    found = []
    for index in range(call(api.cuDeviceGetCount())):
        handle = call(api.cuDeviceGet(index))
        major, minor = device.capability_of(api, handle)
        name = call(api.cuDeviceGetName(128, handle)).split(b"\0")[0].decode()
        found.append(
            Device(
                name=name, index=index, target=f"cuda:{device.word_of(major, minor)}", memory_bytes=call(api.cuDeviceTotalMem(handle)),
                compute_version=(major, minor),
            )
        )  # fmt: skip
    return tuple(found) if found else Unavailable(code="no-device", reason="the driver sees no device")
