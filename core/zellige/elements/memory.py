"""Memory of this process as bytes, and how dense arrays lie in it.

In: addresses, sizes, shapes. Out: arrays of bytes without a copy, strides.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np


def row_major(shape: tuple[int, ...], unit: int = 1) -> tuple[int, ...]:
    """The strides of a dense row-major array, in elements; in bytes where ``unit`` is the size of one."""
    strides: list[int] = []
    for extent in reversed(shape):
        strides.append(unit)
        unit *= extent
    return tuple(reversed(strides))


def bytes_at(pointer: int, size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """``size`` bytes of the process's own memory, which the caller keeps alive; an empty array where there are none or the address is 0."""
    if size == 0 or pointer == 0:
        return np.empty(0, np.uint8)
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(pointer))
