"""The demonstration's cases: inputs, what NumPy says, and how far a right kernel may be from that.

In: whether sizes are small. Out: :class:`Case` objects. Each bound is derived from the arithmetic of the kernel by the standard error
analysis (Higham, Accuracy and Stability of Numerical Algorithms, chapters 2 and 3): u is the unit roundoff, gamma(n) = n u / (1 - n u)
bounds the relative error of a sum or product of n terms in any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from zellige.demo import kernels

Array = npt.NDArray[Any]

_U16: Final = 2.0**-11
_U32: Final = 2.0**-24
_EXP2: Final = 4 * _U32
"""Relative error that an exp2 of two units in the last place may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kernel with its inputs. ``work`` counts ``unit`` per launch; ``reference`` gives expected values and bounds elementwise."""

    name: str
    size: str
    build: Callable[[], Any]
    inputs: tuple[Array, ...]
    reference: Callable[[], tuple[Array, Array]]
    numpy: Callable[[], Array]
    work: float
    unit: str


def cases(*, quick: bool = False, simulated: bool = False) -> tuple[Case, ...]:
    """All cases: the usual sizes, small ones where ``quick``, and the least that still have several blocks where they are ``simulated``,
    which takes a hundred thousand times as long. The sizes do not divide the tiles, so that every kernel runs its edges."""
    if simulated:
        return (_addition(5_003), _gemm(70, 70, 40), _attention(1, 1, 70, 64))
    if quick:
        return (_addition(10_007), _gemm(200, 136, 90), _attention(1, 2, 150, 64))
    return (_addition(5_000_011), _gemm(1000, 1000, 1000), _attention(1, 8, 1000, 64))


def _gamma(n: int, u: float = _U32) -> float:
    return n * u / (1 - n * u)


def _addition(n: int) -> Case:
    random = np.random.default_rng(0)
    a, b = random.standard_normal((2, n), dtype=np.float32)
    return Case(
        name="vector addition",
        size=f"{n:,} f32",
        build=lambda: kernels.vector_addition(n),
        inputs=(a, b),
        reference=lambda: (a + b, np.zeros(n)),  # one rounding in both: equal bit for bit
        numpy=lambda: a + b,
        work=3 * 4 * n,
        unit="B",
    )


def _gemm(m: int, n: int, k: int) -> Case:
    random = np.random.default_rng(1)
    a = random.standard_normal((m, k), dtype=np.float32)
    b = random.standard_normal((k, n), dtype=np.float32)

    def reference() -> tuple[Array, Array]:
        exact = a.astype(np.float64) @ b.astype(np.float64)
        return exact, _gamma(k) * (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64))

    return Case(
        name="pipelined GEMM",
        size=f"{m}x{n}x{k} f32",
        build=lambda: kernels.pipelined_gemm(m, n, k),
        inputs=(a, b),
        reference=reference,
        numpy=lambda: a @ b,
        work=2.0 * m * n * k,
        unit="flop",
    )


def _attention(batch: int, heads: int, length: int, width: int) -> Case:
    random = np.random.default_rng(2)
    q, k, v = random.standard_normal((3, batch, heads, length, width)).astype(np.float16)

    def softmax(dtype: Any) -> tuple[Array, Array]:
        """Scores in natural units and weights of each row."""
        scores = (q.astype(dtype) @ k.astype(dtype).swapaxes(-1, -2)) / dtype(math.sqrt(width))
        scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return scores, weights / weights.sum(axis=-1, keepdims=True)

    def reference() -> tuple[Array, Array]:
        scores, weights = softmax(np.float64)
        values = v.astype(np.float64)
        exact = weights @ values
        return exact, attention_bound(q, k, values, scores, weights, exact)

    return Case(
        name="causal attention",
        size=f"{batch}x{heads}x{length}x{width} f16",
        build=lambda: kernels.causal_attention(batch, heads, length, width),
        inputs=(q, k, v),
        reference=reference,
        numpy=lambda: softmax(np.float32)[1] @ v.astype(np.float32),
        work=4.0 * batch * heads * width * length * (length + 1) / 2,
        unit="flop",
    )


def attention_bound(q: Array, k: Array, values: Array, scores: Array, weights: Array, exact: Array, *, block: int = 64) -> Array:
    """How far online softmax attention with float32 accumulation and float16 weights may be from ``exact``, elementwise.

    A weight is exp2 of an argument x = g s - g max. The product s of ``width`` terms errs by gamma(width) |q| |k|; scaling and subtracting
    add three roundings of |g s| + |g max|; so the weight errs relatively by that in natural units, plus exp2's own error. Every later block
    rescales by such a factor. Rounding to float16 adds u16 relatively (numerator only) and half the least subnormal absolutely. Sums of
    ``length`` terms err by gamma(length) in numerator and denominator; the quotient and its rounding to float16 come last.
    """
    length, width = q.shape[-2:]
    scale = 1 / math.sqrt(width)
    product = np.abs(q).astype(np.float64) @ np.abs(k).astype(np.float64).swapaxes(-1, -2)
    seen = np.tri(length, dtype=bool)
    magnitude = np.where(seen, np.abs(scores), 0).max(axis=-1, keepdims=True)
    argument = _gamma(width) * scale * np.where(seen, product, 0).max(axis=-1, keepdims=True) + 6 * _U32 * magnitude
    blocks = math.ceil(length / block)
    factor = np.expm1(argument) + _EXP2 + blocks * (np.expm1(6 * _U32 * magnitude) + _EXP2 + 2 * _U32)
    numerator = factor + _U16 + _gamma(length)
    denominator = factor + _gamma(length)
    spread = weights @ np.abs(values)
    subnormal = 2.0**-25 * np.cumsum(np.abs(values), axis=-2)
    before = ((numerator + denominator) * spread + subnormal) / (1 - denominator) + 2 * _U32 * np.abs(exact)
    result: Array = before + _U16 * (np.abs(exact) + before) + 2.0**-25
    return result
