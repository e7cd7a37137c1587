"""Elementwise statements over the same points made one Map, with the reductions of their results: tile IR to tile IR.

In: the body of a launch. Out: a body with the same meaning in which a tile that one statement writes and the next one reads, element by
element, is handed over in registers; it is stored only where something else reads it later (:mod:`zellige_cpu.liveness`). A reduction
along the innermost axis becomes a :class:`Fold` in the Map that makes its elements.

Two statements are joined where every buffer that both touch and one of them writes is touched at the same element only, which differs from
point to point. Statements between them are moved out of the way where they touch nothing of it. Of global tensors, two of the same
shape and type may be the same memory: then they too must be touched at the same element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar, TypeAlias, cast

from zellige.analysis.bounds import Scope
from zellige.analysis.forms import ZERO, Form
from zellige.ir.expr import INT32, Buffer, Const, Expr, Load, Node, Region, Var, constant_value
from zellige.ir.reductions import reduction_dtype
from zellige.ir.stmt import (
    Alloc,
    Assume,
    Atomic,
    AtomicTile,
    Bind,
    Break,
    Continue,
    Copy,
    Fill,
    For,
    Gemm,
    Map,
    Reduce,
    ReduceOp,
    Scan,
    Stmt,
    StmtNode,
    Store,
    Transpose,
    While,
)
from zellige.ir.traverse import rebuilt, rewrite, substitute, walk
from zellige.passes import tile_operations
from zellige.records import dataclass
from zellige_cpu.indexes import is_stable
from zellige_cpu.liveness import Liveness

_MOST_NODES = 260
"""Nodes of a joined body: beyond it, bounds are tested for each access (see :mod:`zellige_cpu.maps`) and registers do not suffice."""

_WINDOW = 12
"""Statements that are looked back over for one to join."""

_MOVABLE = (Alloc, Copy, Fill, Gemm, Map, Reduce, Scan, Transpose)

_Forms: TypeAlias = "tuple[Form, ...]"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fold(StmtNode):
    """In the body of a Map: ``value`` of all points along the last axis combined by ``op`` into the one element ``dst``.

    As :class:`zellige.ir.stmt.Reduce` of these values; with ``clear`` False the result is combined with what dst held.
    """

    value: Expr
    dst: Region
    op: ReduceOp
    clear: bool
    nan_propagate: bool
    CHILDREN: ClassVar[tuple[str, ...]] = ("value", "dst")
    WRITES: ClassVar[tuple[str, ...]] = ("dst",)

    def reads(self) -> tuple[Region, ...]:
        return StmtNode.reads(self) if self.clear else (self.dst, *StmtNode.reads(self))


def fused(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body of a launch with what can be joined joined, at every depth outside of Maps."""
    if not any(isinstance(node, (Copy, Map, Reduce)) for statement in body for node in walk(statement)):
        return body
    return _Fusion(body).body(body, frozenset(), frozenset())


# -- nests ---------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Nest:
    """Statements over the same points: as they were, and as element statements of common axes."""

    axes: tuple[Var, ...]
    extents: tuple[int, ...]
    body: list[Stmt]
    originals: list[Stmt]
    nodes: int
    touched: dict[Buffer, set[_Forms]] = field(default_factory=dict)
    written: set[Buffer] = field(default_factory=set)


def _nest(statement: Stmt) -> _Nest | None:
    """A statement as a nest of element statements, None where it is no candidate."""
    match statement:
        case Map():
            if not all(isinstance(s, Store) or (isinstance(s, Bind) and not s.var.is_mutable) for s in statement.body):
                return None
            whole = statement
        case Copy():
            if tile_operations.agreeing_extents(statement):
                return None
            whole = with_short_axes(tile_operations.copy_as_map(statement))
        case Reduce():
            found = _reduction(statement)
            if found is None:
                return None
            whole = with_short_axes(found)
        case _:
            return None
    extents = [constant_value(extent) for extent in whole.extents]
    if any(e is None or e < 1 for e in extents):
        return None
    kept = [(a, int(e)) for a, e in zip(whole.axes, extents) if e is not None and e != 1]
    dropped = {a: Const(value=0, dtype=a.dtype) for a, e in zip(whole.axes, extents) if e == 1}
    if not kept:
        return None
    if dropped:
        whole = substitute(whole, dropped)
    nest = _Nest(tuple(a for a, _ in kept), tuple(e for _, e in kept), list(whole.body), [statement], sum(1 for _ in walk(whole)))
    _note(nest, nest.body)
    return nest


def with_short_axes(statement: Map) -> Map:
    """The Map with axes of 32 bits, as those of the language's own Maps are: widened they are the same index, cut they would be another."""
    axes = tuple(Var(name=axis.name, dtype=INT32, kind="loop") for axis in statement.axes)
    values = {old: tile_operations.converted(new, old.dtype) for old, new in zip(statement.axes, axes)}
    body = tuple(substitute(s, values) for s in statement.body)
    return rebuilt(statement, axes=axes, body=body)


def _reduction(statement: Reduce) -> Map | None:
    """A reduction along the last axis of its source as a Map of one Fold."""
    extents = [constant_value(e) for e in statement.src.extents]
    axis = statement.axis
    if axis != len(extents) - 1 or any(e is None or e < 1 for e in extents) or extents[axis] == 1:
        return None
    if not reduction_dtype(statement.src.buffer.dtype, statement.dst.buffer.dtype).is_float or statement.op in ("any", "all"):
        return None
    axes = tuple(tile_operations.axis(f"r{d}") for d in range(len(extents)))
    kept = list(axes[:axis])
    target = statement.dst
    if len(target.extents) == len(extents):
        position: list[Expr] = [*kept, tile_operations.number(0)]
    elif len(target.extents) == len(kept) and [constant_value(e) for e in target.extents] == extents[:axis]:
        position = list(kept)
    else:
        return None
    place = tile_operations.element_at(target, position)
    one = tuple(tile_operations.number(1) for _ in place)
    fold = Fold(
        value=tile_operations.load_at(statement.src, axes),
        dst=Region(buffer=target.buffer, offsets=place, extents=one, span=target.span),
        op=statement.op,
        clear=statement.clear,
        nan_propagate=statement.nan_propagate,
        span=statement.span,
    )
    extents_of = tuple(tile_operations.wide(e) for e in statement.src.extents)
    return Map(axes=axes, extents=extents_of, body=(cast(Stmt, fold),), span=statement.span)


def _scope(nest: _Nest) -> Scope:
    scope = Scope()
    for axis, extent in zip(nest.axes, nest.extents):
        scope.add_variable(axis, ZERO, Form.of(extent - 1))
    return scope


def _note(nest: _Nest, body: Sequence[Stmt]) -> None:
    """Add what the element statements touch."""
    scope = _scope(nest)
    for statement in body:
        for node in walk(statement):
            match node:
                case Load(buffer=buffer, indices=indices):
                    nest.touched.setdefault(buffer, set()).add(tuple(scope.form(i) for i in indices))
                case Store(buffer=buffer, indices=indices):
                    nest.touched.setdefault(buffer, set()).add(tuple(scope.form(i) for i in indices))
                    nest.written.add(buffer)
                case Region(buffer=buffer, offsets=offsets):
                    nest.touched.setdefault(buffer, set()).add(tuple(scope.form(i) for i in offsets))
                    nest.written.add(buffer)
                case _:
                    pass


def _is_told_apart(nest: _Nest, forms: _Forms) -> bool:
    """Whether each axis stands alone in some index, so that points differ in the element they touch."""
    return all(any(_is_shifted(nest, form, axis) for form in forms) for axis in nest.axes)


def _is_shifted(nest: _Nest, form: Form, axis: Var) -> bool:
    """Whether the form is ``axis`` and something that is the same for all points."""
    return not any(node in nest.axes for atom in (form - Form.of(axis)).atoms() for node in walk(atom) if isinstance(node, Var))


def _element(nest: _Nest, buffer: Buffer) -> _Forms | None:
    """The one element of the buffer that a point touches, and no other point does; None where there is no such."""
    found = nest.touched[buffer]
    if len(found) != 1:
        return None
    forms = next(iter(found))
    is_fixed = all(is_stable(atom) for form in forms for atom in form.atoms())
    return forms if is_fixed and _is_told_apart(nest, forms) else None


# -- joining -------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Footprint:
    """The roots that a statement reads and writes, nested statements included, and whether it does anything else."""

    reads: set[Buffer]
    writes: set[Buffer]
    has_effect: bool


def _footprint(statement: Stmt, known: dict[int, tuple[Stmt, _Footprint]]) -> _Footprint:
    """``known`` holds what was found earlier, by the identity of statements: a long chain of branches is deep, and looked at once."""
    pending = [statement]
    while pending:
        top = pending[-1]
        nested = [inner for name in getattr(type(top), "BODIES", ()) for inner in getattr(top, name)]
        missing = [inner for inner in nested if id(inner) not in known]
        if missing:
            pending.extend(missing)
            continue
        pending.pop()
        found = _Footprint(set(), set(), False)
        if isinstance(top, StmtNode):
            found.reads.update(r.buffer.root for r in top.reads())
            found.writes.update(r.buffer.root for r in top.writes())
            found.has_effect = _has_effect(top)
        if isinstance(top, Alloc):
            found.writes.add(top.buffer.root)
        for _, inside in (known[id(inner)] for inner in nested):
            found.reads |= inside.reads
            found.writes |= inside.writes
            found.has_effect |= inside.has_effect
        known[id(top)] = (top, found)
    found = known[id(statement)][1]
    return _Footprint(set(found.reads), set(found.writes), found.has_effect)  # one's own: what is joined is added to it


def _may_be_same(left: Buffer, right: Buffer) -> bool:
    """Whether two roots may be the same memory: tensors of the caller, which may give one twice."""
    return left is right or (left.space == "global" and right.space == "global")


def _conflict(left: _Footprint, right: _Footprint) -> bool:
    pairs = [(a, b) for a in left.writes for b in right.reads | right.writes] + [(a, b) for a in left.reads for b in right.writes]
    return any(_may_be_same(a, b) for a, b in pairs)


@dataclass(slots=True)
class _Item:
    """One statement of a body, or several joined to it."""

    statement: Stmt
    nest: _Nest | None
    footprint: _Footprint

    @property
    def is_movable(self) -> bool:
        """Whether it does nothing but read and write memory, so that what touches none of it may pass."""
        if self.nest is not None:
            return True
        return isinstance(self.statement, _MOVABLE) and not self.footprint.has_effect


def _has_effect(node: Node) -> bool:
    return isinstance(node, StmtNode) and (node.has_effect_beyond_memory or isinstance(node, (Atomic, AtomicTile, Assume)))


class _Fusion:
    def __init__(self, body: tuple[Stmt, ...]) -> None:
        self._liveness = Liveness(body)
        self._known: dict[int, tuple[Stmt, _Footprint]] = {}

    def body(self, body: tuple[Stmt, ...], after: frozenset[Buffer], at_jumps: frozenset[Buffer]) -> tuple[Stmt, ...]:
        """The statements joined, given what is alive behind them and where a jump out of them leads."""
        items: list[_Item] = []
        for statement in body:
            item = _Item(statement, _nest(statement), _footprint(statement, self._known))
            if item.nest is None or not self._joins(items, item):
                items.append(item)
        alive = after
        result: list[Stmt] = []
        for item in reversed(items):
            if item.nest is None or len(item.nest.originals) == 1:
                use = self._liveness.use(item.statement)
                result.append(self._nested(item.statement, alive, at_jumps))
                alive = use.before(alive) | at_jumps
                continue
            result.append(_joined(item.nest, alive))
            for original in reversed(item.nest.originals):
                alive = self._liveness.use(original).before(alive) | at_jumps
        result.reverse()
        if len(result) == len(body) and all(a is b for a, b in zip(result, body)):
            return body
        return tuple(result)

    def _nested(self, statement: Stmt, alive: frozenset[Buffer], at_jumps: frozenset[Buffer]) -> Stmt:
        """The statement with its bodies joined; a loop's body comes round to its own start."""
        if isinstance(statement, Map) or not statement.BODIES:
            return statement
        after = alive | self._liveness.use(statement).needs
        if isinstance(statement, (For, While)):
            jumps = any(isinstance(node, (Break, Continue)) for node in walk(statement))
            at_jumps = after if jumps else frozenset()
        changes: dict[str, tuple[Stmt, ...]] = {}
        for name in statement.BODIES:
            old = getattr(statement, name)
            new = self.body(old, after, at_jumps)
            if new is not old:
                changes[name] = new
        return rebuilt(statement, **changes) if changes else statement

    def _joins(self, items: list[_Item], item: _Item) -> bool:
        """Join ``item`` to one before it, with what is between them out of the way; False where nothing fits."""
        nest = item.nest
        assert nest is not None
        for place in range(len(items) - 1, max(-1, len(items) - 1 - _WINDOW), -1):
            candidate = items[place]
            if not candidate.is_movable:
                return False
            if candidate.nest is None or candidate.nest.extents != nest.extents:
                continue
            renamed = _renamed(nest, candidate.nest.axes)
            if not _fit(candidate.nest, renamed):
                continue
            moved = _around(candidate.footprint, item.footprint, items[place + 1 :])
            if moved is None:
                continue
            before, following = moved
            _add(candidate.nest, renamed)
            candidate.footprint.reads |= item.footprint.reads
            candidate.footprint.writes |= item.footprint.writes
            items[place:] = [*before, candidate, *following]
            return True
        return False


def _around(first: _Footprint, second: _Footprint, between: Sequence[_Item]) -> tuple[list[_Item], list[_Item]] | None:
    """What stands between two statements that become one, sorted into before and after it; None where that is not possible."""
    before: list[_Item] = []
    after: list[_Item] = []
    for item in between:
        if not _conflict(item.footprint, first) and not any(_conflict(item.footprint, a.footprint) for a in after):
            before.append(item)
        elif not _conflict(item.footprint, second):
            after.append(item)
        else:
            return None
    return before, after


def _renamed(nest: _Nest, axes: tuple[Var, ...]) -> _Nest:
    """The nest over the axes of another one of the same extents."""
    values = {old: tile_operations.converted(new, old.dtype) for old, new in zip(nest.axes, axes)}
    body = [substitute(s, values) for s in nest.body]
    result = _Nest(axes, nest.extents, body, nest.originals, nest.nodes)
    _note(result, body)
    return result


def _fit(first: _Nest, second: _Nest) -> bool:
    """Whether the points of both may run as one, and a tile is handed over."""
    if first.nodes + second.nodes > _MOST_NODES:
        return False
    hands_over = False
    for ours in first.touched:
        for theirs in second.touched:
            if not (ours in first.written or theirs in second.written):
                if ours is theirs and ours.space != "global" and _element(first, ours) is not None:
                    hands_over |= first.touched[ours] == second.touched[theirs]
                continue
            if ours.root is not theirs.root and not _may_alias(ours, theirs):
                continue
            if ours is not theirs and ours.root is theirs.root:
                return False  # two looks at one memory
            left = _element(first, ours)
            if left is None or left != _element(second, theirs):
                return False
            hands_over |= ours.space != "global"
    return hands_over


def _may_alias(left: Buffer, right: Buffer) -> bool:
    """Whether two buffers may be the same array of the caller's. Arrays that overlap in another way than wholly are taken for distinct
    ones: blocks that run at the same time would be at odds over them too."""
    if left.space != "global" or right.space != "global":
        return False
    return left.dtype == right.dtype and len(left.shape) == len(right.shape)


def _add(nest: _Nest, other: _Nest) -> None:
    nest.body.extend(other.body)
    nest.originals.extend(other.originals)
    nest.nodes += other.nodes
    _note(nest, other.body)


# -- the joined Map ------------------------------------------------------------------------------------------------------


def _joined(nest: _Nest, alive: frozenset[Buffer]) -> Map:
    """The nest as one Map: what is stored and loaded again stays in a variable, and what nobody reads later is not stored."""
    scope = _scope(nest)
    tiles = {b: _element(nest, b) for b in nest.written if b.space != "global"}
    handed = {b for b, forms in tiles.items() if forms is not None and _is_inside(scope, b, forms)}
    known: dict[Buffer, Var] = {}
    body: list[Stmt] = []

    def visit(node: Node) -> Node:
        return known.get(node.buffer, node) if isinstance(node, Load) else node

    for statement in nest.body:
        new = rewrite(statement, visit)
        if isinstance(new, Store) and new.buffer in handed:
            value = Var(name=f"{new.buffer.name}_here", dtype=new.buffer.dtype, kind="value")
            body.append(Bind(var=value, value=new.value, span=new.span))
            known[new.buffer] = value
            new = rebuilt(new, value=value)
        body.append(new)
    # a load that is left stands before the first store of its element: only what comes after the Map can read what is stored
    last = {s.buffer: place for place, s in enumerate(body) if isinstance(s, Store)}
    kept = [
        s
        for place, s in enumerate(body)
        if not (isinstance(s, Store) and s.buffer in handed and (s.buffer not in alive or last[s.buffer] != place))
    ]
    extents = tuple(Const(value=e, dtype=axis.dtype) for axis, e in zip(nest.axes, nest.extents))
    return Map(axes=nest.axes, extents=extents, body=tuple(kept), span=nest.originals[0].span)


def _is_inside(scope: Scope, buffer: Buffer, forms: _Forms) -> bool:
    """Whether the element always exists, in a tile that owns its storage."""
    if buffer.alias is not None:
        return False
    return all(scope.is_nonnegative(form) and scope.is_nonnegative(scope.form(size) - form - 1) for form, size in zip(forms, buffer.shape))


def folds_of(body: Sequence[Stmt]) -> list[Fold]:
    """The Folds of a Map's body."""
    return [s for s in body if isinstance(s, Fold)]


