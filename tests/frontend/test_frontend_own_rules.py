"""Rules that only the finished kernel shows: a program that breaks one is told so in the words of the language, never with an invariant."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import pytest

import zellige as zl
import zellige.language as T
from zellige.diagnostics import CompileError, InternalError, ZelligeError, catalogue
from zellige.ir.stmt import If
from zellige.ir.traverse import walk
from zellige.ir.verifier.context import CODE_OF
from zellige.ir.verifier.wording import AUTHORS_CODE, for_author

BODIES = {
    "extent": ("E140", "for i in T.Parallel(-1):\n    B[i] = 0", "T.Parallel over an extent of -1"),
    "region": ("E140", "T.copy(A[0, 4:0], B[4:0])", "an extent of a region of A is -4"),
    "shared in a point": ("E144", "for i in T.Parallel(4):\n    s = T.alloc_shared((4,), 'float32')", "s is allocated inside T.Parallel"),
    "copy in a point": ("E144", "for i in T.Parallel(4):\n    T.copy(A[i, 0:64], B)", "T.copy stands inside T.Parallel"),
    "fill in a point": ("E144", "s = T.alloc_shared((4,), 'float32')\nfor i in T.Parallel(4):\n    T.fill(s, i)", "T.fill stands"),
    "shuffle in a point": ("E144", "for i in T.Parallel(4):\n    B[i] = T.shfl_xor(1.0, 1)", "a shuffle stands inside T.Parallel"),
    "copy of some lanes": ("E145", "if T.get_thread_binding(0) < 4:\n    T.copy(A[0, 0:64], B)", "T.copy, a tile operation, is reached"),
    "barrier of some lanes": ("E145", "if T.get_thread_binding(0) < 4:\n    T.sync_threads()", "a barrier of the block is reached"),
    "fragment of a lane": ("E148", "f = T.alloc_fragment((64,), 'float32')\nf[T.get_thread_binding(0)] = 1", "fragment f is indexed by"),
    "reducer without end": ("E146", "r = T.alloc_reducer((4,), 'float32', 'sum')\nT.clear(r)", "reducer r is never finalized"),
    "depth": ("E143", "\n".join("    " * i + f"if B[{i}] > 0:" for i in range(66)) + "\n" + "    " * 66 + "B[0] = 1", "more than 64 deep"),
    "depth of a choice": ("E143", f"B[0] = {' '.join(f'{i} if bx else' for i in range(2500))} 0", "deeper here than the"),
    "next block": (
        "E139", "s = T.alloc_shared((4,), 'float32')\nT.clear(s)\n===\nB[0] = s[0]", "buffer s is used where it is not allocated",
    ),
    "hint of the next block": (
        "E142",
        "s = T.alloc_shared((4,), 'float32')\nT.clear(s)\n===\nT.annotate_layout({s: T.Layout((4,), lambda i: i)})", "names buffer s",
    ),
}  # fmt: skip
HEADS = {
    "product of sizes": ("E141", 'A: T.Tensor((T.dynamic("m") * T.dynamic("n"),), "float32")', "1", "size m does not follow"),
    "grid of data": ("E141", 'B: T.Tensor((64,), "int32")', "B[0]", "an extent of the grid reads a tensor"),
}
TENSORS = 'A: T.Tensor((64, 64), "float32"), B: T.Tensor((64,), "float32")'


def refusal(tmp_path: Path, parameters: str, grid: str, *bodies: str) -> ZelligeError:
    lines = ["import zellige.language as T", "@T.prim_func", f"def kernel({parameters}):"]
    for body in bodies:
        lines += [f"    with T.Kernel({grid}, threads=64) as bx:", *(f"        {line}" for line in body.splitlines())]
    program = tmp_path / "program.py"
    program.write_text("\n".join(lines) + "\n")
    with pytest.raises(CompileError) as caught:
        runpy.run_path(str(program))
    return caught.value


def check(error: ZelligeError, code: str, message: str) -> None:
    text = str(error)
    assert error.code == code, text
    assert message in text and "^" in text and "hint: " in text, text
    assert "invariant" not in text


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_breaks_a_rule(name: str, tmp_path: Path) -> None:
    code, body, message = BODIES[name]
    check(refusal(tmp_path, TENSORS, "4", *body.split("\n===\n")), code, message)


@pytest.mark.parametrize("name", HEADS)
def test_a_head_that_breaks_a_rule(name: str, tmp_path: Path) -> None:
    code, parameters, grid, message = HEADS[name]
    check(refusal(tmp_path, parameters, grid, "pass"), code, message)


def test_extents_that_disagree_once_they_are_numbers() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(4) as bx:
            T.copy(A[0 : bx % 1 + 4], B[0 : bx % 1 + 5])

    with pytest.raises(CompileError) as caught:
        zl.compile(kernel, target="cpu").get_kernel_source()
    check(caught.value, "E147", "T.copy between")


def test_every_code_of_a_rule_is_triggered_here() -> None:
    tried = {code for code, *_ in (*BODIES.values(), *HEADS.values())} | {"E147"}
    assert tried == {code.id for code in AUTHORS_CODE.values()}


def test_any_other_invariant_is_a_bug_of_the_compiler() -> None:
    for invariant in set(CODE_OF) - set(AUTHORS_CODE):
        found = replace(CODE_OF[invariant].diagnose(None, detail="x", invariant=invariant), invariant=invariant)
        with pytest.raises(InternalError, match="front end made a kernel"):
            for_author([found])


def test_only_the_verifier_s_own_codes_speak_of_invariants() -> None:
    speaking = {code.id for code in catalogue.CODES.values() if "invariant" in code.template + code.hint}
    assert speaking == {code.id for code in CODE_OF.values()}


def test_alternatives_do_not_nest(tmp_path: Path) -> None:
    """A chain of ``elif`` may be longer than Python's own limit of nested calls allows each to be a nested statement."""
    chain = "".join(f"        elif A[bx] == {i}:\n            A[bx] = {i + 1}\n" for i in range(1, 600))
    head = "import zellige.language as T\n@T.prim_func\ndef kernel(A: T.Tensor((4,), 'int32')):\n    with T.Kernel(4) as bx:\n"
    program = tmp_path / "program.py"
    program.write_text(f"{head}        if A[bx] == 0:\n            A[bx] = 1\n{chain}")
    kernel = runpy.run_path(str(program))["kernel"].kernel
    assert sum(isinstance(statement, If) for statement in walk(kernel)) == 600
