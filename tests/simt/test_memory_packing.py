"""Memory that is used at different times has the same bytes, and barriers keep its users apart."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from simulated import TARGET, agree, lowered, run_module, whole_numbers  # noqa: E402

import zellige  # noqa: E402
import zellige.language as T  # noqa: E402
from zellige.diagnostics import CompileError, LaunchError  # noqa: E402
from zellige.explain import explain  # noqa: E402
from zellige.simt import lower as lowering  # noqa: E402


def phases(rows: int, *, trips: int = 1) -> Any:
    """Two tiles, each transposed through shared memory, one after the other."""

    @T.prim_func
    def phases(
        A: T.Tensor((trips, rows, 64), "float32"), B: T.Tensor((trips, 64, rows), "float32"), C: T.Tensor((trips, 64, rows), "float32")
    ):
        with T.Kernel(1, threads=64):
            for t in T.serial(trips):
                first = T.alloc_shared((rows, 64), "float32")
                second = T.alloc_shared((64, rows), "float32")
                T.copy(A[t, 0, 0], first)
                for i, j in T.Parallel(64, rows):
                    B[t, i, j] = first[j, i] + 1.0
                for i, j in T.Parallel(64, rows):
                    second[i, j] = B[t, i, j] * 2.0
                for i, j in T.Parallel(64, rows):
                    C[t, i, j] = second[63 - i, rows - 1 - j]

    return phases


def arrays(rows: int, trips: int = 1) -> list[Any]:
    a = whole_numbers((trips, rows, 64), np.float32, high=90)
    return [a, np.zeros((trips, 64, rows), np.float32), np.zeros((trips, 64, rows), np.float32)]


@pytest.mark.parametrize("trips", [1, 3])
def test_tiles_of_different_times_share_bytes(trips: int) -> None:
    function = phases(32, trips=trips)
    _, module = lowered(function)
    (program,) = module.functions
    assert program.shared_bytes == 32 * 64 * 4
    assert [m.offset for m in program.memories] == [0, 0]
    assert f"memory that is used at different times shares bytes: {32 * 64 * 4} fewer" in program.header
    agree(function, *arrays(32, trips))


@pytest.mark.parametrize("trips", [1, 3])
def test_barriers_that_do_not_know_of_it_are_a_race(monkeypatch: pytest.MonkeyPatch, trips: int) -> None:
    """Without B between the two tiles no other barrier keeps them apart."""

    @T.prim_func
    def beside(A: T.Tensor((trips, 64, 64), "float32"), C: T.Tensor((trips, 64, 64), "float32")):
        with T.Kernel(1, threads=64):
            for t in T.serial(trips):
                first = T.alloc_shared((64, 64), "float32")
                kept = T.alloc_fragment((64, 64), "float32")
                second = T.alloc_shared((64, 64), "float32")
                T.copy(A[t, 0, 0], first)
                for i, j in T.Parallel(64, 64):
                    kept[i, j] = first[j, i]
                T.copy(kept, second)
                for i, j in T.Parallel(64, 64):
                    C[t, i, j] = second[j, i]

    a = whole_numbers((trips, 64, 64), np.float32, high=90)
    kernel, module = lowered(beside)
    assert module.functions[0].shared_bytes == 64 * 64 * 4
    found = np.zeros_like(a)
    run_module(kernel, module, [a, found])
    np.testing.assert_array_equal(found, a)
    monkeypatch.setattr(lowering, "resources_that_meet", lambda packing, resources: {})
    kernel, module = lowered(beside)
    with pytest.raises(LaunchError, match="E652"):
        run_module(kernel, module, [a, found])


@pytest.mark.parametrize("trips", [1, 3])
def test_a_tile_made_from_another_has_its_own_bytes(trips: int) -> None:
    """One statement reads the first and writes the second at other places: no barrier can stand between."""

    @T.prim_func
    def made(A: T.Tensor((trips, 32, 32), "float32"), B: T.Tensor((trips, 32, 32), "float32"), C: T.Tensor((trips, 32, 32), "float32")):
        with T.Kernel(1, threads=64):
            for t in T.serial(trips):
                first = T.alloc_shared((32, 32), "float32")
                second = T.alloc_shared((32, 32), "float32")
                third = T.alloc_shared((32, 32), "float32")
                T.copy(A[t, 0, 0], first)
                for i, j in T.Parallel(32, 32):
                    second[j, i] = first[i, j]
                T.copy(second, B[t, 0, 0])
                T.transpose(second, third)
                T.copy(third, C[t, 0, 0])

    a = whole_numbers((trips, 32, 32), np.float32)
    kernel, module = lowered(made)
    assert module.functions[0].shared_bytes == 2 * 32 * 32 * 4  # the third takes the place of the first
    b, c = np.zeros_like(a), np.zeros_like(a)
    run_module(kernel, module, [a, b, c])
    np.testing.assert_array_equal(b, a.transpose(0, 2, 1))
    np.testing.assert_array_equal(c, a)


def test_a_tile_that_a_loop_carries_has_its_own_bytes() -> None:
    @T.prim_func
    def carried(A: T.Tensor((3, 64, 64), "float32"), B: T.Tensor((3, 64, 64), "float32")):
        with T.Kernel(1, threads=64):
            total = T.alloc_shared((64, 64), "float32")
            T.clear(total)
            for t in T.serial(3):
                tile = T.alloc_shared((64, 64), "float32")
                T.copy(A[t, 0, 0], tile)
                for i, j in T.Parallel(64, 64):
                    total[i, j] = total[i, j] + tile[j, i]
                T.copy(total, B[t, 0, 0])

    _, module = lowered(carried)
    assert module.functions[0].shared_bytes == 2 * 64 * 64 * 4
    agree(carried, whole_numbers((3, 64, 64), np.float32), np.zeros((3, 64, 64), np.float32))


def test_what_fits_at_different_times_only_is_compiled() -> None:
    function = phases(600)  # 2 x 150 KiB, of which a block of sm_80 has 163
    assert zellige.compile(function, target=TARGET).get_kernel_source()


def pipelined(columns: int, stages: int) -> Any:
    @T.prim_func
    def pipelined(A: T.Tensor((64, 8 * columns), "float16"), B: T.Tensor((8 * columns, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, columns), "float16")
            b = T.alloc_shared((columns, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(8, num_stages=stages):
                T.copy(A[0, k * columns], a)
                T.copy(B[k * columns, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    return pipelined


def test_slots_of_a_channel_have_their_own_bytes() -> None:
    _, module = lowered(pipelined(64, 3))
    (program,) = module.functions
    assert sorted(m.offset for m in program.memories) == [0, 3 * 64 * 64 * 2]


def test_rows_that_are_padded_beyond_the_limit_name_the_stages_that_fit() -> None:
    """Rows of 80 elements get 8 more against conflicts; the plan counts 80."""
    function = pipelined(80, 8)
    assert 8 * 2 * 64 * 80 * 2 <= 163 * 1024 < 8 * (64 * 88 + 80 * 64) * 2
    with pytest.raises(CompileError, match="E301") as caught:
        lowered(function)
    text = str(caught.value)
    assert re.search(r"error E301: shared of the target \S+ holds \d+ bytes a block", text)
    assert f"a 8 x {64 * 88 * 2} bytes" in text
    assert f"b 8 x {64 * 80 * 2} bytes" in text
    assert "with a in 7 and b in 7 stages it would fit" in text


@pytest.mark.parametrize("stages,kept", [(8, 7), (7, 7)])
def test_a_plan_with_fewer_stages_is_made_where_padded_rows_do_not_fit(stages: int, kept: int) -> None:
    function = pipelined(80, stages)
    source = zellige.compile(function, target=TARGET).get_kernel_source()
    assert ("// how much shared memory do tiles get?" in source) == (kept != stages)
    assert f"shared + {kept * 64 * 88 * 2})" in source  # b begins behind the slots of a
    a, b = whole_numbers((64, 640), np.float16), whole_numbers((640, 64), np.float16, seed=1)
    agree(function, a, b, np.zeros((64, 64), np.float32))


@pytest.mark.parametrize("rows,is_dense", [(4, True), (2, False)])
def test_rows_that_fit_without_gaps_only_have_none(rows: int, is_dense: bool) -> None:
    @T.prim_func
    def tight(A: T.Tensor((rows, 192), "float32"), B: T.Tensor((192, 128), "float32"), C: T.Tensor((rows, 128), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((rows, 192), "float32")
            b = T.alloc_shared((192, 128), "float32")
            c = T.alloc_fragment((rows, 128), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    assert 4 * (4 * 192 + 192 * 128) == 99 * 1024, "all that a block of sm_86 has"
    target = "cuda:sm_86,simulate"
    source = zellige.compile(tight, target=target).get_kernel_source()
    told = "// rows of a have no gaps against conflicts of banks: with them the tiles would not fit"
    assert (told in source) == is_dense
    a, b = whole_numbers((rows, 192), "float32"), whole_numbers((192, 128), "float32", seed=1)
    agree(tight, a, b, np.zeros((rows, 128), np.float32), target=target)


@pytest.mark.parametrize("rows,columns,depth,dtype,arch,proposed", [
    (256, 128, 192, "float32", "sm_80", 80), (256, 128, 192, "float32", "sm_86", 4), (512, 64, 160, "float32", "sm_75", 32),
])  # fmt: skip
def test_the_rows_that_a_refusal_proposes_fit(rows: int, columns: int, depth: int, dtype: str, arch: str, proposed: int) -> None:
    def product(rows: int) -> Any:
        @T.prim_func
        def product(A: T.Tensor((rows, depth), dtype), B: T.Tensor((depth, columns), dtype), C: T.Tensor((rows, columns), "float32")):
            with T.Kernel(1, threads=256):
                a = T.alloc_shared((rows, depth), dtype)
                b = T.alloc_shared((depth, columns), dtype)
                c = T.alloc_fragment((rows, columns), "float32")
                T.copy(A, a)
                T.copy(B, b)
                T.gemm(a, b, c, clear_accum=True)
                T.copy(c, C)

        return product

    target = f"cuda:{arch},simulate"
    with pytest.raises(CompileError, match=f"a with {proposed} rows instead of {rows} would fit there"):
        zellige.compile(product(rows), target=target)
    zellige.compile(product(proposed), target=target)


def beside_a_fragment(first: int, second: int, *, columns: int = 128, threads: int = 128) -> Any:
    """Two pipelined loops with tiles of different sizes; between them a fragment that lies in shared memory, since it is seen in another
    shape, and that no plan counts there."""

    @T.prim_func
    def beside_a_fragment(
        A: T.Tensor((512, 64), "float16"), B: T.Tensor((512, 64), "float16"), S: T.Tensor((128, columns), "float32"),
        C: T.Tensor((64, 64), "float32"), D: T.Tensor((64, 32), "float32"), R: T.Tensor((128, columns), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((32, 64), "float16")
            whole = T.alloc_shared((64, 64), "float16")
            seen = T.alloc_fragment((128, columns), "float32")
            other = T.reshape(seen, (64, 2, columns))
            c = T.alloc_fragment((64, 64), "float32")
            d = T.alloc_fragment((64, 32), "float32")
            T.copy(S, seen)
            T.copy(A[0, 0], whole)
            T.clear(c)
            T.clear(d)
            for k in T.Pipelined(8, num_stages=first):
                T.copy(A[k * 64, 0], a)
                T.gemm(whole, a, c)
            for i, j, l in T.Parallel(64, 2, columns):
                other[i, j, l] = other[i, j, l] + 1.0
            for k in T.Pipelined(16, num_stages=second):
                T.copy(B[k * 32, 0], b)
                T.gemm(whole, b, d, transpose_B=True)
            T.copy(seen, R)
            T.copy(c, C)
            T.copy(d, D)

    return beside_a_fragment


LIMITS = {"sm_80": 166912, "sm_90a": 232448}


@pytest.mark.parametrize(
    "arch,asked,kept",
    [
        ("sm_80", (5, 5), (5, 5)),
        ("sm_80", (8, 8), (7, 8)),
        ("sm_80", (3, 20), (3, 16)),
        ("sm_80", (12, 2), (10, 2)),
        ("sm_80", (60, 60), (7, 8)),
        ("sm_90a", (14, 2), (14, 2)),
        ("sm_90a", (16, 8), (15, 8)),
        ("sm_90a", (2, 60), (2, 34)),
    ],
)
def test_as_many_stages_as_leave_room_for_a_fragment_in_shared_memory(arch: str, asked: tuple[int, int], kept: tuple[int, int]) -> None:
    """The plan counts the tiles only: but for 60 and 60 it has room for all of them. The deepest loop gives up first."""
    target = f"cuda:{arch},simulate"
    compiled = zellige.compile(beside_a_fragment(*asked), target=target)
    (program,) = explain(compiled).fitted.program.functions
    (launch,) = explain(compiled).fitted.planned.launches
    slots = {placement.buffer.name: placement.slots for placement in launch.placements}
    assert (slots["a"], slots["b"]) == kept
    fewer = {d.question: d.chosen for d in launch.decisions if "instead of" in d.chosen}
    wanted = {f"how many versions of {name} are there?": (n, of) for name, n, of in zip("ab", kept, asked) if n != of}
    assert fewer == {question: f"{n} instead of {of}" for question, (n, of) in wanted.items()}
    sizes = {"a": 64 * 64 * 2, "b": 32 * 64 * 2}
    assert program.shared_bytes <= LIMITS[arch]
    given_up = [sizes[name] for name, n, of in zip("ab", kept, asked) if n != of]
    assert all(program.shared_bytes + size > LIMITS[arch] for size in given_up)
    assert any(d.topic == "memory" for d in launch.decisions) == bool(given_up)


@pytest.mark.parametrize("target", [TARGET, "cuda:sm_90a,simulate"])
def test_fewer_stages_beside_a_fragment_compute_the_same(target: str) -> None:
    a, b = whole_numbers((512, 64), np.float16), whole_numbers((512, 64), np.float16, seed=1)
    s = whole_numbers((128, 128), np.float32, seed=2)
    results = [np.zeros((64, 64), np.float32), np.zeros((64, 32), np.float32), np.zeros_like(s)]
    agree(beside_a_fragment(16, 20), a, b, s, *results, target=target)


def test_a_fragment_that_leaves_no_room_is_refused_with_the_stages_asked_for() -> None:
    with pytest.raises(CompileError, match="E301") as caught:
        zellige.compile(beside_a_fragment(6, 4, columns=320), target=TARGET)
    text = str(caught.value)
    assert "a 6 x 8192 bytes" in text and "b 4 x 4096 bytes" in text and f"seen {128 * 320 * 4} bytes" in text


@pytest.mark.parametrize("spare,stages", [(21504, 2), (21503 - 80, 1), (512, 1), (0, 1), (-16, 1), (-1024, 1), (-1040, 0)])
def test_one_version_of_each_tile_is_tried_before_a_kernel_is_refused(spare: int, stages: int) -> None:
    """Each version that is given up takes its padding along, so that less than the excess is enough. ``spare`` bytes are left beside one
    version of each tile as they are stored; 1024 more without the gaps between rows of a."""
    one = (64 * 88 + 80 * 64) * 2
    held = (LIMITS["sm_80"] - one - spare) // 16 * 16

    @T.prim_func
    def beside_bytes(
        A: T.Tensor((64, 640), "float16"), B: T.Tensor((640, 64), "float16"), H: T.Tensor((held,), "uint8"),
        C: T.Tensor((64, 64), "float32"), G: T.Tensor((held,), "uint8"),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 80), "float16")
            b = T.alloc_shared((80, 64), "float16")
            h = T.alloc_shared((held,), "uint8")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(H, h)
            T.clear(c)
            for k in T.Pipelined(8, num_stages=2):
                T.copy(A[0, k * 80], a)
                T.copy(B[k * 80, 0], b)
                T.gemm(a, b, c)
            T.copy(h, G)
            T.copy(c, C)

    if not stages:
        with pytest.raises(CompileError, match="E301"):
            zellige.compile(beside_bytes, target=TARGET)
        return
    (launch,) = explain(zellige.compile(beside_bytes, target=TARGET)).fitted.planned.launches
    assert {p.buffer.name: p.slots for p in launch.placements if p.buffer.name in "ab"} == {"a": stages, "b": stages}
