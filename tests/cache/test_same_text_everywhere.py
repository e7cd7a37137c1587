"""What a kernel is emitted as depends on the kernel alone: not on the seed of Python's hashes, nor on what the process did before.

Otherwise machine code kept on disk under its text would not be found by the next process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from zellige.analysis.forms import Form
from zellige.dtypes import dtype
from zellige.ir.expr import INT32, INT64, Binary, Buffer, Cast, Const, Load, Var

FOLDER = Path(__file__).parents[2] / "examples"
SHAPES = {"attention": "1x4x2x67x131x40", "gemm_direct": "131x67x45", "linear_attention": "1x2x131x40", "transpose": "67x129"}
TARGETS = ("cpu", "cuda:sm_80")

PROGRAM = """
import importlib, json, sys
from click.testing import CliRunner
from zellige import driver
from zellige.ir.expr import INT32, Var

shapes, targets, earlier = json.loads(sys.argv[1])
for number in range(earlier):  # as in a process that has compiled other kernels
    Var(name="other", dtype=INT32, kind="value")
kernels, compile_kernel = [], driver.compile_kernel

def noted(kernel, target, options=None):
    kernels.append(kernel)
    return compile_kernel(kernel, target, options)

driver.compile_kernel = noted
texts = {}
for name, shape in shapes.items():
    kernels.clear()
    ran = CliRunner().invoke(importlib.import_module(name).main, ["--target", "cpu", "--shape", shape, "--milliseconds", "0"])
    assert ran.exit_code == 0, ran.output
    for number, kernel in enumerate(kernels):
        texts.update({f"{name} {number} {target}": driver.dump(kernel, target, "source") for target in targets})
print(json.dumps(texts))
"""


def emitted(seed: int) -> dict[str, str]:
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "ZELLIGE_CACHE": "0"}
    arguments = json.dumps([SHAPES, TARGETS, 977 * seed])
    command = [sys.executable, "-c", PROGRAM, arguments]
    done = subprocess.run(command, cwd=FOLDER, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def first() -> dict[str, str]:
    return emitted(0)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_process_emits_the_same_text(first: dict[str, str], seed: int) -> None:
    assert len(first) >= len(SHAPES) * len(TARGETS)
    again = emitted(seed)
    assert [name for name, text in first.items() if again[name] != text] == []


def test_products_of_the_same_atoms_are_one_term_in_any_order() -> None:
    k, m = (Var(name=name, dtype=INT64, kind="size") for name in "km")
    table = Buffer(name="table", dtype=dtype("int32"), shape=(Const(value=9, dtype=INT32),))

    def loaded() -> Cast:
        return Cast(value=Load(buffer=table, indices=(Const(value=1, dtype=INT32),)), dtype=INT64)

    def shifted() -> Binary:
        return Binary(op="shl", left=loaded(), right=Binary(op="min", left=loaded(), right=k))

    atoms = [Form.of(k), Form.of(m), Form.of(loaded()), Form.of(shifted())]
    forward = atoms[0] * atoms[1] * atoms[2] * atoms[3]
    backward = Form.of(shifted()) * Form.of(loaded()) * atoms[1] * atoms[0]
    assert forward == backward and len((forward + backward).terms) == 1
    assert [type(a) for a in next(iter(forward.terms))][:2] == [Var, Var] and next(iter(forward.terms))[:2] == (k, m)
