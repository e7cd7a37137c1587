"""Stores that end while the block goes on: the epilogue of a tile runs beside the next tile's work.

In: a context, and later the programs of the roles. Out: the copies to tensors that an asynchronous path can make in the background
(:func:`deferred_stores`), and programs in which they are started, and waited for before their tile is written again and at the end
(:func:`with_deferred_stores`).

A store is deferred where its tile is filled anew before each, by statements of one body, and nothing else touches the tensor: then only the
tile must wait for it. Its bytes are its own, since it is in use until a wait, wherever that stands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from zellige.ir.expr import Buffer
from zellige.ir.stmt import Alloc, Copy, Pipelined, Stmt
from zellige.ir.traverse import rebuilt
from zellige.plan.capabilities import Machine
from zellige.plan.draft import Decisions
from zellige.plan.facts import LaunchFacts, statements_in
from zellige.plan.nodes import Channel, Issue, PlanStmt, Role, Slotted, Token, Wait
from zellige.plan.roles import why_one_role
from zellige.plan.spaces import choose_path
from zellige.plan.streams import home_of
from zellige.plugin.contract import Space
from zellige.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeferredStore:
    """``copy`` may end later; its tile lives in the body of a loop."""

    copy: Copy
    token: Token

    @property
    def tile(self) -> Buffer:
        return self.copy.src.buffer.root


def deferred_stores(
    facts: LaunchFacts, spaces: Mapping[Buffer, Space], machine: Machine, decisions: Decisions
) -> tuple[DeferredStore, ...]:  # fmt: skip
    """The stores that the launch need not wait for at once; why others must be waited for is a decision."""
    if machine.token_mechanism is None or machine.style not in ("software", "specialised") or why_one_role(facts) is not None:
        return ()
    found: list[DeferredStore] = []
    for copy in statements_in(facts.launch.body, into_maps=False):
        if not isinstance(copy, Copy) or copy.dst.buffer.root.space != "global" or copy.src.buffer.root not in spaces:
            continue
        path, _ = choose_path(copy, facts, dict(spaces), machine)
        if not path.is_asynchronous:
            continue
        question = f"when is the store of {copy.src.buffer.name} waited for?"
        reason = _why_at_once(facts, copy)
        if reason is not None:
            decisions.take(question, "at once", reason, where=copy.span)
            continue
        found.append(DeferredStore(copy=copy, token=Token(name=f"store_{copy.src.buffer.name}", engine=path.engine)))
        decisions.take(
            question, "before its tile is written again, and at the end of the loop",
            f"the {path.mechanism} reads the tile by itself while the block goes on",
            rejected=(("at once", "the block would stand still until the tensor is written"),), where=copy.span,
        )  # fmt: skip
    return tuple(found)


def _why_at_once(facts: LaunchFacts, copy: Copy) -> str | None:
    """The reason why a store must be waited for at once; None where it need not."""
    tile, tensor = copy.src.buffer.root, copy.dst.buffer.root
    if sum(a.root is tensor for s in facts.launch.body for a in facts.accesses(s)) != sum(a.root is tensor for a in facts.accesses(copy)):
        return f"{tensor.name} is used elsewhere in the launch"
    _, body, loop, is_launch = home_of(facts, tile)
    at = next((i for i, s in enumerate(body) if s is copy), None)
    if at is not None and is_launch:
        return "it belongs to no loop whose next iteration could go on beside it"
    if at is None or loop is None:
        return f"{tile.name} is filled outside of the branch or loop that stores it"
    if isinstance(loop.kind, Pipelined):
        return "its loop is pipelined by its copies"
    users = [s for s in body if tile in facts.roots(s) and not isinstance(s, Alloc)]
    if not facts.kills(users[0], tile):
        return f"{tile.name} keeps something from one iteration to the next"
    if any(tile in facts.written(s) for s in body[at + 1 :]):
        return f"{tile.name} is written again after it"
    return None


def with_deferred_stores(
    facts: LaunchFacts, roles: Sequence[Role], channels: Sequence[Channel], stores: Sequence[DeferredStore]
) -> tuple[Role, ...]:  # fmt: skip
    """The roles with those stores started and waited for. A tile of a channel is left alone: its slot goes back when its store has
    ended."""
    carried = {buffer.root for channel in channels for buffer in (*channel.buffers, *channel.orders)}
    flying = {id(store.copy): store for store in stores if store.tile not in carried}
    return tuple(_deferred(facts, role, flying) for role in roles) if flying else tuple(roles)


def _deferred(facts: LaunchFacts, role: Role, flying: Mapping[int, DeferredStore]) -> Role:
    body, _ = _body(facts, role.body, flying)
    return replace(role, body=body) if body is not role.body else role


_Body = tuple[Stmt | PlanStmt, ...]


def _body(facts: LaunchFacts, body: _Body, flying: Mapping[int, DeferredStore]) -> tuple[_Body, list[DeferredStore]]:
    """The body with stores started, and those that may be on their way at its end."""
    mine = [flying[id(s)] for s in body if id(s) in flying]
    out: list[Stmt | PlanStmt] = []
    awaited: set[int] = set()
    for statement in body:
        for store in mine:
            if id(store.copy) not in awaited and store.tile in _written(facts, statement):
                awaited.add(id(store.copy))
                out.append(Wait(token=store.token, span=store.copy.span))
        if id(statement) in flying:
            store = flying[id(statement)]
            out.append(Issue(operation=store.copy, token=store.token, span=store.copy.span))
            continue
        changes: dict[str, _Body] = {}
        after: list[DeferredStore] = []
        for name in type(statement).BODIES:
            inner = getattr(statement, name)
            made, left = _body(facts, inner, flying)
            after += left
            if made is not inner:
                changes[name] = made
        out.append(rebuilt(statement, **changes) if changes else statement)
        out += [Wait(token=store.token, span=store.copy.span) for store in after]
    changed = len(out) != len(body) or any(a is not b for a, b in zip(out, body))
    return (tuple(out) if changed else body), mine


def _written(facts: LaunchFacts, statement: Stmt | PlanStmt) -> frozenset[Buffer]:
    inner = statement
    while isinstance(inner, (Issue, Slotted)):
        inner = inner.operation
    own = {inner.buffer} if isinstance(inner, Alloc) else set()
    return facts.written(inner) | own  # type: ignore[arg-type]  # a statement of the plan writes nothing
