"""Damaged kernels: what a broken tool, a careless edit or a wrong pass would hand to the compiler.

In: a kernel, or its text. Out: one that is likely to be wrong, or nothing where the change cannot even be written down. What is damaged:
any field of any node (another type, operator, number, operand; entries of tuples dropped, doubled or swapped), whole statements, the
order of statements; of text, its words, lines and signs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final

from zellige.dtypes import DType, all_dtypes, dtype as as_dtype
from zellige.generate.choices import Picker
from zellige.generate.program import Program
from zellige.ir.expr import BOOL, Binary, Buffer, Const, ExprNode, Node, Var
from zellige.ir.stmt import Break, If, Kernel, Return, StmtNode
from zellige.ir.traverse import buffers_in, rebuilt, rewrite, substitute, walk

_NUMBERS: Final = (0, -1, 1, 2, 3, 7, 64, 1 << 31, (1 << 31) - 1, 1 << 40, (1 << 63) - 1, -(1 << 63), 10**30)
_FLOATS: Final = (0.0, -0.0, float("nan"), float("inf"), 1e300, -1.5)
_WORDS: Final = (
    "add", "sub", "neg", "and", "lt", "exp", "sum", "max", "relaxed", "block", "warp", "global", "shared", "local", "value", "mutable",
    "loop",
    "xor", "any", "square", "argument", "output", "nearest_even", "ieee", "any_word", "",
)  # fmt: skip


def damaged_kernel(picker: Picker, kernel: Kernel) -> Kernel | None:
    """``kernel`` with one to three changes; None where a change cannot be expressed as nodes."""
    for _ in range(picker.weighted(((70, 1), (20, 2), (10, 3)))):
        change = picker.weighted(
            ((46, _field), (14, _drop_statement), (8, _double_statement), (8, _swap_statements), (10, _buffer), (6, _deep), (8, _operand))
        )
        try:
            changed = change(picker, kernel)
        except (TypeError, AttributeError, ValueError, KeyError, IndexError, OverflowError):
            return None  # the node itself cannot be made
        if changed is None:
            return None
        kernel = changed
    return kernel


def damaged_program(picker: Picker, program: Program) -> Program | None:
    """The program with its kernel damaged; its arguments stay where they still fit."""
    kernel = damaged_kernel(picker, program.kernel)
    if kernel is None or not isinstance(kernel, Kernel) or len(kernel.params) != len(program.arguments):
        return None
    return Program(kernel=kernel, arguments=program.arguments)


# ---- nodes -------------------------------------------------------------------------------------------------------------------------------


def _nodes(kernel: Kernel) -> list[Any]:
    return [node for node in walk(kernel) if node is not kernel]


def _with_node(kernel: Kernel, old: Node, new: Any) -> Kernel:
    return rewrite(kernel, lambda node: new if node is old else node)


def _field(picker: Picker, kernel: Kernel) -> Kernel | None:
    """Another value for one field of one node."""
    node = picker.some(_nodes(kernel))
    names = [f.name for f in fields(node) if f.init and f.name not in ("span", "name")]
    if not names:
        return None
    name = picker.some(names)
    value = getattr(node, name)
    if isinstance(value, Buffer):
        return _with_node(kernel, node, rebuilt(node, **{name: picker.some(buffers_in(kernel))}))
    changed = _other(picker, kernel, value)
    new = rebuilt(node, **{name: changed})
    return substitute(kernel, {node: new}) if isinstance(node, Var) else _with_node(kernel, node, new)


def _other(picker: Picker, kernel: Kernel, value: Any) -> Any:
    """Something else of about the same sort."""
    if isinstance(value, DType):
        return picker.some((*all_dtypes(), as_dtype("float16x2"), as_dtype("int8x4"), as_dtype("handle")))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return picker.some((value + 1, value - 1, -value, *_NUMBERS))
    if isinstance(value, float):
        return picker.some((-value, *_FLOATS))
    if isinstance(value, str):
        return picker.some(_WORDS)
    if isinstance(value, tuple):
        return _other_tuple(picker, kernel, value)
    if isinstance(value, ExprNode) and not picker.chance(5):
        return _expression(picker, kernel)
    if isinstance(value, Node):
        nodes = _nodes(kernel)
        return picker.some([node for node in nodes if type(node) is type(value)] if picker.chance(85) else nodes)
    return value


def _other_tuple(picker: Picker, kernel: Kernel, value: tuple[Any, ...]) -> tuple[Any, ...]:
    entries = list(value)
    if not entries:
        return (_expression(picker, kernel),)
    place = picker.integer(0, len(entries) - 1)
    match picker.some(("drop", "double", "reverse", "other", "empty")):
        case "drop":
            del entries[place]
        case "double":
            entries.insert(place, entries[place])
        case "reverse":
            entries.reverse()
        case "empty":
            entries.clear()
        case _:
            entries[place] = _other(picker, kernel, entries[place])
    return tuple(entries)


def _expression(picker: Picker, kernel: Kernel) -> ExprNode:
    """A constant of any sort, or an expression from anywhere, where its names may have no value."""
    if picker.chance(50):
        known = [node for node in _nodes(kernel) if isinstance(node, ExprNode)]
        if known:
            return picker.some(known)
    dtype = picker.some((as_dtype("int32"), as_dtype("int64"), as_dtype("float32"), as_dtype("int8"), BOOL))
    return Const(value=picker.some((*_NUMBERS, *_FLOATS[:4])), dtype=dtype)


def _operand(picker: Picker, kernel: Kernel) -> Kernel | None:
    """One expression in the place of another."""
    known = [node for node in _nodes(kernel) if isinstance(node, ExprNode) and not isinstance(node, Var)]
    return _with_node(kernel, picker.some(known), _expression(picker, kernel)) if known else None


def _buffer(picker: Picker, kernel: Kernel) -> Kernel | None:
    """Another form of one buffer, everywhere."""
    known = buffers_in(kernel)
    if not known:
        return None
    old = picker.some(known)
    name = picker.some(("dtype", "shape", "strides", "space", "alias"))
    changed = picker.some(known) if name == "alias" else _other(picker, kernel, getattr(old, name))
    new: Buffer = rebuilt(old, **{name: changed})
    return substitute(kernel, {}, {old: new})


# ---- statements --------------------------------------------------------------------------------------------------------------------------


def _statements(kernel: Kernel) -> list[Any]:
    return [node for node in walk(kernel) if isinstance(node, StmtNode)]


def _drop_statement(picker: Picker, kernel: Kernel) -> Kernel | None:
    known = _statements(kernel)
    return _with_node(kernel, picker.some(known), ()) if known else None


def _double_statement(picker: Picker, kernel: Kernel) -> Kernel | None:
    known = _statements(kernel)
    if not known:
        return None
    chosen = picker.some(known)
    return _with_node(kernel, chosen, (chosen, chosen if picker.chance(60) else picker.some((Break(), Return()))))


def _swap_statements(picker: Picker, kernel: Kernel) -> Kernel | None:
    """Two statements change places, or one comes a second time in the place of another."""
    known = _statements(kernel)
    if len(known) < 2:
        return None
    first, second = picker.some_of(known, 2)
    inside = {id(node) for node in walk(first)} | {id(node) for node in walk(second)}
    if (id(first) in {id(n) for n in walk(second)}) or (id(second) in {id(n) for n in walk(first)}) or not inside:
        return None
    return rewrite(kernel, lambda node: second if node is first else first if node is second else node)


def _deep(picker: Picker, kernel: Kernel) -> Kernel | None:
    """Very deep nesting of statements, or of an expression."""
    if picker.chance(50):
        known = _statements(kernel)
        if not known:
            return None
        chosen: Any = picker.some(known)
        wrapped: Any = chosen
        for _ in range(picker.some((3, 70, 400))):
            wrapped = If(condition=Const(value=True, dtype=BOOL), then=(wrapped,))
        return _with_node(kernel, chosen, wrapped)
    operands = [n for n in _nodes(kernel) if isinstance(n, ExprNode) and n.dtype.is_integer and not isinstance(n, Var)]  # type: ignore[attr-defined]
    if not operands:
        return None
    operand: Any = picker.some(operands)
    deep: Any = operand
    for _ in range(picker.some((5, 60, 3000))):
        deep = Binary(op="add", left=deep, right=operand)
    return _with_node(kernel, operand, deep)


# ---- text --------------------------------------------------------------------------------------------------------------------------------

_TOKEN: Final = re.compile(r"\w+|\s+|[^\w\s]")
_ODD: Final = (
    "(", ")", "[", "]", ":", ",", "+", "-", "*", "=", "==", ".", "@", "if", "for", "in", "0", "-1", "9" * 30, "1e999", "None", "nan",
    "let", "lambda",
    "'", '"', "\\", "\x00", "\ud800", "é", "\t", "\n", "    ", "#", "float8_e4m3fn", "parallel", "alloc", "copy", "launch", "mutable",
    "True",
    "[" * 300, "(" * 300, "-" * 300,
)  # fmt: skip


def damaged_text(picker: Picker, text: str, *, first: int = 0) -> str:
    """``text`` with one to three changes behind position ``first``: of words and signs, of lines, or cut off."""
    head, body = text[:first], text[first:]
    for _ in range(picker.weighted(((70, 1), (20, 2), (10, 3)))):
        change: Callable[[Picker, str], str] = picker.weighted(((70, _tokens), (24, _lines), (6, _cut)))
        body = change(picker, body)
    return head + body


def _tokens(picker: Picker, text: str) -> str:
    tokens = _TOKEN.findall(text)
    if not tokens:
        return text
    solid = [index for index, token in enumerate(tokens) if not token.isspace()] or [0]
    place, other = picker.some(solid), picker.some(solid)
    match picker.some(("delete", "double", "replace", "swap", "odd", "insert")):
        case "delete":
            tokens[place] = ""
        case "double":
            tokens[place] *= 2
        case "replace":
            tokens[place] = tokens[other]
        case "swap":
            tokens[place], tokens[other] = tokens[other], tokens[place]
        case "odd":
            tokens[place] = picker.some(_ODD)
        case _:
            tokens.insert(place, picker.some(_ODD))
    return "".join(tokens)


def _lines(picker: Picker, text: str) -> str:
    lines = text.split("\n")
    place, other = (picker.integer(0, len(lines) - 1) for _ in range(2))
    match picker.some(("delete", "double", "swap", "indent", "outdent")):
        case "delete":
            del lines[place]
        case "double":
            lines.insert(place, lines[other])
        case "swap":
            lines[place], lines[other] = lines[other], lines[place]
        case "indent":
            lines[place] = "    " + lines[place]
        case _:
            lines[place] = lines[place].removeprefix("    ")
    return "\n".join(lines)


def _cut(picker: Picker, text: str) -> str:
    return text[: picker.integer(0, len(text))]
