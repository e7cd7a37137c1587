"""Random well-formed kernels of the tile IR: every node, every field, names that collide, constants at the edges.

They need not mean anything sensible (most would read what was never written); they obey the verifier's invariants.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, get_args

import hypothesis.strategies as st
import pytest

from zellige.dtypes import DType, dtype
from zellige.ir import stmt as s
from zellige.ir.expr import (
    BOOL,
    INT32,
    INT64,
    Binary,
    Buffer,
    Cast,
    Compare,
    CompareOp,
    Const,
    Expr,
    Load,
    Math,
    Region,
    Reinterpret,
    Rounding,
    Select,
    Unary,
    Var,
    VarKind,
)
from zellige.ir.functions import FUNCTIONS

INTEGERS = [dtype(name) for name in ("int8", "uint8", "int32", "int64", "uint64", "int4")]
FLOATS = [dtype(name) for name in ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e8m0fnu")]
VECTORS = [dtype("float16x2"), dtype("int8x4")]
NAMES = ["x", "i", "acc", "A", "e1", "e2", "copy", "for", "nan", "a.b", "", "x_1", "float16", "_", "é", "ﬁ", "let", "1st"]
TEXTS = ["", "plain", 'quotes " and \\', "line\nbreak", "tab\t{}", "世界", "\x00\x1b", "\ud800"]
ARITHMETIC = ("add", "sub", "mul", "floordiv", "floormod", "truncdiv", "truncmod", "min", "max", "min_nan", "max_nan")


class Program:
    """Builds one kernel from a source of random choices."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.vars: list[Var] = []
        self.buffers: list[Buffer] = []
        self.budget = rng.randrange(4, 30)
        self.in_map = self.in_loop = self.has_lanes = False

    # ---- pieces ----

    def some(self, items: Sequence[Any]) -> Any:
        return self.rng.choice(items)

    def chance(self, one_in: int) -> bool:
        return self.rng.randrange(one_in) == 0

    def var(self, kind: VarKind, of: DType = INT32) -> Var:
        return Var(name=self.some(NAMES), dtype=of, kind=kind)

    def const(self, of: DType) -> Const:
        value: Any
        if of.is_bool:
            value = self.chance(2)
        elif of.is_integer:
            value = self.some([0, 1, 2, 3, 5, of.max, of.min, of.max // 2])
        else:
            value = self.some([0.0, -0.0, 1.0, -1.5, 0.1, 1e-30, 65504.0, float("inf"), float("-inf"), float("nan")])
        return Const(value=value, dtype=of)

    def index(self) -> Expr:
        return self.expr(self.some([INT32, INT32, INT64]), 2)

    def load(self, of: DType) -> Expr | None:
        found = [b for b in self.buffers if b.dtype is of and (b.root.space != "fragment" or not self.has_lanes)]
        if not found:
            return None
        buffer = self.some(found)
        return Load(buffer=buffer, indices=tuple(self.index() if self.chance(3) else self.const(INT32) for _ in buffer.shape))

    def expr(self, of: DType, depth: int = 4) -> Expr:
        if depth <= 0 or self.chance(4):
            found = [v for v in self.vars if v.dtype is of]
            loaded = self.load(of) if self.chance(3) else None
            return loaded or (self.some(found) if found and self.chance(2) else self.const(of))
        down = depth - 1
        if of.lanes != 1:
            return Cast(value=self.expr(of.scalar, down), dtype=of)
        if self.chance(6):
            return Select(condition=self.expr(BOOL, down), then=self.expr(of, down), otherwise=self.expr(of, down))
        if self.chance(5):
            rounding = self.some(get_args(Rounding)) if self.chance(3) else "nearest_even"
            return Cast(value=self.expr(self.some([*INTEGERS, *FLOATS, BOOL]), down), dtype=of, rounding=rounding, saturate=self.chance(4))
        if of.is_bool:
            return self.condition(down)
        if self.chance(8):
            same_width = [t for t in (*INTEGERS, *FLOATS) if t.bits == of.bits]
            return Reinterpret(value=self.expr(self.some(same_width), down), dtype=of)
        if of.is_float and self.chance(3):
            function = self.some([f for f in FUNCTIONS.values() if f.operands != "integer" and f.result == "same"])
            args = tuple(self.expr(of, down) for _ in range(function.arity))
            return Math(function=function.name, args=args, dtype=of, precision=self.some(["default", "default", "fast", "ieee"]))
        if self.chance(6):
            op = self.some(["neg", "invert"]) if of.is_integer else "neg"
            return Unary(op=op, value=self.expr(of, down))
        ops = [*ARITHMETIC, "truediv"] if of.is_float else [*ARITHMETIC, "shl", "shr", "bitand", "bitor", "bitxor"]
        left = self.expr(of, down)
        return Binary(op=self.some(ops), left=left, right=left if self.chance(5) else self.expr(of, down))

    def condition(self, depth: int) -> Expr:
        choice = self.rng.randrange(5)
        if choice == 0:
            return Unary(op="not", value=self.expr(BOOL, depth))
        if choice == 1:
            of = self.some(FLOATS)
            return Math(function=self.some(["isnan", "isinf", "isfinite"]), args=(self.expr(of, depth),), dtype=BOOL)
        if choice == 2:
            op = self.some(["and", "or", "bitand", "bitor", "bitxor"])
            return Binary(op=op, left=self.expr(BOOL, depth), right=self.expr(BOOL, depth))
        of = self.some([*INTEGERS, *FLOATS, BOOL])
        return Compare(op=self.some(get_args(CompareOp)), left=self.expr(of, depth), right=self.expr(of, depth))

    def extents(self, counts: Sequence[int]) -> tuple[Expr, ...]:
        return tuple(Const(value=count, dtype=INT32) for count in counts)

    def region(self, of: DType | None, counts: Sequence[int], space: Sequence[str] = ("global", "shared", "fragment")) -> Region | None:
        found = [b for b in self.buffers if b.root.space in space and b.rank == len(counts) and (of is None or b.dtype is of)]
        if not found:
            return None
        buffer = self.some(found)
        is_whole = self.chance(3) and [getattr(e, "value", None) for e in buffer.shape] == list(counts)
        if is_whole:
            return s.whole(buffer)
        offsets = tuple(self.index() if self.chance(2) else self.const(INT32) for _ in counts)
        return Region(buffer=buffer, offsets=offsets, extents=self.extents(counts))

    # ---- statements ----

    def body(self, depth: int, least: int = 0) -> tuple[s.Stmt, ...]:
        known = len(self.vars), len(self.buffers)
        found: list[s.Stmt] = []
        for _ in range(self.rng.randrange(least, 6)):
            if self.budget <= 0:
                break
            self.budget -= 1
            made = self.statement(depth)
            if made is not None:
                found.append(made)
        del self.vars[known[0] :], self.buffers[known[1] :]
        return tuple(found)

    def statement(self, depth: int) -> s.Stmt | None:
        makers = [self.bind, self.bind, self.assign, self.store, self.store, self.atomic, self.say, self.alloc, self.view]
        if depth > 0:
            makers += [self.loop, self.branch, self.branch, self.parallel]
        if not self.in_map:
            makers += [self.tile, self.tile, self.reducer, self.dialect]
        if self.has_lanes and not self.in_map:
            makers += [self.lane]
        maker = self.some(makers)
        return maker(depth)

    def bind(self, depth: int) -> s.Stmt:
        of = self.some([*INTEGERS, *FLOATS, *VECTORS, BOOL])
        value = self.expr(of)
        if self.chance(6):  # the same object many times over
            for _ in range(self.rng.randrange(1, 40)):
                value = Binary(op="max", left=value, right=value) if not of.is_bool and of.lanes == 1 else value
        var = self.var(self.some(["value", "mutable"]), of)
        self.vars.append(var)
        return s.Bind(var=var, value=value)

    def assign(self, depth: int) -> s.Stmt | None:
        found = [v for v in self.vars if v.is_mutable]
        if not found:
            return None
        var = self.some(found)
        return s.Assign(var=var, value=self.expr(var.dtype))

    def writable(self) -> Buffer | None:
        found = [b for b in self.buffers if not (self.has_lanes and b.root.space == "fragment")]
        return self.some(found) if found else None

    def store(self, depth: int) -> s.Stmt | None:
        buffer = self.writable()
        if buffer is None:
            return None
        return s.Store(buffer=buffer, indices=tuple(self.index() for _ in buffer.shape), value=self.expr(buffer.dtype))

    def atomic(self, depth: int) -> s.Stmt | None:
        found = [b for b in self.buffers if b.dtype.storage_bits >= 8 and b.dtype.lanes == 1 and b.root.space in ("global", "shared")]
        if not found:
            return None
        buffer = self.some(found)
        ops = ["store", "load", "exchange", *([] if buffer.dtype.is_bool else ["add", "max"]), *([] if buffer.dtype.is_float else ["xor"])]
        op = self.some(ops)
        result = self.var(self.some(["value", "mutable"]), buffer.dtype) if op == "load" or (op != "store" and self.chance(2)) else None
        indices = tuple(self.index() for _ in buffer.shape)
        value = None if op == "load" else self.expr(buffer.dtype)
        if result is not None:
            self.vars.append(result)
        return s.Atomic(op=op, buffer=buffer, indices=indices, value=value, order=self.some(get_args(s.MemoryOrder)), result=result,
                        hints=self.hints())  # fmt: skip

    def say(self, depth: int) -> s.Stmt:
        text = self.some(TEXTS)
        choice = self.rng.randrange(4)
        if choice == 0:
            return s.Assert(condition=self.expr(BOOL), message=text)
        if choice == 1:
            return s.Assume(condition=self.expr(BOOL))
        region = self.region(None, (1,), ("global",)) if choice == 2 else None
        value = region or (self.expr(self.some(INTEGERS)) if self.chance(2) else None)
        return s.Print(value=value, message=text)

    def alloc(self, depth: int) -> s.Stmt:
        space = self.some(["local", "var"] if self.in_map else ["shared", "fragment", "local", "var", "global", "acme_scratch"])
        rank = self.rng.randrange(0, 4)
        shape = self.extents([self.some([1, 2, 4, 8, 16]) for _ in range(rank)])
        strides = self.extents([40, 7, 1][:rank]) if self.chance(6) else None
        of = self.some([*INTEGERS, *FLOATS, *VECTORS, BOOL])
        buffer = Buffer(name=self.some(NAMES), dtype=of, shape=shape, strides=strides, space=space)
        self.buffers.append(buffer)
        return s.Alloc(buffer=buffer)

    def view(self, depth: int) -> None:
        """Adds a view, which is no statement."""
        found = [b for b in self.buffers if b.strides is None and b.dtype.storage_bits == 16]
        if found:
            under = self.some(found)
            of = self.some([dtype("float16"), dtype("bfloat16")])
            shape = (*reversed(under.shape), *self.extents([1] * self.rng.randrange(2)))
            self.buffers.append(Buffer(name=self.some(NAMES), dtype=of, shape=shape, space=under.space, alias=under))

    def loop(self, depth: int) -> s.Stmt:
        of = self.some([INT32, INT32, INT64])
        kind = self.some([
            s.Serial(), s.Unrolled(), s.Unrolled(factor=4), s.Vectorised(), s.Persistent(), s.Pipelined(),
            s.Pipelined(stages=3), s.Pipelined(stages=2, order=(0, 1), stage=(0,)), s.Pipelined(order=(1,)),
            s.Pipelined(stages=2, hints=(("acme_depth", 2),)),
        ])  # fmt: skip
        if isinstance(kind, s.Pipelined) and kind.stage:
            kind = s.Pipelined(stages=2, order=(0, 1), stage=(0, 1))
        zero, one = Const(value=0, dtype=of), Const(value=1, dtype=of)
        start = zero if self.chance(2) else self.expr(of, 2)
        step = one if self.chance(2) else Const(value=self.some([2, -1, 3]), dtype=of)
        stop = self.expr(of, 2)
        was, self.in_loop = self.in_loop, True
        if self.chance(4):
            condition = self.expr(BOOL)
            made: s.Stmt = s.While(condition=condition, body=(*self.body(depth - 1), *self.jump()))
        else:
            var = self.var("loop", of)
            self.vars.append(var)
            made = s.For(var=var, start=start, stop=stop, step=step, kind=kind, body=(*self.body(depth - 1), *self.jump()))
            self.vars.remove(var)
        self.in_loop = was
        return made

    def jump(self) -> tuple[s.Stmt, ...]:
        if not self.in_loop or self.has_lanes or not self.chance(3):
            return ()
        return (self.some([s.Break(), s.Continue()]),)

    def branch(self, depth: int) -> s.Stmt:
        condition = self.expr(BOOL) if not self.has_lanes else Const(value=True, dtype=BOOL)
        then = (*self.body(depth - 1), *self.jump())
        if not self.in_map and not self.has_lanes and self.chance(8):
            then = (*then, s.Return())
        otherwise = self.some([(), self.body(depth - 1), (self.branch(depth - 1),) if depth > 0 else ()])
        return s.If(condition=condition, then=then, otherwise=otherwise)

    def parallel(self, depth: int) -> s.Stmt | None:
        if self.has_lanes:
            return None  # what a Map touches decides whether it belongs to the lane
        counts = [self.some([1, 4, 8]) for _ in range(self.rng.randrange(1, 4))]
        of = self.some([INT32, INT64])
        axes = tuple(self.var("loop", of) for _ in counts)
        was = self.in_map, self.in_loop
        self.in_map, self.in_loop = True, False
        self.vars.extend(axes)
        body = self.body(depth - 1)
        for axis in axes:
            self.vars.remove(axis)
        self.in_map, self.in_loop = was
        extents = tuple(Const(value=count, dtype=of) for count in counts)
        return s.Map(axes=axes, extents=extents, body=body, vector_width=self.some([None, 4]), hints=self.hints())

    def tile(self, depth: int) -> s.Stmt | None:
        if self.has_lanes:
            return None
        choice = self.rng.randrange(6)
        if choice == 0:
            src, dst = self.region(None, (4, 8)), self.region(None, (4, 8))
            if src is None or dst is None:
                return None
            return s.Copy(src=src, dst=dst, swizzle=self.some([None, "bank"]), vector_width=self.some([None, 8]),
                          eviction=self.some([None, "first"]), is_async=self.chance(2), hints=self.hints())  # fmt: skip
        if choice == 1:
            dst = self.region(None, self.some([(), (4,), (4, 8), (1, 4, 2)]))
            return None if dst is None else s.Fill(dst=dst, value=self.expr(dst.buffer.dtype))
        if choice == 2:
            return self.gemm()
        src = self.region(dtype("float32"), (4, 8)) or self.region(dtype("float16"), (4, 8))
        if src is None:
            return None
        if choice == 3:
            dst = self.region(None, (8, 4))
            return None if dst is None else s.Transpose(src=src, dst=dst)
        if choice == 4:
            axis = self.rng.randrange(2)
            dst = self.region(None, ((8,), (4,))[axis]) or self.region(None, ((1, 8), (4, 1))[axis])
            op = self.some(["sum", "prod", "max", "min", "absmax", "abssum", "any", "all"])
            clear, propagate = self.chance(2), self.chance(2)
            if dst is None:
                return None
            return s.Reduce(src=src, dst=dst, axis=axis, op=op, clear=clear, nan_propagate=propagate, hints=self.hints())
        dst = self.region(None, (4, 8))
        if dst is None:
            return None
        if dst.buffer.dtype.storage_bits >= 8 and not dst.buffer.dtype.is_bool and self.chance(2):
            return s.AtomicTile(op="add", src=src, dst=dst, order=self.some(get_args(s.MemoryOrder)), hints=self.hints())
        return s.Scan(src=src, dst=dst, axis=self.rng.randrange(2), op=self.some(get_args(s.ScanOp)), reverse=self.chance(2))

    def hints(self) -> s.Hints:
        return self.some([(), (), (("acme_priority", 3), ("acme_word", 'a"b')), (("acme_ratio", 0.5), ("is_acme", True))])

    def gemm(self) -> s.Stmt | None:
        flip_a, flip_b, is_sparse = self.chance(2), self.chance(2), self.chance(4)
        half, f32 = dtype("float16"), dtype("float32")
        k = 8
        stored = k // 2 if is_sparse else k
        a = self.region(half, (stored, 4) if flip_a else (4, stored))
        b = self.region(half, (16, k) if flip_b else (k, 16))
        c = self.region(f32, (4, 16)) or self.region(half, (4, 16))
        metadata = self.region(dtype("uint8"), (4, 1)) if is_sparse else None
        if a is None or b is None or c is None or (is_sparse and metadata is None):
            return None
        return s.Gemm(
            a=a, b=b, c=c, transpose_a=flip_a, transpose_b=flip_b, clear=self.expr(BOOL), policy=self.some(get_args(s.GemmPolicy)),
            k_pack=self.some([1, 2]), scale_a=self.region(f32, (1, 1)) if self.chance(2) else None,
            scale_b=self.region(f32, (1, 1)) if self.chance(2) else None, metadata=metadata,
            hints=self.hints(),
        )  # fmt: skip

    def reducer(self, depth: int) -> s.Stmt | None:
        """The whole life of a reducer, under a condition so that it has a body of its own."""
        if self.has_lanes or depth <= 0:
            return None
        buffer = Buffer(name=self.some(NAMES), dtype=dtype("float32"), shape=self.extents([8]), space="fragment")
        op = self.some(["sum", "max", "min"])
        update = s.ReducerUpdate(buffer=buffer, op=op, indices=(self.index(),), value=self.expr(dtype("float32")))
        ends = s.ReducerInit(buffer=buffer, op=op, replication=self.some([None, "all"])), s.ReducerFinalize(buffer=buffer)
        return s.If(condition=self.expr(BOOL), then=(s.Alloc(buffer=buffer), ends[0], update, ends[1]))

    def dialect(self, depth: int) -> s.Stmt | None:
        regions = [r for r in (self.region(None, (4, 8)), self.region(None, (4,))) if r is not None]
        attributes = (("count", 3), ("ratio", 0.5), ("is_on", True), ("limit", float("inf")), ("word", 'a"b'))[: self.rng.randrange(6)]
        operands = tuple(self.expr(INT32) for _ in range(self.rng.randrange(3)))
        result = self.var(self.some(["value", "mutable"]), self.some(FLOATS)) if self.chance(2) else None
        was, self.in_loop = self.in_loop, False
        body = self.body(depth - 1) if depth > 0 and self.chance(2) else ()
        self.in_loop = was
        if result is not None:
            self.vars.append(result)
        return s.Dialect(op="acme.operation", inputs=tuple(regions), outputs=tuple(regions[:1]), operands=operands, attributes=attributes,
                         result=result, body=body)  # fmt: skip

    def lane(self, depth: int) -> s.Stmt:
        choice = self.rng.randrange(3)
        if choice == 0:
            return s.Barrier(scope="warp")
        if choice == 1:
            of = self.some([INT32, dtype("float32")])
            value, operand = self.expr(of), self.expr(INT32)
            result = self.var(self.some(["value", "mutable"]), of)
            self.vars.append(result)
            mode = self.some(["xor", "up", "down", "index"])
            return s.Shuffle(result=result, mode=mode, value=value, operand=operand, width=self.some([0, 8, 32]))
        mode = self.some(["any", "all", "count", "ballot"])
        predicate = self.expr(BOOL)
        result = self.var(self.some(["value", "mutable"]), BOOL if mode in ("any", "all") else INT64)
        self.vars.append(result)
        return s.Vote(result=result, mode=mode, scope="warp" if self.has_lanes else "block", predicate=predicate)

    # ---- kernels ----

    def kernel(self) -> s.Kernel:
        sizes = [self.var("size", self.some([INT32, INT64])) for _ in range(self.rng.randrange(3))]
        stride = self.var("size", INT64)
        params: list[s.Param] = []
        for of in (self.some([*INTEGERS, *FLOATS]), dtype("float32"), dtype("float16")):
            shape = (*sizes, *self.extents([self.some([4, 8, 0])]))[-self.rng.randrange(1, 3) :]
            strides = None if not self.chance(4) else (*self.extents([128] * (len(shape) - 1)), stride)
            params.append(s.TensorParam(buffer=Buffer(name=self.some(NAMES), dtype=of, shape=shape, strides=strides)))
        params += [s.TensorParam(buffer=Buffer(name="sizes", dtype=INT32, shape=(size,))) for size in sizes]
        scalars = [self.var("scalar", self.some([INT32, dtype("float32")])) for _ in range(self.rng.randrange(3))]
        params += [s.ScalarParam(var=var) for var in scalars]
        if self.chance(3):
            sizes.append(self.var("size"))
            params.append(s.ScalarParam(var=sizes[-1]))
        if self.chance(2):
            extent: Expr = self.some(sizes) if sizes else Const(value=3, dtype=INT32)
            doubled = Binary(op="mul", left=extent, right=Const(value=2, dtype=extent.dtype))
            made = Buffer(name=self.some(NAMES), dtype=dtype("float32"), shape=(doubled, extent))
            params.append(s.TensorParam(buffer=made, role="output"))
        if self.chance(3):
            params.append(s.TensorParam(buffer=Buffer(name="scratch", dtype=INT32, shape=self.extents([64])), role="workspace"))
        self.rng.shuffle(params)
        results = [i for i, p in enumerate(params) if isinstance(p, s.TensorParam) and p.role == "output"]
        self.vars = [*sizes, *scalars]
        self.buffers = [p.buffer for p in params if isinstance(p, s.TensorParam)]
        launches = tuple(self.launch() for _ in range(self.rng.randrange(3)))
        name = self.some(["kernel", "k", "<lambda>", "é", "def"])
        return s.Kernel(name=name, params=tuple(params), launches=launches, results=tuple(results))

    def launch(self) -> s.Launch:
        counts = [v for v in self.vars if v.dtype.is_integer]
        grid = tuple(self.some(counts) if counts and self.chance(2) else Const(value=3, dtype=INT32) for _ in range(self.rng.randrange(4)))
        self.has_lanes = self.chance(3)
        threads = self.extents([32, 4][: self.rng.randrange(1, 3)]) if self.has_lanes or self.chance(2) else None
        grid_vars = tuple(self.var("grid", self.some([INT32, INT32, INT64])) for _ in grid)
        lane_vars = tuple(self.var("lane") for _ in threads or ()) if self.has_lanes else ()
        warp = self.var("lane") if lane_vars and self.chance(2) else None
        known = len(self.vars), len(self.buffers)
        self.vars += [*grid_vars, *lane_vars, *(() if warp is None else (warp,))]
        buffers = list(self.buffers)
        body = self.body(3, least=2)
        allocated = [n.buffer for n in body if isinstance(n, s.Alloc)]
        hints = tuple(self.hint([*buffers, *allocated]) for _ in range(self.rng.randrange(4)))
        safe = [s.SafeValue(buffer=b, value=self.const(b.dtype)) for b in buffers if self.chance(5)]
        del self.vars[known[0] :], self.buffers[known[1] :]
        cluster = self.some([None, (2, 1, 1)])
        self.has_lanes = False
        return s.Launch(grid_vars=grid_vars, grid=grid, threads=threads, lane_vars=lane_vars, warp=warp, cluster=cluster,
                        safe_values=tuple(safe), hints=hints, body=body)  # fmt: skip

    def hint(self, buffers: Sequence[Buffer]) -> s.Hint:
        choice = self.rng.randrange(4)
        buffer = self.some(buffers)
        if choice == 0:
            return s.RasterHint(panel=self.some([1, 8]), order=self.some(["row", "column"]))
        if choice == 1:
            value = self.some([True, 3, 0.25, "x", -1])
            return s.NamedHint(name=self.some(["min_blocks", "é"]), value=value, buffer=self.some([None, buffer]))
        if choice == 2 or buffer.rank == 0:
            return s.LayoutHint(buffer=buffer, kind=self.some(["swizzle", "padded"]), replicate=self.some([1, 2]))
        axes = tuple(self.var("loop", self.some([INT32, INT64])) for _ in range(buffer.rank))
        outer, self.vars = self.vars, list(axes)
        outer_buffers, self.buffers = self.buffers, []
        forward = tuple(self.expr(self.some([INT32, INT64]), 6) for _ in range(self.rng.randrange(1, 3)))
        lane = self.expr(INT32) if self.chance(2) else None
        self.vars, self.buffers = outer, outer_buffers
        return s.LayoutHint(buffer=buffer, kind="map", axes=axes, forward=forward, lane=lane, replicate=self.some([1, 2]))


@pytest.fixture(scope="session")
def kernels() -> st.SearchStrategy[s.Kernel]:
    """Well-formed kernels."""
    return st.integers(0, 2**64).map(lambda seed: Program(random.Random(seed)).kernel())


@pytest.fixture(scope="session")
def program() -> Callable[[int], s.Kernel]:
    """The kernel of a seed."""
    return lambda seed: Program(random.Random(seed)).kernel()
