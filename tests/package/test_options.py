"""The environment is read into frozen options, wrong values are refused by name, unknown variables are pointed out."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from zellige.diagnostics import CompileError, ZelligeWarning
from zellige.options import CompileOptions, Options, variable


def test_defaults_need_no_variable() -> None:
    found = Options.from_environment({"HOME": "/home/someone"})
    assert found == Options(cache_dir=Path("/home/someone/.cache/zellige"))
    assert Options.from_environment({"XDG_CACHE_HOME": "/big"}).cache_dir == Path("/big/zellige")


def test_every_field_has_its_variable() -> None:
    given = {
        "ZELLIGE_TARGET": "cpu:x",
        "ZELLIGE_CACHE_DIR": "/c",
        "ZELLIGE_CACHE_SIZE": "2M",
        "ZELLIGE_CACHE": "off",
        "ZELLIGE_NUM_THREADS": "3",
        "ZELLIGE_LANES": "64",
        "ZELLIGE_CHECKS": "races, bounds",
        "ZELLIGE_ISOLATE_PROBES": "1",
        "ZELLIGE_LOG": "DEBUG",
        "ZELLIGE_DEBUG_ROOT": "/d",
    }
    assert {variable(field.name) for field in fields(Options)} == set(given)
    assert Options.from_environment(given) == Options(
        target="cpu:x",
        cache_dir=Path("/c"),
        cache_size=2 << 20,
        cache_enabled=False,
        threads=3,
        lanes=64,
        checks=frozenset({"races", "bounds"}),
        isolate_probes=True,
        log_level="debug",
        debug_root=Path("/d"),
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ZELLIGE_CACHE", "maybe"),
        ("ZELLIGE_CACHE_SIZE", "much"),
        ("ZELLIGE_NUM_THREADS", "many"),
        ("ZELLIGE_NUM_THREADS", "-1"),
        ("ZELLIGE_NUM_THREADS", "65537"),
        ("ZELLIGE_NUM_THREADS", "100000000000000000000"),
        ("ZELLIGE_LANES", "100000000000000000000"),
        ("ZELLIGE_CACHE_DIR", "~no.such.user/x"),
        ("ZELLIGE_DEBUG_ROOT", "~no.such.user/x"),
        ("ZELLIGE_LANES", "0"),
        ("ZELLIGE_CHECKS", "races,spelling"),
        ("ZELLIGE_LOG", "loud"),
    ],
)
def test_a_wrong_value_names_variable_and_expectation(name: str, value: str) -> None:
    with pytest.raises(CompileError, match="expected") as raised:
        Options.from_environment({"HOME": "/h", name: value})
    assert raised.value.code == "E741"
    assert f"{name}={value!r}" in str(raised.value)


def test_an_unknown_variable_is_pointed_out() -> None:
    with pytest.warns(ZelligeWarning, match="ZELLIGE_THRAEDS is not a setting"):
        Options.from_environment({"HOME": "/h", "ZELLIGE_THRAEDS": "2"})


def test_what_only_shows_does_not_distinguish_compilations(tmp_path: Path) -> None:
    assert CompileOptions(is_verbose=True, debug_root=tmp_path) == CompileOptions()
    assert hash(CompileOptions(is_verbose=True)) == hash(CompileOptions())
    assert CompileOptions(fast_math=True) != CompileOptions()
