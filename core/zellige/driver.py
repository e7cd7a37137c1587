"""The way from a kernel to one that can be launched, on one screen.

In: a kernel of the tile IR, a target and options. Out: a :class:`CompiledKernel`, or the text of any stage on the way (:func:`dump`)::

    tile IR --check--> stages legalise (PIPELINE), layout, pipeline --legal--> plan(capabilities), stages allocate, sync, lower, until the
        backend's fit is content --plan--> emit, stage post, compile --source, asm--> launch

The passes of each stage are core's, with what the backend and the user change about them (:mod:`zellige.passes.stages`); each result is
checked. A kernel found in a cache is neither planned nor emitted.

A failure that is not the user's is an :class:`InternalError`; the kernel is written to a file first, and the error names the
command that repeats it.
"""

from __future__ import annotations

import hashlib
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Literal

from zellige.cache import memo, program_key
from zellige.cache.bundle import write_bundle
from zellige.cache.keys import UNTOLD, passes_text, text_key
from zellige.cache.recall import build, entries_of, recall, recalled_together
from zellige.diagnostics import InternalError, Note, ZelligeError, catalogue
from zellige.diagnostics.error import says_something
from zellige.diagnostics.suggest import closest
from zellige.diagnostics.warn import warn
from zellige.ir.printer import print_kernel, text_of
from zellige.ir.stmt import Kernel
from zellige.ir.traverse import deep_nesting
from zellige.ir.verify import check
from zellige.log import debug, told
from zellige.options import CompileOptions, options as process_options
from zellige.passes.runner import Pass, run_passes
from zellige.passes.simplify import Simplify
from zellige.passes.stages import Change, PlanPass, Step, UserPass, arrange, run_on_text, run_on_tiles
from zellige.plugin.choices import (
    PLAN_PASS,
    PLAN_STAGES,
    TILE_STAGES,
    Insert,
    PassChange,
    PassStage,
    Replace,
    StagePass,
    Veto,
    changes_parameters,
)
from zellige.plugin.contract import Capabilities, CompileContext, CompiledKernel, Emitted, FittedKernel
from zellige.plugin.fields import said
from zellige.plugin.interruption import is_blameless
from zellige.plugin.registry import BackendHandle, registry
from zellige.target import Target

if TYPE_CHECKING:
    from zellige.plan.nodes import PlannedKernel

Stage = Literal["tile-ir", "legal", "plan", "source", "asm"]

STAGES: Final[tuple[Stage, ...]] = ("tile-ir", "legal", "plan", "source", "asm")
"""What can be looked at: the program as written, after the passes, as planned, as the backend lowered it, as machine code."""

PIPELINE: Final[tuple[Pass, ...]] = (Simplify(),)
"""The passes that every target gets, in order."""

SUFFIX: Final = ".tile"
"""The ending of a file that holds the text form of the tile IR."""


def compile_kernel(kernel: Kernel, target: str | Target, options: CompileOptions | None = None) -> CompiledKernel:
    """Compile ``kernel`` for ``target``, or find what was compiled earlier.

    Raises CompileError for what the verifier finds, for what the target lacks (Unsupported, E4xx) and for its toolchain (E5xx), and
    InternalError, with a command that repeats it, for a fault of the compiler.
    """
    chosen = options or CompileOptions()
    if chosen.debug_root is None:
        chosen = replace(chosen, debug_root=process_options().debug_root)
    chosen = _with_passes_told(chosen)
    resolved = registry().resolve(target)
    handle = registry().backend(resolved)
    with internal_errors(kernel, resolved):
        text = _printed(kernel)
        ctx = handle.context(resolved, chosen)
        key = program_key(kernel, resolved, chosen, text, handle.cache_key(ctx))
    is_found = chosen.debug_root is None and not chosen.is_forced
    found = memo.find(key) if is_found else None
    if found is not None:
        return found
    begin = perf_counter()
    say = told().info if chosen.is_verbose else debug
    is_kept = memo.is_enabled and handle.works_in_steps and not resolved.is_simulated and not chosen.of_passes.startswith(UNTOLD)
    if is_kept and is_found:
        with internal_errors(kernel, resolved):
            found = recall(handle, kernel, text, ctx)
        if found is not None:
            memo.keep(key, found)
            say("found %s for %s in %.1f ms", kernel.name, resolved, (perf_counter() - begin) * 1e3)
            return found
    with internal_errors(kernel, resolved):
        kernel = _begun(kernel, handle, ctx)
    fitted = fitted_for(legal_for(kernel, handle, ctx), ctx)
    with internal_errors(kernel, resolved):
        if handle.works_in_steps:
            emitted = emitted_for(fitted, handle, ctx)
            compiled = build(handle, kernel, emitted, text, ctx) if is_kept else handle.finish(emitted, kernel, ctx)
        else:
            compiled = _in_one_step(fitted, handle, ctx)
        memo.keep(key, compiled)
    say("compiled %s for %s in %.0f ms", kernel.name, resolved, (perf_counter() - begin) * 1e3)
    if chosen.debug_root is not None:
        try:
            _write_stages(chosen.debug_root, kernel, fitted.planned, compiled, handle)
        except OSError as error:
            reason = error.strerror or str(error)
            warn(catalogue.E746.diagnose(kernel=kernel.name, folder=chosen.debug_root, reason=reason, severity="warning"))
    return compiled


def export_kernel(kernel: Kernel, target: str | Target, options: CompileOptions, file: Path) -> None:
    """Write the compiled kernel as a bundle (:mod:`zellige.cache.bundle`), for a target whose backend works in steps.

    Raises what :func:`compile_kernel` raises, and OSError where the file cannot be written.
    """
    resolved = registry().resolve(target)
    handle = registry().backend(resolved)
    with internal_errors(kernel, resolved):
        text = _printed(kernel)
        ctx = handle.context(resolved, _with_passes_told(options))
        kernel = _begun(kernel, handle, ctx)
    fitted = fitted_for(legal_for(kernel, handle, ctx), ctx)
    with internal_errors(kernel, resolved):
        contents = entries_of(handle, kernel, emitted_for(fitted, handle, ctx), text, ctx)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_bundle(contents, file)


def compiled_earlier(
    outline: Kernel, text: str, ctx: CompileContext, conditions: str, parts: tuple[bytes, bytes] | None = None
) -> CompiledKernel | None:
    """What was compiled from the kernel with that ``text``, in this process or an earlier one; ``outline`` are its parameters and grids,
    ``conditions`` everything else that code depends on, ``parts`` its artifact and machine code where they are at hand. None where it must
    be compiled, or its code tells places of a source."""
    target, options = ctx.target, ctx.options
    handle = registry().backend(target)
    begin = perf_counter()
    with internal_errors(outline, target):
        key = text_key(text, target, options, handle.cache_key(ctx))
        found = memo.find(key)
        if found is None and handle.works_in_steps and not target.is_simulated:
            if parts is None:
                found = recall(handle, outline, text, ctx, conditions)
            else:
                found = recalled_together(handle, outline, text, *parts, ctx)
            if found is not None:
                memo.keep(key, found)
                say = told().info if options.is_verbose else debug
                say("found %s for %s in %.1f ms, without tracing it", outline.name, target, (perf_counter() - begin) * 1e3)
    return found


def _with_passes_told(options: CompileOptions) -> CompileOptions:
    """The options with what stands for a user's passes in keys, as they are before the first of them runs."""
    told_of = passes_text(options)
    return replace(options, of_passes=told_of) if told_of else options


def _printed(kernel: Kernel) -> str:
    """The kernel's text. What was compiled earlier under the same text was checked then; what cannot be printed is checked now."""
    try:
        return text_of(kernel)
    except Exception:
        check(kernel)
        raise


def _begun(kernel: Kernel, handle: BackendHandle, ctx: CompileContext) -> Kernel:
    """The kernel as its backend sees it, checked; the backend knows that it will be compiled."""
    check(kernel)
    handle.begin(ctx)
    return shown(kernel, handle, ctx.options)


def shown(kernel: Kernel, handle: BackendHandle, options: CompileOptions) -> Kernel:
    """What a backend, and passes of the user's, see of a user's kernel: somebody else's a copy. A hook or pass that changes what it is
    shown is refused (E703, E713), and by then the kernel would be another one for every other target too."""
    is_core_alone = handle.origin.is_own and not options.passes and options.schedule is None
    return kernel if is_core_alone else deepcopy(kernel)


def legalise(kernel: Kernel, target: Target, capabilities: Capabilities | None = None) -> Kernel:
    """The kernel after core's own passes; each result is checked, and a wrong one is the compiler's fault. ``capabilities`` are those of
    the target where no backend has it."""
    with internal_errors(kernel, target):
        known = partial(registry().backend(target).describe, target) if capabilities is None else lambda: capabilities
        return run_passes(_for_lanes(kernel, target, known), PIPELINE)


def _for_lanes(kernel: Kernel, target: Target, capabilities: Callable[[], Capabilities]) -> Kernel:
    """The kernel with the target's number of lanes of a warp in it, where it asks."""
    if not any(launch.lane_vars for launch in kernel.launches):
        return kernel
    from zellige.ir.warp_width import with_warps_of  # most kernels have no lanes

    return with_warps_of(kernel, capabilities().lanes, str(target))


def legal_for(kernel: Kernel, handle: BackendHandle, ctx: CompileContext) -> Kernel:
    """The kernel after the stages that work on tile IR: core's passes, with what the backend and the user change about them."""
    with internal_errors(kernel, ctx.target):
        kernel = _for_lanes(kernel, ctx.target, lambda: ctx.capabilities)
        for stage in TILE_STAGES:
            kernel = run_on_tiles(_steps(stage, handle, ctx), kernel)
        return kernel


def fitted_for(legal: Kernel, ctx: CompileContext) -> FittedKernel:
    """What is decided for a legal kernel from what the target can do, checked, after the stages that work on plans, and revised until the
    backend can lower it; a plan that the planner got wrong is the compiler's fault."""
    from zellige.fit import fitted  # a warm start does without

    handle = registry().backend(ctx.target)
    with internal_errors(legal, ctx.target):
        steps = [step for stage in PLAN_STAGES for step in _steps(stage, handle, ctx) if step.name != PLAN_PASS]
        return fitted(legal, handle, ctx, steps)


def fit_kernel(kernel: Kernel, target: Target, options: CompileOptions | None = None) -> FittedKernel:
    """The plan of a kernel for a resolved target and what its backend made of it, as compiling makes them."""
    handle = registry().backend(target)
    with internal_errors(kernel, target):
        check(kernel)
        chosen = options or CompileOptions()
        kernel = shown(kernel, handle, chosen)
        ctx = handle.context(target, chosen)
    return fitted_for(legal_for(kernel, handle, ctx), ctx)


def emitted_for(fitted: FittedKernel, handle: BackendHandle, ctx: CompileContext) -> Emitted:
    """What the backend emits, after the passes of the stage "post"."""
    from zellige.fit import plan_kept  # a warm start does without

    with plan_kept(fitted.planned, handle, "emit"):
        emitted = handle.emit_step(fitted, ctx)
    return run_on_text(_steps("post", handle, ctx), emitted)


def _in_one_step(fitted: FittedKernel, handle: BackendHandle, ctx: CompileContext) -> CompiledKernel:
    """What the backend makes of a plan that has no text between, or says that it cannot."""
    from zellige.fit import plan_kept

    if handle.compiles_in_one_step:
        _refuse_text_passes(handle, ctx)
    with plan_kept(fitted.planned, handle, "compile_kernel"):
        return handle.compile_kernel(fitted, ctx)


def _steps(stage: PassStage, handle: BackendHandle, ctx: CompileContext) -> tuple[Step, ...]:
    """The passes of a stage in order: core's, changed by the backend, then by the user."""
    own: tuple[StagePass, ...] = PIPELINE if stage == "legalise" else (PlanPass(),) if stage == "allocate" else ()
    changes = [Change(change=c, backend=handle.name) for c in handle.pass_changes(stage, ctx)]
    asked = [Change(change=_asked(step)) for at, step in ctx.options.passes if at == stage]
    if stage == "pipeline" and ctx.options.schedule is not None:
        asked.append(_schedule(ctx.options.schedule, handle, ctx))
    for change in asked:
        if isinstance(change.change, Veto):
            continue
        step = change.change.step
        if changes_parameters(step):
            reason = "it gives the kernel other parameters, for which calls are laid out already: give it as jit(schedule=...) or"
            reason += " compile(schedule=...), where nobody has read them"
            what = f"insert the pass {step.name!r}"
            raise catalogue.E712.error(who=change.owner, what=what, stage=stage, reason=reason, known="no place for it")
    return arrange(stage, own, [*changes, *asked], str(ctx.target))


def _asked(step: object) -> PassChange:
    """What a user asks for: a pass by itself stands at the end of its stage. Options hold nothing but passes and changes to them."""
    if isinstance(step, Veto):
        return step
    if isinstance(step, (Insert, Replace)):
        return replace(step, step=_named(step.step))
    assert callable(step), step
    return Insert(step=_named(step))


def _named(step: Callable[[Any], Any]) -> StagePass:
    name = getattr(step, "name", None)
    return step if isinstance(name, str) else UserPass(name=getattr(step, "__name__", type(step).__name__), function=step)  # type: ignore[return-value]


def _schedule(schedule: str | Callable[[Any], Any], handle: BackendHandle, ctx: CompileContext) -> Change:
    """The user's scheduling strategy, or the backend's of that name. E716: it has none."""
    if not isinstance(schedule, str):
        return Change(change=Insert(step=_named(schedule)))
    found = handle.schedules()
    if schedule not in found:
        known = f"it has {', '.join(sorted(found))}" if found else "it has none; a function from tile IR to tile IR can be passed instead"
        raise catalogue.E716.error(target=str(ctx.target), name=schedule, known=known, suggestion=closest(schedule, found))
    return Change(change=Insert(step=_named(found[schedule])), backend=handle.name, hook="schedules")


def _refuse_text_passes(handle: BackendHandle, ctx: CompileContext) -> None:
    for step in _steps("post", handle, ctx):
        reason = "the backend compiles in one step and shows no text between"
        raise catalogue.E712.error(who=step.owner, what=f"insert the pass {step.name!r}", stage="post", reason=reason, known="no passes")


def dump(kernel: Kernel, target: str | Target, stage: str, options: CompileOptions | None = None) -> str:
    """The text of ``stage`` for ``target``. Raises E743 for a name that is no stage, and what :func:`compile_kernel` raises.

    ``source`` needs no device where the backend emits text without one.
    """
    if stage not in STAGES:
        raise catalogue.E743.error(stage=stage, stages=", ".join(STAGES), suggestion=closest(stage, STAGES))
    resolved = registry().resolve(target)
    with internal_errors(kernel, resolved):
        check(kernel)
        if stage == "tile-ir":
            return print_kernel(kernel)
    chosen = options or CompileOptions()
    if stage in ("legal", "plan", "source"):
        handle = registry().backend(resolved)
        with internal_errors(kernel, resolved):
            kernel = shown(kernel, handle, chosen)
            ctx = handle.context(resolved, chosen)
        legal = legal_for(kernel, handle, ctx)
        if stage == "legal":
            return print_kernel(legal)
        fitted = fitted_for(legal, ctx)
        if stage == "plan":
            return _plan_text(fitted.planned)
        if handle.can_emit:
            with internal_errors(kernel, resolved):
                return emitted_for(fitted, handle, ctx).text
    compiled = compile_kernel(kernel, resolved, chosen)
    with internal_errors(kernel, resolved):
        return registry().backend(resolved).text_of(compiled, "source" if stage == "source" else "assembly")


def _plan_text(planned: PlannedKernel) -> str:
    from zellige.plan.printer import print_plan

    return print_plan(planned)


@contextmanager
def internal_errors(kernel: Kernel | Callable[[], Kernel], target: Target) -> Iterator[None]:
    """Turn whatever escapes from the compiler into an InternalError that can be repeated; diagnostics pass, and what a signal's handler
    raised while the compiler or a kernel was at work.

    A backend's hook that failed (E709) keeps its diagnostic and gets the command as a note.
    """
    try:
        with deep_nesting():
            yield
    except ZelligeError as error:
        told = error if says_something(error) else _blamed(error, target)
        if told is None:
            raise InternalError(said(error), replay=_replay(kernel, target)) from error
        if told.code != catalogue.E709.id:
            _told_who_said_it(told, target)
            raise
        again = _repeatable(told, kernel, target)
        if again is error:  # as its own cause it would lose the one that it has
            raise
        raise again from error
    except InternalError as error:
        if error.replay:
            raise
        blamed = _blamed(error, target, is_raised=True)
        if blamed is not None:
            raise _repeatable(blamed, kernel, target) from error
        raise InternalError(error.message, replay=_replay(kernel, target)) from error
    except Exception as error:
        if is_blameless(error) and not (isinstance(error, MemoryError) and _blamed(error, target) is not None):
            raise
        known = _diagnosed(error, target)
        if known is not None:
            raise known from error
        blamed = _blamed(error, target)
        if blamed is not None:
            raise _repeatable(blamed, kernel, target) from error
        raise InternalError(f"{type(error).__name__}: {error}", replay=_replay(kernel, target)) from error
    except BaseException as error:
        blamed = None if is_blameless(error) else _blamed(error, target)
        if blamed is None:
            raise
        raise _repeatable(blamed, kernel, target) from error


def _repeatable(error: ZelligeError, kernel: Kernel | Callable[[], Kernel], target: Target) -> ZelligeError:
    """The same failure of a hook with the command that repeats it as a note."""
    if error.code != catalogue.E709.id or any(note.kind == "replay" for note in error.diagnostics[0].notes):
        return error  # what a compilation inside of a hook says is passed on by the one around it
    note = Note(f"replay: {_replay(kernel, target)}", kind="replay")
    error.tell_note(note)
    return error


def _blamed(error: BaseException, target: Target, *, is_raised: bool = False) -> ZelligeError | None:
    """E709 for an exception that comes from the code of somebody else's backend, such as its launch (``is_raised``: that was raised there,
    and not by something of core's that it called); None for another."""
    try:
        handle = registry().backend(target)
    except ZelligeError:
        return None
    error = _passed_on(error)
    return handle.blamed(error) if (handle.raised(error) if is_raised else handle.owns(error)) else None


def _passed_on(error: BaseException) -> BaseException:
    """What is meant by an error: of a class that takes no traceback ``contextlib`` raises another in its place."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    is_in_place = type(error) is AttributeError and bool(frames) and frames[-1].f_globals.get("__name__") == "contextlib"
    return error.__context__ or error if is_in_place else error


def _told_who_said_it(error: ZelligeError, target: Target) -> None:
    """A note on an error with a code that somebody else's backend raised outside of its hooks, such as in a launch."""
    try:
        handle = registry().backend(target)
    except ZelligeError:
        return
    handle.sign(error)


def _diagnosed(error: Exception, target: Target) -> ZelligeError | None:
    """What the target's backend knows about an exception that escaped; None where it does not or there is no such backend."""
    try:
        return registry().backend(target).diagnose(error)
    except ZelligeError:
        return None


def _replay(kernel: Kernel | Callable[[], Kernel], target: Target) -> str:
    """Write the kernel to a file and return the command that compiles it again; empty where it cannot even be printed."""
    try:
        whole = kernel if isinstance(kernel, Kernel) else kernel()
        text = print_kernel(whole)
    except Exception:  # noqa: BLE001 - the printer may be what is broken; the first error is the one to show
        return ""
    name = f"{whole.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}{SUFFIX}"
    for folder in (process_options().cache_dir / "replay", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        except OSError:
            continue
        return f"zellige compile {folder / name} --target {target}"
    return ""


def _write_stages(root: Path, kernel: Kernel, planned: PlannedKernel, compiled: CompiledKernel, handle: BackendHandle) -> None:
    """Write every stage under ``root / kernel name``; a stage that the target does not have says why."""
    folder = root / kernel.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"1-tile-ir{SUFFIX}").write_text(print_kernel(kernel), encoding="utf-8")
    (folder / f"2-legal{SUFFIX}").write_text(print_kernel(planned.kernel), encoding="utf-8")
    (folder / "3-plan.txt").write_text(_plan_text(planned), encoding="utf-8")
    texts: tuple[tuple[str, Literal["source", "assembly"]], ...] = (("4-source.txt", "source"), ("5-asm.txt", "assembly"))
    for name, what in texts:
        try:
            text = handle.text_of(compiled, what)
        except ZelligeError as error:
            text = f"{error}\n"
        (folder / name).write_text(text, encoding="utf-8")
