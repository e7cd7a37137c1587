"""Words of messages that depend on a number. In: how many there are and what they are. Out: both, in words."""

from __future__ import annotations


def counted(count: int, word: str) -> str:
    """A number of things: ``1 name``, ``2 names``."""
    return f"{count} {word}" + ("" if count == 1 else "s")
