"""The text form of the tile IR as data: version, words, operators, and the call form of every statement and hint.

The printer and the parser both read these tables, so a form cannot be printed that is not parsed. docs/tile-ir.md has the
grammar in full; ``Slot.kind`` says what stands at each place of a form.
"""

from __future__ import annotations

import dataclasses
import keyword
import unicodedata
from dataclasses import dataclass
from typing import Any, Final, Literal

from zellige.ir.expr import BinaryOp, CompareOp, UnaryOp
from zellige.ir.stmt import (
    Assume,
    Atomic,
    AtomicTile,
    Barrier,
    Copy,
    Dialect,
    Fill,
    Gemm,
    Persistent,
    Pipelined,
    Print,
    Reduce,
    ReducerFinalize,
    ReducerInit,
    ReducerUpdate,
    Scan,
    Serial,
    Shuffle,
    Transpose,
    Unrolled,
    Vectorised,
    Vote,
)

VERSION: Final = (1, 0)
"""Major and minor version of the text form. A new minor adds forms; a new major changes or removes some."""

ADDED: Final[dict[tuple[type, str], tuple[int, int]]] = {}
"""What a minor version above 0 added: a class of nodes ("" for its field), or a field with its default, and the version that has it first.
A text for a reader of an earlier minor can be written while it uses none of them."""

# ---- expressions ---------------------------------------------------------------------------------------------------------------------

CONDITIONAL, OR, AND, NOT, COMPARISON, BITOR, BITXOR, BITAND, SHIFT, SUM, PRODUCT, UNARY, ATOM = range(13)
"""Binding strengths, weakest first, as in Python."""

INFIX: Final[dict[BinaryOp, tuple[str, int]]] = {
    "or": ("or", OR), "and": ("and", AND),
    "bitor": ("|", BITOR), "bitxor": ("^", BITXOR), "bitand": ("&", BITAND), "shl": ("<<", SHIFT), "shr": (">>", SHIFT),
    "add": ("+", SUM), "sub": ("-", SUM),
    "mul": ("*", PRODUCT), "truediv": ("/", PRODUCT), "floordiv": ("//", PRODUCT), "floormod": ("%", PRODUCT),
}  # fmt: skip
BINARY_CALLS: Final[tuple[BinaryOp, ...]] = ("truncdiv", "truncmod", "min", "max", "min_nan", "max_nan")
"""Binary operators that are written as a call of their name."""
PREFIX: Final[dict[UnaryOp, tuple[str, int]]] = {"neg": ("-", UNARY), "invert": ("~", UNARY), "not": ("not ", NOT)}
COMPARISONS: Final[dict[CompareOp, str]] = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

# ---- statements ----------------------------------------------------------------------------------------------------------------------

SlotKind = Literal["expr", "optional", "exprs", "region", "regions", "buffer", "element", "value", "pairs", "str", "int", "bool", "ints"]
"""What stands at a place: an expression, one or nothing at the end, or a tuple of them; a region or a tuple; a buffer's name;
``B[i, j]`` for the fields ``buffer`` and ``indices``; ``value=`` an expression or ``region=`` a region; a dictionary of literals;
or a literal of a type."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One argument of a form: the field of the node that it fills."""

    field: str
    kind: SlotKind


@dataclass(frozen=True, slots=True)
class Form:
    """A statement written as a call. ``has_result``: may stand right of ``name: dtype =``; ``has_body``: may head a ``with``.

    A keyword is left out where it has its field's default.
    """

    name: str
    node: type
    positional: tuple[Slot, ...]
    keywords: tuple[Slot, ...] = ()
    has_result: bool = False
    has_body: bool = False

    def default(self, field: str) -> Any:
        """The default of a field of the node, ``dataclasses.MISSING`` where it must be given."""
        return _DEFAULTS[self.node][field]


def _slots(text: str) -> tuple[Slot, ...]:
    return tuple(Slot(*item.split(":")) for item in text.split())  # type: ignore[arg-type]


FORMS: Final[tuple[Form, ...]] = (
    Form("copy", Copy, _slots("src:region dst:region"), _slots("swizzle:str vector_width:int eviction:str is_async:bool hints:pairs")),
    Form("fill", Fill, _slots("dst:region value:expr")),
    Form(
        "gemm",
        Gemm,
        _slots("a:region b:region c:region"),
        _slots(
            "clear:expr transpose_a:bool transpose_b:bool policy:str k_pack:int scale_a:region scale_b:region metadata:region hints:pairs",
        ),
    ),
    Form("reduce", Reduce, _slots("op:str src:region dst:region"), _slots("axis:int clear:bool nan_propagate:bool hints:pairs")),
    Form("scan", Scan, _slots("op:str src:region dst:region"), _slots("axis:int reverse:bool")),
    Form("transpose", Transpose, _slots("src:region dst:region")),
    Form("atomic", Atomic, _slots("op:str buffer:element value:optional"), _slots("order:str hints:pairs"), has_result=True),
    Form("atomic_tile", AtomicTile, _slots("op:str src:region dst:region"), _slots("order:str hints:pairs")),
    Form("print", Print, _slots("message:str"), _slots("value:value")),
    Form("assume", Assume, _slots("condition:expr")),
    Form("reducer_init", ReducerInit, _slots("op:str buffer:buffer"), _slots("replication:str")),
    Form("reducer_update", ReducerUpdate, _slots("op:str buffer:element value:expr")),
    Form("reducer_finalize", ReducerFinalize, _slots("buffer:buffer")),
    Form("barrier", Barrier, _slots("scope:str")),
    Form("shuffle", Shuffle, _slots("mode:str value:expr operand:expr"), _slots("width:int"), has_result=True),
    Form("vote", Vote, _slots("mode:str scope:str predicate:expr"), has_result=True),
    Form(
        "dialect",
        Dialect,
        _slots("op:str"),
        _slots("inputs:regions outputs:regions operands:exprs attributes:pairs"),
        has_result=True,
        has_body=True,
    ),
)
FORM_OF: Final[dict[type, Form]] = {form.node: form for form in FORMS}
FORM_NAMED: Final[dict[str, Form]] = {form.name: form for form in FORMS}

HINTS: Final = ("safe_value", "layout", "raster", "hint")
"""What may stand at the head of a launch."""

LOOPS: Final[dict[str, tuple[type, tuple[Slot, ...]]]] = {
    "serial": (Serial, ()),
    "unrolled": (Unrolled, _slots("factor:int")),
    "vectorised": (Vectorised, ()),
    "pipelined": (Pipelined, _slots("stages:int order:ints stage:ints hints:pairs")),
    "persistent": (Persistent, ()),
}
"""Kinds of For by the word after ``in``, and the keywords that stand after the bounds."""
LOOP_WORD: Final[dict[type, str]] = {kind: word for word, (kind, _) in LOOPS.items()}

_DEFAULTS: Final[dict[type, dict[str, Any]]] = {
    node: {f.name: f.default for f in dataclasses.fields(node)} for node in (*FORM_OF, *LOOP_WORD)
}


def loop_default(kind: type, field: str) -> Any:
    """The default of a field of a loop kind."""
    return _DEFAULTS[kind][field]


# ---- names ---------------------------------------------------------------------------------------------------------------------------

RESERVED: Final = frozenset(("nan", "inf"))
"""Names that mean numbers; keywords of Python apart, every other identifier can name a variable or a buffer."""


def identifier(name: str) -> str:
    """``name`` as an identifier that the text form can use, itself where it is one already."""
    plain = unicodedata.normalize("NFKC", name)  # as Python's own parser does
    if not plain.isidentifier():
        plain = "".join(c if ("_" + c).isidentifier() else "_" for c in plain)
        plain = plain if plain.isidentifier() else "_" + plain
    return plain + "_" if keyword.iskeyword(plain) or plain in RESERVED else plain


def quoted(text: str) -> str:
    """A string literal with double quotes; characters that do not print are escaped."""
    body = "".join(
        "\\" + c if c in '"\\' else c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii") for c in text
    )
    return f'"{body}"'


def literal(value: object) -> str:
    """A bool, int, float, string, None or tuple of these as text."""
    match value:
        case str():
            return quoted(value)
        case float():
            return repr(float(value))  # nan and inf are names of the text form
        case tuple():
            return "(" + ", ".join(map(literal, value)) + ("," if len(value) == 1 else "") + ")"
        case _:
            return repr(value)
