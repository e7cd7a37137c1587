"""``@T.prim_func``: a function with annotated parameters becomes a kernel of the tile IR when it is defined.

:func:`trace_kernel` is the one way from a Python function to tile IR; the styles of :mod:`zellige.jit` use it too.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from zellige.collector import rarely_collecting
from zellige.diagnostics import CompileError, Span, catalogue
from zellige.diagnostics.span import calling_place
from zellige.dtypes import DType
from zellige.frontend import arithmetic, comprehensions, control, leaving, matching, statements
from zellige.frontend.annotations import read_text, without_quotes
from zellige.frontend.builder import Builder, Settings, tracing
from zellige.frontend.evaluator import evaluate, execute, located
from zellige.frontend.functions import Closure, defining_names, node_flow
from zellige.frontend.joins import MISSING
from zellige.frontend.parameters import DESCRIBING, PendingTensor, close_parameters, declare_parameter, without_parentheses
from zellige.frontend.scopes import Frame, Trace
from zellige.frontend.source import FunctionSource, body_of, called_name, function_source
from zellige.frontend.values import Tile, here
from zellige.ir.stmt import Kernel, TensorParam
from zellige.ir.verifier.wording import for_author
from zellige.ir.verify import verify

HANDLERS = (comprehensions, control, leaving, matching, statements)
"""The modules whose handlers the evaluator needs; importing them registers the handlers."""


@dataclass(eq=False)
class KernelFunction:
    """A Python function that can be traced: its source, the names around it, its signature."""

    function: types.FunctionType
    source: FunctionSource
    closure: Closure
    signature: inspect.Signature

    @classmethod
    def of(cls, function: Any, decorator: str) -> KernelFunction:
        """E129: not a Python function; E116: its source is not available."""
        if isinstance(function, (staticmethod, classmethod)):
            function = function.__func__
        if not isinstance(function, types.FunctionType):
            raise catalogue.E129.error(None, decorator=decorator, given=arithmetic.describe(function))
        source = function_source(function)
        closure = Closure(function, defining_names(function, source))
        return cls(function, source, closure, inspect.signature(function))

    @property
    def name(self) -> str:
        return self.function.__name__

    @cached_property
    def described_in_body(self) -> frozenset[str]:
        """Names of parameters that the body annotates or hands to T.make_tensor or T.match_buffer: tensors, whatever a call gives."""
        found = {name for name, _ in self._annotations_in_body() if name not in self.numbers_in_body}
        for call in body_of(self.source.node).calls:
            if call.args and isinstance(call.args[0], ast.Name) and called_name(call) in DESCRIBING:
                found.add(call.args[0].id)
        return frozenset(found & set(self.signature.parameters))

    @cached_property
    def numbers_in_body(self) -> Mapping[str, Any]:
        """Parameters that the signature leaves open and the body declares as numbers (``n: T.int32``), with those annotations."""
        found: dict[str, Any] = {}
        for name, node in self._annotations_in_body():
            if name in self.signature.parameters and self.signature.parameters[name].annotation is inspect.Parameter.empty:
                annotation = node if isinstance(node, DType) else self._named(node)
                if isinstance(annotation, DType) or any(annotation is number for number in (int, float, bool)):
                    found[name] = annotation
        return found

    def _annotations_in_body(self) -> list[tuple[str, DType | ast.expr]]:
        """Names that the body annotates and gives no value, with what the annotations say."""
        assignments = body_of(self.source.node).assignments
        written = [(n.target.id, n.annotation) for n in assignments if n.value is None and isinstance(n.target, ast.Name)]
        said = [(name, without_quotes(node, lambda word: self._around(word) is not MISSING)) for name, node in written]
        return [(name, annotation) for name, annotation in said if annotation is not None]

    def _around(self, name: str) -> Any:
        """What a name means around the function; MISSING where it means nothing."""
        if name in self.closure:
            return self.closure[name]
        return self.function.__globals__.get(name, getattr(builtins, name, MISSING))

    def _named(self, node: ast.expr) -> Any:
        """What a dotted name means around the function; None for other expressions and where it means nothing."""
        if isinstance(node, ast.Attribute):
            try:
                return getattr(self._named(node.value), node.attr, None)
            except Exception:  # noqa: BLE001 - what an object of the user's raises is told of where the body is traced
                return None
        if not isinstance(node, ast.Name):
            return None
        found = self._around(node.id)
        return None if found is MISSING else found

    @property
    def span(self) -> Span:
        return self.source.text.span(self.source.node)

    @property
    def head(self) -> str:
        """Its name and parameters as the user wrote them; those of the inner function where a decorator wraps one."""
        is_wrapper = hasattr(self.function, "__wrapped__")
        return f"{self.name}{self.signature}" if is_wrapper else f"{self.name}({ast.unparse(self.source.node.args)})"

    def refuse_variadic(self, *, keywords_too: bool) -> None:
        """E128 for ``*args``, and for ``**kwargs`` where a kernel has no keywords that are decided while compiling. The source says it: the
        signature of a functools.wraps wrapper is the wrapped one's."""
        arguments = self.source.node.args
        takes_keywords = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in self.signature.parameters.values())
        for argument, kind in ((arguments.vararg, "a *parameter"), (arguments.kwarg, "a **parameter")):
            if argument is not None and (keywords_too or not takes_keywords or argument is arguments.vararg):
                raise catalogue.E128.error(self.source.text.span(argument), name=argument.arg, kind=kind)

    def parameter_span(self, name: str) -> Span:
        """Where a parameter stands in the signature."""
        arguments = self.source.node.args
        for argument in (*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg):
            if argument is not None and argument.arg == name:
                return self.source.text.span(argument)
        return self.span

    def frame(self, trace: Trace) -> Frame:
        """A fresh frame for the function's body."""
        return Frame(
            name=self.name,
            trace=trace,
            text=self.source.text,
            flow=node_flow(self.source.node),
            global_names=self.function.__globals__,
            closure=self.closure,
            kind="kernel",
        )

    def annotation(self, frame: Frame, name: str) -> Any:
        """The annotation of a parameter; one that is text (``from __future__ import annotations``) is evaluated now."""
        annotation = self.numbers_in_body.get(name, self.signature.parameters[name].annotation)
        if not isinstance(annotation, str):
            return without_parentheses(annotation)
        arguments = self.source.node.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if argument.arg == name and argument.annotation is not None:
                outside = self.frame(frame.trace)
                outside.kind = "comprehension"  # annotations see the names around the function, not its locals
                with located(frame.trace):
                    return without_parentheses(_evaluated_text(outside, evaluate(outside, argument.annotation), argument.annotation))
        return annotation


def _evaluated_text(frame: Frame, annotation: Any, place: ast.expr) -> Any:
    """An annotation that is itself text: the name of an element type, or an expression, which stands at ``place``."""
    if not isinstance(annotation, str):
        return annotation
    found = read_text(annotation, place)
    if found is None:
        return annotation
    return found if isinstance(found, DType) else evaluate(frame, found)


@dataclass(frozen=True, eq=False)
class TracedKernel:
    """A kernel and the settings that its body gave (T.annotate_pass_configs and the like)."""

    kernel: Kernel
    settings: Settings


def trace_kernel(
    function: KernelFunction,
    builder: Builder,
    bind: Callable[[Frame], list[PendingTensor]],
    *,
    before_end: Callable[[], None] | None = None,
) -> TracedKernel:
    """Interprets ``function`` with the parameters that ``bind`` declares and returns the verified kernel.

    ``bind`` fills the frame's names and returns the tensors whose shape is still open; ``before_end`` is called when the body is done.
    Errors carry the user's place.
    """
    trace = Trace(builder)
    builder.trace = trace
    with located(trace), builder.active():
        builder.span = function.span
        frame = function.frame(trace)
        pending = bind(frame)
        execute(frame, function.source.node.body)
        if trace.passed is not None:  # Python's own code caught it
            raise leaving.passed_error(frame, trace.passed) from trace.passed[0]
        _results(builder, frame.returned, frame.returned_at)
        close_parameters(builder, pending)
        if before_end is not None:
            before_end()
        builder.span = function.span
        kernel = builder.kernel()
        broken = verify(kernel)
        if broken:
            raise CompileError(*for_author(broken))
    return TracedKernel(kernel, builder.settings)


def _results(builder: Builder, returned: Any, span: Span | None) -> None:
    """The tensors that the kernel returns must be those that T.empty made."""
    if returned is None:
        return
    made = {p.buffer for p in builder.params if isinstance(p, TensorParam) and p.role == "workspace"}
    values = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    for value in values:
        if not isinstance(value, Tile) or value.node not in made:
            raise catalogue.E127.error(span, given=arithmetic.describe(value))
        if value.node in builder.results:
            raise catalogue.E127.error(span, given=f"{value.node.name} twice")
        builder.results.append(value.node)


class PrimFunc:
    """A kernel made by ``@T.prim_func``: ``kernel`` is its verified tile IR. ``zl.compile`` compiles it; a lazy jit function returns it."""

    def __init__(self, function: KernelFunction, traced: TracedKernel) -> None:
        self._function = function
        self.kernel = traced.kernel
        self.settings = traced.settings
        self.name = function.name
        self.signature = function.signature
        self.__name__ = function.name
        self.__doc__ = function.function.__doc__
        self.__module__ = function.function.__module__
        self.__qualname__ = function.function.__qualname__
        self.__wrapped__ = function.function

    @property
    def params(self) -> tuple[Any, ...]:
        """The parameters of the tile IR."""
        return self.kernel.params

    @property
    def attrs(self) -> dict[str, Any]:
        """What programs written for TileLang look up: the name, the outputs that the body returns (counted from the end), its settings."""
        count = len(self.kernel.params)
        found: dict[str, Any] = {"global_symbol": self.name}
        if self.kernel.results:
            found["tilelang_out_idx"] = [index - count for index in self.kernel.results]
        if self.settings.pass_configs:
            found["tilelang_pass_configs"] = self.settings.pass_configs
        if self.settings.compile_flags:
            found["tilelang_compile_flags"] = self.settings.compile_flags
        return found

    def script(self) -> str:
        """The tile IR as text."""
        from zellige.ir.printer import print_kernel

        return print_kernel(self.kernel)

    def over(self, kernel: Kernel) -> PrimFunc:
        """The same function with ``kernel`` in place of its own: its signature has the arguments that ``kernel`` still takes."""
        if kernel is self.kernel:
            return self
        made = PrimFunc(self._function, TracedKernel(kernel, self.settings))
        kept = {param.buffer for param in kernel.params if isinstance(param, TensorParam)}
        gone = {p.buffer.name for p in self.kernel.params if isinstance(p, TensorParam) and p.buffer not in kept}
        made.signature = self.signature.replace(parameters=[p for p in self.signature.parameters.values() if p.name not in gone])
        return made

    def __copy__(self) -> PrimFunc:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PrimFunc:
        return self

    def __reduce__(self) -> str:
        """Pickled as a function is: by its module and name."""
        return self.__qualname__

    def __repr__(self) -> str:
        return f"<kernel {self.name}{self.signature}>"

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if tracing() is None:
            raise catalogue.E155.error(calling_place() or self._function.span, function=self.name)
        hint = f"a kernel calls no kernel: decorate {self.name} with @T.macro, and its body is expanded where it is called"
        raise catalogue.E155.error(here(), function=self.name, hint=hint)


def prim_func(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Traces a function whose parameters are annotated, in the signature or in the body, and gives a :class:`PrimFunc`.

    ``check_well_formed``, ``private`` and ``is_stir``, options of older programs, are accepted and mean nothing here. E125: a parameter
    without a type; E128: a parameter of a kind that kernels do not have.
    """
    unknown = set(options) - {"check_well_formed", "private", "is_stir"}
    if unknown:
        raise TypeError(f"prim_func has no option {sorted(unknown)[0]!r}")
    if function is None:
        return prim_func
    if isinstance(function, PrimFunc):
        return function
    with rarely_collecting():
        source = KernelFunction.of(function, "@T.prim_func")
        return PrimFunc(source, trace_prim_func(source))


def trace_prim_func(source: KernelFunction) -> TracedKernel:
    """The kernel of a function whose parameters are described by annotations alone."""
    builder = Builder(source.name, source.span)

    source.refuse_variadic(keywords_too=True)

    def bind(frame: Frame) -> list[PendingTensor]:
        pending: list[PendingTensor] = []
        for name, parameter in source.signature.parameters.items():
            check_kind(source, parameter)
            span = source.parameter_span(name)
            builder.span = span
            annotation = source.annotation(frame, name)
            if parameter.default is not inspect.Parameter.empty and annotation is inspect.Parameter.empty:
                frame.locals[name] = parameter.default
                continue
            value = declare_parameter(builder, name, annotation, given=None, span=span)
            if isinstance(value, PendingTensor):
                pending.append(value)
            frame.locals[name] = value
        return pending

    return trace_kernel(source, builder, bind)


def check_kind(source: KernelFunction, parameter: inspect.Parameter) -> None:
    """E128 for positional-only parameters."""
    if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
        raise catalogue.E128.error(source.parameter_span(parameter.name), name=parameter.name, kind="positional-only")
