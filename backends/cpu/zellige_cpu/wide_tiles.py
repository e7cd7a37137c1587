"""Tiles that only products read, held in the type that their unit multiplies: tile IR to tile IR.

In: a launch and the choices of its products. Out: a launch with the same results, in which such a tile of a narrower float has the unit's
type. It holds the same values, rounded to its old type where they are written, and the unit takes its rows where they lie: without that
every product would convert them into a packing, a tile written once before a loop in each iteration again.

Only operand a is held so: b is packed into panels anyway, which converts on the way. And only where nothing but products reads the tile,
since NaN that signal would come back as quiet ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from zellige.dtypes import DType
from zellige.ir.expr import Buffer, Cast, Expr, Node, Region
from zellige.ir.stmt import Alloc, Copy, Fill, Gemm, Launch, Map, Stmt, Store
from zellige.ir.traverse import rebuilt, rewrite, walk
from zellige.passes import tile_operations
from zellige.plan.nodes import Choice
from zellige.plan.products import holds
from zellige_cpu.fusion import with_short_axes
from zellige_cpu.host import Host
from zellige_cpu.leaf.gemm import lies_ready
from zellige_cpu.planned import unit_of

_TILES = ("shared", "fragment")


def with_wide_tiles(launch: Launch, choices: Mapping[int, Choice], host: Host) -> Launch:
    """The launch with what only products read in the type that they multiply. ``choices`` are by the identity of its products."""
    wanted = _wanted(launch, choices, host)
    wide = {tile: Buffer(name=tile.name, dtype=to, shape=tile.shape, space=tile.space) for tile, to in wanted.items()}
    if not wide:
        return launch
    return rebuilt(launch, body=tuple(_widened(statement, wide) for statement in launch.body))


def _wanted(launch: Launch, choices: Mapping[int, Choice], host: Host) -> dict[Buffer, DType]:
    """The tiles that are held wider, with their new types."""
    nodes = [node for statement in launch.body for node in walk(statement)]
    read: dict[Buffer, set[DType]] = {}
    known: Counter[Buffer] = Counter()
    for node in nodes:
        if isinstance(node, Gemm) and (unit_type := _type_of_rows(node, choices.get(id(node)), host)) is not None:
            read.setdefault(node.a.buffer, set()).add(unit_type)
            known[node.a.buffer] += 1
        known.update(_written(node))
    used = Counter(buffer for node in nodes if isinstance(buffer := getattr(node, "buffer", None), Buffer))
    kept = {safe.buffer for safe in launch.safe_values} | {buffer.root for buffer in used if buffer.root is not buffer}
    return {tile: next(iter(to)) for tile, to in read.items() if len(to) == 1 and used[tile] == known[tile] and tile not in kept}


def _type_of_rows(gemm: Gemm, choice: Choice | None, host: Host) -> DType | None:
    """The type in which the unit of a product would take the rows of its tile a where they lie; None where it does already, or never."""
    tile = gemm.a.buffer
    if choice is None or tile.space not in _TILES or tile.root is not tile or gemm.scale_a is not None or gemm.metadata is not None:
        return None
    if any(layout.operand == "a" and layout.is_direct for layout in choice.layouts):
        return None
    unit = unit_of(host, gemm, choice)
    if unit.is_matrix or unit.group > 1 or unit.a == tile.dtype or not (tile.dtype.is_float and holds(unit.a, tile.dtype)):
        return None
    return unit.a if lies_ready(unit.a, unit, 1, 1, is_transposed=gemm.transpose_a) else None


def _written(node: Node) -> Iterator[Buffer]:
    """The tiles that a node declares or writes in a way that can be written wider."""
    match node:
        case Alloc() | Store():
            yield node.buffer
        case Fill():
            yield node.dst.buffer
        case Copy() if not tile_operations.agreeing_extents(node):
            yield node.dst.buffer


def _widened(statement: Stmt, wide: Mapping[Buffer, Buffer]) -> Stmt:
    """The statement with the tiles of ``wide`` replaced by theirs."""
    narrow = {new: old.dtype for old, new in wide.items()}

    def visit(node: Node) -> Node:
        match node:
            case Region() | Alloc() if node.buffer in wide:
                return rebuilt(node, buffer=wide[node.buffer])
            case Store() if node.buffer in wide:
                return rebuilt(node, buffer=wide[node.buffer], value=Cast(value=node.value, dtype=wide[node.buffer].dtype))
            case Fill() if node.dst.buffer in narrow:
                return rebuilt(node, value=Cast(value=node.value, dtype=node.dst.buffer.dtype))
            case Copy() if node.dst.buffer in narrow and node.src.buffer.dtype != narrow[node.dst.buffer]:
                return _rounding_map(node, narrow[node.dst.buffer])
            case _:
                return node

    new: Stmt = rewrite(statement, visit)
    return new


def _rounding_map(copy: Copy, narrow: DType) -> Map:
    """The copy as points, whose values are rounded to ``narrow`` on the way, and once only."""
    points = with_short_axes(tile_operations.copy_as_map(copy))
    to = copy.dst.buffer.dtype

    def rounded(value: Expr) -> Expr:
        read = value.value if isinstance(value, Cast) and copy.src.buffer.dtype != to else value
        return Cast(value=Cast(value=read, dtype=narrow), dtype=to)

    return rebuilt(points, body=tuple(rebuilt(s, value=rounded(s.value)) if isinstance(s, Store) else s for s in points.body))
