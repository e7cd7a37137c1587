"""A planned kernel as text: the program of each role, with what joins the roles and where tiles live.

In: a :class:`~zellige.plan.nodes.PlannedKernel`. Out: lines for a reader who knows the text form of the tile IR (docs/tile-ir.md): the
statements of a role are printed as there, those of the plan as calls; ``issue`` starts its operation and goes on, and a statement under
``with slot(CHANNEL, ahead=n)`` means an earlier slot of a channel than its role's last. The text is to be looked at; nothing reads it back.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

from zellige.ir.expr import Buffer, constant_value
from zellige.ir.printer import Printer
from zellige.ir.stmt import For, Pipelined, Serial, Stmt
from zellige.ir.traverse import buffers_in, rebuilt
from zellige.plan.nodes import (
    Acquire,
    Channel,
    Choice,
    Get,
    Issue,
    LaunchPlan,
    Placement,
    PlannedKernel,
    PlannedLaunch,
    Put,
    Release,
    Role,
    Slotted,
    Tiles,
    Turn,
    Wait,
)
from zellige.plan.report import channel_text

_INDENT: Final = "    "


def print_plan(planned: PlannedKernel) -> str:
    """The text of a plan, ending in a newline."""
    return _PlanPrinter(planned).text()


class _PlanPrinter(Printer):
    def __init__(self, planned: PlannedKernel) -> None:
        super().__init__(planned.kernel)
        self._planned = planned
        self._choices: dict[int, Choice] = {}

    def text(self) -> str:
        planned = self._planned
        self._line(f"# plan of {planned.kernel.name} for {planned.target}")
        self._parameters()
        for number, launch in enumerate(planned.launches):
            self._line("")
            self._launch_of(launch, number + 1)
        return "\n".join(self._lines) + "\n"

    def _parameters(self) -> None:
        for param in self._kernel.params:
            self._names.declare(getattr(param, "buffer", None) or getattr(param, "var"))  # noqa: B009 - one of the two
        for line in self._params():
            self._line(line)

    def _launch_of(self, planned: PlannedLaunch, number: int) -> None:
        launch = planned.launch
        self._views = {}
        self._choices = {id(choice.operation): choice for choice in planned.choices}
        self._names.open()
        texts = self._expressions(list(launch.grid))
        grid = [f"{self._names.declare(var)} in {texts.text(extent)}" for var, extent in zip(launch.grid_vars, launch.grid)]
        self._line(f"launch {number}: {', '.join(grid) or 'one block'}{_order_text(planned.order)}")
        for var in launch.lane_vars:
            self._names.declare(var)
        for buffer in buffers_in(launch):
            if buffer.space != "global":
                self._names.declare(buffer)
        self._depth += 1
        for placement in planned.placements:
            self._line(f"place {_placement_text(placement)}")
        for channel in planned.channels:
            self._line(f"channel {channel_text(channel)}")
        for role in planned.roles:
            self._role(role)
        self._depth -= 1
        self._names.close()

    def _role(self, role: Role) -> None:
        copies = f" x {role.count}" if role.count > 1 else ""
        registers = f", {role.registers} registers a lane" if role.registers is not None else ""
        self._line(f"role {role.name}{copies} on {role.engine}{registers}:")
        self._names.open()
        self._nested(role, "body", role.body)  # type: ignore[arg-type]  # statements of the plan are printed below
        self._names.close()

    def _alloc(self, buffer: Buffer) -> None:
        """A tile has its name in all roles already, and its place is printed above."""

    def _for(self, loop: For) -> None:
        """A pipelined loop in a plan is a loop: what its stages asked for has been decided."""
        super()._for(rebuilt(loop, kind=Serial()) if isinstance(loop.kind, Pipelined) else loop)

    def _statement(self, statement: Any) -> None:
        match statement:
            case Acquire() | Put() | Get() | Release():
                self._line(f"{type(statement).__name__.lower()}({statement.channel.name})")
            case Wait():
                left = f", leave_in_flight={statement.leave_in_flight}" if statement.leave_in_flight else ""
                self._line(f"wait({statement.token.name}{left})")
            case Turn():
                self._line(f"turn({statement.name}, {statement.phase})")
            case Issue():
                self._operation(statement.operation, f"issue({statement.token.name}, ", ")")
            case Slotted():
                lags = ", ".join(_lag_text(channel, lag) for channel, lag in statement.lags)
                self._line(f"with {lags}:")
                self._nested(statement, "operation", (statement.operation,))  # type: ignore[arg-type]
            case _ if id(statement) in self._choices:
                self._operation(statement, "", "")
            case _:
                super()._statement(statement)

    def _operation(self, operation: Stmt, before: str, after: str) -> None:
        """One statement between ``before`` and ``after``, with what executes it as a comment on its first line."""
        start = len(self._lines)
        super()._statement(operation)
        if before:
            indent = _INDENT * self._depth
            self._lines[-1] = f"{indent}{before}{self._lines[-1].removeprefix(indent)}{after}"
        choice = self._choices.get(id(operation))
        if choice is not None:
            heads = [i for i in range(start, len(self._lines)) if self._lines[i].lstrip().startswith("for ")]
            self._lines[heads[0] if heads else -1] += f"  # {_choice_text(choice)}"


def _lag_text(channel: Channel, lag: int) -> str:
    return f"slot({channel.name})" if lag == 0 else f"slot({channel.name}, ahead={lag})"


def _order_text(order: LaunchPlan) -> str:
    parts = []
    if order.panel > 1:
        parts.append(f"panels of {order.panel} by {order.order}")
    if order.coarsen:
        parts.append(f"{' x '.join(map(str, order.coarsen))} cells at once")
    if order.is_persistent:
        parts.append("persistent" if order.tiles is None else _tiles_text(order.tiles))
    if order.cluster is not None:
        parts.append(f"clusters of {' x '.join(map(str, order.cluster))}")
    if order.splits > 1:
        parts.append(f"{order.splits} splits of the sum, {order.workspace_bytes} bytes of workspace")
    return f" ({', '.join(parts)})" if parts else ""


def _tiles_text(tiles: Tiles) -> str:
    known = [constant_value(extent) for extent in tiles.grid]
    count = "all" if None in known else str(prod(int(extent or 0) for extent in known))
    panels = f", in panels of {tiles.panel} by {tiles.order}" if tiles.panel > 1 else ""
    return f"persistent: {tiles.workers} workers take {count} tiles{panels}"


def _placement_text(placement: Placement) -> str:
    slots = f" x {placement.slots}" if placement.slots > 1 else ""
    return f"{placement.buffer.name}: {placement.space}[{placement.offset}], {placement.bytes} bytes{slots}"


def _choice_text(choice: Choice) -> str:
    parts = [choice.mechanism or choice.executor]
    if choice.tiling is not None:
        parts.append(f"{choice.tiling.m}x{choice.tiling.n}x{choice.tiling.k}")
    if not choice.is_native:
        parts.append("emulated")
    if choice.merge > 1:
        parts.append(f"{choice.merge} iterations at once")
    if choice.tested:
        when = "in the tail" if choice.edge == "partial" else "always"
        parts.append(f"dimensions {', '.join(map(str, choice.tested))} tested {when}")
    return ", ".join(parts)
