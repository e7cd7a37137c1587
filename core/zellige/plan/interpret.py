"""The plan interpreter: a planned kernel on NumPy, with its roles interleaved as adversely as the plan allows.

In: a plan and the kernel's arguments. Out: results as the interpreter of the tile IR gives them. Single operations mean what they mean
there (:mod:`zellige.interp`); this adds roles, channels, tokens and turns. A right plan gives the interpreter's bits under every
schedule; a wrong one gives other results under some, or raises PlanFault with who waits for whom.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from zellige.elements.conversion import Array, cast
from zellige.interp.expressions import evaluate, integer
from zellige.interp.frame import Frame, Place, Run
from zellige.interp.launch import NO_REPORT, Arguments, Interpretation, run_kernel
from zellige.ir.expr import Buffer, Var
from zellige.ir.lanes import has_lane_code
from zellige.ir.stmt import Kernel, TensorParam
from zellige.ir.traverse import rebuilt, walk
from zellige.plan.checks.clusters import check_clusters
from zellige.plan.checks.problem import Problems
from zellige.plan.checks.structure import is_untouched
from zellige.plan.clusters import has_clusters, unfolded
from zellige.plan.execution.block import Block
from zellige.plan.execution.schedule import Schedule, Strategy
from zellige.plan.execution.slots import PlanFault
from zellige.plan.nodes import Issue, PlannedKernel, PlannedLaunch

__all__ = ["PlanFault", "has_one_order", "reference_kernel", "run"]


def run(
    planned: PlannedKernel,
    arguments: Sequence[Array | int | float | None],
    *,
    schedule_seed: int = 0,
    strategy: Strategy | None = None,
    lanes: int = 32,
) -> Interpretation:
    """Run ``planned`` on NumPy arrays, which change as the kernel says; ``arguments`` as in :func:`zellige.interp.interpret`.

    ``schedule_seed`` chooses the interleaving; consecutive seeds take the strategies in turn unless one is given. ``lanes`` is the width of
    a warp in lane code. Blocks run one after the other, the first grid axis fastest. Raises PlanFault for a plan that deadlocks or
    does what its nodes forbid, LaunchError for a failed assertion.
    """
    kernel = planned.kernel
    bound = Arguments(kernel, arguments, tracks_undefined=False)
    schedule = Schedule(schedule_seed, strategy)
    for launch in planned.launches:
        if has_lane_code(launch.launch):
            if not is_untouched(launch):
                raise PlanFault("membership", "a launch with lanes is planned otherwise than as one role with its own body")
            run_kernel(rebuilt(kernel, launches=(launch.launch,)), bound.values, bound.memories, lanes=lanes)
        else:
            _run_launch(kernel, _of_clusters(launch), bound, schedule)
    bound.copy_back()
    return Interpretation(results=tuple(bound.arrays[index] for index in kernel.results), findings=())


def _of_clusters(planned: PlannedLaunch) -> PlannedLaunch:
    """A launch with one block for each cluster, where channels join the blocks of clusters: their roles run at the same time."""
    if not has_clusters(planned):
        return planned
    problems = Problems()
    if not check_clusters(planned, problems):
        raise PlanFault("clusters", "; ".join(problem.message for problem in problems.found))
    return unfolded(planned)


def has_one_order(planned: PlannedKernel) -> bool:
    """Whether every schedule runs this plan alike: one role a launch, no operation in flight, no operand that is read when its product
    runs."""
    return not any(
        len(launch.roles) > 1
        or any(layout.is_direct for choice in launch.choices for layout in choice.layouts)
        or any(isinstance(node, Issue) for role in launch.roles for node in walk(role))
        for launch in planned.launches
    )


def reference_kernel(planned: PlannedKernel) -> Kernel:
    """The kernel of the launches that were planned: what the interpreter must give bit for bit.

    It differs from the author's where products were legalised: cut, padded, merged along k.
    """
    launches = tuple(launch.launch for launch in planned.launches)
    if all(one is other for one, other in zip(launches, planned.kernel.launches)):
        return planned.kernel
    return rebuilt(planned.kernel, launches=launches)


def _run_launch(kernel: Kernel, planned: PlannedLaunch, bound: Arguments, schedule: Schedule) -> None:
    state = Run(report=NO_REPORT, warp=1, random=np.random.default_rng(0))
    buffers = [param.buffer for param in kernel.params if isinstance(param, TensorParam)]
    tensors: dict[Buffer, Place] = {buffer: Place(memory=memory) for buffer, memory in zip(buffers, bound.memories)}
    launch = planned.launch
    with np.errstate(all="ignore"):
        outer = Frame(kind="block", count=1, values=dict(bound.values), places=dict(tensors))
        grid = [integer(state, outer, extent, True, what="a grid extent") for extent in launch.grid]
        for reversed_cell in itertools.product(*(range(extent) for extent in reversed(grid))):
            values: dict[Var, Array] = dict(bound.values)
            for var, index in zip(launch.grid_vars, reversed(reversed_cell)):
                values[var] = np.asarray(np.int64(index)).astype(var.dtype.numpy)
            frame = Frame(kind="block", count=1, values=values, places=dict(tensors))
            state.safe_values = {
                safe.buffer: cast(evaluate(state, frame, safe.value), safe.value.dtype, safe.buffer.dtype) for safe in launch.safe_values
            }
            Block.of(planned, state, schedule, tensors).run_roles(values)
