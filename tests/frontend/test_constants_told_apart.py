"""Constants of kernels that look alike: those that hold themselves, and those of two classes with one name."""

# Kernels are read by the front end, not run by Python.
# mypy: ignore-errors

from __future__ import annotations

import collections

import numpy as np

import zellige.language as T
from zellige.jit import jit


def test_constants_that_hold_themselves_are_told_apart() -> None:
    class Settings:
        scale = 3

    @jit
    def make(settings):
        @T.prim_func
        def kernel(A: T.Tensor((1,), "int32")):
            with T.Kernel(1):
                A[0] = settings.scale if isinstance(settings, Settings) else settings[0]

        return kernel

    settings, listed = Settings(), [7]
    settings.own = settings
    listed.append(listed)
    a = np.zeros(1, np.int32)
    for given, expected in ((settings, 3), (listed, 7)):
        make(given)(a)
        assert a[0] == expected
    settings.scale = listed[0] = 5
    for given in (settings, listed):
        a[0] = 0
        make(given)(a)
        assert a[0] == 5


def test_constants_of_classes_with_one_name_are_told_apart() -> None:
    blocks = [collections.namedtuple("Blocks", names)(2, 3) for names in ("rows columns", "columns rows")]

    @jit
    def make(blocks):
        @T.prim_func
        def kernel(A: T.Tensor((2,), "int32")):
            with T.Kernel(1):
                A[0] = blocks.rows
                A[1] = blocks.columns

        return kernel

    a = np.zeros(2, np.int32)
    for given, expected in zip(blocks, ([2, 3], [3, 2])):
        make(given)(a)
        assert a.tolist() == expected
