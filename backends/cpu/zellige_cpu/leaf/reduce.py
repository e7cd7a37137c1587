"""Reductions of a tile along one axis.

In: a :class:`ReduceSpec`. Out: the name of a function ``void (ptr src, ptr dst)`` in the module.

Elements are converted to the type that both sides promote to (at least float32 for floats), combined there and converted once to dst's.
Where another dimension is contiguous, its positions are the lanes and the axis is walked in order. Where the axis itself is contiguous,
several vectors of partial results run side by side and are folded at the end: the order of a float sum is then not that of the
elements, but it depends on nothing but the spec. Where as many results as a vector has lanes lie next to each other, their vectors are
folded together, in the same order: with half of its lanes used a step would else be as long as with all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final

from zellige.diagnostics import InternalError
from zellige.dtypes import DType, dtype
from zellige.ir.reductions import reduction_dtype
from zellige.ir.stmt import ReduceOp
from zellige.records import dataclass
from zellige_cpu.leaf.boxes import Dimension, Stretch, loops, merged, stretches
from zellige_cpu.leaf.convert import cast
from zellige_cpu.leaf.vectors import lane_mask, load_lanes
from zellige_cpu.text import Function, Module
from zellige_cpu.types import element_bytes, memory_type, register_type
from zellige_cpu.values import FALSE, Value, constant

_GROUP: Final = 4  # vectors of partial results: enough to hide the latency of an addition
_UNROLLED: Final = 4  # rounds over such a group up to which there is no loop
_FLOAT32: Final = dtype("float32")
_BOOL: Final = dtype("bool")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceSpec:
    """``shape`` and ``src_strides`` (elements) of the source, one entry a dimension; ``dst_strides`` without the axis.

    The result is combined with what dst holds unless ``clear``. max and min skip NaN unless ``nan_propagate``.
    """

    shape: tuple[int, ...]
    axis: int
    src_strides: tuple[int, ...]
    dst_strides: tuple[int, ...]
    src: DType
    dst: DType
    op: ReduceOp
    clear: bool = True
    nan_propagate: bool = False

    @property
    def accumulator(self) -> DType:
        return _BOOL if self.op in ("any", "all") else reduction_dtype(self.src, self.dst)

    @property
    def kept(self) -> list[Dimension]:
        """The dimensions other than the axis, merged."""
        others = [i for i in range(len(self.shape)) if i != self.axis]
        return merged(
            [Dimension(extent=self.shape[i], source=self.src_strides[i], target=stride) for i, stride in zip(others, self.dst_strides)]
        )


def emit_reduce(module: Module, spec: ReduceSpec) -> str:
    """The name of the function that reduces by ``spec``, made on first use."""
    if not 0 <= spec.axis < len(spec.shape) or min(spec.shape) < 1 or len(spec.dst_strides) != len(spec.shape) - 1:
        raise InternalError(f"reduction of shape {spec.shape} along axis {spec.axis}")
    strides = "_".join(str(s) for s in (*spec.src_strides, "to", *spec.dst_strides))
    shape = "x".join(str(extent) for extent in spec.shape)
    manner = ("" if spec.clear else "_onto") + "_nan" * spec.nan_propagate
    name = f"reduce_{spec.op}_{spec.src}_{spec.dst}_{shape}_{spec.axis}_{strides}{manner}"
    if module.has_function(name):
        return name
    fn = module.function(name, "void", [("src", "ptr"), ("dst", "ptr")], inline=False)
    lanes = module.host.lanes(max(element_bytes(spec.accumulator), element_bytes(spec.src)))
    kept = spec.kept
    across = next((d for d in reversed(kept) if d.source == 1), None)
    reduction = _Reduction(fn, spec, lanes)
    if across is not None:
        outer = [d for d in kept if d is not across]
        with loops(fn, outer, fn.params[0], fn.params[1], element_bytes(spec.src), element_bytes(spec.dst)) as (source, target):
            for stretch in stretches(fn, across.extent, lanes, _GROUP):
                reduction.across(source, target, across, stretch)
    elif reduction.rows_at_once:
        with loops(fn, kept[:-1], fn.params[0], fn.params[1], element_bytes(spec.src), element_bytes(spec.dst)) as (source, target):
            reduction.rows(source, target, kept[-1])
    else:
        with loops(fn, kept, fn.params[0], fn.params[1], element_bytes(spec.src), element_bytes(spec.dst)) as (source, target):
            reduction.along(source, target)
    return name


_WORST: Final = {"max": float("-inf"), "absmax": float("-inf"), "min": float("inf")}
"""Of what skips NaN the number to which any other is preferred."""


@dataclass(frozen=True, slots=True)
class _Reduction:
    fn: Function
    spec: ReduceSpec
    lanes: int

    def across(self, source: Value, target: Value, dimension: Dimension, stretch: Stretch) -> None:
        """One result a lane: the axis is walked in order."""
        fn, spec, lanes = self.fn, self.spec, self.lanes
        size, dst_size = element_bytes(spec.src), element_bytes(spec.dst)
        masks = _masks(stretch, lanes)
        first = fn.offset(source, _bytes(fn, stretch.start, size))
        with fn.loop(constant("i64", 0), constant("i64", spec.shape[spec.axis])) as loop:
            carried = [loop.carry(identity(spec.op, spec.accumulator, lanes, spec.nan_propagate)) for _ in masks]
            row = fn.offset(first, _bytes(fn, loop.index, spec.src_strides[spec.axis] * size))
            for v, mask in enumerate(masks):
                loop.update(carried[v], self.combine(carried[v], self.load(fn.offset(row, v * lanes * size), lanes, mask)))
        place = fn.offset(target, _bytes(fn, stretch.start, dimension.target * dst_size))
        for v, mask in enumerate(masks):
            self.finish(loop.final(carried[v]), fn.offset(place, v * lanes * dimension.target * dst_size), dimension.target, mask, stretch)

    def finish(self, total: Value, place: Value, stride: int, mask: Value | None, stretch: Stretch) -> None:
        """A vector of results to dst, adjacent or one by one."""
        fn, spec, lanes = self.fn, self.spec, self.lanes
        size = element_bytes(spec.dst)
        if stride == 1:
            if not spec.clear:
                total = self.combine(self.old(place, lanes, mask), total)
            result = stored(fn, total, spec.accumulator, spec.dst)
            if mask is None:
                fn.store(result, place, align=size)
            else:
                fn.masked_store(result, place, mask, align=size)
            return
        for lane in range(lanes if mask is None else stretch.last_lanes):
            self.finish_one(fn.extract(total, lane), fn.offset(place, lane * stride * size))

    def finish_one(self, total: Value, place: Value) -> None:
        fn, spec = self.fn, self.spec
        if not spec.clear:
            total = self.combine(self.old(place, 1, None), total)
        fn.store(stored(fn, total, spec.accumulator, spec.dst), place, align=element_bytes(spec.dst))

    def along(self, source: Value, target: Value) -> None:
        """One result: the axis is cut into vectors where it is contiguous, else walked element by element.

        A max or min that skips NaN is NaN where nothing else was. An instruction that compares gives its second operand where one is NaN,
        so the walk begins at the worst number there is, and only where the result is still that is the axis walked again with NaN as start.
        """
        spec = self.spec
        if not self.skips_nan:
            self.finish_one(self.total(source, self.neutral(1), self.combine), target)
            return
        fn = self.fn
        worst = constant(register_type(spec.accumulator), _WORST[spec.op])
        quick = self.total(source, worst, self.better)
        again, known = fn.fresh_label("again"), fn.fresh_label("known")
        before = fn.current
        fn.branch_if(fn.compare("oeq", quick, worst), again, known)
        fn.label(again)
        exact = self.total(source, identity(spec.op, spec.accumulator, 1), self.combine)
        end = fn.current
        fn.label(known)
        self.finish_one(fn.phi((quick, before), (exact, end)), target)

    @property
    def rows_at_once(self) -> int:
        """How many neighbouring results are made together; 0 where it is each for itself. In long rows the end does not count, and code
        for several at once would be long too."""
        spec, lanes = self.spec, self.lanes
        is_contiguous = spec.src_strides[spec.axis] == 1 and 1 < lanes <= spec.shape[spec.axis] < (_UNROLLED + 1) * _GROUP * lanes
        kept = spec.kept
        is_wide = bool(kept) and kept[-1].target == 1 and kept[-1].extent >= lanes
        return lanes if is_contiguous and is_wide and not spec.accumulator.is_bool else 0

    def rows(self, source: Value, target: Value, dimension: Dimension) -> None:
        """Results that lie next to each other, a vector of them at a time, the rest one by one."""
        fn, spec, count = self.fn, self.spec, self.rows_at_once
        pitch, size = dimension.source * element_bytes(spec.src), element_bytes(spec.dst)
        whole = dimension.extent // count * count
        for first, last, step in ((0, whole, count), (whole, dimension.extent, 1)):
            if first < last:
                with fn.loop(constant("i64", first), constant("i64", last), step) as loop:
                    row, place = fn.offset(source, _bytes(fn, loop.index, pitch)), fn.offset(target, _bytes(fn, loop.index, size))
                    if step == 1:
                        self.along(row, place)
                    else:
                        self.together(row, place, pitch)

    def together(self, source: Value, target: Value, pitch: int) -> None:
        """As many results as there are lanes, of rows ``pitch`` bytes apart; see :meth:`along` for what skips NaN."""
        fn, spec, count = self.fn, self.spec, self.rows_at_once
        is_quick = self.skips_nan
        start = constant(register_type(spec.accumulator), _WORST[spec.op]) if is_quick else self.neutral(1)
        combine = self.better if is_quick else self.combine
        rows = (self.partial(fn.offset(source, row * pitch), start, combine) for row in order_of_rows(count))
        totals = folded_together(fn, rows, count, combine)
        everything = Stretch(start=constant("i64", 0), vectors=1, last_lanes=0)
        if not is_quick:
            self.finish(totals, target, 1, None, everything)
            return
        again, known, join = (fn.fresh_label(stem) for stem in ("again", "known", "reduced"))
        is_worst = fn.compare("oeq", totals, fn.splat(start, count))
        fn.branch_if(fn.intrinsic("llvm.vector.reduce.or", is_worst), again, known)
        fn.label(again)
        with fn.loop(constant("i64", 0), constant("i64", count)) as loop:
            size = element_bytes(spec.dst)
            self.along(fn.offset(source, _bytes(fn, loop.index, pitch)), fn.offset(target, _bytes(fn, loop.index, size)))
        fn.branch(join)
        fn.label(known)
        self.finish(totals, target, 1, None, everything)
        fn.label(join)

    @property
    def skips_nan(self) -> bool:
        spec = self.spec
        return spec.op in _WORST and not spec.nan_propagate and spec.accumulator.is_float

    def neutral(self, lanes: int) -> Value:
        return identity(self.spec.op, self.spec.accumulator, lanes, self.spec.nan_propagate)

    def total(self, source: Value, start: Value, combine: Callable[[Value, Value], Value]) -> Value:
        """All elements along the axis combined, from ``start`` on."""
        return folded(self.fn, self.partial(source, start, combine), combine)

    def partial(self, source: Value, start: Value, combine: Callable[[Value, Value], Value]) -> Value:
        """All elements along the axis combined into the lanes of a vector, from ``start`` on."""
        fn, spec = self.fn, self.spec
        extent, stride, size = spec.shape[spec.axis], spec.src_strides[spec.axis], element_bytes(spec.src)
        lanes = self.lanes if stride == 1 and extent > 1 else 1
        while lanes > extent:
            lanes //= 2
        full, rest = divmod(extent, _GROUP * lanes)
        partial = [fn.splat(start, lanes)] * _GROUP
        if full <= _UNROLLED:
            for v in range(full * _GROUP):
                partial[v % _GROUP] = combine(partial[v % _GROUP], self.load(fn.offset(source, v * lanes * stride * size), lanes, None))
        else:
            with fn.loop(constant("i64", 0), constant("i64", full)) as loop:
                carried = [loop.carry(p) for p in partial]
                first = fn.offset(source, _bytes(fn, loop.index, _GROUP * lanes * stride * size))
                for v in range(_GROUP):
                    loop.update(carried[v], combine(carried[v], self.load(fn.offset(first, v * lanes * stride * size), lanes, None)))
            partial = [loop.final(c) for c in carried]
        done = full * _GROUP * lanes
        for v in range(-(-rest // lanes)):
            left = min(lanes, rest - v * lanes)
            mask = None if left == lanes else lane_mask(lanes, left)
            partial[v] = combine(partial[v], self.load(fn.offset(source, (done + v * lanes) * stride * size), lanes, mask))
        used = partial if full else partial[: -(-rest // lanes)]
        while len(used) > 1:
            half = (len(used) + 1) // 2
            used = [combine(a, b) for a, b in zip(used, used[half:])] + used[len(used) - half : half]
        return used[0]

    def better(self, left: Value, right: Value) -> Value:
        """The larger or smaller of both; ``left``, which is no NaN, where ``right`` is one."""
        fn = self.fn
        return fn.select(fn.compare("olt" if self.spec.op == "min" else "ogt", right, left), right, left)

    def load(self, address: Value, lanes: int, mask: Value | None) -> Value:
        """Elements as they are combined; the identity where the mask does not hold."""
        fn, spec = self.fn, self.spec
        read = reduction_dtype(spec.src, spec.dst) if spec.accumulator.is_bool and not spec.src.is_bool else spec.accumulator
        value = load_lanes(fn, address, spec.src, read, lanes, mask)
        if spec.op in ("absmax", "abssum"):
            value = absolute(fn, value, read)
        if spec.accumulator.is_bool:
            value = cast(fn, value, read, _BOOL)
        if mask is None:
            return value
        return fn.select(mask, value, identity(spec.op, spec.accumulator, lanes, spec.nan_propagate))

    def old(self, address: Value, lanes: int, mask: Value | None) -> Value:
        """What dst holds."""
        return load_lanes(self.fn, address, self.spec.dst, self.spec.accumulator, lanes, mask)

    def combine(self, left: Value, right: Value) -> Value:
        return combined(self.fn, self.spec.op, left, right, self.spec.accumulator, self.spec.nan_propagate)


def folded(fn: Function, vector: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """All lanes combined, halves onto halves."""
    while vector.lanes > 2:
        half = vector.lanes // 2
        vector = combine(fn.shuffle(vector, None, range(half)), fn.shuffle(vector, None, range(half, 2 * half)))
    return vector if vector.lanes == 1 else combine(fn.extract(vector, 0), fn.extract(vector, 1))


def folded_together(fn: Function, vectors: Iterator[Value], count: int, combine: Callable[[Value, Value], Value]) -> Value:
    """As many vectors as each has lanes, ``count``, folded like :func:`folded`: lane i is vector i, which come in :func:`order_of_rows`.

    Two vectors become one of halves combined, two of these one of quarters, and so on; each is taken when it is needed, so that few are
    at hand at a time.
    """
    waiting: list[tuple[int, Value]] = []
    for vector in vectors:
        segment = count
        while waiting and waiting[-1][0] == segment:
            left = waiting.pop()[1]
            low, high = _halves(count, segment)
            vector = combine(fn.shuffle(left, vector, low), fn.shuffle(left, vector, high))
            segment //= 2
        waiting.append((segment, vector))
    return waiting[0][1]


_NEAR: Final = 4
"""Lanes within which processors move values between two vectors in one step; wider halves move as a whole."""


def _halves(count: int, segment: int) -> tuple[list[int], list[int]]:
    """The lanes of two vectors of ``count`` lanes that are lower halves of their segments, and those that are upper halves. Segments of
    both take turns, in stretches of ``_NEAR`` lanes, so that lanes stay near where they were."""
    half = segment // 2
    stretch = max(segment, min(_NEAR, count))
    within = [t + i for t in range(0, stretch, segment) for i in range(half)]
    low = [v * count + s + i for s in range(0, count, stretch) for v in (0, 1) for i in within]
    return low, [lane + half for lane in low]


@cache
def order_of_rows(count: int) -> tuple[int, ...]:
    """The order in which :func:`folded_together` takes ``count`` vectors so that lane i of its result is vector i."""
    places: list[tuple[int, list[int]]] = []
    for number in range(count):
        segment, lanes = count, [number] * count
        while places and places[-1][0] == segment:
            both = places.pop()[1] + lanes
            lanes = [both[lane] for lane in _halves(count, segment)[0]]
            segment //= 2
        places.append((segment, lanes))
    found = places[0][1]  # lane i holds the vector that came as number found[i]
    return tuple(found.index(number) for number in range(count))


def _bytes(fn: Function, index: Value, each: int) -> Value:
    return fn.binary("mul", index, constant("i64", each)) if not index.is_constant else constant("i64", int(index.name) * each)


def _masks(stretch: Stretch, lanes: int) -> Sequence[Value | None]:
    """One entry a vector of the stretch."""
    last = lane_mask(lanes, stretch.last_lanes) if stretch.last_lanes else None
    return [None] * (stretch.vectors - 1) + [last]


def stored(fn: Function, total: Value, accumulator: DType, target: DType) -> Value:
    """An accumulated value as a tile of ``target`` holds it in memory."""
    if accumulator.bits == 4:  # summed in the 8 bits of its register
        accumulator = dtype("int8" if accumulator.is_signed else "uint8")
    value = cast(fn, total, accumulator, target)
    return fn.convert("zext", value, memory_type(target)) if target.is_bool else value


def absolute(fn: Function, value: Value, t: DType) -> Value:
    """The size of a number of ``t``; of an unsigned one itself."""
    if t.is_float:
        return fn.intrinsic("llvm.fabs", value)
    return fn.intrinsic("llvm.abs", value, FALSE) if t.kind == "int" else value


def identity(op: str, t: DType, lanes: int, nan_propagate: bool = False) -> Value:
    """What changes nothing; NaN for the max and min that skip it, so that a NaN is the result where nothing else was."""
    kind = register_type(t)
    bits = 8 if t.bits == 4 else t.bits
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if t.is_signed else (0, (1 << bits) - 1)
    number: bool | int | float
    match op:
        case "sum" | "abssum":
            number = -0.0 if t.is_float else 0  # minus zero plus x is x, also for minus zero
        case "prod" | "all":
            number = 1
        case "max" | "absmax":
            number = (float("-inf") if nan_propagate else float("nan")) if t.is_float else low
        case "min":
            number = (float("inf") if nan_propagate else float("nan")) if t.is_float else high
        case "bitand":
            number = True if t.is_bool else -1
        case "bitor" | "bitxor" | "any":
            number = 0
        case _:
            raise InternalError(f"{op} is no reduction")
    return constant(kind, number, lanes)


def combined(fn: Function, op: str, left: Value, right: Value, t: DType, nan_propagate: bool = False) -> Value:
    """One step of a reduction in the register type of ``t``. A sum of bools is their or, a product their and, as in NumPy."""
    is_float = t.is_float
    match op:
        case "sum" | "abssum":
            return fn.binary("or" if t.is_bool else "fadd" if is_float else "add", left, right)
        case "prod":
            return fn.binary("and" if t.is_bool else "fmul" if is_float else "mul", left, right)
        case "max" | "absmax" | "min":
            name = "min" if op == "min" else "max"
            if t.is_bool:
                return fn.binary("or" if name == "max" else "and", left, right)
            if is_float:
                return fn.intrinsic(f"llvm.{name}imum" if nan_propagate else f"llvm.{name}num", left, right)
            return fn.intrinsic(f"llvm.{'s' if t.is_signed else 'u'}{name}", left, right)
        case "bitand" | "all":
            return fn.binary("and", left, right)
        case "bitor" | "any":
            return fn.binary("or", left, right)
        case "bitxor":
            return fn.binary("xor", left, right)
        case _:
            raise InternalError(f"{op} is no reduction")
