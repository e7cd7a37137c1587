"""What is said of lanes holds in every lane: all small programs of a kind are run, and each claim is held against what the lanes have.

A program is a source of what tells lanes apart (or of what does not), a carrier that takes it on, a control that it stands in and a use of
the carrier; the observer of :mod:`zellige.generate.lane_claims` looks at every statement as the interpreter comes by.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator

import numpy as np
import pytest

from zellige.generate import generate_seeded
from zellige.generate.lane_claims import LaneClaims
from zellige.interp import interpret
from zellige.ir import lanes
from zellige.ir.lanes import LaneDependence
from zellige.ir.parser import parse_kernel
from zellige.ir.stmt import If, Kernel
from zellige.ir.verify import verify

HEAD = """\
# tile-ir 1.0
def k(A: tensor((64,), int32), B: tensor((64,), int32), n: scalar(int32), C: tensor((8, 2, 96), int32)):
    with launch(2, threads={threads}) as (bx,), lanes() as {lanes}:
        S = alloc((96,), int32, "shared")
        L = alloc((4,), int32, "local")
        W = alloc((4,), int32, "local")
        R = alloc((4,), int32, "var")
        x: mutable(int32) = 1
        c: mutable(int32) = 0
        d: mutable(int32) = 0
        fill(S[:], 2)
        fill(L[:], 3)
        fill(W[:], 4)
        fill(R[:], 5)
        barrier("block")
"""

THREADS = {
    "(32,)": "(tx,)", "(1,)": "(tx,)", "(2,)": "(tx,)", "(48,)": "(tx,)", "(64,)": "(tx,)", "(96,)": "(tx,)", "(8, 4,)": "(tx, ty,)",
    "(1, 3,)": "(tx, ty,)",
}  # fmt: skip

SOURCES = (
    "tx", "tx // 32", "tx % 2", "A[tx]", "A[A[tx] % 64]", "L[tx % 4]", "S[tx]", "s", "vw", "vc", "za", "(1 if tx < 3 else 2)", "min(tx, n)",
    "cast(cast(tx, int64), int32)", "(tx - tx)", "n", "bx", "A[n]", "S[n]", "L[n]", "vb", "7",
)  # fmt: skip
"""Numbers that lanes may differ in, then numbers that they share."""

BEFORE = {
    "s": 's: int32 = shuffle("xor", {0}, 1, width=2)',
    "vw": 'bw: bool = vote("any", "warp", tx == 33)\nvw: int32 = cast(bw, int32)',
    "vc": 'bc: uint32 = vote("ballot", "warp", n < 99)\nvc: int32 = cast(bc, int32)',
    "vb": 'bb: bool = vote("any", "block", tx == 33)\nvb: int32 = cast(bb, int32)',
    "za": 'za: int32 = atomic("add", B[0], 1)',
}

CARRIERS = {
    "assign": ("x = {0}", "x"),
    "add": ("x = x + {0}", "x"),
    "bind": ("y: int32 = {0}\nx = y", "x"),
    "store": ("L[1] = {0}", "L[1]"),
    "place": ("L[({0}) % 4] = 9", "L[2]"),
    "var": ("R[0] = {0}", "R[0]"),
    "atomic": ('atomic("add", L[1], {0})', "L[1]"),
    "atomic place": ('atomic("add", L[({0}) % 4], 1)', "L[0]"),
    "atomic result": ('q: int32 = atomic("add", L[1], {0})\nx = q', "x"),
    "fill": ("fill(L[:], {0})", "L[3]"),
    "copy": ("copy(A[({0}) % 60:+4], L[:])", "L[0]"),
    "copy place": ("copy(A[0:+2], L[({0}) % 3:+2])", "L[1]"),
    "copy of tile": ("copy(S[({0}) % 90:+4], L[:])", "L[0]"),
    "through": ("W[0] = {0}\ncopy(W[:], L[:])", "L[0]"),
    "atomic tile": ('W[0] = {0}\natomic_tile("add", W[:], L[:])', "L[0]"),
    "reduce": ('W[0] = {0}\nreduce("sum", W[:], L[0:+1], axis=0)', "L[0]"),
    "scan": ('W[0] = {0}\nscan("sum", W[:], L[:], axis=0)', "L[3]"),
    "map": ("for i in parallel(4):\n    L[i] = {0} + i", "L[1]"),
    "map assign": ("for i in parallel(1):\n    x = {0}", "x"),
    "map atomic": ('for i in parallel(4):\n    atomic("add", L[i], {0})', "L[1]"),
    "view": ("V = view(L, (2, 2,), int32)\nV[0, 1] = {0}", "L[1]"),
    "reinterpret": ("V = view(L, (4,), float32)\nV[1] = reinterpret({0}, float32)", "L[1]"),
    "trips": ("for i in serial(({0}) % 3):\n    x = x + 1", "x"),
    "start": ("for i in serial(({0}) % 3, 4):\n    x = i", "x"),
    "condition": ("if {0} < 2:\n    x = 5", "x"),
    "else": ("if {0} < 2:\n    L[0] = 1\nelse:\n    x = 5", "x"),
    "while": ("d = 0\nwhile d < ({0}) % 3:\n    d = d + 1", "d"),
    "break": ("for i in serial(3):\n    x = x + i\n    if {0} < 2:\n        break", "x"),
    "break before": ("for i in serial(3):\n    if {0} < i:\n        break\n    x = x + i", "x"),
    "continue": ("for i in serial(3):\n    if {0} < i:\n        continue\n    x = x + i", "x"),
    "nested break": ("for i in serial(3):\n    if n < 99:\n        if {0} < i:\n            break\n    L[1] = i", "L[1]"),
    "select": ("x = 4 if {0} < 2 else 6", "x"),
    "loop carried": ("y: mutable(int32) = 0\nfor i in serial(3):\n    x = y\n    y = {0}", "x"),
    "unrolled": ("for i in unrolled(2):\n    L[i] = {0} + i", "L[1]"),
    "shuffle": ('z: int32 = shuffle("down", {0}, 1, width=4)\nx = z', "x"),
    "shuffle operand": ('z: int32 = shuffle("xor", x, ({0}) % 2, width=4)\nx = z', "x"),
    "warp vote": ('z: bool = vote("all", "warp", {0} < 2)\nx = cast(z, int32)', "x"),
    "warp count": ('z: int32 = vote("count", "warp", {0} < 2)\nx = z', "x"),
    "block vote": ('z: int32 = vote("count", "block", {0} < 2)\nx = z', "x"),
}
"""Statements by which a number gets into a variable or an array, and where it is then."""

CONTROLS = (
    "{0}",
    "if n < 99:\n    {1}",
    "if tx < 3:\n    {1}",
    "if tx < 3:\n    L[0] = 1\nelse:\n    {1}",
    "for j in serial(2):\n    {1}",
    "for j in serial(tx % 3):\n    {1}",
    "for j in serial(3):\n    {1}\n    if tx < j:\n        break",
    "for j in serial(3):\n    if tx < j:\n        continue\n    {1}",
    "for j in serial(3):\n    if n < j:\n        break\n    {1}",
    "while c < 2:\n    c = c + 1\n    {1}",
    "while c < tx % 3:\n    c = c + 1\n    {1}",
    "if tx < 3:\n    return\n{0}",
    "if n > 99:\n    return\n{0}",
)

USES = (
    "S[0] = {0}",
    "S[({0}) % 96] = 1",
    "fill(S[0:+2], {0})",
    "copy(A[({0}) % 60:+4], S[0:+4])",
    "for m in parallel(4):\n    S[m] = {0}",
    "C[0, bx, tx] = {0}",
    "if {0} < 3:\n    S[1] = 4",
    "while {0} > 3:\n    S[1] = 4\n    break",
)


def kernel_of(threads: str, source: str, carrier: str, control: str, uses: tuple[str, ...]) -> Kernel:
    statements, carried = CARRIERS[carrier]
    body = statements.format(source)
    inner = control.format(body, textwrap.indent(body, "    ").strip())
    before = BEFORE.get(source, "").format("tx")
    text = "\n".join(part for part in (before, inner, *(use.format(carried) for use in uses)) if part)
    head = HEAD.format(threads=threads, lanes=THREADS[threads])
    return parse_kernel(head + textwrap.indent(text, " " * 8) + "\n")


def broken_claims(kernel: Kernel) -> tuple[list[str], int]:
    """The claims about the kernel's lanes that do not hold, and how many were looked at."""
    claims = LaneClaims()
    numbers = (np.arange(64) * 7 % 11).astype(np.int32)
    interpret(kernel, [numbers, numbers[::-1].copy(), 3, np.zeros((8, 2, 96), np.int32)], observer=claims)
    return list(claims.broken), claims.looked


def survey(kernels: Iterator[tuple[str, Kernel]]) -> list[str]:
    """What is wrong with the claims about the kernels; those with a statement of the block that some lanes do not reach are refused."""
    wrong, ran = [], 0
    for name, kernel in kernels:
        if verify(kernel):
            continue
        broken, looked = broken_claims(kernel)
        ran += looked > 0
        wrong += [f"{name}: {claim}" for claim in broken]
    assert ran
    return wrong


@pytest.mark.parametrize("carrier", CARRIERS)
def test_each_carrier_of_each_source(carrier: str) -> None:
    """The control, the use and the number of lanes change from program to program, so that each meets each carrier and each source."""
    at = list(CARRIERS).index(carrier) * len(SOURCES)

    def programs() -> Iterator[tuple[str, Kernel]]:
        for number, source in enumerate(SOURCES, start=at):
            if number % 3 == 0:
                continue  # the slow tier has all
            control, use = CONTROLS[number % len(CONTROLS)], USES[number % len(USES)]
            threads = list(THREADS)[number // 3 % len(THREADS)]
            yield f"{source} by {carrier} in {control!r}", kernel_of(threads, source, carrier, control, (use,))

    assert survey(programs()) == []


@pytest.mark.slow
@pytest.mark.parametrize("carrier", CARRIERS)
def test_each_carrier_of_each_source_in_each_control(carrier: str) -> None:
    counted = itertools.count()

    def programs() -> Iterator[tuple[str, Kernel]]:
        for source, control in itertools.product(SOURCES, CONTROLS):
            threads = list(THREADS)[next(counted) % len(THREADS)]
            for use in USES:  # each alone, since the block's operations may be refused of one
                yield f"{source} by {carrier} in {control!r}", kernel_of(threads, source, carrier, control, (use,))

    assert survey(programs()) == []


@pytest.mark.parametrize(
    ("claim", "answer"), [("differs", False), ("is_lane_dependent", False), ("is_repeated", True), ("is_private", False)]
)
def test_a_wrong_answer_is_seen(monkeypatch: pytest.MonkeyPatch, claim: str, answer: bool) -> None:
    """The observer itself: with an analysis that always gives one answer, some claims do not hold."""
    kernels = [kernel_of("(48,)", "tx", carrier, "{0}", USES[4:6]) for carrier in ("map", "bind")]
    assert [broken_claims(kernel)[0] for kernel in kernels] == [[], []]
    monkeypatch.setattr(LaneDependence, claim, lambda self, *of: answer)
    assert any(broken_claims(kernel)[0] for kernel in kernels)


@pytest.mark.parametrize("missing", ["Break", "Vote", "Atomic", "If"])
def test_an_analysis_that_forgets_a_statement_is_seen(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """Faults of the sort that there were: what a kind of statement does to those behind it is left out."""
    carrier = {"Break": "break", "Vote": "warp count", "Atomic": "atomic", "If": "condition"}[missing]
    kernel = kernel_of("(48,)", "tx", carrier, "{0}", USES[:1])
    assert broken_claims(kernel)[0] == []
    if missing == "If":
        nested = lanes._nested
        monkeypatch.setattr(lanes, "_nested", lambda graph, s, top: nested(lanes._Graph() if isinstance(s, If) else graph, s, top))
    else:
        effects = lanes._effects
        monkeypatch.setattr(lanes, "_effects", lambda graph, s, top: None if type(s).__name__ == missing else effects(graph, s, top))
    assert broken_claims(kernel)[0]


def test_claims_about_generated_programs() -> None:
    wrong = []
    for seed in range(16):
        program = generate_seeded(seed, flavour="lane-values")
        assert verify(program.kernel) == []
        claims = LaneClaims()
        interpret(program.kernel, program.copies(), observer=claims)
        wrong += [f"{seed}: {claim}" for claim in claims.broken]
        assert claims.looked
    assert wrong == []
