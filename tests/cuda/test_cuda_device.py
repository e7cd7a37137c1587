"""What is right or wrong on a device only: the parts of tools/device_check.py, where a device is."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "device_check.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("device_check", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["device_check"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("part", ["examples", "stages", "widths", "sizes"])
def test_a_part_is_right_on_the_device(part: str, tool: ModuleType) -> None:
    reason = tool.missing_device()
    if reason is not None:
        pytest.skip(reason)
    done = subprocess.run([sys.executable, str(TOOL), part], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_a_device_the_reason_is_said(tool: ModuleType) -> None:
    reason = tool.missing_device()
    if reason is None:
        pytest.skip("a device is here")
    done = subprocess.run([sys.executable, str(TOOL)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, f"nothing is checked: {reason}\n")


def test_a_wrong_result_fails(tool: ModuleType) -> None:
    torch = pytest.importorskip("torch")
    right = torch.ones(3, 4)
    tool.expect("equal", right, right)
    wrong = right.clone()
    wrong[1, 2] = 2
    with pytest.raises(SystemExit, match="1 of 12 elements are wrong"):
        tool.expect("one", wrong, right)


def test_jobs_that_fail_are_counted(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = [tool.Job(part="cases", name=name, command=(sys.executable, "-c", code), variables={}) for name, code in
            (("good", "print('fine')"), ("bad", "raise SystemExit(3)"), ("slow", "import time; time.sleep(60)"))]  # fmt: skip
    outcomes = [tool.perform(job, 5.0) for job in jobs]
    assert [o.status for o in outcomes] == [0, 3, 124]
    assert not tool.report(outcomes, ["cases"])
    assert capsys.readouterr().out == "cases: 1 of 3 right, wrong: bad, slow\n"
    assert not tool.report([], ["cases"])
