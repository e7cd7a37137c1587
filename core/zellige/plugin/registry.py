"""Finding backends and the target that a text means.

In: entry points of the group ``zellige.backends`` and core's own reference backend. Out: a :class:`Registry`, which resolves target texts,
hands out :class:`BackendHandle` objects and says which targets have a dialect name.

Each entry point is loaded by itself (:mod:`zellige.plugin.loading`): one that fails to load, to validate or to say what it is, is set aside
with its traceback, the others stay usable, and its error is raised only when its own target is asked for. The backends of zellige's own
distribution come first: a name or target of theirs cannot be taken by another package.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.metadata import EntryPoint
from typing import Final

from zellige.diagnostics import catalogue
from zellige.diagnostics.suggest import closest
from zellige.options import options
from zellige.plugin.contract import ENTRY_POINT_GROUP, BackendReport, Manifest, Unavailable
from zellige.plugin.handle import BackendHandle
from zellige.plugin.installed import OWN_DISTRIBUTION, Installed, installed_points, misspelt_group
from zellige.plugin.loading import FATAL, Quarantined, load, loader, refused
from zellige.plugin.origin import OF_ZELLIGE, Origin
from zellige.plugin.probing import PROBE_CRASHED, QUARANTINED, report_isolated
from zellige.target import AUTO, Target, parse_target, with_architecture

__all__ = ["BackendHandle", "Origin", "Quarantined", "Registry", "registry"]

BUILTIN: Final = (("interp", "zellige.interp.backend:backend"),)
"""Backends of core itself: name and ``module:attribute``."""


def _check_options(written: Target, manifest: Manifest) -> None:
    """E719 for an architecture or an option that the backend says it does not read."""
    if manifest.options is None:
        return
    known = (*manifest.arch_options, *manifest.options)
    if written.arch and not manifest.arch_options:
        reads = f"it reads no architecture, and the options {', '.join(manifest.options)}" if manifest.options else _listed(())
        raise catalogue.E719.error(target=written.name, what=f"architecture {written.arch!r}", suggestion="", known=reads)
    for key, _ in written.options:
        if key not in known:
            raise catalogue.E719.error(target=written.name, what=f"option {key!r}", suggestion=closest(key, known), known=_listed(known))


def _refuse_details(written: Target) -> None:
    """E719 for ``auto`` with an architecture or options: whose they would be is not known before it has chosen."""
    if written.arch or written.options:
        what = f"architecture {written.arch!r}" if written.arch else f"option {written.options[0][0]!r}"
        known = f"{AUTO} chooses a target by the arguments and what works here: name the target that has it"
        raise catalogue.E719.error(target=AUTO, what=what, suggestion="", known=known)


def _listed(names: Sequence[str]) -> str:
    return f"it has: {', '.join(names)}" if names else "it has none: write the name alone"


class Registry:
    """All backends of one process, loaded in order at the first question about all of them.

    ``more`` finds further origins when they are asked for. A question about a target that bears the name of one of zellige's own backends
    loads that one alone, where it is the only one of ``origins`` with that name: nobody else can have it, and what others are installed
    must not slow the start of a program that does not ask. ``settled`` is a target of which the same is known of another package's backend:
    an earlier process looked at all that are installed.
    """

    def __init__(
        self, origins: Iterable[Origin], more: Callable[[], Iterable[Origin]] = tuple, settled: str = "", *, is_whole: bool = True
    ) -> None:
        self._first = tuple(origins)
        self._more = more
        self._settled = settled
        self.is_whole = is_whole
        """Whether it has all that is installed."""
        self._lock = threading.RLock()
        self._outcomes: dict[Origin, BackendHandle | Quarantined] = {}
        self._found: tuple[tuple[BackendHandle, ...], tuple[Quarantined, ...]] | None = None
        self.questions = 0
        """How often it was asked about all backends: what follows from the answer depends on what is installed."""

    @cached_property
    def _origins(self) -> tuple[Origin, ...]:
        return (*self._first, *self._more())

    @property
    def _ours(self) -> frozenset[str]:
        """The packages that are zellige's own: those of its backends too."""
        return OF_ZELLIGE | {origin.value.partition(":")[0].partition(".")[0] for origin in self._first if origin.is_own}

    def _outcome(self, origin: Origin) -> BackendHandle | Quarantined:
        """What loading gives; each backend is loaded once."""
        with self._lock:
            if origin not in self._outcomes:
                is_watched = not self._settled or origin.name != self._settled
                self._outcomes[origin] = load(origin, ours=self._ours, is_watched=is_watched)
            return self._outcomes[origin]

    def _alone(self, target: str) -> BackendHandle | None:
        """The backend that bears the name of a target and serves it, where nobody else can: one of zellige's own, or where that is settled.
        None where there is none, or it is broken."""
        named = [origin for origin in self._first if origin.is_own and origin.name == target]
        if not named and target == self._settled:
            named = [origin for origin in self._origins if origin.name == target]
        outcome = self._outcome(named[0]) if len(named) == 1 else None
        return outcome if isinstance(outcome, BackendHandle) and target in outcome.manifest.targets else None

    @property
    def _loaded(self) -> tuple[tuple[BackendHandle, ...], tuple[Quarantined, ...]]:
        with self._lock:  # two threads that compile first load each backend once
            if self._found is None:
                self._found = self._load()
            return self._found

    def _load(self) -> tuple[tuple[BackendHandle, ...], tuple[Quarantined, ...]]:
        handles: list[BackendHandle] = []
        quarantined: list[Quarantined] = []
        for origin in sorted(self._origins, key=lambda origin: not origin.is_own):
            outcome = self._outcome(origin)
            taken = _taken(outcome, handles) if isinstance(outcome, BackendHandle) else ""
            if isinstance(outcome, Quarantined):
                quarantined.append(outcome)
            elif taken:
                quarantined.append(refused(origin, taken))
            else:
                handles.append(outcome)
        claims = {handle: _claims_of(handle, handles) for handle in handles}
        quarantined += [refused(handle.origin, claim) for handle, claim in claims.items() if claim]
        return tuple(handle for handle, claim in claims.items() if not claim), tuple(quarantined)

    @property
    def backends(self) -> tuple[BackendHandle, ...]:
        """Every backend that could be taken in, available or not."""
        self.questions += 1
        return self._loaded[0]

    @property
    def quarantined(self) -> tuple[Quarantined, ...]:
        """Every backend that could not."""
        return self._loaded[1]

    def resolve(self, text: str | Target, *, device: str | int | None = None) -> Target:
        """The target that ``text`` means: aliases and architecture options replaced, ``auto`` decided.

        ``device`` is where the arguments live, for ``auto``: a framework's device name or a DLPack device type. The process's own
        choice (``ZELLIGE_TARGET``) stands in for ``auto``. Raises E704, E705, E707, E708 or E719, or a quarantined backend's own error.
        """
        written = parse_target(text)
        if written.name == AUTO:
            _refuse_details(written)
            chosen = parse_target(options().target)
            if chosen.name == AUTO:
                return self._automatic(device)
            written = chosen
        alias = None if self._alone(written.name) is not None else self._alias(written.name)
        if alias is not None:
            written = Target(name=alias.name, arch=written.arch or alias.arch, options=alias.options + written.options)
        manifest = self._handle(written).manifest
        keys = manifest.arch_options
        _check_options(written, manifest)
        arch = written.arch or next((value for key, value in written.options if key in keys and value is not None), "")
        return Target(name=written.name, arch=arch, options=tuple(o for o in written.options if o[0] not in keys or o[1] is None))

    def backend(self, target: Target) -> BackendHandle:
        """The backend that serves a resolved target. Raises as :meth:`resolve`, and E706 where the backend cannot serve at all."""
        handle = self._handle(target)
        if isinstance(handle.manifest.state, Unavailable):
            raise catalogue.E706.error(target=str(target), reason=handle.manifest.state.reason)
        return handle

    def own_points(self) -> list[list[str]]:
        """Name and value of the entry points of zellige's own distribution."""
        own = [(origin.name, origin.value) for origin in self._first if origin.is_own]
        return [list(point) for point in own if point not in BUILTIN]

    def other_points(self) -> list[list[str]]:
        """Name, value and distribution of the entry points of all others, and why they cannot be read."""
        return [[origin.name, origin.value, origin.distribution, origin.fault] for origin in self._origins if not origin.is_own]

    def own_packages(self) -> tuple[str, ...]:
        """The packages of zellige's own backends, which are loaded."""
        self.backends  # noqa: B018 - each of them says what it claims
        return tuple(dict.fromkeys(value.partition(":")[0].partition(".")[0] for _, value in self.own_points()))

    def is_settled(self, target: str) -> bool:
        """Whether a target bears the name of one entry point alone, and its backend serves it: nobody else can then have it."""
        named = [origin for origin in self._origins if origin.name == target]
        serving = [handle for handle in self.backends if handle.manifest.name == target and target in handle.manifest.targets]
        return len(named) == 1 and [handle.origin for handle in serving] == named

    def only(self, name: str) -> Registry:
        """A registry of the entry points of this name alone."""
        return Registry(origin for origin in self._origins if origin.name == name)

    def named(self, name: str) -> BackendHandle:
        """The backend of this name, of its own or of its entry point, or with this target. Raises as :meth:`resolve`."""
        found = next((handle for handle in self.backends if name in (handle.manifest.name, handle.origin.name)), None)
        return found or self._handle(self.resolve(name))

    def backend_and_target(self, name: str, arch: str = "") -> tuple[BackendHandle, Target]:
        """The backend ``name`` with its first target, or the one that has the target ``name`` with that, of the architecture ``arch``.
        Raises as :meth:`resolve`."""
        handle = self.named(name)
        is_target = parse_target(name).name in _names_of(handle)
        return handle, self.resolve(with_architecture(name if is_target else handle.manifest.targets[0], arch))

    def dialect_object(self, name: str) -> object | None:
        """What a backend puts behind ``T.<name>``; None where no backend has more than the name. E714: several backends do."""
        owners = [handle for handle in self.backends if any(entry.name == name for entry in handle.dialect_names)]
        found = [(handle, made[name]) for handle in owners for made in (handle.dialect(),) if name in made]
        if len(found) > 1:
            raise catalogue.E714.error(name=name, backends=", ".join(handle.manifest.name for handle, _ in found))
        return found[0][1] if found else None

    def dialect_targets(self, name: str) -> tuple[str, ...]:
        """The targets that have the dialect name ``T.<name>``; empty for a name that no backend has."""
        found = [entry.target for handle in self.backends for entry in handle.dialect_names if entry.name == name]
        return tuple(dict.fromkeys(found))

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

    def reports(self, *, with_tools: bool = False) -> tuple[BackendReport, ...]:
        """One report a backend, the quarantined last; ``with_tools`` each says what its vendor's tools are."""
        broken = [
            BackendReport(
                name=entry.origin.name,
                entry_point=entry.origin.text,
                manifest=None,
                unavailable=Unavailable(code=QUARANTINED, reason=entry.error.diagnostics[0].message),
                traceback=entry.traceback,
                origin=entry.origin.name,
            )
            for entry in self.quarantined
        ]
        return (*(handle.report(with_tools=with_tools) for handle in self.backends), *broken)

    def isolated_reports(self, seconds: float, names: frozenset[str] = frozenset()) -> tuple[BackendReport, ...]:
        """One report an entry point, each loaded and asked for its devices in a process of its own, which may die or hang. Where there are
        ``names``, of entry points, backends, targets or aliases: of those alone; E705 for another name. What only shows beside others, a
        name or target that is taken, is found here: for that, those of other packages are loaded in processes of their own also where they
        are not named."""
        made: dict[Origin, BackendReport] = {}
        for origin in self._origins:
            if not origin.is_own:
                made[origin] = report_isolated(origin.name, origin.text, seconds)
        ended = (*FATAL, PROBE_CRASHED)
        crashed = {report.origin for report in made.values() if report.unavailable is not None and report.unavailable.code in ended}
        together = Registry(origin for origin in self._origins if origin.name not in crashed)
        wanted = together._points_of(names, crashed) if names else {origin.name for origin in self._origins}
        for origin in self._origins:
            if origin.is_own and origin.name in wanted:
                made[origin] = report_isolated(origin.name, origin.text, seconds)
        taken = {(entry.origin.name, entry.origin.text): entry for entry in together.quarantined if not entry.traceback}
        return tuple(_with_taken(made[origin], taken) for origin in self._origins if origin.name in wanted)

    def _points_of(self, names: frozenset[str], crashed: set[str]) -> set[str]:
        """The names of the entry points that are meant by ``names``: theirs, or a name, target or alias of their backends. E705 for a name
        that is none of these; those of a backend that ``crashed`` are not known."""
        points = {origin.name for origin in self._origins} | crashed
        meant = {word: handle.origin.name for handle in self.backends for word in (*_names_of(handle), handle.manifest.name)}
        meant |= {point: point for point in points}
        for name in sorted(names - meant.keys()):
            plain = name.partition(":")[0].partition(",")[0]
            arch = f"; an architecture is asked for by --target: doctor {plain} --target ARCH" if plain in meant and plain != name else ""
            suggestion = f"; did you mean {plain!r}?" if arch else closest(name, meant)
            known = f"{', '.join(sorted(meant))}{arch}{misspelt_group(ENTRY_POINT_GROUP, name)}"
            raise catalogue.E705.error(target=name, suggestion=suggestion, known=known)
        return {meant[name] for name in names}

    def _alias(self, name: str) -> Target | None:
        found = [(handle, text) for handle in self.backends for alias, text in handle.manifest.aliases if alias == name]
        claims = [handle.manifest.name for handle, _ in found] + [h.manifest.name for h in self.backends if name in h.manifest.targets]
        if found and len(claims) > 1:
            raise catalogue.E704.error(target=name, backends=", ".join(claims))
        return parse_target(found[0][1]) if found else None

    def _handle(self, target: Target) -> BackendHandle:
        alone = self._alone(target.name)
        if alone is not None:
            return alone
        found = [handle for handle in self.backends if target.name in handle.manifest.targets]
        if len(found) > 1:
            raise catalogue.E704.error(target=target.name, backends=", ".join(handle.origin.text for handle in found))
        if found:
            return found[0]
        for entry in self.quarantined:
            if entry.origin.name == target.name:
                raise entry.error
        names = self.target_names()
        broken = ", ".join(entry.origin.name for entry in self.quarantined)
        known = (", ".join(names) or "none") + (f"; set aside as broken: {broken}" if broken else "")
        meant = closest(target.name, names)
        if not meant and any(character.isdecimal() for character in target.name):
            known += f"; an architecture follows the name of its target, as in NAME:{target.name}"
        known += misspelt_group(ENTRY_POINT_GROUP, target.name)
        raise catalogue.E705.error(target=target.name, suggestion=meant, known=known)

    def _automatic(self, device: str | int | None) -> Target:
        """The only backend that takes arrays of the device, or of several the one accelerator that works, else the host: the same whether
        a kernel is compiled before its arguments are known or called with them. References are never chosen. E708: several accelerators."""
        usable = [h for h in self.backends if h.manifest.kind != "reference" and not isinstance(h.manifest.state, Unavailable)]
        owners = [h for h in usable if device in (None, *h.manifest.framework_devices, *h.manifest.dlpack_devices)]
        if device is not None and len(owners) == 1:
            return Target(name=owners[0].manifest.targets[0])  # what it lacks is said when it is asked, instead of that nobody works
        candidates = [handle for handle in owners if handle.manifest.kind == "accelerator" and handle.works]
        candidates = candidates or [handle for handle in owners if handle.manifest.kind == "host" and handle.works]
        if len(candidates) > 1:
            raise catalogue.E708.error(candidates=", ".join(handle.manifest.targets[0] for handle in candidates))
        if not candidates and device is not None:
            known = ", ".join(self.target_names())
            raise catalogue.E705.error(target=f"for arguments on the device {device}", suggestion="", known=known)
        if not candidates:
            raise catalogue.E706.error(target=AUTO, reason="no backend works on this machine")
        return Target(name=candidates[0].manifest.targets[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """Entry points that need not be looked for: zellige's own and those of others, where each are known, and a settled target. ``only``:
    of other packages there are those of this name alone; of every name where it is empty."""

    points: Sequence[Origin] | None = None
    others: Sequence[Installed] | None = None
    settled: str = ""
    only: str = ""

    def registry(self) -> Registry:
        """Core's own backends, those of its distribution, then those of other packages."""
        own = [_own(name, value) for name, value in BUILTIN]
        own += map(_origin, installed_points(ENTRY_POINT_GROUP, OWN_DISTRIBUTION)) if self.points is None else self.points
        return Registry(own, self._origins_of_others, self.settled, is_whole=not self.only)

    def _origins_of_others(self) -> Iterator[Origin]:
        found = installed_points(ENTRY_POINT_GROUP) if self.others is None else self.others
        return (origin for origin in map(_origin, found) if not origin.is_own and self.only in ("", origin.name))


class _OfProcess:
    """The registry of this process, called for it: core's own backends, those of its distribution, then every other installed entry point
    by name. It is made once, when it is first asked for or by :func:`begin_with`; ``cache_clear()`` forgets it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: Registry | None = None

    def __call__(self) -> Registry:
        return self._held or self.begun(_Known())

    @property
    def is_begun(self) -> bool:
        return self._held is not None

    def begun(self, known: _Known) -> Registry:
        """What there is, or one of what is known."""
        with self._lock:  # two threads that ask first get the same
            if self._held is None:
                self._held = known.registry()
            return self._held

    def cache_clear(self) -> None:
        self._held = None


registry: Final = _OfProcess()


def begin_with(points: Iterable[Sequence[str]], others: Iterable[Sequence[str]] | None = None, settled: str = "") -> None:
    """Make the registry of this process from entry points that are known to be those that it has now: ``points`` of zellige's own
    distribution, by name and value, ``others`` of all others, as :meth:`Registry.other_points` lists them (None: to be looked for when
    asked about). ``settled`` is a target that is known to be its namesake's among the others."""
    if not registry.is_begun:
        mine = [_own(name, value) for name, value in points]
        theirs = None if others is None else [_installed(*other) for other in others]
        registry.begun(_Known(points=mine, others=theirs, settled=settled))


def begin_with_one(name: str) -> None:
    """Make the registry of this process, which asks one backend: of other packages it has the entry points of this name alone, so that what
    another backend does is not said of this one."""
    assert not registry.is_begun
    registry.begun(_Known(only=name))


def _installed(name: str, value: str, distribution: str, fault: str = "") -> Installed:
    return Installed(point=EntryPoint(name=name, value=value, group=ENTRY_POINT_GROUP), distribution=distribution, fault=fault)


def _own(name: str, value: str) -> Origin:
    """Of a backend of zellige's own, whose entry points name a module and an attribute and no more."""
    return Origin(name=name, value=value, distribution=OWN_DISTRIBUTION, load=loader(value), is_own=True)


def _origin(found: Installed) -> Origin:
    point = found.point
    fault = found.fault or ("" if point.pattern.match(point.value) else f"its entry point is {point.value!r}, expected module:attribute")
    loaded = partial(_garbled, fault) if fault else point.load
    is_own = found.distribution == OWN_DISTRIBUTION
    return Origin(name=point.name, value=point.value, load=loaded, distribution=found.distribution, is_own=is_own, fault=found.fault)


def _garbled(fault: str) -> object:
    raise ValueError(fault)


def _with_taken(report: BackendReport, taken: dict[tuple[str, str], Quarantined]) -> BackendReport:
    entry = taken.get((report.origin, report.entry_point))
    if entry is None:
        return report
    return replace(report, devices=(), unavailable=Unavailable(code=QUARANTINED, reason=entry.error.diagnostics[0].message))


def _taken(new: BackendHandle, others: list[BackendHandle]) -> str:
    """What a backend claims that it cannot have: the name or a target of zellige's own backends. Empty where nothing."""
    mine = _names_of(new)
    for other in others:
        if not other.origin.is_own:
            continue
        if other.manifest.name == new.manifest.name:
            return f"its name {new.manifest.name!r} is taken by {other.origin.text}"
        theirs = _names_of(other)
        if not new.origin.is_own and mine & theirs:
            return f"it claims the target {', '.join(sorted(mine & theirs))} of {other.origin.text}"
    return _taken_word(new)


def _claims_of(one: BackendHandle, all_of_them: list[BackendHandle]) -> str:
    """What a stranger claims that another backend's own name stands for, or a name that it shares with another stranger: neither has it,
    since which of them was meant is not known, and must not depend on which was loaded first. Empty where nothing."""
    same = [other.origin.text for other in all_of_them if other is not one and other.manifest.name == one.manifest.name]
    if same and not one.origin.is_own:
        return f"its name {one.manifest.name!r} is also that of {', '.join(same)}: uninstall all but one ({one.origin.text} is this one)"
    named = {other.manifest.name: other for other in all_of_them if other is not one and other.manifest.name in other.manifest.targets}
    taken = sorted(_names_of(one) & named.keys())
    return "" if one.origin.is_own or not taken else f"it claims the target {taken[0]}, which is named by {named[taken[0]].origin.text}"


def _names_of(one: BackendHandle) -> set[str]:
    """The targets of a backend and their other names."""
    return {*one.manifest.targets, *(alias for alias, _ in one.manifest.aliases)}


def _taken_word(new: BackendHandle) -> str:
    """The claim of a stranger to a name that the language itself has, which nobody would ever ask it for. Tests keep our own from it."""
    if new.origin.is_own or not new.dialect_names:
        return ""
    from zellige.plugin.words import is_word  # only strangers with names of their own pay for it

    names = [f"T.{entry.name}" for entry in new.dialect_names if is_word(entry.name)]
    return f"its dialect claims {', '.join(names)}, which the language itself has: begin names with that of the backend" if names else ""
