"""Vector element types written out lane by lane: tile IR to tile IR without vector types.

In: a well-formed kernel. Out: one with the same meaning and the same memory in which every dtype has one lane. A buffer of ``float32x4``
becomes one of ``float32`` with a last dimension of 4, a variable becomes four, a statement on vectors one statement a lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from zellige.diagnostics import InternalError
from zellige.dtypes import DType, dtype as as_dtype
from zellige.ir.expr import (
    INT32,
    Binary,
    Buffer,
    Cast,
    Compare,
    Const,
    Expr,
    ExprNode,
    Load,
    Math,
    Node,
    Region,
    Reinterpret,
    Select,
    Unary,
    Var,
)
from zellige.ir.stmt import (
    Alloc,
    Assign,
    Atomic,
    Bind,
    Fill,
    Kernel,
    Launch,
    LayoutHint,
    NamedHint,
    Print,
    ReducerUpdate,
    SafeValue,
    Shuffle,
    Stmt,
    StmtNode,
    Store,
    TensorParam,
    Transpose,
    whole,
)
from zellige.ir.traverse import children, rebuilt, rewrite, walk
from zellige.passes.tile_operations import copy_as_map
from zellige.records import dataclass

_WHOLE: Final = -1
"""The "lane" of an expression that has one lane."""


def expand_vectors(kernel: Kernel) -> Kernel:
    """The kernel without vector types; itself where it has none."""
    if not any(_is_vector(node) for node in walk(kernel)):
        return kernel
    return _Expansion().kernel(kernel)


@dataclass(frozen=True, slots=True)
class ExpandVectors:
    """The same as a pass: a backend without vector types inserts it at the stage "legalise"."""

    name: str = "expand-vectors"

    def __call__(self, kernel: Kernel, /) -> Kernel:
        return expand_vectors(kernel)


def _is_vector(node: Node) -> bool:
    found = getattr(node, "dtype", None) if isinstance(node, ExprNode) else None
    buffer = getattr(node, "buffer", None)
    if isinstance(buffer, Buffer):
        found = buffer.dtype
    return found is not None and found.lanes != 1


def _number(value: int) -> Const:
    return Const(value=value, dtype=INT32)


class _Expansion:
    """The new buffers, variables and expressions of one kernel."""

    def __init__(self) -> None:
        self._buffers: dict[Buffer, Buffer] = {}
        self._variables: dict[Var, tuple[Var, ...]] = {}
        self._done: dict[tuple[int, int], Expr] = {}
        self._alive: list[Node] = []  # ids stay valid while the nodes live

    def kernel(self, kernel: Kernel) -> Kernel:
        params = tuple(rebuilt(p, buffer=self.buffer(p.buffer)) if isinstance(p, TensorParam) else p for p in kernel.params)
        return rebuilt(kernel, params=params, launches=tuple(self._launch(launch) for launch in kernel.launches))

    def _launch(self, launch: Launch) -> Launch:
        body: list[Stmt] = []
        for statement in launch.body:
            new = rewrite(statement, self._visit)
            body.extend(new if isinstance(new, tuple) else (new,))
        hints = tuple(
            rebuilt(h, buffer=self.buffer(h.buffer)) if isinstance(h, NamedHint) and h.buffer is not None else h
            for h in launch.hints
            if not (isinstance(h, LayoutHint) and h.buffer.dtype.lanes != 1)
        )
        safe = tuple(SafeValue(buffer=self.buffer(s.buffer), value=self.lane(s.value, _first(s.value))) for s in launch.safe_values)
        return rebuilt(launch, body=tuple(body), hints=hints, safe_values=safe)

    def buffer(self, buffer: Buffer) -> Buffer:
        """The buffer with a vector's lanes as its last dimension."""
        found = self._buffers.get(buffer)
        if found is not None:
            return found
        alias = self.buffer(buffer.alias) if buffer.alias is not None else None
        lanes = buffer.dtype.lanes
        if lanes == 1 and alias is buffer.alias:
            found = buffer
        else:
            strides = buffer.strides
            if strides is not None and lanes != 1:
                strides = (*(Binary(op="mul", left=s, right=Const(value=lanes, dtype=s.dtype)) for s in strides), _number(1))
            found = Buffer(
                name=buffer.name,
                dtype=buffer.dtype.scalar,
                shape=buffer.shape if lanes == 1 else (*buffer.shape, _number(lanes)),
                strides=strides,
                space=buffer.space,
                alias=alias,
                span=buffer.span,
            )
        self._buffers[buffer] = found
        return found

    def variable(self, var: Var) -> tuple[Var, ...]:
        """One variable a lane."""
        if var.dtype.lanes == 1:
            return (var,)
        if var not in self._variables:
            self._variables[var] = tuple(
                Var(name=f"{var.name}_{lane}", dtype=var.dtype.scalar, kind=var.kind, span=var.span) for lane in range(var.dtype.lanes)
            )
        return self._variables[var]

    # -- statements ---------------------------------------------------------------------------------------------------

    def _visit(self, node: Node) -> Any:
        """A statement whose nested bodies are done; everything else waits for its statement."""
        if not isinstance(node, StmtNode):
            return node
        self._alive.append(node)
        match node:
            case Alloc():
                return rebuilt(node, buffer=self.buffer(node.buffer))
            case Bind() | Assign() if node.var.dtype.lanes != 1:
                return self._each(node.value, lambda lane, value: rebuilt(node, var=self.variable(node.var)[lane], value=value))
            case Store() | ReducerUpdate() if node.buffer.dtype.lanes != 1:
                return self._each(node.value, lambda lane, value: self._element(node, lane, value=value))
            case Atomic() if node.buffer.dtype.lanes != 1:
                return tuple(self._atomic(node, lane) for lane in range(node.buffer.dtype.lanes))
            case Shuffle() if node.value.dtype.lanes != 1:
                operand, results = self.lane(node.operand), self.variable(node.result)
                return tuple(
                    rebuilt(node, result=result, value=self.lane(node.value, lane), operand=operand) for lane, result in enumerate(results)
                )
            case Fill() if node.dst.buffer.dtype.lanes != 1:
                lanes = range(node.dst.buffer.dtype.lanes)
                return tuple(rebuilt(node, dst=self._region(node.dst, lane), value=self.lane(node.value, lane)) for lane in lanes)
            case Transpose() if node.dst.buffer.dtype.lanes != 1:  # a matrix is the last two dimensions, and the lanes come behind them
                return rewrite(copy_as_map(node), self._visit)
            case Print(value=ExprNode() as value) if value.dtype.lanes != 1:
                return self._print(node, value)
            case _:
                return self._plain(node)

    def _plain(self, node: StmtNode) -> StmtNode:
        """The statement with its expressions, regions and buffer replaced."""
        changes: dict[str, Any] = {}
        for name in type(node).CHILDREN:
            value = getattr(node, name)
            if value is None or isinstance(value, Var):
                continue
            new = tuple(self._operand(v) for v in value) if isinstance(value, tuple) else self._operand(value)
            if new != value or new is not value:
                changes[name] = new
        buffer = getattr(node, "buffer", None)
        if isinstance(buffer, Buffer) and self.buffer(buffer) is not buffer:
            changes["buffer"] = self.buffer(buffer)
        return rebuilt(node, **changes) if changes else node

    def _operand(self, node: Node) -> Node:
        return self._region(node, None) if isinstance(node, Region) else self.lane(node)  # type: ignore[arg-type]

    def _each(self, value: Expr, make: Callable[[int, Expr], Stmt]) -> tuple[Stmt, ...]:
        """One statement a lane. Where a lane of the value takes bits of others, all values are made before the first is stored."""
        lanes = value.dtype.lanes
        values: Sequence[Expr] = [self.lane(value, lane) for lane in range(lanes)]
        before: tuple[Stmt, ...] = ()
        if any(isinstance(n, Reinterpret) and n.dtype.lanes != n.value.dtype.lanes for n in walk(value)):
            kept = [Var(name=f"lane_{lane}", dtype=value.dtype.scalar, kind="value") for lane in range(lanes)]
            before = tuple(Bind(var=var, value=one) for var, one in zip(kept, values))
            values = kept
        return (*before, *(make(lane, one) for lane, one in enumerate(values)))

    def _element(self, node: Any, lane: int, **changes: Any) -> Stmt:
        indices = (*(self.lane(index) for index in node.indices), _number(lane))
        result: Stmt = rebuilt(node, buffer=self.buffer(node.buffer), indices=indices, **changes)
        return result

    def _atomic(self, node: Atomic, lane: int) -> Stmt:
        value = None if node.value is None else self.lane(node.value, lane)
        result = None if node.result is None else self.variable(node.result)[lane]
        return self._element(node, lane, value=value, result=result)

    def _print(self, node: Print, value: Expr) -> tuple[Stmt, ...]:
        shown = Buffer(name="printed", dtype=value.dtype.scalar, shape=(_number(value.dtype.lanes),), space="local")
        stores = [Store(buffer=shown, indices=(_number(lane),), value=self.lane(value, lane)) for lane in range(value.dtype.lanes)]
        return (Alloc(buffer=shown), *stores, rebuilt(node, value=whole(shown)))

    def _region(self, region: Region, lane: int | None) -> Region:
        """The region with the lanes behind it: all of them, or one."""
        offsets, extents = (tuple(self.lane(e) for e in part) for part in (region.offsets, region.extents))
        if region.buffer.dtype.lanes != 1:
            offsets = (*offsets, _number(lane or 0))
            extents = (*extents, _number(region.buffer.dtype.lanes if lane is None else 1))
        return Region(buffer=self.buffer(region.buffer), offsets=offsets, extents=extents, span=region.span)

    # -- expressions --------------------------------------------------------------------------------------------------

    def lane(self, expr: Expr, lane: int = _WHOLE) -> Expr:
        """One lane of an expression; ``_WHOLE`` for one that has a single lane."""
        pending: list[tuple[Expr, int]] = [(expr, lane)]
        while pending:
            node, at = pending[-1]
            if (id(node), at) in self._done:
                pending.pop()
                continue
            wanted = _needed(node, at)
            waiting = [key for key in wanted if (id(key[0]), key[1]) not in self._done]
            if waiting:
                pending.extend(waiting)
                continue
            pending.pop()
            self._alive.append(node)
            self._done[id(node), at] = self._lane(node, at, [self._done[id(child), place] for child, place in wanted])
        return self._done[id(expr), lane]

    def _lane(self, node: Expr, at: int, operands: list[Expr]) -> Expr:
        match node:
            case Const():
                return node if at == _WHOLE else Const(value=node.value, dtype=node.dtype.scalar, span=node.span)
            case Var():
                return node if at == _WHOLE else self.variable(node)[at]
            case Load():
                indices = tuple(operands) if at == _WHOLE else (*operands, _number(at))
                buffer = self.buffer(node.buffer)
                return node if buffer is node.buffer and indices == node.indices else Load(buffer=buffer, indices=indices, span=node.span)
            case Reinterpret() if node.dtype.lanes != node.value.dtype.lanes:
                return _reinterpreted(node, max(at, 0), operands)
            case Unary():
                return rebuilt(node, value=operands[0])
            case Binary() | Compare():
                return rebuilt(node, left=operands[0], right=operands[1])
            case Select():
                return rebuilt(node, condition=operands[0], then=operands[1], otherwise=operands[2])
            case Cast() | Reinterpret():
                return rebuilt(node, value=operands[0], dtype=node.dtype.scalar)
            case Math():
                return rebuilt(node, args=tuple(operands), dtype=node.dtype.scalar)
            case _:
                raise InternalError(f"{type(node).__name__} is no expression")


def _first(expr: Expr) -> int:
    return 0 if expr.dtype.lanes != 1 else _WHOLE


def _needed(node: Expr, at: int) -> list[tuple[Expr, int]]:
    """The operands of one lane of a node, each with the lane that is needed of it."""
    if isinstance(node, Reinterpret) and node.dtype.lanes != node.value.dtype.lanes:
        first, count = _covered(node, max(at, 0))
        value = node.value
        return [(value, first + i if value.dtype.lanes != 1 else _WHOLE) for i in range(count)]
    return [(child, at if child.dtype.lanes != 1 else _WHOLE) for child in children(node)]  # type: ignore[attr-defined,misc]


def _covered(node: Reinterpret, lane: int) -> tuple[int, int]:
    """The first source lane whose bits a target lane takes, and how many."""
    wide, narrow = node.dtype.scalar.bits, node.value.dtype.scalar.bits
    return (lane * wide // narrow, max(1, wide // narrow))


def _unsigned(bits: int) -> DType:
    return as_dtype(f"uint{bits}")


def _reinterpreted(node: Reinterpret, lane: int, operands: list[Expr]) -> Expr:
    """Bits of several narrow lanes put together, or a part of the bits of a wide one; the lowest come first."""
    target, source = node.dtype.scalar, node.value.dtype.scalar
    bits = [Reinterpret(value=o, dtype=_unsigned(source.bits)) if o.dtype != _unsigned(source.bits) else o for o in operands]
    result: Expr
    if len(bits) == 1:
        shift = lane * target.bits % source.bits
        moved = Binary(op="shr", left=bits[0], right=Const(value=shift, dtype=bits[0].dtype)) if shift else bits[0]
        result = Cast(value=moved, dtype=_unsigned(target.bits))
    else:
        wide = _unsigned(target.bits)
        result = Cast(value=bits[0], dtype=wide)
        for place, part in enumerate(bits[1:], 1):
            moved = Binary(op="shl", left=Cast(value=part, dtype=wide), right=Const(value=place * source.bits, dtype=wide))
            result = Binary(op="bitor", left=result, right=moved)
    return result if target == _unsigned(target.bits) else Reinterpret(value=result, dtype=target)
