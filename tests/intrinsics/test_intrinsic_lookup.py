"""Instructions are found for a request, with a reason for each that does not serve, and waiting machines behave as manuals say."""

from __future__ import annotations

import pytest

from zellige.diagnostics.error import CompileError
from zellige_intrinsics import Request, family, find, intrinsic
from zellige_intrinsics.lookup import variant
from zellige_intrinsics.waiting import FlagPair, InOrderGroups, Rendezvous, TransactionBarrier, WaitCounter


def test_the_largest_that_fits_comes_first() -> None:
    capabilities = frozenset({"sm_80", "sm_89", "sm_90", "sm_90a", "sm_75"})
    request = Request(
        kind="product", types={"a": "bfloat16", "c": "float32"}, extents={"m": 128, "n": 176, "k": 64}, capabilities=capabilities
    )
    found = find(request, among=family("nvidia"))
    assert [value.n for value in found.fitting if value.is_asynchronous][:2] == [176, 176]
    assert [value.name for value in found.fitting[-2:]] == [
        "mma.sync.aligned.m16n8k16.row.col",
        "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32",
    ]
    reasons = {value.name: reason for value, reason in found.rejected}
    assert reasons["wgmma.mma_async.sync.aligned.m64n256k16.16bit"] == "n of 176 is no multiple of 256"
    assert reasons["mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"] == "a is float64, not bfloat16"
    in_registers = Request(kind="product", types={"a": "bfloat16"}, spaces={"a": "register"}, extents={"n": 176}, capabilities=capabilities)
    assert all(value.operand("a").space == "register" for value in find(in_registers, among=family("nvidia")).fitting)


def test_what_the_device_lacks_is_said() -> None:
    request = Request(kind="product", types={"a": "bfloat16"}, capabilities=frozenset({"avx2", "fma"}))
    found = find(request, among=family("cpu_x86"))
    assert not found.fitting
    assert "the device lacks avx512bf16" in found.table()
    assert (
        find(Request(kind="product", types={"a": "float32"}, capabilities=frozenset({"avx2", "fma"})), among=family("cpu_x86")).fitting[0].n
        == 8
    )


def test_combinations_of_types() -> None:
    value = intrinsic("mma.sync.aligned.m16n8k32.row.col.s32")
    assert variant(value, {"a": "int8", "b": "uint8"}) == 2
    assert variant(value, {"a": "float16"}) is None
    half = intrinsic("mma.sync.aligned.m16n8k16.row.col")
    assert variant(half, {"a": "bfloat16", "c": "float16"}) is None
    found = find(Request(kind="product", types={"a": "bfloat16", "c": "float16"}), among=[half])
    assert found.rejected[0][1] == "it does not combine these element types"
    assert find(Request(kind="product", types={"scale": "float32"}), among=[half]).rejected[0][1] == "it has no operand scale"
    assert find(Request(kind="product", extents={"q": 16}), among=[half]).rejected[0][1] == "it has no extent q"


def test_copies_functions_and_waits_by_what_they_do() -> None:
    copies = find(Request(kind="copy", spaces={"source": "global", "destination": "shared"}, is_asynchronous=True), among=family("nvidia"))
    assert copies.fitting[0].name.startswith("cp.async.bulk.tensor")
    assert all(value.completion is not None for value in copies.fitting)
    assert {reason for _, reason in copies.rejected} >= {"it is not asynchronous", "source lies in shared, not in global"}
    functions = find(Request(kind="function", name="exp2"), among=family("amd"))
    assert [value.name for value in functions.fitting] == ["v_exp_f32"]
    assert ("v_rcp_f32", "it is reciprocal, not exp2") in [(value.name, reason) for value, reason in functions.rejected]
    waits = find(Request(kind="synchronisation", name="wait counter", capabilities=frozenset({"gfx12"})), among=family("amd"))
    assert [value.name for value in waits.fitting] == ["s_wait_loadcnt"]


@pytest.mark.parametrize("name", ["cpu_x86", "cpu_arm", "nvidia", "amd", "cube", "systolic"])
def test_what_an_asynchronous_instruction_waits_by_exists(name: str) -> None:
    known = {value.name for value in family(name)}
    for value in family(name):
        if value.completion is not None:
            assert set(value.completion.waits) <= known, value.name


def test_unknown_names_are_refused_with_similar_ones() -> None:
    with pytest.raises(CompileError, match="v_mfma_f32_16x16x16_f16") as caught:
        intrinsic("v_mfma_f32_16x16x16")
    assert caught.value.code == "E330"
    for wrong in (lambda: family("abacus"), lambda: find(Request(kind="prodct"), among=()), lambda: intrinsic("s_barrier").operand("a")):
        with pytest.raises(CompileError) as caught:
            wrong()
        assert caught.value.code == "E330"


# ---- waiting ----


def test_a_transaction_barrier_counts_arrivals_and_bytes_and_alternates() -> None:
    barrier = TransactionBarrier()
    barrier.initialise(1)
    assert barrier.test(1) and not barrier.test(0)  # a producer's first wait, for the parity before, passes at once
    barrier.expect(1024)
    barrier.arrive()
    assert not barrier.test(0)
    barrier.complete(512)
    barrier.complete(512)
    assert barrier.test(0) and not barrier.test(1)
    barrier.complete(64)  # bytes may come before they are announced
    barrier.expect(64)
    barrier.arrive()
    assert barrier.test(1)
    with pytest.raises(CompileError) as caught:
        barrier.arrive(2)
    assert caught.value.code == "E332"
    with pytest.raises(CompileError):
        barrier.initialise(0)


def test_groups_end_in_order() -> None:
    groups = InOrderGroups()
    for count in (2, 1, 0):
        for _ in range(count):
            groups.issue()
        groups.commit()
    assert groups.wait(2) and not groups.wait(1)
    groups.finish()
    assert not groups.wait(1)
    groups.finish()
    assert groups.wait(1) and not groups.wait(0)
    groups.finish()
    assert groups.wait(0)
    with pytest.raises(CompileError) as caught:
        groups.finish()
    assert caught.value.code == "E332"


def test_counters_flags_and_barriers() -> None:
    counter = WaitCounter(limit=63)
    counter.issue()
    counter.issue()
    counter.finish()
    assert counter.wait(1) and not counter.wait(0)
    flag = FlagPair()
    assert not flag.take()
    flag.set()
    barrier = Rendezvous(parties=2)
    first = barrier.arrive()
    assert not barrier.test(first)
    second = barrier.arrive()
    assert barrier.test(first) and barrier.test(second) and not barrier.test(barrier.arrive())
    for wrong in (lambda: counter.wait(64), flag.set, WaitCounter().finish):
        with pytest.raises(CompileError) as caught:
            wrong()
        assert caught.value.code == "E332"
    assert flag.take() and not flag.take()
