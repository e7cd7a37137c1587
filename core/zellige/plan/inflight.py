"""Asynchronous products in flight: which are started, and where their results or operands are waited for.

In: the body of a role. Out: the body with Issue and Wait. A product is waited for before the first statement that touches its result or
overwrites its operands, before the release of a slot that holds an operand, before the put of a slot that holds the result, and before a
statement that may leave the body, which would pass over a wait behind it; products into one tile follow each other without a wait, since
those of one token take effect in order. A loop that does nothing but get a slot, multiply and release it leaves one product in flight: the
slot of iteration i is released after the product of i + 1 has been started.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zellige.ir.expr import Buffer, Compare, constant_value
from zellige.ir.folding import minimum, plus
from zellige.ir.stmt import For, Gemm, If, Stmt
from zellige.ir.traverse import rebuilt
from zellige.plan.facts import LaunchFacts, may_jump
from zellige.plan.nodes import Acquire, Get, Issue, PlanStmt, Put, Release, Slotted, Token, Turn, Wait


class ProductsInFlight:
    """Rewrites the body of one role. ``is_asynchronous`` says of a Gemm whether its unit runs beside the role."""

    def __init__(self, facts: LaunchFacts, token: Token, is_asynchronous: Callable[[Gemm], bool]) -> None:
        self._facts = facts
        self._token = token
        self._is_asynchronous = is_asynchronous
        self.started = 0
        self.loops_in_flight = 0

    def body(
        self, body: Sequence[Stmt | PlanStmt], before: Sequence[Gemm] = (), *, waits_at_end: bool = True
    ) -> tuple[Stmt | PlanStmt, ...]:
        """``body`` with products started and waited for; nothing is left in flight at its end, unless somebody else waits. ``before`` are
        in flight at its begin, in the order of their start."""
        out: list[Stmt | PlanStmt] = []
        flying: list[Gemm] = list(before)

        def wait_for(is_needed: Callable[[Gemm], bool]) -> None:
            needed = [i for i, g in enumerate(flying) if is_needed(g)]
            if needed:
                out.append(Wait(token=self._token, leave_in_flight=len(flying) - 1 - needed[-1]))
                del flying[: needed[-1] + 1]

        for statement in body:
            match statement:
                case Acquire() | Get() | Wait() | Turn():
                    out.append(statement)
                    continue
                case Release():
                    held = set(statement.channel.buffers) | set(statement.channel.orders)
                    wait_for(lambda g: bool(operands_of(g) & held))  # noqa: B023 - called at once
                    out.append(statement)
                    continue
                case Put():
                    held = set(statement.channel.buffers) | set(statement.channel.orders)
                    wait_for(lambda g: g.c.buffer.root in held or bool(operands_of(g) & held))  # noqa: B023
                    out.append(statement)
                    continue
                case Issue():
                    out.append(statement)
                    continue
                case _:
                    pass
            inner = statement.operation if isinstance(statement, Slotted) else statement
            if isinstance(inner, Gemm) and self._is_asynchronous(inner):
                product = inner
                wait_for(lambda g: g.c.buffer.root in operands_of(product) or product.c.buffer.root in operands_of(g))  # noqa: B023
                issued = Issue(operation=product, token=self._token, span=product.span)
                out.append(rebuilt(statement, operation=issued) if isinstance(statement, Slotted) else issued)
                flying.append(product)
                self.started += 1
                continue
            touched, changed = self._touched(statement)
            jumps = bool(flying) and not isinstance(statement, Slotted) and may_jump(statement)
            wait_for(lambda g: jumps or g.c.buffer.root in touched or bool(operands_of(g) & changed))  # noqa: B023
            if not isinstance(statement, Slotted) and type(statement).BODIES and self._has_products(statement):
                wait_for(lambda g: True)
                out.extend(self._structure(statement))
            else:
                out.append(statement)
        if waits_at_end:
            wait_for(lambda g: True)
        return tuple(out)

    def _touched(self, statement: Stmt | PlanStmt) -> tuple[set[Buffer], set[Buffer]]:
        accesses = self._facts.accesses(statement)  # type: ignore[arg-type]
        return {a.root for a in accesses}, {a.root for a in accesses if a.changes}

    def _has_products(self, statement: Stmt | PlanStmt) -> bool:
        pending: list[Stmt | PlanStmt] = [statement]
        while pending:
            top = pending.pop()
            if isinstance(top, Gemm) and self._is_asynchronous(top):
                return True
            if isinstance(top, (Slotted, Issue)):
                pending.append(top.operation)
            for name in type(top).BODIES:
                pending.extend(getattr(top, name))
        return False

    def _structure(self, statement: Stmt) -> tuple[Stmt | PlanStmt, ...]:
        nested = {name: self.body(getattr(statement, name)) for name in type(statement).BODIES}
        made = rebuilt(statement, **nested)
        if isinstance(made, For):
            return self._one_in_flight(made)
        return (made,)

    def _one_in_flight(self, loop: For) -> tuple[Stmt | PlanStmt, ...]:
        """A loop of get, product, wait, release with one product in flight across its iterations; other loops as they are."""
        match loop.body:
            case (Get() as get, Issue(operation=Gemm()) as issue, Wait() as wait, Release() as release):
                pass
            case _:
                return (loop,)
        step = constant_value(loop.step)
        if get.channel is not release.channel or get.channel.depth < 2 or step is None or step <= 0:
            return (loop,)
        self.loops_in_flight += 1
        second = plus(loop.start, int(step))
        peeled = rebuilt(loop, stop=minimum(second, loop.stop), body=(get, issue))
        steady = rebuilt(loop, start=second, body=(get, issue, Wait(token=wait.token, leave_in_flight=1), release))
        last = If(condition=Compare(op="lt", left=loop.start, right=loop.stop), then=(release,), span=loop.span)
        return (peeled, steady, Wait(token=wait.token), last)


def operands_of(gemm: Gemm) -> set[Buffer]:
    """The tiles that a product reads."""
    regions = (gemm.a, gemm.b, gemm.scale_a, gemm.scale_b, gemm.metadata)
    return {r.buffer.root for r in regions if r is not None}
