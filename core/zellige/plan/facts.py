"""What the statements of a launch do to buffers and variables, as planning needs to know it.

In: a launch. Out: a :class:`LaunchFacts`: for each statement, those nested in it included, its accesses by storage (:class:`Access`), the
variables that it uses and assigns, and whether it overwrites all of a buffer without looking. Answers are kept by the identity of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from zellige.analysis.bounds import Scope
from zellige.analysis.forms import Form, is_index_dtype
from zellige.analysis.map_changes import outer_changes
from zellige.ir.expr import Buffer, Expr, Load, Node, Region, Var, constant_value
from zellige.ir.lanes import PRIVATE, has_lane_code
from zellige.ir.stmt import (
    Alloc,
    Assign,
    Atomic,
    AtomicTile,
    Bind,
    Break,
    Continue,
    Copy,
    Dialect,
    Fill,
    For,
    Gemm,
    If,
    Kernel,
    Launch,
    Map,
    Reduce,
    ReducerInit,
    Return,
    ScalarParam,
    Scan,
    Shuffle,
    Stmt,
    StmtNode,
    Store,
    TensorParam,
    Transpose,
    Vote,
    While,
    is_same_size,
    is_whole,
)
from zellige.ir.traverse import walk
from zellige.records import dataclass

AccessKind = Literal["read", "write", "atomic"]

STRUCTURE: Final = (For, While, If)
"""Statements that nest others and are replicated into each role that needs what they nest."""

SCALARS: Final = (Bind, Assign)
"""Statements of variables alone, replicated likewise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One use of a region by ``statement``. ``root`` owns the storage."""

    root: Buffer
    region: Region
    kind: AccessKind
    statement: Stmt

    @property
    def changes(self) -> bool:
        return self.kind != "read"


class LaunchFacts:
    """The facts of one launch. Asking again costs nothing; every node asked about is kept alive."""

    def __init__(self, kernel: Kernel, launch: Launch) -> None:
        self.kernel = kernel
        self.launch = launch
        self._accesses: dict[int, tuple[Access, ...]] = {}
        self._used: dict[int, frozenset[Var]] = {}
        self._assigned: dict[int, frozenset[Var]] = {}
        self._alive: list[Node] = []
        self._loops: dict[int, For] | None = None
        self._uses: dict[Buffer, list[Access]] | None = None
        self._bodies: dict[int, tuple[Stmt, ...]] | None = None
        self._live: dict[Buffer, tuple[int, int]] | None = None
        self._users: dict[int, dict[Buffer, list[tuple[int, Stmt]]]] = {}
        self.is_lane_code = has_lane_code(launch)
        self.scope = launch_scope(kernel, launch)

    def accesses(self, statement: Stmt) -> tuple[Access, ...]:
        """Every use of memory by the statement and what it nests, in program order; an update is a read and a write."""
        found = self._accesses.get(id(statement))
        if found is None:
            self._alive.append(statement)
            found = self._accesses[id(statement)] = tuple(_accesses(statement))
        return found

    def roots(self, statement: Stmt) -> frozenset[Buffer]:
        return frozenset(a.root for a in self.accesses(statement))

    def written(self, statement: Stmt) -> frozenset[Buffer]:
        return frozenset(a.root for a in self.accesses(statement) if a.changes)

    def read(self, statement: Stmt) -> frozenset[Buffer]:
        return frozenset(a.root for a in self.accesses(statement) if a.kind != "write")

    def used(self, statement: Stmt) -> frozenset[Var]:
        """Variables whose value the statement or what it nests needs."""
        found = self._used.get(id(statement))
        if found is None:
            self._alive.append(statement)
            found = self._used[id(statement)] = frozenset(_used(statement))
        return found

    def assigned(self, statement: Stmt) -> frozenset[Var]:
        """Variables that the statement or what it nests gives a value, those of loops and points apart."""
        found = self._assigned.get(id(statement))
        if found is None:
            self._alive.append(statement)
            found = self._assigned[id(statement)] = frozenset(_assigned(statement))
        return found

    def outer(self, statement: Stmt) -> frozenset[Var]:
        """The variables that live outside the statement as well: assigned in it, but not bound in it for the first time, or its own
        result."""
        if isinstance(statement, Map):
            return frozenset(outer_changes(statement).variables)
        bound = {s.var for s in statements_in((statement,)) if isinstance(s, Bind)}
        return self.assigned(statement) - bound

    def uses(self, root: Buffer) -> Sequence[Access]:
        """Every use of a storage in the launch, in program order."""
        if self._uses is None:
            self._uses = {}
            for statement in self.launch.body:
                for access in self.accesses(statement):
                    self._uses.setdefault(access.root, []).append(access)
        return self._uses.get(root, ())

    def users(self, body: tuple[Stmt, ...], root: Buffer) -> Sequence[tuple[int, Stmt]]:
        """The statements of a body of the launch that allocate or use a storage, themselves or nested, with their positions."""
        found = self._users.get(id(body))
        if found is None:
            found = self._users[id(body)] = {}
            for position, statement in enumerate(body):
                own = (statement.buffer.root,) if isinstance(statement, Alloc) else ()
                for one in self.roots(statement).union(own):
                    found.setdefault(one, []).append((position, statement))
        return found.get(root, ())

    def live_ranges(self) -> Mapping[Buffer, tuple[int, int]]:
        """First and last position (in program order of the launch's statements) at which each buffer may hold something of use.

        A use inside a loop counts as all of the outermost loop around it, unless the buffer is allocated within.
        """
        if self._live is None:
            self._live = _live_ranges(self)
        return self._live

    def body_around(self, statement: Stmt) -> tuple[Stmt, ...]:
        """The body in which the statement stands; empty for one of a Map or of no body of the launch."""
        if self._bodies is None:
            self._bodies = {id(inner): body for body in _bodies_outside_maps(self.launch.body) for inner in body}
        return self._bodies.get(id(statement), ())

    def loop_around(self, statement: Stmt) -> For | None:
        """The loop in whose body the statement stands itself."""
        if self._loops is None:
            loops = [s for s in statements_in(self.launch.body) if isinstance(s, For)]
            self._loops = {id(inner): loop for loop in reversed(loops) for inner in loop.body}
        return self._loops.get(id(statement))

    def kills(self, statement: Stmt, root: Buffer) -> bool:
        """Whether every element of ``root`` is written whatever it held, and none of it is read."""
        return overwrites_whole(statement, root) and root not in self.read(statement)


def _live_ranges(facts: LaunchFacts) -> dict[Buffer, tuple[int, int]]:
    ranges: dict[Buffer, tuple[int, int]] = {}
    counter = 0

    def visit(body: Sequence[Stmt]) -> None:
        nonlocal counter
        for statement in body:
            counter += 1
            begin = counter
            roots = {region.buffer.root for region in (*statement.reads(), *statement.writes())}
            if isinstance(statement, (For, While)):
                local = frozenset(s.buffer for s in statement.body if isinstance(s, Alloc))
                visit(statement.body)
                roots = {root for root in facts.roots(statement) if root not in local}
            elif type(statement).BODIES:
                for name in type(statement).BODIES:
                    visit(getattr(statement, name))
            for root in roots:
                old = ranges.get(root, (begin, begin))
                ranges[root] = (min(old[0], begin), max(old[1], counter))

    visit(facts.launch.body)
    return ranges


Body: TypeAlias = Sequence[Stmt]


def _bodies_outside_maps(body: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    pending = [body]
    while pending:
        current = pending.pop()
        yield current
        for statement in current:
            if not isinstance(statement, Map):
                pending.extend(getattr(statement, name) for name in type(statement).BODIES)


def _accesses(statement: Stmt) -> Iterator[Access]:
    for node in statements_in((statement,)):
        kind: AccessKind = "atomic" if isinstance(node, (Atomic, AtomicTile)) else "write"
        for region in node.reads():
            yield Access(root=region.buffer.root, region=region, kind="read", statement=node)
        for region in node.writes():
            yield Access(root=region.buffer.root, region=region, kind=kind, statement=node)


def _used(statement: Stmt) -> Iterator[Var]:
    for node in statements_in((statement,)):
        own = _own_targets(node)
        for name in type(node).CHILDREN:
            value = getattr(node, name)
            for child in value if isinstance(value, tuple) else (value,):
                if child is None or child in own:
                    continue
                yield from (n for n in walk(child, bodies=False) if isinstance(n, Var))
        for buffer in _buffers_of(node):
            for expr in (*buffer.shape, *(buffer.strides or ())):
                yield from (n for n in walk(expr) if isinstance(n, Var))


def _buffers_of(node: Node) -> Iterator[Buffer]:
    for inner in walk(node, bodies=False):
        buffer = getattr(inner, "buffer", None)
        if isinstance(buffer, Buffer):
            yield buffer


def _own_targets(node: StmtNode) -> tuple[Node, ...]:
    """The variables that a statement itself gives a value, loops and points included."""
    match node:
        case Bind() | Assign():
            return (node.var,)
        case For():
            return (node.var,)
        case Map():
            return node.axes
        case Atomic() | Shuffle() | Vote() | Dialect():
            return () if node.result is None else (node.result,)
        case _:
            return ()


def _assigned(statement: Stmt) -> Iterator[Var]:
    for node in statements_in((statement,)):
        match node:
            case Bind() | Assign():
                yield node.var
            case Atomic() | Shuffle() | Vote() | Dialect() if node.result is not None:
                yield node.result
            case _:
                pass


def overwrites_whole(statement: Stmt, root: Buffer) -> bool:
    """Whether the statement gives every element of ``root`` a value, proven by its form alone. A fresh allocation counts: nothing is
    left."""
    match statement:
        case Alloc():
            return statement.buffer is root
        case ReducerInit():
            return statement.buffer.root is root
        case Fill() | Copy() | Transpose() | Scan():
            return statement.dst.buffer.root is root and is_whole(statement.dst)
        case Reduce():
            return statement.dst.buffer.root is root and statement.clear and is_whole(statement.dst)
        case Gemm():
            return statement.c.buffer.root is root and constant_value(statement.clear) is True and is_whole(statement.c)
        case Map():
            return any(
                isinstance(inner, Store)
                and inner.buffer is root
                and len(inner.indices) == len(statement.axes)
                and set(inner.indices) == set(statement.axes)
                and all(
                    is_same_size(extent, inner.buffer.shape[inner.indices.index(axis)])
                    for axis, extent in zip(statement.axes, statement.extents)
                )
                for inner in statement.body
            )
        case _:
            return False


def launch_scope(kernel: Kernel, launch: Launch) -> Scope:
    """What is known about sizes, scalars, and the variables of the grid and the lanes; of loops and points, which keep their names, between
    which numbers they lie."""
    scope = Scope()
    for param in kernel.params:
        if isinstance(param, ScalarParam):
            if is_index_dtype(param.var.dtype):
                scope.add_parameter(param.var)
        elif isinstance(param, TensorParam):
            for expr in (*param.buffer.shape, *(param.buffer.strides or ())):
                for node in walk(expr):
                    if isinstance(node, Var) and not scope.is_index_variable(node):
                        scope.add_parameter(node)
            for extent in param.buffer.shape:
                scope.add_extent(extent)
    for var, extent in (*zip(launch.grid_vars, launch.grid), *zip(launch.lane_vars, launch.threads or ())):
        scope.add_variable(var, Form.of(0), scope.form(extent) - 1)
    for statement in statements_in(launch.body):
        match statement:
            case For():
                ends = scope.form(statement.start), scope.form(statement.stop)
                step = constant_value(statement.step)
                if step is not None and step != 0:
                    scope.add_named(statement.var, *((ends[0], ends[1] - 1) if step > 0 else (ends[1] + 1, ends[0])))
            case Map():
                for axis, extent in zip(statement.axes, statement.extents):
                    scope.add_named(axis, Form.of(0), scope.form(extent) - 1)
            case _:
                pass
    return scope


def statements_in(body: Body, *, into_maps: bool = True) -> Iterator[Stmt]:
    """Every statement under ``body`` in program order; with ``into_maps`` False without those of points."""
    pending = list(reversed(body))
    while pending:
        statement = pending.pop()
        yield statement
        if isinstance(statement, Map) and not into_maps:
            continue
        for name in reversed(type(statement).BODIES):
            pending.extend(reversed(getattr(statement, name)))


def may_jump(statement: Stmt) -> bool:
    """Whether what follows the statement in its body may be passed over: a Return stands under it, or a Break or Continue of a loop around
    it."""
    pending: list[tuple[Stmt, bool]] = [(statement, True)]
    while pending:
        top, is_mine = pending.pop()
        if isinstance(top, Return) or (is_mine and isinstance(top, (Break, Continue))):
            return True
        inside = is_mine and not isinstance(top, (For, While))
        pending += [(inner, inside) for name in type(top).BODIES for inner in getattr(top, name)]
    return False


def leaves_early(body: Body) -> bool:
    """Whether a Break, Continue or Return stands under ``body``."""
    return any(isinstance(s, (Break, Continue, Return)) for s in statements_in(body))


def is_uniform(expr: Expr, launch: Launch, axes: frozenset[Var] = frozenset()) -> bool:
    """Whether the value is one for all lanes of a block and all points of the Map with ``axes``: it is made of neither, and of no load of
    an element that could differ between them."""
    differing = frozenset(launch.lane_vars) | axes
    return not any(n in differing for n in walk(expr) if isinstance(n, Var)) and not any(
        isinstance(n, Load) and n.buffer.root.space in PRIVATE for n in walk(expr)
    )


def bytes_of(buffer: Buffer) -> int | None:
    """The storage of one version of an on-chip buffer in bytes; None where a size is not constant."""
    count = 1
    for extent in buffer.shape:
        value = constant_value(extent)
        if value is None:
            return None
        count *= int(value)
    return (count * buffer.dtype.storage_bits + 7) // 8
