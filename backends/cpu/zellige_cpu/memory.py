"""Memory of the backend's own: blocks for tiles and packed operands that are kept from launch to launch; launches on one thread.

In: sizes. Out: addresses. A block only grows; its content is lost then. A large block lies on pages of 2 MiB where the system has them
(Linux: madvise(2), MADV_HUGEPAGE), since packed operands are read row by row and each row of small pages costs a walk of the page
table: products of 2048 are 3 percent faster for it. It is private to the process, so a child made by fork has its own.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from zellige_cpu.program import MemorySizes

ALIGNMENT: Final = 64
"""Bytes: a cache line and the longest vector."""

_HUGE: Final = 1 << 21
"""Bytes of a large page. Blocks from this size on ask for them."""


class Memory:
    """One block of at least the size asked for last."""

    __slots__ = ("_base", "_block", "_size")

    def __init__(self) -> None:
        self._block: Any = None
        self._base = 0
        self._size = -1

    def aligned(self, size: int) -> int:
        """The address of ``size`` bytes, aligned to a cache line."""
        if self._size < size:
            self._block = None  # first the old one goes
            alignment = _HUGE if size >= _HUGE else ALIGNMENT
            self._block = _large(size + alignment) if size >= _HUGE else _plain(size + alignment)
            self._base = (ctypes.addressof(self._block) + alignment - 1) & -alignment
            self._size = size
        return self._base


def _plain(size: int) -> Any:
    """Memory that nobody goes through to clear it: the system gives pages that are zero when they are first touched."""
    return (ctypes.c_char * size).from_buffer(bytearray(size))


def _large(size: int) -> Any:
    """Fresh zeros on large pages where there are any."""
    import mmap  # few blocks are that large

    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return _plain(size)
    block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel built without them: small pages do the same
        block.madvise(mmap.MADV_HUGEPAGE)
    return (ctypes.c_char * size).from_buffer(block)


class Blocks:
    """Memory for launches: what one worker has for itself and what all workers of a launch share."""

    __slots__ = ("own", "shared")

    def __init__(self) -> None:
        self.own: Final = Memory()
        self.shared: Final = Memory()

    def own_places(self, sizes: MemorySizes) -> tuple[int, int]:
        """Addresses of tiles and of the leaf's memory."""
        scratch = (sizes[0] + 63) & ~63
        base = self.own.aligned(scratch + sizes[1])
        return base, base + scratch

    def shared_places(self, sizes: MemorySizes) -> tuple[int, int]:
        """Addresses of states and packed operands of a launch that is about to begin; the states are zero."""
        if not sizes[2]:
            return 0, 0
        states = (sizes[2] + 63) & ~63
        base = self.shared.aligned(states + sizes[3])
        ctypes.memset(base, 0, states)
        return base, base + states


class _Own(threading.local):
    """Memory that a thread keeps from launch to launch and that only grows; it is not here while a launch uses it."""

    def __init__(self) -> None:
        self.kept: list[Blocks] = []


_own = _Own()


@contextmanager
def own_blocks() -> Iterator[Blocks]:
    """The calling thread's memory. A handler of a signal that launches a kernel meanwhile gets memory of its own."""
    kept = _own.kept
    blocks = kept.pop() if kept else Blocks()
    try:
        yield blocks
    finally:
        kept[:] = (blocks,)


def run_alone(run: Any, args: int | bytes, cells: int, sizes: MemorySizes) -> None:
    """Run the cells [0, cells) of a launch on the calling thread, in order; ``run`` is the function for ctypes."""
    kept = _own.kept
    blocks = kept.pop() if kept else Blocks()
    run(args, 0, cells, *blocks.own_places(sizes), *blocks.shared_places(sizes), 1)
    kept[:] = (blocks,)
