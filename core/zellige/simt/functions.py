"""Functions of printed kernels in plain C++: narrow floats, conversions, integer and float operations with the tile IR's meaning.

In: a function's name, as the printer and spellings ask for it, and how the language writes a function that is inlined. Out: its definition
and the functions that it uses; None for a name that is none of these. A backend gives its own definition of whatever its language does
better, under the same name. Only the mathematics of C are assumed (``fmodf``, ``rint``, ``frexp`` ...), no header and no instruction.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import numpy as np

from zellige.dtypes import DType, dtype as as_dtype
from zellige.elements.conversion import bias, has_nan
from zellige.simt.words import C_INTEGERS

Text = tuple[str, tuple[str, ...]]
"""A definition, and the names of the functions that it uses."""

NAN64: Final = "float64_of_bits(0x7ff8000000000000ull)"
_MARK: Final = "@inline"

_FIXED: Final[dict[str, Text]] = {
    "trip_count": (
        "@inline long long trip_count(long long start, long long stop, long long step) {\n"
        "  if (step == 0) return 0;\n"
        "  const unsigned long long s = step > 0 ? (unsigned long long)step : 0ull - (unsigned long long)step;\n"
        "  if (step > 0 ? start >= stop : start <= stop) return 0;\n"
        "  const unsigned long long d = step > 0 ? (unsigned long long)stop - start : (unsigned long long)start - stop;\n"
        "  return (long long)((d - 1) / s + 1);\n}",
        (),
    ),
    "float32_of_bits": (
        "@inline float float32_of_bits(unsigned int x) { union { unsigned int bits; float value; } u; u.bits = x; return u.value; }",
        (),
    ),
    "float64_of_bits": (
        "@inline double float64_of_bits(unsigned long long x) {\n"
        "  union { unsigned long long bits; double value; } u;\n  u.bits = x;\n  return u.value;\n}",
        (),
    ),
    "bits_of_float32": (
        "@inline unsigned int bits_of_float32(float x) { union { unsigned int bits; float value; } u; u.value = x; return u.bits; }",
        (),
    ),
    "bits_of_float64": (
        "@inline unsigned long long bits_of_float64(double x) {\n"
        "  union { unsigned long long bits; double value; } u;\n  u.value = x;\n  return u.bits;\n}",
        (),
    ),
    "int4_of_bits": ("@inline signed char int4_of_bits(int x) { return (signed char)((int)((unsigned int)x << 28) >> 28); }", ()),
    "uint4_of_bits": ("@inline unsigned char uint4_of_bits(unsigned int x) { return (unsigned char)(x & 15u); }", ()),
    "min": ("template <class T> @inline T min(T a, T b) { return b < a ? b : a; }", ()),
    "max": ("template <class T> @inline T max(T a, T b) { return a < b ? b : a; }", ()),
    "isnan": ("template <class T> @inline bool isnan(T x) { return x != x; }", ()),
    "isinf": ("template <class T> @inline bool isinf(T x) { return x == x && x - x != x - x; }", ()),
    "isfinite": ("template <class T> @inline bool isfinite(T x) { return x - x == x - x; }", ()),
    "int_floordiv": (
        "template <class T> @inline T int_floordiv(T a, T b) {\n"
        "  if (b == 0) return 0;\n  if ((T)-1 < 0 && b == (T)-1) return negated(a);\n"
        "  const T q = (T)(a / b);\n  return (T)(q * b != a && (a < 0) != (b < 0) ? q - 1 : q);\n}",
        ("negated",),
    ),
    "negated": (
        "template <class T> @inline T negated(T a) {\n  const T b = (T)(0ull - (unsigned long long)a);\n  return b == a ? 0 : b;\n}",
        (),
    ),
    "int_floormod": (
        "template <class T> @inline T int_floormod(T a, T b) {\n"
        "  if (b == 0 || ((T)-1 < 0 && b == (T)-1)) return 0;\n"
        "  const T r = (T)(a % b);\n  return (T)(r != 0 && (r < 0) != (b < 0) ? r + b : r);\n}",
        (),
    ),
    "int_truncdiv": (
        "template <class T> @inline T int_truncdiv(T a, T b) {\n"
        "  if (b == 0) return 0;\n  if ((T)-1 < 0 && b == (T)-1) return negated(a);\n"
        "  return (T)(a / b);\n}",
        ("negated",),
    ),
    "int_truncmod": (
        "template <class T> @inline T int_truncmod(T a, T b) { return b == 0 || ((T)-1 < 0 && b == (T)-1) ? 0 : (T)(a % b); }",
        (),
    ),
    "shl_bits": (
        "template <class T, class U> @inline T shl_bits(T a, U n, int bits) {\n"
        "  return n < 0 || n >= bits ? 0 : (T)((unsigned long long)a << n);\n}",
        (),
    ),
    "shr_bits": (
        "template <class T, class U> @inline T shr_bits(T a, U n, int bits) {\n"
        "  return n < 0 || n >= bits ? (T)(a < 0 ? -1 : 0) : (T)(a >> n);\n}",
        (),
    ),
    "integer_power": (
        "@inline long long integer_power(long long x, long long y) {\n"
        "  if (y < 0) return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;\n"
        "  unsigned long long r = 1, b = (unsigned long long)x;\n"
        "  for (; y; y >>= 1, b *= b) if (y & 1) r *= b;\n  return (long long)r;\n}",
        (),
    ),
    "ones_of": ("@inline int ones_of(unsigned long long x) {\n  int n = 0;\n  for (; x; x &= x - 1) ++n;\n  return n;\n}", ()),
    "leading_zeros_of": (
        "@inline int leading_zeros_of(unsigned long long x) {\n  int n = 64;\n  for (; x; x >>= 1) --n;\n  return n;\n}",
        (),
    ),
    "scaled32": (
        "@inline float scaled32(float x, float n) { return ldexpf(x, n != n ? 0 : (int)fminf(fmaxf(n, -10000.0f), 10000.0f)); }",
        (),
    ),
    "scaled64": (
        "@inline double scaled64(double x, double n) { return ldexp(x, n != n ? 0 : (int)fmin(fmax(n, -10000.0), 10000.0)); }",
        (),
    ),
    # what is rounded again afterwards: the last bit is odd where it is not exact, so that rounding twice rounds once
    "float32_of_float64_odd": (
        "@inline float float32_of_float64_odd(double x) {\n"
        "  const float r = (float)x;\n  const unsigned int b = bits_of_float32(r);\n"
        "  if ((double)r == x || x != x || (b & 0x7fffffffu) == 0x7f800000u || (b & 1u)) return r;\n"
        "  return float32_of_bits(fabs((double)r) < fabs(x) ? b + 1u : b - 1u);\n}",
        ("bits_of_float32", "float32_of_bits"),
    ),
    "float64_of_int64_odd": (
        "template <class T> @inline double float64_of_int64_odd(T x) {\n"
        "  const unsigned long long m = x < 0 ? 0ull - (unsigned long long)x : (unsigned long long)x;\n"
        "  const double r = (double)(m >> 53 ? (m & ~0x7ffull) | (m & 0x7ffull ? 0x800ull : 0ull) : m);\n"
        "  return x < 0 ? -r : r;\n}",
        (),
    ),
}


def plain_function(name: str, inline: str) -> Text | None:
    """The definition of a function with ``inline`` before its type, and the functions that it uses."""
    found = _FIXED.get(name)
    for pattern, make in _MADE:
        match = re.fullmatch(pattern, name) if found is None else None
        if match:
            found = make(match)
    return None if found is None else (found[0].replace(_MARK, inline), found[1])


def storage_of(t: DType) -> str:
    """The integer that carries the bits of a narrow float."""
    return C_INTEGERS[max(8, t.bits)][1]


def _splat(match: re.Match[str]) -> Text:
    """A wide value whose parts are all the same."""
    width, kind = int(match[1]), match[2].replace("_", " ")
    whole = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int"}[width] if width <= 4 else f"wide{width}"
    return (
        f"@inline {whole} {match[0]}({kind} x) {{\n  alignas({width}) {kind} parts[{width} / sizeof({kind})];\n"
        f"  #pragma unroll\n  for (int i = 0; i < (int)({width} / sizeof({kind})); ++i) parts[i] = x;\n  return *({whole}*)parts;\n}}",
        (),
    )


def _float_operation(match: re.Match[str]) -> Text:
    op, bits = match[1], match[2]
    t, f = ("double", "") if bits == "64" else ("float", "f")
    body = {
        "max": f"return fmax{f}(a, b);",
        "min": f"return fmin{f}(a, b);",
        "max_nan": f"return a != a || b != b ? a + b : fmax{f}(a, b);",
        "min_nan": f"return a != a || b != b ? a + b : fmin{f}(a, b);",
        "truncdiv": f"return trunc{f}(a / b);",
        "truncmod": f"return fmod{f}(a, b);",
        "floormod": (
            f"const {t} r = fmod{f}(a, b);\n  if (r != 0) return (b < 0) != (r < 0) ? r + b : r;\n  return copysign{f}(({t})0, b);"
        ),
        "floordiv": (
            f"if (b == 0) return a / b;\n  {t} r = fmod{f}(a, b);\n  {t} q = (a - r) / b;\n  if (r != 0 && (b < 0) != (r < 0)) q -= 1;\n"
            f"  if (q == 0) return copysign{f}(({t})0, a / b);\n  {t} d = floor{f}(q);\n  return q - d > ({t})0.5 ? d + 1 : d;"
        ),
    }[op]
    return f"@inline {t} {match[0]}({t} a, {t} b) {{\n  {body}\n}}", ()


def _decode(match: re.Match[str]) -> Text:
    """float of a narrow float's bits."""
    t, name = as_dtype(match[1]), match[0]
    needs = ("float32_of_bits",)
    if t.name == "bfloat16":
        return f"@inline float {name}(unsigned short x) {{ return float32_of_bits((unsigned int)x << 16); }}", needs
    if t.name == "float8_e8m0fnu":
        return (
            f"@inline float {name}(unsigned char x) {{\n"
            "  return float32_of_bits(x == 255 ? 0x7fffffffu : x ? (unsigned int)x << 23 : 0x400000u);\n}",
            needs,
        )
    e, m, offset = t.exponent, t.mantissa, bias(t)
    return (
        f"@inline float {name}({storage_of(t)} x) {{\n"
        f"  const unsigned int e = (x >> {m}) & {(1 << e) - 1}u, f = x & {(1 << m) - 1}u;\n"
        f"  float y = e ? float32_of_bits(((e + {127 - offset}u) << 23) | (f << {23 - m})) : (float)f * {2.0 ** (1 - offset - m)!r}f;\n"
        f"{_special_decode(t)}"
        f"  return x & {1 << (t.bits - 1)}u ? -y : y;\n}}",
        needs,
    )


def _special_decode(t: DType) -> str:
    e, m = t.exponent, t.mantissa
    if t.is_unsigned_zero:
        return f"  if (x == {1 << (t.bits - 1)}u) return float32_of_bits(0x7fffffffu);\n"
    if t.has_inf:
        return f"  if (e == {(1 << e) - 1}u) y = f ? float32_of_bits(0x7fffffffu) : float32_of_bits(0x7f800000u);\n"
    if t.bits == 8:
        return f"  if ((x & 127u) == {((1 << e) - 1) << m | ((1 << m) - 1)}u) y = float32_of_bits(0x7fffffffu);\n"
    return ""


def _code(value: float, t: DType) -> int:
    array = np.array([value], np.float64).astype(t.numpy)
    return int(array.view(np.uint8 if array.dtype.itemsize == 1 else np.uint16)[0])


def _encode(match: re.Match[str]) -> Text:
    """A narrow float's bits of a float, to the nearest, ties to even."""
    t, saturates, name = as_dtype(match[1]), bool(match[2]), match[0]
    if t.name == "float8_e8m0fnu":
        rounding = f"rounded_{t.name}_nearest_even{'_saturated' if saturates else ''}"
        return f"@inline unsigned char {name}(float x) {{ return {rounding}((double)x); }}", (rounding,)
    if t.name != "bfloat16":
        return _encode_small(name, t, saturates), ("bits_of_float32", "float32_of_bits")
    limit = float(t.max)
    clamp = f"  x = x != x ? x : fminf(fmaxf(x, -{limit!r}f), {limit!r}f);\n" if saturates else ""
    return (
        f"@inline unsigned short {name}(float x) {{\n{clamp}  const unsigned int b = bits_of_float32(x);\n"
        "  if (x != x) return (unsigned short)0x7fffu;\n  return (unsigned short)((b + 0x7fffu + ((b >> 16) & 1u)) >> 16);\n}",
        ("bits_of_float32",),
    )


def _encode_small(name: str, t: DType, saturates: bool) -> str:
    """By scaling until the last bit of the type is worth 1."""
    kind, m, least, sign = storage_of(t), t.mantissa, 1 - bias(t), 1 << (t.bits - 1)
    largest = _code(float(t.max), t) & (sign - 1)
    has_signed_nan = t.bits >= 8 and not t.is_unsigned_zero
    nan = _code(float("nan"), t) & (sign - 1) if has_signed_nan else sign  # ml_dtypes gives negative zero where there is no NaN
    infinite = _code(float("inf"), t) & (sign - 1) if t.has_inf else nan
    over = largest if saturates or t.bits < 8 else infinite
    signless = "0u" if t.is_unsigned_zero else "s"
    nan_result = f"({nan}u | s)" if has_signed_nan else nan
    over_result = f"({over}u | s)" if over != sign else f"{sign}u"
    return (
        f"@inline {kind} {name}(float x) {{\n"
        f"  const unsigned int b = bits_of_float32(x), s = (b >> 31) * {sign}u, a = b & 0x7fffffffu;\n"
        f"  if (a > 0x7f800000u) return ({kind}){nan_result};\n"
        f"  int e = (int)(a >> 23) - 127;\n  e = e < {least} ? {least} : e;\n"
        f"  if (e > {(1 << t.exponent) + 8}) return ({kind}){over_result};\n"
        f"  const float scaled = float32_of_bits(a) * float32_of_bits((unsigned int)({127 + m} - e) << 23);\n"
        f"  const unsigned int n = (unsigned int)rintf(scaled);\n"
        f"  unsigned int code = ((unsigned int)(e - {least}) << {m}) + n;\n"
        f"  if (code > {largest}u) return ({kind}){over_result};\n"
        f"  return ({kind})(code | (code ? s : {signless}));\n}}"
    )


_UNITS: Final = {"nearest_even": "rint", "toward_zero": "trunc", "down": "floor", "up": "ceil"}


def _rounded(match: re.Match[str]) -> Text:
    """A float type's value of a double, rounded once in a stated direction, as :func:`zellige.elements.conversion.rounded` says."""
    t, rounding, saturates = as_dtype(match[1]), match[2], bool(match[3])
    kind = "double" if t.name == "float64" else "float" if t.bits > 16 else storage_of(t)
    largest = f"{float(t.max)!r}"
    is_power = t.name == "float8_e8m0fnu"
    least = -127 if is_power else 1 - bias(t)
    lines = [
        "int e;", "(void)frexp(x, &e);", f"e = e - 1 < {least} ? {least} : e - 1;",
        f"double r = x - x != x - x ? x : ldexp({_UNITS[rounding]}(ldexp(x, {t.mantissa} - e)), e - {t.mantissa});",
    ]  # fmt: skip
    if is_power:
        lines.append(f"r = x > 0 ? fmax(r, {2.0**-127!r}) : {NAN64};")
    clipped = f"copysign({largest}, r)"
    beyond = clipped
    if not saturates and has_nan(t):
        outside = "copysign(float64_of_bits(0x7ff0000000000000ull), r)" if t.has_inf else NAN64
        inward = {"toward_zero": "true", "down": "r > 0", "up": "r < 0"}.get(rounding)
        beyond = outside if inward is None else f"x - x == x - x && ({inward}) ? {clipped} : {outside}"
    lines.append(f"if (fabs(r) > {largest}) r = {beyond};")
    needs = ["float64_of_bits"]
    if is_power:
        needs.append("bits_of_float64")
        lines.append("if (r != r) return 255;")
        lines.append("return (unsigned char)((bits_of_float64(r) >> 52) - 896);")
    elif t.bits > 16:
        lines.append("return r;" if t.name == "float64" else "return (float)r;")
    else:
        needs.append(f"{t.name}_of_float32")
        lines.append(f"return {needs[-1]}((float)r);")
    return f"@inline {kind} {match[0]}(double x) {{\n  " + "\n  ".join(lines) + "\n}", tuple(needs)


def _to_integer(match: re.Match[str]) -> Text:
    """An integer of a float: toward zero, saturated, NaN 0."""
    t, source = as_dtype(match[1]), match[2]
    kind, f = ("double", "") if source == "float64" else ("float", "f")
    integer = C_INTEGERS[max(8, 1 << (t.bits - 1).bit_length())][0 if t.is_signed else 1]
    low, high = int(t.min), int(t.max)
    least = f"(-{-low - 1}ll - 1)" if low < 0 else "0"
    return (
        f"@inline {integer} {match[0]}({kind} x) {{\n"
        f"  return x != x ? ({integer})0 : x <= {float(low)!r}{f} ? ({integer}){least} : "
        f"x >= {2.0 ** (t.bits - t.is_signed)!r}{f} ? ({integer}){high}{'ull' if not t.is_signed else 'll'} : ({integer})x;\n}}",
        (),
    )


def _next_after(match: re.Match[str]) -> Text:
    """The neighbour of a narrow float toward another: codes of one sign are in the order of their magnitudes."""
    t = as_dtype(match[1])
    kind, sign = storage_of(t), 1 << (t.bits - 1)
    decode, encode = f"float32_of_{t.name}", f"{t.name}_of_float32"
    if t.name == "float8_e8m0fnu":
        lines = [f"return ({kind})(x < y ? a + 1 : a - 1);"]
    else:
        lines = [
            f"if (x == 0) return ({kind})(y > 0 ? 1 : {sign | 1});",
            f"const {kind} next = ({kind})((x < y) == (x > 0) ? a + 1 : a - 1);",
            f"return {f'next == {sign} ? 0 : next' if t.is_unsigned_zero else 'next'};",
        ]
    head = f"const float x = {decode}(a), y = {decode}(b);\n  if (x != x || y != y) return {encode}(x + y);\n  if (x == y) return b;"
    return f"@inline {kind} {match[0]}({kind} a, {kind} b) {{\n  {head}\n  " + "\n  ".join(lines) + "\n}", (decode, encode)


IN_PARTS: Final = "#ifdef ELEMENTWISE"
"""Defined where a tensor begins between the accesses of several elements that a program makes: they are made one by one."""


def _wide_access(match: re.Match[str]) -> Text:
    """Several elements of a tensor at once, or one after the other."""
    word, size, part = match[1], int(match[2]), int(match[3])
    whole, kind = f"wide{size}", C_INTEGERS[8 * part][1]
    parts = f"{IN_PARTS}\n  alignas({size}) {kind} parts[{size // part}];\n"
    loop = f"  #pragma unroll\n  for (int i = 0; i < {size // part}; ++i)"
    if word == "load":
        return (
            f"{_MARK} {whole} {match[0]}(const void* from) {{\n{parts}"
            f"{loop} parts[i] = ((const {kind}*)from)[i];\n  return *({whole}*)parts;\n"
            f"#else\n  return *(const {whole}*)from;\n#endif\n}}",
            (),
        )
    return (
        f"{_MARK} void {match[0]}(void* to, {whole} x) {{\n{parts}"
        f"  *({whole}*)parts = x;\n{loop} (({kind}*)to)[i] = parts[i];\n#else\n  *({whole}*)to = x;\n#endif\n}}",
        (),
    )


_MADE: Final[tuple[tuple[str, Callable[[re.Match[str]], Text]], ...]] = (
    (r"splat(\d+)_(\w+)", _splat),
    (r"float_(max|min|max_nan|min_nan|truncdiv|truncmod|floormod|floordiv)(32|64)", _float_operation),
    (r"float32_of_(float16|bfloat16|float8\w*|float6\w*|float4\w*)", _decode),
    (r"(float16|bfloat16|float8\w*?|float6\w*?|float4\w*?)_of_float32(_saturated)?", _encode),
    (r"rounded_(\w+?)_(nearest_even|toward_zero|down|up)(_saturated)?", _rounded),
    (r"(u?int\d+)_of_(float32|float64)_saturated", _to_integer),
    (r"nextafter_(\w+)", _next_after),
    (r"(load|store)(\d+)_(\d+)", _wide_access),
)
