"""What the compiler says while it works, through Python's logging.

In: ``ZELLIGE_LOG`` or :func:`set_log_level`. Out: :func:`logger`, whose records go to standard error unless the program has set up logging
for itself. At the default level a compilation that succeeds says nothing.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Final

from zellige.diagnostics import catalogue
from zellige.diagnostics.suggest import closest
from zellige.options import options

_NAME: Final = "zellige"


@lru_cache(maxsize=1)
def logger() -> logging.Logger:
    """The logger of the package, at the level of ``ZELLIGE_LOG`` when it is first asked for."""
    found = logging.getLogger(_NAME)
    if not found.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(name)s %(levelname)s: %(message)s"))
        found.addHandler(handler)
    found.setLevel(options().log_level.upper())
    return found


def debug(message: str, *arguments: object) -> None:
    """Say something at level debug. Where nobody has asked for the logger yet and the settings leave that level out, it is not made."""
    if logger.cache_info().currsize or options().log_level == "debug":
        logger().debug(message, *arguments)


def told() -> logging.Logger:
    """A logger whose messages of level info are shown whatever the level is, for what the user asked to be told (``verbose=True``)."""
    found = logger().getChild("told")
    found.setLevel(logging.INFO)
    return found


def set_log_level(level: str | int) -> None:
    """Show messages from this level on: debug, info, warning, error, or a number of Python's logging. E159 for anything else."""
    if isinstance(level, str):
        names = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
        if level.upper() not in names:
            known = ", ".join(name.lower() for name in names)
            reason = f"{level!r} is no log level{closest(level, names, '{}').lower() or ':'} {known}"
            raise catalogue.E159.error(option="set_log_level", reason=reason, hint="give one of these, or a number of Python's logging")
        level = level.upper()
    elif not isinstance(level, int):
        hint = "give a name such as debug or warning, or a number of Python's logging"
        raise catalogue.E159.error(option="set_log_level", reason=f"{level!r} is no log level", hint=hint)
    logger().setLevel(level)
