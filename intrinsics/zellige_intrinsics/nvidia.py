"""NVIDIA's instructions: warp and warpgroup matrix products, matrix loads and stores, asynchronous copies and their synchronisation.

Facts: NVIDIA, Parallel Thread Execution ISA (sections by their titles). ``requires`` has the words of the backend's capabilities: "sm_80"
and so on mean that architecture or newer, "sm_90a" exactly that feature set.
"""

from __future__ import annotations

from typing import Final

from zellige.dtypes import dtype
from zellige.layouts import Layout, renamed, reordered, row_major
from zellige_intrinsics import meanings, nvidia_rows
from zellige_intrinsics.fragments import pieces_by_pointer, vector
from zellige_intrinsics.nvidia_fragments import (
    K,
    M,
    N,
    Swizzle,
    accumulator,
    double_accumulator,
    double_left,
    double_right,
    k_major,
    left,
    matrices,
    matrix_rows,
    right,
    warpgroup_accumulator,
    warpgroup_left,
)
from zellige_intrinsics.rows import ProductRow
from zellige_intrinsics.specification import Completion, Copy, Function, Intrinsic, Operand, Product, Source, Synchronisation
from zellige_intrinsics.waiting import InOrderGroups, Rendezvous, TransactionBarrier

PTX: Final = "NVIDIA, Parallel Thread Execution ISA"

EXECUTED: Final = nvidia_rows.EXECUTED

WORDS = Completion(waits=("cp.async.wait_group",), order="in order")
BULK = Completion(waits=("mbarrier.try_wait.parity",), order="any")
BULK_GROUP = Completion(waits=("cp.async.bulk.wait_group",), order="in order", visibility="fence.proxy.async before it, by every writer")
WGMMA = Completion(waits=("wgmma.wait_group",), order="in order", visibility="wgmma.fence before it, for registers written since")


def _fragments(row: ProductRow) -> tuple[Layout, Layout, Layout]:
    """How a, b and the accumulator lie: neighbours along k that fit 32 bits stand in one register."""
    if row.types[0][2] == "float64":
        return double_left(), double_right(), double_accumulator()
    depth, each = row.shape[2], max(1, 32 // (32 if row.types[0][0] == "tfloat32" else dtype(row.types[0][0]).bits))
    return left(depth, each), right(depth, each), accumulator()


def _product(row: ProductRow) -> Product:
    """A product of one warp with all operands in registers."""
    a, b, c = _fragments(row)
    a_types, b_types, c_types = (tuple(column) for column in zip(*row.types))
    return Product(
        name=row.name,
        spelling=row.spelling,
        scope="warp",
        lanes=32,
        m=row.shape[0],
        n=row.shape[1],
        k=row.shape[2],
        operands=(
            Operand(name="a", types=a_types, space="register", layout=a),
            Operand(name="b", types=b_types, space="register", layout=b),
            Operand(name="c", types=c_types, space="register", layout=c),
            Operand(name="d", types=c_types, space="register", layout=c, is_result=True),
        ),
        meaning=meanings.multiply_add,
        accumulator_bits=row.accumulator_bits,
        requires=row.requires,
        sources=(Source(manual=PTX, section=row.section, evidence=row.evidence),),
    )


WARP_PRODUCTS: Final = tuple(_product(row) for row in nvidia_rows.PRODUCTS)


def _matrix_move(count: int, *, is_load: bool, is_transposed: bool) -> Copy:
    """ldmatrix and stmatrix: 8 x 8 matrices of 16-bit elements between rows in shared memory and fragments."""
    name = nvidia_rows.matrix_load(count, is_transposed=is_transposed)
    name = name if is_load else name.replace("ldmatrix", "stmatrix")
    kinds = ("float16", "bfloat16", "int16", "uint16")
    rows = Operand(
        name="source" if is_load else "destination",
        types=kinds,
        space="shared",
        holder="pointer",
        layout=matrix_rows(count),
        alignment=16,
        is_result=not is_load,
    )
    fragment = Operand(
        name="destination" if is_load else "source",
        types=kinds,
        space="register",
        layout=matrices(count, is_transposed=is_transposed),
        is_result=is_load,
    )
    section = "Warp-level matrix load instruction: ldmatrix" if is_load else "Warp-level matrix store instruction: stmatrix"
    return Copy(
        name=name,
        spelling=name + (" {{{destination}}}, [{source}];" if is_load else " [{destination}], {{{source}}};"),
        scope="warp",
        lanes=32,
        operands=(rows, fragment) if is_load else (fragment, rows),
        meaning=meanings.copy,
        bytes_each=4 * count,
        requires=("sm_75" if is_load else "sm_90",),
        sources=(Source(manual=PTX, section=section, evidence=EXECUTED),),
    )


MATRIX_MOVES: Final = tuple(
    _matrix_move(count, is_load=is_load, is_transposed=is_transposed)
    for is_load in (True, False)
    for count in (1, 2, 4)
    for is_transposed in (False, True)
)

BYTE_TYPES: Final = ("uint8",)


def _words(size: int) -> Copy:
    """cp.async of ``size`` bytes a lane, zero-filled behind the number of bytes that the source has."""
    name = nvidia_rows.word_copy(size)
    return Copy(
        name=name,
        spelling=f"{name.rpartition('.')[0]} [{{destination}}], [{{source}}], {size}, {{valid}};",
        scope="lane",
        lanes=32,
        operands=(
            Operand(
                name="source",
                types=BYTE_TYPES,
                space="global",
                holder="pointer",
                layout=pieces_by_pointer("byte", 32, size),
                alignment=size,
            ),
            Operand(
                name="destination",
                types=BYTE_TYPES,
                space="shared",
                holder="pointer",
                layout=pieces_by_pointer("byte", 32, size),
                alignment=size,
                is_result=True,
            ),
        ),
        meaning=meanings.copy,
        bytes_each=size,
        fills_out_of_bounds=True,
        requires=("sm_80",),
        completion=WORDS,
        sources=(Source(manual=PTX, section="Data Movement and Conversion Instructions: cp.async"),),
    )


def tile_copy(rows: int, swizzle: Swizzle, *, bits: int = 16, is_load: bool = True) -> Copy:
    """A tensor-map copy of a box of ``rows`` x ``swizzle`` bytes (128 bytes without a swizzle) between global and shared memory.

    The global side is the box itself, row-major behind the tensor map; in shared memory pieces of 16 bytes are exchanged.
    """
    columns = (swizzle or 128) * 8 // bits
    kind = {8: "uint8", 16: "uint16", 32: "uint32"}[bits]
    plain = row_major({"row": rows, "column": columns})
    inner = renamed(k_major(("row", rows), columns, bits, swizzle).layout, {K: "column"}) if swizzle else plain
    names = ("source", "destination") if is_load else ("destination", "source")
    outside = Operand(name=names[0], types=(kind,), space="global", holder="memory", layout=plain, alignment=16, is_result=not is_load)
    inside = Operand(name=names[1], types=(kind,), space="shared", holder="memory", layout=inner, alignment=128, is_result=is_load)
    if is_load:
        name, completion = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes", BULK
    else:
        name, completion = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group", BULK_GROUP
    return Copy(
        name=f"{name}[{rows}x{columns}x{bits} swizzle {swizzle}]",
        spelling=name + " [{destination}], [{source}], [{barrier}];",
        scope="lane",
        operands=(outside, inside) if is_load else (inside, outside),
        meaning=meanings.copy,
        bytes_each=rows * columns * bits // 8,
        fills_out_of_bounds=True,
        requires=("sm_90",),
        completion=completion,
        sources=(Source(manual=PTX, section="cp.async.bulk.tensor; Tensors: Swizzling Modes"),),
        notes="box extents at most 256; base and strides multiples of 16 bytes; a load announces the bytes of the whole box",
    )


TYPES_OF_WGMMA: Final[dict[int, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]]] = {
    16: (
        ("float16", "bfloat16", "float16"),
        ("float16", "bfloat16", "float16"),
        ("float32", "float32", "float16"),
    ),
    8: (
        ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fn", "float8_e5m2"),
        ("float8_e4m3fn", "float8_e5m2", "float8_e5m2", "float8_e4m3fn"),
        ("float32",) * 4,
    ),
}


def warpgroup_product(n: int, *, bits: int = 16, a_in_registers: bool = False, swizzle: Swizzle = 128) -> Product:
    """wgmma.mma_async of m64 x ``n`` x (256 / bits): B in shared memory, A there or in registers, both K-major, D in registers.

    ``n`` is a multiple of 8 up to 256. Raises E331 for another.
    """
    k = 256 // bits
    a_types, b_types, d_types = TYPES_OF_WGMMA[bits]
    if a_in_registers:
        a = Operand(name="a", types=a_types, space="register", layout=warpgroup_left(k, 32 // bits))
    else:
        packed = k_major((M, 64), k, bits, swizzle).layout
        a = Operand(name="a", types=a_types, space="shared", holder="memory", layout=packed, alignment=8 * (swizzle or 16))
    b_layout = reordered(k_major((N, n), k, bits, swizzle).layout, [K, N], ["offset"])
    d = warpgroup_accumulator(n)
    form = "wgmma.mma_async.sync.aligned"
    return Product(
        name=f"{form}.m64n{n}k{k}{'.a_register' if a_in_registers else ''}.{bits}bit",
        spelling=form + f".m64n{n}k{k}" + "{variant} {{{d}}}, {a}, {b}, {accumulates}, 1, 1, {transpose_a}, {transpose_b};",
        scope="warpgroup",
        lanes=128,
        m=64,
        n=n,
        k=k,
        operands=(
            a,
            Operand(name="b", types=b_types, space="shared", holder="memory", layout=b_layout, alignment=8 * (swizzle or 16)),
            Operand(name="c", types=d_types, space="register", layout=d),
            Operand(name="d", types=d_types, space="register", layout=d, is_result=True),
        ),
        meaning=meanings.multiply_add,
        accumulator_bits=14 if bits == 8 else 0,
        requires=("sm_90a",),
        completion=WGMMA,
        sources=(
            Source(
                manual=PTX, section="Asynchronous wgmma.mma_async: Register Fragments and Shared Memory Matrix Layout", evidence=EXECUTED
            ),
        ),
        notes="accumulates 0 ignores c; operands of 8 bits must be K-major",
    )


WARPGROUP_PRODUCTS: Final = tuple(
    warpgroup_product(n, bits=bits, a_in_registers=registers)
    for bits in (16, 8)
    for registers in (False, True)
    for n in (8, 16, 32, 64, 80, 96, 112, 128, 160, 176, 192, 208, 224, 256)
)

TILE_COPIES: Final = tuple(tile_copy(rows, 128, is_load=is_load) for rows in (64, 128, 256) for is_load in (True, False))


def _waiting(name: str, spelling: str, section: str, requires: str, **more: object) -> Synchronisation:
    return Synchronisation(
        name=name,
        spelling=spelling,
        scope="lane",
        operands=(),
        meaning=None,
        requires=(requires,),
        sources=(Source(manual=PTX, section=section),),
        **more,  # type: ignore[arg-type]
    )


SYNCHRONISATION: Final = (
    *(
        _waiting(row.name, row.spelling, row.section, *row.requires, mechanism="in-order groups", model=InOrderGroups)
        for row in nvidia_rows.WAITS
    ),
    _waiting(
        "cp.async.bulk.wait_group",
        "cp.async.bulk.wait_group{read} {count};",
        "cp.async.bulk.wait_group",
        "sm_90",
        mechanism="in-order groups",
        model=InOrderGroups,
    ),
    _waiting(
        "mbarrier.init",
        "mbarrier.init.shared.b64 [{barrier}], {arrivals};",
        "mbarrier.init",
        "sm_80",
        mechanism="transaction barrier",
        model=TransactionBarrier,
        limit=(1 << 20) - 1,
    ),
    _waiting(
        "mbarrier.arrive.expect_tx",
        "mbarrier.arrive.expect_tx.shared.b64 _, [{barrier}], {bytes};",
        "mbarrier.arrive; expect-tx operation",
        "sm_90",
        mechanism="transaction barrier",
        model=TransactionBarrier,
        counts_bytes=True,
        limit=(1 << 20) - 1,
    ),
    _waiting(
        "mbarrier.try_wait.parity",
        "mbarrier.try_wait.parity.shared.b64 {done}, [{barrier}], {parity};",
        "mbarrier.test_wait, mbarrier.try_wait",
        "sm_90",
        mechanism="transaction barrier",
        model=TransactionBarrier,
    ),
    _waiting("wgmma.fence", "wgmma.fence.sync.aligned;", "wgmma.fence", "sm_90a", mechanism="fence"),
    _waiting(
        "wgmma.commit_group",
        "wgmma.commit_group.sync.aligned;",
        "wgmma.commit_group",
        "sm_90a",
        mechanism="in-order groups",
        model=InOrderGroups,
    ),
    _waiting(
        "wgmma.wait_group",
        "wgmma.wait_group.sync.aligned {count};",
        "wgmma.wait_group",
        "sm_90a",
        mechanism="in-order groups",
        model=InOrderGroups,
        limit=7,
    ),
    _waiting("fence.proxy.async", "fence.proxy.async.shared::cta;", "membar, fence", "sm_90", mechanism="fence"),
    _waiting("bar.sync", "bar.sync {number}, {threads};", "bar, barrier", "sm_70", mechanism="barrier", model=Rendezvous, limit=15),
)


def _approximation(name: str, function: str, meaning: object, error: float, section: str, *, keeps: bool, requires: str) -> Function:
    return Function(
        name=name,
        spelling=name + " {result}, {x};",
        scope="lane",
        operands=(
            Operand(name="x", types=("float32",), space="register", layout=vector("element", 1)),
            Operand(name="result", types=("float32",), space="register", layout=vector("element", 1), is_result=True),
        ),
        meaning=meaning,  # type: ignore[arg-type]
        function=function,
        error=error,
        error_unit="relative",
        keeps_subnormals=keeps,
        requires=(requires,),
        sources=(Source(manual=PTX, section=section),),
    )


FUNCTIONS: Final = (
    _approximation(
        "ex2.approx.ftz.f32", "exp2", meanings.power_of_two, 2.0**-22, "Floating Point Instructions: ex2", keeps=False, requires="sm_20"
    ),
    _approximation(
        "rsqrt.approx.ftz.f32",
        "rsqrt",
        meanings.reciprocal_root,
        2.0**-22.9,
        "Floating Point Instructions: rsqrt",
        keeps=False,
        requires="sm_20",
    ),
    _approximation(
        "tanh.approx.f32", "tanh", meanings.hyperbolic_tangent, 2.0**-11, "Floating Point Instructions: tanh", keeps=True, requires="sm_75"
    ),
)

INTRINSICS: Final[tuple[Intrinsic, ...]] = (
    *WARP_PRODUCTS,
    *WARPGROUP_PRODUCTS,
    *MATRIX_MOVES,
    *(_words(size) for size in (4, 8, 16)),
    *TILE_COPIES,
    *SYNCHRONISATION,
    *FUNCTIONS,
)
