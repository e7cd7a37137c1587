"""Grid cells shared out among threads.

In: a function that runs a range of cells with a thread's own memory. Out: every cell run once. The machine code runs without the
interpreter's lock; the calling thread is one of the workers, so a small grid starts no other.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

from zellige.options import options

_CHUNKS = 8
"""Ranges a worker: enough that no thread waits long for the last one."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Addresses of the memory of one thread."""

    scratch: int
    leaf: int


class _Memory(threading.local):
    """Memory that a thread keeps from launch to launch and that only grows."""

    def __init__(self) -> None:
        self.block = ctypes.create_string_buffer(0)

    def aligned(self, size: int) -> int:
        if len(self.block) < size + 64:
            self.block = ctypes.create_string_buffer(size + 64)
        return (ctypes.addressof(self.block) + 63) & ~63


_memory = _Memory()


def own_worker(scratch_bytes: int, leaf_bytes: int) -> Worker:
    """The calling thread as a worker."""
    scratch_bytes = (scratch_bytes + 63) & ~63
    base = _memory.aligned(scratch_bytes + leaf_bytes)
    return Worker(base, base + scratch_bytes)


def worker_count(cores: int, cells: int) -> int:
    """How many threads are worth waking for ``cells``: ``ZELLIGE_NUM_THREADS`` or one a core, at most one a cell."""
    return max(1, min(options().threads or cores, cells))


@lru_cache(maxsize=4)
def _executor(process: int, workers: int) -> ThreadPoolExecutor:
    # a forked child has none of the parent's threads, so pools are kept by process
    return ThreadPoolExecutor(workers, thread_name_prefix="zellige-cpu")


def run_cells(run: Callable[[int, int, Worker], None], cells: int, workers: int, scratch_bytes: int, leaf_bytes: int) -> None:
    """Call ``run(begin, end, worker)`` until all of [0, cells) is done, on ``workers`` threads."""
    scratch_bytes = (scratch_bytes + 63) & ~63
    if workers == 1:
        base = _memory.aligned(scratch_bytes + leaf_bytes)
        run(0, cells, Worker(base, base + scratch_bytes))
        return
    size = max(1, cells // (workers * _CHUNKS))
    starts = itertools.count(0, size)  # next() is indivisible

    def work() -> None:
        base = _memory.aligned(scratch_bytes + leaf_bytes)
        worker = Worker(base, base + scratch_bytes)
        while (begin := next(starts)) < cells:
            run(begin, min(begin + size, cells), worker)

    others: list[Future[None]] = [_executor(os.getpid(), workers).submit(work) for _ in range(workers - 1)]
    try:
        work()
    finally:
        for other in others:
            other.result()
