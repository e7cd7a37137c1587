"""The check of what a backend says about itself.

In: the answer of the hook ``manifest``. Out: the same :class:`Manifest`, or E703 that names every field that is wrong.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Final

from zellige.diagnostics import catalogue
from zellige.ir.syntax import VERSION
from zellige.plugin.contract import Manifest
from zellige.plugin.fields import shortened, type_problems
from zellige.target import AUTO

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,63}")
MOST_PROBLEMS: Final = 5
"""How many faults of one answer a message names."""

MOST_OF_A_FIELD: Final = 10_000
"""Characters or items of one field."""


def validated(name: str, answer: object, *, is_own: bool) -> Manifest:
    """The manifest, or E703 that says which field is wrong. The types of zellige's own are checked by its tests, not at every start."""
    if not isinstance(answer, Manifest):
        raise catalogue.E703.error(name=name, reason=f"manifest answered {type(answer).__name__}, expected Manifest")
    wrong = () if is_own else (tuple(_size_problems(answer)) or tuple(type_problems(Manifest, answer, "manifest")))
    if wrong:
        raise catalogue.E703.error(name=name, reason="; ".join(wrong[:MOST_PROBLEMS]))
    problems: list[str] = []
    if not answer.targets:
        problems.append("targets is empty")
    problems += [f"{shortened(text)} is no backend's name" for text in (answer.name,) if not _is_name(text) or text == AUTO]
    problems += [f"{shortened(target)} is no target name" for target in answer.targets if not _is_name(target) or target == AUTO]
    problems += [f"{shortened(alias)} is no target name" for alias, _ in answer.aliases if not _is_name(alias) or alias == AUTO]
    problems += [f"{shortened(entry.name)} is no name of the language" for entry in answer.dialect if not entry.name.isidentifier()]
    if answer.ir is not None and answer.ir[0] != VERSION[0]:
        problems.append(f"ir is {answer.ir!r}: this zellige writes tile IR of version {VERSION[0]}.x")
    if problems:
        raise catalogue.E703.error(name=name, reason="; ".join(problems))
    return answer


def _size_problems(answer: Manifest) -> Iterator[str]:
    """What is so large that every start of a program would pay for it."""
    for field in dataclasses.fields(answer):
        value = getattr(answer, field.name)
        if isinstance(value, (str, tuple, list)) and len(value) > MOST_OF_A_FIELD:
            kind = "characters" if isinstance(value, str) else "items"
            yield f"manifest.{field.name} has {len(value)} {kind}, more than the {MOST_OF_A_FIELD} that are read at every start"


def _is_name(text: object) -> bool:
    return isinstance(text, str) and _NAME.fullmatch(text) is not None
