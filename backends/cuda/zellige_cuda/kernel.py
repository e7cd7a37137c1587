"""A compiled kernel on a device: loads the cubin, computes the grids, launches on the caller's stream.

In: a binary with its facts and the kernel. Out: an object of the contract's CompiledKernel. A launch returns when it is in the stream.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import json
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zellige.diagnostics import catalogue
from zellige.ir.expr import Buffer
from zellige.ir.sizes import evaluate_size, size_vars
from zellige.ir.stmt import Kernel, ScalarParam, TensorParam
from zellige.plugin.contract import Binary, Emitted
from zellige.simt.alignment import require, required
from zellige.simt.ir import Module, Pointer
from zellige_cuda import device

_C = {"int8": ctypes.c_int8, "int16": ctypes.c_int16, "int32": ctypes.c_int32, "int64": ctypes.c_int64, "uint8": ctypes.c_uint8,
      "uint16": ctypes.c_uint16, "uint32": ctypes.c_uint32, "uint64": ctypes.c_uint64, "float32": ctypes.c_float,
      "float64": ctypes.c_double, "bool": ctypes.c_bool, "tfloat32": ctypes.c_float}  # fmt: skip

MAXIMUM_GRID = (2**31 - 1, 65535, 65535)


def facts_of(module: Module, kernel: Kernel) -> str:
    """What a launch must know beside the code: names, lanes, shared memory, and which argument each parameter is."""
    tensors = [p.buffer for p in kernel.params if isinstance(p, TensorParam)]
    scalars = [p.var for p in kernel.params if isinstance(p, ScalarParam)]
    sizes = list(size_vars(kernel))

    def place(param: Any, alignments: dict[Buffer, int]) -> list[Any]:
        if isinstance(param, Pointer):
            return ["tensor", tensors.index(param.tensor), alignments[param.tensor]]
        if param.var in scalars:
            return ["scalar", scalars.index(param.var), 0]
        return ["size", sizes.index(param.var), 0]

    functions = [
        {"name": f.name, "threads": f.threads, "shared": f.shared_bytes, "params": [place(p, aligned) for p in f.params]}
        for f in module.functions
        for aligned in (required(f),)
    ]
    return json.dumps(functions)


def functions_of(emitted: Emitted) -> list[dict[str, Any]]:
    """What :func:`facts_of` put down of each launch."""
    found: list[dict[str, Any]] = json.loads(emitted.facts)
    return found


class CudaKernel:
    """Code that is loaded into the current context at the first launch there; before that it can be looked at without a device."""

    def __init__(self, binary: Binary, kernel: Kernel, source: Emitted) -> None:
        self._kernel = kernel
        self._text = source.text
        self._binary = binary
        self._functions = functions_of(source)
        self._sizes = list(size_vars(kernel))
        self._tensors = [p.buffer for p in kernel.params if isinstance(p, TensorParam)]
        self._scalars = [p.var for p in kernel.params if isinstance(p, ScalarParam)]
        self._loaded: dict[int, tuple[list[Any], int]] = {}

    def _handles(self, api: Any) -> tuple[list[Any], int]:
        """The functions in the current context, and the number of its device."""
        context = int(device.call(api.cuCtxGetCurrent()))
        found = self._loaded.get(context)
        if found is None:
            module = device.call(api.cuModuleLoadData(self._binary.data))
            handles = []
            for function in self._functions:
                handle = device.call(api.cuModuleGetFunction(module, function["name"].encode()))
                if function["shared"] > 48 * 1024:
                    attribute = api.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                    device.call(api.cuFuncSetAttribute(handle, attribute, function["shared"]))
                handles.append(handle)
            found = self._loaded[context] = handles, int(device.call(api.cuCtxGetDevice()))
        return found

    def launch(self, pointers: Sequence[int], scalars: Sequence[int | float], sizes: Sequence[int]) -> None:
        """Put every launch into the caller's stream, in order."""
        values = dict(zip(self._sizes, sizes))
        values.update({v: int(x) for v, x in zip(self._scalars, scalars) if not v.dtype.is_float})
        api = device.ready()
        handles, index = self._handles(api)
        stream = device.current_stream(index)
        for handle, function, launch in zip(handles, self._functions, self._kernel.launches):
            grid = [evaluate_size(e, values) for e in launch.grid]
            grid = grid if len(grid) <= 3 else [*grid[:2], _product(grid[2:])]
            grid += [1] * (3 - len(grid))
            if min(grid) <= 0:
                continue
            if any(g > m for g, m in zip(grid, MAXIMUM_GRID)):
                raise catalogue.E642.error(what=f"a grid of {' x '.join(map(str, grid))} blocks, more than the device takes")
            held, types = self._arguments(function["params"], pointers, scalars, sizes)
            device.call(
                api.cuLaunchKernel(handle, *grid, function["threads"], 1, 1, function["shared"], stream, (tuple(held), tuple(types)), 0)
            )

    def _arguments(self, places: list[list[Any]], pointers: Sequence[int], scalars: Sequence[int | float], sizes: Sequence[int]) -> Any:
        held: list[Any] = []
        types: list[Any] = []
        for kind, index, alignment in places:
            if kind == "tensor":
                tensor = self._tensors[index]
                require(tensor.name, str(tensor.dtype), alignment, pointers[index], tensor.dtype.bytes)
                held.append(pointers[index])
                types.append(ctypes.c_void_p)
                continue
            var = self._scalars[index] if kind == "scalar" else self._sizes[index]
            value = scalars[index] if kind == "scalar" else sizes[index]
            if var.dtype.name not in _C:
                raise catalogue.E410.error(None, target="cuda", operation=f"a scalar argument of {var.dtype}")
            held.append(value)
            types.append(_C[var.dtype.name])
        return held, types

    def source(self) -> str:
        """CUDA C++."""
        return self._text

    def assembly(self) -> str:
        """SASS, by nvdisasm."""
        return disassembled(self._binary.data)


def disassembled(cubin: bytes) -> str:
    """The machine code of a cubin as text. Raises E501 where nvdisasm is not installed."""
    tool = _tool("nvdisasm")
    if tool is None:
        raise catalogue.E501.error(tool="nvdisasm", reason="it is not installed; nvidia-cuda-nvdisasm has it")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([tool, "-c", file.name], capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise catalogue.E502.error(tool="nvdisasm", log=done.stderr.strip())
    return done.stdout


def _tool(name: str) -> str | None:
    try:
        files = importlib.metadata.files(f"nvidia-cuda-{name}") or ()
    except importlib.metadata.PackageNotFoundError:
        files = ()
    for file in files:
        if file.name == name:
            return str(Path(str(file.locate())))
    return shutil.which(name)


def _product(values: Sequence[int]) -> int:
    total = 1
    for value in values:
        total *= value
    return total


class CudaRuntime:
    """Loads cubins."""

    def load(self, binary: Binary, kernel: Kernel, source: Emitted) -> CudaKernel:
        return CudaKernel(binary, kernel, source)
