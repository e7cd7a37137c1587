"""One block of a plan on NumPy: its storage, channels and roles.

In: a planned launch, the frame of a block, a schedule. Out: changed tensors. Storage on the chip lies where the placements say, so that
buffers that share bytes destroy each other; a slot is poisoned each time it is acquired. Raises PlanFault where the roles wait for each
other without end or do what the nodes forbid.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import field

import numpy as np

from zellige.diagnostics import InternalError
from zellige.elements.conversion import Array
from zellige.interp.expressions import evaluate
from zellige.interp.frame import Frame, Place, Run
from zellige.interp.memory import PATTERN, Layout, Memory, storage_bytes
from zellige.interp.regions import box_of
from zellige.interp.statements import allocate, names, run_body
from zellige.ir.expr import Buffer, Expr, Var
from zellige.ir.stmt import Alloc, For, Stmt, While
from zellige.ir.traverse import loads_in
from zellige.plan.checks.edges import EdgeRules
from zellige.plan.edges import global_regions
from zellige.plan.execution.control import Leaf, Leave, steps
from zellige.plan.execution.in_flight import InFlight, Operation, poison
from zellige.plan.execution.promises import Promises
from zellige.plan.execution.schedule import Schedule
from zellige.plan.execution.slots import ChannelState, PlanFault, TurnState, channel_state, turn_state
from zellige.plan.facts import bytes_of
from zellige.plan.nodes import (
    Acquire,
    Channel,
    Get,
    Issue,
    Placement,
    PlannedLaunch,
    Put,
    Release,
    Role,
    Slotted,
    Token,
    Turn,
    Wait,
)
from zellige.records import dataclass


@dataclass(slots=True, kw_only=True)
class Block:
    """What the roles of a block share. ``handed`` are the operations that must be finished before a slot is got."""

    planned: PlannedLaunch
    run: Run
    schedule: Schedule
    tensors: Mapping[Buffer, Place]
    channels: dict[Channel, ChannelState]
    of_buffer: dict[Buffer, Channel]
    placements: dict[Buffer, Placement]
    arenas: dict[str, Array]
    edges: EdgeRules
    promises: Promises
    carried: frozenset[Buffer]
    slots: dict[tuple[Buffer, int], Place] = field(default_factory=dict)
    places: dict[Buffer, Place] = field(default_factory=dict)
    turns: dict[str, TurnState] = field(default_factory=dict)
    handed: dict[tuple[Channel, int], list[tuple[InFlight, Token, int]]] = field(default_factory=dict)
    poisoned: dict[Channel, int] = field(default_factory=dict)

    @staticmethod
    def of(planned: PlannedLaunch, run: Run, schedule: Schedule, tensors: Mapping[Buffer, Place]) -> Block:
        """A block in which nothing has happened yet."""
        ends: dict[str, int] = {}
        for placement in planned.placements:
            ends[placement.space] = max(ends.get(placement.space, 0), placement.offset + placement.bytes * placement.slots)
        return Block(
            planned=planned,
            run=run,
            schedule=schedule,
            tensors=tensors,
            channels={channel: ChannelState.of(channel) for channel in planned.channels},
            of_buffer={buffer.root: channel for channel in planned.channels for buffer in channel.buffers},
            placements={placement.buffer.root: placement for placement in planned.placements},
            arenas={space: np.full(end, PATTERN, np.uint8) for space, end in ends.items()},
            edges=EdgeRules.of(planned),
            promises=Promises.of(planned),
            carried=frozenset(buffer.root for channel in planned.channels for buffer in (*channel.buffers, *channel.orders)),
        )

    def fresh(self, root: Buffer, frame: Frame, slot: int = 0) -> Place:
        """New storage: where the placement says; by itself for buffers whose size run-time sizes give.

        Raises PlanFault for a placement that is missing, or that the buffer or its slot does not fit."""
        own = Frame(kind="block", count=1, values=frame.values, places={})
        allocate(self.run, own, root)
        place = own.places[root]
        placement = self.placements.get(root)
        if placement is None:
            if root.space != "global" and bytes_of(root) is not None:
                raise PlanFault("placement", f"{root.name} has no place in the memory of the block")
            return place
        layout: Layout = place.layouts[root]
        needed = storage_bytes(layout.span, root.dtype)
        if placement.bytes < needed or slot >= placement.slots:
            room = f"{placement.slots} slots of {placement.bytes} bytes"
            raise PlanFault("placement", f"slot {slot} of {root.name} needs {needed} bytes and its placement has {room}")
        start = placement.offset + slot * placement.bytes
        cells = self.arenas[placement.space][start : start + placement.bytes]
        return Place(memory=Memory(cells=cells, copies=1, copy_bytes=placement.bytes), layouts={root: layout})

    def run_roles(self, values: Mapping[Var, Array]) -> None:
        """Run every role to its end."""
        roles = {role.name: RoleRun(role, self, values) for role in self.planned.roles}
        self.schedule.begin(self.planned)
        while True:
            alive = [name for name, role in roles.items() if not role.is_ended]
            if not alive:
                break
            if not any(roles[name].step() for name in self.schedule.order(alive)):
                waiting = "; ".join(roles[name].waiting for name in alive)
                raise PlanFault("deadlock", f"the roles wait for each other without end: {waiting}")
            self._finish_some(list(roles.values()))
        left = [message for state in self.channels.values() for message in state.imbalance()]
        left += [message for turn in self.turns.values() for message in turn.imbalance()]
        if left:
            raise PlanFault("counts", "; ".join(left))

    def _finish_some(self, roles: list[RoleRun]) -> None:
        if self.schedule.finishes_one():
            pending = [(role.in_flight, token) for role in roles for token in role.in_flight.pending()]
            if pending:
                in_flight, token = pending[self.schedule.choose(len(pending))]
                in_flight.finish(token, in_flight.finished.get(token, 0) + 1)


class RoleRun:
    """One role: its variables, its operations in flight, the statement it is at."""

    def __init__(self, role: Role, block: Block, values: Mapping[Var, Array]) -> None:
        self.role, self.block, self.name = role, block, role.name
        self.values: dict[Var, Array] = dict(values)
        self.lags: dict[Channel, int] = {}
        self.loops: list[tuple[For, int]] = []
        self.in_flight = InFlight(block.run)
        self.is_ended = False
        self.waiting = ""
        self._loads: dict[int, frozenset[Buffer]] = {}
        self._program: Generator[Leaf, None, Leave | None] = steps(role.body, self)
        self._at: Leaf | None = None

    # -- control ------------------------------------------------------------------------------------------------------

    def _value(self, expression: Expr) -> Array:
        loaded = self._loads.get(id(expression))
        if loaded is None:
            loaded = self._loads[id(expression)] = frozenset(load.buffer.root for load in loads_in(expression))
        frame = Frame(kind="block", count=1, values=self.values, places={})
        frame.places.update((root, self._place(root, frame)) for root in loaded)
        try:
            return evaluate(self.block.run, frame, expression)
        except KeyError as missing:
            raise self._unknown(missing) from missing

    def _unknown(self, missing: KeyError) -> PlanFault:
        name = getattr(missing.args[0], "name", missing.args[0])
        return PlanFault("slice", f"role {self.name} uses {name} and never gives it a value")

    def integer(self, expression: Expr) -> int:
        return int(self._value(expression))

    def condition(self, expression: Expr) -> bool:
        return bool(self._value(expression).all())

    def set_loop(self, var: Var, value: int) -> None:
        self.values[var] = np.array(value, np.int64 if value < 1 << 63 else np.uint64).astype(var.dtype.numpy)

    def after_loop(self, statement: For) -> None:
        self.block.promises.after_loop(statement, self, self.block.run)

    def goes_on(self, statement: While, iteration: int) -> bool:
        return self.condition(statement.condition)

    # -- storage ------------------------------------------------------------------------------------------------------

    def _place(self, root: Buffer, frame: Frame) -> Place:
        block = self.block
        tensor = block.tensors.get(root)
        if tensor is not None:
            return tensor
        channel = block.of_buffer.get(root)
        if channel is not None:
            number = block.channels[channel].number_for(self.name, root, self.lags.get(channel))
            return self._slot(root, number % channel.depth)
        found = block.places.get(root)
        if found is None:
            found = block.places[root] = block.fresh(root, frame)
        return found

    def _slot(self, root: Buffer, slot: int) -> Place:
        found = self.block.slots.get((root, slot))
        if found is None:
            frame = Frame(kind="block", count=1, values=self.values, places={})
            found = self.block.slots[root, slot] = self.block.fresh(root, frame, slot)
        return found

    def _frame(self, statement: Stmt, *, is_own: bool) -> Frame:
        """The frame that a statement runs in; ``is_own``: with variables that do not change any more."""
        frame = Frame(kind="block", count=1, values=dict(self.values) if is_own else self.values, places={})
        for root in names(self.block.run, statement).buffers:
            frame.places[root] = self._place(root, frame)
        return frame

    # -- statements ---------------------------------------------------------------------------------------------------

    def step(self) -> bool:
        """Perform the next statement; False where the role has to wait."""
        if self._at is None:
            self._at = next(self._program, None)
            if self._at is None:
                self._end()
                return True
        self.waiting = ""
        try:
            is_done = self._perform(self._at)
        except KeyError as missing:
            raise self._unknown(missing) from missing
        if is_done:
            self._at = None
        return is_done

    def _end(self) -> None:
        self.is_ended = True
        left = self.in_flight.unwaited()
        if left:
            token, _ = left[-1]
            raise PlanFault("waits", f"role {self.name} ends with {len(left)} operations in flight, the last of token {token.name}")

    def _perform(self, statement: Leaf) -> bool:
        match statement:
            case Acquire():
                return self._acquire(statement.channel)
            case Put():
                self._put(statement.channel)
            case Get():
                return self._get(statement.channel)
            case Release():
                channel_state(self.block.channels, statement.channel, self.name).give_back(self.name)
            case Wait():
                self.in_flight.wait(statement.token, statement.leave_in_flight)
            case Turn():
                return self._turn(statement)
            case Issue():
                self._issue(statement)
            case Slotted():
                raise InternalError("control flow takes Slotted statements apart")
            case Alloc():
                self._allocate(statement.buffer)
            case _:
                self._operation(statement)
        return True

    def _operation(self, statement: Stmt) -> None:
        frame = self._frame(statement, is_own=False)
        self._check_edge(statement, frame)
        if not self.block.promises.perform(statement, self, self.block.run, self.block.schedule.timing):
            run_body(self.block.run, frame, (statement,), True, None)

    def frame_of(self, statement: Stmt) -> Frame:
        return self._frame(statement, is_own=False)

    def _issue(self, statement: Issue) -> Operation:
        frame = self._frame(statement.operation, is_own=True)
        self._check_edge(statement.operation, frame)
        return self.in_flight.issue(statement.token, statement.operation, frame, self.block.schedule.timing())

    def _check_edge(self, statement: Stmt, frame: Frame) -> None:
        """An operation without predicates that reads or writes beyond its tensor, which no machine forgives."""
        rules = self.block.edges
        if id(statement) not in rules.choices:
            return
        may_leave = rules.may_leave(statement, self.loops)
        for region in global_regions(statement):
            box = box_of(self.block.run, frame, region, True)
            for axis, (start, extent, size) in enumerate(zip(box.starts, box.extents, box.layout.shape)):
                is_outside = 0 not in box.extents and (int(start) < 0 or int(start) + extent > size)
                if is_outside and not (may_leave and rules.is_tested(statement, axis)):
                    raise PlanFault("edge", f"role {self.name} goes beyond dimension {axis} of {region.buffer.name} without predicates")

    def _allocate(self, buffer: Buffer) -> None:
        root = buffer.root
        channel = self.block.of_buffer.get(root)
        if channel is not None and any(channel_state(self.block.channels, channel, self.name).acquired.values()):
            raise PlanFault("placement", f"role {self.name} allocates {root.name} when channel {channel.name} has slots of it in use")
        if root in self.block.carried or buffer.alias is not None:
            return
        frame = Frame(kind="block", count=1, values=self.values, places={})
        self.block.places[root] = self.block.fresh(root, frame)

    def _acquire(self, channel: Channel) -> bool:
        state = channel_state(self.block.channels, channel, self.name)
        if not state.is_free(self.name):
            self.waiting = state.waits_for(self.name, to_acquire=True)
            return False
        number = state.acquire(self.name)
        if self.block.poisoned.get(channel, -1) < number:
            self.block.poisoned[channel] = number
            for buffer in channel.buffers:
                poison(self._slot(buffer.root, number % channel.depth).memory, buffer.root)
        return True

    def _put(self, channel: Channel) -> None:
        number = channel_state(self.block.channels, channel, self.name).hand_over(self.name)
        if not channel.is_transaction:
            return
        token = channel.token
        if token is None:
            raise PlanFault("membership", f"channel {channel.name} counts transactions and has no token")
        count = self.in_flight.issued(token)
        self.block.handed.setdefault((channel, number), []).append((self.in_flight, token, count))
        for one in self.in_flight.operations.get(token, ())[:count]:
            one.is_waited = True

    def _get(self, channel: Channel) -> bool:
        state = channel_state(self.block.channels, channel, self.name)
        if not state.is_full(self.name):
            self.waiting = state.waits_for(self.name, to_acquire=False)
            return False
        number = state.take(self.name)
        for in_flight, token, count in self.block.handed.get((channel, number), ()):
            in_flight.finish(token, count)
        return True

    def _turn(self, statement: Turn) -> bool:
        state = turn_state(self.block.turns, statement)
        if statement.phase == "pass":
            state.hand_on(self.name)
            return True
        if not state.can_take(self.name):
            self.waiting = state.waits_for(self.name)
            return False
        state.take()
        return True
