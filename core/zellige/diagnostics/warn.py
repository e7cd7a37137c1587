"""Shows a diagnostic as a warning at the user's place, once for each place."""

from __future__ import annotations

import warnings

from zellige.diagnostics.error import Diagnostic, ZelligeWarning
from zellige.diagnostics.span import calling_place


def warn(diagnostic: Diagnostic) -> None:
    """Issues ``diagnostic`` through Python's warnings, attributed to the user's line, so that filters work as for any other warning.
    One without a place in a kernel is attributed to the line that runs."""
    _count[0] += 1
    span = diagnostic.span or calling_place()
    if span is None:
        warnings.warn(diagnostic.render(), ZelligeWarning, stacklevel=2)
    else:
        registry = _registries.setdefault(span.file, {})
        warnings.warn_explicit(diagnostic.render(), ZelligeWarning, span.file, span.line, registry=registry)


def warnings_so_far() -> int:
    """How many diagnostics this process has shown as warnings, or would have but for the filters of Python's warnings."""
    return _count[0]


_count = [0]

_registries: dict[str, dict[str | tuple[str, type[Warning], int], int]] = {}
