"""Packed operands that several cells use: where they lie, who packs them, and how a worker knows that they are there.

In: the packing of a loop's operand and what its plan says of it. Out: :class:`Shared`, :class:`Own` or :class:`Fresh`, each with the
code that leaves the operand of one step packed and gives its address.

- *Shared* (kept for the launch): what is packed is a function of coordinates of the grid and the step. There is one place for each of
  their values in memory of the whole launch, and a state beside it: 0 nobody has begun, 1 somebody packs it, 2 it is there. Whoever turns
  0 into 1 packs; who finds 1 does other work first and then waits for a bounded time, after which it packs for itself, so that a worker
  whose packer lost its core goes on.
- *Own* (for the worker): it depends on more. A worker keeps places of its own with keys that say what is there.
- *Fresh* (for the cell): one cell uses it, so it is packed anew each time.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Final, TypeAlias

from zellige.diagnostics import InternalError
from zellige.ir.expr import Region, Var
from zellige.plan.nodes import OperandLayout
from zellige.records import dataclass
from zellige_cpu.context import Context
from zellige_cpu.indexes import i64, uniform
from zellige_cpu.leaf.packing import Packing, round_up
from zellige_cpu.text import Function, Module
from zellige_cpu.values import FALSE, TRUE, Value, constant

_OWN_BYTES: Final = 16 << 20
"""The most that a worker keeps of one operand for later cells."""

_RING_BYTES: Final = 2 << 20
"""The most that a worker keeps of the operand of a product that is not merged; what does not fit takes the places of the first steps."""

_RING_STEPS: Final = 256
"""As many steps at most: their keys are cleared at each launch."""

_KEY_BYTES: Final = 16
_STATE_BYTES: Final = 64
"""States that different workers change lie on lines of their own."""

_EMPTY, _BUSY, _READY = (constant("i64", value) for value in (0, 1, 2))

_PATIENCE: Final = 20000
"""Pauses that a worker waits for another one's packing, about a millisecond: some ten times what packing takes."""

Pack: TypeAlias = "Callable[[Value], None]"
"""Emits the packing into the place at an address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What a step needs: the key of the source (its address and the lines that exist), the step's number, and the code that packs."""

    address: Value
    lines: Value
    step: Value
    pack: Pack


@dataclass(frozen=True, slots=True)
class Fresh:
    """A place that each step fills anew."""

    place: Value

    def lacks(self, ctx: Context, need: Need) -> Value:
        """Whether the operand will have to be packed, as far as can be told: it will."""
        return TRUE

    def begin(self, ctx: Context, need: Need) -> None:
        """Packs."""
        need.pack(self.place)

    def end(self, ctx: Context, need: Need) -> Value:
        """The address of the packed operand."""
        return self.place


@dataclass(frozen=True, slots=True)
class Own:
    """Places for ``steps`` steps of k in each way of the worker's cells, and keys that say what is there.

    A key is the address and the number of lines of what was packed. Nothing writes the source in the launch, and keys are forgotten in
    the worker's first call of the launch's function, so equal keys mean equal content.
    """

    size: int
    places: Value
    keys: Value
    way: Value | None
    steps: int

    def _number(self, ctx: Context, step: Value) -> Value:
        fn = ctx.fn
        within = step if self.steps > 1 else i64(0)
        return within if self.way is None else fn.binary("add", within, fn.binary("mul", self.way, i64(self.steps)))

    def _key(self, ctx: Context, number: Value) -> Value:
        return ctx.fn.offset(self.keys, ctx.fn.binary("mul", number, i64(_KEY_BYTES)))

    def lacks(self, ctx: Context, need: Need) -> Value:
        """Whether the key says that the operand is not there."""
        fn, key = ctx.fn, self._key(ctx, self._number(ctx, need.step))
        places = ((key, need.address), (fn.offset(key, 8), need.lines))
        return fn.binary("or", *(fn.compare("ne", fn.load(at, "i64", align=8), value) for at, value in places))

    def begin(self, ctx: Context, need: Need) -> None:
        """Packs unless the key says that it is there."""
        fn = ctx.fn
        with fn.when(self.lacks(ctx, need)):
            number = self._number(ctx, need.step)
            key = self._key(ctx, number)
            fn.store(need.address, key, align=8)
            fn.store(need.lines, fn.offset(key, 8), align=8)
            need.pack(fn.offset(self.places, fn.binary("mul", number, i64(self.size))))

    def end(self, ctx: Context, need: Need) -> Value:
        """The address of the packed operand."""
        return ctx.fn.offset(self.places, ctx.fn.binary("mul", self._number(ctx, need.step), i64(self.size)))


@dataclass(frozen=True, slots=True)
class Shared:
    """Places and states of all workers from ``first`` and ``first_state`` on, numbered by ``digits`` (variables of the grid and their
    extents) and the step; ``spare`` is this worker's own place."""

    size: int
    first: int
    first_state: int
    digits: tuple[tuple[Var, int], ...]
    steps: int
    spare: Value

    def _places(self, ctx: Context, step: Value) -> tuple[Value, Value]:
        """The addresses of the packed operand and of its state."""
        fn = ctx.fn
        assert ctx.shared is not None
        assert ctx.states is not None
        number = i64(0)
        for var, extent in self.digits:
            number = fn.binary("add", fn.binary("mul", number, i64(extent)), uniform(ctx, ctx.scope.form(var)))
        number = fn.binary("add", fn.binary("mul", number, i64(self.steps)), step)
        place = fn.offset(fn.offset(ctx.shared, self.first), fn.binary("mul", number, i64(self.size)))
        return place, fn.offset(fn.offset(ctx.states, self.first_state), fn.binary("mul", number, i64(_STATE_BYTES)))

    def lacks(self, ctx: Context, need: Need) -> Value:
        """Whether nobody has begun to pack the operand; somebody may yet."""
        _, state = self._places(ctx, need.step)
        return ctx.fn.compare("eq", ctx.fn.atomic_load(state, "i64", "monotonic", align=8), _EMPTY)

    def begin(self, ctx: Context, need: Need) -> None:
        """Packs unless somebody has or does."""
        fn = ctx.fn
        place, state = self._places(ctx, need.step)
        with fn.when(fn.call(_claim(ctx.module), state)):
            need.pack(place)
            fn.atomic_store(_READY, state, "release", align=8)

    def end(self, ctx: Context, need: Need) -> Value:
        """The address of the packed operand, once it is there, or of an own one."""
        fn = ctx.fn
        place, state = self._places(ctx, need.step)
        alone, join = fn.fresh_label("alone"), fn.fresh_label("packed")
        is_there = fn.call(_settled(ctx.module), state)
        before = fn.current
        fn.branch_if(is_there, join, alone)
        fn.label(alone)
        need.pack(self.spare)
        end = fn.current
        fn.label(join)
        return fn.phi((place, before), (self.spare, end))


Kept: TypeAlias = Fresh | Own | Shared


def kept(ctx: Context, packing: Packing, layout: OperandLayout, region: Region, steps: int | None) -> Kept:
    """The operand packed from ``region`` over a loop of ``steps`` steps (None: of unknown many), kept as its plan says."""
    size = round_up(packing.target_bytes, 64)
    if layout.kept == "cell":
        return Fresh(ctx.reserve_scratch(size))
    if layout.kept == "worker":
        return _own(ctx, size, region, steps)
    digits = tuple((var, ctx.grid.get(var)) for var in layout.places)
    extents = [extent for _, extent in digits if extent is not None]
    if layout.kept != "launch" or steps is None or len(extents) != len(digits):
        raise InternalError(f"operand {layout.operand} cannot be kept for the {layout.kept or 'product'}")
    count = steps * prod(extents)
    first, first_state = ctx.memory.shared_bytes, ctx.memory.state_bytes
    ctx.memory.shared_bytes += count * size
    ctx.memory.state_bytes += count * _STATE_BYTES
    return Shared(size, first, first_state, tuple(zip(layout.places, extents)), steps, ctx.reserve_scratch(size))


def kept_apart(ctx: Context, packing: Packing, number: Value, count: int | None) -> tuple[Own, Value]:
    """Places that a worker keeps for its later cells, and which of them is that of iteration ``number`` of ``count`` (None: unknown)."""
    size = round_up(packing.target_bytes, 64)
    steps = min(_RING_STEPS, 1 << max(1, _RING_BYTES // size).bit_length() - 1)
    if count is not None:
        steps = min(steps, 1 << (max(count, 1) - 1).bit_length())
    ctx.memory.keeps_apart = True
    return _places(ctx, size, steps, None), ctx.fn.binary("and", number, i64(steps - 1))


def _places(ctx: Context, size: int, steps: int, way: Value | None, ways: int = 1) -> Own:
    """Memory for packings and their keys, which are forgotten where the worker begins with the launch, or the part of it that packs."""
    places, keys = ctx.reserve_scratch(size * steps * ways), ctx.reserve_scratch(_KEY_BYTES * steps * ways)
    with ctx.at(0):
        size_of_keys = i64(_KEY_BYTES * steps * ways)
        if ctx.is_first is not None:
            size_of_keys = ctx.fn.select(ctx.fn.compare("ne", ctx.is_first, i64(0)), size_of_keys, i64(0))
        ctx.fn.intrinsic("llvm.memset", keys, constant("i8", 0), size_of_keys, FALSE)
    return Own(size, places, keys, way, steps)


def _own(ctx: Context, size: int, region: Region, steps: int | None) -> Own:
    """Room for the packings of a loop that this worker's later cells may use again."""
    ways, way = 1, None
    if ctx.way is not None and any(ctx.scope.mentions(offset, frozenset((ctx.way.var,))) for offset in region.offsets):
        ways, way = ctx.way.count, ctx.way.place
    if steps is None or size * steps * ways > _OWN_BYTES:
        ways, way = 1, None
    if steps is None or size * steps > _OWN_BYTES:
        steps = 1
    return _places(ctx, size, steps, way, ways)


# -- states --------------------------------------------------------------------------------------------------------------


def _claim(module: Module) -> str:
    """``i1 claim(ptr state)``: whether the caller is the one who packs."""
    name = "claim"
    if not module.has_function(name):
        fn = module.function(name, "i1", [("state", "ptr")], inline=False)
        state = fn.params[0]
        is_empty = fn.compare("eq", fn.atomic_load(state, "i64", "monotonic", align=8), _EMPTY)
        attempt, over = fn.fresh_label("attempt"), fn.fresh_label("over")
        fn.branch_if(is_empty, attempt, over)
        fn.label(attempt)
        _, is_mine = fn.compare_exchange(state, _EMPTY, _BUSY, "monotonic", "monotonic", align=8)
        fn.ret(is_mine)
        fn.label(over)
        fn.ret(FALSE)
    return name


def _settled(module: Module) -> str:
    """``i1 settled(ptr state)``: waits until the operand is there; false where that takes too long."""
    name = "settled"
    if not module.has_function(name):
        fn = module.function(name, "i1", [("state", "ptr")], inline=False)
        found, waiting = fn.fresh_label("found"), fn.fresh_label("waiting")
        with fn.loop(i64(0), i64(_PATIENCE)):
            is_ready = fn.compare("eq", fn.atomic_load(fn.params[0], "i64", "acquire", align=8), _READY)
            fn.branch_if(is_ready, found, waiting)
            fn.label(waiting)
            pause(module, fn)
        fn.ret(FALSE)
        fn.label(found)
        fn.ret(TRUE)
    return name


def pause(module: Module, fn: Function) -> None:
    """Tells the processor that this thread waits, where it has a word for that."""
    from zellige_cpu import pool_program  # of kernels whose workers wait for each other

    found = pool_program.pause_of(module.host)
    if found is not None:
        name, kind, operand = found
        module.declare(name, "void", [kind] if kind else [])
        fn.line(f"call void @{name}({operand})")
