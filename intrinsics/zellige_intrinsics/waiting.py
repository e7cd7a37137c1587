"""What waiting and signalling mean: small machines that a simulator drives, one for each mechanism.

In: the operations of the mechanism in the order in which they happen. Out: whether a wait may pass. A use that hardware leaves undefined
raises E332.
"""

from __future__ import annotations

from collections import deque
from dataclasses import field

from zellige.diagnostics import catalogue
from zellige.records import dataclass


@dataclass(slots=True)
class TransactionBarrier:
    """A barrier whose phase ends when all arrivals are in and all expected bytes have come; the next phase begins at once.

    ``test(parity)`` passes when the phase of that parity is over: the phase before the current one has the parity ``phase ^ 1``.
    """

    arrivals: int = 0
    pending: int = 0
    transactions: int = 0  # bytes expected and not yet arrived; negative while bytes come before they are announced
    phase: int = 0

    def initialise(self, arrivals: int) -> None:
        if arrivals < 1:
            raise catalogue.E332.error(mechanism="a transaction barrier", reason=f"it is initialised for {arrivals} arrivals")
        self.arrivals = self.pending = arrivals
        self.transactions = self.phase = 0

    def expect(self, count: int) -> None:
        self.transactions += count

    def complete(self, count: int) -> None:
        self.transactions -= count
        self._advance()

    def arrive(self, count: int = 1) -> None:
        if not self.arrivals or count > self.pending:
            raise catalogue.E332.error(mechanism="a transaction barrier", reason=f"{count} arrivals where {self.pending} are pending")
        self.pending -= count
        self._advance()

    def test(self, parity: int) -> bool:
        return self.phase % 2 != parity

    def _advance(self) -> None:
        if self.pending == 0 and self.transactions == 0:
            self.phase += 1
            self.pending = self.arrivals


@dataclass(slots=True)
class InOrderGroups:
    """Work is gathered into groups, groups end in order; ``wait(n)`` passes when at most n of the groups closed last are unfinished."""

    open_work: int = 0
    groups: deque[int] = field(default_factory=deque)  # unfinished pieces of each closed group, oldest first

    def issue(self) -> None:
        self.open_work += 1

    def commit(self) -> None:
        self.groups.append(self.open_work)
        self.open_work = 0

    def finish(self) -> None:
        """The oldest piece of a closed group is done."""
        while self.groups and self.groups[0] == 0:
            self.groups.popleft()
        if not self.groups:
            raise catalogue.E332.error(mechanism="in-order groups", reason="work ends that belongs to no closed group")
        self.groups[0] -= 1

    def wait(self, in_flight: int) -> bool:
        unfinished = sum(count > 0 for count in self.groups)
        return unfinished <= in_flight


@dataclass(slots=True)
class WaitCounter:
    """A counter of work in flight: issued up, finished down (in order); a wait passes at or below its number, which has a largest value."""

    limit: int = 63
    in_flight: int = 0

    def issue(self) -> None:
        self.in_flight += 1

    def finish(self) -> None:
        if self.in_flight == 0:
            raise catalogue.E332.error(mechanism="a wait counter", reason="work ends that was not issued")
        self.in_flight -= 1

    def wait(self, count: int) -> bool:
        if not 0 <= count <= self.limit:
            raise catalogue.E332.error(mechanism="a wait counter", reason=f"it cannot wait for {count}, only for 0 to {self.limit}")
        return self.in_flight <= count


@dataclass(slots=True)
class FlagPair:
    """One engine sets, another waits and clears. Setting a flag that is set and not yet taken is an error of the program."""

    is_set: bool = False

    def set(self) -> None:
        if self.is_set:
            raise catalogue.E332.error(mechanism="a flag", reason="it is set again before it was taken")
        self.is_set = True

    def take(self) -> bool:
        passed, self.is_set = self.is_set, False
        return passed


@dataclass(slots=True)
class Rendezvous:
    """A plain barrier: passes when ``parties`` have come, then starts anew."""

    parties: int = 1
    waiting: int = 0
    rounds: int = 0

    def arrive(self) -> int:
        """The round whose end this party waits for."""
        own = self.rounds
        self.waiting += 1
        if self.waiting == self.parties:
            self.waiting, self.rounds = 0, self.rounds + 1
        return own

    def test(self, own: int) -> bool:
        return self.rounds > own
