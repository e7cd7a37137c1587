"""How element types are held: in LLVM registers, in a tile's memory and in a tensor's memory.

In: a :class:`zellige.dtypes.DType`. Out: LLVM element type names as text.

====================  =============  ====================================  =================
dtype                 register       tile element                          tensor element
====================  =============  ====================================  =================
bool                  i1             i8, 0 or 1                            the same
int4                  i8, sign-extended; uint4: zero-extended              4 bits, low first
int8 .. uint64        i8 .. i64      the same                              the same
float16, bfloat16     i16, the bits  the same                              the same
8-, 6-bit floats      i8, the bits   the same                              the same
float4_e2m1fn         i8, the bits   the same                              4 bits, low first
float32, tfloat32     float          the same                              the same
float64               double         the same                              the same
====================  =============  ====================================  =================

Narrow floats are carried as their bits, so that loads, stores, selects and reinterpretations need no conversion and no
LLVM arithmetic ever runs in a type that the machine may lack. Arithmetic converts them to :func:`compute_dtype` and back.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Final

from zellige.dtypes import DType, dtype

FLOAT32: Final = dtype("float32")
FLOAT64: Final = dtype("float64")

ELEMENT_BITS: Final = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "half": 16, "bfloat": 16, "float": 32, "double": 64, "ptr": 64}
_MANGLED: Final = {"half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "ptr": "p0"}


@cache
def register_type(t: DType) -> str:
    """The LLVM element type that holds a value of ``t`` in a register."""
    if t.is_bool:
        return "i1"
    if t.kind == "handle":
        return "i64"
    if t.is_float and t.bits >= 32:
        return "double" if t.bits == 64 else "float"
    return f"i{max(8, t.bits)}"


@cache
def memory_type(t: DType) -> str:
    """The LLVM element type of one element in a tile, and in a tensor where ``t`` is not packed."""
    return "i8" if t.is_bool else register_type(t)


@cache
def compute_dtype(t: DType) -> DType:
    """The dtype in which arithmetic of ``t`` is done before it is rounded back: float32 for floats below it."""
    return FLOAT32 if t.is_float and t.name not in ("float32", "float64") else t


def is_packed(t: DType) -> bool:
    """Whether a tensor holds two elements of ``t`` in a byte."""
    return t.bits == 4


def element_bytes(t: DType) -> int:
    """Bytes of one unpacked element in memory."""
    return ELEMENT_BITS[memory_type(t)] // 8


@cache
def vector_type(element: str, lanes: int) -> str:
    """The LLVM type of ``lanes`` elements; one lane is the scalar type."""
    return element if lanes == 1 else f"<{lanes} x {element}>"


@cache
def element_of(llvm_type: str) -> str:
    """The element type of a vector type; a scalar type itself."""
    return llvm_type[llvm_type.index(" x ") + 3 : -1] if llvm_type.startswith("<") else llvm_type


@cache
def mangled(llvm_type: str) -> str:
    """The suffix by which an overloaded intrinsic names ``llvm_type``: ``v16f32``."""
    element = element_of(llvm_type)
    name = _MANGLED.get(element, element)
    return name if element == llvm_type else f"v{llvm_type[1 : llvm_type.index(' ')]}{name}"


def literal(element: str, value: bool | int | float) -> str:
    """``value`` as an LLVM constant of ``element``; integers wrap to its width, floats round to it."""
    if element == "i1":
        return "true" if value else "false"
    if element in ("float", "double"):
        return _float_literal(element, float(value))
    bits = ELEMENT_BITS[element]
    wrapped = int(value) & ((1 << bits) - 1)
    return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)


def _float_literal(element: str, value: float) -> str:
    if value != value:
        return "0x7FF8000000000000"
    if element == "float":
        try:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            value = float("inf") if value > 0 else float("-inf")
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
