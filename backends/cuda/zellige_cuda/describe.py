"""What an architecture can do, in the contract's terms, and the same for lowering.

In: an architecture. Out: :class:`~zellige.plugin.contract.Capabilities` and :class:`~zellige.simt.machine.LaneMachine`.
"""

from __future__ import annotations

from dataclasses import replace

from zellige.dtypes import all_dtypes
from zellige.plugin.contract import Capabilities, CopyPath, Engine, MatmulUnit, RegisterFile, Space, Synchronisation
from zellige.simt.machine import EngineMemory, LaneMachine
from zellige.target import Target
from zellige_cuda import device
from zellige_cuda.architectures import KIB, LANE_REGISTERS, Architecture, architecture
from zellige_cuda.forms import forms_of, group_forms_of, matrix_loads, units_of, word_copies

WARP = 32
ASYNC_COPY = "cp.async"
COUNTED_WAIT = "cp.async groups"
BOX_COPY = "cp.async.bulk.tensor"

ENGINES = EngineMemory(spans=(128, 64, 32), piece_bytes=16, rows=8, alignment=1024, box_copy=BOX_COPY, box_rank=5, box_extent=256)
"""Sources: PTX ISA 8.8, 5.5.5 (tensors of up to 5 dimensions), 5.5.7 (pieces of 16 bytes are exchanged over 32, 64 or 128 bytes, by groups
of 8 rows; 8 rows of 128 bytes are 1024), 9.7.15.5.1 (operands in shared memory); CUDA driver API, cuTensorMapEncodeTiled (boxes of up to
256 elements a dimension)."""


def architecture_of(target: Target) -> Architecture:
    """The architecture of a target; that of the first device where it names none and there is one."""
    found = "" if target.arch else device.first_architecture()
    return architecture(replace(target, arch=found) if found else target)


def capabilities(arch: Architecture, target: str) -> Capabilities:
    """The capabilities of an architecture under the text of a target."""
    copies = [CopyPath(source="*", destination="*", mechanism="loads and stores", engine="lanes")]
    engines = [Engine(name="lanes", kind="vector", count=4)]
    synchronisation = [Synchronisation(mechanism="bar.sync", scope="block", count=16)]
    words = word_copies(arch)
    if words:
        engines.append(Engine(name="async copies", kind="copy", is_asynchronous=True))
        copies.insert(
            0,
            CopyPath(
                source="global", destination="shared", mechanism=ASYNC_COPY, engine="async copies", is_asynchronous=True,
                alignment=words[0], granule=words[0], fills_out_of_bounds=True, casts=False,
            ),
        )  # fmt: skip
        synchronisation.append(Synchronisation(mechanism=COUNTED_WAIT, scope="token"))
    units = tuple(
        MatmulUnit(
            name=unit.name, engine="lanes", a=unit.a.name, b=unit.b.name, c=unit.c.name, m=unit.row.shape[0], n=unit.row.shape[1],
            k=unit.row.shape[2], a_spaces=("shared", "registers"), b_spaces=("shared", "registers"), c_space="registers",
        )
        for unit in units_of(arch)
    )  # fmt: skip
    names = tuple(t.name for t in all_dtypes())
    arithmetic = tuple(t.name for t in all_dtypes() if t.is_bool or t.is_integer or t.name in ("float32", "float64"))
    return Capabilities(
        target=target,
        lanes=WARP,
        threads=arch.processors,
        vector_bytes=16,
        cache_line_bytes=128,
        spaces=(
            Space(name="global", role="global", alignment=16),
            Space(name="shared", role="shared", bytes=arch.shared_bytes, alignment=128),
            Space(name="registers", role="register", bytes=256 * KIB, alignment=4),
        ),
        dtypes=names,
        compute_dtypes=(*arithmetic, "float16", "bfloat16"),
        matmul=units,
        engines=tuple(engines),
        copies=tuple(copies),
        synchronisation=tuple(synchronisation),
        registers=RegisterFile(per_lane=LANE_REGISTERS),
        block_lanes=1024,
        bounds=device.BOUNDS,
    )


def role_capabilities(arch: Architecture, caps: Capabilities) -> Capabilities | None:
    """What the architecture can do beyond ``caps`` in blocks whose warps run programs of their own; None where that is nothing.

    Sources: PTX ISA 8.8, 9.7.9.27 (box copies: 16-byte addresses and pitches, boxes of whole 16 bytes), 9.7.13.15 (transaction barriers),
    9.7.15 (asynchronous products), 9.7.16.6 (registers pass between warps in steps of 8); CUDA C++ Programming Guide 13 for 65,536
    registers a block.
    """
    if not arch.has_group_products:
        return None
    units = tuple(
        MatmulUnit(
            name=form.name, engine="products", a=form.a.name, b=form.b.name, c=form.c.name, m=form.m, n=form.n, k=form.k, shape="multiple",
            largest=(form.m, form.widths[-1], form.k), a_spaces=("shared", "registers"), b_spaces=("shared",), c_space="registers",
            is_asynchronous=True, issue_lanes=form.warps * WARP,
        )
        for form in group_forms_of(arch).values()
    )  # fmt: skip
    box = CopyPath(
        source="global", destination="shared", mechanism=BOX_COPY, engine="box copies", is_asynchronous=True, alignment=16, granule=16,
        fills_out_of_bounds=True, casts=False, ranks=(1, 5),
    )  # fmt: skip
    store = replace(box, source="registers", destination="global", is_asynchronous=False, casts=True)  # lanes lay the rows out for it
    spaces = tuple(replace(s, alignment=1024) if s.role == "shared" else s for s in caps.spaces)
    return replace(
        caps,
        spaces=spaces,
        matmul=(*units, *caps.matmul),
        engines=(
            *caps.engines,
            Engine(name="products", kind="matmul", count=4, is_asynchronous=True),
            Engine(name="box copies", kind="copy", is_asynchronous=True),
        ),
        copies=(box, store, *(p for p in caps.copies if not p.is_asynchronous)),
        synchronisation=(
            Synchronisation(mechanism="mbarrier", scope="block", count=64, counts_bytes=True),
            Synchronisation(mechanism="wgmma groups", scope="token"),
            *(s for s in caps.synchronisation if s.scope != "token"),
        ),
        registers=RegisterFile(per_lane=LANE_REGISTERS, per_block=65536, step=8),
        can_specialise_roles=True,
    )


def lane_machine(arch: Architecture, caps: Capabilities) -> LaneMachine:
    """The same for lowering."""
    from zellige_cuda.spelling import DECLARED, RESERVED  # the printer is loaded where something is printed

    return LaneMachine(
        capabilities=caps,
        products={**forms_of(arch), **group_forms_of(arch)},
        matrix_loads=matrix_loads(arch),
        async_copy_bytes=word_copies(arch),
        shared_bytes=arch.shared_bytes,
        engines=ENGINES if arch.has_group_products else None,
        block_registers=arch.processor_registers,
        hoists=True,
        meets_by_name=True,
        reserved=RESERVED | DECLARED,
    )
