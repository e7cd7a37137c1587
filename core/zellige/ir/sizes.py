"""Symbolic sizes: which variables a kernel has, and their values from the shapes of the tensors given to it.

In: a kernel; at a call, the extents and strides of its tensor arguments and the values of its scalars. Out: a value
for each size variable, and the places where a given tensor contradicts its declaration.

Each dimension of an argument is an equation ``given extent == declared expression``. A declared extent that is
just a variable (``M``) gives that variable its value, the first such place in the order of the parameters wins, extents before
strides. A variable that stands alone nowhere is solved from a place that is a multiple of it plus a number (``M * 2 + 1``). All other
equations (a second ``M``, 128) are checked afterwards, and so are multiples. Sizes are evaluated in unbounded integers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from zellige.dtypes import DType
from zellige.ir.arithmetic import INTEGER_OPS, compare, exact
from zellige.ir.expr import Binary, Cast, Compare, Const, Expr, ExprNode, Select, Unary, Var, const
from zellige.ir.stmt import Kernel, ScalarParam, TensorParam
from zellige.ir.traverse import children, operands_first, walk


class SizeError(ValueError):
    """An expression cannot be evaluated as a size: it holds an unknown variable or an operation that sizes do not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeEquation:
    """The extent or stride of dimension ``dimension`` of ``kernel.params[param]`` equals ``expr``.

    ``solves`` is the variable that takes its value from here, None where the equation is only checked; ``expr`` is
    ``scale * solves + offset``.
    """

    param: int
    dimension: int
    what: Literal["extent", "stride"]
    expr: Expr
    solves: Var | None
    scale: int = 1
    offset: int = 0

    def value(self, given: int) -> int:
        """The variable's value where ``given`` was found. Of a number that is no such multiple the nearest below, at least 0."""
        return max(0, (given - self.offset) // self.scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeMismatch:
    """A given tensor has ``given`` where its declaration, with the sizes that were solved, says ``expected``."""

    equation: SizeEquation
    expected: int
    given: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeSystem:
    """The equations of a kernel, made once by :meth:`of` and solved at each call.

    ``variables`` is :func:`size_vars`; ``unsolved`` are those of them that no argument gives directly.
    """

    variables: tuple[Var, ...]
    equations: tuple[SizeEquation, ...]
    unsolved: tuple[Var, ...]

    @classmethod
    def of(cls, kernel: Kernel) -> SizeSystem:
        variables = size_vars(kernel)
        open_variables = set(variables)
        equations: list[SizeEquation] = []
        given = [(index, p.buffer) for index, p in enumerate(kernel.params) if isinstance(p, TensorParam) and p.role == "argument"]
        declared: list[tuple[Literal["extent", "stride"], int, Sequence[Expr]]] = [("extent", index, b.shape) for index, b in given]
        declared += [("stride", index, b.strides or ()) for index, b in given]
        for what, index, exprs in declared:
            for dimension, expr in enumerate(exprs):
                solves = expr if isinstance(expr, Var) and expr in open_variables else None
                if solves is not None:
                    open_variables.remove(solves)
                equations.append(SizeEquation(param=index, dimension=dimension, what=what, expr=expr, solves=solves))
        for position, equation in enumerate(equations):
            multiple = linear_form(equation.expr) if equation.solves is None and open_variables else None
            if multiple is not None and multiple[0] in open_variables:
                open_variables.remove(multiple[0])
                equations[position] = replace(equation, solves=multiple[0], scale=multiple[1], offset=multiple[2])
        return cls(variables=variables, equations=tuple(equations), unsolved=tuple(v for v in variables if v in open_variables))

    def solve(
        self,
        shapes: Mapping[int, Sequence[int]],
        strides: Mapping[int, Sequence[int]],
        scalars: Mapping[Var, int],
    ) -> tuple[dict[Var, int], tuple[SizeMismatch, ...]]:
        """The values of the size variables and the contradictions.

        ``shapes`` and ``strides`` (in elements) are keyed by index into ``kernel.params`` and have the declared rank; strides are
        needed only of parameters that declare them. ``scalars`` holds the values of scalar parameters that sizes mention.
        Raises :class:`SizeError` when ``unsolved`` is not empty or a scalar is missing.
        """
        if self.unsolved:
            raise SizeError(f"no argument gives the size {self.unsolved[0].name}")
        values = dict(scalars)
        for equation in self.equations:
            if equation.solves is not None:
                values[equation.solves] = equation.value(int(_given(equation, shapes, strides)))
        mismatches: list[SizeMismatch] = []
        for equation in self.equations:
            if equation.solves is not equation.expr:
                expected, given = evaluate_size(equation.expr, values), int(_given(equation, shapes, strides))
                if expected != given:
                    mismatches.append(SizeMismatch(equation=equation, expected=expected, given=given))
        return {v: values[v] for v in self.variables}, tuple(mismatches)


def _given(equation: SizeEquation, shapes: Mapping[int, Sequence[int]], strides: Mapping[int, Sequence[int]]) -> int:
    return (shapes if equation.what == "extent" else strides)[equation.param][equation.dimension]


def linear_form(expr: Expr) -> tuple[Var, int, int] | None:
    """``(v, a, b)`` for an expression ``a * v + b`` of one size variable with numbers a > 0 and b; None for any other."""
    scale, offset, at = 1, 0, expr
    while not isinstance(at, Var):
        if isinstance(at, Cast) and at.dtype.is_integer:
            at = at.value
            continue
        if not isinstance(at, Binary):
            return None
        number = at.right if isinstance(at.right, Const) else at.left
        inner = at.left if number is at.right else at.right
        if not isinstance(number, Const) or isinstance(number.value, float):
            return None
        value = int(number.value)
        if at.op == "add":
            offset += scale * value
        elif at.op == "sub" and number is at.right:
            offset -= scale * value
        elif at.op == "mul" and value > 0:
            scale *= value
        else:
            return None
        at = inner
    return (at, scale, offset) if at.kind == "size" else None


ROOM: Final = 1 << 20
"""What an index may pass the end of a tensor by without leaving its type: more than any tile has elements along a dimension."""


def greatest_size(dtype: DType) -> int:
    """The greatest value that a launch takes for a symbolic size of the type: the number of tiles that cover it, rounded up, and the index
    of an element of the last tile are numbers of the type too."""
    if dtype.bits == 64:
        return 1 << 62
    return int(dtype.max) - ROOM if dtype.bits == 32 else int(dtype.max)


def size_vars(kernel: Kernel) -> tuple[Var, ...]:
    """The symbolic sizes in order of first appearance: in the shapes of the tensor parameters, then in their strides.

    A variable that is also a scalar parameter is not among them: its value is passed as that scalar.
    """
    scalars = {param.var for param in kernel.params if isinstance(param, ScalarParam)}
    found: dict[Var, None] = {}
    tensors = [param.buffer for param in kernel.params if isinstance(param, TensorParam)]
    for exprs in (*[buffer.shape for buffer in tensors], *[buffer.strides or () for buffer in tensors]):
        for expr in exprs:
            for node in () if isinstance(expr, Const) else walk(expr):
                if isinstance(node, Var) and node.kind == "size" and node not in scalars:
                    found.setdefault(node)
    return tuple(found)


def launched_blocks(grid: Sequence[Expr], workers: int | None) -> tuple[Expr, ...]:
    """The extents in blocks of a launch over a kernel's ``grid``: where its plan has blocks that stay, at most ``workers`` along one axis,
    else (None) the grid itself. For a runtime that knows the kernel and of its plan the number of workers."""
    if workers is None:
        return tuple(grid)
    total: Expr = grid[0]
    for extent in grid[1:]:
        total = Binary(op="mul", left=total, right=extent)
    return (Binary(op="min", left=total, right=const(workers, total.dtype)),)


def evaluate_size(expr: Expr, values: Mapping[Var, int]) -> int:
    """The value of a size expression in unbounded integers.

    Raises :class:`SizeError` where ``expr`` holds a variable without a value, a load, a float or a math function.
    """
    if isinstance(expr, Const) and not isinstance(expr.value, float):
        return int(expr.value)
    if isinstance(expr, Var) and expr in values:
        return values[expr]
    done: dict[int, int] = {}
    for node in operands_first(expr):
        done[id(node)] = _evaluated(node, [done[id(child)] for child in children(node)], values)
    return done[id(expr)]


def _evaluated(node: ExprNode, operands: list[int], values: Mapping[Var, int]) -> int:
    match node:
        case Const(value=bool() | int()):
            return int(node.value)
        case Var():
            if node not in values:
                raise SizeError(f"the size {node.name} has no value")
            return values[node]
        case Unary(op="neg"):
            return -operands[0]
        case Unary(op="invert"):
            return ~operands[0]
        case Unary(op="not"):
            return int(not operands[0])
        case Binary(op="and"):
            return operands[1] if operands[0] else 0
        case Binary(op="or"):
            return operands[0] or operands[1]
        case Binary() if node.op in INTEGER_OPS:
            return exact(node.op, operands[0], operands[1])
        case Compare():
            return int(compare(node.op, operands[0], operands[1]))
        case Select():
            return operands[1] if operands[0] else operands[2]
        case Cast() if node.dtype.is_integer:
            return operands[0]
        case Cast() if node.dtype.is_bool:
            return int(operands[0] != 0)
        case _:
            raise SizeError(f"{type(node).__name__} does not belong in a size")
