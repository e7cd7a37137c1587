"""What a pass of a backend or a user leaves as it is: the program that it is shown, and the parameters of the kernel.

In: a program before a pass and after it. Out: texts that are the same as long as nobody changes the program (:func:`text_of_kernel`,
:func:`text_of_plan`), and what a pass did to the parameters (:func:`changed_parameters`). Calls are laid out by the parameters before
passes run: a pass that reorders them would have a kernel read and write the wrong tensors. A tensor of a vector type may become one of
its scalars with the lanes as the last dimension, which is what a call hands over for either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from zellige.ir.printer import print_kernel
from zellige.ir.stmt import Kernel, Param, TensorParam
from zellige.plugin.interruption import is_blameless

if TYPE_CHECKING:
    from zellige.plan.nodes import PlannedKernel


def text_of_kernel(kernel: Kernel) -> str:
    """The whole of a kernel."""
    return print_kernel(kernel)


def text_of_plan(planned: PlannedKernel) -> str:
    """A plan, what was decided for it and the kernel that it is of."""
    from zellige.plan.printer import print_plan

    decisions = [f"{d.question} {d.chosen} {d.because}" for launch in planned.launches for d in launch.decisions]
    return "\n".join([print_kernel(planned.kernel), print_plan(planned), *decisions])


def is_changed(value: Any, before: object, look: Callable[[Any], object]) -> bool:
    """Whether ``look`` sees something else than ``before``; what can no longer be looked at was changed. Raises what is nobody's failure,
    such as a MemoryError."""
    try:
        return look(value) != before
    except Exception as error:  # what a changed program makes the printer raise is another thing for each change
        if is_blameless(error):
            raise
        return True


def changed_parameters(before: Kernel, after: Kernel) -> str:
    """What is another about the parameters and results of a kernel, in words; empty where nothing is: their order, names, roles, types and
    shapes. Another tensor or number may stand in the place of one that it looks like."""
    if after.params == before.params and after.results == before.results:
        return ""
    if len(after.params) != len(before.params):
        return f"it had {len(before.params)} and has {len(after.params)}"
    was, now = (_text_of_parameters(kernel) for kernel in (before, after))
    for old, new in zip_longest(was, now, fillvalue="nothing"):
        if old != new:
            return f"{_shown(old)} became {_shown(new)}"
    places = {id(_held(param)): at for at, param in enumerate(before.params)}
    for at, param in enumerate(after.params):
        if places.get(id(_held(param)), at) != at:
            return f"parameter {at} is what was parameter {places[id(_held(param))]}"
    return ""


def _text_of_parameters(kernel: Kernel) -> list[str]:
    """The lines of a kernel that is its parameters alone, those of vector types as the arrays of scalars that a call hands over."""
    alone = replace(kernel, name="kernel", launches=())
    if any(isinstance(param, TensorParam) and param.buffer.dtype.lanes != 1 for param in kernel.params):
        from zellige.passes.expand_vectors import expand_vectors

        alone = expand_vectors(alone)
    return print_kernel(alone).splitlines()


def _shown(line: str) -> str:
    return line.strip().rstrip(",")


def _held(param: Param) -> object:
    return param.buffer if isinstance(param, TensorParam) else param.var
