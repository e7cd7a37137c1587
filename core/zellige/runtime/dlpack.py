"""Reading DLPack capsules, the exchange format of array frameworks (DLPack 1.1, `dlpack.h`).

In: an object with ``__dlpack__`` and ``__dlpack_device__``. Out: a :class:`Taken`, whose ``capsule`` keeps the memory alive:
the capsule is never marked as used, so its own destructor gives the memory back. NumPy's reader is not used because it refuses
the element types NumPy lacks and takes arrays of the older format for read-only.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Final

from zellige.dtypes import DType

HOST_TYPE: Final = 1
"""The device type of ordinary memory."""

_READ_ONLY: Final = 1
_PADDED: Final = 4  # sub-byte elements take a byte each

_BOOL: Final = 6

# type code, and bits where a code stands for one width
_CODES: Final[dict[int, str]] = {0: "int", 1: "uint", 2: "float", 4: "bfloat", _BOOL: "bool"}
_NARROW: Final[dict[int, str]] = {
    7: "float8_e3m4",
    8: "float8_e4m3",
    9: "float8_e4m3b11fnuz",
    10: "float8_e4m3fn",
    11: "float8_e4m3fnuz",
    12: "float8_e5m2",
    13: "float8_e5m2fnuz",
    14: "float8_e8m0fnu",
    15: "float6_e2m3fn",
    16: "float6_e3m2fn",
    17: "float4_e2m1fn",
}


class Malformed(ValueError):
    """The object's DLPack export cannot be used. The text says why."""


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("index", ctypes.c_int32))


class _Type(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _ManagedVersioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a capsule says. ``strides`` are in cells of ``lanes`` elements; ``dtype`` is the element type's name."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    lanes: int
    device_type: int
    device_index: int
    is_read_only: bool
    capsule: object


def take(value: Any) -> Taken:
    """Ask ``value`` for its memory. Raises :class:`Malformed`."""
    try:
        capsule = _ask(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise Malformed(f"its framework refuses to export it: {error}") from error
    is_versioned = _is_named(capsule, b"dltensor_versioned")
    if not is_versioned and not _is_named(capsule, b"dltensor"):
        raise Malformed("its __dlpack__ gives no DLPack capsule")
    address = _pointer(capsule, b"dltensor_versioned" if is_versioned else b"dltensor")
    flags = 0
    if is_versioned:
        managed = _ManagedVersioned.from_address(address)
        if managed.major != 1:
            raise Malformed(f"it exports DLPack version {managed.major}, which has another layout than version 1")
        tensor, flags = managed.tensor, managed.flags
    else:
        tensor = _Managed.from_address(address).tensor
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    return Taken(
        pointer=(tensor.data or 0) + tensor.byte_offset,
        shape=shape,
        strides=tuple(tensor.strides[axis] for axis in range(tensor.ndim)) if tensor.strides else _dense(shape),
        dtype=_name(tensor.dtype, is_padded=bool(flags & _PADDED)),
        lanes=tensor.dtype.lanes,
        device_type=tensor.device.type,
        device_index=tensor.device.index,
        is_read_only=bool(flags & _READ_ONLY),
        capsule=capsule,
    )


def _ask(value: Any) -> object:
    try:
        return value.__dlpack__(max_version=(1, 1))
    except TypeError:  # an exporter older than version 1 of the protocol
        return value.__dlpack__()


def _is_named(capsule: object, name: bytes) -> bool:
    is_valid = ctypes.pythonapi.PyCapsule_IsValid
    is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
    is_valid.restype = ctypes.c_int
    return bool(is_valid(capsule, name))


def _pointer(capsule: object, name: bytes) -> int:
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    get_pointer.restype = ctypes.c_void_p
    return int(get_pointer(capsule, name))


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def _name(given: _Type, *, is_padded: bool) -> str:
    code, bits, lanes = given.code, given.bits, given.lanes
    name = _NARROW.get(code) or _CODES.get(code)
    if name is None:
        raise Malformed(f"its DLPack type code {code} has no counterpart in the kernel language")
    if bits == 4:
        if lanes != 2 or is_padded:
            raise Malformed("its 4-bit elements are not exported two to a byte; pass the bytes as int8 or uint8")
    elif lanes != 1:
        raise Malformed(f"its elements are vectors of {lanes}")
    return name if code == _BOOL or code in _NARROW else f"{name}{bits}"


def dtype_number(dtype: DType) -> int | None:
    """An element type of 8 bits or more as the four bytes of ``DLDataType``, read as one number; None where DLPack has none."""
    if dtype.storage_bits < 8 or dtype.bits == 6:
        return None
    for code, name in _NARROW.items():
        if name == dtype.name:
            return code | dtype.bits << 8 | 1 << 16
    for code, name in _CODES.items():
        if dtype.name == (name if code == _BOOL else f"{name}{dtype.bits}"):
            return code | (8 if code == _BOOL else dtype.bits) << 8 | 1 << 16
    return None


def exchange_table(capsule: object) -> int | None:
    """The address of the functions by which a type of tensors describes itself (``DLPackExchangeAPI``); None for another capsule."""
    name = b"dlpack_exchange_api"
    if not _is_named(capsule, name):
        return None
    address = _pointer(capsule, name)
    return address if ctypes.c_uint32.from_address(address).value == 1 else None
