"""The JSON Schema of capabilities is the dataclasses', every field says what checks it, and values go to JSON and back."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zellige.claims import PROBES
from zellige.options import options
from zellige.plan.capabilities import Machine
from zellige.plugin import capabilities as module
from zellige.plugin.capabilities import AtomicSupport, Capabilities, CopyPath, Engine, MatmulUnit, Space
from zellige.plugin.registry import registry
from zellige.plugin.schema import capabilities_schema, from_json, problems, to_json

FILE = Path(__file__).parents[2] / "docs" / "capabilities.schema.json"
CHECKS = {"contract", "declared only", *(f"contract, probe {name}" for name in PROBES)}
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
        ({"matmul": (MatmulUnit(a="int8", b="int8", c="int32", m=0),)}, "matmul[0] is 0x1x1"),
        ({"matmul": (MatmulUnit(a="int8", b="int8", c="int32", m=16, largest=(40, 1, 1)),)}, "matmul[0].largest is (40, 1, 1)"),
        ({"engines": (Engine(name="e", kind="copy"),) * 2}, "engines has two of the name 'e'"),
        ({"engines": (Engine(name="e", kind="copy", count=0),)}, "engines[0] (e) has a count of 0"),
        ({"spaces": (Space(name="s", bytes=0),)}, "spaces[0] (s) has 0 bytes"),
        ({"copies": (CopyPath(source="a", destination="*", mechanism="m"),)}, "copies[0] names 'a', which is no memory space"),
        ({"copies": (CopyPath(source="*", destination="*", mechanism="m", granule=0),)}, "copies[0] (m) has alignment 1 and granule 0"),
        ({"atomics": (AtomicSupport(op="add", dtypes=("word",)),)}, "atomics[0].dtypes names 'word', which is no element type"),
    ],
)
def test_what_cannot_be_is_said(change: dict[str, Any], says: str) -> None:
    assert any(says in problem for problem in problems(replace(Capabilities(target="t"), **change), "t"))


def test_the_settings_do_not_change_the_schema() -> None:
    assert capabilities_schema()["version"] == "1.0"
    assert options().lanes > 0
