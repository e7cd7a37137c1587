"""``from zellige.profiler.bench import do_bench``: the name of TileLang's module, which lives in :mod:`zellige.profiler`."""

from __future__ import annotations

from zellige.profiler import do_bench

__all__ = ["do_bench"]
