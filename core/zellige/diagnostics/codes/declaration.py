"""Declares codes. In: an id, a title, a message, a hint. Out: the code, noted in :data:`CODES`."""

from __future__ import annotations

import re
from typing import Final

from zellige.diagnostics.error import Code

CODES: Final[dict[str, Code]] = {}
"""All codes by their id."""

_ID: Final = re.compile(r"E[1-7]\d\d|E[1-7](?!000)\d{3}")
"""The stage and a number. Four digits are for a stage whose three are used up (docs/decisions/0016)."""


def code(
    id: str, title: str, template: str, *, hint: str = "", also: type[Exception] | None = None, names_backend: bool = False
) -> Code:
    """Declare a code. ``template`` and ``hint`` are ``str.format`` patterns that share the fields given at the raise;
    ``also`` is a class of Python as which the error can be caught too; ``names_backend`` says that the field
    ``name`` is the backend at fault.

    Raises ValueError for an id out of the numbering or declared twice.
    """
    if not _ID.fullmatch(id):
        raise ValueError(f"{id!r} is not a code: E and three or four digits, the first of them 1 to 7")
    if id in CODES:
        raise ValueError(f"{id} is declared twice: as {CODES[id].title!r} and as {title!r}")
    CODES[id] = Code(id, title, template, hint, also, names_backend)
    return CODES[id]
