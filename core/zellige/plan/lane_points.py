"""Products, reductions, scans and transpositions that each lane does for itself, written out as their points.

In: a launch. Out: the launch in which only operations of the whole block are left of these, and a decision for each that was written out.

No unit, tree of lanes or packing serves a single lane, so these operations are loops over elements on every machine. Written out, they also
keep their meaning where a lane's tile becomes a part of an array with a dimension more: they tell dimensions apart by their place, as
copies do not.
"""

from __future__ import annotations

from zellige.ir.expr import Node
from zellige.ir.lanes import PRIVATE, lane_dependence, tile_regions
from zellige.ir.stmt import Gemm, Launch, Reduce, Scan, Stmt, Transpose
from zellige.ir.traverse import rewrite
from zellige.ir.verifier.context import word
from zellige.passes import tile_operations
from zellige.plan.draft import Decisions
from zellige.plan.facts import statements_in


def with_lane_points(launch: Launch, decisions: Decisions) -> Launch:
    """``launch`` with each lane's own operations as Maps over their points; itself in a launch without lanes."""
    if not launch.lane_vars:
        return launch
    dependence = lane_dependence(launch)
    written: dict[int, tuple[Stmt, ...]] = {}
    for statement in statements_in(launch.body):
        if not isinstance(statement, (Gemm, Reduce, Scan, Transpose)):
            continue
        is_of_point = any(region.buffer.root.space in PRIVATE for region in tile_regions(statement))
        if is_of_point or dependence.is_private(statement):
            written[id(statement)] = _points(statement)
            decisions.take(
                f"who does {word(statement)}?", "each lane for itself, element by element",
                "it works on what belongs to a lane, or its operands differ between lanes", where=statement.span,
            )  # fmt: skip

    def visit(node: Node) -> Node | tuple[Stmt, ...]:
        return written.get(id(node), node)

    return rewrite(launch, visit) if written else launch


def _points(statement: Gemm | Reduce | Scan | Transpose) -> tuple[Stmt, ...]:
    match statement:
        case Gemm():
            return tile_operations.gemm_as_map(statement)
        case Reduce():
            return (tile_operations.reduce_as_map(statement),)
        case Scan():
            return (tile_operations.scan_as_map(statement),)
        case Transpose():
            return (tile_operations.copy_as_map(statement),)
