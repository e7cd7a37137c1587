"""Choosing the fastest configuration of a kernel by trying them.

In: a jit function or a function that returns a prim_func, and configurations: dictionaries of its arguments. Out: the kernel of the fastest
configuration that computes what the reference does, and how every other fared. :mod:`zellige.autotuner` has the same names.
"""

from __future__ import annotations

from zellige.autotune.decorator import TunedFunction, autotune
from zellige.autotune.inputs import get_autotune_inputs, set_autotune_inputs
from zellige.autotune.results import AutotuneResult, Trial
from zellige.autotune.tuner import AutoTuner

__all__ = ["AutoTuner", "AutotuneResult", "Trial", "TunedFunction", "autotune", "get_autotune_inputs", "set_autotune_inputs"]
