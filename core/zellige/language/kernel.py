"""T.Kernel: the block of a launch, and what a block can ask about itself."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from zellige.diagnostics import catalogue
from zellige.frontend import arithmetic
from zellige.frontend.builder import LaunchDraft, current_builder
from zellige.frontend.loops import GridSpec
from zellige.frontend.values import Scalar, here
from zellige.ir.expr import INT32, Const, Expr, const
from zellige.ir.stmt import NamedHint
from zellige.ir.traverse import rebuilt
from zellige.language.keywords import accept, check_hints, count_of

DEFAULT_THREADS = 128
_GRID_NAMES = ("bx", "by", "bz")


class GridVariables(tuple[Scalar, ...]):
    """The grid variables of a launch of several dimensions."""

    __slots__ = ()
    is_grid = True
    is_group = True

    @property
    def described(self) -> str:
        return f"the {len(self)} block indices of T.Kernel"


class SoleGridVariable(Scalar):
    """The grid variable of a one-dimensional launch; ``as (bx,)`` unpacks it too."""

    __slots__ = ()
    is_grid = True

    def __iter__(self) -> Any:
        return iter((Scalar(self.expr),))

    def __len__(self) -> int:
        return 1

    def __getitem__(self, axis: int) -> Scalar:
        return (Scalar(self.expr),)[axis]


class KernelBlock(AbstractContextManager[Any]):
    """The context manager that T.Kernel returns; entering it opens the launch and gives its grid variables."""

    def __init__(self, draft: LaunchDraft, count: int) -> None:
        self._draft = draft
        self._count = count
        self._open: AbstractContextManager[LaunchDraft] | None = None

    def __enter__(self) -> Any:
        self._open = current_builder("T.Kernel").launching(self._draft)
        self._open.__enter__()
        builder = current_builder("T.Kernel")
        names, builder.targets = builder.targets, ()
        if names and len(names) == self._count:
            named = zip(self._draft.grid_vars, names)
            self._draft.grid_vars = tuple(var if name == "_" else rebuilt(var, source_name=name) for var, name in named)
        variables = [Scalar(var) for var in self._draft.grid_vars[: self._count]]
        return SoleGridVariable(variables[0].expr) if len(variables) == 1 else GridVariables(variables)

    def __exit__(self, kind: Any, value: Any, traceback: Any) -> bool | None:
        assert self._open is not None
        return self._open.__exit__(kind, value, traceback)


def Kernel(
    *blocks: Any,
    threads: int | Sequence[int] | None = None,
    prelude: str | None = None,
    cluster_dims: int | Sequence[int] | None = None,
    is_cpu: bool = False,
    **hints: Any,
) -> KernelBlock:
    """Opens a launch over a grid of ``blocks`` (up to three extents, or one T.grid; none is one block).

    ``threads`` (a number or up to three) is a hint until a thread query appears in the block; 128 when omitted. ``cluster_dims``,
    ``is_cpu`` and the keywords of targets are hints. Gives one grid variable an extent. E214: too many extents; E215: a negative one; E216:
    threads.
    """
    builder = current_builder("T.Kernel")
    span = builder.span
    wishes = accept("T.Kernel", hints, ("threads", "prelude", "cluster_dims", "is_cpu"))
    check_hints("T.Kernel", prelude=prelude, is_cpu=is_cpu)
    if len(blocks) == 1 and isinstance(blocks[0], GridSpec):
        extents: tuple[Expr, ...] = blocks[0].extents
    elif len(blocks) == 1 and isinstance(blocks[0], (tuple, list)):
        extents = tuple(arithmetic.index(e, span) for e in blocks[0])
    else:
        extents = tuple(arithmetic.index(e, span) for e in blocks)
    if len(extents) > 3:
        raise catalogue.E214.error(span, given=len(extents))
    count = len(extents)
    extents = extents or (const(1),)
    for extent in extents:
        if isinstance(extent, Const) and extent.value < 0:
            raise catalogue.E215.error(span, given=extent.value)
    draft = LaunchDraft(
        grid_vars=tuple(builder.var(name, INT32, "grid") for name in _GRID_NAMES[: len(extents)]),
        grid=extents,
        threads=_threads(threads),
        cluster=_cluster(cluster_dims),
        span=span,
    )
    draft.hints.extend(NamedHint(name=name, value=value) for name, value in wishes)
    builder.unopened.append(draft)
    return KernelBlock(draft, count)


def _threads(threads: Any) -> tuple[Expr, ...]:
    if threads is None:
        return (const(DEFAULT_THREADS),)
    items = list(threads) if isinstance(threads, (tuple, list)) else [threads]
    result = tuple(arithmetic.index(t, here()) for t in items)
    if not 1 <= len(result) <= 3 or any(isinstance(t, Const) and t.value < 1 for t in result):
        raise catalogue.E216.error(here(), given=arithmetic.describe(threads))
    return result


def _cluster(cluster: Any) -> tuple[int, ...] | None:
    if cluster is None:
        return None
    sizes = tuple(cluster) if isinstance(cluster, (tuple, list)) else (cluster,)
    return tuple(count_of(size, "in cluster_dims") for size in sizes)
