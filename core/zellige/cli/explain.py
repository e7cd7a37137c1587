"""``zellige explain FILE[:KERNEL]``: what is decided for a kernel on a target, why, and what was rejected.

In: a Python file with kernels at its top level, or a file of tile IR text. Out: decisions, roles, channels and memory of each, as tables.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zellige.cli.kernels import config_option, select, setting_option, settings_of
from zellige.cli.writing import writing

if TYPE_CHECKING:
    from rich.console import Console

    from zellige.explain import Explanation
    from zellige.plan.nodes import PlannedKernel, PlannedLaunch


@click.command()
@click.argument("source", metavar="FILE[:KERNEL]")
@click.option("--target", "targets", default=("auto",), show_default=True, multiple=True, help="A target such as cpu. May be repeated.")
@click.option("--brief", is_flag=True, help="Leave out the candidates that were rejected.")
@click.option("--program", is_flag=True, help="Print the planned program of each role too.")
@click.option("--layout", "is_layout", is_flag=True, help="Print which lane and register hold which element, and maps of banks.")
@click.option("--svg", "folder", type=click.Path(file_okay=False, path_type=Path), help="Draw the same, whole tiles, into this folder.")
@setting_option
@config_option
@click.option("--json", "is_json", is_flag=True, help="Print a list of plans as JSON, for programs.")
def explain(
    source: str,
    targets: tuple[str, ...],
    brief: bool,
    program: bool,
    is_layout: bool,
    folder: Path | None,
    settings: tuple[str, ...],
    config: int | None,
    is_json: bool,
) -> None:
    """Print what the compiler decides for the kernels of FILE, or only KERNEL, and why: first for a block as a whole, then line by line.

    Besides targets, test:scalar_vector_cpu, test:lanes_async, test:lanes_copies, test:queues_cube and test:local_only name machines to
    compare with.
    """
    from zellige.cli.console import told_apart, wide_console
    from zellige.explain import explain as explain_kernel

    with told_apart():
        kernels = select(source, settings_of(settings), config)
        explanations = [explain_kernel(kernel, target) for kernel in kernels.values() for target in targets]
    if is_json:
        click.echo(json.dumps([one.as_dictionary() for one in explanations], indent=2))
        return
    console = wide_console(120)
    for one in explanations:
        if is_layout or folder is not None:
            _layouts(one, is_printed=is_layout, folder=folder)
            continue
        show(console, one.planned, brief=brief)
        if program:
            click.echo(one.program())


def _layouts(one: Explanation, *, is_printed: bool, folder: Path | None) -> None:
    """Print or draw where the tiles of one plan live."""
    head = f"{one.planned.kernel.name} for {one.planned.target}"
    click.echo(f"{head}\n")
    pictures = one.layouts()
    if not pictures:
        click.echo("no tiles\n")
    for number, picture in enumerate(pictures):
        if is_printed:
            click.echo(f"{picture}\n")
        if folder is None:
            continue
        for what, text in picture.svg().items():
            path = folder / f"{re.sub('[^A-Za-z0-9_]+', '-', head)}-{number}-{picture.name}-{what}.svg"
            with writing(path):
                folder.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            click.echo(f"drawn: {path}")


def show(console: Console, planned: PlannedKernel, *, brief: bool) -> None:
    """Print one plan."""
    console.print(f"{planned.kernel.name} for {planned.target}", style="bold", highlight=False)
    for number, launch in enumerate(planned.launches):
        if len(planned.launches) > 1:
            console.print(f"launch {number + 1} of {len(planned.launches)}", style="bold", highlight=False)
        _decisions(console, launch, brief=brief)
        _programs(console, launch)
    console.print()


def _decisions(console: Console, launch: PlannedLaunch, *, brief: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    from zellige.plan.report import sections, title_of

    for section in sections(launch):
        title = Text(title_of(section), style="bold cyan")
        table = Table("question", "decided", "why", show_header=False, show_lines=True, expand=True, title=title, title_justify="left")
        for column, ratio in zip(table.columns, (3, 3, 5)):
            column.ratio = ratio
        for decision in section.decisions:
            reasons = Text(decision.because)
            if not brief:
                for candidate, reason in decision.rejected:
                    reasons.append(f"\nnot {candidate}: {reason}", style="dim")
            table.add_row(Text(decision.question), Text(decision.chosen, style="green"), reasons)
        console.print(table)


def _programs(console: Console, launch: PlannedLaunch) -> None:
    from rich.table import Table

    from zellige.plan.report import channel_text, legend, memory_lines, role_text

    table = Table(show_header=False, box=None)
    for heading, lines in (
        ("roles", [role_text(role) for role in launch.roles]),
        ("channels", [channel_text(channel) for channel in launch.channels]),
        ("memory of a block", list(memory_lines(launch))),
        ("words", list(legend(launch))),
    ):
        for position, line in enumerate(lines):
            table.add_row(heading if position == 0 else "", line)
    console.print(table, highlight=False)
