"""Plans of one role without channels: for machines that run one stream of instructions and so never wait for themselves.

In: a planned launch. Out: the launch whose channels have become buffers with slots, and for each buffer that stands for a slot the number
of the slot, an ordinary expression. What is left of a software pipeline are its copies in flight (Issue and Wait) and these numbers.

Acquire and Get count in variables of the block, Put and Release vanish: in one stream whatever they would wait for has happened, since
the checks of a plan (:mod:`zellige.plan.check`) hold. What allocates a channel's buffer stands before all that uses it, once. Which slot an
operation means by a channel's buffer is as :mod:`zellige.plan.nodes` says: the one acquired last, or the one got ``lag`` gets before the
last where it is Slotted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

from zellige.ir.expr import INT64, Binary, Buffer, Const, Expr, Node, Var
from zellige.ir.stmt import Alloc, Assign, Bind, Stmt
from zellige.ir.traverse import deep_nesting, rebuilt, rewrite
from zellige.plan.nodes import Acquire, Channel, Get, Issue, PlannedLaunch, PlanStmt, Put, Release, Slotted
from zellige.records import dataclass

_Body = tuple[Stmt | PlanStmt, ...]
_Lags = dict[Channel, int]


def single_stream(planned: PlannedLaunch) -> tuple[PlannedLaunch, dict[Buffer, Expr]]:
    """``planned`` without channels, and the slot of each buffer that stands for one: a view (``alias``) of the channel's buffer in the
    shape and type that the operation names. Choices and full loops follow their statements. Raises ValueError for more than one role."""
    if len(planned.roles) != 1:
        raise ValueError(f"{len(planned.roles)} roles are more than one stream")
    if not planned.channels:
        return planned, {}
    stream = _Stream(planned)
    (role,) = planned.roles
    with deep_nesting():
        body = stream.body(role.body, {})
    counters = tuple(Bind(var=var, value=_number(-1)) for pair in stream.counters.values() for var in pair)
    choices = tuple(
        replace(choice, operation=made) for choice in planned.choices for made in stream.made.get(id(choice.operation), [choice.operation])
    )
    safe = planned.launch.safe_values
    safe += tuple(rebuilt(one, buffer=slot) for one in safe for (buffer, _, _), slot in stream.slots.items() if buffer is one.buffer)
    result = rebuilt(
        planned,
        launch=rebuilt(planned.launch, safe_values=safe),
        roles=(rebuilt(role, body=(*counters, *body)),),
        channels=(),
        choices=choices,
        full_loops=tuple(made for loop in planned.full_loops for made in stream.made.get(id(loop), [loop])),
    )
    return result, stream.numbers


def _number(value: int) -> Const:
    return Const(value=value, dtype=INT64)


@dataclass(slots=True)
class _Stream:
    """The counters of each channel (slots acquired and got, both less one), and what statements and buffers have become."""

    planned: PlannedLaunch
    channels: dict[Buffer, Channel] = field(default_factory=dict)
    counters: dict[Channel, tuple[Var, Var]] = field(default_factory=dict)
    slots: dict[tuple[Buffer, Channel, int | None], Buffer] = field(default_factory=dict)
    numbers: dict[Buffer, Expr] = field(default_factory=dict)
    made: dict[int, list[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for channel in self.planned.channels:
            acquired, got = (Var(name=f"{channel.name}_{word}", dtype=INT64, kind="mutable") for word in ("acquired", "got"))
            self.counters[channel] = (acquired, got)
            self.channels.update((buffer.root, channel) for buffer in channel.buffers)

    def body(self, statements: Sequence[Any], lags: _Lags) -> _Body:
        result: list[Stmt | PlanStmt] = []
        for statement in statements:
            match statement:
                case Acquire() | Get():
                    var = self.counters[statement.channel][isinstance(statement, Get)]
                    result.append(Assign(var=var, value=Binary(op="add", left=var, right=_number(1)), span=statement.span))
                case Put() | Release():
                    pass
                case Slotted():
                    result.extend(self.body((statement.operation,), {**lags, **dict(statement.lags)}))
                case Issue():
                    (operation,) = self.body((statement.operation,), lags)
                    result.append(rebuilt(statement, operation=operation))
                case Alloc():
                    result.append(statement)
                case _:
                    result.append(self._statement(statement, lags))
        return tuple(result)

    def _statement(self, statement: Stmt | PlanStmt, lags: _Lags) -> Any:
        def visit(node: Node) -> Node:
            buffer = getattr(node, "buffer", None)
            if not isinstance(buffer, Buffer) or buffer.root not in self.channels:
                return node
            return rebuilt(node, buffer=self._slot(buffer, lags))

        bodies = {name: self.body(getattr(statement, name), lags) for name in type(statement).BODIES}
        changed = {name: new for name, new in bodies.items() if _differs(new, getattr(statement, name))}
        new = rewrite(rebuilt(statement, **changed) if changed else statement, visit, bodies=False)
        made = self.made.setdefault(id(statement), [])
        if not any(one is new for one in made):
            made.append(new)
        return new

    def _slot(self, buffer: Buffer, lags: _Lags) -> Buffer:
        """The buffer that stands for the slot which an operation means by ``buffer``."""
        channel = self.channels[buffer.root]
        lag = lags.get(channel)
        if (buffer, channel, lag) not in self.slots:
            acquired, got = self.counters[channel]
            word = "acquired" if lag is None else f"got{lag}"
            made = rebuilt(buffer, name=f"{buffer.name}_{word}", alias=buffer.root, strides=None)
            count: Expr = acquired if lag is None else got if lag == 0 else Binary(op="sub", left=got, right=_number(lag))
            number = Binary(op="floormod", left=count, right=_number(channel.depth)) if channel.depth > 1 else _number(0)
            self.slots[buffer, channel, lag], self.numbers[made] = made, number
        return self.slots[buffer, channel, lag]


def _differs(new: Sequence[object], old: Sequence[object]) -> bool:
    return len(new) != len(old) or any(a is not b for a, b in zip(new, old))
