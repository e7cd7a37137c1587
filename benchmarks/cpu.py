"""How fast kernels are on the CPU beside NumPy and torch.

``python benchmarks/cpu.py [--only WORDS] [--threads 1,2] [--seconds 3] [--write] [--results cpu]`` measures the rows of :mod:`cpu_rows`
whose name holds WORDS. For each, ours and the others take turns in one process: a pause in which the threads of the library before go
to sleep (OpenBLAS's spin for a tenth of a second, and whoever comes next has half of their core), a call that is not timed, so that
caches are as it leaves them, then timed ones. A figure is the median of all timed calls, a ratio that of the fastest other's median to
ours. ``--write`` merges what was measured into ``benchmarks/results/cpu.json`` and writes the table ``cpu.md`` anew, so that the rows
may be measured a few at a time; ``--results`` names another pair of files, for another machine.

Each number of threads has a process of its own, in which the libraries have as many; variables that choose other code than what suits the
machine are taken out of the environment. ``--without-tiles`` measures all as on a processor without matrix tiles (:mod:`without_tiles`).
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from statistics import median
from typing import Any

import click
import without_tiles
from cpu_rows import MODULES, ROWS, Row

RESULTS = Path(__file__).parent / "results"

STEERING = (
    "OPENBLAS_CORETYPE", "OPENBLAS_VERBOSE", "OPENBLAS_MAIN_FREE", "MKL_DEBUG_CPU_TYPE", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR",
    "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "ATEN_CPU_CAPABILITY", "NPY_DISABLE_CPU_FEATURES",
    "OMP_WAIT_POLICY", "KMP_BLOCKTIME", "KMP_AFFINITY", "GOMP_CPU_AFFINITY", "ZELLIGE_TARGET",
)  # fmt: skip
"""Variables that make a library choose other code than it would for this machine."""

SETTLE = 0.2
"""Seconds without work before a contender's turn."""

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "ZELLIGE_NUM_THREADS")


@click.command(help=(__doc__ or "").split("\n\n")[0])
@click.option("--only", default="", help="Measure the rows whose name holds all of these words.")
@click.option("--threads", default="1,2", show_default=True, help="Numbers of threads.")
@click.option("--seconds", default=3.0, show_default=True, help="How long to measure each row.")
@click.option("--write", is_flag=True, help="Merge the results into benchmarks/results/cpu.json and cpu.md.")
@click.option("--results", default="cpu", show_default=True, help="The name of these files, for another machine another one.")
@click.option("--without-tiles", "tileless", is_flag=True, help="As on a processor without registers of matrix tiles.")
@click.option("--child", is_flag=True, hidden=True)
def main(only: str, threads: str, seconds: float, write: bool, results: str, tileless: bool, child: bool) -> None:
    if child:
        if tileless:
            without_tiles.refuse()
        _measure_here(only, seconds)
        return
    found: list[dict[str, Any]] = []
    for count in threads.split(","):
        environment = {name: value for name, value in os.environ.items() if name not in STEERING}
        environment.update(dict.fromkeys(THREADS, count))
        environment.update(without_tiles.VARIABLES if tileless else {})
        command = [sys.executable, __file__, "--child", "--only", only, "--seconds", str(seconds)]
        command += ["--without-tiles"] * tileless
        process = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
        for line in process.stdout.splitlines():
            found.append(json.loads(line) | {"threads": int(count)})
            click.echo(_line(found[-1]))
        if process.returncode:
            raise click.ClickException(f"measuring with {count} threads failed")
    if write:
        _write(found, results)


def _measure_here(only: str, seconds: float) -> None:
    """One JSON object a row on the standard output; the environment is the right one."""
    for name in MODULES:
        importlib.import_module(name)
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    environment = _environment()
    for row in ROWS:
        if all(word.lower() in row.name.lower() for word in only.split()):
            print(json.dumps(_measured(row, seconds) | {"environment": environment}), flush=True)


def _measured(row: Row, seconds: float) -> dict[str, Any]:
    case = row.make()
    case.check()
    contenders: dict[str, Callable[[], Any]] = {"zellige": case.ours, **case.others}
    once = {name: min(_time(call) for _ in range(3)) for name, call in contenders.items()}  # the first may meet what loads or wakes
    calls = {name: max(1, min(50, int(seconds / len(contenders) / 8 / taken))) for name, taken in once.items()}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or any(len(taken) < 3 for taken in times.values()):
        for name, call in contenders.items():
            time.sleep(SETTLE)
            call()
            times[name].extend(_time(call) for _ in range(calls[name]))
    medians = {name: median(taken) for name, taken in times.items()}
    fastest = min(case.others, key=lambda name: medians[name])
    return {
        "row": row.name,
        "bar": row.bar,
        "unit": case.unit,
        "rates": {name: round(case.work / taken, 2) for name, taken in medians.items()},
        "milliseconds": round(medians["zellige"] * 1e3, 4),
        "against": fastest,
        "ratio": round(medians[fastest] / medians["zellige"], 3),
        "calls": len(times["zellige"]),
    }


def _time(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


# -- results ---------------------------------------------------------------------------------------------------------------


def _environment() -> dict[str, str]:
    import numpy as np
    import torch

    import zellige_cpu.host

    host = zellige_cpu.host.running_host()
    blas: Any = np.__config__.CONFIG["Build Dependencies"]["blas"]
    withheld = f", without {', '.join(sorted(host.withheld))} ({host.withheld_because})" if host.withheld else ""
    return {
        "machine": f"{_processor()}, {host.cores} cores, LLVM name {host.cpu}{withheld}",
        "numpy": f"{np.__version__} with {blas['openblas configuration'] if 'openblas configuration' in blas else blas['name']}"
        f", running the kernels of {_openblas_core()}",
        "torch": f"{torch.__version__}, {torch.backends.cpu.get_cpu_capability()}",
        "python": platform.python_version(),
        "date": date.today().isoformat(),
    }


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def _openblas_core() -> str:
    """The machine that OpenBLAS takes this one for, as far as it can be asked."""
    import numpy as np

    folder = Path(np.__file__).parent.parent / "numpy.libs"
    for path in folder.glob("*openblas*"):
        library = ctypes.CDLL(str(path))
        for name in ("scipy_openblas_get_corename64_", "openblas_get_corename64_", "openblas_get_corename"):
            function = getattr(library, name, None)
            if function is not None:
                function.restype = ctypes.c_char_p
                return str(function().decode())
    return "an unknown machine"


def _line(found: dict[str, Any]) -> str:
    rates = ", ".join(f"{name} {rate:.1f}" for name, rate in found["rates"].items())
    return f"{found['row']:32} {found['threads']} threads  {rates} {found['unit']}  ratio {found['ratio']:.3f}  ({found['calls']} calls)"


def _write(found: list[dict[str, Any]], name: str) -> None:
    path = RESULTS / f"{name}.json"
    known = json.loads(path.read_text()) if path.exists() else []
    merged = {(entry["row"], entry["threads"]): entry for entry in [*known, *found]}
    order = {row: place for place, row in enumerate(dict.fromkeys(entry["row"] for entry in merged.values()))}
    entries = sorted(merged.values(), key=lambda entry: (order[entry["row"]], entry["threads"]))
    path.write_text(json.dumps(entries, indent=1) + "\n")
    (RESULTS / f"{name}.md").write_text(_table(entries, name))


def _table(entries: list[dict[str, Any]], name: str) -> str:
    own = "" if name == "cpu" else f" --results {name}"
    own += " --without-tiles" * any("without amx" in entry["environment"]["machine"] for entry in entries)
    lines = [
        "# Kernels on the CPU",
        "",
        f"Written by `python benchmarks/cpu.py --write{own}`. Ours and the others take turns in one process; medians. A ratio above 1",
        "means that ours is faster than the fastest other; the bar is the ratio to be reached.",
        "",
    ]
    for environment in dict.fromkeys(tuple(entry["environment"].items()) for entry in entries):
        lines += ["; ".join(f"{name}: {value}" for name, value in environment) + ".", ""]
    lines += ["| row | threads | zellige | others | ratio | bar |", "| --- | ---: | ---: | --- | ---: | ---: |"]
    for entry in entries:
        others = ", ".join(f"{name} {rate:.1f}" for name, rate in entry["rates"].items() if name != "zellige")
        bar = f"{entry['bar']:.2f}" if entry["bar"] else ""
        ours = f"{entry['rates']['zellige']:.1f} {entry['unit']}"
        lines.append(f"| {entry['row']} | {entry['threads']} | {ours} | {others} | {entry['ratio']:.2f} | {bar} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
