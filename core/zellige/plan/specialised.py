"""A block of a producer and consumers: copies in one role that runs ahead, everything else in roles that share the rows.

In: a context on a machine of lanes whose parts run programs of their own. Out: :class:`~zellige.plan.context.Programs`, or None where one
role is better.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zellige.ir.expr import Var
from zellige.ir.stmt import For, Stmt
from zellige.ir.traverse import rebuilt
from zellige.plan.ahead import tell
from zellige.plan.budgets import fits, most_copies, register_tiles, with_budgets
from zellige.plan.channels import bind, group_streams
from zellige.plan.context import Context, Programs
from zellige.plan.delay import Delay, delayed, find_delay
from zellige.plan.facts import bytes_of
from zellige.plan.inflight import ProductsInFlight
from zellige.plan.nodes import Channel, Issue, PlanStmt, Put, Role, Token, Wait
from zellige.plan.overlap import Skew, find_skew, skewed
from zellige.plan.producer import assign_producer, candidates, copies_before_loops, why_no_copies
from zellige.plan.roles import CONSUMER, PRODUCER, Assignment, operations_of, pipelined_loops
from zellige.plan.rows import why_not_by_rows
from zellige.plan.weave import HeaderReadsShared, Weaver

_MOST = 3
"""Consumers at most: more would leave each too few registers."""


def specialised(context: Context) -> Programs | None:
    """The programs of a block with a role that only copies; None where nothing can run ahead."""
    question = "which roles does a block have?"
    ahead = candidates(context)
    chosen = [a.copy for a in ahead] + copies_before_loops(context, ahead)
    assignment, sharing, view = assign_producer(context, chosen)
    if sharing is None or assignment is None or view is None:
        why = why_no_copies(context)
        context.decisions.take(question, "one", why, rejected=(("a producer for copies", why),), topic="roles")
        return None
    groups = group_streams(context.facts, view, assignment, sharing.streams, context.bodies())
    if max(g.wanted for g in groups) < 2:
        why = "with one version of each tile a producer would only wait"
        context.decisions.take(question, "one", why, rejected=(("a producer for copies", why),), topic="roles")
        return None
    context.own(view)
    skews, delays = _overlaps(context, assignment)
    extra = {buffer: 2 for skew in skews for buffer in skew.versioned}
    depths, placed, extra = context.depths(groups, frozenset(), extra)
    copies = _consumer_copies(context, assignment)
    if extra and not fits(context, placed, copies):
        names = ", ".join(b.name for b in extra)
        context.decisions.take(
            "does a product run ahead of what uses it?", "no", f"two versions of {names} do not fit into the registers of a consumer",
            rejected=(("by one iteration", "the other tiles would lose their registers"),),
        )  # fmt: skip
        depths, placed, extra = context.depths(groups, frozenset(), {})
    skews = tuple(s for s in skews if all(b in extra for b in s.versioned))
    if max(depths.values()) < 2:
        rejected = (("a producer for copies", "it would only wait"),)
        context.decisions.take(question, "one", "only one version of each tile fits", rejected=rejected, topic="roles")
        return None
    copy_token = Token(name="copies", engine=ahead[0].overlap.path.engine if ahead else "")
    bound = bind(groups, depths, context.machine, {PRODUCER: copy_token}, context.decisions)
    weaver = Weaver(context.facts, view, assignment, bound, (), context.mechanism())
    try:
        bodies = weaver.programs()
    except HeaderReadsShared:  # no buffer changes hands in place here
        raise AssertionError from None
    producer = _issued(bodies[PRODUCER], {id(c) for c in chosen}, copy_token)
    writer = _Consumer(context, skews, delays, copies)
    consumer = writer.program(bodies[CONSUMER])
    for one in ahead:
        if any(c is one.copy for c in chosen):
            tell(one.overlap, context.decisions)
    tiles = ", ".join(sorted({b.name for c in chosen for b in context.facts.written(c)}))
    context.decisions.take(
        question, f"a producer for copies and {copies} consumer{'s' if copies > 1 else ''}",
        f"the copies to {tiles} depend on nothing that the others compute, so they run ahead",
        rejected=(("one role", "it would issue copies between products, and wait for both"),), topic="roles",
    )  # fmt: skip
    roles = with_budgets(
        context, Role(name=PRODUCER, engine=assignment.engines[PRODUCER], body=producer),
        Role(name=CONSUMER, engine=assignment.engines[CONSUMER], body=consumer, count=copies), placed,
    )  # fmt: skip
    return Programs(roles=roles, channels=(*(b.channel for b in bound), *writer.channels), placements=placed)


def _overlaps(context: Context, assignment: Assignment) -> tuple[tuple[Skew, ...], tuple[Delay, ...]]:
    """The loops in which products and the lanes' work on their results run at the same time: by a product that ends late, else by one that
    runs ahead."""
    found: list[Skew] = []
    delays: list[Delay] = []
    for loop in pipelined_loops(context.facts.launch.body):
        skipped = frozenset(i for i, s in enumerate(loop.body) if assignment.of.get(id(s)) == PRODUCER)
        late = find_delay(context.facts, loop, context.is_asynchronous, skipped)
        if isinstance(late, Delay):
            delays.append(late)
            continue
        answer = find_skew(context.facts, loop, dict.fromkeys(context.buffers), context.is_asynchronous, skipped)
        if isinstance(answer, str):
            context.decisions.take("does a product run ahead of what uses it?", "no", answer, where=loop.span)
        elif answer is not None:
            found.append(answer)
    # of nested loops only the inner one: its iterations are the more
    loops = [*(s.loop for s in found), *(d.loop for d in delays)]
    outer = [a for a in loops if any(b is not a and any(inner is b for inner in _nested(a)) for b in loops)]
    return tuple(s for s in found if s.loop not in outer), tuple(d for d in delays if d.loop not in outer)


class _Consumer:
    """Writes the consumer's program: loops with a product ahead or late in their places, other products in flight, and the channels
    within it."""

    def __init__(self, context: Context, skews: Sequence[Skew], delays: Sequence[Delay], copies: int) -> None:
        self._context = context
        self._copies = copies
        self._by_var: dict[Var, Skew | Delay] = {**{s.loop.var: s for s in skews}, **{d.loop.var: d for d in delays}}
        self._token = Token(name="product", engine=context.product_engine())
        self._ahead = Token(name="ahead", engine=context.product_engine())
        self._writer = ProductsInFlight(context.facts, self._token, context.is_asynchronous)
        self.channels: list[Channel] = []

    def program(self, body: Sequence[Stmt | PlanStmt]) -> tuple[Stmt | PlanStmt, ...]:
        """``body`` as the role runs it; nothing is left in flight at its end."""
        made: list[Stmt | PlanStmt] = []
        plain: list[Stmt | PlanStmt] = []

        def flush() -> None:
            made.extend(self._context.in_flight(plain, self._token))
            plain.clear()

        for statement in body:
            if isinstance(statement, For) and statement.var in self._by_var:
                flush()
                found = self._by_var[statement.var]
                made.extend(self._late(statement, found) if isinstance(found, Delay) else self._ahead_of_its_use(statement, found))
            elif any(isinstance(inner, For) and inner.var in self._by_var for inner in _nested(statement)):
                flush()
                made.append(rebuilt(statement, **{name: self.program(getattr(statement, name)) for name in type(statement).BODIES}))
            else:
                plain.append(statement)
        flush()
        return tuple(made)

    def _late(self, loop: For, delay: Delay) -> tuple[Stmt | PlanStmt, ...]:
        first, second = delay.first.c.buffer.name, delay.second.c.buffer.name
        self._context.decisions.take(
            "does a product run beside the lanes' work?", f"the product into {second}, an iteration late",
            f"it is started behind the next product into {first} and runs while the lanes work on {first}; every tile keeps one version",
            rejected=(
                ("each product is waited for at once", "unit and lanes would take turns"),
                (f"the product into {first} an iteration ahead", f"{first} would need two versions in registers"),
            ), where=delay.second.span,
        )  # fmt: skip
        takes_turns = self._context.machine.takes_turns(self._copies)
        if takes_turns:
            self._context.decisions.take(
                "in which order do the consumers start products?", "in turns, both products of a step together",
                "while one of them works on its scores the unit multiplies for the others",
                rejected=(("as they come", "they would meet at the unit, and all work on scores at one time"),), where=delay.first.span,
            )  # fmt: skip
        turn = CONSUMER if takes_turns else ""
        return delayed(self._context.facts, loop, delay, self._token, self._context.is_asynchronous, turn)

    def _ahead_of_its_use(self, loop: For, skew: Skew) -> tuple[Stmt | PlanStmt, ...]:
        channel = None
        if skew.versioned:
            size = sum(bytes_of(b) or 0 for b in skew.versioned)
            channel = Channel(
                name="_".join(b.name for b in skew.versioned), buffers=skew.versioned, depth=2, producers=(CONSUMER,),
                consumers=(CONSUMER,), bytes=size, scope="role", mechanism="order",
            )  # fmt: skip
            self.channels.append(channel)
        result = skew.product.c.buffer.name
        self._context.decisions.take(
            "does a product run ahead of what uses it?", f"the product into {result}, by one iteration",
            f"while the unit multiplies for the next iteration, the lanes work on this one; {result} has two versions",
            rejected=(("each product is waited for at once", "unit and lanes would take turns"),), where=skew.product.span,
        )  # fmt: skip
        return skewed(self._context.facts, loop, skew, channel, self._ahead, self._writer.body)


def _nested(statement: Stmt | PlanStmt) -> Iterator[Stmt | PlanStmt]:
    pending: list[Stmt | PlanStmt] = [inner for name in type(statement).BODIES for inner in getattr(statement, name)]
    while pending:
        top = pending.pop()
        yield top
        pending.extend(inner for name in type(top).BODIES for inner in getattr(top, name))


def _consumer_copies(context: Context, assignment: Assignment) -> int:
    """How many consumers share the rows: one for each block of rows that the product unit takes, at most three, where none of them needs a
    row of another."""
    rows = [(p.sizes[0] or 0) // p.unit.m for p in context.legal.products.values() if p.unit is not None and p.unit.m > 1]
    wanted = most_copies(context, max(1, min(_MOST, min(rows, default=1))))
    while wanted > 1 and any((p.sizes[0] or 0) % (p.unit.m * wanted) for p in context.legal.products.values() if p.unit is not None):
        wanted -= 1
    if wanted == 1:
        return 1
    operations = [s for s in operations_of(context.facts.launch.body) if assignment.of[id(s)] == CONSUMER]
    reason = why_not_by_rows(context.facts, operations, register_tiles(context))
    if reason is None:
        return wanted
    context.decisions.take("do several consumers share the rows?", "no", reason, rejected=((f"{wanted} consumers", reason),))
    return 1


def _issued(body: tuple[Stmt | PlanStmt, ...], copies: set[int], token: Token) -> tuple[Stmt | PlanStmt, ...]:
    """``body`` with the copies of ``copies`` issued on ``token``."""
    made: list[Stmt | PlanStmt] = []
    for statement in body:
        if id(statement) in copies:
            made.append(Issue(operation=statement, token=token, span=statement.span))  # type: ignore[arg-type]
        elif isinstance(statement, Put) and not statement.channel.is_transaction:
            made += [Wait(token=token), statement]  # nothing but the wait tells that the copies have landed
        elif type(statement).BODIES:
            made.append(rebuilt(statement, **{name: _issued(getattr(statement, name), copies, token) for name in type(statement).BODIES}))
        else:
            made.append(statement)
    return tuple(made)
