"""Arrays of any framework seen as an address, a shape, strides and an element type, without a copy.

In: NumPy arrays, torch tensors, and objects with ``__dlpack__``, ``__array_interface__`` or a device's ``__<device>_array_interface__``.
Out: an :class:`ArrayView`, which keeps its source alive; and fresh arrays of the framework that the arguments came from.
Nothing here imports torch: an argument can only be a torch tensor when the caller has imported it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from operator import index
from typing import Any, Final, Literal

import numpy as np

from zellige import dtypes
from zellige.dtypes import DType, UnknownDType
from zellige.elements.memory import row_major
from zellige.runtime import dlpack

Framework = Literal["numpy", "torch", "other"]

HOST: Final = "cpu"
"""The device name of ordinary memory, as array frameworks write it."""

_DEVICE_INTERFACE: Final = re.compile(r"__([a-z0-9]+)_array_interface__")


class UnusableArray(ValueError):
    """The object is an array, but its memory cannot be handed to a kernel. The text says why, ``hint`` what helps where a copy does not."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.hint = hint


class NoSuchArray(ValueError):
    """The framework has no array of the wanted element type or device. The text says which."""


class NoMemory(MemoryError):
    """There is not enough memory for an array."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayView:
    """Memory that a caller gave.

    ``shape`` and ``strides`` count cells: a cell is one element, or ``packing`` elements where the framework's type packs several
    (torch's ``float4_e2m1fn_x2``). ``device`` is the framework's device name (``"cpu"`` is ordinary memory) or, for DLPack, the number of
    the device type; ``device_index`` counts devices of one name, -1 where the array does not tell. ``owner`` keeps the memory alive.
    ``stream`` is the handle of the stream on which the array is ready, 0 for the device's default one; None where that is the stream which
    its framework has current, or there are no streams.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    device: str | int
    device_index: int
    is_writable: bool
    framework: Framework
    owner: object
    packing: int = 1
    stream: int | None = None

    @property
    def cells(self) -> int:
        """The number of cells."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def device_text(self) -> str:
        """The device in words."""
        name = self.device if isinstance(self.device, str) else f"DLPack device type {self.device}"
        return name if name == HOST or self.device_index < 0 else f"{name}:{self.device_index}"

    def __str__(self) -> str:
        packed = f" packed by {self.packing}" if self.packing > 1 else ""
        return f"{self.dtype}{packed}[{', '.join(map(str, self.shape))}]"


def view_of(value: object) -> ArrayView | None:
    """The memory of an array, or None for an object that is no array. Raises :class:`UnusableArray`."""
    if isinstance(value, np.ndarray):
        return _numpy_view(value, value)
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    if tensor is not None and isinstance(value, tensor):
        return _torch_view(value, torch)
    if isinstance(value, (np.generic, type)) or value is None:
        return None
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _dlpack_view(value)
    if hasattr(value, "__array_interface__"):
        try:
            array = np.asarray(value)
        except (TypeError, ValueError) as error:
            raise UnusableArray(f"its __array_interface__ cannot be read: {error}") from error
        return _numpy_view(array, value, framework="other")
    for name in (*dir(type(value)), *getattr(value, "__dict__", ())):
        match = _DEVICE_INTERFACE.fullmatch(name)
        if match:
            return _device_view(value, name, match[1])
    return None


def first_device(values: Iterable[object]) -> str | int | None:
    """Where the first array among ``values`` lives, as :attr:`ArrayView.device` has it; None where there is none that a kernel can use."""
    for value in values:
        if isinstance(value, (bool, int, float, str)):  # quicker than asking each for every protocol
            continue
        try:
            view = view_of(value)
        except UnusableArray:
            continue
        if view is not None:
            return view.device
    return None


def _strides_in_cells(byte_strides: tuple[int, ...], shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    if itemsize == 0 or any(stride % itemsize for stride, extent in zip(byte_strides, shape) if extent > 1):
        raise UnusableArray(f"its strides {byte_strides} in bytes are no multiples of its {itemsize}-byte elements")
    return tuple(stride // itemsize for stride in byte_strides)


def _element_hint(given: Any) -> str:
    kind = getattr(given, "kind", "c" if "complex" in str(given) else "")
    if kind == "c":
        return "pass the real and the imaginary parts as arrays of their own: x.real.copy(), x.imag.copy()"
    return "convert the elements to numbers of a type that kernels have, for example with np.array(x, dtype=np.float32)"


@lru_cache(maxsize=256)
def _element_type(given: Any) -> DType:
    """The element type of a framework's dtype or a name; asked at every call, so the answers are kept."""
    try:
        return dtypes.dtype(given)
    except UnknownDType:
        raise UnusableArray(f"its elements of type {given} have no counterpart in the kernel language", _element_hint(given)) from None


_MASKED = "it is a masked array, and a kernel would not see the mask"


def _check_byte_order(element: np.dtype[Any]) -> None:
    if not element.isnative:
        order = f"its elements ({element.str}) are not in this machine's byte order"
        raise UnusableArray(order, 'convert them with x.astype(x.dtype.newbyteorder("="))')


def _check_memory(pointer: int, shape: Iterable[int]) -> None:
    if pointer == 0 and 0 not in shape:
        raise UnusableArray("it has no memory of its own (a fake, meta, functional or lazily made tensor)")


def _numpy_view(array: np.ndarray[Any, Any], owner: object, framework: Framework = "numpy") -> ArrayView:
    masked = sys.modules.get("numpy.ma")  # not loaded: no array is masked
    if masked is not None and isinstance(array, masked.MaskedArray):
        raise UnusableArray(_MASKED)
    _check_byte_order(array.dtype)
    pointer, is_read_only = array.__array_interface__["data"]
    return ArrayView(
        pointer=pointer,
        shape=array.shape,
        strides=_strides_in_cells(array.strides, array.shape, array.itemsize),
        dtype=_element_type(array.dtype),
        device=HOST,
        device_index=0,
        is_writable=not is_read_only,
        framework=framework,
        owner=(array, owner),
    )


def _torch_view(tensor: Any, torch: Any) -> ArrayView:
    if tensor.layout is not torch.strided:
        raise UnusableArray(f"its layout is {tensor.layout}, not a dense one; convert it with .to_dense()")
    if tensor.is_nested:
        raise UnusableArray("it is a nested tensor, whose rows have lengths of their own; pad it, for example with to_padded_tensor")
    if tensor.is_neg():
        raise UnusableArray("it is lazily negated; call .resolve_neg() first")
    name = str(tensor.dtype)
    device = tensor.device
    element = _element_type(tensor.dtype)
    try:
        pointer = tensor.data_ptr()
    except RuntimeError:
        pointer = 0
    _check_memory(pointer, tensor.shape)
    _check_storage(tensor)
    return ArrayView(
        pointer=pointer,
        shape=tuple(tensor.shape),
        strides=tensor.stride(),
        dtype=element,
        device=device.type,
        device_index=device.index or 0,
        is_writable=True,
        framework="torch",
        owner=tensor,
        packing=2 if name.endswith("_x2") else 1,
    )


def _check_storage(tensor: Any) -> None:
    """That the elements of a torch tensor lie in its storage, which may have been made smaller since. Calls that the packing code takes are
    not looked at so: what frameworks exchange does not say how large a storage is, and asking torch takes a fifth of a call."""
    try:
        held = tensor.untyped_storage().nbytes()
    except (RuntimeError, NotImplementedError):  # of a kind without a storage
        return
    last = tensor.storage_offset() + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    needed = (last + 1) * tensor.element_size() if tensor.numel() else 0
    if needed > held:
        raise UnusableArray(
            f"its storage has {held} bytes, and its elements reach to {needed}: it was made smaller after the tensor was made",
            "give it its memory back with untyped_storage().resize_(...), or pass another tensor",
        )


def _dlpack_view(value: Any) -> ArrayView:
    try:
        given = dlpack.take(value)
    except dlpack.Malformed as error:
        raise UnusableArray(str(error)) from error
    _check_memory(given.pointer, given.shape)
    return ArrayView(
        pointer=given.pointer,
        shape=given.shape,
        strides=given.strides,
        dtype=_element_type(given.dtype),
        device=HOST if given.device_type == dlpack.HOST_TYPE else given.device_type,
        device_index=given.device_index,
        is_writable=not given.is_read_only,
        framework="other",
        owner=(given.capsule, value),
        packing=given.lanes,
        stream=None if given.device_type == dlpack.HOST_TYPE else 0,  # asked without a stream, it is ready on the default one
    )


def _device_view(value: Any, attribute: str, device: str) -> ArrayView:
    interface = getattr(value, attribute)
    try:
        address, is_read_only = interface["data"]
        pointer, shape = index(address), tuple(map(index, interface["shape"]))
        element = np.dtype(interface["typestr"])
        byte_strides = tuple(map(index, interface.get("strides") or row_major(shape, element.itemsize)))
        stream = interface.get("stream")
        is_masked = interface.get("mask") is not None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UnusableArray(f"its {attribute} cannot be read: {error}") from error
    if len(byte_strides) != len(shape) or min(shape, default=0) < 0:
        raise UnusableArray(f"its {attribute} has the shape {shape} and the strides {byte_strides}")
    if is_masked:
        raise UnusableArray(_MASKED)
    _check_byte_order(element)
    _check_memory(pointer, shape)
    if stream is not None and (not isinstance(stream, int) or isinstance(stream, bool) or stream <= 0):
        raise UnusableArray(f"its {attribute} names the stream {stream!r}, and a stream is a positive number or None")
    return ArrayView(
        pointer=pointer,
        shape=shape,
        strides=_strides_in_cells(byte_strides, shape, element.itemsize),
        dtype=_element_type(element),
        device=device,
        device_index=-1,
        is_writable=not is_read_only,
        framework="other",
        owner=value,
        stream=stream,
    )


class _Memory:
    """An address dressed as NumPy's array interface."""

    def __init__(self, interface: dict[str, object], owner: object) -> None:
        self.__array_interface__ = interface
        self.owner = owner


def as_numpy(view: ArrayView) -> np.ndarray[Any, Any]:
    """The memory of a view on the host as a NumPy array, without a copy. Cells of packed types come as uint8."""
    if view.device != HOST:
        raise NoSuchArray(f"memory of {view.device_text} cannot be read as a NumPy array")
    held = np.dtype(np.uint8) if view.packing > 1 else view.dtype.numpy
    if view.cells == 0:
        return np.empty(view.shape, held)
    interface: dict[str, object] = {
        "data": (view.pointer, not view.is_writable),
        "shape": view.shape,
        "strides": tuple(stride * held.itemsize for stride in view.strides),
        "typestr": held.str if held.isbuiltin == 1 else f"|V{held.itemsize}",
        "version": 3,
    }
    raw = np.asarray(_Memory(interface, view.owner))
    return raw if raw.dtype == held else raw.view(held)


def cell_shape(dtype: DType, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of a tensor of ``dtype`` as an array framework sees it: 4-bit elements lie two to a byte along the last dimension, the
    lanes of a vector along one more.

    Raises :class:`NoSuchArray` where the last dimension of a packed type is odd or missing.
    """
    if dtype.lanes > 1:
        return cell_shape(dtype.scalar, (*shape, dtype.lanes))
    if dtype.storage_bits >= 8:
        return shape
    per_byte = 8 // dtype.storage_bits
    if not shape or shape[-1] % per_byte:
        raise NoSuchArray(f"{dtype} lies {per_byte} to a byte, so the last dimension of {list(shape)} must be a multiple of {per_byte}")
    return (*shape[:-1], shape[-1] // per_byte)


def allocate(dtype: DType, shape: tuple[int, ...], like: ArrayView | None, home: str = HOST) -> Any:
    """A fresh array with undefined elements: of torch and on its device where ``like`` is a torch tensor, else of NumPy.

    Without ``like`` (a call that takes no tensor) it lies in the memory of ``home``, a device's name, and is of torch where the process has
    imported torch, as its callers expect tensors then. Raises :class:`NoSuchArray` for an element type that the framework lacks and for
    memory of a device that only torch can make, :class:`NoMemory` where there is not enough of it.
    """
    cells = cell_shape(dtype, shape)
    torch = sys.modules.get("torch")
    if torch is not None and (like is None or like.framework == "torch"):
        device = home if like is None else like.owner.device  # type: ignore[attr-defined]
        kind = _torch_carrier(dtype.scalar, torch)
        try:
            return torch.empty(cells, dtype=kind, device=device)
        except AssertionError as error:  # a torch that was built without the device
            raise NoSuchArray(str(error)) from error
        except RuntimeError as error:
            text = str(error).splitlines()[0]
            if isinstance(error, torch.OutOfMemoryError) or "alloc" in text or "overflow" in text:  # the host's allocator has no class
                raise NoMemory(text) from error
            if like is None and home != HOST:  # no device of that name is here
                raise NoSuchArray(text) from error
            raise
    if like is not None and like.device != HOST:
        raise NoSuchArray(f"memory of {like.device_text} can only be made from torch tensors; give the output as an argument")
    if like is None and home != HOST:
        raise NoSuchArray(f"the call takes no tensor, and torch, which makes memory of {home}, is not imported")
    held = carrier(dtype)
    try:
        return np.empty(cells, held)
    except (MemoryError, ValueError) as error:  # ValueError: more elements than an address can count
        raise NoMemory(str(error)) from error


def byte_size(dtype: DType, shape: tuple[int, ...]) -> int:
    """How many bytes a dense tensor takes."""
    count = dtype.lanes * dtype.storage_bits
    for extent in shape:
        count *= extent
    return -(-count // 8)


@lru_cache(maxsize=128)
def carrier(dtype: DType, torch: Any = None) -> Any:
    """The dtype of NumPy, or of torch where its module is given, that holds elements of ``dtype``. Raises :class:`NoSuchArray`."""
    return _numpy_carrier(dtype.scalar) if torch is None else _torch_carrier(dtype.scalar, torch)


def _numpy_carrier(dtype: DType) -> np.dtype[Any]:
    if dtype.storage_bits < 8:
        return np.dtype(np.int8 if dtype.kind == "int" else np.uint8)
    try:
        return dtype.numpy
    except UnknownDType as error:
        raise NoSuchArray(str(error)) from error


def _torch_carrier(dtype: DType, torch: Any) -> Any:
    names = {"tfloat32": "float32", "int4": "int8", "uint4": "uint8", "float4_e2m1fn": "float4_e2m1fn_x2"}
    found = getattr(torch, names.get(dtype.name, dtype.name), None)
    if found is None and dtype.storage_bits <= 8:
        found = torch.uint8
    if not isinstance(found, torch.dtype):
        raise NoSuchArray(f"torch has no dtype {dtype}")
    return found


def hint_for_traced(value: Any) -> str | None:
    """What to write instead where a value of a kernel being traced was given for a tensor; None for any other value."""
    return "a compiled kernel cannot be called inside of another: write it as a @T.macro" if hasattr(value, "described") else None
