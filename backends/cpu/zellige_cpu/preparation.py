"""What is rewritten in a launch before code is written for it: tile IR to tile IR.

In: a verified launch. Out: a launch with the same meaning in which every Map can be run point after point in the storage it names, reducers
of narrow floats accumulate in float32, no lane statement is left (:func:`expanded`), and elementwise statements over the same points are
one Map (:func:`joined`). Joining moves statements past each other, products too, but makes no new ones of those that it leaves alone.
"""

from __future__ import annotations

from zellige.ir.expr import Buffer, Cast, Node
from zellige.ir.stmt import Alloc, Copy, Launch, ReducerFinalize, ReducerInit, ReducerUpdate, Stmt, whole
from zellige.ir.traverse import rebuilt, rewrite, walk
from zellige_cpu.fusion import fused
from zellige_cpu.host import LANES
from zellige_cpu.privacy import with_own_copies
from zellige_cpu.types import FLOAT32


def prepare(launch: Launch) -> Launch:
    """The launch as the emitters take it."""
    return joined(expanded(launch))


def expanded(launch: Launch) -> Launch:
    """The launch with plain storage and without lanes, its statements in their order."""
    body = _wide_reducers(launch.body)
    body = with_own_copies(body)
    prepared = launch if body is launch.body else rebuilt(launch, body=body)
    if not prepared.lane_vars:
        return prepared
    from zellige.passes.expand_lanes import expand_lanes  # most kernels have no lanes

    return expand_lanes(prepared, warp=LANES, target="cpu")


def joined(launch: Launch) -> Launch:
    """The launch with elementwise statements over the same points as one Map."""
    body = fused(launch.body)
    return launch if body is launch.body else rebuilt(launch, body=body)


def _wide_reducers(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """Reducers that round (sums of floats below 32 bits) on a float32 buffer of their own, which is rounded once at the end."""
    inits = [n for s in body for n in walk(s) if isinstance(n, ReducerInit) and n.op in ("sum", "prod", "abssum")]
    reducers = [n for n in inits if n.buffer.dtype.is_float and n.buffer.dtype.bits < 32]
    if not reducers:
        return body
    wide: dict[Buffer, Buffer] = {}
    for reducer in reducers:
        buffer = reducer.buffer
        wide.setdefault(buffer, Buffer(name=f"{buffer.name}_wide", dtype=FLOAT32, shape=buffer.shape, space="local"))

    def visit(node: Node) -> Node | tuple[Stmt, ...]:
        match node:
            case Alloc() if node.buffer in wide:
                return (node, Alloc(buffer=wide[node.buffer]))
            case ReducerInit() if node.buffer in wide:
                return rebuilt(node, buffer=wide[node.buffer])
            case ReducerUpdate() if node.buffer in wide:
                return rebuilt(node, buffer=wide[node.buffer], value=Cast(value=node.value, dtype=FLOAT32))
            case ReducerFinalize() if node.buffer in wide:
                return (Copy(src=whole(wide[node.buffer]), dst=whole(node.buffer)),)
            case _:
                return node

    result: list[Stmt] = []
    for statement in body:
        new = rewrite(statement, visit)
        result.extend(new if isinstance(new, tuple) else (new,))
    return tuple(result)
