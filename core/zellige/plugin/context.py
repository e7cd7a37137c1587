"""A context of a compilation whose capabilities are put together when they are first looked at.

In: a target, options, how to ask what the target can do. Out: a :class:`~zellige.plugin.contract.CompileContext`. A kernel found in the
cache needs no capabilities, and putting them together takes longer than all else that it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from zellige.plugin.contract import Capabilities, CompileContext

if TYPE_CHECKING:
    from zellige.options import CompileOptions
    from zellige.target import Target


class AskingContext(CompileContext):
    """``capabilities`` is what they are, or what gives them."""

    __slots__ = ("_capabilities",)

    _capabilities: Capabilities | Callable[[], Capabilities]

    def __init__(
        self,
        *,
        target: Target,
        capabilities: Capabilities | Callable[[], Capabilities],
        options: CompileOptions,
        ir_version: tuple[int, int] | None = None,
    ) -> None:
        for name, value in (("target", target), ("options", options), ("ir_version", ir_version), ("_capabilities", capabilities)):
            object.__setattr__(self, name, value)

    @property
    def capabilities(self) -> Capabilities:
        """What the target can do."""
        found = self._capabilities
        if not isinstance(found, Capabilities):
            found = found()
            object.__setattr__(self, "_capabilities", found)
        return found


def apart(value: object) -> object:
    """What a stranger's hook is given for a value: of a target, and of a context and what it holds, a copy, so that whatever the hook does
    to it changes nothing that others hold."""
    from zellige.target import Target

    if isinstance(value, CompileContext):
        options, target = replace(value.options), replace(value.target)
        if not isinstance(value, AskingContext):
            return replace(value, options=options, target=target, capabilities=replace(value.capabilities))
        stated = value
        return AskingContext(
            target=target, options=options, ir_version=value.ir_version, capabilities=lambda: replace(stated.capabilities)
        )
    return replace(value) if isinstance(value, Target) else value
