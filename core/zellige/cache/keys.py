"""What identifies a compiled kernel.

In: a kernel, a target, options; for the disk also the capabilities and the versions of everything that makes code. Out: hexadecimal
SHA-256 digests.

Versions are digests of the source of the packages that make code, so that a changed compiler never finds code of the old one, while equal
installations on two machines agree. Reading all source takes longer than a warm start may, so the digest is kept under another one
of the files' names, sizes and times. Source that changed since this process loaded the compiler is not what made its code: what it
compiles then is kept under keys of its own.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import secrets
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Final

from zellige.cache.disk import DiskStore
from zellige.cache.identity import identity_of
from zellige.ir.printer import print_kernel
from zellige.ir.stmt import Assert, Kernel
from zellige.ir.traverse import walk
from zellige.options import CompileOptions
from zellige.plugin.contract import Emitted, Manifest
from zellige.plugin.installed import installed_version
from zellige.target import Target
from zellige.version import LOADED_NS, __version__

CORE: Final = "zellige"
_OF_PASSES: Final = ("passes", "schedule")
WITHOUT_EFFECT: Final = frozenset(
    {"autotune", "cache", "claims", "cli", "demo", "diagnostics", "frontend", "generate", "interp", "language", "tileop", "utils"}
)
"""Parts of core that make no code for any backend's target out of a kernel's text, which is a part of every key."""


def program_key(kernel: Kernel, target: Target, options: CompileOptions, text: str | None = None, backend_key: str = "") -> str:
    """What identifies a compiled kernel in this process. ``text`` is the printed kernel where it is at hand, ``backend_key`` what the
    backend's code depends on besides.

    The places of assertions belong to it, since a compiled kernel names them when one fails.
    """
    asserted = [str(node.span) for launch in kernel.launches for node in walk(launch) if isinstance(node, Assert)]
    return _digest(print_kernel(kernel) if text is None else text, *asserted, str(target), options_text(options), backend_key)


def options_text(options: CompileOptions) -> str:
    """The options that change the result."""
    plain = [(f.name, getattr(options, f.name)) for f in fields(options) if f.compare and f.name not in _OF_PASSES]
    passes = [(stage, identity_of(step)) for stage, step in options.passes]
    schedule = options.schedule if options.schedule is None or isinstance(options.schedule, str) else identity_of(options.schedule)
    return repr([*plain, ("passes", passes), ("schedule", schedule)])


def artifact_key(text: str, conditions: str, options: CompileOptions) -> str:
    """What identifies the artifact of a printed kernel."""
    return _digest("artifact", text, conditions, options_text(options))


def binary_key(emitted: Emitted, conditions: str, options: CompileOptions) -> str:
    """What identifies the machine code of an emitted program."""
    return _digest("binary", emitted.format, emitted.text, conditions, options_text(options))


def conditions(
    manifest: Manifest, package: str, target: Target, description: str, store: DiskStore, backend_key: str = ""
) -> str:
    """Everything beside the program and its options that code depends on: target, what it can do (``description``), versions of compiler
    and tools, and what the backend adds (``backend_key``)."""
    sources = [f"{name} {source_digest(name, store)}" for name in (CORE, package, *manifest.code_packages)]
    tools = [f"{name} {installed_version(name)}" for name in manifest.requirements]
    return _digest(__version__, manifest.version, str(target), description, backend_key, *sources, *tools)


def source_digest(package: str, store: DiskStore) -> str:
    """A digest of a package's source by content; of a package that has none, its name."""
    if package not in _digests:
        _digests[package] = _source_digest(package, store)
    return _digests[package]


_digests: Final[dict[str, str]] = {}
"""What this process found, once for all: the source that it runs does not change."""


def _source_digest(package: str, store: DiskStore) -> str:
    root = _root(package) if package else None
    if root is None:
        return package
    left_out = WITHOUT_EFFECT if package == CORE else frozenset()
    files = sorted(_source_files(root, left_out))
    if any(time >= LOADED_NS for _, _, time in files):
        return secrets.token_hex(32)
    stamp = _digest(str(root), repr(files))
    known = store.find("sources", stamp)
    if known is not None:
        return known.decode()
    parts = [f"{name} {hashlib.sha256((root / name).read_bytes()).hexdigest()}" for name, _, _ in files]
    digest = _digest(*parts)
    store.keep("sources", stamp, digest.encode())
    return digest


def _root(package: str) -> Path | None:
    """The folder of a top-level package, without importing it."""
    loaded = sys.modules.get(package)
    file = getattr(loaded, "__file__", None)
    if file is None:
        spec = importlib.util.find_spec(package)
        file = None if spec is None else spec.origin
    return None if file is None else Path(file).parent


def _source_files(root: Path, left_out: frozenset[str]) -> Iterator[tuple[str, int, int]]:
    """Name under ``root``, size and time of change of each source file. A name with a full stop is a file's, and one without a folder's or
    a file's, which saves asking."""
    top = f"{root}/"
    pending = [""]
    while pending:
        folder = pending.pop()
        with os.scandir(top + folder) as entries:
            for entry in entries:
                name = folder + entry.name
                if name.endswith((".pyc", ".md")):
                    continue
                if "." not in entry.name and entry.is_dir():
                    if entry.name != "__pycache__" and name not in left_out:
                        pending.append(f"{name}/")
                    continue
                status = entry.stat()
                yield name, status.st_size, status.st_mtime_ns


def _digest(*parts: str) -> str:
    found = hashlib.sha256()
    for part in parts:
        data = part.encode()
        found.update(len(data).to_bytes(8, "little"))
        found.update(data)
    return found.hexdigest()
