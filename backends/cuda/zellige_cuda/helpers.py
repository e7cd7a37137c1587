"""Functions of printed kernels that CUDA C++ does better than :mod:`zellige.simt.functions`, or alone: conversions, atomics, instructions.

In: a helper's name, as printers ask for it. Out: its CUDA C++ definition and the helpers that it uses.
"""

from __future__ import annotations

import re
from typing import Final

from zellige.diagnostics import InternalError
from zellige.dtypes import DType, dtype as as_dtype
from zellige.simt.functions import IN_PARTS, plain_function
from zellige.simt.words import C_INTEGERS, is_narrow
from zellige_cuda import engines

INLINE: Final = "static __device__ __forceinline__"
_D = INLINE

_FIXED: dict[str, tuple[str, tuple[str, ...]]] = {
    "shared_address": (
        f"{_D} unsigned int shared_address(const void* p) {{\n"
        '  unsigned int a;\n  asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(a) : "l"(p));\n  return a;\n}',
        (),
    ),
    "float32_of_bits": (f"{_D} float float32_of_bits(unsigned int x) {{ return __uint_as_float(x); }}", ()),
    "float64_of_bits": (f"{_D} double float64_of_bits(unsigned long long x) {{ return __longlong_as_double((long long)x); }}", ()),
    "bits_of_float32": (f"{_D} unsigned int bits_of_float32(float x) {{ return __float_as_uint(x); }}", ()),
    "bits_of_float64": (f"{_D} unsigned long long bits_of_float64(double x) {{ return (unsigned long long)__double_as_longlong(x); }}", ()),
    "float32_of_float64_odd": (
        f"{_D} float float32_of_float64_odd(double x) {{\n"
        "  const float r = __double2float_rz(x);\n"
        "  return (double)r == x || x != x || isinf_bits(r) ? r : __uint_as_float(__float_as_uint(r) | 1u);\n}",
        ("isinf_bits",),
    ),
    "nibbles": (  # eight elements of 4 bits, which registers hold one to a byte, in the one word that a product takes
        f"{_D} unsigned int nibbles(const unsigned int* bytes) {{\n"
        "  unsigned int low = bytes[0] & 0x0f0f0f0fu, high = bytes[1] & 0x0f0f0f0fu;\n"
        "  low = (low | low >> 4) & 0x00ff00ffu;\n  high = (high | high >> 4) & 0x00ff00ffu;\n"
        "  return ((low | low >> 8) & 0xffffu) | (high | high >> 8) << 16;\n}",
        (),
    ),
    "ones_of": (f"{_D} int ones_of(unsigned long long x) {{ return __popcll(x); }}", ()),
    "leading_zeros_of": (f"{_D} int leading_zeros_of(unsigned long long x) {{ return __clzll((long long)x); }}", ()),
    "isinf_bits": (f"{_D} bool isinf_bits(float x) {{ return (__float_as_uint(x) & 0x7fffffffu) == 0x7f800000u; }}", ()),
    "float64_of_int64_odd": (
        f"template <class T> {_D} double float64_of_int64_odd(T x) {{\n"
        "  const double r = (T)-1 < 0 ? __ll2double_rz((long long)x) : __ull2double_rz((unsigned long long)x);\n"
        "  const bool is_exact = (T)-1 < 0 ? __double2ll_rz(r) == (long long)x : __double2ull_rz(r) == (unsigned long long)x;\n"
        "  return is_exact ? r : __longlong_as_double(__double_as_longlong(r) | 1ll);\n}",
        (),
    ),
}

_FIXED["exp2_approximate"] = (
    f'{_D} float exp2_approximate(float x) {{ float y; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x)); return y; }}', ()
)
_FIXED["cp_async_commit"] = (f'{_D} void cp_async_commit() {{ asm volatile("cp.async.commit_group;" ::: "memory"); }}', ())
_FIXED["cp_async_wait"] = (
    f'template <int leave> {_D} void cp_async_wait() {{ asm volatile("cp.async.wait_group %0;" :: "n"(leave) : "memory"); }}',
    (),
)


def helper_text(name: str, arch: int) -> tuple[str, tuple[str, ...]]:
    """The definition of a helper and the names it uses. Raises InternalError for a name that is none."""
    if name in _FIXED:
        return _FIXED[name]
    if name == "fence_barriers" and arch < 90:
        return engines.FENCE_OF_BLOCK, ()
    if name in engines.FIXED:
        return engines.FIXED[name], ()
    if name == "barrier_wait":
        return engines.barrier_wait(arch), ()
    for pattern, make in (*_MADE, *engines.PATTERNS):
        match = re.fullmatch(pattern, name)
        if match:
            return make(match, arch)
    plain = plain_function(name, INLINE)
    if plain is None:
        raise InternalError(f"there is no helper {name}")
    return plain


# ---- floats ----


def _decode_half(match: re.Match[str], arch: int) -> tuple[str, tuple[str, ...]]:
    return f'{_D} float {match[0]}(unsigned short x) {{ float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }}', ()


def _encode_half(match: re.Match[str], arch: int) -> tuple[str, tuple[str, ...]]:
    """float16 and bfloat16 of a float, to the nearest, ties to even."""
    t, saturates = as_dtype(match[1]), bool(match[2])
    if t.name == "bfloat16" and arch < 80:
        found = plain_function(match[0], _D)
        assert found is not None
        return found
    limit, word = float(t.max), "f16" if t.name == "float16" else "bf16"
    clamp = f"  x = x != x ? x : fminf(fmaxf(x, -{limit!r}f), {limit!r}f);\n" if saturates else ""
    return (
        f"{_D} unsigned short {match[0]}(float x) {{\n{clamp}  unsigned short y;\n"
        f'  asm("cvt.rn.{word}.f32 %0, %1;" : "=h"(y) : "f"(x));\n  return y;\n}}',
        (),
    )


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
    counts = [(int(count), kind) for count, kind in re.findall(r"(\d+)([rfdn])", match[2])]
    types = {"r": "unsigned int", "f": "float", "d": "double"}
    number = 0
    groups: list[str] = []
    for count, _ in counts:
        groups.append("{" + ", ".join(f"%{number + i}" for i in range(count)) + "}")
        number += count
    (c_count, c_kind), (a_count, a_kind), (b_count, b_kind) = counts
    outs = ", ".join(f'"+{c_kind}"(c[{i}])' for i in range(c_count))
    constraint = {"n": "r"}
    ins = ", ".join(
        f'"{constraint.get(kind, kind)}"({name}[{i}])' for name, count, kind in (("a", a_count, a_kind), ("b", b_count, b_kind))
        for i in range(count)
    )  # fmt: skip

    def operand(name: str, given: str, count: int, kind: str) -> str:
        if kind != "n":
            return f"  const {types[kind]}* const {name} = (const {types[kind]}*){given};\n"
        words = ", ".join(f"nibbles((const unsigned int*){given} + {2 * i})" for i in range(count))
        return f"  const unsigned int {name}[{count}] = {{{words}}};\n"

    return (
        f"{_D} void {match[0]}(void* to, const void* left, const void* right) {{\n"
        f"  {types[c_kind]}* const c = ({types[c_kind]}*)to;\n"
        f"{operand('a', 'left', a_count, a_kind)}{operand('b', 'right', b_count, b_kind)}"
        f'  asm("{instruction} {groups[0]}, {groups[1]}, {groups[2]}, {groups[0]};" : {outs} : {ins});\n}}',
        ("nibbles",) if "n" in (a_kind, b_kind) else (),
    )


def _cp_async(match: re.Match[str], arch: int) -> tuple[str, tuple[str, ...]]:
    """PTX ISA 8.8, 9.7.9.25: cp.async; with a condition, zeros where it is False. By single elements it lands at once."""
    size, part, is_tested = int(match[1]), int(match[2]), bool(match[3])
    cached = "cg" if size == 16 else "ca"
    extra, tail = (", bool valid", f', "r"(valid ? {size} : 0)') if is_tested else ("", "")
    whole = (
        f'  asm volatile("cp.async.{cached}.shared.global [%0], [%1], {size}{", %2" if is_tested else ""};" '
        f':: "r"(to), "l"(from){tail} : "memory");\n'
    )
    kind = C_INTEGERS[8 * part][1]
    value = f"{'valid ? ' if is_tested else ''}(({'const '}{kind}*)from)[i]{' : 0' if is_tested else ''}"
    word, letter = ("unsigned short", "h") if part <= 2 else (kind, "r" if part == 4 else "l")
    parts = (
        f"  #pragma unroll\n  for (int i = 0; i < {size // part}; ++i)\n"
        f'    asm volatile("st.shared.b{8 * part} [%0], %1;" :: "r"(to + {part} * i), "{letter}"(({word})({value})) : "memory");\n'
    )
    head = f"{_D} void {match[0]}(unsigned int to, const void* from{extra}) {{\n"
    return f"{head}{IN_PARTS}\n{parts}#else\n{whole}#endif\n}}", ()


_MADE = (
    (r"float32_of_float16", _decode_half),
    (r"(float16|bfloat16)_of_float32(_saturated)?", _encode_half),
    (r"(u?int\d+)_of_(float32|float64)_saturated", _to_integer),
    (r"atomic_(add|sub|mul|max|min|and|or|xor|exchange)_(\w+)", _atomic),
    (r"(ld|st)matrix_x(\d)(_trans)?", _matrix),
    (r"(mma_\w+?)__((?:\d+[rfdn]_?)+)", _mma),
    (r"cp_async_(\d+)_(\d+)(_if)?", _cp_async),
)
