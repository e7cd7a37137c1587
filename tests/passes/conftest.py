"""Passes are judged by the interpreter: what they make must mean what they were given."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from zellige.interp import interpret
from zellige.ir.parser import parse_kernel
from zellige.ir.stmt import Kernel
from zellige.ir.verify import check


def block_kernel(parameters: str, body: str, launch: str = "launch(1) as (bx,)") -> Kernel:
    """A verified kernel of one launch."""
    lines = textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8)
    kernel = parse_kernel(f"# tile-ir 1.0\n\n\ndef k({parameters}):\n    with {launch}:\n{lines}\n")
    check(kernel)
    return kernel


@pytest.fixture(scope="session")
def same_meaning() -> Callable[..., Kernel]:
    """``same_meaning(transform, parameters, body, *arguments, launch=...)``: the transformed kernel, after both were run."""

    def run(
        transform: Callable[[Kernel], Kernel], parameters: str, body: str, *arguments: Any, launch: str = "launch(1) as (bx,)"
    ) -> Kernel:
        kernel = block_kernel(parameters, body, launch)
        changed = transform(kernel)
        before = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        after = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        interpret(kernel, before)
        interpret(changed, after)
        for one, other in zip(before, after):
            if isinstance(one, np.ndarray):
                np.testing.assert_array_equal(one.astype(np.float64), other.astype(np.float64))
        return changed

    return run
