"""Finding backends and the target that a text means.

In: entry points of the group ``zellige.backends`` and core's own reference backend. Out: a :class:`Registry`, which resolves target texts,
hands out :class:`BackendHandle` objects and says which targets have a dialect name.

Each entry point is loaded by itself: one that fails to load, to validate or to say what it is, is set aside with its traceback, the others
stay usable, and its error is raised only when its own target is asked for.
"""

from __future__ import annotations

import importlib
import re
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pluggy

from zellige.diagnostics import InternalError, ZelligeError, catalogue
from zellige.options import options
from zellige.plugin.contract import (
    API,
    ENTRY_POINT_GROUP,
    BackendReport,
    Binary,
    Capabilities,
    CompileContext,
    CompiledKernel,
    Device,
    Emitted,
    Manifest,
    Unavailable,
)
from zellige.plugin.hooks import PROJECT, BackendHooks
from zellige.plugin.installed import installed_points
from zellige.target import AUTO, Target, parse_target

if TYPE_CHECKING:
    from zellige.ir.stmt import Kernel
    from zellige.options import CompileOptions
    from zellige.plan.nodes import PlannedKernel

PROBE_SECONDS: Final = 20.0
"""How long a backend may look for its devices before it counts as not available."""

BUILTIN: Final = (("interp", "zellige.interp.backend:backend"),)
"""Backends of core itself: name and ``module:attribute``."""

_T = TypeVar("_T")

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_REQUIRED: Final = ("manifest", "probe", "describe")
_STEPS: Final = ("emit", "compile", "runtime")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a backend's object comes from: the entry point's name, its text and what loads it."""

    name: str
    text: str
    load: Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    """A backend that could not be taken in: the error its target raises, and the traceback of the failure."""

    origin: Origin
    error: ZelligeError
    traceback: str


class BackendHandle:
    """A validated backend. Calls its hooks one by one and says whose fault a failure is.

    A failure inside a hook that is no diagnostic becomes E709; an answer of a wrong type E703.
    """

    def __init__(self, origin: Origin, plugin: object) -> None:
        self.origin = origin
        home = plugin.__name__ if isinstance(plugin, ModuleType) else type(plugin).__module__
        self.package = str(home).partition(".")[0]
        """The top-level package that the backend's object comes from."""
        self._hooks = pluggy.PluginManager(PROJECT)
        self._hooks.add_hookspecs(BackendHooks)
        self._hooks.register(plugin, name=origin.name)
        self._hooks.check_pending()
        missing = [hook for hook in _REQUIRED if not self._has(hook)]
        if missing:
            raise catalogue.E703.error(name=origin.name, reason=f"it lacks the hook {', '.join(missing)}")
        self.manifest = _validated(origin.name, self._call("manifest"))

    @cached_property
    def devices(self) -> tuple[Device, ...] | Unavailable:
        """What ``probe`` found, asked once. A probe that fails or takes too long counts as unavailable."""
        if isinstance(self.manifest.state, Unavailable):
            return self.manifest.state
        answer: list[object] = []

        def ask() -> None:
            try:
                answer.append(self._call("probe"))
            except Exception as error:  # noqa: BLE001 - a stranger's code on another thread: whatever it raises is its answer
                answer.append(Unavailable(code="probe-failed", reason=f"looking for devices failed: {error}"))

        worker = threading.Thread(target=ask, name=f"zellige-probe-{self.manifest.name}", daemon=True)
        worker.start()
        worker.join(PROBE_SECONDS)
        if not answer:
            return Unavailable(code="probe-timeout", reason=f"looking for devices took more than {PROBE_SECONDS:g} s")
        found = answer[0]
        if isinstance(found, Unavailable) or (isinstance(found, tuple) and all(isinstance(device, Device) for device in found)):
            return found
        return Unavailable(code="contract", reason=f"probe answered {type(found).__name__}, not a tuple of Device or Unavailable")

    @property
    def works(self) -> bool:
        """Whether a device of this backend works here."""
        return isinstance(self.devices, tuple) and len(self.devices) > 0

    def describe(self, target: Target) -> Capabilities:
        """The capabilities of ``target``, without a device."""
        return self._typed(Capabilities, "describe", target=target)

    def dialect(self) -> Mapping[str, object]:
        """The objects behind the backend's dialect names; empty where it has none."""
        return self._typed(Mapping, "dialect") if self._has("dialect") else {}

    def inspections(self) -> Mapping[str, Callable[..., object]]:
        """The methods that the backend adds to a compiled kernel, by name; empty where it has none."""
        return self._typed(Mapping, "inspections") if self._has("inspections") else {}

    def timers(self) -> Mapping[str, Callable[..., list[float]]]:
        """The backend's own ways to time a launch, by name; empty where it has none."""
        return self._typed(Mapping, "timers") if self._has("timers") else {}

    def context(self, target: Target, options: CompileOptions) -> CompileContext:
        """What the steps of one compilation may ask."""
        return CompileContext(target=target, capabilities=self.describe(target), options=options)

    def emit(self, planned: PlannedKernel, ctx: CompileContext) -> Emitted | None:
        """The lowered program as text without a device, or None where the backend only compiles in one step."""
        self._require_available(ctx.target)
        return self._typed(Emitted, "emit", planned=planned, ctx=ctx) if self._has("emit") else None

    def compile_kernel(self, planned: PlannedKernel, ctx: CompileContext) -> CompiledKernel:
        """A kernel that can be launched: by the backend's one step, or by its steps emit, compile and load."""
        self._require_available(ctx.target)
        if self._has("compile_kernel"):
            return self._typed(CompiledKernel, "compile_kernel", planned=planned, ctx=ctx)
        emitted = self.emit_step(planned, ctx)
        return self.load(self.compile_step(emitted, ctx), planned.kernel, emitted, ctx)

    @property
    def works_in_steps(self) -> bool:
        """Whether kernels are made by emit, compile and runtime, so that what lies between them can be kept."""
        return not self._has("compile_kernel") and all(self._has(hook) for hook in _STEPS)

    def emit_step(self, planned: PlannedKernel, ctx: CompileContext) -> Emitted:
        """The lowered program. E703 for a backend that has neither one step nor all of them."""
        self._require_available(ctx.target)
        missing = [hook for hook in _STEPS if not self._has(hook)]
        if missing:
            reason = f"it has neither the hook compile_kernel nor all of {', '.join(_STEPS)}"
            raise catalogue.E703.error(name=self.manifest.name, reason=reason)
        return self._typed(Emitted, "emit", planned=planned, ctx=ctx)

    def compile_step(self, emitted: Emitted, ctx: CompileContext) -> Binary:
        """The machine code of a lowered program, without a device."""
        return self._typed(Binary, "compile", emitted=emitted, ctx=ctx)

    def load(self, binary: Binary, kernel: Kernel, source: Emitted, ctx: CompileContext) -> CompiledKernel:
        """Machine code made ready to be launched on this machine."""
        self._require_available(ctx.target)
        loaded = self._call("runtime", ctx=ctx).load(binary=binary, kernel=kernel, source=source)
        return self._checked(CompiledKernel, "runtime", loaded)

    def report(self) -> BackendReport:
        """What ``zellige backends list`` shows."""
        found = self.devices
        return BackendReport(
            name=self.manifest.name,
            entry_point=self.origin.text,
            manifest=self.manifest,
            devices=found if isinstance(found, tuple) else (),
            unavailable=found if isinstance(found, Unavailable) else None,
        )

    def _has(self, hook: str) -> bool:
        return bool(getattr(self._hooks.hook, hook).get_hookimpls())

    def _require_available(self, target: Target) -> None:
        if isinstance(self.manifest.state, Unavailable):
            raise catalogue.E706.error(target=str(target), reason=self.manifest.state.reason)

    def _call(self, hook: str, **arguments: object) -> Any:
        try:
            return getattr(self._hooks.hook, hook)(**arguments)
        except (ZelligeError, InternalError):
            raise
        except Exception as error:
            manifest = self.__dict__.get("manifest")
            raise catalogue.E709.error(
                name=self.origin.name,
                hook=hook,
                reason=f"{type(error).__name__}: {error}",
                vendor=manifest.vendor if manifest is not None else "its author",
            ) from error

    def _typed(self, kind: type[_T], hook: str, **arguments: object) -> _T:
        return self._checked(kind, hook, self._call(hook, **arguments))

    def _checked(self, kind: type[_T], hook: str, answer: object) -> _T:
        if not isinstance(answer, kind):
            reason = f"its hook {hook} answered {type(answer).__name__}, expected {kind.__name__}"
            raise catalogue.E703.error(name=self.origin.name, reason=reason)
        return answer


class Registry:
    """All backends of one process. ``origins`` are loaded at the first question, in order."""

    def __init__(self, origins: Iterable[Origin]) -> None:
        self._origins = tuple(origins)
        self._lock = threading.RLock()
        self._found: tuple[tuple[BackendHandle, ...], tuple[Quarantined, ...]] | None = None

    @property
    def _loaded(self) -> tuple[tuple[BackendHandle, ...], tuple[Quarantined, ...]]:
        with self._lock:  # two threads that compile first load each backend once
            if self._found is None:
                self._found = self._load()
            return self._found

    def _load(self) -> tuple[tuple[BackendHandle, ...], tuple[Quarantined, ...]]:
        handles: list[BackendHandle] = []
        quarantined: list[Quarantined] = []
        for origin in self._origins:
            outcome = _load(origin)
            if isinstance(outcome, Quarantined):
                quarantined.append(outcome)
            else:
                handles.append(outcome)
        return tuple(handles), tuple(quarantined)

    @property
    def backends(self) -> tuple[BackendHandle, ...]:
        """Every backend that could be taken in, available or not."""
        return self._loaded[0]

    @property
    def quarantined(self) -> tuple[Quarantined, ...]:
        """Every backend that could not."""
        return self._loaded[1]

    def resolve(self, text: str | Target, *, device: str | int | None = None) -> Target:
        """The target that ``text`` means: aliases and architecture options replaced, ``auto`` decided.

        ``device`` is where the arguments live, for ``auto``: a framework's device name or a DLPack device type. The process's own
        choice (``ZELLIGE_TARGET``) stands in for ``auto``. Raises E704, E705, E707 or E708, or a quarantined backend's own error.
        """
        written = parse_target(text)
        if written.name == AUTO:
            chosen = parse_target(options().target)
            if chosen.name == AUTO:
                return self._automatic(device)
            written = chosen
        alias = self._alias(written.name)
        if alias is not None:
            written = Target(name=alias.name, arch=written.arch or alias.arch, options=alias.options + written.options)
        keys = self._handle(written).manifest.arch_options
        arch = written.arch or next((value for key, value in written.options if key in keys and value is not None), "")
        return Target(name=written.name, arch=arch, options=tuple(o for o in written.options if o[0] not in keys or o[1] is None))

    def backend(self, target: Target) -> BackendHandle:
        """The backend that serves a resolved target. Raises as :meth:`resolve`, and E706 where the backend cannot serve at all."""
        handle = self._handle(target)
        if isinstance(handle.manifest.state, Unavailable):
            raise catalogue.E706.error(target=str(target), reason=handle.manifest.state.reason)
        return handle

    def dialect_targets(self, name: str) -> tuple[str, ...]:
        """The targets that have the dialect name ``T.<name>``; empty for a name that no backend has."""
        found = [entry.target for handle in self.backends for entry in handle.manifest.dialect if entry.name == name]
        return tuple(dict.fromkeys(found))

    def dialect_names(self) -> frozenset[str]:
        """Every dialect name of every backend."""
        return frozenset(entry.name for handle in self.backends for entry in handle.manifest.dialect)

    def config_key(self, name: str) -> str | None:
        """The text of the pass-config key whose ``PassConfigKey`` member is ``name``, when a backend has it."""
        return next((entry.key for handle in self.backends for entry in handle.manifest.config_keys if entry.name == name), None)

    def config_targets(self, key: str) -> tuple[str, ...]:
        """The main targets of the backends that own the pass-config key with the text ``key``."""
        owners = [handle.manifest for handle in self.backends if any(entry.key == key for entry in handle.manifest.config_keys)]
        return tuple(manifest.targets[0] for manifest in owners)

    def hint_targets(self, name: str) -> tuple[str, ...]:
        """The main targets of the backends to which the keyword ``name`` of an operation is a hint."""
        return tuple(handle.manifest.targets[0] for handle in self.backends if name in handle.manifest.hints)

    def manifest_of(self, target: Target) -> Manifest | None:
        """The manifest of the backend that has ``target``; None for a target that no backend, or more than one, has."""
        found = [handle.manifest for handle in self.backends if target.name in (*handle.manifest.targets, *dict(handle.manifest.aliases))]
        return found[0] if len(found) == 1 else None

    def inspection_targets(self, name: str) -> tuple[str, ...]:
        """The main targets of the backends that add the method ``name`` to a compiled kernel."""
        return tuple(handle.manifest.targets[0] for handle in self.backends if name in handle.manifest.inspections)

    def timer_targets(self, name: str) -> tuple[str, ...]:
        """The main targets of the backends that have the timer ``name``."""
        return tuple(handle.manifest.targets[0] for handle in self.backends if name in handle.manifest.timers)

    def target_names(self) -> tuple[str, ...]:
        """Every target name and alias, sorted."""
        names = {name for handle in self.backends for name in handle.manifest.targets}
        return tuple(sorted(names | {alias for handle in self.backends for alias, _ in handle.manifest.aliases}))

    def reports(self) -> tuple[BackendReport, ...]:
        """One report a backend, the quarantined last."""
        broken = [
            BackendReport(
                name=entry.origin.name,
                entry_point=entry.origin.text,
                manifest=None,
                unavailable=Unavailable(code="quarantined", reason=entry.error.diagnostics[0].message),
                traceback=entry.traceback,
            )
            for entry in self.quarantined
        ]
        return (*(handle.report() for handle in self.backends), *broken)

    def _alias(self, name: str) -> Target | None:
        found = [(handle, text) for handle in self.backends for alias, text in handle.manifest.aliases if alias == name]
        claims = [handle.manifest.name for handle, _ in found] + [h.manifest.name for h in self.backends if name in h.manifest.targets]
        if found and len(claims) > 1:
            raise catalogue.E704.error(target=name, backends=", ".join(claims))
        return parse_target(found[0][1]) if found else None

    def _handle(self, target: Target) -> BackendHandle:
        found = [handle for handle in self.backends if target.name in handle.manifest.targets]
        if len(found) > 1:
            raise catalogue.E704.error(target=target.name, backends=", ".join(handle.origin.text for handle in found))
        if found:
            return found[0]
        for entry in self.quarantined:
            if entry.origin.name == target.name:
                raise entry.error
        known = ", ".join(self.target_names()) or "none"
        broken = ", ".join(entry.origin.name for entry in self.quarantined)
        raise catalogue.E705.error(target=target.name, known=known + (f"; set aside as broken: {broken}" if broken else ""))

    def _automatic(self, device: str | int | None) -> Target:
        usable = [h for h in self.backends if h.manifest.kind != "reference" and not isinstance(h.manifest.state, Unavailable)]
        if device is not None:
            owners = [h for h in usable if device in h.manifest.framework_devices or device in h.manifest.dlpack_devices]
            candidates = owners if len(owners) == 1 else [handle for handle in owners if handle.works]
            if not candidates:
                raise catalogue.E705.error(
                    target=f"for arguments on the device {device}",
                    known=", ".join(self.target_names()),
                )
        else:
            candidates = [handle for handle in usable if handle.manifest.kind == "accelerator" and handle.works]
            candidates = candidates or [handle for handle in usable if handle.manifest.kind == "host" and handle.works]
        if len(candidates) > 1:
            raise catalogue.E708.error(candidates=", ".join(handle.manifest.targets[0] for handle in candidates))
        if not candidates:
            raise catalogue.E706.error(target=AUTO, reason="no backend works on this machine")
        return Target(name=candidates[0].manifest.targets[0])


@lru_cache(maxsize=1)
def registry() -> Registry:
    """The registry of this process: core's own backends, then every installed entry point by name.

    ``registry.cache_clear()`` forgets it.
    """
    return Registry(
        [
            *(Origin(name=name, text=f"zellige: {text}", load=_loader(text)) for name, text in BUILTIN),
            *(
                Origin(name=one.point.name, text=f"{one.distribution}: {one.point.value}", load=one.point.load)
                for one in installed_points(ENTRY_POINT_GROUP)
            ),
        ]
    )


def _loader(text: str) -> Callable[[], object]:
    module, _, attribute = text.partition(":")
    return lambda: getattr(importlib.import_module(module), attribute)


def _load(origin: Origin) -> BackendHandle | Quarantined:
    """Load and validate one backend. Whatever goes wrong is kept, since a stranger's package must not break ours."""
    try:
        plugin = origin.load()
        theirs = getattr(plugin, "API", None)
        if not (isinstance(theirs, tuple) and len(theirs) == 2 and all(isinstance(part, int) for part in theirs)):
            raise catalogue.E703.error(name=origin.name, reason=f"its API is {theirs!r}, expected (major, minor)")
        if theirs[0] != API[0] or theirs[1] > API[1]:
            raise catalogue.E702.error(name=origin.name, theirs=".".join(map(str, theirs)), ours=".".join(map(str, API)))
        return BackendHandle(origin, plugin)
    except ZelligeError as error:
        return Quarantined(origin=origin, error=error, traceback=traceback.format_exc())
    except pluggy.PluginValidationError as error:
        text = traceback.format_exc()
        refused = catalogue.E703.error(name=origin.name, reason=str(error).replace("\n", " "))
        return Quarantined(origin=origin, error=refused, traceback=text)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a stranger's module may raise anything while it is imported
        text = traceback.format_exc()
        refused = catalogue.E701.error(name=origin.name, entry_point=origin.text, reason=f"{type(error).__name__}: {error}")
        return Quarantined(origin=origin, error=refused, traceback=text)


def _validated(name: str, answer: object) -> Manifest:
    """The manifest, or E703 that says which field is wrong."""
    if not isinstance(answer, Manifest):
        raise catalogue.E703.error(name=name, reason=f"manifest answered {type(answer).__name__}, expected Manifest")
    problems: list[str] = []
    if answer.kind not in ("accelerator", "host", "reference"):
        problems.append(f"kind is {answer.kind!r}, expected accelerator, host or reference")
    if not isinstance(answer.targets, tuple) or not answer.targets:
        problems.append("targets is empty or no tuple")
    else:
        problems += [f"{target!r} is no target name" for target in answer.targets if not _is_name(target) or target == AUTO]
    problems += [f"{alias!r} is no target name" for alias, _ in answer.aliases if not _is_name(alias) or alias == AUTO]
    problems += [f"{entry.name!r} is no name of the language" for entry in answer.dialect if not entry.name.isidentifier()]
    if answer.state != "available" and not isinstance(answer.state, Unavailable):
        problems.append(f"state is {answer.state!r}, expected 'available' or Unavailable")
    if problems:
        raise catalogue.E703.error(name=name, reason="; ".join(problems))
    return answer


def _is_name(text: object) -> bool:
    return isinstance(text, str) and _NAME.fullmatch(text) is not None
