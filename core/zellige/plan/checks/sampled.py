"""A plan run abstractly for samples of sizes, blocks and scalars, and compared with its kernel.

In: a kernel and one of its planned launches. Out: problems of the checks 2 to 6, 9 to 12, 14 and 17 of :mod:`zellige.plan.check`,
and in words what could be followed in part only.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from zellige.ir.expr import Buffer
from zellige.ir.stmt import Kernel
from zellige.ir.traverse import buffers_in
from zellige.plan.checks.comparison import compare
from zellige.plan.checks.problem import Problems
from zellige.plan.checks.programs import Machine, Rejected, trace_original
from zellige.plan.checks.roles import trace_plan
from zellige.plan.checks.samples import cells, parameter_samples
from zellige.plan.checks.signatures import Signatures
from zellige.plan.checks.storage import Contents
from zellige.plan.checks.tiles import check_tiles_taken
from zellige.plan.checks.values import abstract_run
from zellige.plan.nodes import PlannedLaunch

COVERAGE: Final = 14
"""The number in the list of :mod:`zellige.plan.check`."""

_ATTEMPTS: Final = 4
"""So many samples are tried for each that is wanted, since some contradict what the kernel assumes of its sizes."""

_LARGE: Final = 2
"""So many blocks of too many operations are followed in part; more would cost seconds and show the same."""


def run_samples(kernel: Kernel, planned: PlannedLaunch, problems: Problems, samples: int, seed: int) -> list[str]:
    """Run samples until enough are accepted; what could be followed in part only, in words."""
    signatures, run = Signatures(), abstract_run()
    accepted = large = longest = empty = tried = 0
    deepest = max((channel.depth for channel in planned.channels), default=1)
    attempts = parameter_samples(kernel, planned.launch, count=_ATTEMPTS * samples, seed=seed, deepest=deepest)
    uncounted = ""
    for index, values in enumerate(attempts):
        if accepted == samples or large >= _LARGE:
            break
        tried += 1
        outer = Machine(run=run, values=dict(values), signatures=signatures, contents=Contents(), seed=seed)
        uncounted = check_tiles_taken(planned, outer, problems) or uncounted
        chosen = cells([outer.integer(extent) for extent in planned.launch.grid])
        empty += not chosen
        outcomes: set[_Outcome] = set()
        for cell in chosen:
            if large >= _LARGE:
                break
            block = Machine(run=run, values=dict(values), signatures=signatures, contents=Contents(), seed=seed + index)
            for var, place in zip(planned.launch.grid_vars, cell):
                block.set_loop(var, place)
            outcome, operations = _run_block(planned, block, problems)
            longest = max(longest, operations)
            outcomes.add(outcome)
            large += outcome == "large"
        accepted += bool(outcomes) and outcomes <= {"accepted"}
    notes = [uncounted] if uncounted else []
    if accepted or empty == tried:
        return notes
    if large:
        return [*notes, f"its blocks have too many operations: they were followed through the first {longest}, not to their ends"]
    problems.add(COVERAGE, f"none of {tried} samples satisfies what the kernel assumes: the plan was not run")
    return notes


_Outcome: TypeAlias = Literal["accepted", "rejected", "large"]


def _run_block(planned: PlannedLaunch, block: Machine, problems: Problems) -> tuple[_Outcome, int]:
    """Compare what the launch and its plan do in one block: as a whole, or the first part of very much ("large"). "rejected": the sample
    is none that the kernel promises to work for. With it the number of operations."""
    signatures, values, seed = block.signatures, block.values, block.seed
    try:
        original = trace_original(planned.launch, values, signatures, block.run, seed=seed)
    except Rejected:
        return "rejected", 0
    done = trace_plan(planned, values, signatures, block.run, problems, original, seed=seed)
    if done is not None:
        buffers: dict[int, Buffer] = {signatures.buffer(buffer): buffer for buffer in buffers_in(planned.launch)}
        compare(original, done, signatures, problems, buffers)
    return "large" if original.is_cut else "accepted", original.operations
