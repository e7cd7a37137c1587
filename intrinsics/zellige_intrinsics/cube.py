"""Instructions of a cube unit fed by flags, as in Huawei's Ascend processors: a product of 16 x 16 x 16 on local buffers.

Facts: Huawei, Ascend C API reference (Mmad, LoadData, SetFlag/WaitFlag) and the published description of fractal formats. Blocks of 16 rows
by 32 bytes are dense; a in L0A row by row, b in L0B column by column, results in L0C row by row. No device was at hand: only the layouts
are tested.
"""

from __future__ import annotations

from typing import Final

from zellige.layouts import Layout, blocked
from zellige_intrinsics import meanings
from zellige_intrinsics.fragments import K, M, N
from zellige_intrinsics.specification import Completion, Copy, Intrinsic, Operand, Product, Source, Synchronisation
from zellige_intrinsics.waiting import FlagPair

MANUAL: Final = "Huawei, Ascend C API reference"
FLAGS: Final = Completion(waits=("wait_flag",), order="in order")
EVIDENCE: Final = "layouts by enumeration only"


def left(rows: int, depth: int, group: int) -> Layout:
    """A in L0A: blocks of 16 x ``group`` in rows of blocks, each row by row."""
    return blocked({M: rows, K: depth}, [(M, rows // 16), (K, depth // group), (M, 16), (K, group)])


def right(depth: int, columns: int, group: int) -> Layout:
    """B in L0B: blocks of ``group`` x 16 in rows of blocks, each column by column."""
    return blocked({K: depth, N: columns}, [(K, depth // group), (N, columns // 16), (N, 16), (K, group)])


def result(rows: int, columns: int) -> Layout:
    """C in L0C: columns of blocks of 16 x 16, each row by row."""
    return blocked({M: rows, N: columns}, [(N, columns // 16), (M, rows // 16), (M, 16), (N, 16)])


def cube_product(rows: int, columns: int, depth: int, types: tuple[str, ...], out: str, *, group: int = 16) -> Product:
    """Mmad on whole blocks: extents are multiples of 16 (k: of ``group``, the elements in 32 bytes)."""
    kinds = (out,) * len(types)
    c = result(rows, columns)
    return Product(
        name=f"mmad {rows}x{columns}x{depth} {types[0]}",
        spelling="Mmad({d}, {a}, {b}, {{m, n, k, {accumulates}}});",
        scope="unit",
        m=rows,
        n=columns,
        k=depth,
        operands=(
            Operand(name="a", types=types, space="l0a", holder="memory", layout=left(rows, depth, group), alignment=512),
            Operand(name="b", types=types, space="l0b", holder="memory", layout=right(depth, columns, group), alignment=512),
            Operand(name="c", types=kinds, space="l0c", holder="memory", layout=c, alignment=1024),
            Operand(name="d", types=kinds, space="l0c", holder="memory", layout=c, alignment=1024, is_result=True),
        ),
        meaning=meanings.multiply_add,
        requires=("cube",),
        completion=FLAGS,
        sources=(Source(manual=MANUAL, section="Mmad", evidence=EVIDENCE),),
    )


def block_load(rows: int, depth: int) -> Copy:
    """LoadData from L1 (columns of blocks) to L0A (rows of blocks), elements of 16 bits."""
    source = blocked({M: rows, K: depth}, [(K, depth // 16), (M, rows // 16), (M, 16), (K, 16)])
    kinds = ("float16", "bfloat16")
    return Copy(
        name=f"load_data {rows}x{depth}",
        spelling="LoadData({destination}, {source}, {parameters});",
        scope="unit",
        operands=(
            Operand(name="source", types=kinds, space="l1", holder="memory", layout=source, alignment=32),
            Operand(
                name="destination",
                types=kinds,
                space="l0a",
                holder="memory",
                layout=left(rows, depth, 16),
                alignment=512,
                is_result=True,
            ),
        ),
        meaning=meanings.copy,
        bytes_each=2 * rows * depth,
        requires=("cube",),
        completion=FLAGS,
        sources=(Source(manual=MANUAL, section="LoadData", evidence=EVIDENCE),),
    )


def _flag(name: str, spelling: str) -> Synchronisation:
    return Synchronisation(
        name=name,
        spelling=spelling,
        scope="unit",
        operands=(),
        meaning=None,
        mechanism="flag pair",
        model=FlagPair,
        requires=("cube",),
        sources=(Source(manual=MANUAL, section="SetFlag/WaitFlag"),),
        notes="a flag belongs to a pair of engines and a number; each set is taken once",
    )


INTRINSICS: Final[tuple[Intrinsic, ...]] = (
    cube_product(16, 16, 16, ("float16", "bfloat16"), "float32"),
    cube_product(16, 16, 32, ("int8",), "int32", group=32),
    block_load(16, 16),
    block_load(64, 64),
    _flag("set_flag", "SetFlag<{event}>({number});"),
    _flag("wait_flag", "WaitFlag<{event}>({number});"),
)
