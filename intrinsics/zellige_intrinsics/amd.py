"""AMD's instructions: matrix products of waves of 64 (MFMA) and 32 (WMMA), copies straight into local memory, wait counts.

Facts: AMD Instinct MI300 and RDNA4 instruction set architecture documents, AMD matrix instruction calculator, AMD matrix core articles.
``requires`` has architecture names; an entry lists one, or a word that several architectures share ("mfma_f16").
"""

from __future__ import annotations

from typing import Final

from zellige.layouts import Layout, mixed, reordered
from zellige_intrinsics import meanings
from zellige_intrinsics.fragments import dense, pieces_by_pointer, vector
from zellige_intrinsics.specification import Completion, Copy, Function, Intrinsic, Operand, Product, Source, Synchronisation
from zellige_intrinsics.waiting import Rendezvous, WaitCounter

CDNA: Final = "AMD Instinct MI300 Instruction Set Architecture"
RDNA4: Final = "AMD RDNA4 Instruction Set Architecture"
CALCULATOR: Final = Source(manual="AMD matrix instruction calculator", section="register layout", evidence="by enumeration")
M, N, K = "m", "n", "k"

LOADS = Completion(waits=("s_waitcnt vmcnt",), order="in order")


def side(name: str, extent: int, lanes: int, each: int) -> Layout:
    """A or B of MFMA: lane l has row (or column) l % extent and ``each`` neighbours of k from each * (l / extent)."""
    groups = lanes // extent
    digits = {"register": [(each, {K: 1})], "lane": [(extent, {name: 1}), (groups, {K: each})]}
    return mixed(digits, {name: extent, K: each * groups})


def result(extent: int, lanes: int) -> Layout:
    """C and D of MFMA: column l % extent; rows in fours, the fours of lane groups side by side, those of registers further down."""
    groups = lanes // extent
    digits = {
        "register": [(4, {M: 1}), (extent // (4 * groups), {M: 4 * groups})],
        "lane": [(extent, {N: 1}), (groups, {M: 4})],
    }
    return mixed(digits, {M: extent, N: extent})


def _mfma(name: str, extent: int, each: int, types: tuple[str, ...], requires: str, *, out: str = "float32") -> Product:
    return _product(name, (side(M, extent, 64, each), side(N, extent, 64, each), result(extent, 64)), types, requires, 64, out, CDNA)


def _product(
    name: str,
    fragments: tuple[Layout, Layout, Layout],
    types: tuple[str, ...],
    requires: str,
    lanes: int,
    out: str,
    manual: str,
) -> Product:
    a, b, d = fragments
    results = (out,) * len(types)
    return Product(
        name=name,
        spelling="__builtin_amdgcn_{variant}({a}, {b}, {c})",
        scope="warp",
        lanes=lanes,
        m=d.output_sizes[M],
        n=d.output_sizes[N],
        k=a.output_sizes[K],
        operands=(
            Operand(name="a", types=types, space="register", layout=a),
            Operand(name="b", types=types, space="register", layout=_transposed(b)),
            Operand(name="c", types=results, space="register", layout=d),
            Operand(name="d", types=results, space="register", layout=d, is_result=True),
        ),
        meaning=meanings.multiply_add,
        requires=(requires,),
        sources=(Source(manual=manual, section="Matrix Arithmetic Instructions"), CALCULATOR),
    )


def _transposed(layout: Layout) -> Layout:
    """B with its indices in the order k, n."""
    return reordered(layout, list(layout.input_sizes), [K, N])


def half_side(name: str) -> Layout:
    """A or B of WMMA on gfx12: lane l has row l % 16, of k four neighbours from 4 * (l / 16), and four more eight further."""
    digits = {"register": [(4, {K: 1}), (2, {K: 8})], "lane": [(16, {name: 1}), (2, {K: 4})]}
    return mixed(digits, {name: 16, K: 16})


def half_result() -> Layout:
    """C and D of WMMA on gfx12: column l % 16, rows 8 * (l / 16) and on."""
    return mixed({"register": [(8, {M: 1})], "lane": [(16, {N: 1}), (2, {M: 8})]}, {M: 16, N: 16})


def copied_side(name: str) -> Layout:
    """A or B of WMMA on gfx11: lane l has the whole of row l % 16; the upper half of the lanes holds the same."""
    return mixed({"register": [(16, {K: 1})], "lane": [(16, {name: 1}), (2, {})]}, {name: 16, K: 16})


def alternating_result() -> Layout:
    """C and D of WMMA on gfx11: column l % 16, rows 2 r + l / 16."""
    return mixed({"register": [(8, {M: 2})], "lane": [(16, {N: 1}), (2, {M: 1})]}, {M: 16, N: 16})


PRODUCTS: Final = (
    _mfma("v_mfma_f32_16x16x16_f16", 16, 4, ("float16", "bfloat16"), "mfma_16bit"),
    _mfma("v_mfma_f32_32x32x8_f16", 32, 4, ("float16", "bfloat16"), "mfma_16bit"),
    _mfma("v_mfma_f32_16x16x32_fp8", 16, 8, ("float8_e4m3fnuz", "float8_e5m2fnuz"), "gfx942"),
    _mfma("v_mfma_f32_32x32x16_fp8", 32, 8, ("float8_e4m3fnuz", "float8_e5m2fnuz"), "gfx942"),
    _mfma("v_mfma_i32_16x16x32_i8", 16, 8, ("int8",), "gfx942", out="int32"),
    _mfma("v_mfma_i32_32x32x16_i8", 32, 8, ("int8",), "gfx942", out="int32"),
    _mfma("v_mfma_f32_16x16x32_f16", 16, 8, ("float16", "bfloat16"), "gfx950"),
    _mfma("v_mfma_f32_32x32x16_f16", 32, 8, ("float16", "bfloat16"), "gfx950"),
    _product(
        "v_wmma_f32_16x16x16_f16 (gfx12)",
        (half_side(M), half_side(N), half_result()),
        ("float16", "bfloat16"),
        "gfx12",
        32,
        "float32",
        RDNA4,
    ),
    _product(
        "v_wmma_f32_16x16x16_f16 (gfx11)",
        (copied_side(M), copied_side(N), alternating_result()),
        ("float16", "bfloat16"),
        "gfx11",
        32,
        "float32",
        "AMD RDNA3 Instruction Set Architecture",
    ),
)


def _local_copy(size: int, requires: str) -> Copy:
    """global_load_lds: each lane's bytes land behind those of the lane before, from one address in local memory."""
    count = 64 * size
    return Copy(
        name=f"global_load_lds_b{8 * size}",
        spelling="__builtin_amdgcn_global_load_lds({source}, {destination}, " + f"{size}, {{offset}}, 0);",
        scope="warp",
        lanes=64,
        operands=(
            Operand(
                name="source",
                types=("uint8",),
                space="global",
                holder="pointer",
                layout=pieces_by_pointer("byte", 64, size),
                alignment=4,
            ),
            Operand(
                name="destination",
                types=("uint8",),
                space="shared",
                holder="memory",
                layout=dense("byte", count),
                alignment=4,
                is_result=True,
            ),
        ),
        meaning=meanings.copy,
        bytes_each=size,
        requires=(requires,),
        completion=LOADS,
        sources=(Source(manual=CDNA, section="Memory Buffer and Global Load to LDS"),),
        notes="the destination cannot be swizzled by lane: exchange the sources' addresses instead",
    )


def _waiting(name: str, spelling: str, section: str, manual: str, requires: str, limit: int) -> Synchronisation:
    return Synchronisation(
        name=name,
        spelling=spelling,
        scope="warp",
        operands=(),
        meaning=None,
        mechanism="wait counter",
        model=WaitCounter,
        limit=limit,
        requires=(requires,),
        sources=(Source(manual=manual, section=section),),
    )


SYNCHRONISATION: Final = (
    _waiting("s_waitcnt vmcnt", "s_waitcnt vmcnt({count})", "Manually Inserted Wait States: S_WAITCNT", CDNA, "gfx9", 63),
    _waiting("s_waitcnt lgkmcnt", "s_waitcnt lgkmcnt({count})", "Manually Inserted Wait States: S_WAITCNT", CDNA, "gfx9", 15),
    _waiting("s_wait_loadcnt", "s_wait_loadcnt {count}", "Data Dependency Resolution", RDNA4, "gfx12", 63),
    Synchronisation(
        name="s_barrier",
        spelling="__builtin_amdgcn_s_barrier();",
        scope="block",
        operands=(),
        meaning=None,
        mechanism="barrier",
        model=Rendezvous,
        sources=(Source(manual=CDNA, section="Program Flow Control: S_BARRIER"),),
    ),
)


def _function(name: str, function: str, meaning: object, section: str) -> Function:
    return Function(
        name=name,
        spelling=f"__builtin_amdgcn_{name.removeprefix('v_').removesuffix('_f32')}f({{x}})",
        scope="lane",
        operands=(
            Operand(name="x", types=("float32",), space="register", layout=vector("element", 1)),
            Operand(name="result", types=("float32",), space="register", layout=vector("element", 1), is_result=True),
        ),
        meaning=meaning,  # type: ignore[arg-type]
        function=function,
        error=1.0,
        error_unit="ulp",
        keeps_subnormals=False,
        sources=(Source(manual=CDNA, section=section),),
    )


FUNCTIONS: Final = (
    _function("v_exp_f32", "exp2", meanings.power_of_two, "VOP1: V_EXP_F32"),
    _function("v_rcp_f32", "reciprocal", meanings.reciprocal, "VOP1: V_RCP_F32"),
    _function("v_rsq_f32", "rsqrt", meanings.reciprocal_root, "VOP1: V_RSQ_F32"),
)

INTRINSICS: Final[tuple[Intrinsic, ...]] = (
    *PRODUCTS,
    _local_copy(4, "gfx9"),
    _local_copy(16, "gfx950"),
    *SYNCHRONISATION,
    *FUNCTIONS,
)
