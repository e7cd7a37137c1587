"""Sine and cosine in float32 and any number of lanes.

In: float32 lanes. Out: float32 lanes within the bounds of :mod:`zellige_cpu.leaf.accuracy`.
Arguments up to 2**17 are reduced by multiples of pi/2 held in three parts (Cody and Waite; with fused operations the
first two steps lose nothing). Larger ones, and infinities, take the C library's value, lane by lane, so that a lane's result never
depends on its neighbours.
"""

from __future__ import annotations

from typing import Final, Literal

from zellige_cpu.leaf.lane import Lane, polynomial
from zellige_cpu.leaf.library import call_each
from zellige_cpu.leaf.polynomials import COS, SIN

_LIMIT: Final = 131072.0
_TWO_OVER_PI: Final = 0.6366197723675814
_HALF_PI: Final = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)  # float32 parts of pi / 2
_ANCHOR: Final = 12582912.0  # 1.5 * 2**23: the sum's low digits are the nearest integer


def sine(x: Lane, name: Literal["sin", "cos"]) -> Lane:
    """``sin(x)`` or ``cos(x)``. Ends the current block where an argument may be large."""
    fn = x.fn
    shifted = x.fma(_TWO_OVER_PI, _ANCHOR)
    turns = shifted - _ANCHOR
    rest = x
    for part in _HALF_PI:
        rest = turns.fma(-part, rest)
    square = rest * rest
    sin = (rest * square).fma(polynomial(square, SIN), rest)
    cos = (square * square).fma(polynomial(square, COS), square.fma(-0.5, 1.0))
    quarter = shifted.to_bits() + (1 if name == "cos" else 0)
    is_swapped = (quarter & 1).differs(0)
    result = is_swapped.select(cos, sin).to_bits() ^ ((quarter & 2) << 30)
    fast = result.to_float()
    if name == "sin":
        fast = x.equals(0.0).select(x, fast)  # keeps the sign of zero
    is_large = x.magnitude >= _LIMIT
    any_large = is_large.value if x.value.lanes == 1 else fn.intrinsic("llvm.vector.reduce.or", is_large.value)
    before = fn.current
    slow_label, after = fn.fresh_label("large"), fn.fresh_label("reduced")
    fn.branch_if(any_large, slow_label, after)
    fn.label(slow_label)
    slow = is_large.select(Lane(fn, call_each(fn, name, [x.value])), fast)
    end = fn.current
    fn.label(after)
    return Lane(fn, fn.phi((fast.value, before), (slow.value, end)))
