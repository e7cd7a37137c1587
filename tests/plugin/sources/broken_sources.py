"""Sources of backends that are broken on purpose: the machine of the tests with some hooks replaced; and whether a target still works."""

from __future__ import annotations

from typing import Any

import numpy as np

import zellige as zl
import zellige.language as T

HEAD = """
from acme_machine import *
from dataclasses import dataclass, replace
from zellige.plugin import contract
class Broken(AcmeBackend):
"""
TAIL = """
backend = Broken(__name__.removeprefix("plug_"))
"""


def backend(body: str) -> str:
    """The machine of the tests with some hooks replaced."""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    return f"{HEAD}{lines}\n    pass\n{TAIL}"


def manifest(changes: str) -> str:
    return backend(f"@hookimpl\ndef manifest(self):\n    return replace(AcmeBackend.manifest(self), {changes})")


def described(changes: str) -> str:
    return backend(f"@hookimpl\ndef describe(self, target):\n    return replace(AcmeBackend.describe(self, target), {changes})")


def answering(hook: str, arguments: str, answer: str) -> str:
    return backend(f"@hookimpl\ndef {hook}(self{arguments}):\n    return {answer}")


def kernel(method: str) -> str:
    return backend(
        f"@hookimpl\ndef runtime(self):\n    class K(AcmeKernel):\n        {method}\n"
        "    class R:\n        def load(self, binary, kernel, source): return K(binary, source)\n    return R()"
    )


def copying() -> Any:
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(1) as _:
            tile = T.alloc_shared((4, 8), "float32")
            T.copy(A, tile)
            T.copy(tile, B)

    return main


def works(target: str) -> bool:
    a, b = np.arange(32, dtype=np.float32).reshape(4, 8), np.zeros((4, 8), np.float32)
    made = zl.compile(copying(), target=target)
    made(a, b)
    made.get_kernel_source()
    return bool((a == b).all())
