"""Tensors to try a kernel with: which values, of which framework.

In: an element type, a shape and a :class:`TensorSupplyType`. Out: a fresh tensor, of torch when the caller has imported it, else of NumPy.
The values follow the framework's own random state (``torch.manual_seed`` or ``numpy.random.seed``).
"""

from __future__ import annotations

import importlib
import sys
from enum import Enum
from typing import Any

import numpy as np

from zellige.diagnostics import catalogue
from zellige.dtypes import DType
from zellige.runtime.arrays import HOST, allocate, as_numpy, view_of


class TensorSupplyType(Enum):
    """How tensors are filled.

    ``Integer``: whole numbers from -2 to 2 (unsigned 0 to 2, bool both values, 8-bit floats -128 to 127, types below a byte any bits).
    ``Uniform``: from -1 to 1. ``Normal``: normally distributed about -1. ``Randn``: about 0. ``Auto``: Uniform for floats of 16 bits and
    more, Integer for the rest. Whole-number types under Uniform, Normal and Randn are filled with ones.
    """

    Integer = 1
    Uniform = 2
    Normal = 3
    Randn = 4
    Zero = 5
    One = 6
    Auto = 7


def supply(dtype: DType, shape: tuple[int, ...], kind: TensorSupplyType, device: str = HOST) -> Any:
    """A fresh tensor of ``shape`` in elements, filled by ``kind``. A ``device`` other than the host needs torch, which is then imported.

    Raises E644 where it is not installed or cannot reach the device.
    """
    torch = sys.modules.get("torch") if device == HOST else _required_torch(device)
    like = view_of(torch.empty(0)) if torch is not None else None
    made = allocate(dtype, shape, like)
    view = view_of(made)
    assert view is not None, "allocate returned no array"
    memory = as_numpy(view)
    seed = np.random.randint(2**31 - 1) if torch is None else int(torch.randint(2**31 - 1, ()))
    memory[...] = _values(dtype, memory.shape, kind, np.random.default_rng(seed), memory.dtype)
    if device == HOST:
        return made
    try:
        return made.to(device)
    except (AssertionError, ImportError, RuntimeError) as cause:  # a torch that was built without the device, a machine without one
        reason = f"which says: {str(cause).splitlines()[0]}"
        raise catalogue.E644.error(device=device, reason=reason, hint="`zellige doctor` shows which devices work here") from cause


def _required_torch(device: str) -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError as cause:
        raise catalogue.E644.error(device=device, reason="which cannot be imported") from cause


def _values(
    dtype: DType, shape: tuple[int, ...], kind: TensorSupplyType, random: np.random.Generator, held: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """Values for memory of ``shape`` cells of type ``held``, which for types below a byte are bytes of packed elements."""
    is_packed = dtype.storage_bits < 8
    if kind is TensorSupplyType.Auto:
        is_real = dtype.is_float and dtype.bits >= 16
        kind = TensorSupplyType.Uniform if is_real else TensorSupplyType.Integer
    if kind is TensorSupplyType.Zero:
        return np.zeros(shape, held)
    if kind is TensorSupplyType.Integer:
        if is_packed:
            return random.integers(0, 256, shape, dtype=np.uint8).view(held)
        low, high = _whole_range(dtype)
        return random.integers(low, high, shape).astype(held)
    if kind is TensorSupplyType.One or not dtype.is_float or is_packed:
        return np.full(shape, _packed_one(dtype) if is_packed else 1).astype(np.uint8 if is_packed else held).view(held)
    if kind is TensorSupplyType.Uniform:
        values = random.uniform(-1.0, 1.0, shape)
    else:
        values = random.normal(-1.0 if kind is TensorSupplyType.Normal else 0.0, 1.0, shape)
    return (values if dtype.mantissa else np.abs(values)).astype(held)  # a type without mantissa, float8_e8m0fnu, has no sign either


def _whole_range(dtype: DType) -> tuple[int, int]:
    if dtype.kind == "uint":
        return 0, 3
    if dtype.is_bool:
        return 0, 2
    if dtype.is_float and dtype.bits == 8:
        return (-128, 128) if dtype.mantissa else (1, 128)
    return -2, 3


def _packed_one(dtype: DType) -> int:
    """Both halves of a byte hold the element 1 (float4_e2m1fn: sign, exponent 01, mantissa 0)."""
    return 0x22 if dtype.is_float else 0x11
