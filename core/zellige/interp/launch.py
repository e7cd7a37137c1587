"""Interpreting a kernel: binding its parameters, then every launch, block after block.

In: a kernel and its arguments as NumPy arrays and numbers, or as memory that is bound already. Out: the results and what the reports found.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from zellige.analysis.lint_races import blocks_may_wait
from zellige.diagnostics import Diagnostic
from zellige.dtypes import DType
from zellige.elements.conversion import FLOAT64, INT64, Array, cast
from zellige.interp.blocks import BlockWatch
from zellige.interp.expressions import evaluate, integer, layout_of
from zellige.interp.frame import Frame, Observer, Place, Run
from zellige.interp.lanes import TARGET, Turns, lane_values
from zellige.interp.memory import Layout, Memory, memory_at, storage_bytes
from zellige.interp.report import Report
from zellige.interp.statements import run_body
from zellige.ir.expr import Buffer, Var
from zellige.ir.lanes import lane_dependence
from zellige.ir.sizes import SizeSystem
from zellige.ir.stmt import Barrier, Kernel, Launch, ScalarParam, TensorParam
from zellige.ir.traverse import walk
from zellige.ir.warp_width import with_warps_of
from zellige.records import dataclass

NO_REPORT = Report(races=False, undefined=False, bounds=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpretation:
    """``results`` are the arrays of ``kernel.results``, in order (the argument itself where a result is an argument); iterating gives them.
    ``findings`` are the warnings of the report that was asked for."""

    results: tuple[Array, ...]
    findings: tuple[Diagnostic, ...]

    def __iter__(self) -> Iterator[Array]:
        return iter(self.results)


def interpret(
    kernel: Kernel,
    arguments: Sequence[Array | int | float | None],
    *,
    lanes: int = 32,
    report: Report | None = None,
    seed: int | None = None,
    observer: Observer | None = None,
) -> Interpretation:
    """Run ``kernel`` on NumPy arrays, which change as the kernel says.

    ``arguments``: one a parameter, or one a parameter of role "argument" and scalar. None makes a fresh, undefined tensor where the role is
    output or workspace. A 4-bit tensor is an int8 or uint8 array with two elements to a byte along the last dimension; a tensor of
    vectors has the lanes as one more, last dimension. An array that is not dense is copied in and out unless its
    parameter declares strides. ``lanes`` is the width of a warp; ``seed`` shuffles the blocks (None: the first grid axis fastest).
    ``observer`` is told of each statement before it runs.
    Raises LaunchError for a failed assertion, ValueError for arguments that do not fit.
    """
    bound = Arguments(kernel, arguments, tracks_undefined=report is not None and report.undefined)
    findings = run_kernel(kernel, bound.values, bound.memories, lanes=lanes, report=report, seed=seed, observer=observer)
    bound.copy_back()
    return Interpretation(results=tuple(bound.arrays[index] for index in kernel.results), findings=findings)


def run_kernel(
    kernel: Kernel,
    values: dict[Var, Array],
    memories: Sequence[Memory],
    *,
    lanes: int = 32,
    report: Report | None = None,
    seed: int | None = None,
    observer: Observer | None = None,
) -> tuple[Diagnostic, ...]:
    """Run every launch in order. ``values`` are those of sizes and scalar parameters, ``memories`` one a tensor parameter."""
    kernel = with_warps_of(kernel, lanes, TARGET)
    run = Run(report=report or NO_REPORT, warp=lanes, random=np.random.default_rng(0 if seed is None else seed), observer=observer)
    tensors = [param for param in kernel.params if isinstance(param, TensorParam)]
    places = {param.buffer: Place(memory=memory) for param, memory in zip(tensors, memories)}
    with np.errstate(all="ignore"):
        for launch in kernel.launches:
            _launch(run, launch, values, places, is_shuffled=seed is not None)
        if run.report.undefined:
            frame = Frame(kind="block", count=1, values=values, places=places)
            for param in tensors:
                _report_unwritten(run, frame, param, places[param.buffer])
    return run.findings.result()


def _report_unwritten(run: Run, frame: Frame, param: TensorParam, place: Place) -> None:
    memory, buffer = place.memory, param.buffer
    if param.role != "output" or memory.undefined is None:
        return
    layout = layout_of(run, frame, buffer, place)
    elements = np.arange(layout.span)
    missing = memory.any_half(memory.undefined, memory.positions(elements, 0, buffer.dtype), buffer.dtype)
    missing = np.asarray(missing.any(axis=-1)) if buffer.dtype.lanes > 1 else missing
    if missing.any():
        run.findings.unwritten(buffer, layout, elements[missing])


def _launch(run: Run, launch: Launch, values: dict[Var, Array], places: dict[Buffer, Place], *, is_shuffled: bool) -> None:
    frame = Frame(kind="block", count=1, values=dict(values), places=places)
    run.statement, run.lanewise = None, {}
    grid = [integer(run, frame, extent, True, what="a grid extent") for extent in launch.grid]
    cells = [tuple(reversed(cell)) for cell in itertools.product(*(range(extent) for extent in reversed(grid)))]
    if is_shuffled:
        run.random.shuffle(cells)
    kind, count, lane_numbers = "block", 1, {}
    run.dependence = None
    if launch.lane_vars:
        threads = [integer(run, frame, extent, True, what="a number of threads") for extent in launch.threads or ()]
        kind, count, lane_numbers = "lanes", int(np.prod(threads)), lane_values(launch.lane_vars, threads)
        run.dependence = lane_dependence(launch)

    run.blocks = BlockWatch(run.findings, cells) if run.report.races and not blocks_may_wait(launch) else None

    def block(cell: tuple[int, ...], barrier: Callable[[], None] | None = None) -> None:
        own = {var: np.asarray(np.int64(index)).astype(var.dtype.numpy) for var, index in zip(launch.grid_vars, cell)}
        inner = Frame(kind=kind, count=count, values={**values, **own, **lane_numbers}, places=dict(places))  # type: ignore[arg-type]
        run.safe_values = {
            safe.buffer: cast(evaluate(run, inner, safe.value), safe.value.dtype, safe.buffer.dtype) for safe in launch.safe_values
        }
        run_body(run, inner, launch.body, True, None)

    if any(isinstance(node, Barrier) and node.scope in ("cluster", "grid") for node in walk(launch)):
        _together(run, [partial(block, cell) for cell in cells])
    else:
        for number, cell in enumerate(cells):
            if run.blocks is not None:
                run.blocks.block = number
            block(cell)


def _together(run: Run, blocks: Sequence[Callable[[Callable[[], None]], None]]) -> None:
    """Run blocks that wait for each other: what a run keeps of the block in work is exchanged at each turn."""

    def with_turns(block: Callable[[Callable[[], None]], None]) -> Callable[[Callable[[], None]], None]:
        def body(wait: Callable[[], None]) -> None:
            def barrier() -> None:
                kept = run.safe_values, run.statement
                wait()
                run.safe_values, run.statement = kept
                run.barrier = barrier

            run.barrier = barrier
            with np.errstate(all="ignore"):  # the setting belongs to the thread
                block(barrier)

        return body

    Turns([with_turns(block) for block in blocks]).run()
    run.barrier = None


def scalar_value(value: Any, dtype: DType) -> Array:
    """A Python number as the value of a scalar parameter."""
    if dtype.is_float:
        return cast(np.array(float(value)), FLOAT64, dtype)
    return cast(np.array(int(value) & 0xFFFF_FFFF_FFFF_FFFF, np.uint64).astype(np.int64), INT64, dtype)


class Arguments:
    """The parameters bound to NumPy arrays: ``arrays`` by index, one of ``memories`` a tensor, ``values`` of sizes and scalars."""

    def __init__(self, kernel: Kernel, arguments: Sequence[Any], *, tracks_undefined: bool) -> None:
        given = self._aligned(kernel, arguments)
        self.values: dict[Var, Array] = {}
        self.arrays: dict[int, Array] = {}
        self.memories: list[Memory] = []
        self._copies: list[tuple[Array, Array]] = []
        for param, argument in zip(kernel.params, given):
            if argument is None and (isinstance(param, ScalarParam) or param.role == "argument"):
                name = param.var.name if isinstance(param, ScalarParam) else param.buffer.name
                raise ValueError(f"the argument {name} is missing")
        scalars = {p.var: a for p, a in zip(kernel.params, given) if isinstance(p, ScalarParam)}
        self.values.update((var, scalar_value(value, var.dtype)) for var, value in scalars.items())
        self._solve(kernel, given, {var: int(value) for var, value in scalars.items() if var.dtype.is_integer})
        for index, (param, argument) in enumerate(zip(kernel.params, given)):
            if isinstance(param, TensorParam):
                self.memories.append(self._bind(index, param, argument, tracks_undefined))

    @staticmethod
    def _aligned(kernel: Kernel, arguments: Sequence[Any]) -> list[Any]:
        if len(arguments) == len(kernel.params):
            return list(arguments)
        passed = [isinstance(param, ScalarParam) or param.role == "argument" for param in kernel.params]
        if len(arguments) != sum(passed):
            raise ValueError(f"{kernel.name} takes {len(kernel.params)} or {sum(passed)} arguments, got {len(arguments)}")
        rest = iter(arguments)
        return [next(rest) if is_passed else None for is_passed in passed]

    def _solve(self, kernel: Kernel, given: Sequence[Any], scalars: dict[Var, int]) -> None:
        shapes: dict[int, tuple[int, ...]] = {}
        strides: dict[int, tuple[int, ...]] = {}
        for index, (param, argument) in enumerate(zip(kernel.params, given)):
            if isinstance(param, TensorParam) and argument is not None:
                shapes[index], strides[index] = _extents(param.buffer, argument)
        sizes, mismatches = SizeSystem.of(kernel).solve(shapes, strides, scalars)
        if mismatches:
            first = mismatches[0]
            buffer = kernel.params[first.equation.param].buffer  # type: ignore[union-attr]
            raise ValueError(f"dimension {first.equation.dimension} of {buffer.name} is {first.given}, expected {first.expected}")
        for var, size in sizes.items():
            self.values[var] = scalar_value(size, var.dtype)

    def _bind(self, index: int, param: TensorParam, argument: Array | None, tracks_undefined: bool) -> Memory:
        buffer = param.buffer
        run = Run(report=NO_REPORT, warp=1, random=np.random.default_rng(0))
        frame = Frame(kind="block", count=1, values=self.values, places={})
        layout = layout_of(run, frame, buffer, Place(memory=Memory.fresh(0, buffer.dtype)))
        if argument is None:
            memory = Memory.fresh(layout.span, buffer.dtype, tracks_undefined=tracks_undefined)
            self.arrays[index] = _array_over(memory, buffer.dtype, layout)
            return memory
        native = np.dtype(np.uint8) if buffer.dtype.bits == 4 else buffer.dtype.scalar.numpy
        if argument.dtype != native and not (buffer.dtype.bits == 4 and argument.dtype == np.int8):
            raise ValueError(f"{buffer.name} is {buffer.dtype}, got an array of {argument.dtype}")
        self.arrays[index] = argument
        if buffer.strides is not None:
            return memory_at(argument.ctypes.data, storage_bytes(layout.span, buffer.dtype))
        if argument.flags.c_contiguous:
            flat = argument.reshape(-1)
        else:
            flat = argument.reshape(-1).copy()
            self._copies.append((argument, flat))
        cells = flat.view(np.uint8)
        return Memory(cells=cells, copies=1, copy_bytes=cells.size)

    def copy_back(self) -> None:
        """Give arrays that are not dense what their copies hold now."""
        for array, flat in self._copies:
            array[...] = flat.reshape(array.shape)


def _extents(buffer: Buffer, array: Array) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape and strides of an array in elements of the buffer's type."""
    shape, strides = list(array.shape), [stride // array.itemsize for stride in array.strides]
    if buffer.dtype.lanes > 1:
        shape, strides = shape[:-1], [stride // buffer.dtype.lanes for stride in strides[:-1]]
    if len(shape) != buffer.rank:
        raise ValueError(f"{buffer.name} has {buffer.rank} dimensions, got an array of {array.ndim}")
    if buffer.dtype.bits == 4 and buffer.dtype.lanes == 1 and shape:
        shape[-1] *= 2
        strides = [2 * stride for stride in strides[:-1]] + strides[-1:]
    return tuple(shape), tuple(strides)


def _array_over(memory: Memory, dtype: DType, layout: Layout) -> Array:
    """The elements of fresh dense storage as an array of the form that arguments have."""
    shape = layout.shape + ((dtype.lanes,) if dtype.lanes > 1 else ())
    if dtype.bits == 4:
        shape = (*shape[:-1], -(-shape[-1] // 2))
        flat: Array = memory.cells
    else:
        flat = memory.view(dtype.scalar)
        if dtype.is_bool:
            flat = flat.view(np.bool_)
    return flat[: int(np.prod(shape, dtype=np.int64))].reshape(shape)
