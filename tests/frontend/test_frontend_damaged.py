"""Programs damaged at random end in a kernel, an error of this package, or a Python error in the user's code: never in an internal one."""

from __future__ import annotations

import ast
import copy
import linecache
import random
import signal
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from zellige.diagnostics import ZelligeError

HERE = Path(__file__).parent
SOURCES = [path.read_text() for folder in ("wrong", "published") for path in sorted((HERE / folder).glob("*.py"))]
VALUES: list[Any] = [0, 1, -1, 2, 3, 7, 16, 0.5, 1e30, 2**40, 2**70, True, None, "x", "float16"]


class Replace(ast.NodeTransformer):
    """Puts one expression in the place of another."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else self.generic_visit(node)


def damaged(source: str, chance: random.Random) -> str:
    """The program with one to three random changes."""
    tree: Any = ast.parse(source)
    for _ in range(chance.randint(1, 3)):
        nodes = list(ast.walk(tree))
        bodies = [n.body for n in nodes if isinstance(getattr(n, "body", None), list) and n.body]  # type: ignore[attr-defined]
        values = [n for n in nodes if isinstance(n, ast.expr) and isinstance(getattr(n, "ctx", ast.Load()), ast.Load)]
        names = [n for n in nodes if isinstance(n, ast.Name)]
        constants = [n for n in nodes if isinstance(n, ast.Constant)]
        match chance.randrange(6):
            case 0 if values:
                old, new = chance.choice(values), chance.choice(values)
                if all(part is not old for part in ast.walk(new)):
                    tree = Replace(old, copy.deepcopy(new)).visit(tree)
            case 1 if constants:
                chance.choice(constants).value = chance.choice(VALUES)
            case 2 if bodies:
                body = chance.choice(bodies)
                i, j = chance.randrange(len(body)), chance.randrange(len(body))
                body[i], body[j] = body[j], body[i]
            case 3 if bodies:
                body = chance.choice(bodies)
                if len(body) > 1:
                    del body[chance.randrange(len(body))]
            case 4 if bodies:
                body = chance.choice(bodies)
                body.insert(chance.randrange(len(body) + 1), copy.deepcopy(chance.choice(chance.choice(bodies))))
            case _ if names:
                chance.choice(names).id = chance.choice(names).id
    return ast.unparse(ast.fix_missing_locations(tree))


class Late(BaseException):
    """No Exception, so that nobody on the way keeps it."""


@contextmanager
def ending_within(seconds: float) -> Iterator[None]:
    """Raises :class:`Late` where the program then is."""

    def stop(*_: object) -> None:
        raise Late

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def fault(seed: int) -> str:
    """What is wrong with how a damaged program ends; empty where nothing is."""
    chance = random.Random(seed)
    name = f"<damaged {seed}>"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            text = damaged(chance.choice(SOURCES), chance)
            code = compile(text, name, "exec")
        except (SyntaxError, ValueError, TypeError, AttributeError):
            return ""  # no program at all
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        namespace: dict[str, Any] = {"__name__": "damaged"}
        try:
            with ending_within(20):
                exec(code, namespace)
                namespace.get("program", int)()
        except Late as late:
            is_own = traceback.extract_tb(late.__traceback__)[-2].filename == name  # a loop of Python's around the kernels
            return "" if is_own else "\n".join([text, "did not end:", *traceback.format_exception(late)])
        except ZelligeError as error:
            return "" if error.diagnostics[0].message else f"an error without a message: {text}"
        except Exception as error:  # noqa: BLE001
            last = traceback.extract_tb(error.__traceback__)[-1]
            is_own = last.filename == name or last.name == "__getattr__" or "/zellige/" not in last.filename
            if not is_own and not isinstance(error, RecursionError):
                return "\n".join([text, *traceback.format_exception(error)])
    return ""


def test_a_loop_without_end_is_told_by_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    within = ending_within
    monkeypatch.setitem(globals(), "ending_within", lambda seconds: within(1))
    loop = "while True: pass"
    for body, told in ((loop, ""), (f'exec("{loop}")', "did not end")):
        text = f"def program():\n    {body}\n"
        monkeypatch.setitem(globals(), "damaged", lambda source, chance, text=text: text)
        assert told in fault(0) and bool(fault(0)) is bool(told)


@pytest.mark.parametrize("start", range(0, 400, 50))
def test_damaged_programs(start: int) -> None:
    assert not [found for seed in range(start, start + 50) if (found := fault(seed))]


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 6000, 250))
def test_many_damaged_programs(start: int) -> None:
    assert not [found for seed in range(start, start + 250) if (found := fault(seed))]
