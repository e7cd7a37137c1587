"""``out_idx``: the tensors that a call returns instead of taking them.

In: a kernel and the indices. Out: the kernel with those parameters as outputs. Also checked here, for outputs of every origin: each
size in an output's shape follows from the inputs (E251).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zellige.diagnostics import catalogue
from zellige.ir.expr import Var
from zellige.ir.sizes import SizeSystem
from zellige.ir.stmt import Kernel, ScalarParam, TensorParam
from zellige.ir.traverse import rebuilt, walk


def name_outputs(kernel: Kernel, out_idx: int | Sequence[int] | None) -> Kernel:
    """``kernel`` with the parameters that ``out_idx`` names as outputs, returned in that order. E151, E152, E158, E168, E251."""
    if out_idx is not None:
        if kernel.results:
            raise catalogue.E152.error(kernel.span, function=kernel.name)
        indices = _indices(kernel, out_idx)
        params = tuple(
            rebuilt(param, role="output") if i in indices and isinstance(param, TensorParam) else param for i, param in
            enumerate(kernel.params)
        )
        kernel = rebuilt(kernel, params=params, results=tuple(indices))
    _check_sizes(kernel)
    return kernel


def without_outputs(kernel: Kernel, out_idx: object) -> Kernel:
    """The kernel as it was before :func:`name_outputs` made outputs of what ``out_idx`` names."""
    if out_idx is None:
        return kernel
    params = (rebuilt(p, role="argument") if isinstance(p, TensorParam) and p.role == "output" else p for p in kernel.params)
    return rebuilt(kernel, params=tuple(params), results=())


def _indices(kernel: Kernel, out_idx: Any) -> list[int]:
    # Workspaces come after the parameters that the user declared and are none of them.
    count = sum(not (isinstance(param, TensorParam) and param.role == "workspace") for param in kernel.params)
    given = [out_idx] if isinstance(out_idx, int) else list(out_idx)
    indices: list[int] = []
    for index in given:
        if not isinstance(index, int) or isinstance(index, bool) or not -count <= index < count:
            raise catalogue.E151.error(kernel.span, given=repr(index), function=kernel.name, count=count)
        position = index % count
        param = kernel.params[position]
        if isinstance(param, ScalarParam):
            raise catalogue.E158.error(param.var.span or kernel.span, given=index, name=param.var.label)
        if position in indices:
            raise catalogue.E168.error(param.buffer.span or kernel.span, given=out_idx, name=param.buffer.label)
        indices.append(position)
    return indices


def _check_sizes(kernel: Kernel) -> None:
    """Every size of a tensor that the runtime makes follows from the shapes and strides of the arguments, or is a number parameter."""
    sizes = SizeSystem.of(kernel)
    known: set[Var] = {p.var for p in kernel.params if isinstance(p, ScalarParam)} | (set(sizes.variables) - set(sizes.unsolved))
    for param in kernel.params:
        if not isinstance(param, TensorParam) or param.role == "argument":
            continue
        for expr in param.buffer.shape:
            for node in walk(expr):
                if isinstance(node, Var) and node not in known:
                    raise catalogue.E251.error(param.buffer.span or kernel.span, name=param.buffer.label, size=node.name)
