"""The products of a warp, and which lane's registers hold which element of their operands.

In: an architecture. Out: :class:`~zellige.simt.ir.ProductForm` values by the name of their unit. Source of the layouts: PTX ISA 8.8,
section 9.7.14.5 (matrix fragments for mma.m16n8k8, m16n8k16, m16n8k32 and m8n8k4); lane numbers there are ``groupID = lane / 4``
and ``threadID_in_group = lane % 4``.
"""

from __future__ import annotations

from zellige.dtypes import dtype as as_dtype
from zellige.simt.distribution import Digit, Distribution
from zellige.simt.ir import ProductForm
from zellige_cuda.architectures import Architecture

_PTX = {"float16": "f16", "bfloat16": "bf16", "tfloat32": "tf32", "int8": "s8", "uint8": "u8", "int4": "s4", "uint4": "u4",
        "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "float64": "f64", "float32": "f32", "int32": "s32"}  # fmt: skip


def _registers(*digits: tuple[int, int, int]) -> list[Digit]:
    """Digits (radix, dimension, stride) of the register number, the fastest first."""
    made, divisor = [], 1
    for radix, dimension, stride in digits:
        made.append(Digit(source="register", divisor=divisor, radix=radix, dimension=dimension, stride=stride))
        divisor *= radix
    return made


def _lanes(inner: int, inner_stride: int, outer: int) -> list[Digit]:
    """``lane % 4`` along ``inner``, ``lane / 4`` along ``outer``."""
    return [
        Digit(source="lane", divisor=1, radix=4, dimension=inner, stride=inner_stride),
        Digit(source="lane", divisor=4, radix=8, dimension=outer, stride=1),
    ]


def _distribution(rows: int, columns: int, registers: list[Digit], lanes: list[Digit]) -> Distribution:
    return Distribution(shape=(rows, columns), digits=tuple(d for d in (*registers, *lanes) if d.radix > 1))


def _form(a: str, b: str, c: str, k: int, unit: int) -> ProductForm:
    """m16n8: ``unit`` elements of k stand in one 32-bit register, and k is 4 x unit or 8 x unit."""
    halves = k // (4 * unit)
    a_layout = _distribution(16, k, _registers((unit, 1, 1), (2, 0, 8), (halves, 1, 4 * unit)), _lanes(1, unit, 0))
    b_layout = _distribution(k, 8, _registers((unit, 0, 1), (halves, 0, 4 * unit)), _lanes(0, unit, 1))
    c_layout = _distribution(16, 8, _registers((2, 1, 1), (2, 0, 8)), _lanes(1, 2, 0))
    saturated = ""
    name = f"mma.sync.aligned.m16n8k{k}.row.col{saturated}.{_PTX[c]}.{_PTX[a]}.{_PTX[b]}.{_PTX[c]}"
    return ProductForm(
        name=name, m=16, n=8, k=k, a=as_dtype(a), b=as_dtype(b), c=as_dtype(c), a_layout=a_layout, b_layout=b_layout, c_layout=c_layout,
        accumulates_in=as_dtype(c),
    )  # fmt: skip


def _double() -> ProductForm:
    """m8n8k4 of float64: one element of a and b a lane, two of c."""
    a_layout = _distribution(8, 4, [], _lanes(1, 1, 0))
    b_layout = _distribution(4, 8, [], _lanes(0, 1, 1))
    c_layout = _distribution(8, 8, _registers((2, 1, 1)), _lanes(1, 2, 0))
    t = as_dtype("float64")
    return ProductForm(
        name="mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", m=8, n=8, k=4, a=t, b=t, c=t, a_layout=a_layout, b_layout=b_layout,
        c_layout=c_layout, accumulates_in=t,
    )  # fmt: skip


def forms_of(arch: Architecture) -> tuple[ProductForm, ...]:
    """The products that an architecture has, the preferred of equal operands first."""
    number = arch.number
    found: list[ProductForm] = []
    if number >= 80:
        found += [_form(t, t, "float32", 16, 2) for t in ("float16", "bfloat16")]
        found.append(_form("tfloat32", "tfloat32", "float32", 8, 1))
        found += [_form(a, b, "int32", 32, 4) for a in ("int8", "uint8") for b in ("int8", "uint8")]
        found.append(_double())
    elif number == 75:
        found.append(_form("float16", "float16", "float32", 8, 2))
    if number >= 89:
        eights = ("float8_e4m3fn", "float8_e5m2")
        found += [_form(a, b, "float32", 32, 4) for a in eights for b in eights]
    return tuple(found)
