"""One backend that was taken in: its hooks called one by one, its answers checked.

In: a backend's object and where it comes from. Out: :class:`BackendHandle`, through which the rest of core asks. A failure inside a hook
that is no diagnostic becomes E709, or E710 where the backend's hook ``diagnose`` knows it; an answer of a wrong type or value E703.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import is_dataclass
from functools import cached_property, partial
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import pluggy

from zellige.diagnostics import InternalError, ZelligeError, catalogue
from zellige.options import options
from zellige.plugin.choices import Ask
from zellige.plugin.context import AskingContext
from zellige.plugin.contract import (
    Answer,
    Asked,
    BackendReport,
    Binary,
    CacheFlush,
    Candidate,
    Capabilities,
    Compatibility,
    CompileContext,
    CompiledKernel,
    Conformance,
    Device,
    Diagnosis,
    Emitted,
    Fitted,
    FittedKernel,
    Insert,
    Operation,
    PassChange,
    PassStage,
    Rejection,
    Replace,
    Revision,
    StagePass,
    Tool,
    Unavailable,
    Veto,
)
from zellige.plugin.fields import is_text, said, shortened, type_problems
from zellige.plugin.hooks import PROJECT, BackendHooks
from zellige.plugin.manifest import MOST_PROBLEMS, validated
from zellige.plugin.origin import Origin
from zellige.plugin.probing import isolated_once, patience, within_seconds
from zellige.plugin.schema import problems
from zellige.plugin.signatures import STEPS, as_written, hook_parameters, shape_problems

if TYPE_CHECKING:
    from zellige.ir.stmt import Kernel
    from zellige.options import CompileOptions
    from zellige.plan.nodes import PlannedKernel
    from zellige.target import Target

PROBE_SECONDS: Final = 20.0
"""How long a backend may look for its devices before it counts as not available."""

_T = TypeVar("_T")


class _Hooks(pluggy.PluginManager):
    """Looks only at the hooks that a backend has: one with the mark on another name is refused before, and looking at everything takes as
    long as all the rest of taking a backend in."""

    def __init__(self, plugin: object) -> None:
        super().__init__(PROJECT)
        self._offered = frozenset(name for name in hook_parameters() if as_written(plugin, name) is not None)

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        return super().parse_hookimpl_opts(plugin, name) if name in self._offered else None

    def parse_hookspec_opts(self, module_or_class: Any, name: str) -> Any:
        return super().parse_hookspec_opts(module_or_class, name) if name in self._offered else None


class BackendHandle:
    """A validated backend. Calls its hooks one by one and says whose fault a failure is.

    A failure inside a hook that is no diagnostic becomes E709; an answer of a wrong type E703.
    """

    def __init__(self, origin: Origin, plugin: object) -> None:
        self.origin = origin
        home = plugin.__name__ if isinstance(plugin, ModuleType) else type(plugin).__module__
        self.package = str(home).partition(".")[0]
        """The top-level package that the backend's object comes from."""
        # tests keep our own to the contract: looking takes a part of a warm start
        wrong: tuple[str, ...] = () if origin.is_own else shape_problems(plugin)
        if wrong:
            raise catalogue.E703.error(name=origin.name, reason="; ".join(wrong))
        self._hooks = _Hooks(plugin)
        self._hooks.add_hookspecs(BackendHooks)
        self._hooks.register(plugin, name=origin.name)
        self._hooks.check_pending()
        self.manifest = validated(origin.name, self._call("manifest"), is_own=origin.is_own)

    @cached_property
    def devices(self) -> tuple[Device, ...] | Unavailable:
        """What ``probe`` found, asked once. A probe that fails or takes too long counts as unavailable."""
        if isinstance(self.manifest.state, Unavailable):
            return self.manifest.state
        if options().isolate_probes and not self.origin.is_own:
            report = isolated_once(self.origin, PROBE_SECONDS)
            return report.devices if report.unavailable is None else report.unavailable
        found = within_seconds(lambda: self._call("probe"), PROBE_SECONDS, self.manifest.name)
        if isinstance(found, Unavailable) or (isinstance(found, tuple) and all(isinstance(device, Device) for device in found)):
            wrong = self._type_problems(tuple[Device, ...] if isinstance(found, tuple) else Unavailable, found, "probe")
            return Unavailable(code="contract", reason=f"probe answered what cannot be: {wrong}") if wrong else found
        kinds = ", ".join(sorted({type(d).__name__ for d in found})) if isinstance(found, tuple) else ""
        given = f"a tuple of {kinds}" if kinds else type(found).__name__
        return Unavailable(code="contract", reason=f"probe answered {given}, not a tuple of Device or Unavailable")

    @property
    def works(self) -> bool:
        """Whether a device of this backend works here."""
        return isinstance(self.devices, tuple) and len(self.devices) > 0

    def describe(self, target: Target) -> Capabilities:
        """The capabilities of ``target``, without a device."""
        return self._typed(Capabilities, "describe", target=target)

    def description(self, ctx: CompileContext) -> str:
        """What stands for the capabilities of a context in keys."""
        return self._typed(str, "describe_key", target=ctx.target) if self._has("describe_key") else repr(ctx.capabilities)

    def dialect(self) -> Mapping[str, object]:
        """The objects behind the backend's dialect names; empty where it has none."""
        return self._typed(Mapping, "dialect") if self._has("dialect") else {}

    def inspections(self) -> Mapping[str, Callable[..., object]]:
        """The methods that the backend adds to a compiled kernel, by name; empty where it has none."""
        return self._named("inspections", self.manifest.inspections)

    def timers(self) -> Mapping[str, Callable[..., list[float]]]:
        """The backend's own ways to time a launch, by name; empty where it has none."""
        return self._named("timers", self.manifest.timers)

    def cache_flush(self, size_bytes: int) -> CacheFlush | None:
        """What empties the caches of the backend's device; None where those are the host's."""
        return self._typed(CacheFlush, "cache_flush", size_bytes=size_bytes) if self._has("cache_flush") else None

    def context(self, target: Target, options: CompileOptions) -> CompileContext:
        """What the steps of one compilation may ask."""
        return AskingContext(target=target, capabilities=partial(self._stated, target), options=options, ir_version=self.manifest.ir)

    def _stated(self, target: Target) -> Capabilities:
        """What ``target`` can do; another package's backend is checked at once, since caches look before the planner does."""
        stated = self.describe(target)
        return stated if self.origin.is_own else self.checked_capabilities(target, stated)

    def checked_capabilities(self, target: Target, capabilities: Capabilities) -> Capabilities:
        """``capabilities`` of ``target``, or E703 that says which fields are wrong or contradict each other."""
        wrong = problems(capabilities, str(target))
        if wrong:
            more = f"; and {len(wrong) - MOST_PROBLEMS} more" if len(wrong) > MOST_PROBLEMS else ""
            reason = f"describe({target}) answered capabilities that cannot be: {'; '.join(wrong[:MOST_PROBLEMS])}{more}"
            raise catalogue.E703.error(name=self.manifest.name, reason=reason)
        return capabilities

    def ask(self, ctx: CompileContext) -> Ask | None:
        """What asks the backend for the implementations that fit an operation; None where it has no such hook."""
        return (lambda operation: self._candidates(operation, ctx)) if self._has("candidates") else None

    def _candidates(self, operation: Operation, ctx: CompileContext) -> tuple[Answer, ...] | None:
        answers = self._call("candidates", operation=operation, ctx=ctx)
        if answers is None:
            return None
        if not isinstance(answers, (tuple, list)) or not answers:
            given = type(answers).__name__ if answers else "nothing"
            reason = f"its hook candidates answered {given} for {operation.text}, expected candidates, rejections or None"
            raise catalogue.E703.error(name=self.manifest.name, reason=reason)
        for answer in answers:
            if not isinstance(answer, (Candidate, Rejection)):
                reason = f"its hook candidates answered a {_kind_of(answer, Candidate, Rejection)}, expected Candidate or Rejection"
                raise catalogue.E703.error(name=self.manifest.name, reason=reason)
            self._check_fields("candidates", answer)
        return tuple(answers)

    def pass_changes(self, stage: PassStage, ctx: CompileContext) -> tuple[PassChange, ...]:
        """What the backend changes about the passes of a stage."""
        if not self._has("passes"):
            return ()
        changes = self._call("passes", stage=stage, ctx=ctx)
        if not isinstance(changes, (tuple, list)) or not all(isinstance(change, (Insert, Replace, Veto)) for change in changes):
            known = (Insert, Replace, Veto)
            several = isinstance(changes, (tuple, list))
            kinds = ", ".join(sorted({_kind_of(c, *known) for c in changes})) if several else _kind_of(changes, *known)
            reason = f"its hook passes answered {kinds}, expected a tuple of Insert, Replace or Veto"
            raise catalogue.E703.error(name=self.manifest.name, reason=reason)
        for change in changes:
            self._check_fields("passes", change)
        return tuple(changes)

    def fit(self, planned: PlannedKernel, asked: tuple[Asked, ...], ctx: CompileContext) -> tuple[Revision, ...] | Fitted:
        """What the backend says of a plan: it stands (also where it has no such hook), or launches to be planned again."""
        if not self._has("fit"):
            return Fitted()
        answer = self._call("fit", planned=planned, asked=asked, ctx=ctx)
        if isinstance(answer, Fitted):
            self._check_fields("fit", answer)
            return answer
        if not isinstance(answer, (tuple, list)) or not answer or not all(isinstance(revision, Revision) for revision in answer):
            kinds = ", ".join(sorted({type(r).__name__ for r in answer})) if isinstance(answer, (tuple, list)) else type(answer).__name__
            reason = f"its hook fit answered {kinds or 'no revisions'}, expected Fitted or a tuple of Revision"
            raise catalogue.E703.error(name=self.manifest.name, reason=reason)
        for revision in answer:
            self._check_fields("fit", revision)
        return tuple(answer)

    def schedules(self) -> Mapping[str, StagePass]:
        """The backend's scheduling strategies by name; empty where it has none."""
        found: Mapping[str, StagePass] = self._typed(Mapping, "schedules") if self._has("schedules") else {}
        for name, strategy in found.items():
            wrong = self._type_problems(str, name, "a name") or self._type_problems(StagePass, strategy, f"strategy {shortened(name)}")
            if wrong:
                raise catalogue.E703.error(name=self.manifest.name, reason=f"its hook schedules answered what cannot be: {wrong}")
        return found

    def cache_key(self, ctx: CompileContext) -> str:
        """What else the backend's code depends on; empty where it says nothing."""
        return self._typed(str, "cache_key", ctx=ctx) if self._has("cache_key") else ""

    def compat(self, binary: Binary) -> Compatibility:
        """Whether machine code made earlier runs on this machine's first device."""
        if not self._has("compat"):
            return Compatibility(verdict="ok")
        found = self.devices
        if not isinstance(found, tuple) or not found:
            return Compatibility(verdict="ok")
        return self._typed(Compatibility, "compat", binary=binary, device=found[0])

    def conformance(self) -> Conformance:
        """What the backend claims of the conformance suite; nothing where it does not say."""
        return self._typed(Conformance, "conformance") if self._has("conformance") else Conformance()

    def diagnose(self, error: Exception) -> ZelligeError | None:
        """A vendor's exception in the user's words (E710), or None where the backend does not know it."""
        if not self._has("diagnose"):
            return None
        try:
            found = self._hooks.hook.diagnose(error=error)
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - the first error is the one to show, not one met while explaining it
            return None
        if not isinstance(found, Diagnosis) or self._type_problems(Diagnosis, found, "diagnose"):
            return None
        return catalogue.E710.error(name=self.manifest.name, reason=found.reason, advice=found.hint or "see the cause below")

    @property
    def compiles_in_one_step(self) -> bool:
        """Whether the backend goes from the plan to a loaded kernel by itself."""
        return self._has("compile_kernel")

    @property
    def can_emit(self) -> bool:
        """Whether the backend gives the lowered program as text without a device."""
        return self._has("emit")

    def finish(self, emitted: Emitted, kernel: Kernel, ctx: CompileContext) -> CompiledKernel:
        """An emitted program compiled and loaded."""
        return self.load(self.compile_step(emitted, ctx), kernel, emitted, ctx)

    def compile_kernel(self, fitted: FittedKernel, ctx: CompileContext) -> CompiledKernel:
        """A kernel that can be launched: by the backend's one step, or by its steps emit, compile and load."""
        self._require_available(ctx.target)
        if self._has("compile_kernel"):
            return self._typed(CompiledKernel, "compile_kernel", planned=fitted.planned, ctx=ctx, fitted=fitted)
        return self.finish(self.emit_step(fitted, ctx), fitted.planned.kernel, ctx)

    @property
    def works_in_steps(self) -> bool:
        """Whether kernels are made by emit, compile and runtime, so that what lies between them can be kept."""
        return not self.compiles_in_one_step and all(self._has(hook) for hook in STEPS)

    def emit_step(self, fitted: FittedKernel, ctx: CompileContext) -> Emitted:
        """The lowered program as text, without a device. E703 for a backend that has neither one step nor all of them."""
        self._require_available(ctx.target)
        missing = [hook for hook in STEPS if not self._has(hook)]
        if missing and not (self._has("emit") and self._has("compile_kernel")):
            reason = f"it has neither the hook compile_kernel nor all of {', '.join(STEPS)}"
            raise catalogue.E703.error(name=self.manifest.name, reason=reason)
        return self._typed(Emitted, "emit", planned=fitted.planned, ctx=ctx, fitted=fitted)

    def compile_step(self, emitted: Emitted, ctx: CompileContext) -> Binary:
        """The machine code of a lowered program, without a device."""
        return self._typed(Binary, "compile", emitted=emitted, ctx=ctx)

    def load(self, binary: Binary, kernel: Kernel, source: Emitted, ctx: CompileContext) -> CompiledKernel:
        """Machine code made ready to be launched on this machine."""
        self._require_available(ctx.target)
        runtime = self._call("runtime", ctx=ctx)
        if not callable(getattr(runtime, "load", None)):
            reason = f"its hook runtime answered {type(runtime).__name__}, which has no method load(binary, kernel, source)"
            raise catalogue.E703.error(name=self.origin.name, reason=reason)
        loaded = self._attempt("runtime", lambda: runtime.load(binary=binary, kernel=kernel, source=source))
        return self._checked(CompiledKernel, "runtime", loaded)

    def tools(self) -> tuple[Tool, ...]:
        """The vendor's tools as this machine has them; a failure to say so is one of them."""
        if not self._has("tools"):
            return ()
        try:
            found: Sequence[object] = self._typed(Sequence, "tools")
            return tuple(self._checked(Tool, "tools", tool) for tool in found)
        except ZelligeError as error:
            return (Tool(name=self.manifest.name, purpose="tells of its tools", problem=error.diagnostics[0].message),)

    def report(self, *, with_tools: bool = False) -> BackendReport:
        """What ``zellige backends list`` shows, and ``doctor`` ``with_tools``."""
        found = self.devices
        return BackendReport(
            name=self.manifest.name,
            entry_point=self.origin.text,
            manifest=self.manifest,
            devices=found if isinstance(found, tuple) else (),
            unavailable=found if isinstance(found, Unavailable) else None,
            origin=self.origin.name,
            tools=self.tools() if with_tools else (),
        )

    def _has(self, hook: str) -> bool:
        caller = getattr(self._hooks.hook, hook, None)
        return caller is not None and bool(caller.get_hookimpls())

    def _require_available(self, target: Target) -> None:
        if isinstance(self.manifest.state, Unavailable):
            raise catalogue.E706.error(target=str(target), reason=self.manifest.state.reason)

    def _call(self, hook: str, **arguments: object) -> Any:
        caller = getattr(self._hooks.hook, hook, None)
        return None if caller is None else self._attempt(hook, lambda: caller(**arguments))

    def _attempt(self, hook: str, do: Callable[[], Any]) -> Any:
        try:
            with nullcontext() if hook == "probe" else patience(self.origin, f"in its hook {hook}"):  # probe has a time limit
                return do()
        except (ZelligeError, InternalError):
            raise
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise self.blamed(error, hook) from error

    def blamed(self, error: BaseException, hook: str) -> ZelligeError:
        """What a failure inside the backend's code is to the user: E710 where the backend knows it, else E709."""
        manifest = self.__dict__.get("manifest")
        known = self.diagnose(error) if manifest is not None and isinstance(error, Exception) else None
        vendor = manifest.vendor if manifest is not None else "its author"
        return known or catalogue.E709.error(name=self.origin.name, hook=hook, reason=said(error), vendor=vendor)

    def owns(self, error: BaseException) -> bool:
        """Whether an exception passed through the code of a backend that is somebody else's."""
        frames = traceback.walk_tb(error.__traceback__)
        return not self.origin.is_own and any(str(f.f_globals.get("__name__")).partition(".")[0] == self.package for f, _ in frames)

    def text_of(self, kernel: CompiledKernel, what: Literal["source", "assembly"]) -> str:
        """The source or the assembly of a compiled kernel."""
        return self._checked(str, what, self._attempt(what, getattr(kernel, what)))

    def _named(self, hook: Literal["inspections", "timers"], announced: tuple[str, ...]) -> Mapping[str, Any]:
        """Functions by name, those that the manifest announces among them."""
        found: Mapping[str, Any] = self._typed(Mapping, hook) if self._has(hook) else {}
        missing = [name for name in announced if not callable(found.get(name))]
        if missing:
            reason = f"its manifest announces the {hook} {', '.join(missing)}, for which its hook {hook} has no function"
            raise catalogue.E703.error(name=self.manifest.name, reason=reason)
        return found

    def _typed(self, kind: type[_T], hook: str, **arguments: object) -> _T:
        return self._checked(kind, hook, self._call(hook, **arguments))

    def _checked(self, kind: type[_T], hook: str, answer: object) -> _T:
        if not isinstance(answer, kind):
            reason = f"its hook {hook} answered {_kind_of(answer, kind)}, expected {kind.__name__}"
            raise catalogue.E703.error(name=self.origin.name, reason=reason)
        if isinstance(answer, str) and not is_text(answer):
            reason = f"its hook {hook} answered {shortened(answer)}, which holds characters that are no text (half of a surrogate pair)"
            raise catalogue.E703.error(name=self.origin.name, reason=reason)
        if hook != "manifest" and hook != "describe":  # those are checked as a whole
            self._check_fields(hook, answer)
        return answer

    def _check_fields(self, hook: str, answer: object) -> None:
        """E703 where an answer of somebody else's backend holds something of a wrong type."""
        wrong = self._type_problems(type(answer), answer, type(answer).__name__) if is_dataclass(answer) else ""
        if wrong:
            raise catalogue.E703.error(name=self.origin.name, reason=f"its hook {hook} answered what cannot be: {wrong}")

    def _type_problems(self, kind: Any, value: object, where: str) -> str:
        """What is of a wrong type; empty where nothing is, or where the backend is one of zellige's own, which its tests check."""
        return "" if self.origin.is_own else "; ".join(islice(type_problems(kind, value, where), MOST_PROBLEMS))


def _kind_of(value: object, *expected: type) -> str:
    """The name of a value's type; with its module where another type of that name was expected, such as one of another version."""
    kind = type(value)
    return f"{kind.__name__} of {kind.__module__}" if any(kind.__name__ == one.__name__ for one in expected) else kind.__name__
