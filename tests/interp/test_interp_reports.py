"""Races, undefined reads and accesses out of bounds, as the interpreter reports them."""

from __future__ import annotations

import numpy as np
import pytest

from zellige.interp import Report

RACES = Report(undefined=False, bounds=False)
UNDEFINED = Report(races=False, bounds=False)
BOUNDS = Report(races=False, undefined=False)


def codes_and_lines(result) -> list[tuple[str, int]]:
    return [(finding.code, finding.span.line) for finding in result.findings]


A8, B8 = "A: tensor((8,), int32)", "A: tensor((8,), int32), B: tensor((8,), int32)"


def ints(n: int = 8) -> np.ndarray:
    return np.arange(n, dtype=np.int32)


# ---- races ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("for i in parallel(7):\n    A[i + 1] = A[i]", 7),
        ("for i in parallel(8):\n    A[i // 2] = i", 7),
        ("for i in parallel(8):\n    A[0] = 5", 7),
        ("for i in parallel(4):\n    A[i] = 1\n    A[4 + i] = A[3 - i]", 7),
        ("for i in parallel(4):\n    x: int32 = A[3 - i]\n    A[i] = x", 8),
        ('for i in parallel(4):\n    atomic("add", A[0], 1)\n    A[1 + i] = A[0]', 7),
        ("for i, j in parallel(2, 4):\n    if j == 1:\n        A[j] = i", 8),
        ("for i in parallel(8):\n    A[i] = A[7 - i] if i > 3 else 0", 7),
    ],
)
def test_races_are_found(body, line, run_block):
    result = run_block(A8, body, ints(), report=RACES)
    assert codes_and_lines(result)[0] == ("E296", line)
    assert result.findings[0].severity == "warning" and "T.Parallel" in result.findings[0].message


@pytest.mark.parametrize(
    "body",
    [
        "for i in parallel(8):\n    A[i] = A[i] * 2",
        "for i in parallel(4):\n    A[2 * i] = A[2 * i + 1]",
        'for i in parallel(8):\n    atomic("add", A[0], i)',
        "for i in parallel(8):\n    A[i] = A[7 - i] if i < 0 else 0",
        "for i in parallel(8):\n    if i == 3:\n        A[0] = i",
        "for i in serial(7):\n    A[i + 1] = A[i]",
        "for i in parallel(8):\n    A[i] = 1\nfor i in parallel(8):\n    A[7 - i] = A[7 - i] + 1",
        'R = alloc((1,), int32, "fragment")\nreducer_init("sum", R)\n'
        'for i in parallel(8):\n    reducer_update("sum", R[0], i)\nreducer_finalize(R)',
        'L = alloc((1,), int32, "local")\nfor i in parallel(8):\n    L[0] = i\n    A[i] = L[0]',
        "for i in parallel(8):\n    A[i + 8] = A[0]",
    ],
)
def test_what_is_no_race(body, run_block):
    assert run_block(A8, body, ints(), report=RACES).findings == ()


def test_a_race_names_both_accesses(run_block):
    body = "for i in parallel(4):\n    A[i] = 1\n    B[i] = A[(i + 1) % 4]"
    (finding,) = run_block(B8, body, ints(), ints(), report=RACES).findings
    assert finding.span.line == 7 and finding.notes[0].span.line == 8
    assert "A[0]" in finding.message and "points 0 and 3" in finding.message and "4 times" in finding.message


def test_races_through_views_of_another_width(run_block):
    body = """
        V = view(A, (16,), int16)
        for i in parallel(8):
            V[2 * i + 1] = int16(3)
            A[7 - i] = 1
    """
    (finding,) = run_block(A8, body, ints(), report=RACES).findings
    assert finding.code == "E296" and finding.notes
    body = """
        V = view(A, (32,), int8)
        for i in parallel(16):
            V[i] = int8(1)
            V[16 + i] = V[i]
    """
    assert run_block(A8, body, ints(), report=RACES).findings == ()
    body = """
        V = view(A, (32,), int8)
        for i in parallel(8):
            V[4 * i] = int8(1)
            V[4 * i + 3] = cast(A[i], int8)
    """
    assert run_block(A8, body, ints(), report=RACES).findings == ()


def test_races_are_found_across_chunks(run_block, monkeypatch):
    monkeypatch.setattr("zellige.interp.statements.MAXIMUM_POINTS", 3)
    (finding,) = run_block(A8, "for i in parallel(8):\n    A[i % 4] = i", ints(), report=RACES).findings
    assert "points 0 and 4" in finding.message


# ---- races between blocks ------------------------------------------------------------------------------------------------------------


BLOCKS = "launch(4) as (bx,)"


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("A[0] = A[0] + B[bx]", 6),
        ("A[bx // 2] = bx", 6),
        ("A[bx] = A[bx + 1]", 6),
        ("F = alloc((8,), int32, \"fragment\")\ncopy(B[0:+8], F[:])\nfill(F[:], bx)\ncopy(F[:], B[0:+8])", 7),
        ("A[0] = bx\nif bx == 3:\n    B[1] = A[0]", 6),
        ('atomic("add", A[0], 1)\nB[bx] = A[0]', 6),
        ("for i in parallel(2):\n    A[bx + i] = bx", 7),
    ],
)
def test_races_between_blocks_are_found(body, line, run_block):
    result = run_block(B8, body, ints(), ints(), launch=BLOCKS, report=RACES)
    assert codes_and_lines(result)[0] == ("E296", line)
    assert "blocks run in any order" in result.findings[0].message


def test_a_part_of_an_element_counts(run_block):
    body = "W = view(A, (32,), int8)\nif bx == 0:\n    W[5] = cast(77, int8)\nif bx == 2:\n    B[0] = A[1]"
    findings = run_block(B8, body, ints(), ints(), launch=BLOCKS, report=RACES).findings
    assert [(f.code, f.span.line) for f in findings] == [("E296", 10)]


def test_both_places_and_the_element_are_told(run_block):
    body = "if bx == 0:\n    A[5] = 77\nif bx == 2:\n    B[0] = A[5]"
    (finding,) = run_block(B8, body, ints(), ints(), launch=BLOCKS, report=RACES).findings
    assert finding.message == "A[5] is touched by block (2), which reads it, and block (0); blocks run in any order (once)"
    assert finding.span.line == 9 and [note.span.line for note in finding.notes] == [7]


@pytest.mark.parametrize(
    "body",
    [
        "A[bx] = B[bx]",
        "A[2 * bx] = A[2 * bx + 1]",
        "A[0] = 5",
        'atomic("add", A[0], bx)',
        "B[bx] = A[0]",
        'S = alloc((4,), int32, "shared")\nS[0] = bx\nA[bx] = S[0]',
        'x: int32 = atomic("add", A[0], 1)\nif x == 3:\n    B[0] = B[1]\nelse:\n    B[1] = bx',
        "A[bx] = A[bx + 1] if bx > 3 else 0",
        "for i in parallel(8):\n    if i // 2 == bx:\n        A[i] = A[i] + 1",
    ],
)
def test_blocks_that_do_not_race(body, run_block):
    assert run_block(B8, body, ints(), ints(), launch=BLOCKS, report=RACES).findings == ()


# ---- undefined elements --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("for i in parallel(8):\n    A[i] = S[i]", 8),
        ("S[0] = 1\nA[1] = S[0] + S[1]", 8),
        ('reduce("sum", S[0:+8], A[0:+1], axis=0)', 7),
        ("fill(S[0:+7], 1)\ncopy(S[0:+8], A[0:+8])", 8),
        ("copy(S[0:+8], R[0:+8])\nA[0] = R[3]", 8),
        ('atomic("add", S[2], 1)', 7),
        ('scan("sum", S[0:+8], R[0:+8], axis=0)', 7),
        ('print("s", region=S[0:+2])', 7),
        ("if S[4] == 2:\n    A[0] = 1", 7),
        ("for i in parallel(8):\n    S[i] = 1\n    R[i] = 0\nfor i in parallel(8):\n    A[i] = L[i] if i == 2 else 1", 11),
    ],
)
def test_undefined_reads_are_found(body, line, run_block):
    head = 'S = alloc((8,), int32, "shared")\nR = alloc((8,), int32, "shared")\nL = alloc((8,), int32, "local")\n'
    result = run_block(A8, head + body, ints(), report=UNDEFINED)
    assert codes_and_lines(result)[:1] == [("E297", line + 2)]


@pytest.mark.parametrize(
    "body",
    [
        "for i in parallel(8):\n    S[i] = i\ncopy(S[0:+8], A[0:+8])",
        "fill(S[0:+4], 1)\ncopy(S[0:+4], A[0:+4])\nA[5] = S[9]",
        "copy(S[0:+8], R[0:+8])\nfill(R[0:+8], 0)\ncopy(R[0:+8], A[0:+8])",
        "fill(S[0:+4], 1)\ncopy(S[0:+8], A[4:+8])",
        'atomic("store", S[2], 1)\nA[0] = S[2]',
        'reduce("sum", A[0:+8], S[0:+1], axis=0)\nA[0] = S[0]',
        "for i in parallel(8):\n    A[i] = S[i] if i > 8 else 2",
        'reducer_init("sum", S)\nreducer_update("sum", S[0], 2)\nreducer_finalize(S)\nA[0] = S[0] + S[7]',
        "for i in parallel(8):\n    L[i] = i\nfor i in parallel(8):\n    A[i] = L[i]",
    ],
)
def test_what_is_defined(body, run_block):
    head = 'S = alloc((8,), int32, "shared")\nR = alloc((8,), int32, "shared")\nL = alloc((8,), int32, "local")\n'
    assert run_block(A8, head + body, ints(), report=UNDEFINED).findings == ()


def test_what_several_points_wrote_is_undefined(run_block):
    body = """
        L = alloc((2,), int32, "local")
        v: mutable(int32) = 1
        w: mutable(int32) = 2
        for i in parallel(4):
            L[0] = i
            v = i
            if i == 3:
                L[1] = i
                w = i
        A[0] = L[1] + w
        A[1] = L[0]
        A[2] = v
        v = 5
        A[3] = v
    """
    a = ints()
    result = run_block(A8, body, a, report=UNDEFINED)
    assert codes_and_lines(result) == [("E297", 16), ("E297", 17)]
    assert "L[0]" in result.findings[0].message and "v" in result.findings[1].message
    assert a[0] == 6 and a[3] == 5


def test_lanes_report_their_own_elements(run_block):
    body = 'L = alloc((4,), int32, "local")\nif tx < 5:\n    L[1] = tx\nA[tx] = L[1]'
    launch = "launch(1, threads=(8,)) as (bx,), lanes() as (tx,)"
    (finding,) = run_block(A8, body, ints(), launch=launch, report=UNDEFINED).findings
    assert "L[1]" in finding.message and "3 times" in finding.message


def test_outputs_that_no_block_writes(run_text):
    text = 'def k(C: tensor((4, 6), float32, role="output")) -> (C,):\n    with launch(2) as (bx,):\n        fill(C[bx * 2:+2, 0:+5], 1.0)'
    result = run_text(text, report=Report())
    (finding,) = result.findings
    assert finding.code == "E299" and "C[0, 5]" in finding.message and "4 elements of the output C" in finding.message
    assert np.isnan(result.results[0][:, 5]).all() and (result.results[0][:, :5] == 1).all()


# ---- bounds --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "line", "where"),
    [
        ("for i in parallel(8):\n    B[i] = A[i + 1]", 7, "A[8]"),
        ("A[-1] = 0", 6, "A[-1]"),
        ("copy(A[4:+8], B[0:+8])", 6, "4:12 in dimension 0 of A"),
        ("copy(A[0:+8], B[-2:+8])", 6, "-2:6 in dimension 0 of B"),
        ("fill(A[0:+9], 1)", 6, "0:9"),
        ('atomic("add", A[9], 1)', 6, "A[9]"),
        ("for i in parallel(8):\n    if i > 2:\n        A[i * 2] = 1", 8, "A[8]"),
        ("for i in serial(3):\n    A[i * 5] = 1", 7, "A[10]"),
    ],
)
def test_accesses_out_of_bounds_are_found(body, line, where, run_block):
    result = run_block(B8, body, ints(), ints(), report=BOUNDS)
    assert codes_and_lines(result) == [("E298", line)]
    assert where in result.findings[0].message and "(8)" in result.findings[0].message


def test_a_value_with_two_uses_counts_for_both(run_block):
    body = "for i in parallel(8):\n    e = let(A[i + 1])\n    B[i] = (e if i < 3 else 0) + e"
    (finding,) = run_block(B8, body, ints(), ints(), report=BOUNDS).findings
    assert "A[8]" in finding.message and "once" in finding.message


@pytest.mark.parametrize(
    "body",
    [
        "for i in parallel(20):\n    if i < 8:\n        A[i] = B[7 - i]",
        "for i in parallel(20):\n    A[i % 8] = B[i] if i < 8 else 0",
        "copy(A[3:+5], B[0:+5])",
        "for i in parallel(0):\n    A[99] = 1",
    ],
)
def test_what_is_in_bounds(body, run_block):
    assert run_block(B8, body, ints(), ints(), report=BOUNDS).findings == ()


def test_one_finding_a_statement_with_a_count(run_block):
    (finding,) = run_block(A8, "for i in serial(5):\n    for j in parallel(4):\n        A[i * 4 + j] = 1", ints(), report=BOUNDS).findings
    assert "12 times" in finding.message and "A[8]" in finding.message
    assert "E298" in finding.render() and "hint:" in finding.render()
