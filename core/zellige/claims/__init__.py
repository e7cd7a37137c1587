"""Whether a target can do what its backend says: every claim that a probe knows, tried on the target.

In: a backend and a target. Out: a :class:`Finding` a claim: it holds, it does not, or why it was not tried. :func:`examined` asks in this
process; ``python -m zellige.claims BACKEND TARGET`` is a process of its own, whose end and hanging :func:`examined_apart` reports as the
fault of the claim at work. ``zellige backends doctor NAME --probe`` prints them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final, Literal

from zellige.claims.machine import NotChecked, Subject
from zellige.claims.probes import PROBES, Claim, Lie
from zellige.diagnostics import InternalError, ZelligeError
from zellige.plugin.contract import Unavailable
from zellige.plugin.handle import BackendHandle
from zellige.plugin.registry import registry
from zellige.target import Target

__all__ = ["PROBES", "Finding", "examined", "examined_apart"]

MARK: Final = "zellige-claim:"
"""Begins the lines of the process of its own: a claim that is about to be tried, then what was found."""

Verdict = Literal["holds", "does not hold", "not checked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What became of a claim: the field of the capabilities, what it says, the verdict, and what happened where it is not "holds"."""

    probe: str
    field: str
    text: str
    verdict: Verdict
    reason: str = ""


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
    reason = ""
    try:
        claim.check()
    except NotChecked as error:
        verdict, reason = "not checked", str(error)
    except Lie as error:
        verdict, reason = "does not hold", str(error)
    except (ZelligeError, InternalError) as error:
        verdict, reason = "does not hold", _first_line(error)
    except Exception as error:  # noqa: BLE001 - a stranger's code: whatever it raises is what became of its claim
        verdict, reason = "does not hold", f"{type(error).__name__}: {_first_line(error)}"
    return Finding(probe=name, field=claim.field, text=claim.text, verdict=verdict, reason=reason)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")


def unavailable(handle: BackendHandle, target: Target) -> str:
    """Why the claims of a target cannot be tried here; empty where they can."""
    if target.is_simulated:
        return ""
    found = handle.devices
    if isinstance(found, Unavailable):
        return f"{found.code}: {found.reason}"
    return "" if found else "no device of it is here"


def examined_apart(backend: str, target: str, seconds: float) -> list[Finding]:
    """The findings of a process of its own. One that dies or takes longer than ``seconds`` ends with the claim that it was trying."""
    command = [sys.executable, "-m", __name__, backend, target]
    ending = ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL)
        output = done.stdout
        if done.returncode:
            said = done.stderr.strip().splitlines()
            ending = f"the process ended with {done.returncode}" + (f": {said[-1]}" if said else "")
    except subprocess.TimeoutExpired as error:
        output = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
        ending = f"it took more than {seconds:g} s"
    lines = [json.loads(line[len(MARK) :]) for line in output.splitlines() if line.startswith(MARK)]
    findings = [Finding(**line) for line in lines if "verdict" in line]
    if ending:
        begun = [line for line in lines if "verdict" not in line]
        at = begun[-1] if len(begun) > len(findings) else {"probe": "", "field": "describe", "text": "the backend can be asked"}
        findings.append(Finding(**at, verdict="does not hold", reason=ending))
    return findings


def main(arguments: list[str]) -> int:
    """Tries the claims of a backend's target and writes what it finds, a line each."""
    backend, wanted = arguments
    handle = registry().named(backend)
    subject = Subject.of(handle, registry().resolve(wanted))
    for name, claim in _claims(subject):
        print(MARK + json.dumps({"probe": name, "field": claim.field, "text": claim.text}), flush=True)
        print(MARK + json.dumps(asdict(_tried(name, claim))), flush=True)
    return 0
