"""The page on adding an intrinsic is executed as it is written, and prints what its comments say."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "add-an-intrinsic.md"


def test_the_page_runs_as_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, files = PAGE.read_text(encoding="utf-8").split("\n## 7. ")  # those of a package: tests/template/test_own_units.py
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == len(re.findall(r"^```\w+$", text, re.MULTILINE)) >= 5
    assert len(re.findall(r"^```\w+$", files, re.MULTILINE)) == 3
    file = tmp_path / "page.py"  # kernels are read from a file
    file.write_text("\n".join(blocks), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("page_on_intrinsics", file)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    printed = capsys.readouterr().out
    assert re.search(r"^mma.sync.aligned.m16n8k16.row.col +fits$", printed, re.MULTILINE)
    first, second, third, because = printed.splitlines()[-4:]
    assert first.startswith("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    assert second.startswith("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32")
    assert "(emulated)" in third
    assert "avoided by putting mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 back into the table" in because
