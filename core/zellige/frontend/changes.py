"""Changes of Python's own objects under run-time control, which happen once while compiling and not whenever the kernel comes there.

What statements say openly (an assignment to an attribute, ``values.append``) is refused before it happens, where they are evaluated. For
what a call does out of sight, :class:`Observed` notes the state of what the call can reach before it and compares afterwards: the
arguments, the object of a method, the names that a function of the user's takes from around it, and what these hold. Objects made inside
of the same construct may change (:meth:`Trace.may_change`). In: the trace and the call's parts. Out: E119, or nothing.

Not seen: what objects and functions of libraries keep to themselves (a cache, a generator of random numbers), what operators and
properties of the user's classes do, and what lies more than ``_LIMIT`` objects deep.
"""

from __future__ import annotations

import ast
import functools
import operator
import os
import sys
import types
import zlib
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from zellige.diagnostics import Span, catalogue
from zellige.diagnostics.span import is_own_module
from zellige.frontend.scopes import Trace

_LIMIT: Final = 4096  # objects that are looked at for one call
_SUMMED: Final = 1 << 26  # bytes of an array that are compared

_VALUES: Final = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), range, slice, np.generic)
_PLAIN: Final = frozenset((bool, int, float, complex, str, bytes, type(None)))
_COMPARED: Final = (bool, int, float, complex, str, bytes)

_READERS: Final = frozenset(
    (len, isinstance, issubclass, type, id, getattr, hasattr, callable, repr, str, bytes, print, sorted, sum)
    + (zip, enumerate, reversed, iter, map, filter, tuple, list, dict, set, frozenset)
)
"""Builtins that change none of their arguments, iterators apart."""

_LOOKERS: Final = frozenset((isinstance, issubclass, type, id, getattr, hasattr, callable, repr, str, iter))
"""Builtins that take nothing from an iterator. ``iter`` gives it back."""


def _is_own(value: Any) -> bool:
    return str(type(value).__module__).partition(".")[0].startswith("zellige")


def _is_library(file: str) -> bool:
    return file.startswith(("<frozen", os.path.dirname(os.__file__) + os.sep)) or "site-packages" in file


def _is_users_class(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    if module is None or kind.__module__ == "__main__":
        return True
    return not _is_library(getattr(module, "__file__", None) or "<frozen")  # Python's own modules have no file


def _array_state(array: np.ndarray[Any, Any]) -> list[Any]:
    if array.dtype.hasobject:
        return [array.shape, *array.ravel().tolist()]
    part = array if array.nbytes <= _SUMMED else array.ravel()[: _SUMMED // array.itemsize]
    return [str(array.shape), array.dtype.str, zlib.crc32(np.ascontiguousarray(part).tobytes())]


def _iterator_state(value: Any) -> list[Any]:
    frame = getattr(value, "gi_frame", None)
    shown = repr(value) if type(value).__module__ == "itertools" else ""
    return [operator.length_hint(value, -1), shown, None if frame is None else frame.f_lasti]


def _function_state(function: types.FunctionType) -> list[Any]:
    """What a function takes from around it; nothing of a library's."""
    if is_own_module(function.__globals__) or _is_library(function.__code__.co_filename):
        return []
    held: list[Any] = []
    for cell in function.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:
            held.append(cell)  # nothing yet
    return [*held, *(function.__globals__.get(name) for name in function.__code__.co_names)]


def _instance_state(value: Any) -> list[Any]:
    kind = type(value)
    if not _is_users_class(kind) and kind is not types.SimpleNamespace:  # a library's objects keep caches of their own
        return [value._version] if hasattr(kind, "_version") else []  # tensors count their changes there
    found: list[Any] = []
    for name, held in getattr(value, "__dict__", {}).items():
        if not isinstance(getattr(kind, name, None), functools.cached_property):
            found += (name, held)
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        found += [getattr(value, name, None) for name in ((slots,) if isinstance(slots, str) else slots) if not name.startswith("__")]
    return found


def _state(value: Any) -> list[Any] | None:
    """What a value holds: other objects, and numbers for what is no object. None for what holds nothing that can change."""
    match value:
        case _ if isinstance(value, (*_VALUES, types.ModuleType)) or _is_own(value):
            return None
        case list() | tuple() | set() | frozenset() | deque():
            found = list(value)
        case dict():
            found = [part for item in value.items() for part in item]
        case np.ndarray():
            return _array_state(value)
        case bytearray() | memoryview():
            return [bytes(value)]
        case type():
            return list(vars(value).values()) if _is_users_class(value) else None
        case types.FunctionType():
            return _function_state(value)
        case types.MethodType():
            return [value.__self__, value.__func__]
        case functools.partial():
            return [value.func, value.args, value.keywords]
        case types.BuiltinFunctionType():
            return [value.__self__]
        case _ if hasattr(type(value), "__next__"):
            return _iterator_state(value)
        case _:
            found = []
    return found if type(value) in (list, tuple, set, frozenset, deque, dict) else found + _instance_state(value)


def _is_same(before: list[Any], after: list[Any] | None) -> bool:
    if after is None or len(before) != len(after):
        return False
    if all(map(operator.is_, before, after)):
        return True
    return all(a is b or (type(a) is type(b) and isinstance(a, _COMPARED) and a == b) for a, b in zip(before, after))


class Observed:
    """The state of what can be reached from some objects."""

    def __init__(self, roots: Iterable[Any]) -> None:
        self.states: dict[int, tuple[Any, list[Any]]] = {}
        pending = deque(roots)
        while pending and len(self.states) < _LIMIT:
            value = pending.popleft()
            if id(value) in self.states:
                continue
            state = _state(value)
            if state is not None:
                self.states[id(value)] = (value, state)
                pending.extend(part for part in state if type(part) not in _PLAIN)

    def changed(self, trace: Trace) -> Any:
        """The first object that has changed and must not; None where all are as they were."""
        for value, before in self.states.values():
            if not _is_same(before, _state(value)) and not trace.may_change(value):
                return value
        return None


def observe_call(trace: Trace, function: Any, arguments: Iterable[Any]) -> Observed | None:
    """What a call that Python makes can change, before it; None where no run-time construct is open or the call changes nothing."""
    if not trace.control or _is_reader(function) or str(getattr(function, "__module__", "")).startswith("zellige") or _is_own(function):
        return None
    return Observed((function, *arguments))


def _is_reader(function: Any) -> bool:
    return isinstance(function, (type, types.BuiltinFunctionType)) and function in _READERS


def refuse_changes(trace: Trace, function: Any, observed: Observed | None, result: Any, span: Span | None) -> None:
    """E119 where a call changed what it must not. What the result holds and the call did not find is new, and may change."""
    if observed is None:
        is_new = isinstance(result, (list, dict, set)) or hasattr(type(result), "__next__")
        if trace.control and is_new and sys.getrefcount(result) <= _UNSHARED:
            trace.remember(result)
        return
    value = observed.changed(trace)
    if value is not None:
        name = getattr(function, "__name__", None) or type(function).__name__
        raise catalogue.E119.error(span, given=f"{_described(value)} (by a call of {name})")
    if id(result) in observed.states or (sys.getrefcount(result) > _UNSHARED and not isinstance(function, type)):
        return
    for made, _ in Observed((result,)).states.values():
        if id(made) not in observed.states and not isinstance(made, (type, types.FunctionType)):
            trace.remember(made)


_UNSHARED: Final = 4
"""References to a result that nobody but the evaluator holds, as :func:`refuse_changes` counts them."""


def _described(value: Any) -> str:
    if isinstance(value, (types.FunctionType, types.MethodType)):
        return f"what {value.__name__} takes from around it"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return "an iterator" if hasattr(type(value), "__next__") else f"a {type(value).__name__}"


def refuse_iterator(trace: Trace, value: Any, span: Span | None) -> None:
    """E119 where an iterator from outside of a run-time construct is about to be taken from inside of it."""
    if trace.control and hasattr(type(value), "__next__") and not _is_own(value) and not trace.may_change(value):
        raise catalogue.E119.error(span, given="an iterator (taken from here)")


def refuse_iterators(trace: Trace, function: Any, arguments: Iterable[Any], span: Span | None) -> None:
    """The same for the arguments of a call."""
    if not trace.control or (_is_reader(function) and function in _LOOKERS):
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
    if trace.control and hasattr(type(value), _IN_PLACE[type(op)]) and not _is_own(value) and not trace.may_change(value):
        raise catalogue.E119.error(span, given=_described(value))
