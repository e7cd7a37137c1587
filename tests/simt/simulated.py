"""What tests of the simulator share: a machine, kernels lowered for it, the same call on the interpreter and on the simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import zellige
from zellige.driver import PIPELINE
from zellige.ir.stmt import Kernel, TensorParam
from zellige.passes.runner import run_passes
from zellige.plan.planner import plan
from zellige.simt.ir import Module
from zellige.simt.lower import lower
from zellige.simt.machine import LaneMachine
from zellige.simt.simulate.report import Report
from zellige.simt.simulate.run import simulate
from zellige.target import parse_target
from zellige_cuda.architectures import architecture
from zellige_cuda.describe import capabilities, lane_machine

TARGET = "cuda:sm_80,simulate"


def machine(arch: str = "sm_80") -> LaneMachine:
    target = parse_target(f"cuda:{arch}")
    return lane_machine(architecture(target), capabilities(architecture(target), str(target)))


def lowered(function: Any, arch: str = "sm_80") -> tuple[Kernel, Module]:
    """The legal kernel of a function and its thread-level program."""
    legal = run_passes(function.kernel, PIPELINE)
    found = machine(arch)
    return legal, lower(plan(legal, found.capabilities), found)


def run_module(kernel: Kernel, module: Module, arrays: Sequence[Any], *, seed: int = 0, report: Report | None = None) -> None:
    """Run a program of a kernel whose parameters are all tensors."""
    tensors = [p.buffer for p in kernel.params if isinstance(p, TensorParam)]
    simulate(module, {t: a.reshape(-1).view(np.uint8) for t, a in zip(tensors, arrays)}, {}, seed=seed, report=report)


def agree(function: Any, *arguments: Any, exact: bool = True, target: str = TARGET) -> list[Any]:
    """Call a kernel on the interpreter and on the simulator with copies of the arguments; the arrays must come out the same."""
    results = []
    for name in ("interp", target):
        given = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
        kernel = zellige.compile(function, target=name)
        kernel(*given)
        results.append([a for a in given if isinstance(a, np.ndarray)])
    for want, found in zip(*results):
        if exact:
            np.testing.assert_array_equal(found, want)
        else:
            np.testing.assert_allclose(found.astype(np.float64), want.astype(np.float64), rtol=2e-3, atol=2e-3)
    return results[1]


def whole_numbers(shape: Any, dtype: Any, seed: int = 0, low: int = -3, high: int = 4) -> Any:
    """Small integers, whose sums every type holds exactly."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


Make = Callable[..., Any]
