"""What it gains on a CUDA device that the consumers of a block take turns at starting products: attention with and without.

``python benchmarks/turns.py [--only WORD] [--rounds 9] [--write]`` needs an H100 or H200 and torch. The kernel of ``examples/attention.py``
is compiled twice: as the description of the target has it, and as if it said that named barriers pass turns on between consumers. The two
alternate in one process; a figure is the median over the rounds of the mean of ten launches, a ratio that of the time without turns to the
time with them in the same round, the median of them (above 1: turns pay). Both results are the same bits and are compared with torch's
first. ``--write`` puts the table in ``benchmarks/results/turns.md`` and ``.json``.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

os.environ["ZELLIGE_CACHE"] = "0"  # it would answer for both ways with the code of the first

import click
import torch

import zellige as zl
import zellige_cuda.describe as description
from zellige.plugin.contract import Capabilities, Synchronisation
from zellige_cuda.architectures import Architecture

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

RESULTS = Path(__file__).parent / "results"
LAUNCHES = 10

SETTINGS = (
    (2, 16, 1024, 128, False, "float16", 128, 128), (2, 16, 4096, 128, False, "float16", 128, 128),
    (2, 16, 4096, 128, False, "float16", 192, 80), (1, 16, 16384, 128, False, "bfloat16", 128, 128),
    (1, 16, 16384, 128, False, "bfloat16", 192, 80), (2, 16, 1024, 128, True, "float16", 128, 128),
    (2, 16, 4096, 128, True, "float16", 128, 128), (2, 16, 4096, 128, True, "float16", 192, 80),
    (1, 16, 16384, 128, True, "bfloat16", 128, 128), (1, 16, 16384, 128, True, "bfloat16", 192, 80),
    (2, 16, 4096, 64, False, "float16", 128, 128), (2, 16, 4096, 64, False, "float16", 192, 128),
    (1, 16, 16384, 64, False, "bfloat16", 192, 128), (2, 16, 4096, 64, True, "float16", 192, 128),
    (1, 16, 16384, 64, True, "bfloat16", 192, 128),
)  # fmt: skip
"""Batch, heads, keys, width, whether it is causal, type, rows and columns of a block."""


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


def milliseconds(call: Any) -> float:
    """The mean of several launches."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(LAUNCHES):
        call()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / LAUNCHES


def measured(setting: tuple[Any, ...], rounds: int) -> tuple[list[float], float]:
    """The milliseconds without and with turns, and the ratio. Ends where a result is wrong or the two differ in a bit."""
    from attention import attention

    batch, heads, length, width, is_causal, dtype, rows, columns = setting
    q, k, v = (torch.randn(batch, heads, length, width, device="cuda", dtype=getattr(torch, dtype)) for _ in range(3))
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal).float()
    program = attention.get_tir(heads, heads, width, is_causal, dtype, block_M=rows, block_N=columns)
    without = zl.compile(program, target="cuda")
    with turns_passed_on():
        taking = zl.compile(program, target="cuda")
    if "bar.arrive" in without.get_kernel_source() or "bar.arrive" not in taking.get_kernel_source():
        raise SystemExit(f"{setting}: the two kernels do not differ by turns")
    calls, results = [], []
    for kernel in (without, taking):
        o, sums = torch.empty_like(q), torch.empty(batch, heads, length, device="cuda")
        kernel(q, k, v, o, sums)
        results.append(o)
        calls.append(partial(kernel, q, k, v, o, sums))
    error = ((results[0].float() - wanted).abs() / (1 + wanted.abs())).max().item()
    if error > (2e-3 if dtype == "float16" else 1e-2) or not torch.equal(*results):
        raise SystemExit(f"{setting}: differs by {error} from torch's, or the two in some bit")
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
    for setting in SETTINGS:
        batch, heads, length, width, is_causal, dtype, rows, columns = setting
        name = f"{dtype} {batch} x {heads} x {length} x {width}{', causal' if is_causal else ''}, blocks of {rows} x {columns}"
        if only not in name:
            continue
        times, ratio = measured(setting, rounds)
        flop = 4.0 * batch * heads * length * length * width * (0.5 if is_causal else 1.0)
        figures.append({"row": name, "milliseconds": times, "ratio": ratio, "flop": flop})
        lines.append(f"| {name} | {flop / times[0] * 1e-9:.0f} | {flop / times[1] * 1e-9:.0f} | {ratio:.3f} |")
        click.echo(lines[-1])
    if write:
        environment = {
            "device": torch.cuda.get_device_name(), "torch": torch.__version__, "python": platform.python_version(),
            "zellige": zl.__version__,
        }  # fmt: skip
        how = "The same kernel without and with turns of its consumers at starting products, alternating; above 1 turns pay."
        text = ["# Turns of consumers on a CUDA device", "", ", ".join(f"{k} {v}" for k, v in environment.items()), "", how, "", *lines]
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "turns.md").write_text("\n".join(text) + "\n", encoding="utf-8")
        (RESULTS / "turns.json").write_text(json.dumps({"environment": environment, "figures": figures}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
