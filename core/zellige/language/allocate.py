"""On-chip buffers, variables, workspace, barriers: the T.alloc_* functions, reducers apart."""

from __future__ import annotations

from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder
from zellige.frontend.values import Tile, Variable, declare, here
from zellige.frontend.vectors import VectorVariable
from zellige.ir.expr import Buffer, Const, Expr
from zellige.ir.stmt import TensorParam
from zellige.language.keywords import check_hints, count_of, refuse_placement
from zellige.language.tensors import element_type, shape_tuple, stored_type

_SPACES: Final = {"shared.dyn": "shared", "local.fragment": "fragment", "local.var": "var", "local.reducer": "fragment"}


def space_of(scope: Any, operation: str) -> str:
    """The memory space that a scope of TileLang names; a target's own space keeps its name. E258: no name."""
    if not isinstance(scope, str):
        raise catalogue.E258.error(here(), operation=operation, wanted="the name of a memory space", given=arithmetic.describe(scope))
    return _SPACES.get(scope, scope)


def tile_shape(shape: Any) -> tuple[Expr, ...]:
    """The extents of a buffer; E220 for one that is not positive."""
    span = here()
    extents = tuple(arithmetic.index(e, span) for e in shape_tuple(shape))
    for extent in extents:
        if isinstance(extent, Const) and extent.value < 1:
            raise catalogue.E220.error(span, given=extent.value)
    return extents


def constant_shape(shape: Any, operation: str) -> tuple[Expr, ...]:
    """The extents of an on-chip buffer, which are known while compiling. E105: an extent that is not; E220."""
    extents = tile_shape(shape)
    for extent in extents:
        if not isinstance(extent, Const):
            hint = "allocate the largest size that a call needs, a number or T.const, and use a slice of it: tile[0:n]"
            raise catalogue.E105.error(here(), given=f"an extent of the buffer of {operation}", hint=hint)
    return extents


def allocate(shape: Any, dtype: Any, space: str, default_name: str) -> Tile:
    """A fresh on-chip buffer, named as the author is about to name it."""
    operation = f"T.alloc_{default_name}"
    builder = current_builder(operation)
    builder.require_body(operation)
    return Tile(builder.allocate(default_name, stored_type(dtype), constant_shape(shape, operation), space_of(space, operation)))


def alloc_shared(shape: Any, dtype: Any, scope: str = "shared") -> Tile:
    """A tile that all lanes of the block share. Elements are undefined until written. E105, E220: extents; E217: dtype."""
    return allocate(shape, dtype, scope, "shared")


def alloc_fragment(shape: Any, dtype: Any, scope: str = "fragment") -> Tile:
    """A tile of the block in the lanes' registers. Elements are undefined until written. E105, E220: extents; E217: dtype."""
    return allocate(shape, dtype, scope, "fragment")


def alloc_local(shape: Any, dtype: Any, scope: str = "local") -> Tile:
    """An array of a lane, or of a point inside T.Parallel; the block's where there are neither. E105, E220: extents; E217: dtype."""
    return allocate(shape, dtype, scope, "local")


def alloc_buffer(
    shape: Any,
    dtype: Any = "float32",
    scope: str = "global",
    *,
    space: str | None = None,
    annotations: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    align: Any = None,
    offset_factor: Any = None,
    buffer_type: Any = None,
    axis_separators: Any = None,
) -> Tile:
    """A buffer of the memory space that ``scope``, or ``space``, names: global as :func:`alloc_global`, any other as the function of that
    space. A target's own space keeps its name ("acme.l1"); E413 where the target that the kernel is compiled for has none of it. Elements
    lie densely: E259 for what says otherwise."""
    check_hints("T.alloc_buffer", annotations=annotations, align=align, offset_factor=offset_factor)
    placed = {"strides": strides, "elem_offset": elem_offset, "buffer_type": buffer_type, "axis_separators": axis_separators}
    refuse_placement("T.alloc_buffer", **placed)
    space = space_of(scope if space is None else space, "T.alloc_buffer")
    return alloc_global(shape, dtype) if space == "global" else allocate(shape, dtype, space, "buffer")


def alloc_var(dtype: Any, *args: Any, scope: str = "local.var", init: Any = None) -> Variable | VectorVariable:
    """A mutable scalar, or vector for a vector type: assigning to its name stores. Without ``init`` it is 0.

    Forms: ``(dtype)``, ``(dtype, init)``, ``(dtype, scope)``, ``(dtype, init, scope)``. E221: two initial values; E254: it does not fit;
    E258: another scope.
    """
    builder = current_builder("T.alloc_var")
    builder.require_body("T.alloc_var")
    for argument in args:
        if isinstance(argument, str):
            scope = argument
            continue
        if init is not None:
            raise catalogue.E221.error(here())
        init = argument
    if not isinstance(scope, str) or scope.partition(".")[0] not in ("local", "var"):
        raise catalogue.E258.error(here(), operation="T.alloc_var", wanted='"local.var" as scope', given=arithmetic.describe(scope))
    element = element_type(dtype)
    initial = 0 if init is None else init
    if element.lanes > 1:
        return VectorVariable.declare("vector", element, initial)
    return declare("var", element, initial)


class Barriers:
    """Barriers of a block that the author made: operands of a target's dialect. The neutral operations need none.

    ``arrivals`` are the arrivals that each waits for.
    """

    def __init__(self, arrivals: tuple[int, ...]) -> None:
        self.arrivals = arrivals

    @property
    def described(self) -> str:
        return "a barrier"

    def __len__(self) -> int:
        return len(self.arrivals)

    def __getitem__(self, position: Any) -> Barriers:
        constant = getattr(position, "constant", position)
        if not isinstance(constant, int):
            return Barriers(self.arrivals[:1])
        if not -len(self.arrivals) <= constant < len(self.arrivals):
            raise catalogue.E241.error(here(), what="barrier", given=constant, count=len(self.arrivals))
        return Barriers((self.arrivals[constant],))


def alloc_barrier(arrive_count: int | list[int]) -> Barriers:
    """One barrier, or one for each count of a list, for operations of a target's dialect. E245: a count below 1."""
    current_builder("T.alloc_barrier")
    counts = tuple(arrive_count) if isinstance(arrive_count, (list, tuple)) else (arrive_count,)
    hint = "arrive_count must be at least 1, for each barrier"
    return Barriers(tuple(count_of(number, "as number of arrivals", hint=hint) for number in counts))


def alloc_global(shape: Any, dtype: Any, scope: str = "global") -> Tile:
    """Global memory that all blocks of the call share; made by the runtime, undefined until written. Sizes follow from the arguments.

    E258: another scope.
    """
    if scope != "global":
        raise catalogue.E258.error(here(), operation="T.alloc_global", wanted='"global" as scope', given=arithmetic.describe(scope))
    builder = current_builder("T.alloc_global")
    name = builder.name_for("workspace")
    buffer = Buffer(
        name=builder.unique(name), source_name=name, dtype=stored_type(dtype), shape=tile_shape(shape), space="global", span=builder.span
    )
    builder.params.append(TensorParam(buffer=buffer, role="workspace"))
    return Tile(buffer)
