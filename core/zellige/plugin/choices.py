"""What the compiler asks a backend while it decides: which implementation an operation gets, and which passes run.

In: nothing (pure declarations). Out: :class:`Operation` with its answers :class:`Candidate` and :class:`Rejection` for the hook
``candidates``; the stages and the changes to them (:class:`Insert`, :class:`Replace`, :class:`Veto`) for the hook ``passes``.

The stages of a compilation, in order, and what a pass of each is a function of::

    legalise   tile IR -> tile IR            smaller and simpler programs; core's own pass here is "simplify"
    layout     tile IR -> tile IR            how tiles are stored: layout hints
    pipeline   tile IR -> tile IR            how loops overlap: kinds of loops, their stages and order; scheduling strategies run here
    allocate   plan -> plan                  core's own pass here is "plan", which makes the plan and stays
    sync       plan -> plan                  channels and waits
    lower      plan -> plan                  the last look before the backend lowers it
    post       emitted text -> emitted text  what the backend's emit answered, before it is compiled

A tile IR is verified after each pass, a plan checked; what is wrong then is said of the pass that made it (E713).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from zellige.plugin.capabilities import CopyPath, MatmulUnit, Synchronisation

if TYPE_CHECKING:
    from zellige.ir.stmt import Stmt

PassStage = Literal["legalise", "layout", "pipeline", "allocate", "sync", "lower", "post"]

PASS_STAGES: Final[tuple[PassStage, ...]] = ("legalise", "layout", "pipeline", "allocate", "sync", "lower", "post")
TILE_STAGES: Final[tuple[PassStage, ...]] = ("legalise", "layout", "pipeline")
"""The stages whose passes take tile IR."""
PLAN_STAGES: Final[tuple[PassStage, ...]] = ("allocate", "sync", "lower")
"""The stages whose passes take a plan."""

PLAN_PASS: Final = "plan"
"""The pass that makes the plan; it cannot be replaced or vetoed."""

OperationKind = Literal["gemm", "copy", "fill", "reduce", "scan", "transpose", "atomic", "map", "pipeline"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A tile operation that needs something to execute it; or, of the kind "pipeline", a copy that stands in a loop with stages and needs
    something that overlaps it with the work of the iterations before its own.

    ``shape`` is m, n, k of a gemm, else the extents of what is written (of a map: its points); None where not constant. ``dtypes`` are
    a, b, c and the accumulator of a gemm, else what is read, then what is written. ``spaces`` and ``layouts`` stand in the order of the
    operands (a, b, c; source, destination): the memory space each is in by the target's name for it (of a gemm, whose unit decides it, the
    one that its author wrote), and the kind of layout its author asked for ("" where none).
    ``features`` are words for what not every implementation has: "transpose_a", "transpose_b", "scaled", "sparse", "casts", "clears"; of a
    pipeline "packed" too: a product packs its operand straight from what the copy reads. ``statement`` is the operation itself.
    Of a pipeline ``stages`` are those that the loop asks for, and ``offered`` is what the capabilities offer, for the backend to add to,
    to order otherwise, or to replace.
    """

    kind: OperationKind
    shape: tuple[int | None, ...]
    dtypes: tuple[str, ...]
    spaces: tuple[str, ...]
    layouts: tuple[str, ...]
    features: tuple[str, ...]
    statement: Stmt
    stages: int = 0
    offered: tuple[Answer, ...] = ()

    @property
    def text(self) -> str:
        """``gemm 64x64x32 of float16, float16 to float32``."""
        shape = "x".join("?" if extent is None else str(extent) for extent in self.shape)
        if self.kind == "gemm":
            return f"gemm {shape} of {self.dtypes[0]}, {self.dtypes[1]} to {self.dtypes[2]}"
        types = f" of {', '.join(dict.fromkeys(self.dtypes))}" if self.dtypes else ""
        text = f"{self.kind} {shape}{types}".replace("  ", " ")
        return f"{text} in {self.stages} stages" if self.kind == "pipeline" else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An implementation that fits an operation. The best has, in this order: no emulation, the highest ``priority``, the least ``cost``.

    For a gemm it has the ``unit`` that executes it (None: a loop of the vector engine), for a copy the ``path``, for a pipeline the
    ``synchronisation`` that waits for the copy, which its path issues ahead (None: the copy is made in its turn, and ``mechanism`` asks for
    its elements before, where it is not empty); for others ``engine`` and ``mechanism`` say what runs. ``because`` is the reason that
    reports give, ``is_native`` is False where other instructions emulate it, and ``avoided_by`` then says what would need no emulation.
    ``cost`` is an estimate in any unit that the candidates share.
    """

    name: str
    because: str
    priority: int = 0
    cost: float = 0.0
    is_native: bool = True
    avoided_by: str = ""
    unit: MatmulUnit | None = None
    path: CopyPath | None = None
    engine: str = ""
    mechanism: str = ""
    synchronisation: Synchronisation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """An implementation that does not fit, and why."""

    name: str
    reason: str


Answer = Candidate | Rejection
Ask = Callable[[Operation], "tuple[Answer, ...] | None"]
"""Asks a backend for what fits an operation; None where it leaves the choice to its capabilities."""


class StagePass(Protocol):
    """A pass of any stage: a function with a name, usually a frozen dataclass whose fields are its options."""

    @property
    def name(self) -> str:
        """What the pass is called in dumps and messages: lower case, words joined by hyphens."""

    def __call__(self, value: Any, /) -> Any:
        """What comes after the pass; the same object where nothing changed."""


def changes_parameters(step: object) -> bool:
    """Whether a strategy says by its attribute ``changes_parameters = True`` that the kernel which it makes has other parameters, such as a
    workspace. It then works on a kernel as it was written, before anybody reads its parameters, and is given as ``jit(schedule=...)``: a
    pass of a stage, when calls are laid out already, cannot do that."""
    return getattr(step, "changes_parameters", False) is True


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    """Adds a pass to its stage: at the end, or before and after passes of that stage named here."""

    step: StagePass
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """Puts a pass in the place of another of that stage."""

    name: str
    step: StagePass


@dataclass(frozen=True, slots=True, kw_only=True)
class Veto:
    """Leaves a pass of that stage out; ``reason`` is shown by reports."""

    name: str
    reason: str


PassChange = Insert | Replace | Veto
