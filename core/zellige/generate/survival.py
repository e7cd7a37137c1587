"""Whether the compiler takes whatever it is given: it compiles, or refuses with a code; it never breaks.

In: seeds. Out: for each a word, "compiled", "refused", or "unwritable" where the damage gave no input at all; anything else is a
:class:`Break`. A seed's input is a valid program, a damaged one, damaged text, or a kernel's source with damage in its body.
"""

from __future__ import annotations

import contextlib
import io
import linecache
import math
import types
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from zellige.diagnostics import ZelligeError
from zellige.driver import compile_kernel, legalise
from zellige.generate.choices import Picker, RandomChoices
from zellige.generate.comparison import interpreted, launched
from zellige.generate.damage import damaged_program, damaged_text
from zellige.generate.isolation import isolated
from zellige.generate.kernels import generate
from zellige.generate.program import Program
from zellige.generate.sources import SOURCES
from zellige.ir.expr import constant_value
from zellige.ir.parser import parse_kernel
from zellige.ir.printer import print_kernel
from zellige.ir.stmt import Alloc, Dialect, For, Kernel, Map, While
from zellige.ir.traverse import walk
from zellige.ir.verify import check
from zellige.plugin.registry import registry

Sort = Literal["valid", "nodes", "text", "source"]

SORTS: Final[tuple[tuple[int, Sort], ...]] = ((10, "valid"), (40, "nodes"), (25, "text"), (25, "source"))

SECONDS_A_PROGRAM: Final = 20.0

_WORK_LIMIT: Final = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """The input of ``seed`` broke something: ``what`` happened, and the input as text."""

    seed: int
    sort: Sort
    what: str
    text: str


def survey(first: int, count: int, target: str | None, *, batch: int = 25) -> tuple[dict[str, int], list[Break]]:
    """Try ``count`` seeds in processes of ``batch`` each: how many gave which word, and what broke.

    Without a ``target`` inputs are checked, printed and read back, but not compiled.
    """
    words: dict[str, int] = {}
    breaks: list[Break] = []
    for begin in range(first, first + count, batch):
        seeds = range(begin, min(begin + batch, first + count))
        for word, broken in _batch(seeds, target):
            words[word] = words.get(word, 0) + 1
            if broken is not None:
                breaks.append(broken)
    return words, breaks


def _batch(seeds: Sequence[int], target: str | None) -> list[tuple[str, Break | None]]:
    ending = isolated(lambda: [try_seed(seed, target) for seed in seeds], seconds=SECONDS_A_PROGRAM * len(seeds))
    if ending.value is not None:
        return ending.value
    if len(seeds) > 1:  # one of them ended the process: each alone
        return [result for seed in seeds for result in _batch([seed], target)]
    sort, text = input_of(seeds[0])[:2]
    return [("broke", Break(seed=seeds[0], sort=sort, what=ending.failure, text=text))]


def input_of(seed: int) -> tuple[Sort, str, Program | None]:
    """What a seed gives: its sort, its text, and the program where it is one."""
    picker = Picker(RandomChoices(seed))
    sort = picker.weighted(SORTS)
    if sort == "source":
        source = picker.some(SOURCES)
        return sort, damaged_text(picker, source, first=source.index("def kernel(")), None
    program: Program | None = generate(RandomChoices(seed))
    assert program is not None
    if sort == "text":
        return sort, damaged_text(picker, print_kernel(program.kernel)), None
    if sort == "nodes":
        program = damaged_program(picker, program)
    return sort, "" if program is None else program_text(program), program


def program_text(program: Program) -> str:
    """The text of a program as far as it can be printed."""
    try:
        return print_kernel(program.kernel)
    except Exception as error:  # noqa: BLE001 - a damaged kernel may have no text form
        return f"(cannot be printed: {type(error).__name__}: {error})"


def try_seed(seed: int, target: str | None) -> tuple[str, Break | None]:
    """The word for one seed, and what broke."""
    sort, text, program = input_of(seed)
    if sort == "nodes" and program is None:
        return "unwritable", None
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            if sort == "source":
                _trace(text, seed, target)
            elif sort == "text":
                _compile(parse_kernel(text, f"<damaged {seed}>"), target)
            else:
                assert program is not None
                _run(program, target, is_valid=sort == "valid")
    except ZelligeError as error:
        if not error.code:
            return "broke", Break(seed=seed, sort=sort, what=f"an error without a code: {error}", text=text)
        return "refused", None
    except _PythonError:
        return "unwritable", None
    except Exception as error:  # noqa: BLE001 - anything but a diagnostic is what is looked for
        return "broke", Break(seed=seed, sort=sort, what=f"{type(error).__name__}: {error}", text=text)
    return "compiled", None


class _PythonError(Exception):
    """Python itself refuses the source, before any kernel is looked at."""


def _compile(kernel: Kernel, target: str | None) -> None:
    check(kernel)
    text = print_kernel(kernel)
    if print_kernel(parse_kernel(text)) != text:
        raise AssertionError("the text form does not survive")
    legalise(kernel, registry().resolve("interp"))
    if target is not None:
        compile_kernel(kernel, target)


def _run(program: Program, target: str | None, *, is_valid: bool) -> None:
    _compile(program.kernel, target)
    if not is_valid and work(program) > _WORK_LIMIT:
        return
    try:
        expected = interpreted(program)
    except ValueError:  # the arguments are no longer those of the kernel
        if is_valid:
            raise
        return
    if target is not None:
        _, faults = launched(program, target, expected)
        if faults:
            raise AssertionError(faults[0])


def work(program: Program) -> int:
    """About how many elements a program touches, beyond any limit where that cannot be seen."""
    total = 0
    try:
        sizes = {**program.sizes(), **program.scalars()}
    except (ValueError, KeyError):
        return _WORK_LIMIT + 1
    for launch in program.kernel.launches:
        weight = math.prod(_number(extent, sizes) for extent in (*launch.grid, *(launch.threads or ())))
        for node in walk(launch):
            match node:
                case For():
                    weight *= 1 + abs(_number(node.stop, sizes) - _number(node.start, sizes))
                case Map():
                    weight *= math.prod(_number(extent, sizes) for extent in node.extents)
                case While() | Dialect():
                    return _WORK_LIMIT + 1
                case Alloc():
                    total += math.prod(_number(extent, sizes) for extent in node.buffer.shape)
                case _:
                    total += math.prod(_number(extent, sizes) for extent in getattr(node, "extents", ()))
        total += weight
    return total


def _number(expression: Any, sizes: Any) -> int:
    value = constant_value(expression)
    if value is None:
        value = sizes.get(expression, 40)
    return max(1, abs(int(value))) if value == value else _WORK_LIMIT


def _trace(source: str, seed: int, target: str | None) -> None:
    """Run a module whose kernel is damaged and compile what it defines."""
    name = f"<damaged {seed}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    try:
        code = compile(source, name, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise _PythonError from error
    module = types.ModuleType("damaged")
    module.__file__ = name
    exec(code, module.__dict__)
    kernel = getattr(module, "kernel", None)
    found = getattr(kernel, "kernel", None)
    if isinstance(found, Kernel):
        _compile(found, target)
