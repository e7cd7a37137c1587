"""``from zellige.transform import PassConfigKey, simplify_prim_func``: where programs written for TileLang look for these names."""

from __future__ import annotations

from zellige.pass_configs import PassConfigKey
from zellige.transform.simplify import simplify_prim_func

__all__ = ["PassConfigKey", "simplify_prim_func"]
