"""The module in which programs written for TileLang look for the keys of pass configs."""

from __future__ import annotations

from zellige.pass_configs import PassConfigKey

__all__ = ["PassConfigKey"]
