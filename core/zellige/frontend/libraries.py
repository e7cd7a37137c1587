"""Which functions and classes of Python's library, NumPy and torch give what follows from their arguments and from a few settings.

In: a module and a name in it, or a library. Out: its settings. Raised: Unclear for what looks at the process, the machine, files, time
or chance. What is not listed counts so: a function that reads it is traced each time, which is right, and slower than it may have to be.
"""

from __future__ import annotations

import re
import sys
from typing import Any, Final

from zellige.frontend.dependencies import Unclear

_PURE: Final = frozenset(
    (
        "__future__", "_abc", "_bisect", "_collections", "_collections_abc", "_functools", "_heapq", "_operator", "_statistics",
        "_struct", "_thread.get_ident", "_warnings", "abc", "ast", "bisect", "builtins", "cmath", "collections", "contextlib",
        "copy", "copyreg", "dataclasses", "enum", "fractions", "functools", "heapq", "itertools", "json", "keyword", "logging",
        "math", "ml_dtypes", "numbers", "numpy", "operator", "re", "reprlib", "statistics", "string", "struct", "textwrap",
        "torch", "types", "typing", "warnings",
    )
)  # fmt: skip
"""Modules, with those inside of them, whose functions follow from their arguments but for those below."""

_OF_THE_PROCESS: Final = frozenset(
    ("__import__", "breakpoint", "compile", "eval", "exec", "exit", "globals", "input", "locals", "open", "quit", "json.load")
    + ("logging.getLogger", "logging.getLevelName", "logging.getLevelNamesMapping", "logging.getLoggerClass", "logging.getHandlerByName")
    + ("logging.getHandlerNames", "logging.getLogRecordFactory")
)

_PARTS: Final = {
    "numpy": frozenset(("_core", "core", "lib", "linalg", "fft", "ma", "polynomial", "dtypes", "typing")),
    "torch": frozenset(("_C", "_tensor", "_VariableFunctions", "fft", "functional", "linalg", "nn", "special", "types")),
}
"""The modules inside of NumPy and torch that are looked at by name alone; what the others give follows from settings, devices or chance."""

_CHANGING: Final = re.compile(
    r"_?(get|rand|load|from_?file|memmap|genfromtxt|initial_seed|seed|manual_seed|default_|normal|bernoulli|multinomial|poisson|empty)"
    r"|_?(are_|set_|seterr|setbuf|use_)|.*_(enabled|available|warn_only)$"
)
"""Names of functions of NumPy and torch that look at settings, files or chance."""

_PATHS: Final = frozenset(("join", "basename", "dirname", "splitext", "split", "normpath", "isabs", "commonpath", "commonprefix"))
"""Functions of os.path that look at text alone."""


def settings_of(library: str) -> tuple[str, ...]:
    """The settings of NumPy or torch, which is loaded, that decide what its functions give and what its arrays look like as text."""
    module: Any = sys.modules[library]
    if library == "numpy":
        return repr(module.get_printoptions()), repr(module.geterr())
    return *(str(getattr(module, name)()) for name in _ASKED_OF_TORCH), repr(module._tensor_str.PRINT_OPTS)


_ASKED_OF_TORCH: Final = (
    "get_default_dtype", "get_default_device", "is_grad_enabled", "is_inference_mode_enabled", "is_autocast_enabled",
    "get_float32_matmul_precision", "are_deterministic_algorithms_enabled",
)  # fmt: skip
"""What torch's functions follow without being told, all of torch 2.6."""


def check_follows_from_arguments(home: str, name: str) -> None:
    """Raises Unclear for a function or class of a library whose results do not follow from its arguments alone."""
    root = home.partition(".")[0]
    if home in ("posixpath", "ntpath", "genericpath"):
        is_pure = name in _PATHS
    elif root in ("numpy", "torch"):
        inside = home.split(".")[1:2]
        is_pure = (not inside or inside[0] in _PARTS[root]) and not _CHANGING.match(name)
    else:
        is_pure = (root in _PURE or f"{home}.{name}" in _PURE) and (name if root == "builtins" else f"{root}.{name}") not in _OF_THE_PROCESS
    if not is_pure:
        raise Unclear
