"""The name under which programs written for TileLang import :mod:`zellige.autotune`."""

from __future__ import annotations

from zellige.autotune import AutoTuner, AutotuneResult, autotune, get_autotune_inputs, set_autotune_inputs

__all__ = ["AutoTuner", "AutotuneResult", "autotune", "get_autotune_inputs", "set_autotune_inputs"]
