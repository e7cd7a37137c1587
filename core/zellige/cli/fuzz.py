"""``zellige fuzz``: look for programs on which a target and the interpreter disagree.

In: how many programs, from which seed on, for which targets. Out: each failure's first line, and a file with the program, made small, and
its arguments. Exit code 1 when there is a failure.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from zellige.generate.kernels import Flavour


@click.command("fuzz")
@click.option("--count", type=click.IntRange(min=1), default=100, show_default=True, help="How many programs.")
@click.option("--seed", default=0, show_default=True, help="The seed of the first; the others follow.")
@click.option("--target", "targets", multiple=True, default=("cpu",), show_default=True, help="Compare this target; may be repeated.")
@click.option(
    "--kind", type=click.Choice(["any", "blocks", "lanes", "lane-tiles", "lane-values", "indexes", "boxes"]), default="any",
    show_default=True,
    help="Kernels with lanes (lane-tiles: with tiles of their own; lane-values: of what they share and what not), without (indexes: of "
    "index arithmetic; boxes: of regions that need not lie in their buffers), or both.",
)  # fmt: skip
@click.option(
    "--out", default="fuzz-failures", show_default=True, type=click.Path(file_okay=False, path_type=Path), help="The folder for failures."
)
@click.option("--shrink/--no-shrink", default=True, show_default=True, help="Make failing programs small.")
@click.option("--replay", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Compare the program of this .tile file only.")
def fuzz(count: int, seed: int, targets: tuple[str, ...], kind: Flavour, out: Path, shrink: bool, replay: Path | None) -> None:
    """Compare generated programs on targets with the interpreter.

    A failure is written to FOLDER/fuzz-SEED.tile, with its arguments beside it, and can be run again by --replay.
    """
    from zellige.generate.campaign import first_problem, run_campaign
    from zellige.generate.program import Program
    from zellige.plugin.registry import registry

    for target in targets:
        registry().resolve(target)  # a name that no backend has is no failure of a program
    if replay is not None:
        problem = first_problem(Program.load(replay), targets)
        click.echo(f"{replay}: {problem or 'everything agrees'}")
        sys.exit(0 if problem is None else 1)
    failures = 0
    for failure in run_campaign(seed, count, targets, flavour=kind, shrinks=shrink, folder=out):
        failures += 1
        click.echo(failure.title)
        click.echo(f"  {out / f'fuzz-{failure.seed}.tile'}")
    click.echo(f"{count} programs, {failures} failures")
    sys.exit(1 if failures else 0)
