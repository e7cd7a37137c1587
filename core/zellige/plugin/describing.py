"""What a target can do, asked of its backend in a process of its own, which may die or hang.

In: the name of a backend or target, an architecture, a time limit. Out: :func:`described_apart`, the capabilities, or the error that says
what became of the process. As a program (``python -m zellige.plugin.describing NAME ARCH FILE``) it is that process, and writes lines of
JSON: whose backend was loaded, then what it answered or the error.
"""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from zellige.diagnostics import CompileError, Diagnostic, InternalError, Note, Span, ZelligeError, catalogue
from zellige.diagnostics.printable import visible
from zellige.plugin.capabilities import Capabilities
from zellige.plugin.contract import ENTRY_POINT_GROUP
from zellige.plugin.fields import said
from zellige.plugin.installed import installed_points
from zellige.plugin.interruption import is_blameless
from zellige.plugin.probing import answered_apart, ending_of, telling
from zellige.plugin.registry import begin_with_one, registry
from zellige.plugin.schema import from_json, to_json


class TracebackApart(Exception):
    """The cause of an error that was raised in another process: the traceback there, as text."""


def described_apart(name: str, arch: str, seconds: float) -> Capabilities:
    """The capabilities of the target ``name``, or of the first target of the backend ``name``, with the architecture ``arch`` (empty: the
    backend chooses), checked. Raises what asking it raises; E701 or E709 where the process dies or takes more than ``seconds`` while a
    backend is loaded or asked. What is printed meanwhile goes to the standard error."""
    answered = answered_apart(__name__, (name, arch), seconds)
    if answered.printed:
        print(visible(answered.printed), file=sys.stderr)
    found: dict[str, Any] = {}
    for told in answered.told:
        found |= told
    if "capabilities" in found:
        return from_json(found["capabilities"])
    if "internal" in found:
        raise InternalError(found["internal"]) from TracebackApart(found["traceback"])
    if "diagnostics" in found:
        raise CompileError(*map(_diagnostic, found["diagnostics"])) from TracebackApart(found["traceback"])
    how = f"it took more than {seconds:g} s" if answered.code is None else f"the process {ending_of(answered.code)}"
    raise _ended(name, found, how)


def _ended(name: str, found: dict[str, Any], how: str) -> ZelligeError:
    """What is said of a process that gave no answer."""
    if "backend" in found:
        return catalogue.E709.error(name=found["backend"], place="hook describe", reason=how, vendor=found["vendor"])
    texts = [f"{one.distribution}: {one.point.value}" for one in installed_points(ENTRY_POINT_GROUP) if one.point.name == name]
    entry_point = ", ".join(texts) or "with all that are installed: name the backend by its entry point to load it alone"
    return catalogue.E701.error(name=name, entry_point=entry_point, reason=how)


def _diagnostic(data: dict[str, Any]) -> Diagnostic:
    notes = tuple(Note(**{**note, "span": _span(note["span"])}) for note in data["notes"])
    return Diagnostic(**{**data, "span": _span(data["span"]), "notes": notes})


def _span(data: dict[str, Any] | None) -> Span | None:
    return None if data is None else Span(**data)


def main(arguments: list[str]) -> int:
    """Writes into a file what is asked, as :func:`described_apart` reads it."""
    name, arch, file = arguments
    if any(one.point.name == name for one in installed_points(ENTRY_POINT_GROUP)):
        begin_with_one(name)
    with telling(file) as tell:
        try:
            handle, target = registry().backend_and_target(name, arch)
            tell(backend=handle.manifest.name, vendor=handle.manifest.vendor)
            capabilities = to_json(handle.checked_capabilities(target, handle.describe(target)))
            tell(capabilities=capabilities)
        except ZelligeError as error:
            tell(diagnostics=[asdict(one) for one in error.diagnostics], traceback="".join(traceback.format_exception(error)))
        except Exception as error:
            if is_blameless(error):
                raise
            message = error.message if isinstance(error, InternalError) else said(error)
            tell(internal=message, traceback="".join(traceback.format_exception(error)))
    return 0


def _written_out() -> None:
    """What was printed, written out as far as the backend that was asked left something to write it to."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # a descriptor that is closed, a file that is, none at all
            stream.flush()


if __name__ == "__main__":
    code = 1
    try:
        code = main(sys.argv[1:])
    except BaseException:  # noqa: BLE001 - what it was is printed, and the process ends at once as it does otherwise
        traceback.print_exc()
    finally:
        _written_out()
        os._exit(code)  # threads that a backend left running would hold the process
