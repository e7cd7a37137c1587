"""The forms of instructions that CPUs share: products of a broadcast element (or group) with a vector, small matrix tiles, functions.

In: names and extents. Out: specifications. Operands are vector registers of one thread; a register number counts elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from zellige.layouts import Layout, mixed
from zellige_intrinsics import meanings
from zellige_intrinsics.fragments import K, M, N
from zellige_intrinsics.specification import Function, Meaning, Operand, Product, Source


def broadcast_product(
    name: str,
    spelling: str,
    width: int,
    types: Sequence[tuple[str, str, str]],
    requires: tuple[str, ...],
    source: Source,
    *,
    group: int = 1,
    keeps_subnormals: bool = True,
    is_exact: bool = False,
) -> Product:
    """c[n] += sum over k of a[k] b[k, n]: ``group`` values of a for all of ``width`` columns; b holds each column's group together."""
    a = mixed({"register": [(group, {K: 1})]}, {M: 1, K: group})
    b = mixed({"register": [(group, {K: 1}), (width, {N: 1})]}, {K: group, N: width})
    c = mixed({"register": [(width, {N: 1})]}, {M: 1, N: width})
    return _product(name, spelling, (1, width, group), (a, b, c), types, requires, source, keeps_subnormals, is_exact)


def tile_product(
    name: str,
    spelling: str,
    depth: int,
    types: Sequence[tuple[str, str, str]],
    requires: tuple[str, ...],
    source: Source,
    *,
    is_exact: bool,
) -> Product:
    """c of 2 x 2 += a of 2 x ``depth`` times b given as 2 columns of ``depth``, all row-major in one register."""
    a = mixed({"register": [(depth, {K: 1}), (2, {M: 1})]}, {M: 2, K: depth})
    b = mixed({"register": [(depth, {K: 1}), (2, {N: 1})]}, {K: depth, N: 2})
    c = mixed({"register": [(2, {N: 1}), (2, {M: 1})]}, {M: 2, N: 2})
    return _product(name, spelling, (2, 2, depth), (a, b, c), types, requires, source, True, is_exact)


def _product(
    name: str,
    spelling: str,
    shape: tuple[int, int, int],
    layouts: tuple[Layout, Layout, Layout],
    types: Sequence[tuple[str, str, str]],
    requires: tuple[str, ...],
    source: Source,
    keeps_subnormals: bool,
    is_exact: bool,
) -> Product:
    a_types, b_types, c_types = (tuple(column) for column in zip(*types))
    a, b, c = layouts
    return Product(
        name=name,
        spelling=spelling,
        scope="thread",
        m=shape[0],
        n=shape[1],
        k=shape[2],
        operands=(
            Operand(name="a", types=a_types, space="register", layout=a),
            Operand(name="b", types=b_types, space="register", layout=b),
            Operand(name="c", types=c_types, space="register", layout=c),
            Operand(name="d", types=c_types, space="register", layout=c, is_result=True),
        ),
        meaning=meanings.multiply_add,
        order="exact" if is_exact else "one by one",
        keeps_subnormals=keeps_subnormals,
        requires=requires,
        sources=(source,),
    )


def vector_function(
    name: str,
    spelling: str,
    function: str,
    width: int,
    meaning: Meaning,
    error: float,
    requires: tuple[str, ...],
    source: Source,
    *,
    others: tuple[str, ...] = (),
    keeps_subnormals: bool = True,
) -> Function:
    """A function of each element of a vector of float32; ``error`` is relative, 0 means exactly rounded."""
    layout = mixed({"register": [(width, {"element": 1})]}, {"element": width})
    return Function(
        name=name,
        spelling=spelling,
        scope="thread",
        operands=(
            *(Operand(name=operand, types=("float32",), space="register", layout=layout) for operand in ("x", *others)),
            Operand(name="result", types=("float32",), space="register", layout=layout, is_result=True),
        ),
        meaning=meaning,
        function=function,
        error=error,
        error_unit="relative" if error else "exact",
        keeps_subnormals=keeps_subnormals,
        requires=requires,
        sources=(source,),
    )
