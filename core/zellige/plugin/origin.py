"""Where a backend's object comes from. In: nothing. Out: :class:`Origin`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The entry point's name, its text and what loads it. ``is_own``: it belongs to zellige's own distribution.
    ``fault``: why the list of entry points cannot be read of the distribution that it stands for."""

    name: str
    text: str
    load: Callable[[], object]
    is_own: bool = False
    fault: str = ""
