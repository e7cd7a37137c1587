"""The algebra of layouts: where elements live in registers, lanes and memory, as one kind of value.

In: sizes and named dimensions. Out: :class:`Layout` values and what is computed with them. See :mod:`zellige.layouts.digits` for the form,
``docs/layouts.md`` for the guide.
"""

from zellige.layouts.access import Vector, vector_width
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
from zellige.layouts.banks import Access, Banks, conflict_degree, conflict_free, counted_degree, degrees
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
from zellige.layouts.convert import Conversion, Rename, Round, Shuffle, ThroughMemory, convert, holder_map
from zellige.layouts.digits import Digit
from zellige.layouts.distribute import LANE, REGISTER, Distribution, distribute, tiled
from zellige.layouts.fit import fitted
from zellige.layouts.layout import Axis, Dimension, Layout, is_same_map, layout
from zellige.layouts.reduction import Reduction, reduction

__all__ = [
    "LANE",
    "OFFSET",
    "REGISTER",
    "Access",
    "Axis",
    "Banks",
    "Conversion",
    "Digit",
    "Dimension",
    "Distribution",
    "FreeDigit",
    "Layout",
    "Reduction",
    "Rename",
    "Round",
    "Shuffle",
    "ThroughMemory",
    "Vector",
    "blocked",
    "column_major",
    "compose",
    "conflict_degree",
    "conflict_free",
    "convert",
    "copies",
    "counted_degree",
    "degrees",
    "distribute",
    "divide",
    "divided_axis",
    "fitted",
    "free_digits",
    "from_bases",
    "holder_map",
    "identity",
    "invert",
    "is_same_map",
    "joined",
    "layout",
    "mixed",
    "padded",
    "product",
    "reduction",
    "renamed",
    "reordered",
    "resized",
    "restricted",
    "right_inverse",
    "row_major",
    "sliced",
    "strided_memory",
    "swizzled",
    "tiled",
    "vector_width",
]
