"""Launches by core's machine code, and those whose arguments core has packed already.

In: a :class:`~zellige_cuda.device.CudaKernel`. Out: :func:`native_launch`, what core must know to launch it without this package;
:class:`PackedLaunch`, which launches with the arguments where they lie. Loaded for kernels that are called again.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from zellige.ir.expr import INT64, Binary, Buffer, Const, Expr, const
from zellige.plugin.contract import DriverFunctions, NativeLaunch, NativeMade, NativeStep
from zellige_cuda import device
from zellige_cuda.device import ADDRESS_ALIGNMENT, LONGEST_AXIS, PROMOTION, SWIZZLES, TYPE_OF_BYTES, three

if TYPE_CHECKING:
    from zellige_cuda.device import CudaKernel

DLPACK_TYPE: Final = 2
"""``kDLCUDA``: ordinary memory of a device."""


def address_of(name: str) -> int:
    """Where a function of the driver lies."""
    return ctypes.cast(getattr(device.library(), name), ctypes.c_void_p).value or 0


@cache
def functions() -> DriverFunctions:
    """Where the driver's functions lie that core's launching code calls (CUDA Driver API, "Execution Control", "Context Management")."""
    return DriverFunctions(
        start=address_of("cuLaunchKernel"), current=address_of("cuCtxGetCurrent"), enter=address_of("cuCtxPushCurrent_v2"),
        leave=address_of("cuCtxPopCurrent_v2"),
    )  # fmt: skip


def native_launch(kernel: CudaKernel) -> NativeLaunch:
    """How core launches a kernel that neither asserts nor prints."""
    alignments = list(kernel.alignments)
    for wanted in kernel.maps.wanted:
        alignments[wanted["tensor"]] = max(alignments[wanted["tensor"]], ADDRESS_ALIGNMENT)
    steps = tuple(
        NativeStep(
            grid=three(grid), threads=(function["threads"], 1, 1), shared_bytes=function["shared"],
            parameters=tuple(("made" if kind == "map" else kind, place) for kind, place in function["params"]),
        )
        for grid, function in zip(kernel.grids, kernel.functions)
    )  # fmt: skip
    made = tuple(made_map(wanted, kernel.tensors[wanted["tensor"]]) for wanted in kernel.maps.wanted)
    return NativeLaunch(
        functions=functions(), device_type=DLPACK_TYPE, steps=steps, alignments=tuple(alignments),
        most_blocks=device.MOST_BLOCKS, apart=_apart(kernel), made=made,
    )  # fmt: skip


def _apart(kernel: CudaKernel) -> tuple[tuple[int, int], ...]:
    """Pairs of tensors that the code takes for different arrays: those that it writes and all others."""
    others = range(len(kernel.tensors))
    return tuple((w, i) for w in kernel.written for i in others if i != w and (i < w or i not in kernel.written))


# ---- maps of boxes


def made_map(wanted: Mapping[str, Any], tensor: Buffer) -> NativeMade:
    """A map (:func:`zellige_cuda.facts.facts_of_box`) of a tensor as core's machine code has the driver make it at each call."""
    size, rank = tensor.dtype.bytes, tensor.rank
    pitches = [_product(stride, const(size, INT64)) for stride in _stride_sizes(tensor)[:-1]]
    box, steps = _words_of_pairs(list(reversed(wanted["box"]))), _words_of_pairs([1] * rank)
    long = [extent for extent in tensor.shape if extent.dtype == INT64 and not isinstance(extent, Const)]
    room = [Binary(op="sub", left=const(LONGEST_AXIS + 1, INT64), right=extent) for extent in long]
    values = (*room, *reversed(tensor.shape), *reversed(pitches), *(const(word, INT64) for word in (*box, *steps)))
    before = len(room)
    first = before + rank + len(pitches)
    numbers = (0, SWIZZLES[wanted["swizzle"]], PROMOTION, 0)
    # a tensor of one dimension has no pitches, and none are read
    lists = (before, before + rank if pitches else before, first, first + len(box))
    return NativeMade(
        function=address_of("cuTensorMapEncodeTiled"),
        tensor=wanted["tensor"],
        values=values,
        positive=before + rank,
        arguments=(
            ("result", 0), ("number", TYPE_OF_BYTES[size]), ("number", rank), ("tensor", 0),
            *(("list", place) for place in lists), *(("number", number) for number in numbers),
        ),
    )  # fmt: skip


def _stride_sizes(tensor: Buffer) -> list[Expr]:
    """The strides of a tensor in elements, as expressions of the kernel's sizes."""
    if tensor.strides is not None:
        return list(tensor.strides)
    strides: list[Expr] = [const(1, INT64)]
    for extent in reversed(tensor.shape[1:]):
        strides.insert(0, _product(strides[0], extent))
    return strides


def _product(left: Expr, right: Expr) -> Expr:
    """A product as core computes it, in 64 bits whatever the types say."""
    return Binary(op="mul", left=left, right=right)


def _words_of_pairs(numbers: list[int]) -> list[int]:
    """Numbers of 32 bits, two to a word of 64."""
    padded = [*numbers, 0] if len(numbers) % 2 else numbers
    return [low | high << 32 for low, high in zip(padded[::2], padded[1::2])]


# ---- packed arguments


class PackedLaunch:
    """Launches of one kernel with the arguments of :mod:`zellige.plugin.contract`. ``grids`` are those that are known now."""

    def __init__(self, kernel: CudaKernel, grids: Sequence[tuple[int, int, int] | None]) -> None:
        self._kernel = kernel
        self._grids = grids
        self._tensors, self._scalars = len(kernel.tensors), len(kernel.scalars)
        words = "".join("d" if v.dtype.is_float else "q" for v in kernel.scalars)
        self._form = struct.Struct(f"<{self._tensors}q{words}{len(kernel.sizes)}q")
        self._names = [*kernel.scalars, *kernel.sizes]
        self._address = 8 * (self._tensors + len(self._names))
        self._is_plain = not kernel.reports and None not in grids and not any(v.dtype.is_float for v in kernel.scalars)

    def __call__(self, words: bytes) -> None:
        """Launch; plain numbers are handed to the driver where they lie."""
        kernel, values = self._kernel, self._form.unpack_from(words)
        pointers, others = values[: self._tensors], values[self._tensors :]
        if not self._is_plain:
            kernel.launch(pointers, others[: self._scalars], others[self._scalars :])
            return
        sizes = dict(zip(self._names, others))
        ordinary = kernel.ordinary(pointers, sizes)
        if ordinary is not None:
            ordinary.launch_packed(words)
            return
        defines = kernel.defines(pointers)
        maps = kernel.maps.addresses(pointers, sizes) if kernel.maps else (None, [])  # held until the driver has read them
        base = int.from_bytes(words[self._address : self._address + 8], "little") - self._address - 16
        api = device.required()
        with device.entered(api, pointers):
            loaded = kernel.code(api, defines)
            stream = device.current_stream(loaded.device)
            for number, (places, grid) in enumerate(zip(kernel.places, self._grids)):
                assert grid is not None
                given = [*(base + p for p in places), *(maps[1][index] for index in kernel.boxed[number])]
                kernel.start(loaded, number, grid, (ctypes.c_void_p * len(given))(*given), stream)
