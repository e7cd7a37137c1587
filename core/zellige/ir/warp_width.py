"""How many lanes a warp has, put into a kernel once its target is known.

In: a kernel as it was written, in which that number is a variable of a launch (``Launch.warp``) and the width 0 of shuffles; the lanes that
the target executes together. Out: the same kernel with the number in their place. A reduction over the warp is written for the widest; its
steps among lanes that a warp of this target does not have are gone afterwards, so that no target pays for another one's width.

E446: a shuffle is of more lanes than a warp has; the program exchanges values over the warp, and a warp of the target is no power of two
or more than the language takes; or it asks for a mask of a warp with more lanes than a mask has bits.
"""

from __future__ import annotations

from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige.ir.expr import BOOL, INT32, Binary, Compare, Const, Select, Var, const
from zellige.ir.stmt import LARGEST_WARP, Bind, Kernel, Launch, Shuffle, Vote
from zellige.ir.traverse import children, rebuilt, rewrite, substitute, walk

MASK_BITS: Final = 64
"""The lanes that a mask has room for."""

WITHOUT: Final = 32
"""The lanes that a warp is taken to have on a target that has none, which refuses what the program does with its lanes."""


def with_warps_of(kernel: Kernel, lanes: int, target: str) -> Kernel:
    """``kernel`` for warps of ``lanes`` lanes (0: the target has none); the same object where it does not ask."""
    found = tuple(_resolved(launch, lanes or WITHOUT, target) for launch in kernel.launches)
    is_same = all(new is old for new, old in zip(found, kernel.launches))
    return kernel if is_same else rebuilt(kernel, launches=found)


def _resolved(launch: Launch, lanes: int, target: str) -> Launch:
    if not launch.lane_vars:
        return launch
    exchanges = [n for n in walk(launch) if isinstance(n, Shuffle) and not n.width]
    _check(launch, exchanges, lanes, target)
    if launch.warp is None and not exchanges:
        return launch
    known = launch
    if launch.warp is not None:
        width = launch.warp
        known = substitute(rebuilt(launch, warp=None), {width: const(lanes, INT32)})
    gone: set[int] = set()

    def visit(node: Any) -> Any:
        match node:
            case Shuffle(width=0, mode="xor", operand=Const(value=delta)) if delta >= lanes:
                gone.add(id(node.result))  # there is no such lane in any warp: each has its own value
                return Bind(var=node.result, value=node.value, span=node.span)
            case Shuffle(width=0):
                return rebuilt(node, width=lanes)
            case Binary(op="floormod", left=Const(value=int(left)), right=Const(value=int(right))) if right > 0:
                return Const(value=left % right, dtype=node.dtype, span=node.span)
            case Compare(op="gt" | "eq" as op, left=Const(value=left), right=Const(value=right)):
                return Const(value=left > right if op == "gt" else left == right, dtype=BOOL, span=node.span)
            case Binary(op="and" | "or" as op, left=Const(value=decides), right=other):
                return node.left if bool(decides) is (op == "or") else other
            case Binary(op="and" | "or" as op, left=other, right=Const(value=decides)) if bool(decides) is (op == "and"):
                return other
            case Select(condition=Const(value=chosen)):
                return node.then if chosen else node.otherwise
            case Bind(var=var, value=Var()):
                gone.add(id(var))
        return node

    return _without_unheard(_without_copies(rewrite(known, visit), gone))


def _without_copies(launch: Launch, gone: set[int]) -> Launch:
    """The launch without the names in ``gone`` that only stand for another name."""
    same: dict[Var, Var] = {}
    for node in walk(launch):
        if isinstance(node, Bind) and id(node.var) in gone and isinstance(node.value, Var) and node.value.kind == node.var.kind == "value":
            same[node.var] = same.get(node.value, node.value)
    if not same:
        return launch
    without = rewrite(launch, lambda node: () if isinstance(node, Bind) and node.var in same else node)
    return substitute(without, same)


def _without_unheard(launch: Launch) -> Launch:
    """The launch without exchanges of values that nothing uses."""
    while True:
        used: set[int] = set()
        for node in walk(launch):
            own = node.result if isinstance(node, Shuffle) else node.var if isinstance(node, Bind) else None
            used.update(id(child) for child in children(node, bodies=False) if isinstance(child, Var) and child is not own)
        unheard = {id(n.result) for n in walk(launch) if isinstance(n, Shuffle) and id(n.result) not in used}
        if not unheard:
            return launch
        launch = _without(launch, unheard)


def _without(launch: Launch, results: set[int]) -> Launch:
    return rewrite(launch, lambda node: () if isinstance(node, Shuffle) and id(node.result) in results else node)


def _check(launch: Launch, exchanges: list[Shuffle], lanes: int, target: str) -> None:
    for node in walk(launch):
        if isinstance(node, Shuffle) and node.width > lanes:
            operation = f"a shuffle ({node.mode})"
            raise catalogue.E446.error(node.span, operation=operation, width=node.width, target=target, lanes=lanes)
    if exchanges and (lanes & (lanes - 1) or lanes > LARGEST_WARP):
        operation, width = f"a shuffle ({exchanges[0].mode}) over the warp", f"a power of two up to {LARGEST_WARP}"
        raise catalogue.E446.error(exchanges[0].span, operation=operation, width=width, target=target, lanes=lanes)
    if lanes > MASK_BITS:
        for node in walk(launch):
            if isinstance(node, Vote) and node.mode == "ballot" and node.scope == "warp":
                raise catalogue.E446.error(node.span, operation="a ballot", width=f"at most {MASK_BITS}", target=target, lanes=lanes)
