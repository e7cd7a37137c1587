"""Making a failing program smaller while it still fails.

In: a program and a test of whether a program fails in the way looked for. Out: the smallest failing program that single changes lead to:
statements, launches and parameters dropped, bodies in the place of loops and branches, shorter loops, simpler expressions, smaller sizes,
plainer data. The test decides about everything else, such as whether a candidate is valid at all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import numpy as np

from zellige.generate.program import Argument, Program
from zellige.ir.expr import Binary, Buffer, Cast, Const, Expr, ExprNode, Load, Math, Select, Unary, Var, constant_value
from zellige.ir.sizes import SizeSystem
from zellige.ir.stmt import Assign, For, If, Kernel, Map, Param, ScalarParam, Serial, Stmt, StmtNode, TensorParam, While
from zellige.ir.traverse import children, rebuilt, rewrite, substitute, walk
from zellige.ir.verify import verify


def shrink(program: Program, fails: Callable[[Program], bool], *, attempts: int = 600, seconds: float = 120.0) -> Program:
    """The smallest program found for which ``fails`` holds, trying at most ``attempts`` candidates."""
    search = _Search(program, fails, attempts, time.monotonic() + seconds)
    while search.is_open:
        before = search.program
        search.drop_statements()
        for change in _CHANGES:
            search.repeat(change)
        if search.program is before:
            break
    return search.program


class _Search:
    """The smallest failing program so far, and how many more candidates may be tried."""

    def __init__(self, program: Program, fails: Callable[[Program], bool], attempts: int, deadline: float) -> None:
        self.program = program
        self._fails = fails
        self._left = attempts
        self._deadline = deadline

    @property
    def is_open(self) -> bool:
        """Whether another candidate may be tried."""
        return self._left > 0 and time.monotonic() < self._deadline

    def takes(self, candidate: Program) -> bool:
        """Whether a candidate fails too, in which case it takes the place of the program."""
        cleaned = without_unused(candidate)
        if not self.is_open or verify(cleaned.kernel) or _may_run_forever(cleaned.kernel):
            return False
        self._left -= 1
        if not self._fails(cleaned):
            return False
        self.program = cleaned
        return True

    def repeat(self, change: Callable[[Program], Iterator[Program]]) -> None:
        """Apply one kind of change as long as it leads on. A change that does starts again where it was, not at the first place."""
        position = 0
        while self.is_open:
            for index, candidate in enumerate(change(self.program)):
                if index >= position and self.takes(candidate):
                    position = index
                    break
                if not self.is_open:
                    return
            else:
                if position == 0:
                    return
                position = 0

    def drop_statements(self) -> None:
        """Drop statements, many at once first, from the end, since uses come after declarations."""
        width = max(1, len(_statements(self.program.kernel)) // 2)
        while self.is_open:
            end = len(_statements(self.program.kernel))
            while end > 0 and self.is_open:
                chunk = _statements(self.program.kernel)[max(0, end - width) : end]
                self.takes(_with_kernel(self.program, _swapped(self.program.kernel, {id(statement): () for statement in chunk})))
                end = min(end - width, len(_statements(self.program.kernel)))
            if width == 1:
                return
            width = max(1, width // 3)


def _may_run_forever(kernel: Kernel) -> bool:
    """Whether a While does not change any variable of its condition itself, in every iteration."""
    for node in walk(kernel):
        if isinstance(node, While):
            deciding = {n for n in walk(node.condition) if isinstance(n, Var) and n.is_mutable}
            if not any(isinstance(statement, Assign) and statement.var in deciding for statement in node.body):
                return True
    return False


def size_of(program: Program) -> int:
    """How many nodes a program has: what shrinking makes smaller."""
    return sum(1 for _ in walk(program.kernel))


def without_unused(program: Program) -> Program:
    """The program without parameters that no launch mentions, unless a size follows from them."""
    kernel = program.kernel
    used: set[int] = set()
    for launch in kernel.launches:
        for node in walk(launch):
            used.add(id(node))
            buffer = getattr(node, "buffer", None)
            if isinstance(buffer, Buffer):
                used.add(id(buffer.root))
                used.update(id(n) for extent in (*buffer.shape, *(buffer.strides or ())) for n in walk(extent))
    kept = [_is_used(param, used) for param in kernel.params]
    smaller = _with_params(program, kept)
    return program if SizeSystem.of(smaller.kernel).unsolved or _loses_sizes(smaller, used) else smaller


def _is_used(param: Param, used: set[int]) -> bool:
    return id(param.var if isinstance(param, ScalarParam) else param.buffer) in used


def _loses_sizes(program: Program, used: set[int]) -> bool:
    known = {id(var) for var in SizeSystem.of(program.kernel).variables}
    known |= {id(param.var) for param in program.kernel.params if isinstance(param, ScalarParam)}
    sizes = [n for launch in program.kernel.launches for n in walk(launch) if isinstance(n, Var) and n.kind == "size"]
    return any(id(size) not in known for size in sizes if id(size) in used)


def _with_params(program: Program, kept: list[bool]) -> Program:
    places = [index for index, is_kept in enumerate(kept) if is_kept]
    renumbered = {old: new for new, old in enumerate(places)}
    kernel = replace(
        program.kernel,
        params=tuple(program.kernel.params[index] for index in places),
        results=tuple(renumbered[index] for index in program.kernel.results if index in renumbered),
    )
    return Program(kernel=kernel, arguments=tuple(program.arguments[index] for index in places))


def _with_kernel(program: Program, kernel: Kernel) -> Program:
    return replace(program, kernel=kernel)


# ---- statements --------------------------------------------------------------------------------------------------------------------------


def _fewer_launches(program: Program) -> Iterator[Program]:
    launches = program.kernel.launches
    if len(launches) > 1:
        for index in range(len(launches)):
            yield _with_kernel(program, replace(program.kernel, launches=launches[:index] + launches[index + 1 :]))


def _statements(kernel: Kernel) -> list[Any]:
    return [node for node in walk(kernel) if isinstance(node, StmtNode)]


def _swapped(kernel: Kernel, swaps: dict[int, tuple[Stmt, ...]]) -> Kernel:
    """The kernel with statements, found by identity, replaced by others."""

    def in_body(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        found: list[Stmt] = []
        for statement in body:
            if id(statement) in swaps:
                found.extend(swaps[id(statement)])
                continue
            changes = {name: in_body(getattr(statement, name)) for name in type(statement).BODIES}
            changed = {name: body for name, body in changes.items() if body != getattr(statement, name)}
            found.append(rebuilt(statement, **changed) if changed else statement)
        return tuple(found)

    launches = []
    for launch in kernel.launches:
        launches.append(replace(launch, body=in_body(launch.body)))
    return replace(kernel, launches=tuple(launches))


def _flatter(program: Program) -> Iterator[Program]:
    for statement in _statements(program.kernel):
        bodies: list[tuple[Stmt, ...]] = []
        match statement:
            case If():
                bodies = [statement.then, statement.otherwise]
            case For():
                bodies = [substitute(replace(statement, var=_fresh(statement.var)), {statement.var: statement.start}).body]
            case While():
                bodies = [statement.body]
            case _:
                continue
        for body in bodies:
            yield _with_kernel(program, _swapped(program.kernel, {id(statement): body}))


def _fresh(var: Var) -> Var:
    return Var(name=var.name, dtype=var.dtype, kind=var.kind)


def _shorter_loops(program: Program) -> Iterator[Program]:
    for statement in _statements(program.kernel):
        if isinstance(statement, For):
            start, stop = constant_value(statement.start), constant_value(statement.stop)
            if start is not None and stop is not None and stop - start > 1:
                shorter = Const(value=start + (stop - start) // 2, dtype=statement.var.dtype)
                yield _with_kernel(program, _swapped(program.kernel, {id(statement): (replace(statement, stop=shorter),)}))
            if not isinstance(statement.kind, Serial):
                yield _with_kernel(program, _swapped(program.kernel, {id(statement): (replace(statement, kind=Serial()),)}))
        if isinstance(statement, Map) and statement.vector_width is not None:
            yield _with_kernel(program, _swapped(program.kernel, {id(statement): (replace(statement, vector_width=None),)}))


def _fewer_parameters(program: Program) -> Iterator[Program]:
    for index in range(len(program.kernel.params) - 1, -1, -1):
        smaller = _with_params(program, [other != index for other in range(len(program.kernel.params))])
        if not SizeSystem.of(smaller.kernel).unsolved:
            yield smaller


def _constant_sizes(program: Program) -> Iterator[Program]:
    """One symbolic size at a time as a number."""
    for var, value in program.sizes().items():
        number = Const(value=value, dtype=var.dtype)
        buffers: dict[Buffer, Buffer] = {}
        for param in program.kernel.params:
            if isinstance(param, TensorParam):
                old = param.buffer
                shape = tuple(substitute(extent, {var: number}) for extent in old.shape)
                strides = None if old.strides is None else tuple(substitute(stride, {var: number}) for stride in old.strides)
                buffers[old] = replace(old, shape=shape, strides=strides)
        aliases = {n.buffer for n in walk(program.kernel) if isinstance(getattr(n, "buffer", None), Buffer) and n.buffer.alias is not None}  # type: ignore[attr-defined]
        if not aliases:
            yield _with_kernel(program, substitute(program.kernel, {var: number}, buffers))


# ---- data and sizes ----------------------------------------------------------------------------------------------------------------------


def _plainer_data(program: Program) -> Iterator[Program]:
    for index, (param, argument) in enumerate(zip(program.kernel.params, program.arguments)):
        if isinstance(param, TensorParam) and isinstance(argument, np.ndarray) and argument.size:
            plain = np.zeros_like(argument)
            if argument.view(np.uint8).any() if argument.flags.c_contiguous else False:
                yield _with_argument(program, index, plain)
            if not argument.flags.c_contiguous:
                plain_buffer = replace(param.buffer, strides=None)
                kernel = substitute(program.kernel, {}, {param.buffer: plain_buffer})
                params = list(kernel.params)
                params[index] = replace(param, buffer=plain_buffer)
                dense = replace(_with_argument(program, index, argument.copy()), kernel=replace(kernel, params=tuple(params)))
                if not SizeSystem.of(dense.kernel).unsolved:
                    yield dense


def _with_argument(program: Program, index: int, argument: Argument) -> Program:
    return replace(program, arguments=(*program.arguments[:index], argument, *program.arguments[index + 1 :]))


def _smaller_sizes(program: Program) -> Iterator[Program]:
    """One constant or symbolic size made smaller everywhere, with the tensors that have it cut to fit."""
    numbers = sorted(
        {n.value for n in walk(program.kernel) if isinstance(n, Const) and n.dtype.is_integer and type(n.value) is int} | _extents(program)
    )
    for size in reversed([n for n in numbers if 1 < n < 1 << 20]):
        for smaller in sorted({1, size // 2, size - 1} - {size}):
            resized = _resized(program, size, smaller)
            if resized is not None:
                yield resized


def _extents(program: Program) -> set[int]:
    return {extent for argument in program.arguments if isinstance(argument, np.ndarray) for extent in argument.shape}


def _resized(program: Program, size: int, smaller: int) -> Program | None:
    buffers: dict[Buffer, Buffer] = {}

    def cut(expression: Expr) -> Expr:
        def visit(node: Any) -> Any:
            return replace(node, value=smaller) if isinstance(node, Const) and node.dtype.is_integer and node.value == size else node

        return rewrite(expression, visit)

    def buffer_of(buffer: Buffer) -> Buffer:
        if buffer not in buffers:
            under = None if buffer.alias is None else buffer_of(buffer.alias)
            buffers[buffer] = replace(buffer, shape=tuple(cut(extent) for extent in buffer.shape), alias=under)
        return buffers[buffer]

    def visit(node: Any) -> Any:
        changes: dict[str, Any] = {}
        if isinstance(node, Const):
            return replace(node, value=smaller) if node.dtype.is_integer and node.value == size else node
        buffer = getattr(node, "buffer", None)
        if isinstance(buffer, Buffer):
            changes["buffer"] = buffer_of(buffer)
        return replace(node, **changes) if changes else node

    if any(isinstance(p, TensorParam) and (p.buffer.strides is not None or p.buffer.dtype.bits == 4) for p in program.kernel.params):
        return None
    kernel = rewrite(program.kernel, visit)
    arguments: list[Argument] = []
    for argument in program.arguments:
        if isinstance(argument, np.ndarray):
            cut_to = tuple(slice(0, smaller if extent == size else extent) for extent in argument.shape)
            arguments.append(argument[cut_to].copy())
        else:
            arguments.append(smaller if argument == size and isinstance(argument, int) else argument)
    return Program(kernel=kernel, arguments=tuple(arguments))


# ---- expressions -------------------------------------------------------------------------------------------------------------------------


def _hoisted(program: Program) -> Iterator[Program]:
    """A part of the value that a statement stores in the place of all of it, converted to its type: operands, then theirs."""
    for statement in _statements(program.kernel):
        value: Any = getattr(statement, "value", None)
        if not isinstance(value, ExprNode) or value.dtype.lanes != 1:  # type: ignore[attr-defined]
            continue
        first: list[Any] = [c for child in children(value) for c in (children(child) if isinstance(child, Cast) else (child,))]
        second = [grandchild for child in first for grandchild in children(child)]
        for part in (*first, *second):
            if isinstance(part, ExprNode) and not isinstance(part, (Const, Var)) and not (isinstance(value, Cast) and part is value.value):
                hoisted: Any = part if part.dtype == value.dtype else Cast(value=part, dtype=value.dtype)  # type: ignore[attr-defined, arg-type]
                yield _with_kernel(program, _swapped(program.kernel, {id(statement): (replace(statement, value=hoisted),)}))


def _simpler_expressions(program: Program) -> Iterator[Program]:
    for statement in _statements(program.kernel):
        for node in walk(statement, bodies=False):
            if not isinstance(node, (Binary, Unary, Select, Cast, Math, Load)):
                continue
            for simpler in _simpler(node):
                changed = _with_expression(statement, node, simpler)
                yield _with_kernel(program, _swapped(program.kernel, {id(statement): (changed,)}))


def _simpler(node: Any) -> Iterator[ExprNode]:
    if node.dtype.lanes == 1:
        value: Any = False if node.dtype.is_bool else 1.0 if node.dtype.is_float else 0
        yield Const(value=value, dtype=node.dtype)
    for child in children(node):
        if isinstance(child, ExprNode) and child.dtype == node.dtype and not isinstance(node, Load):  # type: ignore[attr-defined]
            yield child


def _with_expression(statement: Any, old: ExprNode, new: ExprNode) -> Any:
    return rewrite(statement, lambda node: new if node is old else node, bodies=False)


_CHANGES: Final = (
    _fewer_launches, _fewer_parameters, _flatter, _shorter_loops, _hoisted, _constant_sizes, _plainer_data, _smaller_sizes,
    _simpler_expressions,
)  # fmt: skip
