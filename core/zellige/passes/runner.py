"""Runs passes over a kernel, one after the other, and verifies what each makes.

In: a well-formed kernel and a pipeline, which is a visible tuple of passes. Out: the kernel after the last of them. A pass that breaks
an invariant is a bug of the compiler, reported with the pass's name and every diagnostic. Invariants that hold of constants only are
another matter: a pass that folds makes more constants, and what it thereby shows is the author's mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from zellige.diagnostics import CompileError, InternalError, catalogue
from zellige.ir.stmt import Kernel
from zellige.ir.verifier.wording import for_author
from zellige.ir.verify import verify

_OF_CONSTANTS: Final = frozenset((catalogue.E267.id, catalogue.E276.id, catalogue.E278.id))
"""What is checked wherever numbers are known: extents that agree, extents and sizes in range."""


class Pass(Protocol):
    """A function of a kernel with a name, usually a frozen dataclass whose fields are its options.

    It returns the same object where it has changed nothing.
    """

    @property
    def name(self) -> str:
        """What the pass is called in dumps and messages: lower case, words joined by hyphens."""

    def __call__(self, kernel: Kernel, /) -> Kernel:
        """The kernel after the pass. The kernel given is well formed, and so is the result."""


def run_passes(kernel: Kernel, pipeline: Sequence[Pass], *, observe: Callable[[str, Kernel], None] | None = None) -> Kernel:
    """``kernel`` after all passes of ``pipeline``.

    ``observe`` is called after each pass with its name and its result. Raises :class:`InternalError` when a result is not well formed,
    :class:`CompileError` where all that is wrong is numbers that are known now.
    """
    for step in pipeline:
        result = step(kernel)
        if result is not kernel:
            diagnostics = verify(result)
            if diagnostics and all(d.code in _OF_CONSTANTS for d in diagnostics):
                raise CompileError(*for_author(diagnostics))
            if diagnostics:
                details = "\n".join(d.render() for d in diagnostics)
                raise InternalError(f"pass {step.name} made a kernel that is not well formed:\n{details}")
            kernel = result
        if observe is not None:
            observe(step.name, kernel)
    return kernel
