"""What the verifier found in a kernel that a program made, said to the program's author.

In: diagnostics of the verifier. Out: diagnostics of the front end for the rules that a program can break, in the words of the language and
without the numbers of invariants, which belong to hand-written tile IR. The front end keeps all other invariants by itself: one of
them broken in a traced kernel is a bug of the compiler.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from zellige.diagnostics import Diagnostic, InternalError, catalogue
from zellige.diagnostics.error import Code

AUTHORS_CODE: Final[dict[int, Code]] = {
    1: catalogue.E139,
    4: catalogue.E140, 11: catalogue.E140, 22: catalogue.E140,
    14: catalogue.E141, 16: catalogue.E141,
    19: catalogue.E147,
    23: catalogue.E142,
    25: catalogue.E143,
    26: catalogue.E144,
    28: catalogue.E145, 29: catalogue.E148,
    30: catalogue.E146,
}  # fmt: skip
"""The front end's code for each invariant that a program can break."""


def for_author(diagnostics: list[Diagnostic]) -> list[Diagnostic]:
    """The diagnostics of the verifier as the front end reports them. Raises InternalError where one is no mistake of a program."""
    foreign = [d for d in diagnostics if d.invariant not in AUTHORS_CODE]
    if foreign:
        details = "\n".join(d.render() for d in foreign)
        raise InternalError(f"the front end made a kernel that is not well formed:\n{details}")
    found = []
    for diagnostic in diagnostics:
        code = AUTHORS_CODE[diagnostic.invariant]
        detail = diagnostic.message.removesuffix(f" (invariant {diagnostic.invariant})")
        found.append(replace(code.diagnose(diagnostic.span, detail=detail), notes=diagnostic.notes))
    return found
