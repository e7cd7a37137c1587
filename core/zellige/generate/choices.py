"""Where a generator's decisions come from.

In: a source of bounded integers, :class:`Choices`. Out: :class:`Picker`, which turns them into the decisions a generator makes. A seeded
random source is here; a property-testing library drives the same generator through the one method of the protocol. Sources that
shrink make numbers smaller, so the simplest alternative of every decision comes first.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Choices(Protocol):
    """A source of decisions."""

    def integer(self, low: int, high: int) -> int:
        """A number from ``low`` to ``high``, both included."""
        ...


class RandomChoices:
    """Choices of a seeded random source: one seed, one program."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        """A number from ``low`` to ``high``, both included, each equally likely."""
        return self._random.randint(low, high)


class Picker:
    """Decisions made of bounded integers."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices

    def integer(self, low: int, high: int) -> int:
        """A number from ``low`` to ``high``, both included."""
        return low if low >= high else self._choices.integer(low, high)

    def some(self, items: Sequence[T]) -> T:
        """One of ``items``, the first being the simplest."""
        return items[self.integer(0, len(items) - 1)]

    def chance(self, percent: int) -> bool:
        """True in about ``percent`` of a hundred cases; False is the simpler answer."""
        return self.integer(0, 99) >= 100 - percent

    def weighted(self, items: Sequence[tuple[int, T]]) -> T:
        """One of the second entries, as often as its weight says."""
        position = self.integer(0, sum(weight for weight, _ in items) - 1)
        for weight, item in items:
            if position < weight:
                return item
            position -= weight
        raise AssertionError("the weights add up to more than a position")

    def some_of(self, items: Sequence[T], count: int) -> list[T]:
        """``count`` different entries of ``items``, in the order drawn."""
        rest = list(items)
        return [rest.pop(self.integer(0, len(rest) - 1)) for _ in range(min(count, len(rest)))]
