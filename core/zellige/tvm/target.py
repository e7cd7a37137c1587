"""``tvm.target.Target``: a target from its text or a dictionary, and what compiles inside of ``with Target(...)`` is compiled for it.

In: ``"name"``, ``"name -key=value"`` or ``{"kind": "name", "key": "value"}``. Out: :class:`zellige.target.Target`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zellige.jit_options import JITOptions
from zellige.target import Target as _Target

__all__ = ["Target"]


def Target(target: str | Mapping[str, Any] | _Target, host: Any = None) -> _Target:
    """The target that ``target`` names. ``host`` is accepted: there is one way to call a kernel. E159, E707: no target's text."""
    return JITOptions(target=target).resolved_target()
