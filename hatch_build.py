"""Build hook: a wheel carries the error pages of docs/errors, which `zellige explain-error` prints.

An editable install gets no copy: there the command reads docs/errors itself.
"""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ErrorPages(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the pages to a standard wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "standard":
            build_data["force_include"]["docs/errors"] = "zellige/diagnostics/pages"
