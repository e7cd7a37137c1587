"""Products, copies and waits as short rows: what a planner must know before any layout is made.

In: nothing. Out: :class:`ProductRow`, :class:`CopyRow` and :class:`WaitRow`. The families make their specifications from these rows, so
that a fact stands once; a backend that only asks what there is reads the rows and loads no algebra of layouts, which a warm start has no
time for.
"""

from __future__ import annotations

from typing import Final, Literal

from zellige.records import dataclass

Form = Literal["broadcast", "tile", "matrix", "fragment"]
"""How operands lie: a group of a for all columns of a vector of b; small row-major tiles in one register; matrices in registers of several
rows, each row of a in one, each row of b holding a group of k of every column; fragments over lanes."""

MATRIX_SPACE: Final = "tile"
"""The space of operands that lie in registers of several rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductRow:
    """One product instruction. ``shape`` is m, n, k; ``types`` are (a, b, c) of each combination.

    ``adds``: the instruction gives the products of a group without the sum, which a second one adds (both are what ``name`` stands for).
    ``requires``, ``spelling``, ``accumulator_bits``, ``keeps_subnormals`` and ``notes`` are those of the specification.
    """

    name: str
    spelling: str
    shape: tuple[int, int, int]
    types: tuple[tuple[str, str, str], ...]
    requires: tuple[str, ...]
    section: str
    form: Form = "broadcast"
    evidence: str = ""
    adds: bool = False
    is_exact: bool = False
    keeps_subnormals: bool = True
    accumulator_bits: int = 0
    notes: str = ""

    @property
    def multiplications(self) -> int:
        """Products that one instruction executes."""
        return self.shape[0] * self.shape[1] * self.shape[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRow:
    """One copy instruction between two spaces; one issuer moves ``bytes_each``. Names, spaces and words are those of the specification."""

    name: str
    source: str
    destination: str
    bytes_each: int
    requires: tuple[str, ...]
    is_asynchronous: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitRow:
    """One instruction that gathers copies in flight or waits for them. Name, words and section are those of the specification."""

    name: str
    spelling: str
    section: str
    requires: tuple[str, ...]
