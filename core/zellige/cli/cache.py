"""``zellige cache``: what is kept on disk, emptied, carried to another machine and back."""

from __future__ import annotations

from pathlib import Path

import click

from zellige.cli.writing import writing
from zellige.diagnostics.wording import counted


@click.group()
def cache() -> None:
    """Look at the cache of compiled kernels, empty it, carry it to another machine."""


@cache.command("stats")
def statistics() -> None:
    """Show where the cache lies, how much is in it and how much may be."""
    from zellige.cache import cache_statistics

    found = cache_statistics()
    click.echo(f"folder    {found.folder}")
    click.echo(f"limit     {_size(found.limit_bytes)}")
    for kind, count in found.entries.items():
        click.echo(f"{kind:<9} {count} ({_size(found.bytes[kind])})")


@cache.command("clear")
def clear() -> None:
    """Remove every compiled kernel and every result of tuning."""
    from zellige.cache import store

    click.echo(f"removed {counted(store().clear(), 'file')}")


@cache.command("export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--kernel", "kernels", multiple=True, help="Only kernels of this name; may be given several times.")
@click.option("--target", "targets", multiple=True, help="Only kernels compiled for this target; may be given several times.")
def export(file: Path, kernels: tuple[str, ...], targets: tuple[str, ...]) -> None:
    """Write compiled kernels to the bundle FILE."""
    from zellige.cache import store
    from zellige.cache.bundle import export_bundle

    with writing(file):
        found = export_bundle(store(), file, kernels=frozenset(kernels), targets=frozenset(targets))
    click.echo(f"{file}: {counted(found.artifacts, 'kernel')}, {_size(found.bytes)}")


@cache.command("import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
def import_(file: Path) -> None:
    """Take the compiled kernels of the bundle FILE. They run as your own code: only import what you would run."""
    from zellige.cache import store
    from zellige.cache.bundle import import_bundle

    found = import_bundle(store(), file)
    click.echo(f"{file}: {counted(found.artifacts, 'kernel')}, {_size(found.bytes)}")


def _size(count: int) -> str:
    size, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
