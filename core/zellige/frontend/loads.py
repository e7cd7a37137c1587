"""What a code object loads by name, read from its byte code.

In: a code object. Out: its loads in order: names, attributes, cells and imports, and between them a mark wherever something else is
done, so that an attribute that follows a name without a mark is one of what the name holds.

:func:`loads_by_dis` asks Python's module ``dis`` and says what is meant, in any Python. It takes some microseconds an instruction, half a
millisecond for a kernel of middling size, which is a good part of a first call; :func:`loads_in` reads the instructions itself in the
versions of Python whose arguments are known here, and asks ``dis`` in all others.
"""

from __future__ import annotations

import dis
import enum
import sys
import types
from collections.abc import Iterator
from typing import Final


class Load(enum.Enum):
    """What an instruction does with a name."""

    NAME = "name"
    ATTRIBUTE = "attribute"
    CELL = "cell"
    IMPORT = "import"
    OTHER = "other"


_KINDS: Final = {
    **dict.fromkeys(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"), Load.NAME),
    **dict.fromkeys(("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"), Load.ATTRIBUTE),
    **dict.fromkeys(("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"), Load.CELL),
    "IMPORT_NAME": Load.IMPORT,
}
"""Instructions by name, of every Python from 3.10 on (documentation of the module dis)."""

_BETWEEN: Final = frozenset(("CACHE", "PUSH_NULL", "EXTENDED_ARG"))
"""Instructions that may stand between the load of a name and that of its attribute."""


def loads_by_dis(code: types.CodeType) -> Iterator[tuple[Load, str]]:
    """The loads of ``code``, without those of codes inside it."""
    for instruction in dis.get_instructions(code):
        kind = _KINDS.get(instruction.opname)
        if kind is not None:
            yield kind, instruction.argval
        elif instruction.opname not in _BETWEEN:
            yield Load.OTHER, ""


# ---- the same, quicker

_LAST_KNOWN: Final = (3, 13)
_IS_KNOWN: Final = sys.version_info[:2] <= _LAST_KNOWN
_SHIFTS: Final = {
    "LOAD_GLOBAL": 1 if sys.version_info >= (3, 11) else 0,
    "LOAD_ATTR": 1 if sys.version_info >= (3, 12) else 0,
    "LOAD_SUPER_ATTR": 2,
}
"""How far the number of a name is shifted in the argument of an instruction, where it is (documentation of the module dis)."""

_DECODED: Final = {dis.opmap[name]: (kind, _SHIFTS.get(name, 0)) for name, kind in _KINDS.items() if name in dis.opmap}
_PASSED: Final = frozenset(dis.opmap[name] for name in _BETWEEN if name in dis.opmap)
_EXTENDED: Final = dis.opmap["EXTENDED_ARG"]
_NO_LOAD: Final = (Load.OTHER, "")


def loads_in(code: types.CodeType) -> Iterator[tuple[Load, str]]:
    """The loads of ``code``, without those of codes inside it."""
    return _decoded(code) if _IS_KNOWN else loads_by_dis(code)


def _decoded(code: types.CodeType) -> Iterator[tuple[Load, str]]:
    raw, extended, mentioned = code.co_code, 0, code.co_names
    for operation, low in zip(raw[::2], raw[1::2]):
        argument = low | extended
        extended = argument << 8 if operation == _EXTENDED else 0
        found = _DECODED.get(operation)
        if found is not None:
            kind, shift = found
            yield kind, _cell_name(code, argument) if kind is Load.CELL else mentioned[argument >> shift]
        elif operation not in _PASSED:
            yield _NO_LOAD


def _cell_name(code: types.CodeType, number: int) -> str:
    """The name of a variable shared with functions inside or around: these have numbers of their own before Python 3.11, and since then
    one row with the local ones."""
    if sys.version_info >= (3, 11):
        name: str = code._varname_from_oparg(number)
        return name
    return (*code.co_cellvars, *code.co_freevars)[number]
