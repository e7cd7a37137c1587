"""A kernel that the interpreter runs, as the contract has it.

In: a kernel, then addresses and numbers at each launch. Out: memory changed as the kernel says. ``ZELLIGE_CHECKS`` asks for reports, which
come as warnings; ``ZELLIGE_LANES`` is the width of a warp.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zellige.diagnostics import Diagnostic, catalogue
from zellige.diagnostics.warn import warn
from zellige.interp.expressions import layout_of
from zellige.interp.frame import Frame, Place, Run
from zellige.interp.lanes import TARGET
from zellige.interp.launch import NO_REPORT, run_kernel, scalar_value
from zellige.interp.memory import Memory, memory_at, storage_bytes
from zellige.interp.report import Report
from zellige.ir.printer import print_kernel
from zellige.ir.sizes import size_vars
from zellige.ir.stmt import Kernel, ScalarParam, TensorParam
from zellige.options import options


class InterpretedKernel:
    """A kernel that runs on the interpreter. ``findings`` are those of the last launch."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.findings: tuple[Diagnostic, ...] = ()
        self._sizes = size_vars(kernel)

    def launch(self, pointers: Sequence[int], scalars: Sequence[int | float], sizes: Sequence[int]) -> None:
        """Run the kernel on the memory at ``pointers``."""
        variables = [param.var for param in self.kernel.params if isinstance(param, ScalarParam)]
        values = {var: scalar_value(value, var.dtype) for var, value in [*zip(variables, scalars), *zip(self._sizes, sizes)]}
        tensors = [param for param in self.kernel.params if isinstance(param, TensorParam)]
        run = Run(report=NO_REPORT, warp=1, random=np.random.default_rng(0))
        frame = Frame(kind="block", count=1, values=values, places={})
        memories = []
        for param, pointer in zip(tensors, pointers):
            layout = layout_of(run, frame, param.buffer, Place(memory=Memory.fresh(0, param.buffer.dtype)))
            memories.append(memory_at(pointer, storage_bytes(layout.span, param.buffer.dtype)))
        checks = options().checks
        report = Report(races="races" in checks, undefined="undefined" in checks, bounds="bounds" in checks)
        self.findings = run_kernel(self.kernel, values, memories, lanes=options().lanes, report=report)
        for finding in self.findings:
            warn(finding)

    def source(self) -> str:
        """The tile IR, which is what runs."""
        return print_kernel(self.kernel)

    def assembly(self) -> str:
        """Refused: there is no machine code."""
        raise catalogue.E440.error(
            self.kernel.span, target=TARGET, what="machine code", known="it interprets the tile IR, which source() prints"
        )
