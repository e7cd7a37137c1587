"""The lane extension: thread queries, barriers, shuffles, votes. A launch that uses one has exactly ``threads`` lanes.

A warp is the lanes that the target executes together: 32 on one, 64 or 16 on another (``Capabilities.lanes``). A kernel is traced before
its target is known, so what asks for that number gets a variable of the launch, which :mod:`zellige.ir.warp_width` replaces.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal

from zellige.diagnostics import catalogue
from zellige.dtypes import dtype as as_dtype
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder, current_launch
from zellige.frontend.values import Scalar, bind, from_expr, here
from zellige.frontend.vectors import apply as lane_by_lane, is_vector
from zellige.ir.expr import BOOL, INT32, Var, const
from zellige.ir.stmt import LARGEST_WARP, Barrier, Scope, Shuffle, Vote
from zellige.language import elementwise
from zellige.language.keywords import count_of, size_of

WHOLE_WARP: Final = 0
"""The width of a shuffle among all lanes of a warp, however many the target has."""

_DIMENSIONS: Final = 3
_WARPS_OF_A_GROUP: Final = 4


def _axis(dim: Any, count: int, what: str) -> int:
    number = arithmetic.whole_number(dim)
    if number is None or not 0 <= number < count:
        raise catalogue.E241.error(here(), what=what, given=arithmetic.describe(dim), count=count)
    return number


def get_thread_binding(dim: int = 0) -> Scalar:
    """The lane's number along dimension ``dim`` of ``threads``; 0 along one that was not given. E241: no dimension from 0 to 2."""
    return get_thread_bindings()[_axis(dim, _DIMENSIONS, "thread dimension")]


def thread_binding(start: Any, stop: Any = None, thread: str = "threadIdx.x") -> Any:
    """The lane's number along a dimension of ``threads``, or the block's along one of the grid, whose range is given.

    ``for tx in T.thread_binding(128, "threadIdx.x")``: each lane runs the body once, with its own number; "blockIdx.x" is the block's.
    A range from 0, ``tx = T.thread_binding(0, 128, "threadIdx.x")``, is the number itself. T.Kernel gives the extents; in a kernel without
    it, which is one launch, the first range of each dimension does.
    E258: no such dimension, or another range than the launch's; E241: the grid has no such dimension.
    """
    if isinstance(stop, str):
        stop, thread = None, stop
    known = {f"{kind}.{axis}": (kind, dim) for kind in ("threadIdx", "blockIdx") for dim, axis in enumerate("xyz")}
    if not isinstance(thread, str) or thread not in known:
        wanted = "one of " + ", ".join(known)
        raise catalogue.E258.error(here(), operation="T.thread_binding", wanted=wanted, given=arithmetic.describe(thread))
    kind, dim = known[thread]
    extents, binding = (get_thread_extents, get_thread_binding) if kind == "threadIdx" else (get_block_extents, get_block_binding)
    extent = start if stop is None else stop
    _claim(kind, dim, extent)
    if not _is_same_extent(extent, extents()[dim]):
        wanted = f"the extent {_shown(extents()[dim])} that the launch has along {thread}"
        hint = "T.Kernel(2, 3, threads=64) opens blocks 2 and 3 along blockIdx.x and blockIdx.y, and lanes 64 along threadIdx.x"
        raise catalogue.E258.error(here(), operation="T.thread_binding", wanted=wanted, given=_shown(extent), hint=hint)
    if stop is not None and getattr(start, "constant", start) != 0:
        raise catalogue.E258.error(here(), operation="T.thread_binding", wanted="a range from 0", given=arithmetic.describe(start))
    own = binding(dim)
    return [own] if stop is None else own


def launch_thread(env_var: str, extent: Any) -> Any:
    """``tx = T.launch_thread("threadIdx.x", 128)``: as ``T.thread_binding(0, 128, "threadIdx.x")``."""
    return thread_binding(0, extent, env_var)


def _claim(kind: str, dim: int, extent: Any) -> None:
    """Gives the launch of a kernel without T.Kernel an extent that it lacks."""
    launch = current_launch("T.thread_binding")
    size = getattr(extent, "constant", extent)
    if not launch.implied_by or (isinstance(size, (int, float)) and (not isinstance(size, int) or isinstance(size, bool) or size < 1)):
        return
    wanted = arithmetic.index(extent, here())
    if kind == "blockIdx":
        launch.claim_blocks(dim, wanted)
    else:
        launch.claim_lanes(dim, wanted)


def _is_same_extent(given: Any, extent: Any) -> bool:
    """Whether both are one number, or one expression of run-time sizes."""
    if isinstance(given, Scalar) and isinstance(extent, Scalar):
        return bool(given.expr == extent.expr)
    return type(given) in (int, Scalar) and getattr(given, "constant", given) == getattr(extent, "constant", extent)


def _shown(extent: Any) -> str:
    return str(extent) if type(extent) is int else arithmetic.describe(extent)


def get_thread_bindings() -> list[Scalar]:
    """The lane's numbers along the three dimensions of ``threads``."""
    lanes = [Scalar(var) for var in current_launch("T.get_thread_binding").lanes()]
    return lanes + [Scalar(const(0, INT32))] * (_DIMENSIONS - len(lanes))


def get_block_binding(dim: int = 0) -> Scalar:
    """The block's number along grid dimension ``dim``. E241: the grid has no such dimension."""
    grid = current_launch("T.get_block_binding").grid_vars
    return Scalar(grid[_axis(dim, len(grid), "grid dimension")])


def get_block_bindings() -> list[Scalar]:
    """The block's numbers along every grid dimension."""
    return [Scalar(var) for var in current_launch("T.get_block_bindings").grid_vars]


def get_thread_extent(dim: int = 0) -> Any:
    """The number of lanes along a dimension of ``threads``; 1 along one that was not given. E241: no dimension from 0 to 2."""
    return get_thread_extents()[_axis(dim, _DIMENSIONS, "thread dimension")]


def get_thread_extents() -> list[Any]:
    """The numbers of lanes along the three dimensions of ``threads``."""
    extents = [from_expr(e) for e in current_launch("T.get_thread_extent").threads or ()]
    return extents + [1] * (_DIMENSIONS - len(extents))


def get_block_extent(dim: int = 0) -> Any:
    """The grid's extent along a dimension; 1 along one that it does not have. E241: no dimension from 0 to 2."""
    return get_block_extents()[_axis(dim, _DIMENSIONS, "grid dimension")]


def get_block_extents() -> list[Any]:
    """The grid's extents along three dimensions."""
    extents = [from_expr(e) for e in current_launch("T.get_block_extent").grid]
    return extents + [1] * (_DIMENSIONS - len(extents))


def linear_lane() -> Scalar:
    """The lane's number in the block, the first dimension of ``threads`` fastest."""
    launch = current_launch("a lane operation")
    lanes = launch.lanes()
    result = Scalar(lanes[0])
    step: Any = Scalar((launch.threads or ())[0])
    for var, extent in zip(lanes[1:], (launch.threads or ())[1:]):
        result = result + Scalar(var) * step
        step = step * Scalar(extent)
    return result


def warp_lanes() -> Var:
    """How many lanes a warp of the target has."""
    return current_launch("a lane operation").warp_width()


def _width(warp_size: Any) -> Any:
    """The lanes of a warp: as many as given, else as the target has. E245, E205: no count."""
    return Scalar(warp_lanes()) if warp_size is None else Scalar(size_of(warp_size, "as warp_size"))


def get_lane_idx(warp_size: Any = None) -> Scalar:
    """The lane's number in its warp: of the target's, or of one of ``warp_size`` lanes."""
    return Scalar(arithmetic.binary("floormod", linear_lane(), _width(warp_size), here()))


def get_warp_idx(warp_size: Any = None) -> Scalar:
    """The number of the lane's warp in the block, of the target's warps, or of those of ``warp_size`` lanes."""
    return Scalar(arithmetic.binary("floordiv", linear_lane(), _width(warp_size), here()))


get_warp_idx_sync = get_warp_idx


def get_warp_group_idx(warp_size: Any = None, warps_per_group: Any = None) -> Scalar:
    """The number of the lane's group of warps in the block: groups of ``warps_per_group`` warps, 4 by default."""
    group = _WARPS_OF_A_GROUP if warps_per_group is None else Scalar(size_of(warps_per_group, "as warps_per_group"))
    return Scalar(arithmetic.binary("floordiv", get_warp_idx(warp_size), group, here()))


def shuffle_elect(thread_extent: int) -> Scalar:
    """Whether the lane is the first of its group of ``thread_extent`` lanes; of the whole block for 0. E245: no count."""
    extent = count_of(thread_extent, "as thread_extent", least=0)
    lane = linear_lane()
    return Scalar(arithmetic.compare("eq", lane % extent if extent else lane, 0, here()))


def _barrier(scope: Scope, operation: str) -> None:
    launch = current_launch(operation)
    launch.has_barriers = True
    builder = current_builder(operation)
    builder.emit(Barrier(scope=scope, span=builder.span))


def sync_threads(barrier_id: Any = None, arrive_count: Any = None) -> None:
    """Every lane of the block arrives before any goes on.

    A barrier with a number and a count of arrivals waits for the whole block too: all lanes reach the statement (E145 otherwise), so that
    this is the same or waits for more. E242: no number of a barrier, or a count that the block's lanes never reach.
    """
    if barrier_id is not None:
        _check_named("barrier_id", barrier_id, 0, None)
    if arrive_count is not None:
        lanes = [getattr(extent, "constant", extent) for extent in get_thread_extents()]
        _check_named("arrive_count", arrive_count, 1, math.prod(lanes) if all(isinstance(n, int) for n in lanes) else None)
    _barrier("block", "T.sync_threads")


def _check_named(name: str, given: Any, least: int, most: int | None) -> None:
    """E242 unless ``given`` is an integer, one known here from ``least`` to ``most``."""
    value = arithmetic.whole_number(given)
    if value is None:
        is_integer = isinstance(given, Scalar) and given.dtype.is_integer and given.constant is None
    else:
        is_integer = value >= least and (most is None or value <= most)
    if not is_integer:
        wanted = f"an integer from {least}" + ("" if most is None else f" to {most}")
        raise catalogue.E242.error(here(), name=name, wanted=wanted, given=arithmetic.describe(given))


def sync_warp(mask: Any = None) -> None:
    """Every lane of the warp arrives before any goes on. E243: no mask."""
    check_mask(mask)
    _barrier("warp", "T.sync_warp")


def sync_grid() -> None:
    """Every block arrives before any goes on."""
    _barrier("grid", "T.sync_grid")


def check_mask(mask: Any) -> None:
    """E243 for a mask that is none, such as a predicate in its place. The lanes that take part are those that reach the statement: a right
    mask names them, and says nothing more."""
    if mask is None:
        return
    known = arithmetic.whole_number(mask)
    is_unknown = isinstance(mask, Scalar) and mask.dtype.is_integer and known is None
    if not known and not is_unknown:
        raise catalogue.E243.error(here(), given=f"{arithmetic.describe(mask)} as the mask")


def shuffle(mode: Literal["xor", "up", "down", "index"], value: Any, operand: Any, width: Any) -> Any:
    """``value``, of a vector each of its scalars, of another lane of the group of ``width`` lanes, None: of the warp. E243: a width that is
    not a power of two up to 128."""
    size = WHOLE_WARP if width is None else arithmetic.whole_number(width)
    if size is None or (width is not None and not (1 <= size <= LARGEST_WARP and not size & (size - 1))):
        raise catalogue.E243.error(here(), given=f"{arithmetic.describe(width)} as the width")
    current_launch("a shuffle").lanes()
    if is_vector(value):
        return lane_by_lane(lambda lane: shuffle(mode, lane, operand, width), value)
    builder = current_builder("a shuffle")
    expr = arithmetic.as_expr(value, builder.span)
    result = builder.var("shuffled", expr.dtype, "value")
    other = arithmetic.index(operand, builder.span)
    builder.emit(Shuffle(result=result, mode=mode, value=expr, operand=other, width=size, span=builder.span))
    return Scalar(result)


def shfl_xor(value: Any, delta: Any, width: int | None = None, mask: Any = None) -> Any:
    """The value of lane ``lane ^ delta``. E243: width or mask."""
    check_mask(mask)
    return shuffle("xor", value, delta, width)


def shfl_up(value: Any, delta: Any, width: int | None = None, mask: Any = None) -> Any:
    """The value of lane ``lane - delta``, the own value where there is none. E243: width or mask."""
    check_mask(mask)
    return shuffle("up", value, delta, width)


def shfl_down(value: Any, delta: Any, width: int | None = None, mask: Any = None) -> Any:
    """The value of lane ``lane + delta``, the own value where there is none. E243: width or mask."""
    check_mask(mask)
    return shuffle("down", value, delta, width)


def shfl_sync(value: Any, srcLane: Any, width: int | None = None, mask: Any = None) -> Any:
    """The value of lane ``srcLane`` of the group, counted round it: of 8 lanes, 9 is lane 1 and -1 lane 7. E243: width or mask."""
    check_mask(mask)
    return shuffle("index", value, _around(srcLane, arithmetic.whole_number(width)), width)


def _around(lane: Any, width: int | None) -> Any:
    """``lane`` modulo the lanes of a group, None: of the warp."""
    known = arithmetic.whole_number(lane)
    if known == 0 or (width is not None and (width < 1 or (known is not None and 0 <= known < width))):
        return lane
    return Scalar(arithmetic.binary("floormod", lane, Scalar(warp_lanes()) if width is None else width, here()))


def _vote(mode: Literal["any", "all", "count", "ballot"], scope: Scope, predicate: Any) -> Scalar:
    current_launch("a vote").lanes()
    builder = current_builder("a vote")
    dtype = {"ballot": as_dtype("uint64"), "count": INT32}.get(mode, BOOL)
    result: Var = builder.var("vote", dtype, "value")
    builder.emit(Vote(result=result, mode=mode, scope=scope, predicate=arithmetic.truth(predicate, builder.span), span=builder.span))
    return Scalar(arithmetic.cast(result, INT32, builder.span) if dtype.is_bool else result)


def any_sync(predicate: Any, mask: Any = None) -> Scalar:
    """1 where the predicate holds in any lane of the warp, else 0. E243: no mask."""
    check_mask(mask)
    return _vote("any", "warp", predicate)


def all_sync(predicate: Any, mask: Any = None) -> Scalar:
    """1 where the predicate holds in all lanes of the warp, else 0. E243: no mask."""
    check_mask(mask)
    return _vote("all", "warp", predicate)


def ballot(predicate: Any) -> Scalar:
    """The mask of the warp's lanes in which the predicate holds (uint64)."""
    return _vote("ballot", "warp", predicate)


def ballot_sync(predicate: Any, mask: Any = None) -> Scalar:
    """As :func:`ballot`. E243: no mask."""
    check_mask(mask)
    return ballot(predicate)


def activemask() -> Scalar:
    """The mask of the warp's lanes that run this statement (uint64)."""
    return ballot(True)


def syncthreads_count(predicate: Any) -> Scalar:
    """A block barrier that gives the number of lanes in which the predicate holds."""
    return _vote("count", "block", predicate)


def syncthreads_and(predicate: Any) -> Scalar:
    """A block barrier that gives 1 where the predicate holds in all lanes, else 0."""
    return _vote("all", "block", predicate)


def syncthreads_or(predicate: Any) -> Scalar:
    """A block barrier that gives 1 where the predicate holds in any lane, else 0."""
    return _vote("any", "block", predicate)


_COMBINE: Final = {
    "sum": lambda a, b: a + b,
    "max": lambda a, b: elementwise.max(a, b),
    "min": lambda a, b: elementwise.min(a, b),
    "bitand": lambda a, b: a & b,
    "bitor": lambda a, b: a | b,
}


def warp_reduce(op: Literal["sum", "max", "min", "bitand", "bitor"], value: Any) -> Any:
    """The reduction of ``value``, of a vector each of its scalars, over the warp, in every lane, as a butterfly of exchanges. E204: a
    bitwise one of floats."""
    if is_vector(value):
        return lane_by_lane(lambda lane: warp_reduce(op, lane), value)
    result = bind("partial", value)
    warp = Scalar(warp_lanes())
    lanes = [getattr(extent, "constant", extent) for extent in get_thread_extents()]
    count = math.prod(lanes) if all(isinstance(n, int) for n in lanes) else None
    is_full = count is not None and count % LARGEST_WARP == 0  # every warp, whatever its width
    whole = None if is_full or count is None else Scalar(arithmetic.compare("eq", Scalar(const(count, INT32)) % warp, 0, here()))
    block = linear_lane() if is_full else bind("lane", linear_lane())
    delta = LARGEST_WARP // 2
    while delta:  # steps that reach beyond the warp are left out when its width is known
        combined = _COMBINE[op](result, shfl_xor(result, delta))
        reaches = warp > delta
        if not is_full:  # the last warp may have fewer lanes: its first one meets them all
            is_there = Scalar(arithmetic.binary("bitxor", block, delta, here())) < math.prod(lanes)
            meets = is_there if whole is None else Scalar(arithmetic.binary("or", whole, is_there, here()))
            reaches = Scalar(arithmetic.binary("and", reaches, meets, here()))
        result = bind("partial", Scalar(arithmetic.select(reaches, combined, result, here())))
        delta //= 2
    if is_full:
        return result
    first = shfl_sync(result, 0)
    return first if whole is None else bind("partial", Scalar(arithmetic.select(whole, result, first, here())))


def warp_reduce_sum(value: Any) -> Any:
    """The sum over the warp's lanes."""
    return warp_reduce("sum", value)


def warp_reduce_max(value: Any) -> Any:
    """The maximum over the warp's lanes; NaN is ignored."""
    return warp_reduce("max", value)


def warp_reduce_min(value: Any) -> Any:
    """The minimum over the warp's lanes; NaN is ignored."""
    return warp_reduce("min", value)


def warp_reduce_bitand(value: Any) -> Any:
    """The bitwise and over the warp's lanes."""
    return warp_reduce("bitand", value)


def warp_reduce_bitor(value: Any) -> Any:
    """The bitwise or over the warp's lanes."""
    return warp_reduce("bitor", value)
