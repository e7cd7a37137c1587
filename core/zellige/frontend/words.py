"""The words of the kernel language for this package's classes. In: a message of Python or of a library. Out: the same in a user's words.

Python names the types of operands in its messages; a kernel's author knows tiles, elements and slices, not the classes behind them.
"""

from __future__ import annotations

import re
from typing import Final

_WORDS: Final = {
    "Address": "address",
    "DialectOnly": "name of another target",
    "Element": "element of a tile",
    "ElementReference": "element of a tile",
    "ForSpec": "loop",
    "GridSpec": "grid",
    "GridVariables": "group of block indices",
    "KernelBlock": "T.Kernel block",
    "MapSpec": "T.Parallel loop",
    "NamedElement": "element of a tile",
    "NamedVariable": "variable of the kernel",
    "NotAvailable": "name that is not available yet",
    "PendingTensor": "tensor",
    "PersistentSpec": "T.Persistent loop",
    "PlacedVector": "vector",
    "PointerSpec": "T.ptr",
    "Scalar": "run-time value",
    "SizeNames": "group of sizes",
    "SoleGridVariable": "block index",
    "TensorFactory": "T.Tensor",
    "TensorSpec": "tensor annotation",
    "Tile": "tile",
    "TileRegion": "slice of a tile",
    "TypeName": "dtype",
    "Variable": "variable",
    "Vector": "vector",
    "VectorReference": "vector variable",
    "VectorVariable": "vector variable",
    "WhileSpec": "T.While loop",
}

_CLASS: Final = re.compile(r"(?<![\w.])(" + "|".join(sorted(_WORDS, key=len, reverse=True)) + r")(?!\w)")


def in_users_words(message: str) -> str:
    """``message`` with the words of the language in the place of class names."""
    return _CLASS.sub(lambda found: _WORDS[found[1]], message)
