"""The arguments that kernels are tried with, as the program gives them.

In: ``with set_autotune_inputs(a, b):`` around the call that tunes. Out: :func:`get_autotune_inputs`, what the innermost block of the
calling thread gave.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Stack(threading.local):
    def __init__(self) -> None:
        self.given: list[list[Any]] = []


_stack = _Stack()


@contextmanager
def set_autotune_inputs(*inputs: Any) -> Iterator[list[Any]]:
    """Kernels tuned in the block are called with these arguments, in their own order; they may also be given as one list.

    Each trial works on a copy, so that a kernel that writes to its arguments does not change the caller's.
    """
    given = list(inputs[0]) if len(inputs) == 1 and isinstance(inputs[0], (list, tuple)) else list(inputs)
    _stack.given.append(given)
    try:
        yield given
    finally:
        _stack.given.pop()


def get_autotune_inputs() -> list[Any] | None:
    """What the innermost :func:`set_autotune_inputs` of this thread gave; None outside of one."""
    return list(_stack.given[-1]) if _stack.given else None
