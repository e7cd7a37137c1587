"""Names of the module with which TileLang proposes configurations: they load, since tuned programs import them for a path that they need
not take; used, each is E402 and says how configurations are found here.

In: a name. Out: an object that refuses every use.
"""

from __future__ import annotations

from zellige.language.refused import NotAvailable

_INSTEAD = "zl.autotune without configs finds the space of tiles, stages and layouts in the plan of the kernel"


def refused(name: str) -> NotAvailable:
    """The name ``zellige.carver.<name>``, of which every use is E402."""
    return NotAvailable(f"zellige.carver.{name}", _INSTEAD)
