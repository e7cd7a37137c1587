"""Finds the syntax tree of a Python function that is already defined.

In: a function object. Out: its ``ast`` node whose lines and columns are those of the file that a user sees, and a :class:`SourceText`
that turns nodes into spans. Sources are files and notebook cells (through ``linecache``; those below ``%%time`` from the notebook's
history), the text after ``python -c``, a file given on the standard input, the lines of an interactive session, and the statements of
consoles made with Python's ``code`` module; E116 says why there is none.
"""

from __future__ import annotations
import __future__

import ast
import functools
import hashlib
import inspect
import itertools
import linecache
import operator
import os
import re
import stat
import sys
import time
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from zellige.diagnostics import Span, catalogue
from zellige.frontend.dependencies import Same, codes_in
from zellige.ir.traverse import deep_nesting

_COMPOUND = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match)

_TIMED_CELL: Final = "<timed exec>"
_TIMING_MODULE: Final = "IPython.core.magics.execution"
_MAGIC_HINT: Final = "a magic such as %%timeit puts the cell's text into another one: define the kernel in a cell without it"
_CONSOLE_HINT: Final = (
    "a console of Python's code module keeps no text of the statements before: decorate the function that makes the kernel with @zl.jit in "
    "its own statement, or define it in a file"
)
_PIPED_HINT: Final = "run the program without -i, or define the kernel in a file that the session imports"


@dataclass(eq=False)
class SourceText:
    """One text that holds functions: the name it is shown under, its lines, its tree."""

    file: str
    lines: list[str]
    tree: ast.Module
    functions: dict[str, list[ast.FunctionDef]] = field(default_factory=dict)
    _compiled: dict[tuple[int, int, bool], list[types.CodeType]] = field(default_factory=dict)

    def span(self, node: ast.AST) -> Span:
        """Where ``node`` stands; computed once a node."""
        found: Span | None = getattr(node, "zellige_span", None)
        if found is None:
            found = self._span(node)
            node.zellige_span = found  # type: ignore[attr-defined]
        return found

    def _span(self, node: ast.AST) -> Span:
        line = getattr(node, "lineno", 1)
        end_line = getattr(node, "end_lineno", None)
        column = self._characters(line, getattr(node, "col_offset", 0))
        end_column = getattr(node, "end_col_offset", None)
        if isinstance(node, _COMPOUND):
            end_line, end_column = line, len(self._line(line).rstrip("\n").rstrip())  # the head, not the body
        elif end_column is not None and end_line is not None:
            end_column = self._characters(end_line, end_column)
        return Span(self.file, line, column, end_line, end_column)

    def _line(self, number: int) -> str:
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""

    def _characters(self, line: int, offset: int) -> int:
        """Columns of ``ast`` count UTF-8 bytes, those of spans characters."""
        text = self._line(line)
        return offset if text.isascii() else len(text.encode()[:offset].decode(errors="replace"))

    def is_parenthesised(self, node: ast.expr) -> bool:
        """Whether parentheses stand around an operand that other operands surround."""
        span = self.span(node)
        if span.end_line is None or span.end_column is None:
            return False
        first, last = span.line, span.end_line
        before, after = self._line(first)[: span.column], self._line(last)[span.end_column :]
        while not before.strip() and first > 1:
            first -= 1
            before = self._line(first).partition("#")[0]
        while not after.partition("#")[0].strip() and last < len(self.lines):
            last += 1
            after = self._line(last)
        return before.rstrip().endswith("(") and after.lstrip().startswith(")")

    def compiled(self, flags: int, optimize: int = -1, *, is_divided: bool = False) -> list[types.CodeType]:
        """The code of everything that is defined in the text, with these flags of ``__future__`` beside those it sets itself, with or
        without its assertions and docstrings (``compile``'s levels of ``optimize``). ``is_divided``: each statement by itself, as a
        notebook compiles a cell; the calls of what an import brought differ where Python sees the import."""
        key = (flags, optimize, is_divided)
        if key not in self._compiled:
            text = "".join(self.lines)
            parts = [ast.Module([s], []) for s in ast.parse(text, self.file).body] if is_divided else [text]
            flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # a cell may wait outside of functions
            with deep_nesting():  # Python follows a tree by calls of its own, which it counts as the program's
                codes = [compile(part, self.file, "exec", flags, dont_inherit=True, optimize=optimize) for part in parts]
            self._compiled[key] = [inner for code in codes for inner in codes_in(code)]
        return self._compiled[key]

    def named(self, name: str) -> list[ast.FunctionDef]:
        """Every function definition of that name, in order."""
        if not self.functions:
            for node in ast.walk(self.tree):
                if isinstance(node, ast.FunctionDef):
                    self.functions.setdefault(node.name, []).append(node)
        return self.functions.get(name, [])


@dataclass(frozen=True, eq=False)
class FunctionSource:
    """A function's definition and the text it stands in."""

    node: ast.FunctionDef
    text: SourceText


_texts: dict[tuple[str, str], SourceText] = {}
_console_texts: dict[str, list[str]] = {}  # by the name that a console gives its statements
_found: dict[Same, FunctionSource] = {}  # code objects of two files are equal where only annotations and the file differ
_around: dict[Same, SourceText] = {}  # where the functions inside of one that was found stand: in the text as it was then

_STARTED: Final = time.time()
"""A file that was written since may be another one than what was loaded."""

_FUTURE: Final = functools.reduce(operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names))
"""The flags of code that the imports of its file set."""


def function_source(function: types.FunctionType) -> FunctionSource:
    """The definition of ``function``. E116: no source; E129: a lambda or a coroutine; E135: it nests too deeply to be parsed."""
    code = function.__code__
    known = _found.get(Same(code))
    if known is not None:
        return known
    if code.co_name == "<lambda>":
        raise catalogue.E129.error(None, decorator="a kernel", given="a lambda")
    if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_GENERATOR):
        raise catalogue.E129.error(None, decorator="a kernel", given=f"the coroutine or generator {code.co_name}")
    reason = "there is no text for " + code.co_filename
    for file, lines, offset in _candidates(code, function.__globals__):
        try:
            text = _parse(file, lines)
        except SyntaxError:
            reason = f"{file} does not parse: it was changed since it was loaded"
            continue
        node = _definition(text, code, offset)
        if node is not None:
            found = FunctionSource(node, text)
            _found[Same(code)] = found
            _around.update((Same(inner), text) for inner in codes_in(code) if inner is not code)
            return found
        if file == code.co_filename:  # not a text of which the code may be none, as where the program given with -c runs another
            reason = f"{file} has no such function at line {code.co_firstlineno}: it was changed since it was loaded"
    hint = _CONSOLE_HINT if _console_texts.get(code.co_filename) else None
    if code.co_filename.startswith(("<magic", _TIMED_CELL)):
        hint = _MAGIC_HINT
    if _is_piped_session(code):
        reason = "an interactive session that reads its statements from a file or pipe counts the lines of each from 1 and keeps no text"
        hint = _PIPED_HINT
    raise catalogue.E116.error(None, name=function.__qualname__, reason=reason, hint=hint)


def known_body(function: types.FunctionType) -> Body | None:
    """What stands in a function whose source was looked for before. Python compiles no annotation of a local name, so that the code does
    not mention what stands in these."""
    found = _found.get(Same(function.__code__))
    return None if found is None else body_of(found.node)


class Body:
    """What stands in a definition, without its own decorators, which have done their work: names, those in annotations (the words of
    annotations that are text among them), attributes in annotations, and the calls, annotated assignments and inner definitions."""

    __slots__ = ("annotated", "annotated_attributes", "assignments", "calls", "functions", "names")

    def __init__(self, node: ast.FunctionDef) -> None:
        names: set[str] = set()
        annotated: set[str] = set()
        attributes: set[str] = set()
        self.calls: Final[list[ast.Call]] = []
        self.assignments: Final[list[ast.AnnAssign]] = []
        self.functions: Final[list[ast.FunctionDef]] = []
        kept: dict[type, list[Any]] = {ast.Call: self.calls, ast.AnnAssign: self.assignments, ast.FunctionDef: self.functions}
        pending: list[tuple[ast.AST, bool]] = [(part, False) for part in (node.args, *node.body)]
        while pending:
            part, is_annotation = pending.pop()
            kind = type(part)
            if kind is ast.Name:
                (annotated if is_annotation else names).add(part.id)  # type: ignore[attr-defined]
                continue
            if kind is ast.Constant:
                if is_annotation and isinstance(part.value, str):  # type: ignore[attr-defined]
                    annotated.update(_WORD.findall(part.value))  # type: ignore[attr-defined]
                continue
            if is_annotation and kind is ast.Attribute:
                attributes.add(part.attr)  # type: ignore[attr-defined]
            if kind in kept:
                kept[kind].append(part)
            marks = part.annotation if kind is ast.AnnAssign or kind is ast.arg else None  # type: ignore[attr-defined]
            for child_field in part._fields:  # quicker than asking ast for the children; what is noted on a node is none of them
                value = getattr(part, child_field, None)
                if type(value) is list:
                    pending += [(child, is_annotation) for child in value if isinstance(child, ast.AST)]
                elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                    pending.append((value, is_annotation or value is marks))
        self.names: Final = frozenset(names)
        self.annotated: Final = frozenset(annotated)
        self.annotated_attributes: Final = frozenset(attributes)


def body_of(node: ast.FunctionDef) -> Body:
    """What stands in a definition; looked through once."""
    known: Body | None = getattr(node, "zellige_body", None)
    if known is None:
        known = node.zellige_body = Body(node)  # type: ignore[attr-defined]
    return known


def called_name(call: ast.Call) -> str:
    """The last name of what is called: ``Kernel`` of ``T.Kernel(1)``; empty where it has none."""
    called = call.func
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


_WORD: Final = re.compile(r"[^\W\d]\w*")


def _parse(file: str, lines: list[str]) -> SourceText:
    content = "".join(lines)
    key = (file, hashlib.sha256(content.encode()).hexdigest())
    if key not in _texts:
        try:
            tree = ast.parse(content, filename=file)
        except (RecursionError, MemoryError) as error:
            raise catalogue.E135.error(Span(file, 1)) from error
        _texts[key] = SourceText(file, lines, tree)
    return _texts[key]


def _candidates(code: types.CodeType, module: dict[str, object]) -> Iterator[tuple[str, list[str], int | None]]:
    """Texts that may hold the code: the name to show, the lines, and the line where its definition begins (None: as the code says)."""
    file = code.co_filename
    around = _around.get(Same(code))
    if around is not None:
        yield around.file, around.lines, None
    linecache.checkcache(file)
    lines = linecache.getlines(file, module)  # the module's loader knows the text of a file inside an archive
    if lines:
        yield file, lines, None
    if file == "<string>":
        text = _command_text()
        if text is not None:
            yield _remember("<command line>", text), text.splitlines(keepends=True), None
    if file == "<stdin>":
        text = _standard_input_text()
        if text is not None:
            yield _remember("<standard input>", text), text.splitlines(keepends=True), None
        yield from _interactive_blocks(code)
    if file == _TIMED_CELL:
        yield from _timed_cells()
    if file.startswith("<") and not lines:
        yield from _console_statements(code)


def _remember(name: str, text: str) -> str:
    """Makes ``text`` readable for diagnostics under ``name``."""
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    return name


def _command_text() -> str | None:
    """The program given with ``python -c``."""
    arguments = sys.orig_argv
    for at, word in enumerate(arguments[1:], start=1):
        if word == "-c":
            return arguments[at + 1] if at + 1 < len(arguments) else None
        if word.startswith("-") and not word.startswith("--") and word.endswith("c") and at + 1 < len(arguments):
            return arguments[at + 1]
        if not word.startswith("-"):
            return None
    return None


def _timed_cells() -> Iterator[tuple[str, list[str], int | None]]:
    """The cells of a notebook that are run by ``%%time``: the one that runs now, then the latest first. Their text is under no name that
    Python knows, and in the history only where the notebook keeps one."""
    notebook = sys.modules.get("IPython")
    shell: Any = None if notebook is None else notebook.get_ipython()
    cells = [] if shell is None else list(shell.history_manager.input_hist_raw)
    found: list[tuple[str, str]] = []
    for number in range(len(cells) - 1, -1, -1):
        magic, _, body = cells[number].lstrip().partition("\n")
        if magic.split()[:1] == ["%%time"]:
            found.append((f"<cell {number}, below {magic.strip()}>", shell.transform_cell(body)))
    running = _running_timed_cell()
    if running is not None and all(text != running for _, text in found):
        found.append(("<cell below %%time>", running))
    for name, text in sorted(found, key=lambda cell: cell[1] != running):
        yield _remember(name, text), text.splitlines(keepends=True), None


def _running_timed_cell() -> str | None:
    """The text below the ``%%time`` that is being run, which the magic's function holds; None where there is none."""
    frame = inspect.currentframe()
    while frame is not None:
        caller = frame.f_back
        if caller is not None and frame.f_code.co_filename == _TIMED_CELL and caller.f_globals.get("__name__") == _TIMING_MODULE:
            text = caller.f_locals.get("expr")
            return text if isinstance(text, str) else None
        frame = caller
    return None


def _console_statements(code: types.CodeType) -> Iterator[tuple[str, list[str], int | None]]:
    """Statements of a console made with Python's ``code`` module (``code.interact``, ``python -m code``) that may define the function, the
    latest first. The module keeps no text: that of the statement which runs now is in the frame that runs it, perhaps another thread's,
    and is kept from then on for definitions in it that are met later. The others are known where there is a history of lines."""
    name = code.co_filename
    texts = _console_texts.setdefault(name, [])
    for thread in sys._current_frames().values():
        frame: types.FrameType | None = thread
        while frame is not None:
            if frame.f_code.co_name == "runsource" and frame.f_locals.get("filename") == name:
                text = frame.f_locals.get("source")
                if isinstance(text, str) and text not in texts:
                    texts.append(text)
            frame = frame.f_back
    for number, text in reversed(list(enumerate(texts, start=1))):
        if f"def {code.co_name}" in text:
            yield _remember(f"<{name.strip('<>')} {number}>", text), text.splitlines(keepends=True), None
    if texts:
        yield from _interactive_blocks(code)


def _is_piped_session(code: types.CodeType) -> bool:
    """Whether ``code`` is a statement of an interactive session without a person: ``python -i < file``."""
    if code.co_filename != "<stdin>" or not hasattr(sys, "ps1"):
        return False
    return sys.__stdin__ is None or not sys.__stdin__.isatty()


def _standard_input_text() -> str | None:
    """The program given as ``python < file``; read beside the interpreter's own position. A pipe cannot be read again."""
    try:
        descriptor = sys.__stdin__.fileno() if sys.__stdin__ is not None else -1
        if descriptor < 0 or not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode()
    except (OSError, ValueError):
        return None


def _interactive_blocks(code: types.CodeType) -> Iterator[tuple[str, list[str], int | None]]:
    """Statements of an interactive session that define a function of this name, the latest first."""
    history = _history()
    for start in range(len(history) - 1, -1, -1):
        if not history[start] or history[start][0].isspace() or history[start].lstrip().startswith("#"):
            continue
        stop = start + 1
        while stop < len(history) and (history[stop][:1] in (" ", "\t", ")", "") or history[stop].startswith(("def ", "@", "else",
        "elif"))):
            stop += 1
        block = "\n".join(history[start:stop]) + "\n"
        if f"def {code.co_name}" not in block:
            continue
        try:
            ast.parse(block)
        except SyntaxError:
            continue
        name = f"<interactive {start + 1}>"
        yield _remember(name, block), block.splitlines(keepends=True), None


def _history() -> list[str]:
    readline = sys.modules.get("readline")
    if readline is None:
        return []
    return [readline.get_history_item(i) or "" for i in range(1, readline.get_current_history_length() + 1)]


def _definition(text: SourceText, code: types.CodeType, offset: int | None) -> ast.FunctionDef | None:
    """The definition that compiled to ``code``: the one that begins on its line, checked against the code itself where there is doubt."""
    first = code.co_firstlineno if offset is None else offset
    exact = [node for node in text.named(code.co_name) if first_line(node) == first and _has_parameters_of(node, code)]
    if len(exact) == 1 and text.file == code.co_filename and not text.file.startswith("<") and not _may_have_changed(text, code):
        return exact[0]
    # whoever compiled it may have left out assertions or docstrings
    for is_divided, optimize in itertools.product((False, True), (-1, 0, 1, 2)) if exact else ():
        compiled = text.compiled(code.co_flags & _FUTURE, optimize, is_divided=is_divided)
        for node in exact:
            if any(_same_code(code, other) for other in compiled if other.co_firstlineno == first_line(node)):
                return node
    return None


def _may_have_changed(text: SourceText, code: types.CodeType) -> bool:
    """Whether the text of a file was written after this program started, so that ``code`` has to be compared with it. Code that a tool
    rewrote while it was loaded, as pytest does with assertions, compares with no text."""
    try:
        written = os.stat(text.file).st_mtime
    except OSError:
        return False
    is_around = _around.get(Same(code)) is text
    return written >= _STARTED and not is_around and not any(name.startswith("@") for inner in codes_in(code) for name in inner.co_names)


def _has_parameters_of(node: ast.FunctionDef, code: types.CodeType) -> bool:
    """Whether the parameters have the names that were compiled, which end in the written ones (those of methods that begin with two
    underscores get the class's name in front). Else the text is not what was loaded."""
    arguments = node.args
    written = [entry.arg for entry in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    written += [entry.arg for entry in (arguments.vararg, arguments.kwarg) if entry is not None]
    collecting = [flag for flag in (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS) if code.co_flags & flag]
    count = code.co_argcount + code.co_kwonlyargcount + len(collecting)
    compiled = code.co_varnames[:count]
    return len(compiled) == len(written) and all(name.endswith(word) for name, word in zip(compiled, written))


def first_line(node: ast.FunctionDef) -> int:
    """The line of the first decorator or of ``def``: what a code object calls its first line."""
    return min([node.lineno, *(d.lineno for d in node.decorator_list)])


def _same_code(a: types.CodeType, b: types.CodeType) -> bool:
    pending = [(a, b)]
    while pending:
        x, y = pending.pop()
        if (x.co_name, x.co_varnames, x.co_names, x.co_freevars) != (y.co_name, y.co_varnames, y.co_names, y.co_freevars):
            return False
        if x.co_code != y.co_code:  # "+" and "-" of the same names differ in nothing else
            return False
        if len(x.co_consts) != len(y.co_consts):
            return False
        for p, q in zip(x.co_consts, y.co_consts):
            if isinstance(p, types.CodeType) and isinstance(q, types.CodeType):
                pending.append((p, q))
            elif type(p) is not type(q) or (p != q if isinstance(p, frozenset) else repr(p) != repr(q)):  # sets have no order of their own
                return False
    return True
