"""Whether a target can do what its backend says: every claim that a probe knows, tried on the target; and whether its hooks answer.

In: a backend and a target. Out: a :class:`Finding` a claim: it holds, it does not, or why it was not tried. :func:`examined` tries claims
in this process; ``python -m zellige.claims`` is a process of its own, whose end and hanging :func:`examined_apart` and :func:`asked_apart`
report as the fault of the claim at work. ``zellige backends doctor NAME`` asks the hooks, and with ``--probe`` tries the claims too.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Final, Literal

from zellige.claims.hooks import questions
from zellige.claims.machine import NotChecked, Subject
from zellige.claims.probes import PROBES, Claim, Lie
from zellige.claims.remains import Remains
from zellige.diagnostics import InternalError, ZelligeError, catalogue
from zellige.plugin.fields import said
from zellige.plugin.handle import BackendHandle
from zellige.plugin.interruption import is_blameless, is_from_outside
from zellige.plugin.probing import answered_apart, ending_of, telling
from zellige.plugin.registry import begin_with_one, registry
from zellige.target import Target

__all__ = ["PROBES", "Finding", "asked_apart", "examined", "examined_apart"]

HOOKS: Final = "hooks"
"""What stands for a probe where hooks are asked."""

STAYS: Final = "process"
"""The field of the finding that says, as its reason, what a backend leaves in a process in which its hooks were asked."""

_END: Final = {"is_end": True}
"""The last line of what such a process writes."""

_NO_SUCH_TARGET: Final = (catalogue.E706.id, catalogue.E719.id)
"""What an architecture that there is not is refused with: that is who asked for it, and no fault of a backend's."""

Verdict = Literal["holds", "does not hold", "not checked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What became of a claim: the field of the capabilities (or the hooks, or :data:`STAYS`), what it says, the verdict, what happened
    where it is not "holds", and the traceback of what a backend raised."""

    probe: str
    field: str
    text: str
    verdict: Verdict
    reason: str = ""
    traceback: str = ""


def examined(handle: BackendHandle, target: Target) -> Iterator[Finding]:
    """Every claim of a target, one after the other. Raises what ``describe`` raises."""
    for name, claim in _claims(Subject.of(handle, target)):
        yield _tried(name, claim)


def _claims(subject: Subject) -> Iterator[tuple[str, Claim]]:
    for name, probe in PROBES.items():
        for claim in probe(subject):
            yield name, claim


def _tried(name: str, claim: Claim) -> Finding:
    verdict: Verdict = "holds"
    reason = trace = ""
    try:
        claim.check()
    except NotChecked as error:
        verdict, reason = "not checked", str(error)
    except Lie as error:
        verdict, reason = "does not hold", str(error)
    except BaseException as error:  # a stranger's code: whatever it raises is what became of its claim
        if is_from_outside(error):
            raise
        if is_blameless(error) or (claim.field == "describe" and getattr(error, "code", None) in _NO_SUCH_TARGET):
            return Finding(probe=name, field=claim.field, text=claim.text, verdict="not checked", reason=_said(error))
        verdict, reason, trace = "does not hold", _said(error), "".join(traceback.format_exception(error.__cause__ or error))
    return Finding(probe=name, field=claim.field, text=claim.text, verdict=verdict, reason=reason, traceback=trace)


def _said(error: BaseException) -> str:
    """What an exception says in a line, with the line of the backend's code where that is known."""
    if not isinstance(error, ZelligeError):
        return said(error).splitlines()[0].removeprefix(f"{InternalError.__name__}: ")
    told = error.diagnostics[0]
    return f"{told.severity} {told.code}: {told.message}" + ("" if told.line_of_fault is None else f", raised at {told.line_of_fault}")


def examined_apart(backend: str, arch: str, seconds: float, *, entry_point: str = "") -> list[Finding]:
    """The findings of a process of its own about the claims of a backend's first target, of the architecture ``arch`` (empty: the backend
    chooses). ``backend`` is the name of its entry point, and ``entry_point`` the whole of it where another has that name too. A process
    that dies or takes longer than ``seconds`` ends with the claim that it was trying."""
    return _apart("claims", backend, entry_point, arch, seconds)


def asked_apart(backend: str, arch: str, seconds: float, *, entry_point: str = "") -> list[Finding]:
    """The same about the hooks."""
    return _apart(HOOKS, backend, entry_point, arch, seconds)


def _apart(what: str, backend: str, entry_point: str, arch: str, seconds: float) -> list[Finding]:
    answered = answered_apart(__name__, (what, backend, entry_point, arch), seconds)
    code = answered.code
    is_whole = _END in answered.told  # what a process was asked may end it, with any exit code
    data = [one for one in answered.told if one != _END]
    findings = [Finding(**one) for one in data if "verdict" in one]
    if code != 0 or not is_whole:
        begun = [one for one in data if "verdict" not in one]
        at = begun[-1] if len(begun) > len(findings) else {"probe": "", "field": "describe", "text": "the backend can be asked"}
        reason = f"it took more than {seconds:g} s" if code is None else f"the process {ending_of(code)}"
        findings.append(Finding(**at, verdict="does not hold", reason=reason, traceback=answered.printed))
    return findings


def main(arguments: list[str]) -> int:
    """Asks the hooks or tries the claims of a backend's target and writes what it finds to a file, a line each."""
    what, backend, entry_point, arch, file = arguments
    before = Remains()
    begin_with_one(backend)
    named = [handle for handle in registry().backends if backend in (handle.origin.name, handle.manifest.name)]
    handle = next((handle for handle in named if handle.origin.text == entry_point), named[0])
    with telling(file) as tell:
        for name, claim in _all(what, handle, arch):
            tell(probe=name, field=claim.field, text=claim.text)
            tell(**asdict(_tried(name, claim)))
        if what == HOOKS and not handle.origin.is_own:
            reason = "; ".join(before.since())
            tell(**asdict(Finding(probe=HOOKS, field=STAYS, text="what stays in it is known", verdict="holds", reason=reason)))
        tell(**_END)
    return 0


def _all(what: str, handle: BackendHandle, arch: str) -> Iterator[tuple[str, Claim]]:
    """The claims about a backend. Where its target cannot even be described, that is the only one."""
    try:
        _, target = registry().backend_and_target(handle.manifest.name, arch)
        if what == HOOKS:
            yield from ((HOOKS, claim) for claim in questions(handle, target))
            return
        subject = Subject.of(handle, target)
    except ZelligeError as error:
        yield "", Claim(field="describe", text="the target can be described", check=partial(_raised, error))
        return
    yield from _claims(subject)


def _raised(error: ZelligeError) -> None:
    raise error
