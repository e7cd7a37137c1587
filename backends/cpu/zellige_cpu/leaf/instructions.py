"""Instructions of 64-byte vectors that do in one step what general code takes several for, with the same bits.

In: float32 lanes that fill a register, or two, four, eight. Out: their parts less than one, numbers scaled by powers of two, bfloat16
rounded to nearest even. Whether a machine has them for so many lanes is asked first.

What they do is from the Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2: VREDUCEPS takes the nearest integer away
(of infinity it leaves 0), VSCALEFPS multiplies by two to the power of the floor of its second operand and rounds once, VFPCLASSPS finds
the classes of numbers that its last operand lists, VCVTNE2PS2BF16 and VCVTNEPS2BF16 round two vectors or one, but take subnormal numbers
for zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from zellige_cpu.leaf.lane import Lane
from zellige_cpu.text import Function
from zellige_cpu.values import Value, constant

_LANES: Final = 16
"""float32 of a register."""

_SCALES: Final = frozenset(("avx512f", "avx512dq"))
_ROUNDS: Final = frozenset(("avx512f", "avx512bw", "avx512dq", "avx512bf16"))

_SUBNORMAL: Final = 0x20
"""The class of VFPCLASSPS that holds subnormal numbers."""

_ALL: Final = -1
_CURRENT_ROUNDING: Final = 4


def _fills(x: Lane, needed: frozenset[str]) -> bool:
    count, rest = divmod(x.value.lanes, _LANES)
    is_even = count > 0 and rest == 0 and count & (count - 1) == 0
    return is_even and x.value.element == "float" and needed <= x.fn.module.host.features


def scales(x: Lane) -> bool:
    """Whether :func:`remainder` and :func:`scaled` take these lanes."""
    return _fills(x, _SCALES)


def _registers(fn: Function, value: Value) -> list[Value]:
    """The vector in parts of one register."""
    if value.lanes == _LANES:
        return [value]
    return [fn.shuffle(value, None, range(first, first + _LANES)) for first in range(0, value.lanes, _LANES)]


def _joined(fn: Function, parts: Sequence[Value]) -> Value:
    """The vectors one after the other; they are of one length, and their number is a power of two."""
    while len(parts) > 1:
        parts = [fn.shuffle(left, right, range(2 * left.lanes)) for left, right in zip(parts[::2], parts[1::2])]
    return parts[0]


def _each(x: Lane, others: Sequence[Lane], emit: Callable[..., Value]) -> Lane:
    fn = x.fn
    columns = zip(*(_registers(fn, one.value) for one in (x, *others)))
    return Lane(fn, _joined(fn, [emit(*column) for column in columns]))


def remainder(x: Lane) -> Lane:
    """``x`` less the nearest integer, ties to even; 0 of infinity."""
    fn = x.fn
    mode, every, rounding = constant("i32", 0), constant("i16", _ALL), constant("i32", _CURRENT_ROUNDING)
    return _each(x, (), lambda part: fn.intrinsic("llvm.x86.avx512.mask.reduce.ps.512", part, mode, part, every, rounding))


def scaled(x: Lane, exponent: Lane) -> Lane:
    """``x`` times two to the power of ``exponent``, an integer of any size or an infinity, rounded once."""
    fn = x.fn
    every, rounding = constant("i16", _ALL), constant("i32", _CURRENT_ROUNDING)
    return _each(
        x, (exponent,), lambda part, power: fn.intrinsic("llvm.x86.avx512.mask.scalef.ps.512", part, power, part, every, rounding)
    )


def rounds(x: Lane) -> bool:
    """Whether :func:`bfloat16` takes these lanes."""
    return _fills(x, _ROUNDS)


def bfloat16(x: Lane, otherwise: Callable[[Lane], Lane]) -> Lane:
    """The bits of ``x`` as bfloat16, in i16. Where there is a subnormal number among the lanes ``otherwise`` rounds them all."""
    fn = x.fn
    parts = _registers(fn, x.value)
    found = [fn.intrinsic("llvm.x86.avx512.fpclass.ps.512", part, constant("i32", _SUBNORMAL)) for part in parts]
    while len(found) > 1:
        found = [fn.binary("or", left, right) for left, right in zip(found[::2], found[1::2])]
    has_subnormal = fn.compare("ne", fn.bitcast_type(found[0], "i16", 1), constant("i16", 0))
    general, quick, join = (fn.fresh_label(stem) for stem in ("general", "quick", "rounded"))
    fn.branch_if(has_subnormal, general, quick)
    fn.label(general)
    exact = otherwise(x).value
    end = fn.current
    fn.branch(join)
    fn.label(quick)
    rounded = _joined(fn, _rounded(fn, parts))
    fn.label(join)
    return Lane(fn, fn.phi((exact, end), (rounded, quick)))


def _rounded(fn: Function, parts: Sequence[Value]) -> list[Value]:
    """The parts as bfloat16, subnormal numbers as zero: two by two where they are even in number."""
    if len(parts) % 2:
        return [fn.bitcast_type(fn.intrinsic("llvm.x86.avx512bf16.cvtneps2bf16.512", part), "<16 x i16>", 16) for part in parts]
    name = "llvm.x86.avx512bf16.cvtne2ps2bf16.512"  # its second operand becomes the lower half
    return [fn.bitcast_type(fn.intrinsic(name, high, low), "<32 x i16>", 32) for low, high in zip(parts[::2], parts[1::2])]
