"""What lowering asks of a machine with lanes, beyond what planning asks.

In: a target's capabilities and, from its backend, the products and mechanisms it has in the family's terms. Out: a :class:`LaneMachine`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from zellige.diagnostics import catalogue
from zellige.ir.expr import Buffer, constant_value
from zellige.plugin.contract import Capabilities
from zellige.records import dataclass
from zellige.simt.homes import FARTHEST
from zellige.simt.ir import ProductForm


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMemory:
    """How engines have tiles in shared memory, and what the one that copies boxes takes.

    A tile stands in slabs of columns that are one of ``spans`` bytes wide (the widest first). Within a slab the pieces of ``piece_bytes``
    of a row are exchanged by the number of the row, which begins anew after ``rows``; slots begin at multiples of ``alignment``, where the
    exchange does. ``box_copy`` is the mechanism of the capabilities' copy paths that are :class:`~zellige.simt.ir.TensorCopy`, of boxes of
    at most ``box_rank`` dimensions of at most ``box_extent`` elements, from tensors of as many dimensions.
    """

    spans: tuple[int, ...]
    piece_bytes: int
    rows: int
    alignment: int
    box_copy: str
    box_rank: int
    box_extent: int

    def span_of(self, row_bytes: int) -> int | None:
        """The widest span that divides a row of a tile; None where none does."""
        return next((span for span in self.spans if row_bytes % span == 0), None)

    def why_no_boxes(self, tensor: Buffer) -> str | None:
        """What of a tensor's shape keeps boxes from being copied from or to it; None where nothing does. Extents that are known at a call
        only are told of there."""
        if tensor.rank > self.box_rank:
            return f"{tensor.name} has {tensor.rank} dimensions, the copy engine knows {self.box_rank}"
        is_long = any(int(constant_value(extent) or 0) > FARTHEST for extent in tensor.shape)
        return f"{tensor.name} is longer than the coordinates of a box reach" if is_long else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneMachine:
    """``products`` by the name of the capability's unit. ``matrix_loads`` counts of :class:`~zellige.simt.ir.MatrixLoad` that the target
    has (empty: none), ``async_copy_bytes`` sizes of :class:`~zellige.simt.ir.AsyncCopy` in bytes. ``access_bytes`` is the widest memory
    access of a lane; shared memory has ``banks`` of ``bank_bytes``. ``shared_bytes`` is what a block may have, ``block_lanes`` how many
    lanes; all lanes of a block have ``block_registers`` of 4 bytes together. Asynchronous products stand in ``products`` with the least
    of the numbers of columns that they have (``widths`` of their form). ``engines`` is how asynchronous products and copies of boxes have
    tiles in shared memory (None: the machine has neither). ``hoists``: the target's compiler keeps what a loop does not change in registers
    over the loop, however many that takes, so that programs hide such values from it (:class:`~zellige.simt.ir.Opaque`). ``reserved`` are
    names of the target's language, which no kernel has in it (:func:`~zellige.simt.words.is_among`). ``meets_by_name``: lanes of a warp
    that parted wait for each other only in an exchange that names them, so that programs say who takes part
    (:mod:`zellige.simt.taking_part`)."""

    capabilities: Capabilities
    products: dict[str, ProductForm] = field(default_factory=dict)
    matrix_loads: tuple[int, ...] = ()
    async_copy_bytes: tuple[int, ...] = ()
    access_bytes: int = 16
    banks: int = 32
    bank_bytes: int = 4
    shared_bytes: int = 48 * 1024
    block_lanes: int = 1024
    default_lanes: int = 128
    engines: EngineMemory | None = None
    block_registers: int = 65536
    hoists: bool = False
    meets_by_name: bool = False
    reserved: frozenset[str] = frozenset()

    def form_of(self, name: str) -> ProductForm | None:
        """The product that a unit of the capabilities stands for; None for the name of no unit (""). E703 where the backend describes a
        unit that it has no product for, or one of another shape or of other types: what is said of a plan would not be what runs."""
        if not name:
            return None
        form, unit = self.products.get(name), next((one for one in self.capabilities.matmul if one.name == name), None)
        wrong = ""
        if form is None:
            wrong = f"and has no product of that name ({', '.join(self.products) or 'it has none'})"
        elif unit is not None:
            said = f"{unit.m}x{unit.n}x{unit.k} of {unit.a}, {unit.b} to {unit.c}"
            has = f"{form.m}x{form.n}x{form.k} of {form.a}, {form.b} to {form.accumulates_in}"
            wrong = "" if said == has else f"of {said}, and its product of that name is {has}"
        if form is None or wrong:
            raise catalogue.E703.error(name=self.capabilities.target, reason=f"its hook describe names the unit {name} {wrong}")
        return form

    @property
    def lanes(self) -> int:
        """Lanes of a warp."""
        return self.capabilities.lanes


def refuse_odd_lanes(machine: LaneMachine) -> None:
    """E703 where what a backend says of its lanes cannot be: lanes of a warp exchange values over distances that halve, a block consists of
    whole warps, and a product is executed by all lanes of the warps that its layouts count."""
    reason = next(_odd_lanes(machine), None)
    if reason is not None:
        raise catalogue.E703.error(name=machine.capabilities.target, reason=f"{reason} (lowering for machines with lanes)")


def _odd_lanes(machine: LaneMachine) -> Iterator[str]:
    lanes = machine.lanes
    if lanes < 1 or lanes & (lanes - 1):
        yield f"its capabilities say {lanes} lanes, expected a power of two: the lanes of a warp exchange values over distances that halve"
        return
    for where, most in (("capabilities", machine.capabilities.block_lanes), ("machine", machine.block_lanes)):
        if most and most < lanes:
            yield f"its {where} let a block have {most} lanes, fewer than the {lanes} of one warp"
    offered = {unit.name for unit in machine.capabilities.matmul}
    for name, form in machine.products.items():
        for operand, layout in (("a", form.a_layout), ("b", form.b_layout), ("c", form.c_layout)):
            held = layout.count("lane")
            if name in offered and held != lanes:
                yield f"the layout of operand {operand} of its product {name} is for warps of {held} lanes, and its warps have {lanes}"
