"""``from zellige.layout.fragment import Fragment``: the name of TileLang's module, which lives in :mod:`zellige.layout`."""

from __future__ import annotations

from zellige.layout import Fragment

__all__ = ["Fragment"]
