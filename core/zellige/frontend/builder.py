"""Collects the statements of the kernel that is being traced.

The evaluator and the functions of :mod:`zellige.language` emit statements here; :meth:`Builder.kernel` hands out the finished tile IR.
The builder of the trace in progress is the one piece of ambient state of the front end (``T.copy(...)`` inside a plain Python function
must reach it): it lives in a context variable and exists only while a kernel is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zellige.analysis.unset_names import unset_reads
from zellige.diagnostics import Span, catalogue
from zellige.diagnostics.warn import warn
from zellige.dtypes import DType
from zellige.frontend.readings import without_needless_readings
from zellige.ir.expr import INT32, Buffer, Expr, Var, VarKind, const
from zellige.ir.stmt import Alloc, Barrier, Bind, Hint, Kernel, Launch, Param, SafeValue, Stmt, TensorParam
from zellige.ir.traverse import rewrite

if TYPE_CHECKING:
    from zellige.frontend.reducers import Reducer
    from zellige.frontend.scopes import Trace
    from zellige.language.random import Generator

_current: ContextVar[Builder | None] = ContextVar("zellige_builder", default=None)


def current_builder(operation: str) -> Builder:
    """The builder of the trace in progress; E101 names ``operation`` when no kernel is being traced."""
    builder = _current.get()
    if builder is None:
        raise catalogue.E101.error(None, operation=operation)
    return builder


def current_launch(operation: str) -> LaunchDraft:
    """The launch that is being traced. E101 outside of a kernel, and what :meth:`Builder.require_body` raises outside of T.Kernel, name
    ``operation``."""
    builder = current_builder(operation)
    builder.require_body(operation)
    assert builder.launch is not None
    return builder.launch


def tracing() -> Builder | None:
    """The builder of the trace in progress, if there is one."""
    return _current.get()


@dataclass(eq=False)
class Points:
    """A T.Parallel loop while its body is traced.

    ``depth`` is the number of its body; ``state`` is what operations keep of one loop; ``at_end`` is called when the body is complete and
    gives statements to put before and after the loop.
    """

    axes: tuple[Var, ...]
    extents: tuple[Expr, ...]
    depth: int
    state: dict[str, Any] = field(default_factory=dict)
    at_end: list[Callable[[], tuple[list[Stmt], list[Stmt]]]] = field(default_factory=list)


@dataclass(eq=False)
class Settings:
    """What the body of a kernel says about its compilation: T.annotate_pass_configs, by key as written, and T.annotate_compile_flags."""

    pass_configs: dict[Any, Any] = field(default_factory=dict)
    compile_flags: list[str] = field(default_factory=list)


@dataclass
class LaunchDraft:
    """A T.Kernel block while its body is traced."""

    grid_vars: tuple[Var, ...]
    grid: tuple[Expr, ...]
    threads: tuple[Expr, ...] | None
    cluster: tuple[int, ...] | None = None
    lane_vars: tuple[Var, ...] = ()
    warp: Var | None = None
    safe_values: list[SafeValue] = field(default_factory=list)
    hints: list[Hint] = field(default_factory=list)
    span: Span | None = None
    implied_by: str = ""  # what stands outside of T.Kernel in a kernel without any
    has_barriers: bool = False
    claimed: set[int] = field(default_factory=set)  # dimensions of the grid that such a kernel gave an extent
    generator: Generator | None = None  # of random numbers, once T.rng_init started it

    def lanes(self) -> tuple[Var, ...]:
        """The lane variables, made on the first query: from then on the launch has exactly that many lanes."""
        if not self.lane_vars:
            extents = self.threads or (const(128),)
            self.threads = extents
            names = ("tx", "ty", "tz")
            self.lane_vars = tuple(Var(name=names[axis], dtype=INT32, kind="lane") for axis in range(len(extents)))
        return self.lane_vars

    def warp_width(self) -> Var:
        """How many lanes a warp has, which the target says: made on the first question."""
        self.lanes()
        if self.warp is None:
            self.warp = Var(name="warp", dtype=INT32, kind="lane")
        return self.warp

    def claim_blocks(self, dim: int, extent: Expr) -> None:
        """In a kernel without T.Kernel, blocks along ``dim`` of the grid where nothing gave it an extent yet."""
        if not self.implied_by or dim in self.claimed or dim > len(self.grid):
            return
        self.claimed.add(dim)
        if dim == len(self.grid):
            self.grid_vars += (Var(name=("bx", "by", "bz")[dim], dtype=INT32, kind="grid"),)
        self.grid = (*self.grid[:dim], extent, *self.grid[dim + 1 :])

    def claim_lanes(self, dim: int, extent: Expr) -> None:
        """In a kernel without T.Kernel, lanes along ``dim`` of ``threads`` where nothing gave it an extent yet."""
        threads = self.threads or ()
        if not self.implied_by or dim != len(threads):
            return
        self.threads = (*threads, extent)
        self.lane_vars += (Var(name=("tx", "ty", "tz")[dim], dtype=INT32, kind="lane"),)

    def finish(self, body: tuple[Stmt, ...]) -> Launch:
        """The launch. In one without lanes, barriers of a block have nothing to wait for and are left out."""
        launch = Launch(
            grid_vars=self.grid_vars,
            grid=self.grid,
            threads=self.threads,
            lane_vars=self.lane_vars,
            warp=self.warp,
            cluster=self.cluster,
            safe_values=tuple(self.safe_values),
            hints=tuple(self.hints),
            body=body,
            span=self.span,
        )
        return rewrite(launch, _without_barrier) if self.has_barriers and not self.lane_vars else launch


def _without_barrier(node: Any) -> Any:
    return () if isinstance(node, Barrier) and node.scope in ("warp", "block") else node


class Builder:
    """The kernel under construction: parameters, finished launches, the open launch and its open bodies.

    ``span`` is where the evaluator is in the user's source; every node made takes it.
    """

    def __init__(self, name: str, span: Span | None = None) -> None:
        self.name = name
        self.span: Span | None = span
        self.params: list[Param] = []
        self.launches: list[Launch] = []
        self.launch: LaunchDraft | None = None
        self.reducers: dict[Buffer, Reducer] = {}  # every reducer of the kernel, whatever its state
        self.scalar_views: dict[Buffer, Buffer] = {}  # the scalars of buffers of vectors
        self.results: list[Buffer] = []
        self.settings = Settings()
        self.trace: Trace | None = None  # the interpretation that this builder belongs to
        self.targets: tuple[str, ...] = ()  # the names that the with statement gives to what its manager enters with
        self.wanted: str | None = None  # the name that the evaluator is about to give to what an operation makes
        self.constants: dict[str, int] | None = None  # values of T.const sizes once they are solved
        self.unsolved: dict[str, Var] | None = None  # T.const sizes met while they are being solved; None outside the eager style
        self.deferred: list[Stmt] = []  # run-time assertions on sizes: they run at the beginning of the next launch
        self.before_launch: Callable[[], None] | None = None
        self.after_placement: Callable[[], None] | None = None  # called when a tensor parameter has got its shape
        self.used_constants: set[str] = set()
        self.reduce_scopes: list[Any] = []  # the reducers of the T.attr blocks around, the innermost last
        self.unopened: list[LaunchDraft] = []  # what T.Kernel made and no with statement has opened yet
        self.point_depths: list[int] = []  # the numbers of the bodies of the open T.Parallel loops
        self.points: list[Points] = []  # the open T.Parallel loops themselves
        self.unset: dict[Var, str] = {}  # variables that hold 0 until run-time control assigns them, with the names of the author
        self.readings: set[Var] = set()  # values of the open launch that were taken in case something changes them
        self._bodies: list[list[Stmt]] = []
        self._implicit: LaunchDraft | None = None
        self._names: dict[str, int] = {}

    @contextmanager
    def active(self) -> Iterator[Builder]:
        """Makes this the builder that the language's functions reach."""
        token = _current.set(self)
        try:
            yield self
        finally:
            _current.reset(token)

    @contextmanager
    def at(self, span: Span | None) -> Iterator[None]:
        """Nodes made inside take ``span``."""
        before, self.span = self.span, span
        try:
            yield
        finally:
            self.span = before

    def emit(self, statement: Stmt) -> None:
        """Appends to the innermost open body; E102 outside of the T.Kernel blocks of a kernel that has some."""
        if not self._bodies:
            self.require_body(type(statement).__name__)
        self._bodies[-1].append(statement)

    def require_body(self, operation: str) -> None:
        """Makes sure that a body is open. A kernel without any T.Kernel block is one launch of one block; E102 in a kernel that has
        blocks.
        """
        if self._bodies:
            return
        if self.launches:
            raise catalogue.E102.error(self.span, operation=operation)
        block = self.var("bx", INT32, "grid")
        self._implicit = LaunchDraft(grid_vars=(block,), grid=(const(1),), threads=None, span=self.span, implied_by=operation)
        self.launch = self._implicit
        self._bodies.append([])

    def _finish_implicit(self) -> None:
        if self._implicit is not None:
            self.launches.append(self._finished(self._implicit, (*self.deferred, *self._bodies.pop())))
            self._implicit = self.launch = None
            self.deferred = []

    @contextmanager
    def body(self) -> Iterator[list[Stmt]]:
        """Opens a nested body; what is emitted inside lands in the list."""
        statements: list[Stmt] = []
        self._bodies.append(statements)
        try:
            yield statements
        finally:
            self._bodies.pop()

    @property
    def is_inside_launch(self) -> bool:
        """Whether statements can be emitted: a T.Kernel block is open."""
        return bool(self._bodies)

    def mark(self) -> tuple[list[Stmt], int] | None:
        """The place where the next statement lands, for :meth:`changed_since` and :meth:`insert`; None outside T.Kernel."""
        return (self._bodies[-1], len(self._bodies[-1])) if self._bodies else None

    @staticmethod
    def changed_since(mark: tuple[list[Stmt], int] | None) -> bool:
        """Whether statements other than Bind were emitted at ``mark`` or after it: those may change what an earlier expression reads."""
        return mark is not None and any(not isinstance(s, Bind) for s in mark[0][mark[1] :])

    @staticmethod
    def insert(mark: tuple[list[Stmt], int], statement: Stmt) -> None:
        """Puts ``statement`` at ``mark``."""
        mark[0].insert(mark[1], statement)

    @property
    def depth(self) -> int:
        """How many bodies are open."""
        return len(self._bodies)

    def emit_at(self, depth: int, statement: Stmt) -> None:
        """Appends to the open body number ``depth`` (1 is the launch's): hoists a declaration out of nested bodies."""
        self._bodies[depth - 1].append(statement)

    @contextmanager
    def launching(self, draft: LaunchDraft) -> Iterator[LaunchDraft]:
        """The T.Kernel block; appended to the kernel when it ends without an error. E103: in another block; E102: after loose statements.
        E165 warns of names that may be read without a value.
        """
        if self._implicit is not None:
            raise catalogue.E102.error(self._implicit.span, operation=self._implicit.implied_by)
        if self.launch is not None:
            raise catalogue.E103.error(self.span)
        if self.before_launch is not None:
            self.before_launch()
        self.launch = draft
        self.unopened = [other for other in self.unopened if other is not draft]
        try:
            with self.body() as statements:
                statements.extend(self.deferred)
                self.deferred = []
                yield draft
        finally:
            self.launch = None
        launch = self._finished(draft, tuple(statements))
        found = ((self.unset[var], read.span, control) for var, read, control in unset_reads(launch.body, self.unset.keys()))
        for name, place, control in dict.fromkeys(found):  # once for all lanes of a vector
            warn(catalogue.E165.diagnose(place, name=name, control=control, severity="warning"))
        self.launches.append(launch)

    def _finished(self, draft: LaunchDraft, statements: tuple[Stmt, ...]) -> Launch:
        launch = draft.finish(statements)
        if self.readings:
            launch = without_needless_readings(launch, self.readings, self.unique)
            self.readings = set()
        return launch

    def name_for(self, default: str) -> str:
        """The name that the author is about to give to what is made now (``tile = T.alloc_shared(...)``), once; else ``default``."""
        name, self.wanted = self.wanted, None
        return name or default

    def constant_size(self, name: str, dtype: DType) -> int | Var:
        """A T.const size: its value, or a variable while the values are being solved from a call. E153 outside the eager style."""
        if self.constants is not None and name in self.constants:
            self.used_constants.add(name)
            return self.constants[name]
        if self.unsolved is None:
            raise catalogue.E153.error(self.span)
        return self.unsolved.setdefault(name, Var(name=name, dtype=dtype, kind="size", span=self.span))

    def empty(self, name: str, dtype: DType, shape: tuple[Expr, ...]) -> Buffer:
        """A fresh dense tensor that the runtime makes for each call: an output where the kernel returns it, workspace otherwise."""
        buffer = Buffer(name=self.unique(name), source_name=name, dtype=dtype, shape=shape, space="global", span=self.span)
        self.params.append(TensorParam(buffer=buffer, role="workspace"))
        return buffer

    def unique(self, name: str) -> str:
        """``name``, or with a number where it is taken."""
        seen = self._names.get(name, 0)
        self._names[name] = seen + 1
        return name if seen == 0 else f"{name}_{seen}"

    def var(self, name: str, dtype: DType, kind: VarKind, *, label: str = "") -> Var:
        """A fresh variable whose name is unique in the kernel. The author calls it ``name``, or ``label``."""
        return Var(name=self.unique(name), source_name=label or name, dtype=dtype, kind=kind, span=self.span)

    def reading(self, value: Expr, mark: tuple[list[Stmt], int] | None = None) -> Var:
        """A variable that holds what ``value`` is now, or was at ``mark``. It is gone from the finished launch where nothing changes
        ``value`` before its uses (:mod:`zellige.frontend.readings`)."""
        name = value.label if isinstance(value, Var) else "..."
        var = Var(name="value", source_name=name, dtype=value.dtype, kind="value", span=self.span)
        self.readings.add(var)
        statement = Bind(var=var, value=value, span=self.span)
        self.emit(statement) if mark is None else self.insert(mark, statement)
        return var

    def allocate(self, name: str, dtype: DType, shape: tuple[Expr, ...], space: str) -> Buffer:
        """A fresh on-chip buffer and its Alloc statement."""
        name = self.name_for(name)
        buffer = Buffer(name=self.unique(name), source_name=name, dtype=dtype, shape=shape, space=space, span=self.span)
        self.emit(Alloc(buffer=buffer, span=self.span))
        return buffer

    def kernel(self) -> Kernel:
        """The finished kernel (not yet verified). E163: a T.Kernel that no with statement opened."""
        if self.unopened:
            raise catalogue.E163.error(self.unopened[0].span)
        self._finish_implicit()
        results = set(self.results)
        params = [
            TensorParam(buffer=p.buffer, role="output") if isinstance(p, TensorParam) and p.role == "workspace" and p.buffer in results
            else p
            for p in self.params
        ]
        positions = {param.buffer: i for i, param in enumerate(params) if isinstance(param, TensorParam)}
        return Kernel(
            name=self.name,
            params=tuple(params),
            launches=tuple(self.launches),
            results=tuple(positions[buffer] for buffer in self.results),
            span=self.span,
        )


__all__ = ["Builder", "LaunchDraft", "Points", "Settings", "current_builder", "tracing"]
