"""Capabilities as JSON: their schema, their text form, and the check that every answer of ``describe`` goes through.

In: :class:`~zellige.plugin.capabilities.Capabilities`. Out: the JSON Schema made from the dataclasses (:func:`capabilities_schema`), a
value as JSON and back (:func:`to_json`, :func:`from_json`, which ignores fields it does not know), and what is wrong with a value
(:func:`problems`): a field of a wrong type or beyond its limits, which the schema states, or two that contradict each other.
"""

from __future__ import annotations

import dataclasses
import types
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Literal, Union, get_args, get_origin

from zellige.diagnostics.suggest import closest
from zellige.dtypes import UnknownDType, dtype
from zellige.plugin.capabilities import SCHEMA_VERSION, Capabilities
from zellige.plugin.fields import hints_of, limit_problems, shortened, too_many, type_problems
from zellige.plugin.limits import keywords

_JSON_TYPES: Final[dict[type, str]] = {str: "string", int: "integer", float: "number", bool: "boolean"}
_ANY: Final = "*"


def capabilities_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of capabilities. ``x-checked-by`` names what checks a field."""
    definitions: dict[str, Any] = {}
    root = _schema_of(Capabilities, definitions, {})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Capabilities of a target",
        "version": ".".join(map(str, SCHEMA_VERSION)),
        **root,
        "$defs": definitions,
    }


def _schema_of(kind: Any, definitions: dict[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of one type; ``metadata`` is that of the field which holds it."""
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type)
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}  # a place for itself while its fields are looked at
            definitions[kind.__name__] = _object_schema(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    origin = get_origin(kind)
    if origin is Literal:
        return {"enum": list(get_args(kind))}
    if origin in (Union, types.UnionType):
        return {"anyOf": [{"type": "null"} if part is type(None) else _schema_of(part, definitions, metadata) for part in get_args(kind)]}
    if origin is tuple:
        parts = get_args(kind)
        if len(parts) == 2 and parts[1] is Ellipsis:
            return {"type": "array", "items": _schema_of(parts[0], definitions, metadata), **keywords(metadata, tuple)}
        items = [_schema_of(part, definitions, metadata) for part in parts]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
    return {"type": _JSON_TYPES[kind], **keywords(metadata, kind)}


def _object_schema(kind: type, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = hints_of(kind)
    properties: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        entry = _schema_of(hints[field.name], definitions, field.metadata)
        if field.default is not dataclasses.MISSING:
            entry["default"] = _plain(field.default)
        properties[field.name] = {**entry, "x-checked-by": field.metadata["checked by"]}
    required = [f.name for f in dataclasses.fields(kind) if _is_required(f)]
    description = " ".join((kind.__doc__ or "").split("\n\n")[0].split())
    return {"type": "object", "description": description, "properties": properties, "required": required}


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def to_json(capabilities: Capabilities) -> dict[str, Any]:
    """A value that :mod:`json` can write; it names the version of its schema."""
    plain = _plain(capabilities)
    assert isinstance(plain, dict)
    return {"schema": ".".join(map(str, SCHEMA_VERSION)), **plain}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def from_json(data: Mapping[str, Any]) -> Capabilities:
    """The capabilities that :func:`to_json` wrote, also by a later minor. Raises ValueError for another major or what fits no field."""
    version = str(data.get("schema", "1.0"))
    if version.partition(".")[0] != str(SCHEMA_VERSION[0]):
        raise ValueError(f"the schema's version is {version}, this zellige reads {SCHEMA_VERSION[0]}.x")
    made = _read(Capabilities, data, "capabilities")
    assert isinstance(made, Capabilities)
    return made


def _read(kind: Any, data: Any, where: str) -> Any:
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type)
        if not isinstance(data, Mapping):
            raise ValueError(f"{where} is {data!r}, expected an object")
        hints = hints_of(kind)
        known = {f.name: _read(hints[f.name], data[f.name], f"{where}.{f.name}") for f in dataclasses.fields(kind) if f.name in data}
        missing = [f.name for f in dataclasses.fields(kind) if _is_required(f) and f.name not in data]
        if missing:
            raise ValueError(f"{where} lacks {', '.join(missing)}")
        return kind(**known)
    origin = get_origin(kind)
    if origin is tuple and isinstance(data, (list, tuple)):
        parts = get_args(kind)
        kinds = [parts[0]] * len(data) if len(parts) == 2 and parts[1] is Ellipsis else parts
        if len(kinds) != len(data):
            raise ValueError(f"{where} has {len(data)} items, expected {len(kinds)}")
        return tuple(_read(one, item, f"{where}[{at}]") for at, (one, item) in enumerate(zip(kinds, data)))
    if origin in (Union, types.UnionType):
        if data is None:
            return None
        return _read(next(part for part in get_args(kind) if part is not type(None)), data, where)
    found = next(type_problems(kind, data, where), None)
    if found is not None:
        raise ValueError(found)
    return data


# ---- what is wrong with an answer


def problems(capabilities: Capabilities, target: str) -> tuple[str, ...]:
    """What is wrong with what a backend answered for ``target``; empty where nothing is."""
    for looked in (_too_many(capabilities), type_problems(Capabilities, capabilities, "capabilities"), limit_problems(capabilities, "")):
        wrong = tuple(looked)
        if wrong:
            return wrong
    return tuple(problem for rule in _RULES for problem in rule(capabilities, target))


problems_of_ours: Final = lru_cache(maxsize=128)(problems)
"""The same, kept: one of zellige's own backends answers the same for a target in each compilation. Equal answers of a stranger's need not
be of the same types, nor have a hash."""


def _too_many(capabilities: Capabilities) -> Iterator[str]:
    """Parts so many that looking at each would take long."""
    for field in dataclasses.fields(Capabilities):
        yield from too_many(getattr(capabilities, field.name, None), field.name, field.metadata)


def _rule_target(c: Capabilities, target: str) -> Iterator[str]:
    """Another target than the one that was asked about."""
    if c.target != target:
        yield f"target is {c.target!r}, asked for was {target!r}"


def _rule_dtypes(c: Capabilities, _: str) -> Iterator[str]:
    """Names of element types that nobody knows, and types to compute in that nothing holds."""
    named = {
        "dtypes": c.dtypes, "compute_dtypes": c.compute_dtypes,
        **{f"matmul[{i}]": (u.a, u.b, u.c) for i, u in enumerate(c.matmul)},
        **{f"spaces[{i}].dtypes": s.dtypes for i, s in enumerate(c.spaces)},
        **{f"conversions[{i}]": (v.source, v.destination) for i, v in enumerate(c.conversions)},
        **{f"atomics[{i}].dtypes": a.dtypes for i, a in enumerate(c.atomics)},
        **{f"peaks[{i}]": (p.dtype,) for i, p in enumerate(c.peaks)},
        **{f"math[{i}]": (m.dtype,) for i, m in enumerate(c.math)},
    }  # fmt: skip
    for where, names in named.items():
        for name in names:
            if not _is_dtype(name):
                yield f"{where} names {name!r}, which is no element type"
    for name in c.compute_dtypes:
        if c.dtypes and name not in c.dtypes:
            yield f"compute_dtypes names {name!r}, which dtypes does not"


def _is_dtype(name: str) -> bool:
    try:
        return dtype(name).name == name
    except UnknownDType:
        return False


def _rule_engines(c: Capabilities, _: str) -> Iterator[str]:
    """Names of engines that the target does not list."""
    known = {e.name for e in c.engines}
    named = [
        *((f"matmul[{i}].engine", (u.engine,) if u.engine else ()) for i, u in enumerate(c.matmul)),
        *((f"copies[{i}].engine", (p.engine,) if p.engine else ()) for i, p in enumerate(c.copies)),
        *((f"spaces[{i}].engines", s.engines) for i, s in enumerate(c.spaces)),
    ]
    for where, names in named:
        for name in names:
            if name not in known:
                yield f"{where} names {name!r}, which is no engine of the target ({', '.join(sorted(known)) or 'it lists none'})"


def _rule_spaces(c: Capabilities, _: str) -> Iterator[str]:
    """Names of memory spaces that the target does not list."""
    known = {s.name for s in c.spaces}
    named = [
        *((f"copies[{i}]", (p.source, p.destination)) for i, p in enumerate(c.copies)),
        *((f"matmul[{i}]", (*u.a_spaces, *u.b_spaces, *((u.c_space,) if u.c_space else ()))) for i, u in enumerate(c.matmul)),
        *((f"atomics[{i}]", a.spaces) for i, a in enumerate(c.atomics)),
    ]
    for where, names in named:
        for name in names:
            if name != _ANY and name not in known and _ANY not in known:
                yield f"{where} names {name!r}, which is no memory space of the target ({', '.join(sorted(known)) or 'it lists none'})"


def _rule_numbers(c: Capabilities, _: str) -> Iterator[str]:
    """Numbers that contradict each other."""
    if c.block_lanes and c.lanes > c.block_lanes:
        yield f"lanes is {c.lanes}, more than the {c.block_lanes} of block_lanes"
    for i, path in enumerate(c.copies):
        if path.ranks is not None and path.ranks[0] > path.ranks[1]:
            yield f"copies[{i}].ranks is {path.ranks}, the least above the most"
    for i, unit in enumerate(c.matmul):
        if unit.largest is not None and any(most % one for most, one in zip(unit.largest, (unit.m, unit.n, unit.k))):
            yield f"matmul[{i}].largest is {unit.largest}, not multiples of {unit.m}x{unit.n}x{unit.k}"
        elif c.vector_bytes and unit.vector_bytes > c.vector_bytes:
            yield f"matmul[{i}].vector_bytes is {unit.vector_bytes}, the target's vectors are of {c.vector_bytes}"


def _rule_repeated(c: Capabilities, _: str) -> Iterator[str]:
    """Names that two entries of a field have, of which one would never be found, and units without one."""
    yield from _duplicates("engines", [e.name for e in c.engines])
    yield from _duplicates("spaces", [s.name for s in c.spaces])
    yield from _duplicates("math", [f"{m.function} of {m.dtype}" for m in c.math])
    named: dict[str, list[str]] = {}
    for i, unit in enumerate(c.matmul):
        if not unit.name:
            yield f"matmul[{i}] has no name: a plan says by the name which unit it means"
        named.setdefault(unit.name, []).append(f"matmul[{i}]")
    for name, places in named.items():
        if name and len(places) > 1:
            yield f"{' and '.join(places)} are both named {name}: a plan says by the name which unit it means"


def _rule_words(c: Capabilities, _: str) -> Iterator[str]:
    """Operations that the language does not have: nobody could ever ask for them."""
    if not c.math and not c.atomics:
        return
    from zellige.ir.functions import FUNCTIONS  # most targets state neither
    from zellige.ir.stmt import AtomicOp

    named = [
        *((f"math[{i}].function", m.function, "function", tuple(FUNCTIONS)) for i, m in enumerate(c.math)),
        *((f"atomics[{i}].op", a.op, "atomic operation", get_args(AtomicOp)) for i, a in enumerate(c.atomics)),
    ]
    for where, name, kind, known in named:
        if name not in known:
            yield f"{where} is {shortened(name)}, which is no {kind} of the language{closest(name, known)}"


def _duplicates(where: str, names: list[str]) -> Iterator[str]:
    for name in sorted(name for name, count in Counter(names).items() if count > 1):
        yield f"{where} has two of the name {name!r}"


_RULES: Final[tuple[Callable[[Capabilities, str], Iterator[str]], ...]] = (
    _rule_target, _rule_dtypes, _rule_engines, _rule_spaces, _rule_numbers, _rule_repeated, _rule_words,
)  # fmt: skip
