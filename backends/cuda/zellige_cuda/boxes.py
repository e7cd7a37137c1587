"""What the copy engine is told of tensors: tensor maps, made on the host for each launch.

In: the boxes that a kernel's functions copy, as facts; at a launch the addresses of its tensors and the values of its sizes. Out: the
address of each map, which the launch hands over as a parameter. Maps of the last calls are kept, since a loop calls with the same tensors.
Source: CUDA Driver API 13, cuTensorMapEncodeTiled (limits of extents, strides and boxes). Raises E642 for what the driver refuses.
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from zellige.diagnostics import catalogue
from zellige.ir.expr import Buffer, Expr
from zellige.ir.sizes import evaluate_size
from zellige_cuda import device

if TYPE_CHECKING:
    from zellige.simt.ir import TensorBox

MAP_BYTES: Final = 128
MAP_ALIGNMENT: Final = 64
ADDRESS_ALIGNMENT: Final = 16
KEPT: Final = 64
"""Calls whose maps are kept."""

TYPE_OF_BYTES: Final = {1: 0, 2: 1, 4: 2, 8: 4}
"""Unsigned integers of these sizes: boxes are moved as they are, and zeros fill what is outside."""

SWIZZLES: Final = {0: 0, 32: 1, 64: 2, 128: 3}
PROMOTION: Final = 2
"""Requests reach the second cache in 128 bytes: 256 were slower for pitches that are no multiple of 128 bytes."""


def facts_of_box(box: TensorBox, tensors: Sequence[Buffer]) -> dict[str, Any]:
    """A box as facts: which tensor argument, its extents, how it is swizzled."""
    return {"tensor": tensors.index(box.tensor), "box": list(box.box), "swizzle": box.swizzle_bytes}


class Maps:
    """The maps of one kernel. ``wanted`` are :func:`facts_of_box` in the order in which launches name them."""

    def __init__(self, wanted: Sequence[dict[str, Any]], tensors: Sequence[Buffer]) -> None:
        self.wanted = list(wanted)
        self._tensors = list(tensors)
        self._kept: OrderedDict[tuple[int, ...], tuple[Any, list[int]]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self.wanted)

    def are_unfit(self, pointers: Sequence[int]) -> bool:
        """Whether a tensor begins where the copy engine cannot read from."""
        return any(pointers[wanted["tensor"]] % ADDRESS_ALIGNMENT for wanted in self.wanted)

    def addresses(self, pointers: Sequence[int], values: Mapping[Any, int]) -> list[int]:
        """Where each map lies in memory of the host, for tensors at ``pointers`` and sizes of these values."""
        key = (*pointers, *values.values())
        found = self._kept.get(key)
        if found is None:
            memory = ctypes.create_string_buffer(MAP_BYTES * len(self.wanted) + MAP_ALIGNMENT)
            first = -(-ctypes.addressof(memory) // MAP_ALIGNMENT) * MAP_ALIGNMENT
            places = [first + MAP_BYTES * number for number in range(len(self.wanted))]
            for place, wanted in zip(places, self.wanted):
                self._encode(place, wanted, pointers[wanted["tensor"]], values)
            found = self._kept[key] = (memory, places)
            if len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return found[1]

    def _encode(self, place: int, wanted: dict[str, Any], pointer: int, values: Mapping[Any, int]) -> None:
        tensor = self._tensors[wanted["tensor"]]
        extents = [evaluate_size(e, values) for e in tensor.shape]
        if min(extents) <= 0 or not pointer:
            return  # nothing is copied from a tensor without elements
        size = tensor.dtype.bytes
        strides = [s * size for s in strides_of(tensor, values)]
        rank = len(extents)
        dims = (ctypes.c_uint64 * rank)(*reversed(extents))
        pitches = (ctypes.c_uint64 * max(1, rank - 1))(*reversed(strides[:-1]))
        box = (ctypes.c_uint32 * rank)(*reversed(wanted["box"]))
        steps = (ctypes.c_uint32 * rank)(*[1] * rank)
        status = _encoder()(
            place, TYPE_OF_BYTES[size], rank, pointer, dims, pitches, box, steps, 0, SWIZZLES[wanted["swizzle"]], PROMOTION, 0
        )
        if status:
            shape = " x ".join(map(str, extents))
            raise catalogue.E642.error(what=f"{device.driver().CUresult(status).name} for the boxes of {tensor.name} ({shape})")


def strides_of(tensor: Buffer, values: Mapping[Any, int]) -> list[int]:
    """The strides of a tensor in elements."""
    written: Sequence[Expr] | None = tensor.strides
    if written is not None:
        return [evaluate_size(s, values) for s in written]
    strides = [1]
    for extent in reversed(tensor.shape[1:]):
        strides.insert(0, strides[0] * evaluate_size(extent, values))
    return strides


@cache
def _encoder() -> Any:
    """The driver's function, called by address."""
    function = device.library().cuTensorMapEncodeTiled
    pointer, word = ctypes.c_void_p, ctypes.c_int
    function.argtypes = (pointer, word, ctypes.c_uint32, pointer, pointer, pointer, pointer, pointer, word, word, word, word)
    function.restype = ctypes.c_int
    return function
