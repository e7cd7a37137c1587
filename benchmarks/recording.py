"""Where a benchmark's figures come from and where they are put down.

In: a title, a text in Markdown, figures. Out: ``benchmarks/results/NAME.md`` to read and ``NAME.json`` to compare with, both with the
environment in which they were measured.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The machine and the software of a measurement. ``cores`` are those that this process may run on."""

    processor: str
    cores: int
    system: str
    python: str
    numpy: str
    llvmlite: str

    def line(self) -> str:
        """One line for the head of a page."""
        return f"{self.processor}, {self.cores} cores, Python {self.python}, NumPy {self.numpy}, llvmlite {self.llvmlite}"


def environment() -> Environment:
    """This machine and this process."""
    from zellige_cpu.host import running_host

    return Environment(
        processor=f"{running_host().cpu} ({platform.machine()})",
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        system=platform.system(),
        python=platform.python_version(),
        numpy=importlib.metadata.version("numpy"),
        llvmlite=importlib.metadata.version("llvmlite"),
    )


def as_installed(folder: str) -> dict[str, str]:
    """The environment of processes that keep Python's byte code where that of an installed package lies, beside the source; in ``folder``
    where nobody may write there."""
    import zellige

    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")}
    is_writable = os.access(Path(zellige.__file__).parent, os.W_OK)
    return kept if is_writable else {**kept, "PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}


def page(title: str, body: Sequence[str]) -> str:
    """A page of results: title, environment, body."""
    return "\n".join([f"# {title}", "", environment().line(), "", *body]) + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table whose first column is text and whose other columns are numbers."""
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def figures(name: str) -> Any:
    """The figures put down earlier under ``name``, in the same environment; an empty dictionary where there are none."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return {}
    content = json.loads(path.read_text(encoding="utf-8"))
    return content["figures"] if content["environment"] == asdict(environment()) else {}


def write(name: str, text: str, measured: Any) -> None:
    """Put down a page and its figures, in place of what was there."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.md").write_text(text, encoding="utf-8")
    content = {"environment": asdict(environment()), "figures": measured}
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
