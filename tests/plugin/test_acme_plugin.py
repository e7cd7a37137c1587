"""A backend of another package that does everything that the contract has, and a user who does the same without one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige import driver
from zellige.cache import memo
from zellige.diagnostics import CompileError, Unsupported, ZelligeError
from zellige.dtypes import dtype
from zellige.explain import explain
from zellige.ir import syntax
from zellige.ir.expr import Buffer, Const, const
from zellige.ir.stmt import Copy, Fill, For, Gemm, Kernel, Pipelined, TensorParam
from zellige.ir.traverse import rewrite, walk
from zellige.options import CompileOptions
from zellige.plugin.contract import Compatibility, Device
from zellige.plugin.registry import Registry, registry
from zellige.target import Target

Install = Callable[[dict[str, str]], Registry]


@pytest.fixture
def acme(install: Install, site: Path) -> Any:
    """The backend's object, installed as a package of its own."""
    found = install({"acme": "from acme_machine import backend\n"})
    assert [entry.origin.name for entry in found.quarantined] == []
    sys.modules["acme_machine"].backend.log.clear()
    return sys.modules["acme_machine"].backend


def moving(space: str = "acme.l1") -> Any:
    @T.prim_func
    def main(A: T.Tensor((8, 16), "float32"), B: T.Tensor((8, 16), "float32")):
        with T.Kernel(2) as bx:
            tile = T.alloc_buffer((4, 16), "float32", space=space)
            T.acme_dma(A[bx * 4 : bx * 4 + 4, 0:16], tile)
            T.copy(tile, B[bx * 4, 0])

    return main


def product(operand: str, accumulator: str = "float32", k: int = 64) -> Any:
    @T.prim_func
    def main(A: T.Tensor((16, k), operand), B: T.Tensor((k, 16), operand), C: T.Tensor((16, 16), accumulator)):
        with T.Kernel(1) as _:
            a, b = T.alloc_shared((16, 16), operand), T.alloc_shared((16, 16), operand)
            c = T.alloc_fragment((16, 16), accumulator)
            T.clear(c)
            for ko in T.Pipelined(k // 16, num_stages=2):
                T.copy(A[0, ko * 16], a)
                T.copy(B[ko * 16, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    return main


def test_its_own_operation_and_memory_space_run_on_it(acme: Any) -> None:
    a, b = np.arange(128, dtype=np.float32).reshape(8, 16), np.zeros((8, 16), np.float32)
    zl.compile(moving(), target="acme")(a, b)
    assert (a == b).all()


@pytest.mark.usefixtures("acme")
def test_what_is_wrong_about_its_operation_is_said_by_the_name_that_kernels_have_for_it() -> None:
    """Its functions call it acme.dma, kernels T.acme_dma."""

    def main(A: T.Tensor((8, 16), "float32")):
        with T.Kernel(1) as _:
            T.acme_dma(A, 3)

    for ask, code in ((lambda: T.prim_func(main).kernel, "E222"), (lambda: T.acme_dma(1, 2), "E101")):
        with pytest.raises(ZelligeError, match=r"T\.acme_dma (needs a tile|was called while)") as caught:
            ask()
        assert caught.value.code == code


def test_other_targets_refuse_its_operation_and_its_memory_space(acme: Any) -> None:
    for target, code in (("cpu", "E410"), ("interp", "E445")):
        arrays = np.zeros((8, 16), np.float32), np.zeros((8, 16), np.float32)
        with pytest.raises(ZelligeError, match="acme.dma") as caught:
            zl.compile(moving("shared"), target=target)(*arrays)
        assert caught.value.code == code
    with pytest.raises(Unsupported, match=r"the target cpu has no memory space 'acme\.l1', which tile is allocated in") as refused:
        zl.compile(moving(), target="cpu")
    assert refused.value.code == "E413"
    assert "global, shared, fragment" in refused.value.hint


def test_the_interpreter_has_every_memory_space(acme: Any) -> None:
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1) as _:
            tile = T.alloc_buffer((8,), "float32", space="acme.l1")
            T.copy(A, tile)
            T.copy(tile, B)

    a, b = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    zl.compile(main, target="interp")(a, b)
    assert (a == b).all()


# ---- choice of instructions


def test_the_best_candidate_is_taken_and_the_others_are_told_with_reasons(acme: Any) -> None:
    (decision,) = [d for d in explain(product("float16"), "acme").decisions if d.question.startswith("what executes the product")]
    assert decision.because.startswith("takes float16")
    assert dict(decision.rejected) == {"old cube": "is broken in this revision", "half cube": "fits, with a priority of 0 below 1"}
    (filled,) = explain(product("float16"), "acme").about("memset")
    assert filled.question == "what executes the fill 16x16 of float32?"


def test_an_emulation_is_used_labelled_and_told_how_to_avoid(acme: Any) -> None:
    found = explain(product("float32"), "acme")
    text = str(found)
    assert "(emulated)" in text
    assert "no unit takes float32; avoided by operands of float16" in text
    (launch,) = found.planned.launches
    assert [c.is_native for c in launch.choices if isinstance(c.operation, Gemm)] == [False]
    rng = np.random.default_rng(0)
    a, b, c = rng.random((16, 64), np.float32), rng.random((64, 16), np.float32), np.zeros((16, 16), np.float32)
    zl.compile(product("float32"), target="acme")(a, b, c)
    assert np.allclose(c, a @ b, rtol=1e-5)


def test_nothing_that_fits_is_refused_with_the_table(acme: Any) -> None:
    with pytest.raises(Unsupported) as caught:
        zl.compile(product("int32", "int32"), target="acme")
    assert caught.value.code == "E420"
    assert "    cube  takes float16\n    loop  no arithmetic on int32" in str(caught.value)


def test_the_capabilities_answer_where_the_backend_does_not(acme: Any) -> None:
    """An emulation from capabilities says what avoids it; arithmetic that the target lacks is refused."""
    from zellige.plan.planner import plan

    capabilities = acme.describe(Target(name="acme"))
    (launch,) = plan(product("float32").kernel, capabilities).launches
    (told,) = [d for d in launch.decisions if d.question.startswith("what executes the product")]
    assert told.because.endswith("emulated by the engine vec; avoided by operands of float16 (cube of float16)")
    with pytest.raises(Unsupported, match="has no arithmetic on float64, which the product accumulates in") as caught:
        plan(product("float64", "float64").kernel, capabilities)
    assert caught.value.code == "E420"


# ---- stages


def test_its_passes_run_at_their_stages(acme: Any) -> None:
    compiled = zl.compile(product("float16"), target="acme")
    assert acme.log == ["acme-simplify", "acme-sync", "acme-lower"]
    assert compiled.get_kernel_source().endswith("# signed by acme\n")


def test_a_scheduling_strategy_of_the_backend_is_chosen_by_name(acme: Any) -> None:
    def stages(**options: Any) -> list[int]:
        text = zl.compile(product("float16"), target="acme", **options).get_kernel_source()
        from zellige.ir.parser import parse_kernel

        return [n.kind.stages for n in walk(parse_kernel(text)) if isinstance(n, For) and isinstance(n.kind, Pipelined)]

    assert stages() == [2]
    assert stages(schedule="acme.deep") == [4]
    assert stages(schedule=sys.modules["acme_machine"].Deeper(3)) == [3]
    with pytest.raises(CompileError, match="the target acme has no scheduling strategy 'acme.flat'") as caught:
        stages(schedule="acme.flat")
    assert (caught.value.code, caught.value.hint) == ("E716", "it has acme.deep")


@dataclass(frozen=True)
class FillWith:
    """A user's pass: every fill gets another value."""

    value: float
    name: str = "fill-with"

    def __call__(self, kernel: Kernel) -> Kernel:
        def other(node: Any) -> Any:
            return replace(node, value=Const(value=self.value, dtype=node.value.dtype)) if isinstance(node, Fill) else node

        return replace(kernel, launches=tuple(rewrite(launch, other) for launch in kernel.launches))


def filling() -> Any:
    @T.prim_func
    def main(A: T.Tensor((8,), "float32")):
        with T.Kernel(1) as _:
            tile = T.alloc_shared((8,), "float32")
            T.fill(tile, 1.0)
            T.copy(tile, A)

    return main


@pytest.mark.parametrize("target", ["cpu", "interp"])
def test_a_users_passes_change_the_kernel_and_belong_to_the_cache_key(site: Path, target: str) -> None:
    def result(*passes: Any) -> float:
        a = np.zeros(8, np.float32)
        zl.compile(filling(), target=target, passes=list(passes))(a)
        return float(a[3])

    assert [result(), result(FillWith(2.0)), result(FillWith(3.0)), result()] == [1.0, 2.0, 3.0, 1.0]
    assert result(("layout", FillWith(5.0))) == 5.0
    value = 7.0
    assert result(lambda kernel: FillWith(value)(kernel)) == 7.0
    value = 8.0
    assert result(lambda kernel: FillWith(value)(kernel)) == 8.0


def drops_params(kernel: Kernel) -> Kernel:
    return replace(kernel, params=())


def adds_a_workspace(kernel: Kernel) -> Kernel:
    """Legal tile IR, and nobody would give its launches the tensor."""
    workspace = Buffer(name="more", dtype=dtype("float32"), shape=(const(4),))
    return replace(kernel, params=(*kernel.params, TensorParam(buffer=workspace, role="workspace")))


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ({"passes": [drops_params]}, "E713", r"drops_params of jit\(passes=..., schedule=...\) made tile IR that is not well formed"),
        ({"passes": [adds_a_workspace]}, "E713", "its parameters are others than those that calls were laid out for"),
        ({"passes": [lambda kernel: None]}, "E713", "made a NoneType that is not well formed"),
        ({"passes": [lambda kernel: kernel.nonsense]}, "E718", "failed: AttributeError"),
        ({"passes": [("sync", lambda planned: planned.kernel)]}, "E713", "expected a PlannedKernel"),
        ({"passes": [("sync", lambda planned: replace(planned, launches=()))]}, "E713", "made a plan that is not well formed"),
        ({"passes": [("post", lambda emitted: emitted.text)]}, "E713", "expected an Emitted"),
        ({"passes": [FillWith(1.0), FillWith(2.0)]}, "E712", "cannot insert the pass 'fill-with' at the stage 'legalise'"),
        ({"passes": [("tidying", FillWith(1.0))]}, "E159", "'tidying' is no stage; stages are legalise, layout"),
        ({"passes": ["simplify"]}, "E159", "is no pass: expected a function of a kernel"),
        ({"passes": FillWith(1.0)}, "E159", "expected a list of passes"),
        ({"schedule": 4}, "E159", "expected the name of a strategy or a function"),
        ({"schedule": "deep"}, "E716", "the target cpu has no scheduling strategy 'deep'"),
    ],
)
def test_what_a_user_gets_wrong_is_said_of_the_pass(site: Path, options: dict[str, Any], code: str, words: str) -> None:
    with pytest.raises(ZelligeError, match=words) as caught:
        zl.compile(filling(), target="cpu", **options)
    assert caught.value.code == code


def test_a_pass_over_text_needs_a_backend_that_shows_it(site: Path) -> None:
    with pytest.raises(CompileError, match="compiles in one step and shows no text between") as caught:
        zl.compile(filling(), target="interp", passes=[("post", FillWith(1.0))])
    assert caught.value.code == "E712"


# ---- versions, caches, devices, errors


def test_a_reader_of_the_previous_minor_still_works(acme: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zellige.ir.printer.VERSION", (1, 1))
    monkeypatch.setitem(syntax.ADDED, (Copy, "is_async"), (1, 1))
    assert driver.dump(filling().kernel, "cpu", "tile-ir").startswith("# tile-ir 1.1\n")
    source = zl.compile(filling(), target="acme").get_kernel_source()
    assert source.startswith("# tile-ir 1.0\n")

    def newer(kernel: Kernel) -> Kernel:
        def marked(node: Any) -> Any:
            return replace(node, is_async=True) if isinstance(node, Copy) else node

        return replace(kernel, launches=tuple(rewrite(launch, marked) for launch in kernel.launches))

    with pytest.raises(CompileError, match=r"main uses is_async of copy, which version 1\.0 of the tile IR does not have") as caught:
        zl.compile(filling(), target="acme", passes=[newer])
    assert caught.value.code == "E715"


def test_what_it_adds_to_the_key_makes_code_anew(acme: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for driver_version, is_new in (("7", True), ("7", False), ("8", True)):
        memo.clear()
        acme.driver = driver_version
        before = len(acme.log)
        handle = registry().named("acme")
        ctx = handle.context(Target(name="acme"), CompileOptions())
        assert handle.cache_key(ctx) == f"driver {driver_version}"
        zl.compile(filling(), target="acme")
        assert (len(acme.log) > before) is is_new  # its passes run only where something is compiled


def test_machine_code_that_does_not_fit_the_device_is_made_again_or_refused(acme: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry().named("acme").__dict__, "devices", (Device(name="Acme One", index=0, target="acme"),))
    compiled: list[str] = []
    step = type(registry().named("acme")).compile_step
    monkeypatch.setattr(
        type(registry().named("acme")), "compile_step", lambda self, emitted, ctx: compiled.append("x") or step(self, emitted, ctx)
    )
    for verdict, expected in (("ok", 1), ("ok", 1), ("recompile", 2)):
        acme.verdict = Compatibility(verdict=verdict, reason="made for revision 1")
        memo.clear()
        zl.compile(filling(), target="acme")
        assert len(compiled) == expected
    acme.verdict = Compatibility(verdict="unsupported", reason="it has instructions of v2")
    memo.clear()
    with pytest.raises(CompileError, match="machine code made for acme does not run on Acme One: it has instructions of v2") as caught:
        zl.compile(filling(), target="acme")
    assert caught.value.code == "E717"


def test_a_launch_that_fails_is_explained(acme: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = sys.modules["acme_machine"]

    def fails(self: Any, pointers: Any, scalars: Any, sizes: Any) -> None:
        raise machine.AcmeError(0x17)

    monkeypatch.setattr(machine.AcmeKernel, "launch", fails)
    kernel = zl.compile(filling(), target="acme")
    with pytest.raises(CompileError, match="acme: the card fell off the bus") as caught:
        kernel(np.zeros(8, np.float32))
    assert (caught.value.code, caught.value.hint) == ("E710", "push it back in")
    assert isinstance(caught.value.__cause__, machine.AcmeError)


def test_its_claims_are_read(acme: Any) -> None:
    claims = registry().named("acme").conformance()
    assert (claims.profiles, claims.expected_failures[0].test) == (("base",), "atomics/*")
    assert registry().named("cpu").conformance().profiles == ()


def test_a_backend_of_an_earlier_minor_of_the_contract_is_served(acme: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was written when the contract was 1.0 leaves out what came later, arguments of hooks among it."""
    monkeypatch.setattr("zellige.plugin.loading.API", (1, 2))
    registry.cache_clear()
    assert acme.API == (1, 0)
    assert "acme" in registry().target_names()
    assert zl.compile(filling(), target="acme").get_kernel_source().startswith("# tile-ir 1.0\n")
    monkeypatch.setattr("zellige.plugin.loading.API", (2, 0))
    registry.cache_clear()
    with pytest.raises(ZelligeError, match=r"was written for contract 1\.0, this zellige speaks 2\.0") as caught:
        registry().resolve("acme")
    assert caught.value.code == "E702"
    registry.cache_clear()
