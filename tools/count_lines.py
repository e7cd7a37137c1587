"""Writes docs/comparison.md: how many lines of kernel code our examples take, beside public versions of the same kernels.

In: examples/*.py, counted here, and the counts of public sources below, which were taken by hand by the same rule. Out: the page. Run
without arguments to write it, with ``--check`` to find out whether it is current (exit status 1 when it is not).

The rule: a line counts if something other than a comment or a documentation string stands on it. Counted are the functions that are
compiled for the device, with their decorators (but not lists of configurations to tune over) and with the function that builds them; not
counted are imports, what the host does before and after, tests and measurements.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "comparison.md"
_SKIPPED: Final = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING)
_MARKS: Final = ("zl.jit", "T.prim_func", "T.macro")


@dataclass(frozen=True, slots=True, kw_only=True)
class Public:
    """A public version: where it is, which functions were counted, and their lines."""

    lines: int
    repository: str
    path: str
    commit: str
    functions: str

    @property
    def link(self) -> str:
        return f"[{self.lines}](https://github.com/{self.repository}/blob/{self.commit}/{self.path})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kernel. ``example`` names the file, ``functions`` those of it that are counted: all kernels unless given."""

    title: str
    example: str
    functions: tuple[str, ...] = ()
    tilelang: Public | None = None
    triton: Public | None = None
    cuda: Public | None = None
    note: str = ""


def _tilelang(lines: int, path: str, commit: str, functions: str) -> Public:
    return Public(lines=lines, repository="tile-ai/tilelang", path=f"examples/{path}", commit=commit, functions=functions)


def _triton(lines: int, path: str, commit: str, functions: str) -> Public:
    return Public(lines=lines, repository="triton-lang/triton", path=f"python/tutorials/{path}", commit=commit, functions=functions)


def _cuda(lines: int, repository: str, path: str, commit: str, functions: str) -> Public:
    return Public(lines=lines, repository=repository, path=path, commit=commit, functions=functions)


ROWS: Final = (
    Row(
        title="vector addition",
        example="vector_add",
        tilelang=_tilelang(12, "elementwise/example_elementwise_add.py", "017c67dc079d3e5645f72ba0ca8870b6d9666a4f", "elementwise_add"),
        triton=_triton(16, "01-vector-add.py", "0086dd44249d758c4bb564b36984e6c23e0c012f", "add_kernel"),
        cuda=_cuda(
            7,
            "NVIDIA/cuda-samples",
            "Samples/0_Introduction/vectorAdd/vectorAdd.cu",
            "35a407d5799a3022e4f7340b28a6856bf87d977d",
            "vectorAdd",
        ),
        note="TileLang's is of matrices",
    ),
    Row(
        title="GEMM",
        example="gemm",
        tilelang=_tilelang(20, "gemm/example_gemm.py", "70c2d6484064a0a8d4e2d469100c5c4c6f7ab3ba", "matmul_nt"),
        triton=_triton(40, "03-matrix-multiplication.py", "7649d87cce6c12361bb9da234b9b227b2880b499", "matmul_kernel"),
        cuda=_cuda(
            136,
            "siboehm/SGEMM_CUDA",
            "src/kernels/10_kernel_warptiling.cuh",
            "0184e95ac76b3d8f959a7b00a0bf96c945497d57",
            "all",
        ),
        note="CUDA's takes multiples of its tiles only; TileLang's also asks for an order of the blocks, Triton's spells it out",
    ),
    Row(title="GEMM, eager style", example="gemm_eager"),
    Row(title="GEMM, direct style", example="gemm_direct"),
    Row(title="GEMM, layout hints", example="gemm_layout"),
    Row(title="GEMM, persistent", example="gemm_persistent"),
    Row(
        title="GEMM, split K",
        example="gemm_split_k",
        tilelang=_tilelang(23, "gemm_splitk/example_tilelang_gemm_splitk.py", "1565bf88e5da16f68f48e9fec5229261812a0624", "matmul"),
    ),
    Row(
        title="GEMM, stream K",
        example="gemm_stream_k",
        tilelang=_tilelang(
            97, "gemm_streamk/example_tilelang_gemm_streamk.py", "0798b4bae1a9d82fa224da361bad1401a7a6b37d", "tl_matmul_streamk"
        ),
        note="TileLang's has a second part for whole waves of tiles",
    ),
    Row(title="GEMM, batched", example="gemm_batched"),
    Row(
        title="GEMM, grouped",
        example="gemm_grouped",
        tilelang=_tilelang(56, "grouped_gemm/example_grouped_gemm_fwd.py", "098563617524fcadafe24671e1df6db24d0288f7", "grouped_gemm"),
        triton=_triton(54, "08-grouped-gemm.py", "07538f85c5410fbba3efcd22bbdc11d7180cd4de", "grouped_matmul_kernel"),
        note="Triton's takes a list of matrices, of full tiles",
    ),
    Row(
        title="GEMM, block-scaled fp8",
        example="gemm_fp8",
        functions=("gemm_fp8",),
        tilelang=_tilelang(59, "deepseek_deepgemm/example_deepgemm_fp8_2xAcc.py", "098563617524fcadafe24671e1df6db24d0288f7", "tl_gemm"),
        note="without the quantising kernel",
    ),
    Row(title="GEMM, int4 weights", example="gemm_int4"),
    Row(
        title="softmax",
        example="softmax",
        tilelang=_tilelang(38, "online_softmax/online_softmax.py", "06c86f14c2ac0ea83e7c47ef6799a28a1412575c", "softmax_kernel"),
        triton=_triton(17, "02-fused-softmax.py", "066e1eb8c33a3ec398a3d33119331538991c0bdf", "softmax_kernel"),
        cuda=_cuda(
            62,
            "karpathy/llm.c",
            "dev/cuda/softmax_forward.cu",
            "00010c7188bc688871d0abb1d3277f2199c2b4ce",
            "softmax_forward_kernel4, warpReduceMax, warpReduceSum",
        ),
        note="Triton's holds a row on the chip",
    ),
    Row(
        title="RMS norm",
        example="rms_norm",
        tilelang=_tilelang(21, "norm/rms_norm.py", "0973611528b77f92e95c7489c5841df5882a849c", "rms_norm"),
        cuda=_cuda(
            60,
            "karpathy/llm.c",
            "dev/cuda/rmsnorm_forward.cu",
            "1341ef6ac2dcd5c23e935be3be2117398532c497",
            "rms_val_kernel, rmsnorm_forward_kernel2 and the reductions they call",
        ),
        note="TileLang's has no weight",
    ),
    Row(
        title="layer norm",
        example="layer_norm",
        tilelang=_tilelang(45, "norm/layernorm.py", "4dbc1767d6a6da11147b17dd927d7fa6a3f07ce3", "_layernorm_fwd"),
        triton=_triton(20, "05-layer-norm.py", "0a99ae9ad2f7872191b7acb1f7afb11cdb5382e5", "_layer_norm_fwd_fused"),
        cuda=_cuda(
            36,
            "karpathy/llm.c",
            "dev/cuda/layernorm_forward.cu",
            "023b2d3d3e8acda287c99e12934c82bea0085c02",
            "layernorm_forward_kernel3",
        ),
        note="all but ours also return mean and deviation; CUDA's without the reduction over a warp, which a header has",
    ),
    Row(
        title="attention",
        example="attention",
        tilelang=_tilelang(114, "flash_attention/example_gqa_fwd_bshd.py", "098563617524fcadafe24671e1df6db24d0288f7", "flashattn"),
        triton=_triton(110, "06-fused-attention.py", "003da478d84f5bb0f51b3988cf0ea0bbe60282b7", "_attn_fwd, _attn_fwd_inner"),
        cuda=_cuda(71, "tspeterkim/flash-attention-minimal", "flash.cu", "05b0309c4079e7c732fdf61620c446b62bc05916", "forward_kernel"),
        note="CUDA's is for teaching: one thread a row, neither causal nor of odd sizes",
    ),
    Row(title="attention, variable lengths", example="attention_varlen"),
    Row(
        title="attention, backward",
        example="attention_backward",
        tilelang=_tilelang(
            134,
            "flash_attention/example_mha_bwd_bhsd.py",
            "0973611528b77f92e95c7489c5841df5882a849c",
            "flashattn_bwd, flashattn_bwd_preprocess, flashattn_bwd_postprocess, make_dq_layout",
        ),
        cuda=_cuda(111, "tspeterkim/flash-attention-minimal", "flash.cu", "05b0309c4079e7c732fdf61620c446b62bc05916", "backward_kernel"),
        note="ours adds nothing atomically, so that every run gives the same bits",
    ),
    Row(
        title="flash decoding",
        example="flash_decoding",
        tilelang=_tilelang(134, "flash_decoding/example_gqa_decode.py", "11010b71ed039bd2f4bfb123bf89d03b4fe5c0a1", "flashattn"),
        note="TileLang's also takes a mask",
    ),
    Row(
        title="linear attention",
        example="linear_attention",
        tilelang=_tilelang(
            68,
            "linear_attention/example_linear_attn_fwd.py",
            "098563617524fcadafe24671e1df6db24d0288f7",
            "chunk_linear_attn_fwd_kernel",
        ),
        note="TileLang's also splits the width and returns the state",
    ),
    Row(title="mixture of experts", example="moe"),
    Row(
        title="convolution",
        example="convolution",
        functions=("convolution",),
        tilelang=_tilelang(61, "convolution/example_convolution.py", "068bdc5ca2d6743a300338b0ed0891ff1c5f9bfe", "convolution"),
    ),
    Row(
        title="top k",
        example="top_k",
        tilelang=_tilelang(33, "topk/example_topk.py", "1565bf88e5da16f68f48e9fec5229261812a0624", "tl_topk"),
        note="TileLang's strikes out all equal values at once",
    ),
    Row(
        title="transpose",
        example="transpose",
        cuda=_cuda(
            18,
            "NVIDIA/cuda-samples",
            "Samples/6_Performance/transpose/transpose.cu",
            "11a40d5c1e610aefb8b364b82f65eda70437e4a1",
            "transposeNoBankConflicts",
        ),
        note="CUDA's takes multiples of the tile only",
    ),
    Row(
        title="histogram",
        example="histogram",
        cuda=_cuda(
            58,
            "NVIDIA/cuda-samples",
            "Samples/2_Concepts_and_Techniques/histogram/histogram256.cu",
            "2e41896e1b2c7e2699b7b7f6689c107900c233bb",
            "histogram256Kernel, mergeHistogram256Kernel, addByte, addWord",
        ),
        note="CUDA's is of bytes",
    ),
)

HEADER: Final = """# Lines of kernel code

How long the kernels of [examples/](../examples) are, beside public versions of the same kernels. Written by tools/count_lines.py, which
counts ours; the others were counted by hand by the same rule. A number leads to the file in the version that was counted.

A line counts if something other than a comment or a documentation string stands on it. Counted are the functions that are compiled for
the device, with their decorators (but not lists of configurations to tune over) and with the function that builds them; not counted are
imports, what the host does before and after, tests and measurements. Our lines are up to 140 columns wide, the others' 80 to 140, and
formatters differ in how they break long ones: a few lines more or less mean nothing. All of ours take any sizes; where others do less or
more, the last column says so.

| kernel | Zellige | TileLang | Triton | CUDA | remarks |
|---|---|---|---|---|---|
"""


def counted_lines(source: str, functions: tuple[str, ...] = ()) -> int:
    """The lines of code of the kernels of a Python module: of those at its top level that ``functions`` names, or of all."""
    tree = ast.parse(source)
    chosen = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and (node.name in functions or (not functions and _is_kernel(node)))
    ]
    missing = set(functions) - {node.name for node in chosen}
    if missing or not chosen:
        raise ValueError(f"no kernel {', '.join(sorted(missing)) or 'at all'}")
    lines = {number for node in chosen for number in range(min(d.lineno for d in node.decorator_list), (node.end_lineno or 0) + 1)}
    return len(lines & set(_lines_of_code(source, tree)))


def _is_kernel(node: ast.FunctionDef) -> bool:
    return any(ast.unparse(decorator).partition("(")[0] in _MARKS for decorator in node.decorator_list)


def _lines_of_code(source: str, tree: ast.Module) -> Iterator[int]:
    texts = {
        line
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _SKIPPED:
            yield from (line for line in range(token.start[0], token.end[0] + 1) if line not in texts)


def page() -> str:
    """The text of docs/comparison.md."""
    lines = [HEADER]
    sources = []
    for row in ROWS:
        ours = counted_lines((ROOT / "examples" / f"{row.example}.py").read_text(encoding="utf-8"), row.functions)
        others = (row.tilelang, row.triton, row.cuda)
        cells = [f"[{ours}](../examples/{row.example}.py)", *("" if public is None else public.link for public in others)]
        lines.append(f"| {row.title} | {' | '.join(cells)} | {row.note} |\n")
        sources += [
            f"- {row.title}: {public.repository}, {public.path}, {public.commit[:12]}: {public.functions}\n"
            for public in others
            if public is not None
        ]
    return "".join([*lines, "\n## What was counted\n", *sources])


def main() -> int:
    if "--check" in sys.argv[1:]:
        is_current = PAGE.read_text(encoding="utf-8") == page()
        if not is_current:
            print(f"{PAGE.relative_to(ROOT)} is not current: run python tools/count_lines.py")
        return 0 if is_current else 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
