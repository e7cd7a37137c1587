"""Kernels with lanes: lock step, divergence, shuffles, votes, collective operations, barriers over blocks."""

from __future__ import annotations

import numpy as np
import pytest

from zellige.diagnostics import LaunchError, Unsupported
from zellige.interp import Report

LANES64 = "launch(1, threads=(64,)) as (bx,), lanes() as (tx,)"


def test_lane_numbers_of_three_axes(run_block):
    b = np.zeros((4, 24), np.int32)
    body = """
        n: int32 = tx + 2 * ty + 6 * tz
        B[bx, n] = tx * 100 + ty * 10 + tz
    """
    launch = "launch(4, threads=(2, 3, 4)) as (bx,), lanes() as (tx, ty, tz)"
    run_block("B: tensor((4, 24), int32)", body, b, launch=launch)
    assert b.tolist() == [[n % 2 * 100 + n // 2 % 3 * 10 + n // 6 for n in range(24)]] * 4


def test_divergent_control_flow(run_block):
    body = """
        v: mutable(int32) = 0
        L = alloc((4,), int32, "local")
        for r in serial(4):
            L[r] = tx * r
        for r in serial(tx % 5):
            if r == 3 and tx % 2 == 0:
                continue
            if tx > 40 and r == 2:
                break
            v = v + L[r] + 1
        while v % 7 != 0:
            v = v + 1
            if tx == 13:
                break
        if tx == 5:
            B[tx] = -5
            return
        elif tx % 3 == 0:
            v = -v
        B[tx] = v
    """
    b = np.zeros(64, np.int32)
    run_block("B: tensor((64,), int32)", body, b, launch=LANES64)
    expected = []
    for tx in range(64):
        v = 0
        for r in range(tx % 5):
            if r == 3 and tx % 2 == 0:
                continue
            if tx > 40 and r == 2:
                break
            v += tx * r + 1
        while v % 7 != 0:
            v += 1
            if tx == 13:
                break
        expected.append(-5 if tx == 5 else -v if tx % 3 == 0 else v)
    assert b.tolist() == expected


def test_lanes_exchange_through_shared_memory(run_block, random):
    a, b = random.integers(0, 100, (3, 64)).astype(np.int32), np.zeros((3, 64), np.int32)
    body = """
        S = alloc((64,), int32, "shared")
        S[tx] = A[bx, tx]
        barrier("block")
        B[bx, tx] = S[63 - tx] * 2
    """
    run_block(
        "A: tensor((3, 64), int32), B: tensor((3, 64), int32)", body, a, b, launch="launch(3, threads=(64,)) as (bx,), lanes() as (tx,)"
    )
    np.testing.assert_array_equal(b, a[:, ::-1] * 2)


def test_a_tree_sum_in_shared_memory(run_block, random):
    a, b = random.integers(0, 100, 64).astype(np.int32), np.zeros(1, np.int32)
    body = """
        S = alloc((64,), int32, "shared")
        S[tx] = A[tx]
        step: mutable(int32) = 32
        while step > 0:
            barrier("block")
            if tx < step:
                S[tx] = S[tx] + S[tx + step]
            step = step // 2
        barrier("block")
        if tx == 0:
            B[0] = S[0]
    """
    run_block("A: tensor((64,), int32), B: tensor((1,), int32)", body, a, b, launch=LANES64)
    assert b[0] == a.sum()


@pytest.mark.parametrize("lanes", [16, 32, 64])
@pytest.mark.parametrize("mode", ["xor", "up", "down", "index"])
@pytest.mark.parametrize("width", [4, 16])
def test_shuffle(mode, width, lanes, run_block, random):
    a, b = random.integers(0, 100, 50).astype(np.int32), np.zeros(50, np.int32)
    operand = "tx % 7 - 1"
    launch = "launch(1, threads=(50,)) as (bx,), lanes() as (tx,)"
    run_block(
        "A: tensor((50,), int32), B: tensor((50,), int32)",
        f'x: int32 = shuffle("{mode}", A[tx], {operand}, width={width})\nB[tx] = x',
        a,
        b,
        launch=launch,
        lanes=lanes,
    )
    for tx in range(50):
        own, delta = tx % width, tx % 7 - 1
        other = {"xor": own ^ delta, "up": own - delta, "down": own + delta, "index": delta}[mode]
        source = tx - own + other
        assert b[tx] == (a[source] if 0 <= other < width and source < 50 else a[tx])


def test_shuffle_wider_than_a_warp(run_block):
    with pytest.raises(Unsupported) as caught:
        run_block(
            "B: tensor((64,), int32)",
            'x: int32 = shuffle("xor", tx, 1, width=32)\nB[tx] = x',
            np.zeros(64, np.int32),
            launch=LANES64,
            lanes=16,
        )
    assert caught.value.code == "E446" and caught.value.span.line == 6


@pytest.mark.parametrize("lanes", [16, 32])
@pytest.mark.parametrize("scope", ["warp", "block"])
def test_votes(scope, lanes, run_block, random):
    a = random.integers(0, 2, 50).astype(np.int32)
    a[:20] = 1
    b = np.zeros((3, 50), np.int32)
    body = f"""
        x: bool = vote("any", "{scope}", A[tx] == 0)
        y: bool = vote("all", "{scope}", A[tx] == 1)
        n: int32 = vote("count", "{scope}", A[tx] == 1)
        B[0, tx] = cast(x, int32)
        B[1, tx] = cast(y, int32)
        B[2, tx] = n
    """
    run_block(
        "A: tensor((50,), int32), B: tensor((3, 50), int32)",
        body,
        a,
        b,
        launch="launch(1, threads=(50,)) as (bx,), lanes() as (tx,)",
        lanes=lanes,
    )
    for tx in range(50):
        first = tx // lanes * lanes if scope == "warp" else 0
        group = a[first : first + lanes].tolist() if scope == "warp" else a.tolist()
        assert b[:, tx].tolist() == [0 in group, 0 not in group, group.count(1)]


def test_ballot_counts_only_lanes_that_take_part(run_block):
    b = np.zeros(48, np.uint32)
    body = """
        if tx % 3 == 0:
            m: uint32 = vote("ballot", "warp", tx < 40)
            n: bool = vote("all", "warp", tx < 40)
            B[tx] = m + cast(n, uint32)
    """
    run_block("B: tensor((48,), uint32)", body, b, launch="launch(1, threads=(48,)) as (bx,), lanes() as (tx,)")
    first = sum(1 << tx for tx in range(32) if tx % 3 == 0)
    second = sum(1 << (tx - 32) for tx in range(32, 40) if tx % 3 == 0)
    assert b.tolist() == [(first + 1 if tx < 32 else second) if tx % 3 == 0 else 0 for tx in range(48)]


def test_vote_over_blocks_is_refused(run_block):
    with pytest.raises(Unsupported) as caught:
        run_block(
            "B: tensor((64,), int32)",
            'x: bool = vote("any", "grid", tx > 1)\nB[tx] = cast(x, int32)',
            np.zeros(64, np.int32),
            launch=LANES64,
        )
    assert caught.value.code == "E447"


def test_collective_operations_run_once_for_the_block(run_block, random):
    a, b, n = random.integers(0, 9, (8, 8)).astype(np.int32), np.zeros((8, 8), np.int32), np.zeros(1, np.int32)
    body = """
        S = alloc((8, 8), int32, "shared")
        F = alloc((8,), int32, "fragment")
        k: mutable(int32) = 0
        for r in serial(2):
            copy(A[k:+4, 0:+8], S[k:+4, 0:+8])
            k = k + 4
        for i, j in parallel(8, 8):
            S[i, j] = S[i, j] * 10 + i
            atomic("add", N[0], 1)
        reduce("sum", S[0:+8, 0:+8], F[0:+8], axis=1)
        if tx < 8:
            B[0, tx] = S[tx, 0]
        copy(F[0:+8], B[1:+1, 0:+8])
    """
    run_block("A: tensor((8, 8), int32), B: tensor((8, 8), int32), N: tensor((1,), int32)", body, a, b, n, launch=LANES64)
    assert n[0] == 64
    assert b[0].tolist() == [int(a[t, 0]) * 10 + t for t in range(8)]
    assert b[1].tolist() == [int(sum(a[t])) * 10 + 8 * t for t in range(8)]


def test_each_lane_has_its_own_local_buffers(run_block, random):
    a, b = random.integers(0, 9, (64, 4)).astype(np.int32), np.zeros((64, 5), np.int32)
    body = """
        L = alloc((4,), int32, "local")
        T = alloc((1,), int32, "var")
        fill(L[0:+4], 3)
        for i in parallel(4):
            L[i] = L[i] + A[tx, i]
        copy(L[0:+4], B[tx:+1, 0:+4])
        T[0] = 0
        for i in serial(4):
            T[0] = T[0] + L[i]
        B[tx, 4] = T[0]
    """
    run_block("A: tensor((64, 4), int32), B: tensor((64, 5), int32)", body, a, b, launch=LANES64)
    for tx in range(64):
        assert b[tx].tolist() == [int(x) + 3 for x in a[tx]] + [int(sum(a[tx])) + 12]


def test_tile_operations_of_different_extents_by_lane(run_block):
    a, b = np.arange(20, dtype=np.int32), np.full((16, 8), -1, np.int32)
    body = """
        L = alloc((8,), int32, "local")
        fill(L[0:+8], 0)
        copy(A[tx:+(tx % 5)], L[0:+(tx % 5)])
        copy(L[0:+8], B[tx:+1, 0:+8])
    """
    launch = "launch(1, threads=(16,)) as (bx,), lanes() as (tx,)"
    run_block("A: tensor((20,), int32), B: tensor((16, 8), int32)", body, a, b, launch=launch)
    assert b.tolist() == [[tx + i if i < tx % 5 else 0 for i in range(8)] for tx in range(16)]


def test_atomic_tiles_of_lanes_act_in_turn(run_block):
    a, b = np.arange(32, dtype=np.int32).reshape(16, 2), np.zeros(2, np.int32)
    body = """
        L = alloc((2,), int32, "local")
        copy(A[tx:+1, 0:+2], L[0:+2])
        atomic_tile("add", L[0:+2], B[0:+2])
    """
    run_block("A: tensor((16, 2), int32), B: tensor((2,), int32)", body, a, b, launch="launch(1, threads=(16,)) as (bx,), lanes() as (tx,)")
    assert b.tolist() == a.sum(axis=0).tolist()


def test_an_atomic_tile_of_the_block_acts_once(run_block):
    b = np.ones(2, np.int32)
    run_block(
        "B: tensor((2,), int32)",
        'S = alloc((2,), int32, "shared")\nfill(S[0:+2], 5)\natomic_tile("add", S[0:+2], B[0:+2])',
        b,
        launch=LANES64,
    )
    assert b.tolist() == [6, 6]


def test_an_extent_that_lanes_do_not_agree_on(run_block):
    with pytest.raises(LaunchError) as caught:
        run_block(
            "B: tensor((4,), int32), n: scalar(int32)",
            "V = view(B, (tx * n,), int32)\nB[tx] = V[0]",
            np.zeros(4, np.int32),
            1,
            launch="launch(1, threads=(4,)) as (bx,), lanes() as (tx,)",
        )
    assert caught.value.code == "E641"


def test_prints_of_lanes_and_of_the_block(run_block, capsys):
    body = """
        S = alloc((2,), int32, "shared")
        fill(S[0:+2], 4)
        print("once", region=S[0:+2])
        if tx > 1:
            print("lane", value=tx)
    """
    run_block("B: tensor((1,), int32)", body, np.zeros(1, np.int32), launch="launch(1, threads=(4,)) as (bx,), lanes() as (tx,)")
    assert capsys.readouterr().out.splitlines() == ["once: [4, 4]", "lane: 2", "lane: 3"]


def test_a_barrier_over_the_grid(run_block):
    n, b = 5, np.zeros((5, 2), np.int32)
    body = """
        S = alloc((1,), int32, "shared")
        S[0] = bx * 10
        W[bx] = bx + 1
        barrier("grid")
        total: mutable(int32) = 0
        for i in serial(5):
            total = total + W[i]
        barrier("grid")
        W[bx] = total
        if bx % 2 == 0:
            barrier("grid")
        B[bx, 0] = S[0] + W[(bx + 1) % 5]
        B[bx, 1] = total
    """
    run_block("W: tensor((5,), int32), B: tensor((5, 2), int32)", body, np.zeros(5, np.int32), b, launch="launch(5) as (bx,)")
    assert b[:, 1].tolist() == [15] * n
    assert [b[i, 0] for i in (0, 2, 4)] == [15, 35, 55]  # they waited for all blocks to store the total


def test_an_error_ends_blocks_that_wait(run_block):
    with pytest.raises(LaunchError, match="block 2"):
        run_block(
            "W: tensor((4,), int32)",
            'barrier("grid")\nassert bx != 2, "block 2"\nbarrier("grid")\nW[bx] = 1',
            np.zeros(4, np.int32),
            launch="launch(4) as (bx,)",
        )


def test_different_values_for_one_element(run_block):
    body = """
        S = alloc((8,), int32, "shared")
        S[tx // 8] = 5
        S[tx // 8] = tx // 8
        S[tx // 8] = tx // 4
    """
    found = run_block(
        "B: tensor((1,), int32)", body, np.zeros(1, np.int32), launch=LANES64, report=Report(undefined=False, bounds=False)
    ).findings
    assert [f.code for f in found] == ["E296"]
    assert found[0].span.line == 9 and "lanes 3 and 4" in found[0].message and "S[0]" in found[0].message
