"""Whether a backend's object has the shape that the contract asks for, said precisely where it has not.

In: a backend's object. Out: :func:`shape_problems`, one sentence for each hook that is misspelt, takes arguments that there are not, is
missing, or stands there without its mark. pluggy would accept a misspelt hook, and names only the first of several faults.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache, partialmethod
from types import ModuleType
from typing import Any, Final

from zellige.diagnostics.suggest import closest
from zellige.plugin.hooks import PROJECT, BackendHooks

REQUIRED: Final = ("manifest", "probe", "describe")
STEPS: Final = ("emit", "compile", "runtime")

MARK: Final = f"{PROJECT}_impl"
"""The attribute by which a method says that it is a hook."""

_METHODS: Final = (classmethod, staticmethod, partialmethod)
"""What makes methods, and can itself not always be called."""


@lru_cache(maxsize=1)
def hook_parameters() -> Mapping[str, tuple[str, ...]]:
    """The hooks of the contract with the names of their arguments."""
    found = {name: value for name, value in vars(BackendHooks).items() if inspect.isfunction(value) and not name.startswith("_")}
    # all are plain functions of ours, so that their code says it; inspect.signature takes twenty times as long
    return {name: value.__code__.co_varnames[1 : value.__code__.co_argcount] for name, value in found.items()}


def shape_problems(plugin: object) -> tuple[str, ...]:
    """What is wrong with the hooks of ``plugin``; empty where nothing is."""
    return tuple(_problems(plugin))


def as_written(plugin: object, name: str) -> Any:
    """What stands under a name in an object or its classes, without running anything; None where nothing does.

    ``inspect.getattr_static`` does the same for every kind of object, and takes ten times as long.
    """
    if isinstance(plugin, (type, ModuleType)):
        return inspect.getattr_static(plugin, name, None)
    own = getattr(plugin, "__dict__", None)
    if type(own) is dict and name in own:
        return own[name]
    return next((vars(kind)[name] for kind in type(plugin).__mro__ if name in vars(kind)), None)


def _problems(plugin: object) -> Iterator[str]:
    hooks = hook_parameters()
    marked: set[str] = set()
    for name in dir(plugin):
        if name.startswith("__"):
            continue
        member = as_written(plugin, name)
        if isinstance(member, (property, cached_property)):
            if hasattr(_getter(member), MARK):
                marked.add(name)
                yield f"its hook {name} is a {type(member).__name__}, which is never called; it must be a function or a method"
            continue
        function = getattr(member, "__func__", member)
        if not hasattr(function, MARK) and not hasattr(member, MARK):
            continue
        marked.add(name)
        if name not in hooks:
            yield f"the contract has no hook {name}" + (closest(name, hooks, "{}") or f" (it has {', '.join(hooks)})")
            continue
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            yield f"its hook {name} is a coroutine, and hooks answer at once: write it without async"
        wrong = _unseen(name, member, getattr(plugin, name)) or _odd_mark(name, getattr(function, MARK, None))
        if wrong:
            yield wrong
            continue
        yield from _argument_problems(name, getattr(plugin, name), hooks[name])
    for name in REQUIRED:
        if name not in marked:
            unmarked = " (a method of that name is there, but is not marked with @hookimpl)" if as_written(plugin, name) else ""
            yield f"it lacks the hook {name}{unmarked}"
    for name in hooks:
        member = as_written(plugin, name)
        if name not in marked and name not in REQUIRED and (callable(member) or isinstance(member, _METHODS)):
            yield f"its method {name} has the name of a hook, but is not marked with @hookimpl"
        elif name not in marked and isinstance(member, (property, cached_property)):
            yield f"its {type(member).__name__} {name} has the name of a hook, which is a method marked with @hookimpl"


def _getter(member: property | cached_property[Any]) -> object:
    return member.fget if isinstance(member, property) else member.func


def _unseen(name: str, written: object, found: object) -> str:
    """Why pluggy would pass over a marked hook without a word; empty where it would not."""
    if not inspect.isroutine(found):
        return f"its hook {name} is a {type(written).__name__}, which is never called; it must be a function or a method"
    if not hasattr(found, MARK):
        return f"its hook {name} is marked above @{type(written).__name__}; @hookimpl stands below it"
    return ""


def _odd_mark(name: str, mark: Any) -> str:
    """What a mark says that leaves a hook without an answer of its own, or under another name; empty where it says no such thing."""
    said = mark if isinstance(mark, Mapping) else {}
    wraps = next((option for option in ("wrapper", "hookwrapper") if said.get(option)), "")
    if wraps:
        return f"its hook {name} is a wrapper (@hookimpl({wraps}=True)), around nothing: a backend has each hook once, which answers itself"
    other = said.get("specname")
    if other in (None, name):
        return ""
    return f"its hook {name} answers for the hook {other} (@hookimpl(specname=...)); it must have that name itself"


def _argument_problems(name: str, method: object, known: tuple[str, ...]) -> Iterator[str]:
    try:
        signature = inspect.signature(method)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        yield f"its hook {name} is no function"
        return
    full = f"{name}({', '.join(known)})"
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
            yield f"its hook {name}{signature} takes any arguments ({stars}{parameter.name}); it must name those of {full} that it uses"
        elif parameter.kind is parameter.KEYWORD_ONLY and parameter.name in known:
            yield f"its hook {name}{signature} takes {parameter.name} by keyword only; hooks are called in order"
        elif parameter.name not in known and parameter.default is parameter.empty:
            yield f"its hook {name}{signature} has an unknown argument {parameter.name!r}; the hook is {full}"


def call_problems(value: object, methods: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """What is wrong with the methods that a backend's object has of those that core calls, each with so many arguments in this order. A
    call would fail in core otherwise, and look like its fault. Methods without a signature, such as those of C code, pass."""
    found: list[str] = []
    for name, arguments in methods.items():
        method = getattr(value, name, None)
        if method is None:
            continue
        try:
            later = later_kind(method)
            if later:
                found.append(f"its method {name} is {later}, which does nothing when it is called: methods answer at once")
            inspect.signature(method).bind(*arguments)
        except TypeError as error:
            found.append(f"its method {name} cannot be called as {name}({', '.join(arguments)}): {error}")
        except ValueError:
            continue
    return tuple(found)


def later_kind(method: object) -> str:
    """What a function is whose call only makes something that runs later: a coroutine or a generator; empty for any other."""
    for function in (method, vars(type(method)).get("__call__")):
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            return "a coroutine"
        if inspect.isgeneratorfunction(function):
            return "a generator"
    return ""


@lru_cache(maxsize=16)
def methods_of(*protocols: type) -> Mapping[str, tuple[str, ...]]:
    """The methods that protocols of the contract name, with the names of their arguments."""
    functions = {name: value for kind in protocols for name, value in vars(kind).items() if inspect.isfunction(value)}
    return {
        name: value.__code__.co_varnames[1 : value.__code__.co_argcount] for name, value in functions.items() if not name.startswith("_")
    }  # fmt: skip
