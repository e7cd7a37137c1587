"""Three mistakes with storage that published kernels have.

In: a verified kernel whose outputs are known. Out: warnings, each silent where it is not sure:

* E286: an output that atomic operations change and that nothing sets, so that they start from undefined memory;
* E287: a T.Parallel whose axis, used as an index as it is, runs over the end of an on-chip tile. What lies beyond is read as the safe
  value and not written, which a kernel can mean only under a condition on the axis;
* E289: an on-chip tile that is read or added to, and that nothing in the kernel sets.
"""

from __future__ import annotations

from collections.abc import Iterator

from zellige.diagnostics import Diagnostic, catalogue
from zellige.ir.expr import Buffer, Const, Expr, Load, Node, Select, Var
from zellige.ir.stmt import Atomic, AtomicTile, Gemm, If, Kernel, Map, Reduce, StmtNode, Store, TensorParam
from zellige.ir.traverse import children, walk


def accumulated_outputs(kernel: Kernel) -> Iterator[Diagnostic]:
    """E286, once an output, at the first operation that changes it."""
    outputs = [kernel.params[index] for index in kernel.results]
    pending = {param.buffer: param for param in outputs if isinstance(param, TensorParam)}
    first: dict[Buffer, StmtNode] = {}
    for launch in kernel.launches:
        for statement in walk(launch):
            if not isinstance(statement, StmtNode):
                continue
            for region in statement.writes():
                root = region.buffer.root
                if isinstance(statement, (Atomic, AtomicTile)) and statement.op != "store":
                    first.setdefault(root, statement)
                else:
                    pending.pop(root, None)
    for buffer in pending:
        if buffer in first:
            yield catalogue.E286.diagnose(first[buffer].span, name=buffer.name, severity="warning")


def undefined_tiles(kernel: Kernel) -> Iterator[Diagnostic]:
    """E289, once a tile, at the first statement that reads it. Any statement that may set an element of it counts as setting it."""
    for launch in kernel.launches:
        first: dict[Buffer, StmtNode] = {}
        defined: set[Buffer] = set()
        changed: set[Buffer] = set()
        for statement in walk(launch):
            if not isinstance(statement, StmtNode):
                continue
            read = {region.buffer.root for region in statement.reads()}
            for region in statement.writes():
                root = region.buffer.root
                (changed if root in read and _adds(statement) else defined).add(root)
            for root in read:
                first.setdefault(root, statement)
        for root, statement in first.items():
            if root.space != "global" and root not in defined:
                use = "only added to" if root in changed else "read"
                yield catalogue.E289.diagnose(statement.span, name=root.name, use=use, severity="warning")


def _adds(statement: StmtNode) -> bool:
    """Whether a statement that reads and writes one buffer certainly combines with what an element held."""
    match statement:
        case Gemm():
            return isinstance(statement.clear, Const) and not statement.clear.value
        case Reduce() | Store() | Atomic() | AtomicTile():
            return True
        case _:
            return False


def overrun_tiles(kernel: Kernel) -> Iterator[Diagnostic]:
    """E287, once a tile."""
    reported: set[Buffer] = set()
    for launch in kernel.launches:
        for loop in walk(launch):
            if not isinstance(loop, Map):
                continue
            counts = {axis: int(e.value) for axis, e in zip(loop.axes, loop.extents) if isinstance(e, Const)}
            for node in _unconditional(loop):
                if not isinstance(node, (Load, Store)) or node.buffer in reported or node.buffer.root.space == "global":
                    continue
                found = _overrun(node.buffer, node.indices, counts)
                if found is not None:
                    reported.add(node.buffer)
                    axis, count, size = found
                    yield catalogue.E287.diagnose(
                        node.span or loop.span, name=node.buffer.name, axis=axis.name, count=count, size=size, severity="warning"
                    )


def _overrun(buffer: Buffer, indices: tuple[Expr, ...], counts: dict[Var, int]) -> tuple[Var, int, int] | None:
    for index, size in zip(indices, buffer.shape):
        if isinstance(index, Var) and isinstance(size, Const) and counts.get(index, 0) > size.value:
            return index, counts[index], int(size.value)
    return None


def _unconditional(loop: Map) -> Iterator[Node]:
    """Everything in the body that happens at every point: what stands under a condition is left out."""
    pending: list[Node] = list(loop.body)
    seen: set[int] = set()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if not isinstance(node, (If, Select)):
            pending.extend(children(node))
