"""Programs of several roles for sm_90a, compiled without a device: what the machine code and the compiler's log hold."""

from __future__ import annotations

import json
import re
import struct
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import zellige
import zellige.language as T
from zellige.diagnostics import ZelligeWarning
from zellige.driver import dump, fit_kernel
from zellige.dtypes import dtype as as_dtype
from zellige.explain import explain
from zellige.ir.expr import INT32, Buffer, Var, const
from zellige.plan.nodes import Decision, PlannedKernel
from zellige.simt.homes import FARTHEST
from zellige.target import parse_target
from zellige_cuda import device
from zellige_cuda.disassembly import disassembled

TARGET = "cuda:sm_90a"


def product(
    rows: int = 128, columns: int = 128, depth: int = 64, stages: int = 3, *, sizes: tuple[int, int, int] = (1024, 1024, 512),
    dtype: str = "bfloat16", transposed: bool = False,
) -> Any:  # fmt: skip
    m, n, k = sizes

    @T.prim_func
    def gemm(
        A: T.Tensor((m, k), dtype), B: T.Tensor((n, k) if transposed else (k, n), dtype), C: T.Tensor((m, n), dtype),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=128) as (bx, by):
            a = T.alloc_shared((rows, depth), dtype)
            b = T.alloc_shared((columns, depth) if transposed else (depth, columns), dtype)
            c = T.alloc_fragment((rows, columns), "float32")
            T.clear(c)
            for s in T.Pipelined(T.ceildiv(k, depth), num_stages=stages):
                T.copy(A[by * rows, s * depth], a)
                if transposed:
                    T.copy(B[bx * columns, s * depth], b)
                else:
                    T.copy(B[s * depth, bx * columns], b)
                T.gemm(a, b, c, transpose_B=transposed)
            T.copy(c, C[by * rows, bx * columns])

    return gemm


def instructions(sass: str) -> Counter[str]:
    return Counter(re.findall(r"\*/\s+(?:@!?U?P\w+ )?([A-Z][A-Z0-9_]*)", sass))


@pytest.mark.parametrize(
    ("options", "products", "loads", "stores"),
    [
        ({"transposed": True}, 4, 2, 2),
        ({"columns": 256, "stages": 4}, 4, 1 + 4, 4),
        ({"columns": 176, "transposed": True, "dtype": "float16"}, 4, 2, 11),
        ({"columns": 192, "depth": 32}, 2, 1 + 3, 3),
    ],
)
def test_a_pipelined_product_runs_on_the_engines(options: dict[str, Any], products: int, loads: int, stores: int) -> None:
    """The k loop stands twice, its first step apart; copies are as many as slabs; budgets are taken; nothing serialises or spills."""
    compiled = zellige.compile(product(**options), target=TARGET)
    found = instructions(sass := compiled.get_asm())
    assert found["HGMMA"] == 2 * products
    assert found["UTMALDG"] == loads
    assert found["UTMASTG"] == stores
    assert found["STG"] == 0
    assert "MEMBAR.ALL.GPU" not in sass
    assert found["USETMAXREG"] == 2
    assert found["HMMA"] == found["LDGSTS"] == found["LDL"] == found["STL"] == 0
    assert found["R2UR"] <= 2
    log = compiled._default.compiled.log
    assert "0 bytes spill stores" in log
    assert not re.search(r"C7\d\d\d", log)


@pytest.mark.parametrize(
    ("width", "rows", "columns", "is_causal"), [(128, 128, 128, False), (128, 192, 80, True), (64, 192, 128, False)]
)
def test_an_attention_step_runs_beside_its_second_product(width: int, rows: int, columns: int, is_causal: bool) -> None:
    """Both products run on the engines, the second with its first operand in registers and an iteration late: two are in flight, the lanes
    wait for the older one. The step stands there twice, for the blocks that a mask divides and for the others; before it stands the
    first product of a block, after it the second one. Nothing serialises them or spills, though three consumers have 160 registers a
    lane."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
    from attention import attention

    compiled = zellige.compile(attention.get_tir(16, 16, width, is_causal, block_M=rows, block_N=columns), target=TARGET)
    sass = compiled.get_asm()
    found = instructions(sass)
    first, second = width // 16, columns // 16
    steps = found["HGMMA"] // (first + second) - 1
    assert found["HGMMA"] == (steps + 1) * (first + second)
    assert 2 <= steps <= 3
    assert len(re.findall(r"WARPGROUP.DEPBAR.LE gsb0, 0x1 ", sass)) == steps
    assert found["USETMAXREG"] == 2
    assert found["HMMA"] == found["LDL"] == found["STL"] == 0
    assert not re.search(r"C7\d\d\d", compiled._default.compiled.log)


def test_equal_masks_of_two_blocks_of_rows_do_not_make_products_wait() -> None:
    """Each consumer has two blocks of 64 rows, whose masks are equal where only the end of the keys is masked: kept in the same registers,
    the second product would wait for the first (C7517)."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
    from attention import attention

    compiled = zellige.compile(attention.get_tir(16, 16, 64, False, block_M=256, block_N=64), target=TARGET)
    assert instructions(compiled.get_asm())["HGMMA"] > 0
    assert not re.search(r"C7\d\d\d", compiled._default.compiled.log)


def decided(function: Any) -> tuple[int, str, str]:
    """How many roles the launch has, and the answer about roles with its reason."""
    (launch,) = fit_kernel(function.kernel, parse_target(TARGET)).planned.launches
    decision = next(d for d in launch.decisions if d.question == "do parts of the block run programs of their own?")
    return len(launch.roles), decision.chosen, decision.because


def test_roles_are_decided_with_a_reason() -> None:
    assert decided(product())[:2] == (2, "yes")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"dtype": "float32"}, "none of its products runs beside the lanes"),
        ({"rows": 32}, "a product of 32 x 128 x 64 is no whole number of 64 x 8 x 16"),
        ({"sizes": (1024, 1024, 500)}, "a is not brought by boxes: cp.async.bulk.tensor needs a pitch of A that is a multiple of 16 bytes"),
        ({"stages": 1}, "with one version of each tile a producer would only wait"),
        ({"depth": 8, "transposed": True}, "rows of a are no multiple of 32 bytes"),
    ],
)
def test_other_launches_keep_one_role(options: dict[str, Any], reason: str) -> None:
    """They run by copy groups and products of warps, as on machines without engines; the decision says why."""
    roles, chosen, because = decided(product(**options))
    assert (roles, chosen) == (1, "no")
    assert reason in because


@pytest.mark.parametrize("key", ["tl.disable_warp_specialized", "tl.disable_wgmma", "tl.disable_tma_lower"])
def test_users_rule_roles_out(key: str) -> None:
    """By the keys that TileLang has for it; the reason names the key, and the program is that of machines without engines."""
    asked = zellige.compile(product(), target=TARGET, pass_configs={key: True})
    found = instructions(asked.get_asm())
    assert found["HGMMA"] == found["UTMALDG"] == found["USETMAXREG"] == 0
    assert found["HMMA"] > 0
    decision = next(d for d in explain(asked).decisions if d.question == "do parts of the block run programs of their own?")
    assert (decision.chosen, decision.because) == ("no", f"{key} rules them out")
    assert instructions(zellige.compile(product(), target=TARGET, pass_configs={key: False}).get_asm())["HGMMA"] > 0


def test_a_key_without_effect_is_said() -> None:
    with pytest.warns(ZelligeWarning, match=r"E161.*nothing on the target cuda:sm_90a depends on it"):
        zellige.compile(product(), target=TARGET, pass_configs={"tl.disable_shuffle_elect": True})


def test_stages_that_engines_leave_no_room_for_are_fewer() -> None:
    """Barriers and rows of sums stand beside the tiles: where all of shared memory was planned for stages, one less is."""
    compiled = zellige.compile(product(columns=256, depth=128, stages=3), target=TARGET)
    (function,) = compiled._default.compiled.functions
    assert function["shared"] <= 227 * 1024
    assert "consumer:" in compiled.get_kernel_source()


def test_passes_of_users_see_the_plan_with_roles_and_the_one_beside_it() -> None:
    """Each plan is made by core, whatever asked for it: what a user's pass decides stands in the text of both programs."""
    seen: list[int] = []

    def told(planned: PlannedKernel) -> PlannedKernel:
        (launch,) = planned.launches
        seen.append(len(launch.roles))
        decision = Decision(question="did the pass see", chosen=f"{len(launch.roles)} roles?", because="it counts them")
        return replace(planned, launches=(replace(launch, decisions=(*launch.decisions, decision)),))

    for stage in ("allocate", "sync", "lower"):
        seen.clear()
        compiled = zellige.compile(product(), target=TARGET, passes=[(stage, told)])
        assert seen == [1, 2, 1]
        lines = compiled.get_kernel_source().splitlines()
        assert [line for line in lines if "did the pass see" in line] == ["// did the pass see 2 roles?", "// did the pass see 1 roles?"]
        first = lines[: lines.index("// did the pass see 2 roles?") + 1]
        explained = [f"// {d.question} {d.chosen}" for d in explain(compiled).decisions]
        assert explained == [line for line in first if line in explained]


def test_plans_for_less_memory_say_so_with_roles_too() -> None:
    """192 KiB of stages and 35 of the tile that is kept are all that a block has: barriers need another stage's room."""

    @T.prim_func
    def beside(
        A: T.Tensor((1024, 512), "bfloat16"), B: T.Tensor((512, 1024), "bfloat16"), C: T.Tensor((1024, 1024), "bfloat16"),
        E: T.Tensor((35, 256), "float32"),
    ):  # fmt: skip
        with T.Kernel(4, 8, threads=256) as (bx, by):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 256), "bfloat16")
            kept = T.alloc_shared((35, 256), "float32")
            c = T.alloc_fragment((128, 256), "float32")
            T.clear(c)
            for i, j in T.Parallel(35, 256):
                kept[i, j] = i * j + bx
            for k in T.Pipelined(8, num_stages=4):
                T.copy(A[by * 128, k * 64], a)
                T.copy(B[k * 64, bx * 256], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 128, bx * 256])
            T.copy(kept, E)

    (launch,) = explain(beside, TARGET).planned.launches
    assert len(launch.roles) == 2
    assert [d.chosen for d in launch.decisions if d.topic == "programs"] == ["yes"]
    (memory,) = (d for d in launch.decisions if d.topic == "memory")
    assert int(memory.chosen.split()[0]) < 227 * 1024


def test_the_other_architectures_are_not_asked() -> None:
    for target in ("cuda:sm_80", "cuda:sm_90", "cuda:sm_120"):
        (launch,) = fit_kernel(product().kernel, parse_target(target)).planned.launches
        assert len(launch.roles) == 1
        assert not any("programs of their own?" in d.question for d in launch.decisions)


def test_the_text_says_which_role_does_what() -> None:
    text = dump(product().kernel, TARGET, "source")
    assert "// consumer: 256 of 384 lanes" in text
    assert "// producer: 128 of 384 lanes" in text
    assert text.count("const __grid_constant__ TensorMap") == 3
    assert "__launch_bounds__(384, 1)" in text


def test_a_program_without_boxes_stands_beside_it() -> None:
    """Tensors that do not begin at 16 bytes are multiplied by the program that other architectures have; it is compiled when needed."""
    compiled = zellige.compile(product(), target=TARGET)._default.compiled
    facts = json.loads(json.loads(compiled.emitted.facts)["otherwise"])
    assert facts["maps"] == []
    assert facts["functions"][0]["threads"] == 128
    assert compiled.ordinary([256, 256, 256], {}) is None
    found = instructions(disassembled(compiled.ordinary([8, 8, 8], {})._binary.data))
    assert found["HMMA"] > 0
    assert found["LDGSTS"] > 0
    assert found["HGMMA"] == found["UTMALDG"] == 0


def test_a_tensor_without_elements_is_read_by_the_program_without_boxes() -> None:
    """A map of it cannot be made, and a block that reads it must find zeros; where no block runs nothing is compiled."""
    m, k = T.dynamic("m"), T.dynamic("k")

    @T.prim_func
    def summed(A: T.Tensor((m, 64 * k), "float16"), B: T.Tensor((128, 64), "float16"), C: T.Tensor((m, 64), "float32")):
        with T.Kernel(T.ceildiv(m, 128), threads=128) as by:
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            T.clear(c)
            for s in T.Pipelined(2, num_stages=2):
                T.copy(A[by * 128, s * 64], a)
                T.copy(B[s * 64, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 128, 0])

    compiled = zellige.compile(summed, target=TARGET)._default.compiled
    sizes = {v.name: v for v in compiled.sizes}

    def ordinary(rows: int, steps: int, first: int = 256) -> Any:
        return compiled.ordinary([first, 256, 256], {sizes["m"]: rows, sizes["k"]: steps})

    assert len(compiled.maps.wanted) == 2
    assert ordinary(300, 2) is None
    assert ordinary(0, 2, first=0) is None
    assert ordinary(300, 0).facts["maps"] == []
    assert ordinary(300, 2, first=264) is not None


def test_tensors_of_more_dimensions_than_boxes_have_are_stored_by_lanes() -> None:
    @T.prim_func
    def spread(A: T.Tensor((128, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((1, 2, 1, 2, 128, 64), "float16")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            T.clear(c)
            for s in T.Pipelined(1, num_stages=2):
                T.copy(A[0, s * 64], a)
                T.copy(B[s * 64, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C[0, 1, 0, 1, 0:128, 0:64])

    compiled = zellige.compile(spread, target=TARGET)
    assert "// C is stored by lanes: C has 6 dimensions, the copy engine knows 5" in compiled.get_kernel_source()
    found = instructions(compiled.get_asm())
    assert found["UTMALDG"] > 0
    assert found["UTMASTG"] == 0


def test_boxes_are_not_asked_for_beyond_the_places_that_they_can_name() -> None:
    """Rows whose numbers need more than 31 bits; what is known at a call only is kept from the engine then."""
    long = product(sizes=(128, 2**31 + 128, 64), transposed=True)
    assert "TensorMap B" not in dump(long.kernel, TARGET, "source")
    (launch,) = explain(long, TARGET).planned.launches
    reasons = [d.because for d in launch.decisions if "programs of their own" in d.question]
    assert "B is longer than the coordinates of a box reach" in reasons[0]
    assert device.LONGEST_AXIS == FARTHEST
    columns = T.dynamic("columns", "int64")
    compiled = zellige.compile(product(sizes=(128, columns, 64), transposed=True), target=TARGET)._default.compiled
    (size,) = compiled.sizes
    assert compiled.ordinary([256, 256, 256], {size: FARTHEST}) is None
    assert compiled.ordinary([256, 256, 256], {size: FARTHEST + 1}) is not None


def test_maps_are_kept_by_the_sizes_that_they_were_made_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the order in which a launch names the sizes."""
    made: list[int] = []

    def encode(place: int, kind: int, rank: int, pointer: int, dims: bytes, *rest: Any) -> int:
        made.append(struct.unpack("2Q", dims)[1])
        return 0

    monkeypatch.setattr(device, "_encoder", lambda: encode)
    m, n = (Var(name=name, dtype=INT32, kind="size") for name in "mn")
    tensor = Buffer(name="A", dtype=as_dtype("float16"), shape=(m, const(64)))
    maps = device.Maps([{"tensor": 0, "box": [64, 64], "swizzle": 128}], [tensor], [m, n])
    maps.addresses([256], {m: 100, n: 200})
    maps.addresses([256], {n: 100, m: 200})
    maps.addresses([256], {n: 200, m: 100})
    assert made == [100, 200]


def test_tensors_that_begin_elsewhere_are_told() -> None:
    maps = device.Maps([{"tensor": 1, "box": [64, 64], "swizzle": 128}], [], [])
    assert not maps.begin_elsewhere((8, 256))
    assert maps.begin_elsewhere((0, 264))

