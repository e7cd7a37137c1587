"""match: decided while compiling for Python values; a run-time number is compared with the patterns one after the other."""

from __future__ import annotations

import ast
from functools import partial
from typing import Any

from zellige.diagnostics import catalogue
from zellige.frontend import arithmetic
from zellige.frontend.assignments import assign_name
from zellige.frontend.control import run_time_if
from zellige.frontend.evaluator import evaluate, execute, executes
from zellige.frontend.expressions import combine, constantly, plain, run_time
from zellige.frontend.junctions import condition_of
from zellige.frontend.scopes import Frame, Signal


@executes(ast.Match)
def _match(frame: Frame, node: ast.Match) -> Signal:
    subject = evaluate(frame, node.subject)
    return _cases(frame, node, subject, 0)


def _cases(frame: Frame, node: ast.Match, subject: Any, position: int) -> Signal:
    for index in range(position, len(node.cases)):
        case = node.cases[index]
        names: dict[str, Any] = {}
        holds = _matches(frame, case.pattern, subject, names)
        span = frame.here(case.pattern)
        if not run_time(holds) and not plain(holds):
            continue
        for name, value in names.items():
            assign_name(frame, name, value, None)
        if case.guard is not None:
            holds = condition_of(combine(frame, True, holds, partial(evaluate, frame, case.guard), case.guard))
        if not run_time(holds):
            if plain(holds):
                return execute(frame, case.body)
            continue
        return run_time_if(
            frame, node, holds, span, partial(execute, frame, case.body), partial(_cases, frame, node, subject, index + 1)
        )
    return Signal.NEXT


def _matches(frame: Frame, pattern: ast.pattern, subject: Any, names: dict[str, Any]) -> Any:
    """Whether ``subject`` matches, True or False or a run-time bool; what it captures goes into ``names``."""
    span = frame.here(pattern)
    holds: Any
    match pattern:
        case ast.MatchValue():
            return subject == plain(evaluate(frame, pattern.value))
        case ast.MatchSingleton():
            return subject is pattern.value
        case ast.MatchAs():
            holds = True if pattern.pattern is None else _matches(frame, pattern.pattern, subject, names)
            if pattern.name is not None:
                names[pattern.name] = subject
            return holds
        case ast.MatchOr():
            holds = False
            for alternative in pattern.patterns:
                outcome = _matches(frame, alternative, subject, names)
                holds = combine(frame, False, holds, constantly(outcome), _place(pattern))
                if not run_time(holds) and plain(holds):
                    return True
            return holds
    if run_time(subject):
        raise catalogue.E133.error(span, given=arithmetic.describe(subject))
    match pattern:
        case ast.MatchSequence():
            return _sequence(frame, pattern, subject, names)
        case ast.MatchMapping():
            return _mapping(frame, pattern, subject, names)
        case ast.MatchClass():
            return _class(frame, pattern, subject, names)
    raise catalogue.E133.error(span, given=arithmetic.describe(subject))


def _place(pattern: ast.pattern) -> ast.expr:
    return ast.copy_location(ast.Constant(None), pattern)


def _all(frame: Frame, pattern: ast.pattern, outcomes: list[Any]) -> Any:
    holds: Any = True
    for outcome in outcomes:
        holds = combine(frame, True, holds, constantly(outcome), _place(pattern))
    return holds


def _sequence(frame: Frame, pattern: ast.MatchSequence, subject: Any, names: dict[str, Any]) -> Any:
    if not isinstance(subject, (tuple, list)):
        return False
    parts = pattern.patterns
    star = next((i for i, p in enumerate(parts) if isinstance(p, ast.MatchStar)), None)
    if len(subject) != len(parts) if star is None else len(subject) < len(parts) - 1:
        return False
    outcomes = []
    for index, part in enumerate(parts):
        if isinstance(part, ast.MatchStar):
            rest = list(subject[index : len(subject) - (len(parts) - index - 1)])
            if part.name is not None:
                names[part.name] = rest
            continue
        at = index if star is None or index < star else index - len(parts)
        outcomes.append(_matches(frame, part, subject[at], names))
    return _all(frame, pattern, outcomes)


def _mapping(frame: Frame, pattern: ast.MatchMapping, subject: Any, names: dict[str, Any]) -> Any:
    if not isinstance(subject, dict):
        return False
    keys = [plain(evaluate(frame, key)) for key in pattern.keys]
    if any(key not in subject for key in keys):
        return False
    outcomes = [_matches(frame, part, subject[key], names) for key, part in zip(keys, pattern.patterns)]
    if pattern.rest is not None:
        names[pattern.rest] = {k: v for k, v in subject.items() if k not in keys}
    return _all(frame, pattern, outcomes)


def _class(frame: Frame, pattern: ast.MatchClass, subject: Any, names: dict[str, Any]) -> Any:
    kind = evaluate(frame, pattern.cls)
    if not isinstance(subject, kind):
        return False
    outcomes = []
    positions = getattr(kind, "__match_args__", ())
    if len(pattern.patterns) == 1 and kind in (bool, bytes, float, frozenset, int, list, set, str, tuple, dict):
        outcomes.append(_matches(frame, pattern.patterns[0], subject, names))
    else:
        for attribute, part in zip(positions, pattern.patterns):
            outcomes.append(_matches(frame, part, getattr(subject, attribute), names))
    for attribute, part in zip(pattern.kwd_attrs, pattern.kwd_patterns):
        if not hasattr(subject, attribute):
            return False
        outcomes.append(_matches(frame, part, getattr(subject, attribute), names))
    return _all(frame, pattern, outcomes)
