"""The algebra of layouts: where elements live in registers, lanes and memory, as one kind of value.

In: sizes and named dimensions. Out: :class:`Layout` values and what is computed with them. See :mod:`zellige.layouts.digits` for the form,
``docs/layouts.md`` for the guide.
"""

from zellige.layouts.algebra import (
    FreeDigit,
    compose,
    copies,
    divide,
    divided_axis,
    free_digits,
    invert,
    joined,
    product,
    renamed,
    reordered,
    resized,
    restricted,
    right_inverse,
    sliced,
)
from zellige.layouts.build import (
    OFFSET,
    blocked,
    column_major,
    from_bases,
    identity,
    mixed,
    padded,
    row_major,
    strided_memory,
    swizzled,
)
from zellige.layouts.digits import Digit
from zellige.layouts.layout import Axis, Dimension, Layout, is_same_map, layout

__all__ = [
    "OFFSET",
    "Axis",
    "Digit",
    "Dimension",
    "FreeDigit",
    "Layout",
    "blocked",
    "column_major",
    "compose",
    "copies",
    "divide",
    "divided_axis",
    "free_digits",
    "from_bases",
    "identity",
    "invert",
    "is_same_map",
    "joined",
    "layout",
    "mixed",
    "padded",
    "product",
    "renamed",
    "reordered",
    "resized",
    "restricted",
    "right_inverse",
    "row_major",
    "sliced",
    "strided_memory",
    "swizzled",
]
