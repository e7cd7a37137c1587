"""What the names that a run-time construct assigns mean before, inside and after it.

In: a frame, and the statement whose names are settled. Out: names of the frame that hold variables of the kernel, what they held, or
:class:`~zellige.frontend.scopes.Hidden` with the reason why reading them is an error.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, Final

from zellige.diagnostics import Span, catalogue
from zellige.frontend.scopes import Frame, Hidden, Pending
from zellige.frontend.vectors import can_vary, is_variable, variable_for

MISSING: Final = object()
"""What a name holds that holds nothing."""


def prepare(frame: Frame, node: ast.stmt, loop: ast.For | ast.While | None) -> list[str]:
    """Turns the names that must be variables of the kernel into such, and returns all names that ``node`` may assign."""
    names = sorted(frame.flow.assigned(node) - frame.flow.outer_names)
    for name in names:
        if not (frame.flow.is_needed_after(node, name) or (loop is not None and frame.flow.is_carried(loop, name))):
            continue
        make_variable(frame, name)
    return names


def make_variable(frame: Frame, name: str) -> None:
    """A name that holds a number or a vector becomes a variable of the kernel, one that holds nothing will at its first assignment."""
    current = frame.locals.get(name, MISSING)
    if current is MISSING or (isinstance(current, Hidden) and current.variable is None):
        frame.locals[name] = Pending(frame.builder.depth, hidden=current if isinstance(current, Hidden) else None)
    elif can_vary(current) and not is_variable(current):
        frame.locals[name] = variable_for(name, current)


def held(frame: Frame, names: Sequence[str]) -> dict[str, Any]:
    """What the names hold now."""
    return {name: frame.locals.get(name, MISSING) for name in names}


def restore(frame: Frame, values: dict[str, Any]) -> None:
    """Gives names back what they held."""
    for name, value in values.items():
        put(frame, name, value)


def put(frame: Frame, name: str, value: Any) -> None:
    """Makes ``name`` hold ``value``, or nothing."""
    if value is MISSING:
        frame.locals.pop(name, None)
    elif isinstance(value, Pending) and value.variable is not None and value.hidden is None:
        frame.locals[name] = value.variable
    else:
        frame.locals[name] = value


def joined(before: Any, paths: list[Any]) -> Any:
    """What a name holds after the branches that can be left at their end."""
    if isinstance(before, Pending) and before.hidden is not None and any(v is before for v in paths):
        return before.hidden
    values = [v.variable if isinstance(v, Pending) and v.variable is not None else v for v in paths]
    if isinstance(before, Pending) and before.variable is not None:
        before = before.variable
    if all(v is before for v in values):
        return before
    first = values[0]
    is_kept = isinstance(before, Pending) or is_variable(before) or len(values) == 1
    if is_variable(first) and is_kept and all(v is first or v is before for v in values):
        return first
    if not can_vary(first) and all(same_object(first, v) for v in values):
        return first
    if any(v is MISSING for v in values):
        return Hidden("has a value only inside a run-time if")
    return Hidden("is given different objects by a run-time if" if not can_vary(first) else "has a value only inside a run-time if")


def at_ends(frame: Frame, name: str, old: Any, jumps: Sequence[dict[str, Any]]) -> Any:
    """What a name holds where an iteration ends: of its end and its jumps, the first place where it is not what it was before."""
    values = [frame.locals.get(name, MISSING), *(jump[name] for jump in jumps if name in jump)]
    values = [v.variable if isinstance(v, Pending) and v.variable is not None else v for v in values]
    kept = (old, old.variable) if isinstance(old, Pending) else (old,)
    changed = (v for v in values if not any(v is k or same_object(v, k) for k in kept) and not isinstance(v, Pending))
    return next(changed, values[0])


def settle_after_loop(
    frame: Frame, loop: ast.For | ast.While, before: dict[str, Any], jumps: Sequence[dict[str, Any]], span: Span
) -> None:
    """Settles the names of a run-time loop whose body was traced once; ``jumps`` are what they held at each break and continue. Raises
    E109 and E115 for names that an iteration leaves as the next cannot take them."""
    for name, old in before.items():
        new = at_ends(frame, name, old, jumps)
        if isinstance(old, Pending):
            if old.hidden is not None:
                frame.locals[name] = old.hidden
                continue
            old = old.variable if old.variable is not None else MISSING
        is_carried = frame.flow.is_carried(loop, name)
        if isinstance(new, Pending):
            put(frame, name, before[name])  # no iteration gives it a value; what is around the loop may
        elif new is old or same_object(new, old):
            put(frame, name, old)
        elif isinstance(new, Hidden) and new.code == "E115" and is_carried:
            raise catalogue.E115.error(span, name=name, reason=new.reason)
        elif is_carried and old is not MISSING and not isinstance(old, Hidden):
            raise catalogue.E109.error(
                span, name=name, reason="holds another object after an iteration than before it, and the next iteration reads it"
            )
        else:
            frame.locals[name] = Hidden("has a value only inside a run-time loop")


def same_object(a: Any, b: Any) -> bool:
    """Whether two values of a name are one: the same object, or equal constants of Python that cannot change."""
    if a is b:
        return True
    if isinstance(a, (Hidden, Pending)) or isinstance(b, (Hidden, Pending)) or a is MISSING or b is MISSING:
        return False
    return type(a) is type(b) and isinstance(a, (str, bytes, type(None))) and a == b
