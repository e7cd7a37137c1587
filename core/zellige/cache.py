"""Compiled kernels of this process, found again by their program.

In: a kernel, a target and options. Out: the kernel compiled for them earlier, if there is one. The key is the program itself, in the
text form where constants and macros are expanded, so that a changed captured value compiles anew and an edited comment does not.
Nothing is kept on disk.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import fields
from typing import Final

from zellige.ir.printer import print_kernel
from zellige.ir.stmt import Assert, Kernel
from zellige.ir.traverse import walk
from zellige.options import CompileOptions, options
from zellige.plugin.contract import CompiledKernel
from zellige.target import Target

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
        """Whether it is asked and filled: as switched last, at first as ``ZELLIGE_CACHE`` says."""
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


def program_key(kernel: Kernel, target: Target, options: CompileOptions) -> str:
    """What identifies a compiled kernel: the program's text, the target, the options that change the result.

    The places of assertions belong to it, since a compiled kernel names them when one fails.
    """
    asserted = [str(node.span) for launch in kernel.launches for node in walk(launch) if isinstance(node, Assert)]
    parts = (print_kernel(kernel), *asserted, str(target), _options_text(options))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _options_text(options: CompileOptions) -> str:
    return repr([(f.name, getattr(options, f.name)) for f in fields(options) if f.compare])


def enable_cache() -> None:
    """Find kernels compiled earlier instead of compiling them again."""
    memo.switch(True)


def disable_cache() -> None:
    """Compile every kernel anew."""
    memo.switch(False)


def is_cache_enabled() -> bool:
    """Whether kernels compiled earlier are found again."""
    return memo.is_enabled


def clear_cache() -> None:
    """Forget every kernel compiled so far; those in use stay usable."""
    memo.clear()
