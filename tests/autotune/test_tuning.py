"""Tuning: which configuration wins, which arguments are tuned, what is refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.autotune import bench
from zellige.autotune.results import table_of
from zellige.autotuner import AutoTuner, get_autotune_inputs, set_autotune_inputs
from zellige.ir.stmt import TensorParam
from zellige.plugin.contract import Capabilities, Space

SIZE = 256
QUICK: dict[str, Any] = {"warmup": 0.1, "rep": 0.5, "isolate": False}


def scaled(block: int = 32, factor: float = 2.0, size: int = SIZE) -> Any:
    @T.prim_func
    def scale(A: T.Tensor((size,), "float32"), B: T.Tensor((size,), "float32")):
        with T.Kernel(T.ceildiv(size, block)) as i:
            for j in T.Parallel(block):
                B[i * block + j] = A[i * block + j] * factor

    return scale


def tuner(configs: Any, **profile: Any) -> AutoTuner:
    made = AutoTuner.from_kernel(scaled, configs).set_compile_args(out_idx=[-1], target="cpu")
    return made.set_profile_args(**{**QUICK, **profile})


def test_the_winner_is_the_fastest_and_its_kernel_works() -> None:
    configs = [{"block": 1}, {"block": 64}, {"block": 256}]
    result = tuner(configs, rep=3).run()
    assert [trial.outcome for trial in result.trials] == ["measured"] * 3
    times = {trial.config["block"]: trial.latency for trial in result.trials}
    assert result.latency == min(times.values()) == times[result.config["block"]]
    assert (result.kernel.latency, result.kernel.config) == (result.latency, result.config)
    a = np.arange(SIZE, dtype=np.float32)
    np.testing.assert_array_equal(result.kernel(a), 2 * a)
    assert result.func.kernel.name == "scale" and "scale" in result.libcode


@pytest.mark.parametrize("isolate", [False, None])
def test_a_simulated_target_is_tuned_with_arrays_of_the_host(isolate: bool | None) -> None:
    configs = [{"block": 32, "size": 64}, {"block": 64, "size": 64}]
    made = AutoTuner.from_kernel(scaled, configs).set_compile_args(out_idx=[-1], target="cuda:sm_80,simulate")
    result = made.set_profile_args(warmup=1, rep=1, isolate=isolate).run()
    assert [trial.outcome for trial in result.trials] == ["measured"] * 2
    a = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(result.kernel(a), 2 * a)


def test_a_configuration_that_computes_something_else_never_wins() -> None:
    configs = [{"factor": 3.0, "block": 256}, {"factor": 2.0, "block": 1}]
    result = tuner(configs, ref_prog=lambda a: a * 2).run()
    assert result.config == configs[1]
    assert [trial.outcome for trial in result.trials] == ["wrong", "measured"]
    assert "elements differ" in result.trials[0].reason
    assert result.ref_latency is not None and result.ref_latency > 0
    unchecked = tuner(configs[:1], ref_prog=lambda a: a * 2, skip_check=True).run()
    assert unchecked.config == configs[0]


def test_a_check_of_ones_own_judges_by_raising() -> None:
    seen: list[tuple[Any, Any]] = []

    def check(found: list[Any], expected: list[Any]) -> None:
        seen.append((found, expected))
        assert np.allclose(found[0], expected[0])

    configs = [{"factor": 3.0}, {"factor": 2.0}]
    result = tuner(configs, ref_prog=lambda a: a * 2, manual_check_prog=check).run()
    assert result.config == {"factor": 2.0} and len(seen) == 2


def test_a_refused_configuration_is_a_result_with_its_reason() -> None:
    result = tuner([{"block": 0}, {"block": 16}]).run()
    assert [trial.outcome for trial in result.trials] == ["refused", "measured"]
    assert result.trials[0].reason
    with pytest.raises(zl.LaunchError, match="E634: none of the 1 configurations of scaled gives a time") as caught:
        tuner([{"block": 0}]).run()
    assert "refused: " in caught.value.hint


def picky(block: int = 32, wrong: str = "") -> Any:
    """A function that refuses some blocks as functions do, or has a mistake."""
    if wrong == "mistake":
        return scaled.nothing  # type: ignore[attr-defined]
    if wrong:
        kinds = {"value": ValueError, "key": KeyError, "assertion": AssertionError, "todo": NotImplementedError, "exit": SystemExit}
        raise kinds[wrong](f"not {block}")
    return scaled(block)


@pytest.mark.parametrize("how", ["value", "key", "assertion", "todo", "exit"])
def test_what_a_function_refuses_is_a_result_and_a_mistake_in_it_is_not(how: str) -> None:
    def of(configs: Any) -> AutoTuner:
        made = AutoTuner.from_kernel(picky, configs).set_compile_args(out_idx=[-1], target="cpu")
        return made.set_profile_args(**QUICK)

    result = of([{"wrong": how}, {"block": 64}]).run()
    assert [trial.outcome for trial in result.trials] == ["refused", "measured"]
    assert "not 32" in result.trials[0].reason
    with pytest.raises(AttributeError, match="nothing"):
        of([{"block": 64}, {"wrong": "mistake"}]).run()


@pytest.mark.parametrize("configs", [[], list])
def test_no_configuration_is_refused(configs: Any) -> None:
    with pytest.raises(ValueError, match="E633: there is no configuration of scaled"):
        tuner(configs).run()


def test_a_key_that_is_no_argument_is_refused() -> None:
    with pytest.raises(ValueError, match="E635: unused keys in the configuration .*scaled has no argument blok"):
        tuner([{"block": 16}, {"blok": 16}]).run()


def test_autotune_below_jit_is_refused() -> None:
    with pytest.raises(zl.CompileError, match="E162: zl.autotune decorates"):

        @zl.autotune(configs=[{"block": 16}])
        def scale(block: int = 16) -> Any:
            return scaled(block)


def test_programs_that_are_alike_are_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    measure = bench.LocalBench.measure
    monkeypatch.setattr(bench.LocalBench, "measure", lambda self, number, *a, **k: counted.append(number) or measure(self, number, *a, **k))
    configs = [{"block": 32}, {"block": 32, "factor": 2.0}, {"block": 64}]
    result = tuner(configs).run()
    assert counted == [0, 2]
    assert result.trials[1].latency == result.trials[0].latency and result.trials[1].config == configs[1]


def test_stages_that_the_target_does_not_tell_apart_are_measured_once_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    measure = bench.LocalBench.measure
    monkeypatch.setattr(bench.LocalBench, "measure", lambda self, number, *a, **k: counted.append(number) or measure(self, number, *a, **k))

    @zl.autotune(configs=[{"block": b, "stages": s} for b in (16, 32) for s in (0, 2, 3)], **QUICK)
    @zl.jit(target="cpu", out_idx=[-1])
    def copied(block: int = 8, stages: int = 1) -> Any:
        @T.prim_func
        def copy(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
            with T.Kernel(64 // block) as bx:
                tile = T.alloc_shared((block, 16), "float32")
                for k in T.Pipelined(4, num_stages=stages):
                    T.copy(A[bx * block, k * 16], tile)
                    T.copy(tile, B[bx * block, k * 16])

        return copy

    result = copied.tune()
    assert counted == [0, 3]
    assert [trial.reason for trial in result.trials] == ["", *["the same program as stages=0"] * 2] * 2
    assert len({trial.latency for trial in result.trials[:3]}) == 1
    from rich.console import Console

    console = Console(width=160)
    with console.capture() as shown:
        console.print(result.table())
    assert shown.get().count("measured: the same program as stages=0") == 4


def test_what_is_not_proposed_for_want_of_an_effect_is_said() -> None:
    a = np.ones((64, 64), np.float32)
    made = gemm._tuner((a, a), {})
    made.configurations()
    assert made.notes == ("num_stages has no effect on cpu: it stays 2", "threads has no effect on cpu: it stays 128")
    with pytest.raises(ValueError, match="E633") as caught:
        gemm._tuner((a, a), {"block_M": 16, "block_N": 16, "block_K": 16, "transposed": False}).configurations()
    assert "num_stages has no effect on cpu" in str(caught.value)


def test_pass_configs_of_one_configuration_go_before_those_of_all() -> None:
    key = zl.PassConfigKey.TL_ENABLE_FAST_MATH
    made = tuner([{"block": 32, "pass_configs": {key: True}}, {"block": 32}])
    made.set_compile_args(out_idx=[-1], target="cpu", pass_configs={key: False})
    assert [made.trace(c, made.options_for(c)).options.fast_math for c in ({"pass_configs": {key: True}}, {})] == [True, False]
    assert len({trial.latency for trial in made.run().trials}) == 2  # different programs, both measured


def test_slow_configurations_stop_early_and_do_not_win() -> None:
    configs = [{"block": 256, "size": 256}, {"block": 1, "size": 256}]
    made = AutoTuner.from_kernel(lambda block=1, size=256: scaled(block, size=size), configs)
    result = made.set_compile_args(out_idx=-1, target="cpu").set_profile_args(**QUICK).run(early_stop=True, early_stop_factor=1e-6)
    assert [trial.is_estimate for trial in result.trials] == [False, True]
    assert result.config == configs[0]


def test_supplied_arguments_reach_the_kernel_and_the_reference() -> None:
    given: list[Any] = []

    def supply(params: list[Any]) -> list[Any]:
        given.append([param.name for param in params])
        return [np.full(SIZE, 7.0, np.float32)]

    seen: list[float] = []

    def reference(a: Any) -> Any:
        seen.append(float(a[0]))
        return a * 2

    configs = [{"block": 16}, {"block": 64}, {"block": 128}]
    tuner(configs, supply_prog=supply, ref_prog=reference, cache_input_tensors=True).run()
    assert given == [["A"]] and set(seen) == {7.0}
    given.clear()
    tuner([{"block": 8}, {"block": 2}], supply_prog=supply).run()
    assert len(given) == 3  # once to know what is measured, then for each configuration


def test_the_innermost_inputs_of_the_thread_count() -> None:
    assert get_autotune_inputs() is None
    with set_autotune_inputs(1, 2), set_autotune_inputs([3]):
        assert get_autotune_inputs() == [3]
        other: list[Any] = []
        thread = threading.Thread(target=lambda: other.append(get_autotune_inputs()))
        thread.start()
        thread.join()
        assert other == [None]
    assert get_autotune_inputs() is None


# ---- the decorator


@zl.autotune(configs=[{"block": 32}, {"block": 64}], **QUICK)
@zl.jit(out_idx=-1, target="cpu")
def tuned(size: int = SIZE, factor: float = 2.0, block: int = 16) -> Any:
    return scaled(block, factor, size)


def test_a_lazy_function_gives_the_best_kernel_and_tunes_once() -> None:
    kernel = tuned(SIZE)
    assert kernel.config in ({"block": 32}, {"block": 64})
    assert tuned(SIZE) is kernel is tuned(size=SIZE)
    assert tuned(128) is not kernel
    assert tuned.tune(SIZE).kernel is kernel


def test_arguments_that_the_caller_gives_are_not_tuned() -> None:
    kernel = tuned(SIZE, block=8)
    assert kernel.latency is None and kernel.config is None
    with pytest.raises(ValueError, match="was not tuned"):
        kernel.get_tuner_result()


def test_configurations_may_depend_on_the_call() -> None:
    asked: list[Any] = []

    def configs(size: int, **named: Any) -> list[dict[str, int]]:
        asked.append((size, named))
        return [{"block": size // 2}]

    function = zl.autotune(configs=configs, **QUICK)(tuned.jit_impl)
    assert function(64, factor=2.0).config == {"block": 32}
    assert asked == [(64, {"factor": 2.0})]


def test_what_is_not_specialised_is_tuned_once_and_compiled_for_each() -> None:
    function = zl.autotune(configs=[{"block": 32}, {"block": 64}], do_not_specialize=["factor"], **QUICK)(tuned.jit_impl)
    first, second = function(SIZE, factor=2.0), function(SIZE, factor=5.0)
    assert first.config == second.config and first.latency == second.latency
    a = np.ones(SIZE, np.float32)
    assert (first(a)[0], second(a)[0]) == (2.0, 5.0)


@zl.autotune(configs=[{"block": 32}, {"block": 64}], **QUICK)
@zl.jit(target="cpu")
def eager(A, block=16):
    (N,) = (T.const("N"),)
    A: T.Tensor((N,), "float32")
    B = T.empty((N,), "float32")
    with T.Kernel(T.ceildiv(N, block)) as i:
        for j in T.Parallel(block):
            B[i * block + j] = A[i * block + j] + 1.0
    return B


def test_an_eager_function_runs_with_the_best_configuration() -> None:
    a = np.arange(SIZE, dtype=np.float32)
    np.testing.assert_array_equal(eager(a), a + 1)
    kernel = eager(a, __return_kernel=True)
    assert kernel.config in ({"block": 32}, {"block": 64})
    assert eager.compile(N=SIZE).out_idx == [1]


@zl.autotune(configs=[{"block": 32}, {"block": 64}], **QUICK)
@zl.jit(target="cpu")
def add_number(block: int = 16) -> Any:
    @T.prim_func
    def add(A: T.Tensor((SIZE,), "float32"), s: T.float32):
        with T.Kernel(T.ceildiv(SIZE, block)) as i:
            for j in T.Parallel(block):
                A[i * block + j] += s

    return add


@pytest.mark.parametrize("isolate", [True, False])
def test_numbers_must_be_given_and_arguments_are_not_changed(isolate: bool) -> None:
    function = zl.autotune(configs=[{"block": 32}], **{**QUICK, "isolate": isolate})(add_number.jit_impl)
    with pytest.raises(ValueError, match="E632: add takes the number s, .*") as caught:
        function()
    assert "set_autotune_inputs" in caught.value.hint
    a = np.zeros(SIZE, np.float32)
    with set_autotune_inputs(a, 0.5):
        kernel = function()
    assert not a.any()
    kernel(a, 0.5)
    assert (a == 0.5).all()


def test_the_parts_of_threads_that_tune_at_once_agree() -> None:
    function = zl.autotune(configs=[{"block": 32}, {"block": 64}], **QUICK)(tuned.jit_impl)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(function(SIZE))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4 and len({id(kernel) for kernel in found}) == 1


# ---- processes


def test_trials_in_processes_of_their_own_check_results_too() -> None:
    configs = [{"factor": 3.0}, {"factor": 2.0, "block": 64}, {"block": 0}]
    result = tuner(configs, isolate=True, ref_prog=lambda a: a * 2).run()
    assert [trial.outcome for trial in result.trials] == ["wrong", "measured", "refused"]


def test_a_trial_that_hangs_or_crashes_is_a_result_and_the_next_one_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = bench.ProcessBench._ask

    def broken(self: Any, request: dict[str, Any], seconds: float, doing: str) -> dict[str, Any]:
        if request["do"] == "measure" and request["number"] < 2:
            self._process.send_signal(signal.SIGKILL if request["number"] else signal.SIGSTOP)
            seconds = 0.3
        return ask(self, request, seconds, doing)

    monkeypatch.setattr(bench.ProcessBench, "_ask", broken)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0})  # one process, which all three need
    result = tuner([{"block": 16}, {"block": 32}, {"block": 64}], isolate=True).run()
    assert [trial.outcome for trial in result.trials] == ["timeout", "crashed", "measured"]
    assert "signal 9" in result.trials[1].reason
    assert result.config == {"block": 64}


def test_a_trial_in_this_process_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    leave = threading.Event()
    compute = bench.compute
    hung: list[bool] = []

    def slow(kernel: Any, inputs: Any) -> Any:
        if not hung:
            hung.append(True)
            leave.wait(20)
        return compute(kernel, inputs)

    monkeypatch.setattr(bench, "compute", slow)
    result = tuner([{"block": 16}, {"block": 32}]).run(timeout=4)
    leave.set()
    assert [trial.outcome for trial in result.trials] == ["timeout", "measured"]


# ---- earlier sessions


def test_trials_are_recalled_and_a_changed_program_is_measured(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configs = [{"block": 16}, {"block": 32}]
    first = tuner(configs).run()
    (session,) = (own_cache / "tuning").iterdir()
    lines = session.read_text().splitlines()
    assert len(lines) == 2
    again = tuner(configs).run()
    assert all(trial.is_recalled for trial in again.trials) and again.latency == first.latency
    session.write_text(f"{lines[0]}\n{{broken\n{lines[1][:20]}\n")
    third = tuner([*configs, {"block": 64}]).run()
    assert [trial.is_recalled for trial in third.trials] == [True, False, False]
    other = tuner(configs, rep=1).run()
    assert not any(trial.is_recalled for trial in other.trials)


def test_an_interrupted_session_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    configs = [{"block": 16}, {"block": 32}, {"block": 64}]
    measure = bench.LocalBench.measure

    def interrupted(self: Any, number: int, *args: Any, **named: Any) -> Any:
        if number == 1:
            raise KeyboardInterrupt
        return measure(self, number, *args, **named)

    with monkeypatch.context() as patch:
        patch.setattr(bench.LocalBench, "measure", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tuner(configs).run()
    assert [trial.is_recalled for trial in tuner(configs).run().trials] == [True, False, False]


@pytest.mark.filterwarnings("ignore:.*E744")
def test_a_cache_that_is_off_or_cannot_be_written_keeps_nothing(own_cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    zl.disable_cache()
    try:
        tuner([{"block": 16}]).run()
    finally:
        zl.enable_cache()
    assert not (own_cache / "tuning").exists()
    own_cache.write_text("a file where the folder should be")
    result = tuner([{"block": 16}, {"block": 32}]).run()
    assert result.latency is not None
    assert [record.getMessage()[:28] for record in caplog.records].count("tuning results are not kept:") == 1


# ---- what is shown


def test_the_table_ranks_the_trials_and_names_what_they_share() -> None:
    configs = [{"block": block, "factor": 2.0} for block in (0, 16, 64)]
    result = tuner(configs, ref_prog=lambda a: a * 2).run()
    table = table_of(result.trials, result.ref_latency)
    assert [column.header for column in table.columns] == ["block", "time, ms", "of best", "outcome"]
    assert "all with factor=2.0" in str(table.title) and "reference" in str(table.caption)
    outcomes = [str(cell) for cell in table.columns[-1].cells]
    assert outcomes[:2] == ["measured", "measured"] and outcomes[2].startswith("refused: ")


def test_progress_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    tuner([{"block": 16}]).run()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    tuner([{"block": 32}]).run()
    assert "measuring" in capsys.readouterr().err


# ---- configurations that are proposed


@zl.autotune(**QUICK)
@zl.jit(target="cpu")
def gemm(A, B, block_M=32, block_N=32, block_K=16, num_stages=2, threads=128, transposed=False, unused=5):
    M, N, K = T.const("M, N, K")
    A: T.Tensor((M, K), "float32")
    B: T.Tensor((K, N), "float32")
    C = T.empty((M, N), "float32")
    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        a = T.alloc_shared((block_M, block_K), "float32")
        b = T.alloc_shared((block_K, block_N), "float32")
        c = T.alloc_fragment((block_M, block_N), "float32")
        T.use_swizzle(4, enable=transposed)
        T.clear(c)
        for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
            T.copy(A[by * block_M, k * block_K], a)
            T.copy(B[k * block_K, bx * block_N], b)
            T.gemm(a, b, c)
        T.copy(c, C[by * block_M, bx * block_N])
    return C


def test_configurations_are_proposed_from_what_the_arguments_change(monkeypatch: pytest.MonkeyPatch) -> None:
    from zellige.autotune import space

    a = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    configs = gemm._tuner((a, a), {}).configurations()
    assert configs is not None and 8 <= len(configs) <= space.LIMIT
    assert configs[0] == {"block_M": 32, "block_N": 32, "block_K": 16, "transposed": False}
    assert all(set(config) == set(configs[0]) for config in configs)  # stages, threads and `unused` change no plan
    assert len({config["block_M"] for config in configs}) > 1 and len({repr(config) for config in configs}) == len(configs)
    monkeypatch.setattr(space, "LIMIT", 3)
    np.testing.assert_allclose(gemm(a, a), a @ a, rtol=1e-3, atol=1e-3)
    assert len(gemm.tune(a, a).trials) == 3


def test_what_does_not_fit_and_what_comes_to_one_plan_is_not_proposed() -> None:
    from zellige.autotune import space
    from zellige.plan.invented_machines import LOCAL_ONLY
    from zellige.plan.planner import plan

    small = replace(LOCAL_ONLY, spaces=(Space(name="global", role="global", alignment=64), Space(name="local", role="local", bytes=13_000)))
    tuner = gemm._tuner((), {"M": 256, "N": 256, "K": 256})
    defaults = {"block_M": 32, "block_N": 32, "block_K": 16, "num_stages": 2}
    choices, idle = space._choices(tuner, tuner.trace({}, tuner.compile_args), defaults, small)
    assert not idle
    assert set(choices) == set(defaults)
    configs = space._best(tuner, choices, defaults, small)
    assert configs[0] == defaults
    for config in configs:
        plan(tuner.trace(config, tuner.compile_args).kernel, small)  # it fits
    # beside 32 x 32 sums there is room for two versions of the operands: three and four stages come to the same plan
    same = [config["num_stages"] for config in configs if {**config, "num_stages": 2} == defaults]
    assert sorted(same) == [1, 2]


def test_the_cost_model_knows_the_caches() -> None:
    from zellige.autotune.cost import estimate

    def time(*caches: int) -> float:
        return estimate(kernel, Capabilities(target="test", vector_bytes=32, cache_bytes=caches)).time

    kernel = gemm.jit_impl.get_tir(block_M=128, block_N=128, M=1024, N=1024, K=1024).kernel
    assert time(1 << 15, 1 << 20) == time() < time(1 << 15)


def test_the_cost_model_knows_the_rates_that_a_target_states() -> None:
    """Small blocks move more: they cost more of the time where memory is slow, and next to nothing where products are."""
    from zellige.autotune.cost import estimate
    from zellige.plugin.contract import Peak

    def ratio(memory: float, products: float) -> float:
        peaks = (Peak(dtype="float32", is_product=False, operations_per_second=1e12), Peak(dtype=dtype, operations_per_second=products))
        caps = Capabilities(target="test", vector_bytes=32, peaks=peaks if products else peaks[:1], bytes_per_second=memory)
        small, large = (
            gemm.jit_impl.get_tir(block_M=block, block_N=block, M=1024, N=1024, K=1024).kernel for block in (32, 128)
        )
        return estimate(small, caps).time / estimate(large, caps).time

    kernel = gemm.jit_impl.get_tir(block_M=32, block_N=32, M=1024, N=1024, K=1024).kernel
    (dtype,) = {param.buffer.dtype.name for param in kernel.params[:2] if isinstance(param, TensorParam)}
    slow_memory, balanced, slow_products = ratio(1e9, 1e13), ratio(1e12, 1e13), ratio(1e12, 1e9)
    assert slow_memory > balanced > slow_products
    assert ratio(0, 1e13) == ratio(0, 0), "without the rate of the memory nothing is compared"


def test_what_changes_the_tensors_of_a_call_or_its_result_is_not_tuned() -> None:
    """The first columns of a matrix, twice: fewer columns, and once only, would be faster, and something else."""

    @zl.autotune(**QUICK)
    @zl.jit(out_idx=-1, target="cpu")
    def columns(count=16, rows=8, is_doubled=True) -> Any:
        n = T.dynamic("n")

        @T.prim_func
        def main(A: T.Tensor((n, 64), "float32"), B: T.Tensor((n, count), "float32")):
            with T.Kernel(T.ceildiv(n, rows)) as bx:
                tile = T.alloc_fragment((rows, count), "float32")
                T.copy(A[bx * rows, 0], tile)
                if is_doubled:
                    for i, j in T.Parallel(rows, count):
                        tile[i, j] = tile[i, j] * 2
                T.copy(tile, B[bx * rows, 0])

        return main

    tuner = columns._tuner((), {})
    configs = tuner.configurations()
    assert configs is not None and len(configs) > 1 and all(set(config) == {"rows"} for config in configs)
    assert tuner.notes == (
        "count changes tensors that the caller gives or gets: it stays 16",
        "is_doubled may change what is computed, and no ref_prog tells: it stays True",
    )
    tuner.set_profile_args(ref_prog=lambda A: A[:, :16] * 2)
    assert {config["is_doubled"] for config in tuner.configurations() or ()} == {True, False}


def test_blocks_of_points_are_tiles_too() -> None:
    def add(block: int = 64) -> Any:
        @T.prim_func
        def main(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
            with T.Kernel(T.ceildiv(256, block)) as bx:
                for i in T.Parallel(block):
                    B[bx * block + i] = A[bx * block + i] + 1

        return main

    configs = zl.autotune(**QUICK)(zl.jit(out_idx=-1, target="cpu")(add))._tuner((), {}).configurations()
    assert {config["block"] for config in configs or ()} == {16, 32, 64, 128, 256}


def test_given_arguments_are_left_out_of_what_is_proposed() -> None:
    a = np.zeros((64, 64), np.float32)
    configs = gemm._tuner((a, a), {"block_M": 16, "block_N": 16, "block_K": 16}).configurations()
    assert configs is not None and set(configs[0]) == {"transposed"}
    every = {"block_M": 16, "block_N": 16, "block_K": 16, "num_stages": 1, "threads": 128, "transposed": True, "unused": 1}
    assert gemm._tuner((a, a), every).configurations() is None


def test_nothing_to_propose_is_refused() -> None:
    def fixed() -> Any:
        return scaled()

    def factored(factor: int = 2) -> Any:
        return scaled(32, factor)

    with pytest.raises(ValueError, match="E633: .*: it has no argument with a default"):
        zl.autotune(zl.jit(fixed))()
    with pytest.raises(ValueError, match="E633: .* depend on factor"):
        zl.autotune(zl.jit(out_idx=-1)(factored))()


def test_the_cost_model_prefers_less_traffic_and_refuses_what_does_not_fit() -> None:
    from zellige.autotune.cost import estimate

    def cost(block: int, stages: int, **limits: int) -> Any:
        spaces = tuple(Space(name=name, bytes=size) for name, size in limits.items())
        kernel = gemm.jit_impl.get_tir(block_M=block, block_N=block, num_stages=stages, M=1024, N=1024, K=1024).kernel
        return estimate(kernel, Capabilities(target="test", threads=1, vector_bytes=32, spaces=spaces))

    assert cost(128, 1).time < cost(32, 1).time < cost(8, 1).time
    assert cost(128, 1, shared=16384).time < float("inf")
    too_big = cost(128, 2, shared=16384)
    assert too_big.time == float("inf") and "needs 32768 bytes of shared, the target has 16384" in too_big.reason


# ---- arguments that travel


def test_arguments_keep_their_types_and_strides_on_the_way(tmp_path: Path) -> None:
    import ml_dtypes
    import torch

    from zellige.autotune import exchange

    wide = np.arange(24, dtype=np.float16).reshape(4, 6)
    cases = [wide, wide[:, ::2], wide[:, :4], np.zeros((0, 3), np.int32), np.array(5.0), np.ones(3, ml_dtypes.bfloat16), np.ones(2, bool)]
    for place, given in enumerate(cases):
        found = exchange.read(exchange.write(given, tmp_path / str(place)))
        assert (found.dtype, found.shape) == (given.dtype, given.shape)
        assert given.size < 2 or found.strides == given.strides
        np.testing.assert_array_equal(found.astype(np.float64), given.astype(np.float64))
    assert [exchange.read(exchange.write(v, tmp_path / "n")) for v in (None, True, 3, 2.5, np.float32(1.5))] == [None, True, 3, 2.5, 1.5]
    half = exchange.read(exchange.write(torch.ones(3, dtype=torch.bfloat16), tmp_path / "t"))
    assert half.dtype == ml_dtypes.bfloat16
    back = exchange.as_framework_of(half, torch.ones(1))
    assert back.dtype == torch.bfloat16 and back.tolist() == [1, 1, 1]
    carried = exchange.write(np.ones(2, np.uint8), tmp_path / "c", "float8_e8m0fnu")
    assert exchange.read(carried).dtype == ml_dtypes.float8_e8m0fnu


# ---- in parallel, after a kill, in the table


def test_trials_are_compiled_in_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two configurations are at the compiler at the same time: each waits there for the other, and would be given up otherwise."""
    both = threading.Barrier(2, timeout=60)
    ask = bench.ProcessBench._ask

    def together(self: Any, request: dict[str, Any], seconds: float, doing: str) -> dict[str, Any]:
        if request["do"] == "compile":
            both.wait()
        return ask(self, request, seconds, doing)

    monkeypatch.setattr(bench.ProcessBench, "_ask", together)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1})
    result = tuner([{"block": 16}, {"block": 32}], isolate=True).run()
    assert [trial.outcome for trial in result.trials] == ["measured", "measured"]


KILLED = """
import os, signal, sys
from zellige.autotune import bench
from test_tuning import tuner

measure = bench.LocalBench.measure

def dies_at_the_second(self, number, *args, **named):
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return measure(self, number, *args, **named)

bench.LocalBench.measure = dies_at_the_second
tuner([{"block": 16}, {"block": 32}, {"block": 64}]).run()
"""


def test_a_killed_session_goes_on(own_cache: Path) -> None:
    """What was measured before the process was killed is not measured again."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run([sys.executable, "-c", KILLED], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    result = tuner([{"block": 16}, {"block": 32}, {"block": 64}]).run()
    assert [trial.is_recalled for trial in result.trials] == [True, False, False]
    assert [trial.outcome for trial in result.trials] == ["measured"] * 3


def test_a_line_cut_short_takes_no_other_with_it(tmp_path: Path) -> None:
    from zellige.autotune.journal import Entry, Journal

    one, two, three = (Entry(outcome="measured", latency=latency) for latency in (1.0, 2.0, 3.0))
    Journal(tmp_path, "key").keep("one", one)
    (file,) = tmp_path.rglob("*.jsonl")
    file.write_bytes(file.read_bytes() + b"[" * 100_000 + b'\n{"program": "two", "outc\xff')
    again = Journal(tmp_path, "key")
    assert again.find("one") == one and again.find("two") is None
    again.keep("two", two)
    again.keep("three", three)
    assert [Journal(tmp_path, "key").find(program) for program in ("one", "two", "three")] == [one, two, three]


def test_the_files_of_a_killed_session_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the process that tries kernels, once it sees that the other one is gone; one that lives may need them still."""
    from multiprocessing import Pipe

    from zellige.autotune import worker

    monkeypatch.setattr(worker, "_LOOKS", 1)
    folder = tmp_path / "trial"
    folder.mkdir()
    for parent, is_kept in ((os.getppid(), True), (os.getppid() + 1, False)):
        ours, theirs = Pipe()
        ours.close()
        worker.main(os.dup(theirs.fileno()), parent, str(folder))
        theirs.close()
        assert folder.is_dir() == is_kept


def refusing(limit: float = 1e9, size: int = SIZE) -> Any:
    @T.prim_func
    def scale(A: T.Tensor((size,), "float32"), B: T.Tensor((size,), "float32")):
        with T.Kernel(1):
            for j in T.Parallel(size):
                T.device_assert(A[j] < limit, "too large")
                B[j] = A[j] * 2

    return scale


@pytest.mark.parametrize("isolate", [False, True])
def test_a_trial_that_raises_is_a_row_of_the_table(isolate: bool) -> None:
    made = AutoTuner.from_kernel(refusing, [{"limit": -1e9}, {"limit": 1e9}]).set_compile_args(out_idx=[-1], target="cpu")
    result = made.set_profile_args(**{**QUICK, "isolate": isolate}).run()
    assert [trial.outcome for trial in result.trials] == ["failed", "measured"]
    row = next(line for line in printed(result).splitlines() if "-1000000000.0" in line)
    assert "failed" in row and "E620" in row and "too large" in row


def test_a_trial_that_hangs_is_a_row_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = bench.ProcessBench._ask

    def stopped(self: Any, request: dict[str, Any], seconds: float, doing: str) -> dict[str, Any]:
        if request["do"] == "measure" and request["number"] == 0:
            self._process.send_signal(signal.SIGSTOP)
            seconds = 0.3
        return ask(self, request, seconds, doing)

    monkeypatch.setattr(bench.ProcessBench, "_ask", stopped)
    result = tuner([{"block": 16}, {"block": 32}], isolate=True).run()
    assert [trial.outcome for trial in result.trials] == ["timeout", "measured"]
    (row,) = [line for line in printed(result).splitlines() if " 16 " in line]
    assert "timeout: running it did not end in time" in row


def printed(result: Any) -> str:
    """The table as it is shown."""
    from rich.console import Console

    console = Console(width=1000, markup=False)
    with console.capture() as taken:
        console.print(result.table())
    return taken.get()
