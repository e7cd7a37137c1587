"""``zellige new-backend``: a vendor's first hour, as a new user would spend it."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from click.testing import CliRunner

from zellige.cli.main import group
from zellige.cli.new_backend import write_package
from zellige.diagnostics import CompileError
from zellige.plugin.contract import ENTRY_POINT_GROUP

PAGE = Path(__file__).parents[2] / "docs" / "write-a-backend.md"


MODULES = {"zellige": ("-c", "from zellige.cli.main import main; main()"), "pip": ("-m", "pip"), "pytest": ("-m", "pytest")}


def environment_of(top: Path) -> Path:
    """The Python of a virtual environment of its own in ``top``, which sees what is installed where the tests run: what they need is there
    already, and no index is asked. Backends of other packages, which may have the names of the manual's, are not seen."""
    python = top / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(top / "venv")], check=True)
        (packages,) = (top / "venv" / "lib").glob("python*/site-packages")
        around = [without_others(Path(entry), top / f"around{at}") for at, entry in enumerate(sys.path) if entry.endswith("site-packages")]
        lines = [f"import site; site.addsitedir({str(place)!r})\n" for place in around]
        (packages / "around.pth").write_text("".join(lines), encoding="utf-8")
    return python


def without_others(place: Path, view: Path) -> Path:
    """A folder of installed packages; where there are backends of other packages in it, one with links to all the rest."""
    found = importlib.metadata.distributions(path=[str(place)])
    others = [one for one in found if one.name != "zellige" and one.entry_points.select(group=ENTRY_POINT_GROUP)]
    if not others:
        return place
    hidden = {file.parts[0] for one in others for file in one.files or ()}
    view.mkdir()
    for entry in place.iterdir():
        if entry.name not in hidden:
            (view / entry.name).symlink_to(entry)
    return view


def run(command: str, top: Path) -> str:
    """A command of the manual, as it is written there, in the folder ``top`` and its environment."""
    words = shlex.split(command)
    if words[0] in MODULES:
        words = [str(environment_of(top)), *MODULES[words[0]], *words[1:]]
    ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}  # its workers would be started for 5 tests
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    offline["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # a vendor installs none of those that are here
    done = subprocess.run(words, env={**ours, **offline, "COLUMNS": "160"}, capture_output=True, text=True, check=False, cwd=top)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


OTHER = """
from zellige.plugin.contract import API, Device, Manifest
from zellige.plugin.hooks import hookimpl
class Other:
    API = API
    @hookimpl
    def manifest(self):
        name = __name__
        takes = {"framework_devices": ("cpu",), "dlpack_devices": (1,)}
        return Manifest(name=name, vendor="x", version="1", kind="accelerator", targets=(name,), **takes)
    @hookimpl
    def probe(self):
        return (Device(name="x", index=0, target=__name__),)
backend = Other()
"""


def install_other(name: str, top: Path) -> None:
    """Another accelerator in the environment of ``top``, which takes arrays of the host as well."""
    (packages,) = (top / "venv" / "lib").glob("python*/site-packages")
    (packages / f"{name}.py").write_text(OTHER, encoding="utf-8")
    info = packages / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[zellige.backends]\n{name} = {name}:backend\n", encoding="utf-8")


def section(title: str) -> str:
    return PAGE.read_text(encoding="utf-8").split(f"## {title}\n")[1].split("\n## ")[0]


def follow(text: str, top: Path) -> list[str]:
    """Run the commands of a part of the manual in a folder; the output must be what the manual shows. Where a command says what comes next,
    that is what the manual does next. What each printed."""
    lines = "".join(re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL)).splitlines()
    commands = [line[2:] for line in lines if line.startswith("$ ")]
    printed: list[str] = []
    for line in lines:
        if line.startswith("$ "):
            printed.append(run(line[2:], top))
            _, is_told, told = printed[-1].partition("Next:\n")
            coming = [one.strip() for one in told.splitlines()]
            assert coming == commands[len(printed) :][: len(coming)] and bool(coming) is bool(is_told), "the manual goes on otherwise"
        else:
            assert line in printed[-1], f"{line!r} is not in\n{printed[-1]}"
    return printed


def explained(printed: list[str]) -> list[str]:
    """What the commands that explain a kernel printed."""
    return [text for text in printed if "what executes the product" in text]


def test_the_first_hour_and_the_tuned_product_are_as_the_manual_says(tmp_path: Path) -> None:
    """One test, so that the package is built and installed by one process only."""
    printed = follow(section("A vendor's first hour").split("\n### ")[0], tmp_path)
    assert len(printed) == 11
    before, after = explained(printed)
    assert "16x16x16" in before and "16x16x16" not in after
    for name in ("firstother", "secondother"):
        install_other(name, tmp_path)
    assert "5 passed" in run("pytest -q zellige-acme", tmp_path), "its tests hold beside other accelerators"
    (code,) = re.findall(r"```python\n(.*?)```", section("To a tuned GEMM"), flags=re.DOTALL)
    (tmp_path / "tuned.py").write_text(f"if __name__ == '__main__':\n{textwrap.indent(code, '    ')}", encoding="utf-8")
    run(f"{environment_of(tmp_path)} tuned.py", tmp_path)


def test_the_first_hour_with_lanes_is_as_the_manual_says(tmp_path: Path) -> None:
    printed = follow(section("A vendor's first hour").split("\n### ")[1], tmp_path)
    assert len(printed) == 10
    before, after = explained(printed)
    assert "16x16x16" in before and "16x16x16" not in after


@pytest.mark.parametrize("family, count", [("vector", 13), ("simt", 11)])
def test_nothing_of_the_template_s_name_is_left(family: str, count: int, tmp_path: Path) -> None:
    folder = write_package("acme", family, tmp_path)
    texts = {path: path.read_text(encoding="utf-8") for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert len(texts) == count
    assert not [path for path, text in texts.items() if re.search("template|copies it", text, re.IGNORECASE) and path.name != "README.md"]
    assert not [path for path, text in texts.items() if path.parent.name != "zellige_acme" and "NAME" in text]
    assert 'NAME: Final = "acme"' in texts[folder / "zellige_acme" / "backend.py"]


@pytest.mark.parametrize(
    "name",
    [
        "cpu",
        "llvm",
        "interp",
        "auto",
        "test",
        "intrinsics",
        "template_simt",
        "Acme",
        "größe",
        "a-b",
        "1st",
        "class",
        "",
        "acme_",
        "a" * 65,
        "zellige",
        "numpy",
        "queue",
    ],  # fmt: skip
)
def test_a_name_that_cannot_be_used_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="E750"):
        write_package(name, "vector", tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_to_do_next_can_be_copied_also_where_a_path_has_spaces(tmp_path: Path) -> None:
    top = tmp_path / "a path; with 'spaces'"
    top.mkdir()
    told = CliRunner().invoke(group, ["new-backend", "acme", "--into", str(top)]).output.splitlines()
    assert shlex.split(told[1]) == ["pip", "install", "-e", f"{top}/zellige-acme[dev]"]
    assert shlex.split(told[3]) == ["pytest", "-q", f"{top}/zellige-acme"]
    assert shlex.split(told[4]) == ["zellige", "explain", f"{top}/zellige-acme/tests/kernels.py:gemm", "--target", "acme"]


def test_a_folder_with_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "zellige-acme").mkdir()
    (tmp_path / "zellige-acme" / "mine").write_text("work", encoding="utf-8")
    with pytest.raises(CompileError, match="E751: .*zellige-acme is there already"):
        write_package("acme", "vector", tmp_path)
    assert [path.name for path in (tmp_path / "zellige-acme").iterdir()] == ["mine"]


def test_a_family_without_a_starting_point_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="E752: .*'queue'"):
        write_package("acme", "queue", tmp_path)
    assert not list(tmp_path.iterdir())
