"""Each test tunes into a cache of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from zellige.cache import memo
from zellige.options import options
from zellige_cpu.host import running_host


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    running_host()  # it is looked at once a process, and not while a test says that it has other cores
    folder = tmp_path / "cache"
    monkeypatch.setenv("ZELLIGE_CACHE_DIR", str(folder))
    options.cache_clear()
    memo.clear()
    yield folder
    options.cache_clear()
