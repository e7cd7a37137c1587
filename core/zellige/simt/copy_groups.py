"""Groups of copies that land later: several that are always waited for together are one.

In: the body of a thread-level program. Out: the body in which groups are closed as seldom as its waits tell them apart. Every group that is
closed costs a lane an instruction, and the copies behind it wait for those before.

A *run* is commits of one list of statements with nothing between them that waits, commits or leaves the list. Where every run is a multiple
of q commits, and every wait leaves a multiple of q groups, groups can be told apart by q only: each q of them are one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd
from typing import Any

from zellige.ir.traverse import rebuilt, walk
from zellige.plan.facts import may_jump
from zellige.simt.ir import CommitCopies, WaitCopies


def with_few_groups(body: Sequence[Any]) -> tuple[Any, ...]:
    """The body, in which as many groups as its waits always count together are one."""
    commits = [len(run) for run in _runs(body)]
    if not commits:
        return tuple(body)
    together = gcd(*commits, *(n.leave for s in body for n in walk(s) if isinstance(n, WaitCopies)))
    return _merged(body, together) if together > 1 else tuple(body)


def _runs(body: Sequence[Any]) -> Iterator[list[int]]:
    """The places of the commits of each run, in the lists of statements of the body."""
    yield from _runs_here(body)
    for statement in body:
        for name in getattr(type(statement), "BODIES", ()):
            yield from _runs(getattr(statement, name))


def _runs_here(body: Sequence[Any]) -> Iterator[list[int]]:
    """The places of the commits of each run of one list."""
    run: list[int] = []
    for place, statement in enumerate(body):
        if isinstance(statement, CommitCopies):
            run.append(place)
        elif run and (may_jump(statement) or any(isinstance(n, (CommitCopies, WaitCopies)) for n in walk(statement))):
            yield run
            run = []
    if run:
        yield run


def _merged(body: Sequence[Any], together: int) -> tuple[Any, ...]:
    """The body without the commits that are not the last of ``together``, and with waits that count the others."""
    gone = {place for run in _runs_here(body) for number, place in enumerate(run, 1) if number % together}
    return tuple(_counted(statement, together) for place, statement in enumerate(body) if place not in gone)


def _counted(statement: Any, together: int) -> Any:
    if isinstance(statement, WaitCopies):
        return rebuilt(statement, leave=statement.leave // together)
    bodies = {name: _merged(getattr(statement, name), together) for name in getattr(type(statement), "BODIES", ())}
    return rebuilt(statement, **bodies) if bodies else statement
