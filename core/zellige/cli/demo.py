"""``zellige demo``: three kernels compiled, checked against NumPy and timed, as a table."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from zellige.demo.run import Outcome

HEADINGS: Final = ("kernel", "size", "compile", "time", "rate", "NumPy", "largest error", "result")


@click.command()
@click.option("--target", default="auto", show_default=True, help="The target to run on, such as cpu or interp.")
@click.option("--quick", is_flag=True, help="Small sizes: checks only, the times mean little.")
def demo(target: str, quick: bool) -> None:
    """Run vector addition, a pipelined GEMM and causal attention, each checked against NumPy and timed.

    Targets that are simulated or interpreted get sizes that take seconds there, and the table says so. Exit code 1 when a result is further
    from NumPy's than its derived bound.
    """
    from rich.table import Table
    from rich.text import Text

    from zellige.cli.console import plain_console, wide_console
    from zellige.demo.cases import cases
    from zellige.demo.run import run, takes_long
    from zellige.plugin.registry import registry

    resolved = registry().resolve(target)
    handle = registry().backend(resolved)
    slow = "simulated" if resolved.is_simulated else "interpreted" if handle.manifest.kind == "reference" else ""
    if not slow and not handle.origin.is_own and takes_long(str(resolved)):  # zellige's own say so by their kind
        slow = "slow, as a device is that a program plays"
    outcomes: list[Outcome] = []
    table = Table()
    for heading in HEADINGS:
        table.add_column(heading, no_wrap=True)
    for case in cases(quick=quick, simulated=bool(slow)):
        with plain_console(is_error=True).status(Text(f"{case.name}, {case.size}")):
            seconds = 0.0 if slow else 0.05 if quick else 0.5
            outcomes.extend(run((case,), str(resolved), seconds=seconds, least=0 if slow else 3))
        table.add_row(*row(outcomes[-1]))
    table.title = f"target {outcomes[0].target}"
    if slow:
        table.caption = f"The target is {slow}: the sizes are small, and the times say nothing about a device."
    console = wide_console(122)
    console.print(table)
    if not all(outcome.is_right for outcome in outcomes):
        console.print("a result is further from NumPy's than the arithmetic allows", style="red")
        sys.exit(1)
    console.print("all results are within their bounds", style="green")


def row(outcome: Outcome) -> tuple[str, ...]:
    """The cells of one case."""
    case = outcome.case
    return (
        case.name,
        case.size,
        duration(outcome.compile_seconds),
        duration(outcome.seconds),
        f"{case.work / outcome.seconds / 1e9:.1f} G{case.unit}/s",
        duration(outcome.numpy_seconds),
        "exact" if outcome.error == 0 else f"{outcome.error:.1e}, {outcome.used:.0%} of bound",
        "right" if outcome.is_right else "WRONG",
    )


def duration(seconds: float) -> str:
    """A duration with three digits and its unit."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= factor or unit == "us":
            return f"{seconds / factor:.3g} {unit}"
    raise AssertionError(seconds)
