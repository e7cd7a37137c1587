"""What belongs to the points of a Map although it was made outside of it, made explicit: tile IR to tile IR.

In: a body. Out: a body in which every Map means the same when its points run one after the other, or several at once, in the storage
that the statements name.

A Map may write a ``local`` or ``var`` buffer or assign a variable that was made outside of it. Every point then works on a copy of what
was there before the Map, and what exactly one point changed is there after it. So the points get a buffer or variable of their own,
filled from a snapshot, and every change goes to the outer one as well. Where no point can see what another one wrote (the buffer is
only written, or every access is at an element that the axes tell apart) nothing is changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from zellige.analysis.bounds import Scope
from zellige.analysis.forms import ZERO, Form
from zellige.analysis.map_changes import OuterChanges, outer_changes
from zellige.ir.expr import INT64, Buffer, Const, Expr, Load, Node, Region, Var
from zellige.ir.lanes import PRIVATE
from zellige.ir.stmt import (
    Alloc,
    Assign,
    Atomic,
    AtomicTile,
    Bind,
    Copy,
    Fill,
    For,
    Gemm,
    Map,
    Reduce,
    ReducerUpdate,
    Scan,
    Serial,
    Stmt,
    StmtNode,
    Store,
    Transpose,
    whole,
)
from zellige.ir.traverse import rewrite, walk


def with_own_copies(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The body with the points' copies written out in every Map."""
    result: list[Stmt] = []
    is_changed = False
    declared = _declarations(body)

    def visit(node: Node) -> Node | tuple[Stmt, ...]:
        return _private_map(node, declared) if isinstance(node, Map) else node

    for statement in body:
        if not any(isinstance(node, Map) and _may_change(node) for node in walk(statement)):
            result.append(statement)
            continue
        new = rewrite(statement, visit)
        parts = new if isinstance(new, tuple) else (new,)
        is_changed |= len(parts) != 1 or parts[0] is not statement
        result.extend(parts)
    return tuple(result) if is_changed else body


def _declarations(body: Iterable[Stmt]) -> Counter[Var]:
    """How many statements give each variable a first value, or may."""
    found: Counter[Var] = Counter()
    for statement in body:
        for node in walk(statement):
            if isinstance(node, Bind):
                found[node.var] += 1
            elif isinstance(node, Atomic) and node.result is not None:
                found[node.result] += 1
    return found


def _may_change(statement: Map) -> bool:
    """Whether there is anything in the Map that could concern it: a quick look before the thorough one."""
    for node in walk(statement):
        if isinstance(node, (Assign, Atomic)):
            return True
        if isinstance(node, StmtNode) and not isinstance(node, Alloc) and any(r.buffer.root.space in PRIVATE for r in node.writes()):
            return True
    return False


def _private_map(statement: Map, declared: Counter[Var]) -> Map | tuple[Stmt, ...]:
    outer = _changed(statement, declared)
    if not outer.buffers and not outer.variables:
        return statement
    before: list[Stmt] = []
    head: list[Stmt] = []
    buffers: dict[Buffer, Buffer] = {}
    variables: dict[Var, Var] = {}
    for var in outer.variables:
        snapshot = Var(name=f"{var.name}_before", dtype=var.dtype, kind="value")
        own = Var(name=f"{var.name}_own", dtype=var.dtype, kind="mutable")
        before.append(Bind(var=snapshot, value=var, span=statement.span))
        head.append(Bind(var=own, value=snapshot, span=statement.span))
        variables[var] = own
    for buffer in outer.buffers:
        snapshot_buffer = Buffer(name=f"{buffer.name}_before", dtype=buffer.dtype, shape=buffer.shape, space="local")
        own_buffer = Buffer(name=f"{buffer.name}_own", dtype=buffer.dtype, shape=buffer.shape, space="local")
        before.extend((Alloc(buffer=snapshot_buffer), Copy(src=whole(buffer), dst=whole(snapshot_buffer))))
        head.append(Alloc(buffer=own_buffer))
        head.extend(_elementwise_copy(snapshot_buffer, own_buffer))
        buffers[buffer] = own_buffer
    for view in dict.fromkeys(found for node in walk(statement) if isinstance(found := getattr(node, "buffer", None), Buffer)):
        if view.alias is not None and view.root in buffers:
            buffers[view] = Buffer(
                name=f"{view.name}_own", dtype=view.dtype, shape=view.shape, strides=view.strides, space="local", alias=buffers[view.root]
            )
    body = tuple(part for s in statement.body for part in _redirected(s, buffers, variables))
    own_map = Map(
        axes=statement.axes, extents=statement.extents, body=(*head, *body), vector_width=statement.vector_width, span=statement.span
    )
    return (*before, own_map)


def _elementwise_copy(source: Buffer, target: Buffer) -> tuple[Stmt, ...]:
    """Loops over all elements, which may stand in a Map where a tile operation of the block may not."""
    axes = tuple(Var(name=f"e{i}", dtype=INT64, kind="loop") for i in range(source.rank))
    inner: tuple[Stmt, ...] = (Store(buffer=target, indices=axes, value=Load(buffer=source, indices=axes)),)
    for var, extent in reversed(list(zip(axes, source.shape))):
        stop = Const(value=int(extent.value), dtype=INT64) if isinstance(extent, Const) else extent
        inner = (For(var=var, start=Const(value=0, dtype=INT64), stop=stop, step=Const(value=1, dtype=INT64), kind=Serial(), body=inner),)
    return inner


def _redirected(statement: Stmt, buffers: dict[Buffer, Buffer], variables: dict[Var, Var]) -> tuple[Stmt, ...]:
    """The statement on the point's own storage, with every change made to the outer storage as well."""

    def visit(node: Node) -> Node | tuple[Stmt, ...]:
        match node:
            case Var():
                return variables.get(node, node)
            case Load() if node.buffer in buffers:
                return Load(buffer=buffers[node.buffer], indices=node.indices, span=node.span)
            case Region() if node.buffer in buffers:
                return Region(buffer=buffers[node.buffer], offsets=node.offsets, extents=node.extents, span=node.span)
            case Store() if node.buffer in buffers:
                own = buffers[node.buffer]
                first = Store(buffer=own, indices=node.indices, value=node.value, span=node.span)
                kept = Load(buffer=own, indices=node.indices, span=node.span)
                return (first, Store(buffer=node.buffer, indices=node.indices, value=kept, span=node.span))
            case Assign() if node.var in own_variables:
                return (node, Assign(var=own_variables[node.var], value=node.var, span=node.span))
            case Copy() | Fill() | Gemm() | Reduce() | Scan() | Transpose() | AtomicTile():
                changed = [r for r in node.writes() if r.buffer in own_buffers]
                copies = [Copy(src=r, dst=Region(buffer=own_buffers[r.buffer], offsets=r.offsets, extents=r.extents)) for r in changed]
                return (node, *copies) if copies else node
            case _:
                return node

    own_variables = {own: outer for outer, own in variables.items()}
    own_buffers = {own: outer for outer, own in buffers.items()}
    result = rewrite(statement, visit)
    return result if isinstance(result, tuple) else (result,)


# -- what a Map changes --------------------------------------------------------------------------------------------------


def _changed(statement: Map, declared: Counter[Var]) -> OuterChanges:
    """What the Map's body changes of the code around it, without the buffers of which no point can see what another one wrote."""
    inside = _declarations((statement,))
    found = outer_changes(statement, lambda var: declared[var] == inside[var])
    return replace(found, buffers=tuple(b for b in found.buffers if b in found.read and not _is_told_apart(statement, b)))


def _is_told_apart(statement: Map, buffer: Buffer) -> bool:
    """Whether every access of ``buffer`` is at the same indices, in which each axis stands by itself."""
    found: set[tuple[Expr, ...]] = set()
    for node in walk(statement):
        if isinstance(node, (Load, Store, ReducerUpdate, Atomic)) and node.buffer.root is buffer:
            if node.buffer is not buffer:
                return False
            found.add(node.indices)
        elif isinstance(node, Region) and node.buffer.root is buffer:
            return False
    if len(found) != 1:
        return False
    scope = Scope()
    for axis in statement.axes:
        scope.add_variable(axis, ZERO, None)
    forms = [scope.form(index) for index in next(iter(found))]
    return all(any(_is_axis(form, axis) for form in forms) for axis in statement.axes)


def _is_axis(form: Form, axis: Var) -> bool:
    """Whether the form is ``axis`` and a constant."""
    return (form - Form.of(axis)).constant is not None

