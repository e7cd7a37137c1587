"""What is known about integers at a place of the program, and proofs of ``x >= 0`` from it.

In: ranges of variables (loops, grid, axes), conditions known to hold (guards, assumptions). Out: :meth:`Scope.is_nonnegative`, sound and
incomplete: True means proven for all values, False means not proven. Sizes are symbolic and at least 0.

A :class:`Scope` extends another one, as the bodies of a program nest, and is dropped at the end of its body. The proof replaces ranged
variables by the end of their range that makes the form smallest, innermost first, opens minimum, maximum, quotient and remainder atoms
by their inequalities, and subtracts multiples of known facts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from math import gcd, prod
from typing import Final

from zellige.analysis.forms import ZERO, Division, Form, form_of, is_index_dtype, is_pure_index
from zellige.dtypes import DType
from zellige.ir.expr import INT32, Binary, Cast, Compare, Const, Expr, Load, Unary, Var
from zellige.ir.traverse import walk
from zellige.records import dataclass

_STEPS: Final = 400
"""Rewrites one proof may take: a bound on compile time, far above what real index expressions need."""

_FACT_DEPTH: Final = 2

_INDICES: Final = ("size", "scalar", "grid", "lane", "loop")
"""Variables of indices, whether or not their range is known here."""

NEGATED: Final = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}


@dataclass(frozen=True, slots=True)
class Range:
    """Inclusive ends; None where nothing is known. ``order`` grows inwards: the ends of a variable name only outer variables."""

    low: Form | None
    high: Form | None
    order: int


@dataclass(slots=True)
class _Tables:
    """What all scopes of one launch share. A variable is defined once, with two exceptions: that of a loop that was split has a range in
    each part, and one that stands for index arithmetic may be written again in each Map that needs it, of another axis at times. Forms that
    one range or definition made are not those of the next."""

    ranges: dict[Var, Range] = field(default_factory=dict)
    definitions: dict[Var, Form] = field(default_factory=dict)
    index_variables: set[Var] = field(default_factory=set)
    multiples: dict[Expr, int] = field(default_factory=dict)
    forms: dict[Expr, Form] = field(default_factory=dict)
    narrow: dict[Expr, Form] = field(default_factory=dict)
    pure: dict[Expr, bool] = field(default_factory=dict)
    serial: int = 0

    def add_range(self, var: Var, low: Form | None, high: Form | None) -> None:
        self.serial += 1
        known = self.ranges.get(var)
        if known is not None and (known.low, known.high) != (low, high):
            self._forget_forms()
        self.ranges[var] = Range(low, high, self.serial)

    def add_definition(self, var: Var, form: Form) -> None:
        if self.definitions.get(var, form) != form:
            self._forget_forms()
        self.definitions[var] = form

    def _forget_forms(self) -> None:
        self.forms.clear()
        self.narrow.clear()


class Scope:
    """The knowledge at one place. ``inner()`` opens a nested one; what is added to it is not known outside."""

    def __init__(self, parent: Scope | None = None, *, is_masked: bool = False) -> None:
        self._parent = parent
        self._is_masked = is_masked
        self._tables: _Tables = parent._tables if parent is not None else _Tables()
        self._facts: list[Form] = []

    def inner(self, *, is_masked: bool = False) -> Scope:
        """A nested scope. ``is_masked``: its own facts hold only where a predicate does that guards single accesses, not the code."""
        return Scope(self, is_masked=is_masked)

    # -- variables ----------------------------------------------------------------------------------------------------

    def add_variable(self, var: Var, low: Form | None, high: Form | None) -> None:
        """An index variable (size, scalar parameter, grid, lane, loop, axis) with its inclusive range."""
        self._tables.index_variables.add(var)
        self._tables.add_range(var, low, high)

    def add_data_variable(self, var: Var) -> None:
        """A variable bound once to a value of the program's data: an atom of forms, not an index variable."""
        low, high = dtype_range(var.dtype)
        if low is not None:
            self._tables.add_range(var, Form.of(low), None if high is None else Form.of(high))

    def define(self, var: Var, value: Expr) -> bool:
        """Let ``var``, which keeps its value, stand for it in forms, where that is made of index variables; whether it was. Of another
        value it is remembered what divides it."""
        if not is_index_dtype(var.dtype) or not self.is_pure(value):
            self._note_multiple(var, value)
            return False
        self._tables.add_definition(var, self.form(value))
        self._tables.index_variables.add(var)
        return True

    def _note_multiple(self, var: Var, value: Expr) -> None:
        """Arithmetic on data may wrap, which keeps the powers of two that divide the exact value."""
        if is_index_dtype(var.dtype) and (divisor := self.multiple_of(self.form(value))):
            known = self._tables.multiples.get(var, 1 << (var.dtype.bits - 1))
            self._tables.multiples[var] = min(known, divisor & -divisor)

    def multiple_of(self, form: Form) -> int:
        """A number that divides ``form`` for all values of its atoms: its constant factors, and what is known of variables; 0 for 0."""
        known = self._tables.multiples
        parts = (coefficient * prod(known.get(a, 1) for a in m) for m, coefficient in form.terms.items())
        return gcd(*parts)

    @property
    def ranges(self) -> Mapping[Var, Range]:
        """The ranges of all variables seen so far in this launch."""
        return self._tables.ranges

    def definition(self, var: Var) -> Form | None:
        """The form that ``var`` stands for, where it was defined by one."""
        return self._tables.definitions.get(var)

    def is_index_variable(self, var: Var) -> bool:
        return var in self._tables.index_variables

    # -- forms --------------------------------------------------------------------------------------------------------

    def form(self, expr: Expr) -> Form:
        """The form of an integer expression (an atom where its arithmetic wraps at fewer than 32 bits or is unsigned).

        Arithmetic of index variables is taken as exact. That of data may wrap, so its part of the form is one atom where more than one
        number stands for a small one; a form beyond half of all numbers of 32 bits stays, being outside of every buffer either way.
        """
        known = self._tables.narrow.get(expr)
        if known is None:
            found = form_of(
                expr, definition=self._tables.definitions.get, divide=self._divide, narrowed=self._narrowed, may_wrap=self.may_wrap,
                memo=self._tables.forms,
            )  # fmt: skip
            known = self._tables.narrow[expr] = self._narrowed(found, expr.dtype)
        return known

    def _narrowed(self, form: Form, dtype: DType) -> Form:
        """A form with what data adds to it as one number of the type. What loops, blocks and sizes add is less than half of all numbers, so
        the sum is a number inside of a buffer only where it does not wrap."""
        if dtype.bits != INT32.bits or self._reach_of_data(form) <= 1 << (dtype.bits - 1):
            return form
        data = Form({m: c for m, c in form.terms.items() if not self._is_of_indices(m)})
        atom = data.expression(dtype)
        divisor = self.multiple_of(data) or 1 << (dtype.bits - 1)  # wrapping keeps the powers of two that divide the exact value
        self._tables.multiples[atom] = divisor & -divisor
        return form - data + Form.of(atom)

    def may_wrap(self, form: Form, dtype: DType) -> bool:
        """Whether arithmetic on data, of the type, may give another number than the form; not for a single number as it is."""
        if len(form.terms) == 1 and all(len(m) == 1 and c == 1 for m, c in form.terms.items()):
            return False
        return self._reach_of_data(form) >= 1 << (dtype.bits - 1)

    def _reach_of_data(self, form: Form) -> int:
        """The most that the parts of a form that are not of index variables may add up to; beyond all numbers where that is not known."""
        most = 0
        for monomial, coefficient in form.terms.items():
            if self._is_of_indices(monomial):
                continue
            product = abs(coefficient)
            for atom in monomial:
                low, high = self._numbers(atom)
                product *= 1 << 64 if low is None or high is None else max(abs(low), abs(high))
            most += product
        return most

    def _numbers(self, atom: Expr) -> tuple[int | None, int | None]:
        """The values an atom may have, by its type and by the operation that it is."""
        match atom:
            case Var():
                known = self._tables.ranges.get(atom)
                if known is not None and known.low is not None and known.high is not None:
                    low, high = known.low.constant, known.high.constant
                    if low is not None and high is not None:
                        return low, high
            case Binary(op="floormod", right=Const(value=value)) if value > 0:
                return 0, int(value) - 1
            case Binary(op="bitand", right=Const(value=value)) if value >= 0:
                return 0, int(value)
            case Binary(op="floordiv", left=left, right=Const(value=value)) if value > 0:
                low, high = value_range(left)
                return (None, None) if low is None or high is None else (low // int(value), high // int(value))
            case _:
                pass
        return value_range(atom)

    def _is_of_indices(self, monomial: tuple[Expr, ...]) -> bool:
        return all((isinstance(atom, Var) and atom.kind in _INDICES) or self.is_pure(atom) for atom in monomial)

    def surely(self, expr: Expr) -> Form:
        """The form of an expression where it is its value whatever the data are, else the expression as an atom."""
        form = self.form(expr)
        return Form.of(expr) if self.may_wrap(form, expr.dtype) else form

    def is_pure(self, expr: Expr) -> bool:
        """Whether the expression is made of index variables and constants alone."""
        return is_pure_index(expr, self.is_index_variable, self._tables.pure)

    def is_exact(self, expr: Expr) -> bool:
        """Whether ``form(expr)`` is the value of ``expr`` itself: index variables alone, or one atom without arithmetic."""
        if not is_index_dtype(expr.dtype):
            return False
        return self.is_pure(expr) or not isinstance(expr, (Binary, Unary, Cast))

    def _divide(self, dividend: Form, divisor: int) -> Division:
        whole = Form({m: c // divisor for m, c in dividend.terms.items() if not m or c % divisor == 0})
        rest = dividend - whole.scaled(divisor)
        # forms are kept for the whole launch, so only ranges may count here, never a guard that holds at this place
        is_reduced = self.is_always_nonnegative(rest) and self.is_always_nonnegative(Form.of(divisor - 1) - rest)
        return Division(whole, rest, is_reduced)

    # -- facts --------------------------------------------------------------------------------------------------------

    def assume(self, condition: Expr, *, holds: bool = True) -> None:
        """Add what follows from ``condition`` being True (or False), as far as it is about immutable integers."""
        pending = [(condition, holds)]
        while pending:
            expr, is_true = pending.pop()
            match expr:
                case Unary(op="not", value=value):
                    pending.append((value, not is_true))
                case Binary(op="and", left=left, right=right) if is_true:
                    pending.extend([(left, True), (right, True)])
                case Binary(op="or", left=left, right=right) if not is_true:
                    pending.extend([(left, False), (right, False)])
                case Compare():
                    self._facts.extend(fact for fact in self.differences(expr, holds=is_true) or () if _is_stable(fact))
                case _:
                    pass

    def differences(self, compare: Compare, *, holds: bool = True) -> tuple[Form, ...] | None:
        """The forms that are all at least 0 exactly when the comparison holds; None where the sides are not exact or for ``ne``."""
        if not self.is_exact(compare.left) or not self.is_exact(compare.right):
            return None
        op = compare.op if holds else NEGATED[compare.op]
        difference = self.form(compare.right) - self.form(compare.left)
        match op:
            case "lt":
                return (difference - 1,)
            case "le":
                return (difference,)
            case "gt":
                return (difference.scaled(-1) - 1,)
            case "ge":
                return (difference.scaled(-1),)
            case "eq":
                return (difference, difference.scaled(-1))
            case _:
                return None

    def _known(self, *, unmasked_only: bool) -> Iterator[Form]:
        scope: Scope | None = self
        while scope is not None:
            if not (unmasked_only and scope._is_masked):
                yield from scope._facts
            scope = scope._parent

    # -- proofs -------------------------------------------------------------------------------------------------------

    def is_nonnegative(self, form: Form, *, unmasked_only: bool = False) -> bool:
        """Whether ``form >= 0`` is proven here; with ``unmasked_only``, without the facts that only hold under a mask."""
        if (value := form.constant) is not None:
            return value >= 0
        return _Proof(self, tuple(self._known(unmasked_only=unmasked_only))).prove(form, _FACT_DEPTH)

    def is_always_nonnegative(self, form: Form) -> bool:
        """Whether ``form >= 0`` follows from the ranges of its variables alone, so also where no guard has been passed."""
        if (value := form.constant) is not None:
            return value >= 0
        return _Proof(self, ()).prove(form, 0)

    def is_within(self, index: Form, extent: Form) -> tuple[bool, bool]:
        """Whether ``index >= 0`` and ``index < extent`` are proven."""
        return self.is_nonnegative(index), self.is_nonnegative(extent - index - 1)

    def mentions(self, expr: Expr, variables: frozenset[Var]) -> bool:
        """Whether the value of ``expr`` is made of any of the variables, also through those that stand for others."""
        pending: list[Expr] = [expr]
        seen: set[Var] = set()
        while pending:
            for node in walk(pending.pop()):
                if not isinstance(node, Var) or node in seen:
                    continue
                if node in variables:
                    return True
                seen.add(node)
                definition = self._tables.definitions.get(node)
                if definition is not None:
                    pending.extend(definition.atoms())
        return False

    def minimum(self, form: Form, variables: frozenset[Var]) -> Form | None:
        """A lower bound of ``form`` without ``variables``, from their ranges; None where it needs the sign of an unknown factor."""
        ranges = self._tables.ranges
        while True:
            present = [v for v in form.atoms() if isinstance(v, Var) and v in variables]
            if not present:
                hidden = any(self.mentions(atom, variables) for atom in form.atoms())
                return None if hidden else form
            var = max(present, key=lambda v: ranges[v].order)
            parts = form.split(var)
            if parts is None:
                return None
            factor, rest = parts
            if self.is_nonnegative(factor):
                end = ranges[var].low
            elif self.is_nonnegative(factor.scaled(-1)):
                end = ranges[var].high
            else:
                return None
            if end is None:
                return None
            form = factor * end + rest


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


def _is_stable(form: Form) -> bool:
    return all(isinstance(atom, Var) and not atom.is_mutable for atom in form.atoms())


class _Proof:
    """One attempt, with a budget of rewrites."""

    __slots__ = ("_form", "_ranges", "_facts", "_budget")

    def __init__(self, scope: Scope, facts: tuple[Form, ...]) -> None:
        self._form = scope.surely
        self._ranges = scope.ranges
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
        whole = Form({m: c // divisor for m, c in dividend.terms.items() if not m or c % divisor == 0})
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
