"""Instructions of Arm processors (AArch64, Advanced SIMD): products, dot products, small matrix tiles, estimates.

Facts: Arm Architecture Reference Manual for A-profile (DDI 0487), "A64 Advanced SIMD and floating-point instructions". The spelling is
LLVM's; ``requires`` has LLVM's feature names.
"""

from __future__ import annotations

from typing import Final

from zellige_intrinsics import arm_rows, meanings
from zellige_intrinsics.cpu_forms import line_prefetch, product_of, vector_function
from zellige_intrinsics.specification import Intrinsic, Source

MANUAL: Final = "Arm Architecture Reference Manual for A-profile architecture, DDI 0487"


def _source(section: str) -> Source:
    return Source(manual=MANUAL, section=section)


PRODUCTS: Final = tuple(product_of(row, MANUAL) for row in arm_rows.PRODUCTS)

FUNCTIONS: Final = (
    vector_function(
        "frecpe v.4s", "llvm.aarch64.neon.frecpe.v4f32", "reciprocal", 4, meanings.reciprocal, 2.0**-8, ("neon",), _source("FRECPE")
    ),
    vector_function(
        "frsqrte v.4s", "llvm.aarch64.neon.frsqrte.v4f32", "rsqrt", 4, meanings.reciprocal_root, 2.0**-8, ("neon",), _source("FRSQRTE")
    ),
)

COPIES: Final = (line_prefetch(arm_rows.PREFETCH, _source("PRFM")),)

INTRINSICS: Final[tuple[Intrinsic, ...]] = (*PRODUCTS, *FUNCTIONS, *COPIES)
