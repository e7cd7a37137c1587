"""What decides on the kernel of a call: keys made of its arguments.

In: the arguments of a call. Out: keys that are equal where the same kernel serves; tensors by shape, strides and element type, constants by
type and value.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any, Final

import numpy as np

from zellige.diagnostics import catalogue
from zellige.dtypes import DType, UnknownDType, dtype as as_dtype
from zellige.frontend import arithmetic
from zellige.frontend.dependencies import Same, content_of
from zellige.frontend.parameters import GivenTensor
from zellige.frontend.specs import PointerSpec, TensorSpec
from zellige.runtime.arrays import UnusableArray, hint_for_traced, view_of


def call_key(args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """What decides on the kernel of a call: shapes, strides and types of tensors, the values of constants. None: not told so simply."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    key: list[Any] = []
    for value in args:
        kind = type(value)
        if kind is np.ndarray:
            dtype = value.dtype
            if not dtype.isbuiltin:  # those that are have a number of their own, which is much quicker to compare
                return None
            key.append((value.shape, value.strides, dtype.num))
        elif kind is tensor:
            try:
                key.append((value.shape, value.stride(), value.dtype, value.device))
            except RuntimeError:  # it has no shape or no strides: a nested or a sparse one
                return None
        elif kind is int or kind is bool or kind is str:
            key.append((kind, value))
        else:
            return None
    return tuple(key)


def given_tensor(value: Any) -> GivenTensor | None:
    """The shape, strides and element type of a tensor or of ``T.Tensor(shape, dtype)`` in its place; None for anything else."""
    try:
        return _tensor_in(value)
    except UnusableArray:
        return None


def tensor_of(name: str, value: Any) -> GivenTensor | None:
    """As :func:`given_tensor`, of the argument in a place that takes tensors. E616 for an array that no kernel can use: it is no constant
    either, since it may hold something else at the next call."""
    try:
        return _tensor_in(value)
    except UnusableArray as error:
        raise catalogue.E616.error(name=name, reason=str(error), hint=error.hint) from error


def _tensor_in(value: Any) -> GivenTensor | None:
    if value is None or isinstance(value, (bool, int, float, str, DType, type, PointerSpec)):
        return None
    if isinstance(value, TensorSpec):
        if value.shape is None:
            return None
        shape = tuple(int(s) for s in value.shape)
        strides = _dense(shape) if value.strides is None else tuple(int(s) for s in value.strides)
        return GivenTensor(shape=shape, dtype=as_dtype(value.dtype.name), strides=strides)
    view = view_of(value)
    if view is None:
        return None
    return GivenTensor(shape=tuple(view.shape), dtype=view.dtype, strides=tuple(view.strides), packing=view.packing)


def check_absence(name: str, value: Any) -> None:
    """E603 for what stands in a tensor's place and is none; None and specifications stand for tensors that are not there."""
    if value is not None and value is not inspect.Parameter.empty and not isinstance(value, (TensorSpec, PointerSpec)):
        raise catalogue.E603.error(name=name, expected="here", given=arithmetic.describe(value), hint=hint_for_traced(value))


def check_number(name: str, annotation: Any, value: Any) -> None:
    """E612 for a tensor in the place of a parameter that Python's int, float or bool annotates."""
    if any(annotation is number for number in (int, float, bool)) and given_tensor(value) is not None:
        hint = "pass a Python number, for a tensor of one element value.item()"
        raise catalogue.E612.error(name=name, dtype=annotation.__name__, given=arithmetic.describe(value), hint=hint)


def _dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


_DEEPEST: Final = 50
"""How deep containers and objects may nest in a constant argument."""


def freeze(function: str, name: str, value: Any, unclear: list[Any], above: tuple[int, ...] = ()) -> Any:
    """A constant argument as part of a key: numbers by type and value, everything else by type and content, what holds itself by where it
    does; objects that are hashed by identity also by that. What an object's own ``__eq__`` says does not count.

    ``above`` are the containers and objects that hold the value, by identity. To ``unclear`` goes a value whose content cannot be seen: its
    key tells who it is and not what it holds. E150: a value that cannot be told apart, or nests too deep.
    """
    kind = type(value)
    if kind in (bool, int, float, complex, str, bytes, type(None)):
        return (kind.__name__, repr(value) if kind is float or kind is complex else value)
    if id(value) in above:
        return ("above", above.index(id(value)))
    if len(above) == _DEEPEST:
        raise catalogue.E150.error(name=name, function=function, given=f"a value that nests more than {_DEEPEST} deep")
    inside = (*above, id(value))
    if isinstance(value, (dict, list, tuple, set, frozenset)):
        parts = [part for pair in value.items() for part in pair] if isinstance(value, dict) else list(value)
        is_exact = kind in (dict, list, tuple, set, frozenset)
        return (kind, tuple(freeze(function, name, v, unclear, inside) for v in parts), None if is_exact else _content(value, unclear))
    if isinstance(value, type):
        return ("type", value, _content(value, unclear))
    try:
        return ("dtype", as_dtype(value).name)
    except UnknownDType:
        pass
    if given_tensor(value) is not None:
        hint = f"{function} makes a kernel from sizes and options: call it with those, and what it returns with the tensors"
        raise catalogue.E150.error(name=name, function=function, given="a tensor", hint=hint)
    own_hash: Any = getattr(kind, "__hash__", None)
    by_identity = own_hash is getattr(object, "__hash__", None)
    if (own_hash is None or by_identity) and not callable(value):
        attributes = getattr(value, "__dict__", {})
        if not isinstance(attributes, dict) or (own_hash is None and content_of(value) is None):
            raise catalogue.E150.error(name=name, function=function, given=f"an unhashable {kind.__name__}")
        for attribute, held in attributes.items():
            freeze(function, f"{name}.{attribute}", held, unclear, inside)
    return (kind, _content(value, unclear))


def _content(value: Any, unclear: list[Any]) -> Any:
    found = content_of(value)
    if found is None:
        unclear.append(value)
        return Same(value)
    return found
