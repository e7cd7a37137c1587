"""The plan of a launch while it is being made: decisions taken so far, with their reasons.

In: questions and answers from the passes of planning. Out: the tuple of :class:`~zellige.plan.nodes.Decision`, in the order in which they
were taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from zellige.diagnostics.span import Span
from zellige.plan.nodes import Decision, Topic


class Decisions:
    """What has been decided. A question asked again about one place keeps its first answer and the reasons of both."""

    def __init__(self) -> None:
        self._taken: list[Decision] = []

    def take(
        self, question: str, chosen: str, because: str, *, rejected: Sequence[tuple[str, str]] = (), where: Span | None = None,
        topic: Topic = "",
    ) -> None:  # fmt: skip
        decision = Decision(question=question, chosen=chosen, because=because, rejected=tuple(rejected), where=where, topic=topic)
        self._taken.append(decision)

    def home(self, written: str, tiles: Sequence[str], space: str, because: str) -> None:
        """Tiles that are written for one space live in another."""
        question, chosen = f"where do {written} buffers live?", Decision.of_homes(tiles, space)
        self._taken.append(Decision(question=question, chosen=chosen, because=because, tiles=tuple(tiles), space=space))

    def all(self) -> tuple[Decision, ...]:
        return tuple(self._taken)
