"""``from zellige.carver.roller.rasterization import NoRasterization``: the name loads, its use is E402 (:mod:`zellige.carver.refused`)."""

from __future__ import annotations

from zellige.carver.refused import refused

NoRasterization = refused("roller.rasterization.NoRasterization")

__all__ = ["NoRasterization"]
