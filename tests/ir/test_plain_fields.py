"""Fields that hold numbers and flags, and no nodes: what a pass or a strategy may put there, and what the verifier says of the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zellige.language as T
from zellige.ir.expr import INT32, Node, Region, Var, const
from zellige.ir.stmt import Break, For, Gemm, Kernel, Launch, Pipelined, Reduce, Unrolled
from zellige.ir.traverse import rebuilt, rewrite
from zellige.ir.verify import verify


@T.prim_func
def product(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"), C: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 32), "float16")
        b = T.alloc_shared((32, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        row = T.alloc_fragment((64,), "float32")
        T.clear(c)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[0, k * 32], a)
            T.copy(B[k * 32, 0], b)
            T.gemm(a, b, c)
        T.reduce_sum(c, row, dim=1)
        T.copy(row, C)


def changed(sort: type, /, **changes: Any) -> Kernel:
    """The kernel with other fields in its nodes of one kind."""
    kernel: Any = product.kernel
    if sort is Kernel:
        return rebuilt(kernel, **changes)

    def visit(node: Node) -> Node:
        return rebuilt(node, **changes) if isinstance(node, sort) else node

    launches = [rebuilt(launch, body=tuple(rewrite(s, visit) for s in launch.body)) for launch in kernel.launches]
    if sort is Launch:
        launches = [rebuilt(launch, **changes) for launch in launches]
    return rebuilt(kernel, launches=tuple(launches))


WRONG: dict[str, tuple[type, dict[str, Any], str, str]] = {
    "stages 2.0": (For, {"kind": Pipelined(stages=2.0)}, "E279", "stages of the pipelined loop is 2.0, not a whole number"),  # type: ignore[arg-type]
    "stages True": (For, {"kind": Pipelined(stages=True)}, "E279", "stages of the pipelined loop is True, not a whole number"),
    "stages NumPy's": (For, {"kind": Pipelined(stages=np.int64(3))}, "E279", "stages of the pipelined loop is np.int64(3), not"),  # type: ignore[arg-type]
    "stages text": (For, {"kind": Pipelined(stages="3")}, "E279", "stages of the pipelined loop is '3', not a whole number"),  # type: ignore[arg-type]
    "stages None": (For, {"kind": Pipelined(stages=None)}, "E279", "stages of the pipelined loop is None, not a whole number"),  # type: ignore[arg-type]
    "order list": (For, {"kind": Pipelined(order=[0, 1])}, "E279", "order of the pipelined loop is [0, 1], not a tuple of whole numbers"),  # type: ignore[arg-type]
    "stage halves": (For, {"kind": Pipelined(stage=(0, 0.5))}, "E279", "stage of the pipelined loop is (0, 0.5), not a tuple"),  # type: ignore[arg-type]
    "order twice": (For, {"kind": Pipelined(order=(0, 0, 1))}, "E278", "loop k gives two statements one place in its order (0, 0, 1)"),
    "stage -2": (For, {"kind": Pipelined(stage=(-2, 0, 1))}, "E278", "loop k has -2 in stage"),
    "factor 2.0": (For, {"kind": Unrolled(factor=2.0)}, "E279", "factor of the unrolled loop is 2.0, not a whole number"),  # type: ignore[arg-type]
    "k_pack True": (Gemm, {"k_pack": True}, "E279", "k_pack of gemm is True, not a whole number"),
    "transpose 1": (Gemm, {"transpose_a": 1}, "E279", "transpose_a of gemm is 1, not True or False"),
    "axis 1.0": (Reduce, {"axis": 1.0}, "E279", "axis of reduce is 1.0, not a whole number"),
    "clear None": (Reduce, {"clear": None}, "E279", "clear of reduce is None, not True or False"),
    "cluster list": (Launch, {"cluster": [1]}, "E279", "cluster of a Launch is [1], not a tuple of whole numbers"),
    "body list": (Launch, {"body": []}, "E279", "body of a Launch is a list, not a tuple"),
    "grid variables list": (Launch, {"grid_vars": []}, "E279", "grid_vars of a Launch is a list, not a tuple"),
    "offsets list": (Region, {"offsets": [const(0)]}, "E279", "offsets of a region of c is a list, not a tuple"),  # type: ignore[list-item]
    "loop list": (For, {"body": [Break()]}, "E279", "body of for is a list, not a tuple"),  # type: ignore[list-item]
    "name of a loop": (For, {"var": Var(name=3, dtype=INT32, kind="loop")}, "E279", "name of variable 3 is 3, not a text"),  # type: ignore[arg-type]
    "name that is cut": (Kernel, {"name": "a\0b"}, "E276", "'a\\x00b' is no name of a kernel"),
    "results": (Kernel, {"results": (0.0,)}, "E279", "results of the kernel is (0.0,), not a tuple of whole numbers"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_belong_in_a_plain_field_is_said(name: str) -> None:
    kind, changes, code, said = WRONG[name]
    found = verify(changed(kind, **changes))
    assert {one.code for one in found} == {code}
    assert any(said in one.message for one in found)
    if kind is not Kernel:
        assert found[0].span is not None
        assert str(found[0].span.file) == __file__


@pytest.mark.parametrize(
    "kind", [Pipelined(stages=0), Pipelined(stages=3, order=(-1, -1, 0), stage=(-1, -1, 0)), Unrolled(), Unrolled(factor=4)], ids=repr
)
def test_what_belongs_there_is_taken(kind: Any) -> None:
    assert verify(changed(For, kind=kind)) == []
