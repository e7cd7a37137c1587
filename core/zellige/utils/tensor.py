"""``from zellige.utils.tensor import ...``: the names of TileLang's module; most of them live in :mod:`zellige.profiler`."""

from __future__ import annotations

from typing import Any

from zellige.dtypes import dtype as as_dtype
from zellige.profiler import TensorSupplyType, get_tensor_supply, torch_assert_close

__all__ = ["TensorSupplyType", "get_tensor_supply", "is_float8_dtype", "map_torch_type", "torch_assert_close"]


def map_torch_type(intype: Any) -> Any:
    """The torch dtype in which tensors of an element type are passed. UnknownDType: no element type, or torch has none for it."""
    return as_dtype(intype).as_torch()


def is_float8_dtype(dtype: Any) -> bool:
    """Whether an element type, torch's too, is a floating-point number of 8 bits."""
    found = as_dtype(dtype)
    return found.kind == "float" and found.bits == 8
