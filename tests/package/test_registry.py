"""Backends that are broken, wrong or ambiguous never disturb the others, and say what is wrong when their own target is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from zellige.diagnostics import CompileError
from zellige.options import CompileOptions, options
from zellige.plan.nodes import PlannedKernel
from zellige.plugin import handle as handle_module
from zellige.plugin.context import AskingContext
from zellige.plugin.contract import (
    API,
    Binary,
    Capabilities,
    CompileContext,
    ConfigKey,
    Device,
    DialectName,
    Emitted,
    FittedKernel,
    Manifest,
    Unavailable,
)
from zellige.plugin.hooks import hookimpl
from zellige.plugin.registry import Origin, Registry, registry
from zellige.target import Target


class Good:
    """A complete backend whose answers the constructor sets."""

    API: Any = (1, 0)

    def __init__(self, name: str = "good", *, found: Any = None, **manifest: Any) -> None:
        fields: dict[str, Any] = {"name": name, "vendor": "Tests", "version": "1", "kind": "host", "targets": (name,)}
        self._manifest = Manifest(**{**fields, **manifest})
        self._found = (Device(name="one", index=0, target=name),) if found is None else found

    @hookimpl
    def manifest(self) -> Manifest:
        return self._manifest

    @hookimpl
    def probe(self) -> Any:
        return self._found() if callable(self._found) else self._found

    @hookimpl
    def describe(self, target: Target) -> Capabilities:
        return Capabilities(target=str(target), dtypes=("float32",))


class Launchable:
    def __init__(self, text: str) -> None:
        self.text = text

    def launch(self, pointers: Any, scalars: Any, sizes: Any) -> None:
        self.text += " launched"

    def source(self) -> str:
        return self.text

    def assembly(self) -> str:
        return ""


def origin(name: str, load: Callable[[], object]) -> Origin:
    return Origin(name=name, value=f"tests: {name}", load=load)


def made(*backends: Any) -> Registry:
    return Registry([origin(b.manifest().name, lambda b=b: b) for b in backends])


def fails() -> object:
    raise ImportError("no module of that vendor")


def test_a_backend_that_cannot_be_imported_leaves_the_others_usable() -> None:
    both = Registry([origin("bad", fails), origin("good", Good)])
    assert both.backend(both.resolve("good")).manifest.name == "good"
    with pytest.raises(CompileError, match="no module of that vendor") as raised:
        both.resolve("bad")
    assert raised.value.code == "E701"
    report = next(r for r in both.reports() if r.name == "bad")
    assert "ImportError: no module of that vendor" in report.traceback
    assert report.unavailable is not None
    assert report.unavailable.code == "quarantined"


def test_a_backend_that_ends_the_process_while_imported_is_set_aside() -> None:
    both = Registry([origin("bad", lambda: exit(3)), origin("good", Good)])
    assert [handle.manifest.name for handle in both.backends] == ["good"]


@pytest.mark.parametrize("version", [(API[0], minor) for minor in range(API[1] + 1)])
def test_this_and_earlier_minors_of_the_contract_are_served(version: tuple[int, int]) -> None:
    early = Good("early")
    early.API = version
    assert str(Registry([origin("early", lambda: early)]).resolve("early")) == "early"


@pytest.mark.parametrize("version", [(API[0] + 1, 0), (API[0], API[1] + 1), (API[0] - 1, 9)])
def test_another_version_of_the_contract_is_quarantined(version: tuple[int, int]) -> None:
    late = Good("late")
    late.API = version
    with pytest.raises(CompileError, match="was written for contract") as raised:
        Registry([origin("late", lambda: late)]).resolve("late")
    assert raised.value.code == "E702"


class NoApi:
    pass


class Misspelt(Good):
    @hookimpl
    def mannifest(self) -> None:
        return None


class WrongArguments(Good):
    @hookimpl
    def describe(self, target: Target, colour: str) -> Capabilities:
        return Capabilities(target="")


class NoProbe:
    API = (1, 0)

    @hookimpl
    def manifest(self) -> Manifest:
        return Manifest(name="m", vendor="v", version="1", kind="host", targets=("m",))

    @hookimpl
    def describe(self, target: Target) -> Capabilities:
        return Capabilities(target="")


class DictManifest(Good):
    @hookimpl
    def manifest(self) -> Any:
        return {"name": "m"}


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (NoApi, "its entry point names a NoApi without API"),
        (Misspelt, "mannifest"),
        (WrongArguments, "colour"),
        (NoProbe, "lacks the hook probe"),
        (DictManifest, "manifest answered dict"),
        (lambda: Good("m", kind="toaster"), "kind is 'toaster'"),
        (lambda: Good("m", targets=()), "targets is empty"),
        (lambda: Good("m", targets=("a b",)), "'a b' is no target name"),
        (lambda: Good("m", targets=("auto",)), "'auto' is no target name"),
        (lambda: Good("m", aliases=(("x:y", "m"),)), "'x:y' is no target name"),
        (lambda: Good("m", dialect=(DialectName(name="a-b", target="m"),)), "'a-b' is no name of the language"),
        (lambda: Good("m", state="tired"), "state is 'tired'"),
    ],
)
def test_a_broken_contract_says_what_is_wrong(make: Callable[[], object], says: str) -> None:
    broken = Registry([origin("m", make), origin("good", Good)])
    assert broken.resolve("good") == Target(name="good")
    with pytest.raises(CompileError) as raised:
        broken.resolve("m")
    assert raised.value.code == "E703"
    assert says in str(raised.value)


def test_two_backends_with_one_target_are_refused_only_for_that_target() -> None:
    three = made(Good("one", targets=("one", "same")), Good("two", targets=("two", "same")), Good("three", aliases=(("same", "three"),)))
    for text in ("one", "two", "three"):
        assert three.resolve(text) == Target(name=text)
    for text in ("same",):
        with pytest.raises(CompileError) as raised:
            three.resolve(text)
        assert raised.value.code == "E704"


def test_an_unknown_target_lists_the_known_and_the_broken() -> None:
    both = Registry([origin("bad", fails), origin("good", lambda: Good(aliases=(("fine", "good"),)))])
    with pytest.raises(CompileError) as raised:
        both.resolve("other")
    assert raised.value.code == "E705"
    assert "fine, good" in raised.value.hint
    assert "bad" in raised.value.hint


def test_an_alias_keeps_the_options_and_the_architecture_moves_to_its_place() -> None:
    one = made(Good("good", aliases=(("fine", "good:v1,base"),), arch_options=("march",)))
    assert one.resolve("fine,extra") == Target(name="good", arch="v1", options=(("base", None), ("extra", None)))
    assert one.resolve("fine:v2") == Target(name="good", arch="v2", options=(("base", None),))
    assert one.resolve("good -march=v3 -x=1") == Target(name="good", arch="v3", options=(("x", "1"),))


def test_options_that_nobody_reads_are_refused() -> None:
    good = Good("good", aliases=(("fine", "good:v1"),), arch_options=("march",), options=("quick",))
    one = made(good, Good("plain", options=()), Good("flagged", options=("debug", "x")))
    assert one.resolve("fine,quick") == Target(name="good", arch="v1", options=(("quick", None),))
    assert one.resolve("good -march=v3 -quick") == Target(name="good", arch="v3", options=(("quick", None),))
    for text, what, hint in (
        ("good:v1,quik", "the target good has no option 'quik'", "it has: march, quick"),
        ("fine -x=1", "the target good has no option 'x'", "it has: march, quick"),
        ("plain:v1", "the target plain has no architecture 'v1'", "it has none"),
        ("flagged:v1", "the target flagged has no architecture 'v1'", "it reads no architecture, and the options debug, x"),
        ("plain -quick", "the target plain has no option 'quick'", "it has none"),
    ):
        with pytest.raises(CompileError) as raised:
            one.resolve(text)
        assert (raised.value.code, what in str(raised.value), hint in raised.value.hint) == ("E719", True, True), str(raised.value)


def test_an_unavailable_backend_is_listed_and_refused_with_its_reason() -> None:
    one = made(Good("asleep", state=Unavailable(code="not-built", reason="it is not built yet")))
    target = one.resolve("asleep")
    with pytest.raises(CompileError, match="it is not built yet") as raised:
        one.backend(target)
    assert raised.value.code == "E706"


def test_auto_prefers_a_working_accelerator_then_the_host_and_never_a_reference() -> None:
    host = Good("host")
    reference = Good("meaning", kind="reference")
    absent = Good("absent", kind="accelerator", found=Unavailable(code="none", reason="no device"))
    present = Good("present", kind="accelerator")
    assert made(reference, absent, host).resolve("auto") == Target(name="host")
    assert made(reference, absent, host, present).resolve("auto") == Target(name="present")
    with pytest.raises(CompileError) as raised:
        made(host, present, Good("second", kind="accelerator")).resolve("auto")
    assert raised.value.code == "E708"
    assert "present, second" in str(raised.value)
    with pytest.raises(CompileError) as raised:
        made(reference).resolve("auto")
    assert raised.value.code == "E706"


def test_auto_follows_the_device_of_the_arguments() -> None:
    host = Good("host", framework_devices=("cpu",), dlpack_devices=(1,))
    first = Good("first", kind="accelerator", framework_devices=("gpu",), dlpack_devices=(2,), found=Unavailable(code="none", reason="no"))
    second = Good("second", kind="accelerator", framework_devices=("gpu",), dlpack_devices=(10,))
    three = made(host, first, second)
    assert three.resolve("auto", device="cpu") == Target(name="host")
    assert three.resolve("auto", device=1) == Target(name="host")
    assert three.resolve("auto", device="gpu") == Target(name="second")
    assert three.resolve("auto", device=2) == Target(name="first")
    with pytest.raises(CompileError) as raised:
        three.resolve("auto", device="toaster")
    assert raised.value.code == "E705"


def test_auto_gives_arrays_of_the_host_to_the_only_accelerator_that_takes_them() -> None:
    host, both = Good("host", framework_devices=("cpu",), dlpack_devices=(1,)), {"framework_devices": ("cpu",), "dlpack_devices": (1,)}
    takes = Good("takes", kind="accelerator", **both)
    asleep = Good("asleep", kind="accelerator", found=Unavailable(code="none", reason="no"), **both)
    elsewhere = Good("elsewhere", kind="accelerator", framework_devices=("gpu",))
    for device in (None, "cpu", 1):
        assert made(host, asleep, takes).resolve("auto", device=device) == Target(name="takes")
        assert made(host, asleep).resolve("auto", device=device) == Target(name="host")
    assert made(host, takes, elsewhere).resolve("auto", device="cpu") == Target(name="takes")
    assert made(host, elsewhere).resolve("auto", device="cpu") == Target(name="host")
    for device in (None, "cpu", 1):
        with pytest.raises(CompileError, match=r"could be any of takes, too\n(?s:.*)ZELLIGE_TARGET=NAME") as raised:
            made(host, takes, Good("too", kind="accelerator", **both)).resolve("auto", device=device)
        assert raised.value.code == "E708"


def test_the_environment_stands_in_for_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZELLIGE_TARGET", "two:x")
    options.cache_clear()
    try:
        assert made(Good("one"), Good("two")).resolve("auto") == Target(name="two", arch="x")
    finally:
        monkeypatch.undo()
        options.cache_clear()


def test_a_raising_hook_is_the_backends_fault() -> None:
    class Raising(Good):
        @hookimpl
        def describe(self, target: Target) -> Capabilities:
            raise KeyError("v9")

    handle = made(Raising()).backends[0]
    with pytest.raises(CompileError, match="raised in its hook describe: KeyError") as raised:
        handle.describe(Target(name="good", arch="v9"))
    assert raised.value.code == "E709"
    assert isinstance(raised.value.__cause__, KeyError)


def test_a_wrong_answer_is_a_broken_contract() -> None:
    class Wrong(Good):
        @hookimpl
        def describe(self, target: Target) -> Any:
            return "fast"

    with pytest.raises(CompileError, match="describe answered str, expected Capabilities") as raised:
        made(Wrong()).backends[0].describe(Target(name="good"))
    assert raised.value.code == "E703"


def test_a_probe_that_raises_hangs_or_lies_counts_as_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    def raises() -> object:
        raise OSError("driver is gone")

    release = threading.Event()
    monkeypatch.setattr(handle_module, "PROBE_SECONDS", 0.05)
    for found, code in ((raises, "probe-failed"), (release.wait, "probe-timeout"), ("two", "contract")):
        answer = made(Good(found=found)).backends[0].devices
        assert isinstance(answer, Unavailable)
        assert answer.code == code
    release.set()


def test_a_backend_compiles_in_one_step_or_in_three() -> None:
    class OneStep(Good):
        @hookimpl
        def compile_kernel(self, planned: PlannedKernel, ctx: CompileContext) -> Launchable:
            return Launchable(f"one {planned.kernel} for {ctx.target}")

    class Loader:
        def load(self, binary: Binary, kernel: Any, source: Emitted) -> Launchable:
            return Launchable(f"{source.text} / {binary.data.decode()} / {kernel}")

    class ThreeSteps(Good):
        @hookimpl
        def emit(self, planned: PlannedKernel) -> Emitted:
            return Emitted(text=f"text of {planned.kernel}", format="text")

        @hookimpl
        def compile(self, emitted: Emitted) -> Binary:
            return Binary(data=emitted.text.upper().encode(), format="bytes")

        @hookimpl
        def runtime(self) -> Loader:
            return Loader()

    kernel: Any = "k"
    planned = FittedKernel(planned=PlannedKernel(kernel=kernel, target="good", launches=()))
    ctx = CompileContext(target=Target(name="good"), capabilities=Capabilities(target="good"), options=CompileOptions())
    assert made(OneStep()).backends[0].compile_kernel(planned, ctx).source() == "one k for good"
    assert not made(OneStep()).backends[0].can_emit
    assert made(ThreeSteps()).backends[0].compile_kernel(planned, ctx).source() == "text of k / TEXT OF K / k"
    with pytest.raises(CompileError, match="neither the hook compile_kernel nor all of") as raised:
        made(Good()).backends[0].compile_kernel(planned, ctx)
    assert raised.value.code == "E703"


def test_names_of_vendors_are_looked_up_in_manifests() -> None:
    one = Good(
        "one",
        dialect=(DialectName(name="turbo", target="one:v2"),),
        config_keys=(ConfigKey(name="TL_TURBO", key="tl.turbo"),),
        inspections=("show_words",),
        timers=("sundial",),
    )
    both = made(one, Good("two", dialect=(DialectName(name="turbo", target="two"),)))
    assert both.dialect_targets("turbo") == ("one:v2", "two")
    assert both.dialect_targets("slow") == ()
    assert both.config_key("TL_TURBO") == "tl.turbo"
    assert both.config_key("TL_NONE") is None
    assert both.config_targets("tl.turbo") == ("one",)
    assert both.inspection_targets("show_words") == ("one",)
    assert both.timer_targets("sundial") == ("one",)


def test_threads_that_ask_at_once_load_each_backend_once() -> None:
    import time
    from concurrent.futures import ThreadPoolExecutor

    loads: list[str] = []

    def slow() -> object:
        loads.append("good")
        time.sleep(0.05)
        return Good()

    one = Registry([origin("good", slow)])
    with ThreadPoolExecutor(4) as pool:
        handles = {id(handle) for handle in pool.map(lambda _: one.backend(Target(name="good")), range(4))}
    assert loads == ["good"]
    assert len(handles) == 1


def test_the_installed_backends_are_found() -> None:
    found = {report.name: report for report in registry().reports()}
    assert {"cpu", "cuda", "hip", "interp"} <= set(found)
    assert all(not report.traceback for report in found.values()), [r.traceback for r in found.values() if r.traceback]
    assert registry().dialect_targets("tma_copy") == ("cuda:sm_90",)
    assert "hip:gfx90a" in registry().dialect_targets("mfma")
    assert registry().resolve("c").name == "cpu"
    assert registry().resolve("llvm").name == "cpu"
    assert registry().resolve("auto").name == "cpu"
    assert registry().resolve("cuda -arch=sm_90a") == Target(name="cuda", arch="sm_90a")
    assert registry().resolve("hip -mcpu=gfx942") == Target(name="hip", arch="gfx942")
    with pytest.raises(CompileError, match="not built yet"):
        registry().backend(Target(name="hip"))


def test_capabilities_are_put_together_when_they_are_looked_at() -> None:
    asked: list[str] = []

    def ask() -> Capabilities:
        asked.append("")
        return Capabilities(target="good")

    ctx = AskingContext(target=Target(name="good"), capabilities=ask, options=CompileOptions())
    assert not asked and isinstance(ctx, CompileContext)
    assert ctx.capabilities is ctx.capabilities and len(asked) == 1
    assert replace(ctx, ir_version=(1, 0)).capabilities is ctx.capabilities and len(asked) == 1
    with pytest.raises(AttributeError):
        ctx.target = Target(name="other")  # type: ignore[misc]
