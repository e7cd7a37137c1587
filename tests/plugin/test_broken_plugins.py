"""Backends that are broken in every way that a stranger's package can be: each gives its documented error, and all others work on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from broken_sources import backend

import zellige as zl
import zellige.language as T
from zellige.diagnostics import ZelligeError
from zellige.options import options
from zellige.plugin import handle as handle_module
from zellige.plugin.contract import Unavailable
from zellige.plugin.registry import Registry, registry
from zellige.plugin.words import is_word

AT_LOADING: dict[str, tuple[str, str, str]] = {
    "unimportable": ("import acme_driver", "E701", "ModuleNotFoundError: No module named 'acme_driver'"),
    "quitter": ("raise SystemExit(3)", "E701", "SystemExit: 3"),
    "garbled": ("def backend(:", "E701", "SyntaxError"),
    "nameless": ("engine = 1", "E701", "has no attribute 'backend'"),
    "code_nowhere": (
        backend(
            "@hookimpl\ndef manifest(self):\n    return replace(AcmeBackend.manifest(self), name=self.name, targets=(self.name,),"
            " code_packages=('numpy.core_of_nothing', 'numpy', 'nampy'))"
        ),
        "E703",
        "manifest.code_packages names numpy.core_of_nothing, nampy, which no package is that can be imported here",
    ),
    "versionless": (backend("API = None"), "E703", "its API is None, expected (major, minor)"),
    "wrong_major": (backend("API = (2, 0)"), "E702", "was written for contract 2.0, this zellige speaks 1.0"),
    "too_new": (backend("API = (1, 99)"), "E702", "was written for contract 1.99"),
    "hookless": (backend("describe = None"), "E703", "it lacks the hook describe"),
    "misspelt": (backend("@hookimpl\ndef descibe(self, target): ..."), "E703", "the contract has no hook descibe; did you mean describe?"),
    "extra_hook": (backend("@hookimpl\ndef teleport(self): ..."), "E703", "the contract has no hook teleport (it has manifest, probe,"),
    "wrong_arguments": (
        backend("@hookimpl\ndef describe(self, target, colour): ..."),
        "E703",
        "its hook describe(target, colour) has an unknown argument 'colour'; the hook is describe(target)",
    ),
    "greedy_arguments": (backend("@hookimpl\ndef emit(self, *everything): ..."), "E703", "must name those of emit(planned, ctx, fitted)"),
    "unmarked": (
        backend("def candidates(self, operation, ctx): return None"),
        "E703",
        "its method candidates has the name of a hook, but is not marked with @hookimpl",
    ),
    "dictionary": (backend("@hookimpl\ndef manifest(self): return {'name': 'm'}"), "E703", "manifest answered dict, expected Manifest"),
    "manifest_raises": (
        backend("@hookimpl\ndef manifest(self): return 1 / 0"),
        "E709",
        "raised in its hook manifest: ZeroDivisionError",
    ),
    "toaster": (
        backend("@hookimpl\ndef manifest(self):\n    return replace(AcmeBackend.manifest(self), kind='toaster')"),
        "E703",
        "kind is 'toaster'",
    ),
    "ancient_ir": (
        backend("@hookimpl\ndef manifest(self):\n    return replace(AcmeBackend.manifest(self), ir=(0, 9))"),
        "E703",
        "ir is (0, 9): this zellige writes tile IR of the versions 1.0 to 1.",
    ),
    "thief_of_names": (
        backend("@hookimpl\ndef manifest(self):\n    return replace(AcmeBackend.manifest(self), name='cpu')"),
        "E703",
        "its name 'cpu' is taken by zellige",
    ),
    "thief_of_targets": (
        backend("@hookimpl\ndef manifest(self):\n    return replace(AcmeBackend.manifest(self), targets=('thief_of_targets', 'cpu', 'c'))"),
        "E703",
        "it claims the target c, cpu of zellige",
    ),
}
"""Name to source, code and words of the error that asking for its target gives."""

AT_COMPILING: dict[str, tuple[str, str, str]] = {
    "describe_raises": (
        backend("@hookimpl\ndef describe(self, target): raise KeyError('v9')"),
        "E709",
        "raised in its hook describe: KeyError: 'v9'",
    ),
    "liar_about_targets": (
        backend("@hookimpl\ndef describe(self, target):\n    return replace(AcmeBackend.describe(self, target), target='other')"),
        "E703",
        "target is 'other', asked for was 'liar_about_targets'",
    ),
    "liar_about_types": (
        backend("@hookimpl\ndef describe(self, target):\n    return replace(AcmeBackend.describe(self, target), dtypes=('float17',))"),
        "E703",
        "dtypes names 'float17', which is no element type",
    ),
    "liar_about_engines": (
        backend("@hookimpl\ndef describe(self, target):\n    return replace(AcmeBackend.describe(self, target), engines=())"),
        "E703",
        "matmul[0].engine names 'vec', which is no engine of the target (it lists none)",
    ),
    "liar_about_sizes": (
        backend("@hookimpl\ndef describe(self, target):\n    return replace(AcmeBackend.describe(self, target), lanes='32')"),
        "E703",
        "capabilities.lanes is '32', expected int",
    ),
    "begin_raises": (backend("@hookimpl\ndef begin(self, ctx): return 1 / 0"), "E709", "raised in its hook begin: ZeroDivisionError"),
    "begin_answers": (
        backend("@hookimpl\ndef begin(self, ctx): return ctx.target"),
        "E703",
        "its hook begin answered Target, expected None",
    ),
    "candidates_raise": (
        backend("@hookimpl\ndef candidates(self, operation, ctx): return operation.size"),
        "E709",
        "raised in its hook candidates: AttributeError",
    ),
    "candidates_nonsense": (
        backend("@hookimpl\ndef candidates(self, operation, ctx): return ['fast']"),
        "E703",
        "its hook candidates answered str for copy 4x8 of float32, expected a tuple of candidates and rejections, or None",
    ),
    "candidates_one": (
        backend("@hookimpl\ndef candidates(self, operation, ctx): return Candidate(name='mover', because='moves')"),
        "E703",
        "its hook candidates answered one Candidate for copy 4x8 of float32, expected a tuple of candidates and rejections, or None",
    ),
    "candidates_empty": (backend("@hookimpl\ndef candidates(self, operation, ctx): return ()"), "E703", "answered nothing for copy 4x8"),
    "rejects_all": (
        backend("@hookimpl\ndef candidates(self, operation, ctx): return (Rejection(name='mover', reason='is tired'),)"),
        "E420",
        "nothing on the target rejects_all executes copy 4x8 of float32:\n    mover  is tired",
    ),
    "impossible_candidate": (
        backend(
            "@hookimpl\ndef candidates(self, operation, ctx):\n"
            "    path = CopyPath(source='acme.l1', destination='acme.l1', mechanism='moves')\n"
            "    return (Candidate(name='loop', because='it can', path=path),) if operation.kind == 'copy' else None"
        ),
        "E703",
        "its candidate loop of the hook candidates cannot execute the copy 4x8 of float32: it goes from acme.l1 to acme.l1",
    ),
    "cyclic_passes": (
        backend(
            "@hookimpl\ndef passes(self, stage, ctx):\n"
            "    one = Insert(step=Seen('one', []), after=('two',))\n"
            "    return (one, Insert(step=Seen('two', []), after=('one',))) if stage == 'layout' else ()"
        ),
        "E711",
        "the passes of the stage 'layout' for cyclic_passes wait for each other: one after two after one",
    ),
    "vetoes_everything": (
        backend(
            "@hookimpl\ndef passes(self, stage, ctx):\n"
            "    names = {'legalise': 'simplify', 'allocate': 'plan'}\n"
            "    return (Veto(name=names[stage], reason='no'),) if stage in names else ()"
        ),
        "E712",
        "cannot leave out the pass 'plan' at the stage 'allocate': nothing else makes a plan",
    ),
    "vetoes_the_unknown": (
        backend("@hookimpl\ndef passes(self, stage, ctx): return (Veto(name='tidy', reason='no'),)"),
        "E712",
        "cannot leave out the pass 'tidy' at the stage 'legalise': the stage has no such pass",
    ),
    "spoils": (
        backend(
            "@hookimpl\ndef passes(self, stage, ctx):\n"
            "    @dataclass(frozen=True)\n    class Spoil:\n        name: str = 'spoil'\n"
            "        def __call__(self, kernel): return replace(kernel, params=kernel.params[:1])\n"
            "    return (Insert(step=Spoil()),) if stage == 'layout' else ()"
        ),
        "E713",
        "the pass spoil of the backend spoils made tile IR that is not well formed",
    ),
    "pass_raises": (
        backend(
            "@hookimpl\ndef passes(self, stage, ctx):\n"
            "    @dataclass(frozen=True)\n    class Fall:\n        name: str = 'fall'\n"
            "        def __call__(self, planned): return planned.nonsense\n"
            "    return (Insert(step=Fall()),) if stage == 'sync' else ()"
        ),
        "E718",
        "the pass fall of the backend pass_raises failed: AttributeError",
    ),
    "passes_nonsense": (backend("@hookimpl\ndef passes(self, stage, ctx): return ['fast']"), "E703", "passes answered str, expected"),
    "emits_bytes": (backend("@hookimpl\ndef emit(self, planned, ctx): return b'code'"), "E703", "emit answered bytes, expected Emitted"),
    "half_steps": (backend("compile = None"), "E703", "it has neither the hook compile_kernel nor all of emit, compile, runtime"),
    "known_fault": (
        backend("@hookimpl\ndef compile(self, emitted): raise AcmeError(0x17)"),
        "E710",
        "known_fault: the card fell off the bus",
    ),
    "loads_nothing": (backend("@hookimpl\ndef runtime(self): return object()"), "E703", "which has no method load(binary, kernel, source)"),
    "load_raises": (
        backend("@hookimpl\ndef runtime(self):\n    class R:\n        def load(self, b, k, s): raise OSError('no bus')\n    return R()"),
        "E709",
        "raised in its hook runtime: OSError: no bus",
    ),
    "loads_nonsense": (
        backend("@hookimpl\ndef runtime(self):\n    class R:\n        def load(self, b, k, s): return 'kernel'\n    return R()"),
        "E703",
        "runtime answered str, expected CompiledKernel",
    ),
    "key_of_bytes": (backend("@hookimpl\ndef cache_key(self): return b'7'"), "E703", "cache_key answered bytes, expected str"),
}


def copying() -> Any:
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(1) as _:
            tile = T.alloc_shared((4, 8), "float32")
            T.copy(A, tile)
            T.copy(tile, B)

    return main


def works(target: str) -> bool:
    a, b = np.arange(32, dtype=np.float32).reshape(4, 8), np.zeros((4, 8), np.float32)
    zl.compile(copying(), target=target)(a, b)
    return bool((a == b).all())


def test_every_broken_backend_says_what_is_wrong_and_disturbs_no_other(install: Callable[[dict[str, str]], Registry]) -> None:
    cases = {**AT_LOADING, **AT_COMPILING}
    assert len(cases) >= 25
    found = install({"fine": backend(""), **{name: source for name, (source, _, _) in cases.items()}})
    wrong = []
    for name, (_, code, words) in cases.items():
        with pytest.raises(ZelligeError) as caught:
            zl.compile(copying(), target=name)
        text = str(caught.value)
        if caught.value.code != code or words not in text:
            wrong.append(f"{name}: expected {code} with {words!r}, got {text}")
    assert not wrong, "\n\n".join(wrong)
    assert {entry.origin.name for entry in found.quarantined} == set(AT_LOADING)
    assert works("cpu")
    assert works("fine")
    assert found.resolve("auto").name == "cpu"


def test_a_wrong_dialect_is_said_when_its_name_is_used(install: Callable[[dict[str, str]], Registry]) -> None:
    install({"wordy": backend("@hookimpl\ndef dialect(self): return ['wordy_dma']")})
    with pytest.raises(ZelligeError, match="dialect answered list, expected Mapping") as caught:
        T.wordy_dma  # noqa: B018
    assert caught.value.code == "E703"
    assert works("cpu")


def test_two_strangers_with_one_target_or_one_name_of_the_language(install: Callable[[dict[str, str]], Registry]) -> None:
    both = (
        "@hookimpl\ndef manifest(self):\n    names = (DialectName(name='same_dma', target='both'),)\n"
        "    return replace(AcmeBackend.manifest(self), targets=(self.name, 'both'), dialect=names)"
    )
    dialect = "@hookimpl\ndef dialect(self): return {'same_dma': acme_dma}"
    install({name: backend(f"{both}\n{dialect}") for name in ("one", "two")})
    for ask, code in ((lambda: zl.compile(copying(), target="both"), "E704"), (lambda: T.same_dma, "E714")):
        with pytest.raises(ZelligeError) as caught:
            ask()
        assert caught.value.code == code
    assert works("one")
    assert works("two")
    assert works("cpu")


def test_two_strangers_with_one_name_are_both_set_aside(install: Callable[[dict[str, str]], Registry]) -> None:
    """Which of them is meant nobody knows, and it must not hang on the order of their entry points."""
    named = "@hookimpl\ndef manifest(self): return replace(AcmeBackend.manifest(self), name='same', targets=('same',), dialect=())"
    found = install({"same": backend(named), "other_same": backend(named), "fine": backend("")})
    assert sorted(entry.origin.name for entry in found.quarantined) == ["other_same", "same"]
    with pytest.raises(ZelligeError, match="its name 'same' is also that of plug_other_same: plug_other_same:backend") as caught:
        zl.compile(copying(), target="same")
    assert caught.value.code == "E703"
    assert "plug_same: plug_same:backend" in str(caught.value)
    assert works("fine")
    assert works("cpu")


@pytest.mark.parametrize("name", ["copy", "float32x4", "sync_threads", "gemm"])
def test_a_stranger_cannot_have_a_name_that_the_language_has(name: str, install: Callable[[dict[str, str]], Registry]) -> None:
    """It would never be asked for it, so its users would run another operation than they read about."""
    named = (
        "@hookimpl\ndef manifest(self):\n"
        f"    names = tuple(DialectName(name=name, target='greedy') for name in ('own_dma', {name!r}))\n"
        "    return replace(AcmeBackend.manifest(self), targets=(self.name,), dialect=names)"
    )
    found = install({"greedy": backend(named)})
    assert [entry.origin.name for entry in found.quarantined] == ["greedy"]
    with pytest.raises(ZelligeError, match=rf"its dialect claims T\.{name}, which the language itself has") as caught:
        zl.compile(copying(), target="greedy")
    assert caught.value.code == "E703"
    assert works("cpu")


def test_our_own_dialects_have_no_name_of_the_language() -> None:
    names = {entry.name for handle in registry().backends for entry in handle.dialect_names}
    assert len(names) > 100
    assert sorted(name for name in names if is_word(name)) == []


HANGS = backend("@hookimpl\ndef probe(self):\n    import time\n    time.sleep(3600)")
DIES = backend("@hookimpl\ndef probe(self):\n    import os, signal\n    os.kill(os.getpid(), signal.SIGSEGV)")
RAISES = backend("@hookimpl\ndef probe(self): raise OSError('driver is gone')")
LIES = backend("@hookimpl\ndef probe(self): return ('card',)")


def test_probes_that_raise_hang_or_lie_leave_a_reason(
    install: Callable[[dict[str, str]], Registry], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = install({"raises": RAISES, "hangs": HANGS, "lies": LIES})
    answers = {}
    for name, seconds in (("raises", 600), ("lies", 600), ("hangs", 0.2)):
        monkeypatch.setattr(handle_module, "PROBE_SECONDS", seconds)
        answers[name] = found.named(name).devices
    assert all(isinstance(answer, Unavailable) for answer in answers.values())
    assert {name: answer.code for name, answer in answers.items()} == {  # type: ignore[union-attr]
        "raises": "probe-failed",
        "hangs": "probe-timeout",
        "lies": "contract",
    }
    assert "probe answered a tuple of str" in answers["lies"].reason  # type: ignore[union-attr]
    assert found.resolve("auto").name == "cpu"


def test_a_probe_that_ends_the_interpreter_is_only_not_available(
    install: Callable[[dict[str, str]], Registry], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZELLIGE_ISOLATE_PROBES", "1")
    options.cache_clear()
    found = install({"dies": DIES})
    answer = found.named("dies").devices
    assert isinstance(answer, Unavailable)
    assert (answer.code, "was ended by SIGSEGV" in answer.reason) == ("probe-crashed", True)
    assert found.resolve("auto").name == "cpu"
    assert works("cpu")
