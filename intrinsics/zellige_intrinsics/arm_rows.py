"""Products of Arm processors (AArch64, Advanced SIMD) as rows: multiply-adds, dot products, small matrix tiles.

Facts: Arm Architecture Reference Manual for A-profile (DDI 0487), "A64 Advanced SIMD and floating-point instructions". The spelling is
LLVM's; ``requires`` has LLVM's feature names.
"""

from __future__ import annotations

from typing import Final

from zellige_intrinsics.rows import CopyRow, Form, ProductRow, WaitRow

SIGNED: Final = ("int8", "int8", "int32")
UNSIGNED: Final = ("uint8", "uint8", "int32")  # the sum's bits are those of an unsigned one
BRAIN: Final = ("bfloat16", "bfloat16", "float32")


def _row(
    name: str,
    spelling: str,
    shape: tuple[int, int, int],
    types: tuple[str, str, str],
    requires: str,
    section: str,
    form: Form = "broadcast",
) -> ProductRow:
    return ProductRow(
        name=name, spelling=spelling, shape=shape, types=(types,), requires=(requires,), section=section, form=form,
        is_exact=types[2] == "int32", keeps_subnormals=form == "tile" or types != BRAIN,
    )  # fmt: skip


def _same(name: str) -> tuple[str, str, str]:
    return (name, name, name)


PRODUCTS: Final = (
    _row("fmla v.4s", "llvm.fma.v4f32", (1, 4, 1), _same("float32"), "neon", "FMLA (by element)"),
    _row("fmla v.2d", "llvm.fma.v2f64", (1, 2, 1), _same("float64"), "neon", "FMLA (by element)"),
    _row("fmla v.8h", "llvm.fma.v8f16", (1, 8, 1), _same("float16"), "fullfp16", "FMLA (by element)"),
    _row("sdot v.4s", "llvm.aarch64.neon.sdot.v4i32.v16i8", (1, 4, 4), SIGNED, "dotprod", "SDOT (by element)"),
    _row("udot v.4s", "llvm.aarch64.neon.udot.v4i32.v16i8", (1, 4, 4), UNSIGNED, "dotprod", "UDOT (by element)"),
    _row("bfdot v.4s", "llvm.aarch64.neon.bfdot.v4f32.v8bf16", (1, 4, 2), BRAIN, "bf16", "BFDOT (by element)"),
    _row("bfmmla v.4s", "llvm.aarch64.neon.bfmmla", (2, 2, 4), BRAIN, "bf16", "BFMMLA", "tile"),
    _row("smmla v.4s", "llvm.aarch64.neon.smmla.v4i32.v16i8", (2, 2, 8), SIGNED, "i8mm", "SMMLA (vector)", "tile"),
    _row("ummla v.4s", "llvm.aarch64.neon.ummla.v4i32.v16i8", (2, 2, 8), UNSIGNED, "i8mm", "UMMLA (vector)", "tile"),
)

PREFETCH: Final = CopyRow(name="prfm pldl2keep", source="global", destination="cache", bytes_each=64, requires=())
"""Asks for a line ahead of its use, into the second level of the cache."""

COPIES: Final[tuple[CopyRow, ...]] = (PREFETCH,)
"""Copies that a planner chooses among: vector moves are the code generator's."""

WAITS: Final[tuple[WaitRow, ...]] = ()
