"""From the arguments of a call to what a compiled kernel takes, with every check of the declaration before anything is launched.

In: a kernel (:class:`Signature`, made once) and the caller's positional and keyword arguments. Out: a :class:`Bound` call:
addresses, scalar values and symbolic sizes in the order of ``CompiledKernel.launch``, the results allocated. Errors are
E601 to E618; each names the argument, what was expected and what was given.

``None`` may stand for a tensor that the kernel neither reads nor writes; sizes that only such tensors have are then 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from zellige.diagnostics import ZelligeError, catalogue
from zellige.diagnostics.suggest import closest
from zellige.diagnostics.wording import counted
from zellige.elements.memory import row_major
from zellige.ir.expr import Const, Expr, Var
from zellige.ir.sizes import SizeEquation, SizeError, SizeSystem, evaluate_size, greatest_size
from zellige.ir.stmt import Kernel, ScalarParam, TensorParam
from zellige.ir.traverse import walk
from zellige.runtime.arrays import (
    HOST,
    ArrayView,
    NoMemory,
    NoSuchArray,
    UnusableArray,
    allocate,
    byte_size,
    hint_for_traced,
    view_of,
)
from zellige.runtime.parameters import (
    Number,
    ScalarArgument,
    TensorArgument,
    carries_bits,
    described,
    number_of,
    of_vectors,
    packing_hint,
    tensor_argument,
    touched_tensors,
    type_texts,
)
from zellige.runtime.size_text import size_text


def home_of(devices: Sequence[str | int]) -> str:
    """The first of the devices that array frameworks have a name for, else the host."""
    return next((device for device in devices if isinstance(device, str)), HOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the tensors of a call must be: the device names and DLPack device types that ``target`` can reach."""

    target: str
    devices: tuple[str | int, ...]
    absence: Callable[[], str] | None = field(default=None, compare=False)
    """What to do where no such device works on this machine; an empty text where one does."""

    @property
    def home(self) -> str:
        """The name of the device in whose memory the results of a call without tensors lie."""
        return home_of(self.devices)

    @property
    def text(self) -> str:
        return " or ".join(str(d) for d in self.devices if isinstance(d, str)) or "memory of its own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What a caller gave, read but not yet compared with the declaration. ``first`` is the first tensor among them."""

    given: Mapping[int, Any]
    views: Mapping[int, ArrayView | None]
    scalars: Mapping[Var, Number]
    first: ArrayView | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A call that passed the checks, in the terms of ``CompiledKernel.launch``. ``results`` are the arrays that the call returns."""

    pointers: list[int]
    scalars: list[Number]
    sizes: list[int]
    results: tuple[Any, ...]
    alive: tuple[object, ...]
    streams: tuple[int, ...] = ()
    """Streams that arguments named as those on which they are ready, each once."""

    def returned(self) -> Any:
        """What the call returns: nothing, the one result, or a list of them."""
        if len(self.results) == 1:
            return self.results[0]
        return list(self.results) if self.results else None


class Signature:
    """The parameters of a kernel, prepared for checking calls."""

    def __init__(self, kernel: Kernel, touched: tuple[Collection[int], Collection[int]] | None = None) -> None:
        """``touched`` are the indices of the tensors that the kernel uses and writes, where its statements are not at hand."""
        self.kernel = kernel
        used, written = touched_tensors(kernel) if touched is None else touched
        self._system = SizeSystem.of(kernel)
        parameters: list[TensorArgument | ScalarArgument] = []
        made: list[TensorArgument] = []
        for index, param in enumerate(kernel.params):
            if isinstance(param, ScalarParam):
                parameters.append(ScalarArgument(index=index, name=param.var.name, var=param.var))
                continue
            tensor = tensor_argument(index, param.buffer, is_used=index in used, is_written=index in written)
            (parameters if param.role == "argument" else made).append(tensor)
        self.parameters: tuple[TensorArgument | ScalarArgument, ...] = tuple(parameters)
        """What the caller passes, in order."""
        self.made: tuple[TensorArgument, ...] = tuple(made)
        """The outputs and workspaces that the runtime allocates."""
        self._tensors = tuple(p for p in parameters if isinstance(p, TensorArgument))
        self._by_index = {p.index: p for p in (*self._tensors, *made)}

    @property
    def size_variables(self) -> tuple[Var, ...]:
        """The symbolic sizes in the order of ``CompiledKernel.launch``."""
        return self._system.variables

    @property
    def equations(self) -> tuple[SizeEquation, ...]:
        """What extents and strides of the arguments say about sizes."""
        return self._system.equations

    def tensor(self, index: int) -> TensorArgument:
        """The tensor that is ``kernel.params[index]``."""
        return self._by_index[index]

    @property
    def touched(self) -> tuple[list[int], list[int]]:
        """Indices of the tensors that the kernel uses, and of those that it writes."""
        known = sorted(self._by_index.items())
        return [index for index, tensor in known if tensor.is_used], [index for index, tensor in known if tensor.is_written]

    @property
    def call_text(self) -> str:
        """How the kernel is called, for messages."""
        return f"{self.kernel.name}({', '.join(p.name for p in self.parameters)})"

    def read(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> Arguments:
        """Match the arguments with the parameters and look at each by itself (E601, E602, E603, E612, E613, E616, E618)."""
        given = self._matched(args, keywords)
        views: dict[int, ArrayView | None] = {}
        scalars: dict[Var, Number] = {}
        first: ArrayView | None = None
        for parameter in self.parameters:
            value = given[parameter.index]
            if isinstance(parameter, ScalarArgument):
                scalars[parameter.var] = number_of(parameter, value)
                continue
            view = self._view(parameter, value)
            views[parameter.index] = view
            first = view if first is None else first
        return Arguments(given=given, views=views, scalars=scalars, first=first)

    def bind(self, arguments: Arguments, place: Place, workspaces: dict[Any, Any]) -> Bound:
        """Compare the arguments with the declaration and allocate the results.

        ``workspaces`` keeps the kernel's own scratch tensors of the host from call to call; calls that may run at the same time need one
        each. A device may still run an earlier call, in another stream or in a recorded graph, so each call there has its own.
        """
        for tensor in self._tensors:
            view = arguments.views[tensor.index]
            if view is not None:
                self._check_alone(tensor, view, place, arguments.first)
        values = self._solved(arguments)
        for tensor in self._tensors:
            view = arguments.views[tensor.index]
            if view is not None and view.cells:
                self._check_memory(tensor, view)
        pointers = {index: 0 if view is None else view.pointer for index, view in arguments.views.items()}
        made: dict[int, Any] = {}
        alive: list[object] = [view.owner for view in arguments.views.values() if view is not None]
        for tensor in self.made:
            array = self._allocated(tensor, values, arguments.first, place, workspaces)
            view = view_of(array)
            assert view is not None, "allocate returned no array"
            made[tensor.index], pointers[tensor.index] = array, view.pointer
            alive.append(array)
        return Bound(
            pointers=[pointers[index] for index in sorted(pointers)],
            scalars=[arguments.scalars[p.var] for p in self.parameters if isinstance(p, ScalarArgument)],
            sizes=[values[var] for var in self._system.variables],
            results=tuple(made[i] if i in made else arguments.given[i] for i in self.kernel.results),
            alive=tuple(alive),
            streams=tuple(dict.fromkeys(v.stream for v in arguments.views.values() if v is not None and v.stream is not None)),
        )

    def shape_of(self, index: int, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape, in elements, of a tensor parameter with the sizes of those names. E631 where one is missing."""
        tensor = self._by_index[index]
        mentioned = [node for expr in tensor.buffer.shape for node in walk(expr) if isinstance(node, Var)]
        values = {var: sizes[var.name] for var in mentioned if var.name in sizes}
        try:
            return tuple(evaluate_size(expr, values) for expr in tensor.buffer.shape)
        except SizeError as error:
            missing = next(var.name for var in mentioned if var not in values)
            given = ", ".join(f"{name}={value}" for name, value in sizes.items()) or "none"
            raise catalogue.E631.error(size=missing, name=f"argument {tensor.name}", given=given) from error

    def _matched(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[int, Any]:
        if not keywords and len(args) == len(self.parameters):
            return {parameter.index: value for parameter, value in zip(self.parameters, args)}
        names = [parameter.name for parameter in self.parameters]
        kernel, call = self.kernel.name, self.call_text
        if len(args) > len(names):
            expected, found = counted(len(names), "argument"), str(len(args) + len(keywords))
            raise catalogue.E601.error(kernel=kernel, expected=expected, given=found, call=call)
        given = {parameter.index: value for parameter, value in zip(self.parameters, args)}
        for name, value in keywords.items():
            if name not in names:
                made = "; it makes and returns that one itself" if any(t.name == name for t in self.made) else ""
                raise catalogue.E602.error(kernel=kernel, reason=f"has no argument {name}{made or closest(name, names)}", call=call)
            position = names.index(name)
            if position < len(args):
                raise catalogue.E602.error(kernel=kernel, reason=f"got the argument {name} twice, by position and by name", call=call)
            given[self.parameters[position].index] = value
        missing = [parameter.name for parameter in self.parameters if parameter.index not in given]
        if missing:
            without = f"{len(given)} ({', '.join(missing)} missing)"
            raise catalogue.E601.error(kernel=kernel, expected=counted(len(names), "argument"), given=without, call=call)
        return given

    def _view(self, tensor: TensorArgument, value: Any) -> ArrayView | None:
        if value is None:
            if tensor.is_used:
                raise catalogue.E618.error(name=tensor.name, expected=tensor.text, kernel=self.kernel.name)
            return None
        try:
            view = view_of(value)
        except UnusableArray as error:
            raise catalogue.E616.error(name=tensor.name, reason=str(error), hint=error.hint) from error
        if view is None:
            is_address = isinstance(value, int)
            hint = "an address alone says neither size nor type: pass the array itself" if is_address else hint_for_traced(value)
            raise catalogue.E603.error(name=tensor.name, expected=tensor.text, given=described(value), hint=hint)
        return of_vectors(view, tensor.buffer.dtype)

    def _check_alone(self, tensor: TensorArgument, view: ArrayView, place: Place, first: ArrayView | None) -> None:
        """What needs no sizes: rank, element type, device, read-only memory."""
        rank = tensor.buffer.rank
        if len(view.shape) != rank:
            raise catalogue.E604.error(
                name=tensor.name, expected=tensor.text, dimensions=counted(rank, "dimension"), given=str(view), given_rank=len(view.shape),
                hint=packing_hint(tensor),
            )
        if (view.dtype.name, view.packing) not in tensor.accepted and not carries_bits(tensor.buffer.dtype, view):
            expected, given = type_texts(tensor, view)
            raise catalogue.E607.error(name=tensor.name, expected=expected, given=given, hint=packing_hint(tensor))
        if view.device not in place.devices:
            hint = None if place.absence is None else place.absence()
            raise catalogue.E608.error(name=tensor.name, expected=place.text, target=place.target, given=view.device_text, hint=hint)
        if first is not None and view.device_index != first.device_index and min(view.device_index, first.device_index) >= 0:
            raise catalogue.E608.error(name=tensor.name, expected=first.device_text, target=place.target, given=view.device_text)
        if tensor.is_written and not view.is_writable:
            raise catalogue.E611.error(name=tensor.name, kernel=self.kernel.name)

    def _check_memory(self, tensor: TensorArgument, view: ArrayView) -> None:
        """Strides and alignment of a tensor that has elements. Declared strides are equations and were checked with the sizes."""
        wanted = row_major(view.shape)
        if tensor.buffer.strides is None:
            if any(a != w for a, w, extent in zip(view.strides, wanted, view.shape) if extent > 1):
                raise self._wrong_strides(tensor, view, wanted)
        elif any(stride < 0 for stride, extent in zip(view.strides, view.shape) if extent > 1):
            raise self._wrong_strides(tensor, view, ["0 or more"] * len(wanted))
        if view.pointer % tensor.alignment:
            raise catalogue.E610.error(name=tensor.name, alignment=tensor.alignment, dtype=str(tensor.buffer.dtype), address=view.pointer)

    def _wrong_strides(self, tensor: TensorArgument, view: ArrayView, wanted: Sequence[int | str]) -> ZelligeError:
        is_backward = any(stride < 0 for stride, extent in zip(view.strides, view.shape) if extent > 1)
        if is_backward:
            hint = "pass a copy, for example np.ascontiguousarray(x): no parameter takes an array that runs backward"
        elif tensor.buffer.strides is None:
            copies = f"{tensor.name}.contiguous() or np.ascontiguousarray({tensor.name})"
            hint = f"pass a contiguous copy ({copies}), or declare a T.StridedTensor"
        else:
            hint = "pass a copy, or declare symbolic strides (T.dynamic), which take any that are not negative"
        return catalogue.E609.error(
            name=tensor.name,
            expected=tensor.text,
            wanted=f"({', '.join(map(str, wanted))})",
            actual=f"({', '.join(map(str, view.strides))})",
            hint=hint,
        )

    def _solved(self, arguments: Arguments) -> dict[Var, int]:
        """The values of the size variables. E605, E606, E609, E613, E614."""
        values: dict[Var, int] = {var: value for var, value in arguments.scalars.items() if isinstance(value, int)}
        sources: dict[Var, SizeEquation] = {}
        found = list(self._given(arguments))
        for equation, given in found:
            if isinstance(equation.expr, Var) and equation.expr not in values:
                values[equation.expr] = given
                sources[equation.expr] = equation
        for equation, given in found:
            if equation.solves is not None and equation.solves not in values:
                values[equation.solves] = equation.value(given)
                sources[equation.solves] = equation
        for var in self._system.variables:
            if var not in values:
                if var in self._system.unsolved:
                    raise catalogue.E614.error(size=var.name, name=self._first_mention(var), kernel=self.kernel.name)
                values[var] = 0
            self._within(f"size {var.name}", var, values[var])
        for equation, given in found:
            expected = evaluate_size(equation.expr, values)
            if expected != given:
                self._contradicted(equation, given, expected, arguments, values, sources)
            if equation.what == "extent" and not isinstance(equation.expr, Const):
                self._within(f"the extent {size_text(equation.expr)} of {self._by_index[equation.param].name}", equation.expr, expected)
        return values

    @staticmethod
    def _within(name: str, expr: Expr, value: int) -> None:
        """Refuse a size beyond what index arithmetic of its type has room for. E613."""
        greatest = greatest_size(expr.dtype)
        if value > greatest:
            raise catalogue.E613.error(name=name, dtype=f"a size of {expr.dtype}", least=0, greatest=greatest, value=value)

    def _given(self, arguments: Arguments) -> Iterator[tuple[SizeEquation, int]]:
        """Each equation of a tensor that was given, with the extent or stride found there, in elements."""
        for equation in self._system.equations:
            view = arguments.views[equation.param]
            if view is None:
                continue
            per_cell = self._by_index[equation.param].per_cell
            is_last = equation.dimension == len(view.shape) - 1
            if equation.what == "extent":
                yield equation, view.shape[equation.dimension] * (per_cell if is_last else 1)
            else:
                yield equation, view.strides[equation.dimension] * (1 if is_last else per_cell)

    def _contradicted(
        self,
        equation: SizeEquation,
        given: int,
        expected: int,
        arguments: Arguments,
        values: Mapping[Var, int],
        sources: Mapping[Var, SizeEquation],
    ) -> None:
        tensor = self._by_index[equation.param]
        view = arguments.views[equation.param]
        assert view is not None, "an equation of a missing tensor"
        if equation.what == "stride":
            if view.shape[equation.dimension] <= 1 or not view.cells or expected == 0:
                return  # the stride is never multiplied by anything but 0
            assert tensor.buffer.strides is not None, "a stride equation of a dense tensor"
            raise self._wrong_strides(tensor, view, [evaluate_size(e, values) for e in tensor.buffer.strides])
        if isinstance(equation.expr, Var):
            source = sources.get(equation.expr)
            first_place = f"the argument {equation.expr.name}" if source is None else self._place(source)
            raise catalogue.E606.error(
                size=f"the size {equation.expr.name}",
                first=expected,
                first_place=first_place,
                second=given,
                second_place=self._place(equation),
            )
        hint = packing_hint(tensor)
        variables = {node: None for node in walk(equation.expr) if isinstance(node, Var)}
        if variables:
            hint = f"{size_text(equation.expr)} is {expected} with {', '.join(f'{v.name} = {values[v]}' for v in variables)}"
        raise catalogue.E605.error(
            name=tensor.name, expected=tensor.text, given=str(view), axis=equation.dimension, actual=given, wanted=expected, hint=hint
        )

    def _place(self, equation: SizeEquation) -> str:
        what = "dimension" if equation.what == "extent" else "the stride of dimension"
        return f"{what} {equation.dimension} of {self._by_index[equation.param].name}"

    def _first_mention(self, var: Var) -> str:
        for tensor in self._by_index.values():
            if any(node is var for expr in (*tensor.buffer.shape, *(tensor.buffer.strides or ())) for node in walk(expr)):
                return tensor.name
        return self.kernel.name

    def _allocated(
        self, tensor: TensorArgument, values: Mapping[Var, int], like: ArrayView | None, place: Place, workspaces: dict[Any, Any]
    ) -> Any:
        shape = tuple(evaluate_size(expr, values) for expr in tensor.buffer.shape)
        for axis, (extent, expr) in enumerate(zip(shape, tensor.buffer.shape)):
            if extent < 0:
                raise catalogue.E615.error(name=tensor.name, axis=axis, expression=size_text(expr), value=extent)
            if not isinstance(expr, Const):
                self._within(f"the extent {size_text(expr)} of {tensor.name}", expr, extent)
        param = self.kernel.params[tensor.index]
        home = place.home if like is None else like.device
        is_kept = isinstance(param, TensorParam) and param.role == "workspace" and home == HOST
        key = (tensor.index, shape, None if like is None else like.framework)
        if is_kept and key in workspaces:
            return workspaces[key]
        try:
            array = allocate(tensor.buffer.dtype, shape, like, HOST if like is not None else place.home)
        except NoSuchArray as error:
            raise catalogue.E617.error(name=tensor.name, expected=tensor.text, reason=str(error)) from error
        except NoMemory as error:
            raise self._no_memory(tensor, shape, values) from error
        if is_kept:
            workspaces[key] = array
        return array


    def _no_memory(self, tensor: TensorArgument, shape: tuple[int, ...], values: Mapping[Var, int]) -> ZelligeError:
        needed = byte_size(tensor.buffer.dtype, shape)
        mentioned = {node: None for expr in tensor.buffer.shape for node in walk(expr) if isinstance(node, Var)}
        sizes = ", ".join(f"{var.name} = {values[var]}" for var in mentioned)
        advice = f"check the sizes of the call: {sizes}" if sizes else "its sizes are constants of the kernel: make them smaller there"
        return catalogue.E619.error(name=tensor.name, expected=tensor.text, needed=needed, advice=advice)
