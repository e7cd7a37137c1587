"""The public signatures are those of the golden list, and a change of one needs a step of the version."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


@pytest.fixture(scope="module")
def tool() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TOOLS))
        return importlib.import_module("public_signatures")


def test_the_list_is_the_product(tool: Any) -> None:
    written, found = tool.FILE.read_text(encoding="utf-8").splitlines(), tool.lines()
    differences = [f"- {line}" for line in written if line not in found] + [f"+ {line}" for line in found if line not in written]
    assert written == found, "\n".join(["python tools/public_signatures.py writes it again:", *differences])


def test_a_change_needs_a_step_of_the_version_and_an_addition_does_not(tool: Any) -> None:
    now = tool.lines()
    changed = [line.replace("hook describe (target: ", "hook describe (aim: ") for line in now]
    assert changed != now
    (gone,) = tool.refused(now, changed)
    assert gone.startswith("hook describe ")
    assert tool.refused(now, [stepped(now[0], "contract 1.0", "contract 2.0"), *changed[1:]]) == []
    assert tool.refused(now, [*now, "hook teleport ()"]) == []


def stepped(versions: str, before: str, after: str) -> str:
    """The first line of the list with another version."""
    assert before in versions
    return versions.replace(before, after)


def test_a_step_of_the_minor_takes_nothing_away(tool: Any) -> None:
    """What a backend written for an earlier minor uses is there in every later one."""
    now = tool.lines()
    for line in ("hook schedules () -> ", "contract CompileContext.options : "):
        without = [other for other in now if not other.startswith(line)]
        assert len(without) == len(now) - 1
        for versions in (now[0], stepped(now[0], "contract 1.0", "contract 1.1"), stepped(now[0], "API 0.1", "API 0.2")):
            (gone,) = tool.refused(now, [versions, *without[1:]])
            assert gone.startswith(line)


def test_names_of_python_go_with_a_step_of_their_own_version(tool: Any) -> None:
    now = tool.lines()
    without = [line for line in now if not line.startswith("zellige.jit ")]
    assert [line.split()[0] for line in tool.refused(now, without)] == ["zellige.jit"]
    elsewhere = [stepped(now[0], "contract 1.0", "contract 2.0"), *without[1:]]
    assert [line.split()[0] for line in tool.refused(now, elsewhere)] == ["zellige.jit"]
    assert tool.refused(now, [stepped(now[0], "API 0.1", "API 0.2"), *without[1:]]) == []


def test_what_was_not_released_may_change_when_that_is_said(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed, log = tmp_path / "list.txt", tmp_path / "CHANGELOG.md"
    monkeypatch.setattr(tool, "FILE", listed)
    monkeypatch.setattr(tool, "CHANGELOG", log)
    now = tool.lines()
    flag, head = "--unreleased", "0.1.0 (not released)"
    for heading, flags, code in ((head, [], 1), (head, [flag], 0), ("0.1.0", [flag], 1)):
        listed.write_text("\n".join([*now, "hook teleport ()"]) + "\n", encoding="utf-8")
        log.write_text(f"# Changelog\n\n## {heading}\n", encoding="utf-8")
        monkeypatch.setattr("sys.argv", ["public_signatures.py", *flags])
        assert tool.main() == code
        assert ("hook teleport ()" in listed.read_text(encoding="utf-8")) is (code == 1)
