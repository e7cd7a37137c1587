"""The form in which an instruction is described: what it computes, on what, where operands lie, when it is done, and who says so.

In: facts from instruction manuals. Out: frozen values that a planner chooses from, a code generator spells and a simulator executes. A
specification that contradicts itself is refused (E331) when it is made, so a wrong table never reaches a compiler.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from string import Formatter
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy.typing as npt

from zellige.diagnostics import catalogue
from zellige.diagnostics.error import ZelligeError
from zellige.diagnostics.suggest import closest
from zellige.dtypes import DType, UnknownDType, dtype
from zellige.layouts import Layout, free_digits, right_inverse
from zellige.plugin.fields import is_line
from zellige.records import dataclass

Array: TypeAlias = npt.NDArray[Any]
Meaning: TypeAlias = Callable[[Mapping[str, Array]], Mapping[str, Array]]
"""From whole operands by name (arrays of an operand's dimensions, in their order) to whole results."""

Scope = Literal["thread", "lane", "warp", "warpgroup", "block", "unit"]
"""Who issues it together: one thread of a CPU, one lane, the lanes of a warp or of four, a block, or a unit of its own engine."""

_SCOPES: Final = get_args(Scope)

Holder = Literal["register", "pointer", "memory", "immediate"]

_HOLDERS: Final = get_args(Holder)

ELEMENT: Final = "element"
"""The input of a pointer's layout that counts the elements that follow the address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a fact is from: a manual and its section. ``evidence`` is how it was checked besides."""

    manual: str
    section: str
    evidence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """One operand: element types that it may have (the n-th goes with the n-th of the others), its space, and where its elements lie.

    ``holder`` says what ``layout`` is: "register": from (register, lane, ...) to the operand's indices, a register holding one element;
    "pointer": from (element, lane) to indices, each lane giving the address of elements that follow each other; "memory": from indices to
    an offset in elements (and a partition, where memory has them) behind one address or descriptor; "immediate": a number, no layout.
    ``alignment`` is of addresses, in bytes.
    """

    name: str
    types: tuple[str, ...]
    space: str
    holder: Holder = "register"
    layout: Layout | None = None
    alignment: int = 1
    is_result: bool = False

    def __post_init__(self) -> None:
        _check_types(self)
        try:
            object.__setattr__(self, "types", tuple(str(dtype(name)) for name in self.types))
        except UnknownDType as error:
            raise catalogue.E331.error(name=self.name, reason=str(error)) from error
        if not self.types:
            raise catalogue.E331.error(name=self.name, reason="it names no element type")
        if (self.layout is None) != (self.holder == "immediate"):
            raise catalogue.E331.error(name=self.name, reason="an operand has a layout, an immediate number has none")

    @property
    def sizes(self) -> dict[str, int]:
        """Names and extents of the operand's indices."""
        if self.layout is None:
            return {}
        return self.layout.input_sizes if self.holder == "memory" else self.layout.output_sizes

    def element(self, variant: int = 0) -> DType:
        return dtype(self.types[variant])


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """When the results of an asynchronous instruction are there: after ``waits`` (names of synchronisation intrinsics).

    ``order`` says whether several in flight end in the order of issue ("in order") or not ("any"). ``visibility`` names what else makes
    them visible, such as a fence between ways to memory; empty where waiting is enough.
    """

    waits: tuple[str, ...]
    order: Literal["in order", "any"]
    visibility: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intrinsic:
    """What all instructions have. ``spelling`` is what a generator prints, one line; a name in braces is an operand, one of :data:`FIELDS`
    or of ``fields``, and the generator fills it. It is empty where a program never names the instruction, and ``notes`` say so then.
    ``requires`` are the capability words of the device, all of which are needed."""

    name: str
    spelling: str
    scope: Scope
    operands: tuple[Operand, ...]
    meaning: Meaning | None
    sources: tuple[Source, ...]
    requires: tuple[str, ...] = ()
    lanes: int = 1
    completion: Completion | None = None
    notes: str = ""
    fields: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_common(self)
        _check_spelling(self)

    @property
    def is_asynchronous(self) -> bool:
        return self.completion is not None

    @property
    def variants(self) -> int:
        """How many combinations of element types there are."""
        return max((len(operand.types) for operand in self.operands), default=1)

    def operand(self, name: str) -> Operand:
        """The operand of that name. E330 where there is none."""
        for operand in self.operands:
            if operand.name == name:
                return operand
        raise catalogue.E330.error(kind="operand", name=f"{self.name}.{name}", known=", ".join(operand.name for operand in self.operands))


@dataclass(frozen=True, slots=True, kw_only=True)
class Product(Intrinsic):
    """d = c + a b. Operands a (m, k), b (k, n), c and d (m, n); a, b and c may lack a dimension along which they are constant.

    ``accumulator_bits`` are those of a significand that sums keep (0: those of d's type), ``order`` how products of one instruction are
    added, ``keeps_subnormals`` whether small operands count. ``adds``: the sum with c is an instruction of its own after this one.
    """

    m: int
    n: int
    k: int
    accumulator_bits: int = 0
    order: Literal["one by one", "pairwise", "unspecified", "exact"] = "unspecified"
    keeps_subnormals: bool = True
    adds: bool = False

    def __post_init__(self) -> None:
        _check_common(self)
        wanted = {"a": ("m", "k"), "b": ("k", "n"), "c": ("m", "n"), "d": ("m", "n")}
        missing = [name for name in wanted if name not in {operand.name for operand in self.operands}]
        if missing:
            raise catalogue.E331.error(name=self.name, reason=f"a product has no operand {', '.join(missing)}")
        extents = {"m": self.m, "n": self.n, "k": self.k}
        for operand in self.operands:
            for name, size in operand.sizes.items():
                if operand.name in wanted and (name not in wanted[operand.name] or extents[name] != size):
                    reason = f"{operand.name} has {size} along {name}, the instruction {self.m} x {self.n} x {self.k}"
                    raise catalogue.E331.error(name=self.name, reason=reason)
        _check_spelling(self)

    @property
    def multiplications(self) -> int:
        return self.m * self.n * self.k


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy(Intrinsic):
    """Elements from ``source`` to ``destination``; both have the same indices, so the two layouts are the meaning.

    ``bytes_each`` is what one issuer moves, ``fills_out_of_bounds`` whether parts outside of a tensor arrive as zeros.
    """

    bytes_each: int
    fills_out_of_bounds: bool = False

    def __post_init__(self) -> None:
        _check_common(self)
        source, destination = self.operand("source"), self.operand("destination")
        if source.sizes != destination.sizes:
            raise catalogue.E331.error(name=self.name, reason=f"the source has {source.sizes}, the destination {destination.sizes}")
        _check_spelling(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Synchronisation(Intrinsic):
    """Waiting and signalling. ``mechanism`` is the neutral word of planning; ``model`` makes the machine that its operations drive
    (:mod:`zellige_intrinsics.waiting`), a simulator's meaning of it."""

    mechanism: Literal["transaction barrier", "in-order groups", "wait counter", "flag pair", "barrier", "fence"]
    model: Callable[[], Any] | None = None
    counts_bytes: bool = False
    limit: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Function(Intrinsic):
    """A function of elements. ``error`` bounds the result, in units of the last place ("ulp") or relative."""

    function: str
    error: float
    error_unit: Literal["ulp", "relative", "exact"]
    keeps_subnormals: bool = True


FIELDS: Final[Mapping[str, str]] = {
    "variant": "the words of a combination of element types",
    "accumulates": "whether the old sums count",
    "transpose_a": "whether the first operand lies transposed",
    "transpose_b": "whether the second operand lies transposed",
    "offset": "bytes beyond an address",
    "valid": "bytes that are read; zeros follow them",
    "parameters": "the shape of what is moved",
    "barrier": "the address of a barrier",
    "number": "the number of a barrier or flag",
    "event": "which engine waits for which",
    "arrivals": "how many arrive at a barrier",
    "threads": "how many meet at a barrier",
    "bytes": "how many bytes are waited for",
    "count": "how many may still be in flight",
    "parity": "the phase that is waited for",
    "done": "the result of a test",
    "read": "whether only the reading is waited for",
}
"""Names in the braces of a spelling that stand for no operand, and what a generator puts there."""

_TEXT: Final = ("name", "space", "spelling", "notes")
_COUNTS: Final = ("m", "n", "k", "lanes", "alignment", "bytes_each", "accumulator_bits", "limit")
_TUPLES: Final = ("types", "operands", "sources", "requires", "fields")
_FUNCTIONS: Final = ("meaning", "model")


def _check_types(value: Operand | Intrinsic) -> None:
    """Fields hold what they are declared for: a table may be read from anywhere, and what is odd would be met far away. Written out, since
    a hundred entries are made before the first product is compiled."""
    for names, kind in ((_TEXT, str), (_COUNTS, int), (_TUPLES, tuple)):
        for name in names:
            held = getattr(value, name, None)
            if held is not None and (not isinstance(held, kind) or held is True or held is False):
                raise _odd(value, f"{name} is {held!r}, expected {kind.__name__}")
    parts: tuple[tuple[str, type], ...] = (("types", str), ("requires", str), ("operands", Operand), ("sources", Source))
    for name, part in parts:
        strange = [one for one in getattr(value, name, ()) if not isinstance(one, part) or one == ""]
        if strange:
            raise _odd(value, f"{name} holds {strange[0]!r}, expected {'words' if part is str else part.__name__}")
    for name in _FUNCTIONS:
        if getattr(value, name, None) is not None and not callable(getattr(value, name)):
            raise _odd(value, f"{name} is {getattr(value, name)!r}, expected a function")
    if not value.name:
        raise _odd(value, "it has no name")
    if not is_line(value.name):
        raise _odd(value, "its name is no line of text")
    if isinstance(value, Operand):
        if value.holder not in _HOLDERS:
            raise _odd(value, f"holder is {value.holder!r}, expected one of {', '.join(_HOLDERS)}")
        if value.layout is not None and not isinstance(value.layout, Layout):
            raise _odd(value, f"layout is {value.layout!r}, expected Layout")
    elif value.scope not in _SCOPES:
        raise _odd(value, f"scope is {value.scope!r}, expected one of {', '.join(_SCOPES)}")
    elif value.completion is not None and not isinstance(value.completion, Completion):
        raise _odd(value, f"completion is {value.completion!r}, expected Completion")
    elif value.meaning is None and isinstance(value, (Product, Copy, Function)):
        raise _odd(value, f"it has no meaning: nobody could say what a {type(value).__name__.lower()} without one computes")


def _odd(value: Operand | Intrinsic, reason: str) -> Exception:
    return catalogue.E331.error(name=str(value.name) or "an instruction", reason=reason)


def _check_common(value: Intrinsic) -> None:
    """Layouts fit lanes, every element has a place, places of results are not shared, types go together, facts have a source."""
    _check_types(value)
    if not value.sources:
        raise catalogue.E331.error(name=value.name, reason="it names no source")
    names = [operand.name for operand in value.operands]
    if len(set(names)) != len(names):
        raise catalogue.E331.error(name=value.name, reason="two operands have one name")
    if len({len(operand.types) for operand in value.operands if len(operand.types) != 1}) > 1:
        raise catalogue.E331.error(name=value.name, reason="operands have different numbers of element types")
    for operand in value.operands:
        if operand.layout is not None:
            _check_layout(value, operand, operand.layout)


def _check_spelling(value: Intrinsic) -> None:
    """A spelling is a line whose braces hold names that a generator knows."""
    text = value.spelling
    operands = [operand.name for operand in value.operands]
    if not text:
        if not value.notes:
            raise _odd(value, "it has no spelling, and no notes that say why a program never names it")
        return
    if not is_line(text) or text != text.strip():
        raise _odd(value, f"spelling is {text!r}, expected a line without spaces around it")
    try:
        found = [part[1:] for part in Formatter().parse(text) if part[1] is not None]
    except ValueError as error:
        raise _odd(value, f"spelling is {text!r}: {error}; braces that are printed are written twice") from error
    for name, shape, conversion in found:
        if name is None or not name.isidentifier() or shape or conversion:
            whole = f"{name or ''}{f'!{conversion}' if conversion else ''}{f':{shape}' if shape else ''}"
            raise _odd(value, f"spelling holds {{{whole}}}, expected a name in braces; braces that are printed are written twice")
        known = (*operands, *value.fields, *FIELDS)
        if name not in known:
            reason = f"spelling holds {{{name}}}, which is no operand ({', '.join(operands) or 'it has none'}) and none of its fields"
            raise _odd(value, reason + closest(name, known, "{{{}}}"))


def _check_layout(value: Intrinsic, operand: Operand, layout: Layout) -> None:
    if operand.holder == "memory":
        if free_digits(layout):
            raise catalogue.E331.error(name=value.name, reason=f"two elements of {operand.name} share a place in memory")
        return
    lanes = math.prod(size for name, size in layout.input_sizes.items() if name not in ("register", ELEMENT))
    if lanes != value.lanes:
        raise catalogue.E331.error(name=value.name, reason=f"{operand.name} is held by {lanes} lanes, the instruction has {value.lanes}")
    reason = _not_onto(layout)
    if reason is not None:
        raise catalogue.E331.error(name=value.name, reason=f"not every element of {operand.name} is held equally often: {reason}")


@cache
def _not_onto(layout: Layout) -> str | None:
    """Why a layout does not hold each element, equally often; None where it does."""
    try:
        right_inverse(layout)
    except ZelligeError as error:
        return error.diagnostics[0].message
    return None
