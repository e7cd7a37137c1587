"""``from zellige.engine.lower import lower``: the name of TileLang's module, which lives in :mod:`zellige.lowering`."""

from __future__ import annotations

from zellige.lowering import lower

__all__ = ["lower"]
