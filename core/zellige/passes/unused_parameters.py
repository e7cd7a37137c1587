"""Kernels without the tensors that they do not mention, for programs that ask for it (:mod:`zellige.transform.simplify`).

In: a verified kernel. Out: one with the same launches, whose calls take and return the same but for the tensors left out; the same object
where each is used.
"""

from __future__ import annotations

from dataclasses import replace

from zellige.ir.expr import Expr, Var
from zellige.ir.stmt import Kernel, ScalarParam, TensorParam
from zellige.ir.traverse import buffers_in, walk


def without_unused_tensors(kernel: Kernel) -> Kernel:
    """Leaves out each argument that no launch mentions. One that alone gives a size which the rest needs stays; numbers stay."""
    mentioned = {buffer.root for launch in kernel.launches for buffer in buffers_in(launch)}
    kept = {n for n, p in enumerate(kernel.params) if not _is_argument(p) or (isinstance(p, TensorParam) and p.buffer in mentioned)}
    in_launches = {node for launch in kernel.launches for node in walk(launch) if isinstance(node, Var)}
    for index, param in enumerate(kernel.params):
        if index not in kept and isinstance(param, TensorParam) and _sizes_needed(kernel, kept, in_launches) & _direct_sizes(param):
            kept.add(index)
    if len(kept) == len(kernel.params):
        return kernel
    places = {old: new for new, old in enumerate(sorted(kept))}
    return replace(
        kernel,
        params=tuple(kernel.params[index] for index in places),
        results=tuple(places[index] for index in kernel.results),
    )


def _is_argument(param: TensorParam | ScalarParam) -> bool:
    return isinstance(param, TensorParam) and param.role == "argument"


def _extents(param: TensorParam) -> tuple[Expr, ...]:
    return (*param.buffer.shape, *(param.buffer.strides or ()))


def _direct_sizes(param: TensorParam | ScalarParam) -> set[Var]:
    """The sizes that an argument gives: those that stand alone in its shape or strides, or itself."""
    if isinstance(param, ScalarParam):
        return {param.var}
    return {extent for extent in _extents(param) if isinstance(extent, Var)} if param.role == "argument" else set()


def _sizes_needed(kernel: Kernel, kept: set[int], in_launches: set[Var]) -> set[Var]:
    """The sizes that the launches and the kept tensors mention and that no kept argument gives."""
    params = [kernel.params[index] for index in kept]
    places = [expr for param in params if isinstance(param, TensorParam) for expr in _extents(param)]
    used = in_launches | {node for top in places for node in walk(top) if isinstance(node, Var)}
    return used - {var for param in params for var in _direct_sizes(param)}
