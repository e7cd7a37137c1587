"""A kernel of a jit function found again without tracing the function.

In: a function, the arguments of a call, options. Out: a :class:`Question`, or None where something that tracing reads cannot be told
apart in another process (:mod:`zellige.frontend.fingerprint`). :meth:`Question.answer` is the kernel as an earlier process traced and
compiled it, in one piece where that can be (:mod:`zellige.cache.starts`); :meth:`Question.note` keeps what this process traced.

Kept are only traces that read nothing but what the question stands for: the function meant the same before and after, no diagnostic was
shown, nobody was asked what backends are installed, and the body of the kernel set no options.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from zellige import driver
from zellige.cache import memo, store
from zellige.cache.artifacts import Unreadable
from zellige.cache.keys import packages_of, start_key, trace_key
from zellige.cache.recall import conditions_of, kept_together, modules_behind
from zellige.cache.sources import stamp
from zellige.cache.starts import Grounds, KeptStart, pack_start, unpack_start
from zellige.cache.traces import pack_trace, unpack_trace
from zellige.diagnostics.warn import warnings_so_far
from zellige.frontend.builder import Settings
from zellige.frontend.fingerprint import fingerprint
from zellige.frontend.parameters import GivenTensor
from zellige.frontend.primfunc import KernelFunction, PrimFunc, TracedKernel
from zellige.ir.printer import text_of
from zellige.ir.stmt import Kernel
from zellige.jit_options import JITOptions
from zellige.kernel import JITKernel, Outline
from zellige.options import CompileOptions, options as process_options
from zellige.plugin.contract import ENTRY_POINT_GROUP, CompileContext
from zellige.plugin.installed import OWN_DISTRIBUTION, noted_places
from zellige.plugin.registry import BackendHandle, begin_with, registry
from zellige.runtime.arrays import first_device
from zellige.target import AUTO, Target

_KIND = "traces"
_STARTS = "starts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Everything that the kernel of a call follows from. ``mark`` stands for the part that is Python's; ``seen`` are counts that must not
    move while the function is traced."""

    function: KernelFunction
    values: tuple[Any, ...]
    mark: str
    conditions: str
    requested: Target
    ctx: CompileContext
    seen: tuple[int, int]
    start: KeptStart | None = None
    start_key: str = ""

    @classmethod
    def of(cls, function: KernelFunction | None, values: tuple[Any, ...], options: JITOptions, args: tuple[Any, ...]) -> Question | None:
        """None where the answer would not be safe to keep. ``args`` are the arguments of the call, for a target that they decide on."""
        if function is None or not memo.is_enabled or options.force_compile or options.passes or options.schedule is not None:
            return None
        if options.debug_root_path is not None or process_options().debug_root is not None:
            return None
        warned = warnings_so_far()
        values = (*values, options.out_idx)
        found = _mark(function, values)
        if found is None:
            return None
        requested = options.resolved_target()
        chosen = options.compile_options(Settings(), requested)
        start, name = _start_of(found, requested, options, chosen)
        target = registry().resolve(requested, device=first_device(args) if requested.name == AUTO else None)
        handle = registry().backend(target)
        if target.is_simulated or not handle.works_in_steps or warnings_so_far() != warned:
            return None
        ctx = handle.context(target, chosen)
        if start is not None and not _is_ground(start.grounds, handle, ctx):
            start = None
        conditions = conditions_of(handle, ctx) if start is None else start.grounds.conditions
        return cls(
            function=function, values=values, mark=found, conditions=conditions, requested=requested, ctx=ctx, seen=_seen(), start=start,
            start_key=name,
        )  # fmt: skip

    @property
    def key(self) -> str:
        """What stands for all of it."""
        return trace_key(self.mark, self.conditions, self.ctx.options)

    def answer(self) -> tuple[JITKernel, Any] | None:
        """The kernel, and what was noted with it; None where it must be traced."""
        start = self.start
        if start is not None:
            found = self._taken(start.trace, (start.artifact, start.binary))
            if found is not None:
                store().count(is_found=True)
                return found
        data = store().find(_KIND, self.key)
        if data is None:
            return None
        found = self._taken(data, None)
        if found is not None:
            self._note_start(data, None)
        return found

    def _taken(self, trace: bytes, parts: tuple[bytes, bytes] | None) -> tuple[JITKernel, Any] | None:
        """The kernel of a trace that was kept, with its artifact and machine code where they are at hand."""
        try:
            kept = unpack_trace(trace)
        except Unreadable:
            return None
        compiled = driver.compiled_earlier(kept.outline, kept.text, self.ctx, self.conditions, parts)
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
        text = text_of(kernel.kernel)
        data = pack_trace(kernel.kernel, kernel.signature.touched, text, extra)
        if data is not None:
            store().keep(_KIND, self.key, data)
            self._note_start(data, kernel.kernel)

    def _note_start(self, trace: bytes, kernel: Kernel | None) -> None:
        """Keep trace, artifact and machine code in one piece. ``kernel`` is what was traced, where it was: it says where the places are
        that the code tells. A later process has them where they are now, since the question holds file, line and text of each function."""
        handle = registry().backend(self.ctx.target)
        if not self.start_key or not (handle.origin.is_own or registry().is_whole):
            return
        text = unpack_trace(trace).text
        parts = kept_together(text, self.conditions, self.ctx, kernel)
        if parts is None:
            return
        made_by, loaded = packages_of(handle.manifest, handle.packages), frozenset(sys.modules)
        behind = modules_behind(text, self.conditions, self.ctx) if handle.manifest.compiles_in_process else None
        owners = () if handle.origin.is_own else registry().own_packages()  # what they claim, no other can have
        places = noted_places(ENTRY_POINT_GROUP, OWN_DISTRIBUTION if handle.origin.is_own else "", (*made_by, *owners))
        files = stamp(made_by, None if behind is None else behind)
        claims = stamp([package for package in owners if package not in made_by], loaded)
        if places is None or files is None or claims is None:
            return
        grounds = Grounds(
            target=str(self.ctx.target), conditions=self.conditions, description=handle.description(self.ctx),
            backend_key=handle.cache_key(self.ctx), root=_root_of(handle.package), points=registry().own_points(),
            others=None if handle.origin.is_own else registry().other_points(),
            settled="" if handle.origin.is_own or not registry().is_settled(self.requested.name) else self.requested.name,
            places=places, files=[*files, *claims],
        )  # fmt: skip
        start = KeptStart(grounds=grounds, trace=trace, artifact=parts[0], binary=parts[1])
        store().keep(_STARTS, self.start_key, pack_start(start))

    @property
    def _prim_func(self) -> Callable[[Any], PrimFunc]:
        function, out_idx = self.function, self.values[-1]

        def made(kernel: Any) -> PrimFunc:
            from zellige.frontend.results import without_outputs  # few ask

            return PrimFunc(function, TracedKernel(without_outputs(kernel, out_idx), Settings()))

        return made


def _start_of(mark: str, requested: Target, options: JITOptions, chosen: CompileOptions) -> tuple[KeptStart | None, str]:
    """The start of a kernel whose grounds hold but for what the backend says, and its key; no key where none is kept: for a target that
    stands for others, and options that backends must be asked about."""
    if requested.name == AUTO or options.pass_configs or options.compile_flags:
        return None, ""
    key = start_key(mark, requested, chosen)
    data = store().look(_STARTS, key)
    if data is None:
        return None, key
    try:
        found = unpack_start(data)
    except Unreadable:
        return None, key
    if found is not None:
        begin_with(found.grounds.points, found.grounds.others, found.grounds.settled)
    return found, key


def _is_ground(grounds: Grounds, handle: BackendHandle, ctx: CompileContext) -> bool:
    """Whether a backend says now what it said when the start was kept."""
    return (
        grounds.target == str(ctx.target)
        and grounds.root == _root_of(handle.package)
        and grounds.description == handle.description(ctx)
        and grounds.backend_key == handle.cache_key(ctx)
    )


def _root_of(package: str) -> str:
    """The file by which a package that is loaded is found."""
    return str(getattr(sys.modules.get(package), "__file__", ""))


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
