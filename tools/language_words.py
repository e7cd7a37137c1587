"""Writes core/zellige/plugin/words.py: the names that the kernel language has, which no backend may claim.

``python tools/language_words.py``. In: the installed package. Out: the file; a test compares the two. The plugin machinery reads this list,
since it may not import the language: what it imports belongs to the keys of caches, and the language does not.
"""

from __future__ import annotations

import pkgutil
import textwrap
from pathlib import Path

import zellige.language

FILE = Path(__file__).parents[1] / "core" / "zellige" / "plugin" / "words.py"

HEAD = '''"""The names that the kernel language has: a backend's dialect cannot have one of them, since nobody would ever reach it.

In: nothing. Out: :func:`is_word`. Written by ``python tools/language_words.py``; a test holds it to the language.
"""

from __future__ import annotations

from typing import Final

from zellige.dtypes import UnknownDType, dtype

_LIST: Final = """
'''

TAIL = '''
"""

WORDS: Final = frozenset(_LIST.split())


def is_word(name: str) -> bool:
    """Whether the language itself has ``T.<name>``: one of its names, or a type of elements such as ``float32x4``."""
    if name in WORDS:
        return True
    try:
        dtype(name)
    except UnknownDType:
        return False
    return True
'''


def words() -> list[str]:
    """Every name of the language but those that begin with an underscore: its modules, which appear in it when they are loaded, its own,
    and those that are made when they are asked for."""
    language = zellige.language
    modules = {module.name for module in pkgutil.iter_modules(language.__path__)}
    own = {name for name in vars(language) if not name.startswith("_") or name in ("__ffs", "__fns", "__ldg")}
    return sorted(name for name in modules | own | set(language._DTYPE_ALIASES) | set(language._NOT_YET) if "." not in name)


def text() -> str:
    """The file."""
    return HEAD + textwrap.fill(" ".join(words()), 140, break_on_hyphens=False) + TAIL


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
