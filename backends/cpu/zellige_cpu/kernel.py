"""A compiled kernel: packs arguments, shares the grid out among threads, reports what the code noted.

In: a :class:`zellige_cpu.program.Program` and its loaded functions. Out: an object of the contract's CompiledKernel.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from zellige.diagnostics import InternalError, ZelligeError
from zellige.ir.sizes import size_vars
from zellige.ir.stmt import Kernel, ScalarParam
from zellige.plugin.contract import Binary, Bounds, Emitted
from zellige_cpu.host import Host, running_host
from zellige_cpu.linker import load
from zellige_cpu.memory import run_alone
from zellige_cpu.program import INTERRUPTED, STATUS_WORDS, LaunchProgram, Program, Site, argument_slots, program_of

if TYPE_CHECKING:
    from zellige_cpu.records import Printer

_RUN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * 4, ctypes.c_int64)
_COUNT = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)


class CpuKernel:
    """A kernel's machine code in this process; ``code`` are the objects of the program (:func:`packed_code`), made here unless given."""

    bounds: Final = Bounds()

    def __init__(self, kernel: Kernel, program: Program, host: Host, code: bytes | None = None) -> None:
        self._program = program
        self._host = host
        own, shared = code_parts(packed_code(program, host) if code is None else code)
        self._library = load(own, program.exported, host, program.symbols)
        self._shared = shared
        self._runner: Callable[..., None] | None = None
        addresses = self._library.addresses
        self._launches = [(launch, _RUN(addresses[launch.function]), _COUNT(addresses[launch.cells])) for launch in program.launches]
        self._scalars = [param.var.dtype for param in kernel.params if isinstance(param, ScalarParam)]
        self._slots = argument_slots(kernel)
        self._sizes = len(size_vars(kernel))
        self._prints = any(launch.prints for launch in program.launches)
        self._status = 8 * (self._slots + 2)
        kinds = "".join("d" if dtype.is_float else "q" for dtype in self._scalars)
        self._packed = f"<{self._slots - len(kinds) - self._sizes}Q{kinds}{self._sizes}q"

    def _on_threads(self) -> Callable[..., None]:
        """What shares a grid out among threads."""
        found = self._runner
        if found is None:
            from zellige_cpu.pool import offer, run_grid

            if self._shared:
                offer(self._shared)
            found = self._runner = run_grid
        return found

    def launch(self, pointers: Sequence[int], scalars: Sequence[int | float], sizes: Sequence[int]) -> None:
        """Run every launch in order and wait; see :class:`zellige.plugin.contract.CompiledKernel`."""
        slots = (ctypes.c_uint64 * (self._slots + 2))()
        place = 0
        for pointer in pointers:
            slots[place] = pointer
            place += 1
        for value, dtype in zip(scalars, self._scalars):
            slots[place] = _float_bits(float(value)) if dtype.is_float else int(value) & 0xFFFF_FFFF_FFFF_FFFF
            place += 1
        for size in sizes:
            slots[place] = size & 0xFFFF_FFFF_FFFF_FFFF
            place += 1
        status = (ctypes.c_int64 * (1 + STATUS_WORDS))()
        slots[self._slots] = ctypes.addressof(status)
        args = ctypes.addressof(slots)
        for launch, run, count in self._launches:
            cells = count(args)
            if cells > 0:
                self._run(launch, run, args, slots, status, cells)

    def _run(
        self,
        launch: LaunchProgram,
        run: Any,
        args: int,
        slots: ctypes.Array[ctypes.c_uint64],
        status: ctypes.Array[ctypes.c_int64],
        cells: int,
    ) -> None:
        if not launch.prints and cells == 1:
            run_alone(run, args, 1, launch.memory)
        elif not launch.prints:
            self._on_threads()(run, args, 8 * self._slots, cells, self._host, launch.memory, launch.is_apart)
        else:  # in the order of the program, so by this thread
            printer = _printer(launch.sites, status)
            slots[self._slots + 1] = printer.address
            run_alone(run, args, cells, launch.memory)
            printer.raise_error()
        if status[0]:
            raise_failure(launch, list(status))

    def launch_packed(self, words: bytes) -> None:
        """Run every launch in order and wait; see :mod:`zellige.plugin.contract`. Behind the arguments lie, as the code expects them, the
        address of the status words and the function that prints (none).
        """
        if self._prints:
            packed = struct.unpack_from(self._packed, words)
            pointers, scalars = self._slots - len(self._scalars) - self._sizes, len(self._scalars)
            self.launch(packed[:pointers], packed[pointers : pointers + scalars], packed[pointers + scalars :])
            return
        for launch, run, count in self._launches:
            cells = count(words)
            if cells == 1:
                run_alone(run, words, 1, launch.memory)
            elif cells > 1:
                self._on_threads()(run, words, 8 * self._slots, cells, self._host, launch.memory, launch.is_apart)
            if words[self._status] or words[self._status + 1]:
                raise_failure(launch, struct.unpack_from(f"<{1 + STATUS_WORDS}q", words, self._status))

    def source(self) -> str:
        """The LLVM IR."""
        return self._program.text

    def assembly(self) -> str:
        """The host's assembly."""
        from zellige_cpu.jit import assembly  # a kernel found in the cache is not compiled

        return assembly(self._program.text, self._host)


_LENGTH_BYTES: Final = 8


def packed_code(program: Program, host: Host) -> bytes:
    """The machine code of a program and, where its grids may be shared out, of the pool: that is compiled once a process and kept with
    each kernel, so that a kernel found in the cache compiles nothing."""
    from zellige_cpu.jit import compile_object

    own = compile_object(program.text, host)
    pool = b""
    if not all(launch.prints or launch.is_single for launch in program.launches):
        from zellige_cpu.pool import is_supported, machine_code

        pool = machine_code(host) if is_supported(host) else b""
    return b"".join((len(own).to_bytes(_LENGTH_BYTES, "little"), own, pool))


def code_parts(code: bytes) -> tuple[bytes, bytes]:
    """The object of the program and that of the pool, empty where there is none."""
    end = _LENGTH_BYTES + int.from_bytes(code[:_LENGTH_BYTES], "little")
    if end > len(code):
        raise InternalError("the machine code is cut short")
    return code[_LENGTH_BYTES:end], code[end:]


class CpuRuntime:
    """Links machine code into this process."""

    def load(self, binary: Binary, kernel: Kernel, source: Emitted) -> CpuKernel:
        return CpuKernel(kernel, program_of(source), running_host(), binary.data)


def _printer(sites: tuple[Site, ...], status: ctypes.Array[ctypes.c_int64]) -> Printer:
    from zellige_cpu.records import Printer  # few kernels print

    return Printer(sites, status)


def raise_failure(launch: LaunchProgram, status: Sequence[int]) -> NoReturn:
    """Raise what stopped the launch: the error of the first place that did, or the exception of a signal's handler."""
    if status[0] == INTERRUPTED:
        held = ctypes.cast(status[1], ctypes.py_object)
        exception: BaseException = held.value
        ctypes.pythonapi.Py_DecRef(held)
        raise exception
    raise _failure(launch.sites[status[0] - 1], list(status[1:]))


def _failure(site: Site, values: list[int]) -> ZelligeError:
    from zellige.runtime.failures import differing_regions, failed_assertion, too_far  # not on a warm start

    if site.kind == "extents":
        return differing_regions(site.span, values[: site.rank], values[site.rank : site.rank + site.width])
    if site.kind == "reach":
        return too_far(site.span, site.message, values[0], str(site.dtype))
    return failed_assertion(site.span, site.message)


def _float_bits(value: float) -> int:
    return int.from_bytes(ctypes.c_double(value), "little")
