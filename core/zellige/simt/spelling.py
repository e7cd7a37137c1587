"""What plain C++ calls things: the part of a :class:`~zellige.simt.printer.Spelling` that needs no instruction of a device.

In: nodes of thread-level programs. Out: text for :mod:`zellige.simt.printer`: types, conversions, mathematics and the functions behind them
(:mod:`zellige.simt.functions`). A backend's spelling begins with :class:`PlainSpelling` and adds what its language has: how a kernel and
its shared memory are declared, lanes, barriers, atomics, instructions; and it overrides what its language does better.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from zellige.diagnostics import Span, catalogue
from zellige.dtypes import DType
from zellige.ir.expr import Binary, Cast, Math
from zellige.simt.expression_printer import ExpressionPrinter
from zellige.simt.functions import plain_function
from zellige.simt.ir import BoxMap
from zellige.simt.printer import Printer
from zellige.simt.words import is_narrow, type_of

MATH32: Final = {
    "exp": "expf", "exp2": "exp2f", "exp10": "exp10f", "expm1": "expm1f", "log": "logf", "log2": "log2f", "log10": "log10f",
    "log1p": "log1pf", "sqrt": "sqrtf", "rsqrt": "rsqrtf", "cbrt": "cbrtf", "sin": "sinf", "cos": "cosf", "tan": "tanf", "asin": "asinf",
    "acos": "acosf", "atan": "atanf", "sinh": "sinhf", "cosh": "coshf", "tanh": "tanhf", "asinh": "asinhf", "acosh": "acoshf",
    "atanh": "atanhf", "erf": "erff", "erfc": "erfcf", "floor": "floorf", "ceil": "ceilf", "trunc": "truncf", "round": "rintf",
    "abs": "fabsf", "pow": "powf", "atan2": "atan2f", "hypot": "hypotf", "fmod": "fmodf", "copysign": "copysignf",
    "nextafter": "nextafterf", "fma": "fmaf",
}  # fmt: skip
"""The functions of float operands, by the names of the tile IR."""

WIDE: Final = (
    "typedef unsigned char wide1;\ntypedef unsigned short wide2;\ntypedef unsigned int wide4;\n"
    "struct alignas(8) wide8 { unsigned int x, y; };\nstruct alignas(16) wide16 { unsigned int x, y, z, w; };\n"
    "#ifdef TENSORS_MEET\n#define APART\n#else\n#define APART __restrict__\n#endif"
)
"""Types of wide accesses, and what is promised of a tensor that is only read, unless TENSORS_MEET: it is written under no other name."""


OWN_NAMES: Final = frozenset((*MATH32, *MATH32.values(), "APART", "TENSORS_MEET", "ELEMENTWISE"))
"""What texts of the family use and declare, and what defines their variants: no variable or kernel has these names."""


class PlainSpelling:
    """``target`` is the name that refusals give; ``is_fast``: the caller asked for fast mathematics."""

    inline: ClassVar[str] = "static inline"
    """What stands before a function that is inlined."""
    fast32: ClassVar[dict[str, str]] = {}
    """The quicker forms of functions of float operands, where the language has some."""

    def __init__(self, target: str, *, is_fast: bool = False) -> None:
        self.target = target
        self.is_fast = is_fast

    def opening(self) -> str:
        return WIDE

    def reserved(self) -> frozenset[str]:
        return OWN_NAMES

    def map_parameter(self, printer: Printer, param: BoxMap) -> str:
        """Refused: plain C++ has no copies of boxes, and programs for it hold none."""
        raise self.refuse("a copy of boxes", param.box.tensor.span)

    def helper(self, name: str) -> tuple[str, tuple[str, ...]]:
        """The definition of a function and the names it uses. Raises ValueError for a name that is none."""
        found = plain_function(name, self.inline)
        if found is None:
            raise ValueError(f"there is no helper {name}")
        return found

    def refuse(self, what: str, span: Span | None) -> Exception:
        """The error (E410) for what the language does not have. Never print something near what was asked for."""
        return catalogue.E410.error(span, target=self.target, operation=what)

    def refuse_scope(self, what: str, scope: str, span: Span | None) -> Exception:
        """The error (E447) for lanes or blocks that the language cannot bring together."""
        return catalogue.E447.error(span, target=self.target, operation=what, scope=scope)

    # ---- conversions ----

    def converted(self, printer: ExpressionPrinter, cast: Cast, value: str) -> str:
        source, target = cast.value.dtype, cast.dtype
        if target.is_integer:
            return self._to_integer(printer, source, target, value)
        if cast.rounding == "stochastic":
            raise self.refuse("stochastic rounding", cast.span)
        is_plain = cast.rounding == "nearest_even" and target.name not in ("tfloat32", "float8_e8m0fnu")
        if not is_plain or (cast.saturate and not is_narrow(target)):
            return self._rounded(printer, cast, value)
        saturating = "_saturated" if cast.saturate else ""
        if not is_narrow(target):
            if is_narrow(source):
                wide = printer.widened(value, source)
                return f"(double){wide}" if target.name == "float64" else wide
            return f"({type_of(target)}){value}"
        if source.name == "float64" or (source.is_integer and source.bits >= 32):
            if source.is_integer:
                value = f"(double){value}" if source.bits == 32 else f"{printer.need('float64_of_int64_odd')}({value})"
            value = f"{printer.need('float32_of_float64_odd')}({value})"
        elif is_narrow(source):
            value = printer.widened(value, source)
        else:
            value = f"(float){value}"
        return f"{printer.need(f'{target.name}_of_float32{saturating}')}({value})"

    def _rounded(self, printer: ExpressionPrinter, cast: Cast, value: str) -> str:
        """By way of a double, which holds every source but 64-bit integers exactly; of those it keeps an odd last bit."""
        source, target = cast.value.dtype, cast.dtype
        if is_narrow(source):
            value = printer.widened(value, source)
        if source.is_integer and source.bits == 64:
            if target.name == "float64":
                return self.double_of_int64(cast, value)
            value = f"{printer.need('float64_of_int64_odd')}({value})"
        saturated = "_saturated" if cast.saturate else ""
        return f"{printer.need(f'rounded_{target.name}_{cast.rounding}{saturated}')}((double){value})"

    def double_of_int64(self, cast: Cast, value: str) -> str:
        """A 64-bit integer as double, in another direction than to nearest: an instruction, or refused."""
        raise self.refuse(f"rounding {cast.rounding} of 64-bit integers", cast.span)

    def _to_integer(self, printer: ExpressionPrinter, source: DType, target: DType, value: str) -> str:
        if is_narrow(source):
            value = printer.widened(value, source)
        wide = "float64" if source.name == "float64" else "float32"
        return f"{printer.need(f'{target.name}_of_{wide}_saturated')}({value})"

    # ---- operations ----

    def binary(self, printer: ExpressionPrinter, node: Binary, left: str, right: str) -> str | None:
        return None

    def math(self, printer: ExpressionPrinter, node: Math, args: Sequence[str]) -> str:
        name, operand = node.function, node.args[0].dtype
        if operand.is_integer:
            return self.integer_math(printer, node, args)
        is_double = operand.name == "float64"
        if name in ("isnan", "isinf", "isfinite"):
            return f"{printer.need(name)}({args[0]})"
        one = "1.0" if is_double else "1.0f"
        table = self.fast32 if self.may_be_fast(node) else {}
        match name:
            case "rcp":
                return f"({one} / {args[0]})"
            case "sigmoid":
                exponential = "exp" if is_double else table.get("exp", MATH32["exp"])
                return f"({one} / ({one} + {exponential}(-({args[0]}))))"
            case "ldexp":
                return f"{printer.need('scaled64' if is_double else 'scaled32')}({args[0]}, {args[1]})"
            case "abs" if is_double:
                return f"fabs({args[0]})"
            case "round" if is_double:
                return f"rint({args[0]})"
            case _ if is_double:
                return f"{name}({', '.join(args)})"
            case _ if name in MATH32:
                return f"{table.get(name, MATH32[name])}({', '.join(args)})"
            case _:
                raise self.refuse(f"the function {name}", node.span)

    def may_be_fast(self, node: Math) -> bool:
        """Whether its author, or the caller for all functions without a word of their own, asks for the faster form."""
        return node.precision == "fast" or (self.is_fast and node.precision == "default")

    def integer_math(self, printer: ExpressionPrinter, node: Math, args: Sequence[str]) -> str:
        """A function of integers."""
        t = node.args[0].dtype
        kind = type_of(t)
        bits = f"(unsigned long long){args[0]} & {(1 << t.bits) - 1}ull"
        match node.function:
            case "abs":
                return f"({kind})({args[0]} < 0 ? 0u - (unsigned long long){args[0]} : {args[0]})"
            case "popcount":
                return f"{printer.need('ones_of')}({bits})"
            case "clz":
                return f"({printer.need('leading_zeros_of')}({bits}) - {64 - t.bits})"
            case "powi":
                return f"({kind}){printer.need('integer_power')}({args[0]}, {args[1]})"
            case _:
                raise self.refuse(f"the function {node.function} of integers", node.span)
