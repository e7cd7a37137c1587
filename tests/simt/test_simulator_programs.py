"""Generated programs and the examples on the simulator."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from zellige.generate import generate_seeded
from zellige.generate.campaign import first_problem, load
from zellige.generate.kernels import Flavour
from zellige.options import options

sys.path.insert(0, str(Path(__file__).parent))
from simulated import TARGET  # noqa: E402

SHAPES = {
    "attention": "1x2x1x17x31x40", "attention_varlen": "2x41x2x40", "convolution": "1x7x6x5x17x3x2x1", "flash_decoding": "1x3x1x61x40x3",
    "gemm": "31x67x45", "gemm_batched": "2x20x35x37", "gemm_eager": "31x67x45", "gemm_grouped": "3x50x37x45", "gemm_int4": "17x69x33",
    "gemm_layout": "31x67x45", "gemm_persistent": "130x67x45", "gemm_split_k": "33x65x117", "gemm_stream_k": "131x67x33",
    "layer_norm": "5x129", "linear_attention": "1x1x31x40", "moe": "1x4x4x32x32", "rms_norm": "5x129", "softmax": "5x129",
    "top_k": "5x129x5", "transpose": "67x29", "vector_add": "107",
}  # fmt: skip
"""Sizes small enough for a program that runs lane by lane, of half-precision inputs."""


def problems(seeds: range, flavour: Flavour = "any") -> list[str]:
    load([TARGET])
    found = []
    for seed in seeds:
        problem = first_problem(generate_seeded(seed, flavour=flavour), [TARGET], is_thorough=False)
        if problem is not None:
            found.append(f"seed {seed}: {problem}")
    return found


@pytest.mark.parametrize("first", range(0, 24, 4))
def test_generated_programs_agree_with_the_interpreter(first: int) -> None:
    assert not problems(range(first, first + 4))


@pytest.mark.parametrize("first", [0, 4])
def test_lanes_do_tile_operations_themselves(first: int) -> None:
    assert not problems(range(first, first + 4), "lane-tiles")


@pytest.mark.parametrize("first", [0, 4])
def test_lanes_share_what_they_share(first: int) -> None:
    assert not problems(range(first, first + 4), "lane-values")


@pytest.mark.slow
@pytest.mark.parametrize("first", range(8, 248, 20))
def test_more_of_what_lanes_share(first: int) -> None:
    assert not problems(range(first, first + 20), "lane-values")


@pytest.mark.slow
@pytest.mark.parametrize("first", range(8, 248, 20))
def test_more_tile_operations_of_lanes(first: int) -> None:
    assert not problems(range(first, first + 20), "lane-tiles")


@pytest.mark.slow
@pytest.mark.parametrize("first", range(24, 424, 20))
def test_more_generated_programs(first: int) -> None:
    assert not problems(range(first, first + 20))


@pytest.mark.parametrize("name", SHAPES)
def test_examples_run_within_their_bounds(name: str, load_example: Callable[..., ModuleType]) -> None:
    arguments = ["--target", TARGET, "--dtype", "float16", "--milliseconds", "0", "--shape", SHAPES[name]]
    done = CliRunner().invoke(load_example(name, "_simulated").main, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert options().target == TARGET
    assert done.stdout.count(" ok") == len(done.stdout.splitlines()), done.output
