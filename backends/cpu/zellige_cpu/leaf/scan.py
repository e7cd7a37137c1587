"""Running sums, products, maxima and minima of a tile along one axis.

In: a :class:`ScanSpec`. Out: the name of a function ``void (ptr src, ptr dst)`` in the module; dst may be src.

Elements are combined in order in the type that both sides promote to (at least float32 for floats), and each result is converted once.
Where another dimension is contiguous on both sides, its positions are the lanes; else several rows advance together.
"""

from __future__ import annotations

from typing import Final

from zellige.diagnostics import InternalError
from zellige.dtypes import DType
from zellige.ir.reductions import reduction_dtype
from zellige.ir.stmt import ScanOp
from zellige.records import dataclass
from zellige_cpu.leaf.boxes import Dimension, loops, merged, stretches
from zellige_cpu.leaf.reduce import combined, identity, stored
from zellige_cpu.leaf.vectors import lane_mask, load_lanes
from zellige_cpu.text import Function, Module
from zellige_cpu.types import element_bytes
from zellige_cpu.values import Value, constant

_GROUP: Final = 4  # independent chains that advance together


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSpec:
    """Extents and strides (elements) of both sides, one entry a dimension; ``reverse`` starts at the end of the axis."""

    shape: tuple[int, ...]
    axis: int
    src_strides: tuple[int, ...]
    dst_strides: tuple[int, ...]
    src: DType
    dst: DType
    op: ScanOp
    reverse: bool = False


@dataclass(frozen=True, slots=True)
class _Chain:
    """One running result (a vector of them): where it begins on both sides, and the lanes in use (None: all)."""

    source: Value
    target: Value
    lanes: int
    mask: Value | None


def emit_scan(module: Module, spec: ScanSpec) -> str:
    """The name of the function that scans by ``spec``, made on first use."""
    if not 0 <= spec.axis < len(spec.shape) or min(spec.shape) < 1:
        raise InternalError(f"scan of shape {spec.shape} along axis {spec.axis}")
    strides = "_".join(str(s) for s in (*spec.src_strides, "to", *spec.dst_strides))
    shape = "x".join(str(extent) for extent in spec.shape)
    name = f"scan_{spec.op}_{spec.src}_{spec.dst}_{shape}_{spec.axis}_{strides}{'_reverse' * spec.reverse}"
    if module.has_function(name):
        return name
    fn = module.function(name, "void", [("src", "ptr"), ("dst", "ptr")], inline=False)
    source, target = fn.params
    size, dst_size = element_bytes(spec.src), element_bytes(spec.dst)
    if spec.reverse:
        last = spec.shape[spec.axis] - 1
        source = fn.offset(source, last * spec.src_strides[spec.axis] * size)
        target = fn.offset(target, last * spec.dst_strides[spec.axis] * dst_size)
    others = [i for i in range(len(spec.shape)) if i != spec.axis]
    kept = merged([Dimension(extent=spec.shape[i], source=spec.src_strides[i], target=spec.dst_strides[i]) for i in others])
    lanes = module.host.lanes(max(element_bytes(reduction_dtype(spec.src, spec.dst)), size, dst_size))
    inner = next((d for d in reversed(kept) if d.source == 1 and d.target == 1), None)
    if inner is None:
        lanes, inner = 1, kept[-1] if kept else Dimension(extent=1, source=0, target=0)
    outer = [d for d in kept if d is not inner]
    with loops(fn, outer, source, target, size, dst_size) as (row, place):
        for stretch in stretches(fn, inner.extent, lanes, _GROUP):
            first = fn.offset(row, fn.binary("mul", stretch.start, constant("i64", inner.source * size)))
            result = fn.offset(place, fn.binary("mul", stretch.start, constant("i64", inner.target * dst_size)))
            chains = [
                _Chain(
                    fn.offset(first, v * lanes * inner.source * size),
                    fn.offset(result, v * lanes * inner.target * dst_size),
                    lanes,
                    lane_mask(lanes, stretch.last_lanes) if stretch.last_lanes and v == stretch.vectors - 1 else None,
                )
                for v in range(stretch.vectors)
            ]
            _emit_chains(fn, spec, chains)
    return name


def _emit_chains(fn: Function, spec: ScanSpec, chains: list[_Chain]) -> None:
    """The loop along the axis, all chains one step an iteration."""
    accumulator = reduction_dtype(spec.src, spec.dst)
    size, dst_size = element_bytes(spec.src), element_bytes(spec.dst)
    direction = -1 if spec.reverse else 1
    with fn.loop(constant("i64", 0), constant("i64", spec.shape[spec.axis])) as loop:
        read = fn.binary("mul", loop.index, constant("i64", direction * spec.src_strides[spec.axis] * size))
        write = fn.binary("mul", loop.index, constant("i64", direction * spec.dst_strides[spec.axis] * dst_size))
        carried = [loop.carry(identity(spec.op, accumulator, chain.lanes)) for chain in chains]
        totals = []
        for chain, before in zip(chains, carried):
            value = load_lanes(fn, fn.offset(chain.source, read), spec.src, accumulator, chain.lanes, chain.mask)
            totals.append(combined(fn, spec.op, before, value, accumulator))
            loop.update(before, totals[-1])
        for chain, total in zip(chains, totals):
            result = stored(fn, total, accumulator, spec.dst)
            if chain.mask is None:
                fn.store(result, fn.offset(chain.target, write), align=dst_size)
            else:
                fn.masked_store(result, fn.offset(chain.target, write), chain.mask, align=dst_size)
