"""Elements of four bits in memory that holds two to a byte, the low nibble first.

In: an offset in nibbles. Out: registers of the dtype (int4 sign-extended to a byte, the others zero-extended), or stores.

A store changes half a byte whose other half may belong to another point or another thread, so in memory that blocks share it is done by
atomic bit operations. Adjacent lanes that begin at an even offset move whole bytes.
"""

from __future__ import annotations

from zellige.analysis.forms import Form
from zellige.dtypes import DType
from zellige_cpu.context import Context, Storage
from zellige_cpu.indexes import any_lane, each_lane, index, separate, spread, uniform
from zellige_cpu.values import Value, constant


def extended(ctx: Context, nibble: Value, dtype: DType) -> Value:
    """A byte whose low half is the element as the register of ``dtype``: sign-extended for int4, zero-extended else."""
    fn = ctx.fn
    if dtype.kind == "int":
        four = constant("i8", 4, nibble.lanes)
        return fn.binary("ashr", fn.binary("shl", nibble, four), four)
    return fn.binary("and", nibble, constant("i8", 15, nibble.lanes))


def _is_whole_bytes(ctx: Context, offset: Form) -> bool:
    """Whether the lanes are adjacent nibbles that begin a byte. Lane 0 of the axis is a multiple of the (even) lane count."""
    if ctx.lanes is None or ctx.lanes.count < 4 or ctx.lanes.count % 2 or offset.offset % 2:
        return False
    _, stride, vector = separate(ctx, offset)
    axis = ctx.lanes.axis
    return vector is None and stride == 1 and all(c % 2 == 0 or axis in m for m, c in offset.terms.items() if m)


def _bytes(ctx: Context, storage: Storage, offset: Form) -> tuple[Value, Value]:
    """Pointer(s) to the byte and the shift (0 or 4, an i8) of the nibble in it."""
    fn = ctx.fn
    place = spread(ctx, index(ctx, offset))
    distance = fn.binary("ashr", place, constant("i64", 1, place.lanes))
    odd = fn.convert("trunc", fn.binary("and", place, constant("i64", 1, place.lanes)), "i8")
    return fn.offset(storage.pointer, distance), fn.binary("shl", odd, constant("i8", 2, place.lanes))


def load_packed(ctx: Context, storage: Storage, offset: Form, predicate: Value | None, safe: Value) -> Value:
    """Elements at ``offset`` where the predicate holds, ``safe`` elsewhere."""
    fn = ctx.fn
    if predicate is None and _is_whole_bytes(ctx, offset):
        return _load_bytes(ctx, storage, offset)
    address, shift = _bytes(ctx, storage, offset)
    if address.lanes == 1:
        condition = None if predicate is None else any_lane(ctx, predicate)
        if condition is not None:
            address = fn.select(condition, address, fn.module.table("i64", [0, 0]))
        byte = fn.load(address, "i8", align=1)
        found = extended(ctx, fn.binary("lshr", byte, shift), storage.dtype)
        return found if condition is None else fn.select(condition, found, safe)
    count = address.lanes
    mask = constant("i1", True, count) if predicate is None else fn.splat(predicate, count)
    byte = fn.intrinsic("llvm.masked.gather", address, constant("i32", 1), mask, constant("i8", 0, count))
    found = extended(ctx, fn.binary("lshr", byte, shift), storage.dtype)
    return found if predicate is None else fn.select(mask, found, fn.splat(safe, count))


def _load_bytes(ctx: Context, storage: Storage, offset: Form) -> Value:
    fn = ctx.fn
    assert ctx.lanes is not None
    count = ctx.lanes.count
    shared, _, _ = separate(ctx, offset)
    byte = fn.load(_byte_pointer(ctx, storage, shared), "i8", count // 2, align=1)
    high = fn.binary("lshr", byte, constant("i8", 4, count // 2))
    woven = fn.shuffle(byte, high, [lane // 2 + (count // 2 if lane % 2 else 0) for lane in range(count)])
    return extended(ctx, woven, storage.dtype)


def _byte_pointer(ctx: Context, storage: Storage, shared: Form) -> Value:
    # every coefficient is even, or belongs to the axis, whose lane 0 is even: halve the sum
    return ctx.fn.offset(storage.pointer, ctx.fn.binary("ashr", uniform(ctx, shared), constant("i64", 1)))


def store_packed(ctx: Context, storage: Storage, offset: Form, predicate: Value | None, value: Value) -> None:
    """Store elements at ``offset`` where the predicate holds."""
    fn = ctx.fn
    if predicate is None and _is_whole_bytes(ctx, offset):
        assert ctx.lanes is not None
        count = ctx.lanes.count
        wide = fn.binary("and", fn.splat(value, count), constant("i8", 15, count))
        low = fn.shuffle(wide, None, list(range(0, count, 2)))
        high = fn.shuffle(wide, None, list(range(1, count, 2)))
        joined = fn.binary("or", low, fn.binary("shl", high, constant("i8", 4, count // 2)))
        shared, _, _ = separate(ctx, offset)
        fn.store(joined, _byte_pointer(ctx, storage, shared), align=1)
        return
    address, shift = _bytes(ctx, storage, offset)
    if ctx.lanes is None or (address.lanes == 1 and value.lanes == 1):
        with fn.when(constant("i1", True) if predicate is None else any_lane(ctx, predicate)):
            _store_nibble(ctx, storage, address, shift, value)
        return
    count = ctx.lanes.count
    address, shift, value = (fn.splat(v, count) for v in (address, shift, value))
    mask = None if predicate is None else fn.splat(predicate, count)
    with each_lane(ctx, count, mask) as lane:
        _store_nibble(ctx, storage, *(fn.extract(v, lane) for v in (address, shift, value)))


def _store_nibble(ctx: Context, storage: Storage, address: Value, shift: Value, value: Value) -> None:
    fn = ctx.fn
    nibble = fn.binary("shl", fn.binary("and", value, constant("i8", 15)), shift)
    keep = fn.binary("xor", fn.binary("shl", constant("i8", 15), shift), constant("i8", -1))
    if storage.is_global:
        fn.atomic_update("and", address, keep, "monotonic", align=1)
        fn.atomic_update("or", address, nibble, "monotonic", align=1)
        return
    kept = fn.binary("and", fn.load(address, "i8", align=1), keep)
    fn.store(fn.binary("or", kept, nibble), address, align=1)

