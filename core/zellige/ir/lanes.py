"""Which statements the lanes of a block do together, and which values and code differ between lanes.

In: a launch. Out: :class:`LaneDependence`, which the verifier, the interpreter and backends with lanes ask. Dependence is found
by reachability: a graph whose nodes are variables, per-lane buffers and the control of each body, with an edge from what a value depends
on to the value; the lane variables and the results of atomics are the sources. Building it is linear, and so is the search.

What counts as the same in every lane: constants, sizes, grid variables, elements of shared, fragment and global
buffers at the same place, the outcome of a vote of the block, and everything computed from these in code that all lanes reach.
After a Break, Continue or Return in lane-dependent code, the rest of the body it leaves is lane-dependent too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from zellige.diagnostics import Span
from zellige.ir.expr import Buffer, Expr, Load, Node, Region, Var
from zellige.ir.stmt import (
    Alloc,
    Assign,
    Atomic,
    AtomicTile,
    Barrier,
    Bind,
    Break,
    Continue,
    Copy,
    Dialect,
    Fill,
    For,
    Gemm,
    If,
    Launch,
    Map,
    Reduce,
    ReducerFinalize,
    ReducerInit,
    Return,
    Scan,
    Shuffle,
    Stmt,
    Store,
    Transpose,
    Vote,
    While,
)
from zellige.ir.traverse import loads_in, walk

PRIVATE: Final = frozenset(("local", "var"))
"""Spaces whose buffers belong to a lane (in a launch with lanes) or to a point (made inside a Map)."""

_LANES: Final = 0  # the graph's source: "differs between lanes"


def tile_regions(statement: Stmt) -> tuple[Region, ...]:
    """The regions that a tile operation works on; empty for every other statement."""
    match statement:
        case Copy() | Reduce() | Scan() | Transpose() | AtomicTile():
            return (statement.src, statement.dst)
        case Fill():
            return (statement.dst,)
        case Gemm():
            optional = (statement.scale_a, statement.scale_b, statement.metadata)
            return (statement.a, statement.b, statement.c, *(r for r in optional if r is not None))
        case _:
            return ()


def has_lane_code(launch: Launch) -> bool:
    """Whether a launch is written for its lanes: it names them, or they wait for or ask each other."""
    return bool(launch.lane_vars) or any(isinstance(node, (Barrier, Shuffle, Vote)) for node in walk(launch))


def is_collective(statement: Stmt) -> bool:
    """Whether all lanes of a block take part in it together, as far as the statement by itself says.

    Tile operations do, unless they move private data: a region in a private space, the others private or global. So do the reducers'
    start and end, synchronisation of a block or more, and Map. What surrounds it can make a Map or a tile operation each
    lane's own: :meth:`LaneDependence.is_private`.
    """
    regions = tile_regions(statement)
    if regions:
        spaces = [region.buffer.root.space for region in regions]
        has_private = any(space in PRIVATE for space in spaces)
        return not (has_private and all(space in PRIVATE or space == "global" for space in spaces))
    match statement:
        case Map() | ReducerInit() | ReducerFinalize():
            return True
        case Barrier() | Vote():
            return statement.scope != "warp"
        case _:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentUse:
    """An element of a fragment used at a place that differs between lanes, or used by a ``statement`` that each lane runs for itself."""

    buffer: Buffer
    span: Span | None
    statement: Stmt | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneDependence:
    """The answer for one launch. ``partial`` are collective statements that only some lanes reach, in program order; ``repeated`` the
    stores of which every lane makes the same one; ``divergent`` all statements that some lanes may leave out."""

    partial: tuple[Stmt, ...]
    fragments: tuple[FragmentUse, ...]
    private: frozenset[int]
    dependent: frozenset[int]
    repeated: frozenset[int] = frozenset()
    divergent: frozenset[int] = frozenset()

    def is_repeated(self, statement: Stmt) -> bool:
        """Whether all lanes store the same value at the same place of a buffer that they share, so that one of them can do it for all."""
        return id(statement) in self.repeated

    def is_divergent(self, statement: Stmt) -> bool:
        """Whether some lanes may not reach the statement, or not as often as others: it stands in lane-dependent code, or behind a jump
        in such code. What follows it in its body is no less so."""
        return id(statement) in self.divergent

    def is_private(self, statement: Stmt) -> bool:
        """Whether each lane runs all of this Map or tile operation for itself, because what it computes belongs to the lane: it touches
        a local or var buffer, assigns a variable made outside it, or uses a value that differs between lanes. Any other one is
        shared out among the lanes. What stands in a Map belongs to its point, and is done by the lane that runs it."""
        return id(statement) in self.private

    def is_lane_dependent(self, name: Var | Buffer) -> bool:
        """Whether the variable, or an element of the per-lane buffer, may differ between lanes."""
        return id(name.root if isinstance(name, Buffer) else name) in self.dependent

    def differs(self, *expressions: Expr) -> bool:
        """Whether lanes may see different values of an expression."""
        return not self.dependent.isdisjoint(_sources(*expressions))


class _Body:
    """A body on the stack: the control node at its start, the one at hand (another after a jump), and the jumps that leave it."""

    __slots__ = ("body", "breaks", "continues", "control", "entry", "in_map", "index", "is_loop", "returns")

    def __init__(self, body: tuple[Stmt, ...], control: int, *, is_loop: bool, in_map: bool = False) -> None:
        self.body = body
        self.index = 0
        self.entry = control
        self.control = control
        self.is_loop = is_loop
        self.in_map = in_map
        self.breaks: list[int] = []
        self.continues: list[int] = []
        self.returns: list[int] = []


class _Graph:
    """What depends on what. Nodes are ids of variables and buffers, and small integers for the control of bodies."""

    def __init__(self) -> None:
        self.followers: dict[int, list[int]] = {}
        self.controls = _LANES

    def add(self, sources: Iterable[int], target: int) -> None:
        for source in sources:
            self.followers.setdefault(source, []).append(target)

    def control(self, *sources: int) -> int:
        self.controls -= 1  # negative, so no id is equal to it
        self.add(sources, self.controls)
        return self.controls

    def lane_dependent(self) -> set[int]:
        found = {_LANES}
        pending = [_LANES]
        while pending:
            for follower in self.followers.get(pending.pop(), ()):
                if follower not in found:
                    found.add(follower)
                    pending.append(follower)
        return found


def lane_dependence(launch: Launch) -> LaneDependence:
    """Finds what differs between the lanes of a launch; in one without lane variables nothing does."""
    graph = _Graph()
    for var in launch.lane_vars:
        graph.add((_LANES,), id(var))
    collectives: list[tuple[int, Stmt]] = []
    stores: list[tuple[int, Store]] = []
    reached: list[tuple[int, Stmt]] = []
    uses: list[_Use] = []
    of_points: list[Stmt] = []
    places: list[tuple[Buffer, list[int], Span | None]] = []
    stack = [_Body(launch.body, graph.control(), is_loop=False)]
    while stack:
        top = stack[-1]
        if top.index == len(top.body):
            stack.pop()
            if stack:
                _leave(graph, top, stack[-1])
            continue
        statement = top.body[top.index]
        top.index += 1
        reached.append((top.control, statement))
        if top.in_map:
            of_points.append(statement)
        else:
            if isinstance(statement, Store) and statement.buffer.root.space not in PRIVATE:
                stores.append((top.control, statement))
            if isinstance(statement, Map):
                uses.append(_map_use(statement))
            elif regions := tile_regions(statement):
                uses.append(_tile_use(statement, regions))
        if is_collective(statement) and not (isinstance(statement, Map) and top.in_map):
            collectives.append((top.control, statement))
        _fragment_places(statement, places)
        _effects(graph, statement, top)
        stack.extend(_nested(graph, statement, top))
    dependent = graph.lane_dependent()
    own = [use for use in uses if use.is_private or not dependent.isdisjoint(use.outside)]
    private = frozenset(map(id, (*(use.statement for use in own), *of_points)))
    fragments = [FragmentUse(buffer=b, span=span) for b, sources, span in places if not dependent.isdisjoint(sources)]
    fragments += [FragmentUse(buffer=b, span=use.statement.span, statement=use.statement) for use in own for b in use.fragments]
    return LaneDependence(
        partial=tuple(s for control, s in collectives if control in dependent and id(s) not in private),
        fragments=tuple(fragments),
        private=private,
        dependent=frozenset(dependent),
        divergent=frozenset(id(s) for control, s in reached if control in dependent),
        repeated=frozenset(id(s) for c, s in stores if dependent.isdisjoint((c, *_sources(*s.indices, s.value)))),
    )


@dataclass(frozen=True, slots=True)
class _Use:
    """What a Map or a tile operation uses of the code around it."""

    statement: Stmt
    outside: list[int]
    fragments: list[Buffer]
    is_private: bool


def _map_use(statement: Map) -> _Use:
    inside: set[int] = set()
    variables: list[int] = []
    buffers: list[Buffer] = []
    assigned: list[int] = []
    for node in walk(statement):
        match node:
            case Var():
                variables.append(id(node))
            case Map():
                inside.update(map(id, node.axes))
            case For() | Bind():
                inside.add(id(node.var))
            case Alloc():
                inside.add(id(node.buffer))
            case Assign():
                assigned.append(id(node.var))
            case Atomic() | Shuffle() | Vote() | Dialect() if node.result is not None:
                inside.add(id(node.result))
            case _:
                pass
        buffer = getattr(node, "buffer", None)
        if isinstance(buffer, Buffer):
            buffers.append(buffer.root)
    outside = [b for b in dict.fromkeys(buffers) if id(b) not in inside]
    return _Use(
        statement,
        [v for v in variables if v not in inside],
        [b for b in outside if b.space == "fragment"],
        any(b.space in PRIVATE for b in outside) or any(v not in inside for v in assigned),
    )


def _tile_use(statement: Stmt, regions: tuple[Region, ...]) -> _Use:
    roots = list(dict.fromkeys(region.buffer.root for region in regions))
    return _Use(
        statement,
        _sources(statement),
        [root for root in roots if root.space == "fragment"],
        any(root.space in PRIVATE for root in roots),
    )


def _sources(*nodes: Node) -> list[int]:
    """What the values of expressions depend on: their variables and the per-lane buffers that they load from."""
    found: list[int] = []
    pending: list[Any] = list(nodes)
    seen: set[int] = set()
    while pending:  # as traverse.walk, without a generator: this is the inner loop
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, Var):
            found.append(id(node))
        elif isinstance(node, (Load, Region)) and node.buffer.root.space in PRIVATE:
            found.append(id(node.buffer.root))
        for name in node.CHILDREN:
            value = getattr(node, name)
            if isinstance(value, tuple):
                pending.extend(value)
            elif value is not None:
                pending.append(value)
    return found


def _fragment_places(statement: Stmt, places: list[tuple[Buffer, list[int], Span | None]]) -> None:
    if isinstance(statement, Store) and statement.buffer.root.space == "fragment":
        places.append((statement.buffer, _sources(*statement.indices), statement.span))
    for load in loads_in(statement):
        if load.buffer.root.space == "fragment":
            places.append((load.buffer, _sources(*load.indices), load.span or statement.span))


def _effects(graph: _Graph, statement: Stmt, top: _Body) -> None:
    """Adds what the statement itself gives a value to."""
    control = top.control
    for region in statement.writes():  # whatever it is that changes an array of the lane: a store, an atomic, a tile operation
        if region.buffer.root.space in PRIVATE:
            graph.add((control, *_sources(statement)), id(region.buffer.root))
    match statement:
        case Bind() | Assign():
            graph.add((control, *_sources(statement.value)), id(statement.var))
        case Atomic() if statement.result is not None:
            graph.add((_LANES,), id(statement.result))
        case Shuffle():
            graph.add((control, *_sources(statement.value, statement.operand)), id(statement.result))
        case Vote():
            sources = _sources(statement.predicate) if statement.scope == "warp" else []
            if statement.scope == "warp" and statement.mode in ("ballot", "count"):
                sources.append(_LANES)  # the last group may have fewer lanes, whatever they say
            graph.add((control, *sources), id(statement.result))
        case Dialect() if statement.result is not None:
            graph.add((control, *_sources(*statement.inputs, *statement.operands)), id(statement.result))
        case Break():
            top.breaks.append(control)
        case Continue():
            top.continues.append(control)
        case Return():
            top.returns.append(control)
        case _:
            pass


def _nested(graph: _Graph, statement: Stmt, top: _Body) -> list[_Body]:
    """The bodies of the statement, the first to be walked last, each with its control."""
    control, in_map = top.control, top.in_map
    match statement:
        case For():
            inside = graph.control(control, *_sources(statement.start, statement.stop, statement.step))
            graph.add((inside,), id(statement.var))
            return [_Body(statement.body, inside, is_loop=True, in_map=in_map)]
        case While():
            return [_Body(statement.body, graph.control(control, *_sources(statement.condition)), is_loop=True, in_map=in_map)]
        case If():
            inside = graph.control(control, *_sources(statement.condition))
            return [_Body(body, inside, is_loop=False, in_map=in_map) for body in (statement.otherwise, statement.then)]
        case Map():
            return [_Body(statement.body, graph.control(control, *_sources(*statement.extents)), is_loop=False, in_map=True)]
        case Dialect():
            return [_Body(statement.body, graph.control(control), is_loop=False, in_map=in_map)]
        case _:
            return []


def _leave(graph: _Graph, ended: _Body, around: _Body) -> None:
    """Carries the jumps of a body that has ended to the body around it, whose rest they make dependent on them."""
    if ended.is_loop:
        # a lane that has left the loop takes no part in the iterations that follow: all of the body depends on the jump
        graph.add(ended.breaks + ended.returns, ended.entry)
        jumps = ended.returns
    else:
        jumps = ended.breaks + ended.continues + ended.returns
        around.breaks.extend(ended.breaks)
        around.continues.extend(ended.continues)
    around.returns.extend(ended.returns)
    if jumps:
        around.control = graph.control(around.control, *jumps)
