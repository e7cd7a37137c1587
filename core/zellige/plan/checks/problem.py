"""What a check finds. In: nothing. Out: :class:`Problem`, and :class:`Problems`, which collects them without repeating one."""

from __future__ import annotations

from dataclasses import field

from zellige.diagnostics import Span
from zellige.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One violation: ``check`` is the number in the list of :mod:`zellige.plan.check`, ``message`` says what and where in the plan."""

    check: int
    message: str
    span: Span | None = field(default=None, compare=False)

    def __str__(self) -> str:
        place = f" ({self.span})" if self.span is not None else ""
        return f"check {self.check}: {self.message}{place}"


@dataclass(slots=True)
class Problems:
    """Problems in the order in which they were found. A mistake shows in every iteration and every sample: each ``key`` is kept once."""

    found: list[Problem] = field(default_factory=list)
    _keys: set[object] = field(default_factory=set)

    def add(self, check: int, message: str, *, key: object = None, span: Span | None = None) -> None:
        """Note a problem, unless one with the same ``key`` (its message where none is given) is known."""
        identity = (check, message if key is None else key)
        if identity not in self._keys:
            self._keys.add(identity)
            self.found.append(Problem(check=check, message=message, span=span))
