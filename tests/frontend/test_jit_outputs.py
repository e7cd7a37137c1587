"""``out_idx`` counts the parameters that the user declared, whatever else the kernel makes for itself."""

from __future__ import annotations

import numpy as np
import pytest

import zellige.language as T
from zellige import CompileError, compile


@T.prim_func
def through_workspace(A: T.Tensor((5,), "float32"), C: T.Tensor((5,), "float32")):
    scratch = T.alloc_global((5,), "float32")
    with T.Kernel(1):
        for i in T.Parallel(5):
            scratch[i] = A[i] + 1
    with T.Kernel(1):
        for i in T.Parallel(5):
            C[i] = scratch[i] * 2


@pytest.mark.parametrize("out_idx", [-1, 1, [-1], [1]])
def test_a_workspace_is_no_parameter(out_idx) -> None:
    a = np.arange(5, dtype="float32")
    result = compile(through_workspace, out_idx=out_idx, target="interp")(a)
    assert result.tolist() == (2 * (a + 1)).tolist()


@pytest.mark.parametrize("out_idx", [2, -3])
def test_a_workspace_cannot_be_named(out_idx) -> None:
    with pytest.raises(CompileError, match="E151"):
        compile(through_workspace, out_idx=out_idx, target="interp")
