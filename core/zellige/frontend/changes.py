"""Changes of Python's own objects under run-time control, which happen once while compiling and not whenever the kernel comes there.

What statements say openly (an assignment to an attribute, ``values.append``) is refused before it happens, where they are evaluated. For
what a call does out of sight, :class:`~zellige.frontend.observation.Observed` notes the state of what the call can reach before it and
compares afterwards. Objects made inside of the same construct may change (:meth:`Trace.may_change`): what a call gives that was not there
before it, and that is no view of what was. In: the trace and the call's parts. Out: E119, or nothing.

Not seen: what :mod:`zellige.frontend.observation` does not see, an object that a function of a library gives out of its own keeping and
that is changed then, and what operators, properties and the steps of a loop do that are the user's own.
"""

from __future__ import annotations

import ast
import builtins
import gc
import types
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from zellige.diagnostics import Span, catalogue
from zellige.diagnostics.ownership import is_core, is_ours
from zellige.frontend.observation import PLAIN, Observed, is_own, is_tensor
from zellige.frontend.scopes import Trace

_MAKERS: Final = frozenset((sorted, sum, zip, enumerate, reversed, iter, map, filter, tuple, list, dict, set, frozenset))
"""Builtins that change none of their arguments and give something new."""

_LOOKERS: Final = frozenset((isinstance, issubclass, type, id, getattr, hasattr, callable, repr, str, iter))
"""Builtins that take nothing from an iterator. ``iter`` gives it back."""

_CONTAINERS: Final = frozenset((list, tuple, set, frozenset, dict, deque))
_PARTS: Final = 256  # of the arguments of a builtin that are asked whether they run code


def _is_builtin(function: Any) -> bool:
    """Whether a function is one of Python's builtins, which run no code of the user's but that of their arguments."""
    return isinstance(function, (type, types.BuiltinFunctionType)) and getattr(builtins, function.__name__, None) is function


def _are_inert(values: Iterable[Any]) -> bool:
    """Whether nothing that is done with the values runs code of the user's or changes anything."""
    pending, count = list(values), 0
    while pending:
        value, count = pending.pop(), count + 1
        kind = type(value)
        if kind in _CONTAINERS:
            pending += [*value, *value.values()] if kind is dict else value
        elif not (kind in PLAIN or kind is range or isinstance(value, np.generic) or is_own(value) or _is_inert_type(value)):
            return False
        if count > _PARTS:
            return False
    return True


def _is_inert_type(value: Any) -> bool:
    return isinstance(value, type) and value.__module__ == "builtins"


def observe_call(trace: Trace, function: Any, arguments: Iterable[Any]) -> Observed | None:
    """What a call that Python makes can change, before it; None where no run-time construct is open or the call changes nothing."""
    given = tuple(arguments)
    if not trace.control or is_core(getattr(function, "__module__", None)) or is_ours(type(function).__module__):
        return None
    if is_ours(getattr(function, "__module__", None)) or (_is_builtin(function) and _are_inert(given)):
        return None
    return Observed((function, *given))


def refuse_changes(trace: Trace, function: Any, observed: Observed | None, result: Any, span: Span | None) -> None:
    """E119 where a call changed what it must not. What the result holds and was not there before is new, and may change."""
    if not trace.control:
        return
    if observed is None:
        is_new = isinstance(result, (list, dict, set)) or hasattr(type(result), "__next__")
        if is_new and _is_builtin(function) and function in _MAKERS:
            for made in (result, *_steps_of(result)):
                trace.remember(made)
        return
    changed = list(observed.changes())
    for value in changed:
        if not trace.may_change(value):
            name = getattr(function, "__name__", None) or type(function).__name__
            raise catalogue.E119.error(span, given=f"{_described(value)} (by a call of {name})")
    is_given = type(result) not in PLAIN and not is_own(result) and not observed.has(result)
    if observed.is_whole and (changed or is_given):
        after = observed.again()
        given = Observed((result,), is_inside=True).values() if is_given else []
        for made in (*given, *(after.values() if changed else ())) if after.is_whole else ():
            if not (observed.has(made) or after.keeps(made) or _shows_what_was(trace, observed, made)):
                trace.remember(made)


def _steps_of(made: Any) -> Iterator[Any]:
    """The iterators that a builtin made inside of the one that it gives: those over the arguments that are none themselves. One that is an
    argument is new already, or was refused."""
    for part in gc.get_referents(made) if hasattr(type(made), "__next__") else ():
        for step in part if type(made) in (map, zip) and type(part) is tuple else (part,):
            if hasattr(type(step), "__next__"):
                yield step


def _shows_what_was(trace: Trace, observed: Observed, made: Any) -> bool:
    """Whether an array or tensor is a view of something that was there and must not change."""
    if is_tensor(made):
        return any(is_tensor(value) and not trace.may_change(value) and _share_memory(made, value) for value in observed.values())
    seen = 0
    while isinstance(made, (np.ndarray, memoryview)) or seen:
        made = made.obj if isinstance(made, memoryview) else getattr(made, "base", None)
        if made is None:
            return False
        if observed.has(made) and not trace.may_change(made):
            return True
        seen += 1
    return False


def _share_memory(one: Any, other: Any) -> bool:
    """Whether two tensors have the same storage; taken to be so where they have none that can be asked."""
    try:
        return bool(one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):
        return True


def _described(value: Any) -> str:
    if isinstance(value, (types.FunctionType, types.MethodType)):
        return f"what {value.__name__} takes from around it"
    if isinstance(value, types.ModuleType):
        return f"the module {value.__name__}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return "an iterator" if hasattr(type(value), "__next__") else f"a {type(value).__name__}"


def refuse_iterator(trace: Trace, value: Any, span: Span | None) -> None:
    """E119 where an iterator from outside of a run-time construct is about to be taken from inside of it."""
    if trace.control and hasattr(type(value), "__next__") and not is_own(value) and not trace.may_change(value):
        raise catalogue.E119.error(span, given="an iterator (taken from here)")


def refuse_iterators(trace: Trace, function: Any, arguments: Iterable[Any], span: Span | None) -> None:
    """The same for the arguments of a call."""
    if not trace.control or (_is_builtin(function) and function in _LOOKERS):
        return
    for value in arguments:
        refuse_iterator(trace, value, span)


_IN_PLACE: Final[dict[type[ast.operator], str]] = {
    ast.Add: "__iadd__", ast.Sub: "__isub__", ast.Mult: "__imul__", ast.Div: "__itruediv__", ast.FloorDiv: "__ifloordiv__",
    ast.Mod: "__imod__", ast.Pow: "__ipow__", ast.LShift: "__ilshift__", ast.RShift: "__irshift__", ast.BitOr: "__ior__",
    ast.BitXor: "__ixor__", ast.BitAnd: "__iand__", ast.MatMult: "__imatmul__",
}  # fmt: skip


def refuse_in_place(trace: Trace, value: Any, op: ast.operator, span: Span | None) -> None:
    """E119 where ``value op= ...`` changes an object itself."""
    if trace.control and hasattr(type(value), _IN_PLACE[type(op)]) and not is_own(value) and not trace.may_change(value):
        raise catalogue.E119.error(span, given=_described(value))
