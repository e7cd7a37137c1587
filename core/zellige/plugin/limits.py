"""What numbers and texts of the contract may be, as the keywords of JSON Schema that say so.

In: the metadata of a dataclass's field, which :func:`whole` and :func:`line` make. Out: the keywords that a schema writes beside the
field's type (:func:`keywords`). :func:`zellige.plugin.fields.limit_problems` holds values to them: the schema and the check are the same
table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from zellige.diagnostics.printable import NO_LINE

LARGEST: Final = 1 << 63
"""Numbers of an answer are smaller: they are sizes and counts."""

LONGEST_LINE: Final = 10_000
"""Characters of a line that reports print."""

MOST_ITEMS: Final = 10_000
"""Items of one field: all of them are looked at in each process."""

LIMITS: Final = "limits"
"""The key of a field's metadata."""

LINE: Final = f"^[^{NO_LINE}]*$"
NAME: Final = rf"^[^\s{NO_LINE}][^{NO_LINE}]*$"
EXPECTED: Final = {LINE: "a line of text", NAME: "a name: a line of text that begins with no space"}
"""Patterns in words. :func:`zellige.plugin.fields.is_line` asks them of texts that stand in no field with limits."""


def whole(least: int = 0, *, is_power_of_two: bool = False) -> Mapping[str, Any]:
    """The metadata of a field whose numbers, also those in a tuple, are at least ``least``."""
    return {LIMITS: {"minimum": least, **({"x-power-of-two": True} if is_power_of_two else {})}}


def line(*, may_be_empty: bool = True) -> Mapping[str, Any]:
    """The metadata of a field whose texts are lines of a report; not empty ones where they name something."""
    return {LIMITS: {"pattern": LINE if may_be_empty else NAME}}


def keywords(metadata: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """The keywords for values of the type ``kind``, which is text, a number, or the tuple around them, in a field with this metadata."""
    if LIMITS not in metadata or kind is bool:
        return {}
    stated = metadata[LIMITS]
    if kind is tuple:
        return {"maxItems": MOST_ITEMS}
    if kind is str:
        return {"pattern": stated.get("pattern", LINE), "maxLength": LONGEST_LINE}
    return {
        "minimum": stated.get("minimum", 0),
        "exclusiveMaximum": LARGEST,
        **{key: value for key, value in stated.items() if key == "x-power-of-two"},
    }
