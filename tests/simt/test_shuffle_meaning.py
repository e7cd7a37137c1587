"""Shuffles mean on every target what the tile IR says, also for operands that the instruction of a machine takes otherwise."""

import re

import numpy as np
import pytest

import zellige
import zellige.language as T
from zellige.driver import dump

TARGETS = ("interp", "cuda:sm_80,simulate", "cpu")


def meaning(mode: str, operand: int, width: int, lanes: int) -> np.ndarray:
    """The lane that each lane reads, as docs/tile-ir.md has it; the lane that is named is counted round the group."""
    lane = np.arange(lanes)
    own = lane % 32 % width
    other = {"xor": own ^ operand, "up": own - operand, "down": own + operand, "sync": np.full(lanes, operand % width)}[mode]
    source = lane - own + other
    return np.where((other < 0) | (other >= width) | (source >= lanes), lane, source)


def instruction(mode: str, operand: np.ndarray, width: int) -> np.ndarray:
    """The lane that each of 32 lanes reads by the instruction shfl.sync (PTX ISA 8.8, 9.7.9.6), called with a width as CUDA C++ does."""
    lane, segment = np.arange(32), 32 - width
    step = operand & 31
    clamp = 0 if mode == "up" else 31
    most, least = (lane & segment) | (clamp & ~segment & 31), lane & segment
    source = {"up": lane - step, "down": lane + step, "xor": lane ^ step, "sync": least | (step & ~segment & 31)}[mode]
    return np.where(source >= most if mode == "up" else source <= most, source, lane)


def shuffled(mode: str, width: int, lanes: int):
    exchange = getattr(T, f"shfl_{mode}")

    @T.prim_func
    def k(A: T.Tensor((lanes,), "int32"), B: T.Tensor((lanes,), "int32"), n: T.int32):
        with T.Kernel(1, threads=lanes):
            tx = T.get_thread_binding()
            B[tx] = exchange(A[tx], n, width=width)

    return k


CASES = [
    ("sync", 40, 32), ("sync", -1, 32), ("sync", 9, 8), ("sync", 3, 8), ("up", 40, 32), ("up", -1, 32), ("up", 9, 8), ("down", 33, 32),
    ("down", -2, 32), ("down", 9, 8), ("xor", 40, 32), ("xor", 16, 8), ("xor", 12, 8), ("xor", 4, 8), ("down", 2**31 - 1, 32),
    ("up", -(2**31), 32),
]  # fmt: skip


@pytest.mark.parametrize("lanes", [32, 48])
@pytest.mark.parametrize(("mode", "operand", "width"), CASES)
def test_an_operand_of_the_caller(mode, operand, width, lanes) -> None:
    a = np.arange(lanes, dtype=np.int32)
    for target in TARGETS:
        b = np.full(lanes, -1, np.int32)
        zellige.compile(shuffled(mode, width, lanes), target=target)(a, b, operand)
        np.testing.assert_array_equal(b, meaning(mode, operand, width, lanes), err_msg=target)


@pytest.mark.parametrize(("mode", "operand", "width"), CASES)
def test_the_instruction_gets_operands_that_it_takes_as_they_are_meant(mode, operand, width) -> None:
    """The printed text, evaluated by the rule of the instruction."""
    text = dump(shuffled(mode, width, 32).kernel, "cuda:sm_80", "source")
    word = re.search(r"shuffled = __shfl_?(\w*)_sync\(0xffffffffu, A\[tx\], \(int\)\((.+)\), (\d+)\);", text)
    assert word is not None and int(word[3]) == width
    names = {"lane": np.arange(32), "n": np.int64(operand), "int_floormod": np.mod}
    for line in re.findall(r"(?:long long|int) ((?:other|source)_\d+ = .*);", text):
        name, value = line.split(" = ", 1)
        value = re.sub(r"\((?:unsigned )?(?:long long|int)\)|(?<=\d)ll", "", value).replace("&&", "&")
        chosen = re.fullmatch(r"\((.*) \? (\w+) : (.*)\)", value)
        names[name] = (
            np.where(eval(chosen[1], {}, names), eval(chosen[2], {}, names), eval(chosen[3], {}, names))
            if chosen
            else eval(value, {}, names)
        )
    found = instruction(word[1] or "sync", np.broadcast_to(eval(word[2].replace("(int)", ""), {}, names), (32,)), width)
    np.testing.assert_array_equal(found, meaning(mode, operand, width, 32))


@pytest.mark.parametrize("width", [None, 4, 32])
def test_lanes_are_counted_round_the_group(width) -> None:
    @T.prim_func
    def k(A: T.Tensor((64,), "int32"), B: T.Tensor((3, 64), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            B[0, tx] = T.shfl_sync(A[tx], tx + 1, width)
            B[1, tx] = T.shfl_sync(A[tx], tx - 1, width)
            B[2, tx] = T.shfl_sync(A[tx], -2, width)

    a = np.arange(64, dtype=np.int32)
    groups = a.reshape(-1, width or 32)
    want = [np.roll(groups, -1, 1), np.roll(groups, 1, 1), np.broadcast_to(groups[:, -2:-1], groups.shape)]
    for target in TARGETS:
        b = np.full((3, 64), -1, np.int32)
        zellige.compile(k, target=target)(a, b)
        np.testing.assert_array_equal(b, np.reshape(want, (3, 64)), err_msg=target)
    assert "? (lane) : " not in dump(k.kernel, "cuda:sm_80", "source")


def test_operands_that_are_known_to_name_lanes_are_printed_as_they_are() -> None:
    @T.prim_func
    def k(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            a = T.shfl_xor(A[tx], 5)
            b = T.shfl_sync(a, (tx + 1) % 8, width=8)
            c = T.shfl_down(b, 9, width=8)
            A[tx] = T.shfl_up(c, tx % 32)

    text = dump(k.kernel, "cuda:sm_80", "source")
    exchanges = re.findall(r"__shfl_?\w*_sync\(0xffffffffu, \w+(?:\[tx\])?, \(int\)", text)
    assert len(exchanges) == 4 and "other_" not in text and "source_" not in text


@T.prim_func
def half(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        if tx < 16:
            B[tx] = T.shfl_xor(A[tx], 1, mask=0xFFFF)
        else:
            B[tx] = -A[tx]


@T.prim_func
def leaving(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        i = T.alloc_var("int32", init=0)
        while i < A[tx] // 2:
            i = i + T.shfl_xor(A[tx], 1) * 0 + 1
        B[tx] = i


@T.prim_func
def returned(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        if tx >= 16:
            return
        B[tx] = T.shfl_xor(A[tx], 1)


@T.prim_func
def alike(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        if A[tx] % 2 == 0:
            B[tx] = T.cast(T.match_any_sync(A[tx] % 3), "int32")


@pytest.mark.parametrize(
    ("kernel", "want"),
    [
        (half, [*(np.arange(16) ^ 1), *-np.arange(16, 32)]),
        (leaving, np.arange(32) // 2),
        (returned, [*(np.arange(16) ^ 1), *[0] * 16]),
        (alike, [sum(1 << j for j in range(0, 32, 2) if j % 3 == i % 3) if i % 2 == 0 else 0 for i in range(32)]),
    ],
)
def test_lanes_that_part(kernel, want) -> None:
    for target in TARGETS:
        b = np.zeros(32, np.int32)
        zellige.compile(kernel, target=target)(np.arange(32, dtype=np.int32), b)
        np.testing.assert_array_equal(b, np.array(want, np.int32), err_msg=target)
    exchanges = [line for line in dump(kernel.kernel, "cuda:sm_80", "source").splitlines() if "shuffled = " in line]
    assert exchanges and all(re.search(r"_sync\(\(unsigned int\)(lanes|going)\w*, ", line) for line in exchanges)


@pytest.mark.parametrize("lanes", [32, 33, 48, 52, 64, (4, 12)])
def test_reductions_of_warps_that_are_not_full(lanes) -> None:
    count = int(np.prod(lanes))

    @T.prim_func
    def k(A: T.Tensor((count,), "int32"), B: T.Tensor((5, count), "int32")):
        with T.Kernel(1, threads=lanes):
            x, y, _ = T.get_thread_bindings()
            at = x + y * T.get_thread_extent()
            B[0, at] = T.warp_reduce_sum(A[at])
            B[1, at] = T.warp_reduce_max(A[at])
            B[2, at] = T.warp_reduce_min(A[at])
            B[3, at] = T.warp_reduce_bitand(A[at])
            B[4, at] = T.warp_reduce_bitor(A[at])

    a = np.random.default_rng(0).integers(-1000, 1000, count).astype(np.int32)
    warps = [a[i : i + 32] for i in range(0, count, 32)]
    functions = (np.add, np.maximum, np.minimum, np.bitwise_and, np.bitwise_or)
    want = [np.concatenate([np.full(len(w), f.reduce(w)) for w in warps]) for f in functions]
    for target in TARGETS:
        b = np.zeros((5, count), np.int32)
        zellige.compile(k, target=target)(a, b)
        np.testing.assert_array_equal(b, want, err_msg=target)
