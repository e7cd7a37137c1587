"""The math functions that :class:`zellige.ir.expr.Math` names: arity, operand kinds, result type, NumPy meaning.

Floats of 8 and 16 bits are converted to float32, computed there and rounded once; float32 and tfloat32 compute in float32,
float64 in float64.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from zellige.dtypes import DType, dtype


@dataclass(frozen=True, slots=True)
class Function:
    """``result`` "same" is the operands' dtype, "bool" and "int32" those types. ``numpy`` is the meaning, with operands x, y, z."""

    name: str
    arity: int
    operands: Literal["float", "integer", "number"]
    result: Literal["same", "bool", "int32"]
    numpy: str

    def result_dtype(self, operand: DType) -> DType:
        return operand if self.result == "same" else dtype(self.result)


_UNARY_FLOAT: Final = {
    "exp": "np.exp(x)", "exp2": "np.exp2(x)", "exp10": "np.power(10, x)", "expm1": "np.expm1(x)",
    "log": "np.log(x)", "log2": "np.log2(x)", "log10": "np.log10(x)", "log1p": "np.log1p(x)",
    "sqrt": "np.sqrt(x)", "rsqrt": "1 / np.sqrt(x)", "rcp": "1 / x", "cbrt": "np.cbrt(x)",
    "sin": "np.sin(x)", "cos": "np.cos(x)", "tan": "np.tan(x)", "asin": "np.arcsin(x)", "acos": "np.arccos(x)", "atan": "np.arctan(x)",
    "sinh": "np.sinh(x)", "cosh": "np.cosh(x)", "tanh": "np.tanh(x)",
    "asinh": "np.arcsinh(x)", "acosh": "np.arccosh(x)", "atanh": "np.arctanh(x)",
    "erf": "math.erf(x)", "erfc": "math.erfc(x)", "sigmoid": "1 / (1 + np.exp(-x))",
    "floor": "np.floor(x)", "ceil": "np.ceil(x)", "trunc": "np.trunc(x)", "round": "np.rint(x)  # ties to even",
}  # fmt: skip

FUNCTIONS: Final[dict[str, Function]] = {
    f.name: f
    for f in [
        *(Function(name, 1, "float", "same", text) for name, text in _UNARY_FLOAT.items()),
        Function("abs", 1, "number", "same", "np.abs(x)"),
        Function("isnan", 1, "float", "bool", "np.isnan(x)"),
        Function("isinf", 1, "float", "bool", "np.isinf(x)"),
        Function("isfinite", 1, "float", "bool", "np.isfinite(x)"),
        Function("pow", 2, "float", "same", "np.power(x, y)"),
        Function("powi", 2, "integer", "same", "x ** y in wrapping arithmetic, 0 where y < 0 unless x is 1 or -1"),
        Function("atan2", 2, "float", "same", "np.arctan2(x, y)"),
        Function("hypot", 2, "float", "same", "np.hypot(x, y)"),
        Function("fmod", 2, "float", "same", "np.fmod(x, y)"),
        Function("copysign", 2, "float", "same", "np.copysign(x, y)"),
        Function("nextafter", 2, "float", "same", "np.nextafter(x, y) among the values of the operands' own dtype"),
        Function("ldexp", 2, "float", "same", "np.ldexp(x, int(y))"),
        Function("fma", 3, "float", "same", "x * y + z, rounded once"),
        Function("popcount", 1, "integer", "int32", "int(x & mask).bit_count()"),
        Function("clz", 1, "integer", "int32", "bits - int(x & mask).bit_length()"),
    ]
}
