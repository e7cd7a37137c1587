"""Tensor parameters and symbolic sizes: T.Tensor, T.StridedTensor, T.dynamic."""

from __future__ import annotations

from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige.dtypes import DType, UnknownDType, dtype as as_dtype
from zellige.frontend import arithmetic
from zellige.frontend.specs import PointerSpec, TensorSpec
from zellige.frontend.values import Scalar, Tile, here
from zellige.ir.expr import INT32, Var as VarNode
from zellige.language.refused import NotAvailable


def element_type(value: Any) -> DType:
    """``value`` as an element type; a T.ptr is an address, int64. E217 for anything that is none, an opaque address among it."""
    dtype = any_type(value)
    if dtype.kind == "handle":
        hint = "an address is no number: memory comes into a kernel as tensors, A: T.Tensor((M, N), dtype) or A: T.ptr(dtype)"
        raise catalogue.E217.error(here(), given=repr(value), suggestion="", hint=hint)
    return dtype


def any_type(value: Any) -> DType:
    """As :func:`element_type`, and an opaque address (handle), which the bits of a number may be reinterpreted as."""
    if isinstance(value, PointerSpec):
        return as_dtype("int64")
    if isinstance(value, NotAvailable):
        value.refuse()
    hint = 'a shape comes first, in one tuple, and the element type behind it: ((32, 64), "float16")' if _may_be_size(value) else None
    name = arithmetic.type_of(value, here(), hint=hint).name
    # the language's e4m3 is the one without infinities, as arrays of that name hold it; ml_dtypes' own class keeps its meaning
    return as_dtype("float8_e4m3fn" if name == "float8_e4m3" and isinstance(value, str) and type(value) is not DType else name)


def _may_be_size(value: Any) -> bool:
    return isinstance(value, (int, tuple, list, Scalar))


def stored_type(value: Any) -> DType:
    """``value`` as the type of a tensor's or a tile's elements. E217, also for vectors of elements that share a byte."""
    dtype = element_type(value)
    if dtype.lanes > 1 and dtype.scalar.storage_bits < 8:
        hint = (
            f"elements that share a byte lie side by side already: write {dtype.scalar} and a last dimension that is {dtype.lanes} "
            "times as long"
        )
        raise catalogue.E217.error(here(), given=repr(str(value)), suggestion="", hint=hint)
    return dtype


def shape_tuple(shape: Any) -> tuple[Any, ...]:
    """A shape given as one size, a tuple or a list."""
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)


_OLDER: Final = frozenset(("elem_offset", "align", "offset_factor", "buffer_type", "axis_separators"))


class TensorFactory:
    """``T.Tensor((M, N), "float16")`` or ``T.Tensor[[M, N], "float16"]``: a dense row-major tensor of float32 unless a dtype is given.

    A strided one takes the strides after the shape. With ``data``, by name or third, it is a view of storage that exists. E218 for a wrong
    form.
    """

    is_tensor_factory = True

    def __init__(self, name: str, *, strided: bool, space: str = "global") -> None:
        self._name = name
        self._strided = strided
        self._space = space

    def __repr__(self) -> str:
        return f"T.{self._name}"

    def __call__(
        self,
        shape: Any = None,
        *rest: Any,
        dtype: Any = None,
        strides: Any = None,
        data: Any = None,
        scope: str | None = None,
        **other: Any,
    ) -> Any:
        unknown = set(other) - _OLDER
        if unknown:
            raise catalogue.E218.error(here(), reason=f"T.{self._name} has no argument {min(unknown)!r}")
        if scope is not None and not isinstance(scope, str):
            raise catalogue.E218.error(here(), reason=f"scope is the name of a memory space, not {scope!r}")
        items = list(rest)
        if self._strided and strides is None and items:
            strides = items.pop(0)
        if items and dtype is None:
            dtype = items.pop(0)
        if items and data is None and isinstance(items[0], Tile):
            data = items.pop(0)
        if items:
            raise catalogue.E218.error(here(), reason=f"T.{self._name} takes a shape and a dtype, {len(rest) + 1} arguments are given")
        element = stored_type("float32" if dtype is None else dtype)
        sizes = None if shape is None else shape_tuple(shape)
        if self._strided and shape is None and strides is None:
            strides = ()
        steps = None if strides is None else shape_tuple(strides)
        if steps is not None and sizes is not None and len(steps) != len(sizes):
            raise catalogue.E218.error(here(), reason=f"the shape has {len(sizes)} dimensions, but {len(steps)} strides are given")
        if data is not None:
            return self._view(data, sizes, element, steps)
        return TensorSpec(shape=sizes, dtype=element, strides=steps, space=scope or self._space)

    def __getitem__(self, arguments: Any) -> Any:
        """``[[M, N], dtype]``, ``[(M, N), dtype]``, ``[M, N, dtype]``, or sizes alone (``[M, N]``, float32)."""
        items = arguments if isinstance(arguments, tuple) else (arguments,)
        if items and not isinstance(items[0], (tuple, list)):
            return self(items[:-1], dtype=items[-1]) if _names_dtype(items[-1]) else self(items)
        return self(*items)

    def _view(self, data: Any, shape: Any, dtype: DType, strides: Any) -> Tile:
        from zellige.language.views import view

        return view(data, shape, dtype, strides)


def _names_dtype(value: Any) -> bool:
    """Whether a subscript's last item is a dtype and not a size."""
    if isinstance(value, (int, Scalar)):
        return False
    try:
        as_dtype(value)
    except UnknownDType:
        return isinstance(value, PointerSpec)
    return True


Tensor = TensorFactory("Tensor", strided=False)
StridedTensor = TensorFactory("StridedTensor", strided=True)
Buffer = TensorFactory("Buffer", strided=False)
SharedBuffer = TensorFactory("SharedBuffer", strided=False, space="shared")
FragmentBuffer = TensorFactory("FragmentBuffer", strided=False, space="fragment")
LocalBuffer = TensorFactory("LocalBuffer", strided=False, space="local")


class SizeNames(tuple[Scalar, ...]):
    """Several sizes of one T.dynamic."""

    __slots__ = ()
    is_group = True

    @property
    def described(self) -> str:
        names = ", ".join(size.expr.label for size in self if isinstance(size.expr, VarNode))
        return f"the {len(self)} sizes of one T.dynamic ({names} = T.dynamic(...) unpacks them)"


def dynamic(name: str, dtype: Any = "int32") -> Any:
    """A size known only when the kernel is called; ``"m, n"`` or ``"m n"`` gives several. A new value never compiles anything.

    E219: not names; E205: ``dtype`` is no integer.
    """
    names = [part for part in name.replace(",", " ").split() if part] if isinstance(name, str) else []
    if not names or not all(part.isidentifier() for part in names):
        raise catalogue.E219.error(here(), given=repr(name))
    if isinstance(dtype, str) and dtype.isidentifier() and not _names_dtype(dtype):
        raise catalogue.E219.error(here(), given=repr(dtype), hint=f'one text names several sizes: T.dynamic("{name}, {dtype}")')
    kind = INT32 if dtype is None else element_type(dtype)
    if not kind.is_integer or kind.lanes != 1:
        raise catalogue.E205.error(here(), given=f"a {kind} size")
    variables = tuple(Scalar(VarNode(name=part, dtype=kind, kind="size")) for part in names)
    return variables[0] if len(variables) == 1 else SizeNames(variables)


symbolic = dynamic


class _NamedScalar(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, VarNode) or (isinstance(value, Scalar) and isinstance(value.expr, VarNode))


class Var(metaclass=_NamedScalar):
    """What has a name: ``isinstance(size, T.Var)`` tells a symbolic size from a number. As a macro's annotation it means T.Ref."""

    is_reference = True
