"""Looking into a kernel: T.print, T.device_assert, T.assume; and what older code writes for an expression or an assignment by itself."""

from __future__ import annotations

from typing import Any

from zellige.diagnostics import catalogue
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder
from zellige.frontend.regions import place_of
from zellige.frontend.values import Tile, TileRegion, Variable, here
from zellige.frontend.vectors import Vector
from zellige.ir.expr import Const, Expr, Load, Var
from zellige.ir.expression_printer import expression_text
from zellige.ir.stmt import Assert, Assume, Print, Stmt, whole
from zellige.ir.traverse import walk
from zellige.language.keywords import check_hints, text, without


@without("dtype", "span")
def print(obj: Any = None, msg: str = "", warp_group_id: int = 0, warp_id: int = 0) -> None:
    """Writes a message and a value, or every element of a tile, to the standard output when the kernel runs. E202 for anything else.

    E258: a message that is no text.
    """
    builder = current_builder("T.print")
    message = text(msg, "T.print", "msg")
    check_hints("T.print", warp_group_id=warp_group_id, warp_id=warp_id)
    if isinstance(obj, Tile):
        value: Any = whole(obj.node, here())
    elif isinstance(obj, TileRegion):
        value = obj.region
    elif isinstance(obj, Vector):
        for position, lane in enumerate(obj):
            builder.emit(Print(value=lane.expr, message=f"{message}[{position}]", span=builder.span))
        return
    elif isinstance(obj, str):
        value, message = None, f"{message}{obj}"
    else:
        value = None if obj is None else arithmetic.as_expr(obj, here())
    builder.emit(Print(value=value, message=message, span=builder.span))


def device_assert(condition: Any, msg: str = "", no_stack_info: bool = False) -> None:
    """Stops the launch with an error that names this line when the condition is false. E258: a message that is no text."""
    builder = current_builder("T.device_assert")
    check_hints("T.device_assert", no_stack_info=no_stack_info)
    message = text(msg, "T.device_assert", "msg")
    builder.emit(Assert(condition=arithmetic.truth(condition, builder.span), message=message, span=builder.span))


@without("dtype", "span")
def assume(cond: Any) -> None:
    """The author's promise that the condition holds; the compiler may leave out bounds tests that follow from it.

    A promise about sizes and scalar parameters alone is checked when the kernel is launched (E620). E118: it is false while compiling.
    """
    builder = current_builder("T.assume")
    condition = arithmetic.truth(cond, builder.span)
    if isinstance(condition, Const):
        if not condition.value:
            raise catalogue.E118.error(builder.span, message="T.assume of a condition that is false")
        return
    statements: list[Stmt] = [Assume(condition=condition, span=builder.span)]
    if _is_known_at_launch(condition):
        statements.insert(0, Assert(condition=condition, message=f"Assume: {expression_text(condition)}", span=builder.span))
    if builder.is_inside_launch:
        for statement in statements:
            builder.emit(statement)
    else:
        builder.deferred.extend(statements)


def _is_known_at_launch(condition: Expr) -> bool:
    return not any(isinstance(n, Load) or (isinstance(n, Var) and n.kind not in ("size", "scalar")) for n in walk(condition))


@without("dtype", "span")
def evaluate(value: Any) -> None:
    """Nothing: an expression has no effect of its own. Calls of the language act where they stand."""


def let(var: Any, value: Any) -> None:
    """Gives a variable made by ``T.int32()`` or ``T.alloc_var`` a value; as assigning to its name. E258: no variable."""
    var = place_of(var)
    if not isinstance(var, Variable):
        raise catalogue.E258.error(here(), operation="T.let", wanted="a variable such as T.int32()", given=arithmetic.describe(var))
    var.assign(value)
