"""What passes and methods of backends get wrong without raising anything: each is said, and nothing runs that computes something else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from broken_sources import backend, works

import zellige as zl
import zellige.language as T
from zellige.claims import asked_apart
from zellige.diagnostics import CompileError, ZelligeError
from zellige.plugin.fields import type_problems
from zellige.plugin.registry import Registry

Install = Callable[..., Registry]


@T.prim_func
def through_tile(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(2) as i:
        tile = T.alloc_shared((32,), "float32")
        T.copy(A[i * 32], tile)
        for j in T.Parallel(32):
            tile[j] = tile[j] * 2.0
        T.copy(tile, B[i * 32])


def of_launches(**changes: Any) -> Callable[[Any], Any]:
    return lambda value: replace(value, launches=tuple(replace(launch, **changes) for launch in value.launches))


def of_parts(part: str, **changes: Any) -> Callable[[Any], Any]:
    """Each part of a plan's launches changed."""

    def change(planned: Any) -> Any:
        launches = (replace(one, **{part: tuple(replace(p, **changes) for p in getattr(one, part))}) for one in planned.launches)
        return replace(planned, launches=tuple(launches))

    return change


UNREADABLE = "it cannot be read, since a field holds what does not belong there"


@pytest.mark.parametrize(
    "stage, function, words",
    [
        ("legalise", lambda kernel: replace(kernel, params=None), UNREADABLE),
        ("legalise", lambda kernel: replace(kernel, launches=None), UNREADABLE),
        ("legalise", of_launches(grid=None), UNREADABLE),
        ("legalise", of_launches(body=None), UNREADABLE),
        ("lower", of_launches(roles=None), UNREADABLE),
        ("lower", of_launches(placements=None), UNREADABLE),
        ("lower", of_launches(placements=()), "tile is used and has no placement"),
        ("lower", of_parts("placements", space="moon"), "tile in moon: the target has no such space"),
        ("lower", of_parts("roles", body=()), "nothing writes B any more"),
    ],
)  # fmt: skip
def test_a_pass_that_breaks_a_program_is_named(stage: str, function: Callable[[Any], Any], words: str) -> None:
    def mine(value: Any) -> Any:
        return function(value)

    with pytest.raises(CompileError) as caught:
        zl.compile(through_tile, target="template", passes=[(stage, mine)])
    assert caught.value.code == "E713", caught.value
    assert "the pass mine of jit" in str(caught.value) and words in str(caught.value)
    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    zl.compile(through_tile, target="template", passes=[(stage, lambda value: value)])(a, b)
    assert np.array_equal(b, a * 2)


@pytest.mark.parametrize(
    "line, kind",
    [
        ("async def launch(self, pointers, scalars, sizes): return 1", "a coroutine"),
        ("async def launch(self, pointers, scalars, sizes): yield 1", "a coroutine"),
        ("def launch(self, pointers, scalars, sizes): yield 1", "a generator"),
    ],
)
def test_a_method_that_only_makes_something_later_is_refused(line: str, kind: str, install: Install) -> None:
    body = f"""
        @hookimpl
        def runtime(self, ctx):
            class Kernel:
                {line}
                def source(self): return ""
                def assembly(self): return ""
            class Runtime:
                def load(self, binary, kernel, source): return Kernel()
            return Runtime()
    """
    install({"later": backend(_undented(body))})
    with pytest.raises(ZelligeError, match=f"its method launch is {kind}, which does nothing when it is called") as caught:
        works("later")
    assert caught.value.code == "E703"
    assert works("cpu")


SECOND = """
class Kernel:
    def launch(self, pointers, scalars, sizes): return [][3]
    def source(self): return ""
    def assembly(self): return ""
class Runtime:
    def load(self, binary, kernel, source): return Kernel()
"""


def test_a_kernel_of_a_second_package_is_the_backends_code_too(install: Install, site: Path) -> None:
    (site / "plug_second_rt.py").write_text(SECOND)
    stated = "from plug_second_rt import Runtime\n"
    body = "@hookimpl\ndef runtime(self, ctx):\n    return Runtime()"
    named = "@hookimpl\ndef manifest(self):\n    return replace(AcmeBackend.manifest(self), code_packages=('plug_second_rt',))\n"
    install({"second": f"from dataclasses import replace\n{stated}{backend(named + body)}"})
    with pytest.raises(ZelligeError, match="the backend 'second' raised in its hook runtime: IndexError") as caught:
        works("second")
    assert caught.value.code == "E709"


SILENT = "class Mine(ZelligeError):\n    def __init__(self): pass\n"


def test_an_error_that_says_nothing_is_a_failure_of_its_backend(install: Install) -> None:
    body = "@hookimpl\ndef emit(self, planned, ctx):\n    raise Mine()"
    install({"silent": f"from zellige.diagnostics import ZelligeError\n{SILENT}{backend(body)}"})
    with pytest.raises(ZelligeError, match="the backend 'silent' raised in its hook emit: Mine") as caught:
        works("silent")
    assert caught.value.code == "E709"


def test_an_error_of_a_pass_that_says_nothing_is_a_failure_of_the_pass() -> None:
    class Mine(ZelligeError):
        def __init__(self) -> None:
            pass

    def mine(value: Any) -> Any:
        raise Mine

    with pytest.raises(ZelligeError, match="mine") as caught:
        zl.compile(through_tile, target="template", passes=[mine])
    assert caught.value.code == "E718"


def test_texts_of_other_classes_are_not_taken_for_texts() -> None:
    kind = type("Mine", (str,), {"encode": lambda *_: b""})
    assert list(type_problems(str, kind("a"), "text")) == ["text is of the class Mine, a kind of str; expected a str itself"]
    assert not list(type_problems(str, "a", "Emitted.text"))


def test_a_process_that_ends_without_its_answer_crashed_whatever_its_status(install: Install) -> None:
    install({"ends": backend("@hookimpl\ndef describe(self, target):\n    import os\n    os._exit(0)")})
    found = asked_apart("ends", "", 60.0)
    assert [(one.field, one.verdict, one.reason) for one in found if one.verdict == "does not hold"] == [
        ("describe", "does not hold", "the process ended with exit code 0")
    ]


def _undented(text: str) -> str:
    from textwrap import dedent

    return dedent(text).strip()
