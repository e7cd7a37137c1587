"""Backends whose answers are wrong deep inside, lie, change or break other things than themselves: each is said, and all others work on."""

from __future__ import annotations

import itertools
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from broken_sources import HEAD, answering, backend, copying, described, kernel, manifest, works

import zellige as zl
import zellige.language as T
from zellige.cache import memo
from zellige.diagnostics import ZelligeError
from zellige.log import logger
from zellige.plugin.contract import Unavailable
from zellige.plugin.registry import Registry

Install = Callable[..., Registry]

FIVE = "Unavailable(code=5, reason=None)"
AT_LOADING: dict[str, tuple[str, str, str]] = {
    "wrapper": (
        backend("@hookimpl(wrapper=True)\ndef describe(self, target): return (yield)"),
        "E703",
        "its hook describe is a wrapper (@hookimpl(wrapper=True)), around nothing: a backend has each hook once",
    ),
    "flat_aliases": (manifest("aliases=('c',)"), "E703", "manifest.aliases[0] is 'c', expected a tuple"),
    "numbered": (manifest("name=7"), "E703", "manifest.name is 7, expected str"),
    "two_lines": (manifest("name='a\\nb'"), "E703", "is no backend's name"),
    "huge_name": (manifest("name='x' * 9_000"), "E703", "'xxxxxxxxxxxx...xxxxxxxxxxxxx' is no backend's name"),
    "unicode": (manifest("targets=('unicode', 'größe')"), "E703", "'größe' is no target name"),
    "huge_target": (manifest("targets=('huge_target', 'x' * 100_000)"), "E703", "xxxxx' is no target name"),
    "words_as_text": (manifest("dialect=('dma',)"), "E703", "manifest.dialect[0] is 'dma', expected DialectName"),
    "words_nowhere": (manifest("dialect_table='none.txt'"), "E703", "its table of names 'none.txt' cannot be read: "),
    "takes_a_word": (manifest("dialect=(DialectName(name='copy', target='takes_a_word'),)"), "E703", "copy"),
    "devices_as_text": (manifest("framework_devices='cpu'"), "E703", "manifest.framework_devices is 'cpu', expected a tuple"),
    "ir_as_text": (manifest("ir='1.0'"), "E703", "manifest.ir is '1.0', expected a tuple"),
    "keys_twice": (
        manifest("config_keys=(contract.ConfigKey(name='TL_A', key='tl.a'), contract.ConfigKey(name='TL_A', key='tl.b'))"),
        "E703",
        "config_keys has the name 'TL_A' 2 times",
    ),
    "no_version": (manifest("version=None"), "E703", "manifest.version is None, expected str"),
    "odd_state": (manifest("state='broken'"), "E703", "manifest.state is 'broken', expected 'available' or Unavailable"),
    "odd_reason": (manifest(f"state=contract.{FIVE}"), "E703", "expected 'available' or Unavailable"),
    "no_exception": ("raise BaseException('mine')", "E701", "BaseException: mine"),
    "unspeakable": (
        "class Error(Exception):\n    def __str__(self): raise RuntimeError\nraise Error()",
        "E701",
        "Error: (its text cannot be made)",
    ),
    "mocked": ("from unittest.mock import MagicMock\nbackend = MagicMock()\nbackend.API = (1, 0)", "E703", "it lacks the hook manifest"),
    "answers_all": (
        "class B:\n    API = (1, 0)\n    def __getattr__(self, name): return lambda *a, **k: None\nbackend = B()",
        "E703",
        "it lacks the hook manifest",
    ),
    "api_raises": ("class B:\n    @property\n    def API(self): raise RuntimeError('no')\nbackend = B()", "E701", "RuntimeError: no"),
    "a_class": (HEAD + "    pass\nbackend = Broken", "E703", "its entry point names the class Broken, expected an object"),
}
"""Name to source, code and words of the error that asking for its target gives."""

PLACED = "from pathlib import Path\nfrom numpy import int64\nfrom zellige.diagnostics import Span\n"
PLACE = "replace(AcmeBackend.emit(self, planned, ctx), spans=(Span(%s),))"
OWN = "from zellige.plugin.contract import Binary, Emitted\nclass MyBinary(Binary): pass\nclass MyEmitted(Emitted): pass\n"

AT_COMPILING: dict[str, tuple[str, str, str]] = {
    "coroutine": (
        backend("async def later(self): ...\n@hookimpl\ndef describe(self, target):\n    c = self.later()\n    c.close()\n    return c"),
        "E703",
        "describe answered coroutine, expected Capabilities",
    ),
    "generator": (backend("@hookimpl\ndef describe(self, target): yield 1"), "E703", "describe answered generator, expected Capabilities"),
    "not_a_number": (
        described("math=(contract.MathAccuracy(function='exp', dtype='float32', strict_ulp=float('nan')),)"),
        "E703",
        "capabilities.math[0].strict_ulp is nan",
    ),
    "deep_text": (
        described("matmul=(MatmulUnit(name='cube', engine='vec', a='float16', b='float16', c='float32', m='16'),)"),
        "E703",
        "capabilities.matmul[0].m is '16', expected int",
    ),
    "a_list": (described("spaces=[Space(name='global')]"), "E703", "capabilities.spaces is [Space("),
    "too_large": (described("lanes=10**30"), "E703", "expected a number of that size"),
    "text_of_bytes": (
        answering("emit", ", planned, ctx", "Emitted(text=b'x', format='tile-ir')"),
        "E703",
        "emit answered what cannot be: Emitted.text is b'x', expected str",
    ),
    "places_of_text": (
        answering("emit", ", planned, ctx", "replace(AcmeBackend.emit(self, planned, ctx), spans=('here',))"),
        "E703",
        "Emitted.spans[0] is 'here', expected Span",
    ),
    "places_of_paths": (
        PLACED + answering("emit", ", planned, ctx", PLACE % "file=Path('k'), line=3"),
        "E703",
        "Emitted.spans[0].file is PosixPath('k'), expected str",
    ),
    "lines_of_arrays": (
        PLACED + answering("emit", ", planned, ctx", PLACE % "file='k', line=int64(3)"),
        "E703",
        "(3), expected int",
    ),
    "code_of_its_own": (
        OWN + answering("compile", ", emitted", "MyBinary(data=b'x', format='acme')"),
        "E703",
        "its hook compile answered a MyBinary, a kind of Binary; expected Binary itself",
    ),
    "text_of_its_own": (
        OWN + answering("emit", ", planned, ctx", "MyEmitted(text='x', format='acme')"),
        "E703",
        "its hook emit answered a MyEmitted, a kind of Emitted; expected Emitted itself",
    ),
    "code_of_text": (
        answering("compile", ", emitted", "Binary(data='text', format='acme')"),
        "E703",
        "compile answered what cannot be: Binary.data is 'text', expected bytes",
    ),
    "no_program": (
        answering("emit", ", planned, ctx", "contract.Emitted(text='\\n', format='acme')"),
        "E703",
        "its hook emit answered an Emitted without a program: its text is empty",
    ),
    "compiles_to_nothing": (
        answering("compile", ", emitted", "Binary(data=b'', format='acme')"),
        "E703",
        "its hook compile answered a Binary without code: its data is empty",
    ),
    "no_code": (answering("compile", ", emitted", "Binary(data=None, format='acme')"), "E703", "Binary.data is None, expected bytes"),
    "corrupt": (answering("compile", ", emitted", "Binary(data=b'\\xff', format='acme')"), "E709", "hook runtime: UnicodeDecodeError"),
    "launch_raises": (kernel("def launch(self, p, s, z): raise OSError('bus')"), "E709", "in its hook runtime: OSError: bus"),
    "launch_is_known": (kernel("def launch(self, p, s, z): raise AcmeError(3)"), "E710", "the card fell off the bus"),
    "launch_exits": (kernel("def launch(self, p, s, z): raise SystemExit(4)"), "E709", "in its hook runtime: SystemExit: 4"),
    "launches_nothing": (
        kernel("def launch(self): pass"),
        "E703",
        "its method launch cannot be called as launch(pointers, scalars, sizes): too many positional arguments",
    ),
    "launches_more": (kernel("def launch(self, p, s, z, stream): pass"), "E703", "missing a required argument: 'stream'"),
    "packs_nothing": (kernel("def launch_packed(self): pass"), "E703", "its method launch_packed cannot be called as launch_packed(words)"),
    "text_for_a_launch": (kernel("launch = 'fast'"), "E703", "its method launch cannot be called as"),
    "raises_for_a_launch": (kernel("@property\n        def launch(self): raise KeyError('l')"), "E709", "hook runtime: KeyError: 'l'"),
    "raises_for_any": (kernel("def __getattr__(self, name): raise SystemExit(name)"), "E709", "in its hook runtime: SystemExit: "),
    "null_text": (
        answering("emit", ", planned, ctx", "replace(AcmeBackend.emit(self, planned, ctx), facts=chr(0) * 3, format=None)"),
        "E703",
        "Emitted.format is None, expected str",
    ),
    "lazy_capabilities": (
        backend(
            "@hookimpl\ndef describe(self, target):\n    class Lazy(contract.Capabilities):\n        @property\n"
            "        def matmul(self): raise RuntimeError('lazy')\n"
            "    known = AcmeBackend.describe(self, target)\n    made = object.__new__(Lazy)\n"
            "    for name in known.__slots__:\n"
            "        if name != 'matmul': object.__setattr__(made, name, getattr(known, name))\n    return made"
        ),
        "E709",
        "raised in its hook describe: RuntimeError: lazy",
    ),
    "half_of_capabilities": (
        backend(
            "@hookimpl\ndef describe(self, target):\n    made = object.__new__(contract.Capabilities)\n"
            "    object.__setattr__(made, 'target', str(target))\n    return made"
        ),
        "E703",
        "is missing",
    ),
    "no_source": (kernel("def source(self): return None"), "E703", "its method source answered NoneType, expected str"),
    "changes_the_plan": (
        backend("@hookimpl\ndef emit(self, planned, ctx): planned.kernel.name = 'mine'"),
        "E709",
        "in its hook emit: FrozenInstanceError",
    ),
    "changes_the_context": (
        backend("@hookimpl\ndef candidates(self, operation, ctx): ctx.capabilities.matmul = ()"),
        "E709",
        "in its hook candidates: FrozenInstanceError",
    ),
    "odd_candidate": (
        answering("candidates", ", operation, ctx", "(Candidate(name=3, because=None, cost='cheap'),)"),
        "E703",
        "Candidate.name is 3, expected str; Candidate.because is None, expected str; Candidate.cost is 'cheap'",
    ),
    "priceless": (
        answering("candidates", ", operation, ctx", "(Candidate(name='m', because='x', cost=float('nan'), engine='vec'),)"),
        "E703",
        "Candidate.cost is nan",
    ),
    "nameless_pass": (
        answering("passes", ", stage, ctx", "(Insert(step=lambda value: value),)"),
        "E703",
        "expected StagePass: a function with a name",
    ),
    "forgets_the_kernel": (
        backend(
            "@hookimpl\ndef passes(self, stage, ctx):\n    @dataclass(frozen=True)\n    class Forget:\n        name: str = 'forget'\n"
            "        def __call__(self, value): return None\n    return (Insert(step=Forget()),)"
        ),
        "E713",
        "the pass forget of the backend forgets_the_kernel made a NoneType",
    ),
}

AGAIN = "@hookimpl\ndef {hook}(self, {asked}):\n    from broken_sources import works\n    works({name!r})"
ASKS_FOR_ITSELF: dict[str, tuple[str, str, str]] = {
    f"{hook}_again": (
        backend(AGAIN.format(hook=hook, asked=asked, name=f"{hook}_again")), "E709",
        f"raised in its hook {hook}: it asks for itself: it is running 3 times at once for {hook}_again",
    )
    for hook, asked in (("begin", "ctx"), ("cache_key", "ctx"), ("describe", "target"), ("emit", "planned, ctx"))
}  # fmt: skip
WITH_ITSELF = """
class P:
    name = 'again'
    def __call__(self, value):
        from broken_sources import works
        works({name!r})
"""
COMPILES_WITH_ITSELF: dict[str, tuple[str, str, str]] = {
    f"pass_{stage}_again": (
        WITH_ITSELF.format(name=f"pass_{stage}_again")
        + answering("passes", ", stage, ctx", f"(Insert(step=P()),) if stage == {stage!r} else ()"), "E718",
        f"the pass again of the backend pass_{stage}_again failed: it compiles with itself: it is running 3 times at once",
    )
    for stage in ("layout", "lower", "post")
}  # fmt: skip
BLAMES = "@hookimpl\ndef emit(self, planned, ctx):\n    from zellige.diagnostics import catalogue\n    raise catalogue.%s"
ACCUSING: dict[str, tuple[str, str, str]] = {
    "accuser": (backend(BLAMES % "E703.error(name='cpu', reason='x')"), "E703", "said by the backend 'accuser' in its hook emit"),
    "unknowing": (
        backend(BLAMES % "E705.error(target='moon', suggestion='', known='')"), "E705", "said by the backend 'unknowing' in its hook emit"
    ),
}  # fmt: skip

UNHARMED: dict[str, str] = {
    "once_again": backend(
        "inside = False\n@hookimpl\ndef describe(self, target):\n    if not self.inside:\n        self.inside = True\n"
        "        from broken_sources import works\n        assert works('once_again')\n    return AcmeBackend.describe(self, target)"
    ),
    "key_changes": backend("@hookimpl\ndef cache_key(self):\n    import time\n    return str(time.time_ns())"),
    "key_is_huge": answering("cache_key", "", "'x' * 10_000_000"),
    "removes_itself": "import sys\n"
    + backend(
        "@hookimpl\ndef describe(self, target):\n    sys.modules.pop('plug_removes_itself', None)\n"
        "    return AcmeBackend.describe(self, target)"
    ),
    "loud": "print('x' * 3_000_000)\n" + backend(""),
    "says_another_name": backend(
        "asked = 0\n@hookimpl\ndef manifest(self):\n    type(self).asked += 1\n"
        "    return replace(AcmeBackend.manifest(self), name=f'other{self.asked}')"
    ),
}
"""Backends that do odd things and still compute what was asked."""


def test_every_wrong_answer_is_said_and_disturbs_no_other(install: Install) -> None:
    cases = {**AT_LOADING, **AT_COMPILING, **ASKS_FOR_ITSELF, **COMPILES_WITH_ITSELF, **ACCUSING}
    assert len(cases) >= 46
    found = install({"fine": backend(""), **{name: source for name, (source, _, _) in cases.items()}, **UNHARMED})
    wrong = []
    for name, (_, code, words) in cases.items():
        with pytest.raises(ZelligeError) as caught:
            works(name)
        text = str(caught.value)
        if caught.value.code != code or words not in text or len(text) > 4000:
            wrong.append(f"{name}: expected {code} with {words!r}, got {text[:4000]}")
    assert not wrong, "\n\n".join(wrong)
    assert {entry.origin.name for entry in found.quarantined} == set(AT_LOADING)
    assert all(works(name) for name in ("cpu", "fine", *UNHARMED))
    assert T.copy.__module__.startswith("zellige.language")
    assert found.resolve("auto").name == "cpu"


def test_what_a_manifest_announces_must_be_there(install: Install) -> None:
    changes = "timers=('tick',), inspections=('get_acme',)"
    device = "\n@hookimpl\ndef probe(self): return (contract.Device(name='card', index=0, target=self.name),)"
    body = f"@hookimpl\ndef manifest(self):\n    return replace(AcmeBackend.manifest(self), {changes})"
    install({"liar": backend(body + device)})
    made = zl.compile(copying(), target="liar")
    for ask, hook in ((lambda: zl.profiler.do_bench(lambda: None, backend="tick"), "timers"), (lambda: made.get_acme(), "inspections")):
        with pytest.raises(ZelligeError, match=f"announces the {hook} .*, for which its hook {hook} has no function") as caught:
            ask()
        assert caught.value.code == "E703"


FOG = "class Fog(dict):\n    def {method}(self, *_): raise OSError('mapping')\n"
ANNOUNCED = "dialect=(DialectName(name=self.name, target=self.name),), timers=(self.name,), inspections=(self.name,)"


def foggy(name: str, hook: str, method: str) -> str:
    """A backend of which a hook answers with a mapping whose ``method`` raises."""
    held = f"{{{name!r}: lambda run, repeats=1, before=None: [1.0] * repeats}}" if hook != "schedules" else f"{{{name!r}: Deeper(4)}}"
    said = f"@hookimpl\ndef manifest(self):\n    return replace(AcmeBackend.manifest(self), {ANNOUNCED})"
    device = "\n@hookimpl\ndef probe(self): return (contract.Device(name='card', index=0, target=self.name),)"
    return FOG.format(method=method) + backend(f"{said}{device}\n@hookimpl\ndef {hook}(self): return Fog({held})")


def test_a_mapping_that_raises_is_its_hooks_failure(install: Install) -> None:
    """Dialects, inspections and timers are read by the names that are announced, strategies as a whole."""
    methods, hooks = ("__contains__", "__getitem__", "items"), ("dialect", "inspections", "timers", "schedules")
    cases = {f"fog{at}": (hook, method) for at, (hook, method) in enumerate(itertools.product(hooks, methods))}
    install({name: foggy(name, hook, method) for name, (hook, method) in cases.items()})
    asks: dict[str, Callable[[str], object]] = {
        "dialect": lambda name: getattr(T, name),
        "inspections": lambda name: getattr(zl.compile(copying(), target=name), name)(),
        "timers": lambda name: zl.profiler.do_bench(lambda: None, backend=name),
        "schedules": lambda name: zl.compile(copying(), target=name, schedule=name),
    }
    for name, (hook, method) in cases.items():
        if (hook == "schedules") is not (method == "items"):
            asks[hook](name)
            continue
        with pytest.raises(ZelligeError, match=f"the backend '{name}' raised in its hook {hook}: OSError: mapping") as caught:
            asks[hook](name)
        assert caught.value.code == "E709"
    assert works("cpu")


def test_a_wrong_verdict_about_kept_code_is_said(install: Install) -> None:
    device = "@hookimpl\ndef probe(self): return (contract.Device(name='card', index=0, target=self.name),)\n"
    install({"unsure": backend(device + "@hookimpl\ndef compat(self, binary, device): return Compatibility(verdict='maybe')")})
    assert works("unsure")
    memo.clear()
    with pytest.raises(ZelligeError, match="Compatibility.verdict is 'maybe', expected one of 'ok', 'recompile', 'unsupported'"):
        zl.compile(copying(), target="unsure", passes=[])  # the same text and code, found on the disk


@pytest.mark.parametrize(
    "strategies", ["{'acme.deep': 3}", "{3: Deeper(4)}", "{'': Deeper(4)}", "{'a\\nb': Deeper(4)}", "{'cpu.fast': Deeper(4)}"]
)
def test_wrong_strategies_are_said(install: Install, strategies: str) -> None:
    install({"planner": answering("schedules", "", strategies)})
    with pytest.raises(ZelligeError, match="its hook schedules answered what cannot be") as caught:
        zl.compile(copying(), target="planner", schedule="acme.deep")
    assert caught.value.code == "E703"


@pytest.mark.parametrize("hook, arguments", [("cache_key", ", ctx"), ("describe_key", ", target")])
def test_a_text_that_is_more_than_a_text_is_said(install: Install, hook: str, arguments: str) -> None:
    install({"sly": answering(hook, arguments, "type('Sly', (str,), {'encode': lambda self, *how: 5})('x')")})
    with pytest.raises(ZelligeError, match=f"its hook {hook} answered a Sly, a kind of str; expected a str itself") as caught:
        works("sly")
    assert caught.value.code == "E703" and "'sly'" in str(caught.value)
    assert works("cpu")


def test_devices_of_wrong_types_are_not_available(install: Install) -> None:
    found = install({"odd": answering("probe", "", "(contract.Device(name=None, index='0', target=5),)")})
    answer = found.named("odd").devices
    assert isinstance(answer, Unavailable)
    assert "probe[0].name is None, expected str; probe[0].index is '0', expected int" in answer.reason
    assert works("cpu")


@pytest.mark.parametrize(
    ("hook", "arguments", "answer"),
    [
        ("describe", ", target", "contract.Capabilities(target='moon')"),
        ("describe", ", target", "None"),
        ("emit", ", planned, ctx", "'x'"),
        ("compile", ", emitted", "Binary(data=b'', format='acme')"),
    ],
)
def test_a_wrong_answer_names_the_line_of_its_hook(install: Install, hook: str, arguments: str, answer: str) -> None:
    source = answering(hook, arguments, answer)
    line = next(at for at, text in enumerate(source.splitlines(), 1) if f"def {hook}(" in text)
    install({"odd": source})
    with pytest.raises(ZelligeError, match="E703") as caught:
        works("odd")
    (note,) = (one for one in caught.value.diagnostics[0].notes if one.message == f"its hook {hook} begins here")
    assert note.span is not None
    assert (Path(note.span.file).name, note.span.line) == ("plug_odd.py", line)


def test_too_many_devices_are_said_before_they_are_looked_at(install: Install) -> None:
    many = "tuple(contract.Device(name='d', index=i, target=self.name) for i in range(20_000))"
    answer = install({"many": answering("probe", "", many)}).named("many").devices
    assert isinstance(answer, Unavailable)
    assert answer.reason == "probe answered 20000 items, more than 10000"


@pytest.mark.parametrize("answer, words", [("['nvc']", "tools answered str"), ("7", "tools answered int"), ("1 / 0", "ZeroDivisionError"),
                                           ("(contract.Tool(name=3, purpose='compiles'),)", "Tool.name is 3, expected str")])  # fmt: skip
def test_wrong_tools_are_a_fault_among_the_tools(install: Install, answer: str, words: str) -> None:
    found = install({"worker": answering("tools", "", answer)})
    (report,) = [handle.report(with_tools=True) for handle in found.backends if handle.manifest.name == "worker"]
    assert words in report.tools[0].problem


def test_of_two_versions_the_first_on_the_path_counts(install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install({"twice": manifest("version='1'")})
    older = tmp_path / "older"
    older.mkdir()
    (older / "plug_twice.py").write_text("raise RuntimeError('the other one')")
    info = older / "plug_twice-0.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plug-twice\nVersion: 0.9\n")
    (info / "entry_points.txt").write_text("[zellige.backends]\ntwice = plug_twice:backend\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(older)])
    found = install({})
    assert [handle.manifest.version for handle in found.backends if handle.manifest.name == "twice"] == ["1"]
    assert works("twice")


@pytest.mark.parametrize(
    "points",
    [b"\xff\xfe zellige.backends", b"zellige.backends without a section", b"[zellige.backends]\nno value\n", b"[zellige.backends]\nx = \n",
     b"[zellige.backends]\nx = :::\n", b"[zellige.backends]\n" + b"y" * 1_000_000],
)  # fmt: skip
def test_a_garbled_list_of_entry_points_disturbs_nobody(install: Install, site: Path, points: bytes) -> None:
    info = site / "garbled-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_bytes(points)
    found = install({"fine": backend("")})
    assert "fine" in found.target_names()
    assert all("entry_points.txt cannot be read" in entry.traceback for entry in found.quarantined if entry.origin.name == "garbled")
    assert works("fine")
    assert works("cpu")


ENDS = {
    "exits": ("import os\nos._exit(7)", "the process that loaded it ended with exit code 7"),
    "dies": ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "the process that loaded it was ended by SIGSEGV"),
    "hangs": (
        "import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'])\ntime.sleep(300)",
        "loading it took more than 2 s",
    ),
}
ASK = """
from zellige.plugin import loading, probing
limits = {"hangs": 2}  # the others end by themselves, however busy the machine is
loading.isolated_once = lambda origin, seconds: probing.isolated_once(origin, limits.get(origin.name, 600))
from zellige.plugin.registry import registry
print(registry().resolve("auto"), *sorted(registry().target_names()))
for entry in registry().quarantined:
    print(entry.error)
"""


def test_modules_that_end_or_hold_the_process_are_set_aside_when_asked(install: Install) -> None:
    install({"fine": backend(""), **{name: source for name, (source, _) in ENDS.items()}})
    environment = {**os.environ, "ZELLIGE_ISOLATE_PROBES": "1", "ZELLIGE_TARGET": "cpu"}  # whatever accelerators are installed
    done = subprocess.run([sys.executable, "-c", ASK], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("cpu ")
    assert "fine" in done.stdout.splitlines()[0].split()
    for name, (_, words) in ENDS.items():
        assert f"error E701: the backend '{name}'" in done.stdout
        assert words in done.stdout


class Told(logging.Handler):
    """Keeps what is said, and ``is_said`` then: the backend waits for that."""

    def __init__(self) -> None:
        super().__init__()
        self.is_said = False
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self.is_said = True


UNTIL_SAID = (
    "import time\n{0}from zellige.log import logger\n{0}told = next(one for one in logger().handlers if hasattr(one, 'is_said'))\n"
    "{0}told.is_said = False\n{0}while not told.is_said:\n{0}    time.sleep(0.01)\n"
)


def test_who_is_waited_for_is_said(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zellige.plugin.probing.PATIENCE_SECONDS", 0.05)
    told = Told()
    monkeypatch.setattr(logger(), "handlers", [*logger().handlers, told])
    compiling = "    " + UNTIL_SAID.format("    ") + "    return AcmeBackend.compile(self, emitted)"
    install({"slow": UNTIL_SAID.format("") + backend("@hookimpl\ndef compile(self, emitted):\n" + compiling)})
    assert works("slow")
    for doing in ("loading", "in its hook compile"):
        words = rf"the backend 'slow' has been {doing} for [\d.]+ s, now at .*plug_slow\.py:\d+ in "
        assert any(re.match(words, line) for line in told.lines), told.lines


def test_noise_and_threads_of_a_backend_do_not_hide_its_answer(install: Install) -> None:
    quiet = (  # the thread is started in the process that is asked alone: this one would wait for its end
        "import sys, threading, time\nsys.stdout.write('x' * 2_000_000)\n"
        "if getattr(sys.modules['__main__'].__spec__, 'name', '') == 'zellige.plugin.probing':\n"
        "    threading.Thread(target=time.sleep, args=(300,)).start()\n"
    )
    found = install({"noisy": quiet + answering("probe", "", "(contract.Device(name='card', index=0, target='noisy'),)")})
    (report,) = found.isolated_reports(600, frozenset(("noisy",)))
    assert [device.name for device in report.devices] == ["card"], report
