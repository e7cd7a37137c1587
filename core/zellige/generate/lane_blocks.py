"""Launches with lanes: thread indices, private data, barriers, shuffles and votes beside the operations that lanes do together.

In: a picker and the tensors so far. Out: a launch. What all lanes must reach stands where all of them come by, operands of operations
that they do together are the same for all of them, and a shared tile is written by each lane at its own place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Literal

from zellige.dtypes import dtype as as_dtype
from zellige.generate.choices import Picker
from zellige.generate.context import BOOL, Axes, Context, Tile, binary, number
from zellige.generate.data import make_array
from zellige.generate.expressions import Expressions
from zellige.generate.facts import Fact
from zellige.generate.parallel import Parallel
from zellige.generate.statement_facts import Analysis, State
from zellige.generate.steps import GridAxis, Steps, atomic_ops, without_units
from zellige.generate.tensors import Dimension, Tensors
from zellige.ir.expr import Compare, Expr, Var
from zellige.ir.stmt import (
    Assign,
    Atomic,
    Barrier,
    Copy,
    Fill,
    For,
    If,
    Launch,
    Pipelined,
    Return,
    Serial,
    Shuffle,
    Store,
    Vote,
)

_THREADS: Final[tuple[tuple[int, ...], ...]] = ((32,), (8,), (64,), (7,), (48,), (1,), (8, 4), (3, 5), (4, 2, 2), (33,))
_SHUFFLES: Final[tuple[Literal["xor", "down", "up", "index"], ...]] = ("xor", "down", "up", "index")
_SHARED_TYPES: Final = ("float32", "int32", "float16", "int8", "bfloat16", "float64", "uint16")


def lane_launch(picker: Picker, tensors: Tensors, *, has_own_tiles: bool = False) -> Launch:
    """One launch with lanes; on request with tile operations that each lane does for itself."""
    return _LanePlanner(picker, tensors, has_own_tiles=has_own_tiles).launch()


class _LanePlanner:
    def __init__(self, picker: Picker, tensors: Tensors, *, has_own_tiles: bool) -> None:
        self.has_own_tiles = has_own_tiles
        self.picker = picker
        self.tensors = tensors
        self.index = tensors.index
        self.threads = picker.some(_THREADS)
        self.count = math.prod(self.threads)
        self.uniform: list[Var] = []

    def launch(self) -> Launch:
        picker, tensors, index = self.picker, self.tensors, self.index
        rank = min(2, len(self.threads))
        sizes = [max(1, picker.integer(1, 3) * self.threads[d] - picker.integer(0, 3)) for d in range(rank)]
        dimensions = [tensors.dimension(size, name) for size, name in zip(sizes, ("N", "M"))]
        counts = [-(-size // self.threads[d]) for d, size in enumerate(sizes)]
        grid_vars = tuple(Var(name=name, dtype=index, kind="grid") for name in ("bx", "by")[:rank])
        lane_vars = tuple(Var(name=name, dtype=index, kind="lane") for name in ("tx", "ty", "tz")[: len(self.threads)])
        inputs = [tensors.input((*reversed(dimensions),)) for _ in range(picker.integer(1, 2))]
        small = picker.integer(1, 9)
        inputs.append(tensors.input((Dimension(small, number(small, index)), dimensions[0])))
        accumulator = self._accumulator() if picker.chance(35) else None
        state: State = dict(tensors.facts)
        for var, extent in zip((*grid_vars, *lane_vars), (*counts, *self.threads)):
            state[var] = Fact(low=0, high=extent - 1)
        context = Context(picker=picker, index=index, analysis=Analysis(blocks=math.prod(counts), lanes=self.count), state=state)
        context.tiles.extend(inputs)
        context.axes.append(Axes(lane_vars, self.threads))
        self.uniform = list(grid_vars)
        context.variables.extend([*grid_vars, *lane_vars])
        axes = [GridAxis(d, self.threads[i], grid_vars[i], counts[i]) for i, d in enumerate(dimensions)]
        block = _LaneBlock(self, context, axes, lane_vars, accumulator)
        context.budget = 8 + picker.integer(0, 22)
        block.run()
        block.finish(dimensions)
        grid = tuple(number(extent, index) for extent in counts)
        return Launch(
            grid_vars=grid_vars,
            grid=grid,
            threads=tuple(number(extent, index) for extent in self.threads),
            lane_vars=lane_vars,
            body=tuple(context.body),
        )

    def _accumulator(self) -> Tile:
        dtype = as_dtype(self.picker.some(("int32", "float32", "uint32", "int64")))
        size = self.picker.integer(1, 8)
        content = make_array(self.picker, dtype, (size,), "small")
        return self.tensors.add(dtype, (Dimension(size, number(size, self.index)),), "argument", content)


class _LaneBlock:
    """Makes the body of a launch with lanes."""

    def __init__(
        self, plan: _LanePlanner, context: Context, axes: list[GridAxis], lanes: tuple[Var, ...], accumulator: Tile | None
    ) -> None:
        self.plan = plan
        self.context = context
        self.picker = context.picker
        self.expressions = Expressions(context, is_smooth=self.picker.chance(30))
        self.parallel = Parallel(context, self.expressions)
        self.steps = Steps(context, self.expressions, self.parallel, plan.tensors, axes)
        self.axes = axes
        self.lanes = lanes
        self.accumulator = accumulator
        self.operation = self.picker.some(atomic_ops(accumulator.dtype)) if accumulator is not None else "add"
        self.shared: list[Tile] = []

    # ---- places ----

    @contextmanager
    def together(self) -> Iterator[None]:
        """Operands that are the same for all lanes: no lane variables, nothing private. Shared tiles made here stay."""
        context = self.context
        kept = context.axes, context.variables, context.tiles
        context.axes = []
        context.variables = [var for var in context.variables if var in self.plan.uniform]
        context.tiles = [tile for tile in context.tiles if tile.is_global or tile.buffer.root.space in ("shared", "fragment")]
        before = len(context.tiles)
        try:
            yield
        finally:
            made = [tile for tile in context.tiles[before:] if tile.buffer.root.space == "shared"]
            context.axes, context.variables, context.tiles = kept
            context.tiles.extend(made)

    def barrier(self) -> None:
        """Nearly always; the compiler sees to the rest."""
        if not self.picker.chance(12):
            self.context.emit(Barrier(scope="block"))

    # ---- steps where all lanes come by ----

    def run(self) -> None:
        """A few steps in code that all lanes reach."""
        self._tile()
        for _ in range(self.picker.integer(2, 8)):
            if self.context.budget <= 0:
                return
            self.step()

    def step(self) -> None:
        """One step that all lanes reach."""
        menu = (
            (10, self._tile),
            (18, self._exchange),
            (16, self._private),
            (12, self._divergent),
            (14, self._shuffle),
            (10, self._vote),
            (12, self._operation),
            (8 if self.accumulator is not None else 0, self._atomic),
            (10 if self.context.depth < 2 else 0, self._loop),
            (60 if self.plan.has_own_tiles else 0, self._own_tiles),
        )
        self.picker.weighted(tuple(entry for entry in menu if entry[0]))()

    def _tile(self) -> None:
        dtype = as_dtype(self.picker.some(_SHARED_TYPES))
        size = self.plan.count if self.picker.chance(60) else self.picker.integer(1, 40)
        shape = (size,) if self.picker.chance(70) else (self.picker.integer(1, 4), size)
        with self.together():
            self.steps.tile(shape, dtype, "shared")

    def _exchange(self) -> None:
        """Each lane writes its own element of a shared tile, then all may read any."""
        context = self.context
        known = [t for t in context.writable() if t.buffer.space == "shared"]
        if not known:
            return
        tile = self.picker.some(known)
        self.barrier()
        linear = self._linear()
        indices: tuple[Expr, ...] = (linear,)
        if len(tile.shape) == 2:
            indices = (context.constant(self.picker.integer(0, tile.shape[0] - 1)), linear)
        if len(tile.shape) > 2:
            return
        context.written = {tile.buffer.root: indices}
        value = self.expressions.value(tile.dtype, 3)
        context.written = {}
        context.emit(Store(buffer=tile.buffer, indices=indices, value=value))
        self.barrier()

    def _linear(self) -> Expr:
        """The number of the lane in its block."""
        found: Expr = self.lanes[-1]
        for var, extent in zip(reversed(self.lanes[:-1]), reversed(self.plan.threads[:-1])):
            found = binary("add", binary("mul", found, self.context.constant(extent)), var)
        return found

    def _private(self) -> None:
        """A value, a variable changed in a loop that lanes leave when they like, or a buffer of the lane."""
        self.parallel.own(2)

    def _divergent(self) -> None:
        """Private work of some of the lanes."""
        context = self.context
        mutable = [var for var in context.variables if var.is_mutable]
        if not mutable:
            return
        var = self.picker.some(mutable)
        condition = self.expressions.condition(2)
        with context.nested() as then:
            self.parallel.loop(lambda: self.parallel.assign(var))
            context.emit(Assign(var=var, value=self.expressions.value(var.dtype, 2)))
        otherwise = []
        if self.picker.chance(40):
            with context.nested() as otherwise:
                context.emit(Assign(var=var, value=self.expressions.value(var.dtype, 2)))
        if then:
            context.emit(If(condition=condition, then=tuple(then), otherwise=tuple(otherwise)))

    def _shuffle(self) -> None:
        context, picker = self.context, self.picker
        dtype = as_dtype(picker.some(("float32", "int32", "float64", "int64", "float16")))
        result = context.variable("other", dtype, "value")
        width = picker.some((32, 16, 8, 4, 2, 1))
        operand: Expr = context.constant(picker.integer(0, width))
        if picker.chance(25):
            operand = self.expressions.make(context.index, 1)
        mode = picker.some(_SHUFFLES)
        value = self.expressions.value(dtype, 2)
        if not context.is_bounded(operand) or (mode == "xor" and context.fact(operand).low < 0):
            operand = context.constant(1)
        if context.emit(Shuffle(result=result, mode=mode, value=value, operand=operand, width=width)):
            context.variables.append(result)

    def _vote(self) -> None:
        context, picker = self.context, self.picker
        mode = picker.some(("any", "all", "count", "ballot"))
        scope = "warp" if mode == "ballot" or picker.chance(50) else "block"
        dtype = BOOL if mode in ("any", "all") else as_dtype("uint32" if mode == "ballot" else "int32")
        result = context.variable("vote", dtype, "value")
        if context.emit(Vote(result=result, mode=mode, scope=scope, predicate=self.expressions.condition(2))):  # type: ignore[arg-type]
            context.variables.append(result)

    def _operation(self) -> None:
        """An operation on tiles that the lanes do together."""
        picker = self.picker
        self.barrier()
        with self.together():
            kind = picker.some(("map", "copy", "scan", "reduce", "gemm", "new"))
            match kind:
                case "map":
                    self.parallel.update()
                case "copy":
                    self.steps.copy_part()
                case "scan":
                    self._into_shared(self.steps.scan)
                case "reduce":
                    self._into_shared(self.steps.reduce)
                case "gemm":
                    self._into_shared(self.steps.gemm)
                case _:
                    self.parallel.new_tile(as_dtype(picker.some(_SHARED_TYPES)), (picker.integer(1, 20),), "shared")
        self.barrier()

    def _into_shared(self, step: Callable[[], object]) -> None:
        """Steps that allocate tiles do so in shared memory or a fragment here: nothing private takes part."""
        context = self.context
        context.spaces = ("shared", "fragment")
        step()
        context.spaces = None

    def _own_tiles(self) -> None:
        """Tile operations of each lane for itself, at times of some lanes only; then at times its part of a shared tile."""
        context, picker = self.context, self.picker
        steps: list[Callable[[], object]] = [
            self._take, self._take, self.steps.copy_part, self.steps.fill_part, self.steps.transpose, self.steps.reduce, self.steps.scan,
            self.steps.gemm,
        ]  # fmt: skip
        self.barrier()
        with self.alone():
            for _ in range(picker.integer(1, 3)):
                picker.some(steps)()
            if picker.chance(25):
                condition = self.expressions.condition(2)
                with context.nested() as then:
                    picker.some(steps)()
                if then:
                    context.emit(If(condition=condition, then=tuple(then)))
        if picker.chance(60):
            self._give()
        self.barrier()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """No fragments; shared tiles are only read, new tiles are the lane's."""
        context = self.context
        kept = context.tiles
        context.tiles = [tile for tile in kept if tile.buffer.root.space != "fragment"]
        before = len(context.tiles)
        context.spaces, context.is_own = ("local",), True
        try:
            yield
        finally:
            made = context.tiles[before:]
            context.spaces, context.is_own, context.tiles = None, False, kept
            context.tiles.extend(made)

    def _take(self) -> None:
        """A part of a tile, chosen by the lane or not, into a new tile of the lane."""
        context, picker = self.context, self.picker
        sources = [t for t in context.readable() if t.shape and not t.dtype.is_bool]
        if not sources:
            return
        source = picker.some(sources)
        extents = [min(size, picker.integer(1, 4)) for size in source.shape]
        offsets: list[Expr] = []
        for size, extent in zip(source.shape, extents):
            offset: Expr = context.constant(picker.integer(0, size - extent))
            if picker.chance(60):
                offset = binary("floormod", self._linear(), context.constant(size - extent + 1))
            offsets.append(offset)
        mark = context.mark()
        dtype = source.dtype if picker.chance(70) else as_dtype(picker.some(_SHARED_TYPES))
        tile = context.allocate(dtype, tuple(extents))
        if context.emit(Copy(src=context.region(source, offsets, extents), dst=context.region(tile))):
            context.tiles.append(tile)
        else:
            context.rewind(mark)

    def _give(self) -> None:
        """Each lane writes its own part of a shared tile, a column or an element: what its own tile holds, or one value."""
        context, picker = self.context, self.picker
        shared = [t for t in context.writable() if t.buffer.space == "shared" and t.shape[-1] == self.plan.count and len(t.shape) < 3]
        if not shared:
            return
        target = picker.some(shared)
        extents = (*target.shape[:-1], 1)
        region = context.region(target, (*(context.constant(0) for _ in extents[1:]), self._linear()), extents)
        own = [t for t in context.readable() if t.buffer.root.space == "local" and without_units(t.shape) == without_units(extents)]
        self.barrier()
        if own and picker.chance(80):
            context.emit(Copy(src=context.region(picker.some(own)), dst=region))
        else:
            context.emit(Fill(dst=region, value=self.expressions.value(target.dtype, 2)))

    def _atomic(self) -> None:
        context = self.context
        assert self.accumulator is not None
        tile = self.accumulator
        indices = tuple(self.expressions.index(extent) for extent in tile.shape)
        context.emit(Atomic(op=self.operation, buffer=tile.buffer, indices=indices, value=self.expressions.value(tile.dtype, 2)))

    def _loop(self) -> None:
        """A loop that all lanes run alike."""
        context, picker = self.context, self.picker
        trips = picker.integer(0, 3)
        counter = context.variable("k", context.index, "loop")
        kind = Pipelined(stages=picker.integer(0, 3)) if picker.chance(25) else Serial()
        with context.nested([(counter, Fact(low=0, high=max(0, trips - 1)))]) as body:
            self.plan.uniform.append(counter)
            for _ in range(picker.integer(1, 3)):
                self.step()
            self.plan.uniform.remove(counter)
        zero, end, one = context.constant(0), context.constant(trips), context.constant(1)
        self.parallel.emit_loop(For(var=counter, start=zero, stop=end, step=one, kind=kind, body=tuple(body)))

    # ---- what a caller sees ----

    def finish(self, dimensions: list[Dimension]) -> None:
        """Every lane stores an element; shared tiles are copied out; at times some lanes have left before the last stores."""
        context, picker, tensors = self.context, self.picker, self.plan.tensors
        shared = [t for t in context.tiles if not t.is_global and t.buffer.root.space == "shared" and t.count <= 200]
        self.barrier()
        for tile in picker.some_of(list(reversed(shared)), 2):
            with self.together():
                self.steps.observe(tile, is_certain=True)
        is_certain = not picker.chance(20)
        dtype = as_dtype(picker.some(_SHARED_TYPES))
        shape = tuple(reversed(dimensions))
        if len(self.plan.threads) > 2:
            shape = (*shape, Dimension(self.plan.threads[2], number(self.plan.threads[2], self.plan.index)))
        content = None if is_certain else make_array(picker, dtype, tuple(d.size for d in shape), "small")
        output = tensors.add(dtype, shape, "output" if is_certain else "argument", content)
        if content is not None:
            context.analysis.initial[output.buffer] = tensors.facts[output.buffer]
        own = [binary("add", binary("mul", axis.position, context.constant(axis.tile)), lane) for axis, lane in zip(self.axes, self.lanes)]
        indices: tuple[Expr, ...] = tuple(reversed(own))
        if len(self.lanes) > 2:
            indices = (*indices, self.lanes[2])
        if not is_certain:
            limit = Compare(op="ge", left=self._linear(), right=context.constant(picker.integer(0, self.plan.count)))
            context.emit(If(condition=limit if picker.chance(60) else self.expressions.condition(1), then=(Return(),)))
            self._private()
        store = Store(buffer=output.buffer, indices=indices, value=self.expressions.value(dtype, 4))
        if not context.emit(store):
            context.emit(Store(buffer=output.buffer, indices=indices, value=self.expressions.constant(dtype)))
        variables = [var for var in context.variables if var.kind in ("value", "mutable")]
        if variables:
            self._observe_lanes(picker.some(list(reversed(variables))))

    def _observe_lanes(self, var: Var) -> None:
        """Every lane's value of a variable, at its own place."""
        context, tensors, index = self.context, self.plan.tensors, self.plan.index
        sizes = (*(axis.count for axis in self.axes), *self.plan.threads)
        content = make_array(self.picker, var.dtype, sizes, "small")
        mark = tensors.mark()
        seen = tensors.add(var.dtype, tuple(Dimension(size, number(size, index)) for size in sizes), "argument", content)
        context.analysis.initial[seen.buffer] = tensors.facts[seen.buffer]
        places = (*(axis.position for axis in self.axes), *self.lanes)
        if not context.emit(Store(buffer=seen.buffer, indices=places, value=var)):
            tensors.rewind(mark)
