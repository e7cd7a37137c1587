"""Instructions of Arm processors (AArch64, Advanced SIMD): products, dot products, small matrix tiles, estimates.

Facts: Arm Architecture Reference Manual for A-profile (DDI 0487), "A64 Advanced SIMD and floating-point instructions". The spelling is
LLVM's; ``requires`` has LLVM's feature names.
"""

from __future__ import annotations

from typing import Final

from zellige_intrinsics import meanings
from zellige_intrinsics.cpu_forms import broadcast_product, tile_product, vector_function
from zellige_intrinsics.specification import Intrinsic, Source

MANUAL: Final = "Arm Architecture Reference Manual for A-profile architecture, DDI 0487"


def _source(section: str) -> Source:
    return Source(manual=MANUAL, section=section)


def _same(name: str) -> tuple[tuple[str, str, str], ...]:
    return ((name, name, name),)


SIGNED: Final = (("int8", "int8", "int32"),)
UNSIGNED: Final = (("uint8", "uint8", "int32"),)  # the sum's bits are those of an unsigned one
BRAIN: Final = (("bfloat16", "bfloat16", "float32"),)

PRODUCTS: Final = (
    broadcast_product("fmla v.4s", "llvm.fma.v4f32", 4, _same("float32"), ("neon",), _source("FMLA (by element)")),
    broadcast_product("fmla v.2d", "llvm.fma.v2f64", 2, _same("float64"), ("neon",), _source("FMLA (by element)")),
    broadcast_product("fmla v.8h", "llvm.fma.v8f16", 8, _same("float16"), ("fullfp16",), _source("FMLA (by element)")),
    broadcast_product(
        "sdot v.4s", "llvm.aarch64.neon.sdot.v4i32.v16i8", 4, SIGNED, ("dotprod",), _source("SDOT (by element)"), group=4, is_exact=True
    ),
    broadcast_product(
        "udot v.4s", "llvm.aarch64.neon.udot.v4i32.v16i8", 4, UNSIGNED, ("dotprod",), _source("UDOT (by element)"), group=4, is_exact=True
    ),
    broadcast_product(
        "bfdot v.4s",
        "llvm.aarch64.neon.bfdot.v4f32.v8bf16",
        4,
        BRAIN,
        ("bf16",),
        _source("BFDOT (by element)"),
        group=2,
        keeps_subnormals=False,
    ),
    tile_product("bfmmla v.4s", "llvm.aarch64.neon.bfmmla", 4, BRAIN, ("bf16",), _source("BFMMLA"), is_exact=False),
    tile_product("smmla v.4s", "llvm.aarch64.neon.smmla.v4i32.v16i8", 8, SIGNED, ("i8mm",), _source("SMMLA (vector)"), is_exact=True),
    tile_product("ummla v.4s", "llvm.aarch64.neon.ummla.v4i32.v16i8", 8, UNSIGNED, ("i8mm",), _source("UMMLA (vector)"), is_exact=True),
)

FUNCTIONS: Final = (
    vector_function(
        "frecpe v.4s", "llvm.aarch64.neon.frecpe.v4f32", "reciprocal", 4, meanings.reciprocal, 2.0**-8, ("neon",), _source("FRECPE")
    ),
    vector_function(
        "frsqrte v.4s", "llvm.aarch64.neon.frsqrte.v4f32", "rsqrt", 4, meanings.reciprocal_root, 2.0**-8, ("neon",), _source("FRSQRTE")
    ),
)

INTRINSICS: Final[tuple[Intrinsic, ...]] = (*PRODUCTS, *FUNCTIONS)
