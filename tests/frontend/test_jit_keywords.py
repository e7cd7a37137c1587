"""What a ``**parameter`` of an eager kernel takes: the other keywords of a call, as constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zellige.language as T
from zellige.frontend.eager import EagerFunction
from zellige.jit import jit


def test_other_keywords_of_an_eager_function_are_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    @jit(target="interp")
    def shift(A, B, by: int = 1, **options):
        N = T.const("N")
        A: T.Tensor[[N], T.int32]
        B: T.Tensor[[N], T.int32]
        with T.Kernel(1):
            for i in T.Parallel(N):
                B[i] = A[i] + by + options.get("more", 0) + len(options.get("axes", ())) + len(options)

    a, b = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    for keywords, added in (({}, 1), ({"more": 5}, 7), ({"axes": [1, 2], "by": 2}, 5), ({"options": 3}, 2)):
        shift(a, b, **keywords)
        np.testing.assert_array_equal(b, a + added)
    with monkeypatch.context() as patched:
        patched.setattr(EagerFunction, "trace", None)  # the same constants are the same kernel
        shift(a, b, more=5)
    np.testing.assert_array_equal(b, a + 7)
    with pytest.raises(TypeError, match=r"got a tensor as 'C', and \*\*options takes constants") as caught:
        shift(a, b, C=a)
    assert caught.value.code == "E157"


def test_other_keywords_are_no_results_and_no_positional_arguments() -> None:
    @jit(target="interp", out_idx=-1)
    def doubled(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32"), **options: Any) -> None:
        with T.Kernel(1):
            for i in T.Parallel(4):
                B[i] = A[i] * options["factor"]

    a = np.arange(4, dtype=np.int32)
    np.testing.assert_array_equal(doubled(a, factor=3), 3 * a)
    with pytest.raises(TypeError, match="takes 1 positional arguments, 2 were given"):
        doubled(a, a, factor=3)
