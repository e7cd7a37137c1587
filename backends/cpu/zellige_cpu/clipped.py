"""Loops that end where a tensor does: at edges no time goes into points that would store nothing.

In: a Map whose points may lie outside of what they store to. Out: :class:`Clip`, where the loops of its axes begin and end, and which
bounds hold between. A tile of 128 rows of which a tensor has 16 is then copied in 16 rows without tests, not in 128 with a test of each
vector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from zellige.analysis.forms import Form
from zellige.ir.expr import INT64, Expr, Var
from zellige.ir.stmt import Bind, Map, Store
from zellige.ir.traverse import walk
from zellige.records import dataclass
from zellige_cpu.indexes import i64, uniform

if TYPE_CHECKING:
    from zellige_cpu.context import Context
    from zellige_cpu.values import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """``first`` and ``end``: by the number of an axis the forms that its points are not below, and not at or above; ``holding`` are at
    least 0 at all points that are left."""

    first: Mapping[int, tuple[Form, ...]]
    end: Mapping[int, tuple[Form, ...]]
    holding: frozenset[Form]

    def range(self, ctx: Context, axis: int, extent: Form) -> tuple[Value, Value]:
        """Where the loop of an axis of ``extent`` points begins and ends."""
        low, high = i64(0), uniform(ctx, extent)
        for form in self.first.get(axis, ()):
            low = ctx.fn.intrinsic("llvm.smax", low, uniform(ctx, form))
        for form in self.end.get(axis, ()):
            high = ctx.fn.intrinsic("llvm.smin", high, uniform(ctx, form))
        return low, high


NOTHING: Final = Clip(first={}, end={}, holding=frozenset())


def clipped(
    ctx: Context, statement: Map, looped: Sequence[int], stored: Sequence[tuple[Form, ...]], is_available: Callable[[Expr], bool]
) -> Clip:
    """What the unproven bounds of all stores (``stored``: those of each, forms that are at least 0 inside) say of single axes.

    Only where storing is all that points do. ``looped`` are the numbers of the axes that have a loop over single points: an axis of vectors
    is masked. ``is_available`` says of a part of a form whether it can be computed before the loops.
    """
    if ctx.lanes is not None or not stored or not all(isinstance(s, (Bind, Store)) for s in statement.body):
        return NOTHING
    first: dict[int, tuple[Form, ...]] = {}
    end: dict[int, tuple[Form, ...]] = {}
    holding: set[Form] = set()
    for bound in dict.fromkeys(stored[0]):
        if not all(bound in other for other in stored):
            continue
        for number in looped:
            parts = bound.split(statement.axes[number])
            if parts is None or parts[0].constant not in (1, -1):
                continue
            rest, is_upper = parts[1], parts[0].constant == -1
            limit = rest + 1 if is_upper else rest.scaled(-1)
            if not _is_of_none(rest, statement.axes) or not all(map(is_available, rest.atoms())) or not ctx.scope.fits(limit, INT64):
                continue
            side = end if is_upper else first
            side[number] = (*side.get(number, ()), limit)
            holding.add(bound)
            break
    return Clip(first=first, end=end, holding=frozenset(holding))


def _is_of_none(form: Form, axes: Sequence[Var]) -> bool:
    """Whether no part of the form depends on an axis."""
    return not any(isinstance(node, Var) and node in axes for atom in form.atoms() for node in walk(atom))
