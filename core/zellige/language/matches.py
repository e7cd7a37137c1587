"""Lanes that agree: T.match_any_sync, match_all_sync, and T.__fns, which finds lanes in a mask. Built from shuffles and votes.

Masks of a warp have 64 bits, one for each lane that a warp may have here.
"""

from __future__ import annotations

from typing import Any, Final

from zellige.dtypes import dtype as as_dtype
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder
from zellige.frontend.values import Scalar, Variable, bind, declare, here
from zellige.ir.expr import INT32, Expr, const
from zellige.ir.stmt import For, If, Serial
from zellige.language import lanes
from zellige.language.integers import ffs

_U32: Final = as_dtype("uint32")
_U64: Final = as_dtype("uint64")
_FULL: Final = 0xFFFF_FFFF


def _u32(value: Any) -> Scalar:
    return Scalar(arithmetic.cast(arithmetic.as_expr(value, here(), _U32), _U32, here()))


def _u64(value: Any) -> Scalar:
    return Scalar(arithmetic.cast(arithmetic.as_expr(value, here(), _U64), _U64, here()))


def _participants(mask: Any) -> Scalar:
    """The lanes that run this statement and are in ``mask``, as bits. E243: no mask."""
    lanes.check_mask(mask)
    active = lanes.activemask()
    return bind("active", active if mask is None else active & _u64(mask))


def _each(count: Expr, update: Any) -> None:
    """A loop from 0 to ``count`` around ``update(number)``."""
    builder = current_builder("a match")
    number = builder.var("other", INT32, "loop")
    with builder.body() as body:
        update(Scalar(number))
    first, step = const(0, INT32), const(1, INT32)
    builder.emit(For(var=number, start=first, stop=count, step=step, kind=Serial(), body=tuple(body), span=builder.span))


def _when(condition: Any, variable: Variable, value: Any) -> None:
    builder = current_builder("a match")
    with builder.body() as body:
        variable.assign(value)
    builder.emit(If(condition=arithmetic.truth(condition, builder.span), then=tuple(body), span=builder.span))


def match_any_sync(value: Any, mask: Any = None) -> Scalar:
    """The mask of the warp's lanes whose ``value`` is the same as this lane's (uint64)."""
    own = bind("value", value)
    active = _participants(mask)
    peers = declare("peers", _U64, 0)

    def update(number: Scalar) -> None:
        bit = bind("bit", _u64(1) << _u64(number))
        is_there = bind("there", (active & bit) != 0)
        source = Scalar(arithmetic.select(is_there, number, lanes.get_lane_idx(), here()))
        other = lanes.shuffle("index", own, source, None)
        is_peer = arithmetic.binary("and", other == own, is_there, here())
        _when(Scalar(is_peer), peers, peers | bit)

    _each(lanes.warp_lanes(), update)
    return peers.value()


def match_all_sync(value: Any, mask: Any = None) -> Scalar:
    """The mask of the warp's lanes that take part where all of them have the same ``value``, else 0 (uint64)."""
    own = bind("value", value)
    active = _participants(mask)
    first = lanes.shuffle("index", own, ffs(active) - 1, None)
    agree = lanes.all_sync(own == first)
    return bind("agreement", Scalar(arithmetic.select(agree != 0, active, _u64(0), here())))


def fns(mask: Any, base: Any, offset: Any) -> Scalar:
    """The position of the ``offset``-th one bit of a mask, counted from bit ``base`` upward; downward where ``offset`` is negative.

    0 asks whether bit ``base`` itself is one. 0xFFFFFFFF where there is none (uint32).
    """
    bits = bind("mask", _u32(mask))
    start = bind("base", Scalar(arithmetic.index(base, here())))
    wanted = bind("wanted", Scalar(arithmetic.index(offset, here())))
    found = declare("found", _U32, _u32(_FULL))
    count = declare("count", INT32, 0)
    is_upward = bind("upward", wanted >= 0)
    number = bind(
        "number", Scalar(arithmetic.select(wanted == 0, 1, Scalar(arithmetic.select(is_upward, wanted, -wanted, here())), here()))
    )

    def update(step: Scalar) -> None:
        position = bind("position", Scalar(arithmetic.select(is_upward, start + step, start - step, here())))
        inside = arithmetic.binary("and", position >= 0, position < 32, here())
        is_one = arithmetic.binary("and", Scalar(inside), (bits >> _u32(position)) % 2 == 1, here())
        reaches = arithmetic.binary("or", wanted != 0, step == 0, here())
        hit = bind("hit", Scalar(arithmetic.binary("and", Scalar(is_one), Scalar(reaches), here())))
        _when(hit, count, count + 1)
        is_last = arithmetic.binary("and", hit, count == number, here())
        _when(Scalar(is_last), found, _u32(position))

    _each(const(_U32.bits, INT32), update)
    return found.value()
