"""The device: the driver, and compiled kernels that are loaded and launched there; what a start and a launch need and no more, in one
module, since Python takes its time for each.

In: for the driver nothing; for a kernel a binary with its facts and the kernel. Out: thin functions over cuda-python's driver module; an
object of the contract's CompiledKernel, which launches on the caller's stream. A launch returns when it is in the stream; that of a kernel
which asserts or prints returns when it is done, so that the error is the caller's and the lines are in order. Raises launch errors (E642)
with the driver's words.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from zellige.diagnostics import catalogue
from zellige.ir.expr import Binary, Expr, const
from zellige.ir.sizes import SizeError, evaluate_size, launched_blocks, size_vars
from zellige.ir.stmt import Kernel, ScalarParam, TensorParam
from zellige.plugin.contract import Bounds, LoadedCode, Unavailable

if TYPE_CHECKING:
    from zellige.dtypes import DType
    from zellige.ir.expr import Buffer, Var
    from zellige.plugin.contract import Binary as MachineCode, Emitted, NativeLaunch
    from zellige_cuda.native import PackedLaunch
    from zellige_cuda.records import Records

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
    from zellige_cuda.contexts import of_memory

    with of_memory(api, current, pointers):
        yield


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
LONGEST_AXIS: Final = 2**31 - 2**16
"""Elements along an axis of a tensor that boxes are copied from or to: :data:`zellige.simt.homes.FARTHEST`, which a start does not load."""

KEPT: Final = 64
"""Calls whose maps are kept."""

TYPE_OF_BYTES: Final = {1: 0, 2: 1, 4: 2, 8: 4}
"""Unsigned integers of these sizes: boxes are moved as they are, and zeros fill what is outside."""

SWIZZLES: Final = {0: 0, 32: 1, 64: 2, 128: 3}
PROMOTION: Final = 2
"""Requests reach the second cache in 128 bytes: 256 were slower for pitches that are no multiple of 128 bytes."""


class Maps:
    """The tensor maps of one kernel, made on the host for each launch; those of the last calls are kept, since a loop calls with the same
    tensors. ``wanted`` are :func:`zellige_cuda.facts.facts_of_box` in the order in which launches name them, ``sizes`` the variables that
    extents and strides are made of. Source: CUDA Driver API 13, cuTensorMapEncodeTiled (limits of extents, strides and boxes)."""

    def __init__(self, wanted: Sequence[dict[str, Any]], tensors: Sequence[Buffer], sizes: Sequence[Var]) -> None:
        self.wanted = list(wanted)
        self._tensors = list(tensors)
        self._sizes = list(sizes)
        self._kept: OrderedDict[tuple[int, ...], tuple[Any, list[int]]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self.wanted)

    def begin_elsewhere(self, pointers: Sequence[int]) -> bool:
        """Whether a tensor begins where the copy engine cannot read from."""
        return any(pointers[wanted["tensor"]] % ADDRESS_ALIGNMENT for wanted in self.wanted)

    def have_odd_sizes(self, pointers: Sequence[int], values: Mapping[Any, int]) -> bool:
        """Whether the copy engine cannot be told of a tensor of these sizes, such as one without elements, which is zeros all over."""
        if self._key(pointers, values) in self._kept:
            return False
        return any(not self._is_sayable(self._tensors[wanted["tensor"]], pointers[wanted["tensor"]], values) for wanted in self.wanted)

    def _key(self, pointers: Sequence[int], values: Mapping[Any, int]) -> tuple[int, ...]:
        return (*pointers, *(values[size] for size in self._sizes))

    def _is_sayable(self, tensor: Buffer, pointer: int, values: Mapping[Any, int]) -> bool:
        return pointer != 0 and all(0 < evaluate_size(e, values) <= LONGEST_AXIS for e in tensor.shape)

    def addresses(self, pointers: Sequence[int], values: Mapping[Any, int]) -> tuple[Any, list[int]]:
        """Memory of the host with the maps for tensors at ``pointers`` and sizes of these values, and where in it each lies. Whoever
        launches holds the memory: calls of other threads may end its being kept."""
        key = self._key(pointers, values)
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
        return found

    def _encode(self, place: int, wanted: dict[str, Any], pointer: int, values: Mapping[Any, int]) -> None:
        tensor = self._tensors[wanted["tensor"]]
        if not self._is_sayable(tensor, pointer, values):
            return  # no block runs that would ask for it (:meth:`CudaKernel.ordinary`)
        extents = [evaluate_size(e, values) for e in tensor.shape]
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


# ---- kernels ----


class _Loaded:
    """The code in one context: its functions, the number of the device, and memory for what the kernel reports."""

    __slots__ = ("device", "handles", "records")

    def __init__(self, handles: list[int], device: int, records: Records | None) -> None:
        self.handles: Final = handles
        self.device: Final = device
        self.records: Final = records


class CudaKernel:
    """Code that is loaded into the current context at the first launch there; before that it can be looked at without a device."""

    bounds: Final = BOUNDS

    def __init__(self, binary: MachineCode, kernel: Kernel, source: Emitted) -> None:
        facts = json.loads(source.facts)
        self.kernel = kernel
        self.functions: list[dict[str, Any]] = facts["functions"]
        """Of each launch ``name``, ``threads``, ``shared`` bytes, which arguments its parameters are (``params``), and the most blocks that
        it has where these take the tiles of the grid in turn (``workers``)."""
        self.arch: str = facts["arch"]
        """The architecture that the code is for, in the compiler's word."""
        self.alignments: list[int] = facts["alignments"]
        """The widest access to each tensor, in bytes."""
        self.written: list[int] = facts["written"]
        """Which tensors the code writes."""
        self.tensors = [p.buffer for p in kernel.params if isinstance(p, TensorParam)]
        self.scalars = [p.var for p in kernel.params if isinstance(p, ScalarParam)]
        self.sizes = list(size_vars(kernel))
        self.reports = any(f["records"] for f in self.functions)
        """Whether it asserts or prints."""
        self.maps = Maps(facts["maps"], self.tensors, [*(v for v in self.scalars if not v.dtype.is_float), *self.sizes])
        self.facts = facts
        """Everything that was put down beside the code (:func:`zellige_cuda.facts.facts_of`)."""
        self.emitted = source
        """What it was compiled from."""
        self._binary = binary
        self._without_boxes: CudaKernel | None = None
        self._packed: PackedLaunch | None = None
        self._loaded: dict[tuple[int, tuple[str, ...]], _Loaded] = {}
        self._variants: dict[tuple[str, ...], bytes] = {(): binary.data}
        self._entries: list[LoadedCode] = []
        self._lock = threading.Lock()
        starts = {"tensor": 0, "scalar": len(self.tensors), "size": len(self.tensors) + len(self.scalars)}
        self.places = [[8 * (starts[kind] + index) for kind, index in f["params"] if kind != "map"] for f in self.functions]
        """Where, in a block of all arguments of 8 bytes each, those of each launch lie."""
        self.boxed = [[index for kind, index in f["params"] if kind == "map"] for f in self.functions]
        """Which maps each launch takes after them."""
        self.grids = [launched_blocks(launch.grid, f["workers"]) for launch, f in zip(kernel.launches, self.functions)]
        """The extents in blocks of each launch, as expressions of the sizes."""
        self._grids = [constant_grid(grid) for grid in self.grids]

    # ---- code in a context ----

    def code(self, api: Any, defines: tuple[str, ...]) -> _Loaded:
        """The functions in the current context, of the text compiled with ``defines``."""
        context = int(call(api.cuCtxGetCurrent())), defines
        found = self._loaded.get(context)
        if found is None:
            with self._lock:
                found = self._loaded.get(context)
                if found is None:
                    with unrecorded(api):
                        found = self._load(api, *context)
        return found

    def _load(self, api: Any, context: int, defines: tuple[str, ...]) -> _Loaded:
        if defines not in self._variants:
            from zellige_cuda.variants import code_of

            self._variants[defines] = code_of(self, defines)
        module = loaded_code(api, self._variants[defines])
        handles = []
        for function in self.functions:
            handle = call(api.cuModuleGetFunction(module, function["name"].encode()))
            if function["shared"] > 48 * 1024:
                attribute = api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                call(api.cuFuncSetAttribute(handle, attribute, function["shared"]))
            handles.append(int(handle))
        records = _memory_of_reports(api, self) if self.reports else None
        index = int(call(api.cuCtxGetDevice()))
        self._loaded[context, defines] = found = _Loaded(handles, index, records)
        return found

    # ---- launches by core's machine code ----

    def native_launch(self) -> NativeLaunch | None:
        """How core launches it; None for a kernel that asserts or prints, which is waited for."""
        from zellige_cuda.native import native_launch  # a kernel that is called once does without

        return None if self.reports else native_launch(self)

    def loaded_code(self) -> Sequence[LoadedCode]:
        """Where it is loaded by now."""
        with self._lock:
            plain = [(context, loaded) for (context, defines), loaded in self._loaded.items() if not defines]
            for context, loaded in plain[len(self._entries) :]:
                is_shared, handles = int(shared_context(loaded.device)) == context, tuple(loaded.handles)
                self._entries.append(LoadedCode(context=context, device=loaded.device, is_shared=is_shared, handles=handles))
        return self._entries

    def refuse(self, status: int) -> NoReturn:
        """Raise E642 with the driver's words."""
        refused(status)

    # ---- launches ----

    def launch(self, pointers: Sequence[int], scalars: Sequence[int | float], sizes: Sequence[int]) -> None:
        """Put every launch into the caller's stream, in order."""
        values = dict(zip(self.sizes, sizes))
        values.update({v: int(x) for v, x in zip(self.scalars, scalars) if not v.dtype.is_float})
        ordinary = self.ordinary(pointers, values)
        if ordinary is not None:
            ordinary.launch(pointers, scalars, sizes)
            return
        defines = self.defines(pointers)
        api = required()
        with entered(api, pointers):
            self._launch(api, pointers, scalars, sizes, values, defines)

    def _launch(
        self, api: Any, pointers: Sequence[int], scalars: Sequence[int | float], sizes: Sequence[int], values: dict[Any, int],
        defines: tuple[str, ...],
    ) -> None:  # fmt: skip
        loaded = self.code(api, defines)
        words = [*pointers, *(_bits(x, v.dtype) for x, v in zip(scalars, self.scalars)), *sizes]
        block = (ctypes.c_uint64 * (len(words) + 1))(*(int(w) & (1 << 64) - 1 for w in words), 0)
        if loaded.records is not None:
            block[len(words)] = loaded.records.address
        base = ctypes.addressof(block)
        stream = current_stream(loaded.device)
        if loaded.records is not None and _is_recorded(api, stream):
            reason = "it asserts or prints, so each launch waits for the end of the kernel"
            raise catalogue.E643.error(kernel=self.kernel.name, reason=reason)
        maps = self.maps.addresses(pointers, values) if self.maps else (None, [])  # held until the driver has read them
        grids = [fixed if fixed is not None else _grid(grid, values) for fixed, grid in zip(self._grids, self.grids)]
        with nullcontext() if loaded.records is None else loaded.records.turn:
            for number, function in enumerate(self.functions):
                given = [*(base + p for p in self.places[number]), *(maps[1][index] for index in self.boxed[number])]
                given += [base + 8 * len(words)] if function["records"] else []
                self.start(loaded, number, grids[number], (ctypes.c_void_p * len(given))(*given), stream)
            if loaded.records is not None:
                loaded.records.report(stream)

    def launch_among(
        self, pointers: Sequence[int], scalars: Sequence[int | float], sizes: Sequence[int], streams: Sequence[int]
    ) -> None:
        """The same, ordered with other streams by events."""
        from zellige_cuda.streams import among

        with among(pointers, streams):
            self.launch(pointers, scalars, sizes)

    def launch_packed(self, words: bytes) -> None:
        """The same with the arguments of :mod:`zellige.plugin.contract`: they are handed to the driver where they lie."""
        if self._packed is None:
            from zellige_cuda.native import PackedLaunch  # few kernels are launched so

            self._packed = PackedLaunch(self, self._grids)
        self._packed(words)

    def ordinary(self, pointers: Sequence[int], values: Mapping[Any, int]) -> CudaKernel | None:
        """The kernel of the program without copies of boxes, where there is one and the tensors at ``pointers``, of sizes of these
        ``values``, do not suit boxes; compiled when it is first needed. A launch without blocks needs none for the sake of sizes."""
        if not self.facts["otherwise"]:
            return None
        if not self.maps.begin_elsewhere(pointers) and not (self.maps.have_odd_sizes(pointers, values) and self._asks_for_boxes(values)):
            return None
        with self._lock:
            if self._without_boxes is None:
                from zellige_cuda.variants import without_boxes

                self._without_boxes = without_boxes(self)
            return self._without_boxes

    def _asks_for_boxes(self, values: Mapping[Any, int]) -> bool:
        """Whether a launch that takes maps has blocks."""
        return any(
            min(_grid(grid, values) if fixed is None else fixed) > 0
            for grid, fixed, boxed in zip(self.grids, self._grids, self.boxed) if boxed
        )  # fmt: skip

    def start(self, loaded: _Loaded, number: int, grid: tuple[int, int, int], arguments: Any, stream: int) -> None:
        """Put a launch into a stream; ``arguments`` is an array of the addresses of its parameters."""
        if min(grid) <= 0:
            return
        function = self.functions[number]
        status = launcher()(loaded.handles[number], *grid, function["threads"], 1, 1, function["shared"], stream, arguments, None)
        if status:
            refused(status)

    def defines(self, pointers: Sequence[int]) -> tuple[str, ...]:
        """What must be defined for tensors that lie so (:func:`zellige_cuda.variants.defines`)."""
        meet = len(set(pointers)) < len(pointers) and any(pointers[i] and pointers.count(pointers[i]) > 1 for i in self.written)
        if not meet and not any(pointer % alignment for pointer, alignment in zip(pointers, self.alignments)):
            return ()
        from zellige_cuda.variants import defines

        return defines(self, pointers)

    # ---- looking at it ----

    @property
    def log(self) -> str:
        """What the compiler said."""
        return self._binary.log

    def source(self) -> str:
        """CUDA C++."""
        return self.emitted.text

    def assembly(self) -> str:
        """SASS, by nvdisasm."""
        from zellige_cuda.disassembly import disassembled

        return disassembled(self._binary.data)


def _bits(value: int | float, dtype: DType) -> int:
    """The bits of a scalar argument, as its parameter holds them."""
    if not dtype.is_float:
        return int(value)
    from zellige_cuda.variants import bits

    return bits(value, dtype)


def _memory_of_reports(api: Any, kernel: CudaKernel) -> Records:
    from zellige_cuda.records import Records
    from zellige_cuda.variants import sites

    return Records(api, sites(kernel))


def constant_grid(grid: Sequence[Any]) -> tuple[int, int, int] | None:
    """The grid where its extents are known now."""
    try:
        return _grid(grid, {})
    except SizeError:
        return None


def _grid(grid: Sequence[Any], values: Mapping[Any, int]) -> tuple[int, int, int]:
    first, second, third = (evaluate_size(e, values) for e in three(grid))
    return first, second, third


def three(grid: Sequence[Expr]) -> tuple[Expr, Expr, Expr]:
    """The extents of a grid as three: those from the third on in one, 1 where there are fewer."""
    extents = [*grid, *[const(1)] * (3 - len(grid))]
    third = extents[2]
    for extent in extents[3:]:
        third = Binary(op="mul", left=third, right=extent)
    return extents[0], extents[1], third


def _is_recorded(api: Any, stream: int) -> bool:
    """Whether what is put into the stream is recorded in a graph, and not run."""
    return int(call(api.cuStreamIsCapturing(stream))) != 0


class CudaRuntime:
    """Loads cubins."""

    def load(self, binary: MachineCode, kernel: Kernel, source: Emitted) -> CudaKernel:
        return CudaKernel(binary, kernel, source)
