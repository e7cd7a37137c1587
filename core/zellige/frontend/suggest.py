"""Did-you-mean: the closest of the names that exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(name: str, known: Iterable[str]) -> str:
    """``": did you mean X?"`` for the closest known name, or nothing."""
    public = {k for k in known if isinstance(k, str) and not k.startswith("__")}
    found = difflib.get_close_matches(name, public, n=1, cutoff=0.7)
    return f"; did you mean {found[0]!r}?" if found else ""
