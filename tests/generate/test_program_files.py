"""Programs on their way to files and scripts and back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

from zellige.cli.main import group
from zellige.generate import Program, generate_seeded
from zellige.generate.comparison import differences, interpreted
from zellige.generate.program import copy_of, memory_of
from zellige.ir.traverse import same_structure

ALL_SORTS = """\
@sizes(ld=int32)
def k(A: tensor((2, 3), float32, strides=(ld, 1)), B: tensor((2, 4), int4), n: scalar(int32), C: tensor((3,), bfloat16),
      D: tensor((2,), float32, role="output"), x: scalar(float32)) -> (D,):
    with launch(1) as (bx,):
        for i in parallel(2):
            D[i] = A[i, 1] * x + cast(n, float32) + cast(B[i, 3], float32) + cast(C[1], float32)"""


@pytest.fixture
def program(program_of: Callable[..., Program]) -> Program:
    wide = np.arange(14, dtype=np.float32).reshape(2, 7)[:, :3]
    packed = np.array([[0x21, 0xF3], [0x00, 0x75]], np.uint8)
    return program_of(ALL_SORTS, wide, packed, 3, np.array([1, 2, 3], ml_dtypes.bfloat16), None, 0.5)


def test_files_keep_everything(program: Program, tmp_path: Path) -> None:
    program.save(tmp_path / "p.tile", "first line\nsecond line")
    again = Program.load(tmp_path / "p.tile")
    assert "# second line" in (tmp_path / "p.tile").read_text()
    assert same_structure(again.kernel, program.kernel)
    assert again.arguments[2] == 3
    assert again.arguments[4] is None
    assert again.arguments[5] == 0.5
    for index in (0, 1, 3):
        old, new = program.arguments[index], again.arguments[index]
        assert isinstance(old, np.ndarray)
        assert isinstance(new, np.ndarray)
        assert (old.dtype, old.shape, old.strides) == (new.dtype, new.shape, new.strides)
        assert memory_of(old).tobytes() == memory_of(new).tobytes()
    assert interpreted(again).tensors[4].tolist() == [0.5 + 3 - 1 + 2, 4.0 + 3 + 7 + 2]


def test_a_copy_has_memory_of_its_own(program: Program) -> None:
    array = program.arguments[0]
    assert isinstance(array, np.ndarray)
    other = copy_of(array)
    other[0, 0] = 99
    assert array[0, 0] == 0
    assert other.strides == array.strides


def test_empty_tensors_are_tensors(tmp_path: Path, program_of: Callable[..., Program]) -> None:
    program = program_of("def k(A: tensor((0, 3), float32)):\n    with launch(1) as (bx,):\n        pass", np.zeros((0, 3), np.float32))
    program.save(tmp_path / "p.tile")
    again = Program.load(tmp_path / "p.tile").arguments[0]
    assert isinstance(again, np.ndarray)
    assert again.shape == (0, 3)


@pytest.mark.parametrize("seed", [2, 11])
def test_a_script_makes_the_program_again(seed: int, tmp_path: Path) -> None:
    program = generate_seeded(seed)
    (tmp_path / "again.py").write_text(
        program.script() + "print('compared', program.kernel.name)\n".replace("program.kernel.name", "len(TEXT)")
    )
    done = subprocess.run([sys.executable, str(tmp_path / "again.py"), "interp"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("compared ")
    scope: dict[str, object] = {}
    exec(program.script().split("target =")[0], scope)
    again = Program.of_text(scope["TEXT"], scope["ARGUMENTS"])  # type: ignore[arg-type]
    assert list(differences(program, interpreted(program), interpreted(again), None)) == []


def test_the_module_prints_a_program() -> None:
    done = subprocess.run([sys.executable, "-m", "zellige.generate", "4"], capture_output=True, text=True, check=False)
    assert done.stdout == generate_seeded(4).text()
    assert subprocess.run([sys.executable, "-m", "zellige.generate"], capture_output=True, check=False).returncode == 2


def test_the_command_compares_and_replays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "failures"
    good = CliRunner().invoke(group, ["fuzz", "--count", "3", "--seed", "5", "--target", "interp", "--out", str(out)])
    assert (good.exit_code, good.output) == (0, "3 programs, 0 failures\n")
    assert not out.exists()
    program = generate_seeded(5)
    program.save(tmp_path / "p.tile")
    replay = CliRunner().invoke(group, ["fuzz", "--target", "interp", "--replay", str(tmp_path / "p.tile")])
    assert (replay.exit_code, replay.output) == (0, f"{tmp_path / 'p.tile'}: everything agrees\n")

    from zellige.generate import campaign
    from zellige.generate.comparison import Problem

    monkeypatch.setattr(campaign, "check_program", lambda *_, **__: [Problem(kind="target interp", detail="wrong")])
    bad = CliRunner().invoke(group, ["fuzz", "--count", "1", "--seed", "5", "--target", "interp", "--no-shrink", "--out", str(out)])
    assert bad.exit_code == 1
    assert bad.output == f"seed 5: target interp: wrong\n  {out / 'fuzz-5.tile'}\n1 programs, 1 failures\n"
    assert (out / "fuzz-5.tile").exists()


def test_the_command_refuses_what_it_cannot_try(tmp_path: Path) -> None:
    """A target that no backend has is no failure of a program, and no programs are no campaign."""
    unknown = CliRunner().invoke(group, ["fuzz", "--count", "1", "--target", "nowhere", "--out", str(tmp_path)])
    assert getattr(unknown.exception, "code", "") == "E705"
    assert not list(tmp_path.iterdir())
    for count in ("0", "-1"):
        assert CliRunner().invoke(group, ["fuzz", "--count", count]).exit_code == 2
