"""Whether the copies of a role can share its tiles by rows without ever meeting.

In: the operations of a role in order, and which on-chip tiles other roles make. Out: the reason why one copy must not go without another;
None where each can work on its own rows from begin to end.

Every tile that the role itself writes is one of *rows* (each copy has its part of the first dimension: results of products, their left
operands, and what is made of them row by row) or *whole* (each copy makes all of it for itself, in registers). What would need a row of
another copy is a reason: a sum over rows, a tile as right operand, a whole tile made of rows, and whatever happens once a block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from zellige.ir.expr import Buffer, Expr, Load, Region, Var, constant_value
from zellige.ir.stmt import Assert, AtomicTile, Copy, Fill, Gemm, Map, Reduce, Scan, Stmt, Store
from zellige.ir.traverse import walk
from zellige.plan.facts import SCALARS, STRUCTURE, LaunchFacts, statements_in
from zellige.plan.roles import is_operation
from zellige.records import dataclass


def why_not_by_rows(facts: LaunchFacts, operations: Sequence[Stmt], private: frozenset[Buffer]) -> str | None:
    """The reason against copies that share rows. ``private`` are the tiles that each copy could hold for itself (those in registers)."""
    owned = {root for op in operations for root in facts.written(op) if root.space != "global"}
    split = _Split(frozenset(owned), private)
    for operation in operations:
        reason = split.learn(operation)
        if reason is not None:
            return reason
    split.settle()
    for operation in operations:
        reason = split.why_not(operation)
        if reason is not None:
            return reason
    return _steered(facts, owned)


def _steered(facts: LaunchFacts, owned: set[Buffer]) -> str | None:
    for statement in statements_in(facts.launch.body, into_maps=False):
        if is_operation(statement) or not isinstance(statement, (*STRUCTURE, *SCALARS)):
            continue
        for region in statement.reads():
            if region.buffer.root in owned:
                return f"a loop, a branch or a scalar depends on {region.buffer.name}"
    return None


@dataclass(slots=True)
class _Split:
    owned: frozenset[Buffer]
    private: frozenset[Buffer]
    rows: set[Buffer] = field(default_factory=set)
    links: dict[Buffer, set[Buffer]] = field(default_factory=dict)

    # ---- what has rows

    def learn(self, operation: Stmt) -> str | None:
        """Note what the operation says of its tiles; a reason where it is of no kind that rows can be seen in."""
        match operation:
            case Gemm():
                self.rows |= {operation.c.buffer.root, operation.a.buffer.root} & self.owned
            case Copy() | AtomicTile():
                self._link(operation.src.buffer.root, operation.dst.buffer.root)
            case Reduce() | Scan():
                if operation.axis != 0:
                    self._link(operation.src.buffer.root, operation.dst.buffer.root)
            case Map():
                by_axis: dict[Var, list[Buffer]] = {}
                for buffer, first in self._accesses(operation):
                    if isinstance(first, Var) and first in operation.axes:
                        by_axis.setdefault(first, []).append(buffer)
                for together in by_axis.values():
                    for one in together[1:]:
                        self._link(together[0], one)
            case Fill() | Assert():
                pass
            case _:
                return f"a {type(operation).__name__} happens once a block"
        return None

    def _link(self, one: Buffer, other: Buffer) -> None:
        if {one, other} <= self.owned:
            self.links.setdefault(one, set()).add(other)
            self.links.setdefault(other, set()).add(one)

    def settle(self) -> None:
        """Everything linked with a tile of rows is one."""
        pending = list(self.rows)
        while pending:
            for other in self.links.get(pending.pop(), ()):
                if other not in self.rows:
                    self.rows.add(other)
                    pending.append(other)

    # ---- whether every operation keeps to its rows

    def why_not(self, operation: Stmt) -> str | None:
        match operation:
            case Gemm():
                return self._product(operation)
            case Copy():
                return self._move(operation.src, operation.dst)
            case AtomicTile():
                if operation.src.buffer.root not in self.rows and operation.src.buffer.root in self.owned:
                    return f"{operation.src.buffer.name} is added once a block"
                return self._move(operation.src, operation.dst)
            case Fill():
                return self._whole_rows(operation.dst) or self._is_private(operation.dst.buffer)
            case Reduce() | Scan():
                return self._along(operation)
            case Map():
                return self._points(operation)
            case _:
                return None

    def _product(self, gemm: Gemm) -> str | None:
        if gemm.transpose_a and gemm.a.buffer.root in self.owned:
            return f"the rows of {gemm.a.buffer.name} are the steps of a product"
        extra = [r for r in (gemm.scale_a, gemm.scale_b, gemm.metadata) if r is not None]
        for region in (gemm.b, *extra):
            if region.buffer.root in self.owned:
                return f"{region.buffer.name} is made by the consumers and needed as a whole by each product"
        return self._whole_rows(gemm.c) or self._whole_rows(gemm.a)

    def _move(self, source: Region, destination: Region) -> str | None:
        a, b = source.buffer.root, destination.buffer.root
        if a.space == "global" and b.space == "global":
            return f"{destination.buffer.name} is copied to once a block"
        if b.space == "global" and a in self.owned - self.rows:
            return f"{source.buffer.name} is stored once a block"
        return self._whole_rows(source) or self._whole_rows(destination) or self._is_private(destination.buffer)

    def _along(self, statement: Reduce | Scan) -> str | None:
        source, destination = statement.src.buffer.root, statement.dst.buffer.root
        if statement.axis == 0 and (source in self.rows or destination in self.rows):
            return f"{statement.dst.buffer.name} needs all rows of {statement.src.buffer.name}"
        return self._whole_rows(statement.src) or self._whole_rows(statement.dst) or self._is_private(statement.dst.buffer)

    def _points(self, region: Map) -> str | None:
        own_axis: Var | None = None
        for buffer, first in self._accesses(region):
            if buffer not in self.rows:
                continue
            is_row = isinstance(first, Var) and first in region.axes and (own_axis is None or own_axis is first)
            size = region.extents[region.axes.index(first)] if is_row and isinstance(first, Var) else None
            if size is None or constant_value(size) is None or constant_value(size) != constant_value(buffer.shape[0]):
                return f"a parallel loop does not keep to one row of {buffer.name}"
            own_axis = first if isinstance(first, Var) else None
        for statement in statements_in(region.body):
            if not isinstance(statement, (Store, *STRUCTURE, *SCALARS)):
                return f"a {type(statement).__name__} in a parallel loop happens once a block"
            if isinstance(statement, Store) and statement.buffer.root in self.owned - self.rows:
                if own_axis is not None:
                    return f"{statement.buffer.name} is made of rows and is not one of them"
                reason = self._is_private(statement.buffer)
                if reason is not None:
                    return reason
        return None

    def _accesses(self, region: Map) -> list[tuple[Buffer, Expr | None]]:
        """Tiles of the role that a Map touches, each with its first index."""
        found: list[tuple[Buffer, Expr | None]] = []
        for node in walk(region):
            if isinstance(node, (Load, Store)) and node.buffer.root in self.owned:
                is_plain = node.buffer.root is node.buffer and node.indices
                found.append((node.buffer.root, node.indices[0] if is_plain else None))
        return found

    def _whole_rows(self, region: Region) -> str | None:
        """A tile of rows is touched from its first row to its last, under its own shape."""
        buffer = region.buffer
        if buffer.root not in self.rows:
            return None
        if buffer.root is not buffer:
            return f"{buffer.name} is another view of {buffer.root.name}"
        extent, size = constant_value(region.extents[0]), constant_value(buffer.shape[0])
        if constant_value(region.offsets[0]) != 0 or extent is None or extent != size:
            return f"some rows of {buffer.name} are used and others not"
        return None

    def _is_private(self, buffer: Buffer) -> str | None:
        """A tile that each copy makes as a whole must be one that each can hold."""
        root = buffer.root
        if root in self.owned - self.rows and root not in self.private:
            return f"{buffer.name} is shared and would be written by each"
        return None
