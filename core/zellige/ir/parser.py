"""The text form of the tile IR, read back into a kernel.

In: text as :mod:`zellige.ir.printer` writes it (docs/tile-ir.md has the grammar; keyword arguments in any order, comments anywhere).
Out: a kernel whose nodes have spans in the text. Everything that is not of the grammar is a
:class:`~zellige.diagnostics.CompileError` E260 with line and caret, a text of another version E261. Whether the kernel makes
sense is for :mod:`zellige.ir.verify` to say.

The syntax is read by Python's own parser. Its limit on nesting, about 1,000 levels, is one of the text form: the
printer never comes near it, since it names the parts of deep expressions.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final

from zellige.diagnostics import Span, catalogue
from zellige.ir.expr import INT32, Buffer, Expr, Var, VarKind
from zellige.ir.expression_parser import ExpressionParser, Scopes
from zellige.ir.statement_parser import StatementParser
from zellige.ir.stmt import (
    Hint,
    Kernel,
    Launch,
    LayoutHint,
    NamedHint,
    Param,
    RasterHint,
    SafeValue,
    ScalarParam,
    TensorParam,
)
from zellige.ir.syntax import HINTS, VERSION
from zellige.ir.text_source import TextSource

_HEADER: Final = re.compile(r"# tile-ir (\d{1,9})\.(\d{1,9})[ \t]*(\r?\n|\Z)")
_ROLES: Final = ("argument", "output", "workspace")


def parse_kernel(text: str, file: str | None = None) -> Kernel:
    """The kernel that ``text`` describes. ``file`` is the name that spans carry, where the text was read from a file.

    Raises CompileError E260 where the text breaks the grammar, E261 where its version is not one that this module reads.
    """
    source = TextSource(text, file)
    _check_version(source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python's parser, about spellings that programs should avoid
            module = ast.parse(text)
    except SyntaxError as error:
        line = min(max(error.lineno or 1, 1), text.count("\n") + 1)
        column = max((error.offset or 1) - 1, 0)
        raise catalogue.E260.error(Span(source.file, line, column, line, column + 1), reason=f"{error.msg}") from None
    except (RecursionError, MemoryError):
        raise catalogue.E260.error(Span(source.file, 1), reason="an expression is nested too deeply: name its parts by let") from None
    except ValueError as error:  # null characters
        raise catalogue.E260.error(Span(source.file, 1), reason=str(error)) from None
    return _KernelParser(source).kernel(module)


def _check_version(source: TextSource) -> None:
    found = _HEADER.match(source.text)
    place = Span(source.file, 1, 0)
    if found is None:
        raise catalogue.E260.error(place, reason="the first line is not `# tile-ir {}.{}`".format(*VERSION))
    major, minor = int(found[1]), int(found[2])
    if major != VERSION[0] or minor > VERSION[1]:
        reason = f"the text is tile-ir {major}.{minor}"
        raise catalogue.E261.error(place, reason=reason, major=VERSION[0], minor=VERSION[1])


class _KernelParser:
    """Reads the kernel, its launches and their hints; statements are for :class:`StatementParser`."""

    def __init__(self, source: TextSource) -> None:
        self._source = source
        self._scopes = Scopes(source)
        self._expressions = ExpressionParser(source, self._scopes)
        self._statements = StatementParser(source, self._scopes, self._expressions, self._remember)
        self._buffers: dict[str, list[Buffer]] = {}  # declared anywhere in the launch at hand: hints come before them

    def _remember(self, name: str, buffer: Buffer) -> None:
        self._buffers.setdefault(name, []).append(buffer)

    # ---- the kernel and its parameters ----

    def kernel(self, module: ast.Module) -> Kernel:
        source = self._source
        if len(module.body) != 1 or not isinstance(module.body[0], ast.FunctionDef):
            place = module.body[-1] if module.body else Span(source.file, 1)
            raise source.error(place, "a text holds one kernel: def name(...):")
        function = module.body[0]
        name = self._decorators(function)
        arguments = [(a, *source.call(a.annotation, "tensor(...), scalar(...) or size(...)")) for a in self._arguments(function)]
        params: dict[str, Param] = {}
        for argument, word, call in arguments:
            if word in ("scalar", "size"):
                params[argument.arg] = self._scalar(argument, word, call)
        body = list(function.body)
        while body and _is_let(body[0]):  # parts of the shapes
            self._statements.declaration(body.pop(0))
        for argument, word, call in arguments:
            if word == "tensor":
                params[argument.arg] = self._tensor(argument, call)
            elif word not in ("scalar", "size"):
                raise source.error(call, f"{word} is none of tensor, scalar and size")
        names = [argument.arg for argument, _, _ in arguments]
        for argument, _, _ in arguments:
            param = params[argument.arg]
            if isinstance(param, TensorParam):
                self._scopes.declare(argument.arg, param.buffer, argument)
        return Kernel(
            name=name,
            params=tuple(params[name] for name in names),
            results=() if function.returns is None else tuple(self._result(item, names) for item in source.items(function.returns)),
            launches=self._launches(body),
            span=source.span(function),
        )

    def _decorators(self, function: ast.FunctionDef) -> str:
        source, name = self._source, function.name
        for decorator in function.decorator_list:
            word, call = source.call(decorator, "@sizes(...) or @name(...)")
            if word == "sizes":
                source.positional(call, 0)
                for keyword in call.keywords:
                    if keyword.arg is None:
                        raise source.error(keyword.value, "** has no meaning here")
                    size = Var(name=keyword.arg, dtype=source.dtype(keyword.value), kind="size", span=source.span(keyword))
                    self._scopes.declare(keyword.arg, size, keyword)
            elif word == "name":
                source.keywords(call)
                name = source.typed(source.positional(call, 1)[0], "str")
            else:
                raise source.error(decorator, f"{word} is neither sizes nor name")
        return name

    def _arguments(self, function: ast.FunctionDef) -> list[ast.arg]:
        given = function.args
        if given.posonlyargs or given.kwonlyargs or given.vararg or given.kwarg or given.defaults:
            raise self._source.error(function, "parameters are plain: name: tensor(...)")
        for argument in given.args:
            if argument.annotation is None:
                raise self._source.error(argument, f"{argument.arg} has no annotation")
        return given.args

    def _scalar(self, argument: ast.arg, word: str, call: ast.Call) -> ScalarParam:
        self._source.keywords(call)
        (element,) = self._source.positional(call, 1)
        kind: VarKind = "size" if word == "size" else "scalar"
        var = Var(name=argument.arg, dtype=self._source.dtype(element), kind=kind, span=self._source.span(argument))
        self._scopes.declare(argument.arg, var, argument)
        return ScalarParam(var=var)

    def _tensor(self, argument: ast.arg, call: ast.Call) -> TensorParam:
        source = self._source
        shape, element = source.positional(call, 2)
        given = source.keywords(call, "role", "strides")
        role: Any = source.typed(given["role"], "str") if "role" in given else "argument"
        if role not in _ROLES:
            raise source.error(given["role"], f"{role!r} is none of {', '.join(_ROLES)}")
        return TensorParam(buffer=self._statements.buffer(argument.arg, shape, element, given, argument), role=role)

    def _result(self, node: ast.expr, names: Sequence[str]) -> int:
        name = self._source.name(node, "a parameter")
        if name not in names:
            raise self._source.error(node, f"{name} is not a parameter")
        return names.index(name)

    # ---- launches ----

    def _launches(self, body: Sequence[ast.stmt]) -> tuple[Launch, ...]:
        found: list[Launch] = []
        for statement in body:
            if isinstance(statement, ast.With):
                found.append(self._launch(statement))
            elif not isinstance(statement, ast.Pass) and not self._statements.declaration(statement):
                raise self._source.error(statement, "a kernel is made of launches: with launch(...) as (...):")
        return tuple(found)

    def _launch(self, node: ast.With) -> Launch:
        source, head = self._source, node.items[0]
        word, call = source.call(head.context_expr, "launch(...)")
        if word != "launch" or len(node.items) > 2:
            raise source.error(head.context_expr, "a kernel is made of launches: with launch(...) as (...):")
        given = source.keywords(call, "threads", "cluster", "dtypes")
        grid = tuple(self._expressions.expression(extent) for extent in source.positional(call, 0, len(call.args)))
        threads = self._expressions.expressions(given["threads"]) if "threads" in given else None
        cluster = source.typed(given["cluster"], "ints") if "cluster" in given else None
        self._scopes.open()
        grid_vars = self._targets(head, "grid", given)
        lane_vars: tuple[Var, ...] = ()
        warp: Var | None = None
        if len(node.items) == 2:
            word, call = source.call(node.items[1].context_expr, "lanes(...)")
            if word != "lanes":
                raise source.error(node.items[1].context_expr, "lanes(...) is needed here")
            source.positional(call, 0)
            of_lanes = source.keywords(call, "dtypes", "warp")
            lane_vars = self._targets(node.items[1], "lane", of_lanes)
            warp = self._warp(of_lanes["warp"]) if "warp" in of_lanes else None
        self._buffers = {}
        hints: list[Callable[[], SafeValue | Hint]] = []
        statements = list(node.body)
        while statements and (_is_let(statements[0]) or _hint(statements[0]) is not None):
            first = statements.pop(0)
            hint = _hint(first)
            if hint is None:
                self._statements.declaration(first)
            else:
                hints.append(self._hint(hint))
        self._scopes.open()
        body = self._statements.body(statements)
        self._scopes.close()
        parsed = [finish() for finish in hints]  # once the buffers that they name are known
        self._scopes.close()
        return Launch(
            grid_vars=grid_vars,
            grid=grid,
            threads=threads,
            lane_vars=lane_vars,
            warp=warp,
            cluster=cluster,
            safe_values=tuple(hint for hint in parsed if isinstance(hint, SafeValue)),
            hints=tuple(hint for hint in parsed if not isinstance(hint, SafeValue)),
            body=body,
            span=source.span(head.context_expr),
        )

    def _warp(self, node: ast.expr) -> Var:
        """The name of how many lanes a warp has."""
        name = self._source.typed(node, "str")
        var = Var(name=name, dtype=INT32, kind="lane", span=self._source.span(node))
        self._scopes.declare(name, var, node)
        return var

    def _targets(self, item: ast.withitem, kind: VarKind, given: dict[str, ast.expr]) -> tuple[Var, ...]:
        source = self._source
        if item.optional_vars is None:
            raise source.error(item.context_expr, "names are needed here: as (x, y)")
        return self._variables(source.items(item.optional_vars), kind, given, item.context_expr)

    def _variables(
        self, names: Sequence[ast.expr | ast.arg], kind: VarKind, given: dict[str, ast.expr], place: ast.expr
    ) -> tuple[Var, ...]:
        source = self._source
        dtypes = [source.dtype(item) for item in source.items(given["dtypes"])] if "dtypes" in given else [INT32] * len(names)
        if len(dtypes) != len(names):
            raise source.error(place, f"{len(dtypes)} dtypes for {len(names)} variables")
        found: list[Var] = []
        for node, dtype in zip(names, dtypes):
            name = node.arg if isinstance(node, ast.arg) else source.name(node, "a variable")
            found.append(Var(name=name, dtype=dtype, kind=kind, span=source.span(node)))
            self._scopes.declare(name, found[-1], node)
        return tuple(found)

    # ---- hints ----

    def _hint(self, call: ast.Call) -> Callable[[], SafeValue | Hint]:
        """Reads all of a hint but the name of its buffer, which may be declared further on; the function returned completes it."""
        source, span = self._source, self._source.span(call)
        word = source.name(call.func, "a hint")
        if word == "safe_value":
            source.keywords(call)
            target, expr = source.positional(call, 2)
            value = self._expressions.expression(expr)
            return lambda: SafeValue(buffer=self._hinted(target), value=value, span=span)
        if word == "layout":
            return self._layout(call)
        given = source.keywords(call, *(("buffer",) if word == "hint" else ()))
        first, second = source.positional(call, 2)
        if word == "raster":
            raster = RasterHint(panel=source.typed(first, "int"), order=source.typed(second, "str"), span=span)
            return lambda: raster
        name, setting = source.typed(first, "str"), source.typed(second, "scalar")
        return lambda: NamedHint(name=name, value=setting, buffer=self._hinted(given["buffer"]) if given else None, span=span)

    def _hinted(self, node: ast.expr) -> Buffer:
        """A buffer by its name: one of the launch, wherever it is declared, or a parameter or view of the kernel."""
        name = self._source.name(node, "a buffer")
        found = self._buffers.get(name)
        if found is None:
            return self._scopes.buffer(node)
        if len(found) > 1:
            raise self._source.error(node, f"{len(found)} buffers of the launch are called {name}: a hint needs a name of its own")
        return found[0]

    def _layout(self, call: ast.Call) -> Callable[[], LayoutHint]:
        source, span = self._source, self._source.span(call)
        arguments = source.positional(call, 2, 3)
        given = source.keywords(call, "replicate", "dtypes")
        replicate = source.typed(given["replicate"], "int") if "replicate" in given else 1
        kind = source.typed(arguments[1], "str")
        if len(arguments) == 2:
            return lambda: LayoutHint(buffer=self._hinted(arguments[0]), kind=kind, replicate=replicate, span=span)
        function = arguments[2]
        if not isinstance(function, ast.Lambda):
            raise source.error(function, "a layout map is written lambda i, j: ((coordinate, ...), lane or None)")
        parts = source.items(function.body)
        if not 2 <= len(parts) <= 3:
            raise source.error(function.body, "a layout map gives ((coordinate, ...), lane or None), after parts that it names")
        self._scopes.open()
        axes = self._variables(function.args.args, "loop", given, function)
        for part in source.items(parts[0]) if len(parts) == 3 else ():
            if not isinstance(part, ast.NamedExpr):
                raise source.error(part, "a named part is written name := expression")
            self._scopes.declare(part.target.id, self._expressions.expression(part.value), part.target)
        forward = self._expressions.expressions(parts[-2])
        is_none = isinstance(parts[-1], ast.Constant) and parts[-1].value is None
        lane: Expr | None = None if is_none else self._expressions.expression(parts[-1])
        self._scopes.close()
        return lambda: LayoutHint(
            buffer=self._hinted(arguments[0]), kind=kind, axes=axes, forward=forward, lane=lane, replicate=replicate, span=span
        )


def _is_let(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(value=ast.Call(func=ast.Name(id="let"))):
            return True
        case _:
            return False


def _hint(statement: ast.stmt) -> ast.Call | None:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id=name)) as call) if name in HINTS:
            return call
        case _:
            return None
