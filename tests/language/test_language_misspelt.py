"""Whoever misspells a name is told the nearest: wherever a user types one.

A name that resembles nothing gets the list of those that exist, and no suggestion.
"""

from __future__ import annotations

import linecache

import numpy as np
import pytest

import zellige as zl
import zellige.language as T
from zellige.diagnostics.suggest import closest, closest_argument, nearest
from zellige.driver import dump
from zellige.options import Options
from zellige.target import parse_target


@T.prim_func
def double(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
    with T.Kernel(1):
        for i in T.Parallel(8):
            B[i] = A[i] + A[i]


@zl.jit(target="cpu", out_idx=[-1])
def doubled(N, block_M=8):
    @T.prim_func
    def kernel(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block_M)) as bx:
            for i in T.Parallel(block_M):
                B[bx * block_M + i] = A[bx * block_M + i] * 2

    return kernel


@zl.jit(target="cpu")
def doubled_eager(A, block_M=8):
    N = T.const("N")
    A: T.Tensor((N,), "float32")
    B = T.empty((N,), "float32")
    with T.Kernel(1):
        for i in T.Parallel(N):
            B[i] = A[i] * 2
    return B


@zl.jit(target="cpu", out_idx=[1])
def copied(A, B):
    A: T.Tensor((8,), "float32")
    B: T.Tensor((8,), "float32")
    with T.Kernel(8) as bx:
        B[bx] = A[bx]


KERNEL = zl.compile(double, out_idx=[-1], target="cpu")
ONES = np.ones(8, np.float32)


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("blockM", ("block_N", "block_M", "block_K"), "block_M"),
        ("transpose_a", ("transpose_A", "transpose_B"), "transpose_A"),
        ("sm90", ("sm_80", "sm_90", "sm_90a"), "sm_90"),
        ("sm_81", ("sm_89", "sm_80", "sm_86"), "sm_80"),
        ("CPU", ("cpu", "cuda"), "cpu"),
        ("out_index", ("out_idx", "target"), "out_idx"),
        ("colour", ("out_idx", "target"), None),
        ("", ("cpu",), None),
        ("--", ("__", "cpu"), None),
        (3, ("3",), None),
        ("__clas__", ("__class__",), None),
        ("axis", ("buffer", "dim"), None),
        ("stages", ("stage", "num_stages"), "stage"),
        ("axis", ("axes",), "axes"),
    ],
)
def test_the_nearest_name(name, known, expected):
    assert nearest(name, known) == nearest(name, reversed(known)) == nearest(name, set(known)) == expected
    assert closest(name, known) == ("" if expected is None else f"; did you mean {expected!r}?")


@pytest.mark.parametrize(
    ("name", "known", "words"),
    [
        ("axis", ("buffer", "dim"), "; did you mean 'dim'?"),
        ("axis", ("axes",), "; did you mean 'axes'?"),
        ("stages", ("stage", "num_stages"), "; did you mean 'num_stages'?"),
        ("num_threads", ("threads",), "; did you mean 'threads'?"),
        ("num_warps", ("threads",), "; did you mean 'threads', which counts threads instead of groups of them?"),
        ("colour", ("threads",), ""),
    ],
)
def test_what_an_argument_is_called_elsewhere(name, known, words):
    """Of other names, such as variables, a word of another library says nothing."""
    assert closest_argument(name, known) == closest_argument(name, set(known)) == words
    assert closest("size", ("shape",)) == closest("num_warps", ("threads",)) == ""


CALLS = {
    "an option of compile": (lambda: zl.compile(double, out_index=[-1]), "E159", "zl.compile has no such option; did you mean 'out_idx'?"),
    "an option of jit": (lambda: zl.jit(pass_config={})(double), "E159", "zl.jit has no such option; did you mean 'pass_configs'?"),
    "an argument of a lazy function": (lambda: doubled(8, blockM=4), "E157", "'blockM'; did you mean 'block_M'?"),
    "tensors of a lazy function": (lambda: doubled(ONES, ONES, ONES), "E157", "makes the kernel; the tensors go to what it returns"),
    "an argument of an eager function": (lambda: doubled_eager(ONES, blockM=4), "E157", "'blockM'; did you mean 'block_M'?"),
    "an output of an eager function": (lambda: copied(ONES, ONES), "E157", "B, made by the call and returned: it is called as copied(A)"),
    "a constant of an eager function": (lambda: doubled_eager.compile(A=T.Tensor((8,), "float32"), n=8), "E157", "'n'; did you mean 'N'?"),
    "an argument of a kernel": (lambda: KERNEL(a=ONES), "E602", "double has no argument a; did you mean 'A'?"),
    "a target": (lambda: zl.compile(double, target="cppu"), "E705", "no backend has a target 'cppu'; did you mean 'cpu'?"),
    "a target in capitals": (lambda: zl.compile(double, target="Interp"), "E705", "'Interp'; did you mean 'interp'?"),
    "a target's option": (lambda: zl.compile(double, target="cuda:sm_80,simulat"), "E719", "'simulat'; did you mean 'simulate'?"),
    "an architecture": (lambda: zl.compile(double, target="cuda:sm81,simulate"), "E706", "'sm81'; did you mean 'sm_80'?"),
    "a target of explain": (lambda: zl.explain(double, "cpuu"), "E705", "did you mean 'cpu'?"),
    "a host": (lambda: zl.compile(double, target="cpu", target_host="lvm"), "E705", "'lvm'; did you mean 'llvm'?"),
    "a stage of passes": (lambda: zl.compile(double, passes=[("legalize", id)]), "E159", "no stage; did you mean 'legalise'?"),
    "a stage of a dump": (lambda: dump(double.kernel, parse_target("cpu"), "sourc"), "E743", "'sourc'; did you mean 'source'?"),
    "a timer": (lambda: zl.do_bench(int, backend="evnt"), "E630", "did you mean 'event'?"),
    "a kind of tensors": (lambda: KERNEL.get_profiler("Auto"), "E637", "did you mean TensorSupplyType.Auto?"),
    "a level of the log": (lambda: zl.set_log_level("debg"), "E159", "no log level; did you mean debug?"),
    "pass configs that are none": (lambda: zl.compile(double, pass_configs=["a"]), "E159", "pass_configs: expected a dictionary of keys"),
    "a folder that is none": (lambda: zl.compile(double, debug_root_path=5), "E159", "debug_root_path: expected the path of a folder, not"),
    "configurations that are none": (lambda: zl.autotune(configs=[4])(doubled)(8), "E159", "expected dictionaries, not int 4"),
    "a kernel for a number": (lambda: doubled.par_compile([3]), "E159", "configs: expected a dictionary or a tuple, not int 3"),
    "kernels for a number": (lambda: doubled.par_compile(3), "E159", "configs: expected a list, not int 3"),
    "a kernel for a text": (lambda: doubled.par_compile(["MN"]), "E159", "expected a dictionary or a tuple, not str 'MN'"),
    "one dictionary": (lambda: doubled.par_compile({"n": 8}), "E159", "configs: expected a list, not dict"),
    "a kernel for no name": (lambda: doubled.par_compile([{2: 8}]), "E159", "configs: expected names of arguments, not int 2"),
    "a number as a name": (lambda: zl.autotune(configs=[{1: 2}])(doubled)(8), "E159", "expected names of arguments, not int 1"),
    "a number for configurations": (lambda: zl.autotune(configs=4)(doubled)(8), "E159", "expected dictionaries, not int 4"),
    "a key of a configuration": (lambda: zl.autotune(configs=[{"blockM": 4}])(doubled)(8), "E635", "blockM; did you mean 'block_M'?"),
}  # fmt: skip


@pytest.mark.parametrize("what", CALLS)
def test_calls(what):
    call, code, words = CALLS[what]
    with pytest.raises(zl.ZelligeError) as caught:
        call()
    assert (caught.value.code, words in str(caught.value)) == (code, True), str(caught.value)


ATTRIBUTES = {
    "a method of a kernel": (lambda: KERNEL.get_kernel_sorce(), "'get_kernel_sorce'; did you mean 'get_kernel_source'?"),
    "a name of the package": (lambda: zl.autotunee, "'autotunee'; did you mean 'autotune'?"),
    "a name of the language": (lambda: T.Tenso, "T.Tenso; did you mean T.Tensor?"),
    "a key of the pass configs": (lambda: zl.PassConfigKey.TL_SIMPLFY, "'TL_SIMPLFY'; did you mean 'TL_SIMPLIFY'?"),
}


@pytest.mark.parametrize("what", ATTRIBUTES)
def test_attributes(what):
    call, words = ATTRIBUTES[what]
    with pytest.raises(AttributeError) as caught:
        call()
    assert words in str(caught.value)


def test_private_names_are_not_suggested():
    for name in ("explain", "explian"):
        with pytest.raises(AttributeError) as caught:
            getattr(KERNEL, name)
        assert str(caught.value) == f"a compiled kernel has no attribute {name!r}"


LINES = {
    "a dtype": ("x = T.alloc_shared((4,), 'flaot32')", "E217", "'flaot32' is not an element type; did you mean 'float32'?"),
    "a dtype of a cast": ("v[0] = T.cast(v[0], 'bflot16')", "E217", "did you mean 'bfloat16'?"),
    "a space": ("x = T.alloc_shared((4,), 'float32', scope='sharde')", "E413", "'sharde', which x is allocated in; did you mean 'shared'?"),
    "a policy": ("T.gemm(a, b, c, policy='full_row')", "E227", "did you mean T.GemmWarpPolicy.FullRow?"),
    "a policy's member": ("T.gemm(a, b, c, policy=T.GemmWarpPolicy.FullRows)", "E117", "did you mean 'FullRow'?\n"),
    "a reduction": ("T.reduce(a, v, 'summ', dim=1, clear=True)", "E257", "'summ' is not a reduction; did you mean 'sum'?"),
    "a reducer": ("x = T.alloc_reducer((4,), 'float32', op='mx')", "E233", "did you mean 'max'?"),
    "a replication": ("x = T.alloc_reducer((4,), 'float32', replication='al')", "E258", "'al'; did you mean 'all'?"),
    "a memory order": ("T.atomic_add(A[0, 0], 1.0, memory_order='relaxd')", "E238", "did you mean 'relaxed'?"),
    "an order of blocks": ("T.use_swizzle(4, order='rwo')", "E244", "did you mean 'row'?"),
    "an eviction policy": ("T.copy(A, a, eviction_policy='evict_frst')", "E258", "'evict_frst'; did you mean 'evict_first'?"),
    "an argument": ("T.gemm(a, b, c, transpose_a=True)", "E259", "did you mean 'transpose_A'?"),
}


def refusal(line):
    """The error of a kernel with that line, its 11th."""
    source = f"""
import zellige.language as T

@T.prim_func
def kernel(A: T.Tensor((16, 16), "float32")):
    with T.Kernel(1, threads=64):
        a = T.alloc_shared((16, 16), "float32")
        b = T.alloc_shared((16, 16), "float32")
        c = T.alloc_fragment((16, 16), "float32")
        v = T.alloc_fragment((16,), "float32")
        {line}
"""
    file = f"<misspelt {line}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)

    def compiled() -> None:
        names: dict[str, object] = {}
        exec(compile(source, file, "exec"), names)
        zl.compile(names["kernel"], target="cpu")

    with pytest.raises(zl.CompileError) as caught:
        compiled()
    return caught.value


@pytest.mark.filterwarnings("ignore::zellige.diagnostics.ZelligeWarning")
@pytest.mark.parametrize("what", LINES)
def test_lines_of_a_kernel(what):
    line, code, words = LINES[what]
    error = refusal(line)
    assert (error.code, words in str(error)) == (code, True), str(error)
    assert error.span is not None and error.span.line == 11
    assert error.hint != "FullRows"  # the text of Python's own error says no more than the name


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("x = T.zeros((4,), 'float32')", "the language has no T.zeros: tile = T.alloc_fragment(shape, dtype), then T.clear(tile)"),
        ("T.dot(a, b)", "the language has no T.dot: T.gemm(A, B, C) adds the product of tiles to C"),
        ("c = a @ b", "hint: tiles are multiplied by T.gemm(A, B, C), which adds the product to C"),
        ("c = a + b", "hint: tiles are computed element by element: for i in T.Parallel(n): C[i] = A[i] + B[i]"),
        ("d[0] = 1.0", "the name 'd' is not defined\n"),
        ("x = a[v[0] / 2, 0]", "an integer is needed as index or size, not a run-time float32 value\n"),
    ],
)
def test_words_of_other_libraries(line, words):
    """What whoever comes from NumPy or another language of kernels writes first."""
    assert words in str(refusal(line))


def test_a_function_of_sizes_called_with_tensors():
    with pytest.raises(zl.CompileError, match="E150: the argument N of doubled is a tensor") as caught:
        doubled(ONES)
    assert caught.value.hint == "doubled makes a kernel from sizes and options: call it with those, and what it returns with the tensors"


def test_settings_of_the_environment():
    with pytest.warns(zl.ZelligeWarning, match="ZELLIGE_TARGT is not a setting of zellige; did you mean ZELLIGE_TARGET"):
        Options.from_environment({"ZELLIGE_TARGT": "cpu"})
    with pytest.warns(zl.ZelligeWarning, match="ZELLIGE_NOTHING_LIKE_IT is not a setting of zellige; it has ZELLIGE_CACHE"):
        Options.from_environment({"ZELLIGE_NOTHING_LIKE_IT": "cpu"})
    with pytest.raises(zl.ZelligeError, match="E741") as caught:
        Options.from_environment({"ZELLIGE_CHECKS": "bound"})
    assert "did you mean 'bounds'?" in str(caught.value)


def test_a_name_that_resembles_nothing_gets_the_list():
    with pytest.raises(zl.CompileError, match="E705: no backend has a target 'banana'\n") as caught:
        zl.compile(double, target="banana")
    assert "cpu" in caught.value.hint and "NAME:" not in caught.value.hint
    with pytest.raises(zl.CompileError, match="E705") as caught:
        zl.compile(double, target="sm_81")
    assert "an architecture follows the name of its target, as in NAME:sm_81" in caught.value.hint


@pytest.mark.parametrize("target", ["auto,simulate", "auto:sm_80"])
def test_auto_takes_nothing_else(target):
    with pytest.raises(zl.CompileError, match="E719: the target auto has no (option 'simulate'|architecture 'sm_80')") as caught:
        zl.compile(double, target=target)
    assert "name the target that has it" in caught.value.hint


@pytest.mark.parametrize(("option", "value"), [("execution_backend", 3), ("target_host", {}), ("cached", "no"), ("force_compile", "yes")])
def test_options_without_effect_are_checked(option, value):
    with pytest.raises(zl.CompileError, match=f"E159: {option}: expected"):
        zl.compile(double, target="cpu", **{option: value})


def test_any_execution_backend_is_taken():
    kernel = zl.compile(double, out_idx=-1, target="cpu", execution_backend="cython", target_host="llvm", cached=True)
    assert np.array_equal(kernel(ONES), 2 * ONES)
