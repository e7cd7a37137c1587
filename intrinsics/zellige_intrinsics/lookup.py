"""Which instructions serve a request, and why the others do not.

In: a :class:`Request` (kind, element types, extents, spaces, what the device can do). Out: :class:`Candidates`: those that fit, best first,
and a reason for each that does not. Families are modules; one is loaded when it is first asked for.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Final

from zellige.diagnostics import catalogue
from zellige.dtypes import dtype
from zellige.records import dataclass
from zellige_intrinsics.homes import families, own_family
from zellige_intrinsics.specification import Copy, Function, Intrinsic, Product, Synchronisation
from zellige_intrinsics.tables import added, removed

KINDS: Final[Mapping[str, type[Intrinsic]]] = {"product": Product, "copy": Copy, "synchronisation": Synchronisation, "function": Function}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is looked for. What is left empty is not asked.

    ``types`` and ``spaces`` are by operand name (a, b, c, d; source, destination; x, result). ``extents`` are those of the whole operation:
    an instruction's must divide them. ``capabilities`` are the words that the device has; None asks for nothing.
    """

    kind: str
    types: Mapping[str, str] = field(default_factory=dict)
    spaces: Mapping[str, str] = field(default_factory=dict)
    extents: Mapping[str, int] = field(default_factory=dict)
    capabilities: frozenset[str] | None = None
    name: str = ""
    is_asynchronous: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """``fitting`` best first: the most multiplications or bytes an instruction; ``rejected`` with the first reason found."""

    fitting: tuple[Intrinsic, ...]
    rejected: tuple[tuple[Intrinsic, str], ...]

    def table(self) -> str:
        """Candidate and reason, a line each."""
        lines = [(value.name, "fits") for value in self.fitting] + [(value.name, reason) for value, reason in self.rejected]
        width = max((len(name) for name, _ in lines), default=0)
        return "\n".join(f"{name:<{width}}  {reason}" for name, reason in lines)


def family(name: str) -> tuple[Intrinsic, ...]:
    """All instructions of a device family as its table is now (:mod:`zellige_intrinsics.tables`). E330 for an unknown one."""
    own, out = own_family(name), removed(name)
    return (*(value for value in own if value.name not in out), *added(name)) if out or added(name) else own


def all_intrinsics() -> Iterator[Intrinsic]:
    """Every instruction of every family, those of other packages last (:mod:`zellige_intrinsics.homes`)."""
    for name in families():
        yield from family(name)


def intrinsic(name: str, *, among: Iterable[Intrinsic] | None = None) -> Intrinsic:
    """The instruction of that name. E330, with similar names, where there is none."""
    known = {value.name: value for value in (all_intrinsics() if among is None else among)}
    if name not in known:
        similar = ", ".join(difflib.get_close_matches(name, known, 5, 0.4))
        raise catalogue.E330.error(kind="intrinsic", name=name, known=similar or "no similar one")
    return known[name]


def find(request: Request, *, among: Iterable[Intrinsic]) -> Candidates:
    """Candidates for a request. E330 for an unknown kind."""
    if request.kind not in KINDS:
        raise catalogue.E330.error(kind="kind of intrinsics", name=request.kind, known=", ".join(KINDS))
    fitting, rejected = [], []
    for value in among:
        if not isinstance(value, KINDS[request.kind]):
            continue
        reason = rejection(value, request)
        if reason is None:
            fitting.append(value)
        else:
            rejected.append((value, reason))
    return Candidates(fitting=tuple(sorted(fitting, key=_worth, reverse=True)), rejected=tuple(rejected))


def rejection(value: Intrinsic, request: Request) -> str | None:
    """Why an instruction does not serve a request; None where it does."""
    if request.name and isinstance(value, (Function, Synchronisation)):
        own = value.function if isinstance(value, Function) else value.mechanism
        if own != request.name:
            return f"it is {own}, not {request.name}"
    if request.capabilities is not None:
        missing = [word for word in value.requires if word not in request.capabilities]
        if missing:
            return f"the device lacks {', '.join(missing)}"
    if request.is_asynchronous is not None and value.is_asynchronous != request.is_asynchronous:
        return "it is asynchronous" if value.is_asynchronous else "it is not asynchronous"
    return _wrong_types(value, request) or _wrong_spaces(value, request) or _wrong_extents(value, request)


def variant(value: Intrinsic, types: Mapping[str, str]) -> int | None:
    """The number of the combination of element types that has these; None where there is none."""
    operands = {operand.name: operand.types for operand in value.operands}
    for number in range(value.variants):
        own = {name: choices[number if len(choices) > 1 else 0] for name, choices in operands.items()}
        if all(name in own and own[name] == str(dtype(wanted)) for name, wanted in types.items()):
            return number
    return None


def _wrong_types(value: Intrinsic, request: Request) -> str | None:
    if variant(value, request.types) is not None:
        return None
    operands = {operand.name: operand.types for operand in value.operands}
    for name, wanted in request.types.items():
        if name not in operands:
            return f"it has no operand {name}"
        if str(dtype(wanted)) not in operands[name]:
            return f"{name} is {' or '.join(dict.fromkeys(operands[name]))}, not {dtype(wanted)}"
    return "it does not combine these element types"


def _wrong_spaces(value: Intrinsic, request: Request) -> str | None:
    operands = {operand.name: operand.space for operand in value.operands}
    for name, wanted in request.spaces.items():
        if operands.get(name) != wanted:
            return f"{name} lies in {operands.get(name, 'no space')}, not in {wanted}"
    return None


def _wrong_extents(value: Intrinsic, request: Request) -> str | None:
    own: dict[str, int] = {}
    for operand in value.operands:
        own.update(operand.sizes)
    if isinstance(value, Product):
        own.update(m=value.m, n=value.n, k=value.k)
    for name, extent in request.extents.items():
        if name not in own:
            return f"it has no extent {name}"
        if extent % own[name]:
            return f"{name} of {extent} is no multiple of {own[name]}"
    return None


def _worth(value: Intrinsic) -> int:
    if isinstance(value, Product):
        return value.multiplications
    return value.bytes_each * value.lanes if isinstance(value, Copy) else 0
