"""How exact the leaves of mathematics functions are.

In: nothing. Out: :data:`LARGEST_ERRORS`, which the capabilities state and docs/numbers.md shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LARGEST_ERRORS: Final[Mapping[str, float]] = {
    "exp": 1.0, "exp2": 1.0, "exp10": 1.1, "expm1": 1.6, "log": 1.0, "log2": 1.2, "log10": 1.1, "log1p": 1.6,
    "tanh": 2.5, "sigmoid": 2.5, "erf": 1.2, "pow": 0.51, "rsqrt": 1.5, "sin": 1.6, "cos": 1.6,
}  # fmt: skip
"""Units in the last place of a float32 result, over all arguments. Source: tests/cpu/leaf/test_leaf_math.py, which tries all 2^32."""

OF_TWO: Final = frozenset({"pow"})
"""Functions of two operands; what the contract states is of one."""
