"""Which product unit executes a matrix product, and how the product is cut for it.

In: a product and a machine. Out: a :class:`Product`: the unit (None: the vector engine plays it), the tiling with padded operands, and a
reason for every unit that was not taken. The answer depends on the product and the machine alone, never on stages or roles: it is part of
the bits.

A unit serves where it accumulates in the product's own type (float32 for floats up to 32 bits, float64, 32-bit integers) and takes the
operands' types, or types that hold every value of theirs. Registers give the block of a product that a vector engine keeps: half of them
for sums, two vectors wide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from zellige.diagnostics import catalogue
from zellige.dtypes import DType, dtype as as_dtype
from zellige.ir.expr import Region, constant_value
from zellige.ir.stmt import Gemm, Launch
from zellige.plan.candidates import Best, best, described, emulation_note, with_refused
from zellige.plan.capabilities import Machine
from zellige.plan.nodes import Tiling
from zellige.plugin.choices import Answer, Candidate, Rejection
from zellige.plugin.contract import Capabilities, MatmulUnit
from zellige.records import dataclass

_FLOAT32: Final = as_dtype("float32")
_FLOAT64: Final = as_dtype("float64")
_INT32: Final = as_dtype("int32")

PANEL_BYTES: Final = 32768
"""Bytes of a packed panel of b that a step of a register-blocked product takes at the most: a small first-level cache, in which most of the
panel stays while the rows of a pass by. With fewer, loading and storing the block costs; with more, each row of blocks waits for the
second level."""

BLOCK_PANEL_BYTES: Final = 65536
"""The same of a unit that multiplies whole blocks: it takes each line for several rows at once, so that the second level is near enough,
and is through with a panel so fast that loading and storing sums costs more."""

WHOLE_PANEL_BYTES: Final = 2 * PANEL_BYTES
"""The same where all of a loop is one step then: no block is loaded and stored again in between, which is worth more than a panel that fits
the first level (1 to 2 percent with 512 and 640 steps of k; none where it would only make four steps two)."""

FEW_BLOCKS: Final = 4
THIN_PANEL_BYTES: Final = PANEL_BYTES // 4
"""Blocks of rows up to which a panel of b is not worth keeping near, and the bytes of it then: what such a product takes is to bring b, and
the less of it a step takes, the more of the next one has room beside it (16 rows at 1024: 3 percent, on two machines)."""

_WIDENED: Final = "operands are widened to"

PRODUCT_REGISTERS: Final = 1
"""Vector registers in which a vector engine that emulates a unit keeps a product until it is added."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """``unit`` None: emulated by the vector engine. ``operand`` is the type that operands are converted to. ``sizes`` are m, n and k,
    None where not constant."""

    gemm: Gemm
    unit: MatmulUnit | None
    operand: DType
    accumulator: DType
    tiling: Tiling | None
    sizes: tuple[int | None, int | None, int | None]
    because: str
    rejected: tuple[tuple[str, str], ...]
    is_emulated: bool = False
    """Whether who offered it says that other instructions play the unit."""

    @property
    def is_native(self) -> bool:
        return self.unit is not None and self.unit.is_native and not self.is_emulated


def accumulator_of(gemm: Gemm) -> DType:
    """The type that a product accumulates in."""
    types = (gemm.a.buffer.dtype, gemm.b.buffer.dtype, gemm.c.buffer.dtype)
    if any(t.is_float for t in types):
        return _FLOAT64 if any(t.name == "float64" for t in types) else _FLOAT32
    return _INT32 if all(t.bits <= 32 for t in types) else as_dtype("int64")


def sizes_of(gemm: Gemm) -> tuple[int | None, int | None, int | None]:
    """m, n, k."""

    def extent(region: Region, dimension: int) -> int | None:
        value = constant_value(region.extents[dimension]) if region.buffer.rank >= -dimension else None
        return None if value is None else int(value)

    k = extent(gemm.a, -2 if gemm.transpose_a else -1)
    if gemm.metadata is not None and k is not None:
        k *= 2
    return extent(gemm.c, -2), extent(gemm.c, -1), k


def choose_product(gemm: Gemm, machine: Machine, launch: Launch | None = None) -> Product:
    """The best of what the backend offers for a product; where it leaves the choice to its capabilities, a unit that takes the types as
    they are, else one that holds their values, else a loop of the vector engine. E420 where there is not even that, E703 for an impossible
    answer of the backend."""
    accumulator, sizes = accumulator_of(gemm), sizes_of(gemm)
    operation = described(gemm, launch, shape=sizes, accumulator=accumulator.name)
    answers = None if machine.ask is None else machine.ask(operation)
    if answers is None:
        taken = best(operation, _from_capabilities(gemm, accumulator, sizes, machine), machine)
    else:
        for answer in answers:
            unit = answer.unit if isinstance(answer, Candidate) else None
            wrong = None if unit is None else _wrong_unit(gemm, unit, accumulator, sizes, machine)
            if wrong is not None:
                reason = f"its candidate {answer.name} of the hook candidates cannot execute the {operation.text}: {wrong}"
                raise catalogue.E703.error(name=machine.name, reason=reason)
        taken = best(operation, answers, machine)
    return _product(gemm, taken, accumulator, sizes, machine)


def _product(gemm: Gemm, taken: Best, accumulator: DType, sizes: tuple[int | None, int | None, int | None], machine: Machine) -> Product:
    a, b, unit = gemm.a.buffer.dtype, gemm.b.buffer.dtype, taken.candidate.unit
    because = taken.candidate.because + emulation_note(taken.candidate)
    if unit is not None and _WIDENED not in because and (unit.a, unit.b) != (a.name, b.name):
        because += f"; {_both(a, b)} {_WIDENED} {unit.a}, which holds all their values"
    if unit is None:
        tiling = register_block(sizes, accumulator, machine)
        return Product(gemm=gemm, unit=None, operand=_widest(a, b, accumulator), accumulator=accumulator, tiling=tiling, sizes=sizes,
                       because=because, rejected=taken.rejected)  # fmt: skip
    if unit.m == unit.n == 1:
        tiling = register_block(sizes, accumulator, machine, unit)
        if tiling is not None and unit.k > 1:
            tiling = Tiling(m=tiling.m, n=tiling.n, k=unit.k)
    else:
        tiling = _unit_block(unit, sizes)
        because += _padding(unit, sizes, tiling)
    operand = a if (unit.a, unit.b) == (a.name, b.name) else as_dtype(unit.a)
    return Product(gemm=gemm, unit=unit, operand=operand, accumulator=accumulator, tiling=tiling, sizes=sizes, because=because,
                   rejected=taken.rejected, is_emulated=not taken.candidate.is_native)  # fmt: skip


def offers(gemm: Gemm, capabilities: Capabilities, refused: Sequence[tuple[str, str, str]] = ()) -> tuple[Answer, ...]:
    """What the capabilities of a target offer for a product, for a backend's hook ``candidates``: the answers that the planner gives itself
    where there is no such hook, and instructions that the backend knows and cannot use. ``refused`` are their names, why they do not serve,
    and what would make them ("" where nothing does): an emulation then says that it would avoid it."""
    machine = Machine(capabilities=capabilities)
    return with_refused(_from_capabilities(gemm, accumulator_of(gemm), sizes_of(gemm), machine), refused)


def _from_capabilities(gemm: Gemm, accumulator: DType, sizes: tuple[int | None, int | None, int | None], machine: Machine) -> list[Answer]:
    """Every unit of the target as a candidate, by how little it converts, or as a rejection; last the loop that emulates them."""
    a, b = gemm.a.buffer.dtype, gemm.b.buffer.dtype
    both = _both(a, b)
    answers: list[Answer] = []
    for unit in machine.units():
        name, reason = _unit_name(unit), _unfit(gemm, unit, accumulator, sizes, machine)
        if reason is not None:
            answers.append(Rejection(name=name, reason=reason))
            continue
        is_exact = (unit.a, unit.b) == (a.name, b.name)
        widened = f"{both} {_WIDENED} {unit.a}, which holds all their values"
        because = f"takes {both} operands as they are" if is_exact else widened
        cost = 0.0 if is_exact else float(as_dtype(unit.a).bits)
        answers.append(Candidate(name=name, because=because, cost=cost, is_native=unit.is_native, unit=unit))
    answers.append(_emulation(gemm, accumulator, machine))
    return answers


def _emulation(gemm: Gemm, accumulator: DType, machine: Machine) -> Answer:
    """The loop of the vector engine, which needs arithmetic on the accumulator's type only."""
    name = f"a loop of the engine {machine.main_engine}"
    computed = machine.capabilities.compute_dtypes
    if computed and accumulator.name not in computed:
        return Rejection(name=name, reason=f"the target has no arithmetic on {accumulator}, which the product accumulates in")
    why = "no product unit serves" if machine.units() else "the target has no product unit"
    because = f"{why}: emulated by the engine {machine.main_engine}"
    return Candidate(name=name, because=because, is_native=False, avoided_by=_avoided_by(gemm, accumulator, machine))


def _avoided_by(gemm: Gemm, accumulator: DType, machine: Machine) -> str:
    """What the author could change so that a unit serves."""
    if gemm.scale_a is not None or gemm.scale_b is not None:
        return "scaling the operands before the product"
    if gemm.metadata is not None:
        return "dense operands"
    ways = [
        f"operands of {unit.a}{'' if unit.a == unit.b else f' and {unit.b}'} ({_unit_name(unit)})"
        for unit in machine.units()
        if as_dtype(unit.c) == accumulator
    ]
    return " or ".join(dict.fromkeys(ways))


def _unit_name(unit: MatmulUnit) -> str:
    name = unit.name or "product unit"
    shape = "" if unit.m == unit.n == 1 else f" {unit.m}x{unit.n}x{unit.k}"
    return f"{name}{shape} of {unit.a}"


def _both(a: DType, b: DType) -> str:
    return f"{a}" if a == b else f"{a} and {b}"


def _wrong_unit(
    gemm: Gemm, unit: MatmulUnit, accumulator: DType, sizes: tuple[int | None, int | None, int | None], machine: Machine
) -> str | None:
    """Why a backend's own answer cannot name a unit: the target has none such, or it does not fit."""
    if unit not in machine.units():
        known = ", ".join(_unit_name(one) for one in machine.units()) or "none"
        return f"the capabilities that hook describe answered have no unit {_unit_name(unit)} ({known})"
    return _unfit(gemm, unit, accumulator, sizes, machine)


def _widest(a: DType, b: DType, accumulator: DType) -> DType:
    return accumulator if accumulator.bits >= max(a.bits, b.bits) else max((a, b), key=lambda t: t.bits)


def _unfit(
    gemm: Gemm, unit: MatmulUnit, accumulator: DType, sizes: tuple[int | None, int | None, int | None], machine: Machine
) -> str | None:
    """Why a unit cannot execute a product, None where it can."""
    a, b = gemm.a.buffer.dtype, gemm.b.buffer.dtype
    if (gemm.scale_a is not None or gemm.scale_b is not None) and not unit.takes_scales:
        return "has no block scales"
    if gemm.metadata is not None and not unit.takes_sparse:
        return "takes no sparse operand"
    if as_dtype(unit.c) != accumulator:
        return f"accumulates in {unit.c}, the product in {accumulator}"
    if unit.m * unit.n > 1 and None in sizes:
        return "needs constant sizes"
    if (unit.a, unit.b) == (a.name, b.name):
        return None
    if not (holds(as_dtype(unit.a), a) and holds(as_dtype(unit.b), b)):
        return f"takes {unit.a}{'' if unit.a == unit.b else ' and ' + unit.b}, which does not hold {a if a == b else f'{a} and {b}'}"
    if unit.a not in machine.capabilities.compute_dtypes or unit.b not in machine.capabilities.compute_dtypes:
        return f"operands cannot be converted to {unit.a} on this target"
    return None


def holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of ``narrow`` is a value of ``wide``."""
    if wide == narrow:
        return True
    if narrow.lanes != 1 or wide.lanes != 1:
        return False
    if wide.is_float:
        if narrow.is_float:
            smaller = narrow.mantissa <= wide.mantissa and narrow.exponent < wide.exponent
            return smaller or (narrow.mantissa <= wide.mantissa and narrow.exponent == wide.exponent and wide.bits > 8)
        return narrow.bits <= wide.mantissa + (1 if not narrow.is_signed else 2)
    if narrow.is_float:
        return False
    if wide.is_signed:
        return narrow.bits < wide.bits or (narrow.is_signed and narrow.bits == wide.bits)
    return not narrow.is_signed and narrow.bits <= wide.bits


def register_lanes(accumulator: DType, machine: Machine, unit: MatmulUnit | None) -> int:
    """Sums in one vector register, as wide as the unit takes them."""
    file = machine.capabilities.registers
    width = (unit.vector_bytes if unit is not None else 0) or (0 if file is None else file.vector_bytes)
    return max(1, width * 8 // accumulator.bits)


def register_block(
    sizes: tuple[int | None, int | None, int | None], accumulator: DType, machine: Machine, unit: MatmulUnit | None = None
) -> Tiling | None:
    """The block of sums that a vector engine keeps in registers; None where the register file is not known."""
    file = machine.capabilities.registers
    if file is None or file.vectors == 0:
        return None
    lanes = register_lanes(accumulator, machine, unit)
    beside = PRODUCT_REGISTERS if unit is None else unit.step_registers
    rows, columns = register_rows(sizes[0], sizes[1], lanes, file.vectors - beside)
    return Tiling(m=rows, n=columns, k=1)


def register_rows(m: int | None, n: int | None, lanes: int, registers: int) -> tuple[int, int]:
    """Rows and columns of the block of an m by n product that fits ``registers`` vector registers of ``lanes`` sums.

    Beside the sums there is room for a row of b and a register for a. Of the shapes that fit the one wins that takes the fewest cycles by
    a simple count: two multiply-adds start in a cycle, somewhat more than one load, and a sum is ready for its next term after four. Rows
    and columns are shared out evenly among blocks, so few rows lead to wide blocks.
    """
    vectors = None if n is None else -(-n // lanes)
    best: tuple[float, int, int] | None = None
    for width in (2, 1, 3, 4, 5, 6, 7, 8):
        if vectors is not None and width > vectors:
            continue
        parts = even_parts(vectors or width, width)
        shapes = [(count, part, rows_beside(m, part, registers)) for count, part in parts]
        if parts[0][1] != width or not all(rows for _, _, rows in shapes):
            continue
        cycles = sum(count * _cycles(rows, part) / rows for count, part, rows in shapes) / (vectors or width)
        if best is None or cycles < best[0] * 0.999:
            best = (cycles, shapes[0][2], width)
    return (1, lanes) if best is None else (best[1], best[2] * lanes)


def rows_beside(m: int | None, vectors: int, registers: int) -> int:
    """Rows of a block of an m-row product that is ``vectors`` registers wide; 0 where it does not fit."""
    room = (registers - vectors - 1) // vectors
    rows = min(room, 12 if vectors == 1 else 8)
    if rows < 1:
        return 1 if vectors + 2 <= registers else 0
    return rows if m is None else -(-m // -(-m // rows))


def even_parts(size: int, most: int) -> tuple[tuple[int, int], ...]:
    """(how many, how large): ``size`` cut into the fewest parts of at most ``most``, as even as they can be, the larger ones first."""
    count = -(-size // most)
    part, more = divmod(size, count)
    return tuple(found for found in ((more, part + 1), (count - more, part)) if found[0])


def _cycles(rows: int, vectors: int) -> float:
    """Cycles of one step of k of a block; that loads start at that rate was measured (16 registers, 6 x 2 against 4 x 3 sums). Of blocks
    that multiply-adds alone hold up the one with fewer loads is better, since more of what it needs comes from the first level (32
    registers, 8 x 2 against 6 x 4 sums)."""
    loads = rows + vectors
    return max(rows * vectors / 2, loads * 0.8, 4) + loads / 50


def _ceil(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _unit_block(unit: MatmulUnit, sizes: tuple[int | None, int | None, int | None]) -> Tiling:
    """The unit's own block, or of a unit that takes multiples the fewest equal blocks that cover the product."""
    blocks = []
    largest = unit.largest or (unit.m, unit.n, unit.k)
    for size, one, most in zip(sizes, (unit.m, unit.n, unit.k), largest):
        if unit.shape == "fixed" or size is None or most <= one:
            blocks.append(one)
        else:
            blocks.append(equal_blocks(size, one, most))
    return Tiling(m=blocks[0], n=blocks[1], k=blocks[2])


def panel_bytes(product: Product, rows: int | None) -> tuple[int, int]:
    """Bytes of a packed panel of b that a step should take, of a product of which ``rows`` exist (None: nobody knows), and those that
    a step may take which is all of its loop."""
    if product.unit is not None and product.unit.m > 1:
        return BLOCK_PANEL_BYTES, BLOCK_PANEL_BYTES
    is_thin = product.tiling is not None and rows is not None and rows <= FEW_BLOCKS * product.tiling.m
    return (THIN_PANEL_BYTES, THIN_PANEL_BYTES) if is_thin else (PANEL_BYTES, WHOLE_PANEL_BYTES)


def equal_blocks(size: int, one: int, most: int) -> int:
    """The multiple of ``one``, ``most`` at the most, of which the fewest equal blocks cover ``size``."""
    count = -(-max(size, 1) // most)
    return min(most, _ceil(-(-max(size, 1) // count), one))


def _padding(unit: MatmulUnit, sizes: tuple[int | None, int | None, int | None], tiling: Tiling) -> str:
    padded = []
    ratio = 1.0
    for name, size, block in zip(("m", "n", "k"), sizes, (tiling.m, tiling.n, tiling.k)):
        if size is not None and size > 0 and size % block:
            full = _ceil(size, block)
            ratio *= full / size
            padded.append(f"{name} from {size} to {full}")
    cut = f"; cut into {tiling.m}x{tiling.n}x{tiling.k}"
    return cut + (f", padded with zeros in {', '.join(padded)} ({ratio - 1:.0%} more work)" if padded else "")
