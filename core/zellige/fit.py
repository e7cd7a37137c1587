"""The plan of a kernel, made again until its backend can lower it.

In: a legal kernel, the backend and context of its compilation, the passes of the stages that work on plans. Out: a
:class:`~zellige.plugin.fit.FittedKernel`. One round::

    each launch planned (candidates of the backend) -> passes of the stages allocate, sync, lower -> verified -> the backend's hook fit

The backend answers that the plan stands, or with revisions: launches to be planned for other capabilities. Every plan is made in this way,
whatever round it is from. A launch is planned once for the same capabilities. A backend that is never content is refused (E703).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import TYPE_CHECKING, Final

from zellige.diagnostics import CompileError, ZelligeError
from zellige.ir.stmt import Kernel
from zellige.passes.kept import is_changed, text_of_kernel, text_of_plan
from zellige.passes.stages import Step, run_on_plan
from zellige.plan.limits import refuse_too_much
from zellige.plugin.capabilities import Capabilities
from zellige.plugin.contract import CompileContext
from zellige.plugin.fit import Asked, Fitted, FittedKernel, Revision
from zellige.plugin.handle import BackendHandle
from zellige.plugin.interruption import is_blameless
from zellige.records import dataclass

if TYPE_CHECKING:
    from zellige.plan.nodes import Decision, PlannedKernel, PlannedLaunch

MOST_ROUNDS: Final = 16
"""Plans of a kernel that a backend may be shown: more mean that it does not know what it wants."""


@dataclass(slots=True, kw_only=True)
class _State:
    """What a launch is planned for at present, its plan without the passes, and what was decided beside the planner."""

    capabilities: Capabilities
    planned: PlannedLaunch
    decisions: tuple[Decision, ...] = ()


@dataclass(slots=True, kw_only=True)
class _Planner:
    """Makes plans of one kernel."""

    legal: Kernel
    handle: BackendHandle
    ctx: CompileContext
    steps: Sequence[Step]
    made: dict[tuple[int, Capabilities], PlannedLaunch] = field(default_factory=dict)

    def launch(self, index: int, capabilities: Capabilities) -> PlannedLaunch:
        """The plan of a launch for these capabilities, without passes."""
        from zellige.plan.planner import plan_launch

        found = self.made.get((index, capabilities))
        if found is None:
            hook = "" if capabilities is self.ctx.capabilities else "fit"
            checked = self.handle.checked_capabilities(self.ctx.target, capabilities, hook)
            more = "" if not hook or self.handle.origin.is_own else _beyond(checked, self.ctx.capabilities)
            if more:
                raise _wrong(self.handle, f"asked for a plan for more than its hook describe says that there is: {more}")
            ask = self.handle.ask(replace(self.ctx, capabilities=capabilities))
            found = plan_launch(self.legal, self.legal.launches[index], checked, ask)
            self.made[index, capabilities] = found
        return found

    def kernel(self, states: Sequence[_State]) -> PlannedKernel:
        """The plan of the kernel after the passes, each result verified."""
        from zellige.plan.check import verify_plan
        from zellige.plan.nodes import PlannedKernel

        limits = tuple(state.capabilities for state in states)

        def verify(planned: PlannedKernel) -> None:
            verify_plan(planned, capabilities=limits, level="static")

        launches = tuple(_told(state) for state in states)
        planned = PlannedKernel(kernel=self.legal, target=self.ctx.capabilities.target, launches=launches)
        verify(planned)
        return run_on_plan(self.steps, planned, verify)


def _beyond(asked: Capabilities, stated: Capabilities) -> str:
    """What of the memory that a plan is asked for a target does not have; empty where it has all."""
    held = {space.name: space for space in stated.spaces}
    for space in asked.spaces:
        known = held.get(space.name)
        if known is None:
            return f"a space {space.name!r}"
        if known.bytes is not None and (space.bytes is None or space.bytes > known.bytes):
            return f"{'no limit' if space.bytes is None else space.bytes} in place of {known.bytes} bytes of {space.name}"
    return ""


def _told(state: _State) -> PlannedLaunch:
    """A launch's plan with what was decided beside the planner. Where the backend says why the launch has one role, that is the reason, and
    not the capabilities without roles that it is therefore planned for."""
    if not state.decisions:
        return state.planned
    why = next((one.because for one in state.decisions if one.topic == "programs" and one.chosen == "no"), None)
    own = (replace(one, because=why) if why is not None and one.topic == "style" else one for one in state.planned.decisions)
    return replace(state.planned, decisions=(*own, *state.decisions))


def fitted(legal: Kernel, handle: BackendHandle, ctx: CompileContext, steps: Sequence[Step]) -> FittedKernel:
    """The kernel planned as its backend can lower it. ``steps`` are the passes on plans in order. Raises what planning raises, and what
    the backend does."""
    refuse_too_much(legal, ctx.capabilities.bounds, ctx.capabilities.target)
    planner = _Planner(legal=legal, handle=handle, ctx=ctx, steps=steps)
    if handle.origin.is_own:
        return _planned(planner)
    changed = handle.at_fault("its hooks or passes changed the kernel that they were shown; a pass answers with another one")
    before = text_of_kernel(legal)
    try:
        found = _planned(planner)
    except Exception as error:  # the planner meets what was changed, and would be blamed for it
        if not isinstance(error, ZelligeError) and not is_blameless(error) and is_changed(legal, before, text_of_kernel):
            raise changed from error
        raise
    if is_changed(legal, before, text_of_kernel):
        raise changed
    return found


@contextmanager
def plan_kept(planned: PlannedKernel, handle: BackendHandle, hook: str) -> Iterator[None]:
    """E703 where a stranger's ``hook``, which runs meanwhile, changes the plan that it is shown: it was verified, and reports show it."""
    if handle.origin.is_own:
        yield
        return
    before = text_of_plan(planned)
    yield
    if is_changed(planned, before, text_of_plan):
        instead = "; it asks for another one with a Revision" if hook == "fit" else ""
        raise handle.at_fault(f"its hook {hook} changed the plan that it was shown{instead}")


def _planned(planner: _Planner) -> FittedKernel:
    """The plan and what the backend makes of it, with a second plan beside it where the backend asks for one."""
    handle = planner.handle
    first, answer = _rounds(planner, ())
    if not answer.otherwise:
        return FittedKernel(planned=first, program=answer.program)
    second, other = _rounds(planner, answer.otherwise)
    if other.otherwise:
        raise _wrong(handle, "asked for a third plan of a kernel beside two")
    otherwise = FittedKernel(planned=second, program=other.program)
    return FittedKernel(planned=first, program=answer.program, otherwise=otherwise)


def _rounds(planner: _Planner, wanted: Sequence[Revision]) -> tuple[PlannedKernel, Fitted]:
    """The plan that the backend is content with, from the target's capabilities and the revisions that are ``wanted`` at once."""
    stated = planner.ctx.capabilities
    states = [_State(capabilities=stated, planned=planner.launch(i, stated)) for i in range(len(planner.legal.launches))]
    asked = _revised(planner, states, wanted)
    for _ in range(MOST_ROUNDS):
        planned = planner.kernel(states)
        answer = _answer(planner, planned, tuple(asked))
        if isinstance(answer, Fitted):
            return planned, answer
        asked += _revised(planner, states, answer)
    raise _wrong(planner.handle, f"asked for another plan {MOST_ROUNDS} times")


def _answer(planner: _Planner, planned: PlannedKernel, asked: tuple[Asked, ...]) -> tuple[Revision, ...] | Fitted:
    """What the hook says of a plan, which it leaves as it is."""
    with plan_kept(planned, planner.handle, "fit"):
        return planner.handle.fit(planned, asked, planner.ctx)


def _revised(planner: _Planner, states: Sequence[_State], wanted: Sequence[Revision]) -> list[Asked]:
    """Carry out what is asked for at once. E703 where two ask for the same launch."""
    for launch, count in Counter(revision.launch for revision in wanted).items():
        if count > 1:
            raise _wrong(planner.handle, f"asked {count} times at once for a revision of launch {launch}")
    return [_revise(planner, states, revision) for revision in wanted]


def _revise(planner: _Planner, states: Sequence[_State], revision: Revision) -> Asked:
    """Carry a revision out. The launch keeps its plan and decisions where it cannot be planned for what is asked for."""
    if not 0 <= revision.launch < len(states):
        raise _wrong(planner.handle, f"asked for a revision of launch {revision.launch} of a kernel that has {len(states)}")
    state = states[revision.launch]
    before = state.planned
    if revision.capabilities is not None:
        try:
            state.planned = planner.launch(revision.launch, revision.capabilities)
        except CompileError as error:
            if error.diagnostics[0].backend:
                raise  # the backend's fault: capabilities that contradict each other, a candidate that cannot be, a hook that fails
            return Asked(revision=revision, planned=before, error=error)
        state.capabilities = revision.capabilities
    state.decisions = revision.decisions
    return Asked(revision=revision, planned=before)


def _wrong(handle: BackendHandle, what: str) -> Exception:
    return handle.at_fault(f"its hook fit {what}")
