"""The text of a target splits into name, architecture and options, and is refused with the reason when it does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from zellige.diagnostics import CompileError
from zellige.target import Target, parse_target


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("cpu", Target(name="cpu")),
        (" cpu ", Target(name="cpu")),
        ("acme:v9", Target(name="acme", arch="v9")),
        ("acme:v9,fast,depth=3", Target(name="acme", arch="v9", options=(("fast", None), ("depth", "3")))),
        ("acme,fast", Target(name="acme", options=(("fast", None),))),
        ("acme -arch=v9 -fast --depth=3", Target(name="acme", options=(("arch", "v9"), ("fast", None), ("depth", "3")))),
    ],
)
def test_both_forms_are_read(text: str, target: Target) -> None:
    assert parse_target(text) == target
    assert parse_target(target) is target


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "does not begin with a name"),
        ("9lives", "does not begin with a name"),
        ("acme:", "architecture after ':' is missing"),
        ("acme:,fast", "architecture after ':' is missing"),
        ("acme:v 9", "holds a space"),
        ("acme/v9", "'/' after the name 'acme'"),
        ("acme,", "'' is neither a flag nor key=value"),
        ("acme,depth=", "'depth=' is neither a flag nor key=value"),
        ("acme fast", "'fast' does not begin with '-'"),
        ("acme -a=b,c", "'a=b,c' is neither a flag nor key=value"),
        (3, "expected text, got int"),
        ("acme:" + "a" * 100_000, "it has 100005 characters, more than 1000"),
        ("acme:\0", "it holds a character that cannot be printed"),
    ],
)
def test_other_text_is_refused_with_the_reason(text: Any, says: str) -> None:
    with pytest.raises(CompileError) as raised:
        parse_target(text)
    assert raised.value.code == "E707"
    assert says in str(raised.value) and len(str(raised.value)) < 400


_word = st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True)


@given(_word, st.one_of(st.just(""), _word), st.lists(st.tuples(_word, st.one_of(st.none(), _word)), max_size=4))
def test_the_canonical_text_reads_back(name: str, arch: str, chosen: list[tuple[str, str | None]]) -> None:
    target = Target(name=name, arch=arch, options=tuple(chosen))
    assert parse_target(str(target)) == target


def test_options_are_asked_by_key() -> None:
    target = parse_target("acme,fast,depth=3,depth=4")
    assert target.flags == {"fast"}
    assert target.option("depth") == "4"
    assert target.option("fast") is None
    assert target.option("width", "8") == "8"
