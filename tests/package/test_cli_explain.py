"""``zellige explain`` and ``zl.explain``: decisions in words, for targets and for the machines to compare with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import zellige
from zellige.cli.main import group
from zellige.demo import kernels
from zellige.explain import capabilities_of
from zellige.plan.invented_machines import TEST_TARGETS

FILE = """
from zellige.demo.kernels import causal_attention, pipelined_gemm, vector_addition

gemm = pipelined_gemm(256, 256, 256)
attention = causal_attention(1, 2, 128, 64)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.py"
    path.write_text(FILE)
    return path


def words(text: str) -> str:
    """The text of a table in one line: cells break lines anywhere."""
    return " ".join(text.replace("│", " ").split())


def test_every_decision_is_printed_with_its_reason(file: Path) -> None:
    result = CliRunner().invoke(group, ["explain", f"{file}:gemm", "--target", "test:scalar_vector_cpu"])
    assert result.exit_code == 0, result.output
    shown = words(result.output)
    assert "pipelined_gemm for test:scalar_vector_cpu" in shown
    assert "6 x 64" in shown
    assert "not 12 x 64" in shown
    assert "memory of a block fragment: 65536 bytes (C_tile) not stored: A_tile, B_tile" in shown


def test_decisions_stand_under_the_lines_that_they_are_about(file: Path) -> None:
    result = CliRunner().invoke(group, ["explain", f"{file}:gemm", "--target", "test:lanes_copies", "--brief"])
    assert result.exit_code == 0, result.output
    shown = words(result.output)
    order = [
        "the block as a whole", "which roles does a block have?", "kernels.py:37 for k in T.Pipelined(", "do copies run ahead of",
        "kernels.py:38 T.copy(A", "how is A copied to A_tile?", "kernels.py:40 T.gemm(A_tile", "what executes the product",
    ]  # fmt: skip
    places = [shown.index(text) for text in order]
    assert places == sorted(places)


def test_plans_as_json(file: Path) -> None:
    result = CliRunner().invoke(group, ["explain", str(file), "--target", "test:lanes_async", "--json"])
    assert result.exit_code == 0, result.output
    gemm, attention = json.loads(result.output)
    assert (gemm["kernel"], gemm["target"]) == ("pipelined_gemm", "test:lanes_async")
    (launch,) = gemm["launches"]
    product = next(d for d in launch["decisions"] if d["question"].startswith("what executes the product"))
    assert product["where"]["file"].endswith("kernels.py") and product["where"]["line"] == 40
    assert any("int8" in r["candidate"] and "accumulates in int32" in r["because"] for r in product["rejected"])
    channels = {c["name"]: c["depth"] for c in attention["launches"][0]["channels"]}
    assert channels["K_tile"] == 2
    assert {p["buffer"] for p in launch["placements"]} >= {"A_tile", "B_tile"}


def test_the_program_of_each_role_can_be_printed(file: Path) -> None:
    result = CliRunner().invoke(group, ["explain", f"{file}:attention", "--target", "test:lanes_async", "--program"])
    assert result.exit_code == 0, result.output
    program = result.output[result.output.index("# plan of causal_attention for test:lanes_async") :]
    lines = ("role producer on lanes", "role consumer on lanes", "channel K_tile: producer -> consumer", "acquire(K_tile)")
    for line in (*lines, "wait(product, leave_in_flight=1)"):
        assert line in program, line
    assert "issue(copies, copy(K[bz, by, k * 64:+64, :], K_tile[:, :]))  # box copy" in program


def test_rejected_candidates_can_be_left_out(file: Path) -> None:
    result = CliRunner().invoke(group, ["explain", f"{file}:gemm", "--target", "test:scalar_vector_cpu", "--brief"])
    assert result.exit_code == 0, result.output
    assert "not 12 x 64" not in words(result.output)


def test_all_kernels_for_all_machines(file: Path) -> None:
    targets = [argument for name in TEST_TARGETS for argument in ("--target", f"test:{name}")]
    result = CliRunner().invoke(group, ["explain", str(file), *targets])
    assert result.exit_code == 0, result.output
    for name in TEST_TARGETS:
        for kernel in ("pipelined_gemm", "causal_attention"):
            assert f"{kernel} for test:{name}" in result.output
    shown = words(result.output)
    assert "K_tile: producer -> consumer, 2 slots of 8192 bytes, by byte-counting barrier" in shown
    assert "roles vector on vector" in shown


def test_a_tile_that_does_not_fit_is_an_error_of_the_user(file: Path) -> None:
    file.write_text(FILE.replace("256, 256, 256", "1024, 1024, 1024, block_M=512, block_N=512"))
    result = CliRunner().invoke(group, ["explain", f"{file}:gemm", "--target", "test:lanes_async"])
    assert isinstance(result.exception, zellige.CompileError)
    assert result.exception.code == "E301"


def test_an_explanation_from_python() -> None:
    kernel = kernels.pipelined_gemm(256, 256, 256)
    text = str(zellige.explain(kernel, "test:local_only"))
    section = text.split("kernels.py:37   for k in T.Pipelined(")[1].split("kernels.py:38")[0]
    assert "    how many versions of A_tile and B_tile are there? 3 slots of" in section
    assert "        not copies in their place: the engine would wait for each" in section
    explanation = zellige.explain(kernel.kernel, "test:lanes_async")
    assert [d.chosen for d in explanation.about("which roles")] == ["a producer for copies and 1 consumer"]
    assert repr(explanation) == str(explanation)


def test_a_compiled_kernel_is_explained_for_its_own_target() -> None:
    compiled = zellige.compile(kernels.vector_addition(64), target="interp")
    assert zellige.explain(compiled).planned.target == "interp"


def test_what_is_no_kernel_is_refused() -> None:
    with pytest.raises(zellige.CompileError, match="E156: zl.explain cannot compile int 3"):
        zellige.explain(3)
    with pytest.raises(zellige.CompileError, match="E156: zl.par_compile cannot compile int 3"):
        zellige.par_compile(3)


def test_an_unknown_machine_is_an_unknown_target() -> None:
    with pytest.raises(zellige.CompileError, match="test"):
        capabilities_of("test:nothing")
