"""Fields of an answer that hold sets and lists are looked into as tuples are."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from zellige.plugin.fields import type_problems


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
