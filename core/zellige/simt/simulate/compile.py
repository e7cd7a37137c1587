"""A function of a thread-level program as Python closures over the lanes of a warp.

In: a :class:`~zellige.simt.ir.Function`. Out: a :class:`Program`: a body that a warp runs as a coroutine, which pauses before every touch
of memory that others see and wherever it waits.

A compiled statement is a pair: how it runs (``PLAIN``: at once; ``PAUSING``: at once after a pause; ``WAITING``: a coroutine itself), and a
function of the warp and its active lanes that gives the lanes which go on with the next statement (None: none).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from zellige.diagnostics import InternalError, Span
from zellige.dtypes import DType
from zellige.ir.expr import Buffer, Expr, Load, Var, constant_value
from zellige.ir.stmt import Alloc, Assert, Assign, Bind, Break, Continue, For, If, Print, Return, Store, While
from zellige.ir.traverse import children, walk
from zellige.records import dataclass
from zellige.runtime.failures import failed_assertion
from zellige.runtime.printing import print_line
from zellige.simt.homes import LaneHome, RegisterHome, SharedHome
from zellige.simt.ir import LANE, THREAD, WARP, AsyncProduct, Comment, Function, Opaque, Pointer, Registers, Scalar
from zellige.simt.simulate import faults
from zellige.simt.simulate.expressions import Evaluation, evaluation
from zellige.simt.simulate.memory import Access
from zellige.simt.simulate.warp import LoopFrame, Warp

PLAIN: Final = 0
PAUSING: Final = 1
WAITING: Final = 2

Run = Callable[[Warp, Any], Any]
Compiled = tuple[int, Run]
Touch = Callable[[Warp, Any], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """``body`` runs with the values of ``variables`` by slot; ``places`` are the spans that records of accesses name by number."""

    function: Function
    body: tuple[Compiled, ...]
    variables: dict[Var, int]
    places: list[Span | None]
    cell_bytes: dict[Buffer, int]


def compile_function(function: Function, random: np.random.Generator) -> Program:
    """The program of one launch. ``random`` is for casts that round stochastically."""
    return Compiler(function, random).program()


class Compiler:
    """Compiles one function. ``slot``, ``load``, ``value``, ``access``, ``touching`` and ``span`` are for the modules of instructions."""

    def __init__(self, function: Function, random: np.random.Generator) -> None:
        self.function = function
        self.random = random
        self.span: Span | None = function.span
        self.places: list[Span | None] = []
        self._slots: dict[Var, int] = {}
        self._taken = _taken_by_products(function)
        self._own = {tile.home.memory.root: tile.buffer.name for tile in function.tiles if _is_whole(function, tile.home)}

    def program(self) -> Program:
        for var in (LANE, WARP, THREAD, *self.function.grid_vars, *(p.var for p in self.function.params if isinstance(p, Scalar))):
            self.slot(var)
        body = self.body(self.function.body)
        return Program(function=self.function, body=body, variables=self._slots, places=self.places, cell_bytes=_cell_bytes(self.function))

    # ---- for instructions ----

    def slot(self, var: Var) -> int:
        """Where the value of a variable is kept."""
        return self._slots.setdefault(var, len(self._slots))

    def value(self, expr: Expr) -> Evaluation:
        return evaluation(self, expr)

    def access(self, dtype: DType, span: Span | None = None, *, may_meet: bool = False) -> Access:
        """A way of the statement at hand to memory."""
        place = span or self.span
        self.places.append(place)
        return Access(dtype, place, len(self.places) - 1, may_meet=may_meet)

    def load(self, node: Load) -> Callable[..., Any]:
        """What reads an element a lane, of a warp, a mask (None: no lane) and an index."""
        buffer, root = node.buffer, node.buffer.root
        nothing = np.zeros(buffer.dtype.lanes if buffer.dtype.lanes > 1 else (), buffer.dtype.scalar.numpy)
        if root.space == "registers":
            read = self._register_load(buffer)
        else:
            access = self.access(buffer.dtype, node.span)

            def read(warp: Warp, mask: Any, index: Any) -> Any:
                return warp.read(warp.block.memories[root], access, mask, index)

        return lambda warp, mask, index: nothing if mask is None else read(warp, mask, index)

    def _register_load(self, buffer: Buffer) -> Callable[..., Any]:
        span, name, touch = self.span, self._own.get(buffer.root), self.touching(buffer)

        def read(warp: Warp, mask: Any, index: Any) -> Any:
            registers = warp.view(buffer)
            if index.ndim == 0:
                number = int(index)
                if not 0 <= number < registers.shape[1]:
                    raise faults.outside(span, buffer.name, number, registers.shape[1], warp.chosen(mask))
                if name is not None:
                    _check_written(warp, mask, buffer, name, number, span)
                if touch is not None:
                    touch(warp, number)
                return registers[:, number].copy()
            numbers = _register_index(warp, mask, index, registers.shape[1], buffer, span)
            if name is not None:
                _check_written(warp, mask, buffer, name, numbers, span)
            if touch is not None:
                touch(warp, numbers[mask])
            return registers[warp.numbers, numbers]

        return read

    def touching(self, buffer: Buffer) -> Touch | None:
        """What notes that lanes touch elements of registers that asynchronous products take; None where none take them."""
        if buffer.root not in self._taken:
            return None
        return lambda warp, which: warp.readiness.touch(buffer, which)

    # ---- statements ----

    def body(self, statements: Sequence[Any]) -> tuple[Compiled, ...]:
        return tuple(self.statement(s) for s in statements if not isinstance(s, (Comment, Opaque)))

    def statement(self, statement: Any) -> Compiled:
        before = self.span
        self.span = statement.span or before
        try:
            return self._statement(statement)
        finally:
            self.span = before

    def _statement(self, statement: Any) -> Compiled:
        match statement:
            case Alloc(buffer=buffer):
                return PLAIN, _allocation(buffer, self.touching(buffer))
            case Bind(var=var, value=value) | Assign(var=var, value=value):
                return self._reads(statement), self._assignment(var, self.value(value))
            case Store(buffer=buffer, indices=(index,), value=value):
                return self._store(statement, buffer, index, value)
            case If():
                return WAITING, self._if(statement)
            case For():
                return WAITING, self._for(statement)
            case While():
                return WAITING, self._while(statement)
            case Break():
                return PLAIN, lambda warp, mask: None
            case Continue():
                return PLAIN, _continue
            case Return():
                return PLAIN, _return
            case Print():
                return self._reads(statement), self._print(statement)
            case Assert():
                return self._reads(statement), self._assert(statement)
            case _:
                from zellige.simt.simulate.instructions import instruction  # it compiles operands with this module

                return instruction(self, statement)

    def _reads(self, statement: Any) -> int:
        """PAUSING where the statement's own expressions read memory that others see."""
        is_shared = any(isinstance(n, Load) and n.buffer.root.space != "registers" for c in children(statement) for n in walk(c))
        return PAUSING if is_shared else PLAIN

    def _assignment(self, var: Var, value: Evaluation) -> Run:
        slot = self.slot(var)

        def run(warp: Warp, mask: Any) -> Any:
            warp.assign(slot, value(warp, mask), mask)
            return mask

        return run

    def _store(self, statement: Store, buffer: Buffer, index: Expr, value: Expr) -> Compiled:
        place, given, root, span = self.value(index), self.value(value), buffer.root, self.span
        if root.space != "registers":
            access = self.access(buffer.dtype, may_meet=self.span in self.function.meeting)

            def write(warp: Warp, mask: Any) -> Any:
                where = place(warp, mask)
                warp.write(warp.block.memories[root], access, mask, where, given(warp, mask))
                return mask

            return PAUSING, write
        width, touch = buffer.dtype.lanes, self.touching(buffer)

        def keep(warp: Warp, mask: Any) -> Any:
            where, values = place(warp, mask), given(warp, mask)
            registers = warp.view(buffer)
            if where.ndim == 0:
                number = int(where)
                if not 0 <= number < registers.shape[1]:
                    raise faults.outside(span, buffer.name, number, registers.shape[1], warp.chosen(mask))
                if mask is warp.full:
                    registers[:, number] = values
                else:
                    registers[mask, number] = warp.active_vectors(mask, values, width)
                warp.marks(buffer)[mask, number] = True
                if touch is not None:
                    touch(warp, number)
                return mask
            numbers = _register_index(warp, mask, where, registers.shape[1], buffer, span)
            lanes = warp.numbers if mask is warp.full else warp.numbers[mask]
            registers[lanes, numbers[lanes]] = warp.active_vectors(mask, values, width)
            warp.marks(buffer)[lanes, numbers[lanes]] = True
            if touch is not None:
                touch(warp, numbers[lanes])
            return mask

        return self._reads(statement), keep

    # ---- control flow ----

    def _if(self, statement: If) -> Run:
        condition, pauses = self.value(statement.condition), self._reads_of(statement.condition)
        then, otherwise = self.body(statement.then), self.body(statement.otherwise)

        def run(warp: Warp, mask: Any) -> Any:
            if pauses:
                yield None
            holds = condition(warp, mask)
            yes, no = _split(warp, mask, holds)
            first = yes if yes is None else (yield from _run(then, warp, yes))
            second = no if no is None else (yield from _run(otherwise, warp, no))
            if first is yes and second is no:
                return mask
            return warp.united(first, second)

        return run

    def _reads_of(self, expr: Expr) -> bool:
        return any(isinstance(n, Load) and n.buffer.root.space != "registers" for n in walk(expr))

    def _for(self, statement: For) -> Run:
        bounds = [self.value(e) for e in (statement.start, statement.stop, statement.step)]
        slot, dtype, body = self.slot(statement.var), np.dtype(statement.var.dtype.numpy), self.body(statement.body)
        pauses = any(self._reads_of(e) for e in (statement.start, statement.stop, statement.step))

        def run(warp: Warp, mask: Any) -> Any:
            if pauses:
                yield None
            start, stop, step = (np.asarray(b(warp, mask)).astype(np.int64) for b in bounds)
            trips = _trips(start, stop, step)
            is_uniform = trips.ndim == 0
            last = int(trips if is_uniform else trips[mask].max(initial=0))
            frame = LoopFrame()
            warp.frames.append(frame)
            active = mask
            for trip in range(last):
                if not is_uniform:
                    active = _within(warp, active, trips > trip)
                if active is None:
                    break
                frame.continued = None
                warp.values[slot] = (start + trip * step).astype(dtype)
                active = warp.united((yield from _run(body, warp, active)), frame.continued)
                if active is None:
                    break
            warp.frames.pop()
            return warp.still(mask)

        return run

    def _while(self, statement: While) -> Run:
        condition, body = self.value(statement.condition), self.body(statement.body)

        def run(warp: Warp, mask: Any) -> Any:
            frame = LoopFrame()
            warp.frames.append(frame)
            active = mask
            while active is not None:
                yield None
                active = _within(warp, active, condition(warp, active))
                if active is None:
                    break
                frame.continued = None
                active = warp.united((yield from _run(body, warp, active)), frame.continued)
            warp.frames.pop()
            return warp.still(mask)

        return run

    # ---- output ----

    def _print(self, statement: Print) -> Run:
        value = None if statement.value is None else self.value(statement.value)  # type: ignore[arg-type]
        message = statement.message

        def run(warp: Warp, mask: Any) -> Any:
            count = len(warp.chosen(mask))
            if value is None:
                for _ in range(count):
                    print_line(message, None)
                return mask
            for one in warp.active(mask, np.asarray(value(warp, mask))):
                print_line(message, one)
            return mask

        return run

    def _assert(self, statement: Assert) -> Run:
        condition, message, span = self.value(statement.condition), statement.message, self.span

        def run(warp: Warp, mask: Any) -> Any:
            if not warp.active(mask, np.asarray(condition(warp, mask))).all():
                raise failed_assertion(span, message)
            return mask

        return run


def _run(body: tuple[Compiled, ...], warp: Warp, mask: Any) -> Any:
    """The statements one after the other, by the lanes that are left."""
    for kind, apply in body:
        if kind == WAITING:
            mask = yield from apply(warp, mask)
        else:
            if kind == PAUSING:
                yield None
            mask = apply(warp, mask)
        if mask is None:
            return None
    return mask


def coroutine(program: Program, warp: Warp) -> Any:
    """The whole program of a warp."""
    yield from _run(program.body, warp, warp.alive)


def _split(warp: Warp, mask: Any, holds: Any) -> tuple[Any, Any]:
    """The active lanes for which a condition holds, and the others; None for no lane."""
    if holds.ndim == 0:
        return (mask, None) if holds else (None, mask)
    yes = mask & holds
    if not yes.any():
        return None, mask
    no = mask & ~holds
    if not no.any():
        return mask, None
    return yes, no


def _within(warp: Warp, mask: Any, holds: Any) -> Any:
    return _split(warp, mask, np.asarray(holds))[0]


def _trips(start: Any, stop: Any, step: Any) -> Any:
    """The iterations of a loop, one number or one a lane."""
    safe = np.where(step == 0, 1, step)
    return np.where(step == 0, 0, np.maximum(-((start - stop) // safe), 0))


def _taken_by_products(function: Function) -> frozenset[Buffer]:
    """The registers that asynchronous products add to or multiply."""
    products = (node for node in walk(function) if isinstance(node, AsyncProduct)) if function.exchange is not None else ()
    return frozenset(part.buffer.root for product in products for part in (product.a, product.c) if isinstance(part, Registers))


def _allocation(buffer: Buffer, touch: Touch | None) -> Run:
    count = constant_value(buffer.shape[0])
    if not isinstance(count, int):
        raise InternalError(f"registers {buffer.name} of a number that is not constant")
    size = count * np.dtype(buffer.dtype.scalar.numpy).itemsize * buffer.dtype.lanes

    def run(warp: Warp, mask: Any) -> Any:
        warp.allocate(buffer, size, mask)
        if touch is not None:
            touch(warp, slice(None))
        return mask

    return run


def _continue(warp: Warp, mask: Any) -> Any:
    frame = warp.frames[-1]
    frame.continued = warp.united(frame.continued, mask)


def _return(warp: Warp, mask: Any) -> Any:
    warp.alive = warp.alive & ~mask
    warp.has_returned = True
    warp.block.settle()


def _register_index(warp: Warp, mask: Any, index: Any, count: int, buffer: Buffer, span: Span | None) -> Any:
    """Numbers of registers, one a lane; those of lanes that are not active are 0."""
    wrong = (index < 0) | (index >= count)
    if wrong.any():
        bad = wrong & mask
        if bad.any():
            raise faults.outside(span, buffer.name, index[bad], count, warp.threads[bad])
        return np.where(wrong, 0, index)
    return index


def _is_whole(function: Function, home: SharedHome | RegisterHome | LaneHome) -> bool:
    """Whether each register of an author's tile holds an element of it, in every lane, so that to read one that nobody wrote is a mistake:
    where the tile fills its registers in part, code for the whole moves the others too."""
    if not isinstance(home, RegisterHome):
        return isinstance(home, LaneHome)
    held = home.distribution
    fits = all(held.covered(dimension) == extent for dimension, extent in enumerate(home.extents))
    return fits and held.count("lane") * held.count("warp") == function.threads


def _check_written(warp: Warp, mask: Any, buffer: Buffer, name: str, numbers: Any, span: Span | None) -> None:
    """That the active lanes wrote their registers of these numbers (one, or one a lane); ``name`` is the tile's."""
    missing = mask & ~warp.marks(buffer)[warp.numbers, numbers].all(axis=-1)
    if missing.any():
        first = int(np.broadcast_to(numbers, warp.numbers.shape)[missing][0])
        raise faults.undefined_register(span, name, first, warp.threads[missing])


def _cell_bytes(function: Function) -> dict[Buffer, int]:
    """The smallest scalar as which each memory is seen."""
    named = [m.buffer for m in function.memories] + [p.buffer for p in function.params if isinstance(p, Pointer)]
    for node in walk(function):
        for name in ("buffer", "target", "source", "memory", "barriers"):
            value = getattr(node, name, None)
            if isinstance(value, Buffer):
                named.append(value)
    found: dict[Buffer, int] = {}
    for buffer in named:
        size = np.dtype(buffer.dtype.scalar.numpy).itemsize
        found[buffer.root] = min(size, found.get(buffer.root, size))
    return found
