"""Abstract runs: what the original body of a launch does in one block, and what its plan does.

In: a launch, its plan, and numbers for sizes, scalars and the block's place in the grid. Out: a :class:`Trace` each, of operations with the
results that they read; the run of the plan reports what it finds on the way. Nothing is computed but control flow, indices and
operands; see :mod:`zellige.plan.checks.values` for elements of buffers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import field

import numpy as np

from zellige.elements.conversion import Array
from zellige.interp.frame import Run
from zellige.interp.statements import names
from zellige.ir.expr import Buffer, Const, Expr, Load, Var
from zellige.ir.stmt import Alloc, Assert, Assign, Assume, Bind, Dialect, For, Launch, Map, Stmt, While
from zellige.plan.checks.signatures import Signatures
from zellige.plan.checks.storage import Contents, Seen
from zellige.plan.checks.touches import Surroundings, Touch, touches_of
from zellige.plan.checks.values import answer, known_ranges, value_of
from zellige.plan.execution.control import steps
from zellige.plan.nodes import Channel
from zellige.records import dataclass

MAXIMUM_ITERATIONS = 24
"""A While loop whose end depends on data ends after so many iterations, in the original and in every role."""

MAXIMUM_OPERATIONS = 5_000
"""A run with more operations is cut there."""

MAXIMUM_WORK = 300_000
"""So is one that has compared so many pairs of accesses: very many parts of one tensor are written."""


class Rejected(Exception):
    """The sample is none that the kernel promises to work for."""


@dataclass(slots=True)
class Trace:
    """``executed`` counts operations by signature; ``reads`` gives what each instance saw of each buffer; ``final`` what lies in
    tensors. ``is_cut``: the run had too many operations, and these are the first of them."""

    executed: Counter[int] = field(default_factory=Counter)
    reads: dict[tuple[int, int], dict[int, set[Seen]]] = field(default_factory=dict)
    final: dict[int, Seen] = field(default_factory=dict)
    operations: int = 0
    is_cut: bool = False


@dataclass(slots=True)
class Machine:
    """What the original and every role have in common: variables, evaluation, the table of signatures.

    ``storage_key`` says which storage a buffer means; the plan overrides it by role and slot.
    """

    run: Run
    values: dict[Var, Array]
    signatures: Signatures
    contents: Contents
    seed: int
    shapes: dict[Buffer, tuple[int, ...]] = field(default_factory=dict)
    lags: dict[Channel, int] = field(default_factory=dict)
    loops: list[tuple[For, int]] = field(default_factory=list)

    def key_of(self, buffer: Buffer) -> Hashable:
        """The storage that a Load of ``buffer`` reads."""
        return buffer.root

    def note_load(self, buffer: Buffer, index: tuple[int, ...]) -> None:
        """A scalar statement or control flow reads one element; nothing to do in the original."""

    def reject(self, statement: Assume) -> None:
        """An assumption does not hold: the kernel promises nothing for the sample."""
        raise Rejected

    def oracle(self, load: Load, index: tuple[int, ...]) -> Array:
        """The answer for one element, by who wrote it."""
        shape = self.shape(load.buffer)
        if not all(0 <= i < size for i, size in zip(index, shape)):
            return np.asarray(np.zeros((), np.float32)).astype(load.buffer.dtype.numpy)
        self.note_load(load.buffer, index)
        seen = self.contents.read(self.key_of(load.buffer), tuple((i, i + 1) for i in index))
        writers = sorted((writer, sorted(over)) for writer, over in seen)
        return answer(load.buffer.dtype, self.seed, self.signatures.buffer(load.buffer), index, writers)

    def evaluate(self, expression: Expr) -> Array:
        """The value of an expression here and now."""
        return value_of(self.run, self.values, expression, self.oracle)

    def integer(self, expression: Expr) -> int:
        """The value of an integer expression."""
        if isinstance(expression, Const):
            return int(expression.value)
        value = self.evaluate(expression)
        return int(value if value.ndim == 0 else np.max(value))

    def condition(self, expression: Expr) -> bool:
        """The value of a bool expression."""
        return bool(self.evaluate(expression).all())

    def set_loop(self, var: Var, value: int) -> None:
        """Give a loop variable its value."""
        self.values[var] = np.asarray(np.int64(value)).astype(var.dtype.numpy)

    def after_loop(self, statement: For) -> None:
        """The loop has ended; no value depends on that."""

    def goes_on(self, statement: While, iteration: int) -> bool:
        """Whether a While loop runs once more."""
        return iteration < MAXIMUM_ITERATIONS and self.condition(statement.condition)

    def shape(self, buffer: Buffer) -> tuple[int, ...]:
        """The extents of a buffer, evaluated once."""
        found = self.shapes.get(buffer)
        if found is None:
            found = self.shapes[buffer] = tuple(self.integer(extent) for extent in buffer.shape)
        return found

    def touches(self, statement: Stmt) -> list[Touch]:
        """What the statement reads and writes with the present values."""
        return touches_of(statement, self.around(statement))

    def around(self, statement: Stmt) -> Surroundings:
        """What is known where the statement stands."""
        return Surroundings(
            integer=self.integer,
            ranges=known_ranges(self.values) if isinstance(statement, (Map, Dialect)) else {},
            shape=self.shape,
            regions=self.signatures.regions,
        )

    def signature(self, statement: Stmt) -> int:
        """The statement's signature with the present values."""
        return self.signatures.of(statement, self.values, self.evaluate)

    def set_results(self, statement: Stmt, instance: int) -> None:
        """Give variables that a statement sets otherwise than by an expression an answer that depends on the instance."""
        result = getattr(statement, "result", None)
        if isinstance(result, Var):
            self.values[result] = answer(result.dtype, self.seed, instance)
        if isinstance(statement, Map):
            for var in names(self.run, statement).assigned:
                if var in self.values:
                    self.values[var] = answer(var.dtype, self.seed, instance, var.name)

    def perform_scalar(self, statement: Stmt) -> bool:
        """Perform a statement that every role may repeat, as far as it is one."""
        match statement:
            case Bind() | Assign():
                self.values[statement.var] = self.evaluate(statement.value)
            case Assume():
                if not self.condition(statement.condition):
                    self.reject(statement)
            case _:
                return False
        return True


class _Original(Machine):
    """The launch's own body, statement after statement."""

    __slots__ = ()


def trace_original(launch: Launch, values: Mapping[Var, Array], signatures: Signatures, run: Run, *, seed: int) -> Trace:
    """Run the body of ``launch`` for one block. Raises Rejected."""
    machine = _Original(run=run, values=dict(values), signatures=signatures, contents=Contents(), seed=seed)
    trace = Trace()
    for leaf in steps(launch.body, machine):
        statement: Stmt = leaf  # type: ignore[assignment]  # the author's body has no statements of a plan
        if isinstance(statement, Alloc):
            machine.contents.clear(statement.buffer.root)
            continue
        if machine.perform_scalar(statement):
            continue
        if isinstance(statement, Assert) and not machine.condition(statement.condition):
            raise Rejected
        if trace.operations == MAXIMUM_OPERATIONS or machine.contents.work > MAXIMUM_WORK:
            trace.is_cut = True
            return trace
        trace.operations += 1
        touches = machine.touches(statement)
        signature = machine.signature(statement)
        instance = signature, trace.executed[signature]
        trace.executed[signature] += 1
        writer = signatures.number(("instance", instance))
        note_reads(trace, instance, touches, machine.contents, {touch.root: touch.root for touch in touches}, signatures)
        for touch in touches:
            if touch.is_write:
                machine.contents.write(touch.root, touch, writer)
        machine.set_results(statement, writer)
    note_final(trace, machine.contents, signatures)
    return trace


def note_reads(
    trace: Trace,
    instance: tuple[int, int],
    touches: list[Touch],
    contents: Contents,
    keys: Mapping[Buffer, Hashable],
    signatures: Signatures,
) -> None:
    """Write down what the reads of an instance see."""
    seen = trace.reads.setdefault(instance, {})
    for touch in touches:
        if not touch.is_write:
            seen.setdefault(signatures.buffer(touch.root), set()).add(contents.read(keys[touch.root], touch.box))


def note_final(trace: Trace, contents: Contents, signatures: Signatures) -> None:
    """Write down what lies in global tensors at the end."""
    for key in contents.keys_written():
        if isinstance(key, Buffer) and key.space == "global":
            trace.final[signatures.buffer(key)] = contents.all_of(key)
