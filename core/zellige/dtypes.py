"""Element types: what they are called, how they are stored and which values they hold.

In: a name, a NumPy or torch dtype, or a Python type. Out: an interned :class:`DType`.
Nothing here imports torch or ml_dtypes; :meth:`DType.numpy` loads ml_dtypes on first use.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    import numpy as np

Kind = Literal["bool", "int", "uint", "float", "handle"]


class UnknownDType(ValueError):
    """The given object names no element type."""


class DType(str):
    """One element type. It is a string, its name, so that ``getattr(torch, T.float16)`` and ``"float16" == T.float16`` hold.

    ``bits`` is the width of a value; ``storage_bits`` the width of an element in a tensor's
    memory: 4-bit types are packed two to a byte (low nibble first), 6-bit types take a byte,
    bool takes a byte (any but 0 is True), tfloat32 is stored as float32 (what it cannot hold is rounded away when an element is read).
    ``exponent`` / ``mantissa`` are the field widths of a float, ``has_inf`` says whether it has
    infinities, ``is_unsigned_zero`` marks the *fnuz* family (no negative zero).
    """

    __slots__ = ("bits", "exponent", "has_inf", "is_unsigned_zero", "kind", "lanes", "mantissa")

    kind: Kind
    bits: int
    exponent: int
    mantissa: int
    has_inf: bool
    is_unsigned_zero: bool
    lanes: int

    def __new__(
        cls,
        name: str,
        kind: Kind | None = None,
        bits: int = 0,
        exponent: int = 0,
        mantissa: int = 0,
        has_inf: bool = True,
        is_unsigned_zero: bool = False,
        lanes: int = 1,
    ) -> DType:
        if kind is None:
            return dtype(name)
        self = super().__new__(cls, name)
        values = (kind, bits, exponent, mantissa, has_inf, is_unsigned_zero, lanes)
        for field, value in zip(("kind", "bits", "exponent", "mantissa", "has_inf", "is_unsigned_zero", "lanes"), values):
            object.__setattr__(self, field, value)
        return self

    def __setattr__(self, field: str, value: object) -> None:
        raise AttributeError(f"an element type cannot be changed: {self}.{field}")

    def __reduce__(self) -> tuple[object, ...]:
        return dtype, (str(self),)

    def __deepcopy__(self, memo: object) -> DType:
        return self

    def __copy__(self) -> DType:
        return self

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, str):
            return str.__eq__(self, other)
        if other is None or isinstance(other, (int, float)):
            return False
        try:
            return str.__eq__(self, dtype(other))
        except UnknownDType:
            return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __str__(self) -> str:
        return str.__str__(self)[:]

    def __repr__(self) -> str:
        return f"dtype({str.__repr__(self)})"

    @property
    def name(self) -> str:
        return str(self)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Signed or unsigned integer (bool is neither)."""
        return self.kind in ("int", "uint")

    @property
    def is_bool(self) -> bool:
        return self.kind == "bool"

    @property
    def is_signed(self) -> bool:
        return self.kind in ("int", "float")

    @property
    def storage_bits(self) -> int:
        """Width in bits of one element in a tensor's memory."""
        if self.bits == 1 or self.bits == 6:
            return 8 * self.lanes
        if self.name == "tfloat32":
            return 32
        return self.bits * self.lanes

    @property
    def itemsize(self) -> int:
        """Bytes of one element; raises for types packed below a byte."""
        if self.storage_bits % 8:
            raise ValueError(f"{self.name} is packed {8 // self.storage_bits} to a byte: it has no itemsize")
        return self.storage_bits // 8

    @property
    def bytes(self) -> int:
        """As :attr:`itemsize`, but 1 for a type of which two share a byte."""
        return -(-self.storage_bits // 8)

    @property
    def type_code(self) -> int:
        """The type's number in DLPack."""
        return _DLPACK_CODES.get(self.scalar.name, _DLPACK_CODES[self.kind])

    @property
    def scalar(self) -> DType:
        """The element type of a vector type; itself for a scalar type."""
        return self if self.lanes == 1 else dtype(self.name.rsplit("x", 1)[0])

    def with_lanes(self, lanes: int) -> DType:
        return dtype(f"{self.scalar.name}x{lanes}" if lanes != 1 else self.scalar.name)

    @property
    def min(self) -> int | float:
        """Smallest finite value."""
        if self.kind == "bool":
            return 0
        if self.is_integer:
            return -(1 << (self.bits - 1)) if self.kind == "int" else 0
        if self.name == "float8_e8m0fnu":
            return 2.0**-127
        return -self.max

    @property
    def max(self) -> int | float:
        """Largest finite value."""
        if self.kind == "bool":
            return 1
        if self.is_integer:
            return (1 << (self.bits - (self.kind == "int"))) - 1
        return float(_float_max(self))

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype that holds one value (ml_dtypes for the narrow floats and 4-bit integers); of an address its 64 bits."""
        return _numpy(self)

    def as_torch(self) -> Any:
        """The torch dtype in which tensors of this type are passed; raises :class:`UnknownDType` where torch has none."""
        import torch

        found = getattr(torch, _TORCH_NAMES.get(self.name, self.name), None)
        if not isinstance(found, torch.dtype):
            raise UnknownDType(f"torch has no dtype {self.name}")
        return found


def _integers() -> list[DType]:
    return [DType(f"{kind}{bits}", kind, bits) for kind in ("int", "uint") for bits in (4, 8, 16, 32, 64)]


# Sources: IEEE 754-2019; OCP 8-bit (OFP8) and Microscaling (MX) specifications; ml_dtypes' documentation.
_SCALARS: Final[dict[str, DType]] = {
    t.name: t
    for t in [
        DType("bool", "bool", 1),
        *_integers(),
        DType("float16", "float", 16, 5, 10),
        DType("bfloat16", "float", 16, 8, 7),
        DType("tfloat32", "float", 32, 8, 10),
        DType("float32", "float", 32, 8, 23),
        DType("float64", "float", 64, 11, 52),
        DType("float8_e3m4", "float", 8, 3, 4),
        DType("float8_e4m3", "float", 8, 4, 3),
        DType("float8_e4m3b11fnuz", "float", 8, 4, 3, False, True),
        DType("float8_e4m3fn", "float", 8, 4, 3, False),
        DType("float8_e4m3fnuz", "float", 8, 4, 3, False, True),
        DType("float8_e5m2", "float", 8, 5, 2),
        DType("float8_e5m2fnuz", "float", 8, 5, 2, False, True),
        DType("float8_e8m0fnu", "float", 8, 8, 0, False),
        DType("float6_e2m3fn", "float", 6, 2, 3, False),
        DType("float6_e3m2fn", "float", 6, 3, 2, False),
        DType("float4_e2m1fn", "float", 4, 2, 1, False),
        DType("handle", "handle", 64),
    ]
}

# https://dmlc.github.io/dlpack/latest/c_api.html, DLDataTypeCode
_DLPACK_CODES: Final[dict[str, int]] = {
    "int": 0, "uint": 1, "float": 2, "handle": 3, "bfloat16": 4, "bool": 6, "float8_e3m4": 7, "float8_e4m3": 8,
    "float8_e4m3b11fnuz": 9, "float8_e4m3fn": 10, "float8_e4m3fnuz": 11, "float8_e5m2": 12, "float8_e5m2fnuz": 13,
    "float8_e8m0fnu": 14, "float6_e2m3fn": 15, "float6_e3m2fn": 16, "float4_e2m1fn": 17,
}  # fmt: skip

_TORCH_NAMES: Final[dict[str, str]] = {
    "float8_e4m3": "float8_e4m3fn", "int4": "int8", "uint4": "uint8", "tfloat32": "float32",
    "float4_e2m1fn": "float4_e2m1fn_x2", "float4_e2m1fnx2": "float4_e2m1fn_x2",
}  # fmt: skip
"""Where the torch dtype has another name, or two elements of 4 bits share a byte of it."""

_ALIASES: Final[dict[str, str]] = {
    "bool_": "bool",
    "boolean": "bool",
    "half": "float16",
    "fp16": "float16",
    "f16": "float16",
    "bf16": "bfloat16",
    "tf32": "tfloat32",
    "float": "float32",
    "fp32": "float32",
    "f32": "float32",
    "double": "float64",
    "f64": "float64",
    "long": "int64",
    "int": "int32",
    "uint": "uint32",
    "short": "int16",
    "ushort": "uint16",
    "ulong": "uint64",
    "char": "int8",
    "uchar": "uint8",
    "e4m3_float8": "float8_e4m3fn",
    "e5m2_float8": "float8_e5m2",
    "float8_e8m0": "float8_e8m0fnu",
    "float6_e2m3": "float6_e2m3fn",
    "float6_e3m2": "float6_e3m2fn",
    "float4_e2m1": "float4_e2m1fn",
    "float4_e2m1fn_x2": "float4_e2m1fn",
}

_VECTOR: Final = re.compile(r"^(?P<base>[a-z][a-z0-9_]*?)x(?P<lanes>\d+)$")


@cache
def _named(name: str) -> DType:
    short = name.removeprefix("torch.").removeprefix("numpy.").strip()
    short = _ALIASES.get(short, short)
    if short in _SCALARS:
        return _SCALARS[short]
    match = _VECTOR.match(short)
    if match and 1 < int(match["lanes"]) <= 64:
        base = _named(match["base"])
        if base.lanes == 1 and base.kind != "handle":
            full = f"{base.name}x{int(match['lanes'])}"
            return DType(full, base.kind, base.bits, base.exponent, base.mantissa, base.has_inf, base.is_unsigned_zero, int(match["lanes"]))
    raise UnknownDType(f"{name!r} is not an element type")


def dtype(value: Any) -> DType:
    """The element type that ``value`` names: a name, DType, Python type, NumPy, ml_dtypes or torch dtype."""
    if isinstance(value, DType):
        return value if type(value) is DType else _named(value.name)  # what a language adds to a type stays outside of the IR
    if isinstance(value, str):
        return _named(value)
    if value is bool:
        return _SCALARS["bool"]
    if value is int:
        return _SCALARS["int32"]
    if value is float:
        return _SCALARS["float32"]
    text = str(value)
    if text.startswith("torch."):
        return _named(text)
    name = getattr(value, "name", None)  # numpy.dtype instances, ml_dtypes
    if isinstance(name, str):
        return _named(name)
    if isinstance(value, type):  # numpy scalar classes, ml_dtypes classes
        return _named(value.__name__)
    raise UnknownDType(f"{value!r} is not an element type")


def known_names() -> tuple[str, ...]:
    """Every spelling of a scalar element type."""
    return (*_SCALARS, *_ALIASES)


def all_dtypes() -> tuple[DType, ...]:
    """Every scalar element type that holds numbers."""
    return tuple(t for t in _SCALARS.values() if t.kind != "handle")


if not TYPE_CHECKING:

    def __getattr__(name: str) -> DType:
        """``dtypes.float16``: every element type under its name."""
        try:
            return _named(name)
        except UnknownDType:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


@cache
def _numpy(t: DType) -> np.dtype[Any]:
    import numpy as np

    if t.lanes != 1:
        raise UnknownDType(f"NumPy has no element type {t.name}")
    if t.kind == "handle":
        return np.dtype(np.uint64)
    if t.name == "tfloat32":
        return np.dtype(np.float32)
    try:
        return np.dtype(t.name)
    except TypeError:
        import ml_dtypes

        found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, t.name))
        return found


def _float_max(t: DType) -> float:
    if t.name == "float8_e8m0fnu":
        return 2.0**127
    bias = (1 << (t.exponent - 1)) - 1
    top = (1 << t.exponent) - 1 - bias  # the largest exponent if no code were reserved
    full = 2.0 - 2.0**-t.mantissa
    if t.has_inf:
        return float(full * 2.0 ** (top - 1))
    if t.is_unsigned_zero:
        extra = 11 - 8 if t.name == "float8_e4m3b11fnuz" else 0
        return float(full * 2.0 ** (top - 1 - extra))
    if t.bits < 8:  # no NaN: every code is a number
        return float(full * 2.0**top)
    return float((2.0 - 2.0 ** (1 - t.mantissa)) * 2.0**top)  # fn: the all-ones code is NaN
