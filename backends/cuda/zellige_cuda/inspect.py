"""What can be looked at in a compiled kernel beyond its source: the compiler's report, PTX, SASS.

In: a kernel that was compiled here. Out: numbers read from the log of ptxas, texts, files. Needs no device.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from zellige.records import dataclass
from zellige_cuda.compiler import compile_ptx, usage_of
from zellige_cuda.device import CudaKernel

SPILLED_BYTES: Final = 4
"""Bytes of a register."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUsage:
    """What one launch takes: ``registers`` a lane, ``spill_bytes`` that a lane stores to local memory and loads from it for want of
    registers, ``local_bytes`` of local memory that a lane has (spills, arrays whose elements cannot be registers, what calls keep),
    ``shared_bytes`` a block."""

    name: str
    registers: int
    spill_bytes: int
    shared_bytes: int
    threads: int
    local_bytes: int = 0


def resource_usage(kernel: CudaKernel) -> tuple[ResourceUsage, ...]:
    """One entry a launch."""
    usage = usage_of(kernel.log)
    entries = []
    for function in kernel.functions:
        used = usage[function["name"]]
        entries.append(
            ResourceUsage(
                name=function["name"], registers=used.registers, spill_bytes=used.spilled_bytes, shared_bytes=function["shared"],
                threads=function["threads"], local_bytes=used.stack_bytes,
            )
        )  # fmt: skip
    return tuple(entries)


def n_regs(kernel: CudaKernel) -> int:
    """Registers a lane, of the launch that takes most."""
    return max(entry.registers for entry in resource_usage(kernel))


def n_spills(kernel: CudaKernel) -> int:
    """Stores and loads of spilled registers by a lane, of all launches."""
    return sum(entry.spill_bytes for entry in resource_usage(kernel)) // SPILLED_BYTES


def get_ptx(kernel: CudaKernel) -> str:
    """PTX of the same text."""
    return compile_ptx(kernel.source(), "kernel", kernel.arch)


def show_ptx(kernel: CudaKernel) -> None:
    """Print PTX."""
    print(get_ptx(kernel))


def show_sass(kernel: CudaKernel) -> None:
    """Print the machine code."""
    print(kernel.assembly())


def export_ptx(kernel: CudaKernel, path: str | Path) -> None:
    """Write PTX to a file."""
    _write(path, get_ptx(kernel))


def export_sass(kernel: CudaKernel, path: str | Path) -> None:
    """Write the machine code to a file."""
    _write(path, kernel.assembly())


def _write(path: str | Path, text: str) -> None:
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
