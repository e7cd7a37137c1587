"""Element types as the language shows them: ``T.float16`` is a dtype and, called, a cast."""

from __future__ import annotations

from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige.dtypes import DType, all_dtypes, dtype as as_dtype
from zellige.frontend import arithmetic
from zellige.frontend.builder import tracing
from zellige.frontend.values import Scalar, declare, here
from zellige.frontend.vectors import Vector, is_vector, lanes_of


class TypeName(DType):
    """A dtype that casts when called: ``T.float16(x)``; of a Python number a constant. Without argument a variable that begins at 0.

    A vector type takes as many values as it has lanes, or one for all: ``T.float16x2(a, b)``. E254: a number that does not fit; E203:
    another number of values.
    """

    __slots__ = ()

    def __call__(self, *values: Any) -> Any:
        target = as_dtype("float8_e4m3fn" if self.name == "float8_e4m3" else self.name)  # as element_type says
        span = here()
        if target.lanes > 1:
            given = lanes_of(values[0], target.lanes) if len(values) == 1 else list(values) or [0] * target.lanes
            if len(given) != target.lanes:
                raise catalogue.E203.error(span, left=f"{len(given)} values", right=f"the {target.lanes} lanes of {target}")
            return Vector.of([Scalar(arithmetic.stored(value, target.scalar, span, is_cast=True)) for value in given])
        if len(values) > 1:
            raise catalogue.E203.error(span, left=f"{len(values)} values", right=f"the single value of {target}")
        if values and is_vector(values[0]):
            return Vector.of([Scalar(arithmetic.stored(lane, target, span, is_cast=True)) for lane in lanes_of(values[0])])
        if not values:
            builder = tracing()
            is_running = builder is not None and builder.is_inside_launch
            return declare(target.name, target, 0) if is_running else Scalar(arithmetic.stored(0, target, span))
        return Scalar(arithmetic.stored(values[0], target, span, is_cast=True))


def type_name(dtype: Any) -> TypeName:
    """The callable form of a dtype."""
    d = as_dtype(dtype)
    return TypeName(d.name, d.kind, d.bits, d.exponent, d.mantissa, d.has_inf, d.is_unsigned_zero, d.lanes)


NAMES: Final[dict[str, TypeName]] = {d.name: type_name(d) for d in all_dtypes()}

ALIASES: Final[dict[str, str]] = {
    "half": "float16", "float": "float32", "double": "float64", "int": "int32", "long": "int64", "short": "int16", "uint": "uint32",
    "boolean": "bool", "float8_e8m0": "float8_e8m0fnu",
}  # fmt: skip
"""Other names of dtypes in the language."""


def resolve_torch_storage_dtype(value: Any) -> DType:
    """The type of the elements of torch tensors in which values of ``value`` are passed: pairs where torch's own type is one of pairs.

    UnknownDType where torch has none.
    """
    held = as_dtype(value).as_torch()
    single = as_dtype(held)
    return as_dtype(f"{single.name}x2") if str(held).endswith("_x2") and single.lanes == 1 else single


AnyDType = DType | str | type
"""What is taken wherever a dtype is wanted (and NumPy's and torch's dtypes): for annotations."""


def __getattr__(name: str) -> Any:
    """The element types by name, as ``zellige.language`` has them: programs written for TileLang import them from here too."""
    if name == "dtype":
        return DType
    if name in NAMES:
        return NAMES[name]
    if name in ALIASES:
        return type_name(ALIASES[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
