"""What a Python function depends on besides its arguments, so that a compiled kernel is reused only while none of it has changed.

In: a function. Out: :class:`Dependencies`, whose :meth:`~Dependencies.state` is compared before a kernel is reused. Followed are the
names that the function's code and the annotations in it mention, in its closure, its module and Python's builtins, and through the
functions, methods, classes and macros among them; modules by the attributes that any of the code mentions; everything else by its content
(:mod:`zellige.frontend.contents`). Where something is met whose content cannot be seen, such as an iterator or a source of random
numbers, two states are never equal: the function is traced each time it is called.
"""

from __future__ import annotations

import builtins
import os
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from zellige.diagnostics.ownership import is_core
from zellige.frontend.loads import Load, loads_in

ATOMS: Final = frozenset((bool, int, float, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented)))
MISSING: Final = object()
"""What a name, an attribute, a slot or a cell of a closure holds that holds nothing."""


def codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    """A function's code and that of the functions written inside it."""
    pending = [code]
    while pending:
        top = pending.pop()
        yield top
        pending.extend(c for c in top.co_consts if isinstance(c, types.CodeType))


def content_of_cell(cell: types.CellType) -> Any:
    """What a cell of a closure holds, MISSING before it is given something."""
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def plain_function(value: Any) -> types.FunctionType | None:
    """The Python function behind a function, a method, a macro, a kernel or a decorator's wrapper; None where there is none."""
    for _ in range(8):
        if isinstance(value, types.FunctionType):
            return value
        if isinstance(value, types.MethodType):
            value = value.__func__
        elif isinstance(value, (staticmethod, classmethod)) or "__wrapped__" in getattr(value, "__dict__", {}):
            value = value.__wrapped__
        else:
            return None
    return None


class Same:
    """Equal only to another of the very same object; keeps it alive, so that its address is not used again."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


@dataclass(frozen=True, slots=True)
class _Reads:
    """The names that a function's code and annotations mean outside of it, those of them that the code itself loads, the words by which it
    may mean attributes of anything, those that it reads straight from a name, as pairs of name and word, and the modules that it imports
    while it runs."""

    names: tuple[str, ...]
    loaded: frozenset[str]
    words: frozenset[str]
    pairs: tuple[tuple[str, str], ...]
    imports: tuple[str, ...]


_reads: Final[dict[Same, tuple[Any, _Reads]]] = {}
"""What each code reads, with what was known of its source."""


def _reads_of(function: types.FunctionType) -> _Reads:
    from zellige.frontend.source import known_body  # which itself tells functions apart by what is here

    key, body = Same(function.__code__), known_body(function)
    known = _reads.get(key)
    if known is None or known[0] is not body:
        annotated = frozenset() if body is None else body.annotated
        words = set() if body is None else {*annotated, *body.annotated_attributes}
        loaded: set[str] = set()
        pairs: set[tuple[str, str]] = set()
        imports: set[str] = set()
        for code in codes_in(function.__code__):
            words.update(constant for constant in code.co_consts if type(constant) is str and constant.isidentifier())
            _add_loads(code, loaded, words, pairs, imports)
        names = tuple(sorted(loaded | annotated))
        reads = _Reads(names, frozenset(loaded), frozenset(words), tuple(sorted(pairs)), tuple(sorted(imports)))
        known = _reads[key] = body, reads
    return known[1]


def _add_loads(code: types.CodeType, names: set[str], words: set[str], pairs: set[tuple[str, str]], imports: set[str]) -> None:
    """What one code loads; ``base`` is the name from which the instructions before have come by attributes alone."""
    base = ""
    for kind, name in loads_in(code):
        if kind is Load.ATTRIBUTE:
            if base:
                pairs.add((base, name))
            else:
                words.add(name)
            continue
        base = name if kind is Load.NAME or kind is Load.CELL else ""
        if kind is Load.NAME:
            names.add(name)
        elif kind is Load.IMPORT:
            imports.add(name)


LIBRARIES: Final = frozenset(("numpy", "torch", "ml_dtypes")) | sys.stdlib_module_names
_WITH_SETTINGS: Final = ("numpy", "torch")


def is_followed(home: str, name: str) -> bool:
    """Whether a function or class of the module ``home`` is looked into: one of a known library is not, since what it gives follows from
    its arguments. Raises Unclear where that is not so."""
    if is_core(home):
        return False
    if home.partition(".")[0] not in LIBRARIES:
        return True
    from zellige.frontend.libraries import check_follows_from_arguments

    check_follows_from_arguments(home, name)
    return False


class Unclear(Exception):
    """Something whose content cannot be seen."""


class Look:
    """One look at everything that can be reached from some values.

    ``parts`` are compared; ``is_settled`` says that they cannot change while the ``places`` hold the very objects that they hold.
    :class:`~zellige.cache.identity._Telling` is one whose parts mean the same in another process.
    """

    most_parts = 20_000
    """How much is looked at before a function counts as one that is traced each time, which takes no longer by then."""
    most_bytes = 1 << 20
    """The longest array that is compared by its bytes: hashing these takes about a millisecond, and a trace some."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self.is_settled = True
        self.places: list[tuple[dict[str, Any], str]] = []
        self.cells: list[types.CellType] = []
        self.functions: list[types.FunctionType] = []
        self.pending: list[Any] = []
        self._kept: list[Any] = []
        self.modules: dict[str, types.ModuleType] = {}
        self._words: set[str] = set()
        self._seen: dict[int, int] = {}
        self._asked: set[tuple[str, str]] = set()
        self._set: set[str] = set()

    def follow(self) -> tuple[Any, ...]:
        """The parts of what is pending and of all that it leads to. Raises Unclear, also where code of an object that is asked for its
        class or its module raises."""
        try:
            return self._followed()
        except (Unclear, MemoryError):
            raise
        except Exception as error:
            raise Unclear from error

    def _followed(self) -> tuple[Any, ...]:
        while True:
            while self.pending:
                if len(self.parts) > self.most_parts:
                    raise Unclear
                self.value(self.pending.pop())
            if not self._ask_modules():
                return tuple(self.parts)

    def add(self, *parts: Any) -> None:
        self.parts.append(parts)

    def itself(self, value: Any) -> Any:
        """What stands for an object that is told from others by being itself, beside what it holds."""
        return Same(value)

    def value(self, value: Any) -> None:
        kind = type(value)
        if kind in ATOMS:
            self.parts.append((kind, repr(value) if kind is float or kind is complex else value))
            return
        number = self._seen.get(id(value))
        if number is not None:
            self.parts.append(number)
            return
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)  # so that no other gets its address meanwhile
        if kind is types.FunctionType:
            self.function(value)
        elif isinstance(value, types.ModuleType):
            self._module(value)
        elif kind is tuple:
            self.add(kind, len(value))
            self.pending.extend(value)
        elif kind is type and value.__module__ == "builtins":
            self.parts.append(Same(value))
        elif is_core(kind.__module__) or (isinstance(value, type) and is_core(value.__module__)):
            self.parts.append(Same(value))
            inner = plain_function(value)
            self.pending += [] if inner is None else [inner]
        else:
            from zellige.frontend.contents import look_at  # few kernels read such objects

            look_at(self, value)

    def name(self, names: dict[str, Any], name: str) -> None:
        """What a name of a module, or an attribute of one, holds."""
        value = names.get(name, MISSING)
        self.places.append((names, name))
        self.parts.append(name if value is not MISSING else None)
        self.pending += [] if value is MISSING else [value]

    def function(self, function: types.FunctionType) -> None:
        """A function by its code, defaults, attributes and closure, and by what its names mean; that of a library, which may stand around
        one of the user's, not by names."""
        self.parts.append(Same(function.__code__))
        if function is os.getenv:
            self.pending.append(os.environ)
            return
        self.functions.append(function)
        self.pending += [function.__defaults__, function.__kwdefaults__]
        attributes = self.attributes(function)
        if attributes:
            self.pending.append(attributes)
        for cell in function.__closure__ or ():
            self.cells.append(cell)
            content = content_of_cell(cell)
            self.parts.append(content is MISSING)
            self.pending += [] if content is MISSING else [content]
        home = str(function.__globals__.get("__name__"))
        if not is_followed(home, function.__name__):
            self.settings(home)
            return
        reads = _reads_of(function)
        self._words |= reads.words
        held = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        for base, word in reads.pairs:
            value = content_of_cell(held[base]) if base in held else function.__globals__.get(base)
            if not isinstance(value, types.ModuleType) or not is_core(value.__name__):
                self._words.add(word)
        for name in reads.names:
            if name in function.__globals__:
                self.name(function.__globals__, name)
            elif name in vars(builtins) or name in reads.loaded:  # one that is nowhere yet may be looked for, and made later
                self.name(function.__globals__, name)
                self.name(vars(builtins), name)
            else:
                self.parts.append(None)  # a word of an annotation's text, or a name that no trace could read
        if reads.imports:
            self.is_settled = False
            for name in reads.imports:
                self.imported(function, name)

    def attributes(self, function: types.FunctionType) -> dict[str, Any]:
        """The attributes of a function that count."""
        return vars(function)

    def settings(self, home: str) -> None:
        """The settings of the library ``home`` on which results of its functions depend beside their arguments."""
        root = home.partition(".")[0]
        if root not in _WITH_SETTINGS or root in self._set:
            return
        from zellige.frontend.libraries import settings_of

        self._set.add(root)
        self.is_settled = False
        self.parts.append(settings_of(root))

    def imported(self, function: types.FunctionType, name: str) -> None:
        """A module that a function imports while it runs, and those above it; a relative one counts where it can be found."""
        above = str(function.__globals__.get("__package__") or "").split(".")
        found = [f"{'.'.join(above[:end])}.{name}".strip(".") for end in range(len(above) + 1)]
        loaded = [module for place in found if (module := sys.modules.get(place)) is not None]
        self.parts.append(len(loaded))
        for module in loaded:
            self.pending.append(module)
            root = sys.modules.get(module.__name__.partition(".")[0])
            self.pending += [] if root is None else [root]

    def _module(self, module: types.ModuleType) -> None:
        self.parts.append(Same(module))
        if not is_core(module.__name__):
            self.modules[module.__name__] = module
            if type(module) is not types.ModuleType and module.__name__.partition(".")[0] not in LIBRARIES:
                self.pending.append(type(module))

    def _ask_modules(self) -> bool:
        """Adds the attributes of modules that are mentioned anywhere; what they lead to may mention more."""
        asked = len(self._asked)
        by_text = not _BY_TEXT.isdisjoint(self._words) or not _BY_TEXT.isdisjoint(name for _, name in self.places)
        for name, module in list(self.modules.items()):
            held = vars(module)
            if name.partition(".")[0] in LIBRARIES:
                mentioned = sorted(self._words & held.keys())
            else:  # one of the user's may get what it lacks later, or give it by a function
                mentioned = sorted({*self._words, "__getattr__", *(word for word in held if by_text and not word.startswith("__"))})
            for word in mentioned:
                if (name, word) not in self._asked:
                    self._asked.add((name, word))
                    self.name(held, word)
        return len(self._asked) > asked


_BY_TEXT: Final = frozenset(("getattr", "hasattr", "vars", "dir", "__dict__", "attrgetter", "getattr_static", "getmembers"))
"""Words by which code may read attributes whose names are made while it runs."""


@dataclass(frozen=True, eq=False)
class Dependencies:
    """What a function reads, looked at once. ``is_settled`` says that the state cannot change while the places hold the same objects."""

    state: tuple[Any, ...]
    is_settled: bool
    names: tuple[tuple[dict[str, Any], str], ...]
    cells: tuple[types.CellType, ...]
    codes: tuple[types.FunctionType, ...]

    @classmethod
    def of(cls, function: types.FunctionType) -> Dependencies:
        """What ``function``, and all that it can reach by name, depends on now. ``state`` is compared with ``==``; one that holds something
        unclear equals no other."""
        look = Look()
        look.pending.append(function)
        try:
            state, is_settled = look.follow(), look.is_settled
        except Unclear:
            state, is_settled = (object(),), False
        return cls(state, is_settled, tuple(look.places), tuple(look.cells), tuple(look.functions))

    def values(self) -> list[Any]:
        """The very objects that the places hold now."""
        held = [names.get(name, MISSING) for names, name in self.names]
        if self.cells:
            held += [content_of_cell(cell) for cell in self.cells]
        held += [function.__code__ for function in self.codes]
        if len(self.codes) == 1:  # what calls the first gives its defaults
            return held
        for function in self.codes[1:]:
            held += [function.__defaults__, function.__kwdefaults__, bool(vars(function))]
        return held


def content_of(value: Any) -> tuple[Any, ...] | None:
    """A picture of a value and of all that it leads to, comparable with ``==``; None where that cannot be seen."""
    look = Look()
    look.pending.append(value)
    try:
        return look.follow()
    except Unclear:
        return None
