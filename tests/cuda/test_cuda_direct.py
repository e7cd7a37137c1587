"""The driver's functions that are called by address give what cuda-python's module gives."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from zellige.diagnostics import ZelligeError
from zellige_cuda import device


class Library:
    """The driver library: functions that take pointers and numbers of ctypes, and return a status."""

    def __init__(self, status: int = 0) -> None:
        self.status = status
        self.given: list[Any] = []

    def _answer(self, out: Any, value: int | None, *arguments: Any) -> int:
        self.given.append(tuple(getattr(a, "value", a) for a in arguments))
        if not self.status:
            out._obj.value = value
        return self.status

    def cuInit(self, flags: Any) -> int:
        return self.status

    def cuDriverGetVersion(self, out: Any) -> int:
        return self._answer(out, 13020)

    def cuDeviceGetCount(self, out: Any) -> int:
        return self._answer(out, 2)

    def cuDeviceGet(self, out: Any, ordinal: Any) -> int:
        return self._answer(out, 1, ordinal)

    def cuDeviceGetAttribute(self, out: Any, attribute: Any, handle: Any) -> int:
        return self._answer(out, 9, attribute, handle)

    def cuCtxGetDevice(self, out: Any) -> int:
        return self._answer(out, 1)

    def cuCtxGetCurrent(self, out: Any) -> int:
        return self._answer(out, None)

    def cuDevicePrimaryCtxRetain(self, out: Any, handle: Any) -> int:
        return self._answer(out, 2**63 + 8, handle)

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> int:
        wanted = mode._obj.value
        return self._answer(mode, 0, ctypes.c_int(wanted))

    def cuModuleLoadData(self, out: Any, code: Any) -> int:
        return self._answer(out, 2**40, code)

    def cuModuleGetFunction(self, out: Any, module: Any, name: Any) -> int:
        return self._answer(out, 2**41, module, name)

    def cuFuncSetAttribute(self, function: Any, attribute: Any, value: Any) -> int:
        self.given.append((function.value, attribute.value, value.value))
        return self.status


class Status(int):
    @property
    def name(self) -> str:
        return {1: "CUDA_ERROR_INVALID_VALUE"}[self]


MODULE = SimpleNamespace(CUresult=Status, cuMemAlloc=lambda size: (Status(0), size))

CALLS: dict[str, tuple[tuple[Any, ...], Any, tuple[Any, ...]]] = {
    "cuDriverGetVersion": ((), 13020, ()),
    "cuDeviceGetCount": ((), 2, ()),
    "cuDeviceGet": ((1,), 1, (1,)),
    "cuDeviceGetAttribute": ((75, 1), 9, (75, 1)),
    "cuCtxGetDevice": ((), 1, ()),
    "cuCtxGetCurrent": ((), 0, ()),
    "cuDevicePrimaryCtxRetain": ((1,), 2**63 + 8, (1,)),
    "cuThreadExchangeStreamCaptureMode": ((2,), 0, (2,)),
    "cuModuleLoadData": ((b"\x7fELF\0\1",), 2**40, (b"\x7fELF",)),  # ctypes shows it to the first zero; the pointer is to all of it
    "cuModuleGetFunction": ((2**40, b"gemm"), 2**41, (2**40, b"gemm")),
}


@pytest.mark.parametrize("name", CALLS)
def test_values_come_back(name: str) -> None:
    library = Library()
    arguments, value, given = CALLS[name]
    answer = getattr(device.Direct(MODULE, library), name)(*arguments)
    assert device.call(answer) == value
    assert library.given == [given]


@pytest.mark.parametrize("name", CALLS)
def test_a_failure_has_the_drivers_word(name: str) -> None:
    answer = getattr(device.Direct(MODULE, Library(1)), name)(*CALLS[name][0])
    assert len(answer) == 1
    with pytest.raises(ZelligeError, match="CUDA_ERROR_INVALID_VALUE"):
        device.call(answer)


def test_what_gives_nothing() -> None:
    library = Library()
    api = device.Direct(MODULE, library)
    assert api.cuInit(0) == (0,)
    assert api.cuFuncSetAttribute(2**41, 8, 65536) == (0,)
    assert library.given == [(2**41, 8, 65536)]
    assert device.Direct(MODULE, Library(1)).cuInit(0) == (Status(1),)


def test_every_other_function_is_the_modules() -> None:
    api = device.Direct(MODULE, Library())
    assert api.cuMemAlloc(7) == (0, 7)
    assert vars(api)["cuMemAlloc"] is MODULE.cuMemAlloc
    with pytest.raises(AttributeError):
        api.cuThereIsNone  # noqa: B018
