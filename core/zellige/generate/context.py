"""A kernel while it is being made: what is in scope, what has been emitted, and the facts at that place.

In: statements offered by the steps of the generator. Out: bodies of statements of which facts are known. A statement that would make a
bound impossible is turned down by :meth:`Context.emit`, so what is kept can always be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from zellige.dtypes import DType, dtype as as_dtype
from zellige.generate.choices import Picker
from zellige.generate.facts import Fact, Unbounded
from zellige.generate.statement_facts import Analysis, Jumps, State
from zellige.ir.expr import INT32, Binary, BinaryOp, Buffer, Const, Expr, Region, Var, VarKind, constant_value
from zellige.ir.lanes import PRIVATE
from zellige.ir.stmt import Alloc, Stmt

BOOL: Final = as_dtype("bool")
FLOAT32: Final = as_dtype("float32")

Shape = tuple[int, ...]


def number(value: int, dtype: DType = INT32) -> Const:
    """An integer constant."""
    return Const(value=value, dtype=dtype)


def binary(op: BinaryOp, left: Expr, right: Expr) -> Expr:
    """An operation on indices; adding 0 and multiplying by 1 leave nothing behind."""
    value = constant_value(right)
    if (op in ("add", "sub") and value == 0) or (op == "mul" and value == 1):
        return left
    return Binary(op=op, left=left, right=right)


def is_narrow(fact: Fact) -> bool:
    """Whether the error of values that differ is small beside them, and they are not too large to stay so."""
    return fact.error <= fact.magnitude / 16 and fact.magnitude <= 2.0**16


@dataclass(frozen=True, slots=True, eq=False)
class Tile:
    """A buffer whose elements are defined, with its extents as numbers. ``is_global``: a tensor that the launch only reads."""

    buffer: Buffer
    shape: Shape
    is_global: bool = False

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    @property
    def count(self) -> int:
        total = 1
        for extent in self.shape:
            total *= extent
        return total


@dataclass(slots=True)
class Frame:
    """A body that is being filled: its statements, and how many names were in scope before it."""

    statements: list[Stmt]
    tiles: int
    variables: int
    state: State


@dataclass(slots=True, eq=False)
class Axes:
    """The variables of the Map or lanes at hand and their extents."""

    variables: tuple[Var, ...]
    extents: Shape


@dataclass(slots=True)
class Context:
    """The place where the next statement goes.

    ``tiles`` may be read (and, unless global, written) as a whole. ``written`` are roots that the Map at hand changes, with the only
    indices at which its points may touch them. ``loops`` counts the loops around this place that a jump may act on. ``index`` is the
    type of indices. ``spaces`` are those in which tiles may lie, None for any.
    """

    picker: Picker
    index: DType
    analysis: Analysis
    state: State
    tiles: list[Tile] = field(default_factory=list)
    variables: list[Var] = field(default_factory=list)
    body: list[Stmt] = field(default_factory=list)
    axes: list[Axes] = field(default_factory=list)
    written: dict[Buffer, tuple[Expr, ...]] = field(default_factory=dict)
    loops: int = 0
    depth: int = 0
    budget: int = 40
    names: dict[str, int] = field(default_factory=dict)
    spaces: tuple[str, ...] | None = None
    is_own: bool = False
    """Whether what is made here belongs to a lane: only its own tiles change."""

    # ---- names ----

    def name(self, stem: str) -> str:
        """``stem`` with a number that makes it readable; the printer makes names unique."""
        count = self.names[stem] = self.names.get(stem, -1) + 1
        return f"{stem}{count}"

    def variable(self, stem: str, dtype: DType, kind: VarKind) -> Var:
        """A new variable, not in scope yet."""
        return Var(name=self.name(stem), dtype=dtype, kind=kind)

    def constant(self, value: int) -> Const:
        """An index."""
        return number(value, self.index)

    # ---- facts ----

    def fact(self, expression: Expr) -> Fact:
        """The fact of an expression here. Raises Unbounded."""
        return self.analysis.fact(self.state, expression)

    def is_bounded(self, expression: Expr) -> bool:
        """Whether an expression can be compared between backends."""
        try:
            self.fact(expression)
        except Unbounded:
            return False
        return True

    # ---- statements ----

    def emit(self, statement: Stmt) -> bool:
        """Append a statement; False, and nothing changes, where no bound would be left, or one that says nothing."""
        state = dict(self.state)
        try:
            after = self.analysis.statement(state, statement, Jumps())
        except Unbounded:
            return False
        if after is not None and any(fact.error and fact is not self.state.get(key) and not is_narrow(fact) for key, fact in after.items()):
            return False
        self.body.append(statement)
        if after is not None:
            self.state = after
        self.budget -= 1
        return True

    def mark(self) -> tuple[int, State, int, int, int]:
        """This place, to come back to."""
        return len(self.body), dict(self.state), len(self.tiles), len(self.variables), self.budget

    def rewind(self, mark: tuple[int, State, int, int, int]) -> None:
        """Forget what was emitted and declared since ``mark``."""
        body, self.state, tiles, variables, self.budget = mark
        del self.body[body:], self.tiles[tiles:], self.variables[variables:]

    @contextmanager
    def nested(self, variables: Sequence[tuple[Var, Fact]] = ()) -> Iterator[list[Stmt]]:
        """A body inside of the next statement: what is emitted goes there, names end with it, facts are as before afterwards."""
        body, state = self.body, self.state
        tiles, known = len(self.tiles), len(self.variables)
        self.body, self.state = [], dict(state)
        for var, fact in variables:
            self.variables.append(var)
            self.state[var] = fact
        self.depth += 1
        try:
            yield self.body
        finally:
            self.depth -= 1
            self.body, self.state = body, state
            del self.tiles[tiles:], self.variables[known:]

    # ---- tiles ----

    def buffer(self, dtype: DType, shape: Shape, space: str, stem: str = "t") -> Buffer:
        """A new buffer of constant extents."""
        return Buffer(name=self.name(stem), dtype=dtype, shape=tuple(number(extent) for extent in shape), space=space)

    def allocate(self, dtype: DType, shape: Shape, space: str | None = None) -> Tile:
        """Emit the allocation of a tile that the caller defines at once; it is not in scope yet."""
        chosen = space or self.picker.some(self.spaces or ("shared", "fragment", "shared", "local"))
        tile = Tile(self.buffer(dtype, shape, chosen), shape)
        if chosen == "local" and tile.count > 64 and not self.is_own:  # the points of a Map have copies of their own of such buffers
            tile = Tile(self.buffer(dtype, shape, "fragment"), shape)
        self.emit(Alloc(buffer=tile.buffer))
        return tile

    def readable(self, dtype: DType | None = None, rank: int | None = None) -> list[Tile]:
        """Tiles that may be read here, the latest first."""
        return [
            tile
            for tile in reversed(self.tiles)
            if (dtype is None or tile.dtype == dtype) and (rank is None or len(tile.shape) == rank) and tile.count > 0
        ]

    def writable(self, dtype: DType | None = None, rank: int | None = None) -> list[Tile]:
        """Tiles that may be changed here, the latest first."""
        return [t for t in self.readable(dtype, rank) if not t.is_global and (not self.is_own or t.buffer.root.space in PRIVATE)]

    def region(self, tile: Tile, offsets: Sequence[Expr] | None = None, extents: Sequence[int] | None = None) -> Region:
        """A box of a tile, all of it unless told otherwise."""
        begin = tuple(offsets) if offsets is not None else (self.constant(0),) * len(tile.shape)
        size = tuple(number(extent) for extent in (tile.shape if extents is None else extents))
        return Region(buffer=tile.buffer, offsets=begin, extents=size)
