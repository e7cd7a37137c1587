"""More ways to be broken: sizes, names, other versions of the contract's types, other packages' names, what is printed, what never ends."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from broken_sources import HEAD, answering, backend, copying, described, manifest, works
from click.testing import CliRunner

import zellige as zl
import zellige.language as T
from zellige.cli.main import group
from zellige.diagnostics import ZelligeError
from zellige.log import logger
from zellige.plugin.contract import Unavailable
from zellige.plugin.registry import Registry

Install = Callable[..., Registry]

OLD_CONTRACT = """
import importlib.util, sys
import zellige.plugin.choices as choices
spec = importlib.util.spec_from_file_location("choices_of_old", choices.__file__)
old = sys.modules["choices_of_old"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(old)
"""

AT_LOADING: dict[str, tuple[str, str, str]] = {
    "huge": (manifest("options=tuple(map(str, range(30_000)))"), "E703", "manifest.options has 30000 items, more than the 10000"),
    "huge_text": (manifest("summary='s' * 3_000_000"), "E703", "manifest.summary has 3000000 characters, more than the 10000"),
    "foreign_alias": (manifest("aliases=(('größe', 'foreign_alias'),)"), "E703", "'größe' is no target name"),
    "half_a_pair": (manifest("summary='\\ud800'"), "E703", "manifest.summary is '\\ud800', which holds characters that are no text"),
    "later": (backend("@hookimpl\nasync def emit(self, planned, ctx): ..."), "E703", "its hook emit is a coroutine, and hooks answer"),
    "later_and_more": (
        backend("@hookimpl\nasync def passes(self, stage, ctx):\n    yield 1"),
        "E703",
        "its hook passes is a coroutine, and hooks answer at once",
    ),
    "true_version": (backend("API = (True, False)"), "E703", "its API is (True, False), expected (major, minor)"),
    "three_numbers": (backend("API = (1, 0, 0)"), "E703", "its API is (1, 0, 0), expected (major, minor)"),
    "patches": (
        "import zellige, zellige.language\nzellige.compile = None\nzellige.language.copy = print\n" + backend(""),
        "E703",
        "loading it replaced zellige.compile, zellige.language.copy, which is not its own; that was undone",
    ),
    "patches_a_class": (
        "import zellige.plugin.registry as r\nr.Registry.resolve = lambda self, target, device=None: None\n" + backend(""),
        "E703",
        "loading it replaced zellige.plugin.registry.Registry.resolve, which is not its own",
    ),
    "replaces_a_constant": ("import zellige.driver as d\nd.PIPELINE = ()\n" + backend(""), "E703", "replaced zellige.driver.PIPELINE"),
    "finds_nothing": ("import sys\nsys.path.clear()\nsys.meta_path = []\n" + backend(""), "E703", "replaced sys.path, sys.meta_path"),
    "removes": ("import zellige\ndel zellige.jit\n" + backend(""), "E703", "loading it replaced zellige.jit, which is not its own"),
    "patches_and_fails": (
        "import zellige\nzellige.compile = None\nraise OSError('no card')",
        "E701",
        "OSError: no card",
    ),
    "module_alone": ("import acme_machine", "E701", "has no attribute 'backend'"),
}
"""Name to source, code and words of the error that asking for its target gives."""

AT_COMPILING: dict[str, tuple[str, str, str]] = {
    "lazy_passes": (
        backend("@hookimpl\ndef passes(self, stage, ctx):\n    yield Insert(step=Seen('x', []))"),
        "E703",
        "its hook passes answered generator, expected a tuple of Insert, Replace or Veto",
    ),
    "endless": (
        backend("@hookimpl\ndef candidates(self, operation, ctx):\n    import itertools\n    return itertools.count()"),
        "E703",
        "its hook candidates answered count for copy 4x8 of float32",
    ),
    "candidate_of_old": (
        OLD_CONTRACT + answering("candidates", ", operation, ctx", "(old.Candidate(name='x', because='y'),)"),
        "E703",
        "its hook candidates answered Candidate of choices_of_old for copy 4x8 of float32, expected a tuple of candidates",
    ),
    "passes_of_old": (
        OLD_CONTRACT + answering("passes", ", stage, ctx", "(old.Insert(step=Seen('x', [])),)"),
        "E703",
        "its hook passes answered Insert of choices_of_old, expected a tuple of Insert, Replace or Veto",
    ),
    "capabilities_of_its_own": (
        backend("@hookimpl\ndef describe(self, target):\n    @dataclass\n    class Capabilities: x: int\n    return Capabilities(1)"),
        "E703",
        "its hook describe answered Capabilities of plug_capabilities_of_its_own, expected Capabilities",
    ),
    "changes_the_operation": (
        backend("@hookimpl\ndef candidates(self, operation, ctx): operation.kind = 'gemm'"),
        "E709",
        "in its hook candidates: FrozenInstanceError",
    ),
    "changes_the_kernel": (
        backend(
            "@hookimpl\ndef candidates(self, operation, ctx):\n"
            "    if operation.kind == 'copy': object.__setattr__(operation.statement, 'dst', operation.statement.src)"
        ),
        "E703",
        "its hooks or passes changed the kernel that they were shown",
    ),
    "pass_changes_the_kernel": (
        backend(
            "@hookimpl\ndef passes(self, stage, ctx):\n    @dataclass(frozen=True)\n    class Sly:\n        name: str = 'sly'\n"
            "        def __call__(self, plan):\n            object.__setattr__(plan.kernel, 'name', 'mine')\n            return plan\n"
            "    return (Insert(step=Sly()),) if stage == 'lower' else ()"
        ),
        "E703",
        "its pass sly changed the program that it was shown",
    ),
    "pass_exits": (
        backend(
            "@hookimpl\ndef passes(self, stage, ctx):\n    @dataclass(frozen=True)\n    class Leave:\n        name: str = 'leave'\n"
            "        def __call__(self, value): raise SystemExit(0)\n    return (Insert(step=Leave()),) if stage == 'layout' else ()"
        ),
        "E718",
        "the pass leave of the backend pass_exits failed: SystemExit: 0",
    ),
    "missing_when_chosen": (
        backend("@hookimpl\ndef runtime(self):\n    import acme_driver\n    return acme_driver"),
        "E709",
        "in its hook runtime: ModuleNotFoundError: No module named 'acme_driver'",
    ),
    "recurses": (backend("@hookimpl\ndef emit(self, planned): return self.emit(planned)"), "E709", "in its hook emit: RecursionError"),
    "leaves": (backend("@hookimpl\ndef compile(self, emitted): raise SystemExit(0)"), "E709", "in its hook compile: SystemExit: 0"),
    "no_text": (answering("emit", ", planned, ctx", "Emitted(text='\\ud800', format='x')"), "E703", "Emitted.text is '\\ud800', which"),
    "no_key": (answering("cache_key", "", "'\\udfff'"), "E703", "cache_key answered '\\udfff', which holds characters that are no text"),
    "one_space_twice": (described("spaces=(Space(name='shared'), Space(name='shared'))"), "E703", "spaces has two of the name 'shared'"),
    "owes_bytes": (described("spaces=(Space(name='shared', bytes=-5), Space(name='global'))"), "E703", "spaces[0].bytes is -5"),
    "to_the_moon": (
        described("copies=(CopyPath(source='*', destination='moon', mechanism='m', engine='vec'),)"),
        "E703",
        "copies[0] names 'moon', which is no memory space of the target",
    ),
    "no_such_engine": (
        answering("candidates", ", operation, ctx", "(Candidate(name='m', because='x', engine='warp drive'),)"),
        "E703",
        "its candidate m of the hook candidates cannot execute the copy 4x8 of float32: the target has no engine warp drive (vec)",
    ),
    "two_plans": (
        answering("passes", ", stage, ctx", "(Insert(step=Seen('plan', [])),) if stage == 'allocate' else ()"),
        "E712",
        "cannot insert the pass 'plan' at the stage 'allocate': the stage has a pass of that name",
    ),
    "answers_in_thousands": (
        answering("candidates", ", operation, ctx", "tuple(Rejection(name=f'r{i}', reason='x' * 5000) for i in range(5000))"),
        "E420",
        "    and 4940 more",
    ),
}


def test_every_kind_is_said_and_disturbs_no_other(install: Install) -> None:
    cases = {**AT_LOADING, **AT_COMPILING}
    assert len(cases) >= 15
    mine = zl.compile, zl.jit, T.copy, Registry.resolve
    found = install({"fine": backend(""), **{name: source for name, (source, _, _) in cases.items()}})
    wrong = []
    for name, (_, code, words) in cases.items():
        with pytest.raises(ZelligeError) as caught:
            works(name)
        text = str(caught.value)
        if caught.value.code != code or words not in text or len(text) > 30_000:
            wrong.append(f"{name}: expected {code} with {words!r}, got {text[:3000]}")
    assert not wrong, "\n\n".join(wrong)
    assert (zl.compile, zl.jit, T.copy, Registry.resolve) == mine
    assert {entry.origin.name for entry in found.quarantined} == set(AT_LOADING)
    assert works("cpu")
    assert works("fine")


@pytest.mark.parametrize("point", ["7up:backend", "no-module", "plug_x:a:b", "zellige_of_nobody:backend", "...:x", "os.path:sep"])
def test_an_entry_point_that_names_no_backend_is_set_aside(point: str, install: Install, site: Path) -> None:
    install({"fine": backend("")})
    info = site / "plug_odd-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plug-odd\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[zellige.backends]\nodd = {point}\n")
    found = install({})
    assert [entry.origin.name for entry in found.quarantined] == ["odd"]
    with pytest.raises(ZelligeError) as caught:
        zl.compile(copying(), target="odd")
    assert caught.value.code in ("E701", "E703")
    assert works("fine")
    assert works("cpu")


def test_two_backends_may_have_a_space_of_one_name(install: Install) -> None:
    """A space is its target's: each says for itself what lies there."""
    install({"one": backend(""), "two": backend("")})

    @T.prim_func
    def moved(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1) as _:
            tile = T.alloc_buffer((8,), "float32", space="acme.l1")
            T.copy(A, tile)
            T.copy(tile, B)

    for target in ("one", "two"):
        a, b = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
        zl.compile(moved, target=target)(a, b)
        assert (a == b).all()
    with pytest.raises(ZelligeError, match="E413"):
        zl.compile(moved, target="cpu")


def test_a_space_holds_the_elements_that_it_says(install: Install) -> None:
    """Tiles of other types are refused where they would live there, and go elsewhere where they need not."""
    spaces = "tuple(contract.Space(name=n, dtypes=d) for n, d in (('global', ()), ('shared', ()), ('acme.l1', ('int8',))))"
    install({"narrow": described(f"spaces={spaces}")})

    def moved(dtype: str, **where: str) -> Any:
        @T.prim_func
        def moved(A: T.Tensor((8,), dtype), B: T.Tensor((8,), dtype)):
            with T.Kernel(1) as _:
                tile = T.alloc_buffer((8,), dtype, **where)
                T.copy(A, tile)
                T.copy(tile, B)

        return moved

    a, b = np.arange(8, dtype=np.int8), np.zeros(8, np.int8)
    zl.compile(moved("int8", space="acme.l1"), target="narrow")(a, b)
    assert (a == b).all()
    with pytest.raises(ZelligeError, match="the memory space acme.l1 .* tile would live, holds elements of int8, not of float32") as caught:
        zl.compile(moved("float32", space="acme.l1"), target="narrow")
    assert caught.value.code == "E414"
    assert "held in global, shared" in str(caught.value)
    zl.compile(moved("float32", space="shared"), target="narrow")


LOUD = "print('loading')\n" + HEAD + """
    @hookimpl
    def probe(self):
        print('looking')
        return (contract.Device(name='card', index=0, target='loud'),)
    @hookimpl
    def describe(self, target):
        print('describing')
        return AcmeBackend.describe(self, target)
backend = Broken('loud')
"""


@pytest.mark.parametrize("command", [["list", "--json"], ["doctor", "loud", "--json"], ["describe", "loud", "--json"]])
def test_what_a_backend_prints_is_no_part_of_an_answer(command: list[str], install: Install) -> None:
    install({"loud": LOUD})
    done = CliRunner().invoke(group, ["backends", *command])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert answer["target"] == "loud" if command[0] == "describe" else any(one["name"] == "loud" for one in answer)


def test_a_probe_that_prints_finds_its_devices(install: Install) -> None:
    devices = install({"loud": LOUD}).named("loud").devices
    assert not isinstance(devices, Unavailable)
    assert [device.name for device in devices] == ["card"]


def test_a_pass_that_does_not_end_is_named_while_it_is_waited_for(
    install: Install, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody can end it for a user, who ends the process; but nobody has to guess what it is that takes so long."""
    monkeypatch.setattr("zellige.plugin.probing.PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(logger(), "propagate", True)
    install({"slow": backend(
        "@hookimpl\ndef passes(self, stage, ctx):\n    @dataclass(frozen=True)\n    class Ponder:\n        name: str = 'ponder'\n"
        "        def __call__(self, value):\n            import time\n            time.sleep(0.4)\n            return value\n"
        "    return (Insert(step=Ponder()),) if stage == 'layout' else ()"
    )})  # fmt: skip
    assert works("slow")
    said = [record.getMessage() for record in caplog.records]
    place = r"now at .*plug_slow\.py:\d+ in __call__"
    assert any(re.fullmatch(rf"the pass ponder of the backend slow has been running for [\d.]+ s, {place}", line) for line in said), said


def test_ctrl_c_ends_a_hook_and_says_which(install: Install, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(logger(), "propagate", True)
    install({"endless": backend(
        "@hookimpl\ndef compile(self, emitted):\n    import signal\n    signal.raise_signal(signal.SIGINT)\n    while True: pass"
    )})  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        works("endless")
    said = [record.getMessage() for record in caplog.records]
    assert any(re.fullmatch(r"interrupted: the backend 'endless' has been in its hook compile for \d+\.\d s", line) for line in said), said
    assert works("cpu")


@pytest.mark.parametrize(
    ("patch", "what"),
    [
        ("import zellige.generate.campaign as c\nc.run_campaign = print", "zellige.generate.campaign.run_campaign"),
        ("import zellige.generate.program as p\np.Program.__eq__ = lambda one, two: True", "zellige.generate.program.Program.__eq__"),
    ],
)
def test_modules_that_a_backend_loads_itself_are_watched_too(patch: str, what: str, install: Install) -> None:
    """In a process of its own, where nobody has loaded them before."""
    install({"patches": f"{patch}\n{backend('')}"})
    ask = (
        "import sys\nfrom zellige.plugin.registry import registry\n"
        "assert not any(name.startswith('zellige.generate') for name in sys.modules)\n"
        "print(*[entry.error for entry in registry().quarantined])\n"
        f"import {what.rpartition('.')[0].removesuffix('.Program')}\n"
        "print([f for f in sys.meta_path if f.__class__.__module__.startswith('zellige')])\n"
    )
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert f"loading it replaced {what}, which is not its own; that was undone" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
