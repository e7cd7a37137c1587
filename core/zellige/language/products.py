"""Matrix products: T.gemm, T.gemm_sp, T.gemm_blockscaled and the hint GemmWarpPolicy."""

from __future__ import annotations

import enum
from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige.diagnostics.suggest import closest
from zellige.dtypes import DType
from zellige.frontend import arithmetic
from zellige.frontend.builder import current_builder
from zellige.frontend.regions import region_of
from zellige.frontend.slices import shape_text
from zellige.frontend.values import Scalar, Tile, here
from zellige.ir.expr import INT32, Buffer, Const, Expr, Load, Region, const
from zellige.ir.stmt import Gemm, GemmPolicy, Map, Store, Transpose, whole
from zellige.language import elementwise
from zellige.language.keywords import accept, check_hints, count_of, flag

_KEYWORDS: Final = ("A", "B", "C", "transpose_A", "transpose_B", "policy", "clear_accum", "k_pack", "wg_wait", "mbar")

_BITS_OF_WIDE: Final = 4
"""The bits of metadata for each kept element of more than 16 bits."""


class GemmWarpPolicy(enum.IntEnum):
    """How the lanes' groups share C: a hint."""

    Square = 0
    FullRow = 1
    FullCol = 2

    def is_square(self) -> bool:
        return self is GemmWarpPolicy.Square

    def is_full_row(self) -> bool:
        return self is GemmWarpPolicy.FullRow

    def is_full_col(self) -> bool:
        return self is GemmWarpPolicy.FullCol

    @classmethod
    def from_warp_partition(cls, m_warp: int, n_warp: int) -> GemmWarpPolicy:
        """The policy that gives ``m_warp`` groups of rows and ``n_warp`` of columns: all rows, all columns, or both."""
        if n_warp == 1 and m_warp > 1:
            return cls.FullRow
        return cls.FullCol if m_warp == 1 and n_warp > 1 else cls.Square


_POLICIES: Final[dict[int | None, GemmPolicy]] = {0: "square", 1: "full_row", 2: "full_col"}


def matrix(value: Any, operation: str, name: str) -> Region:
    """An operand as a matrix of known sizes: its leading extents are 1. E225: no matrix; E105: a size known only at run time."""
    region = region_of(value, operation)
    extents = region.extents
    if len(extents) < 2 or any(not (isinstance(e, Const) and e.value == 1) for e in extents[:-2]):
        raise catalogue.E225.error(here(), operation=operation, given=shape_text(extents))
    if not all(isinstance(e, Const) for e in extents[-2:]):
        raise catalogue.E105.error(here(), given=f"a size of {name} of {operation}, {shape_text(extents)},")
    return region


def _product(
    operation: str,
    A: Any,
    B: Any,
    C: Any,
    transpose_A: Any,
    transpose_B: Any,
    policy: Any,
    clear_accum: Any,
    *,
    kept: int = 1,
    **parts: Any,
) -> None:
    """Checks sizes and dtypes and emits the product. ``kept``: how many elements of k each stored element of A stands for."""
    a, b, c = matrix(A, operation, "A"), matrix(B, operation, "B"), matrix(C, operation, "C")
    is_a, is_b = flag(transpose_A, operation, "transpose_A"), flag(transpose_B, operation, "transpose_B")
    m, k_a = _sizes(a, is_transposed=is_a)
    k_b, n = _sizes(b, is_transposed=is_b)
    rows, columns = _sizes(c, is_transposed=False)
    for name, left, right in (("K", k_a * kept, k_b), ("M", m, rows), ("N", n, columns)):
        if left != right:
            raise _size_mismatch(name, left, right, *(shape_text(region.extents) for region in (a, b, c)))
    check_dtypes(operation, a.buffer.dtype, b.buffer.dtype, c.buffer.dtype)
    builder = current_builder(operation)
    builder.emit(
        Gemm(
            a=a,
            b=b,
            c=c,
            transpose_a=is_a,
            transpose_b=is_b,
            clear=arithmetic.truth(clear_accum, builder.span),
            policy=_policy(policy),
            span=builder.span,
            **parts,
        )
    )


def _size_mismatch(name: str, left: object, right: object, a: str, b: str, c: str) -> Exception:
    return catalogue.E226.error(here(), name=name, left=left, right=right, a=a, b=b, c=c)


def _sizes(region: Region, *, is_transposed: bool) -> tuple[int, int]:
    first, second = (int(e.value) for e in region.extents[-2:] if isinstance(e, Const))
    return (second, first) if is_transposed else (first, second)


def check_dtypes(operation: str, a: DType, b: DType, c: DType) -> None:
    """E204 unless all three are floats or all three are integers."""
    if all(d.is_float and d.lanes == 1 for d in (a, b, c)) or all(d.is_integer and d.lanes == 1 for d in (a, b, c)):
        return
    hint = "multiply floats into floats, or integers into integers"
    raise catalogue.E204.error(here(), operation=operation, dtype=f"A {a}, B {b} and C {c}", hint=hint)


def gemm(
    A: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    k_pack: int = 1,
    wg_wait: int = 0,
    mbar: Any = None,
    **hints: Any,
) -> None:
    """``C += op(A) @ op(B)``, or ``C = ...`` where ``clear_accum``. A (M, K) or (K, M) transposed, B (K, N) or (N, K), C (M, N).

    Floats of 8 and 16 bits accumulate in float32 and round once to C's dtype; integers wrap in it. A and B may be of different types, both
    floats or both integers: every element counts with its own value. Few units take such a pair; ``zl.explain`` says what does. ``policy``,
    ``k_pack``, ``wg_wait`` and ``mbar`` are hints. E225, E226: shapes; E105: a size known only at run time; E204: dtypes; E227: policy.
    """
    wishes = accept("T.gemm", hints, _KEYWORDS)
    check_hints("T.gemm", wg_wait=wg_wait, mbar=mbar)
    pack = arithmetic.whole_number(k_pack)
    if pack not in (1, 2):
        hint = f"T.gemm k_pack must be an int equal to 1 or 2, got {k_pack!r}"
        raise catalogue.E245.error(here(), wanted="1 or 2", given=f"{arithmetic.describe(k_pack)} as k_pack", hint=hint)
    _product("T.gemm", A, B, C, transpose_A, transpose_B, policy, clear_accum, k_pack=pack, hints=wishes)


def gemm_sp(
    A_sparse: Any,
    E: Any,
    B: Any,
    C: Any,
    transpose_A: bool = False,
    transpose_E: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    wg_wait: int = 0,
    **hints: Any,
) -> None:
    """As :func:`gemm` with an A of which every four elements along k keep two: A_sparse (M, K / 2) holds them.

    A row of ``E`` (integers) is a string of bits, the lowest first, in which each kept element has two: its place among its four. Of
    elements wider than 16 bits every two keep one, which has four bits: 0b0100 for the first and 0b1110 for the second, that is, the
    places of its two halves. ``transpose_E``: it is a column instead, which is made a row first. E204: types; E226: sizes.
    """
    wishes = accept("T.gemm_sp", hints, ("A_sparse", "E", *_KEYWORDS[1:5], "transpose_E", *_KEYWORDS[5:7], "wg_wait"))
    check_hints("T.gemm_sp", wg_wait=wg_wait)
    metadata = matrix(E, "T.gemm_sp", "E")
    if not metadata.buffer.dtype.is_integer:
        raise catalogue.E204.error(here(), operation="the metadata of T.gemm_sp", dtype=metadata.buffer.dtype)
    if flag(transpose_E, "T.gemm_sp", "transpose_E"):
        metadata = _transposed(metadata)
    if region_of(A_sparse, "T.gemm_sp").buffer.dtype.bits > 16:
        sparse = matrix(A_sparse, "T.gemm_sp", "A_sparse")
        dense = Tile(_with_zeros(sparse, metadata, flag(transpose_A, "T.gemm_sp", "transpose_A")))
        _product("T.gemm_sp", dense, B, C, transpose_A, transpose_B, policy, clear_accum, hints=wishes)
    else:
        own: dict[str, Any] = {"kept": 2, "metadata": metadata, "hints": wishes}
        _product("T.gemm_sp", A_sparse, B, C, transpose_A, transpose_B, policy, clear_accum, **own)


def _with_zeros(sparse: Region, metadata: Region, is_transposed: bool) -> Buffer:
    """The whole operand, in a tile of its own, of one whose elements stand for two along k each. E226: too few or too many bits."""
    builder = current_builder("T.gemm_sp")
    rows, kept = _sizes(sparse, is_transposed=is_transposed)
    given, words = _sizes(metadata, is_transposed=False)
    width = metadata.buffer.dtype.bits
    if given != rows or words * width != _BITS_OF_WIDE * kept:
        shown = (shape_text(sparse.extents), "any", "any")
        raise _size_mismatch(f"E of {metadata.buffer.dtype}", shape_text(metadata.extents), [rows, _BITS_OF_WIDE * kept // width], *shown)
    shape = (2 * kept, rows) if is_transposed else (rows, 2 * kept)
    dense = builder.allocate("dense", sparse.buffer.dtype, tuple(const(n, INT32) for n in shape), "shared")
    axes = (builder.var("i", INT32, "loop"), builder.var("k", INT32, "loop"))
    row, k = (Scalar(axis) for axis in axes)
    first = _BITS_OF_WIDE * (k // 2)
    value = _element(sparse, (k // 2, row) if is_transposed else (row, k // 2))
    is_second = _element(metadata, (row, first // width)) >> (first % width + 1) & 1
    with builder.body() as body:
        chosen = elementwise.if_then_else(is_second == k % 2, value, 0)
        place = tuple(arithmetic.index(i) for i in ((k, row) if is_transposed else (row, k)))
        builder.emit(Store(buffer=dense, indices=place, value=arithmetic.stored(chosen, dense.dtype, here()), span=builder.span))
    extents = (const(rows, INT32), const(2 * kept, INT32))
    builder.emit(Map(axes=axes, extents=extents, body=tuple(body), span=builder.span))
    return dense


def _element(part: Region, at: tuple[Any, Any]) -> Scalar:
    """An element of a matrix, which may be a slice of more dimensions, by its row and column."""
    last = (arithmetic.binary("add", offset, index, here()) for offset, index in zip(part.offsets[-2:], at))
    return Scalar(Load(buffer=part.buffer, indices=(*part.offsets[:-2], *last), span=here()))


def _transposed(part: Region) -> Region:
    """A matrix of constant sizes with its dimensions exchanged, in a tile of its own."""
    builder = current_builder("T.gemm_sp")
    tile = whole(builder.allocate("metadata", part.buffer.dtype, part.extents[-2:][::-1], "shared"), here())
    builder.emit(Transpose(src=part, dst=tile, span=builder.span))
    return tile


def gemm_blockscaled(
    A: Any,
    B: Any,
    C: Any,
    SFA: Any,
    SFB: Any,
    transpose_A: bool = False,
    transpose_B: bool = False,
    policy: GemmWarpPolicy = GemmWarpPolicy.Square,
    clear_accum: Any = False,
    *,
    k_start: Any,
    sf_a_granularity_k: int,
    sf_b_granularity_k: int,
    **hints: Any,
) -> None:
    """``C += (A * SFA) @ (B * SFB).T``: each scale multiplies ``sf_*_granularity_k`` elements along k, A (M, K), B (N, K) transposed.

    SFA (M, ...) and SFB (N, ...) are floats, one a block along the whole k, of which this product begins at ``k_start``. E402: other
    transpositions, scales packed into integers; E226: sizes that the blocks do not divide.
    """
    own = ("SFA", "SFB", *_KEYWORDS[3:7], "k_start", "sf_a_granularity_k", "sf_b_granularity_k")
    wishes = accept("T.gemm_blockscaled", hints, (*_KEYWORDS[:3], *own))
    operation = "T.gemm_blockscaled"
    if flag(transpose_A, operation, "transpose_A") or not flag(transpose_B, operation, "transpose_B"):
        raise catalogue.E402.error(
            here(), name=f"{operation} with these transpositions", hint="store A as (M, K) and B as (N, K), with transpose_B=True"
        )
    scales = []
    for name, operand, factors, block in (("SFA", A, SFA, sf_a_granularity_k), ("SFB", B, SFB, sf_b_granularity_k)):
        size = count_of(block, f"as granularity of {name}")
        scales.append(_scales(operation, name, matrix(operand, operation, name[-1]), region_of(factors, operation), k_start, size))
    parts: dict[str, Any] = {"scale_a": scales[0], "scale_b": scales[1], "hints": wishes}
    _product(operation, A, B, C, False, True, policy, clear_accum, **parts)


def _scales(operation: str, name: str, operand: Region, factors: Region, k_start: Any, block: int) -> Region:
    """The scales of one operand: one row a row of it, the columns from ``k_start`` on."""
    span = here()
    rows, depth = _sizes(operand, is_transposed=False)
    if not factors.buffer.dtype.is_float:
        raise catalogue.E402.error(
            span, name=f"{operation} with scales packed into {factors.buffer.dtype}", hint="pass the scales as floats, one an element"
        )
    count = max(depth // block, 1)
    given = factors.extents[-2] if len(factors.extents) == 2 else None
    if not isinstance(given, Const) or given.value != rows or (depth > block and depth % block):
        shown = (shape_text(operand.extents), f"{name} {shape_text(factors.extents)}", f"blocks of {block}")
        raise _size_mismatch(f"the number of rows of {name}", rows, shape_text(factors.extents), *shown)
    first: Expr = arithmetic.binary("floordiv", arithmetic.index(k_start, span), block, span)
    offsets = (factors.offsets[-2], arithmetic.binary("add", factors.offsets[-1], first, span))
    return Region(buffer=factors.buffer, offsets=offsets, extents=(const(rows, INT32), const(count, INT32)), span=span)


def _policy(policy: Any) -> GemmPolicy:
    chosen = _POLICIES.get(arithmetic.whole_number(policy))
    if chosen is not None:
        return chosen
    raise catalogue.E227.error(
        here(), given=arithmetic.describe(policy), suggestion=closest(policy, GemmWarpPolicy.__members__, "T.GemmWarpPolicy.{}")
    )
