"""Expressions to registers, in any order of depth without recursion.

In: an expression and the context (lanes, mask, what is known). Out: a register of the expression's dtype, with one lane where all
points agree.

Integer expressions of index variables alone are computed as forms (exact in 64 bits, each part at its own level); everything else follows
the tree. The side of a Select that is not chosen is computed under a mask in which its loads touch nothing.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from zellige.analysis.bounds import Scope
from zellige.analysis.forms import Form, is_index_dtype
from zellige.diagnostics import InternalError
from zellige.ir.expr import INT64, Binary, Cast, Compare, Const, Expr, Load, Math, Reinterpret, Select, Unary, Var
from zellige.ir.traverse import children, operands_first
from zellige.records import dataclass
from zellige_cpu import accesses, arithmetic
from zellige_cpu.context import Context
from zellige_cpu.indexes import conjunction, index, index_register, iota, is_nonnegative, is_stable, spread
from zellige_cpu.leaf import convert
from zellige_cpu.values import Value, constant


def evaluate(ctx: Context, expr: Expr) -> Value:
    """The value of ``expr`` at the current place."""
    match expr:
        case Const():
            return arithmetic.number(expr.dtype, expr.value)
        case Var():
            return variable(ctx, expr)
        case Load():
            return _load(ctx, expr)
        case _:
            return _Evaluation(ctx).run(expr)


def _load(ctx: Context, load: Load) -> Value:
    """An element, once a statement: the tests of bounds and the address of an access mention the elements in its indices again."""
    key = (load, None if ctx.mask is None else ctx.mask.name)
    found = ctx.loaded.get(key) or ctx.loaded.get((load, None))
    if found is None:
        found = ctx.loaded[key] = accesses.load(ctx, load.buffer, load.indices)
    return found


def variable(ctx: Context, var: Var) -> Value:
    """The value of a variable as a register of its dtype."""
    slot = ctx.slots.get(var)
    if slot is not None:
        return ctx.fn.load(slot.pointer, slot.element, slot.lanes, align=64)
    if ctx.scope.is_index_variable(var):
        return index_register(ctx, var)
    value = ctx.values.get(var)
    if value is None:
        raise InternalError(f"variable {var.name} is read before it has a value")
    return value


class _Task(NamedTuple):
    kind: Literal["visit", "apply", "then", "otherwise", "right", "restore"]
    node: Expr


@dataclass(slots=True)
class _Saved:
    mask: Value | None
    scope: Scope
    condition: Value
    key: int


class _Evaluation:
    """One walk over one expression: a stack of tasks, a stack of results, and results kept for shared nodes under a mask."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.results: list[Value] = []
        self.memo: dict[int, dict[int, Value]] = {}  # by the id of a node and the number of a mask
        self.saved: list[_Saved] = []
        self.around: set[int] = set()  # the numbers of masks in ``saved``
        self.mask_key = 0
        self.mask_count = 0
        self.loading: set[int] | None = None

    def run(self, root: Expr) -> Value:
        tasks = [_Task("visit", root)]
        while tasks:
            task = tasks.pop()
            match task.kind:
                case "visit":
                    self._visit(task.node, tasks, root)
                case "apply":
                    self._keep(task.node, self._apply(task.node))
                case "then" | "right":
                    self._enter(task)
                case "otherwise":
                    self._switch(task.node)
                case "restore":
                    self._restore()
        return self.results.pop()

    def _visit(self, node: Expr, tasks: list[_Task], root: Expr) -> None:
        known = self._known(node)
        if known is not None:
            self.results.append(known)
            return
        value = self._direct(node)
        if value is not None:
            self._keep(node, value)
            return
        match node:
            case Select() if self._loads(node.then, root) or self._loads(node.otherwise, root):
                tasks.extend([_Task("apply", node), _Task("restore", node), _Task("visit", node.otherwise), _Task("otherwise", node)])
                tasks.extend([_Task("visit", node.then), _Task("then", node), _Task("visit", node.condition)])
            case Binary(op="and" | "or") if self._loads(node.right, root):
                tasks.extend([_Task("apply", node), _Task("restore", node), _Task("visit", node.right)])
                tasks.extend([_Task("right", node), _Task("visit", node.left)])
            case _:
                tasks.append(_Task("apply", node))
                tasks.extend([_Task("visit", child) for child in children(node)][::-1])  # type: ignore[arg-type]

    def _known(self, node: Expr) -> Value | None:
        """The value of a node that was computed before, under this mask or one around it, whose points are more."""
        computed = self.memo.get(id(node), {})
        found = computed.get(self.mask_key)
        return found if found is not None else next((value for key, value in computed.items() if key in self.around), None)

    def _keep(self, node: Expr, value: Value) -> None:
        self.memo.setdefault(id(node), {})[self.mask_key] = value
        self.results.append(value)

    def _direct(self, node: Expr) -> Value | None:
        """The value of a node whose operands need no visit."""
        ctx = self.ctx
        match node:
            case Const() | Var() | Load():
                return evaluate(ctx, node)
            case Compare():
                return comparison(ctx, node)
            case _:
                return index_register(ctx, node) if ctx.scope.is_pure(node) else None

    def _loads(self, node: Expr, root: Expr) -> bool:
        if self.loading is None:
            self.loading = _nodes_with_loads(root)
        return id(node) in self.loading

    # -- masks --------------------------------------------------------------------------------------------------------

    def _enter(self, task: _Task) -> None:
        ctx, node = self.ctx, task.node
        holds = not (isinstance(node, Binary) and node.op == "or")
        test = self.results[-1]
        self.saved.append(_Saved(ctx.mask, ctx.scope, test, self.mask_key))
        self.around.add(self.mask_key)
        guard = test if holds else arithmetic.unary(ctx.fn, "not", test, node.dtype)
        self._set(guard, node.condition if isinstance(node, Select) else node.left, holds)  # type: ignore[union-attr]

    def _switch(self, node: Expr) -> None:
        assert isinstance(node, Select)
        saved = self.saved[-1]
        self.ctx.mask, self.ctx.scope = saved.mask, saved.scope
        self._set(arithmetic.unary(self.ctx.fn, "not", saved.condition, node.condition.dtype), node.condition, False)

    def _set(self, guard: Value, reason: Expr, holds: bool) -> None:
        ctx = self.ctx
        ctx.mask = conjunction(ctx, ctx.mask, guard)
        ctx.scope = ctx.scope.inner(is_masked=True)
        ctx.scope.assume(reason, holds=holds)
        self.mask_count += 1
        self.mask_key = self.mask_count

    def _restore(self) -> None:
        saved = self.saved.pop()
        self.around.remove(saved.key)
        self.ctx.mask, self.ctx.scope, self.mask_key = saved.mask, saved.scope, saved.key

    # -- nodes --------------------------------------------------------------------------------------------------------

    def _apply(self, node: Expr) -> Value:
        ctx, fn, results = self.ctx, self.ctx.fn, self.results
        match node:
            case Unary(op=op):
                return arithmetic.unary(fn, op, results.pop(), node.dtype)
            case Binary(op=op):
                right, left = results.pop(), results.pop()
                divisor = int(node.right.value) if isinstance(node.right, Const) and node.dtype.is_integer else None
                return arithmetic.binary(fn, op, left, right, node.dtype, divisor=divisor, flags=ctx.float_flags)
            case Compare(op=op):
                right, left = results.pop(), results.pop()
                return arithmetic.compare(fn, op, left, right, node.left.dtype)
            case Select():
                otherwise, then, test = results.pop(), results.pop(), results.pop()
                then, otherwise = fn.match(then, otherwise)
                if test.lanes > then.lanes:
                    then, otherwise = fn.splat(then, test.lanes), fn.splat(otherwise, test.lanes)
                return fn.select(test, then, otherwise)
            case Cast(value=value):
                return convert.cast(fn, results.pop(), value.dtype, node.dtype, node.rounding, node.saturate)
            case Math(function=function, args=args):
                operands = results[len(results) - len(args) :]
                del results[len(results) - len(args) :]
                return math_function(ctx, function, operands, node)
            case Reinterpret(value=value):
                return arithmetic.reinterpret(fn, results.pop(), value.dtype, node.dtype)
            case _:
                raise InternalError(f"{type(node).__name__} reached the emitter of expressions")


def math_function(ctx: Context, function: str, operands: list[Value], node: Math) -> Value:
    """A function of :data:`zellige.ir.functions.FUNCTIONS` on operands of any lanes."""
    from zellige_cpu.leaf import math  # many kernels have no functions

    lanes = max(o.lanes for o in operands)
    precision = node.precision if node.precision != "default" else ctx.precision
    return math.call(ctx.fn, function, [ctx.fn.splat(o, lanes) for o in operands], node.args[0].dtype, precision)


def _nodes_with_loads(root: Expr) -> set[int]:
    """The ids of the nodes under ``root`` that are or hold a Load."""
    found: set[int] = set()
    for node in operands_first(root):
        if isinstance(node, Load) or any(id(child) in found for child in children(node)):
            found.add(id(node))
    return found


# -- comparisons of indices ----------------------------------------------------------------------------------------------


def comparison(ctx: Context, node: Compare) -> Value | None:
    """A comparison of which one side is index arithmetic, as a test of forms; None for any other."""
    left, right = node.left, node.right
    if not (_is_arithmetic(ctx, left) or _is_arithmetic(ctx, right)):
        return None
    if not (_is_number(ctx, left) and _is_number(ctx, right)):
        return None
    difference = ctx.scope.form(left) - ctx.scope.form(right)
    if not (ctx.scope.fits(difference, INT64) and ctx.scope.fits(difference.scaled(-1) - 1, INT64)):
        return None
    if node.op in ("eq", "ne"):
        same = _is_zero(ctx, difference)
        return same if node.op == "eq" else ctx.fn.binary("xor", same, constant("i1", True, same.lanes))
    differences = ctx.scope.differences(node)
    assert differences is not None
    form = differences[0]
    if form in ctx.granted or ctx.scope.is_nonnegative(form, unmasked_only=True):
        return constant("i1", True)
    if ctx.scope.is_nonnegative(form.scaled(-1) - 1, unmasked_only=True):
        return constant("i1", False)
    return is_nonnegative(ctx, form)


def _is_arithmetic(ctx: Context, expr: Expr) -> bool:
    return not isinstance(expr, Const) and ctx.scope.is_pure(expr)


def _is_number(ctx: Context, expr: Expr) -> bool:
    """Whether the expression is a form that shows what it is made of, or one number that all lanes share."""
    return ctx.scope.is_exact(expr) or (is_index_dtype(expr.dtype) and is_stable(expr) and not ctx.is_varying(expr))


def _is_zero(ctx: Context, form: Form) -> Value:
    fn = ctx.fn
    if (value := form.constant) is not None:
        return constant("i1", value == 0)
    found = index(ctx, form)
    step = found.step
    if step in (1, -1):
        assert ctx.lanes is not None
        count = ctx.lanes.count
        wanted = found.uniform if step == -1 else fn.binary("sub", constant("i64", 0), found.uniform)
        clamped = fn.intrinsic("llvm.smax", fn.intrinsic("llvm.smin", wanted, constant("i64", count)), constant("i64", -1))
        return fn.compare("eq", iota("i8", count), fn.splat(fn.convert("trunc", clamped, "i8"), count))
    value_of = spread(ctx, found)
    return fn.compare("eq", value_of, constant("i64", 0, value_of.lanes))

