"""Text that others wrote, made fit for a terminal.

In: text that may hold anything: a message of a stranger's package, a name, a line of source. Out: :func:`visible`, the same text in which
what a terminal would take for an order stands as an escape of Python's, so that it is seen and does nothing; and :data:`NO_LINE`, what
the same rule leaves out of a line of a report.
"""

from __future__ import annotations

import re
from typing import Final

NO_LINE: Final = r"\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""What ends a line, what a terminal takes for an order, and what turns the direction of writing: characters within the brackets of a
regular expression, of Python's and of a JSON Schema."""

_ORDERS: Final = re.compile(rf"(?![\t\n])[{NO_LINE}]")


def visible(text: str) -> str:
    """``text`` with ``\\x1b`` for an escape character, and so on; tabs and the ends of lines stay."""
    return _ORDERS.sub(lambda found: ascii(found[0])[1:-1], text)
