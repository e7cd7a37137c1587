"""Grid cells shared out among threads.

In: the machine code of a launch and its packed arguments. Out: every cell run once. The calling thread is one of the workers, so a small
grid wakes no other; with one worker nothing of this is loaded.

The threads are pthreads that run machine code alone (:mod:`zellige_cpu.pool_program`) and never take the interpreter's lock. There is
one pool a process. It serves one launch at a time: a launch from another Python thread meanwhile runs on its own thread, since the
cores are at work already. A child made by fork has none of its parent's threads and starts its own. At exit the threads are stopped and
joined, before the code that they sleep in is unloaded. Where the system has no futex, threads of Python's do the same. The code is kept
with that of each kernel, so that a process whose kernels are found in the cache compiles nothing.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import struct
import threading
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from zellige.diagnostics import InternalError
from zellige.options import options
from zellige_cpu.host import Host
from zellige_cpu.linker import Library, load
from zellige_cpu.memory import Blocks, own_blocks, run_alone
from zellige_cpu.program import MemorySizes

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

# Offsets in the control block in bytes: words that different threads write lie on cache lines of their own. The first word
# is the generation.
SLEEPERS: Final = 64
JOB: Final = 128  # what pool_launch copies there, and the address of the arguments
REMAINING: Final = 256
IS_WAITING: Final = 320
QUITS: Final = 384
WORKERS: Final = 392
SPINS: Final = 400
TICKETS: Final = 448
TICKET_BYTES: Final = 64
"""The last is an array: a counter for each stretch of cells."""

JOB_FIELDS: Final = (
    "function", "status", "cells", "chunk", "whole", "part", "span", "stretches", "active", "scratch", "stride", "leaf", "states", "shared",
)  # fmt: skip
"""8-byte words of a job: the launch function, the offset in the arguments of the slot with the address of the status words, the number of
cells, cells of a first ticket, how many of these a stretch has, cells of a later one, cells of a stretch, stretches, workers that take
part, the memory of worker 0, its distance to the next worker's, where the leaf's part begins, the states and the memory that all workers
share."""

FUTEX_CALL: Final = {"x86_64": 202, "aarch64": 98}

_CHUNKS: Final = 16
"""Ranges a worker: enough that no thread waits long for the last one."""

_LAST: Final = 4
"""So many ranges a worker come last, in as many parts each: what the others wait for in the end is one of these parts."""

_SPINS: Final = 20000
"""Pauses before a thread goes to sleep, some tenths of a millisecond. Waking one costs tens of microseconds, more on a virtual machine, and
a program that launches one kernel after the other should pay that once (decision 0010)."""

_JOB: Final = struct.Struct(f"<{len(JOB_FIELDS)}q")
_LAUNCH: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


Places: TypeAlias = "tuple[int, int, int, int]"
"""Addresses of the memory that a launch function takes, in the order of :data:`zellige_cpu.program.MemorySizes`."""


def thread_count(cores: int) -> int:
    """How many threads there are: ``ZELLIGE_NUM_THREADS`` or one a core."""
    return max(1, options().threads or cores)


def chunk_size(cells: int, workers: int) -> int:
    """Cells that a worker takes at a time."""
    return max(1, cells // (workers * _CHUNKS))


def tickets(cells: int, workers: int) -> tuple[int, int, int]:
    """Cells of a first ticket, how many of these there are, and cells of those that follow."""
    chunk = chunk_size(cells, workers)
    return chunk, max(0, cells - _LAST * workers * chunk) // chunk, max(1, chunk // _LAST)


def is_supported(host: Host) -> bool:
    """Whether the pool's code can run there: Linux on a processor whose system call number is known."""
    return "linux" in host.triple and processor(host) in FUTEX_CALL


def processor(host: Host) -> str:
    """The processor's name in the system calls' table and in LLVM's intrinsics."""
    return host.triple.split("-")[0]


# -- threads of machine code -----------------------------------------------------------------------------------------------


class NativePool:
    """Threads that wait for launches: ``threads`` with the caller's, which may be fewer than were ``wanted``. ``run`` serves one caller."""

    def __init__(self, threads: int, host: Host) -> None:
        self.wanted = threads
        self.threads = threads
        self._library = _code(host)
        self._launch = _LAUNCH(self._library.addresses["pool_launch"])
        self._block = ctypes.create_string_buffer(TICKETS + TICKET_BYTES * threads + 64)
        self._control = (ctypes.addressof(self._block) + 63) & ~63
        self._blocks = Blocks()
        self._starts = (ctypes.c_uint64 * (2 * threads))()
        self._handles: list[ctypes.c_ulong] = []
        spins = _SPINS if threads <= host.cores else 0  # with more threads than cores, spinning keeps others from working
        self._write(SPINS, ctypes.c_int64, spins)
        self._start(threads - 1)

    def _write(self, offset: int, kind: Any, value: int) -> None:
        kind.from_address(self._control + offset).value = value

    def _start(self, count: int) -> None:
        create = ctypes.CDLL(None).pthread_create
        for number in range(1, count + 1):
            self._starts[2 * number], self._starts[2 * number + 1] = self._control, number
            handle = ctypes.c_ulong()
            own = ctypes.c_void_p(ctypes.addressof(self._starts) + 16 * number)
            entry = ctypes.c_void_p(self._library.addresses["pool_worker"])
            if create(ctypes.byref(handle), None, entry, own):
                break  # the system gives no more threads: the ones there are do the work
            self._handles.append(handle)
        self.threads = len(self._handles) + 1
        self._write(WORKERS, ctypes.c_int32, len(self._handles))

    def run(self, function: int, args: int | bytes, status: int, cells: int, sizes: MemorySizes, is_apart: bool) -> None:
        """Call the launch function at that address for all of [0, cells); ``status`` is the offset in ``args`` of the slot that holds the
        address of its status words. Workers that are ``is_apart`` begin in stretches of their own."""
        workers = min(self.threads, cells)
        stretches = workers if is_apart else 1
        span = -(-cells // stretches)
        leaf = (sizes[0] + 63) & ~63
        stride = (leaf + sizes[1] + 127) & ~63  # a line between two workers
        base = self._blocks.own.aligned(workers * stride)
        shared = self._blocks.shared_places(sizes)
        each = tickets(span, workers // stretches)
        job = _JOB.pack(function, status, cells, *each, span, stretches, workers, base, stride, leaf, *shared)
        self._launch(self._control, args, job)

    def stop(self) -> None:
        """End the threads and wait for them; the pool is of no use afterwards."""
        self._write(QUITS, ctypes.c_int32, 1)
        nothing = ctypes.create_string_buffer(64)
        status = (ctypes.c_uint64 * 1)(ctypes.addressof(nothing))
        self._write(WORKERS, ctypes.c_int32, 0)
        # no worker acknowledges any more, and there are no cells
        self._launch(self._control, ctypes.addressof(status), _JOB.pack(*[0] * len(JOB_FIELDS)))
        join = ctypes.CDLL(None).pthread_join
        for handle in self._handles:
            join(handle, None)
        self._handles.clear()


_offered: Final[list[bytes]] = []
"""The pool's code as the entry of a kernel holds it."""


def offer(code: bytes) -> None:
    """Code of :func:`machine_code` that was kept with a kernel: the pool starts with it instead of compiling it."""
    if not _offered:
        _offered.append(code)


@lru_cache(maxsize=1)
def machine_code(host: Host) -> bytes:
    """The pool's code as an object file."""
    from zellige_cpu.jit import compile_object  # a kernel found in the cache brings the code along
    from zellige_cpu.pool_program import pool_text

    return compile_object(pool_text(host), host)


@lru_cache(maxsize=1)
def _code(host: Host) -> Library:
    """The pool's code, for the life of the process."""
    library = load(_offered[0] if _offered else machine_code(host), ["pool_worker", "pool_launch"], host)
    atexit.register(_stop)  # only now: what is registered last runs first, and loading registered the unloading of code
    return library


class _Shared:
    """The process's pool, made at the first launch that can use it, and the lock of whoever uses it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pool: NativePool | None = None
        self.is_over = False

    def taken(self, threads: int, host: Host) -> NativePool:
        """The pool with that many threads; the lock is held."""
        if self.pool is None or self.pool.wanted != threads:
            if self.pool is not None:
                self.pool.stop()
            self.pool = NativePool(threads, host)
        return self.pool


_shared = _Shared()


def _forget() -> None:
    """In a child made by fork: the parent's threads are not here, and its lock may be held by one of them."""
    global _shared
    _shared = _Shared()


def _stop() -> None:
    """At exit. A launch that is still at work in another thread keeps its pool: the process ends under it as it would anyway."""
    if _shared.lock.acquire(timeout=1.0):
        if _shared.pool is not None:
            _shared.pool.stop()
            _shared.pool = None
        _shared.is_over = True
        _shared.lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def run_grid(run: Any, args: int | bytes, status: int, cells: int, host: Host, sizes: MemorySizes, is_apart: bool = False) -> None:
    """Run the cells [0, cells) of a launch on the pool's threads, or on this one alone where the pool is at work or one is enough.

    ``run`` is the function for ctypes; ``status`` is the offset in ``args`` of the slot with the address of its status words; ``is_apart``
    says that neighbouring cells are better run by the same thread.
    """
    threads = thread_count(host.cores)
    if threads == 1 or cells == 1:
        run_alone(run, args, cells, sizes)
        return
    if not is_supported(host):
        run_cells(lambda begin, end, places: run(args, begin, end, *places, 1), cells, min(threads, cells), sizes)
        return
    shared = _shared
    if shared.is_over or not shared.lock.acquire(blocking=False):
        run_alone(run, args, cells, sizes)
        return
    try:
        address = ctypes.cast(run, ctypes.c_void_p).value
        if address is None:
            raise InternalError("a launch function without an address")
        shared.taken(threads, host).run(address, args, status, cells, sizes, is_apart)
    finally:
        shared.lock.release()


# -- threads of Python's ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _executor(process: int, workers: int) -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor  # few systems need it, and it takes milliseconds

    # a forked child has none of the parent's threads, so pools are kept by process
    return ThreadPoolExecutor(workers, thread_name_prefix="zellige-cpu")


def run_cells(run: Callable[[int, int, Places], None], cells: int, workers: int, sizes: MemorySizes) -> None:
    """Call ``run(begin, end, places)`` until all of [0, cells) is done, on ``workers`` threads; none begins once one has raised."""
    size = chunk_size(cells, workers)
    starts = itertools.count(0, size)  # next() is indivisible
    is_over = threading.Event()

    def work(shared: tuple[int, int], own: tuple[int, int]) -> None:
        try:
            while not is_over.is_set() and (begin := next(starts)) < cells:
                run(begin, min(begin + size, cells), (*own, *shared))
        except BaseException:
            is_over.set()
            raise

    def help_out(shared: tuple[int, int]) -> None:
        with own_blocks() as blocks:
            work(shared, blocks.own_places(sizes))

    with own_blocks() as blocks:
        shared = blocks.shared_places(sizes)
        others: list[Future[None]] = [_executor(os.getpid(), workers).submit(help_out, shared) for _ in range(workers - 1)]
        try:
            work(shared, blocks.own_places(sizes))
        finally:
            for other in others:
                other.result()
