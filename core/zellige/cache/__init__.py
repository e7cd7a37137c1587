"""Compiled kernels, found again instead of compiled again: in this process (:mod:`~zellige.cache.process`), and on disk for the next.

In: a program, in the text form where constants and macros are expanded, and all that its code depends on. Out: the kernel compiled for them
earlier. On disk there are two levels: programs to what their backend made of them (*artifacts*), and emitted text to machine code
(*binaries*), so that different programs that come to the same text share code. A changed captured value compiles anew, an edited comment
does not.
"""

from __future__ import annotations

from zellige.cache.disk import Statistics, store
from zellige.cache.keys import program_key
from zellige.cache.process import KernelMemo, memo

__all__ = [
    "KernelMemo",
    "Statistics",
    "cache_statistics",
    "clear_cache",
    "disable_cache",
    "enable_cache",
    "is_cache_enabled",
    "memo",
    "program_key",
    "store",
]


def enable_cache() -> None:
    """Find kernels compiled earlier instead of compiling them again."""
    memo.switch(True)


def disable_cache() -> None:
    """Compile every kernel anew, and keep none on disk."""
    memo.switch(False)


def is_cache_enabled() -> bool:
    """Whether kernels compiled earlier are found again."""
    return memo.is_enabled


def clear_cache() -> None:
    """Forget every kernel compiled so far, in this process and on disk; those in use stay usable."""
    memo.clear()
    store().clear()


def cache_statistics() -> Statistics:
    """What lies on disk, and how often this process found something there."""
    return store().statistics()
