"""What a kernel function's trace depends on beside its arguments, told apart across processes.

In: the source of a kernel function. Out: :func:`fingerprint`, a digest that is equal in two processes only where everything that
tracing the function can read is equal; None where that cannot be said. It is meant to say None rather than to be clever.

Followed are the names that a function mentions, in its closure, its module and Python's builtins, and through them functions and macros
of the user's, with their source, byte code and defaults; modules by those of their attributes that any of these functions mentions; plain
data by content. What can reach further is refused: objects of the user's classes, functions of libraries outside a short list,
``getattr``, ``open`` and other builtins that look at the process, imports inside a function, arrays.
"""

from __future__ import annotations

import ast
import builtins
import enum
import hashlib
import re
import sys
import types
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from zellige.dtypes import DType
from zellige.frontend.dependencies import MISSING, codes_in, content_of_cell
from zellige.frontend.functions import Macro
from zellige.frontend.source import FunctionSource, body_of, first_line, function_source
from zellige.frontend.specs import PointerSpec, TensorSpec

_ATOMS: Final = frozenset((bool, int, float, complex, str, bytes, type(None)))
_MOST_PARTS: Final = 20_000
_MOST_DEEP: Final = 16
_WORD: Final = re.compile(r"[^\W\d]\w*")
_DIGITS: Final = "0123456789"
_APART: Final = {number: " " for number in range(128) if not (chr(number).isalnum() or chr(number) == "_")}
"""Blanks in place of what stands between words of ASCII."""

_IMPORTS: Final = "IMPORT_NAME"
_ROOT: Final = f"{Path(__file__).parents[1]}/"

_PURE: Final = frozenset(
    (
        "abs", "all", "any", "bool", "bytes", "complex", "dict", "divmod", "enumerate", "filter", "float", "frozenset", "int", "isinstance",
        "len", "list", "map", "max", "min", "pow", "range", "reversed", "round", "set", "slice", "sorted", "str", "sum", "tuple", "zip",
    )
)  # fmt: skip
"""Builtins whose results follow from their arguments."""

_PURE_MODULES: Final = frozenset(("math", "_operator", "operator"))
_HARMLESS: Final = frozenset(("__name__", "__doc__", "__init__", "__file__"))
_LANGUAGE: Final = "zellige.language"
_BY_TEXT: Final = frozenset(
    ("ag_frame", "cr_frame", "f_back", "f_builtins", "f_globals", "f_locals", "format", "format_map", "gi_frame", "tb_frame")
)
"""Attributes that lead to names which are made while the program runs: those of frames, and text such as "{0.name}"."""


class _Unclear(Exception):
    """Something whose meaning in another process nobody can vouch for."""


def fingerprint(source: FunctionSource, function: types.FunctionType, names: Mapping[str, Any], values: Iterable[Any]) -> str | None:
    """The digest for a kernel function; ``names`` are those that only its annotations know, ``values`` further things to be told apart,
    such as the arguments of a call. None where something is met that cannot be told apart, or whose own code raises when it is asked."""
    reader = _Reader()
    try:
        reader.add("python", sys.version)
        for value in values:
            reader.value(value, 0)
        reader.function(function, source, names)
        reader.follow()
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - code of the user's objects may raise whatever it likes
        return None
    found = hashlib.sha256(repr(reader.parts).encode())
    for text in reader.texts:
        found.update(text)
    return found.hexdigest()


class _Reader:
    """Everything read so far, in an order that depends on nothing but itself."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, ...]] = []
        self.texts: list[bytes] = []
        """Long ones, in the order in which parts give their lengths: writing them as Python does takes longer than all else about them."""
        self.words: set[str] = set()
        self.modules: dict[str, types.ModuleType] = {}
        self.functions: dict[types.CodeType | int, int] = {}
        self.kept: list[object] = []
        self.asked: set[tuple[str, str]] = set()

    def add(self, *part: str) -> None:
        self.parts.append(part)

    def text(self, text: bytes) -> str:
        """What stands among the parts for a long text."""
        self.texts.append(text)
        return f"{len(text)} bytes"

    def follow(self) -> None:
        """The attributes of modules that are mentioned anywhere; what they lead to may mention more."""
        while True:
            mentioned = [(m, w) for m in sorted(self.modules) for w in sorted(self.words & vars(self.modules[m]).keys())]
            asked = [pair for pair in mentioned if pair not in self.asked]
            if not asked:
                return
            for module, word in asked:
                self.asked.add((module, word))
                self.add("attribute", module, word)
                self.value(vars(self.modules[module])[word], 0)

    # ---- values

    def value(self, value: Any, depth: int) -> None:
        kind = type(value)
        if len(self.parts) >= _MOST_PARTS:
            raise _Unclear
        if kind in _ATOMS:
            self.parts.append((kind.__name__, hex(value) if kind is int else repr(value)))
        elif kind is list or kind is tuple or kind is dict or kind is set or kind is frozenset:
            self.container(value, kind, depth + 1)
        elif isinstance(value, types.ModuleType):
            self.module(value, kind)
        elif kind is types.FunctionType:
            if value.__code__.co_filename.startswith(_ROOT):
                self.own_function(value)
            else:
                self.function(value, function_source(value), {})
        elif kind is types.BuiltinFunctionType:
            self.builtin_function(value)
        elif kind is Macro:
            self.add("macro")
            self.function(value.function, value.source, value.definers)
        elif isinstance(value, type):
            self.class_of_objects(value)
        else:
            self.object(value, kind, depth + 1)

    def container(self, value: Any, kind: type, depth: int) -> None:
        if depth > _MOST_DEEP:
            raise _Unclear
        self.add(kind.__name__, str(len(value)))
        if kind is dict:
            for key, item in value.items():
                self.value(key, depth)
                self.value(item, depth)
        elif kind is list or kind is tuple:
            for item in value:
                self.value(item, depth)
        else:
            if any(type(item) not in _ATOMS for item in value):
                raise _Unclear
            self.add(*sorted(f"{type(item).__name__} {_atom(item)}" for item in value))

    def module(self, value: types.ModuleType, kind: type) -> None:
        name = value.__name__
        is_own = str(getattr(value, "__file__", "")).startswith(_ROOT)
        is_plain = kind is types.ModuleType and "__getattr__" not in vars(value)
        if sys.modules.get(name) is not value or not (is_own or is_plain):
            raise _Unclear
        self.add("module", name)
        self.modules[name] = value

    def own_function(self, value: types.FunctionType) -> None:
        """One of this package's, told by its name; what a function of this package made, such as a decorator around a function of the
        user's, has a name that says nothing of it."""
        home, name = value.__module__, value.__qualname__
        if home.partition(".")[0] != "zellige" or not (_stands_in(home, name, value) or _stands_in(_LANGUAGE, name, value)):
            raise _Unclear
        self.add("own function", home, name)

    def builtin_function(self, value: types.BuiltinFunctionType) -> None:
        home = value.__module__
        is_pure = home in _PURE_MODULES or (home == "builtins" and value.__name__ in _PURE)
        if not is_pure or not isinstance(value.__self__, types.ModuleType):
            raise _Unclear
        self.add("builtin", str(home), value.__qualname__)

    def class_of_objects(self, value: type) -> None:
        home, name = value.__module__, value.__qualname__
        is_exception = issubclass(value, BaseException)
        if home == "builtins" and getattr(builtins, name, None) is value and (name in _PURE or is_exception):
            self.add("type", name)
        elif home.split(".")[0] in ("zellige", "numpy") and getattr(sys.modules.get(home), name, None) is value:
            if home.startswith("numpy") and not issubclass(value, sys.modules["numpy"].generic):
                raise _Unclear
            self.add("type", home, name)
        else:
            raise _Unclear

    def object(self, value: Any, kind: type, depth: int) -> None:
        home = kind.__module__
        self.add("object", home, kind.__qualname__)
        if isinstance(value, DType):
            self.add(value.name)
        elif isinstance(value, TensorSpec):
            for part in (value.shape, value.dtype, value.strides, value.space):
                self.value(part, depth)
        elif isinstance(value, PointerSpec):
            self.value(value.dtype, depth)
        elif home.split(".")[0] == "zellige" and isinstance(value, enum.Enum):
            self.add(value.name)
        elif home.startswith("zellige.language.") and getattr(value, "is_tensor_factory", False):
            self.value(vars(value), depth)
        elif home == "torch" and kind.__name__ == "dtype":
            self.add(repr(value))
        elif home.split(".")[0] == "numpy" and kind.__name__.endswith("DType") and value.isbuiltin == 1:
            self.add(value.str)
        else:
            raise _Unclear

    # ---- functions

    def function(self, function: types.FunctionType, source: FunctionSource, names: Mapping[str, Any]) -> None:
        """A function of the user's: its text, its byte code, its defaults, and what the names in it mean."""
        key = id(function)
        if key in self.functions:
            self.add("again", str(self.functions[key]))
            return
        self.functions[key] = len(self.functions)
        self.kept.append(function)
        segment = _segment(source)
        words = _words(segment)
        if not segment.isascii() and not all(word.isascii() for word in words):
            raise _Unclear  # Python takes such names for others that look alike
        if any(word.startswith("__") and word not in _HARMLESS for word in words):
            raise _Unclear  # the ways into the insides of objects
        codes = tuple(codes_in(function.__code__))
        text = self.text(segment.encode(errors="surrogatepass"))
        self.add("function", source.text.file, str(first_line(source.node)), text, function.__module__ or "", function.__qualname__)
        for code in codes:
            self.code(code)
        self.words |= words
        self.value(function.__defaults__, 0)
        self.value(function.__kwdefaults__, 0)
        self.value(function.__annotations__, 0)
        self.value(vars(function), 0)
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
        for name in sorted({*_free_names(codes, source.node, words), *cells, *names}):
            if name in cells:
                self.name(name, content_of_cell(cells[name]))
            elif name in names:
                self.name(name, names[name])
            elif name in function.__globals__:
                self.name(name, function.__globals__[name])
            elif hasattr(builtins, name):
                self.builtin(name, getattr(builtins, name))

    def name(self, name: str, value: Any) -> None:
        self.add("name", name)
        if value is MISSING:
            self.add("empty")
        else:
            self.value(value, 0)

    def code(self, code: types.CodeType) -> None:
        if _has_import(code) or not _BY_TEXT.isdisjoint(code.co_names):
            raise _Unclear
        constants = [value for value in code.co_consts if not isinstance(value, types.CodeType)]
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self.add("code", self.text(code.co_code), str(code.co_flags), repr(names))
        for constant in constants:
            if constant is not Ellipsis and type(constant) is not slice:
                self.value(constant, 0)

    def builtin(self, name: str, value: Any) -> None:
        if name not in _PURE and not (isinstance(value, type) and issubclass(value, BaseException)) and type(value) not in _ATOMS:
            raise _Unclear
        self.name(name, value)


def _stands_in(module: str, name: str, value: object) -> bool:
    """Whether a module that is loaded has a thing under a name."""
    loaded = sys.modules.get(module)
    return loaded is not None and vars(loaded).get(name) is value


def _atom(value: object) -> str:
    """An atom as text; integers in base 16, in which Python writes them however long they are."""
    return hex(value) if type(value) is int else repr(value)


def _segment(source: FunctionSource) -> str:
    """The lines of a function, its decorators among them."""
    return "".join(source.text.lines[first_line(source.node) - 1 : source.node.end_lineno])


def _words(text: str) -> frozenset[str]:
    """What may be a name in a text: letters, digits and underscores in a row, without digits before them."""
    if not text.isascii():
        return frozenset(_WORD.findall(text))
    found = set(text.translate(_APART).split())  # the same, in a fraction of the time
    return frozenset(word.lstrip(_DIGITS) if word[0] in _DIGITS else word for word in found) - {""}


@lru_cache(maxsize=1)
def _import_byte() -> int:
    import opcode

    return opcode.opmap[_IMPORTS]


def _has_import(code: types.CodeType) -> bool:
    return _import_byte() in code.co_code[::2]


def _free_names(codes: tuple[types.CodeType, ...], node: ast.FunctionDef, words: frozenset[str]) -> set[str]:
    """Names by which a function may mean something outside of it. Annotations of local names are not compiled, so their names count
    whatever else the function calls so; text among them may be names too."""
    compiled: set[str] = set()
    local: set[str] = set()
    for code in codes:
        compiled.update(code.co_names)
        local.update(code.co_varnames, code.co_cellvars)
    if not compiled <= words:
        raise _Unclear  # the text is not what was compiled
    body = body_of(node)
    return {name for name in body.names if name in compiled or name not in local} | body.annotated
