"""The compiled kernel that users call: launches, results, targets by the arguments' device, inspections, profiling, the memo."""

from __future__ import annotations

import ctypes
import inspect
import logging
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from zellige import cache, driver
from zellige.diagnostics import CompileError, InternalError, LaunchError, Span, Unsupported, ZelligeWarning, catalogue
from zellige.dtypes import dtype
from zellige.ir.expr import INT32, Binary, Buffer, Compare, Expr, Load, Var, const
from zellige.ir.stmt import Assert, Bind, Kernel, Launch, Map, Param, ScalarParam, Stmt, Store, TensorParam
from zellige.kernel import JITKernel
from zellige.options import CompileOptions, options
from zellige.plan.nodes import PlannedKernel
from zellige.plugin.contract import Capabilities, CompileContext, Device, Emitted, Manifest
from zellige.plugin.hooks import hookimpl
from zellige.plugin.registry import Origin, Registry
from zellige.profiler import Profiler, TensorSupplyType, get_tensor_supply
from zellige.runtime.arrays import first_device
from zellige.target import Target


def doubling(name: str = "main", *, extra: Sequence[Stmt] = (), role: Any = "output", scalar: bool = False) -> Kernel:
    """``B[i] = A[i] + A[i]`` for float32 A and B of M elements; with ``scalar`` also a parameter n."""
    size = Var(name="M", dtype=INT32, kind="size")
    a, b = (Buffer(name=n, dtype=dtype("float32"), shape=(size,)) for n in "AB")
    i = Var(name="i", dtype=INT32, kind="loop")
    load: Expr = Load(buffer=a, indices=(i,))
    body = Map(axes=(i,), extents=(size,), body=(Store(buffer=b, indices=(i,), value=Binary(op="add", left=load, right=load)),))
    params: list[Param] = [TensorParam(buffer=a), TensorParam(buffer=b, role=role)]
    if scalar:
        params.append(ScalarParam(var=Var(name="n", dtype=INT32, kind="scalar")))
    launch = Launch(grid_vars=(Var(name="bx", dtype=INT32, kind="grid"),), grid=(const(1),), body=(*extra, body))
    return Kernel(name=name, params=tuple(params), launches=(launch,), results=(1,) if role == "output" else ())


class Doubler:
    """What the test backends compile :func:`doubling` to, run on the addresses of the call."""

    def __init__(self, kernel: Kernel, target: Target, opts: CompileOptions) -> None:
        self.kernel, self.target, self.options, self.calls = kernel, target, opts, 0

    def launch(self, pointers: Sequence[int], scalars: Sequence[int | float], sizes: Sequence[int]) -> None:
        self.calls += 1
        if scalars and scalars[0] == 13:
            raise KeyError("unlucky")
        if scalars and scalars[0] == 12:
            warnings.warn("a finding", ZelligeWarning, stacklevel=1)
        if scalars and scalars[0] == 14:
            raise catalogue.E613.error(name="n", dtype="int32", least=0, greatest=13, value=14)
        a, b = ((ctypes.c_float * sizes[0]).from_address(pointer) for pointer in pointers) if sizes[0] else ((), ())
        for i in range(sizes[0]):
            b[i] = a[i] + a[i]  # type: ignore[index]

    def source(self) -> str:
        return f"double {self.kernel.name} for {self.target}"

    def assembly(self) -> str:
        raise Unsupported(catalogue.E440.diagnose(target=str(self.target), what="assembly", known="nobody does"))


class Machine:
    """A backend for one target, whose arrays have the device name ``device``."""

    API = (1, 0)

    def __init__(self, name: str, kind: Any, device: str, inspections: tuple[str, ...] = ()) -> None:
        self.name, self.kind, self.device, self.names = name, kind, device, inspections
        self.compiled: list[Doubler] = []
        self.fault: Exception | None = None

    @hookimpl
    def manifest(self) -> Manifest:
        return Manifest(
            name=self.name,
            vendor="nobody",
            version="1",
            kind=self.kind,
            targets=(self.name,),
            framework_devices=(self.device,),
            inspections=self.names,
        )

    @hookimpl
    def probe(self) -> tuple[Device, ...]:
        return (Device(name="d", index=0, target=self.name),)

    @hookimpl
    def describe(self, target: Target) -> Capabilities:
        return Capabilities(target=str(target))

    @hookimpl
    def inspections(self) -> Mapping[str, Callable[..., object]]:
        return {
            "show_blueprint": lambda compiled: compiled.source().upper(),
            "export_blueprint": lambda compiled, path: Path(path).write_text(compiled.source()),
            "n_regs": lambda compiled: 12,
            "n_spills": lambda compiled: 0,
            "export_library": lambda compiled, path: Path(path).write_text("library"),
        }

    @hookimpl
    def compile_kernel(self, planned: PlannedKernel, ctx: CompileContext) -> Doubler:
        if self.fault is not None:
            raise self.fault
        self.compiled.append(Doubler(planned.kernel, ctx.target, ctx.options))
        return self.compiled[-1]


@pytest.fixture(autouse=True)
def machines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, Machine]]:
    """A host "gadget", an accelerator "widget" whose memory only it can reach, and an empty memo."""
    made = {
        "gadget": Machine("gadget", "host", "cpu", ("show_blueprint", "export_blueprint", "n_regs")),
        "widget": Machine("widget", "accelerator", "widget", ("export_library", "n_spills")),
    }
    found = Registry([Origin(name=name, value=name, load=lambda machine=machine: machine) for name, machine in made.items()])  # type: ignore[misc]
    for module in ("zellige.driver", "zellige.kernel", "zellige.profiler"):
        monkeypatch.setattr(f"{module}.registry", lambda: found)
    monkeypatch.setenv("ZELLIGE_CACHE_DIR", str(tmp_path / "cache"))
    options.cache_clear()
    cache.clear_cache()
    yield made
    cache.enable_cache()
    cache.clear_cache()
    options.cache_clear()


class OnWidget:
    """An array of the accelerator that a program on the host happens to be able to read."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array
        data = (array.ctypes.data, False)
        self.__widget_array_interface__ = {"data": data, "shape": array.shape, "typestr": array.dtype.str, "version": 3}

    __widget_array_interface__: Any = None


def f32(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


# ---- calling ---------------------------------------------------------------------------------------------------------------------------


def test_call_returns_results_of_the_arguments_framework() -> None:
    kernel = JITKernel(doubling(), "gadget")
    assert kernel(f32(1, 2.5)).tolist() == [2, 5]
    result = kernel(A=torch.tensor([3.0]))
    assert isinstance(result, torch.Tensor)
    assert result.tolist() == [6]
    assert kernel(f32()).shape == (0,)


def test_call_with_an_output_argument_returns_nothing() -> None:
    kernel = JITKernel(doubling(role="argument"), "gadget")
    out = np.zeros(2, np.float32)
    assert kernel(f32(1, 2), out) is None
    assert out.tolist() == [2, 4]


def test_wrong_arguments_launch_nothing(machines: dict[str, Machine]) -> None:
    kernel = JITKernel(doubling(), "gadget")
    with pytest.raises(LaunchError, match="E607"):
        kernel(np.zeros(3))
    with pytest.raises(LaunchError, match="argument A: expected a tensor on cpu for the target gadget, got one on widget"):
        kernel(OnWidget(f32(1)))
    assert machines["gadget"].compiled[0].calls == 0


def test_failures_while_running() -> None:
    kernel = JITKernel(doubling(scalar=True), "gadget")
    with pytest.raises(LaunchError, match="E613"):
        kernel(f32(1), 14)
    with pytest.raises(CompileError, match="E709: the backend 'gadget' raised in its hook runtime: KeyError: 'unlucky'") as caught:
        kernel(f32(1), 13)
    note = next(note for note in caught.value.diagnostics[0].notes if note.kind == "replay")
    assert note.message.endswith(" --target gadget")


def test_warnings_turned_into_errors_stay_what_they_are() -> None:
    kernel = JITKernel(doubling(scalar=True), "gadget")
    with pytest.warns(ZelligeWarning, match="a finding"):
        assert kernel(f32(1), 12).tolist() == [2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ZelligeWarning, match="a finding"):
            kernel(f32(1), 12)


def test_threads_share_a_kernel() -> None:
    kernel = JITKernel(doubling(), "gadget")
    results: list[Any] = [None] * 8

    def call(index: int) -> None:
        results[index] = [kernel(f32(index, n)).tolist() for n in range(20)]

    threads = [threading.Thread(target=call, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[[2 * index, 2 * n] for n in range(20)] for index in range(8)]


def test_auto_follows_the_device_of_the_arguments(machines: dict[str, Machine]) -> None:
    kernel = JITKernel(doubling(role="argument"), "auto")
    assert str(kernel.target) == "widget"  # without arguments: the accelerator that works
    out = np.zeros(1, np.float32)
    kernel(f32(4), out)
    assert out.tolist() == [8]
    kernel(f32(4), out)
    kernel(OnWidget(f32(5)), OnWidget(out))
    assert out.tolist() == [10]
    assert [[c.calls for c in machines[name].compiled] for name in ("gadget", "widget")] == [[2], [1]]


def test_auto_for_a_device_that_is_known_beforehand(machines: dict[str, Machine]) -> None:
    kernel = JITKernel(doubling(), "auto", device=first_device([3, None, np.zeros(2, complex), f32(1), OnWidget(f32(1))]))
    assert (str(kernel.target), kernel.device) == ("gadget", "cpu")
    assert not machines["widget"].compiled
    assert first_device([OnWidget(f32(1)), f32(1)]) == "widget"
    assert first_device([3, "x"]) is None


def test_auto_with_arguments_of_a_device_that_no_target_has() -> None:
    class Elsewhere:
        __gizmo_array_interface__ = {"data": (4096, False), "shape": (1,), "typestr": "<f4", "version": 3}

    kernel = JITKernel(doubling(), "auto")
    with pytest.raises(LaunchError, match="argument A: expected a tensor on widget for the target widget, got one on gizmo"):
        kernel(Elsewhere())


def test_auto_when_arguments_lie_on_two_devices() -> None:
    kernel = JITKernel(doubling(role="argument"), "auto")
    with pytest.raises(LaunchError, match="argument B: expected a tensor on cpu for the target gadget, got one on widget"):
        kernel(f32(1), OnWidget(f32(1)))


# ---- what it shows ---------------------------------------------------------------------------------------------------------------------


def test_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = JITKernel(doubling(), "gadget")
    assert kernel.get_kernel_source() == kernel.kernel_source == "double main for gadget"
    assert kernel.get_tir() == kernel.ir_text
    assert kernel.ir_text.startswith("# tile-ir ")
    assert repr(kernel) == "<JITKernel main(A) for gadget>"
    kernel.show_source()
    kernel.print_source_code()
    assert capsys.readouterr().out == "double main for gadget\n" * 2
    kernel.export_source(tmp_path / "deep" / "source.txt")
    kernel.export_sources(kernel_path=tmp_path / "again.txt")
    kernel.print_source_code(file=tmp_path / "old.txt")
    assert {path.read_text() for path in tmp_path.rglob("*.txt")} == {"double main for gadget"}
    with pytest.raises(Unsupported, match="assembly"):
        kernel.get_asm()
    with pytest.raises(Unsupported, match="E440.*gadget does not report a host program"):
        kernel.show_source("both")
    with pytest.raises(ValueError, match="E159: which: expected kernel, host or both, not 'nothing'"):
        kernel.show_source("nothing")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="kernel_path"):
        kernel.export_sources()


def test_parameters() -> None:
    kernel = JITKernel(doubling(scalar=True), "gadget")
    assert [(p.name, str(p.dtype), p.shape, p.is_scalar()) for p in kernel.params] == [
        ("A", "float32", ("M",), False),
        ("B", "float32", ("M",), False),
        ("n", "int32", (), True),
    ]
    assert kernel.out_idx == [1]
    first = kernel.params[0]
    assert first.torch_dtype() is torch.float32
    assert not any((first.is_unsigned(), first.is_float8(), first.is_float4(), first.is_boolean()))


def test_methods_of_the_backend(tmp_path: Path) -> None:
    kernel = JITKernel(doubling(), "gadget")
    assert kernel.show_blueprint() == "DOUBLE MAIN FOR GADGET"
    kernel.export_blueprint(tmp_path / "b")
    assert (tmp_path / "b").read_text() == "double main for gadget"
    assert kernel.n_regs == 12
    widget = JITKernel(doubling(), "widget")
    widget.export_library(tmp_path / "library")
    assert (tmp_path / "library").read_text() == "library"


def test_methods_of_another_backend() -> None:
    kernel = JITKernel(doubling(), "widget")
    with pytest.raises(AttributeError, match="show_blueprint belongs to kernels compiled for gadget; this one is compiled for widget"):
        kernel.show_blueprint()
    assert not hasattr(kernel, "show_blueprint")
    with pytest.raises(AttributeError, match="a compiled kernel has no attribute 'colour'"):
        _ = kernel.colour
    with pytest.raises(Unsupported) as caught:
        _ = kernel.n_regs
    assert "error E440: the target widget does not report registers a lane" in str(caught.value)
    assert "gadget does" in str(caught.value)
    with pytest.raises(Unsupported, match="no installed backend does"):
        _ = kernel.resource_usage
    assert "n_regs" not in dict(inspect.getmembers(kernel))


def test_tuning_results() -> None:
    kernel = JITKernel(doubling(), "gadget")
    with pytest.raises(ValueError, match="main was not tuned"):
        kernel.get_tuner_result()
    assert kernel.update_tuner_result(1.5, {"block": 64}, None) is kernel
    assert kernel.get_tuner_result() == {"latency": 1.5, "config": {"block": 64}, "ref_latency": None}


# ---- profiling -------------------------------------------------------------------------------------------------------------------------


def test_profiler_times_the_kernel(machines: dict[str, Machine]) -> None:
    profiler = JITKernel(doubling(), "gadget").get_profiler(TensorSupplyType.Integer)
    latency = profiler.do_bench(backend="wall", n_warmup=2, n_repeat=3, dynamic_symbolic_constraints={"M": 8})
    assert isinstance(latency, float)
    assert latency > 0
    assert machines["gadget"].compiled[0].calls - (1 + 2 + 3) in (1, 5)  # one run tells enough where it is long
    measured = profiler.measure(sizes={"M": 8}, n_repeat=2, cache="warm")
    assert (len(measured.times), measured.timer, measured.cache) == (2, "event", "warm")
    assert profiler.do_bench(lambda a: None, backend="wall", n_repeat=1, input_tensors=[f32(1)], quantiles=[0.5]) >= 0


def test_profiler_needs_sizes() -> None:
    profiler = JITKernel(doubling(), "gadget").get_profiler()
    with pytest.raises(ValueError, match="E631: the size M of argument A has no value; sizes given: wrong=3"):
        profiler.do_bench(dynamic_symbolic_constraints={"wrong": 3})


def test_profiler_inputs() -> None:
    profiler = JITKernel(doubling(scalar=True), "gadget").get_profiler()
    a, n = profiler.inputs({"M": 4})
    assert (tuple(a.shape), n) == ((4,), 1)
    assert profiler.inputs({"M": 4, "n": 9})[1] == 9
    a, b, n = profiler._get_inputs(True, {"M": 4})
    assert tuple(b.shape) == (4,)
    assert (len(profiler.params), profiler.result_idx) == (3, [1])


def test_profiler_compares_with_a_reference() -> None:
    kernel = JITKernel(doubling(), "gadget")
    profiler = Profiler(kernel)
    profiler.assert_allclose(lambda a: a * 2, [torch.ones(100)])
    profiler.assert_allclose(lambda a: [None], [torch.ones(100)])
    with pytest.raises(AssertionError, match="result 2, reference 3"):
        profiler.assert_allclose(lambda a: a * 3, [torch.ones(100)])
    with pytest.raises(AssertionError, match="the kernel returns 1 tensors, the reference 0"):
        profiler.assert_allclose(lambda a: None, [torch.ones(100)])
    spoiled = torch.ones(100)
    profiler.assert_allclose(lambda a: (a * 2).index_fill(0, torch.tensor([3]), 9.0), [spoiled], max_mismatched_ratio=0.01)
    seen: list[Any] = []
    profiler.manual_assert_close(lambda a: a, [torch.ones(2)], lambda found, wanted: seen.extend([found[0].tolist(), wanted[0].tolist()]))
    assert seen == [[2, 2], [1, 1]]
    with pytest.raises(ValueError, match="manual_check_prog is missing"):
        profiler.manual_assert_close(lambda a: a, [torch.ones(2)])


def test_profiler_notices_inconsistency(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = JITKernel(doubling(), "gadget")
    profiler = kernel.get_profiler()
    monkeypatch.setattr(profiler, "inputs", lambda: [torch.ones(3)])
    profiler.assert_consistent(3)
    monkeypatch.setattr(profiler, "kernel", lambda a, count=iter(range(9)): a * next(count))
    with pytest.raises(AssertionError, match="again 1, first 0"):
        profiler.assert_consistent(3)


def test_run_once_and_calling_through_the_profiler() -> None:
    kernel = JITKernel(doubling(), "gadget")
    assert Profiler(kernel)(f32(2)).tolist() == [4]
    assert Profiler(kernel).func is kernel
    with pytest.raises(LaunchError, match="E631"):
        kernel.run_once()


def test_supply_by_parameter() -> None:
    make = get_tensor_supply(TensorSupplyType.One)
    params = JITKernel(doubling(scalar=True), "gadget").params
    assert tuple(make(params[2]).shape) == ()
    with pytest.raises(LaunchError, match="E631: the size M of argument A"):
        make(params[0])


# ---- the memo --------------------------------------------------------------------------------------------------------------------------


def test_same_program_is_compiled_once(machines: dict[str, Machine]) -> None:
    gadget = machines["gadget"]
    JITKernel(doubling(), "gadget")
    JITKernel(doubling(), "gadget", CompileOptions(is_verbose=True))
    assert len(gadget.compiled) == 1
    JITKernel(doubling("other"), "gadget")
    JITKernel(doubling(), "gadget", CompileOptions(fast_math=True))
    JITKernel(doubling(), "gadget:arch2")
    assert len(gadget.compiled) == 4
    cache.clear_cache()
    JITKernel(doubling(), "gadget")
    assert len(gadget.compiled) == 5


def test_memo_can_be_switched(machines: dict[str, Machine], monkeypatch: pytest.MonkeyPatch) -> None:
    gadget = machines["gadget"]
    cache.disable_cache()
    assert not cache.is_cache_enabled()
    JITKernel(doubling(), "gadget")
    JITKernel(doubling(), "gadget")
    assert len(gadget.compiled) == 2
    cache.enable_cache()
    assert cache.is_cache_enabled()
    JITKernel(doubling(), "gadget")
    JITKernel(doubling(), "gadget")
    assert len(gadget.compiled) == 3
    monkeypatch.setenv("ZELLIGE_CACHE", "0")
    options.cache_clear()
    assert not cache.KernelMemo(2).is_enabled


def test_memo_forgets_what_was_not_used_for_longest() -> None:
    memo = cache.KernelMemo(2)
    compiled = {name: Doubler(doubling(), Target(name=name), CompileOptions()) for name in "abc"}
    memo.keep("a", compiled["a"])
    memo.keep("b", compiled["b"])
    assert memo.find("a") is compiled["a"]
    memo.keep("c", compiled["c"])
    assert (memo.find("b"), memo.find("a"), memo.find("c"), len(memo)) == (None, compiled["a"], compiled["c"], 2)


def test_places_of_assertions_tell_kernels_apart(machines: dict[str, Machine]) -> None:
    def with_assertion(line: int) -> Kernel:
        condition = Compare(op="eq", left=const(1), right=const(1))
        return doubling(extra=[Assert(condition=condition, message="m", span=Span("user.py", line))])

    keys = {cache.program_key(with_assertion(line), Target(name="gadget"), CompileOptions()) for line in (3, 3, 4)}
    assert len(keys) == 2


# ---- the driver ------------------------------------------------------------------------------------------------------------------------


def test_kernels_are_checked_before_anything_else(machines: dict[str, Machine]) -> None:
    stray = Var(name="stray", dtype=INT32, kind="value")
    wrong = doubling(extra=[Bind(var=Var(name="x", dtype=INT32, kind="value"), value=stray)])
    with pytest.raises(CompileError, match="stray"):
        driver.compile_kernel(wrong, "gadget")
    assert not machines["gadget"].compiled


def test_stages(machines: dict[str, Machine]) -> None:
    kernel = doubling()
    assert driver.STAGES == ("tile-ir", "legal", "plan", "source", "asm")
    assert driver.dump(kernel, "gadget", "tile-ir").startswith("# tile-ir ")
    assert driver.dump(kernel, "gadget", "legal").startswith("# tile-ir ")
    assert driver.dump(kernel, "gadget", "plan").startswith("# plan of main for gadget\n")
    assert driver.dump(kernel, "gadget", "source") == "double main for gadget"
    with pytest.raises(Unsupported, match="assembly"):
        driver.dump(kernel, "gadget", "asm")
    with pytest.raises(CompileError, match="E743: there is no stage 'soup'"):
        driver.dump(kernel, "gadget", "soup")


def test_source_without_a_device(machines: dict[str, Machine], monkeypatch: pytest.MonkeyPatch) -> None:
    class Offline(Machine):
        @hookimpl
        def emit(self, planned: PlannedKernel) -> Emitted:
            return Emitted(text=f"offline {planned.kernel.name}", format="text")

    machine = Offline("offline", "host", "cpu")
    found = Registry([Origin(name="offline", value="offline", load=lambda: machine)])
    monkeypatch.setattr("zellige.driver.registry", lambda: found)
    assert driver.dump(doubling(), "offline", "source") == "offline main"
    assert not machine.compiled


@pytest.mark.parametrize("fault", [ZeroDivisionError("oops"), RecursionError("deep")])
def test_faults_of_a_backend_keep_their_code_and_can_be_repeated(machines: dict[str, Machine], fault: Exception) -> None:
    machines["gadget"].fault = fault
    with pytest.raises(CompileError, match="E709") as caught:
        JITKernel(doubling(), "gadget")
    text = str(caught.value)
    assert str(fault) in text
    assert "note: replay: zellige compile " in text
    path = Path(text.partition("zellige compile ")[2].partition(" --target gadget")[0])
    assert path.read_text() == driver.dump(doubling(), "gadget", "tile-ir")


def raising(monkeypatch: pytest.MonkeyPatch, error: InternalError) -> None:
    """Core itself fails while it compiles: in code of a module of its own, which this one is not."""
    scope: dict[str, Any] = {"__name__": driver.__name__, "error": error}
    exec("def fall(*given):\n    raise error", scope)  # noqa: S102
    monkeypatch.setattr(driver, "run_on_tiles", scope["fall"])


def test_internal_errors_get_a_replay_command(machines: dict[str, Machine], monkeypatch: pytest.MonkeyPatch) -> None:
    raising(monkeypatch, InternalError("the pass met itself"))
    with pytest.raises(InternalError, match="the pass met itself") as caught:
        JITKernel(doubling(), "gadget")
    assert caught.value.replay.endswith("--target gadget")
    raising(monkeypatch, InternalError("known", replay="do this"))
    with pytest.raises(InternalError) as caught:
        JITKernel(doubling(), "gadget")
    assert caught.value.replay == "do this"


def test_an_internal_error_that_a_backend_raises_is_its_own(machines: dict[str, Machine]) -> None:
    machines["gadget"].fault = InternalError("the emitter met itself")
    with pytest.raises(CompileError, match="E709: the backend 'gadget' raised in its hook compile_kernel: InternalError") as caught:
        JITKernel(doubling(), "gadget")
    assert "note: replay: zellige compile" in str(caught.value)


def test_a_pass_that_breaks_the_program_is_the_compilers_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    class Spoil:
        name = "spoil"

        def __call__(self, kernel: Kernel) -> Kernel:
            return Kernel(name=kernel.name, params=kernel.params[:1], launches=kernel.launches)

    monkeypatch.setattr(driver, "PIPELINE", (Spoil(),))
    with pytest.raises(InternalError, match="pass spoil made a kernel that is not well formed") as caught:
        driver.compile_kernel(doubling(), "gadget")
    assert "--target gadget" in caught.value.replay


def test_replay_goes_to_the_temporary_folder_when_the_cache_cannot_be_written(
    machines: dict[str, Machine], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ZELLIGE_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "elsewhere"))
    options.cache_clear()
    raising(monkeypatch, InternalError("x"))
    with pytest.raises(InternalError) as caught:
        driver.compile_kernel(doubling(), "gadget")
    assert str(tmp_path / "elsewhere") in caught.value.replay


def test_compiling_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "zellige"):
        JITKernel(doubling(), "gadget")
        JITKernel(doubling("other"), "gadget", CompileOptions(is_verbose=True))
    assert [r.getMessage().partition(" in ")[0] for r in caplog.records] == ["compiled other for gadget"]


def test_every_stage_is_written_on_request(tmp_path: Path) -> None:
    JITKernel(doubling(), "gadget", CompileOptions(debug_root=tmp_path))
    written = {path.name: path.read_text() for path in (tmp_path / "main").iterdir()}
    assert sorted(written) == ["1-tile-ir.tile", "2-legal.tile", "3-plan.txt", "4-source.txt", "5-asm.txt"]
    assert written["1-tile-ir.tile"].startswith("# tile-ir ")
    assert written["4-source.txt"] == "double main for gadget"
    assert "E440" in written["5-asm.txt"]
