"""The contract between the compiler and a backend: what a backend says about itself and what it hands back.

In: nothing (pure declarations). Out: the dataclasses that hooks answer with and the protocols that backends and compiled kernels follow.
:mod:`zellige.plugin.hooks` holds the hooks' signatures, :mod:`zellige.plugin.registry` finds backends.

A backend is one object named by an entry point of the group ``zellige.backends``. It has an attribute ``API = (major, minor)`` and
methods marked with ``zellige.plugin.hooks.hookimpl``. Answering ``manifest`` must import no vendor library: it is asked whenever
targets are listed. Every dataclass here is keyword-only; new fields come with defaults, so that an older backend stays right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Protocol, runtime_checkable

from zellige.plugin.capabilities import (
    AtomicSupport,
    Bounds,
    Capabilities,
    Conversion,
    CopyPath,
    Engine,
    EngineKind,
    Identity,
    MathAccuracy,
    MatmulUnit,
    Peak,
    RegisterFile,
    Space,
    SpaceRole,
    Synchronisation,
)
from zellige.plugin.choices import (
    Answer,
    Candidate,
    Insert,
    Operation,
    PassChange,
    PassStage,
    Rejection,
    Replace,
    StagePass,
    Veto,
)
from zellige.plugin.fit import Asked, Fitted, FittedKernel, Revision
from zellige.plugin.limits import line, whole
from zellige.plugin.native import DriverFunctions, LoadedCode, NativeKernel, NativeLaunch, NativeMade, NativeStep

if TYPE_CHECKING:
    from zellige.diagnostics import Span
    from zellige.ir.stmt import Kernel
    from zellige.options import CompileOptions
    from zellige.plan.nodes import PlannedKernel
    from zellige.target import Target

__all__ = [
    "API",
    "Answer",
    "Asked",
    "AtomicSupport",
    "Backend",
    "BackendKind",
    "BackendReport",
    "Binary",
    "CacheFlush",
    "BoundedKernel",
    "Bounds",
    "Candidate",
    "Capabilities",
    "Compatibility",
    "CompileContext",
    "CompiledKernel",
    "ConfigKey",
    "Conformance",
    "Conversion",
    "CopyPath",
    "Device",
    "Diagnosis",
    "DialectName",
    "DriverFunctions",
    "ENTRY_POINT_GROUP",
    "Emitted",
    "Engine",
    "EngineKind",
    "Fitted",
    "FittedKernel",
    "Identity",
    "Insert",
    "LoadedCode",
    "Manifest",
    "MathAccuracy",
    "MatmulUnit",
    "NativeKernel",
    "NativeLaunch",
    "NativeMade",
    "NativeStep",
    "Operation",
    "PackedKernel",
    "PassChange",
    "PassStage",
    "Peak",
    "RegisterFile",
    "Rejection",
    "Replace",
    "Revision",
    "Runtime",
    "Space",
    "SpaceRole",
    "StagePass",
    "StreamKernel",
    "Synchronisation",
    "Tool",
    "Unavailable",
    "Veto",
    "Waiver",
]

API: Final = (1, 0)
"""The contract's version. A backend with another major is quarantined; one with a later minor too; an earlier minor is served.

What the first release has is 1.0, whatever was tried before it. From then on a step of the minor adds and takes nothing away; what goes, or
changes its signature, needs a step of the major: ``tools/public_signatures.py`` refuses it without."""

ENTRY_POINT_GROUP: Final = "zellige.backends"

BackendKind = Literal["accelerator", "host", "reference"]
"""``auto`` prefers a working accelerator, then the host; it never chooses a reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """Why a backend cannot serve here: ``code`` is one lower-case word for programs, ``reason`` a sentence for people."""

    code: str = field(metadata=line(may_be_empty=False))
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectName:
    """A name that a backend adds to the kernel language, and the target that has it.

    ``target`` is ``name`` where every architecture has it, else ``name:arch`` with the first architecture that has.
    """

    name: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """A pass-config key that belongs to a backend: ``name`` as a member of ``PassConfigKey``, ``key`` as the text in a dictionary."""

    name: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a backend says about itself without loading anything.

    ``targets`` are the target names it serves, the first its main one; ``aliases`` maps other spellings to a target's text.
    ``arch_options`` are option keys that mean the architecture (``name -key=value``). ``options`` are the other options of a target that
    the backend reads: core refuses the rest (E719), and an architecture where there are no ``arch_options``; None leaves what is written
    behind a target's name to the backend. ``framework_devices`` are the device names that
    array frameworks use for its memory, ``dlpack_devices`` the device-type numbers of the DLPack protocol: ``auto`` follows them.
    ``api`` is the contract that it was written for, the ``API`` of its object. ``requirements`` are distributions it needs beside its
    own; code kept on disk is used again only with the same versions of them, and while the source of the backend's package and of
    ``code_packages``, others that shape its code, is the same. ``compiles_in_process`` says that all Python that has a part in its code
    runs as modules of the process that asks for it: a kernel made there is then found again, in one piece, while those modules are what
    they were, else while all source is. ``loads_from_signature`` says that what ``runtime`` answers reads no statement of the kernel
    that it loads, only its parameters and grids: one found in a cache is then loaded without reading its text.

    ``dialect`` lists names it adds to the language, ``dialect_table`` is a file in its package with more of them
    (:mod:`zellige.plugin.dialect`), which is read when somebody asks for a name that the language does not have, ``config_keys``
    pass-config keys that belong to it, ``hints`` keyword arguments of the language's operations that mean something to it alone and never
    change a result, ``acts_on`` the fields of ``CompileOptions`` and those of ``config_keys`` that change what it makes (who sets another
    one is told that it has no effect), ``inspections`` methods it adds to a compiled kernel (such as an export of its own assembly),
    ``timers`` the names of its ways to time a launch. ``state`` says whether it can serve at all; whether a device is present is asked
    with ``probe``.
    """

    name: str
    vendor: str
    version: str
    kind: BackendKind
    targets: tuple[str, ...]
    api: tuple[int, int] = API
    aliases: tuple[tuple[str, str], ...] = ()
    arch_options: tuple[str, ...] = ()
    options: tuple[str, ...] | None = None
    framework_devices: tuple[str, ...] = ()
    dlpack_devices: tuple[int, ...] = ()
    requirements: tuple[str, ...] = ()
    code_packages: tuple[str, ...] = ()
    compiles_in_process: bool = False
    loads_from_signature: bool = False
    dialect: tuple[DialectName, ...] = ()
    dialect_table: str = ""
    config_keys: tuple[ConfigKey, ...] = ()
    hints: tuple[str, ...] = ()
    acts_on: tuple[str, ...] = ()
    inspections: tuple[str, ...] = ()
    timers: tuple[str, ...] = ()
    ir: tuple[int, int] | None = None
    state: Literal["available"] | Unavailable = "available"
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device that works here. ``memory_bytes`` is 0 where it is not known.

    ``compute_version`` is (major, minor) of the instruction set where the vendor counts it so.
    """

    name: str = field(metadata=line(may_be_empty=False))
    index: int = field(metadata=whole())
    target: str = field(metadata=line(may_be_empty=False))
    memory_bytes: int = field(default=0, metadata=whole())
    compute_version: tuple[int, int] | None = field(default=None, metadata=whole())


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileContext:
    """What every step of one compilation may ask: the resolved target, what the backend said it can do, and the caller's options."""

    target: Target
    capabilities: Capabilities
    options: CompileOptions
    ir_version: tuple[int, int] | None = None

    def ir_text(self, kernel: Kernel) -> str:
        """The kernel as text of the version that the backend's manifest says it reads (``ir``; none said: the newest). E715 where the
        kernel uses what that version does not have."""
        from zellige.ir.printer import print_kernel

        return print_kernel(kernel, version=self.ir_version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """A lowered program as text, made without a device. ``format`` is the backend's word for the language of ``text``.

    ``facts`` is what the backend's runtime must know beside the code, as text that only the backend reads; ``spans`` are places of the
    kernel that ``facts`` refers to by number. Both are kept with the machine code: in another process ``spans`` come from the kernel
    as it stands in its file then, None where the place is not found.
    """

    text: str
    format: str
    facts: str = ""
    spans: tuple[Span | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """Machine code made from an :class:`Emitted`, without a device. ``log`` keeps what the compiler said."""

    data: bytes
    format: str
    assembly: str = ""
    log: str = ""


@runtime_checkable
class CompiledKernel(Protocol):
    """A kernel that can be launched on one target. Every launch goes through ``launch``, through :class:`PackedKernel` or as
    :class:`NativeKernel` describes it.

    Core allocates no memory of a device and has no streams of its own: arguments are arrays of a framework, results are made by the
    framework of the arguments, and the stream is the one that this framework has current.
    """

    def launch(self, pointers: Sequence[int], scalars: Sequence[int | float], sizes: Sequence[int]) -> None:
        """Run every launch of the kernel in order.

        Where the device has streams, they are put on the one that the arguments' framework has current, in order with what is there, and
        the call may return before the end; what fails on the device is then raised by a later call. Elsewhere the call waits for the end.

        ``pointers``: one address a TensorParam (arguments, outputs and workspace) in the order of ``kernel.params``; ``scalars``: one
        value a ScalarParam in order; ``sizes``: the values of ``zellige.ir.sizes.size_vars(kernel)`` in that order. The arguments have
        been checked; an address is 0 where the tensor is empty or the kernel never touches it. Several threads may launch at the same
        time. Raises LaunchError for a failed device assertion. A launch that fails raises: what a launch answers is refused (E703), lest
        a driver's number for a failure be passed over.
        """
        ...

    def source(self) -> str:
        """The lowered program as text."""
        ...

    def assembly(self) -> str:
        """The machine code as text."""
        ...


@runtime_checkable
class PackedKernel(Protocol):
    """What a compiled kernel may have beside :class:`CompiledKernel`, so that a call makes no lists. Core uses it where it is there."""

    def launch_packed(self, words: bytes) -> None:
        """As ``launch``, with the arguments in 64-bit words: pointers, scalars (integers, or the bits of a double), sizes; then the address
        of what follows them, a zero, and 31 zero words, which are the backend's to use in this call."""
        ...


@runtime_checkable
class BoundedKernel(Protocol):
    """What a compiled kernel may have beside :class:`CompiledKernel`: what ``describe`` says of one launch, so that a kernel that is found
    in a cache can be called without asking for the whole description. Calls that ask for more are refused by core (E645)."""

    bounds: Bounds


@runtime_checkable
class StreamKernel(Protocol):
    """What a compiled kernel of a device with streams may have beside :class:`CompiledKernel`. Core uses it where arguments name
    streams."""

    def launch_among(
        self, pointers: Sequence[int], scalars: Sequence[int | float], sizes: Sequence[int], streams: Sequence[int]
    ) -> None:
        """As ``launch``, after all that is in ``streams`` now and before all that is put there later. They are handles of the driver, 0 for
        the device's default stream."""
        ...


@runtime_checkable
class CacheFlush(Protocol):
    """What empties a device's caches ahead of a run that is timed, on the stream that the run goes to. Its memory is given back at the
    end of the ``with`` block that it opens."""

    size_bytes: int
    """How much is written or read."""

    def __call__(self) -> None: ...

    def __enter__(self) -> CacheFlush: ...

    def __exit__(self, *exception: object) -> None: ...


class Runtime(Protocol):
    """The part of a backend that needs the device: it loads binaries. Timing by the device's clock is the hook ``timers``."""

    def load(self, binary: Binary, kernel: Kernel, source: Emitted) -> CompiledKernel:
        """Make ``binary`` callable; ``kernel`` says its parameters and grids. Where the plan has blocks that stay, what is launched is
        ``zellige.ir.sizes.launched_blocks`` of a grid and of the plan's ``order.tiles.workers``, which belong into the facts of
        ``source``: the plan is not kept. ``kernel`` has no statements where the manifest says
        ``loads_from_signature`` and the kernel comes from a cache."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Compatibility:
    """Whether machine code made earlier, perhaps elsewhere, runs on a device: as it is, only when made again, or not at all."""

    verdict: Literal["ok", "recompile", "unsupported"]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """A conformance test, or a pattern of their names, that a backend is known to fail or has no use for, and why."""

    test: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Conformance:
    """What a backend claims of the conformance suite: the profiles it passes, tests it is expected to fail, tests that do not apply."""

    profiles: tuple[str, ...] = ()
    expected_failures: tuple[Waiver, ...] = ()
    waivers: tuple[Waiver, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """A failure of a vendor's tool or driver in the user's words: what happened, and what to do about it."""

    reason: str
    hint: str = ""


class Backend(Protocol):
    """The shape of the smallest backend's object. Each method is a hook; ``zellige.plugin.hooks.BackendHooks`` says what it must answer.

    ``manifest``, ``probe`` and ``describe`` are required, and either ``compile_kernel`` or all of ``emit``, ``compile`` and ``runtime``.
    """

    API: tuple[int, int]

    def manifest(self) -> Manifest: ...

    def probe(self) -> tuple[Device, ...] | Unavailable: ...

    def describe(self, target: Target) -> Capabilities: ...

    def compile_kernel(self, planned: PlannedKernel, ctx: CompileContext) -> CompiledKernel: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Something of the vendor's that a backend uses: a driver, a compiler. ``place`` is where it was found, ``purpose`` what it does,
    ``problem`` what is wrong with it in a sentence (empty: nothing). What ``is_optional`` is missed by nothing that compiles or
    launches."""

    name: str = field(metadata=line(may_be_empty=False))
    purpose: str = field(metadata=line())
    version: str = field(default="", metadata=line())
    place: str = field(default="", metadata=line())
    problem: str = ""
    is_optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendReport:
    """What ``backends list`` and ``doctor`` show of one backend. ``traceback`` is text of a failure while it was loaded,
    ``origin`` the name of its entry point. ``tools`` are asked for by ``doctor`` only."""

    name: str
    entry_point: str
    manifest: Manifest | None
    devices: tuple[Device, ...] = ()
    unavailable: Unavailable | None = None
    traceback: str = ""
    origin: str = ""
    tools: tuple[Tool, ...] = ()
