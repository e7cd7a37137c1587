"""CUDA C++ as a language of the family: types, registers, conversions, mathematics and instructions, without any header.

In: nodes of thread-level programs. Out: text for :mod:`zellige.simt.printer`. Instructions are inline PTX; their operands' layouts are
facts of :mod:`zellige_cuda.forms`. Source of instruction syntax: PTX ISA 8.8, sections 9.7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zellige.diagnostics import InternalError
from zellige.diagnostics.span import Span
from zellige.dtypes import DType
from zellige.ir.expr import Buffer, Cast, Expr, Math, Var
from zellige.ir.stmt import Assert, Atomic, Barrier, Print, Shuffle, Vote
from zellige.simt.distribution import Distribution
from zellige.simt.expression_printer import ExpressionPrinter
from zellige.simt.ir import (
    LANE,
    THREAD,
    WARP,
    AsyncCopy,
    BoxMap,
    CommitCopies,
    Fence,
    Function,
    MatrixLoad,
    MatrixStore,
    NamedBarrier,
    Opaque,
    PartedShuffle,
    PartedVote,
    Product,
    ProductForm,
    Registers,
    Taking,
    WaitCopies,
)
from zellige.simt.printer import Printer
from zellige.simt.spelling import WIDE, PlainSpelling
from zellige.simt.words import declared_in, is_narrow, type_of
from zellige_cuda.engines import HIDING, MAP_TYPE, SHOWING, engine_statement, map_parameter, opaque
from zellige_cuda.helpers import INLINE, helper_text
from zellige_cuda.records import HELPERS, PARAMETER, Site, uses_records
from zellige_cuda.variants import WITHOUT_BOXES

_AXES = ("x", "y", "z")

_FAST32 = {"exp": "__expf", "exp10": "__exp10f", "log": "__logf", "log2": "__log2f", "log10": "__log10f", "sin": "__sinf", "cos": "__cosf",
           "tan": "__tanf", "pow": "__powf"}  # fmt: skip


RESERVED = frozenset(("threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize", "records", "record", "failed", "LANES", "BLOCKS_BESIDE"))
RESERVED |= {HIDING, SHOWING, WITHOUT_BOXES, *declared_in(MAP_TYPE), "cuda[A-Z]*", "CUDA_*", "CUDART*", "CU_*", "NV_*"}
"""Names that no variable or kernel has: the language's own, those of the text around kernels, and how the names of the runtime's types,
enumerators and macros begin, which compilers declare too."""

_MATH = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 erf erfc erfcinv erfcx "
    "erfinv exp exp10 exp2 expm1 fabs fdim fdivide floor fma fmax fmin fmod frexp hypot ilogb j0 j1 jn ldexp lgamma llrint llround "
    "log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter norm norm3d norm4d normcdf normcdfinv pow rcbrt remainder "
    "remquo rhypot rint rnorm rnorm3d rnorm4d round rsqrt scalbln scalbn sin sincos sincospi sinh sinpi sqrt tan tanh tgamma trunc y0 "
    "y1 yn"
)

_TAKEN = (
    "abs labs llabs umax umin llmax llmin ullmax ullmin clock clock64 malloc free printf std dim3 clock_t size_t ptrdiff_t va_list "
    "wchar_t CUuuid libraryPropertyType MAJOR_VERSION MINOR_VERSION PATCH_LEVEL WARP_SZ A7"
)

DECLARED = frozenset(f"{name}{end}" for name in _MATH.split() for end in ("", "f")) | frozenset(_TAKEN.split())
"""Names that compilers declare before a program's first line: no kernel has them, a variable may. ``WARP_SZ`` is a constant of
PTX, and NVRTC 13.5 does not survive a function called ``A7``."""

ALL = "0xffffffffu"
"""The mask of a whole warp."""


class CudaSpelling(PlainSpelling):
    """``arch`` is the compute capability times ten: 80, 89, 90."""

    inline = INLINE
    fast32 = _FAST32

    def __init__(self, arch: int, *, is_fast: bool = False) -> None:
        super().__init__("cuda", is_fast=is_fast)
        self.arch = arch
        self.sites: list[Site] = []

    def math(self, printer: ExpressionPrinter, node: Math, args: Sequence[str]) -> str:
        """As the family has it; the fast power of two has no name of its own in CUDA C++."""
        if node.function == "exp2" and self.may_be_fast(node) and node.args[0].dtype.name != "float64":
            return f"{printer.need('exp2_approximate')}({args[0]})"
        return super().math(printer, node, args)

    # ---- the unit and its kernels ----

    def opening(self) -> str:
        return (
            "#ifdef BLOCKS_BESIDE\n#define LANES(count) __launch_bounds__(count, BLOCKS_BESIDE)\n"
            f"#else\n#define LANES(count) __launch_bounds__(count)\n#endif\n"
            f'#ifdef {SHOWING}\n#define {HIDING}(number)\n#else\n#define {HIDING}(number) asm volatile("" : "+r"(number))\n#endif\n{WIDE}'
            + (f"\n{MAP_TYPE}" if self.arch >= 90 else "")
        )

    def reserved(self) -> frozenset[str]:
        return super().reserved() | RESERVED

    def signature(self, function: Function, params: Sequence[str]) -> str:
        given = [*params, PARAMETER] if uses_records(function) else params
        lanes = f"__launch_bounds__({function.threads}, {function.min_blocks})" if function.min_blocks else f"LANES({function.threads})"
        cluster = "" if function.cluster is None else f"__cluster_dims__({', '.join(map(str, function.cluster))}) "
        return f'extern "C" __global__ void {cluster}{lanes} {function.name}({", ".join(given)})'

    def map_parameter(self, printer: Printer, param: BoxMap) -> str:
        return map_parameter(printer, param)

    def shared(self, printer: Printer, function: Function) -> str:
        address = f"const unsigned int shared_at = {printer.need('shared_address')}(shared);"
        return f"extern __shared__ __align__(1024) unsigned char shared[];\n{address}"

    def _shared_at(self, printer: Printer, buffer: Buffer, index: Expr) -> str:
        """An element's 32-bit address in shared memory, as instructions want it."""
        return f"shared_at + {printer.shared_offset(buffer, index)}"

    def special(self, var: Var, function: Function) -> str:
        if var is THREAD:
            return "(int)threadIdx.x"
        if var is LANE:
            return f"(int)threadIdx.x % {function.lanes}"
        if var is WARP:
            return f"__shfl_sync(0xffffffffu, (int)threadIdx.x / {function.lanes}, 0)"
        place = function.grid_vars.index(var)
        return f"(int)blockIdx.{_AXES[place]}"

    def helper(self, name: str) -> tuple[str, tuple[str, ...]]:
        return (HELPERS[name], ()) if name in HELPERS else helper_text(name, self.arch)

    def double_of_int64(self, cast: Cast, value: str) -> str:
        mode = {"nearest_even": "rn", "toward_zero": "rz", "down": "rd", "up": "ru"}[cast.rounding]
        kind, word = ("long long", "ll") if cast.value.dtype.is_signed else ("unsigned long long", "ull")
        return f"__{word}2double_{mode}(({kind}){value})"

    # ---- lanes ----

    def shuffle(self, printer: Printer, node: Shuffle, value: str, operand: str) -> str:
        word = {"xor": "__shfl_xor_sync", "up": "__shfl_up_sync", "down": "__shfl_down_sync", "index": "__shfl_sync"}[node.mode]
        t = node.value.dtype
        is_small = t.is_bool or t.bits < 32
        given = f"(int){value}" if is_small else value
        lanes = _mask(printer, node.among) if isinstance(node, PartedShuffle) else ALL
        text = f"{word}({lanes}, {given}, (int)({operand}), {node.width})"
        return f"({type_of(t)}){text}" if is_small else text

    def vote(self, printer: Printer, node: Vote, predicate: str) -> str:
        t = type_of(node.result.dtype)
        if node.scope == "warp":
            mask = _mask(printer, node.among) if isinstance(node, PartedVote) else ALL
            text = {
                "any": f"__any_sync({mask}, {predicate})", "all": f"__all_sync({mask}, {predicate})",
                "count": f"__popc(__ballot_sync({mask}, {predicate}))", "ballot": f"__ballot_sync({mask}, {predicate})",
            }[node.mode]  # fmt: skip
        elif node.scope == "block" and node.mode != "ballot":
            word = {"any": "__syncthreads_or", "all": "__syncthreads_and", "count": "__syncthreads_count"}[node.mode]
            text = f"{word}({predicate})"
        else:
            raise self.refuse(f"a vote of the {node.scope}", node.span)
        return f"({t})({text} != 0)" if node.result.dtype.is_bool else f"({t}){text}"

    # ---- statements ----

    def statement(self, printer: Printer, statement: Any) -> str:
        match statement:
            case Taking(result=result, among=among, condition=condition):
                ballot = f"__ballot_sync({ALL if among is None else _mask(printer, among)}, {printer.value(condition)})"
                return f"{printer.declared(result)}{printer.name(result)} = {ballot};"
            case Barrier(scope="block"):
                return "__syncthreads();"
            case Barrier(scope="warp"):
                return "__syncwarp();"
            case Barrier(scope="cluster") if printer.function.cluster is not None:
                return f"{printer.need('cluster_barrier')}();"
            case Barrier():
                raise self.refuse_scope("a barrier", statement.scope, statement.span)  # blocks of a launch need not run at once
            case Atomic():
                return self._atomic(printer, statement)
            case MatrixLoad():
                return self._matrix_load(printer, statement)
            case MatrixStore():
                return self._matrix_store(printer, statement)
            case Product():
                return self._product(printer, statement)
            case AsyncCopy():
                return self._async_copy(printer, statement)
            case CommitCopies():
                return f"{printer.need('cp_async_commit')}();"
            case WaitCopies(leave=leave):
                return f"{printer.need('cp_async_wait')}<{leave}>();"
            case NamedBarrier(mode="arrive"):
                return f'asm volatile("bar.arrive %0, {statement.lanes};" :: "r"({printer.value(statement.number)}) : "memory");'
            case NamedBarrier(mode="join"):
                return f'asm volatile("bar.sync %0, {statement.lanes};" :: "r"({printer.value(statement.number)}) : "memory");'
            case Fence(to="grid"):
                return "__threadfence();"
            case Opaque(of=of):
                return "\n".join(opaque(printer, thing) for thing in of)
            case Print():
                return self._print(printer, statement)
            case Assert():
                return self._assert(printer, statement)
            case _:
                text = engine_statement(printer, statement)
                if text is None:
                    raise InternalError(f"{type(statement).__name__} has no spelling yet")
                return text

    def _site(self, message: str, dtype: str, span: Span | None, *, is_assertion: bool) -> int:
        site = Site(message=message, dtype=dtype, is_assertion=is_assertion, span=span)
        if site not in self.sites:
            self.sites.append(site)
        return self.sites.index(site)

    def _assert(self, printer: Printer, statement: Assert) -> str:
        """Noted for the caller; the lane ends."""
        site = self._site(statement.message, "", statement.span, is_assertion=True)
        return f"if (!({printer.value(statement.condition)})) {{ {printer.need('failed')}(records, {site}ull); return; }}"

    def _print(self, printer: Printer, statement: Print) -> str:
        """The bits of the value, which the host writes as every backend does."""
        value = statement.value
        note = printer.need("record")
        if value is None:
            return f"{note}(records, {self._site(statement.message, '', statement.span, is_assertion=False)}ull, 0ull);"
        t = value.dtype  # type: ignore[union-attr]
        text = printer.value(value)  # type: ignore[arg-type]
        if t.is_float and not is_narrow(t):
            text = f"{printer.need('bits_of_float64' if t.name == 'float64' else 'bits_of_float32')}({text})"
        site = self._site(statement.message, t.name, statement.span, is_assertion=False)
        return f"{note}(records, {site}ull, (unsigned long long){text});"

    def _atomic(self, printer: Printer, statement: Atomic) -> str:
        t = statement.buffer.dtype
        address = printer.address(statement.buffer, statement.indices[0])
        kind = type_of(t)
        op = statement.op
        before = "__threadfence(); " if statement.order in ("release", "acq_rel", "seq_cst") else ""
        after = " __threadfence();" if statement.order in ("acquire", "acq_rel", "seq_cst") else ""
        if op == "load":
            text = f"*(volatile {kind}*){address}"
        elif op == "store":
            assert statement.value is not None
            return f"{before}*(volatile {kind}*){address} = {printer.value(statement.value)};{after}"
        else:
            assert statement.value is not None
            name = printer.need(f"atomic_{op}_{t.name}")
            text = f"{name}({address}, {printer.value(statement.value)})"
        if statement.result is None:
            return f"{before}{text};{after}"
        declared = printer.declared(statement.result)
        return f"{before}{declared}{printer.name(statement.result)} = {text};{after}"

    def _registers(self, printer: Printer, registers: Registers) -> str:
        """The address of consecutive registers."""
        return f"{printer.name(registers.buffer.root)} + {printer.value(registers.start)}"

    def _matrix_load(self, printer: Printer, node: MatrixLoad) -> str:
        name = printer.need(f"ldmatrix_x{node.count}{'_trans' if node.is_transposed else ''}")
        return f"{name}({self._registers(printer, node.into)}, {self._shared_at(printer, node.buffer, node.source)});"

    def _matrix_store(self, printer: Printer, node: MatrixStore) -> str:
        name = printer.need(f"stmatrix_x{node.count}{'_trans' if node.is_transposed else ''}")
        return f"{name}({self._shared_at(printer, node.buffer, node.target)}, {self._registers(printer, node.registers)});"

    def _product(self, printer: Printer, node: Product) -> str:
        form = node.form
        counts = "_".join(f"{layout.registers * t.bits // _word_bits(t)}{_kind(t)}" for layout, t in _operands_of(form))
        name = printer.need(f"{form.name.replace('.', '_').replace('::', '__')}__{counts}")
        a, b, c = (self._registers(printer, r) for r in (node.a, node.b, node.c))
        return f"{name}({c}, {a}, {b});"

    def _async_copy(self, printer: Printer, node: AsyncCopy) -> str:
        target = self._shared_at(printer, node.target, node.target_index)
        source = printer.address(node.source, node.source_index)
        name = f"cp_async_{node.size}_{min(node.size, max(1, node.source.dtype.scalar.bytes))}"
        if node.is_valid is None:
            return f"{printer.need(name)}({target}, {source});"
        return f"{printer.need(f'{name}_if')}({target}, {source}, {printer.value(node.is_valid)});"


def _mask(printer: Printer, among: Var | None) -> str:
    """The mask of an instruction for lanes that parted. Where nobody knows who takes part it is for those that the machine runs together
    at this moment, and the machine promises of no two lanes that it does (docs/tile-ir.md)."""
    return "__activemask()" if among is None else f"(unsigned int){printer.name(among)}"


def _operands_of(form: ProductForm) -> tuple[tuple[Distribution, DType], ...]:
    return (form.c_layout, form.c), (form.a_layout, form.a), (form.b_layout, form.b)


def _word_bits(t: DType) -> int:
    return 64 if t.name == "float64" else 32


def _kind(t: DType) -> str:
    if t.bits == 4:
        return "n"  # one to a byte in registers, to be packed
    return "d" if t.name == "float64" else "f" if t.name == "float32" else "r"
