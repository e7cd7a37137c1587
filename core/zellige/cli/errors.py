"""``zellige explain-error CODE``: the page of a code, from the installed package or from the source tree."""

from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

import click


def page(code: str) -> str | None:
    """The text of a code's page, or None where there is none."""
    for folder in (files("zellige.diagnostics") / "pages", Path(__file__).parents[3] / "docs" / "errors"):
        found = folder / f"{code}.md"
        if found.is_file():
            return found.read_text(encoding="utf-8")
    return None


@click.command("explain-error")
@click.argument("code")
def explain_error(code: str) -> None:
    """Print what an error code such as E204 means and what to do."""
    from zellige.diagnostics.catalogue import CODES

    wanted = code.strip().upper()
    wanted = f"E{wanted}" if wanted.isdecimal() else wanted
    if wanted not in CODES:
        near = [f"{other.id}  {other.title}" for other in CODES.values() if other.id[:2] == wanted[:2]]
        known = "Codes of that kind:\n  " + "\n  ".join(near) if near else "The first figure of a code is its stage, 1 to 7: E101, E2001."
        raise click.BadParameter(f"there is no code {code!r}. {known}", param_hint="CODE")
    text = page(wanted)
    if text is None:
        raise click.ClickException(f"the page of {wanted} is missing from this installation")
    if sys.stdout.isatty():
        from rich.markdown import Markdown

        from zellige.cli.console import plain_console

        plain_console().print(Markdown(text))
    else:
        click.echo(text.rstrip())
