"""Arithmetic on registers written as formulas: a :class:`Lane` is an operand whose operators emit instructions.

In: a :class:`zellige_cpu.values.Value` and the function under construction. Out: instructions, and Lanes for their results.
A Python number beside a Lane becomes a constant of its element type in every lane. The operators mean what LLVM means: ``+ - *`` are of
floats or of wrapping integers, ``< <= > >=`` are signed or ordered, ``<<`` and ``>>`` shift without sign; comparisons give masks.
"""

from __future__ import annotations

from typing import TypeAlias

from zellige.records import dataclass
from zellige_cpu.text import Function
from zellige_cpu.types import ELEMENT_BITS
from zellige_cpu.values import Value, constant

Operand: TypeAlias = "Lane | int | float"


@dataclass(frozen=True, slots=True, eq=False)
class Lane:
    """An operand of ``fn``, in one or more lanes."""

    fn: Function
    value: Value

    @property
    def is_float(self) -> bool:
        return self.value.element in ("float", "double")

    @property
    def bits(self) -> int:
        """Width of one lane."""
        return ELEMENT_BITS[self.value.element]

    def like(self, operand: Operand) -> Value:
        """``operand`` as a value of this lane's type."""
        return operand.value if isinstance(operand, Lane) else constant(self.value.element, operand, self.value.lanes)

    def const(self, number: int | float) -> Lane:
        """``number`` in every lane, of this lane's type."""
        return Lane(self.fn, constant(self.value.element, number, self.value.lanes))

    def const_of(self, element: str, number: int | float) -> Lane:
        """``number`` in as many lanes as this has, of another element type."""
        return Lane(self.fn, constant(element, number, self.value.lanes))

    def _binary(self, op: str, other: Operand) -> Lane:
        return Lane(self.fn, self.fn.binary(op, self.value, self.like(other)))

    def _reflected(self, op: str, other: Operand) -> Lane:
        return Lane(self.fn, self.fn.binary(op, self.like(other), self.value))

    def __add__(self, other: Operand) -> Lane:
        return self._binary("fadd" if self.is_float else "add", other)

    def __radd__(self, other: Operand) -> Lane:
        return self + other

    def __sub__(self, other: Operand) -> Lane:
        return self._binary("fsub" if self.is_float else "sub", other)

    def __rsub__(self, other: Operand) -> Lane:
        return self._reflected("fsub" if self.is_float else "sub", other)

    def __mul__(self, other: Operand) -> Lane:
        return self._binary("fmul" if self.is_float else "mul", other)

    def __rmul__(self, other: Operand) -> Lane:
        return self * other

    def __truediv__(self, other: Operand) -> Lane:
        return self._binary("fdiv", other)

    def __rtruediv__(self, other: Operand) -> Lane:
        return self._reflected("fdiv", other)

    def __neg__(self) -> Lane:
        return Lane(self.fn, self.fn.negate(self.value)) if self.is_float else self._reflected("sub", 0)

    def __and__(self, other: Operand) -> Lane:
        return self._binary("and", other)

    def __or__(self, other: Operand) -> Lane:
        return self._binary("or", other)

    def __xor__(self, other: Operand) -> Lane:
        return self._binary("xor", other)

    def __invert__(self) -> Lane:
        return self ^ -1

    def __lshift__(self, other: Operand) -> Lane:
        return self if other == 0 else self._binary("shl", other)

    def __rshift__(self, other: Operand) -> Lane:
        return self if other == 0 else self._binary("lshr", other)

    def shift_right_signed(self, other: Operand) -> Lane:
        return self._binary("ashr", other)

    def _compare(self, integer: str, floating: str, other: Operand) -> Lane:
        return Lane(self.fn, self.fn.compare(floating if self.is_float else integer, self.value, self.like(other)))

    def __lt__(self, other: Operand) -> Lane:
        return self._compare("slt", "olt", other)

    def __le__(self, other: Operand) -> Lane:
        return self._compare("sle", "ole", other)

    def __gt__(self, other: Operand) -> Lane:
        return self._compare("sgt", "ogt", other)

    def __ge__(self, other: Operand) -> Lane:
        return self._compare("sge", "oge", other)

    def below(self, other: Operand) -> Lane:
        """Unsigned less than."""
        return self._compare("ult", "olt", other)

    def above(self, other: Operand) -> Lane:
        """Unsigned greater than."""
        return self._compare("ugt", "ogt", other)

    def equals(self, other: Operand) -> Lane:
        """Equality; False where a float is NaN."""
        return self._compare("eq", "oeq", other)

    def differs(self, other: Operand) -> Lane:
        """Inequality; True where a float is NaN."""
        return self._compare("ne", "une", other)

    @property
    def is_nan(self) -> Lane:
        return Lane(self.fn, self.fn.compare("uno", self.value, self.value))

    def select(self, then: Operand, otherwise: Operand) -> Lane:
        """This mask's choice; at least one side is a Lane."""
        kind = then if isinstance(then, Lane) else otherwise
        assert isinstance(kind, Lane), "select needs one side with a type"
        return Lane(self.fn, self.fn.select(self.value, kind.like(then), kind.like(otherwise)))

    def call(self, intrinsic: str, *others: Operand) -> Lane:
        """An intrinsic of operands of one type, this the first."""
        return Lane(self.fn, self.fn.intrinsic(intrinsic, self.value, *[self.like(o) for o in others]))

    def fma(self, factor: Operand, addend: Operand) -> Lane:
        """``self * factor + addend`` rounded once."""
        return self.call("llvm.fma", factor, addend)

    @property
    def magnitude(self) -> Lane:
        """The absolute value of a float."""
        return self.call("llvm.fabs")

    def to_bits(self) -> Lane:
        """The bits of a float as an integer of its width."""
        return Lane(self.fn, self.fn.bitcast(self.value, f"i{self.bits}"))

    def to_float(self) -> Lane:
        """Integer bits of 32 or 64 as a float."""
        return Lane(self.fn, self.fn.bitcast(self.value, "float" if self.bits == 32 else "double"))

    def convert(self, op: str, element: str) -> Lane:
        """LLVM's conversion ``op`` to ``element``."""
        return Lane(self.fn, self.fn.convert(op, self.value, element))

    def resize(self, element: str, *, is_signed: bool = False) -> Lane:
        """An integer (or mask) widened or cut."""
        return Lane(self.fn, self.fn.resize(self.value, element, is_signed=is_signed))


def polynomial(x: Lane, coefficients: tuple[float, ...]) -> Lane:
    """``c[0] + c[1] * x + ...`` by Horner's rule with fused operations."""
    result = x.const(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = result.fma(x, coefficient)
    return result
