"""The driver: devices, contexts, loaded code, streams.

In: nothing. Out: thin functions over cuda-python's driver module. Raises launch errors (E642) with the driver's words.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any, Final, NoReturn

from zellige.diagnostics import catalogue
from zellige.plugin.contract import Bounds, Device, DriverFunctions, Unavailable

DLPACK_TYPE: Final = 2
"""``kDLCUDA``: ordinary memory of a device."""

INSTALL: Final = "pip install 'zellige[cuda]' brings it"
"""What helps where a part of the vendor's that this backend needs is missing."""

LEAST_DRIVER: Final = 12000
"""The first driver that has what is called here: libraries of the major version 12."""

MOST_BLOCKS: Final = (2**31 - 1, 65535, 65535)
BOUNDS: Final = Bounds(grid=MOST_BLOCKS, argument_bytes=32764)
"""Blocks of a launch along each axis, bytes of its arguments (from sm_70 on). Source: CUDA C++ Programming Guide 13, compute capabilities,
"Maximum x-dimension of a grid"; "__global__ function parameters"."""


class Direct:
    """cuda-python's driver module, with the few functions that a start and a launch call going to the library itself: the module looks for
    the address of every function of the driver at the first call of any, which takes as long as loading a kernel. They take and give what
    the module's take and give, handles as numbers (CUDA Driver API 13, the functions of these names)."""

    def __init__(self, module: Any, found: Any) -> None:
        self._module = module
        self._library = found

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._module, name)
        setattr(self, name, value)
        return value

    def _told(self, status: int, *values: Any) -> tuple[Any, ...]:
        return (self._module.CUresult(status),) if status else (0, *values)

    def _number(self, name: str, *arguments: Any) -> tuple[Any, ...]:
        """What a function answers that writes an int to its first argument."""
        found = ctypes.c_int(0)
        return self._told(getattr(self._library, name)(ctypes.byref(found), *arguments), found.value)

    def _handle(self, name: str, *arguments: Any) -> tuple[Any, ...]:
        """What a function answers that writes a pointer to its first argument; 0 for none."""
        found = ctypes.c_void_p(None)
        return self._told(getattr(self._library, name)(ctypes.byref(found), *arguments), found.value or 0)

    def cuInit(self, flags: int) -> tuple[Any, ...]:
        return self._told(self._library.cuInit(ctypes.c_uint(flags)))

    def cuDriverGetVersion(self) -> tuple[Any, ...]:
        return self._number("cuDriverGetVersion")

    def cuDeviceGetCount(self) -> tuple[Any, ...]:
        return self._number("cuDeviceGetCount")

    def cuDeviceGet(self, ordinal: int) -> tuple[Any, ...]:
        return self._number("cuDeviceGet", ctypes.c_int(ordinal))

    def cuDeviceGetAttribute(self, attribute: Any, handle: Any) -> tuple[Any, ...]:
        return self._number("cuDeviceGetAttribute", ctypes.c_int(int(attribute)), ctypes.c_int(int(handle)))

    def cuCtxGetDevice(self) -> tuple[Any, ...]:
        return self._number("cuCtxGetDevice")

    def cuCtxGetCurrent(self) -> tuple[Any, ...]:
        return self._handle("cuCtxGetCurrent")

    def cuDevicePrimaryCtxRetain(self, handle: Any) -> tuple[Any, ...]:
        return self._handle("cuDevicePrimaryCtxRetain", ctypes.c_int(int(handle)))

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> tuple[Any, ...]:
        kept = ctypes.c_int(int(mode))
        return self._told(self._library.cuThreadExchangeStreamCaptureMode(ctypes.byref(kept)), kept.value)

    def cuModuleLoadData(self, code: bytes) -> tuple[Any, ...]:
        return self._handle("cuModuleLoadData", ctypes.c_char_p(code))

    def cuModuleGetFunction(self, module: Any, name: bytes) -> tuple[Any, ...]:
        return self._handle("cuModuleGetFunction", ctypes.c_void_p(int(module)), ctypes.c_char_p(name))

    def cuFuncSetAttribute(self, function: Any, attribute: Any, value: int) -> tuple[Any, ...]:
        handle = ctypes.c_void_p(int(function))
        return self._told(self._library.cuFuncSetAttribute(handle, ctypes.c_int(int(attribute)), ctypes.c_int(value)))


@cache
def driver() -> Any:
    """The driver's functions after cuInit, as cuda-python's module has them, or the reason why there are none."""
    try:
        from cuda.bindings import driver as module
    except ImportError as error:
        return Unavailable(code="missing-package", reason=f"cuda-python is not installed ({error}): {INSTALL}")
    if isinstance(module, ModuleType):
        try:
            module = Direct(module, library())
        except OSError as error:
            return Unavailable(code="no-driver", reason=f"the driver library cannot be loaded ({error})")
    try:
        status = module.cuInit(0)[0]
    except RuntimeError as error:
        return Unavailable(code="no-driver", reason=f"the driver library cannot be loaded ({str(error).splitlines()[0]})")
    if int(status) != 0:
        return Unavailable(code=_CODES.get(status.name, "no-device"), reason=_words(status.name))
    version = driver_version(module)
    if version < LEAST_DRIVER:
        reason = f"the driver is for CUDA {version_text(version)}; {version_text(LEAST_DRIVER)} or later is needed: update the driver"
        return Unavailable(code="old-driver", reason=reason)
    return module


_CODES: Final = {"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "old-driver", "CUDA_ERROR_STUB_LIBRARY": "no-driver"}


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


def driver_version(api: Any) -> int:
    """The CUDA version that the driver is for: 1000 times the major one and 10 times the minor one."""
    return int(call(api.cuDriverGetVersion()))


def version_text(version: int) -> str:
    """``13020`` as "13.2"."""
    return f"{version // 1000}.{version % 1000 // 10}"


def too_old_for(major: int, driver: int) -> str:
    """What is wrong where the compiler is of a later major version than the driver; empty where nothing is (CUDA Compatibility guide,
    "Minor Version Compatibility")."""
    if driver // 1000 >= major:
        return ""
    return f"the driver is for CUDA {version_text(driver)} and cannot load what the compiler of CUDA {major} makes: update the driver"


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
        major, minor = _capability(api, handle)
        name = call(api.cuDeviceGetName(128, handle)).split(b"\0")[0].decode()
        found.append(
            Device(
                name=name, index=index, target=f"cuda:{_word(major, minor)}", memory_bytes=call(api.cuDeviceTotalMem(handle)),
                compute_version=(major, minor),
            )
        )  # fmt: skip
    return tuple(found) if found else Unavailable(code="no-device", reason="the driver sees no device")


def _capability(api: Any, handle: Any) -> tuple[int, int]:
    attribute = api.CUdevice_attribute
    major = call(api.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle))
    minor = call(api.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle))
    return int(major), int(minor)


def _word(major: int, minor: int) -> str:
    """The architecture of a compute capability in the compiler's word."""
    return f"sm_{major}{minor}{'a' if major in (9, 10, 12) else ''}"


@cache
def first_architecture() -> str:
    """The architecture of the first device; empty where there is none."""
    api = driver()
    if isinstance(api, Unavailable) or not call(api.cuDeviceGetCount()):
        return ""
    return _word(*_capability(api, call(api.cuDeviceGet(0))))


def required() -> Any:
    """The driver. Raises E706 where there is none."""
    api = driver()
    if isinstance(api, Unavailable):
        raise catalogue.E706.error(target="cuda", reason=api.reason)
    return api


@contextmanager
def entered(api: Any, pointers: Sequence[int] = ()) -> Iterator[None]:
    """With a current context for memory at ``pointers``: the caller's where it is one of that memory's device or there is only one
    device, else the one that frameworks share there, and the caller's again afterwards."""
    current = int(call(api.cuCtxGetCurrent()))
    if current and _count() == 1:
        yield
        return
    wanted = _device_of(pointers)
    if current and (wanted is None or int(call(api.cuCtxGetDevice())) == wanted):
        yield
        return
    call(api.cuCtxPushCurrent(shared_context(wanted or 0)))
    try:
        yield
    finally:
        call(api.cuCtxPopCurrent())


@contextmanager
def unrecorded(api: Any) -> Iterator[None]:
    """With calls allowed that do not belong into a graph, also while this thread records one: code is loaded once, beside the graph."""
    before = call(api.cuThreadExchangeStreamCaptureMode(api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    try:
        yield
    finally:
        call(api.cuThreadExchangeStreamCaptureMode(before))


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


def is_recorded(api: Any, stream: int) -> bool:
    """Whether what is put into the stream is recorded in a graph, and not run."""
    return int(call(api.cuStreamIsCapturing(stream))) != 0


@cache
def _count() -> int:
    return int(call(driver().cuDeviceGetCount()))


@cache
def shared_context(index: int) -> Any:
    """The primary context of a device, which frameworks use too."""
    api = driver()
    return call(api.cuDevicePrimaryCtxRetain(call(api.cuDeviceGet(index))))


def _device_of(pointers: Sequence[int]) -> int | None:
    """The device whose memory a pointer is; None for memory of the host and for no pointer."""
    pointer = next((p for p in pointers if p), None)
    return None if pointer is None else ordinal_of(pointer)


_DEVICE_ORDINAL: Final = 9
"""``CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`` (CUDA Driver API, "Unified Addressing")."""


def ordinal_of(pointer: int) -> int | None:
    """The device whose memory ``pointer`` is, None for memory of the host. The library is asked itself: cuda-bindings 13.3 answers 0 for
    memory of any device, so that kernels for tensors of a second device ran on the first (tools/device_check.py, the part ``devices``)."""
    found = ctypes.c_int(-1)
    status = library().cuPointerGetAttribute(ctypes.byref(found), _DEVICE_ORDINAL, ctypes.c_uint64(pointer))
    return found.value if status == 0 and found.value >= 0 else None


@cache
def library() -> Any:
    """The driver library, for calls by address: what a wrapper would add to every launch is left out."""
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


@cache
def launcher() -> Any:
    """The driver's own cuLaunchKernel."""
    function = library().cuLaunchKernel
    function.argtypes = (ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    function.restype = ctypes.c_int
    return function


def address_of(name: str) -> int:
    """Where a function of the driver lies."""
    return ctypes.cast(getattr(library(), name), ctypes.c_void_p).value or 0


@cache
def functions() -> DriverFunctions:
    """Where the driver's functions lie that core's launching code calls (CUDA Driver API, "Execution Control", "Context Management")."""
    return DriverFunctions(
        start=address_of("cuLaunchKernel"), current=address_of("cuCtxGetCurrent"), enter=address_of("cuCtxPushCurrent_v2"),
        leave=address_of("cuCtxPopCurrent_v2"),
    )  # fmt: skip


def loaded_code(api: Any, code: bytes) -> Any:
    """The code as a module of the current context. E504 where the driver is older than the compiler that made it."""
    answer = api.cuModuleLoadData(code)
    if int(answer[0]) != 0:
        from zellige_cuda.compiler import compiler_version

        reason = too_old_for(compiler_version()[0], driver_version(api))
        if reason:
            raise catalogue.E504.error(tool="NVRTC", reason=reason)
    return call(answer)


def refused(status: int) -> NoReturn:
    """Raise E642 for the number that a call by address returned."""
    raise catalogue.E642.error(what=driver().CUresult(status).name)


def current_stream(index: int) -> int:
    """The stream that the caller's framework uses on a device; 0 (the default stream) without one."""
    torch = sys.modules.get("torch")
    stream = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)
    return 0 if stream is None or not torch.cuda.is_initialized() else int(stream(index))  # type: ignore[union-attr]
