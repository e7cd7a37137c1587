"""The JSON Schema of capabilities is the dataclasses', every field says what checks it, and values go to JSON and back."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest

from zellige.claims import PROBES
from zellige.options import options
from zellige.plan.capabilities import Machine
from zellige.plugin import capabilities as module
from zellige.plugin.capabilities import (
    AtomicSupport,
    Capabilities,
    CopyPath,
    Engine,
    MathAccuracy,
    MatmulUnit,
    RegisterFile,
    Space,
    Synchronisation,
)
from zellige.plugin.fields import hints_of
from zellige.plugin.registry import registry
from zellige.plugin.schema import capabilities_schema, from_json, problems, to_json

FILE = Path(__file__).parents[2] / "docs" / "capabilities.schema.json"
CHECKS = {"contract", "declared only", *(f"contract, probe {name}" for name in PROBES)}
ANYWHERE = CopyPath(source="*", destination="*", mechanism="m")
PARTS = [kind for kind in vars(module).values() if isinstance(kind, type) and dataclasses.is_dataclass(kind)]


def described(name: str) -> Capabilities:
    target = registry().resolve(name)
    return registry().backend(target).describe(target)


def test_the_written_schema_is_the_one_of_the_dataclasses() -> None:
    assert json.loads(FILE.read_text()) == capabilities_schema(), "write it again: python tools/capabilities_schema.py"


@pytest.mark.parametrize("kind", PARTS, ids=lambda kind: kind.__name__)
def test_every_field_says_what_checks_it(kind: Any) -> None:
    assert {f.name: f.metadata.get("checked by") for f in dataclasses.fields(kind) if f.metadata.get("checked by") not in CHECKS} == {}


def test_every_probe_checks_a_field() -> None:
    named = {f.metadata["checked by"] for kind in PARTS for f in dataclasses.fields(kind)}
    assert {f"contract, probe {name}" for name in PROBES} <= named


@pytest.mark.parametrize("name", ["cpu", "interp"])
def test_values_go_to_json_and_back(name: str) -> None:
    value = described(name)
    assert from_json(json.loads(json.dumps(to_json(value)))) == value
    assert problems(value, name) == ()
    assert Machine(capabilities=from_json({**to_json(value), "a later field": 1})).name == name


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"schema": "2.0"}, "the schema's version is 2.0"),
        ({"lanes": "many"}, "capabilities.lanes is 'many', expected int"),
        ({"spaces": [{"bytes": 4}]}, "capabilities.spaces[0] lacks name"),
        ({"cache_bytes": [1.5]}, "capabilities.cache_bytes[0] is 1.5, expected int"),
        ({"engines": [{"name": "e", "kind": "magic"}]}, "capabilities.engines[0].kind is 'magic', expected one of 'scalar'"),
    ],
)
def test_json_that_fits_no_field_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError) as caught:
        from_json({**to_json(Capabilities(target="t")), **change})
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"target": "u"}, "target is 'u', asked for was 't'"),
        ({"lanes": True}, "capabilities.lanes is True, expected int"),
        ({"lanes": -1}, "lanes is -1"),
        ({"dtypes": ["float32"]}, "capabilities.dtypes is ['float32'], expected a tuple"),
        ({"dtypes": ("float32",), "compute_dtypes": ("int8",)}, "compute_dtypes names 'int8', which dtypes does not"),
        ({"matmul": (MatmulUnit(a="half", b="float16", c="float32"),)}, "matmul[0] names 'half', which is no element type"),
        ({"matmul": (MatmulUnit(a="int8", b="int8", c="int32", m=0),)}, "matmul[0].m is 0, less than 1"),
        ({"matmul": (MatmulUnit(a="int8", b="int8", c="int32", m=16, largest=(40, 1, 1)),)}, "matmul[0].largest is (40, 1, 1)"),
        ({"matmul": (MatmulUnit(a="int8", b="int8", c="int32"),)}, "matmul[0] has no name: a plan says by the name which unit it means"),
        ({"engines": (Engine(name="e", kind="copy"),) * 2}, "engines has two of the name 'e'"),
        ({"engines": (Engine(name="e", kind="copy", count=0),)}, "engines[0].count is 0, less than 1"),
        ({"spaces": (Space(name="s", bytes=0),)}, "spaces[0].bytes is 0, less than 1"),
        ({"copies": (CopyPath(source="a", destination="*", mechanism="m"),)}, "copies[0] names 'a', which is no memory space"),
        ({"copies": (CopyPath(source="*", destination="*", mechanism="m", granule=0),)}, "copies[0].granule is 0, less than 1"),
        ({"matmul": (MatmulUnit(a="int8", b="int8", c="int32", largest=(0, 0, 0)),)}, "matmul[0].largest[0] is 0, less than 1"),
        ({"registers": RegisterFile(per_lane=-1)}, "registers.per_lane is -1, less than 0"),
        ({"registers": RegisterFile(step=0)}, "registers.step is 0, less than 1"),
        ({"cache_bytes": (1, -1)}, "cache_bytes[1] is -1, less than 0"),
        ({"copies": (replace(ANYWHERE, ranks=(5, 1)),)}, "copies[0].ranks is (5, 1), the least above the most"),
        ({"copies": (replace(ANYWHERE, ranks=(-2, -1)),)}, "copies[0].ranks[0] is -2, less than 0"),
        ({"copies": (replace(ANYWHERE, alignment=3),)}, "copies[0].alignment is 3, which is no power of two"),
        ({"spaces": (Space(name="s", alignment=3),)}, "spaces[0].alignment is 3, which is no power of two"),
        ({"spaces": (Space(name=""),)}, "spaces[0].name is '', expected a name"),
        ({"spaces": (Space(name="a\nb"),)}, "spaces[0].name is 'a\\nb', expected a name: a line of text"),
        ({"engines": (Engine(name="\x1b[31m", kind="copy"),)}, "engines[0].name is '\\x1b[31m', expected a name: a line of text"),
        ({"synchronisation": (Synchronisation(mechanism="", scope="token"),)}, "synchronisation[0].mechanism is '', expected a name"),
        ({"synchronisation": (Synchronisation(mechanism="w", scope="token", count=-3),)}, "synchronisation[0].count is -3, less than 1"),
        ({"lanes": 64, "block_lanes": 7}, "lanes is 64, more than the 7 of block_lanes"),
        ({"features": ("f" * 10_001,)}, "features[0] has 10001 characters, more than 10000"),
        ({"spaces": tuple(Space(name=f"s{at}") for at in range(10_001))}, "spaces has 10001 items, more than 10000"),
        ({"matmul": (MatmulUnit(a="int8", b="int8", c="int32"),) * 200_000}, "matmul has 200000 items, more than 10000"),
        ({"math": (MathAccuracy(function="teleport", dtype="float32"),)}, "math[0].function is 'teleport', which is no function of the"),
        ({"atomics": (AtomicSupport(op="sud"),)}, "atomics[0].op is 'sud', which is no atomic operation of the language"),
        ({"atomics": (AtomicSupport(op="add", dtypes=("word",)),)}, "atomics[0].dtypes names 'word', which is no element type"),
    ],
)
def test_what_cannot_be_is_said(change: dict[str, Any], says: str) -> None:
    assert any(says in problem for problem in problems(replace(Capabilities(target="t"), **change), "t"))


def leaves(hint: Any) -> set[type]:
    """The numbers and texts that a field of this type holds by itself or in a tuple."""
    inside = {part for argument in get_args(hint) for part in leaves(argument)} if get_origin(hint) is not Literal else set()
    return inside | ({hint} & {int, float, str})


LIMITED = [(kind, f.name, leaf) for kind in PARTS for f in dataclasses.fields(kind) for leaf in leaves(hints_of(kind)[f.name])]
REQUIRED: dict[str, Any] = {"kind": "copy", "scope": "token"}


def with_wrong(kind: Any, name: str, leaf: type) -> tuple[Capabilities, str]:
    """Capabilities that hold a value of the class ``kind`` with something below or beyond the limits of a field; and where that is."""
    wrong: Any = "a\x1b[31m" if leaf is str else leaf(-1)
    hint = hints_of(kind)[name]
    items = next((get_args(part) for part in (hint, *get_args(hint)) if get_origin(part) is tuple), None)
    held = wrong if items is None else (wrong,) * (len(items) if items[-1] is not Ellipsis else 1)
    given = {f.name: REQUIRED.get(f.name, "float32") for f in dataclasses.fields(kind) if f.default is f.default_factory}
    at = name if items is None else f"{name}[0]"
    made = kind(**{**given, name: held})
    if kind is Capabilities:
        return made, at
    home, hint = next((n, h) for n, h in hints_of(Capabilities).items() if kind in (h, *get_args(h)))
    is_one_of_many = get_origin(hint) is tuple
    return Capabilities(target="t", **{home: (made,) if is_one_of_many else made}), f"{home}{'[0]' if is_one_of_many else ''}.{at}"


@pytest.mark.parametrize(("kind", "name", "leaf"), LIMITED, ids=lambda part: getattr(part, "__name__", part))
def test_every_number_and_text_has_limits_that_are_stated_and_held(kind: Any, name: str, leaf: type) -> None:
    """As the schema says them: text of one line, numbers from the least on."""
    whole = capabilities_schema()
    stated = (whole if kind is Capabilities and "properties" in whole else whole["$defs"][kind.__name__])["properties"][name]
    words = {"pattern", "maxLength"} if leaf is str else {"minimum", "exclusiveMaximum"}
    assert all(f'"{word}"' in json.dumps(stated) for word in words)
    value, where = with_wrong(kind, name, leaf)
    said = problems(value, "t")
    assert any(one.startswith(f"{where} is {'' if leaf is str else '-1, less than '}") for one in said), said


def test_as_many_parts_as_may_be_are_looked_at_once_each() -> None:
    """The check takes time in proportion to them."""
    spaces = tuple(Space(name=f"s{at % 9_999}") for at in range(10_000))
    assert problems(Capabilities(target="t", spaces=spaces), "t") == ("spaces has two of the name 's0'",)


def test_the_settings_do_not_change_the_schema() -> None:
    assert capabilities_schema()["version"] == "1.0"
    assert options().lanes > 0
