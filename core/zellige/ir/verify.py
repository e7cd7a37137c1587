"""The verifier: what must hold of every kernel of the tile IR before anything else looks at it.

In: a kernel. Out: all diagnostics at once (:func:`verify`), or an exception with them (:func:`check`). Each
diagnostic names the invariant that is broken. The work is linear in the number of distinct nodes.

Names
  1. A variable or buffer is used only in the scope of its declaration: sizes and parameters in the whole kernel, grid and lane
     variables in their launch, loop variables in the loop's body, what a statement declares (Alloc, Bind, a result) from there to the
     end of the enclosing body. A view needs no declaration: it can be used where its storage and the variables of its shape can.
  2. A variable or buffer is declared once in a kernel.
  3. A variable's kind is that of its declaration: size, scalar, grid, lane, loop (For and Map), value or mutable (Bind, results);
     Assign is to a mutable variable.

Expressions and buffers
  4. The value of a Const is one of its dtype: a bool of bool, an integer in range, a float.
  5. The operands of Binary and Compare, the sides of Select and the operands of Math have one dtype.
  6. An operator is defined for the dtype of its operands. truediv: floats; shl, shr, invert: integers; bitand, bitor, bitxor: integers
     and bool; and, or, not: bool; the others: integers and floats; order of handles: none. Cast keeps the number of lanes or widens
     a scalar, and has no handle on one side only; Reinterpret keeps the width in bits; Math has its function's operand and result types.
  7. The function of Math is one of FUNCTIONS and has that many operands.
  8. A condition is a scalar bool (of Select also with as many lanes as its sides).
  9. An element has one scalar integer index for each dimension of its buffer.
 10. A region has one scalar integer offset and extent for each dimension of its buffer.
 11. Extents and strides of a buffer are scalar integers, strides one a dimension; an extent of a region or parameter is not
     negative, of an allocated buffer at least 1; the extents of shared, fragment, local and var buffers are constants.
 12. A chain of views ends in storage; a view and the buffer under it are dense, in one space, and, where constant, of one size in
     stored bits. A view is not allocated.

Signature and launches
 13. A tensor parameter is global and no view; a size is a scalar integer; a scalar parameter has one lane. Shapes and strides are made
     of constants, sizes and scalar parameters.
 14. Every size is a scalar parameter or, alone or as `a * size + b` of numbers a > 0 and b, an extent or stride of some argument.
 15. Results are distinct tensors that are arguments or outputs, and every output is among them.
 16. A launch has one grid variable for each extent of the grid and, if any, one lane variable for each extent of threads, all of them
     integers. These extents are integers made of constants, sizes and scalars, not negative (grid), at least 1 (threads). Cluster sizes
     are at least 1.
 17. A kernel has a name, of characters that can be printed, and every launch is a Launch.

Statements
 18. A value has the dtype of what takes it: variable, element, region, reducer, result, safe value. A loop variable is an integer of
     the dtype of its bounds. The result of a vote is bool (any, all) or an integer (count, ballot).
 19. Extents of the regions of a tile operation agree wherever they are constant. Copy, AtomicTile: after dropping extents of 1. Scan:
     as they are. Reduce: the source's without the axis, extents of 1 apart. Transpose, Gemm: the last two dimensions are the matrix, the
     ones before have extent 1; m, n and k (twice a's with metadata) agree; blocks of a scale divide the extent.
 20. The dtypes suit the tile operation. Gemm: three float types or three integer types, scales float, metadata integer; reductions,
     scans and atomics: bitwise ones integers and bool, arithmetic ones integers and floats; atomics: elements of whole bytes; no handles.
     Copy, Transpose, AtomicTile: as many lanes on both sides.
 21. 0 <= axis < rank for Reduce and Scan.
 22. Numbers are in range: as many Map variables as extents and at least one; extents of a Map not negative; a constant step not 0; stages
     not negative; factors, vector widths and k_pack at least 1; order and stage of one length, their numbers from 0,
     or -1 for a producer, no place in the order given twice; a shuffle's width a power of two.
 23. Hints are complete and name parameters or buffers of their launch: a layout map has one variable a dimension and integer coordinates.

Structure
 24. Break and Continue stand in a For or While of the same Map body, Dialect body or launch.
 25. Bodies nest at most 64 deep; an If that is all of an `otherwise` body counts as `elif` and adds nothing.
 26. In a Map: no Return, no collective statement other than Map (a tile operation with a region in local or var and the others there or
     global belongs to the point), no Shuffle, Vote or Barrier, no allocation in a space other than local and var.
 27. Shuffle and Vote stand in launches with lane variables.
 28. Collective statements are not reached by only some lanes. Collective are: ReducerInit, ReducerFinalize, Barrier and Vote of more
     than a warp, and tile operations and Maps unless they belong to the lane (they touch a local or var buffer, assign a variable
     made outside them, or use a value that differs between lanes).
 29. The indices of a fragment's element do not differ between lanes, and a tile operation or Map that belongs to the lane touches no
     fragment.
 30. Between ReducerInit and ReducerFinalize only ReducerUpdate of the same operator touches the buffer or its views, and
     ReducerUpdate stands only there; both ends stand in one body, or the second in a branch of an If that stands there.
 31. Every word is one of those that its field's type lists (operators, roundings, scopes, orders, modes, roles), every node of the
     sort that its place asks for, several of them in a tuple, every dtype an element type (not its name), every number a whole one
     (not True, not 2.0), every flag True or False; load has a result and no value, store no result; attributes are named once.
"""

from __future__ import annotations

from typing import Final

from zellige.diagnostics import CompileError, Diagnostic
from zellige.ir.expr import Var
from zellige.ir.stmt import Dialect, For, If, Kernel, Launch, Map, Stmt, While
from zellige.ir.verifier.context import Context, Frame
from zellige.ir.verifier.lanes import check_lanes
from zellige.ir.verifier.signature import check_launch_head, check_launch_hints, check_signature
from zellige.ir.verifier.sorts import has_right_heads, has_right_nodes
from zellige.ir.verifier.statements import check_statement

MAXIMUM_DEPTH: Final = 64
"""How deep bodies may nest (invariant 25)."""


def verify(kernel: Kernel) -> list[Diagnostic]:
    """All that is wrong with ``kernel``, in the order of the program; empty when it is well formed."""
    context = Context(kernel)
    if not kernel.name:
        context.report(17, kernel.span, "the kernel has no name")
    elif not (isinstance(kernel.name, str) and kernel.name.isprintable()):
        context.report(17, kernel.span, f"{kernel.name!r} is no name of a kernel")
    if not has_right_heads(context, kernel):
        return context.diagnostics
    check_signature(context, kernel)
    for launch in kernel.launches:
        if isinstance(launch, Launch):
            _launch(context, launch)
        else:
            context.report(17, kernel.span, f"{type(launch).__name__} is not a launch")
    return context.diagnostics


def check(kernel: Kernel) -> None:
    """Raises :class:`CompileError` with every diagnostic of :func:`verify` when there is any."""
    diagnostics = verify(kernel)
    if diagnostics:
        raise CompileError(*diagnostics)


def _launch(context: Context, launch: Launch) -> None:
    outer = context.frame
    context.launch, context.launch_buffers, context.span = launch, set(), launch.span
    head = Frame((), depth=0, in_loop=False, in_map=False)
    context.open(head)
    check_launch_head(context, launch)
    _bodies(context, launch)
    context.frame, context.span = head, launch.span
    check_launch_hints(context, launch)
    context.close(head)
    if launch.lane_vars and not context.has_unchecked_nodes:
        check_lanes(context, launch)
    context.launch, context.frame, context.span = None, outer, context.kernel.span


def _bodies(context: Context, launch: Launch) -> None:
    """Checks the statements of the launch in order, each in the scope in which it stands."""
    stack = [Frame(launch.body, depth=1, in_loop=False, in_map=False)]
    while stack:
        frame = stack[-1]
        context.frame = frame
        if frame.index == len(frame.body):
            context.close(stack.pop())
            continue
        statement = frame.body[frame.index]
        frame.index += 1
        context.span = getattr(statement, "span", None) or launch.span
        if not has_right_nodes(context, statement):
            context.has_unchecked_nodes = True
            continue
        check_statement(context, statement)
        nested = _nested(frame, statement)
        if nested and nested[-1].depth > MAXIMUM_DEPTH:
            context.report(25, statement.span, f"loops and conditions nest more than {MAXIMUM_DEPTH} deep here")
            context.has_unchecked_nodes = True
            continue
        for child in nested:
            context.open(child, _loop_variables(statement))
            stack.append(child)


def _loop_variables(statement: Stmt) -> tuple[tuple[Var, str], ...]:
    match statement:
        case For():
            return ((statement.var, "loop variable"),)
        case Map():
            return tuple((axis, "loop variable") for axis in statement.axes)
        case _:
            return ()


def _nested(frame: Frame, statement: Stmt) -> tuple[Frame, ...]:
    """The bodies of the statement as frames, the first to be walked last."""
    depth, in_loop, in_map = frame.depth + 1, frame.in_loop, frame.in_map
    match statement:
        case For() | While():
            return (Frame(statement.body, depth=depth, in_loop=True, in_map=in_map),)
        case Map():
            return (Frame(statement.body, depth=depth, in_loop=False, in_map=True),)
        case Dialect():
            return (Frame(statement.body, depth=depth, in_loop=False, in_map=in_map),)
        case If():
            is_elif = len(statement.otherwise) == 1 and isinstance(statement.otherwise[0], If)
            return (
                Frame(statement.otherwise, depth=frame.depth if is_elif else depth, in_loop=in_loop, in_map=in_map, branches_from=frame),
                Frame(statement.then, depth=depth, in_loop=in_loop, in_map=in_map, branches_from=frame),
            )
        case _:
            return ()
