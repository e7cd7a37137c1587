"""Blocks of clusters on machines with lanes: one copy fills the slots of all of them. Exact products whatever the order in which warps and
engines proceed, faults planted between the blocks, and the text."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from simulated import run_module  # noqa: E402
from test_simulator_roles import ARCH, RICH, operands, product  # noqa: E402

from zellige.diagnostics import LaunchError  # noqa: E402
from zellige.driver import PIPELINE  # noqa: E402
from zellige.ir.expr import constant_value  # noqa: E402
from zellige.ir.stmt import Barrier  # noqa: E402
from zellige.ir.traverse import rebuilt, walk  # noqa: E402
from zellige.passes.runner import run_passes  # noqa: E402
from zellige.plan.planner import plan  # noqa: E402
from zellige.plugin.contract import Synchronisation  # noqa: E402
from zellige.simt import ir  # noqa: E402
from zellige.simt.distribution import number  # noqa: E402
from zellige.simt.engine_tiles import NotLowered  # noqa: E402
from zellige.simt.lower import lower, lower_launch  # noqa: E402
from zellige.simt.printer import print_module  # noqa: E402
from zellige_cuda.compiler import compile_cubin  # noqa: E402
from zellige_cuda.describe import lane_machine  # noqa: E402
from zellige_cuda.spelling import CudaSpelling  # noqa: E402

assert RICH is not None
JOINED = replace(
    RICH, copies=tuple(replace(path, spreads=2) if path.is_asynchronous else path for path in RICH.copies),
    synchronisation=(*RICH.synchronisation, Synchronisation(mechanism="remote arrival", scope="cluster")),
)  # fmt: skip
"""A machine of whose copies each can come to two blocks."""


def lowered(sizes: tuple[int, int, int], tile: tuple[int, int, int], stages: int, *, transpose_b: bool = False) -> Any:
    kernel = run_passes(product(sizes, tile, stages, transpose_b=transpose_b).kernel, PIPELINE)
    planned = plan(kernel, JOINED)
    return kernel, planned.launches[0], lower(planned, lane_machine(ARCH, JOINED))


def result(kernel: Any, module: Any, sizes: tuple[int, int, int], seed: int, *, transpose_b: bool = False) -> tuple[Any, Any]:
    """What a program computes, and what it should."""
    arrays = operands(sizes, transpose_b=transpose_b)
    a, b = (x.astype(np.float32) for x in arrays[:2])
    run_module(kernel, module, arrays, seed=seed)
    return arrays[2], (a @ (b.T if transpose_b else b)).astype(arrays[2].dtype)


@pytest.mark.parametrize(
    "sizes,tile,stages,transpose_b,cluster,spread",
    [
        ((128, 128, 96), (64, 64, 32), 3, False, (2, 1, 1), "a"),
        ((256, 64, 200), (64, 64, 32), 2, False, (1, 2, 1), "b"),  # more steps than twice the slots
        ((130, 256, 160), (64, 64, 32), 4, True, (2, 1, 1), "a"),  # a last row of blocks that is nearly empty
        ((64, 128, 32), (64, 64, 32), 2, True, (2, 1, 1), "a"),  # one step
    ],
)
def test_blocks_of_a_cluster_compute_the_product(
    sizes: tuple[int, int, int], tile: tuple[int, int, int], stages: int, transpose_b: bool, cluster: tuple[int, ...], spread: str
) -> None:
    kernel, planned, module = lowered(sizes, tile, stages, transpose_b=transpose_b)
    assert [[b.name for b in channel.spread] for channel in planned.channels if channel.scope == "cluster"] == [[spread]]
    (function,) = module.functions
    assert function.cluster == cluster
    copies = [n for s in function.body for n in walk(s) if isinstance(n, ir.TensorCopy) and not n.is_store]
    assert {copy.memory.name: copy.peers for copy in copies} == {"a": 2 if spread == "a" else 1, "b": 2 if spread == "b" else 1}
    for seed in range(4):
        found, want = result(kernel, module, sizes, seed, transpose_b=transpose_b)
        np.testing.assert_array_equal(found, want)


def test_the_text_has_what_joins_blocks_and_compiles() -> None:
    _, _, module = lowered((128, 128, 96), (64, 64, 32), 3)
    text = print_module(module, CudaSpelling(90))
    kernel = text[text.index('extern "C"') :]
    assert "__cluster_dims__(2, 1, 1)" in kernel
    assert re.search(r"box_spread_2d<3>\(.*A_boxes", kernel) and re.search(r"box_load_2d\(.*B_boxes", kernel)
    assert kernel.count("cluster_barrier();") == 2 and "__syncthreads" not in kernel
    assert "barrier_init(shared_at + 24600 + 8 * 0, 8);" in kernel  # four warps of each block free a slot
    cubin, log = compile_cubin(text, "kernel", "sm_90a")
    assert cubin and "0 bytes spill stores, 0 bytes spill loads" in log and not re.search(r"C7\d\d\d", log)


def test_parts_begin_where_the_exchange_of_pieces_does() -> None:
    kernel = run_passes(product((128, 24, 96), (64, 24, 32), 3, transpose_b=True).kernel, PIPELINE)
    planned = plan(kernel, JOINED)
    assert [b.name for channel in planned.launches[0].channels for b in channel.spread] == ["b"]
    with pytest.raises(NotLowered, match="the 24 rows of b are not shared by 2 blocks in parts of 8"):
        lower_launch(kernel, planned.launches[0], lane_machine(ARCH, JOINED), 0, synchronises=True)


# ---- faults ----


def _changed(item: Any, change: Callable[[Any], Any]) -> Any:
    bodies = {name: tuple(n for i in getattr(item, name) if (n := _changed(i, change)) is not None) for name in getattr(item, "BODIES", ())}
    return change(rebuilt(item, **bodies) if bodies else item)


def _without_barriers(s: Any) -> Any:
    return None if isinstance(s, Barrier) and s.scope == "cluster" else s


def _arrivals_here_only(s: Any) -> Any:
    """Readers free the slot of their own block twice."""
    if not isinstance(s, ir.Arrive) or s.peer is None:
        return s
    return rebuilt(s, peer=None)


def _fewer_releases(s: Any) -> Any:
    """The empty barriers wait for the readers of one block."""
    if isinstance(s, ir.BarrierInit) and s.barriers.name.endswith("_empty"):
        return rebuilt(s, arrivals=s.arrivals // 2)
    return s


def _copies(**changes: Any) -> Callable[[Any], Any]:
    return lambda s: rebuilt(s, **changes) if isinstance(s, ir.TensorCopy) and s.peers > 1 else s


def _same_part(s: Any) -> Any:
    """Both blocks bring the first part."""
    if isinstance(s, ir.TensorCopy) and s.peers > 1:
        rows = s.box.box[0]
        return rebuilt(s, origin=(rebuilt(s.origin[0], right=number(0)), s.origin[1])) if rows else s
    return s


def _half_expected(s: Any) -> Any:
    if isinstance(s, ir.ExpectBytes):
        return rebuilt(s, bytes=number(int(constant_value(s.bytes) or 0) - 2048))
    return s


PLANTED: dict[str, tuple[Callable[[], Callable[[Any], Any]], set[str]]] = {
    "nobody waits until barriers are made": (lambda: _without_barriers, {"E655", "E657", "E654", "E653", "E651", "E652"}),
    "slots freed here only": (lambda: _arrivals_here_only, {"E652", "E656", "results", "E655", "E657", "E654"}),
    "slots free for the readers of one block": (lambda: _fewer_releases, {"E652", "E655", "E656", "E657", "E654", "results"}),
    "copied to one block only": (lambda: _copies(peers=1), {"E655", "E654", "E657"}),
    "both bring the same part": (lambda: _same_part, {"results"}),
    "bytes of one block's copies expected": (lambda: _half_expected, {"E656", "E655", "E654", "E657", "E651", "E652", "results"}),
}


@pytest.mark.parametrize("name", PLANTED)
def test_faults_planted_between_blocks_are_caught(name: str) -> None:
    sizes = (128, 128, 256)
    kernel, _, module = lowered(sizes, (64, 64, 32), 3)
    (function,) = module.functions
    make, codes = PLANTED[name]
    found = set()
    for seed in range(4):
        change = make()
        body = tuple(new for s in function.body if (new := _changed(s, change)) is not None)
        planted = rebuilt(module, functions=(rebuilt(function, body=body),))
        try:
            values, want = result(kernel, planted, sizes, seed)
        except LaunchError as error:
            found.add(error.code)
        else:
            found.add("nothing" if np.array_equal(values, want) else "results")
    assert found & codes, found
    assert found - {"nothing"} <= codes, found
