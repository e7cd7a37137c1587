"""Each decision of the planner by its reason, on the four machines."""

# Kernels are read by the front end, not run by Python.
# mypy: ignore-errors

from __future__ import annotations

import textwrap
from dataclasses import replace

import pytest

import zellige.language as T
from zellige.demo import kernels
from zellige.diagnostics import CompileError
from zellige.ir.parser import parse_kernel
from zellige.ir.stmt import Copy, For, Gemm, Map
from zellige.ir.traverse import walk
from zellige.plan.invented_machines import LANES_ASYNC, LOCAL_ONLY, QUEUES_CUBE, SCALAR_VECTOR_CPU, TEST_TARGETS
from zellige.plan.nodes import Acquire, Get, Issue, PlannedLaunch, Put, Release, Slotted, Turn, Wait
from zellige.plan.planner import plan
from zellige.plan.products import even_parts
from zellige.plugin.contract import RegisterFile, Synchronisation


def gemm(M=512, N=512, K=512, BM=128, BN=128, BK=32, stages=3, dtype="float16", acc="float32", order=None, stage=None):
    hand = {} if stage is None else {"order": order, "stage": stage}

    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), acc)):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=128) as (bx, by):
            As = T.alloc_shared((BM, BK), dtype)
            Bs = T.alloc_shared((BK, BN), dtype)
            Cl = T.alloc_fragment((BM, BN), acc)
            T.clear(Cl)
            for k in T.Pipelined(T.ceildiv(K, BK), num_stages=stages, **hand):
                T.copy(A[by * BM, k * BK], As)
                T.copy(B[k * BK, bx * BN], Bs)
                T.gemm(As, Bs, Cl)
            T.copy(Cl, C[by * BM, bx * BN])

    return gemm.kernel


def first(kernel, capabilities) -> PlannedLaunch:
    return plan(kernel, capabilities).launches[0]


def decision(launch: PlannedLaunch, question: str):
    """The last decision whose question holds these words."""
    found = [d for d in launch.decisions if question in d.question]
    assert found, [d.question for d in launch.decisions]
    return found[-1]


def choice(launch: PlannedLaunch, kind):
    return next(c for c in launch.choices if isinstance(c.operation, kind))


def role(launch: PlannedLaunch, name: str):
    return next(r for r in launch.roles if r.name == name)


def attention(stages=2):
    return kernels.causal_attention(1, 2, 512, 64, stages=stages).kernel


# ---- products


def test_registers_choose_the_block_of_a_vector_engine() -> None:
    launch = first(gemm(dtype="float32"), SCALAR_VECTOR_CPU)
    product = choice(launch, Gemm)
    assert (product.tiling.m, product.tiling.n) == (6, 64)
    assert product.executor == "vector"
    assert product.is_native
    assert "32 registers of 16 float32" in decision(launch, "stays in registers").because
    small = replace(SCALAR_VECTOR_CPU, registers=RegisterFile(vectors=16, vector_bytes=32), vector_bytes=32)
    narrow = choice(first(gemm(dtype="float32"), small), Gemm)
    assert (narrow.tiling.m, narrow.tiling.n) == (4, 24)


def test_parts_are_few_even_and_all_there() -> None:
    for size in range(1, 40):
        for most in range(1, 9):
            parts = [part for count, part in even_parts(size, most) for _ in range(count)]
            assert sum(parts) == size
            assert len(parts) == -(-size // most)
            assert max(parts) <= most
            assert max(parts) - min(parts) <= 1


@pytest.mark.parametrize("k", [512, 1024, 1056, 100])
def test_products_of_a_loop_are_about_as_long(k: int) -> None:
    """No last one that is much shorter than the others: the block would be loaded and stored for it as for the others."""
    product = choice(first(gemm(dtype="float32", K=k), SCALAR_VECTOR_CPU), Gemm)
    count = -(-k // 32)
    passes = -(-count // product.merge)
    assert product.merge > 1
    assert product.merge * passes - count < passes


@pytest.mark.parametrize("count, merge", [(64, 8), (60, 10), (33, 9), (61, 9), (10, 10), (16, 16), (21, 21), (22, 8), (24, 8)])
def test_one_product_more_is_taken_where_they_are_then_as_long_as_each_other(count: int, merge: int) -> None:
    """At most 10 iterations fit, a panel of 24 columns by 320: 64 are eight times 8, not six times 10 and 4; up to three products it is the
    fewest, since one more would shorten all of them by a third; and up to 21 iterations are one product, with a panel twice as long."""
    machine = replace(SCALAR_VECTOR_CPU, registers=RegisterFile(vectors=16, vector_bytes=32), vector_bytes=32)
    product = choice(first(gemm(dtype="float32", K=32 * count), machine), Gemm)
    assert product.tiling is not None and product.tiling.n == 24
    assert product.merge == merge


def test_a_narrow_product_takes_fewer_vectors_and_more_rows() -> None:
    tiling = choice(first(gemm(dtype="float32", BN=16, N=512), SCALAR_VECTOR_CPU), Gemm).tiling
    assert (tiling.m, tiling.n) == (12, 16)


@pytest.mark.parametrize("dtype, acc, interleave", [("float32", "float32", 1), ("bfloat16", "float32", 2), ("int8", "int32", 4)])
def test_operands_are_packed_for_the_dot_product(dtype: str, acc: str, interleave: int) -> None:
    product = choice(first(gemm(dtype=dtype, acc=acc), SCALAR_VECTOR_CPU), Gemm)
    panels = next(layout for layout in product.layouts if layout.operand == "b")
    assert (panels.kind, panels.parameters) == ("panels", (64, interleave))


@pytest.mark.parametrize("dtype, acc, steps", [("float32", "float32", 128), ("bfloat16", "float32", 256), ("int8", "int32", 512)])
def test_steps_of_k_merge_where_the_loop_only_copies_and_multiplies(dtype: str, acc: str, steps: int) -> None:
    launch = first(gemm(dtype=dtype, acc=acc, K=4096), SCALAR_VECTOR_CPU)
    assert choice(launch, Gemm).merge * 32 == steps
    assert "no bit changes" in decision(launch, "how many steps of k").because


def test_operands_are_stored_as_their_unit_takes_them() -> None:
    widened = {at.operand: at.dtype for at in choice(first(gemm(), SCALAR_VECTOR_CPU), Gemm).layouts}
    assert widened == {"a": "float32", "b": "float32", "c": None}
    own = choice(first(gemm(dtype="bfloat16"), SCALAR_VECTOR_CPU), Gemm).layouts
    assert all(at.dtype is None for at in own)


@pytest.mark.parametrize(
    "lines, reason",
    [
        ("copy(A[:, k * 8:+8], a[:, :])\ncopy(B[k * 8:+8, :], b[:, :])\nGEMM\ncopy(c[:, :], C[:, :])", "does more than copy"),
        ("copy(A[:, k * 8:+8], a[:, :])\ncopy(B[k * 8:+8, :], b[:, :])\nGEMM\ncopy(A[:, 0:+8], a[:, :])", "not copied afresh"),
        ("copy(A[:, k * 8:+4], a[:, 0:+4])\ncopy(B[k * 8:+8, :], b[:, :])\nGEMM", "a is not copied afresh"),
        ("copy(A[:, k * 8:+8], a[:, :])\nGEMM", "b is not copied afresh"),
        ("copy(A[:, k * 8:+8], a[:, :])\ncopy(B[k * 8:+8, :], b[:, :])\nGEMM", None),
    ],
)
def test_when_steps_of_k_merge(lines: str, reason: str | None) -> None:
    body = textwrap.indent(lines.replace("GEMM", "gemm(a[:, :], b[:, :], c[:, :], clear=False)"), " " * 12)
    zeros = "        fill(b[:, :], 0.0)\n" if reason is not None else ""
    kernel = parse_kernel(
        "# tile-ir 1.0\n\n\ndef k(A: tensor((8, 64), float32), B: tensor((64, 32), float32), C: tensor((8, 32), float32)):\n"
        '    with launch(1) as (bx,):\n        a = alloc((8, 8), float32, "shared")\n        b = alloc((8, 32), float32, "shared")\n'
        f'        c = alloc((8, 32), float32, "fragment")\n        fill(c[:, :], 0.0)\n{zeros}'
        f"        for k in pipelined(8, stages=2):\n{body}\n        copy(c[:, :], C[:, :])\n"
    )
    launch = first(kernel, SCALAR_VECTOR_CPU)
    if reason is None:
        assert choice(launch, Gemm).merge == 8, "all of the loop"
    else:
        assert choice(launch, Gemm).merge == 1
        assert not choice(launch, Gemm).is_merged
        assert reason in decision(launch, "how many steps of k").because


def test_steps_of_k_do_not_merge_where_each_product_rounds() -> None:
    launch = first(gemm(acc="float16"), SCALAR_VECTOR_CPU)
    assert choice(launch, Gemm).merge == 1
    assert "rounded to float16 after each product" in decision(launch, "how many steps of k").because
    assert choice(first(attention(), SCALAR_VECTOR_CPU), Gemm).merge == 1


@pytest.mark.parametrize("stages", range(5))
@pytest.mark.parametrize("target", TEST_TARGETS)
def test_products_do_not_depend_on_stages(target: str, stages: int) -> None:
    def product(launch: PlannedLaunch):
        found = choice(launch, Gemm)
        return found.executor, found.tiling, found.merge, found.is_native

    machine = TEST_TARGETS[target]
    assert product(first(gemm(stages=stages), machine)) == product(first(gemm(stages=0), machine))
    assert product(first(attention(stages), machine)) == product(first(attention(0), machine))


def test_a_product_is_padded_to_the_unit() -> None:
    launch = first(gemm(BM=100, BN=72, M=400, N=288), QUEUES_CUBE)
    said = decision(launch, "what executes the product")
    assert "m from 100 to 112" in said.because
    assert "n from 72 to 80" in said.because
    assert choice(launch, Gemm).tiling.m == 16


def test_a_unit_that_takes_multiples_is_cut_into_the_fewest_equal_blocks() -> None:
    tiling = choice(first(gemm(BN=176, N=352), LANES_ASYNC), Gemm).tiling
    assert (tiling.m, tiling.n, tiling.k) == (64, 176, 16)


def test_a_product_without_a_unit_is_labelled_emulated() -> None:
    for machine, reason in ((LANES_ASYNC, "which does not hold float32"), (LOCAL_ONLY, "")):
        launch = first(gemm(dtype="float32"), machine)
        assert not choice(launch, Gemm).is_native
        said = decision(launch, "what executes the product")
        assert "emulated" in said.chosen
        assert any(reason in why for _, why in said.rejected) or not reason


def test_a_narrow_operand_is_widened_where_all_of_its_values_are_kept() -> None:
    said = decision(first(gemm(dtype="float8_e4m3fn"), LANES_ASYNC), "what executes the product")
    assert "widened to float16" in said.because
    assert "widened to float32" in decision(first(gemm(), SCALAR_VECTOR_CPU), "what executes the product").because


def test_results_that_the_vector_engine_cannot_reach_add_up_apart() -> None:
    launch = first(attention(), QUEUES_CUBE)
    said = decision(launch, "where does the product into scores add up")
    assert said.chosen.startswith("in scores_product")
    products = [c.operation for c in launch.choices if isinstance(c.operation, Gemm)]
    assert [p.c.buffer.name for p in products] == ["scores_product", "output_product"]
    # a sum that only products touch stays in the unit's own memory
    alone = first(gemm(), QUEUES_CUBE)
    assert choice(alone, Gemm).operation.c.buffer.name == "Cl"
    assert next(p.space for p in alone.placements if p.buffer.name == "Cl") == "sums"


# ---- roles, channels, versions


def test_a_cpu_runs_everything_in_one_role_and_packs_operands() -> None:
    launch = first(gemm(dtype="float32"), SCALAR_VECTOR_CPU)
    assert [r.name for r in launch.roles] == ["block"]
    assert launch.roles[0].body == launch.launch.body
    assert launch.channels == ()
    assert choice(launch, Gemm).mechanism == "packed"


def test_copies_get_a_producer_and_rows_get_consumers() -> None:
    launch = first(gemm(), LANES_ASYNC)
    assert [(r.name, r.count) for r in launch.roles] == [("producer", 1), ("consumer", 2)]
    (channel,) = launch.channels
    assert [b.name for b in channel.buffers] == ["As", "Bs"]
    assert (channel.depth, channel.is_transaction, channel.bytes) == (3, True, 128 * 32 * 2 * 2)
    loop = next(s for s in role(launch, "producer").body if isinstance(s, For))
    assert [type(s) for s in loop.body] == [Acquire, Issue, Issue, Put]
    assert all(p.slots == 3 for p in launch.placements if p.space == "shared")


def test_one_product_stays_in_flight_across_iterations() -> None:
    launch = first(gemm(), LANES_ASYNC)
    body = role(launch, "consumer").body
    peeled, steady = (s for s in body if isinstance(s, For))
    assert [type(s) for s in peeled.body] == [Get, Issue]
    assert [type(s) for s in steady.body] == [Get, Issue, Wait, Release]
    assert steady.body[2].leave_in_flight == 1
    assert decision(launch, "how many products are in flight").chosen == "one across iterations"


def test_tiles_used_at_different_times_have_channels_of_their_own() -> None:
    launch = first(attention(), LANES_ASYNC)
    assert {c.name: c.depth for c in launch.channels} == {"Q_tile": 1, "K_tile": 2, "V_tile": 2}


def steps(launch: PlannedLaunch) -> list[tuple[str, ...]]:
    """What the parts of a step of the consumer's pipeline do with products and slots."""
    steady = next(s for s in walk(role(launch, "consumer")) if isinstance(s, For) and s.var.name == "k_step")
    names = []
    for part in steady.body:
        told = []
        for s in part.body:
            match s:
                case Issue(operation=Gemm() as gemm):
                    told.append(f"start {gemm.c.buffer.name}")
                case Wait():
                    told.append(f"wait {s.leave_in_flight}")
                case Turn():
                    told.append(s.phase)
                case Get() | Release():
                    told.append(f"{type(s).__name__.lower()} {s.channel.name}")
                case _:
                    told.append("work")
        names.append(tuple(told[i] for i in range(len(told)) if i == 0 or told[i] != "work" or told[i - 1] != "work"))
    return names


def test_the_second_product_ends_beside_the_softmax_of_the_next_scores() -> None:
    """The lanes wait for the scores alone; what they do to the output, or to the weights, waits for the product of the iteration before."""
    launch = first(attention(), LANES_ASYNC)
    said = decision(launch, "does a product run beside the lanes' work")
    assert said.chosen == "the product into output, an iteration late"
    assert steps(launch) == [
        ("work", "get K_tile", "start scores"),
        ("get V_tile", "start output"),
        ("wait 1", "release K_tile", "work", "wait 0", "release V_tile", "work"),
    ]


def test_consumers_take_turns_at_the_unit() -> None:
    """One of several starts both products of a step before another one starts any, where the machine has something to pass turns on."""
    launch = first(kernels.causal_attention(1, 2, 512, 64, block_M=128).kernel, LANES_ASYNC)
    assert role(launch, "consumer").count == 2
    assert decision(launch, "in which order do the consumers start products").chosen == "in turns, both products of a step together"
    assert steps(launch)[:2] == [("work", "get K_tile", "take", "start scores"), ("get V_tile", "start output", "pass")]
    turns = [s for s in walk(role(launch, "consumer")) if isinstance(s, Turn)]
    assert {s.order for s in turns} == {("consumer",)}
    ends = [s for s in walk(role(launch, "consumer")) if isinstance(s, For) and s.var.name in ("k_fill", "k_drain")]
    assert not any(isinstance(s, Turn) for end in ends for s in walk(end))
    others = tuple(s for s in LANES_ASYNC.synchronisation if s.scope != "turn")
    for lacking in (others, (*others, Synchronisation(mechanism="barrier of some lanes", scope="turn", count=1))):
        launch = first(kernels.causal_attention(1, 2, 512, 64, block_M=128).kernel, replace(LANES_ASYNC, synchronisation=lacking))
        assert not any(isinstance(s, Turn) for s in walk(role(launch, "consumer")))


def test_at_the_ends_no_branch_stands_between_a_product_and_its_wait() -> None:
    loops = [s for s in walk(role(first(attention(), LANES_ASYNC), "consumer")) if isinstance(s, For)]
    fill, drain = (s for s in loops if s.var.name in ("k_fill", "k_drain"))
    for part, waits in ((fill, [0]), (drain, [0])):
        (inner,) = part.body
        assert [s.leave_in_flight for s in inner.body if isinstance(s, Wait)] == waits
        assert sum(isinstance(s, Issue) for s in inner.body) == 1


def two_sums(blocks: int = 5, rows: int = 64):
    """Two products take what the lanes make of the first one's result."""

    @T.prim_func
    def two_sums(Q: T.Tensor((rows, 64), "float16"), K: T.Tensor((blocks * 64, 64), "float16"), O: T.Tensor((2, rows, 64), "float32")):
        with T.Kernel(1, threads=128):
            Qs = T.alloc_shared((rows, 64), "float16")
            Ks = T.alloc_shared((64, 64), "float16")
            Vs = T.alloc_shared((64, 64), "float16")
            scores = T.alloc_fragment((rows, 64), "float32")
            P = T.alloc_fragment((rows, 64), "float16")
            one = T.alloc_fragment((rows, 64), "float32")
            other = T.alloc_fragment((rows, 64), "float32")
            T.copy(Q, Qs)
            T.clear(one)
            T.clear(other)
            for k in T.Pipelined(blocks, num_stages=2):
                T.copy(K[k * 64, 0], Ks)
                T.copy(K[k * 64, 0], Vs)
                T.clear(scores)
                T.gemm(Qs, Ks, scores, transpose_B=True)
                T.copy(scores, P)
                T.gemm(P, Vs, one)
                T.gemm(P, Vs, other, transpose_B=True)
            T.copy(one, O[0, 0, 0])
            T.copy(other, O[1, 0, 0])

    return two_sums.kernel


def test_the_score_product_runs_ahead_where_several_products_use_it() -> None:
    launch = first(two_sums(), LANES_ASYNC)
    assert "the product into scores, by one iteration" in decision(launch, "does a product run ahead").chosen
    channel = next(c for c in launch.channels if c.name == "scores")
    assert (channel.scope, channel.producers, channel.consumers) == ("role", ("consumer",), ("consumer",))
    steady = [s for s in walk(role(launch, "consumer")) if isinstance(s, For) and s.var.name == "k_step"][0]
    start, rest, finish = steady.body
    assert isinstance(start.body[-1], Issue)
    assert any(isinstance(s, Slotted) for s in rest.body)
    assert isinstance(finish.body[0], Wait)


def test_a_product_does_not_run_ahead_where_its_tile_lives_on() -> None:
    @T.prim_func
    def carried(Q: T.Tensor((64, 64), "float16"), K: T.Tensor((256, 64), "float16"), O: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            Qs = T.alloc_shared((64, 64), "float16")
            Ks = T.alloc_shared((64, 64), "float16")
            S = T.alloc_fragment((64, 64), "float32")
            P = T.alloc_fragment((64, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            other = T.alloc_fragment((64, 64), "float32")
            T.copy(Q, Qs)
            T.clear(acc)
            T.clear(other)
            T.clear(S)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(K[k * 64, 0], Ks)
                T.gemm(Qs, Ks, S, transpose_B=True)
                T.copy(S, P)
                T.gemm(P, Qs, acc)
                T.gemm(P, Qs, other, transpose_B=True)
            for i, j in T.Parallel(64, 64):
                O[i, j] = acc[i, j] + other[i, j]

    launch = first(carried.kernel, LANES_ASYNC)
    said = decision(launch, "does a product run ahead")
    assert (said.chosen, said.because) == ("no", "S keeps something from one iteration to the next")


def test_without_stages_there_is_no_producer() -> None:
    for stages in (0, 1):
        launch = first(gemm(stages=stages), LANES_ASYNC)
        assert [r.name for r in launch.roles] == ["block"]
        assert "a producer would only wait" in decision(launch, "which roles").because


def test_a_copy_that_its_mechanism_cannot_make_stays_with_the_consumer() -> None:
    launch = first(gemm(K=500, M=512), LANES_ASYNC)  # rows of A of 1000 bytes, of B of 1024
    said, other = (decision(launch, f"how does the copy to {name} overlap with its loop") for name in ("As", "Bs"))
    pitch = "the box copy needs a pitch of A that is a multiple of 16 bytes"
    assert (said.chosen, said.because) == ("in its turn (emulated)", f"{pitch}; avoided by a copy that suits the box copy")
    assert (other.chosen, other.because) == (
        "issued ahead by box copy, waited for by byte-counting barrier", "it runs beside the block, on the engine copier",
    )  # fmt: skip
    assert [b.name for c in launch.channels for b in c.buffers] == ["Bs"]


def test_queues_have_a_role_an_engine() -> None:
    launch = first(attention(), QUEUES_CUBE)
    assert [r.name for r in launch.roles] == ["vector", "cube", "load", "store"]
    assert {c.name for c in launch.channels} == {
        "Q_tile", "K_tile", "V_tile", "scores_product", "scores_landed", "weights", "output_product", "output_landed",
    }  # fmt: skip
    assert not any(isinstance(s, Map) for s in walk(role(launch, "cube")))


def test_a_tile_that_engines_change_in_turns_is_handed_over() -> None:
    @T.prim_func
    def turns(X: T.Tensor((4, 64), "float32"), Y: T.Tensor((4, 64), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((2, 64), "float32")
            T.clear(tile)
            for k in T.serial(4):
                T.copy(X[k, 0:64], tile[k % 2, 0:64])
                for j in T.Parallel(64):
                    tile[0, j] = tile[0, j] + tile[1, j]
                T.copy(tile[0, 0:64], Y[k, 0:64])

    launch = first(turns.kernel, QUEUES_CUBE)
    said = decision(launch, "how do several engines use tile")
    assert said.chosen == "in turns, one version"
    handed = [c for c in launch.channels if c.orders]
    assert all(c.buffers == () and c.depth == 1 for c in handed)
    assert {(c.producers[0], c.consumers[0]) for c in handed} >= {("load", "vector"), ("vector", "store"), ("store", "load")}


def test_copies_run_ahead_within_one_role() -> None:
    launch = first(gemm(), LOCAL_ONLY)
    fill, steady, drain = (s for s in launch.roles[0].body if isinstance(s, For))
    issue, work = steady.body
    assert [type(s) for s in issue.body] == [Acquire, Issue, Issue]
    assert [type(s) for s in work.body] == [Wait, Put, Get, Slotted, Release]
    assert work.body[0].leave_in_flight == 4  # two iterations of two copies
    assert [s.leave_in_flight for s in walk(drain) if isinstance(s, Wait)] == [0]
    assert fill.stop.value == 2
    (channel,) = launch.channels
    assert (channel.scope, channel.depth, channel.mechanism) == ("role", 3, "counted wait")


def test_each_tile_is_waited_for_by_itself() -> None:
    launch = first(attention(), LOCAL_ONLY)
    steady = next(s for s in walk(launch.roles[0]) if isinstance(s, For) and s.var.name == "k_step")
    assert [s.leave_in_flight for s in walk(steady) if isinstance(s, Wait)] == [3, 2]  # K, then V


# ---- capacity


def test_stages_are_reduced_to_what_fits() -> None:
    launch = first(gemm(BK=128, stages=4), LANES_ASYNC)  # 64 KiB a version
    said = decision(launch, "how many versions of As and Bs")
    assert said.chosen == "3 instead of 4"
    assert said.rejected == (("4", "too many bytes"),)
    assert launch.channels[0].depth == 3


def test_a_second_version_of_the_scores_is_given_up_before_stages() -> None:
    tight = replace(LANES_ASYNC, spaces=tuple(replace(s, bytes=60_000) if s.name == "registers" else s for s in LANES_ASYNC.spaces))
    launch = first(two_sums(), tight)
    assert "do not fit into registers" in decision(launch, "does a product run ahead").because
    assert next(c.depth for c in launch.channels if c.name == "Ks") == 2


def test_tiles_that_do_not_fit_are_an_error_that_says_what_would() -> None:
    with pytest.raises(CompileError) as caught:
        plan(gemm(BM=512, BN=512, BK=512, dtype="float32"), LANES_ASYNC)
    text = str(caught.value)
    assert caught.value.code == "E301"
    assert f"of the target {LANES_ASYNC.target} holds 232448 bytes" in text
    assert "As 512x512 float32 of 1048576 bytes x 1" in text
    assert "Bs 512x512" in text
    assert "smaller" in text or "would fit" in text


def test_the_error_names_rows_that_fit() -> None:
    tight = replace(LOCAL_ONLY, spaces=tuple(replace(s, bytes=100 * 1024) if s.name == "local" else s for s in LOCAL_ONLY.spaces))
    with pytest.raises(CompileError, match="Cl with 176 rows instead of 256 would fit there"):
        plan(gemm(BM=256, BN=128, BK=16, stages=1), tight)
    plan(gemm(BM=176, BN=128, BK=16, stages=1), tight)


def test_too_many_lanes_are_an_error() -> None:
    @T.prim_func
    def wide(A: T.Tensor((4096,), "float32"), B: T.Tensor((4096,), "float32")):
        with T.Kernel(2, threads=2048) as bx:
            tx = T.get_thread_binding()
            B[bx * 2048 + tx] = A[bx * 2048 + tx]

    with pytest.raises(CompileError) as caught:
        plan(wide.kernel, LANES_ASYNC)
    assert caught.value.code == "E302"
    plan(wide.kernel, SCALAR_VECTOR_CPU)


def test_tiles_of_dead_ranges_share_bytes() -> None:
    @T.prim_func
    def one_after_the_other(X: T.Tensor((64, 64), "float32"), Y: T.Tensor((3, 64, 64), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((64, 64), "float32")
            b = T.alloc_shared((64, 64), "float32")
            c = T.alloc_shared((64, 64), "float32")
            T.copy(X, a)
            T.copy(a, b)
            T.copy(b, c)
            T.copy(c, Y[0, 0, 0])

    placed = {p.buffer.name: p.offset for p in first(one_after_the_other.kernel, LOCAL_ONLY).placements}
    assert placed["a"] == placed["c"] != placed["b"]


# ---- edges


def test_only_the_tail_of_a_loop_is_tested() -> None:
    launch = first(gemm(K=500, stages=0), QUEUES_CUBE)
    assert decision(launch, "are copies in the loop over k tested").chosen == "only in a tail"
    (main,) = launch.full_loops
    assert main.stop.value == 15  # 15 x 32 = 480 of 500
    copies = {c.operation.dst.buffer.name: c for c in launch.choices if isinstance(c.operation, Copy)}
    assert (copies["As"].edge, copies["As"].tested) == ("partial", (1,))
    assert (copies["Bs"].edge, copies["Bs"].tested) == ("partial", (0,))
    assert copies["C"].edge == "none"


def test_copies_that_fill_by_themselves_need_no_split() -> None:
    launch = first(gemm(K=504), LANES_ASYNC)
    assert launch.full_loops == ()
    assert "which the mechanism does by itself" in decision(launch, "how is A copied").because


def test_a_safe_value_keeps_a_copy_from_a_mechanism_that_fills_with_zeros() -> None:
    @T.prim_func
    def safe(X: T.Tensor((60, 64), "float16"), Y: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=32):
            T.annotate_safe_value({X: 1.0})
            tile = T.alloc_shared((64, 64), "float16")
            for k in T.Pipelined(2, num_stages=2):
                T.copy(X[k * 32, 0], tile)
                T.copy(tile, Y)

    said = decision(first(safe.kernel, LANES_ASYNC), "how is X copied")
    assert said.chosen == "lane moves"
    assert said.rejected == (("box copy", "fills with zeros, and X has another safe value"),)


# ---- schedules by hand


def test_stages_by_hand_give_the_versions() -> None:
    launch = first(gemm(order=[0, 1, 2], stage=[0, 0, 2]), LANES_ASYNC)
    assert launch.channels[0].depth == 3
    assert "makes it in stage 0 and uses it in stage 2" in decision(launch, "how do As and Bs get").because


def test_a_schedule_by_hand_is_followed_within_one_role() -> None:
    launch = first(gemm(order=[2, 1, 0], stage=[0, 0, 1]), LOCAL_ONLY)
    steady = next(s for s in walk(launch.roles[0]) if isinstance(s, For) and s.var.name == "k_step")
    work, issue = steady.body  # the product first, then the copies of the next iteration
    assert isinstance(work.body[-1], Release)
    assert [s.operation.dst.buffer.name for s in issue.body if isinstance(s, Issue)] == ["Bs", "As"]


def test_a_schedule_by_hand_that_would_change_the_result_is_refused() -> None:
    launch = first(gemm(order=[0, 1, 2], stage=[1, 1, 0]), LOCAL_ONLY)
    said = decision(launch, "is the author's schedule")
    assert (said.chosen, said.because) == ("no", "As would be read before it is written")
    assert launch.channels[0].depth == 3  # what num_stages asks for


def test_a_schedule_by_hand_that_counts_wrong_is_refused() -> None:
    launch = first(gemm(order=[0, 1], stage=[0, 0]), LOCAL_ONLY)
    assert "2 stages and 2 places for 3 statements" in decision(launch, "is the author's schedule").because


# ---- the launch


def test_small_products_are_taken_several_at_once() -> None:
    launch = first(gemm(BM=64, BN=32, dtype="float32"), SCALAR_VECTOR_CPU)
    assert launch.order.coarsen == (1, 4)


@pytest.mark.parametrize("side, threads, coarsen", [(4096, 2, (1, 2)), (1024, 2, (1, 2)), (1024, 16, ()), (256, 2, ()), (0, 2, ())])
def test_cells_that_share_operands_are_taken_together(side: int, threads: int, coarsen: tuple[int, ...]) -> None:
    machine = replace(SCALAR_VECTOR_CPU, threads=threads)
    launch = first(gemm(dtype="float32", M=side, N=side), machine)
    assert launch.order.coarsen == coarsen
    if coarsen:
        assert "comes into the caches for one cell serves the others" in decision(launch, "how many cells").because
    else:
        assert not [d for d in launch.decisions if "how many cells" in d.question]


@pytest.mark.parametrize("side, coarsen", [(4096, (4, 8)), (2048, (1, 8))])
def test_more_cells_are_taken_together_where_workers_pack_for_themselves(side: int, coarsen: tuple[int, ...]) -> None:
    launch = first(gemm(dtype="float32", M=side, N=side, K=1 << 16), replace(SCALAR_VECTOR_CPU, threads=2))
    assert "worker" in {layout.kept for layout in choice(launch, Gemm).layouts}
    assert launch.order.coarsen == coarsen
    assert "one cell has packed serves the others" in decision(launch, "how many cells").because


@pytest.mark.parametrize(
    "sizes, kinds, words",
    [
        ({"M": 512, "N": 512}, ("launch", "launch"), "all cells along the other axes of the grid use the same"),
        ({"M": 128, "N": 512}, ("launch", "cell"), "one cell alone uses it"),
        ({"M": 512, "N": 128}, ("cell", "launch"), "the same"),
        ({"M": 128, "N": 128}, ("cell", "cell"), "one cell alone uses it"),
        ({"M": 1 << 17, "N": 512, "K": 1 << 14}, ("worker", "launch"), "the same 32768 KiB"),
        ({"M": 512, "N": 1 << 17, "K": 1 << 14}, ("launch", "worker"), "its packed form is 8192 MiB, more than the 256"),
    ],
    ids=str,
)
def test_who_keeps_what_is_packed(sizes: dict[str, int], kinds: tuple[str, str], words: str) -> None:
    launch = first(gemm(dtype="float32", BM=128, BN=128, **sizes), SCALAR_VECTOR_CPU)
    assert tuple(at.kept for at in choice(launch, Gemm).layouts if at.operand != "c") == kinds
    assert words in decision(launch, "who packs B").because
    places = {at.operand: [v.name for v in at.places] for at in choice(launch, Gemm).layouts if at.kept in ("launch", "cell")}
    assert all(found == {"a": ["by"], "b": ["bx"]}[operand] for operand, found in places.items())


@pytest.mark.parametrize(
    "offset, steps, kind, reason",
    [
        ("k * 8", "8", "launch", "all cells"),
        ("max(0, n) + k * 8", "8", "launch", "all cells"),  # an argument is the same everywhere
        ("by * 8 + k * 8", "8", "launch", "all cells"),
        ("k * 8", "by + 1", "worker", "how many steps the loop has"),
        ("k * 8", "n", "worker", "how many steps the loop has"),
        ("max(0, shift) + k * 8", "8", "worker", "depends on"),
        ("outer * 8 + k * 8", "8", "worker", "depends on outer, which changes within a cell"),
    ],
)
def test_what_is_packed_is_shared_where_it_is_a_function_of_the_grid(offset: str, steps: str, kind: str, reason: str) -> None:
    kernel = parse_kernel(
        "# tile-ir 1.0\n\n\ndef k(A: tensor((32, 256), float32), B: tensor((256, 32), float32), C: tensor((32, 32), float32), "
        "S: tensor((4,), int32), n: scalar(int32)):\n"
        '    with launch(2, 4) as (bx, by):\n        a = alloc((8, 8), float32, "shared")\n        b = alloc((8, 32), float32, "shared")\n'
        '        c = alloc((8, 32), float32, "fragment")\n        shift: int32 = S[0]\n'
        "        for outer in serial(2):\n            fill(c[:, :], 0.0)\n"
        f"            for k in pipelined({steps}, stages=2):\n                copy(A[by * 8:+8, k * 8:+8], a[:, :])\n"
        f"                copy(B[{offset}:+8, 0:+32], b[:, :])\n                gemm(a[:, :], b[:, :], c[:, :], clear=False)\n"
        "            copy(c[:, :], C[by * 8:+8, 0:+32])\n"
    )
    launch = first(kernel, SCALAR_VECTOR_CPU)
    layout = next(at for at in choice(launch, Gemm).layouts if at.operand == "b")
    assert layout.kept == kind, [d.because for d in launch.decisions if "who packs" in d.question]
    assert reason in decision(launch, "who packs B").because


OUT = "fill(c[:, :], 0.0)\nLOOP\ncopy(c[:, :], C[:, :])"


@pytest.mark.parametrize(
    "lines, is_stored",
    [
        (OUT, True),
        ("fill(c[:, :], 1.0)\nLOOP\ncopy(c[:, :], C[:, :])", True),  # only the fill is not replaced
        ("LOOP\ncopy(c[:, :], C[:, :])", False),  # the tile holds what is not known
        ("fill(c[:, :], 0.0)\nLOOP\ncopy(c[:, :], C[:, :])\ncopy(c[:, :], D[:, :])", False),
        ("fill(c[:, :], 0.0)\nLOOP\ncopy(c[0:+4, :], C[0:+4, :])", False),
        ("fill(c[:, :], 0.0)\nLOOP\nfill(s[:, :], 0.0)\ncopy(c[:, :], C[:, :])", False),  # something stands between
        ("fill(c[:, :], 0.0)\nLOOP\ncopy(c[:, :], C[:, :])\nfill(s[:, :], 0.0)", False),  # something follows
        ("fill(c[:, :], 0.0)\nLOOP\ncopy(c[:, :], s[:, :])", False),  # not to a tensor
    ],
)
def test_the_last_step_stores_the_result_where_nothing_else_reads_it(lines: str, is_stored: bool) -> None:
    loop = (
        "for k in pipelined(8, stages=2):\n    copy(A[:, k * 8:+8], a[:, :])\n    copy(B[k * 8:+8, :], b[:, :])\n"
        "    gemm(a[:, :], b[:, :], c[:, :], clear=False)"
    )
    body = textwrap.indent(lines.replace("LOOP", loop), " " * 8)
    tensors = "A: tensor((8, 64), float32), B: tensor((64, 32), float32), C: tensor((8, 32), float16), D: tensor((8, 32), float32)"
    kernel = parse_kernel(
        f"# tile-ir 1.0\n\n\ndef k({tensors}):\n"
        '    with launch(1) as (bx,):\n        a = alloc((8, 8), float32, "shared")\n        b = alloc((8, 32), float32, "shared")\n'
        f'        c = alloc((8, 32), float32, "fragment")\n        s = alloc((8, 32), float32, "shared")\n{body}\n'
    )
    launch = first(kernel, SCALAR_VECTOR_CPU)
    found = choice(launch, Gemm)
    assert found.merge == 8, "all of the loop"
    assert (found.out is not None) == is_stored
    told = [d for d in launch.decisions if d.question == "when is c copied to C?"]
    assert len(told) == is_stored


def test_operands_are_packed_straight_from_tensors_where_only_the_product_reads_them() -> None:
    launch = first(gemm(dtype="float32"), SCALAR_VECTOR_CPU)
    assert [at.is_direct for at in choice(launch, Gemm).layouts] == [True, True, False]
    assert choice(launch, Gemm).unread == ()  # no copy can leave its tensor
    assert "only this product reads it" in decision(launch, "is the tile As stored").because
    scores = choice(first(attention(), SCALAR_VECTOR_CPU), Gemm)
    assert [at.is_direct for at in scores.layouts] == [False, True, False]


@pytest.mark.parametrize(
    "start, is_direct",
    [("0", True), ("bx", True), ("S[0]", False), ("bx - 1", False)],
)
def test_the_first_iteration_is_known_where_the_last_one_is_made_of_data(start: str, is_direct: bool) -> None:
    """As in causal attention, whose loop ends where the block's queries see no more keys."""
    kernel = parse_kernel(
        "# tile-ir 1.0\n\n\ndef k(A: tensor((8, 256), float32), B: tensor((256, 32), float32), C: tensor((32, 32), float32), "
        "S: tensor((4,), int32)):\n"
        '    with launch(4) as (bx,):\n        a = alloc((8, 8), float32, "shared")\n        b = alloc((8, 32), float32, "shared")\n'
        '        c = alloc((8, 32), float32, "fragment")\n        fill(c[:, :], 0.0)\n'
        f"        for k in pipelined({start}, S[1], stages=2):\n            copy(A[:, k * 8:+8], a[:, :])\n"
        "            copy(B[k * 8:+8, 0:+32], b[:, :])\n            gemm(a[:, :], b[:, :], c[:, :], clear=False)\n"
        "        copy(c[:, :], C[bx * 8:+8, 0:+32])\n"
    )
    launch = first(kernel, SCALAR_VECTOR_CPU)
    assert [at.is_direct for at in choice(launch, Gemm).layouts] == [is_direct, is_direct, False]


def test_blocks_beyond_the_tensors_are_left_out() -> None:
    launch = first(gemm(dtype="float32", M=500, N=300), SCALAR_VECTOR_CPU)
    assert choice(launch, Gemm).unread == ("m", "n")
    assert "copied nowhere" in decision(launch, "are all blocks").because


def test_a_raster_hint_orders_the_grid() -> None:
    @T.prim_func
    def hinted(X: T.Tensor((64, 64), "float32")):
        with T.Kernel(8, 8, threads=32) as (bx, by):
            T.use_swizzle(4)
            for i, j in T.Parallel(8, 8):
                X[by * 8 + i, bx * 8 + j] = 1.0

    launch = first(hinted.kernel, LANES_ASYNC)
    assert launch.order.panel == 4
    assert "panels of 4 blocks" in decision(launch, "in which order do blocks run").chosen


# ---- what is left alone


def test_lane_code_is_one_role_untouched() -> None:
    @T.prim_func
    def lanes(X: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            X[tx] = X[tx] + 1.0

    launch = first(lanes.kernel, LANES_ASYNC)
    assert launch.roles[0].body is launch.launch.body
    assert "its author programs the lanes" in decision(launch, "which roles").because


def test_atomics_with_an_order_keep_everything_in_place() -> None:
    @T.prim_func
    def flags(X: T.Tensor((512, 64), "float16"), Y: T.Tensor((512, 64), "float16"), flag: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((64, 64), "float16")
            for k in T.Pipelined(8, num_stages=3):
                T.copy(X[k * 64, 0], tile)
                T.copy(tile, Y[k * 64, 0])
            T.atomic_add(flag[0], 1, memory_order="release")

    for machine in (LANES_ASYNC, QUEUES_CUBE, LOCAL_ONLY):
        assert "nothing may move across them" in decision(first(flags.kernel, machine), "which roles").because


def test_blocks_run_in_panels_that_read_the_least() -> None:
    launch = first(gemm(M=8192, N=8192, BM=128, BN=256), LANES_ASYNC)
    # 132 blocks at work: g of them along the rows read 128 g + 256 ceil(132 / g)
    reads = {g: 128 * g + 256 * -(-132 // g) for g in range(1, 65)}
    assert launch.order.panel == min(reads, key=lambda g: (reads[g], g)) == 15
    told = decision(launch, "in which order do blocks run")
    assert told.chosen == "panels of 15 blocks along by" and str(reads[15]) in told.because and str(reads[1]) in told.rejected[0][1]


def test_blocks_that_all_run_at_once_need_no_order() -> None:
    assert first(gemm(M=1024, N=1024), LANES_ASYNC).order.panel == 1
    assert first(attention(), LANES_ASYNC).order.panel == 1
    assert first(gemm(M=8192, N=8192), SCALAR_VECTOR_CPU).order.panel == 1
