"""The driver: contexts, loaded code, the caller's stream; what a start and a launch need and no more.

In: nothing. Out: thin functions over cuda-python's driver module; of the boxes that a kernel's functions copy, as facts, and the addresses
and sizes of a launch, the addresses of the tensor maps that the copy engine is told of tensors by. Raises launch errors (E642) with the
driver's words.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from zellige.diagnostics import catalogue
from zellige.ir.sizes import evaluate_size
from zellige.plugin.contract import Bounds, Unavailable

if TYPE_CHECKING:
    from zellige.ir.expr import Buffer, Expr
    from zellige.simt.ir import TensorBox

INSTALL: Final = "pip install 'zellige[cuda]' brings it"
"""What helps where a part of the vendor's that this backend needs is missing."""

LEAST_DRIVER: Final = 12000
"""The first driver that has what is called here: libraries of the major version 12."""

MOST_BLOCKS: Final = (2**31 - 1, 65535, 65535)
BOUNDS: Final = Bounds(grid=MOST_BLOCKS, argument_bytes=32764)
"""Blocks of a launch along each axis, bytes of its arguments (from sm_70 on). Source: CUDA C++ Programming Guide 13, compute capabilities,
"Maximum x-dimension of a grid"; "__global__ function parameters"."""


_CALLED: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "cuInit": (None, (ctypes.c_uint,)),
    "cuDriverGetVersion": (ctypes.c_int, ()),
    "cuDeviceGetCount": (ctypes.c_int, ()),
    "cuDeviceGet": (ctypes.c_int, (ctypes.c_int,)),
    "cuDeviceGetAttribute": (ctypes.c_int, (ctypes.c_int, ctypes.c_int)),
    "cuCtxGetDevice": (ctypes.c_int, ()),
    "cuCtxGetCurrent": (ctypes.c_void_p, ()),
    "cuDevicePrimaryCtxRetain": (ctypes.c_void_p, (ctypes.c_int,)),
    "cuModuleLoadData": (ctypes.c_void_p, (ctypes.c_char_p,)),
    "cuModuleGetFunction": (ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_char_p)),
    "cuFuncSetAttribute": (None, (ctypes.c_void_p, ctypes.c_int, ctypes.c_int)),
}
"""The functions that a start and a launch call: what each writes to its first argument (None: nothing), and the types of the others
(CUDA Driver API 13, the functions of these names)."""


class Direct:
    """cuda-python's driver module, with the few functions that a start and a launch call going to the library itself: the module looks for
    the address of every function of the driver at the first call of any, which takes as long as loading a kernel. They take and give what
    the module's take and give, handles as numbers, 0 for none."""

    def __init__(self, module: Any, found: Any) -> None:
        self._module = module
        self._library = found

    def __getattr__(self, name: str) -> Any:
        form = _CALLED.get(name)
        value = getattr(self._module, name) if form is None else partial(self._called, getattr(self._library, name), *form)
        setattr(self, name, value)
        return value

    def _called(self, function: Any, written: Any, kinds: tuple[Any, ...], *arguments: Any) -> tuple[Any, ...]:
        given = [kind(value if kind is ctypes.c_char_p else int(value)) for kind, value in zip(kinds, arguments, strict=True)]
        found = None if written is None else written()
        status = function(*given) if found is None else function(ctypes.byref(found), *given)
        if status:
            return (self._module.CUresult(status),)
        return (0,) if found is None else (0, found.value or 0)

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> tuple[Any, ...]:
        kept = ctypes.c_int(int(mode))
        status = self._library.cuThreadExchangeStreamCaptureMode(ctypes.byref(kept))
        return (self._module.CUresult(status),) if status else (0, kept.value)


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
        from zellige_cuda.presence import why_not

        return why_not(status.name)
    version = driver_version(module)
    if version < LEAST_DRIVER:
        from zellige_cuda.presence import old

        return old(version, LEAST_DRIVER)
    return module


def driver_version(api: Any) -> int:
    """The CUDA version that the driver is for: 1000 times the major one and 10 times the minor one."""
    return int(call(api.cuDriverGetVersion()))


def call(answer: tuple[Any, ...]) -> Any:
    """The values of a driver call. Raises E642 with the driver's words for a failure."""
    status, *values = answer
    if int(status) != 0:
        raise catalogue.E642.error(what=status.name)
    return values[0] if len(values) == 1 else values


def capability_of(api: Any, handle: Any) -> tuple[int, int]:
    """The compute capability of a device."""
    attribute = api.CUdevice_attribute
    major = call(api.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle))
    minor = call(api.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle))
    return int(major), int(minor)


def word_of(major: int, minor: int) -> str:
    """The architecture of a compute capability in the compiler's word."""
    return f"sm_{major}{minor}{'a' if major in (9, 10, 12) else ''}"


@cache
def first_architecture() -> str:
    """The architecture of the first device; empty where there is none."""
    api = driver()
    if isinstance(api, Unavailable) or not call(api.cuDeviceGetCount()):
        return ""
    return word_of(*capability_of(api, call(api.cuDeviceGet(0))))


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


def loaded_code(api: Any, code: bytes) -> Any:
    """The code as a module of the current context. E504 where the driver is older than the compiler that made it."""
    answer = api.cuModuleLoadData(code)
    if int(answer[0]) != 0:
        from zellige_cuda.compiler import compiler_version
        from zellige_cuda.presence import too_old_for

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


# ---- tensor maps ----

MAP_BYTES: Final = 128
MAP_ALIGNMENT: Final = 64
ADDRESS_ALIGNMENT: Final = 16
KEPT: Final = 64
"""Calls whose maps are kept."""

TYPE_OF_BYTES: Final = {1: 0, 2: 1, 4: 2, 8: 4}
"""Unsigned integers of these sizes: boxes are moved as they are, and zeros fill what is outside."""

SWIZZLES: Final = {0: 0, 32: 1, 64: 2, 128: 3}
PROMOTION: Final = 2
"""Requests reach the second cache in 128 bytes: 256 were slower for pitches that are no multiple of 128 bytes."""


def facts_of_box(box: TensorBox, tensors: Sequence[Buffer]) -> dict[str, Any]:
    """A box as facts: which tensor argument, its extents, how it is swizzled."""
    return {"tensor": tensors.index(box.tensor), "box": list(box.box), "swizzle": box.swizzle_bytes}


class Maps:
    """The tensor maps of one kernel, made on the host for each launch; those of the last calls are kept, since a loop calls with the same
    tensors. ``wanted`` are :func:`facts_of_box` in the order in which launches name them. Source: CUDA Driver API 13,
    cuTensorMapEncodeTiled (limits of extents, strides and boxes)."""

    def __init__(self, wanted: Sequence[dict[str, Any]], tensors: Sequence[Buffer]) -> None:
        self.wanted = list(wanted)
        self._tensors = list(tensors)
        self._kept: OrderedDict[tuple[int, ...], tuple[Any, list[int]]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self.wanted)

    def are_unfit(self, pointers: Sequence[int]) -> bool:
        """Whether a tensor begins where the copy engine cannot read from."""
        return any(pointers[wanted["tensor"]] % ADDRESS_ALIGNMENT for wanted in self.wanted)

    def addresses(self, pointers: Sequence[int], values: Mapping[Any, int]) -> list[int]:
        """Where each map lies in memory of the host, for tensors at ``pointers`` and sizes of these values."""
        key = (*pointers, *values.values())
        found = self._kept.get(key)
        if found is None:
            memory = ctypes.create_string_buffer(MAP_BYTES * len(self.wanted) + MAP_ALIGNMENT)
            first = -(-ctypes.addressof(memory) // MAP_ALIGNMENT) * MAP_ALIGNMENT
            places = [first + MAP_BYTES * number for number in range(len(self.wanted))]
            for place, wanted in zip(places, self.wanted):
                self._encode(place, wanted, pointers[wanted["tensor"]], values)
            found = self._kept[key] = (memory, places)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found[1]

    def _encode(self, place: int, wanted: dict[str, Any], pointer: int, values: Mapping[Any, int]) -> None:
        tensor = self._tensors[wanted["tensor"]]
        extents = [evaluate_size(e, values) for e in tensor.shape]
        if min(extents) <= 0 or not pointer:
            return  # nothing is copied from a tensor without elements
        size = tensor.dtype.bytes
        strides = [s * size for s in strides_of(tensor, values)]
        rank = len(extents)
        dims = struct.pack(f"{rank}Q", *reversed(extents))
        pitches = struct.pack(f"{rank}Q", *reversed(strides[:-1]), 0)
        box = struct.pack(f"{rank}I", *reversed(wanted["box"]))
        steps = struct.pack(f"{rank}I", *[1] * rank)
        status = _encoder()(
            place, TYPE_OF_BYTES[size], rank, pointer, dims, pitches, box, steps, 0, SWIZZLES[wanted["swizzle"]], PROMOTION, 0
        )
        if status:
            shape = " x ".join(map(str, extents))
            raise catalogue.E642.error(what=f"{driver().CUresult(status).name} for the boxes of {tensor.name} ({shape})")


def strides_of(tensor: Buffer, values: Mapping[Any, int]) -> list[int]:
    """The strides of a tensor in elements."""
    written: Sequence[Expr] | None = tensor.strides
    if written is not None:
        return [evaluate_size(s, values) for s in written]
    strides = [1]
    for extent in reversed(tensor.shape[1:]):
        strides.insert(0, strides[0] * evaluate_size(extent, values))
    return strides


@cache
def _encoder() -> Any:
    """The driver's function, called by address."""
    function = library().cuTensorMapEncodeTiled
    pointer, word = ctypes.c_void_p, ctypes.c_int
    function.argtypes = (pointer, word, ctypes.c_uint32, pointer, pointer, pointer, pointer, pointer, word, word, word, word)
    function.restype = ctypes.c_int
    return function
