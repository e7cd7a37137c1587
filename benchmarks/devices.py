"""What programs that measure a CUDA device share: the time of a call, rows of attention, where figures are put down.

In: calls, sizes, figures. Out: milliseconds, :class:`Attention`, and ``benchmarks/results/NAME.md`` and ``.json`` with the environment.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from recording import RESULTS

import zellige as zl

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

LAUNCHES = 10


@dataclass(frozen=True, slots=True)
class Attention:
    """A row of ``examples/attention.py`` with as many heads of keys as of queries; ``rows`` and ``columns`` are those of a block."""

    batch: int
    heads: int
    length: int
    width: int
    is_causal: bool
    dtype: str
    rows: int
    columns: int

    @property
    def name(self) -> str:
        causal = ", causal" if self.is_causal else ""
        size = f"{self.batch} x {self.heads} x {self.length} x {self.width}"
        return f"{self.dtype} {size}{causal}, blocks of {self.rows} x {self.columns}"

    @property
    def flop(self) -> float:
        """Of one call; half of the products where it is causal."""
        return 4.0 * self.batch * self.heads * self.length * self.length * self.width * (0.5 if self.is_causal else 1.0)

    @property
    def program(self) -> Any:
        from attention import attention

        return attention.get_tir(self.heads, self.heads, self.width, self.is_causal, self.dtype, block_M=self.rows, block_N=self.columns)

    def inputs(self) -> tuple[torch.Tensor, ...]:
        """Queries, keys and values: normal numbers."""
        shape = self.batch, self.heads, self.length, self.width
        return tuple(torch.randn(*shape, device="cuda", dtype=getattr(torch, self.dtype)) for _ in range(3))

    def outputs(self, queries: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Memory for the result and for the logarithms of the rows' sums."""
        return torch.empty_like(queries), torch.empty(self.batch, self.heads, self.length, device="cuda")

    def difference(self, result: torch.Tensor, wanted: torch.Tensor) -> float | None:
        """How far a result is from the one that is ``wanted``; None where that is a rounding of the type."""
        error = float(((result.float() - wanted.float()).abs() / (1 + wanted.float().abs())).max().item())
        return error if error > (2e-3 if self.dtype == "float16" else 1e-2) else None


def milliseconds(call: Callable[[], Any]) -> float:
    """The mean of several launches between two events of the device."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(LAUNCHES):
        call()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / LAUNCHES


def environment() -> dict[str, str]:
    """The device and the software of a measurement."""
    return {
        "device": torch.cuda.get_device_name(), "torch": torch.__version__, "python": platform.python_version(), "zellige": zl.__version__,
    }  # fmt: skip


def put_down(name: str, title: str, lines: Sequence[str], figures: Any, measured_with: dict[str, str]) -> None:
    """A page of ``lines`` and its figures, in place of what was there."""
    text = [f"# {title}", "", ", ".join(f"{k} {v}" for k, v in measured_with.items()), "", *lines]
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text("\n".join(text) + "\n", encoding="utf-8")
    content = {"environment": measured_with, "figures": figures}
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
