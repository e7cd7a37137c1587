"""Grid cells shared out among threads.

In: the machine code of a launch and its packed arguments. Out: every cell run once. The calling thread is one of the workers, so a small
grid wakes no other; with one worker nothing of this is loaded.

The threads are pthreads that run machine code alone (:mod:`zellige_cpu.pool_program`) and never take the interpreter's lock. There is
one pool a process. It serves one launch at a time: a launch from another Python thread meanwhile runs on its own thread, since the
cores are at work already. A child made by fork has none of its parent's threads and starts its own. At exit the threads are stopped and
joined, before the code that they sleep in is unloaded. Where the system has no futex, threads of Python's do the same.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from zellige.diagnostics import InternalError
from zellige.options import options
from zellige_cpu import jit, pool_program
from zellige_cpu.host import Host

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_CHUNKS: Final = 8
"""Ranges a worker: enough that no thread waits long for the last one."""

_SPINS: Final = 2000
"""Pauses before a thread goes to sleep, some ten microseconds: waking one costs about as much."""

_JOB: Final = struct.Struct(f"<{len(pool_program.JOB_FIELDS)}q")
_LAUNCH: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)


class Worker:
    """Addresses of the memory of one thread."""

    __slots__ = ("leaf", "scratch")

    def __init__(self, scratch: int, leaf: int) -> None:
        self.scratch: Final = scratch
        self.leaf: Final = leaf


class _Memory(threading.local):
    """Memory that a thread keeps from launch to launch and that only grows; it is not here while a launch uses it."""

    def __init__(self) -> None:
        self.kept: list[ctypes.Array[ctypes.c_char]] = []


_memory = _Memory()


@contextmanager
def _own_worker(scratch_bytes: int, leaf_bytes: int) -> Iterator[Worker]:
    """The calling thread as a worker. A handler of a signal that launches a kernel meanwhile gets memory of its own."""
    scratch_bytes = (scratch_bytes + 63) & ~63
    kept = _memory.kept
    block = _block(kept, scratch_bytes + leaf_bytes)
    base = (ctypes.addressof(block) + 63) & ~63
    try:
        yield Worker(base, base + scratch_bytes)
    finally:
        kept[:] = (block,)


def _block(kept: list[ctypes.Array[ctypes.c_char]], size: int) -> ctypes.Array[ctypes.c_char]:
    """A thread's memory, taken from where it is kept, for ``size`` bytes from the first address that is a multiple of 64."""
    block = kept.pop() if kept else None
    return block if block is not None and len(block) >= size + 64 else ctypes.create_string_buffer(size + 64)


def run_alone(run: Any, args: int | bytes, cells: int, scratch_bytes: int, leaf_bytes: int) -> None:
    """Run the cells [0, cells) of a launch on the calling thread, in order; ``run`` is the function for ctypes."""
    kept = _memory.kept
    scratch_bytes = (scratch_bytes + 63) & ~63
    block = _block(kept, scratch_bytes + leaf_bytes)
    base = (ctypes.addressof(block) + 63) & ~63
    run(args, 0, cells, base, base + scratch_bytes)
    kept[:] = (block,)


def thread_count(cores: int) -> int:
    """How many threads there are: ``ZELLIGE_NUM_THREADS`` or one a core."""
    return max(1, options().threads or cores)


def worker_count(cores: int, cells: int) -> int:
    """How many threads are worth waking for ``cells``: at most one a cell."""
    return max(1, min(thread_count(cores), cells))


def chunk_size(cells: int, workers: int) -> int:
    """Cells that a worker takes at a time."""
    return max(1, cells // (workers * _CHUNKS))


# -- threads of machine code -----------------------------------------------------------------------------------------------


class NativePool:
    """Threads that wait for launches: ``threads`` with the caller's, which may be fewer than were ``wanted``. ``run`` serves one caller."""

    def __init__(self, threads: int, host: Host) -> None:
        self.wanted = threads
        self.threads = threads
        self._library = _code(host)
        self._launch = _LAUNCH(self._library.addresses["pool_launch"])
        self._block = ctypes.create_string_buffer(pool_program.BLOCK_BYTES + 64)
        self._control = (ctypes.addressof(self._block) + 63) & ~63
        self._memory = ctypes.create_string_buffer(0)
        self._starts = (ctypes.c_uint64 * (2 * threads))()
        self._handles: list[ctypes.c_ulong] = []
        spins = _SPINS if threads <= host.cores else 0  # with more threads than cores, spinning keeps others from working
        self._write(pool_program.SPINS, ctypes.c_int64, spins)
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
        self._write(pool_program.WORKERS, ctypes.c_int32, len(self._handles))

    def run(self, function: int, args: int | bytes, status: int, cells: int, scratch_bytes: int, leaf_bytes: int) -> None:
        """Call the launch function at that address for all of [0, cells); ``status`` is the offset in ``args`` of the slot that holds the
        address of its status words."""
        workers = min(self.threads, cells)
        leaf = (scratch_bytes + 63) & ~63
        stride = (leaf + leaf_bytes + 127) & ~63  # a line between two workers
        if len(self._memory) < workers * stride + 64:
            self._memory = ctypes.create_string_buffer(workers * stride + 64)
        base = (ctypes.addressof(self._memory) + 63) & ~63
        job = _JOB.pack(function, status, cells, chunk_size(cells, workers), workers, base, stride, leaf)
        self._launch(self._control, args, job)

    def stop(self) -> None:
        """End the threads and wait for them; the pool is of no use afterwards."""
        self._write(pool_program.QUITS, ctypes.c_int32, 1)
        nothing = ctypes.create_string_buffer(64)
        status = (ctypes.c_uint64 * 1)(ctypes.addressof(nothing))
        self._write(pool_program.WORKERS, ctypes.c_int32, 0)
        # no worker acknowledges any more, and there are no cells
        self._launch(self._control, ctypes.addressof(status), _JOB.pack(0, 0, 0, 1, 1, 0, 0, 0))
        join = ctypes.CDLL(None).pthread_join
        for handle in self._handles:
            join(handle, None)
        self._handles.clear()


@lru_cache(maxsize=1)
def _code(host: Host) -> jit.Library:
    """The pool's code, for the life of the process."""
    library = jit.load(jit.compile_object(pool_program.pool_text(host), host), ["pool_worker", "pool_launch"], host)
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


def run_grid(run: Any, args: int | bytes, status: int, cells: int, host: Host, scratch_bytes: int, leaf_bytes: int) -> None:
    """Run the cells [0, cells) of a launch on the pool's threads, or on this one alone where the pool is at work or one is enough.

    ``run`` is the function for ctypes; ``status`` is the offset in ``args`` of the slot with the address of its status words.
    """
    threads = thread_count(host.cores)
    if threads == 1 or cells == 1:
        run_alone(run, args, cells, scratch_bytes, leaf_bytes)
        return
    if not pool_program.is_supported(host):
        run_cells(lambda begin, end, w: run(args, begin, end, w.scratch, w.leaf), cells, min(threads, cells), scratch_bytes, leaf_bytes)
        return
    shared = _shared
    if shared.is_over or not shared.lock.acquire(blocking=False):
        run_alone(run, args, cells, scratch_bytes, leaf_bytes)
        return
    try:
        address = ctypes.cast(run, ctypes.c_void_p).value
        if address is None:
            raise InternalError("a launch function without an address")
        shared.taken(threads, host).run(address, args, status, cells, scratch_bytes, leaf_bytes)
    finally:
        shared.lock.release()


# -- threads of Python's ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _executor(process: int, workers: int) -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor  # few systems need it, and it takes milliseconds

    # a forked child has none of the parent's threads, so pools are kept by process
    return ThreadPoolExecutor(workers, thread_name_prefix="zellige-cpu")


def run_cells(run: Callable[[int, int, Worker], None], cells: int, workers: int, scratch_bytes: int, leaf_bytes: int) -> None:
    """Call ``run(begin, end, worker)`` until all of [0, cells) is done, on ``workers`` threads; none begins once one has raised."""
    size = chunk_size(cells, workers)
    starts = itertools.count(0, size)  # next() is indivisible
    is_over = threading.Event()

    def work() -> None:
        with _own_worker(scratch_bytes, leaf_bytes) as worker:
            try:
                while not is_over.is_set() and (begin := next(starts)) < cells:
                    run(begin, min(begin + size, cells), worker)
            except BaseException:
                is_over.set()
                raise

    others: list[Future[None]] = [_executor(os.getpid(), workers).submit(work) for _ in range(workers - 1)]
    try:
        work()
    finally:
        for other in others:
            other.result()
