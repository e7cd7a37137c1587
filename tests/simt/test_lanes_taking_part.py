"""Who takes part in an exchange of lanes that parted: the program names them, and the simulator finds nobody else there."""

# Kernels are read by the front end, not run by Python.
# mypy: ignore-errors

import re
import sys
from pathlib import Path

import numpy as np
import pytest

import zellige
import zellige.language as T
from zellige.diagnostics import InternalError
from zellige.driver import dump
from zellige.ir.expr import BOOL, INT32, Buffer, Compare, Const, Var, const
from zellige.ir.stmt import If, Store
from zellige.simt.ir import LANE, Function, Module, PartedVote, Pointer, Taking
from zellige.simt.simulate.run import simulate

sys.path.insert(0, str(Path(__file__).parent))
from parted import KERNELS, N  # noqa: E402

TARGETS = ("interp", "cuda:sm_80,simulate", "cpu")


def given() -> np.ndarray:
    return np.random.default_rng(7).integers(0, 1000, N).astype(np.int32)


def text_of(name: str) -> str:
    return dump(KERNELS[name][0].kernel, "cuda:sm_80", "source")


@pytest.mark.parametrize("name", KERNELS)
def test_results(name: str) -> None:
    kernel, want = KERNELS[name]
    a = given()
    for target in TARGETS:
        b = np.full(N, -7, np.int32)
        zellige.compile(kernel, target=target)(a, b)
        np.testing.assert_array_equal(b, want(a), err_msg=target)


@pytest.mark.parametrize("name", KERNELS)
def test_every_exchange_names_its_lanes(name: str) -> None:
    text = text_of(name)
    exchanges = re.findall(r"(?:shuffled|vote)\w* = .*?_sync\((.*?), ", text)
    assert len(exchanges) == len(re.findall(r"(?:shuffled|vote)\w* = ", text)) > 0
    assert (exchanges == ["0xffffffffu"]) == (name == "returned_in_a_branch"), exchanges  # of those that returned nothing is expected
    assert all(re.fullmatch(r"0xffffffffu|\(unsigned int\)(lanes|going)(_\d+)?", mask) for mask in exchanges), exchanges
    assert "__activemask" not in text


@pytest.mark.parametrize("name", KERNELS)
def test_the_compiler_takes_them(name: str) -> None:
    asm = zellige.compile(KERNELS[name][0], target="cuda:sm_80").get_asm()
    assert re.search(r"\b(VOTE|MATCH|WARPSYNC)\b", asm)


def test_nested_branches_ask_only_those_that_are_there() -> None:
    text = text_of("nested")
    asked = re.findall(r"(lanes\w*) = __ballot_sync\((?:\(unsigned int\))?(\w+), (.*)\);", text)
    assert [among for _, among, _ in asked[:2]] == ["0xffffffffu", "0xffffffffu"] and len(asked) == 6
    assert [among for _, among, _ in asked[2:]] == [asked[0][0]] * 2 + [asked[1][0]] * 2
    tests = [test for _, _, test in asked]
    assert tests[1] == f"(!{tests[0]})" and tests[3] == f"(!{tests[2]})" and tests[5] == f"(!{tests[4]})"


def test_loops_note_who_goes_on() -> None:
    text = text_of("counted_rounds")
    first, again = re.findall(r"(going) = __ballot_sync\((.*?), \((.*)\)\);", text)
    assert first[1] == "0xffffffffu" and again[1] == "(unsigned int)going"
    assert "long long" in again[2] and " < " in again[2]  # the next number may not fit the loop's type
    text = text_of("leaving_and_skipping")
    asked = re.findall(r"(going|lanes) = __ballot_sync\((.*?), (.*)\);", text)
    assert [(name, among) for name, among, _ in asked] == [
        ("going", "0xffffffffu"), ("going", "(unsigned int)going"), ("lanes", "(unsigned int)going"),
    ]  # fmt: skip


@T.prim_func
def no_exchange(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
    with T.Kernel(1, threads=N):
        tx = T.get_thread_binding()
        other = T.shfl_xor(A[tx], 1)
        is_any = T.any_sync(other > 3)
        if A[tx] > 0:
            B[tx] = other + is_any


def test_where_nobody_parted_nobody_is_asked() -> None:
    text = dump(no_exchange.kernel, "cuda:sm_80", "source")
    assert "__ballot_sync" not in text and "__activemask" not in text
    assert "__shfl_xor_sync(0xffffffffu" in text and "__any_sync(0xffffffffu" in text


@T.prim_func
def scattered(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
    with T.Kernel(1, threads=N):
        tx = T.get_thread_binding()
        total = T.alloc_var("int32", init=0)
        for r in T.serial(6):
            if A[tx] % 2 == 0:
                total += 1
                if A[tx] % 8 == r:
                    break
            total += T.popcount(T.cast(T.activemask(), "int64"))
        if A[tx] > 500:
            total += T.popcount(T.cast(T.activemask(), "int64"))
        B[tx] = total


def test_who_is_left_behind_a_jump_inside_a_branch_is_not_known() -> None:
    """The lanes outside the branch cannot know who left in it. Behind the loop all are there again."""
    text = dump(scattered.kernel, "cuda:sm_80", "source")
    masks = re.findall(r"vote\w* = .*?_sync\((.*?), true", text)
    assert masks == ["__activemask()", "(unsigned int)lanes"]
    a, results = given(), []
    for target in TARGETS:
        b = np.zeros(N, np.int32)
        zellige.compile(scattered, target=target)(a, b)
        results.append(b)
    assert all((b == results[0]).all() for b in results[1:])


@pytest.mark.parametrize("condition_lanes", [16, 15])
def test_the_simulator_refuses_an_exchange_of_others_than_it_names(condition_lanes: int) -> None:
    memory = Buffer(name="A", dtype=INT32, shape=(const(32, INT32),), space="global")
    lanes, vote = (Var(name=n, dtype=zellige.dtypes.dtype("uint64"), kind="value") for n in ("lanes", "vote"))
    here = Compare(op="lt", left=LANE, right=const(16, INT32))
    noted = Compare(op="lt", left=LANE, right=const(condition_lanes, INT32))
    found = Var(name="count", dtype=INT32, kind="value")
    body = (
        Taking(result=lanes, among=None, condition=noted),
        If(condition=here, then=(
            PartedVote(result=found, mode="count", scope="warp", predicate=Const(value=True, dtype=BOOL), among=lanes),
            Store(buffer=memory, indices=(LANE,), value=found),
        )),
    )  # fmt: skip
    function = Function(
        name="k", params=(Pointer(buffer=memory, tensor=memory, alignment=16, is_written=True, is_aliased=True),),
        grid=(const(1, INT32),), grid_vars=(Var(name="bx", dtype=INT32, kind="grid"),), threads=32, lanes=32, body=body,
    )  # fmt: skip
    module, data = Module(name="k", functions=(function,)), np.zeros(32, np.int32)
    if condition_lanes == 16:
        simulate(module, {memory: data.view(np.uint8)}, {})
        assert data.tolist() == [16] * 16 + [0] * 16
    else:
        with pytest.raises(InternalError, match=r"of the lanes 0xffff is said to be among 0x7fff"):
            simulate(module, {memory: data.view(np.uint8)}, {})
