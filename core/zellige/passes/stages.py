"""The passes of every stage of a compilation: core's own, what a backend changes about them, and the user's.

In: core's passes, the changes of a backend (:mod:`zellige.plugin.choices`), the user's passes and schedule. Out: for each stage the passes
in their order (:func:`arrange`), and what they make (:func:`run_on_tiles`, :func:`run_on_plan`, :func:`run_on_text`), verified after each.

Core's passes keep their order and stand first; an inserted pass stands at the end of its stage, or where its ``before`` and ``after``
ask for. What a pass of a backend or a user gets wrong is said of that pass (E713, E718), never of the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from zellige.diagnostics import CompileError, InternalError, ZelligeError, catalogue
from zellige.diagnostics.error import raised_at, says_something
from zellige.diagnostics.span import place_outside
from zellige.ir.stmt import Kernel
from zellige.ir.verify import verify
from zellige.passes.kept import changed_parameters, is_changed, text_of_kernel, text_of_plan
from zellige.passes.runner import Pass, run_passes
from zellige.plugin.choices import PLAN_PASS, Insert, PassChange, PassStage, Replace, StagePass, Veto
from zellige.plugin.contract import Emitted
from zellige.plugin.fields import is_blank, is_line, odd_places, said, shortened, type_problems
from zellige.plugin.interruption import is_blameless
from zellige.plugin.nesting import pass_entered
from zellige.plugin.probing import waiting
from zellige.records import dataclass

if TYPE_CHECKING:
    from zellige.plan.nodes import PlannedKernel, PlannedLaunch

CORE: Final = "zellige"
USER: Final = "jit(passes=..., schedule=...)"
"""Who core's passes and a user's belong to, in messages."""

_T = TypeVar("_T")

MOST_PROBLEMS: Final = 5
"""Fields of a wrong type that are named of one pass."""

_VERBS: Final[dict[type[PassChange], str]] = {Insert: "insert", Replace: "replace", Veto: "leave out"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A pass of a stage and who it belongs to; core's own are ``CORE``'s."""

    step: StagePass
    owner: str
    backend: str = ""
    """The name of the backend that has it; empty for core's and users'."""

    @property
    def name(self) -> str:
        return self.step.name

    @property
    def is_own(self) -> bool:
        return self.owner == CORE


@dataclass(frozen=True, slots=True, kw_only=True)
class UserPass:
    """A function that a user hands to ``jit``, as a pass with a name."""

    name: str
    function: Callable[[Any], Any]

    def __call__(self, value: Any) -> Any:
        return self.function(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPass:
    """Stands for the making of the plan in the list of its stage; the driver makes it."""

    name: str = PLAN_PASS

    def __call__(self, value: Any) -> Any:
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change to the passes of a stage, and who asks for it: the name of a ``backend``, else the user. ``hook`` answered it, where that
    is not ``passes``."""

    change: PassChange
    backend: str = ""
    hook: str = ""

    @property
    def owner(self) -> str:
        where = f" (its hook {self.hook})" if self.hook else ""
        return f"the backend {self.backend}{where}" if self.backend else USER

    def step(self) -> Step:
        """The pass that it brings."""
        assert not isinstance(self.change, Veto)
        return Step(step=self.change.step, owner=self.owner, backend=self.backend)


def arrange(stage: PassStage, own: Sequence[StagePass], changes: Sequence[Change], target: str) -> tuple[Step, ...]:
    """The passes of ``stage`` in order.

    Raises E711 for passes that wait for each other, E712 for a change to a pass that is not there or must stay, for a second one to the
    same pass, for a name that is no line of text, and for two of a name.
    """
    steps: dict[str, Step] = {p.name: Step(step=p, owner=CORE) for p in own}
    orders: list[tuple[str, str]] = []
    changed: dict[str, str] = {}
    vetoed: set[str] = set()

    def wrong(who: str, what: str, reason: str) -> ZelligeError:
        known = ", ".join(steps) or "no passes"
        return catalogue.E712.error(who=who, what=what, stage=stage, reason=reason, known=known)

    for asked in changes:
        who, change = asked.owner, asked.change
        title = change.name if isinstance(change, Veto) else change.step.name
        if not is_line(title):
            raise wrong(who, f"{_VERBS[type(change)]} a pass", f"its name is {shortened(title)}, expected a line of text")
        if isinstance(change, (Replace, Veto)):
            what = f"{_VERBS[type(change)]} the pass {shortened(change.name)}"
            if change.name == PLAN_PASS and stage == "allocate":
                raise wrong(who, what, "nothing else makes a plan")
            if change.name in changed:
                raise wrong(who, what, f"{changed[change.name]} already")
            if change.name not in steps:
                raise wrong(who, what, "the stage has no such pass")
            changed[change.name] = f"{who} {'leaves it out' if isinstance(change, Veto) else 'replaces it'}"
            if isinstance(change, Veto):
                vetoed.add(change.name)
                del steps[change.name]
            else:
                steps[change.name] = asked.step()
            continue
        name = change.step.name
        if name in steps:
            raise wrong(who, f"insert the pass {name!r}", "the stage has a pass of that name")
        steps[name] = asked.step()
        orders += [(name, later) for later in change.before]
        orders += [(earlier, name) for earlier in change.after]
    for first, second in orders:
        for name in (first, second):
            if name not in steps and name not in vetoed:
                other = second if name == first else first
                who = steps[other].owner if other in steps else target
                raise wrong(who, f"order the pass {other!r}", f"the stage has no pass {name!r}")
    own_names = [p.name for p in own if p.name in steps]
    chain = list(pairwise(own_names))
    return _ordered(stage, steps, [pair for pair in (*chain, *orders) if pair[0] in steps and pair[1] in steps], target)


def _ordered(stage: PassStage, steps: dict[str, Step], orders: Sequence[tuple[str, str]], target: str) -> tuple[Step, ...]:
    """The steps so that each order holds, else as they came."""
    waiting = list(steps)
    done: list[str] = []
    while waiting:
        ready = next((n for n in waiting if all(first in done for first, second in orders if second == n)), None)
        if ready is None:
            raise catalogue.E711.error(stage=stage, target=target, circle=_circle(waiting, orders))
        waiting.remove(ready)
        done.append(ready)
    return tuple(steps[name] for name in done)


def _circle(waiting: Sequence[str], orders: Sequence[tuple[str, str]]) -> str:
    """One circle among the steps that wait, in words."""
    path = [waiting[0]]
    while True:
        before = next(first for first, second in orders if second == path[-1] and first in waiting)
        if before in path:
            return " after ".join([*path[path.index(before) :], before])
        path.append(before)


# ---- running them


def run_on_tiles(steps: Sequence[Step], kernel: Kernel) -> Kernel:
    """``kernel`` after the passes of a stage that works on tile IR. Raises E713, E718; InternalError for core's own passes."""
    for step in steps:
        if step.is_own:
            kernel = run_passes(kernel, (cast(Pass, step.step),))
            continue
        result = _called(step, kernel, text_of_kernel)
        if not isinstance(result, Kernel):
            raise _wrong(step, f"a {type(result).__name__}", "expected a Kernel of the tile IR")
        if result is not kernel:
            _refuse(step, "tile IR", odd_places(result))
            found = _looked_at(step, "tile IR", partial(verify, result))
            if found:
                raise _wrong(step, "tile IR", "\n".join(d.render() for d in found))
            _keep_parameters(step, "tile IR", kernel, result)
            kernel = result
    return kernel


def _keep_parameters(step: Step, made: str, before: Kernel, after: Kernel) -> None:
    """E713 for a pass after which the kernel has other parameters."""
    changed = _looked_at(step, made, partial(changed_parameters, before, after))
    if changed:
        problem = f"its parameters are others than those that calls were laid out for, which a pass must keep: {changed}"
        raise _wrong(step, made, problem)


def run_on_plan(steps: Sequence[Step], planned: PlannedKernel, verify_plan: Callable[[PlannedKernel], None]) -> PlannedKernel:
    """``planned`` after the passes of a stage that works on plans; ``verify_plan`` raises InternalError for a wrong one."""
    for step in steps:
        result = _called(step, planned, text_of_plan)
        if not isinstance(result, type(planned)):
            raise _wrong(step, f"a {type(result).__name__}", "expected a PlannedKernel")
        if result is not planned:
            if not isinstance(result.kernel, Kernel):
                raise _wrong(step, "a plan", f"its kernel is a {type(result.kernel).__name__}")
            _refuse(step, "a plan", odd_places(result))
            _keep_parameters(step, "a plan", planned.kernel, result.kernel)
            try:
                _looked_at(step, "a plan", partial(_check_plan, planned, result, verify_plan))
            except InternalError as error:
                raise _wrong(step, "a plan", error.message) from error
            planned = result
    return planned


def _check_plan(before: PlannedKernel, after: PlannedKernel, verify_plan: Callable[[PlannedKernel], None]) -> None:
    """What core's own planning keeps by the way it works, and a pass may break: a plan has the launches, operations and tiles that it had.
    Then the plan's own checks. Raises InternalError.

    Looked at is what stands in the plan: no statement of a role's body is followed into what it does.
    """
    from zellige.plan.checks.statements import statement_problems

    verify_plan(after)
    problems = statement_problems(after)
    if problems:
        known = statement_problems(before)
        problems = [problem for problem in problems if problem not in known]
    if after.target != before.target:
        problems.append(f"its target is {shortened(after.target)}, and was {before.target!r}")
    problems += [
        f"launch {at}: {problem}"
        for at, (old, new) in enumerate(zip(before.launches, after.launches, strict=True))
        for problem in _lost(old, new)
    ]
    if problems:
        raise InternalError("\n".join(problems))


def _lost(old: PlannedLaunch, new: PlannedLaunch) -> Iterator[str]:
    """What a pass left out of a launch's plan."""
    from zellige.ir.expr import Buffer
    from zellige.ir.traverse import walk

    def held(planned: PlannedLaunch) -> tuple[set[Buffer], set[Buffer]]:
        """The tiles and tensors that statements of the roles read, and those that they write."""
        nodes = [node for role in planned.roles for statement in role.body for node in walk(statement)]
        read, written = (
            {region.buffer.root for node in nodes if hasattr(node, method) for region in getattr(node, method)()}
            for method in ("reads", "writes")
        )
        return read, written

    (_, was_written), (reads, writes) = held(old), held(new)
    for buffer in sorted({b for b in was_written - writes if b.space == "global" or b in reads}, key=lambda b: b.name):
        yield f"nothing writes {buffer.name} any more"
    placed = {placement.buffer.root for placement in new.placements}
    for placement in old.placements:
        if placement.buffer.root not in placed and placement.buffer.root in reads | writes:
            yield f"{placement.buffer.name} is used and has no placement"
    chosen = {id(choice.operation): choice for choice in new.choices}
    for choice in old.choices:
        other = chosen.get(id(choice.operation))
        if other is not None and (other.executor, other.unit) == (choice.executor, choice.unit):
            for operand in sorted({layout.operand for layout in choice.layouts} - {layout.operand for layout in other.layouts}):
                yield f"the unit {choice.unit or choice.executor} still takes the operand {operand}, whose layout is gone"


def run_on_text(steps: Sequence[Step], emitted: Emitted) -> Emitted:
    """``emitted`` after the passes of the stage "post". Raises E713 where a field of what one makes is of a wrong type, E718."""
    for step in steps:
        result = _called(step, emitted, replace)
        if not isinstance(result, Emitted):
            raise _wrong(step, f"a {type(result).__name__}", "expected an Emitted")
        if result is not emitted and not step.is_own:
            _refuse(step, "an Emitted", type_problems(Emitted, result, "Emitted"))
            if is_blank(result.text) and not is_blank(emitted.text):
                raise _wrong(step, "an Emitted", "its text is empty")
        emitted = result
    return emitted


def _refuse(step: Step, made: str, problems: Iterator[str]) -> None:
    """E713 with the first of the problems, where there is any."""
    found = tuple(islice(problems, MOST_PROBLEMS))
    if found:
        raise _wrong(step, made, "\n".join(found))


def _looked_at(step: Step, made: str, look: Callable[[], _T]) -> _T:
    """What a verifier finds in what a pass made. E713 where it cannot even be read, such as a field that holds None in place of a tuple."""
    try:
        return look()
    except (ZelligeError, InternalError):
        raise
    except Exception as error:
        if step.is_own or is_blameless(error):
            raise
        raise _wrong(step, made, f"it cannot be read, since a field holds what does not belong there: {said(error)}") from error


def _called(step: Step, value: Any, look: Callable[[Any], object]) -> Any:
    """What a pass makes. E718 for whatever escapes from it, E713 (of a backend E703) where it changes ``value`` itself, as ``look``
    sees it; for how long the process waits for it is said, since nobody can end it."""
    if step.is_own:
        return step.step(value)
    before = look(value)
    try:
        with waiting(f"the pass {step.name} of {step.owner} has been running"), pass_entered(step.name, step.owner):
            result = step.step(value)
    except InternalError:
        raise
    except BaseException as error:
        if (isinstance(error, ZelligeError) and says_something(error)) or is_blameless(error):
            raise
        line = place_outside(error)
        raise catalogue.E718.error(name=step.name, who=step.owner, reason=said(error), notes=raised_at(line)) from error
    if is_changed(value, before, look):
        raise _changed_in_place(step)
    return result


def _changed_in_place(step: Step) -> CompileError:
    """What is said of a pass that changes what it is shown. A backend's has the promise of the contract for it."""
    reason = "changed the program that it was shown; a pass answers with another one"
    if not step.backend:
        return _wrong(step, "a change", f"it {reason}")
    error = catalogue.E703.error(name=step.backend, reason=f"its pass {step.name} {reason}")
    assert isinstance(error, CompileError)
    return error


def _wrong(step: Step, made: str, problems: str) -> CompileError:
    error = catalogue.E713.error(name=step.name, who=step.owner, made=made, problems=problems)
    assert isinstance(error, CompileError)
    return error
