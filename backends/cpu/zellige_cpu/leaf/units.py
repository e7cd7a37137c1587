"""The ways in which this machine multiplies: what one step of a micro-kernel takes and the instruction that executes it.

In: a :class:`zellige_cpu.host.Host`. Out: its :class:`Unit` objects, best first, which are also what the backend tells the planner, and
:func:`multiply`, which emits one step.

A step takes a *word* of each operand: as many bits as an element of the accumulator, holding ``group`` elements that follow each other in
k. The word of a is broadcast to all lanes, b has one word a column.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

from zellige.diagnostics import InternalError
from zellige.dtypes import DType, dtype
from zellige_cpu.types import ELEMENT_BITS, element_bytes, memory_type, register_type, vector_type

if TYPE_CHECKING:
    from zellige_cpu.host import Host
    from zellige_cpu.text import Function, Value


class Unit:
    """``a`` and ``b`` are the types of packed operands. ``intrinsic`` is empty where plain instructions do.

    ``is_biased``: a is packed with 128 added, since the instruction takes it as unsigned, and panels of b carry what that adds.
    """

    __slots__ = ("a", "accumulator", "b", "group", "intrinsic", "is_biased", "name")

    def __init__(
        self, *, name: str, a: DType, b: DType, accumulator: DType, group: int = 1, intrinsic: str = "", is_biased: bool = False
    ) -> None:
        self.name: Final = name
        self.a: Final = a
        self.b: Final = b
        self.accumulator: Final = accumulator
        self.group: Final = group
        self.intrinsic: Final = intrinsic
        self.is_biased: Final = is_biased

    @property
    def word(self) -> str:
        """The LLVM type of a word of packed operands."""
        kind = register_type(self.accumulator)
        return kind if self.group == 1 else f"i{ELEMENT_BITS[kind]}"

    @property
    def word_bytes(self) -> int:
        return element_bytes(self.accumulator)


_FLOAT32, _FLOAT64 = dtype("float32"), dtype("float64")
_INT8, _UINT8, _INT16, _INT32, _INT64 = (dtype(name) for name in ("int8", "uint8", "int16", "int32", "int64"))
_BFLOAT16 = dtype("bfloat16")


@cache
def units(host: Host) -> tuple[Unit, ...]:
    """The units of a machine. Dot products of groups add up a group's products in one instruction."""
    found = [Unit(name="multiply-add", a=t, b=t, accumulator=t) for t in (_FLOAT32, _FLOAT64, _INT32, _INT64)]
    bits = host.vector_bytes * 8
    has = host.features.__contains__
    # machines with matrix tiles execute the pair dot at half the rate of a multiply-add of vectors (measured, 73 against 143 GFLOP/s)
    if has("avx512bf16") and bits == 512 and not has("amx-bf16"):
        name = "llvm.x86.avx512bf16.dpbf16ps.512"
        found.append(Unit(name="pair dot", a=_BFLOAT16, b=_BFLOAT16, accumulator=_FLOAT32, group=2, intrinsic=name))
    pair = _pair_of_int16(host)
    if pair:
        found.append(Unit(name="pair dot", a=_INT16, b=_INT16, accumulator=_INT32, group=2, intrinsic=pair))
    if has("avxvnniint8") and bits == 256:
        signed = "llvm.x86.avx2.vpdpbssd.256"
        found.append(Unit(name="quad dot", a=_INT8, b=_INT8, accumulator=_INT32, group=4, intrinsic=signed))
    if (has("avx512vnni") and bits == 512) or (has("avxvnni") and bits == 256):
        name = f"llvm.x86.avx512.vpdpbusd.{bits}"
        found.append(Unit(name="quad dot", a=_UINT8, b=_INT8, accumulator=_INT32, group=4, intrinsic=name))
        if not has("avxvnniint8") or bits != 256:
            found.append(Unit(name="quad dot", a=_INT8, b=_INT8, accumulator=_INT32, group=4, intrinsic=name, is_biased=True))
    return tuple(found)


def _pair_of_int16(host: Host) -> str:
    if not host.is_x86:
        return ""
    if host.vector_bytes == 64:
        return "llvm.x86.avx512.pmaddw.d.512" if "avx512bw" in host.features else ""
    return "llvm.x86.avx2.pmadd.wd" if host.vector_bytes == 32 else "llvm.x86.sse2.pmadd.wd"


def unit_named(host: Host, name: str, a: DType, b: DType, accumulator: DType) -> Unit:
    """The unit that a plan names, by the types of its packed operands."""
    for unit in units(host):
        if unit.name == name and (unit.a, unit.b, unit.accumulator) == (a, b, accumulator):
            return unit
    raise InternalError(f"no unit {name} of {a} and {b} into {accumulator} on this machine")


def general_unit(host: Host, accumulator: DType) -> Unit:
    """The unit that multiplies operands in the accumulator's own type, which every machine has."""
    return unit_named(host, "multiply-add", accumulator, accumulator, accumulator)


def has_fused_multiply_add(host: Host) -> bool:
    """Whether a fused multiply-add is an instruction."""
    return not host.is_x86 or "fma" in host.features or "avx512f" in host.features


def multiply(fn: Function, unit: Unit, left: Value, right: Value, total: Value) -> Value:
    """``total`` plus the products of two vectors of words."""
    if unit.group == 1:
        if left.element not in ("float", "double"):
            return fn.binary("add", total, fn.binary("mul", left, right))
        # on a machine with the instruction both are the same; on one without, llvm.fma would be a call of the C library
        return fn.intrinsic("llvm.fma" if has_fused_multiply_add(fn.module.host) else "llvm.fmuladd", left, right, total)
    lanes = total.lanes * unit.group
    kind = "bfloat" if unit.a == _BFLOAT16 else memory_type(unit.a)
    a, b = (fn.bitcast_type(side, vector_type(kind, lanes), lanes) for side in (left, right))
    if unit.a == _INT16:
        return fn.binary("add", total, fn.intrinsic(unit.intrinsic, a, b))
    return fn.intrinsic(unit.intrinsic, total, a, b)
