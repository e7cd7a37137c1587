"""Linear algebra over the field of two elements, on vectors that are Python integers (bit i is coordinate i).

In: sequences of such vectors, the columns of a matrix. Out: ranks, inverses, kernels, spans. Addition is ``^``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Span:
    """A subspace that grows vector by vector, kept in echelon form: leading bit -> (vector, which of the added ones it is the sum of)."""

    rows: dict[int, tuple[int, int]] = field(default_factory=dict)
    added: int = 0

    def reduced(self, vector: int) -> tuple[int, int]:
        """What is left of ``vector`` after subtracting the subspace (0: it lies within), and the mask of added vectors subtracted."""
        used = 0
        while vector:
            row = self.rows.get(vector.bit_length())
            if row is None:
                break
            vector ^= row[0]
            used ^= row[1]
        return vector, used

    def add(self, vector: int) -> bool:
        """Whether ``vector`` was independent of those added before; every call counts for the masks of :meth:`reduced`."""
        rest, used = self.reduced(vector)
        own = 1 << self.added
        self.added += 1
        if rest == 0:
            return False
        self.rows[rest.bit_length()] = (rest, used ^ own)
        return True

    def extended(self, vector: int) -> Span:
        """Another subspace, with ``vector`` added."""
        other = Span(rows=dict(self.rows), added=self.added)
        other.add(vector)
        return other

    def __contains__(self, vector: int) -> bool:
        return self.reduced(vector)[0] == 0

    @property
    def rank(self) -> int:
        return len(self.rows)

    @property
    def largest(self) -> int:
        """The largest vector of the subspace, as an integer."""
        best = 0
        for lead in sorted(self.rows, reverse=True):
            best = max(best, best ^ self.rows[lead][0])
        return best


def span(vectors: Iterable[int]) -> Span:
    """The subspace of all sums of ``vectors``."""
    found = Span()
    for vector in vectors:
        found.add(vector)
    return found


def rank(vectors: Iterable[int]) -> int:
    """The dimension of the subspace of all sums of ``vectors``."""
    return span(vectors).rank


def independent(vectors: Sequence[int]) -> tuple[int, ...]:
    """Positions of the vectors that are independent of those before them."""
    found = Span()
    return tuple(position for position, vector in enumerate(vectors) if found.add(vector))


def kernel(columns: Sequence[int]) -> tuple[int, ...]:
    """A basis of the combinations of columns that sum to zero, as masks over the columns."""
    found = Span()
    basis = []
    for position, column in enumerate(columns):
        rest, used = found.reduced(column)
        if rest == 0:
            basis.append(used ^ (1 << position))
        found.add(column)
    return tuple(basis)


def combined(columns: Sequence[int], mask: int) -> int:
    """The sum of the columns that ``mask`` names: the matrix applied to a vector."""
    total = 0
    while mask:
        low = mask & -mask
        total ^= columns[low.bit_length() - 1]
        mask ^= low
    return total


def inverse(columns: Sequence[int]) -> tuple[int, ...] | None:
    """The columns of the inverse of a square matrix; None where it has none."""
    count = len(columns)
    found = span(columns)
    if found.rank != count or any(column >> count for column in columns):
        return None
    return tuple(found.reduced(1 << position)[1] for position in range(count))


def solve(columns: Sequence[int], target: int) -> int | None:
    """A mask of columns that sum to ``target``; None where there is none."""
    rest, used = span(columns).reduced(target)
    return None if rest else used
