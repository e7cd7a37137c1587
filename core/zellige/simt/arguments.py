"""What the arguments of a launch must be for a thread-level program: the bits of its numbers, the addresses of its tensors.

In: numbers and addresses of a call. Out: bits (:func:`bits_of`), or E610 (:func:`require`). It loads nothing else of the family, so that a
kernel found in the cache is launched without it.
"""

from __future__ import annotations

import numpy as np

from zellige.diagnostics import catalogue
from zellige.dtypes import DType


def bits_of(value: float, t: DType) -> int:
    """The bits of a value of a float dtype."""
    array = np.array([value], dtype=np.float64).astype(t.numpy)
    return int(array.view(f"u{array.dtype.itemsize}")[0])


def require(name: str, dtype: str, alignment: int, address: int, element_bytes: int) -> None:
    """Raise E610 where a tensor does not begin at a multiple of ``alignment`` bytes."""
    if address % alignment:
        wide = dtype if alignment <= element_bytes else f"{alignment // element_bytes} elements of {dtype} that are moved together"
        raise catalogue.E610.error(name=name, alignment=alignment, dtype=wide, address=address)
