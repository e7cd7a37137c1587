"""``zellige doctor``: what is installed, which backends work, and the settings in force, to read or to paste into a report."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from zellige.options import Options
    from zellige.plugin.contract import BackendReport

REQUIRED: Final = ("numpy", "llvmlite", "ml-dtypes", "pluggy", "click", "rich")


@click.command()
def doctor() -> None:
    """Show versions, backends, settings and the cache directory. Exit code 1 when something needed is missing or broken."""
    from zellige.cli.backends import backend_table, tool_table
    from zellige.cli.console import wide_console
    from zellige.diagnostics import ZelligeError
    from zellige.options import options, variable
    from zellige.plugin.registry import registry

    console = wide_console()
    problems = [f"{name} is missing: install zellige again" for name in REQUIRED if installed(name) is None]
    reports = registry().reports(with_tools=True)
    console.print(version_table(reports))
    console.print(backend_table(reports))
    if any(report.tools for report in reports):
        console.print(tool_table(reports))
    problems += [  # a vendor's tools are missed only where its device is
        f"backend {report.name}: {tool.name}: {tool.problem}"
        for report in reports
        for tool in report.tools
        if tool.problem and report.devices and not tool.is_optional
    ]
    for report in reports:
        if report.traceback and report.unavailable is not None:
            problems.append(f"backend {report.name}: {report.unavailable.reason}")
    if not any(report.devices and report.manifest and report.manifest.kind != "reference" for report in reports):
        problems.append("no backend works on this machine")

    current = options()
    console.print(settings_table(current))
    try:
        registry().backend(registry().resolve(current.target))
    except ZelligeError as error:
        problems.append(f"{variable('target')}={current.target}: {error}")
    parent = next(path for path in (current.cache_dir, *current.cache_dir.parents) if path.exists())
    if not os.access(parent, os.W_OK):
        problems.append(f"the cache directory {current.cache_dir} cannot be written")

    for problem in problems:
        console.print(f"problem: {problem}", style="red", highlight=False, soft_wrap=True)
    if problems:
        sys.exit(1)
    console.print("no problem found", style="green")


def version_table(reports: Sequence[BackendReport]) -> Table:
    """A row for each package that is needed, or that a backend could use: its version and what for."""
    from rich.table import Table

    from zellige.plugin.installing import install_command
    from zellige.version import __version__

    purposes = {name: ["zellige"] for name in REQUIRED} | {"torch": ["torch tensors as arguments"]}
    extras = {"torch": "torch"}
    for report in reports:
        for requirement in report.manifest.requirements if report.manifest else ():
            purposes.setdefault(requirement, []).append(f"backend {report.name}")
            extras.setdefault(requirement, report.name)
    table = Table("package", "version", "needed for")
    table.add_row("zellige", __version__, "")
    table.add_row("python", sys.version.split()[0], f"{platform.system()} on {platform.machine()}, {usable_cores()} cores")
    for name, users in purposes.items():
        lacking = "missing" if name in REQUIRED else f"not installed: {install_command(name, extras.get(name, ''))}"
        table.add_row(name, installed(name) or lacking, ", ".join(users))
    return table


def settings_table(current: Options) -> Table:
    """A row for each setting: its value and the variable that sets it."""
    from rich.table import Table

    from zellige.options import variable

    table = Table("setting", "value", "variable")
    for field in fields(current):
        value = getattr(current, field.name)
        table.add_row(field.name, ", ".join(sorted(value)) if isinstance(value, frozenset) else str(value), variable(field.name))
    return table


def installed(distribution: str) -> str | None:
    """The version of an installed distribution, or None."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def usable_cores() -> int:
    """The cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
