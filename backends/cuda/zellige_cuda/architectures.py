"""Facts of CUDA architectures that planning and lowering use: one row an architecture.

Source: CUDA C++ Programming Guide 13, "Compute Capabilities", tables of technical specifications (shared memory a block with opt-in,
registers, processors do not follow from the architecture); PTX ISA 8.8 for which instruction needs which architecture.
"""

from __future__ import annotations

import re
from typing import Final

from zellige.diagnostics import catalogue
from zellige.diagnostics.suggest import closest
from zellige.records import dataclass
from zellige.target import Target

KIB: Final = 1024

LANE_REGISTERS: Final = 255
"""Registers that a lane can name (CUDA C++ Programming Guide, technical specifications: 32-bit registers per thread)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """``number`` is the compute capability times ten, ``shared_bytes`` what one block may have, ``name`` NVRTC's word. What a processor has
    for all its blocks: ``processor_shared_bytes``, ``processor_lanes``, ``processor_registers``."""

    number: int
    name: str
    shared_bytes: int
    processors: int
    processor_shared_bytes: int
    processor_lanes: int
    processor_registers: int = 65536

    @property
    def has_nibble_units(self) -> bool:
        """Whether the tensor cores multiply 4-bit integers; newer ones do not, and their compiler takes such instructions apart."""
        return 75 <= self.number < 90

    @property
    def has_group_products(self) -> bool:
        """Asynchronous products of warpgroups and registers that pass between warps: only under the architecture's own name."""
        return self.name == "sm_90a"


_ROWS: Final = (
    Architecture(number=75, name="sm_75", shared_bytes=64 * KIB, processors=40, processor_shared_bytes=64 * KIB, processor_lanes=1024),
    Architecture(number=80, name="sm_80", shared_bytes=163 * KIB, processors=108, processor_shared_bytes=164 * KIB, processor_lanes=2048),
    Architecture(number=86, name="sm_86", shared_bytes=99 * KIB, processors=84, processor_shared_bytes=100 * KIB, processor_lanes=1536),
    Architecture(number=87, name="sm_87", shared_bytes=163 * KIB, processors=16, processor_shared_bytes=164 * KIB, processor_lanes=1536),
    Architecture(number=89, name="sm_89", shared_bytes=99 * KIB, processors=128, processor_shared_bytes=100 * KIB, processor_lanes=1536),
    Architecture(number=90, name="sm_90", shared_bytes=227 * KIB, processors=132, processor_shared_bytes=228 * KIB, processor_lanes=2048),
    Architecture(number=90, name="sm_90a", shared_bytes=227 * KIB, processors=132, processor_shared_bytes=228 * KIB, processor_lanes=2048),
    Architecture(number=100, name="sm_100", shared_bytes=227 * KIB, processors=148, processor_shared_bytes=228 * KIB, processor_lanes=2048),
    Architecture(
        number=100, name="sm_100a", shared_bytes=227 * KIB, processors=148, processor_shared_bytes=228 * KIB, processor_lanes=2048
    ),
    Architecture(number=103, name="sm_103", shared_bytes=227 * KIB, processors=148, processor_shared_bytes=228 * KIB, processor_lanes=2048),
    Architecture(
        number=103, name="sm_103a", shared_bytes=227 * KIB, processors=148, processor_shared_bytes=228 * KIB, processor_lanes=2048
    ),
    Architecture(number=110, name="sm_110", shared_bytes=227 * KIB, processors=20, processor_shared_bytes=228 * KIB, processor_lanes=1536),
    Architecture(number=110, name="sm_110a", shared_bytes=227 * KIB, processors=20, processor_shared_bytes=228 * KIB, processor_lanes=1536),
    Architecture(number=120, name="sm_120", shared_bytes=99 * KIB, processors=170, processor_shared_bytes=100 * KIB, processor_lanes=1536),
    Architecture(number=120, name="sm_120a", shared_bytes=99 * KIB, processors=170, processor_shared_bytes=100 * KIB, processor_lanes=1536),
    Architecture(number=121, name="sm_121", shared_bytes=99 * KIB, processors=48, processor_shared_bytes=100 * KIB, processor_lanes=1536),
    Architecture(number=121, name="sm_121a", shared_bytes=99 * KIB, processors=48, processor_shared_bytes=100 * KIB, processor_lanes=1536),
)

ARCHITECTURES: Final = {row.name: row for row in _ROWS}

_SYSTEMS_ON_CHIP: Final = frozenset({87, 88, 101, 110})
"""Revisions of processors with a host on the same chip (Orin, Thor): their machine code and that of the others of the same major number do
not run on each other (CUDA C++ Programming Guide, "Binary Compatibility")."""

DEFAULT: Final = "sm_80"
"""The architecture meant where a target names none and no device is there."""


def architecture(target: Target) -> Architecture:
    """The architecture of a target. Raises E706 for one that is not known."""
    wanted = target.arch or DEFAULT
    name = wanted if wanted.startswith("sm_") else f"sm_{wanted}" if re.fullmatch(r"\d+a?", wanted) else wanted
    found = ARCHITECTURES.get(name)
    if found is None:
        base = _base_of(name)
        meant = f"; the machine code of {base} runs on it;" if base else closest(name, ARCHITECTURES) or ";"
        refused = f"there is no architecture {wanted!r}{meant}"
        if _is_older(name):
            refused = f"{wanted!r} is older than any that programs are made for;"
        raise catalogue.E706.error(target=str(target), reason=f"{refused} those known are {', '.join(ARCHITECTURES)}")
    return found


def _is_older(name: str) -> bool:
    """Whether a name is that of a processor from before the first known one: compute capability 2.0 to 7.2."""
    matched = re.fullmatch(r"sm_(\d\d)", name)
    return matched is not None and 20 <= int(matched[1]) < _ROWS[0].number


def _base_of(name: str) -> str:
    """The newest known architecture whose machine code runs on one that is not known; empty for none. Machine code runs on a later minor
    revision of the same compute capability (CUDA C++ Programming Guide, "Binary Compatibility")."""
    matched = re.fullmatch(r"sm_(\d+)(\d)[af]?", name)
    if matched is None:
        return ""
    number = int(matched[1] + matched[2])
    if number in _SYSTEMS_ON_CHIP:
        return ""
    plain = [row for row in _ROWS if row.name == f"sm_{row.number}" and row.number not in _SYSTEMS_ON_CHIP]
    older = [row for row in plain if row.number // 10 == number // 10 and row.number <= number]
    return older[-1].name if older else ""
