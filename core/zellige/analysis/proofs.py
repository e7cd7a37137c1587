"""One proof that a form is not negative, from ranges of its variables and forms known to be not negative.

In: the form, the ranges, the facts, and what gives an expression's form. Out: True means proven for all values, False means not proven. The
proof replaces ranged variables by the end of their range that makes the form smallest, innermost first, opens minimum, maximum, quotient
and remainder atoms by their inequalities, and subtracts multiples of known facts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from zellige.analysis.forms import ZERO, Form
from zellige.dtypes import DType
from zellige.ir.expr import Binary, Cast, Const, Expr, Load, Var
from zellige.records import dataclass

_STEPS: Final = 400
"""Rewrites one proof may take: a bound on compile time, far above what real index expressions need."""


@dataclass(frozen=True, slots=True)
class Range:
    """Inclusive ends; None where nothing is known. ``order`` grows inwards: the ends of a variable name only outer variables."""

    low: Form | None
    high: Form | None
    order: int


def dtype_range(t: DType) -> tuple[int | None, int | None]:
    """The values an integer or bool dtype holds; 64-bit ends count as unknown, they prove nothing useful, and indices are signed numbers of
    64 bits, of which a large uint64 is a negative one."""
    if t.is_bool:
        return 0, 1
    if not t.is_integer or t.lanes != 1:
        return None, None
    if t.bits == 64:
        return None, None
    return int(t.min), int(t.max)


def value_range(atom: Expr) -> tuple[int | None, int | None]:
    """The values an atom may have by its type, or by the narrower one that it was cast from without a change of value."""
    if isinstance(atom, Cast) and not atom.value.dtype.is_float and atom.value.dtype.kind != "handle":
        source, target = atom.value.dtype, atom.dtype
        if source.lanes == target.lanes == 1 and source.min >= target.min and source.max <= target.max:
            return dtype_range(source)
    return dtype_range(atom.dtype)


class Proof:
    """One attempt, with a budget of rewrites."""

    __slots__ = ("_form", "_ranges", "_facts", "_budget")

    def __init__(self, form: Callable[[Expr], Form], ranges: Mapping[Var, Range], facts: tuple[Form, ...]) -> None:
        self._form = form
        self._ranges = ranges
        self._facts = facts
        self._budget = _STEPS

    def prove(self, form: Form, fact_depth: int) -> bool:
        """Whether ``form >= 0``; recursion is bounded by the budget and is never over the depth of an expression."""
        self._budget -= 1
        if self._budget <= 0:
            return False
        if (value := form.constant) is not None:
            return value >= 0
        if self._descend(form, fact_depth):
            return True
        if fact_depth == 0:
            return False
        return any(self.prove(weaker, fact_depth - 1) for fact in self._facts for weaker in _cancelled(form, fact))

    def _descend(self, form: Form, fact_depth: int) -> bool:
        """Replace one atom by what bounds it and go on; True where what is left is obviously not negative."""
        choice = self._next_atom(form)
        if choice is None:
            return form.offset >= 0 and all(c >= 0 and self._is_product_nonnegative(m) for m, c in form.terms.items() if m)
        parts = form.split(choice)
        if parts is None:
            return False
        factor, rest = parts
        sign = self._sign(factor)
        if sign == 0:
            return False
        if any(self.prove(scaled + rest, max(0, fact_depth - 1)) for scaled in _whole_quotient(choice, factor, self._form)):
            return True
        every, options = self._bounds(choice, lower=sign > 0)
        if every:
            return all(self.prove(factor * bound + rest, 0 if fact_depth == 0 else fact_depth - 1) for bound in every)
        return any(self.prove(factor * bound + rest, 0 if fact_depth == 0 else fact_depth - 1) for bound in options)

    def _sign(self, factor: Form) -> int:
        if (value := factor.constant) is not None:
            return (value > 0) - (value < 0)
        if self.prove(factor, 0):
            return 1
        return -1 if self.prove(factor.scaled(-1), 0) else 0

    def _next_atom(self, form: Form) -> Expr | None:
        """The atom to replace next: opaque ones first (they may hide variables), then the innermost ranged variable."""
        best: Expr | None = None
        best_order = -1
        for atom in form.atoms():
            if not isinstance(atom, Var):
                if _is_openable(atom):
                    return atom
                continue
            found = self._ranges.get(atom)
            if found is not None and found.order > best_order and (found.low is not None or found.high is not None):
                if atom.kind == "size" and not self._has_negative(form, atom):
                    continue  # a symbolic size only helps by being at least 0
                best, best_order = atom, found.order
        return best

    @staticmethod
    def _has_negative(form: Form, atom: Expr) -> bool:
        return any(c < 0 and atom in m for m, c in form.terms.items())

    def _bounds(self, atom: Expr, *, lower: bool) -> tuple[tuple[Form, ...], tuple[Form, ...]]:
        """Bounds of ``atom`` from below or above: (all of these must be tried to hold, any one of these suffices)."""
        form = self._form
        match atom:
            case Var():
                found = self._ranges[atom]
                end = found.low if lower else found.high
                return (), (() if end is None else (end,))
            case Binary(op="min", left=left, right=right):
                sides = (form(left), form(right))
                return (sides, ()) if lower else ((), sides)
            case Binary(op="max", left=left, right=right):
                sides = (form(left), form(right))
                return ((), sides) if lower else (sides, ())
            case Binary(op="floormod", right=Const(value=value)) if value > 0:
                return (), (ZERO if lower else Form.of(int(value) - 1),)
            case Binary(op="floordiv", left=left, right=Const(value=value)) if value > 0:
                return (), self._quotient_bounds(form(left), int(value), lower=lower)
            case Binary(op="bitand", right=Const(value=value)) if value >= 0:
                return (), (ZERO if lower else Form.of(int(value)),)
            case _:
                low, high = value_range(atom)
                end_value = low if lower else high
                return (), (() if end_value is None else (Form.of(end_value),))

    def _quotient_bounds(self, dividend: Form, divisor: int, *, lower: bool) -> tuple[Form, ...]:
        """Bounds of floor(dividend / divisor): its divisible part and a number from the range of the rest."""
        whole = dividend.whole_part(divisor)
        rest = dividend - whole.scaled(divisor)
        bounds = [ZERO] if lower and self.prove(dividend, 0) else []
        end = self._least(rest if lower else rest.scaled(-1))
        if end is not None:
            bounds.append(whole + (end if lower else -end) // divisor)
        return tuple(bounds)

    def _least(self, form: Form) -> int | None:
        """A number that the form is never below, from constant ranges of its variables; None where there is none."""
        while (value := form.constant) is None:
            ranged = [v for v in form.atoms() if isinstance(v, Var) and v in self._ranges]
            if not ranged:
                return None
            var = max(ranged, key=lambda v: self._ranges[v].order)
            parts = form.split(var)
            factor = None if parts is None else parts[0].constant
            if parts is None or factor is None:
                return None
            end = self._ranges[var].low if factor > 0 else self._ranges[var].high
            if end is None:
                return None
            form = end.scaled(factor) + parts[1]
        return value

    def _is_product_nonnegative(self, monomial: tuple[Expr, ...]) -> bool:
        return all(self._is_atom_nonnegative(atom) for atom in monomial)

    def _is_atom_nonnegative(self, atom: Expr) -> bool:
        if isinstance(atom, Var):
            found = self._ranges.get(atom)
            if found is not None:
                return found.low is not None and self.prove(found.low, 0)
            return atom.kind == "size" or (atom.dtype.kind == "uint" and atom.dtype.bits < 64)
        if isinstance(atom, Binary) and atom.op == "floormod" and isinstance(atom.right, Const):
            return atom.right.value > 0
        if isinstance(atom, Binary) and atom.op == "floordiv" and isinstance(atom.right, Const) and atom.right.value > 0:
            return self.prove(self._form(atom.left), 0)
        low, _ = value_range(atom)
        return low is not None and low >= 0


def _whole_quotient(atom: Expr, factor: Form, form_of: Callable[[Expr], Form]) -> Iterator[Form]:
    """A form that ``factor * atom`` is not below, where the atom is a quotient and the factor a multiple of its divisor: a quotient times
    its divisor is the dividend or up to ``divisor - 1`` less."""
    if not isinstance(atom, Binary) or atom.op != "floordiv" or not isinstance(atom.right, Const):
        return
    times, divisor = factor.constant, int(atom.right.value)
    if times is None or divisor <= 1 or times % divisor:
        return
    dividend = form_of(atom.left)
    yield (dividend if times < 0 else dividend - (divisor - 1)).scaled(times // divisor)


def _is_openable(atom: Expr) -> bool:
    match atom:
        case Binary(op="min" | "max"):
            return True
        case Binary(op="floormod" | "floordiv" | "bitand", right=Const()):
            return True
        case Cast() | Load():
            return value_range(atom) != dtype_range(atom.dtype) or atom.dtype.bits < 32
        case _:
            return False


def _cancelled(form: Form, fact: Form) -> Iterator[Form]:
    """``form - k * fact`` for each positive ``k`` that removes a monomial of the form: not negative only if the form is not."""
    tried: set[int] = set()
    for monomial, coefficient in fact.terms.items():
        have = form.terms.get(monomial, 0) if monomial else 0
        if have and (have > 0) == (coefficient > 0) and have % coefficient == 0 and have // coefficient not in tried:
            tried.add(have // coefficient)
            yield form - fact.scaled(have // coefficient)
