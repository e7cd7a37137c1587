"""The styles in which the decorated function itself is the kernel: eager (T.const, T.empty, annotations in the body) and direct (a
tutorial's function whose parameters are annotated or take their shape from the call).

In: the function, and what a call gives for each parameter. Out: a traced kernel, and :class:`Recipe`, by which the next call finds out
without tracing whether the same kernel serves it. A ``T.const`` size starts as a variable; as soon as every such variable stands alone
in the shape of some tensor, the trace begins anew with their values.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from zellige.diagnostics import catalogue
from zellige.diagnostics.suggest import closest_argument
from zellige.dtypes import DType
from zellige.frontend.builder import Builder
from zellige.frontend.parameters import GivenTensor, PendingTensor, declare_parameter, scalar_dtype, without_parentheses
from zellige.frontend.primfunc import KernelFunction, TracedKernel, prim_func, trace_kernel
from zellige.frontend.scopes import Frame, Trace
from zellige.frontend.source import body_of, called_name
from zellige.frontend.specs import PointerSpec, TensorSpec
from zellige.frontend.values import Tile
from zellige.ir.expr import Expr, Var
from zellige.ir.stmt import TensorParam

ParameterKind = Literal["tensor", "number", "open", "rest"]


class _Solved(BaseException):
    """Ends a trace: every T.const size met so far has a value now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantSource:
    """Where the value of a T.const size is read: a dimension of a tensor parameter's shape or strides (in elements).

    ``declared_bits`` is the width of the declared elements: elements narrower than a byte arrive several to a cell.
    """

    parameter: str
    what: Literal["shape", "strides"]
    dimension: int
    declared_bits: int

    def read(self, given: Mapping[str, GivenTensor | None]) -> int | None:
        """The number that the call gives, None where it gives none."""
        tensor = given.get(self.parameter)
        if tensor is None:
            return None
        numbers = tensor.shape if self.what == "shape" else tensor.strides
        if numbers is None or self.dimension >= len(numbers):
            return None
        is_last = self.dimension == len(numbers) - 1
        elements = tensor.packing
        if self.declared_bits < 8 and tensor.dtype.is_integer and tensor.dtype.bits == 8:
            elements = 8 // self.declared_bits
        return numbers[self.dimension] * (elements if is_last == (self.what == "shape") else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a call's tensors choose the kernel: the sources of its constants in order, the tensors whose shape and dtype it was made for,
    those of them whose strides count too.
    """

    constants: tuple[tuple[str, ConstantSource], ...]
    shaped: tuple[str, ...]
    strided: frozenset[str] = frozenset()

    def written(self) -> list[Any]:
        """The recipe as plain data, which :meth:`read` takes."""
        constants = [[name, s.parameter, s.what, s.dimension, s.declared_bits] for name, s in self.constants]
        return [constants, list(self.shaped), sorted(self.strided)]

    @classmethod
    def read(cls, written: Any) -> Recipe:
        """What :meth:`written` wrote."""
        constants, shaped, strided = written
        return cls(
            constants=tuple(
                (name, ConstantSource(parameter=parameter, what=what, dimension=dimension, declared_bits=bits))
                for name, parameter, what, dimension, bits in constants
            ),
            shaped=tuple(shaped),
            strided=frozenset(strided),
        )

    def key(self, given: Mapping[str, GivenTensor | None]) -> tuple[Any, ...] | None:
        """What identifies the kernel for these tensors; None where one of them lacks what the recipe needs."""
        values: list[Any] = []
        for _, source in self.constants:
            value = source.read(given)
            if value is None:
                return None
            values.append(value)
        for name in self.shaped:
            tensor = given.get(name)
            if tensor is None:
                return None
            values.append((tensor.shape, tensor.dtype.name, tensor.strides if name in self.strided else None))
        return tuple(values)


@dataclass(frozen=True, eq=False)
class EagerTrace:
    """A traced kernel with its recipe and the names of the parameters that a caller passes to it, in order."""

    traced: TracedKernel
    recipe: Recipe
    arguments: tuple[str, ...]


def opens_kernel(function: KernelFunction) -> bool:
    """Whether the function's own body shows that it is a kernel: T.Kernel, T.const, T.empty, or an annotated tensor."""
    if function.described_in_body:
        return True
    for parameter in function.signature.parameters.values():
        if isinstance(parameter.annotation, (TensorSpec, PointerSpec)):
            return True
        if isinstance(parameter.annotation, str) and parameter.annotation.split("(")[0].split("[")[0].split(".")[-1] in _TENSOR_WORDS:
            return True
    return any(called_name(call) in ("Kernel", "const", "empty") for call in body_of(function.source.node).calls)


_TENSOR_WORDS: Final = frozenset(("Tensor", "StridedTensor", "Buffer", "ptr"))


def holds_prim_func(function: KernelFunction) -> bool:
    """Whether the function defines a prim_func inside: the lazy style."""
    for node in body_of(function.source.node).functions:
        for decorator in node.decorator_list:
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            if (target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")) == "prim_func":
                return True
            if isinstance(target, ast.Name) and _named(function, target.id) is prim_func:
                return True
    return False


def _named(function: KernelFunction, name: str) -> Any:
    """What a name means around the function; None where it means nothing."""
    return function.closure[name] if name in function.closure else function.function.__globals__.get(name)


@dataclass(frozen=True, eq=False)
class EagerFunction:
    """A kernel function of the eager or direct style.

    ``kinds`` says for each parameter whether the call's value is a tensor, a number given at run time, decided by what the call gives
    ("open"), or the dictionary of a call's other keywords, which are constants ("rest").
    """

    function: KernelFunction
    kinds: Mapping[str, ParameterKind]
    annotations: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, function: KernelFunction) -> EagerFunction:
        """E128: a parameter for any number of positional arguments."""
        function.refuse_variadic(keywords_too=False)
        in_body = function.described_in_body
        kinds: dict[str, ParameterKind] = {}
        annotations: dict[str, Any] = {}
        for name, parameter in function.signature.parameters.items():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                kinds[name], annotations[name] = "rest", inspect.Parameter.empty
                continue
            annotation = _annotation(function, name)
            annotations[name] = annotation
            if name in in_body or isinstance(annotation, (TensorSpec, PointerSpec, Tile)):
                kinds[name] = "tensor"
            elif isinstance(annotation, DType) or (_is_written(annotation) and scalar_dtype(annotation) is not None):
                kinds[name] = "number"
            else:
                kinds[name] = "open"
        return cls(function, kinds, annotations)

    def trace(
        self,
        constants: Mapping[str, Any],
        given: Mapping[str, GivenTensor | None],
        sizes: Mapping[str, int],
        outputs: frozenset[str],
    ) -> EagerTrace:
        """Traces the function. ``constants`` are values of parameters fixed while compiling, ``given`` says which parameters are tensors
        and what a call gave for them, ``sizes`` are T.const values given by name. E250: a T.const size that nothing gives; E160: a shape
        that nothing gives.
        """
        solved: dict[str, int] = dict(sizes)
        sources: dict[str, ConstantSource] = {}
        while True:
            attempt = _Attempt(self, constants, given, solved, sources, outputs)
            try:
                return attempt.run()
            except _Solved:
                continue


def _is_written(annotation: Any) -> bool:
    """Whether there is an annotation that may name a type of the kernel's."""
    return annotation is not inspect.Parameter.empty and not isinstance(annotation, (type, str))


def _annotation(function: KernelFunction, name: str) -> Any:
    annotation = function.numbers_in_body.get(name, function.signature.parameters[name].annotation)
    if not isinstance(annotation, str):
        return without_parentheses(annotation)
    return function.annotation(function.frame(Trace(Builder(function.name, function.span))), name)


class _Attempt:
    """One run of the trace with the T.const values known so far."""

    def __init__(
        self,
        owner: EagerFunction,
        constants: Mapping[str, Any],
        given: Mapping[str, GivenTensor | None],
        solved: dict[str, int],
        sources: dict[str, ConstantSource],
        outputs: frozenset[str],
    ) -> None:
        self.owner = owner
        self.constants = constants
        self.given = given
        self.solved = solved
        self.sources = sources
        self.outputs = outputs
        self.pending: dict[str, PendingTensor] = {}
        self.builder = Builder(owner.function.name, owner.function.span)
        self.builder.constants = dict(solved)
        self.builder.unsolved = {}
        self.builder.before_launch = self.settle
        self.builder.after_placement = self.try_to_solve

    def run(self) -> EagerTrace:
        traced = trace_kernel(self.owner.function, self.builder, self.bind, before_end=self.settle)
        shaped = tuple(name for name, tensor in self.pending.items() if tensor.is_from_call)
        used = self.builder.used_constants
        unknown = sorted(set(self.solved) - used)
        if unknown:
            meant = closest_argument(unknown[0], (*self.owner.function.signature.parameters, *used))
            raise catalogue.E157.error(
                self.owner.function.span,
                function=self.owner.function.name,
                message=f"got an unexpected keyword argument {unknown[0]!r}{meant}",
                signature=self.owner.function.head,
            )
        strided = frozenset(name for name in shaped if self.pending[name].takes_strides)
        recipe = Recipe(constants=tuple(self.sources.items()), shaped=shaped, strided=strided)
        names = tuple(n for n in self.owner.function.signature.parameters if n not in self.constants)
        return EagerTrace(traced, recipe, names)

    def bind(self, frame: Frame) -> list[PendingTensor]:
        function = self.owner.function
        for name in function.signature.parameters:
            if name in self.constants:
                frame.locals[name] = self.constants[name]
                continue
            span = function.parameter_span(name)
            annotation = self.owner.annotations[name]
            if self.owner.kinds[name] == "open":
                annotation = inspect.Parameter.empty
            value = declare_parameter(self.builder, name, annotation, given=self.given.get(name), span=span)
            if isinstance(value, PendingTensor):
                value.is_output = name in self.outputs
                self.pending[name] = value
                if self.owner.kinds[name] == "open" and value.given is not None:
                    frame.locals[name] = value.tile()
                    continue
            frame.locals[name] = value
        return list(self.pending.values())

    def places(self) -> dict[Var, ConstantSource]:
        """The dimensions in which a T.const size stands alone, the first for each."""
        found: dict[Var, ConstantSource] = {}
        names = [n for n in self.owner.function.signature.parameters if n not in self.constants]
        for name, param in zip(names, self.builder.params):
            if not isinstance(param, TensorParam):
                continue
            lists: list[tuple[Literal["shape", "strides"], tuple[Expr, ...]]] = [
                ("shape", param.buffer.shape),
                ("strides", param.buffer.strides or ()),
            ]
            for what, exprs in lists:
                for dimension, expr in enumerate(exprs):
                    if isinstance(expr, Var):
                        bits = param.buffer.dtype.storage_bits
                        found.setdefault(expr, ConstantSource(parameter=name, what=what, dimension=dimension, declared_bits=bits))
        return found

    def try_to_solve(self) -> None:
        """Begins anew when every open T.const size can be read from a tensor that the call gave."""
        unsolved = self.builder.unsolved or {}
        if not unsolved:
            return
        places = self.places()
        values: dict[str, int] = {}
        for name, var in unsolved.items():
            source = places.get(var)
            value = None if source is None else source.read(self.given)
            if source is None or value is None:
                return
            self.sources[name] = source
            values[name] = value
        self.solved.update(values)
        raise _Solved

    def settle(self) -> None:
        """Before the first T.Kernel block and at the end: every T.const size must have a value. E160: a tensor that would give it is
        missing; E250.
        """
        unsolved = self.builder.unsolved or {}
        if not unsolved:
            return
        self.try_to_solve()
        places = self.places()
        for name, var in unsolved.items():
            source = places.get(var)
            if source is None:
                raise catalogue.E250.error(var.span, name=name)
            if self.given.get(source.parameter) is None:
                raise catalogue.E160.error(
                    self.owner.function.parameter_span(source.parameter), function=self.owner.function.name, name=source.parameter
                )
