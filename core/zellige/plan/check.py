"""The static checks of a plan.

In: a :class:`PlannedKernel`. Out: every problem found, none where the plan is right. A problem is a bug of the planner (or of who wrote
the plan), never of the kernel's author. The checks, by their numbers:

1. Structure: fields hold what they are for, and name engines, units and blocks that the target has; names are unique; a role acquires and
   puts only where it is a producer, gets and releases only where it is a consumer; a token belongs to one role; a buffer is in one channel
   at most; turns name their roles; lags stay within the depth; what a role allocates it allocates before it uses it, and a channel's
   buffers outside of all loops.
2. Counts: when all roles have ended, every slot acquired was put, every slot put was got by each consumer, every slot got was released;
   over prologue, steady state and drain, for every trip count and on every path.
3. No deadlock: the roles reach their ends; the depth of every channel allows the largest skew.
4. Holding: a role touches a channel's buffer only in a slot it has acquired and not put, or got and not released.
5. Order between roles: two conflicting accesses of different roles are ordered by channels or turns; so no slot is written while it is
   read or read before it is complete.
6. Order within a role: an asynchronous operation is waited for before its result is read, its destination touched or its source
   overwritten, and before the role ends.
7. Placements: in a space that there is, aligned in every slot, large enough, as many slots as versions, within the capacity of the space;
   buffers overlap only where their live ranges do not.
8. Sharing: a buffer on the chip that several roles touch is carried by a channel of theirs, or channels order its use.
9. Operations: each of the kernel's operations runs exactly as often as in the kernel, with the same operands, and no other does. Scalars
   and control may be repeated by several roles.
10. Dependences: every operation sees the results that it sees in the kernel, atomic operations meet on an element in the same order, and
    the same results are left in tensors.
11. Edges: an operation planned without predicates stays inside its tensors, one planned for partial iterations does in the full loops,
    and it leaves them in every iteration split off; none leaves in a dimension that is not tested.
12. Slices: every variable that a role uses has a value there.
13. Registers: the budgets fit the file, and buffers in registers fit the budget of their role.
14. Coverage: at least one sample could be run; a plan that none reaches is not right but unknown.
15. Choices: iterations of a product are merged only where no bit changes; tiles are left out, and fills and copies are done by a product's
    steps, only where nothing else uses them; cells that a worker takes together fit the grid.
16. Classes: an operation without masks runs only in iterations in which the masks hold at every point.
17. Tiles: blocks that stay take each tile of the kernel's grid exactly once.
18. Clusters: channels between blocks carry what whole copies from tensors make and transactions count, and clusters divide the grid. All
    other checks then look at the blocks of a cluster as at one (:mod:`zellige.plan.clusters`).

Checks 1, 7, 8, 13, 15 and 18, and of 17 what the record says, look at the plan as it stands (level "static", well under a millisecond for a
common kernel: every compilation can afford them). The others (level "sampled") run it abstractly (:mod:`zellige.plan.checks.roles`):
control flow, indices, counters and clocks, no elements. Constants have their own values, so a kernel of fixed sizes is checked for those;
run-time sizes and what data decides are covered by samples that reach trip counts of 0, 1, and more than a channel is deep. Blocks at the
corners and in the middle of the grid are run. Counts and order do not depend on the interleaving of the roles, so one of them stands for
all. Blocks of very many operations are followed through the first of them only, and tiles of very large grids are not counted:
:attr:`Findings.notes` says so.

The kernel's operations are those of :attr:`zellige.plan.nodes.PlannedLaunch.launch`: what legalisation has made of the author's launch,
itself a program of the tile IR that the interpreter runs. Lane code is planned as it stands: one role with the launch's own body.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Literal, TypeAlias

from zellige.diagnostics import InternalError
from zellige.ir.lanes import has_lane_code
from zellige.log import logger
from zellige.plan.checks.choices import check_choices
from zellige.plan.checks.fields import check_fields
from zellige.plan.checks.problem import Problem, Problems
from zellige.plan.checks.structure import (
    Limits,
    check_edges,
    check_placements,
    check_registers,
    check_sharing,
    check_structure,
    is_untouched,
)
from zellige.plan.checks.tiles import check_tiles
from zellige.plan.nodes import PlannedKernel, PlannedLaunch
from zellige.plugin.contract import Capabilities
from zellige.records import dataclass

__all__ = ["Findings", "Level", "Limits", "Problem", "check", "examine", "verify_plan"]

Level: TypeAlias = Literal["static", "sampled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """``problems`` of a plan, and ``notes`` on what could be looked at in part only."""

    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = ()


def check(
    planned: PlannedKernel, *, limits: Limits | None = None, samples: int = 8, seed: int = 0, level: Level = "sampled"
) -> tuple[Problem, ...]:
    """Every problem of ``planned``. ``samples`` is how many sets of run-time sizes are tried, ``seed`` chooses others."""
    return examine(planned, limits=limits, samples=samples, seed=seed, level=level).problems


def examine(
    planned: PlannedKernel, *, limits: Limits | Sequence[Limits] | None = None, samples: int = 8, seed: int = 0, level: Level = "sampled"
) -> Findings:
    """As :func:`check`, with what could not be looked at as a whole. ``limits`` are those of every launch, or of each."""
    problems = Problems()
    notes: list[str] = []
    if len(planned.launches) != len(planned.kernel.launches):
        problems.add(1, f"the kernel has {len(planned.kernel.launches)} launches and the plan {len(planned.launches)}")
    each = repeat(limits or Limits()) if limits is None or isinstance(limits, Limits) else limits
    for written, launch, bounds in zip(planned.kernel.launches, planned.launches, each):
        if not check_fields(launch, bounds, problems):
            continue  # what does not hold what it says cannot be looked into
        check_structure(launch, problems)
        check_tiles(written, launch, problems)
        check_placements(launch, bounds, problems)
        check_registers(launch, bounds, problems)
        check_edges(launch, problems)
        check_choices(launch, problems)
        can_unfold = not launch.channels or _can_unfold(launch, problems)
        if has_lane_code(launch.launch):
            if not is_untouched(launch):
                problems.add(9, "a launch with lanes or barriers is planned otherwise than as one role with its own body")
            continue
        check_sharing(launch, problems)
        if level == "sampled" and can_unfold:
            from zellige.plan.checks.sampled import run_samples  # it needs the interpreter, which a compilation does without
            from zellige.plan.clusters import unfolded

            notes += run_samples(planned.kernel, unfolded(launch), problems, samples, seed)
    return Findings(problems=tuple(problems.found), notes=tuple(notes))


def _can_unfold(launch: PlannedLaunch, problems: Problems) -> bool:
    from zellige.plan.checks.clusters import check_clusters  # most plans have no channels

    return check_clusters(launch, problems)


def verify_plan(
    planned: PlannedKernel, *, capabilities: Capabilities | Sequence[Capabilities] | None = None, limits: Limits | None = None,
    level: Level = "sampled",
) -> None:  # fmt: skip
    """Raise InternalError where a check finds something. ``capabilities``, those of every launch or of each, give the limits of the target
    where ``limits`` does not."""
    given: Limits | Sequence[Limits] | None = limits
    if limits is None and capabilities is not None:
        given = Limits.of(capabilities) if isinstance(capabilities, Capabilities) else [Limits.of(one) for one in capabilities]
    findings = examine(planned, limits=given, level=level)
    for note in findings.notes:
        logger().info("checking the plan of %s for %s: %s", planned.kernel.name, planned.target, note)
    if findings.problems:
        lines = "\n".join(f"  {problem}" for problem in findings.problems)
        raise InternalError(f"the plan of {planned.kernel.name} for {planned.target} is wrong:\n{lines}")
