"""Whether the hooks of a backend answer, asked without a device and without running a program.

In: a backend and a target. Out: a :class:`~zellige.claims.probes.Claim` for each hook that the backend has, whose check asks it. ``emit``
and what is asked on the way to it are asked together, with one small kernel; the hooks that need the vendor's compiler, a device or a
failure are not asked (NotChecked), for the reasons of :data:`LEFT`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final

from zellige import driver
from zellige.claims import kernels
from zellige.claims.machine import NotChecked
from zellige.claims.probes import COUNT, Claim
from zellige.diagnostics import InternalError, Unsupported
from zellige.ir.traverse import deep_nesting
from zellige.options import CompileOptions
from zellige.plugin.contract import Capabilities, CompileContext, Unavailable
from zellige.plugin.handle import BackendHandle
from zellige.plugin.signatures import hook_parameters
from zellige.target import Target

_RUNS: Final = "runs the vendor's tools or a program, as --probe does"

OF_CLAIMS: Final = ("compile", "runtime", "compile_kernel")
"""The hooks that trying the claims asks, and these questions leave to it."""

LEFT: Final[Mapping[str, str]] = {
    **dict.fromkeys(OF_CLAIMS, _RUNS),
    "compat": "is asked of machine code that was kept",
    "cache_flush": "is asked when a kernel is timed on a device",
    "diagnose": "is asked of the backend's own exceptions",
}
"""The hooks that are not asked, with the reason."""

_BEFORE: Final = ("manifest", "probe")
"""What was asked when the backend was loaded and looked for its devices."""

_ANNOUNCED: Final = ("inspections", "timers")
"""The hooks with the functions behind the names that the field of the manifest of the same name has."""

_ON_THE_WAY: Final = ("begin", "passes", "candidates", "fit", "emit")
"""What one small kernel asks, in that order."""


def questions(handle: BackendHandle, target: Target) -> Iterator[Claim]:
    """What is asked, and what is left: each hook that the backend has, or needs for what its manifest announces, is in a claim."""
    asking = _Asking(handle, target)
    on_the_way = [hook for hook in _ON_THE_WAY if handle.has(hook)]
    ask = asking.by_hook()
    for hook in hook_parameters():
        is_announced = hook in _ANNOUNCED and bool(getattr(handle.manifest, hook))
        if not (handle.has(hook) or is_announced) or hook in _BEFORE or hook in on_the_way:
            continue
        yield Claim(field=hook, text="answers", check=ask[hook] if hook in ask else partial(_left, hook))
    if on_the_way:
        yield Claim(field=", ".join(on_the_way), text="answer for a small kernel", check=asking.small_kernel)


def _left(hook: str) -> None:
    """NotChecked with the reason. InternalError for a hook that nobody asks and nobody leaves: a new one has a place here."""
    if hook not in LEFT:
        raise InternalError(f"nothing says how the hook {hook} is asked")
    raise NotChecked(LEFT[hook])


class _Asking:
    """Asks the hooks of a backend. Where ``describe`` does not answer, what needs its answer is not asked."""

    def __init__(self, handle: BackendHandle, target: Target) -> None:
        self._handle = handle
        self._target = target
        self._capabilities: Capabilities | None = None

    def by_hook(self) -> Mapping[str, Callable[[], object]]:
        """What asks a hook and looks at its answer."""
        handle = self._handle
        return {
            "tools": handle.asked_tools,
            "describe": self._described,
            "describe_key": lambda: handle.description(self._context()),
            "cache_key": lambda: handle.cache_key(self._context()),
            "dialect": handle.dialect,
            "schedules": handle.schedules,
            "inspections": handle.inspections,
            "timers": handle.timers,
            "conformance": handle.conformance,
        }

    def _context(self) -> CompileContext:
        if self._capabilities is None:
            raise NotChecked("needs what describe answers")
        return self._handle.context(self._target, CompileOptions())

    def _described(self) -> None:
        state = self._handle.manifest.state
        if isinstance(state, Unavailable):
            raise NotChecked(f"its manifest says {state.code}: {state.reason}")
        self._capabilities = self._handle.checked_capabilities(self._target, self._handle.describe(self._target))

    def small_kernel(self) -> None:
        """Ask for a copy of a tile, from the plan to the emitted text where the backend emits."""
        ctx = self._context()
        assert self._capabilities is not None
        names = self._capabilities.dtypes or ("float32",)
        kernel = driver.shown(kernels.copied(COUNT, "float32" if "float32" in names else names[0]), self._handle, ctx.options)
        try:
            with deep_nesting():
                self._handle.begin(ctx)
                fitted = driver.fitted_for(driver.legal_for(kernel, self._handle, ctx), ctx)
                if self._handle.can_emit:
                    driver.emitted_for(fitted, self._handle, ctx)
        except Unsupported as error:
            raise NotChecked(f"it refuses a copy of {COUNT} numbers: {error.diagnostics[0].message}") from error
