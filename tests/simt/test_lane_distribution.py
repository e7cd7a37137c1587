"""Distributions against their points, one by one."""

from __future__ import annotations

import numpy as np
import pytest

from zellige.diagnostics import InternalError
from zellige.ir.expr import INT32, Binary, Const, Expr, Var
from zellige.simt.distribution import Digit, Distribution, distribute, number
from zellige.simt.ir import LANE, WARP

SHAPES = [(128, 32), (80, 112), (7,), (33, 24), (1, 1), (1000,), (64, 64), (3, 5, 7), (40, 48), (176,)]


def points(distribution: Distribution) -> tuple[np.ndarray, ...]:
    register = np.arange(distribution.registers)[:, None, None]
    lane = np.arange(distribution.count("lane"))[None, :, None]
    warp = np.arange(distribution.count("warp"))[None, None, :]
    return distribution.coordinates(register, lane, warp)


@pytest.mark.parametrize("vector", [1, 2, 4])
@pytest.mark.parametrize("warps", [1, 4, 8])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_element_is_held_equally_often(shape: tuple[int, ...], warps: int, vector: int) -> None:
    if shape[-1] % vector:
        vector = 1
    made = distribute(shape, lanes=32, warps=warps, vector=vector)
    places = points(made)
    inside = np.all([p < s for p, s in zip(places, shape)], axis=0)
    held = np.zeros(shape, int)
    np.add.at(held, tuple(p[inside] for p in places), 1)
    copies = 1
    for digit in made.replicated:
        copies *= digit.radix
    assert (held == copies).all()


def evaluated(expr: Expr, values: dict[Var, np.ndarray]) -> np.ndarray:
    match expr:
        case Const():
            return np.asarray(expr.value)
        case Var():
            return values[expr]
        case Binary():
            a, b = evaluated(expr.left, values), evaluated(expr.right, values)
            return {"add": a + b, "mul": a * b, "truncdiv": a // np.maximum(b, 1), "truncmod": a % np.maximum(b, 1)}[expr.op]
    raise AssertionError(expr)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_expressions_give_the_coordinates(shape: tuple[int, ...]) -> None:
    made = distribute(shape, lanes=32, warps=4)
    register = Var(name="r", dtype=INT32, kind="loop")
    values = {
        register: np.arange(made.registers)[:, None, None],
        LANE: np.arange(32)[None, :, None],
        WARP: np.arange(4)[None, None, :],
    }
    for dimension, expected in enumerate(points(made)):
        found = evaluated(made.coordinate(dimension, register=register, lane=LANE, warp=WARP), values)
        assert (np.broadcast_to(found, expected.shape) == expected).all()


@pytest.mark.parametrize("kept", [(0,), (1,), (0, 1), (1, 0)], ids=str)
def test_projection_holds_the_same_coordinates(kept: tuple[int, ...]) -> None:
    made = distribute((48, 40), lanes=32, warps=4, vector=2)
    part = made.onto(kept)
    register = np.arange(made.registers)
    register_var = Var(name="r", dtype=INT32, kind="loop")
    of_part = evaluated(made.register_at(part, kept, register_var), {register_var: register})
    for lane in range(32):
        for warp in range(4):
            whole = made.coordinates(register, np.asarray(lane), np.asarray(warp))
            narrow = part.coordinates(np.broadcast_to(of_part, register.shape), np.asarray(lane), np.asarray(warp))
            assert all((n == whole[k]).all() for n, k in zip(narrow, kept))


def test_digits_with_a_gap_are_refused() -> None:
    with pytest.raises(InternalError, match="leave a gap"):
        Distribution(shape=(8,), digits=(Digit(source="lane", divisor=1, radix=4, dimension=0, stride=2),))
    with pytest.raises(InternalError, match="cover 4 of 8"):
        Distribution(shape=(8,), digits=(Digit(source="lane", divisor=1, radix=4, dimension=0, stride=1),))
    with pytest.raises(InternalError, match="do not count"):
        Distribution(shape=(4,), digits=(Digit(source="lane", divisor=2, radix=4, dimension=0, stride=1),))


def test_equal_distributions_compare_equal() -> None:
    one = Distribution(shape=(32,), digits=(Digit(source="lane", divisor=1, radix=32, dimension=0, stride=1),))
    two = Distribution(
        shape=(32,),
        digits=(
            Digit(source="lane", divisor=1, radix=8, dimension=0, stride=1),
            Digit(source="lane", divisor=8, radix=4, dimension=0, stride=8),
        ),
    )
    assert one == two
    assert one.coordinate(0, register=number(0), lane=LANE, warp=WARP) is LANE
