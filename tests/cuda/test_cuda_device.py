"""What is right or wrong on a device only: the parts of tools/device_check.py, where a device is."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from zellige.diagnostics import catalogue
from zellige.diagnostics.error import LaunchError

TOOL = Path(__file__).parents[2] / "tools" / "device_check.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("device_check", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["device_check"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("part", ["examples", "stages", "widths", "sizes", "graphs"])
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


@pytest.fixture
def graphs(tool: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The part graphs, whose recordings are run on the host, once when they are made and again at each replay."""
    torch = pytest.importorskip("torch")
    module = importlib.import_module("device_graphs")

    def recorded(run: Callable[[], Any]) -> Any:
        made = run()
        return lambda: [mine.copy_(new) for mine, new in zip(made, run())], made

    monkeypatch.setattr(module, "tensor", lambda values, dtype: torch.from_numpy(np.asarray(values, np.float64)).to(getattr(torch, dtype)))
    monkeypatch.setattr(module, "recorded", recorded)
    monkeypatch.setattr(module, "beside", nullcontext)
    return module


def test_recordings_are_replayed_with_other_values(graphs: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for work in (graphs.softmax_of_rows(), graphs.products_of_two_sizes()):
        graphs.check_work(work)
    once = graphs.recorded
    monkeypatch.setattr(graphs, "recorded", lambda run: (lambda: None, once(run)[1]))
    with pytest.raises(SystemExit, match="softmax, recorded at the first call: result 0 differs"):
        graphs.check_work(graphs.softmax_of_rows())


def test_what_cannot_be_recorded_must_be_refused(graphs: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a driver that refuses nothing the part says so; of one that does, that the rest of the recording is right."""
    with pytest.raises(SystemExit, match="expected E643 twice, got no error"):
        graphs.check_refusal()
    report, once, is_recording = graphs.reporting(), graphs.recorded, [False]

    def recorded(run: Callable[[], Any]) -> Any:
        is_recording[0] = True
        replay, made = once(run)
        is_recording[0] = False
        return lambda: made[0].fill_(6), made

    def called(counted: Any) -> None:
        if is_recording[0]:
            raise catalogue.E643.error(kernel="reports", reason="each launch waits")
        report(counted)

    monkeypatch.setattr(graphs, "recorded", recorded)
    monkeypatch.setattr(graphs, "reporting", lambda: called)
    graphs.check_refusal()


@pytest.mark.parametrize(("reason", "is_taken"), [("error E643: it asserts", True), ("there is no device", False)])
def test_the_recording_timer_says_why_it_cannot(graphs: ModuleType, monkeypatch: pytest.MonkeyPatch, reason: str, is_taken: bool) -> None:
    """Two kernels are measured, the third is refused; only for what it does is that right."""
    answers = iter((0.5, 0.5, catalogue.E636.error(name="cudagraph", reason=reason)))

    def measured(*_: object, **__: object) -> float:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(graphs.zl, "do_bench", measured)
    with nullcontext() if is_taken else pytest.raises(LaunchError, match="no device"):
        graphs.check_timer()
