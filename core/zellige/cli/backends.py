"""``zellige backends list | doctor | describe``: which backends there are, what is wrong with those that do not work, what a target can do.

In: the installed backends. Out: tables on standard output, or JSON.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from zellige.claims import Finding
    from zellige.plugin.contract import BackendReport, Capabilities

_DOCTOR_SECONDS: Final = 30.0
_TIMES_FOR_CLAIMS: Final = 10
"""How many times as long all claims of a backend may take: each compiles a program."""


@click.group()
def backends() -> None:
    """Show the backends of this installation."""


@backends.command("list")
@click.option("--verbose", "-v", is_flag=True, help="Show where each backend comes from and the tracebacks of broken ones.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def list_backends(verbose: bool, as_json: bool) -> None:
    """List every backend: its targets, kind, state and devices."""
    from zellige.cli.console import told_apart, wide_console
    from zellige.plugin.registry import registry

    with told_apart():
        reports = registry().reports()
    if as_json:
        click.echo(json.dumps([_report_json(report) for report in reports], indent=1))
        return
    console = wide_console()
    console.print(backend_table(reports, verbose=verbose))
    if verbose:
        _print_tracebacks(console, reports)


@backends.command("doctor")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--seconds", default=_DOCTOR_SECONDS, show_default=True, help="How long each may take to load and to look for its devices.")
@click.option("--probe", is_flag=True, help="Try on the device what each backend says that it can do.")
@click.option("--target", "arch", metavar="ARCH", default="", help="With --probe: the architecture to try, as in describe.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def doctor(names: tuple[str, ...], seconds: float, probe: bool, arch: str, as_json: bool) -> None:
    """Load every backend, or those NAMEd, in a process of its own, and say what is wrong. Exit code 1 when one is broken.

    A backend that hangs or ends its process is reported like any other. One whose device is not here is not broken. With --probe each claim
    of its capabilities that a probe knows is tried with small programs; a claim that does not hold makes the backend broken.
    """
    from zellige.cli.console import told_apart, wide_console
    from zellige.plugin.registry import registry

    with told_apart():
        found = registry()
        reports = found.isolated_reports(seconds, frozenset(names))
    missing = [name for name in names if name not in {part for report in reports for part in (report.name, report.origin)}]
    if missing:
        found.named(missing[0])  # raises the error that names the known ones
    with told_apart():
        claims = {report.name: _tried_claims(report, arch, seconds) for report in reports if not is_broken(report)} if probe else {}
    broken = [report for report in reports if is_broken(report)]
    if as_json:
        findings = {name: [dataclasses.asdict(one) for one in tried] for name, (_, tried) in claims.items()}
        click.echo(json.dumps([_report_json(r) | ({"claims": findings[r.name]} if r.name in findings else {}) for r in reports], indent=1))
    else:
        console = wide_console()
        console.print(health_table(reports))
        if any(report.tools for report in reports):
            console.print(tool_table(reports))
        _print_tracebacks(console, reports)
        for name, (why, tried) in claims.items():
            _print_claims(console, name, why, tried)
    if broken or any(one.verdict == "does not hold" for _, tried in claims.values() for one in tried):
        raise SystemExit(1)


@backends.command("describe")
@click.argument("name")
@click.option("--target", "arch", metavar="ARCH", default="", help="An architecture of the backend, which need not be in this machine.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON, of the schema in docs/capabilities.schema.json.")
def describe(name: str, arch: str, as_json: bool) -> None:
    """Say what the targets of the backend NAME can do, after checking that what it says is consistent."""
    from zellige.cli.console import told_apart, wide_console
    from zellige.plugin.registry import registry
    from zellige.plugin.schema import to_json

    with told_apart():
        handle = registry().named(name)
        target = registry().resolve(f"{handle.manifest.targets[0]}:{arch}" if arch else handle.manifest.targets[0])
        capabilities = handle.checked_capabilities(target, handle.describe(target))
    if as_json:
        click.echo(json.dumps(to_json(capabilities), indent=1))
        return
    console = wide_console(120)
    for table in capability_tables(capabilities):
        console.print(table)


def is_broken(report: BackendReport) -> bool:
    """Whether a backend is at fault, rather than without a device or not built."""
    codes = ("quarantined", "probe-failed", "probe-timeout", "probe-crashed", "load-crashed", "load-timeout", "contract")
    return report.unavailable is not None and report.unavailable.code in codes


def _tried_claims(report: BackendReport, arch: str, seconds: float) -> tuple[str, list[Finding]]:
    """Why the claims of a backend are not tried here (empty where they are), and what was found."""
    from zellige.claims import examined_apart, unavailable
    from zellige.plugin.registry import registry

    handle = registry().named(report.name)
    first = handle.manifest.targets[0]
    target = registry().resolve(f"{first}:{arch}" if arch else first)
    why = unavailable(handle, target)
    return why, [] if why else examined_apart(report.name, str(target), _TIMES_FOR_CLAIMS * seconds)


def _print_claims(console: Console, name: str, why: str, found: list[Finding]) -> None:
    """How many claims hold, and a row for each of the others."""
    from rich.table import Table
    from rich.text import Text

    if why:
        console.print(f"\n{name}: no claim was tried: {why}", markup=False, highlight=False)
        return
    holding = sum(one.verdict == "holds" for one in found)
    console.print(f"\n{name}: {holding} of {len(found)} claims hold", markup=False, highlight=False)
    others = [one for one in found if one.verdict != "holds"]
    if others:
        table = Table("field", "claim", "verdict", "what happened")
        for one in others:
            table.add_row(*(Text(text) for text in (one.field, one.text, one.verdict, one.reason)))
        console.print(table)


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


def health_table(reports: tuple[BackendReport, ...]) -> Table:
    """One row a backend: whether it is well, and what is wrong where it is not."""
    from rich.table import Table
    from rich.text import Text

    table = Table("backend", "from", "health", "state")
    for report in reports:
        health = "broken" if is_broken(report) else "well" if report.devices else "not available"
        table.add_row(report.name, Text(report.entry_point), health, Text(state(report)))
    return table


def tool_table(reports: tuple[BackendReport, ...]) -> Table:
    """One row a tool of each backend's vendor: its version and place, or what is wrong."""
    from rich.table import Table
    from rich.text import Text

    table = Table("backend", "tool", "purpose", "version")
    table.add_column("where, or what is wrong", overflow="fold")
    for report in reports:
        for tool in report.tools:
            found = f"{tool.problem} ({tool.place})" if tool.problem and tool.place else tool.problem or tool.place
            table.add_row(report.name, Text(tool.name), Text(tool.purpose), Text(tool.version), Text(found))
    return table


def state(report: BackendReport) -> str:
    """The state in words: the devices that work, or why none does."""
    if report.unavailable is not None:
        return f"{report.unavailable.code}: {report.unavailable.reason}"
    if not report.devices:
        return "no device"
    return ", ".join(device.name for device in report.devices)


def capability_tables(capabilities: Capabilities) -> list[Table]:
    """A table of the single values, and one of each list of parts."""
    from rich.table import Table
    from rich.text import Text

    head = Table(capabilities.target, "", "checked by")
    tables = [head]
    for field in dataclasses.fields(capabilities):
        value = getattr(capabilities, field.name)
        if isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
            names = [f.name for f in dataclasses.fields(value[0]) if any(getattr(part, f.name) != f.default for part in value)]
            table = Table(*names, title=field.name)
            for part in value:
                table.add_row(*(Text(_text(getattr(part, name))) for name in names))
            tables.append(table)
        elif field.name != "target" and value != field.default:
            head.add_row(field.name, Text(_text(value)), field.metadata["checked by"])
    return tables


def _text(value: Any) -> str:
    if dataclasses.is_dataclass(value):
        return ", ".join(f"{f.name} {_text(getattr(value, f.name))}" for f in dataclasses.fields(value) if getattr(value, f.name))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) if isinstance(value, tuple) else "" if value is None else str(value)


def _print_tracebacks(console: Console, reports: tuple[BackendReport, ...]) -> None:
    for report in reports:
        if report.traceback:
            console.print(f"\n{report.name} failed:", style="bold")
            console.print(report.traceback.rstrip(), markup=False, highlight=False, soft_wrap=True)


def _report_json(report: BackendReport) -> dict[str, Any]:
    manifest = report.manifest  # None of a backend that was asked in a process of its own, or that is broken
    known = {} if manifest is None else {"targets": list(manifest.targets), "kind": manifest.kind}
    return {
        "name": report.name,
        "entry_point": report.entry_point,
        **known,
        "is_broken": is_broken(report),
        "devices": [dataclasses.asdict(device) for device in report.devices],
        "unavailable": None if report.unavailable is None else dataclasses.asdict(report.unavailable),
        "traceback": report.traceback,
        "tools": [dataclasses.asdict(tool) for tool in report.tools],
    }
