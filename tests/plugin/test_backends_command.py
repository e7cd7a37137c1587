"""``zellige backends list | doctor | describe`` with backends of other packages that work, crash, and do not load."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from broken_sources import backend, works
from click.testing import CliRunner

from zellige.cli.main import group, main
from zellige.diagnostics import CompileError
from zellige.diagnostics.printable import visible
from zellige.options import options
from zellige.plugin.registry import Registry, registry
from zellige_cpu.host import running_host
from zellige_cpu.leaf.units import units

Install = Callable[[dict[str, str]], Registry]

HERE = "@hookimpl\ndef probe(self): return (contract.Device(name='card', index=0, target=self.name),)\n"
FINE = "from acme_machine import *\nbackend = AcmeBackend('fine')\n"
DIES = """
from acme_machine import *
class Dies(AcmeBackend):
    @hookimpl
    def probe(self):
        import os, signal
        os.kill(os.getpid(), signal.SIGSEGV)
backend = Dies('dies')
"""
WRONG = """
from acme_machine import *
class Wrong(AcmeBackend):
    @hookimpl
    def descibe(self, target): ...
backend = Wrong('wrong')
"""
KERNEL = """
import zellige.language as T
@T.prim_func
def copied(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1):
        tile = T.alloc_shared((64,), "float32")
        T.copy(A, tile)
        T.copy(tile, B)
"""
THIEF = """
from acme_machine import *
class Thief(AcmeBackend):
    @hookimpl
    def manifest(self):
        return replace(AcmeBackend.manifest(self), targets=('cpu',), dialect=())
backend = Thief('thief')
"""


def run(*arguments: str) -> tuple[int, str]:
    slowly = ("--seconds", "600") if arguments[0] == "doctor" else ()  # nothing here hangs, and the machine may be busy
    result = CliRunner().invoke(group, ["backends", *arguments, *slowly])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_doctor_survives_a_crash_and_says_what_is_wrong_with_each(install: Install) -> None:
    install({"fine": FINE, "dies": DIES, "wrong": WRONG, "thief": THIEF})
    code, text = run("doctor", "fine", "dies", "wrong", "thief", "--json")
    found = {entry["name"]: entry for entry in json.loads(text)}
    assert code == 1
    assert {name: entry["is_broken"] for name, entry in found.items()} == {"fine": False, "dies": True, "wrong": True, "thief": True}
    assert "was ended by SIGSEGV" in found["dies"]["unavailable"]["reason"]
    assert "no hook descibe; did you mean describe?" in found["wrong"]["unavailable"]["reason"]
    assert "claims the target cpu of zellige" in found["thief"]["unavailable"]["reason"]


def test_list_survives_a_crash(install: Install) -> None:
    install({"dies": DIES})
    code, text = run("list", "--json")
    (dies,) = (row for row in json.loads(text) if row["name"] == "dies")
    assert (code, dies["unavailable"]["code"]) == (0, "probe-crashed")
    assert not options().isolate_probes


def test_doctor_tells_two_distributions_of_one_entry_point_apart(install: Install, site: Path, announce: Callable[..., Path]) -> None:
    announce(site, "plug-fork", "fine = plug_fine:backend\n")
    install({"fine": FINE})
    code, text = run("doctor", "fine", "--json")
    assert code == 1
    rows = {row["entry_point"]: row["unavailable"]["reason"] for row in json.loads(text)}
    assert {point: reason.rpartition("(")[2] for point, reason in rows.items()} == {
        point: f"{point} is this one)" for point in ("plug_fine: plug_fine:backend", "plug_fork: plug_fine:backend")
    }


@pytest.mark.usefixtures("in_this_process")
def test_doctor_asks_each_of_two_backends_of_one_entry_point(install: Install, site: Path, announce: Callable[..., Path]) -> None:
    """A stranger's may have the name of one of ours, and other hooks."""
    (site / "plug_other.py").write_text(FINE)
    announce(site, "plug-other", "cpu = plug_other:backend\n")
    install({})
    code, text = run("doctor", "cpu")
    assert code == 0
    hooks = {line.partition(":")[0]: line for line in text.splitlines() if ": hooks that answer: " in line}
    assert sorted(hooks) == ["cpu", "fine"]
    assert "describe_key" in hooks["cpu"] and "schedules" not in hooks["cpu"]
    assert "describe_key" not in hooks["fine"] and "schedules" in hooks["fine"]


@pytest.mark.usefixtures("in_this_process")
def test_doctor_says_which_hooks_answer_and_which_are_left(install: Install) -> None:
    install({"fine": FINE})
    code, text = run("doctor", "fine", "cpu")
    assert code == 0
    assert "not available" in text
    assert "well" in text
    asked = "describe, dialect, schedules, cache_key, conformance, passes, candidates, emit"
    assert f"fine: hooks that answer: manifest, probe, {asked}" in text
    assert "fine: not asked: compile, runtime: runs the vendor's tools or a program, as --probe does" in text


@pytest.mark.usefixtures("in_this_process")
def test_doctor_asks_for_what_a_manifest_announces(install: Install) -> None:
    install({"liar": backend("@hookimpl\ndef manifest(self):\n    return replace(AcmeBackend.manifest(self), timers=('tick',))")})
    code, text = run("doctor", "liar", "--json")
    (wrong,) = (one for one in json.loads(text)[0]["hooks"] if one["verdict"] == "does not hold")
    assert (code, wrong["field"]) == (1, "timers")
    assert "its manifest announces the timers tick, for which its hook timers has no function" in wrong["reason"]


FAILING = {
    "describe": ("@hookimpl\ndef describe(self, target):\n    table = {}\n    return table[target.arch]", "describe", "KeyError: ''", 4),
    "emit": ("@hookimpl\ndef emit(self, planned, ctx):\n    from math import sqrt\n    return sqrt(-1)", "emit", "ValueError", 4),
    "fit": ("@hookimpl\ndef fit(self, planned, asked):\n    return 1 / 0", "fit", "ZeroDivisionError", 3),
    "cache_key": ("@hookimpl\ndef cache_key(self):\n    return [][1]", "cache_key", "IndexError", 3),
    "tools": ("@hookimpl\ndef tools(self):\n    raise OSError('no bus')", "tools", "OSError: no bus", 3),
    "begin": ("@hookimpl\ndef begin(self, ctx):\n    raise SystemExit(5)", "begin", "SystemExit: 5", 3),
}
"""What replaces a hook, the hooks that are said to fail, the words, and the line of the failure in what replaces it."""


@pytest.mark.usefixtures("in_this_process")
def test_doctor_asks_the_hooks_and_names_the_line_of_a_failure(install: Install, site: Path) -> None:
    sources = {name: backend(HERE + body) for name, (body, _, _, _) in FAILING.items()}
    install({**sources, "other": backend(HERE)})
    code, text = run("doctor", *FAILING, "other", "--json")
    found = {entry["name"]: entry for entry in json.loads(text)}
    assert (code, {name for name, entry in found.items() if entry["is_broken"]}) == (1, set(FAILING)), text
    assert {one["verdict"] for one in found["other"]["hooks"]} == {"holds", "not checked"}
    for name, (body, hook, words, line) in FAILING.items():
        (wrong,) = [one for one in found[name]["hooks"] if one["verdict"] == "does not hold"]
        assert hook in wrong["field"].split(", ")
        assert words in wrong["reason"]
        at = sources[name].splitlines().index(f"    {body.splitlines()[line - 1]}") + 1
        assert re.search(rf"raised at {site}/plug_{name}\.py:{at}:\d+$", wrong["reason"]), wrong["reason"]
        assert wrong["traceback"].startswith("Traceback") and f'plug_{name}.py", line {at}, in ' in wrong["traceback"]


def test_doctor_says_which_hook_ended_the_process(install: Install) -> None:
    """In real processes, with one that only raises beside it: what those tell is the same as in this one."""
    body, hook, words, _ = FAILING["describe"]
    aborting = backend(f"{HERE}@hookimpl\ndef emit(self, planned, ctx):\n    import os\n    os.abort()")
    install({"aborts": aborting, "describe": backend(HERE + body)})
    code, text = run("doctor", "--json", "aborts", "describe")
    found = {entry["name"]: entry for entry in json.loads(text)}
    assert (code, [entry["is_broken"] for entry in found.values()]) == (1, [True, True]), text
    wrong = {name: one for name, entry in found.items() for one in entry["hooks"] if one["verdict"] == "does not hold"}
    assert "emit" in wrong["aborts"]["field"].split(", ") and "the process was ended by SIGABRT" in wrong["aborts"]["reason"]
    assert wrong["describe"]["field"] == hook and words in wrong["describe"]["reason"]
    assert wrong["describe"]["traceback"].startswith("Traceback")


@pytest.mark.usefixtures("in_this_process")
def test_doctor_prints_what_fails(install: Install) -> None:
    install({"failing": backend(HERE + FAILING["describe"][0])})
    code, text = run("doctor", "failing", "--probe")
    assert code == 1
    for words in ("broken", "does not hold", "KeyError: ''", "failing: not asked: ", "needs what describe answers"):
        assert words in text
    assert text.count("return table[target.arch]") == 1 and "no claim was tried: its target cannot be described" in text


def test_another_backend_s_crash_is_not_said_of_the_one_that_is_asked(install: Install) -> None:
    install({"fine": backend(HERE), "killer": "import os\nos.abort()"})
    code, text = run("doctor", "fine", "--json")
    assert (code, [entry["is_broken"] for entry in json.loads(text)]) == (0, [False]), text


def test_a_failure_in_a_command_names_the_line_and_the_traceback_can_be_seen(
    install: Install, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = backend(HERE + FAILING["emit"][0])
    install({"failing": source})
    at = source.splitlines().index("        return sqrt(-1)") + 1
    file = tmp_path / "kernel.py"
    file.write_text(KERNEL, encoding="utf-8")
    words = ["compile", str(file), "--target", "failing"]

    def said(*more: str) -> str:
        monkeypatch.setattr(sys, "argv", ["zellige", *more, *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 1
        return capsys.readouterr().err

    plain, traced = said(), said("--traceback")
    assert f"note: raised here ({site}/plug_failing.py:{at}:" in plain
    assert "return sqrt(-1)" in plain
    assert f"the whole traceback: zellige --traceback {shlex.join(words)}" in plain
    assert "Traceback" not in plain
    assert "Traceback (most recent call last)" in traced and f'plug_failing.py", line {at}, in emit' in traced


@pytest.mark.usefixtures("in_this_process")
def test_describe_shows_what_a_target_can_do(install: Install) -> None:
    install({"fine": FINE})
    code, text = run("describe", "fine", "--target", "v2", "--json")
    data = json.loads(text)
    assert (code, data["schema"], data["target"]) == (0, "1.0", "fine:v2")
    assert [space["name"] for space in data["spaces"]][-1] == "acme.l1"
    code, text = run("describe", "cpu")
    assert code == 0
    for words in (units(running_host())[0].name.split()[0], "vector moves", "cache_line_bytes", "declared only", "contract"):
        assert words in text


@pytest.mark.usefixtures("in_this_process")
def test_an_architecture_is_printed_as_it_is_written(install: Install) -> None:
    """Words between colons are no pictures, words in brackets no styles."""
    install({"fine": FINE})
    _, text = run("describe", "fine", "--target", "a:b[red]")
    assert "fine:a:b[red]" in text


@pytest.mark.usefixtures("in_this_process")
def test_an_unknown_backend_names_the_known(install: Install) -> None:
    for command in ("describe", "doctor"):
        with pytest.raises(CompileError, match="no backend has a target 'nobody'"):
            run(command, "nobody")


OTHER_NAME = backend(
    HERE + "@hookimpl\ndef manifest(self):\n"
    "    return replace(AcmeBackend.manifest(self), name='maker', targets=('one', 'two'), aliases=(('also', 'two'),), dialect=())\n"
    "@hookimpl\ndef probe(self): return (contract.Device(name='card', index=0, target='one'),)"
)


@pytest.mark.usefixtures("in_this_process")
def test_names_that_doctor_is_given_are_all_found_or_refused(install: Install) -> None:
    """Nobody takes an empty table for a clean bill of health."""
    install({"point": OTHER_NAME})
    for name in ("point", "maker", "two", "also"):
        code, text = run("doctor", name, "--json")
        assert (code, [entry["name"] for entry in json.loads(text)]) == (0, ["maker"]), name
    for name, words in {
        "auto": "no backend has a target 'auto'",
        "cpu:znver4": "did you mean 'cpu'\\?(.|\n)*--target: doctor cpu --target ARCH",
        "makr": "no backend has a target 'makr'; did you mean 'maker'\\?(.|\n)*known targets: .*maker, .*point",
    }.items():
        with pytest.raises(CompileError, match=words) as caught:
            run("doctor", name)
        assert caught.value.code == "E705"


@pytest.mark.usefixtures("in_this_process")
def test_an_entry_point_that_nobody_asks_for_or_that_names_nothing_is_said(install: Install, site: Path) -> None:
    """A group that is misspelt, and a value that calls the object."""
    found = install({"fine": FINE, "called": FINE}, attribute="backend()")
    (_, broken) = found.quarantined
    assert "failed to load: ValueError: its entry point is 'plug_fine:backend()', expected module:attribute" in str(broken.error)
    points = site / "plug_fine-1.0.dist-info" / "entry_points.txt"
    for written, ask in (("zellige.backend", lambda: run("doctor", "fine")), ("ZELLIGE.BACKENDS", lambda: works("fine"))):
        points.write_text(f"[{written}]\nfine = plug_fine:backend\n", encoding="utf-8")
        words = f"; plug-fine has fine in the group '{written}' of entry points, expected 'zellige.backends'"
        registry.cache_clear()
        with pytest.raises(CompileError, match="E705: no backend has a target 'fine'") as caught:
            ask()
        assert words in str(caught.value)


@pytest.mark.usefixtures("in_this_process")
def test_describe_says_of_each_name_what_it_stands_for(install: Install) -> None:
    install({"point": OTHER_NAME})
    for name, target in {"point": "one", "maker": "one", "two": "two", "also": "two", "two:v3": "two:v3"}.items():
        code, text = run("describe", name, "--json")
        assert (code, json.loads(text)["target"]) == (0, target), name


ASKED = "@hookimpl\ndef describe(self, target):\n    "
ENDING = {
    "leaves": (backend(ASKED + "import os\n    os._exit(0)"), "E709", "the process ended with exit code 0"),
    "crashes": (backend(ASKED + "import os\n    os.abort()"), "E709", "the process was ended by SIGABRT"),
    "unloaded": ("import os\nos._exit(0)", "E701", "plug_unloaded:backend\\) failed to load: the process ended with exit code 0"),
    "waits": (backend(ASKED + "import time\n    time.sleep(600)"), "E709", "it took more than 2 s"),
    "raises": (backend(ASKED + "print('about to')\n    return 1 / 0"), "E709", "ZeroDivisionError"),
}


CLOSING = {
    "sys.stdout.close()": "sys.stdout by closing it",
    "sys.stdout.close(); sys.stderr.close()": "sys.stdout by closing it, sys.stderr by closing it",
    "sys.stdout = None": "sys.stdout",
    "os.close(1)": "the file of sys.stdout",
}


@pytest.mark.parametrize("line", CLOSING)
def test_describe_says_of_a_hook_that_it_closes_what_is_printed_to(install: Install, line: str) -> None:
    install({"closing": backend(f"{ASKED}import os, sys; {line}\n    return AcmeBackend.describe(self, target)")})
    result = CliRunner().invoke(group, ["backends", "describe", "closing", "--json"])
    assert isinstance(result.exception, CompileError) and result.exception.code == "E703", result.output
    assert f"its hook describe replaced {CLOSING[line]}, which is not its own; that was undone" in str(result.exception)


def test_describe_survives_what_it_asks(install: Install) -> None:
    install({name: source for name, (source, _, _) in ENDING.items()})
    for name, (_, code, words) in ENDING.items():
        slowly = ("--seconds", "2" if name == "waits" else "600")
        result = CliRunner().invoke(group, ["backends", "describe", name, *slowly])
        assert isinstance(result.exception, CompileError), (name, result.output)
        assert re.search(words, str(result.exception)), str(result.exception)
        assert result.exception.code == code or (name == "waits" and result.exception.code == "E701")  # loading it may take as long
    told = result.exception
    assert "about to" in result.output
    assert [note.kind for note in told.diagnostics[0].notes] == ["raised here"]
    assert "in describe" in str(told.__cause__) and "ZeroDivisionError" in str(told.__cause__)


ORDERS = {
    "red_card": ("probe(self): return (contract.Device(name='\\x1b[31mcard', index=0, target=self.name),)", "probe[0].name is '\\x1b[31m"),
    "below": ("probe(self): return (contract.Device(name='x', index=-5, target=self.name),)", "probe[0].index is -5, less than 0"),
    "owes": ("probe(self): return (contract.Device(name='x', index=0, target=self.name, memory_bytes=-7),)", "memory_bytes is -7, less"),
    "no_instructions": (
        "probe(self): return (contract.Device(name='x', index=0, target=self.name, compute_version=(-1, 0)),)", "compute_version[0] is -1"
    ),
    "of_cpu": ("probe(self): return (contract.Device(name='x', index=0, target='cpu'),)", "'cpu', which is none of its targets"),
    "twins": ("probe(self): return (contract.Device(name='x', index=0, target=self.name),) * 2", "probe has 2 devices 0 of twins"),
    "two_words": ("probe(self): return contract.Unavailable(code='A\\nb', reason='no')", "probe.code is 'A\\nb', expected a name"),
    "red_reason": ("probe(self): return contract.Unavailable(code='no', reason='\\x1b[31mred')", "\\x1b[31mred"),
    "red_failure": ("probe(self): raise OSError('\\x1b]0;title\\x07')", "OSError: \\x1b]0;title\\x07"),
    "red_tool": ("tools(self): return (contract.Tool(name='\\x1b[31mtool', purpose='x'),)", "Tool.name is '\\x1b[31mtool'"),
    "red_problem": ("tools(self): return (contract.Tool(name='tool', purpose='x', problem='\\x1b[31mold\\r'),)", "\\x1b[31mold\\r"),
}  # fmt: skip
"""Name to the hook of a backend and what ``doctor`` says of it."""


def test_no_text_of_a_backend_gives_the_terminal_an_order(install: Install) -> None:
    found = install({name: backend(f"@hookimpl\ndef {hook}") for name, (hook, _) in ORDERS.items()})
    reports = {one.name: one for one in found.reports(with_tools=True)}
    for name, (_, words) in ORDERS.items():
        one = reports[name]
        said = [*(part for tool in one.tools for part in (tool.name, tool.problem)), one.unavailable.reason if one.unavailable else ""]
        assert any(words in visible(text) for text in said), (name, said)
    for command in (["doctor"], ["backends", "list", "--verbose"]):
        printed = CliRunner().invoke(group, command).output
        assert "\\x1b" in printed
        assert re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f]", printed) == [], command


@pytest.mark.usefixtures("in_this_process")
def test_what_an_error_says_gives_the_terminal_no_order(install: Install) -> None:
    install({"raises": backend("@hookimpl\ndef describe(self, target): raise OSError('\\x1b[31m\\u202eno')")})
    with pytest.raises(CompileError) as caught:
        run("describe", "raises")
    printed = str(caught.value)
    assert "OSError: \\x1b[31m\\u202eno" in printed
    assert re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", printed) == []
