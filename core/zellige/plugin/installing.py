"""How to install what a backend lacks, in words that a shell takes.

In: a requirement, the name of the backend that has it. Out: the command.
"""

from __future__ import annotations

import importlib.metadata

from zellige.plugin.installed import OWN_DISTRIBUTION


def install_command(requirement: str, backend: str = "") -> str:
    """What installs ``requirement``: zellige with the extra named as the backend, where there is one, since that brings all it needs."""
    return f"pip install '{OWN_DISTRIBUTION}[{backend}]'" if backend in _extras() else f"pip install {requirement}"


def _extras() -> frozenset[str]:
    try:
        return frozenset(importlib.metadata.metadata(OWN_DISTRIBUTION).get_all("Provides-Extra") or ())
    except importlib.metadata.PackageNotFoundError:  # the sources lie on the path, and nothing is installed
        return frozenset()
