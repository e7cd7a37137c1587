"""Which passes of a user's are told apart by the keys of the cache, and which are the same in another process."""

from __future__ import annotations

import enum
import functools
import os
import re
import subprocess
import sys
import threading
import types
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.cache.identity import identity_of
from zellige.cache.keys import UNTOLD
from zellige.ir.expr import Const
from zellige.ir.stmt import Fill, Kernel
from zellige.ir.traverse import rewrite

other = types.ModuleType("other_module_of_passes")
vars(other).update(FACTOR=2.0)


@dataclass
class Holder:
    """A pass with one value, which its text does not show."""

    value: Any = field(repr=False)
    name: str = "holder"

    def __call__(self, kernel: Any) -> Any:
        return kernel, self.value


class Spelt(Holder):
    def __repr__(self) -> str:
        return "always the same"


class Below:
    __slots__ = ("value",)


class Slotted(Below):
    __slots__ = ()

    def __init__(self, value: Any) -> None:
        self.value = value

    def __call__(self, kernel: Any) -> Any:
        return kernel, self.value


class Scaled:
    def __init__(self, function: Any, factor: float) -> None:
        self.function, self.factor = function, factor

    def __call__(self, kernel: Any) -> Any:
        return self.function(kernel) * self.factor


class Bound(functools.partial):  # type: ignore[type-arg]
    pass


class Equal:
    """Equal to all others."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, compared: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


class Number(int):
    def __repr__(self) -> str:
        return "a number"


Named = namedtuple("Named", "value")  # noqa: PYI024


def plain(kernel: Any, **more: Any) -> Any:
    return kernel, more


def array_with(value: float) -> Any:
    made = np.zeros(3000)
    made[1500] = value
    return made


def bound_with(value: float) -> Any:
    made = Bound(plain)
    made.value = value  # type: ignore[attr-defined]
    return made


def class_with(value: float) -> Any:
    class Made:
        def value(self) -> float:
            return value

        def __call__(self, kernel: Any) -> Any:
            return kernel, self.value()

    return Made()


def wrapped_with(value: float) -> Any:
    @functools.wraps(plain)
    def made(kernel: Any) -> Any:
        return plain(kernel), value

    return made


def nested_with(value: float) -> Any:
    def inner() -> float:
        return value

    return lambda kernel: (kernel, inner())


def ring_with(value: float) -> Any:
    made: list[Any] = [value]
    made.append(made)
    return made


MAKERS: dict[str, Callable[[float], Any]] = {
    "a long array": lambda v: Holder(array_with(v)),
    "a close number": lambda v: Holder(np.array([1 + v * 1e-12])),
    "an array of objects": lambda v: Holder(np.array([1, v], object)),
    "a dtype": lambda v: Holder(np.dtype("float32" if v == 2.0 else "float64")),
    "a scalar": lambda v: Holder(np.float32(v)),
    "a field without repr": Holder,
    "the same inside": lambda v: Holder(Holder(v)),
    "an own repr": Spelt,
    "a slot of a base": Slotted,
    "beside an attribute called function": lambda v: Scaled(plain, v),
    "a partial": lambda v: functools.partial(plain, factor=v),
    "an array in a partial": lambda v: functools.partial(plain, factor=array_with(v)),
    "an attribute of a partial": bound_with,
    "a closure of a method": class_with,
    "a closure of a closure": nested_with,
    "a function as default": lambda v: (lambda kernel, f=(lambda: 2.0) if v == 2.0 else (lambda: 3.0): f()),
    "a wrapper": wrapped_with,
    "a method of an object": lambda v: Spelt(v).__call__,
    "a cached function": lambda v: functools.lru_cache((lambda k: (k, 2.0)) if v == 2.0 else (lambda k: (k, 3.0))),
    "an object that equals all": lambda v: Holder(Equal(v)),
    "a number with an own repr": lambda v: Holder(Number(v)),
    "a named tuple": lambda v: Holder(Named(v)),
    "a ring": lambda v: Holder(ring_with(v)),
    "a long list": lambda v: Holder([*range(21_000), v]),
    "a set": lambda v: Holder({"a", "b", str(v)}),
    "a pattern": lambda v: Holder(re.compile("a" * 300 + str(v))),
    "a type of the language": lambda v: Holder(T.float16 if v == 2.0 else T.float32),
    "a node of the tile IR": lambda v: Holder(Const(value=v, dtype=T.float32)),
    "an integer for a float": lambda v: Holder(1 if v == 2.0 else 1.0),
    "a bool for an integer": lambda v: Holder(1 if v == 2.0 else True),
    "the sign of a zero": lambda v: Holder(0.0 if v == 2.0 else -0.0),
    "a lock": lambda v: Holder(threading.Lock()),
}


@pytest.mark.parametrize("made", MAKERS.values(), ids=MAKERS)
def test_passes_that_hold_other_values_are_others(made: Callable[[float], Any]) -> None:
    one, again = made(2.0), made(3.0)
    assert identity_of(one) != identity_of(again)
    assert identity_of(one) == identity_of(one)


SETTING, IN_TUPLE, IN_DICT = 2.0, (2.0,), {"value": 2.0}


def helper() -> float:
    return SETTING


def reads_by_a_helper(kernel: Any) -> Any:
    return kernel, helper()


def reads_a_tuple(kernel: Any) -> Any:
    return kernel, IN_TUPLE[0]


def reads_a_module(kernel: Any) -> Any:
    return kernel, other.FACTOR


def reads_by_text(kernel: Any) -> Any:
    return kernel, getattr(other, "FAC" + "TOR")


def reads_the_environment(kernel: Any) -> Any:
    return kernel, os.getenv("A_NAME_OF_PASSES")


def reads_all_names(kernel: Any) -> Any:
    return kernel, globals()["SETTING"]


def reads_its_own(kernel: Any) -> Any:
    return kernel, vars(reads_its_own)


class Reading:
    listed = [2.0]

    @property
    def by_property(self) -> float:
        return IN_DICT["value"]

    def by_method(self) -> float:
        return helper()

    def __call__(self, kernel: Any) -> Any:
        return kernel, self.by_method(), self.by_property


PLACES: dict[str, tuple[Any, Callable[[pytest.MonkeyPatch], None]]] = {
    "a name of a helper": (reads_by_a_helper, lambda m: m.setitem(globals(), "SETTING", 3.0)),
    "a name of a method's helper": (Reading(), lambda m: m.setitem(globals(), "SETTING", 3.0)),
    "the environment": (reads_the_environment, lambda m: m.setenv("A_NAME_OF_PASSES", "3")),
    "a tuple": (reads_a_tuple, lambda m: m.setitem(globals(), "IN_TUPLE", (3.0,))),
    "a module": (reads_a_module, lambda m: m.setattr(other, "FACTOR", 3.0)),
    "a module by text": (reads_by_text, lambda m: m.setattr(other, "FACTOR", 3.0)),
    "names by text": (reads_all_names, lambda m: m.setitem(globals(), "SETTING", 3.0)),
    "an attribute of the function": (reads_its_own, lambda m: m.setattr(reads_its_own, "value", 3.0, raising=False)),
    "a list of the class": (Reading(), lambda m: m.setattr(Reading, "listed", [3.0])),
    "what a property reads": (Reading(), lambda m: m.setitem(IN_DICT, "value", 3.0)),
    "a method": (Reading(), lambda m: m.setattr(Reading, "by_method", lambda self: 3.0)),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_pass_that_reads_other_values_is_another(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step, change = PLACES[place]
    before = identity_of(step)
    change(monkeypatch)
    assert identity_of(step) != before


PASSES = """
import enum, functools, math
from dataclasses import dataclass, field
import numpy as np
import zellige.language as T
from zellige.cache.identity import identity_of
from zellige.ir.expr import Const
from zellige.plugin.choices import Insert, Veto
class Kind(enum.Enum):
    A = 1
@dataclass(frozen=True)
class Filled:
    value: object
    more: dict = field(default_factory=dict)
    def __call__(self, kernel):
        return kernel if kernel in {"some", "names", "in", "a", "set"} else self.value
def written(kernel, by=2.0):
    print(kernel, np.sum(np.ones(2)), math.sqrt(by))
    return Filled(by)(kernel)
values = [2.0, np.arange(4), {"x", "y", "z"}, Kind.A, T.float16, Const(value=1.0, dtype=T.int32)]
steps = [*map(Filled, values), written, functools.partial(written, by=3.0), lambda kernel: written(kernel), Filled(1).__call__,
    (("legalise", Insert(step=written)), None), Veto(name="simplify", reason="slow")]
found = [identity_of(step) for step in steps]
"""


def test_equal_passes_of_two_processes_have_one_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "passes_of_two.py").write_text(PASSES)
    monkeypatch.syspath_prepend(tmp_path)
    import passes_of_two  # type: ignore[import-not-found]

    monkeypatch.setattr(enum.Enum.__new__, "marked", "by a library", raising=False)  # as torch does, which is loaded here or there
    found = [passes_of_two.identity_of(step) for step in passes_of_two.steps]
    assert found == passes_of_two.found
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import passes_of_two; print(passes_of_two.found)"
    environ = {**os.environ, "PYTHONHASHSEED": "7"}
    run = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True, timeout=100)
    assert run.stdout.strip() == str(passes_of_two.found)
    assert len(set(passes_of_two.found)) == len(passes_of_two.found) and not any(UNTOLD in text for text in passes_of_two.found)


class Counting:
    """A pass that changes while it runs, and what it makes with it."""

    def __init__(self) -> None:
        self.value = 1.0

    def __call__(self, kernel: Kernel) -> Kernel:
        self.value += 1.0

        def filled(node: Any) -> Any:
            return replace(node, value=Const(value=self.value, dtype=node.value.dtype)) if isinstance(node, Fill) else node

        return replace(kernel, launches=tuple(rewrite(launch, filled) for launch in kernel.launches))


def test_what_was_made_is_kept_under_what_the_passes_were_before(folder: Path, forget: Callable[[], None], steps: Any) -> None:
    @T.prim_func
    def main(A: T.Tensor((8,), "float32")):
        with T.Kernel(1) as _:
            tile = T.alloc_shared((8,), "float32")
            T.fill(tile, 1.0)
            T.copy(tile, A)

    def result(step: Any) -> float:
        a = np.zeros(8, np.float32)
        zl.compile(main, target="cpu", passes=[step])(a)
        return float(a[0])

    kept = Counting()
    assert result(kept) == 2.0 and steps.taken == (1, 1)
    assert result(kept) == 3.0 and steps.taken == (1, 1)
    forget()
    assert result(Counting()) == 2.0 and steps.taken == (0, 0)
    unlike = Counting()
    unlike.value, vars(unlike)["held"] = 1.0, threading.Lock()  # nothing made with it can be found by another process
    assert result(unlike) == 2.0 and steps.taken == (1, 1)
    assert not any(UNTOLD in path.name for path in folder.rglob("*"))
