"""Every code a user can meet. In: nothing. Out: module constants and :data:`CODES`.

A code's number says its stage and never changes meaning: E1xx syntax, E2xx types and shapes, E3xx planning, E4xx capability,
E5xx toolchain, E6xx launch, E7xx plugins and configuration; a stage whose numbers are used up goes on with four digits, E2001. They are
declared in :mod:`zellige.diagnostics.codes`, one module a stage. Each has a page ``docs/errors/<code>.md`` and a test that triggers it.
"""

from __future__ import annotations

from zellige.diagnostics.codes.capabilities import *  # noqa: F403
from zellige.diagnostics.codes.declaration import CODES, code as _code
from zellige.diagnostics.codes.frontend import *  # noqa: F403
from zellige.diagnostics.codes.jit import *  # noqa: F403
from zellige.diagnostics.codes.language import *  # noqa: F403
from zellige.diagnostics.codes.launch import *  # noqa: F403
from zellige.diagnostics.codes.lint import *  # noqa: F403
from zellige.diagnostics.codes.planning import *  # noqa: F403
from zellige.diagnostics.codes.plugins import *  # noqa: F403
from zellige.diagnostics.codes.toolchain import *  # noqa: F403
from zellige.diagnostics.codes.verifier import *  # noqa: F403

__all__ = ["CODES", "_code"]
