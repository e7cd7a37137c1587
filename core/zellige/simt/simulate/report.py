"""Bank conflicts, counted by statement.

In: the places that the lanes of a warp touch in shared memory together. Out: :class:`Report`: how many accesses a statement makes and how
many passes over the banks they take. Lanes beyond 128 bytes together are served in phases: wide accesses a half or a quarter of a warp at
a time (8 and 16 bytes).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from zellige.diagnostics import Span

if TYPE_CHECKING:
    from zellige.simt.simulate.memory import Access, Memory


@dataclass(slots=True)
class Banks:
    """What one statement did to one buffer: ``accesses`` by warps, ``phases`` that they need at least, ``passes`` that they took, the
    worst ``degree`` of a phase (1: no conflict)."""

    span: Span | None
    buffer: str
    accesses: int = 0
    phases: int = 0
    passes: int = 0
    degree: int = 0


@dataclass(slots=True)
class Report:
    """Gathers :class:`Banks` over a launch."""

    banks: int = 32
    bank_bytes: int = 4
    found: dict[tuple[int, str], Banks] = field(default_factory=dict)

    def access(self, access: Access, memory: Memory, index: Any, lanes: Any) -> None:
        """The lanes touch one element each."""
        self.addresses(access.span, access.place, memory.name, memory.address + index.astype(np.int64) * access.bytes, access.bytes, lanes)

    def addresses(self, span: Span | None, place: int, name: str, addresses: Any, size: int, lanes: Any) -> None:
        """The lanes touch ``size`` bytes each."""
        words = max(1, size // self.bank_bytes)
        per_phase = max(1, self.banks // words)
        record = self.found.setdefault((place, name), Banks(span, name))
        record.accesses += 1
        touched = (addresses // self.bank_bytes)[:, None] + np.arange(words)
        for phase in np.unique(lanes // per_phase):
            numbers = np.unique(touched[lanes // per_phase == phase])
            degree = int(np.bincount(numbers % self.banks).max())
            record.phases += 1
            record.passes += degree
            record.degree = max(record.degree, degree)

    @property
    def degree(self) -> int:
        """The worst of all."""
        return max((r.degree for r in self.found.values()), default=0)
