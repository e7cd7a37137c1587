"""What the tests of the starting points share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from zellige.cache import memo, recall
from zellige.options import options
from zellige.plugin.registry import registry


def _forget() -> None:
    memo.clear()
    registry.cache_clear()
    options.cache_clear()
    recall._conditions.cache_clear()


@pytest.fixture
def asked_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Backends that say something else in this test alone: what follows from earlier answers is not found, nor what follows from these."""
    monkeypatch.setenv("ZELLIGE_CACHE_DIR", str(tmp_path / "cache"))
    _forget()
    yield
    monkeypatch.undo()
    _forget()
