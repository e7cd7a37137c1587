"""What T.print writes: one form for every backend.

In: the message of a Print statement and what it prints, as a NumPy value or array of the element type. Out: the text of one line, or
of several for a tile of more than one dimension.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def printed(message: str, value: np.ndarray[Any, np.dtype[Any]] | np.generic | None) -> str:
    """``message: value``; the message alone where there is no value, the value alone where the message is empty.

    A number is written with as few digits as tell it apart from its neighbours in its type, a tile as NumPy writes it, in full.
    """
    if value is None:
        return message
    array = np.asarray(value)
    if array.ndim == 0:
        text = str(array[()])
    else:
        text = np.array2string(array, separator=", ", threshold=sys.maxsize, max_line_width=sys.maxsize)
    return f"{message}: {text}" if message else text


def print_line(message: str, value: np.ndarray[Any, np.dtype[Any]] | np.generic | None) -> None:
    """Write :func:`printed` to the standard output."""
    sys.stdout.write(printed(message, value) + "\n")
