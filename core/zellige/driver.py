"""The way from a kernel to one that can be launched, on one screen.

In: a kernel of the tile IR, a target and options. Out: a :class:`CompiledKernel`, or the text of any stage on the way (:func:`dump`)::

    tile IR --check--> PIPELINE of passes, each checked --legal--> plan(capabilities), checked --plan-->
        backend: lower, emit, compile --source, asm--> launch

A kernel found in a cache is neither planned nor emitted.

A failure that is not the user's is an :class:`InternalError`; the kernel is written to a file first, and the error names the
command that repeats it.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Final, Literal

from zellige.cache import memo, program_key
from zellige.cache.recall import build, recall
from zellige.diagnostics import CompileError, InternalError, Note, ZelligeError, catalogue
from zellige.ir.printer import print_kernel
from zellige.ir.stmt import Kernel
from zellige.ir.verify import check
from zellige.log import logger, told
from zellige.options import CompileOptions, options as process_options
from zellige.passes.runner import Pass, run_passes
from zellige.passes.simplify import Simplify
from zellige.plugin.contract import CompileContext, CompiledKernel
from zellige.plugin.registry import registry
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
    resolved = registry().resolve(target)
    with internal_errors(kernel, resolved):
        text = _printed(kernel)
        key = program_key(kernel, resolved, chosen, text)
    is_found = chosen.debug_root is None
    found = memo.find(key) if is_found else None
    if found is not None:
        return found
    begin = perf_counter()
    say = told().info if chosen.is_verbose else logger().debug
    handle = registry().backend(resolved)
    with internal_errors(kernel, resolved):
        ctx = handle.context(resolved, chosen)
    is_kept = memo.is_enabled and handle.works_in_steps
    if is_kept and is_found:
        with internal_errors(kernel, resolved):
            found = recall(handle, kernel, text, ctx)
        if found is not None:
            memo.keep(key, found)
            say("found %s for %s in %.1f ms", kernel.name, resolved, (perf_counter() - begin) * 1e3)
            return found
    with internal_errors(kernel, resolved):
        check(kernel)
    legal = legalise(kernel, resolved)
    planned = planned_for(legal, ctx)
    with internal_errors(kernel, resolved):
        if is_kept:
            compiled = build(handle, kernel, planned, text, ctx)
        else:
            compiled = handle.compile_kernel(planned, ctx)
        memo.keep(key, compiled)
    say("compiled %s for %s in %.0f ms", kernel.name, resolved, (perf_counter() - begin) * 1e3)
    if chosen.debug_root is not None:
        _write_stages(chosen.debug_root, kernel, planned, compiled)
    return compiled


def _printed(kernel: Kernel) -> str:
    """The kernel's text. What was compiled earlier under the same text was checked then; what cannot be printed is checked now."""
    try:
        return print_kernel(kernel)
    except Exception:
        check(kernel)
        raise


def legalise(kernel: Kernel, target: Target) -> Kernel:
    """The kernel after the passes; each result is checked, and a wrong one is the compiler's fault."""
    with internal_errors(kernel, target):
        return run_passes(kernel, PIPELINE)


def planned_for(legal: Kernel, ctx: CompileContext) -> PlannedKernel:
    """What is decided for a legal kernel from what the target can do, checked; a wrong plan is the compiler's fault."""
    from zellige.plan.check import verify_plan  # a warm start does without
    from zellige.plan.planner import plan

    with internal_errors(legal, ctx.target):
        planned = plan(legal, ctx.capabilities)
        verify_plan(planned, capabilities=ctx.capabilities, level="static")
        return planned


def dump(kernel: Kernel, target: str | Target, stage: str, options: CompileOptions | None = None) -> str:
    """The text of ``stage`` for ``target``. Raises E743 for a name that is no stage, and what :func:`compile_kernel` raises.

    ``source`` needs no device where the backend emits text without one.
    """
    if stage not in STAGES:
        raise catalogue.E743.error(stage=stage, stages=", ".join(STAGES))
    resolved = registry().resolve(target)
    with internal_errors(kernel, resolved):
        check(kernel)
        if stage == "tile-ir":
            return print_kernel(kernel)
    if stage == "legal":
        return print_kernel(legalise(kernel, resolved))
    chosen = options or CompileOptions()
    if stage in ("plan", "source"):
        handle = registry().backend(resolved)
        with internal_errors(kernel, resolved):
            ctx = handle.context(resolved, chosen)
        planned = planned_for(legalise(kernel, resolved), ctx)
        if stage == "plan":
            return _plan_text(planned)
        with internal_errors(kernel, resolved):
            emitted = handle.emit(planned, ctx)
        if emitted is not None:
            return emitted.text
    compiled = compile_kernel(kernel, resolved, chosen)
    with internal_errors(kernel, resolved):
        return compiled.source() if stage == "source" else compiled.assembly()


def _plan_text(planned: PlannedKernel) -> str:
    from zellige.plan.printer import print_plan

    return print_plan(planned)


@contextmanager
def internal_errors(kernel: Kernel, target: Target) -> Iterator[None]:
    """Turn whatever escapes from the compiler into an InternalError that can be repeated; diagnostics pass.

    A backend's hook that failed (E709) keeps its diagnostic and gets the command as a note.
    """
    try:
        yield
    except ZelligeError as error:
        if error.code != catalogue.E709.id:
            raise
        note = Note(f"replay: {_replay(kernel, target)}")
        raise CompileError(*(replace(d, notes=(*d.notes, note)) for d in error.diagnostics)) from error
    except InternalError as error:
        if error.replay:
            raise
        raise InternalError(error.message, replay=_replay(kernel, target)) from error
    except (Warning, MemoryError):  # a diagnostic that the user turned into an error; a machine too small for what was asked
        raise
    except Exception as error:
        raise InternalError(f"{type(error).__name__}: {error}", replay=_replay(kernel, target)) from error


def _replay(kernel: Kernel, target: Target) -> str:
    """Write the kernel to a file and return the command that compiles it again; empty where it cannot even be printed."""
    try:
        text = print_kernel(kernel)
    except Exception:  # noqa: BLE001 - the printer may be what is broken; the first error is the one to show
        return ""
    name = f"{kernel.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}{SUFFIX}"
    for folder in (process_options().cache_dir / "replay", Path(tempfile.gettempdir())):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        except OSError:
            continue
        return f"zellige compile {folder / name} --target {target}"
    return ""


def _write_stages(root: Path, kernel: Kernel, planned: PlannedKernel, compiled: CompiledKernel) -> None:
    """Write every stage under ``root / kernel name``; a stage that the target does not have says why."""
    folder = root / kernel.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"1-tile-ir{SUFFIX}").write_text(print_kernel(kernel), encoding="utf-8")
    (folder / f"2-legal{SUFFIX}").write_text(print_kernel(planned.kernel), encoding="utf-8")
    (folder / "3-plan.txt").write_text(_plan_text(planned), encoding="utf-8")
    for name, text_of in (("4-source.txt", compiled.source), ("5-asm.txt", compiled.assembly)):
        try:
            text = text_of()
        except ZelligeError as error:
            text = f"{error}\n"
        (folder / name).write_text(text, encoding="utf-8")
