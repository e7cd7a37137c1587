"""``from zellige.tileop.base import GemmWarpPolicy``: the name of TileLang's module, which lives in :mod:`zellige.language`."""

from __future__ import annotations

from zellige.language.products import GemmWarpPolicy

__all__ = ["GemmWarpPolicy"]
