"""Bank conflicts, counted by statement.

In: the places that the lanes of a warp touch in shared memory together. Out: :class:`Report`: how many accesses a statement makes and how
many passes over the banks they take. Lanes beyond 128 bytes together are served in phases: wide accesses a half or a quarter of a warp at
a time (8 and 16 bytes).
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from zellige.diagnostics import Span
from zellige.layouts.banks import Banks, phase_degrees
from zellige.records import dataclass

if TYPE_CHECKING:
    from zellige.simt.simulate.memory import Access, Memory


@dataclass(slots=True)
class BankRecord:
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
    """Gathers :class:`BankRecord` over a launch."""

    banks: Banks = field(default_factory=Banks)
    found: dict[tuple[int, str], BankRecord] = field(default_factory=dict)

    def access(self, access: Access, memory: Memory, index: Any, lanes: Any) -> None:
        """The lanes touch one element each."""
        self.addresses(access.span, access.place, memory.name, memory.address + index.astype(np.int64) * access.bytes, access.bytes, lanes)

    def addresses(self, span: Span | None, place: int, name: str, addresses: Any, size: int, lanes: Any) -> None:
        """The lanes touch ``size`` bytes each."""
        record = self.found.setdefault((place, name), BankRecord(span, name))
        degrees = phase_degrees(addresses, lanes, size, self.banks)
        record.accesses += 1
        record.phases += len(degrees)
        record.passes += sum(degrees)
        record.degree = max(record.degree, *degrees)

    @property
    def degree(self) -> int:
        """The worst of all."""
        return max((r.degree for r in self.found.values()), default=0)
