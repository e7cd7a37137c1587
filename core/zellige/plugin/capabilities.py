"""What a target can do, as data: the dataclasses that a backend's ``describe`` answers with.

In: nothing (pure declarations). Out: :class:`Capabilities` and its parts. Every dataclass is frozen and keyword-only; every field beyond
those that name a thing has a default, which means "not said" or "none", so that a backend written for an earlier minor version stays
right. :mod:`zellige.plugin.schema` makes the JSON Schema from these declarations, checks answers against it and against each other.

Each field says in its metadata what its numbers and texts may be (:mod:`zellige.plugin.limits`; by itself numbers from 0 on and lines of
text), which every answer is held to, and what checks it besides: ``contract`` is the check of consistency that every answer goes through,
``probe NAME`` a program of :mod:`zellige.claims` that tries it on the device (``zellige backends doctor BACKEND --probe``), and ``declared
only`` is taken on trust.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from zellige.plugin.limits import line, whole

if TYPE_CHECKING:
    from zellige.dtypes import DType

SCHEMA_VERSION: Final = (1, 0)
"""A new minor adds fields with defaults; a new major changes or removes some."""

EngineKind = Literal["scalar", "vector", "matmul", "copy"]
SpaceRole = Literal["", "global", "shared", "register", "local", "accumulator"]
ExecutionModel = Literal["", "simt", "simd", "dataflow"]
SynchronisationScope = Literal["token", "block", "cluster", "turn"]
Determinism = Literal["none", "run", "device"]
Rounding = Literal["", "nearest-even", "toward-zero", "stochastic"]

_AT_LEAST_ONE: Final = whole(1)
_NAME: Final = line(may_be_empty=False)
_ALIGNMENT: Final = whole(1, is_power_of_two=True)
_ANYTHING: Final = line()
"""Numbers from 0 on, and lines of text."""


def _consistent(default: Any = (), limits: Mapping[str, Any] = _ANYTHING) -> Any:
    metadata = {"checked by": "contract", **limits}
    return field(metadata=metadata) if default is MISSING else field(default=default, metadata=metadata)


def _tried(probe: str, default: Any = MISSING, limits: Mapping[str, Any] = _ANYTHING) -> Any:
    """A field that is consistent with the others, and that a probe tries on the device."""
    metadata = {"checked by": f"contract, probe {probe}", **limits}
    return field(metadata=metadata) if default is MISSING else field(default=default, metadata=metadata)


def _declared(default: Any, limits: Mapping[str, Any] = _ANYTHING) -> Any:
    return field(default=default, metadata={"checked by": "declared only", **limits})


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who made the machine and what drives it, as text for people and reports. Empty text: not known."""

    vendor: str = _declared("")
    arch: str = _declared("")
    driver: str = _declared("")
    toolchain: str = _declared("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """A memory space that buffers may name. ``bytes`` is the capacity of one block (None: bounded by the machine's memory).

    ``role`` says what the space is for, whatever its name: "global" is visible to all blocks, "shared" to a block's engines, "register"
    belongs to lanes or vectors, "local" is the one memory beside an engine, "accumulator" takes the results of products only; "" stands
    for the role that the name has in the language. ``engines`` name those that reach it (none named: all). A space named ``*`` means
    that buffers of any name can live here.

    ``banks`` of ``bank_bytes`` serve lanes at the same time (0: none). ``partitions`` is the extent of the dimension that the space is
    divided by (0: it is not). ``quantum`` is the tile that storage comes in. ``dtypes`` are the element types it holds (none named: all).
    """

    name: str = _consistent(MISSING, _NAME)
    bytes: int | None = _tried("spaces", None, _AT_LEAST_ONE)
    alignment: int = _consistent(1, _ALIGNMENT)
    role: SpaceRole = _consistent("")
    engines: tuple[str, ...] = _consistent((), _NAME)
    banks: int = _declared(0)
    bank_bytes: int = _declared(0)
    partitions: int = _declared(0)
    quantum: tuple[int, ...] = _declared((), _AT_LEAST_ONE)
    dtypes: tuple[str, ...] = _consistent()


@dataclass(frozen=True, slots=True, kw_only=True)
class MatmulUnit:
    """A product that a target executes: a block of ``m`` x ``n`` x ``k`` elements, C of dtype ``c`` added to A of ``a`` times B of ``b``.

    ``m``, ``n``, ``k`` of 1 mean any size; else a product is cut into blocks of exactly that size ("fixed") or of multiples of it up to
    ``largest`` ("multiple"). ``is_native`` is False where instructions of another kind emulate it.

    Operands lie in one of ``a_spaces`` and ``b_spaces``, results in ``c_space`` (empty: anywhere). ``interleave`` is how many steps of k
    stand next to each other in b, ``vector_bytes`` the width of the vectors in which columns are taken (0: those of the register file).
    ``step_registers`` are the vector registers that a step of k needs beside sums and operands: one where the product and the sum are two
    instructions. With ``is_asynchronous`` a product goes on while its engine's role does something else.

    ``takes_scales``: operands with block scales of ``scale_block`` elements. ``takes_sparse``: two of four elements of a. ``issue_lanes``
    lanes issue it together (0: not said). ``accumulator_bits`` (0: those of c), ``rounding`` of the sums, ``keeps_subnormals`` and
    ``order`` (how the k terms of a block add up, in words) are what error bounds are made from.
    """

    a: str = _tried("products")
    b: str = _tried("products")
    c: str = _tried("products")
    m: int = _tried("products", 1, _AT_LEAST_ONE)
    n: int = _tried("products", 1, _AT_LEAST_ONE)
    k: int = _tried("products", 1, _AT_LEAST_ONE)
    is_native: bool = _tried("products", True)
    name: str = _declared("")
    engine: str = _consistent("")
    shape: Literal["fixed", "multiple"] = _consistent("fixed")
    largest: tuple[int, int, int] | None = _consistent(None, _AT_LEAST_ONE)
    a_spaces: tuple[str, ...] = _consistent((), _NAME)
    b_spaces: tuple[str, ...] = _consistent((), _NAME)
    c_space: str = _consistent("")
    interleave: int = _tried("products", 1, _AT_LEAST_ONE)
    vector_bytes: int = _consistent(0)
    step_registers: int = _declared(0)
    is_asynchronous: bool = _declared(False)
    takes_scales: bool = _declared(False)
    scale_block: int = _declared(0)
    takes_sparse: bool = _declared(False)
    issue_lanes: int = _declared(0)
    accumulator_bits: int = _declared(0)
    rounding: Rounding = _declared("")
    keeps_subnormals: bool = _declared(True)
    order: str = _declared("")


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What executes operations: ``count`` of a kind in one block. ``is_asynchronous``: it runs beside the instruction stream that starts
    it."""

    name: str = _consistent(MISSING, _NAME)
    kind: EngineKind = _consistent(MISSING)
    count: int = _consistent(1, _AT_LEAST_ONE)
    is_asynchronous: bool = _declared(False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPath:
    """A way from a space to a space. Addresses and pitches are multiples of ``alignment`` bytes, inner extents of ``granule`` bytes.

    ``source`` and ``destination`` name spaces, ``*`` any. ``fills_out_of_bounds``: parts of a region outside its tensor cost nothing, they
    arrive as zeros and are not written. ``casts``: it can convert elements on the way. ``transposes``: it can exchange the last two
    dimensions. ``ranks`` is the least and most rank of a region, ``largest_stride`` the widest pitch in bytes (None: no limit).
    ``spreads``: how many blocks of a cluster can have it in their memory by one copy, where they copy the same.
    """

    source: str = _tried("copies", limits=_NAME)
    destination: str = _tried("copies", limits=_NAME)
    mechanism: str = _tried("copies", limits=_NAME)
    engine: str = _consistent("")
    is_asynchronous: bool = _tried("copies", False)
    alignment: int = _consistent(1, _ALIGNMENT)
    granule: int = _consistent(1, _AT_LEAST_ONE)
    fills_out_of_bounds: bool = _tried("copies", False)
    casts: bool = _declared(True)
    transposes: bool = _declared(False)
    ranks: tuple[int, int] | None = _consistent(None)
    largest_stride: int | None = _declared(None, _AT_LEAST_ONE)
    spreads: int = _declared(1, _AT_LEAST_ONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Synchronisation:
    """A mechanism that orders work. "token" is waited for by the role that issued; "block" and "cluster" join roles;
    by "turn" the copies of a role pass on who may start products.

    ``count`` is how many a block has (None: no limit that matters). ``counts_bytes``: a copy that lands completes it by itself. ``modes``
    are the target's words for its variants.
    """

    mechanism: str = _consistent(MISSING, _NAME)
    scope: SynchronisationScope = _consistent(MISSING)
    count: int | None = _consistent(None, _AT_LEAST_ONE)
    counts_bytes: bool = _declared(False)
    modes: tuple[str, ...] = _declared((), _NAME)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterFile:
    """``vectors`` registers of ``vector_bytes`` an instruction stream; on a target with lanes ``per_lane`` 32-bit registers at most a
    lane, ``per_block`` for all lanes of a block together (0: not known, or roles cannot have budgets of their own), given out in multiples
    of ``step`` a lane."""

    vectors: int = _consistent(0)
    vector_bytes: int = _consistent(0)
    per_lane: int = _consistent(0)
    per_block: int = _consistent(0)
    step: int = _consistent(1, _AT_LEAST_ONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """A conversion between element types that the target has an instruction for. ``saturates``: values out of range become the largest."""

    source: str = _tried("conversions", "")
    destination: str = _tried("conversions", "")
    rounding: Rounding = _declared("nearest-even")
    saturates: bool = _declared(False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MathAccuracy:
    """The largest error of a mathematics function in units of the last place of ``dtype``: as a rule, and with ``fast_math``. With
    ``flushes_subnormals`` subnormal operands and results count as zeros. The probe holds results against these numbers.

    ``function`` is the name in the language (``T.exp``)."""

    function: str = _tried("mathematics", limits=_NAME)
    dtype: str = _tried("mathematics", "")
    strict_ulp: float = _tried("mathematics", 0.5)
    fast_ulp: float = _tried("mathematics", 0.5)
    flushes_subnormals: bool = _tried("mathematics", False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AtomicSupport:
    """Atomic operation ``op`` on elements of ``dtypes`` in ``spaces``. ``is_native`` is False where a loop of exchanges plays it."""

    op: str = _tried("atomics", limits=_NAME)
    dtypes: tuple[str, ...] = _tried("atomics", ())
    spaces: tuple[str, ...] = _consistent((), _NAME)
    is_native: bool = _declared(True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Limits of one launch: blocks in each dimension of the grid, bytes of arguments (words of 64 bits: one a tensor, a number, a symbolic
    size), bytes of a tensor. None: no limit that matters. A kernel that asks for more is refused (E448), a call too (E645)."""

    grid: tuple[int, ...] = _consistent((), _AT_LEAST_ONE)
    argument_bytes: int | None = _consistent(None, whole(8))
    tensor_bytes: int | None = _consistent(None, _AT_LEAST_ONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The most operations a second on elements of ``dtype``: of products with ``is_product`` (a multiplication and an addition are two),
    else of vectors. What autotuning leaves untried is estimated with them: they and ``bytes_per_second`` count where vectors of float32 and
    the memory are both stated."""

    dtype: str = _consistent("")
    operations_per_second: float = _consistent(0.0)
    is_product: bool = _declared(True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a target can do, answered without a device.

    ``lanes`` is the number of lanes that execute together (0: the target has no lanes and refuses lane statements),
    ``are_lanes_emulated`` says that a loop plays them. ``threads`` is how many blocks run at the same time (0: not known offline).
    ``vector_bytes`` is the width of the widest vector register (0: none). ``dtypes`` lists the names of element types held in storage,
    ``compute_dtypes`` those with arithmetic of their own; others are converted for arithmetic.

    Planning asks the rest: ``engines`` (none: one that does everything in order), ``copies`` between spaces, ``synchronisation``,
    ``registers``, whether parts of a block may run programs of their own (``can_specialise_roles``), ``block_lanes`` at most,
    ``cache_bytes`` a core from the innermost level outwards, ``is_persistent``: that blocks which stay and take tile after tile pay. A
    launch then has at most ``threads`` blocks where the end of a tile can be hidden behind the beginning of the next.

    Limits, probes, estimates, libraries and reports ask ``identity``, ``execution`` (how blocks run),
    ``conversions`` between element types, ``math`` accuracy, ``contracts`` (a product and a sum may round once), ``atomics``,
    ``memory_model`` in words, ``reductions`` and ``scans`` with instructions of their own, ``determinism`` (equal bits: never promised,
    from run to run on one device, on every device of the target), ``dynamic_shapes`` (sizes may be run-time values), ``bounds`` of a
    launch, ``peaks`` and ``bytes_per_second``.
    """

    target: str = _consistent(MISSING, _NAME)
    lanes: int = _tried("lanes", 0)
    are_lanes_emulated: bool = _declared(False)
    threads: int = _consistent(0)
    vector_bytes: int = _consistent(0)
    cache_line_bytes: int = _consistent(0)
    spaces: tuple[Space, ...] = _consistent()
    dtypes: tuple[str, ...] = _tried("element types", ())
    compute_dtypes: tuple[str, ...] = _tried("arithmetic", ())
    matmul: tuple[MatmulUnit, ...] = _tried("products", ())
    features: tuple[str, ...] = _declared((), _NAME)
    engines: tuple[Engine, ...] = _consistent()
    copies: tuple[CopyPath, ...] = _tried("copies", ())
    synchronisation: tuple[Synchronisation, ...] = _consistent()
    registers: RegisterFile | None = _consistent(None)
    can_specialise_roles: bool = _declared(False)
    block_lanes: int = _tried("lanes", 0)
    cache_bytes: tuple[int, ...] = _consistent()
    identity: Identity = field(default_factory=Identity, metadata={"checked by": "declared only", **_ANYTHING})
    execution: ExecutionModel = _declared("")
    is_persistent: bool = _declared(False)
    conversions: tuple[Conversion, ...] = _tried("conversions", ())
    math: tuple[MathAccuracy, ...] = _tried("mathematics", ())
    contracts: bool = _declared(False)
    atomics: tuple[AtomicSupport, ...] = _tried("atomics", ())
    memory_model: str = _declared("")
    reductions: tuple[str, ...] = _declared((), _NAME)
    scans: tuple[str, ...] = _declared((), _NAME)
    determinism: Determinism = _tried("repetition", "none")
    dynamic_shapes: bool = _tried("sizes", True)
    bounds: Bounds = field(default_factory=Bounds, metadata={"checked by": "contract", **_ANYTHING})
    peaks: tuple[Peak, ...] = _consistent()
    bytes_per_second: float = _consistent(0.0)

    def has_storage(self, dtype: DType | str) -> bool:
        """Whether elements of this type can be kept in buffers."""
        return str(dtype) in self.dtypes
