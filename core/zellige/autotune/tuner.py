"""Trying configurations.

In: a way to trace a configuration, the configurations, how to compile, measure and check. Out: an :class:`AutotuneResult`.
Configurations are compiled by several processes at the same time and then measured one after another; one that does not compile,
computes something wrong, hangs or crashes is a trial without a time. Trials are kept in the cache (:mod:`zellige.autotune.journal`).
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median_low
from typing import Any, Final

from zellige.autotune.bench import Bench, LocalBench, Measured, ProcessBench, TrialError
from zellige.autotune.exchange import as_framework_of
from zellige.autotune.inputs import get_autotune_inputs
from zellige.autotune.journal import Entry, Journal, session_key
from zellige.autotune.once import Request
from zellige.autotune.progress import Progress
from zellige.autotune.results import AutotuneResult, Outcome, Trial
from zellige.autotune.space import planned_text, propose
from zellige.cache import memo, program_key
from zellige.cache.identity import identity_of
from zellige.diagnostics import CompileError, InternalError, ZelligeError, catalogue
from zellige.diagnostics.suggest import closest_argument
from zellige.frontend import arithmetic
from zellige.ir.stmt import Kernel, ScalarParam
from zellige.jit import JITFunction
from zellige.jit_options import JITOptions, TargetLike
from zellige.kernel import params_of
from zellige.options import CompileOptions, options as process_options
from zellige.plugin.registry import registry
from zellige.preparation import Prepared, prepare
from zellige.profiler import TensorSupplyType, made_arguments, measure_for
from zellige.runtime.arguments import Signature
from zellige.runtime.arrays import HOST, UnusableArray, view_of
from zellige.runtime.compare import assert_close
from zellige.runtime.timing import check_callable, check_number
from zellige.version import __version__

UNTRACEABLE: Final = (ZelligeError, InternalError, ValueError, TypeError, AssertionError, ArithmeticError, LookupError, NotImplementedError)
"""What a configuration may raise while it is traced: refusals, faults of the compiler, and what functions raise for arguments that do not
go together. It is refused then; whatever else escapes is a mistake in the function that no configuration changes."""

PASS_CONFIGS: Final = "pass_configs"
"""The key of a configuration that is no argument: pass configs for it alone, which go before those of all."""

Config = Mapping[str, Any]
Trace = Callable[[Config, JITOptions], Prepared]
_SHOWN: Final = 4


@dataclass(frozen=True, kw_only=True)
class ProfileArgs:
    """How trials are measured and checked. ``warmup`` and ``rep`` are milliseconds, ``timeout`` seconds for one configuration.

    Where there is a ``ref_prog``, results must agree with what it returns: within ``atol + rtol * |expected|`` but for a share
    of ``max_mismatched_ratio``, or as ``manual_check_prog(results, expected)`` judges by raising. ``supply_prog`` makes the arguments
    from the list of input parameters; with ``cache_input_tensors`` once, else for each configuration. ``isolate`` chooses between processes
    of their own and this one; unless given, devices that are not the host's are used from this one.
    """

    warmup: float = 25
    rep: float = 100
    timeout: float = 180
    supply_type: TensorSupplyType = TensorSupplyType.Auto
    ref_prog: Callable[..., Any] | None = None
    supply_prog: Callable[..., Any] | None = None
    rtol: float = 1e-2
    atol: float = 1e-2
    max_mismatched_ratio: float = 0.01
    skip_check: bool = False
    manual_check_prog: Callable[..., Any] | None = None
    cache_input_tensors: bool = False
    backend: str = "event"
    early_stop: bool = False
    early_stop_factor: float = 2.0
    isolate: bool | None = None

    def __post_init__(self) -> None:
        for name in ("warmup", "rep", "timeout", "rtol", "atol", "max_mismatched_ratio", "early_stop_factor"):
            check_number(name, getattr(self, name))
        for name in ("ref_prog", "supply_prog", "manual_check_prog"):
            if getattr(self, name) is not None:
                check_callable(name, getattr(self, name))

    @property
    def is_checked(self) -> bool:
        return self.ref_prog is not None and not self.skip_check

    @property
    def text(self) -> str:
        """What trials depend on, for the journal. Functions count by what they do."""
        numbers = (self.warmup, self.rep, self.backend, self.supply_type.name)
        judges = (self.ref_prog, self.manual_check_prog) if self.is_checked else ()
        tolerances = (self.rtol, self.atol, self.max_mismatched_ratio) if self.is_checked else ()
        return repr((numbers, tolerances, identity_of((self.supply_prog, judges))))


@dataclass(eq=False)
class _Candidate:
    """A configuration on its way: ``program`` identifies what it comes to; ``trial`` is set when it is known how it fares."""

    number: int
    config: Config
    prepared: Prepared | None = None
    program: str = ""
    trial: Trial | None = None
    like: _Candidate | None = None
    """One that comes to the same plan and is measured in its place."""

    def end(self, outcome: Outcome, latency: float | None = None, reason: str = "", **marks: bool) -> Trial:
        self.trial = Trial(config=self.config, outcome=outcome, latency=latency, reason=reason, **marks)
        return self.trial


class AutoTuner:
    """Finds the fastest configuration of a function; :meth:`from_kernel`, then ``set_compile_args``, ``set_profile_args`` and ``run``."""

    def __init__(self, fn: Callable[..., Any], configs: Iterable[Config] | Callable[..., Iterable[Config]] | None = None) -> None:
        self.fn = fn
        self.configs = configs
        self.compile_args = fn.options if isinstance(fn, JITFunction) else JITOptions()
        self.profile_args = ProfileArgs()
        self.inputs: Sequence[Any] | None = None
        """The arguments to try with unless :func:`zellige.autotune.set_autotune_inputs` gives others; None: made up."""
        self.trace: Trace = self._trace
        self.signature = inspect.signature(fn.function if isinstance(fn, JITFunction) else fn)
        self.given: frozenset[str] = frozenset()
        """Arguments that the caller gave, which are not tuned."""
        self.call: tuple[tuple[Any, ...], Mapping[str, Any]] = ((), {})
        """The arguments that ``configs`` is called with where it is a function."""
        self.notes: tuple[str, ...] = ()
        """What was left out of the configurations that were proposed, and why."""

    @classmethod
    def from_kernel(cls, kernel: Callable[..., Any], configs: Any = None) -> AutoTuner:
        """A tuner of a function whose arguments are what is tuned: it returns a prim_func, or is decorated with ``jit``."""
        return cls(kernel, configs)

    def set_compile_args(
        self,
        out_idx: int | Sequence[int] | None = None,
        target: TargetLike = None,
        execution_backend: str | None = None,
        target_host: TargetLike = None,
        verbose: bool | None = None,
        pass_configs: Mapping[Any, Any] | None = None,
        **options: Any,
    ) -> AutoTuner:
        """What ``jit`` takes. ``execution_backend`` and ``target_host`` of other programs are accepted and have no effect."""
        self.compile_args = JITOptions(out_idx=out_idx, target=target, verbose=verbose, pass_configs=pass_configs, **options)
        return self

    def set_profile_args(self, **arguments: Any) -> AutoTuner:
        """The fields of :class:`ProfileArgs`."""
        self.profile_args = replace(self.profile_args, **arguments)
        return self

    def run(
        self,
        warmup: float | None = None,
        rep: float | None = None,
        timeout: float | None = None,
        use_pipeline: bool = False,
        enable_grouped_compile: bool = False,
        group_compile_size: int = 2,
        benchmark_devices: Sequence[int] | None = None,
        benchmark_multi_gpu: bool = False,
        early_stop: bool | None = None,
        early_stop_factor: float | None = None,
    ) -> AutotuneResult:
        """Try the configurations. What is not given here is as ``set_profile_args`` said.

        The arguments about pipelines, groups and several devices are accepted and have no effect: all are compiled before any is measured,
        on one device. Raises E632 to E635.
        """
        asked: dict[str, Any] = {"warmup": warmup, "rep": rep, "timeout": timeout}
        asked |= {"early_stop": early_stop, "early_stop_factor": early_stop_factor}
        profile = replace(self.profile_args, **{name: value for name, value in asked.items() if value is not None})
        configs = self.configurations()
        if configs is None:
            return AutotuneResult(kernel=self.trace({}, self.compile_args).compiled())
        return _Session(self, profile, configs).run()

    @property
    def name(self) -> str:
        """The function's name, for messages."""
        return str(getattr(self.fn, "__name__", "the function"))

    def configurations(self) -> list[Config] | None:
        """The configurations without the arguments that the caller gave; None where nothing is left to tune. E633, E635."""
        if self.configs is None:
            return propose(self)
        args, named = self.call
        given = self.configs(*args, **named) if callable(self.configs) else self.configs
        entries = [given] if isinstance(given, Mapping) or not isinstance(given, Iterable) or isinstance(given, str) else list(given)
        odd = next((entry for entry in entries if not isinstance(entry, Mapping) or any(not isinstance(k, str) for k in entry)), None)
        if odd is not None:
            hint = "give configs=[{'name': value}, ...] with names of the function's arguments"
            wrong = next(name for name in odd if not isinstance(name, str)) if isinstance(odd, Mapping) else odd
            reason = f"expected {'names of arguments' if isinstance(odd, Mapping) else 'dictionaries'}, not {arithmetic.describe(wrong)}"
            raise catalogue.E159.error(option="configs of zl.autotune", reason=reason, hint=hint)
        listed: list[Config] = [dict(entry) for entry in entries]
        if not listed:
            raise catalogue.E633.error(function=self.name, reason="")
        parameters = self.signature.parameters
        is_open = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
        for config in listed:
            unused = [key for key in config if key not in parameters and key != PASS_CONFIGS]
            if unused and not is_open:
                close = closest_argument(unused[0], (*parameters, PASS_CONFIGS))
                keys, known = ", ".join(unused), ", ".join(parameters)
                raise catalogue.E635.error(config=config, function=self.name, keys=keys, known=known, suggestion=close)
        if not self.given:
            return listed
        left: list[Config] = []
        for config in ({k: v for k, v in config.items() if k not in self.given} for config in listed):
            if config and config not in left:
                left.append(config)
        return left or None

    def options_for(self, config: Config) -> JITOptions:
        """The compile arguments with a configuration's own pass configs over those of all."""
        own = config.get(PASS_CONFIGS)
        if not own:
            return self.compile_args
        merged = {str(getattr(k, "value", k)): v for configs in (self.compile_args.pass_configs or {}, own) for k, v in configs.items()}
        return replace(self.compile_args, pass_configs=merged)

    def _trace(self, config: Config, options: JITOptions) -> Prepared:
        arguments = {key: value for key, value in config.items() if key != PASS_CONFIGS}
        if isinstance(self.fn, JITFunction):
            return self.fn.prepare((), arguments, options)
        return prepare(self.fn(**arguments), options)


@dataclass(eq=False)
class _Session:
    """One run of a tuner."""

    tuner: AutoTuner
    profile: ProfileArgs
    configs: list[Config]
    _expected: dict[int, list[Any]] = field(default_factory=dict)
    _best: float | None = None
    _refusal: Exception | None = None

    def run(self) -> AutotuneResult:
        candidates = [self._traced(number, config) for number, config in enumerate(self.configs)]
        first = next((c.prepared for c in candidates if c.prepared is not None), None)
        if first is None:
            raise self._none_works(candidates)
        self._require_inputs(first.kernel)
        self._target = registry().resolve(first.target, device=first.device)
        handle = registry().backend(self._target)
        is_here = self._target.is_simulated  # in the host's memory, whatever the backend's device
        self._device = HOST if is_here else next(iter(handle.manifest.framework_devices), HOST)
        self._inputs = self._made_inputs(first)
        conditions = (__version__, handle.manifest.version, repr(handle.describe(self._target)), repr(process_options().threads))
        folder = process_options().cache_dir if memo.is_enabled else None
        key = session_key((*conditions, self.profile.text, *(_description(value) for value in self._inputs)))
        self._journal = Journal(folder, key)
        is_isolated = is_here or handle.manifest.kind != "accelerator" if self.profile.isolate is None else self.profile.isolate
        self._try_all(candidates, is_isolated=is_isolated)
        return self._result(candidates)

    def _traced(self, number: int, config: Config) -> _Candidate:
        candidate = _Candidate(number, config)
        try:
            candidate.prepared = self.tuner.trace(config, self.tuner.options_for(config))
        except UNTRACEABLE as error:
            candidate.end("refused", reason=_first_line(error))
            self._refusal = error
        except SystemExit as error:  # the function gives up on these arguments, and only on them
            candidate.end("refused", reason=f"the function would end the process (SystemExit: {error})")
        return candidate

    def _try_all(self, candidates: list[_Candidate], *, is_isolated: bool) -> None:
        alike: dict[str, _Candidate] = {}
        for candidate in candidates:
            if candidate.prepared is not None:
                candidate.program = program_key(candidate.prepared.kernel, self._target, candidate.prepared.options)
                alike.setdefault(candidate.program, candidate)
        for candidate in alike.values():
            found = self._journal.find(candidate.program)
            if found is not None:
                candidate.end(found.outcome, found.latency, found.reason, is_recalled=True)
                self._note(candidate)
        new = self._of_different_plans([candidate for candidate in alike.values() if candidate.trial is None])
        if new:
            self._try_new(new, is_isolated=is_isolated)
        for candidate in candidates:
            if candidate.trial is None:
                twin = candidate.like or alike[candidate.program]
                twin = twin.like or twin
                assert twin.trial is not None, "every different program was tried"
                candidate.trial = _shared(twin.trial, candidate.config)
                if candidate.like is not None:
                    self._keep(candidate)

    def _of_different_plans(self, candidates: list[_Candidate]) -> list[_Candidate]:
        """The candidates without those that come to the plan of one before them, such as more stages than the target tells apart."""
        capabilities = registry().backend(self._target).describe(self._target)
        first: dict[tuple[str, CompileOptions], _Candidate] = {}
        kept: list[_Candidate] = []
        for candidate in candidates:
            prepared = candidate.prepared
            assert prepared is not None, "only traced configurations are tried"
            is_plain = len(candidates) > 1 and not prepared.options.passes and prepared.options.schedule is None
            planned = planned_text(prepared.kernel, capabilities) if is_plain else None
            if planned is not None:
                candidate.like = first.setdefault((planned, prepared.options), candidate)
            if candidate.like in (None, candidate):
                candidate.like = None
                kept.append(candidate)
        return kept

    def _try_new(self, candidates: list[_Candidate], *, is_isolated: bool) -> None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        count = min(cores, len(candidates)) if is_isolated else 1
        benches: list[Bench] = [ProcessBench() if is_isolated else LocalBench() for _ in range(count)]
        shares = [candidates[place::count] for place in range(count)]
        try:
            with Progress(self.tuner.name, len(candidates)) as progress:
                with ThreadPoolExecutor(count, "zellige-tune") as pool:
                    list(pool.map(partial(self._compile_share, progress), benches, shares))
                for place, candidate in enumerate(candidates):
                    if candidate.trial is None:
                        self._measure(benches[place % count], candidate)
                        progress.measured(self._best)
        finally:
            for bench in benches:
                bench.close()

    def _compile_share(self, progress: Progress, bench: Bench, share: list[_Candidate]) -> None:
        for candidate in share:
            assert candidate.prepared is not None, "only traced configurations are compiled"
            try:
                bench.compile(candidate.number, self._aimed(candidate.prepared), self.profile.timeout)
            except TrialError as error:
                candidate.end(error.outcome, reason=error.reason)
                if error.outcome != "refused":
                    self._keep(candidate)
            progress.compiled(is_out=candidate.trial is not None)

    def _measure(self, bench: Bench, candidate: _Candidate) -> None:
        assert candidate.prepared is not None, "only traced configurations are measured"
        if self.profile.supply_prog is not None and not self.profile.cache_input_tensors and get_autotune_inputs() is None:
            self._inputs = self._made_inputs(candidate.prepared)
            self._expected.clear()
        limit = self._best * self.profile.early_stop_factor if self.profile.early_stop and self._best is not None else None
        request = Request(warmup=self.profile.warmup, rep=self.profile.rep, timer=self.profile.backend, early_stop_baseline=limit)
        is_checked = self.profile.is_checked
        try:
            found = bench.measure(
                candidate.number,
                self._aimed(candidate.prepared),
                self._inputs,
                request,
                is_checked=is_checked,
                seconds=self.profile.timeout,
            )
            if is_checked:
                self._check(found)
        except TrialError as error:
            candidate.end(error.outcome, reason=error.reason)
        else:
            candidate.end("measured", median_low(found.times), is_estimate=found.is_estimate)
        self._keep(candidate)
        self._note(candidate)

    def _aimed(self, prepared: Prepared) -> Prepared:
        return replace(prepared, target=self._target)

    def _keep(self, candidate: _Candidate) -> None:
        trial = candidate.trial
        assert trial is not None, "a trial that has ended"
        if not trial.is_estimate:
            self._journal.keep(candidate.program, Entry(outcome=trial.outcome, latency=trial.latency, reason=trial.reason))

    def _note(self, candidate: _Candidate) -> None:
        trial = candidate.trial
        if trial is not None and trial.latency is not None and not trial.is_estimate:
            self._best = trial.latency if self._best is None else min(self._best, trial.latency)

    # ---- arguments and reference

    def _require_inputs(self, kernel: Kernel) -> None:
        if get_autotune_inputs() is not None or self.tuner.inputs is not None or self.profile.supply_prog is not None:
            return
        for param in kernel.params:
            if isinstance(param, ScalarParam):
                raise catalogue.E632.error(kernel=kernel.name, name=param.var.name)

    def _made_inputs(self, prepared: Prepared) -> list[Any]:
        given = get_autotune_inputs()
        if given is None and self.tuner.inputs is not None:
            given = list(self.tuner.inputs)
        if given is not None:
            return given
        signature = Signature(prepared.kernel)
        if self.profile.supply_prog is None:
            return made_arguments(signature, self.profile.supply_type, self._device)
        made = {tensor.index for tensor in signature.made}
        supplied = self.profile.supply_prog([p for index, p in enumerate(params_of(prepared.kernel)) if index not in made])
        return list(supplied) if isinstance(supplied, (list, tuple)) else [supplied]

    def _check(self, found: Measured) -> None:
        """Raise TrialError where the results are not those of the reference."""
        like = next((value for value in self._inputs if _has_memory(value)), None)
        expected = self._reference()
        if not found.results or len(found.results) != len(expected):
            raise TrialError("wrong", f"the kernel returns {len(found.results)} tensors, the reference {len(expected)}")
        try:
            if self.profile.manual_check_prog is not None:
                self.profile.manual_check_prog([as_framework_of(result, like) for result in found.results], expected)
                return
            for result, wanted in zip(found.results, expected):
                if wanted is not None:
                    assert_close(
                        result,
                        wanted,
                        rtol=self.profile.rtol,
                        atol=self.profile.atol,
                        max_mismatched_ratio=self.profile.max_mismatched_ratio,
                        actual_name="result",
                        expected_name="reference",
                    )
        except (AssertionError, ValueError, TypeError) as error:
            raise TrialError("wrong", _first_line(error)) from error

    def _reference(self) -> list[Any]:
        """What the reference program returns, computed once for the same arguments."""
        assert self.profile.ref_prog is not None, "checked only against a reference"
        if 0 not in self._expected:
            returned = self.profile.ref_prog(*self._inputs)
            self._expected[0] = list(returned) if isinstance(returned, (list, tuple)) else [returned]
        return self._expected[0]

    def _reference_latency(self) -> float | None:
        if self.profile.ref_prog is None:
            return None
        run = partial(self.profile.ref_prog, *self._inputs)
        found = measure_for(self._target, run, warmup=self.profile.warmup, rep=self.profile.rep, timer=self.profile.backend)
        return found.median

    # ---- the end

    def _result(self, candidates: list[_Candidate]) -> AutotuneResult:
        trials = tuple(candidate.trial for candidate in candidates if candidate.trial is not None)
        usable = [c for c in candidates if c.trial is not None and c.trial.latency is not None and not c.trial.is_estimate]
        if not usable:
            raise self._none_works(candidates)
        winner = min(usable, key=lambda c: c.trial.latency or 0.0 if c.trial is not None else 0.0)
        assert winner.prepared is not None, "a usable trial was traced"
        assert winner.trial is not None, "a usable trial has ended"
        assert winner.trial.latency is not None, "a usable trial has a time"
        kernel = winner.prepared.compiled()
        config, latency = dict(winner.config), winner.trial.latency
        ref_latency = self._reference_latency()
        kernel.update_tuner_result(latency, config, ref_latency)
        result = AutotuneResult(
            kernel=kernel, config=config, latency=latency, ref_latency=ref_latency, trials=trials, notes=self.tuner.notes
        )
        if self.tuner.compile_args.verbose:
            result.show()
        return result

    def _none_works(self, candidates: list[_Candidate]) -> Exception:
        trials = [candidate.trial for candidate in candidates if candidate.trial is not None]
        reasons = list(dict.fromkeys(f"{trial.outcome}: {trial.reason}" for trial in trials))
        more = f"; and {len(reasons) - _SHOWN} other reasons" if len(reasons) > _SHOWN else ""
        error = catalogue.E634.error(count=len(trials), function=self.tuner.name, hint="; ".join(reasons[:_SHOWN]) + more)
        if all(candidate.prepared is None for candidate in candidates) and isinstance(self._refusal, (CompileError, InternalError)):
            error.__cause__ = self._refusal
        return error


def _shared(trial: Trial, config: Config) -> Trial:
    """The trial of a configuration that comes to the program of another one, which is named."""
    words = ", ".join(f"{key}={value!r}" for key, value in trial.config.items() if key not in config or config[key] != value)
    reason = trial.reason or (f"the same program as {words}" if words else "")
    return replace(trial, config=config, reason=reason)


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def _has_memory(value: Any) -> bool:
    try:
        return view_of(value) is not None
    except UnusableArray:
        return False


def _description(value: Any) -> str:
    """What times depend on in an argument: a number's value, a tensor's shape, strides and type."""
    if not _has_memory(value):
        return repr(value)
    view = view_of(value)
    assert view is not None, "has memory"
    return f"{view} {view.strides} {view.device_text}"
