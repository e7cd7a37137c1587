"""Elements that several points or blocks change: atomic operations and updates of reducers.

In: the statement. Out: one indivisible update a point, or for a reducer (which belongs to one block, so to one thread) a plain one.
With lanes, points that meet in one element must each have their effect: an atomic is done lane by lane, an update of an
element that all lanes share combines the lanes first.
"""

from __future__ import annotations

from typing import Final

from zellige.diagnostics import InternalError
from zellige.dtypes import DType
from zellige.ir.expr import BinaryOp
from zellige.ir.reductions import identity
from zellige.ir.stmt import Atomic, AtomicOp, MemoryOrder, ReduceOp, ReducerUpdate
from zellige_cpu import arithmetic
from zellige_cpu.accesses import Address, address, as_register, inside, lane_pointers, load_raw, store_raw
from zellige_cpu.context import Context, Storage
from zellige_cpu.expressions import evaluate
from zellige_cpu.indexes import any_lane, each_lane
from zellige_cpu.types import ELEMENT_BITS, memory_type, register_type, vector_type
from zellige_cpu.values import Value, constant, zero

_ORDERS: Final[dict[MemoryOrder, str]] = {
    "relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel", "seq_cst": "seq_cst",
}  # fmt: skip
_LOAD_ORDERS: Final = {"monotonic": "monotonic", "acquire": "acquire", "release": "monotonic", "acq_rel": "acquire", "seq_cst": "seq_cst"}
_STORE_ORDERS: Final = {"monotonic": "monotonic", "acquire": "monotonic", "release": "release", "acq_rel": "release", "seq_cst": "seq_cst"}

_BINARY: Final[dict[AtomicOp, BinaryOp]] = {
    "add": "add", "sub": "sub", "max": "max", "min": "min", "and": "bitand", "or": "bitor", "xor": "bitxor",
}  # fmt: skip

_REDUCE: Final[dict[ReduceOp, BinaryOp]] = {
    "sum": "add", "abssum": "add", "prod": "mul", "max": "max", "absmax": "max", "min": "min",
    "bitand": "bitand", "bitor": "bitor", "bitxor": "bitxor", "any": "max", "all": "min",
}  # fmt: skip


# -- atomics -------------------------------------------------------------------------------------------------------------


def emit_atomic(ctx: Context, statement: Atomic) -> None:
    """Emits an atomic operation on one element, for each lane that is in bounds and active."""
    storage = ctx.storage(statement.buffer)
    value = None if statement.value is None else evaluate(ctx, statement.value)
    forms, guard = inside(ctx, storage, statement.indices, is_store=True)
    predicate = guard.both(ctx)
    place = address(ctx, storage, forms)
    if ctx.lanes is None:
        result = _one(ctx, statement, storage, place.pointer, value, predicate)
    else:
        result = _each_lane(ctx, statement, storage, place, value, predicate)
    if statement.result is not None:
        ctx.give(ctx, statement.result, result)


def _one(ctx: Context, statement: Atomic, storage: Storage, pointer: Value, value: Value | None, predicate: Value | None) -> Value:
    """The operation on one element where the predicate holds; the element before, 0 elsewhere."""
    if predicate is None:
        return _update(ctx, statement, storage, pointer, value)
    fn = ctx.fn
    before = fn.alloca(register_type(storage.dtype))
    fn.store(zero(register_type(storage.dtype)), before, align=64)
    with fn.when(any_lane(ctx, predicate)):
        fn.store(_update(ctx, statement, storage, pointer, value), before, align=64)
    return fn.load(before, register_type(storage.dtype), align=64)


def _each_lane(ctx: Context, statement: Atomic, storage: Storage, place: Address, value: Value | None, predicate: Value | None) -> Value:
    fn = ctx.fn
    assert ctx.lanes is not None
    count = ctx.lanes.count
    kind = register_type(storage.dtype)
    pointers = fn.splat(place.pointer, count) if place.is_uniform else lane_pointers(ctx, place)
    values = None if value is None else fn.splat(value, count)
    mask = None if predicate is None else fn.splat(predicate, count)
    results = fn.alloca(vector_type(kind, count)) if statement.result is not None else None
    if results is not None:
        fn.store(zero(kind, count), results, align=64)
    with each_lane(ctx, count, mask) as lane:
        one = None if values is None else fn.extract(values, lane)
        before = _update(ctx, statement, storage, fn.extract(pointers, lane), one)
        if results is not None:
            whole = fn.load(results, kind, count, align=64)
            fn.store(fn.insert(whole, before, lane), results, align=64)
    return zero(kind, count) if results is None else fn.load(results, kind, count, align=64)


def _update(ctx: Context, statement: Atomic, storage: Storage, pointer: Value, value: Value | None) -> Value:
    """The operation on the element at ``pointer``; the element before it."""
    fn, dtype = ctx.fn, storage.dtype
    order = _ORDERS[statement.order]
    memory = memory_type(dtype)
    bits = f"i{ELEMENT_BITS[memory]}"
    size = storage.element_bytes
    if statement.op == "load":
        return _from_bits(ctx, storage, fn.atomic_load(pointer, bits, _LOAD_ORDERS[order], align=size))
    if value is None:
        raise InternalError(f"atomic {statement.op} without a value")
    raw = _to_bits(ctx, dtype, value, bits)
    if statement.op == "store":
        fn.atomic_store(raw, pointer, _STORE_ORDERS[order], align=size)
        return zero(register_type(dtype))
    if statement.op == "exchange":
        return _from_bits(ctx, storage, fn.atomic_update("xchg", pointer, raw, order, align=size))
    word = _word(statement.op, dtype)
    if word is not None:
        operand = value if memory in ("float", "double") else raw
        return as_register(ctx, storage, fn.atomic_update(word, pointer, operand, order, align=size))
    return _swap_loop(ctx, statement.op, storage, pointer, value, order)


def _word(op: AtomicOp, dtype: DType) -> str | None:
    """The instruction that does ``op`` by itself, None where a loop must."""
    if dtype.is_float:
        return {"add": "fadd", "sub": "fsub"}.get(op) if dtype.name in ("float32", "float64") else None
    if dtype.is_bool:
        return {"and": "and", "or": "or", "xor": "xor"}.get(op)
    if op in ("max", "min"):
        return op if dtype.is_signed else f"u{op}"
    return op


def _swap_loop(ctx: Context, op: AtomicOp, storage: Storage, pointer: Value, value: Value, order: str) -> Value:
    """Read, compute, replace if unchanged, else again."""
    fn, dtype = ctx.fn, storage.dtype
    bits, size = f"i{ELEMENT_BITS[memory_type(dtype)]}", storage.element_bytes
    first = fn.atomic_load(pointer, bits, "monotonic", align=size)
    before, again, done = fn.fresh_label("swap"), fn.fresh_label("again"), fn.fresh_label("done")
    fn.label(before)
    entry = fn.fresh_label("try")
    fn.label(entry)
    slot = fn.fresh()
    # the phi names a value that is made below, so its text is written by hand
    found = fn.emit(f"phi {bits} [ {first.name}, %{before} ], [ {slot}, %{again} ]", bits)
    changed = arithmetic.binary(fn, _BINARY[op], _from_bits(ctx, storage, found), value, dtype)
    failure = "monotonic" if order in ("monotonic", "release") else "acquire" if order != "seq_cst" else "seq_cst"
    seen, is_done = fn.compare_exchange(pointer, found, _to_bits(ctx, dtype, changed, bits), order, failure, align=size)
    fn.label(again)
    fn.line(f"{slot} = add {bits} {seen.name}, 0")
    fn.branch_if(is_done, done, entry)
    fn.label(done)
    return _from_bits(ctx, storage, found)


def _to_bits(ctx: Context, dtype: DType, value: Value, bits: str) -> Value:
    return ctx.fn.convert("zext", value, "i8") if dtype.is_bool else ctx.fn.bitcast(value, bits)


def _from_bits(ctx: Context, storage: Storage, raw: Value) -> Value:
    return as_register(ctx, storage, raw if storage.dtype.is_bool else ctx.fn.bitcast(raw, register_type(storage.dtype)))


# -- reducers ------------------------------------------------------------------------------------------------------------


def combine(ctx: Context, op: ReduceOp, left: Value, right: Value, dtype: DType) -> Value:
    """``left op right`` of values whose magnitude was taken where the operator asks for it."""
    return arithmetic.binary(ctx.fn, _REDUCE[op], left, right, dtype, flags=ctx.float_flags)


def operand(ctx: Context, op: ReduceOp, value: Value, dtype: DType) -> Value:
    """What a value contributes: its magnitude, whether it differs from 0, or itself."""
    if op in ("absmax", "abssum"):
        return arithmetic.absolute(ctx.fn, value, dtype)
    if op in ("any", "all") and not dtype.is_bool:
        differs = arithmetic.compare(ctx.fn, "ne", value, arithmetic.number(dtype, 0, value.lanes), dtype)
        ones = arithmetic.number(dtype, 1, value.lanes)
        return ctx.fn.select(differs, ones, arithmetic.number(dtype, 0, value.lanes))
    return value


def emit_update(ctx: Context, statement: ReducerUpdate) -> None:
    """Emits one update of a reducer's element."""
    fn = ctx.fn
    storage = ctx.storage(statement.buffer)
    dtype, op = storage.dtype, statement.op
    value = operand(ctx, op, evaluate(ctx, statement.value), dtype)
    forms, guard = inside(ctx, storage, statement.indices, is_store=True)
    predicate = guard.both(ctx)
    place = address(ctx, storage, forms)
    if ctx.lanes is None or place.is_adjacent(storage.element_bytes):
        _update_plain(ctx, storage, op, place, value, predicate)
        return
    count = ctx.lanes.count
    values = fn.splat(value, count)
    if place.is_uniform:
        neutral = arithmetic.number(dtype, identity(op, dtype), count)
        held = values if predicate is None else fn.select(fn.splat(predicate, count), values, neutral)
        total = halved(ctx, op, held, dtype)
        with fn.when(constant("i1", True) if predicate is None else any_lane(ctx, predicate)):
            _read_change_write(ctx, storage, op, place.pointer, total)
        return
    pointers = lane_pointers(ctx, place)
    mask = None if predicate is None else fn.splat(predicate, count)
    with each_lane(ctx, count, mask) as lane:
        _read_change_write(ctx, storage, op, fn.extract(pointers, lane), fn.extract(values, lane))


def halved(ctx: Context, op: ReduceOp, value: Value, dtype: DType) -> Value:
    """All lanes combined into one, by halves: a fixed order, the same on every machine of this vector width."""
    fn = ctx.fn
    while value.lanes > 1:
        half = value.lanes // 2
        low = fn.shuffle(value, None, list(range(half)))
        high = fn.shuffle(value, None, list(range(half, 2 * half)))
        if half == 1:
            low, high = fn.extract(value, 0), fn.extract(value, 1)
        value = combine(ctx, op, low, high, dtype)
    return value


def _update_plain(ctx: Context, storage: Storage, op: ReduceOp, place: Address, value: Value, predicate: Value | None) -> None:
    memory = memory_type(storage.dtype)
    raw = load_raw(ctx, place, memory, storage.element_bytes, predicate, zero(memory))
    changed = combine(ctx, op, as_register(ctx, storage, raw), value, storage.dtype)
    store_raw(ctx, place, storage.element_bytes, predicate, _as_memory(ctx, storage, changed))


def _read_change_write(ctx: Context, storage: Storage, op: ReduceOp, pointer: Value, value: Value) -> None:
    fn = ctx.fn
    before = as_register(ctx, storage, fn.load(pointer, memory_type(storage.dtype), align=storage.element_bytes))
    changed = combine(ctx, op, before, value, storage.dtype)
    fn.store(_as_memory(ctx, storage, changed), pointer, align=storage.element_bytes)


def _as_memory(ctx: Context, storage: Storage, value: Value) -> Value:
    return ctx.fn.convert("zext", value, "i8") if storage.dtype.is_bool else value
