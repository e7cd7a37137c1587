"""``zellige doctor``: what is installed, which backends work, and the settings in force, to read or to paste into a report."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from dataclasses import fields
from typing import Final

import click

REQUIRED: Final = ("numpy", "llvmlite", "ml-dtypes", "pluggy", "click", "rich")


@click.command()
def doctor() -> None:
    """Show versions, backends, settings and the cache directory. Exit code 1 when something needed is missing or broken."""
    from rich.table import Table

    from zellige.cli.backends import backend_table, tool_table
    from zellige.cli.console import wide_console
    from zellige.diagnostics import ZelligeError
    from zellige.options import Options, options, variable
    from zellige.plugin.registry import registry
    from zellige.version import __version__

    console = wide_console()
    problems: list[str] = []

    versions = Table("package", "version", "needed for")
    versions.add_row("zellige", __version__, "")
    versions.add_row("python", sys.version.split()[0], f"{platform.system()} on {platform.machine()}, {usable_cores()} cores")
    for name in REQUIRED:
        found = installed(name)
        versions.add_row(name, found or "missing", "zellige")
        if found is None:
            problems.append(f"{name} is missing: install zellige again")
    reports = registry().reports(with_tools=True)
    optional = {"torch": "torch tensors as arguments"}
    for report in reports:
        for requirement in report.manifest.requirements if report.manifest else ():
            optional.setdefault(requirement, f"backend {report.name}")
    for name, purpose in optional.items():
        versions.add_row(name, installed(name) or "not installed", purpose)
    console.print(versions)

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
    settings = Table("setting", "value", "variable")
    for field in fields(Options):
        value = getattr(current, field.name)
        settings.add_row(field.name, ", ".join(sorted(value)) if isinstance(value, frozenset) else str(value), variable(field.name))
    console.print(settings)
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


def installed(distribution: str) -> str | None:
    """The version of an installed distribution, or None."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def usable_cores() -> int:
    """The cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
