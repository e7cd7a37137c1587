"""How a thread-level program needs its tensors aligned.

In: a :class:`~zellige.simt.ir.Function`. Out: for each tensor the widest access that a lane makes to it in bytes (:func:`preferred`), of
which its address should be a multiple: where it is not, the same text is compiled once more with accesses of single elements; and the
widest that cannot be taken apart (:func:`required`), which is the element's, or that of a wide atomic operation. An address that is no
multiple of the latter is refused (:func:`zellige.simt.arguments.require`).
"""

from __future__ import annotations

from zellige.ir.expr import Buffer, Load
from zellige.ir.stmt import Atomic, Store
from zellige.ir.traverse import walk
from zellige.simt.ir import AsyncCopy, BoxMap, Function, Pointer


def required(function: Function) -> dict[Buffer, int]:
    """Bytes by the ``tensor`` of each pointer: an address that is no multiple of them is refused."""
    return _widest(function, are_parts_enough=True)


def preferred(function: Function) -> dict[Buffer, int]:
    """Bytes by the ``tensor`` of each pointer: with an address that is no multiple of them, every wide access is made in parts."""
    return _widest(function, are_parts_enough=False)


def _widest(function: Function, *, are_parts_enough: bool) -> dict[Buffer, int]:
    found = {p.buffer: p.buffer.dtype.bytes for p in function.params if isinstance(p, Pointer)}
    for node in walk(function):
        if are_parts_enough and not isinstance(node, Atomic):
            continue
        match node:
            case Load(buffer=buffer) | Store(buffer=buffer) | Atomic(buffer=buffer) if buffer.root in found:
                found[buffer.root] = max(found[buffer.root], buffer.dtype.bytes)
            case AsyncCopy(source=source, size=size) if source.root in found:
                found[source.root] = max(found[source.root], size)
            case _:
                pass
    boxes = {p.box.tensor: p.alignment for p in function.params if isinstance(p, BoxMap)}
    return {p.tensor: max(found[p.buffer], boxes.get(p.tensor, 1)) for p in function.params if isinstance(p, Pointer)}
