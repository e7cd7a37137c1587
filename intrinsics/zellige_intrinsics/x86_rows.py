"""Products of x86-64 processors as rows: fused multiply-adds, dot products of vectors, products of matrix tiles.

Facts: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, and Instruction Set Extensions Programming Reference. The
spelling is LLVM's; ``requires`` has LLVM's feature names. A width is that of the accumulators in one register.
"""

from __future__ import annotations

from typing import Final

from zellige_intrinsics.rows import CopyRow, ProductRow, WaitRow

EXECUTED: Final = "executed on an AVX-512 processor and compared (tests/intrinsics/test_intrinsics_on_this_processor.py)"
EXECUTED_AS_UNIT: Final = "executed as a unit on an AVX-512 processor and compared (zellige backends doctor cpu --probe)"
EXECUTED_TILES: Final = (
    "executed on an Emerald Rapids server and compared, sums of bfloat16 bit by bit (tests/intrinsics/test_intrinsics_on_this_processor.py)"
)
EXECUTED_NARROW: Final = "executed on an AVX2 processor and compared (tests/intrinsics/test_intrinsics_on_this_processor.py)"

SINGLE: Final = (("float32", "float32", "float32"),)
DOUBLE: Final = (("float64", "float64", "float64"),)
BRAIN: Final = (("bfloat16", "bfloat16", "float32"),)
BYTES: Final = (("uint8", "int8", "int32"),)
SIGNED: Final = (("int8", "int8", "int32"),)
WORDS: Final = (("int16", "int16", "int32"),)


def _fused(name: str, spelling: str, width: int, requires: tuple[str, ...]) -> ProductRow:
    types = SINGLE if "ps" in name else DOUBLE
    return ProductRow(
        name=name, spelling=spelling, shape=(1, width, 1), types=types, requires=requires, section=name.split()[0].upper(),
        evidence=EXECUTED_NARROW if "xmm" in name else EXECUTED,
    )  # fmt: skip


def _pairs(name: str, spelling: str, width: int, requires: tuple[str, ...]) -> ProductRow:
    """Products of 16-bit integers and the sum of each two; the sum with the accumulator is an instruction of its own."""
    evidence = EXECUTED_AS_UNIT if "zmm" in name else EXECUTED_NARROW
    return ProductRow(
        name=name, spelling=spelling, shape=(1, width, 2), types=WORDS, requires=requires, section="PMADDWD", evidence=evidence, adds=True,
        is_exact=True,
    )  # fmt: skip


def _brain(name: str, spelling: str, width: int, requires: tuple[str, ...]) -> ProductRow:
    return ProductRow(
        name=name, spelling=spelling, shape=(1, width, 2), types=BRAIN, requires=requires, section="VDPBF16PS", evidence=EXECUTED,
        keeps_subnormals=False,
    )  # fmt: skip


def _bytes(name: str, spelling: str, width: int, requires: tuple[str, ...], *, is_signed: bool = False) -> ProductRow:
    return ProductRow(
        name=name, spelling=spelling, shape=(1, width, 4), types=SIGNED if is_signed else BYTES, requires=requires,
        section=name.split()[0].upper(), evidence="" if is_signed else EXECUTED, is_exact=True,
    )  # fmt: skip


ODD_AND_EVEN: Final = (
    "Products at even and at odd places of k are summed apart, one after the other from 0; the two sums are added, then c. Each step is "
    "one rounding to nearest, without subnormal operands or results. So a sum of n products is off by at most n / 2 + 1 roundings of the "
    "sum of magnitudes, of n > 32 by 17 and one for each 32."
)
"""How a product of bfloat16 tiles adds up (TDPBF16PS, operation), and the bound that follows."""


def _tiles(name: str, types: tuple[str, str, str], feature: str) -> ProductRow:
    """Registers of 16 rows of 64 bytes; a group of k is as wide as an element of c."""
    is_exact = types[2] == "int32"
    return ProductRow(
        name=f"{name} tmm", spelling=f"llvm.x86.{name}", shape=(16, 16, 64 if is_exact else 32), types=(types,), form="matrix",
        requires=("amx-tile", feature), section=name.upper(), evidence=EXECUTED_TILES, is_exact=is_exact, keeps_subnormals=is_exact,
        notes="" if is_exact else ODD_AND_EVEN,
    )  # fmt: skip


PRODUCTS: Final = (
    _tiles("tdpbf16ps", BRAIN[0], "amx-bf16"),
    _tiles("tdpbssd", SIGNED[0], "amx-int8"),
    _tiles("tdpbusd", BYTES[0], "amx-int8"),
    _tiles("tdpbsud", ("int8", "uint8", "int32"), "amx-int8"),
    _tiles("tdpbuud", ("uint8", "uint8", "int32"), "amx-int8"),
    _fused("vfmadd231ps zmm", "llvm.fma.v16f32", 16, ("avx512f",)),
    _fused("vfmadd231pd zmm", "llvm.fma.v8f64", 8, ("avx512f",)),
    _fused("vfmadd231ps ymm", "llvm.fma.v8f32", 8, ("avx2", "fma")),
    _fused("vfmadd231pd ymm", "llvm.fma.v4f64", 4, ("avx2", "fma")),
    _fused("vfmadd231ps xmm", "llvm.fma.v4f32", 4, ("fma",)),
    _fused("vfmadd231pd xmm", "llvm.fma.v2f64", 2, ("fma",)),
    _brain("vdpbf16ps zmm", "llvm.x86.avx512bf16.dpbf16ps.512", 16, ("avx512bf16",)),
    _brain("vdpbf16ps ymm", "llvm.x86.avx512bf16.dpbf16ps.256", 8, ("avx512bf16", "avx512vl")),
    _bytes("vpdpbusd zmm", "llvm.x86.avx512.vpdpbusd.512", 16, ("avx512vnni",)),
    _bytes("vpdpbusd ymm (EVEX)", "llvm.x86.avx512.vpdpbusd.256", 8, ("avx512vnni", "avx512vl")),
    _bytes("vpdpbusd ymm (VEX)", "llvm.x86.avx512.vpdpbusd.256", 8, ("avxvnni",)),
    _bytes("vpdpbssd ymm", "llvm.x86.avx2.vpdpbssd.256", 8, ("avxvnniint8",), is_signed=True),
    _pairs("vpmaddwd zmm", "llvm.x86.avx512.pmaddw.d.512", 16, ("avx512bw",)),
    _pairs("vpmaddwd ymm", "llvm.x86.avx2.pmadd.wd", 8, ("avx2",)),
    _pairs("pmaddwd xmm", "llvm.x86.sse2.pmadd.wd", 4, ("sse2",)),
)

PREFETCH: Final = CopyRow(name="prefetcht1", source="global", destination="cache", bytes_each=64, requires=("sse",))
"""Asks for a line ahead of its use, into the second level of the cache and above."""

COPIES: Final = (PREFETCH, *(
    CopyRow(name=name, source="register", destination="global", bytes_each=size, requires=(feature,), is_asynchronous=True)
    for name, size, feature in (("vmovntps zmm", 64, "avx512f"), ("vmovntps ymm", 32, "avx"), ("movntps xmm", 16, "sse2"))
))  # fmt: skip
"""Stores past the caches, seen by others after a fence, and lines asked for ahead. Other moves are the code generator's."""

WAITS: Final[tuple[WaitRow, ...]] = ()
