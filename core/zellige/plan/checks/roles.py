"""The abstract run of a plan: every role, its channels, tokens and turns, with what is ordered and what is not.

In: a planned launch and the numbers of one block. Out: a :class:`Trace` to compare with the original's, and problems: waiting without
end, counts that do not balance, slots touched while not held, conflicting accesses that nothing orders, operations nobody waits for.
Whether the roles wait for each other without end does not depend on who goes first, and neither does the order that
synchronisation gives; so one interleaving stands for all.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator, Hashable, Mapping
from dataclasses import field

from zellige.diagnostics import InternalError
from zellige.elements.conversion import Array
from zellige.interp.frame import Run
from zellige.ir.expr import Buffer, Var
from zellige.ir.stmt import Alloc, Assume, Bind, Copy, Stmt
from zellige.plan.checks.edges import EdgeRules, EdgeWatch
from zellige.plan.checks.problem import Problems
from zellige.plan.checks.programs import Machine, Trace, note_final, note_reads
from zellige.plan.checks.signatures import Signatures
from zellige.plan.checks.storage import Access, Accesses, Clock, Contents, join
from zellige.plan.checks.structure import neighbours_of
from zellige.plan.checks.touches import Touch
from zellige.plan.execution.control import Leaf, Leave, steps
from zellige.plan.execution.slots import ChannelState, PlanFault, TurnState, channel_state, turn_state
from zellige.plan.nodes import (
    Acquire,
    Channel,
    Get,
    Issue,
    Placement,
    PlannedLaunch,
    Put,
    Release,
    Resolved,
    Role,
    Slotted,
    Token,
    Turn,
    Wait,
)
from zellige.records import dataclass

COUNTS, DEADLOCK, HOLDING, RACE, WAITS, EXECUTED, SLICE, CLASSES = 2, 3, 4, 5, 6, 9, 12, 16
"""Numbers in the list of :mod:`zellige.plan.check`."""

_OVERRUN = 100
"""So many operations more than the kernel has may a plan run before it is stopped: which are too many is seen by then."""


class _Stopped(Exception):
    """The run has all the operations that are looked at."""


@dataclass(slots=True)
class _Issued:
    """An operation on its way: the clock that knows of its end, whether somebody has waited for it."""

    what: str
    end: Clock
    is_waited: bool = False


@dataclass(slots=True)
class _Block:
    """What the roles of a block share."""

    planned: PlannedLaunch
    problems: Problems
    signatures: Signatures
    contents: Contents
    channels: dict[Channel, ChannelState]
    of_buffer: dict[Buffer, Channel]
    neighbours: dict[Buffer, tuple[Placement, ...]]
    slots: dict[Buffer, int]
    edges: EdgeRules
    resolved: dict[int, Resolved]
    carried: frozenset[Buffer]
    accesses: Accesses = field(default_factory=Accesses)
    turns: dict[str, TurnState] = field(default_factory=dict)
    turn_clocks: dict[str, Clock] = field(default_factory=dict)
    put_clocks: dict[tuple[Channel, str, int], Clock] = field(default_factory=dict)
    release_clocks: dict[tuple[Channel, str, int], Clock] = field(default_factory=dict)
    cleared: dict[Channel, int] = field(default_factory=dict)
    trace: Trace = field(default_factory=Trace)
    most: int = 0


class _RoleRun(Machine):
    """One role: its variables, clock, operations on their way, and the statement it is at."""

    def __init__(self, role: Role, block: _Block, values: Mapping[Var, Array], run: Run, seed: int) -> None:
        super().__init__(run=run, values=dict(values), signatures=block.signatures, contents=block.contents, seed=seed)
        self.role, self.block = role, block
        self.name = role.name
        self.clock: Clock = {role.name: 0}
        self.issued: dict[Token, list[_Issued]] = {}
        self.edges = EdgeWatch(block.edges, block.problems, role.name)
        self.program: Generator[Leaf, None, Leave | None] = steps(role.body, self)
        self.at: Leaf | None = None
        self.is_ended = False
        self.waiting = ""

    # -- storage ------------------------------------------------------------------------------------------------------

    def key_of(self, buffer: Buffer) -> Hashable:
        return self._key(buffer.root)

    def _key(self, root: Buffer) -> Hashable:
        """The storage that the role means by a buffer now."""
        channel = self.block.of_buffer.get(root)
        if channel is None:
            return root
        number = self.block.channels[channel].number_for(self.name, root, self.lags.get(channel))
        return root, number % channel.depth

    def reject(self, statement: Assume) -> None:
        message = f"role {self.name} comes to an assumption that does not hold there, and the kernel's holds"
        self.block.problems.add(SLICE, message, key=(self.name, id(statement)), span=statement.span)

    def note_load(self, buffer: Buffer, index: tuple[int, ...]) -> None:
        box = tuple((i, i + 1) for i in index)
        self.clock[self.name] += 1
        access = Access(
            role=self.name, what=f"a scalar read of {buffer.name}", statement=0, thread=self.name, count=self.clock[self.name],
            box=box, is_write=False,
        )  # fmt: skip
        self._note(self.key_of(buffer), access, buffer.root, self.clock)

    def _note(self, key: Hashable, access: Access, root: Buffer, clock: Clock) -> None:
        for other in self.block.accesses.add(key, access, clock):
            self._report_race(access, other, root)

    def _report_race(self, access: Access, other: Access, root: Buffer) -> None:
        verb, other_verb = ("writes" if one.is_write else "reads" for one in (access, other))
        number = WAITS if access.role == other.role else RACE
        late = ", which nobody has waited for" if other.is_asynchronous else ""
        self.block.problems.add(
            number,
            f"role {access.role} {verb} {root.name} ({access.what}) while role {other.role} still {other_verb} it ({other.what}){late}: "
            "nothing orders the two",
            key=(root, access.role, verb, other.role, other_verb, access.statement, other.statement),
        )

    # -- statements ---------------------------------------------------------------------------------------------------

    def advance(self) -> bool:
        """Run until the role has to wait or has ended; whether anything happened."""
        has_moved = False
        while not self.is_ended:
            if self.at is None:
                self.at = next(self.program, None)
                if self.at is None:
                    self.is_ended = True
                    self._finish()
                    return True
            if not self._perform(self.at):
                return has_moved
            self.at, has_moved = None, True
        return has_moved

    def _perform(self, statement: Leaf) -> bool:
        """Perform the statement; False where the role has to wait."""
        self.waiting = ""
        match statement:
            case Acquire():
                return self._acquire(statement.channel)
            case Put():
                self._put(statement.channel)
            case Get():
                return self._get(statement.channel)
            case Release():
                channel = statement.channel
                number = channel_state(self.block.channels, channel, self.name).give_back(self.name)
                self.block.release_clocks[channel, self.name, number] = dict(self.clock)
            case Wait():
                self._wait(statement)
            case Turn():
                return self._turn(statement)
            case Issue():
                self._operation(statement.operation, statement.token)
            case Alloc():
                if statement.buffer.root not in self.block.carried:
                    self.contents.clear(statement.buffer.root)
            case Slotted():
                raise InternalError("control flow takes Slotted statements apart")
            case _:
                if not self.perform_scalar(statement):
                    self._operation(statement, None)
        return True

    def _acquire(self, channel: Channel) -> bool:
        state = channel_state(self.block.channels, channel, self.name)
        if not state.is_free(self.name):
            self.waiting = state.waits_for(self.name, to_acquire=True)
            return False
        number = state.acquire(self.name)
        for consumer in channel.consumers:
            join(self.clock, self.block.release_clocks.get((channel, consumer, number - channel.depth), {}))
        if self.block.cleared.get(channel, -1) < number:
            self.block.cleared[channel] = number
            for buffer in channel.buffers:
                self.contents.clear((buffer.root, number % channel.depth))
        return True

    def _put(self, channel: Channel) -> None:
        number = channel_state(self.block.channels, channel, self.name).hand_over(self.name)
        clock = dict(self.clock)
        if channel.is_transaction and channel.token is not None:
            for one in self.issued.get(channel.token, ()):
                join(clock, one.end)
                one.is_waited = True
        self.block.put_clocks[channel, self.name, number] = clock

    def _get(self, channel: Channel) -> bool:
        state = channel_state(self.block.channels, channel, self.name)
        if not state.is_full(self.name):
            self.waiting = state.waits_for(self.name, to_acquire=False)
            return False
        number = state.take(self.name)
        for producer in channel.producers:
            join(self.clock, self.block.put_clocks[channel, producer, number])
        return True

    def _wait(self, statement: Wait) -> None:
        operations = self.issued.get(statement.token, [])
        for one in operations[: len(operations) - statement.leave_in_flight]:
            join(self.clock, one.end)
            one.is_waited = True

    def _turn(self, statement: Turn) -> bool:
        state = turn_state(self.block.turns, statement)
        if statement.phase == "pass":
            state.hand_on(self.name)
            self.block.turn_clocks[statement.name] = dict(self.clock)
            return True
        if not state.can_take(self.name):
            self.waiting = state.waits_for(self.name)
            return False
        state.take()
        join(self.clock, self.block.turn_clocks.get(statement.name, {}))
        return True

    def _operation(self, statement: Stmt, token: Token | None) -> None:
        block = self.block
        if block.trace.operations == block.most:
            raise _Stopped
        block.trace.operations += 1
        if (resolved := block.resolved.get(id(statement))) is not None:
            self._check_class(resolved)
            statement = resolved.stands_for  # so that it counts as what the kernel runs
        touches = self.touches(statement)
        signature = self.signature(statement)
        self.edges.note(statement, signature, self)
        instance = signature, block.trace.executed[signature]
        block.trace.executed[signature] += 1
        writer = self.signatures.number(("instance", instance))
        keys = {root: self._key(root) for root in {touch.root: None for touch in touches}}
        note_reads(block.trace, instance, touches, self.contents, keys, self.signatures)
        thread = self.name if token is None else self._thread(token)
        count = self._next_count(thread, token)
        # products of one token take effect in their order; of copies those that somebody has waited for are known to have landed
        clock = self.clock if token is None or isinstance(statement, Copy) else {**self.clock, thread: count - 1}
        what = self.signatures.text(signature)
        for touch in touches:
            access = Access(
                role=self.name, what=what, statement=id(statement), thread=thread, count=count, box=touch.box, is_write=touch.is_write,
            )  # fmt: skip
            self._note(keys[touch.root], access, touch.root, clock)
            if touch.is_write:
                self.contents.write(keys[touch.root], touch, writer)
                self._clobber(touch.root, access, writer, clock)
        if token is not None:
            self._issue(token, thread, count, what)
        self.set_results(statement, writer)

    def _check_class(self, resolved: Resolved) -> None:
        """Report a comparison that has another answer at a corner of the Map than the operation relies on; between the corners it has the
        same, since its sides are linear in the points."""
        stands_for, before = resolved.stands_for, dict(self.values)
        ends = [(0, self.integer(extent) - 1) for extent in stands_for.extents]
        if all(last >= 0 for _, last in ends):
            for corner in itertools.product(*ends):
                for axis, place in zip(stands_for.axes, corner):
                    self.set_loop(axis, place)
                for inner in stands_for.body:
                    if isinstance(inner, Bind) and inner.var.dtype.is_integer:
                        self.values[inner.var] = self.evaluate(inner.value)
                for compare, answer in resolved.holds:
                    if self.condition(compare) is not answer:
                        message = f"role {self.name} runs an iteration as full in which its mask divides the points"
                        self.block.problems.add(CLASSES, message, key=(self.name, id(resolved)), span=stands_for.span)
        self.values.clear()
        self.values.update(before)

    def _thread(self, token: Token) -> str:
        """The name of a token's thread; two tokens of one name have two."""
        number = list(self.issued).index(token) if token in self.issued else len(self.issued)
        return f"{self.name}/{number}"

    def _next_count(self, thread: str, token: Token | None) -> int:
        if token is None:
            self.clock[self.name] += 1
            return self.clock[self.name]
        return len(self.issued.setdefault(token, [])) + 1

    def _issue(self, token: Token, thread: str, count: int, what: str) -> None:
        operations = self.issued[token]
        end = dict(self.clock)
        if operations:
            join(end, operations[-1].end)
        end[thread] = count
        operations.append(_Issued(what, end))

    def _clobber(self, root: Buffer, access: Access, writer: int, clock: Clock) -> None:
        """A write to storage that other buffers share destroys what they hold."""
        for placement in self.block.neighbours.get(root, ()):
            other = placement.buffer.root
            box = tuple((0, size) for size in self.shape(other))
            for slot in range(self.block.slots.get(other, 1)):
                other_key: Hashable = (other, slot) if other in self.block.of_buffer else other
                touch = Touch(root=other, box=box, is_write=True)
                stamp = self.signatures.number(("clobber", writer, self.signatures.buffer(root)))
                self.contents.write(other_key, touch, stamp)
                clobber = Access(
                    role=access.role, what=f"{access.what} in the same bytes", statement=access.statement, thread=access.thread,
                    count=access.count, box=box, is_write=True,
                )  # fmt: skip
                self._note(other_key, clobber, other, clock)

    def _finish(self) -> None:
        self.edges.finish()
        for token, operations in self.issued.items():
            left = [one for one in operations if not one.is_waited]
            if left:
                self.block.problems.add(
                    WAITS,
                    f"role {self.name} ends with {len(left)} operations of token {token.name} that nobody waits for: {left[-1].what}",
                    key=(self.name, token),
                )


def trace_plan(
    planned: PlannedLaunch, values: Mapping[Var, Array], signatures: Signatures, run: Run, problems: Problems, original: Trace, *, seed: int
) -> Trace | None:
    """Run the roles of a block, as far as the ``original`` was run; None where they could not be run to their end."""
    block = _Block(
        planned=planned,
        problems=problems,
        signatures=signatures,
        contents=Contents(),
        channels={channel: ChannelState.of(channel) for channel in planned.channels},
        of_buffer={buffer.root: channel for channel in planned.channels for buffer in channel.buffers},
        neighbours=neighbours_of(planned.placements),
        slots={placement.buffer.root: placement.slots for placement in planned.placements},
        edges=EdgeRules.of(planned),
        resolved={id(one.operation): one for one in planned.resolved},
        carried=frozenset(buffer.root for channel in planned.channels for buffer in (*channel.buffers, *channel.orders)),
        most=original.operations + (0 if original.is_cut else _OVERRUN),
    )
    roles = [_RoleRun(role, block, values, run, seed) for role in planned.roles]
    try:
        while True:
            moved = [role.advance() for role in roles]
            if all(role.is_ended for role in roles):
                break
            if not any(moved):
                waiting = "; ".join(role.waiting for role in roles if not role.is_ended)
                kinds = tuple((role.name, type(role.at).__name__) for role in roles if not role.is_ended)
                problems.add(DEADLOCK, f"the roles wait for each other without end: {waiting}", key=kinds)
                return None
    except _Stopped:
        block.trace.is_cut = True
        if not original.is_cut:
            message = f"the plan runs more than {block.most} operations where the kernel runs {original.operations}"
            problems.add(EXECUTED, message, key="more")
        return block.trace
    except PlanFault as fault:
        number = {"holding": HOLDING, "membership": 1, "slice": SLICE}[fault.kind]
        problems.add(number, fault.message)
        return None
    for state in block.channels.values():
        for message in state.imbalance():
            problems.add(COUNTS, message, key=(state.channel, message.split(" slots ")[0].rstrip("0123456789")))
    for turn in block.turns.values():
        for message in turn.imbalance():
            problems.add(COUNTS, message, key=(turn.name, turn.holder))
    note_final(block.trace, block.contents, signatures)
    return block.trace
