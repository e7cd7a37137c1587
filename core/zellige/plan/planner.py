"""The planner: from a kernel and the capabilities of a target to a plan with the reason of every decision.

In: a verified kernel and capabilities. Out: a :class:`~zellige.plan.nodes.PlannedKernel`. Raises CompileError E301 (tiles do not fit) and
E302 (too many lanes); everything else is planned, conservatively where it is not understood.

The order of passes for a launch, each a module::

    legalise (products) -> spaces -> choices -> roles -> streams -> channels (depths that fit: place)
        -> weave -> overlap -> in flight -> split -> launch order

Products and their order of k are chosen first, from the kernel and the target alone: stages, roles and depths never change a bit of the
result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from zellige.analysis.bounds import Scope
from zellige.diagnostics import catalogue
from zellige.ir.expr import Buffer, Var, constant_value
from zellige.ir.stmt import Copy, For, Gemm, Kernel, Launch, Pipelined, Stmt
from zellige.ir.traverse import rebuilt
from zellige.passes.guarded_returns import with_structured_returns
from zellige.plan.by_hand import schedule_by_hand
from zellige.plan.capabilities import Machine
from zellige.plan.channels import Bound, Group, bind, group_streams, tell_channel
from zellige.plan.choices import choose, with_edge
from zellige.plan.draft import Decisions
from zellige.plan.edges import scopes_of
from zellige.plan.facts import LaunchFacts, bytes_of, has_lanes
from zellige.plan.inflight import ProductsInFlight
from zellige.plan.launch import plan_order
from zellige.plan.legalise import Legal, legalise
from zellige.plan.nodes import Channel, Choice, Issue, Placement, PlannedKernel, PlannedLaunch, PlanStmt, Put, Role, Token, Wait
from zellige.plan.overlap import Skew, find_skew, run_ahead, schedule_of_copies, skewed
from zellige.plan.pipeline import Schedule
from zellige.plan.place import Excess, Tile, place, too_large
from zellige.plan.roles import (
    BLOCK,
    CONSUMER,
    PRODUCER,
    Ahead,
    Assignment,
    by_engine,
    copies_ahead,
    operations_of,
    pipelined_loops,
    why_one_role,
)
from zellige.plan.spaces import block_buffers, choose_path, choose_spaces
from zellige.plan.split import split_loops
from zellige.plan.streams import LAUNCH, Place, RoleView, Sharing, share
from zellige.plan.weave import HeaderReadsShared, Weaver
from zellige.plugin.contract import Capabilities, Space


def plan(kernel: Kernel, capabilities: Capabilities) -> PlannedKernel:
    """The plan of ``kernel`` for the target that ``capabilities`` describe."""
    machine = Machine(capabilities=capabilities)
    launches = tuple(_LaunchPlanner(kernel, launch, machine).planned() for launch in kernel.launches)
    return PlannedKernel(kernel=kernel, target=machine.name, launches=launches)


@dataclass(slots=True)
class _Programs:
    """Roles, channels and versions of a launch, as decided so far."""

    roles: tuple[Role, ...]
    channels: tuple[Channel, ...] = ()
    placements: tuple[Placement, ...] = ()
    full_loops: tuple[For, ...] = field(default=())


class _LaunchPlanner:
    """Plans one launch; the methods are the passes in their order."""

    def __init__(self, kernel: Kernel, launch: Launch, machine: Machine) -> None:
        self._machine = machine
        self._decisions = Decisions()
        self._check_lanes(launch)
        self._legal: Legal = legalise(kernel, with_structured_returns(launch), machine, self._decisions)
        self._facts = LaunchFacts(kernel, self._legal.launch)
        self._buffers = block_buffers(self._facts)
        self._spaces: dict[Buffer, Space] = choose_spaces(self._facts, self._buffers, self._legal.products, machine, self._decisions)
        self._scopes: dict[int, Scope] = scopes_of(self._facts)

    def planned(self) -> PlannedLaunch:
        choices = choose(self._facts, self._legal.products, self._spaces, self._scopes, self._machine, self._decisions)
        self._tell_schedules()
        programs = self._programs()
        if programs is None:
            programs = self._in_one_role()
        roles, full, choices = self._split(programs.roles, choices)
        order = plan_order(self._facts, self._legal.products, self._machine, self._decisions)
        return PlannedLaunch(
            launch=self._legal.launch, roles=roles, full_loops=full, channels=programs.channels, placements=programs.placements,
            choices=choices, order=order, decisions=self._decisions.all(),
        )  # fmt: skip

    def _check_lanes(self, launch: Launch) -> None:
        limit = self._machine.capabilities.block_lanes
        if not launch.lane_vars or not launch.threads or not limit:
            return
        threads = 1
        for extent in launch.threads:
            value = constant_value(extent)
            if value is None:
                return
            threads *= int(value)
        if threads > limit:
            raise catalogue.E302.error(launch.span, threads=threads, target=self._machine.name, limit=limit)

    # ---- roles ----

    def _programs(self) -> _Programs | None:
        """The programs of several roles or of one that runs ahead of itself; None where one role runs the launch as written."""
        question = "which roles does a block have?"
        reason = why_one_role(self._facts)
        style = self._machine.style
        if reason is not None:
            self._decisions.take(question, "one", reason)
            return None
        match style:
            case "ordered":
                self._decisions.take(question, "one", "the target has nothing that runs beside the vector engine")
                return None
            case "software":
                return self._software()
            case "specialised":
                return self._specialised()
            case _:
                return self._queues()

    def _in_one_role(self) -> _Programs:
        """The launch as written, in one role, with a version of each tile; products that run beside it are waited for where they are
        used."""
        body: tuple[Stmt | PlanStmt, ...] = self._legal.launch.body
        runs_beside = any(p.unit is not None and self._machine.is_asynchronous(p.unit) for p in self._legal.products.values())
        if runs_beside and not has_lanes(self._legal.launch):
            body = self._in_flight(body, "product")
        placed = self._placed({}, frozenset())
        if isinstance(placed, Excess):
            raise too_large(placed, self._facts)
        return _Programs(roles=(Role(name=BLOCK, engine=self._machine.main_engine, body=body),), placements=placed)

    def _in_flight(self, body: Sequence[Stmt | PlanStmt], name: str) -> tuple[Stmt | PlanStmt, ...]:
        writer = ProductsInFlight(self._facts, Token(name=name, engine=self._product_engine()), self._is_asynchronous)
        made = writer.body(body)
        if writer.loops_in_flight:
            self._decisions.take(
                "how many products are in flight?", "one across iterations",
                "the slot of an iteration is released when the product of the next has been started",
                rejected=(("none", "the unit would stand still between iterations"),),
            )  # fmt: skip
        return made if writer.started else tuple(body)

    def _product_engine(self) -> str:
        return next((p.unit.engine for p in self._legal.products.values() if p.unit is not None), self._machine.main_engine)

    def _is_asynchronous(self, gemm: Gemm) -> bool:
        product = self._legal.products.get(id(gemm))
        return product is not None and product.unit is not None and self._machine.is_asynchronous(product.unit)

    # ---- a producer and consumers ----

    def _specialised(self) -> _Programs | None:
        question = "which roles does a block have?"
        ahead, refused = copies_ahead(self._facts, self._spaces, self._machine)
        for copy, reason in refused:
            self._decisions.take(f"can the copy to {copy.dst.buffer.name} run ahead?", "no", reason, where=copy.span)
        chosen = [a.copy for a in ahead] + self._copies_before_loops(ahead)
        assignment, sharing, view = self._producer(chosen)
        if sharing is None or assignment is None or view is None:
            loops = pipelined_loops(self._facts.launch.body)
            why = "no copy can run ahead of its loop" if loops else "there is no pipelined loop whose copies could run ahead"
            self._decisions.take(question, "one", why, rejected=(("a producer for copies", why),))
            return None
        groups = group_streams(self._facts, view, assignment, sharing.streams, self._bodies())
        if max(g.wanted for g in groups) < 2:
            why = "with one version of each tile a producer would only wait"
            self._decisions.take(question, "one", why, rejected=(("a producer for copies", why),))
            return None
        skews = self._skews(assignment)
        extra = {buffer: 2 for skew in skews for buffer in skew.versioned}
        depths, placed, extra = self._depths(groups, frozenset(), extra)
        skews = tuple(s for s in skews if all(b in extra for b in s.versioned))
        if max(depths.values()) < 2:
            self._decisions.take(
                question, "one", "only one version of each tile fits", rejected=(("a producer for copies", "it would only wait"),)
            )
            return None
        copy_token = Token(name="copies", engine=ahead[0].path.engine if ahead else "")
        bound = bind(groups, depths, self._machine, {PRODUCER: copy_token}, self._decisions)
        weaver = Weaver(self._facts, view, assignment, bound, (), self._mechanism())
        try:
            bodies = weaver.programs()
        except HeaderReadsShared:  # no buffer changes hands in place here
            raise AssertionError from None
        producer = _issued(bodies[PRODUCER], {id(c) for c in chosen}, copy_token)
        consumer, channels = self._consumer(bodies[CONSUMER], skews)
        copies = self._consumer_copies()
        tiles = ", ".join(sorted({b.name for c in chosen for b in self._facts.written(c)}))
        self._decisions.take(
            question, f"a producer for copies and {copies} consumer{'s' if copies > 1 else ''}",
            f"the copies to {tiles} depend on nothing that the others compute, so they run ahead",
            rejected=(("one role", "it would issue copies between products, and wait for both"),),
        )  # fmt: skip
        roles = (
            Role(name=PRODUCER, engine=assignment.engines[PRODUCER], body=producer),
            Role(name=CONSUMER, engine=assignment.engines[CONSUMER], body=consumer, count=copies),
        )
        return _Programs(roles=roles, channels=(*(b.channel for b in bound), *channels), placements=placed)

    def _copies_before_loops(self, ahead: Sequence[Ahead]) -> list[Stmt]:
        """Copies at the top of the launch that the producer can make too, when it has others."""
        if not ahead:
            return []
        changed = {a.root for s in self._facts.launch.body for a in self._facts.accesses(s) if a.changes}
        found: list[Stmt] = []
        for statement in self._facts.launch.body:
            if (
                not isinstance(statement, Copy)
                or statement.src.buffer.root.space != "global"
                or statement.dst.buffer.root not in self._spaces
            ):
                continue
            path, _ = choose_path(statement, self._facts, self._spaces, self._machine)
            if path.is_asynchronous and not (self._facts.read(statement) & changed):
                found.append(statement)
        return found

    def _producer(self, chosen: list[Stmt]) -> tuple[Assignment | None, Sharing | None, RoleView | None]:
        """The assignment in which every tile that the producer makes is a stream; copies whose tile is none go back to the consumer."""
        while chosen:
            engines = {PRODUCER: self._machine.main_engine, CONSUMER: self._machine.main_engine}
            of = {id(s): CONSUMER for s in operations_of(self._facts.launch.body)}
            of.update({id(s): PRODUCER for s in chosen})
            assignment = Assignment(of=of, engines=engines)
            view = RoleView(self._facts, assignment)
            foreign = view.computed(PRODUCER).union(*view.foreign.values())
            if foreign:
                chosen.remove(self._hand_back(chosen, foreign))
                continue
            sharing = share(self._facts, view, dict.fromkeys(self._buffers, 1))
            carried = {stream.buffer for stream in sharing.streams}
            idle = [s for s in chosen if not sharing.shared and not self._facts.written(s) & carried]
            for statement in idle:
                chosen.remove(statement)
                name = ", ".join(b.name for b in self._facts.written(statement))
                self._decisions.take(f"can the copy to {name} run ahead?", "no", "nobody else uses its tile", where=statement.span)
            if idle:
                continue
            if not sharing.shared:
                return (assignment, sharing, view) if sharing.streams else (None, None, None)
            bad = set(sharing.shared)
            for statement in [s for s in chosen if self._facts.written(s) & bad] or chosen[:]:
                chosen.remove(statement)
                name = ", ".join(b.name for b in self._facts.written(statement))
                why = next((sharing.reasons[b] for b in self._facts.written(statement) if b in sharing.reasons), "")
                if not why:
                    why = f"its address needs {', '.join(b.name for b in bad)}, which the consumer changes"
                self._decisions.take(f"can the copy to {name} run ahead?", "no", why, where=statement.span)
        return None, None, None

    def _hand_back(self, chosen: Sequence[Stmt], foreign: frozenset[Var | Buffer]) -> Stmt:
        """The copy to give back to the consumer, since what it needs comes from an operation: one that uses such a variable itself, else
        the last."""
        statement = next((s for s in chosen if self._facts.used(s) & foreign), chosen[-1])
        names = ", ".join(sorted(v.name for v in foreign))
        self._decisions.take(
            f"can the copy to {', '.join(b.name for b in self._facts.written(statement))} run ahead?", "no",
            f"where it reads, or how often, depends on {names}, which the block computes", where=statement.span,
        )  # fmt: skip
        return statement

    def _skews(self, assignment: Assignment) -> tuple[Skew, ...]:
        found: list[Skew] = []
        for loop in pipelined_loops(self._facts.launch.body):
            skipped = frozenset(i for i, s in enumerate(loop.body) if assignment.of.get(id(s)) == PRODUCER)
            answer = find_skew(self._facts, loop, dict.fromkeys(self._buffers), self._is_asynchronous, skipped)
            if isinstance(answer, str):
                self._decisions.take("does a product run ahead of what uses it?", "no", answer, where=loop.span)
            elif answer is not None:
                found.append(answer)
        return tuple(found)

    def _consumer(
        self, body: tuple[Stmt | PlanStmt, ...], skews: Sequence[Skew]
    ) -> tuple[tuple[Stmt | PlanStmt, ...], tuple[Channel, ...]]:
        """The consumer's program with products in flight, and the channels within it."""
        channels: list[Channel] = []
        made: list[Stmt | PlanStmt] = []
        ahead = Token(name="ahead", engine=self._product_engine())
        writer = ProductsInFlight(self._facts, Token(name="product", engine=self._product_engine()), self._is_asynchronous)
        by_var = {skew.loop.var: skew for skew in skews}
        plain: list[Stmt | PlanStmt] = []

        def flush() -> None:
            made.extend(self._in_flight(plain, "product"))
            plain.clear()

        for statement in body:
            if isinstance(statement, For) and statement.var in by_var:
                skew = by_var[statement.var]
                flush()
                channel = None
                if skew.versioned:
                    size = sum(bytes_of(b) or 0 for b in skew.versioned)
                    channel = Channel(name="_".join(b.name for b in skew.versioned), buffers=skew.versioned, depth=2, producers=(CONSUMER,),
                                      consumers=(CONSUMER,), bytes=size, scope="role", mechanism="order")  # fmt: skip
                    channels.append(channel)
                made.extend(skewed(self._facts, statement, skew, channel, ahead, writer.body))
                self._decisions.take(
                    "does a product run ahead of what uses it?", f"the product into {skew.product.c.buffer.name}, by one iteration",
                    "while the unit multiplies for the next iteration, the lanes work on this one; "
                    f"{skew.product.c.buffer.name} has two versions",
                    rejected=(("each product is waited for at once", "unit and lanes would take turns"),), where=skew.product.span,
                )  # fmt: skip
            else:
                plain.append(statement)
        flush()
        return tuple(made), tuple(channels)

    def _consumer_copies(self) -> int:
        """How many consumers share the rows: one for each block of rows that the product unit takes, at most three."""
        rows = [(p.sizes[0] or 0) // p.unit.m for p in self._legal.products.values() if p.unit is not None and p.unit.m > 1]
        return max(1, min(3, min(rows, default=1)))

    # ---- queues ----

    def _queues(self) -> _Programs | None:
        question = "which roles does a block have?"
        assignment = by_engine(self._facts, self._legal.products, self._spaces, self._machine)
        if len(assignment.roles) == 1:
            self._decisions.take(question, f"one, on the engine {assignment.roles[0]}", "one engine executes all of its operations")
            return None
        view = RoleView(self._facts, assignment)
        foreign = sorted(v.name for made in view.foreign.values() for v in made)
        if foreign:
            self._decisions.take(
                question, "one", f"the value of {', '.join(foreign)} comes from an operation of one engine and steers another"
            )
            return None
        sharing = share(self._facts, view, dict.fromkeys(self._buffers, 1))
        groups = group_streams(self._facts, view, assignment, sharing.streams, self._bodies())
        for buffer in sharing.shared:
            self._decisions.take(
                f"how do several engines use {buffer.name}?", "in turns, one version", sharing.reasons[buffer],
                rejected=(("a stream of versions", sharing.reasons[buffer]),),
            )  # fmt: skip
        depths, placed, _ = self._depths(groups, frozenset(sharing.shared), {})
        bound = bind(groups, depths, self._machine, {}, self._decisions)
        weaver = Weaver(self._facts, view, assignment, bound, sharing.shared, self._mechanism())
        try:
            bodies = weaver.programs()
        except HeaderReadsShared as error:
            self._decisions.take(question, "one", f"a loop or branch depends on {error.buffer.name}, which several engines change in turns")
            return None
        channels = (*(b.channel for b in bound), *weaver.handovers())
        limit = self._machine.channel.count if self._machine.channel is not None else None
        if limit is not None and sum(c.depth for c in channels) > limit:
            self._decisions.take(question, "one", f"{sum(c.depth for c in channels)} flags would be needed, and a block has {limit}")
            return None
        self._decisions.take(question, ", ".join(assignment.roles), "each engine runs a program of its own, joined by flags")
        roles = tuple(Role(name=role, engine=assignment.engines[role], body=bodies[role]) for role in assignment.roles)
        return _Programs(roles=roles, channels=channels, placements=placed)

    # ---- one role that runs ahead of itself ----

    def _software(self) -> _Programs | None:
        question = "do copies run ahead of their loop?"
        ahead, refused = copies_ahead(self._facts, self._spaces, self._machine)
        for copy, reason in refused:
            self._decisions.take(f"can the copy to {copy.dst.buffer.name} run ahead?", "no", reason, where=copy.span)
        self._decisions.take("which roles does a block have?", "one", "the target's roles cannot run programs of their own")
        top = [a for a in ahead if any(s is a.copy for s in a.loop.body)]
        chosen: list[Stmt] = [a.copy for a in top]
        assignment, sharing, view = self._producer(chosen)
        if assignment is None or sharing is None or view is None:
            self._decisions.take(question, "no", "no copy can run ahead")
            return None
        streams = [
            s for s in sharing.streams if s.loop is not None and isinstance(s.loop.kind, Pipelined) and s.place == (id(s.loop), "body")
        ]
        groups = group_streams(self._facts, view, assignment, streams, self._bodies())
        groups = tuple(g for g in groups if g.wanted > 1)
        if not groups:
            self._decisions.take(question, "no", "no loop asks for more than one stage")
            return None
        depths, _, _ = self._depths(groups, frozenset(), {})
        token = Token(name="copies", engine=top[0].path.engine)
        made = bind([g for g in groups if depths[g] > 1], depths, self._machine, {}, Decisions())
        bound = tuple(replace(b, channel=_within_role(b.channel, self._machine.token_mechanism or "order")) for b in made)
        replaced: dict[int, tuple[Stmt | PlanStmt, ...]] = {}
        kept: list[Bound] = []
        asynchronous = frozenset(id(c) for c in chosen)
        for loop in reversed(pipelined_loops(self._facts.launch.body)):  # inner loops first
            mine = [b for b in bound if b.group.loop is loop]
            if not mine:
                continue
            if any(id(inner) in replaced for inner in pipelined_loops(loop.body)):
                self._decisions.take(question, "no", "a loop within it already does, and runs more often", where=loop.span)
                continue
            buffers = {x for b in mine for x in b.channel.buffers}
            flying = frozenset(id(s) for s in loop.body if id(s) in asynchronous and self._facts.written(s) <= buffers)
            schedule = self._schedule(loop, mine)
            answer = run_ahead(self._facts, loop, mine, schedule, token, flying)
            if isinstance(answer, str):
                self._decisions.take(question, "no", answer, where=loop.span)
                continue
            replaced[id(loop)] = answer.statements
            kept.extend(mine)
            for b in mine:
                tell_channel(b.channel, b.group, self._decisions)
            self._decisions.take(
                question, f"by up to {max(b.channel.depth for b in mine) - 1} iterations",
                "they are issued before the step's work and waited for when their turn comes: "
                "a prologue fills the slots, a drain empties them",
                rejected=(("copies in their place", "the engine would wait for each"),), where=loop.span,
            )  # fmt: skip
        if not kept:
            return None
        body = _with_loops(self._facts.launch.body, replaced)
        slots = {buffer: b.channel.depth for b in kept for buffer in b.channel.buffers}
        again = self._placed(slots, frozenset())
        assert not isinstance(again, Excess)
        role = Role(name=BLOCK, engine=self._machine.main_engine, body=body)
        return _Programs(roles=(role,), channels=tuple(b.channel for b in kept), placements=again)

    def _schedule(self, loop: For, bound: Sequence[Bound]) -> Schedule:
        """The author's schedule where there is one that can be followed, else copies ahead."""
        by_hand = schedule_by_hand(self._facts, loop)
        return by_hand if isinstance(by_hand, Schedule) else schedule_of_copies(loop, bound)

    def _tell_schedules(self) -> None:
        """Says of every schedule by hand whether it is followed."""
        how = {
            "ordered": "as far as there is a choice: copies are interleaved with products, and statements keep the order of the program",
            "software": "yes",
            "specialised": "its stages give the versions of each tile",
            "queues": "its stages give the versions of each tile",
        }[self._machine.style]
        for loop in pipelined_loops(self._facts.launch.body):
            by_hand = schedule_by_hand(self._facts, loop)
            question = "is the author's schedule of the loop followed?"
            if isinstance(by_hand, str):
                self._decisions.take(question, "no", by_hand, where=loop.span)
            elif by_hand is not None:
                self._decisions.take(question, how, "it keeps every dependence", where=loop.span)

    # ---- versions and placement ----

    def _depths(
        self, groups: Sequence[Group], alone: frozenset[Buffer], extra: dict[Buffer, int]
    ) -> tuple[dict[Group, int], tuple[Placement, ...], dict[Buffer, int]]:
        """Versions for each group that fit, reduced one by one from what was asked for; E301 where single versions do not fit."""
        depths = {g: g.wanted for g in groups}
        extra = dict(extra)
        while True:
            slots = {b: depths[g] for g in groups for b in g.buffers}
            placed = self._placed({**extra, **slots}, alone | frozenset(slots))
            if not isinstance(placed, Excess):
                break
            inside = {t.buffer for t in placed.tiles}
            fewer = [b for b in extra if b in inside]
            if fewer:
                for buffer in fewer:
                    del extra[buffer]
                self._decisions.take(
                    "does a product run ahead of what uses it?",
                    "no",
                    f"two versions of {', '.join(b.name for b in fewer)} do not fit into {placed.space.name}",
                )
                continue
            deepest = max((g for g in groups if depths[g] > 1 and inside & set(g.buffers)), key=lambda g: depths[g], default=None)
            if deepest is None:
                raise too_large(placed, self._facts)
            depths[deepest] -= 1
        for group, depth in depths.items():
            if depth < group.wanted:
                names = " and ".join(b.name for b in group.buffers)
                space = self._spaces[group.buffers[0]]
                self._decisions.take(
                    f"how many versions of {names} are there?", f"{depth} instead of {group.wanted}",
                    f"{space.name} holds {space.bytes} bytes a block, and {group.wanted} versions do not fit beside the other tiles",
                    rejected=((str(group.wanted), "too many bytes"),), where=group.loop.span if group.loop is not None else None,
                )  # fmt: skip
        return depths, placed, extra

    def _placed(self, slots: Mapping[Buffer, int], alone: frozenset[Buffer]) -> tuple[Placement, ...] | Excess:
        tiles = [Tile(buffer=b, space=self._spaces[b], slots=slots.get(b, 1), is_alone=b in alone) for b in self._buffers]
        return place(self._facts, tiles)

    def _mechanism(self) -> str:
        return self._machine.channel.mechanism if self._machine.channel is not None else "order"

    def _bodies(self) -> dict[Place, Sequence[Stmt]]:
        found: dict[Place, Sequence[Stmt]] = {LAUNCH: self._facts.launch.body}
        pending: list[Stmt] = list(self._facts.launch.body)
        while pending:
            statement = pending.pop()
            for name in type(statement).BODIES:
                found[(id(statement), name)] = getattr(statement, name)
                pending.extend(getattr(statement, name))
        return found

    # ---- edges ----

    def _split(self, roles: tuple[Role, ...], choices: tuple[Choice, ...]) -> tuple[tuple[Role, ...], tuple[For, ...], tuple[Choice, ...]]:
        """Loops split where only their last iterations need tests, on machines whose copies do not do them for nothing."""
        if self._machine.style == "ordered" or has_lanes(self._facts.launch):
            return roles, (), choices
        paying = {id(c.operation): c.tested for c in choices if c.tested and not self._is_free(c)}
        made: list[Role] = []
        full: list[For] = []
        partial: frozenset[int] = frozenset()
        for role in roles:
            answer = split_loops(role.body, paying, self._scopes)
            full.extend(answer.full)
            partial |= answer.partial
            made.append(replace(role, body=answer.body) if answer.full else role)
        for loop in full:
            self._decisions.take(
                f"are copies in the loop over {loop.var.name} tested?", "only in a tail",
                "its last iterations alone can leave the tensors: the loop is split there",
                rejected=(("in every iteration", "all others are proven full"),), where=loop.span,
            )  # fmt: skip
        return tuple(made), tuple(full), tuple(with_edge(c, partial) for c in choices)

    def _is_free(self, choice: Choice) -> bool:
        return any(p.mechanism == choice.mechanism and p.fills_out_of_bounds for p in self._machine.capabilities.copies)


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


def _within_role(channel: Channel, mechanism: str) -> Channel:
    return replace(channel, producers=(BLOCK,), consumers=(BLOCK,), scope="role", mechanism=mechanism)


def _with_loops(body: Sequence[Stmt], replaced: Mapping[int, tuple[Stmt | PlanStmt, ...]]) -> tuple[Stmt | PlanStmt, ...]:
    made: list[Stmt | PlanStmt] = []
    for statement in body:
        if id(statement) in replaced:
            made.extend(replaced[id(statement)])
            continue
        changes = {}
        for name in type(statement).BODIES:
            inner = getattr(statement, name)
            new = _with_loops(inner, replaced)
            if len(new) != len(inner) or any(a is not b for a, b in zip(new, inner)):
                changes[name] = new
        made.append(rebuilt(statement, **changes) if changes else statement)
    return tuple(made)
