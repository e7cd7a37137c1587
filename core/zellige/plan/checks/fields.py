"""Whether the parts of a plan hold what their fields are for, so that the other checks may look into them, and name what there is.

In: a planned launch, and the limits of the target. Out: problems. Whole numbers are ints, lists tuples; what executes an operation is an
engine of the target, the unit of a product one of its units, and its tiling is one that the unit takes.
"""

from __future__ import annotations

from collections.abc import Iterator

from zellige.ir.verifier.plain import wrong_values
from zellige.plan.checks.problem import Problems
from zellige.plan.checks.structure import STRUCTURE, Limits
from zellige.plan.nodes import Choice, PlannedLaunch, Tiling
from zellige.plugin.contract import MatmulUnit

_LISTS = ("roles", "full_loops", "channels", "placements", "choices", "resolved", "decisions")


def check_fields(planned: PlannedLaunch, limits: Limits, problems: Problems) -> bool:
    """Whether all fields hold what belongs there. Names are looked at only where it is so, and the limits say what there is."""
    before = len(problems.found)
    for name in _LISTS:
        value = getattr(planned, name)
        if not isinstance(value, tuple):
            problems.add(STRUCTURE, f"{name} of a launch is a {type(value).__name__}, not a tuple")
    if len(problems.found) > before:
        return False
    for node, what in _parts(planned):
        for wrong in wrong_values(node, what):
            problems.add(STRUCTURE, wrong)
    if len(problems.found) > before:
        return False
    for choice in planned.choices:
        for wrong in _wrong_names(choice, limits):
            problems.add(STRUCTURE, wrong, span=choice.operation.span)
    return True


def _parts(planned: PlannedLaunch) -> Iterator[tuple[object, str]]:
    """The parts that have plain fields, each with what it is called."""
    yield planned.order, "the order of the grid"
    yield from ((role, f"role {role.name}") for role in planned.roles)
    yield from ((channel, f"channel {channel.name}") for channel in planned.channels)
    yield from ((placement, f"the placement of {placement.buffer.name}") for placement in planned.placements)
    for choice in planned.choices:
        what = f"a choice for {type(choice.operation).__name__.lower()}"
        yield choice, what
        yield from () if choice.tiling is None else ((choice.tiling, f"the tiling of {what}"),)
        yield from ((layout, f"the layout of {layout.operand} in {what}") for layout in choice.layouts)


def _wrong_names(choice: Choice, limits: Limits) -> Iterator[str]:
    """What a choice names that the target has not, and a tiling that cannot be."""
    word, tiling = type(choice.operation).__name__.lower(), choice.tiling
    if limits.engines and choice.executor not in limits.engines:
        yield f"a {word} is executed by {choice.executor}, and the target has no such engine (it has {', '.join(sorted(limits.engines))})"
    if tiling is not None and min(tiling.m, tiling.n, tiling.k) < 1:
        yield f"a {word} is cut into {_text(tiling)}"
        return
    if not limits.engines or not choice.unit:
        return
    units = [unit for unit in limits.units if unit.name == choice.unit]
    if not units:
        known = ", ".join(sorted({unit.name for unit in limits.units})) or "none"
        yield f"a {word} is done by unit {choice.unit}, and the target has no such unit (it has {known})"
    elif tiling is not None and not any(_takes(unit, tiling) for unit in units):
        yield f"a {word} is cut into {_text(tiling)}, and no unit {choice.unit} takes such blocks"


def _text(tiling: Tiling) -> str:
    return f"blocks of {tiling.m}x{tiling.n}x{tiling.k}"


def _takes(unit: MatmulUnit, tiling: Tiling) -> bool:
    """Whether a unit takes blocks of that size: its own, multiples of it up to its largest, or any where it takes columns of any size."""
    if unit.m == unit.n == 1:
        return True
    most = unit.largest or (unit.m, unit.n, unit.k)
    for size, one, largest in zip((tiling.m, tiling.n, tiling.k), (unit.m, unit.n, unit.k), most):
        if size % one or size > (one if unit.shape == "fixed" else max(one, largest)):
            return False
    return True
