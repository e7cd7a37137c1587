"""The products of a warp of an architecture, from the table of instructions (:mod:`zellige_intrinsics`).

In: an architecture. Out: the units as planning knows them (:func:`units_of`, from rows: no layout is made) and
:class:`~zellige.simt.ir.ProductForm` values by the name of their unit, with which lane's registers hold which element of the operands.
"""

from __future__ import annotations

from typing import Final

from zellige.diagnostics import InternalError
from zellige.dtypes import DType, dtype as as_dtype
from zellige.records import dataclass
from zellige.simt.distribution import Digit, Distribution, Source
from zellige.simt.ir import ProductForm
from zellige_cuda.architectures import ARCHITECTURES, Architecture
from zellige_intrinsics import nvidia_rows
from zellige_intrinsics.rows import CopyRow, ProductRow
from zellige_intrinsics.tables import copies_taken_out, copy_rows, product_rows, taken_out, wait_rows, waits_taken_out

FAMILY: Final = "nvidia"

_PTX: Final = {"float16": "f16", "bfloat16": "bf16", "tfloat32": "tf32", "int8": "s8", "uint8": "u8", "int4": "s4", "uint4": "u4",
               "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "float64": "f64", "float32": "f32", "int32": "s32"}  # fmt: skip

_ACCUMULATORS: Final = ("float32", "float64", "int32")
"""What products of this family of backends add up in; rows of others are not offered."""

_STEM: Final = ".row.col"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A row with one of its combinations of element types. ``name`` is the unit's, ``instruction`` the whole word of PTX."""

    name: str
    instruction: str
    row: ProductRow
    a: DType
    b: DType
    c: DType


def words_of(arch: Architecture) -> frozenset[str]:
    """The words that ``requires`` of an instruction may have on an architecture: its own name and those of older ones."""
    older = {f"sm_{known.number}" for known in ARCHITECTURES.values() if known.number <= arch.number}
    special = {nvidia_rows.NIBBLE_UNITS} if arch.has_nibble_units else set()
    return frozenset({arch.name, f"sm_{arch.number}", *older, *special})


def units_of(arch: Architecture) -> tuple[Unit, ...]:
    """The products that an architecture has, of the table as it is now: the preferred of equal operands first."""
    words = words_of(arch)
    return tuple(_unit(row, *types) for row, *types in _combinations(product_rows(FAMILY)) if words.issuperset(row.requires))


def refusals(arch: Architecture, a: DType, b: DType) -> tuple[tuple[str, str, str], ...]:
    """The products of these operands that an architecture does not have, or that were taken out of the table: unit, reason, remedy."""
    words, found = words_of(arch), []
    for row, *types in _combinations((*product_rows(FAMILY), *taken_out(FAMILY))):
        if types[:2] != [a.name, b.name]:
            continue
        name, missing = _unit(row, *types).name, [word for word in row.requires if word not in words]
        if missing:
            found.append((name, *_missing(missing, name)))
        elif row in taken_out(FAMILY):
            found.append((name, "it was taken out of the table of instructions", f"putting {name} back into the table of instructions"))
    return tuple(found)


def _missing(words: list[str], name: str) -> tuple[str, str]:
    """The reason, and what would help ("" where no newer architecture does)."""
    ages = [word for word in words if word.startswith("sm_")]
    reason = ", ".join(f"{word} or newer" if word in ages else word for word in words)
    return f"needs {reason}", f"an architecture from {', '.join(ages)} on ({name})" if ages == words else ""


def _combinations(rows: tuple[ProductRow, ...]) -> list[tuple[ProductRow, str, str, str]]:
    return [(row, *types) for row in rows if row.form == "fragment" for types in row.types if types[2] in _ACCUMULATORS]


def _unit(row: ProductRow, a: str, b: str, c: str) -> Unit:
    stem = row.spelling.partition(_STEM)[0]
    kinds = f".{_PTX[c]}.{_PTX[a]}.{_PTX[b]}.{_PTX[c]}"
    instruction = f"{stem}{_STEM}{kinds}"
    is_own = row.name.startswith(stem)
    name = instruction if is_own else row.name if len(row.types) == 1 else row.name + kinds
    return Unit(name=name, instruction=instruction, row=row, a=as_dtype(a), b=as_dtype(b), c=as_dtype(c))


def word_copies(arch: Architecture) -> tuple[int, ...]:
    """Bytes that a lane may copy by itself to shared memory, asynchronously; none where nothing waits for them."""
    if not counts_waits(arch):
        return ()
    return tuple(sorted(row.bytes_each for row in _copies(arch) if row.is_asynchronous and row.destination == "shared"))


def counts_waits(arch: Architecture) -> bool:
    """Whether asynchronous copies of words can be put into groups, and some of the groups waited for."""
    names, words = {row.name for row in wait_rows(FAMILY)}, words_of(arch)
    return all(row.name in names and words.issuperset(row.requires) for row in nvidia_rows.WAITS)


def overlap_refusals(arch: Architecture) -> tuple[tuple[str, str, str], ...]:
    """The asynchronous copies to shared memory and what waits for them that an architecture does not have, or that were taken out of the
    table: name, reason, remedy."""
    words, found = words_of(arch), []
    out = {row.name for row in copies_taken_out(FAMILY)} | {row.name for row in waits_taken_out(FAMILY)}
    rows = [row for row in (*copy_rows(FAMILY), *copies_taken_out(FAMILY)) if row.is_asynchronous and row.destination == "shared"]
    for name, requires in [(row.name, row.requires) for row in rows] + [(row.name, row.requires) for row in nvidia_rows.WAITS]:
        missing = [word for word in requires if word not in words]
        if missing:
            found.append((name, f"needs {', '.join(missing)} or newer", f"an architecture from {', '.join(missing)} on"))
        elif name in out:
            found.append((name, "it was taken out of the table of instructions", f"putting {name} back into the table of instructions"))
    return tuple(found)


def matrix_loads(arch: Architecture) -> tuple[int, ...]:
    """How many matrices one load may bring, plain or transposed."""
    names = {row.name for row in _copies(arch)}
    return tuple(
        count for count in (1, 2, 4) if all(nvidia_rows.matrix_load(count, is_transposed=flag) in names for flag in (False, True))
    )


def _copies(arch: Architecture) -> list[CopyRow]:
    words = words_of(arch)
    return [row for row in copy_rows(FAMILY) if words.issuperset(row.requires)]


def forms_of(arch: Architecture) -> dict[str, ProductForm]:
    """The form of each unit: its layouts as lowering takes them."""
    from zellige.simt.from_layout import distribution_of
    from zellige_intrinsics.lookup import family, intrinsic

    table, found = family(FAMILY), {}
    for unit in units_of(arch):
        operands = {operand.name: operand.layout for operand in intrinsic(unit.row.name, among=table).operands}
        a, b, c = operands["a"], operands["b"], operands["c"]
        if a is None or b is None or c is None:
            raise InternalError(f"the fragments of {unit.row.name} have no layout")
        m, n, k = unit.row.shape
        found[unit.name] = ProductForm(
            name=unit.instruction, m=m, n=n, k=k, a=unit.a, b=unit.b, c=unit.c, accumulates_in=unit.c,
            a_layout=distribution_of(a, ("m", "k")), b_layout=distribution_of(b, ("k", "n")), c_layout=distribution_of(c, ("m", "n")),
        )  # fmt: skip
    return found


_BYTES: Final = ("int8", "uint8")

_WIDTHS: Final = {1: (8, 16, 24, *range(32, 257, 16)), 2: tuple(range(8, 257, 8))}
"""Columns that asynchronous products have, by the bytes of an operand's element (PTX ISA 8.8, 9.7.15.2: shapes of wgmma)."""


def group_forms_of(arch: Architecture) -> dict[str, ProductForm]:
    """The asynchronous products of warpgroups that an architecture has, by unit, each with the fewest columns."""
    if not arch.has_group_products:
        return {}
    forms = [_group_form(t, t, "float32") for t in ("float16", "bfloat16")]
    forms += [_group_form(a, b, "int32") for a in _BYTES for b in _BYTES]
    return {form.name: form for form in forms}


def _group_form(a: str, b: str, c: str) -> ProductForm:
    """m64n8 of a warpgroup with 32 bytes of k: each of its four warps holds 16 rows of a and c as it does in the products of a warp. The
    least of the shapes: others have more columns, 8 by 8, each with the registers of this one (PTX ISA 8.8, 9.7.15.5.1)."""
    unit = 4 // as_dtype(a).bytes
    k = 8 * unit
    lanes = (_digit("lane", 1, 4, 1, 2), _digit("lane", 4, 8, 0, 1))
    a_lanes = (_digit("lane", 1, 4, 1, unit), _digit("lane", 4, 8, 0, 1))
    b_lanes = (_digit("lane", 1, 4, 0, unit), _digit("lane", 4, 8, 1, 1))
    warps = _digit("warp", 1, 4, 0, 16)
    a_registers = (_digit("register", 1, unit, 1, 1), _digit("register", unit, 2, 0, 8), _digit("register", 2 * unit, 2, 1, 4 * unit))
    b_registers = (_digit("register", 1, unit, 0, 1), _digit("register", unit, 2, 0, 4 * unit))
    c_registers = (_digit("register", 1, 2, 1, 1), _digit("register", 2, 2, 0, 8))
    return ProductForm(
        name=f"wgmma.{_PTX[c]}.{_PTX[a]}.{_PTX[b]}", m=64, n=8, k=k, a=as_dtype(a), b=as_dtype(b), c=as_dtype(c),
        a_layout=Distribution(shape=(64, k), digits=(*a_registers, *a_lanes, warps)),
        b_layout=Distribution(shape=(k, 8), digits=(*b_registers, *b_lanes)),
        c_layout=Distribution(shape=(64, 8), digits=(*c_registers, *lanes, warps)),
        accumulates_in=as_dtype(c), warps=4, is_asynchronous=True, widths=_WIDTHS[as_dtype(a).bytes], reads_along_k=as_dtype(a).bytes == 1,
    )  # fmt: skip


def _digit(source: Source, divisor: int, radix: int, dimension: int, stride: int) -> Digit:
    return Digit(source=source, divisor=divisor, radix=radix, dimension=dimension, stride=stride)
