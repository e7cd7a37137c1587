"""Parameters: from annotations to the parameters of a kernel.

In: a parameter's name and what its annotation says (a TensorSpec, a PointerSpec, an element type, Python's int, float, bool), or
nothing. Out: the value that the name has in the body, and a parameter of the tile IR in its place. A tensor without annotation stays
:class:`PendingTensor` until the body annotates it, ``T.make_tensor`` or ``T.match_buffer`` gives its shape, or the call's argument does.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from zellige.diagnostics import Span, catalogue
from zellige.diagnostics.wording import counted
from zellige.dtypes import DType, UnknownDType, dtype as as_dtype
from zellige.frontend import arithmetic
from zellige.frontend.builder import Builder
from zellige.frontend.scopes import Trace
from zellige.frontend.specs import PointerSpec, TensorSpec
from zellige.frontend.values import Scalar, Tile
from zellige.ir.expr import INT32, Buffer, Const, Expr, Var, const
from zellige.ir.stmt import ScalarParam, TensorParam

DESCRIBING: Final = ("make_tensor", "match_buffer")
"""The operations that give a tensor parameter its shape and element type: they take it as it is."""

_PYTHON_NUMBERS: Final = {int: "int32", float: "float32", bool: "bool"}


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenTensor:
    """What a call's argument says about an unannotated tensor. ``shape`` and ``strides`` count cells of ``packing`` elements."""

    shape: tuple[int, ...]
    dtype: DType
    strides: tuple[int, ...] | None = None
    packing: int = 1


@dataclass(eq=False)
class PendingTensor:
    """A tensor parameter whose shape is not known yet. ``position`` is its place among the kernel's parameters."""

    name: str
    position: int
    builder: Builder
    span: Span | None
    given: GivenTensor | None = None
    resolved: Tile | None = None
    is_output: bool = False
    takes_strides: bool = False  # T.StridedTensor without a shape: strides too are those of the call's argument
    is_from_call: bool = False  # its shape and dtype are those of the call's argument

    @property
    def described(self) -> str:
        return f"{self.name}, a tensor whose shape is not given yet"

    def tile(self) -> Tile:
        """The tensor with the shape and dtype of the call's argument. E125 where there is none, E284 where it is an output."""
        if self.resolved is None:
            if self.given is None and self.is_output:
                raise catalogue.E284.error(self.span, name=self.name)
            if self.given is None:
                raise catalogue.E125.error(self.span, name=self.name, what="shape and element type")
            self.is_from_call = True
            shape = self.given.shape
            if self.given.packing > 1 and shape:
                shape = (*shape[:-1], shape[-1] * self.given.packing)
            strides = self.given.strides if self.takes_strides and self.given.packing == 1 else None
            self.resolved = place(self, TensorSpec(shape=shape, dtype=self.given.dtype, strides=strides))
        return self.resolved

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.tile(), name)

    def __getitem__(self, position: Any) -> Any:
        return self.tile()[position]

    def __setitem__(self, position: Any, value: Any) -> None:
        self.tile()[position] = value

    def __len__(self) -> int:
        return len(self.tile())


class _Vacant:
    """Holds the place of a tensor among the parameters until its shape is known."""


def without_parentheses(annotation: Any) -> Any:
    """What an annotation means: ``A: T.Tensor`` is ``A: T.Tensor()``, a tensor whose shape the call or the body gives."""
    return annotation() if getattr(annotation, "is_tensor_factory", False) else annotation


def declare_parameter(
    builder: Builder, name: str, annotation: Any, *, given: GivenTensor | None, span: Span | None
) -> Any:
    """Adds one parameter and returns its value in the body. E125: the annotation is missing or says nothing about the kernel."""
    builder.span = span
    if isinstance(annotation, TensorSpec) and annotation.shape is not None:
        pending = _pending(builder, name, given, span)
        return place(pending, annotation)
    if isinstance(annotation, Tile):
        pending = _pending(builder, name, given, span)
        return place(pending, TensorSpec(shape=annotation.shape, dtype=annotation.dtype))
    if annotation is inspect.Parameter.empty or isinstance(annotation, (TensorSpec, PointerSpec)):
        pending = _pending(builder, name, given, span)
        pending.takes_strides = isinstance(annotation, TensorSpec) and annotation.strides is not None
        return pending
    dtype = scalar_dtype(annotation)
    if dtype is None:
        raise catalogue.E125.error(span, name=name, what=f"type that a kernel knows ({arithmetic.describe(annotation)} is none)")
    if dtype.lanes > 1:
        hint = f'pass its lanes as numbers, or a tensor of one element: {name}: T.Tensor((1,), "{dtype}")'
        raise catalogue.E125.error(span, name=name, what=f"type that a number can have ({dtype} has {dtype.lanes} lanes)", hint=hint)
    var = Var(name=builder.unique(name), source_name=name, dtype=dtype, kind="scalar", span=span)
    builder.params.append(ScalarParam(var=var))
    return Scalar(var)


def scalar_dtype(annotation: Any) -> DType | None:
    """The element type of a number parameter annotated so, None where the annotation names none."""
    if isinstance(annotation, type) and annotation in _PYTHON_NUMBERS:
        return as_dtype(_PYTHON_NUMBERS[annotation])
    if isinstance(annotation, Scalar) and isinstance(annotation.expr, Var):
        return annotation.dtype
    if callable(annotation) and not isinstance(annotation, (type, DType)):
        annotation = _called(annotation)
    try:
        return as_dtype(as_dtype(annotation).name)
    except UnknownDType:
        return None


def _called(factory: Callable[[], Any]) -> Any:
    try:
        made = factory()
    except TypeError:
        return factory
    return getattr(made, "dtype", made)


def _pending(builder: Builder, name: str, given: GivenTensor | None, span: Span | None) -> PendingTensor:
    builder.params.append(_Vacant())  # type: ignore[arg-type]
    return PendingTensor(name, len(builder.params) - 1, builder, span, given)


def place(pending: PendingTensor, spec: TensorSpec) -> Tile:
    """Gives a tensor parameter its shape, dtype and strides. E126 where it has them already."""
    builder = pending.builder
    if not isinstance(builder.params[pending.position], _Vacant):
        raise catalogue.E126.error(builder.span, name=pending.name, reason="is annotated twice")
    if spec.shape is None:
        raise catalogue.E125.error(builder.span or pending.span, name=pending.name, what="shape")
    _check_rank(pending, spec, len(spec.shape))
    buffer = Buffer(
        name=builder.unique(pending.name),
        source_name=pending.name,
        dtype=as_dtype(spec.dtype.name),
        shape=tuple(_size(builder, s) for s in spec.shape),
        strides=None if spec.strides is None else tuple(_size(builder, s) for s in spec.strides),
        space="global",
        span=builder.span or pending.span,
    )
    builder.params[pending.position] = TensorParam(buffer=buffer)
    pending.resolved = Tile(buffer)
    if builder.after_placement is not None:
        builder.after_placement()
    return pending.resolved


def _check_rank(pending: PendingTensor, spec: TensorSpec, rank: int) -> None:
    """E604 where the call's argument has another number of dimensions. Arrays of single numbers stand for tensors of vectors, too."""
    given = pending.given
    dtype = as_dtype(spec.dtype.name)
    if given is None or len(given.shape) == rank or dtype.lanes > 1:
        return
    expected = f"{dtype}[{', '.join(_size_text(size) for size in spec.shape or ())}]"
    found = f"{given.dtype}[{', '.join(map(str, given.shape))}]"
    dimensions = counted(rank, "dimension")
    raise catalogue.E604.error(name=pending.name, expected=expected, dimensions=dimensions, given=found, given_rank=len(given.shape))


def _size_text(size: Any) -> str:
    name = getattr(getattr(size, "expr", None), "name", None)
    return name if isinstance(name, str) else str(size) if isinstance(size, int) else "..."


def _size(builder: Builder, value: Any) -> Expr:
    if isinstance(value, Const):
        value = value.value
    return const(value, INT32) if type(value) is int and -(2**31) <= value < 2**31 else arithmetic.index(value, builder.span)


def annotate(trace: Trace, name: str, current: Any, specification: Any) -> Tile:
    """``name: T.Tensor[...]`` in the body. E126: ``name`` is no tensor parameter, or has its shape already."""
    builder = trace.builder
    if not isinstance(specification, TensorSpec):
        raise catalogue.E126.error(builder.span, name=name, reason=f"cannot be {arithmetic.describe(specification)}")
    if isinstance(current, PendingTensor):
        return place(current, specification)
    if isinstance(current, Tile) and any(isinstance(p, TensorParam) and p.buffer is current.node for p in builder.params):
        if current.dtype == specification.dtype and _same_shape(builder, current, specification):
            return current
        raise catalogue.E126.error(builder.span, name=name, reason="is annotated twice, and differently")
    raise catalogue.E126.error(builder.span, name=name, reason="is no parameter of the kernel")


def _same_shape(builder: Builder, tile: Tile, spec: TensorSpec) -> bool:
    if spec.shape is None:
        return True
    return len(spec.shape) == tile.ndim and all(a == _size(builder, b) for a, b in zip(tile.node.shape, spec.shape))


def close_parameters(builder: Builder, pending: list[PendingTensor]) -> None:
    """Ends the declaration of parameters: a tensor that the body never mentions takes the shape of the call's argument. E125 without one.
    """
    for tensor in pending:
        if isinstance(builder.params[tensor.position], _Vacant):
            builder.span = tensor.span
            tensor.tile()
