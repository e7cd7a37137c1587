"""Compiled kernels of this process.

In: the key of a program. Out: the kernel compiled for it earlier in this process, if there is one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from zellige.options import options
from zellige.plugin.contract import CompiledKernel

CAPACITY: Final = 1024
"""How many compiled kernels are kept; the one not used for longest goes first."""


class KernelMemo:
    """The compiled kernels of a process. Safe to use from several threads."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._kernels: OrderedDict[str, CompiledKernel] = OrderedDict()
        self._lock = threading.Lock()
        self._is_enabled: bool | None = None

    @property
    def is_enabled(self) -> bool:
        """Whether it is asked and filled: as switched last, at first as ``ZELLIGE_CACHE`` says. It speaks for the disk too."""
        return options().cache_enabled if self._is_enabled is None else self._is_enabled

    def switch(self, is_enabled: bool) -> None:
        self._is_enabled = is_enabled

    def find(self, key: str) -> CompiledKernel | None:
        if not self.is_enabled:
            return None
        with self._lock:
            found = self._kernels.get(key)
            if found is not None:
                self._kernels.move_to_end(key)
            return found

    def keep(self, key: str, compiled: CompiledKernel) -> None:
        if not self.is_enabled:
            return
        with self._lock:
            self._kernels[key] = compiled
            while len(self._kernels) > self._capacity:
                self._kernels.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._kernels.clear()

    def __len__(self) -> int:
        return len(self._kernels)


memo: Final = KernelMemo(CAPACITY)
