"""How a backend has the plan revised until it fits: what it answers when it is shown a plan, and what it gets in the end.

In: nothing (pure declarations). Out: :class:`Revision` and :class:`Fitted`, the answers of the hook ``fit``; :class:`Asked`, what was asked
for before; :class:`FittedKernel`, which the hooks ``emit`` and ``compile_kernel`` get.

A plan is made from capabilities. What they cannot say (bytes that barriers, padding and single operations take beside the tiles; a program
that the backend lowers for some launches only) is found when the plan is lowered. Then the backend asks for launches to be planned again
for other capabilities, and says the decisions that come with that. Plans are made by core alone: each has the backend's candidates and the
passes of backend and user, is verified, and what ``explain`` shows is the plan that is compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zellige.plugin.capabilities import Capabilities

if TYPE_CHECKING:
    from zellige.diagnostics import CompileError
    from zellige.plan.nodes import Decision, PlannedKernel, PlannedLaunch


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """Asks that the launch of number ``launch`` be planned for ``capabilities`` (None: it keeps its plan).

    ``decisions`` are what its plan says beside the planner's own, with their reasons: all of them, since those of an earlier revision of
    this launch are gone.
    """

    launch: int
    decisions: tuple[Decision, ...]
    capabilities: Capabilities | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An earlier revision of this compilation. ``planned`` is the plan of its launch that made the backend ask; ``error`` why there is no
    plan for the capabilities asked for, where the launch kept the one it had (None: it was planned)."""

    revision: Revision
    planned: PlannedLaunch
    error: CompileError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The plan stands. ``program`` is what the backend has made of it meanwhile, in any form: nobody else looks at it, and the hook
    ``emit`` (or ``compile_kernel``) gets it back.

    ``otherwise`` asks for a second plan of the same kernel, for launches whose arguments the first does not suit: it begins with these
    revisions, is fitted in the same way and can ask for no third.
    """

    program: object = None
    otherwise: tuple[Revision, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedKernel:
    """The plan that is compiled, with the ``program`` of the backend's :class:`Fitted` (None where it has no hook ``fit``) and, where it
    asked for one, the second plan of the kernel."""

    planned: PlannedKernel
    program: object = None
    otherwise: FittedKernel | None = None


def capabilities_of(launch: int, asked: tuple[Asked, ...], stated: Capabilities) -> Capabilities:
    """What a launch is planned for now: what was asked for last, else what its target states."""
    given = (a.revision.capabilities for a in reversed(asked) if a.revision.launch == launch and a.error is None)
    return next((c for c in given if c is not None), stated)
