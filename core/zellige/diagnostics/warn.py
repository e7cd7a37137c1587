"""Shows a diagnostic as a warning at the user's place, once for each place."""

from __future__ import annotations

import warnings

from zellige.diagnostics.error import Diagnostic, ZelligeWarning


def warn(diagnostic: Diagnostic) -> None:
    """Issues ``diagnostic`` through Python's warnings, attributed to the user's line, so that filters work as for any other warning."""
    span = diagnostic.span
    if span is None:
        warnings.warn(diagnostic.render(), ZelligeWarning, stacklevel=2)
    else:
        registry = _registries.setdefault(span.file, {})
        warnings.warn_explicit(diagnostic.render(), ZelligeWarning, span.file, span.line, registry=registry)


_registries: dict[str, dict[str | tuple[str, type[Warning], int], int]] = {}
