"""``from zellige.carver.template import MatmulTemplate``: the name loads, its use is E402 (:mod:`zellige.carver.refused`)."""

from __future__ import annotations

from zellige.carver.refused import refused

MatmulTemplate = refused("template.MatmulTemplate")

__all__ = ["MatmulTemplate"]
