"""A kernel of a jit function found again without tracing the function.

In: a function, the arguments of a call, options. Out: a :class:`Question`, or None where something that tracing reads cannot be told
apart in another process (:mod:`zellige.frontend.fingerprint`). :meth:`Question.answer` is the kernel as an earlier process traced and
compiled it; :meth:`Question.note` keeps what this process traced.

Kept are only traces that read nothing but what the question stands for: the function meant the same before and after, no diagnostic was
shown, nobody was asked what backends are installed, and the body of the kernel set no options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from zellige import driver
from zellige.cache import memo, store
from zellige.cache.artifacts import Unreadable
from zellige.cache.keys import trace_key
from zellige.cache.recall import conditions_of
from zellige.cache.traces import pack_trace, unpack_trace
from zellige.diagnostics.warn import warnings_so_far
from zellige.frontend.builder import Settings
from zellige.frontend.fingerprint import fingerprint
from zellige.frontend.parameters import GivenTensor
from zellige.frontend.primfunc import KernelFunction, PrimFunc, TracedKernel
from zellige.ir.printer import text_of
from zellige.jit_options import JITOptions
from zellige.kernel import JITKernel, Outline
from zellige.options import options as process_options
from zellige.plugin.contract import CompileContext
from zellige.plugin.registry import registry
from zellige.target import Target

_KIND = "traces"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Everything that the kernel of a call follows from. ``key`` stands for it, ``mark`` for the part that is Python's; ``seen`` are counts
    that must not move while the function is traced."""

    function: KernelFunction
    values: tuple[Any, ...]
    mark: str
    key: str
    conditions: str
    requested: Target
    ctx: CompileContext
    seen: tuple[int, int]

    @classmethod
    def of(cls, function: KernelFunction | None, values: tuple[Any, ...], options: JITOptions, device: str | int | None) -> Question | None:
        """None where the answer would not be safe to keep."""
        if function is None or not memo.is_enabled or options.passes or options.schedule is not None:
            return None
        if options.debug_root_path is not None or process_options().debug_root is not None:
            return None
        seen = _seen()
        values = (*values, options.out_idx)
        found = _mark(function, values)
        if found is None:
            return None
        requested = options.resolved_target()
        target = registry().resolve(requested, device=device)
        handle = registry().backend(target)
        chosen = options.compile_options(Settings(), requested)
        if target.is_simulated or not handle.works_in_steps or _seen()[0] != seen[0]:
            return None
        ctx = handle.context(target, chosen)
        conditions = conditions_of(handle, ctx)
        key = trace_key(found, conditions, chosen)
        return cls(
            function=function, values=values, mark=found, key=key, conditions=conditions, requested=requested, ctx=ctx, seen=_seen()
        )

    def answer(self) -> tuple[JITKernel, Any] | None:
        """The kernel, and what was noted with it; None where it must be traced."""
        data = store().find(_KIND, self.key)
        if data is None:
            return None
        try:
            kept = unpack_trace(data)
        except Unreadable:
            return None
        compiled = driver.compiled_earlier(kept.outline, kept.text, self.ctx, self.conditions)
        if compiled is None:
            return None
        outline = Outline(kernel=kept.outline, touched=kept.touched, text=kept.text, make_prim_func=self._prim_func)
        return JITKernel.from_outline(outline, compiled, self.ctx.target, self.requested, self.ctx.options), kept.extra

    def follows(self, settings: Settings) -> bool:
        """Whether what was traced since follows from the question alone; to be asked at once."""
        return not settings.pass_configs and not settings.compile_flags and _seen() == self.seen

    def note(self, kernel: JITKernel, extra: Any) -> None:
        """Keep the kernel of a trace that follows from the question. ``extra`` is any value of JSON."""
        if warnings_so_far() != self.seen[0] or _mark(self.function, self.values) != self.mark:
            return
        data = pack_trace(kernel.kernel, kernel.signature.touched, text_of(kernel.kernel), extra)
        if data is not None:
            store().keep(_KIND, self.key, data)

    @property
    def _prim_func(self) -> Callable[[Any], PrimFunc]:
        function = self.function
        return lambda kernel: PrimFunc(function, TracedKernel(kernel, Settings()))


def described(given: Mapping[str, GivenTensor | None]) -> list[Any]:
    """Tensors of a call as plain data."""
    found: list[Any] = []
    for name, tensor in given.items():
        found.append(name if tensor is None else (name, tensor.shape, tensor.dtype.name, tensor.strides, tensor.packing))
    return found


def _mark(function: KernelFunction, values: tuple[Any, ...]) -> str | None:
    return fingerprint(function.source, function.function, function.closure.definers, values)


def _seen() -> tuple[int, int]:
    """Diagnostics shown and questions about all backends, so far."""
    return warnings_so_far(), registry().questions
