"""``zellige new-backend``: a vendor's package, written from the starting point of a family of machines.

In: a name, a family, a folder. Out: a folder ``zellige-NAME`` with a package that installs beside Zellige, is discovered and passes its
own tests. The template is found as every backend is, by its entry point; the starting points of other families are packages beside it. The
files of one are copied with the name in place of its own, and what stands around a package (pyproject, README, tests, CI) is made from the
template's folder ``skeleton``, in which NAME stands for the name.
"""

from __future__ import annotations

import keyword
import re
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Final

import click

from zellige.cli.writing import writing
from zellige.diagnostics import catalogue
from zellige.plugin.registry import registry
from zellige.target import AUTO, Target

if TYPE_CHECKING:
    from importlib.abc import Traversable

TEMPLATE: Final = "template"
"""The target of the backend that new ones are copied from."""

FAMILIES: Final = {"vector": "", "simt": "_simt"}
"""The families that have a starting point, and what the name of its package adds to the template's."""

KERNELS: Final = "tests/kernels.py"

AROUND: Final = {
    "pyproject.toml": "pyproject.toml",
    "README": "README.md",
    "ci.yml": ".github/workflows/tests.yml",
    "gitignore": ".gitignore",
    "kernels.py": KERNELS,
    "test_backend": "tests/test_backend.py",
}
"""The files around the package: in the skeleton, with the family's own before those of all, and in the folder that is written."""

_NAME: Final = re.compile(r"[a-z]([a-z0-9_]*[a-z0-9])?")
_LONGEST: Final = 64
"""Characters of a target's name; a distribution's may be longer."""


@click.command("new-backend")
@click.argument("name")
@click.option("--family", default="vector", show_default=True, help=f"What it starts from: {', '.join(FAMILIES)}.")
@click.option("--into", default=".", show_default=True, type=click.Path(file_okay=False, path_type=Path), help="Where the folder is made.")
def new_backend(name: str, family: str, into: Path) -> None:
    """Write a package for a backend of your own: of a machine with vectors, or of one with lanes (simt).

    NAME becomes the target's name; the package is zellige_NAME in the folder zellige-NAME.
    """
    folder = write_package(name, family, into)
    click.echo(f"{folder}: the backend {name}. Next:")
    for command in next_commands(name, folder):
        click.echo(f"  {command}")


def next_commands(name: str, folder: Path) -> tuple[str, ...]:
    """What a vendor does first with the package, as a shell takes it: install it with what its tests need, look at it, test it."""
    kernel = quote(f"{folder / KERNELS}:gemm")
    return (
        f"pip install -e {quote(f'{folder}[dev]')}",
        f"zellige backends doctor {name}",
        f"pytest -q {quote(str(folder))}",
        f"zellige explain {kernel} --target {name}",
    )


def write_package(name: str, family: str, into: Path) -> Path:
    """The folder that was written. Raises E750 for a name that cannot be used, E751 for a folder with files, E752 for another family."""
    if family not in FAMILIES:
        raise catalogue.E752.error(family=family, families=", ".join(FAMILIES))
    reason = _unfit(name)
    if reason:
        raise catalogue.E750.error(name=name, reason=reason)
    folder = into / f"zellige-{name}"
    with writing(folder):  # which may be a name that no file can have
        is_taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    if is_taken:
        raise catalogue.E751.error(folder=str(folder))
    template = registry().backend(Target(name=TEMPLATE)).package
    package = template + FAMILIES[family]
    written = {
        f"zellige_{name}/{file.name}": _renamed(_text(file), package, name) for file in files(package).iterdir() if _is_source(file)
    }
    written[f"zellige_{name}/py.typed"] = ""
    skeleton = files(template) / "skeleton"
    for source, place in AROUND.items():
        own, shared = (skeleton / f"{source}{ending}.txt" for ending in (f".{family}", ""))
        written[place] = _text(own if own.is_file() else shared).replace("NAME", name)
    with writing(folder):
        for place, text in written.items():
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).write_text(text, encoding="utf-8")
    return folder


def _unfit(name: str) -> str:
    """Why a name cannot be a backend's; empty where it can."""
    from zellige.explain import TEST_PREFIX

    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        return "is no lower-case identifier of letters, digits and underscores between them"
    if len(name) > _LONGEST:
        return f"has {len(name)} characters, more than the {_LONGEST} of a target's name"
    if name == AUTO:
        return "means the choice of a target"
    if name == TEST_PREFIX:
        return "begins the names of machines that plans are tested with"
    taken = {*registry().target_names(), *(report.name for report in registry().reports())}
    if name in taken:
        return "is taken by a backend that is installed here"
    found = find_spec(name)
    if found is not None and found.origin is not None:  # a folder without a file __init__ has none
        return f"is that of a module which is installed here, and would be taken for it: {found.origin}"
    return f"is taken: a package zellige_{name} is installed here" if find_spec(f"zellige_{name}") is not None else ""


def _is_source(file: Traversable) -> bool:
    return file.is_file() and file.name.endswith(".py")


def _text(file: Traversable) -> str:
    return file.read_text(encoding="utf-8")


def _renamed(text: str, package: str, name: str) -> str:
    """A file of the template as one of the new package."""
    title = "".join(part.capitalize() for part in name.split("_"))
    text = text.replace(package, f"zellige_{name}").replace(f'"{TEMPLATE}"', f'"{name}"').replace('vendor="zellige"', f'vendor="{title}"')
    text = text.replace(TEMPLATE.capitalize(), title).replace(f"the machine of the {TEMPLATE}", f"the simulated {name}")
    beginning = f'"""The backend {name}, written by ``zellige new-backend {name}``.\n'
    return re.sub(r'\A"""[^"]*?copies it\.\n', lambda _: beginning, text, count=1)
