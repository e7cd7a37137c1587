"""``from zellige.carver.arch import driver``: what a program may ask about the machine that its kernels will run on.

Classes of architectures, whose names are in capitals, load too: TileLang proposes configurations by them, and their use is E402.
"""

from __future__ import annotations

from typing import Any

from zellige.carver.refused import refused


def __getattr__(name: str) -> Any:
    if name.isupper():
        return refused(f"arch.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
