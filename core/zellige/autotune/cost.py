"""A rough estimate of what a kernel costs, to leave hopeless configurations untried.

In: a kernel, what the target can do. Out: a :class:`Cost`. The model counts what the tile IR says: elements moved between global and
on-chip memory, multiplications, points of elementwise work, the number of tile operations, memory that a block needs, and how evenly the
grid fills the machine. It ranks configurations of one kernel; its times mean nothing between kernels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from zellige.dtypes import DType
from zellige.ir.expr import Buffer, Expr, Region, Var
from zellige.ir.sizes import SizeError, evaluate_size, size_vars
from zellige.ir.stmt import Alloc, For, Gemm, Kernel, Launch, Map, Pipelined, StmtNode
from zellige.plugin.contract import Capabilities

_NOMINAL_SIZE: Final = 1024
"""Stands for a symbolic size."""
_NOMINAL_TRIPS: Final = 8
"""Stands for a loop whose length only shows at run time."""
_BYTES_A_UNIT: Final = 16.0
_UNITS_A_STEP: Final = 200.0
"""What starting a tile operation costs, whatever its size."""
_ROOMY: Final = 1 << 20
"""Bytes that a block may use where the target names neither a limit nor its caches: about what one core's cache holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """``time`` in units of one vector operation; ``reason`` says why the target cannot run it, where it cannot."""

    time: float
    reason: str = ""


@dataclass(slots=True)
class _Count:
    """Sums over one block."""

    moved_bytes: float = 0.0
    work: float = 0.0
    steps: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rates:
    """How fast the target is in units of one operation on a vector: bytes that arrive meanwhile, and products, by element type, where the
    target states both (else each vector of their operands is a unit)."""

    vector_bytes: int
    bytes_a_unit: float = _BYTES_A_UNIT
    operations_a_unit: Mapping[str, float] = field(default_factory=dict)

    @staticmethod
    def of(capabilities: Capabilities) -> _Rates:
        width = capabilities.vector_bytes or 16
        peaks = {(peak.dtype, peak.is_product): peak.operations_per_second for peak in capabilities.peaks}
        units_per_second = peaks.get(("float32", False), 0.0) / (width / 4)
        if not units_per_second or not capabilities.bytes_per_second:
            return _Rates(vector_bytes=width)
        products = {dtype: rate / units_per_second for (dtype, is_product), rate in peaks.items() if is_product and rate}
        return _Rates(
            vector_bytes=width, bytes_a_unit=capabilities.bytes_per_second / units_per_second, operations_a_unit=products
        )

    def product_units(self, dtype: DType, multiplications: int) -> float:
        """What so many multiplications of elements, each with its addition, take."""
        stated = self.operations_a_unit.get(dtype.name)
        return 2 * multiplications / stated if stated else multiplications * dtype.storage_bits / 8 / self.vector_bytes


def estimate(kernel: Kernel, capabilities: Capabilities) -> Cost:
    """The cost of a kernel, all launches together."""
    sizes = dict.fromkeys(size_vars(kernel), _NOMINAL_SIZE)
    rates = _Rates.of(capabilities)
    total = 0.0
    for launch in kernel.launches:
        used = _block_bytes(launch, sizes)
        for space in capabilities.spaces:
            if space.bytes is not None and used.get(space.name, 0) > space.bytes:
                return Cost(time=math.inf, reason=f"a block needs {used[space.name]} bytes of {space.name}, the target has {space.bytes}")
        count = _counted(launch.body, sizes, rates)
        blocks = math.prod(_value(extent, sizes, 1) for extent in launch.grid)
        rows = max(capabilities.threads, 1)
        waves = math.ceil(blocks / rows)
        crowded = 2.0 if sum(used.values()) > _room(capabilities) else 1.0
        total += waves * (crowded * count.moved_bytes / rates.bytes_a_unit + count.work + _UNITS_A_STEP * count.steps)
    return Cost(time=total)


def _room(capabilities: Capabilities) -> int:
    """Bytes of a block that stay near its core: what the second cache of the core holds, or the only one."""
    caches = capabilities.cache_bytes
    return caches[min(1, len(caches) - 1)] if caches else _ROOMY


def _block_bytes(launch: Launch, sizes: Mapping[Var, int]) -> dict[str, int]:
    """Bytes that a block allocates, by space; the buffers of a pipelined loop's copies once for each stage."""
    used: dict[str, int] = {}
    stages: dict[Buffer, int] = {}
    for statement in _all(launch.body):
        if isinstance(statement, For) and isinstance(statement.kind, Pipelined):
            for inner in _all(statement.body):
                for region in inner.writes():
                    stages[region.buffer.root] = max(stages.get(region.buffer.root, 1), statement.kind.stages)
    for statement in _all(launch.body):
        if isinstance(statement, Alloc):
            buffer = statement.buffer
            copies = stages.get(buffer, 1) if buffer.space == "shared" else 1
            elements = math.prod(_value(extent, sizes, 1) for extent in buffer.shape)
            used[buffer.space] = used.get(buffer.space, 0) + copies * -(-elements * buffer.dtype.storage_bits // 8)
    return used


def _all(body: Sequence[StmtNode]) -> list[StmtNode]:
    found: list[StmtNode] = []
    pending = list(reversed(body))
    while pending:
        statement = pending.pop()
        found.append(statement)
        for name in reversed(statement.BODIES):
            pending.extend(reversed(getattr(statement, name)))
    return found


def _counted(body: Sequence[StmtNode], sizes: Mapping[Var, int], rates: _Rates) -> _Count:
    count = _Count()
    vector_bytes = rates.vector_bytes
    pending: list[tuple[StmtNode, float]] = [(statement, 1.0) for statement in body]
    while pending:
        statement, times = pending.pop()
        inner = times
        match statement:
            case For():
                inner *= _trips(statement, sizes)
            case Map():
                points = math.prod(_value(extent, sizes, _NOMINAL_TRIPS) for extent in statement.extents)
                count.work += times * points * len(statement.body) * 4 / vector_bytes
                count.steps += times
                continue
            case Gemm():
                rows, depth = (_value(extent, sizes, 1) for extent in statement.a.extents[-2:])
                if statement.transpose_a:
                    rows, depth = depth, rows
                columns = _value(statement.c.extents[-1], sizes, 1)
                count.work += times * rates.product_units(statement.a.buffer.dtype, rows * depth * columns)
                count.steps += times
            case _ if statement.READS or statement.WRITES:
                regions = [r for name in (*statement.READS, *statement.WRITES) if isinstance(r := getattr(statement, name), Region)]
                elements = max((_elements(region, sizes) for region in regions), default=0)
                moved = [region for region in regions if region.buffer.root.space == "global"]
                count.moved_bytes += times * sum(_elements(r, sizes) * r.buffer.dtype.storage_bits / 8 for r in moved)
                count.work += times * elements * 4 / vector_bytes
                count.steps += times
        for name in statement.BODIES:
            pending.extend((nested, inner) for nested in getattr(statement, name))
    return count


def _trips(loop: For, sizes: Mapping[Var, int]) -> int:
    try:
        start, stop, step = (evaluate_size(bound, sizes) for bound in (loop.start, loop.stop, loop.step))
    except SizeError:
        return _NOMINAL_TRIPS
    return len(range(start, stop, step)) if step else 0


def _elements(region: Region, sizes: Mapping[Var, int]) -> int:
    return math.prod(_value(extent, sizes, 1) for extent in region.extents)


def _value(expr: Expr, sizes: Mapping[Var, int], otherwise: int) -> int:
    try:
        return evaluate_size(expr, sizes)
    except SizeError:
        return otherwise
