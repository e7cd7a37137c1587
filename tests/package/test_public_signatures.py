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
    assert tool.refused(now, ["contract 2.0", *changed[1:]]) == []
    assert tool.refused(now, [*now, "hook teleport ()"]) == []
