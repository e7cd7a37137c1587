"""The ways in which this machine multiplies: what one step of a micro-kernel takes and the instruction that executes it.

In: a :class:`zellige_cpu.host.Host` and the tables of :mod:`zellige_intrinsics`. Out: its :class:`Unit` objects, best first, which are also
what the backend tells the planner; :func:`refusals`, which says why the other instructions do not serve; and :func:`multiply`, which emits
one step.

A step takes a *word* of each operand: as many bits as an element of the accumulator, holding ``group`` elements that follow each other in
k. The word of a is broadcast to all lanes, b has one word a column. A *matrix* unit takes several rows of a and several words of k at once,
from registers of its own (:mod:`zellige_cpu.leaf.matrices`); its operands lie as those of the others do.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from zellige.diagnostics import InternalError
from zellige.dtypes import DType, dtype
from zellige_cpu.intrinsics import INTRINSICS, base_name
from zellige_cpu.types import ELEMENT_BITS, element_bytes, memory_type, register_type, vector_type
from zellige_intrinsics.rows import ProductRow
from zellige_intrinsics.tables import product_rows, taken_out

if TYPE_CHECKING:
    from zellige_cpu.host import Host
    from zellige_cpu.text import Function
    from zellige_cpu.values import Value


class Unit:
    """``a`` and ``b`` are the types of packed operands, ``width`` the columns of one instruction (0: the machine's vectors).

    ``intrinsic`` is the LLVM intrinsic, empty where general instructions play the unit: a multiplication, then an addition. ``adds``: the
    sum with the accumulator is an instruction of its own. ``is_biased``: a is packed with 128 added, since the instruction takes it as
    unsigned, and panels of b carry what that adds. ``rows`` of a and ``words`` of k are those of one instruction; ``keeps_subnormals`` is
    that of the specification.
    """

    __slots__ = (
        "a", "accumulator", "adds", "b", "group", "intrinsic", "is_biased", "keeps_subnormals", "name", "rows", "width", "words"
    )  # fmt: skip

    def __init__(
        self, *, name: str, a: DType, b: DType, accumulator: DType, width: int = 0, group: int = 1, intrinsic: str = "", adds: bool = False,
        is_biased: bool = False, rows: int = 1, words: int = 1, keeps_subnormals: bool = True,
    ) -> None:  # fmt: skip
        self.name: Final = name
        self.a: Final = a
        self.b: Final = b
        self.accumulator: Final = accumulator
        self.width: Final = width
        self.group: Final = group
        self.intrinsic: Final = intrinsic
        self.adds: Final = adds
        self.is_biased: Final = is_biased
        self.rows: Final = rows
        self.words: Final = words
        self.keeps_subnormals: Final = keeps_subnormals

    @property
    def is_matrix(self) -> bool:
        """Whether one instruction takes several rows of a."""
        return self.rows > 1

    @property
    def depth(self) -> int:
        """Elements of k that one instruction takes."""
        return self.words * self.group

    @property
    def word(self) -> str:
        """The LLVM type of a word of packed operands."""
        kind = register_type(self.accumulator)
        return kind if self.group == 1 else f"i{ELEMENT_BITS[kind]}"

    @property
    def word_bytes(self) -> int:
        return element_bytes(self.accumulator)

    @property
    def step_registers(self) -> int:
        """Registers of a step beside sums and operands: one where the sum is an instruction of its own."""
        return int(self.adds or not self.intrinsic)

    def lanes(self, host: Host) -> int:
        """Columns of one step."""
        return self.width or host.lanes(self.word_bytes)


_INT8, _UINT8 = dtype("int8"), dtype("uint8")

_SLOWER_THAN: Final = {"vdpbf16ps": "amx-bf16"}
"""Instructions that machines with a feature execute at a lower rate than what they would replace: machines with matrix tiles do the pair
dot at half the rate of a multiply-add of vectors (measured, 73 against 143 GFLOP/s), whether or not the system gives tiles to a process."""


def family_of(host: Host) -> str:
    """The family of instructions of a machine; empty where there is none."""
    if host.is_x86:
        return "cpu_x86"
    return "cpu_arm" if host.triple.startswith(("aarch64", "arm64")) else ""


def units(host: Host) -> tuple[Unit, ...]:
    """The units of a machine, of its family's tables as they are now: those of equal operands widest first."""
    family = family_of(host)
    return _units(host, product_rows(family)) if family else ()


@lru_cache(maxsize=64)
def _units(host: Host, rows: tuple[ProductRow, ...]) -> tuple[Unit, ...]:
    found: list[Unit] = []
    for row in rows:
        if refusal(host, row) is not None:
            continue
        for a, b, accumulator in row.types:
            found.append(_unit(row, dtype(a), dtype(b), dtype(accumulator)))
    # where no instruction takes both operands signed, one that takes a unsigned serves with a bias
    signed = {unit.width for unit in found if (unit.a, unit.b) == (_INT8, _INT8) and not unit.is_matrix}
    biased = [
        Unit(
            name=f"{unit.name} (a biased)", a=_INT8, b=_INT8, accumulator=unit.accumulator, width=unit.width, group=unit.group,
            intrinsic=unit.intrinsic, is_biased=True,
        )
        for unit in found
        if (unit.a, unit.b) == (_UINT8, _INT8) and unit.width > max(signed, default=0) and not unit.is_matrix
    ]  # fmt: skip
    return tuple(sorted((*found, *biased), key=lambda unit: (-unit.rows * unit.width * unit.depth, unit.group)))


def _unit(row: ProductRow, a: DType, b: DType, accumulator: DType) -> Unit:
    rows, width, depth = row.shape
    group = accumulator.bits // b.bits if row.form == "matrix" else depth
    return Unit(
        name=row.name, a=a, b=b, accumulator=accumulator, width=width, group=group, intrinsic=row.spelling, adds=row.adds, rows=rows,
        words=depth // group, keeps_subnormals=row.keeps_subnormals,
    )  # fmt: skip


class Refusal(NamedTuple):
    """Why the micro-kernels of a machine do not use an instruction; ``remedy`` is what would make them, empty where nothing does."""

    name: str
    reason: str
    remedy: str = ""


def refusal(host: Host, row: ProductRow) -> Refusal | None:
    """Why the micro-kernels of a machine do not use an instruction; None where they do."""
    if row.form not in ("broadcast", "matrix"):
        return Refusal(row.name, "takes tiles of several rows of a; the micro-kernels broadcast one word of a to all columns")
    if base_name(row.spelling) not in INTRINSICS:
        return Refusal(row.name, f"the code generator cannot call {row.spelling}")
    missing = ", ".join(word for word in row.requires if word not in host.features)
    if missing and host.withheld and all(word in host.features or word in host.withheld for word in row.requires):
        return Refusal(row.name, f"the processor has {missing}, but {host.withheld_because}")
    if missing:
        return Refusal(row.name, f"the processor lacks {missing}", f"a processor with {missing} ({row.name})")
    has = host.features | host.withheld
    slower = next((feature for stem, feature in _SLOWER_THAN.items() if row.name.startswith(stem) and feature in has), None)
    if slower is not None:
        return Refusal(row.name, f"processors with {slower} execute it at half the rate of multiply-adds of vectors")
    wide = max(element_bytes(dtype(c)) for _, _, c in row.types) * row.shape[1]
    if row.form == "broadcast" and wide > host.vector_bytes:
        return Refusal(row.name, f"its vectors are of {wide} bytes, the processor's of {host.vector_bytes}")
    return None


def refusals(host: Host, a: DType, b: DType, accumulator: DType) -> tuple[Refusal, ...]:
    """The instructions that could multiply these operands, widened where need be, and do not serve here; also those that would, and were
    taken out of the table."""
    from zellige.plan.products import holds  # not on a warm start

    family = family_of(host)
    if not family:
        return ()

    def takes(row: ProductRow) -> bool:
        given = {(a.name, b.name), ("uint8", b.name)} if a.name == b.name == "int8" else {(a.name, b.name)}  # with a bias
        return any(
            types[2] == accumulator.name and (types[:2] in given or (holds(dtype(types[0]), a) and holds(dtype(types[1]), b)))
            for types in row.types
        )

    found = [refusal(host, row) for row in product_rows(family) if takes(row)]
    found += [
        Refusal(row.name, "it was taken out of the table of instructions", f"putting {row.name} back into the table of instructions")
        for row in taken_out(family)
        if takes(row) and refusal(host, row) is None
    ]
    return tuple(one for one in found if one is not None)


def unit_named(host: Host, name: str, a: DType, b: DType, accumulator: DType) -> Unit:
    """The unit that a plan names, by the types of its packed operands."""
    for unit in units(host):
        if unit.name == name and (unit.a, unit.b, unit.accumulator) == (a, b, accumulator):
            return unit
    raise InternalError(f"no unit {name} of {a} and {b} into {accumulator} on this machine")


def general_unit(host: Host, accumulator: DType) -> Unit:
    """The unit that multiplies operands in the accumulator's own type: an instruction where there is one, else general ones."""
    for unit in units(host):
        if (unit.a, unit.b, unit.accumulator, unit.group) == (accumulator, accumulator, accumulator, 1):
            return unit
    return emulated_unit(accumulator)


@lru_cache(maxsize=16)
def emulated_unit(accumulator: DType) -> Unit:
    """A multiplication and an addition of vectors, each rounded."""
    return Unit(name="", a=accumulator, b=accumulator, accumulator=accumulator)


def multiply(fn: Function, unit: Unit, left: Value, right: Value, total: Value) -> Value:
    """``total`` plus the products of two vectors of words."""
    if not unit.intrinsic:
        is_float = left.element in ("float", "double")
        return fn.binary("fadd" if is_float else "add", total, fn.binary("fmul" if is_float else "mul", left, right))
    name = base_name(unit.intrinsic)
    if unit.group == 1:
        return fn.intrinsic(name, left, right, total)
    lanes = total.lanes * unit.group
    kind = "bfloat" if unit.a.name == "bfloat16" else memory_type(unit.a)
    a, b = (fn.bitcast_type(side, vector_type(kind, lanes), lanes) for side in (left, right))
    return fn.binary("add", total, fn.intrinsic(name, a, b)) if unit.adds else fn.intrinsic(name, total, a, b)
