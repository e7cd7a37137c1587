"""The operators of what a kernel author calculates with, all in terms of one operation. In: two operands. Out: what it makes of them."""

from __future__ import annotations

from typing import Any

from zellige.ir.expr import BinaryOp


class Operators:
    """Python's binary operators; a subclass says in :meth:`operate` what they do."""

    __slots__ = ()

    def operate(self, op: BinaryOp, left: Any, right: Any) -> Any:
        """``left op right``, one of which is this object; NotImplemented where the other one knows better."""
        raise NotImplementedError

    def __add__(self, other: Any) -> Any:
        return self.operate("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return self.operate("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return self.operate("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self.operate("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return self.operate("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self.operate("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return self.operate("truediv", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self.operate("truediv", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self.operate("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self.operate("floordiv", other, self)

    def __mod__(self, other: Any) -> Any:
        return self.operate("floormod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return self.operate("floormod", other, self)

    def __lshift__(self, other: Any) -> Any:
        return self.operate("shl", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return self.operate("shl", other, self)

    def __rshift__(self, other: Any) -> Any:
        return self.operate("shr", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return self.operate("shr", other, self)

    def __and__(self, other: Any) -> Any:
        return self.operate("bitand", self, other)

    def __rand__(self, other: Any) -> Any:
        return self.operate("bitand", other, self)

    def __or__(self, other: Any) -> Any:
        return self.operate("bitor", self, other)

    def __ror__(self, other: Any) -> Any:
        return self.operate("bitor", other, self)

    def __xor__(self, other: Any) -> Any:
        return self.operate("bitxor", self, other)

    def __rxor__(self, other: Any) -> Any:
        return self.operate("bitxor", other, self)
