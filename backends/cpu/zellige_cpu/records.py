"""What native code prints: records on its stack, read and written out by Python.

In: the places of the program that print, and the records of :mod:`zellige_cpu.effects`. Out: lines on the standard output, in the order of
the program, in the form of :mod:`zellige.runtime.printing`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from zellige.dtypes import DType
from zellige.runtime.printing import print_line
from zellige_cpu.program import INTERRUPTED, Site
from zellige_cpu.types import element_bytes

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)


class Printer:
    """The function that a launch calls to print.

    An error in it ends no native code; :meth:`raise_error` raises it afterwards. What a signal's handler raises in it, such as
    KeyboardInterrupt, stops the launch by its ``status`` words.
    """

    def __init__(self, sites: Sequence[Site], status: ctypes.Array[ctypes.c_int64]) -> None:
        self._sites = sites
        self._status = status
        self._error: Exception | None = None
        self._callback = _CALLBACK(self._print)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _print(self, number: int, record: int) -> None:
        try:
            site = self._sites[number - 1]
            print_line(site.message, None if site.dtype is None else _value(site, site.dtype, record))
        except Exception as error:  # noqa: BLE001 - an exception cannot pass through native code
            self._error = self._error or error
        except BaseException as error:  # noqa: BLE001
            if self._status[0] != INTERRUPTED:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(error))
                self._status[1], self._status[0] = id(error), INTERRUPTED


def _value(site: Site, dtype: DType, record: int) -> np.ndarray[Any, Any]:
    words = (ctypes.c_int64 * (1 + 4 * site.rank)).from_address(record)
    dimensions = np.array(words[1:], np.int64).reshape(site.rank, 4)
    offsets, extents, sizes, strides = (dimensions[:, i] for i in range(4))
    shape = tuple(np.maximum(extents, 0))
    indices = np.indices(shape, np.int64).reshape(site.rank, int(np.prod(shape))) + offsets[:, None]
    inside = ((indices >= 0) & (indices < sizes[:, None])).all(axis=0)
    values = np.full(inside.shape, site.safe_value, np.float64).astype(dtype.numpy)
    places = (indices * strides[:, None]).sum(axis=0)[inside]
    if places.size:
        values[inside] = _elements(words[0], places, dtype, is_packed=site.is_packed)
    return values.reshape(shape)


def _elements(address: int, places: np.ndarray[Any, Any], dtype: DType, *, is_packed: bool) -> np.ndarray[Any, Any]:
    """The elements at ``places`` (not empty) of the memory at ``address``."""
    if is_packed:
        low, high = int(places.min()) // 2, int(places.max()) // 2
        data = _bytes_at(address + low, high - low + 1)
        nibbles = (data[places // 2 - low] >> (4 * (places % 2)).astype(np.uint8)) & 15
        if dtype.kind == "int":
            nibbles = ((nibbles ^ 8).astype(np.int8) - 8).view(np.uint8)
        return np.asarray(nibbles.view(dtype.numpy))
    size = element_bytes(dtype)
    low, high = int(places.min()), int(places.max())
    return np.asarray(_bytes_at(address + low * size, (high - low + 1) * size).view(dtype.numpy)[places - low])


def _bytes_at(address: int, count: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(ctypes.string_at(address, count), np.uint8)
