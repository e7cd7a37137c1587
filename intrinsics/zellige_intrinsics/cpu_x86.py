"""Instructions of x86-64 processors: AVX-512 and AVX2 products and dot products, functions, stores past the caches.

Facts: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, and Instruction Set Extensions Programming Reference. The
spelling is LLVM's; ``requires`` has LLVM's feature names.
"""

from __future__ import annotations

from typing import Final

from zellige_intrinsics import meanings
from zellige_intrinsics.cpu_forms import broadcast_product, vector_function
from zellige_intrinsics.fragments import dense, vector
from zellige_intrinsics.specification import Completion, Copy, Intrinsic, Operand, Source, Synchronisation

SDM: Final = "Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2"

SINGLE: Final = (("float32", "float32", "float32"),)
DOUBLE: Final = (("float64", "float64", "float64"),)
BRAIN: Final = (("bfloat16", "bfloat16", "float32"),)
BYTES: Final = (("uint8", "int8", "int32"),)


EXECUTED: Final = "executed on an AVX-512 processor and compared (tests/intrinsics/test_intrinsics_on_this_processor.py)"


def _source(section: str, evidence: str = "") -> Source:
    return Source(manual=SDM, section=section, evidence=evidence)


PRODUCTS: Final = (
    broadcast_product("vfmadd231ps zmm", "llvm.fma.v16f32", 16, SINGLE, ("avx512f",), _source("VFMADD231PS", EXECUTED)),
    broadcast_product("vfmadd231pd zmm", "llvm.fma.v8f64", 8, DOUBLE, ("avx512f",), _source("VFMADD231PD", EXECUTED)),
    broadcast_product("vfmadd231ps ymm", "llvm.fma.v8f32", 8, SINGLE, ("avx2", "fma"), _source("VFMADD231PS", EXECUTED)),
    broadcast_product("vfmadd231pd ymm", "llvm.fma.v4f64", 4, DOUBLE, ("avx2", "fma"), _source("VFMADD231PD", EXECUTED)),
    broadcast_product(
        "vdpbf16ps zmm",
        "llvm.x86.avx512bf16.dpbf16ps.512",
        16,
        BRAIN,
        ("avx512bf16",),
        _source("VDPBF16PS", EXECUTED),
        group=2,
        keeps_subnormals=False,
    ),
    broadcast_product(
        "vdpbf16ps ymm",
        "llvm.x86.avx512bf16.dpbf16ps.256",
        8,
        BRAIN,
        ("avx512bf16", "avx512vl"),
        _source("VDPBF16PS", EXECUTED),
        group=2,
        keeps_subnormals=False,
    ),
    broadcast_product(
        "vpdpbusd zmm", "llvm.x86.avx512.vpdpbusd.512", 16, BYTES, ("avx512vnni",), _source("VPDPBUSD", EXECUTED), group=4, is_exact=True
    ),
    broadcast_product(
        "vpdpbusd ymm (EVEX)",
        "llvm.x86.avx512.vpdpbusd.256",
        8,
        BYTES,
        ("avx512vnni", "avx512vl"),
        _source("VPDPBUSD", EXECUTED),
        group=4,
        is_exact=True,
    ),
    broadcast_product(
        "vpdpbusd ymm (VEX)", "llvm.x86.avx512.vpdpbusd.256", 8, BYTES, ("avxvnni",), _source("VPDPBUSD", EXECUTED), group=4, is_exact=True
    ),
)

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
