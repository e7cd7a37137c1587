"""What identifies a compiled kernel.

In: a kernel, a target, options; for the disk also the capabilities and the versions of everything that makes code. Out: hexadecimal
SHA-256 digests.

The compiler's own version is a digest of its source (:mod:`zellige.cache.sources`).
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import fields
from typing import Final

from zellige.cache.disk import DiskStore
from zellige.cache.sources import CORE, source_digest
from zellige.ir.printer import print_kernel
from zellige.ir.stmt import Assert, Kernel
from zellige.ir.traverse import walk
from zellige.options import CompileOptions
from zellige.plugin.contract import Emitted, Manifest
from zellige.plugin.installed import installed_version
from zellige.target import Target
from zellige.version import __version__

_HERE: Final = __file__
_START: Final = "start 6"
"""With the number of the form in which starts are kept."""

UNTOLD: Final = "of this process "
"""How the text begins that stands for passes which no other process can have; nothing made with them is kept on disk."""

_OF_PASSES: Final = ("passes", "schedule", "of_passes")
_PLAIN: Final = tuple(field.name for field in fields(CompileOptions) if field.compare and field.name not in _OF_PASSES)


def program_key(kernel: Kernel, target: Target, options: CompileOptions, text: str | None = None, backend_key: str = "") -> str:
    """What identifies a compiled kernel in this process. ``text`` is the printed kernel where it is at hand, ``backend_key`` what the
    backend's code depends on besides.

    The places of assertions belong to it, since a compiled kernel names them when one fails.
    """
    asserted = tuple(str(node.span) for launch in kernel.launches for node in walk(launch) if isinstance(node, Assert))
    return text_key(print_kernel(kernel) if text is None else text, target, options, backend_key, asserted)


def text_key(text: str, target: Target, options: CompileOptions, backend_key: str, asserted: tuple[str, ...] = ()) -> str:
    """The same of a kernel's text; ``asserted`` are the places of its assertions."""
    return _digest(text, *asserted, str(target), options_text(options), backend_key)


def trace_key(question: str, conditions: str, options: CompileOptions) -> str:
    """What identifies the trace of a function: ``question`` stands for everything that tracing it reads."""
    return _digest("trace", question, conditions, options_text(options))


def start_key(question: str, requested: Target, options: CompileOptions) -> str:
    """What identifies the start of a function's kernel: ``question`` as for its trace, and how this process finds packages."""
    finders = [(finder.__module__, getattr(finder, "__qualname__", type(finder).__qualname__)) for finder in sys.meta_path]
    places = (_HERE, repr(sys.path), repr(finders), str(sys.flags.optimize))
    return _digest(_START, __version__, question, str(requested), options_text(options), *places)


def options_text(options: CompileOptions) -> str:
    """The options that change the result."""
    return repr([*((name, getattr(options, name)) for name in _PLAIN), ("passes", options.of_passes or passes_text(options))])


def passes_text(options: CompileOptions) -> str:
    """What stands for the passes and the schedule that a user hands over; empty where there are none."""
    if not options.passes and options.schedule is None:
        return ""
    from zellige.cache.identity import identity_of  # few kernels have any

    return identity_of((options.passes, options.schedule))


def artifact_key(text: str, conditions: str, options: CompileOptions) -> str:
    """What identifies the artifact of a printed kernel."""
    return _digest("artifact", text, conditions, options_text(options))


def modules_key(artifact: str) -> str:
    """What identifies the list of modules that made the artifact with that key."""
    return _digest("modules", artifact)


def binary_key(emitted: Emitted, conditions: str, options: CompileOptions) -> str:
    """What identifies the machine code of an emitted program."""
    return _digest("binary", emitted.format, emitted.text, conditions, options_text(options))


def conditions(
    manifest: Manifest, packages: Sequence[str], point: str, target: Target, description: str, store: DiskStore, backend_key: str = ""
) -> str:
    """Everything beside the program and its options that code depends on: target, what it can do (``description``), versions of compiler
    and tools, the object that makes it (``point``, the entry point), whether Python leaves assertions out, and what the backend adds
    (``backend_key``)."""
    sources = [f"{name} {source_digest(name, store)}" for name in packages_of(manifest, packages)]
    tools = [f"{name} {installed_version(name)}" for name in manifest.requirements]
    made_by = (__version__, manifest.version, point, str(sys.flags.optimize))
    return _digest(*made_by, str(target), description, backend_key, *sources, *tools)


def packages_of(manifest: Manifest, packages: Sequence[str]) -> tuple[str, ...]:
    """The packages whose source makes code for a backend that lies in ``packages``."""
    return tuple(dict.fromkeys((CORE, *packages, *manifest.code_packages)))


def _digest(*parts: str) -> str:
    found = hashlib.sha256()
    for part in parts:
        data = part.encode()
        found.update(len(data).to_bytes(8, "little"))
        found.update(data)
    return found.hexdigest()
