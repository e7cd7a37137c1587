"""The marks of :mod:`zellige.testing`: which tests they skip, with which reason, and when the devices are looked for."""

from __future__ import annotations

import subprocess
import sys
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import zellige.testing as zt
from zellige.plugin.contract import Capabilities, Device, Manifest, Unavailable
from zellige.plugin.hooks import hookimpl
from zellige.plugin.registry import Origin, Registry
from zellige.target import Target


class Machine:
    """A backend named ``name`` whose probe answers ``found``."""

    API = (1, 0)

    def __init__(self, name: str, found: tuple[Device, ...] | Unavailable) -> None:
        self.name, self.found, self.probes = name, found, 0

    @hookimpl
    def manifest(self) -> Manifest:
        return Manifest(
            name=self.name,
            vendor="nobody",
            version="1",
            kind="accelerator",
            targets=(self.name,),
            aliases=((f"{self.name}alias", self.name),),
        )

    @hookimpl
    def probe(self) -> tuple[Device, ...] | Unavailable:
        self.probes += 1
        return self.found

    @hookimpl
    def describe(self, target: Target) -> Capabilities:
        return Capabilities(target=str(target))


WORKS = Machine("gadget", (Device(name="g", index=0, target="gadget", compute_version=(9, 0)),))
ABSENT = Machine("widget", Unavailable(code="no-device", reason="no widget is plugged in"))


@pytest.fixture(autouse=True)
def machines(monkeypatch: pytest.MonkeyPatch) -> None:
    WORKS.probes = 0
    found = Registry([Origin(name=m.name, value=m.name, load=lambda m=m: m) for m in (WORKS, ABSENT)])  # type: ignore[misc]
    monkeypatch.setattr(zt, "registry", lambda: found)


def reason(decorate: Callable[[Any], Any]) -> str:
    """Why a test under this mark is skipped; empty where it runs."""
    ran: list[int] = []
    try:
        decorate(lambda: ran.append(1))()
    except unittest.SkipTest as skipped:
        assert not ran
        return str(skipped)
    assert ran == [1]
    return ""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("requires_gadget", ""),
        ("requires_gadgetalias", ""),
        ("requires_widget", "no widget is plugged in"),
        ("requires_widgetalias", "no widget is plugged in"),
        ("requires_gizmo", "no backend has a target 'gizmo'"),
        ("requires_widget_or_gadget", ""),
        ("requires_widget_or_gizmo", "no widget is plugged in; no backend has a target 'gizmo'"),
    ],
)
def test_target_marks(name: str, words: str) -> None:
    assert reason(getattr(zt, name)) == words


@pytest.mark.parametrize(
    ("relation", "version", "runs"),
    [
        ("ge", (9, 0), True),
        ("ge", (9, 1), False),
        ("gt", (8, 9), True),
        ("gt", (9, 0), False),
        ("le", (9, 0), True),
        ("lt", (9, 0), False),
        ("eq", (9, 0), True),
        ("eq", (10,), False),
    ],
)
def test_version_marks(relation: str, version: tuple[int, ...], runs: bool) -> None:
    named = reason(getattr(zt, f"requires_gadget_compute_version_{relation}")(*version))
    by_mode = reason(zt.requires_gadget_compute_version(*version, mode=relation))
    assert named == by_mode
    assert (named == "") is runs
    if not runs:
        wanted = ".".join(map(str, (*version, 0)[:2]))
        assert named == f"needs a compute version {relation} {wanted}, the device's is 9.0"


def test_version_marks_of_absent_and_unknown() -> None:
    assert reason(zt.requires_widget_compute_version_ge(1, 0)) == "no widget is plugged in"
    with pytest.raises(ValueError, match="mode is 'near'"):
        zt.requires_gadget_compute_version(9, 0, mode="near")


def test_devices_are_looked_for_only_when_a_test_runs() -> None:
    marked = zt.requires_gadget(lambda: None)
    assert WORKS.probes == 0
    marked()
    assert WORKS.probes == 1


def test_skipping_prints_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    reason(zt.requires_widget)
    assert capsys.readouterr().out == "skipped: no widget is plugged in\n"


def test_classes_are_marked_test_by_test() -> None:
    @zt.requires_widget
    class Cases:
        def test_one(self) -> None:
            raise AssertionError("ran")

        def helper(self) -> int:
            return 3

    with pytest.raises(unittest.SkipTest):
        Cases().test_one()
    assert Cases().helper() == 3


def test_packages() -> None:
    assert reason(zt.requires_package("numpy")) == ""
    assert reason(zt.requires_package("numpy", "no_such_package_here")) == "needs the package no_such_package_here"


def test_other_names_do_not_exist() -> None:
    with pytest.raises(AttributeError, match="no attribute 'requirement'"):
        _ = zt.requirement


def test_torch_assert_close_checks_attributes() -> None:
    ones = torch.ones(2, 3)
    assert zt.torch_assert_close(ones, ones + 1e-4)
    for other, words in [
        (ones.double(), "dtype differs: LHS torch.float32, RHS torch.float64"),
        (ones.to("meta"), "device differs"),
        (ones.to_sparse(), "layout differs"),
    ]:
        with pytest.raises(AssertionError, match=words):
            zt.torch_assert_close(ones, other)
    with pytest.raises(AssertionError, match="strides differ: LHS"):
        zt.torch_assert_close(ones, torch.ones(3, 2).t(), check_stride=True)
    with pytest.raises(TypeError, match="compares torch tensors, not a float: use assert_allclose"):
        zt.torch_assert_close(ones, 1.0)
    with pytest.raises(AssertionError, match="6 of 6 elements differ"):
        zt.torch_assert_close(ones, ones * 2)
    assert zt.torch_assert_close(ones, ones.double(), check_dtype=False)


def test_torch_assert_close_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    zt.torch_assert_close(torch.ones(4), torch.ones(4), verbose=True)
    assert capsys.readouterr().out == "0 of 4 elements differ\n"


def test_assert_allclose() -> None:
    zt.assert_allclose(torch.ones(100), torch.ones(100).numpy())
    zt.assert_allclose(torch.arange(100), torch.arange(100).clamp(max=98), max_mismatched_ratio=0.01, rtol=0)
    with pytest.raises(AssertionError, match="1 of 100"):
        zt.assert_allclose(torch.arange(100), torch.arange(100).clamp(max=98), rtol=0)


def test_marked_tests_under_pytest_and_main(tmp_path: Path) -> None:
    file = tmp_path / "test_marked_file.py"
    file.write_text(
        "import pytest\n"
        "import zellige.testing as zt\n"
        "@pytest.fixture\n"
        "def three(): return 3\n"
        "@zt.requires_gizmo\n"
        "@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_skipped(n, three): assert False\n"
        "@zt.requires_package('numpy')\n"
        "@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_run(n, three): assert three == 3\n"
        "if __name__ == '__main__': zt.main()\n"
    )
    done = subprocess.run(
        [sys.executable, str(file), "-q", "-rs", "-p", "no:cacheprovider"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed, 2 skipped" in done.stdout
    assert "no backend has a target 'gizmo'" in done.stdout
