"""Overlap within one role: copies that run ahead of the loop they stand in, and a product that runs ahead of what uses its result.

In: a loop of a role, the tiles with versions, and how far to run ahead. Out: the software pipeline in its place (see
:mod:`zellige.plan.pipeline`), or the reason why the loop stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from zellige.ir.expr import Buffer
from zellige.ir.stmt import For, Gemm, Stmt
from zellige.plan.channels import Bound
from zellige.plan.facts import LaunchFacts
from zellige.plan.nodes import Acquire, Channel, Get, Issue, PlanStmt, Put, Release, Slotted, Token, Wait
from zellige.plan.pipeline import Schedule, Segment, pipelined, replicable, why_not
from zellige.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RunAhead:
    """A loop whose copies run ahead: the statements that take its place."""

    loop: For
    statements: tuple[Stmt | PlanStmt, ...]


def schedule_of_copies(loop: For, bound: Sequence[Bound]) -> Schedule:
    """Copies of a channel of depth d run d - 1 iterations before everything else, at the begin of a step."""
    depth = max(b.channel.depth for b in bound) - 1
    made: dict[int, int] = {}
    for b in bound:
        for position in _makers(loop, b):
            made[position] = depth - (b.channel.depth - 1)
    count = len(loop.body)
    stages = tuple(made.get(i, depth) for i in range(count))
    orders = tuple(i if i in made else count + i for i in range(count))
    return Schedule(stage_of=stages, order_of=orders)


def _makers(loop: For, bound: Bound) -> list[int]:
    """The positions in the loop's body at which a channel's tiles are made."""
    buffers = set(bound.channel.buffers)
    return [i for i, s in enumerate(loop.body) if any(region.buffer.root in buffers for region in s.writes())]


def run_ahead(
    facts: LaunchFacts, loop: For, bound: Sequence[Bound], schedule: Schedule, token: Token, asynchronous: frozenset[int]
) -> RunAhead | str:
    """The pipeline of ``loop`` by ``schedule``. ``asynchronous`` holds the identity of the copies that are issued."""
    versioned = frozenset(buffer for b in bound for buffer in b.channel.buffers)
    copies = replicable(facts, loop)
    reason = why_not(facts, loop, schedule, versioned, copies)
    if reason is not None:
        return reason
    by_step = sorted((i for i in range(len(loop.body)) if i not in copies), key=lambda i: schedule.order_of[i])
    readers: dict[int, list[int]] = {}
    for number, b in enumerate(bound):
        buffers = set(b.channel.buffers)
        makers = set(_makers(loop, b))
        using = [i for i in by_step if i not in makers and buffers & facts.roots(loop.body[i])]
        if not using:
            return f"{b.channel.name} is not used in the loop"
        if len({schedule.stage_of[i] for i in using}) > 1:
            return f"{b.channel.name} would be used in several stages"
        readers[number] = using
    runs: list[list[int]] = []
    for position in by_step:
        if runs and schedule.stage_of[runs[-1][-1]] == schedule.stage_of[position]:
            runs[-1].append(position)
        else:
            runs.append([position])
    writer = _Steps(facts, loop, bound, schedule, token, asynchronous, readers)
    segments = []
    placed: set[int] = set()
    for number, run in enumerate(runs):
        needed = _slice(facts, loop, run, copies, placed, is_last=number == len(runs) - 1)
        placed |= set(needed)
        everything = sorted({*needed, *run}, key=lambda i: i if i in needed else schedule.order_of[i] + len(loop.body))
        scalars = tuple(loop.body[i] for i in everything if i in needed and i not in run)
        segments.append(
            Segment(
                stage=schedule.stage_of[run[0]],
                statements=scalars + writer.run(run, steady=True),
                at_ends=scalars + writer.run(run, steady=False),
            )
        )
    return RunAhead(loop=loop, statements=pipelined(loop, segments))


def _slice(facts: LaunchFacts, loop: For, run: Sequence[int], copies: frozenset[int], placed: set[int], *, is_last: bool) -> list[int]:
    """The replicated scalars that a run needs, in their order; the last run also takes those that none needs."""
    needed_variables = {v for i in run for v in facts.used(loop.body[i])}
    chosen: set[int] = set()
    for position in sorted(copies, reverse=True):
        statement = loop.body[position]
        if facts.assigned(statement) & needed_variables or (is_last and position not in placed):
            chosen.add(position)
            needed_variables |= facts.used(statement)
    return sorted(chosen)


class _Steps:
    """Writes the statements of a step with what channels and tokens need around them."""

    def __init__(
        self, facts: LaunchFacts, loop: For, bound: Sequence[Bound], schedule: Schedule, token: Token, asynchronous: frozenset[int],
        readers: Mapping[int, Sequence[int]],
    ) -> None:  # fmt: skip
        self._loop = loop
        self._bound = bound
        self._schedule = schedule
        self._token = token
        self._asynchronous = asynchronous
        self._readers = readers
        self._makers = {number: sorted(_makers(loop, b), key=lambda i: schedule.order_of[i]) for number, b in enumerate(bound)}
        self._issues = [i for i in range(len(loop.body)) if id(loop.body[i]) in asynchronous]

    def run(self, positions: Sequence[int], *, steady: bool) -> tuple[Stmt | PlanStmt, ...]:
        out: list[Stmt | PlanStmt] = []
        for position in positions:
            statement = self._loop.body[position]
            lags: list[tuple[Channel, int]] = []
            after: list[Stmt | PlanStmt] = []
            for number, b in enumerate(self._bound):
                if self._makers[number][0] == position:
                    out.append(Acquire(channel=b.channel))
                if position in self._readers[number]:
                    lags.append((b.channel, 0))
                    if position == self._readers[number][0]:
                        out += self._arrival(number, position, steady=steady)
                    if position == self._readers[number][-1]:
                        after.append(Release(channel=b.channel))
            if id(statement) in self._asynchronous:
                out.append(Issue(operation=statement, token=self._token, span=statement.span))
            elif lags:
                out.append(Slotted(operation=statement, lags=tuple(lags), span=statement.span))
            else:
                out.append(statement)
            out += after
        return tuple(out)

    def _arrival(self, number: int, position: int, *, steady: bool) -> list[Stmt | PlanStmt]:
        """Before the first use of a slot: its copies are waited for, and it passes from the role to itself."""
        channel = self._bound[number].channel
        out: list[Stmt | PlanStmt] = []
        awaited = [i for i in self._makers[number] if i in self._issues]
        if awaited:
            left = self._left_in_flight(awaited[-1], position) if steady else self._issued_with(awaited[-1])
            out.append(Wait(token=self._token, leave_in_flight=left))
        return [*out, Put(channel=channel), Get(channel=channel)]

    def _issued_with(self, last: int) -> int:
        """How many operations of the same iteration are issued after the one at ``last``, in the same step: they always are, whatever
        later iterations there are."""
        stage, order = self._schedule.stage_of, self._schedule.order_of
        return sum(1 for issue in self._issues if stage[issue] == stage[last] and order[issue] > order[last])

    def _left_in_flight(self, last: int, reader: int) -> int:
        """How many operations have been issued after the one at ``last`` of the iteration that ``reader`` is at."""
        stage, order = self._schedule.stage_of, self._schedule.order_of
        total = 0
        for issue in self._issues:
            is_later_in_step = 0 if order[issue] < order[reader] else 1
            is_up_to_last = 0 if order[issue] > order[last] else 1
            total += max(0, stage[reader] - stage[last] - is_later_in_step - is_up_to_last + 1)
        return total


# ---- a product ahead of its use


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """A loop whose first product, with what prepares it, may run an iteration ahead of the rest."""

    loop: For
    product: Gemm
    last: int
    versioned: tuple[Buffer, ...]


def find_skew(
    facts: LaunchFacts, loop: For, tiles: Mapping[Buffer, object], is_asynchronous: Callable[[Gemm], bool], skipped: frozenset[int]
) -> Skew | str | None:
    """The skew that a loop allows; a reason where a product is followed by its use but may not run ahead; None where there is nothing to
    win.

    ``skipped`` are positions that another role runs.
    """
    positions = [i for i in range(len(loop.body)) if i not in skipped]
    products = [i for i in positions if isinstance(loop.body[i], Gemm) and is_asynchronous(loop.body[i])]  # type: ignore[arg-type]
    if len(products) < 2:
        return None
    at = products[0]
    product = loop.body[at]
    assert isinstance(product, Gemm)
    result = product.c.buffer.root
    users = [i for i in positions if i > at and result in facts.roots(loop.body[i])]
    if not users:
        return None
    early = [i for i in positions if i <= at]
    late = [i for i in positions if i > at]
    for root in {root for i in skipped for root in facts.written(loop.body[i])}:
        if all(any(root in facts.roots(loop.body[i]) for i in part) for part in (early, late)):
            # the slot got last is the next iteration's when the rest of this one runs
            return f"{root.name} comes from another role and is used by the product and after it"
    made = {root for i in early for root in facts.written(loop.body[i])}
    versioned = []
    for root in made:
        if not any(root in facts.roots(loop.body[i]) for i in late):
            continue
        first = next(i for i in early if root in facts.roots(loop.body[i]))
        if root not in tiles or not facts.kills(loop.body[first], root):
            return f"{root.name} keeps something from one iteration to the next"
        if any(root in facts.roots(s) for s in facts.launch.body if not _holds(s, loop)) or _used_beside(facts, loop, root):
            return f"{root.name} is used after the loop"
        versioned.append(root)
    copies = replicable(facts, loop)
    count = len(loop.body)
    schedule = Schedule(stage_of=tuple(0 if i <= at else 1 for i in range(count)), order_of=tuple(range(count)))
    reason = why_not_among(facts, loop, schedule, frozenset(versioned), copies, frozenset(positions))
    if reason is not None:
        return reason
    return Skew(loop=loop, product=product, last=at, versioned=tuple(versioned))


def why_not_among(
    facts: LaunchFacts, loop: For, schedule: Schedule, versioned: frozenset[Buffer], copies: frozenset[int], positions: frozenset[int]
) -> str | None:
    """As :func:`zellige.plan.pipeline.why_not` for the statements of one role: edges to statements of other roles are kept by channels."""
    others = frozenset(i for i in range(len(loop.body)) if i not in positions)
    return why_not(facts, loop, schedule, versioned, copies | others)


def _holds(statement: Stmt, loop: For) -> bool:
    pending = [statement]
    while pending:
        top = pending.pop()
        if top is loop:
            return True
        for name in type(top).BODIES:
            pending.extend(getattr(top, name))
    return False


def _used_beside(facts: LaunchFacts, loop: For, root: Buffer) -> bool:
    """Whether ``root`` is used in a statement around ``loop`` outside of it."""
    total = sum(1 for s in facts.launch.body for a in facts.accesses(s) if a.root is root)
    return total != sum(1 for a in facts.accesses(loop) if a.root is root)


def skewed(facts: LaunchFacts, woven: For, skew: Skew, channel: Channel | None, token: Token, inner: object) -> tuple[Stmt | PlanStmt, ...]:
    """The pipeline in the place of ``woven``, the role's own form of the loop.

    A step starts the product of an iteration, does everything else for the iteration before while it runs, and then takes its result.
    ``inner`` puts the other products of that rest in flight.
    """
    assert callable(inner)
    body = list(woven.body)
    at = next(i for i, s in enumerate(body) if s is skew.product)
    end = at + 1
    while end < len(body) and isinstance(body[end], Release):
        end += 1
    scalars = scalars_of_run(facts, skew.loop, body, [skew.loop.body[i] for i in range(skew.last + 1, len(skew.loop.body))])
    start: list[Stmt | PlanStmt] = [*([Acquire(channel=channel)] if channel is not None else []), *body[:at]]
    start.append(Issue(operation=skew.product, token=token, span=skew.product.span))
    finish: list[Stmt | PlanStmt] = [Wait(token=token), *body[at + 1 : end]]
    if channel is not None:
        finish.append(Put(channel=channel))
    rest: list[Stmt | PlanStmt] = []
    held = set(channel.buffers) if channel is not None else set()
    for statement in body[end:]:
        if channel is not None and not isinstance(statement, (Acquire, Get, Put, Release)) and held & facts.roots(statement):
            rest.append(Slotted(operation=statement, lags=((channel, 0),), span=statement.span))
        else:
            rest.append(statement)
    if channel is not None:
        rest = [Get(channel=channel), *rest, Release(channel=channel)]
    return pipelined(
        woven,
        (
            Segment(stage=0, statements=tuple(start)),
            Segment(stage=1, statements=(*scalars, *inner(rest))),
            Segment(stage=0, statements=tuple(finish)),
        ),
    )


def scalars_of_run(
    facts: LaunchFacts, loop: For, body: Sequence[Stmt | PlanStmt], run: Sequence[Stmt | PlanStmt]
) -> tuple[Stmt | PlanStmt, ...]:
    """The scalar statements of the loop's body before ``run`` that it needs again, of those that ``body``, a role's form of it, has."""
    own = [i for i, s in enumerate(loop.body) if any(s is other for other in run)]
    chosen = _slice(facts, loop, own, replicable(facts, loop), set(), is_last=False)
    held = {id(s) for s in body}
    return tuple(loop.body[i] for i in chosen if own and i < own[0] and id(loop.body[i]) in held)
