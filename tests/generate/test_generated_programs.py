"""Programs that the generator makes are valid, mean the same however they are run, and run alike on every target.

A failure prints a script that makes the program again; hypothesis has shrunk it by then.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, note, settings

from zellige.generate import Program, check_program, generate_seeded
from zellige.generate.campaign import first_problem, run_campaign
from zellige.generate.kernels import Flavour
from zellige.ir.expr import Binary, Math
from zellige.ir.lanes import lane_dependence, tile_regions
from zellige.ir.stmt import For, Launch, Reduce
from zellige.ir.traverse import walk


def explain(program: Program) -> None:
    note(program.text())
    note(program.script())


@given(data=st.data())
@settings(max_examples=25)
def test_the_interpreter_has_nothing_to_say(block_programs: st.SearchStrategy[Program], data: st.DataObject) -> None:
    """Verified, no race, nothing undefined is read; the same after the text form, after the passes, in any order of the blocks."""
    program = data.draw(block_programs)
    explain(program)
    assert check_program(program) == []


@given(data=st.data())
@settings(max_examples=25)
def test_nor_about_lanes(lane_programs: st.SearchStrategy[Program], data: st.DataObject) -> None:
    program = data.draw(lane_programs)
    explain(program)
    assert check_program(program) == []


@given(data=st.data())
@settings(max_examples=25)
def test_the_cpu_agrees(block_programs: st.SearchStrategy[Program], data: st.DataObject) -> None:
    """Exactly, or within the bound of the program's facts; the same bits with any number of stages; no byte outside is touched."""
    program = data.draw(block_programs)
    explain(program)
    assert first_problem(program, ("cpu",), is_thorough=False) is None


@given(data=st.data())
@settings(max_examples=12)
def test_the_cpu_plays_lanes(lane_programs: st.SearchStrategy[Program], data: st.DataObject) -> None:
    program = data.draw(lane_programs)
    explain(program)
    assert first_problem(program, ("cpu",), is_thorough=False) is None


@given(data=st.data())
@settings(max_examples=8)
def test_tile_operations_of_lanes_have_nothing_to_say(lane_tile_programs: st.SearchStrategy[Program], data: st.DataObject) -> None:
    program = data.draw(lane_tile_programs)
    explain(program)
    assert check_program(program) == []


@given(data=st.data())
@settings(max_examples=6)
def test_the_cpu_does_tile_operations_of_lanes(lane_tile_programs: st.SearchStrategy[Program], data: st.DataObject) -> None:
    program = data.draw(lane_tile_programs)
    explain(program)
    assert first_problem(program, ("cpu",), is_thorough=False) is None


@pytest.mark.parametrize("first", [0, 4])
def test_the_cpu_tells_apart_what_lanes_share(first: int) -> None:
    assert [failure.title for failure in run_campaign(first, 4, ("cpu",), flavour="lane-values", shrinks=False)] == []


@pytest.mark.parametrize("target", ["cpu", "cuda:sm_80,simulate", "template"])
@pytest.mark.parametrize("flavour", ["indexes", "boxes"])
def test_no_number_is_another_index_than_it_says(flavour: Flavour, target: str) -> None:
    """Numbers of every type, near its ends too, as indices, offsets, extents and ends of loops."""
    assert [failure.title for failure in run_campaign(60, 4, (target,), flavour=flavour, shrinks=False)] == []


@pytest.mark.parametrize(
    ("flavour", "seed", "target"),
    [
        ("indexes", 870_032, "cpu"),  # a scalar that wraps in an offset
        ("indexes", 872_013, "cpu"),  # an offset of uint64
        ("indexes", 882_032, "cuda:sm_80,simulate"),
        ("indexes", 942_017, "cuda:sm_80,simulate"),  # a test of another number than the address
        ("indexes", 951_010, "cpu"),  # a region that begins where a sum wrapped to little less than zero
        ("indexes", 951_082, "cpu"),
        ("indexes", 884_033, "cuda:sm_80,simulate"),
        ("indexes", 886_004, "template"),
        ("indexes", 911_117, "cpu"),  # a scalar cast to uint8
        ("boxes", 1_002, "cpu"),  # the least number of 64 bits
        ("boxes", 1_014, "cpu"),  # fewer than no columns
        ("boxes", 951_027, "cuda:sm_80,simulate"),  # fewer than no rows and fewer than no columns are none together
        ("boxes", 7_008, "cpu"),  # a constant offset of uint64 beyond half of its numbers
        ("boxes", 1_012, "template"),  # regions of different ranks that move with a loop
        ("boxes", 1_038, "template"),
    ],
)
def test_programs_that_read_another_element_once(flavour: Flavour, seed: int, target: str) -> None:
    assert [failure.title for failure in run_campaign(seed, 1, (target,), flavour=flavour, shrinks=False)] == []


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cpu", "cuda:sm_80,simulate", "template"])
@pytest.mark.parametrize("flavour", ["indexes", "boxes"])
@pytest.mark.parametrize("first", range(400_000, 400_200, 50))
def test_hundreds_of_programs_of_indices(tmp_path: Path, first: int, flavour: Flavour, target: str) -> None:
    assert [failure.title for failure in run_campaign(first, 50, (target,), flavour=flavour, folder=tmp_path)] == []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(300_000, 300_600, 50))
def test_hundreds_of_programs_of_what_lanes_share(tmp_path: Path, first: int) -> None:
    assert [failure.title for failure in run_campaign(first, 50, ("cpu",), flavour="lane-values", folder=tmp_path)] == []


def test_programs_of_lanes_have_tile_operations_of_every_sort() -> None:
    found: Counter[tuple[str, bool]] = Counter()
    for seed in range(60):
        for launch in generate_seeded(seed, flavour="lane-tiles").kernel.launches:
            lanes = lane_dependence(launch)
            found.update((type(node).__name__, lanes.is_private(node)) for node in walk(launch) if tile_regions(node))
    operations = ("Copy", "Fill", "Gemm", "Reduce", "Scan", "Transpose")
    assert min(found[operation, True] for operation in operations) > 5, found
    assert found["Copy", False] > 20


def test_a_seed_is_a_program() -> None:
    first, second = generate_seeded(17), generate_seeded(17)
    assert first.text() == second.text()
    assert first.text() != generate_seeded(18).text()


def words_of(program: Program) -> set[str]:
    """What a program has: node classes, operators, functions, kinds of loops, types."""
    found: set[str] = set()
    for node in walk(program.kernel):
        found.add(type(node).__name__)
        buffer = getattr(node, "buffer", None)
        if buffer is not None:
            found |= {buffer.dtype.name, buffer.space, *(["view"] if buffer.alias else []), *(["strides"] if buffer.strides else [])}
        match node:
            case For():
                found.add(type(node.kind).__name__)
            case Binary() | Reduce():
                found.add(node.op)
            case Math():
                found.add(node.function)
            case Launch():
                found.add(f"grid of {len(node.grid)}")
            case _:
                pass
    return found


def test_programs_are_of_every_sort() -> None:
    statements = {
        "Alloc", "Copy", "Fill", "Gemm", "Reduce", "Scan", "Transpose", "Atomic", "AtomicTile", "Map", "For", "While", "If", "Break",
        "Continue", "Return", "Bind", "Assign", "Store", "Assert", "Assume", "ReducerInit", "ReducerUpdate", "ReducerFinalize",
        "Barrier", "Shuffle", "Vote",
        "SafeValue", "ScalarParam", "Select", "Cast", "Reinterpret",
    }  # fmt: skip
    kinds = {"Serial", "Unrolled", "Vectorised", "Pipelined", "Persistent", "view", "strides", "grid of 1", "grid of 2", "grid of 3"}
    operators = {"floordiv", "floormod", "truncdiv", "truncmod", "shl", "shr", "max_nan", "sum", "prod", "absmax", "bitxor", "any", "all"}
    functions = {"exp", "tanh", "sqrt", "fma", "nextafter", "powi", "popcount", "isnan"}
    types = {"bool", "int4", "uint4", "int8", "uint64", "float16", "bfloat16", "tfloat32", "float64", "float8_e4m3fn", "float8_e5m2fnuz"}
    missing = statements | kinds | operators | functions | types
    for seed in range(260):
        missing -= words_of(generate_seeded(seed))
        if not missing:
            break
    assert missing == set()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(200_000, 200_400, 50))
def test_hundreds_of_programs_of_lanes_agree(tmp_path: Path, first: int) -> None:
    failures = [failure.title for failure in run_campaign(first, 50, ("cpu",), flavour="lane-tiles", folder=tmp_path)]
    assert failures == []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100_000, 102_000, 200))
def test_thousands_of_programs_agree(tmp_path: Path, first: int) -> None:
    failures = [failure.title for failure in run_campaign(first, 200, ("cpu",), folder=tmp_path)]
    assert failures == []
