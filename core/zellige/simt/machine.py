"""What lowering asks of a machine with lanes, beyond what planning asks.

In: a target's capabilities and, from its backend, the products and mechanisms it has in the family's terms. Out: a :class:`LaneMachine`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from zellige.plugin.contract import Capabilities
from zellige.simt.ir import ProductForm


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneMachine:
    """``products`` by the name of the capability's unit. ``matrix_loads`` counts of :class:`~zellige.simt.ir.MatrixLoad` that the target
    has (empty: none), ``async_copy_bytes`` sizes of :class:`~zellige.simt.ir.AsyncCopy` in bytes. ``access_bytes`` is the widest memory
    access of a lane; shared memory has ``banks`` of ``bank_bytes``. ``shared_bytes`` is what a block may have, ``block_lanes`` how many
    lanes; all lanes of a block have ``block_registers`` of 4 bytes together. Asynchronous products stand in ``products`` with the least
    number of columns that they take. ``box_copy`` is the mechanism of the capabilities' copy paths that are
    :class:`~zellige.simt.ir.TensorCopy` (empty: none), of boxes of at most ``box_rank`` dimensions of at most ``box_extent`` elements."""

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
    box_copy: str = ""
    box_extent: int = 256
    box_rank: int = 5
    block_registers: int = 65536

    @property
    def lanes(self) -> int:
        """Lanes of a warp."""
        return self.capabilities.lanes
