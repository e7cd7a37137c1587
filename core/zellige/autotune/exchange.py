"""Arguments and results of a trial, written where another process reads them.

In: arrays of any framework on the host, numbers, None. Out: descriptions that JSON can hold, beside files with the elements. Shapes,
strides and element types are kept; the elements are copied, so a trial that writes to its arguments does not change the caller's.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from zellige.dtypes import dtype as as_dtype
from zellige.elements.memory import row_major
from zellige.runtime.arrays import HOST, UnusableArray, allocate, as_numpy, view_of

Described = dict[str, Any]


def write(value: Any, path: Path, declared: str | None = None) -> Described:
    """Describe ``value``; an array's elements go to ``path``. ``declared`` is the element type of its parameter.

    Raises UnusableArray for a value that is neither a number, None nor an array on this host.
    """
    if value is None or isinstance(value, (bool, numbers.Real)):
        return {"value": value if value is None or isinstance(value, (bool, int, float)) else value.item()}  # type: ignore[attr-defined]
    tensor = value.detach().cpu() if hasattr(value, "detach") and hasattr(value, "cpu") else value
    view = view_of(tensor)
    if view is None or view.device != HOST:
        raise UnusableArray(f"a trial takes numbers and arrays on the host, not {type(value).__name__}")
    memory = as_numpy(view)
    path.write_bytes(np.ascontiguousarray(memory).tobytes())
    name = "uint8" if view.packing > 1 else view.dtype.name
    if declared is not None and name == "uint8" and as_dtype(declared).is_float and as_dtype(declared).storage_bits == 8:
        name = declared  # the caller's framework has no such type and carries the bits
    return {"file": str(path), "dtype": name, "shape": list(memory.shape), "strides": list(view.strides)}


def read(described: Mapping[str, Any]) -> Any:
    """The number, None, or a NumPy array of its own."""
    if "value" in described:
        return described["value"]
    held = as_dtype(described["dtype"]).numpy
    shape, strides = tuple(described["shape"]), tuple(described["strides"])
    elements = np.fromfile(described["file"], np.uint8).view(held).reshape(shape)
    if not elements.size or strides == row_major(shape):
        return elements
    last = sum((extent - 1) * stride for extent, stride in zip(shape, strides))
    memory = np.zeros(last + 1, held)
    spread = np.lib.stride_tricks.as_strided(memory, shape, tuple(stride * held.itemsize for stride in strides))
    spread[...] = elements
    return spread


def as_framework_of(array: Any, like: Any) -> Any:
    """A NumPy array that :func:`read` gave, as an array of the framework of ``like``."""
    given, wanted = view_of(array), None if like is None else view_of(like)
    if given is None or wanted is None or wanted.framework != "torch":
        return array
    made = allocate(given.dtype, given.shape, wanted)
    host = made.cpu()
    view = view_of(host)
    assert view is not None, "allocate returned no array"
    as_numpy(view)[...] = array
    return host.to(made.device)
