"""Pieces of an expanded lane kernel, and how they are put together into a body without lanes.

In: pieces (stretches of lane code, statements of the whole block, control flow around pieces). Out: statements, with each stretch a Map
over the lanes.

A variable or private buffer that lanes give a value in one stretch and use in another becomes an array with one entry a lane (the
lane's number is the last index, so that neighbouring lanes are neighbours in memory). What a single stretch uses stays a variable in its
Map. Variables that stand for index arithmetic are written out again in each stretch that uses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeAlias

from zellige.dtypes import DType
from zellige.ir.expr import INT64, Binary, Buffer, Cast, Const, Expr, Load, Node, Region, Var
from zellige.ir.lanes import PRIVATE
from zellige.ir.stmt import Alloc, Assign, Atomic, Bind, For, If, Map, ReducerUpdate, Stmt, Store, While
from zellige.ir.traverse import rebuilt, rewrite, walk
from zellige.records import dataclass


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of a launch: their variables with the extents, the first fastest."""

    variables: tuple[Var, ...]
    extents: tuple[int, ...]

    @property
    def count(self) -> int:
        total = 1
        for extent in self.extents:
            total *= extent
        return total

    @property
    def number(self) -> Expr:
        """The lane's number among all."""
        total: Expr | None = None
        stride = 1
        for var, extent in zip(self.variables, self.extents):
            wide: Expr = var if var.dtype == INT64 else Cast(value=var, dtype=INT64)
            if stride != 1:
                wide = Binary(op="mul", left=wide, right=Const(value=stride, dtype=INT64))
            total = wide if total is None else Binary(op="add", left=total, right=wide)
            stride *= extent
        assert total is not None
        return total

    def array(self, name: str, dtype: DType, shape: tuple[Expr, ...] = ()) -> Buffer:
        """Storage with one entry a lane."""
        return Buffer(name=name, dtype=dtype, shape=(*shape, Const(value=self.count, dtype=INT64)), space="shared")

    def map(self, body: tuple[Stmt, ...]) -> Map:
        """The body once a lane, in the order of their numbers."""
        pairs = list(reversed(list(zip(self.variables, self.extents))))
        return Map(axes=tuple(var for var, _ in pairs), extents=tuple(Const(value=e, dtype=INT64) for _, e in pairs), body=body)


@dataclass(slots=True)
class Stretch:
    """Code that each lane of ``mask`` (None: all) runs by itself."""

    statements: list[Stmt]
    mask: Buffer | None = None


@dataclass(frozen=True, slots=True)
class Once:
    """A statement of the whole block."""

    statement: Stmt


@dataclass(frozen=True, slots=True)
class Branch:
    """An If whose condition all lanes share, around pieces."""

    statement: If
    then: list[Piece]
    otherwise: list[Piece]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A loop that all lanes go round together, around pieces."""

    statement: For | While
    body: list[Piece]


Piece: TypeAlias = "Stretch | Once | Branch | Repeat"


def assemble(lanes: Lanes, pieces: list[Piece], pure: Mapping[Var, Expr]) -> tuple[Stmt, ...]:
    """The body of the launch. ``pure`` are the variables that stand for index arithmetic, with their values."""
    return _Assembly(lanes, pieces, pure).body(pieces)


@dataclass(slots=True)
class _Use:
    """Where a name of the lanes is used: the numbers of stretches; -1 for code of the block."""

    places: set[int] = field(default_factory=set)
    is_declared_in_stretch: bool = False


class _Assembly:
    def __init__(self, lanes: Lanes, pieces: list[Piece], pure: Mapping[Var, Expr]) -> None:
        self._lanes = lanes
        self._pure = pure
        self._arrays: dict[Var | Buffer, Buffer] = {}
        self._with_views: set[Buffer] = set()
        self._views: dict[Buffer, Buffer] = {}
        self._find_crossing(pieces)

    # -- what crosses from stretch to stretch ---------------------------------------------------------------------------

    def _find_crossing(self, pieces: list[Piece]) -> None:
        uses: dict[Var | Buffer, _Use] = {}
        for number, piece in enumerate(_flat(pieces)):
            place = number if isinstance(piece, Stretch) else -1
            for node in self._nodes(piece):
                name: Var | Buffer | None = node if isinstance(node, Var) else _private_root(node)
                if isinstance(name, Buffer) and getattr(node, "buffer", name) is not name:
                    self._with_views.add(name)
                if name is None:
                    continue
                use = uses.setdefault(name, _Use())
                use.places.add(place)
            if isinstance(piece, Stretch):
                for name in _declared(piece.statements):
                    uses.setdefault(name, _Use()).is_declared_in_stretch = True
                if piece.mask is not None:
                    self._keep_results(piece.statements)
            elif isinstance(piece, Once) and isinstance(piece.statement, Map):
                for name in _declared([piece.statement]):  # a buffer made inside of a Map belongs to its points, not to lanes
                    if isinstance(name, Buffer):
                        uses.setdefault(name, _Use()).is_declared_in_stretch = True
        for name, use in uses.items():
            if isinstance(name, Buffer):
                if len(use.places) > 1 or not use.is_declared_in_stretch:
                    self._arrays[name] = self._array(name)
            elif use.is_declared_in_stretch and len(use.places) > 1 and name not in self._pure:
                self._arrays[name] = self._lanes.array(name.name, name.dtype)

    def _keep_results(self, statements: Sequence[Stmt]) -> None:
        """What atomic operations of some lanes give is kept, since declarations behind them, which are made for all lanes, name it."""
        for statement in statements:
            if isinstance(statement, Atomic) and isinstance(statement.result, Var):
                self._arrays[statement.result] = self._lanes.array(statement.result.name, statement.result.dtype)

    def _array(self, buffer: Buffer) -> Buffer:
        """One copy of a private buffer for each lane: element by element, or where views show it otherwise, copy by copy."""
        if buffer not in self._with_views:
            return self._lanes.array(buffer.name, buffer.dtype, buffer.shape)
        count = Const(value=self._lanes.count, dtype=INT64)
        return Buffer(name=buffer.name, dtype=buffer.dtype, shape=(count, *buffer.shape), space="shared")

    def _nodes(self, piece: Stretch | Once | Branch | Repeat) -> Iterable[Node]:
        match piece:
            case Stretch():
                roots: Sequence[Node] = [*self._needed(piece.statements), *piece.statements]
            case Once():
                roots = [piece.statement]
            case Branch():
                roots = [piece.statement.condition]
            case Repeat(statement=For() as loop):
                roots = [loop.start, loop.stop, loop.step]
            case Repeat():
                roots = [piece.statement.condition]  # type: ignore[union-attr]
        for root in roots:
            yield from walk(root)

    def _needed(self, statements: Sequence[Stmt]) -> list[Stmt]:
        """The Binds of index arithmetic that the statements use, directly or through each other, in the order of the program."""
        wanted: set[Var] = set()
        pending: list[Node] = list(statements)
        while pending:
            for node in walk(pending.pop()):
                if isinstance(node, Var) and node in self._pure and node not in wanted:
                    wanted.add(node)
                    pending.append(self._pure[node])
        return [Bind(var=var, value=value) for var, value in self._pure.items() if var in wanted]

    # -- statements -----------------------------------------------------------------------------------------------------

    def body(self, pieces: list[Piece]) -> tuple[Stmt, ...]:
        """The statements of the launch, after the arrays that hold what lanes keep."""
        allocations = [Alloc(buffer=array) for array in self._arrays.values()]
        return (*allocations, *self._statements(pieces))

    def _statements(self, pieces: list[Piece]) -> list[Stmt]:
        result: list[Stmt] = []
        for piece in pieces:
            match piece:
                case Stretch():
                    result.append(self._map(piece))
                case Once(statement=Alloc(buffer=buffer)) if buffer.root in self._arrays or buffer in self._arrays:
                    pass
                case Once(statement=statement):
                    result.extend((*self._block_binds([statement]), *self._rewritten(statement, self._first_lane())))
                case Branch(statement=statement):
                    condition = self._expression(statement.condition)
                    then, otherwise = tuple(self._statements(piece.then)), tuple(self._statements(piece.otherwise))
                    result.extend(self._block_binds([statement.condition]))
                    result.append(If(condition=condition, then=then, otherwise=otherwise, span=statement.span))
                case Repeat(statement=For() as loop):
                    bounds = [self._expression(e) for e in (loop.start, loop.stop, loop.step)]
                    result.extend(self._block_binds([loop.start, loop.stop, loop.step]))
                    body = tuple(self._statements(piece.body))
                    result.append(rebuilt(loop, start=bounds[0], stop=bounds[1], step=bounds[2], body=body))
                case Repeat(statement=While() as loop):
                    result.extend(self._block_binds([loop.condition]))
                    result.append(rebuilt(loop, condition=self._expression(loop.condition), body=tuple(self._statements(piece.body))))
        return result

    def _block_binds(self, nodes: Sequence[Any]) -> list[Stmt]:
        """The index arithmetic that code of the block needs before it."""
        return [part for bind in self._needed(nodes) for part in self._rewritten(bind, self._first_lane())]

    def _first_lane(self) -> Expr:
        return Const(value=0, dtype=INT64)

    def _expression(self, expr: Expr) -> Any:
        """An expression of the block; what every lane holds alike is taken from lane 0."""
        return rewrite(expr, lambda node: self._replaced(node, self._first_lane()))

    def _map(self, stretch: Stretch) -> Map:
        number = self._lanes.number
        body: list[tuple[Stmt, bool]] = []
        for statement in stretch.statements:
            if isinstance(statement, Alloc) and statement.buffer.root in self._arrays:
                continue
            body.extend((new, isinstance(statement, (Alloc, Bind))) for new in self._rewritten(statement, number))
        if stretch.mask is not None:
            statements = _guarded(body, Load(buffer=stretch.mask, indices=(number,)))
        else:
            statements = [statement for statement, _ in body]
        needed = [part for bind in self._needed(stretch.statements) for part in self._rewritten(bind, number)]
        return self._lanes.map((*needed, *statements))

    def _rewritten(self, statement: Stmt, number: Expr) -> tuple[Stmt, ...]:
        new = rewrite(statement, lambda node: self._replaced(node, number))
        return new if isinstance(new, tuple) else (new,)

    def _replaced(self, node: Any, number: Expr) -> Any:
        match node:
            case Var() if node in self._arrays:
                return Load(buffer=self._arrays[node], indices=(number,), span=node.span)
            case Bind(var=Load() as place) | Assign(var=Load() as place):
                return Store(buffer=place.buffer, indices=place.indices, value=node.value, span=node.span)
            case Atomic(result=Load() as place):
                before = Var(name="before", dtype=place.dtype, kind="value")
                kept = Store(buffer=place.buffer, indices=place.indices, value=before, span=node.span)
                return (self._element(rebuilt(node, result=before), number), kept)
            case Load() | Store() | Atomic() | ReducerUpdate():
                return self._element(node, number)
            case Region() if node.buffer.root in self._arrays:
                one = Const(value=1, dtype=INT64)
                offsets, extents = self._placed(node.buffer, node.offsets, number), self._placed(node.buffer, node.extents, one)
                return Region(buffer=self._shown(node.buffer), offsets=offsets, extents=extents, span=node.span)
            case Alloc() if node.buffer.root in self._arrays:
                return ()
            case _:
                return node

    def _element(self, node: Any, number: Expr) -> Any:
        if node.buffer.root not in self._arrays:
            return node
        return rebuilt(node, buffer=self._shown(node.buffer), indices=self._placed(node.buffer, node.indices, number))

    def _placed(self, buffer: Buffer, indices: tuple[Expr, ...], number: Expr) -> tuple[Expr, ...]:
        return (number, *indices) if buffer.root in self._with_views else (*indices, number)

    def _shown(self, buffer: Buffer) -> Buffer:
        """The array of a private buffer, or of a view of one."""
        if buffer.alias is None:
            return self._arrays[buffer]
        found = self._views.get(buffer)
        if found is None:
            count = Const(value=self._lanes.count, dtype=INT64)
            found = self._views[buffer] = Buffer(
                name=buffer.name, dtype=buffer.dtype, shape=(count, *buffer.shape), space="shared", alias=self._arrays[buffer.root]
            )
        return found


def _guarded(body: list[tuple[Stmt, bool]], mask: Expr) -> list[Stmt]:
    """The statements for the lanes of the mask. Declarations are for all lanes: another lane may ask for a value by a shuffle."""
    result: list[Stmt] = []
    run: list[Stmt] = []
    for statement, is_declaration in body:
        if not is_declaration:
            run.append(statement)
            continue
        if run:
            result.append(If(condition=mask, then=tuple(run)))
            run = []
        result.append(statement)
    if run:
        result.append(If(condition=mask, then=tuple(run)))
    return result


def _flat(pieces: Iterable[Piece]) -> Iterable[Stretch | Once | Branch | Repeat]:
    pending = list(reversed(list(pieces)))
    while pending:
        piece = pending.pop()
        yield piece
        match piece:
            case Branch():
                pending.extend(reversed([*piece.then, *piece.otherwise]))
            case Repeat():
                pending.extend(reversed(piece.body))
            case _:
                pass


def _private_root(node: Node) -> Buffer | None:
    buffer = getattr(node, "buffer", None)
    if isinstance(buffer, Buffer) and buffer.root.space in PRIVATE:
        return buffer.root
    return None


def _declared(statements: Sequence[Stmt]) -> list[Var | Buffer]:
    """Variables and private buffers that the statements declare, nested ones included."""
    found: list[Var | Buffer] = []
    for statement in statements:
        for node in walk(statement):
            match node:
                case Bind(var=var):
                    found.append(var)
                case Alloc(buffer=buffer):
                    found.append(buffer)
                case Atomic(result=Var() as result):
                    found.append(result)
                case _:
                    pass
    return found
