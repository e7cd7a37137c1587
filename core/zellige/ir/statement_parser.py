"""Statements of the tile IR from Python's syntax nodes.

In: the statements of a body and the names in scope. Out: statements whose nodes have spans in the text. Bodies nest on
Python's stack, as deep as indentation goes (Python allows 100 levels); chains of ``elif`` do not.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Final

from zellige.dtypes import DType
from zellige.ir.expr import Buffer, Const, Expr, Var
from zellige.ir.expression_parser import ExpressionParser, Scopes
from zellige.ir.stmt import Alloc, Assert, Assign, Bind, Break, Continue, For, If, Map, Return, Stmt, Store, While
from zellige.ir.syntax import FORM_NAMED, HINTS, LOOPS, Form, Slot
from zellige.ir.text_source import TextSource

_HINT_PLACE: Final = dict.fromkeys(HINTS, ": hints stand at the head of a launch")


class StatementParser:
    """Turns bodies into statements. ``on_buffer`` is told of every buffer that is declared, with its name."""

    def __init__(self, source: TextSource, scopes: Scopes, expressions: ExpressionParser, on_buffer: Callable[[str, Buffer], None]) -> None:
        self._source = source
        self._scopes = scopes
        self._expressions = expressions
        self._on_buffer = on_buffer

    def body(self, statements: Sequence[ast.stmt]) -> tuple[Stmt, ...]:
        """The statements of a body, in a scope that is open already."""
        found: list[Stmt] = []
        for statement in statements:
            if isinstance(statement, ast.Pass) or self.declaration(statement):
                continue
            found.append(self._statement(statement))
        return tuple(found)

    def declaration(self, statement: ast.stmt) -> bool:
        """Takes in ``name = let(...)`` and ``name = view(...)``, which are no statements of the IR; False for any other."""
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="let" | "view" as word)) as call):
                if word == "let":
                    self.let(name, call, statement)
                else:
                    self._view(name, call, statement)
                return True
            case _:
                return False

    def let(self, name: str, call: ast.Call, place: Any) -> None:
        """Names a part of expressions."""
        self._source.keywords(call)
        (part,) = self._source.positional(call, 1)
        self._scopes.declare(name, self._expressions.expression(part), place)

    def buffer(self, name: str, shape: ast.expr, element: ast.expr, given: dict[str, ast.expr], place: Any, **fields: Any) -> Buffer:
        """A buffer that ``name`` at ``place`` will stand for."""
        strides = self._expressions.expressions(given["strides"]) if "strides" in given else None
        return Buffer(
            name=name,
            dtype=self._source.dtype(element),
            shape=self._expressions.expressions(shape),
            strides=strides,
            span=self._source.span(place),
            **fields,
        )

    def _view(self, name: str, call: ast.Call, place: Any) -> None:
        target, shape, element = self._source.positional(call, 3)
        given = self._source.keywords(call, "strides")
        storage = self._scopes.buffer(target)
        view = self.buffer(name, shape, element, given, place, space=storage.space, alias=storage)
        self._scopes.declare(name, view, place)
        self._on_buffer(name, view)

    def _nested(self, statements: Sequence[ast.stmt]) -> tuple[Stmt, ...]:
        self._scopes.open()
        body = self.body(statements)
        self._scopes.close()
        return body

    def _statement(self, node: ast.stmt) -> Stmt:
        source, span = self._source, self._source.span(node)
        match node:
            case ast.Assign(targets=[target]):
                return self._assignment(node, target)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                return self._binding(node, name, value)
            case ast.Expr(value=ast.Call() as call):
                return self._form(call, node, None, ())
            case ast.For(orelse=[]):
                return self._for(node)
            case ast.While(orelse=[]):
                condition = self._expressions.expression(node.test)
                return While(condition=condition, body=self._nested(node.body), span=source.span(node.test))
            case ast.If():
                return self._if(node)
            case ast.With(items=[item]):
                return self._with(node, item)
            case ast.Break():
                return Break(span=span)
            case ast.Continue():
                return Continue(span=span)
            case ast.Return(value=None):
                return Return(span=span)
            case ast.Assert():
                message = source.typed(node.msg, "str") if node.msg is not None else ""
                return Assert(condition=self._expressions.expression(node.test), message=message, span=span)
            case _:
                raise source.error(node, f"{type(node).__name__} is not a statement of the tile IR, as it stands here")

    def _assignment(self, node: ast.Assign, target: ast.expr) -> Stmt:
        span = self._source.span(node)
        match target, node.value:
            case ast.Name(id=name), ast.Call(func=ast.Name(id="alloc")) as call:
                shape, element, space = self._source.positional(call, 3)
                given = self._source.keywords(call, "strides")
                buffer = self.buffer(name, shape, element, given, target, space=self._source.typed(space, "str"))
                self._scopes.declare(name, buffer, target)
                self._on_buffer(name, buffer)
                return Alloc(buffer=buffer, span=span)
            case ast.Name(), value:
                return Assign(var=self._scopes.variable(target), value=self._expressions.expression(value), span=span)
            case ast.Subscript(), value:
                buffer, indices = self._expressions.element(target)
                return Store(buffer=buffer, indices=indices, value=self._expressions.expression(value), span=span)
            case _:
                raise self._source.error(target, "the target of an assignment is a name or an element")

    def _declared(self, annotation: ast.expr, name: str, place: Any) -> Var:
        """The variable of ``name: dtype`` or ``name: mutable(dtype)``, not yet in scope."""
        match annotation:
            case ast.Call(func=ast.Name(id="mutable")):
                self._source.keywords(annotation)
                (element,) = self._source.positional(annotation, 1)
                return Var(name=name, dtype=self._source.dtype(element), kind="mutable", span=self._source.span(place))
            case _:
                return Var(name=name, dtype=self._source.dtype(annotation), kind="value", span=self._source.span(place))

    def _binding(self, node: ast.AnnAssign, name: str, value: ast.expr) -> Stmt:
        var = self._declared(node.annotation, name, node.target)
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in FORM_NAMED:
            statement = self._form(value, node, var, ())
        else:
            statement = Bind(var=var, value=self._expressions.expression(value), span=self._source.span(node))
        self._scopes.declare(name, var, node.target)
        return statement

    # ---- control flow ----

    def _for(self, node: ast.For) -> Stmt:
        source = self._source
        word, call = source.call(node.iter, "a kind of loop")
        names = [node.target] if isinstance(node.target, ast.Name) else source.items(node.target)
        labels = [source.name(name, "a loop variable") for name in names]
        if word == "parallel":
            given = source.keywords(call, "vector_width", "hints")
            width = source.typed(given["vector_width"], "int") if "vector_width" in given else None
            hints = self._pairs(given["hints"]) if "hints" in given else ()
            extents = tuple(self._expressions.expression(e) for e in source.positional(call, 0, len(call.args)))
            if len(labels) != len(extents):
                raise source.error(node.target, f"{len(labels)} variables for {len(extents)} extents")
            axes = tuple(self._loop_variable(label, extent.dtype, place) for label, extent, place in zip(labels, extents, names))
            body = self._loop(axes, names, node.body)
            return Map(axes=axes, extents=extents, body=body, vector_width=width, hints=hints, span=source.span(node.iter))
        if word not in LOOPS or len(names) != 1 or not isinstance(node.target, ast.Name):
            raise source.error(node.iter, f"a loop has one variable and is one of {', '.join(LOOPS)}, or it is parallel")
        kind, slots = LOOPS[word]
        given = source.keywords(call, *(slot.field for slot in slots))
        values: dict[str, Any] = {}
        for slot in slots:
            if slot.field in given:
                values.update(self._slot(slot, given[slot.field]))
        bounds = [self._expressions.expression(bound) for bound in source.positional(call, 1, 3)]
        stop = bounds[min(1, len(bounds) - 1)]
        span = source.span(node.iter)
        start = bounds[0] if len(bounds) > 1 else Const(value=0, dtype=stop.dtype, span=span)
        step = bounds[2] if len(bounds) > 2 else Const(value=1, dtype=stop.dtype, span=span)
        var = self._loop_variable(labels[0], start.dtype, node.target)
        body = self._loop((var,), names, node.body)
        return For(var=var, start=start, stop=stop, step=step, kind=kind(**values), body=body, span=span)

    def _loop_variable(self, name: str, dtype: DType, place: Any) -> Var:
        return Var(name=name, dtype=dtype, kind="loop", span=self._source.span(place))

    def _loop(self, variables: Sequence[Var], places: Sequence[ast.expr], statements: Sequence[ast.stmt]) -> tuple[Stmt, ...]:
        self._scopes.open()
        for var, place in zip(variables, places):
            self._scopes.declare(var.name, var, place)
        body = self.body(statements)
        self._scopes.close()
        return body

    def _if(self, node: ast.If) -> If:
        chain: list[tuple[ast.If, Expr, tuple[Stmt, ...]]] = []
        otherwise: tuple[Stmt, ...] = ()
        while True:
            condition = self._expressions.expression(node.test)
            chain.append((node, condition, self._nested(node.body)))
            if len(node.orelse) != 1 or not isinstance(node.orelse[0], ast.If):
                otherwise = self._nested(node.orelse)
                break
            node = node.orelse[0]
        for link, condition, then in reversed(chain):
            found = If(condition=condition, then=then, otherwise=otherwise, span=self._source.span(link.test))
            otherwise = (found,)
        return found

    def _with(self, node: ast.With, item: ast.withitem) -> Stmt:
        source = self._source
        word, call = source.call(item.context_expr, "a form with a body")
        if word not in FORM_NAMED or not FORM_NAMED[word].has_body:
            raise source.error(item.context_expr, f"{word} has no body")
        var: Var | None = None
        annotations = [k.value for k in call.keywords if k.arg == "result"]
        if (item.optional_vars is None) != (not annotations):
            raise source.error(node, "a result is given twice: as result=dtype and after `as`")
        if item.optional_vars is not None:
            name = source.name(item.optional_vars, "a variable")
            var = self._declared(annotations[0], name, item.optional_vars)
            self._scopes.declare(name, var, item.optional_vars)
        return self._form(call, node, var, self._nested(node.body))

    # ---- forms ----

    def _form(self, call: ast.Call, node: ast.stmt, result: Var | None, body: tuple[Stmt, ...]) -> Stmt:
        source = self._source
        word = source.name(call.func, "a statement")
        form = FORM_NAMED.get(word)
        if form is None:
            raise source.error(call, f"{word} is not a statement of the tile IR" + _HINT_PLACE.get(word, ""))
        if result is not None and not form.has_result:
            raise source.error(call, f"{word} has no result")
        required = sum(slot.kind != "optional" for slot in form.positional)
        values: dict[str, Any] = {slot.field: None for slot in form.positional if slot.kind == "optional"}
        for slot, argument in zip(form.positional, source.positional(call, required, len(form.positional))):
            values.update(self._slot(slot, argument))
        aliases = ("region",) if any(slot.kind == "value" for slot in form.keywords) else ()
        results = ("result",) if form.has_body else ()
        given = source.keywords(call, *(slot.field for slot in form.keywords), *aliases, *results)
        values.update(self._keywords(form, given, call))
        if form.has_result:
            values["result"] = result
        if form.has_body:
            values["body"] = body
            if "result" in given and not isinstance(node, ast.With):
                raise source.error(given["result"], "result=dtype stands only in a `with`")
        statement: Stmt = form.node(**values, span=source.span(call))
        return statement

    def _keywords(self, form: Form, given: dict[str, ast.expr], call: ast.Call) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for slot in form.keywords:
            if slot.kind == "value":
                if "region" in given and "value" in given:
                    raise self._source.error(call, "value and region exclude each other")
                if "region" in given:
                    values[slot.field] = self._expressions.region(given["region"])
                    continue
                values[slot.field] = None
            if slot.field in given:
                values.update(self._slot(slot, given[slot.field]))
            elif slot.kind != "value" and form.default(slot.field) is dataclasses.MISSING:
                raise self._source.error(call, f"{slot.field} is missing")
        return values

    def _slot(self, slot: Slot, node: ast.expr) -> dict[str, Any]:
        """The fields that the argument at ``slot`` fills."""
        expressions = self._expressions
        match slot.kind:
            case "expr" | "optional" | "value":
                value: Any = expressions.expression(node)
            case "exprs":
                value = expressions.expressions(node)
            case "region":
                value = expressions.region(node)
            case "regions":
                value = tuple(expressions.region(item) for item in self._source.items(node))
            case "buffer":
                value = self._scopes.buffer(node)
            case "element":
                buffer, indices = expressions.element(node)
                return {"buffer": buffer, "indices": indices}
            case "pairs":
                value = self._pairs(node)
            case "str" | "int" | "bool" | "ints":
                value = self._source.typed(node, slot.kind)
        return {slot.field: value}

    def _pairs(self, node: ast.expr) -> tuple[tuple[str, Any], ...]:
        if not isinstance(node, ast.Dict):
            raise self._source.error(node, "a dictionary of literals is needed here")
        found: list[tuple[str, Any]] = []
        for key, item in zip(node.keys, node.values):
            if key is None:
                raise self._source.error(item, "** has no meaning here")
            found.append((self._source.typed(key, "str"), self._source.typed(item, "scalar")))
        return tuple(found)
