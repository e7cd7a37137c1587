"""The check of what a backend says about itself.

In: the answer of the hook ``manifest``. Out: the same :class:`Manifest`, or E703 that names every field that is wrong.
"""

from __future__ import annotations

import dataclasses
import keyword
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from zellige.diagnostics import catalogue
from zellige.ir.syntax import VERSION
from zellige.options import CompileOptions
from zellige.plugin.contract import DialectName, Manifest
from zellige.plugin.fields import is_line, shortened, type_problems
from zellige.plugin.limits import LONGEST_LINE, MOST_ITEMS
from zellige.target import AUTO

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,63}")
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_OPTION: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.+-]*", re.ASCII)
_PACKAGE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_DISTRIBUTION: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", re.ASCII)
_PATTERNS: Final = {
    "requirements": (_DISTRIBUTION, "distribution"), "code_packages": (_PACKAGE, "package"), "options": (_OPTION, "option"),
    "arch_options": (_OPTION, "option"), "hints": (_WORD, "keyword argument"), "inspections": (_WORD, "method"),
    "timers": (_OPTION, "timer"),
}  # fmt: skip
MOST_PROBLEMS: Final = 5
"""How many faults of one answer a message names."""


def validated(name: str, answer: object, *, is_own: bool) -> Manifest:
    """The manifest, or E703 that says which field is wrong. Those of zellige's own are checked by its tests, not at every start."""
    if not isinstance(answer, Manifest):
        raise catalogue.E703.error(name=name, reason=f"manifest answered {type(answer).__name__}, expected Manifest")
    if is_own:
        return answer
    wrong = tuple(_size_problems(answer)) or tuple(type_problems(Manifest, answer, "manifest"))
    if wrong:
        raise catalogue.E703.error(name=name, reason="; ".join(wrong[:MOST_PROBLEMS]))
    problems: list[str] = []
    if not answer.targets:
        problems.append("targets is empty")
    problems += [f"{shortened(text)} is no backend's name" for text in (answer.name,) if not _is_name(text) or text == AUTO]
    problems += [f"{shortened(target)} is no target name" for target in answer.targets if not _is_name(target) or target == AUTO]
    problems += [f"{shortened(alias)} is no target name" for alias, _ in answer.aliases if not _is_name(alias) or alias == AUTO]
    problems += unspeakable(answer.dialect)
    problems += _odd_names(answer)
    if answer.ir is not None and not (answer.ir[0] == VERSION[0] and 0 <= answer.ir[1] <= VERSION[1]):
        problems.append(f"ir is {answer.ir!r}: this zellige writes tile IR of the versions {VERSION[0]}.0 to {VERSION[0]}.{VERSION[1]}")
    if problems:
        raise catalogue.E703.error(name=name, reason="; ".join(problems))
    return answer


def _odd_names(answer: Manifest) -> Iterator[str]:
    """Names and texts of a stranger's that would be wrong where they are used: in a report, as a target, an import, an attribute."""
    for field in ("vendor", "version", "summary"):
        text = getattr(answer, field)
        if not is_line(text, may_be_empty=True):
            yield f"{field} is {shortened(text)}, expected a line of text"
    for alias, text in answer.aliases:
        if alias in answer.targets:
            yield f"the alias {shortened(alias)} is one of its targets"
        if text.partition(":")[0].split()[:1] not in [[target] for target in answer.targets]:
            yield f"the alias {shortened(alias)} stands for {shortened(text)}, which is none of its targets"
    yield from odd_dialect(answer.dialect, answer.targets)
    for field, (pattern, kind) in _PATTERNS.items():
        is_written = pattern is _WORD
        odd = [name for name in getattr(answer, field) or () if not pattern.fullmatch(name) or (is_written and keyword.iskeyword(name))]
        yield from (f"{field} names {shortened(name)}, which is no {kind}" for name in odd)
    for key in answer.config_keys:
        if not _WORD.fullmatch(key.name) or not key.name.isupper() or not is_line(key.key):
            yield f"config_keys has {shortened(key.name)} for {shortened(key.key)}, expected a name in capitals for a line of text"
    yield from _taken_names(answer)
    counts = Counter([("name", key.name) for key in answer.config_keys] + [("key", key.key) for key in answer.config_keys])
    yield from (f"config_keys has the {kind} {shortened(text)} {count} times" for (kind, text), count in counts.items() if count > 1)
    known = {field.name for field in dataclasses.fields(CompileOptions)} | {key.name for key in answer.config_keys}
    known |= {key.key for key in answer.config_keys}
    yield from (f"acts_on names {shortened(name)}, which is no option" for name in answer.acts_on if name not in known)


def _taken_names(answer: Manifest) -> Iterator[str]:
    """Names that are there without the backend: nobody would ever reach what it means by them."""
    if not answer.inspections and not answer.config_keys:
        return
    from zellige.plugin.words import OF_KERNELS, OPTIONS  # few bring methods or keys of their own

    yield from (f"inspections names {name!r}, which every compiled kernel has" for name in answer.inspections if name in OF_KERNELS)
    for key in answer.config_keys:
        if key.key in OPTIONS:
            yield f"config_keys has {key.key!r}, an option of every compilation: acts_on names it {OPTIONS[key.key]!r}"


def _size_problems(answer: Manifest) -> Iterator[str]:
    """What is so large that every start of a program would pay for it."""
    for field in dataclasses.fields(answer):
        value = getattr(answer, field.name)
        kind, most = ("characters", LONGEST_LINE) if isinstance(value, str) else ("items", MOST_ITEMS)
        if isinstance(value, (str, tuple, list)) and len(value) > most:
            yield f"manifest.{field.name} has {len(value)} {kind}, more than the {most} that are read at every start"


def _is_name(text: object) -> bool:
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def odd_dialect(dialect: Sequence[DialectName], targets: Sequence[str]) -> Iterator[str]:
    """What is wrong with the names that a backend adds to the language."""
    names = Counter(entry.name for entry in dialect)
    yield from (f"dialect names {shortened(name)} {count} times" for name, count in names.items() if count > 1)
    for entry in dialect:
        if entry.target.partition(":")[0] not in targets:
            yield f"dialect says that {shortened(entry.target)} has {shortened(entry.name)}, which is none of its targets"


def unspeakable(dialect: Sequence[DialectName]) -> list[str]:
    """The names among those that a backend adds to the language which nobody could write in it."""
    return [f"{shortened(entry.name)} is no name of the language" for entry in dialect if not _can_be_written(entry.name)]


def _can_be_written(name: str) -> bool:
    """Whether ``T.<name>`` asks for that name: it is no keyword, none that every object or module has for itself, and as Python reads it
    (which takes other forms of a letter for the letter)."""
    is_special = name.startswith("__") and name.endswith("__")
    return name.isidentifier() and not keyword.iskeyword(name) and not is_special and (name.isascii() or _is_normal(name))


def _is_normal(name: str) -> bool:
    import unicodedata  # a table of all letters, which few names need

    return unicodedata.normalize("NFKC", name) == name
