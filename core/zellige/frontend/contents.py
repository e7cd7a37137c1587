"""What objects hold that a kernel function reads: arrays, containers, classes, and objects of classes.

In: a value and the look (:class:`~zellige.frontend.dependencies.Look`) that met it. Out: what it holds itself among the parts of the look,
and what it leads to among what is pending. Raised: Unclear for what cannot be seen, such as iterators, open files, and objects whose
memory holds more than their attributes say.

Arrays count by their bytes: whoever writes into one (a view, a kernel, another library) leaves no mark anywhere else. Where these are so
many that comparing them takes longer than a trace, the array is unclear, and the function traced each time.
"""

from __future__ import annotations

import array
import functools
import gc
import operator
import os
import sys
import types
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from zellige.diagnostics.ownership import is_core
from zellige.frontend.dependencies import MISSING, Look, Same, Unclear, is_followed
from zellige.frontend.holdings import CONTAINERS, attributes_of, slots_of

_POINTER_BYTES: Final = 8

_NOT_HELD: Final = frozenset(("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "_abc_impl", "__firstlineno__"))
"""Attributes of classes that no kernel follows from, or that stand for the object's own."""


def look_at(look: Look, value: Any) -> None:
    """Adds what ``value`` holds. It is none of an atom, a tuple, a function, a module, or this package's."""
    kind = type(value)
    if kind.__module__ == "logging" and hasattr(value, "level"):
        _log(look, value)
        return
    if _is_unchanging(value, kind):
        look.parts.append(Same(value))
        return
    if value is os.environ:
        look.is_settled = False
        look.pending.append(dict(value))
        return
    if isinstance(value, types.BuiltinFunctionType) or (kind.__module__ == "numpy" and kind.__name__ == _DISPATCHER):
        _builtin(look, value)
        return
    if isinstance(value, type):
        _class(look, value, kind)
        return
    if isinstance(value, types.MethodType):
        look.add(kind)
        look.pending += [value.__func__, value.__self__]
        return
    look.is_settled = False
    if isinstance(value, np.ndarray):
        _array(look, value)
    elif kind in _PARTS:
        look.add(kind)
        look.pending += _PARTS[kind](value)
    elif isinstance(value, np.generic):
        look.add(kind, str(value.dtype), value.tobytes())
    elif _is_tensor(value):
        _tensor(look, value)
    else:
        object_of(look, value, kind)


# ---- what never changes, functions and classes of libraries

_UNCHANGING: Final = (
    types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.ClassMethodDescriptorType, types.CodeType, types.GenericAlias, types.UnionType, np.dtype, np.ufunc,
)  # fmt: skip
_UNCHANGING_OF: Final = frozenset(
    (("torch", "dtype"), ("torch", "device"), ("torch", "layout"), ("torch", "memory_format"), ("re", "Pattern"), ("datetime", "timedelta"))
    + (("_collections", "_tuplegetter"),)
)
_DISPATCHER: Final = "_ArrayFunctionDispatcher"
"""The class of most of NumPy's functions since 1.25."""

_WRITTEN_TO: Final = ("logging",)
"""Modules whose objects a function tells something and does not ask, but for the levels of loggers and handlers."""


def _is_unchanging(value: Any, kind: type) -> bool:
    home = kind.__module__
    if isinstance(value, _UNCHANGING) or (home, kind.__name__) in _UNCHANGING_OF or home == "typing" or home in _WRITTEN_TO:
        return True
    return value is sys.stdout or value is sys.stderr


def _log(look: Look, value: Any) -> None:
    """What can be asked of a logger or handler: whether anybody listens, to which levels, and the same of the loggers above it."""
    look.is_settled = False
    look.add(Same(value), value.level)
    if hasattr(value, "isEnabledFor"):
        look.add(value.disabled, value.propagate, value.manager.disable)
        look.add(*((look.itself(handler), handler.level) for handler in value.handlers), *map(look.itself, value.filters))
        look.pending.append(value.parent)


def _builtin(look: Look, value: Any) -> None:
    """A function written in C: of a module, or the method of an object, which is looked at too."""
    owner = getattr(value, "__self__", None)
    if owner is not None and not isinstance(owner, (types.ModuleType, type)):
        look.add(type(value), value.__name__)
        look.pending.append(owner)
        return
    home = home_of_builtin(value)
    if is_followed(home, value.__name__):
        raise Unclear  # of a library that nobody knows
    look.settings(home)
    look.parts.append(Same(value) if owner is None or isinstance(owner, types.ModuleType) else (value.__name__, Same(owner)))


def home_of_builtin(value: Any) -> str:
    """The module of a function written in C; many of torch's say nothing of it."""
    owner = getattr(value, "__self__", None)
    home = value.__module__ or getattr(owner, "__module__", None) or getattr(owner, "__name__", "")
    return str(home) or ("torch" if getattr(sys.modules.get("torch"), value.__name__, None) is value else "")


def _class(look: Look, value: type, kind: type) -> None:
    """A class: one of a library by itself, another by all that it and the user's classes above it hold."""
    look.parts.append(Same(value))
    if not is_followed(value.__module__, value.__name__):
        return
    look.is_settled = False
    look.pending += [kind] if kind is not type else []
    for above in value.__mro__:
        if above is not value and (is_core(above.__module__) or not is_followed(above.__module__, above.__name__)):
            look.parts.append(Same(above))
            continue
        held = [(name, content) for name, content in vars(above).items() if name not in _NOT_HELD]
        look.add(Same(above), len(held))
        for name, content in held:
            look.parts.append(name)
            look.pending.append(content)


# ---- arrays


def _array(look: Look, value: np.ndarray[Any, Any]) -> None:
    look.settings("numpy")
    look.add(type(value), value.shape, value.strides, str(value.dtype), value.flags.writeable)
    if value.dtype == object:
        look.pending += value.ravel().tolist()
    elif value.dtype.hasobject or value.nbytes > look.most_bytes:
        raise Unclear
    else:
        look.parts.append(value.tobytes())
    add_attributes(look, value)


def _is_tensor(value: Any) -> bool:
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return tensor is not None and isinstance(value, tensor)


def _tensor(look: Look, value: Any) -> None:
    torch = sys.modules["torch"]
    look.settings("torch")
    if value.layout is not torch.strided or value.device.type == "meta" or value.numel() * value.element_size() > look.most_bytes:
        raise Unclear
    elements = tensor_bytes(value)
    if elements is None:
        raise Unclear
    look.add(type(value), tuple(value.shape), value.stride(), value.dtype, str(value.device), value.requires_grad)
    look.parts.append(elements.tobytes())
    add_attributes(look, value)


def tensor_bytes(value: Any) -> np.ndarray[Any, np.dtype[np.uint8]] | None:
    """The elements of a torch tensor as bytes, shared with it where that can be; None for one whose elements do not lie side by side
    (sparse, quantized) or nowhere."""
    torch = sys.modules["torch"]
    if value.layout is not torch.strided or value.device.type == "meta" or value.is_quantized:
        return None
    data = value.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1)
    found: np.ndarray[Any, np.dtype[np.uint8]] = data.view(torch.uint8).numpy()
    return found


# ---- containers and other objects of Python's own


_PARTS: Final[dict[type, Callable[[Any], list[Any]]]] = {
    **CONTAINERS,
    bytearray: lambda value: [bytes(value)],
    memoryview: lambda value: [value.format, value.shape, value.tobytes()],
    array.array: lambda value: [value.typecode, value.tobytes()],
    range: lambda value: [value.start, value.stop, value.step],
    slice: lambda value: [value.start, value.stop, value.step],
    property: lambda value: [value.fget, value.fset, value.fdel],
    staticmethod: lambda value: [value.__func__],
    classmethod: lambda value: [value.__func__],
    types.MappingProxyType: gc.get_referents,
    types.SimpleNamespace: lambda value: [vars(value)],
    types.MethodWrapperType: lambda value: [value.__name__, value.__self__],
    type({}.keys()): lambda value: [value.mapping],
    type({}.values()): lambda value: [value.mapping],
    type({}.items()): lambda value: [value.mapping],
    operator.attrgetter: lambda value: list(value.__reduce__()[1]),
    operator.itemgetter: lambda value: list(value.__reduce__()[1]),
    functools._lru_cache_wrapper: lambda value: [value.__wrapped__],
}
"""What objects of these very classes hold."""

_BASES: Final[tuple[tuple[type, Callable[[Any], list[Any]]], ...]] = (
    (int, lambda value: [int.__index__(value)]),
    (float, lambda value: [float.__repr__(value)]),
    (complex, lambda value: [complex.__repr__(value)]),
    (str, lambda value: [str.__str__(value)]),
    (bytes, lambda value: [bytes.__repr__(value)]),
    (bytearray, lambda value: [bytearray.__repr__(value)]),
    *CONTAINERS.items(),
    (property, _PARTS[property]),
    (types.SimpleNamespace, _PARTS[types.SimpleNamespace]),
    (BaseException, lambda value: [value.args]),
)
"""What objects of classes made from these hold beside their attributes."""


def object_of(look: Look, value: Any, kind: type) -> None:
    """An object by its class, its attributes and slots, and what a class of Python's that it was made from holds. Objects that are hashed
    by identity are told apart by it."""
    look.parts.append(look.itself(value) if _is_hashed_by_identity(kind) else Same(kind))
    _check_memory(kind)
    for base, parts in _BASES:
        if isinstance(value, base):
            look.pending += parts(value)
            break
    add_attributes(look, value)
    look.pending.append(kind)


def _is_hashed_by_identity(kind: type) -> bool:
    """Found without asking the class, which may make something for whoever asks."""
    return next(vars(above)["__hash__"] for above in kind.__mro__ if "__hash__" in vars(above)) is object.__hash__


def add_attributes(look: Look, value: Any) -> None:
    """The attributes and slots of an object."""
    held = attributes_of(value)
    if held:
        look.pending.append(held)
    for _, name, content in slots_of(value):
        look.parts.append(name)
        look.pending += [] if content is MISSING else [content]


def _check_memory(kind: type) -> None:
    """Raises Unclear where objects of a class hold more than its attributes, its slots and the bases known here say."""
    known = {object, *(base for base, _ in _BASES), np.ndarray}
    for above in kind.__mro__:
        if above in known or above.__base__ is None:
            continue
        slots = sum(isinstance(content, types.MemberDescriptorType) for content in vars(above).values())
        of_python = ("__dict__" in vars(above)) + ("__weakref__" in vars(above))
        if above.__basicsize__ - above.__base__.__basicsize__ > (slots + of_python) * _POINTER_BYTES:
            raise Unclear
