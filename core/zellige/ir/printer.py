"""A kernel of the tile IR as text, which :mod:`zellige.ir.parser` reads back.

In: a kernel. Out: text that starts with the version, is a subset of Python's grammar, and carries everything but spans
(docs/tile-ir.md has the grammar). A kernel that breaks invariants prints too, as far as it goes, to be looked at.

Names are those of variables and buffers, changed only where one is no identifier, or would hide another that is in
scope. A view is declared before the first statement of the innermost body that holds all its uses. A buffer named by a hint has a name
of its own in the whole launch, since hints stand before the statements that allocate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from zellige.diagnostics import catalogue
from zellige.ir.expr import INT32, Buffer, Const, Expr, Region, Var
from zellige.ir.expression_printer import ExpressionPrinter, region_expressions
from zellige.ir.naming import Names
from zellige.ir.sizes import size_vars
from zellige.ir.stmt import (
    Alloc,
    Assert,
    Assign,
    Bind,
    Break,
    Continue,
    For,
    If,
    Kernel,
    Launch,
    LayoutHint,
    Map,
    NamedHint,
    RasterHint,
    Return,
    ScalarParam,
    Stmt,
    Store,
    TensorParam,
    While,
)
from zellige.ir.syntax import ADDED, FORM_OF, LOOP_WORD, LOOPS, VERSION, Form, Slot, identifier, literal, loop_default, quoted
from zellige.ir.traverse import walk
from zellige.ir.view_placement import KERNEL, Place, view_placement

_INDENT: Final = "    "


@lru_cache(maxsize=16)
def text_of(kernel: Kernel) -> str:
    """The text form of a kernel that several steps ask for one after the other: kept for the last few."""
    return print_kernel(kernel)


def print_kernel(kernel: Kernel, *, version: tuple[int, int] | None = None) -> str:
    """The text form of ``kernel``, ending in a newline.

    ``version`` is the version that the reader reads, at most this module's: E715 where the kernel uses what was added after it.
    """
    wanted = VERSION if version is None else min(version, VERSION)
    if wanted != VERSION:
        newer = next(_newer_than(kernel, wanted), None)
        if newer is not None:
            raise catalogue.E715.error(kernel=kernel.name, what=newer, major=wanted[0], minor=wanted[1])
    return Printer(kernel, wanted).print()


def _newer_than(kernel: Kernel, version: tuple[int, int]) -> Iterator[str]:
    """What the kernel uses that a later version than ``version`` added."""
    late = [(kind, name) for (kind, name), since in ADDED.items() if since > version]
    for node in walk(kernel):
        for kind, name in late:
            if isinstance(node, kind):
                form = FORM_OF.get(kind)
                word = kind.__name__ if form is None else form.name
                if not name:
                    yield word
                elif getattr(node, name) != next(f.default for f in dataclasses.fields(kind) if f.name == name):
                    yield f"{name} of {word}"


class Printer:
    """Writes the lines of a kernel. Printers of what is made from a kernel build on it."""

    def __init__(self, kernel: Kernel, version: tuple[int, int] = VERSION) -> None:
        self._kernel = kernel
        self._version = version
        self._lines: list[str] = []
        self._depth = 0
        self._names = Names()
        self._views = view_placement(kernel)

    def print(self) -> str:
        kernel, names = self._kernel, self._names
        self._lines = ["# tile-ir {}.{}".format(*self._version), "", ""]
        sizes = [f"{names.declare(size)}={size.dtype.name}" for size in size_vars(kernel)]
        if sizes:
            self._line(f"@sizes({', '.join(sizes)})")
        function = identifier(kernel.name)
        if function != kernel.name:
            self._line(f"@name({quoted(kernel.name)})")
        for param in kernel.params:
            names.declare(param.var if isinstance(param, ScalarParam) else param.buffer)
        head, self._lines = self._lines, []
        self._depth = 1
        params = self._params()  # the names of parts of shapes become the first lines of the body
        lets, self._lines = self._lines, head
        self._depth = 0
        results = f" -> ({', '.join(map(self._result, kernel.results))},)" if kernel.results else ""
        if params:
            self._line(f"def {function}(")
            self._lines.extend(f"{_INDENT}{param}," for param in params)
            self._line(f"){results}:")
        else:
            self._line(f"def {function}(){results}:")
        self._lines.extend(lets)
        self._depth = 1
        if not kernel.launches and not lets:
            self._line("pass")
        for index, launch in enumerate(kernel.launches):
            self._declare_views((KERNEL, index))
            self._launch(launch)
        return "\n".join(self._lines) + "\n"

    def _line(self, text: str) -> None:
        self._lines.append(_INDENT * self._depth + text)

    def _expressions(self, roots: Sequence[Expr]) -> ExpressionPrinter:
        """Prepares expressions; the parts that get names become lines here."""
        printer = ExpressionPrinter(self._names, self._let)
        printer.prepare(roots)
        return printer

    def _let(self, text: str) -> str:
        name = self._names.let()
        self._line(f"{name} = let({text})")
        return name

    # ---- the head of the kernel ----

    def _params(self) -> list[str]:
        shown: list[str] = []
        shapes = [e for p in self._kernel.params if isinstance(p, TensorParam) for e in (*p.buffer.shape, *(p.buffer.strides or ()))]
        texts = self._expressions(shapes)
        for param in self._kernel.params:
            match param:
                case ScalarParam():
                    kind = "size" if param.var.kind == "size" else "scalar"
                    shown.append(f"{self._names(param.var)}: {kind}({param.var.dtype.name})")
                case TensorParam():
                    role = "" if param.role == "argument" else f", role={quoted(param.role)}"
                    strides = "" if param.buffer.strides is None else f", strides={_tuple(texts, param.buffer.strides)}"
                    shape = _tuple(texts, param.buffer.shape)
                    shown.append(f"{self._names(param.buffer)}: tensor({shape}, {param.buffer.dtype.name}{role}{strides})")
        return shown

    def _result(self, index: int) -> str:
        param = self._kernel.params[index]
        return self._names(param.var if isinstance(param, ScalarParam) else param.buffer)

    def _launch(self, launch: Launch) -> None:
        names = self._names
        texts = self._expressions([*launch.grid, *(launch.threads or ())])
        names.open()
        hinted = [hint.buffer for hint in (*launch.safe_values, *launch.hints) if not isinstance(hint, RasterHint)]
        for buffer in hinted:
            if buffer is not None:
                names.reserve(buffer)
        arguments = [texts.text(extent) for extent in launch.grid]
        if launch.threads is not None:
            arguments.append(f"threads={_tuple(texts, launch.threads)}")
        if launch.cluster is not None:
            arguments.append(f"cluster={literal(launch.cluster)}")
        arguments.extend(_dtypes(launch.grid_vars))
        head = f"with launch({', '.join(arguments)}) as {_targets([names.declare(v) for v in launch.grid_vars])}"
        if launch.lane_vars:
            lanes = _targets([names.declare(v) for v in launch.lane_vars])
            width = () if launch.warp is None else (f"warp={quoted(names.declare(launch.warp))}",)
            head += f", lanes({', '.join((*_dtypes(launch.lane_vars), *width))}) as {lanes}"
        self._line(head + ":")
        self._depth += 1
        before = len(self._lines)
        self._hints(launch)
        self._statements(launch, "body", launch.body)
        if len(self._lines) == before:
            self._line("pass")
        self._depth -= 1
        names.forget_reserved()
        names.close()

    def _hints(self, launch: Launch) -> None:
        for safe in launch.safe_values:
            texts = self._expressions([safe.value])
            self._line(f"safe_value({self._names(safe.buffer)}, {texts.text(safe.value)})")
        for hint in launch.hints:
            match hint:
                case LayoutHint():
                    self._layout(hint)
                case RasterHint():
                    self._line(f"raster({hint.panel}, {quoted(hint.order)})")
                case NamedHint():
                    buffer = "" if hint.buffer is None else f", buffer={self._names(hint.buffer)}"
                    self._line(f"hint({quoted(hint.name)}, {literal(hint.value)}{buffer})")

    def _layout(self, hint: LayoutHint) -> None:
        arguments = [self._names(hint.buffer), quoted(hint.kind)]
        if hint.axes or hint.forward or hint.lane is not None:
            self._names.open()
            axes = ", ".join(self._names.declare(axis) for axis in hint.axes)
            outer, self._lines, depth, self._depth = self._lines, [], self._depth, 0
            texts = self._expressions([*hint.forward, *(() if hint.lane is None else (hint.lane,))])
            lets = [f"{name} := {text[4:-1]}" for name, text in (line.split(" = ", 1) for line in self._lines)]
            self._lines, self._depth = outer, depth
            parts = [f"({', '.join(lets)},)"] if lets else []
            parts.append(_tuple(texts, hint.forward))
            parts.append("None" if hint.lane is None else texts.text(hint.lane))
            arguments.append(f"lambda {axes}: ({', '.join(parts)})" if axes else f"lambda: ({', '.join(parts)})")
            arguments.extend(_dtypes(hint.axes))
            self._names.close()
        if hint.replicate != 1:
            arguments.append(f"replicate={hint.replicate}")
        self._line(f"layout({', '.join(arguments)})")

    # ---- statements ----

    def _declare_views(self, place: Place) -> None:
        for view in self._views.get(place, ()):
            texts = self._expressions([*view.shape, *(view.strides or ())])
            strides = "" if view.strides is None else f", strides={_tuple(texts, view.strides)}"
            target = self._names(view.alias) if view.alias is not None else "None"
            shape = _tuple(texts, view.shape)
            self._line(f"{self._names.declare(view)} = view({target}, {shape}, {view.dtype.name}{strides})")

    def _statements(self, owner: Any, field: str, body: Sequence[Stmt]) -> None:
        for index, statement in enumerate(body):
            self._declare_views(((id(owner), field), index))
            self._statement(statement)
        self._declare_views(((id(owner), field), len(body)))

    def _nested(self, owner: Any, field: str, body: Sequence[Stmt]) -> None:
        self._depth += 1
        before = len(self._lines)
        self._statements(owner, field, body)
        if len(self._lines) == before:
            self._line("pass")
        self._depth -= 1

    def _statement(self, statement: Stmt) -> None:
        match statement:
            case Alloc():
                self._alloc(statement.buffer)
            case Bind():
                text = self._expressions([statement.value]).text(statement.value)
                self._line(f"{self._target(statement.var)} = {text}")
            case Assign():
                text = self._expressions([statement.value]).text(statement.value)
                self._line(f"{self._names(statement.var)} = {text}")
            case Store():
                texts = self._expressions([*statement.indices, statement.value])
                self._line(f"{texts.element(statement.buffer, statement.indices)} = {texts.text(statement.value)}")
            case Assert():
                text = self._expressions([statement.condition]).text(statement.condition)
                self._line(f"assert {text}" + (f", {quoted(statement.message)}" if statement.message else ""))
            case Break():
                self._line("break")
            case Continue():
                self._line("continue")
            case Return():
                self._line("return")
            case For():
                self._for(statement)
            case Map():
                self._map(statement)
            case While():
                text = self._expressions([statement.condition]).text(statement.condition)
                self._line(f"while {text}:")
                self._names.open()
                self._nested(statement, "body", statement.body)
                self._names.close()
            case If():
                self._if(statement)
            case _:
                self._call(statement)

    def _target(self, var: Var) -> str:
        return f"{self._names.declare(var)}: {_declared_dtype(var)}"

    def _alloc(self, buffer: Buffer) -> None:
        texts = self._expressions([*buffer.shape, *(buffer.strides or ())])
        strides = "" if buffer.strides is None else f", strides={_tuple(texts, buffer.strides)}"
        arguments = f"{_tuple(texts, buffer.shape)}, {buffer.dtype.name}, {quoted(buffer.space)}{strides}"
        self._line(f"{self._names.declare(buffer)} = alloc({arguments})")

    def _for(self, loop: For) -> None:
        texts = self._expressions([loop.start, loop.stop, loop.step])
        bounds = [loop.start, loop.stop, loop.step]
        if _is_count(loop.step, 1, loop.stop):
            bounds.pop()
            if _is_count(loop.start, 0, loop.stop):
                del bounds[0]
        arguments = [texts.text(bound) for bound in bounds]
        word = LOOP_WORD[type(loop.kind)]
        for slot in LOOPS[word][1]:
            value = getattr(loop.kind, slot.field)
            if value != loop_default(type(loop.kind), slot.field):
                arguments.append(f"{slot.field}={_pairs(value) if slot.kind == 'pairs' else literal(value)}")
        self._names.open()
        self._line(f"for {self._names.declare(loop.var)} in {word}({', '.join(arguments)}):")
        self._nested(loop, "body", loop.body)
        self._names.close()

    def _map(self, region: Map) -> None:
        texts = self._expressions(region.extents)
        arguments = [texts.text(extent) for extent in region.extents]
        if region.vector_width is not None:
            arguments.append(f"vector_width={region.vector_width}")
        if region.hints:
            arguments.append(f"hints={_pairs(region.hints)}")
        self._names.open()
        axes = [self._names.declare(axis) for axis in region.axes]
        target = ", ".join(axes) or "()"
        self._line(f"for {target} in parallel({', '.join(arguments)}):")
        self._nested(region, "body", region.body)
        self._names.close()

    def _if(self, statement: If) -> None:
        """Prints an If; the chain of those that are all of an ``otherwise`` body as ``elif``, where nothing must stand before them."""
        condition = self._expressions([statement.condition]).text(statement.condition)
        word, opened = "if", 0
        while True:
            self._line(f"{word} {condition}:")
            self._names.open()
            self._nested(statement, "then", statement.then)
            self._names.close()
            rest = statement.otherwise
            place = ((id(statement), "otherwise"), 0)
            if not rest and not self._views.get(place):
                break
            self._names.open()
            opened += 1
            if len(rest) != 1 or not isinstance(rest[0], If) or self._views.get(place):
                self._line("else:")
                self._nested(statement, "otherwise", rest)
                break
            self._depth += 1
            before = len(self._lines)
            condition = self._expressions([rest[0].condition]).text(rest[0].condition)
            self._depth -= 1
            if len(self._lines) > before:
                del self._lines[before:]
                self._names.close()
                self._names.open()
                self._line("else:")
                self._nested(statement, "otherwise", rest)
                break
            word, statement = "elif", rest[0]
        for _ in range(opened):
            self._names.close()

    def _call(self, statement: Any) -> None:
        form = FORM_OF[type(statement)]
        texts = self._expressions(list(_form_expressions(form, statement)))
        arguments = [self._argument(texts, statement, slot) for slot in form.positional]
        while arguments and not arguments[-1]:
            arguments.pop()
        for slot in form.keywords:
            value = getattr(statement, slot.field)
            default = None if slot.kind == "value" else form.default(slot.field)
            if default is dataclasses.MISSING or type(value) is not type(default) or value != default:
                word = "region" if slot.kind == "value" and isinstance(value, Region) else slot.field
                arguments.append(f"{word}={self._argument(texts, statement, slot)}")
        result = statement.result if form.has_result else None
        if form.has_body and statement.body:
            if result is not None:
                arguments.append(f"result={_declared_dtype(result)}")
            call = f"with {form.name}({', '.join(arguments)})"
            self._line(call + ("" if result is None else f" as {self._names.declare(result)}") + ":")
            self._names.open()
            self._nested(statement, "body", statement.body)
            self._names.close()
            return
        call = f"{form.name}({', '.join(arguments)})"
        self._line(call if result is None else f"{self._target(result)} = {call}")

    def _argument(self, texts: ExpressionPrinter, statement: Any, slot: Slot) -> str:
        value = getattr(statement, slot.field)
        match slot.kind:
            case "expr":
                return texts.text(value)
            case "optional":
                return "" if value is None else texts.text(value)
            case "exprs":
                return _tuple(texts, value)
            case "region":
                return texts.region(value)
            case "regions":
                return "(" + ", ".join(map(texts.region, value)) + ("," if len(value) == 1 else "") + ")"
            case "buffer":
                return self._names(value)
            case "element":
                return texts.element(value, statement.indices)
            case "value":
                return texts.region(value) if isinstance(value, Region) else texts.text(value)
            case "pairs":
                return _pairs(value)
            case _:
                return literal(value)


def _form_expressions(form: Form, statement: Any) -> Iterator[Expr]:
    """The expressions of a statement in the order in which its form shows them."""
    for slot in (*form.positional, *form.keywords):
        value = getattr(statement, slot.field)
        match slot.kind:
            case "element":
                yield from statement.indices
            case "exprs":
                yield from value
            case "regions":
                for region in value:
                    yield from region_expressions(region)
            case "expr" | "optional" | "region" | "value" if value is not None:
                if isinstance(value, Region):
                    yield from region_expressions(value)
                else:
                    yield value
            case _:
                pass


def _pairs(items: Sequence[tuple[str, Any]]) -> str:
    return "{" + ", ".join(f"{quoted(key)}: {literal(item)}" for key, item in items) + "}"


def _declared_dtype(var: Var) -> str:
    return f"mutable({var.dtype.name})" if var.is_mutable else var.dtype.name


def _tuple(texts: ExpressionPrinter, items: Sequence[Expr]) -> str:
    return "(" + ", ".join(map(texts.text, items)) + ("," if len(items) == 1 else "") + ")"


def _targets(names: Sequence[str]) -> str:
    return "(" + ", ".join(names) + ("," if len(names) == 1 else "") + ")"


def _dtypes(variables: Sequence[Var]) -> list[str]:
    """The keyword that gives the dtypes of variables where one is not int32."""
    if all(var.dtype == INT32 for var in variables):
        return []
    return [f"dtypes={_targets([var.dtype.name for var in variables])}"]


def _is_count(bound: Expr, value: int, stop: Expr) -> bool:
    return isinstance(bound, Const) and type(bound.value) is int and bound.value == value and bound.dtype == stop.dtype
