"""Errors and warnings: codes, places in the user's source, and how they are shown."""

from zellige.diagnostics.error import (
    Code,
    CompileError,
    Diagnostic,
    InternalError,
    LaunchError,
    Note,
    Unsupported,
    ZelligeError,
    ZelligeWarning,
    unreachable,
)
from zellige.diagnostics.span import Span

__all__ = [
    "Code",
    "CompileError",
    "Diagnostic",
    "InternalError",
    "LaunchError",
    "Note",
    "Span",
    "Unsupported",
    "ZelligeError",
    "ZelligeWarning",
    "unreachable",
]
