"""Operations that may read what they write, made ones that do not.

In: a kernel, one of its launches and a machine. Out: the launch in which no tile operation reads an element that it also writes, apart from
those that read an element only where they write that very element; and a decision for each operation that was changed.

The meaning of an operation is its NumPy line: operands are read whole before the result is written. Lanes, vectors and loops over elements
read and write in an order of their own, so an operand that may have elements in common with the result is read through a tile of its own
(copies, transpositions, atomic operations on tiles), or the result is made in one (products, reductions, scans). Offsets and values that
are loaded from what is written are loaded before.

Two regions are apart where the intervals of a dimension or, of dense storage, the intervals of addresses are proven to be: for all values
of the variables, with the sizes and conditions known at the statement. What is too large for a tile, or of run-time size, is copied in
parts, those that are written over first (:mod:`zellige.plan.parts`), or read through a copy of its buffer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Final, TypeAlias

from zellige.analysis.bounds import Scope
from zellige.analysis.forms import Form
from zellige.diagnostics import catalogue
from zellige.ir.expr import Buffer, Expr, Load, Region, Var, constant_value
from zellige.ir.lanes import PRIVATE, LaneDependence, lane_dependence
from zellige.ir.stmt import (
    Alloc,
    AtomicTile,
    Bind,
    Copy,
    Fill,
    Gemm,
    Kernel,
    Launch,
    Map,
    Reduce,
    SafeValue,
    Scan,
    Stmt,
    Transpose,
    whole,
)
from zellige.ir.traverse import rebuilt, rewrite, walk
from zellige.ir.verifier.context import word
from zellige.plan.capabilities import Machine
from zellige.plan.draft import Decisions
from zellige.plan.edges import scopes_of
from zellige.plan.facts import LaunchFacts, bytes_of, statements_in
from zellige.plan.parts import in_parts
from zellige.plan.spaces import element_strides
from zellige.records import dataclass

Operation: TypeAlias = Copy | Transpose | AtomicTile | Fill | Gemm | Reduce | Scan

_OPERANDS: Final[dict[type[Stmt], tuple[str, ...]]] = {
    Copy: ("src",), Transpose: ("src",), AtomicTile: ("src",), Fill: (), Reduce: ("src",), Scan: ("src",),
    Gemm: ("a", "b", "scale_a", "scale_b", "metadata"),
}  # fmt: skip
"""The fields of each operation that hold what it reads."""

_REGISTER_BYTES: Final = 256
"""What a lane's registers may hold of a tile made here, so that room is left for what they hold besides; a larger one is shared."""

_LANES: Final = 128
"""Lanes of a block whose author names none."""


@dataclass(slots=True, kw_only=True)
class _Work:
    """What the functions below share: the launch's facts, and what has been made so far."""

    facts: LaunchFacts
    machine: Machine
    decisions: Decisions
    scopes: Mapping[int, Scope]
    in_points: frozenset[int]
    lanes: LaneDependence
    own: set[int]
    """Operations that each lane does for itself."""
    allocations: list[Stmt]
    safe_values: list[SafeValue]

    def scope(self, statement: Stmt) -> Scope:
        return self.scopes.get(id(statement), self.facts.scope)


def separated(kernel: Kernel, launch: Launch, machine: Machine, decisions: Decisions) -> Launch:
    """``launch`` with operands and results apart. E303 for an operation whose operand cannot be read before."""
    meeting = [s for s in statements_in(launch.body) if isinstance(s, Operation) and _may_concern(s)]
    if not meeting:
        return launch
    facts = LaunchFacts(kernel, launch)
    maps = [s for s in statements_in(launch.body) if isinstance(s, Map)]
    work = _Work(
        facts=facts, machine=machine, decisions=decisions, scopes=scopes_of(facts),
        in_points=frozenset(id(inner) for one in maps for inner in statements_in(one.body)),
        lanes=lane_dependence(launch), own=set(), allocations=[], safe_values=[],
    )  # fmt: skip
    replaced = {id(s): made for s in meeting if (made := _apart(work, s)) != (s,)}
    if not replaced:
        return launch
    rewritten = rewrite(launch, lambda node: replaced.get(id(node), node))
    return rebuilt(rewritten, body=(*work.allocations, *rewritten.body), safe_values=(*rewritten.safe_values, *work.safe_values))


def _result(statement: Operation) -> Region:
    return statement.c if isinstance(statement, Gemm) else statement.dst


def _operands(statement: Operation) -> tuple[Region, ...]:
    """What the operation reads whole, its own result apart."""
    found = (getattr(statement, name) for name in _OPERANDS[type(statement)])
    return tuple(region for region in found if region is not None)


def _may_concern(statement: Operation) -> bool:
    """Whether anything that the operation reads has the storage of its result, as a look at the buffers tells."""
    root = _result(statement).buffer.root
    return any(r.buffer.root is root for r in _operands(statement)) or bool(_loaded(statement, root))


def _loaded(statement: Operation, root: Buffer) -> tuple[Expr, ...]:
    """The offsets, extents and values of an operation that are loaded from a storage."""
    found: dict[int, Expr] = {}
    for name in statement.CHILDREN:
        child = getattr(statement, name)
        if child is None:
            continue
        for expr in (*child.offsets, *child.extents) if isinstance(child, Region) else (child,):
            if any(isinstance(node, Load) and node.buffer.root is root for node in walk(expr)):
                found[id(expr)] = expr
    return tuple(found.values())


def _apart(work: _Work, statement: Operation) -> tuple[Stmt, ...]:
    """What takes the statement's place."""
    before, alone = _with_values_first(statement)
    if work.facts.launch.lane_vars and work.lanes.is_private(statement):
        work.own.add(id(alone))
    scope = work.scope(statement)
    result = _result(alone)
    meeting = [r for r in _operands(alone) if _meet(work, alone, r, result, scope)]
    if not meeting:
        return (*before, alone)
    if isinstance(alone, (Gemm, Reduce, Scan)) and _extents(result) is not None:
        return (*before, *_result_apart(work, alone, result, meeting))
    if isinstance(alone, (Copy, AtomicTile)) and id(alone) not in work.own and not _is_small(work, alone.src):
        made = in_parts(alone, scope, _REGISTER_BYTES // 4 * _lanes(work.facts.launch))
        if made is not None:
            _tell(work, alone, meeting, f"a part at a time, through {made.tile.name} ({made.tile.space})")
            return (*before, *_allocated(work, alone, made.tile), *made.statements)
    return (*before, *_operands_apart(work, alone, meeting))


def _with_values_first(statement: Operation) -> tuple[tuple[Stmt, ...], Operation]:
    """The operation with what it loads from its result's storage as variables that are bound before it."""
    loaded = _loaded(statement, _result(statement).buffer.root)
    if not loaded:
        return (), statement
    names = {id(expr): Var(name="before", dtype=expr.dtype, kind="value") for expr in loaded}
    made: Operation = rewrite(statement, lambda node: names.get(id(node), node), bodies=False)
    return tuple(Bind(var=names[id(expr)], value=expr, span=statement.span) for expr in loaded), made


# -- whether they meet -----------------------------------------------------------------------------------------------------


def _meet(work: _Work, statement: Operation, operand: Region, result: Region, scope: Scope) -> bool:
    """Whether the operation may read an element after it has written it, or while another of its parts writes it."""
    if operand.buffer.root is not result.buffer.root:
        return False
    if id(statement) in work.own and result.buffer.root.space not in PRIVATE:
        if _are_apart_for_all_lanes(work, operand, result, scope):
            return False
    elif are_apart(operand, result, work.facts, scope):
        return False
    if 0 in (constant_value(e) for e in (*operand.extents, *result.extents)):
        return False
    return not (isinstance(statement, (Copy, AtomicTile, Scan)) and _are_same(operand, result, scope))


def _are_same(one: Region, other: Region, scope: Scope) -> bool:
    """Whether two regions are the same elements in the same places."""
    if one.buffer is not other.buffer:
        return False
    pairs = (*zip(one.offsets, other.offsets), *zip(one.extents, other.extents))
    return all(a == b or (scope.form(a) - scope.form(b)).constant == 0 for a, b in pairs)


def _are_apart_for_all_lanes(work: _Work, one: Region, other: Region, scope: Scope) -> bool:
    """Whether no lane's region has an element in common with another region of any lane: told by a dimension in which they do not
    differ between lanes."""
    if one.buffer is not other.buffer:
        return False
    places = ((one.offsets[d], one.extents[d], other.offsets[d], other.extents[d]) for d in range(one.buffer.rank))
    shared = [d for d, expressions in enumerate(places) if not work.lanes.differs(*expressions)]
    return any(_are_apart_in(one, other, d, scope) for d in shared)


def are_apart(one: Region, other: Region, facts: LaunchFacts, scope: Scope) -> bool:
    """Whether two regions of a storage are proven to have no element in common."""
    if one.buffer is other.buffer and any(_are_apart_in(one, other, d, scope) for d in range(one.buffer.rank)):
        return True
    first, second = _addresses(one, facts, scope), _addresses(other, facts, scope)
    if first is None or second is None:
        return False
    return scope.is_nonnegative(second[0] - first[1]) or scope.is_nonnegative(first[0] - second[1])


def _are_apart_in(one: Region, other: Region, dimension: int, scope: Scope) -> bool:
    first, second = one.offsets[dimension], other.offsets[dimension]
    gap = scope.form(second) - scope.form(first)
    behind = gap - scope.form(one.extents[dimension]), gap.scaled(-1) - scope.form(other.extents[dimension])
    return any(scope.is_nonnegative(form) for form in behind)


def _addresses(region: Region, facts: LaunchFacts, scope: Scope) -> tuple[Form, Form] | None:
    """The bits of its storage between which the elements of a region lie, [low, high); None where that is not known. Elements outside the
    buffer, which nobody touches, may be counted too."""
    buffer = region.buffer
    if not buffer.rank or not all(scope.is_exact(offset) for offset in region.offsets):
        return None
    strides = element_strides(buffer, facts)
    bits = buffer.dtype.storage_bits
    if strides is None or bits < 8 or any(stride.constant is None or stride.constant < 0 for stride in strides):
        return None
    low, size = Form.of(0), Form.of(1)
    for offset, extent, stride in zip(region.offsets, region.extents, strides):
        low = low + scope.form(offset) * stride
        size = size + (scope.form(extent) - 1) * stride
    return low.scaled(bits), (low + size).scaled(bits)


# -- what is made ----------------------------------------------------------------------------------------------------------


def _extents(region: Region) -> tuple[Expr, ...] | None:
    """The extents where all are constants."""
    return region.extents if all(constant_value(e) is not None for e in region.extents) else None


def _result_apart(work: _Work, statement: Gemm | Reduce | Scan, result: Region, meeting: list[Region]) -> tuple[Stmt, ...]:
    """The result made in a tile of its own and copied where it belongs."""
    root = result.buffer
    tile = _tile(work, statement, f"{root.name}_after", root, result.extents, meeting[0])
    there = whole(tile, result.span)
    is_read = any(r is result for r in statement.reads())
    first = (Copy(src=result, dst=there, span=statement.span),) if is_read else ()
    made = rebuilt(statement, c=there) if isinstance(statement, Gemm) else rebuilt(statement, dst=there)
    _tell(work, statement, meeting, f"the result is made in {tile.name} ({tile.space}) and copied from there")
    alloc = _allocated(work, statement, tile)
    return (*alloc, *first, made, Copy(src=there, dst=result, span=statement.span))


def _operands_apart(work: _Work, statement: Operation, meeting: list[Region]) -> tuple[Stmt, ...]:
    """Operands read through tiles of their own: of the region where its size is constant, else of the whole buffer."""
    before: list[Stmt] = []
    copies: dict[Buffer, Buffer] = {}
    changes: dict[str, Region] = {}
    for name in _OPERANDS[type(statement)]:
        region = getattr(statement, name)
        if not any(region is one for one in meeting):
            continue
        if _extents(region) is not None:
            tile = _read_first(work, statement, region, region, before)
            changes[name] = whole(tile, region.span)
            continue
        buffer = region.buffer
        if buffer not in copies:
            copies[buffer] = _read_first(work, statement, region, whole(buffer, region.span), before)
            safe = next((s for s in work.facts.launch.safe_values if s.buffer is buffer), None)
            work.safe_values.extend(() if safe is None else (rebuilt(safe, buffer=copies[buffer]),))
        changes[name] = rebuilt(region, buffer=copies[buffer])
    names = ", ".join(dict.fromkeys(f"{r.buffer.name} ({r.buffer.space})" for r in changes.values()))
    _tell(work, statement, meeting, f"all of it first, into {names}")
    if isinstance(statement, Copy):
        return (*before, rebuilt(statement, is_async=False, **changes))
    return (*before, rebuilt(statement, **changes))


def _read_first(work: _Work, statement: Operation, operand: Region, source: Region, before: list[Stmt]) -> Buffer:
    """A tile with what ``source`` holds: its allocation and the copy are added to what stands ``before`` the statement."""
    tile = _tile(work, statement, f"{source.buffer.name}_before", source.buffer, source.extents, operand)
    before += [*_allocated(work, statement, tile), Copy(src=source, dst=whole(tile, source.span), span=statement.span)]
    return tile


def _allocated(work: _Work, statement: Stmt, tile: Buffer) -> tuple[Stmt, ...]:
    """The allocation of a tile before its statement where a point needs one of its own; elsewhere all stand at the start of the launch."""
    alloc = Alloc(buffer=tile, span=statement.span)
    if id(statement) in work.in_points:
        return (alloc,)
    work.allocations.append(alloc)
    return ()


def _tile(work: _Work, statement: Operation, name: str, like: Buffer, shape: Iterable[Expr], operand: Region) -> Buffer:
    """A fresh buffer of the elements of ``like``. E303 where there cannot be one."""
    shape = tuple(shape)
    made = Buffer(name=name, dtype=like.dtype, shape=shape, space="shared", span=statement.span)
    size = bytes_of(made)
    if size is None:
        raise _refusal(statement, operand, "the size of what it reads is known only at run time")
    root = like.root
    if root.space in PRIVATE or id(statement) in work.own:
        return rebuilt(made, space="local")
    if root.space == "fragment" or size <= _REGISTER_BYTES * _lanes(work.facts.launch):
        return rebuilt(made, space="fragment")
    space = work.machine.space_for("shared")
    if space is not None and space.bytes is not None and size > space.bytes:
        raise _refusal(statement, operand, f"what it reads is {size} bytes, and {space.name} holds {space.bytes} bytes a block")
    return made


def _is_small(work: _Work, region: Region) -> bool:
    """Whether a copy of the region is a tile like those that the author allocates."""
    if region.buffer.root.space not in ("global", "shared"):
        return True
    size = bytes_of(Buffer(name="", dtype=region.buffer.dtype, shape=region.extents))
    return size is not None and size <= _REGISTER_BYTES * _lanes(work.facts.launch)


def _lanes(launch: Launch) -> int:
    counts = [constant_value(extent) for extent in launch.threads or ()]
    return prod(int(c) for c in counts if c is not None) if counts and None not in counts else _LANES


def _refusal(statement: Operation, operand: Region, reason: str) -> Exception:
    result = _result(statement)
    return catalogue.E303.error(
        statement.span, operation=word(statement), source=operand.buffer.label, result=result.buffer.label, reason=reason
    )


def _tell(work: _Work, statement: Operation, meeting: list[Region], chosen: str) -> None:
    sources = " and ".join(dict.fromkeys(r.buffer.name for r in meeting))
    result = _result(statement).buffer.name
    work.decisions.take(
        f"how does {word(statement)} read {sources} before it writes {result}?", chosen,
        "the two may have elements in common, and an operation reads its operands whole before it writes its result",
        rejected=(("in place", "an element could be read after it has been written"),), where=statement.span,
    )  # fmt: skip
