"""The contract between the compiler and a backend: what a backend says about itself and what it hands back.

In: nothing (pure declarations). Out: the dataclasses that hooks answer with and the protocols that backends and compiled kernels follow.
:mod:`zellige.plugin.hooks` holds the hooks' signatures, :mod:`zellige.plugin.registry` finds backends.

A backend is one object named by an entry point of the group ``zellige.backends``. It has an attribute ``API = (major, minor)`` and
methods marked with ``zellige.plugin.hooks.hookimpl``. Answering ``manifest`` must import no vendor library: it is asked whenever
targets are listed. Every dataclass here is keyword-only; new fields come with defaults, so that an older backend stays right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from zellige.diagnostics import Span
    from zellige.dtypes import DType
    from zellige.ir.stmt import Kernel
    from zellige.options import CompileOptions
    from zellige.plan.nodes import PlannedKernel
    from zellige.target import Target

API: Final = (1, 0)
"""The contract's version. A backend with another major is quarantined; one with a later minor too; an earlier minor is served."""

ENTRY_POINT_GROUP: Final = "zellige.backends"

EngineKind = Literal["scalar", "vector", "matmul", "copy"]
SpaceRole = Literal["", "global", "shared", "register", "local", "accumulator"]
BackendKind = Literal["accelerator", "host", "reference"]
"""``auto`` prefers a working accelerator, then the host; it never chooses a reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """Why a backend cannot serve here: ``code`` is one lower-case word for programs, ``reason`` a sentence for people."""

    code: str
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
    ``arch_options`` are option keys that mean the architecture (``name -key=value``). ``framework_devices`` are the device names that
    array frameworks use for its memory, ``dlpack_devices`` the device-type numbers of the DLPack protocol: ``auto`` follows them.
    ``requirements`` are distributions it needs beside its own; code kept on disk is used again only with the same versions of them, and
    while the source of the backend's package and of ``code_packages``, others that shape its code, is the same. ``dialect`` lists names
    it adds to the language, ``config_keys`` pass-config keys that belong to it, ``hints`` keyword arguments of the language's operations
    that mean something to it alone and never change a result, ``acts_on`` the fields of ``CompileOptions`` that change what it makes (who
    sets another one is told that it has no effect), ``inspections`` methods it adds to a compiled kernel (such as an export of
    its own assembly), ``timers`` the names of its ways to time a launch. ``state`` says whether it can serve at
    all; whether a device is present is asked with ``probe``.
    """

    name: str
    vendor: str
    version: str
    kind: BackendKind
    targets: tuple[str, ...]
    api: tuple[int, int] = API
    aliases: tuple[tuple[str, str], ...] = ()
    arch_options: tuple[str, ...] = ()
    framework_devices: tuple[str, ...] = ()
    dlpack_devices: tuple[int, ...] = ()
    requirements: tuple[str, ...] = ()
    code_packages: tuple[str, ...] = ()
    dialect: tuple[DialectName, ...] = ()
    config_keys: tuple[ConfigKey, ...] = ()
    hints: tuple[str, ...] = ()
    acts_on: tuple[str, ...] = ()
    inspections: tuple[str, ...] = ()
    timers: tuple[str, ...] = ()
    state: Literal["available"] | Unavailable = "available"
    summary: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device that works here. ``memory_bytes`` is 0 where it is not known.

    ``compute_version`` is (major, minor) of the instruction set where the vendor counts it so.
    """

    name: str
    index: int
    target: str
    memory_bytes: int = 0
    compute_version: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """A memory space that buffers may name. ``bytes`` is the capacity of one block (None: bounded by the machine's memory).

    ``role`` says what the space is for, whatever its name: "global" is visible to all blocks, "shared" to a block's engines, "register"
    belongs to lanes or vectors, "local" is the one memory beside an engine, "accumulator" takes the results of products only; "" stands
    for the role that the name has in the language. ``engines`` name those that reach it (none named: all).
    """

    name: str
    bytes: int | None = None
    alignment: int = 1
    role: SpaceRole = ""
    engines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulUnit:
    """A product that a target executes: a block of ``m`` x ``n`` x ``k`` elements, C of dtype ``c`` added to A of ``a`` times B of ``b``.

    ``m``, ``n``, ``k`` of 1 mean any size; else a product is cut into blocks of exactly that size ("fixed") or of multiples of it up to
    ``largest`` ("multiple"). ``is_native`` is False where instructions of another kind emulate it.

    Operands lie in one of ``a_spaces`` and ``b_spaces``, results in ``c_space`` (empty: anywhere). ``interleave`` is how many steps of k
    stand next to each other in b. With ``is_asynchronous`` a product goes on while its engine's role does something else.
    """

    a: str
    b: str
    c: str
    m: int = 1
    n: int = 1
    k: int = 1
    is_native: bool = True
    name: str = ""
    engine: str = ""
    shape: Literal["fixed", "multiple"] = "fixed"
    largest: tuple[int, int, int] | None = None
    a_spaces: tuple[str, ...] = ()
    b_spaces: tuple[str, ...] = ()
    c_space: str = ""
    interleave: int = 1
    is_asynchronous: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What executes operations: ``count`` of a kind in one block. ``is_asynchronous``: it runs beside the instruction stream that starts
    it."""

    name: str
    kind: EngineKind
    count: int = 1
    is_asynchronous: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPath:
    """A way from a space to a space. Addresses and pitches are multiples of ``alignment`` bytes, inner extents of ``granule`` bytes.

    ``fills_out_of_bounds``: parts of a region outside its tensor cost nothing, they arrive as zeros and are not written. ``casts``: it can
    convert elements on the way.
    """

    source: str
    destination: str
    mechanism: str
    engine: str = ""
    is_asynchronous: bool = False
    alignment: int = 1
    granule: int = 1
    fills_out_of_bounds: bool = False
    casts: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Synchronisation:
    """A mechanism that orders work. "token" is waited for by the role that issued; "block" and "cluster" join roles.

    ``count`` is how many a block has (None: no limit that matters). ``counts_bytes``: a copy that lands completes it by itself.
    """

    mechanism: str
    scope: Literal["token", "block", "cluster"]
    count: int | None = None
    counts_bytes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterFile:
    """``vectors`` registers of ``vector_bytes`` an instruction stream; on a target with lanes ``per_lane`` 32-bit registers at most a
    lane, ``per_block`` for all lanes of a block together (0: not known, or roles cannot have budgets of their own), given out in multiples
    of ``step`` a lane."""

    vectors: int = 0
    vector_bytes: int = 0
    per_lane: int = 0
    per_block: int = 0
    step: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a target can do, answered without a device.

    ``lanes`` is the number of lanes that execute together (0: the target has no lanes and refuses lane statements),
    ``are_lanes_emulated`` says that a loop plays them. ``threads`` is how many blocks run at the same time (0: not known offline).
    ``vector_bytes`` is the width of the widest vector register (0: none). ``dtypes`` lists the names of element types held in storage,
    ``compute_dtypes`` those with arithmetic of their own; others are converted for arithmetic.

    Planning asks the rest: ``engines`` (none: one that does everything in order), ``copies`` between spaces, ``synchronisation``,
    ``registers``, whether parts of a block may run programs of their own (``can_specialise_roles``), ``block_lanes`` at most,
    ``cache_bytes`` a core from the innermost level outwards.
    """

    target: str
    lanes: int = 0
    are_lanes_emulated: bool = False
    threads: int = 0
    vector_bytes: int = 0
    cache_line_bytes: int = 0
    spaces: tuple[Space, ...] = ()
    dtypes: tuple[str, ...] = ()
    compute_dtypes: tuple[str, ...] = ()
    matmul: tuple[MatmulUnit, ...] = ()
    features: tuple[str, ...] = ()
    engines: tuple[Engine, ...] = ()
    copies: tuple[CopyPath, ...] = ()
    synchronisation: tuple[Synchronisation, ...] = ()
    registers: RegisterFile | None = None
    can_specialise_roles: bool = False
    block_lanes: int = 0
    cache_bytes: tuple[int, ...] = ()

    def has_storage(self, dtype: DType | str) -> bool:
        """Whether elements of this type can be kept in buffers."""
        return str(dtype) in self.dtypes


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileContext:
    """What every step of one compilation may ask: the resolved target, what the backend said it can do, and the caller's options."""

    target: Target
    capabilities: Capabilities
    options: CompileOptions


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
    """A kernel that can be launched on one target.

    It may also have ``launch_packed(words: bytes)``, the same with arguments in 64-bit words: pointers, scalars (integers, or the bits of
    a double), sizes; then the address of what follows them, a zero, and 31 zero words, which are the backend's to use in this call.
    """

    def launch(self, pointers: Sequence[int], scalars: Sequence[int | float], sizes: Sequence[int]) -> None:
        """Run every launch of the kernel in order and wait for the end.

        ``pointers``: one address a TensorParam (arguments, outputs and workspace) in the order of ``kernel.params``; ``scalars``: one
        value a ScalarParam in order; ``sizes``: the values of ``zellige.ir.sizes.size_vars(kernel)`` in that order. The arguments have
        been checked; an address is 0 where the tensor is empty or the kernel never touches it. Several threads may launch at the same
        time. Raises LaunchError for a failed device assertion.
        """
        ...

    def source(self) -> str:
        """The lowered program as text."""
        ...

    def assembly(self) -> str:
        """The machine code as text."""
        ...


class Runtime(Protocol):
    """The part of a backend that needs the device: it loads binaries."""

    def load(self, binary: Binary, kernel: Kernel, source: Emitted) -> CompiledKernel:
        """Make ``binary`` callable; ``kernel`` says its parameters."""
        ...


class Backend(Protocol):
    """The shape of a backend's object. Each method is a hook; ``zellige.plugin.hooks.BackendHooks`` says what it must answer.

    ``manifest``, ``probe`` and ``describe`` are required, and either ``compile_kernel`` or all of ``emit``, ``compile`` and ``runtime``.
    """

    API: tuple[int, int]

    def manifest(self) -> Manifest: ...

    def probe(self) -> tuple[Device, ...] | Unavailable: ...

    def describe(self, target: Target) -> Capabilities: ...

    def compile_kernel(self, planned: PlannedKernel, ctx: CompileContext) -> CompiledKernel: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendReport:
    """What ``backends list`` and ``doctor`` show of one backend. ``traceback`` is text of a failure while it was loaded."""

    name: str
    entry_point: str
    manifest: Manifest | None
    devices: tuple[Device, ...] = ()
    unavailable: Unavailable | None = None
    traceback: str = ""
