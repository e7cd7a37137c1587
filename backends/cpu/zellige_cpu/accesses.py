"""Loads and stores of single elements, one point or several adjacent points at once, never outside a buffer.

In: a buffer and index expressions. Out: a register of the buffer's dtype, or a store.

An index that is not proven to lie inside is tested; a load that fails the test gives the safe value and touches nothing, a store that
fails it does nothing. With lanes the same address for all lanes is one scalar load, adjacent addresses are one vector load, anything
else is a gather.
"""

from __future__ import annotations

from zellige.analysis.forms import ZERO, Form
from zellige.ir.expr import Buffer, Expr
from zellige.records import dataclass
from zellige_cpu.arithmetic import number
from zellige_cpu.context import Context, Storage
from zellige_cpu.indexes import Index, any_lane, conjunction, iota, is_nonnegative, pointer, separate, spread
from zellige_cpu.leaf import convert
from zellige_cpu.packed import load_packed, store_packed
from zellige_cpu.types import FLOAT32, memory_type
from zellige_cpu.values import Value, constant, zero


@dataclass(frozen=True, slots=True)
class Address:
    """Where an element lies: the pointer of lane 0, the distance in bytes to the next lane's, and bytes a lane beyond that."""

    pointer: Value
    stride: int | Value
    vector: Value | None

    @property
    def is_uniform(self) -> bool:
        return self.vector is None and self.stride == 0

    def is_adjacent(self, element_bytes: int) -> bool:
        return self.vector is None and self.stride == element_bytes


def unproven(ctx: Context, storage: Storage, forms: tuple[Form, ...]) -> tuple[list[Form], bool]:
    """The forms that must be tested to be at least 0 for the element to exist, and whether proofs leaned on the mask."""
    tests: list[Form] = []
    is_masked = False
    for form, extent in zip(forms, storage.shape):
        for needed in (form, extent - form - 1):
            if needed in ctx.granted or ctx.scope.is_nonnegative(needed, unmasked_only=True):
                continue
            if ctx.mask is not None and ctx.scope.is_nonnegative(needed):
                is_masked = True
                continue
            tests.append(needed)
    return tests, is_masked


@dataclass(frozen=True, slots=True)
class Guard:
    """Which points may touch their element: those whose element ``exists`` (None: all) and, where it counts, those of the ``mask``."""

    exists: Value | None
    mask: Value | None

    def both(self, ctx: Context) -> Value | None:
        return conjunction(ctx, self.exists, self.mask)


def inside(ctx: Context, storage: Storage, indices: tuple[Expr, ...], *, is_store: bool) -> tuple[tuple[Form, ...], Guard]:
    """The index forms, and what guards the access."""
    forms = tuple(ctx.scope.place(i) for i in indices)
    tests, needs_mask = unproven(ctx, storage, forms)
    exists = conjunction(ctx, *[is_nonnegative(ctx, test) for test in tests])
    return forms, Guard(exists, ctx.mask if is_store or needs_mask or ctx.has_idle_lanes else None)


def element_offset(storage: Storage, forms: tuple[Form, ...]) -> Form:
    """The distance from the first element, in elements (nibbles where packed)."""
    total = ZERO
    for form, stride in zip(forms, storage.strides):
        total = total + form * stride
    return total


def address(ctx: Context, storage: Storage, forms: tuple[Form, ...]) -> Address:
    """The address of an element that need not exist: nothing is read here."""
    shared, stride, vector = separate(ctx, element_offset(storage, forms).scaled(storage.element_bytes * storage.lanes))
    if storage.lanes > 1:
        base = pointer(ctx, storage.pointer, storage.level, shared)
        if stride == 0 and vector is None:
            return Address(base, storage.element_bytes, None)
        distance = spread(ctx, Index(constant("i64", 0), stride, vector))
        return Address(base, 0, ctx.fn.binary("add", distance, iota("i64", storage.lanes, storage.element_bytes)))
    return Address(pointer(ctx, storage.pointer, storage.level, shared), stride, vector)


def lane_pointers(ctx: Context, place: Address) -> Value:
    """One pointer a lane."""
    return ctx.fn.offset(place.pointer, spread(ctx, Index(constant("i64", 0), place.stride, place.vector)))


# -- loads ---------------------------------------------------------------------------------------------------------------


def load(ctx: Context, buffer: Buffer, indices: tuple[Expr, ...]) -> Value:
    """The element as a register, the safe value where it does not exist."""
    storage = ctx.storage(buffer)
    forms, guard = inside(ctx, storage, indices, is_store=False)
    safe = safe_value(ctx, storage)
    predicate = guard.both(ctx)
    if storage.is_packed:
        found = load_packed(ctx, storage, element_offset(storage, forms), predicate, safe)
    else:
        memory = memory_type(storage.dtype)
        raw = load_raw(ctx, address(ctx, storage, forms), memory, storage.element_bytes, predicate, _as_memory(ctx, safe, memory))
        found = as_register(ctx, storage, raw)
    if found.lanes == 1 and guard.exists is not None and guard.exists.lanes > 1:
        # one address for all lanes, though the indices are inside for some only: different indices, the same sum
        lanes = guard.exists.lanes
        return ctx.fn.select(guard.exists, ctx.fn.splat(found, lanes), ctx.fn.splat(safe, lanes))
    return found


def safe_value(ctx: Context, storage: Storage) -> Value:
    """What elements outside the buffer read as, in a register."""
    if storage.safe_value is None:
        return number(storage.dtype, 0)
    return ctx.evaluate(ctx, storage.safe_value)


def as_register(ctx: Context, storage: Storage, raw: Value) -> Value:
    """A memory element as a register: a bool is any byte but 0, a caller's tfloat32 may have digits that the type has not."""
    if storage.dtype.name == "tfloat32" and storage.is_global:
        return convert.cast(ctx.fn, raw, FLOAT32, storage.dtype)
    if not storage.dtype.is_bool:
        return raw
    return ctx.fn.compare("ne", raw, zero("i8", raw.lanes))


def _as_memory(ctx: Context, value: Value, memory: str) -> Value:
    return ctx.fn.convert("zext", value, memory) if value.element == "i1" else value


def load_raw(ctx: Context, place: Address, element: str, element_bytes: int, predicate: Value | None, otherwise: Value) -> Value:
    """Elements of memory where the predicate holds, ``otherwise`` (a scalar) elsewhere."""
    fn = ctx.fn
    if ctx.lanes is None or place.is_uniform:
        if predicate is None:
            return fn.load(place.pointer, element, align=element_bytes)
        condition = any_lane(ctx, predicate)
        # a harmless address instead of a branch: expressions stay straight-line code
        harmless = fn.module.table("i64", [0, 0])
        found = fn.load(fn.select(condition, place.pointer, harmless), element, align=element_bytes)
        return found if otherwise.name in ("0", "0x0000000000000000") else fn.select(condition, found, otherwise)
    count = ctx.lanes.count
    if place.is_adjacent(element_bytes):
        if predicate is None:
            return fn.load(place.pointer, element, count, align=element_bytes)
        return fn.masked_load(place.pointer, fn.splat(predicate, count), fn.splat(otherwise, count), align=element_bytes)
    mask = fn.splat(predicate, count) if predicate is not None else constant("i1", True, count)
    align = constant("i32", element_bytes)
    return fn.intrinsic("llvm.masked.gather", lane_pointers(ctx, place), align, mask, fn.splat(otherwise, count))


# -- stores --------------------------------------------------------------------------------------------------------------


def store(ctx: Context, buffer: Buffer, indices: tuple[Expr, ...], value: Value) -> None:
    """Store a register of the buffer's dtype where the element exists and the mask holds."""
    storage = ctx.storage(buffer)
    forms, guard = inside(ctx, storage, indices, is_store=True)
    predicate = guard.both(ctx)
    if storage.is_packed:
        store_packed(ctx, storage, element_offset(storage, forms), predicate, value)
        return
    raw = ctx.fn.convert("zext", value, "i8") if storage.dtype.is_bool else value
    place = address(ctx, storage, forms)
    if buffer in ctx.streaming and predicate is None and ctx.lanes is not None and place.is_adjacent(storage.element_bytes):
        width = ctx.host.vector_bytes
        if ctx.lanes.count * storage.element_bytes % width == 0:
            ctx.memory.streams = True
            ctx.fn.store(ctx.fn.splat(raw, ctx.lanes.count), place.pointer, align=width, streams=True)
            return
    store_raw(ctx, place, storage.element_bytes, predicate, raw)


def store_raw(ctx: Context, place: Address, element_bytes: int, predicate: Value | None, raw: Value) -> None:
    """Elements to memory where the predicate holds; where lanes share an address, the last of them counts."""
    fn = ctx.fn
    if ctx.lanes is None or (place.is_uniform and raw.lanes == 1):
        condition = None if predicate is None else any_lane(ctx, predicate)
        if condition is None:
            fn.store(raw, place.pointer, align=element_bytes)
            return
        with fn.when(condition):
            fn.store(raw, place.pointer, align=element_bytes)
        return
    count = ctx.lanes.count
    wide = fn.splat(raw, count)
    if place.is_uniform:
        _store_last(ctx, place, element_bytes, predicate, wide)
        return
    if place.is_adjacent(element_bytes):
        if predicate is None:
            fn.store(wide, place.pointer, align=element_bytes)
        else:
            fn.masked_store(wide, place.pointer, fn.splat(predicate, count), align=element_bytes)
        return
    mask = fn.splat(predicate, count) if predicate is not None else constant("i1", True, count)
    fn.intrinsic("llvm.masked.scatter", wide, lane_pointers(ctx, place), constant("i32", element_bytes), mask)


def _store_last(ctx: Context, place: Address, element_bytes: int, predicate: Value | None, wide: Value) -> None:
    fn = ctx.fn
    if predicate is None or predicate.lanes == 1:
        last = fn.extract(wide, wide.lanes - 1)
        with fn.when(predicate or constant("i1", True)):
            fn.store(last, place.pointer, align=element_bytes)
        return
    numbered = fn.select(predicate, iota("i32", wide.lanes), constant("i32", -1, wide.lanes))
    highest = fn.intrinsic("llvm.vector.reduce.smax", numbered)
    with fn.when(fn.compare("sge", highest, constant("i32", 0))):
        fn.store(fn.extract(wide, highest), place.pointer, align=element_bytes)


def base_pointer(ctx: Context, storage: Storage, forms: tuple[Form, ...]) -> Value:
    """The address of one element that all lanes share, for a leaf function that takes a whole tile."""
    return pointer(ctx, storage.pointer, storage.level, element_offset(storage, forms).scaled(storage.element_bytes))

