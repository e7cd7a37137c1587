"""Helper functions of printed kernels: narrow floats, conversions, integer and float operations with the tile IR's meaning, atomics.

In: a helper's name, as printers ask for it. Out: its CUDA C++ definition and the helpers that it uses.
"""

from __future__ import annotations

import re

import numpy as np

from zellige.diagnostics import InternalError
from zellige.dtypes import DType, dtype as as_dtype
from zellige.interp.conversion import bias, has_nan
from zellige.simt.printer import C_INTEGERS, is_narrow

_D = "static __device__ __forceinline__"

_FIXED: dict[str, tuple[str, tuple[str, ...]]] = {
    "shared_address": (
        f"{_D} unsigned int shared_address(const void* p) {{\n"
        '  unsigned int a;\n  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(a) : "l"(p));\n  return a;\n}',
        (),
    ),
    "trip_count": (
        f"{_D} long long trip_count(long long start, long long stop, long long step) {{\n"
        "  if (step == 0) return 0;\n"
        "  const unsigned long long s = step > 0 ? (unsigned long long)step : 0ull - (unsigned long long)step;\n"
        "  if (step > 0 ? start >= stop : start <= stop) return 0;\n"
        "  const unsigned long long d = step > 0 ? (unsigned long long)stop - start : (unsigned long long)start - stop;\n"
        "  return (long long)((d - 1) / s + 1);\n}",
        (),
    ),
    "float32_of_bits": (f"{_D} float float32_of_bits(unsigned int x) {{ return __uint_as_float(x); }}", ()),
    "float64_of_bits": (f"{_D} double float64_of_bits(unsigned long long x) {{ return __longlong_as_double((long long)x); }}", ()),
    "bits_of_float32": (f"{_D} unsigned int bits_of_float32(float x) {{ return __float_as_uint(x); }}", ()),
    "bits_of_float64": (f"{_D} unsigned long long bits_of_float64(double x) {{ return (unsigned long long)__double_as_longlong(x); }}", ()),
    "int4_of_bits": (f"{_D} signed char int4_of_bits(int x) {{ return (signed char)((x << 28) >> 28); }}", ()),
    "uint4_of_bits": (f"{_D} unsigned char uint4_of_bits(unsigned int x) {{ return (unsigned char)(x & 15u); }}", ()),
    "min": (f"template <class T> {_D} T min(T a, T b) {{ return b < a ? b : a; }}", ()),
    "max": (f"template <class T> {_D} T max(T a, T b) {{ return a < b ? b : a; }}", ()),
    "isnan": (f"template <class T> {_D} bool isnan(T x) {{ return x != x; }}", ()),
    "isinf": (f"template <class T> {_D} bool isinf(T x) {{ return x == x && x - x != x - x; }}", ()),
    "isfinite": (f"template <class T> {_D} bool isfinite(T x) {{ return x - x == x - x; }}", ()),
    "int_floordiv": (
        f"template <class T> {_D} T int_floordiv(T a, T b) {{\n"
        "  if (b == 0) return 0;\n  if ((T)-1 < 0 && b == (T)-1) return negated(a);\n"
        "  const T q = (T)(a / b);\n  return (T)(q * b != a && (a < 0) != (b < 0) ? q - 1 : q);\n}",
        ("negated",),
    ),
    "negated": (
        f"template <class T> {_D} T negated(T a) {{\n  const T b = (T)(0ull - (unsigned long long)a);\n  return b == a ? 0 : b;\n}}",
        (),
    ),
    "int_floormod": (
        f"template <class T> {_D} T int_floormod(T a, T b) {{\n"
        "  if (b == 0 || ((T)-1 < 0 && b == (T)-1)) return 0;\n"
        "  const T r = (T)(a % b);\n  return (T)(r != 0 && (r < 0) != (b < 0) ? r + b : r);\n}",
        (),
    ),
    "int_truncdiv": (
        f"template <class T> {_D} T int_truncdiv(T a, T b) {{\n"
        "  if (b == 0) return 0;\n  if ((T)-1 < 0 && b == (T)-1) return negated(a);\n"
        "  return (T)(a / b);\n}",
        ("negated",),
    ),
    "int_truncmod": (
        f"template <class T> {_D} T int_truncmod(T a, T b) {{ return b == 0 || ((T)-1 < 0 && b == (T)-1) ? 0 : (T)(a % b); }}",
        (),
    ),
    "shl_bits": (
        f"template <class T, class U> {_D} T shl_bits(T a, U n, int bits) {{\n"
        "  return n < 0 || n >= bits ? 0 : (T)((unsigned long long)a << n);\n}",
        (),
    ),
    "shr_bits": (
        f"template <class T, class U> {_D} T shr_bits(T a, U n, int bits) {{\n"
        "  return n < 0 || n >= bits ? (T)(a < 0 ? -1 : 0) : (T)(a >> n);\n}",
        (),
    ),
    "integer_power": (
        f"{_D} long long integer_power(long long x, long long y) {{\n"
        "  if (y < 0) return x == 1 ? 1 : x == -1 ? (y & 1 ? -1 : 1) : 0;\n"
        "  unsigned long long r = 1, b = (unsigned long long)x;\n"
        "  for (; y; y >>= 1, b *= b) if (y & 1) r *= b;\n  return (long long)r;\n}",
        (),
    ),
    "scaled32": (
        f"{_D} float scaled32(float x, float n) {{ return ldexpf(x, n != n ? 0 : (int)fminf(fmaxf(n, -10000.0f), 10000.0f)); }}",
        (),
    ),
    "scaled64": (
        f"{_D} double scaled64(double x, double n) {{ return ldexp(x, n != n ? 0 : (int)fmin(fmax(n, -10000.0), 10000.0)); }}",
        (),
    ),
    "float32_of_float64_odd": (
        f"{_D} float float32_of_float64_odd(double x) {{\n"
        "  const float r = __double2float_rz(x);\n"
        "  return (double)r == x || x != x || isinf_bits(r) ? r : __uint_as_float(__float_as_uint(r) | 1u);\n}",
        ("isinf_bits",),
    ),
    "isinf_bits": (f"{_D} bool isinf_bits(float x) {{ return (__float_as_uint(x) & 0x7fffffffu) == 0x7f800000u; }}", ()),
    "float64_of_int64_odd": (
        f"template <class T> {_D} double float64_of_int64_odd(T x) {{\n"
        "  const double r = (T)-1 < 0 ? __ll2double_rz((long long)x) : __ull2double_rz((unsigned long long)x);\n"
        "  const bool is_exact = (T)-1 < 0 ? __double2ll_rz(r) == (long long)x : __double2ull_rz(r) == (unsigned long long)x;\n"
        "  return is_exact ? r : __longlong_as_double(__double_as_longlong(r) | 1ll);\n}",
        (),
    ),
}

_FIXED["cp_async_commit"] = (f'{_D} void cp_async_commit() {{ asm volatile("cp.async.commit_group;" ::: "memory"); }}', ())
_FIXED["cp_async_wait"] = (
    f'template <int leave> {_D} void cp_async_wait() {{ asm volatile("cp.async.wait_group %0;" :: "n"(leave) : "memory"); }}',
    (),
)


def helper_text(name: str, arch: int) -> tuple[str, tuple[str, ...]]:
    """The definition of a helper and the names it uses. Raises InternalError for a name that is none."""
    if name in _FIXED:
        return _FIXED[name]
    for pattern, make in _MADE:
        match = re.fullmatch(pattern, name)
        if match:
            return make(match, arch)
    raise InternalError(f"there is no helper {name}")


# ---- wide values ----


def _splat(match: re.Match[str], arch: int) -> tuple[str, tuple[str, ...]]:
    width, kind = int(match[1]), match[2].replace("_", " ")
    name = match[0]
    if width <= 4:
        whole = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int"}[width]
    else:
        whole = f"wide{width}"
    return (
        f"{_D} {whole} {name}({kind} x) {{\n  alignas({width}) {kind} parts[{width} / sizeof({kind})];\n"
        f"  #pragma unroll\n  for (int i = 0; i < (int)({width} / sizeof({kind})); ++i) parts[i] = x;\n  return *({whole}*)parts;\n}}",
        (),
    )


# ---- floats ----


def _float_op(match: re.Match[str], arch: int) -> tuple[str, tuple[str, ...]]:
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
    return f"{_D} {t} {match[0]}({t} a, {t} b) {{\n  {body}\n}}", ()


def _decode(match: re.Match[str], arch: int) -> tuple[str, tuple[str, ...]]:
    """float of a narrow float's bits."""
    t = as_dtype(match[1])
    name = match[0]
    if t.name == "float16":
        return f'{_D} float {name}(unsigned short x) {{ float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }}', ()
    if t.name == "bfloat16":
        return f"{_D} float {name}(unsigned short x) {{ return __uint_as_float((unsigned int)x << 16); }}", ()
    if t.name == "float8_e8m0fnu":
        return (
            f"{_D} float {name}(unsigned char x) {{\n"
            "  return __uint_as_float(x == 255 ? 0x7fffffffu : x ? (unsigned int)x << 23 : 0x400000u);\n}",
            (),
        )
    e, m, bits = t.exponent, t.mantissa, t.bits
    offset = bias(t)
    special = _special_decode(t)
    return (
        f"{_D} float {name}(unsigned char x) {{\n"
        f"  const unsigned int e = (x >> {m}) & {(1 << e) - 1}u, f = x & {(1 << m) - 1}u;\n"
        f"  float y = e ? __uint_as_float(((e + {127 - offset}u) << 23) | (f << {23 - m})) : (float)f * {2.0 ** (1 - offset - m)!r}f;\n"
        f"{special}"
        f"  return x & {1 << (bits - 1)}u ? -y : y;\n}}",
        (),
    )


def _special_decode(t: DType) -> str:
    e, m = t.exponent, t.mantissa
    if t.is_unsigned_zero:
        return f"  if (x == {1 << (t.bits - 1)}u) return __uint_as_float(0x7fffffffu);\n"
    if t.has_inf:
        return f"  if (e == {(1 << e) - 1}u) y = f ? __uint_as_float(0x7fffffffu) : __uint_as_float(0x7f800000u);\n"
    if t.bits == 8:
        return f"  if ((x & 127u) == {((1 << e) - 1) << m | ((1 << m) - 1)}u) y = __uint_as_float(0x7fffffffu);\n"
    return ""


def _code(value: float, t: DType) -> int:
    array = np.array([value], np.float64).astype(t.numpy)
    return int(array.view(np.uint8 if array.dtype.itemsize == 1 else np.uint16)[0])


def _encode(match: re.Match[str], arch: int) -> tuple[str, tuple[str, ...]]:
    """A narrow float's bits of a float, to the nearest, ties to even."""
    t, saturates = as_dtype(match[1]), bool(match[2])
    name = match[0]
    if t.name == "float16":
        clamp = "  x = x != x ? x : fminf(fmaxf(x, -65504.0f), 65504.0f);\n" if saturates else ""
        return (
            f"{_D} unsigned short {name}(float x) {{\n{clamp}  unsigned short y;\n"
            '  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));\n  return y;\n}',
            (),
        )
    if t.name == "bfloat16":
        limit = float(t.max)
        clamp = f"  x = x != x ? x : fminf(fmaxf(x, -{limit!r}f), {limit!r}f);\n" if saturates else ""
        if arch >= 80:
            return (
                f"{_D} unsigned short {name}(float x) {{\n{clamp}  unsigned short y;\n"
                '  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));\n  return y;\n}',
                (),
            )
        return (
            f"{_D} unsigned short {name}(float x) {{\n{clamp}  const unsigned int b = __float_as_uint(x);\n"
            "  if (x != x) return (unsigned short)0x7fffu;\n  return (unsigned short)((b + 0x7fffu + ((b >> 16) & 1u)) >> 16);\n}",
            (),
        )
    if t.name == "float8_e8m0fnu":
        rounding = f"rounded_{t.name}_nearest_even{'_saturated' if saturates else ''}"
        return f"{_D} unsigned char {name}(float x) {{ return {rounding}((double)x); }}", (rounding,)
    return _encode_small(name, t, saturates), ()


def _encode_small(name: str, t: DType, saturates: bool) -> str:
    m, least, sign = t.mantissa, 1 - bias(t), 1 << (t.bits - 1)
    largest = _code(float(t.max), t) & (sign - 1)
    if t.is_unsigned_zero:
        nan = sign
    elif t.bits == 8:
        nan = _code(float("nan"), t) & (sign - 1)
    else:
        nan = sign  # no NaN: ml_dtypes gives negative zero
    infinite = _code(float("inf"), t) & (sign - 1) if t.has_inf else nan
    over = largest if saturates or t.bits < 8 else infinite
    signless = "0u" if t.is_unsigned_zero else "s"
    nan_result = nan if t.is_unsigned_zero or t.bits < 8 else f"({nan}u | s)"
    over_result = f"({over}u | s)" if over != sign else f"{sign}u"
    return (
        f"{_D} unsigned char {name}(float x) {{\n"
        f"  const unsigned int b = __float_as_uint(x), s = (b >> 31) * {sign}u, a = b & 0x7fffffffu;\n"
        f"  if (a > 0x7f800000u) return (unsigned char){nan_result};\n"
        f"  int e = (int)(a >> 23) - 127;\n  e = e < {least} ? {least} : e;\n"
        f"  if (e > {(1 << t.exponent) + 8}) return (unsigned char){over_result};\n"
        f"  const float scaled = __uint_as_float(a) * __uint_as_float((unsigned int)({127 + m} - e) << 23);\n"
        f"  const unsigned int n = __float2uint_rn(scaled);\n"
        f"  unsigned int code = ((unsigned int)(e - {least}) << {m}) + n;\n"
        f"  if (code > {largest}u) return (unsigned char){over_result};\n"
        f"  return (unsigned char)(code | (code ? s : {signless}));\n}}"
    )


_UNITS = {"nearest_even": "rint", "toward_zero": "trunc", "down": "floor", "up": "ceil"}


def _rounded(match: re.Match[str], arch: int) -> tuple[str, tuple[str, ...]]:
    """A float type's value of a double, rounded once in a stated direction, as :func:`zellige.interp.conversion.rounded` says."""
    t, rounding, saturates = as_dtype(match[1]), match[2], bool(match[3])
    kind = "double" if t.name == "float64" else "float" if t.bits > 16 else C_INTEGERS[max(8, t.bits)][1]
    largest = f"{float(t.max)!r}"
    is_power = t.name == "float8_e8m0fnu"
    least = -127 if is_power else 1 - bias(t)
    lines = [
        "int e;", "(void)frexp(x, &e);", f"e = e - 1 < {least} ? {least} : e - 1;",
        f"double r = x - x != x - x ? x : ldexp({_UNITS[rounding]}(ldexp(x, {t.mantissa} - e)), e - {t.mantissa});",
    ]  # fmt: skip
    if is_power:
        lines.append(f"r = x > 0 ? fmax(r, {2.0**-127!r}) : __longlong_as_double(0x7ff8000000000000ll);")
    clipped = f"copysign({largest}, r)"
    beyond = clipped
    if not saturates and has_nan(t):
        outside = "copysign(__longlong_as_double(0x7ff0000000000000ll), r)" if t.has_inf else "__longlong_as_double(0x7ff8000000000000ll)"
        inward = {"toward_zero": "true", "down": "r > 0", "up": "r < 0"}.get(rounding)
        beyond = outside if inward is None else f"x - x == x - x && ({inward}) ? {clipped} : {outside}"
    lines.append(f"if (fabs(r) > {largest}) r = {beyond};")
    needs: tuple[str, ...] = ()
    if is_power:
        lines.append("if (r != r) return 255;")
        lines.append("return (unsigned char)(((unsigned long long)__double_as_longlong(r) >> 52) - 896);")
    elif t.bits > 16:
        lines.append("return r;" if t.name == "float64" else "return (float)r;")
    else:
        needs = (f"{t.name}_of_float32",)
        lines.append(f"return {needs[0]}((float)r);")
    return f"{_D} {kind} {match[0]}(double x) {{\n  " + "\n  ".join(lines) + "\n}", needs


def _to_integer(match: re.Match[str], arch: int) -> tuple[str, tuple[str, ...]]:
    """An integer of a float: toward zero, saturated, NaN 0."""
    t, source = as_dtype(match[1]), match[2]
    kind, f = ("double", "double") if source == "float64" else ("float", "float")
    integer = C_INTEGERS[max(8, 1 << (t.bits - 1).bit_length())][0 if t.is_signed else 1]
    if t.bits >= 32:
        word = {(32, True): "int", (32, False): "uint", (64, True): "ll", (64, False): "ull"}[t.bits, t.is_signed]
        return f"{_D} {integer} {match[0]}({kind} x) {{ return x != x ? 0 : ({integer})__{f}2{word}_rz(x); }}", ()
    low, high = int(t.min), int(t.max)
    return (
        f"{_D} {integer} {match[0]}({kind} x) {{\n  const int y = x != x ? 0 : __{f}2int_rz(x);\n"
        f"  return ({integer})(y < {low} ? {low} : y > {high} ? {high} : y);\n}}",
        (),
    )


# ---- atomics ----


def _atomic(match: re.Match[str], arch: int) -> tuple[str, tuple[str, ...]]:
    """``old = *p; *p = op(old, v)`` indivisibly, by an instruction where there is one, else by compare and swap."""
    op, t = match[1], as_dtype(match[2])
    name = match[0]
    integer = C_INTEGERS[max(8, t.bits)][0 if t.is_signed and not t.is_float else 1] if not t.is_bool else "bool"
    kind = "float" if t.name in ("float32", "tfloat32") else "double" if t.name == "float64" else integer
    if t.is_integer and t.bits in (32, 64) and op != "mul":
        word = {"add": "Add", "sub": "Add", "max": "Max", "min": "Min", "and": "And", "or": "Or", "xor": "Xor", "exchange": "Exch"}[op]
        native = "int" if t.bits == 32 and t.is_signed else "unsigned int" if t.bits == 32 else "unsigned long long"
        if word in ("Max", "Min") and t.bits == 64:
            native = integer
        given = "0 - v" if op == "sub" else "v"
        return f"{_D} {kind} {name}({kind}* p, {kind} v) {{ return ({kind})atomic{word}(({native}*)p, ({native})({given})); }}", ()
    if kind in ("float", "double") and op in ("add", "sub"):
        return f"{_D} {kind} {name}({kind}* p, {kind} v) {{ return atomicAdd(p, {'-' if op == 'sub' else ''}v); }}", ()
    if kind == "float" and op == "exchange":
        return f"{_D} float {name}(float* p, float v) {{ return atomicExch(p, v); }}", ()
    return _compare_and_swap(name, op, t, kind)


def _compare_and_swap(name: str, op: str, t: DType, kind: str) -> tuple[str, tuple[str, ...]]:
    needs: list[str] = []
    if is_narrow(t):
        needs += [f"float32_of_{t.name}", f"{t.name}_of_float32"]
        old, value = f"float32_of_{t.name}(old)", f"float32_of_{t.name}(v)"
    else:
        old, value = "old", "v"
    is_float = t.is_float
    combined = {
        "add": f"{old} + {value}", "sub": f"{old} - {value}", "mul": f"{old} * {value}",
        "max": (f"fmax{'' if kind == 'double' else 'f'}({old}, {value})" if is_float else f"{old} < {value} ? {value} : {old}"),
        "min": (f"fmin{'' if kind == 'double' else 'f'}({old}, {value})" if is_float else f"{value} < {old} ? {value} : {old}"),
        "and": f"{old} & {value}", "or": f"{old} | {value}", "xor": f"{old} ^ {value}", "exchange": "v",
    }[op]  # fmt: skip
    if is_narrow(t) and op != "exchange":
        combined = f"{t.name}_of_float32({combined})"
    bits = 64 if kind == "double" else 32 if kind == "float" else max(8, t.bits)
    if bits in (32, 64):
        word = "unsigned int" if bits == 32 else "unsigned long long"
        to, back = (
            (f"({word})", f"({kind})") if kind not in ("float", "double")
            else ("__float_as_uint", "__uint_as_float") if bits == 32
            else ("(unsigned long long)__double_as_longlong", "__longlong_as_double")
        )  # fmt: skip
        return (
            f"{_D} {kind} {name}({kind}* p, {kind} v) {{\n  {word} seen = *(volatile {word}*)p;\n  for (;;) {{\n"
            f"    const {kind} old = {back}(seen);\n    const {word} before = atomicCAS(({word}*)p, seen, {to}({combined}));\n"
            "    if (before == seen) return old;\n    seen = before;\n  }\n}",
            tuple(needs),
        )
    mask = (1 << bits) - 1
    raw = "unsigned char" if bits == 8 else "unsigned short"
    return (
        f"{_D} {kind} {name}({kind}* p, {kind} v) {{\n"
        "  unsigned int* const word = (unsigned int*)((unsigned long long)p & ~3ull);\n"
        "  const unsigned int shift = (unsigned int)((unsigned long long)p & 3ull) * 8u;\n"
        "  unsigned int seen = *(volatile unsigned int*)word;\n  for (;;) {\n"
        f"    const {kind} old = ({kind})((seen >> shift) & {mask}u);\n"
        f"    const {kind} made = ({kind})({combined});\n"
        f"    const unsigned int next = (seen & ~({mask}u << shift)) | ((unsigned int)({raw})made << shift);\n"
        "    const unsigned int before = atomicCAS(word, seen, next);\n    if (before == seen) return old;\n    seen = before;\n  }\n}",
        tuple(needs),
    )


# ---- instructions of a warp, asynchronous copies ----


def _matrix(match: re.Match[str], arch: int) -> tuple[str, tuple[str, ...]]:
    """PTX ISA 8.8, 9.7.14.5.15 and 16: ldmatrix and stmatrix."""
    word, count, trans = match[1], int(match[2]), ".trans" if match[3] else ""
    names = ", ".join(f"%{i + (word == 'st')}" for i in range(count))
    if word == "ld":
        outs = ", ".join(f'"=r"(r[{i}])' for i in range(count))
        return (
            f"{_D} void {match[0]}(void* into, unsigned int p) {{\n  unsigned int* const r = (unsigned int*)into;\n"
            f'  asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{names}}}, [%{count}];" : {outs} '
            ': "r"(p) : "memory");\n}',
            (),
        )
    ins = ", ".join(f'"r"(r[{i}])' for i in range(count))
    return (
        f"{_D} void {match[0]}(unsigned int p, const void* from) {{\n  const unsigned int* const r = (const unsigned int*)from;\n"
        f'  asm volatile("stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%0], {{{names}}};" :: "r"(p), {ins} '
        ': "memory");\n}',
        (),
    )


def _mma(match: re.Match[str], arch: int) -> tuple[str, tuple[str, ...]]:
    """A product of a warp; the counts and kinds of the registers of c, a and b follow the instruction's name."""
    instruction = match[1].replace("__", "::").replace("_", ".")
    counts = [(int(count), kind) for count, kind in re.findall(r"(\d+)([rfd])", match[2])]
    types = {"r": "unsigned int", "f": "float", "d": "double"}
    number = 0
    groups: list[str] = []
    for count, _ in counts:
        groups.append("{" + ", ".join(f"%{number + i}" for i in range(count)) + "}")
        number += count
    (c_count, c_kind), (a_count, a_kind), (b_count, b_kind) = counts
    outs = ", ".join(f'"+{c_kind}"(c[{i}])' for i in range(c_count))
    ins = ", ".join([f'"{a_kind}"(a[{i}])' for i in range(a_count)] + [f'"{b_kind}"(b[{i}])' for i in range(b_count)])
    return (
        f"{_D} void {match[0]}(void* to, const void* left, const void* right) {{\n"
        f"  {types[c_kind]}* const c = ({types[c_kind]}*)to;\n  const {types[a_kind]}* const a = (const {types[a_kind]}*)left;\n"
        f"  const {types[b_kind]}* const b = (const {types[b_kind]}*)right;\n"
        f'  asm("{instruction} {groups[0]}, {groups[1]}, {groups[2]}, {groups[0]};" : {outs} : {ins});\n}}',
        (),
    )


def _cp_async(match: re.Match[str], arch: int) -> tuple[str, tuple[str, ...]]:
    """PTX ISA 8.8, 9.7.9.25: cp.async; with a condition, zeros where it is False."""
    size, is_tested = int(match[1]), bool(match[2])
    cached = "cg" if size == 16 else "ca"
    extra, tail = (", bool valid", f', "r"(valid ? {size} : 0)') if is_tested else ("", "")
    return (
        f"{_D} void {match[0]}(unsigned int to, const void* from{extra}) {{\n"
        f'  asm volatile("cp.async.{cached}.shared.global [%0], [%1], {size}{", %2" if is_tested else ""};" '
        f':: "r"(to), "l"(from){tail} : "memory");\n}}',
        (),
    )


def _next_after(match: re.Match[str], arch: int) -> tuple[str, tuple[str, ...]]:
    """The neighbour of a narrow float toward another: codes of one sign are in the order of their magnitudes."""
    t = as_dtype(match[1])
    kind, sign = C_INTEGERS[max(8, t.bits)][1], 1 << (t.bits - 1)
    decode, encode = f"float32_of_{t.name}", f"{t.name}_of_float32"
    if t.name == "float8_e8m0fnu":
        step = "(x < y ? a + 1 : a - 1)"
        lines = [f"return ({kind}){step};"]
    else:
        lines = [
            f"if (x == 0) return ({kind})(y > 0 ? 1 : {sign | 1});",
            f"const {kind} next = ({kind})((x < y) == (x > 0) ? a + 1 : a - 1);",
            f"return {f'next == {sign} ? 0 : next' if t.is_unsigned_zero else 'next'};",
        ]
    head = f"const float x = {decode}(a), y = {decode}(b);\n  if (x != x || y != y) return {encode}(x + y);\n  if (x == y) return b;"
    return f"{_D} {kind} {match[0]}({kind} a, {kind} b) {{\n  {head}\n  " + "\n  ".join(lines) + "\n}", (decode, encode)


_MADE = (
    (r"splat(\d+)_(\w+)", _splat),
    (r"float_(max|min|max_nan|min_nan|truncdiv|truncmod|floormod|floordiv)(32|64)", _float_op),
    (r"float32_of_(float16|bfloat16|float8\w*|float6\w*|float4\w*)", _decode),
    (r"(float16|bfloat16|float8\w*?|float6\w*?|float4\w*?)_of_float32(_saturated)?", _encode),
    (r"rounded_(\w+?)_(nearest_even|toward_zero|down|up)(_saturated)?", _rounded),
    (r"(u?int\d+)_of_(float32|float64)_saturated", _to_integer),
    (r"atomic_(add|sub|mul|max|min|and|or|xor|exchange)_(\w+)", _atomic),
    (r"nextafter_(\w+)", _next_after),
    (r"(ld|st)matrix_x(\d)(_trans)?", _matrix),
    (r"(mma_\w+?)__((?:\d+[rfd]_?)+)", _mma),
    (r"cp_async_(\d+)(_if)?", _cp_async),
)
