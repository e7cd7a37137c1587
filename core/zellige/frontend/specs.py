"""What a parameter's annotation says, before a kernel is traced.

``T.Tensor(...)`` and its relatives make these; :mod:`zellige.frontend.parameters` turns them into parameters of the tile IR.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from zellige.dtypes import DType


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """The annotation of a tensor parameter: sizes (Python ints, size variables, expressions), dtype, strides in elements or None if dense.

    ``shape`` is None where the annotation leaves it to the call; ``strides`` are then () for a strided tensor, whose
    strides the call gives too.
    """

    shape: tuple[Any, ...] | None
    dtype: DType
    strides: tuple[Any, ...] | None = None
    space: str = "global"


@dataclass(frozen=True, slots=True, kw_only=True)
class PointerSpec:
    """The annotation ``T.ptr``: a tensor whose shape and dtype are given in the body by ``T.make_tensor`` or an annotation."""

    dtype: DType | None = None


class ReferenceSpec:
    """The annotation ``T.Ref`` of a macro's parameter: the macro may assign to the variable or element that it is given."""
