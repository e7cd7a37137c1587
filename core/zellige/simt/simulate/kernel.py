"""The simulator as a runtime: any backend of the family gets it by handing over how it lowers.

In: a lowered kernel and the text that was printed from it. Out: an object of the contract's CompiledKernel that runs in this process on
memory of the host. A backend that meets :attr:`zellige.target.Target.is_simulated` answers ``emit`` with a :class:`SimulatedProgram`,
``compile`` with :func:`simulated_binary` and ``runtime`` with a :class:`SimulatedRuntime`. Such kernels are not kept on disk.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from zellige.diagnostics import InternalError, catalogue
from zellige.interp.memory import memory_at
from zellige.ir.expr import Buffer
from zellige.ir.sizes import evaluate_size, size_vars
from zellige.ir.stmt import Kernel, ScalarParam, TensorParam
from zellige.plugin.contract import Binary, Emitted
from zellige.records import dataclass
from zellige.simt.alignment import preferred, required
from zellige.simt.arguments import require
from zellige.simt.homes import TENSOR_ALIGNMENT
from zellige.simt.ir import Module, Pointer
from zellige.simt.simulate.run import simulate

FORMAT: Final = "thread-level program"

NO_COMPILER: Final = "its backend has no compiler, programs are simulated: get_kernel_source() gives the text"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedProgram(Emitted):
    """A printed program together with the program itself."""

    module: Module
    kernel: Kernel


def simulated(emitted: Emitted, module: Module, kernel: Kernel) -> SimulatedProgram:
    """What ``emit`` answers for a simulated target; ``kernel`` is the planned one, whose parameters ``module`` names."""
    return SimulatedProgram(
        text=emitted.text, format=emitted.format, facts=emitted.facts, spans=emitted.spans, module=module, kernel=kernel
    )


def simulated_binary(emitted: Emitted) -> Binary:
    """What stands for machine code: nothing."""
    return Binary(data=b"", format=FORMAT)


class SimulatedKernel:
    """A kernel whose thread-level program, ``module``, runs here."""

    def __init__(self, program: SimulatedProgram) -> None:
        self.module = program.module
        self._kernel = program.kernel
        self._text = program.text
        self._sizes = size_vars(program.kernel)

    def launch(self, pointers: Sequence[int], scalars: Sequence[int | float], sizes: Sequence[int]) -> None:
        """Run the program on the memory at ``pointers``. Raises what :func:`zellige.simt.simulate.run.simulate` raises."""
        given = dict(zip((p.var for p in self._kernel.params if isinstance(p, ScalarParam)), scalars))
        given.update(zip(self._sizes, sizes))
        numbers = {v: int(x) for v, x in given.items() if not v.dtype.is_float}
        tensors = [p.buffer for p in self._kernel.params if isinstance(p, TensorParam)]
        addresses = dict(zip(tensors, pointers))
        memories: dict[Buffer, Any] = {}
        widths: dict[Buffer, int] = {}
        for function in self.module.functions:
            alignments = required(function)
            for param in function.params:
                if isinstance(param, Pointer):
                    address, tensor = addresses[param.tensor], param.tensor
                    require(tensor.name, str(tensor.dtype), alignments[tensor], address, tensor.dtype.bytes)
                    elements = max(0, evaluate_size(param.buffer.shape[0], numbers)) if address else 0
                    cells = memory_at(address, elements * param.buffer.dtype.bytes).cells
                    memories[tensor] = max(cells, memories.get(tensor, cells), key=len)
            widths = _wider(widths, preferred(function))
        moved = _moved(memories, addresses, widths)
        simulate(self.module, memories, given)
        for cells, copy in moved.values():
            cells[:] = copy

    def source(self) -> str:
        """The program as the backend prints it."""
        return self._text

    def assembly(self) -> str:
        """Refused: there is no machine code. Where the target's flag asked for the simulator, that is said before."""
        raise catalogue.E440.error(self._kernel.span, target="of this kernel", what="machine code", known=NO_COMPILER)


def _wider(left: dict[Buffer, int], right: dict[Buffer, int]) -> dict[Buffer, int]:
    return left | {tensor: max(width, left.get(tensor, 1)) for tensor, width in right.items()}


def _moved(memories: dict[Buffer, Any], addresses: dict[Buffer, int], widths: dict[Buffer, int]) -> dict[int, tuple[Any, Any]]:
    """Puts aligned copies of the tensors that a function of the program reaches more widely than they are aligned into ``memories``, one
    for all tensors at an address and for all functions; returns what to copy back by address."""
    moved: dict[int, tuple[Any, Any]] = {}
    odd = {addresses[tensor] for tensor in memories if addresses[tensor] % widths[tensor]}
    for address in odd:
        cells = max((memories[tensor] for tensor in memories if addresses[tensor] == address), key=len)
        moved[address] = cells, _aligned(cells)
    memories.update((tensor, moved[addresses[tensor]][1][: len(memories[tensor])]) for tensor in memories if addresses[tensor] in odd)
    return moved


def _aligned(cells: Any) -> Any:
    """A copy that begins at a multiple of every access: what a machine does in parts is done to it at once."""
    room = np.empty(len(cells) + TENSOR_ALIGNMENT, np.uint8)
    start = -room.ctypes.data % TENSOR_ALIGNMENT
    room[start : start + len(cells)] = cells
    return room[start : start + len(cells)]


class SimulatedRuntime:
    """Loads kernels into the simulator."""

    def load(self, binary: Binary, kernel: Kernel, source: Emitted) -> SimulatedKernel:
        """Ready to run; ``binary`` is empty."""
        if not isinstance(source, SimulatedProgram):
            raise InternalError("a program for the simulator came without its thread-level form")
        return SimulatedKernel(source)
