"""Fields of an answer that hold sets and lists are looked into as tuples are, and one rule says what a line of text is."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from zellige.diagnostics.printable import visible
from zellige.plugin.contract import Space
from zellige.plugin.fields import is_line, limit_problems, type_problems
from zellige.plugin.limits import LONGEST_LINE


@dataclass(frozen=True)
class Answer:
    names: frozenset[str] = frozenset()
    counts: list[int] = field(default_factory=list)


@pytest.mark.parametrize("answer", [Answer(), Answer(names=frozenset({"a"}), counts=[1, 2])])
def test_what_is_right_has_no_problem(answer: Answer) -> None:
    assert not list(type_problems(Answer, answer, "answer"))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"names": {"a"}}, "answer.names is"),
        ({"names": frozenset({1})}, "an item of answer.names is 1, expected str"),
        ({"counts": (1,)}, "answer.counts is"),
        ({"counts": [1, True]}, "an item of answer.counts is True, expected int"),
    ],
)
def test_what_is_wrong_is_named(wrong: dict[str, object], words: str) -> None:
    (problem,) = type_problems(Answer, Answer(**wrong), "answer")  # type: ignore[arg-type]
    assert words in problem


@pytest.mark.parametrize(
    "text",
    [
        *map(chr, (*range(0x20), 0x7F, 0x9F, 0xA0, 0x200E, 0x2028, 0x202E, 0x2066, 0x3000, 0x1F600)),
        *("e\u0301", "größe", "a b", "n" * LONGEST_LINE),
    ],
)
def test_what_a_line_is_has_one_answer(text: str) -> None:
    """What is printed as it is may stand in a field, in a name that has no limits, and the other way round."""
    one = f"a{text}"[:LONGEST_LINE]
    is_shown = visible(one) == one and not {*one} & {"\t", "\n"}
    assert is_line(one) is is_shown
    assert (not list(limit_problems(Space(name=one), ""))) is is_shown


@pytest.mark.parametrize("text, is_one", [("", False), (" a", False), ("\ud800", False), ("n" * (LONGEST_LINE + 1), False), ("a ", True)])
def test_what_names_something_is_a_line_that_begins_with_no_space(text: str, is_one: bool) -> None:
    assert is_line(text) is is_one
    assert is_line(text, may_be_empty=True) is (is_one or text in ("", " a"))
