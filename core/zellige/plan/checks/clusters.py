"""What can be seen of channels between the blocks of a cluster without running anything.

In: a planned launch. Out: problems. That the blocks copy the same and wait for each other in step is seen when the cluster is run as one
block (:mod:`zellige.plan.clusters`), by the same checks as everything else.
"""

from __future__ import annotations

from zellige.ir.expr import Buffer, Var, constant_value
from zellige.ir.lanes import has_lane_code
from zellige.ir.stmt import Atomic, AtomicTile, Copy, is_whole
from zellige.ir.traverse import walk
from zellige.plan.checks.problem import Problems
from zellige.plan.checks.structure import nodes_of
from zellige.plan.clusters import cluster_axis, has_clusters, shares_of
from zellige.plan.facts import statements_in
from zellige.plan.nodes import Channel, Issue, PlannedLaunch, Slotted, Wait

CLUSTERS = 18
"""The number in the list of :mod:`zellige.plan.check`."""


def check_clusters(planned: PlannedLaunch, problems: Problems) -> bool:
    """Whether the launch can be looked at as one block a cluster; what forbids it is a problem."""
    before = len(problems.found)
    for channel in planned.channels:
        _check_channel(channel, problems)
    if not has_clusters(planned):
        return len(problems.found) == before
    _check_grid(planned, problems)
    for channel in planned.channels:
        if channel.scope == "cluster":
            _check_writers(planned, channel, problems)
    return len(problems.found) == before


def _check_channel(channel: Channel, problems: Problems) -> None:
    name = channel.name
    if channel.scope != "cluster":
        if channel.spread:
            problems.add(CLUSTERS, f"channel {name} spreads {channel.spread[0].name} and does not join blocks")
        return
    carried = {buffer.root for buffer in channel.buffers}
    for buffer in channel.spread:
        if buffer.root not in carried:
            problems.add(CLUSTERS, f"channel {name} spreads {buffer.name}, which it does not carry")
    if not channel.spread:
        problems.add(CLUSTERS, f"channel {name} joins blocks and spreads nothing")
    if not channel.is_transaction:
        problems.add(CLUSTERS, f"channel {name} joins blocks and counts no transactions: nothing else tells one what another has copied")
    if set(channel.producers) & set(channel.consumers):
        problems.add(CLUSTERS, f"channel {name} joins blocks, and a role both makes and uses what it carries")


def _check_grid(planned: PlannedLaunch, problems: Problems) -> None:
    launch, found = planned.launch, cluster_axis(planned.order)
    if found is None:
        problems.add(CLUSTERS, f"a channel joins the blocks of a cluster of {planned.order.cluster}, which is not along one axis")
        return
    axis, peers = found
    if axis >= len(launch.grid):
        problems.add(CLUSTERS, f"clusters lie along axis {axis} of a grid of {len(launch.grid)}")
        return
    extent = constant_value(launch.grid[axis])
    if extent is None or int(extent) % peers:
        size = "an extent known at run time only" if extent is None else f"{extent} blocks"
        problems.add(CLUSTERS, f"clusters of {peers} do not divide {size} along {launch.grid_vars[axis].name}")
    if planned.order.tiles is not None or planned.order.from_last is not None or planned.order.panel > 1:
        problems.add(CLUSTERS, "blocks of a cluster are neighbours in the grid, and the plan numbers them otherwise")
    if any(isinstance(s, (Atomic, AtomicTile)) for s in statements_in(launch.body)):
        problems.add(CLUSTERS, "blocks of a cluster meet at atomic operations, whose order nothing gives")
    if has_lane_code(launch):
        problems.add(CLUSTERS, "a channel joins blocks whose author programs the lanes")
    if any(isinstance(node, Var) and node is launch.grid_vars[axis] for safe in launch.safe_values for node in walk(safe)):
        problems.add(CLUSTERS, "what elements outside a tensor read as depends on the block of a cluster")


def _check_writers(planned: PlannedLaunch, channel: Channel, problems: Problems) -> None:
    """Whole copies from tensors alone write what is spread, in rows that the blocks divide."""
    found = cluster_axis(planned.order)
    spread: set[Buffer] = {buffer.root for buffer in channel.spread}
    for role in planned.roles:
        issued: set[int] = set()
        for node in nodes_of(role):
            if isinstance(node, Issue) and node.token is channel.token:
                issued.add(id(node.operation))
            if isinstance(node, Wait) and node.token is channel.token:
                counted = f"which channel {channel.name} counts in every block"
                problems.add(CLUSTERS, f"role {role.name} waits for token {node.token.name}, {counted}")
            if isinstance(node, Slotted) and isinstance(node.operation, Copy) and node.operation.dst.buffer.root in spread:
                problems.add(CLUSTERS, f"role {role.name} copies to an earlier slot of channel {channel.name}, which blocks share")
        for node in nodes_of(role):
            if not hasattr(node, "writes") or not any(region.buffer.root in spread for region in node.writes()) or isinstance(node, Issue):
                continue
            if not isinstance(node, Copy):
                if not getattr(node, "BODIES", ()) and not isinstance(node, Slotted):
                    problems.add(CLUSTERS, f"role {role.name} writes what blocks share by a {type(node).__name__}")
                continue
            reason = _why_not_shared(node, issued, found[1] if found is not None else 1)
            if reason is not None:
                problems.add(CLUSTERS, f"role {role.name} copies to {node.dst.buffer.name}, which blocks share, and {reason}")


def _why_not_shared(copy: Copy, issued: set[int], peers: int) -> str | None:
    if copy.src.buffer.root.space != "global":
        return f"{copy.src.buffer.name} is a block's own"
    if not is_whole(copy.dst):
        return "fills a part of it only"
    if id(copy) not in issued:
        return "the channel does not count it"
    try:
        shares_of(copy, peers)
    except ValueError as reason:
        return str(reason)
    return None
