"""A compiled kernel on a device: loads the cubin, computes the grids, launches on the caller's stream.

In: a binary with its facts and the kernel. Out: an object of the contract's CompiledKernel. A launch returns when it is in the stream; that
of a kernel which asserts or prints returns when it is done, so that the error is the caller's and the lines are in order.
"""

from __future__ import annotations

import ctypes
import json
import struct
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

from zellige.diagnostics import catalogue
from zellige.dtypes import DType
from zellige.ir.expr import Binary, Expr, const
from zellige.ir.sizes import evaluate_size, size_vars
from zellige.ir.stmt import Kernel, ScalarParam, TensorParam
from zellige.plugin.contract import Binary as MachineCode, Emitted, LoadedCode, NativeLaunch, NativeStep
from zellige_cuda import device
from zellige_cuda.boxes import ADDRESS_ALIGNMENT, Maps

if TYPE_CHECKING:
    from zellige_cuda.records import Records, Site

ELEMENTWISE = "-DELEMENTWISE"
"""Defined where a tensor does not begin at a multiple of its widest access: wide accesses are made element by element."""
TENSORS_MEET = "-DTENSORS_MEET"
"""Defined where a tensor that is only read is also written under another name."""


WITHOUT_BOXES = "WITHOUT_BOXES"
"""Defined where a tensor does not suit the engine that copies boxes: another program does the same without it."""


class _Loaded:
    """The code in one context: its functions, the number of the device, and memory for what the kernel reports."""

    __slots__ = ("device", "handles", "records")

    def __init__(self, handles: list[int], device: int, records: Records | None) -> None:
        self.handles: Final = handles
        self.device: Final = device
        self.records: Final = records


def functions_of(emitted: Emitted) -> list[dict[str, Any]]:
    """What :func:`facts_of` put down of each launch."""
    found: list[dict[str, Any]] = json.loads(emitted.facts)["functions"]
    return found


class CudaKernel:
    """Code that is loaded into the current context at the first launch there; before that it can be looked at without a device."""

    bounds: Final = device.BOUNDS

    def __init__(self, binary: MachineCode, kernel: Kernel, source: Emitted) -> None:
        facts = json.loads(source.facts)
        self._kernel = kernel
        self._binary = binary
        self._functions: list[dict[str, Any]] = facts["functions"]
        self._arch: str = facts["arch"]
        self._alignments: list[int] = facts["alignments"]
        self._needed: list[int] = facts["needed"]
        self._written: list[int] = facts["written"]
        self._flags: list[str] = facts["flags"]
        self._places_told = facts["sites"], source.spans
        self._sizes = list(size_vars(kernel))
        self._tensors = [p.buffer for p in kernel.params if isinstance(p, TensorParam)]
        self._scalars = [p.var for p in kernel.params if isinstance(p, ScalarParam)]
        self._names = [*self._scalars, *self._sizes]
        self._records = any(f["records"] for f in self._functions)
        self._maps = Maps(facts["maps"], self._tensors)
        self._source = source
        self._otherwise: str = facts["otherwise"]
        self._without_boxes: CudaKernel | None = None
        self._loaded: dict[tuple[int, tuple[str, ...]], _Loaded] = {}
        self._variants: dict[tuple[str, ...], bytes] = {(): binary.data}
        self._entries: list[LoadedCode] = []
        self._lock = threading.Lock()
        counts = (len(self._alignments), len(self._scalars), len(self._sizes))
        words = "".join("d" if v.dtype.is_float else "q" for v in self._scalars)
        self._packed = struct.Struct(f"<{counts[0]}q{words}{counts[2]}q")
        starts = {"tensor": 0, "scalar": counts[0], "size": counts[0] + counts[1]}
        self._places = [[8 * (starts[kind] + index) for kind, index in f["params"] if kind != "map"] for f in self._functions]
        self._boxed = [[index for kind, index in f["params"] if kind == "map"] for f in self._functions]
        self._grids = [_constant_grid(launch.grid) for launch in kernel.launches]
        self._address = 8 * sum(counts)
        self._is_plain = not self._records and None not in self._grids and not any(v.dtype.is_float for v in self._scalars)

    # ---- code in a context ----

    def _code(self, api: Any, defines: tuple[str, ...]) -> _Loaded:
        """The functions in the current context, of the text compiled with ``defines``."""
        context = int(device.call(api.cuCtxGetCurrent())), defines
        found = self._loaded.get(context)
        if found is None:
            with self._lock:
                found = self._loaded.get(context)
                if found is None:
                    with device.unrecorded(api):
                        found = self._load(api, *context)
        return found

    def _load(self, api: Any, context: int, defines: tuple[str, ...]) -> _Loaded:
        if defines not in self._variants:
            from zellige_cuda.compiler import compile_cubin  # code from the cache is loaded without

            self._variants[defines] = compile_cubin(self._source.text, "kernel", self._arch, (*self._flags, *defines))[0]
        module = device.loaded_code(api, self._variants[defines])
        handles = []
        for function in self._functions:
            handle = device.call(api.cuModuleGetFunction(module, function["name"].encode()))
            if function["shared"] > 48 * 1024:
                attribute = api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                device.call(api.cuFuncSetAttribute(handle, attribute, function["shared"]))
            handles.append(int(handle))
        records = self._memory_of_reports(api) if self._records else None
        index = int(device.call(api.cuCtxGetDevice()))
        self._loaded[context, defines] = found = _Loaded(handles, index, records)
        if not defines:
            is_shared = int(device.shared_context(index)) == context
            self._entries.append(LoadedCode(context=context, device=index, is_shared=is_shared, handles=tuple(handles)))
        return found

    def _memory_of_reports(self, api: Any) -> Records:
        from zellige_cuda.records import Records

        return Records(api, self.sites)

    @property
    def sites(self) -> list[Site]:
        """The places that assert or print."""
        from zellige_cuda.records import Site  # few kernels report

        told, spans = self._places_told
        return [Site.of(site, spans) for site in told]

    # ---- launches by core's machine code ----

    def native_launch(self) -> NativeLaunch | None:
        """How core launches it; None for a kernel that asserts or prints, which is waited for."""
        if self._records:
            return None
        alignments = list(self._alignments)
        for index in self._maps.tensors():
            alignments[index] = max(alignments[index], ADDRESS_ALIGNMENT)
        steps = tuple(
            NativeStep(
                grid=_three(launch.grid), threads=(function["threads"], 1, 1), shared_bytes=function["shared"],
                parameters=tuple(("made" if kind == "map" else kind, place) for kind, place in function["params"]),
            )
            for launch, function in zip(self._kernel.launches, self._functions)
        )  # fmt: skip
        return NativeLaunch(
            functions=device.functions(), device_type=device.DLPACK_TYPE, steps=steps, alignments=tuple(alignments),
            most_blocks=device.MOST_BLOCKS, apart=self._apart(), made=self._maps.native(),
        )  # fmt: skip

    def _apart(self) -> tuple[tuple[int, int], ...]:
        """Pairs of tensors that the code takes for different arrays: those that it writes and all others."""
        others = range(len(self._tensors))
        return tuple((w, i) for w in self._written for i in others if i != w and (i < w or i not in self._written))

    def loaded_code(self) -> Sequence[LoadedCode]:
        """Where it is loaded by now."""
        return self._entries

    def refuse(self, status: int) -> NoReturn:
        """Raise E642 with the driver's words."""
        device.refused(status)

    # ---- launches ----

    def launch(self, pointers: Sequence[int], scalars: Sequence[int | float], sizes: Sequence[int]) -> None:
        """Put every launch into the caller's stream, in order."""
        values = dict(zip(self._sizes, sizes))
        values.update({v: int(x) for v, x in zip(self._scalars, scalars) if not v.dtype.is_float})
        if self._otherwise and self._maps.are_unfit(pointers):
            self._ordinary().launch(pointers, scalars, sizes)
            return
        defines = self._defines(tuple(pointers))
        api = device.required()
        with device.entered(api, pointers):
            self._launch(api, pointers, scalars, sizes, values, defines)

    def _launch(
        self, api: Any, pointers: Sequence[int], scalars: Sequence[int | float], sizes: Sequence[int], values: dict[Any, int],
        defines: tuple[str, ...],
    ) -> None:  # fmt: skip
        loaded = self._code(api, defines)
        words = [*pointers, *(_bits(x, v.dtype) for x, v in zip(scalars, self._scalars)), *sizes]
        block = (ctypes.c_uint64 * (len(words) + 1))(*(int(w) & (1 << 64) - 1 for w in words), 0)
        if loaded.records is not None:
            block[len(words)] = loaded.records.address
        base = ctypes.addressof(block)
        stream = device.current_stream(loaded.device)
        if loaded.records is not None and device.is_recorded(api, stream):
            reason = "it asserts or prints, so each launch waits for the end of the kernel"
            raise catalogue.E643.error(kernel=self._kernel.name, reason=reason)
        boxes = self._maps.addresses(pointers, values) if self._maps else []
        grids = [fixed if fixed is not None else _grid(launch.grid, values) for fixed, launch in zip(self._grids, self._kernel.launches)]
        for number, function in enumerate(self._functions):
            given = [*(base + p for p in self._places[number]), *(boxes[index] for index in self._boxed[number])]
            given += [base + 8 * len(words)] if function["records"] else []
            self._start(loaded, number, grids[number], (ctypes.c_void_p * len(given))(*given), stream)
        if loaded.records is not None:
            loaded.records.report(stream)

    def launch_among(
        self, pointers: Sequence[int], scalars: Sequence[int | float], sizes: Sequence[int], streams: Sequence[int]
    ) -> None:
        """The same, ordered with other streams by events."""
        api = device.required()
        with device.entered(api, pointers):
            own = device.current_stream(int(device.call(api.cuCtxGetDevice())))
            others = [stream for stream in streams if not device.is_same_stream(stream, own)]
            for other in others:
                device.follow(api, own, other)
            self.launch(pointers, scalars, sizes)
            for other in others:
                device.follow(api, other, own)

    def launch_packed(self, words: bytes) -> None:
        """The same with the arguments of :mod:`zellige.plugin.contract`: they are handed to the driver where they lie."""
        if not self._is_plain:
            values = self._packed.unpack_from(words)
            tensors, scalars = len(self._alignments), len(self._scalars)
            self.launch(values[:tensors], values[tensors : tensors + scalars], values[tensors + scalars :])
            return
        values = self._packed.unpack_from(words)
        pointers = values[: len(self._alignments)]
        if self._otherwise and self._maps.are_unfit(pointers):
            self._ordinary().launch_packed(words)
            return
        defines = self._defines(pointers)
        boxes = self._maps.addresses(pointers, dict(zip(self._names, values[len(pointers) :]))) if self._maps else []
        base = int.from_bytes(words[self._address : self._address + 8], "little") - self._address - 16
        api = device.required()
        with device.entered(api, pointers):
            loaded = self._code(api, defines)
            stream = device.current_stream(loaded.device)
            for number, places in enumerate(self._places):
                grid = self._grids[number]
                assert grid is not None
                given = [*(base + p for p in places), *(boxes[index] for index in self._boxed[number])]
                self._start(loaded, number, grid, (ctypes.c_void_p * len(given))(*given), stream)

    def _ordinary(self) -> CudaKernel:
        """The kernel of the program without copies of boxes, compiled when it is first needed."""
        with self._lock:
            if self._without_boxes is None:
                from zellige_cuda.compiler import compile_cubin

                flags = (*self._flags, f"-D{WITHOUT_BOXES}")
                cubin, log = compile_cubin(self._source.text, "kernel", self._arch, flags)
                source = replace(self._source, facts=json.dumps({**json.loads(self._otherwise), "flags": flags}))
                self._without_boxes = CudaKernel(MachineCode(data=cubin, format="cubin", log=log), self._kernel, source)
            return self._without_boxes

    def _start(self, loaded: _Loaded, number: int, grid: tuple[int, int, int], arguments: Any, stream: int) -> None:
        if min(grid) <= 0:
            return
        function = self._functions[number]
        status = device.launcher()(loaded.handles[number], *grid, function["threads"], 1, 1, function["shared"], stream, arguments, None)
        if status:
            device.refused(status)

    def _defines(self, pointers: tuple[int, ...]) -> tuple[str, ...]:
        """What must be defined for tensors that lie so; arrays that overlap in another way than wholly are taken for distinct."""
        found: tuple[str, ...] = ()
        if any(pointer % alignment for pointer, alignment in zip(pointers, self._alignments)):
            from zellige.simt.arguments import require

            for pointer, alignment, tensor in zip(pointers, self._needed, self._tensors):
                require(tensor.name, str(tensor.dtype), alignment, pointer, tensor.dtype.bytes)
            found = (ELEMENTWISE,)
        if len(set(pointers)) < len(pointers):
            if any(pointers[i] and pointers.count(pointers[i]) > 1 for i in self._written):
                found = (*found, TENSORS_MEET)
        return found

    # ---- looking at it ----

    @property
    def log(self) -> str:
        """What the compiler said."""
        return self._binary.log

    @property
    def functions(self) -> list[dict[str, Any]]:
        """Of each launch ``name``, ``threads`` and ``shared`` bytes."""
        return self._functions

    @property
    def arch(self) -> str:
        """The architecture that the code is for, in the compiler's word."""
        return self._arch

    def source(self) -> str:
        """CUDA C++."""
        return self._source.text

    def assembly(self) -> str:
        """SASS, by nvdisasm."""
        from zellige_cuda.disassembly import disassembled

        return disassembled(self._binary.data)


def _bits(value: int | float, dtype: DType) -> int:
    """The bits of a scalar argument, as its parameter holds them."""
    if not dtype.is_float:
        return int(value)
    from zellige.simt.arguments import bits_of

    return bits_of(float(value), dtype)


def _constant_grid(grid: Sequence[Any]) -> tuple[int, int, int] | None:
    """The grid where its extents are known now."""
    try:
        return _grid(grid, {})
    except (KeyError, ValueError):
        return None


def _grid(grid: Sequence[Any], values: dict[Any, int]) -> tuple[int, int, int]:
    first, second, third = (evaluate_size(e, values) for e in _three(grid))
    return first, second, third


def _three(grid: Sequence[Expr]) -> tuple[Expr, Expr, Expr]:
    """The extents of a grid as three: those from the third on in one, 1 where there are fewer."""
    extents = [*grid, *[const(1)] * (3 - len(grid))]
    third = extents[2]
    for extent in extents[3:]:
        third = Binary(op="mul", left=third, right=extent)
    return extents[0], extents[1], third


class CudaRuntime:
    """Loads cubins."""

    def load(self, binary: MachineCode, kernel: Kernel, source: Emitted) -> CudaKernel:
        return CudaKernel(binary, kernel, source)
