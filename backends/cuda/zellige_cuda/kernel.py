"""A compiled kernel on a device: loads the cubin, computes the grids, launches on the caller's stream.

In: a binary with its facts and the kernel. Out: an object of the contract's CompiledKernel. A launch returns when it is in the stream; that
of a kernel which asserts or prints returns when it is done, so that the error is the caller's and the lines are in order.
"""

from __future__ import annotations

import ctypes
import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

from zellige.diagnostics import catalogue
from zellige.dtypes import DType
from zellige.ir.expr import Binary, Expr, const
from zellige.ir.sizes import evaluate_size, launched_blocks, size_vars
from zellige.ir.stmt import Kernel, ScalarParam, TensorParam
from zellige.plugin.contract import Binary as MachineCode, Emitted, LoadedCode
from zellige_cuda import device

if TYPE_CHECKING:
    from zellige.plugin.contract import NativeLaunch
    from zellige_cuda.native import PackedLaunch
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
        self.maps = device.Maps(facts["maps"], self.tensors)
        self._facts = facts
        self._binary = binary
        self._source = source
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

            self._variants[defines] = compile_cubin(self._source.text, "kernel", self.arch, (*self._facts["flags"], *defines))[0]
        module = device.loaded_code(api, self._variants[defines])
        handles = []
        for function in self.functions:
            handle = device.call(api.cuModuleGetFunction(module, function["name"].encode()))
            if function["shared"] > 48 * 1024:
                attribute = api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                device.call(api.cuFuncSetAttribute(handle, attribute, function["shared"]))
            handles.append(int(handle))
        records = self._memory_of_reports(api) if self.reports else None
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

        return [Site.of(site, self._source.spans) for site in self._facts["sites"]]

    # ---- launches by core's machine code ----

    def native_launch(self) -> NativeLaunch | None:
        """How core launches it; None for a kernel that asserts or prints, which is waited for."""
        from zellige_cuda.native import native_launch  # a kernel that is called once does without

        return None if self.reports else native_launch(self)

    def loaded_code(self) -> Sequence[LoadedCode]:
        """Where it is loaded by now."""
        return self._entries

    def refuse(self, status: int) -> NoReturn:
        """Raise E642 with the driver's words."""
        device.refused(status)

    # ---- launches ----

    def launch(self, pointers: Sequence[int], scalars: Sequence[int | float], sizes: Sequence[int]) -> None:
        """Put every launch into the caller's stream, in order."""
        values = dict(zip(self.sizes, sizes))
        values.update({v: int(x) for v, x in zip(self.scalars, scalars) if not v.dtype.is_float})
        ordinary = self.ordinary(pointers)
        if ordinary is not None:
            ordinary.launch(pointers, scalars, sizes)
            return
        defines = self.defines(tuple(pointers))
        api = device.required()
        with device.entered(api, pointers):
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
        stream = device.current_stream(loaded.device)
        if loaded.records is not None and _is_recorded(api, stream):
            reason = "it asserts or prints, so each launch waits for the end of the kernel"
            raise catalogue.E643.error(kernel=self.kernel.name, reason=reason)
        boxes = self.maps.addresses(pointers, values) if self.maps else []
        grids = [fixed if fixed is not None else _grid(grid, values) for fixed, grid in zip(self._grids, self.grids)]
        for number, function in enumerate(self.functions):
            given = [*(base + p for p in self.places[number]), *(boxes[index] for index in self.boxed[number])]
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

    def ordinary(self, pointers: Sequence[int]) -> CudaKernel | None:
        """The kernel of the program without copies of boxes, where there is one and the tensors at ``pointers`` do not suit boxes; compiled
        when it is first needed."""
        otherwise: str = self._facts["otherwise"]
        if not otherwise or not self.maps.are_unfit(pointers):
            return None
        with self._lock:
            if self._without_boxes is None:
                from zellige_cuda.compiler import compile_cubin

                flags = (*self._facts["flags"], f"-D{WITHOUT_BOXES}")
                cubin, log = compile_cubin(self._source.text, "kernel", self.arch, flags)
                source = replace(self._source, facts=json.dumps({**json.loads(otherwise), "flags": flags}))
                self._without_boxes = CudaKernel(MachineCode(data=cubin, format="cubin", log=log), self.kernel, source)
            return self._without_boxes

    def start(self, loaded: _Loaded, number: int, grid: tuple[int, int, int], arguments: Any, stream: int) -> None:
        """Put a launch into a stream; ``arguments`` is an array of the addresses of its parameters."""
        if min(grid) <= 0:
            return
        function = self.functions[number]
        status = device.launcher()(loaded.handles[number], *grid, function["threads"], 1, 1, function["shared"], stream, arguments, None)
        if status:
            device.refused(status)

    def defines(self, pointers: tuple[int, ...]) -> tuple[str, ...]:
        """What must be defined for tensors that lie so; arrays that overlap in another way than wholly are taken for distinct."""
        found: tuple[str, ...] = ()
        if any(pointer % alignment for pointer, alignment in zip(pointers, self.alignments)):
            from zellige.simt.arguments import require

            for pointer, alignment, tensor in zip(pointers, self._facts["needed"], self.tensors):
                require(tensor.name, str(tensor.dtype), alignment, pointer, tensor.dtype.bytes)
            found = (ELEMENTWISE,)
        if len(set(pointers)) < len(pointers):
            if any(pointers[i] and pointers.count(pointers[i]) > 1 for i in self.written):
                found = (*found, TENSORS_MEET)
        return found

    # ---- looking at it ----

    @property
    def log(self) -> str:
        """What the compiler said."""
        return self._binary.log

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


def constant_grid(grid: Sequence[Any]) -> tuple[int, int, int] | None:
    """The grid where its extents are known now."""
    try:
        return _grid(grid, {})
    except (KeyError, ValueError):
        return None


def _grid(grid: Sequence[Any], values: dict[Any, int]) -> tuple[int, int, int]:
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
    return int(device.call(api.cuStreamIsCapturing(stream))) != 0


class CudaRuntime:
    """Loads cubins."""

    def load(self, binary: MachineCode, kernel: Kernel, source: Emitted) -> CudaKernel:
        return CudaKernel(binary, kernel, source)
