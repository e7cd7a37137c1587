"""T.print of tiles in kernels written for lanes: one form on every target, what belongs to the block once."""

import re

import numpy as np
import pytest

import zellige as zl
import zellige.language as T

TARGETS = ("interp", "cpu", "cuda:sm_80,simulate")


def printed(target, capsys, body):
    """What the kernel prints on the target: ``body`` is traced with the tiles that a lane or the block holds."""

    @T.prim_func
    def k(A: T.Tensor((32, 64), "float32"), n: T.int32):
        with T.Kernel(1, threads=32):
            lane = T.get_thread_binding()
            shared = T.alloc_shared((4,), "float32")
            tile = T.alloc_fragment((64,), "float32")
            own = T.alloc_local((2, 3), "float32")
            T.copy(A[1, :], tile)
            T.copy(A[2, 0:4], shared)
            for i, j in T.grid(2, 3):
                own[i, j] = A[lane, i * 3 + j]
            body(A, n, lane, shared, tile, own)

    capsys.readouterr()
    zl.compile(k, target=target)(np.arange(32 * 64, dtype=np.float32).reshape(32, 64), 2)
    return capsys.readouterr().out


@T.macro
def of_a_lane(A, n, lane, shared, tile, own):
    if lane % 16 == 3:
        T.print(own, msg="own")


@T.macro
def row_of_a_lane(A, n, lane, shared, tile, own):
    if lane == 3:
        T.print(own[1, :])


@T.macro
def column_of_a_lane(A, n, lane, shared, tile, own):
    if lane == 3:
        T.print(own[0:2, 1:2])


@T.macro
def part_of_a_lane(A, n, lane, shared, tile, own):
    if lane == 3:
        T.print(own[0, 0:n])


@T.macro
def of_the_block(A, n, lane, shared, tile, own):
    T.print(shared)


@T.macro
def registers_of_the_block(A, n, lane, shared, tile, own):
    T.print(tile)


@T.macro
def of_a_tensor(A, n, lane, shared, tile, own):
    T.print(A[3:5, 0:n])


EXPECTED = {
    of_a_lane: (
        "own: [[192., 193., 194.],\n [195., 196., 197.]]\nown: [[1216., 1217., 1218.],\n [1219., 1220., 1221.]]\n"
    ),
    row_of_a_lane: "[[195., 196., 197.]]\n",
    column_of_a_lane: "[[193.],\n [196.]]\n",
    part_of_a_lane: "[[192., 193.]]\n",
    of_the_block: "[128., 129., 130., 131.]\n",
    registers_of_the_block: f"[{', '.join(f'{x}.' if x > 99 else f' {x}.' for x in range(64, 128))}]\n",
    of_a_tensor: "[[192., 193.],\n [256., 257.]]\n",
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("body", EXPECTED, ids=lambda body: body.__name__)
def test_a_tile_is_printed_in_its_own_shape_by_whom_it_belongs_to(body, target, capsys):
    text = printed(target, capsys, body)
    if "simulate" not in target:
        assert text == EXPECTED[body]
        return
    numbers = re.compile(r"\d[\d.e+]*")  # lanes print element by element
    assert sorted(map(float, numbers.findall(text))) == sorted(map(float, numbers.findall(EXPECTED[body])))
