"""The collector's settings: other ones while a kernel is compiled, the caller's before and after."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige import driver
from zellige.collector import OBJECTS, rarely_collecting
from zellige.jit import JITFunction
from zellige.kernel import JITKernel


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_the_settings_are_given_back() -> None:
    with rarely_collecting():
        assert gc.get_threshold() == (OBJECTS, 10, 10)
        with rarely_collecting():
            assert gc.get_threshold() == (OBJECTS, 10, 10)
        assert gc.get_threshold() == (OBJECTS, 10, 10)
    assert gc.get_threshold() == (700, 10, 10)
    with pytest.raises(KeyError), rarely_collecting():
        raise KeyError
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("chosen", [(0, 10, 10), (OBJECTS * 2, 5, 5)])
def test_what_the_caller_chose_stays(chosen: tuple[int, int, int]) -> None:
    gc.set_threshold(*chosen)
    with rarely_collecting():
        assert gc.get_threshold() == chosen
    assert gc.get_threshold() == chosen


def test_what_is_set_meanwhile_stays() -> None:
    with rarely_collecting():
        gc.set_threshold(1234, 10, 10)
    assert gc.get_threshold() == (1234, 10, 10)


def test_the_last_of_several_threads_gives_them_back() -> None:
    is_inside, may_leave = threading.Event(), threading.Event()

    def work() -> None:
        with rarely_collecting():
            is_inside.set()
            may_leave.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    assert is_inside.wait(60)
    with rarely_collecting():
        pass
    assert gc.get_threshold() == (OBJECTS, 10, 10)
    may_leave.set()
    thread.join(60)
    assert gc.get_threshold() == (700, 10, 10)


def test_compilations_collect_rarely(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("ZELLIGE_CACHE_DIR", str(tmp_path))
    found: list[int] = []
    compile_kernel = driver.compile_kernel

    def noted(*arguments: Any) -> Any:
        found.append(gc.get_threshold()[0])
        return compile_kernel(*arguments)

    monkeypatch.setattr(driver, "compile_kernel", noted)

    @zl.jit(target="cpu")
    def eager(A):
        A: T.Tensor((23,), "float32")
        B = T.empty((23,), "float32")
        with T.Kernel(1) as _:
            for j in T.Parallel(23):
                B[j] = A[j] + 1
        return B

    @T.prim_func
    def twice(A: T.Tensor((23,), "float32"), B: T.Tensor((23,), "float32")):
        with T.Kernel(1) as _:
            for j in T.Parallel(23):
                B[j] = A[j] * 2

    @zl.jit(target="cpu")
    def lazy():
        return twice

    eager(np.zeros(23, np.float32))
    zl.compile(twice, target="cpu")
    lazy()
    assert found == [OBJECTS] * 3
    gc.collect(0)
    assert gc.get_threshold() == (700, 10, 10)


@pytest.fixture
def looks() -> Iterator[list[int]]:
    """The generations that the collector looked at."""
    seen: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            seen.append(info["generation"])

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


def test_a_look_that_is_due_comes_after_the_stretch_and_gives_the_settings_back(looks: list[int]) -> None:
    gc.collect()
    looks.clear()
    with rarely_collecting():
        kept = [[] for _ in range(5_000)]
    after = [[] for _ in range(100)]
    assert not looks
    assert 5_000 < gc.get_threshold()[0] < 10_000
    after += [[] for _ in range(1_000)]
    assert looks == [0]
    assert gc.get_threshold() == (700, 10, 10)
    assert len(kept) + len(after) == 6_100


def test_stretches_that_follow_each_other_keep_the_callers_settings() -> None:
    for _ in range(3):
        with rarely_collecting():
            kept = [[] for _ in range(2_000)]
            assert gc.get_threshold() == (OBJECTS, 10, 10)
    assert len(kept) == 2_000
    gc.collect(0)
    assert gc.get_threshold() == (700, 10, 10)
    gc.collect(0)
    assert gc.get_threshold() == (700, 10, 10)


def test_what_is_set_while_a_look_is_due_stays() -> None:
    with rarely_collecting():
        kept = [[] for _ in range(2_000)]
    gc.set_threshold(1234, 10, 10)
    gc.collect(0)
    assert gc.get_threshold() == (1234, 10, 10)
    assert len(kept) == 2_000


def test_the_whole_first_call_collects_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matching the arguments, finding the kernel and launching it: no part of a first call is left out."""
    found: dict[str, int] = {}

    def noting(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def noted(*arguments: Any) -> Any:
            found[name] = gc.get_threshold()[0]
            return original(*arguments)

        monkeypatch.setattr(owner, name, noted)

    for owner, name in ((JITFunction, "_split"), (JITFunction, "_eager_kernel"), (JITKernel, "_called_slowly")):
        noting(owner, name)

    @zl.jit(target="cpu")
    def eager(A):
        A: T.Tensor((29,), "float32")
        B = T.empty((29,), "float32")
        with T.Kernel(1) as _:
            for j in T.Parallel(29):
                B[j] = A[j] + 1
        return B

    given = np.zeros(29, np.float32)
    assert eager(given).tolist() == [1.0] * 29
    assert found == {"_split": OBJECTS, "_eager_kernel": OBJECTS, "_called_slowly": OBJECTS}
    assert not eager._known
    assert eager(A=given).tolist() == [1.0] * 29
    assert not eager._known
    assert eager(given).tolist() == [1.0] * 29
    assert len(eager._known) == 1
    assert found["_called_slowly"] != OBJECTS
