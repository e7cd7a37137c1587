"""A planned kernel as a program of the machine.

In: a plan: a role with its body, channels, placements, choices. Out: the program's text, and the places of the kernel that it names.
Products and copies that the plan gives to the product instruction and to the copy engine are these instructions; copies that run ahead
stand in a queue with counted waits, as the plan says; every other tile operation is a map over its elements.
Raises Unsupported (E410) for what the machine lacks. A vendor replaces the instructions; which statements there are stays.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from zellige.diagnostics import Span
from zellige.dtypes import dtype as as_dtype
from zellige.ir import stmt as ir
from zellige.ir.expr import Region, Var
from zellige.ir.lanes import has_lane_code
from zellige.ir.sizes import size_vars
from zellige.ir.traverse import walk
from zellige.passes import tile_operations as tiles
from zellige.passes.tile_blocks import as_change, as_maps, gemm_in_blocks, map_as_loops, private_changes
from zellige.plan import nodes as plan
from zellige.plan.single_stream import single_stream
from zellige.plugin.contract import Capabilities
from zellige_template.expressions import Writer


def lower(planned: plan.PlannedKernel, stated: Capabilities) -> tuple[str, tuple[Span | None, ...]]:
    """The text of the program, and the places of the kernel that it names by number."""
    write, kernel = Writer(stated.target), planned.kernel
    scalars = [param.var for param in kernel.params if isinstance(param, ir.ScalarParam)]
    for kind, variables in (("scalar", scalars), ("size", size_vars(kernel))):
        for index, var in enumerate(variables):
            write.line("input", write.register(var), var.dtype, kind, index)
    tensors = [param.buffer for param in kernel.params if isinstance(param, ir.TensorParam)]
    for index, buffer in enumerate(tensors):
        numbers = write.values(buffer.shape) + write.values(buffer.strides or ())
        write.line("tensor", write.tile(buffer), buffer.dtype, index, buffer.rank, *numbers)
    for launch in planned.launches:
        _Launch(write, launch, stated).lower()
    return "\n".join(write.lines) + "\n", tuple(write.spans)


class _Launch:
    """One launch: what the plan says of its operations and buffers, and the writer."""

    def __init__(self, write: Writer, planned: plan.PlannedLaunch, stated: Capabilities) -> None:
        if has_lane_code(planned.launch) or len(planned.roles) != 1:  # `describe` says that the machine has neither
            raise write.refuse("lanes or roles of a block", planned.launch.span)
        self.write = write
        self.planned, self.slots = single_stream(planned)
        self.choices = {id(choice.operation): choice for choice in self.planned.choices}
        self.placements = {placement.buffer.root: placement for placement in planned.placements}
        self.units = {unit.name: unit for unit in stated.matmul}
        self.blocks: dict[int, tuple[str, str]] = {}  # of blocks of products: the instruction, its shape
        self.in_map = False

    def lower(self) -> None:
        launch, write = self.planned.launch, self.write
        with write.block("launch", *write.axes(launch.grid_vars, launch.grid)):
            write.outside = {safe.buffer: write.value(tiles.converted(safe.value, safe.buffer.dtype)) for safe in launch.safe_values}
            self.body(self.planned.roles[0].body)

    def body(self, body: Sequence[ir.Stmt | plan.PlanStmt]) -> None:
        for statement in body:
            named = [getattr(node, "buffer", None) for node in walk(statement, bodies=False)]
            for b in dict.fromkeys(named):
                if b is not None and b.alias is not None:  # another shape or type over the storage of a tile, or one of its slots
                    slot = self.write.value(self.slots[b]) if b in self.slots else "-"
                    self.write.line("view", self.write.tile(b), self.write.tile(b.root), b.dtype, slot, *self.write.values(b.shape))
            self.statement(statement)

    def statement(self, statement: ir.Stmt | plan.PlanStmt) -> None:
        """Append the instructions of a statement."""
        write = self.write
        match statement:
            case plan.Wait():
                write.line("wait", statement.token.name, statement.leave_in_flight)
            case plan.Issue(operation=ir.Copy() as copy):
                self._transfer(copy, statement.token.name)
            case ir.Alloc():
                place = self.placements.get(statement.buffer)  # none: a point's own, or of a size that only the run knows
                where = ("own", 0, 0, 1) if place is None or self.in_map else (place.space, place.offset, place.bytes, place.slots)
                write.line("alloc", write.tile(statement.buffer), statement.buffer.dtype, *where, *write.values(statement.buffer.shape))
            case ir.Bind() | ir.Assign():
                write.line("set", write.register(statement.var), write.value(statement.value))
            case ir.Store() | ir.Atomic() | ir.ReducerUpdate():
                change = as_change(statement)
                value = "-" if change.value is None else write.value(change.value)
                result = "-" if change.result is None else write.register(change.result)
                write.line(f"change.{change.name}", result, value, write.tile(change.buffer), *write.values(change.indices))
            case ir.Assume() | ir.ReducerFinalize():
                pass
            case ir.Print(value=value):
                shown = self._box(value) if isinstance(value, Region) else [] if value is None else [write.value(value)]
                write.line("print", _quoted(statement.message), *shown)
            case ir.Assert():
                write.line("check", write.value(statement.condition), write.site(statement.span), _quoted(statement.message))
            case ir.Map() | ir.For() | ir.While() | ir.If() | ir.Break() | ir.Continue() | ir.Return():
                self._control(statement)
            case _:
                self._tile_operation(statement)

    def _control(self, statement: ir.Map | ir.For | ir.While | ir.If | ir.Break | ir.Continue | ir.Return) -> None:
        write = self.write
        match statement:
            case ir.Map() if self.in_map:  # each point runs the inner points one after the other
                loops = map_as_loops(statement)
                if loops is None:
                    raise write.refuse("points of points with values of their own", statement.span)
                self.body(loops)
            case ir.Map():
                axes = write.axes(statement.axes, statement.extents)
                own = [write.register(one) if isinstance(one, Var) else write.tile(one) for one in private_changes(statement)]
                with write.block("map", len(statement.axes), *axes, *own):
                    self.in_map = True
                    self.body(statement.body)
                    self.in_map = False
            case ir.For():
                bounds = write.values((statement.start, statement.stop, statement.step))
                with write.block("loop", write.register(statement.var), statement.var.dtype, *bounds):
                    self.body(statement.body)
            case ir.While():
                with write.block("loop"):
                    self.body((ir.If(condition=statement.condition, then=(), otherwise=(ir.Break(),)),))
                    self.body(statement.body)
            case ir.If():
                with write.block("if", write.value(statement.condition)):
                    self.body(statement.then)
                    if statement.otherwise:
                        write.line("else")
                        self.body(statement.otherwise)
            case ir.Break() | ir.Continue() | ir.Return():
                write.line(f"leave.{type(statement).__name__.lower()}")

    def _tile_operation(self, statement: ir.Stmt | plan.PlanStmt) -> None:
        """By the instruction that the plan chose, else as a map over the elements."""
        choice = None if self.in_map else self.choices.get(id(statement))
        match statement:
            case ir.Gemm() if id(statement) in self.blocks:  # one block
                product, shape = self.blocks[id(statement)]
                flags = "".join("t" if is_transposed else "n" for is_transposed in (statement.transpose_a, statement.transpose_b))
                boxes = (self._box(region) for region in (statement.a, statement.b, statement.c))
                self.write.line(f"{product}.{flags}", shape, *(word for box in boxes for word in box))
                return
            case ir.Copy() if choice is not None and choice.executor == "dma":
                self._transfer(statement, "at_once")
                self.write.line("wait", "at_once", 0)
                return
            case ir.Gemm() if choice is not None and choice.unit:
                unit, cut = self.units[choice.unit], choice.tiling
                assert cut is not None, "`describe` says how many registers there are"
                body, block = gemm_in_blocks(statement, (cut.m, cut.n, cut.k), as_dtype(unit.c))
                self.blocks[id(block)] = f"product.{unit.a}.{unit.b}.{unit.c}", f"{cut.m}x{cut.n}x{cut.k}"
                self.body(body)
                del self.blocks[id(block)]
                return
            case ir.Copy() | ir.Transpose() | ir.AtomicTile():
                for left, right in tiles.agreeing_extents(statement):
                    self.write.line("same", self.write.value(left), self.write.value(right), self.write.site(statement.span))
        maps = as_maps(statement)
        if maps is None:
            raise self.write.refuse(getattr(statement, "op", type(statement).__name__), statement.span)
        self.body(maps)

    def _box(self, region: Region) -> list[str]:
        return [*self.write.source(region.buffer), *self.write.values(region.offsets), *self.write.values(region.extents)]

    def _transfer(self, copy: ir.Copy, queue: str) -> None:
        """A copy by the engine beside the processor, which stands in a queue until it is waited for."""
        note = f"{copy.src.buffer.name} to {copy.dst.buffer.name}"
        self.write.line("dma", queue, self.write.site(copy.span), *self._box(copy.src), *self._box(copy.dst), note=note)


def _quoted(message: str) -> str:
    """A text as one operand."""
    return json.dumps(message).replace(" ", "\\u0020")
