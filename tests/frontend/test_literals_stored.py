"""Numbers written in the source beside a type that cannot hold them: operands widen, what is stored is told (E254)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.diagnostics import CompileError


@T.prim_func
def beside(H: T.Tensor((1,), "float16"), G: T.Tensor((1,), "int8"), D: T.Tensor((7,), "float32")):  # type: ignore[no-untyped-def, valid-type]
    with T.Kernel(1):
        D[0] = H[0] + 100000
        D[1] = H[0] + 100000.0
        D[2] = T.max(H[0], 70000)
        D[3] = 70000 - H[0]
        D[4] = G[0] + 300
        D[5] = H[0] * -70000
        D[6] = H[0] / 3  # float16 holds 3: the quotient is one of float16


@pytest.mark.parametrize("target", ["interp", "cpu"])
def test_an_operand_that_the_other_type_cannot_hold_widens(target: str) -> None:
    d = np.zeros(7, np.float32)
    zl.compile(beside, target=target)(np.array([2], np.float16), np.array([5], np.int8), d)
    assert d.tolist() == [100002, 100002, 70000, 69998, 305, -140000, np.float32(np.float16(2) / np.float16(3))]


def stored() -> None:
    @T.prim_func
    def kernel(I: T.Tensor((1,), "int32")):  # type: ignore[no-untyped-def, valid-type]  # noqa: E741
        with T.Kernel(1):
            I[0] = 0.5


def filled() -> None:
    @T.prim_func
    def kernel(I: T.Tensor((1,), "int32")):  # type: ignore[no-untyped-def, valid-type]  # noqa: E741
        with T.Kernel(1):
            T.fill(I, 0.5)


def allocated() -> None:
    @T.prim_func
    def kernel(I: T.Tensor((1,), "int32")):  # type: ignore[no-untyped-def, valid-type]  # noqa: E741
        with T.Kernel(1):
            start = T.alloc_var("int32", 0.5)
            I[0] = start


def added() -> None:
    @T.prim_func
    def kernel(I: T.Tensor((1,), "int32")):  # type: ignore[no-untyped-def, valid-type]  # noqa: E741
        with T.Kernel(1):
            T.atomic_add(I[0], 0.5)


def annotated() -> None:
    @T.prim_func
    def kernel(I: T.Tensor((1,), "int32")):  # type: ignore[no-untyped-def, valid-type]  # noqa: E741
        with T.Kernel(1):
            x: T.int8 = 0.5  # type: ignore[valid-type]
            I[0] = x


def too_large() -> None:
    @T.prim_func
    def kernel(I: T.Tensor((1,), "int32")):  # type: ignore[no-untyped-def, valid-type]  # noqa: E741
        with T.Kernel(1):
            x: T.int8 = 300  # type: ignore[valid-type]
            I[0] = x


@pytest.mark.parametrize("program", [stored, filled, allocated, added, annotated])
def test_a_fraction_stored_in_an_integer_is_told(program: Callable[[], None]) -> None:
    with pytest.raises(CompileError, match=r"E254: 0\.5 is not a value of int") as caught:
        program()
    assert caught.value.diagnostics[0].span is not None


def test_an_annotated_name_takes_what_its_type_holds() -> None:
    with pytest.raises(CompileError, match="E254: 300 exceeds maximum of int8"):
        too_large()


def test_text_is_no_number_of_an_annotated_type() -> None:
    with pytest.raises(CompileError, match="E202: a number is needed here, not str 'a'"):

        @T.prim_func
        def kernel(D: T.Tensor((1,), "float32")):  # type: ignore[no-untyped-def, valid-type]
            with T.Kernel(1):
                x: T.float32 = "a"  # type: ignore[valid-type]
                D[0] = x


def test_whole_floats_and_casts_are_stored() -> None:
    @T.prim_func
    def kernel(D: T.Tensor((4,), "int32")):  # type: ignore[no-untyped-def, valid-type]
        with T.Kernel(1):
            D[0] = 4.0
            D[1] = T.int32(2.75)
            D[2] = T.cast(-2.75, "int32")
            x: T.int8 = 3.0  # type: ignore[valid-type]
            D[3] = x

    d = np.zeros(4, np.int32)
    zl.compile(kernel, target="interp")(d)
    assert d.tolist() == [4, 2, -2, 3]
