"""What fits a tile operation: asked of the target's backend, ranked, and refused with a table where nothing does.

In: a tile operation, a machine. Out: the :class:`~zellige.plugin.choices.Operation` that describes it (:func:`described`), and of
the answers that a backend or its capabilities give to it the best, with the reasons of the others (:func:`best`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from zellige.diagnostics import ZelligeError, catalogue
from zellige.ir.expr import Buffer, Expr, Region, constant_value
from zellige.ir.stmt import Alloc, AtomicTile, Copy, Fill, Gemm, Launch, LayoutHint, Map, Reduce, Scan, Stmt, Transpose
from zellige.plan.capabilities import Machine
from zellige.plan.facts import statements_in
from zellige.plugin.choices import Answer, Candidate, Operation, OperationKind, Rejection
from zellige.records import dataclass

_KINDS: Final[dict[type, OperationKind]] = {
    Gemm: "gemm", Copy: "copy", Fill: "fill", Reduce: "reduce", Scan: "scan", Transpose: "transpose", AtomicTile: "atomic", Map: "map",
}  # fmt: skip


MOST_ROWS: Final = 60
"""Of the table of candidates and reasons."""

_LONGEST: Final = 400
"""Characters of a name or a reason in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The candidate that is taken, and why each of the others is not."""

    candidate: Candidate
    rejected: tuple[tuple[str, str], ...]


def described(
    statement: Stmt, launch: Launch | None, *, shape: Sequence[int | None] | None = None, accumulator: str = "", spaces: Sequence[str] = ()
) -> Operation:
    """``statement`` of ``launch``, whose hints count where it is known, in the words of the contract. ``spaces`` are those of its operands
    where they are decided already."""
    regions = regions_of(statement)
    hints = {hint.buffer.root: hint.kind for hint in (launch.hints if launch is not None else ()) if isinstance(hint, LayoutHint)}
    dtypes = tuple(region.buffer.dtype.name for region in regions)
    return Operation(
        kind=_KINDS[type(statement)],
        shape=tuple(shape) if shape is not None else _extents(statement, regions),
        dtypes=(*dtypes, accumulator) if accumulator else dtypes,
        spaces=tuple(spaces) if spaces else tuple(region.buffer.root.space for region in regions),
        layouts=tuple(hints.get(region.buffer.root, "") for region in regions),
        features=_features(statement),
        statement=statement,
    )


def regions_of(statement: Stmt) -> tuple[Region, ...]:
    """The operands of a tile operation in the order in which it is described: a, b, c of a product, else what is read, then written."""
    if isinstance(statement, Gemm):
        return (statement.a, statement.b, statement.c)
    if isinstance(statement, Map):
        return _regions_of_points(statement)
    written = statement.writes()
    return (*(region for region in statement.reads() if region not in written), *written)


def _regions_of_points(statement: Map) -> tuple[Region, ...]:
    """One region of each buffer that the points of a map read and write, but those that belong to a point."""
    inside = tuple(statements_in((statement,)))
    own = {node.buffer for node in inside if isinstance(node, Alloc)}
    read: dict[Buffer, Region] = {}
    written: dict[Buffer, Region] = {}
    for node in inside:
        for found, regions in ((read, node.reads()), (written, node.writes())):
            for region in regions:
                if region.buffer.root not in own:
                    found.setdefault(region.buffer.root, region)
    return (*(region for root, region in read.items() if root not in written), *written.values())


def _extents(statement: Stmt, regions: Sequence[Region]) -> tuple[int | None, ...]:
    extents: Sequence[Expr] = statement.extents if isinstance(statement, Map) else (regions[-1].extents if regions else ())
    values = [constant_value(extent) for extent in extents]
    return tuple(None if value is None else int(value) for value in values)


def _features(statement: Stmt) -> tuple[str, ...]:
    found: list[str] = []
    if isinstance(statement, Gemm):
        found += [name for name in ("transpose_a", "transpose_b") if getattr(statement, name)]
        if statement.scale_a is not None or statement.scale_b is not None:
            found.append("scaled")
        if statement.metadata is not None:
            found.append("sparse")
        if constant_value(statement.clear) is not False:
            found.append("clears")
    if isinstance(statement, Copy) and statement.src.buffer.dtype != statement.dst.buffer.dtype:
        found.append("casts")
    return tuple(found)


def best(operation: Operation, answers: Sequence[Answer], machine: Machine, advice: str = "") -> Best:
    """The best candidate: native before emulated, then by priority, cost, and order of the answers. E420 where there is none,
    E703 for one that names what executes operations of another kind, or an engine that the target does not have."""
    candidates = [a for a in answers if isinstance(a, Candidate)]
    for candidate in candidates:
        wrong = _of_another_kind(operation, candidate, machine)
        if wrong:
            reason = f"its candidate {candidate.name} of the hook candidates cannot execute the {operation.text}: {wrong}"
            raise catalogue.E703.error(name=machine.name, reason=reason)
    rejected = [(a.name, a.reason) for a in answers if isinstance(a, Rejection)]
    if not candidates:
        raise nothing_fits(operation, rejected, machine, advice)
    ranked = sorted(candidates, key=lambda c: (not c.is_native, -c.priority, c.cost))  # equal ones keep their order
    taken = ranked[0]
    rejected += [(c.name, _why_not(c, taken)) for c in ranked[1:]]
    return Best(candidate=taken, rejected=_by_reason(rejected))


def _of_another_kind(operation: Operation, candidate: Candidate, machine: Machine) -> str:
    """Why a candidate can be none for an operation of this kind; empty where it can."""
    kind, path, engines = operation.kind, candidate.path, sorted(engine.name for engine in machine.capabilities.engines)
    if candidate.unit is not None and kind != "gemm":
        return f"it names {candidate.unit.name or 'a unit'}, which multiplies"
    if path is not None and kind not in ("copy", "pipeline"):
        return f"it names {path.mechanism}, which copies"
    if candidate.synchronisation is not None and kind != "pipeline":
        return f"it names {candidate.synchronisation.mechanism}, which waits for copies"
    named = (candidate.engine, "" if path is None else path.engine)
    unknown = next((name for name in named if name and name not in (engines or (machine.main_engine,))), "")
    return f"the target has no engine {unknown} ({', '.join(engines) or 'it lists none'})" if unknown else ""


def _by_reason(rejected: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The rejected ones, those with one reason together."""
    found: dict[str, dict[str, None]] = {}
    for name, reason in rejected:
        found.setdefault(reason, {})[name] = None
    return tuple((", ".join(names), reason) for reason, names in found.items())


def _why_not(other: Candidate, taken: Candidate) -> str:
    if other.is_native is not taken.is_native:
        return f"an emulation comes behind what the target has, here {taken.name}"
    if other.priority != taken.priority:
        return f"fits, with a priority of {other.priority} below {taken.priority}"
    if other.cost != taken.cost:
        return f"fits, at a cost of {other.cost:g} above {taken.cost:g}"
    return f"fits as well; {taken.name} comes first"


def nothing_fits(operation: Operation, rejected: Sequence[tuple[str, str]], machine: Machine, advice: str) -> ZelligeError:
    """E420 with the table of candidates and reasons."""
    rows = [(_cut(name), _cut(reason)) for name, reason in list(dict.fromkeys(rejected))[:MOST_ROWS]]
    width = max((len(name) for name, _ in rows), default=0)
    table = "\n".join(f"    {name.ljust(width)}  {reason}" for name, reason in rows) or "    it has no candidate at all"
    left = len(dict.fromkeys(rejected)) - len(rows)
    table += f"\n    and {left} more" if left else ""
    hint = advice or "change what a row of the table objects to, or compile for another target"
    return catalogue.E420.error(operation.statement.span, target=machine.name, operation=operation.text, table=table, advice=hint)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def with_refused(answers: Sequence[Answer], refused: Sequence[tuple[str, str, str]]) -> tuple[Answer, ...]:
    """``answers`` and instructions that a backend knows and cannot use: their names, why they do not serve, and what would make them (""
    where nothing does). An emulation then says that it would be avoided so."""
    ways = tuple(dict.fromkeys(remedy for _, _, remedy in refused if remedy))
    found = [
        replace(answer, avoided_by=" or ".join(way for way in (answer.avoided_by, *ways) if way))
        if isinstance(answer, Candidate) and not answer.is_native
        else answer
        for answer in answers
    ]
    return (*found, *(Rejection(name=name, reason=reason) for name, reason, _ in refused))


def emulation_note(candidate: Candidate) -> str:
    """What a report adds of an emulation: how it would be avoided."""
    return f"; avoided by {candidate.avoided_by}" if candidate.avoided_by and not candidate.is_native else ""
