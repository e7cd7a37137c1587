"""Instructions of x86-64 processors: AVX-512 and AVX2 products and dot products, products of AMX tiles, functions, stores past the caches.

Facts: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, and Instruction Set Extensions Programming Reference. The
spelling is LLVM's; ``requires`` has LLVM's feature names.
"""

from __future__ import annotations

from typing import Final

from zellige_intrinsics import meanings, x86_rows
from zellige_intrinsics.cpu_forms import line_prefetch, product_of, vector_function
from zellige_intrinsics.fragments import dense, vector
from zellige_intrinsics.specification import Completion, Copy, Intrinsic, Operand, Source, Synchronisation

SDM: Final = "Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2"


def _source(section: str) -> Source:
    return Source(manual=SDM, section=section)


PRODUCTS: Final = tuple(product_of(row, SDM) for row in x86_rows.PRODUCTS)

FUNCTIONS: Final = (
    vector_function(
        "vscalefps zmm",
        "llvm.x86.avx512.mask.scalef.ps.512",
        "scalef",
        16,
        meanings.scale_by_power,
        0.0,
        ("avx512f",),
        _source("VSCALEFPS"),
        others=("y",),
    ),
    vector_function(
        "vrcp14ps zmm",
        "llvm.x86.avx512.rcp14.ps.512",
        "reciprocal",
        16,
        meanings.reciprocal,
        2.0**-14,
        ("avx512f",),
        _source("VRCP14PS"),
    ),
    vector_function(
        "vrsqrt14ps zmm",
        "llvm.x86.avx512.rsqrt14.ps.512",
        "rsqrt",
        16,
        meanings.reciprocal_root,
        2.0**-14,
        ("avx512f",),
        _source("VRSQRT14PS"),
    ),
    vector_function(
        "vrsqrtps ymm",
        "llvm.x86.avx.rsqrt.ps.256",
        "rsqrt",
        8,
        meanings.reciprocal_root,
        1.5 * 2.0**-12,
        ("avx",),
        _source("VRSQRTPS"),
        keeps_subnormals=False,
    ),
)


def _move(name: str, spelling: str, width: int, requires: str, section: str, *, past_caches: bool) -> Copy:
    """A store of one vector register; past the caches it becomes visible to others only after a fence."""
    return Copy(
        name=name,
        spelling=spelling,
        scope="thread",
        operands=(
            Operand(name="source", types=("float32",), space="register", layout=vector("element", width)),
            Operand(
                name="destination",
                types=("float32",),
                space="global",
                holder="memory",
                layout=dense("element", width),
                alignment=4 * width if past_caches else 4,
                is_result=True,
            ),
        ),
        meaning=meanings.copy,
        bytes_each=4 * width,
        requires=(requires,),
        completion=Completion(waits=("sfence",), order="any") if past_caches else None,
        sources=(_source(section),),
    )


COPIES: Final = (
    line_prefetch(x86_rows.PREFETCH, _source("PREFETCHh")),
    _move("vmovups zmm", "store <16 x float> {source}, ptr {destination}, align 4", 16, "avx512f", "VMOVUPS", past_caches=False),
    _move(
        "vmovntps zmm",
        "store <16 x float> {source}, ptr {destination}, align 64, !nontemporal",
        16,
        "avx512f",
        "MOVNTPS",
        past_caches=True,
    ),
    _move("vmovups ymm", "store <8 x float> {source}, ptr {destination}, align 4", 8, "avx", "VMOVUPS", past_caches=False),
    _move("vmovntps ymm", "store <8 x float> {source}, ptr {destination}, align 32, !nontemporal", 8, "avx", "MOVNTPS", past_caches=True),
    _move("movntps xmm", "store <4 x float> {source}, ptr {destination}, align 16, !nontemporal", 4, "sse2", "MOVNTPS", past_caches=True),
)

FENCES: Final = (
    Synchronisation(
        name="sfence",
        spelling="llvm.x86.sse.sfence",
        scope="thread",
        operands=(),
        meaning=None,
        mechanism="fence",
        sources=(_source("SFENCE"),),
    ),
)

INTRINSICS: Final[tuple[Intrinsic, ...]] = (*PRODUCTS, *FUNCTIONS, *COPIES, *FENCES)
