"""A jit function called again sees what changed in anything that its trace reads, and what an argument holds."""

from __future__ import annotations

import array
import builtins
import collections
import dataclasses
import enum
import functools
import itertools
import logging
import os
import random
import time
import types
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.cache.identity import identity_of
from zellige.frontend.dependencies import Dependencies

Read = Callable[[], Any]


class Base:
    level = 1


class Derived(Base):
    @property
    def by_property(self) -> int:
        return self.level

    @classmethod
    def by_class(cls) -> int:
        return cls.level

    @staticmethod
    def by_static() -> int:
        return Base.level


class Slotted:
    __slots__ = ("level",)

    def __init__(self) -> None:
        self.level = 1


@dataclasses.dataclass(slots=True)
class Record:
    level: int = 1


class Meta(type):
    level = 1

    @property
    def by_meta(cls) -> int:
        return type(cls).level


class WithMeta(metaclass=Meta):
    pass


class Descriptor:
    def __get__(self, instance: object, owner: type | None = None) -> int:
        return Base.level


class Described:
    level = Descriptor()


class OwnList(list):  # type: ignore[type-arg]
    pass


class Missing(dict):  # type: ignore[type-arg]
    default = 1

    def __missing__(self, key: object) -> int:
        return self.default


class Callee:
    def __init__(self) -> None:
        self.level = 1

    def __call__(self) -> int:
        return self.level


def with_attribute() -> int:
    return int(with_attribute.level)  # type: ignore[attr-defined]


def with_default(parts: list[int] = [1]) -> int:  # noqa: B006
    return parts[0]


def with_keyword(*, level: int = 1) -> int:
    return level


class OwnModule(types.ModuleType):
    @property
    def level(self) -> int:
        return int(vars(self)["held"])


own_module = OwnModule("another_module_of_the_user")
derived, slotted, record, own_list, missing, callee = Derived(), Slotted(), Record(), OwnList([1]), Missing(), Callee()
numbers, queue, order = np.array([1, 2]), collections.deque([1]), collections.OrderedDict([(1, 0), (9, 0)])
objects = np.array([[1], [2]], dtype=object)
raw, packed, seen = bytearray([1]), array.array("i", [1]), memoryview(bytearray([1]))
mapping = {"level": 1}
proxy, values = types.MappingProxyType(mapping), mapping.values()
namespace, bound, factory = types.SimpleNamespace(level=1), own_list.__getitem__, collections.defaultdict(int, level=1)
partial = functools.partial(lambda parts: parts[0], own_list)
module = types.ModuleType("a_module_of_the_user")
exec(
    "def read(): return level\ndef __getattr__(name):\n    if name == 'computed': return level\n    raise AttributeError(name)",
    vars(module),
)
attribute = "level"


def made_later(name: str) -> Read:
    """A function that takes a name of its module, or a built-in one, where there is one, and 1 before."""
    space: dict[str, Any] = {"__name__": "a_module_of_the_user"}
    exec(f"def read():\n    try:\n        return {name}\n    except NameError:\n        return 1", space)
    found: Read = space["read"]
    return found


def _attribute_made_later() -> int:
    try:
        return int(module.later)
    except AttributeError:
        return 1


later, later_built_in = made_later("a_later_level"), made_later("a_later_level_of_builtins")

logger = logging.getLogger("a_logger_of_the_user.inner")

READS: dict[str, Read] = {
    "level of a logger above": lambda: logger.getEffectiveLevel(),
    "whether a logger listens": lambda: 1 if logger.isEnabledFor(5) else 9,
    "whether a logger is shut": lambda: 1 if not logger.disabled else 9,
    "print options": lambda: len(str(numbers[1:] / 3)) - len("[0.]"),
    "print options of a function": lambda: len(np.array2string(np.arange(1) + 1 / 3)) - len("[0.]"),
    "errors of NumPy": lambda: 9 if _raises() else 1,
    "name made later": later,
    "built-in name made later": later_built_in,
    "attribute of a module made later": _attribute_made_later,
    "attribute that a module computes": lambda: module.computed,
    "property of a module": lambda: own_module.level,
    "array": lambda: numbers[0],
    "array of objects": lambda: objects[0][0],
    "class": lambda: Base.level,
    "inherited": lambda: Derived.level,
    "property": lambda: derived.by_property,
    "class method": lambda: Derived.by_class(),
    "static method": lambda: derived.by_static(),
    "slots": lambda: slotted.level,
    "slots of a dataclass": lambda: record.level,
    "metaclass": lambda: WithMeta.by_meta,
    "descriptor": lambda: Described().level,
    "subclass of list": lambda: own_list[0],
    "attribute of a subclass of dict": lambda: missing["a"],
    "callable object": lambda: callee(),
    "deque": lambda: queue[0],
    "order": lambda: next(iter(order)),
    "bytearray": lambda: raw[0],
    "array of Python's": lambda: packed[0],
    "memoryview": lambda: seen[0],
    "mapping proxy": lambda: proxy["level"],
    "view of a dict": lambda: list(values)[0],
    "defaultdict": lambda: factory["level"],
    "namespace": lambda: namespace.level,
    "bound method": lambda: bound(0),
    "partial": lambda: partial(),
    "attribute of a module": lambda: module.level,
    "function of a module": lambda: module.read(),
    "attribute of a module by text": lambda: getattr(module, attribute),
    "attribute of a function": with_attribute,
    "default": lambda: with_default(),
    "keyword default": lambda: with_keyword(),
    "environment": lambda: int(os.getenv("A_LEVEL_OF_THE_USER") or 0),
    "environment by name": lambda: int(os.environ["A_LEVEL_OF_THE_USER"]),
    "built-in name": lambda: a_level_of_builtins,  # type: ignore[name-defined]  # noqa: F821
}


def _raises() -> bool:
    try:
        return bool(np.array(1.0) / np.array(0.0) < 0)
    except FloatingPointError:
        return True


def change(level: int) -> None:
    logging.getLogger("a_logger_of_the_user").setLevel(level)
    logger.disabled = level == 9
    np.set_printoptions(precision=level)
    np.seterr(divide="raise" if level == 9 else "ignore")
    Base.level = slotted.level = record.level = Meta.level = missing.default = callee.level = level
    numbers[0] = objects[0][0] = own_list[0] = queue[0] = raw[0] = packed[0] = seen[0] = level
    mapping["level"] = factory["level"] = namespace.level = module.level = with_attribute.level = level  # type: ignore[attr-defined]
    vars(own_module)["held"] = level
    if level > 1:
        module.later = later.__globals__["a_later_level"] = builtins.a_later_level_of_builtins = level  # type: ignore[attr-defined]
    order.move_to_end(level, last=False)
    with_default.__defaults__[0][0] = level  # type: ignore[index]
    with_keyword.__kwdefaults__["level"] = level
    os.environ["A_LEVEL_OF_THE_USER"] = str(level)
    builtins.a_level_of_builtins = level  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def _restored() -> Any:
    with np.errstate(), np.printoptions():
        yield
    logging.getLogger("a_logger_of_the_user").setLevel(logging.NOTSET)
    logger.disabled = False
    os.environ.pop("A_LEVEL_OF_THE_USER", None)
    for space in (vars(builtins), vars(module), later.__globals__):  # type: ignore[attr-defined]
        for name in ("a_level_of_builtins", "a_later_level_of_builtins", "later", "a_later_level"):
            space.pop(name, None)


def reading(read: Read, target: str = "interp", **options: Any) -> Any:
    @zl.jit(target=target, **options)
    def read_once(A):  # type: ignore[no-untyped-def]
        A: T.Tensor((1,), "int32")
        B = T.empty((1,), "int32")
        with T.Kernel(1):
            B[0] = A[0] + int(read())
        return B

    return read_once


ZERO = np.zeros(1, np.int32)


@pytest.mark.parametrize("name", READS)
def test_a_change_is_seen_and_no_change_keeps_the_state(name: str) -> None:
    change(1)
    function = reading(READS[name])
    assert [int(function(ZERO)[0]) for _ in range(3)] == [1, 1, 1]
    before = Dependencies.of(function.function).state
    assert before == Dependencies.of(function.function).state, "an unchanged function would be traced at every call"
    change(9)
    assert before != Dependencies.of(function.function).state
    assert [int(function(ZERO)[0]) for _ in range(3)] == [9, 9, 9]


@pytest.mark.parametrize("name", ["array", "class", "slots", "callable object"])
def test_a_later_call_of_a_kernel_kept_on_disk_sees_it_too(name: str) -> None:
    change(1)
    assert int(reading(READS[name], "cpu")(ZERO)[0]) == 1
    change(9)
    assert int(reading(READS[name], "cpu")(ZERO)[0]) == 9


def test_elements_of_a_torch_tensor_are_seen() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    tensor, half = torch.tensor([1, 2]), torch.ones(2, dtype=torch.bfloat16)
    function = reading(lambda: tensor[0] + half[0])
    assert int(function(ZERO)[0]) == 2
    tensor.numpy()[0] = 9  # by a view, which no counter of the tensor's sees
    half[0] = 4
    assert int(function(ZERO)[0]) == 13


def test_settings_of_torch_are_seen() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    modes = (torch.is_grad_enabled(), torch.get_default_dtype())
    functions = {
        "gradients": reading(lambda: 1 if torch.is_grad_enabled() else 9),
        "gradients of a result": reading(lambda: 1 if torch.ones(1, requires_grad=True).sum().requires_grad else 9),
        "element type": reading(lambda: 1 if torch.zeros(1).dtype is torch.float32 else 9),
    }
    try:
        assert {name: int(function(ZERO)[0]) for name, function in functions.items()} == dict.fromkeys(functions, 1)
        state = Dependencies.of(functions["element type"].function).state
        assert state == Dependencies.of(functions["element type"].function).state
        torch.set_grad_enabled(False)
        torch.set_default_dtype(torch.float64)
        assert {name: int(function(ZERO)[0]) for name, function in functions.items()} == dict.fromkeys(functions, 9)
    finally:
        torch.set_grad_enabled(modes[0])
        torch.set_default_dtype(modes[1])


def test_a_logger_that_is_looked_up_is_seen() -> None:
    change(1)
    function = reading(lambda: logging.getLogger("a_logger_of_the_user").level)
    assert int(function(ZERO)[0]) == 1
    change(9)
    assert int(function(ZERO)[0]) == 9


def test_a_long_array_is_traced_anew() -> None:
    long = np.zeros(1 << 20, np.int32)
    function = reading(lambda: long[-1])
    assert int(function(ZERO)[0]) == 0
    long[-1] = 9
    assert int(function(ZERO)[0]) == 9


@pytest.mark.parametrize("kind", ["iterator", "generator", "chance", "chance of NumPy", "chance of one's own", "clock"])
def test_what_gives_something_else_each_time_is_read_each_time(kind: str) -> None:
    count, made, own = itertools.count(), (i for i in range(10)), random.Random(1)
    reads: dict[str, Read] = {
        "iterator": lambda: next(count),
        "generator": lambda: next(made),
        "chance": lambda: random.randint(0, 10**9),
        "chance of NumPy": lambda: np.random.randint(0, 10**9),
        "chance of one's own": lambda: own.randint(0, 10**9),
        "clock": lambda: time.perf_counter_ns() % 10**9,
    }
    function = reading(reads[kind])
    assert len({int(function(ZERO)[0]) for _ in range(4)}) == 4


class OfRaisingClass(metaclass=type("Raising", (type,), {"__module__": property(lambda cls: 1 / 0)})):
    pass


def named(kind: Any, name: Any) -> Any:
    kind.__module__ = name
    return kind


ODD: dict[str, Any] = {
    "a class of a class that raises": OfRaisingClass,
    "an object of a class of no module": named(type("Odd", (), {}), None)(),
    "a class of a module called 5": named(type("Odd", (), {}), 5),
    "an object that hides its attributes": type("Odd", (), {"__dict__": property(lambda self: 1 / 0)})(),
    "a module called 3": types.ModuleType("odd"),
    "a module that raises": type("Odd", (types.ModuleType,), {"__getattr__": lambda self, name: 1 / 0})("odd"),
    "an object that makes what it is asked for": MagicMock(),
}
ODD["a module called 3"].__name__ = 3


@pytest.mark.parametrize("name", ODD)
def test_objects_that_do_not_let_themselves_be_looked_at_are_nobodys_failure(name: str) -> None:
    """Kernels and passes that hold them are made; whoever cannot be looked at is traced each time."""
    function = reading(lambda: (5, ODD[name])[0])
    assert [int(function(ZERO)[0]) for _ in range(2)] == [5, 5]
    odd = ODD[name]
    started = time.process_time()
    text = identity_of(lambda kernel: (kernel, odd)[0])
    assert isinstance(text, str) and text and time.process_time() - started < 5
    zl.compile(empty, target="interp", passes=[lambda kernel: (kernel, odd)[0]])


@T.prim_func
def empty(A: T.Tensor((1,), "int32")):
    with T.Kernel(1):
        A[0] = 0


def test_force_compile_traces_and_compiles_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    traces: list[int] = []
    function = reading(lambda: (traces.append(1), 5)[1], "cpu", force_compile=True)
    assert [int(function(ZERO)[0]) for _ in range(3)] == [5, 5, 5]
    assert len(traces) == 3
    kernels = {id(kernel): kernel for kernel in (function.compile(ZERO) for _ in range(2))}
    assert len({id(kernel._default.compiled) for kernel in kernels.values()}) == 2


def test_a_kernel_of_names_and_numbers_is_found_by_looking_at_places() -> None:
    half = T.float16

    @zl.jit(target="interp")
    def plain(A):  # type: ignore[no-untyped-def]
        A: T.Tensor((1,), "int32")
        B = T.empty((1,), "int32")
        with T.Kernel(1):
            for _ in range(1):
                B[0] = T.max(A[0], 0) + int(half == T.float16) + len("a")
        return B

    plain(ZERO)
    plain(ZERO)
    assert Dependencies.of(plain.function).is_settled


# ---- arguments


class Equal:
    def __init__(self, level: int) -> None:
        self.level = level

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


class Kind(enum.IntEnum):
    ONE = 1


@dataclasses.dataclass(frozen=True)
class Config:
    level: int


@zl.jit(target="interp", out_idx=-1)
def lazily(read):  # type: ignore[no-untyped-def]
    @T.prim_func
    def kernel(A: T.Tensor((1,), "int32"), B: T.Tensor((1,), "int32")):  # type: ignore[valid-type]
        with T.Kernel(1):
            B[0] = A[0] + (read() if callable(read) else read[0] if isinstance(read, collections.deque) else read.level)

    return kernel


def test_arguments_are_told_apart_by_content_and_not_by_what_they_say() -> None:
    assert [int(lazily(Equal(level))(ZERO)[0]) for level in (1, 2, 1)] == [1, 2, 1]


def test_equal_configurations_share_a_kernel() -> None:
    assert lazily(Config(3)) is lazily(Config(3))
    assert lazily(Config(3)) is not lazily(Config(4))


def test_changes_inside_an_argument_are_seen() -> None:
    change(1)
    held = collections.deque([1])
    assert [int(lazily(read)(ZERO)[0]) for read in (callee, slotted, held)] == [1, 1, 1]
    change(9)
    held[0] = 9
    assert [int(lazily(read)(ZERO)[0]) for read in (callee, slotted, held)] == [9, 9, 9]
    assert lazily(callee) is lazily(callee)
