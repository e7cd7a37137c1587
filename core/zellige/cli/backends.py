"""``zellige backends list | doctor | describe``: which backends there are, what is wrong with those that do not work, what a target can do.

In: the installed backends. Out: tables on standard output, or JSON.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console
    from rich.table import Table

    from zellige.claims import Finding
    from zellige.plugin.contract import BackendReport, Capabilities

_DOCTOR_SECONDS: Final = 30.0
_MOST_SECONDS: Final = 86_400
_TIMES_FOR_CLAIMS: Final = 10
"""How many times as long all claims of a backend may take: each compiles a program."""


@click.group()
def backends() -> None:
    """Show the backends of this installation."""


@backends.command("list")
@click.option("--verbose", "-v", is_flag=True, help="Show where each backend comes from and the tracebacks of broken ones.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def list_backends(verbose: bool, as_json: bool) -> None:
    """List every backend: its targets, kind, state and devices.

    Those of other packages are first loaded, and look for their devices, in processes of their own: one that ends its process or hangs is
    listed like any other.
    """
    from zellige.cli.console import told_apart, wide_console
    from zellige.options import probes_isolated
    from zellige.plugin.registry import registry

    with told_apart(), probes_isolated():
        reports = registry().reports()
    if as_json:
        click.echo(json.dumps([_report_json(report) for report in reports], indent=1))
        return
    console = wide_console()
    console.print(backend_table(reports, verbose=verbose))
    if verbose:
        _print_tracebacks(console, reports)


def _seconds(context: click.Context, parameter: click.Parameter, value: float) -> float:
    """A time that somebody can wait; NaN is none."""
    if not 0 < value <= _MOST_SECONDS:
        raise click.BadParameter(f"{value} is not in the range 0<x<={_MOST_SECONDS}.")
    return value


@backends.command("doctor")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--seconds", default=_DOCTOR_SECONDS, show_default=True, callback=_seconds, help="How long each may take to load and look for devices."
)
@click.option("--probe", is_flag=True, help="Try on the device what each backend says that it can do.")
@click.option("--target", "arch", metavar="ARCH", default="", help="The architecture that hooks are asked for and claims tried on.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def doctor(names: tuple[str, ...], seconds: float, probe: bool, arch: str, as_json: bool) -> None:
    """Load every backend, or those NAMEd, in a process of its own, and say what is wrong. Exit code 1 when one is broken.

    A backend that hangs or ends its process is reported like any other. One whose device is not here is not broken. What it is asked, and
    what is left, stands below the table: its hooks up to the text of one small kernel. With --probe each claim of its capabilities that a
    probe knows is tried with small programs; a claim that does not hold makes the backend broken.
    """
    from zellige.cli.console import told_apart, wide_console
    from zellige.plugin.registry import registry

    with told_apart():
        reports = registry().isolated_reports(seconds, frozenset(names))
        checkups = [_checkup(report, arch, seconds, probe=probe) for report in reports]
    if as_json:
        click.echo(json.dumps([_checkup_json(one) for one in checkups], indent=1))
    else:
        _print_checkups(wide_console(), checkups)
    if any(one.is_broken for one in checkups):
        raise SystemExit(1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Checkup:
    """What was found about one backend. ``left``: why no claim was tried; empty where they were, or nobody asked for it."""

    report: BackendReport
    hooks: tuple[Finding, ...] = ()
    claims: tuple[Finding, ...] | None = None
    left: str = ""

    @property
    def is_broken(self) -> bool:
        return is_broken(self.report) or any(one.verdict == "does not hold" for one in (*self.hooks, *(self.claims or ())))


def _checkup(report: BackendReport, arch: str, seconds: float, *, probe: bool) -> _Checkup:
    """Asks the hooks of a backend that could be loaded and, for ``probe``, tries its claims where it has a device."""
    from zellige.claims import asked_apart, examined_apart
    from zellige.target import parse_target, with_architecture

    if is_broken(report):
        return _Checkup(report=report)
    hooks = tuple(asked_apart(report.origin, arch, seconds, entry_point=report.entry_point))
    if not probe:
        return _Checkup(report=report, hooks=hooks)
    has_none = not report.devices and not parse_target(with_architecture(report.name, arch)).is_simulated
    left = "" if not has_none else state(report) if report.unavailable is not None else "no device of it is here"
    claims = () if left else tuple(
        examined_apart(report.origin, arch, _TIMES_FOR_CLAIMS * seconds, entry_point=report.entry_point)
    )
    told = {one.reason for one in hooks if one.verdict != "holds"}
    if any(one.field == "describe" and one.reason in told for one in claims):
        claims, left = (), "its target cannot be described"
    return _Checkup(report=report, hooks=hooks, claims=claims, left=left)


@backends.command("describe")
@click.argument("name")
@click.option("--target", "arch", metavar="ARCH", default="", help="An architecture of the backend, which need not be in this machine.")
@click.option(
    "--seconds", default=_DOCTOR_SECONDS, show_default=True, callback=_seconds, help="How long it may take to load and to ask it."
)
@click.option("--json", "as_json", is_flag=True, help="Write JSON, of the schema in docs/capabilities.schema.json.")
def describe(name: str, arch: str, seconds: float, as_json: bool) -> None:
    """Say what the backend or target NAME can do, after checking that what it says is consistent.

    It is asked in a process of its own: of a backend that hangs, or ends its process, that is said.
    """
    from zellige.cli.console import wide_console
    from zellige.plugin.describing import described_apart
    from zellige.plugin.schema import to_json

    capabilities = described_apart(name, arch, seconds)
    if as_json:
        click.echo(json.dumps(to_json(capabilities), indent=1))
        return
    console = wide_console(120)
    for table in capability_tables(capabilities):
        console.print(table)


def is_broken(report: BackendReport) -> bool:
    """Whether a backend is at fault, rather than without a device or not built."""
    from zellige.plugin.probing import AT_FAULT

    return report.unavailable is not None and report.unavailable.code in AT_FAULT


def _print_checkups(console: Console, checkups: Sequence[_Checkup]) -> None:
    """The table of all, then what each was asked, what does not hold, and what was raised."""
    reports = tuple(one.report for one in checkups)
    console.print(health_table(checkups))
    if any(report.tools for report in reports):
        console.print(tool_table(reports))
    _print_tracebacks(console, reports)
    for one in checkups:
        if one.hooks:
            _print_hooks(console, one)
        if one.left:
            console.print(f"\n{one.report.name}: no claim was tried: {one.left}", markup=False, highlight=False, soft_wrap=True)
        elif one.claims is not None:
            holding = sum(claim.verdict == "holds" for claim in one.claims)
            console.print(f"\n{one.report.name}: {holding} of {len(one.claims)} claims hold", markup=False, highlight=False, soft_wrap=True)
            _print_findings(console, [claim for claim in one.claims if claim.verdict != "holds"])


def _print_hooks(console: Console, checkup: _Checkup) -> None:
    """Which hooks answered, which were left and why, what stays in the process, and what is wrong with the others."""
    from zellige.claims import STAYS
    from zellige.claims.hooks import OF_CLAIMS

    answered = ["manifest", "probe", *(one.field for one in checkup.hooks if one.verdict == "holds" and one.field != STAYS)]
    console.print(f"\n{checkup.report.name}: hooks that answer: {', '.join(answered)}", markup=False, highlight=False, soft_wrap=True)
    left = [one for one in checkup.hooks if one.verdict == "not checked" and not (checkup.claims and one.field in OF_CLAIMS)]
    for reason in dict.fromkeys(one.reason for one in left):
        names = ", ".join(one.field for one in left if one.reason == reason)
        console.print(f"{checkup.report.name}: not asked: {names}: {reason}", markup=False, highlight=False, soft_wrap=True)
    for one in checkup.hooks:
        if one.field == STAYS and one.reason:
            console.print(f"{checkup.report.name}: stays in the process: {one.reason}", markup=False, highlight=False, soft_wrap=True)
    _print_findings(console, [one for one in checkup.hooks if one.verdict == "does not hold"])


def _print_findings(console: Console, found: Sequence[Finding]) -> None:
    """A row for each, and each traceback once."""
    from rich.table import Table
    from rich.text import Text

    if not found:
        return
    table = Table("field", "claim", "verdict")
    table.add_column("what happened", overflow="fold")
    for one in found:
        table.add_row(*(Text(text) for text in (one.field, one.text, one.verdict, one.reason)))
    console.print(table)
    for trace in dict.fromkeys(one.traceback for one in found if one.traceback):
        console.print(trace.rstrip(), markup=False, highlight=False, soft_wrap=True)


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


def health_table(checkups: Sequence[_Checkup]) -> Table:
    """One row a backend: whether all that was asked is well, and what is wrong where it is not."""
    from rich.table import Table
    from rich.text import Text

    table = Table("backend", "from", "health", "state")
    for one in checkups:
        report = one.report
        health = "broken" if one.is_broken else "well" if report.devices else "not available"
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


def _checkup_json(checkup: _Checkup) -> dict[str, Any]:
    hooks = [dataclasses.asdict(one) for one in checkup.hooks]
    claims = {} if checkup.claims is None else {"claims": [dataclasses.asdict(one) for one in checkup.claims]}
    return {**_report_json(checkup.report), "is_broken": checkup.is_broken, "hooks": hooks, **claims}


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
