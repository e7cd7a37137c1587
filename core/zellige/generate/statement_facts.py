"""The facts of a whole kernel: every statement carried out once on facts instead of values.

In: a kernel and its arguments. Out: the fact of each tensor afterwards, from which :mod:`zellige.generate.comparison` takes its rule.
A loop is followed for as many iterations as it may have, or until nothing changes any more. Raises :class:`Unbounded` where two
backends could take different decisions, or where a sum has too many terms for a bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from zellige.dtypes import DType
from zellige.generate.expression_facts import conversion_fact, expression_fact, reinterpreted
from zellige.generate.facts import DOWN, UP, Fact, Unbounded, bottom_zero, full_range, interval, joined
from zellige.generate.tile_facts import gemm_fact, reduction_fact, update_fact
from zellige.ir.expr import Binary, Buffer, Compare, Const, Expr, Load, Region, Var, constant_value
from zellige.ir.reductions import identity
from zellige.ir.stmt import (
    Alloc,
    Assert,
    Assign,
    Assume,
    Atomic,
    AtomicTile,
    Barrier,
    Bind,
    Break,
    Continue,
    Copy,
    Fill,
    For,
    Gemm,
    If,
    Launch,
    Map,
    Print,
    Reduce,
    ReducerFinalize,
    ReducerInit,
    ReducerUpdate,
    Return,
    Scan,
    Shuffle,
    Stmt,
    Store,
    Transpose,
    Vote,
    While,
)

State: TypeAlias = "dict[Var | Buffer, Fact]"

MAXIMUM_TRIPS: Final = 300
"""So many iterations of a loop are followed before it must have come to rest."""

_WIDEN_AFTER: Final = 6


@dataclass(slots=True)
class Jumps:
    """The states in which iterations of a loop end early."""

    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)


class Analysis:
    """Carries facts through statements. ``blocks`` is how many blocks the launch at hand has, ``points`` how many points of Maps, or
    lanes, may run the statement at hand. ``initial`` holds of what a state does not mention, because nothing has written it yet."""

    def __init__(self, safe_values: Mapping[Buffer, Fact] | None = None, *, blocks: int = 1, lanes: int = 1) -> None:
        self.safe_values = dict(safe_values or {})
        self.initial: State = {}
        self.blocks = blocks
        self.points = lanes
        self._returned: list[State] = []

    # ---- expressions ----

    def fact(self, state: State, expression: Expr) -> Fact:
        """The fact of an expression in ``state``."""
        if isinstance(expression, Const) and expression.dtype.lanes == 1 and not expression.dtype.is_float:
            return Fact(low=int(expression.value), high=int(expression.value))
        return expression_fact(expression, _Names(self, state))

    def largest(self, state: State, extents: Iterable[Expr]) -> int:
        """The product of the greatest values of some extents."""
        return math.prod(max(0, int(self.fact(state, extent).high)) for extent in extents)

    def held(self, state: State, buffer: Buffer) -> Fact:
        """What the elements of ``buffer``, maybe a view, may be."""
        root = buffer.root
        held = state.get(root) or self.initial.get(root)
        if held is None:
            raise Unbounded(f"{buffer.name} is read before anything is written to it")
        return held if buffer.dtype == root.dtype else reinterpreted(held, root.dtype, buffer.dtype)

    def read(self, state: State, region: Region) -> Fact:
        """What the elements of a region may be, those outside of its buffer included."""
        offsets = [self.fact(state, offset) for offset in region.offsets]
        extents = [self.fact(state, extent) for extent in region.extents]
        held = self.held(state, region.buffer)
        last = [replace(offset, high=offset.high + extent.high - 1) for offset, extent in zip(offsets, extents)]
        return held if self._is_inside(state, region.buffer, last) else joined([held, self.outside(region.buffer)])

    def outside(self, buffer: Buffer) -> Fact:
        """What is read outside of ``buffer``."""
        if buffer.dtype.name == "float8_e8m0fnu" and buffer not in self.safe_values:
            raise Unbounded(f"elements outside of {buffer.name}, whose type has no zero")
        return self.safe_values.get(buffer, bottom_zero())

    def load(self, state: State, load: Load, indices: Sequence[Fact]) -> Fact:
        """What a load may give."""
        held = self.held(state, load.buffer)
        return held if self._is_inside(state, load.buffer, indices) else joined([held, self.outside(load.buffer)])

    def _is_inside(self, state: State, buffer: Buffer, indices: Sequence[Fact]) -> bool:
        return all(index.low >= 0 and index.high < self.fact(state, extent).low for index, extent in zip(indices, buffer.shape))

    # ---- writing ----

    def write(self, state: State, buffer: Buffer, fact: Fact, *, covers: bool) -> None:
        """Elements of ``buffer`` become ``fact``: all of them where ``covers``."""
        root = buffer.root
        if buffer.dtype != root.dtype:
            fact = reinterpreted(fact, buffer.dtype, root.dtype)
        before = self.initial.get(root) if root not in state else None if covers else state[root]
        state[root] = fact if before is None else joined([before, fact])

    def write_region(self, state: State, region: Region, fact: Fact) -> None:
        """The elements of a region become ``fact``."""
        self.write(state, region.buffer, fact, covers=covers_all(region))

    def times(self, buffer: Buffer) -> int:
        """How often one element of ``buffer`` may be updated by one statement."""
        return self.points * (self.blocks if buffer.root.space == "global" else 1)

    def update(self, state: State, buffer: Buffer, op: str, value: Fact, count: int) -> None:
        """At most ``count`` updates of each element."""
        if buffer.dtype != buffer.root.dtype:
            raise Unbounded(f"updates of {buffer.name} through a view of another type")
        self.write(state, buffer, update_fact(op, self.held(state, buffer), value, buffer.dtype, count), covers=False)

    # ---- statements ----

    def body(self, state: State, statements: Sequence[Stmt], jumps: Jumps | None = None, *, covered: tuple[Map, ...] = ()) -> State | None:
        """Carries ``state``, which changes, through statements; None where their end is not reached. ``covered``: the Maps of which
        every point runs these statements."""
        current: State | None = state
        for statement in statements:
            if current is None:
                return None
            current = self.statement(current, statement, jumps, covered=covered)
        return current

    def statement(self, state: State, statement: Stmt, jumps: Jumps | None = None, *, covered: tuple[Map, ...] = ()) -> State | None:
        """Carries ``state``, which changes, through one statement."""
        match statement:
            case Alloc():
                state.pop(statement.buffer, None)
            case Bind() | Assign():
                state[statement.var] = self.fact(state, statement.value)
            case Store():
                indices = [self.fact(state, index) for index in statement.indices]
                value = self.fact(state, statement.value)
                is_whole = any(_covers(parallel, statement) for parallel in covered)
                is_whole |= all(constant_value(extent) == 1 for extent in statement.buffer.shape) and all(
                    i.low == i.high == 0 for i in indices
                )
                self.write(state, statement.buffer, value, covers=is_whole)
            case If():
                return self._branch(state, statement, jumps)
            case For():
                return self._for(state, statement)
            case While():
                return self._while(state, statement)
            case Map():
                return self._map(state, statement, covered)
            case Break():
                _jumps_of(jumps).breaks.append(state)
                return None
            case Continue():
                _jumps_of(jumps).continues.append(state)
                return None
            case Return():
                self._returned.append(state)
                return None
            case Assert() | Assume():
                self.fact(state, statement.condition)
            case Print():
                raise Unbounded("what is printed is not compared")
            case Barrier():
                pass
            case Shuffle():
                self.fact(state, statement.operand)
                state[statement.result] = self.fact(state, statement.value)
            case Vote():
                self.fact(state, statement.predicate)
                top = {"any": 1, "all": 1, "count": self.points, "ballot": statement.result.dtype.max}[statement.mode]
                state[statement.result] = interval(
                    statement.result.dtype, 0 if top != statement.result.dtype.max else statement.result.dtype.min, top
                )
            case Atomic():
                self._atomic(state, statement)
            case ReducerInit():
                state[statement.buffer.root] = _identity(statement.op, statement.buffer.dtype)
            case ReducerUpdate():
                self.update(state, statement.buffer, statement.op, self.fact(state, statement.value), self.times(statement.buffer))
            case ReducerFinalize():
                pass
            case _:
                self._tile_operation(state, statement)
        return state

    def _tile_operation(self, state: State, statement: Stmt) -> None:
        match statement:
            case Copy() | Transpose():
                source = self.read(state, statement.src)
                self.write_region(state, statement.dst, conversion_fact(source, statement.src.buffer.dtype, statement.dst.buffer.dtype))
            case Fill():
                self.write_region(state, statement.dst, self.fact(state, statement.value))
            case Reduce():
                count = int(self.fact(state, statement.src.extents[statement.axis]).high)
                old = None if statement.clear else self.read(state, statement.dst)
                dtypes = statement.src.buffer.dtype, statement.dst.buffer.dtype
                found = reduction_fact(statement.op, self.read(state, statement.src), dtypes[0], old, dtypes[1], count)
                self.write_region(state, statement.dst, found)
            case Scan():
                count = int(self.fact(state, statement.src.extents[statement.axis]).high)
                dtypes = statement.src.buffer.dtype, statement.dst.buffer.dtype
                found = reduction_fact(statement.op, self.read(state, statement.src), dtypes[0], None, dtypes[1], count)
                self.write_region(state, statement.dst, found)
            case Gemm():
                self._gemm(state, statement)
            case AtomicTile():
                dtype = statement.dst.buffer.dtype
                value = conversion_fact(self.read(state, statement.src), statement.src.buffer.dtype, dtype)
                self.update(state, statement.dst.buffer, statement.op, value, self.times(statement.dst.buffer))
            case _:
                raise Unbounded(f"{type(statement).__name__}")

    def _gemm(self, state: State, s: Gemm) -> None:
        depth = int(self.fact(state, s.b.extents[-1 if s.transpose_b else -2]).high)
        a, b = self.read(state, s.a), self.read(state, s.b)
        if s.scale_a is not None:
            a = self._scaled(state, a, s.a.buffer.dtype, s.scale_a)
        if s.scale_b is not None:
            b = self._scaled(state, b, s.b.buffer.dtype, s.scale_b)
        if s.metadata is not None:
            self.read(state, s.metadata)
            a = joined([a, bottom_zero()])
        dtypes = s.a.buffer.dtype, s.b.buffer.dtype, s.c.buffer.dtype
        clear = constant_value(s.clear)
        self.fact(state, s.clear)
        found = []
        if clear is not True:
            found.append(gemm_fact(a, b, self.read(state, s.c), dtypes, depth))
        if clear is not False:
            found.append(gemm_fact(a, b, None, dtypes, depth))
        self.write_region(state, s.c, joined(found))

    def _scaled(self, state: State, x: Fact, dtype: DType, scale: Region) -> Fact:
        factor = self.read(state, scale)
        if x.error or factor.error or x.is_special or factor.is_special or dtype.name == "float64" or scale.buffer.dtype.name == "float64":
            raise Unbounded("scaled operands that are not exact")
        size = x.magnitude * factor.magnitude
        return Fact(low=-size, high=size, quantum=x.quantum + factor.quantum)

    def _atomic(self, state: State, s: Atomic) -> None:
        for index in s.indices:
            self.fact(state, index)
        before = self.held(state, s.buffer) if s.op != "store" or s.buffer.root in state else None
        if s.op != "load":
            assert s.value is not None
            value = self.fact(state, s.value)
            if before is None:
                self.write(state, s.buffer, value, covers=False)
            else:
                self.update(state, s.buffer, s.op, value, self.times(s.buffer))
        if s.result is not None:
            state[s.result] = joined([self.held(state, s.buffer), bottom_zero()])

    # ---- control ----

    def _branch(self, state: State, statement: If, jumps: Jumps | None) -> State | None:
        ends: list[State] = []
        while True:  # a chain of elif is a loop here, so that its length does not matter
            self.fact(state, statement.condition)
            then = self.body(dict(state), statement.then, jumps)
            if then is not None:
                ends.append(then)
            if len(statement.otherwise) != 1 or not isinstance(statement.otherwise[0], If):
                break
            statement = statement.otherwise[0]
        otherwise = self.body(state, statement.otherwise, jumps)
        if otherwise is not None:
            ends.append(otherwise)
        return merged(ends)

    def _for(self, state: State, s: For) -> State | None:
        start, stop, step = (self.fact(state, bound) for bound in (s.start, s.stop, s.step))
        fewest, most = _trips(start, stop, step)
        low, high = min(start.low, stop.low), max(start.high, stop.high)
        if most > 0:
            if step.low > 0:
                low, high = start.low, max(start.low, stop.high - 1)
            elif step.high < 0:
                low, high = min(start.high, stop.low + 1), start.high
        return self._loop(state, s.body, fewest, most, {s.var: Fact(low=low, high=high)})

    def _while(self, state: State, s: While) -> State | None:
        most = self._while_trips(state, s)
        return self._loop(state, s.body, 0, most, {}, condition=s.condition)

    def _loop(
        self, state: State, body: Sequence[Stmt], fewest: int, most: int, variables: State, condition: Expr | None = None
    ) -> State | None:
        ends: list[State] = [dict(state)] if fewest <= 0 else []
        current: State | None = state
        for trip in range(most):
            assert current is not None
            if condition is not None:
                self.fact(current, condition)
            current.update(variables)
            before = dict(current)
            jumps = Jumps()
            end = self.body(current, body, jumps)
            ends.extend(jumps.breaks)
            current = merged([*([] if end is None else [end]), *jumps.continues])
            if current is None:
                break
            if _is_at_rest(before, current):
                ends.append(current)
                break
            if trip + 1 >= fewest:
                ends.append(dict(current))
            if trip >= _WIDEN_AFTER and most > MAXIMUM_TRIPS:
                current = _widened(before, current)
            if trip >= MAXIMUM_TRIPS:
                raise Unbounded("a loop of too many iterations that does not come to rest")
        return merged(ends)

    def _while_trips(self, state: State, s: While) -> int:
        """The number of iterations of ``while counter < bound`` whose body adds a constant to the counter."""
        counter, bound = _counter(s.condition)
        if counter is None or bound is None:
            return MAXIMUM_TRIPS + 1
        for statement in s.body:
            if isinstance(statement, Assign) and statement.var is counter and isinstance(statement.value, Binary):
                step = constant_value(statement.value.right)
                if statement.value.op == "add" and statement.value.left is counter and step is not None and step > 0:
                    distance = self.fact(state, bound).high - self.fact(state, counter).low
                    return max(0, math.ceil(distance / step))
        return MAXIMUM_TRIPS + 1

    def _map(self, state: State, s: Map, covered: tuple[Map, ...]) -> State | None:
        extents = [self.fact(state, extent) for extent in s.extents]
        count = math.prod(max(0, int(extent.high)) for extent in extents)
        before = dict(state) if any(extent.low <= 0 for extent in extents) else None
        if count == 0:
            return state
        state.update({axis: Fact(low=0, high=max(0, extent.high - 1)) for axis, extent in zip(s.axes, extents)})
        with self.repeated(count):
            end = self.body(state, s.body, None, covered=(*covered, s))
        ends = [*([] if end is None else [end]), *([] if before is None else [before])]
        return merged(ends)

    @contextmanager
    def repeated(self, count: int) -> Iterator[None]:
        """While this is open, ``count`` times as many points run each statement."""
        outer = self.points
        self.points = outer * count
        try:
            yield
        finally:
            self.points = outer

    def launch(self, state: State, launch: Launch) -> State:
        """The facts after a launch of which ``state`` holds what was before: sizes, scalars and tensors."""
        grid = [self.fact(state, extent) for extent in launch.grid]
        self.blocks = math.prod(max(0, int(extent.high)) for extent in grid)
        if self.blocks == 0:
            return state
        inner = dict(state)
        inner.update({var: Fact(low=0, high=max(0, extent.high - 1)) for var, extent in zip(launch.grid_vars, grid)})
        self.points = 1
        if launch.lane_vars:
            threads = [self.fact(state, extent) for extent in launch.threads or ()]
            inner.update({var: Fact(low=0, high=max(0, extent.high - 1)) for var, extent in zip(launch.lane_vars, threads)})
            self.points = math.prod(int(extent.high) for extent in threads)
        self.safe_values = {safe.buffer: self.fact(inner, safe.value) for safe in launch.safe_values}
        self._returned = []
        end = self.body(inner, launch.body)
        ends = [*self._returned, *([] if end is None else [end])]
        after = {} if not ends else merged(ends) or {}
        kept: State = {key: fact for key, fact in after.items() if isinstance(key, Buffer) and key.space == "global"}
        return {**state, **kept}


class _Names:
    """The names of a state, for expressions."""

    def __init__(self, analysis: Analysis, state: State) -> None:
        self._analysis = analysis
        self._state = state

    def variable(self, var: Var) -> Fact:
        found = self._state.get(var) or self._analysis.initial.get(var)
        if found is None:
            raise Unbounded(f"{var.name} has no value here")
        return found

    def load(self, load: Load, indices: Sequence[Fact]) -> Fact:
        return self._analysis.load(self._state, load, indices)


def covers_all(region: Region) -> bool:
    """Whether a region is, as far as constants say, all of its buffer."""
    return all(constant_value(offset) == 0 for offset in region.offsets) and all(
        constant_value(extent) is not None and constant_value(extent) == constant_value(whole)
        for extent, whole in zip(region.extents, region.buffer.shape)
    )


def _covers(parallel: Map, store: Store) -> bool:
    """Whether the points of a Map store to every element: the indices are its axes, whose extents are the buffer's."""
    extents = {axis: constant_value(extent) for axis, extent in zip(parallel.axes, parallel.extents)}
    used = [index for index in store.indices if isinstance(index, Var) and index in extents]
    if len(used) != len(store.indices) or len(set(used)) != len(used):
        return False
    return all(
        extents[index] is not None and extents[index] == constant_value(extent)  # type: ignore[index]
        for index, extent in zip(store.indices, store.buffer.shape)
    )


def merged(states: Sequence[State]) -> State | None:
    """What holds whichever of the states it is; a name that only some have keeps what those say."""
    if len(states) < 2:
        return states[0] if states else None
    result = dict(states[0])
    for state in states[1:]:
        for key, fact in state.items():
            known = result.get(key)
            result[key] = fact if known is None or known is fact else known if known == fact else joined([known, fact])
    return result


def _is_at_rest(before: State, after: State) -> bool:
    return before.keys() == after.keys() and all(after[key] is fact or after[key] == fact for key, fact in before.items())


def _widened(before: State, after: State) -> State:
    """Integers that still change may have any value."""
    widened = dict(after)
    for key, fact in before.items():
        dtype = key.dtype
        if after.get(key) != fact and dtype.is_integer:
            widened[key] = full_range(dtype)
    return widened


def _trips(start: Fact, stop: Fact, step: Fact) -> tuple[int, int]:
    """The fewest and most iterations of a loop."""
    counts = [
        len(range(int(a), int(b), int(c)))
        for a in (start.low, start.high)
        for b in (stop.low, stop.high)
        for c in (step.low, step.high)
        if c
    ]
    if step.low <= 0 <= step.high:
        return 0, max([*counts, int(abs(stop.high - start.low)), int(abs(stop.low - start.high))])
    return min(counts), max(counts)


def _counter(condition: Expr) -> tuple[Var | None, Expr | None]:
    while isinstance(condition, Binary) and condition.op == "and":
        condition = condition.left
    if isinstance(condition, Compare) and condition.op == "lt" and isinstance(condition.left, Var):
        return condition.left, condition.right
    return None, None


def _identity(op: str, dtype: DType) -> Fact:
    value = identity(op, dtype)
    if dtype.is_float and math.isinf(float(value)):
        return Fact(low=0.0, high=0.0, quantum=2000, special=UP | DOWN)
    exact = (
        Const(value=value, dtype=dtype)
        if not (dtype.is_integer and not dtype.min <= value <= dtype.max)
        else Const(value=dtype.max, dtype=dtype)
    )
    return expression_fact(exact, _Names(Analysis(), {}))


def _jumps_of(jumps: Jumps | None) -> Jumps:
    if jumps is None:
        raise Unbounded("a jump outside of a loop")
    return jumps
