"""A reduction over lanes as older programs write it: T.tvm_thread_allreduce under T.attr(T.comm_reducer(...), "reduce_scope", ...).

In: a function of two values, its identity, a value of each lane, the lane numbers to reduce over. Out: in every lane the combination of
the values of the lanes that differ in those numbers only, taken in the order of the lanes. It goes through shared memory, whatever
the number of lanes; T.warp_reduce_sum and its relatives are quicker within a warp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder
from zellige.frontend.regions import place_of, store
from zellige.frontend.values import Element, Scalar, declare, here
from zellige.ir.expr import INT32, Expr, Region, Var, const
from zellige.language.allocate import alloc_shared
from zellige.language.elementwise import Select
from zellige.language.folds import over
from zellige.language.keywords import check_hints
from zellige.language.lanes import sync_threads
from zellige.language.refused import NotAvailable

_SCOPE: Final = "reduce_scope"


class CommReducer:
    """A commutative combination of two values, and the value that changes nothing."""

    def __init__(self, combine: Callable[[Any, Any], Any], identity: Any) -> None:
        self.combine = combine
        self.identity = identity


def comm_reducer(fcombine: Callable[[Any, Any], Any], identity: Any) -> CommReducer:
    """``T.comm_reducer(lambda x, y: x + y, [T.float32(0)])``. E258: no function, or more than one
    identity, that is, a reduction of several values."""
    values = list(identity) if isinstance(identity, (tuple, list)) else [identity]
    if len(values) != 1:
        raise catalogue.E258.error(here(), operation="T.comm_reducer", wanted="one identity", given=f"{len(values)}")
    if not callable(fcombine):
        given = arithmetic.describe(fcombine)
        raise catalogue.E258.error(here(), operation="T.comm_reducer", wanted="a function of two values", given=given)
    return CommReducer(fcombine, values[0])


def attr(node: Any, attr_key: Any, value: Any) -> AbstractContextManager[None]:
    """``with T.attr(reducer, "reduce_scope", ...)``: the reducer of the T.tvm_thread_allreduce inside. E402 for any other attribute."""
    if not isinstance(node, CommReducer) or attr_key != _SCOPE:
        NotAvailable(f"T.attr with {attr_key!r}", "use the annotate_* functions").refuse()
    return _reducing(node)


@contextmanager
def _reducing(reducer: CommReducer) -> Iterator[None]:
    around = current_builder("T.attr").reduce_scopes
    around.append(reducer)
    try:
        yield
    finally:
        around.pop()


def tvm_thread_allreduce(size: Any, value: Any, condition: Any, result: Any, *lanes: Any, dtype: Any = None) -> None:
    """Puts the combination of ``value`` over the lanes that differ in the numbers ``lanes`` into the element ``result`` of each of them.

    Floats below 32 bits are combined in float32 and rounded once, as by the reductions of tiles.
    Lanes whose ``condition`` does not hold take no part. E258: several values at once, a result that is no element, a number that is no
    lane's, or no T.attr around it that gives the reducer.
    """
    name, span = "T.tvm_thread_allreduce", here()
    around = current_builder(name).reduce_scopes
    if not around:
        wanted = 'a reducer, with T.attr(T.comm_reducer(...), "reduce_scope", ...) around it'
        raise catalogue.E258.error(span, operation=name, wanted=wanted, given="none")
    check_hints(name, dtype=dtype)
    if getattr(size, "constant", size) != 1:
        given = arithmetic.describe(size)
        raise catalogue.E258.error(span, operation=name, wanted="one value, that is, 1 as its first argument", given=given)
    place = place_of(result)
    if not isinstance(place, Element):
        raise catalogue.E258.error(span, operation=name, wanted="an element for the result", given=arithmetic.describe(result))
    reducer: CommReducer = around[-1]
    builder = current_builder(name)
    assert builder.launch is not None, "a lane number was given"
    own = builder.launch.lanes()
    reduced = _reduced(lanes, own, name)
    own_value = arithmetic.as_expr(value, span)
    start = Scalar(arithmetic.cast(arithmetic.as_expr(reducer.identity, span), own_value.dtype, span))
    extents = tuple(builder.launch.threads or ())
    exchange = alloc_shared(tuple(Scalar(e) for e in extents), own_value.dtype)
    store(exchange.at(tuple(Scalar(lane) for lane in own)), Select(condition, Scalar(own_value), start))
    sync_threads()
    is_narrow = own_value.dtype.is_float and own_value.dtype.bits < arithmetic.FLOAT32.bits
    total = declare("total", arithmetic.FLOAT32 if is_narrow else own_value.dtype, start)
    zero, one = const(0, INT32), const(1, INT32)
    offsets: tuple[Expr, ...] = tuple(zero if lane in reduced else lane for lane in own)
    counts = tuple(extent if lane in reduced else one for lane, extent in zip(own, extents))
    over(
        Region(buffer=exchange.node, offsets=offsets, extents=counts, span=span),
        lambda element: total.assign(reducer.combine(total.value(), element)),
    )
    sync_threads()  # the lanes have read what a second reduction writes
    store(place, total.value())


def _reduced(lanes: tuple[Any, ...], own: tuple[Var, ...], name: str) -> tuple[Var, ...]:
    found = []
    for lane in lanes:
        expr = getattr(lane, "expr", None)
        if not isinstance(expr, Var) or expr not in own:
            raise catalogue.E258.error(here(), operation=name, wanted="numbers from T.get_thread_binding", given=arithmetic.describe(lane))
        found.append(expr)
    return tuple(found)
