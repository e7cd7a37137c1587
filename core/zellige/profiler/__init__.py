"""Measuring kernels and checking them against a reference program.

In: a callable or a compiled kernel. Out: times in milliseconds (:func:`do_bench`, :func:`measure`), or an AssertionError that says
how a kernel's results differ (:class:`Profiler`). ``event`` and ``wall`` are the timers of every machine; a backend's own timers
have the names its manifest gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from zellige.diagnostics import ZelligeError, catalogue
from zellige.diagnostics.suggest import closest
from zellige.ir.stmt import ScalarParam
from zellige.plugin.registry import registry
from zellige.runtime.arguments import Signature
from zellige.runtime.arrays import HOST
from zellige.runtime.compare import assert_close
from zellige.runtime.supply import TensorSupplyType, supply
from zellige.runtime.timing import (
    CACHE_STATES,
    CacheFlush,
    CacheState,
    Measurement,
    ReturnMode,
    Timer,
    check_callable,
    check_choice,
    check_number,
    check_request,
    host_timer,
    last_level_cache_bytes,
    nothing,
    repeats_for,
)
from zellige.testing import torch_assert_close

if TYPE_CHECKING:
    from zellige.kernel import JITKernel, KernelParam
    from zellige.plugin.registry import BackendHandle
    from zellige.target import Target

__all__ = ["Measurement", "Profiler", "TensorSupplyType", "do_bench", "get_tensor_supply", "measure", "torch_assert_close"]

_ESTIMATES = 5
_EVERYWHERE: Final = ("event", "wall")
"""The timers that every target has."""


def measure(
    fn: Callable[[], object],
    *,
    warmup: float = 25,
    rep: float = 100,
    n_warmup: int = 0,
    n_repeat: int = 0,
    timer: str = "event",
    device: object = None,
    cache: CacheState | None = None,
    cache_size: int | None = None,
    early_stop_baseline: float | None = None,
) -> Measurement:
    """Run ``fn`` for about ``rep`` milliseconds and return the time of each run.

    ``warmup`` and ``rep`` are budgets in milliseconds, ``n_warmup`` and ``n_repeat`` numbers of runs in their place. ``timer`` is
    "event" (the device's clock, on a host its own), "wall" (the host's clock, to the end of the run) or a backend's own; ``device`` says
    which device's timer is meant. ``cache`` "cold" touches ``cache_size`` MiB (twice the device's last-level cache unless given) before
    each run; "warm" does not; unless given, it is cold but for "wall". A run slower than ``early_stop_baseline`` milliseconds is measured
    no further. Raises E630 for a timer that the device does not have, E636 for one that cannot measure this run
    or that several working backends have, where ``device`` does not tell which.
    """
    check_request(warmup=warmup, rep=rep, counts=(n_warmup, n_repeat), quantiles=None, return_mode="mean")
    found = _timer(timer, device)
    return _measured(fn, found, (warmup, rep, n_warmup, n_repeat), timer, cache, cache_size, early_stop_baseline)


def measure_for(
    target: Target,
    fn: Callable[[], object],
    *,
    warmup: float = 25,
    rep: float = 100,
    n_warmup: int = 0,
    n_repeat: int = 0,
    timer: str = "event",
    cache: CacheState | None = None,
    cache_size: int | None = None,
    early_stop_baseline: float | None = None,
) -> Measurement:
    """As :func:`measure`, by a timer of the backend that ``target`` belongs to, whatever others call theirs."""
    check_request(warmup=warmup, rep=rep, counts=(n_warmup, n_repeat), quantiles=None, return_mode="mean")
    found = _timer_of(timer, target)
    return _measured(fn, found, (warmup, rep, n_warmup, n_repeat), timer, cache, cache_size, early_stop_baseline)


def _measured(
    fn: Callable[[], object],
    found: tuple[Timer, BackendHandle | None],
    budgets: tuple[float, float, int, int],
    timer: str,
    cache: CacheState | None,
    cache_size: int | None,
    early_stop_baseline: float | None,
) -> Measurement:
    check_callable("fn", fn)
    if early_stop_baseline is not None:
        check_number("early_stop_baseline", early_stop_baseline)
    if cache_size is not None and (not isinstance(cache_size, int) or isinstance(cache_size, bool) or cache_size < 0):
        raise catalogue.E637.error(what="cache_size", given=repr(cache_size), expected="a number of MiB", suggestion="")
    clock, owner = found
    check_choice("cache", cache or "cold", CACHE_STATES)
    state: CacheState = cache or ("warm" if timer == "wall" else "cold")
    if state == "warm":
        return _timed(fn, clock, timer, state, nothing, 0, budgets, early_stop_baseline)
    size = 0 if cache_size is None else cache_size << 20
    own = None if owner is None else owner.cache_flush(size)
    with own or CacheFlush(size or 2 * last_level_cache_bytes()) as flush:
        return _timed(fn, clock, timer, state, flush, flush.size_bytes, budgets, early_stop_baseline)


def _timed(
    fn: Callable[[], object],
    clock: Timer,
    timer: str,
    cache: CacheState,
    before: Callable[[], object],
    flushed_bytes: int,
    budgets: tuple[float, float, int, int],
    early_stop_baseline: float | None,
) -> Measurement:
    warmup, rep, n_warmup, n_repeat = budgets
    clock(fn, 1, before)  # the first run of anything takes longer, of timers too
    start = perf_counter()
    estimates = clock(fn, 1, before)
    if estimates[0] * _ESTIMATES <= rep:
        estimates += clock(fn, _ESTIMATES - 1, before)
    one_round = (perf_counter() - start) * 1e3 / len(estimates)  # the run and what comes before it
    one_run = sum(estimates) / len(estimates)
    if early_stop_baseline is not None and one_run > early_stop_baseline:
        return Measurement(times=tuple(estimates), timer=timer, cache=cache, flushed_bytes=flushed_bytes, is_estimate=True)
    for _ in range(n_warmup or repeats_for(warmup, one_run)):
        fn()
    times = clock(fn, n_repeat or repeats_for(rep, one_round), before)
    return Measurement(times=tuple(times), timer=timer, cache=cache, flushed_bytes=flushed_bytes)


def _timer(name: str, device: object) -> tuple[Timer, BackendHandle | None]:
    """The timer of that name for the device, or E630; and the backend whose device it is (None: the host). E636 where several backends
    could be meant."""
    wanted = None if device is None or isinstance(device, int) else str(device).partition(":")[0]
    if name in _EVERYWHERE and (wanted == HOST or (name == "wall" and wanted is None)):
        return host_timer, None
    owners = [handle for handle in registry().backends if name in handle.manifest.timers and handle.works]
    if wanted is not None:
        owners = [handle for handle in owners if wanted in handle.manifest.framework_devices]
    elif name in _EVERYWHERE:  # by the rule of the target auto: an accelerator comes before the host, and nothing else is meant
        owners = [handle for handle in owners if handle.manifest.kind == "accelerator"]
    if len(owners) > 1:
        both = ", ".join(handle.manifest.targets[0] for handle in owners)
        reason = f"each of {both} has one of that name and works here; give device=, or time a compiled kernel with its get_profiler()"
        raise catalogue.E636.error(name=name, reason=reason)
    if owners:
        return owners[0].timers()[name], owners[0]
    if name in _EVERYWHERE:
        return host_timer, None
    raise _unknown(name, wanted or "auto")


def _timer_of(name: str, target: Target) -> tuple[Timer, BackendHandle | None]:
    """The timer of that name of the backend that has ``target``, or E630; and the backend, where runs are on a device of its own."""
    handle = registry().backend(target)
    if not target.is_simulated and handle.works:
        if name in handle.manifest.timers:
            return handle.timers()[name], handle
        if name in _EVERYWHERE:
            return host_timer, handle
    if name in _EVERYWHERE:
        return host_timer, None
    raise _unknown(name, str(target))


def _unknown(name: str, target: str) -> ZelligeError:
    owners = registry().timer_targets(name)
    known = f"timers of every target: {', '.join(_EVERYWHERE)}" + (f"; {name} belongs to {', '.join(owners)}" if owners else "")
    every = (*_EVERYWHERE, *(timer for handle in registry().backends for timer in handle.manifest.timers))
    return catalogue.E630.error(name=name, target=target, known=known, suggestion="" if owners else closest(name, every))


def do_bench(
    fn: Callable[[], object],
    warmup: float = 25,
    rep: float = 100,
    _n_warmup: int = 0,
    _n_repeat: int = 0,
    quantiles: list[float] | None = None,
    fast_flush: bool = True,
    backend: str = "event",
    return_mode: ReturnMode = "mean",
    device: object = None,
    cache_size: int | None = None,
    early_stop_baseline: float | None = None,
    *,
    cache: CacheState | None = None,
) -> float | list[float]:
    """The time of one run of ``fn`` in milliseconds: by ``return_mode``, or at ``quantiles`` (one: a number, several: a list).

    ``backend`` names the timer. ``fast_flush`` has no effect: the flush always goes through the caches at full width. :func:`measure`
    explains the other arguments and gives all the times. E637: an argument that is none.
    """
    check_request(warmup=warmup, rep=rep, counts=(_n_warmup, _n_repeat), quantiles=quantiles, return_mode=return_mode)
    measured = measure(
        fn,
        warmup=warmup,
        rep=rep,
        n_warmup=_n_warmup,
        n_repeat=_n_repeat,
        timer=backend,
        device=device,
        cache=cache,
        cache_size=cache_size,
        early_stop_baseline=early_stop_baseline,
    )
    return _reduced(measured, quantiles, return_mode)


def _reduced(measured: Measurement, quantiles: list[float] | None, return_mode: ReturnMode) -> float | list[float]:
    if quantiles is None:
        return measured.reduced(return_mode)
    found = [measured.quantile(position) for position in quantiles]
    return found[0] if len(found) == 1 else found


def get_tensor_supply(supply_type: TensorSupplyType = TensorSupplyType.Integer) -> Callable[[KernelParam], Any]:
    """A function from a parameter of a kernel, its sizes known, to a fresh tensor for it on the host. It raises E631 for
    a size that is not known."""

    def make(param: KernelParam) -> Any:
        unknown = [str(extent) for extent in param.shape if not isinstance(extent, int)]
        if unknown:
            raise catalogue.E631.error(size=unknown[0], name=f"argument {param.name}", given="none")
        return supply(param.dtype, tuple(int(extent) for extent in param.shape), supply_type)

    return make


def made_arguments(
    signature: Signature, kind: TensorSupplyType, device: str, sizes: Mapping[str, int] | None = None, *, with_output: bool = False
) -> list[Any]:
    """Fresh arguments for one call of a kernel; see :meth:`Profiler.inputs`."""
    given = dict(sizes or {})
    kernel = signature.kernel
    made: list[Any] = []
    outputs = {tensor.index for tensor in signature.made}
    for index, param in enumerate(kernel.params):
        if index in outputs and not (with_output and index in kernel.results):
            continue
        if isinstance(param, ScalarParam):
            made.append(_scalar(kernel.name, param, given))
        else:
            made.append(supply(param.buffer.dtype, signature.shape_of(index, given), kind, device))
    return made


def _scalar(kernel: str, param: ScalarParam, given: Mapping[str, int]) -> int:
    if param.var.name in given:
        return given[param.var.name]
    if param.var.kind == "size":
        names = ", ".join(f"{name}={value}" for name, value in given.items()) or "none"
        raise catalogue.E631.error(size=param.var.name, name=f"kernel {kernel}", given=names)
    return 1


class Profiler:
    """Calls a compiled kernel with made-up or given tensors, to time it and to compare it with a reference program."""

    def __init__(self, kernel: JITKernel, supply_type: TensorSupplyType = TensorSupplyType.Auto) -> None:
        if not isinstance(supply_type, TensorSupplyType):
            names = tuple(TensorSupplyType.__members__)
            raise catalogue.E637.error(
                what="the kind of tensors",
                given=repr(supply_type),
                expected=f"a TensorSupplyType ({', '.join(names)})",
                suggestion=closest(supply_type, names, "TensorSupplyType.{}"),
            )
        self.kernel = kernel
        self.supply_type = supply_type

    @property
    def params(self) -> list[KernelParam]:
        return self.kernel.params

    @property
    def result_idx(self) -> list[int]:
        return self.kernel.out_idx

    @property
    def func(self) -> JITKernel:
        """What is profiled."""
        return self.kernel

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.kernel(*args, **keywords)

    def inputs(self, sizes: Mapping[str, int] | None = None, *, with_output: bool = False) -> list[Any]:
        """Fresh arguments for one call, filled by the supply type; with ``with_output`` a tensor for each output too.

        ``sizes`` gives the values of symbolic sizes and scalar parameters by name; a scalar that is not among them is 1.
        Raises E631 for a size without a value.
        """
        return made_arguments(self.kernel.signature, self.supply_type, self.kernel.device, sizes, with_output=with_output)

    def _get_inputs(self, with_output: bool = False, dynamic_symbolic_constraints: Mapping[str, int] | None = None) -> list[Any]:
        """The name under which published programs reach :meth:`inputs`."""
        return self.inputs(dynamic_symbolic_constraints, with_output=with_output)

    def run_once(self, func: Callable[..., Any] | None = None) -> Any:
        """Call the kernel, or ``func``, once with fresh arguments."""
        return self._called(func)(*self.inputs())

    def _called(self, func: Callable[..., Any] | None) -> Callable[..., Any]:
        """What is called: the kernel, or ``func``. E637: it is no function."""
        if func is None:
            return self.kernel
        check_callable("func", func)
        return func

    def measure(
        self,
        func: Callable[..., object] | None = None,
        *,
        input_tensors: Sequence[Any] | None = None,
        sizes: Mapping[str, int] | None = None,
        **request: Any,
    ) -> Measurement:
        """All times of the kernel, or of ``func``, with the given or fresh arguments. ``request`` goes to :func:`measure`; by itself the
        timer is one of the kernel's target."""
        arguments = list(input_tensors) if input_tensors is not None else self.inputs(sizes)
        run = partial(self._called(func), *arguments)
        if request.get("device") is not None:
            return measure(run, **request)
        request.pop("device", None)
        return measure_for(self.kernel.target, run, **request)

    def do_bench(
        self,
        func: Callable[..., object] | None = None,
        warmup: float = 25,
        rep: float = 100,
        n_warmup: int = 0,
        n_repeat: int = 0,
        input_tensors: Sequence[Any] | None = None,
        backend: str = "event",
        quantiles: list[float] | None = None,
        return_mode: ReturnMode = "mean",
        dynamic_symbolic_constraints: Mapping[str, int] | None = None,
        device: object = None,
        early_stop_baseline: float | None = None,
        *,
        cache: CacheState | None = None,
    ) -> float | list[float]:
        """The time of one call in milliseconds, as :func:`do_bench` gives it; given tensors go before sizes."""
        check_request(warmup=warmup, rep=rep, counts=(n_warmup, n_repeat), quantiles=quantiles, return_mode=return_mode)
        measured = self.measure(
            func,
            input_tensors=input_tensors,
            sizes=dynamic_symbolic_constraints,
            warmup=warmup,
            rep=rep,
            n_warmup=n_warmup,
            n_repeat=n_repeat,
            timer=backend,
            device=device,
            early_stop_baseline=early_stop_baseline,
            cache=cache,
        )
        return _reduced(measured, quantiles, return_mode)

    def assert_allclose(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        atol: float = 1e-2,
        rtol: float = 1e-2,
        max_mismatched_ratio: float = 0.01,
    ) -> None:
        """Raise AssertionError where the kernel's results differ from the reference's in more than that share of the elements.

        A reference result of None is not compared.
        """
        found, expected = self._both(reference_program, input_tensors)
        for position, (actual, wanted) in enumerate(zip(found, expected)):
            if wanted is not None:
                name = "result" if len(found) == 1 else f"result {position}"
                assert_close(
                    actual,
                    wanted,
                    rtol=rtol,
                    atol=atol,
                    max_mismatched_ratio=max_mismatched_ratio,
                    actual_name=name,
                    expected_name="reference",
                )

    def manual_assert_close(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        manual_check_prog: Callable[[list[Any], list[Any]], object] | None = None,
    ) -> None:
        """Hand the results of kernel and reference to ``manual_check_prog``, which raises when it is not content."""
        if manual_check_prog is None:
            raise ValueError("manual_check_prog is missing: it compares the two lists of results")
        manual_check_prog(*self._both(reference_program, input_tensors))

    def assert_consistent(self, repeat: int = 10) -> None:
        """Raise AssertionError where another call with the same arguments gives other results."""
        arguments = self.inputs()
        first = _listed(self.kernel(*arguments))
        for _ in range(repeat):
            for again, once in zip(_listed(self.kernel(*arguments)), first):
                assert_close(again, once, rtol=1e-5, atol=1e-8, max_mismatched_ratio=0, actual_name="again", expected_name="first")

    def _both(self, reference_program: Callable[..., Any], input_tensors: Sequence[Any] | None) -> tuple[list[Any], list[Any]]:
        check_callable("reference_program", reference_program)
        arguments = list(input_tensors) if input_tensors is not None else self.inputs()
        expected = _listed(reference_program(*arguments))
        found = _listed(self.kernel(*arguments))
        if len(found) != len(expected) or not found:
            raise AssertionError(f"the kernel returns {len(found)} tensors, the reference {len(expected)}")
        return found, expected


def _listed(results: Any) -> list[Any]:
    if results is None:
        return []
    return list(results) if isinstance(results, (list, tuple)) else [results]
