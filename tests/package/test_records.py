"""Classes of zellige.records behave as the library's dataclasses of the same text do."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import sys
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import pytest

from zellige import records

FLAGS = [
    {"frozen": frozen, "slots": slots, "kw_only": kw_only, "eq": eq}
    for frozen in (False, True)
    for slots in (False, True)
    for kw_only in (False, True)
    for eq in (False, True)
]
Decorator = Callable[..., Any]


def plain(decorate: Decorator) -> Any:
    @decorate
    class Point:
        """With and without defaults."""

        first: int
        second: Any = 2
        third: list[int] = field(default_factory=list)

    return Point


def single(decorate: Decorator) -> Any:
    @decorate
    class Single:
        """Its one field is compared as a tuple is."""

        value: Any

    return Single


def empty(decorate: Decorator) -> Any:
    @decorate
    class Empty:
        """Nothing to compare."""

    return Empty


def partly(decorate: Decorator) -> Any:
    @decorate
    class Partly:
        """Fields that are neither shown nor compared, nor given; a value of the class; a part that is computed."""

        name: str
        place: Any = field(default=None, compare=False)
        secret: int = field(default=7, repr=False)
        made: list[int] = field(init=False, default_factory=lambda: [1])
        known: int = field(init=False, default=3)
        number: ClassVar[int] = 5

        def __post_init__(self) -> None:
            self.made.append(len(self.name))

        @property
        def length(self) -> int:
            return len(self.name)

    return Partly


def written(decorate: Decorator) -> Any:
    @decorate
    class Written:
        """Methods of its own stay."""

        value: int

        def __repr__(self) -> str:
            return f"<{self.value}>"

        def __hash__(self) -> int:
            return 42

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and abs(self.value - other.value) < 2

    return Written


def both(make: Callable[[Decorator], Any], flags: dict[str, bool]) -> tuple[Any, Any]:
    return make(dataclasses.dataclass(**flags)), make(records.dataclass(**flags))  # type: ignore[call-overload]


def outcome(do: Callable[[], Any]) -> Any:
    """What a call gives, or how it fails."""
    try:
        return do()
    except Exception as error:  # noqa: BLE001 - the two are compared
        return type(error), str(error)


@pytest.mark.parametrize("flags", FLAGS, ids=lambda flags: "-".join(name for name, value in flags.items() if value) or "none")
@pytest.mark.parametrize(
    "make,values",
    [
        (plain, [{"first": 1}, {"first": 1}, {"first": 1, "second": 3, "third": [4]}, {"first": float("nan")}]),
        (single, [{"value": 1}, {"value": True}, {"value": (1,)}, {"value": float("nan")}]),
        (empty, [{}, {}]),
        (partly, [{"name": "a"}, {"name": "a", "place": 9}, {"name": "b", "secret": 8}]),
        (written, [{"value": 1}, {"value": 2}, {"value": 9}]),
    ],
)
def test_it_is_what_the_library_makes(make: Callable[[Decorator], Any], values: list[dict[str, Any]], flags: dict[str, bool]) -> None:
    theirs, ours = both(make, flags)
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    assert [f.name for f in dataclasses.fields(ours)] == [f.name for f in dataclasses.fields(theirs)]
    assert getattr(ours, "__match_args__", None) == theirs.__match_args__
    assert repr(ours.__dataclass_params__) == repr(theirs.__dataclass_params__)
    assert vars(ours).get("__slots__") == vars(theirs).get("__slots__")
    assert ours.__doc__ == theirs.__doc__
    made = [(ours(**given), theirs(**given)) for given in values]
    for one, other in made:
        assert repr(one) == repr(other)
        assert dataclasses.asdict(one) == dataclasses.asdict(other) or "nan" in repr(one)
        assert one == one  # noqa: PLR0124
        if flags["eq"] and (flags["frozen"] or make is written):
            assert outcome(lambda one=one: hash(one)) == outcome(lambda other=other: hash(other))  # type: ignore[misc]
        else:
            assert (type(one).__hash__ is None) == (type(other).__hash__ is None)
    found = [[a == b for b, _ in made] for a, _ in made]
    assert found == [[a == b for _, b in made] for _, a in made]
    assert made[0][0] != made[0][1]
    changed = next(iter(values[0]), None)
    if changed is not None:
        assert repr(dataclasses.replace(made[0][0], **{changed: "x"})) == repr(dataclasses.replace(made[0][1], **{changed: "x"}))
    assert repr(copy.deepcopy(made[0][0])) == repr(made[0][0])
    names = [f.name for f in dataclasses.fields(theirs)]
    if not (flags["frozen"] and flags["slots"]):
        names.append("nothing")  # the library of Python 3.11 fails there with TypeError, since it looks for the class that had no slots
    for one, other in made:
        for name in names:
            assert outcome(lambda: setattr(one, name, 1)) == outcome(lambda: setattr(other, name, 1))  # noqa: B023
            assert outcome(lambda: delattr(one, name)) == outcome(lambda: delattr(other, name))  # noqa: B023
            assert outcome(lambda: repr(one)) == outcome(lambda: repr(other))  # noqa: B023


def test_no_other_attribute_comes_into_a_frozen_one() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Kept(value=1).nothing = 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("flags", FLAGS[:4])
@pytest.mark.parametrize("given", [(), (1, 2, [3], 4), (1,)])
def test_arguments_that_do_not_fit_fail_alike(given: tuple[Any, ...], flags: dict[str, bool]) -> None:
    theirs, ours = both(plain, flags)
    assert str(outcome(lambda: ours(*given))).replace("test_records.", "") == str(outcome(lambda: theirs(*given))).replace(
        "test_records.", ""
    )
    assert type(outcome(lambda: ours(first=1, other=2))) is type(outcome(lambda: theirs(first=1, other=2)))


@records.dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """For pickling, which finds classes by name."""

    value: int
    inner: Any = None


def test_it_is_pickled_and_copied() -> None:
    one = Kept(value=1, inner=[Kept(value=2)])
    assert pickle.loads(pickle.dumps(one)) == one
    again = copy.deepcopy(one)
    assert again == one
    assert again.inner is not one.inner
    assert copy.copy(one) == one


def test_what_holds_itself_is_shown() -> None:
    inner: list[Any] = []
    one = Kept(value=1, inner=inner)
    inner.append(one)
    assert repr(one) == "Kept(value=1, inner=[...])"


def test_fields_are_inherited() -> None:
    def less(decorate: Decorator) -> Any:
        @decorate
        class Less:
            """A field, one for keywords, and what it does when it is made."""

            value: int
            inner: Any = field(default=None, kw_only=True)

            def __post_init__(self) -> None:
                assert self.value

        return Less

    def more(decorate: Decorator, below: Any) -> Any:
        @decorate
        class More(below):  # type: ignore[misc]
            """With another default, and a field more."""

            inner: Any = 3
            other: int = 2

        return More

    for flags in FLAGS:
        theirs, ours = (more(made, less(made)) for made in (dataclasses.dataclass(**flags), records.dataclass(**flags)))  # type: ignore[call-overload]
        assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
        if sys.version_info >= (3, 11):  # before, the library gives fields that have slots another one
            assert vars(ours).get("__slots__") == vars(theirs).get("__slots__")
        assert ours.__match_args__ == theirs.__match_args__
        one, other = ours(value=1), theirs(value=1)
        assert repr(one) == repr(other)
        assert dataclasses.asdict(one) == dataclasses.asdict(other) == {"value": 1, "inner": 3, "other": 2}
        for name in ("value", "other"):
            assert outcome(lambda: setattr(one, name, 1)) == outcome(lambda: setattr(other, name, 1))  # noqa: B023
        with pytest.raises(AssertionError):
            ours(value=0)
    with pytest.raises(TypeError, match="cannot inherit non-frozen"):
        records.dataclass(type("Less", (Kept,), {}))


def test_an_ordinary_class_above_may_have_attributes() -> None:
    class Free(Kept):
        pass

    made: Any = Free(value=1)
    made.note = 5
    assert made.note == 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.value = 3
    del made.note
    with pytest.raises(dataclasses.FrozenInstanceError):
        del made.value


def test_what_is_out_of_the_ordinary_is_the_librarys() -> None:
    @records.dataclass(frozen=True, slots=True)
    class Odd:
        """A parameter that is no field, and one after which all are for keywords."""

        given: dataclasses.InitVar[int]
        _: dataclasses.KW_ONLY
        value: int = 0

        def __post_init__(self, given: int) -> None:
            object.__setattr__(self, "value", given)

    assert Odd(3).value == 3  # type: ignore[call-arg]
    assert str(inspect.signature(Odd)) == "(given: 'dataclasses.InitVar[int]', *, value: 'int' = 0) -> None"
    with pytest.raises(ValueError, match="mutable default"):
        records.dataclass(type("Shared", (), {"__annotations__": {"value": "list"}, "value": []}))
    with pytest.raises(TypeError, match="no type annotation"):
        records.dataclass(type("Bare", (), {"value": field()}))
    with pytest.raises(TypeError, match="non-default argument 'second' follows default argument"):
        records.dataclass(type("Order", (), {"__annotations__": {"first": "int", "second": "int"}, "first": 1}))
    with pytest.raises(TypeError, match="overwrite"):

        @records.dataclass(frozen=True)
        class Setting:
            value: int

            def __setattr__(self, name: str, value: object) -> None: ...


def test_an_initialiser_is_written_when_it_is_looked_for() -> None:
    @records.dataclass(frozen=True, slots=True)
    class Late:
        """Of which no object was made."""

        value: int = 1

    assert not inspect.isfunction(vars(Late)["__init__"])
    assert Late.__init__.__qualname__.endswith("Late.__init__")  # type: ignore[misc]
    assert inspect.isfunction(vars(Late)["__init__"])
    assert Late().value == 1
