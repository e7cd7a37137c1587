"""Writes core/zellige/plugin/words.py: names of the kernel language, of compiled kernels and of configuration, which no backend may claim.

``python tools/language_words.py``. In: the installed package. Out: the file; a test compares the two. The plugin machinery reads this list,
since it may not import the language, kernels or configuration: what it imports belongs to the keys of caches, and these do not.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
import textwrap
from pathlib import Path

import zellige as zl
import zellige.kernel
import zellige.language as T
from zellige.pass_configs import OPTION_KEYS

FILE = Path(__file__).parents[1] / "core" / "zellige" / "plugin" / "words.py"

HEAD = '''"""Names that a backend cannot have for its own, since nobody would ever reach it: those of the kernel language, the attributes of
every compiled kernel, and the keys of configuration that are options of every compilation.

In: nothing. Out: :func:`is_word`, :data:`OF_KERNELS`, :data:`OPTIONS`. Written by ``python tools/language_words.py``; a test holds it to
the language.
"""

from __future__ import annotations

from typing import Final

from zellige.dtypes import UnknownDType, dtype

_LIST: Final = """
'''

MIDDLE = '''
"""

WORDS: Final = frozenset(_LIST.split())

_LIST_OF_KERNELS: Final = """
'''

TAIL = '''
"""

OF_KERNELS: Final = frozenset(_LIST_OF_KERNELS.split())
"""Attributes of every compiled kernel, but those that ask its backend."""

OPTIONS: Final = {options}
"""Keys that are options of every compilation, and what ``acts_on`` calls them."""


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
    language = T
    modules = {module.name for module in pkgutil.iter_modules(language.__path__)}
    own = {name for name in vars(language) if not name.startswith("_") or name in ("__ffs", "__fns", "__ldg")}
    return sorted(name for name in modules | own | set(language._DTYPE_ALIASES) | set(language._NOT_YET) if "." not in name)


@T.prim_func
def smallest(A: T.Tensor((1,), "int32")):
    with T.Kernel(1):
        A[0] = 0


def of_kernels() -> list[str]:
    """What a compiled kernel has whatever its target is, but what it asks its backend for."""
    asked = set(re.findall(r'self\._reported\("(\w+)"', inspect.getsource(zellige.kernel)))
    return sorted(name for name in dir(zl.compile(smallest, target="interp")) if not name.startswith("_") and name not in asked)


def text() -> str:
    """The file."""
    lists = [textwrap.fill(" ".join(names()), 140, break_on_hyphens=False) for names in (words, of_kernels)]
    options = "".join(f'    "{key}": "{field}",\n' for field, key in OPTION_KEYS.items())
    return HEAD + lists[0] + MIDDLE + lists[1] + TAIL.replace("{options}", f"{{\n{options}}}")


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
