"""A kernel from the disk, or by way of it.

In: a backend that works in steps (emit, compile, load), a kernel, its printed text, target and options. Out: a loaded kernel: by
:func:`recall` from what an earlier process kept, without planning or emitting; by :func:`build` through the backend's steps, which
keeps each of them.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from zellige.cache.artifacts import Artifact, Unreadable, pack_artifact, pack_binary, places_of, unpack_artifact, unpack_binary
from zellige.cache.disk import DiskStore, store
from zellige.cache.keys import artifact_key, binary_key, conditions
from zellige.diagnostics import InternalError, ZelligeError
from zellige.ir.stmt import Kernel
from zellige.log import logger
from zellige.plugin.contract import Binary, Capabilities, CompileContext, CompiledKernel, Emitted
from zellige.plugin.registry import BackendHandle
from zellige.target import Target

if TYPE_CHECKING:
    from zellige.plan.nodes import PlannedKernel


def recall(handle: BackendHandle, kernel: Kernel, text: str, ctx: CompileContext) -> CompiledKernel | None:
    """The kernel as an earlier process compiled it, or None."""
    disk = store()
    known = _conditions(handle, ctx.target, ctx.capabilities, disk.folder)
    data = disk.find("artifacts", artifact_key(text, known, ctx.options))
    if data is None:
        return None
    try:
        artifact = unpack_artifact(data)
        emitted = artifact.emitted_for(kernel)
        return handle.load(_binary(handle, emitted, ctx, known), kernel, emitted, ctx)
    except (Unreadable, InternalError, ZelligeError) as error:
        logger().warning("a cached kernel cannot be used and is compiled again: %s", error)
        return None


def build(handle: BackendHandle, kernel: Kernel, planned: PlannedKernel, text: str, ctx: CompileContext) -> CompiledKernel:
    """Emit ``planned``, compile and load it; ``kernel`` is what it was made from and what ``text`` prints."""
    disk = store()
    known = _conditions(handle, ctx.target, ctx.capabilities, disk.folder)
    emitted = handle.emit_step(planned, ctx)
    binary = _binary(handle, emitted, ctx, known)
    compiled = handle.load(binary, kernel, emitted, ctx)
    artifact = Artifact(
        kernel=kernel.name,
        target=str(ctx.target),
        binary=binary_key(emitted, known, ctx.options),
        emitted=emitted,
        places=places_of(emitted, kernel),
    )
    disk.keep("artifacts", artifact_key(text, known, ctx.options), pack_artifact(artifact))
    return compiled


def _binary(handle: BackendHandle, emitted: Emitted, ctx: CompileContext, known: str) -> Binary:
    """The machine code of an emitted program: kept, or made and kept."""
    disk = store()
    key = binary_key(emitted, known, ctx.options)
    data = disk.find("binaries", key)
    if data is not None:
        try:
            return unpack_binary(data)
        except Unreadable as error:
            logger().warning("cached machine code cannot be used and is made again: %s", error)
    binary = handle.compile_step(emitted, ctx)
    disk.keep("binaries", key, pack_binary(binary))
    return binary


@lru_cache(maxsize=64)
def _conditions(handle: BackendHandle, target: Target, capabilities: Capabilities, folder: Path) -> str:
    return conditions(handle.manifest, handle.package, target, capabilities, DiskStore(folder))
