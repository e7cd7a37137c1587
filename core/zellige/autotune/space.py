"""Configurations to try when the caller names none.

In: a tuner whose function has arguments with defaults. Out: configurations, the most promising by the cost model of
:mod:`zellige.autotune.cost`. What an argument means is seen by changing it: one that changes the shape of on-chip buffers is a size of
tiles, one that changes the stages of a pipelined loop is a number of stages, one that changes the lanes of a launch is a number of lanes,
one that changes how many points a block computes is a size of tiles too, and a switch that changes hints alone is a choice of layout or
order. Whatever else a switch does may change the result: it is tried only where a reference program tells. An argument that changes a
tensor which the caller gives or gets says what is computed, and is never tuned.

Each combination is planned for the target before it is tried: one whose tiles do not fit is left out, and of several that come to one plan
(stages that do not fit are reduced, for instance) only the first stays.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from zellige.autotune.cost import estimate
from zellige.diagnostics import CompileError, ZelligeError, catalogue
from zellige.ir.expr import Expr
from zellige.ir.printer import print_kernel
from zellige.ir.sizes import SizeError, evaluate_size
from zellige.ir.stmt import Alloc, For, Kernel, Map, Pipelined, TensorParam
from zellige.ir.traverse import rebuilt, rewrite, walk
from zellige.plan.capabilities import Machine
from zellige.plan.planner import plan
from zellige.plan.printer import print_plan
from zellige.plugin.contract import Capabilities
from zellige.plugin.registry import registry
from zellige.runtime.size_text import size_text

if TYPE_CHECKING:
    from zellige.autotune.tuner import AutoTuner, Config
    from zellige.preparation import Prepared

Meaning = Literal["tile", "stages", "lanes", "switch", "interface", "result"]
"""interface: it changes tensors of the caller; result: it is a switch that may change what is computed."""

LIMIT: Final = 24
"""At most this many configurations are tried."""
_TRACED: Final = 96
"""At most this many combinations are traced for their estimate, those nearest to the defaults first."""
_TILE_FACTORS: Final = (1.0, 0.5, 2.0, 0.25, 4.0)
_LEAST_TILE: Final = 8
_GREATEST_TILE: Final = 512
_STAGES: Final = (1, 2, 3, 4)
_LANE_FACTORS: Final = (1.0, 0.5, 2.0)
_LEFT: Final = {
    "idle": "has no effect on {target}",
    "interface": "changes tensors that the caller gives or gets",
    "result": "may change what is computed, and no ref_prog tells",
}
"""Why an argument is left as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Features:
    """What of a kernel tells what an argument means."""

    interface: tuple[tuple[str, ...], ...]
    tiles: tuple[tuple[int, ...], ...]
    stages: tuple[int, ...]
    lanes: tuple[str, ...]
    points: tuple[tuple[int, ...], ...]
    text: str
    text_without_hints: str


def propose(tuner: AutoTuner) -> list[Config] | None:
    """Configurations for a tuner without any; None where the caller gave every argument that has a default.

    Raises E633 where no argument changes anything that can be tuned, or the defaults do not compile.
    """
    defaults = {name: p.default for name, p in tuner.signature.parameters.items() if isinstance(p.default, int)}
    open_names = {name: value for name, value in defaults.items() if name not in tuner.given}
    if defaults and not open_names:
        return None
    base = tuner.trace({}, tuner.compile_args) if open_names else None
    if base is None:
        raise catalogue.E633.error(function=tuner.name, reason=": it has no argument with a default that is a whole number or a switch")
    target = registry().resolve(base.target, device=base.device)
    capabilities = registry().backend(target).describe(target)
    choices, left = _choices(tuner, base, open_names, capabilities)
    tuner.notes = tuple(f"{name} {_LEFT[why].format(target=target)}: it stays {open_names[name]}" for name, why in left.items())
    if not choices:
        reason = f": no tiles, stages, lanes or layouts that may be tuned depend on {', '.join(open_names)}"
        raise catalogue.E633.error(function=tuner.name, reason=reason, hint="; ".join(tuner.notes) or None)
    return _best(tuner, choices, open_names, capabilities)


def _features(kernel: Kernel) -> _Features:
    tiles: list[tuple[int, ...]] = []
    stages: list[int] = []
    points: list[tuple[int, ...]] = []
    for launch in kernel.launches:
        for node in walk(launch):
            if isinstance(node, Alloc) and node.buffer.space not in ("global", "local", "var"):
                tiles.append(_constants(node.buffer.shape))
            elif isinstance(node, For) and isinstance(node.kind, Pipelined):
                stages.append(node.kind.stages)
            elif isinstance(node, Map):
                points.append(_constants(node.extents))
    given = (p.buffer for p in kernel.params if isinstance(p, TensorParam) and p.role != "workspace")
    return _Features(
        interface=tuple((buffer.dtype.name, *map(size_text, (*buffer.shape, *(buffer.strides or ())))) for buffer in given),
        tiles=tuple(tiles),
        stages=tuple(stages),
        lanes=tuple(str(launch.threads) for launch in kernel.launches),
        points=tuple(points),
        text=print_kernel(kernel),
        text_without_hints=print_kernel(_without_hints(kernel)),
    )


def _without_hints(kernel: Kernel) -> Kernel:
    return rewrite(kernel, lambda node: rebuilt(node, hints=()) if getattr(node, "hints", ()) else node)


def _constants(extents: Sequence[Expr]) -> tuple[int, ...]:
    try:
        return tuple(evaluate_size(extent, {}) for extent in extents)
    except SizeError:
        return ()


def _choices(
    tuner: AutoTuner, base: Prepared, defaults: Mapping[str, int], capabilities: Capabilities
) -> tuple[dict[str, tuple[Any, ...]], dict[str, str]]:
    """The values to try for each argument that means something, its default first, and why others are left."""
    before = _features(base.kernel)
    found: dict[str, tuple[Any, ...]] = {}
    left: dict[str, str] = {}
    for name, value in defaults.items():
        other = not value if isinstance(value, bool) else value * 2 or 2
        changed = _traced(tuner, {name: other})
        if changed is None:
            continue
        match _meaning(before, _features(changed.kernel), value):
            case "tile":
                sizes = (int(value * factor) for factor in _TILE_FACTORS)
                found[name] = (value, *(size for size in sizes if size != value and _LEAST_TILE <= size <= _GREATEST_TILE))
            case "stages" if Machine(capabilities=capabilities).style != "ordered":  # there a plan does not depend on them
                found[name] = (value, *(count for count in _STAGES if count != value))
            case "lanes" if capabilities.lanes and not capabilities.are_lanes_emulated:
                found[name] = tuple(int(value * factor) for factor in _LANE_FACTORS if value * factor % capabilities.lanes == 0)
            case "switch":
                found[name] = (value, not value)
            case "result" if tuner.profile_args.is_checked:
                found[name] = (value, not value)
            case "stages" | "lanes":
                left[name] = "idle"
            case "interface" | "result" as why:
                left[name] = why
    return {name: values for name, values in found.items() if len(values) > 1}, left


def _meaning(before: _Features, after: _Features, value: int) -> Meaning | None:
    if before.interface != after.interface:
        return "interface"
    if isinstance(value, bool):
        return None if before.text == after.text else "switch" if before.text_without_hints == after.text_without_hints else "result"
    if before.tiles != after.tiles:
        return "tile"
    if before.stages != after.stages:
        return "stages"
    if before.lanes != after.lanes:
        return "lanes"
    return "tile" if before.points != after.points else None


def _traced(tuner: AutoTuner, config: Config) -> Prepared | None:
    """The kernel of a configuration, None where the function refuses it; a fault of the compiler is none of that."""
    try:
        return tuner.trace(config, tuner.compile_args)
    except (ZelligeError, ValueError, TypeError, AssertionError, ArithmeticError, SystemExit):
        return None


def _best(
    tuner: AutoTuner, choices: Mapping[str, tuple[Any, ...]], defaults: Mapping[str, int], capabilities: Capabilities
) -> list[Config]:
    combinations = [dict(zip(choices, values)) for values in itertools.product(*choices.values())]
    combinations.sort(key=lambda config: sum(_distance(config[name], defaults[name]) for name in config))
    ranked: list[tuple[float, int, Config]] = []
    known: set[str] = set()
    for place, config in enumerate(combinations[:_TRACED]):
        prepared = _traced(tuner, config)
        if prepared is None:
            continue
        time = estimate(prepared.kernel, capabilities).time
        planned = planned_text(prepared.kernel, capabilities) if math.isfinite(time) else None
        if planned in known:
            continue
        if planned is not None:
            known.add(planned)
        if planned is not None or not place:  # the defaults are always tried: the author meant them to run
            ranked.append((time if place else -1.0, place, config))
    return [config for _, _, config in sorted(ranked, key=lambda entry: entry[:2])[:LIMIT]]


def planned_text(kernel: Kernel, capabilities: Capabilities) -> str | None:
    """The text of the kernel's plan; None where the target cannot run it."""
    try:
        return print_plan(plan(kernel, capabilities))
    except CompileError:
        return None


def _distance(value: int, default: int) -> float:
    return abs(math.log2((value + 1) / (default + 1)))
