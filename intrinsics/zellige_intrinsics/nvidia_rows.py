"""Products of one warp of NVIDIA's devices as rows, and the copies whose sizes and counts a planner chooses.

Facts: NVIDIA, Parallel Thread Execution ISA, "Matrix Fragments" of each shape. An architecture among ``requires`` means that one or newer.
The spelling is the instruction's stem; the code generator adds element types and registers.
"""

from __future__ import annotations

from typing import Final

from zellige_intrinsics.rows import CopyRow, ProductRow, WaitRow

EXECUTED: Final = "executed on an H200 and compared (tests/intrinsics/test_intrinsics_on_a_device.py)"

HALF: Final = ("float16", "float16", "float32")
BRAIN: Final = ("bfloat16", "bfloat16", "float32")
HALF_SUMS: Final = ("float16", "float16", "float16")
TENSOR: Final = ("tfloat32", "tfloat32", "float32")
DOUBLE: Final = ("float64", "float64", "float64")
BYTES: Final = tuple((a, b, "int32") for a, b in (("int8", "int8"), ("uint8", "uint8"), ("int8", "uint8"), ("uint8", "int8")))
NIBBLES: Final = tuple((a, b, "int32") for a, b in (("int4", "int4"), ("uint4", "uint4"), ("int4", "uint4"), ("uint4", "int4")))
NIBBLE_UNITS: Final = "units of 4-bit integers"
"""What an architecture must have beside its age: those from sm_90 on have none, and execute such products by other instructions."""
SMALL: Final = ("float8_e4m3fn", "float8_e5m2")
EIGHTS: Final = tuple((a, b, "float32") for a, b in ((SMALL[0], SMALL[0]), (SMALL[1], SMALL[1]), SMALL, SMALL[::-1]))


def _row(
    shape: tuple[int, int, int],
    types: tuple[tuple[str, str, str], ...],
    requires: str,
    section: str,
    ending: str = "",
    *,
    accumulator_bits: int = 0,
    evidence: str = EXECUTED,
    needs: tuple[str, ...] = (),
) -> ProductRow:
    m, n, k = shape
    name = f"mma.sync.aligned.m{m}n{n}k{k}.row.col{ending}"
    return ProductRow(
        name=name, spelling=name + "{variant} {{{d}}}, {{{a}}}, {{{b}}}, {{{c}}};", shape=shape, types=types, requires=(requires, *needs),
        section=section, form="fragment", evidence=evidence, accumulator_bits=accumulator_bits,
    )  # fmt: skip


PRODUCTS: Final = (
    _row((16, 8, 16), (HALF, BRAIN, HALF_SUMS), "sm_80", "Matrix Fragments for mma.m16n8k16 with floating point type"),
    _row((16, 8, 8), (TENSOR,), "sm_80", "Matrix Fragments for mma.m16n8k8", ".f32.tf32.tf32.f32"),
    _row((16, 8, 32), BYTES, "sm_80", "Matrix Fragments for mma.m16n8k32", ".s32"),
    _row((16, 8, 64), NIBBLES, "sm_80", "Matrix Fragments for mma.m16n8k64", ".s32", evidence="", needs=(NIBBLE_UNITS,)),
    _row((16, 8, 32), EIGHTS, "sm_89", "Matrix Fragments for mma.m16n8k32", ".f32.f8", accumulator_bits=14),
    _row((8, 8, 4), (DOUBLE,), "sm_80", "Matrix Fragments for mma.m8n8k4 with .f64 floating point type", ".f64.f64.f64.f64"),
    _row((16, 8, 8), (HALF,), "sm_75", "Matrix Fragments for mma.m16n8k8", ".f32.f16.f16.f32"),
    _row((16, 8, 8), (BRAIN,), "sm_80", "Matrix Fragments for mma.m16n8k8", ".f32.bf16.bf16.f32"),
    _row((16, 8, 4), (TENSOR,), "sm_80", "Matrix Fragments for mma.m16n8k4 with .tf32", ".f32.tf32.tf32.f32"),
    _row((16, 8, 16), BYTES, "sm_80", "Matrix Fragments for mma.m16n8k16 with .u8/.s8 integer type", ".s32"),
)


def word_copy(size: int) -> str:
    """The name of an asynchronous copy of ``size`` bytes a lane: those of 16 bytes may pass the first level of the cache by."""
    return f"cp.async.{'cg' if size == 16 else 'ca'}.shared.global.{size}"


def matrix_load(count: int, *, is_transposed: bool) -> str:
    """The name of a load of ``count`` matrices of 8 x 8 elements of 16 bits."""
    return f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if is_transposed else ''}.shared.b16"


COPIES: Final = (
    *(
        CopyRow(name=word_copy(size), source="global", destination="shared", bytes_each=size, requires=("sm_80",), is_asynchronous=True)
        for size in (4, 8, 16)
    ),
    *(
        CopyRow(
            name=matrix_load(count, is_transposed=flag),
            source="shared",
            destination="register",
            bytes_each=4 * count,
            requires=("sm_75",),
        )
        for count in (1, 2, 4)
        for flag in (False, True)
    ),
)


WAITS: Final = (
    WaitRow(name="cp.async.commit_group", spelling="cp.async.commit_group;", section="cp.async.commit_group", requires=("sm_80",)),
    WaitRow(name="cp.async.wait_group", spelling="cp.async.wait_group {count};", section="cp.async.wait_group", requires=("sm_80",)),
)
"""What waits for copies of words: groups of them end in order."""
