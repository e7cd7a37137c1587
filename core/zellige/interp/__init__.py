"""The interpreter: the meaning of the tile IR, on NumPy.

:func:`interpret` runs a kernel on arrays; :mod:`zellige.interp.backend` serves it as the target ``interp``. Every backend is compared with
it, so each operation here is the NumPy line of its node, and speed comes second.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zellige.interp.launch import Interpretation, interpret
    from zellige.interp.report import Report

__all__ = ["Interpretation", "Report", "interpret"]

_HOMES = {"Interpretation": "launch", "interpret": "launch", "Report": "report"}


def __getattr__(name: str) -> Any:
    """Names load at their first use, so that listing backends does not load the interpreter."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value
