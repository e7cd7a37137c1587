"""Fits the polynomials of the CPU backend's math functions (zellige_cpu/leaf/polynomials.py) and prints them with their errors.

Needs mpmath. ``python benchmarks/fit_polynomials.py [NAME ...]``. Each fit minimises the largest weighted error by Lawson's
reweighted least squares, then rounds the coefficients to the target precision from the lowest degree up, fitting the rest again after each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np

mp.mp.prec = 120
LN2 = mp.log(2)
Real = Callable[[mp.mpf], mp.mpf]


@dataclass(frozen=True, kw_only=True)
class Fit:
    """``sum c[k] x**k`` near ``function`` on [low, high]; ``weight`` turns its error into a relative error of the result."""

    function: Real
    weight: Real
    low: float
    high: float
    terms: int
    precision: type = np.float32


def near_zero(limit: mp.mpf, formula: Real) -> Real:
    """``formula`` with its limit where it divides zero by zero."""
    return lambda x: formula(x) if abs(x) > 1e-11 else limit


def log2_atanh(s: mp.mpf) -> mp.mpf:
    """``log2((1 + r) / (1 - r)) / r`` at ``r = sqrt(s)``."""
    root = mp.sqrt(s)
    return mp.log((1 + root) / (1 - root), 2) / root


HALF_LN2 = float(LN2) / 2 + 1e-4
HALF_LOG10_2 = float(mp.log10(2)) / 2 + 1e-4
QUARTER_PI = 0.7855**2
FITS: dict[str, Fit] = {
    "EXP2": Fit(
        function=near_zero(LN2, lambda f: (mp.power(2, f) - 1) / f), weight=lambda f: f / mp.power(2, f), low=-0.5, high=0.5, terms=6
    ),
    "EXP": Fit(
        function=near_zero(mp.mpf(1) / 2, lambda r: (mp.expm1(r) - r) / r**2), weight=lambda r: r**2 / mp.exp(r),
        low=-HALF_LN2, high=HALF_LN2, terms=5,
    ),
    "EXPM1": Fit(
        function=near_zero(mp.mpf(1) / 2, lambda r: (mp.expm1(r) - r) / r**2),
        weight=near_zero(mp.mpf(0), lambda r: r**2 / mp.expm1(r)), low=-HALF_LN2, high=HALF_LN2, terms=6,
    ),
    "EXP10": Fit(
        function=near_zero(mp.log(10), lambda r: (mp.power(10, r) - 1) / r), weight=lambda r: r / mp.power(10, r),
        low=-HALF_LOG10_2, high=HALF_LOG10_2, terms=6,
    ),
    "LOG": Fit(
        function=near_zero(mp.mpf(1) / 3, lambda f: (mp.log1p(f) - f + f * f / 2) / f**3),
        weight=near_zero(mp.mpf(0), lambda f: f**3 / mp.log1p(f)), low=float(mp.sqrt(0.5)) - 1, high=float(mp.sqrt(2)) - 1, terms=8,
    ),
    "ERF_SMALL": Fit(
        function=near_zero(2 / mp.sqrt(mp.pi) - 1, lambda s: mp.erf(mp.sqrt(s)) / mp.sqrt(s) - 1),
        weight=near_zero(mp.sqrt(mp.pi) / 2, lambda s: mp.sqrt(s) / mp.erf(mp.sqrt(s))), low=0.0, high=1.0, terms=7,
    ),
    "ERF_LARGE": Fit(function=lambda t: mp.log(mp.erfc(t)), weight=lambda t: mp.erfc(t) / mp.erf(t), low=1.0, high=3.95, terms=7),
    "SIN": Fit(
        function=near_zero(mp.mpf(-1) / 6, lambda s: (mp.sin(mp.sqrt(s)) - mp.sqrt(s)) / mp.sqrt(s) ** 3),
        weight=near_zero(mp.mpf(0), lambda s: mp.sqrt(s) ** 3 / mp.sin(mp.sqrt(s))), low=0.0, high=QUARTER_PI, terms=3,
    ),
    "COS": Fit(
        function=near_zero(mp.mpf(1) / 24, lambda s: (mp.cos(mp.sqrt(s)) - 1 + s / 2) / s**2), weight=lambda s: s**2 / mp.cos(mp.sqrt(s)),
        low=0.0, high=QUARTER_PI, terms=3,
    ),
    "LOG2_ATANH": Fit(
        function=near_zero(2 / LN2, log2_atanh), weight=near_zero(LN2 / 2, lambda s: 1 / log2_atanh(s)), low=0.0, high=0.02945, terms=6,
        precision=np.float64,
    ),
    "EXP2_DOUBLE": Fit(
        function=lambda f: mp.power(2, f), weight=lambda f: mp.power(2, -f), low=-0.5, high=0.5, terms=8, precision=np.float64
    ),
}  # fmt: skip


def solve(fit: Fit, points: int = 3000, rounds: int = 80) -> tuple[list[float], float]:
    """The rounded coefficients and the largest weighted error that they leave."""
    k = np.arange(points)
    x = (fit.low + fit.high) / 2 + (fit.high - fit.low) / 2 * np.cos(np.pi * (k + 0.5) / points)
    target = np.array([float(fit.function(mp.mpf(t))) for t in x])
    scale = np.array([float(fit.weight(mp.mpf(t))) for t in x])
    reach = max(abs(fit.low), abs(fit.high))
    done: list[float] = []
    while len(done) < fit.terms:
        rest = np.arange(len(done), fit.terms)
        left = target - sum((c * x**p for p, c in enumerate(done)), np.zeros_like(x))
        columns = np.stack([(x / reach) ** p for p in rest], axis=1)
        emphasis = np.ones_like(x)
        best, best_error = np.zeros(len(rest)), np.inf
        for _ in range(rounds):
            s = np.sqrt(emphasis) * scale
            candidate, *_ = np.linalg.lstsq(columns * s[:, None], left * s, rcond=None)
            error = np.abs((columns @ candidate - left) * scale)
            if error.max() < best_error:
                best, best_error = candidate, error.max()
            emphasis = emphasis * (error / error.max() + 1e-3)
            emphasis /= emphasis.max()
        done.append(float(fit.precision(best[0] / reach ** rest[0])))
    final = np.abs((sum((c * x**p for p, c in enumerate(done)), np.zeros_like(x)) - target) * scale).max()
    return done, float(final)


def main(names: list[str]) -> None:
    for name in names or list(FITS):
        coefficients, error = solve(FITS[name])
        print(f"{name}: relative error 2**{np.log2(error):.1f}")
        print("    " + ", ".join(repr(c) for c in coefficients))


if __name__ == "__main__":
    main(sys.argv[1:])
