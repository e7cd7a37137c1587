"""Text that others wrote, made fit for a terminal.

In: text that may hold anything: a message of a stranger's package, a name, a line of source. Out: :func:`visible`, the same text in which
what a terminal would take for an order stands as an escape of Python's, so that it is seen and does nothing.
"""

from __future__ import annotations

import re
from typing import Final

_ORDERS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Control characters but tabs and the ends of lines, and what turns the direction of writing."""


def visible(text: str) -> str:
    """``text`` with ``\\x1b`` for an escape character, and so on; tabs and the ends of lines stay."""
    return _ORDERS.sub(lambda found: ascii(found[0])[1:-1], text)
