"""``zellige backends list``: every backend that was found, its targets, and whether it works here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.table import Table

    from zellige.plugin.contract import BackendReport


@click.group()
def backends() -> None:
    """Show the backends of this installation."""


@backends.command("list")
@click.option("--verbose", "-v", is_flag=True, help="Show where each backend comes from and the tracebacks of broken ones.")
def list_backends(verbose: bool) -> None:
    """List every backend: its targets, kind, state and devices."""
    from zellige.cli.console import wide_console
    from zellige.plugin.registry import registry

    reports = registry().reports()
    console = wide_console()
    console.print(backend_table(reports, verbose=verbose))
    if verbose:
        for report in reports:
            if report.traceback:
                console.print(f"\n{report.name} could not be loaded:", style="bold")
                console.print(report.traceback.rstrip(), markup=False, highlight=False, soft_wrap=True)


def backend_table(reports: tuple[BackendReport, ...], *, verbose: bool = False) -> Table:
    """One row a backend."""
    from rich.table import Table

    table = Table("backend", "targets", "kind", "state", *(["from"] if verbose else []), title=None)
    for report in reports:
        manifest = report.manifest
        names = [*manifest.targets, *(alias for alias, _ in manifest.aliases)] if manifest else [report.name]
        row = [report.name, ", ".join(names), manifest.kind if manifest else "unknown", state(report)]
        table.add_row(*row, *([report.entry_point] if verbose else []))
    return table


def state(report: BackendReport) -> str:
    """The state in words: the devices that work, or why none does."""
    if report.unavailable is not None:
        return f"{report.unavailable.code}: {report.unavailable.reason}"
    if not report.devices:
        return "no device"
    return ", ".join(device.name for device in report.devices)
