"""What a backend writes its own operations of the language with.

In: tiles, values and attributes as a kernel's author passes them to ``T.<name>``. Out: a statement of the tile IR that only that backend
has a meaning for. A backend's hook ``dialect`` answers with functions that call :func:`operation`::

    def acme_dma(source, destination):
        operation("acme.dma", reads=(source,), writes=(destination,))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zellige.dtypes import DType
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder
from zellige.frontend.regions import region_of
from zellige.frontend.values import Scalar
from zellige.ir.stmt import Dialect
from zellige.language.tensors import element_type


def operation(
    name: str,
    *,
    reads: Sequence[Any] = (),
    writes: Sequence[Any] = (),
    values: Sequence[Any] = (),
    attributes: Mapping[str, bool | int | float | str] | None = None,
    result: DType | str | None = None,
) -> Scalar | None:
    """Adds the operation ``name`` ("backend.operation") to the kernel being traced. ``reads`` and ``writes`` are tiles or parts of them,
    ``values`` scalars. With ``result``, the dtype of a value that it gives, that value is returned.

    E101, E102 outside of a kernel; E222 for what is no tile.
    """
    spelling = f"T.{name.rpartition('.')[2]}"
    builder = current_builder(spelling)
    builder.require_body(spelling)
    var = None if result is None else builder.var(builder.name_for("result"), element_type(result), "value")
    builder.emit(
        Dialect(
            op=name,
            inputs=tuple(region_of(tile, spelling) for tile in reads),
            outputs=tuple(region_of(tile, spelling) for tile in writes),
            operands=tuple(arithmetic.as_expr(value, builder.span) for value in values),
            attributes=tuple((attributes or {}).items()),
            result=var,
            span=builder.span,
        )
    )
    return None if var is None else Scalar(var)
