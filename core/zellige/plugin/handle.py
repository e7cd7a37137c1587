"""One backend that was taken in: its hooks called one by one, its answers checked.

In: a backend's object and where it comes from. Out: :class:`BackendHandle`, through which the rest of core asks. A failure inside a hook
that is no diagnostic becomes E709, or E710 where the backend's hook ``diagnose`` knows it; an answer of a wrong type or value E703.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, TypeVar, cast

from zellige.diagnostics import InternalError, Note, ZelligeError, catalogue
from zellige.diagnostics.error import caught_too, raised_at, says_something
from zellige.diagnostics.span import place_in, place_outside
from zellige.options import options
from zellige.plugin.calling import Hooks
from zellige.plugin.choices import Ask
from zellige.plugin.context import AskingContext, apart
from zellige.plugin.contract import (
    Answer,
    Asked,
    BackendReport,
    Binary,
    Bounds,
    CacheFlush,
    Candidate,
    Capabilities,
    Compatibility,
    CompileContext,
    CompiledKernel,
    Conformance,
    Device,
    Diagnosis,
    DialectName,
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
    Runtime,
    StagePass,
    StreamKernel,
    Tool,
    Unavailable,
    Veto,
)
from zellige.plugin.fields import cut, is_blank, is_protocol, is_text, items_of, said, shortened
from zellige.plugin.guard import process_kept
from zellige.plugin.installed import is_importable
from zellige.plugin.interruption import is_blameless
from zellige.plugin.limits import MOST_ITEMS
from zellige.plugin.manifest import MOST_PROBLEMS, odd_dialect, unspeakable, validated
from zellige.plugin.origin import OF_ZELLIGE, Origin
from zellige.plugin.probing import CONTRACT, isolated_once, patience, within_seconds
from zellige.plugin.schema import problems, problems_of_ours
from zellige.plugin.signatures import STEPS, call_problems, hook_parameters, methods_of, shape_problems
from zellige.target import SIMULATE

if TYPE_CHECKING:
    from zellige.ir.stmt import Kernel
    from zellige.options import CompileOptions
    from zellige.plan.nodes import PlannedKernel
    from zellige.target import Target

PROBE_SECONDS: Final = 20.0
"""How long a backend may look for its devices before it counts as not available."""

_LAUNCHES: Final = frozenset({"launch", "launch_packed", "launch_among", "load"})
"""Methods of what the hook ``runtime`` answers, and of what that makes."""

_WITHOUT_THE_COMPILER: Final = frozenset(
    ("manifest", "probe", "tools", "describe", "describe_key", "dialect", "cache_key", "conformance", "schedules")
)
"""Hooks in which nothing of core's runs but what the backend calls: what goes wrong there is what the backend gave it."""

_TRACEBACK: Final[Any] = vars(BaseException)["__traceback__"]

_T = TypeVar("_T")


class BackendHandle:
    """A validated backend. Calls its hooks one by one and says whose fault a failure is.

    A failure inside a hook that is no diagnostic becomes E709; an answer of a wrong type E703.
    """

    def __init__(self, origin: Origin, plugin: object, *, is_known: bool = False) -> None:
        """``is_known``: an earlier process took in the same files of the same backend."""
        self.origin = origin
        home = plugin.__name__ if isinstance(plugin, ModuleType) else type(plugin).__module__
        self._operations: dict[object, str] = {}
        self.package = str(home).partition(".")[0]
        """The top-level package that the class of the backend's object comes from."""
        self.packages = tuple(dict.fromkeys((self.package, origin.value.partition(":")[0].partition(".")[0])))
        """The same, and that of the module that the entry point names, which makes the object."""
        # tests keep our own to the contract: looking takes a part of a warm start
        wrong: tuple[str, ...] = () if origin.is_own else shape_problems(plugin)
        if wrong:
            raise catalogue.E703.error(name=origin.name, reason="; ".join(wrong))
        self._hooks = Hooks(plugin, origin.name, at_once=not (origin.is_own or is_known))
        self.manifest = self._call("manifest", lambda answer: validated(origin.name, answer, is_own=origin.is_own))
        if not (origin.is_own or is_known):
            self._find_packages()
        if not origin.is_own:
            self.dialect_names  # noqa: B018 - what is wrong with the names of others is said at once; a warm start reads none of ours

    def _find_packages(self) -> None:
        """E703 where a package that shapes the backend's code is not there: caches would not see it change."""
        missing = [name for name in self.manifest.code_packages if not is_importable(name)]
        if missing:
            reason = f"manifest.code_packages names {', '.join(missing[:MOST_PROBLEMS])}, which no package is that can be imported here"
            raise self.at_fault(reason)

    @property
    def name(self) -> str:
        """What errors call the backend: the name of its entry point, which is known before it says anything and stands in no other's."""
        return self.origin.name

    def at_fault(self, reason: str, notes: tuple[Note, ...] = ()) -> ZelligeError:
        """E703: the backend does what the contract does not allow."""
        return catalogue.E703.error(name=self.name, reason=reason, notes=notes)

    @cached_property
    def devices(self) -> tuple[Device, ...] | Unavailable:
        """What ``probe`` found, asked once. A probe that fails or takes too long counts as unavailable."""
        if isinstance(self.manifest.state, Unavailable):
            return self.manifest.state
        if options().isolate_probes and not self.origin.is_own:
            report = isolated_once(self.origin, PROBE_SECONDS)
            return report.devices if report.unavailable is None else report.unavailable
        replaced: list[str] = []
        with ExitStack() as around:
            if not self.origin.is_own:
                replaced = around.enter_context(process_kept())  # what its thread does beside this one, which waits
            found = within_seconds(lambda: self._call("probe", self._found), PROBE_SECONDS, self.manifest.name)
        if replaced:
            reason = f"probe replaced {', '.join(replaced[:MOST_PROBLEMS])}, which is not its own; that was undone"
            return Unavailable(code=CONTRACT, reason=reason)
        assert isinstance(found, (tuple, Unavailable)), "what _found makes, or why there is no answer"
        return found

    def _found(self, answer: object) -> tuple[Device, ...] | Unavailable:
        """What the hook ``probe`` answered, checked: what cannot be is a backend that is not available."""
        items = items_of(answer) if isinstance(answer, tuple) else []
        if len(items) > MOST_ITEMS:  # known before all of them are looked at, which takes long
            return Unavailable(code="contract", reason=f"probe answered {len(items)} items, more than {MOST_ITEMS}")
        if isinstance(answer, Unavailable) or (isinstance(answer, tuple) and all(isinstance(device, Device) for device in items)):
            wrong = self._type_problems(tuple[Device, ...] if isinstance(answer, tuple) else Unavailable, answer, "probe")
            wrong = wrong or "; ".join(islice(self._odd_devices(answer if isinstance(answer, tuple) else ()), MOST_PROBLEMS))
            return Unavailable(code=CONTRACT, reason=f"probe answered what cannot be: {wrong}") if wrong else answer
        kinds = ", ".join(sorted({type(d).__name__ for d in items}))
        given = f"a tuple of {kinds}" if kinds else type(answer).__name__
        return Unavailable(code=CONTRACT, reason=f"probe answered {given}, not a tuple of Device or Unavailable")

    def _odd_devices(self, devices: tuple[Device, ...]) -> Iterator[str]:
        """Devices that are somebody else's, or one of them twice."""
        known = self.manifest.targets
        for at, device in enumerate(devices):
            if device.target.partition(":")[0] not in known:
                yield f"probe[{at}].target is {shortened(device.target)}, which is none of its targets ({', '.join(known)})"
        counts = Counter((device.target, device.index) for device in devices)
        yield from (f"probe has {count} devices {index} of {target}" for (target, index), count in counts.items() if count > 1)

    @property
    def works(self) -> bool:
        """Whether a device of this backend works here."""
        return isinstance(self.devices, tuple) and len(self.devices) > 0

    def without_device(self, target: Target) -> str:
        """What to do where no device of a target works on this machine; an empty text where one does."""
        if self.works:
            return ""
        reason = self.devices.reason if isinstance(self.devices, Unavailable) else "none was found"
        found = f"no device of {target.name} works on this machine: {reason}"
        if SIMULATE not in (self.manifest.options or ()):
            return found
        simulated = replace(target, options=(*target.options, (SIMULATE, None)))
        return f"{found}; the target {str(simulated)!r} runs the same program here, on memory of the host"

    def describe(self, target: Target) -> Capabilities:
        """The capabilities of ``target``, without a device."""
        return self._typed(Capabilities, "describe", target=target)

    def description(self, ctx: CompileContext) -> str:
        """What stands for the capabilities of a context in keys."""
        return self._typed(str, "describe_key", target=ctx.target) if self.has("describe_key") else repr(ctx.capabilities)

    @cached_property
    def dialect_names(self) -> tuple[DialectName, ...]:
        """The names that the backend adds to the kernel language. E703 where its table of them cannot be read."""
        stated = self.manifest
        if not stated.dialect_table:
            return stated.dialect
        from zellige.plugin.dialect import read_dialect  # a warm start asks for no name

        try:
            found = (*stated.dialect, *read_dialect(self.package, stated.dialect_table))
        except (OSError, ValueError, ImportError, TypeError) as error:
            reason = f"its table of names {shortened(stated.dialect_table)} cannot be read: {said(error)}"
            raise self.at_fault(reason) from error
        wrong = [*unspeakable(found), *odd_dialect(found, stated.targets)]
        if wrong:
            raise self.at_fault(f"in its table of names: {'; '.join(wrong[:MOST_PROBLEMS])}")
        return found

    def dialect(self) -> Mapping[str, object]:
        """The objects behind the backend's dialect names; empty where it has none. E703 for what nobody can call."""
        found = self._by_name("dialect", tuple(entry.name for entry in self.dialect_names))
        if self.origin.is_own:
            return found
        from zellige.plugin.dialect import code_of, operation_problem  # a warm start asks for no operation

        for name, function in found.items():
            wrong = operation_problem(name, function)
            if wrong:
                raise self.at_fault(wrong)
            self._operations[code_of(function)] = name
        return found

    def _by_name(self, hook: str, announced: tuple[str, ...]) -> Mapping[str, Any]:
        """What a hook that answers a mapping has under the names that the manifest announces, read while the hook is to blame: a mapping of
        somebody else's may raise. Of ours all that it has."""

        def picked(answer: object) -> Mapping[str, Any]:
            found: Mapping[str, Any] = self._checked(Mapping, hook, answer)
            return found if self.origin.is_own else {name: found[name] for name in announced if name in found}

        return self._call(hook, picked) if self.has(hook) else {}

    def blamed_operation(self, function: object, error: BaseException) -> ZelligeError | None:
        """What a failure of ``function`` is to the user where that is an operation of this backend's; None for another function, and where
        the arguments of the call do not fit."""
        if not self._operations:
            return None
        from zellige.plugin.dialect import WrongOperation, code_of

        name = self._operations.get(code_of(function))
        if name is None or not self.owns(error):
            return None
        if not isinstance(error, WrongOperation):
            return self.blamed(error, f"operation T.{name}")
        line = raised_at(place_in(error, self._is_mine))
        return self.at_fault(f"its operation T.{name} asks for what cannot be: {error}", notes=line)

    def inspections(self) -> Mapping[str, Callable[..., object]]:
        """The methods that the backend adds to a compiled kernel, by name; empty where it has none."""
        return self._named("inspections", self.manifest.inspections)

    def timers(self) -> Mapping[str, Callable[..., list[float]]]:
        """The backend's own ways to time a launch, by name; empty where it has none."""
        return self._named("timers", self.manifest.timers)

    def cache_flush(self, size_bytes: int) -> CacheFlush | None:
        """What empties the caches of the backend's device; None where those are the host's."""
        if not self.has("cache_flush"):
            return None
        found = self._typed(CacheFlush, "cache_flush", size_bytes=size_bytes)
        if self.origin.is_own:
            return found
        from zellige.plugin.timing import WatchedFlush  # few ask for it

        return WatchedFlush(self, found)

    def context(self, target: Target, options: CompileOptions) -> CompileContext:
        """What the steps of one compilation may ask."""
        return AskingContext(target=target, capabilities=partial(self._stated, target), options=options, ir_version=self.manifest.ir)

    def _stated(self, target: Target) -> Capabilities:
        """What ``target`` can do; another package's backend is checked at once, since caches look before the planner does."""
        stated = self.describe(target)
        return stated if self.origin.is_own else self.checked_capabilities(target, stated)

    def checked_capabilities(self, target: Target, capabilities: Capabilities, hook: str = "") -> Capabilities:
        """``capabilities`` of ``target``, or E703 that says which fields are wrong or contradict each other. ``hook`` answered them (by
        itself ``describe``)."""
        look = problems_of_ours if self.origin.is_own else problems
        wrong = self._attempt(hook or "describe", lambda: look(capabilities, str(target)))  # looking may run code of the backend's
        if wrong:
            more = f"; and {len(wrong) - MOST_PROBLEMS} more" if len(wrong) > MOST_PROBLEMS else ""
            who = f"its hook {hook}" if hook else f"describe({target})"
            reason = f"{who} answered capabilities that cannot be: {'; '.join(wrong[:MOST_PROBLEMS])}{more}"
            raise self.at_fault(reason, self._stands(hook or "describe"))
        return capabilities

    def ask(self, ctx: CompileContext) -> Ask | None:
        """What asks the backend for the implementations that fit an operation; None where it has no such hook."""
        return (lambda operation: self._candidates(operation, ctx)) if self.has("candidates") else None

    def _candidates(self, operation: Operation, ctx: CompileContext) -> tuple[Answer, ...] | None:
        expected = f" for {operation.text}, expected a tuple of candidates and rejections, or None"

        def checked(answers: object) -> tuple[Answer, ...] | None:
            from zellige.plugin.answers import several

            return None if answers is None else several(self, "candidates", answers, (Candidate, Rejection), expected, may_be_none=False)

        return self._call("candidates", checked, operation=operation, ctx=ctx)

    def pass_changes(self, stage: PassStage, ctx: CompileContext) -> tuple[PassChange, ...]:
        """What the backend changes about the passes of a stage."""
        if not self.has("passes"):
            return ()
        from zellige.plugin.answers import several

        expected = ", expected a tuple of Insert, Replace or Veto"
        return self._call("passes", lambda found: several(self, "passes", found, (Insert, Replace, Veto), expected), stage=stage, ctx=ctx)

    def fit(self, planned: PlannedKernel, asked: tuple[Asked, ...], ctx: CompileContext) -> tuple[Revision, ...] | Fitted:
        """What the backend says of a plan: it stands (also where it has no such hook), or launches to be planned again."""
        if not self.has("fit"):
            return Fitted()
        from zellige.plugin.answers import revisions

        return self._call("fit", partial(revisions, self), planned=planned, asked=asked, ctx=ctx)

    def schedules(self) -> Mapping[str, StagePass]:
        """The backend's scheduling strategies by name; empty where it has none."""
        return self._call("schedules", self._strategies) if self.has("schedules") else {}

    def _strategies(self, answer: object) -> Mapping[str, StagePass]:
        """What the hook ``schedules`` answered, checked."""
        found: Mapping[str, StagePass] = self._checked(Mapping, "schedules", answer)
        if not self.origin.is_own:
            from zellige.plugin.answers import check_strategies

            found = dict(found.items())  # reading it later may raise where nobody knows whose it is
            check_strategies(self, found)
        return found

    def cache_key(self, ctx: CompileContext) -> str:
        """What else the backend's code depends on; empty where it says nothing."""
        return self._typed(str, "cache_key", ctx=ctx) if self.has("cache_key") else ""

    def begin(self, ctx: CompileContext) -> None:
        """Tell the backend that a kernel will be compiled next."""
        self._call("begin", self._nothing, ctx=ctx)

    def _nothing(self, answer: object) -> None:
        """What the hook ``begin`` answered, checked."""
        if answer is not None:
            reason = f"its hook begin answered {type(answer).__name__}, expected None"
            raise self.at_fault(reason)

    def compat(self, binary: Binary) -> Compatibility:
        """Whether machine code made earlier runs on this machine's first device."""
        if not self.has("compat"):
            return Compatibility(verdict="ok")
        found = self.devices
        if not isinstance(found, tuple) or not found:
            return Compatibility(verdict="ok")
        return self._typed(Compatibility, "compat", binary=binary, device=found[0])

    def conformance(self) -> Conformance:
        """What the backend claims of the conformance suite; nothing where it does not say."""
        return self._typed(Conformance, "conformance") if self.has("conformance") else Conformance()

    def diagnose(self, error: Exception) -> ZelligeError | None:
        """A vendor's exception in the user's words (E710), or None where the backend does not know it."""
        return self._diagnosis(error)[0]

    def _diagnosis(self, error: Exception) -> tuple[ZelligeError | None, str]:
        """The same, and what the hook ``diagnose`` did wrong, which is said beside the error that it was asked about."""
        if not self.has("diagnose"):
            return None, ""
        try:
            found = self._hooks.call("diagnose", {"error": error})
        except BaseException as other:  # the first error is the one to show, not one met while explaining it
            if is_blameless(other):
                raise
            return None, f"raised {said(other)}"
        if found is None:
            return None, ""
        if not isinstance(found, Diagnosis):
            from zellige.plugin.answers import kind_of

            return None, f"answered {kind_of(found, Diagnosis)}, expected Diagnosis or None"
        wrong = self._type_problems(Diagnosis, found, "Diagnosis")
        if wrong:
            return None, f"answered what cannot be: {wrong}"
        if is_blank(found.reason):
            return None, "answered a Diagnosis without a reason"
        return catalogue.E710.error(name=self.name, reason=cut(found.reason), advice=cut(found.hint) or "see the cause below"), ""

    @property
    def compiles_in_one_step(self) -> bool:
        """Whether the backend goes from the plan to a loaded kernel by itself."""
        return self.has("compile_kernel")

    @property
    def can_emit(self) -> bool:
        """Whether the backend gives the lowered program as text without a device."""
        return self.has("emit")

    def finish(self, emitted: Emitted, kernel: Kernel, ctx: CompileContext) -> CompiledKernel:
        """An emitted program compiled and loaded."""
        return self.load(self.compile_step(emitted, ctx), kernel, emitted, ctx)

    def compile_kernel(self, fitted: FittedKernel, ctx: CompileContext) -> CompiledKernel:
        """A kernel that can be launched: by the backend's one step, or by its steps emit, compile and load."""
        self._require_available(ctx.target)
        if self.has("compile_kernel"):
            return self._typed(CompiledKernel, "compile_kernel", planned=fitted.planned, ctx=ctx, fitted=fitted)
        return self.finish(self.emit_step(fitted, ctx), fitted.planned.kernel, ctx)

    @property
    def works_in_steps(self) -> bool:
        """Whether kernels are made by emit, compile and runtime, so that what lies between them can be kept."""
        return not self.compiles_in_one_step and all(self.has(hook) for hook in STEPS)

    def emit_step(self, fitted: FittedKernel, ctx: CompileContext) -> Emitted:
        """The lowered program as text, without a device. E703 for a backend that has neither one step nor all of them."""
        self._require_available(ctx.target)
        missing = [hook for hook in STEPS if not self.has(hook)]
        if missing and not (self.has("emit") and self.has("compile_kernel")):
            reason = f"it has neither the hook compile_kernel nor all of {', '.join(STEPS)}"
            raise self.at_fault(reason)
        emitted = self._typed(Emitted, "emit", planned=fitted.planned, ctx=ctx, fitted=fitted)
        if not self.origin.is_own and is_blank(emitted.text):
            raise self.at_fault("its hook emit answered an Emitted without a program: its text is empty", self._stands("emit"))
        return emitted

    def compile_step(self, emitted: Emitted, ctx: CompileContext) -> Binary:
        """The machine code of a lowered program, without a device."""
        binary = self._typed(Binary, "compile", emitted=emitted, ctx=ctx)
        if not self.origin.is_own and not binary.data and type(emitted) is Emitted:  # a simulated program needs no code
            raise self.at_fault("its hook compile answered a Binary without code: its data is empty", self._stands("compile"))
        return binary

    def load(self, binary: Binary, kernel: Kernel, source: Emitted, ctx: CompileContext) -> CompiledKernel:
        """Machine code made ready to be launched on this machine."""
        self._require_available(ctx.target)
        runtime = self._call("runtime", lambda answer: answer, ctx=ctx)
        self._attempt("runtime", lambda: self._check_loader(runtime))
        loaded = self._attempt("runtime", lambda: runtime.load(binary, kernel, source))
        return self._attempt("runtime", lambda: self._checked(CompiledKernel, "runtime", loaded))

    def _check_loader(self, runtime: object) -> None:
        """E703 where what the hook ``runtime`` answered cannot load as core asks it to."""
        wrong = ""
        if not callable(getattr(runtime, "load", None)):
            wrong = ", which has no method load(binary, kernel, source)"
        elif not self.origin.is_own:
            wrong = "".join(f": {problem}" for problem in call_problems(runtime, methods_of(Runtime))[:1])
        if wrong:
            raise self.at_fault(f"its hook runtime answered {type(runtime).__name__}{wrong}")

    def launch(
        self,
        kernel: CompiledKernel,
        pointers: Sequence[int],
        scalars: Sequence[int | float],
        sizes: Sequence[int],
        streams: Sequence[int] = (),
    ) -> None:
        """Launch a kernel of the backend's, where arguments name ``streams`` among those. Raises what the kernel raises, and E703 where its
        method answers something."""
        if streams and isinstance(kernel, StreamKernel):
            method, answer = "launch_among", cast(object, kernel.launch_among(pointers, scalars, sizes, streams))
        else:
            method, answer = "launch", cast(object, kernel.launch(pointers, scalars, sizes))
        if answer is not None:
            self.refuse_answer(method, answer)

    def refuse_answer(self, method: str, answer: object) -> NoReturn:
        """E703 for a method that launches, or refuses what a launch answered, and answered something by itself, such as the number by which
        a driver says that it failed: nobody would look at it, and the kernel would be taken to have run."""
        expected = "that it raises what the number means" if method == "refuse" else "None: a launch that fails raises"
        reason = f"its method {method} answered {shortened(answer)}, expected {expected}"
        raise self.at_fault(reason)

    def bounds_of(self, kernel: CompiledKernel, target: Target) -> Bounds:
        """What a launch of a compiled kernel takes: as the kernel says itself, else as its target is described."""
        stated: object = self._attempt("runtime", lambda: getattr(kernel, "bounds", None))
        return self.describe(target).bounds if stated is None else self._checked(Bounds, "runtime", stated)

    def tools(self) -> tuple[Tool, ...]:
        """The vendor's tools as this machine has them; a failure to say so is one of them."""
        try:
            return self.asked_tools()
        except ZelligeError as error:
            return (Tool(name=self.manifest.name, purpose="tells of its tools", problem=error.diagnostics[0].message),)

    def asked_tools(self) -> tuple[Tool, ...]:
        """The same; raises where the backend fails to say so."""
        found: Sequence[object] = self._typed(Sequence, "tools") if self.has("tools") else ()
        return tuple(self._checked(Tool, "tools", tool) for tool in found)

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

    def has(self, hook: str) -> bool:
        """Whether the backend has a hook of that name."""
        return self._hooks.has(hook)

    def _require_available(self, target: Target) -> None:
        if isinstance(self.manifest.state, Unavailable):
            raise catalogue.E706.error(target=str(target), reason=self.manifest.state.reason)

    def _call(self, hook: str, then: Callable[[Any], _T], **arguments: object) -> _T:
        """What ``then`` makes of a hook's answer, None where there is no such hook. Looking at an answer may run code of the backend's, for
        which the hook is to blame too."""
        if not self._hooks.has(hook):
            return then(None)
        given = arguments if self.origin.is_own else {name: apart(value) for name, value in arguments.items()}
        if self.origin.is_own:
            return self._attempt(hook, lambda: then(self._hooks.call(hook, given)))
        asked = arguments.get("target", getattr(arguments.get("ctx"), "target", ""))
        from zellige.plugin.nesting import entered  # ours do without

        with entered(self, hook, str(asked)):
            try:
                return self._attempt(hook, lambda: then(self._hooks.call(hook, given)))
            except ZelligeError as error:
                first = error.diagnostics[0]
                if (first.code, first.backend) == (catalogue.E703.id, self.name) and not any(note.span for note in first.notes):
                    for note in self._stands(hook):
                        error.tell_note(note)
                raise

    def _stands(self, hook: str) -> tuple[Note, ...]:
        """The note that names the line of a hook whose answer is wrong."""
        place = self._hooks.place(hook)
        return () if place is None else (Note(f"its hook {hook} begins here", place),)

    def _attempt(self, hook: str, do: Callable[[], _T], *, place: str = "") -> _T:
        """What a hook answers, or what is made of its answer, with its name on what goes wrong; ``place`` is what that is called, where it
        is something else than a hook."""
        called = place or f"hook {hook}"
        watched = do if self.origin.is_own else partial(self._watched, called, do, has_limit=hook == "probe")
        return self.blaming(called, watched, is_alone=not place and hook in _WITHOUT_THE_COMPILER)

    def blaming(self, place: str, do: Callable[[], _T], *, is_alone: bool = False) -> _T:
        """What a hook, or something else of the backend's that is called ``place``, answers, with its name on what goes wrong.
        ``is_alone``: nothing of core's runs there but what the backend calls."""
        try:
            return do()
        except ZelligeError as error:
            if not says_something(error):
                raise self.blamed(error, place) from error
            if not self.origin.is_own:
                error.tell_place_of_call()
                self._sign(error, place)
            raise
        except InternalError as error:
            if not self.raised(error) and (self.origin.is_own or not is_alone):
                raise
            raise self.blamed(error, place) from error
        except BaseException as error:
            if is_blameless(error) and not (isinstance(error, MemoryError) and not self.origin.is_own):
                raise
            raise self.blamed(error, place) from error

    def sign(self, error: ZelligeError) -> None:
        """Adds to an error with a code, which came through code of the backend's outside of its hooks, whose it is."""
        if self.owns(error):
            self._sign(error, self._place(error))

    def _sign(self, error: ZelligeError, place: str) -> None:
        if not self._is_named(error):
            error.tell_note(Note(f"said by the backend {self.name!r} in its {place}", kind="said by"))

    def _watched(self, place: str, do: Callable[[], _T], *, has_limit: bool) -> _T:
        """The same of somebody else's hook. E703 where it leaves the process another than it was, which is undone. Of one that
        ``has_limit`` of time nobody has to say that it takes long."""
        replaced: list[str] = []
        try:
            with nullcontext() if has_limit else patience(self.origin, f"in its {place}"), process_kept() as replaced:
                answer = do()
        except Warning as error:
            if replaced:  # it turned warnings into errors itself; those that the user turns pass on
                raise self.blamed(error, place) from error
            raise
        if replaced:
            reason = f"its {place} replaced {', '.join(replaced[:MOST_PROBLEMS])}, which is not its own; that was undone"
            raise self.at_fault(reason)
        return answer

    def blamed(self, error: BaseException, place: str = "") -> ZelligeError:
        """What a failure inside the backend's code is to the user: E710 where the backend knows it, else E709. ``place`` is where it was
        raised, where that is known."""
        is_taken_in = "manifest" in self.__dict__
        known, wrong = self._diagnosis(error) if is_taken_in and isinstance(error, Exception) else (None, "")
        if known is not None:
            return known
        more = (Note(f"its hook diagnose, asked what that means, {wrong}"),) if wrong else ()
        line = place_in(error, self._is_mine) or place_outside(error)
        made = catalogue.E709.error(
            name=self.name, place=place or self._place(error), reason=said(error), vendor=self.vendor, notes=(*raised_at(line), *more)
        )  # fmt: skip
        return caught_too(made, MemoryError) if isinstance(error, MemoryError) else made

    @property
    def vendor(self) -> str:
        """Who is told of a fault; a manifest that raised cannot say it."""
        return self.manifest.vendor if "manifest" in self.__dict__ else "its author"

    def _place(self, error: BaseException) -> str:
        """The hook that an exception passed through; else the method of an object that the backend handed to core."""
        names = [frame.f_code.co_name for frame in _frames(error) if self._is_mine(frame)]
        hook = next((name for name in names if name in hook_parameters()), "")
        return f"hook {hook}" if hook else "hook runtime" if {*names} & _LAUNCHES else f"method {names[0] if names else '?'}"

    def _is_mine(self, frame: FrameType) -> bool:
        """Whether a frame runs code of the backend's package, or of another that its manifest names as the backend's code."""
        return str(frame.f_globals.get("__name__")).partition(".")[0] in self._packages

    @property
    def _packages(self) -> frozenset[str]:
        """Where the backend's code is. What Zellige itself brings is nobody else's, though code of backends depends on it."""
        manifest = self.__dict__.get("manifest")
        named = () if manifest is None else manifest.code_packages
        tops = {*self.packages, *(name.partition(".")[0] for name in named)}
        return frozenset(tops if self.origin.is_own else tops - OF_ZELLIGE)

    def _is_named(self, error: ZelligeError) -> bool:
        """Whether an error says already which backend's it is: by a note, since hooks may ask for other hooks, or as what a plugin did
        wrong (E7xx), where it is this one that it names."""
        first = error.diagnostics[0]
        return first.backend == self.name or any(note.kind == "said by" for note in first.notes)

    def owns(self, error: BaseException) -> bool:
        """Whether an exception passed through the code of a backend that is somebody else's."""
        return not self.origin.is_own and any(self._is_mine(frame) for frame in _frames(error))

    def raised(self, error: BaseException) -> bool:
        """Whether an exception was raised in the code of a backend that is somebody else's, not by something of core's that it called."""
        frames = _frames(error)
        return not self.origin.is_own and bool(frames) and self._is_mine(frames[-1])

    def text_of(self, kernel: CompiledKernel, what: Literal["source", "assembly"]) -> str:
        """The source or the assembly of a compiled kernel."""
        method = f"method {what}"
        return self._checked(str, what, self._attempt(what, getattr(kernel, what), place=method), place=method)

    def _named(self, hook: Literal["inspections", "timers"], announced: tuple[str, ...]) -> Mapping[str, Any]:
        """Functions by name, those that the manifest announces among them."""
        found = self._by_name(hook, announced)
        missing = [name for name in announced if not callable(found.get(name))]
        if missing:
            reason = f"its manifest announces the {hook} {', '.join(missing)}, for which its hook {hook} has no function"
            raise self.at_fault(reason)
        if self.origin.is_own:
            return found
        from zellige.plugin.timing import functions_of  # few ask for them

        return functions_of(self, hook, {name: found[name] for name in announced})

    def _typed(self, kind: type[_T], hook: str, **arguments: object) -> _T:
        return self._call(hook, lambda answer: self._checked(kind, hook, answer), **arguments)

    def _checked(self, kind: type[_T], hook: str, answer: object, *, place: str = "") -> _T:
        """An answer that is of the type ``kind`` and as the contract has it, or E703. ``place`` is what the hook is called."""
        place = place or f"hook {hook}"
        if self.origin.is_own and is_protocol(kind):
            return cast(_T, answer)  # asking a protocol takes long, and tests keep our own to it
        if not isinstance(answer, kind):
            from zellige.plugin.answers import kind_of

            raise self.at_fault(f"its {place} answered {kind_of(answer, kind)}, expected {kind.__name__}")
        if not self.origin.is_own:
            from zellige.plugin.answers import check_answer  # ours do without

            check_answer(self, hook, answer, kind, place)
        if isinstance(answer, str) and not is_text(answer):
            reason = f"its {place} answered {shortened(answer)}, which holds characters that are no text (half of a surrogate pair)"
            raise self.at_fault(reason)
        return answer

    def _type_problems(self, kind: Any, value: object, where: str) -> str:
        """What is of a wrong type or beyond a limit; empty where nothing is, or where the backend is one of zellige's own, which its tests
        check."""
        if self.origin.is_own:
            return ""
        from zellige.plugin.answers import faults_of_type

        return faults_of_type(kind, value, where)


def _frames(error: BaseException) -> list[FrameType]:
    """The frames that an exception passed through, whatever its class says of them."""
    return [frame for frame, _ in traceback.walk_tb(_TRACEBACK.__get__(error))]
