"""Steps that are Maps: element-wise work with masks, inner loops, private variables, gathers, updates of reducers and atomics.

In: a :class:`Context` outside of any Map. Out: statements of one step. Points never meet: what a Map writes is touched by each point at its
own place only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from zellige.dtypes import DType, dtype as as_dtype
from zellige.generate.context import Axes, Context, Shape, Tile, binary
from zellige.generate.expressions import Expressions
from zellige.generate.facts import Fact
from zellige.ir.expr import Binary, BinaryOp, Compare, Expr, Load, Var
from zellige.ir.stmt import (
    Alloc,
    Assign,
    Atomic,
    AtomicOp,
    Bind,
    Break,
    Continue,
    Fill,
    For,
    If,
    LoopKind,
    Map,
    ReduceOp,
    ReducerFinalize,
    ReducerInit,
    ReducerUpdate,
    Serial,
    Stmt,
    Store,
    Unrolled,
    Vectorised,
    While,
)

_LOCAL_TYPES: Final = ("float32", "int32", "float16", "int8", "float64", "bfloat16", "uint8")
_MAP_KINDS: Final[tuple[LoopKind, ...]] = (Serial(), Unrolled(), Unrolled(factor=2))


class Parallel:
    """Makes Maps at the place where the context stands."""

    def __init__(self, context: Context, expressions: Expressions) -> None:
        self.context = context
        self.expressions = expressions
        self.picker = context.picker

    # ---- frames ----

    @contextmanager
    def points(self, extents: Sequence[Expr], sizes: Shape) -> Iterator[tuple[tuple[Var, ...], list[Stmt]]]:
        """The body of a Map over ``extents``, which are at most ``sizes``: the axes and the list that its statements go to."""
        context = self.context
        axes = tuple(context.variable("i", extents[position].dtype, "loop") for position in range(len(sizes)))
        known = [(axis, Fact(low=0, high=max(0, size - 1))) for axis, size in zip(axes, sizes)]
        count = 1
        for size in sizes:
            count *= max(1, size)
        loops, context.loops = context.loops, 0
        written, context.written = context.written, dict(context.written)
        context.axes.append(Axes(axes, sizes))
        try:
            with context.nested(known) as body, context.analysis.repeated(count):
                yield axes, body
        finally:
            context.axes.pop()
            context.written = written
            context.loops = loops

    def _map(self, axes: tuple[Var, ...], extents: Sequence[Expr], body: Sequence[Stmt]) -> bool:
        """Emit the Map, leaving out statements from its end while no bound is left."""
        context, rest = self.context, list(body)
        width = self.picker.some((None, None, None, 2, 4))
        while rest:
            if context.emit(Map(axes=axes, extents=tuple(extents), body=tuple(rest), vector_width=width)):
                return True
            rest.pop()
        return False

    # ---- element-wise ----

    def new_tile(self, dtype: DType, shape: Shape, space: str | None = None) -> Tile | None:
        """A tile of which every element is computed; None where that has no bound."""
        context = self.context
        mark = context.mark()
        tile = context.allocate(dtype, shape, space)
        extents = [context.constant(extent) for extent in shape]
        with self.points(extents, shape) as (axes, body):
            context.written[tile.buffer] = axes
            self.own(2)
            context.emit(Store(buffer=tile.buffer, indices=axes, value=self.expressions.value(dtype, 4)))
        if not body or not self._map(axes, extents, body) or tile.buffer not in context.state:
            context.rewind(mark)
            return None
        context.tiles.append(tile)
        return tile

    def update(self) -> bool:
        """Change a tile in place: for all points, for some, or for those of a part of it."""
        context, picker = self.context, self.picker
        known = [tile for tile in context.writable() if len(tile.shape) > 0 and tile.buffer.alias is None]
        if not known:
            return False
        tile = picker.some(known)
        sizes, extents, offsets = self._part(tile)
        with self.points(extents, sizes) as (axes, body):
            places = tuple(binary("add", axis, offset) for axis, offset in zip(axes, offsets))
            others = [t for t in known if t is not tile and t.shape == tile.shape and t.buffer is not tile.buffer]
            second = picker.some(others) if others and picker.chance(30) else None
            context.written[tile.buffer] = places
            if second is not None:
                context.written[second.buffer] = places
            self.own(3)
            self._stores(tile, places)
            if second is not None:
                self._stores(second, places)
        return bool(body) and self._map(axes, extents, body)

    def _part(self, tile: Tile) -> tuple[Shape, list[Expr], list[Expr]]:
        """Extents, as numbers that bound them and as expressions, and where the part begins."""
        context, picker = self.context, self.picker
        sizes, extents, offsets = [], [], []
        for size in tile.shape:
            kind = picker.weighted(((70, "whole"), (15, "part"), (15, "counted")))
            begin, length = 0, size
            extent: Expr = context.constant(size)
            if kind == "part":
                begin = picker.integer(0, size - 1)
                length = picker.integer(1, size - begin)
                extent = context.constant(length)
            elif kind == "counted":
                extent = self.expressions.truncated(size)
            sizes.append(length)
            extents.append(extent)
            offsets.append(context.constant(begin))
        return tuple(sizes), extents, offsets  # type: ignore[return-value]

    def _stores(self, tile: Tile, places: tuple[Expr, ...]) -> None:
        context, picker, expressions = self.context, self.picker, self.expressions

        def store() -> None:
            context.emit(Store(buffer=tile.buffer, indices=places, value=expressions.value(tile.dtype, 3)))

        kind = picker.weighted(((45, "plain"), (30, "if"), (15, "else"), (10, "twice")))
        if kind in ("plain", "twice"):
            store()
            if kind == "twice":
                store()
            return
        condition = expressions.condition(2)
        with context.nested() as then:
            store()
        otherwise: list[Stmt] = []
        if kind == "else":
            with context.nested() as otherwise:
                self.own(1)
                store()
        if then:
            context.emit(If(condition=condition, then=tuple(then), otherwise=tuple(otherwise)))

    # ---- what belongs to a point ----

    def own(self, most: int) -> None:
        """Up to ``most`` values, variables with inner loops, or private buffers of the point."""
        for _ in range(self.picker.integer(0, most)):
            self.picker.weighted(((50, self._bind), (30, self._accumulate), (12, self._private), (8, self._nested)))()

    def _bind(self) -> None:
        context = self.context
        dtype = as_dtype(self.picker.some(_LOCAL_TYPES))
        var = context.variable("x", dtype, "value")
        if context.emit(Bind(var=var, value=self.expressions.value(dtype, 3))):
            context.variables.append(var)

    def _accumulate(self) -> None:
        """A mutable variable changed in a loop, with masks, Break and Continue."""
        context, picker = self.context, self.picker
        dtype = as_dtype(picker.some(_LOCAL_TYPES))
        var = context.variable("acc", dtype, "mutable")
        if not context.emit(Bind(var=var, value=self.expressions.constant(dtype))):
            return
        context.variables.append(var)
        if picker.chance(25):
            self._counted(lambda: self.assign(var))
        else:
            self.loop(lambda: self.assign(var))

    def assign(self, var: Var) -> None:
        """Another value for a variable of the point, at times only where a condition holds."""
        context, expressions = self.context, self.expressions
        if self.picker.chance(30):
            condition = expressions.condition(2)
            with context.nested() as then:
                self._assign_plain(var)
            if then:
                context.emit(If(condition=condition, then=tuple(then)))
            return
        self._assign_plain(var)

    def _assign_plain(self, var: Var) -> None:
        picker, expressions = self.picker, self.expressions
        value = expressions.make(var.dtype, 2)
        if picker.chance(70):
            op: BinaryOp = picker.some(("add", "add", "max", "sub", "min"))
            candidate = Binary(op=op, left=var, right=value)
            value = candidate if self.context.is_bounded(candidate) else value
        self.context.emit(Assign(var=var, value=expressions.tamed(value)))

    def _private(self) -> None:
        """A small buffer of the point: filled in a loop, then read."""
        context, picker = self.context, self.picker
        dtype = as_dtype(picker.some(_LOCAL_TYPES))
        size = picker.integer(1, 5)
        buffer = context.buffer(dtype, (size,), picker.some(("local", "var")), "own")
        context.emit(Alloc(buffer=buffer))
        counter = context.variable("j", context.index, "loop")
        with context.nested([(counter, Fact(low=0, high=size - 1))]) as body:
            context.emit(Store(buffer=buffer, indices=(counter,), value=self.expressions.value(dtype, 2)))
        kinds: tuple[LoopKind, ...] = (Serial(), Unrolled(), Vectorised())
        kind = picker.some(kinds)
        bounds = context.constant(0), context.constant(size), context.constant(1)
        loop = For(var=counter, start=bounds[0], stop=bounds[1], step=bounds[2], kind=kind, body=tuple(body))
        if body and context.emit(loop) and buffer in context.state:
            context.tiles.append(Tile(buffer, (size,)))

    def _nested(self) -> None:
        """A Map inside of a Map, which gives the elements of a private buffer of the point."""
        context, picker = self.context, self.picker
        if len(context.axes) > 1:
            return
        dtype = as_dtype(picker.some(_LOCAL_TYPES))
        shape = (picker.integer(1, 4),)
        buffer = context.buffer(dtype, shape, "local", "own")
        context.emit(Alloc(buffer=buffer))
        extents = [context.constant(extent) for extent in shape]
        with self.points(extents, shape) as (axes, body):
            context.written[buffer] = axes
            context.emit(Store(buffer=buffer, indices=axes, value=self.expressions.value(dtype, 2)))
        if body and self._map(axes, extents, body) and buffer in context.state:
            context.tiles.append(Tile(buffer, shape))

    def loop(self, step: Callable[[], None]) -> None:
        """A loop over a few iterations around one or two steps; trip counts of 0 and ones that differ between points occur."""
        context, picker = self.context, self.picker
        counter = context.variable("j", context.index, "loop")
        most = picker.integer(0, 5)
        stop: Expr = context.constant(most)
        if picker.chance(35):
            stop = self.expressions.truncated(most)
        start, stride, low, high = context.constant(0), context.constant(1), 0, max(0, most - 1)
        if picker.chance(15):
            start, stop, stride, low = context.constant(most), context.constant(-1), context.constant(-2), 0
            high = most
        with context.nested([(counter, Fact(low=low, high=high))]) as body:
            context.loops += 1
            for _ in range(picker.integer(1, 2)):
                step()
                self._jump()
            context.loops -= 1
        self.emit_loop(For(var=counter, start=start, stop=stop, step=stride, kind=picker.some(_MAP_KINDS), body=tuple(body)))

    def emit_loop(self, loop: For) -> bool:
        """Emit a loop, leaving out statements from its end while no bound is left; False where none is left."""
        body = list(loop.body)
        while body:
            if self.context.emit(replace(loop, body=tuple(body))):
                return True
            body.pop()
        return False

    def _jump(self) -> None:
        context, picker = self.context, self.picker
        if context.loops and picker.chance(25):
            jump: Stmt = Break() if picker.chance(50) else Continue()
            context.emit(If(condition=self.expressions.condition(1), then=(jump,)))

    def _counted(self, step: Callable[[], None]) -> None:
        """A While over a counter; the counter moves first, so that no Continue can make it endless."""
        context, picker = self.context, self.picker
        counter = context.variable("n", context.index, "mutable")
        context.emit(Bind(var=counter, value=context.constant(0)))
        limit = self.expressions.truncated(picker.integer(0, 4)) if picker.chance(40) else context.constant(picker.integer(0, 4))
        bound = context.variable("limit", context.index, "value")
        context.emit(Bind(var=bound, value=limit))
        condition: Expr = Compare(op="lt", left=counter, right=bound)
        if picker.chance(30):
            condition = Binary(op="and", left=condition, right=self.expressions.condition(1))
        with context.nested() as body:
            context.emit(Assign(var=counter, value=Binary(op="add", left=counter, right=context.constant(1))))
            context.loops += 1
            step()
            self._jump()
            context.loops -= 1
        rest = list(body)
        while len(rest) > 1:
            if context.emit(While(condition=condition, body=tuple(rest))):
                return
            rest.pop()

    # ---- updates by many points ----

    def reducer(self) -> bool:
        """A reducer that the points of a Map update, one element by several of them."""
        context, picker = self.context, self.picker
        dtype = as_dtype(picker.some(("float32", "int32", "int64", "float16", "uint8", "float64")))
        ops: tuple[ReduceOp, ...] = (
            ("sum", "max", "min", "abssum", "absmax") if dtype.is_float else ("sum", "max", "min", "bitxor", "bitor", "prod")
        )
        op = picker.some(ops)
        size = picker.integer(1, 5)
        shape = (picker.integer(1, 9), picker.integer(1, 6))
        mark = context.mark()
        tile = context.allocate(dtype, (size,), picker.some(("fragment", "shared")))
        if not context.emit(ReducerInit(buffer=tile.buffer, op=op)):
            context.rewind(mark)
            return False
        extents = [context.constant(extent) for extent in shape]
        with self.points(extents, shape) as (axes, body):
            self.own(1)
            place: Expr = Binary(op="floormod", left=axes[0], right=context.constant(size))
            if picker.chance(20):
                place = axes[0]  # beyond the end nothing happens
            update = ReducerUpdate(buffer=tile.buffer, op=op, indices=(place,), value=self.expressions.value(dtype, 2))
            if picker.chance(30):
                update_or_not: Stmt = If(condition=self.expressions.condition(2), then=(update,))
            else:
                update_or_not = update
            context.emit(update_or_not)
        if body:
            self._map(axes, extents, body)
        if not context.emit(ReducerFinalize(buffer=tile.buffer)):
            context.rewind(mark)
            return False
        context.tiles.append(tile)
        return True

    def scatter(self, target: Tile, op: AtomicOp) -> bool:
        """Atomic updates of ``target``, which nothing reads meanwhile, by the points of a Map."""
        context, picker = self.context, self.picker
        shape = (picker.integer(1, 9),) if picker.chance(60) else (picker.integer(1, 6), picker.integer(1, 5))
        extents = [context.constant(extent) for extent in shape]
        order = picker.some(("relaxed", "relaxed", "acq_rel", "seq_cst"))
        with self.points(extents, shape) as (axes, body):
            self.own(1)
            indices = tuple(self.expressions.index(extent) for extent in target.shape)
            value = self.expressions.value(target.dtype, 2)
            update: Stmt = Atomic(op=op, buffer=target.buffer, indices=indices, value=value, order=order)  # type: ignore[arg-type]
            if picker.chance(30):
                update = If(condition=self.expressions.condition(1), then=(update,))
            context.emit(update)
        return bool(body) and self._map(axes, extents, body)

    def copy_out(self, source: Tile, target: Tile, offsets: Sequence[Expr]) -> bool:
        """Store the elements of ``source``, changed a little, into a box of ``target`` one by one."""
        context = self.context
        extents = [context.constant(extent) for extent in source.shape]
        with self.points(extents, source.shape) as (axes, body):
            context.written[target.buffer] = tuple(binary("add", axis, offset) for axis, offset in zip(axes, offsets))
            value: Expr = Load(buffer=source.buffer, indices=axes)
            if not context.is_bounded(value):
                return False
            value = self.expressions.converted(value, target.dtype)
            context.emit(Store(buffer=target.buffer, indices=context.written[target.buffer], value=value))
        return bool(body) and self._map(axes, extents, body)

    def fill(self, tile: Tile) -> bool:
        """All of a tile the same."""
        return self.context.emit(Fill(dst=self.context.region(tile), value=self.expressions.value(tile.dtype, 2)))
