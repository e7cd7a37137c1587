"""Single elements: values of expressions, stores and atomics, each tested where it may leave its buffer.

In: expressions and element statements of the tile IR, and the context. Out: expressions and statements of a thread-level program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zellige.analysis.forms import Form
from zellige.diagnostics import InternalError, catalogue
from zellige.dtypes import DType, dtype as as_dtype
from zellige.ir.expr import (
    INT32,
    INT64,
    Binary,
    BinaryOp,
    Buffer,
    Cast,
    Compare,
    Const,
    Expr,
    Load,
    Reinterpret,
    Select,
    Unary,
    Var,
    constant_value,
)
from zellige.ir.stmt import Assign, Atomic, AtomicOp, Bind, Store
from zellige.ir.traverse import rebuilt, rewrite
from zellige.records import dataclass
from zellige.simt.context import Context, conjunction
from zellige.simt.distribution import (
    Distribution,
    moved,
    number,
    reach,
)
from zellige.simt.homes import (
    FARTHEST,
    GlobalHome,
    LaneHome,
    RegisterHome,
    SharedHome,
    Swizzle,
    dense_forms,
    dense_strides,
    fits_int32,
    flat_form,
    form_expression,
    swizzled,
)

UINT4 = as_dtype("uint4")
UINT8 = as_dtype("uint8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An element's place: ``memory[index]``, and the conditions under which it exists. ``nibble`` says which part of a byte it is."""

    memory: Buffer
    index: Expr
    conditions: tuple[Expr, ...]
    nibble: Expr | None = None

    @property
    def condition(self) -> Expr | None:
        return conjunction(self.conditions)


def value_of(ctx: Context, expr: Expr) -> Expr:
    """The expression with every element read from where it lives."""

    def visit(node: object) -> object:
        return loaded(ctx, node) if isinstance(node, Load) else node

    return rewrite(expr, visit)


def coordinate(ctx: Context, offset: Expr) -> Expr:
    """Where a box begins in a dimension, an int32. What lies farther from the tensor's begin than any coordinate stays outside of it."""
    value = value_of(ctx, offset)
    if isinstance(value, Cast) and value.dtype == INT64 and value.value.dtype == INT32:
        value = value.value
    if value.dtype == INT32:
        return value
    if value.dtype != INT64:
        value = Cast(value=value, dtype=INT64)
    near = Binary(op="max", left=value, right=Const(value=-FARTHEST, dtype=INT64))
    return Cast(value=Binary(op="min", left=near, right=Const(value=FARTHEST, dtype=INT64)), dtype=INT32)


def zero(dtype: DType) -> Const:
    """The value that elements outside their buffer read as."""
    return Const(value=0.0 if dtype.is_float else False if dtype.is_bool else 0, dtype=dtype)


def loaded(ctx: Context, load: Load) -> Expr:
    """The element that a Load reads (its indices have been lowered), the safe value outside its buffer."""
    if load.buffer.space == "registers":
        return load
    if ctx.point is not None and (found := ctx.point.hoisted.get(load)) is not None:
        return found
    place = place_of(ctx, load.buffer, load.indices)
    value = element_at(place, load.buffer.dtype)
    condition = place.condition
    if condition is None:
        return value
    return Select(condition=condition, then=value, otherwise=ctx.safe_values.get(load.buffer, zero(load.buffer.dtype)))


def element_at(place: Place, dtype: DType) -> Expr:
    """The value at a place that exists."""
    value: Expr = Load(buffer=place.memory, indices=(place.index,))
    if place.nibble is None:
        return value
    shift = Binary(op="mul", left=place.nibble, right=Const(value=dtype.storage_bits, dtype=place.nibble.dtype))
    bits = Binary(op="shr", left=value, right=Cast(value=shift, dtype=UINT8))
    kept = Binary(op="bitand", left=bits, right=Const(value=(1 << dtype.storage_bits) - 1, dtype=UINT8))
    return Reinterpret(value=Cast(value=kept, dtype=UINT4), dtype=dtype)


def place_of(ctx: Context, buffer: Buffer, indices: Sequence[Expr]) -> Place:
    """Where an element lives, and the tests that it needs."""
    home = ctx.homes.get(buffer.root)
    if home is None and buffer.space == "registers":  # lowered before
        return Place(memory=buffer, index=indices[0], conditions=())
    if home is None:
        raise InternalError(f"{buffer.name} has no home")
    if isinstance(home, RegisterHome):
        return Place(
            memory=home.memory, index=register_of(ctx, home, indices), conditions=tuple(_tests(ctx, buffer, home.extents, indices))
        )
    extents: Sequence[Expr | int]
    strides: Sequence[Expr | int]
    swizzle: Swizzle | None = None
    match home:
        case GlobalHome():
            extents, strides = (
                (home.extents, home.strides) if buffer.alias is None else (buffer.shape, dense_forms(ctx.scope, buffer.shape))
            )
        case SharedHome():
            extents, strides, swizzle = home.extents, home.pitch, home.swizzle
        case LaneHome():
            extents, strides = home.extents, dense_strides(home.extents)
    if buffer.alias is not None and not isinstance(home, GlobalHome):
        seen = [int(constant_value(e) or 0) for e in buffer.shape]
        extents, strides = seen, dense_strides(seen)
    conditions = tuple(_tests(ctx, buffer, extents, indices))
    if isinstance(home, SharedHome) and home.slab:
        indices, strides = in_slabs(home, indices)
    form = flat_form(ctx.scope, indices, strides)
    memory = _memory(ctx, home.memory, buffer.dtype, is_global=isinstance(home, GlobalHome))
    if isinstance(home, GlobalHome):
        return _global_place(ctx, memory, form, conditions, buffer.dtype)
    flat = form_expression(form, is_wide=False)
    if swizzle is not None:
        flat = swizzled(ctx.value("at", flat), swizzle)
    slot = ctx.slots.get(buffer.root)
    if isinstance(home, SharedHome) and home.slots > 1 and slot is not None:
        per_slot = home.slot_elements * home.memory.dtype.bytes // max(1, buffer.dtype.bytes)
        flat = Binary(op="add", left=flat, right=Binary(op="mul", left=slot, right=number(per_slot)))
    return Place(memory=memory, index=flat, conditions=conditions)


def in_slabs(home: SharedHome, indices: Sequence[Expr]) -> tuple[tuple[Expr, ...], tuple[int, ...]]:
    """The indices of an element of a tile that is stored in slabs, the last as slab and column of it, and the strides of all."""
    last, slab = indices[-1], Const(value=home.slab, dtype=indices[-1].dtype)
    which, column = Binary(op="truncdiv", left=last, right=slab), Binary(op="truncmod", left=last, right=slab)
    return (*indices[:-1], which, column), (*home.pitch[:-1], home.slab_elements, home.pitch[-1])


def _memory(ctx: Context, memory: Buffer, dtype: DType, *, is_global: bool) -> Buffer:
    return ctx.view(memory, UINT8 if is_global and dtype.storage_bits < 8 else dtype)


def _global_place(ctx: Context, memory: Buffer, form: Form, conditions: tuple[Expr, ...], dtype: DType) -> Place:
    flat = form_expression(form, is_wide=not fits_int32(ctx.scope, form))
    if dtype.storage_bits >= 8:
        return Place(memory=memory, index=flat, conditions=conditions)
    per_byte = Const(value=8 // dtype.storage_bits, dtype=flat.dtype)
    byte = Binary(op="floordiv", left=flat, right=per_byte)
    return Place(memory=memory, index=byte, conditions=conditions, nibble=Binary(op="floormod", left=flat, right=per_byte))


def _tests(ctx: Context, buffer: Buffer, extents: Sequence[Expr | int], indices: Sequence[Expr]) -> list[Expr]:
    """The comparisons, among ``0 <= index < extent`` of each dimension, that are not proven here. Where the address is made of a number
    that is the index only inside of the buffer, either both are proven of it or the index is compared with both ends."""
    found: list[Expr] = []
    for index, extent in zip(indices, extents):
        size = number(extent) if isinstance(extent, int) else extent
        place = ctx.scope.place(index)
        above, below = ctx.scope.is_within(place, ctx.scope.form(size))
        if not (above and below) and place != ctx.scope.form(index):
            above = below = False
        if not above:
            found.append(Compare(op="ge", left=index, right=Const(value=0, dtype=index.dtype)))
        if not below:
            same = (
                size if size.dtype == index.dtype else Const(value=int(size.value), dtype=index.dtype) if isinstance(size, Const) else None
            )
            if same is None:
                wide = index.dtype if index.dtype.name == "uint64" else as_dtype("int64")
                found.append(Compare(op="lt", left=Cast(value=index, dtype=wide), right=Cast(value=size, dtype=wide)))
            else:
                found.append(Compare(op="lt", left=index, right=same))
    return found


# ---- registers ----


def axis_of(index: Expr, axes: Sequence[Var]) -> int | None:
    """Which of the axes an index is, seen through widening casts; None where it is something else."""
    while (
        isinstance(index, Cast) and index.dtype.is_integer and index.value.dtype.is_integer and index.dtype.bits >= index.value.dtype.bits
    ):
        index = index.value
    return next((i for i, axis in enumerate(axes) if axis is index), None)


def pattern_of(indices: Sequence[Expr], extents: Sequence[int], axes: Sequence[Var]) -> tuple[int | None, ...] | None:
    """Which axis each index is, None for a dimension of extent 1 at 0; None where the indices are not all so, or an axis stands twice."""
    found: list[int | None] = []
    for index, extent in zip(indices, extents):
        axis = axis_of(index, axes)
        if axis is None and not (extent == 1 and constant_value(index) == 0):
            return None
        found.append(axis)
    named = [a for a in found if a is not None]
    return tuple(found) if len(set(named)) == len(named) else None


def projected(distribution: Distribution, pattern: Sequence[int | None], extents: Sequence[int]) -> Distribution:
    """The distribution of a buffer whose dimensions are these axes of a Map (None: a dimension of extent 1)."""
    kept = [a for a in pattern if a is not None]
    narrow = distribution.onto(kept)
    places = [d for d, a in enumerate(pattern) if a is not None]
    digits = moved(narrow.digits, places)
    return Distribution(shape=tuple(min(e, reach(digits, d)) for d, e in enumerate(extents)), digits=digits)


def register_of(ctx: Context, home: RegisterHome, indices: Sequence[Expr]) -> Expr:
    """The register of this lane that holds the element at the point at hand."""
    point = ctx.point
    if point is None:
        raise InternalError(f"an element of {home.memory.name} is used outside of a Map")
    pattern = pattern_of(indices, home.extents, point.axes)
    if pattern is None:
        raise InternalError(f"an element of {home.memory.name} that is not the point's own")
    kept = [a for a in pattern if a is not None]
    return point.distribution.register_at(home.distribution, kept, point.register)


# ---- statements ----


def store(ctx: Context, statement: Store) -> None:
    """One element, by the lanes that run this code."""
    indices = tuple(value_of(ctx, i) for i in statement.indices)
    value = value_of(ctx, statement.value)
    place = place_of(ctx, statement.buffer, indices)
    with ctx.when(_acting(ctx, place), statement.span):
        if place.nibble is not None:
            _store_part(ctx, place, statement, value)
            return
        ctx.code.emit(Store(buffer=place.memory, indices=(place.index,), value=value, span=statement.span))


def _store_part(ctx: Context, place: Place, statement: Store, value: Expr) -> None:
    """An element that shares its byte with others, which other lanes may be writing: its bits are cleared, then set, indivisibly."""
    assert place.nibble is not None
    bits = statement.buffer.dtype.storage_bits
    mask = Const(value=(1 << bits) - 1, dtype=UINT8)
    distance = Binary(op="mul", left=place.nibble, right=Const(value=bits, dtype=place.nibble.dtype))
    shift = ctx.value("shift", Cast(value=distance, dtype=UINT8))
    raw = Binary(op="bitand", left=Cast(value=Reinterpret(value=value, dtype=UINT4), dtype=UINT8), right=mask)
    kept = ctx.value("kept", Unary(op="invert", value=Binary(op="shl", left=mask, right=shift)))
    placed = ctx.value("bits", Binary(op="shl", left=raw, right=shift))
    at = ctx.value("byte", place.index)
    for op, operand in (("and", kept), ("or", placed)):
        ctx.code.emit(Atomic(op=op, buffer=place.memory, indices=(at,), value=operand, span=statement.span))  # type: ignore[arg-type]


def atomic(ctx: Context, statement: Atomic) -> None:
    """One indivisible change; outside the buffer nothing happens and the result is 0. Raises E410 for elements that share a byte."""
    indices = tuple(value_of(ctx, i) for i in statement.indices)
    value = None if statement.value is None else value_of(ctx, statement.value)
    place = place_of(ctx, statement.buffer, indices)
    if place.nibble is not None:
        raise catalogue.E410.error(
            statement.span, target=ctx.machine.capabilities.target, operation=f"an atomic operation on {statement.buffer.dtype}"
        )
    result = statement.result
    condition = _acting(ctx, place)
    if place.memory.space == "registers":
        _changed_alone(ctx, statement, place, value)
        return
    changed = Atomic(
        op=statement.op, buffer=place.memory, indices=(place.index,), value=value, order=statement.order, result=result, span=statement.span
    )
    if condition is None:
        ctx.code.emit(changed)
        return
    if result is not None:
        inner = Var(name=ctx.fresh(result.name), dtype=result.dtype, kind="value")
        ctx.code.emit(Bind(var=result, value=zero(result.dtype), span=statement.span))
        with ctx.when(condition, statement.span):
            ctx.code.emit(rebuilt(changed, result=inner), Assign(var=result, value=inner, span=statement.span))
        return
    with ctx.when(condition, statement.span):
        ctx.code.emit(changed)


_COMBINED: Final[dict[AtomicOp, BinaryOp]] = {
    "add": "add", "sub": "sub", "max": "max", "min": "min", "and": "bitand", "or": "bitor", "xor": "bitxor",
}  # fmt: skip


def _changed_alone(ctx: Context, statement: Atomic, place: Place, value: Expr | None) -> None:
    """An atomic operation on an element that only this lane has: read, changed and written, since nobody can come between."""
    span, result, condition = statement.span, statement.result, place.condition
    at = ctx.value("at", place.index)
    element = Load(buffer=place.memory, indices=(at,), span=span)
    if result is not None:
        before: Expr = element if condition is None else Select(condition=condition, then=element, otherwise=zero(result.dtype))
        ctx.code.emit(Bind(var=result, value=before, span=span))
    if value is None:
        return
    op = statement.op
    changed = value if op in ("store", "exchange") else Binary(op=_COMBINED[op], left=element, right=value)
    with ctx.when(condition, span):
        ctx.code.emit(Store(buffer=place.memory, indices=(at,), value=changed, span=span))


def _acting(ctx: Context, place: Place) -> Expr | None:
    """When this lane changes the element: where it exists, and of lanes that hold the same point one for all."""
    if ctx.point is None or ctx.point.owner is None or place.memory.space == "registers":
        return place.condition
    return conjunction((ctx.point.owner, *place.conditions))
