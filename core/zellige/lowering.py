"""``zl.lower``: the program that a target would be given, without compiling it.

In: a prim_func and a target. Out: :class:`LoweredKernel`. It needs neither device nor toolchain where the target's backend emits text
without them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from zellige import driver
from zellige.jit_options import options_of
from zellige.kernel import KernelParam, params_of
from zellige.preparation import prepare


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredKernel:
    """What lowering made: the device's program as text, and the kernel's parameters in order."""

    kernel_source: str
    params: tuple[KernelParam, ...]


def lower(func: Any, target: Any = None, target_host: Any = None, **options: Any) -> LoweredKernel:
    """The program of a prim_func for ``target`` (the process's default unless given).

    ``enable_device_compile=True``: the target's own compiler takes it too, and what it refuses is raised. ``target_host``, ``runtime_only``
    and ``enable_host_codegen`` are accepted: there is one way to call a kernel. E156: not a prim_func; E159: no such option; and what
    compiling raises.
    """
    is_compiled = options.pop("enable_device_compile", False)
    chosen = {name: value for name, value in options.items() if name not in ("runtime_only", "enable_host_codegen")}
    prepared = prepare(func, options_of({"target": target, **chosen}, "lower"))
    if is_compiled:
        prepared.compiled()
    source = driver.dump(prepared.kernel, prepared.target, "source", prepared.options)
    return LoweredKernel(kernel_source=source, params=tuple(params_of(prepared.kernel)))
