"""Points that run one program together, each with its own values: what branches and loops mean for them.

In: conditions and bounds, of one value for all points or one a point; functions that run a body. Out: :class:`Points`, whose mask says
which points take part. For machines that are played by NumPy and have no branches of single points.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from zellige.elements.conversion import Array


@dataclass(slots=True)
class Points:
    """``count`` points. ``mask``: those that take part in what runs now."""

    count: int
    mask: Array = field(init=False)
    _broken: Array = field(init=False)
    _continued: Array = field(init=False)

    def __post_init__(self) -> None:
        self.mask = np.ones(self.count, bool)
        self._broken = self._continued = self._none()

    def _none(self) -> Array:
        return np.zeros(self.count, bool)

    @property
    def is_active(self) -> bool:
        """Whether any point takes part."""
        return bool(self.mask.any())

    def each(self, value: Array) -> Array:
        """One value a point."""
        return np.broadcast_to(value, self.count)

    def chosen(self, values: Array) -> list[Any]:
        """The values of the points that take part."""
        found: list[Any] = self.each(values)[self.mask].tolist()
        return found

    def merged(self, new: Array, old: Array | None) -> Array:
        """``new`` for the points that take part, what was there for the others."""
        return new if old is None or self.mask.all() else np.where(self.mask, new, old)

    def branch(self, condition: Array, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
        """``then`` for the points where ``condition`` holds, ``otherwise`` for the others."""
        holds, before = self.each(condition), self.mask
        self.mask = before & holds
        then()
        ended, self.mask = self.mask, before & ~holds
        otherwise()
        self.mask = self.mask | ended

    def repeat(self, bounds: tuple[Array, ...], body: Callable[[Array], None]) -> None:
        """``body`` with the value of each iteration, for ``bounds`` (start, stop, step), or without them until every point has left: points
        leave one by one. A step of 0 repeats nothing."""
        outer, left = (self._broken, self._continued), self._none()
        self._broken = self._none()
        start, stop, step = (_wide(bound) for bound in bounds) if bounds else (0, math.inf, 1)
        for turn in itertools.count():
            value = start + turn * step
            goes_on = np.where(np.equal(step, 0), False, np.where(np.less(step, 0), value > stop, value < stop))
            left, self.mask = left | (self.mask & ~goes_on), self.mask & goes_on
            if not self.is_active:
                break
            self._continued = self._none()
            body(np.asarray(value))
            self.mask = self.mask | self._continued
        self.mask = left | self._broken
        self._broken, self._continued = outer

    def leave(self, how: Literal["break", "continue", "return"]) -> None:
        """The points that take part leave their loop, its iteration, or everything."""
        if how == "break":
            self._broken = self._broken | self.mask
        elif how == "continue":
            self._continued = self._continued | self.mask
        self.mask = self._none()


def _wide(bound: Array) -> Any:
    """A bound of one value unbounded, of many in 64 bits."""
    return int(bound) if np.ndim(bound) == 0 else bound.astype(np.int64)
