"""The entry of the command line: the list of commands, and how an error is shown.

In: the process's arguments. Out: text on standard output, errors on standard error; exit code 0, 1 for a failed check or an error in the
user's kernel, 2 for wrong usage.
"""

from __future__ import annotations

import importlib
import sys
from typing import Final

import click

from zellige.version import __version__

COMMANDS: Final = {
    "demo": "zellige.cli.demo:demo",
    "cache": "zellige.cli.cache:cache",
    "compile": "zellige.cli.compile:compile_command",
    "explain": "zellige.cli.explain:explain",
    "explain-error": "zellige.cli.errors:explain_error",
    "doctor": "zellige.cli.doctor:doctor",
    "backends": "zellige.cli.backends:backends",
    "new-backend": "zellige.cli.new_backend:new_backend",
    "fuzz": "zellige.cli.fuzz:fuzz",
}


class CommandList(click.Group):
    """A group whose commands are imported when asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=CommandList, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="zellige")
def group() -> None:
    """Write a tile kernel once, run it on any device with a plugin."""


def main() -> None:
    """Run the command line of this process. A diagnostic is printed without Python's traceback."""
    try:
        group()
    except Exception as error:
        from zellige.diagnostics import InternalError, ZelligeError

        if not isinstance(error, (ZelligeError, InternalError)):
            raise
        click.echo(str(error), err=True)
        sys.exit(1)
