"""What ``zl.jit`` and ``zl.compile`` are told beside the function.

In: the keyword arguments of such a call. Out: :class:`JITOptions`, which gives the target and the options of one compilation. E159: an
option that does not exist or has a wrong value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige.diagnostics.suggest import closest, closest_argument
from zellige.frontend import arithmetic
from zellige.frontend.builder import Settings
from zellige.options import CompileOptions, options as process_options
from zellige.pass_configs import flags, option_fields, report_inert
from zellige.plugin.choices import PASS_STAGES, Insert, PassChange, Replace, Veto
from zellige.plugin.fields import said
from zellige.plugin.registry import registry
from zellige.target import AUTO, Target, parse_target, surrounding_target

OutIndex = int | Sequence[int] | None
TargetLike = str | Target | Mapping[str, Any] | None

_KINDS: Final = (
    ("pass_configs", Mapping, "a dictionary of keys and values"),
    ("debug_root_path", (str, PathLike), "the path of a folder"),
)
"""Options that take objects of one kind, and the kind in words."""

_IGNORED: Final = ("execution_backend", "target_host", "cached")


@dataclass(frozen=True, kw_only=True)
class JITOptions:
    """What ``jit`` and ``compile`` are told beside the function.

    ``execution_backend``, ``target_host`` and ``cached`` of other programs are accepted and change nothing: there is one
    way to run a kernel, so that ``execution_backend`` may be any name, and a changed kernel is always compiled. ``target_host`` has to be a
    target. With ``force_compile`` nothing that was traced or compiled before is used.
    """

    out_idx: OutIndex = None
    target: TargetLike = None
    verbose: bool | None = None
    pass_configs: Mapping[Any, Any] | None = None
    debug_root_path: str | Path | None = None
    compile_flags: Sequence[str] | str | None = None
    passes: Sequence[Any] = ()
    schedule: Any = None
    force_compile: bool | None = None

    def resolved_target(self) -> Target:
        """The target as given; the one of ``with target:`` around, or the process's default, where none is."""
        return parse_target(_target_text(self.target))

    def compile_options(self, settings: Settings, target: Target) -> CompileOptions:
        """The options of one compilation; what the kernel's body says gives way to what was given here."""
        configs = {**settings.pass_configs, **dict(self.pass_configs or {})}
        fields: dict[str, Any] = {}
        asks = bool(configs or settings.compile_flags or self.compile_flags)
        if asks and target.name == AUTO:
            target = registry().resolve(target)
        if configs:
            fields = option_fields(configs, target)
        fields["compile_flags"] = (*settings.compile_flags, *fields.get("compile_flags", ()), *flags("compile_flags", self.compile_flags))
        root = self.debug_root_path
        written = None if root is None else Path(root).absolute()
        passes, schedule = _user_passes(self.passes), _user_schedule(self.schedule)
        fields |= {"is_verbose": bool(self.verbose), "is_forced": bool(self.force_compile)}
        chosen = CompileOptions(debug_root=written, passes=passes, schedule=schedule, **fields)
        if asks:
            report_inert(chosen, target)
        return chosen


def _user_passes(passes: Any) -> tuple[tuple[str, Callable[[Any], Any] | PassChange], ...]:
    """Each pass, or change to the passes, with its stage: written as ``(stage, pass)``, said by the pass's attribute ``stage``, else
    "legalise". E159: none."""
    if passes == ():
        return ()
    if callable(passes) or isinstance(passes, str) or not isinstance(passes, Iterable):
        raise catalogue.E159.error(option="passes", reason=f"expected a list of passes, not {arithmetic.describe(passes)}")
    found: list[tuple[str, Callable[[Any], Any] | PassChange]] = []
    for entry in passes:
        is_pair = isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str)
        stage, step = entry if is_pair else (_asked(getattr(entry, "step", entry), "stage", "legalise", "passes"), entry)
        if stage not in PASS_STAGES:
            meant = closest(stage, PASS_STAGES) or ";"
            raise catalogue.E159.error(option="passes", reason=f"{stage!r} is no stage{meant} stages are {', '.join(PASS_STAGES)}")
        if isinstance(step, (Insert, Replace, Veto)):
            _check_change(step)
        elif not callable(step):
            raise catalogue.E159.error(option="passes", reason=f"{arithmetic.describe(step)} is no pass: expected a function of a kernel")
        _asked(getattr(step, "step", step), "name", None, "passes")
        found.append((stage, step))
    return tuple(found)


def _asked(step: object, attribute: str, default: object, option: str) -> Any:
    """An attribute of a pass. E159 where the pass raises when it is asked for it."""
    try:
        return getattr(step, attribute, default)
    except Exception as error:
        reason = f"a pass of the class {type(step).__name__} raises where it is asked for its {attribute}: {said(error)}"
        raise catalogue.E159.error(option=option, reason=reason) from error


def _check_change(change: PassChange) -> None:
    """E159 for a change that holds what it cannot be made with; whether the stage has such passes is seen where it runs."""
    reason = ""
    if not isinstance(change, Veto) and not callable(change.step):
        reason = f"its step {arithmetic.describe(change.step)} is no pass: expected a function"
    elif isinstance(change, Insert):
        for field in ("before", "after"):
            names = getattr(change, field)
            if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
                reason = f"its {field} is {names!r}, expected a tuple of names of passes"
    elif not isinstance(change.name, str):
        reason = f"its name is {change.name!r}, expected the name of a pass"
    if reason:
        raise catalogue.E159.error(option="passes", reason=f"{type(change).__name__}: {reason}")


def _user_schedule(schedule: Any) -> str | Callable[[Any], Any] | None:
    if schedule is None or isinstance(schedule, str):
        return schedule
    if callable(schedule):
        _asked(schedule, "name", None, "schedule")
        return schedule  # type: ignore[no-any-return]
    reason = f"expected the name of a strategy or a function from tile IR to tile IR, not {arithmetic.describe(schedule)}"
    raise catalogue.E159.error(option="schedule", reason=reason)


def _target_text(target: TargetLike) -> str | Target:
    if target is None or target == AUTO:
        return surrounding_target() or target or process_options().target
    if isinstance(target, (str, Target)):
        return target
    if isinstance(target, Mapping):
        entries = dict(target)
        kind = entries.pop("kind", None)
        if not isinstance(kind, str):
            raise catalogue.E159.error(option="target", reason="a dictionary names its target under 'kind'")
        return " ".join([kind, *(f"-{key}={value}" for key, value in entries.items())])
    return str(target)


def options_of(values: Mapping[str, Any], function: str) -> JITOptions:
    """JITOptions from keyword arguments. E159: an option that does not exist."""
    _check_ignored(values)
    for option, kind, wanted in _KINDS:
        given = values.get(option)
        if given is not None and not isinstance(given, kind):
            raise catalogue.E159.error(option=option, reason=f"expected {wanted}, not {arithmetic.describe(given)}")
    known = {k: v for k, v in values.items() if k not in _IGNORED}
    if known.get("out_idx") is not None:
        known["out_idx"] = _indices(known["out_idx"])
    try:
        return JITOptions(**known)
    except TypeError:
        unknown = next(k for k in known if k not in JITOptions.__dataclass_fields__)
        meant = closest_argument(unknown, (*JITOptions.__dataclass_fields__, *_IGNORED))
        raise catalogue.E159.error(option=unknown, reason=f"zl.{function} has no such option{meant}") from None


def _check_ignored(values: Mapping[str, Any]) -> None:
    """E159 for a value that an option without effect, or a switch, cannot have; E705 and the like for a host that is none."""
    for option in ("execution_backend", "target_host"):
        value = values.get(option)
        if value is not None and not isinstance(value, (str, Target)):
            raise catalogue.E159.error(option=option, reason=f"expected a name, not {arithmetic.describe(value)}")
    for option in ("force_compile", "cached", "verbose"):
        if not isinstance(values.get(option), (bool, int, type(None))):
            raise catalogue.E159.error(option=option, reason=f"expected True or False, not {arithmetic.describe(values[option])}")
    if values.get("target_host") is not None:
        registry().resolve(values["target_host"])


def _indices(out_idx: Any) -> int | tuple[int, ...] | None:
    """``out_idx`` as a number or numbers; an empty list names nothing. E159 for anything else."""
    if isinstance(out_idx, (list, tuple)):
        numbers = tuple(number for i in out_idx if (number := arithmetic.whole_number(i)) is not None)
        if len(numbers) == len(out_idx):
            return numbers or None
    elif (number := arithmetic.whole_number(out_idx)) is not None:
        return number
    raise catalogue.E159.error(option="out_idx", reason=f"expected an int or a list of ints, not {arithmetic.describe(out_idx)}")


def argument_sets(configs: Any) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The positional and the keyword arguments of each configuration that ``par_compile`` is given. E159: none, or not a list of these."""
    if isinstance(configs, (Mapping, str)) or not isinstance(configs, Iterable):
        raise catalogue.E159.error(option="configs", reason=f"expected a list, not {arithmetic.describe(configs)}", hint=_SETS_HINT)
    found: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    for config in configs:
        if isinstance(config, Mapping) and all(isinstance(name, str) for name in config):
            found.append(((), dict(config)))
        elif isinstance(config, Iterable) and not isinstance(config, (Mapping, str)):
            found.append((tuple(config), {}))
        else:
            odd = next((name for name in config if not isinstance(name, str)), config) if isinstance(config, Mapping) else config
            what = "names of arguments" if isinstance(config, Mapping) else "a dictionary or a tuple"
            raise catalogue.E159.error(option="configs", reason=f"expected {what}, not {arithmetic.describe(odd)}", hint=_SETS_HINT)
    return found


_SETS_HINT: Final = "give a dictionary of arguments by name, or a tuple of arguments, for each kernel: [{'M': 64}, {'M': 128}]"
