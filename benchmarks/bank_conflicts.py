"""Bank conflicts of six ways to store a tile, as the counters of a CUDA device count them.

``python benchmarks/bank_conflicts.py [--write]`` runs twelve small kernels under ncu, which reads how often the pipe of shared memory was
used ("wavefronts") for reads and writes. ``--write`` puts the counts down in ``benchmarks/results/bank_conflicts.md`` and ``.json``; a test
holds what ``zellige explain --layout`` and the simulator say against them. Needs a device, torch and ncu.

In: nothing. Out: for each layout and kernel the wavefronts of reads and of writes, and how many there would be without conflicts.
"""

from __future__ import annotations

import csv
import io
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

import zellige as zl
import zellige.language as T
from zellige import layout

RESULTS = Path(__file__).parent / "results"
ROWS, COLUMNS = 128, 32

LAYOUTS: Final[dict[str, Callable[[Any], Any]]] = {
    "linear": layout.make_linear_layout,
    "padded": lambda tile: layout.Layout(tile.shape, kind="padded"),
    "bank": lambda tile: layout.Layout(tile.shape, kind="bank"),
    "swizzle of 32 bytes": layout.make_quarter_bank_swizzled_layout,
    "swizzle of 64 bytes": layout.make_half_bank_swizzled_layout,
    "swizzle of 128 bytes": layout.make_full_bank_swizzled_layout,
}
"""Of a tile of 128 x 32 elements of float16."""

COUNTERS: Final = {
    "reads": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "writes": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "read conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "write conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
}


def columns(name: str) -> Any:
    """Lane i reads the elements (i, j), one of 2 bytes after the other. The columns come in an order that the compiler does not know, so
    that it cannot read neighbours together."""
    make = LAYOUTS[name]

    @T.prim_func
    def by_columns(A: T.Tensor((ROWS, COLUMNS), "float16"), order: T.Tensor((COLUMNS,), "int32"), S: T.Tensor((ROWS,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((ROWS, COLUMNS), "float16")
            T.annotate_layout({tile: make(tile)})
            i = T.get_thread_binding()
            total = T.alloc_var("float32", init=0.0)
            start = T.alloc_var("int32", init=0)
            start = order[0]
            for j in T.serial(COLUMNS):
                tile[j * 4 + i // 32, i % 32] = A[j * 4 + i // 32, i % 32]
            for j in T.serial(COLUMNS):
                total += T.cast(tile[i, j ^ start], "float32")
            S[i] = total

    return by_columns


def rows(name: str) -> Any:
    """The tile is filled in pieces of 16 bytes and is the left operand of a product: rows of 16 bytes, by matrix loads where the storage
    keeps such rows together."""
    make = LAYOUTS[name]

    @T.prim_func
    def by_rows(A: T.Tensor((ROWS, COLUMNS), "float16"), B: T.Tensor((COLUMNS, 64), "float16"), C: T.Tensor((ROWS, 64), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((ROWS, COLUMNS), "float16")
            right = T.alloc_shared((COLUMNS, 64), "float16")
            sums = T.alloc_fragment((ROWS, 64), "float32")
            T.annotate_layout({tile: make(tile)})
            T.copy(A, tile)
            T.copy(B, right)
            T.clear(sums)
            T.gemm(tile, right, sums)
            T.copy(sums, C)

    return by_rows


KERNELS: Final = {"columns": columns, "rows": rows}


def launch_all() -> None:
    """Every kernel once, in order, with exact results."""
    import torch

    A = torch.randint(-3, 4, (ROWS, COLUMNS)).half().cuda()
    B = torch.randint(-3, 4, (COLUMNS, 64)).half().cuda()
    order = torch.zeros(COLUMNS, dtype=torch.int32).cuda()
    for name in LAYOUTS:
        S, C = torch.empty(ROWS).cuda(), torch.empty(ROWS, 64).cuda()
        zl.compile(columns(name), target="cuda")(A, order, S)
        zl.compile(rows(name), target="cuda")(A, B, C)
        if not (torch.equal(S, A.float().sum(1)) and torch.equal(C, A.float() @ B.float())):
            raise SystemExit(f"the results with the layout {name} are wrong")


def counted() -> dict[str, dict[str, dict[str, int]]]:
    """The counters by layout and kernel."""
    tool = shutil.which("ncu")
    if tool is None:
        raise SystemExit("ncu is not installed")
    command = [
        tool, "--csv", "--page", "raw", "--clock-control", "none", "--cache-control", "none", "--kernel-name", "regex:^by_(columns|rows)$",
        "--metrics", ",".join(COUNTERS.values()), sys.executable, str(Path(__file__).resolve()), "--launch",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    lines = done.stdout.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise SystemExit(f"ncu counted nothing:\n{done.stdout}{done.stderr}")
    table = [row for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))) if row["ID"]]
    names = [(name, kernel) for name in LAYOUTS for kernel in KERNELS]
    if len(table) != len(names):
        raise SystemExit(f"ncu counted {len(table)} launches, not {len(names)}")
    found: dict[str, dict[str, dict[str, int]]] = {name: {} for name in LAYOUTS}
    for (name, kernel), row in zip(names, table):
        found[name][kernel] = {word: round(float(row[metric].replace(",", ""))) for word, metric in COUNTERS.items()}
    return found


def environment() -> dict[str, str]:
    import torch

    versions = {"torch": torch.__version__, "python": platform.python_version(), "zellige": zl.__version__}
    return {"device": torch.cuda.get_device_name(), **versions}


@click.command(help=(__doc__ or "").split("\n\n")[0])
@click.option("--write", is_flag=True, help="Put the counts down.")
@click.option("--launch", is_flag=True, hidden=True)
def main(write: bool, launch: bool) -> None:
    if launch:
        launch_all()
        return
    found = counted()
    lines = ["| layout | kernel | " + " | ".join(COUNTERS) + " |", "| --- | --- |" + " ---: |" * len(COUNTERS)]
    for name, kernels in found.items():
        for kernel, counts in kernels.items():
            lines.append(f"| {name} | {kernel} | " + " | ".join(str(counts[word]) for word in COUNTERS) + " |")
    click.echo("\n".join(lines))
    if write:
        RESULTS.mkdir(exist_ok=True)
        head = ", ".join(f"{k} {v}" for k, v in environment().items())
        legend = "Wavefronts of shared memory, and those of them that are due to conflicts, by the counters of the device."
        text = "\n".join(["# Bank conflicts", "", head, "", legend, "", *lines])
        (RESULTS / "bank_conflicts.md").write_text(text + "\n", encoding="utf-8")
        content = {"environment": environment(), "figures": found}
        (RESULTS / "bank_conflicts.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
