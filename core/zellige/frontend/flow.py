"""Which names of a function are needed after, or carried around, a compound statement.

In: the syntax tree of a function. Out: :class:`Flow`, which answers for an ``if`` or a loop which of the names it assigns are read
afterwards or in its next iteration. Only such names must become variables of the kernel when the statement is decided at run time; a
name assigned and read inside of it is a plain name. The answers err on the side of "needed".

Each statement is summarised once (names read before it assigns them, names it certainly assigns, names it may assign, whether it may
jump); each list of statements keeps, for every name, the positions where it is read or assigned. A question is a search in these lists,
outward from the statement, so the whole is linear in the size of the function.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

Loop = (ast.For, ast.While, ast.AsyncFor)


@dataclass(slots=True)
class Summary:
    """``uses`` may be read before the statement assigns them, ``kills`` are certainly assigned when it ends without a jump."""

    uses: set[str] = field(default_factory=set)
    kills: set[str] = field(default_factory=set)
    assigned: set[str] = field(default_factory=set)
    jumps: bool = False


@dataclass(slots=True)
class Block:
    """A list of statements: where each name is read or assigned, which statements may jump out of it, and the names that the other parts
    of its statement may read ``behind`` it (the finally of a try)."""

    owner: ast.AST
    parent: Block | None
    position: int
    events: dict[str, list[tuple[int, bool, bool]]] = field(default_factory=dict)
    jumps: list[int] = field(default_factory=list)
    summary: Summary = field(default_factory=Summary)
    behind: frozenset[str] = frozenset()


class Flow:
    """The names of one function. ``local_names`` are those that it binds, ``captured`` those that functions inside it read."""

    def __init__(self, function: ast.FunctionDef | ast.Lambda) -> None:
        self.captured: set[str] = set()
        self.outer_names: set[str] = set()
        self.nonlocal_names: set[str] = set()
        self._where: dict[int, tuple[Block, int]] = {}
        self._summaries: dict[int, Summary] = {}
        self._heads: dict[int, set[str]] = {}
        arguments = function.args
        names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
        names += [a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None]
        body: list[ast.stmt] = function.body if isinstance(function.body, list) else [ast.Expr(function.body)]
        summary = self._block(body, function, None, 0)
        self.local_names = (summary.assigned | set(names)) - self.outer_names

    def assigned(self, statement: ast.stmt) -> set[str]:
        """Every name that the statement may bind."""
        return self._summaries[id(statement)].assigned

    def is_needed_after(self, statement: ast.stmt, name: str) -> bool:
        """Whether the value that ``name`` has when the statement ends may be read."""
        if name in self.captured:
            return True
        block, position = self._where[id(statement)]
        return self._live(block, position, name)

    def is_carried(self, loop: ast.For | ast.While, name: str) -> bool:
        """Whether an iteration may read the value that the one before left in ``name``."""
        return name in self.captured or name in self._heads[id(loop)]

    def is_read_before_assigned(self, loop: ast.For | ast.While, name: str) -> bool:
        """As :meth:`is_carried`, whether or not a function inside reads the name."""
        return name in self._heads[id(loop)]

    # ---- questions

    def _live(self, block: Block | None, position: int, name: str) -> bool:
        while block is not None:
            found = self._next_event(block, position, name)
            if found is not None and found[1]:
                return True
            end = found[0] if found is not None else None
            if self._may_jump(block, position, end) and self._live_after_jump(block, name):
                return True
            if found is not None:
                return False
            if isinstance(block.owner, Loop) and name in self._heads[id(block.owner)]:
                return True
            if name in block.behind:
                return True
            position, block = block.position, block.parent
        return False

    def _live_after_jump(self, block: Block, name: str) -> bool:
        at: Block | None = block
        while at is not None and not isinstance(at.owner, Loop):
            if name in at.behind:
                return True
            at = at.parent
        if at is None:
            return False
        return name in self._heads[id(at.owner)] or self._live(at.parent, at.position, name)

    @staticmethod
    def _next_event(block: Block, position: int, name: str) -> tuple[int, bool, bool] | None:
        events = block.events.get(name)
        if not events:
            return None
        at = bisect_right(events, (position, True, True))
        return events[at] if at < len(events) else None

    @staticmethod
    def _may_jump(block: Block, position: int, end: int | None) -> bool:
        at = bisect_right(block.jumps, position)
        return at < len(block.jumps) and (end is None or block.jumps[at] <= end)

    # ---- summaries

    def _block(
        self, statements: list[ast.stmt], owner: ast.AST, parent: Block | None, position: int, behind: frozenset[str] = frozenset()
    ) -> Summary:
        block = Block(owner, parent, position, behind=behind)
        total = block.summary
        for index, statement in enumerate(statements):
            self._where[id(statement)] = (block, index)
            summary = self._statement(statement, block, index)
            self._summaries[id(statement)] = summary
            for name in summary.uses | summary.kills:
                block.events.setdefault(name, []).append((index, name in summary.uses, name in summary.kills))
            if summary.jumps:
                block.jumps.append(index)
                total.jumps = True
            total.uses |= summary.uses - total.kills
            total.kills |= summary.kills
            total.assigned |= summary.assigned
        return total

    def _statement(self, node: ast.stmt, block: Block, index: int) -> Summary:
        match node:
            case ast.Assign():
                return self._assignment(node.targets, [node.value])
            case ast.AnnAssign():
                targets = [node.target] if node.value is not None else []
                return self._assignment(targets, [node.annotation, *([node.value] if node.value is not None else [])])
            case ast.AugAssign():
                result = self._assignment([node.target], [node.value])
                result.uses |= {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
                return result
            case ast.For() | ast.AsyncFor():
                return self._for(node, block, index)
            case ast.While():
                head = self._expressions([node.test])
                body = self._block(node.body, node, block, index)
                self._heads[id(node)] = head.uses | (body.uses - head.kills)
                return _loop(head, body)
            case ast.If():
                head = self._expressions([node.test])
                then = self._block(node.body, node, block, index)
                otherwise = self._block(node.orelse, node, block, index)
                return Summary(
                    head.uses | then.uses | otherwise.uses,
                    then.kills & otherwise.kills,
                    head.assigned | then.assigned | otherwise.assigned,
                    then.jumps or otherwise.jumps,
                )
            case ast.With() | ast.AsyncWith():
                head = self._expressions([item.context_expr for item in node.items])
                bindings: list[ast.expr] = [item.optional_vars for item in node.items if item.optional_vars is not None]
                bound = self._assignment(bindings, [])
                body = self._block(node.body, node, block, index)
                return Summary(
                    head.uses | bound.uses | (body.uses - bound.kills),
                    bound.kills | body.kills,
                    head.assigned | bound.assigned | body.assigned,
                    body.jumps,
                )
            case ast.Try():
                return self._try(node, block, index)
            case ast.Match():
                return self._match(node, block, index)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                head = self._expressions(defining_parts(node))
                names = free_names(node)
                self.captured |= names
                return Summary(head.uses | names, {node.name}, {node.name} | head.assigned)
            case ast.Import() | ast.ImportFrom():
                names = {(alias.asname or alias.name).split(".")[0] for alias in node.names}
                return Summary(set(), names, set(names))
            case ast.Global() | ast.Nonlocal():
                self.outer_names |= set(node.names)
                if isinstance(node, ast.Nonlocal):
                    self.nonlocal_names |= set(node.names)
                return Summary()
            case ast.Delete():
                return Summary(set(), set(), {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)})
            case ast.Break() | ast.Continue():
                return Summary(jumps=True)
            case _:
                return self._expressions([node])

    def _for(self, node: ast.For | ast.AsyncFor, block: Block, index: int) -> Summary:
        head = self._expressions([node.iter])
        bound = self._assignment([node.target], [])
        body = self._block(node.body, node, block, index)
        around = bound.uses | (body.uses - bound.kills)
        self._heads[id(node)] = around
        inner = Summary(around, set(), bound.assigned | body.assigned)
        return _loop(head, inner)

    def _try(self, node: ast.Try, block: Block, index: int) -> Summary:
        last = self._block(node.finalbody, node, block, index)
        behind = set(last.uses)
        parts = [last]
        for handler in node.handlers:
            parts.append(self._block(handler.body, node, block, index, frozenset(last.uses)))
            behind |= parts[-1].uses
            if handler.type is not None:
                parts.append(self._expressions([handler.type]))
            if handler.name is not None:
                parts.append(Summary(set(), set(), {handler.name}))
        parts.append(self._block(node.orelse, node, block, index, frozenset(last.uses)))
        parts.append(self._block(node.body, node, block, index, frozenset(behind | parts[-1].uses)))
        return _any_of(parts)

    def _match(self, node: ast.Match, block: Block, index: int) -> Summary:
        parts = [self._expressions([node.subject])]
        for case in node.cases:
            parts.append(self._expressions([case.pattern, *([case.guard] if case.guard is not None else [])]))
            captured = {
                n.name for n in ast.walk(case.pattern) if isinstance(n, (ast.MatchAs, ast.MatchStar)) and n.name is not None
            } | {n.rest for n in ast.walk(case.pattern) if isinstance(n, ast.MatchMapping) and n.rest is not None}
            parts.append(Summary(set(), set(), captured))
            parts.append(self._block(case.body, node, block, index))
        return _any_of(parts)

    def _assignment(self, targets: Sequence[ast.expr], values: Sequence[ast.expr]) -> Summary:
        result = self._expressions([*values, *targets])
        names = _bound_by(targets)
        result.kills |= names
        result.assigned |= names
        return result

    def _expressions(self, nodes: Sequence[ast.AST]) -> Summary:
        result = Summary()
        for root in nodes:
            for node in _nodes_of_interest(root):
                if isinstance(node, ast.Name):
                    if isinstance(node.ctx, ast.Load):
                        result.uses.add(node.id)
                elif isinstance(node, ast.NamedExpr):
                    result.assigned.add(node.target.id)
                elif isinstance(node, ast.Lambda):
                    names = free_names(node)
                    self.captured |= names
                    result.uses |= names
        return result


def _bound_by(targets: Sequence[ast.expr]) -> set[str]:
    """The names that an assignment to the targets certainly binds."""
    names: set[str] = set()
    pending = list(targets)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, (ast.Tuple, ast.List)):
            pending += node.elts
        elif isinstance(node, ast.Starred):
            pending.append(node.value)
    return names


def _nodes_of_interest(root: ast.AST) -> list[ast.AST]:
    """The names, assignment expressions and lambdas under ``root`` (itself included): what says which names are read and bound. What
    stands in a lambda is not under it but for the defaults, since its names are its own."""
    found: list[ast.AST] = []
    pending: list[ast.AST] = [root]
    while pending:
        node = pending.pop()
        kind = type(node)
        if kind is ast.Name:
            found.append(node)
            continue
        if kind is ast.Constant:
            continue
        if kind is ast.NamedExpr or kind is ast.Lambda:
            found.append(node)
        if isinstance(node, ast.Lambda):
            pending += defining_parts(node)
            continue
        for name in kind._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                pending.extend(v for v in value if isinstance(v, ast.AST))
            elif isinstance(value, ast.AST):
                pending.append(value)
    return found


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def defining_parts(definition: Definition) -> list[ast.expr]:
    """What the scope around a definition evaluates when it comes to it: the decorators and the defaults, in Python's order."""
    parts: list[ast.expr] = list(getattr(definition, "decorator_list", ()))
    if isinstance(definition, ast.ClassDef):
        return parts
    return parts + [d for d in (*definition.args.defaults, *definition.args.kw_defaults) if d is not None]


def free_names(function: Definition) -> set[str]:
    """The names that a nested function takes from the scopes around it when it is called (too many rather than too few)."""
    body = function.body if isinstance(function.body, list) else [function.body]
    loads, own, outer = _names_of_scope(body)
    if isinstance(function, ast.ClassDef):
        return loads
    # an annotation belongs to the scope around, though a macro evaluates it when it is called
    arguments = [n for n in ast.walk(function.args) if isinstance(n, ast.arg)]
    annotations = {n.id for a in arguments if a.annotation is not None for n in ast.walk(a.annotation) if isinstance(n, ast.Name)}
    return (loads - ((own | {a.arg for a in arguments}) - outer)) | annotations


def _names_of_scope(body: Sequence[ast.AST]) -> tuple[set[str], set[str], set[str]]:
    """The names that one scope reads, those that it binds, and those that it declares to be of a scope around it. A function or a
    comprehension inside has a scope of its own, whose names are no names of this one: of it count the names it takes from around it."""
    loads: set[str] = set()
    own: set[str] = set()
    outer: set[str] = set()
    pending = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name):
            (loads if isinstance(node.ctx, ast.Load) else own).add(node.id)
        elif isinstance(node, (ast.Nonlocal, ast.Global)):
            outer.update(node.names)
        elif isinstance(node, Definition):
            loads |= free_names(node)
            pending += defining_parts(node)
            if not isinstance(node, ast.Lambda):
                own.add(node.name)
        elif isinstance(node, _COMPREHENSIONS):
            targets = _names_of_scope([g.target for g in node.generators])
            inside = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.comprehension)]
            read, given, _ = _names_of_scope([*inside, *(test for g in node.generators for test in g.ifs)])
            loads |= targets[0] | (read - targets[1])
            own |= given  # by an assignment expression, which binds in the scope around
            pending += [g.iter for g in node.generators]
        else:
            pending.extend(ast.iter_child_nodes(node))
    return loads, own, outer


def _loop(head: Summary, body: Summary) -> Summary:
    """A loop, which has no else (:mod:`zellige.frontend.endings`): a break or continue of the body stays inside."""
    return Summary(head.uses | body.uses, set(), head.assigned | body.assigned)


def _any_of(parts: list[Summary]) -> Summary:
    result = Summary()
    for part in parts:
        result.uses |= part.uses
        result.assigned |= part.assigned
        result.jumps = result.jumps or part.jumps
    return result
