"""``from zellige.transform import PassConfigKey, simplify_prim_func``: where programs written for TileLang look for these names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from zellige.pass_configs import PassConfigKey

__all__ = ["PassConfigKey", "simplify_prim_func"]

Build = TypeVar("Build", bound=Callable[..., object])


def simplify_prim_func(build: Build) -> Build:
    """``build`` itself, a function that returns a kernel: every kernel is simplified on its way to a target."""
    return build
