"""Everything that is right or wrong on a CUDA device only: ``python tools/device_check.py [PART ...]``.

Parts: ``examples`` (each within its derived bound of a float64 reference, in all its element types), ``cases`` (programs of another
folder, given by ``--cases``), ``stages`` (num_stages 0 to 4 give the same bits), ``widths`` (24, 40, 48, 80, 112, 176), ``sizes`` (1, 7,
127, 129 in every dimension), ``graphs`` (kernels recorded in graphs of torch and replayed: tools/device_graphs.py), ``devices`` (tensors
of a device that is not the current one, threads with a device each, a process that sees the second device only; not among the default
parts, as it needs two) and the tools of compute-sanitizer over the examples (``memcheck``, ``racecheck``, ``synccheck``, ``initcheck``).
Each job is a process of its own; ``--jobs`` of them run together. Status 1: a job failed; 2: there is no device, and why is printed.

In: a device, torch; two devices for ``devices``; compute-sanitizer for its four tools. Out: a line a job, the output of those that
failed, a summary.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final

import click
import numpy as np

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "examples")]

from example_sizes import SHAPES  # noqa: E402

SANITIZERS: Final = ("memcheck", "racecheck", "synccheck", "initcheck")
NUMBERS: Final = ("stages", "widths", "sizes", "graphs")
DEVICES: Final = "devices"
PARTS: Final = ("examples", "cases", *NUMBERS, DEVICES, *SANITIZERS)
SANITIZER_STATUS: Final = 9
WIDTHS: Final = (24, 40, 48, 80, 112, 176)
SIZES: Final = (1, 7, 127, 129)
SHOWN: Final = 1500
"""Characters of the output of a job that failed, from its beginning and from its end."""

PLANTED: Final = """
extern "C" __global__ void memcheck(int* p, int n) { p[n + threadIdx.x] = 1; }
extern "C" __global__ void racecheck(int* p, int n) {
  __shared__ int s[64];
  s[threadIdx.x] = n;
  p[threadIdx.x] = s[63 - threadIdx.x];
}
extern "C" __global__ void synccheck(int* p, int n) { if (threadIdx.x % 2) __syncthreads(); p[threadIdx.x] = n; }
extern "C" __global__ void initcheck(int* p, int n) { p[threadIdx.x] += n; }
"""
"""A fault for each tool, without which it would not be known that it looks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A command, the variables of the environment that it needs beside those that are set, and the status that is right."""

    part: str
    name: str
    command: tuple[str, ...]
    variables: dict[str, str]
    expected: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """``seconds`` of wall time."""

    job: Job
    status: int
    seconds: float
    output: str

    @property
    def is_right(self) -> bool:
        return self.status == self.job.expected


def missing_device() -> str | None:
    """Why nothing can be checked here; None where a device is."""
    try:
        import torch
    except ImportError as error:
        return f"torch is not installed ({error})"
    return None if torch.cuda.is_available() else "torch finds no CUDA device"


# ---- what a process does ----


def number_of_devices() -> int:
    """Of this process."""
    import torch

    return int(torch.cuda.device_count())


def leave_out_boxes() -> None:
    """Have all that is compiled from now on store by the lanes: initcheck does not see what an engine stores in boxes, and takes it for
    never written."""
    import zellige as zl

    configs = {zl.PassConfigKey.TL_DISABLE_TMA_LOWER: True}
    zl.jit, zl.compile = partial(zl.jit, pass_configs=configs), partial(zl.compile, pass_configs=configs)  # type: ignore[misc, assignment]


def run_example(name: str, dtypes: str) -> None:
    """An example at its odd sizes: in all its element types at the first ("all"), or in the narrowest of its own ("one")."""
    module = __import__(name)
    offered = list(next(p for p in module.main.params if p.name == "dtype").type.choices)
    half = "float16" if "float16" in offered else offered[0]
    runs = [(SHAPES[name][0], dtype) for dtype in (offered if dtypes == "all" else [half])]
    runs += [(shape, half) for shape in SHAPES[name][1:]]
    for shape, dtype in runs:
        arguments = ["--shape", shape, "--dtype", dtype, "--target", "cuda", "--device", "cuda", "--milliseconds", "0"]
        if module.main(arguments, standalone_mode=False):
            raise SystemExit(1)


def run_planted(name: str) -> None:
    """Launch the fault that a tool must find."""
    from cuda.bindings import driver

    from zellige_cuda.compiler import compile_cubin

    def call(answer: Any) -> Any:
        if int(answer[0]):
            raise SystemExit(f"the driver answers {answer[0].name}")
        return answer[1] if len(answer) > 1 else None

    call(driver.cuInit(0))
    device = call(driver.cuDeviceGet(0))
    attribute = driver.CUdevice_attribute
    major = call(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    minor = call(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
    call(driver.cuCtxSetCurrent(call(driver.cuDevicePrimaryCtxRetain(device))))
    cubin, _ = compile_cubin(PLANTED, "planted", f"sm_{major}{minor}")
    function = call(driver.cuModuleGetFunction(call(driver.cuModuleLoadData(cubin)), name.encode()))
    count = 64
    memory = call(driver.cuMemAlloc(4 * count))
    arguments = ((int(memory), count), (ctypes.c_void_p, ctypes.c_int))
    call(driver.cuLaunchKernel(function, 1, 1, 1, count, 1, 1, 0, 0, arguments, 0))
    driver.cuCtxSynchronize()  # it may well fail


def whole(*shape: int, dtype: str = "float16", seed: int = 0) -> Any:
    """Small integers on the device: every sum of products below is exact."""
    import torch

    values = np.random.default_rng(seed).integers(-3, 4, shape)
    return torch.from_numpy(values).to(getattr(torch, dtype)).cuda()


def expect(name: str, found: Any, wanted: Any) -> None:
    """Every bit."""
    import torch

    if not torch.equal(found.double().cpu(), wanted.double().cpu()):
        wrong = int((found.double().cpu() != wanted.double().cpu()).sum())
        raise SystemExit(f"{name}: {wrong} of {wanted.numel()} elements are wrong")


def matmul(A: Any, B: Any) -> Any:
    return A.double() @ B.double()


def gemm(tile: tuple[int, int, int], dtype: str, sums: str, stages: int, sizes: tuple[Any, Any, Any]) -> Any:
    """C = A B in tiles, of sizes known now or at the call (the names of sizes)."""
    import zellige as zl
    import zellige.language as T

    m, n, k = (T.dynamic(size) if isinstance(size, str) else size for size in sizes)
    rows, columns, depth = tile

    @T.prim_func
    def product(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), sums)):
        with T.Kernel(T.ceildiv(n, columns), T.ceildiv(m, rows), threads=128) as (bx, by):
            a = T.alloc_shared((rows, depth), dtype)
            b = T.alloc_shared((depth, columns), dtype)
            c = T.alloc_fragment((rows, columns), sums)
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, depth), num_stages=stages):
                T.copy(A[by * rows, step * depth], a)
                T.copy(B[step * depth, bx * columns], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * rows, bx * columns])

    return zl.compile(product, target="cuda", out_idx=[-1])


def check_stages() -> None:
    """The number of stages changes no bit, of sums that do round."""
    import torch

    for dtype, sums in (("float16", "float32"), ("bfloat16", "float32"), ("float32", "float32"), ("float64", "float64"), ("int8", "int32")):
        generator = torch.Generator().manual_seed(1)
        element = getattr(torch, dtype)
        A, B = (torch.randn(shape, generator=generator).mul(9).to(element).cuda() for shape in ((131, 304), (304, 112)))
        results = [gemm((64, 64, 32), dtype, sums, stages, (131, 112, 304))(A, B) for stages in range(5)]
        for stages in range(1, 5):
            expect(f"{dtype}, {stages} stages against none", results[stages], results[0])
        print(f"stages of {dtype}: the same bits")
    for trips in range(8):
        kernel = gemm((64, 64, 16), "float16", "float32", 3, (64, 64, max(1, 16 * trips - 5)))
        A, B = whole(64, max(1, 16 * trips - 5)), whole(max(1, 16 * trips - 5), 64, seed=1)
        expect(f"{trips} trips of 3 stages", kernel(A, B), matmul(A, B))


def row_kernel(rows: Any, width: int) -> Any:
    """Row sums and maxima of a tile of ``width`` columns, and the tile less its maxima."""
    import zellige as zl
    import zellige.language as T

    m = T.dynamic("m") if rows is None else rows

    @T.prim_func
    def by_rows(X: T.Tensor((m, width), "float32"), S: T.Tensor((m,), "float32"), Y: T.Tensor((m, width), "float32")):
        with T.Kernel(T.ceildiv(m, 32), threads=128) as bx:
            x = T.alloc_fragment((32, width), "float32")
            s = T.alloc_fragment((32,), "float32")
            top = T.alloc_fragment((32,), "float32")
            T.copy(X[bx * 32, 0], x)
            T.reduce_sum(x, s, dim=1)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(32, width):
                x[i, j] = x[i, j] - top[i]
            T.copy(s, S[bx * 32])
            T.copy(x, Y[bx * 32, 0])

    return zl.compile(by_rows, target="cuda", out_idx=[-2, -1])


def check_widths() -> None:
    """Tiles whose widths are no powers of two."""
    for a, b in (("int4", "int4"), ("uint4", "int4")):
        _nibbles(a, b)
    for width in WIDTHS:
        for tile in ((64, width, 32), (width if width % 16 == 0 else 64, 64, 16), (64, 64, width)):
            for dtype in ("float16", "int8"):
                A, B = whole(131, 190, dtype=dtype), whole(190, 203, dtype=dtype, seed=1)
                made = gemm(tile, dtype, "int32" if dtype == "int8" else "float32", 2, (131, 203, 190))
                expect(f"product of {dtype} in tiles {tile}", made(A, B), matmul(A, B))
        X = whole(45, width, dtype="float32")
        S, Y = row_kernel(45, width)(X)
        expect(f"sums of rows of {width}", S, X.sum(1))
        expect(f"rows of {width} less their maxima", Y, X - X.max(1, keepdim=True).values)
        print(f"width {width}: right")


def _nibbles(a: str, b: str) -> None:
    """A product of 4-bit integers, two to a byte."""
    import torch

    import zellige as zl
    import zellige.language as T

    @T.prim_func
    def product(A: T.Tensor((70, 130), a), B: T.Tensor((130, 48), b), C: T.Tensor((70, 48), "int32")):
        with T.Kernel(T.ceildiv(70, 32), threads=64) as by:
            left = T.alloc_shared((32, 64), a)
            right = T.alloc_shared((64, 48), b)
            sums = T.alloc_fragment((32, 48), "int32")
            T.clear(sums)
            for k in T.Pipelined(T.ceildiv(130, 64), num_stages=2):
                T.copy(A[by * 32, k * 64], left)
                T.copy(B[k * 64, 0], right)
                T.gemm(left, right, sums)
            T.copy(sums, C[by * 32, 0])

    generator = torch.Generator().manual_seed(1)
    A, B = (
        torch.randint(-8 if name == "int4" else 0, 8 if name == "int4" else 16, shape, generator=generator)
        for name, shape in ((a, (70, 130)), (b, (130, 48)))
    )
    packed = [((X[:, 0::2] & 15) | (X[:, 1::2] & 15) << 4).to(torch.uint8).cuda() for X in (A, B)]
    expect(f"product of {a} and {b}", zl.compile(product, target="cuda", out_idx=[-1])(*packed), matmul(A, B))


def check_sizes() -> None:
    """1, 7, 127 and 129 in every dimension: one compilation for all, and one for each where sizes are known."""
    kernel = gemm((64, 64, 32), "float16", "float32", 3, ("m", "n", "k"))
    for m, n, k in product(SIZES, repeat=3):
        A, B = whole(m, k), whole(k, n, seed=1)
        expect(f"product of dynamic {m} x {n} x {k}", kernel(A, B), matmul(A, B))
    print("64 products of one kernel: right")
    for m, n, k in ((1, 1, 1), (7, 127, 129), (127, 129, 7), (129, 7, 127), (1, 129, 127), (129, 127, 1), (127, 1, 129)):
        for dtype in ("float16", "float32", "int8"):
            A, B = whole(m, k, dtype=dtype), whole(k, n, dtype=dtype, seed=1)
            made = gemm((64, 64, 32), dtype, "int32" if dtype == "int8" else "float32", 3, (m, n, k))
            expect(f"product of {dtype} of {m} x {n} x {k}", made(A, B), matmul(A, B))
    for width in SIZES:
        rows_of = row_kernel(None, width)
        for rows in SIZES:
            X = whole(rows, width, dtype="float32")
            S, Y = rows_of(X)
            expect(f"sums of {rows} rows of {width}", S, X.sum(1))
            expect(f"{rows} rows of {width} less their maxima", Y, X - X.max(1, keepdim=True).values)
    for shape in (f"1x2x1x{q}x{k}x40" for q, k in product(SIZES, repeat=2) if q <= k):
        _attention(shape)
    print("rows and attention: right")


def check_devices() -> None:
    """A kernel runs on the device of its tensors, whichever is current, from several threads and with a stream of that device."""
    import torch

    import zellige as zl

    kernel = gemm((64, 64, 32), "float16", "float32", 2, ("m", "n", "k"))

    def run(index: int, size: int) -> None:
        A, B = whole(size, 96, seed=size).to(f"cuda:{index}"), whole(96, size + 3, seed=index).to(f"cuda:{index}")
        current = torch.cuda.current_device()
        stream = torch.cuda.Stream(index)
        stream.wait_stream(torch.cuda.current_stream(index))
        for inside in (torch.cuda.current_stream(index), stream):
            with torch.cuda.stream(inside) if inside is stream else nullcontext():
                C = kernel(A, B)
            torch.cuda.synchronize(index)
            if C.device.index != index or torch.cuda.current_device() != current:
                raise SystemExit(f"device {index}: the result is on {C.device}, current is {torch.cuda.current_device()}, was {current}")
            expect(f"product on device {index}, size {size}", C, matmul(A, B))

    count = torch.cuda.device_count()
    for current, index in product(range(count), repeat=2):
        with torch.cuda.device(current):
            run(index, 100 + index)
    with ThreadPoolExecutor(2 * count) as pool:
        for future in [pool.submit(run, turn % count, 65 + turn) for turn in range(16 * count)]:
            future.result()
    if count > 1:
        try:
            kernel(whole(65, 96), whole(96, 65).to("cuda:1"))
        except zl.ZelligeError as error:
            print(f"tensors of two devices: {error.code}")
        else:
            raise SystemExit("tensors of two devices in one call were accepted")
    print(f"{count} devices: right")


def check_graphs() -> None:
    """Recorded and replayed kernels."""
    from device_graphs import check_graphs as check

    check()


def _attention(shape: str) -> None:
    import attention

    arguments = ["--shape", shape, "--dtype", "float16", "--target", "cuda", "--device", "cuda", "--milliseconds", "0"]
    if attention.main(arguments, standalone_mode=False):
        raise SystemExit(1)


CHECKS: Final[dict[str, Callable[[], None]]] = {
    "stages": check_stages,
    "widths": check_widths,
    "sizes": check_sizes,
    "graphs": check_graphs,
    DEVICES: check_devices,
}


# ---- all jobs ----


def sanitizer(tool: str) -> tuple[str, ...]:
    """The command of a tool. What the driver refuses is not its business: cuda-python asks for functions of newer drivers."""
    status = str(SANITIZER_STATUS)
    return ("compute-sanitizer", "--tool", tool, "--error-exitcode", status, "--print-limit", "8", "--report-api-errors", "no")


def jobs_of(part: str, cases: Path | None, only: str) -> Iterator[Job]:
    """The jobs of a part whose names hold ``only``."""
    me = (sys.executable, str(Path(__file__).resolve()))
    if part in NUMBERS:
        yield Job(part=part, name=part, command=(*me, "--worker", part), variables={})
    elif part == DEVICES:
        for name, seen in (("both", None), ("the second", "1"), ("in turned order", "1,0")):
            variables = {} if seen is None else {"CUDA_VISIBLE_DEVICES": seen}
            yield Job(part=part, name=name, command=(*me, "--worker", part), variables=variables)
    elif part == "cases":
        for path in sorted((cases or ROOT / "cases").glob("**/[0-9]*.py")):
            if only in path.stem:
                variables = {"TL_IMPL": "zellige", "TL_TARGET": "cuda"}
                yield Job(part=part, name=path.stem, command=(sys.executable, str(path), "cuda"), variables=variables)
    else:
        for name in SHAPES:
            if only not in name:
                continue
            worker = (*me, "--worker", "example", "--example", name)
            worker += ("--without-boxes",) if part == "initcheck" else ()
            if part == "examples":
                yield Job(part=part, name=name, command=(*worker, "--dtypes", "all"), variables={})
            else:
                # torch's own pool of memory would hide accesses beyond a tensor
                variables = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
                yield Job(part=part, name=name, command=(*sanitizer(part), *worker, "--dtypes", "one"), variables=variables)
        if part in SANITIZERS:
            planted = (*sanitizer(part), *me, "--worker", "planted", "--example", part)
            yield Job(part=part, name="a planted fault", command=planted, variables={}, expected=SANITIZER_STATUS)


def perform(job: Job, limit: float) -> Outcome:
    """Run one job for at most ``limit`` seconds."""
    begin = time.perf_counter()
    try:
        done = subprocess.run(job.command, env={**os.environ, **job.variables}, capture_output=True, text=True, check=False, timeout=limit)
        status, output = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as error:
        status, output = 124, f"more than {limit:.0f} seconds\n{error.stdout or ''}"
    return Outcome(job=job, status=status, seconds=time.perf_counter() - begin, output=output)


def shortened(text: str) -> str:
    """Its beginning and its end."""
    return text if len(text) <= 2 * SHOWN else f"{text[:SHOWN]}\n...\n{text[-SHOWN:]}"


def report(outcomes: Sequence[Outcome], parts: Sequence[str]) -> bool:
    """The summary; whether all is right."""
    for part in parts:
        own = [o for o in outcomes if o.job.part == part]
        wrong = [o.job.name for o in own if not o.is_right]
        print(f"{part}: {len(own) - len(wrong)} of {len(own)} right{', wrong: ' + ', '.join(wrong) if wrong else ''}")
    return all(o.is_right for o in outcomes) and bool(outcomes)


def put_down(outcomes: Sequence[Outcome], parts: Sequence[str]) -> None:
    """The outcome as a page of results, and as data. Parts that did not run now stay as they were, with where they ran."""
    import torch

    import zellige as zl

    where = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "python": platform.python_version()}
    where["zellige"] = zl.__version__
    data, page = (ROOT / "benchmarks" / "results" / f"device_check.{kind}" for kind in ("json", "md"))
    found = json.loads(data.read_text(encoding="utf-8"))["parts"] if data.exists() else {}
    for part in parts:
        own = {o.job.name: o.is_right for o in sorted(outcomes, key=lambda o: o.job.name) if o.job.part == part}
        found[part] = {"environment": where, "jobs": own}
    found = {part: found[part] for part in PARTS if part in found}
    lines = ["# The check of a CUDA device", "", "| part | right | of | where |", "| --- | ---: | ---: | --- |"]
    for part, ran in found.items():
        jobs, place = ran["jobs"], ", ".join(f"{k} {v}" for k, v in ran["environment"].items())
        lines.append(f"| {part} | {sum(jobs.values())} | {len(jobs)} | {place} |")
    lines += ["", "Every tool of compute-sanitizer has one job more than examples: a planted fault, which it must find."]
    data.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    data.write_text(json.dumps({"parts": found}, indent=1) + "\n", encoding="utf-8")


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(PARTS))
@click.option("--cases", type=click.Path(path_type=Path), help="The folder of the cases.")
@click.option("--jobs", default=8, show_default=True, help="Processes that run together.")
@click.option("--limit", default=300.0, show_default=True, help="Seconds for one job.")
@click.option("--only", default="", help="Examples and cases whose names hold this.")
@click.option("--write", is_flag=True, help="Put the outcome down in benchmarks/results/device_check.md and .json.")
@click.option("--worker", type=click.Choice(("example", "planted", *NUMBERS, DEVICES)), hidden=True)
@click.option("--example", "name", default="", hidden=True)
@click.option("--dtypes", default="one", hidden=True)
@click.option("--without-boxes", is_flag=True, hidden=True)
def main(
    parts: tuple[str, ...], cases: Path | None, jobs: int, limit: float, only: str, write: bool, worker: str | None, name: str,
    dtypes: str, without_boxes: bool,
) -> None:  # fmt: skip
    """Check PARTS, by default all that need no compute-sanitizer."""
    if without_boxes:
        leave_out_boxes()
    if worker == "example":
        run_example(name, dtypes)
        return
    if worker == "planted":
        run_planted(name)
        return
    if worker is not None:
        CHECKS[worker]()
        return
    reason = missing_device()
    if reason is None and set(parts) & set(SANITIZERS) and shutil.which("compute-sanitizer") is None:
        reason = "compute-sanitizer is not installed"
    if reason is None and DEVICES in parts and number_of_devices() < 2:
        reason = "the part devices needs two devices"
    if reason is not None:
        print(f"nothing is checked: {reason}")
        raise SystemExit(2)
    chosen = parts or ("examples", "cases", *NUMBERS)
    work = [job for part in chosen for job in jobs_of(part, cases, only)]
    outcomes = []
    with ThreadPoolExecutor(jobs) as pool:
        for future in as_completed([pool.submit(perform, job, limit) for job in work]):
            outcome = future.result()
            outcomes.append(outcome)
            verdict = "ok" if outcome.is_right else f"status {outcome.status}"
            print(f"{outcome.job.part:10} {outcome.job.name:48} {verdict} {outcome.seconds:6.1f} s", flush=True)
            if not outcome.is_right:
                print("    " + shortened(outcome.output).replace("\n", "\n    "), flush=True)
    if write:
        put_down(outcomes, chosen)
    if not report(outcomes, chosen):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
