"""Names of the language that no target serves yet, and names that belong to one target's dialect: each says so when it is used.

In: a name. Out: an object that raises E401 (which targets have the name) or E402 (not available yet, what to use instead).
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from zellige.diagnostics import catalogue
from zellige.frontend.values import here

_EXTERN: Final = "write the function as a @T.macro"
_SHIFT: Final = "multiply in int64 and shift: (T.cast(x, 'int64') * y) >> s"

NOT_YET: Final[dict[str, str]] = {
    "call_extern": _EXTERN,
    "call_pure_extern": _EXTERN,
    "import_source": _EXTERN,
    "make_tensor_from_addr": "pass the tensor as a parameter",
    "Range": "slice the tile, A[begin:end], or loop over range(begin, end)",
    "q_multiply_shift": _SHIFT,
    "q_multiply_shift_per_axis": _SHIFT,
    "float4_e2m1_unpacked": "use T.float4_e2m1fn, or T.uint8 with the codes in its low bits",
}
"""The names, and what to write instead."""


_ANNOUNCED: Final = (
    "no backend here takes it by this name: use the neutral operations (T.copy, T.gemm, T.Pipelined), which use such units by themselves"
)


class NotAvailable:
    """A name that no target serves yet: calling it, entering it or indexing it is E402."""

    def __init__(self, name: str, hint: str) -> None:
        self._name = name
        self._hint = hint

    def refuse(self) -> NoReturn:
        raise catalogue.E402.error(here(), name=self._name, hint=self._hint)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        self.refuse()

    def __getitem__(self, item: Any) -> NoReturn:
        self.refuse()

    def __enter__(self) -> NoReturn:
        self.refuse()

    def __exit__(self, *_: object) -> None:
        return None

    def __repr__(self) -> str:
        return f"<{self._name}, not available yet>"


class DialectOnly:
    """A name that backends announce for their target's dialect and that none of those installed has: using it is E401."""

    def __init__(self, name: str, targets: tuple[str, ...]) -> None:
        self._name = name
        self._targets = targets

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that have the name."""
        return self._targets

    def _refuse(self) -> NoReturn:
        raise catalogue.E401.error(here(), name=self._name, targets=", ".join(self._targets), hint=_ANNOUNCED)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse()

    def __getitem__(self, item: Any) -> NoReturn:
        self._refuse()

    def __getattr__(self, item: str) -> NoReturn:
        if item.startswith("__") or item in ("interpret", "described"):
            raise AttributeError(item)
        self._refuse()

    def __enter__(self) -> NoReturn:
        self._refuse()

    def __exit__(self, *_: object) -> None:
        return None

    def __repr__(self) -> str:
        return f"<T.{self._name}, a name of {', '.join(self._targets)}>"
