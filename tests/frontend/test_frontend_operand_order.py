"""Operands keep the value that they had when Python would have read them, whatever the next operand assigns."""

from __future__ import annotations

import numpy as np
import pytest

import zellige as zl
import zellige.language as T


@pytest.mark.parametrize("target", ["interp", "cpu"])
def test_the_left_side_of_an_augmented_assignment_is_read_first(target: str) -> None:
    @T.prim_func
    def kernel(D: T.Tensor((8,), "int32"), n: T.int32):
        with T.Kernel(1):
            number = D[0]
            number += (number := number + 10)
            D[1] = number
            variable = T.alloc_var("int32", 5)
            variable += (variable := variable + 10)
            D[2] = variable
            variable -= (variable := variable * 2)
            D[3] = variable
            lanes = T.alloc_var("int32x2", 1)
            lanes += (lanes := lanes + 10)
            D[4] = lanes[1]
            carried = 1
            for _ in T.serial(n):
                carried += (carried := carried * 2)
            D[5] = carried
            constant = 5
            constant += (constant := constant + 10)
            D[6] = constant

    D = np.array([5, 0, 0, 0, 0, 0, 0, 3], np.int32)
    zl.compile(kernel, target=target)(D, 3)
    assert D.tolist() == [5, 20, 20, -20, 12, 27, 20, 3]
