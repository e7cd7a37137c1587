"""Which registers asynchronous products may take.

In: what lanes and products do with registers, and fences. Out: a fault where a product takes registers that something else touched since
the last fence: lanes, by reading, writing or declaring them; products that had them as the other operand, or as sums of another shape.
Products of one shape that add to the same sums follow each other without a fence.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final

import numpy as np

from zellige.diagnostics import Span
from zellige.ir.expr import Buffer
from zellige.simt.simulate import faults

Array = Any

_FENCED: Final = 0
_LANES: Final = 1
_PRODUCTS: Final = 2


class Readiness:
    """Of a warp, who touched each byte of registers that products take, since the last fence. A register of some lanes is one of all."""

    def __init__(self, registers: dict[Buffer, Array]) -> None:
        self._registers = registers
        self._touched: dict[Buffer, Array] = {}
        self._views: dict[Buffer, Array] = {}
        self._kinds: dict[Hashable, int] = {}

    def touch(self, buffer: Buffer, which: Any) -> None:
        """Lanes touch elements of the buffer: a number, an array of them or a slice."""
        self._of(buffer)[which] = _LANES

    def fence(self) -> None:
        """What was touched until now is ready for every product after."""
        for touched in self._touched.values():
            touched[:] = _FENCED

    def take(self, span: Span | None, buffer: Buffer, first: int, count: int, kind: Hashable) -> None:
        """A product takes elements; ``kind`` is alike for products that need no fence between them."""
        number = self._kinds.setdefault(kind, _PRODUCTS + len(self._kinds))
        elements = self._of(buffer)[first : first + count]
        odd = (elements != _FENCED) & (elements != number)
        if odd.any():
            who = "lanes touched" if (elements[odd] == _LANES).any() else "another kind of product took"
            raise faults.misused(span, f"a product takes registers of {buffer.name} that {who} since the last fence for products")
        elements[:] = number

    def _of(self, buffer: Buffer) -> Array:
        """The bytes of a buffer's elements, axes element and byte."""
        found = self._views.get(buffer)
        if found is None:
            root = buffer.root
            if root not in self._touched:
                self._touched[root] = np.full(self._registers[root].shape[1], _LANES, np.int16)
            touched, size = self._touched[root], np.dtype(buffer.dtype.scalar.numpy).itemsize * buffer.dtype.lanes
            found = self._views[buffer] = touched[: len(touched) // size * size].reshape(-1, size)
        return found
