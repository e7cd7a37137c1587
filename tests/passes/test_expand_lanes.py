"""Lane kernels written out as loops mean the same, and are refused where they cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from zellige.diagnostics import CompileError, Unsupported
from zellige.ir.stmt import Barrier, Map, Return, Shuffle, Vote
from zellige.ir.traverse import rebuilt, walk
from zellige.passes.expand_lanes import expand_lanes

LANES = "launch(2, threads=(64,)) as (bx,), lanes() as (tx,)"
PARAMETERS = "A: tensor((2, 64), int32), B: tensor((2, 64), int32)"


def expanded(kernel):
    return rebuilt(kernel, launches=tuple(expand_lanes(launch, warp=32, target="here") for launch in kernel.launches))


def arguments(seed: int = 3) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.integers(-5, 9, (2, 64)).astype(np.int32), np.zeros((2, 64), np.int32)]


CASES = {
    "alone": """
        x: int32 = A[bx, tx]
        B[bx, tx] = x * x
    """,
    "through memory": """
        S = alloc((64,), int32, "shared")
        S[tx] = A[bx, tx]
        B[bx, tx] = S[63 - tx] + S[tx]
    """,
    "in one statement": """
        S = alloc((64,), int32, "shared")
        S[tx] = A[bx, tx]
        S[tx] = S[(tx + 63) % 64]
        B[bx, tx] = S[tx]
    """,
    "some lanes": """
        S = alloc((64,), int32, "shared")
        S[tx] = 1
        if A[bx, tx] > 0:
            S[tx] = 5
            B[bx, tx] = S[(tx + 1) % 64]
        else:
            B[bx, tx] = S[tx]
    """,
    "tree": """
        S = alloc((64,), int32, "shared")
        S[tx] = A[bx, tx]
        for r in serial(6):
            barrier("block")
            if tx < 32 >> r:
                S[tx] = S[tx] + S[tx + (32 >> r)]
        barrier("block")
        B[bx, tx] = S[0]
    """,
    "early": """
        if tx > 40:
            return
        B[bx, tx] = 1
        y: int32 = shuffle("down", A[bx, tx], 2, width=16)
        B[bx, tx] = y
    """,
    "loops": """
        n: mutable(int32) = 0
        for r in serial(A[bx, tx]):
            if r == 3:
                continue
            o: int32 = shuffle("xor", n, 1, width=4)
            n = n + o + 1
            if n > 9:
                break
        B[bx, tx] = n
    """,
    "local": """
        L = alloc((3,), int32, "local")
        for q in serial(3):
            L[q] = A[bx, tx] + q
        barrier("block")
        for i in parallel(3):
            L[i] = L[i] * 2
        B[bx, tx] = L[2] - L[0]
    """,
    "vote": """
        v: bool = vote("any", "warp", A[bx, tx] > 7)
        c: int32 = vote("count", "block", A[bx, tx] > 2)
        if c > 10:
            barrier("block")
            B[bx, tx] = c if v else -c
    """,
    "tiles": """
        S = alloc((64,), int32, "shared")
        copy(A[bx, 0:+64], S[0:+64])
        S[tx] = S[tx] + tx
        reduce("max", S[0:+64], S[0:+1], axis=0)
        B[bx, tx] = S[0]
    """,
    "uniform variable": """
        n: mutable(int32) = 0
        for r in serial(4):
            n = n + r
            B[bx, tx] = B[bx, tx] + n
    """,
    "atomic": """
        o: int32 = atomic("add", B[bx, 0], 1)
        barrier("block")
        B[bx, tx] = B[bx, tx] + o
    """,
}


@pytest.mark.parametrize("body", CASES.values(), ids=CASES.keys())
def test_the_same_without_lanes(same_meaning, body):
    kernel = same_meaning(expanded, PARAMETERS, body, *arguments(), launch=LANES)
    assert not any(launch.lane_vars for launch in kernel.launches)
    assert not any(isinstance(node, (Barrier, Shuffle, Vote, Return)) for node in walk(kernel))


def maps_of(same_meaning, body: str) -> int:
    kernel = same_meaning(expanded, PARAMETERS, body, *arguments(), launch=LANES)
    return sum(isinstance(node, Map) for node in walk(kernel))


def test_code_of_which_each_lane_is_alone_is_one_loop(same_meaning):
    body = """
        s: mutable(int32) = 0
        for r in serial(5):
            s = s + A[bx, (tx + r) % 64]
        if s > 3:
            B[bx, tx] = s
        else:
            B[bx, tx] = B[bx, tx] - s
    """
    assert maps_of(same_meaning, body) == 1


def test_a_stretch_ends_where_lanes_may_meet(same_meaning):
    alone = 'S = alloc((64,), int32, "shared")\nS[tx] = A[bx, tx]\nB[bx, tx] = S[tx]'
    meeting = 'S = alloc((64,), int32, "shared")\nS[tx] = A[bx, tx]\nB[bx, tx] = S[63 - tx]'
    assert (maps_of(same_meaning, alone), maps_of(same_meaning, meeting)) == (1, 2)


def test_the_number_of_lanes_must_be_known(same_meaning):
    from zellige.ir.parser import parse_kernel

    head = "def k(A: tensor((64,), int32), n: scalar(int32)):\n    with launch(1, threads=(n,)) as (bx,), lanes() as (tx,):"
    text = f"# tile-ir 1.0\n\n\n{head}\n        A[tx] = 1\n"
    with pytest.raises(Unsupported) as caught:
        expanded(parse_kernel(text))
    assert caught.value.code == "E412" and caught.value.span.line == 5


@pytest.mark.parametrize(
    "body,code",
    [
        ('x: int32 = shuffle("xor", tx, 1, width=64)', "E446"),
        ('v: bool = vote("any", "grid", tx > 3)', "E447"),
        ('barrier("grid")', "E447"),
        ('barrier("cluster")', "E447"),
    ],
)
def test_what_one_block_cannot_do(body, code):
    from zellige.ir.parser import parse_kernel

    text = f"# tile-ir 1.0\n\n\ndef k({PARAMETERS}):\n    with {LANES}:\n        {body}\n"
    with pytest.raises(CompileError) as caught:
        expanded(parse_kernel(text))
    assert caught.value.code == code and caught.value.span.line == 6
