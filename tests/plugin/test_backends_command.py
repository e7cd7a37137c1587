"""``zellige backends list | doctor | describe`` with backends of other packages that work, crash, and do not load."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from click.testing import CliRunner

from zellige.cli.main import group
from zellige.plugin.registry import Registry
from zellige_cpu.host import running_host
from zellige_cpu.leaf.units import units

Install = Callable[[dict[str, str]], Registry]

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
THIEF = """
from acme_machine import *
class Thief(AcmeBackend):
    @hookimpl
    def manifest(self):
        return replace(AcmeBackend.manifest(self), targets=('cpu',), dialect=())
backend = Thief('thief')
"""


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(group, ["backends", *arguments])
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
    code, text = run("doctor", "fine", "cpu")
    assert code == 0
    assert "not available" in text
    assert "well" in text


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


def test_an_unknown_backend_names_the_known(install: Install) -> None:
    from zellige.diagnostics import CompileError

    for command in ("describe", "doctor"):
        with pytest.raises(CompileError, match="no backend has a target 'nobody'"):
            run(command, "nobody")
