"""What a kernel is compiled for, as a name that only its backend interprets.

In: the text a user writes, ``name[:arch][,flag...]`` or ``name -key=value ...``. Out: a :class:`Target`.
Core splits the text; which backend has the name and what its architecture and options mean is said by the backends' manifests.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from zellige.diagnostics import catalogue

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")

SIMULATE: Final = "simulate"
"""The flag that asks for a target's programs to run in this process, on memory of the host, with every access checked."""

UNSIMULATED: Final = f"the same target without the flag {SIMULATE!r} has it"
"""What is said to whoever asks a simulated target for something that only a compiler knows."""

LONGEST: Final = 1000
"""Characters of a target's text. It stands in messages, keys and the names of hooks' answers."""

AUTO: Final = "auto"
"""The name that stands for a choice by the arguments' device and by what works on this machine."""


_AROUND: Final[ContextVar[tuple[Target, ...]]] = ContextVar("around", default=())


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A backend's target: ``name``, an architecture (empty: the backend chooses) and options in the order written.

    An option without a value is a flag, its value is None. Two targets are equal when all three agree; ``str`` gives the
    canonical text, which :func:`parse_target` reads back. Inside of ``with target:`` it stands in for ``auto`` and for no target.
    """

    name: str
    arch: str = ""
    options: tuple[tuple[str, str | None], ...] = ()

    def __str__(self) -> str:
        head = f"{self.name}:{self.arch}" if self.arch else self.name
        return ",".join([head, *(key if value is None else f"{key}={value}" for key, value in self.options)])

    def __enter__(self) -> Target:
        _AROUND.set((*_AROUND.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _AROUND.set(_AROUND.get()[:-1])

    @property
    def flags(self) -> frozenset[str]:
        """The options that have no value."""
        return frozenset(key for key, value in self.options if value is None)

    @property
    def is_simulated(self) -> bool:
        """Whether programs for it run in the simulator of its family."""
        return SIMULATE in self.flags

    def option(self, key: str, default: str | None = None) -> str | None:
        """The last value given for ``key``, or ``default``."""
        return next((value for name, value in reversed(self.options) if name == key and value is not None), default)


def with_architecture(name: str, arch: str) -> str:
    """The text of the target ``name`` with what is said after its colon, an architecture or options; the name alone where that is empty."""
    return f"{name}:{arch}" if arch else name


def surrounding_target() -> Target | None:
    """The target of the innermost ``with target:`` that this runs in."""
    return next(reversed(_AROUND.get()), None)


def parse_target(text: str | Target) -> Target:
    """Split a target's text; a :class:`Target` is returned as it is. Raises E707 for text of neither form."""
    if isinstance(text, Target):
        return text
    if not isinstance(text, str):
        raise catalogue.E707.error(text=text, reason=f"expected text, got {type(text).__name__}")
    stripped = text.strip()
    if len(stripped) > LONGEST:
        raise catalogue.E707.error(text=_short(text), reason=f"it has {len(stripped)} characters, more than {LONGEST}")
    if not stripped.replace("\t", " ").replace("\n", " ").isprintable():
        raise catalogue.E707.error(text=_short(text), reason="it holds a character that cannot be printed")
    name = _NAME.match(stripped)
    if name is None:
        raise catalogue.E707.error(text=text, reason="it does not begin with a name")
    rest = stripped[name.end() :]
    if rest and rest[0].isspace():
        return Target(name=name.group(), options=tuple(_dashed(text, word) for word in rest.split()))
    arch = ""
    if rest.startswith(":"):
        arch, comma, tail = rest[1:].partition(",")
        rest = comma + tail
        if not arch or any(c.isspace() for c in arch):
            raise catalogue.E707.error(text=text, reason="the architecture after ':' is missing or holds a space")
    if rest and not rest.startswith(","):
        raise catalogue.E707.error(text=text, reason=f"{rest[0]!r} after the name {name.group()!r} is neither ':' nor ',' nor a space")
    options = tuple(_option(text, word.strip()) for word in rest[1:].split(",")) if rest else ()
    return Target(name=name.group(), arch=arch, options=options)


def _short(text: str) -> str:
    """As much of a text as a message needs."""
    return text if len(text) <= 40 else f"{text[:40]}..."


def _dashed(text: str, word: str) -> tuple[str, str | None]:
    bare = word.lstrip("-")
    if bare == word:
        raise catalogue.E707.error(text=text, reason=f"the option {word!r} does not begin with '-'")
    return _option(text, bare)


def _option(text: str, word: str) -> tuple[str, str | None]:
    key, equals, value = word.partition("=")
    if not _KEY.fullmatch(key) or (equals and not value) or "," in value or any(c.isspace() for c in value):
        raise catalogue.E707.error(text=text, reason=f"{word!r} is neither a flag nor key=value")
    return key, value if equals else None
