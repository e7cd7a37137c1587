"""Did-you-mean: the nearest of the names that exist, for every place where somebody types a name.

In: what was written and the names that could have been. Out: the nearest name, or nothing where none is near. Letters of either case, and
what stands between words, count for nothing: ``blockM`` is ``block_M`` misspelt, ``v90`` is ``v_90``. Of equally near names the first in
the alphabet is taken, so that the answer does not depend on the order of a set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

_NEAR: Final = 0.65
"""The least similarity (of 1, :class:`difflib.SequenceMatcher`) at which a name may have been meant."""


SYNONYMS: Final[Mapping[str, str]] = {
    "acc": "C",
    "axes": "dim",
    "axis": "dim",
    "block_size": "threads",
    "fill_value": "value",
    "num_threads": "threads",
    "num_warps": "threads",
    "pipeline_stages": "num_stages",
    "size": "shape",
    "stages": "num_stages",
    "type": "dtype",
}
"""What an argument is called elsewhere, and what one with that meaning is called here: meant where an argument has that name."""

_OTHER_UNIT: Final[Mapping[str, str]] = {"num_warps": ", which counts threads instead of groups of them"}
"""Of these the number is another here too."""


def nearest(name: object, known: Iterable[object]) -> str | None:
    """The name among ``known`` that ``name`` resembles most; None where it resembles none, or is no text."""
    if not isinstance(name, str) or not _bare(name):
        return None
    known = tuple(known)
    if len(name) == 1:  # nearly every short name holds a letter
        return next((text for text in known if isinstance(text, str) and text != name and text.lower() == name.lower()), None)
    import difflib  # only a mistake pays for it

    bare = difflib.SequenceMatcher(b=_bare(name))
    written = difflib.SequenceMatcher(b=name)
    best: tuple[float, float, str] | None = None
    for candidate in sorted({text for text in known if isinstance(text, str) and not text.startswith("__")}):
        bare.set_seq1(_bare(candidate))
        if bare.real_quick_ratio() < _NEAR or bare.quick_ratio() < _NEAR:
            continue
        written.set_seq1(candidate)
        rank = (bare.ratio(), written.ratio(), candidate)
        if rank[0] >= _NEAR and (best is None or rank[:2] > best[:2]):
            best = rank
    return None if best is None else best[2]


def closest(name: object, known: Iterable[object], form: str = "{!r}") -> str:
    """``"; did you mean 'X'?"`` for the nearest known name, or nothing. ``form`` is how the name is shown."""
    found = nearest(name, known)
    return "" if found is None else f"; did you mean {form.format(found)}?"


def closest_argument(name: object, known: Iterable[object]) -> str:
    """The same for the name of an argument, which may be called otherwise elsewhere."""
    known = tuple(known)
    meant = SYNONYMS.get(name) if isinstance(name, str) else None
    return f"; did you mean {meant!r}{_OTHER_UNIT.get(str(name), '')}?" if meant in known else closest(name, known)


def _bare(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())
