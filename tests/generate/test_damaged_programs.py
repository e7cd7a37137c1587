"""Whatever the compiler is given, it compiles or refuses with a code: no other exception, no internal error, no death of the process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from zellige.generate import Program, RandomChoices, generate_seeded
from zellige.generate.choices import Picker
from zellige.generate.damage import damaged_kernel, damaged_text
from zellige.generate.isolation import isolated
from zellige.generate.sources import SOURCES
from zellige.generate.survival import SORTS, input_of, survey, try_seed
from zellige.ir.printer import print_kernel
from zellige.ir.stmt import Bind, Copy, Fill
from zellige.ir.traverse import rebuilt, rewrite, same_structure, walk
from zellige.ir.verify import verify


def describe(breaks: list[object]) -> str:
    return "\n\n".join(f"seed {b.seed} ({b.sort}): {b.what}\n{b.text[:3000]}" for b in breaks)  # type: ignore[attr-defined]


def test_hundreds_of_inputs_are_survived() -> None:
    words, breaks = survey(0, 240, None)
    assert breaks == [], describe(breaks)  # type: ignore[arg-type]
    assert sum(words.values()) == 240
    assert words["refused"] > 80
    assert words["compiled"] > 30


def test_and_a_few_of_them_by_the_cpu() -> None:
    words, breaks = survey(2000, 60, "cpu")
    assert breaks == [], describe(breaks)  # type: ignore[arg-type]
    assert words["compiled"] > 8


def test_indices_of_indices_come_to_an_end() -> None:
    """In this program tiles of many dimensions were indexed by each other's elements without end."""
    ending = isolated(lambda: len(input_of(12671)[1]), seconds=60)
    assert ending.failure == "" and ending.value


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 15_000, 250))
def test_five_thousand_inputs_are_survived(first: int) -> None:
    """In slices, which run beside each other and one at a time: ``pytest -m slow -n auto tests/generate -k 13250``."""
    _, breaks = survey(first, 250, "cpu")
    assert breaks == [], describe(breaks)  # type: ignore[arg-type]


def test_every_sort_of_input_occurs() -> None:
    assert set(Counter(input_of(seed)[0] for seed in range(60))) == {sort for _, sort in SORTS}


def test_damage_changes_the_kernel_and_repeats() -> None:
    kernel = generate_seeded(4).kernel
    found = [damaged_kernel(Picker(RandomChoices(seed)), kernel) for seed in range(40)]
    changed = [other for other in found if other is not None and not same_structure(other, kernel)]
    assert len(changed) > 20
    text = print_kernel(kernel)
    texts = [damaged_text(Picker(RandomChoices(seed)), text) for seed in range(40)]
    assert len(set(texts)) > 35
    assert damaged_text(Picker(RandomChoices(7)), text) == texts[7]


@pytest.mark.parametrize("source", SOURCES)
def test_the_kernels_to_be_damaged_are_sound(source: str) -> None:
    """Undamaged they compile: what is refused later is the damage."""
    from zellige.generate.survival import _trace

    _trace(source, 0, "interp")


def test_what_breaks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from zellige.generate import survival

    seed = next(seed for seed in range(100) if input_of(seed)[0] == "valid")
    monkeypatch.setattr(survival, "check", lambda kernel: 1 // 0)
    word, broken = try_seed(seed, None)
    assert word == "broke"
    assert broken is not None
    assert broken.what.startswith("ZeroDivisionError")
    assert broken.text.startswith("# tile-ir")


def test_a_node_of_another_sort_is_refused(program_of: Callable[..., Program]) -> None:
    """A constant where a variable belongs, a region where an expression does, an expression where a region does."""
    text = (
        "def k(C: tensor((4,), float32)):\n    with launch(1) as (bx,):\n        x: float32 = 1.0\n"
        '        t = alloc((4,), float32, "shared")\n'
        "        fill(t[:], x)\n        copy(t[:], C[:])"
    )
    kernel = program_of(text, np.zeros(4, np.float32)).kernel
    bind, fill, copy = (next(n for n in walk(kernel) if isinstance(n, kind)) for kind in (Bind, Fill, Copy))
    for old, new, message in (
        (bind, rebuilt(bind, var=bind.value), "var of bind is not a variable"),
        (fill, rebuilt(fill, value=fill.dst), "value of fill is not an expression"),
        (copy, rebuilt(copy, src=bind.value), "src of copy is not a region"),
    ):
        found = verify(rewrite(kernel, lambda node, old=old, new=new: new if node is old else node))
        assert (found[0].code, message in found[0].message) == ("E279", True), found[0].message
