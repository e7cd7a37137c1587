"""Zellige: write a tile kernel once, run it on any device with a plugin.

``import zellige as zl`` and ``import zellige.language as T`` give the language and its compiler; a kernel written for TileLang runs with
only these two imports changed. Names load at their first use, so that the import itself is quick.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from zellige.version import __version__

if TYPE_CHECKING:
    from zellige import autotuner, cache, dtypes, language, layout, math, profiler, testing, transform, tvm
    from zellige.autotune import AutoTuner, autotune
    from zellige.cache import cache_statistics, clear_cache, disable_cache, enable_cache, is_cache_enabled
    from zellige.diagnostics import CompileError, InternalError, LaunchError, Unsupported, ZelligeError, ZelligeWarning
    from zellige.dtypes import DType, dtype, dtype as DataType
    from zellige.explain import Explanation, explain
    from zellige.jit import JITFunction, compile, jit, par_compile
    from zellige.kernel import JITKernel
    from zellige.layout import Fragment, Layout
    from zellige.log import set_log_level
    from zellige.lowering import lower
    from zellige.math import cdiv, next_power_of_2
    from zellige.pass_configs import PassConfigKey
    from zellige.plan.split_sums import SplitSums
    from zellige.profiler import Profiler, TensorSupplyType, do_bench
    from zellige.target import Target

__all__ = [
    "AutoTuner", "CompileError", "DType", "DataType", "Explanation", "Fragment", "InternalError", "JITFunction", "JITKernel",
    "LaunchError", "Layout", "PassConfigKey", "Profiler", "SplitSums", "Target", "TensorSupplyType", "Unsupported", "ZelligeError",
    "ZelligeWarning", "__version__", "autotune", "autotuner", "cache", "cache_statistics", "cdiv", "clear_cache", "compile",
    "disable_cache", "do_bench", "dtype", "dtypes", "enable_cache", "explain", "is_cache_enabled", "jit", "language", "layout", "lower",
    "math", "next_power_of_2", "par_compile", "profiler", "set_log_level", "testing", "transform", "tvm",
]  # fmt: skip

_MODULES: Final[dict[str, str]] = {
    name: name for name in ("autotuner", "cache", "dtypes", "language", "layout", "math", "profiler", "testing", "transform", "tvm")
}

_NAMES: Final[dict[str, str]] = {
    name: module
    for module, names in {
        "autotune": ("AutoTuner", "autotune"),
        "cache": ("cache_statistics", "clear_cache", "disable_cache", "enable_cache", "is_cache_enabled"),
        "diagnostics": ("CompileError", "InternalError", "LaunchError", "Unsupported", "ZelligeError", "ZelligeWarning"),
        "dtypes": ("DType", "DataType", "dtype"),
        "explain": ("Explanation", "explain"),
        "jit": ("JITFunction", "compile", "jit", "par_compile"),
        "kernel": ("JITKernel",),
        "layout": ("Fragment", "Layout"),
        "log": ("set_log_level",),
        "lowering": ("lower",),
        "math": ("cdiv", "next_power_of_2"),
        "pass_configs": ("PassConfigKey",),
        "plan.split_sums": ("SplitSums",),
        "profiler": ("Profiler", "TensorSupplyType", "do_bench"),
        "target": ("Target",),
    }.items()
    for name in names
}

_OTHER_NAMES: Final = {"DataType": "dtype"}
"""Names under which programs written for TileLang know something of another name."""


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        value = getattr(import_module(f"zellige.{_NAMES[name]}"), _OTHER_NAMES.get(name, name))
        setattr(sys.modules[__name__], name, value)
        return value
    if name in _MODULES:
        return import_module(f"zellige.{_MODULES[name]}")
    from zellige.diagnostics.suggest import closest

    raise AttributeError(f"module 'zellige' has no attribute {name!r}{closest(name, __all__)}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """The module of this package. Importing the submodule ``jit`` would put it in the place of the decorator: the decorator is kept."""

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and _NAMES.get(name) == name:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
