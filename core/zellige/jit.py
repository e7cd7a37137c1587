"""Compiling and calling kernels: ``zl.jit``, ``zl.compile``, ``zl.par_compile``.

In: a Python function or a :class:`~zellige.frontend.primfunc.PrimFunc`, a target, options. Out: :class:`~zellige.kernel.JITKernel`
objects, or the results of a call. A function decorated with ``jit`` has one of three styles:

* lazy: it returns a prim_func; calling it with Python values gives the compiled kernel;
* eager: its body is the kernel, with annotations, ``T.const`` and ``T.empty``; calling it with tensors runs it;
* direct: the same with tensors annotated in the signature, or described by the call's arguments alone.

A kernel is compiled again when something that the function depends on has changed, and found again by its program otherwise.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import is_
from typing import Any, Final

from zellige.cache.sources import see_loaded
from zellige.call_keys import call_key, check_absence, check_number, freeze, given_tensor, tensor_of
from zellige.collector import rarely_collecting
from zellige.diagnostics import CompileError, catalogue
from zellige.diagnostics.suggest import closest_argument
from zellige.frontend import arithmetic
from zellige.frontend.dependencies import Dependencies
from zellige.frontend.eager import EagerFunction, Recipe, holds_prim_func, opens_kernel
from zellige.frontend.parameters import GivenTensor
from zellige.frontend.primfunc import KernelFunction, PrimFunc
from zellige.jit_options import JITOptions, OutIndex, argument_sets, options_of
from zellige.kernel import JITKernel
from zellige.preparation import Prepared, in_parallel, prepare
from zellige.recollection import Question, described
from zellige.runtime.arrays import first_device
from zellige.target import surrounding_target

# ---- compile


def compile(func: Any = None, out_idx: OutIndex = None, **options: Any) -> JITKernel:
    """Compiles a prim_func. ``out_idx`` names the parameters that calls return instead of taking them; other options are those of
    :func:`jit`.

    E156: not a prim_func; E151, E152, E158, E168: a wrong ``out_idx``; E251: an output whose size no input gives.
    """
    return _compile(func, options_of({"out_idx": out_idx, **options}, "compile"))


@rarely_collecting()
def _compile(func: Any, options: JITOptions, device: str | int | None = None) -> JITKernel:
    if isinstance(func, JITFunction):
        return func.compile()
    return prepare(func, options, device).compiled()


def par_compile(
    funcs: Iterable[Any], out_idx: OutIndex = None, *, num_workers: int | None = None, ignore_error: bool = False, **options: Any
) -> list[JITKernel | None]:
    """Compiles several prim_funcs at the same time, with the options of :func:`jit`; the kernels in the order given.

    ``num_workers`` is how many at once. With ``ignore_error`` one that fails is None, and a warning says why.
    E156: no list.
    """
    chosen = options_of({"out_idx": out_idx, **options}, "par_compile")
    if not isinstance(funcs, Iterable):
        hint = "pass a list of prim_funcs, also for a single one: [kernel]"
        raise catalogue.E156.error(function="zl.par_compile", given=arithmetic.describe(funcs), hint=hint)
    return in_parallel([partial(_compile, f, chosen) for f in funcs], num_workers, ignore_error)


# ---- jit


@dataclass(eq=False)
class _Entry:
    """The kernels of one set of constant arguments. ``recipe`` is None until the first trace."""

    state: tuple[Any, ...]
    recipe: Recipe | None = None
    kernels: dict[tuple[Any, ...], JITKernel] = field(default_factory=dict)


_MOST_KNOWN_CALLS: Final = 256


@dataclass(frozen=True, slots=True)
class _KnownCall:
    """The kernel of calls with the same key while the function's dependencies are in ``state``, and which arguments it takes.

    ``held`` are the objects in the places ``watched`` where looking at them, not into them, tells that the state is the same; None where
    it does not tell.
    """

    state: tuple[Any, ...]
    watched: Dependencies | None
    held: list[Any]
    kernel: JITKernel
    places: tuple[int, ...]


class JITFunction:
    """A function decorated with ``jit``. Calls of several threads may overlap."""

    def __init__(self, function: Any, options: JITOptions) -> None:
        self.options = options
        self._lock = threading.RLock()
        self._entries: dict[Any, _Entry] = {}
        self._is_lazy: bool | None = None
        self._prim_func: PrimFunc | None = function if isinstance(function, PrimFunc) else None
        if self._prim_func is not None:
            self.function: Any = self._prim_func.__wrapped__
            self._kernel_function = None
        else:
            self._kernel_function = KernelFunction.of(function, "@zl.jit")
            self.function = self._kernel_function.function
        self.signature = inspect.signature(self.function)
        self.__wrapped__ = self.function
        self.__name__ = self.function.__name__
        self.__doc__ = self.function.__doc__
        self.__module__ = self.function.__module__
        self.__qualname__ = self.function.__qualname__
        self._eager: EagerFunction | None = None
        self._known: dict[tuple[Any, ...] | None, _KnownCall] = {}
        self._output_names: tuple[str, ...] = ()
        if self._kernel_function is not None:
            if holds_prim_func(self._kernel_function):
                self._is_lazy = True
            elif opens_kernel(self._kernel_function):
                self._is_lazy = False

    def __copy__(self) -> JITFunction:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> JITFunction:
        return self

    def __reduce__(self) -> str:
        """Pickled as a function is: by its module and name."""
        return str(self.__qualname__)

    def __repr__(self) -> str:
        return f"<jit function {self.__name__}{self.signature}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else BoundJITFunction(self, instance)

    # ---- calls

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Lazy style: the compiled kernel for these Python values. Other styles: compiles where needed, runs, and returns the outputs."""
        if self._prim_func is not None:
            return self._of_prim_func(args)(*args, **named)
        if self._known and not named:
            known = self._known.get(call_key(args))
            if known is not None and self._is_current(known):
                return known.kernel(*[args[place] for place in known.places])
        if self._style(args, named):
            return self._lazy_kernel(args, named)
        return self._run(args, named) if self._entries else self._run_first(args, named)

    @rarely_collecting()
    def _run_first(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        """The first call, all of it: the collector would look through a program's objects for longer than a kernel found on disk takes. It
        is not remembered: a function called once does not pay for it."""
        return self._run(args, named, is_first=True)

    def _run(self, args: tuple[Any, ...], named: Mapping[str, Any], *, is_first: bool = False) -> Any:
        """A call of the eager or direct style."""
        kernel, passed = self._eager_kernel(args, named)
        if not named and not is_first:
            self._remember(args, kernel, passed)
        missing = next((name for name, value in passed.items() if value is inspect.Parameter.empty), None)
        if missing is not None:
            raise self._misfit(f"missing a required argument: {missing!r}")
        return kernel(*passed.values())

    def compile(self, *args: Any, **named: Any) -> JITKernel:
        """The compiled kernel for these arguments. A tensor may be given as ``T.Tensor(shape, dtype)``, a T.const size by its name."""
        if self._prim_func is not None:
            return self._of_prim_func(args)
        if self._style(args, named):
            return self._lazy_kernel(args, named)
        return self._eager_kernel(args, named)[0]

    def get_kernel_source(self, *args: Any, **named: Any) -> str:
        """The lowered program for these arguments."""
        return self.compile(*args, **named).get_kernel_source()

    def get_tir(self, *args: Any, **named: Any) -> PrimFunc:
        """The kernel for these arguments before it is compiled."""
        if self._prim_func is not None:
            return self._prim_func
        if self._style(args, named):
            return self._traced_lazily(args, named)
        constants, given, sizes, _ = self._split(args, named)
        eager = self._eager_function()
        traced = eager.trace(constants, given, sizes, frozenset(self._output_names))
        return PrimFunc(eager.function, traced.traced)

    def prepare(self, args: tuple[Any, ...], named: Mapping[str, Any], options: JITOptions) -> Prepared:
        """The kernel for these arguments with ``options`` in place of the function's own, traced and not compiled."""
        if self._prim_func is not None:
            return prepare(self._prim_func, options, first_device(args))
        if self._style(args, named):
            return prepare(self._traced_lazily(args, dict(named)), options)
        constants, given, sizes, _ = self._split(args, named)
        return self._traced_eagerly(constants, given, sizes, args, options)[1]

    def is_lazy(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
        """Whether a call with these arguments gives a kernel instead of running one."""
        return self._prim_func is None and self._style(args, named)

    def passed(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """What the kernel of a call takes from the call's arguments, in its order; empty where one of them was not given."""
        values = list(args) if self._prim_func is not None else list(self._split(args, named)[3].values())
        return [] if any(value is inspect.Parameter.empty for value in values) else values

    def state_of(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """What identifies the kernels of a call: its constants, its tensors' shapes and types, and what the function depends on now."""
        tensors = {place: given_tensor(value) for place, value in (*enumerate(args), *named.items())}
        unclear: list[Any] = []
        parts = tuple(
            (place, tensors[place] or freeze(self.__name__, str(place), value, unclear))
            for place, value in (*enumerate(args), *named.items())
        )
        return parts, () if self._prim_func is not None else self._state(unclear)

    def par_compile(
        self, configs: Iterable[Mapping[str, Any] | Sequence[Any]], num_workers: int | None = None, ignore_error: bool = False
    ) -> list[JITKernel | None]:
        """Compiles one kernel for each configuration: a dictionary of keyword arguments or a tuple of positional ones. E159: neither."""
        return in_parallel([partial(self.compile, *args, **named) for args, named in argument_sets(configs)], num_workers, ignore_error)

    @property
    def out_idx(self) -> OutIndex:
        """The outputs as given to jit."""
        return self.options.out_idx

    # ---- styles

    def _style(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> bool:
        """Whether the function is of the lazy style. Where its source does not say, tensors among the arguments do."""
        if self._is_lazy is None:
            self._is_lazy = not any(given_tensor(v) is not None for v in (*args, *named.values()))
        return self._is_lazy

    def _of_prim_func(self, args: tuple[Any, ...]) -> JITKernel:
        with self._lock:
            entry = self._entries.setdefault((), _Entry(state=()))
            key = (surrounding_target(),)
            if key not in entry.kernels:
                assert self._prim_func is not None
                entry.kernels[key] = _compile(self._prim_func, self.options, first_device(args))
            return entry.kernels[key]

    # ---- lazy

    def _lazy_kernel(self, args: tuple[Any, ...], named: dict[str, Any]) -> JITKernel:
        bound = self._bound(args, named)
        unclear: list[Any] = []
        key = tuple((name, freeze(self.__name__, name, value, unclear)) for name, value in bound.arguments.items())
        with self._lock:
            state = self._state(unclear)
            entry = self._entries.get(key)
            if entry is None or entry.state != state:
                entry = _Entry(state=state)
                entry.kernels[()] = self._compile_lazily(bound.arguments, args, named)
                self._entries[key] = entry
            return entry.kernels[()]

    @rarely_collecting()
    def _compile_lazily(self, bound: Mapping[str, Any], args: tuple[Any, ...], named: dict[str, Any]) -> JITKernel:
        question = Question.of(self._kernel_function, ("lazy", dict(bound)), self.options, ())
        known = None if question is None else question.answer()
        if known is not None:
            return known[0]
        prim_func = self._traced_lazily(args, named)
        follows = question is not None and question.follows(prim_func.settings)
        kernel = _compile(prim_func, self.options)
        if question is not None and follows:
            question.note(kernel, None)
        return kernel

    def _traced_lazily(self, args: tuple[Any, ...], named: dict[str, Any]) -> PrimFunc:
        self._bound(args, named)
        made = self.function(*args, **named)
        if isinstance(made, JITFunction) and made._prim_func is not None:
            made = made._prim_func
        if not isinstance(made, PrimFunc):
            span = None if self._kernel_function is None else self._kernel_function.span
            raise catalogue.E154.error(span, function=self.__name__, given=arithmetic.describe(made))
        return made

    def _bound(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> inspect.BoundArguments:
        try:
            bound = self.signature.bind(*args, **named)
        except TypeError as error:
            parameters = self.signature.parameters
            unknown = next((name for name in named if name not in parameters), None)
            are_tensors = any(hasattr(value, "shape") and hasattr(value, "dtype") for value in (*args, *named.values()))
            raise self._misfit(f"{error}{closest_argument(unknown, parameters)}", gives_tensors=are_tensors) from error
        bound.apply_defaults()
        return bound

    def _misfit(self, message: str, *, gives_tensors: bool = False) -> CompileError:
        function = self._kernel_function
        span = None if function is None else function.span
        signature = f"{self.__name__}{self.signature}" if function is None else function.head
        hint = None
        if gives_tensors:
            hint = f"{signature} makes the kernel; the tensors go to what it returns"
        elif outputs := self._output_names:
            taken = ", ".join(name for name in self.signature.parameters if name not in outputs)
            hint = f"out_idx names {', '.join(outputs)}, made by the call and returned: it is called as {self.__name__}({taken})"
        error = catalogue.E157.error(span, function=self.__name__, message=message, signature=signature, hint=hint)
        assert isinstance(error, CompileError)
        return error

    def _state(self, unclear: Sequence[Any] = ()) -> tuple[Any, ...]:
        """The target around, and what the function depends on now. It equals no other where ``unclear`` has an argument whose content
        nobody can see, and where the function is to be compiled each time."""
        if unclear or self.options.force_compile:
            return (object(),)
        return surrounding_target(), *Dependencies.of(self.function).state

    # ---- eager and direct

    def _eager_function(self) -> EagerFunction:
        if self._eager is None:
            assert self._kernel_function is not None
            self._eager = EagerFunction.of(self._kernel_function)
            self._output_names = self._named_outputs(self._eager)
        return self._eager

    def _named_outputs(self, eager: EagerFunction) -> tuple[str, ...]:
        """The parameters that ``out_idx`` names, in its order. It counts tensors and run-time numbers, not constants."""
        if self.options.out_idx is None:
            return ()
        takes = [n for n, kind in eager.kinds.items() if kind != "rest"]
        names = [n for n in takes if eager.kinds[n] != "open" or self.signature.parameters[n].default is inspect.Parameter.empty]
        names = [n for n in names if not _is_python_annotation(eager.annotations[n])]
        chosen = self.options.out_idx
        indices = [chosen] if isinstance(chosen, int) else list(chosen)
        for index in indices:
            if not isinstance(index, int) or not -len(names) <= index < len(names):
                raise catalogue.E151.error(eager.function.span, given=index, function=self.__name__, count=len(names))
        return tuple(names[index] for index in indices)

    def _split(
        self, args: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, GivenTensor | None], dict[str, int], dict[str, Any]]:
        """The call's values by what they are: constants, tensors, T.const sizes given by name; and the values that the kernel takes."""
        eager = self._eager_function()
        values = self._matched(args, named)
        constants: dict[str, Any] = {}
        sizes = self._other_keywords(values, constants)
        given: dict[str, GivenTensor | None] = {}
        passed: dict[str, Any] = {}
        for name, parameter in self.signature.parameters.items():
            value = values.get(name, parameter.default)
            kind = eager.kinds[name]
            if kind == "rest":
                continue
            if name in self._output_names:
                given[name] = None
                continue
            tensor = tensor_of(name, value) if kind in ("tensor", "open") else given_tensor(value)
            if kind == "tensor" and tensor is None:
                check_absence(name, value)
            if kind == "open" and tensor is not None:
                check_number(name, eager.annotations[name], value)
            if kind == "tensor" or (kind == "open" and tensor is not None):
                given[name] = tensor
                passed[name] = value
            elif kind == "number":
                passed[name] = value
            elif value is inspect.Parameter.empty:
                raise self._misfit(f"missing a required argument: {name!r}")
            else:
                constants[name] = value
        return constants, given, sizes, passed

    def _other_keywords(self, values: Mapping[str, Any], constants: dict[str, Any]) -> dict[str, int]:
        """Keywords that no parameter has: the constants that a ``**parameter`` takes, in a dictionary as in Python, or T.const sizes."""
        rest = next((name for name, kind in self._eager_function().kinds.items() if kind == "rest"), None)
        if rest is None and values.keys() <= self.signature.parameters.keys():
            return {}
        others = {name: value for name, value in values.items() if name not in self.signature.parameters or name == rest}
        if rest is None:
            others = {name: arithmetic.whole_number(value) for name, value in others.items()}
        for name, value in others.items():
            if rest is None and value is None:
                raise self._misfit(f"got an unexpected keyword argument {name!r}")
            if rest is not None and given_tensor(value) is not None:
                raise self._misfit(f"got a tensor as {name!r}, and **{rest} takes constants: a tensor needs a parameter of its own")
        if rest is None:
            return others
        constants[rest] = others
        return {}

    def _matched(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by name; positional ones skip the outputs."""
        takes = [p for p in self.signature.parameters.values() if p.name not in self._output_names]
        positional = [p.name for p in takes if p.kind not in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)]
        if len(args) > len(positional):
            raise self._misfit(f"takes {len(positional)} positional arguments, {len(args)} were given")
        values = dict(zip(positional, args))
        for name, value in named.items():
            if name in values:
                raise self._misfit(f"got multiple values for argument {name!r}")
            values[name] = value
        return values

    def _remember(self, args: tuple[Any, ...], kernel: JITKernel, passed: Mapping[str, Any]) -> None:
        """Note which kernel a call of tensors and constants came to, so that the next one like it need not find out."""
        key = call_key(args)
        takes = [name for name in self.signature.parameters if name not in self._output_names]
        places = [takes.index(name) for name in passed]
        is_number = any(self._eager_function().kinds[name] == "number" for name in passed)
        if key is None or is_number or self.options.force_compile or any(place >= len(args) for place in places):
            return
        if len(self._known) >= _MOST_KNOWN_CALLS:
            self._known.clear()
        found = Dependencies.of(self.function)
        state, held = (surrounding_target(), *found.state), found.values() if found.is_settled else []
        self._known[key] = _KnownCall(
            state=state, watched=found if found.is_settled else None, held=held, kernel=kernel, places=tuple(places)
        )

    def _is_current(self, known: _KnownCall) -> bool:
        if known.watched is not None and known.state[0] == surrounding_target():
            values = known.watched.values()
            if len(values) == len(known.held) and all(map(is_, values, known.held)):
                return True
        return known.state == self._state()

    def _eager_kernel(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[JITKernel, dict[str, Any]]:
        """The kernel for a call, and the values that it takes, in its order."""
        constants, given, sizes, passed = self._split(args, named)
        kinds = tuple(sorted(given))
        unclear: list[Any] = []
        frozen = tuple((name, freeze(self.__name__, name, value, unclear)) for name, value in constants.items())
        key = (frozen, kinds, tuple(sorted(sizes.items())))
        with self._lock:
            state = self._state(unclear)
            entry = self._entries.get(key)
            if entry is None or entry.state != state:
                entry = self._entries[key] = _Entry(state=state)
            tensors = None if entry.recipe is None else entry.recipe.key(given)
            kernel = None if tensors is None else entry.kernels.get(tensors)
            if kernel is None:
                kernel = self._compile_eagerly(entry, constants, given, sizes, args)
        return kernel, passed

    @rarely_collecting()
    def _compile_eagerly(
        self,
        entry: _Entry,
        constants: Mapping[str, Any],
        given: Mapping[str, GivenTensor | None],
        sizes: Mapping[str, int],
        args: tuple[Any, ...],
    ) -> JITKernel:
        values = ("eager", dict(constants), described(given), dict(sizes), self._output_names)
        question = Question.of(self._kernel_function, values, self.options, args)
        known = None if question is None else question.answer()
        if known is not None:
            kernel, recipe = known[0], Recipe.read(known[1])
        else:
            recipe, prepared = self._traced_eagerly(constants, given, sizes, args, self.options)
            follows = question is not None and question.follows(prepared.prim_func.settings)
            kernel = prepared.compiled()
            if question is not None and follows:
                question.note(kernel, recipe.written())
        entry.recipe = recipe
        entry.kernels[recipe.key(given) or ()] = kernel
        return kernel

    def _traced_eagerly(
        self,
        constants: Mapping[str, Any],
        given: Mapping[str, GivenTensor | None],
        sizes: Mapping[str, int],
        args: tuple[Any, ...],
        options: JITOptions,
    ) -> tuple[Recipe, Prepared]:
        eager = self._eager_function()
        made = eager.trace(constants, given, sizes, frozenset(self._output_names))
        out_idx = None if options.out_idx is None else [made.arguments.index(name) for name in self._output_names]
        return made.recipe, prepare(PrimFunc(eager.function, made.traced), replace(options, out_idx=out_idx), first_device(args))


def _is_python_annotation(annotation: Any) -> bool:
    """Whether an annotation is one of Python's own types, which say that a value is a constant."""
    return isinstance(annotation, type) and annotation is not inspect.Parameter.empty


class BoundJITFunction:
    """A jit function taken from an instance: the instance is its first argument, a constant."""

    def __init__(self, function: JITFunction, instance: Any) -> None:
        self._function = function
        self._instance = instance

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._function(self._instance, *args, **named)

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._function, name)
        if name in ("compile", "get_kernel_source", "get_tir"):
            return lambda *args, **named: attribute(self._instance, *args, **named)
        return attribute


def jit(func: Any = None, **options: Any) -> Any:
    """Decorates a function that is a kernel or makes one; see the module's text for the styles.

    ``out_idx``: the parameters, one number or several, that calls return instead of taking them. ``target``: a text such as "cpu" (unless
    given, that of ``ZELLIGE_TARGET`` or by the arguments). ``pass_configs``: keys of ``zl.PassConfigKey`` and their values.
    ``compile_flags``: for the target's own compiler. ``verbose`` tells what is done; ``debug_root_path`` is a folder for the text of every
    stage. ``passes``: own passes over the tile IR, as functions, or Insert, Replace and Veto of :mod:`zellige.plugin.contract` for the
    passes that are there, alone or in pairs with a stage; ``schedule``: one for the stage "pipeline", or :class:`zellige.SplitSums`. With
    ``force_compile`` every call traces and compiles anew, and nothing that was kept is asked. Of other programs ``execution_backend``,
    ``target_host`` and ``cached`` have no effect. E129: not a function; E159: an option that does not exist or has a wrong value.
    """
    chosen = options_of(options, "jit")

    def decorate(function: Any) -> JITFunction:
        return JITFunction(function, chosen)

    return decorate if func is None else decorate(func)


see_loaded()  # what compiles is loaded by now, but for the parts that a kernel found on disk does without

__all__ = ["BoundJITFunction", "JITFunction", "compile", "jit", "par_compile"]
