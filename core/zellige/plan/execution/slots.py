"""The state of channels and turns while a plan runs: who has acquired, put, got and released how many slots.

In: the channels of a launch. Out: :class:`ChannelState`, which says whether a role may go on and which slot an access of it means, and
:class:`TurnState`. Slots are numbered from 0 over the life of a block; slot number n lies in version ``n % depth``.
The static checks and the plan interpreter share this, so they mean the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from zellige.ir.expr import Buffer
from zellige.plan.nodes import Channel, Turn
from zellige.records import dataclass


class PlanFault(Exception):
    """A plan does what its own nodes forbid, or its roles wait for each other without end. ``kind`` is a short word for which."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


@dataclass(slots=True, kw_only=True)
class ChannelState:
    """How far each role is: slots acquired and put by each producer, got and released by each consumer."""

    channel: Channel
    acquired: dict[str, int] = field(default_factory=dict)
    put: dict[str, int] = field(default_factory=dict)
    got: dict[str, int] = field(default_factory=dict)
    released: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def of(channel: Channel) -> ChannelState:
        """Nothing has happened yet."""
        producers, consumers = dict.fromkeys(channel.producers, 0), dict.fromkeys(channel.consumers, 0)
        return ChannelState(channel=channel, acquired=dict(producers), put=dict(producers), got=dict(consumers), released=dict(consumers))

    def _check_member(self, role: str, members: Iterable[str], action: str) -> None:
        if role not in members:
            raise PlanFault("membership", f"role {role} {action} channel {self.channel.name} and is not one of its roles for that")

    def is_free(self, role: str) -> bool:
        """Whether ``role`` may acquire its next slot."""
        self._check_member(role, self.acquired, "acquires a slot of")
        number = self.acquired[role]
        return all(released > number - self.channel.depth for released in self.released.values())

    def acquire(self, role: str) -> int:
        """Take the next slot for writing; its number."""
        self.acquired[role] += 1
        return self.acquired[role] - 1

    def hand_over(self, role: str) -> int:
        """Put the slot acquired first; its number."""
        self._check_member(role, self.put, "puts a slot of")
        if self.put[role] >= self.acquired[role]:
            raise PlanFault("holding", f"role {role} puts a slot of channel {self.channel.name} and holds none that it acquired")
        self.put[role] += 1
        return self.put[role] - 1

    def is_full(self, role: str) -> bool:
        """Whether ``role`` may get its next slot."""
        self._check_member(role, self.got, "gets a slot of")
        return all(put > self.got[role] for put in self.put.values())

    def take(self, role: str) -> int:
        """Get the next slot for reading; its number."""
        self.got[role] += 1
        return self.got[role] - 1

    def give_back(self, role: str) -> int:
        """Release the slot got first; its number."""
        self._check_member(role, self.released, "releases a slot of")
        if self.released[role] >= self.got[role]:
            raise PlanFault("holding", f"role {role} releases a slot of channel {self.channel.name} and holds none that it got")
        self.released[role] += 1
        return self.released[role] - 1

    def number_for(self, role: str, buffer: Buffer, lag: int | None) -> int:
        """The number of the slot that an operation of ``role`` means by a buffer of this channel.

        The slot acquired last where the role is a producer, unless it is a consumer as well and a ``lag`` is given; else the slot got
        ``lag`` gets before the last. Raises PlanFault where the role does not hold that slot.
        """
        means_acquired = role in self.acquired and (lag is None or role not in self.got)
        number = self._acquired_number(role) if means_acquired else self._got_number(role, lag or 0)
        if number is None:
            behind = f", {lag} behind the last one got" if lag else ""
            slot = f"a slot of channel {self.channel.name} that it does not hold{behind}"
            raise PlanFault("holding", f"role {role} touches {buffer.name} in {slot}")
        return number

    def _acquired_number(self, role: str) -> int | None:
        number = self.acquired.get(role, 0) - 1
        return number if number >= self.put.get(role, 0) else None

    def _got_number(self, role: str, lag: int) -> int | None:
        number = self.got.get(role, 0) - 1 - lag
        return number if number >= self.released.get(role, 0) and number >= 0 else None

    def imbalance(self) -> list[str]:
        """What is left over when every role has ended; empty where all counts agree."""
        name = self.channel.name
        found = [
            f"role {role} acquired {count} slots of channel {name} and put {self.put[role]}"
            for role, count in self.acquired.items()
            if count != self.put[role]
        ]
        found += [
            f"role {role} got {count} slots of channel {name} and released {self.released[role]}"
            for role, count in self.got.items()
            if count != self.released[role]
        ]
        puts, gets = set(self.put.values()), set(self.got.values())
        if len(puts | gets) > 1:
            counts = ", ".join([f"{role} put {n}" for role, n in self.put.items()] + [f"{role} got {n}" for role, n in self.got.items()])
            found.append(f"the counts of channel {name} do not balance: {counts}")
        return found

    def waits_for(self, role: str, *, to_acquire: bool) -> str:
        """Whom ``role`` waits for, in words."""
        if to_acquire:
            number = self.acquired[role] - self.channel.depth
            late = [consumer for consumer, released in self.released.items() if released <= number]
            slot = f"slot {self.acquired[role]} of channel {self.channel.name} (depth {self.channel.depth})"
            return f"role {role} waits to acquire {slot} until {_names(late)} released slot {number}"
        late = [producer for producer, put in self.put.items() if put <= self.got[role]]
        return f"role {role} waits to get slot {self.got[role]} of channel {self.channel.name} until it is put by {_names(late)}"


@dataclass(slots=True, kw_only=True)
class TurnState:
    """Whose turn it is: the role at ``passed % len(order)``, which may have taken it."""

    name: str
    order: tuple[str, ...]
    passed: int = 0
    is_taken: bool = False

    @property
    def holder(self) -> str:
        """The role whose turn it is."""
        return self.order[self.passed % len(self.order)]

    def can_take(self, role: str) -> bool:
        """Whether ``role`` may go on from a "take"."""
        if role not in self.order:
            raise PlanFault("membership", f"role {role} takes turn {self.name}, whose order is {_names(self.order)}")
        return self.holder == role and not self.is_taken

    def waits_for(self, role: str) -> str:
        """What ``role`` waits for, in words."""
        return f"role {role} waits for its turn {self.name}, which role {self.holder} holds"

    def take(self) -> None:
        """The role whose turn it is begins it."""
        self.is_taken = True

    def hand_on(self, role: str) -> None:
        """``role`` ends its turn."""
        if self.holder != role or not self.is_taken:
            raise PlanFault("holding", f"role {role} passes turn {self.name} and has not taken it")
        self.passed += 1
        self.is_taken = False

    def imbalance(self) -> list[str]:
        """What is left over when every role has ended: a turn that was taken and not passed on."""
        return [f"role {self.holder} took turn {self.name} and did not pass it on"] if self.is_taken else []


def channel_state(channels: Mapping[Channel, ChannelState], channel: Channel, role: str) -> ChannelState:
    """How far ``channel`` is, of which a role makes use. Raises PlanFault for one that the launch does not list."""
    state = channels.get(channel)
    if state is None:
        raise PlanFault("membership", f"role {role} uses channel {channel.name}, which the launch does not list")
    return state


def turn_state(turns: dict[str, TurnState], statement: Turn) -> TurnState:
    """The state of the turn that ``statement`` names, made at its first use."""
    found = turns.setdefault(statement.name, TurnState(name=statement.name, order=statement.order))
    if found.order != statement.order:
        raise PlanFault("membership", f"turn {statement.name} has two orders: {_names(found.order)} and {_names(statement.order)}")
    return found


def _names(roles: Iterable[str]) -> str:
    return ", ".join(roles) or "nobody"
