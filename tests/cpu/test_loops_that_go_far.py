"""Products that read their tensors straight in loops whose number of iterations only the call knows."""

from __future__ import annotations

import numpy as np
import pytest

from zellige.diagnostics import LaunchError

STRIDE = 2000

FAR = f"""
def k(A: tensor((16, 8), float32), B: tensor((64, 16), float32), C: tensor((16, 16), float32), n: scalar(int32)):
    with launch(1) as (bx,):
        a = alloc((16, 8), float32, "shared")
        b = alloc((8, 16), float32, "shared")
        c = alloc((16, 16), float32, "fragment")
        fill(c[:, :], 0.0)
        for kk in serial(n):
            copy(A[:, :], a[:, :])
            copy(B[kk * {STRIDE}:+8, :], b[:, :])
            gemm(a[:, :], b[:, :], c[:, :], clear=False)
        copy(c[:, :], C[:, :])
"""

LAST = ((1 << 31) - 1) // STRIDE
"""The last iteration whose place in B is a number of int32."""


def test_a_loop_goes_on_as_far_as_its_places_are_numbers(tools, random):
    kernel = tools["kernel_of"](FAR)
    ready = tools["compile_for"](kernel)
    a = random.integers(-4, 5, (16, 8)).astype(np.float32)
    b = random.integers(-4, 5, (64, 16)).astype(np.float32)
    c = np.zeros((16, 16), np.float32)
    tools["run_on"](ready, kernel, [a, b, c, LAST + 1])
    np.testing.assert_array_equal(c, a @ b[:8])  # the places of all others lie behind B
    with pytest.raises(LaunchError, match=f"E621: .*offset {(LAST + 1) * STRIDE} in B, which int32") as caught:
        tools["run_on"](ready, kernel, [a, b, c, LAST + 2])
    assert caught.value.span.line == 12


@pytest.mark.parametrize("step", ["kk * 8", "w * kk", "w + kk * 8", "w * 8 + kk * 8", "(w + kk) * 8"])
def test_scalars_in_places_never_lead_out_of_the_tensor(tools, random, step):
    """B lies between elements that must not be read: they are no numbers."""
    text = FAR.replace(f"kk * {STRIDE}", step).replace("n: scalar(int32)", "n: scalar(int32), w: scalar(int32)")
    kernel = tools["kernel_of"](text)
    ready = tools["compile_for"](kernel)
    around = np.full((192, 16), np.nan, np.float32)
    b = around[64:128]
    b[:] = random.integers(-4, 5, b.shape)
    a = random.integers(-4, 5, (16, 8)).astype(np.float32)
    c = np.zeros((16, 16), np.float32)
    for w in (0, 3, -1, -8, 1 << 28, -(1 << 28), 1 << 29, (1 << 31) - 1, -(1 << 31), (1 << 28) + 1, (1 << 31) - 8):
        wanted = np.zeros((16, 16), np.float32)
        for kk in range(3):
            wrapped = int(np.int32(np.uint32(eval(step, {"w": w, "kk": kk}) % (1 << 32))))  # as the language counts
            rows = [wrapped + r for r in range(8)]
            wanted += a @ np.array([b[r] if 0 <= r < 64 else np.zeros(16) for r in rows], np.float32)
        tools["run_on"](ready, kernel, [a, b, c, 3, w])
        np.testing.assert_array_equal(c, wanted, err_msg=f"{step} with {w}")
