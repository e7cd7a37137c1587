"""How a thread-level program needs its tensors aligned.

In: a :class:`~zellige.simt.ir.Function`. Out: for each tensor the widest access that a lane makes to it, in bytes: its address must be a
multiple of that. :func:`require` refuses an address that is not (E610).
"""

from __future__ import annotations

from zellige.diagnostics import catalogue
from zellige.ir.expr import Buffer, Load
from zellige.ir.stmt import Atomic, Store
from zellige.ir.traverse import walk
from zellige.simt.ir import AsyncCopy, Function, Pointer


def required(function: Function) -> dict[Buffer, int]:
    """The alignment in bytes by the ``tensor`` of each pointer."""
    found = {p.buffer: p.buffer.dtype.bytes for p in function.params if isinstance(p, Pointer)}
    for node in walk(function):
        match node:
            case Load(buffer=buffer) | Store(buffer=buffer) | Atomic(buffer=buffer) if buffer.root in found:
                found[buffer.root] = max(found[buffer.root], buffer.dtype.bytes)
            case AsyncCopy(source=source, size=size) if source.root in found:
                found[source.root] = max(found[source.root], size)
            case _:
                pass
    return {p.tensor: found[p.buffer] for p in function.params if isinstance(p, Pointer)}


def require(name: str, dtype: str, alignment: int, address: int, element_bytes: int) -> None:
    """Raise E610 where a tensor does not begin at a multiple of ``alignment`` bytes."""
    if address % alignment:
        wide = dtype if alignment <= element_bytes else f"{alignment // element_bytes} elements of {dtype} that are moved together"
        raise catalogue.E610.error(name=name, alignment=alignment, dtype=wide, address=address)
