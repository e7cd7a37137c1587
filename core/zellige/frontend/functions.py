"""Functions that the evaluator interprets: functions and lambdas of a kernel, macros, and the kernel function itself.

:class:`TracedFunction` is a ``def`` or ``lambda`` met while a kernel is traced; :class:`Macro` is what ``@T.macro`` makes of a function
anywhere. Both are expanded where they are called. Arguments arrive as Python's do: a number by value, a tile as the object it is; a
macro's parameter annotated ``T.Ref`` stands for the caller's variable or element.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from zellige.diagnostics import Span, catalogue
from zellige.diagnostics.span import calling_place
from zellige.frontend import arithmetic
from zellige.frontend.builder import tracing
from zellige.frontend.endings import write_out_endings
from zellige.frontend.evaluator import evaluate, evaluates, execute, executes
from zellige.frontend.expressions import escaping
from zellige.frontend.flow import Flow
from zellige.frontend.regions import place_of
from zellige.frontend.scopes import Frame, Signal, Trace
from zellige.frontend.source import FunctionSource, function_source
from zellige.frontend.specs import ReferenceSpec
from zellige.frontend.values import Element, ElementReference, Scalar, TileRegion, Variable, bind, taken
from zellige.frontend.vectors import Vector, VectorReference, is_variable
from zellige.ir.expr import Load


def current_trace(operation: str) -> Trace:
    """The trace in progress; E101 where there is none."""
    builder = tracing()
    trace = None if builder is None else builder.trace
    if trace is None:
        raise catalogue.E101.error(None, operation=operation)
    return trace


class Closure(Mapping[str, Any]):
    """The names that a function takes from the functions around it, with their values of now.

    ``definers`` are names of the defining scope that Python did not capture because only annotations mention them.
    """

    def __init__(self, function: types.FunctionType, definers: Mapping[str, Any]) -> None:
        self._cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        self.definers = definers

    def __getitem__(self, name: str) -> Any:
        cell = self._cells.get(name)
        if cell is not None:
            try:
                return cell.cell_contents
            except ValueError:
                pass  # not assigned yet where the function was defined
        return self.definers[name]

    def __contains__(self, name: object) -> bool:
        try:
            self[str(name)]
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter({**self._cells, **self.definers})

    def __len__(self) -> int:
        return len({**self._cells, **self.definers})


def defining_names(function: types.FunctionType, source: FunctionSource) -> dict[str, Any]:
    """Values from the scope that is defining ``function`` now, for names that only its annotations use."""
    scope = sys._getframe(1)
    while scope.f_back is not None and str(scope.f_globals.get("__name__", "")).split(".")[0] == "zellige":
        scope = scope.f_back
    annotations: list[ast.expr] = []
    arguments = source.node.args
    annotations += [a.annotation for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs) if a.annotation is not None]
    pending: list[ast.AST] = list(source.node.body)
    while pending:  # statements only
        node = pending.pop()
        if isinstance(node, ast.AnnAssign):
            annotations.append(node.annotation)
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            pending.extend(getattr(node, field, ()) if isinstance(getattr(node, field, ()), list) else ())
    known = {*function.__code__.co_freevars, *function.__globals__}
    names = {n.id for annotation in annotations for n in ast.walk(annotation) if isinstance(n, ast.Name)} - known
    return {name: scope.f_locals[name] for name in names if name in scope.f_locals}


def node_flow(node: ast.FunctionDef | ast.Lambda) -> Flow:
    """The flow of a function's names, computed once a node."""
    found: Flow | None = getattr(node, "zellige_flow", None)
    if found is None:
        write_out_endings(node)
        found = Flow(node)
        node.zellige_flow = found  # type: ignore[union-attr]
    return found


_NO_DEFAULT: Final = inspect.Parameter.empty


def _signature(frame: Frame, arguments: ast.arguments) -> inspect.Signature:
    """The signature of a function being defined: its defaults are evaluated now, its annotations kept as nodes."""
    kinds = inspect.Parameter
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [_NO_DEFAULT] * (len(positional) - len(arguments.defaults)) + [
        escaping(evaluate(frame, d), d) for d in arguments.defaults
    ]
    parameters = [
        kinds(
            a.arg,
            kinds.POSITIONAL_ONLY if i < len(arguments.posonlyargs) else kinds.POSITIONAL_OR_KEYWORD,
            default=defaults[i],
            annotation=a.annotation,
        )
        for i, a in enumerate(positional)
    ]
    if arguments.vararg is not None:
        parameters.append(kinds(arguments.vararg.arg, kinds.VAR_POSITIONAL))
    for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        value = _NO_DEFAULT if default is None else escaping(evaluate(frame, default), default)
        parameters.append(kinds(a.arg, kinds.KEYWORD_ONLY, default=value, annotation=a.annotation))
    if arguments.kwarg is not None:
        parameters.append(kinds(arguments.kwarg.arg, kinds.VAR_KEYWORD))
    return inspect.Signature(parameters)


class TracedFunction:
    """A function or lambda defined in a kernel: calling it interprets its body in place."""

    def __init__(self, frame: Frame, node: ast.FunctionDef | ast.Lambda) -> None:
        self.frame = frame
        self.node = node
        self.signature = _signature(frame, node.args)
        self.__name__ = node.name if isinstance(node, ast.FunctionDef) else "lambda"
        self.__doc__ = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None

    @property
    def described(self) -> str:
        return f"the function {self.__name__}"

    def __call__(self, *positional: Any, **named: Any) -> Any:
        trace = current_trace(self.__name__)
        return self.interpret(trace, trace.builder.span, list(positional), named)

    def interpret(self, trace: Trace, span: Span | None, positional: list[Any], named: dict[str, Any]) -> Any:
        """Expands the call."""
        return self.expand(trace, span, positional, named, is_macro=False)

    def expand(
        self, trace: Trace, span: Span | None, positional: list[Any], named: dict[str, Any], *, is_macro: bool
    ) -> Any:
        """Expands the call, with the argument rules of a macro where ``is_macro``."""
        frame = Frame(
            name=self.__name__,
            trace=trace,
            text=self.frame.text,
            flow=node_flow(self.node),
            global_names=self.frame.global_names,
            enclosing=self.frame,
            kind="macro" if is_macro else "function",
            base_depth=trace.depth,
        )
        bound = _bound(self.__name__, self.signature, positional, named, span)
        for name, value in bound.arguments.items():
            parameter = self.signature.parameters[name]
            annotation = None
            if is_macro and isinstance(parameter.annotation, ast.expr):
                annotation = evaluate(self.frame, parameter.annotation)
            frame.locals[name] = _received(trace, name, value, annotation, parameter.kind, is_macro=is_macro)
        with trace.calling(self.__name__, span):
            if isinstance(self.node, ast.Lambda):
                return escaping(evaluate(frame, self.node.body), self.node.body)
            execute(frame, self.node.body)
        return frame.returned


def _bound(
    name: str, signature: inspect.Signature, positional: list[Any], named: dict[str, Any], span: Span | None
) -> inspect.BoundArguments:
    """The arguments of a call by the parameters that take them. E157: they do not fit."""
    try:
        bound = signature.bind(*positional, **named)
    except TypeError as misfit:
        plain = [p.replace(annotation=inspect.Parameter.empty) for p in signature.parameters.values()]
        raise catalogue.E157.error(span, function=name, message=misfit, signature=f"{name}{inspect.Signature(plain)}") from None
    bound.apply_defaults()
    return bound


def _received(trace: Trace, name: str, value: Any, annotation: Any, kind: Any, *, is_macro: bool) -> Any:
    """What a parameter holds at the start: variables and, in a macro, elements by value, unless the annotation is T.Ref."""
    if kind is inspect.Parameter.VAR_POSITIONAL:
        return tuple(taken(v) for v in value)
    if kind is inspect.Parameter.VAR_KEYWORD:
        return {key: taken(v) for key, v in value.items()}
    if is_reference(annotation):
        return _reference(trace, name, value)
    if is_variable(value):
        return value.value()
    if isinstance(value, Vector):
        return value.named(name)
    if isinstance(value, Scalar) and (is_macro or not isinstance(value, Element)):
        return bind(name, value)
    return taken(value)


def is_reference(annotation: Any) -> bool:
    """Whether an annotation is T.Ref."""
    if isinstance(annotation, str):
        return annotation.split(".")[-1] in ("Ref", "Var")
    return annotation is ReferenceSpec or isinstance(annotation, ReferenceSpec) or getattr(annotation, "is_reference", False) is True


def _reference(trace: Trace, name: str, value: Any) -> Any:
    if is_variable(value):
        return value
    value = place_of(value)
    if isinstance(value, (Variable, TileRegion)):
        return value
    if isinstance(value, Element):
        indices = tuple(bind("index", Scalar(i)).expr for i in value.indices)
        place = Load(buffer=value.buffer, indices=indices, span=trace.builder.span)
        return ElementReference(place) if place.dtype.lanes == 1 else VectorReference(Element(place))
    raise catalogue.E124.error(trace.builder.span, name=name, given=arithmetic.describe(value))


@executes(ast.FunctionDef)
def _define(frame: Frame, node: ast.FunctionDef) -> Signal:
    frame.here(node)
    function: Any = TracedFunction(frame, node)
    for decorator in reversed(node.decorator_list):
        wrap = evaluate(frame, decorator)
        frame.here(decorator)
        function = wrap(function)
    frame.locals[node.name] = function
    return Signal.NEXT


@evaluates(ast.Lambda)
def _lambda(frame: Frame, node: ast.Lambda) -> TracedFunction:
    return TracedFunction(frame, node)


class Macro:
    """A function whose body is expanded where it is called, with run-time control flow as in a kernel."""

    def __init__(self, function: types.FunctionType) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.source = function_source(function)
        self._closure = Closure(function, defining_names(function, self.source))
        self._signature = inspect.signature(function)

    @property
    def described(self) -> str:
        return f"the macro {self.function.__name__}"

    @property
    def definers(self) -> Mapping[str, Any]:
        """Names of the scope that defined it which Python did not capture, since only annotations mention them."""
        return self._closure.definers

    def __repr__(self) -> str:
        return f"<{self.described}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else _BoundMacro(self, instance)

    def __call__(self, *positional: Any, **named: Any) -> Any:
        trace = current_trace(f"the macro {self.function.__name__}")
        return self.interpret(trace, trace.builder.span, list(positional), named)

    def interpret(self, trace: Trace, span: Span | None, positional: list[Any], named: dict[str, Any]) -> Any:
        """Expands the call. E124: an argument for a T.Ref parameter that is no place."""
        name = self.function.__name__
        frame = Frame(
            name=name,
            trace=trace,
            text=self.source.text,
            flow=node_flow(self.source.node),
            global_names=self.function.__globals__,
            closure=self._closure,
            kind="macro",
            base_depth=trace.depth,
        )
        bound = _bound(name, self._signature, positional, named, span)
        for key, value in bound.arguments.items():
            parameter = self._signature.parameters[key]
            frame.locals[key] = _received(trace, key, value, parameter.annotation, parameter.kind, is_macro=True)
        with trace.calling(name, span):
            execute(frame, self.source.node.body)
        return frame.returned


class _BoundMacro:
    """A macro taken from an instance: the instance is its first argument."""

    def __init__(self, macro: Macro, instance: Any) -> None:
        self._macro = macro
        self._instance = instance

    def __call__(self, *positional: Any, **named: Any) -> Any:
        return self._macro(self._instance, *positional, **named)

    def interpret(self, trace: Trace, span: Span | None, positional: list[Any], named: dict[str, Any]) -> Any:
        return self._macro.interpret(trace, span, [self._instance, *positional], named)


class _InnerMacro:
    """A macro defined inside a kernel."""

    def __init__(self, function: TracedFunction) -> None:
        self._function = function
        self.__name__ = function.__name__

    def __call__(self, *positional: Any, **named: Any) -> Any:
        trace = current_trace(self.__name__)
        return self.interpret(trace, trace.builder.span, list(positional), named)

    def interpret(self, trace: Trace, span: Span | None, positional: list[Any], named: dict[str, Any]) -> Any:
        return self._function.expand(trace, span, positional, named, is_macro=True)


def macro(function: Callable[..., Any] | None = None) -> Any:
    """``@T.macro``: the function is expanded where it is called. E129: not a function with source; E116: no source."""
    if function is None:
        return macro
    if isinstance(function, TracedFunction):
        return _InnerMacro(function)
    if not isinstance(function, types.FunctionType):
        raise catalogue.E129.error(None, decorator="@T.macro", given=arithmetic.describe(function))
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None:  # its source is the wrapper's, its signature that of what is wrapped
        name = getattr(wrapped, "__name__", "a function")
        hint = f"put @T.macro right above the def of {name}, below the other decorators"
        raise catalogue.E129.error(calling_place(), decorator="@T.macro", given=f"the wrapper that a decorator made of {name}", hint=hint)
    return Macro(function)
