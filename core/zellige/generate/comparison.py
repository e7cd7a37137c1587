"""Running a program everywhere and comparing what comes out.

In: a program and targets. Out: problems, in words. The interpreter is the reference: it must find nothing to report, give the same bits
every time, in any order of the blocks, after the text form and after the passes. A target must agree with it exactly where the facts
of the program say so, else within the bound that they carry, and leave the memory around its tensors alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from zellige.diagnostics import Unsupported, ZelligeError
from zellige.driver import compile_kernel, legalise
from zellige.elements.conversion import Array
from zellige.generate.facts import Fact, Unbounded, elements, full_range
from zellige.generate.lane_claims import LaneClaims
from zellige.generate.program import LANES, Argument, Program, memory_of, over, span_of
from zellige.generate.statement_facts import State
from zellige.interp import Report, interpret
from zellige.interp.frame import Observer
from zellige.ir.expr import Buffer
from zellige.ir.parser import parse_kernel
from zellige.ir.printer import print_kernel
from zellige.ir.sizes import size_vars
from zellige.ir.stmt import For, Kernel, Pipelined, ScalarParam, TensorParam
from zellige.ir.traverse import rewrite, same_structure
from zellige.ir.verify import verify
from zellige.plugin.registry import registry

GUARD: Final = 256
"""So many bytes on each side of a tensor must not change."""

_PATTERN: Final = 0xA5

_ORDER: Final = 49
"""A seed with which of up to ten blocks another one than usual comes first, and another one last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """``kind`` is a short word: invalid, text, report, order, passes, rule, claims, or (with the target's name) target, stages, refused by.

    ``detail`` is for the reader.
    """

    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run leaves in each tensor parameter that the caller can see: arguments and outputs, by index of the parameter."""

    tensors: dict[int, Array]
    findings: tuple[str, ...] = ()


def interpreted(
    program: Program,
    *,
    kernel: Kernel | None = None,
    report: Report | None = None,
    seed: int | None = None,
    observer: Observer | None = None,
) -> Outcome:
    """Run a program, or another kernel on its arguments, on the interpreter."""
    chosen = kernel or program.kernel
    arguments = program.copies()
    run = interpret(chosen, arguments, lanes=LANES, report=report, seed=seed, observer=observer)
    tensors = {index: argument for index, argument in enumerate(arguments) if isinstance(argument, np.ndarray)}
    tensors.update(zip(chosen.results, run.results))
    return Outcome(tensors=tensors, findings=tuple(finding.render() for finding in run.findings))


def _guarded(like: Array, index: int, content: Array | None) -> tuple[Array, Array]:
    """Memory with a guard band on both sides and an array inside of it, aligned to its elements only; ``content`` fills it."""
    size = span_of(like)
    whole = np.full(size + 2 * GUARD + 128, _PATTERN, np.uint8)
    begin = GUARD + (-(whole.ctypes.data + GUARD)) % 64 + like.itemsize * (index % 3)
    inner = whole[begin : begin + size]
    if content is not None:
        inner[...] = content
    return whole, over(inner, like)


def launched(program: Program, target: str, shapes: Outcome, *, kernel: Kernel | None = None) -> tuple[Outcome, list[str]]:
    """Compile a program for a target and run it; what it leaves, and what it did to memory that is not its own.

    ``shapes`` is the outcome of another run, which says what form outputs have. Raises what compiling and launching raise.
    """
    chosen = kernel or program.kernel
    compiled = compile_kernel(chosen, target)
    tensors: dict[int, Array] = {}
    kept: dict[int, tuple[Array, Array]] = {}
    pointers: list[int] = []
    scalars: list[int | float] = []
    for index, (param, argument) in enumerate(zip(chosen.params, program.arguments)):
        if isinstance(param, ScalarParam):
            assert isinstance(argument, (int, float))
            scalars.append(argument)
            continue
        like = _form_of(program, param, index, argument, shapes)
        whole, inner = _guarded(like, index, memory_of(argument) if isinstance(argument, np.ndarray) else None)
        tensors[index], kept[index] = inner, (whole, whole.copy())
        pointers.append(inner.ctypes.data if inner.size else 0)
    values = program.sizes()
    compiled.launch(pointers, scalars, [values[var] for var in size_vars(program.kernel)])  # another kernel has them in the same order
    faults = [
        f"bytes outside of {chosen.params[index].buffer.name} were written"  # type: ignore[union-attr]
        for index, (now, before) in kept.items()
        if not np.array_equal(_outside(now, tensors[index], now), _outside(before, tensors[index], now))
    ]
    return Outcome(tensors=tensors), faults


def _outside(memory: Array, inner: Array, base: Array) -> Array:
    """The bytes of ``memory`` that do not belong to an element of ``inner``, which lies in ``base``, a piece of memory like it."""
    mask = np.ones(memory.size, bool)
    if inner.size:
        begin = inner.ctypes.data - base.ctypes.data
        inside = np.lib.stride_tricks.as_strided(mask[begin:], (*inner.shape, inner.itemsize), (*inner.strides, 1))
        inside[...] = False
    return memory[mask]


def _form_of(program: Program, param: TensorParam, index: int, argument: Argument, shapes: Outcome) -> Array:
    if isinstance(argument, np.ndarray):
        return argument
    if index in shapes.tensors:
        return shapes.tensors[index]
    from zellige.ir.sizes import evaluate_size

    values = {**program.scalars(), **program.sizes()}
    extents = [evaluate_size(extent, values) for extent in param.buffer.shape]
    if param.buffer.dtype.bits == 4:
        return np.empty((*extents[:-1], extents[-1] // 2), np.uint8)
    return np.empty(extents, param.buffer.dtype.numpy)


def difference(expected: Array, actual: Array, buffer: Buffer, fact: Fact) -> str | None:
    """Where two tensors lie further apart than ``fact`` allows; None where they agree."""
    left, right = elements(expected, buffer.dtype), elements(actual, buffer.dtype)
    if not buffer.dtype.is_float:
        wrong = left != right
    else:
        with np.errstate(invalid="ignore"):
            wrong = np.isnan(left) != np.isnan(right)
            finite = np.isfinite(left) & np.isfinite(right)
            wrong |= ~finite & ~np.isnan(left) & (left != right)
            wrong |= finite & (np.abs(np.where(finite, left, 0) - np.where(finite, right, 0)) > fact.error)
            if not fact.is_zero_open and fact.is_exact:
                wrong |= (left == 0) & (right == 0) & (np.signbit(left) != np.signbit(right))
    if not wrong.any():
        return None
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    place = f"{buffer.name}[{', '.join(map(str, index))}]"
    allowed = "exactly" if fact.is_exact else f"within {fact.error:g}"
    counted = f"{int(wrong.sum())} of {wrong.size} elements of {buffer.dtype} differ"
    return f"{place} is {right[index]!s}, expected {left[index]!s} {allowed}; {counted}"


def differences(program: Program, expected: Outcome, actual: Outcome, facts: State | None) -> Iterator[str]:
    """Every tensor in which two runs differ; without ``facts`` every bit counts."""
    for index, param in enumerate(program.kernel.params):
        if not isinstance(param, TensorParam) or index not in expected.tensors:
            continue
        buffer = param.buffer
        if facts is None:
            left, right = memory_of(expected.tensors[index]), memory_of(actual.tensors[index])
            if not np.array_equal(left, right):
                fact = replace(full_range(buffer.dtype), error=0.0)
                found = difference(expected.tensors[index], actual.tensors[index], buffer, fact)
                yield found or f"the bits of {buffer.name} differ"
            continue
        found = difference(expected.tensors[index], actual.tensors[index], buffer, facts.get(buffer, full_range(buffer.dtype)))
        if found is not None:
            yield found


def with_stages(kernel: Kernel, stages: int) -> Kernel:
    """The kernel with another number of stages in every pipelined loop; the same object where there is none."""

    def visit(node: Any) -> Any:
        if isinstance(node, For) and isinstance(node.kind, Pipelined) and node.kind.stages != stages:
            return replace(node, kind=replace(node.kind, stages=stages))
        return node

    return rewrite(kernel, visit)


def check_program(program: Program, targets: Sequence[str] = (), *, is_thorough: bool = True) -> list[Problem]:
    """Everything that is wrong with a program or with how it runs. ``is_thorough`` repeats the reference in other orders and forms."""
    problems: list[Problem] = []
    kernel = program.kernel
    wrong = verify(kernel)
    if wrong:
        return [Problem(kind="invalid", detail="\n".join(diagnostic.render() for diagnostic in wrong))]
    try:
        facts = program.facts()
    except Unbounded as reason:
        return [Problem(kind="rule", detail=f"no bound can be derived: {reason}")]
    expected = interpreted(program, report=Report(bounds=False))
    if expected.findings:
        return [Problem(kind="report", detail="\n".join(expected.findings))]
    if is_thorough:
        problems += _reference_problems(program, expected, facts)
    for target in targets:
        problems += _target_problems(program, target, expected, facts)
    return problems


def _reference_problems(program: Program, expected: Outcome, facts: State) -> Iterator[Problem]:
    kernel = program.kernel
    text = print_kernel(kernel)
    parsed = parse_kernel(text)
    if not same_structure(parsed, kernel) or print_kernel(parsed) != text:
        yield Problem(kind="text", detail="the kernel does not survive the way through text")
    for found in differences(program, expected, interpreted(program, kernel=parsed, seed=_ORDER), facts):
        yield Problem(kind="order", detail=f"the result depends on the order of the blocks: {found}")
    if any(launch.lane_vars for launch in kernel.launches):
        claims = LaneClaims()
        interpreted(program, observer=claims)
        for broken in claims.broken:
            yield Problem(kind="claims", detail=broken)
    legal = legalise(kernel, registry().resolve("interp"))
    if legal is not kernel:
        for found in differences(program, expected, interpreted(program, kernel=legal), None):
            yield Problem(kind="passes", detail=f"the passes change the result: {found}")


def _target_problems(program: Program, target: str, expected: Outcome, facts: State) -> Iterator[Problem]:
    kind = f"target {target}"
    try:
        actual, faults = launched(program, target, expected)
    except Unsupported:
        return
    except ZelligeError as error:
        yield Problem(kind=f"refused by {target}", detail=str(error))
        return
    for fault in faults:
        yield Problem(kind=kind, detail=fault)
    for found in differences(program, expected, actual, facts):
        yield Problem(kind=kind, detail=found)
    for stages in (0, 3):
        other = with_stages(program.kernel, stages)
        if other is not program.kernel:
            again, _ = launched(program, target, expected, kernel=other)
            for found in differences(program, actual, again, None):
                yield Problem(kind=f"stages {target}", detail=f"with {stages} stages: {found}")
