"""The check of what a backend says about itself.

In: the answer of the hook ``manifest``. Out: the same :class:`Manifest`, or E703 that names every field that is wrong.
"""

from __future__ import annotations

import re
from typing import Final

from zellige.diagnostics import catalogue
from zellige.ir.syntax import VERSION
from zellige.plugin.contract import Manifest, Unavailable
from zellige.target import AUTO

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


def validated(name: str, answer: object) -> Manifest:
    """The manifest, or E703 that says which field is wrong."""
    if not isinstance(answer, Manifest):
        raise catalogue.E703.error(name=name, reason=f"manifest answered {type(answer).__name__}, expected Manifest")
    problems: list[str] = []
    if answer.kind not in ("accelerator", "host", "reference"):
        problems.append(f"kind is {answer.kind!r}, expected accelerator, host or reference")
    if not isinstance(answer.targets, tuple) or not answer.targets:
        problems.append("targets is empty or no tuple")
    else:
        problems += [f"{target!r} is no target name" for target in answer.targets if not _is_name(target) or target == AUTO]
    problems += [f"{alias!r} is no target name" for alias, _ in answer.aliases if not _is_name(alias) or alias == AUTO]
    problems += [f"{entry.name!r} is no name of the language" for entry in answer.dialect if not entry.name.isidentifier()]
    if answer.ir is not None and answer.ir[0] != VERSION[0]:
        problems.append(f"ir is {answer.ir!r}: this zellige writes tile IR of version {VERSION[0]}.x")
    if answer.state != "available" and not isinstance(answer.state, Unavailable):
        problems.append(f"state is {answer.state!r}, expected 'available' or Unavailable")
    if problems:
        raise catalogue.E703.error(name=name, reason="; ".join(problems))
    return answer


def _is_name(text: object) -> bool:
    return isinstance(text, str) and _NAME.fullmatch(text) is not None
