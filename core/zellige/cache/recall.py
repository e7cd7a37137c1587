"""A kernel from the disk, or by way of it.

In: a backend that works in steps (emit, compile, load), a kernel, its printed text, target and options. Out: a loaded kernel: by
:func:`recall` from what an earlier process kept, without planning or emitting; by :func:`build` from what the backend emitted, which
is kept with its machine code.
"""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from typing import Final

from zellige.cache.artifacts import Artifact, Unreadable, compressed, pack_artifact, pack_binary, places_of, unpack_artifact, unpack_binary
from zellige.cache.disk import DiskStore, store
from zellige.cache.keys import artifact_key, binary_key, conditions, modules_key, packages_of
from zellige.diagnostics import InternalError, ZelligeError, catalogue
from zellige.ir.stmt import Kernel
from zellige.log import logger
from zellige.plugin.contract import Binary, CompileContext, CompiledKernel, Emitted
from zellige.plugin.registry import BackendHandle
from zellige.target import Target

_MODULES: Final = "sources"
"""The kind of the entries that say which modules made an artifact."""


def recall(handle: BackendHandle, kernel: Kernel, text: str, ctx: CompileContext, outline_under: str = "") -> CompiledKernel | None:
    """The kernel as an earlier process compiled it, or None. ``outline_under`` are the conditions of an outline, which has no statements:
    of that only code that tells no places is taken, and a backend that does not say it can do without gets the whole kernel."""
    disk = store()
    is_outline = bool(outline_under)
    known = outline_under or conditions_of(handle, ctx)
    data = disk.find("artifacts", artifact_key(text, known, ctx.options))
    if data is None:
        return None
    try:
        artifact = unpack_artifact(data)
        if is_outline and artifact.has_places:
            return None
        if is_outline:
            kernel = _for_loading(handle, kernel, text)
        emitted = artifact.emitted_for(kernel)
        return handle.load(_binary(handle, emitted, ctx, known)[0], kernel, emitted, ctx)
    except (Unreadable, InternalError, ZelligeError) as error:
        _pass_over(error)
        return None


def recalled_together(
    handle: BackendHandle, outline: Kernel, text: str, artifact: bytes, binary: bytes, ctx: CompileContext
) -> CompiledKernel | None:
    """The kernel with that text from an artifact and machine code that were kept together, or None."""
    try:
        emitted, code = unpack_artifact(artifact).emitted_for(outline), unpack_binary(binary)
        return handle.load(code, _for_loading(handle, outline, text), emitted, ctx) if _runs_here(handle, code, ctx) else None
    except (Unreadable, InternalError, ZelligeError) as error:
        _pass_over(error)
        return None


def _for_loading(handle: BackendHandle, outline: Kernel, text: str) -> Kernel:
    """What a backend gets of a kernel whose code it loads: the outline where that is all that it reads, else the whole."""
    if handle.manifest.loads_from_signature:
        return outline
    from zellige.ir.parser import parse_kernel

    return parse_kernel(text)


def _pass_over(error: Unreadable | InternalError | ZelligeError) -> None:
    """Says why a kernel that is kept is compiled again; raises an error (E717) that compiling would only repeat."""
    if isinstance(error, ZelligeError) and error.code == catalogue.E717.id:
        raise error
    logger().warning("a cached kernel cannot be used and is compiled again: %s", error)


def kept_together(text: str, conditions: str, ctx: CompileContext, kernel: Kernel | None) -> tuple[bytes, bytes] | None:
    """The artifact and the machine code of a kernel with that text, as a start has them; None where they are not kept, or the code tells
    places and ``kernel`` is not there to say where they are."""
    disk = store()
    data = disk.look("artifacts", artifact_key(text, conditions, ctx.options))
    if data is None:
        return None
    try:
        artifact, binary = compressed(data, kernel), disk.look("binaries", unpack_artifact(data).binary)
    except Unreadable:
        return None
    return None if artifact is None or binary is None else (artifact, binary)


def modules_behind(text: str, conditions: str, ctx: CompileContext) -> frozenset[str] | None:
    """The modules that the process had loaded which planned, emitted and compiled the kernel of that text: no other had a part in it. None
    where that is not known."""
    data = store().look(_MODULES, modules_key(artifact_key(text, conditions, ctx.options)))
    try:
        return None if data is None else frozenset(json.loads(data))
    except (ValueError, TypeError):
        return None


def build(
    handle: BackendHandle, kernel: Kernel, emitted: Emitted, text: str, ctx: CompileContext
) -> CompiledKernel:
    """Compile and load ``emitted``, and keep both; ``kernel`` is what it was made from and what ``text`` prints."""
    known = conditions_of(handle, ctx)
    binary, is_made = _binary(handle, emitted, ctx, known)
    compiled = handle.load(binary, kernel, emitted, ctx)
    artifact, key = _artifact(kernel, emitted, ctx, known), artifact_key(text, known, ctx.options)
    store().keep("artifacts", key, pack_artifact(artifact))
    if is_made:
        names = sorted(name for name in sys.modules if name.partition(".")[0] in packages_of(handle.manifest, handle.packages))
        store().keep(_MODULES, modules_key(key), json.dumps(names).encode())
    return compiled


def entries_of(handle: BackendHandle, kernel: Kernel, emitted: Emitted, text: str, ctx: CompileContext) -> dict[str, bytes]:
    """What :func:`build` keeps of a kernel, under kind and key: its artifact and its machine code. Nothing is loaded."""
    known = conditions_of(handle, ctx)
    (binary, _), artifact = _binary(handle, emitted, ctx, known), _artifact(kernel, emitted, ctx, known)
    return {
        f"artifacts/{artifact_key(text, known, ctx.options)}": pack_artifact(artifact),
        f"binaries/{artifact.binary}": pack_binary(binary),
    }


def _artifact(kernel: Kernel, emitted: Emitted, ctx: CompileContext, known: str) -> Artifact:
    key, places = binary_key(emitted, known, ctx.options), places_of(emitted, kernel)
    return Artifact(kernel=kernel.name, target=str(ctx.target), binary=key, emitted=emitted, places=places)


def _binary(handle: BackendHandle, emitted: Emitted, ctx: CompileContext, known: str) -> tuple[Binary, bool]:
    """The machine code of an emitted program: kept, or made and kept; and whether it was made."""
    disk = store()
    key = binary_key(emitted, known, ctx.options)
    data = None if ctx.options.is_forced else disk.find("binaries", key)
    if data is not None:
        try:
            found = unpack_binary(data)
            if _runs_here(handle, found, ctx):
                return found, False
        except Unreadable as error:
            logger().warning("cached machine code cannot be used and is made again: %s", error)
    binary = handle.compile_step(emitted, ctx)
    disk.keep("binaries", key, pack_binary(binary))
    return binary, True


def _runs_here(handle: BackendHandle, binary: Binary, ctx: CompileContext) -> bool:
    """Whether the backend takes machine code made earlier; False where it wants it made again. E717: it cannot run here at all."""
    answer = handle.compat(binary)
    if answer.verdict == "unsupported":
        device = handle.devices[0].name if isinstance(handle.devices, tuple) else "this machine"
        raise catalogue.E717.error(target=str(ctx.target), device=device, reason=answer.reason)
    if answer.verdict == "recompile":
        logger().info("cached machine code is made again: %s", answer.reason)
    return answer.verdict == "ok"


def conditions_of(handle: BackendHandle, ctx: CompileContext) -> str:
    """Everything beside the program and its options that code depends on."""
    return _conditions(handle, ctx.target, handle.description(ctx), store(), handle.cache_key(ctx))


@lru_cache(maxsize=64)
def _conditions(handle: BackendHandle, target: Target, description: str, disk: DiskStore, backend_key: str) -> str:
    point = f"{handle.origin.name} = {handle.origin.text}"
    return conditions(handle.manifest, handle.packages, point, target, description, disk, backend_key)
