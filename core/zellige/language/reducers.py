"""Reducers: T.alloc_reducer, reducer_init, reducer_update, finalize_reducer."""

from __future__ import annotations

from typing import Any

from zellige.diagnostics import catalogue
from zellige.diagnostics.suggest import closest
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder
from zellige.frontend.reducers import UPDATES, Reducer, open_loops, reducer_of
from zellige.frontend.values import Element, Tile, here
from zellige.language.allocate import allocate
from zellige.language.keywords import check_hints
from zellige.language.movement import copy
from zellige.language.reductions import check_batch

_BITWISE = ("bitand", "bitor", "bitxor")


def alloc_reducer(shape: Any, dtype: Any, op: str = "sum", replication: str | None = None) -> Tile:
    """A fragment that the points of T.Parallel update together, in any order. ``replication`` is a hint.

    ``op``: sum, max, min, absmax, abssum, bitand, bitor, bitxor. It is started by :func:`reducer_init`, updated by
    :func:`reducer_update` and read from where :func:`finalize_reducer` copies it; older code clears it, updates by ``r[i] += x`` and reads
    it after ``T.finalize_reducer(r)``. E233: unknown operation; E258: no replication; E290: one that is not defined for the dtype.
    """
    known = {name: name for name in UPDATES}
    if not isinstance(op, str) or op not in known:
        raise catalogue.E233.error(here(), given=repr(op), known=", ".join(known), suggestion=closest(op, known))
    if replication not in (None, "all", "none"):
        given = f"{replication!r}{closest(replication, ('all', 'none'))}"
        raise catalogue.E258.error(here(), operation="T.alloc_reducer", wanted='"all" or "none" as replication', given=given)
    tile = allocate(shape, dtype, "fragment", "reducer")
    builder = current_builder("T.alloc_reducer")
    if tile.dtype.lanes > 1:
        hint = f'give it one more dimension for the lanes, of {tile.dtype.lanes} elements of "{tile.dtype.scalar}"'
        raise catalogue.E290.error(builder.span, op=op, dtype=tile.dtype, wanted="a dtype of one lane", hint=hint)
    if tile.dtype.is_bool or (op in _BITWISE and not tile.dtype.is_integer):
        wanted = "an integer dtype" if op in _BITWISE else "a dtype of integers or floats"
        raise catalogue.E290.error(builder.span, op=op, dtype=tile.dtype, wanted=wanted)
    builder.reducers[tile.node] = Reducer(
        buffer=tile.node, op=known[op], replication=replication, allocated=builder.mark(), depth=builder.depth, loops=open_loops(builder)
    )
    return tile


def reducer_init(reducer: Any, init: Any = None) -> None:
    """Starts a reducer, at the identity of its operation or at ``init``, which counts once and is taken as it is now.

    E234: no reducer, or one that is started already; E235: ``init`` is of another dtype.
    """
    _whole(reducer, "T.reducer_init").start(init, "epoch", "T.reducer_init")


def reducer_update(target: Any, value: Any) -> None:
    """``target = op(target, value)`` for one element of a started reducer, in a point of T.Parallel. E234 otherwise."""
    if not isinstance(target, Element):
        raise catalogue.E258.error(
            here(), operation="T.reducer_update", wanted="an element of a reducer, such as r[i]", given=arithmetic.describe(target)
        )
    reducer_of(target, "T.reducer_update").update(target, value, "T.reducer_update")


def finalize_reducer(reducer: Any, dst: Any = None, batch: int = 1, annotations: Any = None) -> None:
    """Ends the updates and copies the results to ``dst``; without ``dst`` the reducer itself is a fragment that holds them from here on.

    ``batch`` is a hint, see :func:`~zellige.language.reductions.check_batch` (E245, E291). E234: not started, or ended already;
    E223: ``dst`` has another shape.
    """
    check_hints("T.finalize_reducer", annotations=annotations)
    whole = _whole(reducer, "T.finalize_reducer")
    check_batch(batch, whole.buffer.shape, "T.finalize_reducer")
    whole.finalize("T.finalize_reducer")
    if dst is not None:
        copy(reducer, dst)


def _whole(value: Any, operation: str) -> Reducer:
    if not isinstance(value, Tile):
        raise catalogue.E234.error(here(), operation=operation, given=arithmetic.describe(value), reason="is no reducer")
    return reducer_of(value, operation)
