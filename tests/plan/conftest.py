"""Plans written by hand: what a planner makes of small kernels for machines of several kinds.

Each function gives a planned kernel and the sizes to run it with. The statements are the kernel's own; a prologue or a drain has copies of
them with other loop variables.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from zellige.ir.expr import Binary, Compare, Expr, Var, const
from zellige.ir.parser import parse_kernel
from zellige.ir.stmt import Alloc, For, If, Kernel, Launch, Serial, Stmt
from zellige.ir.traverse import buffers_in, rebuilt, substitute, walk
from zellige.ir.verify import check as verify
from zellige.plan.facts import bytes_of, statements_in
from zellige.plan.nodes import (
    Acquire,
    Channel,
    Choice,
    Get,
    Issue,
    Placement,
    PlannedKernel,
    PlannedLaunch,
    Put,
    Release,
    Role,
    Slotted,
    Token,
    Turn,
    Wait,
)


def kernel_of(text: str) -> Kernel:
    kernel = parse_kernel("# tile-ir 1.0\n\n\n" + textwrap.dedent(text).strip("\n") + "\n")
    verify(kernel)
    return kernel


def binary(op: str, left: Expr, right: Expr | int) -> Expr:
    other = const(right, left.dtype) if isinstance(right, int) else right
    return Binary(op=op, left=left, right=other)  # type: ignore[arg-type]


def compare(op: str, left: Expr, right: Expr | int) -> Expr:
    other = const(right, left.dtype) if isinstance(right, int) else right
    return Compare(op=op, left=left, right=other)  # type: ignore[arg-type]


def loop_of(launch: Launch) -> For:
    return next(statement for statement in launch.body if isinstance(statement, For))


def split(launch: Launch) -> tuple[list[Stmt], For, list[Stmt]]:
    """The statements before the first loop, the loop, those after it."""
    place = launch.body.index(loop_of(launch))
    return list(launch.body[:place]), loop_of(launch), list(launch.body[place + 1 :])


def serial(loop: For, body: list[Any], **changes: Any) -> For:
    return rebuilt(loop, kind=Serial(), body=tuple(body), **changes)


def moved(statement: Any, var: Var, value: Expr) -> Any:
    return substitute(statement, {var: value})


def placed_apart(launch: Launch, channels: list[Channel]) -> tuple[Placement, ...]:
    """A place of its own for each tile that the launch allocates outside of Maps, with as many slots as its channel has."""
    depths = {buffer: channel.depth for channel in channels for buffer in channel.buffers}
    placements: list[Placement] = []
    offset = 0
    for statement in statements_in(launch.body, into_maps=False):
        size = bytes_of(statement.buffer) if isinstance(statement, Alloc) and statement.buffer.alias is None else None
        if isinstance(statement, Alloc) and size is not None:
            slots = depths.get(statement.buffer, 1)
            placements.append(Placement(buffer=statement.buffer, space="local", offset=offset, bytes=size, slots=slots))
            offset += size * slots
    return tuple(placements)


def planned(kernel: Kernel, roles: list[Role], channels: list[Channel], **rest: Any) -> PlannedKernel:
    rest.setdefault("placements", placed_apart(kernel.launches[0], channels))
    launch = PlannedLaunch(launch=kernel.launches[0], roles=tuple(roles), channels=tuple(channels), **rest)
    return PlannedKernel(kernel=kernel, target="by hand", launches=(launch,))


def buffers_of(kernel: Kernel) -> dict[str, Any]:
    return {buffer.name: buffer for buffer in buffers_in(kernel)}


GEMM = """
@sizes(K=int32)
def gemm(A: tensor((40, K), float16), B: tensor((K, 32), float16), C: tensor((40, 32), float32)):
    with launch(2, 2) as (bx, by):
        A_tile = alloc((32, 16), float16, "shared")
        B_tile = alloc((16, 16), float16, "shared")
        upper = alloc((16, 16), float32, "fragment")
        lower = alloc((16, 16), float32, "fragment")
        fill(upper[:, :], 0.0)
        fill(lower[:, :], 0.0)
        for k in pipelined((K + 15) // 16, stages=3):
            copy(A[by * 32:+32, k * 16:+16], A_tile[:, :])
            copy(B[k * 16:+16, bx * 16:+16], B_tile[:, :])
            gemm(A_tile[0:+16, :], B_tile[:, :], upper[:, :], clear=False)
            gemm(A_tile[16:+16, :], B_tile[:, :], lower[:, :], clear=False)
        copy(upper[:, :], C[by * 32:+16, bx * 16:+16])
        copy(lower[:, :], C[by * 32 + 16:+16, bx * 16:+16])
"""


def specialised_gemm(depth: int = 3) -> PlannedKernel:
    """A producer and two consumers over one transaction channel; each consumer has 16 rows and products in flight.

    The producer's loop is split where the copies of B become partial; those of A are partial in the last row of blocks everywhere.
    """
    kernel = kernel_of(GEMM)
    _, loop, _ = split(kernel.launches[0])
    alloc_upper, alloc_lower, fill_upper, fill_lower = kernel.launches[0].body[2:6]
    store_upper, store_lower = kernel.launches[0].body[7:9]
    copy_a, copy_b, gemm_upper, gemm_lower = loop.body
    named = buffers_of(kernel)
    loads = Token(name="loads", engine="copy")
    tiles = Channel(
        name="tiles", buffers=(named["A_tile"], named["B_tile"]), depth=depth, producers=("load",), consumers=("top", "bottom"),
        is_transaction=True, bytes=1024 + 512, mechanism="barrier", token=loads,
    )  # fmt: skip
    fetch = [Acquire(channel=tiles), Issue(operation=copy_a, token=loads), Issue(operation=copy_b, token=loads), Put(channel=tiles)]
    size = next(node for node in walk(loop.stop) if isinstance(node, Var) and node.kind == "size")
    middle = binary("floordiv", size, 16)
    main, tail = serial(loop, fetch, stop=middle), serial(loop, fetch, start=middle)
    producer = Role(
        name="load", engine="copy", registers=40,
        body=(main, tail),
    )  # fmt: skip

    def consumer(name: str, alloc: Any, fill: Any, gemm: Any, store: Any) -> Role:
        products = Token(name=f"products_{name}", engine="matmul")
        # a product stays in flight for an iteration: the slot of the one before is released when it has ended
        steady = serial(
            loop,
            [
                Get(channel=tiles),
                Issue(operation=gemm, token=products),
                If(condition=compare("gt", loop.var, 0), then=(Wait(token=products, leave_in_flight=1), Release(channel=tiles))),  # type: ignore[arg-type]
            ],
        )
        drain = If(condition=compare("gt", loop.stop, 0), then=(Wait(token=products), Release(channel=tiles)))  # type: ignore[arg-type]
        return Role(name=name, engine="vector", registers=96, body=(alloc, fill, steady, drain, store))

    top = consumer("top", alloc_upper, fill_upper, gemm_upper, store_upper)
    bottom = consumer("bottom", alloc_lower, fill_lower, gemm_lower, store_lower)
    return planned(
        kernel, [producer, top, bottom], [tiles],
        placements=(
            Placement(buffer=named["A_tile"], space="shared", offset=0, bytes=1024, slots=depth, alignment=128),
            Placement(buffer=named["B_tile"], space="shared", offset=1024 * depth, bytes=512, slots=depth, alignment=128),
            Placement(buffer=named["upper"], space="register", offset=0, bytes=1024, alignment=4),
            Placement(buffer=named["lower"], space="register", offset=1024, bytes=1024, alignment=4),
        ),
        choices=(
            Choice(operation=copy_a, executor="copy", edge="always"),
            Choice(operation=copy_b, executor="copy", edge="partial", tested=(0,)),
        ),
        full_loops=(main,),
    )  # fmt: skip


def pipelined_gemm(stages: int = 3) -> PlannedKernel:
    """One role that runs ahead of itself: prologue, steady state, drain; copies in flight counted by a token."""
    kernel = kernel_of(GEMM)
    before, loop, after = split(kernel.launches[0])
    named = buffers_of(kernel)
    tiles = Channel(
        name="tiles", buffers=(named["A_tile"], named["B_tile"]), depth=stages, producers=("main",), consumers=("main",), scope="role",
        mechanism="wait counter",
    )  # fmt: skip
    copies = Token(name="copies", engine="copy")
    copy_a, copy_b, gemm_upper, gemm_lower = loop.body
    ahead = stages - 1

    def load(at: Expr) -> list[Any]:
        return [
            Acquire(channel=tiles),
            Issue(operation=moved(copy_a, loop.var, at), token=copies),
            Issue(operation=moved(copy_b, loop.var, at), token=copies),
        ]

    def use(left_in_flight: int) -> list[Any]:
        products = [Slotted(operation=product, lags=((tiles, 0),)) for product in (gemm_upper, gemm_lower)]
        return [
            Wait(token=copies, leave_in_flight=left_in_flight),
            Put(channel=tiles),
            Get(channel=tiles),
            *products,
            Release(channel=tiles),
        ]

    zero = const(0, loop.var.dtype)
    trips = loop.stop
    first = Var(name="p", dtype=loop.var.dtype, kind="loop")
    prologue = For(var=first, start=zero, stop=binary("min", trips, ahead), step=loop.step, kind=Serial(), body=tuple(load(first)))  # type: ignore[arg-type]
    steady = serial(loop, [*load(binary("add", loop.var, ahead)), *use(2 * ahead)], stop=binary("sub", trips, ahead))
    last = Var(name="d", dtype=loop.var.dtype, kind="loop")
    drain = For(
        var=last, start=binary("max", binary("sub", trips, ahead), zero), stop=trips, step=loop.step, kind=Serial(), body=tuple(use(0)),
    )  # type: ignore[arg-type] # fmt: skip
    return planned(kernel, [Role(name="main", engine="vector", body=(*before, prologue, steady, drain, *after))], [tiles])


ATTENTION = """
@sizes(L=int32)
def attention(Q: tensor((32, 8), float16), K: tensor((L, 8), float16), V: tensor((L, 8), float16), O: tensor((32, 8), float16)):
    with launch(2) as (bx,):
        Q_tile = alloc((16, 8), float16, "shared")
        K_tile = alloc((16, 8), float16, "shared")
        V_tile = alloc((16, 8), float16, "shared")
        scores = alloc((16, 16), float32, "fragment")
        weights = alloc((16, 16), float16, "fragment")
        output = alloc((16, 8), float32, "fragment")
        total = alloc((16,), float32, "fragment")
        copy(Q[bx * 16:+16, :], Q_tile[:, :])
        fill(output[:, :], 0.0)
        fill(total[:], 0.0)
        for k in pipelined((L + 15) // 16, stages=2):
            copy(K[k * 16:+16, :], K_tile[:, :])
            copy(V[k * 16:+16, :], V_tile[:, :])
            gemm(Q_tile[:, :], K_tile[:, :], scores[:, :], transpose_b=True, clear=True)
            for i, j in parallel(16, 16):
                scores[i, j] = exp2(scores[i, j]) if k * 16 + j < L else 0.0
            reduce("sum", scores[:, :], total[:], axis=1, clear=False)
            copy(scores[:, :], weights[:, :])
            gemm(weights[:, :], V_tile[:, :], output[:, :], clear=False)
        for i, j in parallel(16, 8):
            output[i, j] = output[i, j] / total[i]
        copy(output[:, :], O[bx * 16:+16, :])
"""


def skewed_attention() -> PlannedKernel:
    """A producer with channels of their own for Q, K and V; the consumer issues the scores of the next block before it ends with this one.

    The scores have two versions in a channel of the consumer with itself; the second product runs while the next scores are made.
    """
    kernel = kernel_of(ATTENTION)
    before, loop, after = split(kernel.launches[0])
    named = buffers_of(kernel)
    copy_q, fill_output, fill_total = before[7:10]
    copy_k, copy_v, gemm_scores, exponents, row_sum, narrow, gemm_output = loop.body
    loads = Token(name="loads", engine="copy")
    landed: dict[str, Any] = {"producers": ("load",), "consumers": ("work",), "is_transaction": True, "token": loads}
    queries = Channel(name="queries", buffers=(named["Q_tile"],), bytes=bytes_of(named["Q_tile"]) or 0, depth=1, **landed)
    keys = Channel(name="keys", buffers=(named["K_tile"],), bytes=bytes_of(named["K_tile"]) or 0, depth=2, **landed)
    values = Channel(name="values", buffers=(named["V_tile"],), bytes=bytes_of(named["V_tile"]) or 0, depth=2, **landed)
    score = Channel(name="score", buffers=(named["scores"],), depth=2, producers=("work",), consumers=("work",), scope="role")
    products = Token(name="products", engine="matmul")

    def load(channel: Channel, copy: Any) -> list[Any]:
        return [Acquire(channel=channel), Issue(operation=copy, token=loads), Put(channel=channel)]

    producer = Role(
        name="load", engine="copy", body=(*load(queries, copy_q), serial(loop, [*load(keys, copy_k), *load(values, copy_v)])),
    )  # fmt: skip

    def begin() -> list[Any]:
        return [Get(channel=keys), Acquire(channel=score), Issue(operation=gemm_scores, token=products)]

    def end(left_in_flight: int) -> list[Any]:
        """The scores' product is the oldest in flight."""
        return [
            Wait(token=products, leave_in_flight=left_in_flight),
            Release(channel=keys),
            Put(channel=score),
            Get(channel=score),
            *(Slotted(operation=operation, lags=((score, 0),)) for operation in (exponents, row_sum, narrow)),
            Release(channel=score),
            Get(channel=values),
            gemm_output,
            Release(channel=values),
        ]

    trips = loop.stop
    steady = serial(
        loop,
        [
            If(condition=compare("lt", binary("add", loop.var, 1), trips), then=(*begin(), *end(1)), otherwise=tuple(end(0))),  # type: ignore[arg-type]
        ],
    )
    work = Role(
        name="work", engine="vector",
        body=(
            *before[4:7], fill_output, fill_total, Get(channel=queries),
            If(condition=compare("gt", trips, 0), then=tuple(begin())),  # type: ignore[arg-type]
            steady, Release(channel=queries), *after,
        ),
    )  # fmt: skip
    return planned(kernel, [producer, work], [queries, keys, values, score])


QUEUES = """
@sizes(K=int32)
def cube(A: tensor((32, K), float16), B: tensor((K, 32), float16), C: tensor((64, 32), float16), S: tensor((1,), int32)):
    with launch(2, 2) as (bx, by):
        A1 = alloc((16, 16), float16, "near")
        B1 = alloc((16, 16), float16, "near")
        A0 = alloc((16, 16), float16, "left")
        B0 = alloc((16, 16), float16, "right")
        C0 = alloc((16, 16), float32, "accumulator")
        U = alloc((16, 16), float32, "vector")
        H = alloc((16, 16), float16, "vector")
        for t in serial(2):
            for k in pipelined((K + 15) // 16, stages=2):
                copy(A[by * 16:+16, k * 16:+16], A1[:, :])
                copy(B[k * 16:+16, bx * 16:+16], B1[:, :])
                copy(A1[:, :], A0[:, :])
                copy(B1[:, :], B0[:, :])
                gemm(A0[:, :], B0[:, :], C0[:, :], clear=k == 0)
            copy(C0[:, :], U[:, :])
            for i, j in parallel(16, 16):
                U[i, j] = U[i, j] * 2.0 + cast(t, float32)
            copy(U[:, :], H[:, :])
            copy(H[:, :], C[t * 32 + by * 16:+16, bx * 16:+16])
        if bx == by:
            atomic("add", S[0], 1)
"""


def queue_machine() -> PlannedKernel:
    """Three engines with flags: copies in, the product unit with its operands' own spaces, the vector engine that finishes and stores."""
    kernel = kernel_of(QUEUES.replace("(K + 15) // 16", "max((K + 15) // 16, 1)"))
    before, outer, after = split(kernel.launches[0])
    named = buffers_of(kernel)
    inner, take, scale, narrow, store = outer.body
    assert isinstance(inner, For)
    copy_a, copy_b, move_a, move_b, gemm = inner.body
    near = Channel(name="near", buffers=(named["A1"], named["B1"]), depth=2, producers=("mte",), consumers=("feed",), mechanism="flag")
    operands = Channel(
        name="operands", buffers=(named["A0"], named["B0"]), depth=2, producers=("feed",), consumers=("cube",), mechanism="flag"
    )
    result = Channel(name="result", buffers=(named["C0"],), depth=1, producers=("cube",), consumers=("vector",), mechanism="flag")
    staged = Channel(name="staged", buffers=(named["H"],), depth=2, producers=("vector",), consumers=("vector",), scope="role")
    stores = Token(name="stores", engine="mte3")
    mte = Role(
        name="mte", engine="mte2",
        body=(serial(outer, [serial(inner, [Acquire(channel=near), copy_a, copy_b, Put(channel=near)])]),),
    )  # fmt: skip
    feed = Role(
        name="feed", engine="mte1",
        body=(
            serial(outer, [serial(inner, [
                Get(channel=near), Acquire(channel=operands), move_a, move_b, Put(channel=operands), Release(channel=near),
            ])]),
        ),
    )  # fmt: skip
    cube = Role(
        name="cube", engine="cube",
        body=(
            serial(outer, [
                Acquire(channel=result),
                serial(inner, [Get(channel=operands), gemm, Release(channel=operands)]),
                Put(channel=result),
            ]),
        ),
    )  # fmt: skip
    vector = Role(
        name="vector", engine="vector",
        body=(
            before[5],
            serial(outer, [
                Get(channel=result), take, Release(channel=result), scale,
                Acquire(channel=staged), narrow, Put(channel=staged), Get(channel=staged),
                Slotted(operation=Issue(operation=store, token=stores), lags=((staged, 0),)), Wait(token=stores), Release(channel=staged),
            ]),
            *after,
        ),
    )  # fmt: skip
    return planned(kernel, [mte, feed, cube, vector], [near, operands, result, staged])


TWO_WRITERS = """
@sizes(n=int32)
def turns(A: tensor((n, 8), float32), S: tensor((8,), float32)):
    with launch(1) as (bx,):
        x = alloc((8,), float32, "shared")
        y = alloc((8,), float32, "shared")
        z = alloc((8,), float32, "shared")
        for k in serial(n):
            copy(A[k, 0:+8], x[:])
            atomic_tile("add", x[:], S[:])
            for i in parallel(8):
                y[i] = A[k, i] * 0.5
            atomic_tile("add", y[:], S[:])
        fill(z[:], 1.0)
"""


def turn_taking() -> PlannedKernel:
    """Two roles that add to one tensor by turns, so that the sums round as in the kernel."""
    kernel = kernel_of(TWO_WRITERS)
    before, loop, after = split(kernel.launches[0])
    copy, add_x, halve, add_y = loop.body

    def turn(phase: Any) -> Turn:
        return Turn(name="sum", order=("one", "two"), phase=phase)

    one = Role(name="one", engine="vector", body=(before[0], serial(loop, [copy, turn("take"), add_x, turn("pass")])))
    two = Role(
        name="two", engine="vector",
        body=(before[1], before[2], serial(loop, [halve, turn("take"), add_y, turn("pass")]), *after),
    )  # fmt: skip
    return planned(kernel, [one, two], [])


def array(generator: Any, shape: tuple[int, ...], dtype: Any = np.float16) -> Any:
    return generator.standard_normal(shape).astype(dtype)


def gemm_arguments(generator: Any, size: int) -> list[Any]:
    return [array(generator, (40, size)), array(generator, (size, 32)), np.zeros((40, 32), np.float32)]


def attention_arguments(generator: Any, size: int) -> list[Any]:
    rows = [array(generator, (32, 8)), array(generator, (size, 8)), array(generator, (size, 8))]
    return [*rows, np.zeros((32, 8), np.float16)]


def queue_arguments(generator: Any, size: int) -> list[Any]:
    return [array(generator, (32, size)), array(generator, (size, 32)), np.zeros((64, 32), np.float16), np.zeros(1, np.int32)]


def turn_arguments(generator: Any, size: int) -> list[Any]:
    return [array(generator, (size, 8), np.float32), np.zeros(8, np.float32)]


PLANS: dict[str, tuple[Callable[[], PlannedKernel], Callable[[Any, int], list[Any]], tuple[int, ...]]] = {
    "specialised_gemm": (specialised_gemm, gemm_arguments, (1, 16, 50, 100)),
    "pipelined_gemm": (pipelined_gemm, gemm_arguments, (1, 16, 17, 50, 100)),
    "skewed_attention": (skewed_attention, attention_arguments, (5, 16, 40, 90)),
    "queue_machine": (queue_machine, queue_arguments, (10, 16, 60)),
    "turn_taking": (turn_taking, turn_arguments, (1, 2, 5)),
}
"""Plan, arguments for a size, sizes to try."""


@pytest.fixture(scope="session")
def plans_by_hand() -> dict[str, Any]:
    return PLANS


@pytest.fixture(scope="session")
def plan_named() -> Callable[..., PlannedKernel]:
    """A fresh plan by the name of its function."""

    def make(name: str, **options: Any) -> PlannedKernel:
        return PLANS[name][0](**options)

    return make
