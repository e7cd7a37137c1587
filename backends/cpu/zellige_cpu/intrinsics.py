"""The LLVM intrinsics that may be called, with the operand types each accepts.

In: a base name (``llvm.fma``) and operands. Out: the mangled name, the result type and its lanes; InternalError for anything not listed.
LLVM aborts the process when code generation meets an intrinsic or a type it does not know, so nothing else may reach it.

A pattern is ``result operands``, one letter each: T the overloaded type, E its element, M a mask of its lanes, Q pointers and N i32
in its lanes, I an i1, B an i8, H an i16, W an i32, D an i64, P a pointer, V nothing; the other letters are fixed vectors.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from zellige.diagnostics import InternalError
from zellige.records import dataclass
from zellige_cpu.types import element_of, mangled, vector_type

if TYPE_CHECKING:
    from zellige_cpu.values import Value

_FLOATS: Final = frozenset({"float", "double"})
_INTEGERS: Final = frozenset({"i8", "i16", "i32", "i64"})
_MASKS: Final = frozenset({"i1"})
_ANY: Final = _FLOATS | _INTEGERS | {"half", "bfloat", "ptr"}

Suffix = Literal["", "T", "TN", "TP", "TQ", "P"]


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """``pattern``: result letter, then operand letters. ``suffix``: which types the full name spells, in order."""

    pattern: str
    suffix: Suffix
    elements: frozenset[str]
    feature: str = ""


def _many(names: str, pattern: str, elements: frozenset[str]) -> dict[str, Intrinsic]:
    return {f"llvm.{name}": Intrinsic(pattern, "T", elements) for name in names.split()}


INTRINSICS: Final[dict[str, Intrinsic]] = {
    **_many("fabs sqrt floor ceil trunc rint nearbyint roundeven round canonicalize", "TT", _FLOATS),
    **_many("minnum maxnum minimum maximum copysign", "TTT", _FLOATS),
    **_many("fma fmuladd", "TTTT", _FLOATS),
    "llvm.ldexp": Intrinsic("TTN", "TN", _FLOATS, "avx512vl"),
    **_many("ctpop bitreverse", "TT", _INTEGERS),
    **_many("bswap", "TT", _INTEGERS - {"i8"}),
    **_many("smin smax umin umax sadd.sat uadd.sat ssub.sat usub.sat", "TTT", _INTEGERS),
    **_many("fshl fshr", "TTTT", _INTEGERS),
    **_many("ctlz cttz abs", "TTI", _INTEGERS),
    **_many("vector.reduce.add vector.reduce.mul", "ET", _INTEGERS),
    **_many("vector.reduce.smax vector.reduce.smin vector.reduce.umax vector.reduce.umin", "ET", _INTEGERS),
    **_many("vector.reduce.and vector.reduce.or vector.reduce.xor", "ET", _INTEGERS | _MASKS),
    **_many("vector.reduce.fadd vector.reduce.fmul", "EET", _FLOATS),
    **_many("vector.reduce.fmax vector.reduce.fmin vector.reduce.fmaximum vector.reduce.fminimum", "ET", _FLOATS),
    "llvm.masked.load": Intrinsic("TPWMT", "TP", _ANY),
    "llvm.masked.store": Intrinsic("VTPWM", "TP", _ANY),
    "llvm.masked.gather": Intrinsic("TQWMT", "TQ", _ANY - {"half", "bfloat", "ptr"}),
    "llvm.masked.scatter": Intrinsic("VTQWM", "TQ", _ANY - {"half", "bfloat", "ptr"}),
    "llvm.prefetch": Intrinsic("VPWWW", "P", _ANY),
    "llvm.memcpy": Intrinsic("VPPDI", "", _ANY),
    "llvm.memmove": Intrinsic("VPPDI", "", _ANY),
    "llvm.memset": Intrinsic("VPBDI", "", _ANY),
    "llvm.assume": Intrinsic("VI", "", _MASKS),
    "llvm.x86.avx512.vpdpbusd.512": Intrinsic("XXYY", "", _ANY, "avx512vnni"),
    "llvm.x86.avx512.vpdpbusd.256": Intrinsic("xxyy", "", _ANY, "avxvnni"),
    "llvm.x86.avx2.vpdpbssd.256": Intrinsic("xxyy", "", _ANY, "avxvnniint8"),
    "llvm.x86.avx512bf16.dpbf16ps.512": Intrinsic("FFGG", "", _ANY, "avx512bf16"),
    "llvm.x86.avx512.pmaddw.d.512": Intrinsic("XZZ", "", _ANY, "avx512bw"),
    "llvm.x86.avx2.pmadd.wd": Intrinsic("xzz", "", _ANY, "avx2"),
    "llvm.x86.sse2.pmadd.wd": Intrinsic("uss", "", _ANY, "sse2"),
    "llvm.x86.avx512bf16.dpbf16ps.256": Intrinsic("ffgg", "", _ANY, "avx512bf16"),
    "llvm.x86.avx512.mask.reduce.ps.512": Intrinsic("FFWFHW", "", _ANY, "avx512dq"),
    "llvm.x86.avx512.mask.scalef.ps.512": Intrinsic("FFFFHW", "", _ANY, "avx512f"),
    "llvm.x86.avx512.fpclass.ps.512": Intrinsic("KFW", "", _ANY, "avx512dq"),
    "llvm.x86.avx512bf16.cvtne2ps2bf16.512": Intrinsic("GFF", "", _ANY, "avx512bf16"),
    "llvm.x86.avx512bf16.cvtneps2bf16.512": Intrinsic("gF", "", _ANY, "avx512bf16"),
    "llvm.x86.ldtilecfg": Intrinsic("VP", "", _ANY, "amx-tile"),
    "llvm.x86.tilerelease": Intrinsic("V", "", _ANY, "amx-tile"),
    "llvm.x86.tilezero": Intrinsic("VB", "", _ANY, "amx-tile"),
    "llvm.x86.tileloadd64": Intrinsic("VBPD", "", _ANY, "amx-tile"),
    "llvm.x86.tilestored64": Intrinsic("VBPD", "", _ANY, "amx-tile"),
    "llvm.x86.tdpbf16ps": Intrinsic("VBBB", "", _ANY, "amx-bf16"),
    "llvm.x86.tdpbssd": Intrinsic("VBBB", "", _ANY, "amx-int8"),
    "llvm.x86.tdpbusd": Intrinsic("VBBB", "", _ANY, "amx-int8"),
    "llvm.x86.tdpbsud": Intrinsic("VBBB", "", _ANY, "amx-int8"),
    "llvm.x86.tdpbuud": Intrinsic("VBBB", "", _ANY, "amx-int8"),
    "llvm.aarch64.neon.sdot.v4i32.v16i8": Intrinsic("uubb", "", _ANY, "dotprod"),
    "llvm.aarch64.neon.udot.v4i32.v16i8": Intrinsic("uubb", "", _ANY, "dotprod"),
    "llvm.aarch64.neon.bfdot.v4f32.v8bf16": Intrinsic("qqrr", "", _ANY, "bf16"),
}  # fmt: skip

_FULL_NAMES: Final = {
    "llvm.memcpy": "llvm.memcpy.p0.p0.i64",
    "llvm.memmove": "llvm.memmove.p0.p0.i64",
    "llvm.memset": "llvm.memset.p0.i64",
}
_FIXED: Final = {
    "I": "i1", "B": "i8", "H": "i16", "W": "i32", "D": "i64", "P": "ptr", "V": "void",
    "X": "<16 x i32>", "Y": "<64 x i8>", "F": "<16 x float>", "G": "<32 x bfloat>", "Z": "<32 x i16>", "K": "<16 x i1>",
    "x": "<8 x i32>", "y": "<32 x i8>", "z": "<16 x i16>", "u": "<4 x i32>", "s": "<8 x i16>",
    "f": "<8 x float>", "g": "<16 x bfloat>", "b": "<16 x i8>", "q": "<4 x float>", "r": "<8 x bfloat>",
}  # fmt: skip

_resolved: dict[tuple[str, ...], tuple[str, str, int]] = {}


_OVERLOADED: Final = re.compile(r"(llvm\.fma)\.v\d+f\d+")


def base_name(spelling: str) -> str:
    """The name of an intrinsic as :func:`resolve` takes it: ``llvm.fma`` of ``llvm.fma.v8f32``, others as they are."""
    found = _OVERLOADED.fullmatch(spelling)
    return found[1] if found else spelling


def resolve(name: str, args: Sequence[Value]) -> tuple[str, str, int]:
    """The full name, the result type and its lanes of a call; raises InternalError where the call is not allowed."""
    key = (name, *[a.type for a in args])
    found = _resolved.get(key)
    if found is None:
        found = _resolved[key] = _resolve(name, args)
    return found


def _resolve(name: str, args: Sequence[Value]) -> tuple[str, str, int]:
    spec = INTRINSICS.get(name)
    if spec is None:
        raise InternalError(f"the intrinsic {name} is not in the list of those that may be called")
    operands = spec.pattern[1:]
    if len(operands) != len(args):
        raise InternalError(f"{name} takes {len(operands)} operands, {len(args)} were given")
    principal = next((a for letter, a in zip(operands, args) if letter == "T"), None)
    known = dict(_FIXED)
    lanes = 1
    if principal is not None:
        element, lanes = element_of(principal.type), principal.lanes
        if element not in spec.elements:
            raise InternalError(f"{name} does not take {principal.type}")
        known |= {"T": principal.type, "E": element}
        known |= {"M": vector_type("i1", lanes), "Q": vector_type("ptr", lanes), "N": vector_type("i32", lanes)}
    for letter, arg in zip(operands, args):
        if known.get(letter) != arg.type:
            raise InternalError(f"{name} takes {known.get(letter)} where {arg.type} was given")
    result = known[spec.pattern[0]]
    suffix = {"T": ("T",), "TN": ("T", "N"), "TP": ("T", "P"), "TQ": ("T", "Q"), "P": ("P",)}.get(spec.suffix, ())
    full = _FULL_NAMES.get(name, name) + "".join("." + mangled(known[letter]) for letter in suffix)
    result_element = element_of(result)
    return full, result, 0 if result == "void" else (1 if result_element == result else int(result[1 : result.index(" ")]))
