"""What is known about integers at a place of the program, and proofs of ``x >= 0`` from it.

In: ranges of variables (loops, grid, axes), conditions known to hold (guards, assumptions). Out: :meth:`Scope.is_nonnegative`, sound and
incomplete: True means proven for all values, False means not proven. Sizes are symbolic, at least 0 and at most what a launch takes.

The arithmetic of a form does not wrap, that of the language does. :meth:`Scope.form` is the value of an expression: its sums and products
where they are proven to stay in their type, else one atom that stands for the whole. Every part of a form, whatever kind of variable it is
made of, has the range that is known of it, by its type where nothing else is. :meth:`Scope.place` is for the index of an element, where all
numbers outside of the buffer are alike.

A :class:`Scope` extends another one, as the bodies of a program nest, and is dropped at the end of its body. The proofs themselves are in
:mod:`zellige.analysis.proofs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from math import gcd, prod
from typing import Final

from zellige.analysis.forms import ZERO, Division, Form, Monomial, form_of, is_index_dtype, is_pure_index
from zellige.analysis.intervals import ANY, Interval, interval_of_type, interval_of_value
from zellige.analysis.proofs import Proof, Range
from zellige.dtypes import DType
from zellige.ir.expr import INT64, Binary, Cast, Compare, Const, Expr, ExprNode, Load, Unary, Var
from zellige.ir.sizes import ROOM, greatest_size, linear_form
from zellige.ir.traverse import walk
from zellige.records import dataclass

_FACT_DEPTH: Final = 2

_NESTED_PROOFS: Final = 4
"""How many proofs may ask for each other: whether the operands of a minimum wrap, and the operands of those."""

FAR: Final = 1 << 62
"""Numbers from here on are no index of any element."""

NEGATED: Final = {"lt": "ge", "ge": "lt", "le": "gt", "gt": "le", "eq": "ne", "ne": "eq"}


@dataclass(slots=True)
class _Tables:
    """What all scopes of one launch share. A variable is defined once, with two exceptions: that of a loop that was split has a range in
    each part, and one that stands for index arithmetic may be written again in each Map that needs it, of another axis at times. Forms that
    one range or definition made are not those of the next."""

    ranges: dict[Var, Range] = field(default_factory=dict)
    definitions: dict[Var, Form] = field(default_factory=dict)
    index_variables: set[Var] = field(default_factory=set)
    multiples: dict[Expr, int] = field(default_factory=dict)
    sums: dict[Expr, Form] = field(default_factory=dict)
    forms: dict[Expr, Form] = field(default_factory=dict)
    forms_of_nodes: dict[int, tuple[Expr, Form]] = field(default_factory=dict)
    """The same by the identity of the node, which is kept too: parts of a program are asked for again and again."""
    placed_sums: dict[Expr, Form] = field(default_factory=dict)
    places: dict[Expr, Form] = field(default_factory=dict)
    pure: dict[Expr, bool] = field(default_factory=dict)
    intervals: dict[ExprNode, Interval] = field(default_factory=dict)
    limits: dict[Var, Interval] = field(default_factory=dict)
    extents: dict[Form, Form] = field(default_factory=dict)
    """What is at least 0 since an extent is not too large, by the extent's form."""
    serial: int = 0
    proofs: int = 0
    """How many proofs of this launch are under way."""

    def add_range(self, var: Var, low: Form | None, high: Form | None) -> None:
        self.serial += 1
        known = self.ranges.get(var)
        is_news = var in self.intervals if known is None else (known.low, known.high) != (low, high)
        if is_news:
            self.forget()
        self.ranges[var] = Range(low, high, self.serial)

    def add_limits(self, var: Var, limits: Interval) -> None:
        if var in self.intervals and self.limits.get(var) != limits:
            self.forget()
        self.limits[var] = limits
        self.add_range(var, None, None)

    def add_definition(self, var: Var, form: Form) -> None:
        if self.definitions.get(var, form) != form:
            self.forget()
        self.definitions[var] = form

    def forget(self) -> None:
        kept = (self.sums, self.forms, self.forms_of_nodes, self.placed_sums, self.places, self.pure, self.intervals)
        for memo in kept:
            memo.clear()


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

    def add_named(self, var: Var, low: Form, high: Form) -> None:
        """An index variable that proofs leave as it is; its inclusive range counts for whether arithmetic on it wraps."""
        self._tables.index_variables.add(var)
        self._tables.add_limits(var, Interval(self.interval(low).low, self.interval(high).high))

    def add_parameter(self, var: Var) -> None:
        """A symbolic size or a scalar parameter of an index type."""
        if var.kind == "size":
            self.add_variable(var, ZERO, Form.of(greatest_size(var.dtype)))
            return
        self._tables.index_variables.add(var)
        self.add_data_variable(var)

    def add_extent(self, extent: Expr) -> None:
        """An extent of a tensor that a launch takes: no greater than any size, also where it is a product of several."""
        form = self.sum(extent)
        if form.constant is None and not isinstance(extent, Var) and linear_form(extent) is None:
            self._tables.extents[form] = Form.of(greatest_size(extent.dtype)) - form
            self._tables.forget()

    def add_data_variable(self, var: Var) -> None:
        """A variable of which no more is known than its type, as one bound to a value of the program's data, and what :meth:`define` found
        of its value."""
        known = self._tables.limits.get(var) or interval_of_type(var.dtype)
        if known.low is not None and known.high is not None and max(-known.low, known.high) < FAR:
            self._tables.add_range(var, Form.of(known.low), Form.of(known.high))

    def define(self, var: Var, value: Expr, *, may_wrap: bool = False) -> bool:
        """Let ``var``, which keeps its value, stand for it in forms, where that is made of index variables and does not wrap; whether it
        was. With ``may_wrap`` a value that may wrap counts too, as the one atom that it is: who computes the forms then computes it again.
        Of another value it is remembered what divides it."""
        if not is_index_dtype(var.dtype) or not self.is_pure(value) or not (may_wrap or self.is_exact(value)):
            self._note_value(var, value)
            if var in self._tables.definitions and self._tables.definitions[var] != self.form(value):
                del self._tables.definitions[var]  # in fewer iterations of a loop around it did not wrap
                self._tables.forget()
            return False
        self._tables.add_definition(var, self.form(value))
        self._tables.index_variables.add(var)
        return True

    def _note_value(self, var: Var, value: Expr) -> None:
        """The variable has the divisors of its value, and its ends."""
        found = interval_of_value(value, self._range_of, self._tables.intervals)
        if found.low is not None and found.high is not None:
            self._tables.limits[var] = found
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
        """The value of an integer expression: the form of its sums and products where they are proven not to wrap, else one atom. An
        expression of another type than signed 32 or 64 bits is an atom."""
        met = self._tables.forms_of_nodes.get(id(expr))
        if met is not None:
            return met[1]
        known = self._tables.forms.get(expr)
        if known is None:
            found = self.sum(expr)
            if not self.fits(found, expr.dtype):
                self._note_wrapped(expr, found)
                found = Form.of(expr)
            known = self._tables.forms[expr] = found
        self._tables.forms_of_nodes[id(expr)] = expr, known
        return known

    def sum(self, expr: Expr) -> Form:
        """The sums and products of an integer expression: its value modulo two to the width of its type."""
        return form_of(
            expr, definition=self.definition, divide=self._divide, is_exact=self.is_exact, widened=self.form, memo=self._tables.sums
        )  # fmt: skip

    def place(self, expr: Expr) -> Form:
        """An integer expression as the index of an element: its value where that lies in a buffer, else a number that does not either.

        Parts that are not negative and cannot add up to half of all numbers of the type stand by themselves, what is left as one atom of
        the type: where their sum wraps, both numbers lie outside, the wrapped one so far before the buffer that a region of up to 2**20
        elements which begins there does not reach it. The form as a number of 64 bits never wraps. It is taken that no dimension has more
        than 2**31 - 2**20 elements where an index of 32 bits passes -2**31 downwards.
        """
        known = self._tables.places.get(expr)
        if known is None:
            found = form_of(
                expr, definition=self.definition, divide=self._divide, is_exact=self.is_exact, widened=self.place,
                memo=self._tables.placed_sums,
            )  # fmt: skip
            known = self._tables.places[expr] = self._placed(found, expr.dtype)
        return known

    def counted(self, expr: Expr) -> Form:
        """The index of an element by how it moves with the loops around it: its sums and products, also where these leave the type after
        so many iterations of a loop that nobody waits for them; else its place.

        Who takes this for the index tests :meth:`fits` of it, and where that is not proven the number itself as the program runs.
        """
        found = self.sum(expr)
        if self.fits(found, expr.dtype) or expr.dtype.bits != 32 or not is_index_dtype(expr.dtype):
            return self.place(expr)
        whole, seen = interval_of_type(expr.dtype), self.interval(found, self._range_of_counter)
        is_counted = seen.low is not None and seen.high is not None and whole.low is not None and whole.high is not None
        if is_counted and whole.low <= seen.low and seen.high <= whole.high and self.fits(found, INT64):  # type: ignore[operator]
            return found
        return self.place(expr)

    def _range_of_counter(self, var: Var) -> Interval:
        """What is known of a variable; of a loop's its first iterations."""
        found, known = self._range_of(var), self._tables.ranges.get(var)
        if var.kind != "loop" or known is None or known.low is None:
            return found
        first = self.interval(known.low).high
        if first is None or found.high is None or found.high <= first + ROOM:
            return found
        return Interval(found.low, first + ROOM)

    def _placed(self, form: Form, dtype: DType) -> Form:
        half = 1 << (dtype.bits - 1)
        if not is_index_dtype(dtype) or self._lies_between(form, max(-half, -FAR), min(half - 1, FAR)):
            return form
        found = self.interval(form)
        is_bounded = found.low is not None and found.high is not None
        if dtype.bits == 32 and is_bounded and found.low >= -half - ROOM and found.high < 2 * half - ROOM:  # type: ignore[operator]
            return form
        kept = self._without_end(form, min(half - ROOM, FAR - 1))
        rest = form - kept
        if dtype.bits == 64 and (number := rest.constant) is not None:
            return kept + max(-FAR, min(FAR, number))
        atom = rest.expression(dtype)
        self._note_wrapped(atom, rest)
        if dtype.bits == 32:
            return kept + Form.of(atom)
        near: Expr = Binary(op="max", left=atom, right=Const(value=-FAR, dtype=dtype))
        near = Binary(op="min", left=near, right=Const(value=FAR, dtype=dtype))
        self._note_wrapped(near, rest)
        return kept + Form.of(near)

    def _without_end(self, form: Form, most: int) -> Form:
        """The parts of a form that are not negative, as many as cannot add up to more than ``most``."""
        kept: dict[Monomial, int] = {}
        for monomial, coefficient in form.terms.items():
            found = self._interval_of_product(monomial, coefficient)
            if found.low is not None and found.high is not None and found.low >= 0 and found.high <= most:
                kept[monomial] = coefficient
                most -= found.high
        return Form(kept)

    def _note_wrapped(self, atom: Expr, form: Form) -> None:
        """Wrapping keeps the powers of two that divide the exact value."""
        divisor = self.multiple_of(form) or 1 << (atom.dtype.bits - 1)
        self._tables.multiples[atom] = divisor & -divisor

    def fits(self, form: Form, dtype: DType) -> bool:
        """Whether the form is proven to be a number of the type, by the ranges of its parts."""
        if len(form.terms) == 1:
            ((monomial, coefficient),) = form.terms.items()
            if len(monomial) == 1 and coefficient == 1 and monomial[0].dtype == dtype:
                return True
        whole = interval_of_type(dtype)
        return whole.low is not None and whole.high is not None and self._lies_between(form, whole.low, whole.high)

    def _lies_between(self, form: Form, low: int, high: int) -> bool:
        found = self.interval(form)
        is_above = found.low is not None and found.low >= low
        is_below = found.high is not None and found.high <= high
        if is_above and is_below:
            return True
        if self._tables.proofs >= _NESTED_PROOFS:
            return False
        self._tables.proofs += 1
        try:
            return (is_above or self.is_always_nonnegative(form - low)) and (is_below or self.is_always_nonnegative(Form.of(high) - form))
        finally:
            self._tables.proofs -= 1

    def interval(self, form: Form, range_of: Callable[[Var], Interval] | None = None) -> Interval:
        """The numbers between which the form lies, by the ranges of its atoms, each for itself; ``range_of`` gives those of variables."""
        low: int | None = 0
        high: int | None = 0
        for monomial, coefficient in form.terms.items():
            found = self._interval_of_product(monomial, coefficient, range_of)
            low = None if low is None or found.low is None else low + found.low
            high = None if high is None or found.high is None else high + found.high
        return Interval(low, high)

    def _interval_of_product(self, monomial: Monomial, coefficient: int, range_of: Callable[[Var], Interval] | None = None) -> Interval:
        low = high = coefficient
        for atom in monomial:
            if range_of is not None and isinstance(atom, Var):
                found = range_of(atom)
            else:
                found = interval_of_value(atom, self._range_of, self._tables.intervals)
            if found.low is None or found.high is None:
                return ANY
            ends = [x * y for x in (low, high) for y in (found.low, found.high)]
            low, high = min(ends), max(ends)
        return Interval(low, high)

    def _range_of(self, var: Var) -> Interval:
        """What is known of a variable, as numbers."""
        definition = self._tables.definitions.get(var)
        if definition is not None:
            return self.interval(definition)
        known = self._tables.ranges.get(var)
        if known is None:
            return Interval(0, greatest_size(var.dtype)) if var.kind == "size" else ANY
        if known.low is None and known.high is None:
            return self._tables.limits.get(var, ANY)
        low = None if known.low is None else self.interval(known.low).low
        high = None if known.high is None else self.interval(known.high).high
        return ANY if low is not None and high is not None and low > high else Interval(low, high)

    def is_pure(self, expr: Expr) -> bool:
        """Whether the expression is made of index variables and constants alone, and ``sum(expr)`` computed anywhere gives its value modulo
        two to the width of its type."""
        return is_pure_index(expr, self.is_index_variable, self._keeps_value, self._tables.pure)

    def _keeps_value(self, expr: Expr) -> bool:
        """Whether an operation for which the values of its operands count has the value that the integers give it."""
        if isinstance(expr, Cast):
            return self.is_exact(expr.value)
        assert isinstance(expr, Binary)
        if not self.is_exact(expr.left) or not self.is_exact(expr.right):
            return False
        if expr.op != "floordiv":
            return True
        dividend, divisor = self.interval(self.form(expr.left)), self.interval(self.form(expr.right))  # the least number by -1 wraps
        least = interval_of_type(expr.dtype).low
        return (divisor.low is not None and divisor.low > -1) or (dividend.low is not None and least is not None and dividend.low > least)

    def is_exact(self, expr: Expr) -> bool:
        """Whether the sums and products of an expression are proven to be its value, so that ``form(expr)`` shows what it is made of."""
        return is_index_dtype(expr.dtype) and self.form(expr) == self.sum(expr)

    def _divide(self, dividend: Form, divisor: int) -> Division:
        whole = dividend.whole_part(divisor)
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
        """The forms that are all at least 0 exactly when the comparison holds; None where the sides are no numbers of an index type or for
        ``ne``."""
        if not is_index_dtype(compare.left.dtype) or not is_index_dtype(compare.right.dtype):
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
        return Proof(self.form, self.ranges, tuple(self._known(unmasked_only=unmasked_only))).prove(form, _FACT_DEPTH)

    def is_always_nonnegative(self, form: Form) -> bool:
        """Whether ``form >= 0`` follows from the ranges of its variables alone, so also where no guard has been passed."""
        if (value := form.constant) is not None:
            return value >= 0
        extents = tuple(self._tables.extents.values())
        return Proof(self.form, self.ranges, extents).prove(form, 2 * _FACT_DEPTH if extents else 0)

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


def _is_stable(form: Form) -> bool:
    return not any(isinstance(node, Load) or (isinstance(node, Var) and node.is_mutable) for atom in form.atoms() for node in walk(atom))
