"""The families of instructions: those of this package, and those that other packages bring with :func:`add_family`.

In: the name of a family. Out: what it has by itself, from its module, which is imported when it is first asked for. What stands in a
module of another package is checked then: it must list specifications (``INTRINSICS``), each name once and none that a family has which is
loaded; no family is loaded for the sake of another.
"""

from __future__ import annotations

import importlib
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import fields
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from zellige.diagnostics import ZelligeError, catalogue
from zellige.plugin.fields import said
from zellige.plugin.interruption import is_blameless

if TYPE_CHECKING:
    from zellige_intrinsics.specification import Intrinsic

FAMILIES: Final = ("cpu_x86", "cpu_arm", "nvidia", "amd", "cube", "systolic")
"""The families of this package; :func:`families` lists those of other packages too."""

PACKAGE: Final = __name__.rpartition(".")[0]

MOST_INSTRUCTIONS: Final = 10_000
"""Of one family; the largest of this package has a few hundred."""

_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_others: Final[dict[str, str]] = {}
_loaded: Final[dict[str, tuple[Intrinsic, ...]]] = {}
_lock: Final = threading.Lock()


def add_family(name: str, module: str) -> None:
    """Make the instructions of a module of your own package a family: for the whole process, from now on.

    ``module`` is its full name, such as "zellige_acme.instructions"; it has specifications in ``INTRINSICS`` and is imported when the
    family is first asked for. A second call with the same module changes nothing. E333 for a name or module that cannot be one, and for a
    family that is there already, which says whose it is.
    """
    reason = ""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        reason = "its name is no lower-case identifier of letters, digits and underscores"
    elif not isinstance(module, str) or not all(part.isidentifier() for part in module.split(".")):
        reason = f"{module!r} is no full name of a module"
    with _lock:
        if not reason and name in families() and module != home_of(name):
            reason = f"the family {name} is that of {home_of(name)}"
        if reason:
            raise catalogue.E333.error(name=name, module=module, reason=reason)
        if name not in FAMILIES:
            _others[name] = module


def families() -> tuple[str, ...]:
    """The names of all families: those of this package first, then those of others as they were added."""
    return (*FAMILIES, *_others)


def home_of(name: str) -> str:
    """The module that has the instructions of a family. E330 for an unknown one."""
    if name not in FAMILIES and name not in _others:
        raise catalogue.E330.error(kind="family of intrinsics", name=name, known=", ".join(families()))
    return _others.get(name, f"{PACKAGE}.{name}")


def own_family(name: str) -> tuple[Intrinsic, ...]:
    """The instructions that a family has by itself, the same for all who ask, on whatever threads. E330 for an unknown one, E333 for a
    module of another package that is none."""
    home = home_of(name)
    if name in _loaded:
        return _loaded[name]
    own: tuple[Intrinsic, ...] = importlib.import_module(home).INTRINSICS if name in FAMILIES else ()
    listed = () if name in FAMILIES else _listed(name, home)
    with _lock:  # not while a module is imported, which may ask for families itself
        if name in _loaded:
            return _loaded[name]
        for other in [other for other in _loaded if other not in FAMILIES and next(_shared(own, other), None) is not None]:
            del _loaded[other]  # it is looked at again, and refused, when it is next asked for: this package's come first
        _loaded[name] = own or _checked(name, home, listed)
        return _loaded[name]


def _refused(name: str, home: str, reason: str) -> ZelligeError:
    return catalogue.E333.error(name=name, module=home, reason=reason)


def _listed(name: str, home: str) -> tuple[Intrinsic, ...]:
    """What another package's module lists. E333 where that is no specifications; whatever looking at it raises is the module's fault."""
    from zellige_intrinsics.specification import Intrinsic

    doing = f"importing {home}"
    try:
        module: Any = importlib.import_module(home)
        doing = f"reading {home}.INTRINSICS"
        found = getattr(module, "INTRINSICS", None)
        listed = tuple(islice(found, MOST_INSTRUCTIONS + 1)) if isinstance(found, (tuple, list)) else ()
        strange = next((one for one in listed if not isinstance(one, Intrinsic)), None)
        for one in () if strange is not None else listed:
            repr([getattr(one, field.name) for field in fields(one)])
    except ZelligeError:
        raise  # a specification that contradicts itself says so
    except BaseException as error:  # a stranger's module may raise anything while it is imported, and in what it lists
        if is_blameless(error):
            raise
        raise _refused(name, home, f"{doing} fails: {said(error)}") from error
    if not listed:
        raise _refused(name, home, f"{home} has no specifications in INTRINSICS")
    if len(listed) > MOST_INSTRUCTIONS:
        raise _refused(name, home, f"{home}.INTRINSICS has more than {MOST_INSTRUCTIONS:,} entries")
    if strange is not None:
        raise _refused(name, home, f"an entry of {home}.INTRINSICS is a {type(strange).__name__}, no specification")
    return listed


def _checked(name: str, home: str, listed: tuple[Intrinsic, ...]) -> tuple[Intrinsic, ...]:
    """The specifications of another package's module. E333 where another family has some of them."""
    twice = [(home, instruction) for instruction, count in Counter(value.name for value in listed).items() if count > 1]
    taken = [(home_of(other), instruction) for other in _loaded for instruction in _shared(listed, other)]
    for owner, instruction in (*twice, *taken):
        raise _refused(name, home, f"{owner} has an instruction {instruction} already")
    return listed


def _shared(values: Iterable[Intrinsic], family: str) -> Iterator[str]:
    """The names of those that a loaded family has too."""
    known = {value.name for value in _loaded[family]}
    return (value.name for value in values if value.name in known)
