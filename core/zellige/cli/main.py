"""The entry of the command line: the list of commands, and how an error is shown.

In: the process's arguments. Out: text on standard output, errors on standard error; exit code 0, 1 for a failed check or an error in the
user's kernel, 2 for wrong usage.
"""

from __future__ import annotations

import importlib
import shlex
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from zellige.version import __version__

if TYPE_CHECKING:
    from zellige.diagnostics import InternalError, ZelligeError

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


TRACEBACK: Final = "--traceback"


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
@click.option(TRACEBACK, is_flag=True, expose_value=False, help="Show Python's whole traceback of an error, for whoever mends it.")
def group() -> None:
    """Write a tile kernel once, run it on any device with a plugin."""


def main() -> None:
    """Run the command line of this process. A diagnostic is printed without Python's traceback, unless that is asked for."""
    try:
        group()
    except Exception as error:
        from zellige.diagnostics import InternalError, ZelligeError

        if not isinstance(error, (ZelligeError, InternalError)):
            raise
        click.echo(_shown(error, sys.argv[1:]), err=True)
        sys.exit(1)


def _shown(error: ZelligeError | InternalError, words: Sequence[str]) -> str:
    """An error as text, after the ``words`` of a command; of one that somebody else's code is behind, how its traceback is seen."""
    from zellige.diagnostics import ZelligeError

    if words[:1] == [TRACEBACK]:
        return "".join(traceback.format_exception(error))
    line = error.diagnostics[0].line_of_fault if isinstance(error, ZelligeError) else None
    is_theirs = error.__cause__ is not None and line is not None
    return f"{error}\nthe whole traceback: zellige {TRACEBACK} {shlex.join(words)}" if is_theirs else str(error)
