"""``tvm.error``: the classes that programs written for TileLang catch. Here each is the base of all errors of this package."""

from __future__ import annotations

from zellige.diagnostics import ZelligeError

TVMError = ZelligeError
InternalError = ZelligeError

__all__ = ["InternalError", "TVMError"]
