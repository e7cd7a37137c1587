"""Vector types written out lane by lane mean the same."""

from __future__ import annotations

import numpy as np
import pytest

from zellige.ir.expr import ExprNode
from zellige.ir.traverse import buffers_in, walk
from zellige.ir.verify import verify
from zellige.passes.expand_vectors import expand_vectors


def is_scalar(kernel) -> bool:
    return all(n.dtype.lanes == 1 for n in walk(kernel) if isinstance(n, ExprNode)) and all(b.dtype.lanes == 1 for b in buffers_in(kernel))


def test_a_kernel_without_vectors_is_left_alone(same_meaning):
    kernel = same_meaning(lambda kernel: kernel, "A: tensor((4,), int32)", "A[0] = 1", np.zeros(4, np.int32))
    assert expand_vectors(kernel) is kernel


CASES = {
    "elements": "for i in parallel(4):\n    B[i] = A[i] * A[3 - i] + cast(2.0, float32x4) if i < 2 else A[3 - i]",
    "variables": "v: float32x4 = A[1]\nm: mutable(float32x4) = v\nfor r in serial(3):\n    m = m + A[r]\nB[0] = m - v",
    "tiles": 'S = alloc((4,), float32x4, "shared")\ncopy(A[0:+4], S[0:+4])\nfill(B[1:+2], A[3])\ncopy(S[2:+1], B[0:+1])',
    "atomics": 'for i in serial(4):\n    o: float32x4 = atomic("add", B[1], A[i])\n    B[2] = o',
    "transpose": 'S = alloc((2, 3), float32x4, "shared")\nfor i, j in parallel(2, 3):\n    S[i, j] = A[i + j]\n'
    'R = alloc((3, 2), float32x4, "shared")\ntranspose(S[:, :], R[:, :])\nfor i in parallel(3):\n    B[i] = R[i, 1] - R[2, 0]',
    "outside": "safe_value(A, cast(-1.5, float32x4))\nB[0] = A[9]\nB[7] = A[0]",
}


@pytest.mark.parametrize("body", CASES.values(), ids=CASES.keys())
def test_vectors_of_floats(same_meaning, body):
    a = np.arange(16, dtype=np.float32).reshape(4, 4)
    kernel = same_meaning(expand_vectors, "A: tensor((4,), float32x4), B: tensor((4,), float32x4)", body, a, a * 0 + 7)
    assert is_scalar(kernel) and [d.render() for d in verify(kernel)] == []


PAIRS = [("uint8x4", "uint32"), ("uint32", "uint8x4"), ("int16x4", "int32x2"), ("int32x2", "int16x4"), ("float32", "uint16x2")]


@pytest.mark.parametrize("source,target", PAIRS)
def test_bits_of_lanes_are_taken_apart_and_put_together(same_meaning, random, source, target):
    def array(name: str) -> np.ndarray:
        base, _, lanes = name.partition("x")
        return random.integers(0, 200, (5, int(lanes)) if lanes else 5).astype(base)

    body = f"for i in parallel(5):\n    B[i] = reinterpret(A[i], {target})"
    kernel = same_meaning(expand_vectors, f"A: tensor((5,), {source}), B: tensor((5,), {target})", body, array(source), array(target))
    assert is_scalar(kernel) and [d.render() for d in verify(kernel)] == []


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(7)
