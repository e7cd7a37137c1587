"""Index arithmetic as integer combinations of products of atoms, which is how the analyses compare and split it.

In: integer expressions. Out: a :class:`Form`, such as ``128*bx + i - 1`` or ``i*K + k`` (with a symbolic ``K``). An atom is a variable
or an expression that is no sum or product (a load, a quotient that does not simplify, ...); atoms compare as expressions do. The
arithmetic of forms is that of the integers: it does not wrap at the width of the expression's dtype. When a form is the value of its
expression is proven by :mod:`zellige.analysis.bounds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from zellige.dtypes import DType
from zellige.ir.expr import INT64, Binary, Buffer, Cast, Const, Expr, ExprNode, Reinterpret, Select, Unary, Var
from zellige.ir.traverse import children
from zellige.records import dataclass

Atom: TypeAlias = Expr
Monomial: TypeAlias = tuple[Atom, ...]

_UNIT: Final[Monomial] = ()


class Form:
    """An integer combination of monomials; the empty monomial holds the constant. Immutable, compared by value."""

    __slots__ = ("terms", "_hash")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms: dict[Monomial, int] = {m: c for m, c in terms.items() if c}
        self._hash: int | None = None

    @staticmethod
    def of(value: int | Atom) -> Form:
        """The form of one number or one atom."""
        return Form({_UNIT: value}) if isinstance(value, int) else Form({(value,): 1})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Form) and self.terms == other.terms

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __repr__(self) -> str:
        def name(atom: Atom) -> str:
            return atom.name if isinstance(atom, Var) else type(atom).__name__

        return " + ".join(f"{c}" + "".join("*" + name(a) for a in m) for m, c in self.terms.items()) or "0"

    @property
    def offset(self) -> int:
        """The constant term."""
        return self.terms.get(_UNIT, 0)

    @property
    def constant(self) -> int | None:
        """The value of a form without atoms, else None."""
        if not self.terms:
            return 0
        return self.terms[_UNIT] if len(self.terms) == 1 and _UNIT in self.terms else None

    def __add__(self, other: Form | int) -> Form:
        if isinstance(other, int):
            return self if other == 0 else self + Form({_UNIT: other})
        terms = dict(self.terms)
        for monomial, coefficient in other.terms.items():
            terms[monomial] = terms.get(monomial, 0) + coefficient
        return Form(terms)

    def __sub__(self, other: Form | int) -> Form:
        return self + (-other if isinstance(other, int) else other.scaled(-1))

    def scaled(self, factor: int) -> Form:
        return self if factor == 1 else Form({m: c * factor for m, c in self.terms.items()})

    def whole_part(self, divisor: int) -> Form:
        """What the terms that ``divisor`` divides come to, divided by it; of the constant its floor."""
        return Form({m: c // divisor for m, c in self.terms.items() if not m or c % divisor == 0})

    def __mul__(self, other: Form) -> Form:
        if (factor := other.constant) is not None:
            return self.scaled(factor)
        if (factor := self.constant) is not None:
            return other.scaled(factor)
        terms: dict[Monomial, int] = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                monomial = tuple(sorted(left + right, key=_atom_order))
                terms[monomial] = terms.get(monomial, 0) + a * b
        return Form(terms)

    def atoms(self) -> Iterator[Atom]:
        """Every atom, once."""
        seen: set[Atom] = set()
        for monomial in self.terms:
            for atom in monomial:
                if atom not in seen:
                    seen.add(atom)
                    yield atom

    def has(self, atom: Atom) -> bool:
        return any(atom in monomial for monomial in self.terms)

    def split(self, atom: Atom) -> tuple[Form, Form] | None:
        """(factor, rest) with ``self == factor * atom + rest`` and no ``atom`` in either; None where its power is higher than one."""
        factor: dict[Monomial, int] = {}
        rest: dict[Monomial, int] = {}
        for monomial, coefficient in self.terms.items():
            count = monomial.count(atom)
            if count > 1:
                return None
            if count:
                position = monomial.index(atom)
                factor[monomial[:position] + monomial[position + 1 :]] = coefficient
            else:
                rest[monomial] = coefficient
        return Form(factor), Form(rest)

    def replaced(self, atom: Atom, value: Form) -> Form | None:
        """The form with ``value`` in the place of ``atom``; None where its power is higher than one."""
        parts = self.split(atom)
        return None if parts is None else parts[0] * value + parts[1]

    def expression(self, dtype: DType = INT64) -> Expr:
        """The form as an expression of int64, or of a narrower signed type, which has it modulo two to its width."""
        total: Expr | None = None
        for monomial, coefficient in self.terms.items():
            product: Expr | None = None
            for atom in monomial:
                factor = atom if atom.dtype == dtype else Cast(value=atom, dtype=dtype)
                product = factor if product is None else Binary(op="mul", left=product, right=factor)
            half = 1 << (dtype.bits - 1)
            number = Const(value=(coefficient + half) % (2 * half) - half, dtype=dtype)
            term = number if product is None else product if coefficient == 1 else Binary(op="mul", left=product, right=number)
            total = term if total is None else Binary(op="add", left=total, right=term)
        return total if total is not None else Const(value=0, dtype=dtype)


ZERO: Final = Form({})


@dataclass(frozen=True, slots=True)
class Division:
    """``dividend == divisor * whole + rest``; ``is_reduced`` says that ``0 <= rest < divisor`` is proven."""

    whole: Form
    rest: Form
    is_reduced: bool


def _atom_order(atom: Atom) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """What the atoms of a product are sorted by: the same in every process that traces the same kernel, unlike hashes of texts; equal
    for equal atoms only. Variables and buffers go by the order in which they were made, other expressions by their parts in preorder,
    where one that occurred before stands as its place."""
    if isinstance(atom, Var):
        return (), (atom.structural_hash,)
    words: list[str] = []
    numbers: list[int] = []
    places: dict[ExprNode, int] = {}
    pending: list[ExprNode] = [atom]
    while pending:
        node = pending.pop()
        place = places.setdefault(node, len(places))
        if place < len(places) - 1:
            words.append("same")
            numbers.append(place)
        elif isinstance(node, Var):
            words.append("Var")
            numbers.append(node.structural_hash)
        else:
            attributes = [getattr(node, name) for name in node.ATTRIBUTES]
            words.append(" ".join([type(node).__name__, *(repr(a) for a in attributes if not isinstance(a, Buffer))]))
            numbers.extend(a.structural_hash for a in attributes if isinstance(a, Buffer))
            pending.extend(child for child in reversed(list(children(node))) if isinstance(child, ExprNode))
    return tuple(words), tuple(numbers)


def is_index_dtype(t: DType) -> bool:
    """Whether arithmetic of this dtype is taken as exact index arithmetic: signed, 32 or 64 bits."""
    return t.kind == "int" and t.bits >= 32 and t.lanes == 1


def _always(expr: Expr) -> bool:
    return True


def form_of(
    expr: Expr,
    *,
    definition: Callable[[Var], Form | None],
    divide: Callable[[Form, int], Division],
    is_exact: Callable[[Expr], bool] = _always,
    widened: Callable[[Expr], Form] | None = None,
    memo: dict[Expr, Form],
) -> Form:
    """The form of an integer expression of a signed 32- or 64-bit dtype; an expression of another dtype is an atom.

    The result is congruent to the expression's value modulo two to the width of its dtype, and so are the forms of the sums and products
    under it. Where the value itself is needed, somebody is asked: ``is_exact(x)`` says of a dividend that its form is its value (else the
    quotient is an atom), ``widened(x)`` gives the form that stands for a number which is cast to a wider type. ``definition`` gives the
    form that a variable stands for, None to keep it as an atom; ``divide(x, c)`` splits a form by a positive number. Without the first two
    the arithmetic is that of the integers. Results are kept in ``memo``, and sub-expressions are visited once.
    """
    pending: list[Expr] = [expr]
    while pending:
        top = pending[-1]
        if top in memo:
            pending.pop()
            continue
        operands = _operands(top)
        waiting = [o for o in operands if o not in memo]
        if waiting:
            pending.extend(waiting)
            continue
        pending.pop()
        memo[top] = _combine(top, [memo[o] for o in operands], definition, divide, is_exact, widened)
    return memo[expr]


def _operands(expr: Expr) -> tuple[Expr, ...]:
    """The operands that take part in the form of ``expr``; none where it is an atom or a constant."""
    if not is_index_dtype(expr.dtype):
        return ()
    match expr:
        case Binary(op="add" | "sub" | "mul", left=left, right=right):
            return (left, right)
        case Binary(op="floordiv" | "floormod", left=left, right=Const()):
            return (left,)
        case Binary(op="shl", left=left, right=Const(value=value)) if 0 <= value < expr.dtype.bits - 1:
            return (left,)
        case Unary(op="neg", value=value):
            return (value,)
        case Cast(value=value, dtype=target) if is_index_dtype(value.dtype) and target.bits >= value.dtype.bits:
            return (value,)
        case _:
            return ()


def _combine(
    expr: Expr,
    forms: list[Form],
    definition: Callable[[Var], Form | None],
    divide: Callable[[Form, int], Division],
    is_exact: Callable[[Expr], bool],
    widened: Callable[[Expr], Form] | None,
) -> Form:
    match expr:
        case Const(value=value) if is_index_dtype(expr.dtype):
            return Form.of(int(value))
        case Var():
            return definition(expr) or Form.of(expr)
        case _ if not forms:
            return Form.of(expr)
        case Binary(op="add"):
            return forms[0] + forms[1]
        case Binary(op="sub"):
            return forms[0] - forms[1]
        case Binary(op="mul"):
            return forms[0] * forms[1]
        case Binary(op="shl", right=Const(value=value)):
            return forms[0].scaled(1 << int(value))
        case Binary(op="floordiv" | "floormod" as op, left=left_side, right=Const(value=value)):
            divisor = int(value)
            if divisor <= 0 or not is_exact(left_side):
                return Form.of(expr)
            division = divide(forms[0], divisor)
            if division.is_reduced:
                return division.whole if op == "floordiv" else division.rest
            if not division.whole.terms:
                return Form.of(expr)
            left = Form.of(Binary(op=op, left=division.rest.expression(), right=Const(value=divisor, dtype=INT64)))
            return division.whole + left if op == "floordiv" else left
        case Unary():
            return forms[0].scaled(-1)
        case Cast(value=value) if value.dtype.bits < expr.dtype.bits:
            return forms[0] if widened is None else widened(value)
        case _:
            return forms[0]


def is_pure_index(
    expr: Expr, is_index_variable: Callable[[Var], bool], keeps_value: Callable[[Expr], bool], memo: dict[Expr, bool]
) -> bool:
    """Whether an integer expression is made of index variables and constants alone, so that its form has its value modulo two to the width
    of its dtype wherever it is computed. ``keeps_value`` says of a quotient, a remainder, a minimum, a maximum and a cast to a wider type,
    for which the values of their operands count, that these do not wrap and the result neither."""
    pending: list[Expr] = [expr]
    while pending:
        top = pending[-1]
        if top in memo:
            pending.pop()
            continue
        operands = _pure_operands(top)
        if operands is None:
            memo[top] = isinstance(top, Var) and is_index_dtype(top.dtype) and is_index_variable(top)
            continue
        waiting = [o for o in operands if o not in memo]
        if waiting:
            pending.extend(waiting)
            continue
        memo[top] = all(memo[o] for o in operands) and (not _needs_values(top) or keeps_value(top))
    return memo[expr]


def _needs_values(expr: Expr) -> bool:
    """Whether the value of an operand counts and not only what it is modulo two to the width of the type."""
    if isinstance(expr, Binary):
        return expr.op not in ("add", "sub", "mul")
    return isinstance(expr, Cast) and expr.dtype.bits != expr.value.dtype.bits


def _pure_operands(expr: Expr) -> tuple[Expr, ...] | None:
    if not is_index_dtype(expr.dtype):
        return None
    match expr:
        case Const():
            return ()
        case Binary(op="add" | "sub" | "mul" | "min" | "max", left=left, right=right):
            return (left, right)
        case Binary(op="floordiv" | "floormod", left=left, right=right):
            return (left, right)
        case Unary(op="neg", value=value):
            return (value,)
        case Cast(value=value, dtype=target) if is_index_dtype(value.dtype) and target.bits >= value.dtype.bits:
            return (value,)
        case Select() | Reinterpret():
            return None
        case _:
            return None
