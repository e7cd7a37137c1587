"""The products of a launch as its plan has them.

In: a planned launch and the launch as the emitters take it. Out: :class:`Products`, asked by the emitters of statements.

A *direct* operand is packed from what its copy reads, and the copy itself is no code. A *merged* loop takes several of its iterations
as one product: every element of the result still adds its terms in the order of k.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, TypeAlias

from zellige.diagnostics import InternalError
from zellige.dtypes import DType
from zellige.ir.stmt import Copy, Fill, For, Gemm, Launch, Stmt
from zellige.ir.traverse import walk
from zellige.plan.nodes import Choice, PlannedLaunch
from zellige.plan.products import accumulator_of
from zellige.records import dataclass
from zellige_cpu.host import Host
from zellige_cpu.leaf.units import Unit, general_unit, unit_named

Operand: TypeAlias = Literal["a", "b"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Products:
    """All tables are by the identity of statements: the choice of each product, the copies of its direct operands, the copies that are
    thereby no code, the loop whose body a product stands in, the product that a merged loop is, and (by the loop) the fill that its first
    step replaces and the copy of the result that its last step makes where it can."""

    choices: Mapping[int, Choice] = field(default_factory=dict)
    sources: Mapping[int, Mapping[Operand, Copy]] = field(default_factory=dict)
    absorbed: frozenset[int] = frozenset()
    loops: Mapping[int, For] = field(default_factory=dict)
    merged: Mapping[int, Gemm] = field(default_factory=dict)
    fills: Mapping[int, Fill] = field(default_factory=dict)
    outs: Mapping[int, Copy] = field(default_factory=dict)

    def source(self, gemm: Gemm, operand: Operand) -> Copy | None:
        """The copy of a direct operand."""
        return self.sources.get(id(gemm), {}).get(operand)


def choices_of(planned: PlannedLaunch, expanded: Launch) -> Mapping[int, Choice]:
    """The choice of each product of ``expanded``, which holds those of the plan in the same order (some as new nodes)."""
    before = [node for role in planned.roles for s in role.body for node in walk(s) if isinstance(node, Gemm)]
    after = [node for s in expanded.body for node in walk(s) if isinstance(node, Gemm)]
    if len(before) != len(after):
        raise InternalError(f"the plan has {len(before)} products, the expanded launch {len(after)}")
    by_id = {id(choice.operation): choice for choice in planned.choices}
    return {id(new): by_id[id(old)] for old, new in zip(before, after) if id(old) in by_id}


def products_of(choices: Mapping[int, Choice], prepared: Launch) -> Products:
    """The products of ``prepared`` with their choices."""
    sources: dict[int, dict[Operand, Copy]] = {}
    merged: dict[int, Gemm] = {}
    loops: dict[int, For] = {}
    for body, loop in _bodies(prepared):
        for gemm in body:
            choice = choices.get(id(gemm))
            if not isinstance(gemm, Gemm) or choice is None:
                continue
            found = sources.setdefault(id(gemm), {})
            if loop is not None:
                loops[id(gemm)] = loop
            for layout in choice.layouts:
                if layout.is_direct:
                    operand: Operand = "a" if layout.operand == "a" else "b"
                    root = (gemm.a if operand == "a" else gemm.b).buffer
                    found[operand] = next(s for s in body if isinstance(s, Copy) and s.dst.buffer is root)
            if choice.is_merged and loop is not None:
                merged[id(loop)] = gemm
    fills = _replaced_fills(prepared, choices, merged)
    outs = _stored_copies(prepared, choices, merged)
    copies = [copy for found in sources.values() for copy in found.values()]
    absorbed = frozenset(map(id, [*copies, *fills.values(), *outs.values()]))
    return Products(choices=choices, sources=sources, absorbed=absorbed, loops=loops, merged=merged, fills=fills, outs=outs)


def _replaced_fills(prepared: Launch, choices: Mapping[int, Choice], merged: Mapping[int, Gemm]) -> dict[int, Fill]:
    """The only fill of the result before each merged loop whose plan says that the first step replaces it."""
    found: dict[int, Fill] = {}
    for body, _ in _bodies(prepared):
        for loop in body:
            gemm = merged.get(id(loop))
            if gemm is not None and choices[id(gemm)].fill is not None:
                found[id(loop)] = next(s for s in body if isinstance(s, Fill) and s.dst.buffer is gemm.c.buffer)
    return found


def _stored_copies(prepared: Launch, choices: Mapping[int, Choice], merged: Mapping[int, Gemm]) -> dict[int, Copy]:
    """The copy of the result right behind each merged loop whose plan says that the last step makes it."""
    found: dict[int, Copy] = {}
    for body, _ in _bodies(prepared):
        for number, loop in enumerate(body):
            gemm = merged.get(id(loop))
            if gemm is None or choices[id(gemm)].out is None:
                continue
            following = body[number + 1] if number + 1 < len(body) else None
            if not isinstance(following, Copy) or following.src.buffer is not gemm.c.buffer:
                raise InternalError("the copy that a product's last step makes is not behind its loop")
            found[id(loop)] = following
    return found


def _bodies(launch: Launch) -> list[tuple[tuple[Stmt, ...], For | None]]:
    """Every body with the loop that it is of."""
    found: list[tuple[tuple[Stmt, ...], For | None]] = []
    pending: list[tuple[tuple[Stmt, ...], For | None]] = [(launch.body, None)]
    while pending:
        body, loop = pending.pop()
        found.append((body, loop))
        for statement in body:
            for name in type(statement).BODIES:
                pending.append((getattr(statement, name), statement if isinstance(statement, For) else None))
    return found


def unit_of(host: Host, gemm: Gemm, choice: Choice | None) -> Unit:
    """The unit that a product's choice names."""
    accumulator = accumulator_of(gemm)
    if choice is None or not choice.unit:
        return general_unit(host, accumulator)
    return unit_named(host, choice.unit, _packed_type(gemm, choice, "a"), _packed_type(gemm, choice, "b"), accumulator)


def _packed_type(gemm: Gemm, choice: Choice, operand: Operand) -> DType:
    layout = next(at for at in choice.layouts if at.operand == operand)
    return layout.dtype or (gemm.a if operand == "a" else gemm.b).buffer.dtype
