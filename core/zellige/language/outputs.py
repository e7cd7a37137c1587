"""Tensors and sizes that a kernel's body declares: T.empty, T.const, T.ptr, T.make_tensor, T.match_buffer."""

from __future__ import annotations

from typing import Any

from zellige.diagnostics import catalogue
from zellige.dtypes import dtype as as_dtype
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder
from zellige.frontend.parameters import PendingTensor, place
from zellige.frontend.specs import PointerSpec, TensorSpec
from zellige.frontend.values import Scalar, Tile, here
from zellige.ir.expr import Var
from zellige.language.keywords import check_hints, refuse_placement, text
from zellige.language.tensors import element_type, shape_tuple, stored_type


def empty(*shape: Any, dtype: Any = None, name: str = "output") -> Tile:
    """A tensor that each call of the kernel makes: returned by the kernel it is an output, otherwise scratch memory.

    Forms: ``T.empty((M, N), dtype)``, ``T.empty(M, N, dtype=dtype)``; float32 without a dtype. Elements are undefined until written.
    It stands before the T.Kernel blocks (E253).
    """
    builder = current_builder("T.empty")
    if builder.is_inside_launch:
        raise catalogue.E253.error(here())
    sizes = list(shape)
    if sizes and isinstance(sizes[0], (tuple, list)):
        if len(sizes) == 2 and dtype is None:
            dtype = sizes.pop()
        sizes = list(shape_tuple(sizes[0])) + sizes[1:]
    elif sizes and dtype is None and not isinstance(sizes[-1], (int, Scalar)):
        dtype = sizes.pop()
    extents = tuple(arithmetic.index(size, here()) for size in sizes)
    element = stored_type("float32" if dtype is None else dtype)
    return Tile(builder.empty(builder.name_for(text(name, "T.empty", "name")), as_dtype(element.name), extents))


def const(name: str, dtype: Any = "int32") -> Any:
    """Sizes of the eager style that are constants of the compiled kernel: ``M, N = T.const("M, N")``.

    Each is solved from a place where it stands alone in the shape or strides of a tensor parameter, or passed as a keyword. E153 outside
    the eager style, E219 for what is no identifier, E250 where nothing gives the size.
    """
    builder = current_builder("T.const")
    names = name.replace(",", " ").split() if isinstance(name, str) else []
    if not names or not all(part.isidentifier() for part in names):
        raise catalogue.E219.error(here(), given=repr(name))
    sizes = [builder.constant_size(part, as_dtype(element_type(dtype).name)) for part in names]
    values = tuple(Scalar(size) if isinstance(size, Var) else size for size in sizes)
    return values[0] if len(values) == 1 else values


class _Pointer(PointerSpec):
    """``T.ptr``: a tensor parameter whose shape the body gives with T.make_tensor. ``T.ptr("float16")`` names the element type."""

    __slots__ = ()

    def __call__(self, dtype: Any = None, storage_scope: str = "global") -> PointerSpec:
        if storage_scope not in ("", "global"):
            given = arithmetic.describe(storage_scope)
            raise catalogue.E258.error(here(), operation="T.ptr", wanted='"global" as storage_scope', given=given)
        return PointerSpec(dtype=None if dtype is None or dtype == "void" else as_dtype(element_type(dtype).name))


ptr = handle = _Pointer()


def make_tensor(pointer: Any, shape: Any, dtype: Any = None, strides: Any = None) -> Tile:
    """A tensor of the given shape, element type and strides over the memory of a ``T.ptr`` parameter. E126 where it is none."""
    return _tensor_over(pointer, shape, dtype, strides, "T.make_tensor")


def match_buffer(
    pointer: Any,
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "default",
    axis_separators: Any = None,
) -> Tile:
    """:func:`make_tensor` as older programs write it, for a parameter annotated ``T.ptr`` or ``T.handle``.

    ``align`` and ``offset_factor`` are promises about the address that nothing here relies on. E126: no such parameter; E259: another
    of the arguments says something, since an argument of a kernel begins at its first element and lies in global memory.
    """
    operation = "T.match_buffer"
    placed = {"elem_offset": elem_offset, "scope": scope, "buffer_type": buffer_type, "axis_separators": axis_separators}
    refuse_placement(operation, data=data, **placed)
    check_hints(operation, align=align, offset_factor=offset_factor)
    return _tensor_over(pointer, shape, dtype, strides or None, operation)


def _tensor_over(pointer: Any, shape: Any, dtype: Any, strides: Any, operation: str) -> Tile:
    builder = current_builder(operation)
    if not isinstance(pointer, PendingTensor):
        hint = "an address that is loaded says neither size nor owner: pass each tensor of a table as a parameter"
        raise catalogue.E126.error(builder.span, name=arithmetic.describe(pointer), reason="is no T.ptr parameter", hint=hint)
    element = stored_type("float32" if dtype is None else dtype)
    layout = None if strides is None else shape_tuple(strides)
    return place(pointer, TensorSpec(shape=shape_tuple(shape), dtype=as_dtype(element.name), strides=layout))
