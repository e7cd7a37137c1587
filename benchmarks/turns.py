"""What it gains on a CUDA device that the consumers of a block take turns at starting products: attention with and without.

``python benchmarks/turns.py [--only WORD] [--rounds 9] [--write]`` needs an H100 or H200 and torch. The kernel of ``examples/attention.py``
is compiled twice: as the description of the target has it, and as if it said that named barriers pass turns on between consumers. The two
alternate in one process; a figure is the median over the rounds of the mean of ten launches, a ratio that of the time without turns to the
time with them in the same round, the median of them (above 1: turns pay). Both results are the same bits and are compared with torch's
first. ``--write`` puts the table in ``benchmarks/results/turns.md`` and ``.json``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

os.environ["ZELLIGE_CACHE"] = "0"  # it would answer for both ways with the code of the first

import click
import torch
from devices import Attention, environment, milliseconds, put_down

import zellige as zl
import zellige_cuda.describe as description
from zellige.plugin.contract import Capabilities, Synchronisation
from zellige_cuda.architectures import Architecture

ROWS = (
    Attention(2, 16, 1024, 128, False, "float16", 128, 128), Attention(2, 16, 4096, 128, False, "float16", 128, 128),
    Attention(2, 16, 4096, 128, False, "float16", 192, 80), Attention(1, 16, 16384, 128, False, "bfloat16", 128, 128),
    Attention(1, 16, 16384, 128, False, "bfloat16", 192, 80), Attention(2, 16, 1024, 128, True, "float16", 128, 128),
    Attention(2, 16, 4096, 128, True, "float16", 128, 128), Attention(2, 16, 4096, 128, True, "float16", 192, 80),
    Attention(1, 16, 16384, 128, True, "bfloat16", 128, 128), Attention(1, 16, 16384, 128, True, "bfloat16", 192, 80),
    Attention(2, 16, 4096, 64, False, "float16", 128, 128), Attention(2, 16, 4096, 64, False, "float16", 192, 128),
    Attention(1, 16, 16384, 64, False, "bfloat16", 192, 128), Attention(2, 16, 4096, 64, True, "float16", 192, 128),
    Attention(1, 16, 16384, 64, True, "bfloat16", 192, 128),
)  # fmt: skip


@contextmanager
def turns_passed_on() -> Iterator[None]:
    """The description of the target says that its named barriers pass turns on."""
    own = description.role_capabilities

    def with_turns(arch: Architecture, caps: Capabilities) -> Capabilities | None:
        found = own(arch, caps)
        passed_on = Synchronisation(mechanism="bar.sync", scope="turn", count=16)
        return None if found is None else replace(found, synchronisation=(*found.synchronisation, passed_on))

    description.role_capabilities = with_turns
    try:
        yield
    finally:
        description.role_capabilities = own


def measured(row: Attention, rounds: int) -> tuple[list[float], float]:
    """The milliseconds without and with turns, and the ratio. Ends where a result is wrong or the two differ in a bit."""
    q, k, v = row.inputs()
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=row.is_causal)
    without = zl.compile(row.program, target="cuda")
    with turns_passed_on():
        taking = zl.compile(row.program, target="cuda")
    if "bar.arrive" in without.get_kernel_source() or "bar.arrive" not in taking.get_kernel_source():
        raise SystemExit(f"{row.name}: the two kernels do not differ by turns")
    calls, results = [], []
    for kernel in (without, taking):
        o, sums = row.outputs(q)
        kernel(q, k, v, o, sums)
        results.append(o)
        calls.append(partial(kernel, q, k, v, o, sums))
    error = row.difference(results[0], wanted)
    if error is not None or not torch.equal(*results):
        raise SystemExit(f"{row.name}: differs by {error} from torch's, or the two in some bit")
    for call in calls:
        milliseconds(call)
    times = [[milliseconds(call) for call in calls] for _ in range(rounds)]
    return [median(t) for t in zip(*times)], median(a / b for a, b in times)


@click.command(help=(__doc__ or "").split("\n\n")[0])
@click.option("--only", default="", help="Measure the rows whose name holds this.")
@click.option("--rounds", default=9, show_default=True)
@click.option("--write", is_flag=True, help="Put the results down.")
def main(only: str, rounds: int, write: bool) -> None:
    lines = ["| attention | without turns, TFLOP/s | with turns | ratio |", "| --- | ---: | ---: | ---: |"]
    figures: list[dict[str, Any]] = []
    for row in ROWS:
        if only not in row.name:
            continue
        times, ratio = measured(row, rounds)
        figures.append({"row": row.name, "milliseconds": times, "ratio": ratio, "flop": row.flop})
        lines.append(f"| {row.name} | {row.flop / times[0] * 1e-9:.0f} | {row.flop / times[1] * 1e-9:.0f} | {ratio:.3f} |")
        click.echo(lines[-1])
    if write:
        how = "The same kernel without and with turns of its consumers at starting products, alternating; above 1 turns pay."
        put_down("turns", "Turns of consumers on a CUDA device", [how, "", *lines], figures, environment())


if __name__ == "__main__":
    main()
