"""Calls: arguments with stars, functions that the evaluator interprets, Python's builtins on run-time values, everything else as Python
does.

A language function (T.copy ...) is an ordinary function that reaches the builder by itself. A function defined in the kernel, a lambda
and a macro are interpreted in place. ``max``, ``min``, ``any``, ``all``, ``abs``, ``round``, ``int``, ``float``, ``bool``, ``range``
and the like accept run-time values; ``print`` shows them as they are while compiling and says so.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import os
import types
from collections.abc import Callable
from typing import Any, Final, NoReturn

from zellige.diagnostics import InternalError, Span, ZelligeError, catalogue
from zellige.diagnostics.ownership import is_core, is_library, package_of
from zellige.diagnostics.suggest import closest_argument
from zellige.diagnostics.warn import warn
from zellige.frontend import arithmetic
from zellige.frontend.apart import names_given
from zellige.frontend.changes import observe_call, refuse_changes, refuse_iterator, refuse_iterators
from zellige.frontend.evaluator import evaluate, evaluates
from zellige.frontend.expressions import Mark, all_kept, combine, escaping, plain, run_time
from zellige.frontend.loops import ForSpec
from zellige.frontend.parameters import DESCRIBING, PendingTensor
from zellige.frontend.scopes import Frame
from zellige.frontend.values import Scalar, Tile, TileRegion, taken
from zellige.ir.expr import BinaryOp, Const, Math
from zellige.ir.functions import FUNCTIONS
from zellige.ir.stmt import Assert, Serial
from zellige.plugin.interruption import is_blameless


@evaluates(ast.Call)
def _call(frame: Frame, node: ast.Call) -> Any:
    return evaluate_call(frame, node, None)


def evaluate_call(frame: Frame, node: ast.Call, wanted: str | None) -> Any:
    """A call; ``wanted`` is the name that its result is about to be given."""
    function = evaluate(frame, node.func)
    positional, named = _arguments(frame, node, function)
    span = frame.here(node)
    if any(isinstance(a, PendingTensor) for a in (*positional, *named.values())) and getattr(function, "__name__", "") not in DESCRIBING:
        positional = [a.tile() if isinstance(a, PendingTensor) else a for a in positional]
        named = {k: a.tile() if isinstance(a, PendingTensor) else a for k, a in named.items()}
    refuse_iterators(frame.trace, function, (*positional, *named.values()), span)
    special = _BUILTINS.get(function) if _is_hashable_builtin(function) else None
    if special is not None:
        observed = observe_call(frame.trace, function, (*positional, *named.values()))
        found = special(frame, node, positional, named)
        refuse_changes(frame.trace, function, observed, found, span)
        return found
    if getattr(function, "__module__", None) == "math" and any(run_time(a) for a in positional):
        return _math(frame, function, positional)
    owner = getattr(function, "__self__", None)
    if isinstance(owner, (list, dict, set)) and function.__name__ in _MUTATORS and not frame.trace.may_change(owner):
        raise catalogue.E119.error(span, given=f"a {type(owner).__name__}")
    interpreted = getattr(function, "interpret", None)
    if interpreted is not None:
        frame.builder.wanted = None
        return interpreted(frame.trace, span, positional, named)
    if _is_hashable_builtin(function) and function in _ENDS_PROCESS:
        raise catalogue.E149.error(span, what=f"{function.__module__}.{function.__name__}")
    if (function is setattr or function is delattr) and positional and isinstance(positional[0], (types.ModuleType, type)):
        raise catalogue.E130.error(span, name=f"{positional[0].__name__}.{positional[1]}", hint=SHARED_HINT)
    observed = observe_call(frame.trace, function, (*positional, *named.values()))
    frame.builder.wanted = wanted
    try:
        result = function(*positional, **named)
        refuse_changes(frame.trace, function, observed, result, span)
        return result
    except (TypeError, ZelligeError) as error:
        if isinstance(error, TypeError):
            _refuse_misfit(function, positional, named, span)
        _refuse_library(function, positional, named, span, error)
        _blame_backend(function, error)
        raise
    except BaseException as error:
        _blame_backend(function, error)
        raise
    finally:
        frame.builder.wanted = None


def _arguments(frame: Frame, node: ast.Call, function: Any) -> tuple[list[Any], dict[str, Any]]:
    """The arguments by position and by name, each as it is when it is evaluated: one that follows may change what it reads.

    TypeError for a name that is given twice and for what ``**`` cannot take names from, E259 for a function of the language.
    """
    is_python = _is_python(function)  # and may keep what it is given
    found: list[tuple[Any, Mark]] = []
    keys: list[str | None] = []

    def add(key: str | None, value: Any, source: ast.expr | None) -> None:
        if is_python and source is not None:
            frame.here(node)
            value = escaping(value, source)
        if key is not None and key in keys:
            _refuse_names(function, f"got multiple values for keyword argument {key!r}", frame.here(node))
        keys.append(key)
        found.append((value, frame.builder.mark()))

    for argument in node.args:
        if isinstance(argument, ast.Starred):
            spread = evaluate(frame, argument.value)
            refuse_iterator(frame.trace, spread, frame.builder.span)
            for value in spread:
                add(None, value, None)
        else:
            add(None, evaluate(frame, argument), argument)
    for keyword in node.keywords:
        if keyword.arg is None:
            for key, value in _spread(function, evaluate(frame, keyword.value), frame.here(node)).items():
                add(key, value, None)
        else:
            add(keyword.arg, evaluate(frame, keyword.value), keyword.value)
    values = all_kept(frame, found) if len(found) > 1 else [value for value, _ in found]
    positional = [value for key, value in zip(keys, values) if key is None]
    return positional, {key: value for key, value in zip(keys, values) if key is not None}


def _spread(function: Any, value: Any, span: Span) -> dict[str, Any]:
    """The arguments that ``**value`` stands for."""
    if not hasattr(type(value), "keys"):
        _refuse_names(function, f"argument after ** must be a mapping, not {type(value).__name__}", span)
    found = dict(value)
    if not all(isinstance(key, str) for key in found):
        _refuse_names(function, "keywords must be strings", span)
    return found


def _refuse_names(function: Any, reason: str, span: Span) -> NoReturn:
    """E259 for arguments that no call can have, TypeError as in Python where the function is the user's or a library's."""
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or type(function).__name__
    if hasattr(function, "interpret") or not str(getattr(function, "__module__", "")).startswith("zellige."):
        raise TypeError(f"{name}() {reason}")
    names = ", ".join(inspect.signature(function).parameters)
    raise catalogue.E259.error(span, operation=f"T.{name}", reason=f"cannot be called so: {reason}", signature=names)


def _is_python(function: Any) -> bool:
    """Whether Python runs the function: it is neither interpreted nor one of the language's nor a builtin that has a meaning of its own."""
    if hasattr(function, "interpret") or (_is_hashable_builtin(function) and function in _BUILTINS):
        return False
    home = getattr(function, "__module__", None) or type(function).__module__
    return not is_core(home)


def _refuse_misfit(function: Any, positional: list[Any], named: dict[str, Any], span: Span | None) -> None:
    """E259 where the arguments do not fit the signature of a function of the language."""
    if not str(getattr(function, "__module__", "")).startswith("zellige."):
        return
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a callable without one
        return
    try:
        signature.bind(*positional, **named)
    except TypeError as misfit:
        parameters = signature.parameters.values()
        plain_names = [p.name for p in parameters if p.kind is not p.VAR_KEYWORD]
        word = f"T.{getattr(function, '__name__', function)}"
        unknown = next((n for n in named if n not in plain_names), None)
        is_open = any(p.kind is p.VAR_KEYWORD for p in parameters)
        has_unknown = unknown is not None and not is_open
        reason = f"cannot be called so: {misfit}"
        if has_unknown:
            reason = f"has no argument {unknown!r}{closest_argument(unknown, plain_names)}"
        raise catalogue.E259.error(span, operation=word, reason=reason, signature=", ".join(plain_names)) from None


def _blame_backend(function: Any, error: BaseException) -> None:
    """E709, or E703, where an operation of somebody else's dialect failed by itself. What it says with a code of its own is about its
    arguments."""
    if isinstance(error, (ZelligeError, InternalError)) or is_blameless(error):
        return
    from zellige.plugin.registry import registry  # most kernels call nothing that fails

    for handle in registry().backends:
        found = handle.blamed_operation(function, error)
        if found is not None:
            raise found from error


SHARED_HINT: Final = "give the value a name of the kernel's own; what modules and classes hold is set outside of kernels"

_ENDS_PROCESS: Final = frozenset((os._exit, os.abort))


def _refuse_library(function: Any, positional: list[Any], named: dict[str, Any], span: Span | None, error: Exception) -> None:
    """E131 where a function of a library, which computes while compiling, failed on a tile or a run-time value."""
    module = str(getattr(function, "__module__", None) or type(function).__module__)
    home = package_of(module)
    given = next((v for v in (*positional, *named.values()) if run_time(v) or isinstance(v, (Tile, TileRegion))), None)
    is_builtin = home in ("builtins", "None")
    if given is None or not (is_builtin or is_library(module)):
        return  # a function of the user's own: its line says more
    if is_builtin and not isinstance(error, TypeError):
        return
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or str(function)
    public = [part for part in str(name).split(".") if not part.startswith("_")]  # without the library's private classes
    word = name if is_builtin else ".".join([home, *public])
    raise catalogue.E131.error(span, function=word, given=given.described) from None


def _is_hashable_builtin(function: Any) -> bool:
    return isinstance(function, type) or type(function).__name__ == "builtin_function_or_method"


_MUTATORS = frozenset(
    ("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "update", "setdefault", "popitem", "add", "discard")
)

Special = Callable[[Frame, ast.Call, list[Any], dict[str, Any]], Any]
_BUILTINS: dict[Any, Special] = {}


def _builtin(*functions: Any) -> Callable[[Special], Special]:
    def register(handler: Special) -> Special:
        for function in functions:
            _BUILTINS[function] = handler
        return handler

    return register


@_builtin(builtins.range)
def _range(frame: Frame, node: ast.Call, positional: list[Any], named: dict[str, Any]) -> Any:
    if any(run_time(a) for a in positional):
        span = frame.builder.span
        start, stop, step = [*positional, 1] if len(positional) == 2 else positional if len(positional) == 3 else [0, *positional, 1]
        first, last, by = (arithmetic.index(a, span) for a in (start, stop, step))
        dtype = arithmetic.common_dtype(arithmetic.common_dtype(first.dtype, last.dtype), by.dtype)
        if isinstance(by, Const) and by.value == 0:
            raise catalogue.E211.error(span)
        first, last, by = (taken(Scalar(arithmetic.cast(bound, dtype, span))).expr for bound in (first, last, by))
        if not isinstance(by, Const) and frame.builder.is_inside_launch:
            is_step = arithmetic.compare("ne", Scalar(by), 0, span)
            frame.builder.emit(Assert(condition=is_step, message="range() arg 3 must not be zero", span=span))
        return ForSpec(kind=Serial(), start=first, stop=last, step=by, span=span)
    return range(*(plain(a) for a in positional))


@_builtin(builtins.max, builtins.min)
def _extreme(frame: Frame, node: ast.Call, positional: list[Any], named: dict[str, Any]) -> Any:
    function = evaluate(frame, node.func)
    is_sequence = len(positional) == 1 and not isinstance(positional[0], (Scalar, Tile, TileRegion, str))
    items = [plain(i) for i in (positional[0] if is_sequence else positional)]
    if not any(run_time(i) for i in items) or named:
        return function(items, **named) if is_sequence else function(*items, **named)
    op: BinaryOp = "max" if function is builtins.max else "min"
    result = items[0]
    for item in items[1:]:
        result = Scalar(arithmetic.binary(op, result, item, frame.builder.span))
    return result


@_builtin(builtins.any, builtins.all)
def _quantifier(frame: Frame, node: ast.Call, positional: list[Any], named: dict[str, Any]) -> Any:
    function = evaluate(frame, node.func)
    if len(positional) != 1 or named:
        return function(*positional, **named)  # raises Python's own error
    is_all = function is builtins.all
    items, end = iter(positional[0]), object()
    names = names_given(*node.args)
    is_ended = False

    def following() -> Any:
        nonlocal is_ended
        item = next(items, end)
        is_ended = item is end
        if is_ended:
            return is_all
        return Scalar(arithmetic.truth(item, frame.builder.span)) if run_time(item) else bool(plain(item))

    result: Any = is_all
    while True:
        found = combine(frame, is_all, result, following, node, names)
        if is_ended:
            return result if run_time(result) else bool(plain(result))
        result = found
        if not run_time(result) and bool(plain(result)) != is_all:
            return not is_all


@_builtin(builtins.bool)
def _bool(frame: Frame, node: ast.Call, positional: list[Any], named: dict[str, Any]) -> Any:
    if positional and run_time(positional[0]):
        return Scalar(arithmetic.truth(positional[0], frame.builder.span))
    return bool(*(plain(p) for p in positional))


def _refuse_tiles(frame: Frame, positional: list[Any]) -> None:
    """E202 for a tile or slice where a number belongs."""
    for value in positional:
        if isinstance(value, (Tile, TileRegion)):
            raise catalogue.E202.error(frame.builder.span, given=value.described)


@_builtin(builtins.abs, builtins.pow)
def _arithmetic(frame: Frame, node: ast.Call, positional: list[Any], named: dict[str, Any]) -> Any:
    _refuse_tiles(frame, positional)
    return evaluate(frame, node.func)(*positional, **named)


@_builtin(builtins.locals, builtins.globals, builtins.vars, builtins.dir, builtins.eval, builtins.exec, builtins.breakpoint)
def _names_of_the_caller(frame: Frame, node: ast.Call, positional: list[Any], named: dict[str, Any]) -> Any:
    """What looks at the frame of its caller would see the compiler's; ``vars(x)`` and ``dir(x)`` do not."""
    function = evaluate(frame, node.func)
    if function in (builtins.vars, builtins.dir) and positional:
        return function(*positional)
    instead = "write the code itself, or compute it outside of the kernel"
    raise catalogue.E111.error(frame.builder.span, what=f"{function.__name__}()", instead=instead)


@_builtin(builtins.hash)
def _hash(frame: Frame, node: ast.Call, positional: list[Any], named: dict[str, Any]) -> Any:
    if any(run_time(value) for value in positional):
        raise catalogue.E105.error(frame.builder.span, given=positional[0].described)
    return hash(*positional, **named)


@_builtin(builtins.int, builtins.float)
def _number(frame: Frame, node: ast.Call, positional: list[Any], named: dict[str, Any]) -> Any:
    function = evaluate(frame, node.func)
    _refuse_tiles(frame, positional)
    if len(positional) == 1 and run_time(positional[0]):
        value: Scalar = positional[0]
        if function is builtins.int and value.dtype.is_integer:
            return value
        return value.astype("int32" if function is builtins.int else "float32")
    return function(*(plain(p) for p in positional), **named)


@_builtin(builtins.round)
def _round(frame: Frame, node: ast.Call, positional: list[Any], named: dict[str, Any]) -> Any:
    _refuse_tiles(frame, positional)
    if len(positional) == 1 and run_time(positional[0]) and not named:
        value: Scalar = positional[0]
        if not value.dtype.is_float:
            return value
        return Scalar(Math(function="round", args=(value.expr,), dtype=value.dtype, span=frame.builder.span))
    return round(*(plain(p) for p in positional), **named)


@_builtin(builtins.divmod)
def _divmod(frame: Frame, node: ast.Call, positional: list[Any], named: dict[str, Any]) -> Any:
    _refuse_tiles(frame, positional)
    left, right = positional
    return left // right, left % right


@_builtin(builtins.isinstance)
def _isinstance(frame: Frame, node: ast.Call, positional: list[Any], named: dict[str, Any]) -> Any:
    return isinstance(*positional)


@_builtin(builtins.print)
def _print(frame: Frame, node: ast.Call, positional: list[Any], named: dict[str, Any]) -> Any:
    values = [plain(p) for p in positional]
    if any(isinstance(v, (Scalar, Tile, TileRegion)) for v in values):
        warn(catalogue.E137.diagnose(frame.builder.span, severity="warning", what="print"))
    print(*values, **named)


def _math(frame: Frame, function: Any, positional: list[Any]) -> Any:
    """A function of Python's ``math`` on run-time values, where the tile IR has it."""
    name = {"fabs": "abs"}.get(function.__name__, function.__name__)
    known = FUNCTIONS.get(name)
    if known is None or known.arity != len(positional):
        raise catalogue.E105.error(frame.builder.span, given=f"the argument of math.{function.__name__}")
    span = frame.builder.span
    args = [arithmetic.as_expr(p, span) for p in positional]
    target = args[0].dtype
    for arg in args[1:]:
        target = arithmetic.common_dtype(target, arg.dtype)
    if not target.is_float and known.operands != "integer":
        target = arithmetic.FLOAT32  # math.fabs of an integer is a float, too
    cast = tuple(arithmetic.cast(a, target, span) for a in args)
    return Scalar(Math(function=name, args=cast, dtype=known.result_dtype(target), span=span))

