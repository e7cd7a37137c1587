"""What tracing a function gave, as it is kept on disk: enough of the kernel to load and call its code, and its text for the rest.

In: a kernel and which of its tensors it touches. Out: bytes of an entry (:func:`pack_trace`), None for a kernel whose sizes are no simple
expressions, and :class:`KeptTrace` from bytes (:func:`unpack_trace`). Nothing is unpickled: a header of JSON stands before the text.

A kernel without its statements is called an outline: parameters, grids and results.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from zellige.cache.artifacts import Unreadable, packed, unpacked
from zellige.dtypes import UnknownDType, dtype as as_dtype
from zellige.ir.expr import Binary, Buffer, Const, Expr, Var
from zellige.ir.stmt import Kernel, Launch, ScalarParam, TensorParam


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTrace:
    """An outline, the indices of the tensors that the kernel uses and writes, its text, and what the style of the function adds."""

    outline: Kernel
    touched: tuple[list[int], list[int]]
    text: str
    extra: Any


class _NotSimple(Exception):
    """An expression, or a parameter, that an outline does not hold."""


def pack_trace(kernel: Kernel, touched: tuple[list[int], list[int]], text: str, extra: Any) -> bytes | None:
    """The bytes of an entry; ``extra`` is any value of JSON. None where the outline cannot be written down."""
    variables: dict[Var, int] = {}
    try:
        params = [_param(param, variables) for param in kernel.params]
        launches = [_launch(launch, variables) for launch in kernel.launches]
    except _NotSimple:
        return None
    header = {
        "name": kernel.name,
        "variables": [[var.name, var.dtype.name, var.kind] for var in variables],
        "params": params,
        "launches": launches,
        "results": kernel.results,
        "touched": touched,
        "extra": extra,
    }
    return packed(header, text.encode())


def unpack_trace(data: bytes) -> KeptTrace:
    """Raises Unreadable."""
    header, text = unpacked(data)
    try:
        variables = [Var(name=name, dtype=as_dtype(dtype), kind=kind) for name, dtype, kind in header["variables"]]
        params = tuple(_read_param(given, variables) for given in header["params"])
        launches = tuple(_read_launch(given, variables) for given in header["launches"])
        outline = Kernel(name=header["name"], params=params, launches=launches, results=tuple(header["results"]))
        used, written = header["touched"]
        return KeptTrace(outline=outline, touched=(used, written), text=text.decode(), extra=header["extra"])
    except (KeyError, TypeError, ValueError, IndexError, UnknownDType) as error:
        raise Unreadable(f"the trace lacks {error}") from error


def _param(param: TensorParam | ScalarParam, variables: dict[Var, int]) -> list[Any]:
    if isinstance(param, ScalarParam):
        return [variables.setdefault(param.var, len(variables))]
    buffer = param.buffer
    if buffer.alias is not None:
        raise _NotSimple
    strides = None if buffer.strides is None else [_expr(e, variables) for e in buffer.strides]
    return [buffer.name, buffer.dtype.name, [_expr(e, variables) for e in buffer.shape], strides, buffer.space, param.role]


def _read_param(given: list[Any], variables: list[Var]) -> TensorParam | ScalarParam:
    if len(given) == 1:
        return ScalarParam(var=variables[given[0]])
    name, dtype, shape, strides, space, role = given
    buffer = Buffer(
        name=name,
        dtype=as_dtype(dtype),
        shape=tuple(_read_expr(e, variables) for e in shape),
        strides=None if strides is None else tuple(_read_expr(e, variables) for e in strides),
        space=space,
    )
    return TensorParam(buffer=buffer, role=role)


def _launch(launch: Launch, variables: dict[Var, int]) -> list[Any]:
    threads = None if launch.threads is None else [_expr(e, variables) for e in launch.threads]
    return [[_expr(e, variables) for e in launch.grid], threads, launch.cluster]


def _read_launch(given: list[Any], variables: list[Var]) -> Launch:
    grid, threads, cluster = given
    return Launch(
        grid_vars=(),
        grid=tuple(_read_expr(e, variables) for e in grid),
        threads=None if threads is None else tuple(_read_expr(e, variables) for e in threads),
        cluster=None if cluster is None else tuple(cluster),
    )


def _expr(expr: Expr, variables: dict[Var, int]) -> Any:
    """A number of the index type is itself, a variable a list of its number, an operation a list of its name and operands."""
    match expr:
        case Const(value=bool() | float()):
            raise _NotSimple
        case Const():
            return expr.value if expr.dtype.name == "int32" else [expr.value, expr.dtype.name]
        case Var():
            return [variables.setdefault(expr, len(variables))]
        case Binary():
            return [expr.op, _expr(expr.left, variables), _expr(expr.right, variables)]
        case _:
            raise _NotSimple


def _read_expr(given: Any, variables: list[Var]) -> Expr:
    if isinstance(given, int):
        return _index(given)
    if len(given) == 1:
        variable: Expr = variables[given[0]]
        return variable
    if len(given) == 2:
        return Const(value=given[0], dtype=as_dtype(given[1]))
    op, left, right = given
    return Binary(op=op, left=_read_expr(left, variables), right=_read_expr(right, variables))


@lru_cache(maxsize=256)
def _index(value: int) -> Const:
    """A number of the index type; the same few stand in all outlines."""
    return Const(value=value, dtype=as_dtype("int32"))
