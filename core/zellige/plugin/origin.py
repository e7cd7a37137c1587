"""Where a backend's object comes from. In: nothing. Out: :class:`Origin`; :data:`OF_ZELLIGE`, which packages are no backend's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from zellige.diagnostics.ownership import CORE_PACKAGES

OF_ZELLIGE: Final = CORE_PACKAGES
"""The packages that belong to core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The entry point's name, its value (``module:attribute``), the distribution that has it, and what loads it. ``is_own``: that is
    zellige's own distribution. ``fault``: why the list of entry points cannot be read of the distribution that it stands for."""

    name: str
    value: str
    load: Callable[[], object]
    distribution: str = ""
    is_own: bool = False
    fault: str = ""

    @property
    def text(self) -> str:
        """As reports and errors name it."""
        return f"{self.distribution}: {self.value}" if self.distribution else self.value
