"""The methods that core calls on what a backend hands over: whose failure is whose, in what order arguments come, what an answer means."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from broken_sources import backend, copying, kernel, works

import zellige as zl
import zellige.language as T
from zellige.claims import examined
from zellige.diagnostics import ZelligeError
from zellige.plugin.registry import Registry
from zellige.target import parse_target

Install = Callable[..., Registry]

NATIVE = (
    "bounds = contract.Bounds(grid=(7, 7, 7))\n        def native_launch(self): {}\n"
    "        def loaded_code(self): return ()\n        def refuse(self, status): raise OSError(status)"
)


def copying_any_number() -> Any:
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 8)) as at:
            for i in T.Parallel(8):
                if at * 8 + i < n:
                    B[at * 8 + i] = A[at * 8 + i]

    return main


def called(target: str, function: Any = None) -> None:
    """More calls than it takes to go the quick way."""
    made = zl.compile(function or copying(), target=target)
    shape = (4, 8) if function is None else (32,)
    for _ in range(4):
        a, b = np.ones(shape, np.float32), np.zeros(shape, np.float32)
        made(a, b)
        assert (a == b).all()


def test_a_failure_on_the_way_to_quick_calls_is_the_backends(install: Install) -> None:
    install({"native": kernel(NATIVE.format("raise OSError('bus')")), "none": kernel(NATIVE.format("return None"))})
    with pytest.raises(ZelligeError, match="the backend 'native' raised in its method native_launch: OSError: bus") as caught:
        called("native", copying_any_number())
    assert caught.value.code == "E709"
    assert [note.kind for note in caught.value.diagnostics[0].notes] == ["raised here", "replay"]
    called("none", copying_any_number())


SHORT = {
    "fit": backend("@hookimpl\ndef fit(self, planned, asked): raise {}"),
    "emit": backend("@hookimpl\ndef emit(self, planned, ctx): raise {}"),
    "describe": backend("@hookimpl\ndef describe(self, target): raise {}"),
    "launch": kernel("def launch(self, p, s, z): raise {}"),
    "packed": kernel("def launch_packed(self, words): raise {}"),
    "pass": backend(
        "@hookimpl\ndef passes(self, stage, ctx):\n    @dataclass(frozen=True)\n    class Fall:\n        name: str = 'fall'\n"
        "        def __call__(self, value): raise {}\n    return (Insert(step=Fall()),) if stage == 'sync' else ()"
    ),
}


def test_too_little_memory_is_told_of_the_backend_and_caught_as_that(install: Install) -> None:
    install({name: source.format("MemoryError('full')") for name, source in SHORT.items()})
    for name in SHORT:
        with pytest.raises(MemoryError, match="MemoryError: full") as caught:
            called(name)
        assert isinstance(caught.value, ZelligeError)
        assert caught.value.code == "E709"
        place = {"launch": "hook runtime", "packed": "hook runtime", "pass": "method __call__"}.get(name, f"hook {name}")
        assert f"the backend {name!r} raised in its {place}: " in str(caught.value)


def test_what_core_finds_in_a_backend_s_numbers_is_the_backend_s(install: Install) -> None:
    body = "from zellige.simt.distribution import Digit, Distribution\n    Distribution(shape=(8, 2), digits=())"
    install({"wrong": backend(f"@hookimpl\ndef describe(self, target):\n    {body}")})
    with pytest.raises(ZelligeError, match=r"the backend 'wrong' raised in its hook describe: .* cover 1 of 8") as caught:
        called("wrong")
    assert caught.value.code == "E709"
    assert "bug in zellige" not in str(caught.value)


def test_too_little_memory_refutes_no_claim(install: Install) -> None:
    found = install({"short": SHORT["launch"].format("MemoryError('full')"), "fails": SHORT["launch"].format("OSError('bus')")})
    for name, verdict, words in (("short", "not checked", "MemoryError: full"), ("fails", "does not hold", "OSError: bus")):
        copies = [one for one in examined(found.named(name), parse_target(name)) if one.field.startswith("copies")]
        assert copies
        assert {one.verdict for one in copies} == {verdict}
        assert all(words in one.reason for one in copies)


def test_a_warning_that_the_user_made_an_error_passes_through_a_hook(install: Install) -> None:
    diagnosed = "warn(catalogue.E746.diagnose(kernel='k', folder='f', reason='r', severity='warning'))"
    imports = "    from zellige.diagnostics import catalogue\n    from zellige.diagnostics.warn import warn\n"
    install({
        "warns": backend(f"@hookimpl\ndef emit(self, planned, ctx):\n{imports}    {diagnosed}"),
        "raises": backend("@hookimpl\ndef emit(self, planned, ctx): raise UserWarning('mine')"),
    })  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error", zl.diagnostics.error.ZelligeWarning)
        with pytest.raises(zl.diagnostics.error.ZelligeWarning, match="E746"):
            called("warns")
    with pytest.raises(ZelligeError, match="raised in its hook emit: UserWarning: mine"):
        called("raises")


def test_loading_is_by_position(install: Install) -> None:
    """As the check of a method's arguments reads them: what they are called is the backend's affair."""
    runtime = "@hookimpl\ndef runtime(self):\n    class R:\n        def load(self{}): return AcmeKernel(code, text)\n    return R()"
    wrong = ("", ", code, text", ", *, binary, kernel, source", ", code, kernel, text, more")
    install({
        "other_names": backend(runtime.format(", code, outline, text, /")),
        **{f"wrong_{at}": backend(runtime.format(arguments)) for at, arguments in enumerate(wrong)},
    })  # fmt: skip
    assert works("other_names")
    for at in range(len(wrong)):
        with pytest.raises(ZelligeError, match=r"its method load cannot be called as load\(binary, kernel, source\)") as caught:
            works(f"wrong_{at}")
        assert caught.value.code == "E703"


ANSWERS = {
    "answers_launch": ("def launch(self, p, s, z): return 7", "its method launch answered 7, expected None: a launch that fails raises"),
    "answers_packed": ("def launch_packed(self, words): return 0", "its method launch_packed answered 0, expected None: a launch"),
}


def test_what_a_launch_answers_is_refused(install: Install) -> None:
    """A driver's number for a failure, which nobody would look at."""
    found = install({name: kernel(method) for name, (method, _) in ANSWERS.items()})
    for name, (_, words) in ANSWERS.items():
        with pytest.raises(ZelligeError, match=words) as caught:
            called(name)
        assert caught.value.code == "E703"
        assert caught.value.diagnostics[0].backend == name
    findings = [one for one in examined(found.named("answers_launch"), parse_target("answers_launch")) if one.field.startswith("copies")]
    assert findings and all("answered 7" in one.reason and one.verdict == "does not hold" for one in findings)


def test_a_word_that_core_does_not_know_is_the_fault_of_who_said_it(install: Install) -> None:
    words = {
        "element": "from zellige.elements.arithmetic import binary; binary('frobnicate', np.ones(2), np.ones(2), T.float32)",
        "reduction": "from zellige.ir.reductions import identity; identity('frobnicate', T.float32)",
    }
    head = "def launch(self, p, s, z):\n            import numpy as np, zellige.language as T; "
    install({name: kernel(head + ask) for name, ask in words.items()})
    for name in words:
        with pytest.raises(ZelligeError, match=f"the backend '{name}' raised in its hook runtime: ValueError: .*frobnicate") as caught:
            works(name)
        (line,) = [note.span for note in caught.value.diagnostics[0].notes if note.kind == "raised here"]
        assert line is not None and line.file.endswith(f"plug_{name}.py") and "frobnicate" in line.source_line()


def test_naming_a_module_of_core_makes_core_nobody_elses(install: Install) -> None:
    """Else each failure of core's would be said to be the backend's."""
    changes = "replace(AcmeBackend.manifest(self), code_packages=('zellige.plan', 'zellige', 'email.mime'))"
    found = install({"claims": backend(f"@hookimpl\ndef manifest(self): return {changes}")})
    handle = found.named("claims")
    assert handle._packages == {"plug_claims", "email"}
    assert not handle.owns(pytest.raises(ValueError, zl.compile(copying(), target="cpu").show_source, "nothing").value)


def test_an_error_is_named_by_its_field_and_not_by_its_words(install: Install) -> None:
    """A backend whose name is a word of the message of somebody else's failure."""
    body = "@hookimpl\ndef emit(self, planned, ctx):\n    from zellige.diagnostics import catalogue\n    raise catalogue.{}"
    install({
        "contract": backend(body.format("E703.error(name='other', reason='x')")),
        "mine": backend(body.format("E703.error(name='mine', reason='x')")),
    })  # fmt: skip
    for name, is_said in (("contract", True), ("mine", False)):
        with pytest.raises(ZelligeError) as caught:
            works(name)
        assert (f"said by the backend {name!r} in its hook emit" in str(caught.value)) is is_said


def test_the_fault_of_a_text_is_not_taken_for_one_of_writing_files(install: Install, tmp_path: Path) -> None:
    install({"mute": kernel("def source(self): raise OSError('bus')")})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zl.compile(copying(), target="mute", debug_root_path=tmp_path / "stages")
    (folder,) = (tmp_path / "stages").iterdir()
    assert "the backend 'mute' raised in its method source: OSError: bus" in (folder / "4-source.txt").read_text()


BASES: dict[str, tuple[str, str]] = {
    "cancelled": ("raise __import__('asyncio').CancelledError()", "CancelledError"),
    "grouped": ("raise BaseExceptionGroup('g', [KeyboardInterrupt(), ValueError('x')])", "BaseExceptionGroup: g"),
    "own_base": ("raise type('Mine', (BaseException,), {})('x')", "Mine: x"),
    "no_traceback": ("raise type('Mine', (Exception,), {'__traceback__': property(lambda self: None)})('x')", "Mine: x"),
}


if sys.version_info < (3, 11):
    del BASES["grouped"]  # the class came with 3.11


def test_a_launch_that_raises_what_is_no_usual_exception_is_said(install: Install) -> None:
    install({name: kernel(f"def launch(self, pointers, scalars, sizes): {line}") for name, (line, _) in BASES.items()})
    for name, (_, words) in BASES.items():
        with pytest.raises(ZelligeError, match=f"the backend '{name}' raised in its hook runtime: {words}") as caught:
            works(name)
        assert caught.value.code == "E709"
    assert works("cpu")


def test_an_error_with_a_code_from_a_launch_says_whose_it_is(install: Install) -> None:
    line = "raise __import__('zellige').diagnostics.catalogue.E703.error(name='cpu', reason='not mine')"
    install({"accusing": kernel(f"def launch(self, pointers, scalars, sizes): {line}")})
    with pytest.raises(ZelligeError, match="said by the backend 'accusing' in its hook runtime"):
        works("accusing")
