"""Writes tests/package/public_signatures.txt: every public name of the plugin contract and of the Python API, with its signature.

``python tools/public_signatures.py``. In: the contract's declarations and ``zellige.__all__``. Out: the file, whose first line has the
versions of the contract, of the capabilities' schema, of the tile IR and of the API. A signature of the contract that was there and has
changed or gone is refused without a step of the contract's major (exit code 1), one of the API without a step of the API's version,
whose minor counts before 1.0; an addition is not. Before the first release nobody can hold on to a signature: ``--unreleased`` writes the
list as it is then, and is refused once the changelog has a release.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import zellige
from zellige.ir.syntax import VERSION
from zellige.plugin import capabilities, choices, contract, hooks
from zellige.plugin.capabilities import SCHEMA_VERSION

CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"
FILE = Path(__file__).parents[1] / "tests" / "package" / "public_signatures.txt"
API_VERSION = ".".join(zellige.__version__.split(".")[:2])


def versions() -> str:
    """The first line of the file."""
    numbers = [f"{a}.{b}" for a, b in (contract.API, SCHEMA_VERSION, VERSION)]
    return f"contract {numbers[0]}, capabilities {numbers[1]}, tile IR {numbers[2]}, API {API_VERSION}"


def lines() -> list[str]:
    """The versions, then one line a name, sorted."""
    found: dict[str, str] = {}
    for name, function in vars(hooks.BackendHooks).items():
        if inspect.isfunction(function):
            found[f"hook {name}"] = str(inspect.signature(function)).replace("(self, ", "(").replace("(self)", "()")
    for module in (capabilities, choices, contract):
        for name in _names(module):
            for key, text in _described(name, getattr(module, name)):
                found[f"contract {key}"] = text
    for name in zellige.__all__:
        if name != "__version__":
            for key, text in _described(name, getattr(zellige, name)):
                found[f"zellige.{key}"] = text
    return [versions(), *(f"{key} {text}".rstrip() for key, text in sorted(found.items()))]


def _names(module: Any) -> list[str]:
    own = [n for n, v in vars(module).items() if not n.startswith("_") and getattr(v, "__module__", module.__name__) == module.__name__]
    return sorted({*own, *getattr(module, "__all__", ())} - {"annotations", "TYPE_CHECKING"})


def _described(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if inspect.isclass(value):
        yield name, "class"
        if dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                kind = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
                yield f"{name}.{field.name}", f": {kind}{'' if _is_required(field) else ' = default'}"
        for method, function in vars(value).items():
            if not method.startswith("_") and inspect.isfunction(function):
                yield f"{name}.{method}", str(inspect.signature(function))
            elif not method.startswith("_") and isinstance(function, property):
                yield f"{name}.{method}", "property"
    elif inspect.ismodule(value):
        yield name, "module"
    elif callable(value) and not get_args(value):
        yield name, str(inspect.signature(value))
    elif get_args(value):
        yield name, f"= {value}"
    else:
        yield name, type(value).__name__


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def refused(old: list[str], new: list[str]) -> list[str]:
    """The lines that a new list lacks though their version is the same: what may not be written."""
    if not old:
        return []
    kept = [_stated(one) == _stated(other) for one, other in zip(old[0].split(", "), new[0].split(", "))]
    is_kept = {"contract": kept[0], "hook": kept[0], "zellige": kept[3]}
    present = set(new)
    return [line for line in old[1:] if line not in present and is_kept[line.partition(" ")[0].partition(".")[0]]]


def _stated(version: str) -> str:
    """What a version of the first line promises: its major, before 1.0 its minor too."""
    name, _, number = version.rpartition(" ")
    major = number.partition(".")[0]
    return f"{name} {number}" if major == "0" else f"{name} {major}"


def is_released() -> bool:
    """Whether the changelog has a release."""
    headings = re.findall(r"^## .*$", CHANGELOG.read_text(encoding="utf-8"), re.MULTILINE)
    return any("not released" not in heading for heading in headings)


def main() -> int:
    """Write the file, or say which signatures need a step of their version."""
    old = FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []
    new = lines()
    changed = refused(old, new)
    if changed and ("--unreleased" not in sys.argv[1:] or is_released()):
        print("changed or gone without a step of the version:", *changed, sep="\n  ")
        return 1
    FILE.write_text("\n".join(new) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
