"""What a launch must know beside the code, written down when the code is made.

In: a thread-level module and the kernel it is from. Out: text, which :class:`zellige_cuda.device.CudaKernel` reads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from zellige.diagnostics import InternalError
from zellige.ir.expr import Buffer, constant_value
from zellige.ir.sizes import size_vars
from zellige.ir.stmt import Kernel, ScalarParam, TensorParam
from zellige.plugin.contract import Emitted
from zellige.simt.alignment import preferred, required
from zellige.simt.ir import BoxMap, Function, Module, Pointer, TensorBox
from zellige.simt.residence import indexed_by_numbers
from zellige_cuda.records import Site, uses_records
from zellige_cuda.variants import WITHOUT_BOXES


def facts_of_box(box: TensorBox, tensors: Sequence[Buffer]) -> dict[str, Any]:
    """A box as facts: which tensor argument, its extents, how it is swizzled."""
    return {"tensor": tensors.index(box.tensor), "box": list(box.box), "swizzle": box.swizzle_bytes}


def functions_of(emitted: Emitted) -> list[dict[str, Any]]:
    """What :func:`facts_of` put down of each launch."""
    found: list[dict[str, Any]] = json.loads(emitted.facts)["functions"]
    return found


def either(text: str, ordinary: str) -> str:
    """The text of a program with copies of boxes and of one without, for the compiler to choose from."""
    return f"#ifndef {WITHOUT_BOXES}\n{text}\n#else\n{ordinary}\n#endif\n"


def facts_of(module: Module, kernel: Kernel, sites: Sequence[Site], arch: str, flags: Sequence[str] = (), otherwise: str = "") -> str:
    """What a launch must know beside the code: names, lanes, shared memory, which argument each parameter is, how wide the widest access
    to each tensor is (and the widest that cannot be made in parts), which tensors are written, what the places that report say, the
    compiler's ``flags``, and ``otherwise`` the same of the program without copies of boxes (empty: there is none)."""
    tensors = [p.buffer for p in kernel.params if isinstance(p, TensorParam)]
    scalars = [p.var for p in kernel.params if isinstance(p, ScalarParam)]
    sizes = list(size_vars(kernel))

    maps: list[dict[str, Any]] = []

    def place(param: Any) -> list[Any]:
        if isinstance(param, BoxMap):
            maps.append(facts_of_box(param.box, tensors))
            return ["map", len(maps) - 1]
        if isinstance(param, Pointer):
            return ["tensor", tensors.index(param.tensor)]
        if param.var in scalars:
            return ["scalar", scalars.index(param.var)]
        return ["size", sizes.index(param.var)]

    alignments, needed = [1] * len(tensors), [1] * len(tensors)
    written: set[int] = set()
    functions = []
    for f in module.functions:
        for widths, found in ((alignments, preferred(f)), (needed, required(f))):
            for tensor, bytes_of in found.items():
                index = tensors.index(tensor)
                widths[index] = max(widths[index], bytes_of)
        written.update(tensors.index(p.tensor) for p in f.params if isinstance(p, Pointer) and p.is_written)
        params = [place(p) for p in f.params]
        functions.append(
            {
                "name": f.name, "threads": f.threads, "shared": f.shared_bytes, "params": params, "records": uses_records(f),
                "workers": f.workers, "arrays": _arrays(f),
            }
        )  # fmt: skip
    places = [[*site.facts(), number] for number, site in enumerate(sites)]
    return json.dumps(
        {
            "functions": functions, "alignments": alignments, "needed": needed, "written": sorted(written), "sites": places, "arch": arch,
            "flags": list(flags), "maps": maps, "otherwise": otherwise,
        }
    )  # fmt: skip


def _arrays(function: Function) -> list[list[Any]]:
    """The tiles of a lane that are in registers only where the compiler writes out the loops around them: name and bytes a lane."""
    found = indexed_by_numbers(function.body, at_run_time=False)
    memories = [(tile.buffer.name, tile.home.memory.root) for tile in function.tiles]
    return [[name, _size_of(memory)] for name, memory in memories if memory in found]


def _size_of(memory: Buffer) -> int:
    """Bytes a lane of registers; how many there are is a number when they are declared."""
    count = constant_value(memory.shape[0])
    if not isinstance(count, int) or count < 1:
        raise InternalError(f"{memory.name} has {memory.shape[0]} registers, which is no count")
    return count * max(1, memory.dtype.bytes)
