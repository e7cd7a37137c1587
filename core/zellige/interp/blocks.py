"""Races between blocks: what the reports know of who touched each element of global memory.

In: the accesses of one launch, block after block. Out: E296 where two blocks meet at an element, at least one of them changing it, and
nothing orders them. Blocks run in any order and side by side, so the interpreter's own order proves nothing.

An element that several blocks give the same value is no finding, nor is one that all touch by atomic operations. Launches whose blocks can
wait for each other (:func:`zellige.analysis.lint_races.blocks_may_wait`) are not watched: which access comes first is then up to the values
that blocks exchange.
"""

from __future__ import annotations

from dataclasses import field
from typing import Final

import numpy as np

from zellige.dtypes import DType
from zellige.elements.conversion import Array, codes
from zellige.interp.memory import Layout, Memory, halves
from zellige.interp.report import AccessKind, Findings, index_text
from zellige.ir.expr import Buffer
from zellige.ir.stmt import Stmt
from zellige.records import dataclass

_NOBODY: Final = -1
_SEVERAL: Final = -2


@dataclass(slots=True)
class _Touched:
    """The last block that wrote, read or atomically changed each half byte of a tensor, and the statement of its write or change."""

    write: Array
    read: Array
    atomic: Array
    statement: Array

    @staticmethod
    def fresh(count: int) -> _Touched:
        return _Touched(*(np.full(count, _NOBODY, np.int32) for _ in range(4)))

    def rows(self, dtype: DType) -> tuple[Array, Array, Array, Array]:
        """The four, a row a scalar of the type."""
        width = halves(dtype)
        every = (self.write, self.read, self.atomic, self.statement)
        return tuple(a[: a.size // width * width].reshape(-1, width) for a in every)  # type: ignore[return-value]


@dataclass(slots=True)
class BlockWatch:
    """The accesses of the blocks of one launch to tensors; ``cells`` are the blocks in the order of their numbers."""

    findings: Findings
    cells: list[tuple[int, ...]]
    block: int = 0
    """The number of the block in work."""
    _touched: dict[int, _Touched] = field(default_factory=dict)
    _statements: list[Stmt] = field(default_factory=list)
    _numbers: dict[int, int] = field(default_factory=dict)

    def log(
        self,
        statement: Stmt,
        buffer: Buffer,
        layout: Layout,
        memory: Memory,
        positions: Array,
        kind: AccessKind,
        values: Array | None = None,
    ) -> None:
        """The block touches the scalars at ``positions``; called before a write stores ``values`` there."""
        touched = self._touched.get(id(memory))
        if touched is None:
            touched = self._touched[id(memory)] = _Touched.fresh(2 * memory.cells.size)
        positions = positions.ravel()
        write, read, atomic, statements = touched.rows(buffer.dtype)
        others = self._met(write, positions)
        if kind != "atomic":
            others = np.where(others == _NOBODY, self._met(atomic, positions), others)
        changed = others != _NOBODY
        if kind != "read":
            others = np.where(others == _NOBODY, self._met(read, positions), others)
        if values is not None:
            others = np.where(_differs(memory, positions, values.ravel(), buffer.dtype), others, _NOBODY)
        self._report(statement, buffer, layout, positions, kind, others, np.where(changed[:, None], statements[positions], _NOBODY))
        if kind == "read":
            known = read[positions]
            read[positions] = np.where((known == _NOBODY) | (known == self.block), self.block, _SEVERAL)
        else:
            (write if kind == "write" else atomic)[positions] = self.block
            statements[positions] = self._number(statement)

    def _met(self, touched: Array, positions: Array) -> Array:
        """The other block that touched a part of each scalar, else nobody."""
        known = touched[positions]
        least = np.where((known == _NOBODY) | (known == self.block), np.iinfo(np.int32).max, known).min(axis=-1)
        return np.asarray(np.where(least == np.iinfo(np.int32).max, _NOBODY, least))

    def _number(self, statement: Stmt) -> int:
        number = self._numbers.get(id(statement))
        if number is None:
            number = self._numbers[id(statement)] = len(self._statements)
            self._statements.append(statement)
        return number

    def _report(
        self, statement: Stmt, buffer: Buffer, layout: Layout, positions: Array, kind: AccessKind, others: Array, statements: Array
    ) -> None:
        """``others`` are the blocks that touched each scalar before, ``statements`` the numbers of those by which they changed it."""
        races = np.flatnonzero(others != _NOBODY)
        if not races.size:
            return
        first = int(races[0])
        other = int(others[first])
        number = int(statements[first].max())
        changed_by = self._statements[number] if number >= 0 else None
        who = "others" if other == _SEVERAL else f"block ({index_text(self.cells[other])})"
        verb = {"read": "reads", "write": "writes", "atomic": "changes"}[kind]
        self.findings.race(
            statement,
            buffer,
            layout.index_of(int(positions[first]) // buffer.dtype.lanes),
            f"block ({index_text(self.cells[self.block])}), which {verb} it, and {who}; blocks run in any order",
            changed_by,
            times=races.size,
        )


def _differs(memory: Memory, positions: Array, values: Array, dtype: DType) -> Array:
    """Where the bits of ``values`` are others than what is stored."""
    scalar = dtype.scalar
    before, after = (codes(v, scalar) for v in (memory.read(positions, dtype), values))
    return np.asarray(before != after)
