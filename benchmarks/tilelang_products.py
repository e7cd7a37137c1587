"""TileLang's products for ``benchmarks/gpu.py``, compiled where there is no device.

``python benchmarks/tilelang_products.py FOLDER`` needs TileLang (``pip install "tilelang[nvcc]"``) and writes a cubin for each product of
``gpu.py``: TileLang's text for sm_80, so that it uses ``cp.async`` and ``mma.sync``, compiled by nvcc to PTX of compute_80 and from that to
machine code of sm_90. ``gpu.py --tilelang FOLDER`` measures them.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import click
import tilelang
import tilelang.language as T
from tilelang import tvm

ARCHITECTURE = {"kind": "cuda", "arch": "sm_80"}


def product(size: int, threads: int, stages: int) -> Any:
    """The kernel of ``gpu.product``, in the same words."""
    rows, columns, depth = 128, 128, 32

    @T.prim_func
    def product(A: T.Tensor((size, size), "float16"), B: T.Tensor((size, size), "float16"), C: T.Tensor((size, size), "float16")):
        with T.Kernel(T.ceildiv(size, columns), T.ceildiv(size, rows), threads=threads) as (bx, by):
            a = T.alloc_shared((rows, depth), "float16")
            b = T.alloc_shared((depth, columns), "float16")
            c = T.alloc_fragment((rows, columns), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(size, depth), num_stages=stages):
                T.copy(A[by * rows, step * depth], a)
                T.copy(B[step * depth, bx * columns], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * rows, bx * columns])

    return product


@click.command(help=(__doc__ or "").split("\n\n")[0])
@click.argument("folder", type=click.Path(path_type=Path))
def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    package = Path(tilelang.__file__).parent
    compiler = next(package.parent.glob("nvidia/*/bin/nvcc"))
    includes = (package / "src", package / "3rdparty" / "cutlass" / "include", compiler.parents[1] / "include")
    target = tvm.target.Target(ARCHITECTURE)
    for size in (2048, 4096, 8192):
        for threads, stages in ((256, 3), (256, 4), (128, 3)):
            with target:
                text = tilelang.lower(product(size, threads, stages), target=target).kernel_source
            source = folder / f"product_{size}_{threads}_{stages}.cu"
            source.write_text(text, encoding="utf-8")
            command = [str(compiler), "-std=c++17", "-O3", "-cubin", "-gencode", "arch=compute_80,code=sm_90"]
            command += [f"-I{path}" for path in includes]
            subprocess.run([*command, "-o", str(source.with_suffix(".cubin")), str(source)], check=True)
            click.echo(source.with_suffix(".cubin"))


if __name__ == "__main__":
    main()
