"""Kernels in recorded graphs of torch: the part ``graphs`` of tools/device_check.py.

In: a CUDA device and torch. Out: nothing; SystemExit says which result was wrong. Every work is recorded twice: as the first call of its
kernel, whose code is loaded beside the recording, and after calls, when core's machine code launches it. Recordings are replayed with other
values in their tensors, with calls outside of them in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from _bounds import Bounded, exact, softmax as softmax_bound
from _harness import compare, to_numpy
from gemm import gemm
from gemm_eager import gemm as gemm_eager
from softmax import softmax
from vector_add import vector_add

import zellige as zl
import zellige.language as T

REPLAYS: Final = 3
CALLS_BEFORE: Final = 4
"""A kernel is launched by machine code after fewer calls."""

Arrays = Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recordable:
    """What is recorded: ``run`` takes tensors of these shapes and returns what it makes, ``expected`` their values in float64."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    run: Callable[..., Arrays]
    expected: Callable[..., Sequence[Bounded | Any]]


# ---- torch's part, which tests stand in for ----


def tensor(values: Any, dtype: str) -> Any:
    """Values on the device."""
    import torch

    return torch.from_numpy(np.asarray(values, np.float64)).to(getattr(torch, dtype)).cuda()


def recorded(run: Callable[[], Arrays]) -> tuple[Callable[[], None], Arrays]:
    """What replays ``run``, and the tensors to which a replay writes."""
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = run()
    return graph.replay, made


@contextmanager
def beside() -> Iterator[None]:
    """In a stream of its own, after what the current one did before and before what it does afterwards."""
    import torch

    current, side = torch.cuda.current_stream(), torch.cuda.Stream()
    side.wait_stream(current)
    with torch.cuda.stream(side):
        yield
    current.wait_stream(side)


# ---- what is recorded ----


def works() -> Iterator[Recordable]:
    """Each with a kernel that was not called before."""
    m, n, k = 131, 67, 45
    lazy, eager = gemm(m, n, k, "float16"), partial(gemm_eager, dtype="float16")
    for name, kernel in (("GEMM", lazy), ("GEMM with T.empty", eager)):
        yield Recordable(name=name, shapes=((m, k), (k, n)), dtype="float16", run=_alone(kernel), expected=_alone(np.matmul))
    add = vector_add("float32")
    yield Recordable(name="vector add", shapes=((10007,), (10007,)), dtype="float32", run=_alone(add), expected=_alone(np.add))
    yield softmax_of_rows()
    yield products_of_two_sizes()
    yield products_in_two_streams()


def _alone(function: Callable[..., Any]) -> Callable[..., Arrays]:
    """What the function returns, as the only result."""
    return lambda *arguments: (function(*arguments),)


def softmax_of_rows() -> Recordable:
    columns = 129
    kernel = softmax(columns, "float32")

    def expected(X: Any) -> Bounded:
        weights, total = softmax_bound(exact(X), steps=1)
        return (weights / total).rounded("float32")

    return Recordable(name="softmax", shapes=((13, columns),), dtype="float32", run=_alone(kernel), expected=_alone(expected))


def products_of_two_sizes() -> Recordable:
    """One kernel for several sizes, in one graph."""
    kernel = zl.jit(rows_product, out_idx=[-1])(96, 40)
    shapes = ((5, 96), (96, 40), (131, 96))

    def run(A: Any, B: Any, longer: Any) -> Arrays:
        return kernel(A, B), kernel(longer, B)

    return Recordable(name="dynamic M", shapes=shapes, dtype="float16", run=run, expected=lambda A, B, longer: (A @ B, longer @ B))


def products_in_two_streams() -> Recordable:
    """A kernel with a workspace in two streams at the same time: each call needs its own."""
    kernel = zl.jit(rows_product, out_idx=[-1], schedule=zl.SplitSums(parts=4))(512, 64)
    shapes = ((64, 512), (512, 64), (64, 512))

    def run(A: Any, B: Any, other: Any) -> Arrays:
        with beside():
            first = kernel(A, B)
        return first, kernel(other, B)

    return Recordable(name="two streams", shapes=shapes, dtype="float16", run=run, expected=lambda A, B, other: (A @ B, other @ B))


def rows_product(K: int, N: int) -> Any:
    """C = A B for any number of rows."""
    m = T.dynamic("m")

    @T.prim_func
    def product(A: T.Tensor((m, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((m, N), "float32")):
        with T.Kernel(T.ceildiv(N, 64), T.ceildiv(m, 64), threads=128) as (bx, by):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(K, 32), num_stages=3):
                T.copy(A[by * 64, step * 32], a)
                T.copy(B[step * 32, bx * 64], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 64, bx * 64])

    return product


def reporting() -> Any:
    """A kernel that prints and asserts, so that each launch is waited for."""

    @T.prim_func
    def reports(A: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                T.device_assert(A[i] < 5, "A is too large")
                A[i] = A[i] + 1
            T.print(A[0], msg="first")

    return zl.compile(reports)


# ---- the checks ----


def check_graphs() -> None:
    """All of it."""
    for work in works():
        check_work(work)
    check_refusal()
    check_timer()


def check_work(work: Recordable) -> None:
    """Record the work at its first call and again after others, and replay both."""
    first = Recording(work, seed=0)
    first.check("recorded at the first call")
    for seed in range(10, 10 + CALLS_BEFORE):
        inputs = drawn(work, seed)
        check_values(f"{work.name}, called between replays", work.run(*on_device(work, inputs)), work.expected(*inputs))
    second = Recording(work, seed=20)
    second.check("recorded after calls")
    first.check("replayed after another recording")
    print(f"{work.name}: right in recorded graphs")


class Recording:
    """A graph with the tensors that it reads and writes."""

    def __init__(self, work: Recordable, seed: int) -> None:
        self.work, self.seed = work, seed
        self.inputs = on_device(work, drawn(work, seed))
        self.replay, self.made = recorded(lambda: work.run(*self.inputs))

    def check(self, when: str) -> None:
        """Replay it with other values."""
        for _ in range(REPLAYS):
            self.seed += 1
            values = drawn(self.work, self.seed)
            for mine, new in zip(self.inputs, on_device(self.work, values)):
                mine.copy_(new)
            self.replay()
            check_values(f"{self.work.name}, {when}", self.made, self.work.expected(*values))


def drawn(work: Recordable, seed: int) -> Arrays:
    """Small integers for each of its tensors: sums of their products are exact."""
    random = np.random.default_rng(seed)
    return [random.integers(-3, 4, shape).astype(np.float64) for shape in work.shapes]


def on_device(work: Recordable, values: Arrays) -> Arrays:
    return [tensor(value, work.dtype) for value in values]


def check_values(name: str, found: Arrays, wanted: Sequence[Any]) -> None:
    """Within the bound of each element, and every bit where there is none."""
    for number, (result, expected) in enumerate(zip(found, wanted, strict=True)):
        error, used = compare(to_numpy(result), expected)
        if not used <= 1:
            raise SystemExit(f"{name}: result {number} differs by {error:.3g}, {used:.3g} of what is allowed")


def check_refusal() -> None:
    """A kernel that is waited for is refused in a recording (E643), which goes on and holds what else was recorded."""
    kernel, add = reporting(), vector_add("float32")
    a, b, counted = tensor(np.ones(999), "float32"), tensor(np.ones(999), "float32"), tensor(np.zeros(32), "int32")
    codes: list[str] = []

    def run() -> Arrays:
        for _ in range(2):  # at its first call and later
            try:
                kernel(counted)
            except zl.LaunchError as error:
                codes.extend(diagnostic.code for diagnostic in error.diagnostics)
        return (add(a, b),)

    replay, made = recorded(run)
    a.fill_(5)
    replay()
    check_values("recorded beside a refused launch", made, [np.full(999, 6.0)])
    if codes != ["E643", "E643"]:
        raise SystemExit(f"a kernel that asserts and prints, in a recording: expected E643 twice, got {codes or 'no error'}")
    kernel(counted)
    check_values("the refused kernel, called outside", (counted,), [np.ones(32, np.int32)])
    print("a kernel that asserts and prints: E643 in a recording, right outside")


def check_timer() -> None:
    """The timer that records measures a kernel, and says why another cannot be measured."""
    add, kernel = vector_add("float32"), reporting()
    a, counted = tensor(np.ones(1 << 20), "float32"), tensor(np.full(32, -1000), "int32")
    for cache in ("warm", "cold"):
        time = zl.do_bench(lambda: add(a, a), backend="cudagraph", cache=cache, device="cuda", rep=10)
        if not 0 < time < 1000:
            raise SystemExit(f"the timer cudagraph, {cache}: {time} ms for a vector add")
    try:
        zl.do_bench(lambda: kernel(counted), backend="cudagraph", device="cuda", rep=10)
    except zl.LaunchError as error:
        if error.code != "E636" or "E643" not in str(error):
            raise
    else:
        raise SystemExit("the timer cudagraph measured a kernel that cannot be recorded")
    print("the timer cudagraph: measures")
