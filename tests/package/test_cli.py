"""The command line: what each command prints, and how it fails."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import zellige
from zellige.cli.main import COMMANDS, group
from zellige.diagnostics import catalogue
from zellige.plugin import registry as registry_module
from zellige.plugin.installing import install_command
from zellige.plugin.registry import Origin, Registry, registry

doctor_module = importlib.import_module("zellige.cli.doctor")


def invoke(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(group, list(arguments))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def shell(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command as a user runs it, in a process of its own."""
    import os

    command = [sys.executable, "-c", "from zellige.cli.main import main; main()", *arguments]
    settings = {**os.environ, "COLUMNS": "200", **environment}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=settings)


def test_help_lists_every_command() -> None:
    code, text = invoke("--help")
    assert code == 0
    assert all(f"  {name} " in text for name in COMMANDS)


def test_the_version_is_the_packages() -> None:
    assert invoke("--version") == (0, f"zellige, version {zellige.__version__}\n")


@pytest.mark.parametrize("written", ["E705", "e705", " E705 ", "705"])
def test_explain_error_prints_the_page(written: str) -> None:
    code, text = invoke("explain-error", written)
    assert code == 0
    assert text.startswith("# E705: unknown target\n")
    assert "## What to do" in text


def test_explain_error_explains_every_code() -> None:
    for name in catalogue.CODES:
        assert invoke("explain-error", name)[0] == 0


def test_explain_error_of_an_unknown_code_lists_its_kind() -> None:
    code, text = invoke("explain-error", "E799")
    assert code == 2
    assert "there is no code 'E799'" in text
    assert "E705  unknown target" in text
    code, text = invoke("explain-error", "nonsense")
    assert code == 2
    assert "there is no code 'nonsense'. The first figure of a code is its stage, 1 to 7: E101, E2001." in text


def test_the_list_of_codes_names_a_stage_for_each() -> None:
    """docs/errors/README.md says which codes belong to which stage; none is outside of its ranges."""
    text = (Path(__file__).parents[2] / "docs" / "errors" / "README.md").read_text(encoding="utf-8")
    ranges = [(int(first), int(last)) for first, last in re.findall(r"^\| E(\d+) to E(\d+) \|", text, flags=re.MULTILINE)]
    assert [code for code in catalogue.CODES if sum(first <= int(code[1:]) <= last for first, last in ranges) != 1] == []


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    code, text = invoke("new-backend", "acme", "--into", str(file / "inside"))
    assert (code, text.count("\n")) == (1, 1) and "cannot be written" in text
    code, text = invoke("new-backend", "acme", "--into", "a" * 300)
    assert code == 1 and "cannot be written: File name too long" in text
    assert getattr(CliRunner().invoke(group, ["explain", "a" * 300]).exception, "code", None) == "E742"
    code, text = invoke("fuzz", "--count", "1", "--out", str(file))
    assert code == 2 and "is a file" in text


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_a_time_that_nobody_waits_is_refused(seconds: str) -> None:
    for command in (("describe", "cpu"), ("doctor", "cpu")):
        code, text = invoke("backends", *command, "--seconds", seconds)
        assert code == 2 and "is not in the range" in text


def test_backends_list_shows_state_and_reason() -> None:
    code, text = invoke("backends", "list")
    assert code == 0
    for words in ("cpu", "interp", "not-built", "accelerator"):
        assert words in text


def broken() -> object:
    raise ImportError("no libacme.so")


def test_a_broken_backend_is_listed_with_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    both = Registry([*registry()._origins, Origin(name="acme", value="acme:backend", distribution="acme", load=broken)])
    monkeypatch.setattr(registry_module, "registry", lambda: both)
    monkeypatch.setenv("COLUMNS", "200")
    code, text = invoke("backends", "list", "--verbose")
    assert code == 0
    assert "quarantined" in text
    assert "ImportError: no libacme.so" in text
    code, text = invoke("doctor")
    assert code == 1
    assert "problem: backend acme" in text


def test_doctor_shows_versions_backends_and_settings(
    own_cache: Path, forget: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZELLIGE_NUM_THREADS", "3")
    monkeypatch.setenv("COLUMNS", "300")
    forget()
    code, text = invoke("doctor")
    assert code == 0, text
    for words in ("llvmlite", "cuda-python", "ZELLIGE_NUM_THREADS", str(own_cache), "no problem found"):
        assert words in text


@pytest.mark.parametrize("backend", ["cpu", "cuda", "hip"])
def test_what_a_backend_needs_can_be_installed_by_a_word(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zellige itself, or its extra of the backend's name, brings every requirement; where one is not here, the doctor says the command."""
    needed = registry().named(backend).manifest.requirements
    assert needed
    for requirement in needed:
        (line,) = [x for x in importlib.metadata.requires("zellige") or () if x.startswith(requirement) and "dev" not in x]
        assert ("extra ==" not in line) == (backend == "cpu")
        command = install_command(requirement, backend)
        assert command == (f"pip install {requirement}" if backend == "cpu" else f"pip install 'zellige[{backend}]'")
    found = doctor_module.installed
    monkeypatch.setattr(doctor_module, "installed", lambda name: None if name in needed else found(name))
    monkeypatch.setenv("COLUMNS", "200")
    _, text = invoke("doctor")
    if backend != "cpu":  # without which zellige itself is not whole
        assert f"not installed: pip install 'zellige[{backend}]'" in text


def test_doctor_tries_the_target_of_the_settings(tmp_path: Path) -> None:
    done = shell("doctor", cwd=tmp_path, ZELLIGE_TARGET="hip:gfx942")
    assert done.returncode == 1
    assert "problem: ZELLIGE_TARGET=hip:gfx942: error E706" in done.stdout
    assert "no backend has a target 'nowhere'" in shell("doctor", cwd=tmp_path, ZELLIGE_TARGET="nowhere").stdout


def test_an_error_is_shown_without_a_traceback(tmp_path: Path) -> None:
    done = shell("doctor", cwd=tmp_path, ZELLIGE_NUM_THREADS="many")
    assert done.returncode == 1
    assert done.stderr.startswith("error E741: ZELLIGE_NUM_THREADS='many'")
    assert "Traceback" not in done.stderr


def test_wrong_usage_is_told_from_a_failure(tmp_path: Path) -> None:
    assert shell("nonsense", cwd=tmp_path).returncode == 2
    assert shell("demo", "--nonsense", cwd=tmp_path).returncode == 2


def test_words_in_brackets_are_printed_as_they_are(tmp_path: Path) -> None:
    """Of a kernel's line in a title, of a backend's reason, of a command: none is a style of the console."""
    (tmp_path / "kernels.py").write_text(
        "import zellige.language as T\n\n"
        "@T.prim_func\ndef moved(A: T.Tensor((4, 8), 'float32'), B: T.Tensor((4, 8), 'float32')):\n"
        "    with T.Kernel(4) as bold:\n        row = T.alloc_shared((8,), 'float32')\n"
        "        T.copy(A[bold], row)\n        T.copy(row, B[bold])\n"
    )
    assert "T.copy(A[bold], row)" in shell("explain", "kernels.py", "--target", "cpu", cwd=tmp_path).stdout
