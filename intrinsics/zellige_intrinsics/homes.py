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
from typing import TYPE_CHECKING, Any, Final

from zellige.diagnostics import ZelligeError, catalogue
from zellige.plugin.fields import said
from zellige.plugin.interruption import is_blameless

if TYPE_CHECKING:
    from zellige_intrinsics.specification import Intrinsic

FAMILIES: Final = ("cpu_x86", "cpu_arm", "nvidia", "amd", "cube", "systolic")
"""The families of this package; :func:`families` lists those of other packages too."""

PACKAGE: Final = __name__.rpartition(".")[0]

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
    """The instructions that a family has by itself. E330 for an unknown one, E333 for a module of another package that is none."""
    home = home_of(name)
    if name in _loaded:
        return _loaded[name]
    if name in FAMILIES:
        made: tuple[Intrinsic, ...] = importlib.import_module(home).INTRINSICS
        for other in [other for other in _loaded if other not in FAMILIES and next(_shared(made, other), None) is not None]:
            del _loaded[other]  # it is looked at again, and refused, when it is next asked for: this package's come first
    else:
        made = _checked(name, home)
    _loaded[name] = made
    return made


def _checked(name: str, home: str) -> tuple[Intrinsic, ...]:
    """The specifications of another package's module. E333 where it has none, or some that another family has."""
    from zellige_intrinsics.specification import Intrinsic

    def refused(reason: str) -> ZelligeError:
        return catalogue.E333.error(name=name, module=home, reason=reason)

    try:
        module: Any = importlib.import_module(home)
    except ZelligeError:
        raise  # a specification that contradicts itself says so
    except BaseException as error:  # a stranger's module may raise anything while it is imported
        if is_blameless(error):
            raise
        raise refused(f"importing {home} fails: {said(error)}") from error
    listed = getattr(module, "INTRINSICS", None)
    if not isinstance(listed, (tuple, list)) or not listed:
        raise refused(f"{home} has no specifications in INTRINSICS")
    strange = next((one for one in listed if not isinstance(one, Intrinsic)), None)
    if strange is not None:
        raise refused(f"an entry of {home}.INTRINSICS is a {type(strange).__name__}, no specification")
    twice = [(home, instruction) for instruction, count in Counter(value.name for value in listed).items() if count > 1]
    taken = [(home_of(other), instruction) for other in _loaded for instruction in _shared(listed, other)]
    for owner, instruction in (*twice, *taken):
        raise refused(f"{owner} has an instruction {instruction} already")
    return tuple(listed)


def _shared(values: Iterable[Intrinsic], family: str) -> Iterator[str]:
    """The names of those that a loaded family has too."""
    known = {value.name for value in _loaded[family]}
    return (value.name for value in values if value.name in known)
