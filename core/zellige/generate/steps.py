"""Steps that are tile operations: loads, copies with casts, fills of parts, products, reductions, scans, transposes, views, atomics.

In: a :class:`Context` outside of any Map. Out: statements of one step, and new tiles in scope. Regions may begin before their buffer and
end behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from zellige.dtypes import DType, dtype as as_dtype
from zellige.generate.context import BOOL, Context, Shape, Tile, binary, number
from zellige.generate.data import make_array
from zellige.generate.expressions import Expressions
from zellige.generate.parallel import Parallel
from zellige.generate.tensors import Dimension, Tensors
from zellige.ir.expr import Buffer, Const, Expr, Load, Region, Var
from zellige.ir.stmt import (
    Alloc,
    Atomic,
    AtomicOp,
    AtomicTile,
    Bind,
    Copy,
    Fill,
    Gemm,
    MemoryOrder,
    Reduce,
    ReduceOp,
    Scan,
    ScanOp,
    Stmt,
    Store,
    Transpose,
)

EXTENTS: Final = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 6)
"""Extents of tiles."""

_TILE_TYPES: Final[tuple[tuple[int, str], ...]] = (
    (34, "float32"), (16, "float16"), (12, "int32"), (8, "bfloat16"), (6, "int8"), (4, "float64"), (3, "uint8"), (3, "int64"), (2, "int16"),
    (2, "float8_e4m3fn"), (2, "float8_e5m2"), (1, "float8_e4m3fnuz"), (1, "uint16"), (1, "uint32"), (1, "uint64"), (1, "tfloat32"),
    (1, "bool"),
    (1, "float6_e2m3fn"), (1, "float6_e3m2fn"), (1, "float4_e2m1fn"), (1, "int4"), (1, "uint4"), (1, "float8_e5m2fnuz"),
    (1, "float8_e8m0fnu"),
)  # fmt: skip
_FLOAT_REDUCTIONS: Final[tuple[ReduceOp, ...]] = ("sum", "max", "min", "absmax", "abssum", "any", "all", "prod")
_INTEGER_REDUCTIONS: Final[tuple[ReduceOp, ...]] = (
    "sum",
    "max",
    "min",
    "absmax",
    "abssum",
    "bitand",
    "bitor",
    "bitxor",
    "any",
    "all",
    "prod",
)
_BOOL_REDUCTIONS: Final[tuple[ReduceOp, ...]] = ("any", "all", "bitand", "bitor", "bitxor")
_ORDERS: Final[tuple[MemoryOrder, ...]] = ("relaxed", "acquire", "release", "acq_rel", "seq_cst")
_GEMM_TYPES: Final[tuple[tuple[int, tuple[str, str, str]], ...]] = (
    (30, ("float32", "float32", "float32")), (20, ("float16", "float16", "float32")), (8, ("bfloat16", "bfloat16", "float32")),
    (6, ("float16", "float16", "float16")), (8, ("int8", "int8", "int32")), (4, ("uint8", "int8", "int32")),
    (4, ("int32", "int32", "int32")),
    (4, ("float64", "float64", "float64")), (4, ("float8_e4m3fn", "float8_e4m3fn", "float32")),
    (3, ("float8_e5m2", "float8_e4m3fn", "float32")),
    (2, ("bfloat16", "float16", "bfloat16")), (2, ("tfloat32", "tfloat32", "float32")), (2, ("int4", "int4", "int32")),
    (2, ("int8", "int8", "int8")), (1, ("float4_e2m1fn", "float4_e2m1fn", "float32")), (1, ("float32", "float16", "float64")),
    (1, ("int16", "int16", "int64")), (1, ("float6_e3m2fn", "float6_e2m3fn", "float32")),
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class GridAxis:
    """A dimension that the blocks share out: ``tile`` elements each, beginning at ``position * tile``, in ``count`` parts."""

    dimension: Dimension
    tile: int
    position: Expr
    count: int


class Steps:
    """Makes tile operations at the place where the context stands."""

    def __init__(self, context: Context, expressions: Expressions, parallel: Parallel, tensors: Tensors, grid: Sequence[GridAxis]) -> None:
        self.context = context
        self.expressions = expressions
        self.parallel = parallel
        self.tensors = tensors
        self.picker = context.picker
        self.grid = list(grid)

    # ---- what a caller sees ----

    def observe(self, tile: Tile, *, is_certain: bool) -> bool:
        """Store all of a tile to a tensor of its own, each block to its own place; ``is_certain`` where every block comes by."""
        if not tile.shape or tile.count == 0 or (tile.dtype.bits == 4 and tile.shape[-1] % 2):
            return False
        context, index = self.context, self.context.index
        sizes = (*(axis.count for axis in self.grid), *tile.shape)
        dimensions = tuple(Dimension(size, number(size, index)) for size in sizes)
        content = None if is_certain else make_array(self.picker, tile.dtype, sizes, "small")
        mark = self.tensors.mark()
        seen = self.tensors.add(tile.dtype, dimensions, "output" if is_certain else "argument", content)
        if content is not None:
            context.analysis.initial[seen.buffer] = self.tensors.facts[seen.buffer]
        offsets = [*(axis.position for axis in self.grid), *(context.constant(0) for _ in tile.shape)]
        box = context.region(seen, offsets, (*(1 for _ in self.grid), *tile.shape))
        if context.emit(Copy(src=context.region(tile), dst=box)):
            return True
        self.tensors.rewind(mark)
        return False

    def observe_scalar(self, var: Var) -> bool:
        """Store a variable to a tensor of its own, each block to its own place, if it comes by."""
        context, index = self.context, self.context.index
        dimensions = tuple(Dimension(axis.count, number(axis.count, index)) for axis in self.grid)
        content = make_array(self.picker, var.dtype, tuple(axis.count for axis in self.grid), "small")
        mark = self.tensors.mark()
        seen = self.tensors.add(var.dtype, dimensions, "argument", content)
        context.analysis.initial[seen.buffer] = self.tensors.facts[seen.buffer]
        if context.emit(Store(buffer=seen.buffer, indices=tuple(axis.position for axis in self.grid), value=var)):
            return True
        self.tensors.rewind(mark)
        return False

    # ---- small choices ----

    def dtype(self) -> DType:
        """The type of a tile; floats of at least 16 bits where functions are to show."""
        if self.expressions.is_smooth and self.picker.chance(60):
            return as_dtype(self.picker.some(("float32", "float32", "float16", "float64", "bfloat16")))
        return as_dtype(self.picker.weighted(_TILE_TYPES))

    def extent(self) -> int:
        """An extent of a tile."""
        return self.picker.some(EXTENTS)

    def shape(self, rank: int | None = None) -> Shape:
        """The shape of a tile: two dimensions more often than not."""
        count = rank if rank is not None else self.picker.weighted(((70, 2), (20, 1), (10, 3)))
        sizes = [self.extent() for _ in range(count)]
        return tuple(sizes if count < 3 else [min(size, 5) for size in sizes])

    def offset(self, dimension: Dimension | None, size: int, extent: int) -> Expr:
        """Where a region of ``extent`` begins along a dimension of ``size``: the block's part, a loop's, or anywhere near."""
        context, picker = self.context, self.picker
        axis = next((axis for axis in self.grid if axis.dimension is dimension), None)
        if axis is not None and picker.chance(80):
            found = binary("mul", axis.position, context.constant(axis.tile))
        else:
            loops = [var for var in context.variables if var.kind == "loop" and var.dtype == context.index]
            if loops and picker.chance(55):
                found = binary("mul", picker.some(loops), context.constant(extent))
            else:
                found = context.constant(picker.integer(0, max(0, size - extent)))
        if picker.chance(12):
            found = binary("add", found, context.constant(picker.integer(0, 6) - 3))
        return found

    # ---- tiles from elsewhere ----

    def tile(self, shape: Shape, dtype: DType, space: str | None = None) -> Tile | None:
        """A new tile of the given form: loaded, converted, computed or filled."""
        makers = [self.load, self.load, self.parallel.new_tile, self.convert, self.parallel.new_tile]
        if not self.picker.chance(8):
            for maker in self.picker.some_of(makers, 3):
                found = maker(dtype, shape, space)
                if found is not None:
                    return found
        return self.filled(dtype, shape, space)

    def filled(self, dtype: DType, shape: Shape, space: str | None = None) -> Tile | None:
        """A tile that is the same everywhere."""
        context = self.context
        tile = context.allocate(dtype, shape, space)
        context.emit(Fill(dst=context.region(tile), value=self.expressions.constant(dtype)))
        context.tiles.append(tile)
        return tile

    def load(self, dtype: DType, shape: Shape, space: str | None = None) -> Tile | None:
        """A tile copied from a tensor, of the tensor's type or converted on the way."""
        context, picker = self.context, self.picker
        sources = [t for t in context.readable() if t.is_global and len(t.shape) >= len(shape)]
        if not sources:
            return None
        same = [t for t in sources if t.dtype == dtype]
        source = picker.some(same) if same and picker.chance(80) else picker.some(sources)
        mark = context.mark()
        tile = context.allocate(dtype, shape, space)
        region = self._box(source, shape)
        copy = Copy(src=region, dst=context.region(tile), is_async=picker.chance(10), vector_width=picker.some((None, None, 4)))
        if not context.emit(copy):
            context.rewind(mark)
            return None
        context.tiles.append(tile)
        return tile

    def _box(self, source: Tile, shape: Shape) -> Region:
        """A region of ``source`` with the extents of ``shape`` and as many of 1 as it has further dimensions."""
        rank = len(source.shape)
        named = self.tensors.dimensions.get(source.buffer, (None,) * rank)
        places = sorted(self.picker.some_of(list(range(rank)), len(shape)))
        extents = [1] * rank
        for place, extent in zip(places, shape):
            extents[place] = extent
        offsets = [self.offset(named[d], source.shape[d], extents[d]) for d in range(rank)]
        return self.context.region(source, offsets, extents)

    def convert(self, dtype: DType, shape: Shape, space: str | None = None) -> Tile | None:
        """A tile of the same extents as another, in another type or place."""
        context = self.context
        sources = [t for t in context.readable() if not t.is_global and without_units(t.shape) == without_units(shape)]
        if not sources:
            return None
        mark = context.mark()
        source = self.picker.some(sources)
        tile = context.allocate(dtype, shape, space)
        if not context.emit(Copy(src=context.region(source), dst=context.region(tile))):
            context.rewind(mark)
            return None
        context.tiles.append(tile)
        return tile

    # ---- steps ----

    def load_step(self) -> bool:
        """A new tile."""
        return self.tile(self.shape(), self.dtype()) is not None

    def map_step(self) -> bool:
        """A new tile, computed."""
        return self.parallel.new_tile(self.dtype(), self.shape()) is not None

    def fill_part(self) -> bool:
        """A box of a tile the same; the box may reach outside."""
        context, picker = self.context, self.picker
        known = context.writable()
        if not known:
            return False
        tile = picker.some(known)
        offsets = [context.constant(picker.integer(0, size + 1) - 1) for size in tile.shape]
        extents = [picker.integer(0, size + 1) for size in tile.shape]
        value = self.expressions.value(tile.dtype, 2)
        return context.emit(Fill(dst=context.region(tile, offsets, extents), value=value))

    def copy_part(self) -> bool:
        """A box of one tile to a box of another, both of which may reach outside."""
        context, picker = self.context, self.picker
        targets = context.writable()
        if not targets:
            return False
        target = picker.some(targets)
        sources = [t for t in context.readable() if t.buffer.root is not target.buffer.root and len(t.shape) == len(target.shape)]
        if not sources:
            return False
        source = picker.some(sources)
        extents = [picker.integer(1, max(a, b)) for a, b in zip(source.shape, target.shape)]
        begin, end = ([context.constant(picker.integer(0, size) - picker.integer(0, 2)) for size in t.shape] for t in (source, target))
        return context.emit(Copy(src=context.region(source, begin, extents), dst=context.region(target, end, extents)))

    def transpose(self) -> bool:
        """A new tile, the transposed of another."""
        context, picker = self.context, self.picker
        sources = [t for t in context.readable() if len(t.shape) == 2 and max(t.shape) <= 64]
        if not sources:
            return False
        source = picker.some(sources)
        mark = context.mark()
        tile = context.allocate(source.dtype if picker.chance(70) else self.dtype(), source.shape[::-1])
        if not context.emit(Transpose(src=context.region(source), dst=context.region(tile))):
            context.rewind(mark)
            return False
        context.tiles.append(tile)
        return True

    def view(self) -> bool:
        """Another shape, or another type of the same width, over the storage of a tile."""
        context, picker = self.context, self.picker
        known = [t for t in context.writable() if t.buffer.alias is None and t.count > 1]
        if not known:
            return False
        tile = picker.some(known)
        widths = (
            "int8",
            "uint8",
            "float8_e4m3fn",
            "int16",
            "uint16",
            "float16",
            "bfloat16",
            "int32",
            "uint32",
            "float32",
            "int64",
            "uint64",
        )
        dtypes = [as_dtype(n) for n in widths if as_dtype(n).storage_bits == tile.dtype.storage_bits and tile.dtype.bits >= 8]
        dtype = picker.some(dtypes) if dtypes and picker.chance(25) and not tile.dtype.is_bool and tile.dtype != "tfloat32" else tile.dtype
        divisors = [d for d in range(1, tile.count + 1) if tile.count % d == 0]
        rows = picker.some(divisors)
        shape: Shape = (rows, tile.count // rows) if picker.chance(70) else (tile.count,)
        extents = tuple(number(extent) for extent in shape)
        view = Tile(Buffer(name=context.name("v"), dtype=dtype, shape=extents, space=tile.buffer.space, alias=tile.buffer), shape)
        zero = context.constant(0)
        if dtype != tile.dtype and not context.is_bounded(Load(buffer=view.buffer, indices=(zero,) * len(shape))):
            return False
        context.tiles.append(view)
        return True

    def reduce(self) -> bool:
        """A reduction along any axis, into a new tile or, combined, into one that is there."""
        context, picker = self.context, self.picker
        sources = [t for t in context.readable() if t.shape and (not t.is_global or t.count <= 400)]
        if not sources:
            return False
        source = picker.some(sources)
        axis = picker.integer(0, len(source.shape) - 1)
        rest = source.shape[:axis] + source.shape[axis + 1 :]
        if picker.chance(40) or not rest:
            rest = (*source.shape[:axis], 1, *source.shape[axis + 1 :])
        ops = _FLOAT_REDUCTIONS if source.dtype.is_float else _BOOL_REDUCTIONS if source.dtype.is_bool else _INTEGER_REDUCTIONS
        op = picker.some(ops)
        dtype = source.dtype if picker.chance(55) else self.dtype()
        if op in ("bitand", "bitor", "bitxor") and dtype.is_float:
            dtype = source.dtype
        clear, propagate = not picker.chance(25), picker.chance(20)
        if not clear:
            old = [
                t for t in context.writable() if without_units(t.shape) == without_units(rest) and t.buffer.root is not source.buffer.root
            ]
            target = picker.some(old) if old else self.filled(dtype, rest)
            if target is None or (op in ("bitand", "bitor", "bitxor") and target.dtype.is_float):
                return False
            reduction = self._reduction(source, target, axis, op, clear=False, propagate=propagate)
            return context.emit(reduction)
        mark = context.mark()
        target = context.allocate(dtype, rest)
        if not context.emit(self._reduction(source, target, axis, op, clear=True, propagate=propagate)):
            context.rewind(mark)
            return False
        context.tiles.append(target)
        return True

    def _reduction(self, source: Tile, target: Tile, axis: int, op: ReduceOp, *, clear: bool, propagate: bool) -> Stmt:
        context = self.context
        return Reduce(src=context.region(source), dst=context.region(target), axis=axis, op=op, clear=clear, nan_propagate=propagate)

    def scan(self) -> bool:
        """A scan along any axis, in place or into a new tile."""
        context, picker = self.context, self.picker
        sources = [t for t in context.readable() if t.shape and not t.dtype.is_bool and (not t.is_global or t.count <= 400)]
        if not sources:
            return False
        source = picker.some(sources)
        ops: tuple[ScanOp, ...] = ("sum", "max", "min", "prod")
        axis, op, reverse = picker.integer(0, len(source.shape) - 1), picker.weighted(tuple(zip((60, 18, 18, 4), ops))), picker.chance(40)
        if source in context.writable() and picker.chance(30):
            return context.emit(Scan(src=context.region(source), dst=context.region(source), axis=axis, op=op, reverse=reverse))
        mark = context.mark()
        target = context.allocate(source.dtype if picker.chance(70) else self.dtype(), source.shape)
        if target.dtype.is_bool or not context.emit(
            Scan(src=context.region(source), dst=context.region(target), axis=axis, op=op, reverse=reverse)
        ):
            context.rewind(mark)
            return False
        context.tiles.append(target)
        return True

    # ---- products ----

    def gemm(self) -> bool:
        """A product of tiles that are there or made for it, added to one that is there or new."""
        context, picker = self.context, self.picker
        mark = context.mark()
        names = picker.weighted(_GEMM_TYPES)
        dtype_a, dtype_b, dtype_c = (as_dtype(name) for name in names)
        known = [t for t in context.readable(rank=2) if t.dtype.is_float == dtype_a.is_float and not t.dtype.is_bool and max(t.shape) <= 24]
        transposed = picker.chance(30), picker.chance(40)
        a = picker.some(known) if known and picker.chance(70) else self.tile(self.shape(2), dtype_a)
        if a is None:
            return False
        m, k = a.shape[::-1] if transposed[0] else a.shape
        sums = [t for t in context.writable(dtype_c, 2) if t.shape[0] == m and t.buffer.root is not a.buffer.root]
        c = picker.some(sums) if sums and picker.chance(60) else None
        n = c.shape[1] if c is not None else self.extent()
        wanted = (n, k) if transposed[1] else (k, n)
        fitting = [t for t in known if t.shape == wanted and (c is None or t.buffer.root is not c.buffer.root)]
        b = picker.some(fitting) if fitting and picker.chance(60) else self.tile(wanted, dtype_b)
        if b is not None and c is None:
            c = self.filled(dtype_c, (m, n)) if picker.chance(40) else None
        is_new = c is None
        if b is None:
            context.rewind(mark)
            return False
        if c is None:
            c = context.allocate(dtype_c, (m, n))
        product = Gemm(
            a=context.region(a),
            b=context.region(b),
            c=context.region(c),
            transpose_a=transposed[0],
            transpose_b=transposed[1],
            clear=self._clear(is_new=is_new),
            policy=picker.some(("square", "full_row", "full_col")),
        )
        if not context.emit(product):
            context.rewind(mark)
            return False
        if is_new:
            context.tiles.append(c)
        return True

    def _clear(self, *, is_new: bool) -> Expr:
        if is_new:
            return Const(value=True, dtype=BOOL)
        if self.picker.chance(15):
            return self.expressions.uniform_condition()
        return Const(value=self.picker.chance(15), dtype=BOOL)

    # ---- scalars of the block ----

    def scalar(self) -> bool:
        """A value, or a small buffer of the block."""
        context, picker = self.context, self.picker
        dtype = as_dtype(picker.some(("int32", "float32", "int64", "float16", "int8")))
        if picker.chance(25):
            buffer = context.buffer(dtype, (1,), picker.some(("var", "local")), "cell")
            context.emit(Alloc(buffer=buffer))
            if context.emit(Store(buffer=buffer, indices=(context.constant(0),), value=self.expressions.value(dtype, 3))):
                context.tiles.append(Tile(buffer, (1,)))
            return True
        kind = "mutable" if picker.chance(40) else "value"
        var = context.variable("u", dtype, kind)  # type: ignore[arg-type]
        if context.emit(Bind(var=var, value=self.expressions.value(dtype, 3))):
            context.variables.append(var)
        return True

    # ---- atomics ----

    def block_atomic(self) -> bool:
        """One element of a tile of the block changed, with the value before, which is certain since the block runs in order."""
        context, picker = self.context, self.picker
        known = [t for t in context.writable() if t.buffer.space == "shared" and t.dtype.storage_bits >= 8 and t.buffer.alias is None]
        if not known:
            return False
        tile = picker.some(known)
        op = picker.some(atomic_ops(tile.dtype, with_order=True))
        has_result = op == "load" or (op != "store" and picker.chance(60))
        result = context.variable("old", tile.dtype, "mutable" if picker.chance(40) else "value") if has_result else None
        indices = tuple(self.expressions.index(extent) for extent in tile.shape)
        value = None if op == "load" else self.expressions.value(tile.dtype, 2)
        if not context.emit(Atomic(op=op, buffer=tile.buffer, indices=indices, value=value, order=self._order(), result=result)):
            return False
        if result is not None:
            context.variables.append(result)
        return True

    def _order(self) -> MemoryOrder:
        return self.picker.some(_ORDERS)

    def atomic_tile(self, target: Tile, op: AtomicOp) -> bool:
        """A tile combined into a box of a tensor that nothing else reads."""
        context, picker = self.context, self.picker
        sources = [t for t in context.readable() if not t.is_global and len(t.shape) <= len(target.shape)]
        if not sources or op in ("exchange", "load"):
            return False
        source = picker.some(sources)
        box = self._box(target, source.shape)
        return context.emit(AtomicTile(op=op, src=context.region(source), dst=box))


def atomic_ops(dtype: DType, *, with_order: bool = False) -> tuple[AtomicOp, ...]:
    """The atomic operations of a type; those whose result depends on the order only ``with_order``."""
    ordered: tuple[AtomicOp, ...] = ("exchange", "load", "store") if with_order else ()
    if dtype.is_bool:
        return ("or", "and", "xor", *ordered)
    if dtype.name == "float8_e8m0fnu":
        return ("max", "min", *ordered)
    if dtype.is_float:
        return ("add", "max", "min", "sub", *ordered)
    return ("add", "max", "min", "and", "or", "xor", "sub", *ordered)


def without_units(shape: Shape) -> Shape:
    """The extents that are not 1."""
    return tuple(extent for extent in shape if extent != 1)
