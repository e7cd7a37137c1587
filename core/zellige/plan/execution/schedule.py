"""Who goes first: adversarial orders of the roles of a block, and of the moments at which asynchronous operations happen.

In: a seed. Out: a :class:`Schedule`, which chooses among the roles that have not ended and tells an operation when to happen. All orders
are ones that the plan allows, so a right plan gives the same result under each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from zellige.plan.execution.in_flight import Timing
from zellige.plan.nodes import PlannedLaunch

Strategy = Literal["random", "producers first", "consumers first", "longest delay"]
STRATEGIES: Final[tuple[Strategy, ...]] = ("random", "producers first", "consumers first", "longest delay")


class Schedule:
    """One order. ``strategy`` None takes the strategies in turn as the seed counts.

    *random* takes any role, statement by statement; *producers first* lets roles run as far ahead of their consumers as channels allow;
    *consumers first* lets data be used the moment it is there; *longest delay* holds one role back until nobody else can go on.
    Operations are early, late or torn at random, all late in one of three schedules, all torn in another.
    """

    def __init__(self, seed: int, strategy: Strategy | None = None) -> None:
        self.strategy: Strategy = strategy or STRATEGIES[seed % len(STRATEGIES)]
        self._random = np.random.default_rng(seed)
        self._timing: Timing | None = (None, "late", "torn")[(seed // len(STRATEGIES)) % 3]
        self._rank: dict[str, int] = {}

    def begin(self, launch: PlannedLaunch) -> None:
        """A block begins: rank the roles."""
        names = [role.name for role in launch.roles]
        depth = _distances(launch)
        match self.strategy:
            case "producers first":
                self._rank = {name: depth[name] for name in names}
            case "consumers first":
                self._rank = {name: -depth[name] for name in names}
            case "longest delay":
                late = names[int(self._random.integers(len(names)))]
                self._rank = {name: int(name == late) for name in names}
            case "random":
                self._rank = {}

    def order(self, names: Sequence[str]) -> list[str]:
        """The roles in the order in which to try them."""
        shuffled = [names[i] for i in self._random.permutation(len(names))]
        return sorted(shuffled, key=lambda name: self._rank.get(name, 0))

    def timing(self) -> Timing:
        """When the operation issued now happens."""
        return self._timing or ("early", "late", "torn")[int(self._random.integers(3))]

    def finishes_one(self) -> bool:
        """Whether an operation in flight finishes now, without anybody waiting for it."""
        return self._timing is None and bool(self._random.integers(8) == 0)

    def choose(self, count: int) -> int:
        """A number below ``count``."""
        return int(self._random.integers(count))


def _distances(launch: PlannedLaunch) -> dict[str, int]:
    """How many channels lie between a role and the first producers; cycles end after as many steps as there are roles."""
    depth = {role.name: 0 for role in launch.roles}
    for _ in launch.roles:
        for channel in launch.channels:
            sources = [depth[name] for name in channel.producers if name in depth]
            for name in channel.consumers:
                if name in depth and name not in channel.producers and sources:
                    depth[name] = min(max(depth[name], max(sources) + 1), len(depth))
    return depth
