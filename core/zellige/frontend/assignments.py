"""Assignment: what a name, an element, an attribute or a pattern of them holds afterwards.

Assigning to a name that holds a variable stores; a number known only when the kernel runs is bound under the name, so that it keeps its
value; everything else is Python's rebinding. Names that run-time control flow needs as variables were prepared by
:mod:`zellige.frontend.control`. Python's own lists, dicts and objects cannot change under run-time control.
"""

from __future__ import annotations

import ast
import operator
import types
from typing import Any

from zellige.diagnostics import catalogue
from zellige.diagnostics.wording import counted
from zellige.dtypes import DType
from zellige.frontend import arithmetic
from zellige.frontend.annotations import without_quotes
from zellige.frontend.calls import SHARED_HINT, evaluate_call
from zellige.frontend.changes import refuse_in_place, refuse_iterator
from zellige.frontend.evaluator import evaluate, evaluates, executes
from zellige.frontend.expressions import (
    Mark,
    apply_binary,
    escaping,
    index_value,
    item,
    kept,
    plain,
    refuse_elements,
    refuse_run_time_index,
)
from zellige.frontend.parameters import PendingTensor, annotate
from zellige.frontend.scopes import Frame, Hidden, Pending, Signal
from zellige.frontend.values import Scalar, Tile, TileRegion, Variable, bind, taken
from zellige.frontend.vectors import Vector, VectorVariable, can_vary, is_variable, names_of, stored, variable_for


def assign_name(frame: Frame, name: str, value: Any, source: ast.expr | None) -> None:
    """``name = value``; ``source`` is the expression that gave the value, None for a value that is fresh."""
    if is_variable(value):
        # a variable that a call just made is bound as it is; any other reading of a variable takes its value
        is_fresh = source is None or isinstance(source, ast.Call)
        current = frame.locals.get(name)
        if is_fresh and not (is_variable(current) and current.depth < value.depth and frame.trace.depth > 0):
            frame.locals[name] = value
            return
        value = Scalar(value.expr) if isinstance(value, Variable) else value.value()
    current = frame.locals.get(name)
    match current:
        case Variable() | VectorVariable() if _stores(frame, current, value):
            current.assign(value)
        case Variable() | VectorVariable() if current.depth < frame.builder.depth and frame.trace.depth > frame.base_depth:
            reason = f"is a {current.dtype} variable and cannot become {arithmetic.describe(value)} under run-time control"
            raise catalogue.E109.error(frame.builder.span, name=name, reason=reason)
        case Hidden(variable=(Variable() | VectorVariable()) as variable) if can_vary(value):
            variable.assign(value)
            frame.locals[name] = variable
        case Pending() if can_vary(value):
            if current.variable is None:
                current.variable = variable_for(name, value, depth=current.depth)
                frame.builder.unset.update(dict.fromkeys(names_of(current.variable), name))
            frame.locals[name] = current.variable
            current.variable.assign(value)
        case _ if isinstance(value, Vector):
            frame.locals[name] = value.named(name)
        case _:
            frame.locals[name] = bind(name, value) if isinstance(value, Scalar) else taken(value)


def _stores(frame: Frame, variable: Variable | VectorVariable, value: Any) -> bool:
    """Whether assigning ``value`` to a name that holds ``variable`` stores. A name of the author's own that became a variable of a number
    is given a vector, or the other way round, by Python's rebinding where control is that of the variable."""
    if isinstance(variable, VectorVariable) == isinstance(value, Vector):
        return can_vary(value)
    return can_vary(value) and not variable.is_implied


def assign(frame: Frame, target: ast.expr, value: Any, source: ast.expr | None) -> None:
    """``target = value`` for any target: a name, an element or slice, an attribute, a tuple or list of targets with at most one star."""
    match target:
        case ast.Name():
            if target.id in frame.flow.outer_names and frame.kind != "comprehension":
                frame.here(target)
                _assign_outer(frame, target.id, value)
                return
            assign_name(frame, target.id, value, source)
        case ast.Subscript():
            mark = frame.builder.mark()
            owner = evaluate(frame, target.value)
            position = index_value(frame, target.slice)
            refuse_elements(owner, target, frame.here(target))
            store_item(frame, owner, position, kept(frame, value, mark), source)
        case ast.Attribute():
            mark = frame.builder.mark()
            owner = evaluate(frame, target.value)
            span = frame.here(target)
            _check_owner(frame, owner, target)
            if not frame.trace.may_change(owner):
                raise catalogue.E119.error(span, given=f"the attribute {target.attr} of a {type(owner).__name__}")
            setattr(owner, target.attr, escaping(kept(frame, value, mark), source))
        case ast.Tuple() | ast.List():
            _unpack(frame, target, value)
        case _:
            raise catalogue.E111.error(frame.here(target), what=type(target).__name__, instead="assign to a name or an element")


def _assign_outer(frame: Frame, name: str, value: Any) -> None:
    """A name of ``nonlocal`` or ``global``: a variable that the kernel around allocated takes the value. E130: any other name."""
    around = frame.enclosing
    while around is not None and name not in around.locals:
        around = around.enclosing
    if around is None or name not in frame.flow.nonlocal_names:
        raise catalogue.E130.error(frame.builder.span, name=name)
    held = around.locals[name]
    if not is_variable(held) or held.is_implied or not can_vary(value):
        hint = f"make it a variable of the kernel, {name} = T.alloc_var(dtype, init=...), which functions inside can give another number"
        raise catalogue.E130.error(frame.builder.span, name=name, hint=hint)
    held.assign(value)


def _check_owner(frame: Frame, owner: Any, target: ast.Attribute) -> None:
    """E130 for an attribute of a module or class: the whole process would see the change, made once, while the kernel is compiled."""
    if isinstance(owner, (types.ModuleType, type)):
        raise catalogue.E130.error(frame.here(target), name=f"{owner.__name__}.{target.attr}", hint=SHARED_HINT)


def store_item(frame: Frame, owner: Any, position: Any, value: Any, source: ast.expr | None) -> None:
    """``owner[position] = value``; a Python container that holds a variable there stores into the variable."""
    if isinstance(owner, PendingTensor):
        owner = owner.tile()
    if isinstance(owner, (Tile, TileRegion, Scalar)) or hasattr(owner, "buffer"):
        owner[position] = value
        return
    if isinstance(owner, (list, dict)) and can_vary(value):
        held = owner[position] if isinstance(owner, list) and not isinstance(position, slice) else None
        if isinstance(owner, dict):
            held = owner.get(position)
        if is_variable(held):
            held.assign(value)
            return
    if hasattr(type(owner), "__setitem__") and not frame.trace.may_change(owner):
        raise catalogue.E119.error(frame.builder.span, given=f"a {type(owner).__name__}")
    value = escaping(value, source)
    try:
        owner[position] = value
    except (TypeError, IndexError, KeyError):
        refuse_run_time_index(owner, position, frame.builder.span)
        raise


def _unpack(frame: Frame, target: ast.Tuple | ast.List, value: Any) -> None:
    span = frame.here(target)
    if isinstance(value, (Tile, TileRegion)) or (isinstance(value, Scalar) and not hasattr(value, "__len__")):
        hint = "it is one number: give it one name" if isinstance(value, Scalar) else "take its elements: a, b = A[0], A[1]"
        raise catalogue.E106.error(span, given=value.described, hint=hint)
    refuse_iterator(frame.trace, value, span)
    try:
        values = list(value.taken() if isinstance(value, Vector) else value)
    except TypeError:
        raise catalogue.E136.error(span, message=f"{arithmetic.describe(value)} is one value, not {len(target.elts)}") from None
    names = target.elts
    star = next((i for i, n in enumerate(names) if isinstance(n, ast.Starred)), None)
    if star is None:
        if len(values) != len(names):
            message = f"{counted(len(values), 'value')} for {counted(len(names), 'name')}"
            if getattr(value, "is_grid", False):
                extents = counted(len(values), "extent")
                hint = f"one name for each extent of the grid: it has {extents}; the number of lanes is an argument by name, threads=128"
                raise catalogue.E136.error(span, message=f"T.Kernel of {extents} gives {message}", hint=hint)
            raise catalogue.E136.error(span, message=message)
    else:
        after = len(names) - star - 1
        if len(values) < len(names) - 1:
            raise catalogue.E136.error(span, message=f"{counted(len(values), 'value')} for at least {counted(len(names) - 1, 'name')}")
        middle = frame.trace.remember(values[star : len(values) - after])
        values = [*values[:star], middle, *values[len(values) - after :]]
    for name, part in zip(names, values):
        frame.here(target)
        assign(frame, name.value if isinstance(name, ast.Starred) else name, part, None)


@executes(ast.Assign)
def _assign(frame: Frame, node: ast.Assign) -> Signal:
    frame.here(node)
    first = node.targets[0]
    wanted = first.id if len(node.targets) == 1 and isinstance(first, ast.Name) else None
    value = evaluate_call(frame, node.value, wanted) if isinstance(node.value, ast.Call) else evaluate(frame, node.value)
    if len(node.targets) > 1:
        value = escaping(value, node.value)
    for target in node.targets:
        frame.here(node)
        _refuse_nothing(frame, target, value, node.value)
        assign(frame, target, value, node.value)
    return Signal.NEXT


def _refuse_nothing(frame: Frame, target: ast.expr, value: Any, source: ast.expr) -> None:
    """E164 where a tile's name is given what an operation returns that returns nothing."""
    if value is not None or not isinstance(source, ast.Call) or not isinstance(target, ast.Name):
        return
    if isinstance(frame.locals.get(target.id), (Tile, TileRegion)):
        raise catalogue.E164.error(frame.here(source), operation=ast.unparse(source.func), name=target.id)


@executes(ast.AnnAssign)
def _annotated(frame: Frame, node: ast.AnnAssign) -> Signal:
    target = node.target
    if node.value is None:
        if isinstance(target, ast.Name):
            _declare(frame, target.id, node)
        return Signal.NEXT
    wanted = target.id if isinstance(target, ast.Name) else None
    value = evaluate_call(frame, node.value, wanted) if isinstance(node.value, ast.Call) else evaluate(frame, node.value)
    is_typed = (can_vary(value) or isinstance(value, str)) and not is_variable(value)
    dtype = _annotated_dtype(frame, node.annotation) if is_typed else None
    frame.here(node)
    if dtype is not None:
        value = stored(value, dtype)
    assign(frame, target, value, node.value)
    return Signal.NEXT


def _annotated_dtype(frame: Frame, annotation: ast.expr) -> DType | None:
    """The element type that the annotation of a number names; None for Python's own types, which say nothing about width."""
    found: Any = without_quotes(annotation, frame.sees)
    if isinstance(found, ast.expr):
        found = evaluate(frame, found)
    return found if isinstance(found, DType) else None


def _declare(frame: Frame, name: str, node: ast.AnnAssign) -> None:
    """``name: T.Tensor[...]`` without a value describes a parameter; another annotation alone means nothing, as in Python."""
    current = frame.locals.get(name)
    said = without_quotes(node.annotation, frame.sees)
    if said is None:
        return
    specification = said if isinstance(said, DType) else evaluate(frame, said)
    frame.here(node)
    if isinstance(current, PendingTensor) or hasattr(specification, "strides"):
        frame.locals[name] = annotate(frame.trace, name, current, specification)


@executes(ast.AugAssign)
def _augmented(frame: Frame, node: ast.AugAssign) -> Signal:
    target = node.target
    match target:
        case ast.Name():
            frame.here(target)
            current = frame.lookup(target.id)
            mark = frame.builder.mark()
            value = _operand(frame, node)
            before = kept(frame, current, mark)
            refuse_in_place(frame.trace, current, node.op, frame.builder.span)
            result = apply_binary(node.op, before, value, in_place=True)
            if target.id in frame.flow.outer_names:
                _assign_outer(frame, target.id, result)
            else:
                assign_name(frame, target.id, result, node.value)
        case ast.Subscript():
            owner = evaluate(frame, target.value)
            position = index_value(frame, target.slice)
            refuse_elements(owner, target, frame.here(target))
            held = item(owner, position)
            mark = frame.builder.mark()
            value = _operand(frame, node)
            if isinstance(held, TileRegion):
                raise catalogue.E252.error(frame.builder.span, name=held.buffer.label)
            before = kept(frame, held, mark)
            if is_variable(held):
                held.assign(apply_binary(node.op, before, value))
            else:
                refuse_in_place(frame.trace, held, node.op, frame.builder.span)
                position = _position_kept(frame, position, mark)
                store_item(frame, owner, position, apply_binary(node.op, before, value, in_place=True), node.value)
        case ast.Attribute():
            owner = evaluate(frame, target.value)
            held = getattr(owner, target.attr)
            mark = frame.builder.mark()
            value = _operand(frame, node)
            _check_owner(frame, owner, target)
            before = kept(frame, held, mark)
            if is_variable(held):
                held.assign(apply_binary(node.op, before, value))
            elif not frame.trace.may_change(owner):
                raise catalogue.E119.error(frame.builder.span, given=f"the attribute {target.attr} of a {type(owner).__name__}")
            else:
                refuse_in_place(frame.trace, held, node.op, frame.builder.span)
                setattr(owner, target.attr, taken(apply_binary(node.op, before, value, in_place=True)))
    return Signal.NEXT


def _position_kept(frame: Frame, position: Any, mark: Mark) -> Any:
    """What stood between the brackets, as it was at ``mark``."""
    if isinstance(position, tuple):
        return tuple(kept(frame, part, mark) for part in position)
    return kept(frame, position, mark)


def _operand(frame: Frame, node: ast.AugAssign) -> Any:
    value = evaluate(frame, node.value)
    frame.here(node)
    return value


@executes(ast.Delete)
def _delete(frame: Frame, node: ast.Delete) -> Signal:
    for target in node.targets:
        span = frame.here(target)
        match target:
            case ast.Name():
                frame.lookup(target.id)
                del frame.locals[target.id]
            case ast.Subscript():
                owner = evaluate(frame, target.value)
                if isinstance(owner, (Tile, TileRegion, Scalar)) or not frame.trace.may_change(owner):
                    raise catalogue.E111.error(span, what="del of an element", instead="elements of tiles are stored to, not deleted")
                operator.delitem(owner, plain(evaluate(frame, target.slice)))
            case _:
                raise catalogue.E111.error(span, what="del of an attribute", instead="move it out of the kernel")
    return Signal.NEXT


@evaluates(ast.NamedExpr)
def _named(frame: Frame, node: ast.NamedExpr) -> Any:
    value = evaluate(frame, node.value)
    frame.here(node)
    scope = frame.scope()
    assign_name(scope, node.target.id, value, node.value)
    return scope.lookup(node.target.id)
