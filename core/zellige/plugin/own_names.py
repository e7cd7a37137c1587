"""What a stranger's package must leave as it is while it is loaded: zellige's own modules with what they hold, Python's built-in names, and
the ways that modules are found by.

In: the loading of a backend, and the names of the packages that are zellige's own. Out: the names that it gave another meaning; they have
their own again. A package that replaces functions of core, or of a backend in the tree, would change what every other backend does, and
nobody would know whose doing it is. Modules that are loaded meanwhile are looked at as soon as they are there. Watched are the entries of
``sys.modules``, the public names, functions, classes and constants of modules, the methods of their classes, and of each function its code
and the defaults of its parameters. Names that are replaced later, inside of a hook, are not seen: this keeps accidents and shortcuts from
the others, it is no wall against an enemy.
"""

from __future__ import annotations

import builtins
import functools
import os
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from itertools import chain
from operator import attrgetter, is_, methodcaller
from typing import Any, Final

from zellige.plugin.guard import process_kept
from zellige.plugin.interruption import is_from_outside
from zellige.plugin.origin import OF_ZELLIGE

_CACHED: Final = type(functools.cache(len))
_KINDS: Final = (types.FunctionType, types.BuiltinFunctionType, type, _CACHED)
_METHODS: Final = (types.FunctionType, staticmethod, classmethod, property, functools.cached_property, _CACHED)
_PLAIN: Final = (types.FunctionType, staticmethod, classmethod)
_INSIDE: Final = {
    _CACHED: "__wrapped__",
    staticmethod: "__func__",
    classmethod: "__func__",
    property: "fget",
    functools.cached_property: "func",
}
"""Under which name those hold the function that they are made of."""

_OF_FUNCTION: Final = ("__code__", "__defaults__", "__kwdefaults__")
_PARTS: Final = tuple(attrgetter(name) for name in _OF_FUNCTION)
_VALUES: Final = methodcaller("values")
_WAYS: Final = ("path", "meta_path", "path_hooks")


class OwnNamesKept:
    """Gives the names back that are replaced or gone at the end, and lists them.

    Python's built-in names come first, by means that need none of them: nothing else works without, nor does :mod:`contextlib`.
    """

    def __init__(self, ours: Iterable[str] = OF_ZELLIGE) -> None:
        self._kept: AbstractContextManager[list[str]] = _names_kept(frozenset(ours))
        self.replaced: list[str] = []
        self._namespace: dict[str, Any] = vars(builtins)
        self._builtins: dict[str, Any] = {}

    def __enter__(self) -> list[str]:
        self.replaced = self._kept.__enter__()
        self._builtins = dict(self._namespace)
        return self.replaced

    def __exit__(self, *raised: Any) -> None:
        now = self._namespace
        for name, value in self._builtins.items():
            if name not in now or now[name] is not value:
                now[name] = value
                self.replaced.append(f"builtins.{name}")
        self._kept.__exit__(*raised)


@contextmanager
def _names_kept(ours: frozenset[str]) -> Iterator[list[str]]:
    seen = _Seen(ours)
    modules, ways = sys.modules, [(name, getattr(sys, name), list(getattr(sys, name))) for name in _WAYS]
    watch = _WatchedFinder(seen)
    sys.meta_path.insert(0, watch)
    try:
        with process_kept() as replaced:
            yield replaced
    finally:
        if sys.modules is not modules:
            sys.modules = modules
            replaced.append("sys.modules")
        for name, held, entries in ways:
            if getattr(sys, name) is not held or any(entry not in held for entry in entries):
                added = [entry for entry in getattr(sys, name) if entry not in entries]
                setattr(sys, name, held)
                held[:] = [*entries, *added]
                replaced.append(f"sys.{name}")
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not watch]
        replaced += seen.given_back()
        for name, _, entries in ways[1:]:
            replaced += _ways_given_back(name, entries, seen)
        if "sys.path_hooks" in replaced:
            sys.path_importer_cache.clear()  # what other hooks have answered


class _Namespace:
    """What a module or a class holds: all its names, and the values of those that are watched."""

    __slots__ = ("held", "keys", "names", "owner", "values")

    def __init__(self, owner: Any, held: dict[str, Any]) -> None:
        self.owner, self.held = owner, held
        self.names = frozenset(vars(owner))
        self.keys, self.values = tuple(vars(owner)), tuple(vars(owner).values())

    @property
    def is_as_it_was(self) -> bool:
        """Whether every name holds the same object, which is seen without looking at one by one."""
        now = vars(self.owner)
        return len(now) == len(self.values) and all(map(is_, now.values(), self.values)) and tuple(now) == self.keys


class _Module:
    """What belongs to a module: its names and those of its classes, its functions, and the objects that it holds."""

    __slots__ = ("functions", "module", "namespaces", "objects")

    def __init__(self, module: types.ModuleType, is_ours: Callable[[str], bool]) -> None:
        self.module = module
        home = module.__name__
        held = _held_by_module(module)
        owned = [value for value in held.values() if getattr(value, "__module__", None) == home]
        classes = [value for value in owned if isinstance(value, type)]
        self.namespaces = [_Namespace(module, held)]
        self.objects = [value for value in held.values() if _is_object(value, is_ours)]
        for one in classes:
            methods = {name: value for name, value in vars(one).items() if isinstance(value, _METHODS)}
            self.namespaces.append(_Namespace(one, methods))
            owned += methods.values()
        functions = [function for value in owned if (function := _function_in(value)) is not None]
        self.functions = [function for function in functions if function.__module__ == home]

    @property
    def is_as_it_was(self) -> bool:
        return all(space.is_as_it_was for space in self.namespaces)


class _Modules:
    """What belongs to several modules. Whether all of it is as it was is seen at once, since that is asked of hundreds of modules before
    and after each stranger."""

    __slots__ = ("_keys", "_now", "_values", "functions", "modules", "namespaces", "objects")

    def __init__(self, modules: dict[str, types.ModuleType], parts: Sequence[_Module]) -> None:
        self.modules = modules
        self.namespaces = [space for part in parts for space in part.namespaces]
        self.functions = [function for part in parts for function in part.functions]
        self.objects = [one for part in parts for one in part.objects]
        self._now = [vars(space.owner) for space in self.namespaces]
        self._keys = [key for space in self.namespaces for key in space.keys]
        self._values = [value for space in self.namespaces for value in space.values]

    def are(self, modules: dict[str, types.ModuleType]) -> bool:
        return list(modules) == list(self.modules) and all(map(is_, modules.values(), self.modules.values()))

    @property
    def is_as_it_was(self) -> bool:
        return (
            sum(map(len, self._now)) == len(self._keys)
            and all(map(is_, chain.from_iterable(map(_VALUES, self._now)), self._values))
            and list(chain.from_iterable(self._now)) == self._keys
        )


_KNOWN: Final[dict[tuple[frozenset[str], str], _Module]] = {}
"""By the packages that are zellige's own and the name of a module, what was found when that was looked at: where it holds the same objects
still, that need not be found again. A process with many strangers looks at everything before each of them."""

_KNOWN_TOGETHER: Final[dict[frozenset[str], _Modules]] = {}
"""The same of all modules that were there before the latest stranger."""


class _Seen:
    """Zellige's own modules as they were when they were first looked at."""

    def __init__(self, ours: frozenset[str]) -> None:
        self._ours = ours
        self.modules: dict[str, types.ModuleType] = {}
        self._seen: list[_Modules] = []
        self._parts: list[list[list[Any]]] = []
        """For each of those, what each of :data:`_OF_FUNCTION` was of all its functions."""
        self._paths: list[tuple[types.ModuleType, Any, list[str]]] = []
        """A package, its list of folders, and what stood in it."""
        self._objects: list[tuple[Any, frozenset[str]]] = []
        """An object of a module, and the names of its own."""
        there = list(sys.modules.items())
        modules = {name: module for name, module in there if self.is_ours(name) and isinstance(module, types.ModuleType)}
        known = _KNOWN_TOGETHER.get(ours)
        if known is None or not known.are(modules) or not known.is_as_it_was:
            known = _KNOWN_TOGETHER[ours] = self._found(modules)
        self._write_down(known)
        self.before: Final = frozenset(self.modules)
        """The modules that were there at the beginning."""

    def is_ours(self, name: str) -> bool:
        return name.partition(".")[0] in self._ours

    def add(self, name: str, module: types.ModuleType) -> None:
        """Writes down a module and what it holds."""
        self._write_down(self._found({name: module}))

    def _found(self, modules: dict[str, types.ModuleType]) -> _Modules:
        parts = []
        for name, module in modules.items():
            key = self._ours, name
            known = _KNOWN.get(key)
            if known is None or known.module is not module or not known.is_as_it_was:
                known = _KNOWN[key] = _Module(module, self.is_ours)
            parts.append(known)
        return _Modules(modules, parts)

    def _write_down(self, found: _Modules) -> None:
        self._seen.append(found)
        self._parts.append([list(map(part, found.functions)) for part in _PARTS])
        self._objects += [(one, frozenset(vars(one))) for one in found.objects]
        for name, module in found.modules.items():
            self.modules.setdefault(name, module)  # one that somebody took out of sys.modules comes back, not its second copy
            path = vars(module).get("__path__")
            if path is not None:
                self._paths.append((module, path, list(path)))

    def given_back(self) -> list[str]:
        """Everything that is something else now has its own again; what it was."""
        replaced = [
            *self._modules_given_back(),
            *self._names_given_back(),
            *self._functions_given_back(),
            *self._objects_given_back(),
        ]
        if replaced:
            self._forget_new_modules()
        return replaced

    def _modules_given_back(self) -> Iterator[str]:
        for name, module in self.modules.items():
            if sys.modules.get(name) is not module:
                sys.modules[name] = module
                yield f"sys.modules[{name!r}]"
            parent, _, last = name.rpartition(".")
            bound = vars(self.modules[parent]).get(last) if parent in self.modules else None
            if issubclass(type(bound), types.ModuleType) and bound is not module:  # the object itself is asked nothing
                setattr(self.modules[parent], last, module)
                yield name
        for name in [name for name in sys.modules if self.is_ours(name) and name not in self.modules]:
            parent, _, last = name.rpartition(".")
            fake = sys.modules.pop(name)
            if parent in self.modules and vars(self.modules[parent]).get(last) is fake:
                delattr(self.modules[parent], last)
            yield f"sys.modules[{name!r}]"
        for module, path, entries in self._paths:
            now: Any = vars(module).get("__path__")
            if now is not path or list(now) != entries:
                module.__path__ = list(entries)
                yield f"{module.__name__}.__path__"

    def _names_given_back(self) -> Iterator[str]:
        for space in [one for found in self._seen if not found.is_as_it_was for one in found.namespaces]:
            if space.is_as_it_was:
                continue
            owner, now = space.owner, vars(space.owner)
            if isinstance(owner, type):
                for name in [name for name, value in now.items() if name not in space.names and _is_added(name, value)]:
                    delattr(owner, name)
                    yield f"{_title(owner)}.{name}"
            for name, value in space.held.items():
                if name not in now or now[name] is not value:
                    setattr(owner, name, value)
                    yield f"{_title(owner)}.{name}"

    def _functions_given_back(self) -> Iterator[str]:
        for found, parts in zip(self._seen, self._parts, strict=True):
            for name, part, before in zip(_OF_FUNCTION, _PARTS, parts, strict=True):
                if all(map(is_, before, map(part, found.functions))):
                    continue
                for function, value in zip(found.functions, before, strict=True):
                    if part(function) is not value:
                        setattr(function, name, value)
                        yield f"{function.__module__}.{function.__qualname__}.{name}"

    def _objects_given_back(self) -> Iterator[str]:
        for one, names in self._objects:
            if vars(one).keys() <= names:
                continue
            for name in [name for name in vars(one) if name not in names and _is_method(type(one), name)]:
                del vars(one)[name]
                yield f"{_title(type(one))}.{name} of an object"

    def _forget_new_modules(self) -> None:
        """Modules that were loaded meanwhile may hold what was not their own; they are loaded again when they are asked for."""
        new = self.modules.keys() - self.before
        modules = [sys.modules.pop(name) for name in new]
        for space in [one for found in self._seen for one in found.namespaces]:
            if not isinstance(owner := space.owner, type):
                for name, value in list(vars(owner).items()):
                    if name not in space.names and (any(value is one for one in modules) or getattr(value, "__module__", None) in new):
                        delattr(owner, name)


def _is_object(value: Any, is_ours: Callable[[str], bool]) -> bool:
    """Whether a module holds an object of one of zellige's classes that can be given names."""
    kind = type(value)
    return kind is not types.FunctionType and hasattr(value, "__dict__") and is_ours(str(kind.__module__))


def _is_method(kind: type, name: str) -> bool:
    return isinstance(next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None), _PLAIN)


def _held_by_module(module: types.ModuleType) -> dict[str, Any]:
    held = list(vars(module).items())
    return {name: value for name, value in held if name[0] != "_" or isinstance(value, _KINDS) or name.isupper()}


def _is_added(name: str, value: Any) -> bool:
    """Whether a new name of a class is somebody's doing: ``typing`` gives one that follows a protocol its ``__init__`` at the first use."""
    return isinstance(value, _METHODS) and name != "__init__"


def _function_in(value: Any) -> types.FunctionType | None:
    """The function that a name of a module or a class stands for."""
    while (inside := _INSIDE.get(type(value))) is not None:
        value = getattr(value, inside, None)
    return value if isinstance(value, types.FunctionType) else None


def _title(owner: Any) -> str:
    return f"{owner.__module__}.{owner.__qualname__}" if isinstance(owner, type) else str(owner.__name__)


def _ways_given_back(name: str, entries: list[Any], seen: _Seen) -> list[str]:
    """Takes those away that were put before others and keep zellige's modules from being found as they are."""
    way = getattr(sys, name)
    before = way[: max((index for index, entry in enumerate(way) if entry in entries), default=0)]
    hinders = _finder_hinders if name == "meta_path" else _hook_hinders
    bad = [entry for entry in before if entry not in entries and hinders(entry, seen)]
    way[:] = [entry for entry in way if entry not in bad]
    return [f"sys.{name}"] if bad else []


def _finder_hinders(finder: Any, seen: _Seen) -> bool:
    """Whether it raises when it is asked for a module of zellige's, or has an answer: those are the other finders' to find."""
    try:
        find = getattr(finder, "find_spec", None)
        return find is not None and any(find(name, path, None) is not None for name, path in _places(seen))
    except BaseException as error:  # somebody else's finder may raise anything
        if is_from_outside(error):
            raise
        return True


def _hook_hinders(hook: Any, seen: _Seen) -> bool:
    """Whether it takes a folder of zellige's and does not find there what is there, or raises anything but ``ImportError``, which says that
    the folder is not its own."""
    try:
        return any(_hides(hook, name, path or [], seen.modules.get(name)) for name, path in _places(seen))
    except BaseException as error:  # somebody else's hook may raise anything
        if is_from_outside(error):
            raise
        return True


def _hides(hook: Any, name: str, path: Sequence[str], module: types.ModuleType | None) -> bool:
    """Whether what a hook answers for the folders of a module does not find it where it lies."""
    finders = []
    for folder in path:
        with suppress(ImportError):
            finders.append(hook(folder))
    found = [spec for finder in finders if (spec := finder.find_spec(name)) is not None]
    expected = getattr(module, "__spec__", None)
    return bool(finders) and (not found or (expected is not None and found[0].origin != expected.origin))


def _places(seen: _Seen) -> list[tuple[str, list[str] | None]]:
    """The names of zellige's modules, also of those that nobody has loaded, with the folders where they lie; None for a package at the
    top."""
    from pkgutil import iter_modules  # where somebody put a finder before the others only

    places: dict[str, list[str] | None] = {name: None for name in seen.modules if "." not in name}
    packages = [(name, list(vars(module).get("__path__", ()))) for name, module in seen.modules.items() if "." not in name]
    while packages:
        package, path = packages.pop()
        for entry in iter_modules(path):
            name = f"{package}.{entry.name}"
            places[name] = path
            if entry.ispkg:
                packages.append((name, [f"{folder}{os.sep}{entry.name}" for folder in path]))
    return list(places.items())


class _WatchedFinder(MetaPathFinder):
    """Finds zellige's modules as the other finders do, and writes down what they hold once they have been executed."""

    def __init__(self, seen: _Seen) -> None:
        self._seen = seen

    def find_spec(self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None) -> ModuleSpec | None:
        if not self._seen.is_ours(name):
            return None
        others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        spec = next((found for finder in others if (found := finder.find_spec(name, path, target)) is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _WatchedLoader(spec.loader, self._seen)
        return spec


class _WatchedLoader(Loader):
    """Another loader, which the module has for its own once it is there."""

    def __init__(self, loader: Loader, seen: _Seen) -> None:
        self._loader, self._seen = loader, seen

    def create_module(self, spec: ModuleSpec) -> types.ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._seen.add(module.__name__, module)
