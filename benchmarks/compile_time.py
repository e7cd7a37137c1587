"""How long a program takes to compile, stage by stage, and whether that grows with its length alone.

``python benchmarks/compile_time.py [--kinds A,B] [--sizes 10,100,1000] [--write]``. Programs of a kind consist of N statements of one sort
(of the kind ``sum``: of one statement with N operators). Nothing is found in a cache: every stage is called by itself, on a program that
this process has not seen. Figures are processor time, the least of several runs, after imports and a first program that loads everything.

The bar: let ``t(N)`` be the time of N statements and ``(t(N) - t(10)) / (N - 10)`` the time of one statement at N, free of what a program
costs whatever its length. The growth is that time at 1000 divided by the one at 100. It should be at most 1.3. ``--write`` puts the
tables into ``benchmarks/results/compile_time.md`` and ``.json``.
"""

from __future__ import annotations

import argparse
import gc
import linecache
import sys
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from recording import figures, page, table, write

from zellige.driver import PIPELINE, fitted_for
from zellige.ir.printer import print_kernel
from zellige.ir.stmt import Kernel
from zellige.ir.verify import check
from zellige.options import CompileOptions
from zellige.passes.runner import run_passes
from zellige.plugin.contract import CompileContext
from zellige.plugin.registry import BackendHandle, registry

SIZES = (10, 100, 1000, 3000)
BAR_TEXT = (
    "Processor time, nothing cached. The growth to N is the time of one more statement at N divided by that at 100, both less what a "
    "program of 10 statements takes; the bar is 1.3 at 1000. The targets' rows add up the stages that they need, from Python to what runs."
)
STAGES = ("front end", "print", "verify", "passes", "plan for interp", "plan for cpu", "emit", "LLVM", "plan for lanes", "emit for lanes")
OF_TARGET = {"interp": STAGES[:5], "cpu": (*STAGES[:4], *STAGES[5:8]), "source for lanes": (*STAGES[:4], *STAGES[8:])}
LANES = "cuda:sm_90a"
"""A target whose programs are of lanes. Its compiler is not measured."""
SECONDS_A_PROGRAM = 1.5
FEWEST, MOST = 3, 7
"""Programs are compiled again until ``SECONDS_A_PROGRAM`` are spent, as many times as this: the least of one run is no least, and the
growth would compare a disturbed run of a long program with the best of a short one."""

HEAD = """import zellige.language as T


@T.prim_func
def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), I: T.Tensor((64,), "int32")):
    with T.Kernel(1{threads}) as bx:
"""


def scalars(count: int) -> list[str]:
    """Assignments to variables, a third of them stores."""
    lines = ["x = T.alloc_var('int32')", "y = T.alloc_var('int32')", "x = I[0]", "y = I[1]"]
    forms = ("x = x * 3 + y", "y = y ^ (x + {k})", "I[{j}] = x - y")
    return lines + [forms[k % 3].format(k=k, j=k % 64) for k in range(count)]


def bindings(count: int) -> list[str]:
    """Names for values, each used by the next."""
    return ["v0 = A[0]"] + [f"v{k + 1} = v{k} * A[{k % 64}] + 1.0" for k in range(count)] + [f"B[0] = v{count}"]


def tiles(count: int) -> list[str]:
    """Operations on whole tiles."""
    lines = ["x = T.alloc_shared((64,), 'float32')", "y = T.alloc_fragment((64,), 'float32')", "z = T.alloc_fragment((1,), 'float32')"]
    forms = ("T.copy(A, x)", "T.copy(x, y)", "T.reduce_sum(y, z, dim=0)", "T.fill(x, {k}.0)", "T.copy(y, B)")
    return lines + ["T.fill(y, 0.0)"] + [forms[k % 5].format(k=k) for k in range(count)]


def products(count: int) -> list[str]:
    """Matrix products into one tile."""
    lines = [f"{name} = T.alloc_{space}((16, 16), 'float32')" for name, space in (("x", "shared"), ("y", "shared"), ("z", "fragment"))]
    return lines + ["T.fill(x, 1.0)", "T.fill(y, 1.0)", "T.fill(z, 0.0)"] + ["T.gemm(x, y, z)"] * count + ["B[0] = z[0, 0]"]


def loops(count: int) -> list[str]:
    """Nests of two loops and two statements."""
    lines: list[str] = []
    for k in range(max(1, count // 4)):
        lines += ["for i in range(4):", "    for j in range(i + 1):"]
        lines += [f"        A[i * 4 + j] = B[i * 16 + j] + {k}.0", f"        I[i + j] = {k}"]
    return lines


def branches(count: int) -> list[str]:
    """Conditions with a statement on either side."""
    lines = ["x = T.alloc_var('int32')", "x = I[0]"]
    for k in range(max(1, count // 3)):
        lines += [f"if x < {k}:", f"    x = x + I[{k % 64}]", "else:", f"    I[{k % 64}] = x"]
    return lines


def maps(count: int) -> list[str]:
    """Elementwise maps of one statement each."""
    lines = ["x = T.alloc_fragment((64,), 'float32')", "T.copy(A, x)"]
    for k in range(max(1, count // 2)):
        lines += ["for i in T.Parallel(64):", f"    x[i] = x[i] * B[i] + {k}.0"]
    return [*lines, "T.copy(x, B)"]


def one_map(count: int) -> list[str]:
    """One elementwise map of many statements."""
    return ["for i in T.Parallel(64):", *(f"    B[i] = B[i] * A[i] + {k}.0" for k in range(count))]


def expressions(count: int) -> list[str]:
    """Statements of 24 operators each."""
    long = " + ".join(f"A[{k}] * {k + 1}.0" for k in range(12))
    return [f"B[{k % 64}] = {long} - {k}.0" for k in range(count)]


def one_sum(count: int) -> list[str]:
    """One statement of many operators."""
    return ["B[0] = " + " + ".join(f"A[{k % 64}]" for k in range(count + 1))]


def pipelined(count: int) -> list[str]:
    """One pipelined loop around many tile operations."""
    lines = [f"x{k} = T.alloc_shared((8,), 'float32')" for k in range(4)] + ["y = T.alloc_fragment((8,), 'float32')", "T.fill(y, 0.0)"]
    forms = ("T.copy(A[k * 8], x{tile})", "for i in T.Parallel(8): y[i] = y[i] + x{tile}[i]")
    body = ["    " + forms[k % 2].format(tile=k // 2 % 4) for k in range(count)]
    return [*lines, "for k in T.Pipelined(8, num_stages=2):", *body, "T.copy(y, B[0])"]


def one_tile(count: int) -> list[str]:
    """One pipelined loop in which many statements change the same tile."""
    forms = ("y[{k}] = y[{k}] + x[{k}]", "for i in T.Parallel(8): y[i] = y[i] * x[i]", "T.copy(x, y)", "T.fill(y, {k}.0)")
    lines = ["x = T.alloc_shared((8,), 'float32')", "y = T.alloc_fragment((8,), 'float32')", "T.fill(y, 0.0)"]
    body = ["T.copy(A[k * 8], x)", *(forms[k % 4].format(k=k % 8) for k in range(count))]
    return [*lines, "for k in T.Pipelined(8, num_stages=2):", *("    " + line for line in body), "T.copy(y, B[0])"]


def many_tiles(count: int) -> list[str]:
    """As many tiles as statements, each filled from the one before."""
    lines = ["x0 = T.alloc_fragment((8,), 'float32')", "T.copy(A[0], x0)"]
    for k in range(count):
        lines += [f"x{k + 1} = T.alloc_fragment((8,), 'float32')", f"for i in T.Parallel(8): x{k + 1}[i] = x{k}[i] + {k}.0"]
    return [*lines, f"T.copy(x{count}, B[0])"]


def copies(count: int) -> list[str]:
    """Copies of parts of one tensor to another by way of one tile."""
    lines = ["x = T.alloc_shared((8,), 'float32')"]
    return lines + [f"T.copy(A[{k // 2 % 8 * 8}], x)" if k % 2 == 0 else f"T.copy(x, B[{k // 2 % 8 * 8}])" for k in range(count)]


def nests(count: int) -> list[str]:
    """Nests of twelve loops and branches with a statement in the middle of each."""
    lines: list[str] = []
    for k in range(max(1, count // 8)):
        for depth in range(6):
            lines += ["  " * 2 * depth + f"for i{depth} in range(2):", "  " * (2 * depth + 1) + f"if i{depth} + I[{depth}] < {k}:"]
        lines.append("  " * 12 + f"I[{k % 64}] = i0 + i5")
    return lines


def product_loops(count: int) -> list[str]:
    """One pipelined loop of many copies and products."""
    lines = [f"{name} = T.alloc_{space}((16, 16), 'float16')" for name, space in (("x", "shared"), ("y", "shared"))]
    lines += ["z = T.alloc_fragment((16, 16), 'float32')", "T.fill(z, 0.0)", "T.fill(y, 1.0)"]
    body = ["for i, j in T.Parallel(16, 16): x[i, j] = T.cast(A[(i + j + k) % 64], 'float16')", "T.gemm(x, y, z)", "T.gemm(y, x, z)"]
    return [*lines, "for k in T.Pipelined(4, num_stages=2):", *(f"    {body[k % 3]}" for k in range(count)), "B[0] = z[0, 0]"]


def lanes(count: int) -> list[str]:
    """Statements of single lanes with barriers between them."""
    lines = ["tx = T.get_thread_binding()", "x = T.alloc_shared((64,), 'float32')"]
    forms = ("x[tx] = A[tx] + {k}.0", "T.sync_threads()", "B[tx] = x[63 - tx]", "T.sync_threads()")
    return lines + [forms[k % 4].format(k=k) for k in range(count)]


KINDS: dict[str, tuple[Callable[[int], list[str]], str]] = {
    "scalars": (scalars, ""),
    "bindings": (bindings, ""),
    "branches": (branches, ""),
    "loops": (loops, ""),
    "maps": (maps, ""),
    "one map": (one_map, ""),
    "tiles": (tiles, ""),
    "products": (products, ""),
    "pipeline": (pipelined, ""),
    "one tile": (one_tile, ""),
    "many tiles": (many_tiles, ""),
    "copies": (copies, ""),
    "nests": (nests, ""),
    "product loop": (product_loops, ""),
    "lanes": (lanes, ", threads=64"),
    "expressions": (expressions, ""),
    "sum": (one_sum, ""),
}


def source_of(kind: str, count: int, number: int) -> tuple[str, str]:
    """A module whose kernel no other has: ``number`` is part of a constant."""
    body, threads = KINDS[kind]
    lines = [*body(count), f"I[63] = {number}"]
    text = HEAD.format(threads=threads) + "".join(f"        {line}\n" for line in lines)
    return text, f"<{kind} {count} {number}>"


def traced(text: str, name: str) -> Kernel:
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    module = types.ModuleType("measured")
    module.__file__ = name
    exec(compile(text, name, "exec"), module.__dict__)
    kernel: Kernel = module.__dict__["kernel"].kernel
    del linecache.cache[name]
    return kernel


Figures = dict[str, dict[str, float]]
"""Milliseconds by stage and by size."""

Measure = Callable[[str, Callable[[], Any]], Any]
"""Runs a stage, given its name, and returns what it returns."""


def staged(kind: str, count: int, number: int, measure: Measure) -> None:
    """Each stage of one program once, handed to ``measure``."""
    from zellige_cpu.host import running_host
    from zellige_cpu.llvm_worker import machine_code, target_machine

    handle, ctx = context_of("cpu")
    kernel = measure("front end", lambda: traced(*source_of(kind, count, number)))
    measure("print", lambda: print_kernel(kernel))
    measure("verify", lambda: check(kernel))
    legal = measure("passes", lambda: run_passes(kernel, PIPELINE))
    measure("plan for interp", lambda: fitted_for(legal, context_of("interp")[1]))
    fitted = measure("plan for cpu", lambda: fitted_for(legal, ctx))
    emitted = measure("emit", lambda: handle.emit_step(fitted, ctx))
    host = running_host()
    machine = target_machine(host.triple, host.cpu, host.feature_string, False)
    measure("LLVM", lambda: machine_code(emitted.text, machine, "object"))  # in this process, whose time is measured
    handle_of_lanes, ctx_of_lanes = context_of(LANES)
    of_lanes = measure("plan for lanes", lambda: fitted_for(legal, ctx_of_lanes))
    measure("emit for lanes", lambda: handle_of_lanes.emit_step(of_lanes, ctx_of_lanes))


def context_of(name: str) -> tuple[BackendHandle, CompileContext]:
    target = registry().resolve(name)
    handle = registry().backend(target)
    return handle, handle.context(target, CompileOptions())


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """Seconds of processor time of each stage of one program."""

    stages: dict[str, float]

    def total(self, target: str) -> float:
        """A compilation for ``target``, from Python to what runs."""
        return sum(self.stages[stage] for stage in OF_TARGET[target])


def measured(kind: str, count: int, number: int) -> Timed:
    """Each stage once."""
    stages: dict[str, float] = {}

    def timed(stage: str, run: Callable[[], Any]) -> Any:
        gc.collect()
        begin = time.process_time()
        result = run()
        stages[stage] = time.process_time() - begin
        return result

    staged(kind, count, number, timed)
    return Timed(stages=stages)


def least(kind: str, count: int) -> Timed:
    """The least time of each stage over several runs."""
    runs = [measured(kind, count, 0)]
    while len(runs) < FEWEST or (len(runs) < MOST and sum(sum(run.stages.values()) for run in runs) < SECONDS_A_PROGRAM):
        runs.append(measured(kind, count, len(runs)))
    return Timed(stages={stage: min(run.stages[stage] for run in runs) for stage in runs[0].stages})


def growth(times: dict[int, float], large: int = 1000) -> float:
    """The time of one statement at ``large`` statements, divided by the one at 100; both less what 10 statements take."""
    return ((times[large] - times[10]) / (large - 10)) / ((times[100] - times[10]) / 90)


def columns(found: dict[int, Timed]) -> Figures:
    """Milliseconds by size, for each stage and for all that a target needs."""
    by_stage = {stage: {size: timed.stages[stage] for size, timed in found.items()} for stage in STAGES}
    whole = {f"to {target}": {size: timed.total(target) for size, timed in found.items()} for target in OF_TARGET}
    return {name: {str(size): round(value * 1e3, 3) for size, value in times.items()} for name, times in {**by_stage, **whole}.items()}


def rows_of(kind: str, figures_: Figures) -> list[list[str]]:
    rows = []
    for stage, by_size in figures_.items():
        times = {int(size): value for size, value in by_size.items()}
        each = (times[1000] - times[10]) / 990 * 1e3
        # a stage that takes next to nothing has no growth that could be measured
        grown = [f"{growth(times, size):.2f}" if value > 5 else "" for size, value in times.items() if size >= 1000]
        rows.append([f"{kind}: {stage}", *(f"{value:.1f}" for value in times.values()), f"{each:.0f}", *grown])
    return rows


def block(kind: str, figures_: Figures) -> list[str]:
    sizes = [int(size) for size in next(iter(figures_.values()))]
    head = ["kind: stage", *(f"{size}, ms" for size in sizes), "a statement, µs", *(f"growth to {size}" for size in sizes if size >= 1000)]
    return table(head, rows_of(kind, figures_))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kinds", default=",".join(KINDS), help="which kinds, separated by commas; others keep the figures put down")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="how many statements; 10, 100 and 1000 among them")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/compile_time.md and .json")
    chosen = parser.parse_args()
    sizes = [int(size) for size in chosen.sizes.split(",")]
    sys.setrecursionlimit(10_000)  # Python's own compiler of a sum of 3000 terms
    found: dict[str, Figures] = figures("compile_time") if chosen.write else {}
    for kind in chosen.kinds.split(","):
        measured(kind, 3, -1)
        found[kind] = columns({size: least(kind, size) for size in sizes})
        print("\n".join(block(kind, found[kind])), flush=True)
        if chosen.write:
            found = {known: found[known] for known in KINDS if known in found}
            lines = [BAR_TEXT, ""] + [line for known in found for line in (*block(known, found[known]), "")]
            write("compile_time", page("Compile time by stage and length of the program", lines), found)


if __name__ == "__main__":
    main()
