"""Index arithmetic as LLVM IR: forms to 64-bit integers and pointers, each part at the outermost level where it exists.

In: a :class:`zellige.analysis.forms.Form`. Out: for uniform forms a scalar, in general an :class:`Index`, which keeps apart what all lanes
share, what grows evenly from lane to lane, and the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from zellige.analysis.forms import Atom, Form, Monomial
from zellige.diagnostics import InternalError
from zellige.ir.expr import Binary, Expr, Load, Var
from zellige.ir.traverse import walk
from zellige.records import dataclass
from zellige_cpu.arithmetic import divide_signed
from zellige_cpu.context import Context
from zellige_cpu.types import register_type
from zellige_cpu.values import Value, constant, vector_constant


@dataclass(frozen=True, slots=True)
class Index:
    """An integer a lane: ``uniform + stride * lane + vector[lane]``; ``stride`` is a number where it is known."""

    uniform: Value
    stride: int | Value = 0
    vector: Value | None = None

    @property
    def is_uniform(self) -> bool:
        return self.stride == 0 and self.vector is None

    @property
    def step(self) -> int | None:
        """The distance from lane to lane where it is a known number."""
        return self.stride if self.vector is None and isinstance(self.stride, int) else None


_OF_VALUES: Final = ("floordiv", "floormod", "min", "max")
"""Operations for which the values of their operands count, and not only what these are modulo two to some power."""


def i64(value: int) -> Value:
    """A constant of 64 bits."""
    return constant("i64", value)


# -- atoms ---------------------------------------------------------------------------------------------------------------


def is_stable(atom: Atom) -> bool:
    """Whether the atom keeps its value while its variables do: no memory and no mutable variable in it."""
    if isinstance(atom, Var):
        return not atom.is_mutable
    return not any(isinstance(n, Load) or (isinstance(n, Var) and n.is_mutable) for n in walk(atom))


def _level_of(ctx: Context, atom: Atom) -> int:
    """The outermost level at which a stable atom can be computed."""
    pending: list[Atom] = [atom]
    seen: set[Var] = set()
    outermost = 0
    while pending:
        for var in walk(pending.pop()):
            if not isinstance(var, Var) or var in seen:
                continue
            seen.add(var)
            found = ctx.var_levels.get(var)
            if found is not None:
                outermost = max(outermost, found)
                continue
            definition = ctx.scope.definition(var)
            if definition is None:
                raise InternalError(f"variable {var.name} is used where it has no value")
            pending.extend(definition.atoms())
    return outermost


def to_i64(ctx: Context, value: Value, expr: Expr) -> Value:
    """An integer register of ``expr``'s dtype as 64 bits."""
    return ctx.fn.resize(value, "i64", is_signed=expr.dtype.kind == "int")


def _atom_value(ctx: Context, atom: Atom) -> Value:
    """The atom as 64 bits, uniform or one value a lane, computed at the current place."""
    if isinstance(atom, Var):
        value = ctx.values.get(atom)
        if value is not None and ctx.scope.is_index_variable(atom):
            return value
    elif isinstance(atom, Binary) and atom.op in _OF_VALUES and ctx.scope.is_pure(atom):
        return _pure_value(ctx, atom)
    return to_i64(ctx, ctx.evaluate(ctx, atom), atom)


def _pure_value(ctx: Context, expr: Expr) -> Value:
    """A quotient, remainder, minimum or maximum of index expressions, exactly in 64 bits."""
    fn = ctx.fn
    match expr:
        case Binary(op="min" | "max" as op, left=left, right=right):
            a, b = fn.match(materialise(ctx, ctx.scope.form(left)), materialise(ctx, ctx.scope.form(right)))
            return fn.intrinsic(f"llvm.s{op}", a, b)
        case Binary(op="floordiv" | "floormod" as op, left=left, right=right):
            dividend, divisor = ctx.scope.form(left), ctx.scope.form(right)
            # by ranges alone: the quotient may be computed at an outer level, before any guard around this place
            is_positive = ctx.scope.is_always_nonnegative(dividend) and ctx.scope.is_always_nonnegative(divisor - 1)
            if ctx.has_idle_lanes and ctx.is_varying(right):
                is_positive = False  # not in the lanes beyond the end
            # vectors of 64-bit integers have no multiplication that gives the high half, by which a division by a constant is done
            is_short = ctx.lanes is not None and _fits_int32(ctx, dividend) and _fits_int32(ctx, divisor)
            element = "i32" if is_short and ctx.is_varying(expr) else "i64"
            a, b = fn.match(materialise(ctx, dividend, element), materialise(ctx, divisor, element))
            if is_positive:
                result = fn.binary("udiv" if op == "floordiv" else "urem", a, b)
            else:
                result = divide_signed(fn, op, a, b, divisor.constant)
            return fn.resize(result, "i64", is_signed=True)
        case _:
            raise InternalError(f"{type(expr).__name__} is no atom of an index")


def _fits_int32(ctx: Context, form: Form) -> bool:
    """Whether the form is a 32-bit integer in every lane, also in those beyond the end of the axis."""
    if ctx.has_idle_lanes and not form.constant:
        return False
    scope = ctx.scope
    return scope.is_always_nonnegative(form + (1 << 31)) and scope.is_always_nonnegative(form.scaled(-1) + ((1 << 31) - 1))


# -- uniform forms -------------------------------------------------------------------------------------------------------


def _by_level(ctx: Context, form: Form) -> tuple[list[tuple[int, Form]], Form]:
    """The parts of a uniform form by the level where they can be computed, outermost first; what reads memory apart. No constant."""
    groups: dict[int, dict[Monomial, int]] = {}
    unstable: dict[Monomial, int] = {}
    for monomial, coefficient in form.terms.items():
        if not monomial:
            continue
        if all(is_stable(atom) for atom in monomial):
            groups.setdefault(max(_level_of(ctx, atom) for atom in monomial), {})[monomial] = coefficient
        else:
            unstable[monomial] = coefficient
    return [(level, Form(groups[level])) for level in sorted(groups)], Form(unstable)


def uniform(ctx: Context, form: Form) -> Value:
    """A form of uniform atoms as one 64-bit integer."""
    if (number := form.constant) is not None:
        return i64(number)
    parts, unstable = _by_level(ctx, form)
    total: Value | None = None
    done = Form({})
    for level, part in parts:
        done = done + part
        memo = ctx.levels[level].memo
        found = memo.get(done)
        if found is None:
            with ctx.at(level):
                found = memo[done] = _sum(ctx, total, part, level)
        total = found
    if unstable.terms:
        total = _sum(ctx, total, unstable, None)
    assert total is not None
    return ctx.fn.binary("add", total, i64(form.offset)) if form.offset else total


def _sum(ctx: Context, start: Value | None, part: Form, level: int | None) -> Value:
    fn = ctx.fn
    total = start
    for monomial, coefficient in part.terms.items():
        product = _product(ctx, monomial, level)
        if product.lanes != 1:
            raise InternalError("a lane-dependent value where all lanes must agree")
        if coefficient == -1 and total is not None:
            total = fn.binary("sub", total, product)
            continue
        if coefficient != 1:
            product = _scaled(ctx, monomial, product, coefficient, level)
        total = product if total is None else fn.binary("add", total, product)
    assert total is not None
    return total


def _scaled(ctx: Context, monomial: Monomial, product: Value, coefficient: int, level: int | None) -> Value:
    memo = None if level is None else ctx.levels[level].memo
    key = (monomial, coefficient)
    found = None if memo is None else memo.get(key)
    if found is None:
        found = ctx.fn.binary("mul", product, i64(coefficient))
        if memo is not None:
            memo[key] = found
    return found


def _product(ctx: Context, monomial: Monomial, level: int | None) -> Value:
    memo = None if level is None else ctx.levels[level].memo
    if memo is not None and (found := memo.get(monomial)) is not None:
        return found
    product: Value | None = None
    # the order must not depend on hashes, or the text of a program would change from run to run
    for atom in sorted(monomial, key=lambda a: a.name if isinstance(a, Var) else ""):
        value = _atom_value(ctx, atom)
        product = value if product is None else ctx.fn.binary("mul", *ctx.fn.match(product, value))
    assert product is not None
    if memo is not None and product.lanes == 1:
        memo[monomial] = product
    return product


def pointer(ctx: Context, base: Value, base_level: int, form: Form) -> Value:
    """``base`` moved by a uniform form of bytes, each part at its level."""
    parts, unstable = _by_level(ctx, form)
    address = base
    done = Form({})
    for level, part in parts:
        done = done + part
        place = max(level, base_level)
        key = (base.name, done)
        memo = ctx.levels[place].memo
        found = memo.get(key)
        if found is None:
            with ctx.at(place):
                found = memo[key] = ctx.fn.offset(address, _sum(ctx, None, part, place))
        address = found
    if unstable.terms:
        address = ctx.fn.offset(address, _sum(ctx, None, unstable, None))
    return ctx.fn.offset(address, form.offset)


# -- forms that differ from lane to lane ---------------------------------------------------------------------------------


def index(ctx: Context, form: Form) -> Index:
    """A form in the current lanes."""
    if ctx.lanes is None:
        return Index(uniform(ctx, form))
    shared, stride, vector = separate(ctx, form)
    return Index(uniform(ctx, shared), stride, vector)


def separate(ctx: Context, form: Form) -> tuple[Form, int | Value, Value | None]:
    """The form as (what all lanes share, still a form; the step from lane to lane; the rest as a vector)."""
    lanes = ctx.lanes
    if lanes is None:
        return form, 0, None
    shared: dict[Monomial, int] = {}
    step: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, coefficient in form.terms.items():
        others = tuple(a for a in monomial if a is not lanes.axis)
        if any(ctx.is_varying(atom) for atom in others) or len(monomial) - len(others) > 1:
            rest[monomial] = coefficient
        elif len(others) < len(monomial):
            step[others] = coefficient
            shared[monomial] = coefficient  # the axis stands for the value of lane 0
        else:
            shared[monomial] = coefficient
    stride_form = Form(step)
    stride: int | Value = number if (number := stride_form.constant) is not None else uniform(ctx, stride_form)
    return Form(shared), stride, _vector_sum(ctx, rest.items()) if rest else None


def _vector_sum(ctx: Context, terms: Iterable[tuple[Monomial, int]]) -> Value:
    fn = ctx.fn
    assert ctx.lanes is not None
    count = ctx.lanes.count
    total: Value | None = None
    for monomial, coefficient in terms:
        product: Value | None = None
        for atom in monomial:
            value = axis_values(ctx) if atom is ctx.lanes.axis else _atom_value(ctx, atom)
            product = value if product is None else fn.binary("mul", *fn.match(product, value))
        assert product is not None
        product = fn.splat(product, count)
        if coefficient != 1:
            product = fn.binary("mul", product, constant("i64", coefficient, count))
        total = product if total is None else fn.binary("add", total, product)
    assert total is not None
    return total


def iota(element: str, count: int, step: int = 1) -> Value:
    """0, step, 2 * step ... as a constant vector."""
    return vector_constant(element, [lane * step for lane in range(count)])


def axis_values(ctx: Context) -> Value:
    """The vector axis as 64 bits a lane."""
    assert ctx.lanes is not None
    base = ctx.fn.splat(ctx.values[ctx.lanes.axis], ctx.lanes.count)
    return ctx.fn.binary("add", base, iota("i64", ctx.lanes.count))


def spread(ctx: Context, found: Index, element: str = "i64") -> Value:
    """An index as one register: scalar where uniform, else one value a lane, cut to ``element``."""
    fn = ctx.fn
    base = fn.resize(found.uniform, element, is_signed=True)
    if found.is_uniform:
        return base
    assert ctx.lanes is not None
    count = ctx.lanes.count
    total = fn.splat(base, count)
    if isinstance(found.stride, int):
        if found.stride:
            total = fn.binary("add", total, iota(element, count, found.stride))
    else:
        stride = fn.splat(fn.resize(found.stride, element, is_signed=True), count)
        total = fn.binary("add", total, fn.binary("mul", stride, iota(element, count)))
    if found.vector is not None:
        total = fn.binary("add", total, fn.resize(found.vector, element, is_signed=True))
    return total


def materialise(ctx: Context, form: Form, element: str = "i64") -> Value:
    """A form as one register: scalar where all lanes agree, else one value a lane."""
    return spread(ctx, index(ctx, form), element)


# -- tests ---------------------------------------------------------------------------------------------------------------


def is_nonnegative(ctx: Context, form: Form) -> Value:
    """Whether the form is at least 0, as i1 for all lanes together or one a lane."""
    fn = ctx.fn
    shared, stride, vector = separate(ctx, form)
    if stride == 0 and vector is None:
        parts, unstable = _by_level(ctx, shared)
        level = ctx.level if unstable.terms else max((at for at, _ in parts), default=0)
        memo = ctx.levels[level].memo
        found = None if unstable.terms else memo.get(("test", shared))
        if found is None:
            with ctx.at(level):
                found = fn.compare("sge", uniform(ctx, shared), i64(0))
            if not unstable.terms:
                memo["test", shared] = found
        return found
    assert ctx.lanes is not None
    count = ctx.lanes.count
    if vector is None and isinstance(stride, int) and abs(stride) == 1 and count <= 64:
        is_kept = all(is_stable(atom) for atom in shared.atoms())
        key: object = ("lanes", stride, count, shared)
        kept = ctx.levels[-1].memo.get(key) if is_kept else None
        if kept is not None:
            return kept
        # lane <= u, or lane >= -u: clamped to the few values a lane number can have, so that the lanes compare as bytes
        bound = uniform(ctx, shared if stride < 0 else shared.scaled(-1))
        clamped = fn.intrinsic("llvm.smax", fn.intrinsic("llvm.smin", bound, i64(count)), i64(-1))
        limit = fn.splat(fn.convert("trunc", clamped, "i8"), count)
        found = fn.compare("sle" if stride < 0 else "sge", iota("i8", count), limit)
        if is_kept:
            ctx.levels[-1].memo[key] = found
        return found
    value = spread(ctx, Index(uniform(ctx, shared), stride, vector))
    return fn.compare("sge", value, constant("i64", 0, count))


def conjunction(ctx: Context, *tests: Value | None) -> Value | None:
    """All of the tests; None for none."""
    result: Value | None = None
    for test in tests:
        if test is None or test.name == "true":
            continue
        result = test if result is None else ctx.fn.binary("and", *ctx.fn.match(result, test))
    return result


def any_lane(ctx: Context, mask: Value) -> Value:
    """Whether the mask holds for any lane."""
    return mask if mask.lanes == 1 else ctx.fn.intrinsic("llvm.vector.reduce.or", mask)


@contextmanager
def each_lane(ctx: Context, count: int, mask: Value | None) -> Iterator[Value]:
    """The code of the block once for each lane of the mask (None: all), one after the other; gives the lane's number."""
    fn = ctx.fn
    with fn.loop(i64(0), i64(count)) as lane, fn.when(constant("i1", True) if mask is None else fn.extract(mask, lane.index)):
        yield lane.index


def index_register(ctx: Context, expr: Expr) -> Value:
    """A pure index expression as a register of its own dtype."""
    return materialise(ctx, ctx.scope.sum(expr), register_type(expr.dtype))
