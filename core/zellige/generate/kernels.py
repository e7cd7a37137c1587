"""Whole programs: launches over grids of one to three dimensions, their tensors, what they store.

In: a source of choices. Out: a :class:`Program` that the verifier accepts, of which the interpreter has nothing to report, and whose
results can be compared between backends. Each block stores to a part of an output of its own; what blocks share they update atomically.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from zellige.dtypes import DType, dtype as as_dtype
from zellige.generate.blocks import Accumulator, Blocks
from zellige.generate.boxes import boxes_program
from zellige.generate.choices import Choices, Picker, RandomChoices
from zellige.generate.context import Context, Tile, binary, number
from zellige.generate.data import make_array
from zellige.generate.expressions import Expressions
from zellige.generate.facts import Fact
from zellige.generate.index_values import index_values_program
from zellige.generate.lane_blocks import lane_launch
from zellige.generate.lane_values import lane_values_program
from zellige.generate.parallel import Parallel
from zellige.generate.program import Program
from zellige.generate.statement_facts import Analysis, State
from zellige.generate.steps import GridAxis, Steps, atomic_ops
from zellige.generate.tensors import INPUT_TYPES, Dimension, Tensors
from zellige.ir.expr import Binary, Const, Expr, Region, Var
from zellige.ir.stmt import Copy, For, If, Launch, Persistent, RasterHint, Return, SafeValue, Stmt

Flavour = Literal["any", "blocks", "lanes", "lane-tiles", "lane-values", "indexes", "boxes"]

_SIZES: Final = (5, 8, 1, 3, 7, 10, 12, 13, 16, 17, 20, 23, 33)
_TILES: Final = (4, 1, 2, 3, 5, 7, 8, 16)
_INDEX_TYPES: Final = ("int32", "int32", "int32", "int64")


def generate(choices: Choices, *, flavour: Flavour = "any") -> Program:
    """A program; ``flavour`` "blocks" leaves out lanes, "lanes" makes nothing else, "lane-tiles" has tile operations of lanes too,
    "lane-values" is made of what lanes share and what they have of their own, "indexes" of index arithmetic, "boxes" of regions that need
    not lie in their buffers."""
    if flavour == "lane-values":
        return lane_values_program(choices)
    if flavour == "indexes":
        return index_values_program(choices)
    if flavour == "boxes":
        return boxes_program(choices)
    picker = Picker(choices)
    tensors = Tensors(picker, as_dtype(picker.some(_INDEX_TYPES)))
    launches: list[Launch] = []
    earlier: list[Tile] = []
    count = picker.weighted(((75, 1), (20, 2), (5, 3)))
    for _ in range(count):
        has_lanes = flavour in ("lanes", "lane-tiles") or (flavour == "any" and picker.chance(15))
        if has_lanes:
            launch = lane_launch(picker, tensors, has_own_tiles=flavour == "lane-tiles")
        else:
            launch = _Planner(picker, tensors, earlier).launch()
        launches.append(launch)
        tensors.facts = Analysis().launch(tensors.facts, launch)
    return tensors.program("fuzzed", launches)


def generate_seeded(seed: int, *, flavour: Flavour = "any") -> Program:
    """The program of a seed."""
    return generate(RandomChoices(seed), flavour=flavour)


@dataclass(frozen=True, slots=True)
class _Output:
    """A tensor that every block stores its own part of. ``whole`` are further extents, which a block stores all of."""

    tile: Tile
    whole: tuple[int, ...]
    is_partial: bool


class _Planner:
    """Makes one launch without lanes."""

    def __init__(self, picker: Picker, tensors: Tensors, earlier: list[Tile]) -> None:
        self.picker = picker
        self.tensors = tensors
        self.earlier = earlier
        self.index = tensors.index

    def launch(self) -> Launch:
        picker, tensors = self.picker, self.tensors
        names = ("M", "N", "L")[: picker.weighted(((40, 1), (48, 2), (12, 3)))]
        dimensions = [tensors.dimension(self._size() if len(names) < 3 else picker.integer(1, 9), name) for name in names]
        most = (6, 3, 2)[len(dimensions) - 1]
        tiles = [max(picker.some(_TILES), -(-dimension.size // most)) for dimension in dimensions]
        extents = [self._count(dimension, tile) for dimension, tile in zip(dimensions, tiles)]
        counts = [-(-dimension.size // tile) for dimension, tile in zip(dimensions, tiles)]
        is_persistent = picker.chance(10)
        state: State = dict(tensors.facts)
        total = 1
        for count in counts:
            total *= count
        workers = picker.integer(1, 3)
        grid_vars = tuple(
            Var(name=name, dtype=self.index, kind="grid") for name in (("b",) if is_persistent else ("bx", "by", "bz")[: len(tiles)])
        )
        grid: tuple[Expr, ...] = (number(workers, self.index),) if is_persistent else tuple(extents)
        for var, count in zip(grid_vars, [workers] if is_persistent else counts):
            state[var] = Fact(low=0, high=max(0, count - 1))
        outputs = self._outputs(dimensions)
        accumulators = self._accumulators()
        for tile in [output.tile for output in outputs] + [accumulator.tile for accumulator in accumulators]:
            if tile.buffer in tensors.facts:
                state[tile.buffer] = tensors.facts[tile.buffer]
        inputs = self._inputs(dimensions)
        scalars = [tensors.scalar(as_dtype(picker.some(("int32", "float32", "int64")))) for _ in range(picker.weighted(((60, 0), (40, 1))))]
        state.update({node: fact for node, fact in tensors.facts.items() if isinstance(node, Var) or node in {t.buffer for t in inputs}})
        safe_values = tuple(
            SafeValue(buffer=t.buffer, value=self._safe_value(t.dtype)) for t in inputs if picker.chance(8) and not t.dtype.is_bool
        )
        analysis = Analysis(blocks=max(1, total), safe_values={})
        analysis.safe_values = {safe.buffer: analysis.fact(state, safe.value) for safe in safe_values}
        context = Context(picker=picker, index=self.index, analysis=analysis, state=state)
        context.tiles.extend([*inputs, *self.earlier])
        context.variables.extend([*scalars, *grid_vars])
        context.variables.extend(d.extent for d in dimensions if isinstance(d.extent, Var))
        hints = (RasterHint(panel=picker.integer(1, 4)),) if picker.chance(5) else ()
        if is_persistent:
            self._persistent(context, dimensions, tiles, extents, counts, (grid_vars[0], workers), outputs, accumulators)
        else:
            axes = [GridAxis(d, tile, var, count) for d, tile, var, count in zip(dimensions, tiles, grid_vars, counts)]
            self._block(context, axes, outputs, accumulators)
        self.earlier.extend(output.tile for output in outputs if output.tile.count)
        threads = (number(picker.some((32, 64, 128, 7))),) if picker.chance(50) else None
        return Launch(grid_vars=grid_vars, grid=grid, threads=threads, safe_values=safe_values, hints=hints, body=tuple(context.body))

    def _size(self) -> int:
        return 0 if self.picker.chance(2) else self.picker.some(_SIZES)

    def _count(self, dimension: Dimension, tile: int) -> Expr:
        """How many tiles cover a dimension."""
        if isinstance(dimension.extent, Const):
            return number(-(-dimension.size // tile), self.index)
        raised = binary("add", dimension.extent, number(tile - 1, self.index))
        return raised if tile == 1 else Binary(op="floordiv", left=raised, right=number(tile, self.index))

    def _safe_value(self, dtype: DType) -> Const:
        return Const(value=1.0 if dtype.is_float else 1, dtype=dtype)

    # ---- tensors ----

    def _outputs(self, dimensions: list[Dimension]) -> list[_Output]:
        picker, tensors = self.picker, self.tensors
        found = []
        for _ in range(picker.weighted(((75, 1), (25, 2)))):
            dtype = as_dtype(picker.weighted(INPUT_TYPES))
            whole = (picker.integer(1, 6),) if picker.chance(25) else ()
            shape = (*dimensions, *(Dimension(extent, number(extent, self.index)) for extent in whole))
            if dtype.bits == 4 and shape[-1].size % 2:
                dtype = as_dtype("float16")
            is_partial = picker.chance(25)
            if is_partial:
                sizes = tuple(dimension.size for dimension in shape)
                tile = tensors.add(dtype, shape, "argument", make_array(picker, dtype, sizes))
            else:
                tile = tensors.add(dtype, shape, "output", None)
            found.append(_Output(tile, whole, is_partial))
        return found

    def _accumulators(self) -> list[Accumulator]:
        picker, tensors = self.picker, self.tensors
        found = []
        for _ in range(picker.weighted(((65, 0), (28, 1), (7, 2)))):
            dtype = as_dtype(picker.some(("int32", "float32", "int64", "uint32", "float16", "float64", "uint8", "int8", "bfloat16")))
            sizes = tuple(picker.integer(1, 9) for _ in range(picker.integer(1, 2)))
            content = make_array(picker, dtype, sizes, "small")
            tile = tensors.add(dtype, tuple(Dimension(size, number(size, self.index)) for size in sizes), "argument", content)
            found.append(Accumulator(tile, picker.some(atomic_ops(dtype))))
        return found

    def _inputs(self, dimensions: list[Dimension]) -> list[Tile]:
        picker, tensors = self.picker, self.tensors
        free = [tensors.dimension(self._size(), name) for name in ("K", "H")]
        found = []
        for _ in range(picker.integer(1, 4)):
            rank = picker.weighted(((55, 2), (25, 1), (17, 3), (3, 4)))
            chosen = []
            for _ in range(rank):
                small = picker.some((2, 3, 4, 1, 6))
                constant = Dimension(small, number(small, self.index))
                chosen.append(picker.some([*dimensions, *free, constant] if rank < 3 else [*dimensions, constant]))
            found.append(tensors.input(tuple(chosen)))
        return found

    # ---- bodies ----

    def _block(self, context: Context, axes: list[GridAxis], outputs: list[_Output], accumulators: list[Accumulator]) -> None:
        picker = self.picker
        expressions = Expressions(context, is_smooth=picker.chance(50))
        parallel = Parallel(context, expressions)
        steps = Steps(context, expressions, parallel, self.tensors, axes)
        context.budget = 10 + picker.integer(0, 30)
        blocks = Blocks(context, expressions, parallel, steps, accumulators)
        blocks.run(7)
        is_certain = True
        if all(output.is_partial for output in outputs) and picker.chance(35):
            context.emit(If(condition=expressions.uniform_condition(), then=(Return(),)))
            is_certain = False
            blocks.run(3)
        blocks.observe(4, is_certain=is_certain)
        for output in outputs:
            self._store(context, steps, parallel, axes, output)

    def _store(self, context: Context, steps: Steps, parallel: Parallel, axes: list[GridAxis], output: _Output) -> None:
        """The block's part of an output, from a tile of its form."""
        shape = (*(axis.tile for axis in axes), *output.whole)
        found = steps.tile(shape, output.tile.dtype if self.picker.chance(60) else steps.dtype())
        offsets = [
            *(binary("mul", axis.position, context.constant(axis.tile)) for axis in axes),
            *(context.constant(0) for _ in output.whole),
        ]
        region = Region(buffer=output.tile.buffer, offsets=tuple(offsets), extents=tuple(number(extent) for extent in shape))
        if found is not None and self.picker.chance(30) and parallel.copy_out(found, output.tile, offsets):
            return
        if found is not None and context.emit(Copy(src=context.region(found), dst=region)):
            return
        fallback = steps.filled(output.tile.dtype, shape)
        assert fallback is not None
        context.emit(Copy(src=context.region(fallback), dst=region))

    def _persistent(
        self,
        context: Context,
        dimensions: list[Dimension],
        tiles: list[int],
        extents: list[Expr],
        counts: list[int],
        worker: tuple[Var, int],
        outputs: list[_Output],
        accumulators: list[Accumulator],
    ) -> None:
        """Each block takes every so-many-eth tile of the grid, in a loop."""
        total: Expr = extents[0]
        number_of_tiles = counts[0]
        for extent, count in zip(extents[1:], counts[1:]):
            total = binary("mul", total, extent)
            number_of_tiles *= count
        tile = context.variable("tile", self.index, "loop")
        with context.nested([(tile, Fact(low=0, high=max(0, number_of_tiles - 1)))]) as body:
            axes = []
            rest: Expr = tile
            for position, (dimension, size, extent) in enumerate(zip(dimensions, tiles, extents)):
                place = rest if position == len(tiles) - 1 else Binary(op="floormod", left=rest, right=extent)
                axes.append(GridAxis(dimension, size, place, counts[position]))
                rest = Binary(op="floordiv", left=rest, right=extent)
            self._block(context, axes, list(outputs), accumulators)
        var, workers = worker
        step = context.constant(workers)
        loop: Stmt = For(var=tile, start=var, stop=total, step=step, kind=Persistent(), body=tuple(body))
        if not context.emit(loop):
            raise AssertionError("the statements of a persistent loop were accepted one by one")
