"""``from zellige.utils.tensor import ...``: the names of TileLang's module, which live in :mod:`zellige.profiler`."""

from __future__ import annotations

from zellige.profiler import TensorSupplyType, get_tensor_supply, torch_assert_close

__all__ = ["TensorSupplyType", "get_tensor_supply", "torch_assert_close"]
