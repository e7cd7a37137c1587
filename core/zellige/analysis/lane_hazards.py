"""Whether lanes may run a stretch of code one after the other instead of side by side.

In: the statements of a stretch, in order. Out: :meth:`HazardSet.admits`, False where a lane could see (or overwrite) an element of another
lane at a time that matters.

Lanes run a stretch in lock step by definition: each statement for all of them before the next. Running it lane after lane is the same
where no two lanes meet in an element that one of them writes. That is shown by the indices: two accesses whose indices name
the lane in the same way, as a digit of a mixed-radix number, meet only in the same lane. Anything less clear is a hazard.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TypeAlias

from zellige.analysis.bounds import Scope
from zellige.analysis.forms import Form
from zellige.ir.expr import Buffer, Expr, Load, Region, Var, constant_value
from zellige.ir.lanes import PRIVATE
from zellige.ir.stmt import Atomic, AtomicTile, For, Map, ReducerUpdate, Stmt, StmtNode, Store
from zellige.ir.traverse import loads_in, walk
from zellige.records import dataclass

Digit: TypeAlias = tuple[int, int]
"""A coefficient and an extent."""

Signature: TypeAlias = tuple[tuple[Form, tuple[Digit, ...], tuple[Digit, ...]], ...]
"""Of each dimension: what all lanes share, the lanes' digits (one a lane variable), the digits of loops in the stretch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSpace:
    """The lane variables with their extents, what is known about other variables, and which differ between lanes."""

    lanes: tuple[tuple[Var, int], ...]
    scope: Scope
    is_lane_dependent: Callable[[Var], bool]


@dataclass(slots=True)
class _Uses:
    """How a stretch touches one buffer."""

    signatures: set[Signature] = field(default_factory=set)
    has_unclear: bool = False
    stores: int = 0
    loads: int = 0
    atomics: set[str] = field(default_factory=set)
    has_atomic_result: bool = False


class HazardSet:
    """The accesses of a stretch that is being put together."""

    def __init__(self, space: LaneSpace) -> None:
        self._space = space
        self._uses: dict[Buffer, _Uses] = {}

    def admits(self, statement: Stmt) -> bool:
        """Whether the stretch with ``statement`` at its end has no hazard; if so it is added."""
        added = self._collect(statement)
        merged = {root: _merged(self._uses.get(root), uses) for root, uses in added.items()}
        if any(self._is_hazard(uses) for uses in merged.values()):
            return False
        self._uses.update(merged)
        return True

    def _collect(self, statement: Stmt) -> dict[Buffer, _Uses]:
        found: dict[Buffer, _Uses] = {}
        loops: dict[Var, int | None] = {}
        for node in walk(statement):
            if isinstance(node, For):
                loops[node.var] = _trip_count(node)
            elif isinstance(node, Map):
                loops.update((axis, _size(extent)) for axis, extent in zip(node.axes, node.extents))
        for node in walk(statement):
            if isinstance(node, StmtNode):
                self._note(node, loops, found)
        return found

    def _note(self, node: StmtNode, loops: dict[Var, int | None], found: dict[Buffer, _Uses]) -> None:
        for load in loads_in(node):
            self._add(load, loops, found).loads += 1
        match node:
            case Store():
                self._add(node, loops, found).stores += 1
            case Atomic() | ReducerUpdate():
                uses = self._add(node, loops, found)
                uses.atomics.add(node.op)
                uses.has_atomic_result |= isinstance(node, Atomic) and node.result is not None
            case _:
                for region in node.reads():
                    if region.buffer.root.space not in PRIVATE and not any(r is region for r in node.writes()):
                        self._region(region, found).loads += 1
                for region in node.writes():
                    uses = self._region(region, found)
                    if isinstance(node, AtomicTile):
                        uses.atomics.add(node.op)
                    else:
                        uses.stores += 1

    def _region(self, region: Region, found: dict[Buffer, _Uses]) -> _Uses:
        uses = found.setdefault(region.buffer.root, _Uses())
        uses.has_unclear = True
        return uses

    def _add(self, access: Load | Store | Atomic | ReducerUpdate, loops: dict[Var, int | None], found: dict[Buffer, _Uses]) -> _Uses:
        root = access.buffer.root
        uses = found.setdefault(root, _Uses())
        if root.space in PRIVATE:
            return uses
        signature = self._signature(access.indices, loops) if access.buffer is root else None
        if signature is None:
            uses.has_unclear = True
        else:
            uses.signatures.add(signature)
        return uses

    def _signature(self, indices: tuple[Expr, ...], loops: dict[Var, int | None]) -> Signature | None:
        dimensions = [self._dimension(self._space.scope.form(index), loops) for index in indices]
        return None if any(d is None for d in dimensions) else tuple(d for d in dimensions if d is not None)

    def _dimension(self, form: Form, loops: dict[Var, int | None]) -> tuple[Form, tuple[Digit, ...], tuple[Digit, ...]] | None:
        lanes: list[Digit] = []
        for var, extent in self._space.lanes:
            parts = form.split(var)
            if parts is None or (coefficient := parts[0].constant) is None:
                return None
            form = parts[1]
            lanes.append((coefficient, extent))
        digits: list[Digit] = []
        for atom in list(form.atoms()):
            if isinstance(atom, Var) and atom in loops:
                parts = form.split(atom)
                count = loops[atom]
                if parts is None or (coefficient := parts[0].constant) is None or count is None:
                    return None
                form = parts[1]
                digits.append((coefficient, count))
            elif not self._is_shared(atom, loops):
                return None
        return form, tuple(lanes), tuple(sorted(digits))

    def _is_shared(self, atom: Expr, loops: dict[Var, int | None]) -> bool:
        """Whether every lane sees the same value of the atom all through the stretch."""
        for node in walk(atom):
            if isinstance(node, Load):
                return False
            if isinstance(node, Var) and (node.is_mutable or node.kind == "lane" or node in loops or self._space.is_lane_dependent(node)):
                return False
        return True

    def _is_hazard(self, uses: _Uses) -> bool:
        if not uses.stores and not uses.atomics:
            return False
        if uses.atomics and not uses.stores and not uses.loads and len(uses.atomics) == 1 and not uses.has_atomic_result:
            return False  # the same operation commutes with itself
        if uses.stores == 1 and not uses.loads and not uses.atomics:
            return False  # lanes that meet here write in one statement, where any of them may win
        if uses.stores == 0 and uses.atomics and not uses.loads and not uses.has_unclear and len(uses.signatures) == 1:
            return False
        if uses.has_unclear or len(uses.signatures) > 1:
            return True
        return not all(self._tells_lanes_apart(signature) for signature in uses.signatures)

    def _tells_lanes_apart(self, signature: Signature) -> bool:
        """Whether every lane variable is a digit of some index that determines its digits."""
        missing = {place for place, (_, extent) in enumerate(self._space.lanes) if extent > 1}
        for _, lanes, digits in signature:
            present = {place for place in missing if lanes[place][0] != 0}
            if present and _is_mixed_radix([*(lanes[p] for p in range(len(lanes)) if lanes[p][0]), *digits]):
                missing -= present
        return not missing


def _is_mixed_radix(digits: list[Digit]) -> bool:
    """Whether the sum of coefficient times digit determines every digit."""
    reach = 0
    for coefficient, extent in sorted((abs(c), e) for c, e in digits if e > 1):
        if coefficient <= reach:
            return False
        reach += coefficient * (extent - 1)
    return True


def _merged(old: _Uses | None, new: _Uses) -> _Uses:
    if old is None:
        return new
    return _Uses(
        signatures=old.signatures | new.signatures,
        has_unclear=old.has_unclear or new.has_unclear,
        stores=old.stores + new.stores,
        loads=old.loads + new.loads,
        atomics=old.atomics | new.atomics,
        has_atomic_result=old.has_atomic_result or new.has_atomic_result,
    )


def _size(extent: Expr) -> int | None:
    value = constant_value(extent)
    return None if value is None else int(value)


def _trip_count(loop: For) -> int | None:
    """The values of the loop variable lie in [0, this); None where that is not known."""
    start, stop, step = constant_value(loop.start), constant_value(loop.stop), constant_value(loop.step)
    if start is None or stop is None or step is None or start < 0 or step <= 0:
        return None
    return max(int(stop), 1)
