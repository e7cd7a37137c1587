"""Where operations may leave their tensors: what the choices of a plan promise, held against what they do.

In: the choices of a launch, and each operation as it runs with its loops around it. Out: problems. An operation of edge "none" stays
inside; one of edge "partial" stays inside in the full loops, and in the tail that was split off a full loop some such operation leaves
in each iteration, or the split came too early. A dimension that is not tested is never left.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from zellige.ir.stmt import For, Stmt
from zellige.ir.traverse import walk
from zellige.plan.checks.problem import Problems
from zellige.plan.checks.touches import outside_dimensions
from zellige.plan.edges import global_regions
from zellige.plan.nodes import Choice, PlannedLaunch, Role
from zellige.records import dataclass

if TYPE_CHECKING:
    from zellige.plan.checks.programs import Machine

EDGES = 11
"""The number in the list of :mod:`zellige.plan.check`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeRules:
    """The choices by the identity of their operations, the full loops, and the tails that stand behind them."""

    choices: dict[int, Choice]
    full: frozenset[int]
    tails: frozenset[int]

    @staticmethod
    def of(planned: PlannedLaunch) -> EdgeRules:
        """The rules of a launch."""
        full = frozenset(id(loop) for loop in planned.full_loops)
        tails: set[int] = set()
        for role in planned.roles:
            for body in _bodies(role):
                for loop, after in itertools.pairwise(body):
                    if id(loop) in full and isinstance(loop, For) and isinstance(after, For) and after.var is loop.var:
                        tails.add(id(after))
        return EdgeRules(choices={id(choice.operation): choice for choice in planned.choices}, full=full, tails=frozenset(tails))

    def may_leave(self, statement: Stmt, loops: list[tuple[For, int]]) -> bool:
        """Whether the operation may leave a tensor where it runs."""
        choice = self.choices.get(id(statement))
        if choice is None or choice.edge == "always":
            return True
        return choice.edge == "partial" and not any(id(loop) in self.full for loop, _ in loops)

    def is_tested(self, statement: Stmt, dimension: int) -> bool:
        """Whether the operation may leave a tensor in this dimension at all."""
        choice = self.choices.get(id(statement))
        return choice is None or not choice.tested or dimension in choice.tested


def _bodies(role: Role) -> Iterator[tuple[object, ...]]:
    yield role.body
    for statement in role.body:
        for node in walk(statement):
            for name in getattr(type(node), "BODIES", ()):
                yield getattr(node, name)


@dataclass(slots=True)
class EdgeWatch:
    """Looks at the operations of one role as they run."""

    rules: EdgeRules
    problems: Problems
    role: str
    _at: tuple[int, int] | None = None
    _what: str = ""
    _leaves: bool = True

    def note(self, statement: Stmt, signature: int, machine: Machine) -> None:
        """The operation runs now."""
        choice = self.rules.choices.get(id(statement))
        if choice is None:
            return
        around = machine.around(statement)
        outside = [(region, axis) for region in global_regions(statement) for axis in outside_dimensions(region, around)]
        text = machine.signatures.text(signature)
        if outside and not self.rules.may_leave(statement, machine.loops):
            place = "in a full loop " if choice.edge == "partial" else ""
            message = f"role {self.role} runs {text} {place}without predicates and it is partial"
            self.problems.add(EDGES, message, key=(id(statement), "full"))
        for region, axis in outside:
            if not self.rules.is_tested(statement, axis):
                message = f"role {self.role}: {text} leaves {region.buffer.name} in dimension {axis}, which is not tested"
                self.problems.add(EDGES, message, key=(id(statement), axis))
        if choice.edge == "partial":
            self._note_tail(text, bool(outside), machine.loops)

    def _note_tail(self, text: str, leaves: bool, loops: list[tuple[For, int]]) -> None:
        tail = next(((id(loop), value) for loop, value in reversed(loops) if id(loop) in self.rules.tails), None)
        if tail != self._at:
            self.finish()
            self._at, self._what, self._leaves = tail, text, tail is None
        self._leaves = self._leaves or leaves

    def finish(self) -> None:
        """The iteration in work has ended."""
        if self._at is not None and not self._leaves:
            self.problems.add(
                EDGES, f"role {self.role} runs {self._what} in a tail though the iteration is full", key=(self.role, self._at[0], "tail")
            )
        self._at = None
