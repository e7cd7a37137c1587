"""``zl.autotune``: a jit function that chooses its own configuration.

In: a function decorated with ``zl.jit`` and configurations of its arguments. Out: a :class:`TunedFunction`, which tunes at the first call
with arguments of a kind and uses what it found from then on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from zellige.autotune.results import AutotuneResult
from zellige.autotune.tuner import PASS_CONFIGS, AutoTuner, Config, ProfileArgs
from zellige.diagnostics import catalogue
from zellige.frontend.arithmetic import describe
from zellige.jit import JITFunction
from zellige.jit_options import JITOptions
from zellige.kernel import JITKernel
from zellige.preparation import Prepared
from zellige.profiler import TensorSupplyType

Configs = Iterable[Config] | Callable[..., Iterable[Config]] | None


class TunedFunction:
    """A jit function whose open arguments are chosen by measuring. Threads that call it with the same arguments tune once.

    An argument that the caller gives is not tuned. ``do_not_specialize`` names arguments whose value does not ask for tuning anew.
    """

    def __init__(self, function: JITFunction, configs: Configs, profile: ProfileArgs, do_not_specialize: Sequence[str] = ()) -> None:
        self.jit_impl = function
        self.configs = configs
        self.profile_args = profile
        self.do_not_specialize = frozenset(do_not_specialize)
        self._results: dict[Any, AutotuneResult] = {}
        self._kernels: dict[Any, JITKernel] = {}
        self._lock = threading.RLock()
        self.__wrapped__ = function.__wrapped__
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        self.__qualname__ = function.__qualname__

    def __repr__(self) -> str:
        return f"<tuned {self.jit_impl!r}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else partial(self, instance)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Lazy style: the best kernel. Other styles: runs it, or with ``__return_kernel=True`` returns it."""
        wants_kernel = bool(named.pop("__return_kernel", False))
        kernel, config = self._chosen(args, named)
        if wants_kernel or self.jit_impl.is_lazy(args, named):
            return kernel
        chosen = {key: value for key, value in config.items() if key != PASS_CONFIGS}
        return kernel(*self.jit_impl.passed(args, {**named, **chosen}))

    def compile(self, *args: Any, **named: Any) -> JITKernel:
        """The best kernel for these arguments; tensors may be left out where sizes are given by name."""
        return self._chosen(args, named)[0]

    def tune(self, *args: Any, **named: Any) -> AutotuneResult:
        """What tuning for these arguments found, with every trial."""
        with self._lock:
            key = self._key(args, named, self.do_not_specialize)
            found = self._results.get(key)
            if found is None:
                found = self._results[key] = self._tuner(args, named).run()
            return found

    def configurations(self, *args: Any, **named: Any) -> list[Config]:
        """The configurations written for a call with these arguments, without those; none where they are proposed from the kernel. Raises
        E633, E635."""
        return [] if self.configs is None else self._tuner(args, named).configurations() or []

    def get_kernel_source(self, *args: Any, **named: Any) -> str:
        """The lowered program of the best kernel."""
        return self.compile(*args, **named).get_kernel_source()

    def get_tir(self, *args: Any, **named: Any) -> Any:
        """The kernel for these arguments before it is compiled, not tuned."""
        return self.jit_impl.get_tir(*args, **named)

    def _chosen(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[JITKernel, Config]:
        result = self.tune(*args, **named)
        config = result.config or {}
        if not self.do_not_specialize:
            return result.kernel, config
        with self._lock:
            key = self._key(args, named, frozenset())
            kernel = self._kernels.get(key)
            if kernel is None:
                tuner = self._tuner(args, named)
                kernel = self._kernels[key] = tuner.trace(config, tuner.options_for(config)).compiled()
                if result.latency is not None:
                    kernel.update_tuner_result(result.latency, dict(config), result.ref_latency)
            return kernel, config

    def _key(self, args: tuple[Any, ...], named: Mapping[str, Any], left_out: frozenset[str]) -> Any:
        values = {**dict(zip(self.jit_impl.signature.parameters, args)), **named}
        return self.jit_impl.state_of((), {name: value for name, value in sorted(values.items()) if name not in left_out})

    def _tuner(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> AutoTuner:
        function = self.jit_impl
        tuner = AutoTuner(function, self.configs)
        tuner.profile_args = self.profile_args
        tuner.call = (args, named)
        tuner.given = frozenset({*list(function.signature.parameters)[: len(args)], *named})

        def trace(config: Config, options: JITOptions) -> Prepared:
            chosen = {key: value for key, value in config.items() if key != PASS_CONFIGS}
            return function.prepare(args, {**named, **chosen}, options)

        tuner.trace = trace
        if not function.is_lazy(args, named):
            tuner.inputs = function.passed(args, named) or None
        return tuner


def autotune(
    func: Any = None,
    *,
    configs: Configs = None,
    warmup: float = 25,
    rep: float = 100,
    timeout: float = 100,
    supply_type: TensorSupplyType = TensorSupplyType.Auto,
    ref_prog: Callable[..., Any] | None = None,
    supply_prog: Callable[..., Any] | None = None,
    rtol: float = 1e-2,
    atol: float = 1e-2,
    max_mismatched_ratio: float = 0.01,
    skip_check: bool = False,
    manual_check_prog: Callable[..., Any] | None = None,
    cache_input_tensors: bool = False,
    do_not_specialize: Sequence[str] | None = None,
    early_stop: bool = False,
    early_stop_factor: float = 2.0,
    isolate: bool | None = None,
) -> Any:
    """Decorates a function decorated with ``zl.jit``, so that its arguments are chosen by measuring.

    ``configs`` is a list of dictionaries, or a function that gives it for a call's arguments; each key is an argument of the function or
    ``pass_configs``. Without it, configurations are proposed from the kernel itself (:mod:`zellige.autotune.space`). The other
    arguments are those of :class:`zellige.autotune.tuner.ProfileArgs`. E162: not a jit function.
    """
    profile = replace(
        ProfileArgs(),
        warmup=warmup,
        rep=rep,
        timeout=timeout,
        supply_type=supply_type,
        ref_prog=ref_prog,
        supply_prog=supply_prog,
        rtol=rtol,
        atol=atol,
        max_mismatched_ratio=max_mismatched_ratio,
        skip_check=skip_check,
        manual_check_prog=manual_check_prog,
        cache_input_tensors=cache_input_tensors,
        early_stop=early_stop,
        early_stop_factor=early_stop_factor,
        isolate=isolate,
    )

    def decorate(function: Any) -> TunedFunction:
        if not isinstance(function, JITFunction):
            raise catalogue.E162.error(given=describe(function))
        return TunedFunction(function, configs, profile, tuple(do_not_specialize or ()))

    return decorate if func is None else decorate(func)
