"""What lanes exchange, over arrays with one entry a lane.

In: a shuffle, a vote, a mask. Out: pieces (:mod:`zellige.passes.lane_stretches`): one stretch writes what each lane has to say, the
next reads what it was told.
"""

from __future__ import annotations

from zellige.diagnostics import catalogue
from zellige.dtypes import dtype
from zellige.ir.expr import BOOL, INT64, Binary, BinaryOp, Buffer, Cast, Compare, CompareOp, Const, Expr, Load, Select, Unary, Var
from zellige.ir.stmt import Alloc, Assign, Bind, For, If, Map, Serial, Shuffle, Stmt, Store, Vote
from zellige.passes.lane_stretches import Lanes, Once, Piece, Stretch

_UINT64 = dtype("uint64")


def _number(value: int) -> Const:
    return Const(value=value, dtype=INT64)


def _binary(op: BinaryOp, left: Expr, right: Expr | int) -> Expr:
    return Binary(op=op, left=left, right=_number(right) if isinstance(right, int) else right)


def _compare(op: CompareOp, left: Expr, right: Expr | int) -> Expr:
    return Compare(op=op, left=left, right=_number(right) if isinstance(right, int) else right)


def _false() -> Const:
    return Const(value=False, dtype=BOOL)


def any_lane(lanes: Lanes, mask: Buffer, result: Var) -> list[Piece]:
    """Gives ``result``, a variable of the block, whether the mask holds for any lane."""
    flag = Buffer(name="any", dtype=BOOL, shape=(_number(1),), space="shared")
    told = Store(buffer=flag, indices=(_number(0),), value=Const(value=True, dtype=BOOL))
    return [
        Once(Alloc(buffer=flag)),
        Once(Store(buffer=flag, indices=(_number(0),), value=_false())),
        Stretch([told], mask),
        Once(Assign(var=result, value=Load(buffer=flag, indices=(_number(0),)))),
    ]


def shuffle_pieces(lanes: Lanes, statement: Shuffle, mask: Buffer | None, *, warp: int, target: str) -> list[Piece]:
    """The value of another lane of the group, one's own where there is none."""
    width = statement.width
    if width > warp:
        operation = f"a shuffle ({statement.mode})"
        raise catalogue.E446.error(statement.span, operation=operation, width=width, target=target, lanes=warp)
    said = lanes.array("said", statement.value.dtype)
    own = _binary("floormod", lanes.number, width)
    operand: Expr = statement.operand if statement.operand.dtype == INT64 else Cast(value=statement.operand, dtype=INT64)
    match statement.mode:
        case "xor":
            other = _binary("bitxor", own, operand)
        case "up":
            other = _binary("sub", own, operand)
        case "down":
            other = _binary("add", own, operand)
        case "index":
            other = operand
    lane = Var(name="other", dtype=INT64, kind="value")
    source = _binary("add", _binary("sub", lanes.number, own), lane)
    inside = _compare("ge", lane, 0)
    for test in (_compare("lt", lane, width), _compare("lt", source, lanes.count)):
        inside = Binary(op="and", left=inside, right=test)
    heard = Select(
        condition=inside, then=Load(buffer=said, indices=(source,)), otherwise=Load(buffer=said, indices=(lanes.number,))
    )
    return [
        Once(Alloc(buffer=said)),
        Stretch([Store(buffer=said, indices=(lanes.number,), value=statement.value)]),
        Stretch([Bind(var=lane, value=other), Bind(var=statement.result, value=heard, span=statement.span)], mask),
    ]


def vote_pieces(lanes: Lanes, statement: Vote, mask: Buffer | None, *, warp: int, target: str, is_shared: bool) -> list[Piece]:
    """Whether the predicate holds in any or all lanes of a group that take part, in how many, or in which.

    ``is_shared``: the result is a variable of the block.
    """
    if statement.scope not in ("warp", "block"):
        raise catalogue.E447.error(statement.span, operation=f"a vote ({statement.mode})", scope=statement.scope, target=target)
    size = warp if statement.scope == "warp" else lanes.count
    groups = -(-lanes.count // size)
    total_dtype = BOOL if statement.mode in ("any", "all") else _UINT64
    said = lanes.array("said", BOOL)
    found = Buffer(name="found", dtype=total_dtype, shape=(_number(groups),), space="shared")
    # all: no lane that takes part says no
    says: Expr = Unary(op="not", value=statement.predicate) if statement.mode == "all" else statement.predicate
    pieces: list[Piece] = [Once(Alloc(buffer=said)), Once(Alloc(buffer=found))]
    pieces.append(Stretch([Store(buffer=said, indices=(lanes.number,), value=_false())]))
    pieces.append(Stretch([Store(buffer=said, indices=(lanes.number,), value=says)], mask))
    pieces.append(Once(_counted(statement, said, found, size, lanes.count)))
    if is_shared:
        result = _result(statement, Load(buffer=found, indices=(_number(0),)))
        return [*pieces, Once(Bind(var=statement.result, value=result, span=statement.span))]
    result = _result(statement, Load(buffer=found, indices=(_binary("floordiv", lanes.number, size),)))
    return [*pieces, Stretch([Bind(var=statement.result, value=result, span=statement.span)], mask)]


def _result(statement: Vote, total: Expr) -> Expr:
    if statement.mode in ("any", "all"):
        value = Unary(op="not", value=total) if statement.mode == "all" else total
        return value if statement.result.dtype == BOOL else Cast(value=value, dtype=statement.result.dtype)
    return total if statement.result.dtype == _UINT64 else Cast(value=total, dtype=statement.result.dtype)


def _counted(statement: Vote, said: Buffer, found: Buffer, size: int, count: int) -> Stmt:
    """Each group's total of what its lanes said."""
    group, lane = (Var(name=name, dtype=INT64, kind="loop") for name in ("group", "lane"))
    total = Var(name="total", dtype=found.dtype, kind="mutable")
    place = _binary("add", _binary("mul", group, size), lane)
    value: Expr = Load(buffer=said, indices=(place,))
    if found.dtype == BOOL:
        step: Expr = Binary(op="or", left=total, right=value)
        zero = _false()
    else:
        bit: Expr = Cast(value=value, dtype=_UINT64)
        if statement.mode == "ballot":
            bit = Binary(op="shl", left=bit, right=Cast(value=lane, dtype=_UINT64))
        step = Binary(op="add", left=total, right=bit)
        zero = Const(value=0, dtype=_UINT64)
    add = If(condition=_compare("lt", place, count), then=(Assign(var=total, value=step),))
    body: tuple[Stmt, ...] = (
        Bind(var=total, value=zero),
        For(var=lane, start=_number(0), stop=_number(size), step=_number(1), kind=Serial(), body=(add,)),
        Store(buffer=found, indices=(group,), value=total),
    )
    groups = found.shape[0]
    return Map(axes=(group,), extents=(groups,), body=body, span=statement.span)
